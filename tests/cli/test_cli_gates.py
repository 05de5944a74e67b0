"""Gates of `propcal audit`: they fail closed, add up, and say what they decided."""

import json
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from paths import ROOT
from propcal import Groups, PMCBoost
from propcal.cli import main
from propcal.cli.gates import NAMES, Gates, read_gates
from propcal.errors import InputError

COLUMNS = (
    "--score",
    "risk",
    "--outcome",
    "y",
    "--groups",
    "race,gender",
    "--draws",
    "100",
)
SCHEMA = json.loads(
    (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
)
FEW = ("--min-group", "5000", "--min-people", "5000")
ENDS = ("", ".low", "_rms")
LIMITS = {"oe": 100, "unseen": 1}  # what a loss can reach, or nearly
LIMITS |= {
    f"{loss}{end}": most
    for loss, most in {"mc": 1, "pmc": 10, "dc": 2.3}.items()
    for end in ENDS
}


@pytest.fixture
def files(cohort):
    people = cohort.rename(columns={"score": "risk"})
    people.to_csv("visits.csv", index=False)
    rng = np.random.default_rng(7)
    people.assign(y=(rng.random(len(people)) < people.risk).astype(int)).to_csv(
        "right.csv", index=False
    )
    return people


@pytest.fixture
def run(capfd):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        out, err = capfd.readouterr()
        assert end.value.code == code, out + err
        return out, err

    return call


def gates(*texts, correction=None, within=None):
    return read_gates(Gates(fail_on=list(texts)), correction, within)


def fail_on(*texts):
    return [part for text in texts for part in ("--fail-on", text)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("compare", [">", ">=", "<", "<="])
def test_every_condition_can_be_said(name, compare):
    (gate,) = gates(f" {name.upper()}{compare}0.25", correction="model.json")
    assert (gate.name, gate.compare, gate.limit) == (name, compare, 0.25)
    assert str(gate) == f"{name} {compare} {'25%' if name == 'unseen' else '0.25'}"


def test_a_group_is_named_by_its_values():
    (gate,) = gates('oe[race=White, sex=F,"ward=A, B", age=] < 80%')
    assert gate.group == (
        ("race", "White"),
        ("sex", "F"),
        ("ward", "A, B"),
        ("age", None),
    )
    assert gate.limit == 0.8


@pytest.mark.parametrize(
    "text",
    [
        *(
            "pmc",
            "pmc = 1",
            "pmc > x",
            "pmc > ",
            "foo > 1",
            "pmc > 1 2",
            "verdict > 1",
            "> 1",
            "",
        ),
        *(
            "pmc > 1e999",
            "pmc < 1e999",
            "pmc < -1",
            "pmc < 0",
            "pmc <= -0.1",
            "mc > 1",
            "mc.low > 5",
        ),
        *("pmc > 10", "pmc.low > 11", "pmc_rms > 10", "dc > 2.4", "dc.low > 100"),
        *(
            "unseen > 100%",
            "unseen > 1%",
            "same-people",
            "same-people[a=b]",
            "within",
            "within 0%",
        ),
        *(
            "within 150%",
            "within > 20%",
            "pmc[race=White] > 1",
            "oe[White] < 0.8",
            "oe[] < 0.8",
        ),
    ],
)
def test_a_condition_that_makes_no_sense_is_told_before_the_work(files, run, text):
    with pytest.raises(InputError, match="--fail-on") as error:
        gates(text)
    assert error.value.argument == "--fail-on"
    _, err = run("audit", "missing.csv", *COLUMNS, "--fail-on", text, code=2)
    assert err.startswith(f"propcal: --fail-on {text!r}")
    assert err.count("\n") == 1


def test_what_a_loss_can_reach_depends_on_rho(run, files):
    assert str(read_gates(Gates(["pmc > 15"]), None, None, rho=0.05)[0]) == "pmc > 15"
    with pytest.raises(InputError, match="can never hold"):
        read_gates(Gates(["dc > 0.7"]), None, None, rho=0.5)
    run("audit", "visits.csv", *COLUMNS, "--fail-on", "pmc > 15", "--rho", "0.05")
    run("audit", "visits.csv", *COLUMNS, "--fail-on", "pmc > 15", "--rho", "0", code=2)


def test_shares_must_agree():
    with pytest.raises(InputError, match="different shares"):
        gates("within 20%", within=0.1)
    with pytest.raises(InputError, match="different shares"):
        gates("within 20%", "within 10%")


def test_a_condition_that_holds_ends_with_1(files, run):
    _, err = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        *fail_on("pmc > 0.01"),
        "--suppress",
        "0",
        code=1,
    )
    assert err.startswith("propcal: failed: pmc > 0.01: pmc is ")
    assert err.count("\n") == 1
    _, err = run(
        "audit", "visits.csv", *COLUMNS, *fail_on("verdict", "mc <= 1"), code=1
    )
    assert "failed: verdict: the verdict is: miscalibrated" in err
    assert err.count("\n") == 2
    assert (
        run(
            "audit",
            "visits.csv",
            *COLUMNS,
            *fail_on("pmc > 9.9", "mc.low>=1", "mc_rms>=1"),
        )[1]
        == ""
    )
    assert run("audit", "right.csv", *COLUMNS, *fail_on("verdict"))[1] == ""


def test_the_audit_knows_every_name(files, run):
    names = [name for name in NAMES if name != "unseen"]

    def all_of(compare):
        return fail_on(*(f"{name} {compare} {LIMITS[name]}" for name in names))

    run("audit", "visits.csv", *COLUMNS, *all_of(">="))
    _, err = run("audit", "visits.csv", *COLUMNS, *all_of("<="), code=1)
    for name, line in zip(names, err.splitlines(), strict=True):
        assert line.startswith(f"propcal: failed: {name} <= {LIMITS[name]}: {name} is ")


def test_what_these_data_cannot_decide_fails_unless_it_is_allowed(files, run):
    out, err = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        *FEW,
        *fail_on("pmc_rms > 0.9", "verdict"),
        "--format",
        "json",
        code=1,
    )
    advice = ". Add --allow-undecided to let it pass\n"
    assert err == (
        f"propcal: failed: pmc_rms > 0.9: pmc_rms is not known for these data{advice}"
        f"propcal: failed: verdict: the verdict is: not enough data{advice}"
    )
    decided = json.loads(out)["gates"]
    assert decided == [
        {
            "condition": "pmc_rms > 0.9",
            "value": None,
            "decided": False,
            "passed": False,
        },
        {
            "condition": "verdict",
            "value": "not enough data",
            "decided": False,
            "passed": False,
        },
    ]
    _, err = run(
        "audit", "visits.csv", *COLUMNS, *FEW, *fail_on("verdict"), "--allow-undecided"
    )
    assert (
        err
        == "propcal: note: verdict passes, although the verdict is: not enough data\n"
    )


