"""Files of people: what is read, what is refused, and that no message shows a row."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propcal import Atoms
from propcal.errors import FileFormatError, InputError
from propcal.reading import people_files
from propcal.reading.file_source import open_file
from propcal.reading.people_files import NUMBER, TEXT

CANARY = "canary-7f3a"


def write(name, text, **kw):
    with open(name, "w", newline="", **{"encoding": "utf-8", **kw}) as file:
        file.write(text)
    return name


def read(path, *wanted, numeric=(), **kw):
    return (
        open_file(path, **kw)
        .read(list(wanted), dict.fromkeys(numeric, NUMBER))
        .to_pydict()
    )


def test_csv_columns_have_the_type_of_all_their_values():
    rows = "".join(
        f"{i},0{i},1.{i},{i},2020-01-0{i},{10**19 + i},{i > 4},{i}.0\n"
        for i in range(1, 10)
    )
    path = write(
        "a.csv",
        "n,zip,x,mixed,day,id,truth,level\n"
        + rows
        + "10,7,1e-5,x,2020-01-10,5,TRUE,10\n",
    )
    people = open_file(path)
    kinds = {f.name: str(f.type) for f in people.schema(as_text=False)}
    assert kinds == {
        "n": "int64",
        "zip": "string",  # 02139 is no number
        "x": "double",
        "mixed": "string",
        "day": "date32[day]",
        "id": "string",  # too long for a whole number
        "truth": "bool",
        "level": "double",
    }
    assert read(path, "zip", "truth")["zip"][0] == "01"
    assert {str(f.type) for f in people.schema(as_text=True)} == {"string"}


def test_a_late_text_makes_the_whole_column_text():
    path = write("a.csv", "zip,y\n" + "2139,1\n" * 50_000 + "02139,0\n")
    assert set(read(path, "zip")["zip"]) == {"2139", "02139"}


def test_empty_cells_are_missing_and_other_texts_if_named():
    path = write("a.csv", 'g,x\n"",1\nNA,\nnan,NA\n')
    assert read(path, "g")["g"] == [None, "NA", "nan"]
    assert read(path, "g", "x", numeric=["x"], missing=["NA"]) == {
        "g": [None, None, "nan"],
        "x": [1.0, None, None],
    }
    with pytest.raises(
        InputError,
        match=r"column 'x' must hold numbers; 1 of 2 values is not a number\. .*--na NA",
    ):
        read(path, "x", numeric=["x"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separators_line_ends_and_byte_order_marks_are_harmless(
    delimiter, end, encoding
):
    lines = ["risk,größe,y", '0.5,"a ""b""",1', '0.25,"x\ny",0']
    path = write(
        "a.csv",
        end.join(line.replace(",", delimiter) for line in lines),
        encoding=encoding,
    )
    expected = {"risk": [0.5, 0.25], "größe": ['a "b"', "x\ny"], "y": [1, 0]}
    assert read(path, "risk", "größe", "y") == expected


def test_compressed_text_is_known_by_its_content():
    text = b"risk,y\n0.5,1\n"
    for name, kind in (("a.csv.gz", "gzip"), ("b.csv.zst", "zstd"), ("c.data", "gzip")):
        with pa.output_stream(name, compression=kind) as file:
            file.write(text)
        assert read(name, "risk") == {"risk": [0.5]}


def test_names_that_engines_would_mix_up_stay_apart():
    path = write("odd *[1]'s.csv", 'Age,age,"a ""b"", c",\n1,2,3,4\n')
    write("odd two.csv", "Age,age\n7,8\n")
    assert read(path, "age", "Age", 'a "b", c', "") == {
        "age": [2],
        "Age": [1],
        'a "b", c': [3],
        "": [4],
    }


def test_every_number_is_read_to_the_last_digit():
    rng = np.random.default_rng(0)
    values = [*(rng.random(2000) * 10.0 ** rng.integers(-20, 0, 2000)), 5e-324, 1 / 3]
    path = write("a.csv", "x\n" + "".join(f"{float(v)!r}\n" for v in values))
    assert read(path, "x", numeric=["x"])["x"] == values


