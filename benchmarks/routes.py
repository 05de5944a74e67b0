"""The same people by every way to a corrected score: how many scores differ, bit by
bit.

    python benchmarks/routes.py             # 100,000 people, some minutes
    python benchmarks/routes.py --spark     # on Spark as well
    python benchmarks/routes.py --rows 1000

The correction has a smooth start and updates, columns of text and truth values, ranges
of a number and a condition; some values are missing and some levels did not occur in
fitting. Writes benchmarks/results/routes.json."""

from __future__ import annotations

import argparse
import json
import pickle
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from propcal import Correction, Groups, PMCBoost
from propcal.errors import UnknownLevelWarning
from propcal.reading.file_source import open_file
from propcal.scoring.files import score_files

RESULTS = Path(__file__).parent / "results"
FIT = 40_000  # people to fit on
CHUNK = 777
READS = ["race", "icu", "age", "ward"]


def people(n: int, seed: int) -> pd.DataFrame:
    """People with text, truth values and two columns of numbers; many scores have few
    digits or bits.
    """
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 4, n)
    kind = rng.integers(0, 4, n)
    score = np.where(
        kind == 1,
        np.round(score, 2),
        np.where(kind == 2, np.round(score * 64) / 64, score),
    )
    rare = [
        "Asian",
        "Black",
        "White",
        None,
        *([] if seed == 0 else ["007", "TRUE", "1.0"]),
    ]
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "risk": score,
            "race": rng.choice(np.array(rare, dtype=object), n),
            "icu": rng.random(n) < 0.3,
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(36, 190, n) / 2),
            "ward": rng.choice([1.0, 2.0, 2.5, np.nan], n),
        }
    )


def fitted() -> Correction:
    frame = people(FIT, seed=0)
    factor = (
        np.where(frame.icu, 1.5, 0.7)
        * np.where(frame.race == "Asian", 1.3, 1)
        * (0.8 + frame.ward / 10)
    )
    risk = np.clip(frame.risk * factor.fillna(1), 0, 1)
    y = np.random.default_rng(1).random(FIT) < risk
    groups = Groups(
        columns=["race", "icu"],
        cuts={"age": [40, 64.5]},
        where={"west": "ward in [2, 2.5]"},
        intersections=2,
    )
    model = PMCBoost(alpha=0.02, guard=None, groups=groups)
    return model.fit(frame.risk, y, sensitive_features=frame[READS]).correction_


Route = Callable[[], Any]


def in_memory(
    correction: Correction, frame: pd.DataFrame
) -> Iterator[tuple[str, Route]]:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    score, columns = (
        frame.risk.to_numpy(),
        {name: frame[name].to_numpy() for name in READS},
    )
    order = np.random.default_rng(2).permutation(len(frame))

    def alone():
        rows = zip(score, *columns.values())
        return [
            correction.apply([s], dict(zip(READS, ([v] for v in row)))).item()
            for s, *row in rows
        ]

    def permuted():
        found = np.empty(len(frame))
        found[order] = correction.apply(
            score[order], {name: c[order] for name, c in columns.items()}
        )
        return found

    def chunks():
        cuts = range(0, len(frame), CHUNK)
        parts = [frame.iloc[i : i + CHUNK] for i in cuts]
        return np.concatenate(
            [correction.apply(part.risk, part[READS]) for part in parts]
        )

    def saved():
        with tempfile.TemporaryDirectory() as folder:
            correction.save(Path(folder) / "model.json")
            return Correction.load(Path(folder) / "model.json").apply(score, columns)

    def reader():
        parts = correction.apply("risk", table.to_reader(CHUNK))
        return np.concatenate([batch["corrected"].to_numpy() for batch in parts])

    yield "each person alone", alone
    yield "a permuted batch", permuted
    yield (
        "a numpy array of objects",
        lambda: correction.apply(score, frame[READS].to_numpy(dtype=object)),
    )
    yield "pandas", lambda: correction.apply("risk", frame)["corrected"]
    yield (
        "pandas, categories",
        lambda: correction.apply(score, frame[READS].astype("category")),
    )
    yield "polars", lambda: correction.apply("risk", pl.from_pandas(frame))["corrected"]
    yield (
        "lazy polars",
        lambda: correction.apply("risk", pl.from_pandas(frame).lazy()).collect()[
            "corrected"
        ],
    )
    yield "pyarrow", lambda: correction.apply("risk", table)["corrected"]
    yield "a reader of batches", reader
    yield f"chunks of {CHUNK}", chunks
    yield (
        "Decimal scores",
        lambda: correction.apply([Decimal(repr(float(s))) for s in score], columns),
    )
    yield (
        "a pickled correction",
        lambda: pickle.loads(pickle.dumps(correction)).apply(score, columns),
    )
    yield "a saved correction", saved


