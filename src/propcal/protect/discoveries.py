"""A discovery as it may be handed on: who was found, tests and stability, and protected counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.auditing.headcount import Headcount
from propcal.discovery.finding_rows import RATIO
from propcal.discovery.protected_groups import Z
from propcal.numbers import RATIO_DIGITS, printed_rate
from propcal.protect.rule import P_DIGITS, VARIANCE, Rule, shown_p
from propcal.protect.shown_counts import ShownCounts

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
    sets = [*found._source, *(found.protection._source if found.protection else ())]
    values = [(i, scores) for i, (_, scores) in enumerate(sets) if scores is not None]
    sums = [(0, [i]) for i in range(1, len(sets))]
    shown = ShownCounts.of(Headcount.joined([people for people, _ in sets]), rule, sums, values)
    overall = {
        "found": found.overall["found"],
        "p_value": shown_p(found.overall["p_value"], shown.large[0]),
        "people": shown.people_at(0),
        "events": shown.events_at(0),
        "observed": shown.rate_at(0),
        "predicted": printed_rate(shown.mean[0]),
    }
    protection = found.protection
    if protection is not None:
        rows = protection.table.to_dict("records")
        places = range(len(sets) - len(rows), len(sets))
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
    """A finding whose ratio follows from the counts that are shown; its interval moves with it."""
    value, low, high, raw = group.value, group.low, group.high, group.raw_value
    people, events, mean = shown.people[i], shown.events[i], shown.mean[i]
    if not (shown.known[i] if group.measure == RATIO else shown.large[i]):
        value = low = high = raw = NAN
    elif group.measure == RATIO:
        factor = (events / (people * mean)) / (group.observed / group.predicted)
        wider = float(np.exp(Z * np.sqrt(VARIANCE * (events**-2.0 + people**-2.0))))
        value, low, high, raw = value * factor, low * factor / wider, high * factor * wider, raw * factor
    if (value > 1) != (group.value > 1):
        value = low = high = NAN  # too near to 1 to tell
    ratios: Any = {"value": value, "low": low, "high": high, "raw_value": raw, "again": group.again}
    return replace(
        group,
        people=shown.people_at(i),
        share=round(float(people / shown.people[0]), 3),
        events=shown.events_at(i),
        observed=shown.rate_at(i),
        predicted=printed_rate(mean),
        predicted_after=printed_rate(group.predicted_after * mean / group.predicted),
        p_value=shown_p(group.p_value, shown.large[i]),
        **{name: round(x, RATIO_DIGITS) for name, x in ratios.items()},
    )


def _repair(shown: ShownCounts, i: int, row: dict[Any, Any]) -> dict[Any, Any]:
    """The repair of a protected group; its gaps agree with the rates that are shown. None if it is small."""
    if not shown.known[i]:
        return row | dict.fromkeys([name for name in row if name not in ("group", "clear")], NAN)
    rate, predicted = shown.rate_at(i), printed_rate(shown.mean[i])
    moved = rate - predicted - row["before"]
    printed = {name: x if isinstance(x, (str, bool)) else round(x, P_DIGITS) for name, x in row.items()}
    printed |= {name: round(row[name] + moved, P_DIGITS) for name in GAPS}
    return printed | {"people": shown.people_at(i), "observed": rate, "predicted": predicted}
