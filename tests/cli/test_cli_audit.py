"""`propcal audit` on files."""

import inspect
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import propcal
from propcal import Atoms, Correction, Groups, PMCBoost
from propcal.cli import main

CANARY = "canary-7f3a"
OPEN = ("--suppress", "0")
COLUMNS = ("--score", "risk", "--outcome", "y", "--groups", "race,gender")


@pytest.fixture
def calls(monkeypatch):
    """List how the statistics were called."""
    seen = []

    def remember(function):
        def call(*arguments, **settings):
            told = settings.pop("progress")
            told(1, 2)  # can be told, on a terminal or elsewhere
            seen.append((arguments, settings))
            return function(*arguments, **settings)

        return call

    monkeypatch.setattr(propcal, "audit", remember(propcal.audit), raising=False)
    monkeypatch.setattr(propcal, "compare", remember(propcal.compare), raising=False)
    return seen


@pytest.fixture
def files(cohort):
    n = len(cohort)
    extra = {"age": np.arange(n) % 90, "id": [f"{CANARY}-{i}" for i in range(n)]}
    people = cohort.rename(columns={"score": "risk"}).assign(**extra)
    people.to_csv("visits.csv", index=False)
    people.to_parquet("visits.parquet")
    return people


@pytest.fixture
def run(capfd):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capfd.readouterr()
        assert end.value.code == code, out + err
        assert CANARY not in out + err
        assert "Traceback" not in err
        return out, err

    return call


def test_the_verdict_comes_first_and_the_next_command_last(files, calls, run):
    out, err = run("audit", "visits.csv", *COLUMNS, "--full")
    assert out.startswith("Verdict: Miscalibrated\n")
    order = [
        out.index(word)
        for word in ("Groups: ", "Cells with", "Losses: ", "Notes", "To correct it")
    ]
    assert order == sorted(order)
    short, _ = run("audit", "visits.csv", *COLUMNS)
    assert short.startswith("Verdict: Miscalibrated\n")
    assert len(short.splitlines()) < 30
    assert short.splitlines()[-1] == out.splitlines()[-1]
    assert short.split("\n\n")[0] == out.split("\n\n")[0]  # the verdict
    rows = {" ".join(line.split()) for line in out.splitlines()}
    assert all(
        " ".join(line.split()) in rows
        for line in short.splitlines()
        if not line.startswith("  ")
    )
    *text, command = out.splitlines()
    assert (
        command
        == "  propcal fit part.csv --score risk --outcome y --groups race,gender -o model.json"
    )
    assert max(map(len, text)) <= 80
    assert err == ""
    assert "\x1b" not in out


@pytest.mark.parametrize("source", ["visits.csv", "visits.parquet", "visits.atoms"])
def test_the_same_atoms_are_audited_from_every_file(files, run, source):
    atoms = Atoms.from_frame(
        files, score="risk", outcome="y", groups=["race", "gender"]
    )
    atoms.save("visits.atoms")
    out, _ = run(
        "audit",
        source,
        *(() if source.endswith("atoms") else COLUMNS),
        "--format",
        "json",
        *OPEN,
    )
    assert json.loads(out)["settings"]["fingerprint"] == atoms.fingerprint()


def test_measures_without_bins_are_printed_if_asked_for(files, calls, run):
    out, _ = run(
        "audit", "visits.csv", *COLUMNS, "--bin-free", "--draws", "100", "--full"
    )
    assert calls[0][1]["bin_free"] is True
    assert out.index("Losses: ") < out.index("Without bins") < out.index("Notes")
    assert "These measures do not enter the verdict." in " ".join(out.split())
    assert max(map(len, out.splitlines()[:-1])) <= 80
    told, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        "--bin-free",
        "--draws",
        "100",
        "--format",
        "json",
    )
    assert len(json.loads(told)["bin_free"]["measures"]) > 10
    hidden, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        "--bin-free",
        "--draws",
        "100",
        "--suppress",
        "11",
    )
    assert "Without bins" in hidden


