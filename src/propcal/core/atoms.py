"""Atoms: counts of people and outcomes for each pattern and score.

All results are computed from them. They also count the people who were left out for a
missing score or outcome.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from propcal.core.arguments import FEWEST_SHOWN, Label, Table, WeightKind
from propcal.core.conditions import Where
from propcal.core.grid import (
    MAX_PEOPLE,
    UNIT,
    FloatArray,
    IntArray,
    SumArray,
    from_grid,
    mix,
    run_sums,
)
from propcal.core.patterns import Level, Patterns
from propcal.errors import plain, refused
from propcal.numbers import IN_SENTENCE, Limit, capital, percent_of

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.groups import Collection, Groups

NOT_RECORDED = "not recorded"
LEVELS_IN_SENTENCE = 6  # of an attribute
HASH_ROWS = 1 << 16  # at a time
Counts = Mapping[str, Mapping[Level, int]]
SUMS = ("people", "weight", "weight_sq", "positives", "positives_sq")


@dataclass(frozen=True)
class LeftOut:
    """How many people were left out, in all and by level of each attribute.

    These counts add up like atoms.
    """

    people: int = 0
    by: Counts = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        attributes: Sequence[str],
        levels: Sequence[Sequence[Level]],
        codes: Sequence[Any],
        people: Any,
    ) -> LeftOut:
        """Count rows, of which each has the level ``levels[a][codes[a]]`` and stands
        for `people`.
        """
        by = {}
        if len(people):
            for name, levels_of_name, code in zip(attributes, levels, codes):
                n_levels = len(levels_of_name)
                counts = np.bincount(code, weights=people, minlength=n_levels)
                by[name] = {
                    level: round(float(count))
                    for level, count in zip(levels_of_name, counts)
                    if count
                }
        return cls(round(float(np.sum(people))), by)

    def __add__(self, other: LeftOut) -> LeftOut:
        by = {name: Counter(counts) for name, counts in self.by.items()}
        for name, counts in other.by.items():
            by.setdefault(name, Counter()).update(counts)
        return LeftOut(self.people + other.people, by)

    def relevelled(self, rename: Callable[[str, Level], Level]) -> LeftOut:
        """The counts with levels as `rename` spells them."""
        by: dict[str, Counter[Level]] = {name: Counter() for name in self.by}
        for name, counts in self.by.items():
            for level, count in counts.items():
                by[name][rename(name, level)] += count
        return LeftOut(self.people, by)

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        by = {}
        for name, counts in self.by.items():
            by[name] = [[level, count] for level, count in counts.items()]
        return {"people": self.people, "by": by}


NOBODY = LeftOut()


@dataclass(frozen=True)
class Shared:
    """What was merged to make atoms that may be shared.

    Attributes
    ----------
    fewest : int
        The fewest people with the outcome, and without it, in any cell.
    folded : dict
        For each attribute with rare levels, how many of them were folded into "other
        levels".
    """

    fewest: int = FEWEST_SHOWN
    folded: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Shared) -> Shared:
        folded = dict(self.folded)
        for name, n_levels in other.folded.items():
            folded[name] = max(folded.get(name, 0), n_levels)
        return Shared(min(self.fewest, other.fewest), folded)

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        return {"fewest": self.fewest, "folded": dict(self.folded)}


@dataclass(frozen=True, eq=False)
class Atoms:
    """Counts of people, and of people with the outcome, for each pattern and score.

    Atoms can be added: ``Atoms.from_frame(a) + Atoms.from_frame(b)`` equals the atoms
    of the rows of both together. With exact scores, most atoms are single people: treat
    them as personal data.

    Attributes
    ----------
    patterns : Patterns
    starts : array of int64, shape (n_patterns + 1,)
        Atoms ``starts[p]:starts[p + 1]`` belong to pattern p; their scores ascend.
    score : array of int64
        In units of 2**-32.
    people : array of int64
    weight, positives : arrays of int64 (frequencies) or float64 (survey weights)
        Sum of the weights, and of weight times outcome. Whole weights are frequencies.
    weight_sq, positives_sq : likewise
        Sum of weight**2, and of weight**2 times outcome. A frequency of 2 means two
        people of weight 1, so for frequencies these equal `weight` and `positives`.
    resolution_bits : int
        Scores were rounded to this many binary digits; 32, the finest grid, by default.
    weighted_rows : int
        How many rows had a weight; 0 if there were no weights.
    left_out : LeftOut
        How many people were left out because their score or outcome is missing, in all
        and by level.
    shared : Shared, optional
        What was merged, if these atoms were made to be shared.
    unused_id : str
        A column that looks like a patient ID, repeats, and was not named as one; empty
        if there is none.
    keys : array of uint64, optional
        What `record_keys` returned before scores were corrected: they remain the same
        people.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame(
    ...     {"risk": [0.1, 0.1, 0.3], "died": [0, 1, 0], "sex": ["F", "F", "M"]}
    ... )
    >>> atoms = Atoms.from_frame(people, score="risk", outcome="died", groups=["sex"])
    >>> atoms + atoms
    Atoms(2 atoms of 6 people; 2 patterns of sex)
    """

    patterns: Patterns
    starts: IntArray
    score: IntArray
    people: IntArray
    weight: SumArray
    weight_sq: SumArray
    positives: SumArray
    positives_sq: SumArray
    resolution_bits: int = 32
    weighted_rows: int = 0
    left_out: LeftOut = NOBODY
    shared: Shared | None = None
    unused_id: str = ""
    keys: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        counted = self.weight if self.frequencies else self.people
        refuse_too_many(float(np.sum(counted, dtype=np.float64)))

    @classmethod
    def from_frame(
        cls,
        frame: Table,
        *,
        score: str,
        outcome: str,
        groups: list[str] | tuple[str, ...] | str | Groups = (),
        weight: str | None = None,
        cluster: str | None = None,
        resolution: float | None = None,
        weight_kind: WeightKind = "auto",
        positive: Label = None,
        drop_missing: bool = False,
        site: str | None = None,
    ) -> Atoms:
        """Reduce a data frame (any that narwhals supports) to atoms.

        Parameters
        ----------
        frame : data frame of pandas, polars or pyarrow, or of an engine
            A DuckDB relation, a Spark or Dask frame, or a lazy polars frame is reduced
            by its own engine in one aggregation; no row leaves the engine.
        score, outcome : str
            Columns with the risk score in [0, 1] and the outcome (0/1, or a soft label
            in between).
        groups : list of str, or Groups
            Columns that define the groups, or a `Groups` definition, which must list
            its `columns`.
        weight : str, optional
            Column with weights.
        cluster : str, optional
            Column with a patient ID (or hospital), if there are repeat visits. The IDs
            are hashed into 256 clusters, and an audit then estimates its standard
            errors from the variation between clusters.
        resolution : float, optional
            Round scores to this grid, such as 2**-16; None keeps them to 2**-32.
        weight_kind : "auto", "frequency" or "survey", default="auto"
            "auto" treats weights as frequencies if all of them are whole numbers, and
            as survey weights otherwise. State the kind if you add up chunks: one chunk
            may have only whole weights by chance.
        positive : optional
            The value of the outcome column that means the event, such as "EXPIRED";
            every other value then means no event. Not needed for 0 and 1, nor for
            yes/no, y/n, true/false or t/f in any case.
        drop_missing : bool, default=False
            Leave out rows without a score or an outcome, and count them in `left_out`;
            otherwise they are refused.
        site : str, optional
            Column with the site (hospital) of each person, by which sites are compared;
            or the name of the one site that all people are from, if there is no such
            column.
        """
        # core itself does not handle frames
        from propcal.reading.source import NamedColumns, frame_source

        columns = NamedColumns(
            score,
            outcome,
            groups,
            weight,
            cluster,
            resolution,
            weight_kind,
            positive,
            drop_missing,
        )
        return frame_source(frame).atoms(columns, site=site)

    @classmethod
    def from_files(
        cls,
        files: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        score: str,
        outcome: str,
        groups: list[str] | tuple[str, ...] | str | Groups = (),
        weight: str | None = None,
        cluster: str | None = None,
        resolution: float | None = None,
        weight_kind: WeightKind = "auto",
        positive: Label = None,
        drop_missing: bool = False,
        site: str | None = None,
        na: Sequence[str] = (),
        memory_limit: str | int | None = None,
        threads: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Atoms:
        """Reduce files of any size to atoms, without loading all rows into memory.

        Parameters
        ----------
        files : path, pattern such as ``visits/*.parquet``, or a list of these
            Parquet or CSV, optionally compressed with gzip or zstd; the format is
            recognised by content.
        score, outcome, groups, weight, cluster : see `from_frame`
        resolution, weight_kind, positive, drop_missing, site : see `from_frame`
        na : list of str
            Texts that mean a missing value in a CSV file, in addition to the empty
            value.
        memory_limit : str or int, optional
            Memory for the aggregation, such as "4GB"; by default DuckDB decides (most
            of the machine's memory). The need grows with the number of atoms, not of
            rows; a coarser `resolution` reduces it.
        threads : int, optional
            By default all cores, or fewer if memory is short.
        progress : callable, optional
            Called several times a second with the percentage completed.

        Examples
        --------
        >>> from propcal.datasets import make_ed_visits
        >>> for month in (1, 2):
        ...     make_ed_visits(1000, seed=month).to_parquet(f"visits-{month}.parquet")
        >>> columns = {"score": "true_risk", "outcome": "admitted"}
        >>> groups = ["race", "gender"]
        >>> files = "visits-*.parquet"
        >>> Atoms.from_files(files, **columns, groups=groups, resolution=2**-10)
        Atoms(1,495 atoms of 2,000 people; 14 patterns of race x gender)
        """
        from propcal.reading.file_source import FileSource
        from propcal.reading.source import NamedColumns

        columns = NamedColumns(
            score,
            outcome,
            groups,
            weight,
            cluster,
            resolution,
            weight_kind,
            positive,
            drop_missing,
        )
        options: dict[str, Any] = {
            "memory_limit": memory_limit,
            "threads": threads,
            "progress": progress,
        }
        return FileSource(files, na=na, **options).atoms(columns, site=site)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Atoms:
        """Read atoms from a file that `save` wrote."""
        from propcal.formats.atoms_file import load_atoms

        return load_atoms(path)

    def share(self, fewest: int = FEWEST_SHOWN) -> Atoms:
        """Atoms that may be shared: every cell has at least `fewest` people with the
        outcome, and without it.

        Neighbouring scores are merged, and rare levels are folded into "other levels".
        """
        from propcal.protect.shared_atoms import share_atoms

        return share_atoms(self, fewest)[0]

    def save(self, path: str | PathLike[str]) -> None:
        """Write a Parquet file, marked as personal data unless it may be shared. An old
        file is replaced.
        """
        from propcal.formats.atoms_file import save_atoms

        save_atoms(self, path)

    def __len__(self) -> int:
        return len(self.score)

    @property
    def n_people(self) -> int:
        """People in all atoms together."""
        return int(self.people.sum())

    @property
    def resolution(self) -> float:
        """The grid to which scores were rounded; 2**-32 by default."""
        return float(2.0**-self.resolution_bits)

    @property
    def frequencies(self) -> bool:
        """Whether all weights were whole numbers, so that sums are exact."""
        return self.weight.dtype.kind == "i"

    @property
    def soft(self) -> bool:
        """Whether some outcome lay strictly between 0 and 1 (or weights are not
        whole).
        """
        return self.positives.dtype.kind == "f"

    @property
    def soft_labels(self) -> bool:
        """Whether some outcome lies strictly between 0 and 1, as far as sums of survey
        weights show it.
        """
        if self.frequencies:
            return self.soft
        between = (self.positives > 0) & (self.positives < self.weight * (1 - 1e-12))
        return bool(np.any(between & (self.people == 1)))

    def pattern_index(self) -> IntArray:
        """The pattern of each atom."""
        return np.repeat(np.arange(len(self.patterns)), np.diff(self.starts))

    def pattern_sums(self, values: SumArray) -> SumArray:
        """Add up a column of the atoms within each pattern; exact for integers."""
        return run_sums(values, self.starts)

    def collection(self, groups: Groups, *, gamma: float) -> Collection:
        """The collection C of these people."""
        return groups.collect(self, gamma=gamma)

    def outcome_units(self) -> SumArray:
        """`positives` in units of the grid, to be compared with sums of scores."""
        if self.positives.dtype.kind == "i":
            return np.asarray(self.positives * np.int64(UNIT))
        units: FloatArray = self.positives * np.float64(UNIT)
        # soft labels are on the grid, so with frequencies this is an integer
        if self.frequencies:
            return np.rint(units).astype(np.int64)
        return units

    def fingerprint(self) -> str:
        """A hash of the data, by which an audit can recognise the fitting data.

        Survey weights are added in floating point, so with them the hash depends on the
        order of the rows.
        """
        derived = sorted(
            (name, str(recipe.to_json()))
            for name, recipe in self.patterns.derived.items()
        )
        about = (self.patterns.attributes, self.patterns.levels, derived)
        digest = hashlib.sha256(repr(about).encode())
        # with frequencies the other sums are the same numbers
        names = ("weight", "positives") if self.frequencies else SUMS
        sums = [getattr(self, name) for name in names]
        for array in (self.patterns.table, self.starts, self.score, *sums):
            digest.update(np.ascontiguousarray(array).data)
        return "sha256:" + digest.hexdigest()

    def people_fingerprint(self) -> str:
        """Like `fingerprint`, but only of scores, outcomes and weights, so that groups
        do not matter.

        Each score is hashed to two pseudo-random numbers, which are summed over people:
        a sum needs no sorting and does not depend on how people are divided into atoms.
        """
        sums = [self._hashed_sum(self.weight, 0), self._hashed_sum(self.positives, 1)]
        content = repr((self.n_people, sums))
        return "sha256:" + hashlib.sha256(content.encode()).hexdigest()

    def _hashed_sum(self, column: SumArray, outcome: int) -> int | str:
        """The sum of a column times the hash of each score; modulo 2**64 if the column
        is whole.
        """
        whole = column.dtype.kind == "i"
        total: Any = 0 if whole else 0.0
        for begin in range(0, len(self), HASH_ROWS):
            rows = slice(begin, begin + HASH_ROWS)
            hashed = person_hash(self.score[rows], outcome)
            if whole:
                weighted = hashed * column[rows].astype(np.uint64)
                total += int(np.sum(weighted, dtype=np.uint64))
            else:
                total += float(np.sum(hashed / 2.0**64 * column[rows]))
        if whole:
            return int(total % 2**64)
        # the last digits of floating-point sums depend on the order
        return f"{total:.9e}"

    def record_keys(self) -> NDArray[np.uint64]:
        """A pseudo-random number for the people of each atom: the sum of their hashed
        scores and outcomes.

        Added up over a set of people, modulo 2**64, they reveal who is in it: neither
        the order of rows nor the attributes matter, and one person more gives another
        number.
        """
        if self.keys is not None:
            return self.keys
        without = person_hash(self.score, 0)
        with_outcome = person_hash(self.score, 1)
        if self.frequencies and not self.soft:
            events = self.positives.astype(np.uint64)
            non_events = self.weight.astype(np.uint64) - events
            return np.asarray(with_outcome * events + without * non_events)
        # the last digits of floating-point sums depend on the order
        weight = np.asarray(self.weight, dtype=np.float32).view(np.uint32)
        positives = np.asarray(self.positives, dtype=np.float32).view(np.uint32)
        return np.asarray(mix(without + weight) + mix(with_outcome + positives))

    def to_frame(self) -> pd.DataFrame:
        """List the atoms: one column for each attribute, then the score and the
        sums.
        """
        import pandas as pd

        index = self.pattern_index()
        columns: dict[str, Any] = {}
        for a, attribute in enumerate(self.patterns.attributes):
            levels = np.array(self.patterns.levels[a], dtype=object)
            name = attribute
            if attribute in ("score", *SUMS):
                name = f"attribute:{attribute}"
            columns[name] = levels[self.patterns.table[index, a]]
        columns["score"] = from_grid(self.score)
        for name in SUMS:
            columns[name] = getattr(self, name)
        return pd.DataFrame(columns)

    def __radd__(self, other: object) -> Atoms:
        """Allow ``sum`` to start from 0."""
        return self if other == 0 else NotImplemented

    def __add__(self, other: object) -> Atoms:
        """Atoms of both sets of people together; the attributes must be the same.

        If scores have different resolutions, the finer ones are rounded to the coarser
        grid. When adding several atoms, begin with the coarsest, so that no score is
        rounded twice.
        """
        if not isinstance(other, Atoms):
            return NotImplemented
        # here, because it imports this module
        from propcal.core.reduction import merge

        return merge(self, other)

    def __repr__(self) -> str:
        of = plain(" x ".join(self.patterns.attributes)) or "everybody"
        who = f"{len(self):,} atoms of {self.n_people:,} people"
        return f"Atoms({who}; {len(self.patterns)} patterns of {of})"


def person_hash(score: IntArray, outcome: Any) -> Any:
    """A pseudo-random number for a person with this score (in units) and outcome (0 or
    1).
    """
    doubled = score.astype(np.uint64) * np.uint64(2)
    return mix(doubled + np.asarray(outcome).astype(np.uint64))


def refuse_too_many(total: float) -> None:
    """Refuse more people than can be added up exactly in 64 bits."""
    if total > MAX_PEOPLE:
        raise refused("many people", total=total, most=MAX_PEOPLE)


@dataclass(frozen=True)
class LeftOutReport:
    """People left out, and all people: in total, and by level of each attribute."""

    left: int = 0
    total: int = 0
    # attribute -> (label, left out, all)
    by: Mapping[str, list[tuple[str, int, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, atoms: Atoms) -> LeftOutReport:
        """Compare the people left out of these atoms with those in them."""
        people = atoms.pattern_sums(atoms.people)
        by = {}
        for name, counts in atoms.left_out.by.items():
            if name in atoms.patterns.attributes:
                by[name] = _left_out_by_level(atoms.patterns, name, people, counts)
        left = atoms.left_out.people
        return cls(left, left + int(people.sum()), by)

    def sentence(
        self,
        fewest: int = 0,
        *,
        unit: str = "people",
        labels: Mapping[str, Mapping[str, str]] | None = None,
    ) -> str:
        """Who was left out, highest share first; hides counts from 1 to `fewest` -
        1.
        """
        if not self.left:
            return ""
        left: Any = self.left  # a small one that is protected is its limit already
        if isinstance(left, Limit) or left < fewest:
            limit = Limit(fewest or left, "below")
            few = capital(IN_SENTENCE.count(limit))
            return f"{few} {unit} have no score or outcome and were left out."
        has = "has" if self.left == 1 else "have"
        was = "was" if self.left == 1 else "were"
        among = f"{IN_SENTENCE.count(self.left)} of {self.total:,} {unit}"
        share = f"({percent_of(self.left, self.total)})"
        first = f"{among} {share} {has} no score or outcome and {was} left out"
        parts = []
        for name in self.by:
            shares = self._shares(name, fewest, (labels or {}).get(name, {}))
            if shares:
                parts.append(shares)
        if not parts:
            return f"{first}."
        return f"{first}: {'; '.join(parts)}."

    def _shares(self, name: str, fewest: int, labels: Mapping[str, str]) -> str:
        """The levels with the highest shares; levels of which nobody was left out are
        not listed.
        """
        rows = self.by[name]
        hidden = _hidden([left for _, left, _ in rows], fewest)
        shown = [row for row, gone in zip(rows, hidden) if row[1] and not gone]
        shown = sorted(shown, key=lambda row: -row[1] / row[2])
        if not shown:
            return ""
        parts = []
        for label, left, total in shown[:LEVELS_IN_SENTENCE]:
            level = "" if label == NOT_RECORDED else label
            parts.append(f"{labels.get(level, label)} {percent_of(left, total)}")
        listed = ", ".join(parts)
        if any(hidden):
            listed += ", others not listed"
        elif len(shown) > len(parts):
            listed += f" and {len(shown) - len(parts)} more"
        return listed if len(self.by) == 1 else f"by {name}, {listed}"


def _left_out_by_level(
    patterns: Patterns, name: str, people: Any, left_out: Mapping[Level, int]
) -> list[tuple[str, int, int]]:
    """Each level of an attribute: its label, how many people were left out, and how
    many there are in all.
    """
    a = patterns.attributes.index(name)
    levels = patterns.levels[a]
    kept = np.bincount(patterns.table[:, a], weights=people, minlength=len(levels))
    total = Counter(dict(zip(levels, kept.astype(np.int64).tolist())))
    total.update(left_out)
    if isinstance(patterns.derived.get(name), Where):
        # people who do not meet a condition form no group
        if "true" not in total:
            return []
        return [(name, left_out.get("true", 0), total["true"])]
    return [
        (NOT_RECORDED if level is None else level, left_out.get(level, 0), n)
        for level, n in total.items()
    ]


def _hidden(counts: Sequence[int], fewest: int) -> list[bool]:
    """Which counts to hide: the small ones, and others until what is hidden adds up to
    `fewest` or more.
    """
    hidden = [0 < count < fewest for count in counts]
    while any(hidden):
        total = sum(count for count, gone in zip(counts, hidden) if gone)
        if sum(hidden) > 1 and total >= fewest:
            break
        shown = [
            (count, i)
            for i, (count, gone) in enumerate(zip(counts, hidden))
            if count and not gone
        ]
        if not shown:
            break
        _, smallest = min(shown)
        hidden[smallest] = True
    return hidden
