"""Rows to be scored: checked, with the pattern of each in a correction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from propcal.core.arguments import check_choice
from propcal.core.correction.definition import Definition, ScoringRows
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import FloatArray
from propcal.core.patterns import Patterns, combinations_present
from propcal.errors import ColumnTitle, refused
from propcal.reading import frames
from propcal.reading import role_columns as roles
from propcal.reading.derived_columns import attribute_values
from propcal.reading.frames import Columns, numbers
from propcal.reading.levels import distinct, encode_known


def scoring_rows(
    score: Any,
    sensitive_features: Any,
    correction: Definition,
    *,
    invalid: str = "error",
) -> ScoringRows:
    """Check rows to be scored, and warn of values that the correction does not list.

    There may be no rows. Unless `invalid` is "error", scores may be missing or outside
    [0, 1].
    """
    rows = rows_to_score(score, sensitive_features, correction, invalid=invalid)
    Unlisted(correction).add(rows).warn()
    return rows


def rows_to_score(
    score: Any,
    people: Any,
    correction: Definition,
    name: str = "score",
    *,
    invalid: str = "error",
) -> ScoringRows:
    """Like `scoring_rows`, but without warnings."""
    check_choice("invalid", invalid, roles.INVALID)
    refuse_truths(score, name)
    values = numbers(score, name)
    frames.refuse_names(people, len(values))
    columns: Columns = {}
    reads = list(correction.reads)
    if reads:
        if people is None:
            raise refused("features needed", reads=reads)
        columns = frames.attribute_columns(people, reads, plain=True)
    lengths = {name: len(values)}
    for attribute, column in columns.items():
        lengths[f"attribute {attribute!r}"] = len(column)
    roles.check_lengths(lengths, may_be_empty=True)
    if not len(values):
        return _no_rows_to_score(values, correction)
    if invalid == "error":
        roles.check_scores(values, name, scoring=True)

    known = correction.patterns
    codes = []
    for attribute, levels in zip(known.attributes, known.levels):
        recipe = known.derived.get(attribute)
        different, places = attribute_values(attribute, recipe, columns)
        codes.append(encode_known(different, places, levels))
    n_codes = [len(levels) + 1 for levels in known.levels]
    table, code = combinations_present(codes, n_codes, len(values))
    patterns = Patterns(known.attributes, known.levels, table, known.derived)
    features = [
        _codes(feature, columns[feature.column]) for feature in correction.features
    ]
    return ScoringRows(values, patterns, code, features)


def _no_rows_to_score(values: FloatArray, correction: Definition) -> ScoringRows:
    nobody = np.empty(0, dtype=np.int64)
    no_patterns = np.empty((0, len(correction.patterns.attributes)), dtype=np.int64)
    patterns = replace(correction.patterns, table=no_patterns)
    return ScoringRows(values, patterns, nobody, [nobody] * len(correction.features))


def feature_codes(points: PointsTable, columns: Mapping[str, Any]) -> list[Any]:
    """Which level or range of each feature with points each row is in."""
    return [_codes(feature, columns[feature.column]) for feature in points.features]


def _codes(feature: FeaturePoints, column: Any) -> Any:
    if not feature.is_number:  # a missing value has the code behind the levels
        return encode_known(*distinct(column), (*feature.levels, None))
    title = ColumnTitle(feature.column, f"feature {feature.column!r}")
    values = frames.floats(column, title)
    codes = np.searchsorted(feature.cuts, values, side="right").astype(np.uint8)
    codes[np.isnan(values)] = len(feature.points)
    return codes


def refuse_truths(score: Any, name: str) -> None:
    """Refuse true and false in place of scores: they would count as certain."""
    kind = str(getattr(score, "dtype", getattr(score, "type", ""))).lower()
    if kind.startswith("bool"):
        raise refused("truths as scores", name=name)
    of_objects = isinstance(score, (list, tuple)) or kind == "object"
    if of_objects and any(type(value) in (bool, np.bool_) for value in score):
        raise refused("truths as scores", name=name)
