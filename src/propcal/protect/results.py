"""Comparisons of scores, and discoveries, with protected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import ENDS, row_dicts
from propcal.auditing.claims import NAN
from propcal.auditing.compare import Comparison
from propcal.auditing.names import LOSSES, MEASURE_NAMES
from propcal.auditing.score_changes import FlagChanges
from propcal.numbers import RATIO_DIGITS, Limit, printed_rate
from propcal.protect.audits import protected_audit, protected_audits
from propcal.protect.disclosure_rule import (
    MOVED,
    P_DIGITS,
    WANTED,
    Rule,
    moved,
    shown_p,
)
from propcal.protect.shown_counts import (
    Sets,
    ShownCounts,
    sums_of_groups,
)

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup

APART = 0.011  # two O/E ratios are rounded
RATIO = MEASURE_NAMES["observed_expected"].name


def protected(result: Audit | Comparison, fewest: int | None) -> Audit | Comparison:
    """An audit or a comparison with protected counts; 0 or None protects nothing."""
    if isinstance(result, Comparison):
        return protected_comparison(result, fewest)
    return protected_audit(result, fewest)


def protected_comparison(comparison: Comparison, fewest: int | None) -> Comparison:
    """All audits of a comparison, and the differences between them; 0 or None protects
    nothing.
    """
    audits = dict(
        zip(comparison.audits, protected_audits([*comparison.audits.values()], fewest))
    )
    rule = Rule.asked(fewest)
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
    table = comparison.differences
    losses = base.losses.copy()
    for row in row_dicts(table[table["measure"].isin(LOSSES)]):
        both = [
            one.losses.loc[row["measure"], "value"]
            for one in (base, audits[row["score"]])
        ]
        if all(map(_is_number, both)) and row["difference"] * (both[1] - both[0]) < 0:
            losses.loc[row["measure"], ["value", "low", "high"]] = np.nan
    return replace(base, losses=losses)


def _changes(changes: pd.DataFrame, audits: Mapping[str, Audit]) -> pd.DataFrame:
    """The exact findings; the p-value of a small group is a limit, as in the audit."""
    tables = {
        name: audit.groups.set_index("group")["p_value"]
        for name, audit in audits.items()
    }
    for name in ("p_value", "brier_p_value"):
        rows = zip(changes["score"], changes["group"], changes[name])
        shown = [
            shown_p(p, _is_number(tables[score][group])) for score, group, p in rows
        ]
        changes = changes.assign(**{name: pd.Series(shown, dtype=object)})
    return changes


def _is_number(x: float) -> bool:
    """Whether a number is shown, and not only a limit of it."""
    return x == x and not isinstance(x, Limit)


def _flags(comparison: Comparison, rule: Rule) -> pd.DataFrame:
    """Counts of those newly and no longer flagged, moved, or limits of small ones;
    nobody is a small count.

    The difference of both follows from the numbers flagged by either score. Where these
    moved counts would leave too few values for a small one, the other is withheld.
    """
    names = ["newly_flagged", "no_longer_flagged"]
    table = comparison.flags.astype(dict.fromkeys(names, object))
    first = 0
    for one in comparison._flag_source:
        n = len(one.groups)
        sets = Sets([one.newly, one.no_longer])
        for total, parts in sums_of_groups(one.groups):
            sets.sums += [
                (start + total, [start + part for part in parts]) for start in (0, n)
            ]
        shown = sets.shown(rule)
        people = shown.headcount.people.sum(axis=0)
        few = np.asarray(shown.few.all(axis=0))
        after, before = (
            _moves(comparison.audits[name], one)
            for name in (one.score, comparison.base)
        )
        apart = np.concatenate([after - before, before - after])
        other = np.roll(np.arange(2 * n), n)
        estimate = (
            people + (shown.people - people)[other] + apart
        )  # of a small count, from the others
        left = (
            np.minimum(estimate + 3 * MOVED, 2 * rule.fewest - 2)
            - np.maximum(estimate - 3 * MOVED, 0)
            + 1
        )
        follow = (~few | (left >= WANTED))[other]
        counts = [
            Limit(2 * rule.fewest - 1, "below")
            if few[i]
            else shown.people_at(i)
            if follow[i]
            else np.nan
            for i in range(2 * n)
        ]
        rows = table.index[first : first + n]
        for name, values in zip(names, (counts[:n], counts[n:])):
            table.loc[rows, name] = pd.Series(values, index=rows, dtype=object)
        first += n
    return table


def _moves(audit: Audit, one: FlagChanges) -> Any:
    """By how much the number of people flagged is moved in each group."""
    assert audit._source is not None
    counts = audit._source.counts
    place = {group: g for g, group in enumerate(counts.groups)}
    threshold = np.abs(counts.thresholds - one.threshold).argmin()
    return moved(
        counts.flagged.key[[place[group] for group in one.groups], threshold], 0
    )


def _differences(comparison: Comparison, audits: Mapping[str, Audit]) -> pd.DataFrame:
    """Differences of statistics are the audit's; those of O/E ratios and losses are
    between what is shown.
    """
    tables = {name: audit.groups.set_index("group") for name, audit in audits.items()}
    rows = []
    for row in row_dicts(comparison.differences):
        measure = row["measure"]
        digits = MEASURE_NAMES[row["measure"]].digits
        names = comparison.base, row["score"]
        if measure in LOSSES:
            base, value = (audits[name].losses.loc[measure, "value"] for name in names)
        elif measure == "observed_expected" or measure in tables[names[1]]:
            base, value = (tables[name].loc[row["group"], measure] for name in names)
        else:
            base, value = (round(row[name], digits) for name in ("base", "value"))
        known = _is_number(base) and _is_number(value)
        change = row["difference"]
        if known and measure == "observed_expected":
            change *= base / row["base"]
        if known and measure in LOSSES:
            change = value - base
        ends = [change + row[end] - row["difference"] for end in ("low", "high")]
        change, low, high = (
            float(f"{x:.3g}") if known else np.nan for x in (change, *ends)
        )
        if (
            measure == "observed_expected"
            and known
            and not low - APART <= value - base <= high + APART
        ):
            change = low = high = (
                np.nan
            )  # moved counts have changed more than the score
        rows.append(
            {
                **row,
                "base": base,
                "value": value,
                "difference": change,
                "low": low,
                "high": high,
            }
        )
    table = pd.DataFrame(rows, columns=comparison.differences.columns)
    for name in ("base", "value"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


GAPS = [f"{name}{end}" for name in ("before", "after", "reading") for end in ENDS]


def protected_discovery(discovery: Discovery, fewest: int | None) -> Discovery:
    """A discovery with protected counts; 0 or None protects nothing.

    Sets of people are everybody, each group found and each protected group.
    """
    rule = Rule.asked(fewest)
    if rule is None or not discovery._source:
        return discovery
    protection = discovery.protection
    sets = Sets()
    counted = [*discovery._source, *(protection._source if protection else ())]
    for people, scores in counted:
        sets.add(people, [scores])
    sets.add_sums([0] * (len(counted) - 1), [range(1, len(counted))])
    shown = sets.shown(rule)
    overall = {
        "found": discovery.overall["found"],
        "p_value": shown_p(discovery.overall["p_value"], shown.large[0]),
        **shown.numbers_at(0),
    }
    if protection is not None:
        rows = protection.table.to_dict("records")
        places = range(len(counted) - len(rows), len(counted))
        repairs = [_repair(shown, i, row) for i, row in zip(places, rows)]
        table = pd.DataFrame(repairs, columns=protection.table.columns)
        protection = replace(protection, table=table, _source=())
    return replace(
        discovery,
        found=tuple(
            _group(shown, 1 + i, group) for i, group in enumerate(discovery.found)
        ),
        overall=overall,
        settings={**discovery.settings, "people": shown.people_at(0)},
        protection=protection,
        _source=(),
    )


def _group(shown: ShownCounts, i: int, group: FoundGroup) -> FoundGroup:
    """A finding whose ratio and interval follow from the counts that are shown."""
    people = shown.people[i]
    mean = shown.mean[i]
    value = group.value
    low = group.low
    high = group.high
    raw = group.raw_value
    after = printed_rate(group.predicted_after * mean / group.predicted)
    if group.measure == RATIO:
        value, low, high = shown.ratio(i, (value, low, high), after)
        raw, *_ = shown.ratio(i, [raw] * 3)
    elif not shown.large[i]:
        value = low = high = raw = NAN
    if (value > 1) != (group.value > 1):
        value = low = high = NAN  # too near to 1 to tell
    ratios: Any = {
        "value": value,
        "low": low,
        "high": high,
        "raw_value": raw,
        "again": group.again,
    }
    return replace(
        group,
        **shown.numbers_at(i),
        share=round(float(people / shown.people[0]), 3),
        predicted_after=after,
        p_value=shown_p(group.p_value, shown.large[i]),
        **{name: round(x, RATIO_DIGITS) for name, x in ratios.items()},
    )


def _repair(shown: ShownCounts, i: int, row: dict[Any, Any]) -> dict[Any, Any]:
    """The repair of a protected group; its gaps agree with the rates that are shown.
    None if it is small.
    """
    if not shown.known[i]:
        return row | dict.fromkeys(
            [name for name in row if name not in ("group", "clear")], NAN
        )
    numbers = shown.numbers_at(i)
    moved = numbers["observed"] - numbers["predicted"] - row["before"]
    printed = {
        name: x if isinstance(x, (str, bool)) else round(x, P_DIGITS)
        for name, x in row.items()
    }
    printed |= {name: round(row[name] + moved, P_DIGITS) for name in GAPS}
    return printed | {name: x for name, x in numbers.items() if name in row}
