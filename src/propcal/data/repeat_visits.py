"""Repeat visits: hashes patient IDs into clusters, so that intervals allow for several rows per person."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import numpy as np

from propcal.core.patterns import Level
from propcal.data.levels import distinct, level_key
from propcal.errors import Argument, InputError, Message

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
        raise InputError(
            title + f": the patient ID is missing in {absent:,} of {len(codes):,} rows",
            argument=None if isinstance(title, Argument) else title,
            next_step="Find out whose rows they are, or give each of them an ID of its own",
        )
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
