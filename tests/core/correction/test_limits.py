"""A correction that would exhaust memory or time is refused, quickly, wherever it comes
from.
"""

import contextlib
import json
from time import process_time

import numpy as np
import pytest

from propcal import Correction, Groups, PMCBoost
from propcal.core.correction.map_compiler import MAX_PYTHON_STEPS, MapCompiler
from propcal.errors import FileFormatError, InputError

UNIT = 1 << 32
TENTHS = [j * UNIT // 10 for j in range(11)]


def text_of(
    patterns, updates, *, groups=((),), edges=TENTHS, start=(), attributes=("a",)
):
    return json.dumps(
        {
            "format": "propcal-correction",
            "version": 2,
            "unit": "2**-32",
            "about": {},
            "attributes": list(attributes),
            "derived": {},
            "bins": {"kind": "explicit", "divisor": 10, "edges": edges},
            "groups": [list(group) for group in groups],
            "patterns": patterns,
            "unseen": "replay",
            "start": list(start),
            "updates": updates,
        }
    )


def saw(smallest, patterns=(["x"],)):
    """Each update doubles the pieces: what is left of a score after division by
    2**smallest.
    """
    edges = [0, *(1 << k for k in range(smallest, 33))]
    updates = [[0, b, -edges[b]] for b in range(len(edges) - 2, 0, -1)]
    return text_of(list(patterns), updates, edges=edges)


def levels(n):
    return [[str(i)] for i in range(n)]


def seconds(text):
    began = process_time()
    with contextlib.suppress(FileFormatError):
        Correction.from_json(text)
    return process_time() - began


@pytest.fixture(scope="module", autouse=True)
def compiled():
    Correction.from_json(text_of([["x"]], [[0, 0, 100]])).explain([0.5], {"a": ["x"]})


def test_a_few_updates_that_make_millions_of_pieces_are_refused():
    assert len(saw(8)) < 1000
    with pytest.raises(
        FileFormatError,
        match=r"its 24 adjustments would give more than 4,194,304 pieces",
    ):
        Correction.from_json(saw(8))
    with pytest.raises(FileFormatError, match="its 31 adjustments"):
        Correction.from_json(saw(1))


def test_pieces_are_counted_over_all_patterns():
    Correction.from_json(saw(20, levels(100)))
    with pytest.raises(FileFormatError, match="pieces"):
        Correction.from_json(saw(20, levels(2000)))


def test_many_pieces_up_to_the_limit_are_right():
    correction = Correction.from_json(saw(12))
    score = np.random.default_rng(0).random(1000)
    raw = np.floor(score * UNIT + 0.5)
    np.testing.assert_array_equal(
        correction.apply(score, {"a": ["x"] * 1000}), raw % (1 << 12) / UNIT
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            lambda: text_of(levels(60_000), [[0, i % 10, i] for i in range(100_000)]),
            id="work",
        ),
        pytest.param(
            lambda: text_of(
                levels(60_000), [], groups=[[["a", str(i)]] for i in range(10_000)]
            ),
            id="groups times patterns",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: text_of(
                levels(60_000),
                [],
                start=[[[["a", str(i)]], [1] * 193] for i in range(2_000)],
            ),
            id="terms of a start",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: text_of([["x"]], [], edges=[*range(100_000), UNIT]), id="bins"
        ),
        pytest.param(lambda: saw(10), id="pieces"),
    ],
)
def test_refusing_takes_little_time(text):
    text = text()
    with pytest.raises(FileFormatError, match=r"refused|damaged"):
        Correction.from_json(text)
    assert seconds(text) < 5  # about one on a machine that does nothing else


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            lambda: text_of(
                levels(60_000),
                [[0, i % 10, i] for i in range(100_000)],
                groups=[[["a", "1"]]],
            ),
            id="updates that concern one pattern",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: text_of(
                [["x"]],
                [[0, 0, UNIT // 4 + i] for i in range(20_000)],
                edges=[0, UNIT // 2, *(UNIT // 2 + i for i in range(1, 9_900)), UNIT],
            ),
            id="wide shifts",
        ),
    ],
)
def test_updates_that_move_nobody_take_little_time(text):
    text = text()
    assert Correction.from_json(text).apply([0.3], {"a": ["x"]})[0] > 0
    assert seconds(text) < 5


def test_many_patterns_and_levels_load_in_time_proportional_to_them():
    few, many = (seconds(text_of(levels(n), [[0, 0, 100]])) for n in (5_000, 40_000))
    assert many < 40 * max(few, 0.02)


