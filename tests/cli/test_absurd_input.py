"""Whatever is absurd ends in one line and exit code 2: never in a trace, never in code
70.
"""

import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propcal import Atoms, Groups, PMCBoost
from propcal.cli import main
from propcal.errors import FileFormatError, InputError

NAMED = {"score": "s", "outcome": "y"}


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "s": rng.random(200).round(3),
            "y": rng.integers(0, 2, 200),
            "g": rng.choice(["a", "b"], 200),
        }
    )
    rows.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def refused(capfd, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    told = capfd.readouterr().err
    assert ended.value.code == 2, told
    assert told.startswith("propcal: ")
    assert told.count("\n") == 1
    assert len(told) < 2000
    return told


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "option",
    [
        ["--resolution", f"2^-{DIGITS}"],
        ["--resolution", f"1/{DIGITS}"],
        ["--resolution", DIGITS],
        ["--memory", "1B"],
        ["--memory", DIGITS + "X"],
        ["--cut", f"s={DIGITS}"],
        ["--cut", "s=1e999"],
        ["--cut", "s=" + ",".join(str(i) for i in range(1000))],
        ["--where", "x=" + "(" * 900 + "g = a" + ")" * 900],
        ["--where", "x=" + "not " * 900 + "g = a"],
        ["--where", f"x=g < {DIGITS}"],
        ["--groups", "a\rb"],
        ["--groups", "g" * 200_000],
        ["--intersections", DIGITS],
        ["--intersections", "²"],
        ["--alpha", "1e999"],
        ["--alpha", "nan"],
        ["--gamma", "-0"],
        ["--n-bins", "10" * 30],
        ["--binning", "0,1e999,1"],
        [
            "--binning",
            ",".join(["0", *(str(i / 20_000) for i in range(1, 20_000)), "1"]),
        ],
        ["--seed", "-1"],
        ["--draws", "9" * 40],
        ["--suppress", "9" * 40],
        ["--fail-on", f"pmc > {DIGITS}x"],
    ],
)
def test_absurd_options_are_refused(folder, capfd, option):
    told = refused(
        capfd,
        "audit",
        folder / "people.csv",
        "--score",
        "s",
        "--outcome",
        "y",
        "--groups",
        "g",
        *option,
    )
    assert DIGITS not in told


