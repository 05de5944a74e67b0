"""A person's level depends on that person's cell alone: in memory, in files, in engines
and in SQL.
"""

import json
import sqlite3
import uuid
import warnings
from dataclasses import replace
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from propcal import Atoms, Correction, PMCBoost
from propcal.errors import InputError, UnknownLevelWarning
from propcal.reading.levels import level_key
from sql_corrections import score_in

SAME = [
    [
        "1",
        1,
        1.0,
        "1.0",
        "1.00",
        "1.",
        " 1 ",
        Decimal("1.000"),
        np.int8(1),
        np.float32(1),
        b"1.0",
    ],
    ["true", True, "True", "TRUE", "tRuE", " true", np.True_, b"TRUE"],
    ["false", False, "False", "FALSE"],
    ["0", 0, 0.0, -0.0, "-0", "-0.0", "0.000", Decimal("-0")],
    ["-2.5", -2.5, "-2.50", Decimal("-2.5"), np.float32(-2.5)],
    ["0.1", 0.1, "0.10", np.float32(0.1), Decimal("0.1")],
    ["10000000", 10**7, 1e7, "10000000.0", Decimal("1E+7")],
]
TEXTS = [
    "007",
    "02139",
    "1e5",
    "+1",
    ".5",
    "1..0",
    "1,0",
    "-",
    "",
    "nan",
    "None",
    "yes",
    "A ",
    " A",
    "Ⅷ",
    "\u00a01",
    "1\u2003",
    "\u00a0true",
    "1\t",
    "١",
]


def test_what_means_the_same_is_one_level():
    for key, *values in SAME:
        assert {level_key(value) for value in [key, *values]} == {key}


def test_everything_else_stays_the_text_it_is():
    assert [level_key(text) for text in TEXTS] == TEXTS
    assert [
        level_key(value) for value in (None, float("nan"), pd.NA, pd.NaT, np.nan)
    ] == [None] * 5


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InputError, match="not UTF-8 text"):
        level_key(b"\xff\xfe")


CELLS = st.sampled_from(
    [
        value
        for values in SAME[:5]
        for value in values
        if not isinstance(value, (bytes, np.generic))
    ]
    + [text for text in TEXTS if text not in ("", "nan", "None")]
    + ["Asian", "White", None]
)


@pytest.fixture(scope="module")
def correction():
    """A correction that knows some levels of one attribute and a condition on
    another.
    """
    rng = np.random.default_rng(5)
    n = 4000
    levels = ["1", "true", "0", "-2.5", "0.1", "007", "Asian", "1e5", None]
    race = rng.choice(np.array(levels, dtype=object), n)
    score = rng.random(n)
    keys = sorted(set(race[race != None]))  # noqa: E711
    risk = np.clip(
        score * (0.4 + 0.2 * np.array([keys.index(r) if r else 8 for r in race]) / 2),
        0,
        1,
    )
    frame = pd.DataFrame({"race": race, "flag": race})
    model = PMCBoost.paper(alpha=0.05, groups=_groups())
    return model.fit(score, rng.random(n) < risk, sensitive_features=frame).correction_


def _groups():
    from propcal import Groups

    return Groups(
        columns=["race"],
        where={"one": "flag = 1", "code": "flag in ['007', '1e5', Asian]"},
    )


def patterns(correction, values):
    """The corrected scores of one person per cell, all scored 0.3, each on its own."""
    return [
        correction.apply([0.3], {"race": cell(value), "flag": cell(value)}).item()
        for value in values
    ]


