"""What changes between two scores of the same people: measures, who is nearer to the observed rate, flags.

Intervals of differences use that the people are the same.

Of two predicted rates of a group, the observed rate is nearer to the one on its own side of the midpoint. So
the test of a change is that of an audit, for the number of events of the group under the midpoint of both
scores; it allows for repeat visits and survey weights as an audit does. Holm's adjustment applies to all
groups of a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.chance import score_cells
from propcal.auditing.decision import group_tests
from propcal.auditing.findings import Findings
from propcal.auditing.headcount import Headcount
from propcal.auditing.hypothesis_tests import SIGNIFICANCE, holm
from propcal.auditing.intervals import CONFIDENCE, normal_tail, t_tail
from propcal.auditing.loss_intervals import debiased, losses
from propcal.auditing.measures import auroc_influence, log_losses, squared_losses
from propcal.auditing.names import HIGHER, LOWER
from propcal.auditing.profile import JudgedGroups, audited_groups
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray, IntArray, to_grid
from propcal.core.groups.collection import EVERYBODY, Group, membership
from propcal.core.reduction import rescored, without_clusters
from propcal.numbers import IN_SENTENCE, known, p_equals

Difference = tuple[float, float, float, float, float]  # base, value, difference, low, high


def loss_differences(a: Findings, b: Findings) -> dict[str, Difference]:
    """Of MC, PMC and DC loss: from the limits of both, each at half the error."""
    first, second = (
        losses(f.table, f.noise, f.rule.rho, confidence=(1 + CONFIDENCE) / 2)[["value", "low", "high"]]
        for f in (a, b)
    )
    return {
        name: (value, other, other - value, other_low - high, other_high - low)
        for (name, value, low, high), (other, other_low, other_high) in zip(
            first.itertuples(), second.itertuples(index=False)
        )
    }


def person_differences(a: Sample, b: Sample) -> dict[str, Difference]:
    """Each person's contribution to a measure of the one score less that of the other."""
    return {
        "observed_expected": _ratio_difference(a, b),
        "brier": _mean_difference(a, squared_losses(a.score), squared_losses(b.score)),
        "log_loss": _mean_difference(a, log_losses(a.score), log_losses(b.score)),
        "auroc": _auroc_difference(a, b),
    }


def _interval(sample: Sample, first: float, second: float, error: float) -> Difference:
    gained, reach = second - first, sample.quantile * error
    return first, second, gained, gained - reach, gained + reach


def _ratio_difference(a: Sample, b: Sample) -> Difference:
    if min(a.expected, b.expected) <= 0:
        return (float("nan"),) * 5
    first, second = a.observed / a.expected, b.observed / b.expected
    shared = second * b.score / b.expected - first * a.score / a.expected
    return _interval(a, first, second, a.error(1 / b.expected - 1 / a.expected - shared, -shared))


def _mean_difference(a: Sample, before: Sequence[Any], after: Sequence[Any]) -> Difference:
    return _interval(a, a.mean(*before), a.mean(*after), _mean_change(a, before, after)[1])


def brier_test(a: Sample, b: Sample) -> tuple[float, float]:
    """By how much the Brier score changes, and the p-value of no change."""
    change, error = _mean_change(a, squared_losses(a.score), squared_losses(b.score))
    z = abs(change) / error if error > 0 else 0.0
    return change, 2 * (normal_tail(z) if a.cluster is None else t_tail(z, max(a.n_clusters - 1, 1)))


def _mean_change(sample: Sample, before: Sequence[Any], after: Sequence[Any]) -> tuple[float, float]:
    """The change of a mean loss, given for either outcome, and its standard error."""
    change = sample.mean(*after) - sample.mean(*before)
    return change, sample.error(*((y - x - change) / sample.total for x, y in zip(before, after)))


def _auroc_difference(a: Sample, b: Sample) -> Difference:
    if not 0 < a.observed < a.total:
        return (float("nan"),) * 5
    (first, *before), (second, *after) = auroc_influence(a), auroc_influence(b)
    return _interval(a, first, second, a.error(*(y - x for x, y in zip(before, after))))


