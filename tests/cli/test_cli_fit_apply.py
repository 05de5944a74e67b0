"""`propcal fit` and `propcal apply`: the library's numbers, and files that are whole or as they were."""

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

from propcal import Atoms, Correction, Groups, MCBoost, PMCBoost
from propcal import interrupts as stopping
from propcal.cli import main

CANARY = "canary-7f3a"
COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


@pytest.fixture(scope="module")
def people(cohort):
    n = len(cohort)
    extra = {"age": np.arange(n) % 90, "zip": "02139", "id": [f"{CANARY}-{i}" for i in range(n)]}
    return cohort.rename(columns={"score": "risk"}).assign(**extra)


@pytest.fixture
def files(people):
    people.to_csv("past.csv", index=False)
    people.to_parquet("past.parquet")
    return people


@pytest.fixture
def run(capfd):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capfd.readouterr()
        assert end.value.code == code, err
        assert CANARY not in out + err
        assert "Traceback" not in err
        return err if code else out

    return call


@pytest.fixture
def model(files, run):
    run("fit", "past.csv", *COLUMNS, "-o", "model.json")
    return Correction.load("model.json")


def read(path):
    """A file as its columns, every number to the last digit."""
    if str(path).endswith(".parquet"):
        return pd.read_parquet(path)
    options = pa_csv.ConvertOptions(column_types={"zip": pa.string()}, strings_can_be_null=True)
    delimiter = "\t" if ".tsv" in str(path) else ","
    parse = pa_csv.ParseOptions(delimiter=delimiter)
    return pa_csv.read_csv(path, parse_options=parse, convert_options=options).to_pandas()


@pytest.mark.parametrize("source", ["past.csv", "past.parquet", "past.atoms"])
def test_fit_learns_what_the_library_learns(files, run, source):
    atoms = Atoms.from_frame(files, score="risk", outcome="y", groups=["race", "gender"])
    atoms.save("past.atoms")
    columns = () if source.endswith("atoms") else COLUMNS
    said = run("fit", source, *columns, "--alpha", "0.1", "-o", "model.json")
    expected = PMCBoost(alpha=0.1).fit(files.risk, files.y, sensitive_features=files[["race", "gender"]])
    assert Path("model.json").read_text() == expected.correction_.to_json()
    assert expected.certificate_.sentences()[0] in said
    assert "propcal apply model.json new.csv" in said


def test_every_option_of_fit_reaches_the_method(files, run):
    words = ("--cut", "age=40,65", "--where", "elderly=age >= 75 and gender = F", "--intersections", "2")
    numbers = ("--gamma", "0.02", "--rho", "0.2", "--n-bins", "5", "--eta", "0.5", "--max-updates", "20000")
    more = ("--binning", "geometric", "--missing", "exclude", "--unseen", "keep", "--seed", "1")
    run("fit", "past.csv", *COLUMNS, *words, *numbers, *more, "--method", "mcboost", "-o", "model.json")
    groups = Groups(
        columns=["race", "gender"],
        cuts={"age": [40, 65]},
        where={"elderly": "age >= 75 and gender = F"},
        intersections=2,
        missing="exclude",
    )
    expected = MCBoost(
        gamma=0.02,
        rho=0.2,
        n_bins=5,
        eta=0.5,
        max_updates=20_000,
        binning="geometric",
        unseen="keep",
        groups=groups,
    ).fit(files.risk, files.y, sensitive_features=files)
    assert Path("model.json").read_text() == expected.correction_.to_json()


def test_the_paper_s_settings_and_edges(files, run):
    run("fit", "past.csv", *COLUMNS, "--paper", "--binning", "0,0.2,1", "-o", "model.json")
    about = Correction.load("model.json")
    assert (about.about["alpha"], len(about.bins)) == (0.1, 2)


@pytest.mark.parametrize(("typed", "guard"), [("none", None), ("2.5", 2.5), ("noise", "noise")])
def test_start_and_guard_reach_the_method(files, run, typed, guard):
    run("fit", "past.csv", *COLUMNS, "--start", "identity", "--guard", typed, "-o", "model.json")
    expected = PMCBoost(start="identity", guard=guard)
    expected.fit(files.risk, files.y, sensitive_features=files[["race", "gender"]])
    assert Path("model.json").read_text() == expected.correction_.to_json()


def test_fit_weighs_people_and_tells_who_is_left_out(files, run):
    files.assign(w=np.arange(len(files)) % 3 + 1).to_csv("weighted.csv", index=False)
    said = run("fit", "weighted.csv", *COLUMNS, "--weight", "w", "--gamma", "0.2", "-o", "model.json")
    assert "Left out, " in said
    assert "share below gamma=0.2" in said
    weight = np.arange(len(files)) % 3 + 1
    expected = PMCBoost(gamma=0.2).fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]], sample_weight=weight
    )
    assert Path("model.json").read_text() == expected.correction_.to_json()