def cell(value):
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(values=st.lists(CELLS, min_size=2, max_size=12), seed=st.integers(0, 99))
def test_a_cell_means_the_same_alone_in_a_batch_and_in_any_order(
    correction, values, seed
):
    alone = patterns(correction, values)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    score = np.full(len(values), 0.3)
    order = np.random.default_rng(seed).permutation(len(values))
    for column in (objects, list(values), pd.Series(values, dtype=object)):
        frame = {"race": column, "flag": column}
        assert correction.apply(score, frame).tolist() == alone
    shuffled = {"race": objects[order], "flag": objects[order]}
    assert correction.apply(score, shuffled).tolist() == [alone[i] for i in order]
    frame = pd.DataFrame({"risk": score, "race": objects, "flag": objects})
    assert correction.apply("risk", frame)["corrected"].tolist() == alone


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(values=st.lists(CELLS, min_size=2, max_size=10))
def test_a_cell_means_the_same_in_files_engines_and_databases(
    correction, databases, values, tmp_path
):
    texts = [None if value is None else str(value) for value in values]
    alone = patterns(correction, texts)
    frame = pd.DataFrame({"risk": 0.3, "race": texts, "flag": texts}, dtype=object)
    frame["risk"] = frame["risk"].astype(float)
    table = pa.table({name: pa.array(frame[name], from_pandas=True) for name in frame})
    encoded = [None if text is None else text.encode() for text in texts]
    binary = table.set_column(1, "race", pa.array(encoded, pa.binary())).set_column(
        2, "flag", pa.array(encoded, pa.binary())
    )
    relation = duckdb.from_arrow(table)
    found = {
        "pyarrow": correction.apply("risk", table)["corrected"].to_pylist(),
        "bytes": correction.apply("risk", binary)["corrected"].to_pylist(),
        "polars": correction.apply("risk", pl.from_arrow(table))["corrected"].to_list(),
        "lazy": correction.apply("risk", pl.from_arrow(table).lazy())
        .collect()["corrected"]
        .to_list(),
        "duckdb": [row[-1] for row in correction.apply("risk", relation).fetchall()],
        **{
            f"{name} SQL": _by_sql(*database, texts)
            for name, database in databases.items()
        },
        "csv": _by_file(correction, table, tmp_path / "people.csv"),
        "parquet": _by_file(correction, table, tmp_path / "people.parquet"),
        "binary parquet": _by_file(correction, binary, tmp_path / "binary.parquet"),
    }
    for route, scores in found.items():
        assert scores == alone, route


@pytest.fixture(scope="module")
def databases(correction):
    """DuckDB and SQLite with the lookup table of the correction, and its query."""
    made = {
        dialect: correction.to_sql(dialect=dialect, score="risk")
        for dialect in ("duckdb", "sqlite")
    }
    connections = {"duckdb": duckdb.connect(), "sqlite": sqlite3.connect(":memory:")}
    for dialect, export in made.items():
        for statement in export.setup:
            connections[dialect].execute(statement)
    return {
        dialect: (connections[dialect], export.query)
        for dialect, export in made.items()
    }


def _by_sql(connection, query, texts):
    kind = "VARCHAR" if isinstance(connection, duckdb.DuckDBPyConnection) else "TEXT"
    connection.execute("DROP TABLE IF EXISTS people")
    connection.execute(
        f"CREATE TABLE people (id INTEGER, risk DOUBLE, race {kind}, flag {kind})"
    )
    rows = [(i, 0.3, text, text) for i, text in enumerate(texts)]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    return [row[-1] for row in sorted(connection.execute(query).fetchall())]


NAN, ENDLESS = float("nan"), float("inf")
COLUMNS = {
    "text": (
        pa.string(),
        [
            "1.0",
            " 1",
            "TRUE",
            "-0",
            "-2.50",
            "0.1",
            "007",
            "1e5",
            "1E5",
            "Asian",
            "asian ",
            "\u00a01",
            None,
        ],
    ),
    "double": (
        pa.float64(),
        [1.0, 0.0, -0.0, -2.5, 0.1, 7.0, 1e5, 1e22, 5e-324, ENDLESS, NAN, None],
    ),
    "single": (
        pa.float32(),
        [1.0, -0.0, -2.5, np.float32(0.1), 1e5, 16777216.0, ENDLESS, NAN, None],
    ),
    "whole": (pa.int64(), [1, 0, -2, 7, 10**5, 2**63 - 1, None]),
    "decimal": (
        pa.decimal128(12, 3),
        [*map(Decimal, ("1.000", "0", "-2.5", "0.1", "7")), None],
    ),
    "truth": (pa.bool_(), [True, False, None]),
}


def people_of(kind, cells):
    """People who are all scored 0.3, with two columns of one kind."""
    column = pa.array(cells, COLUMNS[kind][0], from_pandas=False)
    score = np.full(len(cells), 0.3)
    return pa.table(
        {"id": np.arange(len(cells)), "risk": score, "race": column, "flag": column}
    )


