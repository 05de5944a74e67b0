"""From rows with features to points: checked columns, recalibration, then points."""

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
from propcal.core.grid import UNIT, IntArray, from_grid, to_grid
from propcal.core.groups import Groups, membership
from propcal.core.logistic import log_odds
from propcal.core.patterns import CLUSTER, KEY, Level, Patterns
from propcal.core.reduction import without_clusters
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.people import People, in_own_order, people_to_search, read_table
from propcal.discovery.points import (
    LIMIT,
    FittedPoints,
    PointsRows,
    cross_validate,
    fit_points,
    with_curves,
)
from propcal.errors import refused
from propcal.reading.checked_people import CheckedPeople
from propcal.reading.frames import Columns, floats, require
from propcal.reading.rows import Rows
from propcal.reading.rows_to_score import feature_codes
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
    """Learn points of the named columns on top of a recalibration, if they help.

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
    data = _points_data(rows, order, people, table, start, effect)
    if len(data.rows.outcome) < FEWEST_ROWS:
        return nothing
    # matrices are small: more threads only wait for each other
    with threadpool_limits(1, "blas"):
        gains = cross_validate(data.rows)
        if gains.points_z < LIMIT:
            return replace(nothing, gains=gains)
        fitted, start = _fitted(data, start)
    if fitted is None:
        return replace(nothing, gains=gains)

    recalibrated = _applied(start, to_grid(rows.score), rows.code, rows.patterns)
    odds = fitted.table.odds(feature_codes(fitted.table, features.columns()))
    score = from_grid(multiply(recalibrated, odds))
    atoms = without_clusters(replace(rows, score=score).atoms())
    without = tuple(name for name in names if name not in fitted.table.columns)
    gains = replace(gains, spread=fitted.spread, without=without)
    return LearnedPoints(AddedPoints(fitted.table, atoms), start, gains, without)


@dataclass(frozen=True, eq=False)
class PointsData:
    """The rows to learn points from, without scores of exactly 0 or 1, and what a
    recalibration of them needs.
    """

    rows: PointsRows
    patterns: Patterns
    units: IntArray
    code: IntArray
    recalibrated: IntArray
    attributes: Sequence[tuple[str, tuple[Level, ...]]]

    def from_scores(self, units: IntArray) -> PointsRows:
        """The rows, with effects added to other scores."""
        return replace(self.rows, offset=log_odds(from_grid(units)))


def _points_data(
    rows: Rows,
    order: IntArray,
    people: People,
    table: FeatureTable,
    start: SmoothStart | None,
    effect: float,
) -> PointsData:
    """The checked rows in the order of people and table."""
    patterns = rows.patterns
    units = to_grid(rows.score[order])
    code = rows.code[order]
    recalibrated = _applied(start, units, code, patterns)
    is_inner = (recalibrated > 0) & (recalibrated < UNIT) & (units > 0) & (units < UNIT)
    inner = np.flatnonzero(is_inner)
    levels = _attributes_of_groups(patterns)

    weight = people.weight
    if people.survey:
        weight = weight * (weight.sum() / np.sum(weight**2))
    raw = log_odds(from_grid(units[inner]))
    points_rows = PointsRows(
        log_odds=raw,
        offset=raw,
        outcome=people.outcome[inner].astype(np.float64),
        weight=weight[inner] / effect,
        groups=[patterns.table[code[inner], a].astype(np.uint8) for a in levels],
        table=table.part(inner) if len(inner) < len(units) else table,
        cluster=None if people.cluster is None else people.cluster[inner],
    )
    return PointsData(
        rows=points_rows,
        patterns=patterns,
        units=units[inner],
        code=code[inner],
        recalibrated=recalibrated[inner],
        attributes=[(patterns.attributes[a], patterns.levels[a]) for a in levels],
    )


def _attributes_of_groups(patterns: Patterns) -> list[int]:
    """The numbers of attributes that get a constant for each level."""
    numbers = []
    for a, name in enumerate(patterns.attributes):
        is_key = name == CLUSTER or name.startswith(KEY)
        if not is_key and len(patterns.levels[a]) <= MOST_LEVELS:
            numbers.append(a)
    return numbers


def _fitted(
    data: PointsData, start: SmoothStart | None
) -> tuple[FittedPoints | None, SmoothStart | None]:
    """Points, and the recalibration that belongs to them.

    Where everybody's curve falls, it is made monotone; points are then fitted again, to
    the curve that is applied.
    """
    fitted = fit_points(data.from_scores(data.recalibrated))
    if fitted is None:
        return None, start
    free = with_curves(start, fitted, data.attributes)
    if free is None:
        return fitted, None
    members = membership(free.groups, data.patterns)
    monotone = non_decreasing(free, data.units, data.code, members, data.rows.weight)
    if monotone is free:
        return fitted, free
    applied = monotone.apply(data.units, data.code, data.patterns)
    inside = np.clip(applied, 1, UNIT - 1)
    fitted = fit_points(data.from_scores(inside), bends=False)
    if fitted is None:
        return None, None
    return fitted, with_curves(monotone, fitted, data.attributes)


def _applied(
    start: SmoothStart | None, units: IntArray, code: IntArray, patterns: Patterns
) -> IntArray:
    """Recalibrated scores."""
    if start is None:
        return units
    return start.apply(units, code, patterns)


def _refuse_infinite(columns: Columns) -> None:
    for name, column in columns.items():
        kind = str(getattr(column, "type", ""))
        if "float" in kind or "double" in kind:
            n = int(np.count_nonzero(np.isinf(floats(column, f"feature {name!r}"))))
            if n:
                raise refused("infinite values", n=n, rows=len(column), name=name)
