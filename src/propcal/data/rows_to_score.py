"""Rows in memory that are to be scored: checked, and matched with the patterns of a correction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from propcal.core.correction.lookup import unknown_levels, warn_of_unknown
from propcal.core.grid import FloatArray, check_choice
from propcal.core.patterns import Patterns, combinations_present
from propcal.data.checks import INVALID, SWAPPED, check_lengths, check_scores
from propcal.data.derive import attribute_values
from propcal.data.frames import FEATURES, Columns, attribute_columns, numbers, refuse_names
from propcal.data.levels import encode_known
from propcal.data.plain_columns import plain_columns
from propcal.errors import InputError


def scoring_rows(
    score: Any,
    sensitive_features: Any,
    known: Patterns,
    name: str = "score",
    *,
    invalid: str = "error",
    shared: bool = False,
    folded: tuple[str, ...] = (),
) -> tuple[FloatArray, Patterns, Any]:
    """Check rows to be scored; return scores, patterns in terms of known levels, and each row's pattern.

    There may be no rows. Unless `invalid` is "error", scores may be missing or outside [0, 1]. `shared` says
    whether the levels are those of a shared correction, and `folded` in which attributes unlisted levels are
    expected, for the warning about other levels.
    """
    values, patterns, code = rows_to_score(score, sensitive_features, known, name, invalid=invalid)
    counts = unknown_levels(patterns, known.levels, np.bincount(code, minlength=len(patterns)))
    warn_of_unknown(patterns.attributes, counts, len(values), shared=shared, folded=folded)
    return values, patterns, code


def rows_to_score(
    score: Any, sensitive_features: Any, known: Patterns, name: str = "score", *, invalid: str = "error"
) -> tuple[FloatArray, Patterns, Any]:
    """Like `scoring_rows`, but without warnings."""
    check_choice("invalid", invalid, INVALID)
    refuse_truths(score, name)
    values = numbers(score, name)
    refuse_names(sensitive_features, len(values))
    columns: Columns = {}
    if known.attributes:
        if sensitive_features is None:
            problem = f"{FEATURES} is needed: this correction reads {list(known.reads)}"
            raise InputError(problem, argument=FEATURES)
        plain = plain_columns(sensitive_features, known.reads)
        columns = attribute_columns(sensitive_features, known.reads) if plain is None else plain
    sizes = {f"attribute {a!r}": len(column) for a, column in columns.items()}
    check_lengths({name: len(values)} | sizes, may_be_empty=True)
    if not len(values):
        none = np.empty((0, len(known.attributes)), dtype=np.int64)
        return values, replace(known, table=none), np.empty(0, dtype=np.int64)
    if invalid == "error":
        check_scores(values, name, scoring=True)
    codes = [
        encode_known(*attribute_values(name, known.derived.get(name), columns), levels)
        for name, levels in zip(known.attributes, known.levels)
    ]
    table, code = combinations_present(codes, [len(level) + 1 for level in known.levels], len(values))
    return values, Patterns(known.attributes, known.levels, table, known.derived), code


def refuse_truths(score: Any, name: str) -> None:
    """Refuse true and false in place of scores: they would count as certain."""
    kind = str(getattr(score, "dtype", getattr(score, "type", ""))).lower()
    of_objects = isinstance(score, (list, tuple)) or kind == "object"
    if kind.startswith("bool") or (of_objects and any(type(value) in (bool, np.bool_) for value in score)):
        problem = f"{name} must be a number from 0 to 1; it holds true or false"
        raise InputError(problem, argument=name, next_step=SWAPPED)