def test_every_option_reaches_the_audit(files, calls, run):
    numbers = (
        "--alpha",
        "0.1",
        "--gamma",
        "0.02",
        "--rho",
        "0.2",
        "--n-bins",
        "5",
        "--min-people",
        "40",
    )
    more = (
        "--binning",
        "quantile",
        "--intersections",
        "1",
        "--missing",
        "exclude",
        "--draws",
        "199",
        "--seed",
        "3",
        *(
            "--min-group",
            "60",
            "--min-events",
            "12",
            "--title",
            "A title",
            "--score-name",
            "Sepsis risk",
        ),
        *(
            "--outcome-name",
            "sepsis",
            "--unit",
            "patients",
            "--source",
            "North",
            "--period",
            "2025",
        ),
        *(
            "--institution",
            "North Hospital",
            "--population",
            "adults",
            "--threshold",
            "0.2",
        ),
        *("--label", "gender.F=women", "--label", "gender.M=men"),
    )
    run("audit", "visits.csv", *COLUMNS, *numbers, *more)
    settings = calls[0][1]
    assert settings == {
        "intersections": 1,
        "missing": "exclude",
        "alpha": 0.1,
        "gamma": 0.02,
        "rho": 0.2,
        "n_bins": 5,
        "min_people": 40,
        "binning": "quantile",
        "n_draws": 199,
        "random_state": 3,
        "min_group": 60,
        "min_events": 12,
        "title": "A title",
        "score_name": "Sepsis risk",
        "outcome_name": "sepsis",
        "unit": "patients",
        "labels": {"gender": {"F": "women", "M": "men"}},
        "source": "North",
        "period": "2025",
        "institution": "North Hospital",
        "population": "adults",
        "thresholds": [0.2],
    }


def test_groups_in_words_and_options_from_a_file(files, run):
    Path("propcal.toml").write_text(
        'score = "risk"\noutcome = "y"\n[audit]\ngroups = ["gender"]\nfail-on = ["pmc > 5"]\n'
        '[audit.cut]\nage = [40, 65]\n[audit.where]\nelderly = "age >= 75 and gender = F"\n'
    )
    out, _ = run(
        "audit", "visits.csv", "--config", "propcal.toml", "--format", "json", *OPEN
    )
    words = Groups(
        columns=["gender"],
        cuts={"age": [40, 65]},
        where={"elderly": "age >= 75 and gender = F"},
    )
    expected = Atoms.from_frame(files, score="risk", outcome="y", groups=words)
    assert json.loads(out)["settings"]["fingerprint"] == expected.fingerprint()


def test_json_is_all_that_is_printed(files, calls, run):
    out, err = run("audit", "visits.csv", *COLUMNS, "--format", "json")
    assert json.loads(out)["verdict"]["conclusion"] == "miscalibrated"
    assert err == ""


def test_json_is_written_whole_and_not_over_an_old_file(files, calls, run):
    out, _ = run("audit", "visits.csv", *COLUMNS, "-o", "audit.json")
    assert out.startswith("Verdict")
    first = Path("audit.json").read_text()
    assert json.loads(first)["verdict"]["conclusion"] == "miscalibrated"
    calls.clear()
    _, err = run("audit", "missing.csv", *COLUMNS, "-o", "audit.json", code=2)
    assert err == "propcal: audit.json already exists. Use --force to replace it\n"
    assert not calls
    run("audit", "visits.csv", *COLUMNS, "-o", "audit.json", "--force")


def test_a_correction_is_audited_beside_the_score(files, calls, run):
    model = PMCBoost().fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    model.correction_.save("model.json")
    arguments = (
        "audit",
        "visits.csv",
        *COLUMNS[:4],
        "--groups",
        "gender",
        "--correction",
        "model.json",
    )
    out, _ = run(*arguments, "--full")
    (scores, atoms), _ = calls[0]
    assert list(scores) == ["risk", "corrected"]
    assert isinstance(scores["corrected"], Correction)
    assert atoms.patterns.attributes == ("gender", "correction: race")
    for word in (
        "risk: Miscalibrated",
        "corrected: Not evidence, because fitted to these very people",
        "corrected compared with risk",
        "corrected: observed and predicted rates",
        "Differences are relative to risk",
    ):
        assert word in out
    content = json.loads(run(*arguments, "--format", "json")[0])
    assert content["format"] == "propcal-comparison"


