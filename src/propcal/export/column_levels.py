"""SQL that computes the levels of columns and the number of a person's pattern; agrees
with `level_key`.

A level is a canonical text, but databases write 1, 1.0 and true in different ways. A
column is therefore first converted to its canonical text, depending on its kind, and
that text is compared with levels and in conditions. A missing value (NULL, or a number
that is NaN) has no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np

from propcal.core.arguments import check_choice
from propcal.core.conditions import (
    BY_SIZE,
    ColumnTest,
    Condition,
    Not,
    Ranges,
    Where,
    is_numeric,
    tests_of,
)
from propcal.core.correction.correction import Correction
from propcal.core.correction.points_table import FeaturePoints
from propcal.core.grid import IntArray
from propcal.core.patterns import Level, Patterns, with_unlisted
from propcal.errors import Argument, InputError, refused
from propcal.export.dialects import Dialect
from propcal.reading.levels import DECIMAL, TRUTHS, level_key, wanted_keys
from propcal.scoring.places import Finder, attribute_finders

KINDS = ("text", "number", "boolean")
OTHER_NUMBER = "a number that is no level"
MOST_PATTERNS = 10_000
MOST_WHOLE = 9 * 10**18  # whole numbers up to here fit into 64 bits


@dataclass(frozen=True)
class Reader:
    """Writes SQL that reads the columns of one table.

    `alias` is the prefix of every column, `names` has the names of columns in the
    database, and `kinds` the kind of values in them.
    """

    dialect: Dialect
    patterns: Patterns
    alias: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[FeaturePoints] = ()

    def __post_init__(self) -> None:
        reads = [*self.patterns.reads, *(feature.column for feature in self.features)]
        for option, given in (("columns", self.names), ("types", self.kinds)):
            for column in given:
                if column not in reads:
                    known = list(dict.fromkeys(reads))
                    raise refused(
                        "sql reads no such column",
                        option=option,
                        column=column,
                        reads=known,
                    )
        for column, kind in self.kinds.items():
            check_choice(Argument("types") + f": the type of {column!r}", kind, KINDS)

    def column(self, column: str) -> str:
        """A quoted column."""
        return self.alias + self.dialect.identifier(self.names.get(column, column))

    def kind(self, column: str) -> str:
        """The kind of values in a column: as given, or "auto" if the database can tell,
        or by its levels.
        """
        if column in self.kinds:
            return self.kinds[column]
        texts = {
            text for text in self._compared(column, as_written=True) if text is not None
        }
        truths = bool(texts) and texts <= {*TRUTHS}
        if self.dialect.is_fraction and not (truths and not self.dialect.has_truths):
            return "auto"
        if truths:
            return "boolean"
        if texts and all(is_numeric(text) for text in texts):
            return "number"
        return "text"

    def _tests(self, column: str) -> Iterator[ColumnTest]:
        for recipe in self.patterns.derived.values():
            if isinstance(recipe, Where):
                yield from (
                    test for test in tests_of(recipe.condition) if test.column == column
                )

    def _compared(self, column: str, *, as_written: bool = False) -> list[Level]:
        """Every text with which a column is compared."""
        found: list[Level] = []
        if column in self.patterns.attributes and column not in self.patterns.derived:
            a = self.patterns.attributes.index(column)
            found += self.patterns.levels[a] if as_written else self.patterns.places(a)
        for test in self._tests(column):
            found += (
                test.values
                if as_written
                else []
                if test.op in BY_SIZE
                else sorted(wanted_keys(test))
            )
        for feature in self.features:
            found += feature.levels if feature.column == column else ()
        return found

    def key(self, column: str) -> str:
        """The canonical text of a column; NULL if it is missing."""
        d = self.dialect
        c = self.column(column)
        kind = self.kind(column)
        if kind == "boolean":
            truth = d.truth.format(c=c)
            return d.exact_text.format(
                x=truth if d.has_truths else self._text_key(column, truth)
            )
        if kind == "number":
            return d.exact_text.format(x=self._number_key(column, d.number.format(c=c)))
        plain = self._text_key(column, f"CAST({c} AS {d.string})")
        if kind == "auto":
            number = self._number_key(column, d.fraction.format(c=c))
            plain = (
                f"CASE WHEN {d.is_fraction.format(c=c)} THEN {number} ELSE {plain} END"
            )
        return d.exact_text.format(x=plain)

    def _text_key(self, column: str, text: str) -> str:
        """A text, or the truth value or number that it spells if it is compared with
        such a level.
        """
        d = self.dialect
        compared = dict.fromkeys(t for t in self._compared(column) if t is not None)
        truths = [t for t in compared if t in TRUTHS]
        numbers = [t for t in compared if DECIMAL.fullmatch(t)]
        bare = d.bare.format(x=text)
        arms = ""
        if truths:
            word = f"LOWER({bare})"
            arms += f" WHEN {word} IN ({', '.join(map(d.text, truths))}) THEN {word}"
        if numbers:
            # remove trailing zeros; a text with two points is not a number
            short = d.no_zeros.format(x=bare)
            one = f"CASE WHEN {bare} LIKE '%.%' AND {bare} NOT LIKE '%.%.%' THEN {short} ELSE {bare} END"
            arms += f" WHEN ({one}) IN ({', '.join(map(d.text, numbers))}) THEN ({one})"
            if "0" in numbers:
                arms += f" WHEN ({one}) = '-0' THEN '0'"
        return f"CASE{arms} ELSE {text} END" if arms else text

    def _number_key(self, column: str, x: str) -> str:
        """Whole numbers without a point, and other numbers with which the column is
        compared.
        """
        d = self.dialect
        others = dict.fromkeys(
            t for t in self._compared(column) if t is not None and _is_written_out(t)
        )
        arms = "".join(
            f" WHEN {x} = {d.literal(float(t))} THEN {d.text(t)}" for t in others
        )
        return (
            f"CASE WHEN {d.is_whole.format(x=x)} AND ABS({x}) < {MOST_WHOLE} "
            f"THEN CAST(CAST({x} AS {d.whole}) AS {d.string}){arms} "
            f"WHEN {d.no_nan.format(x=x)} IS NOT NULL THEN {d.text(OTHER_NUMBER)} END"
        )

    def number(self, column: str) -> str:
        """A column as a double; NULL if it is missing."""
        if self.kind(column) == "boolean" and column in self.kinds:
            yes = self.dialect.key("true")
            no = self.dialect.key("false")
            return f"CASE {self.key(column)} WHEN {yes} THEN 1 WHEN {no} THEN 0 END"
        return self.dialect.no_nan.format(
            x=self.dialect.number.format(c=self.column(column))
        )

    def pattern(self) -> str:
        """The number of a person's pattern, whose digits are the positions of the
        levels.
        """
        patterns = self.patterns
        sizes = [len(levels) + 1 for levels in patterns.levels]
        if prod(sizes) >= 1 << 62:
            raise InputError(
                f"{len(sizes)} attributes have too many combinations of levels for SQL"
            )
        wide = prod(sizes) >= 1 << 31  # too many for 32-bit integers
        terms = []
        for a, finder in enumerate(attribute_finders(patterns)):
            factor = prod(sizes[a + 1 :])
            if wide:
                times = f"CAST({factor} AS {self.dialect.whole}) * "
            elif factor > 1:
                times = f"{factor} * "
            else:
                times = ""
            terms.append(times + self.of_place(finder))
        return " + ".join(terms) or "0"

    def of_place(self, finder: Finder, value: Callable[[int], str] = str) -> str:
        """The value of a person's place."""
        if finder.condition is not None:
            no, yes = map(value, finder.places)
            return f"CASE WHEN {self._condition(finder.condition)} THEN {yes} ELSE {no} END"
        missing = value(finder.missing)
        if finder.cuts is not None:
            x = self.number(finder.column)
            cuts = [self.dialect.literal(cut) for cut in finder.cuts]
            tests = [f"{x} < {cut}" for cut in cuts] + [
                f"{x} >= {cuts[-1]}" if cuts else f"{x} IS NOT NULL"
            ]
            arms = " ".join(
                f"WHEN {test} THEN {value(i)}" for test, i in zip(tests, finder.places)
            )
            return f"CASE {arms} ELSE {missing} END"
        key = self.key(finder.column)
        other = value(finder.other)
        if missing != other:
            rest = f"CASE WHEN {key} IS NULL THEN {missing} ELSE {other} END"
        else:
            rest = other
        levels = zip(map(self.dialect.key, finder.texts), finder.places)
        arms = " ".join(f"WHEN {level} THEN {value(i)}" for level, i in levels)
        return f"CASE {key} {arms} ELSE {rest} END" if arms else rest

    def _condition(self, condition: Condition) -> str:
        """SQL for a condition that is true or false, never NULL, so that NOT selects
        everyone else.
        """
        if isinstance(condition, ColumnTest):
            return self._test(condition)
        if isinstance(condition, Not):
            return f"NOT {self._condition(condition.part)}"
        joined = f" {condition.op.upper()} ".join(
            self._condition(part) for part in condition.parts
        )
        return f"({joined})"

    def _test(self, test: ColumnTest) -> str:
        if test.op in BY_SIZE:
            x = self.number(test.column)
            return f"({x} IS NOT NULL AND {x} {test.op} {self.dialect.literal(float(test.values[0]))})"
        key = self.key(test.column)
        if test.op == "missing":
            return f"({key} IS NULL)"
        wanted = ", ".join(map(self.dialect.key, sorted(wanted_keys(test))))
        return f"({key} IS NOT NULL AND {'NOT ' if test.op == '!=' else ''}{key} IN ({wanted}))"


