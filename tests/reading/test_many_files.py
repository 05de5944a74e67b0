"""Files of any number and size: the atoms of all rows, and clear words where files do
not fit together.
"""

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hard_rows import PLAIN, ROLES, WORDS, assert_same, hard_table
from propcal import Atoms, Groups
from propcal.cli import main
from propcal.errors import FileFormatError, InputError
from propcal.reading import duckdb_setup as duck
from propcal.reading import file_source as from_files

CANARY = "canary-7f3a"
COLUMNS = {"score": "score", "outcome": "y", "groups": ["race", "gender"]}


@pytest.fixture
def expected(cohort):
    return Atoms.from_frame(cohort, **COLUMNS)


@pytest.fixture
def _aside(tmp_path, monkeypatch):
    """A folder of our own for what DuckDB puts aside; it must be empty afterwards."""
    folder = tmp_path / "aside"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def thirds(cohort):
    return cohort[:1000], cohort[1000:1900], cohort[1900:]


def write(cohort, name, **kw):
    if name.endswith(".parquet"):
        cohort.to_parquet(name)
    elif name.endswith(".zst"):
        with pa.output_stream(name, compression="zstd") as file:
            file.write(cohort.to_csv(index=False, **kw).encode())
    else:
        cohort.to_csv(name, index=False, **kw)


@pytest.mark.usefixtures("_aside")
@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "csv.zst"])
def test_parts_in_files_are_the_whole(cohort, expected, ending):
    for i, part in enumerate(thirds(cohort)):
        write(part, f"visits-{i}.{ending}")
    assert_same(Atoms.from_files(f"visits-*.{ending}", **COLUMNS), expected)
    listed = [Path(f"visits-{i}.{ending}") for i in (2, 0, 1)]
    assert_same(Atoms.from_files(listed, **COLUMNS, threads=1), expected)
    coarse = Atoms.from_frame(cohort, **COLUMNS, resolution=2**-8)
    assert_same(
        Atoms.from_files(f"visits-*.{ending}", **COLUMNS, resolution=2**-8), coarse
    )


def test_files_may_order_write_and_separate_differently(cohort, expected):
    one, two, three = thirds(cohort)
    write(one, "1.csv")
    write(two[["y", "gender", "score", "race"]].assign(more=1), "2.csv.gz", sep=";")
    write(three, "3.csv.zst", sep="\t")
    assert_same(
        Atoms.from_files(["1.csv", "2.csv.gz", "3.csv.zst"], **COLUMNS), expected
    )
    one.assign(race=one.race.astype("category"), y=one.y.astype("int8")).to_parquet(
        "1.parquet"
    )
    two[["gender", "y", "score", "race"]].assign(y=two.y.astype(float)).to_parquet(
        "2.parquet"
    )
    three.assign(y=three.y.astype(bool).astype("uint8")).to_parquet("3.parquet")
    assert_same(Atoms.from_files("?.parquet", **COLUMNS), expected)


def test_one_late_code_makes_text_of_a_column_in_all_files():
    Path("1.csv").write_text("s,y,zip\n0.5,1,2139\n0.5,0,2139\n")
    Path("2.csv").write_text("s,y,zip\n0.5,1,02139\n")
    atoms = Atoms.from_files("?.csv", score="s", outcome="y", groups="zip")
    assert atoms.patterns.levels == (("02139", "2139"),)


@pytest.mark.parametrize("role", ROLES[:7:2], ids=str)
def test_a_file_of_every_kind_of_column_gives_the_atoms_of_rows_in_memory(role):
    table = hard_table()
    pq.write_table(table, "hard.parquet", row_group_size=700)
    for groups in (Groups(columns=PLAIN), WORDS):
        assert_same(
            Atoms.from_files("hard.parquet", groups=groups, **role),
            Atoms.from_frame(table, groups=groups, **role),
        )


