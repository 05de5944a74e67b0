"""Time and memory of reducing files to atoms, relative to a plain DuckDB query with the same GROUP BY.

    python benchmarks/reduction.py                        # 10^6 and 10^7 rows
    python benchmarks/reduction.py --rows 1e6 1e7 1e8     # needs 1.2 GB of disk for the largest
    python benchmarks/reduction.py --spark                # and Spark, local[2], against Spark SQL

Writes benchmarks/results/reduction.json and reduction.md. The data have 7 x 2 x 4 = 56 patterns, a beta(2, 4)
score and a binary outcome. Runs alternate in pairs, and ratios are computed within a pair, because they vary
less on a busy machine than times do. CPU seconds, which vary least, are reported as well.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from propcal import Atoms, PMCBoost, audit

RESULTS = Path(__file__).parent / "results"
LEVELS = {"race": 7, "gender": 2, "insurance": 4}
COLUMNS = {"score": "risk", "outcome": "y", "groups": list(LEVELS)}
CHUNK = 1_000_000


def generate(path: Path, n: int, kind: str) -> None:
    """Simulate people in chunks, so that any number fits into memory."""
    rng = np.random.default_rng(0)
    writer = None
    for begin in range(0, n, CHUNK):
        m = min(CHUNK, n - begin)
        columns = {}
        for name, levels in LEVELS.items():
            codes = pa.array(rng.integers(0, levels, m, dtype=np.int32))
            columns[name] = pa.DictionaryArray.from_arrays(
                codes, pa.array([f"{name} {i}" for i in range(levels)])
            )
        risk = rng.beta(2, 4, m)
        columns["risk"] = pa.array(risk.astype(kind))
        columns["y"] = pa.array((rng.random(m) < risk).astype(np.int8))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def query(source: str, bits: int) -> str:
    """The plain query for comparison."""
    key = f"CAST(floor(CAST(risk AS DOUBLE) * {1 << bits} + 0.5) AS BIGINT)"
    keys = ", ".join(LEVELS)
    sums = "count(*) AS n, CAST(sum(y) AS BIGINT) AS y"
    return f"SELECT {key} AS k, {keys}, {sums} FROM {source} GROUP BY k, {keys}"


def bare(path: Path, bits: int):
    with duckdb.connect() as engine:
        return engine.sql(query(f"read_parquet('{path}')", bits)).to_arrow_table()


def ours(path: Path, bits: int) -> Atoms:
    return Atoms.from_files(path, **COLUMNS, resolution=2.0**-bits)


def timed(task):
    wall, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def pairs(one, other, n_pairs: int) -> dict:
    """Alternate two tasks; return the median times and the median ratio within a
    pair.
    """
    walls, cpus = [], []
    for i in range(n_pairs + 1):
        order = (one, other) if i % 2 else (other, one)
        runs = {task: timed(task)[1:] for task in order}
        if i:  # the first pair warms up
            walls.append((runs[one][0], runs[other][0]))
            cpus.append((runs[one][1], runs[other][1]))
    return {
        "pairs": n_pairs,
        "seconds": statistics.median(a for a, _ in walls),
        "bare seconds": statistics.median(b for _, b in walls),
        "ratio": statistics.median(a / b for a, b in walls),
        "ratios": [round(a / b, 3) for a, b in walls],
        "cpu ratio": statistics.median(a / b for a, b in cpus)
        if min(b for _, b in cpus) > 0
        else None,
        "best seconds": min(a for a, _ in walls),
    }


def peak(path: Path, bits: int, memory: str | None) -> dict:
    """The peak memory of a new process that only makes the atoms."""
    settings = {**COLUMNS, "resolution": 2.0**-bits, "memory_limit": memory}
    # not ru_maxrss, which includes memory of the parent process
    code = (
        "import re, time; from propcal import Atoms; began = time.perf_counter();"
        f"a = Atoms.from_files({str(path)!r}, **{settings!r}); took = time.perf_counter() - began;"
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1];"
        "print(len(a), int(peak) * 1024, took)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return {
        "bits": bits,
        "limit": memory,
        "atoms": int(out[0]),
        "peak MB": int(out[1]) / 1e6,
        "seconds": float(out[2]),
    }


def files(rows: list[int], n_pairs: int, folder: Path, kind: str) -> dict:
    found: dict = {"speed": [], "memory": [], "downstream": []}
    for n in rows:
        path = folder / f"{n}.parquet"
        generate(path, n, kind)
        for bits in (16, 10):
            assert len(bare(path, bits)) == len(ours(path, bits))
            row = {"rows": n, "bits": bits, "atoms": len(ours(path, bits))}
            found["speed"].append(
                row | pairs(lambda: ours(path, bits), lambda: bare(path, bits), n_pairs)
            )
            print(found["speed"][-1], flush=True)
        for bits, memory in ((16, None), (16, "1GB"), (10, None), (10, "200MB")):
            found["memory"].append({"rows": n} | peak(path, bits, memory))
            print(found["memory"][-1], flush=True)
        atoms = ours(path, 16)
        _, fitting, _ = timed(lambda: PMCBoost().fit_atoms(atoms))
        _, auditing, _ = timed(lambda: audit(atoms))
        found["downstream"].append(
            {"rows": n, "atoms": len(atoms), "fit": fitting, "audit": auditing}
        )
        print(found["downstream"][-1], flush=True)
        path.unlink()
    for bits in (16, 10):
        times = {
            row["rows"]: row["best seconds"]
            for row in found["speed"]
            if row["bits"] == bits
        }
        if len(times) > 1:
            slope = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0]
            found[f"growth exponent at 2^-{bits}"] = float(slope)
    return found


def spark(n: int, n_pairs: int, folder: Path, kind: str) -> dict:
    """narwhals compared with the same GROUP BY in Spark SQL; both read the file and
    return Arrow.
    """
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    builder = SparkSession.builder.master("local[2]").config(
        "spark.ui.enabled", "false"
    )
    for key, value in {
        "driver.host": "127.0.0.1",
        "sql.shuffle.partitions": "4",
        "log.level": "ERROR",
    }.items():
        builder = builder.config(f"spark.{key}", value)
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    path = folder / "spark.parquet"
    generate(path, n, kind)
    found = []
    for bits in (16, 10):
        sql = query(f"parquet.`{path}`", bits)
        found.append(
            {"rows": n, "bits": bits}
            | pairs(
                lambda: Atoms.from_frame(
                    session.read.parquet(str(path)), **COLUMNS, resolution=2.0**-bits
                ),
                lambda: session.sql(sql).toArrow(),
                n_pairs,
            )
        )
        print(found[-1], flush=True)
    session.stop()
    return {"spark": found}


def table(rows: list[dict], columns: list[str]) -> list[str]:
    def cell(value):
        return (
            f"{value:.3g}"
            if isinstance(value, float)
            else f"{value:,}"
            if isinstance(value, int)
            else str(value)
        )

    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return [
        *lines,
        *(f"| {' | '.join(cell(row[c]) for c in columns)} |" for row in rows),
    ]


def report(found: dict) -> str:
    lines = [
        "# Reduction of files",
        "",
        found["machine"],
        "",
        "Against the bare DuckDB query:",
        "",
    ]
    speed = [
        "rows",
        "bits",
        "atoms",
        "seconds",
        "bare seconds",
        "ratio",
        "cpu ratio",
        "pairs",
    ]
    lines += table(found["speed"], speed)
    lines += [
        f"\n{key}: {value:.2f}"
        for key, value in found.items()
        if key.startswith("growth")
    ]
    lines += ["", "Peak memory of a fresh process:", ""]
    lines += table(
        found["memory"], ["rows", "bits", "limit", "atoms", "peak MB", "seconds"]
    )
    lines += ["", "On the atoms at 2^-16, seconds:", ""]
    lines += table(found["downstream"], ["rows", "atoms", "fit", "audit"])
    if "spark" in found:
        lines += ["", "Spark, local[2], against the same GROUP BY in Spark SQL:", ""]
        lines += table(
            found["spark"],
            ["rows", "bits", "seconds", "bare seconds", "ratio", "pairs"],
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--kind", choices=["float64", "float32"], default="float64")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--spark-rows", type=float, default=1e7)
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to put the people; a temporary folder if not given",
    )
    options = parser.parse_args()
    about = [
        platform.machine(),
        f"{os.cpu_count()} cores",
        f"Python {platform.python_version()}",
    ]
    about.append(f"DuckDB {duckdb.__version__}")
    found = {
        "machine": f"{', '.join(about)}, load {os.getloadavg()[0]:.1f} at the start"
    }
    with tempfile.TemporaryDirectory(
        prefix="propcal-bench-", dir=options.folder
    ) as folder:
        found |= files(
            [int(n) for n in options.rows], options.pairs, Path(folder), options.kind
        )
        if options.spark:
            found |= spark(
                int(options.spark_rows), options.pairs, Path(folder), options.kind
            )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "reduction.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "reduction.md").write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
