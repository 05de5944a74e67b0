"""Attributes made from columns: ranges of a number, or conditions.

A condition compares a column with a value by ``=`` (or ``==``), ``!=``, ``<``, ``<=``,
``>``, ``>=``, ``in [a, b]``, ``not in [a, b]``, ``is missing`` or ``is not missing``; a
column by itself must hold truth values. Conditions can be combined with ``and``,
``or``, ``not`` and parentheses. Put column names with spaces in `backquotes` and texts
with spaces in quotes. Conditions are never passed to Python's ``eval``.

`meets` says who meets a condition, wherever it is evaluated: ``<``, ``<=``, ``>`` and
``>=`` compare numbers; ``=``, ``!=``, ``in`` and a column by itself compare levels (see
`propcal.reading.levels`). A missing value passes no test but ``is missing``, so that
``not ward = ICU`` holds for it and ``ward != ICU`` does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import and_, ge, gt, le, lt, or_
from typing import Any, Protocol

from propcal.errors import InputError, PropcalError, is_unicode, plain, refused

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number>{_NUMBER}(?![\w.]))
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | `(?P<name>[^`]+)`
    | (?P<op><=|>=|!=|==|=|<|>)
    | (?P<mark>[()\[\],])
    | (?P<word>[^\W\d]\w*)
    )""",
    re.VERBOSE,
)
# Readers of a condition are recursive, and database engines have limits of their own.
MOST_DEPTH = 50
MOST_TESTS = 1_000
MOST_SHOWN = 200  # characters of a condition in an error
# database engines have limits of their own
MOST_CUTS = 200
MOST_CUTS_SHOWN = 20
# of a number; double precision ends near 1e308 and 1e-324
MOST_DIGITS = 400
MOST_EXPONENT = 400
COMPARE: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
BY_SIZE = tuple(COMPARE)  # what compares numbers
_WORDS = ("and", "or", "not", "in", "is", "missing")


@dataclass(frozen=True)
class ColumnTest:
    """One column compared with values; `op` is =, !=, <, <=, >, >=, in, missing or
    holds.
    """

    column: str
    op: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = self.column
        is_word = re.fullmatch(r"[^\W\d]\w*", name) is not None
        if not is_word or name.lower() in _WORDS:
            name = f"`{name}`"
        if self.op == "holds":
            return name
        if self.op == "missing":
            return f"{name} is missing"
        if self.op == "in":
            return f"{name} in [{', '.join(map(_write, self.values))}]"
        return f"{name} {self.op} {_write(self.values[0])}"


@dataclass(frozen=True)
class Not:
    """The people for whom a condition does not hold."""

    part: Condition

    def __str__(self) -> str:
        return f"not ({self.part})"


@dataclass(frozen=True)
class Combined:
    """Several conditions joined by "and" or by "or"."""

    op: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        texts = []
        for part in self.parts:
            text = str(part)
            texts.append(f"({text})" if isinstance(part, Combined) else text)
        return f" {self.op} ".join(texts)


Condition = ColumnTest | Not | Combined


def tests_of(condition: Condition) -> Iterator[ColumnTest]:
    """The single comparisons in a condition, in order."""
    if isinstance(condition, ColumnTest):
        yield condition
    elif isinstance(condition, Not):
        yield from tests_of(condition.part)
    else:
        for part in condition.parts:
            yield from tests_of(part)


def columns_of(condition: Condition) -> list[str]:
    """The columns that a condition reads, without duplicates."""
    return list(dict.fromkeys(test.column for test in tests_of(condition)))


class TestedColumn(Protocol):
    """The column of a test, as an array of rows or as an expression of an engine."""

    def missing(self) -> Any:
        """Which values are missing; never null."""

    def compares(self, compare: Callable[[Any, Any], Any], limit: float) -> Any:
        """Which values are numbers on this side of a limit; no missing value is."""

    def is_wanted(self) -> Any:
        """Which values have a level that the test asks for; undefined for missing
        ones.
        """


def meets(condition: Condition, column_of: Callable[[ColumnTest], TestedColumn]) -> Any:
    """Who meets a condition, from the columns of its tests."""
    if isinstance(condition, ColumnTest):
        return _passes(condition, column_of(condition))
    if isinstance(condition, Not):
        return ~meets(condition.part, column_of)
    parts = [meets(part, column_of) for part in condition.parts]
    return join_in_pairs(parts, and_ if condition.op == "and" else or_)


def _passes(test: ColumnTest, column: TestedColumn) -> Any:
    if test.op in COMPARE:
        return column.compares(COMPARE[test.op], float(test.values[0]))
    if test.op == "missing":
        return column.missing()
    wanted = column.is_wanted()
    if test.op == "!=":
        return ~column.missing() & ~wanted
    return ~column.missing() & wanted


