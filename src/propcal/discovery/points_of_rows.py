"""From rows with features to points: reads and checks columns, puts recalibration and
points together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from propcal.core.correction.fit_summary import Gains
from propcal.core.correction.points_table import multiply
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.fit.boost import AddedPoints
from propcal.core.fit.non_decreasing import non_decreasing
from propcal.core.grid import UNIT, FloatArray, IntArray, from_grid, to_grid
from propcal.core.groups import Groups, membership
from propcal.core.logistic import log_odds
from propcal.core.patterns import CLUSTER, KEY
from propcal.core.reduction import without_clusters
from propcal.discovery.people import in_own_order, people_to_search, read_table
from propcal.discovery.points import (
    LIMIT,
    PointsRows,
    cross_validate,
    fit_points,
    with_curves,
)
from propcal.errors import refused
from propcal.reading.checked_people import CheckedPeople
from propcal.reading.frames import Columns, floats, require
from propcal.reading.rows import Rows, feature_codes
from propcal.reading.source import LazyColumns

FEWEST_ROWS = 200  # with fewer, features are not tried
MOST_LEVELS = 200  # of an attribute of groups


@dataclass(frozen=True, eq=False)
class LearnedPoints:
    """Points with the recalibration that belongs to them; the gains, and the features
    without points.
    """

    added: AddedPoints | None
    start: SmoothStart | None
    gains: Gains | None
    without: tuple[str, ...]


def without_features(
    groups: Groups, passed: Sequence[str], features: Sequence[str]
) -> Groups:
    """The groups, which features make none of unless they are named among them."""
    if groups.columns is not None:
        return groups
    return replace(groups, columns=[name for name in passed if name not in features])


def learn_points(
    rows: Rows,
    checked: CheckedPeople,
    columns: Columns,
    names: Sequence[str],
    start: SmoothStart | None,
    *,
    effect: float,
) -> LearnedPoints:
    """Learn points of the named columns beside a recalibration, if they are worth it.

    `rows` are the rows of the people who were checked; `effect` is the design effect of
    repeat visits.
    """
    require(list(columns), names)
    people = people_to_search(checked, weight_kind="auto")
    features = LazyColumns.of({name: columns[name] for name in names})
    features = features.kept(checked.used)
    _refuse_infinite(features.columns())
    nothing = LearnedPoints(None, start, None, tuple(names))
    if len(people) < FEWEST_ROWS:
        return nothing
    table, people, order = in_own_order(read_table(features, people), people)
    units = to_grid(rows.score[order])
    code = rows.code[order]
    levels = [
        (a, name)
        for a, name in enumerate(rows.patterns.attributes)
        if name != CLUSTER
        and not name.startswith(KEY)
        and len(rows.patterns.levels[a]) <= MOST_LEVELS
    ]
    if start is None:
        recalibrated = units
    else:
        recalibrated = start.apply(units, code, rows.patterns)
    inner = np.flatnonzero(
        (recalibrated > 0) & (recalibrated < UNIT) & (units > 0) & (units < UNIT)
    )
    if len(inner) < FEWEST_ROWS:
        return nothing
    weight = people.weight * (
        people.weight.sum() / np.sum(people.weight**2) if people.survey else 1.0
    )
    raw = log_odds(from_grid(units[inner]))
    data = PointsRows(
        raw,
        raw,
        people.outcome[inner].astype(np.float64),
        weight[inner] / effect,
        [rows.patterns.table[code[inner], a].astype(np.uint8) for a, _ in levels],
        table.part(inner) if len(inner) < len(units) else table,
        None if people.cluster is None else people.cluster[inner],
    )
    with threadpool_limits(
        1, "blas"
    ):  # matrices are small: more threads only wait for each other
        gains = cross_validate(data)
        if gains.points_z < LIMIT:
            return replace(nothing, gains=gains)
        attributes = [(name, rows.patterns.levels[a]) for a, name in levels]
        fitted = fit_points(
            replace(data, offset=log_odds(from_grid(recalibrated[inner])))
        )
        if fitted is not None:
            free = with_curves(start, fitted, attributes)
            ordered = _ordered(free, units[inner], code[inner], rows, data.weight)
            start = free
            if (
                ordered is not None and ordered is not free
            ):  # points belong to the curve that is applied
                applied = np.clip(
                    ordered.apply(units[inner], code[inner], rows.patterns), 1, UNIT - 1
                )
                fitted = fit_points(
                    replace(data, offset=log_odds(from_grid(applied))), bends=False
                )
                if fitted is None:
                    start = None
                else:
                    start = with_curves(ordered, fitted, attributes)
    if fitted is None:
        return replace(nothing, gains=gains)
    units = to_grid(rows.score)
    if start is None:
        after = units
    else:
        after = start.apply(units, rows.code, rows.patterns)
    moved = multiply(
        after, fitted.table.odds(feature_codes(fitted.table, features.columns()))
    )
    atoms = without_clusters(replace(rows, score=from_grid(moved)).atoms())
    without = tuple(name for name in names if name not in fitted.table.columns)
    added = AddedPoints(fitted.table, atoms)
    return LearnedPoints(
        added, start, replace(gains, spread=fitted.spread, without=without), without
    )


def _ordered(
    start: SmoothStart | None,
    units: IntArray,
    code: IntArray,
    rows: Rows,
    people: FloatArray,
) -> SmoothStart | None:
    """The recalibration without falls of everybody's curve."""
    if start is None:
        return None
    return non_decreasing(
        start, units, code, membership(start.groups, rows.patterns), people
    )


def _refuse_infinite(columns: Columns) -> None:
    for name, column in columns.items():
        if "float" in str(getattr(column, "type", "")) or "double" in str(
            getattr(column, "type", "")
        ):
            n = int(np.count_nonzero(np.isinf(floats(column, f"feature {name!r}"))))
            if n:
                raise refused("infinite values", n=n, rows=len(column), name=name)
