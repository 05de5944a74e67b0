"""`propcal apply` on several files, and files scored while they are read and
written.
"""

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propcal import PMCBoost
from propcal.cli import main
from propcal.scoring.files import ahead, behind


@pytest.fixture(scope="module")
def fitted(cohort):
    return (
        PMCBoost()
        .fit(cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]])
        .correction_
    )


@pytest.fixture
def months(cohort, fitted):
    """A model, and three months of visits; in the second every identifier is the
    same.
    """
    fitted.save("model.json")
    people = cohort.rename(columns={"score": "risk"}).assign(
        id=[f"id{i}" for i in range(len(cohort))]
    )
    people.loc[1000:1999, "id"] = "nobody"
    parts = [people[:1000], people[1000:2000], people[2000:]]
    for number, part in enumerate(parts):
        table = pa.Table.from_pandas(part, preserve_index=False)
        Path("lake").mkdir(exist_ok=True)
        pq.write_table(table, f"lake/m{number}.parquet", row_group_size=300)
        part.to_csv(f"lake/m{number}.csv", index=False)
    return people


@pytest.fixture
def run(capfd):
    def call(*files, output, code=0, options=()):
        with pytest.raises(SystemExit) as end:
            main(
                [
                    "apply",
                    "model.json",
                    *files,
                    "--score",
                    "risk",
                    "-o",
                    output,
                    *options,
                ]
            )
        out, err = capfd.readouterr()
        assert end.value.code == code, err
        assert not list(Path().rglob(".propcal*"))
        if code:
            assert err.startswith("propcal: ")
            assert err.count("\n") == 1
        return err if code else out

    return call


def read_csv(path):
    return pd.read_csv(
        path, converters={"risk": float}
    )  # pandas before 3 may miss the last digit


