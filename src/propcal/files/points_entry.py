"""The points of a correction file: one line for each feature."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import Any

from propcal.core.correction.points_table import MOST_POINTS, MOST_TOTAL, FeaturePoints, PointsTable
from propcal.files.shapes import Check, distinct, is_text, list_of, need, one_of, record, whole

MOST_PIECES = 255  # levels or ranges of a feature, with those that are missing and other levels
_points = whole(-MOST_POINTS, MOST_POINTS)


def _are_cuts(value: Any) -> bool:
    numbers = list_of(lambda v: type(v) in (int, float) and isfinite(v))(value)
    return bool(numbers) and all(a < b for a, b in pairwise(value))


def _or_none(value: Any) -> bool:
    return value is None or bool(_points(value))


POINTS: tuple[Check, str] = (
    list_of(
        record(
            column=is_text,
            levels=lambda v: list_of(is_text)(v) and distinct(v),
            cuts=_are_cuts,
            points=lambda v: list_of(_points, 1)(v) and len(v) <= MOST_PIECES - 2,
            missing=_or_none,
            other=_or_none,
            whole=one_of(True, False),
        )
    ),
    "must be tables of a column, its levels or its cuts, which increase, and points from "
    f"-{MOST_POINTS:,} to {MOST_POINTS:,}",
)


def points_to_json(table: PointsTable) -> list[dict[str, Any]]:
    """The entry of a file."""
    return [
        {
            "column": feature.column,
            "levels": list(feature.levels),
            "cuts": list(feature.cuts),
            "points": list(feature.points),
            "missing": feature.missing,
            "other": feature.other,
            "whole": feature.whole,
        }
        for feature in table.features
    ]


def points_from_json(content: list[dict[str, Any]]) -> PointsTable | None:
    """The points of a file whose shape has been checked; None if there are none."""
    features = tuple(
        FeaturePoints(
            one["column"],
            tuple(one["points"]),
            tuple(one["levels"]),
            tuple(map(float, one["cuts"])),
            one["missing"],
            one["other"],
            one["whole"],
        )
        for one in content
    )
    for feature in features:
        wanted = len(feature.levels) or len(feature.cuts) + 1
        need(len(feature.points) == wanted, '"points" must have one number for each level or range')
        need(not (feature.levels and feature.cuts), '"points" have either levels or cuts')
        need(feature.levels or feature.other is None, '"points" of numbers have no other levels')
    need(distinct([feature.column for feature in features]), '"points" name a column twice')
    total = sum(max(abs(points or 0) for points in feature.pieces) for feature in features)
    need(total <= MOST_TOTAL, f'"points" of a person may add up to at most {MOST_TOTAL:,}')
    return PointsTable(features) if features else None
