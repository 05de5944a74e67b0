"""Atoms: people and outcomes per (pattern, score). Everything downstream is computed from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import (
    MAX_PEOPLE,
    UNIT,
    FloatArray,
    IntArray,
    SumArray,
    check_choice,
    from_grid,
    to_grid,
)
from propcal.core.patterns import Level, Patterns, combinations_present, sort_levels
from propcal.core.recipes import Recipe
from propcal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.groups import Collection, Groups

SUMS = ("people", "weight", "weight_sq", "positives", "positives_sq")
SCORE_BITS = 33  # a score is at most 2**32


@dataclass(frozen=True, eq=False)
class Atoms:
    """How many people, and how many with the outcome, share a pattern and a score.

    Atoms add up: ``Atoms.from_frame(a) + Atoms.from_frame(b)`` is what the rows of both together
    give. With exact scores they are nearly rows: treat them as personal data.

    Attributes
    ----------
    patterns : Patterns
    starts : array of int64, shape (n_patterns + 1,)
        Atoms ``starts[p]:starts[p + 1]`` belong to pattern p; their scores ascend.
    score : array of int64
        In units of 2**-32.
    people : array of int64
    weight, positives : arrays of int64 (whole weights: frequencies) or float64 (survey weights)
        Sum of the weights, and of weight times outcome.
    weight_sq, positives_sq : likewise
        Sum of weight**2, and of weight**2 times outcome. A frequency of 2 is two people of weight
        1, so that for frequencies these are the plain sums.
    """

    patterns: Patterns
    starts: IntArray
    score: IntArray
    people: IntArray
    weight: SumArray
    weight_sq: SumArray
    positives: SumArray
    positives_sq: SumArray

    def __post_init__(self) -> None:
        if self.frequencies:
            refuse_too_many(float(np.sum(self.weight, dtype=np.float64)))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        score: str,
        outcome: str,
        groups: list[str] | tuple[str, ...] | str | Groups = (),
        weight: str | None = None,
        resolution: float | None = None,
        weight_kind: str = "auto",
    ) -> Atoms:
        """Reduce a data frame (any that narwhals knows) to atoms.

        Parameters
        ----------
        frame : pandas, polars or pyarrow data frame
        score, outcome : str
            Columns with the risk score in [0, 1] and the outcome (0/1, or a soft label between).
        groups : list of str, or Groups
            Columns that define groups, or groups in your words; their `columns` must be named.
        weight : str, optional
            Column with weights.
        resolution : float, optional
            Round scores to this grid, such as 2**-16; None keeps them to 2**-32.
        weight_kind : "auto", "frequency" or "survey", default="auto"
            Weights that are all whole are taken as frequencies, others as survey weights. Say which
            they are where chunks are added up: the weights of one chunk may be whole by chance.
        """
        from propcal.data.people import atoms_from_frame  # a door in; core itself knows no frames

        return atoms_from_frame(
            frame,
            score=score,
            outcome=outcome,
            groups=groups,
            weight=weight,
            resolution=resolution,
            weight_kind=weight_kind,
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Atoms:
        """Read atoms from a file that `save` wrote."""
        from propcal.output.atoms_file import load_atoms

        return load_atoms(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Parquet file, marked as personal data. An existing file is replaced."""
        from propcal.output.atoms_file import save_atoms

        save_atoms(self, path)

    def __len__(self) -> int:
        return len(self.score)

    @property
    def n_people(self) -> int:
        """People in all atoms together."""
        return int(self.people.sum())

    @property
    def frequencies(self) -> bool:
        """Whether all weights were whole numbers, so that sums are exact."""
        return self.weight.dtype.kind == "i"

    @property
    def soft(self) -> bool:
        """Whether some outcome lay strictly between 0 and 1 (or weights are not whole)."""
        return self.positives.dtype.kind == "f"

    def pattern_index(self) -> IntArray:
        """Pattern of each atom."""
        return np.repeat(np.arange(len(self.patterns)), np.diff(self.starts))

    def pattern_sums(self, values: SumArray) -> SumArray:
        """Add up a per-atom column within each pattern, exactly where it is whole."""
        running = np.concatenate([np.zeros(1, dtype=values.dtype), np.cumsum(values)])
        return np.asarray(np.diff(running[self.starts]))

    def collection(self, groups: Groups, *, gamma: float) -> Collection:
        """The collection C of these people."""
        people: Any = self.pattern_sums(self.people)
        return groups.collect(self.patterns, people, self.pattern_sums(self.weight), gamma=gamma)

    def outcome_units(self) -> SumArray:
        """`positives` in units of the grid, like the sums of scores that they are compared with."""
        if self.positives.dtype.kind == "i":
            return np.asarray(self.positives * np.int64(UNIT))
        units: FloatArray = self.positives * np.float64(UNIT)
        # soft labels are on the grid, so with whole weights this is a whole number
        return np.rint(units).astype(np.int64) if self.frequencies else units

    def fingerprint(self) -> str:
        """Hash that is equal for equal data; lets an audit see that it looks at the fitting data.

        Survey weights are added in floating point: there the order of rows shows in the last digit.
        """
        derived = sorted((name, str(recipe.to_json())) for name, recipe in self.patterns.derived.items())
        digest = hashlib.sha256(repr((self.patterns.attributes, self.patterns.levels, derived)).encode())
        # under frequencies the other sums are the same numbers
        sums = ("weight", "positives") if self.frequencies else SUMS
        for array in (self.patterns.table, self.starts, self.score, *(getattr(self, name) for name in sums)):
            for begin in range(0, len(array), 1 << 17):
                digest.update(np.ascontiguousarray(array[begin : begin + (1 << 17)]).view(np.uint8).data)
        return "sha256:" + digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """List the atoms: a column for each attribute, then score and sums."""
        import pandas as pd

        index = self.pattern_index()
        columns: dict[str, Any] = {}
        for a, attribute in enumerate(self.patterns.attributes):
            levels = np.array(self.patterns.levels[a], dtype=object)
            clash = attribute in ("score", *SUMS)
            columns[f"attribute:{attribute}" if clash else attribute] = levels[self.patterns.table[index, a]]
        columns["score"] = from_grid(self.score)
        for name in SUMS:
            columns[name] = getattr(self, name)
        return pd.DataFrame(columns)

    def __radd__(self, other: object) -> Atoms:
        """Let ``sum`` start from 0."""
        return self if other == 0 else NotImplemented

    def __add__(self, other: object) -> Atoms:
        """Atoms of both sets of people together; the attributes must be the same."""
        if not isinstance(other, Atoms):
            return NotImplemented
        mine, theirs = self.patterns, other.patterns
        if not mine.same_attributes(theirs):
            raise InputError(
                f"atoms of different attributes cannot be added: {list(mine.attributes)} and "
                f"{list(theirs.attributes)}, or they are derived in different ways"
            )
        levels = tuple(sort_levels([*{*a, *b}]) for a, b in zip(mine.levels, theirs.levels))
        tables = [_translate(p, levels)[a.pattern_index()] for p, a in ((mine, self), (theirs, other))]
        sums = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in SUMS}
        score = np.concatenate([self.score, other.score])
        patterns, code = patterns_of(
            mine.attributes, levels, list(np.concatenate(tables).T), len(score), mine.derived
        )
        return _collapse(patterns, code, score, sums)

    def __repr__(self) -> str:
        of = " x ".join(self.patterns.attributes) or "everybody"
        return (
            f"Atoms({len(self):,} atoms of {self.n_people:,} people; {len(self.patterns)} patterns of {of})"
        )


