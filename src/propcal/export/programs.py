"""A correction as the tables that a one-file scorer holds, the same in every language.

A scorer finds the place of a person's level of each attribute, looks the combination of
places up, and gives the score to the map of that combination: a curve through the
knots, then pieces of slope 0 or 1. Between the two, points multiply the odds: the place
of a person's level or range of each feature gives a factor. Each language has a
template, and its way to write texts, numbers and lists.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from propcal import __version__
from propcal.core.arguments import Unseen, check_choice
from propcal.core.conditions import (
    BY_SIZE,
    ColumnTest,
    Condition,
    Not,
    is_numeric,
    tests_of,
)
from propcal.core.correction.correction import Correction
from propcal.core.correction.maps import PatternMaps, start_reaches
from propcal.core.correction.points_table import multiply
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, FloatArray, IntArray
from propcal.errors import InputError, UnknownLevelWarning, UnseenError, refused
from propcal.export.column_levels import combinations
from propcal.reading.levels import DECIMAL, TRUTHS, level_key, wanted_keys
from propcal.reading.rows import rows_to_score
from propcal.scoring.places import Finder, attribute_finders, feature_finder

MOST_WHOLE = (
    1 << 53
)  # above it, whole numbers have neighbours that a double cannot tell apart
Table = dict[str, Any]
TEMPLATES = Path(__file__).parent / "templates"
N_VECTORS = 300
MOST_TRIED = 3_000
NO_LEVEL = "(a value that is no level)"
Value = str | float | bool | None
# one row on each line
LISTED = ("attributes", "features", "vectors")
LINES = ("patterns", "maps")


def program(
    correction: Correction, unseen: Unseen | None, *, doubles_in: str = ""
) -> Table:
    """Compile a correction; `doubles_in` names a language in which every number is a
    double.

    Returns
    -------
    dict
        about : dict
            What the correction knows about itself.
        columns, numeric : list of str
            The columns that it reads, and those of them that must be numbers.
        attributes : list of dict
            How the place of a level is found: by `texts` and `numbers`, `cuts` of a
            number, or a `test`; and which places are of levels that did not occur in
            fitting (`unseen`).
        features : list of dict
            The same for each feature with points, and its `factors` by place.
        patterns : list of str
            Places of the levels, separated by spaces, and after "=" the number of the
            map.
        knots : list of int
            The scores at which curves are given, in units of 2**-32.
        maps : list of str
            The curve (empty: none), and after "|" begin, slope and offset of each
            piece.
        unseen : "replay", "keep" or "error"
            What happens to a combination that is not listed; with "replay" all are.
        vectors : list of lists
            A score, values of the columns, and the corrected score.
    """
    unseen = correction.unseen if unseen is None else unseen
    check_choice("unseen", unseen, ("replay", "keep", "error"))
    correction = replace(correction, unseen=unseen)
    known = correction.patterns
    listed = combinations(correction, unseen)
    lines = _map_lines(correction.replay(listed))
    maps = {line: i for i, line in enumerate(dict.fromkeys(lines))}
    keys = [" ".join(map(str, row)) for row in listed.table.tolist()]
    attributes = [
        _Writer(finder, doubles_in).table(
            unseen=[] if finder.name in correction.folded else [len(levels)]
        )
        for finder, levels in zip(attribute_finders(known), known.levels)
    ]
    features = [
        _Writer(feature_finder(one), doubles_in).table(
            factors=one.factors.tolist(), unseen=one.unseen_codes
        )
        for one in correction.features
    ]
    return {
        "about": {
            "exported_by": f"propcal {__version__}",
            **json.loads(correction.to_json())["about"],
        },
        "columns": list(correction.reads),
        "numeric": correction.numeric,
        "attributes": attributes,
        "features": features,
        "patterns": [f"{key}={maps[line]}" for key, line in zip(keys, lines)],
        "knots": knots().tolist() if correction.start is not None else [],
        "maps": list(maps),
        "unseen": unseen,
        "vectors": vectors(correction),
    }


def _map_lines(maps: PatternMaps) -> list[str]:
    """Each map as a line of text, which a scorer reads when the first person needs
    it.
    """
    return [
        " ".join(map(str, curve))
        + "|"
        + " ".join(map(str, maps.table(p).T.ravel().tolist()))
        for p, curve in enumerate(maps.smooth.tolist())
    ]


@dataclass(frozen=True)
class _Writer:
    """Writes how the place of a person's level of an attribute or feature is found."""

    finder: Finder
    doubles_in: str

    def table(self, **more: Any) -> Table:
        """The places, with `more` about them."""
        finder, places = self.finder, list(self.finder.places)
        if finder.condition is not None:
            return {
                "name": finder.name,
                "test": self._test(finder.condition),
                "places": places,
                **more,
            }
        column: Table = {"name": finder.name, "column": finder.column}
        if finder.cuts is None:
            column |= {"texts": list(finder.texts), "text_places": places}
            column |= {**self._numbers(finder.texts, places), "missing": finder.missing}
            return {**column, "other": finder.other, **more}
        cuts, places = (
            (list(finder.cuts), places) if finder.cuts else ([0.0], [0, 0])
        )  # a cut without effect
        return {
            **column,
            "cuts": cuts,
            "places": places,
            "missing": finder.missing,
            **more,
        }

    def _numbers(self, texts: Iterable[str], places: Iterable[int]) -> Table:
        """The texts that a number can have as its level, as numbers, with their
        places.
        """
        found = [
            (number, place)
            for t, place in zip(texts, places)
            if (number := self._number(t)) is not None
        ]
        return {
            "numbers": [n for n, _ in found],
            "number_places": [place for _, place in found],
        }

    def _number(self, text: str) -> float | None:
        infinite = text in ("inf", "-inf")
        if not infinite and DECIMAL.fullmatch(text) is None:
            return None
        number = float(text)
        exact = not infinite and level_key(number) == text and abs(number) <= MOST_WHOLE
        if not exact and (infinite or self.doubles_in):
            name = self.finder.name
            language = self.doubles_in or "Python"
            raise refused("inexact level", name=name, text=text, language=language)
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
        return [
            "not in" if condition.op == "!=" else "in",
            condition.column,
            wanted,
            numbers,
        ]


