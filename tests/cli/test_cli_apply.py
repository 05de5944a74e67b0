"""`propcal apply`: the library's scores, and files that are whole or as they were."""

import gzip
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from first_cases import first
from propcal import Atoms, Correction
from propcal import interrupts as stopping
from propcal.cli import main

COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


def read(path):
    """A file as its columns, every number to the last digit."""
    if str(path).endswith(".parquet"):
        return pd.read_parquet(path)
    options = pa_csv.ConvertOptions(
        column_types={"zip": pa.string()}, strings_can_be_null=True
    )
    delimiter = "\t" if ".tsv" in str(path) else ","
    parse = pa_csv.ParseOptions(delimiter=delimiter)
    return pa_csv.read_csv(
        path, parse_options=parse, convert_options=options
    ).to_pandas()


@pytest.mark.parametrize("source", ["past.csv", "past.csv.gz", "past.parquet"])
@pytest.mark.parametrize(
    "target", ["out.csv", "out.csv.gz", "out.tsv", "out.csv.zst", "out.parquet"]
)
def test_apply_writes_what_the_library_computes(
    files, model, run, source, target, monkeypatch
):
    monkeypatch.setattr("propcal.reading.people_files.BATCH_ROWS", 700)
    files.to_csv("past.csv.gz", index=False)
    assert "3,000 rows" in run(
        "apply", "model.json", source, "--score", "risk", "-o", target
    )
    written = read(target)
    assert list(written) == [*files, "corrected"]
    assert np.array_equal(written.corrected, model.apply(files.risk, files))
    for name in files:
        same = written[name].astype(object).where(written[name].notna(), None).tolist()
        assert (
            same == files[name].astype(object).where(files[name].notna(), None).tolist()
        ), name


def test_apply_leaves_the_text_of_a_csv_as_it_is(model, run):
    rows = ['"a, ""b""",F,0.50,02139,', "Asian,M,1e-3,007,x;y", ",F,.25,,\u00e9"]
    Path("new.csv").write_text("race,gender,risk,zip,free\n" + "\n".join(rows) + "\n")
    run(
        "apply",
        "model.json",
        "new.csv",
        "--score",
        "risk",
        "-o",
        "out.csv",
        "--column",
        "better",
    )
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "race,gender,risk,zip,free,better"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == rows


def test_a_semicolon_file_stays_one_and_extra_names_may_repeat(model, run):
    Path("new.csv").write_text("race;gender;risk;x;x\nAsian;F;0.5;1;2\n")
    run("apply", "model.json", "new.csv", "--score", "risk", "-o", "out.csv")
    assert (
        Path("out.csv")
        .read_text()
        .startswith("race;gender;risk;x;x;corrected\nAsian;F;0.5;1;2;0.")
    )


def test_groups_in_words_are_applied_to_files(files, run):
    run(
        "fit",
        "past.csv",
        *COLUMNS,
        "--cut",
        "age=40,65",
        "--where",
        "old=age >= 75",
        "-o",
        "model.json",
    )
    files.assign(age=[f"0{a}" for a in files.age]).to_csv(
        "zeros.csv", index=False
    )  # still numbers: they are cut
    model = Correction.load("model.json")
    for source in ("past.csv", "zeros.csv"):
        run(
            "apply",
            "model.json",
            source,
            "--score",
            "risk",
            "-o",
            "out.parquet",
            "--force",
        )
        assert np.array_equal(
            read("out.parquet").corrected, model.apply(files.risk, files)
        )


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, ("--score", "rsk"), "Did you mean 'risk'"),
        (
            {"risk": 45.0},
            (),
            "3,000 of 3,000 values are outside that range. If these are percentages",
        ),
        ({"risk": None}, (), "3,000 of 3,000 values are missing"),
        ({"risk": "45%"}, (), "3,000 end with a percent sign"),
        ({}, ("--column", ""), "--column is empty"),
        (
            {"corrected": 1},
            (),
            "already has a column 'corrected'. Choose another name with --column",
        ),
        (
            {},
            ("--unseen", "ignore"),
            "--unseen must be one of 'replay', 'keep', 'error'",
        ),
        (
            {"race": "other"},
            ("--unseen", "error"),
            "that did not occur in the fitting data",
        ),
    ],
)
def test_apply_tells_what_is_wrong_and_writes_nothing(
    files, model, run, monkeypatch, change, arguments, message
):
    monkeypatch.setattr("propcal.reading.people_files.BATCH_ROWS", 700)
    files.assign(**change).to_csv("new.csv", index=False)
    error = run(
        "apply",
        "model.json",
        "new.csv",
        "--score",
        "risk",
        *arguments,
        "-o",
        "out.csv",
        code=2,
    )
    assert error.startswith("propcal: ")
    assert error.count("\n") == 1
    assert message in error
    assert not Path("out.csv").exists()
    assert not list(Path().glob(".propcal*"))