def test_text_is_read_as_it_stands_in_the_order_of_the_file():
    path = write(
        "a.csv", "n,zip\n" + "".join(f"{i}.0,0{i}\n" for i in range(5000)) + ",x\n"
    )
    table = open_file(path).read(["zip", "n"], {"zip": TEXT, "n": TEXT}).to_pydict()
    assert table["zip"] == [*(f"0{i}" for i in range(5000)), "x"]
    assert table["n"] == [*(f"{i}.0" for i in range(5000)), None]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "  \n\n", "a.csv is empty"),
        ("a.csv", "score,y\n", "a header but no rows"),
        ("a.csv", f"id^score\n{CANARY}^0.5\n", "none of the separators"),
        (
            "a.csv",
            f"{CANARY},0.5,1\n{CANARY},0.4,0\n",
            "first line of a.csv seems to hold values",
        ),
        (
            "a.csv",
            f"id,score\n{CANARY},0.5\n{CANARY},0.5,7\n",
            "line 3 has 3 values, the first line names 2",
        ),
        ("a.csv", f"id,score\n{CANARY},0.5\n{CANARY}\n", "line 3 has 1 values"),
        (
            "a.csv",
            f'id,score\n"{CANARY},0.5\n{CANARY},0.5\n',
            "a quote that opens in line 2 is not closed",
        ),
        (
            "a.csv",
            f"id,score\n{CANARY},45%\n{CANARY},5 %\n",
            "2 of 2 values are not numbers. 2 end with a percent",
        ),
        ("a.csv", f"id;score\n{CANARY};0,45\n", "1 have a decimal comma"),
        (
            "a.csv",
            f"id,score\n{CANARY},high\n",
            "'score' must hold numbers; 1 of 1 values is not a number. It holds only text;",
        ),
        (
            "a.csv",
            f"id,scores\n{CANARY},0.5\n",
            r"no column 'score'.*Did you mean 'scores'",
        ),
        (
            "a.csv",
            f"id,score,score\n{CANARY},0.5,0.5\n",
            r"several columns named \['score'\]",
        ),
        (
            "a.parquet",
            f"id,score\n{CANARY},0.5\n",
            "not a Parquet file, despite its name",
        ),
        ("a.xlsx", b"PK\x03\x04 canary", "cannot be read as an Excel workbook"),
        ("a.csv", f"id,score\n{CANARY},0.5\n".encode("utf-16"), "UTF-16"),
        ("a.csv", f"id,score\n{CANARY}é,0.5\n".encode("latin-1"), "not UTF-8"),
        (
            "a.csv",
            f"id,score\n{CANARY},0.5\n".encode() * 99 + b"\xe9",
            "not UTF-8|names 2",
        ),
        ("a.csv", b"\x7fELF\0\0\0", "neither text nor Parquet"),
        ("a.parquet", b"PAR1 canary", "not a complete Parquet file"),
    ],
)
def test_what_cannot_be_read_is_told_without_showing_a_row(name, content, message):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((InputError, FileFormatError), match=message) as error:
        read(name, "score", numeric=["score"])
    shown = [error.value, error.value.__context__, error.value.__cause__]
    assert CANARY not in "".join(map(str, shown))


def test_files_that_are_not_there_are_told():
    write("visits.csv", "a\n1\n")
    with pytest.raises(
        InputError, match=r"no file visit.csv\. Did you mean visits.csv"
    ):
        open_file("visit.csv")
    with pytest.raises(InputError, match="nor a folder"):
        open_file("no/visits.csv")
    with pytest.raises(InputError, match="is a folder"):
        open_file(".")
    os.mkfifo("pipe")
    with pytest.raises(InputError, match="a pipe or a device"):
        open_file("pipe")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_compressed_files_that_were_cut_off_are_refused(kind, keep):
    text = "x,y\n" + "".join(
        f"{v},1\n" for v in np.random.default_rng(0).random(20_000)
    )
    with pa.output_stream("a.csv.z", compression=kind) as file:
        file.write(text.encode())
    content = Path("a.csv.z").read_bytes()
    with open("a.csv.z", "wb") as file:
        file.write(content[: int(len(content) * keep)])
    with pytest.raises(FileFormatError, match="ends early"):
        read("a.csv.z", "x")


