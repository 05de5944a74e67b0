"""The MC, PMC and DC losses with their intervals, and the typical gap of a cell.

A loss is a maximum over many categories. It is large even for a perfect score, and the
percentiles of a bootstrap never include its true value. So the interval comes from the
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
    Limits,
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
    n_eligible = max(int(table.eligible.sum()), 1)
    error = (1 - confidence) / n_eligible
    return exact_interval(rate, noise.effective, error)


def _gap_limits(
    low: FloatArray, high: FloatArray, score: FloatArray, criterion: Criterion
) -> Limits:
    """Limits of the largest gap by a criterion; a gap grows away from the score."""
    if np.isnan(low).all():
        return float("nan"), float("nan")
    gap_at_low = np.abs(low - score)
    at_low = gap_at_low / criterion.allowance(low)
    gap_at_high = np.abs(high - score)
    at_high = gap_at_high / criterion.allowance(high)
    no_gap = (low <= score) & (score <= high)
    nearest = np.minimum(at_low, at_high)
    smallest = np.where(no_gap, 0.0, nearest)
    largest = np.maximum(at_low, at_high)
    return float(np.nanmax(smallest)), float(np.nanmax(largest))


def _ratio_limits(
    low: FloatArray, high: FloatArray, eligible: BoolArray, rho: float
) -> Limits:
    """Limits of the largest log-ratio of two groups in one bin."""
    if np.isnan(low).all():
        return float("nan"), float("nan")
    limits = [(0.0, 0.0)]
    for j, groups in enumerate(eligible.T):
        if groups.sum() >= 2:
            low_rates = low[groups, j]
            high_rates = high[groups, j]
            limits.append(_log_ratio_limits(low_rates, high_rates, rho))
    least, most = np.nanmax(limits, axis=0)
    return float(least), float(most)


def _log_ratio_limits(low: FloatArray, high: FloatArray, rho: float) -> Limits:
    """Limits of the largest log-ratio of two of several rates, from limits of each."""
    log_low = np.log(np.maximum(low, rho))
    log_high = np.log(np.maximum(high, rho))
    largest = log_high[:, None] - log_low[None, :]
    np.fill_diagonal(largest, 0.0)  # a group does not differ from itself
    distance_of_intervals = log_low.max() - log_high.min()
    least = np.maximum(distance_of_intervals, 0.0)
    return float(least), float(largest.max())


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
        unknown = float("nan")
        row = (unknown, NO_CELLS, *[unknown] * 5)
        no_rows = [row] * len(LOSSES)
        return pd.DataFrame(no_rows, names, LOSS_COLUMNS)

    values = loss_values(table.outcome_rate, table.mean_score, chosen, rho)
    by_chance = loss_values(noise.rates, table.mean_score, chosen, rho)
    low, high = rate_limits(table, noise, confidence)
    score = np.where(chosen, table.mean_score, np.nan)
    limits = []
    for criterion in CRITERIA.values():
        limits.append(_gap_limits(low, high, score, criterion(rho)))
    limits.append(_ratio_limits(low, high, chosen, rho))

    places = where_attained(table, rho)
    rows = []
    for i, value in enumerate(values.tolist()):
        floor = _floor(by_chance[..., i], value)
        rows.append((value, places[i], *floor, *limits[i]))
    return pd.DataFrame(rows, names, LOSS_COLUMNS)


def loss_values(
    rate: FloatArray, score: FloatArray, eligible: BoolArray, rho: float
) -> FloatArray:
    """The losses of outcome rates of shape (..., n_groups, n_bins), on the last
    axis.
    """
    eligible_rate = rate[..., eligible]
    gap = (rate - score)[..., eligible]
    losses = [
        criterion(rho).loss(gap, eligible_rate) for criterion in CRITERIA.values()
    ]
    eligible_rates = np.where(eligible, rate, np.nan)
    losses.append(largest_log_ratio(eligible_rates, rho=rho))
    return np.stack(losses, axis=-1)


def _floor(drawn: FloatArray, value: float) -> tuple[float, float, float]:
    """Median and 95th percentile under a perfect score, and how often it shows as much
    as observed.
    """
    if not len(drawn):
        return float("nan"), float("nan"), float("nan")
    median, high = np.quantile(drawn, [0.5, 0.95])
    n_reached = 1 + np.sum(drawn >= value)
    p_value = n_reached / (1 + len(drawn))
    return float(median), float(high), float(p_value)


def loss_places(table: Categories, rho: float) -> dict[str, tuple[int, ...]]:
    """For each loss the cells that set it, numbered by groups and bins; empty if no
    cell is eligible.

    Of DC they are the higher rate and the lower one, and none if no two groups meet in
    a bin.
    """
    rows = np.flatnonzero(table.eligible)
    if not len(rows):
        return {}
    gaps = table.gap.ravel()
    gap = np.abs(gaps[rows])
    rate = table.outcome_rate.ravel()
    places: dict[str, tuple[int, ...]] = {}
    for name, criterion in CRITERIA.items():
        allowance = criterion(rho).allowance(rate[rows])
        relative_gap = gap / allowance
        row_of_largest = rows[np.argmax(relative_gap)]
        places[name] = (int(row_of_largest),)

    all_bins = np.arange(len(table.bins))
    bins = np.tile(all_bins, len(table.gap))
    log_rate = np.log(np.maximum(rate, rho))
    places["dc"] = _furthest_apart(rows, bins, log_rate)
    return places


def _furthest_apart(
    rows: IntArray, bins: IntArray, log_rate: FloatArray
) -> tuple[int, ...]:
    """The cells with the highest and the lowest rate, in the bin where these differ
    most.
    """
    widest = -1.0
    pair: tuple[int, ...] = ()
    for j in np.unique(bins[rows]):
        same_bin = bins[rows] == j
        in_bin = rows[same_bin]
        log_rates = log_rate[in_bin]
        width = float(np.ptp(log_rates))
        if len(in_bin) > 1 and width > widest:
            widest = width
            highest = in_bin[np.argmax(log_rates)]
            lowest = in_bin[np.argmin(log_rates)]
            pair = (int(highest), int(lowest))
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
    names = []
    for rows in places.values():
        if rows:
            cells = [divmod(row, n_bins) for row in rows]
            names.append(_place_name(table, cells, labels))

    pair = places["dc"]
    if not pair:
        return [*names, "no risk range has two groups"]
    if pair[0] != pair[1]:
        return names
    # rates below rho count as rho
    rates = table.outcome_rate[table.eligible]
    all_low = bool((rates <= rho).all())
    if all_low:
        return [*names[:-1], f"all rates are below {100 * rho:g} %"]
    return [*names[:-1], "no two groups differ"]


def _place_name(
    table: Categories, cells: Sequence[tuple[int, int]], labels: Mapping[str, str]
) -> str:
    groups = []
    for place, _ in cells:
        name = table.collection.kept[place].group.name
        groups.append(labels.get(name, name))
    _, bin_index = cells[0]
    risks = risk_range(table.bins.labels[bin_index])
    return f"{' against '.join(groups)}, predicted risk {risks}"


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
    unknown = (float("nan"),) * 3
    squares = [unknown] * len(CRITERIA)
    if chosen.any() and len(noise.rates):
        score = table.mean_score[chosen]
        gap = table.gap[chosen]
        chance = noise.rates[:, chosen] - score
        squares = []
        for criterion in CRITERIA.values():
            squares.append(_estimate(score, gap, chance, criterion(rho)))
    # the typical gaps: 0 where noise explains all of the square
    roots = np.sqrt(np.maximum(squares, 0.0))
    numbers = np.hstack([np.array(squares), roots])
    names = pd.Index(CRITERIA, name="name")
    return pd.DataFrame(numbers, names, DEBIASED_COLUMNS)


def _mean_square(
    rate: FloatArray, score: FloatArray, criterion: Criterion
) -> FloatArray:
    gap = rate - score
    relative_gap = gap / criterion.allowance(rate)
    return np.asarray(np.mean(relative_gap**2, axis=-1))


def _estimate(
    score: FloatArray, gap: FloatArray, chance: FloatArray, criterion: Criterion
) -> tuple[float, float, float]:
    """The mean squared gap without noise, and its interval."""
    observed = float(_mean_square(score + gap, score, criterion))
    path = np.append(0.0, possible_truths(gap, chance))
    moved = path[:, None] * gap
    truths = np.clip(score + moved, 0, 1)
    values = _mean_square(truths, score, criterion)
    drawn = np.empty((len(path), len(chance)))
    for i, truth in enumerate(truths):
        noisy = _noisy(truth, score, chance)
        drawn[i] = _mean_square(noisy, score, criterion)

    means = np.maximum.accumulate(drawn.mean(axis=1))
    if observed >= means[0]:
        value = float(np.interp(observed, means, values))
    else:
        value = observed - float(means[0])
    low, high = accepted(path, values, drawn, observed)
    low = min(low, value)
    high = max(high, value)
    return value, low, high


def _noisy(truth: FloatArray, score: FloatArray, chance: FloatArray) -> FloatArray:
    """Outcome rates around a truth. Chance was drawn at the score, and differs at
    another rate.
    """
    variance_at_truth = truth * (1 - truth)
    variance_at_score = score * (1 - score)
    variance_ratio = variance_at_truth / np.maximum(variance_at_score, 1e-12)
    scale = np.minimum(np.sqrt(variance_ratio), 10.0)
    drawn_rates = truth + chance * scale
    return np.clip(drawn_rates, 0, 1)


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
    once. The largest row is the DC loss. If several groups are at the floor, the one
    whose own rate is lowest is named. Cells of which only limits are known are left
    out.

    Examples
    --------
    >>> from propcal import audit
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> groups = visits[["race", "gender"]]
    >>> a = audit(visits.admitted, visits.true_risk, sensitive_features=groups)
    >>> bool(np.isclose(dc_by_bin(a).dc.max(), a.losses.loc["dc", "value"]))
    True
    """
    rho = float(a.settings["rho"])
    rate = a.categories["outcome_rate"]
    is_limit = rate.map(lambda value: isinstance(value, Limit))
    limited = is_limit.astype(bool)
    shown = a.categories["eligible"] & rate.notna() & ~limited
    rows = []
    for label, cells in in_bins(a):
        shown_cells = cells[shown[cells.index]]
        rows.append(_row(label, shown_cells, rho))
    return pd.DataFrame(rows, columns=list(DC_COLUMNS))


