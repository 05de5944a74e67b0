"""The smooth start: what it learns, when it is made, and what it leaves alone."""

import json

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, Correction, Groups, MCBoost, PMCBoost, pmc_loss
from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import (
    N_KNOTS,
    SHIFT_UNIT,
    SmoothStart,
    knot_log_odds,
    knots,
    logistic_table,
)
from propcal.core.fit.evidence import FoundErrors
from propcal.core.fit.log_odds_cells import (
    CURVE,
    END,
    MOST_TERMS,
    Basis,
    LogOddsCells,
    count_cells,
    fine_cells,
)
from propcal.core.fit.non_decreasing import non_decreasing
from propcal.core.fit.random_effects import Effects, fit_effects
from propcal.core.fit.smooth_fit import learn_start
from propcal.core.grid import UNIT, from_grid, to_grid
from propcal.core.groups import Group
from propcal.core.logistic import expit, log_odds, spline_basis
from propcal.documents.correction import fit_lines
from propcal.options import Identity
from propcal.reading.rows import rows_to_atoms
from reference.correction_reader import Reader


def some_people(n, seed=0, wrong=lambda x, group: x):
    """Two attributes, known risk, and a score whose log-odds are `wrong(true log-odds,
    group)`.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    x = rng.normal(-1, 1.2, n)
    frame["risk"], frame["score"] = expit(x), expit(wrong(x, frame))
    frame["y"] = (rng.random(n) < frame.risk).astype(int)
    return frame


def fit(frame, **kw):
    return PMCBoost(**kw).fit(
        frame.score, frame.y, sensitive_features=frame[["race", "sex"]]
    )


def error(model, frame):
    corrected = model.predict(frame.score, sensitive_features=frame[["race", "sex"]])
    return float(np.mean((corrected - frame.risk) ** 2))


def test_the_logistic_table_is_rounded_exactly_and_symmetric():
    table, x = logistic_table(), np.arange(-22 * 64, 22 * 64 + 1) / 64
    assert np.abs(table - UNIT * expit(x)).max() <= 0.5 + 1e-5
    assert np.array_equal(table + table[::-1], np.full(len(table), UNIT))
    at = knots()
    assert (at[0], at[-1], len(at)) == (0, UNIT, N_KNOTS)
    assert np.all(np.diff(at) > 0)


def test_a_constant_shift_in_log_odds_is_applied_as_such():
    shift = np.pad(np.full((1, N_KNOTS - 2), SHIFT_UNIT // 2), ((0, 0), (1, 1)))
    start = SmoothStart((Group(()),), shift)
    patterns = rows_to_atoms(np.array([0.5]), np.array([1])).patterns
    score = np.linspace(0, 1, 2001)
    moved = from_grid(
        start.apply(to_grid(score), np.zeros(len(score), dtype=np.int64), patterns)
    )
    inside = (score > 0) & (score < 1)
    assert moved[inside] == pytest.approx(
        expit(log_odds(score[inside]) + 0.5), abs=3e-4
    )
    assert (moved[0], moved[-1]) == (0, 1)
    assert np.all(np.diff(moved) > 0)


def test_no_shift_is_no_change_to_the_last_unit():
    start = SmoothStart((Group(()),), np.zeros((1, N_KNOTS), dtype=np.int64))
    patterns = rows_to_atoms(np.array([0.5]), np.array([1])).patterns
    score = np.unique(
        np.concatenate(
            [np.random.default_rng(0).integers(0, UNIT, 5000), knots(), knots()[1:] - 1]
        )
    )
    assert np.array_equal(
        start.apply(score, np.zeros(len(score), dtype=np.int64), patterns), score
    )


def test_maps_never_fall_however_wild_the_shifts():
    rng = np.random.default_rng(1)
    shifts = rng.integers(-4 * SHIFT_UNIT, 4 * SHIFT_UNIT, (3, N_KNOTS))
    start = SmoothStart((Group(()), Group((("g", "a"),)), Group((("g", "b"),))), shifts)
    atoms = rows_to_atoms(
        np.full(4, 0.5), np.array([0, 1, 0, 1]), {"g": ["a", "b", "c", "a"]}
    )
    values = start.values(atoms.patterns)
    assert np.all(np.diff(values, axis=1) >= 0)


def test_a_spline_is_straight_beyond_its_knots():
    at = np.array([-1.0, 0.0, 1.5, 2.0])
    x = np.linspace(2.0, 9.0, 50)
    assert np.diff(spline_basis(x, at)[:, 2:], 2, axis=0) == pytest.approx(0, abs=1e-9)
    assert spline_basis(np.linspace(-5, -1, 9), at)[:, 2:] == pytest.approx(0)


def test_cells_add_up_to_the_people_with_scores_between_0_and_1():
    frame = some_people(2000)
    frame.loc[:49, "score"] = 0.0
    frame.loc[50:99, "score"] = 1.0
    atoms = rows_to_atoms(frame.score, frame.y, frame[["race", "sex"]])
    cells = count_cells(atoms, (Group(()), Group((("sex", "F"),))), 16)
    rest = frame[100:]
    assert cells.n.sum() == pytest.approx(1900)
    assert cells.positives.sum() == pytest.approx(rest.y.sum())
    assert (cells.n * expit(cells.log_odds)).sum() == pytest.approx(rest.score.sum())
    columns = Basis(cells)(cells.log_odds)
    products = (columns * cells.n[:, None]).T @ columns / cells.n.sum()
    assert products == pytest.approx(np.eye(5), abs=1e-9)


def test_effects_are_found_and_the_rest_shrinks_to_nothing():
    frame = some_people(
        40_000, wrong=lambda x, f: x + np.where(f.race == "b", 0.6, 0.0)
    )
    model = fit(frame)
    new = some_people(
        40_000, seed=1, wrong=lambda x, f: x + np.where(f.race == "b", 0.6, 0.0)
    )
    before = float(np.mean((new.score - new.risk) ** 2))
    assert error(model, new) < before / 30
    assert model.n_updates_ == 1
    terms = {group.name for group in model.correction_.start.groups}
    assert "race=b" in terms or "everybody" in terms
    assert len(terms) < 12


def test_a_slope_that_is_wrong_is_put_right():
    def steep(x, f):
        return 1.6 * x + np.where(f.sex == "F", 0.5, 0.0)

    model, new = fit(some_people(20_000, wrong=steep)), some_people(20_000, 2, steep)
    assert error(model, new) < np.mean((new.score - new.risk) ** 2) / 20


def test_groups_below_gamma_are_learned_from_but_get_no_updates():
    def small(x, f):
        return x + np.where(f.race == "c", 1.0, 0.0)

    model, new = (
        fit(some_people(30_000, wrong=small), gamma=0.2),
        some_people(30_000, 3, small),
    )
    rows = new.race == "c"
    corrected = model.predict(new.score, sensitive_features=new[["race", "sex"]])
    assert abs(corrected[rows].mean() - new.risk[rows].mean()) < 0.02
    assert not any("race=c" in size.group.name for size in model.groups_)


def test_a_perfect_score_is_returned_as_it_came():
    frame = some_people(4812)
    model = fit(frame)
    assert model.n_updates_ == 0
    corrected = model.predict(frame.score, sensitive_features=frame[["race", "sex"]])
    assert corrected.tobytes() == frame.score.to_numpy().tobytes()
    assert repr(model.fit_summary_).startswith(
        "No change: no miscalibration found in the 4,812 people used to fit."
    )


def test_weight_two_is_the_row_twice_and_the_order_of_rows_is_nothing():
    frame = some_people(3000, wrong=lambda x, f: 1.3 * x + 0.3)
    twice = pd.concat([frame, frame[:1000]]).sample(frac=1, random_state=0)
    weight = np.r_[np.full(1000, 2), np.ones(2000)]
    weighted = PMCBoost().fit(
        frame.score,
        frame.y,
        sensitive_features=frame[["race", "sex"]],
        sample_weight=weight,
    )
    assert weighted.correction_.start is not None
    assert weighted.correction_.to_json() == fit(twice).correction_.to_json()


def test_survey_weights_of_one_size_change_next_to_nothing():
    frame = some_people(3000, wrong=lambda x, f: 1.3 * x + 0.3)
    scaled = PMCBoost().fit(
        frame.score,
        frame.y,
        sensitive_features=frame[["race", "sex"]],
        sample_weight=np.full(3000, 0.37),
    )
    plain, other = fit(frame).correction_.start, scaled.correction_.start
    assert other.groups == plain.groups
    assert np.abs(other.shifts - plain.shifts).max() < SHIFT_UNIT / 1000


def test_the_start_counts_as_one_update():
    frame = some_people(3000, wrong=lambda x, f: 1.5 * x)
    model = fit(frame, guard=None)
    assert model.n_updates_ == len(model.updates_) == 1 + len(model.correction_.updates)
    assert model.updates_[0].group == "smooth start"
    features = frame[["race", "sex"]]
    assert np.array_equal(
        model.predict(frame.score, sensitive_features=features, n_updates=0),
        frame.score,
    )
    only = fit(frame, max_updates=1, guard=100.0)
    assert np.array_equal(
        model.predict(frame.score, sensitive_features=features, n_updates=1),
        only.predict(frame.score, sensitive_features=features),
    )
    none = PMCBoost(
        max_updates=0, alpha=1.0, guard=None, n_bins=1, intersections="marginal"
    )
    assert none.fit(frame.score, frame.y).n_updates_ == 0
    with pytest.warns(Warning, match="stopped after 1 adjustment "):
        assert "stopped at max_updates=1" in repr(
            fit(frame, max_updates=1, guard=None).fit_summary_
        )


def test_both_algorithms_make_the_same_start():
    frame = some_people(3000, wrong=lambda x, f: 1.5 * x)
    other = MCBoost().fit(
        frame.score, frame.y, sensitive_features=frame[["race", "sex"]]
    )
    assert np.array_equal(
        other.correction_.start.shifts, fit(frame).correction_.start.shifts
    )


def test_an_unseen_level_gets_the_terms_it_does_belong_to():
    frame = some_people(20_000, wrong=lambda x, f: x + np.where(f.sex == "F", 0.8, 0.0))
    model = fit(frame)
    new = model.predict(
        [0.3, 0.3], sensitive_features={"race": ["new", "new"], "sex": ["F", "M"]}
    )
    assert new[0] == pytest.approx(expit(log_odds(np.array([0.3])) - 0.8)[0], abs=0.02)
    assert new[1] == pytest.approx(0.3, abs=0.02)


# what is no ordinary data: a fallback, and a word about it


def notes(model):
    return " ".join(model.fit_summary_.notes)


def test_too_few_people_get_no_start_and_are_told_so():
    frame = some_people(40, wrong=lambda x, f: x + 3)
    model = fit(frame)
    assert model.correction_.start is None
    assert (
        "needs at least 50 people with scores between 0 and 1, and there are 40"
        in notes(model)
    )


def with_ends(n=4000, *, zeros, ones, wrong=lambda x, f: x + 1):
    """People of whom 200 have a score of 0 and 100 a score of 1, with the given numbers
    of outcomes.
    """
    frame = some_people(n, wrong=wrong)
    frame.loc[:199, "score"], frame.loc[200:299, "score"] = 0.0, 1.0
    frame.loc[:299, "y"] = np.r_[np.arange(200) < zeros, np.arange(100) < ones].astype(
        int
    )
    return frame


def test_scores_of_exactly_0_and_1_that_no_outcome_contradicts_stay_close():
    frame = with_ends(zeros=0, ones=100)
    corrected = fit(frame).predict(
        frame.score, sensitive_features=frame[["race", "sex"]]
    )
    assert corrected[:200].max() < 0.01
    assert corrected[200:300].min() > 0.97


def test_few_scores_of_exactly_0_and_1_stay_and_are_counted():
    frame = with_ends(zeros=0, ones=100)[190:]
    frame = frame[(frame.score < 1) | (frame.index < 209)]
    model = fit(frame)
    assert not model.correction_.start.shifts[:, [0, -1]].any()
    assert "leaves 10 scores of exactly 0 unchanged" in notes(model)
    assert "leaves 9 scores of exactly 1 unchanged" in notes(model)


def test_a_pile_of_wrong_scores_of_0_and_1_has_levels_of_its_own():
    frame = with_ends(zeros=1, ones=95)
    model = fit(frame)
    corrected = model.predict(frame.score, sensitive_features=frame[["race", "sex"]])
    inside = (frame.score > 0) & (frame.score < 1)
    assert 0 < corrected[:200].max() < 0.02
    assert 0.9 < corrected[200:300].min() <= corrected[200:300].max() < 0.99
    assert corrected[:200].max() <= corrected[inside].min() + 0.01
    assert not any("exactly" in note for note in model.fit_summary_.notes)
    for score, where in ((0.0, slice(0, 200)), (1.0, slice(200, 300))):
        person = frame[where].iloc[0]
        alone = model.correction_.score_one(score, race=person.race, sex=person.sex)
        assert alone == corrected[where.start]


def test_a_pile_is_put_right_though_nothing_else_is_wrong():
    model = fit(with_ends(zeros=0, ones=90, wrong=lambda x, f: x))
    assert "scores of exactly 0 and 1" in model.fit_summary_.found
    moved = model.predict(
        [1.0, 0.5, 0.0], sensitive_features={"race": ["a"] * 3, "sex": ["F"] * 3}
    )
    assert 0.8 < moved[0] < 0.97
    assert moved[1] == pytest.approx(0.5, abs=0.03)
    assert moved[2] < 0.01


def test_a_pile_with_few_outcomes_takes_lower_scores_along():
    frame = with_ends(zeros=0, ones=50)
    model = fit(frame)
    features = {"race": ["a"] * 2, "sex": ["F"] * 2}
    moved = model.predict([0.98, 1.0], sensitive_features=features, n_updates=1)
    assert moved[0] == pytest.approx(moved[1], abs=0.02)
    assert moved[1] < 0.75


@pytest.mark.parametrize(
    ("events", "own"), [(100, True), (92, True), (91, False), (50, False)]
)
def test_a_pile_joins_those_just_below_if_it_is_lower_by_two_standard_errors(
    events, own
):
    """960 of 1,000 just below: with 100 people the difference has a standard error of
    0.022.
    """
    scores = {0.2: (1000, 200), 0.5: (1000, 500), 0.9: (1000, 960), 1.0: (100, events)}
    score = np.repeat([*scores], [n for n, _ in scores.values()])
    y = np.concatenate([np.arange(n) < k for n, k in scores.values()]).astype(int)
    cells = fine_cells(rows_to_atoms(score, y), (Group(()),), ends=True)
    assert Basis(cells).levels.tolist() == [END] * own


def test_the_file_keeps_the_levels_of_0_and_1(tmp_path):
    frame = with_ends(zeros=3, ones=95)
    correction = fit(frame).correction_
    assert json.loads(correction.to_json())["version"] == 7
    correction.save(tmp_path / "a.json")
    again = Correction.load(tmp_path / "a.json")
    features = frame[["race", "sex"]]
    assert np.array_equal(
        again.apply(frame.score, features), correction.apply(frame.score, features)
    )
    reader = Reader(correction.to_json())
    for row in frame.iloc[[0, 1, 200, 201, 500]].itertuples():
        person = {"race": row.race, "sex": row.sex}
        assert (
            reader.score(row.score, person)
            == correction.apply([row.score], [list(person.values())])[0]
        )


def test_a_group_whose_scores_are_all_0_or_1_is_no_trouble():
    frame = some_people(4000, wrong=lambda x, f: x + 1)
    for race, score in (("c", 1.0), ("a", 0.0)):
        frame.loc[frame.race == race, "score"] = score
    model = fit(frame)
    rows = frame.race == "b"
    started = model.predict(
        frame.score, sensitive_features=frame[["race", "sex"]], n_updates=1
    )
    assert abs(started[rows].mean() - frame.risk[rows].mean()) < 0.03


def test_only_scores_of_0_and_1_get_no_start():
    rng = np.random.default_rng(0)
    score = rng.integers(0, 2, 500).astype(float)
    model = PMCBoost(guard=None).fit(score, rng.integers(0, 2, 500))
    assert model.correction_.start is None
    assert "and there are 0" in notes(model)


def test_a_constant_score_gets_a_constant_and_says_so():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 4000)
    y = (rng.random(4000) < np.where(group == "a", 0.2, 0.4)).astype(int)
    model = PMCBoost().fit(np.full(4000, 0.3), y, sensitive_features=group)
    corrected = model.predict([0.3, 0.3], sensitive_features=["a", "b"])
    assert corrected == pytest.approx([0.2, 0.4], abs=0.03)
    assert "all scores are equal" in notes(model)
    alone = PMCBoost().fit(np.full(4000, 0.6), y)
    assert alone.predict([0.6]) == pytest.approx([y.mean()], abs=0.01)


def test_two_different_scores_get_a_slope_but_no_curve():
    rng = np.random.default_rng(0)
    score = rng.choice([0.2, 0.6], 4000)
    model = PMCBoost().fit(score, (rng.random(4000) < score**2).astype(int))
    assert model.predict([0.2, 0.6]) == pytest.approx([0.04, 0.36], abs=0.03)
    assert "a straight line in log-odds" in notes(model)


def test_separable_data_end_in_finite_scores():
    frame = some_people(2000)
    frame["y"] = (frame.score > 0.3).astype(int)
    model = fit(frame)
    corrected = model.predict(frame.score, sensitive_features=frame[["race", "sex"]])
    assert np.all((corrected >= 0) & (corrected <= 1))
    assert (
        np.mean((corrected - frame.y) ** 2) < np.mean((frame.score - frame.y) ** 2) / 2
    )


def test_a_group_with_one_class_is_no_trouble():
    frame = some_people(3000, wrong=lambda x, f: x + 0.5)
    frame.loc[frame.race == "c", "y"] = 1
    frame.loc[frame.race == "b", "y"] = 0
    model = fit(frame)
    corrected = model.predict(frame.score, sensitive_features=frame[["race", "sex"]])
    assert corrected[frame.race == "c"].mean() > 0.9
    assert corrected[frame.race == "b"].mean() < 0.05


def test_many_groups_are_cut_to_the_largest_and_it_is_said():
    rng = np.random.default_rng(0)
    n = 30_000
    frame = pd.DataFrame({name: rng.integers(0, 6, n) for name in "uvw"})
    score = rng.uniform(0.1, 0.6, n)
    model = PMCBoost().fit(score, rng.random(n) < score * 0.7, sensitive_features=frame)
    assert len(model.correction_.start.groups) <= MOST_TERMS
    assert f"uses only the {MOST_TERMS - 1} largest of" in notes(model)
    told = " ".join(
        fit_lines(model, rows_to_atoms(score, score < 0.3, frame), Identity(), 11)
    )
    assert (
        "so their cells are not adjusted (the smooth curve may correct the largest):"
        in told
    )


def test_missing_values_that_make_no_group_make_no_term():
    frame = some_people(5000, wrong=lambda x, f: x + 0.5)
    frame.loc[:999, "race"] = None
    model = PMCBoost(groups=Groups(columns=["race"], missing="exclude"))
    model.fit(frame.score, frame.y, sensitive_features=frame)
    assert "race missing" not in {
        group.name for group in model.correction_.start.groups
    }


def test_newton_settles_from_far_away():
    n = np.full(60, 500.0)
    x = np.linspace(-5, 5, 60)
    cells = LogOddsCells(
        np.ones((1, 1), dtype=bool), np.array([0, 60]), n, n * expit(4.0 - 3 * x), x
    )
    basis = Basis(cells)
    n = len(basis.kinds)
    shared = Effects(np.array([n]), basis.kinds.copy(), np.zeros(n), np.full(n, 0.5))
    found = fit_effects(cells, x, basis(x), shared)
    assert found is not None
    assert CURVE in basis.kinds
    assert expit(x + (basis(x) @ found.table.T)[:, 0]) == pytest.approx(
        expit(4.0 - 3 * x), abs=0.02
    )


def test_a_variance_is_the_mean_square_of_as_many_effects_as_the_data_determine():
    """MacKay's fixed point with half an effect of zero added, by hand from the effects
    of 8 groups.
    """
    n, rate = 400.0, expit(-1 + np.array([0.5, -0.5, 0.3, -0.3, 0.2, -0.2, 0.1, -0.1]))
    same, score = np.full(8, n), np.full(8, -1.0)
    cells = LogOddsCells(np.eye(8, dtype=bool), np.arange(9), same, n * rate, score)
    shared = Effects(
        np.ones(8, dtype=np.int64),
        np.zeros(8, dtype=np.int64),
        np.zeros(1),
        np.full(1, 0.5),
    )
    found = fit_effects(cells, score, np.ones((8, 1)), shared)
    assert found is not None
    risk = expit(found.effect - 1)
    variance = found.effect / (
        n * (rate - risk)
    )  # of a prior whose pull balances that of the data
    assert variance == pytest.approx(np.full(8, variance[0]), rel=1e-3)
    free = np.sum(1 - 1 / (n * risk * (1 - risk) * variance + 1))
    assert found.free == pytest.approx(free, rel=0.01)
    assert variance[0] == pytest.approx(
        np.sum(found.effect**2) / (free + 0.5), rel=0.03
    )


def test_the_knots_of_the_curve_are_quantiles_of_the_scores():
    x, n = np.linspace(-4, 4, 801), np.full(801, 10.0)
    cells = LogOddsCells(np.ones((1, 1), dtype=bool), np.array([0, 801]), n, n / 2, x)
    assert Basis(cells).knots == pytest.approx([-3.6, -1.8, 0, 1.8, 3.6], abs=0.011)


def test_a_curve_that_falls_is_pooled_as_by_isotonic_regression():
    at = knot_log_odds()
    falls = np.where((at > -1) & (at < 1), -1.5 * (at + 1), 0.0)
    start = SmoothStart(
        (Group(()),), np.rint(falls * SHIFT_UNIT).astype(np.int64)[None]
    )
    units = to_grid(expit(np.linspace(-3, 3, 1201)))
    row, inside, people = (
        np.zeros(1201, dtype=np.int64),
        np.ones((1, 1), dtype=bool),
        np.ones(1201),
    )
    after = non_decreasing(start, units, row, inside, people)
    steps = [
        np.diff(from_grid(one.values_before_order(inside))).min()
        for one in (start, after)
    ]
    assert steps[0] < 0
    assert steps[1] > -1e-5  # as its shifts are rounded
    sums = [
        one.apply_to_rows(units, row, one.values_before_order(inside)).sum()
        for one in (start, after)
    ]
    assert sums[1] / UNIT == pytest.approx(sums[0] / UNIT, abs=0.01)


def test_learning_gives_the_same_each_time():
    atoms = rows_to_atoms(
        *some_people(3000, wrong=lambda x, f: 1.3 * x)[["score", "y"]].to_numpy().T
    )
    collection = atoms.collection(Groups(), gamma=0.05)
    evidence = FoundErrors(tested=True, found=("everybody",), overall=True)
    first, again = (learn_start(atoms, collection, evidence) for _ in range(2))
    assert np.array_equal(first.start.shifts, again.start.shifts)


def test_atoms_of_two_halves_give_the_start_of_the_whole():
    frame = some_people(4000, wrong=lambda x, f: 1.4 * x)

    def atoms(part):
        return Atoms.from_frame(
            part, score="score", outcome="y", groups=["race", "sex"]
        )

    halves = PMCBoost().fit_atoms(atoms(frame[:1500]) + atoms(frame[1500:]))
    assert halves.correction_.start is not None
    assert halves.correction_.to_json() == fit(frame).correction_.to_json()


def test_held_out_people_gain():
    def wrong(x, f):
        return 0.7 * x + np.where(f.race == "b", 0.5, -0.2)

    model, new = fit(some_people(5000, wrong=wrong)), some_people(50_000, 4, wrong)
    paper = PMCBoost.paper().fit(
        *some_people(5000, wrong=wrong)[["score", "y"]].to_numpy().T
    )
    features = new[["race", "sex"]]
    corrected = model.predict(new.score, sensitive_features=features)
    loss = pmc_loss(new.y, corrected, sensitive_features=features, min_people=200)
    assert loss < pmc_loss(
        new.y, new.score, sensitive_features=features, min_people=200
    )
    assert error(model, new) < np.mean((paper.predict(new.score) - new.risk) ** 2)


@pytest.mark.parametrize(
    ("middle", "slope", "offset"), [(-7.5, 0.3, 0), (-8.5, 2, -0.5), (7.5, 0.5, 0)]
)
def test_rare_risks_are_put_right_not_made_worse(middle, slope, offset):
    """What is applied far out is what was fitted there."""
    rng = np.random.default_rng(1)
    x = middle + 0.5 * rng.standard_normal(400_000)
    risk = expit(x)
    y = (rng.random(len(x)) < risk).astype(int)
    score = expit(middle + slope * (x - middle) + offset)

    def loss(q):
        return -np.mean(
            risk * np.log(q / risk) + (1 - risk) * np.log((1 - q) / (1 - risk))
        )

    model = PMCBoost().fit(score, y)
    assert model.correction_.start is not None
    assert loss(model.predict(score)) < 0.5 * loss(score)


def test_a_piece_that_begins_at_one_has_its_place_in_the_table():
    at = knots()
    begins, values = np.array([0, UNIT]), np.array([0, 5])
    maps = PatternMaps(np.array([0, 2]), begins, np.array([1, 0]), values, at[None, :])
    _, begin, slope, intercept = maps.pieces()
    assert begin.tolist() == [0, UNIT]
    assert slope.tolist() == [1, 0]
    assert intercept.tolist() == [0, 5 / UNIT]


def test_only_errors_between_0_and_1_ask_for_a_second_attempt():
    """A right score, whose curve the first attempt shrinks to nothing."""
    people = some_people(3000)
    atoms = rows_to_atoms(*people[["score", "y"]].to_numpy().T)
    collection = atoms.collection(Groups(), gamma=0.05)

    def learns(*found, certain):
        evidence = FoundErrors(tested=True, found=found, certain=certain)
        return learn_start(atoms, collection, evidence).start is not None

    assert not learns("scores of exactly 0 and 1", certain=True)
    assert learns("everybody", certain=False)
    assert learns("everybody", "scores of exactly 0 and 1", certain=True)
