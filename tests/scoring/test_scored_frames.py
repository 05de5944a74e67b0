"""`Correction.apply` on frames of every engine: the same frame, one more column,
numpy's numbers.
"""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from paths import TESTS
from propcal import Correction, Groups, PMCBoost
from propcal.core.correction.smooth_map import knots
from propcal.core.grid import UNIT, from_grid
from propcal.errors import InputError, UnseenError

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

LOCAL = [
    "pandas",
    "pandas[pyarrow]",
    "polars",
    "lazy",
    "streaming",
    "pyarrow",
    "batch",
    "reader",
    "duckdb",
]


@pytest.fixture(scope="module")
def fitted(cohort):
    """A smooth start, updates, plain columns, ranges and a condition."""
    groups = Groups(
        columns=["race", "gender"],
        cuts={"age": [40, 65]},
        where={"frail": "age >= 75 and gender = F"},
    )
    frame = cohort[["race", "gender"]].assign(age=np.arange(len(cohort)) % 90)
    model = PMCBoost(guard=None, alpha=0.1, gamma=0.02, groups=groups)
    correction = model.fit(cohort.score, cohort.y, sensitive_features=frame).correction_
    assert correction.start is not None
    assert len(correction.updates) > 20
    return correction


@pytest.fixture(scope="module")
def people(fitted):
    """Scores at each breakpoint and one unit either side; patterns known, unseen and
    with missing levels.
    """
    every = np.concatenate(
        [fitted.maps.pieces()[1], fitted.bins.edges, knots(), [0, UNIT]]
    )
    rng = np.random.default_rng(0)
    parts = []
    for race, gender, age in [
        ("Asian", "F", 80), ("White", "M", 40), (None, "F", 64), ("Martian", "F", 39), ("Black", None, None)
    ]:  # fmt: skip
        units = np.unique(
            np.clip(np.concatenate([every - 1, every, every + 1]), 0, UNIT)
        )
        parts.append(
            pd.DataFrame(
                {"risk": from_grid(units), "race": race, "gender": gender, "age": age}
            )
        )
    frame = pd.concat(parts, ignore_index=True)
    frame.loc[::50, "risk"] = rng.random(len(frame.loc[::50]))  # off the grid
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    frame.insert(0, "id", np.arange(len(frame)))
    frame["race"] = pd.Categorical(frame.race, ["White", "Martian", "Black", "Asian"])
    frame["gender"] = frame.gender.astype("str")
    frame["age"] = frame.age.astype("Int16")
    return frame.assign(when=pd.Timestamp("2024-02-29"), ok=frame.id % 2 == 0)


