"""Reading Spark, Dask, DuckDB and lazy polars: one aggregation in the engine itself.

The engine groups by the score (on the grid) and the attributes, and returns a table of
totals, with a row for each key and combination of attribute values:

- ``key``: the score on the grid, or a negative `Trouble` for rows that cannot be used;
- ``rows``, ``outcome`` (sum of the outcomes in units of 1 / unit), ``soft`` (the number
  of outcomes strictly between 0 and 1);
- with weights ``w``, ``ww``, ``wy``, ``wwy`` and ``parts`` (the number of weights that
  are not whole);
- ``a0``, ``a1``, ...: the attributes, as values, as the number of a range, or as a
  truth value.

Only the levels are determined in Python, from the distinct values; the rows never leave
the engine.

Frames in memory take another path, through numpy (`propcal.reading.rows`), which they
share with plain arrays: sorting packed integers is several times faster than a general
aggregation. Both paths make the same checks, give the same errors and produce the same
atoms; the tests compare them on every engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from propcal.core.arguments import check_choice
from propcal.core.atoms import SUMS, Atoms, LeftOut, refuse_too_many
from propcal.core.conditions import Ranges, Recipe, Where
from propcal.core.grid import UNIT
from propcal.core.patterns import BESIDE, KEY, Patterns
from propcal.core.reduction import atoms_of_sums, sums_of_counts
from propcal.errors import InputError, refused
from propcal.errors import named as named_in_sql
from propcal.reading import engine_expressions as ex
from propcal.reading import levels
from propcal.reading.derived_columns import fitting_values
from propcal.reading.frames import RECODE, require
from propcal.reading.outcomes import event_codes
from propcal.reading.role_columns import Trouble, refuse_swapped, refuse_troubles
from propcal.reading.rows import patterns_and_left_out
from propcal.reading.source import NamedColumns

MOST_VALUES = 1_000  # of an outcome that is not 0 or 1
FEWEST_BITS = 8  # of a score, to see whether it is exactly 0 or 1
UNUSED = [
    trouble for trouble in Trouble if trouble not in (Trouble.SOUND, Trouble.LEFT_OUT)
]


def atoms_of_engine(frame: Any, columns: NamedColumns) -> Atoms:
    """Reduce the named columns of any frame to atoms, in its own engine."""
    return atoms_of_totals(*totals(*with_events(frame, columns)))


def with_events(frame: Any, named: NamedColumns) -> tuple[Any, NamedColumns]:
    """The frame with its outcome as 0 and 1, if that is text or if one of its values
    means the event.

    Only the different values of the column leave the engine; the rule is that of rows
    in memory.
    """
    lazy = nw.from_native(frame).lazy()
    with _troubles():
        kinds = dict(lazy.collect_schema())
    require(list(kinds), [named.outcome])
    kind = kinds[named.outcome]
    title = named.titles.outcome
    if named.positive is None and not ex.is_text(kind):
        return frame, named
    levels.refuse_dates(named.outcome, temporal=kind.is_temporal())
    values = _different_values(lazy, named.outcome, MOST_VALUES + 1)
    if len(values) > MOST_VALUES:
        problem = f"{title} holds more than {MOST_VALUES:,} different values"
        raise InputError(problem, argument=title)
    values_by_code: dict[float, list[Any]] = {1.0: [], 0.0: []}
    for value, code in zip(values, event_codes(values, title, named.positive)):
        values_by_code.setdefault(code, []).append(value)
    outcome = ex.coded(
        _comparable(named.outcome, kind),
        {code: values_by_code[code] for code in (1.0, 0.0)},
    )
    with_outcome = lazy.with_columns(outcome.alias(named.outcome))
    return with_outcome.to_native(), replace(named, positive=None)


def complete_rows(frame: Any, named: NamedColumns) -> Any:
    """The rows with a score and an outcome, where the others are left out."""
    if not named.drop_missing:
        return frame
    lazy = nw.from_native(frame).lazy()
    kinds = dict(lazy.collect_schema())
    score = ex.number(named.score, kinds[named.score])
    outcome = ex.number(named.outcome, kinds[named.outcome])
    return lazy.filter(~ex.absent(score), ~ex.absent(outcome)).to_native()


def totals(frame: Any, named: NamedColumns) -> tuple[Any, NamedColumns, int]:
    """Run the aggregation: a table of totals, what its columns are, and the unit of its
    outcomes.
    """
    query, unit = totals_query(frame, named)
    table = collected(query)
    _warn_of_conditions_that_nobody_meets(frame, table, named)
    return table, named, unit


def _warn_of_conditions_that_nobody_meets(
    frame: Any, table: Any, named: NamedColumns
) -> None:
    recipes = named.definition.recipes()
    failed = {}
    for place, name in enumerate(named.attributes):
        recipe = recipes.get(name)
        if isinstance(recipe, Where) and not np.any(_whole(table, f"a{place}") == 1):
            failed[name] = recipe
    lazy = nw.from_native(frame).lazy()
    levels.warn_of_failed_conditions(
        failed,
        lambda column: map(levels.level_key, _different_values(lazy, column)),
    )


def _different_values(lazy: Any, name: str, most: int = MOST_VALUES) -> list[Any]:
    """Some of the different values of a column."""
    column = _comparable(name, lazy.collect_schema()[name])
    query = lazy.select(column.alias("value")).unique().head(most)
    values, _ = levels.distinct(collected(query)["value"])
    return values


def _comparable(name: str, kind: Any) -> Any:
    """A column as values that can be compared: categories as text, decimals as
    numbers.
    """
    if kind == nw.Decimal:
        return ex.number(name, kind)
    if ex.is_text(kind):
        return nw.col(name).cast(nw.String)
    return nw.col(name)


def totals_query(frame: Any, named: NamedColumns) -> tuple[Any, int]:
    """The aggregation as a lazy frame of the engine, not yet run, and the unit of its
    outcomes.
    """
    check_choice("weight_kind", named.weight_kind, ("auto", "frequency", "survey"))
    lazy = nw.from_native(frame).lazy()
    with _troubles():
        kinds = dict(lazy.collect_schema())
        lazy = _seeing_nan(lazy, kinds)
    require(list(kinds), [*named.roles, *named.features])
    for name, title in zip(named.roles, named.titles):
        ex.refuse_no_number(kinds[name], title, RECODE)
    kind = kinds[named.outcome]
    # the unit of outcomes is 1, or that of the grid
    unit = 1 if kind.is_integer() or kind == nw.Boolean else UNIT

    # in separate steps, because not every engine can group by or sum an expression
    columns = {
        letter: ex.number(name, kinds[name]) for letter, name in zip("syw", named.roles)
    }
    attributes = _attributes(lazy, kinds, named.attributes)
    weighted = named.weight is not None
    key = ex.key(named.bits, weighted=weighted, drop_missing=named.drop_missing)
    sums = {"outcome": ex.outcome_units(unit)}
    if unit != 1:
        sums["soft"] = ex.soft()
    rows = lazy.select(**columns, **attributes)
    rows = rows.with_columns(key=key.cast(nw.Int64), **sums)
    if weighted:
        products = ex.weight_products(unit)
        rows = rows.with_columns(**products)
        sums |= products

    keys = ["key", *attributes]
    groups = rows.select(*keys, *sums).group_by(*keys)
    totals = groups.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in sums))
    whole = [nw.col(name).cast(nw.Int64) for name in ("rows", "outcome")]
    return totals.with_columns(*whole), unit


def _seeing_nan(frame: Any, kinds: Mapping[str, Any]) -> Any:
    """A frame in which NaN is found.

    The statistics of Parquet leave NaN out, and DuckDB infers from them that there is
    none. Of what TRY gives it infers nothing.
    """
    real = [named_in_sql(name) for name, kind in kinds.items() if kind.is_float()]
    if not real or not frame.implementation.is_duckdb():
        return frame
    tried = ", ".join(f"TRY({name}) AS {name}" for name in real)
    return nw.from_native(frame.to_native().project(f"* REPLACE ({tried})"))


def _attributes(
    frame: Any, kinds: Mapping[str, Any], attributes: Mapping[str, Recipe | str]
) -> dict[str, Any]:
    """Expressions for the attributes a0, a1, ...: values of a column, ranges, or
    conditions.
    """
    expressions = {}
    for place, (name, made) in enumerate(attributes.items()):
        if isinstance(made, str):
            expression = _level(made, kinds[made])
        elif isinstance(made, Ranges):
            expression = ex.range_code(made, kinds[made.column])
        else:
            truths = partial(_only_truths, frame)
            holds = ex.condition_expression(made.condition, name, kinds, truths)
            expression = ex.either(holds, 1.0, 0.0).cast(nw.Int64)
        expressions[f"a{place}"] = expression
    return expressions


def _level(name: str, kind: Any) -> Any:
    """The expression by which the engine groups an attribute."""
    levels.refuse_dates(name, temporal=kind.is_temporal())
    if kind.is_nested():
        raise refused("records", name=name)
    value = nw.col(name)
    if kind.is_float():
        # some engines separate NaN from missing and -0.0 from 0.0; Dask fails
        positive_zero = nw.when(value != 0).then(value).otherwise(nw.lit(0.0))
        return nw.when(~value.is_nan()).then(positive_zero)
    if kind.is_numeric() or kind in (nw.Boolean, nw.String, nw.Binary):
        return value
    # pandas before 3 writes missing as "nan"
    return nw.when(~value.is_null()).then(value.cast(nw.String))


def _only_truths(frame: Any, column: str) -> bool:
    """Whether a text column contains only "true" and "false", in any spelling."""
    present = frame.filter(~nw.col(column).is_null())
    text = present.select(nw.col(column).cast(nw.String).alias("text"))
    other = text.filter(~nw.col("text").str.contains(levels.spellings(levels.TRUTHS)))
    return not len(collected(other.head(1)))


def collected(query: Any) -> Any:
    """Run a query with a small result, and return it as a pyarrow table."""
    with _troubles():
        return query.collect("pyarrow").to_native()


@contextmanager
def _troubles() -> Iterator[None]:
    """Replace engine errors that users can fix by clear messages; pass all others
    on.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        if "duckdb" in type(error).__module__ and "closed" in text.lower():
            raise refused("connection closed") from error
        if "maxResultSize" in text:
            raise refused("spark result size") from error
        raise