def in_bins(a: Audit) -> list[tuple[str, pd.DataFrame]]:
    """Every bin's label and its categories, in the order of the bins."""
    bin_of_cell = a.categories["bin"]
    labels = bin_labels(a.settings["edges"])
    return [(label, a.categories[bin_of_cell == label]) for label in labels]


def _row(label: str, cells: pd.DataFrame, rho: float) -> tuple[Any, ...]:
    if len(cells) < 2:
        return (label, len(cells), *[np.nan] * 3, "", np.nan, "", np.nan)
    numbers = cells[["outcome_rate", "mean_score", "low", "high"]]
    rate, score, low, high = numbers.to_numpy(dtype=np.float64).T
    top = int(rate.argmax())
    bottom = int(rate.argmin()) if np.ptp(rate) else 1
    log_rate = np.log(np.maximum(rate, rho))
    names = cells["group"].tolist()
    difference = float(log_rate[top] - log_rate[bottom])
    ends = _log_ratio_limits(low + score, high + score, rho)
    return (
        label,
        len(cells),
        difference,
        *ends,
        names[top],
        float(rate[top]),
        names[bottom],
        float(rate[bottom]),
    )


# relative error of any O/E ratio, if no mean score is coarse
RATIO_ERROR = 2.0 ** -(SCORE_BITS - 1)
# share of people whose risk range may be uncertain for losses to be of use
MOST_UNSURE = 0.1


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
    auroc: Limits
    brier: Limits


