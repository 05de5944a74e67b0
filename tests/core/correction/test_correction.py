"""The correction: applying, replaying, showing."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from propcal import Correction, MCBoost, PMCBoost
from propcal.core.bins import explicit, uniform
from propcal.core.grid import UNIT, from_grid, to_grid
from propcal.core.groups import Group, pattern_name
from propcal.core.patterns import Patterns
from propcal.errors import InputError, UnseenError


@pytest.fixture(scope="module")
def fitted(cohort):
    frame = cohort[["race", "gender"]]
    return PMCBoost.paper(alpha=0.02).fit(
        cohort.score, cohort.y, sensitive_features=frame
    )


def oracle_groups(correction):
    place = {name: i for i, name in enumerate(correction.attributes)}
    return [
        tuple((place[a], level) for a, level in group.conditions)
        for group in correction.groups
    ]


def probes(correction):
    """Each breakpoint of any map, one unit either side, and the ends."""
    points = np.concatenate([correction.maps.begin, correction.bins.edges, [0, UNIT]])
    return np.unique(np.clip(np.concatenate([points - 1, points, points + 1]), 0, UNIT))


def check_against_replay(correction, keys):
    units = probes(correction)
    updates, groups = correction.updates.tolist(), oracle_groups(correction)
    edges = correction.bins.edges.tolist()
    for key in keys:
        frame = {
            a: np.full(len(units), v, dtype=object)
            for a, v in zip(correction.attributes, key)
        }
        found = to_grid(correction.apply(from_grid(units), frame))
        expected = [oracle.replay(key, int(u), updates, groups, edges) for u in units]
        assert found.tolist() == expected


def test_compiled_map_is_the_replay_at_each_breakpoint_and_one_unit_either_side(fitted):
    correction = fitted.correction_
    assert correction.n_updates > 50
    check_against_replay(
        correction,
        [correction.patterns.key(p) for p in (0, 3, len(correction.patterns) - 1)],
    )


@pytest.mark.filterwarnings("ignore:none of the")
def test_unseen_patterns_get_the_updates_of_the_groups_they_belong_to(fitted):
    # an unseen level belongs to no group of its attribute; the other attributes' groups
    # still apply
    check_against_replay(
        fitted.correction_, [("Martian", "F"), ("White", "X"), ("Martian", None)]
    )


@pytest.mark.filterwarnings("ignore:none of the")
def test_a_smooth_start_and_its_updates_are_what_the_oracle_says(cohort):
    frame = cohort[["race", "gender"]]
    correction = (
        PMCBoost(guard=None, alpha=0.1, monotone=False)
        .fit(cohort.score, cohort.y, sensitive_features=frame)
        .correction_
    )
    assert correction.start is not None
    assert len(correction.updates) > 5
    place = {name: i for i, name in enumerate(correction.attributes)}
    terms = [
        (tuple((place[a], level) for a, level in group.conditions), shifts)
        for group, shifts in zip(
            correction.start.groups, correction.start.shifts.tolist()
        )
    ]
    edges, groups = correction.bins.edges.tolist(), oracle_groups(correction)
    owner, begin, *_ = correction.maps.pieces()
    for pattern, key in (
        (0, correction.patterns.key(0)),
        (None, ("Martian", "F")),
        (None, ("Martian", None)),
    ):
        points = begin[owner == (pattern or 0)][::23]
        points = np.unique(
            np.clip(
                np.concatenate([points - 1, points, points + 1, [0, UNIT]]), 0, UNIT
            )
        )
        columns = {
            a: np.full(len(points), v, dtype=object)
            for a, v in zip(correction.attributes, key)
        }
        found = to_grid(correction.apply(from_grid(points), columns))
        expected = []
        for u in points.tolist():
            started = oracle.smooth_start(key, u, terms)
            expected.append(
                oracle.replay(key, started, correction.updates.tolist(), groups, edges)
            )
        assert found.tolist() == expected


def test_the_table_of_maps_gives_the_corrected_scores(cohort):
    frame = cohort[["race", "gender"]]
    for model in (PMCBoost(guard=None), PMCBoost(), PMCBoost.paper()):
        correction = model.fit(
            cohort.score, cohort.y, sensitive_features=frame
        ).correction_
        table = correction.to_frame()
        assert len(table) == correction.n_segments
        key = correction.patterns.key(1)
        own = table[table.pattern == pattern_name(correction.patterns, 1)]
        x = from_grid(to_grid(np.linspace(0, 1, 997)))
        piece = own.iloc[np.searchsorted(own.score_from, x, side="right") - 1]
        columns = {a: [v] * len(x) for a, v in zip(correction.attributes, key)}
        expected = correction.apply(x, columns)
        assert (piece.slope * x + piece.intercept).to_numpy() == pytest.approx(
            expected, abs=1e-9
        )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-UNIT, UNIT)),
        max_size=25,
    ),
    st.sampled_from([[0, 0.25, 0.5, 0.75, 1], [0, 2**-32, 0.5, 1 - 2**-32, 1]]),
)
def test_any_list_of_updates_compiles_to_its_replay(updates, edges):
    correction = Correction(
        patterns=Patterns(
            ("a", "b"), (("x", "y"), ("u", None)), np.array([[0, 0], [0, 1], [1, 1]])
        ),
        groups=(
            Group((("a", "x"),)),
            Group((("b", None),)),
            Group((("a", "y"), ("b", None))),
        ),
        bins=explicit(edges),
        updates=np.array(updates, dtype=np.int64).reshape(-1, 3),
    )
    check_against_replay(correction, [("x", "u"), ("x", None), ("y", None), ("y", "u")])


def test_policies_for_unseen_combinations(fitted, cohort):
    score, frame = (
        [0.05, 0.05, 0.3],
        {"race": ["Martian", "White", "White"], "gender": ["F", "F", "X"]},
    )
    replayed = fitted.correction_.apply(score, frame)
    kept = fitted.correction_.apply(score, frame, unseen="keep")
    assert kept[[0, 2]].tolist() == [0.05, 0.3]
    assert kept[1] == replayed[1] != 0.05
    with pytest.raises(
        UnseenError,
        match=r"2 rows have a combination of \['race', 'gender'\] that did not occur",
    ):
        fitted.correction_.apply(score, frame, unseen="error")
    strict = PMCBoost(unseen="error").fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    with pytest.raises(UnseenError):
        strict.predict(score, sensitive_features=frame)
    assert strict.predict(
        [0.2], sensitive_features={"race": [None], "gender": ["F"]}
    ).shape == (1,)
    with pytest.raises(InputError, match="unseen must be one of"):
        fitted.correction_.apply(score, frame, unseen="guess")


def test_the_first_updates_alone(fitted, cohort):
    frame = cohort[["race", "gender"]]
    assert np.array_equal(
        fitted.predict(cohort.score, sensitive_features=frame, n_updates=0),
        cohort.score,
    )
    everything = fitted.predict(cohort.score, sensitive_features=frame)
    assert np.array_equal(
        fitted.predict(cohort.score, sensitive_features=frame, n_updates=10**9),
        everything,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = PMCBoost.paper(alpha=0.02, max_updates=7).fit(
            cohort.score, cohort.y, sensitive_features=frame
        )
    seven = fitted.predict(cohort.score, sensitive_features=frame, n_updates=7)
    assert np.array_equal(seven, short.predict(cohort.score, sensitive_features=frame))
    with pytest.raises(InputError, match="n_updates"):
        fitted.predict(cohort.score, sensitive_features=frame, n_updates=-1)


def test_a_score_that_no_update_touches_is_returned_as_it_came():
    correction = Correction(
        patterns=Patterns((), (), np.zeros((1, 0), dtype=np.int64)),
        groups=(Group(()),),
        bins=uniform(2),
        updates=np.array([[0, 1, 2**30]]),
    )
    off_the_grid = [0.1, 1 / 3, 1e-300, np.nextafter(0.5, 0)]
    assert correction.apply(off_the_grid).tolist()[:3] == off_the_grid[:3]
    assert correction.apply([0.5, 0.75, 0.9]).tolist() == [0.75, 1.0, 1.0]


def test_the_table_of_maps_says_what_apply_does(fitted):
    table = fitted.correction_.to_frame()
    names = [
        pattern_name(fitted.correction_.patterns, p)
        for p in range(len(fitted.correction_.patterns))
    ]
    for key, name in zip(
        [fitted.correction_.patterns.key(p) for p in range(len(names))], names
    ):
        part = table[table.pattern == name]
        assert part.score_from.iloc[0] == 0
        assert part.score_to.iloc[-1] == 1
        assert np.array_equal(part.score_from.iloc[1:], part.score_to.iloc[:-1])
        middle = ((part.score_from + part.score_to) / 2).to_numpy()
        frame = {
            a: np.full(len(middle), v, dtype=object)
            for a, v in zip(("race", "gender"), key)
        }
        applied = fitted.correction_.apply(middle, frame)
        assert applied == pytest.approx(
            (part.slope * middle + part.intercept).to_numpy(), abs=1e-9
        )


def test_the_table_of_updates_is_the_list_of_updates(fitted):
    table = fitted.correction_.to_frame("updates")
    assert list(table.columns) == ["group", "bin", "shift"]
    assert table.itertuples(index=False, name=None).__next__() == tuple(
        fitted.updates_[0]
    )
    assert len(table) == fitted.n_updates_
    with pytest.raises(InputError, match="kind"):
        fitted.correction_.to_frame("rows")


def test_repr_fits_a_terminal_and_names_the_largest_change(fitted):
    text = repr(fitted.correction_)
    assert "PMCBoost (alpha=0.02" in text
    assert "largest" in text
    assert max(map(len, text.splitlines())) < 100
    assert len(text.splitlines()) < 10


def test_columns_are_found_by_name_in_any_order_and_kind(fitted, cohort):
    expected = fitted.predict(
        cohort.score, sensitive_features=cohort[["race", "gender"]]
    )
    assert np.array_equal(
        fitted.predict(
            cohort.score, sensitive_features=cohort[["gender", "y", "race"]]
        ),
        expected,
    )
    assert np.array_equal(
        fitted.predict(
            cohort.score, sensitive_features=cohort[["race", "gender"]].to_numpy()
        ),
        expected,
    )
    with pytest.raises(InputError, match="no column 'race'"):
        fitted.predict(cohort.score, sensitive_features=cohort[["gender"]])
    with pytest.raises(
        InputError,
        match=r"sensitive_features is needed: this correction reads \['race', 'gender'\]",
    ):
        fitted.predict(cohort.score)


def test_levels_are_matched_whatever_their_type():
    rng = np.random.default_rng(0)
    group, score = rng.integers(0, 3, 600), rng.random(600)
    y = rng.random(600) < score / (1 + group)
    model = MCBoost.paper(alpha=0.05).fit(
        score, y, sensitive_features=pd.DataFrame({"g": group})
    )
    expected = model.predict(score, sensitive_features=pd.DataFrame({"g": group}))
    for other in (
        group.astype(str),
        group.astype(float),
        pd.Categorical(group),
        group.astype(object),
    ):
        assert np.array_equal(
            model.predict(score, sensitive_features=pd.DataFrame({"g": other})),
            expected,
        )


def test_copies_and_pickles_work(fitted, cohort):
    frame = cohort[["race", "gender"]]
    expected = fitted.predict(cohort.score, sensitive_features=frame)
    for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert np.array_equal(
            twin.predict(cohort.score, sensitive_features=frame), expected
        )
