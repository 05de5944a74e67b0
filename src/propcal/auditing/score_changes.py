"""What changes between two scores of the same people: measures, and for each group.

Intervals of differences use that the people are the same.

Of two predicted rates of a group, the nearer one is on the same side of their midpoint
as the observed rate. So the test of a change is that of an audit, for the number of
events of the group under the midpoint of both scores; it allows for repeat visits and
survey weights as an audit does. Holm's adjustment applies to all groups of a score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.decision import group_tests
from propcal.auditing.findings import Findings
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
from propcal.core.grid import FloatArray, IntArray, to_grid
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.reduction import rescored, without_clusters
from propcal.numbers import IN_SENTENCE, known

# base, value, difference, low, high
Difference = tuple[float, float, float, float, float]
DIFFERENCE_COLUMNS = (
    "score",
    "measure",
    "group",
    "base",
    "value",
    "difference",
    "low",
    "high",
)
CHANGE_COLUMNS = ["group", "p_value", "change", "brier_p_value", "brier_change"]


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
            profile.size.group
            for profile in self.found[0].profiles
            if profile.measured and not profile.size.left_out
        ]
        everybody = Sample.of(self.joint)
        pattern_of_row = self.joint.pattern_index()
        base_score, score = self.scores
        samples = {}
        for group, members in zip(groups, membership(groups, self.joint.patterns)):
            rows = members[pattern_of_row]
            people = everybody.where(rows)
            before = replace(people, score=base_score[rows])
            after = replace(people, score=score[rows])
            samples[group.name] = before, after
        return samples

    def differences(self) -> Iterator[tuple[Any, ...]]:
        """Rows of `DIFFERENCE_COLUMNS`: of losses and mean squares over all cells, and
        of measures of each group.
        """
        of_cells = self._loss_differences() | self._mean_square_differences()
        for measure, numbers in of_cells.items():
            yield (self.name, measure, "all categories", *numbers)
        for group, samples in self.samples.items():
            for measure, numbers in person_differences(*samples).items():
                yield (self.name, measure, group, *numbers)

    def _loss_differences(self) -> dict[str, Difference]:
        """Of MC, PMC and DC loss: from the limits of both, each at half the error."""
        before, after = (_loss_limits(findings) for findings in self.found)
        differences = {}
        for name, (value, low, high) in before.items():
            new_value, new_low, new_high = after[name]
            change = new_value - value
            limits = (new_low - high, new_high - low)
            differences[name] = (value, new_value, change, *limits)
        return differences

    def _mean_square_differences(self) -> dict[str, Difference]:
        """Of the debiased mean squared gap, also as a share of the rate.

        Its error has two parts: gaps that exist, which each outcome makes a little
        larger or smaller (paired, as both scores see the same outcomes), and the
        squares of noise, which are taken as independent.
        """
        sample = Sample.of(self.joint)
        rho = self.found[0].rule.rho
        squares = [_mean_squares(findings) for findings in self.found]
        same_noise = np.array_equal(*self.scores)
        differences = {}
        for name, kind in CRITERIA.items():
            criterion = kind(rho)
            before, after = (
                self._pull(findings.table, score, criterion)
                for findings, score in zip(self.found, self.scores)
            )
            paired = sample.error(after[0] - before[0], after[1] - before[1])
            chance = 0.0
            if not same_noise:
                for findings in self.found:
                    chance += _chance_square(findings, criterion)
            error = float(np.sqrt(paired**2 + chance))
            first, second = (float(square[name]) for square in squares)
            differences[f"{name}_mean_square"] = _interval(sample, first, second, error)
        return differences

    def _pull(
        self, table: Categories, score: FloatArray, criterion: Criterion
    ) -> tuple[FloatArray, FloatArray]:
        """How much a person with and without the outcome pulls at the mean squared gap,
        for each atom.
        """
        rate = table.outcome_rate
        with np.errstate(invalid="ignore", divide="ignore"):
            allowed = criterion.allowance(rate)
            at_score = criterion.offset + criterion.slope * table.mean_score
            # slope of the squared gap in the rate, which the allowance follows above
            # rho
            slope = 2 * table.gap / allowed**2
            slope = slope * np.where(rate > criterion.rho, at_score / allowed, 1.0)
            per_person = np.where(table.eligible, slope / table.weight, 0.0)
        pull = per_person / max(int(table.eligible.sum()), 1)

        patterns = self.joint.patterns
        inside = membership(table.collection.groups, patterns).astype(np.float64)
        if_positive = inside.T @ np.where(table.eligible, pull * (1 - rate), 0.0)
        if_negative = inside.T @ np.where(table.eligible, pull * -rate, 0.0)
        place = self.joint.pattern_index(), table.bins.index(to_grid(score))
        return if_positive[place], if_negative[place]

    def changes(self) -> pd.DataFrame:
        """One row for each group tested: `group`, adjusted `p_value` and `change`; and
        of the Brier score.
        """
        if self.found[0].untested:
            return pd.DataFrame(columns=[*CHANGE_COLUMNS, "score"])
        before, after = (to_grid(score) for score in self.scores)
        tests = self._midpoint_tests((before + after) // 2)
        groups = [group for group, _, _ in tests]
        adjusted = holm(np.array([p for _, _, p in tests]))
        brier = [brier_test(*self.samples[group.name]) for group in groups]
        brier_adjusted = holm(np.array([p for _, p in brier]))

        inside = membership(groups, self.joint.patterns).astype(np.float64)
        expected_before = inside @ self._expected(before)
        expected_after = inside @ self._expected(after)
        rows = []
        for i, (group, z, _) in enumerate(tests):
            p = float(adjusted[i])
            change = _change(z, p, expected_before[i], expected_after[i])
            brier_p = float(brier_adjusted[i])
            brier_change = _loss_change(brier[i][0], brier_p)
            rows.append((group.name, p, change, brier_p, brier_change))
        return pd.DataFrame(rows, columns=CHANGE_COLUMNS).assign(score=self.name)

    def _midpoint_tests(self, midpoint: IntArray) -> list[tuple[Group, float, float]]:
        """Each group tested, with the excess of its events over the midpoint of both
        scores and the p-value.
        """
        findings = self.found[0]
        rule = findings.rule
        atoms = rescored(self.joint, midpoint)
        bare = without_clusters(atoms)
        cells = score_cells(bare, findings.table.bins)
        judged = JudgedGroups.of(bare, rule.min_group, rule.min_events)
        sizes = audited_groups(bare, rule.definition())
        tests = []
        for size, (z, p) in group_tests(
            atoms, bare, Sample.of(atoms), cells, sizes, judged
        ):
            if np.isfinite(p) and size.group.name in self.samples:
                tests.append((size.group, z, p))
        return tests

    def _expected(self, score: IntArray) -> FloatArray:
        """Expected events of each pattern, in units of the grid."""
        weighted = self.joint.weight * score.astype(np.float64)
        return np.asarray(self.joint.pattern_sums(weighted), dtype=np.float64)


def _loss_limits(findings: Findings) -> dict[str, tuple[float, float, float]]:
    """Each loss and its limits, at half the error of an interval."""
    confidence = (1 + CONFIDENCE) / 2
    rule = findings.rule
    table = losses(findings.table, findings.noise, rule.rho, confidence=confidence)
    limits = table[["value", "low", "high"]]
    return dict(zip(limits.index, limits.itertuples(index=False, name=None)))


def _mean_squares(findings: Findings) -> pd.Series:
    """The debiased mean squared gaps, by name of the criterion."""
    return debiased(findings.table, findings.noise, findings.rule.rho)["mean_square"]


def person_differences(a: Sample, b: Sample) -> dict[str, Difference]:
    """Measures of both scores; errors come from what each person contributes to the
    second less the first.
    """
    differences: dict[str, Difference] = {}
    for name, influence in INFLUENCES.items():
        before = influence(a)
        after = influence(b)
        if np.isnan(before[0] + after[0]):
            differences[name] = (float("nan"),) * 5
        else:
            error = _paired_error(a, before, after)
            differences[name] = _interval(a, before[0], after[0], error)
    return differences


def _paired_error(sample: Sample, before: Influence, after: Influence) -> float:
    """Standard error of the change of a measure."""
    _, positive_before, negative_before = before
    _, positive_after, negative_after = after
    if_positive = positive_after - positive_before
    if_negative = negative_after - negative_before
    return sample.error(if_positive, if_negative)


def _interval(sample: Sample, first: float, second: float, error: float) -> Difference:
    change = second - first
    reach = sample.quantile * error
    return first, second, change, change - reach, change + reach


def brier_test(a: Sample, b: Sample) -> tuple[float, float]:
    """By how much the Brier score changes, and the p-value of no change."""
    before = INFLUENCES["brier"](a)
    after = INFLUENCES["brier"](b)
    change = after[0] - before[0]
    error = _paired_error(a, before, after)
    z = abs(change) / error if error > 0 else 0.0
    if a.cluster is None:
        return change, 2 * normal_tail(z)
    return change, 2 * t_tail(z, max(a.n_clusters - 1, 1))


def _chance_square(findings: Findings, criterion: Criterion) -> float:
    """Variance of the mean square that a perfect score shows."""
    chosen = findings.table.eligible
    rates = findings.noise.rates
    if not chosen.any() or not len(rates):
        return float("nan")
    drawn = rates[:, chosen]
    gap = drawn - findings.table.mean_score[chosen]
    relative_gap = gap / criterion.allowance(drawn)
    return float(np.var(np.mean(relative_gap**2, axis=1)))


TEST = "observed events against the midpoint of both predictions"
BETTER = "nearer"
WORSE = "further off"
COULD_BE_CHANCE = "could be chance"
SAME = "hardly changed"
# in the logarithm of a predicted rate: smaller changes do not matter
HARDLY = 0.03


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
        before = IN_SENTENCE.decimal(self.ratio_before)
        after = IN_SENTENCE.decimal(self.ratio_after)
        return f"{self.label} (O/E {before} before, {after} after)"


def _change(z: float, p: float, before: float, after: float) -> str:
    """What the test of the midpoint shows; `z` is positive if there are more events
    than at the midpoint.
    """
    relative_change = np.log(max(after, 1.0) / max(before, 1.0))
    if abs(relative_change) < HARDLY:
        return SAME
    if p > SIGNIFICANCE:
        return COULD_BE_CHANCE
    if (z > 0) == (after > before):
        return BETTER
    return WORSE


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
    table_before, table_after = (table.set_index("group") for table in tables)
    claims = []
    for row in row_dicts(changes[changes["change"].isin([BETTER, WORSE])]):
        group = row["group"]
        before = table_before.loc[group]
        after = table_after.loc[group]
        claims.append(
            GroupChange(
                score=name,
                base=base,
                who=group,
                label=after["label"],
                direction=row["change"],
                observed=after["outcome_rate"],
                before=before["mean_score"],
                after=after["mean_score"],
                ratio_before=before["observed_expected"],
                ratio_after=after["observed_expected"],
                test=TEST,
                p_value=row["p_value"],
                people=after["people"],
                events=after["positives"],
            )
        )
    places = {group: place for place, group in enumerate(table_before.index)}
    return sorted(claims, key=lambda one: (one.who != EVERYBODY.name, places[one.who]))
