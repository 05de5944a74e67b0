"""The memory of this machine, or the limit set by a container or for the process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

UNKNOWN = 8 << 30  # assumed if the system does not report it
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """The total memory in bytes, used or not."""
    found = [UNKNOWN]
    with suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUPS:
        with suppress(OSError, ValueError):  # no such limit, or "max"
            found.append(int(Path(path).read_text()))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    return min(found)
