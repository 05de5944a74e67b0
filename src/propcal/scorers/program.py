"""A correction as the tables that a one-file scorer holds, the same in every language.

A scorer finds the place of a person's level of each attribute, looks the combination of places up, and gives
the score to the map of that combination: a curve through the knots, then pieces of slope 0 or 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from propcal import __version__
from propcal.core.choices import Unseen
from propcal.core.correction.correction import Correction
from propcal.core.correction.lookup import with_unlisted
from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import check_choice
from propcal.core.groups.conditions import ColumnTest, Condition, Not
from propcal.core.groups.recipes import Ranges, Where
from propcal.core.patterns import Level
from propcal.data.derive import COMPARE, sized_columns
from propcal.data.levels import DECIMAL, level_key, wanted_keys
from propcal.errors import InputError
from propcal.scorers.vectors import Vector, vectors
from propcal.sql.column_levels import every_combination

MOST_WHOLE = 1 << 53  # above it, whole numbers have neighbours that a double cannot tell apart
Table = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """What a one-file scorer holds.

    Attributes
    ----------
    about : dict
        What the correction knows about itself.
    columns, numeric : list of str
        The columns that it reads, and those of them that must be numbers.
    attributes : list of dict
        How the place of a level is found: by `texts` and `numbers`, `points` of a number, or a `test`.
    patterns : list of str
        Places of the levels, separated by spaces, and after "=" the number of the map.
    knots : list of int
        The scores at which curves are given, in units of 2**-32.
    maps : list of str
        The curve (empty: none), and after "|" begin, slope and offset of each piece.
    unseen : "replay", "keep" or "error"
        What happens to a combination that is not listed; with "replay" all are.
    vectors : list of Vector
        Scores and values of columns with the corrected score.
    """

    about: dict[str, Any]
    columns: list[str]
    numeric: list[str]
    attributes: list[Table]
    patterns: list[str]
    knots: list[int]
    maps: list[str]
    unseen: Unseen
    vectors: list[Vector]

    @classmethod
    def of_correction(cls, correction: Correction, unseen: Unseen | None, *, doubles_in: str = "") -> Program:
        """Compile a correction; `doubles_in` names a language in which every number is a double."""
        if correction.points is not None:
            raise InputError(
                "a correction with points cannot be written as one file of a program",
                argument="correction",
                next_step="Use to_sql, score_one or apply, or fit without features",
            )
        unseen = correction.unseen if unseen is None else unseen
        check_choice("unseen", unseen, ("replay", "keep", "error"))
        correction = replace(correction, unseen=unseen)
        known = correction.patterns
        combinations = with_unlisted(known, correction.folded)
        if unseen == "replay":
            combinations = every_combination(known)
        lines = _map_lines(correction.replay(combinations))
        maps = {line: i for i, line in enumerate(dict.fromkeys(lines))}
        keys = [" ".join(map(str, row)) for row in combinations.table.tolist()]
        return cls(
            about={"exported_by": f"propcal {__version__}", **json.loads(correction.to_json())["about"]},
            columns=list(known.reads),
            numeric=sized_columns(known.derived),
            attributes=[
                _Places(
                    name, known.places(a), len(known.levels[a]), name in correction.folded, doubles_in
                ).table(known.derived.get(name))
                for a, name in enumerate(known.attributes)
            ],
            patterns=[f"{key}={maps[line]}" for key, line in zip(keys, lines)],
            knots=knots().tolist() if correction.start is not None else [],
            maps=list(maps),
            unseen=unseen,
            vectors=vectors(correction),
        )


def _map_lines(maps: PatternMaps) -> list[str]:
    """Each map as a line of text, which a scorer reads when the first person needs it."""
    pieces = [maps.begin.tolist(), maps.slope.tolist(), maps.offset.tolist()]
    lines = []
    for p, curve in enumerate(maps.smooth.tolist()):
        numbers = zip(*(column[maps.starts[p] : maps.starts[p + 1]] for column in pieces))
        lines.append(" ".join(map(str, curve)) + "|" + " ".join(str(n) for piece in numbers for n in piece))
    return lines


@dataclass(frozen=True)
class _Places:
    """Writes how the place of one attribute's level is found."""

    name: str
    place: Mapping[Level, int]  # where all levels are truth values, also of 1 and 0
    other: int
    folded: bool
    doubles_in: str

    def table(self, recipe: Ranges | Where | None) -> Table:
        place, other = self.place, self.other
        if isinstance(recipe, Where):
            return {
                "name": self.name,
                "test": self._test(recipe.condition),
                "places": [place.get("false", other), place.get("true", other)],
            }
        if isinstance(recipe, Ranges):
            return {
                "name": self.name,
                "column": recipe.column,
                "points": list(recipe.points),
                "places": [place.get(label, other) for label in recipe.labels],
                "missing": place.get(None, other),
            }
        texts = [level for level in place if level is not None]
        return {
            "name": self.name,
            "column": self.name,
            "texts": texts,
            "text_places": [place[text] for text in texts],
            **self._numbers(texts, [place[text] for text in texts]),
            "missing": place.get(None, other),
            "other": other,
            "reported": int(not self.folded),
        }

    def _numbers(self, texts: Iterable[str], places: Iterable[int]) -> Table:
        """The texts that a number can have as its level, as numbers, with their places."""
        found = [
            (number, place) for t, place in zip(texts, places) if (number := self._number(t)) is not None
        ]
        return {"numbers": [n for n, _ in found], "number_places": [place for _, place in found]}

    def _number(self, text: str) -> float | None:
        infinite = text in ("inf", "-inf")
        if not infinite and DECIMAL.fullmatch(text) is None:
            return None
        number = float(text)
        exact = not infinite and level_key(number) == text and abs(number) <= MOST_WHOLE
        if not exact and (infinite or self.doubles_in):
            language = self.doubles_in or "Python"
            raise InputError(
                f"{self.name!r} has the level {text}, a number that {language} cannot hold exactly",
                next_step="Make it a text, such as a code with a letter, and fit again",
            )
        return number if exact else None

    def _test(self, condition: Condition) -> list[Any]:
        if isinstance(condition, Not):
            return ["not", self._test(condition.part)]
        if not isinstance(condition, ColumnTest):
            return [condition.op, *map(self._test, condition.parts)]
        if condition.op in COMPARE:
            return [condition.op, condition.column, float(condition.values[0])]
        if condition.op == "missing":
            return ["missing", condition.column]
        wanted = ["true"] if condition.op == "holds" else sorted(wanted_keys(condition))
        numbers = self._numbers(wanted, range(len(wanted)))["numbers"]
        return ["not in" if condition.op == "!=" else "in", condition.column, wanted, numbers]