@pytest.mark.parametrize("kind", COLUMNS)
@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_cell_means_the_same_in_a_column_of_any_kind(
    correction, kind, data, tmp_path
):
    cells = data.draw(
        st.lists(st.sampled_from(COLUMNS[kind][1]), min_size=2, max_size=12)
    )
    table = people_of(kind, cells)
    without_nan = [
        cell if cell == cell else None for cell in cells
    ]  # it would be written as a text
    relation = duckdb.from_arrow(table)
    found = {
        "pyarrow": correction.apply("risk", table)["corrected"].to_pylist(),
        "pandas": correction.apply("risk", table.to_pandas())["corrected"].tolist(),
        "polars": correction.apply("risk", pl.from_arrow(table))["corrected"].to_list(),
        "lazy": correction.apply("risk", pl.from_arrow(table).lazy())
        .collect()["corrected"]
        .to_list(),
        "duckdb": [row[-1] for row in correction.apply("risk", relation).fetchall()],
        "csv": _by_file(
            correction, people_of(kind, without_nan), tmp_path / "people.csv"
        ),
        "parquet": _by_file(correction, table, tmp_path / "people.parquet"),
    }
    alone = patterns(correction, cells)
    for route, scores in found.items():
        assert scores == alone, route


@pytest.mark.parametrize("kind", COLUMNS)
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_cell_means_the_same_in_every_database(correction, db, kind, data):
    if (db.name, kind) == ("sqlite", "single"):
        pytest.skip("SQLite keeps no numbers of single precision")
    cells = data.draw(st.permutations(COLUMNS[kind][1]))
    # SQLite keeps truth values as 1 and 0, so it must be told
    types = (
        {"race": "boolean", "flag": "boolean"}
        if (db.name, kind) == ("sqlite", "truth")
        else None
    )
    export = correction.to_sql(db.name, score="risk", types=types)
    assert score_in(db, export, people_of(kind, cells))[1] == patterns(
        correction, cells
    )


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
@pytest.mark.parametrize("kind", COLUMNS)
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_cell_means_the_same_on_spark(correction, spark, kind, data):
    cells = data.draw(st.permutations(COLUMNS[kind][1]))
    scored = correction.apply("risk", spark.createDataFrame(people_of(kind, cells)))
    assert [row["corrected"] for row in sorted(scored.collect())] == patterns(
        correction, cells
    )


@pytest.mark.parametrize("kind", COLUMNS)
@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_cell_means_the_same_on_dask(correction, dask_client, kind, data):
    dask_frames = pytest.importorskip("dask.dataframe")
    cells = data.draw(st.permutations(COLUMNS[kind][1]))
    frame = dask_frames.from_pandas(people_of(kind, cells).to_pandas(), npartitions=2)
    assert correction.apply("risk", frame)["corrected"].compute().tolist() == patterns(
        correction, cells
    )


def _by_file(correction, table, path):
    import pyarrow.csv
    import pyarrow.parquet

    from propcal.reading.file_source import open_file
    from propcal.scoring.files import score_files

    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path, store_schema=False)
    out = path.with_suffix(".out.parquet")
    score_files(correction, [([open_file(path)], out)], score="risk")
    return pyarrow.parquet.read_table(out)["corrected"].to_pylist()


def test_one_odd_cell_changes_nobody_else(tmp_path):
    """Fitted on a column of truth values, a file with one "Unknown" more is scored as
    before.
    """
    rng = np.random.default_rng(2)
    n = 600
    icu = rng.random(n) < 0.4
    frame = pd.DataFrame({"risk": rng.random(n), "icu": icu})
    frame["y"] = (
        rng.random(n) < np.clip(frame.risk * np.where(icu, 1.5, 0.6), 0, 1)
    ).astype(int)
    model = PMCBoost.paper().fit(frame.risk, frame.y, sensitive_features=frame[["icu"]])
    expected = model.predict(frame.risk, sensitive_features=frame[["icu"]])
    odd = pd.DataFrame({"risk": [0.5], "icu": ["Unknown"], "y": [0]})
    mixed = pd.concat([frame.astype({"icu": object}), odd], ignore_index=True)
    with pytest.warns(
        UnknownLevelWarning, match="'icu': 1 of 601 values did not occur"
    ):
        found = model.predict(mixed.risk, sensitive_features=mixed[["icu"]])
    assert found[:-1].tolist() == expected.tolist()
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    frame.to_csv(tmp_path / "clean.csv", index=False)
    names = {"score": "risk", "outcome": "y", "groups": ["icu"]}
    parts = [
        Atoms.from_files(tmp_path / name, **names)
        for name in ("clean.csv", "mixed.csv")
    ]
    both = Atoms.from_files([tmp_path / "clean.csv", tmp_path / "mixed.csv"], **names)
    assert (parts[0] + parts[1]).fingerprint() == both.fingerprint()
    assert both.patterns.levels == (("Unknown", "false", "true"),)