def mean_square_difference(
    place: int, joint: Atoms, scores: tuple[FloatArray, FloatArray], found: tuple[Findings, Findings]
) -> Difference:
    """Of the debiased mean squared gap (0), or gap as a share of the rate (1).

    Its error has two parts: gaps that exist, which each outcome makes a little larger or smaller
    (paired, as both scores see the same outcomes), and the squares of noise, which are taken as
    independent.
    """
    criterion = (multicalibration(), proportional(found[0].rule.rho))[place]
    same = np.array_equal(*scores)  # then the noise is the same too
    first, second = (float(debiased(f.table, f.noise, f.rule.rho)["mean_square"].iloc[place]) for f in found)
    sample = Sample.of(joint)
    before, after = (_pull(f.table, joint, score, criterion) for f, score in zip(found, scores))
    paired = sample.error(after[0] - before[0], after[1] - before[1])
    squares = 0.0 if same else sum(_chance_square(f, criterion) for f in found)
    return _interval(sample, first, second, float(np.sqrt(paired**2 + squares)))


def _pull(
    table: Categories, joint: Atoms, score: FloatArray, criterion: Criterion
) -> tuple[FloatArray, FloatArray]:
    """How much a person with and without the outcome pulls at the mean squared gap, for each atom."""
    rate, gap, chosen = table.outcome_rate, table.gap, table.eligible
    with np.errstate(invalid="ignore", divide="ignore"):
        allowed = criterion.allowance(rate)
        at_score = criterion.offset + criterion.slope * table.mean_score
        slope = 2 * gap / allowed**2  # of the squared gap in the rate, which the allowance follows above rho
        slope = slope * np.where(rate > criterion.rho, at_score / allowed, 1.0)
        pull = np.where(chosen, slope / table.weight, 0.0) / max(int(chosen.sum()), 1)
    inside = membership(table.collection.groups, joint.patterns).astype(np.float64)
    positive, negative = (inside.T @ np.where(chosen, pull * part, 0.0) for part in (1 - rate, -rate))
    where = joint.pattern_index(), table.bins.index(to_grid(score))
    return positive[where], negative[where]


def _chance_square(found: Findings, criterion: Criterion) -> float:
    """Variance of the mean square that a perfect score shows."""
    chosen, rates = found.table.eligible, found.noise.rates
    if not chosen.any() or not len(rates):
        return float("nan")
    score = found.table.mean_score[chosen]
    gap = (rates[:, chosen] - score) / criterion.allowance(rates[:, chosen])
    return float(np.var(np.mean(gap**2, axis=1)))


TEST = "observed events against the midpoint of both predictions"
BETTER, WORSE, COULD_BE_CHANCE, SAME = "nearer", "further off", "could be chance", "hardly changed"
HARDLY = 0.01  # in the logarithm of a predicted rate: smaller changes do not matter


@dataclass(frozen=True)
class GroupChange:
    """A group for whom a score is nearer to the observed rate than the base, or further off.

    Attributes
    ----------
    score, base : str
        Names of both scores.
    who, label : str
        The group, and what readers call it.
    direction : "nearer" or "further off"
    observed, before, after : float
        The observed rate, and the rates that the base and the other score predict.
    ratio_before, ratio_after : float
        O/E ratios.
    test : str
    p_value : float
        Adjusted for the number of groups.
    people, events : float
    """

    score: str
    base: str
    who: str
    label: str
    direction: str
    observed: float
    before: float
    after: float
    ratio_before: float
    ratio_after: float
    test: str
    p_value: float
    people: float
    events: float

    @property
    def size(self) -> float:
        """By how much the predicted rate changes; 0 if it is not known."""
        change = self.after - self.before
        return change if known(change) else 0.0

    @property
    def words(self) -> str:
        """The group with its O/E ratios before and after, as far as these are known."""
        if not (known(self.ratio_before) and known(self.ratio_after)):
            return self.label
        before, after = (IN_SENTENCE.decimal(ratio) for ratio in (self.ratio_before, self.ratio_after))
        return f"{self.label} (O/E {before} before, {after} after)"

    @property
    def rates(self) -> str:
        """The observed rate, both predictions and the p-value."""
        numbers = (self.observed, self.before, self.after)
        told = [p_equals(self.p_value)]
        if all(map(known, numbers)):
            observed, before, after = map(IN_SENTENCE.percent, numbers)
            told.insert(0, f"observed {observed}, predicted {before} before and {after} after")
        return "; ".join(told)