def refuse_too_many(total: float) -> None:
    """Whole numbers of people are added up exactly in 64 bits, up to a limit."""
    if total > MAX_PEOPLE:
        raise InputError(
            f"{total:,.0f} people are more than can be added up exactly ({MAX_PEOPLE:,}); "
            "divide the weights, or use weights that are not whole"
        )


def _translate(patterns: Patterns, levels: tuple[tuple[Level, ...], ...]) -> IntArray:
    """The pattern table in terms of other (more) levels."""
    table = patterns.table.copy()
    for a, wanted in enumerate(levels):
        position = np.array([wanted.index(level) for level in patterns.levels[a]], dtype=np.int64)
        table[:, a] = position[table[:, a]]
    return table


def patterns_of(
    attributes: tuple[str, ...],
    levels: tuple[tuple[Level, ...], ...],
    codes: list[Any],
    n_rows: int,
    derived: Mapping[str, Recipe],
) -> tuple[Patterns, Any]:
    """Find the patterns that occur, and the pattern of each row.

    `codes` holds for each attribute the index of each row's level. Levels that no row has are
    dropped, so that the result depends on the rows alone.
    """
    table, code = combinations_present(codes, [len(level) for level in levels], n_rows)
    used = [np.unique(table[:, a]) for a in range(len(attributes))]
    kept = tuple(tuple(level[i] for i in u) for level, u in zip(levels, used))
    for a, u in enumerate(used):
        table[:, a] = np.searchsorted(u, table[:, a])
    return Patterns(attributes, kept, table, derived), code


