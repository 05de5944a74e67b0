"""Reads frames, series and arrays in memory as columns (for frames of DuckDB, Spark or
Dask see engines/).

Lists and numpy arrays of plain values become columns with numpy alone. Everything else
(frames, series, dates, decimals, unusual types) goes through Arrow, which takes longer
to import than a few people take to score. A level depends on its cell alone, so both
ways give the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from math import nan
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.errors import Argument, InputError, PropcalError, is_unicode, refused
from propcal.extras import Later
from propcal.numbers import noun
from propcal.reading.levels import DATES, LIMIT, distinct, level_key

pa: Any = Later("pyarrow")
pc: Any = Later("pyarrow.compute")
nw: Any = Later("narwhals.stable.v2")
Columns = dict[
    str, Any
]  # name -> pyarrow array, or numpy array of numbers or of Python objects
RECODE = "Convert it, for example with astype(float)"
TOP_CODED = 'are limits such as "> 89" (top-coded ages): recode them, for example to 90'
SEPARATORS = re.compile(r"[;|+ ]+")  # of names, other than commas
MOST_NAMES = 30  # the most columns that an error lists
# raised by Arrow for Python values that it cannot hold, such as whole numbers of more
# than 64 bits; Arrow's own errors are kinds of these
NOT_ARROW = (ValueError, TypeError, NotImplementedError, OverflowError)
BUFFERS = (bytearray, memoryview)
FEATURES = "sensitive_features"
MISSING = type(None)
NUMBERS = frozenset({float, int, MISSING, np.float64, np.int64, np.int32})
TRUTHS = frozenset({bool, MISSING, np.bool_})
PLAIN = NUMBERS | TRUTHS | {str, np.str_}
LARGEST = 1 << 53  # whole numbers up to here are the same in every type


def is_engine_frame(frame: Any) -> bool:
    """Whether a frame belongs to an engine that processes rows itself: DuckDB, Spark,
    Dask, lazy polars.
    """
    return isinstance(_as_narwhals(frame), nw.LazyFrame)


def is_frame(value: Any) -> bool:
    """Whether this is a data frame, in memory or of an engine."""
    return isinstance(_as_narwhals(value), (nw.DataFrame, nw.LazyFrame))


def _as_narwhals(value: Any) -> Any:
    """A frame or series as narwhals holds it, anything else as it is; names of columns
    must be distinct.
    """
    if type(value).__module__.split(".")[0] == "pandas" and hasattr(value, "columns"):
        refuse_repeated([str(label) for label in value.columns], "the frame")
    return nw.from_native(value, pass_through=True)


def refuse_repeated(labels: Sequence[str], name: str) -> None:
    """Refuse a frame with several columns of the same name."""
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise InputError(
            f"{name} has several columns named {twice}",
            argument=name,
            next_step="Rename them",
        )


def column_names(argument: str, names: Any, of: str = "") -> list[str]:
    """The names of columns that are given for an argument, each once; anything but a
    list is refused.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
        raise InputError(
            Argument(argument) + f" must be a list of names of columns{of}"
        )
    return list(dict.fromkeys(names or ()))


