"""Chance: the largest statistic of a whole search if the score is right, from simulated data sets.

Up to a number of rows, outcomes are drawn from the score itself. Beyond it, sums are as good as normal: a
sample of the rows shows how boxes overlap, and residuals are drawn from a normal distribution. With repeat
visits, the residuals of each person are multiplied by one random number, so that they stay alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import Codes
from propcal.discovery.box_search import (
    MOST_PAIRED,
    STRONGEST,
    Candidate,
    Data,
    PairScan,
    Space,
    deepen,
    pair_table,
    scan,
    scan_table,
    strongest,
)
from propcal.discovery.people import People

MOST_ROWS = 12_288
BATCH = 32  # data sets counted at once
MARGIN = 1.6  # on p-values: a few dozen simulated searches know the tail only roughly
EULER = 0.5772156649015329


@dataclass(frozen=True, eq=False)
class ChanceMaximum:
    """What the largest statistics would be if the score were right.

    Attributes
    ----------
    centre, scale : arrays of shape (kinds, depth)
        Location and scale of each largest statistic (Gumbel).
    overall : tuple of float
        The same of the largest of these, each standardised.
    rows : array
        The rows that were used for the simulation.
    level, slope : arrays of shape (rows, draws)
        Simulated residuals, and those times the log-odds, of these rows.
    data : Data
        These rows, with the sums that all simulated data sets share.
    """

    centre: FloatArray
    scale: FloatArray
    overall: tuple[float, float]
    rows: IntArray
    level: Any
    slope: Any
    data: Data

    def p_value(self, candidate: Candidate) -> float:
        """The probability that the whole search finds as much as this if the score is right."""
        centre, scale = self.overall
        tail = -np.expm1(-np.exp(-(self.standardised(candidate) - centre) / scale))
        return float(min(MARGIN * tail, 1.0))

    def standardised(self, candidate: Candidate) -> float:
        """The statistic in comparison with the largest of its kind and depth by chance."""
        at = candidate.kind, candidate.depth - 1
        return float((np.sqrt(max(candidate.evidence, 0.0)) - self.centre[at]) / self.scale[at])

    def beyond(self, candidate: Candidate) -> float:
        """By how much the statistic exceeds the typical largest one of its kind and depth by chance.

        It ranks what is significant. The standardised statistic would not do: its scale is known roughly, and
        far out a tenth more or less decides between boxes of different kinds.
        """
        at = candidate.kind, candidate.depth - 1
        return float(np.sqrt(max(candidate.evidence, 0.0)) - self.centre[at])

    def limit(self, level: float, kind: int, depth: int) -> float:
        """The smallest statistic that is significant."""
        centre, scale = self.overall
        beyond = centre - scale * np.log(-np.log1p(-min(level / MARGIN, 0.999)))
        return float(self.centre[kind, depth - 1] + beyond * self.scale[kind, depth - 1])


def simulate_searches(
    space: Space,
    codes: Codes,
    people: People,
    smallest: float,
    *,
    depth: int,
    n_draws: int,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> ChanceMaximum:
    """Search simulated data sets for which the score is right."""
    rows = _chosen_rows(people, rng)
    exact = len(rows) == len(people) and people.cluster is None
    own = codes if len(rows) == len(people) else np.ascontiguousarray(codes[:, rows])
    sums = people.sums(rows)
    data = Data(space, own, space.coarse(own), sums, smallest * float(sums[:, 1].sum()) / people.information)
    level = _residuals(people, rows, n_draws, rng, exact=exact)
    slope = level * people.x[rows].astype(np.float32)[:, None]
    table_found = np.zeros((n_draws, kernels.N_KINDS, depth))
    for begin in range(0, n_draws, BATCH):
        some = slice(begin, min(begin + BATCH, n_draws))
        scans = _scans(data, level[:, some], slope[:, some], skewed=exact)
        for draw in range(some.stop - begin):
            progress((begin + draw) / n_draws)
            sums[:, kernels.RESIDUAL] = level[:, begin + draw]
            sums[:, kernels.SLOPED] = slope[:, begin + draw]
            found = scans if scans is not None else narrow_scan(data)
            candidates = deepen(data, found, draw=draw if scans is not None else 0, depth=depth)
            table_found[begin + draw] = strongest(candidates, depth)
    centre, scale = _gumbel(table_found)
    standardised = ((table_found - centre) / scale).max(axis=(1, 2))
    overall = tuple(float(part) for part in _gumbel(standardised))
    return ChanceMaximum(centre, scale, (overall[0], overall[1]), rows, level, slope, data)


def _chosen_rows(people: People, rng: np.random.Generator) -> IntArray:
    """All rows, or a random part of them; all rows of a person are in it or none."""
    n = len(people)
    if n <= MOST_ROWS:
        return np.arange(n, dtype=np.int64)
    if people.cluster is None:
        return np.sort(rng.choice(n, MOST_ROWS, replace=False))
    n_persons = int(people.cluster.max()) + 1
    chosen = rng.random(n_persons) < MOST_ROWS / n
    return np.flatnonzero(chosen[people.cluster])


def _residuals(people: People, rows: IntArray, n_draws: int, rng: np.random.Generator, *, exact: bool) -> Any:
    """Residuals of simulated data sets, in columns."""
    p, w = people.score[rows], people.weight[rows]
    shape = (len(rows), n_draws)
    if people.cluster is not None:
        _, person = np.unique(people.cluster[rows], return_inverse=True)
        drawn = rng.standard_normal((int(person.max()) + 1, n_draws), dtype=np.float32)
        own = (w * (people.outcome[rows] - p)).astype(np.float32)
        return drawn[person] * own[:, None]
    unit = w if people.survey else np.sqrt(w)
    if exact:
        events = rng.random(shape, dtype=np.float32) < p[:, None]
        return ((events - p[:, None]) * unit[:, None]).astype(np.float32)
    spread = (np.sqrt(p * (1 - p)) * unit).astype(np.float32)
    return rng.standard_normal(shape, dtype=np.float32) * spread[:, None]


def _scans(data: Data, level: Any, slope: Any, *, skewed: bool) -> PairScan | None:
    """The pairs of several data sets; None if there are too many features for all pairs."""
    if len(data.space.features) > MOST_PAIRED:
        return None
    pairs = data.space.pairs()
    drawn = np.ascontiguousarray(np.concatenate([level, slope], axis=1))
    table = np.zeros((pairs.n_cells, drawn.shape[1]), dtype=np.float32)
    kernels.add_draws(data.coarse, drawn, *pairs.arrays, table)
    own = pair_table(data, pairs)
    moments = np.ascontiguousarray(own[:, [1, 3, 4, 5]])
    return scan(data.space, pairs, table, moments, data.smallest, skewed=skewed)


def narrow_scan(data: Data) -> PairScan:
    """Single conditions of all features, and pairs of the strongest of them."""
    n = len(data.space.features)
    if n <= MOST_PAIRED:
        pairs = data.space.pairs()
        return scan_table(data, pairs, pair_table(data, pairs))
    singles = data.space.pairs(())
    best = scan_table(data, singles, pair_table(data, singles)).best[:, :, 0].max(axis=1)
    pairs = data.space.pairs(np.argsort(-best)[:STRONGEST].tolist())
    return scan_table(data, pairs, pair_table(data, pairs))


def _gumbel(largest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Location and scale of maxima, by moments, along the first axis."""
    scale = np.maximum(largest.std(axis=0, ddof=1) * np.sqrt(6) / np.pi, 0.02)
    return np.asarray(largest.mean(axis=0) - EULER * scale), np.asarray(scale)
