"""A correction as the tables that a one-file scorer holds, the same in every language.

A scorer finds the place of a person's level of each attribute, looks the combination of places up, and gives
the score to the map of that combination: a curve through the knots, then pieces of slope 0 or 1. Between the
two, points multiply the odds: the place of a person's level or range of each feature gives a factor. Each
language has a template, and its way to write texts, numbers and lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from propcal import __version__
from propcal.core.choices import Unseen
from propcal.core.correction.correction import Correction
from propcal.core.correction.maps import PatternMaps
from propcal.core.correction.points_table import FeaturePoints
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import check_choice
from propcal.core.groups.recipes import BY_SIZE, ColumnTest, Condition, Not, Ranges, Where
from propcal.core.patterns import Level, with_unlisted
from propcal.data.levels import DECIMAL, level_key, wanted_keys
from propcal.errors import InputError
from propcal.scorers.vectors import vectors
from propcal.sql.column_levels import every_combination

MOST_WHOLE = 1 << 53  # above it, whole numbers have neighbours that a double cannot tell apart
Table = dict[str, Any]
TEMPLATES = Path(__file__).parent / "templates"
LISTED, LINES = ("attributes", "features", "vectors"), ("patterns", "maps")  # one row on each line


def program(correction: Correction, unseen: Unseen | None, *, doubles_in: str = "") -> Table:
    """Compile a correction; `doubles_in` names a language in which every number is a double.

    Returns
    -------
    dict
        about : dict
            What the correction knows about itself.
        columns, numeric : list of str
            The columns that it reads, and those of them that must be numbers.
        attributes : list of dict
            How the place of a level is found: by `texts` and `numbers`, `cuts` of a number, or a `test`; and
            which places are of levels that did not occur in fitting (`unseen`).
        features : list of dict
            The same for each feature with points, and its `factors` by place.
        patterns : list of str
            Places of the levels, separated by spaces, and after "=" the number of the map.
        knots : list of int
            The scores at which curves are given, in units of 2**-32.
        maps : list of str
            The curve (empty: none), and after "|" begin, slope and offset of each piece.
        unseen : "replay", "keep" or "error"
            What happens to a combination that is not listed; with "replay" all are.
        vectors : list of lists
            A score, values of the columns, and the corrected score.
    """
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
    attributes = []
    for a, name in enumerate(known.attributes):
        other = len(known.levels[a])
        table = _Finder(name, doubles_in).attribute(known.derived.get(name), known.places(a), other)
        attributes.append({**table, "unseen": [] if name in correction.folded else [other]})
    return {
        "about": {"exported_by": f"propcal {__version__}", **json.loads(correction.to_json())["about"]},
        "columns": list(correction.reads),
        "numeric": correction.numeric,
        "attributes": attributes,
        "features": [_Finder(feature.column, doubles_in).feature(feature) for feature in correction.features],
        "patterns": [f"{key}={maps[line]}" for key, line in zip(keys, lines)],
        "knots": knots().tolist() if correction.start is not None else [],
        "maps": list(maps),
        "unseen": unseen,
        "vectors": [list(vector) for vector in vectors(correction)],
    }


def _map_lines(maps: PatternMaps) -> list[str]:
    """Each map as a line of text, which a scorer reads when the first person needs it."""
    return [
        " ".join(map(str, curve)) + "|" + " ".join(map(str, maps.table(p).T.ravel().tolist()))
        for p, curve in enumerate(maps.smooth.tolist())
    ]


@dataclass(frozen=True)
class _Finder:
    """Writes how the place of a person's level of an attribute or feature is found."""

    name: str
    doubles_in: str

    def attribute(self, recipe: Ranges | Where | None, place: Mapping[Level, int], other: int) -> Table:
        """The places of an attribute; where all levels are truth values, `place` also has 1 and 0."""
        if isinstance(recipe, Where):
            places = [place.get("false", other), place.get("true", other)]
            return {"name": self.name, "test": self._test(recipe.condition), "places": places}
        missing = place.get(None, other)
        if isinstance(recipe, Ranges):
            places = [place.get(label, other) for label in recipe.labels]
            return self._ranges(recipe.column, recipe.points, places, missing)
        return self._levels(place, missing, other)

    def feature(self, feature: FeaturePoints) -> Table:
        """The places and factors of a feature."""
        n = len(feature.points)
        if feature.is_number:  # one cut point that makes no difference stands for none
            cuts, places = (feature.cuts, range(n)) if feature.cuts else ((0.0,), (0, 0))
            table = self._ranges(feature.column, cuts, places, n)
        else:
            table = self._levels({level: i for i, level in enumerate(feature.levels)}, n, n + 1)
        return {**table, "factors": feature.factors.tolist(), "unseen": feature.unseen_codes}

    def _ranges(self, column: str, cuts: Iterable[float], places: Iterable[int], missing: int) -> Table:
        named = {"name": self.name, "column": column}
        return {**named, "cuts": list(cuts), "places": list(places), "missing": missing}

    def _levels(self, place: Mapping[Level, int], missing: int, other: int) -> Table:
        texts = [level for level in place if level is not None]
        places = [place[text] for text in texts]
        return {
            "name": self.name,
            "column": self.name,
            "texts": texts,
            "text_places": places,
            **self._numbers(texts, places),
            "missing": missing,
            "other": other,
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
        if condition.op in BY_SIZE:
            return [condition.op, condition.column, float(condition.values[0])]
        if condition.op == "missing":
            return ["missing", condition.column]
        wanted = sorted(wanted_keys(condition))
        numbers = self._numbers(wanted, range(len(wanted)))["numbers"]
        return ["not in" if condition.op == "!=" else "in", condition.column, wanted, numbers]


def _r(value: Any) -> str:
    """R for a value; lists of numbers or of texts become vectors."""
    if value is None or isinstance(value, bool):
        return {None: "NA", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return _r_text(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53):
        return str(int(value))
    if isinstance(value, float):
        return value.hex()
    if not value:
        return "NULL"
    if isinstance(value, Mapping):
        return f"list({', '.join(f'{_r_text(key)} = {_r(one)}' for key, one in value.items())})"
    kinds = {type(one) for one in value}
    return f"{'c' if kinds == {str} or kinds <= {int, float} else 'list'}({', '.join(map(_r, value))})"


def _r_text(text: str) -> str:
    if "\0" in text:
        raise InputError(f"R cannot hold a text with a NUL character: {text[:40]!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", escaped) + '"'


@dataclass(frozen=True)
class Language:
    """How a language is written: names of its files, values, and whether all of its numbers are doubles.

    Names and texts of a correction become values of the language, never parts of a comment, so that no file
    can bring code of its own.
    """

    title: str
    ending: str
    value: Callable[[Any], str]
    doubles: bool = True


LANGUAGES = {
    "python": Language("Python", "py", ascii, doubles=False),
    "javascript": Language("JavaScript", "js", json.dumps),
    "r": Language("R", "R", _r),
}


def export_code(correction: Correction, language: str, *, unseen: Unseen | None = None) -> str:
    """Build the result of `Correction.to_code`."""
    check_choice("language", language, tuple(LANGUAGES))
    how = LANGUAGES[language]
    tables = program(correction, unseen, doubles_in=how.title if how.doubles else "")
    parts = {name: how.value(value) for name, value in tables.items() if name not in LISTED + LINES}
    parts |= {name: ",\n".join(f"  {how.value(row)}" for row in tables[name]) for name in LISTED}
    parts |= {name: "\n".join(tables[name]) for name in LINES}
    parts["n_vectors"] = f"{len(tables['vectors']):,}"
    template = (TEMPLATES / f"scorer.{how.ending}.txt").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], template)