def test_a_broken_join_does_not_pass(files, run):
    files.assign(y=0).head(39).to_csv("few.csv", index=False)
    files[files.y == 1].to_csv("ones.csv", index=False)
    files.assign(y=0).to_csv("zeros.csv", index=False)
    for name in ("few.csv", "ones.csv", "zeros.csv"):
        run("audit", name, *COLUMNS, *fail_on("verdict"), code=1)


def test_without_groups_nothing_passes_but_what_is_asked_of_everybody(files, run):
    overall = ("audit", "right.csv", *COLUMNS[:4], *COLUMNS[-2:])
    for condition in ("verdict", "pmc > 5"):
        _, err = run(*overall, *fail_on(condition), code=1)
        assert (
            "no group was tested; name groups with --groups, or add --overall-only"
            in err
        )
    assert run(*overall, *fail_on("verdict", "pmc > 5"), "--overall-only")[1] == ""
    assert run(*overall, *fail_on("oe > 2"))[1] == ""


def test_a_group_can_have_a_limit(files, run):
    out, err = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        *fail_on(
            "oe[gender=F, race=White] < 100", "oe[race=Martian] < 0.1", "oe < 0.01"
        ),
        *("--format", "json"),
        code=1,
    )
    first, second = err.splitlines()
    assert first.startswith(
        "propcal: failed: oe[gender=F, race=White] < 100: oe[gender=F, race=White] is "
    )
    assert second.startswith(
        "propcal: failed: oe[race=Martian] < 0.1: oe[race=Martian] is not known"
    )
    content = json.loads(out)
    groups = {group["group"]: group for group in content["groups"]}
    ratios = [gate["value"] for gate in content["gates"]]
    assert ratios[0] == pytest.approx(
        groups["race=White & gender=F"]["observed_expected"], rel=1e-4
    )
    assert ratios[2] == pytest.approx(
        groups["everybody"]["observed_expected"], rel=1e-4
    )
    jsonschema.Draft202012Validator(SCHEMA).validate(content)


