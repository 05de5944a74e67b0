"""A text file of people: CSV by commas, semicolons, tabs or bars, plain or compressed, through DuckDB.

Nothing is guessed from the first rows. The first line names the columns and its separators are the
file's. A column holds numbers if *every* value of it is written as one: a leading zero makes codes
(``02139`` stays text), so does a whole number of more than 18 digits. Truth values and ISO dates
are taken as such likewise; everything else is text as it stands. An empty cell is missing.

The level of a cell is that of its text, whatever the type of its column. In fitting, the type decides what
is refused as a group (dates, measurements); for scoring, columns of levels are read as text.
"""

from __future__ import annotations

import csv
import glob
import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from propcal.data.derive import TOP_CODED
from propcal.data.files.duckdb_setup import connect
from propcal.data.files.formats import BATCH_ROWS, check_names
from propcal.data.levels import DECIMAL, LIMIT, spellings, text_key
from propcal.data.sql_quotes import quoted
from propcal.errors import FileFormatError, InputError

T = TypeVar("T")
DELIMITERS = ",;\t|"
FIRST_LINE, LONGEST_LINE = 1 << 20, 1 << 24  # names of columns mostly take less than a megabyte
MOST_COLUMNS = 1 << 15  # DuckDB takes half a minute for so many
FIRST_ROWS = 2000
FREE, NUMERIC, LENIENT = "free", "numeric", "lenient"  # how the type of a column is chosen
_REAL = r"-?((0|[1-9][0-9]*)(\.[0-9]*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|\.[0-9]+([eE][+-]?[0-9]+)?)"
PATTERNS = {
    "whole": "-?(0|[1-9][0-9]{0,17})",
    "real": _REAL,
    "truth": "true|True|TRUE|false|False|FALSE",
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "time": "[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+",
    "percent": r".*[0-9]\s*%",
    "comma": "-?[0-9]*,[0-9]+",
    "limit": LIMIT,
    "words": "(?i)yes|no|y|n|true|false|t|f",
}
HINTS = {
    "percent": "end with a percent sign: write 0.45 for 45 %",
    "comma": "have a decimal comma: write a point",
    "limit": TOP_CODED,
}
# a column is of the first kind of which every value matches a pattern
KINDS = {
    "BIGINT": ("whole",),
    "DOUBLE": ("whole", "real"),
    "BOOLEAN": ("truth",),
    "DATE": ("date",),
    "TIMESTAMP": ("date", "time"),
}


