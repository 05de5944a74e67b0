"""Discoveries for release: groups that a search found, with protected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import NAN
from propcal.auditing.names import MEASURE_NAMES
from propcal.numbers import RATIO_DIGITS, printed_rate
from propcal.protect.disclosure_rule import P_DIGITS, Rule, shown_p
from propcal.protect.shown_counts import Sets, ShownCounts

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup
    from propcal.discovery.protected_groups import Protection

RATIO = MEASURE_NAMES["observed_expected"].name
# of a repair, what follows from shown rates
GAPS = [f"{name}{end}" for name in ("before", "after", "reading") for end in ENDS]
SHARE_DIGITS = 3


def protected_discovery(discovery: Discovery, fewest: int | None) -> Discovery:
    """A discovery with protected counts; 0 or None protects nothing.

    Sets of people are everybody, each group found and each protected group.
    """
    rule = Rule.asked(fewest)
    if rule is None or not discovery._source:
        return discovery
    counted = [*discovery._source]
    first_protected = len(counted)
    protection = discovery.protection
    if protection is not None:
        counted += protection._source
    sets = Sets()
    for people, scores in counted:
        sets.add(people, [scores])
    parts = range(1, len(counted))  # of everybody
    sets.add_sums([0] * len(parts), [parts])
    shown = sets.shown(rule)

    if protection is not None:
        protection = _protected_repairs(protection, shown, first_protected)
    groups = [_protected_group(shown, i, g) for i, g in enumerate(discovery.found, 1)]
    p_value = shown_p(discovery.overall["p_value"], shown.large[0])
    overall = {
        "found": discovery.overall["found"],
        "p_value": p_value,
        **shown.numbers_at(0),
    }
    return replace(
        discovery,
        found=tuple(groups),
        overall=overall,
        settings={**discovery.settings, "people": shown.people_at(0)},
        protection=protection,
        _source=(),
    )


def _protected_group(shown: ShownCounts, i: int, group: FoundGroup) -> FoundGroup:
    """A finding whose ratio and interval follow from the counts that are shown."""
    value = group.value
    low = group.low
    high = group.high
    raw_value = group.raw_value
    exact_after = group.predicted_after * shown.mean[i]
    after = printed_rate(exact_after / group.predicted)
    if group.measure == RATIO:
        value, low, high = shown.ratio(i, (value, low, high), after)
        raw_value = shown.ratio(i, [raw_value] * 3)[0]
    elif not shown.large[i]:
        value = low = high = raw_value = NAN
    if (value > 1) != (group.value > 1):
        value = low = high = NAN  # too close to 1 to say
    share = shown.people[i] / shown.people[0]
    p_value = shown_p(group.p_value, shown.large[i])
    return replace(
        group,
        **shown.numbers_at(i),
        share=round(float(share), SHARE_DIGITS),
        predicted_after=after,
        p_value=p_value,
        value=round(value, RATIO_DIGITS),
        low=round(low, RATIO_DIGITS),
        high=round(high, RATIO_DIGITS),
        raw_value=round(raw_value, RATIO_DIGITS),
        again=round(group.again, RATIO_DIGITS),
    )


def _protected_repairs(
    protection: Protection, shown: ShownCounts, first: int
) -> Protection:
    """The repairs of protected groups, whose sets begin at `first`."""
    exact = protection.table.to_dict("records")
    rows = [_protected_repair(shown, i, row) for i, row in enumerate(exact, first)]
    table = pd.DataFrame(rows, columns=protection.table.columns)
    return replace(protection, table=table, _source=())


def _protected_repair(
    shown: ShownCounts, i: int, exact: Mapping[Any, Any]
) -> dict[Any, Any]:
    """The repair of a protected group; its gaps agree with the rates that are shown.
    Of a small group, nothing is.
    """
    row = dict(exact)
    if not shown.known[i]:
        names = [name for name in row if name not in ("group", "clear")]
        return row | dict.fromkeys(names, NAN)
    numbers = shown.numbers_at(i)
    shown_gap = numbers["observed"] - numbers["predicted"]
    moved = shown_gap - row["before"]
    for name, value in exact.items():
        if name in GAPS:
            row[name] = round(value + moved, P_DIGITS)
        elif name in numbers:
            row[name] = numbers[name]
        elif not isinstance(value, (str, bool)):
            row[name] = round(value, P_DIGITS)
    return row
