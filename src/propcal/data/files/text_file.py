"""Text files of people: CSV by commas, semicolons, tabs or bars, plain or compressed, through DuckDB.

Nothing is guessed from the first rows. The first line names the columns and its separators are the
file's. A column holds numbers if *every* value of it is written as one: a leading zero makes codes
(``02139`` stays text), so does a whole number of more than 18 digits. Truth values and ISO dates
are taken as such likewise; everything else is text as it stands. An empty cell is missing. Of several files,
the type of a column is that of all values in all of them.

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
from propcal.data.files.formats import BATCH_ROWS, PeopleFiles
from propcal.data.levels import DECIMAL, LIMIT, spellings, text_key
from propcal.errors import FileFormatError, InputError
from propcal.plain_text import quoted

T = TypeVar("T")
DELIMITERS = ",;\t|"
FIRST_LINE, LONGEST_LINE = 1 << 20, 1 << 24  # names of columns mostly take less than a megabyte
MOST_COLUMNS = 1 << 15  # DuckDB takes half a minute for so many
FIRST_ROWS = 2000
FREE, NUMERIC, LENIENT = "free", "numeric", "lenient"  # how the type of a column is chosen
ARROW = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR": pa.string(),
}
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


class CsvFile:
    """One CSV file: its separator, the names in its first line, and how DuckDB reads it.

    `content` is the CSV to read, if `path` is its source in another format.
    """

    def __init__(self, path: Path, *, compression: str = "none", content: Path | None = None) -> None:
        self.path = path
        self._content, self._compression = content or path, compression
        self.delimiter, self.names = self._first_line()

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

    def sql(self, missing: Sequence[str]) -> str:
        """The file as DuckDB reads it, every column (c0, c1, ...) as text; some texts are missing values."""
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        return (
            f"read_csv({quoted(glob.escape(str(self._content)))}, auto_detect=false, header=true, "
            f"columns={{{columns}}}, delim={quoted(self.delimiter)}, quote='\"', escape='\"', "
            f"compression='{self._compression}', nullstr=[{', '.join(map(quoted, missing))}])"
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

    def why(self, trouble: str) -> FileFormatError:
        """What is wrong with the file: DuckDB's errors quote the line; say where it is, not what is in it."""
        line = re.search(r"CSV Error on Line: (\d+)", trouble)
        where, text = f"line {int(line[1]):,}" if line else "a line", trouble.lower()
        fields = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", trouble)
        problem, step = f" cannot be read as CSV: {where} is malformed", None
        if "GZIP" in trouble or "ZSTD" in trouble:
            return self._truncated()
        if "unicode" in text or "utf-8" in text:
            return self._no_utf8()
        if fields:
            problem = f": {where} has {fields[2]} values, the first line names {fields[1]} columns"
            step = "Is the file cut off? Text that contains a separator must be in quotes"
        elif "quote" in text.split("possible")[0]:
            problem = f": a quote that opens in {where} is not closed"
        elif "out of memory" in text:
            problem = " does not fit into memory"
            step = "name fewer columns or make atoms of its parts"
        return FileFormatError(f"{self.path}{problem}", next_step=step)

    def _truncated(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is damaged: its compressed content ends early", next_step="Copy it again"
        )

    def _no_utf8(self) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is not UTF-8 text", next_step="save it as UTF-8 (in Excel: CSV UTF-8)"
        )


