"""Builds the SQL that corrects scores inside a database: a lookup table with a query,
or one expression.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from propcal.core.arguments import check_choice
from propcal.core.correction.correction import Correction
from propcal.core.grid import UNIT, IntArray
from propcal.core.groups import pattern_name
from propcal.core.patterns import Patterns
from propcal.errors import Argument, Message, Text, refused
from propcal.export import forms
from propcal.export.column_levels import Reader, combinations, pattern_numbers
from propcal.export.dialects import DIALECTS, Dialect
from propcal.export.forms import Lines, Writer
from propcal.extras import how_to_install
from propcal.options import Export

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 100  # the most patterns that the comment at the top lists
# Longer expressions are too much for some databases: Spark ran out of memory at 4,704
# lines.
MOST_CASE_LINES = 4_000


@dataclass(frozen=True, eq=False)
class SqlExport:
    """SQL that corrects scores; converted to text, it is the whole script.

    Attributes
    ----------
    header : str
        A comment that describes the correction and how to use the SQL.
    setup : tuple of str
        Statements that create the lookup table; empty for an expression.
    query : str
        A query for the table with one more column, the corrected score.
    expression : str
        An expression for the corrected score, for use in any query; empty for a lookup
        table.
    caution : str
        What to do if the expression is too long for some databases; empty if it is not.

    Examples
    --------
    >>> from propcal import PMCBoost
    >>> correction = PMCBoost().fit([0.5] * 400, [1, 0, 0, 0] * 100).correction_
    >>> sql = correction.to_sql("duckdb", score="risk", table="people", form="case")
    >>> sql.query[:20], sql.setup
    ('SELECT p.*, CASE WHE', ())
    """

    dialect: str
    form: str
    header: str
    setup: tuple[str, ...]
    query: str
    expression: str
    lines: Lines
    numbers: IntArray  # the numbers of the patterns in the database
    caution: str = ""

    @property
    def script(self) -> str:
        """The comment, statements and query as one text."""
        return self.header + "".join(
            f"{statement};\n" for statement in (*self.setup, self.query)
        )

    def __str__(self) -> str:
        return self.script

    def __repr__(self) -> str:
        size = len(self.script.encode()) / 1000
        title = DIALECTS[self.dialect].title
        return f"SqlExport for {title}: {self.form}, {len(self.lines):,} lines, {size:,.0f} kB"

    def to_frame(self) -> pd.DataFrame:
        """The lookup table as a data frame, for loading it without the script."""
        import pandas as pd

        return pd.DataFrame(
            dict(zip(forms.COLUMNS, forms.lookup_rows(self.lines, self.numbers).T))
        )


def export_sql(correction: Correction, **options: Any) -> SqlExport:
    """Build the result of `Correction.to_sql`; the options are fields of `Export`."""
    asked = Export(**options)
    check_choice("dialect", asked.dialect, tuple(DIALECTS))
    check_choice("form", asked.form, ("lookup", "case"))
    unseen = correction.unseen if asked.unseen is None else asked.unseen
    check_choice("unseen", unseen, ("replay", "keep", "error"))
    if asked.invalid == "error":
        raise refused("sql refuses no row")
    check_choice("invalid", asked.invalid, ("null", "keep"))
    d = DIALECTS[asked.dialect]
    form = asked.form
    patterns = combinations(correction, unseen)
    numbers = pattern_numbers(patterns)
    maps = correction.replay(patterns)
    lines = Lines.of_maps(maps)
    added = None
    alias = "p." if form == "lookup" else ""
    columns = asked.columns or {}
    types = asked.types or {}
    reader = Reader(d, correction.patterns, alias, columns, types, correction.features)
    odds = forms.odds_of(reader)
    pattern = _emit(d, reader.pattern())
    if odds:
        lines, numbers, added = forms.before_and_after(maps, patterns, numbers)
    score: Any = asked.score  # any other than a text is refused
    people = forms.qualified(d, asked.table)
    lookup = forms.qualified(d, asked.lookup_table)
    source = alias + d.identifier(score)
    corrected = d.identifier(asked.column)
    kept = {"keeps_unseen": unseen == "keep", "keeps_invalid": asked.invalid == "keep"}
    setup: tuple[str, ...] = ()
    text = ""
    if form == "case":
        writer = Writer(
            d, lines, numbers, source, pattern, odds and _emit(d, odds), added, **kept
        )
        text = writer.expression()
        query = writer.case_query(people, corrected)
    else:
        create, *fill = forms.make_table(d, lookup, forms.lookup_rows(lines, numbers))
        setup = (_emit(d, create), *fill)  # the rest is only numbers
        most = 2 * prod(
            len(levels) + 1 for levels in patterns.levels
        )  # above any number of a pattern
        d = replace(
            d, one_key=d.one_key and most * forms.Buckets.of_lines(lines).span < 2**62
        )
        writer = Writer(d, lines, numbers, source, pattern, odds, added, **kept)
        query = _emit(d, writer.lookup_query(people, lookup, corrected))
    if form == "case":
        caution = _caution(correction, len(lines), unseen)
    else:
        caution = ""
    header = _header(
        correction, d, replace(asked, unseen=unseen), patterns, numbers[: len(patterns)]
    )
    header += f"-- {caution}\n" if caution else ""
    return SqlExport(
        asked.dialect, form, header, setup, query, text, lines, numbers, caution
    )


def _caution(correction: Correction, n_lines: int, unseen: str) -> str:
    """What to do if an expression has too many lines."""
    if n_lines <= MOST_CASE_LINES:
        return ""
    other = Text("Use ", Argument("form", "lookup"))
    if unseen == "replay":  # the patterns seen in fitting may need fewer lines
        seen = len(Lines.of_maps(correction.replay(correction.patterns)))
        if seen < n_lines:
            other += ", or " + Argument("unseen", "keep") + f" with {seen:,} lines"
    return Message(
        f"This expression has {n_lines:,} lines; databases may take minutes to run it, or run out of memory",
        next_step=other + ".",
    )


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
    run = "not run in the tests of propcal, so compare some rows first"
    run = "compared with Python in the tests" if d.executed else run
    rest = {
        "replay": "by the groups they belong to",
        "keep": "unchanged",
        "error": "NULL",
    }[str(asked.unseen)]
    lines = [
        f"Corrected scores for {d.title}, written by propcal. The SQL for this database was {run}.",
        f"Correction: {_plain(about.get('method', 'by hand'))}. Fingerprint of the fitting data: "
        f"{_plain(about.get('fingerprint', 'unknown'))}.",
        f"Score: {_plain(asked.score)}, from 0 to 1. NULL, NaN and other values "
        f"{'give NULL' if asked.invalid == 'null' else 'are returned unchanged'}.",
        f"Combinations of levels that did not occur in the fitting data: {rest}.",
    ]
    if correction.folded:
        folded = ", ".join(map(_plain, correction.folded))
        lines.append(f"Levels that are not listed count as other levels in: {folded}.")
    if asked.form == "lookup":
        lines.append(
            "Run the statements once. Run the query at the end whenever there are new people."
        )
        lines.append(
            f"Each line of the table applies from score_from to score_to, in units of 1/{UNIT}, and gives"
            " (rise * (score - score_from) + base) / width, rounded down."
        )
        names = [
            f"pattern {n}: {_plain(pattern_name(patterns, p))}"
            for p, n in enumerate(numbers[:MOST_NAMED])
        ]
        lines += names + ["and so on"] * (len(numbers) > MOST_NAMED)
    else:
        lines.append(
            "The query reads the table, and can be used in any other query in place of that table."
        )
    return "".join(f"-- {line}\n" for line in lines)


def _plain(text: object) -> str:
    """A text that is safe in a comment: it cannot end the comment or a statement."""
    escaped = json.dumps(str(text))[1:-1]
    return "".join(f"\\u{ord(c):04x}" if c in ";'\"`$" else c for c in escaped)
