"""Rows in memory that are to be scored: checked, and matched with the patterns of a correction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from propcal.core.correction.definition import Definition, ScoringRows, count_unlisted, warn_of_unlisted
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.grid import check_choice
from propcal.core.patterns import Patterns, combinations_present
from propcal.data.checks import INVALID, SWAPPED, check_lengths, check_scores
from propcal.data.derive import attribute_values
from propcal.data.frames import (
    Columns,
    attribute_columns,
    floats,
    numbers,
    plain_columns,
    refuse_names,
)
from propcal.data.levels import distinct, encode_known
from propcal.errors import Column, InputError, refused


def scoring_rows(
    score: Any, sensitive_features: Any, correction: Definition, *, invalid: str = "error"
) -> ScoringRows:
    """Check rows to be scored, and warn of values that the correction does not list.

    There may be no rows. Unless `invalid` is "error", scores may be missing or outside [0, 1].
    """
    rows = rows_to_score(score, sensitive_features, correction, invalid=invalid)
    people = np.bincount(rows.code, minlength=len(rows.patterns))
    unlisted = count_unlisted(correction, rows.patterns, people, rows.codes)
    warn_of_unlisted(correction, unlisted, len(rows.score))
    return rows


def rows_to_score(
    score: Any, people: Any, correction: Definition, name: str = "score", *, invalid: str = "error"
) -> ScoringRows:
    """Like `scoring_rows`, but without warnings."""
    check_choice("invalid", invalid, INVALID)
    refuse_truths(score, name)
    values = numbers(score, name)
    refuse_names(people, len(values))
    columns: Columns = {}
    known, points, reads = correction.patterns, correction.points, list(correction.reads)
    if reads:
        if people is None:
            raise refused("features needed", reads=reads)
        plain = plain_columns(people, reads)
        columns = attribute_columns(people, reads) if plain is None else plain
    sizes = {f"attribute {a!r}": len(column) for a, column in columns.items()}
    check_lengths({name: len(values)} | sizes, may_be_empty=True)
    if not len(values):
        none, nobody = np.empty((0, len(known.attributes)), dtype=np.int64), np.empty(0, dtype=np.int64)
        codes = [nobody for _ in points.features] if points else []
        return ScoringRows(values, replace(known, table=none), nobody, codes)
    if invalid == "error":
        check_scores(values, name, scoring=True)
    codes = [
        encode_known(*attribute_values(name, known.derived.get(name), columns), levels)
        for name, levels in zip(known.attributes, known.levels)
    ]
    table, code = combinations_present(codes, [len(level) + 1 for level in known.levels], len(values))
    patterns = Patterns(known.attributes, known.levels, table, known.derived)
    return ScoringRows(values, patterns, code, feature_codes(points, columns) if points else [])


def feature_codes(points: PointsTable, columns: Mapping[str, Any]) -> list[Any]:
    """Which level or range of each feature with points each row is in."""
    return [_codes(feature, columns[feature.column]) for feature in points.features]


def _codes(feature: FeaturePoints, column: Any) -> Any:
    if not feature.is_number:  # a missing value has the code behind the levels
        return encode_known(*distinct(column), (*feature.levels, None))
    values = floats(column, Column(feature.column, f"feature {feature.column!r}"))
    codes = np.searchsorted(feature.cuts, values, side="right").astype(np.uint8)
    codes[np.isnan(values)] = len(feature.points)
    return codes


def refuse_truths(score: Any, name: str) -> None:
    """Refuse true and false in place of scores: they would count as certain."""
    kind = str(getattr(score, "dtype", getattr(score, "type", ""))).lower()
    of_objects = isinstance(score, (list, tuple)) or kind == "object"
    if kind.startswith("bool") or (of_objects and any(type(value) in (bool, np.bool_) for value in score)):
        problem = f"{name} must be a number from 0 to 1; it holds true or false"
        raise InputError(problem, argument=name, next_step=SWAPPED)
