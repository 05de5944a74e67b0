"""A discovery as it may be handed on: computed from protected counts, and from nothing else.

Who was found, and in which order, is told as it is. Shares of resamples are given in steps of 10 %,
calibration slopes with one digit after the point. What a correction leaves of a protected group's error is
told in steps of half a standard error, at least of one block of people: a correction that reads a group
expects the exact number of its events. For the same reason, the events of a group that are expected after
correction for earlier findings are told in such steps.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected_findings import rounded_effect
from propcal.disclosure.protected_sample import expected_events
from propcal.disclosure.small_counts import limited_ratio, p_band
from propcal.discovery.finding_rows import PREDICTS_LOW, RATIO, counted, directions
from propcal.discovery.outcome_counts import Counted, IntervalBasis, OutcomeCounts, binomial_variance
from propcal.discovery.repairs import RepairBasis, clear_limit, repair
from propcal.discovery.rounds import WHOLE
from propcal.numbers import Limit

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup
    from propcal.discovery.repairs import Protection

NAN = float("nan")
LEAST_EFFECT = 0.1  # on variances
STEP = 0.5  # of a standard error, in which events after a correction and errors that are left are told


def protected_discovery(found: Discovery, fewest: int | None) -> Discovery:
    """Compute a discovery again from protected counts; 0 or None protects nothing."""
    if fewest is None or Blocks(fewest).fewest <= 1 or found._source is None:
        return found
    blocks, source = Blocks(fewest), found._source
    everybody = _Shown(source.everybody, blocks)
    groups = [_group(group, counted, everybody, blocks) for group, counted in zip(found.found, source.groups)]
    overall = {
        "found": found.overall["found"],
        "p_value": p_band(found.overall["p_value"]),
        "people": everybody.people,
        "events": everybody.events,
        "observed": everybody.rate,
        "predicted": everybody.predicted,
    }
    return replace(
        found,
        found=tuple(groups),
        overall=overall,
        settings={**found.settings, "people": everybody.people},
        protection=None if found.protection is None else _protection(found.protection, blocks),
        _source=None,
    )


class _Shown:
    """What may be shown of some people's counts."""

    def __init__(self, counts: OutcomeCounts, blocks: Blocks) -> None:
        pair = [each.reshape(2, 1) for each in (counts.people, counts.different)]
        self.small = blocks.small(*pair)[:, 0]
        self.counts = blocks.pair(*pair)[:, 0]
        self.total = float(self.counts.sum())
        few = counts.people < blocks.fewest - 1e-9
        self.hidden = bool(self.small.all() or (self.small & ~few).any())  # or many visits of few people
        self.expected = expected_events(counts.score, self.total)
        self._blocks = blocks

    @property
    def people(self) -> Any:
        """How many they are."""
        if self.small.all():
            return Limit(2 * self._blocks.width + 1, "below")
        return NAN if self.hidden else counted(self.total)

    @property
    def events(self) -> Any:
        """How many of them had the outcome."""
        return Limit(self._blocks.fewest, "below") if self.small[0] else counted(float(self.counts[0]))

    @property
    def rate(self) -> Any:
        """The observed rate, or a limit of it."""
        if self.hidden:
            return NAN
        most = (self._blocks.fewest - 0.5) / self.total
        if self.small.any():
            return Limit(most, "below") if self.small[0] else Limit(1 - most, "above")
        return float(self.counts[0] / self.total)

    @property
    def predicted(self) -> float:
        """The predicted rate."""
        return NAN if self.hidden else self.expected / self.total