def test_names_in_which_engines_see_signs_are_only_names():
    frame = pd.DataFrame(
        {"Age": ["a", "b"], "age": [7, 8], 'a "b"; --': [0.1, 0.9], "y's": [0, 1]}
    )
    frame["home.ward"] = (
        frame.Age
    )  # as R writes names; DuckDB before 2.0 looks for a table "home"
    roles = {"score": 'a "b"; --', "outcome": "y's"}
    for name in ("odd *[1]'s.parquet", "odd ?[2].csv"):
        write(frame, name)
        for group in ("Age", "age", "home.ward"):
            assert_same(
                Atoms.from_files(name, **roles, groups=group),
                Atoms.from_frame(frame, **roles, groups=group),
            )
        with pytest.raises(InputError, match="'Age' and 'age' differ only in case"):
            Atoms.from_files(name, **roles, groups=["Age", "age"])


@pytest.mark.usefixtures("_aside")
@pytest.mark.parametrize("weight", [None, "whole", "survey"])
def test_people_who_come_again_keep_their_buckets(cohort, monkeypatch, weight):
    monkeypatch.setattr(from_files, "BATCH_ROWS", 700)
    rng = np.random.default_rng(0)
    n = len(cohort)
    frame = cohort.assign(
        id=rng.integers(0, 400, n), whole=rng.integers(0, 3, n), survey=rng.random(n)
    )
    frame.loc[: n // 2, "survey"] = 2.0  # whole by chance in the first batches
    frame.to_parquet("a.parquet", row_group_size=500)
    found = Atoms.from_files("a.parquet", **COLUMNS, cluster="id", weight=weight)
    assert_same(found, Atoms.from_frame(frame, **COLUMNS, cluster="id", weight=weight))


def parquet(name, **columns):
    pq.write_table(
        pa.table({"score": [0.5, 0.25], "y": [0, 1], "g": ["a", CANARY], **columns}),
        name,
    )


def damaged(name):
    n = 300_000
    table = {
        "score": np.random.default_rng(0).random(n),
        "y": np.zeros(n, int),
        "g": [CANARY, "b"] * (n // 2),
    }
    pq.write_table(pa.table(table), name, compression="zstd")
    content = bytearray(Path(name).read_bytes())
    content[1000:200_000:7] = bytes(len(range(1000, 200_000, 7)))
    Path(name).write_bytes(content)


def half(name):
    parquet(name)
    Path(name).write_bytes(Path(name).read_bytes()[:-40])


TROUBLE = {
    "nothing matches": ("*.parquet", lambda: None, r"no file matches \*.parquet"),
    "no file": ("a.csv", lambda: None, "there is no file a.csv"),
    "a folder": (".", lambda: None, "is a folder"),
    "a bucket": (
        "s3://lake/a.parquet",
        lambda: None,
        r"is not a local file\. .*Atoms.from_frame\(duckdb",
    ),
    "nothing named": ([], lambda: None, "at least one file is needed"),
    "twice": (
        ["a.parquet", "./a.parquet"],
        lambda: parquet("a.parquet"),
        "named twice",
    ),
    "no Parquet": (
        "*",
        lambda: (parquet("a.parquet"), Path("b.parquet").write_text(CANARY)),
        "b.parquet is not a Parq",
    ),
    "cut off": (
        "*",
        lambda: (parquet("a.parquet"), half("b.parquet")),
        "b.parquet is not a complete Parquet",
    ),
    "damaged": (
        "*",
        lambda: (parquet("a.parquet"), damaged("b.parquet")),
        "b.parquet is damaged",
    ),
    "mixed": (
        "*",
        lambda: (parquet("a.parquet"), Path("b.csv").write_text("score,y,g\n1,1,a\n")),
        "b.csv is a text file",
    ),
    "other type": (
        "*",
        lambda: (parquet("a.parquet"), parquet("b.parquet", g=[1, 2])),
        "column 'g' has different types: text in a.parquet, numbers in b.parquet",
    ),
    "other columns": (
        "*",
        lambda: (
            parquet("a.parquet"),
            pq.write_table(pa.table({"score": [1.0], "y": [1]}), "b.parquet"),
        ),
        "b.parquet has no column 'g', but a.parquet has one",
    ),
    "other names in text": (
        "*",
        lambda: (
            Path("a.csv").write_text("score,y,g\n1,1,a\n"),
            Path("b.csv").write_text("score,y,h\n1,1,a\n"),
        ),
        "b.csv has no column 'g'",
    ),
    "a broken line": (
        "*",
        lambda: (
            Path("a.csv").write_text("score,y,g\n1,1,a\n"),
            Path("b.csv").write_text(f"score,y,g\n{CANARY}\n"),
        ),
        "b.csv: line 2 has 1 values",
    ),
    "text in a score": (
        "*",
        lambda: (
            Path("a.csv").write_text("score,y,g\n1,1,a\n"),
            Path("b.csv").write_text(f"score,y,g\n{CANARY},1,a\n"),
        ),
        "column 'score' must hold numbers; 1 of 2 values is not a number",
    ),
    "cut off in the middle": (
        "*",
        lambda: Path("a.csv.gz").write_bytes(
            gzip.compress(b"score,y,g\n" + os.urandom(9000).hex().encode())[:-900]
        ),
        "ends early|values",
    ),
    "an identifier": (
        "a.parquet",
        lambda: pq.write_table(
            pa.table(
                {
                    "score": [0.5] * 50_000,
                    "y": [0] * 50_000,
                    "g": [f"p{i}" for i in range(50_000)],
                }
            ),
            "a.parquet",
        ),
        "attribute 'g' has 20,000 different values in the first 20,000 rows",
    ),
    "a late identifier": (
        "a.parquet",
        lambda: pq.write_table(
            pa.table(
                {
                    "score": [0.5] * 50_000,
                    "y": [0] * 50_000,
                    "g": ["p"] * 30_000 + [*map(str, range(20_000))],
                }
            ),
            "a.parquet",
        ),
        "attribute 'g' has 20,001 different values; at most 200",
    ),
    "no rows": (
        "a.parquet",
        lambda: parquet("a.parquet", score=[0.5, None]),
        "1 of 2 values is missing",
    ),
}


@pytest.mark.usefixtures("_aside")
@pytest.mark.parametrize("trouble", TROUBLE)
def test_what_does_not_fit_together_is_told_by_file_and_column(
    trouble, tmp_path, monkeypatch
):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    files, make, message = TROUBLE[trouble]
    make()
    with pytest.raises((InputError, FileFormatError), match=message) as error:
        Atoms.from_files(files, score="score", outcome="y", groups="g")
    assert CANARY not in "".join(map(str, (error.value, error.value.__cause__)))


def test_atoms_are_no_people(expected):
    expected.save("a.atoms")
    with pytest.raises(
        InputError, match=r"a.atoms is an atoms file; this needs one row per person"
    ):
        Atoms.from_files("a.atoms", **COLUMNS)


@pytest.mark.usefixtures("_aside")
def test_little_memory_is_enough_and_what_was_put_aside_is_gone(monkeypatch):
    monkeypatch.setattr(duck, "SMALLEST", 1 << 20)
    n = 300_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {"s": rng.random(n), "y": rng.integers(0, 2, n), "g": rng.choice(["a", "b"], n)}
    )
    pq.write_table(table, "a.parquet", row_group_size=20_000)
    roles = {"score": "s", "outcome": "y", "groups": "g"}
    assert_same(
        Atoms.from_files("a.parquet", **roles, memory_limit="12MB"),
        Atoms.from_frame(table, **roles),
    )


@pytest.mark.usefixtures("_aside")
def test_out_of_memory_fewer_threads_then_a_resolution_that_would_fit(
    cohort, expected, monkeypatch
):
    cohort.to_parquet("a.parquet")
    reduce, tried = from_files.totals, []

    def short_of_memory(rows, columns):
        threads = int(duckdb_threads())
        tried.append((threads, columns.bits))
        if threads > limit[0] or columns.bits > limit[1]:
            raise duckdb.OutOfMemoryException("out of memory")
        return reduce(rows, columns)

    connect, engines = duck.connect, []

    def remembered(**config):
        engines.append(connect(**config))
        return engines[-1]

    def duckdb_threads():
        return engines[-1].sql("SELECT current_setting('threads')").fetchall()[0][0]

    monkeypatch.setattr(duck, "connect", remembered)
    monkeypatch.setattr(from_files, "totals", short_of_memory)
    limit = [1, 32]
    assert_same(Atoms.from_files("a.parquet", **COLUMNS, threads=4), expected)
    assert tried == [(4, 32), (2, 32), (1, 32)]
    limit = [1, 20]
    # 8 patterns in 200 MB: 200e6 / (8 * 100 bytes) is about 2**18
    with pytest.raises(
        InputError,
        match=r"does not fit into 0.2 GB.* Round the scores with resolution=2\*\*-17",
    ) as error:
        Atoms.from_files("a.parquet", **COLUMNS, threads=2, memory_limit="200MB")
    assert error.value.__cause__ is None
    assert (
        len(
            Atoms.from_files(
                "a.parquet",
                **COLUMNS,
                memory_limit="200MB",
                resolution=2**-17,
                threads=1,
            )
        )
        > 0
    )


@pytest.mark.usefixtures("_aside")
def test_a_full_disk_is_told_as_such(cohort, monkeypatch):
    def full(*_, **__):
        raise duckdb.IOException('Could not write file "x": No space left on device')

    cohort.to_parquet("a.parquet")
    monkeypatch.setattr(from_files, "totals", full)
    with pytest.raises(
        InputError,
        match=r"the temporary folder .* is full: .*no space left.* Set TMPDIR",
    ):
        Atoms.from_files("a.parquet", **COLUMNS)


@pytest.mark.usefixtures("_aside")
def test_a_full_temporary_folder_is_not_taken_for_a_lack_of_memory(monkeypatch, capsys):
    monkeypatch.setattr(duck, "SMALLEST", 1 << 20)
    connect = duck.connect

    def little_room(**config):
        engine = connect(**config)
        engine.execute("SET max_temp_directory_size = '1MB'")
        return engine

    monkeypatch.setattr(duck, "connect", little_room)
    n = 300_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {"s": rng.random(n), "y": rng.integers(0, 2, n), "g": rng.choice(["a", "b"], n)}
    )
    pq.write_table(table, "a.parquet", row_group_size=20_000)
    roles = ["--score", "s", "--outcome", "y", "--groups", "g"]
    with pytest.raises(SystemExit, match="2"):
        main(["atoms", "a.parquet", *roles, "--memory", "12MB", "-o", "a.atoms"])
    told = capsys.readouterr().err
    assert f"the temporary folder {tempfile.gettempdir()} is full" in told
    assert (
        "Set TMPDIR to a folder on a larger disk, increase --memory, or use a coarser"
        in told
    )
    assert "--resolution 2^-16" in told
    assert not Path("a.atoms").exists()


