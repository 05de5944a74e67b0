"""Checks the table of totals that an engine's aggregation returns, and turns it into atoms.

A table of totals has a row for each key and combination of attribute values, not for each person:

- ``key``: the score on the grid, or a negative `Trouble` for rows that cannot be used;
- ``rows``, ``outcome`` (sum of the outcomes in units of 1 / `Shape.unit`), ``soft`` (the number of outcomes
  strictly between 0 and 1);
- with weights ``w``, ``ww``, ``wy``, ``wwy`` and ``parts`` (the number of weights that are not whole);
- ``a0``, ``a1``, ...: the attributes, as values, as the number of a range, or as a truth value.

Levels, missing values, limits and messages come from the same functions as for rows in memory. A message also
lists the other problems that were counted in the same pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms, refuse_too_many
from propcal.core.groups.recipes import Ranges, Recipe
from propcal.core.left_out import NOBODY, LeftOut
from propcal.core.patterns import BESIDE, KEY, Level, patterns_of
from propcal.core.reduction import atoms_of_sums, refuse_fractions, sums_of_counts
from propcal.data.checks import ScoreTally, advice, refuse_outcomes, refuse_swapped, refuse_weights
from propcal.data.derive import fitting_values
from propcal.data.levels import distinct, encode
from propcal.data.named_columns import NamedColumns
from propcal.data.near_levels import warn_of_similar_levels
from propcal.errors import InputError

FEWEST_BITS = 8  # of a score, to tell whether it is exactly 0 or 1


class Trouble(IntEnum):
    """Keys of rows that cannot be used; a row with several problems gets the first of them."""

    WEIGHT_ZERO = -1
    WEIGHT_MISSING = -2
    WEIGHT_INFINITE = -3
    WEIGHT_NEGATIVE = -4
    WEIGHT_TOO_LARGE = -5
    LEFT_OUT = -6  # no score or no outcome, and such rows are left out
    SCORE_MISSING = -7
    SCORE_INFINITE = -8
    SCORE_CODE = -9
    SCORE_POINTS = -10
    SCORE_WHOLE = -11
    SCORE_LARGE = -12
    SCORE_PERCENT = -13
    SCORE_NEGATIVE = -14
    SCORE_NEAR = -15
    OUTCOME_MISSING = -16
    OUTCOME_OUTSIDE = -17


# scores outside of 0 to 1 by what they look like, as `ScoreTally` counts them
OUTSIDE = {
    Trouble.SCORE_CODE: "codes",
    Trouble.SCORE_POINTS: "points",
    Trouble.SCORE_WHOLE: "whole",
    Trouble.SCORE_LARGE: "large",
    Trouble.SCORE_PERCENT: "percents",
    Trouble.SCORE_NEGATIVE: "negative",
    Trouble.SCORE_NEAR: "near",
}


@dataclass(frozen=True)
class Shape:
    """How to read the columns of a table of totals."""

    columns: NamedColumns
    unit: int  # outcomes are summed in units of 1 / unit

    @property
    def weighted(self) -> bool:
        """Whether there are weights."""
        return self.columns.weight is not None


def atoms_of_totals(table: Any, shape: Shape) -> Atoms:
    """Check a table of totals (pyarrow) and turn it into atoms."""
    key, rows = _whole(table, "key"), _whole(table, "rows")
    _refuse_troubles(key, rows, shape)
    gone = key == Trouble.LEFT_OUT
    if key.min() < 0:  # rows left out, and those of weight 0
        table = table.filter((key >= 0) | gone)
        key, rows = _whole(table, "key"), _whole(table, "rows")
        gone = key == Trouble.LEFT_OUT
    attributes, bits = shape.columns.attributes, shape.columns.bits
    levels: list[tuple[Level, ...]] = []
    codes = []
    for place, (name, made) in enumerate(attributes.items()):
        codes_too = name in shape.columns.words.as_levels
        found, code = encode(*_values(name, made, table[f"a{place}"], as_levels=codes_too))
        levels.append(found)
        codes.append(code)
    left_out, left_out_weight = _left_out(table, levels, codes, gone, shape)
    if gone.any():
        table, key, rows = table.filter(~gone), key[~gone], rows[~gone]
        codes = [code[~gone] for code in codes]
    recipes = {name: made for name, made in attributes.items() if not isinstance(made, str)}
    patterns, code = patterns_of(tuple(attributes), tuple(levels), codes, len(key), recipes)
    warn_of_similar_levels(patterns, np.bincount(code, weights=rows, minlength=len(patterns)))
    sums = _sums(table, rows, shape)
    if bits >= FEWEST_BITS and "soft" in table.column_names:
        score, outcome, _ = shape.columns.titles
        refuse_swapped(key, 1 << bits, int(_whole(table, "soft").sum()), int(rows.sum()), (score, outcome))
    counted = shape.weighted and sums["weight"].dtype.kind == "i"
    return atoms_of_sums(
        patterns,
        code,
        key << (32 - bits),
        sums,
        resolution_bits=bits,
        weighted_rows=int(rows.sum()) if shape.weighted else 0,
        left_out=left_out_weight if counted else left_out,
    )


def _left_out(
    table: Any, levels: list[tuple[Level, ...]], codes: list[Any], gone: Any, shape: Shape
) -> tuple[LeftOut, LeftOut]:
    """The rows that were left out, by group, and the same by their weight."""
    if not gone.any():
        return NOBODY, NOBODY
    counted = [i for i, name in enumerate(shape.columns.attributes) if not name.startswith(BESIDE)]
    own, levels = [[*shape.columns.attributes][i] for i in counted], [levels[i] for i in counted]
    some = [codes[i][gone] for i in counted]
    rows = LeftOut.of(own, levels, some, _whole(table, "rows")[gone])
    return rows, LeftOut.of(own, levels, some, _real(table, "w")[gone]) if shape.weighted else rows


def _whole(table: Any, name: str) -> Any:
    """A column of integers, which engines return in various types."""
    import pyarrow as pa

    return np.asarray(table[name].cast(pa.int64()).to_numpy())


def _real(table: Any, name: str) -> Any:
    import pyarrow as pa

    return np.asarray(table[name].cast(pa.float64()).to_numpy())


def _values(name: str, made: Recipe | str, column: Any, *, as_levels: bool = False) -> tuple[list[Any], Any]:
    """The distinct values of an attribute, and the index of each row's value (-1 if missing)."""
    if isinstance(made, str):  # attributes that only a correction reads may have any values
        return (
            distinct(column)
            if name.startswith((BESIDE, KEY))
            else fitting_values(name, None, {name: column}, None, as_levels=as_levels)
        )
    import pyarrow as pa

    codes = np.asarray(column.cast(pa.int32()).to_numpy())
    return (made.labels if isinstance(made, Ranges) else [False, True]), codes