def test_a_column_coded_in_another_way_is_told_once(
    files, model, run, capfd, monkeypatch
):
    monkeypatch.setattr("propcal.reading.people_files.BATCH_ROWS", 700)
    files.assign(gender="x").to_csv("new.csv", index=False)
    with pytest.raises(SystemExit):
        main(["apply", "model.json", "new.csv", "--score", "risk", "-o", "out.csv"])
    err = capfd.readouterr().err
    assert (
        err.count("'gender': none of the 3,000 values occurred in the fitting data")
        == 1
    )
    files.sort_values("gender").to_csv("sorted.csv", index=False)
    run(
        "apply",
        "model.json",
        "sorted.csv",
        "--score",
        "risk",
        "-o",
        "out.csv",
        "--force",
    )


def test_what_cannot_be_written_is_told_before_the_work(files, model, run):
    Path("out.csv").write_text("old")
    for output, message in (
        ("out.csv", "propcal: out.csv already exists. Use --force to replace it"),
        ("no/out.csv", "there is no folder"),
        ("no/folder/", "there is no folder no"),
        ("out.xlsx", "does not write them; name a .csv or .parquet file"),
        ("out.doc", "must end in .csv, .csv.gz, .csv.zst, .tsv or .parquet"),
        ("out", "must end in"),
    ):
        error = run(
            "apply",
            "model.json",
            "missing.csv",
            "--score",
            "risk",
            "-o",
            output,
            code=2,
        )
        assert message in error
    assert "model.json already exists" in run(
        "fit", "missing.csv", *COLUMNS, "-o", "model.json", code=2
    )
    assert Path("out.csv").read_text() == "old"


def test_a_folder_that_is_not_writable_is_told(model, run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    error = run(
        "apply", "model.json", "missing.csv", "--score", "risk", "-o", "out.csv", code=2
    )
    assert "is not writable" in error


def test_a_terminated_apply_leaves_the_old_file_whole_and_no_rows_behind(
    files, model, run, monkeypatch
):
    Path("out.csv").write_text("old")
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}

    def terminated(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)  # as a scheduler does
        time.sleep(5)

    monkeypatch.setattr(
        "propcal.core.correction.correction.Correction.apply_to_rows", terminated
    )
    try:
        run(
            "apply",
            "model.json",
            "past.csv",
            "--score",
            "risk",
            "-o",
            "out.csv",
            "--force",
            code=143,
        )
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    assert Path("out.csv").read_text() == "old"
    assert not list(Path().glob(".propcal-*"))


class Lost:
    def __del__(self):  # what is raised here nobody can catch
        stopping.ask(signal.SIGTERM)


def test_an_error_that_a_stop_leads_to_is_told_as_that_stop(
    files, model, run, monkeypatch
):
    def broken(*_, **__):
        Lost()  # gone at once
        raise AttributeError("a module that is half imported")

    monkeypatch.setattr(
        "propcal.core.correction.correction.Correction.apply_to_rows", broken
    )
    error = run(
        "apply", "model.json", "past.csv", "--score", "risk", "-o", "out.csv", code=143
    )
    assert error == "propcal: interrupted; no file was changed\n"
    assert not Path("out.csv").exists()
    assert stopping.asked() is None  # the next command in this process may work


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.parquet"])
def test_an_interrupted_apply_leaves_the_old_file_whole(
    files, model, run, monkeypatch, target
):
    Path(target).write_text("old")

    def interrupt(*arguments, **kw):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "propcal.core.correction.correction.Correction.apply_to_rows", interrupt
    )
    arguments = (
        "apply",
        "model.json",
        "past.csv",
        "--score",
        "risk",
        "-o",
        target,
        "--force",
    )
    assert run(*arguments, code=130) == "propcal: interrupted; no file was changed\n"
    assert Path(target).read_text() == "old"
    assert not list(Path().glob(".propcal*"))


