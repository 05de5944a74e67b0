"""What it costs to load a small file of atoms that declares very many rows.

    python benchmarks/many_atoms.py

Makes a file of 60 million rows, each with the next score and all else alike, so that
they compress to almost nothing. Loads it in processes that may use 4 GB, 8 GB, and as
much memory as the machine has. Prints how it ended, the seconds and the peak of memory.
Everything but the fingerprint is right, so that what is read is read and checked to its
end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal import Atoms

ROWS, GROUP = 60_000_000, 1_000_000
LIMITS = (4, 8, None)  # gigabytes
PROGRAM = """
import resource, sys, time
from propcal import Atoms
from propcal.errors import FileFormatError

if sys.argv[2] != "None":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]) << 30,) * 2)


def peak():
    return int([line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line][0]) / 1024


began = time.perf_counter()
try:
    ended = f"{len(Atoms.load(sys.argv[1])):,} atoms"
except (FileFormatError, MemoryError) as error:
    ended = f"{type(error).__name__}: {error}".replace(sys.argv[1], "the file")
print(f"{time.perf_counter() - began:.2f} s, peak {peak():,.0f} MB: {ended}")
"""


def write(path: Path) -> None:
    """A true file of one atom; then its row again and again with other scores."""
    frame = {"s": np.array([0.25]), "y": np.array([1]), "g": np.array(["a"])}
    Atoms.from_frame(pa.table(frame), score="s", outcome="y", groups=["g"]).save(path)
    one = pq.read_table(path)
    many = one.take(pa.array(np.zeros(GROUP, dtype=np.int64)))
    place = one.schema.get_field_index("score")
    others = [name for name in one.column_names if name != "score"]
    packed = {"compression": "zstd", "use_dictionary": others}
    packed["column_encoding"] = {"score": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(path, one.schema, **packed) as writer:
        for first in range(0, ROWS, GROUP):
            score = pa.array(np.arange(first, first + GROUP, dtype=np.int64))
            writer.write_table(many.set_column(place, one.schema.field("score"), score))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.parquet"
        write(path)
        told = pq.read_metadata(path)
        print(
            json.dumps({"rows": told.num_rows, "bytes": os.path.getsize(path)}),
            flush=True,
        )
        for limit in LIMITS:
            command = [sys.executable, "-c", PROGRAM, str(path), str(limit)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            title = f"{limit} GB" if limit else "no limit"
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            print(
                f"{title}: {last[0] if last else f'ended by signal {-done.returncode}'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