@pytest.mark.parametrize("limit", ["much", "4 bananas", "-1GB", "1MB", True])
def test_a_limit_of_memory_must_be_one(limit):
    with pytest.raises(InputError, match="memory_limit must be"):
        Atoms.from_files("a.parquet", **COLUMNS, memory_limit=limit)


def test_progress_is_told_while_a_file_is_read(cohort):
    pd.concat([cohort] * 100).to_csv("a.csv", index=False)
    seen = []
    Atoms.from_files("a.csv", **COLUMNS, progress=seen.append)
    assert seen
    assert all(0 <= percent <= 100 for percent in seen)


@pytest.mark.slow
def test_an_interrupted_reading_leaves_nothing_behind(tmp_path, cohort):
    pd.concat([cohort] * 300).to_csv("a.csv", index=False)
    aside = tmp_path / "aside"
    aside.mkdir()
    command = [
        sys.executable,
        "-m",
        "propcal",
        "atoms",
        "a.csv",
        "--score",
        "score",
        "--outcome",
        "y",
    ]
    process = subprocess.Popen(
        [*command, "--groups", "race", "-o", "a.atoms"],
        env={**os.environ, "TMPDIR": str(aside)},
        stderr=subprocess.PIPE,
        text=True,
    )
    # Python itself tries the folder first, with a file that is gone at once
    while not list(aside.glob("propcal-*")) and process.poll() is None:
        pass
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not list(aside.iterdir())
    assert not Path("a.atoms").exists()
