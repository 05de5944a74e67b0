"""Time for correcting a million scores with SQL, and the size of the SQL.

python benchmarks/sql.py [DSN of a PostgreSQL]

The correction is a default fit (smooth recalibration) with 14 patterns. Writes benchmarks/results/sql.json.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from propcal import Correction, PMCBoost

N = 1_000_000
ONCE = "SELECT sum(corrected) FROM ({}) AS q"


def correction() -> tuple[Correction, pd.DataFrame]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "race": rng.choice([*"abcdefg"], N),
            "gender": rng.choice(["F", "M"], N),
            "risk": rng.beta(1.5, 6, N),
        }
    )
    part = frame.iloc[:60_000]
    wrong = np.where(part["gender"] == "F", 0.7, 1.2) * np.where(part["race"] == "a", 1.4, 1.0)
    y = rng.random(len(part)) < np.clip(part["risk"] * wrong, 0, 1)
    model = PMCBoost(unseen="error").fit(part["risk"], y, sensitive_features=part[["race", "gender"]])
    return model.correction_, frame


def in_duckdb(frame: pd.DataFrame):
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    return lambda statement: connection.execute(statement).fetchall()


def in_sqlite(frame: pd.DataFrame):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE people (race TEXT, gender TEXT, risk REAL)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?)", frame.itertuples(index=False, name=None))
    return lambda statement: connection.execute(statement).fetchall()


def in_postgres(frame: pd.DataFrame, dsn: str):
    import psycopg

    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("DROP TABLE IF EXISTS propcal_lookup, people")
    connection.execute("CREATE TABLE people (race TEXT, gender TEXT, risk DOUBLE PRECISION)")
    with connection.cursor().copy("COPY people FROM STDIN") as copy:
        for row in frame.itertuples(index=False, name=None):
            copy.write_row(row)
    connection.execute("VACUUM ANALYZE people")
    connection.execute("SET jit = off")  # compiling the long expression takes longer than running it

    def run(statement: str):
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None

    return run


def main() -> None:
    model, frame = correction()
    wanted = float(model.apply(frame["risk"], frame[["race", "gender"]]).sum())
    databases = {"duckdb": in_duckdb(frame), "sqlite": in_sqlite(frame)}
    if len(sys.argv) > 1:
        databases["postgres"] = in_postgres(frame, sys.argv[1])
    rows = []
    for name, run in databases.items():
        for form in ("lookup", "case"):
            made = model.to_sql(name, score="risk", form=form)
            for statement in made.setup:
                run(statement)
            seconds = []
            for _ in range(3):
                begin = time.perf_counter()
                [(total,)] = run(ONCE.format(made.query))
                seconds.append(time.perf_counter() - begin)
            assert abs(total - wanted) < 1e-4, (name, form, total, wanted)
            rows.append(
                {
                    "database": name,
                    "form": form,
                    "patterns": len(made.numbers),
                    "lines": len(made.lines),
                    "kB": round(len(made.script.encode()) / 1000),
                    "seconds": round(min(seconds), 2),
                }
            )
            print(rows[-1], flush=True)
    (Path(__file__).parent / "results" / "sql.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