def require(columns: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse missing columns; the error suggests a similar name."""
    for name in wanted:
        if name not in columns:
            near = get_close_matches(str(name), columns, n=1)
            parts = [part.strip() for part in SEPARATORS.split(str(name))]
            hint = f"Did you mean {near[0]!r}?" if near else None
            if len(parts) > 1 and all(part in columns for part in parts):
                hint = f"If these are {len(parts)} columns, separate them with commas: {','.join(parts)}"
            if len(columns) > MOST_NAMES:
                more = f" and {len(columns) - MOST_NAMES:,} more"
            else:
                more = ""
            problem = f"there is no column {name!r}; the columns are {list(columns[:MOST_NAMES])}{more}."
            raise InputError(problem, argument=name, next_step=hint, between=" ")


def numbers(values: Any, name: str) -> FloatArray:
    """One column of numbers as float64; missing values become NaN."""
    values = _array_of_list(values, name)
    if type(values) is np.ndarray and values.dtype.kind in "fiub":
        return np.ascontiguousarray(_one_dimension(values, name), dtype=np.float64)
    return floats(_plain_first(values, name), name, RECODE)


def floats(column: Any, name: str, hint: str | None = None) -> FloatArray:
    """A column of any numeric type as float64; missing values become NaN."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind != "O":
            plain = column.astype(np.float64)
        else:
            plain = plain_floats(column)
        if plain is not None:
            return plain
        try:
            column = pa.array(column)
        except NOT_ARROW:
            raise refused("several types", name=name) from None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (
        pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
    ):
        text = holds_text(column)
        if text:
            limits = pc.sum(
                pc.match_substring_regex(column, f"^\\s*({LIMIT})\\s*$")
            ).as_py()
        else:
            limits = 0
        if text:
            what = "text"
        elif pa.types.is_temporal(kind):
            what = DATES
        else:
            what = str(kind)
        if len(column) > 1:
            values = f"all {len(column):,} values are"
        else:
            values = "the value is"
        problem = f"{name} must be numeric; {values} {what}"
        step = f"{limits:,} of them {TOP_CODED}" if limits else hint
        raise InputError(problem, argument=name, next_step=step, between=". ")
    if pa.types.is_decimal(
        kind
    ):  # via text, because a direct cast depends on the other values in the batch
        column = column.cast(pa.string())
    return np.asarray(
        column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    )


def holds_text(column: Any) -> bool:
    """Whether a column, or some of its objects, are texts or bytes."""
    if isinstance(column, np.ndarray):
        return any(isinstance(value, (str, bytes)) for value in column)
    kind = held_type(column.type)
    return not is_record(kind) and ("string" in str(kind) or "binary" in str(kind))


def is_record(kind: Any) -> bool:
    """Whether an Arrow type holds lists or records, also as a dictionary."""
    return bool(pa.types.is_nested(held_type(kind)))


def held_type(kind: Any) -> Any:
    """The type of the values, also of a dictionary's."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def one_column(values: Any, name: str) -> Any:
    """One column as a pyarrow array, or as objects of mixed kinds."""
    return _column(_array_of_list(values, name), name)


def _array_of_list(values: Any, name: str) -> Any:
    """A list of numbers as an array; anything else as it is."""
    if not isinstance(values, (list, tuple)):
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise refused("uneven lists", name=name) from None
    if array.dtype.kind in "fiub":
        return array
    return np.array(values, dtype=object)


def _one_dimension(values: Any, name: str) -> Any:
    """An array of one dimension, or of one column."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InputError(
            f"{name} must be one-dimensional; its shape is {values.shape}",
            argument=name,
        )
    return values


