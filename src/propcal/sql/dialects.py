"""The differences between databases: quoting, types, integer division, collations, kinds of columns.

The tests run the SQL for DuckDB, SQLite, PostgreSQL and Spark. The SQL for SQL Server, Snowflake and BigQuery
is parsed and rewritten by sqlglot in that dialect, but has not been run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from propcal.errors import InputError
from propcal.plain_text import doubled, named, quoted

TWO_32 = 1 << 32


def _backslashes(*, newline: bool) -> Callable[[str], str]:
    """Single quotes in dialects with backslash escapes; with `newline`, line breaks are escaped as well."""
    breaks = {"\n": "\\n", "\r": "\\r"} if newline else {}
    table = str.maketrans({"\\": "\\\\", "'": "\\'", **breaks})
    return lambda text: f"'{text.translate(table)}'"


def _postgres_text(text: str) -> str:
    """Quote as E'...', which does not depend on the server's setting for backslashes."""
    plain = quoted(text)
    return "E" + plain.replace("\\", "\\\\") if "\\" in text else plain


def _spark_text(text: str) -> str:
    """Write a dollar sign by its code, because Spark replaces ${...} even within quotes."""
    return _backslashes(newline=True)(text).replace("$", "\\u0024")


def _tsql_text(text: str) -> str:
    """Break the text after a backslash at the end of a line, which would join it with the next line."""
    whole = "N" + quoted(text)
    for end in ("\r\n", "\n"):
        whole = whole.replace("\\" + end, "\\' + N'" + end)
    return f"({whole})" if "' + N'" in whole else whole


