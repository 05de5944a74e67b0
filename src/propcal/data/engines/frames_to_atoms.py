"""Frames of engines: DuckDB relations, Spark, Dask, lazy polars. The rows stay where they are.

An engine does one aggregation, over the score on the grid and the attributes, and hands back a table of
totals (`propcal.data.engines.totals`): as many rows as there are atoms. Levels are the only thing that is
decided here in Python, on the different values alone.

There are two ways from a frame to atoms. Frames in memory go through numpy (`propcal.data.rows_to_atoms`):
they share that way with plain arrays, and a sort of packed numbers is several times faster than a general
aggregation. Everything else goes this way. Both check the same, say the same and give the same atoms, which
the tests compare atom by atom on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import narwhals.stable.v2 as nw

from propcal.core.atoms import Atoms
from propcal.core.grid import check_choice
from propcal.core.groups.recipes import Ranges, Recipe
from propcal.data.derive import RECODE
from propcal.data.engines import expressions as ex
from propcal.data.engines.totals import Shape, atoms_of_totals
from propcal.data.frames import require
from propcal.data.levels import RECORDS, TRUTHS, refuse_dates
from propcal.data.named_columns import NamedColumns
from propcal.data.repeat_visits import refuse_cluster_name
from propcal.errors import Argument, InputError


def atoms_of_engine(frame: Any, columns: NamedColumns) -> Atoms:
    """Reduce the named columns of any frame to atoms, in its own engine."""
    return atoms_of_totals(*totals(frame, columns))


def totals(frame: Any, named: NamedColumns) -> tuple[Any, Shape]:
    """Let the engine add up: a table of totals, and what its columns mean."""
    query, unit = totals_query(frame, named)
    return collected(query), Shape(named, unit)


def totals_query(frame: Any, named: NamedColumns) -> tuple[Any, int]:
    """The one aggregation as a frame of the engine, not yet run; and the unit of its outcomes."""
    check_choice("weight_kind", named.weight_kind, ("auto", "frequency", "survey"))
    bits, attributes, roles, weighted = named.bits, named.attributes, named.roles, named.weight is not None
    lazy = nw.from_native(frame).lazy()
    with _troubles():
        kinds = dict(lazy.collect_schema())
    read = [[made] if isinstance(made, str) else made.columns for made in attributes.values()]
    require(list(kinds), [*roles, *(name for names in read for name in names)])
    for name, title in zip(roles, named.titles):
        ex.refuse_no_number(kinds[name], title, RECODE)
    unit = ex.outcome_unit(kinds[named.outcome])
    columns = dict(zip(("s", "y", "w"), (ex.number(name, kinds[name]) for name in roles)))
    columns |= _attributes(lazy, kinds, attributes)
    # in steps: not every engine groups by an expression, or adds one up
    rows = lazy.select(**columns)
    sums = {"outcome": ex.outcome_units(unit)} | ({} if unit == 1 else {"soft": ex.soft()})
    rows = rows.with_columns(key=ex.key(bits, weighted=weighted).cast(nw.Int64), **sums)
    products = ex.weight_products(unit) if weighted else {}
    rows = rows.with_columns(**products) if products else rows
    keys, added = ["key", *(name for name in columns if name.startswith("a"))], [*sums, *products]
    query = rows.select(*keys, *added).group_by(*keys)
    totals = query.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in added))
    return totals.with_columns(*(nw.col(name).cast(nw.Int64) for name in ("rows", "outcome"))), unit


def _attributes(
    frame: Any, kinds: Mapping[str, Any], attributes: Mapping[str, Recipe | str]
) -> dict[str, Any]:
    """The attributes a0, a1, ... as the engine computes them: as they are, as ranges, or by a condition."""
    refuse_cluster_name(attributes)
    conditions = ex.Conditions(kinds, lambda column: _only_truths(frame, column))
    found = {}
    for place, (name, made) in enumerate(attributes.items()):
        if isinstance(made, str):
            found[f"a{place}"] = _level(made, kinds[made])
        elif isinstance(made, Ranges):
            found[f"a{place}"] = ex.range_code(made, kinds[made.column])
        else:
            holds = conditions.expression(made.condition, name)
            found[f"a{place}"] = ex.either(holds, 1.0, 0.0).cast(nw.Int64)
    return found


def _level(name: str, kind: Any) -> Any:
    """An attribute as the engine groups by it."""
    refuse_dates(name, temporal=kind.is_temporal())
    if kind.is_nested():
        raise InputError(RECORDS, argument="sensitive_features")
    value = nw.col(name)
    if kind.is_float():  # some engines keep NaN apart from missing, and -0.0 from 0.0; Dask loses its way
        return nw.when(~value.is_nan()).then(nw.when(value != 0).then(value).otherwise(nw.lit(0.0)))
    return value if kind.is_numeric() or kind in (nw.Boolean, nw.String, nw.Binary) else value.cast(nw.String)


def _only_truths(frame: Any, column: str) -> bool:
    """Whether a column of text holds nothing but "true" and "false", in any spelling."""
    text = nw.col(column).cast(nw.String)
    other = frame.select(text.alias("text")).filter(
        ~nw.col("text").is_null() & ~nw.col("text").str.contains(ex.spellings(TRUTHS))
    )
    return not len(collected(other.head(1)))


def collected(query: Any) -> Any:
    """Run a query whose result is small; a pyarrow table."""
    with _troubles():
        return query.collect("pyarrow").to_native()


@contextmanager
def _troubles() -> Iterator[None]:
    """Errors of engines that a user can mend in our words; others stay as they are."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if "duckdb" in type(error).__module__ and "closed" in text.lower():
            raise InputError(
                "the connection of this DuckDB relation is closed",
                next_step="keep it open until the atoms are made",
            ) from error
        if "maxResultSize" in text:
            raise InputError(
                "there are more atoms than Spark hands back (spark.driver.maxResultSize)",
                next_step="round the scores, "
                + Argument("resolution", "2**-16")
                + ", name fewer groups, or raise that setting",
            ) from error
        raise
