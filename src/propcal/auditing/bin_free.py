"""Measures of calibration that need no bins: cumulative calibration error, worst
interval, smooth ECE.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

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
    "group", "people", "measure", "value", "sigma", "chance_median", "chance_95", "p_value", "adjusted_p",
    "low", "high", "direction",
)  # fmt: skip
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
WIDTHS = np.geomspace(
    0.002, 0.3, 14
)  # of the kernel, for the smooth ECE of simulated data
# the smallest width, and the steps of its search
FINEST = 0.001
HALVINGS = 10
# of simulated cells; with more cells there are fewer draws, but at least 100
MOST_NUMBERS = 50_000_000


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

    >>> found = worst_interval(np.array([0.2, 0.4, 0.9]), np.ones(3), np.array([1.0, 1.0, 0.0]))
    >>> round(found.ecce, 3), found.low, found.high
    (0.467, 0.2, 0.4)
    """
    order = np.argsort(score, kind="stable")
    ranked, first = np.unique(score[order], return_index=True)
    rest = np.add.reduceat((positives - weight * score)[order], first)
    running = np.concatenate([[0.0], np.cumsum(rest)]) / weight.sum()
    begin, end = sorted((int(np.argmax(running)), int(np.argmin(running))))
    while begin + 1 < end and running[begin + 1] == running[begin]:
        begin += 1  # the shortest of intervals with the same sum
    if begin == end:
        return WorstInterval(0.0, float("nan"), float("nan"), 0.0)
    size = running[end] - running[begin]
    return WorstInterval(
        float(abs(size)), float(ranked[begin]), float(ranked[end - 1]), float(size)
    )


def range_tail(sigma: FloatArray) -> FloatArray:
    """The probability that the range of a Brownian motion on [0, 1] exceeds given
    numbers.
    """
    x = np.maximum(np.asarray(sigma, dtype=np.float64), 0.05)[..., None]
    half = np.arange(200) + 0.5
    terms = (8 / x**2 + 2 / (half * np.pi) ** 2) * np.exp(-2 * (half * np.pi / x) ** 2)
    return np.asarray(np.clip(1 - terms.sum(axis=-1), 0.0, 1.0))


def smooth_ece(score: FloatArray, weight: FloatArray, positives: FloatArray) -> float:
    """The smooth ECE, with the width of the kernel at which width and result are
    equal.
    """
    rest = weight * score - positives
    widest = _at_width(score, weight, rest, 1.0)
    if widest > 1.0:
        return widest

    def too_narrow(width: float) -> bool:
        return width < FINEST or width < _at_width(score, weight, rest, width)

    return _at_width(
        score, weight, rest, float(bisected(too_narrow, 0.0, 1.0, HALVINGS)[1])
    )


