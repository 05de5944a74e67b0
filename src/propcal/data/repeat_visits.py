"""Repeat visits: hashes patient IDs into clusters, so that intervals allow for several rows per person."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Any

import numpy as np

from propcal.core.patterns import Level
from propcal.core.reduction import CLUSTER
from propcal.data.levels import distinct, level_key
from propcal.errors import Argument, InputError

N_CLUSTERS = 256
CLUSTERS: tuple[Level, ...] = tuple(f"{cluster:03d}" for cluster in range(N_CLUSTERS))


def cluster_codes(ids: Any) -> Any:
    """The cluster of each row: a hash of the patient ID that is the same in every file and on every machine.

    All rows of a person are in the same cluster, and clusters are practically independent, so that intervals
    can be computed from the variation between clusters. A cluster reveals almost nothing about an ID.
    """
    values, codes = distinct(ids)
    hashed = np.array([_cluster(level_key(value)) for value in values], dtype=np.int64)
    absent = int(np.count_nonzero(codes < 0)) + int(np.count_nonzero(hashed[codes[codes >= 0]] < 0))
    if absent:
        raise InputError(
            Argument("cluster") + f": the patient ID is missing in {absent:,} of {len(codes):,} rows",
            next_step="Find out whose rows they are, or give each of them an ID of its own",
        )
    return hashed[codes].astype(np.int32)


def _cluster(key: Level) -> int:
    return -1 if key is None else blake2b(key.encode(), digest_size=1).digest()[0]


def refuse_cluster_name(attributes: Collection[str]) -> None:
    """Refuse an attribute with the name that is reserved for clusters."""
    if CLUSTER in attributes:
        raise InputError(
            f"an attribute cannot be named {CLUSTER!r}, because propcal uses that name itself",
            argument=CLUSTER,
            next_step="Rename it",
        )
