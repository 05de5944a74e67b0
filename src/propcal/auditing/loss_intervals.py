"""The MC, PMC and DC losses with what chance alone would give and an interval; and the
typical gap of a cell.

A loss is a maximum over many categories. It is large even for a perfect score, and the
percentiles of a bootstrap never hold its true value. So the interval comes from the
categories: each has limits that hold for all of them at once, and the maximum lies
between the largest lower and the largest upper limit.

The typical gap is the root of the mean squared gap over categories, less what noise
adds to it. Unlike a maximum it uses every category, so that it finds small errors, and
for a perfect score the mean square is zero on average (it may come out negative).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from propcal.auditing.names import LOSSES
from propcal.auditing.statistics.chance import Chance
from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    accepted,
    exact_interval,
    possible_truths,
)
from propcal.core.atoms import Atoms
from propcal.core.bins import bin_labels
from propcal.core.categories import Categories, largest_log_ratio
from propcal.core.criterion import CRITERIA, Criterion
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid
from propcal.core.loss_bounds import SCORE_BITS, LossBounds, score_ranges, sum_off
from propcal.numbers import Limit, risk_range

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit


NO_CELLS = "no cell has enough data"
LOSS_COLUMNS = ("value", "where", "floor_median", "floor_95", "p_value", "low", "high")


def rate_limits(
    table: Categories, noise: Chance, confidence: float = CONFIDENCE
) -> tuple[FloatArray, FloatArray]:
    """Limits of every eligible category's outcome rate that hold for all of them at
    once.

    They are Clopper and Pearson's at 0.05 / K, K being the number of eligible
    categories.
    """
    rate = np.where(table.eligible, table.outcome_rate, np.nan)
    return exact_interval(
        rate, noise.effective, (1 - confidence) / max(int(table.eligible.sum()), 1)
    )


def _gap_limits(
    low: FloatArray, high: FloatArray, score: FloatArray, criterion: Criterion
) -> tuple[float, float]:
    """Limits of the largest gap by a criterion, which grows away from the score."""
    ends = [np.abs(end - score) / criterion.allowance(end) for end in (low, high)]
    lowest = np.where((low <= score) & (score <= high), 0.0, np.minimum(*ends))
    if np.isnan(low).all():
        return float("nan"), float("nan")
    return float(np.nanmax(lowest)), float(np.nanmax(np.maximum(*ends)))


def _ratio_limits(
    low: FloatArray, high: FloatArray, eligible: BoolArray, rho: float
) -> tuple[float, float]:
    """Limits of the largest log-ratio of two groups in one bin."""
    if np.isnan(low).all():
        return float("nan"), float("nan")
    ends = [
        _apart(low[own, j], high[own, j], rho)
        for j, own in enumerate(eligible.T)
        if own.sum() >= 2
    ]
    least, most = np.nanmax([(0.0, 0.0), *ends], axis=0)
    return float(least), float(most)


def _apart(low: FloatArray, high: FloatArray, rho: float) -> tuple[float, float]:
    """Limits of the largest log-ratio of two of several rates, from limits of each."""
    below, above = (np.log(np.maximum(end, rho)) for end in (low, high))
    apart = above[:, None] - below[None, :]
    np.fill_diagonal(apart, 0.0)  # a group does not differ from itself
    return float(np.maximum(below.max() - above.min(), 0.0)), float(apart.max())


def losses(
    table: Categories,
    noise: Chance,
    rho: float,
    *,
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """MC, PMC and DC loss over the eligible categories, by name.

    Columns are the value, where it is attained, what chance alone would show, a p-value
    and an interval.
    """
    names = pd.Index(LOSSES, name="name")
    chosen = table.eligible
    if not chosen.any():
        nothing = float("nan")
        rows = [(nothing, NO_CELLS, *[nothing] * 5)] * len(LOSSES)
        return pd.DataFrame(rows, names, LOSS_COLUMNS)
    values = loss_values(table.outcome_rate, table.mean_score, chosen, rho)
    floors = loss_values(noise.rates, table.mean_score, chosen, rho)
    low, high = rate_limits(table, noise, confidence)
    score = np.where(chosen, table.mean_score, np.nan)
    ends = [
        _gap_limits(low, high, score, criterion(rho)) for criterion in CRITERIA.values()
    ]
    ends.append(_ratio_limits(low, high, chosen, rho))
    places = where_attained(table, rho)
    rows = [
        (
            float(values[i]),
            places[i],
            *_floor(floors[..., i], float(values[i])),
            *ends[i],
        )
        for i in range(len(LOSSES))
    ]
    return pd.DataFrame(rows, names, LOSS_COLUMNS)


def loss_values(
    rate: FloatArray, score: FloatArray, eligible: BoolArray, rho: float
) -> FloatArray:
    """The losses of outcome rates of shape (..., n_groups, n_bins), on the last
    axis.
    """
    gap = (rate - score)[..., eligible]
    found = [
        *(
            criterion(rho).loss(gap, rate[..., eligible])
            for criterion in CRITERIA.values()
        ),
        largest_log_ratio(np.where(eligible, rate, np.nan), rho=rho),
    ]
    return np.stack(found, axis=-1)


def _floor(drawn: FloatArray, value: float) -> tuple[float, float, float]:
    """Median and 95th percentile under a perfect score, and how often it shows as much
    as observed.
    """
    if not len(drawn):
        return float("nan"), float("nan"), float("nan")
    median, high = np.quantile(drawn, [0.5, 0.95])
    return (
        float(median),
        float(high),
        float((1 + np.sum(drawn >= value)) / (1 + len(drawn))),
    )


def loss_places(table: Categories, rho: float) -> dict[str, tuple[int, ...]]:
    """For each loss the cells that set it, counted by groups and bins; none if there
    are no eligible ones.

    Of DC they are the higher rate and the lower one, and none if no two groups meet in
    a bin.
    """
    rows = np.flatnonzero(table.eligible)
    if not len(rows):
        return {}
    gap = np.abs(table.gap.ravel()[rows])
    rate = table.outcome_rate.ravel()
    places: dict[str, tuple[int, ...]] = {
        name: (int(rows[np.argmax(gap / criterion(rho).allowance(rate[rows]))]),)
        for name, criterion in CRITERIA.items()
    }
    bins = np.tile(np.arange(len(table.bins)), len(table.gap))
    return places | {"dc": _furthest_apart(rows, bins, np.log(np.maximum(rate, rho)))}


def _furthest_apart(
    rows: IntArray, bins: IntArray, log_rate: FloatArray
) -> tuple[int, ...]:
    widest = -1.0
    pair: tuple[int, ...] = ()
    for j in np.unique(bins[rows]):
        own = rows[bins[rows] == j]
        apart = float(np.ptp(log_rate[own]))
        if len(own) > 1 and apart > widest:
            widest = apart
            pair = (
                int(own[np.argmax(log_rate[own])]),
                int(own[np.argmin(log_rate[own])]),
            )
    return pair


def where_attained(
    table: Categories, rho: float, labels: Mapping[str, str] | None = None
) -> list[str]:
    """Where each loss is attained, in words; `labels` are what people call the
    groups.
    """
    labels = labels or {}
    if not table.eligible.any():
        return [NO_CELLS] * len(LOSSES)
    n_bins = len(table.bins)
    places = loss_places(table, rho)
    words = [
        _place_name(table, [divmod(row, n_bins) for row in rows], labels)
        for rows in places.values()
        if rows
    ]
    pair = places["dc"]
    if not pair:
        return [*words, "no risk range has two groups"]
    low = bool(
        (table.outcome_rate[table.eligible] <= rho).all()
    )  # rates below rho count as rho
    if low:
        alike = f"all rates are below {100 * rho:g} %"
    else:
        alike = "no two groups differ"
    return words if pair[0] != pair[1] else [*words[:-1], alike]


def _place_name(
    table: Categories, cells: Sequence[tuple[int, int]], labels: Mapping[str, str]
) -> str:
    names = [table.collection.kept[g].group.name for g, _ in cells]
    groups = " against ".join(labels.get(name, name) for name in names)
    return f"{groups}, predicted risk {risk_range(table.bins.labels[cells[0][1]])}"


DEBIASED_COLUMNS = (
    "mean_square",
    "mean_square_low",
    "mean_square_high",
    "rms",
    "low",
    "high",
)


def debiased(table: Categories, noise: Chance, rho: float) -> pd.DataFrame:
    """Mean squared gap ("mc"), and gap as a share of the rate ("pmc"), without noise,
    with intervals.

    Possible truths have a share of the gaps found. The one under which the mean square
    would on average be as large as the one found is taken for the truth, which also
    takes off what dividing by a noisy rate adds; the interval comes from test
    inversion.
    """
    chosen = table.eligible
    squares = [(float("nan"),) * 3] * len(CRITERIA)
    if chosen.any() and len(noise.rates):
        score = table.mean_score[chosen]
        gap = table.gap[chosen]
        chance = noise.rates[:, chosen] - score
        squares = [
            _estimate(score, gap, chance, criterion(rho))
            for criterion in CRITERIA.values()
        ]
    found = np.array(squares)
    roots = np.sqrt(
        np.maximum(found, 0.0)
    )  # the typical gaps: 0 where noise explains all of it
    return pd.DataFrame(
        np.hstack([found, roots]), pd.Index(CRITERIA, name="name"), DEBIASED_COLUMNS
    )


def _mean_square(
    rate: FloatArray, score: FloatArray, criterion: Criterion
) -> FloatArray:
    return np.asarray(
        np.mean(((rate - score) / criterion.allowance(rate)) ** 2, axis=-1)
    )


def _estimate(
    score: FloatArray, gap: FloatArray, chance: FloatArray, criterion: Criterion
) -> tuple[float, float, float]:
    """The mean squared gap without noise, and its interval."""
    found = float(_mean_square(score + gap, score, criterion))
    path = np.append(0.0, possible_truths(gap, chance))
    truths = np.clip(score + path[:, None] * gap, 0, 1)
    values = _mean_square(truths, score, criterion)
    drawn = np.array(
        [
            _mean_square(_noisy(truth, score, chance), score, criterion)
            for truth in truths
        ]
    )
    means = np.maximum.accumulate(drawn.mean(axis=1))
    if found >= means[0]:
        value = float(np.interp(found, means, values))
    else:
        value = found - float(means[0])
    low, high = accepted(path, values, drawn, found)
    return value, min(low, value), max(high, value)


def _noisy(truth: FloatArray, score: FloatArray, chance: FloatArray) -> FloatArray:
    """Outcome rates around a truth. Chance was drawn at the score, and differs at
    another rate.
    """
    scale = np.sqrt(truth * (1 - truth) / np.maximum(score * (1 - score), 1e-12))
    return np.clip(truth + chance * np.minimum(scale, 10.0), 0, 1)


DC_COLUMNS = (
    "bin",
    "groups",
    "dc",
    "low",
    "high",
    "highest",
    "highest_rate",
    "lowest",
    "lowest_rate",
)


def dc_by_bin(a: Audit) -> pd.DataFrame:
    """One row a bin: the two groups furthest apart, their rates, and the log of their
    ratio.

    `dc` is the largest |log rate_a - log rate_b| over all pairs of eligible groups,
    rates floored at rho; `low` and `high` are its limits, which hold for all bins at
    once. The largest row is the DC loss. Of groups that the floor makes alike, the one
    whose own rate is lowest is named. Cells of which only limits are known are left
    aside.

    Examples
    --------
    >>> from propcal import audit
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> a = audit(visits.admitted, visits.true_risk, sensitive_features=visits[["race", "gender"]])
    >>> bool(np.isclose(dc_by_bin(a).dc.max(), a.losses.loc["dc", "value"]))
    True
    """
    rho = float(a.settings["rho"])
    rate = a.categories["outcome_rate"]
    limited = rate.map(lambda value: isinstance(value, Limit)).astype(bool)
    shown = a.categories["eligible"] & rate.notna() & ~limited
    found = [_row(label, rows[shown[rows.index]], rho) for label, rows in in_bins(a)]
    return pd.DataFrame(found, columns=list(DC_COLUMNS))


def in_bins(a: Audit) -> list[tuple[str, pd.DataFrame]]:
    """Every bin's label and its categories, in the order of the bins."""
    own = a.categories["bin"]
    return [
        (label, a.categories[own == label]) for label in bin_labels(a.settings["edges"])
    ]


