"""Outcomes as 0 and 1: numbers, yes and no in their usual spellings, or one value that means the event.

One rule decides, cell by cell, in memory, in files and in every engine: with `positive`, that value is the
event and every other value is not; without it, yes, y, true, t and 1 are the event and no, n, false, f and 0
are not, in any case and with any spaces around them. Missing values stay missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.core.groups.recipes import is_numeric
from propcal.core.patterns import Level
from propcal.data.frames import holds_text, numbers, one_column
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
    if positive is None and not holds_text(column):
        return numbers(values if isinstance(column, np.ndarray) else column, name)
    found, codes = distinct(column)
    events = np.array([*event_codes(found, name, positive), nan])
    return np.asarray(events[codes])


def event_codes(found: Sequence[Any], name: str, positive: Any = None) -> list[float]:
    """For each different value of an outcome column: 1 if it is the event, 0 if not, NaN if it is missing."""
    levels = [level_key(value) for value in found]
    if positive is not None:
        events = _meant(positive, levels, name)
        return [nan if level is None else float(level in events) for level in levels]
    known = {level: _folded(level) for level in dict.fromkeys(levels) if level is not None}
    strange = [level for level, bare in known.items() if bare not in (*YES, *NO)]
    if strange:
        raise _not_understood(name, sorted(known), strange)
    return [nan if level is None else float(known[level] in YES) for level in levels]


def _folded(level: str) -> str:
    return level.strip().casefold()


def _meant(positive: Any, levels: Sequence[Level], name: str) -> set[str]:
    """The levels that `positive` means: itself, or else what differs in case, spaces or spelling only."""
    wanted = level_key(positive)
    known = {level for level in levels if level is not None}
    if wanted in known:
        return {str(wanted)}
    alike = {level for level in known if wanted is not None and _folded(level) == _folded(wanted)}
    number = str(level_key(Decimal(str(wanted)))) if is_numeric(str(wanted)) else ""
    spelled = {SAME.get(str(wanted), ""), number} & known
    if alike or spelled:
        return alike or spelled
    step = f"It holds {len(known):,} different values." if len(known) > 1 else "It holds one value only."
    if len(known) == 2:
        step = "It holds {!r} and {!r}.".format(*sorted(known))
    raise InputError(f"{name}: no value is {shown(positive, 40)}", argument="positive", next_step=step)


def _not_understood(name: str, levels: Sequence[str], strange: Sequence[str]) -> InputError:
    shows = [Argument("positive", level, written=f"positive={level!r}") for level in levels[:2]]
    step: str | Text
    if len(levels) == 2:
        what = f"it holds {levels[0]!r} and {levels[1]!r}"
        step = "Say which of them means the event: " + shows[0] + " or " + shows[1]
    elif len(levels) == 1:
        what = f"it holds only {levels[0]!r}"
        step = (
            "Write another value where there was no event, such as no in an empty cell; then use " + shows[0]
        )
    else:
        are = "is" if len(strange) == 1 else "are"
        what = f"{len(strange):,} of its {len(levels):,} different values {are} neither"
        all_others = "; all other values then mean that there was none"
        step = "Say which value means the event with " + Argument("positive") + all_others
    return InputError(f"{name} must be 0 or 1, or yes or no; {what}", argument=name, next_step=step)
