"""People left out for a missing score or outcome: how many, by group, and the sentence that reports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.groups.conditions import Where
from propcal.core.patterns import Level
from propcal.numbers import IN_SENTENCE, Limit, percent_of

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms

NOT_RECORDED = "not recorded"
FEWEST_SHOWN = 11  # smaller counts of people are not told unless they are asked for
MOST_LEVELS = 6  # levels of an attribute that the sentence names
Counts = Mapping[str, Mapping[Level, int]]


@dataclass(frozen=True)
class LeftOut:
    """How many people were left out in all, and by level of each attribute; these add up like atoms."""

    people: int = 0
    by: Counts = field(default_factory=dict)

    @classmethod
    def of(
        cls, attributes: Sequence[str], levels: Sequence[Sequence[Level]], codes: Sequence[Any], people: Any
    ) -> LeftOut:
        """Count rows, of which each has the level ``levels[a][codes[a]]`` and stands for `people`."""
        by = {}
        for name, own, code in zip(attributes, levels, codes):
            counts = np.bincount(code, weights=people, minlength=len(own))
            by[name] = {level: round(float(count)) for level, count in zip(own, counts) if count}
        return cls(round(float(np.sum(people))), by if len(people) else {})

    def __add__(self, other: LeftOut) -> LeftOut:
        names = dict.fromkeys([*self.by, *other.by])
        return LeftOut(
            self.people + other.people,
            {name: _added(self.by.get(name, {}), other.by.get(name, {})) for name in names},
        )

    def relevelled(self, key: Callable[[str, Level], Level]) -> LeftOut:
        """The same people with their levels as `key` spells them."""
        by: dict[str, Mapping[Level, int]] = {}
        for name, counts in self.by.items():
            by[name] = {}
            for level, count in counts.items():
                by[name] = _added(by[name], {key(name, level): count})
        return LeftOut(self.people, by)

    def to_json(self) -> dict[str, Any]:
        """As it is written in a file."""
        return {
            "people": self.people,
            "by": {
                name: [[level, count] for level, count in counts.items()] for name, counts in self.by.items()
            },
        }


NOBODY = LeftOut()


def _added(one: Mapping[Level, int], other: Mapping[Level, int]) -> dict[Level, int]:
    return {level: one.get(level, 0) + other.get(level, 0) for level in dict.fromkeys([*one, *other])}


@dataclass(frozen=True)
class LeftOutReport:
    """People left out, beside all people: in all, and for each attribute by level."""

    left: int = 0
    total: int = 0
    by: Mapping[str, list[tuple[str, int, int]]] = field(
        default_factory=dict
    )  # attribute -> (label, left out, all)

    @classmethod
    def of(cls, atoms: Atoms) -> LeftOutReport:
        """Compare the people left out of these atoms with those in them."""
        out, patterns = atoms.left_out, atoms.patterns
        kept: Any = atoms.pattern_sums(atoms.people)
        by = {}
        for name, counts in out.by.items():
            if name not in patterns.attributes:
                continue
            a = patterns.attributes.index(name)
            here = np.bincount(patterns.table[:, a], weights=kept, minlength=len(patterns.levels[a]))
            present = dict(zip(patterns.levels[a], here.astype(np.int64).tolist()))
            condition = isinstance(patterns.derived.get(name), Where)
            by[name] = [
                (name if condition else NOT_RECORDED if level is None else level, left, left + there)
                for level, left, there in _joined(counts, present)
                if not condition or level == "true"
            ]
        return cls(out.people, out.people + int(kept.sum()), by)

    def sentence(
        self, fewest: int = 0, *, unit: str = "people", labels: Mapping[str, Mapping[str, str]] | None = None
    ) -> str:
        """Who was left out, highest share first; hides counts from 1 to `fewest` - 1."""
        if not self.left:
            return ""
        left = Limit(fewest, "below") if self.left < fewest else self.left
        small, words = isinstance(left, Limit), IN_SENTENCE.count(left)
        what = f"{words[0].upper()}{words[1:]}"
        share = "" if small else f" ({percent_of(self.left, self.total)})"
        one = self.left == 1 and not small
        among = f"{what} {unit}" if small else f"{what} of {self.total:,} {unit}"
        first = (
            f"{among}{share} {'has' if one else 'have'} no score or outcome and "
            f"{'was' if one else 'were'} left out"
        )
        parts = (
            []
            if small
            else [
                text for name in self.by if (text := self._shares(name, fewest, (labels or {}).get(name, {})))
            ]
        )
        return f"{first}: {'; '.join(parts)}." if parts else f"{first}."

    def _shares(self, name: str, fewest: int, labels: Mapping[str, str]) -> str:
        """The levels with the highest shares; levels of which nobody was left out are not listed."""
        rows = self.by[name]
        hidden = _hidden([left for _, left, _ in rows], fewest)
        shown = [row for row, gone in zip(rows, hidden) if row[1] and not gone]
        shown = sorted(shown, key=lambda row: -row[1] / row[2])
        told = [
            f"{labels.get('' if label == NOT_RECORDED else label, label)} {percent_of(left, every)}"
            for label, left, every in shown[:MOST_LEVELS]
        ]
        if not told:
            return ""
        listed = ", ".join(told)
        if any(hidden):
            listed += ", others not listed"
        elif len(shown) > len(told):
            listed += f" and {len(shown) - len(told)} more"
        return listed if len(self.by) == 1 else f"by {name}, {listed}"


def _joined(left: Mapping[Level, int], kept: Mapping[Level, int]) -> list[tuple[Level, int, int]]:
    names = dict.fromkeys([*kept, *left])
    return [(level, left.get(level, 0), kept.get(level, 0)) for level in names]


def _hidden(counts: Sequence[int], fewest: int) -> list[bool]:
    """Which counts to hide: the small ones, and others until what is hidden adds up to `fewest` or more."""
    gone = [0 < count < fewest for count in counts]
    while any(gone) and not all(gone):
        total, number = sum(c for c, g in zip(counts, gone) if g), sum(gone)
        left = [(c, i) for i, (c, g) in enumerate(zip(counts, gone)) if not g and c]
        if (number > 1 and total >= fewest) or not left:
            break
        gone[min(left)[1]] = True
    return gone