class TextFiles(PeopleFiles):
    """CSV files of people."""

    def __init__(self, parts: Sequence[CsvFile], *, missing: Sequence[str] = (), engine: Any = None) -> None:
        super().__init__(parts, missing=missing, engine=engine)
        self._kinds: dict[tuple[int, str], str] = {}

    @cached_property
    def _engine(self) -> Any:
        return self.engine or connect()

    def count(self) -> int:
        """How many rows there are."""
        return self._count

    @cached_property
    def _count(self) -> int:
        self._refuse_truncated()
        return int(self._counts([], ["count(*)"])[0])

    def _refuse_truncated(self) -> None:
        for part in self.parts:
            part.refuse_truncated()

    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns."""
        return pa.schema([(name, ARROW[kind]) for name, kind in zip(self.names, self._all_types(as_text))])

    def _all_types(self, as_text: bool) -> list[str]:
        every = range(len(self.names))
        return ["VARCHAR" for _ in every] if as_text else self._types(every, [])

    def query(
        self, wanted: Sequence[str], *, numeric: Sequence[str] = (), lenient: Sequence[str] = ()
    ) -> str:
        """The wanted columns, called w0, w1, ..., each in the type of all its values, as SQL."""
        self.check(wanted)
        self._refuse_truncated()
        places = self._places(wanted)
        types = self._read_types(places, self._places(numeric), self._places(lenient))
        columns = ", ".join(self._cast(i, kind, f"w{k}") for k, (i, kind) in enumerate(zip(places, types)))
        return f"SELECT {columns} FROM {self._table(places)}"

    def values(self, name: str) -> str:
        """One column as SQL, as text."""
        (place,) = self._places([name])
        return f"SELECT c{place} AS w0 FROM {self._table([place])}"

    def read(self, wanted: Sequence[str], *, numeric: Sequence[str] = ()) -> Any:
        """The wanted columns as a pyarrow Table."""
        self.check_rows(wanted)
        return self._arrow(self.query(wanted, numeric=numeric), wanted)

    def read_text(self, wanted: Sequence[str]) -> Any:
        """The wanted columns as they are written, in the order of the file; an empty cell is missing."""
        self.check_rows(wanted)
        places = self._places(wanted)
        columns = ", ".join(f"c{place} AS w{k}" for k, place in enumerate(places))
        return self._arrow(f"SELECT {columns} FROM {self._table(places)}", wanted)

    def _arrow(self, query: str, wanted: Sequence[str]) -> Any:
        table = self._told(lambda: self._engine.sql(query).to_arrow_table())
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
        self.check_rows(wanted)
        places = self._places(wanted)
        typed = [i for i, name in zip(places, wanted) if name not in texts]
        found = dict(zip(typed, self._read_types(typed, self._places(numeric))))
        kinds, n = self._all_types(as_text), len(self.names)
        columns = [self._cast(i, kind, f"a{i}", null=not as_text) for i, kind in enumerate(kinds)]
        columns += [self._cast(i, found.get(i, "VARCHAR"), f"w{k}") for k, i in enumerate(places)]
        query = f"SELECT {', '.join(columns)} FROM {self._table(range(n), null=False)}"
        whole = self.schema(as_text=as_text)
        reader: Any = iter(self._told(lambda: self._engine.sql(query).to_arrow_reader(BATCH_ROWS)))
        while (batch := self._told(lambda: next(reader, None))) is not None:
            own = pa.RecordBatch.from_arrays(batch.columns[:n], names=self.names).cast(whole)
            yield own, pa.Table.from_arrays(batch.columns[n:], names=list(wanted))

    def trouble(self, error: Exception, wanted: Sequence[str] = ()) -> Exception:  # noqa: ARG002
        """Find the damaged file by reading each one to its end."""
        try:
            for part in self.parts:
                TextFiles([part]).count()
        except (FileFormatError, InputError) as found:
            return found
        return FileFormatError(f"{self.path} cannot be read as CSV ({type(error).__name__})")

    def _table(self, places: Sequence[int], *, null: bool = True) -> str:
        """SQL that reads some columns of all files; `null` makes missing values of texts that mean them."""
        missing, parts = ["", *self.missing] if null else [""], []
        for part in self.parts:
            there = places if part is self.parts[0] else [part.names.index(self.names[i]) for i in places]
            columns = ", ".join(f"c{place} AS c{i}" for i, place in zip(places, there))
            parts.append(f"SELECT {columns or '1'} FROM {part.sql(missing)}")
        return f"({' UNION ALL '.join(parts)})"

    def _places(self, names: Sequence[str]) -> list[int]:
        return [self.names.index(name) for name in names]

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
        return dict(zip(asked, self._counts([i for i, _ in asked], counts, limit=limit)))

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
        valid, n = self._counts([place], [f"count(TRY_CAST(c{place} AS {kind}))", f"count(c{place})"])
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

    def _counts(self, places: Sequence[int], counts: Sequence[str], *, limit: int | None = None) -> Any:
        """Some counts over all rows, or the first rows, of which these columns are read."""
        rows = self._table(list(dict.fromkeys(places)))
        rows = rows if limit is None else f"(SELECT * FROM {rows} LIMIT {limit})"
        query = f"SELECT {', '.join(counts)} FROM {rows}"
        return self._told(lambda: self._engine.sql(query).fetchall()[0])

    def _told(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            passed_on = (duckdb.OutOfMemoryException, duckdb.InterruptException)
            if self.engine is not None and isinstance(error, passed_on):
                raise
            trouble = self.trouble(error) if self.engine is not None else self.parts[0].why(str(error))
        raise trouble  # out here it carries no trace of the original


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
