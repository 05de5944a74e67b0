"""What changes between two scores of the same people: measures, who is nearer to the
observed rate, flags.

Intervals of differences use that the people are the same.

Of two predicted rates of a group, the observed rate is nearer to the one on its own
side of the midpoint. So the test of a change is that of an audit, for the number of
events of the group under the midpoint of both scores; it allows for repeat visits and
survey weights as an audit does. Holm's adjustment applies to all groups of a score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.decision import group_tests
from propcal.auditing.findings import Findings
from propcal.auditing.headcount import Headcount
from propcal.auditing.loss_intervals import debiased, losses
from propcal.auditing.names import HIGHER, LOWER
from propcal.auditing.profile import JudgedGroups, audited_groups
from propcal.auditing.statistics.chance import score_cells
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE, holm
from propcal.auditing.statistics.measures import INFLUENCES, Influence
from propcal.auditing.statistics.rate_intervals import CONFIDENCE, normal_tail, t_tail
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.criterion import CRITERIA, Criterion
from propcal.core.grid import FloatArray, to_grid
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.reduction import rescored, without_clusters
from propcal.numbers import IN_SENTENCE, known

Difference = tuple[
    float, float, float, float, float
]  # base, value, difference, low, high
COLUMNS = ("score", "measure", "group", "base", "value", "difference", "low", "high")
CHANGE_COLUMNS = ["group", "p_value", "change", "brier_p_value", "brier_change"]
NEITHER = 0
NEWLY = 1
NO_LONGER = 2


@dataclass(frozen=True, eq=False)
class ScorePair:
    """A score and the base: atoms that number the rows, both scores of each row, and
    what audits found.
    """

    name: str
    joint: Atoms
    scores: tuple[FloatArray, FloatArray]
    found: tuple[Findings, Findings]

    @cached_property
    def samples(self) -> dict[str, tuple[Sample, Sample]]:
        """The people of each group that is measured, with both scores."""
        groups = [
            one.size.group
            for one in self.found[0].profiles
            if one.measured and not one.size.left_out
        ]
        everybody = Sample.of(self.joint)
        found = {}
        for group, members in zip(groups, membership(groups, self.joint.patterns)):
            rows = members[self.joint.pattern_index()]
            sample = everybody.where(rows)
            first, second = (
                replace(sample, score=score[rows]) for score in self.scores
            )
            found[group.name] = first, second
        return found

    def differences(self) -> Iterator[tuple[Any, ...]]:
        """Rows of `COLUMNS`: of losses and mean squares over all cells, and of measures
        of each group.
        """
        measures = (
            *self._loss_differences().items(),
            *self._mean_square_differences().items(),
        )
        for measure, numbers in measures:
            yield (self.name, measure, "all categories", *numbers)
        for group, samples in self.samples.items():
            for measure, numbers in person_differences(*samples).items():
                yield (self.name, measure, group, *numbers)

    def _loss_differences(self) -> dict[str, Difference]:
        """Of MC, PMC and DC loss: from the limits of both, each at half the error."""
        first, second = (
            losses(f.table, f.noise, f.rule.rho, confidence=(1 + CONFIDENCE) / 2)[
                ["value", "low", "high"]
            ]
            for f in self.found
        )
        return {
            name: (value, other, other - value, other_low - high, other_high - low)
            for (name, value, low, high), (other, other_low, other_high) in zip(
                first.itertuples(), second.itertuples(index=False)
            )
        }

    def _mean_square_differences(self) -> dict[str, Difference]:
        """Of the debiased mean squared gap, also as a share of the rate.

        Its error has two parts: gaps that exist, which each outcome makes a little
        larger or smaller (paired, as both scores see the same outcomes), and the
        squares of noise, which are taken as independent.
        """
        # then the noise is the same too
        sample = Sample.of(self.joint)
        same = np.array_equal(*self.scores)
        squares = [
            debiased(f.table, f.noise, f.rule.rho)["mean_square"] for f in self.found
        ]
        differences = {}
        for name, kind in CRITERIA.items():
            criterion = kind(self.found[0].rule.rho)
            before, after = (
                self._pull(f.table, score, criterion)
                for f, score in zip(self.found, self.scores)
            )
            paired = sample.error(after[0] - before[0], after[1] - before[1])
            if same:
                chance = 0.0
            else:
                chance = sum(_chance_square(f, criterion) for f in self.found)
            first, second = (float(square[name]) for square in squares)
            error = float(np.sqrt(paired**2 + chance))
            differences[f"{name}_mean_square"] = _interval(sample, first, second, error)
        return differences

    def _pull(
        self, table: Categories, score: FloatArray, criterion: Criterion
    ) -> tuple[FloatArray, FloatArray]:
        """How much a person with and without the outcome pulls at the mean squared gap,
        for each atom.
        """
        rate = table.outcome_rate
        gap = table.gap
        chosen = table.eligible
        joint = self.joint
        with np.errstate(invalid="ignore", divide="ignore"):
            allowed = criterion.allowance(rate)
            at_score = criterion.offset + criterion.slope * table.mean_score
            # slope of the squared gap in the rate, which the allowance follows above
            # rho
            slope = 2 * gap / allowed**2
            slope = slope * np.where(rate > criterion.rho, at_score / allowed, 1.0)
            pull = np.where(chosen, slope / table.weight, 0.0) / max(
                int(chosen.sum()), 1
            )
        inside = membership(table.collection.groups, joint.patterns).astype(np.float64)
        positive, negative = (
            inside.T @ np.where(chosen, pull * part, 0.0) for part in (1 - rate, -rate)
        )
        where = joint.pattern_index(), table.bins.index(to_grid(score))
        return positive[where], negative[where]

    def changes(self) -> pd.DataFrame:
        """One row for each group tested: `group`, adjusted `p_value` and `change`; and
        of the Brier score.
        """
        found, rule = self.found[0], self.found[0].rule
        if found.untested:
            return pd.DataFrame(columns=[*CHANGE_COLUMNS, "score"])
        before, after = (to_grid(score) for score in self.scores)
        middle = rescored(self.joint, (before + after) // 2)
        bare = without_clusters(middle)
        judged = JudgedGroups.of(bare, rule.min_group, rule.min_events)
        sizes = audited_groups(bare, rule.words())
        cells = score_cells(bare, found.table.bins)
        tests = [
            (size.group, test)
            for size, test in group_tests(
                middle, bare, Sample.of(middle), cells, sizes, judged
            )
            if np.isfinite(test[1]) and size.group.name in self.samples
        ]
        brier = [brier_test(*self.samples[group.name]) for group, _ in tests]
        adjusted, loss_p = (
            holm(np.array([p for _, p in own]))
            for own in ([test for _, test in tests], brier)
        )
        inside = membership([group for group, _ in tests], self.joint.patterns).astype(
            np.float64
        )
        sums = (
            self.joint.pattern_sums(self.joint.weight * x.astype(np.float64))
            for x in (before, after)
        )
        expected = [inside @ column for column in sums]
        rows = [
            (
                group.name,
                float(p),
                _change(z, float(p), *own),
                float(q),
                _loss_change(change, q),
            )
            for (group, (z, _)), p, own, (change, _), q in zip(
                tests, adjusted, zip(*expected), brier, loss_p
            )
        ]
        return pd.DataFrame(rows, columns=CHANGE_COLUMNS).assign(score=self.name)

    def flags(self, threshold: float, groups: Sequence[Group]) -> FlagChanges:
        """Who crosses a threshold in which direction."""
        before, after = (
            to_grid(score) >= to_grid(np.array([threshold])) for score in self.scores
        )
        crossed = np.where(
            after & ~before, NEWLY, np.where(before & ~after, NO_LONGER, NEITHER)
        )
        people = Headcount.of(
            rescored(self.joint, crossed.astype(np.int64)),
            lambda patterns: membership(groups, patterns),
            lambda atoms: atoms.score,
            3,
        )
        parts = people.part(NEWLY), people.part(NO_LONGER)
        return FlagChanges(self.name, threshold, tuple(groups), *parts)


def person_differences(a: Sample, b: Sample) -> dict[str, Difference]:
    """Measures of both scores; errors come from what each person contributes to the one
    less the other.
    """
    found = {}
    for name, influence in INFLUENCES.items():
        before, after = influence(a), influence(b)
        known = not np.isnan(before[0] + after[0])
        error = _paired_error(a, before, after)
        found[name] = (
            _interval(a, before[0], after[0], error) if known else (float("nan"),) * 5
        )
    return found


def _paired_error(sample: Sample, before: Influence, after: Influence) -> float:
    """Standard error of the change of a measure."""
    return sample.error(*(y - x for x, y in zip(before[1:], after[1:])))


def _interval(sample: Sample, first: float, second: float, error: float) -> Difference:
    gained = second - first
    reach = sample.quantile * error
    return first, second, gained, gained - reach, gained + reach


def brier_test(a: Sample, b: Sample) -> tuple[float, float]:
    """By how much the Brier score changes, and the p-value of no change."""
    before, after = (INFLUENCES["brier"](sample) for sample in (a, b))
    change = after[0] - before[0]
    error = _paired_error(a, before, after)
    z = abs(change) / error if error > 0 else 0.0
    return change, 2 * (
        normal_tail(z) if a.cluster is None else t_tail(z, max(a.n_clusters - 1, 1))
    )


def _chance_square(findings: Findings, criterion: Criterion) -> float:
    """Variance of the mean square that a perfect score shows."""
    chosen = findings.table.eligible
    rates = findings.noise.rates
    if not chosen.any() or not len(rates):
        return float("nan")
    score = findings.table.mean_score[chosen]
    gap = (rates[:, chosen] - score) / criterion.allowance(rates[:, chosen])
    return float(np.var(np.mean(gap**2, axis=1)))


TEST = "observed events against the midpoint of both predictions"
BETTER = "nearer"
WORSE = "further off"
COULD_BE_CHANCE = "could be chance"
SAME = "hardly changed"
HARDLY = 0.03  # in the logarithm of a predicted rate: smaller changes do not matter


@dataclass(frozen=True)
class GroupChange:
    """A group for whom a score is nearer to the observed rate than the base, or further
    off.

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
        before, after = (
            IN_SENTENCE.decimal(ratio)
            for ratio in (self.ratio_before, self.ratio_after)
        )
        return f"{self.label} (O/E {before} before, {after} after)"