@pytest.mark.parametrize(
    "text",
    [
        f"alpha = {DIGITS}",
        f"memory = {'9' * 300}{'X'}",
        "alpha = nan",
        "alpha = [1, 2]",
        "alpha = {a = 1}",
        "alpha = 2020-01-01",
        "n_bins = 1.5",
        "n_bins = true",
        "groups = [[[1]]]",
        "groups = " + "[" * 5000 + "]" * 5000,
        "cut = {s = [1" + "0" * 400 + "]}",
        "cut = {s = [nan]}",
        "cut = 3",
        "where = {x = 3}",
        "force = 3",
        "a" * 100_000 + " = 1",
        "audit = 1",
        ".".join(["a"] * 20_000) + " = 1",
        "[" + ".".join(["a"] * 20_000) + "]",
        "# " + "x" * 100_000,
        "alpha = 1\nalpha = 2",
        "\ufeffalpha = 0.1\n\0",
    ],
)
def test_absurd_configurations_are_refused(folder, capfd, text):
    (folder / "x.toml").write_text(text)
    columns = ["--score", "s", "--outcome", "y"]
    refused(
        capfd, "audit", folder / "people.csv", *columns, "--config", folder / "x.toml"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_and_devices_are_no_files(folder, capfd):
    os.mkfifo(folder / "pipe")
    columns = ["--score", "s", "--outcome", "y", "--groups", "g"]
    for special in (folder / "pipe", "/dev/zero"):
        for command in (
            ["audit", folder / "people.csv", *columns, "--config", special],
            ["audit", folder / "people.csv", *columns, "--correction", special],
            [
                "apply",
                special,
                folder / "people.csv",
                "--score",
                "s",
                "-o",
                folder / "out.csv",
            ],
            ["export", special, "--score", "s"],
        ):
            assert "a pipe or a device" in refused(capfd, *command)


READERS = (
    ["audit"],
    ["fit", "-o", "m.json"],
    ["atoms", "-o", "a.atoms"],
    ["sites", "--site", "g"],
)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_a_pipe_is_refused_before_anything_is_read_from_it(folder, capfd, command):
    """Reading would wait for ever if nobody writes to the pipe."""
    os.mkfifo(folder / "pipe")
    pipe = os.open(folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, b"s,y,g\n")
    told = refused(
        capfd,
        command[0],
        folder / "pipe",
        "--score",
        "s",
        "--outcome",
        "y",
        *command[1:],
    )
    assert "is a pipe or a device, not a file. Save its content to a file first" in told
    assert os.read(pipe, 100) == b"s,y,g\n"
    os.close(pipe)


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_a_link_that_leads_back_to_itself_is_refused(folder, capfd, command):
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    for path in (folder / "a", folder / "a" / "people.csv"):
        told = refused(
            capfd, command[0], path, "--score", "s", "--outcome", "y", *command[1:]
        )
        assert (
            "a symbolic link that points back to itself. Name the file itself" in told
        )
    written = refused(
        capfd,
        "audit",
        folder / "people.csv",
        "--score",
        "s",
        "--outcome",
        "y",
        "-o",
        folder / "a",
    )
    assert "a symbolic link that points back to itself" in written


def test_a_configuration_that_is_no_utf8_is_refused(folder, capfd):
    (folder / "x.toml").write_bytes(b"score = '\xff'")
    assert "is not valid TOML" in refused(
        capfd, "audit", folder / "people.csv", "--config", folder / "x.toml"
    )


def test_more_memory_than_there_can_be_is_as_good_as_all(folder):
    for memory in (2**64, "9" * 400 + "GB", "99999999TB"):
        assert (
            Atoms.from_files(
                folder / "people.csv", **NAMED, memory_limit=memory
            ).n_people
            == 200
        )


@pytest.mark.parametrize("n", [20_000, 100_000])
def test_a_table_of_very_many_columns(tmp_path, n):
    names = ["s", "y", *(f"column number {i}" for i in range(n))]
    path = tmp_path / "wide.csv"
    path.write_text(
        ",".join(names) + "\n" + ",".join(["0.5", "1", *(["x"] * n)]) + "\n"
    )
    if n > 32_768:
        with pytest.raises(
            FileFormatError, match=r"has 100,002 columns; at most 32,768 are read"
        ):
            Atoms.from_files(path, **NAMED)
    else:
        from propcal.reading.csv_parquet_excel import CsvFile

        assert CsvFile(path).names == names


def test_a_first_line_without_end(tmp_path):
    for text, why in (
        ("x" * 200_000, "cannot be read"),
        ("a,b," * 5_000_000, "cannot be read"),
    ):
        (tmp_path / "line.csv").write_text(text)
        with pytest.raises(FileFormatError, match=why):
            Atoms.from_files(tmp_path / "line.csv", **NAMED)


NESTED = {
    "list": pa.array([["a"]] * 60),
    "struct": pa.array([{"a": 1}] * 60),
    "map": pa.array([[("k", 1)]] * 60, pa.map_(pa.string(), pa.int64())),
    "list of lists": pa.array([[[1]]] * 60),
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("role", ["s", "y", "g"])
def test_lists_and_records_are_no_columns_of_people(tmp_path, kind, role):
    table = pa.table(
        {"s": [0.5] * 60, "y": [0, 1] * 30, "g": ["a", "a", "b", "b"] * 15}
    )
    outcome = ([1, 1, 0, 0, 1, 0, 1, 0] * 8)[
        :60
    ]  # more often in group a: the correction reads the groups
    model = (
        PMCBoost.paper()
        .fit(table["s"], outcome, sensitive_features=table.select(["g"]))
        .correction_
    )
    nested = table.set_column(table.column_names.index(role), role, NESTED[kind])
    pq.write_table(nested, tmp_path / "x.parquet")
    for groups in (
        "g",
        Groups(columns=[], where={"w": "g = a"}),
        Groups(columns=[], where={"w": "g is missing"}),
    ):
        if (
            role == "g"
            and not isinstance(groups, str)
            and groups.where["w"] == "g is missing"
        ):
            continue
        with pytest.raises(InputError, match=r"hold|contain|numeric"):
            Atoms.from_files(tmp_path / "x.parquet", **NAMED, groups=groups)
        with pytest.raises(InputError, match=r"hold|contain|numeric"):
            Atoms.from_frame(nested, **NAMED, groups=groups)
    if role != "y":
        with pytest.raises(InputError, match=r"hold|contain|numeric"):
            model.apply("s", nested)


def test_texts_that_are_no_unicode_are_refused():
    half = pd.DataFrame(
        {"s": 0.5, "y": [0, 1] * 30, "g": pd.Series(["\ud800", "b"] * 30, dtype=object)}
    )
    mixed = pd.DataFrame(
        {"s": 0.5, "y": [0, 1] * 30, "g": pd.Series(["\ud800", 1] * 30, dtype=object)}
    )
    for rows in (half, mixed):
        for call in (
            lambda rows=rows: Atoms.from_frame(rows, **NAMED, groups=["g"]),
            lambda rows=rows: PMCBoost().fit(
                rows["s"], rows["y"], sensitive_features=list(rows["g"])
            ),
            lambda rows=rows: PMCBoost().fit(
                rows["s"], rows["y"], sensitive_features={"g": rows["g"]}
            ),
        ):
            with pytest.raises(InputError, match="Unicode"):
                call()
    with pytest.raises(InputError, match="Unicode"):
        PMCBoost().fit([0.1, 0.2], [0, 1], sensitive_features={"\ud800": ["a", "b"]})
    with pytest.raises(InputError, match="Unicode"):
        Groups(where={"x": "a = '\ud800'"})


def test_absurd_numbers_in_python():
    for settings in (
        {"alpha": 10**400},
        {"n_bins": 10**5000},
        {"binning": [0, 10**400, 1]},
        {"gamma": "x"},
    ):
        with pytest.raises(InputError):
            PMCBoost(**settings).fit([0.1, 0.2] * 30, [0, 1] * 30)


def test_a_model_of_json_that_is_none(folder, capfd):
    for text in (
        "[" * 100_000,
        '{"format": ' + DIGITS + "}",
        '"\\ud800"',
        json.dumps({"a": 1}) * 2,
    ):
        (folder / "model.json").write_text(text)
        arguments = [folder / "people.csv", "--score", "s", "-o", folder / "out.csv"]
        assert "is not a correction file" in refused(
            capfd, "apply", folder / "model.json", *arguments
        )
