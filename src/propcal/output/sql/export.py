"""SQL that corrects scores where the data is: a lookup table and a query, or one expression."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from propcal.core.correction.correction import Correction
from propcal.core.grid import UNIT, IntArray, check_choice
from propcal.core.groups.collection import pattern_name
from propcal.core.patterns import Patterns
from propcal.errors import Argument, InputError, Message, Text
from propcal.output.sql.case_expression import expression
from propcal.output.sql.column_levels import Reader
from propcal.output.sql.dialects import DIALECTS, Dialect
from propcal.output.sql.lookup_table import COLUMNS, Kept, lookup_query, lookup_rows, make_table, qualified
from propcal.output.sql.map_lines import Lines
from propcal.output.sql.pattern_numbers import every_combination, pattern_numbers

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 100  # patterns that the comment at the top names
# An expression of more lines is too much for some databases: Spark ran out of memory at 4,704.
MOST_CASE_LINES = 4_000


@dataclass(frozen=True, eq=False)
class SqlExport:
    """SQL that corrects scores; as text it is the whole script.

    Attributes
    ----------
    header : str
        A comment: what it is, from which correction, how to use it.
    setup : tuple of str
        Statements that make the lookup table; empty for an expression.
    query : str
        The table with one more column, the corrected score.
    expression : str
        The corrected score alone, to be used in any query; empty for a lookup table.
    caution : str
        What to do about an expression that is too long for some databases; empty if it is not.
    """

    dialect: str
    form: str
    header: str
    setup: tuple[str, ...]
    query: str
    expression: str
    lines: Lines
    numbers: IntArray  # of the patterns, in the database
    caution: str = ""

    @property
    def script(self) -> str:
        """Comment, statements and query as one text."""
        return self.header + "".join(f"{statement};\n" for statement in (*self.setup, self.query))

    def __str__(self) -> str:
        return self.script

    def __repr__(self) -> str:
        size = len(self.script.encode()) / 1000
        title = DIALECTS[self.dialect].title
        return f"SqlExport for {title}: {self.form}, {len(self.lines):,} lines, {size:,.0f} kB"

    def to_frame(self) -> pd.DataFrame:
        """The lookup table as a data frame, to be loaded by other means than the script."""
        import pandas as pd

        return pd.DataFrame(dict(zip(COLUMNS, lookup_rows(self.lines, self.numbers).T)))


def export_sql(
    correction: Correction,
    dialect: str = "duckdb",
    *,
    score: str,
    table: str | Sequence[str] = "people",
    form: str = "lookup",
    column: str = "corrected",
    lookup_table: str | Sequence[str] = "propcal_lookup",
    unseen: str | None = None,
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    invalid: str = "null",
) -> SqlExport:
    """What `Correction.to_sql` returns."""
    check_choice("dialect", dialect, tuple(DIALECTS))
    check_choice("form", form, ("lookup", "case"))
    unseen = correction.unseen if unseen is None else unseen
    check_choice("unseen", unseen, ("replay", "keep", "error"))
    if invalid == "error":
        raise InputError(
            Argument("invalid", "error") + ": a query cannot refuse a row",
            next_step=Argument("invalid", "null") + " gives NULL, which can be counted",
        )
    check_choice("invalid", invalid, ("null", "keep"))
    d = DIALECTS[dialect]
    patterns = every_combination(correction.patterns) if unseen == "replay" else correction.patterns
    numbers = pattern_numbers(patterns)
    lines = Lines.of_maps(correction.replay(patterns))
    alias = "p." if form == "lookup" else ""
    reader = Reader(d, correction.patterns, alias, columns or {}, types or {})
    people, lookup = qualified(d, table), qualified(d, lookup_table)
    source, corrected = alias + d.identifier(score), d.identifier(column)
    setup: tuple[str, ...] = ()
    text, kept = "", Kept(unseen=unseen == "keep", invalid=invalid == "keep")
    pattern = _emit(d, reader.pattern())
    if form == "case":
        text = expression(d, lines, numbers, pattern=pattern, column=source, kept=kept)
        query = f"SELECT p.*, {text} AS {corrected}\nFROM {people} AS p"
    else:
        create, *fill = make_table(d, lookup, lookup_rows(lines, numbers))
        setup = (_emit(d, create), *fill)  # what remains are numbers
        value = d.number.format(c=source)
        query = _emit(d, lookup_query(d, people, lookup, corrected, pattern, value, kept=kept))
    caution = _caution(correction, len(lines), unseen) if form == "case" else ""
    header = _header(correction, d, form, unseen, patterns, numbers, score, invalid)
    header += f"-- {caution}\n" if caution else ""
    return SqlExport(dialect, form, header, setup, query, text, lines, numbers, caution)


def _caution(correction: Correction, n_lines: int, unseen: str) -> str:
    """What to do instead of an expression of so many lines, if these are too many."""
    if n_lines <= MOST_CASE_LINES:
        return ""
    other = Text("Use ", Argument("form", "lookup"))
    if unseen == "replay":  # what was seen alone is a part of it, and sooner counted
        seen = len(Lines.of_maps(correction.replay(correction.patterns)))
        if seen < n_lines:
            other += ", or " + Argument("unseen", "keep") + f", which has {seen:,} lines"
    return Message(
        f"This expression has {n_lines:,} lines: databases may take minutes over it, or run out of memory",
        next_step=other + ".",
    )


def _emit(d: Dialect, text: str) -> str:
    """Read in the dialect and written again by sqlglot, which refuses what is no SQL there."""
    if not d.glot:
        return text
    try:
        import sqlglot
    except ImportError:
        raise InputError(
            f"SQL for {d.title} needs sqlglot",
            argument="dialect",
            next_step='pip install "propcal[sql]"',
            between=": ",
        ) from None
    return sqlglot.parse_one(text, read=d.glot).sql(d.glot)


def _header(
    correction: Correction,
    d: Dialect,
    form: str,
    unseen: str,
    patterns: Patterns,
    numbers: IntArray,
    score: str,
    invalid: str,
) -> str:
    """The comment at the top; without semicolons, at which some tools cut a script apart."""
    about = correction.about
    run = (
        "run against Python in the tests"
        if d.executed
        else "not run by the propcal tests, so compare some rows first"
    )
    rest = {"replay": "by the groups they belong to", "keep": "unchanged", "error": "NULL"}[unseen]
    lines = [
        f"Corrected scores for {d.title}, made by propcal. The SQL for this database was {run}.",
        f"Correction: {_plain(about.get('method', 'by hand'))}, fitted to the people "
        f"{_plain(about.get('fingerprint', 'unknown'))}.",
        f"Score: {_plain(score)}, from 0 to 1. NULL, NaN and anything else "
        f"{'give NULL' if invalid == 'null' else 'stay as they are'}.",
        f"Combinations of levels that were not seen in fitting: {rest}.",
    ]
    if form == "lookup":
        lines.append(
            "Run the statements once. The query at the end can be run whenever there are new people."
        )
        lines.append(
            f"A line holds from score_from to score_to, in units of 1/{UNIT}, and gives"
            " (rise * (score - score_from) + base) / width, rounded down."
        )
        names = [f"pattern {n}: {_plain(_name(patterns, p))}" for p, n in enumerate(numbers[:MOST_NAMED])]
        lines += names + ["and so on"] * (len(numbers) > MOST_NAMED)
    else:
        lines.append(
            "The query reads the people, its long expression can stand in any other query of theirs."
        )
    return "".join(f"-- {line}\n" for line in lines)


def _name(patterns: Patterns, pattern: int) -> str:
    """A pattern in words; a level that is not known has no name."""
    known = [int(i) < len(levels) for i, levels in zip(patterns.table[pattern], patterns.levels)]
    if all(known):
        return pattern_name(patterns, pattern)
    named = zip(patterns.attributes, patterns.levels, patterns.table[pattern])
    return " & ".join(f"{a}={levels[i] if i < len(levels) else '(other)'}" for a, levels, i in named)


def _plain(text: object) -> str:
    """A text that cannot end a comment or a statement, nor begin anything else."""
    escaped = json.dumps(str(text))[1:-1]
    return "".join(f"\\u{ord(c):04x}" if c in ";'\"`$" else c for c in escaped)