def test_a_correction_of_other_columns_is_compared_as_it_would_be_row_by_row(
    files, run
):
    learned = Groups(columns=["race"], cuts={"age": [50]})
    model = PMCBoost(groups=learned).fit(
        files.risk, files.y, sensitive_features=files[["race", "age"]]
    )
    model.correction_.save("model.json")
    audited = Groups(columns=["gender"], cuts={"age": [40, 65]})
    by_rows = propcal.compare(
        {"risk": files.risk, "corrected": model},
        files.y,
        sensitive_features=files[["race", "gender", "age"]],
        groups=audited,
        n_draws=200,
    )
    words = ("--groups", "gender", "--cut", "age=40,65", "--draws", "200", *OPEN)
    out, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS[:4],
        *words,
        "--correction",
        "model.json",
        "--format",
        "json",
    )
    found, expected = json.loads(out), json.loads(by_rows.to_json(suppress=0))
    for name in ("risk", "corrected"):
        settings = [
            content["audits"][name]["settings"] for content in (found, expected)
        ]
        assert settings[0]["fingerprint"] == settings[1]["fingerprint"]
        assert found["audits"][name]["losses"] == expected["audits"][name]["losses"]
    for a, b in zip(found["differences"], expected["differences"], strict=True):
        for name, value in b.items():
            assert a[name] == (
                pytest.approx(value, rel=1e-9, abs=1e-9)
                if isinstance(value, float)
                else value
            ), name


def test_groups_coded_in_another_way_than_in_fitting_are_noticed(files, run):
    model = PMCBoost().fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    model.correction_.save("model.json")
    files.assign(gender=files.gender.map({"F": 2, "M": 1})).to_csv(
        "recoded.csv", index=False
    )
    arguments = (
        "audit",
        "recoded.csv",
        *COLUMNS[:4],
        "--groups",
        "race",
        "--draws",
        "100",
    )
    _, err = run(*arguments, "--correction", "model.json")
    assert "'gender': none of the 3,000 values occurred in the fitting data" in err


def test_the_correction_of_atoms_is_audited(files, calls, run):
    model = PMCBoost().fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    model.correction_.save("model.json")
    Atoms.from_frame(files, score="risk", outcome="y", groups=["race", "gender"]).save(
        "visits.atoms"
    )
    calls.clear()

    run("audit", "visits.atoms", "--correction", "model.json")
    scores, atoms = calls[0][0]
    assert scores["score"] is None
    assert isinstance(scores["corrected"], Correction)
    assert isinstance(atoms, Atoms)


