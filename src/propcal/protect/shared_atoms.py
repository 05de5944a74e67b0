"""Atoms that may be shared: every cell has at least 11 people of either outcome.

Neighbouring scores of a pattern are merged into cells, each at its mean score, rounded.
If a cell has few different scores, its mean is coarse, because the exact one would
reveal how many people have each score. Patterns that are too small even as one cell
have a rare level folded into "other levels", for everybody. The same people always give
the same cells, in whatever order their rows come. Only whole cells leave: no counts of
people left out, no patient IDs, no number that is exact for a single person. With
repeat visits, different people are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import inf, log
from operator import add, or_
from typing import Any

import numpy as np

from propcal.core.arguments import FEWEST_SHOWN, check_number
from propcal.core.atoms import Atoms, Shared
from propcal.core.bins import uniform
from propcal.core.grid import UNIT, FloatArray, IntArray, from_grid, significant
from propcal.core.loss_bounds import BLOCK, FEW, SCORE_BITS
from propcal.core.patterns import BESIDE, CLUSTER, KEY, OTHER, PERIOD, SHARE, SITE
from propcal.core.reduction import (
    atoms_of_sums,
    fewer_attributes,
    relevelled,
    stack,
    sums_of_counts,
    with_attributes,
)
from propcal.errors import refused

# cells are kept within these ranges of scores, where they are large enough
EDGES = uniform(10)
MAX_FEWEST = 1_000_000
NAME_DIGITS = 12  # of a fingerprint
# with more different scores, nearly all of one person, scores are continuous and were
# cut off
CUT_OFF = 12


def are_shared(atoms: Atoms | None, fewest: int) -> bool:
    """Whether these are shared atoms whose every cell has that many people with the
    outcome and without it.

    Everything that is computed from them may then be shown: anyone who has the file
    could compute it.
    """
    if atoms is None or atoms.shared is None or atoms.shared.fewest < fewest:
        return False
    if not len(atoms):
        return False
    others = atoms.people - atoms.positives
    with_and_without = np.array([atoms.positives, others])
    return bool(with_and_without.min() >= fewest)


@dataclass(frozen=True, eq=False)
class _People:
    """Atoms to be shared, and the different people behind each of them, with the
    outcome and without it.

    `behind` has two whole numbers for each atom: of people or, if there are repeat
    visits, with a bit for each patient. Those of several atoms are joined in one
    number, of which `size` gives the people.
    """

    atoms: Atoms
    behind: list[list[int]]
    join: Callable[[int, int], int]
    size: Callable[[int], int]

    @classmethod
    def of(cls, atoms: Atoms) -> _People:
        """Count them; atoms may have clusters, which are left behind."""
        names = [name for name in atoms.patterns.attributes if name != CLUSTER]
        bare = with_attributes(atoms, names)
        if CLUSTER not in atoms.patterns.attributes:
            others_of_bare = bare.weight - bare.positives
            people = np.array([bare.positives, others_of_bare])
            if 0 < atoms.weighted_rows < atoms.n_people:
                # a row that counts several times may be one person
                people = np.minimum(people, 1)
            return cls(bare, people.T.tolist(), add, int)

        column = atoms.patterns.attributes.index(CLUSTER)
        patients = atoms.patterns.table[atoms.pattern_index(), column].tolist()
        _, code = fewer_attributes(atoms, names)
        own_keys = _sort_keys(bare.pattern_index(), bare.score)
        keys = _sort_keys(code, atoms.score)
        place = np.searchsorted(own_keys, keys).tolist()
        behind = [[0, 0] for _ in range(len(bare))]
        others = atoms.weight - atoms.positives
        of_outcomes = atoms.positives, others
        for outcome, weight in enumerate(of_outcomes):
            for i in np.flatnonzero(weight > 0).tolist():
                behind[place[i]][outcome] |= 1 << patients[i]
        return cls(bare, behind, or_, int.bit_count)

    def joined(self, people: Sequence[int], i: int) -> list[int]:
        """These people, and those of an atom."""
        own_people = self.behind[i]
        return [*map(self.join, people, own_people)]

    def fewer(self, people: Sequence[int]) -> int:
        """People with the outcome or without it, whichever are fewer."""
        return min(map(self.size, people))

    def of_patterns(self) -> Any:
        """Different people with the outcome or without it, whichever are fewer, of each
        pattern.
        """
        numbers = []
        for low, high in pairwise(self.atoms.starts.tolist()):
            people = reduce(self.joined, range(low, high), [0, 0])
            numbers.append(self.fewer(people))
        return np.array(numbers)


def _sort_keys(pattern: IntArray, score: IntArray) -> IntArray:
    """Numbers that put atoms in order, by pattern and then by score."""
    first_key = pattern.astype(np.int64) * (2 * UNIT)
    return np.asarray(first_key + score)


def share_atoms(
    atoms: Atoms, fewest: int = FEWEST_SHOWN
) -> tuple[Atoms, dict[str, list[str]]]:
    """Atoms that may be shared, and the levels that were folded (which the file itself
    does not name).
    """
    check_number("fewest", fewest, at_least=2, at_most=MAX_FEWEST, whole=True)
    if not atoms.frequencies:
        raise refused("atoms not shared safely", what="there are survey weights")
    if atoms.soft:
        raise refused("atoms not shared safely", what="outcomes are soft labels")
    names = [
        name
        for name in atoms.patterns.attributes
        if name not in (PERIOD, SHARE) and not name.startswith(BESIDE)
    ]
    kept = with_attributes(atoms, names)
    people, folded = _folded(kept, fewest)
    cells = _cells(people, fewest)
    fingerprint = cells.fingerprint().removeprefix("sha256:")
    share = fingerprint[:NAME_DIGITS]
    n_folded = {name: len(levels) for name, levels in folded.items()}
    shared = Shared(fewest, n_folded)
    stacked = stack({share: cells}, SHARE)
    return replace(stacked, shared=shared), folded


def _folded(atoms: Atoms, least: int) -> tuple[_People, dict[str, list[str]]]:
    """Fold rare levels until every pattern has enough people with the outcome, and
    without it.
    """
    folded: dict[str, list[str]] = {}
    while True:
        people = _People.of(atoms)
        number = people.of_patterns()
        if not (number < least).any():
            return people, folded
        smallest = int(np.argmin(number))
        choice = _cheapest(people.atoms, smallest)
        if choice is None:
            at_site = _at_site(people.atoms, smallest)
            raise refused("too few to share", at_site=at_site, least=least)
        name, levels = choice
        for level in levels:
            if level != OTHER:
                in_words = "missing" if level is None else str(level)
                folded.setdefault(name, []).append(in_words)
        rare = {(name, level) for level in levels}
        atoms = relevelled(
            atoms, lambda *level, rare=rare: OTHER if level in rare else level[1]
        )


def _at_site(atoms: Atoms, pattern: int) -> str:
    """The site of a pattern in words, if there are several."""
    patterns = atoms.patterns
    if SITE not in patterns.attributes:
        return ""
    column = patterns.attributes.index(SITE)
    if len(patterns.levels[column]) < 2:
        return ""
    return f" at site {patterns.key(pattern)[column]!r}"


def _cheapest(atoms: Atoms, pattern: int) -> tuple[str, list[Any]] | None:
    """The attribute, and its levels to be folded, by which the least information is
    lost.
    """
    choice = None
    lowest_cost = inf
    patterns = atoms.patterns
    people = atoms.pattern_sums(atoms.people)
    for a, name in enumerate(patterns.attributes):
        levels = patterns.levels[a]
        if name.startswith(KEY) or len(levels) < 2:
            continue
        level_of = patterns.table[:, a]
        size = np.bincount(level_of, weights=people, minlength=len(levels))
        own = int(level_of[pattern])
        by_size = np.argsort(size, kind="stable").tolist()
        if OTHER in levels and levels.index(OTHER) != own:
            joined = levels.index(OTHER)
        else:  # nothing was folded before: the smallest other level is, too
            joined = next(i for i in by_size if i != own)
        cost = _information_lost(float(size[own]), float(size[joined]))
        if cost < lowest_cost:
            lowest_cost = cost
            own_and_joined = (own, joined)
            choice = name, [levels[i] for i in own_and_joined if levels[i] != OTHER]
    return choice


def _information_lost(own: float, joined: float) -> float:
    """By joining two levels of so many people."""
    sizes = sorted((own, joined))
    return sum(size * log(sum(sizes) / size) for size in sizes if size)


def _cells(who: _People, least: int) -> Atoms:
    """Merge neighbouring scores of each pattern."""
    atoms = who.atoms
    cell = np.empty(len(atoms), dtype=np.int64)
    few = np.empty(len(atoms), dtype=bool)
    bin_of = EDGES.index(atoms.score)
    n_cells = 0
    for low, high in pairwise(atoms.starts.tolist()):
        cell_in_pattern = _merged(who, low, high, bin_of, least)
        cell[low:high] = n_cells + cell_in_pattern
        few[low:high] = _few_scores(atoms.people[low:high])
        n_cells = int(cell[high - 1]) + 1
    weighted_people = np.bincount(cell, weights=atoms.people)
    people: Any = weighted_people.astype(np.int64)
    weighted_positives = np.bincount(cell, weights=atoms.positives)
    positives: Any = weighted_positives.astype(np.int64)

    all_cells = np.arange(n_cells + 1)
    starts = np.searchsorted(cell, all_cells)
    n_scores = np.diff(starts)
    first_atoms = starts[:-1]
    coarse = few[first_atoms] & (n_scores > 1) & (n_scores < FEW)
    counted = atoms.people.astype(np.float64)
    for c in np.flatnonzero(coarse).tolist():
        own = slice(starts[c], starts[c + 1])
        counted[own] = _coarse(atoms.people[own])
    score_sums = counted * from_grid(atoms.score)
    weighted: Any = np.bincount(cell, weights=score_sums)
    mean_score = weighted / people
    mean = np.rint(mean_score * UNIT).astype(np.int64)
    score = significant(mean, SCORE_BITS) + coarse
    pattern = atoms.pattern_index()[first_atoms]
    sums = sums_of_counts(people, positives)
    return atoms_of_sums(atoms.patterns, pattern, score, sums)


def _merged(
    who: _People, low: int, high: int, bin_of: IntArray, least: int
) -> IntArray:
    """The number of each score's cell, of one pattern; a cell ends where it is large
    enough.

    What is left over in a range of scores joins the cell before it if that is in the
    same range; otherwise it begins the next cell. What is left over at the very end
    joins the last cell.
    """
    starts: list[int] = []  # first and last score of finished cells
    ends: list[int] = []
    ranges: list[int] = []  # in which they were large enough
    first = low
    last = high - 1
    waiting = [0, 0]  # people in no finished cell
    for i in range(low, high):
        waiting = who.joined(waiting, i)
        bin_index = int(bin_of[i])
        end_of_range = i == last or bin_of[i + 1] != bin_index
        if who.fewer(waiting) >= least:
            starts.append(first)
            ends.append(i)
            ranges.append(bin_index)
        elif end_of_range and ends and (ranges[-1] == bin_index or i == last):
            ends[-1] = i
        else:
            continue
        first = i + 1
        waiting = [0, 0]
    assert ends, "a pattern has enough people"

    if len(ends) > 1 and _few_scores(who.atoms.people[low:high]):
        people = who.atoms.people[starts[-1] : ends[-1] + 1]
        bins = bin_of[starts[-1] - 1 : ends[-1] + 1]
        if _reveals_rest(people, bins, least):
            del ends[-2]
    return np.searchsorted(ends, np.arange(low, high))


def _few_scores(people: IntArray) -> bool:
    """Whether a pattern has few different scores: at least 1.5 people for each, on
    average.

    Continuous scores have that as well if many were cut off at one value, but then the
    others differ.
    """
    n_repeated = int(np.sum(people > 1))
    if len(people) > CUT_OFF and 5 * n_repeated < len(people):
        return False
    return 2 * int(people.sum()) >= 3 * len(people)


def _reveals_rest(people: IntArray, bin_of: IntArray, least: int) -> bool:
    """Whether the size of the last cell reveals how many people were left over at the
    very end.

    It does if the cell must have been filled in the range in which it begins, because
    the cell before it (the first of `bin_of`) ends there as well, and if it has hardly
    more people than that takes.
    """
    n_others = int(people.sum()) - len(people)
    hardly = n_others < 2 * least + BLOCK
    return hardly and bool(bin_of[0] == bin_of[1] != bin_of[-1])


def _coarse(people: IntArray) -> FloatArray:
    """How many people count at each score of a cell that has few different scores.

    One person is set aside at each score. The others, lined up by score, are cut into
    equal blocks of at least 16. Only the block in which a score ends is used: the ends
    in a block are spread evenly over it, and those in the first and the last block over
    its outer 8 people.

    >>> _coarse(np.array([561, 4])).tolist(), _coarse(np.array([555, 10])).tolist()
    ([560.0, 5.0], [560.0, 5.0])
    """
    ends = np.cumsum(people - 1)
    total = int(ends[-1])
    ends = ends[:-1]
    n_blocks = max(total // BLOCK, 1)
    block_of_end = ends * n_blocks // max(total, 1)
    block = np.minimum(block_of_end, n_blocks - 1)
    low = block * total / n_blocks
    high = (block + 1) * total / n_blocks
    if n_blocks > 1:
        high[block == 0] = BLOCK // 2
        low[block == n_blocks - 1] = total - BLOCK // 2
    first = np.searchsorted(block, block, side="left")
    last = np.searchsorted(block, block, side="right")
    place_in_all = np.arange(len(block))
    place = place_in_all - first + 1
    n_ends = last - first + 1
    spread = low + (high - low) * place / n_ends
    counts = np.diff(spread, prepend=0, append=total)
    return np.asarray(1 + counts)
