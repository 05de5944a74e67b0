"""Categories (a group within a score bin): their people, outcomes and scores."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import (
    UNIT,
    BoolArray,
    FloatArray,
    IntArray,
    SumArray,
    ratio,
    run_sums,
)
from propcal.core.groups import Collection, membership
from propcal.core.patterns import BESIDE, CLUSTER, KEY
from propcal.errors import refused

if TYPE_CHECKING:
    import pandas as pd

# levels that separate the outcomes do so by chance if chance does more often than this
MAX_CHANCE = 1e-6
# warn if guessing the outcome by level leaves less than this share of the errors
MAX_SHARE_OF_ERRORS = 0.1
COLUMNS = ("people", "positives", "outcome_rate", "mean_score", "gap")  # of the table


@dataclass(frozen=True, eq=False)
class Categories:
    """One row for each (group, bin), with the groups in the order of C and the bins
    ascending.

    Arrays have the shape (n_groups, n_bins). Sums of outcomes and scores are ordinary
    numbers, not units of the grid; means are NaN where a category is empty.
    """

    collection: Collection
    bins: Bins
    people: IntArray
    weight: SumArray
    positives: FloatArray
    score_sum: FloatArray
    gap: FloatArray
    share: FloatArray
    eligible: BoolArray

    @property
    def outcome_rate(self) -> FloatArray:
        """Share of each category that had the outcome."""
        return ratio(self.positives, self.weight)

    @property
    def mean_score(self) -> FloatArray:
        """Mean score of each category."""
        return ratio(self.score_sum, self.weight)

    def to_frame(self, *, rho: float = 0.1) -> pd.DataFrame:
        """List the categories that are not empty, with the gap itself and as a share of
        the outcome rate.
        """
        import pandas as pd

        group, bin_index = np.nonzero(self.people)
        rate = self.outcome_rate[group, bin_index]
        gap = self.gap[group, bin_index]
        labels = np.array(self.bins.labels, dtype=object)
        columns: dict[str, Any] = {
            "group": [self.collection.kept[g].group.name for g in group],
            "bin": labels[bin_index],
        }
        for name in COLUMNS:
            columns[name] = getattr(self, name)[group, bin_index]
        columns["proportional_gap"] = gap / proportional(rho).allowance(rate)
        columns["eligible"] = self.eligible[group, bin_index]
        return pd.DataFrame(columns)


def bucket_starts(atoms: Atoms, bins: Bins) -> IntArray:
    """The first atom of each (pattern, bin), pattern by pattern, and the number of
    atoms.

    Scores ascend within a pattern, so each bucket is a run of atoms.
    """
    starts = np.empty((len(atoms.patterns), len(bins)), dtype=np.int64)
    starts[:, 0] = atoms.starts[:-1]
    inner_edges = bins.edges[1:-1]
    for row, low, high in zip(starts, atoms.starts[:-1], atoms.starts[1:]):
        row[1:] = low + np.searchsorted(atoms.score[low:high], inner_edges)
    return np.append(starts, len(atoms))


def bucket_sums(atoms: Atoms, bins: Bins, values: SumArray) -> SumArray:
    """Add up a column of the atoms within each (pattern, bin); exact for integers."""
    sums = run_sums(values, bucket_starts(atoms, bins))
    return sums.reshape(len(atoms.patterns), len(bins))


def categories(
    atoms: Atoms,
    collection: Collection,
    bins: Bins,
    *,
    min_share: float,
    min_people: int = 1,
    inside: BoolArray | None = None,
) -> Categories:
    """Tabulate every (group, bin) of a collection.

    A category is eligible if its share of the weight is at least `min_share` and it has
    at least `min_people` people. `inside` says which groups contain which patterns, if
    that is known.
    """
    if inside is None:
        inside = membership(collection.groups, atoms.patterns)
    counted = inside.astype(np.int64)
    starts = bucket_starts(atoms, bins)

    def sums(column: SumArray) -> Any:
        by_bucket = run_sums(column, starts)
        return counted @ by_bucket.reshape(len(atoms.patterns), len(bins))

    people = sums(atoms.people)
    weight = sums(atoms.weight)
    outcome = sums(atoms.outcome_units())
    score = sums(atoms.weight * atoms.score)
    share = weight / atoms.weight.sum()
    return Categories(
        collection,
        bins,
        people,
        weight,
        positives=outcome / UNIT,
        score_sum=score / UNIT,
        gap=ratio((outcome - score) / UNIT, weight),
        share=share,
        eligible=(people >= max(min_people, 1)) & (share >= min_share),
    )


def loss_of(table: Categories, criterion: Criterion) -> float:
    """The tolerance that the worst eligible category would need."""
    chosen = table.eligible
    return float(criterion.loss(table.gap[chosen], table.outcome_rate[chosen]))


def mc_of(table: Categories) -> float:
    """MC loss: the largest |outcome rate - mean score| of any category."""
    return loss_of(table, multicalibration())


def pmc_of(table: Categories, rho: float) -> float:
    """PMC loss: the largest gap as a share of the category's outcome rate (or of `rho`
    if larger).
    """
    return loss_of(table, proportional(rho))


def smallest_alpha_of(
    table: Categories, criterion: Criterion, gamma: float | None = None
) -> float:
    """The smallest alpha for which a score is (alpha, lambda)-multicalibrated by a
    criterion.

    A larger alpha allows larger gaps and asks for larger categories. So each category
    needs its own loss, or else an alpha above which it is too small to count; the score
    needs the largest of these.

    Parameters
    ----------
    table : Categories
        All categories, whether eligible or not.
    criterion : Criterion
        MC or PMC.
    gamma : float, optional
        With it, a category counts if its share of all people is at least alpha * lambda
        * gamma (Algorithm 1); without it, if its share of its group is at least alpha *
        lambda (the paper's definitions).
    """
    not_empty = table.people > 0
    if not not_empty.any():
        return float("nan")
    weight = np.asarray(table.weight, dtype=np.float64)
    if gamma is None:
        share = weight / weight.sum(axis=1, keepdims=True)
    else:
        share = table.share / gamma
    counts_up_to = share[not_empty] * table.bins.divisor
    allowance = criterion.allowance(table.outcome_rate[not_empty])
    needs = np.abs(table.gap[not_empty]) / allowance
    return float(np.max(np.minimum(needs, counts_up_to)))


def dc_of(table: Categories, rho: float) -> float:
    """DC loss: the largest log-ratio of two groups' outcome rates in the same bin."""
    rates = np.where(table.eligible, table.outcome_rate, np.nan)
    return float(largest_log_ratio(rates, rho=rho))


def largest_log_ratio(outcome_rate: FloatArray, *, rho: float) -> FloatArray:
    """The largest |log rate_a - log rate_b| over all bins and all pairs of groups.

    Parameters
    ----------
    outcome_rate : array of shape (..., n_groups, n_bins)
        NaN where a category is too small to be included.
    rho : float
        Rates below this value are replaced by it.

    Notes
    -----
    Within a bin, only the highest and the lowest rate matter. A bin with a single group
    contributes 0.

    >>> rates = np.array([[0.2, 0.5], [0.1, np.nan], [0.15, 0.6]])
    >>> round(float(np.exp(largest_log_ratio(rates, rho=0.01))), 6)
    2.0
    """
    counted = ~np.isnan(outcome_rate)
    floored = np.maximum(
        outcome_rate, rho, where=counted, out=np.ones_like(outcome_rate)
    )
    log_rate = np.log(floored)
    highest = np.max(log_rate, axis=-2, where=counted, initial=-np.inf)
    lowest = np.min(log_rate, axis=-2, where=counted, initial=np.inf)
    any_group = counted.any(axis=-2)
    apart = np.subtract(highest, lowest, where=any_group, out=np.zeros_like(highest))
    largest = np.max(apart, axis=-1)
    return np.asarray(np.where(any_group.any(axis=-1), largest, np.nan))


def check_outcome_groups(atoms: Atoms) -> None:
    """Refuse an attribute that is the outcome; warn if one nearly is.

    Its groups have outcome rates of 0 and 1: a correction for them would need to know
    the outcome before scoring, and an audit of them says nothing about the score.
    """
    weights = atoms.pattern_sums(atoms.weight)
    events = atoms.pattern_sums(atoms.positives)
    counts = atoms.pattern_sums(atoms.people)
    for a, name in enumerate(atoms.patterns.attributes):
        if name == CLUSTER or name.startswith((BESIDE, KEY)):
            continue
        level = atoms.patterns.table[:, a]
        weight = np.bincount(level, weights).astype(np.float64)
        positives = np.bincount(level, events).astype(np.float64)
        people = np.bincount(level, counts).astype(np.float64)
        if not tells_outcome(weight, positives, people):
            continue
        total = weight.sum()
        wrong = _wrong_guesses(weight, positives)
        if wrong <= 1e-9 * total:
            raise refused(
                "group is outcome",
                name=name,
                levels=len(people),
                people=int(people.sum()),
            )
        share = 1 - wrong / total
        message = refused("group nearly outcome", name=name, share=share).message
        warnings.warn(message, UserWarning, stacklevel=3)


def _wrong_guesses(weight: FloatArray, positives: FloatArray) -> float:
    """How often guessing each level's more common outcome would be wrong."""
    return float(np.minimum(positives, weight - positives).sum())


def tells_outcome(
    weight: FloatArray, positives: FloatArray, people: FloatArray
) -> bool:
    """Whether the levels of an attribute, by their sums, reveal the outcome of nearly
    everybody.
    """
    total = weight.sum()
    events = positives.sum()
    wrong_without_levels = min(events, total - events)
    if wrong_without_levels <= 0:
        return False
    if _wrong_guesses(weight, positives) > MAX_SHARE_OF_ERRORS * wrong_without_levels:
        return False
    # the probability that each level has only one outcome if the attribute is unrelated
    # to the outcome
    people = people[people > 0]
    rate = events / total
    one_outcome = rate**people + (1 - rate) ** people
    return float(np.prod(one_outcome)) <= MAX_CHANCE


def outcome_alike(atoms: Atoms) -> str:
    """Whether nobody or everybody had the outcome, in words; empty if some had it and
    some had not.
    """
    events = float(atoms.positives.sum())
    total = float(atoms.weight.sum())
    if 0 < events < total:
        return ""
    who = "nobody" if events <= 0 else "everybody"
    return (
        f"{who} had the outcome; check that the right column, and the right value of "
        "it, is the event"
    )