def no_repeats(frame):
    return (
        frame.drop(columns="corrected")
        .astype(object)
        .where(frame.drop(columns="corrected").notna(), None)
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_are_written_to_a_folder_under_their_names(months, fitted, run, ending):
    said = run(f"lake/*.{ending}", output="out/")
    assert said == "3,000 rows with their corrected score in column 'corrected': out/\n"
    names = [f"m{number}.{ending}" for number in range(3)]
    assert sorted(path.name for path in Path("out").iterdir()) == names
    read = pd.read_parquet if ending == "parquet" else read_csv
    written = pd.concat([read(f"out/{name}") for name in names], ignore_index=True)
    assert written.corrected.to_numpy() == pytest.approx(
        fitted.apply(months.risk, months), abs=1e-15
    )
    if ending == "parquet":
        assert np.array_equal(written.corrected, fitted.apply(months.risk, months))
        for name in names:
            schema = pq.read_schema(f"lake/{name}")
            assert pq.read_schema(f"out/{name}").remove(5).equals(schema)
    assert no_repeats(written).equals(no_repeats(months.assign(corrected=0)))


@pytest.mark.parametrize("source", ["parquet", "csv"])
@pytest.mark.parametrize("target", ["all.parquet", "all.csv"])
def test_files_are_joined_to_one_in_the_order_given(
    months, fitted, run, source, target
):
    run(*[f"lake/m{number}.{source}" for number in (2, 0, 1)], output=target)
    written = pd.read_parquet(target) if target == "all.parquet" else read_csv(target)
    people = pd.concat(
        [months[2000:], months[:1000], months[1000:2000]], ignore_index=True
    )
    assert written.corrected.to_numpy() == pytest.approx(
        fitted.apply(people.risk, people), abs=1e-15
    )
    assert no_repeats(written).equals(no_repeats(people.assign(corrected=0)))


def test_a_part_without_rows_is_a_part(months, run):
    pq.write_table(pq.read_table("lake/m0.parquet").slice(0, 0), "lake/m3.parquet")
    assert "3,000 rows" in run("lake/*.parquet", output="out/")
    assert pq.read_table("out/m3.parquet").column_names[-1] == "corrected"
    assert "3,000 rows" in run("lake/*.parquet", output="all.parquet")
    assert "0 rows" in run("lake/m3.parquet", output="none.parquet")


def other(number, change):
    path = f"lake/m{number}.parquet"
    change(pd.read_parquet(path)).to_parquet(path)


@pytest.mark.parametrize("output", ["all.parquet", "out/"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(risk=f.risk.astype("f4")), "column 'risk' is float in lake/m2.parquet but"),
        (lambda f: f.assign(gender=1), "column 'gender' is int64 in lake/m2.parquet but"),
        (lambda f: f.drop(columns="race"), "lake/m2.parquet has no column 'race', but lake/m0.parquet"),
        (lambda f: f.assign(risk=f.risk * 100), "of 3,000 values are outside"),
        (lambda f: f.assign(corrected=0), "has a column 'corrected'"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_together_are_refused_and_nothing_is_written(
    months, run, output, change, message
):
    other(2, change)
    assert message in run("lake/*.parquet", output=output, code=2)
    assert not Path("out").exists()
    assert not Path("all.parquet").exists()


def test_other_columns_may_differ_unless_files_are_joined(months, run):
    other(1, lambda f: f.assign(more=1))
    run("lake/*.parquet", output="out/")
    assert "m1.parquet has a column 'more', but" in run(
        "lake/*.parquet", output="all.parquet", code=2
    )
    other(
        1,
        lambda f: f[["risk", "more", "race", "y", "gender", "id"]].drop(columns="more"),
    )
    assert "m1.parquet has its columns in a different order" in run(
        "lake/*.parquet", output="a.parquet", code=2
    )


@pytest.mark.parametrize(
    ("files", "output", "message"),
    [
        (["lake/x*.parquet"], "out/", "no file matches lake/x*.parquet"),
        (["lake/m0.csv", "lake/m*.csv"], "all.csv", "lake/m0.csv is named twice"),
        (["lake/m0.csv", "twin/m0.csv"], "out/", "several files are named m0.csv"),
        (
            ["lake/*"],
            "out/",
            "lake/fake.parquet is not a Parquet file, despite its name",
        ),
        (["lake/*.parquet"], "all", "the name must end in"),
        (["lake/*.parquet"], "no/out/", "there is no folder no"),
        (["lake/*.csv"], "lake/", "lake/m0.csv is also an input file"),
        (["lake"], "out/", "lake"),
    ],
)
def test_wrong_sets_of_files_are_told(months, run, files, output, message):
    Path("twin").mkdir()
    Path("twin/m0.csv").write_bytes(Path("lake/m0.csv").read_bytes())
    Path("lake/fake.parquet").write_text("race,gender,risk\nAsian,F,0.5\n")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert message in run(*files, output=output, code=2)
    assert {
        path: path.read_bytes() for path in Path().rglob("*") if path.is_file()
    } == before
    assert not Path("out").exists()


def test_a_name_with_a_star_is_itself_if_there_is_such_a_file(months, run):
    Path("lake/m0.csv").rename("lake/m*.csv")
    assert "1,000 rows" in run("lake/m*.csv", output="out.csv")


def test_parquet_keeps_types_metadata_and_odd_columns(months, fitted, run):
    n = 900
    many = np.arange(n)
    frame = pa.table(
        {
            "race": pa.array(months.race[:n]).dictionary_encode(),
            "gender": pa.array(months.gender[:n], pa.large_string()),
            "risk": pa.array(months.risk[:n], pa.float32()),
            "a.b": pa.array(["x", None] * (n // 2)),
            "unique": pa.array([str(i) for i in many]),
            "list": pa.array([["u", "v"]] * n),
            "record": pa.array([{"k": "w"}] * n),
            "when": pa.array(many, pa.timestamp("ns", "Europe/Berlin")),
            "long": pa.array(many, pa.duration("us")),
            "half": pa.array(many.astype("float16")),
            "bytes": pa.array([b"z"] * n),
        }
    )
    twice = frame.append_column("a.b", pa.array([1] * n)).replace_schema_metadata(
        {"made": "by hand"}
    )
    pq.write_table(twice, "odd.parquet", row_group_size=250)
    run("odd.parquet", output="out.parquet")
    written = pq.ParquetFile("out.parquet").read()
    read = pq.ParquetFile("odd.parquet").schema_arrow
    assert written.schema.remove(len(written.schema) - 1).equals(
        read, check_metadata=True
    )
    assert all(
        a.to_pylist() == b.to_pylist() for a, b in zip(written.columns, twice.columns)
    )
    assert pq.read_metadata("out.parquet").metadata[b"made"] == b"by hand"
    expected = fitted.apply(months.risk[:n].astype("float32"), months[:n])
    assert np.array_equal(written["corrected"].to_numpy(), expected)


SLOW = """
import sys, time
from propcal.cli import main
from propcal.core.correction.correction import Correction
apply, calls = Correction.apply_to_rows, []

def slowly(*arguments, **options):
    calls.append(1)
    if len(calls) == 6:  # in the second file, while threads read and write
        print("working", flush=True)
        time.sleep(60)
    return apply(*arguments, **options)

Correction.apply_to_rows = slowly
main()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)  # 143, 130, 129
@pytest.mark.slow
def test_a_stopped_process_leaves_files_and_folders_as_they_were(months, number):
    Path("slow.py").write_text(SLOW)
    Path("out").mkdir()
    Path("out/m1.parquet").write_text("old")
    command = [
        sys.executable,
        "slow.py",
        "apply",
        "model.json",
        "lake/*.parquet",
        "--score",
        "risk",
    ]
    process = subprocess.Popen(
        [*command, "-o", "out/", "--force"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "working\n"
    assert list(Path("out").glob(".propcal-*"))  # it was in the middle
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number, err
    assert [path.name for path in Path("out").iterdir()] == ["m1.parquet"]
    assert Path("out/m1.parquet").read_text() == "old"


@pytest.mark.slow
def test_a_disk_that_fills_up_in_a_later_file_leaves_nothing(months):
    rng = np.random.default_rng(0)
    other(
        2,
        lambda f: pd.concat([f] * 30).assign(
            id=[str(x) for x in rng.random(30 * len(f))]
        ),
    )

    def little_room():  # writing beyond it fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [
        sys.executable,
        "-m",
        "propcal",
        "apply",
        "model.json",
        "lake/*.parquet",
        "--score",
        "risk",
    ]
    done = subprocess.run(
        [*command, "-o", "out/"], preexec_fn=little_room, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("propcal: ")
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()


def test_a_folder_without_permission_is_told(months, run, monkeypatch):
    Path("out").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert "not writable" in run("lake/*.parquet", output="out/", code=2)


def test_reading_ahead_and_writing_behind_keep_the_order():
    written = []
    with ahead(iter(range(50))) as items, behind(written.append) as write:
        for item in items:
            write(item)
    assert written == list(range(50))


def test_errors_of_either_side_are_told_and_no_thread_stays():
    def source():
        yield 1
        raise ValueError("cannot read")

    def full(item):
        raise OSError("no space left")

    def write_many():
        with behind(full) as write:
            for item in range(100):
                write(item)

    def stop_early():
        with ahead(iter(range(100))) as items, behind(lambda _: None) as write:
            write(next(items))
            raise KeyError

    before = threading.active_count()
    with pytest.raises(ValueError, match="cannot read"), ahead(source()) as items:
        list(items)
    with pytest.raises(OSError, match="no space left"), behind(full) as write:
        write(1)
    with pytest.raises(OSError, match="no space left"):
        write_many()
    with pytest.raises(KeyError):
        stop_early()
    assert threading.active_count() == before
