"""Comparisons of scores with protected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.claims import NAN
from propcal.auditing.compare import Comparison, assembled
from propcal.auditing.comparison_findings import ComparisonFindings
from propcal.auditing.findings import Findings
from propcal.auditing.flag_changes import FlagChanges, FlagCounts, flag_table
from propcal.auditing.names import LOSSES, MEASURE_NAMES
from propcal.core.grid import FloatArray
from propcal.numbers import Limit
from propcal.protect import protected_audits
from propcal.protect.disclosure_rule import (
    MAX_MOVE,
    Rule,
    moved,
    shown_p,
)
from propcal.protect.shared_atoms import are_shared
from propcal.protect.shown_counts import (
    Sets,
    ShownCounts,
    sums_of_groups,
)
from propcal.protect.withheld_sets import WANTED

RATIO = "observed_expected"
MAX_ROUNDING = 0.011  # of the difference of two O/E ratios
DIFFERENCE_DIGITS = 3


def protected_comparison(comparison: Comparison, fewest: int | None) -> Comparison:
    """A comparison with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    findings = comparison._source
    if rule is None or findings is None:
        return comparison
    base = comparison.audits[comparison.base]
    if are_shared(findings.by_score[comparison.base].shared, rule.fewest):
        return comparison  # they were protected before
    return assembled(protected_findings(findings, rule), base.identity)


def protected_findings(findings: ComparisonFindings, rule: Rule) -> ComparisonFindings:
    """Findings with everything replaced that reveals counts."""
    exact = [*findings.by_score.values()]
    by_score = dict(
        zip(findings.by_score, protected_audits.protected_findings(exact, rule))
    )
    by_score[findings.base] = _without_turned_losses(findings, by_score)
    flag_counts = [_flag_counts(each, findings, rule) for each in findings.crossings]
    return replace(
        findings,
        by_score=by_score,
        differences=_differences(findings, by_score),
        changes=_changes(findings.changes, by_score),
        flags=flag_table(findings.crossings, flag_counts),
    )


def _without_turned_losses(
    exact: ComparisonFindings, by_score: Mapping[str, Findings]
) -> Findings:
    """The protected findings about the base; its loss is not shown if moved counts have
    turned the sign of a difference.
    """
    base = by_score[exact.base]
    values = base.shown.losses["value"]
    losses = base.shown.losses.copy()
    of_losses = exact.differences["measure"].isin(LOSSES)
    for row in row_dicts(exact.differences[of_losses]):
        loss = row["measure"]
        before = values[loss]
        after = by_score[row["score"]].shown.losses.loc[loss, "value"]
        both_shown = _is_number(before) and _is_number(after)
        if both_shown and row["difference"] * (after - before) < 0:
            losses.loc[loss, ["value", "low", "high"]] = np.nan
    return replace(base, shown=replace(base.shown, losses=losses))


def _changes(exact: pd.DataFrame, by_score: Mapping[str, Findings]) -> pd.DataFrame:
    """The exact findings; the p-value of a small group is a limit, as in the audit."""
    p_values = {}
    for name, findings in by_score.items():
        p_values[name] = findings.shown.groups.set_index("group")["p_value"]
    large = []
    for score, group in zip(exact["score"], exact["group"]):
        large.append(_is_number(p_values[score][group]))

    shown = {}
    for column in ("p_value", "brier_p_value"):
        numbers = [shown_p(p, many) for p, many in zip(exact[column], large)]
        shown[column] = pd.Series(numbers, dtype=object)
    return exact.assign(**shown)


def _is_number(x: float) -> bool:
    """Whether a number is shown, and not only a limit of it."""
    return x == x and not isinstance(x, Limit)


def _flag_counts(
    changes: FlagChanges, findings: ComparisonFindings, rule: Rule
) -> FlagCounts:
    """Of each group those newly flagged and those no longer flagged: moved, or limits
    of small counts; 0 is a small count.

    The difference of both follows from the numbers flagged by either score. Where these
    moved counts would leave too few values for a small one, the other is withheld.
    """
    n = len(changes.groups)
    shown = _crossing_counts(changes, rule)
    few = np.asarray(shown.few.all(axis=0))
    can_be_shown = ~few | _is_uncertain(shown, _net_moves(changes, findings))
    of_other_direction = np.roll(np.arange(2 * n), n)

    counts: list[Any] = []
    for i, other in enumerate(of_other_direction):
        if few[i]:
            counts.append(Limit(_most_few(rule) + 1, "below"))
        elif can_be_shown[other]:
            counts.append(shown.people_at(i))
        else:
            counts.append(NAN)
    return FlagCounts(counts[:n], counts[n:])