@pytest.mark.filterwarnings("ignore:.*only in case or spaces:UserWarning")
def test_a_blank_that_is_no_space_is_part_of_a_text_in_a_csv_too(tmp_path):
    """As it is beside other texts, so that it does not depend on the other rows."""
    rows = [("\u00a01", 0), ("2", 1), ("1", 1), (" 2 ", 0)]
    lines = [f"{i / 8},{y},{cell}" for i, (cell, y) in enumerate(rows)]
    for name, more in (("clean.csv", []), ("mixed.csv", ["0.75,1,x"])):
        (tmp_path / name).write_text(
            "\n".join(["s,y,g", *lines, *more]), encoding="utf-8"
        )
        atoms = Atoms.from_files(tmp_path / name, score="s", outcome="y", groups=["g"])
        assert {*atoms.patterns.levels[0]} == {
            "1",
            "2",
            "\u00a01",
            *(["x"] if more else []),
        }


LONG = [
    "1.5000000000000000000001",
    "9007199254740993.0",
    "9007199254740993",
    "2020-01-01T00:00:00",
    "2020-01-01 00:00:00",
    "2020-01-01",
    "0.1",
    "0.30000000000000004",
    "0.00001",
    " 12.50",
    "1e5",
    "-1.0",
    "TRUE",
]


@pytest.mark.parametrize("text", LONG)
def test_a_cell_of_a_csv_means_its_text_alone_and_beside_others(text, tmp_path):
    from propcal.reading.file_source import open_file
    from propcal.scoring.files import score_files

    known = knowing(["x", "1", level_key(text)])
    for others in ([], ["x"], ["1.25"], ["2024-05-31"]):
        path, out = tmp_path / "people.csv", tmp_path / "scored.csv"
        path.write_text(
            "\n".join(["s,g", *(f'0.5,"{cell}"' for cell in [text, *others])])
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownLevelWarning)
            score_files(known, [([open_file(path)], out)], score="s")
        assert float(pd.read_csv(out).corrected[0]) == 0.5 + 3 / 64, others
        out.unlink()


@pytest.mark.parametrize("text", [text for text in LONG if not text.startswith("2020")])
def test_a_cell_of_a_csv_is_fitted_as_it_is_scored(text, tmp_path):
    for others in ([], ["x"], ["12"]):
        path = tmp_path / "people.csv"
        rows = [
            f'0.{i},{i % 2},"{cell}"'
            for i, cell in enumerate([text] * 9 + others, start=1)
        ]
        path.write_text("\n".join(["s,y,g", *rows]))
        try:
            atoms = Atoms.from_files(path, score="s", outcome="y", groups=["g"])
        except InputError as error:
            assert "not all of them whole" in str(error)  # noqa: PT017
        else:
            assert {*atoms.patterns.levels[0]} == {level_key(text), *others}


def test_a_number_that_means_missing_does_so_beside_texts_too(tmp_path):
    for more in ("", "0.5,1,x\n"):
        (tmp_path / "p.csv").write_text(
            f"s,y,g\n0.1,0,-9\n0.2,1,-9.0\n0.3,1, -9.00\n0.4,0,1\n{more}"
        )
        atoms = Atoms.from_files(
            tmp_path / "p.csv", score="s", outcome="y", groups=["g"], na=["-9"]
        )
        assert {*atoms.patterns.levels[0]} == {None, "1", *(["x"] if more else [])}


def knowing(levels):
    """A correction that adds 1/64 for the first of these levels, 2/64 for the second,
    and so on.
    """
    content = {
        "format": "propcal-correction",
        "version": 3,
        "unit": "2**-32",
        "about": {},
        "attributes": ["g"],
        "derived": {},
        "bins": {"kind": "uniform", "divisor": 1, "edges": [0, 1 << 32]},
        "groups": [[["g", level]] for level in levels],
        "patterns": [[level] for level in dict.fromkeys(levels)],
        "unseen": "replay",
        "start": [],
        "updates": [[i, 0, (i + 1) << 26] for i in range(len(levels))],
    }
    return Correction.from_json(json.dumps(content))


