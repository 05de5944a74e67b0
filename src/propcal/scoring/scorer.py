"""Computes corrected scores for batches of columns, of frames of any engine and files.

Each batch is scored by `Correction.apply_to_rows`. Scoring a row needs no other row, so
that the data can be divided into batches anywhere. Every engine provides its rows as
Arrow or pandas batches, and gets the same kind of frame back. It is recognised by the
type of the frame, so that only an engine in use is imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from propcal.core.arguments import check_choice, check_number
from propcal.core.correction.correction import Correction
from propcal.core.correction.definition import ScoringRows
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import UNIT, FloatArray, to_grid
from propcal.errors import (
    ColumnTitle,
    InputError,
    Message,
    TooManyUnseenError,
    named,
    refused,
)
from propcal.reading.derived_columns import numeric_columns
from propcal.reading.frames import frame_columns, numbers, require
from propcal.reading.role_columns import FEWEST_SWAPPED, INVALID, ScoreTally
from propcal.reading.rows_to_score import refuse_truths, rows_to_score


@lru_cache(maxsize=16)
def _loaded(text: str) -> Correction:
    return Correction.from_json(text)


@dataclass(frozen=True)
class Scorer:
    """How to score a batch.

    `source` is the correction. When sent to other processes, it is the correction's
    text or an object with the text as its `value` (a Spark broadcast), so that no
    compiled code is sent.
    """

    source: Any
    score: str
    column: str
    n_updates: int | None = None
    unseen: str | None = None
    invalid: str = "error"

    @property
    def correction(self) -> Correction:
        """The correction, read from its text once per process."""
        source = self.source
        if isinstance(source, Correction):
            return source
        if isinstance(source, str):
            return _loaded(source)
        return _loaded(source.value)

    @property
    def wanted(self) -> list[str]:
        """The columns to read, beginning with the score."""
        return list(dict.fromkeys([self.score, *self.correction.reads]))

    @property
    def numeric(self) -> list[str]:
        """The columns that must be numeric."""
        correction = self.correction
        patterns = correction.patterns
        of_groups = numeric_columns(patterns.derived, patterns.attributes)
        of_features = [f.column for f in correction.features if f.is_number]
        return [self.score, *of_groups, *of_features]

    @property
    def texts(self) -> list[str]:
        """The columns of which only levels are used: nothing compares them by size."""
        others = {self.score, *self.correction.numeric}
        return [name for name in self.correction.reads if name not in others]

    def correct(self, columns: Any, tally: Tally | None = None) -> FloatArray:
        """The corrected scores of a batch of columns (a mapping or a table); the batch
        may be empty.

        Without a tally, the batch is one part of a frame, and invalid scores are
        refused at once. A tally counts them instead; if they are to be refused, nothing
        is corrected after the first.
        """
        rows = self._checked(columns, tally)
        corrected = self._corrected(rows)
        if tally is not None and rows is not None:
            tally.add_changes(rows.score, corrected)
        return corrected

    def correct_all(self, columns: Any) -> FloatArray:
        """The corrected scores of all rows at once, with a warning if levels did not
        occur in fitting.
        """
        tally = Tally(self)
        rows = self._checked(columns, tally)
        tally.tell()
        return self._corrected(rows)

    def _checked(self, columns: Any, tally: Tally | None) -> ScoringRows | None:
        if not len(columns[self.score]):
            return None
        name = ColumnTitle(self.score)
        if tally is None:
            name = ColumnTitle(self.score, f"{name} (in one part of the frame)")
        refuse_truths(columns[self.score], name)
        raw = numbers(columns[self.score], name)
        if tally is not None and not tally.add_scores(raw) and self.invalid == "error":
            return None
        rows = rows_to_score(raw, columns, self.correction, name, invalid=self.invalid)
        if tally is not None:
            tally.unlisted.add(rows)
        return rows

    def _corrected(self, rows: ScoringRows | None) -> FloatArray:
        if rows is None:
            return np.empty(0)
        return self.correction.apply_to_rows(
            rows, n_updates=self.n_updates, unseen=self.unseen, invalid=self.invalid
        )

    def arrow(self, corrected: FloatArray) -> Any:
        """The corrected scores as an Arrow array, in which missing values are null, not
        NaN.
        """
        return pa.array(corrected, from_pandas=self.invalid != "error")

    def frame(self, frame: Any) -> FloatArray:
        """The corrected scores of a part of a frame in memory."""
        return self.correct(frame_columns(frame, "frame", self.wanted))

    def series(self, part: Any) -> Any:
        """The corrected scores of a part as a pandas series with the same index."""
        import pandas as pd

        return pd.Series(self.frame(part), index=part.index, name=self.column)

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Record batches with one more column."""
        for batch in batches:
            columns = {name: batch.column(name) for name in self.wanted}
            yield self.appended(batch, self.correct(columns))

    def appended(self, batch: Any, corrected: FloatArray) -> Any:
        """A record batch with its corrected scores."""
        columns = [*batch.columns, self.arrow(corrected)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(batch.schema))

    def schema(self, schema: Any) -> Any:
        """The schema with one more column."""
        return schema.append(pa.field(self.column, pa.float64()))


