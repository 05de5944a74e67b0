"""Measures of calibration that need no bins, such as the smooth ECE.

The cumulative calibration error (ECCE) is the largest absolute sum of observed minus
predicted over any interval of scores, per person; the interval where it is reached is
the worst one. In standard errors, its largest value over the groups is the
multicalibration error (MCE), as the package mcgrad defines it. The smooth ECE smooths
the residuals with a Gaussian kernel, reflected at 0 and 1, whose width equals the
result (Blasiok and Nakkiran), on the grid of the package relplot.

Everything is computed from atoms. What chance would show comes from outcomes that are
drawn from the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from propcal.auditing.profile import JudgedGroups, audited_groups
from propcal.auditing.statistics.rate_intervals import bisected
from propcal.auditing.statistics.sample import Sample
from propcal.core.arguments import Intersections, Missing, Table, Values, check_number
from propcal.core.atoms import Atoms
from propcal.core.draws import Draws, draw_outcomes
from propcal.core.fit.evidence import repeat_effect, with_effect
from propcal.core.grid import FloatArray, IntArray, ratio
from propcal.core.groups import Groups, GroupSize, definition, membership
from propcal.core.reduction import without_clusters, without_keys
from propcal.errors import InputError
from propcal.options import Seed
from propcal.reading.rows import rows_to_atoms

COLUMNS = (
    "group",
    "people",
    "measure",
    "value",
    "sigma",
    "chance_median",
    "chance_95",
    "p_value",
    "adjusted_p",
    "low",
    "high",
    "direction",
)
SHOWN = (
    "label",
    "measure",
    "value",
    "chance_95",
    "adjusted_p",
    "low",
    "high",
    "direction",
)

N_CELLS = 128  # of equally many people each, in which chance is simulated
# of the kernel, for the smooth ECE of simulated data
WIDTHS = np.geomspace(0.002, 0.3, 14)
MIN_WIDTH = 0.001
HALVINGS = 10  # steps of the search for the width
# of simulated cells; with more cells there are fewer draws, but at least `MIN_DRAWS`
MOST_NUMBERS = 50_000_000
MIN_DRAWS = 100
# of residuals drawn at a time
MOST_DRAWN = 1_000_000
# at which simulated residuals are smoothed
KERNEL_POINTS = np.linspace(0, 1, 100)[:, None]


class WorstInterval(NamedTuple):
    """The ECCE, and the interval of scores (from `low` to `high`) where it is reached.

    `sum` is observed minus predicted over the interval, per person of the group.
    """

    ecce: float
    low: float
    high: float
    sum: float


def worst_interval(
    score: FloatArray, weight: FloatArray, positives: FloatArray
) -> WorstInterval:
    """The interval of scores with the largest absolute sum of observed minus predicted.

    >>> score = np.array([0.2, 0.4, 0.9])
    >>> worst = worst_interval(score, np.ones(3), np.array([1.0, 1.0, 0.0]))
    >>> round(worst.ecce, 3), worst.low, worst.high
    (0.467, 0.2, 0.4)
    """
    order = np.argsort(score, kind="stable")
    ranked_score = score[order]
    ranked, first = np.unique(ranked_score, return_index=True)
    residuals = positives - weight * score
    residual = residuals[order]
    of_scores = np.add.reduceat(residual, first)
    sums = np.concatenate([[0.0], np.cumsum(of_scores)])
    running = sums / weight.sum()
    highest = int(np.argmax(running))
    lowest = int(np.argmin(running))
    begin, end = sorted((highest, lowest))
    while begin + 1 < end and running[begin + 1] == running[begin]:
        begin += 1  # the shortest of intervals with the same sum
    if begin == end:
        return WorstInterval(0.0, float("nan"), float("nan"), 0.0)

    excess = running[end] - running[begin]
    low = float(ranked[begin])
    high = float(ranked[end - 1])
    return WorstInterval(float(abs(excess)), low, high, float(excess))


def range_tail(sigma: FloatArray) -> FloatArray:
    """The probability that the range of a Brownian motion on [0, 1] exceeds given
    numbers.
    """
    at_least = np.maximum(np.asarray(sigma, dtype=np.float64), 0.05)
    x = at_least[..., None]
    frequency = (np.arange(200) + 0.5) * np.pi
    factor = 8 / x**2 + 2 / frequency**2
    decay = np.exp(-2 * (frequency / x) ** 2)
    terms = factor * decay
    tail = 1 - terms.sum(axis=-1)
    return np.asarray(np.clip(tail, 0.0, 1.0))


def smooth_ece(score: FloatArray, weight: FloatArray, positives: FloatArray) -> float:
    """The smooth ECE, with the width of the kernel at which width and result are
    equal.
    """
    residual = weight * score - positives
    widest = _at_width(score, weight, residual, 1.0)
    if widest > 1.0:
        return widest

    def too_narrow(width: float) -> bool:
        if width < MIN_WIDTH:
            return True
        return width < _at_width(score, weight, residual, width)

    _, width = bisected(too_narrow, 0.0, 1.0, HALVINGS)
    return _at_width(score, weight, residual, float(width))


def _at_width(
    score: FloatArray, weight: FloatArray, residual: FloatArray, width: float
) -> float:
    """The mean absolute residual, smoothed by a kernel of the given width on a fine
    grid.
    """
    n_points = max(2000, round(20 / width))
    n_grid = n_points // 2 + 1
    grid = np.linspace(0, 1, n_grid)
    place = score * (n_grid - 1)
    cell = np.clip(place.astype(np.int64), 0, n_grid - 2)
    part = place - cell

    bell = _gaussian(grid - 0.5, width)
    kernel = bell / _area(width)
    # of the transforms, so large that they do not wrap around
    size = 1 << (4 * n_grid).bit_length()
    n_places = max(round(10 / width), 200)
    points = np.linspace(0, 1, n_places)

    def smoothed(column: FloatArray) -> FloatArray:
        below = (1 - part) * column
        masses = np.bincount(cell, below, n_grid)
        above = part * column
        masses = masses + np.bincount(cell + 1, above, n_grid)
        mirrored = np.concatenate([masses[:0:-1], masses, masses[-2::-1]])
        of_masses = np.fft.rfft(mirrored, size)
        of_kernel = np.fft.rfft(kernel, size)
        transform = of_masses * of_kernel
        convolved = np.fft.irfft(transform, size)
        first = n_grid - 1 + n_grid // 2
        inner = convolved[first : first + n_grid]
        return np.asarray(np.interp(points, grid, inner))

    density = smoothed(weight) + 1e-4  # a little, so that nothing is divided by zero
    mean_excess = smoothed(residual) / density
    mean_residual = np.abs(mean_excess)
    total_residual = np.sum(mean_residual * density)
    return float(total_residual / np.sum(density))


def bin_free_measures(
    y: Values | Atoms,
    score: Values | None = None,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    cluster: Values | None = None,
    groups: Groups | None = None,
    intersections: Intersections = "all",
    missing: Missing = "level",
    n_draws: int = 1000,
    random_state: Seed = 0,
) -> pd.DataFrame:
    """Measures of calibration without bins, for everybody and for each group that an
    audit would test.

    Parameters
    ----------
    y, score, sensitive_features, sample_weight, cluster, groups, intersections, missing
        As for `audit`; `y` may be Atoms.
    n_draws : int, default=1000
        Data sets drawn from the score itself, to see what chance alone would show.
    random_state : int, default=0

    Returns
    -------
    DataFrame
        One row for each group and measure ("ecce", "smooth_ece"), and one for the "mce"
        of all groups, with its `value`, in standard errors `sigma` (not for the smooth
        ECE), the median and 95th percentile of a perfect score, `p_value` and
        `adjusted_p` (for the number of groups, by the simulated maximum over them). The
        `p_value` of "ecce" and "mce" is that of the package mcgrad, which takes all
        scores for different: with ties it is too large, and `adjusted_p` can be the
        smaller one. For "ecce", `low` and `high` are the ends of the worst interval of
        scores and `direction` says whether the score is too high or too low there.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(5000, seed=1)
    >>> table = bin_free_measures(
    ...     visits.admitted, visits.true_risk, sensitive_features=visits[["gender"]]
    ... )
    >>> table.measure.tolist()
    ['ecce', 'smooth_ece', 'ecce', 'smooth_ece', 'ecce', 'smooth_ece', 'mce']
    >>> bool(table.adjusted_p.min() > 0.05)
    True
    """
    check_number("n_draws", n_draws, at_least=100, whole=True)
    groups = definition(groups, intersections, missing)
    if isinstance(y, Atoms):
        atoms = y
    else:
        rows = (score, y, sensitive_features, sample_weight)
        atoms = rows_to_atoms(*rows, cluster=cluster, groups=groups)
    if atoms.soft_labels:
        raise InputError(
            "the outcomes are soft labels, whose noise is not known", argument="y"
        )
    atoms = without_keys(atoms)
    bare = without_clusters(atoms)
    judged = JudgedGroups.of(bare)
    counted = [size for size in audited_groups(bare, groups) if not size.left_out]
    samples = _samples(bare, counted)
    large = [not judged.too_few(sample) for sample in samples]
    sizes = list(compress(counted, large))
    if not sizes:
        raise InputError("there are not enough data to judge anybody", argument="y")
    return bin_free_table(atoms, sizes, n_draws, Draws(random_state))


def _samples(atoms: Atoms, sizes: Sequence[GroupSize]) -> Iterator[Sample]:
    """The people of each group."""
    everybody = Sample.of(atoms)
    pattern_of_atom = atoms.pattern_index()
    named_groups = [size.group for size in sizes]
    for members in membership(named_groups, atoms.patterns):
        yield everybody.where(members[pattern_of_atom])


def bin_free_table(
    atoms: Atoms, sizes: Sequence[GroupSize], n_draws: int, rng: Draws
) -> pd.DataFrame:
    """The measures of given groups, the first of which is everybody; see
    `bin_free_measures`.

    With repeat visits, what chance shows is larger by the design effect.
    """
    atoms = with_effect(without_clusters(atoms), repeat_effect(atoms))
    worst = []
    smooth = []
    errors = []
    for sample in _samples(atoms, sizes):
        columns = (sample.score, sample.weight, sample.positives)
        worst.append(worst_interval(*columns))
        smooth.append(smooth_ece(*columns))
        errors.append(_error_of_mean(sample))

    error = np.array(errors)
    distances = [interval.ecce for interval in worst]
    sigma = ratio(distances, error, 0.0)
    simulated = _by_chance(atoms, sizes, n_draws, rng)
    drawn_sigma = ratio(simulated.ecce, error, 0.0)
    largest_sigma = drawn_sigma.max(axis=1)

    def sigma_p(g: int) -> tuple[float, float]:
        single = float(range_tail(sigma[g]))
        adjusted = _tail_share(largest_sigma >= sigma[g])
        return single, adjusted

    smooth_p = _smooth_p(simulated.smooth, simulated.smooth_observed)
    rows = []
    for g, size in enumerate(sizes):
        interval = worst[g]
        drawn_ecce = simulated.ecce[:, g]
        ecce = _row(size, "ecce", interval.ecce, drawn_ecce, sigma_p(g))
        ecce["sigma"] = sigma[g]
        ecce["low"] = interval.low
        ecce["high"] = interval.high
        ecce["direction"] = "too low" if interval.sum > 0 else "too high"
        rows.append(ecce)
        drawn = simulated.smooth[:, g]
        rows.append(_row(size, "smooth_ece", smooth[g], drawn, smooth_p[g]))

    top = int(np.argmax(sigma))
    of_everybody = float(errors[0])
    value = sigma[top] * of_everybody
    drawn_mce = largest_sigma * of_everybody
    mce = _row(sizes[top], "mce", value, drawn_mce, sigma_p(top))
    rows.append(mce | {"sigma": sigma[top]})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    size: GroupSize,
    measure: str,
    value: float,
    drawn: FloatArray,
    p_values: tuple[float, float],
) -> dict[str, Any]:
    """A measure, what chance shows of it, its p-value and the adjusted one."""
    p_value, adjusted_p = p_values
    median = float(np.median(drawn))
    high = float(np.quantile(drawn, 0.95))
    return {
        "group": size.group.name,
        "people": size.people,
        "measure": measure,
        "value": value,
        "chance_median": median,
        "chance_95": high,
        "p_value": p_value,
        "adjusted_p": adjusted_p,
    }


def _error_of_mean(sample: Sample) -> float:
    """The standard error of the mean residual of a perfect score."""
    score = sample.score
    variances = sample.weight_sq * score * (1 - score)
    variance = np.sum(variances)
    return float(np.sqrt(variance) / sample.total)


def _tail_share(at_least: Any) -> float:
    """How often chance gives as much, with the data themselves counted as one of the
    draws.
    """
    n_reached = 1 + np.sum(at_least)
    return float(n_reached / (1 + len(at_least)))


class _ChanceMeasures(NamedTuple):
    """ECCE and smooth ECE of simulated data, of shape (n_draws, n_groups), and the
    smooth ECE of the data in the same cells and widths.
    """

    ecce: FloatArray
    smooth: FloatArray
    smooth_observed: FloatArray


def _by_chance(
    atoms: Atoms, sizes: Sequence[GroupSize], n_draws: int, rng: Draws
) -> _ChanceMeasures:
    """Measures of outcomes drawn from the score."""
    cells = _cells(atoms)
    most_draws = MOST_NUMBERS // len(cells.weight)
    n_draws = max(min(n_draws, most_draws), MIN_DRAWS)
    residuals = _drawn_residuals(cells, n_draws, rng)
    ecce, smooth = np.empty((2, n_draws + 1, len(sizes)))
    groups = [size.group for size in sizes]
    inside = membership(groups, atoms.patterns)
    for g, members in enumerate(inside):
        rows = np.flatnonzero(members[cells.pattern])
        cell_of_row = cells.cell[rows]
        first = np.flatnonzero(np.diff(cell_of_row, prepend=-1))  # cells ascend
        sums = np.add.reduceat(residuals[rows], first, axis=0)
        weight = np.add.reduceat(cells.weight[rows], first)
        weighted_score = cells.weight[rows] * cells.mean[rows]
        score_sum = np.add.reduceat(weighted_score, first)
        total = float(weight.sum())

        ecce[:, g] = _ecce(sums, total)
        mean = score_sum / weight
        by_width = [_smoothed(mean, sums, total, width) for width in WIDTHS]
        smooth[:, g] = _where_equal(np.array(by_width))
    return _ChanceMeasures(ecce[:-1], smooth[:-1], smooth[-1])


def _ecce(sums: NDArray[np.float32], total: float) -> FloatArray:
    """The ECCE of each draw (columns), from sums of residuals by ascending score."""
    running = np.cumsum(sums, axis=0, dtype=np.float64) / total
    highest = np.maximum(running.max(axis=0), 0)
    lowest = np.minimum(running.min(axis=0), 0)
    return np.asarray(highest - lowest)


def _drawn_residuals(
    cells: _PatternCells, n_draws: int, rng: Draws
) -> NDArray[np.float32]:
    """Observed minus expected events of each cell, in each draw (columns) and, in the
    last column, in the data.
    """
    residuals = np.empty((len(cells.weight), n_draws + 1), dtype=np.float32)
    residuals[:, n_draws] = cells.excess
    block = max(MOST_DRAWN // len(cells.weight), 1)
    begin = 0
    for positives in draw_outcomes(cells.people, cells.mean, n_draws, rng, block=block):
        end = begin + len(positives)
        deviation = positives / cells.people - cells.mean
        excess = deviation * cells.weight
        residuals[:, begin:end] = excess.T
        begin = end
    return residuals


def _smooth_p(drawn: FloatArray, observed: FloatArray) -> list[tuple[float, float]]:
    """The p-value of each group's smooth ECE, and the p-value adjusted for the number
    of groups.
    """
    median, high = np.quantile(drawn, (0.5, 0.95), axis=0)
    unit = np.maximum(high - median, 1e-12)
    sizes_of_draws = (drawn - median) / unit
    largest = sizes_of_draws.max(axis=1)
    sizes = (observed - median) / unit
    p_values = []
    for drawn_of_group, value, size in zip(drawn.T, observed, sizes):
        single = _tail_share(drawn_of_group >= value)
        adjusted = _tail_share(largest >= size)
        p_values.append((single, max(adjusted, single)))
    return p_values


class _PatternCells(NamedTuple):
    """One row for each combination of pattern and cell of the score, by ascending cell.

    `mean` is the mean score, `excess` observed minus expected events.
    """

    pattern: IntArray
    cell: IntArray
    weight: FloatArray
    people: IntArray
    mean: FloatArray
    excess: FloatArray


def _cells(atoms: Atoms) -> _PatternCells:
    """Cut the scores into cells of equally many people."""
    score = atoms.score / 2.0**32
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    running = np.cumsum(atoms.weight[order])
    rank[order] = running / atoms.weight.sum()
    cell_number = (rank * N_CELLS * (1 - 1e-12)).astype(np.int64)
    cell = np.minimum(cell_number, N_CELLS - 1)
    n_patterns = len(atoms.patterns)
    place = cell * n_patterns + atoms.pattern_index()

    def sums(column: Any) -> FloatArray:
        return np.bincount(place, column).astype(np.float64)

    weight = sums(atoms.weight)
    squares = sums(atoms.weight_sq)
    expected = sums(atoms.weight * score)
    used = np.flatnonzero(weight)
    effective = np.rint(weight[used] ** 2 / squares[used])
    people = np.maximum(effective, 1)
    mean = expected[used] / weight[used]
    excess = sums(atoms.positives) - expected
    return _PatternCells(
        pattern=used % n_patterns,
        cell=used // n_patterns,
        weight=weight[used],
        people=people.astype(np.int64),
        mean=np.clip(mean, 0, 1),
        excess=excess[used],
    )


def _gaussian(distance: FloatArray, width: float) -> FloatArray:
    """A Gaussian kernel, without its constant."""
    exponent = -(distance**2) / (2 * width**2)
    return np.asarray(np.exp(exponent))


def _area(width: float) -> float:
    """The area under `_gaussian`."""
    return float(np.sqrt(2 * np.pi) * width)


def _smoothed(
    at: FloatArray, sums: NDArray[np.float32], total: float, width: float
) -> FloatArray:
    """The smooth ECE of each draw (columns) at a given width, with the kernel reflected
    at 0 and 1.
    """
    mirrored = (at, -at, 2 - at)
    kernel = np.zeros((len(KERNEL_POINTS), len(at)))
    for place in mirrored:
        kernel += _gaussian(KERNEL_POINTS - place, width)
    kernel = (kernel / _area(width)).astype(sums.dtype)
    error = np.abs(kernel @ sums)
    mean_error = error.mean(axis=0, dtype=np.float64)
    return np.asarray(mean_error / total)


def _where_equal(by_width: FloatArray) -> FloatArray:
    """The value at which a measure that falls with the width equals the width, by
    interpolation.
    """
    above = by_width - WIDTHS[:, None]
    n_above = (above > 0).sum(axis=0)
    last_above = np.clip(n_above - 1, 0, len(WIDTHS) - 2)
    draw = np.arange(by_width.shape[1])
    first = above[last_above, draw]
    second = above[last_above + 1, draw]
    slope = np.where(first > second, first - second, 1.0)
    part = np.clip(first / slope, 0.0, 1.0)
    width = WIDTHS[last_above]
    step = WIDTHS[last_above + 1] - width
    return np.asarray(width + part * step)


@dataclass(frozen=True, eq=False)
class BinFree:
    """Measures of calibration that need no bins, of everybody and of each group tested.

    Attributes
    ----------
    sentence : str
        Whether any of them is more than chance explains, and where.
    table : DataFrame
        As `bin_free_measures` returns it, with the `label` of each group; empty if
        nothing was tested.
    """

    sentence: str
    table: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def of(self, measure: str) -> pd.DataFrame:
        """The rows of one measure ("ecce", "smooth_ece" or "mce"), by group."""
        return self.table[self.table["measure"] == measure].set_index("group")

    def __repr__(self) -> str:
        if self.table.empty:
            return self.sentence
        rounded = self.table[[*SHOWN]].round(3)
        shown = rounded.to_string(index=False, na_rep="-")
        return f"{self.sentence}\n\n{shown}"
