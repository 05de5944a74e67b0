"""Atoms that may be shared: every cell has at least 11 people with the outcome and 11 without it.

Neighbouring scores of a pattern are merged into cells, each at its mean score, rounded. Patterns that are
too small even as one cell have a rare level folded into "other levels", for everybody. The same people always
give the same cells, in whatever order their rows come. Only whole cells leave: no counts of people left out,
no patient IDs, no number that is exact for a single person. With repeat visits, different people are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import uniform
from propcal.core.grid import UNIT, IntArray, check_number, from_grid
from propcal.core.keys import keyed
from propcal.core.patterns import BESIDE, KEY, OTHER, PERIOD, SHARE, SITE, patterns_of, sort_levels
from propcal.core.reduction import CLUSTER, atoms_of_sums, fewer_attributes, sums_of_counts, with_attributes
from propcal.core.significant import significant
from propcal.errors import InputError

FEWEST = 11
SCORE_BITS = 10  # binary digits of a cell's mean score
EDGES = uniform(10)  # cells are kept within these ranges of scores, where they are large enough


@dataclass(frozen=True)
class Shared:
    """What was merged.

    Attributes
    ----------
    fewest : int
        The fewest people with the outcome, and without it, in any cell.
    folded : dict
        For each attribute with rare levels, how many of them were folded into "other levels".
    """

    fewest: int = FEWEST
    folded: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Shared) -> Shared:
        names = dict.fromkeys([*self.folded, *other.folded])
        folded = {name: max(self.folded.get(name, 0), other.folded.get(name, 0)) for name in names}
        return Shared(min(self.fewest, other.fewest), folded)

    def to_json(self) -> dict[str, Any]:
        """As it is written in the file."""
        return {"fewest": self.fewest, "folded": dict(self.folded)}


def are_shared(atoms: Atoms | None, fewest: int) -> bool:
    """Whether these are shared atoms whose every cell has that many people with the outcome and without it.

    Everything that is computed from them may then be shown: anyone who has the file could compute it.
    """
    if atoms is None or atoms.shared is None or atoms.shared.fewest < fewest:
        return False
    either = atoms.positives, atoms.people - atoms.positives
    return all(len(counts) > 0 and int(counts.min()) >= fewest for counts in either)


def score_ranges(atoms: Atoms) -> tuple[IntArray, IntArray]:
    """Between which scores the people of each shared cell are, in units.

    Cells of one pattern do not overlap, so that its people lie between the means of its neighbours. Patterns
    of different files are kept apart by the key of the share.
    """
    first, last = atoms.starts[:-1], atoms.starts[1:] - 1
    low, high = np.empty_like(atoms.score), np.empty_like(atoms.score)
    low[1:], high[:-1] = atoms.score[:-1], atoms.score[1:]
    low[first], high[last] = 0, UNIT
    slack = (np.minimum(atoms.score, UNIT - atoms.score) >> (SCORE_BITS - 1)) + 1  # means are rounded
    return np.maximum(low - slack, 0), np.minimum(high + slack, UNIT)


@dataclass(frozen=True, eq=False)
class _People:
    """Atoms to be shared, and the different people behind each of them, with the outcome and without it.

    `number` has, for either outcome, whole numbers of people, one for each atom; `clusters` has sets of
    patients in place of them if there are repeat visits.
    """

    atoms: Atoms
    number: tuple[list[int], list[int]]
    clusters: tuple[list[set[int]], list[set[int]]] | None

    @classmethod
    def of(cls, atoms: Atoms) -> _People:
        """Count them; atoms may have clusters, which are left behind."""
        names = [name for name in atoms.patterns.attributes if name != CLUSTER]
        bare = with_attributes(atoms, names)
        either = atoms.positives, atoms.weight - atoms.positives
        if CLUSTER in atoms.patterns.attributes:
            own = atoms.patterns.table[
                atoms.pattern_index(), atoms.patterns.attributes.index(CLUSTER)
            ].tolist()
            _, code = fewer_attributes(atoms, names)
            place = np.searchsorted(
                bare.pattern_index().astype(np.int64) * (2 * UNIT) + bare.score,
                code.astype(np.int64) * (2 * UNIT) + atoms.score,
            )
            sets: tuple[list[set[int]], list[set[int]]] = (
                [set() for _ in range(len(bare))],
                [set() for _ in range(len(bare))],
            )
            for found, column in zip(sets, either):
                for i in np.flatnonzero(column > 0).tolist():
                    found[place[i]].add(own[i])
            return cls(bare, ([], []), sets)
        positives, negatives = bare.positives, bare.weight - bare.positives
        if 0 < atoms.weighted_rows < atoms.n_people:  # a row that counts several times may be one person
            positives, negatives = np.minimum(positives, 1), np.minimum(negatives, 1)
        return cls(bare, (positives.tolist(), negatives.tolist()), None)

    def between(self, outcome: int, begin: int, end: int) -> int:
        """How many different people are in a run of atoms."""
        if self.clusters is not None:
            return len(set().union(*self.clusters[outcome][begin:end]))
        return int(sum(self.number[outcome][begin:end]))

    def of_patterns(self) -> Any:
        """Different people with the outcome or without it, whichever are fewer, of each pattern."""
        runs = list(pairwise(self.atoms.starts.tolist()))
        return np.array([min(self.between(outcome, *run) for outcome in (0, 1)) for run in runs])


def share_atoms(atoms: Atoms, fewest: int = FEWEST) -> tuple[Atoms, dict[str, list[str]]]:
    """Atoms that may be shared, and the levels that were folded (which the file itself does not name)."""
    check_number("fewest", fewest, at_least=2, at_most=1_000_000, whole=True)
    if not atoms.frequencies or atoms.soft:
        what = "outcomes are soft labels" if atoms.frequencies else "there are survey weights"
        raise InputError(
            f"atoms cannot be shared safely if {what}: single people could be told from the sums"
        )
    own = [a for a in atoms.patterns.attributes if a not in (PERIOD, SHARE) and not a.startswith(BESIDE)]
    people, folded = _folded(with_attributes(atoms, own), fewest)
    cells = _cells(people, fewest)
    name = cells.fingerprint().removeprefix("sha256:")[:12]
    about = Shared(fewest, {attribute: len(levels) for attribute, levels in folded.items()})
    return replace(keyed({name: cells}, SHARE), shared=about), folded


def _folded(atoms: Atoms, least: int) -> tuple[_People, dict[str, list[str]]]:
    """Fold rare levels until every pattern has enough people with the outcome, and without it."""
    folded: dict[str, list[str]] = {}
    while True:
        people = _People.of(atoms)
        fewer = people.of_patterns()
        small = np.flatnonzero(fewer < least)
        if not len(small):
            return people, folded
        pattern = int(small[np.lexsort((small, fewer[small]))[0]])
        choice = _cheapest(people.atoms, pattern)
        if choice is None:
            raise InputError(
                f"there are too few people{_at_site(people.atoms, pattern)} to share anything: fewer than "
                f"{least} with the outcome, or without it",
                argument="atoms",
            )
        name, levels = choice
        folded.setdefault(name, []).extend(
            str(x) if x is not None else "missing" for x in levels if x != OTHER
        )
        atoms = _with_other(atoms, name, levels)


def _at_site(atoms: Atoms, pattern: int) -> str:
    """The site of a pattern in words, if there are several."""
    names = atoms.patterns.attributes
    if SITE not in names or len(atoms.patterns.levels[names.index(SITE)]) < 2:
        return ""
    return f" at site {atoms.patterns.key(pattern)[names.index(SITE)]!r}"


def _cheapest(atoms: Atoms, pattern: int) -> tuple[str, list[Any]] | None:
    """The attribute, and its levels to be folded, by which the least information is lost."""
    best: tuple[tuple[float, int], str, list[Any]] | None = None
    patterns, people = atoms.patterns, atoms.pattern_sums(atoms.people)
    for a, name in enumerate(patterns.attributes):
        if name.startswith(KEY) or len(patterns.levels[a]) < 2:
            continue
        size = np.bincount(patterns.table[:, a], weights=people, minlength=len(patterns.levels[a]))
        order = [int(i) for i in np.lexsort((np.arange(len(size)), size))]
        own, other = int(patterns.table[pattern, a]), None
        if OTHER in patterns.levels[a]:
            other = patterns.levels[a].index(OTHER)
        if own != other:
            chosen = [own]
            if other is None:
                chosen.append(next(i for i in order if i != own))
        else:
            chosen = [next(i for i in order if i != own)]
        joined = [float(size[i]) for i in {*chosen, *([] if other is None else [other])}]
        cost = sum(n * log(sum(joined) / n) for n in sorted(joined) if n), a
        if best is None or cost < best[0]:
            best = cost, name, [patterns.levels[a][i] for i in chosen]
    return None if best is None else (best[1], best[2])


def _with_other(atoms: Atoms, name: str, levels: list[Any]) -> Atoms:
    """The same people, with some levels of an attribute folded into one."""
    patterns = atoms.patterns
    a = patterns.attributes.index(name)
    new = [OTHER if level in levels else level for level in patterns.levels[a]]
    known = sort_levels([*{*new}])
    code = np.array([known.index(level) for level in new], dtype=np.int64)
    codes = [
        patterns.table[:, i] if i != a else code[patterns.table[:, a]]
        for i in range(len(patterns.attributes))
    ]
    all_levels = tuple(known if i == a else own for i, own in enumerate(patterns.levels))
    fewer, of_pattern = patterns_of(patterns.attributes, all_levels, codes, len(patterns), patterns.derived)
    sums = sums_of_counts(atoms.people, atoms.positives)
    return atoms_of_sums(
        fewer,
        of_pattern[atoms.pattern_index()],
        atoms.score,
        sums,
        resolution_bits=atoms.resolution_bits,
        weighted_rows=atoms.weighted_rows,
    )


def _cells(who: _People, least: int) -> Atoms:
    """Merge neighbouring scores of each pattern."""
    atoms = who.atoms
    cell = np.empty(len(atoms), dtype=np.int64)
    bin_of, n = EDGES.index(atoms.score), 0
    for low, high in pairwise(atoms.starts.tolist()):
        cell[low:high] = n + _merged(who, low, high, bin_of, least)
        n = int(cell[high - 1]) + 1
    people: Any = np.bincount(cell, weights=atoms.people).astype(np.int64)
    positives: Any = np.bincount(cell, weights=atoms.positives).astype(np.int64)
    weighted: Any = np.bincount(cell, weights=atoms.people * from_grid(atoms.score))
    score = significant(np.rint(weighted / people * UNIT).astype(np.int64), SCORE_BITS)
    pattern = atoms.pattern_index()[np.searchsorted(cell, np.arange(n))]
    return atoms_of_sums(atoms.patterns, pattern, score, sums_of_counts(people, positives))


def _merged(who: _People, low: int, high: int, bin_of: IntArray, least: int) -> IntArray:
    """The number of each score's cell, of one pattern; a cell ends where it is large enough.

    What is left over in a range of scores joins the cell before it if that is in the same range; otherwise it
    begins the next cell.
    """
    cells: list[list[int]] = []  # first and last score, and range of the last, of finished cells
    first, last, there = low, high - 1, _Filling(who)
    for i in range(low, high):
        there.add(i)
        end_of_bin = i == last or bin_of[i + 1] != bin_of[i]
        if there.fewer >= least:
            cells.append([first, i, int(bin_of[i])])
            first, there = i + 1, _Filling(who)
        elif end_of_bin and cells and (cells[-1][2] == bin_of[i] or i == last) and first <= i:
            cells[-1][1] = i
            first, there = i + 1, _Filling(who)
    assert cells, "a pattern has enough people"
    number = np.empty(high - low, dtype=np.int64)
    for k, (begin, end, _) in enumerate(cells):
        number[begin - low : end - low + 1] = k
    return number


class _Filling:
    """The different people of a cell that is being filled."""

    def __init__(self, who: _People) -> None:
        self.who = who
        self.counted = [0, 0]
        self.seen: list[set[int]] = [set(), set()]

    def add(self, i: int) -> None:
        """Add the people of an atom."""
        for outcome in (0, 1):
            if self.who.clusters is None:
                self.counted[outcome] += self.who.number[outcome][i]
            else:
                self.seen[outcome] |= self.who.clusters[outcome][i]

    @property
    def fewer(self) -> int:
        """People with the outcome or without it, whichever are fewer."""
        if self.who.clusters is None:
            return int(min(self.counted))
        return min(len(each) for each in self.seen)
