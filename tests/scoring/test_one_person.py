"""score_one gives what apply gives, bit for bit and error for error, for one person and
in microseconds.
"""

import copy
import enum
import pickle
import time
import warnings
from dataclasses import replace
from datetime import date
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hard_rows import hard_scores
from propcal import Atoms, Groups, PMCBoost
from propcal.core.grid import UNIT
from propcal.errors import InputError, UnknownLevelWarning, UnseenError
from propcal.scoring import one_person

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* have a space at the beginning or end"
)
N = 10_000
GROUPS = Groups(
    columns=["race", "ward", "flag"],
    cuts={"age": [18, 40, 65]},
    where={
        "old or dear": "(age >= 75 or fee > 10.5) and not race in [a, 'b c']",
        "first ward": "ward = 1",
        "flagged": "flag",
        "unknown age": "age is missing or fee is missing",
        "elsewhere": "ward != 2 and race is not missing",
    },
    intersections=2,
)


def people(n, seed, *, strange=False):
    """Rows with every kind of level; with `strange`, also levels that fitting does not
    see.
    """
    rng = np.random.default_rng(seed)

    def some(values):
        found = np.empty(n, dtype=object)
        found[:] = [values[i] for i in rng.integers(0, len(values), n)]
        return found

    races = ["a", "b c", "Ünïcode ", "007", None, float("nan")]
    wards = [1, 1.0, "1", " 1 ", "1.00", 2, "2.0", None]
    flags = [True, False, "TRUE", "false", None, np.bool_(True)]
    if strange:
        races, wards, flags = (
            [*races, "Martian", "x" * 300],
            [*wards, 3, "icu", 1e300],
            [*flags, "maybe"],
        )
    ages = rng.choice(
        [3.0, 17.999999999999996, 18.0, 40.0, 64.5, 75.0, 90.0, np.nan, np.inf, -1.0], n
    )
    return {
        "race": some(races),
        "ward": some(wards),
        "flag": some(flags),
        "age": ages,
        "fee": rng.choice([0.0, 10.5, np.nextafter(10.5, 11), 99.0, np.nan], n),
    }


@pytest.fixture(scope="module")
def corrections():
    rng = np.random.default_rng(1)
    frame = people(20_000, 0)
    score = rng.beta(1.5, 3, 20_000)
    factor = np.where(np.nan_to_num(frame["age"]) > 60, 1.5, 0.7)
    y = rng.random(20_000) < np.clip(score * factor, 0, 1)
    models = {
        "default": PMCBoost(groups=GROUPS, guard=None, alpha=0.1),
        "paper": PMCBoost.paper(groups=GROUPS, alpha=0.2),
    }
    return {
        name: model.fit(score, y, sensitive_features=frame).correction_
        for name, model in models.items()
    }


def scores_near_the_breakpoints(correction, n, rng):
    """Where the maps bend or jump, one unit and half a unit to either side, and
    anywhere.
    """
    _, begin, *_ = correction.maps.pieces()
    units = rng.choice(np.concatenate([begin, correction.bins.edges]), n) + rng.choice(
        [-1.0, -0.5, 0, 0.5, 1.0], n
    )
    near = np.clip(units / UNIT, 0, 1)
    return np.where(
        rng.random(n) < 0.7,
        near,
        np.where(rng.random(n) < 0.3, rng.choice(hard_scores(), n), 0.3),
    )


@pytest.mark.filterwarnings("ignore::propcal.errors.UnknownLevelWarning")
@pytest.mark.parametrize(("name", "unseen"), [("default", "replay"), ("paper", "keep")])
def test_ten_thousand_people_have_the_bits_of_apply(corrections, name, unseen):
    correction = replace(corrections[name], unseen=unseen)
    assert (correction.start is not None) == (name == "default")
    assert len(correction.updates) > 0
    rng = np.random.default_rng(5)
    frame = people(N, 6, strange=True)
    score = scores_near_the_breakpoints(correction, N, rng)
    expected = correction.apply(score, frame)
    rows = [
        dict(zip(frame, row))
        for row in zip(*[column.tolist() for column in frame.values()])
    ]
    found = np.array(
        [correction.score_one(s, **row) for s, row in zip(score.tolist(), rows)]
    )
    assert np.array_equal(found.view(np.int64), expected.view(np.int64))
    assert np.mean(found != score) > 0.3  # something happened