def _column(values: Any, name: str = FEATURES) -> Any:
    """One column as a pyarrow array, or as objects of mixed kinds."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if isinstance(values, (list, tuple)):
        values = np.fromiter(
            values, dtype=object, count=len(values)
        )  # np.array would open buffers
    if not isinstance(values, np.ndarray):
        try:
            native = nw.from_native(values, eager_only=True, allow_series=True)
        except TypeError:
            native = None
        if isinstance(native, nw.DataFrame):
            if len(native.columns) != 1:
                raise refused("several columns", name=name, n=len(native.columns))
            native = native[native.columns[0]]
        if native is not None:
            return _of_series(native)
        if not hasattr(values, "__array__"):
            raise refused("not a column", name=name, kind=type(values).__name__)
        values = np.asarray(values)
    values = _one_dimension(values, name)
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(np.asarray(values.data), mask=np.ma.getmaskarray(values))
    if values.dtype.kind == "O" and not _one_kind(values):
        return _mixed(values, name)
    return _in_arrow(lambda: pa.array(values, from_pandas=True), values, name)


def _of_series(series: Any) -> Any:
    """A narwhals series as a pyarrow array, or as Python objects if its values have
    mixed types.
    """
    native = series.to_native()
    if series.dtype == nw.Object and not hasattr(
        native, "array"
    ):  # polars would give addresses in memory
        return _column(native.to_list())
    values = getattr(
        getattr(native, "dtype", None), "categories", native
    )  # pandas categories may be objects
    if str(getattr(values, "dtype", "")) == "object" and not _one_kind(values):
        return _mixed(np.asarray(native, dtype=object))
    return _in_arrow(series.to_arrow, series, series.name)


def _in_arrow(convert: Callable[[], Any], values: Any, name: Any) -> Any:
    """Values as an Arrow array; as objects if Arrow cannot hold them, or needs Python
    to read them.
    """
    try:
        column = convert()
    except UnicodeEncodeError:
        raise refused("no unicode", name=name) from None
    except NOT_ARROW:
        column = None
    # intervals, periods, UUIDs, records
    if (
        column is None
        or isinstance(held_type(column.type), pa.BaseExtensionType)
        or is_record(column.type)
    ):
        return _mixed(values if isinstance(values, np.ndarray) else values.to_list())
    return column


def _one_kind(values: Any) -> bool:
    """Whether Python objects all have one type, apart from missing ones (Arrow would
    convert mixed types).

    Arrow would convert numpy's dates, too.
    """
    kinds = {*map(type, values)} - {type(None)}
    if np.datetime64 in kinds:
        return False
    if len(kinds) > 1 and float in kinds:
        kinds -= (
            {float} if all(v != v for v in values if isinstance(v, float)) else set()
        )
    return len(kinds) <= 1


def _mixed(values: Any, name: str = FEATURES) -> Any:
    """Objects of several types, with every kind of missing value as None."""
    if not is_unicode("".join(value for value in values if isinstance(value, str))):
        raise refused("no unicode", name=name)
    cleaned = np.empty(len(values), dtype=object)
    held = (bytes(value) if isinstance(value, BUFFERS) else value for value in values)
    cleaned[:] = [None if level_key(value) is None else value for value in held]
    return cleaned


def attribute_columns(
    sensitive_features: Any, wanted: Sequence[str] | None = None, *, plain: bool = False
) -> Columns:
    """The attributes of each person by name, from a frame, series, mapping or array;
    None has none.

    With `wanted`, only those columns; the columns of an array have no names and are
    used by position. Where lists and arrays are `plain`, numpy reads them.
    """
    given = sensitive_features
    read = _plain_first if plain else _column
    if given is None:
        return {}
    if isinstance(given, str):
        raise _names_only([given])
    if isinstance(given, Mapping):
        named = {str(name): column for name, column in given.items()}
        if len(named) < len(given):
            raise refused("names twice")
        require(list(named), wanted or ())
        return {
            name: read(named[name]) for name in (named if wanted is None else wanted)
        }
    unnamed = [given]
    if isinstance(given, (list, tuple, np.ndarray)):
        if isinstance(given, np.ndarray):
            array = given
        else:
            array = np.array(given, dtype=object)
        if array.ndim not in (1, 2):
            raise refused("dimensions", n=array.ndim)
        unnamed = [array] if array.ndim == 1 else list(array.T)
    elif not isinstance(given, (pa.Array, pa.ChunkedArray)):
        return frame_columns(given, FEATURES, wanted)
    if wanted is None:
        names = [f"sensitive_feature_{i}" for i in range(len(unnamed))]
    else:
        names = wanted
    if len(names) != len(unnamed):
        raise refused("other width", n=len(names), names=list(names), got=len(unnamed))
    return {name: read(column) for name, column in zip(names, unnamed)}


def refuse_names(sensitive_features: Any, n: int) -> None:
    """Refuse names of columns in place of the columns: a few different texts beside
    more rows.
    """
    given = sensitive_features
    if (
        isinstance(given, (list, tuple))
        and len(given) < n
        and {*map(type, given)} == {str}
    ):
        raise _names_only([*given])


def _names_only(names: list[str]) -> PropcalError:
    return refused(
        "names only", texts=noun(len(names), "text"), some=names[:MOST_NAMES]
    )


def mask_names(masks: Any) -> list[str]:
    """The names of columns of truth values (or 0 and 1); anything else is refused."""
    columns = attribute_columns(masks)
    for name, values in columns.items():
        if not {*distinct(values, name)[0], None} <= {
            True,
            False,
            None,
        }:  # 1 and 0 equal True and False
            raise refused("no truth values", name=name)
    return list(columns)


def frame_columns(
    frame: Any, name: str, wanted: Sequence[str] | None = None
) -> Columns:
    """The columns of a data frame or series, or only the wanted ones; their names must
    be distinct.
    """
    labels = _labels(frame)
    refuse_repeated(labels, name)
    if (
        hasattr(frame, "set_axis")
        and labels
        and any(not isinstance(label, str) for label in frame.columns)
    ):
        frame = frame.set_axis(
            labels, axis=1
        )  # pandas allows numbers and other objects as column names
    try:
        native = nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError:
        raise refused("no frame", name=name, kind=type(frame).__name__) from None
    if isinstance(native, nw.Series):
        if wanted is not None and len(wanted) == 1 and not native.name:
            only = wanted[0]
        else:
            only = None
        native = native.alias(
            only or str(native.name or "sensitive_feature_0")
        ).to_frame()
    require(native.columns, wanted or ())
    return {
        label: _of_series(native[label])
        for label in (native.columns if wanted is None else wanted)
    }


def frame_names(frame: Any) -> list[str]:
    """The names of the columns of a frame of any kind, also of an engine."""
    native = nw.from_native(frame, pass_through=True)
    lazy = isinstance(native, nw.LazyFrame)
    if lazy:
        return list(native.collect_schema().names())
    return _labels(frame)


def _labels(frame: Any) -> list[str]:
    return [
        str(label)
        for label in getattr(frame, "column_names", getattr(frame, "columns", []))
    ]


def columns_of_x(X: Any, names: Sequence[Any]) -> Columns:
    """The named columns of a feature matrix; columns of a matrix without names are
    given by number.
    """
    matrix: Any = X if hasattr(X, "toarray") else None
    if isinstance(X, (np.ndarray, list, tuple)):
        matrix = np.asarray(X)
    labels = _labels(X) if matrix is None else []
    width = len(labels) if matrix is None else matrix.shape[1]
    by_place = all(
        isinstance(name, (int, np.integer)) and str(name) not in labels
        for name in names
    )
    problem = f"{FEATURES} is {list(names)}, but X has"
    if matrix is not None and not by_place:
        raise refused("columns without names", names=list(names))
    if by_place and any(not 0 <= name < width for name in names):
        raise InputError(f"{problem} {width} columns", argument=FEATURES)
    if matrix is None:
        return frame_columns(
            X, "X", [labels[name] if by_place else str(name) for name in names]
        )
    dense = (
        matrix[:, [i]].toarray()[:, 0] if hasattr(X, "toarray") else matrix[:, i]
        for i in names
    )
    return {f"column {i}": _column(column) for i, column in zip(names, dense)}


def _plain_first(values: Any, name: str = FEATURES) -> Any:
    plain = plain_column(values)
    return _column(values, name) if plain is None else plain


def plain_column(values: Any) -> Any:
    """One column as an array of numbers, or of objects with None for what is missing;
    None if not plain.
    """
    if isinstance(values, (list, tuple)):
        values = np.fromiter(values, dtype=object, count=len(values))
    if type(values) is not np.ndarray or values.ndim != 1:
        return None
    if values.dtype.kind in "iub" or values.dtype in (np.float64, np.float32):
        return values
    if values.dtype.kind == "U":
        values = values.astype(object)
    kinds = {*map(type, values)} if values.dtype.kind == "O" else {object}
    if kinds == {str}:
        texts = values
    else:
        texts = [value for value in values if isinstance(value, str)]
    if not kinds <= PLAIN or not is_unicode("".join(texts)):
        return None
    if kinds & {float, np.float64}:
        cleaned = [None if value != value else value for value in values]
        values = np.fromiter(cleaned, dtype=object, count=len(cleaned))
    return values


def plain_floats(values: Any) -> FloatArray | None:
    """Python objects that are all numbers, or all truth values, as float64; missing
    ones are NaN.
    """
    kinds = {*map(type, values)}
    if not (kinds <= NUMBERS or kinds <= TRUTHS):
        return None
    if int in kinds and any(
        type(value) is int and abs(value) > LARGEST for value in values
    ):
        return None
    return np.array(
        [nan if value is None else value for value in values], dtype=np.float64
    )