def _row(label: str, chosen: pd.DataFrame, rho: float) -> tuple[Any, ...]:
    if len(chosen) < 2:
        return (label, len(chosen), *[np.nan] * 3, "", np.nan, "", np.nan)
    rate = chosen["outcome_rate"].to_numpy(dtype=np.float64)
    score = chosen["mean_score"].to_numpy(dtype=np.float64)
    size = np.log(np.maximum(rate, rho))
    top = int(rate.argmax())
    bottom = int(rate.argmin()) if np.ptp(rate) else 1
    low, high = (
        chosen[end].to_numpy(dtype=np.float64) + score for end in ("low", "high")
    )
    names = chosen["group"].tolist()
    ends = names[top], float(rate[top]), names[bottom], float(rate[bottom])
    return (
        label,
        len(chosen),
        float(size[top] - size[bottom]),
        *_apart(low, high, rho),
        *ends,
    )


RATIO = 2.0 ** -(
    SCORE_BITS - 1
)  # relative error of any O/E ratio, if no mean score is coarse
MOST_UNSURE = (
    0.1  # share of people whose risk range may be uncertain for losses to be of use
)


def ranges_unsure(losses: LossBounds | None) -> bool:
    """Whether shared atoms leave the risk range of too many people uncertain for cells
    and losses.
    """
    return losses is not None and losses.people > MOST_UNSURE