def given(kind, frame):
    """A pandas frame as a frame of another kind."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if kind == "pandas[pyarrow]":
        return frame.convert_dtypes(dtype_backend="pyarrow")
    if kind == "polars":
        return pl.from_arrow(table)
    if kind in ("lazy", "streaming"):
        return pl.from_arrow(table).lazy()
    if kind == "pyarrow":
        return pa.Table.from_batches(table.to_batches(max_chunksize=700), table.schema)
    if kind == "batch":
        return pa.record_batch(
            [column.combine_chunks() for column in table.columns], schema=table.schema
        )
    if kind == "reader":
        return table.to_reader(max_chunksize=700)
    if kind == "duckdb":
        return duckdb.connect().from_arrow(table)
    return frame


def collected(kind, frame):
    """Every row of a frame, as Arrow."""
    if kind == "lazy":
        return frame.collect().to_arrow()
    if kind == "streaming":
        return frame.collect(engine="streaming").to_arrow()
    if kind == "polars":
        return frame.to_arrow()
    if kind == "reader":
        return frame.read_all()
    if kind == "duckdb":
        return frame.to_arrow_table()
    if kind == "batch":
        return pa.Table.from_batches([frame])
    return (
        pa.Table.from_pandas(frame, preserve_index=False)
        if kind.startswith("pandas")
        else frame
    )


@pytest.mark.parametrize("kind", LOCAL)
def test_every_kind_of_frame_comes_back_with_the_scores_of_numpy(fitted, people, kind):
    expected = fitted.apply(people.risk, people)
    before = given(kind, people)
    after = fitted.apply("risk", before, column="better")
    assert type(after) is type(before)
    rows = collected(kind, after)
    assert rows.column_names == [*people, "better"]
    assert np.array_equal(rows["better"].to_numpy(), expected)
    assert rows.schema.field("better").type == pa.float64()
    untouched = collected(kind, given(kind, people))
    assert rows.schema.types[:-1] == untouched.schema.types
    assert rows.drop_columns("better").to_pylist() == untouched.to_pylist()


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("score", ["float32", "decimal"])
def test_scores_of_other_types_are_those_of_numpy(fitted, people, kind, score):
    narrow = people.risk.astype("float32")
    if score == "decimal":
        narrow = pd.Series([Decimal(f"{value:.9f}") for value in people.risk])
    frame = people[["race", "gender", "age"]].assign(risk=narrow)
    rows = collected(kind, fitted.apply("risk", given(kind, frame)))
    assert np.array_equal(rows["corrected"].to_numpy(), fitted.apply(narrow, people))


@pytest.mark.parametrize("kind", LOCAL)
def test_policies_and_the_first_updates_are_honoured_on_frames(fitted, people, kind):
    for options in ({"unseen": "keep"}, {"n_updates": 3}, {"n_updates": 0}):
        rows = collected(kind, fitted.apply("risk", given(kind, people), **options))
        assert np.array_equal(
            rows["corrected"].to_numpy(), fitted.apply(people.risk, people, **options)
        )
    with pytest.raises(
        Exception, match=r"rows have a combination of .* that did not occur"
    ) as error:
        collected(kind, fitted.apply("risk", given(kind, people), unseen="error"))
    assert isinstance(error.value, UnseenError) is (kind != "duckdb")


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"[23] of [35] values are missing"),
        (45.0, "[23] of [35] values are outside"),
    ],
)
def test_scores_that_are_no_probabilities_are_counted(
    fitted, people, kind, value, message
):
    frame = (
        people.head(5)
        .astype({"race": "str"})
        .assign(risk=[0.1, value, value, 0.2, value])
    )
    with pytest.raises(Exception, match=message) as error:
        collected(kind, fitted.apply("risk", given(kind, frame)))
    assert "column 'risk'" in str(error.value)


@pytest.mark.parametrize("kind", LOCAL)
def test_a_frame_without_rows_gets_its_column(fitted, people, kind):
    rows = collected(
        kind, fitted.apply("risk", given(kind, people.astype({"race": "str"}).head(0)))
    )
    assert rows.column_names[-1] == "corrected"
    assert len(rows) == 0


@pytest.mark.parametrize("kind", LOCAL)
def test_wrong_names_are_told_at_once(fitted, people, kind):
    frame = given(kind, people)
    with pytest.raises(InputError, match=r"no column 'rsk'.* Did you mean 'risk'"):
        fitted.apply("rsk", frame)
    with pytest.raises(InputError, match="already has a column 'id'"):
        fitted.apply("risk", frame, column="id")
    with pytest.raises(InputError, match="unseen must be one of"):
        fitted.apply("risk", frame, unseen="guess")
    with pytest.raises(InputError, match="n_updates"):
        fitted.apply("risk", frame, n_updates=-1)


@pytest.mark.parametrize("other", [None, [1, 2], np.zeros(3), {"risk": [0.5]}, "risk"])
def test_a_name_needs_a_frame(fitted, other):
    with pytest.raises(
        InputError,
        match="'risk' names a column, so the second argument must be a frame of pandas",
    ):
        fitted.apply("risk", other)


def test_the_name_comes_first(fitted, people):
    with pytest.raises(InputError, match="comes first: apply"):
        fitted.apply(people, "risk")


def test_the_index_of_pandas_stays(fitted, people):
    frame = people.set_index(people.id % 7)
    after = fitted.apply("risk", frame)
    assert after.index.equals(frame.index)
    assert np.array_equal(after.corrected, fitted.apply(people.risk, people))
    assert "corrected" not in frame


def test_eager_frames_say_if_a_column_is_coded_in_another_way(fitted, people):
    with pytest.warns(
        UserWarning,
        match="'gender': none of the .* values occurred in the fitting data",
    ):
        fitted.apply("risk", people.assign(gender="x"))
    fitted.apply(
        "risk", given("lazy", people.assign(gender="x"))
    ).collect()  # a part may well have none


def test_a_lazy_frame_is_read_only_when_it_is_computed_and_only_where_needed(
    fitted, people
):
    frame = given("lazy", people.assign(risk=[45.0, *people.risk[1:]]))
    scored = fitted.apply("risk", frame)
    assert scored.select("id").collect().height == len(people)
    assert (
        scored.filter(pl.col("id") > 0).collect().height == len(people) - 1
    )  # filtered first
    with pytest.raises(InputError, match="in one part of the frame"):
        scored.collect()


def test_a_duckdb_relation_stays_with_its_connection_and_can_be_run_again(
    fitted, people
):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE names AS SELECT range AS id, 'x' || range AS name FROM range(10)"
    )
    relation = connection.from_arrow(pa.Table.from_pandas(people))
    scored = fitted.apply("risk", relation)
    fitted.apply("risk", relation)  # the function is there already
    expected = fitted.apply(people.risk, people)[:10].tolist()
    for _ in range(2):
        joined = (
            scored.join(connection.table("names"), "id")
            .order("id")
            .project("corrected")
        )
        assert [row[0] for row in joined.fetchall()] == expected
    assert connection.sql("SELECT count(*) FROM scored WHERE id < 5").fetchall() == [
        (5,)
    ]
    with pytest.raises(InputError, match="already has a column 'ID'"):
        fitted.apply("risk", relation, column="ID")


def test_hostile_names_of_columns_are_quoted(cohort):
    name = 'ra"ce; DROP TABLE x --'
    frame = pd.DataFrame({name: cohort.race, 'the "risk"': cohort.score})
    model = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=frame[[name]])
    expected = model.predict(cohort.score, sensitive_features=frame[[name]])
    for kind in LOCAL:
        after = model.correction_.apply(
            'the "risk"', given(kind, frame), column='a "b"'
        )
        assert np.array_equal(collected(kind, after)['a "b"'].to_numpy(), expected)


def test_a_correction_goes_through_its_text(fitted, people):
    twin = Correction.from_json(fitted.to_json())
    assert np.array_equal(
        twin.apply(people.risk, people), fitted.apply(people.risk, people)
    )


# two processes of Dask


def test_dask_scores_its_partitions_as_numpy_scores_the_whole(
    fitted, people, dask_client
):
    import dask.dataframe as dd

    frame = people.set_index(
        pd.Index(
            np.repeat(np.arange(len(people) // 5 + 1), 5)[: len(people)], name="visit"
        )
    )
    before = dd.from_pandas(frame, npartitions=7)
    after = fitted.apply("risk", before, column="better")
    assert type(after) is type(before)
    assert after.divisions == before.divisions
    assert after.dtypes["better"] == np.float64
    rows = after.compute()
    assert np.array_equal(rows.better, fitted.apply(people.risk, people))
    pd.testing.assert_frame_equal(rows.drop(columns="better"), before.compute())


def test_dask_reads_the_columns_that_are_wanted_and_tells_bad_scores(
    fitted, people, dask_client
):
    import dask.dataframe as dd

    people.assign(risk=people.risk.astype("float32")).to_parquet(
        "people.parquet", row_group_size=300
    )
    scored = fitted.apply(
        "risk", dd.read_parquet("people.parquet", split_row_groups=True), unseen="keep"
    )
    expected = fitted.apply(people.risk.astype("float32"), people, unseen="keep")
    assert np.array_equal(scored[["id", "corrected"]].compute().corrected, expected)
    empty = fitted.apply("risk", dd.from_pandas(people, npartitions=5))
    assert len(empty[empty.id < 0].compute()) == 0
    wrong = dd.from_pandas(people.assign(risk=45.0), npartitions=2)
    with pytest.raises(
        InputError, match=r"column 'risk' \(in one part of the frame\) must hold"
    ):
        fitted.apply("risk", wrong).compute()
    with pytest.raises(InputError, match="no column 'rsk'"):
        fitted.apply("rsk", wrong)


# Spark: in this process, and on two executors


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
class TestSpark:
    def test_spark_scores_its_batches_as_numpy_scores_the_whole(
        self, fitted, people, spark
    ):
        from pyspark.sql.types import DoubleType

        people.drop(columns="when").astype({"race": "str"}).to_parquet("people.parquet")
        extra = (
            "timestamp'2024-02-29' AS when",
            "array(id) AS many",
            "map('a', 1) AS pairs",
        )
        narrow = "CAST(risk AS float) AS single"
        read = spark.read.parquet(str(Path("people.parquet").resolve()))
        before = read.selectExpr("*", *extra, narrow).repartition(2)
        after = fitted.apply("risk", before, column="better")
        assert type(after) is type(before)
        assert after.schema.fields[:-1] == before.schema.fields
        assert (after.schema["better"].dataType, after.columns[-1]) == (
            DoubleType(),
            "better",
        )

        after = fitted.apply(
            "single", after, column="of single", unseen="keep", n_updates=5
        )
        found = after.toArrow().sort_by("id")
        assert found.select(before.columns).equals(before.toArrow().sort_by("id"))
        assert np.array_equal(
            found["better"].to_numpy(), fitted.apply(people.risk, people)
        )
        expected = fitted.apply(
            people.risk.astype("float32"), people, unseen="keep", n_updates=5
        )
        assert np.array_equal(found["of single"].to_numpy(), expected)

    def test_spark_tells_bad_scores_when_it_computes_and_names_at_once(
        self, fitted, spark
    ):
        kinds = "risk double, race string, gender string, age int"
        rows = [(0.5, "Asian", "F", 80), (None, "White", "M", 20)]
        people = spark.createDataFrame(rows, kinds).coalesce(1)
        scored = fitted.apply("risk", people)
        assert scored.columns[-1] == "corrected"
        with pytest.raises(
            Exception,
            match=r"InputError: column 'risk' \(in one part of the frame\).*1 of 2",
        ):
            scored.collect()
        with pytest.raises(InputError, match="no column 'rsk'"):
            fitted.apply("rsk", people)
        with pytest.raises(InputError, match="already has a column 'RISK'"):
            fitted.apply("risk", people, column="RISK")
        assert fitted.apply("risk", people.limit(0)).count() == 0

    def test_the_text_travels_by_itself_where_there_is_no_context(
        self, fitted, people, spark, monkeypatch
    ):
        rows = spark.createDataFrame(
            [(0.5, "Asian", "F", 80)],
            "risk double, race string, gender string, age int",
        )
        monkeypatch.setattr(type(spark.sparkContext), "broadcast", lambda *_: 1 / 0)
        found = fitted.apply("risk", rows).collect()[0].corrected
        assert (
            found
            == fitted.apply([0.5], {"race": ["Asian"], "gender": ["F"], "age": [80]})[0]
        )


CLUSTER = """
import sys
sys.path.insert(0, sys.argv[1])
from sessions import spark_session
from propcal import Correction

if __name__ == "__main__":
    spark = spark_session("local-cluster[2,1,1024]")
    correction = Correction.load("model.json")
    scored = correction.apply("risk", spark.read.parquet("people.parquet").repartition(4))
    scored.write.parquet("scored")
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1  # one is the driver
    print("executors", executors)
    spark.stop()
"""


@pytest.mark.engines  # a cluster of its own, in another process
@pytest.mark.xdist_group("spark")
def test_two_executors_write_the_scores_of_numpy(fitted, people):
    pytest.importorskip("pyspark")
    frame = people.drop(columns="when").astype({"race": "str", "age": "float64"})
    frame.to_parquet("people.parquet")
    fitted.save("model.json")
    Path("cluster.py").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, "cluster.py", str(TESTS)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "executors 2" in done.stdout, done.stderr[-2000:]
    scored = pd.read_parquet("scored").sort_values("id")
    assert np.array_equal(scored.corrected, fitted.apply(people.risk, people))
