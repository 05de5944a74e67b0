"""What categories show by chance, worked out by hand."""

import numpy as np
import pytest
from small_samples import rows_of

from propcal.auditing.statistics.chance import (
    Chance,
    ScoreCells,
    _drawn_positives,
    _effective,
    design_effect,
    different_people,
    enough_people,
    score_cells,
)
from propcal.core.bins import uniform
from propcal.core.categories import categories
from propcal.core.draws import Draws
from propcal.core.fit.evidence import atom_clusters
from propcal.core.groups import Groups
from propcal.core.reduction import without_clusters
from propcal.reading.patient_ids import N_CLUSTERS
from propcal.reading.rows import rows_to_atoms

NAN = float("nan")


def cells_of(weight, typical, score):
    """One cell of people."""
    one = np.array([0])
    columns = (np.array([value]) for value in (weight, typical, score))
    return ScoreCells(one, one, *columns)


def drawn(cells, n_draws=4000):
    blocks = _drawn_positives(cells, n_draws, Draws(0), block=1000)
    return np.concatenate(list(blocks))[:, 0]


def test_whole_people_of_equal_weight_have_the_outcome_or_not():
    """Two people of weight 3: none, one or both."""
    found = drawn(cells_of(6.0, 3.0, 0.5))
    assert set(found.tolist()) == {0.0, 3.0, 6.0}
    assert found.mean() == pytest.approx(3, abs=0.15)


def test_parts_of_a_person_have_the_variance_of_their_number():
    """A weight of 3, of 2 for each person, is 1.5 people: drawn as two, whose share is
    off by a factor of the root of 2 / 1.5.
    """
    found = drawn(cells_of(3.0, 2.0, 0.4))
    off = np.sqrt(2 / 1.5)
    shares = [0.4 + (k / 2 - 0.4) * off for k in (0, 1, 2)]
    assert sorted(set(found.round(9).tolist())) == pytest.approx(
        [3 * p for p in shares]
    )
    assert found.mean() == pytest.approx(1.2, abs=0.08)
    assert found.var() == pytest.approx(3 * 2 * 0.4 * 0.6, rel=0.06)


def test_less_than_a_person_is_drawn_as_one():
    found = drawn(cells_of(1.0, 4.0, 0.5))
    assert set(found.tolist()) == {0.5 - 1.0, 0.5 + 1.0}


def test_bins_are_cut_into_parts_with_the_mean_score_of_their_people():
    """Two people of weight 1 and one of weight 3, whose parts are eighths of a tenth."""
    score = np.array([0.101, 0.103, 0.103])
    weight = np.array([1.5, 1.5, 3.0])
    cells = score_cells(rows_to_atoms(score, [1, 0, 0], None, weight), uniform(10))
    assert cells.bin_index.tolist() == [1]
    assert cells.weight.tolist() == [6.0]
    assert cells.typical == pytest.approx([(2 * 1.5**2 + 9) / 6])
    assert cells.n == pytest.approx([36 / 13.5])
    assert cells.score == pytest.approx([(1.5 * 0.204 + 3 * 0.103) / 6])


def test_a_design_effect_makes_people_of_its_bin_worth_less():
    score, outcome = rows_of((0.2, 10, 3), (0.8, 10, 6))
    atoms = rows_to_atoms(score, outcome, None)
    cells = score_cells(atoms, uniform(2), np.array([1.0, 4.0]))
    assert cells.n.tolist() == [10.0, 2.5]


def visits(*patients):
    """Two visits of each patient, by score of both and the number with the outcome."""
    score = np.repeat([score for score, _ in patients], 2)
    outcome = np.concatenate([np.arange(2) < events for _, events in patients])
    person = np.repeat(np.arange(len(patients)), 2)
    return rows_to_atoms(score, outcome.astype(int), None, cluster=person)


def test_visits_that_end_alike_have_a_design_effect_of_two():
    """Half of ten patients have the outcome at both visits: sums are +-1, of which the
    variance is 10 / 9, and 20 single residuals of 1/2 have 5.
    """
    atoms = visits(*[(0.3, 2)] * 5, *[(0.3, 0)] * 5)
    assert len(atoms.patterns) == 10  # no two patients share a cluster
    effect = 10 * (10 / 9) / 5
    # the other bin has nobody: it takes the value of all
    assert design_effect(atoms, uniform(2)) == pytest.approx([effect, effect])


def test_visits_that_end_differently_have_a_design_effect_of_one():
    atoms = visits(*[(0.3, 1)] * 10)
    assert design_effect(atoms, uniform(2)).tolist() == [1.0, 1.0]
    alone = rows_to_atoms([0.3, 0.6], [0, 1], None)
    assert design_effect(alone, uniform(2)).tolist() == [1.0, 1.0]


def test_fewer_than_ten_patients_have_no_design_effect():
    assert np.isnan(design_effect(visits(*[(0.3, 1)] * 9), uniform(2))).all()


@pytest.mark.parametrize("n_events", [19, 20])
def test_a_bin_with_20_outcomes_has_a_design_effect_of_its_own(n_events):
    """With 19 outcomes, the bin above 0.5 takes the value of both bins together."""
    person = np.arange(80) // 2
    score = np.where(person < 20, 0.3, 0.8)
    outcome = np.where(person < 20, person % 2, 0)
    outcome[40 : 40 + n_events] = 1
    _check_effects(rows_to_atoms(score, outcome, None, cluster=person))


