"""What scoring costs: one person, in memory, from Parquet to Parquet, on every engine,
and in memory used.

    python benchmarks/scoring.py            # 10^7 rows, some minutes on 2 cores
    python benchmarks/scoring.py --quick    # 10^6 rows
    python benchmarks/scoring.py --one      # one person at a time alone, some seconds

Ratios are medians over alternating pairs of runs in one process, because a busy machine
slows down both. Writes benchmarks/results/scoring.json."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from engine import SHAPES, encode, people

from propcal import Correction, PMCBoost
from propcal.reading.file_source import open_file
from propcal.scoring.files import score_files

RESULTS = Path(__file__).parent / "results"
PAIRS = 7
FIT = 200_000  # rows to fit on


def seconds(task) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def pairs(ours, theirs, n: int = PAIRS) -> dict:
    """Run both once to warm up, then in turn; return the median ratio."""
    ours(), theirs()
    times = [(seconds(ours), seconds(theirs)) for _ in range(n)]
    ratios = sorted(a / b for a, b in times)
    return {
        "ratio": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "seconds": round(median(a for a, _ in times), 3),
        "compared_seconds": round(median(b for _, b in times), 3),
    }


def one_person(corrections: dict, score, frame: pd.DataFrame) -> list[dict]:
    """Microseconds of `score_one`, of `apply` on one row, and whether a thousand people
    get the same bits.
    """
    rows, scores = frame[:1000].to_dict("records"), score[:1000].tolist()
    found = []
    for name, correction in corrections.items():
        same = [correction.score_one(s, **row) for s, row in zip(scores, rows)]
        assert same == correction.apply(score[:1000], frame[:1000]).tolist()

        def many(correction=correction):
            for s, row in zip(scores, rows):
                correction.score_one(s, **row)

        def few(correction=correction):
            for s, row in zip(scores[:50], rows):
                correction.apply(
                    [s], {column: [value] for column, value in row.items()}
                )

        ours, theirs = (min(seconds(task) for _ in range(15)) for task in (many, few))
        found.append(
            {
                "correction": name,
                "columns": frame.shape[1],
                "score_one_microseconds": round(ours * 1e3, 1),
                "apply_microseconds": round(theirs / 50 * 1e6),
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def encode_and_search(score, frame, owner, begin):
    """Encode, then use one searchsorted for each pattern."""
    code = encode(frame)
    found = np.empty(len(score), dtype=np.int64)
    for pattern in range(owner[-1] + 1):
        rows = np.flatnonzero(code == pattern)
        found[rows] = np.searchsorted(begin[owner == pattern] / 2**32, score[rows])
    return found


def in_memory(corrections: dict, score, frame: pd.DataFrame) -> list[dict]:
    found = []
    for kind, columns in (("text", frame), ("categorical", frame.astype("category"))):
        for name, correction in corrections.items():
            owner, begin, *_ = correction.maps.pieces()
            row = pairs(
                lambda: correction.apply(score, columns),
                lambda: encode_and_search(score, columns, owner, begin),
            )
            found.append(
                {"correction": name, "columns": kind, "rows": len(score)} | row
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def files(corrections: dict, source: Path, rows: int) -> list[dict]:
    connection = duckdb.connect()
    target, copy = source.with_name("scored.parquet"), source.with_name("copy.parquet")
    query = f"COPY (SELECT *, risk * 0.9 + 0.05 AS corrected FROM '{source}') TO '{copy}' (FORMAT parquet)"
    found = []
    for name, correction in corrections.items():
        row = pairs(
            lambda: score_files(
                correction, [([open_file(source)], target)], score="risk"
            ),
            lambda: connection.execute(query).fetchall(),
        )
        sizes = {
            "megabytes": round(os.path.getsize(target) / 1e6, 1),
            "copy_megabytes": round(os.path.getsize(copy) / 1e6, 1),
        }
        found.append({"correction": name, "rows": rows} | row | sizes)
        print(json.dumps(found[-1]), flush=True)
    return found


def peak_memory(model: Path, source: Path, rows: int) -> dict:
    """The memory of a process that applies a correction to a file, including the
    interpreter.
    """
    out = source.with_name("peak.parquet")
    program = (
        "import sys; from propcal.cli import main\n"
        "try: main(sys.argv[1:])\n"
        # getrusage would include the memory of this process
        "finally: print([line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0])"
    )
    command = [
        "apply",
        str(model),
        str(source),
        "--score",
        "risk",
        "-o",
        str(out),
        "--force",
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        capture_output=True,
        text=True,
        check=True,
    )
    row = {"rows": rows, "peak_megabytes": round(int(done.stdout.split()[-1]) / 1024)}
    print(json.dumps(row), flush=True)
    return row


def engines(correction: Correction, source: Path, rows: int, spark: bool) -> list[dict]:
    """Read a file and sum its corrected scores, compared with reading and correcting it
    in memory.
    """
    import dask.dataframe as dd
    import polars as pl

    def memory():
        table = pq.read_table(source, read_dictionary=["race", "gender", "insurance"])
        return float(correction.apply(table["risk"], table).sum())

    connection = duckdb.connect()
    relation = connection.from_parquet(str(source))
    lazy, partitions = (
        pl.scan_parquet(source),
        dd.read_parquet(source, split_row_groups=8),
    )
    tasks = {
        "pyarrow reader": lambda: sum(
            batch.column("corrected").to_numpy().sum()
            for batch in correction.apply("risk", relation.to_arrow_reader(1 << 17))
        ),
        "polars, streaming": lambda: (
            correction.apply("risk", lazy)
            .select(pl.col("corrected").sum())
            .collect(engine="streaming")
        ),
        "DuckDB relation": lambda: (
            correction.apply("risk", relation).aggregate("sum(corrected)").fetchall()
        ),
        "Dask, threads": lambda: (
            correction.apply("risk", partitions).corrected.sum().compute()
        ),
    }
    if spark:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from sessions import spark_session

        larger = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100000"}
        frame = spark_session("local[2]", **larger).read.parquet(str(source))
        tasks["Spark local[2]"] = lambda: (
            correction.apply("risk", frame).groupBy().sum("corrected").collect()
        )
    found = []
    for name, task in tasks.items():
        found.append({"engine": name, "rows": rows} | pairs(task, memory))
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="10^6 rows")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--one", action="store_true", help="one person at a time alone")
    arguments = parser.parse_args()
    rows = FIT if arguments.one else 1_000_000 if arguments.quick else 10_000_000
    score, y, frame = people(rows, SHAPES[60])
    first = {"sensitive_features": frame[:FIT]}
    corrections = {
        "default": PMCBoost().fit(score[:FIT], y[:FIT], **first).correction_,
        "paper": PMCBoost.paper().fit(score[:FIT], y[:FIT], **first).correction_,
    }
    one = one_person(corrections, score, frame)
    if arguments.one:
        known = json.loads((RESULTS / "scoring.json").read_text())
        (RESULTS / "scoring.json").write_text(
            json.dumps(known | {"one_person": one}, indent=1) + "\n"
        )
        return
    shapes = {
        name: {
            "pieces": c.n_segments,
            "updates": c.n_updates,
            "smooth_start": c.start is not None,
        }
        for name, c in corrections.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        source, tenth = Path(folder) / "people.parquet", Path(folder) / "tenth.parquet"
        table = pa.table(
            {
                **{name: frame[name] for name in frame},
                "risk": score,
                "y": y.astype(np.int8),
            }
        )
        duckdb.connect().from_arrow(table).write_parquet(str(source))
        duckdb.connect().from_arrow(table.slice(0, rows // 10)).write_parquet(
            str(tenth)
        )
        del table
        corrections["default"].save(Path(folder) / "model.json")
        result = {
            "patterns": len(corrections["default"].patterns),
            "corrections": shapes,
            "one_person": one,
            "in_memory": in_memory(corrections, score, frame),
            "parquet_to_parquet": files(corrections, source, rows),
            "memory": [
                peak_memory(Path(folder) / "model.json", tenth, rows // 10),
                peak_memory(Path(folder) / "model.json", source, rows),
            ],
            "engines": engines(
                corrections["default"], source, rows, not arguments.no_spark
            ),
        }
    (RESULTS / "scoring.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
