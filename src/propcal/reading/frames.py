"""Reading pandas, polars, Arrow, numpy and lists: data in memory as columns.

Frames of DuckDB, Spark, Dask or lazy polars are reduced by `engine_frames`.

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
# name -> pyarrow array, or numpy array of numbers or of Python objects
Columns = dict[str, Any]
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
        refuse_repeated(list(map(str, value.columns)), "the frame")
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
            shown = str(list(columns[:MOST_NAMES]))
            if len(columns) > MOST_NAMES:
                shown += f" and {len(columns) - MOST_NAMES:,} more"
            raise InputError(
                f"there is no column {name!r}; the columns are {shown}.",
                argument=name,
                next_step=_what_was_meant(str(name), columns),
                between=" ",
            )


def _what_was_meant(name: str, columns: Sequence[str]) -> str | None:
    """What to write in place of a name that is no column; None without an idea."""
    parts = list(map(str.strip, SEPARATORS.split(name)))
    if len(parts) > 1 and {*parts} <= {*columns}:
        listed = ",".join(parts)
        return f"If these are {len(parts)} columns, separate them with commas: {listed}"
    similar = get_close_matches(name, columns, n=1)
    return f"Did you mean {similar[0]!r}?" if similar else None


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
            return column.astype(np.float64)
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
    elif pa.types.is_decimal(kind):
        # via text, because a direct cast depends on the other values in the batch
        column = column.cast(pa.string())
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise _not_numeric(column, name, hint)
    as_floats = column.cast(pa.float64(), safe=False)
    return np.asarray(as_floats.to_numpy(zero_copy_only=False))


def _not_numeric(column: Any, name: str, hint: str | None) -> PropcalError:
    """The error of a column that holds other values than numbers."""
    n_limits = 0
    if holds_text(column):
        what = "text"
        is_limit = pc.match_substring_regex(column, f"^\\s*({LIMIT})\\s*$")
        n_limits = pc.sum(is_limit).as_py()
    elif pa.types.is_temporal(column.type):
        what = DATES
    else:
        what = str(column.type)
    if len(column) > 1:
        values = f"all {len(column):,} values are"
    else:
        values = "the value is"
    if n_limits:
        hint = f"{n_limits:,} of them {TOP_CODED}"
    problem = f"{name} must be numeric; {values} {what}"
    return InputError(problem, argument=name, next_step=hint, between=". ")


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
        # np.array would open buffers
        values = np.fromiter(values, dtype=object, count=len(values))
    if not isinstance(values, np.ndarray):
        series = _as_series(values, name)
        if series is not None:
            return _of_series(series)
        if not hasattr(values, "__array__"):
            raise refused("not a column", name=name, kind=type(values).__name__)
        values = np.asarray(values)
    values = _one_dimension(values, name)
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(np.asarray(values.data), mask=np.ma.getmaskarray(values))
    if values.dtype.kind == "O" and not _one_kind(values):
        return _mixed(values, name)
    return _in_arrow(lambda: pa.array(values, from_pandas=True), values, name)


def _as_series(values: Any, name: str) -> Any:
    """A series, or a frame of one column, as narwhals holds it; None if it is
    neither.
    """
    try:
        native = nw.from_native(values, eager_only=True, allow_series=True)
    except TypeError:
        return None
    if not isinstance(native, nw.DataFrame):
        return native
    if len(native.columns) != 1:
        raise refused("several columns", name=name, n=len(native.columns))
    return native[native.columns[0]]


def _of_series(series: Any) -> Any:
    """A narwhals series as a pyarrow array, or as Python objects if its values have
    mixed types.
    """
    native = series.to_native()
    if series.dtype == nw.Object and not hasattr(native, "array"):
        # polars would give addresses in memory
        return _column(native.to_list())
    # pandas categories may be objects
    kinds_of = getattr(getattr(native, "dtype", None), "categories", native)
    holds_objects = str(getattr(kinds_of, "dtype", "")) == "object"
    if holds_objects and not _one_kind(kinds_of):
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
    if column is not None and not _needs_python(column.type):
        return column
    return _mixed(values if isinstance(values, np.ndarray) else values.to_list())


def _needs_python(kind: Any) -> bool:
    """Whether Arrow needs Python to read a type: intervals, periods, UUIDs, records."""
    return isinstance(held_type(kind), pa.BaseExtensionType) or is_record(kind)


def _one_kind(values: Any) -> bool:
    """Whether Python objects all have one type, apart from missing ones (Arrow would
    convert mixed types).

    Arrow would convert numpy's dates, too.
    """
    kinds = {*map(type, values)} - {type(None)}
    if np.datetime64 in kinds:
        return False
    if len(kinds) > 1 and float in kinds:
        only_nan = all(value != value for value in values if isinstance(value, float))
        if only_nan:
            kinds.remove(float)
    return len(kinds) <= 1


def _mixed(values: Any, name: str = FEATURES) -> Any:
    """Objects of several types, with every kind of missing value as None."""
    if not is_unicode("".join(value for value in values if isinstance(value, str))):
        raise refused("no unicode", name=name)
    cleaned = np.empty(len(values), dtype=object)  # of None
    for row, value in enumerate(values):
        held = value
        if isinstance(value, BUFFERS):
            held = bytes(value)
        if level_key(held) is not None:
            cleaned[row] = held
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
    if given is None:
        return {}
    if isinstance(given, str):
        raise _names_only([given])
    read = _plain_first if plain else _column
    if isinstance(given, Mapping):
        named = {str(name): column for name, column in given.items()}
        if len(named) < len(given):
            raise refused("names twice")
        require(list(named), wanted or ())
        names = list(named) if wanted is None else wanted
        return {name: read(named[name]) for name in names}
    if not isinstance(given, (list, tuple, np.ndarray, pa.Array, pa.ChunkedArray)):
        return frame_columns(given, FEATURES, wanted)

    unnamed = _columns_of_array(given)
    if wanted is None:
        names = [f"sensitive_feature_{i}" for i in range(len(unnamed))]
    else:
        names = wanted
    if len(names) != len(unnamed):
        raise refused("other width", n=len(names), names=list(names), got=len(unnamed))
    return {name: read(column) for name, column in zip(names, unnamed)}


def _columns_of_array(given: Any) -> list[Any]:
    """The columns of a list, an array or an Arrow array."""
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        return [given]
    if isinstance(given, np.ndarray):
        array = given
    else:
        array = np.array(given, dtype=object)
    if array.ndim == 1:
        return [array]
    if array.ndim != 2:
        raise refused("dimensions", n=array.ndim)
    return list(array.T)


def refuse_names(sensitive_features: Any, n: int) -> None:
    """Refuse names of columns in place of the columns: a list of texts that is shorter
    than the number of rows.
    """
    given = sensitive_features
    if not isinstance(given, (list, tuple)) or len(given) >= n:
        return
    if {*map(type, given)} == {str}:
        raise _names_only([*given])


def _names_only(names: list[str]) -> PropcalError:
    return refused(
        "names only", texts=noun(len(names), "text"), some=names[:MOST_NAMES]
    )


def mask_names(masks: Any) -> list[str]:
    """The names of columns of truth values (or 0 and 1); anything else is refused."""
    columns = attribute_columns(masks)
    for name, column in columns.items():
        values, _ = distinct(column, name)
        if not {*values} <= {True, False, None}:  # 1 and 0 equal True and False
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
    if hasattr(frame, "set_axis") and labels:
        # pandas allows numbers and other objects as column names
        all_texts = all(isinstance(label, str) for label in frame.columns)
        frame = frame if all_texts else frame.set_axis(labels, axis=1)
    try:
        native = nw.from_native(frame, eager_only=True, allow_series=True)
    except TypeError:
        raise refused("no frame", name=name, kind=type(frame).__name__) from None
    if isinstance(native, nw.Series):
        title = str(native.name or "sensitive_feature_0")
        if not native.name and wanted is not None and len(wanted) == 1:
            title = wanted[0] or title
        native = native.alias(title).to_frame()
    require(native.columns, wanted or ())
    chosen = native.columns if wanted is None else wanted
    return {label: _of_series(native[label]) for label in chosen}


def frame_names(frame: Any) -> list[str]:
    """The names of the columns of a frame of any kind, also of an engine."""
    native = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        return list(native.collect_schema().names())
    return _labels(frame)


def _labels(frame: Any) -> list[str]:
    labels = getattr(frame, "column_names", getattr(frame, "columns", []))
    return list(map(str, labels))


def columns_of_x(X: Any, names: Sequence[Any]) -> Columns:
    """The named columns of a feature matrix; columns of a matrix without names are
    given by number.
    """
    matrix: Any = None
    if hasattr(X, "toarray"):
        matrix = X
    elif isinstance(X, (np.ndarray, list, tuple)):
        matrix = np.asarray(X)
    if matrix is None:
        labels = _labels(X)
        width = len(labels)
    else:
        labels = []
        width = matrix.shape[1]

    by_place = all(
        isinstance(name, (int, np.integer)) and str(name) not in labels
        for name in names
    )
    if matrix is not None and not by_place:
        raise refused("columns without names", names=list(names))
    if by_place and any(not 0 <= name < width for name in names):
        problem = f"{FEATURES} is {list(names)}, but X has {width} columns"
        raise InputError(problem, argument=FEATURES)

    if matrix is not None:
        return {f"column {i}": _column(_dense(matrix, i)) for i in names}
    if by_place:
        return frame_columns(X, "X", [labels[name] for name in names])
    return frame_columns(X, "X", list(map(str, names)))


def _dense(matrix: Any, place: int) -> Any:
    """A column of an array or a sparse matrix."""
    if hasattr(matrix, "toarray"):
        return matrix[:, [place]].toarray()[:, 0]
    return matrix[:, place]


def _plain_first(values: Any, name: str = FEATURES) -> Any:
    plain = plain_column(values)
    if plain is not None:
        return plain
    return _column(values, name)


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
    if values.dtype.kind != "O":
        return None

    kinds = {*map(type, values)}
    if not kinds <= PLAIN:
        return None
    if kinds == {str}:
        texts = values
    else:
        texts = [value for value in values if isinstance(value, str)]
    if not is_unicode("".join(texts)):
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
    if int in kinds:
        whole = (abs(value) for value in values if type(value) is int)
        if max(whole) > LARGEST:
            return None
    with_nan = [nan if value is None else value for value in values]
    return np.array(with_nan, dtype=np.float64)