def _change(z: float, p: float, before: float, after: float) -> str:
    """What the test of the midpoint says; `z` is positive if there are more events than
    the midpoint.
    """
    if abs(np.log(max(after, 1.0) / max(before, 1.0))) < HARDLY:
        return SAME
    if p > SIGNIFICANCE:
        return COULD_BE_CHANCE
    return BETTER if (z > 0) == (after > before) else WORSE


def _loss_change(change: float, p: float) -> str:
    if not p <= SIGNIFICANCE:
        return COULD_BE_CHANCE
    if change < 0:
        return LOWER
    return HIGHER


def claims_of(
    changes: pd.DataFrame,
    name: str,
    base: str,
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> list[GroupChange]:
    """The groups that are nearer or further off, with the numbers of both audits'
    tables of groups.

    The broadest first: everybody, then those with the most people.
    """
    first, second = (table.set_index("group") for table in tables)
    claims = []
    for row in row_dicts(changes[changes["change"].isin([BETTER, WORSE])]):
        old = first.loc[row["group"]]
        new = second.loc[row["group"]]
        claims.append(
            GroupChange(
                name, base, row["group"], new["label"], row["change"], new["outcome_rate"],
                old["mean_score"], new["mean_score"], old["observed_expected"], new["observed_expected"],
                TEST, row["p_value"], new["people"], new["positives"],
            )
        )  # fmt: skip
    order = {group: i for i, group in enumerate(first.index)}
    return sorted(claims, key=lambda one: (one.who != EVERYBODY.name, order[one.who]))


@dataclass(frozen=True, eq=False)
class FlagChanges:
    """The people of each group who are newly and no longer flagged by a score at a
    threshold.
    """

    score: str
    threshold: float
    groups: tuple[Group, ...]
    newly: Headcount
    no_longer: Headcount


FLAG_COLUMNS = (
    "score",
    "threshold",
    "group",
    "label",
    "newly_flagged",
    "no_longer_flagged",
)


def flag_table(changes: Sequence[FlagChanges], labels: dict[str, str]) -> pd.DataFrame:
    """One row for each score, threshold and group, with exact counts."""
    rows = [
        (
            one.score,
            one.threshold,
            group.name,
            labels.get(group.name, group.name),
            *map(int, counts),
        )
        for one in changes
        for group, *counts in zip(
            one.groups,
            *(np.rint(part.people.sum(axis=0)) for part in (one.newly, one.no_longer)),
        )
    ]
    return pd.DataFrame(rows, columns=list(FLAG_COLUMNS))