def _r(value: Any) -> str:
    """R for a value; lists of numbers or of texts become vectors."""
    if value is None or isinstance(value, bool):
        return {None: "NA", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return _r_text(value)
    if isinstance(value, int) or (
        isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53
    ):
        return str(int(value))
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return f"list({', '.join(f'{_r_text(key)} = {_r(one)}' for key, one in value.items())})"
    kinds = {type(one) for one in value}
    return f"{'c' if kinds == {str} or kinds <= {int, float} else 'list'}({', '.join(map(_r, value))})"


def _r_text(text: str) -> str:
    if "\0" in text:
        raise InputError(f"R cannot hold a text with a NUL character: {text[:40]!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", escaped) + '"'
    )


@dataclass(frozen=True)
class Language:
    """How a language is written: names of its files, values, and its name if all of its
    numbers are doubles.

    Names and texts of a correction become values of the language, never parts of a
    comment, so that no file can bring code of its own.
    """

    ending: str
    value: Callable[[Any], str]
    doubles_in: str = ""


LANGUAGES = {
    "python": Language("py", ascii),
    "javascript": Language("js", json.dumps, "JavaScript"),
    "r": Language("R", _r, "R"),
}
# tables of which each row is a statement, because Rscript reads long ones slowly
R_STATEMENTS = {"maps": "MAPS[{}] <- {}", "vectors": "VECTORS[[{}]] <- {}"}


