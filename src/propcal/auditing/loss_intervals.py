"""The losses with what noise alone would give, an interval, and the category or pair that sets each.

A loss is a maximum over many categories. It is large even for a perfect score, and the percentiles of a
bootstrap never hold its true value. So the interval comes from the categories: each has limits that hold
for all of them at once, and the maximum lies between the largest lower and the largest upper limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from propcal.auditing.chance import Chance
from propcal.auditing.intervals import CONFIDENCE, exact_interval
from propcal.auditing.measure_names import LOSSES
from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.core.losses import largest_log_ratio
from propcal.numbers import risk_range


@dataclass(frozen=True)
class Loss:
    """One loss: its value, where it is attained, its noise floor, a p-value and an interval."""

    name: str
    value: float
    where: str
    floor_median: float
    floor_95: float
    p_value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of every eligible category's outcome rate that hold for all of them at once."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, table: Categories, noise: Chance, confidence: float = CONFIDENCE) -> Limits:
        """Clopper and Pearson's at 0.05 / K, K being the number of eligible categories."""
        n = int(table.eligible.sum())
        rate = np.where(table.eligible, table.outcome_rate, np.nan)
        return cls(*exact_interval(rate, noise.effective, (1 - confidence) / max(n, 1)))


def _gap_limits(limits: Limits, score: FloatArray, criterion: Criterion) -> tuple[float, float]:
    """Limits of the largest gap by a criterion, which grows away from the score."""
    ends = [np.abs(end - score) / criterion.allowance(end) for end in (limits.low, limits.high)]
    holds = (limits.low <= score) & (score <= limits.high)
    lowest = np.where(holds, 0.0, np.minimum(*ends))
    if np.isnan(limits.low).all():
        return float("nan"), float("nan")
    return float(np.nanmax(lowest)), float(np.nanmax(np.maximum(*ends)))


def _ratio_limits(limits: Limits, eligible: BoolArray, rho: float) -> tuple[float, float]:
    """Limits of the largest log-ratio of two groups in one bin."""
    low, high = (np.log(np.maximum(end, rho)) for end in (limits.low, limits.high))
    least, most = (float("nan"),) * 2 if np.isnan(limits.low).all() else (0.0, 0.0)
    for j in np.flatnonzero(eligible.sum(axis=0) >= 2):
        members = np.flatnonzero(eligible[:, j])
        apart = high[members, j][:, None] - low[members, j][None, :]
        np.fill_diagonal(apart, 0.0)  # a group does not differ from itself
        most = max(most, float(apart.max()))
        least = max(least, float(low[members, j].max() - high[members, j].min()))
    return least, most


def losses(
    table: Categories,
    noise: Chance,
    rho: float,
    *,
    confidence: float = CONFIDENCE,
    labels: Mapping[str, str] | None = None,
) -> list[Loss]:
    """MC, PMC and DC loss over the eligible categories; `labels` are what people call the groups."""
    chosen = table.eligible
    if not chosen.any():
        nothing = float("nan")
        return [Loss(name, nothing, "no cell has enough data", *[nothing] * 5) for name in LOSSES]
    values = loss_values(table.outcome_rate, table.mean_score, chosen, rho)
    floors = loss_values(noise.rates, table.mean_score, chosen, rho)
    limits = Limits.of(table, noise, confidence)
    score = np.where(chosen, table.mean_score, np.nan)
    criteria = (multicalibration(), proportional(rho))
    ends = [_gap_limits(limits, score, criterion) for criterion in criteria]
    ends.append(_ratio_limits(limits, chosen, rho))
    places = _where(table, rho, labels or {})
    return [
        Loss(name, float(values[i]), places[i], *_floor(floors[..., i], float(values[i])), *ends[i])
        for i, name in enumerate(LOSSES)
    ]


def loss_values(rate: FloatArray, score: FloatArray, eligible: BoolArray, rho: float) -> FloatArray:
    """The three losses of outcome rates of shape (..., n_groups, n_bins), on the last axis."""
    gap = (rate - score)[..., eligible]
    found = [
        *(c.loss(gap, rate[..., eligible]) for c in (multicalibration(), proportional(rho))),
        largest_log_ratio(np.where(eligible, rate, np.nan), rho=rho),
    ]
    return np.stack(found, axis=-1)


def _floor(drawn: FloatArray, value: float) -> tuple[float, float, float]:
    """Median and 95th percentile under a perfect score, and how often it shows as much as observed."""
    if not len(drawn):
        return float("nan"), float("nan"), float("nan")
    median, high = np.quantile(drawn, [0.5, 0.95])
    return float(median), float(high), float((1 + np.sum(drawn >= value)) / (1 + len(drawn)))


def loss_places(
    bins: IntArray,
    *,
    gap: FloatArray,
    proportional_gap: FloatArray,
    rate: FloatArray,
    eligible: BoolArray,
    rho: float,
) -> dict[str, tuple[int, ...]]:
    """For each loss the categories that set it: of DC the higher rate and the lower one, none if no two meet.

    Categories are in the order of groups and bins; `bins` has the bin of each.
    """
    rows = np.flatnonzero(eligible)
    if not len(rows):
        return {}
    return {
        "mc": (int(rows[np.argmax(np.abs(gap[rows]))]),),
        "pmc": (int(rows[np.argmax(np.abs(proportional_gap[rows]))]),),
        "dc": _furthest_apart(rows, bins, np.log(np.maximum(rate, rho))),
    }


def _furthest_apart(rows: IntArray, bins: IntArray, log_rate: FloatArray) -> tuple[int, ...]:
    widest = -1.0
    pair: tuple[int, ...] = ()
    for j in np.unique(bins[rows]):
        own = rows[bins[rows] == j]
        apart = float(np.ptp(log_rate[own]))
        if len(own) > 1 and apart > widest:
            widest, pair = apart, (int(own[np.argmax(log_rate[own])]), int(own[np.argmin(log_rate[own])]))
    return pair


def _where(table: Categories, rho: float, labels: Mapping[str, str]) -> list[str]:
    """Where each loss is attained, in words."""
    n_bins = len(table.bins)
    places = loss_places(
        np.tile(np.arange(n_bins), len(table.gap)),
        gap=table.gap.ravel(),
        proportional_gap=(table.gap / proportional(rho).allowance(table.outcome_rate)).ravel(),
        rate=table.outcome_rate.ravel(),
        eligible=table.eligible.ravel(),
        rho=rho,
    )
    words = [
        _place_name(table, [divmod(row, n_bins) for row in rows], labels) for rows in places.values() if rows
    ]
    pair = places["dc"]
    if not pair:
        return [*words, "no risk range has two groups"]
    return words if pair[0] != pair[1] else [*words[:-1], "no two groups differ"]


def _place_name(table: Categories, cells: Sequence[tuple[int, int]], labels: Mapping[str, str]) -> str:
    names = [table.collection.kept[g].group.name for g, _ in cells]
    groups = " against ".join(labels.get(name, name) for name in names)
    return f"{groups}, predicted risk {risk_range(table.bins.label(cells[0][1]))}"