def test_honest_files_load_in_few_steps(monkeypatch):
    monkeypatch.setattr(
        "propcal.core.correction.definition.MAX_STEPS_ON_LOADING", MAX_PYTHON_STEPS
    )
    rng = np.random.default_rng(0)
    names = [f"level {i}" for i in range(56)]
    updates = np.stack(
        [rng.integers(0, 8, 1000), rng.integers(0, 10, 1000), rng.normal(0, 4e7, 1000)],
        axis=1,
    )
    groups = [[], *([["a", name]] for name in names[:7])]
    text = text_of(
        [[name] for name in names], updates.astype(int).tolist(), groups=groups
    )
    correction = Correction.from_json(text)
    assert len(correction.patterns) == 56
    assert "maps" in vars(correction)  # compiled within these steps


@pytest.mark.parametrize("at_once", [5, 50])
def test_more_work_than_loading_may_do_is_left_for_later(monkeypatch, at_once):
    monkeypatch.setattr(
        "propcal.core.correction.definition.MAX_STEPS_ON_LOADING", at_once
    )
    text = text_of(levels(20), [[0, 0, 100]])
    correction = Correction.from_json(text)
    assert "maps" not in vars(correction)
    assert correction.apply([0.05], {"a": ["3"]})[0] == pytest.approx(0.05, abs=1e-6)
    monkeypatch.setattr("propcal.core.correction.map_compiler.MAX_PIECES", 30)
    with pytest.raises(
        InputError, match=r"too large: its .* adjustment would give more than"
    ):
        Correction.from_json(text).apply([0.05], {"a": ["3"]})


def test_people_to_be_scored_cannot_ask_for_more_either(monkeypatch):
    correction = Correction.from_json(text_of(levels(20), [[0, 0, 100]]))
    monkeypatch.setattr("propcal.core.correction.map_compiler.MAX_STEPS", 10)
    with pytest.raises(
        InputError, match=r"1 adjustment would take .* steps for 1 pattern,"
    ):
        correction.apply([0.1, 0.2], {"a": ["new", "other"]})


def test_the_other_people_of_a_batch_do_not_matter_to_the_limits(monkeypatch):
    attributes = ("a", "b", "c")
    groups = [[], *([[name, str(i)]] for name in attributes for i in range(5))]
    rng = np.random.default_rng(0)
    updates = np.stack(
        [rng.integers(0, 16, 60), rng.integers(0, 10, 60), rng.normal(0, 3e8, 60)],
        axis=1,
    )
    start = [[[["a", "1"]], [1000 * i for i in range(193)]]]
    rows = {name: rng.integers(0, 5, 2000).astype(str) for name in attributes}
    score = rng.random(2000)
    for more in ((), start):
        seen = [[str(i), str(i), str(i)] for i in range(5)]
        text = text_of(
            seen,
            updates.astype(int).tolist(),
            groups=groups,
            attributes=attributes,
            start=more,
        )
        whole = Correction.from_json(text)
        expected = {n: whole.apply(score, rows, n_updates=n) for n in (None, 7)}
        kept = whole.apply(score, rows, unseen="keep")
        pieces = max(np.diff(whole.replay(whole.patterns).starts))
        with monkeypatch.context() as patch:
            # a limit that two patterns together exceed, and blocks of a few patterns
            patch.setattr("propcal.core.correction.definition.MAX_PATTERNS_AT_ONCE", 7)
            small = Correction.from_json(text)
            _ = small.maps
            patch.setattr("propcal.core.correction.map_compiler.MAX_PIECES", 3 * pieces)
            for n, found in expected.items():
                np.testing.assert_array_equal(
                    small.apply(score, rows, n_updates=n), found
                )
            np.testing.assert_array_equal(small.apply(score, rows, unseen="keep"), kept)
            patch.setattr("propcal.core.correction.map_compiler.MAX_PIECES", 2)
            with pytest.raises(InputError, match="pieces for 1 pattern"):
                small.apply(score, rows, n_updates=50)