def shared_bounds(atoms: Atoms) -> SharedBounds:
    """Bounds for everybody, from the range that the people of each cell lie in."""
    score = from_grid(atoms.score)
    low, high = (from_grid(end) for end in score_ranges(atoms))
    positives = atoms.positives.astype(np.float64)
    negatives = atoms.people - positives
    coarse = sum_off(atoms)
    ratio_error = _ratio_error(atoms, score, coarse)
    fewest_pairs = _pairs(low, positives, high, negatives)
    most_pairs = _pairs(high, positives, low, negatives)
    brier = _brier_limits(atoms, score, low, high, coarse)
    return SharedBounds(
        ratio_error,
        (fewest_pairs, most_pairs),
        brier,
    )


def _ratio_error(atoms: Atoms, score: FloatArray, coarse: float) -> float:
    """The relative error of the O/E ratio, if scores may be off by `coarse` in all."""
    expected = float(np.sum(atoms.people * score))
    if coarse >= expected:
        return float("inf")
    return RATIO_ERROR + coarse / (expected - coarse)


def _brier_limits(
    atoms: Atoms, score: FloatArray, low: FloatArray, high: FloatArray, coarse: float
) -> Limits:
    """The lowest and the highest possible Brier score.

    Moving a score by d changes (s - y)^2 by 2 d (s - y) + d^2; the moves of a cell add
    up to about 0.
    """

    def mean(sums: FloatArray) -> float:
        return float(np.sum(sums)) / n_people

    people = atoms.people
    n_people = float(atoms.n_people)
    positives = atoms.positives.astype(np.float64)
    negatives = people - positives
    of_positives = positives * (1 - score) ** 2
    of_negatives = negatives * score**2
    value = mean(of_positives + of_negatives)

    reach = np.maximum(score - low, high - score)
    rarer = np.minimum(positives, negatives)
    moved = mean(2 * reach * rarer)
    rounding = mean(2 * people * score * (1 - score) * 2.0**-SCORE_BITS)
    shift = moved + rounding + 2 * coarse / n_people
    # the most that a mean allows
    most = mean(people * (high - score) * (score - low))
    spread = most + coarse * float(reach.max()) / n_people
    low_limit = max(value - shift, 0.0)
    high_limit = min(value + shift + spread, 1.0)
    return low_limit, high_limit


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
    running = np.cumsum(negatives[order])
    reached = np.concatenate([[0.0], running])
    sorted_low = low[order]
    n_below = np.searchsorted(sorted_low, high, side="left")
    n_below_or_equal = np.searchsorted(sorted_low, high, side="right")
    twice_overtaken = reached[n_below] + reached[n_below_or_equal]
    pairs = positives * twice_overtaken / 2
    return float(np.sum(pairs) / total)