def _refuse_troubles(key: Any, rows: Any, shape: Shape) -> None:
    """Refuse invalid rows as for rows in memory: first weights, then scores, then outcomes."""
    name = shape.columns.titles[0]
    if not len(key):
        raise InputError(f"{name} is empty: there are no rows", argument=name)
    bad = (key < 0) & (key != Trouble.LEFT_OUT)
    if not bad.any():
        if not np.any(key >= 0):
            raise InputError(
                f"none of the {int(rows.sum()):,} people has both a score and an outcome", argument=name
            )
        return
    of = {trouble: int(rows[key == trouble].sum()) for trouble in Trouble}
    try:
        sound = key[key >= 0]
        binary = len(sound) > 0 and bool(np.all((sound == 0) | (sound == 1 << shape.columns.bits)))
        _refuse_first(of, int(rows.sum()) - of[Trouble.LEFT_OUT], shape, binary=binary)
    except InputError as error:
        others, told = _others(of, shape, str(error)), error.message
        if told.next_step is None:
            raise InputError(told.problem + others, argument=told.argument) from None
        then = told.next_step + others
        raise InputError(told.problem, argument=told.argument, next_step=then, between=told.between) from None


def _refuse_first(of: Mapping[Trouble, int], n: int, shape: Shape, *, binary: bool) -> None:
    """Refuse the most urgent problem, with a hint; `binary` if the scores of sound rows are all 0 or 1."""
    score, outcome, weight = shape.columns.titles
    refuse_weights(
        {
            "missing (NaN)": of[Trouble.WEIGHT_MISSING],
            "infinite": of[Trouble.WEIGHT_INFINITE],
            "negative": of[Trouble.WEIGHT_NEGATIVE],
        },
        n,
        weight,
        too_large=of[Trouble.WEIGHT_TOO_LARGE] > 0,
        all_zero=of[Trouble.WEIGHT_ZERO] == n,
    )
    n -= of[Trouble.WEIGHT_ZERO]
    drop = shape.columns.drop_missing
    outside = {name: of[trouble] for trouble, name in OUTSIDE.items()}
    tally = ScoreTally(n, of[Trouble.SCORE_MISSING], of[Trouble.SCORE_INFINITE], **outside)
    tally.check(score, missing=advice(drop, "score"))
    missing, neither = of[Trouble.OUTCOME_MISSING], of[Trouble.OUTCOME_OUTSIDE]
    refuse_outcomes(missing, neither, n, outcome, drop_missing=drop, swapped=score if binary else "")


