"""Adds a column of corrected scores to a frame of any engine, and returns the same kind of frame.

Every engine provides its rows as Arrow or pandas batches, which the scorer corrects. The engine is recognised
by the type of the frame, so that only an engine in use is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from inspect import Parameter, Signature
from typing import Any

import pyarrow as pa

from propcal.core.arguments import check_choice, check_number
from propcal.core.grid import FloatArray
from propcal.data.frames import frame_columns, require
from propcal.data.role_columns import INVALID
from propcal.errors import InputError, named, refused
from propcal.scoring.scorer import Scorer


def scored_frame(scorer: Scorer, frame: Any) -> Any:
    """The same kind of frame with the corrected scores as its last column."""
    column = scorer.column
    if not isinstance(column, str) or not column:
        raise InputError("column must be a text, the name of the new column", argument="column")
    if scorer.unseen is not None:
        check_choice("unseen", scorer.unseen, ("replay", "keep", "error"))
    check_choice("invalid", scorer.invalid, INVALID)
    if scorer.n_updates is not None:
        check_number("n_updates", scorer.n_updates, at_least=0, whole=True)
    with_scores, names, any_case = _engine(frame, scorer.score)
    require(names, scorer.wanted)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"the frame has several columns named {twice}", next_step="Rename them")
    if column in names or (any_case and column.lower() in [name.lower() for name in names]):
        raise refused("column exists", where="the frame", column=column, how="column=...")
    return with_scores(frame, scorer)


WithScores = Callable[[Any, Scorer], Any]


def _engine(frame: Any, score: str) -> tuple[WithScores, list[str], bool]:
    """How to add a column to a frame of this kind, its column names, and whether it ignores case in names."""
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(frame).__mro__}
    found = [engine for kind, engine in _ENGINES.items() if kind in kinds]
    if not found or "pyspark.pandas" in type(frame).__module__:
        raise refused("no frame to score", score=score, kind=type(frame).__name__)
    with_scores, names, any_case = found[0]
    return with_scores, [str(name) for name in names(frame)], any_case


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
    return scorer.batch(frame)


def _reader(frame: Any, scorer: Scorer) -> Any:
    return pa.RecordBatchReader.from_batches(scorer.schema(frame.schema), scorer.batches(frame))


def _lazy_polars(frame: Any, scorer: Scorer) -> Any:
    """Add the column as an expression of single rows, so that polars can stream and filter first."""
    import polars as pl

    def correct(rows: Any) -> Any:
        corrected = scorer.arrow(scorer.frame(rows.struct.unnest()))
        return pl.Series(scorer.column, corrected, dtype=pl.Float64)

    rows = pl.struct(scorer.wanted)
    corrected = rows.map_batches(correct, return_dtype=pl.Float64, is_elementwise=True)
    return frame.with_columns(corrected.alias(scorer.column))


def _duckdb(frame: Any, scorer: Scorer) -> Any:
    """Add the column through a function on the relation's own connection, named after what it computes.

    The result is a relation of the same connection, which can be joined and run again. A function has to be
    registered with the connection, and DuckDB has no public way to get it from a relation.
    """
    connection = getattr(frame, "_con", None)
    if connection is None:
        raise refused("duckdb connection")
    types = dict(zip(frame.columns, frame.types))
    wanted = scorer.wanted
    how = [scorer.n_updates, scorer.unseen, scorer.invalid]
    computes = [scorer.correction.to_json(), wanted, [str(types[name]) for name in wanted], *how]
    name = f"propcal_{sha256(repr(computes).encode()).hexdigest()[:16]}"

    def correct(*columns: Any) -> Any:
        return scorer.arrow(scorer.correct(dict(zip(wanted, columns))))

    places = [Parameter(f"c{i}", Parameter.POSITIONAL_ONLY) for i in range(len(wanted))]
    correct.__signature__ = Signature(places)  # type: ignore[attr-defined]  # DuckDB counts the arguments
    known = connection.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name = ?", [name])
    if not known.fetchall()[0][0]:
        connection.create_function(
            name, correct, [types[n] for n in wanted], "DOUBLE", type="arrow", null_handling="special"
        )
    return frame.project(f"*, {name}({', '.join(map(named, wanted))}) AS {named(scorer.column)}")


def _dask(frame: Any, scorer: Scorer) -> Any:
    """Add the column as a separate series, so that Dask still reads only the columns it needs."""
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
    except Exception:  # Spark Connect and shared clusters have no broadcast, so the function carries the text
        source = text
    field = StructField(scorer.column, DoubleType(), scorer.invalid != "error")
    schema = StructType([*frame.schema.fields, field])
    return frame.mapInArrow(replace(scorer, source=source).batches, schema)


_ENGINES: dict[str, tuple[WithScores, Callable[[Any], Any], bool]] = {
    "pandas.DataFrame": (_pandas, lambda frame: frame.columns, False),
    "polars.DataFrame": (_polars, lambda frame: frame.columns, False),
    "polars.LazyFrame": (_lazy_polars, lambda frame: frame.collect_schema().names(), False),
    "pyarrow.Table": (_table, lambda frame: frame.column_names, False),
    "pyarrow.RecordBatch": (_record_batch, lambda frame: frame.schema.names, False),
    "pyarrow.RecordBatchReader": (_reader, lambda frame: frame.schema.names, False),
    "duckdb.DuckDBPyRelation": (_duckdb, lambda frame: frame.columns, True),
    "dask.DataFrame": (_dask, lambda frame: frame.columns, False),
    "pyspark.DataFrame": (_spark, lambda frame: frame.columns, True),
}