@dataclass(frozen=True)
class ScoringSummary:
    """What scoring did.

    Attributes
    ----------
    rows, invalid : int
        All rows, and those whose score is missing or outside [0, 1].
    unseen_rows : int
        Rows with at least one value that did not occur in the fitting data.
    unseen : dict
        The number of such values in each attribute that has any.
    changed : int
        Rows whose corrected score differs from the score.
    mean_shift : float or None
        The mean of corrected score minus score, over all rows with a valid score.
    """

    rows: int
    invalid: int
    unseen_rows: int
    unseen: dict[str, int]
    changed: int
    mean_shift: float | None


class Tally(ScoreTally):
    """Also counts what happened to the rows of many batches, so that it can be reported
    once.
    """

    def __init__(self, scorer: Scorer) -> None:
        super().__init__()
        self._name = ColumnTitle(scorer.score)
        self._invalid = scorer.invalid
        self._between = False  # whether a score lies between 0 and 1
        self.unlisted = Unlisted(scorer.correction)
        self._changed = 0
        self._shift = 0  # in units of the grid

    def add_scores(self, scores: FloatArray) -> bool:
        """Count a batch; returns whether all scores so far are in [0, 1]."""
        self._between |= bool(np.any((scores > 0) & (scores < 1)))
        return self.add(scores)

    def add_changes(self, scores: FloatArray, corrected: FloatArray) -> None:
        """Count how many scores a batch changes, and by how much."""
        moved = (scores >= 0) & (scores <= 1) & (corrected != scores)
        self._changed += int(np.count_nonzero(moved))
        self._shift += int((to_grid(corrected[moved]) - to_grid(scores[moved])).sum())

    def summary(self) -> ScoringSummary:
        """What was counted."""
        n_valid = self.n - self.invalid
        mean_shift = None
        if n_valid:
            mean_shift = self._shift / UNIT / n_valid
        return ScoringSummary(
            rows=self.n,
            invalid=self.invalid,
            unseen_rows=self.unlisted.unseen_rows,
            unseen=self.unlisted.unseen,
            changed=self._changed,
            mean_shift=mean_shift,
        )

    def refuse_unseen(self, max_share: float | None) -> None:
        """Refuse rows of which more than this share have values that did not occur in
        fitting.
        """
        summary = self.summary()
        n_unseen = summary.unseen_rows
        if max_share is None or not self.n or n_unseen <= max_share * self.n:
            return
        counts = [f"{name}: {count:,}" for name, count in summary.unseen.items()]
        error: Any = refused(
            "too many unseen",
            TooManyUnseenError,
            values=", ".join(counts),
            unseen=n_unseen,
            rows=self.n,
            share=100 * n_unseen / self.n,
        )
        error.summary = summary
        raise error

    def tell(self, *, count_invalid: bool = False) -> None:
        """Refuse invalid scores if asked to, or count them; warn of levels that did not
        occur in fitting.
        """
        if not self.n:
            return
        if self._invalid == "error":
            self.check(self._name, scoring=True)
        if self.n - self.invalid >= FEWEST_SWAPPED and not self._between:
            self._warn(" holds only 0 and 1", "is it the outcome instead of the score?")
        self.unlisted.warn()
        if self.invalid and count_invalid:
            values = f"{self.invalid:,} of {self.n:,} values"
            if self._invalid == "keep":
                become = "they are returned unchanged"
            else:
                become = "their corrected score is missing"
            self._warn(f": {values} are missing or outside [0, 1]", become)

    def _warn(self, problem: str, next_step: str) -> None:
        message = Message(
            f"{self._name}{problem}", argument=self._name.name, next_step=next_step
        )
        warnings.warn(message, UserWarning, stacklevel=4)


