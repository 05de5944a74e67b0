"""Small steps of a fit, each worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, PMCBoost
from propcal.core.correction.smooth_map import (
    MOST_SHIFT,
    N_KNOTS,
    SHIFT_UNIT,
    SmoothStart,
    knots,
)
from propcal.core.criterion import multicalibration
from propcal.core.fit import log_odds_cells as lc
from propcal.core.fit.additive_fit import (
    AdditiveFit,
    AdditiveModel,
    AdditiveRows,
    _shorten_step,
    _steady,
    _updated_variance,
    fit_quadratic,
    term_of_levels,
    term_of_ranges,
)
from propcal.core.fit.boost import Settings
from propcal.core.fit.evidence import repeat_effect, squared_residuals, with_effect
from propcal.core.fit.non_decreasing import _pooled, _with_sums
from propcal.core.fit.random_effects import Effects, FittedEffects
from propcal.core.fit.smooth_fit import _CurveModel
from propcal.core.fit.update_loop import TIE, UpdateRule
from propcal.core.grid import to_grid
from propcal.core.groups import EVERYBODY, Collection, Group, GroupSize
from propcal.core.logistic import expit, fit_logistic, log_odds, spline_basis
from propcal.errors import InputError

MIDDLE = N_KNOTS // 2  # the knot at a score of 0.5; the next is 1/8 in log-odds away


def recalibration(**shifts):
    """Everybody's shifts in log-odds, at knots so far from the middle."""
    units = np.zeros((1, N_KNOTS), dtype=np.int64)
    for place, shift in shifts.items():
        units[0, MIDDLE + int(place.removeprefix("k"))] = round(shift * SHIFT_UNIT)
    return SmoothStart((EVERYBODY,), units)


def test_a_curve_that_falls_is_pooled_by_the_people_at_its_knots():
    start = recalibration(k0=0.1875)  # 0.1875 in log-odds, then 0.125
    risks = expit(np.array([0.1875, 0.125]))

    def pooled_at(units, people):
        pooled = _pooled(start, np.array(units), np.array(people))
        shift = pooled.shifts[0] / SHIFT_UNIT
        assert np.flatnonzero(shift).tolist() == [MIDDLE, MIDDLE + 1]
        return [shift[MIDDLE], 0.125 + shift[MIDDLE + 1]]

    low, high = knots()[[MIDDLE, MIDDLE + 1]]
    level = float(log_odds((1 * risks[0] + 3 * risks[1]) / 4))
    assert pooled_at([low, high], [1.0, 3.0]) == pytest.approx([level] * 2, abs=1e-6)
    # a score a quarter of the way up counts 3/4 at the lower knot
    quarter = low + (high - low) // 4
    level = float(log_odds(0.75 * risks[0] + 0.25 * risks[1]))
    assert pooled_at([quarter], [8.0]) == pytest.approx([level] * 2, abs=1e-5)


def test_constants_bring_sums_of_scores_to_those_that_are_wanted():
    start = recalibration()
    units = to_grid(np.array([0.5, 0.5]))
    wanted = to_grid(np.array([0.6, 0.7]))
    inside = np.ones((1, 1), dtype=bool)
    row = np.zeros(2, dtype=np.int64)
    people = np.array([3.0, 1.0])  # a mean of 0.625
    moved = _with_sums(start, wanted, units, row, inside, people)
    shift = log_odds(np.array(0.625)) * SHIFT_UNIT
    assert moved.shifts[0, 1:-1] == pytest.approx(shift, abs=20)
    assert moved.shifts[0, [0, -1]].tolist() == [0, 0]  # 0 stays 0 and 1 stays 1


def test_a_step_never_moves_a_term_beyond_the_largest_shift():
    start = recalibration(k0=1.0)
    most = np.full((1, N_KNOTS), 100 * SHIFT_UNIT)
    most[0, [0, -1]] = 0
    moved = start.moved(most)
    assert moved.shifts.max() == MOST_SHIFT
    assert start.moved(-most).shifts.min() == -MOST_SHIFT


