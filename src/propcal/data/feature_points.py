"""Columns of people as codes of a points table: which level or range each value is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.data.frames import floats
from propcal.data.levels import distinct, encode_known
from propcal.errors import Column


def feature_codes(points: PointsTable, columns: Mapping[str, Any]) -> list[Any]:
    """The codes of each feature, for all rows."""
    return [_codes(feature, columns[feature.column]) for feature in points.features]


def _codes(feature: FeaturePoints, column: Any) -> Any:
    n = len(feature.points)
    if feature.is_number:
        values = floats(column, Column(feature.column, f"feature {feature.column!r}"))
        codes = np.searchsorted(feature.cuts, values, side="right").astype(np.uint8)
        codes[np.isnan(values)] = n
        return codes
    levels = (*feature.levels, None)  # a missing value has the code behind the levels
    return encode_known(*distinct(column), levels)