def files(
    correction: Correction, frame: pd.DataFrame, folder: Path
) -> Iterator[tuple[str, Route]]:
    def scored(name: str) -> Any:
        out = folder / f"{name}.out.parquet"
        score_files(correction, [([open_file(folder / name)], out)], score="risk")
        return pq.read_table(out)["corrected"]

    frame.to_csv(folder / "people.csv", index=False)
    frame.to_parquet(folder / "people.parquet", index=False)
    yield "a CSV file", lambda: scored("people.csv")
    yield "a Parquet file", lambda: scored("people.parquet")


def databases(
    correction: Correction, frame: pd.DataFrame
) -> Iterator[tuple[str, Route]]:
    duck, lite = duckdb.connect(), sqlite3.connect(":memory:")
    duck.register("frame", frame)
    duck.execute("CREATE TABLE people AS SELECT * FROM frame")
    lite.execute(
        "CREATE TABLE people (id INTEGER, risk REAL, race TEXT, icu INTEGER, age REAL, ward REAL)"
    )
    rows = (
        frame.astype(object)
        .where(frame.notna(), None)
        .itertuples(index=False, name=None)
    )
    lite.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)

    def relation():
        return [
            row[-1]
            for row in sorted(correction.apply("risk", duck.table("people")).fetchall())
        ]

    def by_sql(connection: Any, dialect: str, form: str) -> Any:
        types = {"icu": "boolean"} if dialect == "sqlite" else None  # which has 1 and 0
        made = correction.to_sql(dialect, score="risk", form=form, types=types)
        for statement in made.setup:
            connection.execute(statement)
        query = f"SELECT id, corrected FROM ({made.query}) AS scored ORDER BY id"
        return [row[1] for row in connection.execute(query).fetchall()]

    yield "a DuckDB relation", relation
    for dialect, connection in (("duckdb", duck), ("sqlite", lite)):
        for form in ("lookup", "values"):
            title = {"duckdb": "DuckDB", "sqlite": "SQLite"}[dialect]
            yield (
                f"SQL on {title}, {form}",
                lambda c=connection, d=dialect, f=form: by_sql(c, d, f),
            )


def engines(
    correction: Correction, frame: pd.DataFrame, *, spark: bool
) -> Iterator[tuple[str, Route]]:
    import dask.dataframe as dd

    def on_dask():
        return correction.apply("risk", dd.from_pandas(frame, npartitions=7))[
            "corrected"
        ].compute()

    yield "Dask", on_dask
    if not spark:
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from sessions import spark_session

    session = spark_session("local[2]")
    table = session.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))

    def on_spark():
        rows = (
            correction.apply("risk", table)
            .select("id", "corrected")
            .toArrow()
            .sort_by("id")
        )
        return rows["corrected"]

    yield "Spark", on_spark


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UnknownLevelWarning)
    correction, frame = fitted(), people(arguments.rows, seed=3)
    about = {
        "rows": len(frame),
        "patterns": len(correction.patterns),
        "pieces": correction.n_segments,
        "updates": correction.n_updates,
        "smooth_start": correction.start is not None,
    }
    print(json.dumps(about), flush=True)
    expected = correction.apply(
        frame.risk.to_numpy(), {name: frame[name].to_numpy() for name in READS}
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for routes in (
            in_memory(correction, frame),
            files(correction, frame, Path(folder)),
            databases(correction, frame),
            engines(correction, frame, spark=arguments.spark),
        ):
            for name, route in routes:
                began = time.perf_counter()
                scores = np.asarray(route(), dtype=np.float64)
                different = int(
                    np.count_nonzero(scores.view(np.int64) != expected.view(np.int64))
                )
                found.append({"route": name, "different": different})
                print(
                    f"{different:7,} of {len(scores):,} differ: {name} ({time.perf_counter() - began:.1f} s)"
                )
                sys.stdout.flush()
    (RESULTS / "routes.json").write_text(
        json.dumps(about | {"routes": found}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