def scored_frame(scorer: Scorer, frame: Any) -> Any:
    """The same kind of frame with the corrected scores as its last column."""
    column = scorer.column
    if not isinstance(column, str) or not column:
        raise InputError(
            "column must be a text, the name of the new column", argument="column"
        )
    if scorer.unseen is not None:
        check_choice("unseen", scorer.unseen, ("replay", "keep", "error"))
    check_choice("invalid", scorer.invalid, INVALID)
    if scorer.n_updates is not None:
        check_number("n_updates", scorer.n_updates, at_least=0, whole=True)
    engine = _engine_of(frame, scorer.score)
    names = list(map(str, engine.names(frame)))
    require(names, scorer.wanted)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"the frame has several columns named {twice}", next_step="Rename them"
        )
    exists = column in names
    if engine.ignores_case:
        exists |= column.lower() in [name.lower() for name in names]
    if exists:
        raise refused(
            "column exists", where="the frame", column=column, how="column=..."
        )
    return engine.with_scores(frame, scorer)


class Engine(NamedTuple):
    """How to add a column to a frame of one kind.

    `names` gives the names of its columns; the engine may ignore case in them.
    """

    with_scores: Callable[[Any, Scorer], Any]
    names: Callable[[Any], Any]
    ignores_case: bool = False


def _engine_of(frame: Any, score: str) -> Engine:
    """The engine of a frame."""
    if "pyspark.pandas" not in type(frame).__module__:
        for kind in type(frame).__mro__:
            package = kind.__module__.split(".")[0]
            engine = _ENGINES.get(f"{package}.{kind.__name__}")
            if engine is not None:
                return engine
    raise refused("no frame to score", score=score, kind=type(frame).__name__)


def _pandas(frame: Any, scorer: Scorer) -> Any:
    return frame.assign(**{scorer.column: _all_rows(frame, scorer)})


def _polars(frame: Any, scorer: Scorer) -> Any:
    import polars as pl

    corrected = scorer.arrow(_all_rows(frame, scorer))
    return frame.with_columns(pl.Series(scorer.column, corrected, dtype=pl.Float64))


def _table(frame: Any, scorer: Scorer) -> Any:
    field = pa.field(scorer.column, pa.float64())
    return frame.append_column(field, scorer.arrow(_all_rows(frame, scorer)))


def _all_rows(frame: Any, scorer: Scorer) -> FloatArray:
    return scorer.correct_all(frame_columns(frame, "frame", scorer.wanted))


def _record_batch(frame: Any, scorer: Scorer) -> Any:
    return next(scorer.batches([frame]))


def _reader(frame: Any, scorer: Scorer) -> Any:
    return pa.RecordBatchReader.from_batches(
        scorer.schema(frame.schema), scorer.batches(frame)
    )