class TextFile:
    """A CSV file of people."""

    def __init__(
        self,
        path: Path,
        *,
        compression: str = "none",
        missing: Sequence[str] = (),
        content: Path | None = None,
    ) -> None:
        """Open a file; `content` is the CSV to read, if `path` is its source in another format."""
        self.path = path
        self._content = content or path
        self.missing = list(missing)
        self._compression = compression
        self.delimiter, self.names = self._first_line()
        self._kinds: dict[tuple[int, str], str] = {}

    @cached_property
    def _engine(self) -> Any:
        return connect()

    def count(self) -> int:
        """How many rows there are."""
        return self._count

    @cached_property
    def _count(self) -> int:
        self.refuse_truncated()
        return int(self._one("count(*)")[0])

    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns."""
        kinds = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
        kinds |= {"DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "VARCHAR": pa.string()}
        places = range(len(self.names))
        found = ["VARCHAR"] * len(self.names) if as_text else self._types(list(places), [])
        return pa.schema([pa.field(self.names[i], kinds[found[i]]) for i in places])

    def read(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> Any:
        """The wanted columns as a pyarrow Table."""
        query = self.typed_query(wanted, numeric=numeric)
        table = self._told(lambda: self._engine.sql(query).to_arrow_table())
        return table.rename_columns(list(wanted))

    def typed_query(
        self, wanted: Sequence[str], *, numeric: Sequence[str] = (), lenient: Sequence[str] = ()
    ) -> str:
        """The wanted columns, called w0, w1, ..., each in the type of all its values, as SQL."""
        places = self._places(wanted)
        types = self._read_types(
            places,
            [self.names.index(name) for name in numeric],
            [self.names.index(name) for name in lenient],
        )
        columns = ", ".join(self._cast(i, kind, f"w{k}") for k, (i, kind) in enumerate(zip(places, types)))
        return f"SELECT {columns} FROM {self.source(null=True)}"

    def read_text(self, wanted: Sequence[str]) -> Any:
        """The wanted columns as they are written, in the order of the file; an empty cell is missing."""
        check_names(self.path, self.names, wanted)
        self.refuse_truncated()
        columns = ", ".join(f"c{self.names.index(name)} AS w{k}" for k, name in enumerate(wanted))
        query = f"SELECT {columns} FROM {self.source(null=True)}"
        table = self._told(lambda: self._engine.sql(query).to_arrow_table())
        if not len(table):
            raise InputError(self._no_rows())
        return table.rename_columns(list(wanted))

    def batches(
        self,
        wanted: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        texts: Sequence[str] = (),
        as_text: bool = False,
    ) -> Iterator[tuple[Any, Any]]:
        """Some rows with all columns, and the wanted columns of these rows."""
        places = self._places(wanted)
        typed = [i for i, name in zip(places, wanted) if name not in texts]
        found = dict(zip(typed, self._read_types(typed, [self.names.index(name) for name in numeric])))
        types = [found.get(i, "VARCHAR") for i in places]
        whole = self.schema(as_text=as_text)
        n = len(self.names)
        kinds = ["VARCHAR"] * n if as_text else self._types(list(range(n)), [])
        columns = [self._cast(i, kind, f"a{i}", null=not as_text) for i, kind in enumerate(kinds)]
        columns += [self._cast(i, kind, f"w{k}") for k, (i, kind) in enumerate(zip(places, types))]
        query = f"SELECT {', '.join(columns)} FROM {self.source(null=False)}"
        reader: Any = iter(self._told(lambda: self._engine.sql(query).to_arrow_reader(BATCH_ROWS)))
        while (batch := self._told(lambda: next(reader, None))) is not None:
            own = pa.RecordBatch.from_arrays(batch.columns[:n], names=self.names).cast(whole)
            yield own, pa.Table.from_arrays(batch.columns[n:], names=list(wanted))

    def _first_line(self) -> tuple[str, list[str]]:
        """The separator and the names of the columns."""
        try:
            compression = None if self._compression == "none" else self._compression
            with pa.input_stream(str(self._content), compression=compression) as stream:
                start = stream.read(FIRST_LINE)
                if b"\n" not in start and b"\r" not in start:
                    start += stream.read(LONGEST_LINE)
        except OSError as error:
            raise self._truncated() from error
        try:
            text = start.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if error.start < len(start) - 4:  # at the very end a letter may be cut in two
                raise self._no_utf8() from None
            text = start[: error.start].decode("utf-8-sig")
        first = {d: self._names(text, d) for d in DELIMITERS}
        delimiter = max(DELIMITERS, key=lambda d: len(first[d] or []))
        names = first[delimiter]
        if names is None or (len(start) >= LONGEST_LINE and "\n" not in text and "\r" not in text):
            raise FileFormatError(f"{self.path} is not a CSV file: its first line cannot be read")
        if not names:
            raise FileFormatError(
                f"{self.path} is not a CSV file: its first line is empty and must name the columns"
            )
        if len(names) > MOST_COLUMNS:
            raise FileFormatError(
                f"{self.path} has {len(names):,} columns; at most {MOST_COLUMNS:,} are read",
                next_step="Save those that you need",
            )
        return delimiter, names

    @staticmethod
    def _names(text: str, delimiter: str) -> list[str] | None:
        """The names in the first line, if this is what separates them; None if it cannot be."""
        try:
            return next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
        except csv.Error:  # one name of more than 131,072 letters
            return None

    def source(self, *, null: bool) -> str:
        """The file as DuckDB reads it, every column as text; `null` makes missing values of some."""
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        empty = ", ".join(quoted(text) for text in (["", *self.missing] if null else [""]))
        return (
            f"read_csv({quoted(glob.escape(str(self._content)))}, auto_detect=false, header=true, "
            f"columns={{{columns}}}, delim={quoted(self.delimiter)}, quote='\"', escape='\"', "
            f"compression='{self._compression}', nullstr=[{empty}])"
        )

    def _cast(self, place: int, kind: str, name: str, *, null: bool = True) -> str:
        value = f"c{place}"
        for text in self.missing if null else []:
            value = f"nullif({value}, {quoted(text)})"
        codes = list(filter(DECIMAL.fullmatch, self.missing if null else []))  # -1.0 is missing where -1 is
        if kind == "VARCHAR":
            if codes:
                missing = quoted(spellings(map(text_key, codes)))
                value = f"CASE WHEN NOT regexp_matches({value}, {missing}) THEN {value} END"
            return f"{value} AS {name}"
        value = f"CAST(trim({value}) AS {kind})"
        if kind in ("BIGINT", "DOUBLE"):
            for text in codes:
                value = f"nullif({value}, {text})"
        return f"{value} AS {name}"

    def _places(self, wanted: Sequence[str]) -> list[int]:
        check_names(self.path, self.names, wanted)
        if not self.count():  # a damaged file is told as such
            raise InputError(self._no_rows())
        return [self.names.index(name) for name in wanted]

    def _read_types(
        self, places: Sequence[int], numeric: Sequence[int], lenient: Sequence[int] = ()
    ) -> list[str]:
        """The type in which each column is read: numbers only if as text they would be the same levels.

        Among texts 1e5 is a code, and so is a number with more digits than double precision has; what it
        is must not depend on the other rows.
        """
        types = self._types(places, numeric, lenient)
        sure = {*numeric, *lenient}
        unsure = [i for i, kind in zip(places, types) if kind == "DOUBLE" and i not in sure]
        found = self._matches([(i, name) for i in unsure for name in ("any", "exact")])
        codes = [i for i in unsure if found[i, "exact"] < found[i, "any"]]
        return ["VARCHAR" if i in codes else kind for i, kind in zip(places, types)]

    def _types(self, places: Sequence[int], numeric: Sequence[int], lenient: Sequence[int] = ()) -> list[str]:
        """The type of each column, by all of its values."""
        asked = [(i, NUMERIC if i in numeric else LENIENT if i in lenient else FREE) for i in places]
        new = [key for key in dict.fromkeys(asked) if key not in self._kinds]
        free = [i for i, way in new if way == FREE]
        # what the first rows rule out need not be looked for in all of them
        names = [name for name in PATTERNS if name not in (*HINTS, "words")]
        first = self._matches([(i, name) for i in free for name in ("any", *names)], limit=FIRST_ROWS)
        likely = [(i, name) for i in free for name in _possible(i, first)]
        found = self._matches(
            [*likely, *((i, "any") for i, _ in new), *((i, "number") for i, way in new if way != FREE)]
        )
        for i, way in new:
            self._kinds[i, way] = (
                self._kind(i, found) if way == FREE else self._numeric_kind(i, found, lenient=way == LENIENT)
            )
        return [self._kinds[key] for key in asked]

    def _matches(
        self, asked: Sequence[tuple[int, str]], *, limit: int | None = None
    ) -> dict[tuple[int, str], int]:
        """How many values of a column are there ("any"), are numbers, or match a pattern."""
        if not asked:
            return {}
        counts = [_counted(f"c{i}", name) for i, name in asked]
        return dict(zip(asked, self._one(", ".join(counts), limit=limit)))

    def _numeric_kind(self, place: int, found: dict[tuple[int, str], int], *, lenient: bool) -> str:
        """The type of a column that must hold numbers, or else may hold text; truth values are numbers."""
        n, numbers = found[place, "any"], found[place, "number"]
        if numbers == n:
            return "DOUBLE"
        more = self._matches([(place, name) for name in ("truth", *HINTS, "words")])
        if more[place, "truth"] == n:
            return "BOOLEAN"
        if lenient:
            return "VARCHAR"
        raise self._no_numbers(place, n, n - numbers, {name: more[place, name] for name in (*HINTS, "words")})

    def _kind(self, place: int, found: dict[tuple[int, str], int]) -> str:
        n = found[place, "any"]
        for kind, names in KINDS.items():
            if n and sum(found.get((place, name), 0) for name in names) == n:
                return kind if kind not in ("DATE", "TIMESTAMP") else self._if_castable(place, kind)
        return "VARCHAR"

    def _if_castable(self, place: int, kind: str) -> str:
        """A date such as 2020-02-30 is none: then the column is text."""
        valid, n = self._one(f"count(TRY_CAST(c{place} AS {kind})), count(c{place})")
        return kind if valid == n else "VARCHAR"

    def _no_numbers(self, place: int, n: int, wrong: int, found: dict[str, int]) -> InputError:
        hint = "If they mean missing, name them, for example --na NA"
        if wrong == n:
            hint = "It holds only text; is it the right column?"
        if found["words"] == n:
            hint = "It holds only yes and no, as an outcome does; is it the right column?"
        for name, text in HINTS.items():
            if found[name]:
                hint = f"{found[name]:,} {text}"
                break
        are = "values is not a number" if wrong == 1 else "values are not numbers"
        return InputError(
            f"column {self.names[place]!r} must hold numbers; {wrong:,} of {n:,} {are}",
            argument=self.names[place],
            next_step=hint,
            between=". ",
        )

    def _one(self, columns: str, *, limit: int | None = None) -> Sequence[int]:
        source = self.source(null=True)
        if limit is not None:
            source = f"(SELECT * FROM {source} LIMIT {limit})"
        rows: list[Any] = self._told(lambda: self._engine.sql(f"SELECT {columns} FROM {source}").fetchall())
        found: Sequence[int] = rows[0]
        return found

    def _told(self, step: Callable[[], T]) -> T:
        """DuckDB's errors quote the line that they are about: say where it is, not what is in it."""
        try:
            return step()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            trouble = str(error)
        raise self._why(trouble)  # out here it carries no trace of the original

    def _why(self, trouble: str) -> FileFormatError:
        line = re.search(r"CSV Error on Line: (\d+)", trouble)
        where = f"line {int(line[1]):,}" if line else "a line"
        fields = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", trouble)
        if "GZIP" in trouble or "ZSTD" in trouble:
            return self._truncated()
        if "unicode" in trouble.lower() or "utf-8" in trouble.lower():
            return self._no_utf8()
        if fields:
            return FileFormatError(
                f"{self.path}: {where} has {fields[2]} values, the first line names {fields[1]} columns",
                next_step="Is the file cut off? Text that contains a separator must be in quotes",
            )
        if "quote" in trouble.split("Possible")[0].lower():
            return FileFormatError(f"{self.path}: a quote that opens in {where} is not closed")
        if "out of memory" in trouble.lower():
            return FileFormatError(
                f"{self.path} does not fit into memory",
                next_step="name fewer columns or make atoms of its parts",
            )
        return FileFormatError(f"{self.path} cannot be read as CSV: {where} is malformed")

    def _truncated(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is damaged: its compressed content ends early", next_step="Copy it again"
        )

    def _no_rows(self) -> str:
        return f"{self.path} has a header but no rows"

    def _no_utf8(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is not UTF-8 text", next_step="save it as UTF-8 (in Excel: CSV UTF-8)"
        )

    def refuse_truncated(self) -> None:
        """DuckDB takes a zstd file that was cut off for a shorter one."""
        if self._compression != "zstd":
            return
        try:
            with pa.input_stream(str(self.path), compression="zstd") as stream:
                while stream.read(1 << 22):
                    pass
        except OSError as error:
            raise self._truncated() from error