class Race(str, enum.Enum):  # noqa: UP042 - as services have it
    A = "a"


VALUES = [
    "a", "b c", Race.A, np.str_("a"), "\ud800", "é", b"1", bytearray(b"1"), 1, 1.0, True, 2**60, -(2**60),
    2.5, np.int64(1), np.int8(1), np.float64(2.5), np.float32(2.5), np.bool_(True), Decimal("2.50"), None,
    float("nan"), float("inf"), pd.NA, pd.NaT, date(2020, 1, 1), ["a"], ("a",), {"a": 1}, np.array("a"), 1j,
]  # fmt: skip


def outcome(call):
    """The result with its bits, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = np.float64(call()).tobytes()
        except InputError as error:
            result = type(error), str(error)
    return result, [(w.category, str(w.message)) for w in told]


@pytest.mark.parametrize("column", ["race", "ward", "flag", "age", "fee"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_kind_of_value_in_every_column(corrections, column, value):
    correction = corrections["default"]
    row = {"race": "a", "ward": 1, "flag": True, "age": 70.0, "fee": 3.0} | {
        column: value
    }
    expected = outcome(
        lambda: correction.apply([0.31], {name: [cell] for name, cell in row.items()})[
            0
        ]
    )
    assert outcome(lambda: correction.score_one(0.31, **row)) == expected


@pytest.mark.parametrize("invalid", ["error", "null", "keep", "nonsense"])
@pytest.mark.parametrize(
    "score",
    [0.31, 0, 1, True, -0.0, 1.0000001, -1, 31, float("nan"), None, float("inf"), "0.3", Decimal("0.31"),
     np.float64(0.31), np.float32(0.31), [0.3]],
)  # fmt: skip
def test_every_kind_of_score(corrections, score, invalid):
    row = {"race": "a", "ward": 1, "flag": True, "age": 70.0, "fee": 3.0}
    columns = {name: [cell] for name, cell in row.items()}
    expected = outcome(
        lambda: corrections["paper"].apply([score], columns, invalid=invalid)[0]
    )
    assert (
        outcome(lambda: corrections["paper"].score_one(score, invalid=invalid, **row))
        == expected
    )


def test_the_result_is_a_python_number(corrections):
    row = {"race": "a", "ward": 1, "flag": True, "age": 70.0, "fee": 3.0}
    for score in (0, 0.31, np.float64(0.31), None):
        assert (
            type(corrections["default"].score_one(score, invalid="null", **row))
            is float
        )


def test_names_must_be_those_of_the_columns(cohort):
    correction = (
        PMCBoost()
        .fit(cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]])
        .correction_
    )
    with pytest.raises(
        InputError,
        match=r"^'gender' is missing; this correction reads 'race', 'gender'; pass None",
    ):
        correction.score_one(0.3, race="White")
    with pytest.raises(
        InputError, match=r"'sex' is unknown; this correction reads 'race', 'gender'$"
    ):
        correction.score_one(0.3, race="White", gender="F", sex="F")
    with pytest.raises(
        InputError, match="'race' is missing and 'Race', 'x' are unknown"
    ):
        correction.score_one(0.3, Race="White", gender="F", x=1)
    with pytest.raises(TypeError):
        correction.score_one(0.3, "White", "F")


def test_columns_may_have_any_name_but_that_of_an_argument():
    score, y = np.linspace(0.01, 0.99, 200), np.arange(200) % 3 == 0
    odd = {
        "score": ["a", "b"] * 100,
        "self": ["c"] * 200,
        "marital status": ["d", "d", "e", "e"] * 50,
    }
    correction = PMCBoost.paper().fit(score, y, sensitive_features=odd).correction_
    row = {"score": "a", "self": "c", "marital status": "d"}
    row = {name: row[name] for name in correction.reads}
    assert "marital status" in row
    assert (
        correction.score_one(0.3, **row)
        == correction.apply([0.3], {k: [v] for k, v in row.items()})[0]
    )
    correction = (
        PMCBoost.paper()
        .fit(score, y, sensitive_features={"invalid": ["a", "b"] * 100})
        .correction_
    )
    with pytest.raises(InputError, match=r"'invalid'.*use apply"):
        correction.score_one(0.3, invalid="a")


def test_a_correction_without_columns(cohort):
    correction = PMCBoost.paper().fit(cohort.score, cohort.y).correction_
    assert correction.score_one(0.3) == correction.apply([0.3])[0]
    assert np.isnan(correction.score_one(None, invalid="null"))


def test_unseen_people_are_refused_where_that_is_the_policy(cohort):
    frame = cohort[["race", "gender"]]
    correction = (
        PMCBoost(unseen="error")
        .fit(cohort.score, cohort.y, sensitive_features=frame)
        .correction_
    )
    for _ in range(2):
        with pytest.raises(UnseenError, match="1 row has"):
            correction.score_one(0.3, race="Martian", gender="F")


def test_unknown_levels_are_warned_of_every_time_and_where_the_call_is(corrections):
    row = {"race": "Martian", "ward": 1, "flag": True, "age": 70.0, "fee": 3.0}
    for _ in range(2):
        with pytest.warns(
            UnknownLevelWarning, match="'race': the value did not occur"
        ) as told:
            corrections["default"].score_one(0.3, **row)
        assert [w.filename for w in told] == [__file__]


def test_what_is_kept_is_bounded_and_no_part_of_the_correction(
    corrections, monkeypatch
):
    correction = copy.copy(corrections["default"])
    monkeypatch.setattr(one_person, "MAX_KEPT_PATTERNS", 3)
    state = pickle.dumps(correction)
    frame = people(60, 9)
    expected = correction.apply(np.full(60, 0.3), frame)
    for i in range(60):
        assert (
            correction.score_one(0.3, **{name: frame[name][i] for name in frame})
            == expected[i]
        )
        assert len(correction._one_person._kept) <= 3
    assert pickle.dumps(correction) == state
    assert "_one_person" not in vars(copy.copy(correction))


MARTIAN = {"race": "Martian", "ward": 1, "flag": True, "age": 70.0, "fee": 3.0}


def test_what_a_service_should_log(corrections):
    correction = corrections["default"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is in the result instead
        told = correction.score_one(0.3, **MARTIAN, detail=True)
        strange = correction.score_one(
            np.float16(0.3), **(MARTIAN | {"ward": Decimal(99)}), detail=True
        )
        known = correction.score_one(0.3, **(MARTIAN | {"race": "a"}), detail=True)
    with pytest.warns(UnknownLevelWarning):
        assert told.score == correction.score_one(0.3, **MARTIAN)
    assert (told.unseen, strange.unseen, known.unseen) == (
        ("race",),
        ("race", "ward"),
        (),
    )
    assert told.model_id == correction.model_id


def test_the_policy_can_be_another_for_one_person_and_for_a_prediction(
    corrections, cohort
):
    correction = corrections["default"]
    for _ in range(2):  # also once its map is kept
        replayed = correction.score_one(0.3, **MARTIAN, detail=True).score
        assert (
            correction.score_one(0.3, **MARTIAN, unseen="replay", detail=True).score
            == replayed
        )
        assert (
            correction.score_one(0.3, **MARTIAN, unseen="keep", detail=True).score
            == 0.3
            != replayed
        )
        with pytest.raises(UnseenError, match="1 row has"):
            correction.score_one(0.3, **MARTIAN, unseen="error")
    with pytest.raises(InputError, match="unseen"):
        correction.score_one(0.3, **MARTIAN, unseen="guess")
    columns = ["race", "gender"]
    model = PMCBoost().fit(cohort, score="score", outcome="y", groups=columns)
    new = cohort.head(5).assign(race="Martian")
    assert (
        model.predict(new, score="score", unseen="keep").tolist() == new.score.tolist()
    )
    assert model.predict(new, score="score").tolist() != new.score.tolist()
    with pytest.raises(UnseenError):
        model.predict(new.score, sensitive_features=new[columns], unseen="error")


@pytest.mark.parametrize("score", [True, False, np.True_])
def test_a_truth_value_is_not_a_score(corrections, score):
    correction, row = corrections["default"], MARTIAN | {"race": "a"}
    with pytest.raises(
        InputError, match=r"score must be a number from 0 to 1; it holds true or false"
    ):
        correction.score_one(score, **row)
    columns = {name: [value, value] for name, value in row.items()}
    for scores in ([0.5, score], np.array([True, score]), pd.Series([True, score])):
        with pytest.raises(InputError, match="true or false"):
            correction.apply(scores, columns)
    frame = pd.DataFrame(columns).assign(risk=[True, score])
    for kind in (frame, pa.Table.from_pandas(frame)):
        with pytest.raises(InputError, match="column 'risk' must be a number"):
            correction.apply("risk", kind)


MIXED = [
    1,
    0,
    1,
    0,
    0,
    1,
    1,
    0,
] * 125  # more often where a column alternates between its first and second


def fitted_to(name, levels):
    return (
        PMCBoost.paper()
        .fit([0.3] * 1000, MIXED, sensitive_features={name: levels * 500})
        .correction_
    )


def test_1_and_0_match_truth_values_wherever_a_score_is_used():
    correction = fitted_to("icu", [True, False])
    yes, no = correction.score_one(0.3, icu=True), correction.score_one(0.3, icu=False)
    assert yes > no
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for true, false in (
            (1, 0),
            (1.0, 0.0),
            ("1", "0"),
            (np.int32(1), np.uint8(0)),
            ("1.0", "-0"),
        ):
            assert [
                correction.score_one(0.3, icu=true),
                correction.score_one(0.3, icu=false),
            ] == [yes, no]
            for column in (
                [true, false],
                pd.Series([true, false], dtype=object),
                np.array([true, false]),
            ):
                assert correction.apply([0.3, 0.3], {"icu": column}).tolist() == [
                    yes,
                    no,
                ]
        people = pd.DataFrame({"risk": [0.3, 0.3], "y": [1, 0], "icu": [1, 0]})
        atoms = Atoms.from_frame(people, score="risk", outcome="y", groups=["icu"])
        assert sorted(correction.apply_to_atoms(atoms)) == sorted([yes, no])
        con = duckdb.connect()
        con.register("people", people)
        script = correction.to_sql("duckdb", score="risk")
        for statement in script.setup:
            con.execute(statement)
        assert con.sql(script.query).order("icu DESC").df()["corrected"].tolist() == [
            yes,
            no,
        ]
    assert correction.score_one(0.3, icu=2, detail=True).unseen == ("icu",)
    assert fitted_to("icu", [1, 0]).score_one(0.3, icu=True, detail=True).unseen == (
        "icu",
    )  # of a code


def test_a_dictionary_that_another_thread_clears_is_looked_at_once(corrections):
    """As without a global lock: between two looks at what is kept, somebody else clears
    it.
    """

    class Cleared(dict):
        def __contains__(self, key):
            found = super().__contains__(key)
            self.clear()
            return found

        def get(self, key, default=None):
            found = super().get(key, default)
            self.clear()
            return found

    correction = copy.copy(corrections["default"])
    row = MARTIAN | {"race": "a"}
    expected = correction.score_one(0.3, **row)
    correction._one_person._kept = Cleared(correction._one_person._kept)
    assert [correction.score_one(0.3, **row) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
def test_an_unseen_level_is_nearly_as_fast_as_a_known_one(kind):
    """One that went through a batch took 365 microseconds."""
    correction = fitted_to("ward", [1, 2])

    def microseconds(ward):
        ward, best = kind(ward), float("inf")
        for _ in range(20):
            begin = time.perf_counter()
            for _ in range(100):
                correction.score_one(0.3, ward=ward, detail=True)
            best = min(best, time.perf_counter() - begin)
        return best * 1e4

    known, new = microseconds(1), microseconds(99)
    assert new < 5 * known
    assert new < 100
