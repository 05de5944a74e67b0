"""A discovery as it may be handed on: who was found, tests and stability, and protected counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.auditing.headcount import Headcount
from propcal.discovery.finding_rows import RATIO
from propcal.discovery.protected_groups import Z
from propcal.numbers import SMALLEST_P, printed_rate
from propcal.protect.rates import ENDS
from propcal.protect.rule import VARIANCE, Rule, p_band
from propcal.protect.shown_counts import ShownCounts

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup
    from propcal.discovery.protected_groups import Protection

NAN = float("nan")


def protected_discovery(found: Discovery, fewest: int | None) -> Discovery:
    """A discovery with protected counts; 0 or None protects nothing."""
    if fewest is None or Rule(fewest).fewest <= 1 or not found._source:
        return found
    return _ProtectedDiscovery(found, Rule(fewest)).discovery()


class _ProtectedDiscovery:
    """Sets of people: everybody, each group found, each protected group."""

    def __init__(self, found: Discovery, rule: Rule) -> None:
        self.exact = found
        sets = [*found._source, *(found.protection._source if found.protection else ())]
        values = [(i, own) for i, (_, own) in enumerate(sets) if own is not None]
        sums = [(0, [i]) for i in range(1, len(sets))]
        self.shown = ShownCounts.of(Headcount.joined([people for people, _ in sets]), rule, sums, values)

    def discovery(self) -> Discovery:
        """The discovery with everything replaced that counts give away."""
        found = self.exact
        groups = [self._group(1 + i, group) for i, group in enumerate(found.found)]
        overall = {
            "found": found.overall["found"],
            "p_value": self._p(0, found.overall["p_value"]),
            "people": self.shown.people_at(0),
            "events": self.shown.events_at(0),
            "observed": self._rate(0),
            "predicted": printed_rate(self.shown.mean[0]),
        }
        return replace(
            found,
            found=tuple(groups),
            overall=overall,
            settings={**found.settings, "people": self.shown.people_at(0)},
            protection=None if found.protection is None else self._protection(found.protection),
            _source=(),
        )

    def _p(self, i: int, p: float) -> float:
        return p_band(p) if not self.shown.large[i] else round(p, 3) if p >= SMALLEST_P else 0.0

    def _rate(self, i: int) -> float:
        return float(self.shown.events[i] / self.shown.people[i]) if self.shown.known[i] else NAN

    def _group(self, i: int, group: FoundGroup) -> FoundGroup:
        """A finding whose ratio follows from the counts that are shown; its interval moves with it."""
        shown, numbers = self.shown, (group.value, group.low, group.high, group.raw_value)
        people, events, mean = shown.people[i], shown.events[i], shown.mean[i]
        if group.measure == RATIO and shown.known[i]:
            factor = (events / (people * mean)) / (group.observed / group.predicted)
            wider = float(np.exp(Z * np.sqrt(VARIANCE * (events**-2.0 + people**-2.0))))
            numbers = tuple(x * factor * w for x, w in zip(numbers, (1.0, 1 / wider, wider, 1.0)))
        told = shown.known[i] if group.measure == RATIO else shown.large[i]
        value, low, high, raw = numbers if told else (NAN,) * 4
        if (value > 1) != (group.value > 1):
            value = low = high = NAN  # too near to 1 to tell
        after = group.predicted_after * mean / group.predicted
        return replace(
            group,
            people=shown.people_at(i),
            share=round(float(people / shown.people[0]), 3),
            events=shown.events_at(i),
            observed=self._rate(i),
            predicted=printed_rate(mean),
            predicted_after=printed_rate(after),
            value=round(value, 2),
            low=round(low, 2),
            high=round(high, 2),
            raw_value=round(raw, 2),
            p_value=self._p(i, group.p_value),
            again=round(group.again, 2),
        )

    def _protection(self, protection: Protection) -> Protection:
        """The repair of protected groups; small ones have no numbers."""
        rows = protection.table.to_dict("records")
        first = len(self.shown.people) - len(rows)
        made = [self._repair(first + k, row) for k, row in enumerate(rows)]
        return replace(protection, table=pd.DataFrame(made, columns=protection.table.columns), _source=())

    def _repair(self, i: int, row: dict[Any, Any]) -> dict[Any, Any]:
        """A row whose gaps agree with the rates that are shown."""
        if not self.shown.known[i]:
            return {**row, **dict.fromkeys([name for name in row if name not in ("group", "clear")], NAN)}
        rate, predicted = self._rate(i), printed_rate(self.shown.mean[i])
        moved = rate - predicted - row["before"]
        gaps = [f"{name}{end}" for name in ("before", "after", "reading") for end in ENDS]
        made = {name: x if isinstance(x, (str, bool)) else round(x, 3) for name, x in row.items()}
        made |= {name: round(row[name] + moved, 3) for name in gaps}
        return made | {"people": self.shown.people_at(i), "observed": rate, "predicted": predicted}
