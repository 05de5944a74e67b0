"""Builds the SQL that corrects scores inside a database.

A query finds the line of each score among the rows of a lookup table. They are in a
table that is created once, or in the query itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from propcal.core.arguments import check_choice
from propcal.core.correction.correction import Correction
from propcal.core.grid import UNIT, IntArray
from propcal.core.groups import pattern_name
from propcal.core.patterns import Patterns
from propcal.errors import refused
from propcal.export.compiled_tables import CompiledTables, compiled_tables
from propcal.export.dialects import DIALECTS, Dialect
from propcal.export.lookup_table import (
    COLUMNS,
    Buckets,
    lookup_rows,
    make_table,
    select_rows,
)
from propcal.export.map_lines import Lines, before_and_after_points
from propcal.export.sql_levels import LevelSql, pattern_numbers
from propcal.export.sql_scores import ScoreSql
from propcal.extras import how_to_install
from propcal.options import Export

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMED_PATTERNS = 100  # in the comment at the top
MAX_ONE_KEY = 1 << 62
OF_PEOPLE = "p."  # before each column of the table with the people
UNSAFE = ";'\"`$"  # in a comment of some database or tool
SCORES_OF_UNSEEN = {
    "replay": "by the groups they belong to",
    "keep": "unchanged",
    "error": "NULL",
}


@dataclass(frozen=True, eq=False)
class SqlExport:
    """SQL that corrects scores; converted to text, it is the whole script.

    Attributes
    ----------
    header : str
        A comment that describes the correction and how to use the SQL.
    setup : tuple of str
        Statements that create the lookup table; empty if the query contains its rows.
    query : str
        A query for the table with one more column, the corrected score.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> correction = PMCBoost().fit([0.5] * 400, [1, 0, 0, 0] * 100).correction_
    >>> sql = correction.to_sql("duckdb", score="risk", table="people", form="values")
    >>> sql.query[:22], sql.setup
    ('WITH "propcal_lookup" ', ())
    """

    dialect: str
    form: str
    header: str
    setup: tuple[str, ...]
    query: str
    lines: Lines
    numbers: IntArray  # the numbers of the patterns in the database

    @property
    def script(self) -> str:
        """The comment, statements and query as one text."""
        return self.header + "".join(
            f"{statement};\n" for statement in (*self.setup, self.query)
        )

    def __str__(self) -> str:
        return self.script

    def __repr__(self) -> str:
        title = DIALECTS[self.dialect].title
        n_lines = len(self.lines)
        kilobytes = len(self.script.encode()) / 1000
        size = f"{n_lines:,} lines, {kilobytes:,.0f} kB"
        return f"SqlExport for {title}: {self.form}, {size}"

    def to_frame(self) -> pd.DataFrame:
        """The lookup table as a data frame, for loading it without the script."""
        import pandas as pd

        rows = lookup_rows(self.lines, self.numbers)
        return pd.DataFrame(dict(zip(COLUMNS, rows.T)))


def export_sql(correction: Correction, **options: Any) -> SqlExport:
    """Build the result of `Correction.to_sql`; the options are fields of `Export`."""
    asked = Export(**options)
    check_choice("dialect", asked.dialect, tuple(DIALECTS))
    if asked.form == "case":
        raise refused("sql form is values")
    check_choice("form", asked.form, ("lookup", "values"))
    unseen = correction.unseen if asked.unseen is None else asked.unseen
    check_choice("unseen", unseen, ("replay", "keep", "error"))
    if asked.invalid == "error":
        raise refused("sql refuses no row")
    check_choice("invalid", asked.invalid, ("null", "keep"))
    asked = replace(asked, unseen=unseen)

    d = DIALECTS[asked.dialect]
    tables = compiled_tables(correction, asked.unseen)
    numbers = pattern_numbers(tables.patterns)
    lines = Lines.of_maps(tables.maps)
    level_sql = LevelSql(d, tables, OF_PEOPLE, asked.columns or {}, asked.types or {})
    odds = level_sql.odds()
    pattern = _emit(d, level_sql.pattern())
    added = None
    if odds:
        lines, numbers, added = before_and_after_points(
            tables.maps, tables.patterns, numbers
        )
    if not _fits_one_key(tables, lines):
        d = replace(d, one_key=False)
    score: Any = asked.score  # any other than a text is refused
    writer = ScoreSql(
        d,
        lines,
        numbers,
        OF_PEOPLE + d.identifier(score),
        pattern,
        odds,
        added,
        keeps_unseen=unseen == "keep",
        keeps_invalid=asked.invalid == "keep",
    )
    return _exported(correction, asked, tables, writer)


def _exported(
    correction: Correction, asked: Export, tables: CompiledTables, writer: ScoreSql
) -> SqlExport:
    """The comment, statements and query in the form that was asked for."""
    d = writer.d
    rows = lookup_rows(writer.lines, writer.numbers)
    people = _qualified(d, asked.table)
    corrected = d.identifier(asked.column)
    if asked.form == "values":
        lookup = d.identifier(_parts(asked.lookup_table)[-1])
        setup: tuple[str, ...] = ()
        with_rows = f"WITH {lookup} AS ({select_rows(d, rows)})\n"
    else:
        lookup = _qualified(d, asked.lookup_table)
        create, *fill = make_table(d, lookup, rows)
        setup = (_emit(d, create), *fill)  # the rest is only numbers
        with_rows = ""
    query = with_rows + _emit(d, writer.query(people, lookup, corrected))

    own_numbers = writer.numbers[: len(tables.patterns)]
    header = _header(correction, d, asked, tables.patterns, own_numbers)
    return SqlExport(
        asked.dialect,
        asked.form,
        header,
        setup,
        query,
        writer.lines,
        writer.numbers,
    )


def _fits_one_key(tables: CompiledTables, lines: Lines) -> bool:
    """Whether one whole number of 64 bits can hold pattern and bucket."""
    combinations = prod(len(levels) + 1 for levels in tables.patterns.levels)
    above_any_pattern = 2 * combinations
    return above_any_pattern * Buckets.of_lines(lines).span < MAX_ONE_KEY


def _qualified(d: Dialect, name: str | Sequence[str]) -> str:
    """A quoted table name; dots separate the schema, unless the parts are given as a
    list.
    """
    return ".".join(d.identifier(part) for part in _parts(name))


def _parts(name: str | Sequence[str]) -> Sequence[str]:
    """The schema, if there is one, and the name of a table."""
    return name.split(".") if isinstance(name, str) else name


def _emit(d: Dialect, text: str) -> str:
    """Parse and rewrite the SQL with sqlglot, which refuses SQL that is invalid in the
    dialect.
    """
    if not d.glot:
        return text
    try:
        import sqlglot
    except ImportError:
        raise refused(
            "sql needs sqlglot", title=d.title, how=how_to_install("sql")
        ) from None
    return sqlglot.parse_one(text, read=d.glot).sql(d.glot)


def _header(
    correction: Correction,
    d: Dialect,
    asked: Export,
    patterns: Patterns,
    numbers: IntArray,
) -> str:
    """The comment at the top, without semicolons, at which some tools split a
    script.
    """
    about = correction.about
    method = _plain(about.get("method", "by hand"))
    fingerprint = _plain(about.get("fingerprint", "unknown"))
    if d.executed:
        tested = "compared with Python in the tests"
    else:
        tested = "not run in the tests of propcal, so compare some rows first"
    if asked.invalid == "null":
        invalid = "give NULL"
    else:
        invalid = "are returned unchanged"
    lines = [
        f"Corrected scores for {d.title}, written by propcal. "
        f"The SQL for this database was {tested}.",
        f"Correction: {method}. Fingerprint of the fitting data: {fingerprint}.",
        f"Score: {_plain(asked.score)}, from 0 to 1. "
        f"NULL, NaN and other values {invalid}.",
        "Combinations of levels that did not occur in the fitting data: "
        f"{SCORES_OF_UNSEEN[str(asked.unseen)]}.",
    ]
    if correction.folded:
        folded = ", ".join(map(_plain, correction.folded))
        lines.append(f"Levels that are not listed count as other levels in: {folded}.")
    lines.append(_about_use(d, asked.form))
    lines += _about_lookup_table(patterns, numbers)
    return "".join(f"-- {line}\n" for line in lines)


def _about_use(d: Dialect, form: str) -> str:
    """What to run, and when."""
    if form == "lookup":
        return (
            "Run the statements once. "
            "Run the query at the end whenever there are new people."
        )
    contains = "The query contains its lookup table, so no table has to be created. "
    if d.with_in_subquery:
        return contains + "It can replace the table of people in any other query."
    return contains + "To use it in other queries, create a view of it."


def _about_lookup_table(patterns: Patterns, numbers: IntArray) -> list[str]:
    """What its lines mean, and the names of its patterns."""
    lines = [
        "Each line of the table applies from score_from to score_to, "
        f"in units of 1/{UNIT}, and gives"
        " (rise * (score - score_from) + base) / width, rounded down.",
    ]
    for p, number in enumerate(numbers[:MAX_NAMED_PATTERNS]):
        lines.append(f"pattern {number}: {_plain(pattern_name(patterns, p))}")
    if len(numbers) > MAX_NAMED_PATTERNS:
        lines.append("and so on")
    return lines


def _plain(text: object) -> str:
    """A text that is safe in a comment: it cannot end the comment or a statement."""
    escaped = json.dumps(str(text))[1:-1]
    for character in UNSAFE:
        escaped = escaped.replace(character, f"\\u{ord(character):04x}")
    return escaped