def join_in_pairs(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join several arrays or expressions in pairs, because engines refuse expressions
    that are nested too deeply.
    """
    half = len(parts) // 2
    if half:
        return join(
            join_in_pairs(parts[:half], join), join_in_pairs(parts[half:], join)
        )
    return parts[0]


def parse(text: str) -> Condition:
    """Parse a condition.

    >>> print(parse("age >= 75 and (insurance = Medicare or insurance = 'Tricare 2')"))
    age >= 75 and (insurance = 'Medicare' or insurance = 'Tricare 2')
    >>> columns_of(parse("not ward in [ICU, CCU] and `blood pressure` is not missing"))
    ['ward', 'blood pressure']
    """
    if not isinstance(text, str):
        raise refused("no condition", kind=type(text).__name__)
    if not is_unicode(text):
        raise refused("condition not unicode")
    return _Parser(text).read()


def is_numeric(value: str) -> bool:
    """Whether a value can be compared as a number.

    Numbers beyond double precision cannot: written out, 1e-100000000 would take 100 MB.
    """
    if len(value) > MOST_DIGITS or re.fullmatch(_NUMBER, value) is None:
        return False
    exponent = value.lower().partition("e")[2]
    return abs(int(exponent or 0)) <= MOST_EXPONENT and math.isfinite(float(value))


def _write(value: str) -> str:
    if is_numeric(value):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class _Parser:
    """Recursive descent over the tokens, one method for each level of precedence."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._split())
        self.at = 0
        self.depth = 0
        self.n_tests = 0

    def _split(self) -> Iterator[tuple[str, str]]:
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise self._wrong(f"cannot read {text[position:].strip()[:20]!r}")
            position = token.end()
            kind = str(token.lastgroup)
            yield kind, token.group(kind)

    def _wrong(self, why: str) -> PropcalError:
        return refused("condition", text=plain(self.text, MOST_SHOWN), why=why)

    def _peek(self) -> tuple[str, str]:
        if self.at < len(self.tokens):
            return self.tokens[self.at]
        return ("end", "the end")

    def _take(self, *wanted: str) -> bool:
        """Consume the next token if it is one of these words or marks."""
        kind, value = self._peek()
        if kind in ("word", "mark", "op") and value.lower() in wanted:
            self.at += 1
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._wrong(f"expected {wanted!r}, found {self._peek()[1]!r}")

    def read(self) -> Condition:
        condition = self._either()
        if self._peek()[0] != "end":
            raise self._wrong(f"unexpected {self._peek()[1]!r}")
        return condition

    def _either(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._single))

    def _joined(self, op: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._take(op):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return Combined(op, tuple(parts))

    def _single(self) -> Condition:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise refused("deep condition", most=MOST_DEPTH)
        if self._take("not"):
            condition: Condition = Not(self._single())
        elif self._take("("):
            condition = self._either()
            self._need(")")
        else:
            condition = self._test()
        self.depth -= 1
        return condition

    def _test(self) -> Condition:
        column = self._column()
        self.n_tests += 1
        if self.n_tests > MOST_TESTS:
            raise refused("long condition", most=MOST_TESTS)
        missing = ColumnTest(column, "missing")
        if self._peek()[0] == "op":
            return self._comparison(column)
        if self._take("is"):
            negated = self._take("not")
            self._need("missing")
            return Not(missing) if negated else missing
        if self._take("not"):
            self._need("in")
            inside = ColumnTest(column, "in", self._list())
            return Combined("and", (Not(missing), Not(inside)))
        if self._take("in"):
            return ColumnTest(column, "in", self._list())
        return ColumnTest(column, "holds")

    def _column(self) -> str:
        kind, column = self._peek()
        is_word = kind == "word" and column.lower() not in _WORDS
        if not is_word and kind != "name":
            raise self._wrong(f"expected a column, found {column!r}")
        self.at += 1
        return column

    def _comparison(self, column: str) -> ColumnTest:
        _, op = self._peek()
        self.at += 1
        value = self._literal()
        if op in BY_SIZE and not is_numeric(value):
            raise self._wrong(
                f"{op} compares {column!r} with {value!r}, which is not a number"
            )
        return ColumnTest(column, "=" if op == "==" else op, (value,))

    def _list(self) -> tuple[str, ...]:
        self._need("[")
        values = [self._literal()]
        while self._take(","):
            values.append(self._literal())
        self._need("]")
        return tuple(values)

    def _literal(self) -> str:
        kind, value = self._peek()
        if kind not in ("number", "text", "word"):
            raise self._wrong(f"expected a value, found {value!r}")
        if kind == "word" and value.lower() in ("missing", "none", "null", "nan", "na"):
            raise self._wrong(
                'use "is missing" for missing values, or quotes for the text '
                f"'{value}'"
            )
        self.at += 1
        if kind == "number" and not is_numeric(value):
            raise self._wrong(
                f"the number {plain(value, 20)} is too large, too small or too long"
            )
        if kind == "word" and value.lower() in ("true", "false"):
            return value.lower()
        if kind == "text":
            return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
        return value


def range_labels(points: Sequence[float], *, whole: bool = False) -> list[str]:
    """The names of ranges between these points; ranges of whole numbers are named by
    their last one.
    """
    if not points:
        return ["any value"]
    texts = [f"{point:.12g}" for point in points]
    if len(set(texts)) < len(texts):  # these differ only in later digits
        texts = [repr(point) for point in points]
    middle = []
    for text, following, high in zip(texts, texts[1:], points[1:]):
        last = f"{high - 1:.12g}"
        if not whole:
            middle.append(f"{text} to under {following}")
        elif text == last:
            middle.append(text)
        else:
            middle.append(f"{text} to {last}")
    return [f"under {texts[0]}", *middle, f"{texts[-1]} or over"]


@dataclass(frozen=True)
class Ranges:
    """A numeric column cut into ranges: below the first point, between points, and from
    the last point up.
    """

    column: str
    points: tuple[float, ...]

    def __post_init__(self) -> None:
        finite = all(isinstance(p, float) and math.isfinite(p) for p in self.points)
        increasing = all(a < b for a, b in pairwise(self.points))
        if not (self.points and finite and increasing):
            shown = list(self.points[:MOST_CUTS_SHOWN])
            raise refused("not increasing", column=self.column, points=shown)
        if len(self.points) > MOST_CUTS:
            raise refused(
                "many cuts", column=self.column, most=MOST_CUTS, n=len(self.points)
            )

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return [self.column]

    sized = columns  # those that it cuts, or compares by size

    @property
    def labels(self) -> list[str]:
        """The names of the ranges, ascending.

        >>> Ranges("age", (18.0, 65.0)).labels
        ['under 18', '18 to under 65', '65 or over']
        """
        return range_labels(self.points)

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        return {"column": self.column, "cuts": list(self.points)}


@dataclass(frozen=True)
class Where:
    """The people who meet a condition; the others do not form a group."""

    condition: Condition

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        return columns_of(self.condition)

    @property
    def sized(self) -> list[str]:
        """The columns that it compares by size."""
        return [test.column for test in tests_of(self.condition) if test.op in BY_SIZE]

    def to_json(self) -> dict[str, Any]:
        """The form in which it is written to files."""
        return {"where": str(self.condition)}


Recipe = Ranges | Where


def refuse_no_unicode(name: str) -> None:
    """Refuse a name with half of a surrogate pair, which cannot be written to a
    file.
    """
    if not is_unicode(name):
        raise InputError(
            f"the name {name!r} contains invalid Unicode", next_step="Rename it"
        )


def recipe_from_json(content: Any) -> Recipe:
    """Read a recipe from a file."""
    if isinstance(content, dict) and set(content) == {"column", "cuts"}:
        column = content["column"]
        points = content["cuts"]
        numbers = isinstance(points, list) and all(
            type(point) in (int, float) for point in points
        )
        if numbers and isinstance(column, str):
            return make_ranges(column, points)
    if isinstance(content, dict) and set(content) == {"where"}:
        return Where(parse(content["where"]))
    raise InputError(
        "a derived attribute must have either a column with cuts or a condition"
    )


def make_ranges(column: str, points: Any) -> Ranges:
    """Make ranges from a user's list of cut points."""
    if isinstance(points, str):
        raise refused("no cuts", column=column)
    try:
        numbers = tuple(float(point) for point in points)
    except (TypeError, ValueError, OverflowError):
        raise refused("no cuts", column=column) from None
    return Ranges(column, numbers)


_LIMIT = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RANGE = re.compile(rf"under {_LIMIT}|{_LIMIT} to under {_LIMIT}|{_LIMIT} or over")


def level_order(level: str) -> tuple[float, str]:
    """Sort key: text in alphabetical order, then ranges by their lower end."""
    match = _RANGE.fullmatch(level)
    if match is None:
        return -math.inf, level
    under, low, _, over = match.groups()
    if under:
        return -1e308, level
    return float(low or over), level
