"""Patient IDs: hashed into clusters, so that intervals allow for repeat visits.

A column that looks like one and was not named is warned of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from propcal.core.patterns import Level
from propcal.errors import Argument, InputError, refused, warn_user
from propcal.reading.levels import distinct, level_key

N_CLUSTERS = 256
CLUSTERS: tuple[Level, ...] = tuple(f"{cluster:03d}" for cluster in range(N_CLUSTERS))
MOST_COUNTED = 1_000_000  # rows in which the values of a column are counted
FEWEST_PATIENTS = 20  # fewer values may be codes
# share of rows; where nearly every row has a value of its own, there are no repeat
# visits
MOST_DIFFERENT = 0.95
PATIENT_ID = re.compile(
    "(patient|pat|subject|person|participant|member)"
    "(id|no|nr|nbr|num|number|key|identifier)"
    "|patient|mrn|medicalrecord(no|number)|nhs(id|no|number)|empi(id)?|id"
)


def cluster_codes(ids: Any) -> Any:
    """The cluster of each row: a hash of the patient ID that is the same in every file
    and on every machine.

    All rows of a person are in the same cluster, and clusters are practically
    independent, so that intervals can be computed from the variation between clusters.
    A cluster reveals almost nothing about an ID.
    """
    keys, codes = patient_codes(ids, Argument("cluster"))
    clusters = np.full(len(keys), -1, dtype=np.int32)
    for place, key in enumerate(keys):
        if key is not None:
            clusters[place] = blake2b(key.encode(), digest_size=1).digest()[0]
    return clusters[codes]


def patient_codes(ids: Any, title: str | Argument) -> tuple[list[Level], Any]:
    """The different patient IDs, and the place of each row's ID among them; refuses
    missing ones.
    """
    values, codes = distinct(ids)
    keys = list(map(level_key, values))

    # code -1 looks up the last entry
    is_missing = np.array([*(key is None for key in keys), True])
    n_missing = int(np.count_nonzero(is_missing[codes]))
    if n_missing:
        count = f"{n_missing:,} of {len(codes):,} rows"
        raise InputError(
            title + f": the patient ID is missing in {count}",
            argument=None if isinstance(title, Argument) else title,
            next_step="Find out whose rows they are, or give each of them an ID of its "
            "own",
        )
    return keys, codes


def looks_like_patient_id(name: str) -> bool:
    """Whether a column is named as patient IDs usually are.

    >>> names = ("subject_id", "NHS number", "PatientID", "stay_id", "age")
    >>> [looks_like_patient_id(name) for name in names]
    [True, True, True, False, False]
    """
    letters = re.sub(r"[\W_]", "", name.casefold())
    return PATIENT_ID.fullmatch(letters) is not None


def warn_of_undeclared(
    names: Iterable[str],
    used: Sequence[str],
    count: Callable[[str], tuple[int, int]],
    key: str = "repeats",
    written: str = "cluster={}",
) -> str:
    """Warn of the first column, other than those that are used, that looks like a
    patient ID and has repeated values; its name, or "".

    `count` gives the number of rows that were counted and of different values in them.
    `key` is the text of the warning in errors.toml; `written` is how Python passes the
    column, for a text that says so.
    """
    for name in names:
        if name in used or not looks_like_patient_id(name):
            continue
        rows, different = count(name)
        if FEWEST_PATIENTS <= different <= MOST_DIFFERENT * rows:
            passed = written.format(f'"{name}"')
            warning = refused(
                key, name=name, different=different, rows=rows, passed=passed
            )
            warn_user(warning.message)
            return name
    return ""


def count_values(column: Any) -> tuple[int, int]:
    """How many of the first rows have a value, and how many different values these
    have.
    """
    _, codes = distinct(column[:MOST_COUNTED])
    known = codes[codes >= 0]
    return len(known), len(np.unique(known))
