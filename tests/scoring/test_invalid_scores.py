"""Scores that are missing or no probabilities, and no rows at all: the same in every
engine and file.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from databases import DuckDb, Postgres, Spark, Sqlite
from propcal import PMCBoost
from propcal.cli import main
from propcal.errors import InputError

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

# PySpark warns of the pandas that is installed here; this goes through Arrow
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)
LOCAL = ["pandas", "polars", "lazy", "pyarrow", "batch", "reader", "duckdb"]
REMOTE = [
    pytest.param("dask", marks=[pytest.mark.xdist_group("dask"), pytest.mark.slow]),
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
]
BAD = [None, np.nan, -0.01, 1.0000001, 98.0, np.inf, -np.inf]


@pytest.fixture(scope="module")
def correction(cohort):
    model = PMCBoost.paper().fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    return model.correction_


@pytest.fixture(scope="module")
def people():
    """Every kind of bad score, between good ones; some people have a level that fitting
    never saw.
    """
    good = np.linspace(0, 1, 43)
    risk = [*good, *BAD, *good[::-1], *BAD]
    n = len(risk)
    race = np.resize(["Asian", "White", None, "Martian"], n)
    gender = np.resize(["F", "M", "F"], n)
    columns = {
        "id": np.arange(n),
        "race": race,
        "gender": gender,
        "risk": pd.array(risk, "Float64"),
    }
    return pd.DataFrame(columns)


def arrow(people):
    """With NULL and NaN, which are two things here."""
    raw = [*people.risk.to_numpy(object, na_value=None)]
    return pa.table(
        {
            "id": pa.array(people.id),
            "race": pa.array(people.race, pa.string()),
            "gender": pa.array(people.gender),
            "risk": pa.array(raw, pa.float64()),
        }
    )


def expected(correction, people, mode):
    """From the good rows alone."""
    raw = people.risk.to_numpy(float, na_value=np.nan)
    valid = (raw >= 0) & (raw <= 1)
    found = np.where(mode == "keep", raw, np.nan)
    found[valid] = correction.apply(raw[valid], people[valid])
    return found


def as_numbers(values):
    return np.array(
        [np.nan if value is None else value for value in values], dtype=float
    )


def empty_batch(schema):
    return pa.RecordBatch.from_arrays(
        [pa.array([], kind) for kind in schema.types], schema=schema
    )


def scored(correction, kind, table, request, **options):
    """The ids and corrected scores that an engine gives, in the order of ids."""
    frame = {
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        "pyarrow": lambda: table,
        "batch": lambda: (
            table.combine_chunks().to_batches()[0]
            if len(table)
            else empty_batch(table.schema)
        ),
        "reader": lambda: table.to_reader(7),
        "duckdb": lambda: duckdb.connect().from_arrow(table),
        "dask": lambda: __import__("dask.dataframe").dataframe.from_pandas(
            table.to_pandas(), npartitions=3
        ),
        "spark": lambda: request.getfixturevalue("spark").createDataFrame(table),
    }[kind]()
    if kind == "dask":
        request.getfixturevalue("dask_client")
    found = correction.apply("risk", frame, **options)
    found = {
        "pandas": lambda: found,
        "polars": lambda: found.to_arrow(),
        "lazy": lambda: found.collect().to_arrow(),
        "pyarrow": lambda: found,
        "batch": lambda: found,
        "reader": lambda: found.read_all(),
        "duckdb": lambda: found.to_arrow_table(),
        "dask": lambda: found.compute(),
        "spark": lambda: found.toArrow(),
    }[kind]()
    names = [*found.columns] if kind in ("pandas", "dask") else found.schema.names
    assert names == [*table.column_names, "corrected"]
    if kind not in ("pandas", "dask"):
        there = found["corrected"].drop_null().to_numpy(zero_copy_only=False)
        assert not np.isnan(there).any()  # null is not NaN here
        order = np.argsort(found["id"].to_numpy(zero_copy_only=False))
        return as_numbers(found["corrected"].to_pylist())[order]
    return found.sort_values("id").corrected.to_numpy(float)


@pytest.mark.parametrize("mode", ["null", "keep"])
@pytest.mark.parametrize("kind", [*LOCAL, *REMOTE])
def test_every_engine_does_the_same_with_a_bad_score(
    correction, people, kind, mode, request
):
    found = scored(correction, kind, arrow(people), request, invalid=mode)
    assert np.array_equal(found, expected(correction, people, mode), equal_nan=True)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch"])
def test_bad_scores_are_refused_and_counted_unless_said_otherwise(
    correction, people, kind, request
):
    with pytest.raises(InputError, match=r"4 of \d+ values are missing"):
        scored(correction, kind, arrow(people), request)
    with pytest.raises(
        InputError, match="invalid must be one of 'error', 'null', 'keep'"
    ):
        scored(correction, kind, arrow(people), request, invalid="ignore")


@pytest.mark.parametrize("mode", ["null", "keep"])
def test_arrays_and_estimators(correction, people, cohort, mode):
    raw = people.risk.to_numpy(float, na_value=np.nan)
    want = expected(correction, people, mode)
    assert np.array_equal(
        correction.apply(raw, people, invalid=mode), want, equal_nan=True
    )
    model = PMCBoost.paper().fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )
    assert np.array_equal(
        model.predict(raw, sensitive_features=people, invalid=mode),
        want,
        equal_nan=True,
    )
    with pytest.raises(InputError, match="values are missing"):
        model.predict(raw, sensitive_features=people)
    alone = [
        correction.apply(raw[[i]], people.iloc[[i]], invalid=mode)[0]
        for i in range(40, 60)
    ]
    assert np.array_equal(alone, want[40:60], equal_nan=True)


def test_a_bad_score_of_somebody_unseen_is_not_refused_for_that(correction):
    frame = pd.DataFrame({"race": ["Asian", "Martian"], "gender": ["F", "F"]})
    found = correction.apply([0.2, np.nan], frame, unseen="error", invalid="null")
    assert np.isnan(found).tolist() == [False, True]


@pytest.fixture(
    params=[
        "duckdb",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.xdist_group("postgres")),
        pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
    ]
)
def db(request):
    kinds = {"duckdb": DuckDb, "sqlite": Sqlite}
    if request.param in kinds:
        return kinds[request.param]()
    made = {"postgres": Postgres, "spark": Spark}[request.param]
    return made(request.getfixturevalue(request.param))


@pytest.mark.parametrize("unseen", ["replay", "keep", "error"])
@pytest.mark.parametrize("form", ["lookup", "values"])
@pytest.mark.parametrize("mode", ["null", "keep"])
def test_sql_does_the_same(correction, people, db, form, mode, unseen):
    table = arrow(people)
    raw = people.risk.to_numpy(float, na_value=np.nan)
    valid = (raw >= 0) & (raw <= 1)
    want = np.where(mode == "keep", raw, np.nan)
    policy = "replay" if unseen == "error" else unseen
    want[valid] = correction.apply(raw[valid], people[valid], unseen=policy)
    if unseen == "error":
        want[valid & (people.race == "Martian").to_numpy()] = np.nan
    export = correction.to_sql(
        db.name, score="risk", form=form, invalid=mode, unseen=unseen
    )
    db.load("people", table)
    db.drop("propcal_lookup")
    for statement in export.setup:
        db.run(statement)
    rows = sorted(tuple(row) for row in db.rows(export.query))
    assert np.array_equal(as_numbers([row[-1] for row in rows]), want, equal_nan=True)


def test_sql_cannot_refuse(correction):
    with pytest.raises(InputError, match="a query cannot refuse a row"):
        correction.to_sql(score="risk", invalid="error")
    assert "are returned unchanged" in str(
        correction.to_sql(score="risk", invalid="keep")
    )


@pytest.fixture
def run(capfd, tmp_path, monkeypatch, correction):
    monkeypatch.chdir(tmp_path)
    correction.save("model.json")

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(["apply", "model.json", *arguments, "--score", "risk"])
        out, err = capfd.readouterr()
        assert end.value.code == code, err
        return out, err

    return call


@pytest.mark.parametrize("mode", ["null", "keep"])
@pytest.mark.parametrize("source", ["new.csv", "new.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_files(correction, people, run, mode, source, target, monkeypatch):
    monkeypatch.setattr("propcal.reading.people_files.BATCH_ROWS", 30)
    people.to_csv("new.csv", index=False)
    pq.write_table(arrow(people), "new.parquet")
    _, err = run(source, "-o", target, code=2)
    assert "4 of 100 values are missing" in err
    assert not Path(target).exists()
    out, err = run(source, "-o", target, "--invalid", mode)
    assert "100 rows" in out
    said = (
        "they are returned unchanged"
        if mode == "keep"
        else "their corrected score is missing"
    )
    assert (
        f"propcal: note: column 'risk': 14 of 100 values are missing or outside [0, 1]; {said}\n"
        in err
    )
    assert "'race': 25 of 100 values did not occur in the fitting data" in err
    if target == "out.parquet":
        found = as_numbers(pq.read_table(target)["corrected"].to_pylist())
    else:
        cells = [
            line.rsplit(",", 1)[1] for line in Path(target).read_text().splitlines()[1:]
        ]
        assert "nan" not in cells
        found = as_numbers([float(cell) if cell else None for cell in cells])
    assert np.array_equal(found, expected(correction, people, mode), equal_nan=True)


def test_the_export_command_keeps_too(run, capfd):
    with pytest.raises(SystemExit):
        main(
            [
                "export",
                "model.json",
                "--score",
                "risk",
                "--invalid",
                "keep",
                "--form",
                "values",
            ]
        )
    assert "ELSE CAST(" in capfd.readouterr().out


@pytest.mark.parametrize("kind", [*LOCAL, *REMOTE])
def test_no_rows_give_no_rows_with_the_right_columns(correction, people, kind, request):
    if kind == "spark":
        table = (
            request.getfixturevalue("spark")
            .createDataFrame(arrow(people))
            .where("id < 0")
        )
        found = correction.apply("risk", table)
        assert found.columns == [*people, "corrected"]
        assert found.count() == 0
        return
    assert len(scored(correction, kind, arrow(people).slice(0, 0), request)) == 0


@pytest.mark.parametrize(
    "score",
    [[], np.array([]), pd.Series([], dtype=object), pd.Series([], dtype="Float64")],
)
def test_no_rows_in_arrays(correction, score, cohort):
    frame = pd.DataFrame({"race": [], "gender": []})
    found = correction.apply(score, frame)
    assert (found.shape, found.dtype) == ((0,), np.float64)
    assert len(correction.explain(score, frame)) == 0
    model = PMCBoost().fit(cohort.score, cohort.y)
    assert model.predict(score).shape == (0,)
    with pytest.raises(InputError, match="there are no rows"):
        PMCBoost().fit([], [])


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.parquet"])
@pytest.mark.parametrize("source", ["new.csv", "new.parquet"])
def test_a_file_with_a_header_and_no_rows_gives_another(
    correction, people, run, source, target, tmp_path
):
    people[:0].to_csv("new.csv", index=False)
    pq.write_table(arrow(people).slice(0, 0), "new.parquet")
    out, err = run(source, "-o", target)
    assert (out, err) == (
        f"0 rows with their corrected score in column 'corrected': {target}\n",
        "",
    )
    found = (
        pd.read_parquet(target) if target.endswith("parquet") else pd.read_csv(target)
    )
    assert [*found] == [*people, "corrected"]
    assert len(found) == 0
    for command in ("fit", "audit"):
        with pytest.raises(SystemExit) as end:
            main(
                [
                    command,
                    source,
                    "--score",
                    "risk",
                    "--outcome",
                    "id",
                    "--groups",
                    "race",
                    "-o",
                    "x.json",
                ]
            )
        assert end.value.code == 2
    assert not Path("x.json").exists()


@pytest.mark.parametrize("output", ["all.csv", "all.parquet", "out/"])
def test_parts_without_rows_are_fine_in_any_place(correction, people, run, output):
    good = people[people.risk.between(0, 1)]
    Path("lake").mkdir()
    for name, part in zip("abcd", (good[:0], good[:20], good[:0], good[20:])):
        part.to_csv(f"lake/{name}.csv", index=False)
    out, err = run("lake/*.csv", "-o", output)
    assert f"{len(good)} rows" in out
    assert "'race': 21 of 86 values did not occur in the fitting data" in err
    if output == "out/":
        parts = [pa_csv.read_csv(f"out/{name}.csv").to_pandas() for name in "abcd"]
        assert [len(part) for part in parts] == [0, 20, 0, len(good) - 20]
        found = pd.concat([part for part in parts if len(part)])
    else:
        text = output.endswith(".csv")
        found = pa_csv.read_csv(output).to_pandas() if text else pd.read_parquet(output)
    raw = good.risk.to_numpy(float)
    assert np.array_equal(found.corrected.to_numpy(float), correction.apply(raw, good))