def _at_width(
    score: FloatArray, weight: FloatArray, rest: FloatArray, width: float
) -> float:
    """The mean absolute residual, smoothed by a kernel of the given width on a fine
    grid.
    """
    n_grid = max(2000, round(20 / width)) // 2 + 1
    place = score * (n_grid - 1)
    cell = np.clip(place.astype(np.int64), 0, n_grid - 2)
    part = place - cell
    at = np.linspace(0, 1, n_grid)
    kernel = np.exp(-((at - 0.5) ** 2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
    shown = np.linspace(0, 1, max(round(10 / width), 200))
    size = (
        1 << (4 * n_grid).bit_length()
    )  # of the transforms, which then do not wrap around

    def smoothed(column: FloatArray) -> FloatArray:
        masses = np.bincount(cell, (1 - part) * column, n_grid) + np.bincount(
            cell + 1, part * column, n_grid
        )
        mirrored = np.concatenate([masses[:0:-1], masses, masses[-2::-1]])
        whole = np.fft.irfft(
            np.fft.rfft(mirrored, size) * np.fft.rfft(kernel, size), size
        )
        first = n_grid - 1 + n_grid // 2
        return np.asarray(np.interp(shown, at, whole[first : first + n_grid]))

    density = smoothed(weight) + 1e-4  # a little, so that nothing is divided by zero
    return float(np.sum(np.abs(smoothed(rest) / density) * density) / np.sum(density))


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
    >>> table = bin_free_measures(visits.admitted, visits.true_risk, sensitive_features=visits[["gender"]])
    >>> table.measure.tolist()
    ['ecce', 'smooth_ece', 'ecce', 'smooth_ece', 'ecce', 'smooth_ece', 'mce']
    >>> bool(table.adjusted_p.min() > 0.05)
    True
    """
    check_number("n_draws", n_draws, at_least=100, whole=True)
    words = definition(groups, intersections, missing)
    rows = (score, y, sensitive_features, sample_weight)
    if isinstance(y, Atoms):
        atoms = y
    else:
        atoms = rows_to_atoms(*rows, cluster=cluster, groups=words)
    if atoms.soft_labels:
        raise InputError(
            "the outcomes are soft labels, whose noise is not known", argument="y"
        )
    atoms = without_keys(atoms)
    bare = without_clusters(atoms)
    judged = JudgedGroups.of(bare)
    sizes = [
        size
        for size, sample in _samples(bare, audited_groups(bare, words))
        if not size.left_out and not judged.too_few(sample)
    ]
    if not sizes:
        raise InputError("there are not enough data to judge anybody", argument="y")
    return bin_free_table(atoms, sizes, n_draws, Draws(random_state))


def _samples(
    atoms: Atoms, sizes: Sequence[GroupSize]
) -> list[tuple[GroupSize, Sample]]:
    inside = membership([size.group for size in sizes], atoms.patterns)
    everybody = Sample.of(atoms)
    pattern_of_atom = atoms.pattern_index()
    return [
        (size, everybody.where(members[pattern_of_atom]))
        for size, members in zip(sizes, inside)
    ]


def bin_free_table(
    atoms: Atoms, sizes: Sequence[GroupSize], n_draws: int, rng: Draws
) -> pd.DataFrame:
    """The measures of given groups, of whom the first is everybody; see
    `bin_free_measures`.

    With repeat visits, what chance shows is larger by the design effect.
    """
    atoms = with_effect(without_clusters(atoms), repeat_effect(atoms))
    found = _samples(atoms, sizes)
    worst = [worst_interval(s.score, s.weight, s.positives) for _, s in found]
    error = np.array([_standard_error(s) for _, s in found])
    smooth = np.array([smooth_ece(s.score, s.weight, s.positives) for _, s in found])
    ecce, smooth_drawn, smooth_observed = _by_chance(atoms, sizes, n_draws, rng)
    sigma = ratio([w.ecce for w in worst], error, 0.0)
    most = ratio(ecce, error, 0.0).max(axis=1)
    smooth_p = _smooth_p(smooth_drawn, smooth_observed)
    rows = []
    for g, size in enumerate(sizes):
        drawn_p = float(range_tail(sigma[g])), _share(most >= sigma[g])
        direction = "too low" if worst[g].sum > 0 else "too high"
        more = {
            "sigma": sigma[g],
            "low": worst[g].low,
            "high": worst[g].high,
            "direction": direction,
        }
        rows.append(_row(size, "ecce", worst[g].ecce, ecce[:, g], drawn_p, **more))
        rows.append(
            _row(size, "smooth_ece", smooth[g], smooth_drawn[:, g], smooth_p[g])
        )
    top = int(np.argmax(sigma))
    whole = float(error[0])
    top_p = float(range_tail(sigma[top])), _share(most >= sigma[top])
    rows.append(
        _row(
            sizes[top], "mce", sigma[top] * whole, most * whole, top_p, sigma=sigma[top]
        )
    )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    size: GroupSize,
    measure: str,
    value: float,
    drawn: FloatArray,
    p: tuple[float, float],
    **more: Any,
) -> dict[str, Any]:
    """A measure, what chance shows of it, its p-value and the adjusted one."""
    row = {
        "group": size.group.name,
        "people": size.people,
        "measure": measure,
        "value": value,
        **more,
    }
    row |= {
        "chance_median": float(np.median(drawn)),
        "chance_95": float(np.quantile(drawn, 0.95)),
    }
    return row | {"p_value": p[0], "adjusted_p": p[1]}


def _standard_error(sample: Sample) -> float:
    """The standard error of the mean residual of a perfect score."""
    return float(
        np.sqrt(np.sum(sample.weight_sq * sample.score * (1 - sample.score)))
        / sample.total
    )


def _share(at_least: Any) -> float:
    """How often chance gives as much, with the data themselves counted as one of the
    draws.
    """
    return float((1 + np.sum(at_least)) / (1 + len(at_least)))


def _by_chance(
    atoms: Atoms, sizes: Sequence[GroupSize], n_draws: int, rng: Draws
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """ECCE and smooth ECE of simulated data, of shape (n_draws, n_groups), and the
    smooth ECE of the data.

    The latter is computed from the same cells and widths as those of the draws, so that
    they compare.
    """
    pattern, cell, weight, people, mean, excess = _cells(atoms)
    n_draws = max(min(n_draws, MOST_NUMBERS // len(weight)), 100)
    rest = np.empty((len(weight), n_draws + 1), dtype=np.float32)
    rest[:, n_draws] = excess
    begin = 0
    for block in draw_outcomes(
        people, mean, n_draws, rng, block=max(1_000_000 // len(weight), 1)
    ):
        rest[:, begin : begin + len(block)] = ((block / people - mean) * weight).T
        begin += len(block)
    ecce, smooth = np.empty((2, n_draws + 1, len(sizes)))
    for g, members in enumerate(
        membership([size.group for size in sizes], atoms.patterns)
    ):
        own = np.flatnonzero(members[pattern])
        first = np.flatnonzero(np.diff(cell[own], prepend=-1))  # cells ascend
        sums = np.add.reduceat(rest[own], first, axis=0)
        heavy = np.add.reduceat(weight[own], first)
        total = float(heavy.sum())
        at = np.add.reduceat(weight[own] * mean[own], first) / heavy
        running = np.cumsum(sums, axis=0, dtype=np.float64) / total
        ecce[:, g] = np.maximum(running.max(axis=0), 0) - np.minimum(
            running.min(axis=0), 0
        )
        smooth[:, g] = _where_equal(
            np.array([_smoothed(at, sums, total, width) for width in WIDTHS])
        )
    return ecce[:-1], smooth[:-1], smooth[-1]


def _smooth_p(drawn: FloatArray, observed: FloatArray) -> list[tuple[float, float]]:
    """The p-value of each group's smooth ECE, and the p-value adjusted for the number
    of groups.
    """
    middle, high = np.quantile(drawn, (0.5, 0.95), axis=0)
    unit = np.maximum(high - middle, 1e-12)
    most = ((drawn - middle) / unit).max(axis=1)
    sizes = (observed - middle) / unit
    found = [
        (_share(own >= value), _share(most >= size))
        for own, value, size in zip(drawn.T, observed, sizes)
    ]
    return [(single, max(adjusted, single)) for single, adjusted in found]


def _cells(atoms: Atoms) -> tuple[Any, Any, Any, IntArray, FloatArray, FloatArray]:
    """Pattern, cell of the score, weight, people, mean score, and observed minus
    expected events.

    One row for each combination of pattern and cell, by ascending cell.
    """
    score = atoms.score / 2.0**32
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.cumsum(atoms.weight[order]) / atoms.weight.sum()
    cell = np.minimum((rank * N_CELLS * (1 - 1e-12)).astype(np.int64), N_CELLS - 1)
    n_patterns = len(atoms.patterns)
    key = cell * n_patterns + atoms.pattern_index()
    columns = (atoms.weight, atoms.weight_sq, atoms.weight * score, atoms.positives)
    weight, squares, sums, positives = (
        np.bincount(key, column).astype(np.float64) for column in columns
    )
    used = np.flatnonzero(weight)
    people = np.maximum(np.rint(weight[used] ** 2 / squares[used]), 1).astype(np.int64)
    mean = np.clip(sums[used] / weight[used], 0, 1)
    return (
        used % n_patterns,
        used // n_patterns,
        weight[used],
        people,
        mean,
        (positives - sums)[used],
    )


def _smoothed(
    at: FloatArray, sums: FloatArray, total: float, width: float
) -> FloatArray:
    """The smooth ECE of each draw (columns) at a given width, with the kernel reflected
    at 0 and 1.
    """
    points = np.linspace(0, 1, 100)[:, None]
    kernel = sum(
        np.exp(-((points - place) ** 2) / (2 * width**2)) for place in (at, -at, 2 - at)
    )
    kernel = (kernel / (np.sqrt(2 * np.pi) * width)).astype(sums.dtype)
    return np.asarray(np.abs(kernel @ sums).mean(axis=0, dtype=np.float64) / total)


def _where_equal(by_width: FloatArray) -> FloatArray:
    """The value at which a measure that falls with the width equals the width, by
    interpolation.
    """
    above = by_width - WIDTHS[:, None]
    last = np.clip((above > 0).sum(axis=0) - 1, 0, len(WIDTHS) - 2)
    draw = np.arange(by_width.shape[1])
    first = above[last, draw]
    second = above[last + 1, draw]
    part = np.clip(first / np.where(first > second, first - second, 1.0), 0.0, 1.0)
    return np.asarray(WIDTHS[last] + part * (WIDTHS[last + 1] - WIDTHS[last]))


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
        shown = self.table[[*SHOWN]].round(3).to_string(index=False, na_rep="-")
        return f"{self.sentence}\n\n{shown}"
