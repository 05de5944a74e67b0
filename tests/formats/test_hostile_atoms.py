"""Files of atoms with sums that no people can have, or more rows than memory has room
for.
"""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propcal import Atoms
from propcal.core.reduction import merge
from propcal.errors import FileFormatError
from propcal.formats import atoms_file
from propcal.formats.atoms_file import atoms_of_table


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", None], 500),
            "s": rng.integers(0, 9, 500) / 8,
            "y": rng.integers(0, 2, 500),
            "w": rng.gamma(2, 1, 500) + 0.01,
        }
    )
    path = tmp_path / "survey.atoms"
    Atoms.from_frame(rows, score="s", outcome="y", groups=["g"], weight="w").save(path)
    return path


def edit(path, column, value, row=3):
    """Change one number, and the fingerprint with it, as whoever means harm would."""
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"propcal"])
    values = table[column].to_pylist()
    values[row] = value
    kind = pa.float64() if isinstance(value, float) else table[column].type
    table = table.set_column(
        table.column_names.index(column), column, pa.array(values, kind)
    )
    pq.write_table(table.replace_schema_metadata({"propcal": json.dumps(header)}), path)
    return table, header


@pytest.mark.parametrize(
    "column", ["people", "weight", "weight_sq", "positives", "positives_sq"]
)
@pytest.mark.parametrize(
    "value", [0, -1, 2**62, float("nan"), float("inf"), -0.5, 1e300, 1e-9, None]
)
def test_sums_that_no_people_can_have_are_refused(survey, column, value):
    if column in ("positives", "positives_sq") and value == 1e-9:
        value = 1e5
    if column == "people" and isinstance(value, float):
        pytest.skip("a column of another type is another test")
    value = value if value is None or column == "people" else float(value)
    edit(survey, column, value)
    with pytest.raises(FileFormatError) as refused:
        Atoms.load(survey)
    assert "content was changed" not in str(
        refused.value
    )  # found by what it is, not by the fingerprint


def test_what_is_checked_holds_for_honest_weights(tmp_path):
    rng = np.random.default_rng(1)
    for scale in (1e-160, 1e-3, 1.0, 1e14):
        rows = pd.DataFrame(
            {
                "s": rng.integers(0, 3, 2000) / 2,
                "y": rng.random(2000),
                "w": rng.random(2000) * scale,
            }
        )
        made = Atoms.from_frame(
            rows, score="s", outcome="y", weight="w", weight_kind="survey"
        )
        for atoms in (made, merge(made, made)):
            atoms.save(tmp_path / "x.atoms")
            assert Atoms.load(tmp_path / "x.atoms").fingerprint() == atoms.fingerprint()


@pytest.mark.parametrize("column", ["people", "weight", "positives"])
def test_columns_of_another_type_are_refused(survey, column):
    table = pq.read_table(survey)
    place = table.column_names.index(column)
    for values in (
        [[1.0]] * len(table),
        [{"a": 1}] * len(table),
        ["1"] * len(table),
        [True] * len(table),
        pa.nulls(len(table)),
        pa.array(np.ones(len(table), np.float32)),
        pa.array(np.ones(len(table), np.uint64)),
    ):
        other = table.set_column(
            place, column, pa.array(values) if isinstance(values, list) else values
        )
        pq.write_table(other, survey)
        with pytest.raises(FileFormatError, match="damaged"):
            Atoms.load(survey)


def test_attributes_that_are_lists_or_numbers_are_refused(survey):
    table = pq.read_table(survey)
    for values in (
        [["a"]] * len(table),
        [{"a": 1}] * len(table),
        [1] * len(table),
        [b"\xff"] * len(table),
    ):
        pq.write_table(table.set_column(0, "attribute:g", pa.array(values)), survey)
        with pytest.raises(FileFormatError, match="an attribute is not text"):
            Atoms.load(survey)


def test_more_people_than_can_be_counted_are_refused(survey):
    table, header = edit(survey, "people", 2**31)
    with pytest.raises(FileFormatError, match="people"):
        Atoms.load(survey)
    with pytest.raises(FileFormatError, match="weighted_rows"):
        atoms_of_table(table, {**header, "weighted_rows": 10**30})


def test_rows_are_counted_before_they_are_read(survey, monkeypatch):
    monkeypatch.setattr(atoms_file, "machine_memory", lambda: 2000)
    monkeypatch.setattr(atoms_file, "_read", lambda *_: pytest.fail("a row was read"))
    with pytest.raises(
        FileFormatError,
        match=r"has 2\d rows, which need 0.0 GB of memory; this machine",
    ):
        Atoms.load(survey)


def test_a_small_file_of_very_many_rows_is_refused(tmp_path, monkeypatch):
    n = 3_000_000
    ones, zeros = np.ones(n, np.int64), np.zeros(n, np.int64)
    sums = {
        "people": ones,
        "weight": ones,
        "weight_sq": ones,
        "positives": zeros,
        "positives_sq": zeros,
    }
    header = {"format": "propcal-atoms", "version": 1, "derived": {}, "fingerprint": ""}
    table = pa.table({"score": np.arange(n, dtype=np.int64), **sums})
    path = tmp_path / "bomb.atoms"
    pq.write_table(
        table.replace_schema_metadata({"propcal": json.dumps(header)}),
        path,
        compression="zstd",
        use_dictionary=list(sums),
        column_encoding={"score": "DELTA_BINARY_PACKED"},
    )
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(atoms_file, "machine_memory", lambda: 400 << 20)
    before = pa.total_allocated_bytes()
    with pytest.raises(
        FileFormatError, match=r"has 3,000,000 rows, which need 0.4 GB of memory"
    ) as refused:
        Atoms.load(path)
    assert "resolution=2**-16" in str(refused.value)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_the_memory_of_a_container_counts(tmp_path, monkeypatch):
    assert atoms_file.machine_memory() > 0
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "unlimited").write_text("max\n")
    monkeypatch.setattr(
        atoms_file,
        "CGROUPS",
        (str(tmp_path / "memory.max"), str(tmp_path / "unlimited")),
    )
    assert atoms_file.machine_memory() == 1_000_000


def test_a_header_that_is_nested_is_no_header(survey):
    table = pq.read_table(survey)
    for header in (
        "[" * 100_000,
        '{"format": "propcal-atoms", "version": 1' + "0" * 5000 + "}",
        "\\ud800",
    ):
        pq.write_table(table.replace_schema_metadata({"propcal": header}), survey)
        with pytest.raises(FileFormatError, match="not an atoms file"):
            Atoms.load(survey)


def test_a_place_that_a_dictionary_does_not_have_is_damage(survey, monkeypatch):
    table = pq.read_table(survey)
    places = pa.array([5] * len(table), pa.int32())
    wrong = pa.DictionaryArray.from_arrays(places, pa.array(["a", "b"]), safe=False)
    monkeypatch.setattr(
        pq.ParquetFile,
        "read",
        lambda *_, **__: table.set_column(0, "attribute:g", wrong),
    )
    with pytest.raises(FileFormatError, match="damaged: it cannot be read to its end"):
        Atoms.load(survey)
