"""One reduction on every engine: the atoms of rows in memory, atom by atom."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hard_rows import PLAIN, ROLES, WORDS, assert_same, hard_table
from paths import TESTS
from propcal import Atoms, Groups
from propcal.errors import InputError
from propcal.reading import engine_frames as engines
from propcal.reading.engine_frames import atoms_of_engine
from propcal.reading.source import NamedColumns


def by_engine(frame, **roles):
    """Through the expressions of engines also where a frame is in memory."""
    return atoms_of_engine(frame, NamedColumns(**roles))


def check_everything(frame, table, *, groups=None, roles=ROLES):
    groups = groups or [Groups(columns=PLAIN), WORDS]
    for kind in groups:
        for role in roles:
            expected = Atoms.from_frame(table, groups=kind, **role)
            assert_same(by_engine(frame, groups=kind, **role), expected)


@pytest.mark.parametrize("engine", ["duckdb", "polars", "pyarrow", "pandas[pyarrow]"])
def test_an_engine_gives_the_atoms_of_rows_in_memory(engine):
    table = hard_table()
    frame = {
        "duckdb": duckdb.connect().from_arrow,
        "polars": lambda t: pl.from_arrow(t).lazy(),
        "pyarrow": lambda t: t,
        "pandas[pyarrow]": lambda t: t.to_pandas(types_mapper=pd.ArrowDtype),
    }[engine](table)
    check_everything(frame, table)


def test_columns_of_numpy_give_the_same_atoms_by_either_way():
    table = hard_table().drop_columns(
        ["nothing", "decimal", "money", "coin", "fee", "flag"]
    )
    frame = table.to_pandas()
    groups = Groups(
        columns=["text", "whole", "small", "real", "ward", "sex"],
        cuts={"age": [18, 40]},
        where={"a": "age > 40 or whole = 2 and sex = true", "b": "ward != ICU"},
    )
    check_everything(
        frame,
        frame,
        groups=[groups],
        roles=[r for r in ROLES if r["score"] != "decimal"],
    )


@pytest.mark.parametrize("types", ["pyarrow", "numpy"])
def test_dask_gives_the_atoms_of_rows_in_memory(dask_client, types):
    import dask.dataframe as dd

    table = hard_table()
    if types == "pyarrow":
        frame = table.to_pandas(types_mapper=pd.ArrowDtype)
        cases = [(Groups(columns=PLAIN), ROLES[:1]), (WORDS, ROLES[5:6])]
    else:
        frame = table.drop_columns(["nothing", "flag", "coin"]).to_pandas()
        words = Groups(
            columns=["text", "whole", "real", "ward", "sex"], cuts={"age": [18, 40]}
        )
        cases = [(words, ROLES[1:2] + ROLES[6:7])]
    for groups, roles in cases:
        check_everything(
            dd.from_pandas(frame, npartitions=3), table, groups=[groups], roles=roles
        )


def test_spark_gives_the_atoms_of_rows_in_memory(spark):
    table = hard_table()
    plain = table.set_column(
        table.schema.get_field_index("small"), "small", table["small"].cast(pa.int16())
    )
    frame = spark.createDataFrame(plain).repartition(3)
    check_everything(frame, table, groups=[Groups(columns=PLAIN)], roles=ROLES[6:7])
    check_everything(frame, table, groups=[WORDS], roles=ROLES[:1])


LENGTHS = pd.to_timedelta([0, 1, 1, 0], unit="ms").tolist()
BAD = {
    "a missing score": (
        "score",
        [0.5, None, float("nan"), 0.1],
        "'score'.*2 of 4 values are missing",
    ),
    "an infinite score": (
        "score",
        [0.5, float("inf"), -float("inf"), 0.1],
        "2 of 4 values are infinite",
    ),
    "percentages": (
        "score",
        [50.5, 99.0, 3.0, 1.0],
        "3 of 4 values are outside that range. If .* percentages",
    ),
    "whole percentages": (
        "score",
        [50, 98, 3, 1],
        "divide them by 100; if they are points",
    ),
    "deciles": (
        "score",
        [1, 10, 3, 7],
        "3 of 4 values .* Whole numbers up to 20 look like points or deciles",
    ),
    "points": (
        "score",
        [0, 20, 13, 7],
        "3 of 4 values .* Whole numbers up to 20 look like points",
    ),
    "log-odds": (
        "score",
        [0.5, -2.1, 3.3, 1.0],
        "2 of 4 values are outside that range. If these are log-odds",
    ),
    "a code": (
        "score",
        [0.5, -1.0, 0.3, 1.0],
        "1 of 4 values is outside .* usually mean missing",
    ),
    "a large code": (
        "score",
        [0.5, 999.0, 0.3, 1.0],
        "1 of 4 values is outside .* usually mean missing",
    ),
    "no idea": (
        "score",
        [0.5, 1234.5, 0.3, 1.0],
        "1 of 4 values is outside that range$",
    ),
    "one negative score": (
        "score",
        [0.5] * 19 + [-0.3],
        "1 of 20 values is outside that range$",
    ),
    "rounding": (
        "score",
        [0.5, 1.0000001, -1e-9, 1.0],
        "2 of 4 values are outside that range. If .* rounding",
    ),
    "a missing outcome": (
        "y",
        [0.0, None, float("nan"), 1.0],
        "'y'.*2 of 4 values are missing",
    ),
    "outcomes 1 and 2": (
        "y",
        [1.0, 2.0, 2.0, 1.0],
        "2 of 4 values are neither. Say which value means",
    ),
    "swapped deciles": (
        "y",
        [1.0, 10.0, 3.0, 7.0],
        "3 of 4 values are neither. Say which value means",
    ),
    "a missing weight": (
        "w",
        [1.0, None, 1.0, float("nan")],
        "'w' must be 0 or more; 2 of 4 .*missing",
    ),
    "an infinite weight": (
        "w",
        [1.0, float("inf"), 1.0, 1.0],
        "1 of 4 values are infinite",
    ),
    "a negative weight": ("w", [1.0, -1.0, 0.0, 1.0], "1 of 4 values are negative"),
    "weights of 0": ("w", [0.0, 0.0, 0.0, 0.0], "all 4 weights are 0"),
    "a huge weight": ("w", [1e16, 1.0, 1.0, 1.0], "cannot be added up"),
    "text": (
        "score",
        ["a", "b", "c", "d"],
        "column 'score' must be numeric; all .*values are text",
    ),
    "a length of time as score": (
        "score",
        LENGTHS,
        "'score' must be numeric; all .*are dates or times",
    ),
    "a length of time as outcome": (
        "y",
        LENGTHS,
        "'y' must be numeric; all .*are dates or times",
    ),
    "a length of time as weight": (
        "w",
        LENGTHS,
        "'w' must be numeric; all .*are dates or times",
    ),
    "lengths of time": ("g", LENGTHS, "'g' holds dates or times"),
    "dates": (
        "g",
        pd.date_range("2020", periods=4).tolist(),
        "'g' holds dates or times",
    ),
    "fractions": (
        "g",
        [0.5, 1.0, 2.0, 3.0],
        "holds 4 different numbers, not all of them whole",
    ),
}


BAD_ON_ENGINES = [
    (trouble, engine)
    for trouble, (_, values, _) in BAD.items()
    for engine in ("memory", "duckdb", "polars", "parquet", "duckdb on parquet")
    if not (
        values is LENGTHS and engine == "duckdb on parquet"
    )  # it reads them as whole numbers
]


@pytest.mark.parametrize(("trouble", "engine"), BAD_ON_ENGINES)
def test_every_engine_says_the_same_of_bad_input(trouble, engine, tmp_path):
    column, values, message = BAD[trouble]
    good = {
        "score": [0.5, 0.25, 0.75, 1.0],
        "y": [0, 1, 0, 1],
        "w": [1, 2, 1, 1],
        "g": ["a", "b", "a", "b"],
    }
    good = {name: own * (len(values) // 4) for name, own in good.items()}
    table = pa.table(good | {column: pa.array(values)})
    frame = {
        "duckdb": duckdb.connect().from_arrow,
        "polars": lambda t: pl.from_arrow(t).lazy(),
    }.get(engine)
    with pytest.raises(InputError, match=message):
        Atoms.from_frame(
            frame(table) if frame else table,
            score="score",
            outcome="y",
            groups="g",
            weight="w",
        )


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_all_troubles_of_a_pass_are_told_at_once(engine):
    nan = float("nan")
    table = pa.table(
        {
            "s": [nan, nan, 1.5, -0.5, 7.0, 0.5, 0.5, 0.5],
            "y": [1.0, nan, 1.0, 9.0, 0.0, nan, 2.0, 1.0],
            "g": ["a", "b"] * 4,
        }
    )
    frame = (
        duckdb.connect().from_arrow(table)
        if engine == "duckdb"
        else pl.from_arrow(table).lazy()
    )
    with pytest.raises(InputError) as error:
        Atoms.from_frame(frame, score="s", outcome="y", groups="g")
    assert str(error.value) == (
        "column 's' must hold probabilities from 0 to 1; 2 of 8 values are missing. Exclude these rows "
        "with drop_missing=True (the report will say how many), or find out why their score is missing; "
        "also, in other rows, column 's': 3 values are outside [0, 1]; column 'y': 1 value is missing, 1 is "
        "outside [0, 1]"
    )


def test_a_hint_is_followed_by_what_else_is_wrong():
    table = pa.table({"s": [50.5, 99.0, 0.5], "y": [1, 0, 2], "g": ["a", "b", "a"]})
    with pytest.raises(
        InputError,
        match=r"divide them by 100; also, in other rows, column 'y': 1 value is out",
    ):
        Atoms.from_frame(
            pl.from_arrow(table).lazy(), score="s", outcome="y", groups="g"
        )


def test_no_row_leaves_its_engine(monkeypatch):
    n, seen = 100_000, []
    rng = np.random.default_rng(0)
    table = pa.table(
        {"s": rng.random(n), "y": rng.integers(0, 2, n), "g": rng.choice(["a", "b"], n)}
    )
    collected = engines.collected
    monkeypatch.setattr(
        engines, "collected", lambda query: seen.append(collected(query)) or seen[-1]
    )
    words = Groups(columns=["g"], cuts={"s": [0.5]}, where={"low": "s < 0.1"})
    for frame in (pl.from_arrow(table).lazy(), duckdb.connect().from_arrow(table)):
        atoms = Atoms.from_frame(
            frame, score="s", outcome="y", groups=words, resolution=2**-4
        )
        assert_same(
            atoms,
            Atoms.from_frame(
                table, score="s", outcome="y", groups=words, resolution=2**-4
            ),
        )
    assert [len(found) for found in seen] == [len(atoms)] * 2


def test_rows_of_weight_zero_are_no_rows_whatever_they_hold():
    table = pa.table(
        {"s": [0.5, None, 7.0], "y": [1, 0, 9], "w": [2, 0, 0], "g": ["a", "b", "c"]}
    )
    atoms = Atoms.from_frame(
        pl.from_arrow(table).lazy(), score="s", outcome="y", groups="g", weight="w"
    )
    assert atoms.to_frame().to_dict("records") == [
        {
            "g": "a",
            "score": 0.5,
            "people": 2,
            "weight": 2,
            "weight_sq": 2,
            "positives": 2,
            "positives_sq": 2,
        }
    ]


def test_an_identifier_is_no_group_on_an_engine_either():
    table = pa.table(
        {
            "s": np.linspace(0, 1, 900),
            "y": [0] * 900,
            "id": [f"p{i}" for i in range(900)],
        }
    )
    with pytest.raises(InputError, match="'id' has 900 different values"):
        Atoms.from_frame(
            pl.from_arrow(table).lazy(), score="s", outcome="y", groups="id"
        )


def test_an_empty_frame_and_a_missing_column_are_told():
    frame = pl.LazyFrame({"s": [0.5], "y": [1], "g": ["a"]})
    with pytest.raises(InputError, match="no column 'race'"):
        Atoms.from_frame(frame, score="s", outcome="y", groups="race")
    with pytest.raises(InputError, match="'s' is empty: there are no rows"):
        Atoms.from_frame(
            frame.filter(pl.col("s") > 1), score="s", outcome="y", groups="g"
        )
    with pytest.raises(InputError, match=r"Atoms.from_files"):
        Atoms.from_frame(frame, score="s", outcome="y", cluster="g")
    with pytest.raises(
        InputError, match="is used by itself but does not contain only true and false"
    ):
        Atoms.from_frame(
            frame, score="s", outcome="y", groups=Groups(columns=[], where={"x": "g"})
        )


@pytest.mark.engines  # a cluster of its own, in another process
@pytest.mark.xdist_group("spark")
def test_an_executor_that_dies_half_way_does_not_change_the_atoms():
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    script = TESTS / "spark_cluster.py"
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert found["killed"] == 1
    assert found["same"] == [True, True]


def part_of_people(number, folder):
    """A part that takes its time, and leaves a mark when it is made."""
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    time.sleep(0.3)
    rng = np.random.default_rng(number)
    return pd.DataFrame(
        {
            "s": rng.random(2000).round(3),
            "y": rng.integers(0, 2, 2000),
            "g": rng.choice(["a", "b"], 2000),
        }
    )


def test_a_worker_that_dies_half_way_does_not_change_the_atoms(dask_client, tmp_path):
    import dask.dataframe as dd

    n_parts = 16
    roles = {"score": "s", "outcome": "y", "groups": "g"}
    for name in ("marks", "other"):
        (tmp_path / name).mkdir()
    marks = tmp_path / "marks"
    meta = part_of_people(0, tmp_path / "other")
    frame = dd.from_map(
        part_of_people, range(n_parts), folder=str(marks), meta=meta[:0]
    )
    victim = next(iter(dask_client.run(os.getpid).values()))

    def kill():
        while len(list(marks.iterdir())) < 5:
            time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = Atoms.from_frame(frame, **roles)
    killer.join()
    dask_client.wait_for_workers(2, timeout=30)
    assert victim not in dask_client.run(os.getpid).values()
    assert len(list(marks.iterdir())) > n_parts  # some parts were made again
    whole = pd.concat([part_of_people(i, tmp_path / "other") for i in range(n_parts)])
    assert_same(found, Atoms.from_frame(whole, **roles))


def test_what_an_engine_cannot_do_is_told_with_the_next_step(monkeypatch):
    roles = {"score": "s", "outcome": "y"}
    engine = duckdb.connect()
    relation = engine.sql("SELECT 0.5 AS s, 1 AS y")
    engine.close()
    with pytest.raises(
        InputError, match="connection of this DuckDB relation is closed"
    ):
        Atoms.from_frame(relation, **roles)
    with pytest.raises(InputError, match=r"Atoms.from_files"):
        Atoms.from_frame("visits.parquet", **roles)
    with pytest.raises(InputError, match="DuckDB relation"):
        Atoms.from_frame(object(), **roles)

    def too_large(*_, **__):
        raise RuntimeError(
            "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize"
        )

    monkeypatch.setattr(nw.LazyFrame, "collect", too_large)
    with pytest.raises(InputError, match=r"resolution=2\*\*-16"):
        Atoms.from_frame(pl.LazyFrame({"s": [0.5], "y": [1]}), **roles)
