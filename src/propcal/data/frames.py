"""Reads frames, series and arrays in memory as columns (for frames of DuckDB, Spark or Dask see engines/)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from propcal.core.grid import FloatArray
from propcal.data.derive import RECODE, Columns, floats
from propcal.data.levels import DATES, level_key
from propcal.errors import InputError
from propcal.numbers import noun
from propcal.plain_text import plain

SEPARATORS = re.compile(r"[;|+ ]+")  # of names, other than commas
MOST_NAMES = 30  # the most columns that an error lists
# raised by Arrow for Python values that it cannot hold, such as whole numbers of more than 64 bits
NOT_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError)
BUFFERS = (bytearray, memoryview)


def is_engine_frame(frame: Any) -> bool:
    """Whether a frame belongs to an engine that processes rows itself: DuckDB, Spark, Dask, lazy polars."""
    return isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame)


def is_frame(value: Any) -> bool:
    """Whether this is a data frame, in memory or of an engine."""
    return isinstance(nw.from_native(value, pass_through=True), (nw.DataFrame, nw.LazyFrame))


def require(columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse missing columns; the error suggests a similar name."""
    for name in wanted:
        if name not in columns:
            near = get_close_matches(str(name), columns, n=1)
            parts = [part.strip() for part in SEPARATORS.split(str(name))]
            hint = f"Did you mean {near[0]!r}?" if near else None
            if len(parts) > 1 and all(part in columns for part in parts):
                hint = f"If these are {len(parts)} columns, separate them with commas: {','.join(parts)}"
            more = f" and {len(columns) - MOST_NAMES:,} more" if len(columns) > MOST_NAMES else ""
            raise InputError(
                f"there is no column {name!r}; the columns are {list(columns[:MOST_NAMES])}{more}.",
                argument=name,
                next_step=hint,
                between=" ",
            )


def numbers(values: Any, name: str) -> FloatArray:
    """One column of numbers as float64; missing values become NaN."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if not isinstance(values, np.ndarray):
        values = _array(values, name)
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = _objects(values, name)
    if not isinstance(values, np.ndarray):
        values = floats(values, name, RECODE)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; its shape is {values.shape}", argument=name)
    if values.dtype.kind not in "fiub":
        kind = values.dtype.kind
        what = "text" if kind in "UST" else DATES if kind in "mM" else str(values.dtype)
        raise InputError(
            f"{name} must be numeric; all {len(values):,} values are {what}",
            argument=name,
            next_step=RECODE,
        )
    return np.ascontiguousarray(values, dtype=np.float64)


def one_column(values: Any, name: str) -> Any:
    """One column as a pyarrow array, or as objects of mixed kinds."""
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(np.asarray(values.data), mask=np.ma.getmaskarray(values))
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise InputError(f"{name} must be one-dimensional; its shape is {values.shape}", argument=name)
        return _attribute(values)
    column = _array(values, name)
    return one_column(column, name) if isinstance(column, np.ndarray) else column


def _objects(values: Any, name: str) -> Any:
    """Python numbers from an object array."""
    if values.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; its shape is {values.shape}", argument=name)
    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError:
        raise _no_unicode(name) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise InputError(
            f"{name} must contain only numbers; it has values of several types", argument=name
        ) from None


def _array(values: Any, name: str) -> Any:
    """A list, series or one-column frame as one pyarrow or numpy array."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, (list, tuple)):
        try:
            array = np.asarray(values)
        except ValueError:
            raise InputError(
                f"{name} must be one-dimensional; it is a list of lists of different lengths", argument=name
            ) from None
        return array if array.dtype.kind in "fiub" else np.array(values, dtype=object)
    try:
        native = nw.from_native(values, eager_only=True, allow_series=True)
    except TypeError:
        if hasattr(values, "__array__"):
            return np.asarray(values)
        raise InputError(
            f"{name} must be an array, a series or a column of a data frame; got {type(values).__name__}",
            argument=name,
        ) from None
    if isinstance(native, nw.DataFrame):
        if len(native.columns) != 1:
            raise InputError(
                f"{name} must be one column; got a frame with {len(native.columns)}", argument=name
            )
        native = native[native.columns[0]]
    return _arrow(native)


