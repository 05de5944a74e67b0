"""A discovery as it may be handed on: who was found, tests and stability, and protected counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.discovery.finding_rows import RATIO
from propcal.numbers import RATIO_DIGITS, printed_rate
from propcal.protect.rule import P_DIGITS, Rule, shown_p
from propcal.protect.shown_counts import Sets, ShownCounts

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup

GAPS = [f"{name}{end}" for name in ("before", "after", "reading") for end in ENDS]


def protected_discovery(found: Discovery, fewest: int | None) -> Discovery:
    """A discovery with protected counts; 0 or None protects nothing.

    Sets of people are everybody, each group found and each protected group.
    """
    rule = Rule.asked(fewest)
    if rule is None or not found._source:
        return found
    counted, sets = [*found._source, *(found.protection._source if found.protection else ())], Sets()
    for people, scores in counted:
        sets.add(people, [scores])
    sets.add_sums([0] * (len(counted) - 1), [range(1, len(counted))])
    shown = sets.shown(rule)
    overall = {
        "found": found.overall["found"],
        "p_value": shown_p(found.overall["p_value"], shown.large[0]),
        **shown.numbers_at(0),
    }
    protection = found.protection
    if protection is not None:
        rows = protection.table.to_dict("records")
        places = range(len(counted) - len(rows), len(counted))
        repairs = [_repair(shown, i, row) for i, row in zip(places, rows)]
        table = pd.DataFrame(repairs, columns=protection.table.columns)
        protection = replace(protection, table=table, _source=())
    return replace(
        found,
        found=tuple(_group(shown, 1 + i, group) for i, group in enumerate(found.found)),
        overall=overall,
        settings={**found.settings, "people": shown.people_at(0)},
        protection=protection,
        _source=(),
    )


def _group(shown: ShownCounts, i: int, group: FoundGroup) -> FoundGroup:
    """A finding whose ratio and interval follow from the counts that are shown."""
    people, mean, value = shown.people[i], shown.mean[i], group.value
    low, high, raw = group.low, group.high, group.raw_value
    after = printed_rate(group.predicted_after * mean / group.predicted)
    if group.measure == RATIO:
        value, low, high = shown.ratio(i, (value, low, high), after)
        raw, *_ = shown.ratio(i, [raw] * 3)
    elif not shown.large[i]:
        value = low = high = raw = NAN
    if (value > 1) != (group.value > 1):
        value = low = high = NAN  # too near to 1 to tell
    ratios: Any = {"value": value, "low": low, "high": high, "raw_value": raw, "again": group.again}
    return replace(
        group,
        **shown.numbers_at(i),
        share=round(float(people / shown.people[0]), 3),
        predicted_after=after,
        p_value=shown_p(group.p_value, shown.large[i]),
        **{name: round(x, RATIO_DIGITS) for name, x in ratios.items()},
    )


def _repair(shown: ShownCounts, i: int, row: dict[Any, Any]) -> dict[Any, Any]:
    """The repair of a protected group; its gaps agree with the rates that are shown. None if it is small."""
    if not shown.known[i]:
        return row | dict.fromkeys([name for name in row if name not in ("group", "clear")], NAN)
    numbers = shown.numbers_at(i)
    moved = numbers["observed"] - numbers["predicted"] - row["before"]
    printed = {name: x if isinstance(x, (str, bool)) else round(x, P_DIGITS) for name, x in row.items()}
    printed |= {name: round(row[name] + moved, P_DIGITS) for name in GAPS}
    return printed | {name: x for name, x in numbers.items() if name in row}