def _check_effects(atoms):
    """The design effects by an independent count: sums of each cluster and bin."""
    cluster = atom_clusters(atoms)
    high = atoms.score >= 2**31
    known = np.unique(cluster)
    clustered, independent, fewer = [], [], []
    for inside in (~high, high):
        people = atoms.people[inside].sum()
        events = atoms.positives[inside].sum()
        rate = events / people
        sums = []
        for one in known:
            rows = inside & (cluster == one)
            sums.append(atoms.positives[rows].sum() - rate * atoms.people[rows].sum())
        clustered.append(np.sum(np.square(sums)) * len(known) / (len(known) - 1))
        independent.append(people * rate * (1 - rate))
        fewer.append(min(events, people - events))
    pooled = sum(clustered) / sum(independent)
    expected = [
        max(one / other if n >= 20 else pooled, 1.0)
        for one, other, n in zip(clustered, independent, fewer)
    ]
    assert design_effect(atoms, uniform(2)) == pytest.approx(expected)


def table_of(atoms, n_bins=2):
    atoms = without_clusters(atoms)
    groups = Groups().collect(atoms, gamma=0.0, or_everybody=True)
    return categories(atoms, groups, uniform(n_bins), min_share=0.0)


def test_rows_of_different_people_are_counted():
    score, outcome = rows_of((0.2, 10, 3), (0.8, 7, 6))
    atoms = rows_to_atoms(score, outcome, None)
    assert different_people(atoms, table_of(atoms)).tolist() == [[10.0, 7.0]]


def test_patients_are_as_many_as_fill_their_clusters():
    """Ten patients in ten of the clusters: a few more would share them."""
    atoms = visits(*[(0.3, 1)] * 10)
    expected = -N_CLUSTERS * np.log(1 - 10 / N_CLUSTERS)
    found = different_people(atoms, table_of(atoms))
    assert found[0] == pytest.approx([expected, 0.0])


def test_a_category_needs_enough_people_also_after_the_design_effect():
    people = np.array([[20.0, 20.0, 19.0, 20.0, NAN]])
    rows = np.array([[60, 59, 60, 20, 5]])
    effect = np.array([3.0, 3.0, 3.0, 1.0, NAN])
    found = enough_people(people, rows, effect, 20)
    assert found.tolist() == [[True, False, False, True, True]]


def test_people_are_worth_as_many_as_have_their_variance():
    """0.25 / 0.05 are 5 people, at most as many as there are."""
    rate = np.array([0.5, 0.5, 0.0, 1.0])
    variance = np.array([0.05, 0.01, 0.01, 0.01])
    with np.errstate(divide="ignore"):
        found = _effective(rate, variance, np.full(4, 20.0))
    assert found == pytest.approx([5, 20, 20, 20])


def test_the_error_of_a_rate_is_that_of_a_perfect_score_and_half_an_outcome():
    """Ten people at 0.2, three of whom have the outcome: 10 * 0.16 and 0.25."""
    score, outcome = rows_of((0.2, 10, 3), (0.8, 20, 16))
    atoms = rows_to_atoms(score, outcome, None)
    chance = Chance.of(atoms, table_of(atoms), 100, Draws(0))
    expected = [np.sqrt(1.6 + 0.25) / 10, np.sqrt(3.2 + 0.25) / 20]
    assert chance.error[0] == pytest.approx(expected)
    assert chance.effective[0] == pytest.approx([10, 20])
    assert chance.people.tolist() == [[10, 20]]
    assert chance.rates.shape == (100, 1, 2)
    assert set((10 * chance.rates[:, 0, 0]).round(6) % 1) == {0.0}
    assert chance.rates.mean(axis=0)[0] == pytest.approx([0.2, 0.8], abs=0.03)


def test_the_error_of_a_rate_of_repeat_visits_is_larger_by_the_design_effect():
    atoms = visits(*[(0.3, 2)] * 5, *[(0.3, 0)] * 5)
    chance = Chance.of(atoms, table_of(atoms), 50, Draws(0))
    effect = 10 * (10 / 9) / 5
    assert chance.error[0, 0] == pytest.approx(
        np.sqrt((20 * 0.21 + 0.25) * effect) / 20
    )
    assert chance.effective[0, 0] == pytest.approx(20 / effect)


def test_weights_make_people_worth_fewer():
    """Ten people of weight 2 and ten of weight 4: 60² / 200 are 18."""
    score = np.full(20, 0.2)
    outcome = np.tile([0, 1], 10)
    weight = np.repeat([2.5, 5.0], 10)
    atoms = rows_to_atoms(score, outcome, None, weight)
    chance = Chance.of(atoms, table_of(atoms, 1), 50, Draws(0))
    squares = 10 * 2.5**2 + 10 * 25
    spread = squares * 0.16 + 0.25 * (squares / 75) ** 2
    assert chance.error[0, 0] == pytest.approx(np.sqrt(spread) / 75)
    assert chance.effective[0, 0] == pytest.approx(75**2 / squares)


def test_too_few_patients_leave_chance_unknown():
    atoms = visits(*[(0.3, 1)] * 9)
    chance = Chance.of(atoms, table_of(atoms), 50, Draws(0))
    assert chance.rates.shape == (0, 1, 2)
    for unknown in (chance.error, chance.effective, chance.people, chance.effect):
        assert np.isnan(unknown).all()