def _group(group: FoundGroup, counted: Counted, everybody: _Shown, blocks: Blocks) -> FoundGroup:
    """A finding from protected counts."""
    counts, basis = counted
    own, basis = _Shown(counts, blocks), _rounded(basis)
    value, low, high, raw_value = NAN, NAN, NAN, NAN
    error = float(np.sqrt(basis.effect * binomial_variance(*own.counts)))
    after = _expected_after(group, basis, own, everybody, error) if group.corrected_for else own.expected
    words = group.error, group.raw_error
    if group.measure != RATIO:
        if not own.small.any():
            value, low, high = round(group.value, 1), _below(group.low), _above(group.high)
            raw_value = round(group.raw_value, 1)
    else:
        raw = (float(own.counts[0]) - own.expected) / error
        words = directions(PREDICTS_LOW in group.error, RATIO, raw, group.corrected_for)
        if own.small.any():
            raw_value = limited_ratio(own.rate, own.total, own.expected)
            value = limited_ratio(own.rate, own.total, after) if math.isfinite(after) else NAN
        else:
            raw_value = float(own.counts[0]) / own.expected
            if math.isfinite(after):
                value = float(own.counts[0]) / after
                low, high = basis.ends(float(own.counts[0]), float(own.counts[1]), after)
    return replace(
        group,
        error=words[0],
        raw_error=words[1],
        people=own.people,
        share=NAN if own.hidden else min(own.total / everybody.total, 1.0),
        events=own.events,
        observed=own.rate,
        predicted=own.predicted,
        predicted_after=NAN if own.hidden else min(after / own.total, 1.0),
        value=value,
        low=low,
        high=high,
        raw_value=raw_value,
        p_value=p_band(group.p_value),
        again=round(group.again, 1),
    )


def _expected_after(
    group: FoundGroup, basis: IntervalBasis, own: _Shown, everybody: _Shown, error: float
) -> float:
    """Events expected after correction for earlier errors, in steps; NaN if a step would be too large.

    One event more of the people who were corrected for moves this number by up to one; by the group's share
    of the events, if they are everybody.
    """
    block = float(own._blocks.width)
    if group.corrected_for == WHOLE:
        block *= min(own.expected / everybody.expected, 1.0)
    if block > 2 * error:
        return NAN
    step = max(STEP * error, block)
    return max(round(basis.then * own.expected / step), 1) * step


def _rounded(basis: IntervalBasis) -> IntervalBasis:
    """Without the digits that would lead back to exact counts; `then` is rounded to a number of events."""
    return IntervalBasis(
        then=basis.then,
        effect=max(float(rounded_effect(basis.effect)), LEAST_EFFECT),
        limit=round(basis.limit, 1),
        added=round(basis.added, 1),
    )


def _below(end: float) -> float:
    """The lower end of an interval, rounded down.

    >>> _below(0.27), _above(0.21), _below(0.3)
    (0.2, 0.3, 0.3)
    """
    return math.floor(round(10 * end, 9)) / 10 if math.isfinite(end) else NAN


def _above(end: float) -> float:
    return -_below(-end)


def _protection(protection: Protection, blocks: Blocks) -> Protection:
    """The repair of protected groups from protected counts; small groups have no numbers."""
    rows = protection.table.to_dict("records")
    limit = clear_limit(len(rows))
    made = [_repair(row, basis, blocks, limit) for row, basis in zip(rows, protection._basis)]
    return replace(protection, table=pd.DataFrame(made, columns=protection.table.columns), _basis=())


def _repair(row: dict[Any, Any], basis: RepairBasis, blocks: Blocks, limit: float) -> dict[Any, Any]:
    own = _Shown(basis.counts, blocks)
    if own.small.any():
        unknown = dict.fromkeys([name for name in row if name not in ("group", "clear")], NAN)
        return {**row, **unknown}
    effect = max(float(rounded_effect(basis.effect)), LEAST_EFFECT)
    error = float(np.sqrt(effect * binomial_variance(*own.counts))) / own.total
    step = max(STEP * error, blocks.width / own.total)
    rate = float(own.counts[0]) / own.total
    before = rate - own.predicted
    after, reading = (_told(row[name], row["before"], before, step) for name in ("after", "reading"))
    followed = round(basis.followed, 1), round(basis.followed_reading, 1)
    return {
        "group": row["group"],
        "people": counted(own.total),
        "observed": rate,
        "predicted": own.predicted,
        **repair((before, after, reading), error, followed, limit),
    }


def _told(gap: float, before: float, shown_before: float, step: float) -> float:
    """What a correction leaves of an error, in steps; where it changes nothing, the error as it is shown.

    >>> round(_told(0.012, 0.08, 0.083, 0.01), 9), _told(0.08, 0.08, 0.083, 0.01)
    (0.01, 0.083)
    """
    return shown_before if abs(gap - before) < step / 10 else round(gap / step) * step