def _possible(place: int, first: dict[tuple[int, str], int]) -> list[str]:
    """The patterns that a column may still match in every row."""
    n = first[place, "any"]
    kinds = [names for names in KINDS.values() if sum(first[place, name] for name in names) == n]
    return list(dict.fromkeys(name for names in kinds for name in names))


def _counted(column: str, name: str) -> str:
    if name == "any":
        return f"count({column})"
    if name == "number":  # also NaN and infinity, which are told later as such
        return f"count(TRY_CAST(trim({column}) AS DOUBLE))"
    text = f"trim({column}, ' ')"  # other blanks are part of a text
    if name == "exact":
        return f"count(*) FILTER ({_exact(text)})"
    return f"count(*) FILTER (regexp_full_match({text}, {quoted(PATTERNS[name])}))"


def _exact(text: str) -> str:
    """Whether a text is a number in decimals that double precision does not change.

    That is so with up to 15 digits, and otherwise if the number is printed as it was written.
    """
    digits = f"ltrim(regexp_replace({text}, '[-.]', '', 'g'), '0')"
    printed = f"CAST(TRY_CAST({text} AS DOUBLE) AS VARCHAR)"
    same = f"{_without_zeros(text)} = {_without_zeros(printed)}"
    return f"regexp_full_match({text}, {quoted(DECIMAL.pattern)}) AND (length({digits}) <= 15 OR {same})"


def _without_zeros(number: str) -> str:
    """A number in decimals without zeros at its end."""
    return f"CASE WHEN contains({number}, '.') THEN rtrim(rtrim({number}, '0'), '.') ELSE {number} END"