def atoms_of_rows(
    patterns: Patterns,
    code: Any,
    score: FloatArray,
    outcome: Any,
    weight: FloatArray | None,
    *,
    resolution_bits: int = 32,
    weight_kind: str = "auto",
) -> Atoms:
    """Reduce checked rows to atoms. Rows of weight 0 must be gone.

    `outcome` is of an integer type if every outcome is 0 or 1, and float64 if some are soft labels.
    """
    check_choice("weight_kind", weight_kind, ("auto", "frequency", "survey"))
    units = to_grid(score) if resolution_bits == 32 else _coarse(score, resolution_bits)
    hard = outcome.dtype.kind == "i"
    whole = weight is None or bool(np.all(weight == np.floor(weight)))
    if weight is not None and weight_kind == "frequency" and not whole:
        raise InputError("weights that are frequencies must be whole numbers; these are not")
    whole = whole and not (weight is not None and weight_kind == "survey")
    refuse_too_many(len(units) if weight is None or not whole else float(weight.sum()))
    if hard and weight is None:
        return _collapse_counts(patterns, code, units, outcome)
    y: SumArray = outcome.astype(np.int64) if hard else from_grid(to_grid(outcome))
    if whole:
        w = np.ones(len(units), dtype=np.int64) if weight is None else weight.astype(np.int64)
        sums = {"people": w, "weight": w, "weight_sq": w, "positives": w * y, "positives_sq": w * y}
    else:
        assert weight is not None
        squares = weight * weight
        sums = {
            "people": np.ones(len(units), dtype=np.int64),
            "weight": weight,
            "weight_sq": squares,
            "positives": weight * y,
            "positives_sq": squares * y,
        }
    return _collapse(patterns, code, units, sums)


def _coarse(score: FloatArray, bits: int) -> IntArray:
    return np.floor(score * float(1 << bits) + 0.5).astype(np.int64) << (32 - bits)


def _starts(patterns: Patterns, keys: IntArray) -> IntArray:
    return np.searchsorted(keys, np.arange(len(patterns) + 1, dtype=np.int64) << SCORE_BITS)


def _collapse_counts(patterns: Patterns, code: Any, units: IntArray, outcome: Any) -> Atoms:
    """Count people and 0/1 outcomes: pattern, score and outcome in one number, one plain sort.

    Sorting such numbers is several times faster than sorting indices (argsort, lexsort).
    """
    keys = units
    if len(patterns) > 1:
        high = code.astype(np.int64)
        high <<= SCORE_BITS
        keys += high
        del high
    keys <<= 1
    keys += outcome
    keys.sort()
    positive = (keys & 1).astype(np.int8)
    keys >>= 1
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    positives = np.add.reduceat(positive, first, dtype=np.int64)
    keys = keys[first]
    people = np.empty_like(first)
    np.subtract(first[1:], first[:-1], out=people[:-1])
    people[-1] = len(positive) - first[-1]
    starts = _starts(patterns, keys)
    keys &= (1 << SCORE_BITS) - 1
    return Atoms(patterns, starts, keys, people, people, people, positives, positives)


def _collapse(patterns: Patterns, code: Any, units: IntArray, sums: dict[str, Any]) -> Atoms:
    """Add up the given columns over rows of the same pattern and score."""
    keys = (code.astype(np.int64) << SCORE_BITS) + units
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    done: dict[int, Any] = {}  # columns that are one array before remain one array after
    for column in sums.values():
        if id(column) not in done:
            done[id(column)] = np.add.reduceat(column[order], first)
    keys = keys[first]
    added = {name: done[id(column)] for name, column in sums.items()}
    return Atoms(patterns, _starts(patterns, keys), keys & ((1 << SCORE_BITS) - 1), **added)