def test_a_fit_that_stops_early_says_so_in_a_line(files, run, capfd):
    with pytest.raises(SystemExit):
        main(["fit", "past.csv", *COLUMNS, "--paper", "--max-updates", "1", "-o", "model.json"])
    err = capfd.readouterr().err
    assert err.startswith("propcal: note: PMCBoost stopped after 1 updates")
    assert ".py" not in err


@pytest.mark.parametrize("source", ["past.csv", "past.csv.gz", "past.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.tsv", "out.csv.zst", "out.parquet"])
def test_apply_writes_what_the_library_computes(files, model, run, source, target, monkeypatch):
    monkeypatch.setattr("propcal.data.files.text_file.BATCH_ROWS", 700)
    monkeypatch.setattr("propcal.data.files.formats.BATCH_ROWS", 700)
    files.to_csv("past.csv.gz", index=False)
    assert "3,000 rows" in run("apply", "model.json", source, "--score", "risk", "-o", target)
    written = read(target)
    assert list(written) == [*files, "corrected"]
    assert np.array_equal(written.corrected, model.apply(files.risk, files))
    for name in files:
        same = written[name].astype(object).where(written[name].notna(), None).tolist()
        assert same == files[name].astype(object).where(files[name].notna(), None).tolist(), name


def test_apply_leaves_the_text_of_a_csv_as_it_is(model, run):
    rows = ['"a, ""b""",F,0.50,02139,', "Asian,M,1e-3,007,x;y", ",F,.25,,\u00e9"]
    Path("new.csv").write_text("race,gender,risk,zip,free\n" + "\n".join(rows) + "\n")
    run("apply", "model.json", "new.csv", "--score", "risk", "-o", "out.csv", "--column", "better")
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "race,gender,risk,zip,free,better"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == rows


def test_a_semicolon_file_stays_one_and_extra_names_may_repeat(model, run):
    Path("new.csv").write_text("race;gender;risk;x;x\nAsian;F;0.5;1;2\n")
    run("apply", "model.json", "new.csv", "--score", "risk", "-o", "out.csv")
    assert Path("out.csv").read_text().startswith("race;gender;risk;x;x;corrected\nAsian;F;0.5;1;2;0.")


def test_apply_may_replace_the_file_it_reads(files, model, run):
    run("apply", "model.json", "past.csv", "--score", "risk", "-o", "past.csv", "--force")
    assert np.array_equal(read("past.csv").corrected, model.apply(files.risk, files))


def test_groups_in_words_are_applied_to_files(files, run):
    run("fit", "past.csv", *COLUMNS, "--cut", "age=40,65", "--where", "old=age >= 75", "-o", "model.json")
    files.assign(age=[f"0{a}" for a in files.age]).to_csv(
        "zeros.csv", index=False
    )  # still numbers: they are cut
    model = Correction.load("model.json")
    for source in ("past.csv", "zeros.csv"):
        run("apply", "model.json", source, "--score", "risk", "-o", "out.parquet", "--force")
        assert np.array_equal(read("out.parquet").corrected, model.apply(files.risk, files))


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, ("--score", "rsk"), "Did you mean 'risk'"),
        ({"risk": 45.0}, (), "3,000 of 3,000 values lie outside. Percentages?"),
        ({"risk": None}, (), "3,000 of 3,000 values are missing"),
        ({"risk": "45%"}, (), "3,000 end with a percent sign"),
        ({"corrected": 1}, (), "has a column 'corrected' already; name another with --column"),
        ({}, ("--unseen", "ignore"), "--unseen must be one of 'replay', 'keep', 'error'"),
        ({"race": "other"}, ("--unseen", "error"), "rows have combinations it never saw"),
    ],
)
def test_apply_tells_what_is_wrong_and_writes_nothing(
    files, model, run, monkeypatch, change, arguments, message
):
    monkeypatch.setattr("propcal.data.files.text_file.BATCH_ROWS", 700)
    files.assign(**change).to_csv("new.csv", index=False)
    error = run("apply", "model.json", "new.csv", "--score", "risk", *arguments, "-o", "out.csv", code=2)
    assert error.startswith("propcal: ")
    assert error.count("\n") == 1
    assert message in error
    assert not Path("out.csv").exists()
    assert not list(Path().glob(".propcal*"))