def _others(of: Mapping[Trouble, int], shape: Shape, first: str) -> str:
    """The other problems that were counted, so that all of them can be fixed at once.

    Each row counts only for its most urgent problem, so these concern other rows than the first problem.
    """
    score, outcome, weight = shape.columns.titles
    counted = [
        (weight, of[Trouble.WEIGHT_MISSING], "is missing", "are missing"),
        (weight, of[Trouble.WEIGHT_INFINITE], "is infinite", "are infinite"),
        (weight, of[Trouble.WEIGHT_NEGATIVE], "is negative", "are negative"),
        (weight, of[Trouble.WEIGHT_TOO_LARGE], "is too large", "are too large"),
        (score, of[Trouble.SCORE_MISSING], "is missing", "are missing"),
        (score, of[Trouble.SCORE_INFINITE], "is infinite", "are infinite"),
        (score, sum(of[trouble] for trouble in OUTSIDE), "is outside [0, 1]", "are outside [0, 1]"),
        (outcome, of[Trouble.OUTCOME_MISSING], "is missing", "are missing"),
        (outcome, of[Trouble.OUTCOME_OUTSIDE], "is outside [0, 1]", "are outside [0, 1]"),
    ]
    told: dict[str, list[str]] = {}
    for name, count, one, many in [row for row in counted if row[1]][1:]:
        value = "" if name in told else "value " if count == 1 else "values "
        told.setdefault(name, []).append(f"{count:,} {value}{one if count == 1 else many}")
    if not told:
        return ""
    also = " Also" if first.endswith((".", "?")) else "; also"
    return f"{also}, in other rows, " + "; ".join(f"{name}: {', '.join(all_)}" for name, all_ in told.items())


def _sums(table: Any, rows: Any, shape: Shape) -> dict[str, Any]:
    """The sums of atoms, the same as for rows in memory."""
    hard = int(_whole(table, "soft").sum()) == 0 if "soft" in table.column_names else True
    if not shape.weighted:
        refuse_too_many(float(rows.sum()))
        outcome = _whole(table, "outcome")
        positives = outcome // shape.unit if hard else outcome / shape.unit
        return sums_of_counts(rows, positives)
    whole = int(_whole(table, "parts").sum()) == 0
    if shape.columns.weight_kind == "frequency" and not whole:
        refuse_fractions()
    w, wy = _real(table, "w"), _real(table, "wy")
    if whole and shape.columns.weight_kind != "survey":
        refuse_too_many(float(w.sum()))
        return sums_of_counts(w.astype(np.int64), wy.astype(np.int64) if hard else wy)
    return {
        "people": rows,
        "weight": w,
        "weight_sq": _real(table, "ww"),
        "positives": wy,
        "positives_sq": _real(table, "wwy"),
    }