def test_on_a_terminal_progress_stays_off_standard_output(
    files, calls, run, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes everything for a terminal then
    out, err = run("audit", "visits.csv", *COLUMNS, "--format", "json")
    assert json.loads(out)
    assert "Auditing..." in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "html"), "Invalid value for '--format'"),
        (("--correction", "visits.csv"), "not a correction file"),
        (("--groups", "gendre"), "Did you mean 'gender'?"),
        (("--groups", "id"), "'id' has 3,000 different values"),
        (("--config", "no.toml"), "there is no file no.toml"),
        (("--weight", "race"), "column 'race' must hold numbers"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(files, calls, run, arguments, message):
    _, err = run("audit", "visits.csv", *COLUMNS, *arguments, code=2)
    assert err.startswith("propcal: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_file_that_is_read_is_never_written(files, run):
    before = Path("visits.csv").read_bytes()
    for command in ("audit", "fit"):
        _, err = run(
            command, "visits.csv", *COLUMNS, "-o", "visits.csv", "--force", code=2
        )
        assert (
            err
            == "propcal: visits.csv is also an input file. Choose another name for the output\n"
        )
    assert Path("visits.csv").read_bytes() == before


def test_what_is_no_file_is_not_replaced(files, run):
    os.mkfifo("pipe")
    _, err = run("audit", "visits.csv", *COLUMNS, "-o", "pipe", "--force", code=2)
    assert "it is not a regular file" in err
    assert Path("pipe").is_fifo()


def test_a_replaced_file_stays_as_private_as_it_was(files, run):
    Path("audit.json").touch(mode=0o600)
    run("audit", "visits.csv", *COLUMNS, "-o", "audit.json", "--force")
    assert Path("audit.json").stat().st_mode & 0o777 == 0o600


def test_the_next_command_is_told_only_where_something_is_to_be_corrected(files, run):
    out, _ = run(
        "audit", "visits.csv", *COLUMNS, "--gamma", "0.02", "--binning", "0,0.2,1"
    )
    assert out.splitlines()[-1].endswith("--gamma 0.02 --binning 0,0.2,1 -o model.json")
    out, _ = run(
        "audit", "visits.csv", *COLUMNS, "--min-group", "5000", "--min-people", "5000"
    )
    assert "To correct it" not in out


def test_columns_in_two_roles_are_refused(files, run):
    _, err = run(
        "audit",
        "visits.csv",
        "--score",
        "risk",
        "--outcome",
        "y",
        "--groups",
        "y",
        code=2,
    )
    assert "'y' is the outcome and cannot define groups" in err
    _, err = run(
        "audit",
        "visits.csv",
        "--score",
        "y",
        "--outcome",
        "y",
        "--groups",
        "race",
        code=2,
    )
    assert "named as the score and as the outcome" in err


def test_whole_weights_can_be_survey_weights(files, run):
    files.assign(w=np.arange(len(files)) % 3 + 1).to_csv("weighted.csv", index=False)
    out, _ = run("audit", "weighted.csv", *COLUMNS, "--weight", "w")
    assert "3,000 rows stand for" in " ".join(out.split())
    options = ("--weight", "w", "--weight-kind", "survey", "--format", "json")
    out, _ = run("audit", "weighted.csv", *COLUMNS, *options)
    assert json.loads(out)["settings"]["weights"] == "survey"


def test_a_fault_of_ours_is_no_failed_threshold(files, run, monkeypatch):
    def broken(*_, **__):
        raise KeyError(CANARY)

    monkeypatch.setattr(propcal, "audit", broken)
    _, err = run("audit", "visits.csv", *COLUMNS, code=70)
    assert err == "propcal: unexpected KeyError; PROPCAL_DEBUG=1 shows where\n"

    def interrupted(*_, **__):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(propcal, "audit", interrupted)
    run("audit", "visits.csv", *COLUMNS, code=130)


def test_a_wrong_seed_is_told(files, run):
    _, err = run("audit", "visits.csv", *COLUMNS, "--seed", "-1", code=2)
    assert err.startswith("propcal: --seed must be a whole number of at least 0")


@pytest.mark.parametrize("source", ["visits.csv", "visits.parquet"])
def test_the_real_audit_is_shown(files, run, source):
    out, err = run(
        "audit",
        source,
        *COLUMNS,
        "--draws",
        "200",
        "--cluster",
        "id",
        "--cut",
        "age=40,65",
    )
    assert out.startswith("Verdict: ")
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert err == ""


def test_the_real_audit_is_the_library_s(files, run):
    out, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        "--draws",
        "200",
        "--format",
        "json",
        "--suppress",
        "0",
    )
    features = files[["race", "gender"]]
    expected = propcal.audit(
        files.y, files.risk, sensitive_features=features, n_draws=200
    )
    assert json.loads(out) == json.loads(expected.to_json())


def test_the_real_comparison_is_shown(files, run):
    run("fit", "visits.csv", *COLUMNS, "-o", "model.json")
    shown, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        "--draws",
        "200",
        "--correction",
        "model.json",
        "--full",
    )
    assert "corrected compared with risk" in shown
    assert max(map(len, shown.splitlines())) <= 80
    Atoms.from_frame(files, score="risk", outcome="y", groups=["race", "gender"]).save(
        "visits.atoms"
    )
    shown, _ = run(
        "audit", "visits.atoms", "--draws", "200", "--correction", "model.json"
    )
    assert "\ncorrected: " in shown


def test_help_tells_the_defaults_of_the_audit(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    shown = " ".join(run("audit", "--help-all")[0].split())
    defaults = {
        name: p.default
        for name, p in inspect.signature(propcal.audit).parameters.items()
    }
    names = (
        "alpha",
        "gamma",
        "rho",
        "n_bins",
        "binning",
        "intersections",
        "missing",
        "min_people",
        "n_draws",
    )
    for name in names:
        flag = name.replace("n_draws", "draws").replace("_", "-")
        said = re.search(rf"--{flag} [^│]*?Default: (\S+)", shown)
        assert said, name
        assert said[1] == str(defaults[name]), name


@pytest.mark.parametrize("more", [(), ("--correction", "model.json")])
@pytest.mark.parametrize("suppress", [(), ("--suppress", "11")])
def test_counts_are_protected_once_for_all_that_is_written(
    files, run, monkeypatch, more, suppress
):
    from propcal.protect import protected_audits

    seen = []
    once = protected_audits._ProtectedFindings
    monkeypatch.setattr(
        protected_audits,
        "_ProtectedFindings",
        lambda *given: seen.append(given) or once(*given),
    )
    model = PMCBoost().fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    model.correction_.save("model.json")
    written = ("--html", "a.html", "--md", "a.md", "-o", "a.json", "--format", "json")
    run("audit", "visits.csv", *COLUMNS, "--draws", "100", *written, *more, *suppress)
    assert len(seen) == (2 if more else 1)  # of each score