def tested_changes(
    joint: Atoms,
    base: FloatArray,
    other: FloatArray,
    found: Findings,
    brier: Mapping[str, tuple[float, float]],
) -> pd.DataFrame:
    """One row for each group tested: `group`, adjusted `p_value` and `change`; and those of the Brier score.

    `brier` has the change of the Brier score of each group, and its p-value.
    """
    columns = ["group", "p_value", "change", "brier_p_value", "brier_change"]
    if found.untested:
        return pd.DataFrame(columns=columns)
    before, after = to_grid(base), to_grid(other)
    middle = rescored(joint, (before + after) // 2)
    bare, rule = without_clusters(middle), found.rule
    judged = JudgedGroups.of(bare, rule.min_group, rule.min_events)
    sizes = audited_groups(bare, rule.words())
    cells = score_cells(bare, found.table.bins)
    tests = group_tests(middle, bare, Sample.of(middle), cells, sizes, judged)
    tests = [(size, test) for size, test in tests if np.isfinite(test[1]) and size.group.name in brier]
    losses = [brier[size.group.name] for size, _ in tests]
    adjusted, loss_p = (
        holm(np.array([p for _, p in some])) for some in ([test for _, test in tests], losses)
    )
    means = [_means(joint, values, [size.group for size, _ in tests]) for values in (before, after)]
    rows = [
        (size.group.name, float(p), _change(z, float(p), *own), float(q), _loss_change(change, q))
        for (size, (z, _)), p, own, (change, _), q in zip(tests, adjusted, zip(*means), losses, loss_p)
    ]
    return pd.DataFrame(rows, columns=columns)


def _means(joint: Atoms, score: IntArray, groups: Sequence[Group]) -> FloatArray:
    """The expected events of each group."""
    by_pattern = joint.pattern_sums(joint.weight * score.astype(np.float64))
    return np.asarray(membership(groups, joint.patterns).astype(np.float64) @ by_pattern)


def _change(z: float, p: float, before: float, after: float) -> str:
    """What the test of the midpoint says; `z` is positive if there are more events than the midpoint."""
    if abs(np.log(max(after, 1.0) / max(before, 1.0))) < HARDLY:
        return SAME
    if p > SIGNIFICANCE:
        return COULD_BE_CHANCE
    return BETTER if (z > 0) == (after > before) else WORSE


def _loss_change(change: float, p: float) -> str:
    return COULD_BE_CHANCE if not p <= SIGNIFICANCE else LOWER if change < 0 else HIGHER


def claims_of(
    changes: pd.DataFrame, name: str, base: str, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> list[GroupChange]:
    """The groups that are nearer or further off, with the numbers of both audits' tables of groups.

    The broadest first: everybody, then those with the most people.
    """
    first, second = (table.set_index("group") for table in tables)
    made = []
    for row in row_dicts(changes[changes["change"].isin([BETTER, WORSE])]):
        old, new = first.loc[row["group"]], second.loc[row["group"]]
        made.append(
            GroupChange(
                name, base, row["group"], new["label"], row["change"], new["outcome_rate"],
                old["mean_score"], new["mean_score"], old["observed_expected"], new["observed_expected"],
                TEST, row["p_value"], new["people"], new["positives"],
            )
        )  # fmt: skip
    order = {group: i for i, group in enumerate(first.index)}
    return sorted(made, key=lambda one: (one.who != EVERYBODY.name, order[one.who]))


FLAG_COLUMNS = ("score", "threshold", "group", "label", "newly_flagged", "no_longer_flagged")
NEITHER, NEWLY, NO_LONGER = 0, 1, 2


@dataclass(frozen=True, eq=False)
class FlagChanges:
    """The people of each group who are newly and no longer flagged by a score at a threshold."""

    score: str
    threshold: float
    groups: tuple[Group, ...]
    newly: Headcount
    no_longer: Headcount

    @classmethod
    def of(
        cls,
        name: str,
        threshold: float,
        joint: Atoms,
        scores: tuple[FloatArray, FloatArray],
        groups: Sequence[Group],
    ) -> FlagChanges:
        """From both scores of each atom: who crosses the threshold in which direction."""
        before, after = (to_grid(score) >= to_grid(np.array([threshold])) for score in scores)
        crossed = np.where(after & ~before, NEWLY, np.where(before & ~after, NO_LONGER, NEITHER))
        people = Headcount.of(
            rescored(joint, crossed.astype(np.int64)),
            lambda patterns: membership(groups, patterns),
            lambda atoms: atoms.score,
            3,
        )
        return cls(name, threshold, tuple(groups), people.part(NEWLY), people.part(NO_LONGER))


def flag_table(changes: Sequence[FlagChanges], labels: dict[str, str]) -> pd.DataFrame:
    """One row for each score, threshold and group, with exact counts."""
    rows = [
        (one.score, one.threshold, group.name, labels.get(group.name, group.name), *map(int, counts))
        for one in changes
        for group, *counts in zip(
            one.groups, *(np.rint(part.people.sum(axis=0)) for part in (one.newly, one.no_longer))
        )
    ]
    return pd.DataFrame(rows, columns=list(FLAG_COLUMNS))