def test_a_file_with_many_columns_lists_some():
    write(
        "a.csv",
        ",".join(f"c{i}" for i in range(500)) + "\n" + ",".join("1" * 500) + "\n",
    )
    with pytest.raises(InputError, match="and 470 more") as error:
        read("a.csv", "score")
    assert len(str(error.value)) < 500


def test_parquet_keeps_types_and_tells_what_is_missing(cohort):
    frame = cohort.assign(
        race=cohort.race.astype("category"), when=pd.Timestamp("2020-01-01")
    )
    frame.to_parquet("a.parquet")
    people = open_file("a.parquet")
    table = people.read(["race", "score"])
    assert table["race"].to_pylist() == [
        None if race != race else race for race in cohort.race
    ]
    assert table["score"].to_pylist() == cohort.score.tolist()
    with pytest.raises(InputError, match="Did you mean 'score'"):
        people.read(["scor"])
    pq.write_table(pa.table({"score": pa.array([], pa.float64())}), "b.parquet")
    with pytest.raises(InputError, match="no rows"):
        open_file("b.parquet").read(["score"])
    content = Path("a.parquet").read_bytes()
    with open("c.parquet", "wb") as file:
        file.write(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match="not a complete Parquet"):
        open_file("c.parquet")


def test_every_kind_of_file_gives_the_same_atoms(cohort):
    frame = cohort.assign(level=np.arange(len(cohort)) % 3, old=cohort.score > 0.3)
    groups = ["race", "gender", "level", "old"]
    expected = Atoms.from_frame(frame, score="score", outcome="y", groups=groups)
    frame.to_csv("a.csv", index=False)
    frame.to_csv("a.csv.gz")
    frame.to_csv("a.tsv", sep="\t", index=False)
    frame.to_parquet("a.parquet")
    for path in ("a.csv", "a.csv.gz", "a.tsv", "a.parquet"):
        table = open_file(path).read(
            ["score", "y", *groups], {"score": NUMBER, "y": NUMBER}
        )
        atoms = Atoms.from_frame(table, score="score", outcome="y", groups=groups)
        assert atoms.fingerprint() == expected.fingerprint(), path
    expected.save("a.atoms")
    loaded = open_file("a.atoms")
    assert isinstance(loaded, Atoms)
    assert loaded.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_batches_hold_all_columns_in_order_and_add_up_to_the_file(monkeypatch, kind):
    n = 5000
    frame = pd.DataFrame(
        {"id": np.arange(n), "zip": "02139", "x": np.arange(n) / n, "Zip": "a"}
    )
    frame.to_csv("a.csv", index=False)
    frame.to_parquet("a.parquet")
    monkeypatch.setattr(people_files, "BATCH_ROWS", 512)
    people = open_file(f"a.{kind}")
    assert people.count() == n
    whole, chosen = zip(*people.batches(["x", "id"], {"x": NUMBER}))
    assert len(whole) >= 2
    both = pa.Table.from_batches(whole)
    assert both.schema.names == people.schema(as_text=False).names == list(frame)
    assert both.equals(
        pa.Table.from_pandas(frame, preserve_index=False).cast(both.schema)
    )
    assert pa.concat_tables(chosen).to_pydict() == {
        "x": frame.x.tolist(),
        "id": frame.id.tolist(),
    }


def test_gzip_files_of_several_members_are_read_whole():
    with open("a.csv.gz", "wb") as file:
        file.write(gzip.compress(b"x,y\n0.5,1\n") + gzip.compress(b"0.25,0\n"))
    assert read("a.csv.gz", "x") == {"x": [0.5, 0.25]}
