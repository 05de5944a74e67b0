"""Columns with a role of their own: outcomes as 0 and 1, and patient IDs.

Outcomes are numbers, yes and no in their usual spellings, or one value that means the event. One rule
decides, cell by cell, in memory, in files and in every engine: with `positive`, that value is the event and
every other value is not; without it, yes, y, true, t and 1 are the event and no, n, false, f and 0 are not,
in any case and with any spaces around them. Missing values stay missing.

Patient IDs are hashed into clusters, so that intervals allow for several rows per person.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from hashlib import blake2b
from math import nan
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.core.groups.conditions import is_numeric
from propcal.core.patterns import Level
from propcal.data.frames import holds_text, numbers, one_column
from propcal.data.levels import distinct, level_key
from propcal.errors import Argument, InputError, Message, Text
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
        step = "Write another value where there was no event, such as no in an empty cell; then use "
        step += shows[0]
    else:
        are = "is" if len(strange) == 1 else "are"
        what = f"{len(strange):,} of its {len(levels):,} different values {are} neither"
        if len(strange) == len(levels):
            what = f"none of its {len(levels):,} different values is"
        all_others = "; all other values then mean that there was none"
        step = "Say which value means the event with " + Argument("positive") + all_others
    return InputError(f"{name} must be 0 or 1, or yes or no; {what}", argument=name, next_step=step)


N_CLUSTERS = 256
MOST_COUNTED = 1_000_000  # rows in which the values of a column are counted
FEWEST_PATIENTS = 20  # fewer values may be codes
MOST_DIFFERENT = 0.95  # share of rows; where nearly every row has its own value, nobody comes again
PATIENT_ID = re.compile(
    "(patient|pat|subject|person|participant|member)(id|no|nr|nbr|num|number|key|identifier)|patient|mrn"
    "|medicalrecord(no|number)|nhs(id|no|number)|empi(id)?|id"
)
CLUSTERS: tuple[Level, ...] = tuple(f"{cluster:03d}" for cluster in range(N_CLUSTERS))


def cluster_codes(ids: Any) -> Any:
    """The cluster of each row: a hash of the patient ID that is the same in every file and on every machine.

    All rows of a person are in the same cluster, and clusters are practically independent, so that intervals
    can be computed from the variation between clusters. A cluster reveals almost nothing about an ID.
    """
    keys, codes = patient_codes(ids, Argument("cluster"))
    hashed = [-1 if key is None else blake2b(key.encode(), digest_size=1).digest()[0] for key in keys]
    return np.array(hashed, dtype=np.int32)[codes]


def patient_codes(ids: Any, title: str | Argument) -> tuple[list[Level], Any]:
    """The different patient IDs, and the place of each row's ID among them; refuses missing ones."""
    values, codes = distinct(ids)
    keys = [level_key(value) for value in values]
    unknown = np.array([*(key is None for key in keys), True])  # code -1 looks up the last entry
    if absent := int(np.count_nonzero(unknown[codes])):
        step = "Find out whose rows they are, or give each of them an ID of its own"
        problem = title + f": the patient ID is missing in {absent:,} of {len(codes):,} rows"
        raise InputError(problem, argument=None if isinstance(title, Argument) else title, next_step=step)
    return keys, codes


def looks_like_patient_id(name: str) -> bool:
    """Whether a column is named as patient IDs usually are.

    >>> [looks_like_patient_id(name) for name in ("subject_id", "NHS number", "PatientID", "stay_id", "age")]
    [True, True, True, False, False]
    """
    return PATIENT_ID.fullmatch(re.sub(r"[\W_]", "", name.casefold())) is not None


def warn_of_undeclared(
    unused: Iterable[str],
    count: Callable[[str], tuple[int, int]],
    written: str = "cluster={}",
    advice: str = "",
) -> str:
    """Warn of the first unused column that looks like a patient ID and has repeated values; its name, or "".

    `count` gives the number of rows that were counted and of different values in them; `written` is how
    Python passes the column, and `advice` what to do where it cannot be passed.
    """
    for name in filter(looks_like_patient_id, unused):
        rows, different = count(name)
        if FEWEST_PATIENTS <= different <= MOST_DIFFERENT * rows:
            problem = f"column {name!r} looks like a patient ID and repeats: {different:,} different values"
            problem += f" in {rows:,} rows. Every row was counted as a patient of its own"
            passed = Argument("cluster", name, written=written.format(f'"{name}"'))
            count_patients = " so that intervals and tests count patients rather than visits"
            step = advice or "If it is the patient ID, pass " + passed + count_patients
            warnings.warn(Message(problem, argument=name, next_step=step), UserWarning, stacklevel=4)
            return name
    return ""


def count_values(column: Any) -> tuple[int, int]:
    """How many of the first rows have a value, and how many different values these have."""
    _, codes = distinct(column[:MOST_COUNTED])
    known = codes[codes >= 0]
    return len(known), len(np.unique(known))