def test_a_column_coded_in_another_way_is_told_once(files, model, run, capfd, monkeypatch):
    monkeypatch.setattr("propcal.data.files.text_file.BATCH_ROWS", 700)
    files.assign(gender="x").to_csv("new.csv", index=False)
    with pytest.raises(SystemExit):
        main(["apply", "model.json", "new.csv", "--score", "risk", "-o", "out.csv"])
    err = capfd.readouterr().err
    assert err.count("none of the 3,000 values of 'gender' occurred in fitting") == 1
    files.sort_values("gender").to_csv("sorted.csv", index=False)
    run("apply", "model.json", "sorted.csv", "--score", "risk", "-o", "out.csv", "--force")


def test_what_cannot_be_written_is_told_before_the_work(files, model, run):
    Path("out.csv").write_text("old")
    for output, message in (
        ("out.csv", "propcal: out.csv exists; --force replaces it"),
        ("no/out.csv", "there is no folder"),
        ("no/folder/", "there is no folder no"),
        ("out.xlsx", "must end in .csv, .csv.gz, .csv.zst, .tsv or .parquet"),
        ("out", "must end in"),
    ):
        error = run("apply", "model.json", "missing.csv", "--score", "risk", "-o", output, code=2)
        assert message in error
    assert "model.json exists" in run("fit", "missing.csv", *COLUMNS, "-o", "model.json", code=2)
    assert Path("out.csv").read_text() == "old"


def test_a_folder_that_is_not_writable_is_told(model, run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    error = run("apply", "model.json", "missing.csv", "--score", "risk", "-o", "out.csv", code=2)
    assert "is not writable" in error


def test_a_terminated_apply_leaves_the_old_file_whole_and_no_rows_behind(files, model, run, monkeypatch):
    Path("out.csv").write_text("old")
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGHUP)}

    def terminated(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)  # as a scheduler does
        time.sleep(5)

    monkeypatch.setattr("propcal.core.correction.correction.Correction.apply_to_patterns", terminated)
    try:
        run("apply", "model.json", "past.csv", "--score", "risk", "-o", "out.csv", "--force", code=143)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    assert Path("out.csv").read_text() == "old"
    assert not list(Path().glob(".propcal-*"))


class Lost:
    def __del__(self):  # what is raised here nobody can catch
        stopping.ask(signal.SIGTERM)


def test_an_error_that_a_stop_leads_to_is_told_as_that_stop(files, model, run, monkeypatch):
    def broken(*_, **__):
        Lost()  # gone at once
        raise AttributeError("a module that is half imported")

    monkeypatch.setattr("propcal.core.correction.correction.Correction.apply_to_patterns", broken)
    error = run("apply", "model.json", "past.csv", "--score", "risk", "-o", "out.csv", code=143)
    assert error == "propcal: interrupted; files are as they were\n"
    assert not Path("out.csv").exists()
    assert stopping.asked() is None  # the next command in this process may work


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.parquet"])
def test_an_interrupted_apply_leaves_the_old_file_whole(files, model, run, monkeypatch, target):
    Path(target).write_text("old")

    def interrupt(*arguments, **kw):
        raise KeyboardInterrupt

    monkeypatch.setattr("propcal.core.correction.correction.Correction.apply_to_patterns", interrupt)
    arguments = ("apply", "model.json", "past.csv", "--score", "risk", "-o", target, "--force")
    assert run(*arguments, code=130) == "propcal: interrupted; files are as they were\n"
    assert Path(target).read_text() == "old"
    assert not list(Path().glob(".propcal*"))


