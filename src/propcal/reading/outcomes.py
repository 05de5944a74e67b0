"""Outcomes as 0 and 1: from numbers, from yes and no, or from the value for the event.

One rule decides, cell by cell, in memory, in files and in every engine: with
`positive`, that value is the event and every other value is not; without it, yes, y,
true, t and 1 are the event and no, n, false, f and 0 are not, in any case and with any
spaces around them. Missing values stay missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import nan
from typing import Any

import numpy as np

from propcal.core.conditions import is_numeric
from propcal.core.grid import FloatArray
from propcal.errors import InputError, PropcalError, refused, shown
from propcal.numbers import agreeing
from propcal.reading.frames import holds_text, numbers, one_column
from propcal.reading.levels import distinct, level_key

YES = ("1", "true", "yes", "y", "t")
NO = ("0", "false", "no", "n", "f")
OTHER_SPELLING = {"1": "true", "true": "1", "0": "false", "false": "0"}
MOST_LETTERS = 40  # of the value for the event, in an error


def outcome_numbers(values: Any, name: str, positive: Any = None) -> FloatArray:
    """One column of outcomes as float64; missing values become NaN."""
    is_array = isinstance(values, np.ndarray)
    if positive is None and is_array and values.dtype.kind in "fiub":
        return numbers(values, name)

    column = one_column(values, name)
    if positive is None and not holds_text(column):
        if isinstance(column, np.ndarray):
            return numbers(values, name)
        return numbers(column, name)

    found, codes = distinct(column)
    events = np.array([*event_codes(found, name, positive), nan])
    return np.asarray(events[codes])


def event_codes(found: Sequence[Any], name: str, positive: Any = None) -> list[float]:
    """For each different value of an outcome column: 1 if it is the event, 0 if not,
    NaN if it is missing.
    """
    levels = list(map(level_key, found))
    known = [level for level in dict.fromkeys(levels) if level is not None]
    if positive is not None:
        events = _levels_meant(positive, set(known), name)
    else:
        _refuse_other_words(known, name)
        events = {level for level in known if _folded(level) in YES}
    return [nan if level is None else float(level in events) for level in levels]


def _folded(level: str) -> str:
    return level.strip().casefold()


def _refuse_other_words(known: Sequence[str], name: str) -> None:
    """Refuse outcomes that mean neither yes nor no."""
    strange = [level for level in known if _folded(level) not in (*YES, *NO)]
    if strange:
        raise _not_understood(name, sorted(known), len(strange))


def _levels_meant(positive: Any, known: set[str], name: str) -> set[str]:
    """The levels that `positive` means: itself, or else what differs in case, spaces or
    spelling only.
    """
    wanted = level_key(positive)
    if wanted in known:
        return {str(wanted)}

    if wanted is not None:
        alike = {level for level in known if _folded(level) == _folded(wanted)}
        if alike:
            return alike

    spellings = {OTHER_SPELLING.get(str(wanted), "")}
    if is_numeric(str(wanted)):
        spellings.add(str(level_key(Decimal(str(wanted)))))
    if spellings & known:
        return spellings & known

    raise InputError(
        f"{name}: no value is {shown(positive, MOST_LETTERS)}",
        argument="positive",
        next_step=_what_it_holds(known),
    )


def _what_it_holds(known: set[str]) -> str:
    if len(known) == 2:
        return "It holds {!r} and {!r}.".format(*sorted(known))
    if len(known) > 1:
        return f"It holds {len(known):,} different values."
    return "It holds one value only."


def _not_understood(name: str, levels: Sequence[str], n_strange: int) -> PropcalError:
    if len(levels) == 1:
        return refused("one outcome", name=name, first=levels[0], second=levels[0])
    if len(levels) == 2:
        return refused("two outcomes", name=name, first=levels[0], second=levels[1])
    if n_strange == len(levels):
        what = f"none of its {len(levels):,} different values is"
    else:
        are = agreeing(n_strange, "is", "are")
        what = f"{n_strange:,} of its {len(levels):,} different values {are} neither"
    return refused("many outcomes", name=name, what=what)


def compact_outcomes(outcome: FloatArray) -> Any:
    """Outcomes of 0 and 1, which a byte each can hold; soft labels between stay
    floats.
    """
    whole = outcome.astype(np.int8)
    return whole if np.array_equal(whole, outcome) else outcome
