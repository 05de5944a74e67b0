"""SQL for the places of a person's levels, and for the number of their pattern.

It agrees with `level_key`. A level is a canonical text, but databases write 1, 1.0 and
true in different ways. A column is therefore first converted to its canonical text,
depending on its kind, and that text is compared with levels and in conditions. A
missing value (NULL, or a number that is NaN) has no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from propcal.core.arguments import check_choice
from propcal.core.conditions import BY_SIZE, ColumnTest, Where, is_numeric, tests_of
from propcal.core.grid import IntArray
from propcal.core.patterns import Level, Patterns
from propcal.errors import Argument, InputError, refused
from propcal.export.compiled_tables import CompiledTables
from propcal.export.dialects import Dialect
from propcal.reading.levels import DECIMAL, TRUTHS, level_key, wanted_keys
from propcal.scoring.level_finders import Finder, Test, canonical_test

KINDS = ("text", "number", "boolean")
OTHER_NUMBER = "a number that is no level"
MAX_WHOLE = 9 * 10**18  # whole numbers up to here fit into 64 bits
MAX_32_BITS = 1 << 31
MAX_COMBINATIONS = 1 << 62


@dataclass(frozen=True)
class LevelSql:
    """Writes SQL that reads the columns of one table.

    `alias` is the prefix of every column, `names` has the names of columns in the
    database, and `kinds` the kind of values in them.
    """

    dialect: Dialect
    tables: CompiledTables
    alias: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        features = [feature.column for feature in self.tables.features]
        reads = [*self.tables.patterns.reads, *features]
        self._refuse_other_columns("columns", self.names, reads)
        self._refuse_other_columns("types", self.kinds, reads)
        for column, kind in self.kinds.items():
            check_choice(Argument("types") + f": the type of {column!r}", kind, KINDS)

    @staticmethod
    def _refuse_other_columns(
        option: str, given: Mapping[str, str], reads: Sequence[str]
    ) -> None:
        for column in given:
            if column not in reads:
                raise refused(
                    "sql reads no such column",
                    option=option,
                    column=column,
                    reads=list(dict.fromkeys(reads)),
                )

    def column(self, column: str) -> str:
        """A quoted column."""
        return self.alias + self.dialect.identifier(self.names.get(column, column))

    def kind(self, column: str) -> str:
        """The kind of values in a column: as given, or "auto" if the database can tell,
        or by its levels.
        """
        if column in self.kinds:
            return self.kinds[column]
        texts = {text for text in self._compared_as_written(column) if text is not None}
        truths = bool(texts) and texts <= {*TRUTHS}
        truths_as_numbers = truths and not self.dialect.has_truths
        if self.dialect.is_fraction and not truths_as_numbers:
            return "auto"
        if truths:
            return "boolean"
        if texts and all(map(is_numeric, texts)):
            return "number"
        return "text"

    def _tests(self, column: str) -> Iterator[ColumnTest]:
        """The comparisons of a column in conditions."""
        for recipe in self.tables.patterns.derived.values():
            if isinstance(recipe, Where):
                tests = tests_of(recipe.condition)
                yield from (test for test in tests if test.column == column)

    def _compared_as_written(self, column: str) -> list[Level]:
        """Every text with which a column is compared, as users wrote it."""
        patterns = self.tables.patterns
        compared: list[Level] = []
        if column in patterns.attributes and column not in patterns.derived:
            compared += patterns.levels[patterns.attributes.index(column)]
        for test in self._tests(column):
            compared += test.values
        return compared + self._levels_of_features(column)

    def _compared(self, column: str) -> list[Level]:
        """Every canonical text with which a column is compared."""
        patterns = self.tables.patterns
        compared: list[Level] = []
        if column in patterns.attributes and column not in patterns.derived:
            compared += patterns.places(patterns.attributes.index(column))
        for test in self._tests(column):
            if test.op not in BY_SIZE:
                compared += sorted(wanted_keys(test))
        return compared + self._levels_of_features(column)

    def _levels_of_features(self, column: str) -> list[Level]:
        levels: list[Level] = []
        for feature in self.tables.features:
            if feature.column == column:
                levels += feature.texts
        return levels

    def key(self, column: str) -> str:
        """The canonical text of a column; NULL if it is missing."""
        d = self.dialect
        c = self.column(column)
        kind = self.kind(column)
        if kind == "boolean":
            truth = d.truth.format(c=c)
            if not d.has_truths:
                truth = self._text_key(column, truth)
            return d.exact_text.format(x=truth)
        if kind == "number":
            return d.exact_text.format(x=self._number_key(column, d.number.format(c=c)))

        text = self._text_key(column, f"CAST({c} AS {d.string})")
        if kind == "auto":
            number = self._number_key(column, d.fraction.format(c=c))
            is_fraction = d.is_fraction.format(c=c)
            text = f"CASE WHEN {is_fraction} THEN {number} ELSE {text} END"
        return d.exact_text.format(x=text)

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
            has_point = f"{bare} LIKE '%.%' AND {bare} NOT LIKE '%.%.%'"
            number = f"(CASE WHEN {has_point} THEN {short} ELSE {bare} END)"
            arms += f" WHEN {number} IN ({', '.join(map(d.text, numbers))})"
            arms += f" THEN {number}"
            if "0" in numbers:
                arms += f" WHEN {number} = '-0' THEN '0'"
        return f"CASE{arms} ELSE {text} END" if arms else text

    def _number_key(self, column: str, x: str) -> str:
        """Whole numbers without a point, and other numbers with which the column is
        compared.
        """
        d = self.dialect
        others = [t for t in self._compared(column) if t and _is_written_out(t)]
        arms = ""
        for text in dict.fromkeys(others):
            arms += f" WHEN {x} = {d.literal(float(text))} THEN {d.text(text)}"
        is_whole = f"{d.is_whole.format(x=x)} AND ABS({x}) < {MAX_WHOLE}"
        whole = f"CAST(CAST({x} AS {d.whole}) AS {d.string})"
        is_number = f"{d.no_nan.format(x=x)} IS NOT NULL"
        other = d.text(OTHER_NUMBER)
        return (
            f"CASE WHEN {is_whole} THEN {whole}{arms} WHEN {is_number} THEN {other} END"
        )

    def number(self, column: str) -> str:
        """A column as a double; NULL if it is missing."""
        d = self.dialect
        if self.kind(column) == "boolean" and column in self.kinds:
            yes = d.key("true")
            no = d.key("false")
            return f"CASE {self.key(column)} WHEN {yes} THEN 1 WHEN {no} THEN 0 END"
        return d.no_nan.format(x=d.number.format(c=self.column(column)))

    def pattern(self) -> str:
        """The number of a person's pattern, whose digits are the places of the
        levels.
        """
        sizes = [len(levels) + 1 for levels in self.tables.patterns.levels]
        if prod(sizes) >= MAX_COMBINATIONS:
            raise InputError(
                f"{len(sizes)} attributes have too many combinations of levels for SQL"
            )
        needs_64_bits = prod(sizes) >= MAX_32_BITS
        terms = []
        for a, finder in enumerate(self.tables.attributes):
            factor = prod(sizes[a + 1 :])
            if needs_64_bits:
                times = f"CAST({factor} AS {self.dialect.whole}) * "
            elif factor > 1:
                times = f"{factor} * "
            else:
                times = ""
            terms.append(times + self.of_place(finder))
        return " + ".join(terms) or "0"

    def odds(self) -> str:
        """What a person's odds are multiplied by: a factor for each feature; empty
        without features.
        """
        factors = []
        for feature in self.tables.features:
            literals = [self.dialect.literal(factor) for factor in feature.factors]
            factors.append(f"({self.of_place(feature, literals.__getitem__)})")
        return " * ".join(factors)

    def of_place(self, finder: Finder, value: Callable[[int], str] = str) -> str:
        """The value of a person's place."""
        if finder.condition is not None:
            no, yes = map(value, finder.places)
            holds = self._holds(canonical_test(finder.condition))
            return f"CASE WHEN {holds} THEN {yes} ELSE {no} END"
        if finder.cuts is not None:
            return self._of_range(finder, finder.cuts, value)
        return self._of_level(finder, value)

    def _of_range(
        self, finder: Finder, cuts: Sequence[float], value: Callable[[int], str]
    ) -> str:
        """The value of the range that a number is in."""
        x = self.number(finder.column)
        limits = [self.dialect.literal(cut) for cut in cuts]
        tests = [f"{x} < {limit}" for limit in limits]
        if limits:
            tests.append(f"{x} >= {limits[-1]}")
        else:
            tests.append(f"{x} IS NOT NULL")
        arms = [f"WHEN {t} THEN {value(p)}" for t, p in zip(tests, finder.places)]
        return f"CASE {' '.join(arms)} ELSE {value(finder.missing)} END"

    def _of_level(self, finder: Finder, value: Callable[[int], str]) -> str:
        """The value of a level."""
        key = self.key(finder.column)
        missing = value(finder.missing)
        rest = value(finder.other)
        if missing != rest:
            rest = f"CASE WHEN {key} IS NULL THEN {missing} ELSE {rest} END"
        arms = []
        for text, place in zip(finder.texts, finder.places):
            arms.append(f"WHEN {self.dialect.key(text)} THEN {value(place)}")
        return f"CASE {key} {' '.join(arms)} ELSE {rest} END" if arms else rest

    def _holds(self, test: Test) -> str:
        """SQL for a test that is true or false, never NULL, so that NOT selects
        everyone else.
        """
        kind = test[0]
        if kind in ("and", "or"):
            joined = f" {kind.upper()} ".join(map(self._holds, test[1:]))
            return f"({joined})"
        if kind == "not":
            return f"NOT {self._holds(test[1])}"

        column = test[1]
        if kind in BY_SIZE:
            x = self.number(column)
            return f"({x} IS NOT NULL AND {x} {kind} {self.dialect.literal(test[2])})"
        key = self.key(column)
        if kind == "missing":
            return f"({key} IS NULL)"
        texts = ", ".join(map(self.dialect.key, test[2]))
        is_in = f"NOT {key} IN" if kind == "not in" else f"{key} IN"
        return f"({key} IS NOT NULL AND {is_in} ({texts}))"


def _is_written_out(text: str) -> bool:
    """Whether a text is the level of a number that is not whole, or of one too large
    for whole numbers.
    """
    if DECIMAL.fullmatch(text) is None or not is_numeric(text):
        return False
    if level_key(float(text)) != text:
        return False
    return "." in text or abs(int(text)) >= MAX_WHOLE


def pattern_numbers(patterns: Patterns) -> IntArray:
    """The numbers of these patterns according to `LevelSql.pattern`."""
    numbers = np.zeros(len(patterns), dtype=np.int64)
    for levels, place in zip(patterns.levels, patterns.table.T):
        numbers = numbers * (len(levels) + 1) + place
    return numbers