def _is_written_out(text: str) -> bool:
    """Whether a text is the level of a number that is not whole, or of one too large
    for whole numbers.
    """
    if (
        DECIMAL.fullmatch(text) is None
        or not is_numeric(text)
        or level_key(float(text)) != text
    ):
        return False
    return "." in text or abs(int(text)) >= MOST_WHOLE


def combinations(correction: Correction, unseen: str) -> Patterns:
    """The combinations of levels that an export knows.

    With "replay" these are all, with one more position for any other level; otherwise
    those of the fit.
    """
    if unseen != "replay":
        return with_unlisted(correction.patterns, correction.folded)
    patterns = correction.patterns
    places = [_places(patterns, a) for a in range(len(patterns.attributes))]
    total = prod(len(found) for found in places)
    if total > MOST_PATTERNS:
        raise refused("too many combinations", total=total, most=MOST_PATTERNS)
    table = np.array(list(product(*places)), dtype=np.int64).reshape(total, len(places))
    return Patterns(patterns.attributes, patterns.levels, table, patterns.derived)


def _places(patterns: Patterns, a: int) -> range:
    """The positions of the levels of an attribute, with one for other levels if these
    are possible.
    """
    levels = patterns.levels[a]
    recipe = patterns.derived.get(patterns.attributes[a])
    possible: set[str | None] | None = None
    if isinstance(recipe, Where):
        possible = {"true", "false"}
    elif isinstance(recipe, Ranges):
        possible = {*recipe.labels, None}
    return range(len(levels) + (possible is None or not possible <= {*levels}))


def pattern_numbers(patterns: Patterns) -> IntArray:
    """The numbers of these patterns according to `Reader.pattern`."""
    numbers = np.zeros(len(patterns), dtype=np.int64)
    for levels, place in zip(patterns.levels, patterns.table.T):
        numbers = numbers * (len(levels) + 1) + place
    return numbers