def test_a_ratio_of_too_few_people_is_not_decided(files, run):
    """39 rows are as likely to be a broken join as a score that is right."""
    files.head(39).to_csv("few.csv", index=False)
    _, err = run(
        "audit", "few.csv", *COLUMNS, *fail_on("oe > 50", "oe[gender=F] > 50"), code=1
    )
    assert (
        "oe > 50: there are too few people or events to test it. Add --allow-undecided"
        in err
    )
    assert err.count("Add --allow-undecided") == 2
    assert (
        run("audit", "few.csv", *COLUMNS, *fail_on("oe > 50"), "--allow-undecided")[
            1
        ].count("passes")
        == 1
    )


def test_within_asks_for_the_certificate(files, run):
    out, err = run(
        "audit",
        "right.csv",
        *COLUMNS,
        *fail_on("within 8%"),
        "--format",
        "json",
        code=1,
    )
    assert "within 8%: the verdict is: not shown to be within 8 %" in err
    assert json.loads(out)["settings"]["within"] == 0.08
    assert (
        run(
            "audit",
            "right.csv",
            *COLUMNS,
            "--intersections",
            "marginal",
            *fail_on("within 90%"),
        )[1]
        == ""
    )


def test_a_miscalibrated_score_fails_though_it_is_within_a_share(run):
    """D has 40 people, too few to be tested, and is far off; the slope of all others is
    wrong.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(-1.2, 1, 20_040)
    small = np.arange(len(x)) < 40
    y = rng.random(len(x)) < np.where(
        small, 0.0, 1 / (1 + np.exp(-(1.15 * (x + 1.1) - 1.1)))
    )
    frame = {
        "risk": 1 / (1 + np.exp(-x)),
        "y": y.astype(int),
        "race": np.where(small, "D", "A"),
    }
    pd.DataFrame(frame).to_csv("slope.csv", index=False)
    command = (
        "audit",
        "slope.csv",
        *COLUMNS[:4],
        "--groups",
        "race",
        "--draws",
        "100",
        "--within",
        "20%",
    )
    out, err = run(*command, *fail_on("verdict"), code=1)
    assert "Verdict: Shown to be within 20 %, but miscalibrated" in out
    assert "1 subgroup is too small to test." in " ".join(out.split())
    assert "verdict: the verdict is: miscalibrated" in err
    run(*command, *fail_on("within 20%"))


def test_within_fails_where_events_are_too_few_to_show_it(files, run):
    files.head(200).to_csv("few.csv", index=False)
    asked = ("audit", "few.csv", *COLUMNS, *fail_on("within 20%"))
    out, err = run(*asked, "--format", "json", code=1)
    assert err.startswith("propcal: failed: within 20%: it takes about ")
    (gate,) = json.loads(out)["gates"]
    assert gate == {
        "condition": "within 20%",
        "value": None,
        "decided": False,
        "passed": False,
    }
    assert "passes, although it takes about" in run(*asked, "--allow-undecided")[1]
    _, err = run("audit", "few.csv", *COLUMNS, "--within", "20%", code=2)
    assert (
        "expected events or more to show that a score is right to within 20 %; there are "
        in err
    )


def test_a_score_that_is_wrong_at_a_site_fails_and_has_no_tick(files, run):
    rng = np.random.default_rng(7)
    right = files.assign(hospital=np.where(np.arange(len(files)) % 2, "North", "South"))
    true = right.risk * np.where(right.hospital == "North", 1.3, 0.7)
    right.assign(y=(rng.random(len(right)) < true.clip(0, 1)).astype(int)).to_csv(
        "sites.csv", index=False
    )
    asked = ("audit", "sites.csv", *COLUMNS, "--site", "hospital")
    out, err = run(*asked, *fail_on("verdict"), code=1)
    assert err.startswith("propcal: failed: verdict: ")
    assert "✓" not in out


def test_gates_of_a_correction(files, run):
    model = PMCBoost().fit(
        files.risk, files.y, sensitive_features=files[["race", "gender"]]
    )
    model.correction_.save("model.json")
    corrected = ("--correction", "model.json")
    conditions = fail_on("same-people", "verdict", "pmc > 9.9", "oe > 50", "within 90%")
    _, err = run("audit", "visits.csv", *COLUMNS, *corrected, *conditions, code=1)
    assert err.count("the correction was fitted to these very people") == 5
    model.correction_.save("shared.json", share=True)
    shared = ("--correction", "shared.json", *fail_on("same-people"))
    for more, code in ((), 1), (("--allow-undecided",), 0):
        _, err = run("audit", "visits.csv", *COLUMNS, *shared, *more, code=code)
        assert "the correction does not say which people it was fitted to" in err
    recoded = files.assign(gender=files.gender.map({"F": "female", "M": "male"}))
    recoded.to_csv("recoded.csv", index=False)
    out, err = run(
        *(
            "audit",
            "recoded.csv",
            *COLUMNS,
            *corrected,
            *fail_on("unseen > 1%", "same-people"),
        ),
        *("--format", "json"),
        code=1,
    )
    assert "propcal: failed: unseen > 1%: unseen is 100%" in err
    content = json.loads(out)
    assert [(gate["value"], gate["passed"]) for gate in content["gates"]] == [
        (1, False),
        (True, False),
    ]
    jsonschema.Draft202012Validator(SCHEMA).validate(content)
    files.assign(y=1 - files.y).to_csv("other.csv", index=False)
    assert (
        "unseen"
        not in run("audit", "other.csv", *COLUMNS, *corrected, *fail_on("unseen > 1%"))[
            1
        ]
    )


def test_unseen_levels_count_in_columns_that_the_audit_does_not_group_by(files, run):
    """Also of one that it cuts in another way; 1 and 0 are not unseen where true and
    false were.
    """
    icu = np.arange(len(files)) % 3 == 0
    people = files.assign(icu=icu, age=20.0 + np.arange(len(files)) % 60)
    people["risk"] = np.where(icu, people.risk / 2, people.risk)
    groups = Groups(columns=["icu"], cuts={"age": [40]})
    model = PMCBoost.paper(groups=groups).fit(
        people.risk, people.y, sensitive_features=people
    )
    assert model.correction_.attributes == ("icu", "age")
    model.correction_.save("model.json")
    asked = ("--correction", "model.json", "--cut", "age=30", *fail_on("unseen > 0"))
    people.assign(icu=icu.astype(int)).to_csv("numbers.csv", index=False)
    run("audit", "numbers.csv", *COLUMNS, *asked)
    people.assign(icu=np.where(icu, "yes", "no")).to_csv("recoded.csv", index=False)
    _, err = run("audit", "recoded.csv", *COLUMNS, *asked, code=1)
    assert "propcal: failed: unseen > 0%: unseen is 100%" in err


def test_gates_of_file_and_command_line_add_up(files, run):
    Path("propcal.toml").write_text('[audit]\nfail-on = ["pmc > 0.01"]\n')
    config = ("--config", "propcal.toml")
    for more in ((), fail_on("mc <= 1"), fail_on("pmc > 0.01")):
        _, err = run("audit", "visits.csv", *COLUMNS, *config, *more, code=1)
        assert err.count("failed: pmc > 0.01") == 1
        assert ("failed: mc <= 1" in err) is ("mc <= 1" in more)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_protected_counts_do_not_change_what_is_decided(files, run, name):
    condition = fail_on(f"{name} <= {LIMITS[name]}")
    out, _ = run(
        "audit",
        "visits.csv",
        *COLUMNS,
        *condition,
        "--suppress",
        "11",
        "--format",
        "json",
        code=1,
    )
    (gate,) = json.loads(out)["gates"]
    assert gate["decided"]
    assert not gate["passed"]


def test_exit_codes_are_in_one_table():
    """Codes 0, 1 and 2 are tested above, 70 with the audit, those of signals with
    scored files.
    """
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    rows = re.findall(r"^\| ([\d, ]+) \| ", page, flags=re.MULTILINE)
    assert ", ".join(rows) == "0, 1, 2, 70, 129, 130, 143, 141"


def test_a_reader_that_closes_the_output_is_not_an_error_of_ours():
    command = [sys.executable, "-m", "propcal", "audit", "--help-all"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_what_a_full_disk_does_not_take_is_missed_without_a_buffer_too(tmp_path):
    """PYTHONUNBUFFERED is usual in containers; the limit of the file's size is a disk
    that is nearly full.
    """

    def little_space():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [sys.executable, "-u", "-m", "propcal", "audit", "--help-all"]
    with (tmp_path / "out").open("w") as file:
        done = subprocess.run(
            command,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=little_space,
        )
    assert done.returncode == 2
    assert done.stderr == "propcal: cannot write to standard output: File too large\n"