class SharedBounds(NamedTuple):
    """How far measures of everybody can be from those of the exact scores.

    `ratio` is the relative error of the O/E ratio, infinite if there is no limit;
    `auroc` and `brier` are the lowest and highest value.
    """

    ratio: float
    auroc: tuple[float, float]
    brier: tuple[float, float]


def shared_bounds(atoms: Atoms) -> SharedBounds:
    """Bounds for everybody, from the range that the people of each cell lie in."""
    score = from_grid(atoms.score)
    low, high = (from_grid(end) for end in score_ranges(atoms))
    reach = np.maximum(score - low, high - score)
    positives = atoms.positives.astype(np.float64)
    negatives = atoms.people - positives
    people = float(atoms.n_people)
    value = float(np.sum(positives * (1 - score) ** 2 + negatives * score**2)) / people
    # moving a score by d changes (s - y)^2 by 2 d (s - y) + d^2; the moves of a cell
    # add up to about 0
    rounding = (
        float(np.sum(2 * atoms.people * score * (1 - score) * 2.0**-SCORE_BITS))
        / people
    )
    shift = (
        float(np.sum(2 * reach * np.minimum(positives, negatives))) / people + rounding
    )
    # the most that a mean allows
    spread = float(np.sum(atoms.people * (high - score) * (score - low))) / people
    coarse = sum_off(atoms)
    expected = float(np.sum(atoms.people * score))
    shift = shift + 2 * coarse / people
    spread = spread + coarse * float(reach.max()) / people
    return SharedBounds(
        RATIO + coarse / (expected - coarse) if coarse < expected else float("inf"),
        (
            _pairs(low, positives, high, negatives),
            _pairs(high, positives, low, negatives),
        ),
        (max(value - shift, 0.0), min(value + shift + spread, 1.0)),
    )


def _pairs(
    high: FloatArray, positives: FloatArray, low: FloatArray, negatives: FloatArray
) -> float:
    """Share of pairs in which the person with the outcome has the higher score; ties
    count half.
    """
    total = positives.sum() * negatives.sum()
    if total <= 0:
        return float("nan")
    order = np.argsort(low, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(negatives[order])])
    below = reached[np.searchsorted(low[order], high, side="left")]
    upto = reached[np.searchsorted(low[order], high, side="right")]
    return float(np.sum(positives * (below + upto) / 2) / total)
