"""The differences between databases: quoting, types, division, kinds of columns.

The tests run the SQL for DuckDB, SQLite, PostgreSQL and Spark. The SQL for SQL Server,
Snowflake and BigQuery is parsed and rewritten by sqlglot in that dialect, but has not
been run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from propcal.errors import InputError, doubled, is_unicode, named, quoted

TWO_32 = 1 << 32
MAX_SHOWN = 40  # characters of a text in an error
MAX_EXACT_WHOLE = 1 << 53  # doubles hold every whole number up to here
MAX_64_BITS = 1 << 63
HALF_DIVISOR = 1 << 60
MAX_DIVISOR = HALF_DIVISOR**2


ESCAPES: dict[str, str | int | None] = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def escaped(text: str) -> str:
    """Quote in dialects with backslash escapes, line breaks included."""
    return "'" + text.translate(str.maketrans(ESCAPES | {"'": "\\'"})) + "'"


def postgres_text(text: str) -> str:
    """Quote as E'...', which does not depend on the server's setting for
    backslashes.
    """
    plain = quoted(text)
    if "\\" in text:
        return "E" + plain.replace("\\", "\\\\")
    return plain


def spark_text(text: str) -> str:
    """Write a dollar sign by its code, because Spark replaces ${...} even within
    quotes.
    """
    return escaped(text).replace("$", "\\u0024")


def tsql_text(text: str) -> str:
    """Break the text after a backslash at the end of a line, which would join it with
    the next line.
    """
    whole = "N" + quoted(text)
    for end in ("\r\n", "\n"):
        whole = whole.replace("\\" + end, "\\' + N'" + end)
    return f"({whole})" if "' + N'" in whole else whole


def bigquery_name(text: str) -> str:
    """Quote a name with backslash escapes."""
    return "`" + text.translate(str.maketrans(ESCAPES | {"`": "\\`"})) + "`"


def spark_name(text: str) -> str:
    """Quote a name, unless Spark would replace a part of it."""
    if "${" in text:
        raise InputError(
            f"the name {text!r} cannot be used with Spark, "
            "which replaces ${...} in any text"
        )
    return backquoted(text)


backquoted = doubled("`")
bracketed = doubled("[")


@dataclass(frozen=True)
class Dialect:
    """How one database writes the SQL that a correction needs; {c} is a column, {x} an
    expression.

    `is_fraction` is SQL that asks the database for the type of a column; without it,
    the kinds of columns are given by the user or inferred from the levels.
    """

    title: str
    text: Callable[[str], str] = quoted
    name: Callable[[str], str] = named
    double: str = "DOUBLE"
    whole: str = "BIGINT"
    string: str = "VARCHAR"
    divide: str = "{n} / {d}"  # of integers that are not negative, rounded down
    floor: str = "CAST(FLOOR({x}) AS BIGINT)"
    is_whole: str = "{x} = FLOOR({x})"
    no_nan: str = "NULLIF({x}, CAST('NaN' AS DOUBLE))"  # NaN is missing
    number: str = "CAST({c} AS DOUBLE)"
    # via text: every branch must accept any column
    fraction: str = "CAST(CAST({c} AS VARCHAR) AS DOUBLE)"
    bare: str = "TRIM({x})"  # a text without spaces around it; other blanks stay
    # a text without trailing zeros and a trailing point
    no_zeros: str = "RTRIM(RTRIM({x}, '0'), '.')"
    truth: str = "CASE WHEN {c} THEN 'true' WHEN NOT {c} THEN 'false' END"
    exact_text: str = (
        "{x}"  # compared by code points, regardless of the column's collation
    )
    suffix: str = ""  # appended by exact_text
    # {x}, but no less than {low} and no more than {high}
    within: str = "GREATEST(LEAST({x}, {high}), {low})"
    is_fraction: str = ""
    # the rows of the lookup table without a table; {names} are its columns, {casts}
    # each of them as a whole number, {fields} each with its type. Or {text} has a line
    # for each row, split into a list n of which the columns are {elements}.
    select_rows: str = "SELECT {casts}\nFROM (VALUES\n{rows}) AS v ({names})"
    first_element: int = 0  # the index of the first element of a list
    with_in_subquery: bool = True
    has_truths: bool = True
    indexed: bool = False
    temporary_view: bool = False
    one_key: bool = False  # joins by one whole number faster than by two
    executed: bool = True
    rows_at_once: int = 500
    glot: str = ""

    def literal(self, value: float) -> str:
        """SQL for a number that is read as exactly this double.

        Not every database reads decimal fractions exactly, so the double is written as
        an integer divided by a power of two.
        """
        over, below = value.as_integer_ratio()
        if abs(over) > MAX_EXACT_WHOLE or below >= MAX_DIVISOR:
            return f"CAST('{value!r}' AS {self.double})"
        if below == 1:
            return str(over)
        if below < MAX_64_BITS:
            numbers = [over, below]
        else:
            numbers = [over, HALF_DIVISOR, below // HALF_DIVISOR]
        doubles = [f"CAST({number} AS {self.double})" for number in numbers]
        return f"({' / '.join(doubles)})"

    def key(self, text: str) -> str:
        """SQL for a level, to be compared with `exact_text`."""
        return self.text(checked(text, "a level") + self.suffix)

    def identifier(self, text: str) -> str:
        """The name of a column or table."""
        return self.name(checked(text, "a name"))


def checked(text: str, what: str) -> str:
    """Refuse texts that databases cannot store."""
    if not isinstance(text, str) or (what == "a name" and not text):
        raise InputError(f"SQL: {what} must be a text that is not empty; got {text!r}")
    if "\0" in text:
        problem = "contains a NUL character, which databases do not accept"
    elif not is_unicode(text):
        problem = "contains invalid Unicode"
    else:
        return text
    raise InputError(f"SQL: {what} {problem}: {text[:MAX_SHOWN]!r}")


def _read() -> dict[str, Dialect]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    dialects = {}
    for name, entries in tomllib.loads(text).items():
        for quoting in ("text", "name"):
            if quoting in entries:
                entries[quoting] = globals()[entries[quoting]]
        dialects[name] = Dialect(**entries)
    return dialects


DIALECTS = _read()
