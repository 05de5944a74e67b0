"""MCBoost and PMCBoost (Algorithm 1): atoms -> correction."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from propcal.core import segments as kernel
from propcal.core.atoms import Atoms
from propcal.core.bins import Binning, Bins, make_bins
from propcal.core.categories import category_min_share
from propcal.core.correction import Correction
from propcal.core.grid import UNIT, IntArray, SumArray, check_choice, check_number
from propcal.core.groups import Collection, Groups, definition, membership
from propcal.core.reduction import without_clusters
from propcal.errors import InputError

logger = logging.getLogger("propcal")


@dataclass(frozen=True)
class Settings:
    """Parameters of a boosting run; see `propcal.PMCBoost` for what each means."""

    proportional: bool
    alpha: float = 0.05
    gamma: float = 0.05
    rho: float = 0.1
    n_bins: int = 10
    binning: Binning = "uniform"
    eta: float = 1.0
    intersections: Any = "all"
    max_updates: int = 100_000
    order: str = "cyclic"
    sample: str | None = None
    missing: str = "level"
    unseen: str = "replay"
    groups: Groups | None = None

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0, at_most=1)
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        check_number("eta", self.eta, above=0, at_most=2)
        check_number("max_updates", self.max_updates, at_least=0, whole=True)
        check_choice("order", self.order, ("cyclic", "random", "worst"))
        check_choice("sample", self.sample, (None, "bootstrap"))
        check_choice("unseen", self.unseen, ("replay", "keep", "error"))
        self.definition()  # checks its own arguments

    def definition(self) -> Groups:
        """How people are divided; the two short arguments are another way to say it."""
        return definition(self.groups, self.intersections, self.missing)

    @property
    def method(self) -> str:
        """Name of the algorithm."""
        return "PMCBoost" if self.proportional else "MCBoost"


@dataclass(frozen=True, eq=False)
class BoostResult:
    """What a boosting run gives: the correction, and how the run went."""

    correction: Correction
    collection: Collection
    n_sweeps: int
    converged: bool


class _Scores:
    """The current scores of all patterns as segments, with the sums of every bucket."""

    def __init__(self, atoms: Atoms, bins: Bins, collection: Collection) -> None:
        self.atoms, self.edges = atoms, bins.edges
        inside = membership(collection.groups, atoms.patterns)
        self.group_starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        self.members = np.ascontiguousarray(np.nonzero(inside)[1])
        self.total = float(atoms.weight.sum())
        self.running = running_sums(atoms.weight, atoms.outcome_units(), atoms.score)
        self.size: Any = np.empty(0, dtype=atoms.weight.dtype)  # empty: the sample is all
        shape = len(atoms.patterns), len(bins)
        self.heads = np.full(shape, kernel.NONE, dtype=np.int64)
        self.sums = np.zeros((*shape, kernel.N_SUMS), dtype=atoms.weight.dtype)
        self.table, self.count = kernel.start_segments(
            atoms.starts, self.edges, atoms.score, self.heads, self.sums, self.size, self.running
        )

    def resample(self, rng: np.random.Generator) -> None:
        """Draw the people anew, with replacement; the full data still decide which categories count."""
        if not len(self.size):
            self.size = self.running[0]
        weight, outcome = bootstrap(self.atoms, rng)
        self.running = running_sums(weight, outcome, self.atoms.score)
        kernel.fill_sums(self.table, self.heads, self.sums, self.size, self.running)

    def worst(self, rule: tuple[float, float, float]) -> int:
        """Category that exceeds its cutoff by the largest factor, or -1."""
        alpha, rho, min_share = rule
        return int(
            kernel.worst_category(
                self.group_starts,
                self.members,
                self.sums,
                len(self.edges) - 1,
                alpha,
                rho,
                self.total,
                min_share,
            )
        )

    def sweep(self, order: IntArray, rule: tuple[float, float, float], eta: float, most: int) -> IntArray:
        """Visit the categories once and return the updates made."""
        alpha, rho, min_share = rule
        self.table, self.count, updates = kernel.sweep(
            order,
            self.group_starts,
            self.members,
            self.table,
            self.count,
            self.heads,
            self.sums,
            self.edges,
            self.atoms.score,
            self.size,
            self.running,
            alpha,
            rho,
            eta,
            self.total,
            min_share,
            most,
        )
        return np.asarray(updates)


def running_sums(weight: SumArray, outcome: SumArray, score: IntArray) -> Any:
    """Sums of weight, outcome and score (in units) over all atoms before each one."""
    running = tuple(np.zeros(len(score) + 1, dtype=weight.dtype) for _ in range(3))
    np.cumsum(weight, out=running[0][1:])
    np.cumsum(outcome, out=running[1][1:])
    np.multiply(weight, score, out=running[2][1:])
    np.cumsum(running[2], out=running[2])  # in place: this is where a fit needs most memory
    return running


def bootstrap(atoms: Atoms, rng: np.random.Generator) -> tuple[SumArray, SumArray]:
    """Weights and outcomes (in units) of as many people, drawn with replacement.

    Where outcomes are 0/1 and weights whole, people with and without the outcome are drawn apart,
    which is the bootstrap of the rows. Otherwise each drawn person has the mean weight and outcome
    of the atom, which is the same as long as atoms are single people.
    """
    n = atoms.n_people
    if not atoms.soft:
        cells = np.concatenate([atoms.positives, atoms.people - atoms.positives])
        drawn = rng.multinomial(n, cells / n)
        positives, negatives = np.split(drawn, 2)
        return positives + negatives, positives * np.int64(UNIT)
    drawn = rng.multinomial(n, atoms.people / n)
    scale = drawn / atoms.people
    if atoms.frequencies:
        return drawn, np.rint(atoms.outcome_units() * scale).astype(np.int64)
    return atoms.weight * scale, atoms.outcome_units() * scale


def boost(atoms: Atoms, settings: Settings, rng: np.random.Generator) -> BoostResult:
    """Run Algorithm 1 on atoms until a sweep makes no update."""
    atoms = without_clusters(atoms)
    if not 0 < float(atoms.positives.sum()) < float(atoms.weight.sum()):
        every = "none" if float(atoms.positives.sum()) <= 0 else "all"
        raise InputError(
            f"outcome (y): {every} of the {atoms.n_people:,} people had it; "
            "both classes must occur for a score to be corrected"
        )
    bins = make_bins(
        settings.binning, settings.n_bins, rho=settings.rho, score=atoms.score, weight=atoms.weight
    )
    collection = atoms.collection(settings.definition(), gamma=settings.gamma)
    _say_if_compiling()
    scores = _Scores(atoms, bins, collection)
    batches, converged = _sweeps(scores, settings, bins, len(collection), rng)
    updates = np.concatenate([np.empty((0, 3), dtype=np.int64), *batches])
    correction = Correction(
        patterns=atoms.patterns,
        groups=collection.groups,
        bins=bins,
        updates=updates,
        unseen=settings.unseen,
        about=_about(settings, atoms),
    )
    return BoostResult(correction, collection, len(batches), converged)


def _sweeps(
    scores: _Scores, settings: Settings, bins: Bins, n_groups: int, rng: np.random.Generator
) -> tuple[list[IntArray], bool]:
    """Sweep until nothing changes or `max_updates` is reached; the updates of each sweep."""
    rho = settings.rho * UNIT if settings.proportional else -1.0
    rule = float(settings.alpha), rho, category_min_share(settings.alpha, settings.gamma, bins)
    batches: list[IntArray] = []
    left = int(settings.max_updates)
    for order in _orders(scores, settings, n_groups * len(bins), rule, rng):
        if left == 0:
            return batches, scores.worst(rule) < 0
        updates = scores.sweep(order, rule, float(settings.eta), left)
        batches.append(updates)
        left -= len(updates)
        if not len(updates):
            smallest = settings.eta * settings.alpha * (rho if settings.proportional else UNIT)
            # a step that rounds to nothing is no update, and no proof either
            return batches, smallest >= 1 or scores.worst(rule) < 0
    raise AssertionError("unreachable: the orders never end")


def _orders(
    scores: _Scores,
    settings: Settings,
    n_categories: int,
    rule: tuple[float, float, float],
    rng: np.random.Generator,
) -> Iterator[IntArray]:
    """The categories that each sweep visits, in order; the sample is redrawn where asked for."""
    everything = np.arange(n_categories)
    while True:
        if settings.sample == "bootstrap":
            scores.resample(rng)
        if settings.order == "cyclic":
            yield everything
        elif settings.order == "random":
            yield rng.permutation(n_categories)
        else:
            worst = scores.worst(rule)
            yield np.array([worst] if worst >= 0 else [], dtype=np.int64)


def _about(settings: Settings, atoms: Atoms) -> dict[str, Any]:
    """What a reader of the correction should know of its making; no counts, no rows."""
    binning = settings.binning if isinstance(settings.binning, str) else "explicit"
    return {
        "method": settings.method,
        "alpha": float(settings.alpha),
        "gamma": float(settings.gamma),
        "rho": float(settings.rho),
        "eta": float(settings.eta),
        "binning": binning,
        "intersections": _plain(settings.definition().intersections),
        "order": settings.order,
        "sample": settings.sample,
        "missing": settings.definition().missing,
        "fingerprint": atoms.fingerprint(),
    }


def _plain(intersections: Any) -> Any:
    """As JSON has it."""
    return (
        intersections if isinstance(intersections, (str, int)) else [list(names) for names in intersections]
    )


@cache
def _say_if_compiling() -> None:
    """Say once that the first fit on a machine takes longer, so that nobody thinks it hangs."""
    folder = kernel.sweep.stats.cache_path
    source = Path(kernel.__file__)
    written = [f.stat().st_mtime for f in Path(folder).glob("segments.sweep-*.nbi")] if folder else []
    if not written or max(written) < source.stat().st_mtime:
        logger.warning(
            "propcal compiles its kernel, once for this machine; this takes some five to ten seconds"
        )