def atoms_of_totals(table: Any, named: NamedColumns, unit: int) -> Atoms:
    """Check a table of totals (pyarrow) and turn it into atoms."""
    _refuse_troubles(_whole(table, "key"), _whole(table, "rows"), named)
    table = table.filter(np.isin(_whole(table, "key"), UNUSED, invert=True))
    patterns, code, left_out = _patterns(table, named)
    table = table.filter(_whole(table, "key") != Trouble.LEFT_OUT)
    key = _whole(table, "key")
    rows = _whole(table, "rows")
    people = np.bincount(code, weights=rows, minlength=len(patterns))
    levels.warn_of_similar_levels(patterns, people)

    sums = _sums(table, rows, named, unit)
    bits = named.bits
    n_rows = int(rows.sum())
    if bits >= FEWEST_BITS and "soft" in table.column_names:
        soft = int(_whole(table, "soft").sum())
        names = named.titles
        refuse_swapped(key, 1 << bits, soft, n_rows, names.score, names.outcome)
    weighted = named.weight is not None
    counts_people = weighted and sums["weight"].dtype.kind == "i"
    return atoms_of_sums(
        patterns,
        code,
        key << (32 - bits),
        sums,
        left_out=left_out[-1 if counts_people else 0],
        resolution_bits=bits,
        weighted_rows=n_rows if weighted else 0,
    )