def cells(n, positives, members, at=None):
    """One cell for each row of terms; risks of 0.5 unless log-odds are given."""
    n = np.array(n, dtype=float)
    return lc.LogOddsCells(
        np.array(members, dtype=bool),
        np.arange(len(n) + 1),
        n,
        np.array(positives, dtype=float),
        np.zeros(len(n)) if at is None else np.array(at, dtype=float),
    )


def effects_of(cells):
    n_terms = cells.members.shape[1]
    constant = Effects(
        n_columns=np.ones(n_terms, dtype=np.int64),
        component=np.arange(n_terms),
        least=np.zeros(n_terms),
        prior=np.zeros(n_terms),
    )
    return FittedEffects(cells, cells.log_odds, np.ones((len(cells), 1)), constant)


def is_wrong(n, events, some=(True, True)):
    """Whether half of n people, the group, have too many or too few events."""
    fit = effects_of(cells([n, n], [n / 2, events], [[1, 0], [1, 1]]))
    return fit.wrong_with(np.zeros((2, 1)), np.array(some))


def test_a_group_is_wrong_if_its_events_are_far_from_those_expected():
    # of 100 people with a risk of 0.5, a standard error of 5
    assert not is_wrong(100, 50, (False, True))
    assert is_wrong(100, 65, (False, True))
    assert is_wrong(100, 35, (False, True))
    # two groups are tested: p = 0.021 is enough, and 0.036 is not
    assert is_wrong(100, 61.5, (False, True))
    assert not is_wrong(100, 60.5, (False, True))
    # everybody: 200 people, a standard error of 7.1
    assert not is_wrong(100, 61.5, (True, False))


def test_a_group_is_tested_from_a_variance_of_5_on():
    assert is_wrong(20, 20, (False, True))  # 20 * 0.5 * 0.5
    assert not is_wrong(19, 19, (False, True))
    assert not is_wrong(8, 8)  # nobody has enough events to be tested


def test_the_loss_without_a_term_is_what_its_effect_gains():
    fit = effects_of(cells([10, 10], [5, 8], [[1, 0], [1, 1]]))
    fit._move_to(np.array([0.0, 1.5]))
    gained = (8 * 1.5 - 10 * np.log1p(np.exp(1.5))) + 10 * np.log(2)
    assert fit.loss_without(np.array([False, True])) == pytest.approx(gained)
    assert fit.loss_without(np.array([True, False])) == 0.0
    assert fit.table.tolist() == [[0.0], [1.5]]


def test_a_newton_step_goes_to_the_penalised_maximum():
    fit = effects_of(cells([10], [8], [[1]]))
    length, posterior = fit.newton(np.array([0]), np.array([1.5]))
    # gradient 8 - 5, information 10 / 4, penalty 1.5
    assert length == pytest.approx(3 / 4)
    assert posterior == pytest.approx([1 / 4])
    assert fit.effect == pytest.approx([3 / 4])
    fit.drop(np.array([True]))
    assert fit.effect.tolist() == [0.0]
    assert fit.value == pytest.approx(-10 * np.log(2))


def pool_begins(n, positives, end):
    at = np.array([lc.END, 2.0, 1.0]) * np.sign(end)
    members = np.ones((3, 1), dtype=bool)
    return lc._beginning_of_pool(cells(n, positives, members, at), end)


@pytest.mark.parametrize("end", [lc.END, -lc.END])
def test_scores_of_1_with_fewer_outcomes_than_the_next_are_pooled_with_them(end):
    def begins(n, positives):
        events = np.array(positives)
        events = events if end > 0 else np.array(n) - events
        found = pool_begins(n, events, end)
        return None if found is None else found * np.sign(end)

    # rates from the end: 2/10, 11/20, 16/30; 7/10 apart, a standard error of 0.22
    assert begins([10, 10, 10], [2, 9, 5]) == 2.0
    assert begins([10, 10, 10], [2, 9, 9]) == 1.0
    assert begins([10, 10, 10], [9, 8, 7]) is None  # nobody is on the wrong side
    assert begins([10, 10, 10], [6, 8, 7]) is None  # could be chance
    # 1 person of 101: 0.9 apart is more than 2 * 0.31, and 0.7 is less than 2 * 0.46
    assert begins([100, 1, 10], [10, 1, 0]) == 2.0
    assert begins([100, 1, 10], [30, 1, 0]) is None
    assert begins([100, 0.5, 10], [10, 0.5, 0]) == 2.0