def _arrow(series: Any) -> Any:
    """A narwhals series as a pyarrow array, or as Python objects if its values have mixed types."""
    native = series.to_native()
    if series.dtype == nw.Object and not hasattr(native, "array"):  # polars would give addresses in memory
        return _attribute(native.to_list())
    values = getattr(getattr(native, "dtype", None), "categories", native)  # pandas categories may be objects
    if str(getattr(values, "dtype", "")) == "object" and not _one_kind(values):
        return _mixed(np.asarray(native, dtype=object))
    try:
        column = series.to_arrow()
    except UnicodeEncodeError:
        raise _no_unicode(series.name) from None
    except NOT_ARROW:
        return _mixed(series.to_list())
    return _mixed(series.to_numpy()) if _is_special(column.type) else column


def _is_special(kind: Any) -> bool:
    """Whether values need Python to be read: intervals, periods, UUIDs, records."""
    held = kind.value_type if pa.types.is_dictionary(kind) else kind
    return isinstance(held, pa.BaseExtensionType) or bool(pa.types.is_nested(held))


def _one_kind(values: Any) -> bool:
    """Whether Python objects all have one type, apart from missing ones (Arrow would convert mixed types).

    Arrow would convert numpy's dates, too.
    """
    kinds = {*map(type, values)} - {type(None)}
    if np.datetime64 in kinds:
        return False
    if len(kinds) > 1 and float in kinds:
        kinds -= {float} if all(v != v for v in values if isinstance(v, float)) else set()
    return len(kinds) <= 1


def _no_unicode(name: Any) -> InputError:
    """The error for half a surrogate pair, which can result from reading with the wrong encoding."""
    return InputError(
        f"{plain(name)} contains invalid Unicode",
        argument=str(name),
        next_step="Read the data again with the correct encoding",
    )


def _mixed(values: Any) -> Any:
    """Objects of several types, with every kind of missing value as None."""
    try:
        "".join(value for value in values if isinstance(value, str)).encode()
    except UnicodeEncodeError:
        raise _no_unicode("sensitive_features") from None
    cleaned = np.empty(len(values), dtype=object)
    cleaned[:] = [
        None if level_key(value) is None else bytes(value) if isinstance(value, BUFFERS) else value
        for value in values
    ]
    return cleaned


def attribute_columns(sensitive_features: Any, wanted: Sequence[str] | None = None) -> Columns:
    """The attributes of each person by name, from a frame, series, mapping or array; None has none.

    With `wanted`, only those columns; the columns of an array have no names and are used by position.
    """
    if sensitive_features is None:
        return {}
    if isinstance(sensitive_features, str):
        raise _names_only([sensitive_features])
    if isinstance(sensitive_features, Mapping):
        chosen = {str(name): column for name, column in sensitive_features.items()}
        if len(chosen) < len(sensitive_features):
            raise InputError(
                "sensitive_features has several columns with the same name",
                argument="sensitive_features",
                next_step="Rename them",
            )
        if wanted is not None:
            require(list(chosen), wanted)
        return {name: _attribute(chosen[name]) for name in (chosen if wanted is None else wanted)}
    if isinstance(sensitive_features, (pa.Array, pa.ChunkedArray)):
        unnamed = [sensitive_features]
    elif isinstance(sensitive_features, (list, tuple, np.ndarray)):
        unnamed = [_attribute(column) for column in _array_columns(sensitive_features)]
    else:
        return frame_columns(sensitive_features, "sensitive_features", wanted)
    names = [f"sensitive_feature_{i}" for i in range(len(unnamed))] if wanted is None else wanted
    if len(names) != len(unnamed):
        raise InputError(
            f"sensitive_features must have the {len(names)} columns {list(names)}; got {len(unnamed)}",
            argument="sensitive_features",
        )
    return dict(zip(names, unnamed))


def refuse_names(sensitive_features: Any, n: int) -> None:
    """Refuse names of columns in place of the columns: a few different texts beside more rows."""
    given = sensitive_features
    if isinstance(given, (list, tuple)) and len(given) < n and {*map(type, given)} == {str}:
        raise _names_only([*given])


def _names_only(names: list[str]) -> InputError:
    return InputError(
        f"sensitive_features must be columns with a value for each person; got the "
        f"{noun(len(names), 'text')} {names[:MOST_NAMES]}",
        argument="sensitive_features",
        next_step=f"If these are names of columns, pass the columns: frame[{names[:MOST_NAMES]}]",
    )


def mask_names(masks: Any) -> list[str]:
    """The names of columns of truth values (or 0 and 1); anything else is refused."""
    columns = attribute_columns(masks)
    for name, values in columns.items():
        seen = set(values.unique().to_pylist()) if hasattr(values, "unique") else set(values)
        if not seen - {None} <= {True, False}:  # 1 and 0 equal True and False
            raise InputError(
                f"masks: column {name!r} must have only truth values (or 0 and 1)",
                argument="masks",
                next_step="Use Groups(columns=...) for columns of levels",
            )
    return list(columns)