def _patterns(table: Any, named: NamedColumns) -> tuple[Patterns, Any, list[LeftOut]]:
    """The patterns, that of each row of totals, and who is left out: rows, and
    weights.
    """
    encoded = {}
    recipes = {}
    for place, (name, made) in enumerate(named.attributes.items()):
        as_levels = name in named.definition.as_levels
        values, codes = _values(name, made, table[f"a{place}"], as_levels=as_levels)
        encoded[name] = levels.encode(values, codes)
        if not isinstance(made, str):
            recipes[name] = made
    left_out = _whole(table, "key") == Trouble.LEFT_OUT
    counts = [_whole(table, "rows")[left_out]]
    if named.weight is not None:
        counts.append(_real(table, "w")[left_out])
    n_others = int(np.count_nonzero(~left_out))
    return patterns_and_left_out(encoded, recipes, left_out, counts, n_others)


def _whole(table: Any, name: str, kind: str = "int64") -> Any:
    """A column of integers, which engines return in various types."""
    return np.asarray(table[name].cast(kind).to_numpy())


def _real(table: Any, name: str) -> Any:
    return _whole(table, name, "float64")


def _values(
    name: str, made: Recipe | str, column: Any, *, as_levels: bool = False
) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if
    missing).
    """
    if isinstance(made, str):
        if name.startswith((BESIDE, KEY)):  # only a correction reads them: any values
            return levels.distinct(column)
        return fitting_values(name, None, {name: column}, None, as_levels=as_levels)
    codes = np.asarray(column.cast(pa.int32()).to_numpy())
    if isinstance(made, Ranges):
        return made.labels, codes
    return [False, True], codes


def _refuse_troubles(key: Any, rows: Any, named: NamedColumns) -> None:
    """Refuse invalid rows as for rows in memory."""
    names = named.titles
    if not len(key):
        raise InputError(f"{names[0]} is empty: there are no rows", argument=names[0])
    if key.min() >= 0:
        return
    counts = Counter(
        {trouble: int(rows[key == trouble].sum()) for trouble in Trouble if trouble}
    )
    is_sound = key >= 0
    counts[Trouble.SOUND] = int(rows[is_sound].sum())
    scores = key[is_sound]
    all_binary = np.all((scores == 0) | (scores == 1 << named.bits))
    binary = len(scores) > 0 and bool(all_binary)
    refuse_troubles(counts, names, drop_missing=named.drop_missing, binary=binary)


def _sums(table: Any, rows: Any, named: NamedColumns, unit: int) -> dict[str, Any]:
    """The sums of atoms, the same as for rows in memory."""
    hard = "soft" not in table.column_names or not _whole(table, "soft").any()
    if named.weight is None:
        refuse_too_many(float(rows.sum()))
        outcome = _whole(table, "outcome")
        return sums_of_counts(rows, outcome // unit if hard else outcome / unit)

    w = _real(table, "w")
    wy = _real(table, "wy")
    whole = not _whole(table, "parts").any()
    if named.weight_kind == "frequency" and not whole:
        raise refused("fractional frequencies")
    if whole and named.weight_kind != "survey":
        refuse_too_many(float(w.sum()))
        return sums_of_counts(w.astype(np.int64), wy.astype(np.int64) if hard else wy)
    return dict(zip(SUMS, (rows, w, _real(table, "ww"), wy, _real(table, "wwy"))))
