"""Reading several CSV or Parquet files with a row for each person as one table.

The table is SQL of DuckDB, or comes in batches.

Parquet files may have their columns in a different order and use numeric types of other
widths, but a column must have the same kind of values in all files. Arrow copies them
in batches, because it keeps every type.

Of text files nothing is guessed from the first rows. The first line names the columns
and its separators are the file's. A column holds numbers if *every* value of it is
written as one: a leading zero makes codes (``02139`` stays text), so does a whole
number of more than 18 digits. Truth values and ISO dates are taken as such likewise;
everything else is text as it stands. An empty value is missing. Of several files, the
type of a column is that of all values in all of them.

The level of a cell is that of its text, whatever the type of its column. In fitting,
the type decides what is refused as a group (dates, measurements); for scoring, columns
of levels are read as text.
"""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from propcal.errors import FileFormatError, InputError, PropcalError, quoted, refused
from propcal.numbers import agreeing
from propcal.reading.csv_parquet_excel import (
    CsvFile,
    ParquetFile,
    check_dictionaries,
    check_names,
)
from propcal.reading.duckdb_setup import connect
from propcal.reading.frames import TOP_CODED, is_record
from propcal.reading.levels import DECIMAL, LIMIT, spellings, text_key

T = TypeVar("T")
BATCH_ROWS = 1 << 17
PAGE_BYTES = 1 << 20
FIRST_ROWS = 2000
# how a column of a text file is read: it must hold numbers; as numbers or else as text;
# as it is written. Other columns are read in the type of all their values.
NUMBER = "number"
LENIENT = "lenient"
TEXT = "text"
Kinds = Mapping[str, str]
ANY: Kinds = MappingProxyType({})
# forms in which values are written; those of a column are a sum of these
WHOLE = 1
REAL = 2
TRUTH = 4
DATE = 8
TIME = 16
OTHER = 32
INEXACT = 64  # a number that double precision, printed, does not give back
_EXPONENT = "[eE][+-]?[0-9]+"
_REAL = (
    rf"-?((0|[1-9][0-9]*)(\.[0-9]*({_EXPONENT})?|{_EXPONENT})"
    rf"|\.[0-9]+({_EXPONENT})?)"
)
PATTERNS = {
    WHOLE: "-?(0|[1-9][0-9]{0,17})",
    REAL: _REAL,
    TRUTH: "true|True|TRUE|false|False|FALSE",
    DATE: "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    TIME: "[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+",
}
# a column has the first type that all forms of its values belong to
TYPES = {
    "BIGINT": (WHOLE, pa.int64()),
    "DOUBLE": (WHOLE | REAL, pa.float64()),
    "BOOLEAN": (TRUTH, pa.bool_()),
    "DATE": (DATE, pa.date32()),
    "TIMESTAMP": (DATE | TIME, pa.timestamp("us")),
    "VARCHAR": (WHOLE | REAL | TRUTH | DATE | TIME | OTHER, pa.string()),
}
WORDS = "(?i)yes|no|y|n|true|false|t|f"
HINTS = {
    r".*[0-9]\s*%": "end with a percent sign: write 0.45 for 45 %",
    "-?[0-9]*,[0-9]+": "have a decimal comma: write a point",
    LIMIT: TOP_CODED,
}


class PeopleFiles(ABC):
    """Files of one format with a row for each person and named columns, read as one
    table.

    Parameters
    ----------
    parts : list
        The files, each with its `path`, `names` and `delimiter`.
    missing : list of str
        Texts that mean a missing value in a text file, beside the empty value.

    They are read by a connection of their own, unless `read_by` gives them another
    `engine`.
    """

    format: str  # as errors call it
    engine: Any = None
    names: list[str]

    def __init__(self, parts: Sequence[Any], *, missing: Sequence[str] = ()) -> None:
        self.parts = list(parts)
        self.missing = list(missing)
        self._forms: dict[tuple[int, str], int] = {}  # of the values of text files
        self.paths: list[Path] = [part.path for part in parts]
        self.path = self.paths[0]
        self.names = parts[0].names
        self.delimiter = parts[0].delimiter

    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns as `batches` gives them."""

    @abstractmethod
    def query(self, wanted: Sequence[str], kinds: Kinds = ANY) -> str:
        """The wanted columns, called w0, w1, ..., as SQL; `kinds` says how text is
        read.
        """

    @abstractmethod
    def batches(
        self, wanted: Sequence[str], kinds: Kinds = ANY, *, as_text: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """In order: some rows with all columns of the file, and the wanted columns of
        these rows.

        `as_text` leaves all columns of a text file as they are written in it. A column
        of texts may come as a dictionary, in all batches or in none.
        """

    @abstractmethod
    def read_through(self, wanted: Sequence[str]) -> None:
        """Read the wanted columns to the end."""

    def trouble(self, error: Exception, wanted: Sequence[str] = ()) -> Exception:
        """Why the files could not be read, without showing any of their content: each
        is read by itself.
        """
        try:
            for part in self.parts:
                type(self)([part]).read_through(wanted)
        except (FileFormatError, InputError) as found:
            return found
        where = str(self.path)
        if len(self.paths) > 1:
            where += " or another file"
        kind = type(error).__name__
        return refused("duckdb cannot read", FileFormatError, where=where, error=kind)

    @cached_property
    def _engine(self) -> Any:
        return self.engine or connect()

    def read_by(self, engine: Any) -> Self:
        """These files, read by this connection of DuckDB."""
        files = copy(self)
        files.__dict__.pop("_engine", None)
        files.engine = engine
        return files

    def read(self, wanted: Sequence[str], kinds: Kinds = ANY) -> Any:
        """The wanted columns as a pyarrow Table, in the order of the rows."""
        self.check_rows(wanted)
        query = self.query(wanted, kinds)
        table = self.explained(lambda: self._engine.sql(query).to_arrow_table())
        return table.rename_columns(list(wanted))

    def explained(self, step: Callable[[], T]) -> T:
        """The result of a step that reads; if it fails, an error that says why."""
        try:
            return step()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            passed_on = (duckdb.OutOfMemoryException, duckdb.InterruptException)
            if self.engine is not None and isinstance(error, passed_on):
                raise
            trouble = self.trouble(error)
        raise trouble  # out here it carries no trace of the original

    def check(self, wanted: Sequence[str]) -> None:
        """Refuse missing columns; the error names the file if it is not the first."""
        for part in self.parts:
            lacking = [name for name in wanted if name not in part.names]
            if lacking and part.path != self.path:
                name = lacking[0]
                raise refused(
                    "lacks a column", path=part.path, name=name, first=self.path
                )
            check_names(part.path, part.names, wanted)

    def check_rows(self, wanted: Sequence[str]) -> None:
        """Refuse missing columns, and files without rows."""
        self.check(wanted)
        if not self.count():  # reading a damaged file fails here
            raise InputError(f"{self.path} has a header but no rows")


class ParquetFiles(PeopleFiles):
    """Parquet files of people; their columns have types already."""

    format = "Parquet"
    parts: list[ParquetFile]

    def count(self) -> int:
        """How many rows there are."""
        return sum(int(part.file.metadata.num_rows) for part in self.parts)

    def schema(self, *, as_text: bool) -> Any:  # noqa: ARG002
        """Names and types of all columns."""
        return self.parts[0].schema

    def query(self, wanted: Sequence[str], kinds: Kinds = ANY) -> str:  # noqa: ARG002
        """The wanted columns as SQL: files of the same columns and types are read
        together.
        """
        self.check(wanted)
        self._check_kinds(wanted)
        alike: dict[tuple[Any, ...], list[Path]] = {}
        for part in self.parts:
            types = [str(part.schema.field(name).type) for name in wanted]
            layout = (tuple(part.names), tuple(types))
            alike.setdefault(layout, []).append(part.path)
        return " UNION ALL ".join(
            _select(wanted, names, types, paths)
            for (names, types), paths in alike.items()
        )

    def _check_kinds(self, wanted: Sequence[str]) -> None:
        """Refuse columns of records, and columns with other kinds of values in another
        file.
        """
        first: dict[str, tuple[str, Path]] = {}
        for part in self.parts:
            for name in wanted:
                kind = part.schema.field(name).type
                if is_record(kind):
                    raise refused("records in a file", name=name, path=part.path)
                values = _values_of(kind)
                if values == "nothing":
                    continue
                before, other = first.setdefault(name, (values, part.path))
                if before != values:
                    raise refused(
                        "different types",
                        name=name,
                        before=before,
                        other=other,
                        now=values,
                        path=part.path,
                    )

    def batches(
        self, wanted: Sequence[str], *_: Any, **__: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Some rows with all columns, and the wanted columns of these rows."""
        self.check_rows(wanted)
        for part in self.parts:
            try:
                # what is a dictionary in the file is neither decoded nor looked up row
                # by row, and a row group of any size is read page by page
                file = pq.ParquetFile(
                    part.path,
                    read_dictionary=part.repeated_texts(),
                    pre_buffer=False,
                    buffer_size=PAGE_BYTES,
                )
                for batch in file.iter_batches(BATCH_ROWS):
                    check_dictionaries(batch)
                    yield batch, pa.Table.from_batches([batch.select(list(wanted))])
            except (pa.ArrowException, OSError) as error:
                raise refused("damaged", FileFormatError, path=part.path) from error

    def read_through(self, wanted: Sequence[str]) -> None:
        """Read the wanted columns to the end."""
        for _ in self.batches(wanted):
            pass


def _select(
    wanted: Sequence[str],
    names: Sequence[str],
    types: Sequence[str],
    paths: Sequence[Path],
) -> str:
    """The wanted columns of Parquet files with these columns, as SQL."""
    columns = []
    for k, (name, kind) in enumerate(zip(wanted, types)):
        column = _read(f"c{names.index(name)}", kind)
        columns.append(f"{column} AS w{k}")
    files = ", ".join(quoted(glob.escape(str(path))) for path in paths)
    places = ", ".join(f"c{i}" for i in range(len(names)))
    options = "hive_partitioning=false, can_have_nan=true"
    source = f"read_parquet([{files}], {options}) AS t({places})"
    return f"SELECT {', '.join(columns) or '1'} FROM {source}"


def _read(place: str, kind: str) -> str:
    """A column as it is, but a duration as an interval: DuckDB would take it for a
    whole number.

    The unit does not matter, for an interval is neither a group nor a number; it may
    only be missing.
    """
    if "duration[" in kind:
        return f"to_microseconds({place})"
    return place


def _values_of(arrow_type: Any) -> str:
    """The kind of values in a column, on which all files must agree."""
    if pa.types.is_dictionary(arrow_type):
        kind = arrow_type.value_type
    else:
        kind = arrow_type
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_boolean(kind):
        return "truth values"
    if (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        return "numbers"
    if pa.types.is_temporal(kind):
        return "dates or times"
    return "text" if "string" in str(kind) else str(kind)


class TextFiles(PeopleFiles):
    """CSV files of people."""

    format = "text"
    parts: list[CsvFile]

    def count(self) -> int:
        """How many rows there are."""
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(self._totals([], ["count(*)"])[0])

    def schema(self, *, as_text: bool) -> Any:
        """Names and types of all columns."""
        kinds = self._all_types(as_text)
        return pa.schema(
            [(name, TYPES[kind][1]) for name, kind in zip(self.names, kinds)]
        )

    def _all_types(self, as_text: bool) -> list[str]:
        if as_text:
            return ["VARCHAR"] * len(self.names)
        columns = [(place, "") for place in range(len(self.names))]
        self._find_forms(columns)
        return [_type(self._forms[column]) for column in columns]

    def query(self, wanted: Sequence[str], kinds: Kinds = ANY) -> str:
        """The wanted columns, called w0, w1, ..., each in the type of all its values,
        as SQL.
        """
        self.check(wanted)
        columns = ", ".join(self._wanted(wanted, kinds))
        table = self._table([self.names.index(name) for name in wanted])
        return f"SELECT {columns} FROM {table}"

    def _wanted(self, wanted: Sequence[str], kinds: Kinds) -> list[str]:
        asked = [(self.names.index(name), kinds.get(name, "")) for name in wanted]
        self._find_forms([(place, kind) for place, kind in asked if kind != TEXT])
        columns = []
        for k, (place, kind) in enumerate(asked):
            columns.append(self._cast(place, self._type_read(place, kind), f"w{k}"))
        return columns

    def batches(
        self, wanted: Sequence[str], kinds: Kinds = ANY, *, as_text: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Some rows with all columns, and the wanted columns of these rows."""
        self.check_rows(wanted)
        n = len(self.names)
        columns = []
        for place, kind in enumerate(self._all_types(as_text)):
            columns.append(self._cast(place, kind, f"a{place}", null=not as_text))
        columns += self._wanted(wanted, kinds)
        query = f"SELECT {', '.join(columns)} FROM {self._table(range(n), null=False)}"

        schema = self.schema(as_text=as_text)
        reader: Any = iter(
            self.explained(lambda: self._engine.sql(query).to_arrow_reader(BATCH_ROWS))
        )
        while (batch := self.explained(lambda: next(reader, None))) is not None:
            rows = pa.RecordBatch.from_arrays(batch.columns[:n], names=self.names)
            chosen = pa.Table.from_arrays(batch.columns[n:], names=list(wanted))
            yield rows.cast(schema), chosen

    def read_through(self, wanted: Sequence[str]) -> None:  # noqa: ARG002
        """Read to the end."""
        self.count()

    def trouble(self, error: Exception, wanted: Sequence[str] = ()) -> Exception:
        """Why the files could not be read: DuckDB's error about a single file says
        it.
        """
        if self.engine is None:
            return self.parts[0].why(str(error))
        return super().trouble(error, wanted)

    def _table(self, places: Iterable[int], *, null: bool = True) -> str:
        """SQL that reads some columns of all files; `null` makes missing values of
        texts that mean them.
        """
        missing = [""]
        if null:
            missing += self.missing
        distinct_places = list(dict.fromkeys(places))
        selections = []
        for part in self.parts:
            part.check_complete()
            columns = []
            for place in distinct_places:
                own_place = place
                if part is not self.parts[0]:
                    own_place = part.names.index(self.names[place])
                columns.append(f"c{own_place} AS c{place}")
            chosen = ", ".join(columns) or "1"
            selections.append(f"SELECT {chosen} FROM {part.sql(missing)}")
        return f"({' UNION ALL '.join(selections)})"

    def _cast(self, place: int, kind: str, name: str, *, null: bool = True) -> str:
        """A column in a type, as SQL; `null` makes missing values of texts that mean
        them.
        """
        value = f"c{place}"
        missing = self.missing if null else []
        for text in missing:
            value = f"nullif({value}, {quoted(text)})"
        # -1.0 is missing where -1 is
        codes = [text for text in missing if DECIMAL.fullmatch(text)]
        if kind != "VARCHAR":
            value = f"CAST(trim({value}) AS {kind})"
            if kind in ("BIGINT", "DOUBLE"):
                for text in codes:
                    value = f"nullif({value}, {text})"
        elif codes:
            pattern = quoted(spellings(map(text_key, codes)))
            value = f"CASE WHEN NOT regexp_matches({value}, {pattern}) THEN {value} END"
        return f"{value} AS {name}"

    def _type_read(self, place: int, kind: str) -> str:
        """The type in which a column is read: numbers only if as text they would be the
        same levels.

        Among texts 1e5 is a code, and so is a number with more digits than double
        precision has; what it is must not depend on the other rows.
        """
        if kind == TEXT:
            return "VARCHAR"
        forms = self._forms[place, kind]
        if not kind:
            if forms & INEXACT and _type(forms) == "DOUBLE":
                return "VARCHAR"
            return _type(forms)
        if forms == TRUTH:
            return "BOOLEAN"
        if forms in (0, REAL):
            return "DOUBLE"
        if kind == NUMBER:
            raise self._no_numbers(place)
        return "VARCHAR"

    def _find_forms(self, asked: Sequence[tuple[int, str]]) -> None:
        """Find out in which forms the values of some columns are written."""
        new = [column for column in asked if column not in self._forms]
        # what is text in the first rows need not be looked at in all of them
        untyped = [(place, kind) for place, kind in new if not kind]
        for column, forms in self._all_forms(untyped, limit=FIRST_ROWS).items():
            if forms and _type(forms) == "VARCHAR":
                self._forms[column] = forms
        new = [column for column in new if column not in self._forms]
        self._forms |= self._all_forms(new)

    def _all_forms(
        self, asked: Sequence[tuple[int, str]], limit: int | None = None
    ) -> dict[tuple[int, str], int]:
        if not asked:
            return {}
        totals = []
        for place, kind in asked:
            form = _number_form(f"c{place}") if kind else _form(f"c{place}")
            totals.append(f"coalesce(bit_or({form}), 0)")
        places = [place for place, _ in asked]
        return dict(zip(asked, self._totals(places, totals, limit)))

    def _no_numbers(self, place: int) -> PropcalError:
        column = f"c{place}"
        not_a_number = f"TRY_CAST(trim({column}) AS DOUBLE) IS NULL"
        totals = [f"count({column})", f"count({column}) FILTER ({not_a_number})"]
        for pattern in (WORDS, *HINTS):
            totals.append(f"count({column}) FILTER ({_matches(column, pattern)})")
        n, n_wrong, n_words, *n_by_hint = self._totals([place], totals)

        if n_words == n:
            key = "yes and no"
        elif n_wrong == n:
            key = "only text"
        else:
            key = "some text"
        hint = ""
        for count, text in zip(n_by_hint, HINTS.values()):
            if count:
                key = "numbers as text"
                hint = f"{count:,} {text}"
                break
        are = agreeing(n_wrong, "is not a number", "are not numbers")
        wrong = f"{n_wrong:,} of {n:,} values {are}"
        return refused(key, name=self.names[place], are=wrong, hint=hint)

    def _totals(
        self, places: Sequence[int], totals: Sequence[str], limit: int | None = None
    ) -> Any:
        """Some totals over all rows, or over the first rows, from these columns."""
        rows = self._table(places)
        if limit is not None:
            rows = f"(SELECT * FROM {rows} LIMIT {limit})"
        query = f"SELECT {', '.join(totals)} FROM {rows}"
        return self.explained(lambda: self._engine.sql(query).fetchall()[0])


def _type(forms: int) -> str:
    """The type of a column with values of these forms; text if it has none."""
    for kind, (own_forms, _) in TYPES.items():
        if forms and not forms & ~(own_forms | INEXACT):
            return kind
    return "VARCHAR"


def _matches(column: str, pattern: str) -> str:
    """Whether a value matches a pattern; blanks other than spaces are part of a
    text.
    """
    return f"regexp_full_match(trim({column}, ' '), {quoted(pattern)})"


def _number_form(column: str) -> str:
    """The form of a value that should be a number; NaN and infinity are refused
    later.
    """
    number = f"TRY_CAST(trim({column}) AS DOUBLE)"
    truth = _matches(column, PATTERNS[TRUTH])
    return (
        f"CASE WHEN {column} IS NULL THEN 0 WHEN {number} IS NOT NULL THEN {REAL} "
        f"WHEN {truth} THEN {TRUTH} ELSE {OTHER} END"
    )


def _form(column: str) -> str:
    """The form of a value; a date such as 2020-02-30 is none, and some numbers are
    `INEXACT`.
    """
    text = f"trim({column}, ' ')"
    cases = [f"WHEN {column} IS NULL THEN 0"]
    for form, pattern in PATTERNS.items():
        holds = _matches(column, pattern)
        value = str(form)
        if form == REAL:
            value = _number_or_inexact(form, _exact(text))
        elif form == WHOLE:
            value = _number_or_inexact(form, f"length({text}) <= 15 OR {_exact(text)}")
        elif form == DATE:
            holds += f" AND TRY_CAST({text} AS DATE) IS NOT NULL"
        elif form == TIME:
            holds += f" AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL"
        cases.append(f"WHEN {holds} THEN {value}")
    return f"CASE {' '.join(cases)} ELSE {OTHER} END"


def _number_or_inexact(form: int, exact: str) -> str:
    return f"CASE WHEN {exact} THEN {form} ELSE {form | INEXACT} END"


def _exact(text: str) -> str:
    """Whether a text is a number in decimals that double precision does not change.

    That is so with up to 15 digits, and otherwise if the number is printed as it was
    written.
    """
    digits = f"ltrim(regexp_replace({text}, '[-.]', '', 'g'), '0')"
    printed = f"CAST(TRY_CAST({text} AS DOUBLE) AS VARCHAR)"
    same = f"{_without_zeros(text)} = {_without_zeros(printed)}"
    in_decimals = f"regexp_full_match({text}, {quoted(DECIMAL.pattern)})"
    return f"{in_decimals} AND (length({digits}) <= 15 OR {same})"


def _without_zeros(number: str) -> str:
    """A number in decimals without zeros at its end."""
    without = f"rtrim(rtrim({number}, '0'), '.')"
    return f"CASE WHEN contains({number}, '.') THEN {without} ELSE {number} END"