def curve(n, positives, raw):
    counted = cells(n, positives, [[1]] * len(n), log_odds(np.array(raw)))
    return _CurveModel((EVERYBODY,), counted, None, None, None)


def test_a_recalibration_improves_if_its_likelihood_is_higher():
    higher, lower = np.zeros((2, 1, N_KNOTS), dtype=np.int64)
    higher[0, 1:-1], lower[0, 1:-1] = SHIFT_UNIT // 4, -SHIFT_UNIT // 4
    model = curve([100, 100], [60, 40], [0.5, 0.3])  # too low
    assert model.improves(SmoothStart((EVERYBODY,), higher))
    assert not model.improves(SmoothStart((EVERYBODY,), lower))
    unchanged = SmoothStart((EVERYBODY,), np.zeros_like(higher))
    assert not model.improves(unchanged)


def additive(n_pieces, codes, outcome):
    n = len(codes)
    rows = AdditiveRows(
        np.array([codes], dtype=np.uint8),
        np.zeros(n),
        np.array(outcome, dtype=float),
        np.ones(n),
    )
    return AdditiveModel([term_of_levels(n_pieces)]), rows


def test_a_step_that_is_too_long_is_halved_until_the_likelihood_does_not_fall():
    model, rows = additive(1, [0, 0, 0, 0], [1, 1, 1, 0])  # the maximum is at log(3)

    def shortened(begin, end):
        fit = AdditiveFit(np.array([end]), np.array([1e6]), np.zeros(1))
        found = _shorten_step(model, rows, fit, np.array([begin]))
        assert found.tolist() == [fit.effect[0]] * 4
        return fit.effect[0]

    assert shortened(0.0, 1.0) == 1.0
    assert shortened(0.0, 8.0) == 2.0  # 8 and 4 are worse than 0
    assert shortened(0.5, 8.5) == 1.5  # so are 4.5 and 2.5, compared with 0.5


def test_variances_are_steady_if_they_change_little_and_the_same_ones_are_left():
    def steady(before, after):
        return _steady(np.array(before), np.array(after))

    assert steady([1.0, 0.5], [1.01, 0.495])
    assert not steady([1.0, 0.5], [1.0, 0.45])
    assert steady([0.0, 0.5], [0.0, 0.5])
    assert not steady([1.0, 0.5], [0.0, 0.5])  # one vanished


def test_a_variance_moves_by_the_square_of_what_its_effects_say():
    model = SimpleNamespace(kept=np.array([False, False, True, False]))
    # squares of effects, over those that the data determine and a half, by the variance
    squares = np.array([0.5, 1e-6, 1e-6, 7.0])
    free = np.array([0.5, 0.5, 0.5, 0.5])
    variance = np.array([0.25, 0.25, 0.25, 0.0])
    updated = _updated_variance(model, variance, squares, free)
    assert updated.tolist() == [0.25 * (0.5 / 1.0 / 0.25) ** 2, 0.0, 0.0625, 0.0]
    large = _updated_variance(model, variance, 100 * squares, free)
    assert large[0] == 9.0  # the largest variance


def visits(both_had_it, n_clusters=10):
    """Two visits of each patient, all with a score of 0.5 and one outcome a patient."""
    patient = np.repeat(np.arange(n_clusters), 2)
    frame = pd.DataFrame({"patient": patient, "s": 0.5, "y": patient < both_had_it})
    frame["y"] = frame.y.astype(int)
    return Atoms.from_frame(frame, score="s", outcome="y", cluster="patient")