def export_code(
    correction: Correction, language: str, *, unseen: Unseen | None = None
) -> str:
    """Build the result of `Correction.to_code`."""
    check_choice("language", language, tuple(LANGUAGES))
    how = LANGUAGES[language]
    tables = program(correction, unseen, doubles_in=how.doubles_in)
    parts = {
        name: how.value(value)
        for name, value in tables.items()
        if name not in LISTED + LINES
    }
    parts |= {
        name: ",\n".join(f"  {how.value(row)}" for row in tables[name])
        for name in LISTED
    }
    parts |= {name: "\n".join(tables[name]) for name in LINES}
    for name, form in R_STATEMENTS.items() if language == "r" else ():
        parts[name] = "\n".join(
            form.format(i, how.value(row)) for i, row in enumerate(tables[name], 1)
        )
    parts["n_vectors"] = f"{len(tables['vectors']):,}"
    template = (TEMPLATES / f"scorer.{how.ending}.txt").read_text(encoding="utf-8")
    return re.sub(r"@(\w+)@", lambda found: parts[found[1]], template)


def vectors(correction: Correction) -> list[list[Any]]:
    """A score, values of the columns in their order, and the corrected score, for many
    people.

    They are random combinations of the values that matter, with scores at breakpoints
    and next to them. A combination that the correction refuses is left out.
    """
    rng = np.random.default_rng(0)
    values = {
        column: values_that_matter(correction, column) for column in correction.reads
    }
    found: list[list[Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownLevelWarning)
        for _ in range(MOST_TRIED):
            person: dict[str, Any] = {
                column: some[rng.integers(len(some))] for column, some in values.items()
            }
            score = float(rng.choice(near_breakpoints(correction, person)))
            with suppress(UnseenError):
                found.append(
                    [
                        score,
                        list(person.values()),
                        correction.score_one(score, **person),
                    ]
                )
            if len(found) == N_VECTORS:
                break
    return found


def near_breakpoints(correction: Correction, person: Mapping[str, Value]) -> FloatArray:
    """The scores at which one person's map goes on differently, and their neighbours.

    A neighbour is a unit, half a unit or one bit away. Points multiply the odds between
    curve and pieces.
    """
    columns = {column: [value] for column, value in person.items()}
    rows = rows_to_score([0.5], columns, correction)
    maps, place = next(iter(correction.maps_of(rows.patterns, unseen="replay")))
    raw = maps.table(int(place[0]))[0]
    curve = maps.smooth[place[0]]
    if correction.points is not None:
        raw = _before_points(raw, correction.points.odds(rows.codes)[0])
    if len(curve):
        raw = np.union1d(knots(), start_reaches(raw, knots(), curve))
    on = np.concatenate([raw, raw - 1, raw + 1, raw - 0.5, raw + 0.5]) / UNIT
    near = np.concatenate([on, np.nextafter(on, -1), np.nextafter(on, 2)])
    return np.unique(near[(near >= 0) & (near <= 1)])


def _before_points(units: IntArray, odds: float) -> IntArray:
    """The first units that points take to each of these units or above it."""
    low = np.zeros_like(units)
    high = np.full_like(units, UNIT)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = multiply(middle, np.full(len(middle), odds)) >= units
        low = np.where(reached, low, middle + 1)
        high = np.where(reached, middle, high)
    return low


def values_that_matter(correction: Correction, column: str) -> list[Value]:
    """A missing value, levels, cut points and what conditions compare with, and values
    next to them.
    """
    finders = [
        *map(feature_finder, correction.features),
        *attribute_finders(correction.patterns),
    ]
    readers = [finder for finder in finders if finder.column == column]
    conditions = [
        finder.condition for finder in finders if finder.condition is not None
    ]
    tests = [
        test
        for condition in conditions
        for test in tests_of(condition)
        if test.column == column
    ]
    sizes = [cut for finder in readers for cut in finder.cuts or ()]
    sizes += [float(test.values[0]) for test in tests if test.op in BY_SIZE]
    texts = [text for finder in readers for text in finder.texts]
    texts += [
        text for test in tests if test.op in ("=", "!=", "in") for text in test.values
    ]
    numeric = column in correction.numeric
    values: list[Value] = [None] if numeric else [None, NO_LEVEL, 12345, True]
    for number in sizes:
        values += [
            number,
            math.nextafter(number, -math.inf),
            math.nextafter(number, math.inf),
        ]
    for text in texts:
        values += [] if numeric else [text, f" {text.upper()} "]
        values += (
            [text == "true"]
            if text in TRUTHS
            else [float(text)]
            if is_numeric(text)
            else []
        )
    return values
