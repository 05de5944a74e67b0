"""Categories (a group within a score bin): their people, outcomes and scores, and how
large one must be.
"""

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

BY_CHANCE = (
    1e-6  # if chance separates the outcomes this often, it is taken for a coincidence
)
# warn if guessing the outcome by level leaves less than this share of the errors
NEARLY = 0.1
COLUMNS = (
    "people",
    "positives",
    "outcome_rate",
    "mean_score",
    "gap",
)  # of the table of cells


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

        g, b = np.nonzero(self.people)
        rate = self.outcome_rate[g, b]
        columns: dict[str, Any] = {
            "group": [self.collection.kept[i].group.name for i in g],
            "bin": np.array(self.bins.labels, dtype=object)[b],
            **{name: getattr(self, name)[g, b] for name in COLUMNS},
            "proportional_gap": self.gap[g, b] / proportional(rho).allowance(rate),
            "eligible": self.eligible[g, b],
        }
        return pd.DataFrame(columns)


def bucket_sums(atoms: Atoms, bins: Bins, values: SumArray) -> SumArray:
    """Add up a column of the atoms within each (pattern, bin); exact for integers.

    Scores ascend within a pattern, so each bucket is a run of atoms.
    """
    cuts = np.empty((len(atoms.patterns), len(bins) + 1), dtype=np.int64)
    for pattern, (low, high) in enumerate(zip(atoms.starts[:-1], atoms.starts[1:])):
        cuts[pattern, 1:-1] = low + np.searchsorted(
            atoms.score[low:high], bins.edges[1:-1]
        )
        cuts[pattern, 0] = low
        cuts[pattern, -1] = high
    return run_sums(values, np.append(cuts[:, :-1], len(values))).reshape(len(cuts), -1)


def categories(
    atoms: Atoms,
    collection: Collection,
    bins: Bins,
    *,
    min_share: float,
    min_people: int = 1,
) -> Categories:
    """Tabulate every (group, bin) of a collection.

    A category is eligible if its share of the weight is at least `min_share` and it has
    at least `min_people` people.
    """
    inside = membership(collection.groups, atoms.patterns).astype(np.int64)
    columns = (
        atoms.people,
        atoms.weight,
        atoms.outcome_units(),
        atoms.weight * atoms.score,
    )
    sums: list[Any] = [inside @ bucket_sums(atoms, bins, column) for column in columns]
    people, weight, outcome, score = sums
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
    there = table.people > 0
    if not there.any():
        return float("nan")
    weight = np.asarray(table.weight, dtype=np.float64)
    if gamma is None:
        share = weight / weight.sum(axis=1, keepdims=True)
    else:
        share = table.share / gamma
    counts_up_to = share[there] * table.bins.divisor
    needs = np.abs(table.gap[there]) / criterion.allowance(table.outcome_rate[there])
    return float(np.max(np.minimum(needs, counts_up_to)))


def dc_of(table: Categories, rho: float) -> float:
    """DC loss: the largest log-ratio of two groups' outcome rates in the same bin."""
    return float(
        largest_log_ratio(np.where(table.eligible, table.outcome_rate, np.nan), rho=rho)
    )


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
    Within a bin, only the highest and the lowest rate matter. A bin with a single group contributes 0.

    >>> rates = np.array([[0.2, 0.5], [0.1, np.nan], [0.15, 0.6]])
    >>> round(float(np.exp(largest_log_ratio(rates, rho=0.01))), 6)
    2.0
    """
    counted = ~np.isnan(outcome_rate)
    floored = np.log(
        np.maximum(outcome_rate, rho, where=counted, out=np.ones_like(outcome_rate))
    )
    highest = np.max(floored, axis=-2, where=counted, initial=-np.inf)
    lowest = np.min(floored, axis=-2, where=counted, initial=np.inf)
    some = counted.any(axis=-2)
    apart = np.max(
        np.subtract(highest, lowest, where=some, out=np.zeros_like(highest)), axis=-1
    )
    return np.asarray(np.where(some.any(axis=-1), apart, np.nan))


def check_outcome_groups(atoms: Atoms) -> None:
    """Refuse an attribute that is the outcome; warn if one nearly is.

    Its groups have outcome rates of 0 and 1: a correction for them would need to know
    the outcome before scoring, and an audit of them says nothing about the score.
    """
    sums = [
        atoms.pattern_sums(column)
        for column in (atoms.weight, atoms.positives, atoms.people)
    ]
    for a, name in enumerate(atoms.patterns.attributes):
        if name == CLUSTER or name.startswith((BESIDE, KEY)):
            continue
        level = atoms.patterns.table[:, a]
        weight, positives, people = (
            np.bincount(level, column).astype(np.float64) for column in sums
        )
        if not tells_outcome(weight, positives, people):
            continue
        # how often would guessing each level's more common outcome be wrong?
        total = weight.sum()
        wrong = np.minimum(positives, weight - positives).sum()
        if wrong <= 1e-9 * total:
            raise refused(
                "group is outcome",
                name=name,
                levels=len(people),
                people=int(people.sum()),
            )
        message = refused(
            "group nearly outcome", name=name, share=1 - wrong / total
        ).message
        warnings.warn(message, UserWarning, stacklevel=3)


def tells_outcome(
    weight: FloatArray, positives: FloatArray, people: FloatArray
) -> bool:
    """Whether the levels of an attribute, by their sums, tell the outcome of nearly
    everybody.
    """
    total = weight.sum()
    events = positives.sum()
    wrong = np.minimum(positives, weight - positives).sum()
    guessed = min(events, total - events)
    if not guessed > 0 or wrong > NEARLY * guessed:
        return False
    # the probability that each level has only one outcome if the attribute is unrelated
    # to the outcome
    people = people[people > 0]
    rate = events / total
    return float(np.prod(rate**people + (1 - rate) ** people)) <= BY_CHANCE


def outcome_alike(atoms: Atoms) -> str:
    """Whether nobody or everybody had the outcome, in words; empty if some had it and
    some had not.
    """
    events = float(atoms.positives.sum())
    total = float(atoms.weight.sum())
    if 0 < events < total:
        return ""
    who = "nobody" if events <= 0 else "everybody"
    return f"{who} had the outcome; check that the right column, and the right value of it, is the event"