def test_the_design_effect_compares_patients_with_independent_rows():
    # residuals of patients: 1 six times and -1 four times, less their mean of 0.2;
    # squares 6 * 0.64 + 4 * 1.44, times 10/9, over 20 rows with a square of 1/4
    expected = (6 * 0.64 + 4 * 1.44) * (10 / 9) / (20 / 4)
    assert repeat_effect(visits(6)) == pytest.approx(expected)
    with pytest.raises(InputError, match="9 different values"):
        repeat_effect(visits(6, n_clusters=9))


def test_a_design_effect_is_at_least_1_and_multiplies_squares():
    atoms = visits(6)
    assert with_effect(atoms, 1.0) is atoms
    larger = with_effect(atoms, 2.5)
    assert larger.weight_sq.tolist() == (2.5 * atoms.weight_sq).tolist()
    assert larger.positives_sq.tolist() == (2.5 * atoms.positives_sq).tolist()
    assert larger.weight.tolist() == atoms.weight.tolist()
    alone = pd.DataFrame({"s": [0.5, 0.25], "y": [0, 1]})
    assert repeat_effect(Atoms.from_frame(alone, score="s", outcome="y")) == 1.0


def test_squared_residuals_are_those_of_people():
    weight, outcome = np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1])
    direct = np.sum(weight**2 * (outcome - 0.3) ** 2)
    squares = np.sum(weight**2)
    of_positives = np.sum(weight**2 * outcome)
    assert squared_residuals(of_positives, squares, 0.3) == pytest.approx(direct)


ALLOWED = {
    "alpha": (1e-9, 1.0),
    "gamma": (1e-9, 1.0),
    "rho": (1e-9, 1.0),
    "eta": (1e-9, 2.0),
    "max_updates": (0, 10**6),
    "guard": (0, 100.0),
    "min_share": (0, 1),
}
REFUSED = {
    "alpha": (0, 1.01),
    "gamma": (0, 1.01),
    "rho": (0, 1.01),
    "eta": (0, 2.01),
    "max_updates": (-1, 1.5),
    "guard": (-0.1, "loud", []),
    "min_share": (-0.1, 1.1),
    "order": ("best",),
    "sample": ("half",),
    "unseen": ("guess",),
    "start": ("rough",),
}


@pytest.mark.parametrize("name", [*REFUSED])
def test_a_parameter_is_accepted_at_its_limits_and_refused_beyond(name):
    for value in ALLOWED.get(name, ()):
        assert (
            getattr(Settings(criterion=multicalibration(), **{name: value}), name)
            == value
        )
    for value in REFUSED[name]:
        with pytest.raises(InputError, match=name):
            Settings(criterion=multicalibration(), **{name: value})


def test_tests_are_needed_unless_nothing_may_change_or_nothing_depends_on_them():
    def needs_evidence(**options):
        return Settings(criterion=multicalibration(), **options).needs_evidence

    assert needs_evidence(max_updates=1, start="smooth", guard=None)
    assert needs_evidence(max_updates=1, start="identity", guard="noise")
    assert not needs_evidence(max_updates=1, start="identity", guard=2.0)
    assert not needs_evidence(max_updates=0, start="smooth", guard="noise")


def test_a_summary_says_that_there_were_too_few_people_for_a_test():
    few = {"X": [0.5] * 8, "y": [1, 0] * 4}
    for max_updates, enough in ((0, True), (1, False), (2, False)):
        model = PMCBoost(max_updates=max_updates).fit(few["X"], few["y"])
        assert model.fit_summary_.enough is enough


def test_a_spline_is_cubic_between_its_knots_and_straight_beyond():
    knots = np.array([0.0, 1.0, 3.0])
    columns = spline_basis(np.array([-1.0, 0.5, 2.0, 3.0, 4.0, 5.0]), knots)
    assert columns[:, 0].tolist() == [1.0] * 6
    assert columns[:, 1].tolist() == [-1.0, 0.5, 2.0, 3.0, 4.0, 5.0]
    # x**3 - 3/2 (x - 1)**3 + 1/2 (x - 3)**3, positive parts, over 3**2
    expected = np.array([0.0, 0.125, 8 - 1.5, 27 - 12, 64 - 40.5 + 0.5, 33.0]) / 9
    assert columns[:, 2] == pytest.approx(expected)
    assert spline_basis(np.array([2.0]), knots[:2]).tolist() == [[1.0, 2.0]]
    assert spline_basis(np.array([2.0]), knots[:1]).tolist() == [[1.0]]


