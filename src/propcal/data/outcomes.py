"""Outcomes as 0 and 1: numbers, yes and no in their usual spellings, or one value that means the event.

One rule decides, cell by cell, in memory, in files and in every engine: with `positive`, that value is the
event and every other value is not; without it, yes, y, true, t and 1 are the event and no, n, false, f and 0
are not, in any case and with any spaces around them. Missing values stay missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.grid import FloatArray
from propcal.core.patterns import Level
from propcal.data.derive import is_record
from propcal.data.frames import numbers, one_column
from propcal.data.levels import distinct, level_key
from propcal.errors import Argument, InputError, Text
from propcal.plain_text import shown

YES = ("1", "true", "yes", "y", "t")
NO = ("0", "false", "no", "n", "f")
SAME = {"1": "true", "true": "1", "0": "false", "false": "0"}


def outcome_numbers(values: Any, name: str, positive: Any = None) -> FloatArray:
    """One column of outcomes as float64; missing values become NaN."""
    if positive is None and isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return numbers(values, name)
    column = one_column(values, name)
    if positive is None and not _holds_text(column):
        return numbers(values if isinstance(column, np.ndarray) else column, name)
    found, codes = distinct(column)
    events = np.array([*event_codes(found, name, positive), nan])
    return np.asarray(events[codes])


def _holds_text(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return any(isinstance(value, (str, bytes)) for value in column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return not is_record(kind) and ("string" in str(kind) or "binary" in str(kind))


def event_codes(found: Sequence[Any], name: str, positive: Any = None) -> list[float]:
    """For each different value of an outcome column: 1 if it is the event, 0 if not, NaN if it is missing."""
    levels = [level_key(value) for value in found]
    if positive is not None:
        events = _meant(positive, levels, name)
        return [nan if level is None else float(level in events) for level in levels]
    codes = {level: _code(level) for level in dict.fromkeys(levels) if level is not None}
    strange = [level for level, code in codes.items() if code is None]
    if strange:
        raise _not_understood(name, sorted(codes), strange)
    return [nan if level is None else float(codes[level] or 0.0) for level in levels]


def _folded(level: str) -> str:
    return level.strip().casefold()


def _code(level: str) -> float | None:
    bare = _folded(level)
    return 1.0 if bare in YES else 0.0 if bare in NO else None


def _meant(positive: Any, levels: Sequence[Level], name: str) -> set[str]:
    """The levels that `positive` means: itself, or else what differs in case, spaces or spelling only."""
    wanted = level_key(positive)
    known = {level for level in levels if level is not None}
    if wanted in known:
        return {str(wanted)}
    alike = {level for level in known if wanted is not None and _folded(level) == _folded(wanted)}
    spelled = {SAME.get(str(wanted), ""), _as_number(str(wanted))} & known
    if alike or spelled:
        return alike or spelled
    two = sorted(known)
    raise InputError(
        f"{name}: no value is {shown(positive, 40)}",
        argument="positive",
        next_step=f"It holds {two[0]!r} and {two[1]!r}." if len(two) == 2 else _how_many(len(two)),
    )


def _as_number(text: str) -> str:
    try:
        return str(level_key(Decimal(text)))
    except InvalidOperation:
        return ""


def _how_many(n: int) -> str:
    return f"It holds {n:,} different values." if n > 1 else "It holds one value only."


def _not_understood(name: str, levels: Sequence[str], strange: Sequence[str]) -> InputError:
    form = f"{name} must be 0 or 1, or yes or no"
    if len(levels) == 2:
        one, other = (Argument("positive", level, written=f"positive={level!r}") for level in levels)
        step: str | Text = "Say which of them means the event: " + one + " or " + other
        return InputError(f"{form}; it holds {levels[0]!r} and {levels[1]!r}", argument=name, next_step=step)
    if len(levels) == 1:
        only = Argument("positive", levels[0], written=f"positive={levels[0]!r}")
        step = "Write another value where there was no event, such as no in an empty cell; then use " + only
        return InputError(f"{form}; it holds only {levels[0]!r}", argument=name, next_step=step)
    is_ = "is" if len(strange) == 1 else "are"
    some = f"{len(strange):,} of its {len(levels):,} different values {is_} neither"
    step = (
        "Say which value means the event with "
        + Argument("positive")
        + "; all other values then mean that there was none"
    )
    return InputError(f"{form}; {some}", argument=name, next_step=step)
