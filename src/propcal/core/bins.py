"""Bins of scores: how the edges are chosen, and which bin a score falls into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from propcal.core.arguments import check_choice, check_number
from propcal.core.grid import (
    UNIT,
    FloatArray,
    IntArray,
    SumArray,
    exact_fraction,
    from_grid,
    to_grid,
)
from propcal.errors import InputError, refused, shown

MOST_BINS = 10_000


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals that cover [0, 1]. Each includes its lower edge only; the last one
    includes both.

    Attributes
    ----------
    edges : array of int64, shape (n_bins + 1,)
        Ascending, from 0 to 2**32, in units of 2**-32.
    kind : str
        "uniform", "geometric", "quantile" or "explicit".
    divisor : int
        The paper's 1/lambda in the rule for the smallest category: the `n_bins` that
        the user asked for, or the number of explicit bins.
    """

    edges: IntArray
    kind: str
    divisor: int

    def __len__(self) -> int:
        return len(self.edges) - 1

    def index(self, score: IntArray) -> IntArray:
        """The bin of each score (scores in units of the grid).

        >>> uniform(10).index(to_grid(np.array([0.0, 0.0999, 0.1, 0.95, 1.0]))).tolist()
        [0, 0, 1, 9, 9]
        """
        return np.searchsorted(self.edges[1:-1], score, side="right")

    def cut(self, parts: int, at: Sequence[int] = ()) -> Bins:
        """Every bin cut into so many parts of the same width, and at further scores in
        units of the grid.
        """
        widths = np.diff(self.edges)[:, None]
        starts = self.edges[:-1, None] + widths * np.arange(parts) // parts
        edges = np.unique(np.concatenate([starts.ravel(), at, [UNIT]]))
        return Bins(edges.astype(np.int64), self.kind, self.divisor)

    @property
    def labels(self) -> list[str]:
        """Every bin as an interval, such as "[0.1, 0.2)"."""
        return bin_labels(from_grid(self.edges).round(9))

    def __repr__(self) -> str:
        return f"Bins({self.kind}, {len(self)} bins)"


Binning = str | Sequence[float] | FloatArray | Bins


def bin_labels(edges: Sequence[float] | FloatArray) -> list[str]:
    """The bins between edges as intervals, with as many digits as distinguish them.

    >>> bin_labels([0, 0.12345, 1])
    ['[0, 0.1235)', '[0.1235, 1]']
    >>> bin_labels([0, 0.30001, 0.30002, 1])
    ['[0, 0.30001)', '[0.30001, 0.30002)', '[0.30002, 1]']
    """
    texts: list[str] = []
    for digits in range(4, 10):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len({*texts}) == len(texts):
            break
    labels = [f"[{low}, {high})" for low, high in pairwise(texts)]
    labels[-1] = labels[-1][:-1] + "]"  # the last bin includes its upper edge
    return labels


def uniform(n_bins: int) -> Bins:
    """Bins of equal width (the paper's lambda-discretization, lambda = 1/n_bins)."""
    # round in integers: j / n_bins in floating point does not always give the nearest
    # unit
    edges = [(2 * j * UNIT + n_bins) // (2 * n_bins) for j in range(n_bins + 1)]
    return Bins(np.array(edges, dtype=np.int64), "uniform", n_bins)


def geometric(n_bins: int, rho: float) -> Bins:
    """Bins of equal ratio above `rho`, and one bin [0, rho) below (the paper's (lambda,
    rho)-discretization).

    >>> geometric(2, 0.01).labels
    ['[0, 0.01)', '[0.01, 0.1)', '[0.1, 1]']
    """
    if rho >= 1:
        raise InputError(
            "rho must be below 1, because geometric bins run from rho to 1",
            argument="rho",
        )
    powers = [rho ** (1 - j / n_bins) for j in range(n_bins)]
    edges = to_grid(np.array([0.0, *powers, 1.0]))
    if np.any(np.diff(edges) <= 0):
        raise refused("narrow bins", n_bins=n_bins, rho=rho)
    return Bins(edges, "geometric", n_bins)


def quantile(n_bins: int, score: IntArray, weight: SumArray) -> Bins:
    """Bins with the same number of people each, as far as ties allow (equal scores
    share a bin).

    Edge j is the score of the person with rank floor(j * people / n_bins), counting
    ranks from 0.
    """
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    running = np.cumsum(weight[order])
    total = running[-1]
    if running.dtype.kind == "i":
        whole_ranks = [j * int(total) // n_bins for j in range(1, n_bins)]
        ranks = np.array(whole_ranks, dtype=np.int64)
    else:
        ranks = np.arange(1, n_bins) * (total / n_bins)
    place = np.searchsorted(running, ranks, side="right")
    inner = ranked[np.minimum(place, len(ranked) - 1)]
    edges = np.unique(np.concatenate([[0], inner, [UNIT]])).astype(np.int64)
    return Bins(edges, "quantile", n_bins)


def explicit(edges: Sequence[float] | FloatArray) -> Bins:
    """Bins between the given edges, which must increase from 0 to 1."""
    try:
        values = np.asarray(edges, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise refused("no bins", got=shown(edges)) from None
    if values.ndim != 1 or len(values) < 2 or not np.all(np.isfinite(values)):
        raise refused("few edges")
    if values[0] != 0 or values[-1] != 1:
        raise refused("other ends", first=values[0], last=values[-1])
    if len(values) > MOST_BINS + 1:
        raise refused("many bins", most=MOST_BINS, n=len(values) - 1)
    if np.any(np.diff(to_grid(values)) <= 0):
        raise refused("edges not increasing")
    return Bins(to_grid(values), "explicit", len(values) - 1)


def category_min_share(alpha: float, gamma: float, bins: Bins) -> float:
    """The smallest share of all people that a category may have: alpha * lambda * gamma
    in Algorithm 1.

    The product uses the decimals as typed, so that a category exactly at the limit is
    included.

    >>> category_min_share(0.1, 0.05, uniform(10)) == 0.0005  # 0.1 * 0.05 / 10 is not
    True
    """
    return float(exact_fraction(alpha) * exact_fraction(gamma) / bins.divisor)


def make_bins(
    binning: Binning, n_bins: int, *, rho: float, score: IntArray, weight: SumArray
) -> Bins:
    """Make bins from the name of a method or from explicit edges; finished bins are
    returned unchanged.

    Only "quantile" uses `score` and `weight`.
    """
    if isinstance(binning, Bins):
        return binning
    if not isinstance(binning, str):
        return explicit(binning)
    check_choice("binning", binning, ("uniform", "geometric", "quantile"))
    check_number("n_bins", n_bins, at_least=1, at_most=MOST_BINS, whole=True)
    if binning == "uniform":
        return uniform(int(n_bins))
    if binning == "geometric":
        return geometric(int(n_bins), rho)
    return quantile(int(n_bins), score, weight)