def _lazy_polars(frame: Any, scorer: Scorer) -> Any:
    """Add the column as an expression of single rows, so that polars can stream and
    filter first.
    """
    import polars as pl

    def correct(rows: Any) -> Any:
        corrected = scorer.arrow(scorer.frame(rows.struct.unnest()))
        return pl.Series(scorer.column, corrected, dtype=pl.Float64)

    rows = pl.struct(scorer.wanted)
    corrected = rows.map_batches(correct, return_dtype=pl.Float64, is_elementwise=True)
    return frame.with_columns(corrected.alias(scorer.column))


def _duckdb(frame: Any, scorer: Scorer) -> Any:
    """Add the column through a function on the relation's own connection, named after
    what it computes.

    The result is a relation of the same connection, which can be joined and run again.
    A function has to be registered with the connection, and DuckDB has no public way to
    get it from a relation.
    """
    connection = getattr(frame, "_con", None)
    if connection is None:
        raise refused("duckdb connection")
    type_of = dict(zip(frame.columns, frame.types))
    wanted = scorer.wanted
    types = [type_of[name] for name in wanted]
    name = _duckdb_function_name(scorer, types)

    def correct(*columns: Any) -> Any:
        return scorer.arrow(scorer.correct(dict(zip(wanted, columns))))

    # DuckDB counts the arguments
    arguments = [
        Parameter(f"c{i}", Parameter.POSITIONAL_ONLY) for i in range(len(wanted))
    ]
    correct.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    known = connection.execute(
        "SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [name]
    )
    if not known.fetchall()[0][0]:
        connection.create_function(
            name, correct, types, "DOUBLE", type="arrow", null_handling="special"
        )
    called = f"{name}({', '.join(map(named, wanted))})"
    return frame.project(f"*, {called} AS {named(scorer.column)}")


def _duckdb_function_name(scorer: Scorer, types: list[Any]) -> str:
    """A name that says what a function computes: another correction has another."""
    computes = [
        scorer.correction.to_json(),
        scorer.wanted,
        list(map(str, types)),
        scorer.n_updates,
        scorer.unseen,
        scorer.invalid,
    ]
    return f"propcal_{sha256(repr(computes).encode()).hexdigest()[:16]}"


def _dask(frame: Any, scorer: Scorer) -> Any:
    """Add the column as a separate series, so that Dask still reads only the columns it
    needs.
    """
    labels = {str(label): label for label in frame.columns}
    scorer = replace(scorer, source=scorer.correction.to_json())
    part = frame[[labels[name] for name in scorer.wanted]]
    corrected = part.map_partitions(scorer.series, meta=(scorer.column, "f8"))
    return frame.assign(**{scorer.column: corrected})


def _spark(frame: Any, scorer: Scorer) -> Any:
    from pyspark.sql.types import DoubleType, StructField, StructType

    text = scorer.correction.to_json()
    try:
        source = frame.sparkSession.sparkContext.broadcast(text)
    except Exception:
        # Spark Connect and shared clusters have no broadcast; the function has the text
        source = text
    field = StructField(scorer.column, DoubleType(), scorer.invalid != "error")
    schema = StructType([*frame.schema.fields, field])
    return frame.mapInArrow(replace(scorer, source=source).batches, schema)


def _columns(frame: Any) -> Any:
    return frame.columns


def _column_names(frame: Any) -> Any:
    return frame.column_names


def _schema_names(frame: Any) -> Any:
    return frame.schema.names


def _lazy_names(frame: Any) -> Any:
    return frame.collect_schema().names()


_ENGINES = {
    "pandas.DataFrame": Engine(_pandas, _columns),
    "polars.DataFrame": Engine(_polars, _columns),
    "polars.LazyFrame": Engine(_lazy_polars, _lazy_names),
    "pyarrow.Table": Engine(_table, _column_names),
    "pyarrow.RecordBatch": Engine(_record_batch, _schema_names),
    "pyarrow.RecordBatchReader": Engine(_reader, _schema_names),
    "duckdb.DuckDBPyRelation": Engine(_duckdb, _columns, ignores_case=True),
    "dask.DataFrame": Engine(_dask, _columns),
    "pyspark.DataFrame": Engine(_spark, _columns, ignores_case=True),
}
