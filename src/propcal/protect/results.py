"""Comparisons of scores with protected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.claims import NAN
from propcal.auditing.compare import Comparison
from propcal.auditing.names import LOSSES, MEASURE_NAMES
from propcal.auditing.score_changes import FlagChanges
from propcal.numbers import Limit
from propcal.protect.audits import protected_audits
from propcal.protect.disclosure_rule import (
    MAX_MOVE,
    Rule,
    moved,
    shown_p,
)
from propcal.protect.shown_counts import (
    Sets,
    sums_of_groups,
)
from propcal.protect.withheld_sets import WANTED

APART = 0.011  # two O/E ratios are rounded
RATIO = MEASURE_NAMES["observed_expected"].name


def protected_comparison(comparison: Comparison, fewest: int | None) -> Comparison:
    """All audits of a comparison, and the differences between them; 0 or None protects
    nothing.
    """
    rule = Rule.asked(fewest)
    protected_ones = protected_audits([*comparison.audits.values()], fewest)
    audits = dict(zip(comparison.audits, protected_ones))
    if rule is None or audits == comparison.audits:
        return comparison
    audits[comparison.base] = _without_turned_losses(comparison, audits)
    return replace(
        comparison,
        audits=audits,
        differences=_differences(comparison, audits),
        changes=_changes(comparison.changes, audits),
        flags=_flags(comparison, rule),
        _flag_source=(),
    )


def _without_turned_losses(
    comparison: Comparison, audits: Mapping[str, Audit]
) -> Audit:
    """The audit of the base; its loss is not shown if moved counts have turned the sign
    of a difference.
    """
    base = audits[comparison.base]
    losses = base.losses.copy()
    differences = comparison.differences
    of_losses = differences[differences["measure"].isin(LOSSES)]
    for row in row_dicts(of_losses):
        loss = row["measure"]
        before = base.losses.loc[loss, "value"]
        after = audits[row["score"]].losses.loc[loss, "value"]
        both_shown = _is_number(before) and _is_number(after)
        if both_shown and row["difference"] * (after - before) < 0:
            losses.loc[loss, ["value", "low", "high"]] = np.nan
    return replace(base, losses=losses)


def _changes(changes: pd.DataFrame, audits: Mapping[str, Audit]) -> pd.DataFrame:
    """The exact findings; the p-value of a small group is a limit, as in the audit."""
    p_values = {
        name: audit.groups.set_index("group")["p_value"]
        for name, audit in audits.items()
    }
    large = []
    for score, group in zip(changes["score"], changes["group"]):
        large.append(_is_number(p_values[score][group]))
    for name in ("p_value", "brier_p_value"):
        shown = [shown_p(p, many) for p, many in zip(changes[name], large)]
        changes = changes.assign(**{name: pd.Series(shown, dtype=object)})
    return changes


def _is_number(x: float) -> bool:
    """Whether a number is shown, and not only a limit of it."""
    return x == x and not isinstance(x, Limit)


def _flags(comparison: Comparison, rule: Rule) -> pd.DataFrame:
    """Counts of those newly and no longer flagged, moved, or limits of small ones; 0 is
    a small count.
    """
    names = ["newly_flagged", "no_longer_flagged"]
    table = comparison.flags.astype(dict.fromkeys(names, object))
    first = 0
    for changes in comparison._flag_source:
        n = len(changes.groups)
        rows = table.index[first : first + n]
        counts = _flag_counts(comparison, changes, rule)
        for name, of_name in zip(names, (counts[:n], counts[n:])):
            table.loc[rows, name] = pd.Series(of_name, index=rows, dtype=object)
        first += n
    return table


def _flag_counts(comparison: Comparison, changes: FlagChanges, rule: Rule) -> list[Any]:
    """Of each group those newly flagged, then of each those no longer flagged.

    The difference of both follows from the numbers flagged by either score. Where these
    moved counts would leave too few values for a small one, the other is withheld.
    """
    n = len(changes.groups)
    sets = Sets([changes.newly, changes.no_longer])
    for total, parts in sums_of_groups(changes.groups):
        for start in (0, n):
            sets.sums.append((start + total, [start + part for part in parts]))
    shown = sets.shown(rule)
    people = shown.headcount.people.sum(axis=0)
    few = np.asarray(shown.few.all(axis=0))
    most = 2 * rule.fewest - 2

    after = _moves(comparison.audits[changes.score], changes)
    before = _moves(comparison.audits[comparison.base], changes)
    apart = np.concatenate([after - before, before - after])
    other = np.roll(np.arange(2 * n), n)
    # of a small count, from the others
    estimate = people + (shown.people - people)[other] + apart
    highest = np.minimum(estimate + 3 * MAX_MOVE, most)
    lowest = np.maximum(estimate - 3 * MAX_MOVE, 0)
    protected_by_moves = highest - lowest + 1 >= WANTED
    can_be_shown = (~few | protected_by_moves)[other]

    counts: list[Any] = []
    for i in range(2 * n):
        if few[i]:
            counts.append(Limit(most + 1, "below"))
        elif can_be_shown[i]:
            counts.append(shown.people_at(i))
        else:
            counts.append(np.nan)
    return counts


def _moves(audit: Audit, changes: FlagChanges) -> Any:
    """By how much the number of people flagged is moved in each group."""
    assert audit._source is not None
    counts = audit._source.counts
    place = {group: g for g, group in enumerate(counts.groups)}
    groups = [place[group] for group in changes.groups]
    threshold = np.abs(counts.thresholds - changes.threshold).argmin()
    return moved(counts.flagged.key[groups, threshold], 0)


def _differences(comparison: Comparison, audits: Mapping[str, Audit]) -> pd.DataFrame:
    """Differences of statistics are the audit's; those of O/E ratios and losses are
    between what is shown.
    """
    shown_of = {
        name: (audit.losses, audit.groups.set_index("group"))
        for name, audit in audits.items()
    }
    rows = []
    for row in row_dicts(comparison.differences):
        measure = row["measure"]
        base = _shown_value(row, "base", *shown_of[comparison.base])
        value = _shown_value(row, "value", *shown_of[row["score"]])
        is_shown = _is_number(base) and _is_number(value)
        difference = row["difference"]
        if is_shown and measure == "observed_expected":
            difference *= base / row["base"]
        if is_shown and measure in LOSSES:
            difference = value - base
        low = difference + row["low"] - row["difference"]
        high = difference + row["high"] - row["difference"]
        numbers = [float(f"{x:.3g}") for x in (difference, low, high)]
        if is_shown and measure == "observed_expected":
            _, low, high = numbers
            # or else, moved counts have changed more than the score
            is_shown = low - APART <= value - base <= high + APART
        if not is_shown:
            numbers = [NAN] * 3
        of_difference = zip(("difference", "low", "high"), numbers)
        rows.append({**row, "base": base, "value": value, **dict(of_difference)})
    table = pd.DataFrame(rows, columns=comparison.differences.columns)
    for name in ("base", "value"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


def _shown_value(
    row: Mapping[str, Any], column: str, losses: pd.DataFrame, groups: pd.DataFrame
) -> Any:
    """What is shown of a measure under one of both scores."""
    measure = row["measure"]
    if measure in LOSSES:
        return losses.loc[measure, "value"]
    if measure in groups:
        return groups.loc[row["group"], measure]
    return round(row[column], MEASURE_NAMES[measure].digits)
