"""People to be scored: rows -> their patterns, in terms of the levels that a correction knows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from propcal.core.grid import BoolArray, FloatArray
from propcal.core.patterns import Patterns, combinations_present
from propcal.data.checks import check_lengths, check_scores
from propcal.data.derive import Columns, attribute_values
from propcal.data.frames import attribute_columns, numbers
from propcal.data.levels import encode_known
from propcal.errors import InputError, Message


def scoring_rows(
    score: Any, sensitive_features: Any, known: Patterns, name: str = "score"
) -> tuple[FloatArray, Patterns, Any]:
    """Check rows to be scored; their patterns in terms of the known levels, and each row's pattern."""
    values, patterns, code = rows_to_score(score, sensitive_features, known, name)
    warn_of_other_codes(patterns, len(values), none_known(patterns))
    return values, patterns, code


def rows_to_score(
    score: Any, sensitive_features: Any, known: Patterns, name: str = "score"
) -> tuple[FloatArray, Patterns, Any]:
    """As `scoring_rows`, and silent."""
    values = numbers(score, name)
    columns: Columns = {}
    if known.attributes:
        if sensitive_features is None:
            raise InputError(
                f"pass sensitive_features: this correction reads {list(known.reads)}",
                argument="sensitive_features",
            )
        columns = attribute_columns(sensitive_features, known.reads)
    sizes = {name: len(values)}
    check_lengths(sizes | {f"attribute {a!r}": len(column) for a, column in columns.items()})
    check_scores(values, name)
    codes = [
        encode_known(*attribute_values(name, known.derived.get(name), columns), levels)
        for name, levels in zip(known.attributes, known.levels)
    ]
    table, code = combinations_present(codes, [len(level) + 1 for level in known.levels], len(values))
    return values, Patterns(known.attributes, known.levels, table, known.derived), code


def none_known(patterns: Patterns) -> BoolArray:
    """For each attribute, whether these people have not one level of it that is known."""
    return np.array(
        [patterns.table[:, a].min() >= len(known) for a, known in enumerate(patterns.levels)], bool
    )


def warn_of_other_codes(patterns: Patterns, n_rows: int, unknown: BoolArray) -> None:
    """Many rows and not one known level: the column is probably coded in another way than in fitting."""
    for name, nothing in zip(patterns.attributes, unknown):
        if nothing and n_rows >= 20:
            warnings.warn(
                Message(
                    f"none of the {n_rows:,} values of {name!r} occurred in fitting",
                    argument=name,
                    next_step="is it coded differently?",
                ),
                UserWarning,
                stacklevel=3,
            )