def test_a_logistic_fit_of_one_constant_is_the_rate():
    fit = fit_logistic(
        np.ones((2, 1)), np.zeros(2), np.array([10.0, 30.0]), np.array([4.0, 6.0])
    )
    assert fit.coefficients == pytest.approx([np.log(10 / 30)])
    assert fit.fitted == pytest.approx([0.25, 0.25])
    assert fit.information == pytest.approx(np.array([[40 * 0.25 * 0.75]]), rel=1e-3)
    nobody = fit_logistic(np.ones((1, 1)), np.zeros(1), np.array([1e4]), np.zeros(1))
    assert nobody is None  # the likelihood has no maximum


def test_the_shape_of_two_ranges_has_variance_1_among_people():
    # of 1 and 3 people, 3/4 below the mean and 1/4 above it, a variance of 3/16
    term = term_of_ranges(np.array([1.0, 3.0]), [])
    low, high = term.columns[:, 0] * np.sign(term.columns[1, 0])
    assert low == pytest.approx(-0.75 / np.sqrt(3 / 16))
    assert high == pytest.approx(0.25 / np.sqrt(3 / 16))
    alone = term_of_ranges(np.array([2.0, 5.0]), [1])
    assert alone.columns.tolist() == [[0.0], [1.0]]  # one range has no shape
    assert alone.kinds.tolist() == [1]


def terms_of(n_groups, people=11):
    sizes = [
        GroupSize(Group((("g", str(i)),)), people + i, 0.01) for i in range(n_groups)
    ]
    return lc.smooth_terms(Collection(kept=tuple(sizes), left_out=()))


def test_the_119_largest_groups_have_terms_beside_everybody():
    terms, notes = terms_of(119)
    assert len(terms) == 120
    assert terms[0] == EVERYBODY
    assert notes == ()
    terms, notes = terms_of(120)
    assert len(terms) == 120
    assert Group((("g", "0"),)) not in terms  # the smallest
    assert "only the 119 largest of the 120 groups with at least 11" in notes[0]
    assert len(terms_of(2, people=10)[0]) == 2  # 10 people are too few, and 11 are not


def test_triangles_are_1_at_their_knot_and_0_at_the_next():
    found = lc._triangles(
        np.array([0.0, 1.0, 1.5, 4.0, 9.0]), np.array([1.0, 2.0, 4.0])
    )
    assert found.tolist() == [
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.5, 0.5, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, 0.0, 1.0],
    ]
    assert lc._triangles(np.array([1.0]), np.array([])).shape == (1, 0)


def test_people_are_ranked_by_value_for_quantiles():
    ranking = lc._Ranking(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]))
    assert ranking.quantiles([0.25, 0.5, 0.51, 0.75, 0.76, 1.0]).tolist() == [
        *(1.0, 1.0),
        *(2.0, 2.0),
        *(3.0, 3.0),
    ]


def test_half_of_an_effect_is_determined_by_as_much_information_as_its_prior_has():
    model = AdditiveModel([term_of_levels(1)])
    variance = np.array([0.25])  # a prior with information of 4
    for information, free in ((4.0, 0.5), (12.0, 0.75), (0.0, 0.0)):
        fit = fit_quadratic(
            model, np.ones(1), np.array([[information]]), variance, hold=True
        )
        assert fit.free.tolist() == pytest.approx([free])
        assert fit.effect.tolist() == pytest.approx([1 / (information + 4)])
        assert fit.variance.tolist() == [0.25]


def test_the_smallest_gap_that_is_an_update_is_that_where_nobody_had_the_outcome():
    rule = UpdateRule(offset=1000.0, slope=0.5, rho=600.0, z=0.0, min_share=0.0)
    assert rule.smallest_cutoff == 1300 - TIE
    assert rule._replace(offset=0.0).smallest_cutoff == 300 - TIE