def _array_columns(table: Any) -> list[Any]:
    """The columns of a one- or two-dimensional array or list."""
    array = table if isinstance(table, np.ndarray) else np.array(table, dtype=object)
    if array.ndim not in (1, 2):
        raise InputError(
            f"sensitive_features must have one or two dimensions; it has {array.ndim}",
            argument="sensitive_features",
        )
    return [array] if array.ndim == 1 else list(array.T)


def _attribute(values: Any) -> Any:
    """One attribute as a pyarrow array, or as objects of mixed types."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, (list, tuple, np.ndarray)):
        if not isinstance(values, np.ndarray):
            values = np.fromiter(values, dtype=object, count=len(values))  # np.array would open buffers
        if values.dtype.kind == "O" and not _one_kind(values):
            return _mixed(values)
        try:
            column = pa.array(values, from_pandas=True)
        except UnicodeEncodeError:
            raise _no_unicode("sensitive_features") from None
        except NOT_ARROW:
            return _mixed(values)
        return _mixed(values) if _is_special(column.type) else column
    return _array(values, "sensitive_features")


def frame_columns(frame: Any, name: str, wanted: Sequence[str] | None = None) -> Columns:
    """The columns of a data frame or series, or only the wanted ones; their names must be distinct."""
    labels = [str(label) for label in getattr(frame, "column_names", getattr(frame, "columns", []))]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"{name} has several columns named {twice}", argument=name, next_step="Rename them")
    if hasattr(frame, "set_axis") and labels and any(not isinstance(label, str) for label in frame.columns):
        frame = frame.set_axis(labels, axis=1)  # pandas allows numbers and other objects as column names
    try:
        native = nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError:
        raise InputError(
            f"{name} must be a data frame (pandas, polars, pyarrow), a series, a mapping or an array; "
            f"got {type(frame).__name__}",
            argument=name,
            next_step="For a DuckDB relation, a Spark or a Dask frame use Atoms.from_frame, and for files "
            "Atoms.from_files",
        ) from None
    if isinstance(native, nw.Series):
        only = list(wanted) if wanted is not None and len(wanted) == 1 and not native.name else None
        native = native.alias(only[0] if only else str(native.name or "sensitive_feature_0")).to_frame()
    if wanted is not None:
        require(native.columns, wanted)
    return {label: _arrow(native[label]) for label in (native.columns if wanted is None else wanted)}


def collected_columns(frame: Any, wanted: Sequence[str]) -> Columns:
    """The wanted columns of an engine's frame, read into memory."""
    lazy: Any = nw.from_native(frame)
    require(lazy.collect_schema().names(), wanted)
    return frame_columns(lazy.select(*wanted).collect(backend="pyarrow").to_native(), "data", wanted)


def frame_names(frame: Any) -> list[str]:
    """The names of the columns of a frame of any kind, also of an engine."""
    native = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        return list(native.collect_schema().names())
    return [str(label) for label in getattr(frame, "column_names", getattr(frame, "columns", []))]


def columns_of_x(X: Any, names: Sequence[Any]) -> Columns:
    """The named columns of a feature matrix; columns of a matrix without names are given by number."""
    if not (isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "toarray")):
        labels = [str(label) for label in getattr(X, "column_names", getattr(X, "columns", []))]
        by_place = all(isinstance(name, (int, np.integer)) and str(name) not in labels for name in names)
        if by_place and any(not 0 <= name < len(labels) for name in names):
            raise InputError(
                f"sensitive_features is {list(names)}, but X has {len(labels)} columns",
                argument="sensitive_features",
            )
        return frame_columns(X, "X", [labels[name] if by_place else str(name) for name in names])
    matrix: Any = X if hasattr(X, "toarray") else np.asarray(X)
    if not all(isinstance(name, (int, np.integer)) for name in names):
        raise InputError(
            f"sensitive_features is {list(names)}, but X has no column names",
            argument="sensitive_features",
            next_step="Pass X as a data frame, or give column numbers",
        )
    if any(not 0 <= name < matrix.shape[1] for name in names):
        raise InputError(
            f"sensitive_features is {list(names)}, but X has {matrix.shape[1]} columns",
            argument="sensitive_features",
        )
    dense = (matrix[:, [i]].toarray()[:, 0] if hasattr(X, "toarray") else matrix[:, i] for i in names)
    return {f"column {i}": _attribute(column) for i, column in zip(names, dense)}
