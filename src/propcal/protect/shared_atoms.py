"""Atoms that may be shared: every cell has at least 11 people with the outcome and 11
without it.

Neighbouring scores of a pattern are merged into cells, each at its mean score, rounded.
If a cell has few different scores, its mean is coarse, because the exact one would tell
how many people have each score. Patterns that are too small even as one cell have a
rare level folded into "other levels", for everybody. The same people always give the
same cells, in whatever order their rows come. Only whole cells leave: no counts of
people left out, no patient IDs, no number that is exact for a single person. With
repeat visits, different people are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import log
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

EDGES = uniform(
    10
)  # cells are kept within these ranges of scores, where they are large enough
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
    either = atoms.positives, atoms.people - atoms.positives
    return all(len(counts) > 0 and int(counts.min()) >= fewest for counts in either)


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
            either = np.array([bare.positives, bare.weight - bare.positives])
            if (
                0 < atoms.weighted_rows < atoms.n_people
            ):  # a row that counts several times may be one person
                either = np.minimum(either, 1)
            return cls(bare, either.T.tolist(), add, int)
        patients = atoms.patterns.table[
            atoms.pattern_index(), atoms.patterns.attributes.index(CLUSTER)
        ]
        _, code = fewer_attributes(atoms, names)
        place = np.searchsorted(
            bare.pattern_index().astype(np.int64) * (2 * UNIT) + bare.score,
            code.astype(np.int64) * (2 * UNIT) + atoms.score,
        )
        behind = [[0, 0] for _ in range(len(bare))]
        for outcome, column in enumerate(
            (atoms.positives, atoms.weight - atoms.positives)
        ):
            for i in np.flatnonzero(column > 0).tolist():
                behind[place[i]][outcome] |= 1 << int(patients[i])
        return cls(bare, behind, or_, int.bit_count)

    def joined(self, people: Sequence[int], i: int) -> list[int]:
        """These people, and those of an atom."""
        return [*map(self.join, people, self.behind[i])]

    def fewer(self, people: Sequence[int]) -> int:
        """People with the outcome or without it, whichever are fewer."""
        return min(map(self.size, people))

    def of_patterns(self) -> Any:
        """Different people with the outcome or without it, whichever are fewer, of each
        pattern.
        """
        runs = pairwise(self.atoms.starts.tolist())
        return np.array(
            [self.fewer(reduce(self.joined, range(*run), [0, 0])) for run in runs]
        )


def share_atoms(
    atoms: Atoms, fewest: int = FEWEST_SHOWN
) -> tuple[Atoms, dict[str, list[str]]]:
    """Atoms that may be shared, and the levels that were folded (which the file itself
    does not name).
    """
    check_number("fewest", fewest, at_least=2, at_most=1_000_000, whole=True)
    if not atoms.frequencies or atoms.soft:
        if atoms.frequencies:
            what = "outcomes are soft labels"
        else:
            what = "there are survey weights"
        raise refused("atoms not shared safely", what=what)
    own = [
        a
        for a in atoms.patterns.attributes
        if a not in (PERIOD, SHARE) and not a.startswith(BESIDE)
    ]
    people, folded = _folded(with_attributes(atoms, own), fewest)
    cells = _cells(people, fewest)
    name = cells.fingerprint().removeprefix("sha256:")[:12]
    about = Shared(
        fewest, {attribute: len(levels) for attribute, levels in folded.items()}
    )
    return replace(stack({name: cells}, SHARE), shared=about), folded


def _folded(atoms: Atoms, least: int) -> tuple[_People, dict[str, list[str]]]:
    """Fold rare levels until every pattern has enough people with the outcome, and
    without it.
    """
    folded: dict[str, list[str]] = {}
    while True:
        people = _People.of(atoms)
        number = people.of_patterns()
        small = np.flatnonzero(number < least)
        if not len(small):
            return people, folded
        pattern = int(small[np.lexsort((small, number[small]))[0]])
        choice = _cheapest(people.atoms, pattern)
        if choice is None:
            raise refused(
                "too few to share", at_site=_at_site(people.atoms, pattern), least=least
            )
        name, levels = choice
        folded.setdefault(name, []).extend(
            str(x) if x is not None else "missing" for x in levels if x != OTHER
        )
        rare = {(name, level) for level in levels}
        atoms = relevelled(
            atoms, lambda *level, rare=rare: OTHER if level in rare else level[1]
        )


def _at_site(atoms: Atoms, pattern: int) -> str:
    """The site of a pattern in words, if there are several."""
    names = atoms.patterns.attributes
    if SITE not in names or len(atoms.patterns.levels[names.index(SITE)]) < 2:
        return ""
    return f" at site {atoms.patterns.key(pattern)[names.index(SITE)]!r}"


def _cheapest(atoms: Atoms, pattern: int) -> tuple[str, list[Any]] | None:
    """The attribute, and its levels to be folded, by which the least information is
    lost.
    """
    best: tuple[tuple[float, int], str, list[Any]] | None = None
    patterns = atoms.patterns
    people = atoms.pattern_sums(atoms.people)
    for a, name in enumerate(patterns.attributes):
        levels = patterns.levels[a]
        if name.startswith(KEY) or len(levels) < 2:
            continue
        size = np.bincount(patterns.table[:, a], weights=people, minlength=len(levels))
        own = int(patterns.table[pattern, a])
        other = levels.index(OTHER) if OTHER in levels else None
        together = [own, *([other] if other not in (None, own) else [])]
        if (
            len(together) == 1
        ):  # nothing was folded before: the smallest other level is, too
            together.append(
                next(i for i in np.argsort(size, kind="stable").tolist() if i != own)
            )
        joined = sorted(float(size[i]) for i in together)
        cost = sum(n * log(sum(joined) / n) for n in joined if n), a
        if best is None or cost < best[0]:
            best = cost, name, [levels[i] for i in together if i != other]
    return None if best is None else (best[1], best[2])


def _cells(who: _People, least: int) -> Atoms:
    """Merge neighbouring scores of each pattern."""
    atoms = who.atoms
    cell = np.empty(len(atoms), dtype=np.int64)
    few = np.empty(len(atoms), dtype=bool)
    bin_of = EDGES.index(atoms.score)
    n = 0
    for low, high in pairwise(atoms.starts.tolist()):
        cell[low:high] = n + _merged(who, low, high, bin_of, least)
        few[low:high] = _few_scores(atoms.people[low:high])
        n = int(cell[high - 1]) + 1
    people: Any = np.bincount(cell, weights=atoms.people).astype(np.int64)
    positives: Any = np.bincount(cell, weights=atoms.positives).astype(np.int64)
    starts = np.searchsorted(cell, np.arange(n + 1))
    coarse = few[starts[:-1]] & (np.diff(starts) > 1) & (np.diff(starts) < FEW)
    counted = atoms.people.astype(np.float64)
    for c in np.flatnonzero(coarse).tolist():
        counted[starts[c] : starts[c + 1]] = _coarse(
            atoms.people[starts[c] : starts[c + 1]]
        )
    weighted: Any = np.bincount(cell, weights=counted * from_grid(atoms.score))
    score = (
        significant(np.rint(weighted / people * UNIT).astype(np.int64), SCORE_BITS)
        + coarse
    )
    pattern = atoms.pattern_index()[starts[:-1]]
    return atoms_of_sums(
        atoms.patterns, pattern, score, sums_of_counts(people, positives)
    )


def _merged(
    who: _People, low: int, high: int, bin_of: IntArray, least: int
) -> IntArray:
    """The number of each score's cell, of one pattern; a cell ends where it is large
    enough.

    What is left over in a range of scores joins the cell before it if that is in the
    same range; otherwise it begins the next cell. What is left over at the very end
    joins the last cell.
    """
    cells: list[
        list[int]
    ] = []  # first and last score, and range of the last, of finished cells
    first = low
    last = high - 1
    there = [0, 0]
    for i in range(low, high):
        there = who.joined(there, i)
        end_of_bin = i == last or bin_of[i + 1] != bin_of[i]
        if who.fewer(there) >= least:
            cells.append([first, i, int(bin_of[i])])
        elif (
            end_of_bin
            and cells
            and (cells[-1][2] == bin_of[i] or i == last)
            and first <= i
        ):
            cells[-1][1] = i
        else:
            continue
        first = i + 1
        there = [0, 0]
    assert cells, "a pattern has enough people"
    if len(cells) > 1 and _few_scores(who.atoms.people[low:high]):
        begin, end, _ = cells[-1]
        if _tells_rest(
            who.atoms.people[begin : end + 1], bin_of[begin - 1 : end + 1], least
        ):
            cells[-2:] = [[cells[-2][0], end, 0]]
    ends = [end for _, end, _ in cells]
    return np.searchsorted(ends, np.arange(low, high))


def _few_scores(people: IntArray) -> bool:
    """Whether a pattern has few different scores: at least 1.5 people for each, on
    average.

    Continuous scores have that as well if many were cut off at one value, but then the
    others differ.
    """
    if len(people) > CUT_OFF and 5 * int(np.sum(people > 1)) < len(people):
        return False
    return 2 * int(people.sum()) >= 3 * len(people)


def _tells_rest(people: IntArray, bin_of: IntArray, least: int) -> bool:
    """Whether the size of the last cell tells how many people were left over at the
    very end.

    It does if the cell must have been filled in the range in which it begins, because
    the cell before it (the first of `bin_of`) ends there as well, and if it has hardly
    more people than that takes.
    """
    hardly = int(people.sum()) - len(people) < 2 * least + BLOCK
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
    n = max(total // BLOCK, 1)
    block = np.minimum(ends * n // max(total, 1), n - 1)
    low, high = block * total / n, (block + 1) * total / n
    if n > 1:
        high[block == 0] = BLOCK // 2
        low[block == n - 1] = total - BLOCK // 2
    first, last = (
        np.searchsorted(block, block, side=side) for side in ("left", "right")
    )
    spread = low + (high - low) * (np.arange(len(block)) - first + 1) / (
        last - first + 1
    )
    return np.asarray(1 + np.diff(spread, prepend=0, append=total))
