"""Excel workbooks are read like the same table in a CSV file."""

import re
import sys
from datetime import date
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest

from propcal import Atoms, Correction
from propcal.cli import main
from propcal.errors import FileFormatError, InputError

openpyxl = pytest.importorskip("openpyxl")
COLUMNS = {"score": "s", "outcome": "y", "groups": ["g", "zip"]}


def people(n=200):
    return pd.DataFrame(
        {
            "s": [0.1 + 0.8 * i / n for i in range(n)],
            "y": ["yes" if i % 3 == 0 else "no" for i in range(n)],
            "g": [None if i == 5 else "ab"[i % 2] for i in range(n)],
            "zip": ["02139", "10001"] * (n // 2),
            "seen": [date(2024, 5, 1 + i % 28) for i in range(n)],
            "flag": [i % 2 == 0 for i in range(n)],
        }
    )


def test_a_workbook_gives_the_atoms_of_the_same_csv():
    frame = people()
    frame.to_excel("people.xlsx", index=False)
    frame.to_csv("people.csv", index=False)
    found, expected = (
        Atoms.from_files(f"people.{kind}", **COLUMNS) for kind in ("xlsx", "csv")
    )
    assert found.fingerprint() == expected.fingerprint()
    flagged = [
        Atoms.from_files(f"people.{kind}", **COLUMNS | {"groups": "flag"})
        for kind in ("xlsx", "csv")
    ]
    assert flagged[0].fingerprint() == flagged[1].fingerprint()
    both = Atoms.from_files(["people.xlsx", "people.csv"], **COLUMNS)
    assert both.n_people == 400


@pytest.mark.parametrize("stated", ["A1:F120", "A1:D201", "A1"])
def test_all_cells_are_read_whatever_size_the_sheet_states(stated):
    people().to_excel("people.xlsx", index=False)
    with ZipFile("people.xlsx") as book, ZipFile("edited.xlsx", "w") as edited:
        for name in book.namelist():
            dimension = f'<dimension ref="{stated}"'.encode()
            content, times = re.subn(
                rb'<dimension ref="A1:F201"', dimension, book.read(name)
            )
            assert times == (name == "xl/worksheets/sheet1.xml")
            edited.writestr(name, content)
    columns = COLUMNS | {"groups": ["g", "zip", "flag"]}
    found, expected = (
        Atoms.from_files(f"{name}.xlsx", **columns) for name in ("edited", "people")
    )
    assert found.n_people == 200
    assert found.fingerprint() == expected.fingerprint()


def test_commands_read_workbooks_and_write_other_files(cohort, capfd):
    cohort.to_excel("people.xlsx", index=False)
    columns = ["--score", "score", "--outcome", "y", "--groups", "race,gender"]

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main([*arguments])
        out, err = capfd.readouterr()
        assert end.value.code == code, err
        return err if code else out

    assert run("audit", "people.xlsx", *columns).startswith("Verdict")
    run("fit", "people.xlsx", *columns, "-o", "model.json")
    run("apply", "model.json", "people.xlsx", "--score", "score", "-o", "corrected.csv")
    scored = pd.read_csv("corrected.csv")
    expected = Correction.load("model.json").apply(
        cohort.score, cohort[["race", "gender"]]
    )
    assert scored.corrected.to_numpy() == pytest.approx(expected, abs=1e-15)
    error = run(
        "apply",
        "model.json",
        "people.xlsx",
        "--score",
        "score",
        "-o",
        "corrected.xlsx",
        code=2,
    )
    assert error == (
        "propcal: corrected.xlsx: propcal reads Excel files but does not write them; name a .csv or "
        ".parquet file\n"
    )


def test_only_the_first_sheet_is_read_and_that_is_said():
    with pd.ExcelWriter("people.xlsx") as book:
        people().to_excel(book, sheet_name="visits", index=False)
        people(10).to_excel(book, sheet_name="notes", index=False)
    with pytest.warns(
        UserWarning, match="only the first sheet, 'visits', is read; there is 1 more"
    ):
        assert Atoms.from_files("people.xlsx", **COLUMNS).n_people == 200


def test_what_is_no_table_is_told(monkeypatch):
    book = openpyxl.Workbook()
    book.save("empty.xlsx")
    with pytest.raises(FileFormatError, match="first sheet, 'Sheet', is empty"):
        Atoms.from_files("empty.xlsx", **COLUMNS)
    book.active.append(["s", "y"])
    book.active.append([0.5, 1, "stray"])
    book.save("stray.xlsx")
    with pytest.raises(
        FileFormatError, match="a column of its first sheet has values and no name"
    ):
        Atoms.from_files("stray.xlsx", **COLUMNS)
    people().to_excel("people.xlsx", index=False)
    Path("cut.xlsx").write_bytes(Path("people.xlsx").read_bytes()[:3000])
    with pytest.raises(FileFormatError, match="cannot be read as an Excel workbook"):
        Atoms.from_files("cut.xlsx", **COLUMNS)
    Path("old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(FileFormatError, match=r"old format \(.xls\)"):
        Atoms.from_files("old.xls", **COLUMNS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        InputError, match=r"which needs openpyxl: pip install .*\[excel\]"
    ):
        Atoms.from_files("people.xlsx", **COLUMNS)