@pytest.mark.parametrize("form", ["lookup", "values"])
def test_decimals_and_large_numbers_have_all_their_digits_in_duckdb(form):
    values = {
        "9007199254740993": "9007199254740993::DECIMAL(18,0)",
        "1.5000000000000000000001": "1.5000000000000000000001::DECIMAL(38,22)",
        "0.1": "0.1::DECIMAL(5,3)",
        "0": "0::DECIMAL(5,3)",
        "1000000000000000000000": "1e21::DOUBLE",
        "1.5": "1.5::DOUBLE",
        "9007199254740992": "9007199254740992::DOUBLE",
    }
    export = knowing(values).to_sql("duckdb", score="s", form=form)
    with duckdb.connect() as connection:
        for statement in export.setup:
            connection.execute(statement)
        for place, value in enumerate(values.values(), start=1):
            connection.execute(
                f"CREATE OR REPLACE TABLE people AS SELECT 0.5::DOUBLE AS s, {value} AS g"
            )
            assert (
                connection.execute(export.query).fetchone()[-1] == 0.5 + place / 64
            ), value


def test_text_that_spells_a_number_is_cut_and_compared_alike_in_duckdb_and_sqlite():
    content = json.loads(knowing(["65 or over", "under 65", None]).to_json()) | {
        "about": {}
    }
    content["attributes"], content["derived"] = (
        ["age"],
        {"age": {"column": "age", "cuts": [65.0]}},
    )
    content["groups"] = [[["age", level]] for level in ("65 or over", "under 65", None)]
    cuts = Correction.from_json(json.dumps(content))
    content["attributes"], content["derived"] = ["old"], {"old": {"where": "age >= 65"}}
    content["groups"] = [[["old", level]] for level in ("true", "false")]
    content["patterns"], content["updates"] = (
        [["true"], ["false"]],
        content["updates"][:2],
    )
    test = Correction.from_json(json.dumps(content))
    ages = ["80", " 80.5 ", "64.99", "7e1", None, "9007199254740993"]
    expected = {"cuts": [1, 1, 2, 1, 3, 1], "test": [1, 1, 2, 1, 2, 1]}
    for name, correction in {"cuts": cuts, "test": test}.items():
        for dialect, engine in (("duckdb", duckdb), ("sqlite", sqlite3)):
            connection = engine.connect(":memory:")
            connection.execute("CREATE TABLE people (id INTEGER, s TEXT, age TEXT)")
            connection.executemany(
                "INSERT INTO people VALUES (?, ?, ?)",
                [(i, "0.5", age) for i, age in enumerate(ages)],
            )
            export = correction.to_sql(dialect, score="s", form="values")
            found = [row[-1] for row in connection.execute(export.query).fetchall()]
            assert found == [0.5 + place / 64 for place in expected[name]], (
                name,
                dialect,
            )
            connection.close()
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE people (s TEXT, age TEXT)")
    connection.execute("INSERT INTO people VALUES ('0.5', '80 years'), ('half', '80')")
    query = cuts.to_sql("sqlite", score="s", form="values").query
    assert [row[-1] for row in connection.execute(query).fetchall()] == [
        0.5 + 3 / 64,
        None,
    ]
    connection.close()


def test_unknown_levels_are_counted_from_the_first_row_on(correction):
    with pytest.warns(
        UnknownLevelWarning, match="'race': the value did not occur in the fitting data"
    ) as told:
        correction.apply([0.3], {"race": ["Martian"], "flag": ["x"]})
    assert not any("Martian" in str(warning.message) for warning in told)


def test_a_decimal_score_is_the_same_alone_and_in_a_batch(correction):
    rng = np.random.default_rng(3)
    scores = [
        Decimal(int(rng.integers(10**17))).scaleb(-17 + int(rng.integers(0, 9)))
        for _ in range(300)
    ]
    scores = [score for score in scores if score <= 1]
    frame = {"race": ["Asian"] * len(scores), "flag": ["x"] * len(scores)}
    batch = correction.apply(scores, frame)
    alone = [
        correction.apply([score], {"race": ["Asian"], "flag": ["x"]}).item()
        for score in scores
    ]
    assert batch.tolist() == alone
    plain = correction.apply([float(score) for score in scores], frame)
    assert batch.tolist() == plain.tolist()