def _bigquery_name(text: str) -> str:
    for mark, written in (("\\", "\\\\"), ("`", "\\`"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(mark, written)
    return f"`{text}`"


def _spark_name(text: str) -> str:
    if "${" in text:
        raise InputError(f"the name {text!r} cannot be used with Spark, which replaces ${{...}} in any text")
    return doubled("`")(text)


@dataclass(frozen=True)
class Dialect:
    """How one database writes the SQL that a correction needs; {c} is a column, {x} an expression.

    `is_fraction` is SQL that asks the database for the type of a column; without it, the kinds of columns
    are given by the user or inferred from the levels.
    """

    title: str
    text: Callable[[str], str]
    name: Callable[[str], str]
    double: str = "DOUBLE"
    whole: str = "BIGINT"
    string: str = "VARCHAR"
    divide: str = "{n} / {d}"  # of integers that are not negative, rounded down
    floor: str = "CAST(FLOOR({x}) AS BIGINT)"
    is_whole: str = "{x} = FLOOR({x})"
    no_nan: str = "NULLIF({x}, CAST('NaN' AS DOUBLE))"  # NaN is missing
    number: str = "CAST({c} AS DOUBLE)"
    fraction: str = "CAST(CAST({c} AS VARCHAR) AS DOUBLE)"  # via text: every branch must accept any column
    bare: str = "TRIM({x})"  # a text without spaces around it; other blanks stay
    no_zeros: str = "RTRIM(RTRIM({x}, '0'), '.')"  # a text without trailing zeros and a trailing point
    truth: str = "CASE WHEN {c} THEN 'true' WHEN NOT {c} THEN 'false' END"
    exact_text: str = "{x}"  # compared by code points, regardless of the column's collation
    suffix: str = ""  # appended by exact_text
    fence: str = ""  # ends a subquery that must not be written out wherever its columns are used
    within: str = "GREATEST(LEAST({x}, {high}), {low})"  # {x}, but no less than {low} and no more than {high}
    is_fraction: str = ""
    without: str = ""  # the columns of p but {x}; for a database in which CASE x computes x for each WHEN
    has_truths: bool = True
    indexed: bool = False
    temporary_view: bool = False
    executed: bool = True
    rows_at_once: int = 500
    glot: str = ""

    def literal(self, value: float) -> str:
        """SQL for a number that is read as exactly this double.

        Not every database reads decimal fractions exactly, so the double is written as an integer divided by
        a power of two.
        """
        over, below = value.as_integer_ratio()
        if abs(over) <= 1 << 53 and below == 1:
            return str(over)
        if abs(over) <= 1 << 53 and below < 1 << 63:
            return f"(CAST({over} AS {self.double}) / CAST({below} AS {self.double}))"
        return f"CAST('{value!r}' AS {self.double})"

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
        raise InputError(
            f"SQL: {what} contains a NUL character, which databases do not accept: {text[:40]!r}"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"SQL: {what} contains invalid Unicode: {text[:40]!r}") from None
    return text


_SPARK_FLOATS = "typeof({c}) IN ('float', 'double') OR typeof({c}) LIKE 'decimal%'"
_PG_FLOATS = "'real', 'double precision', 'numeric'"

DIALECTS = {
    "duckdb": Dialect(
        "DuckDB",
        quoted,
        named,
        divide="{n} // {d}",
        # TRY: of a column of Parquet, DuckDB infers from statistics without NaN that there is none
        number="CAST(TRY({c}) AS DOUBLE)",
        bare="TRIM({x}, ' ')",
        exact_text='({x}) COLLATE "binary"',
        is_fraction="(typeof({c}) IN ('FLOAT', 'DOUBLE'))",  # decimals have all their digits as text
        without="p.* EXCLUDE ({x})",
    ),
    "sqlite": Dialect(
        "SQLite",
        quoted,
        doubled("`"),  # in double quotes, an unknown name would be read as a text
        double="REAL",
        whole="INTEGER",
        string="TEXT",
        floor="CAST({x} AS INTEGER)",  # some builds lack floor(); same from 0 up
        is_whole="{x} = CAST({x} AS INTEGER)",
        no_nan="{x}",  # SQLite has no NaN
        # a cast would turn any text into a number; this comparison holds only if the whole text is one
        number="CASE WHEN typeof({c}) IN ('integer', 'real') OR (typeof({c}) = 'text' "
        "AND {c} = CAST({c} AS NUMERIC)) THEN CAST({c} AS REAL) END",
        fraction="{c}",
        truth="CASE {c} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE CAST({c} AS TEXT) END",
        exact_text="({x}) COLLATE BINARY",
        is_fraction="typeof({c}) = 'real'",
        within="MAX(MIN({x}, {high}), {low})",
        has_truths=False,
        indexed=True,
    ),
    "postgres": Dialect(
        "PostgreSQL",
        _postgres_text,
        named,
        fence=" OFFSET 0",
        double="DOUBLE PRECISION",
        string="TEXT",
        no_nan="NULLIF({x}, CAST('NaN' AS DOUBLE PRECISION))",
        number="CAST({c} AS DOUBLE PRECISION)",
        fraction="CAST(CAST({c} AS TEXT) AS DOUBLE PRECISION)",
        exact_text='({x}) COLLATE "C"',
        is_fraction=f"pg_typeof({{c}}) IN ({_PG_FLOATS})",
        indexed=True,
    ),
    "spark": Dialect(
        "Spark SQL",
        _spark_text,
        _spark_name,
        string="STRING",
        divide="{n} DIV {d}",
        no_zeros="TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {x}))",
        is_whole="{x} % 1 = 0",  # FLOOR returns an integer here, and fails for large numbers
        fraction="CAST(CAST({c} AS STRING) AS DOUBLE)",
        is_fraction=f"({_SPARK_FLOATS})",
        temporary_view=True,
    ),
    "tsql": Dialect(
        "SQL Server",
        _tsql_text,
        doubled("["),
        double="FLOAT",
        string="NVARCHAR(MAX)",
        # a literal above 2**31 is a decimal here, and dividing decimals gives fractions
        divide="CAST({n} AS BIGINT) / CAST({d} AS BIGINT)",
        no_nan="{x}",  # SQL Server has no NaN
        number="CAST({c} AS FLOAT)",
        truth="CASE {c} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
        # = ignores trailing blanks, so both sides get a final character that is not blank
        exact_text="CAST({x} AS NVARCHAR(MAX)) COLLATE Latin1_General_BIN2 + N'.'",
        suffix=".",
        has_truths=False,
        indexed=True,
        executed=False,
        glot="tsql",
    ),
    "snowflake": Dialect(
        "Snowflake",
        _backslashes(newline=True),
        named,
        # / rounds to a few decimals, so subtract the remainder before dividing
        divide="({n} - MOD({n}, {d})) / {d}",
        exact_text="COLLATE({x}, '')",
        executed=False,
        glot="snowflake",
    ),
    "bigquery": Dialect(
        "BigQuery",
        _backslashes(newline=True),
        _bigquery_name,
        double="FLOAT64",
        whole="INT64",
        string="STRING",
        divide="DIV({n}, {d})",
        floor="CAST(FLOOR({x}) AS INT64)",
        no_nan="CASE WHEN NOT IS_NAN({x}) THEN {x} END",
        number="CAST({c} AS FLOAT64)",
        exact_text="COLLATE({x}, '')",
        executed=False,
        glot="bigquery",
    ),
}
