"""Time for correcting scores with SQL, as a ratio to a plain copy of the same rows, and the size of the SQL.

    python benchmarks/sql.py                            # DuckDB 10^7 rows, SQLite 10^6
    python benchmarks/sql.py postgres --dsn DSN         # 10^6 rows
    python benchmarks/sql.py spark                      # 10^7 rows, beside Correction.apply; on Linux

One correction is large (120 patterns of four attributes), one is small (10 patterns of two), and one is small
and has points; all are default fits. Ratios are those of processor time on DuckDB and Spark, of time
elsewhere: the median of pairs of runs.
Adds its rows to benchmarks/results/sql.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propcal import Correction, Groups, PMCBoost

RESULTS = Path(__file__).parent / "results" / "sql.json"
PAIRS = 3
ROWS = {"duckdb": 10**7, "sqlite": 10**6, "postgres": 10**6, "spark": 10**7}


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "race": rng.choice(["Asian", "Black", "Hispanic", "Other", "White"], n),
            "sex": rng.choice(["F", "M"], n),
            "plan": rng.choice(["free", "Medicare", "Medicaid", "private"], n),
            "age": rng.integers(18, 95, n).astype(float),
            "risk": rng.beta(1.5, 6, n),
        }
    )


def corrections() -> dict[str, Correction]:
    frame = people(60_000, seed=1)
    wrong = np.where(frame["sex"] == "F", 0.7, 1.2) * np.where(
        frame["race"] == "Asian", 1.4, 1
    )
    wrong *= np.where(frame["plan"] == "free", 1.2, 0.9)
    died = np.random.default_rng(2).random(len(frame)) < np.clip(
        frame["risk"] * wrong, 0, 1
    )
    groups = Groups(columns=["race", "sex", "plan"], cuts={"age": [40, 65]})
    large = PMCBoost(groups=groups, gamma=0.01, unseen="error")
    small = PMCBoost(groups=Groups(columns=["race", "sex"]), unseen="error")
    points = PMCBoost(
        groups=Groups(columns=["race", "sex"]), features=["plan", "age"], unseen="error"
    )
    fitted = {"large": large, "small": small, "points": points}
    return {
        name: model.fit(frame["risk"], died, sensitive_features=frame).correction_
        for name, model in fitted.items()
    }


def pairs(ours, theirs, clock) -> tuple[float, float]:
    """Run both once to warm up, then in turn: the median ratio, and the median time of
    ours.
    """
    ours(), theirs()
    times = []
    for _ in range(PAIRS):
        marks = [clock()]
        for task in (ours, theirs):
            task()
            marks.append(clock())
        times.append(np.diff(marks))
    return float(median(a / b for a, b in times)), float(median(a for a, _ in times))


class DuckDb:
    clock = staticmethod(time.process_time)

    def __init__(self, frame: pd.DataFrame, folder: Path) -> None:
        self.run = duckdb.connect().execute
        pq.write_table(
            pa.Table.from_pandas(frame),
            folder / "people.parquet",
            row_group_size=250_000,
        )
        self.run(f"CREATE VIEW people AS SELECT * FROM '{folder}/people.parquet'")
        self.out = folder / "out.parquet"

    def copy(self, query: str) -> None:
        self.run(f"COPY ({query}) TO '{self.out}' (FORMAT parquet)")


class Sqlite:
    clock = staticmethod(time.perf_counter)
    text, number = "TEXT", "REAL"

    def __init__(self, frame: pd.DataFrame, folder: Path) -> None:
        self.run = sqlite3.connect(folder / "people.sqlite").execute
        self.load(frame)

    def load(self, frame: pd.DataFrame) -> None:
        kinds = [
            self.number if kind.kind == "f" else self.text for kind in frame.dtypes
        ]
        self.run(f"CREATE TABLE people ({', '.join(map(' '.join, zip(frame, kinds)))})")
        for row in frame.itertuples(index=False, name=None):
            self.run("INSERT INTO people VALUES (?, ?, ?, ?, ?)", row)

    def copy(self, query: str) -> None:
        self.run("DROP TABLE IF EXISTS out")
        self.run(f"CREATE TABLE out AS {query}")


class Postgres(Sqlite):
    number = "DOUBLE PRECISION"

    def __init__(self, frame: pd.DataFrame, dsn: str) -> None:
        import psycopg

        self.connection = psycopg.connect(dsn, autocommit=True)
        self.run = self.connection.execute
        self.run("DROP TABLE IF EXISTS propcal_lookup, people")
        self.load(frame)
        self.run("VACUUM ANALYZE people")

    def load(self, frame: pd.DataFrame) -> None:
        super().load(frame[:0])
        with self.connection.cursor().copy("COPY people FROM STDIN") as copy:
            for row in frame.itertuples(index=False, name=None):
                copy.write_row(row)


def processor_time() -> float:
    """Of this process and all that it started, such as Java and its workers; on
    Linux.
    """
    parent, ticks = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parent[int(file.parent.name)] = int(words[1])
        ticks[int(file.parent.name)] = sum(map(int, words[11:15]))
    own, more = set(), {os.getpid()}
    while more:
        own |= more
        more = {child for child, its in parent.items() if its in own} - own
    return sum(ticks[one] for one in own) / os.sysconf("SC_CLK_TCK")


class Spark:
    clock = staticmethod(processor_time)

    def __init__(self, frame: pd.DataFrame, folder: Path) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config(
            "spark.ui.enabled", "false"
        )
        builder = builder.config(
            "spark.sql.execution.arrow.maxRecordsPerBatch", "100000"
        )
        self.session = builder.config("spark.driver.memory", "4g").getOrCreate()
        self.run = self.session.sql
        pq.write_table(
            pa.Table.from_pandas(frame),
            folder / "people.parquet",
            row_group_size=250_000,
        )
        self.people = self.session.read.parquet(f"{folder}/people.parquet")
        self.people.createOrReplaceTempView("people")
        self.out = folder / "out.parquet"

    def write(self, frame) -> None:
        frame.write.mode("overwrite").parquet(str(self.out))

    def copy(self, query: str) -> None:
        self.write(self.run(query))


def measure(name: str, database, size: str, model: Correction, n: int) -> list[dict]:
    rows = []
    for form in (
        ("lookup", "values") if size == "small" and name != "spark" else ("lookup",)
    ):
        made = model.to_sql(name, score="risk", form=form)
        if name != "spark":
            database.run("DROP TABLE IF EXISTS propcal_lookup")
        for statement in made.setup:
            database.run(statement)
        ratio, seconds = pairs(
            lambda made=made: database.copy(made.query),
            lambda: database.copy("SELECT * FROM people"),
            database.clock,
        )
        rows.append(
            {
                "database": name,
                "correction": size,
                "how": form,
                "rows": n,
                "patterns": len(made.numbers),
                "lines": len(made.lines),
                "kB": round(len(made.script.encode()) / 1000),
                "ratio": round(ratio, 2),
                "seconds": round(seconds, 2),
            }
        )
        print(rows[-1], flush=True)
    if name == "spark":
        ratio, seconds = pairs(
            lambda: database.write(model.apply("risk", database.people)),
            lambda: database.copy("SELECT * FROM people"),
            database.clock,
        )
        rows.append(
            {
                **rows[-1],
                "how": "apply",
                "ratio": round(ratio, 2),
                "seconds": round(seconds, 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("databases", nargs="*", default=["duckdb", "sqlite"])
    parser.add_argument("--dsn", help="of a PostgreSQL")
    parser.add_argument("--rows", type=int)
    chosen = parser.parse_args()
    fitted = corrections()
    for name in chosen.databases:
        n = chosen.rows or ROWS[name]
        with tempfile.TemporaryDirectory() as folder:
            make = {
                "duckdb": DuckDb,
                "sqlite": Sqlite,
                "postgres": Postgres,
                "spark": Spark,
            }[name]
            database = make(
                people(n, seed=3), chosen.dsn if name == "postgres" else Path(folder)
            )
            rows = [
                row
                for size, model in fitted.items()
                for row in measure(name, database, size, model, n)
            ]
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = [row for row in known if row["database"] != name] + rows
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