@pytest.mark.parametrize("target", first(1, ["out.parquet", "out.csv", "out.csv.gz"]))
def test_a_full_disk_leaves_the_old_file_whole(files, model, target):
    Path(target).write_text("old")
    rng = np.random.default_rng(0)
    pd.concat([files] * 20).assign(noise=rng.random(20 * len(files))).to_csv(
        "new.csv", index=False
    )

    def little_room():  # writing beyond it fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [
        sys.executable,
        "-m",
        "propcal",
        "apply",
        "model.json",
        "new.csv",
        "--score",
        "risk",
    ]
    done = subprocess.run(
        [*command, "-o", target, "--force"],
        preexec_fn=little_room,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("propcal: ")
    assert done.stderr.count("\n") == 1
    assert Path(target).read_text() == "old"
    assert not list(Path().glob(".propcal*"))


def test_a_progress_bar_is_shown_on_a_terminal_only(files, model, capfd, monkeypatch):
    arguments = ["apply", "model.json", "past.csv", "--score", "risk", "--force", "-o"]
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for shown in (False, True):
        if shown:
            monkeypatch.setenv(
                "FORCE_COLOR", "1"
            )  # rich takes everything for a terminal then
        with pytest.raises(SystemExit):
            main([*arguments, "out.csv"])
        out, err = capfd.readouterr()
        assert (
            out
            == "3,000 rows with their corrected score in column 'corrected': out.csv\n"
        )
        assert ("Correcting" in err) is shown


def test_gzip_output_is_gzip(files, model, run):
    run("apply", "model.json", "past.csv", "--score", "risk", "-o", "out.csv.gz")
    with gzip.open("out.csv.gz", "rt") as file:
        assert file.readline().strip().endswith(",corrected")


def test_what_is_no_correction_is_told_in_one_line(files, run):
    for name, message in (
        ("past.csv", "not a correction file"),
        ("no.json", "no.json"),
    ):
        error = run("apply", name, "past.csv", "--score", "risk", "-o", "o.csv", code=2)
        assert error.startswith("propcal: ")
        assert error.count("\n") == 1
        assert message in error
        assert not Path("o.csv").exists()


def test_atoms_are_no_people(files, model, run):
    Atoms.from_frame(files, score="risk", outcome="y", groups=["race"]).save(
        "past.atoms"
    )
    error = run(
        "apply", "model.json", "past.atoms", "--score", "risk", "-o", "o.csv", code=2
    )
    assert "is an atoms file; this needs one row per person" in error


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (-1, "usually mean missing; --invalid null leaves their corrected score empty"),
        (
            1234.5,
            "are outside that range; --invalid null leaves their corrected score empty",
        ),
        ("inf", "are infinite; --invalid null leaves their corrected score empty"),
        ("", "are missing; --invalid null leaves their corrected score empty"),
    ],
)
def test_what_apply_cannot_score_is_told_with_what_apply_can_do(
    files, model, run, value, told
):
    files.assign(
        risk=files.risk.astype(object).where(files.index % 50 > 0, value)
    ).to_csv("gaps.csv", index=False)
    error = run(
        "apply", "model.json", "gaps.csv", "--score", "risk", "-o", "out.csv", code=2
    )
    assert told in error
    assert "--drop-missing" not in error


def test_a_folder_that_appears_meanwhile_is_used(files, model, run, monkeypatch):
    make = Path.mkdir

    def twice(folder, *args, **settings):
        make(folder, *args, **settings)
        make(folder, *args, **settings)

    monkeypatch.setattr(Path, "mkdir", twice)
    run("apply", "model.json", "past.csv", "--score", "risk", "-o", "fresh/")
    assert Path("fresh/past.csv").exists()


def test_names_of_files_reach_the_terminal_without_control_characters(
    files, model, run
):
    out = run(
        "apply", "model.json", "past.csv", "--score", "risk", "-o", "a\x1b[2Jb.csv"
    )
    assert "a?[2Jb.csv" in out
    out = run("fit", "past.csv", *COLUMNS, "-o", "m\x1b[2J.json")
    out += run("audit", "past.csv", *COLUMNS, "-o", "a\x1b[2J.json")
    out += run("atoms", "past.csv", *COLUMNS, "-o", "a\x1b[2J.atoms")
    assert "\x1b" not in out
    assert out.count("?[2J") >= 5