@pytest.mark.parametrize("target", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_full_disk_leaves_the_old_file_whole(files, model, target):
    Path(target).write_text("old")
    rng = np.random.default_rng(0)
    pd.concat([files] * 20).assign(noise=rng.random(20 * len(files))).to_csv("new.csv", index=False)

    def little_room():  # writing beyond it fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "propcal", "apply", "model.json", "new.csv", "--score", "risk"]
    done = subprocess.run(
        [*command, "-o", target, "--force"], preexec_fn=little_room, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("propcal: ")
    assert done.stderr.count("\n") == 1
    assert Path(target).read_text() == "old"
    assert not list(Path().glob(".propcal*"))


def test_options_from_a_file(files, run):
    Path("propcal.toml").write_text(
        'score = "risk"\noutcome = "y"\ngroups = ["race", "gender"]\nn-bins = 5\n'
        '[fit]\nalpha = 0.2\npaper = true\n[fit.cut]\nage = [40, 65]\n[fit.where]\nold = "age >= 75"\n'
        '[apply]\ncolumn = "better"\n'
    )
    run("fit", "past.csv", "--config", "propcal.toml", "--alpha", "0.3", "-o", "model.json")
    model = Correction.load("model.json")
    assert (model.about["alpha"], len(model.bins)) == (0.3, 5)  # the command line wins
    assert model.attributes == ("race", "gender", "age", "old")
    run("apply", "model.json", "past.csv", "--config", "propcal.toml", "-o", "out.csv")
    assert list(read("out.csv"))[-1] == "better"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("alhpa = 0.1", "there is no option 'alhpa'. Did you mean 'alpha'?"),
        ("[fit]\ncolumn = 'x'", "[fit]: there is no option 'column'"),
        ("[fitt]\nalpha = 0.1", "there is no option 'fitt'. Did you mean 'fit'?"),
        ("fit = 5", "'fit' is a command; its options stand in a table [fit]"),
        ("alpha = [", "propcal.toml is no TOML"),
        ("[fit]\npaper = 5", "'paper' must be true or false"),
        ("alpha = 'x'", "Invalid value for '--alpha'"),
    ],
)
def test_a_config_that_is_wrong_is_told(files, run, content, message):
    Path("propcal.toml").write_text(content)
    error = run("fit", "past.csv", *COLUMNS, "--config", "propcal.toml", "-o", "model.json", code=2)
    assert message in error
    assert error.count("\n") == 1
    assert not Path("model.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "past.csv", "-o", "m.json"), "say which is the --score"),
        (("fit", "past.csv", "--score", "risk", "-o", "m.json"), "say which is the --outcome"),
        (("fit", "past.csv", *COLUMNS), "Missing option '--output'"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--alpha", "3"), "alpha must be a number above 0"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--alfa", "3"), "No such option: --alfa"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "age"), "write it like age=18,40,65"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "age=x"), "write it like age=18,40,65"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--where", "age >= 5"), "write it like"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--where", "old=age >= "), "condition 'age >='"),
        (("fit", "past.csv", *COLUMNS, "-o", "m.json", "--cut", "zip=1"), None),
        (("fit", "past.csv", *COLUMNS[:4], "--groups", "id", "-o", "m.json"), "3,000 different values"),
        (
            ("fit", "past.csv", *COLUMNS[:4], "--groups", "age", "-o", "m.json"),
            "Give cut points, --cut age=..., or",
        ),
        (("fit", "past.csv", *COLUMNS, "--missing", "error", "-o", "m.json"), "; --missing level makes them"),
        (("fit", "past.csv", "--score", "race", "--outcome", "y", "-o", "m.json"), "It holds text"),
        (("fit", "past.csv", "--score", "risk", "--outcome", "age", "-o", "m.json"), "must be 0 or 1"),
        (("fit", "nowhere.csv", *COLUMNS, "-o", "m.json"), "there is no file nowhere.csv"),
        (("apply", "past.csv", "past.csv", "--score", "risk", "-o", "o.csv"), "not a correction file"),
        (("apply", "no.json", "past.csv", "--score", "risk", "-o", "o.csv"), "no.json"),
        (("dance",), "No such command 'dance'"),
    ],
)
def test_wrong_use_is_told_in_one_line(files, run, arguments, message):
    if message is None:
        run(*arguments)  # zip 02139 is compared as a number if it is cut
        return
    error = run(*arguments, code=2)
    assert error.startswith("propcal: ")
    assert error.count("\n") == 1
    assert message in error
    assert not Path("m.json").exists()


def test_atoms_files_bring_their_own_columns(files, model, run):
    Atoms.from_frame(files, score="risk", outcome="y", groups=["race"]).save("past.atoms")
    error = run("fit", "past.atoms", *COLUMNS, "-o", "m.json", code=2)
    assert "holds atoms" in error
    assert "leave out --score, --outcome, --groups" in error
    error = run("apply", "model.json", "past.atoms", "--score", "risk", "-o", "o.csv", code=2)
    assert "holds atoms, not people" in error


def test_a_progress_bar_is_shown_on_a_terminal_only(files, model, capfd, monkeypatch):
    arguments = ["apply", "model.json", "past.csv", "--score", "risk", "--force", "-o"]
    for color, shown in (("", False), ("1", True)):
        monkeypatch.setenv("FORCE_COLOR", color)
        with pytest.raises(SystemExit):
            main([*arguments, "out.csv"])
        out, err = capfd.readouterr()
        assert out == "3,000 rows with their corrected score in column 'corrected': out.csv\n"
        assert ("Correcting" in err) is shown


def test_gzip_output_is_gzip(files, model, run):
    run("apply", "model.json", "past.csv", "--score", "risk", "-o", "out.csv.gz")
    with gzip.open("out.csv.gz", "rt") as file:
        assert file.readline().strip().endswith(",corrected")