def test_atoms_of_older_files_get_the_levels_of_today(tmp_path):
    frame = pd.DataFrame(
        {"s": [0.1, 0.1, 0.2, 0.3], "y": [1, 0, 1, 0], "icu": ["a", "b", "c", "c"]}
    )
    atoms = Atoms.from_frame(frame, score="s", outcome="y", groups=["icu"])
    old = replace(
        atoms, patterns=replace(atoms.patterns, levels=(("1.0", "TRUE", "true"),))
    )
    old.save(tmp_path / "old.parquet")
    loaded = Atoms.load(tmp_path / "old.parquet")
    today = Atoms.from_frame(
        frame.assign(icu=["1", True, True, True]),
        score="s",
        outcome="y",
        groups=["icu"],
    )
    assert loaded.fingerprint() == today.fingerprint()


@pytest.mark.parametrize("version", [1, 2])
def test_corrections_of_older_versions_score_clean_columns_as_they_did(version):
    levels = ["TRUE", "FALSE"]
    content = {
        "format": "propcal-correction",
        "version": version,
        "unit": "2**-32",
        "about": {"method": "PMCBoost"},
        "attributes": ["icu"],
        "derived": {},
        "bins": {"kind": "uniform", "divisor": 1, "edges": [0, 1 << 32]},
        "groups": [[["icu", "TRUE"]], [["icu", "FALSE"]]],
        "patterns": [[level] for level in levels],
        "unseen": "replay",
        "updates": [[0, 0, 1 << 30], [1, 0, -(1 << 30)]],
    }
    content |= {} if version == 1 else {"start": []}
    old = Correction.from_json(json.dumps(content))
    for column in (["TRUE", "FALSE"], ["true", "false"], [True, False]):
        assert old.apply([0.5, 0.5], {"icu": column}).tolist() == [0.75, 0.25]


class Code:
    """A value of a type that no library knows."""

    def __str__(self):
        return "x7"


ODD = {
    "18446744073709551616": 2**64,
    "9223372036854775808": 2**63,
    "inf": Decimal("Infinity"),
    "-inf": Decimal("-Infinity"),
    None: Decimal("sNaN"),
    "00000000-0000-0000-0000-000000000001": uuid.UUID(int=1),
    "2020-01-01": np.datetime64("2020-01-01"),
    "b7": bytearray(b"b7"),
    "b8": memoryview(b"b8"),
    "x7": Code(),
    "1e+1000000": Decimal("1E+1000000"),
}


@pytest.mark.parametrize("level", ODD, ids=str)
def test_an_odd_object_is_the_level_of_its_text_alone_and_in_a_batch(level):
    value, known = ODD[level], knowing(["x", "true", level])
    for others in ([], ["x"], [True, None], [2.5, "x"], [value]):
        array = np.fromiter([value, *others], dtype=object)
        frames = {"list": {"g": list(array)}, "array": {"g": array}}
        frames["pandas"] = pd.DataFrame({"g": pd.Series(array, dtype=object)})
        frames["polars"] = pl.DataFrame({"g": pl.Series(list(array), dtype=pl.Object)})
        for name, frame in frames.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownLevelWarning)
                found = known.apply([0.5] * len(array), frame)
            assert found[0] == 0.5 + 3 / 64, (name, others)
    assert known.score_one(0.5, g=value) == 0.5 + 3 / 64


def test_numbers_of_half_precision_and_of_128_bits_are_levels_like_others():
    known = knowing(["0.1", "1"])
    half = np.array([0.1, 1], dtype=np.float16)
    frames = [
        {"g": half},
        pd.DataFrame({"g": half}),
        pa.table({"g": half}),
        {"g": list(half)},
    ]
    for frame in frames:
        assert known.apply([0.5, 0.5], frame).tolist() == [0.5 + 1 / 64, 0.5 + 2 / 64]
    wide = pl.DataFrame({"g": pl.Series([1, 1], dtype=pl.Int128)})
    assert known.apply([0.5, 0.5], wide).tolist() == [0.5 + 2 / 64] * 2