def _most_few(rule: Rule) -> int:
    """The largest number of people that is shown as a limit."""
    return 2 * rule.fewest - 2


def _crossing_counts(changes: FlagChanges, rule: Rule) -> ShownCounts:
    """Shown counts of those newly flagged in each group, then of those no longer
    flagged.
    """
    n = len(changes.groups)
    sets = Sets([changes.newly, changes.no_longer])
    for total, parts in sums_of_groups(changes.groups):
        for start in (0, n):
            sets.sums.append((start + total, [start + part for part in parts]))
    return sets.shown(rule)


def _is_uncertain(shown: ShownCounts, net_moves: FloatArray) -> Any:
    """Whether a count, if it is small, has enough possible values for those who know
    the shown count of the other direction.
    """
    n = len(net_moves)
    people = shown.headcount.people.sum(axis=0)
    other = np.roll(np.arange(2 * n), n)
    own_moves = np.concatenate([net_moves, -net_moves])
    estimate = people + (shown.people - people)[other] + own_moves
    highest = np.minimum(estimate + 3 * MAX_MOVE, _most_few(shown.rule))
    lowest = np.maximum(estimate - 3 * MAX_MOVE, 0)
    return highest - lowest + 1 >= WANTED


def _net_moves(changes: FlagChanges, findings: ComparisonFindings) -> FloatArray:
    """By how much moves change the difference of the numbers flagged by a score and by
    the base, in each group.
    """
    after = _moves(findings.by_score[changes.score], changes)
    before = _moves(findings.by_score[findings.base], changes)
    return after - before


def _moves(findings: Findings, changes: FlagChanges) -> FloatArray:
    """By how much the number of people flagged is moved in each group."""
    counts = findings.counts
    place = {group: g for g, group in enumerate(counts.groups)}
    groups = [place[group] for group in changes.groups]
    threshold = np.abs(counts.thresholds - changes.threshold).argmin()
    moves: FloatArray = moved(counts.flagged.key[groups, threshold], 0)
    return moves


def _differences(
    exact: ComparisonFindings, by_score: Mapping[str, Findings]
) -> pd.DataFrame:
    """Differences of statistics are the exact ones; those of O/E ratios and losses are
    between what is shown.
    """
    shown_of = {name: _ShownMeasures.of(one) for name, one in by_score.items()}
    rows = []
    for row in row_dicts(exact.differences):
        base = shown_of[exact.base].value(row, "base")
        value = shown_of[row["score"]].value(row, "value")
        difference, low, high = _shown_difference(row, base, value)
        numbers = {"difference": difference, "low": low, "high": high}
        rows.append({**row, "base": base, "value": value, **numbers})
    table = pd.DataFrame(rows, columns=exact.differences.columns)
    for name in ("base", "value"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


def _shown_difference(row: Mapping[str, Any], base: Any, value: Any) -> list[float]:
    """A difference with its interval, or NaN if one of both values is not shown."""
    withheld = [NAN] * 3
    if not _is_number(base) or not _is_number(value):
        return withheld

    difference = row["difference"]
    if row["measure"] == RATIO:
        difference *= base / row["base"]
    elif row["measure"] in LOSSES:
        difference = value - base
    low = difference + row["low"] - row["difference"]
    high = difference + row["high"] - row["difference"]
    printed = [float(f"{x:.{DIFFERENCE_DIGITS}g}") for x in (difference, low, high)]
    if row["measure"] == RATIO:
        _, low, high = printed
        inside = low - MAX_ROUNDING <= value - base <= high + MAX_ROUNDING
        if not inside:  # moved counts have changed more than the score
            return withheld
    return printed


@dataclass(frozen=True, eq=False)
class _ShownMeasures:
    """What is shown of the losses, and of the measures of each group, of one score."""

    losses: pd.DataFrame
    groups: pd.DataFrame

    @classmethod
    def of(cls, findings: Findings) -> _ShownMeasures:
        shown = findings.shown
        return cls(shown.losses, shown.groups.set_index("group"))

    def value(self, row: Mapping[str, Any], column: str) -> Any:
        """What is shown of the measure of a row; `column` has its exact value."""
        measure = row["measure"]
        if measure in LOSSES:
            return self.losses.loc[measure, "value"]
        if measure in self.groups:
            return self.groups.loc[row["group"], measure]
        return round(row[column], MEASURE_NAMES[measure].digits)