def test_an_explanation_is_bounded(monkeypatch):
    back_and_forth = [
        [0, j % 2, (UNIT // 2 if j % 2 == 0 else -UNIT // 2)] for j in range(3000)
    ]
    correction = Correction.from_json(
        text_of([["x"]], back_and_forth, edges=[0, UNIT // 2, UNIT])
    )
    assert len(correction.explain([0.25], {"a": ["x"]}).steps) == 3000
    monkeypatch.setattr("propcal.core.correction.traced_steps.MAX_TRACED_STEPS", 5000)
    with pytest.raises(
        InputError, match="2 people and 3,000 updates are too many to explain at once"
    ):
        correction.explain([0.25, 0.2], {"a": ["x"] * 2})
    monkeypatch.setattr("propcal.core.correction.traced_steps.MAX_TRACED", 2000)
    with pytest.raises(InputError, match="too many to explain"):
        correction.explain([0.25], {"a": ["x"]})


def test_steps_are_the_segments_that_updates_move_or_make():
    inside = np.array([[True, False], [True, True]])
    updates = np.array([[0, 0, UNIT // 10], [1, 1, -UNIT // 20], [1, 1, UNIT]])
    compiler = MapCompiler(inside, updates, np.array(TENTHS))
    # ten bins are there from the beginning; each update looks at one bin, and moves
    # what is in it: -0.05 cuts each segment of the second bin in two
    first = 10 + (1 + 1) + (1 + 4) + (1 + 2)
    second = 10 + (1 + 2) + (1 + 1)
    assert compiler.maps_within(first + second - 1) is None
    assert len(compiler.maps_within(first + second)) == 2


def test_more_bins_than_can_be_saved_are_not_fitted():
    with pytest.raises(InputError, match="at most 10,000 bins"):
        PMCBoost(binning=np.linspace(0, 1, 10_002)).fit([0.2, 0.4], [0, 1])


def test_a_condition_is_neither_too_deep_nor_too_long():
    deep = "(" * 900 + "a = 1" + ")" * 900
    for condition in (deep, "not " * 900 + "a = 1"):
        with pytest.raises(InputError, match="more than 50 levels deep"):
            Groups(where={"x": condition})
        content = json.loads(text_of([["true"]], [], attributes=["x"]))
        content["derived"] = {"x": {"where": condition}}
        with pytest.raises(FileFormatError, match="more than 50 levels deep"):
            Correction.from_json(json.dumps(content))
    with pytest.raises(InputError, match="more than 1,000 comparisons"):
        Groups(where={"x": " or ".join(["a = 1"] * 1001)})
    Groups(
        where={"x": "(" * 49 + "a = 1" + ")" * 49, "y": " or ".join(["a = 1"] * 1000)}
    )


@pytest.mark.parametrize(
    "number",
    ["1e-100000000", "0e-100000000", "1e100000000", "1." + "0" * 500, "9" * 400],
)
def test_a_number_in_a_condition_has_a_sensible_size(number):
    with pytest.raises(InputError, match="too large, too small or too long"):
        Groups(where={"x": f"age = {number}"})
    content = json.loads(text_of([["true"], ["false"]], [], attributes=["x"]))
    content["derived"] = {"x": {"where": f"age in [1, {number}]"}}
    with pytest.raises(FileFormatError, match="too large, too small or too long"):
        Correction.from_json(json.dumps(content))
    content["derived"] = {
        "x": {"where": f"age = '{number}'"}
    }  # in quotes, it is a text
    correction = Correction.from_json(json.dumps(content))
    assert correction.apply([0.5], {"age": [1.0]})[0] == 0.5
    assert len(str(correction.to_sql(score="s"))) < 10_000


@pytest.mark.parametrize(
    "cuts", [[10**400], [10**5000], list(range(1000)), [float("nan")], ["x"], [None]]
)
def test_cuts_that_are_no_cuts_are_refused(cuts):
    with pytest.raises(InputError, match="cuts of 'age'"):
        Groups(cuts={"age": cuts})
    if cuts not in ([10**5000],):
        content = json.loads(text_of([["65 or over"]], [], attributes=["age"]))
        content["derived"] = {"age": {"column": "age", "cuts": cuts}}
        with pytest.raises(FileFormatError):
            Correction.from_json(json.dumps(content))


def test_texts_that_are_no_unicode_are_refused():
    for text in (
        text_of([["\ud800"]], []),
        text_of([["x"]], [], attributes=["\udfff"]),
    ):
        with pytest.raises(FileFormatError, match=r"invalid Unicode|not valid Unicode"):
            Correction.from_json(text)
    assert Correction.from_json(text_of([["\U0001f4a5 é"]], [])).patterns.levels == (
        ("\U0001f4a5 é",),
    )


def test_more_than_a_billion_steps_are_refused_before_the_first():
    """An update takes a step for each pattern, at least."""

    def compiler(n_updates, n_patterns):
        inside = np.ones((1, n_patterns), dtype=bool)
        updates = np.tile(np.array([[0, 0, 100]]), (n_updates, 1))
        return MapCompiler(inside, updates, np.array([0, UNIT // 2, UNIT]))

    n = 1 << 15
    assert compiler(n, n).maps_within(1) is None  # 2**30 steps, of which it takes one
    with pytest.raises(InputError, match="at most 1,073,741,824 are allowed"):
        compiler(n + 1, n).maps_within(1)
