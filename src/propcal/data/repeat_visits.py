"""Repeat visits: rows of one person share a cluster, a hash of the id that adds up like any attribute."""

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
    """Cluster of each row: a hash of the id, the same everywhere, so that all rows of a person share one.

    What happens within a person stays within a cluster, and clusters are as good as independent: their
    spread is what an interval needs. A cluster says next to nothing about an id.
    """
    values, codes = distinct(ids)
    hashed = np.array([_cluster(level_key(value)) for value in values], dtype=np.int64)
    absent = int(np.count_nonzero(codes < 0)) + int(np.count_nonzero(hashed[codes[codes >= 0]] < 0))
    if absent:
        raise InputError(
            Argument("cluster") + f": {absent:,} of {len(codes):,} ids are missing",
            next_step="give each such row an id of its own",
        )
    return hashed[codes].astype(np.int32)


def _cluster(key: Level) -> int:
    return -1 if key is None else blake2b(key.encode(), digest_size=1).digest()[0]


def refuse_cluster_name(attributes: Collection[str]) -> None:
    """No attribute of people may be called as their cluster is."""
    if CLUSTER in attributes:
        raise InputError(
            f"an attribute cannot be called {CLUSTER!r}: propcal uses that name",
            argument=CLUSTER,
            next_step="rename it",
        )
