"""In production: scoring says what it did, models say who they are, and logs are for
machines.
"""

import json
import logging
import re
from importlib.resources import files as resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from propcal import Correction, __version__
from propcal.cli import main

SCORE = ("--score", "risk")


def end(*words):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    return stopped.value.code


def test_a_recoded_column_fails_and_nothing_is_written(files, model, capfd):
    upper = files.assign(
        race=files.race.where(files.index < 2900, files.race.str.upper())
    )
    share = (upper.race != files.race) & files.race.notna()
    upper.to_csv("new.csv", index=False)
    words = ("apply", "model.json", "new.csv", *SCORE, "-o")
    assert end(*words, "out/", "--max-unseen", "1%") == 1
    out, err = capfd.readouterr()
    n = int(share.sum())
    assert out == ""
    assert (
        f"propcal: failed: {n:,} of 3,000 rows ({100 * n / 3000:.3g}%) have a value"
        in err
    )
    assert f"(race: {n:,}). Nothing was written. Is a column coded differently?" in err
    assert not Path("out").exists()
    assert end(*words, "out.csv", "--max-unseen", "5%") == 0
    assert Path("out.csv").exists()
    assert end(*words, "other.csv", "--max-unseen", "100%") == 2
    assert not Path("other.csv").exists()


def test_apply_says_what_it_did(files, model, capfd):
    new = files.assign(
        risk=files.risk.where(files.index >= 7),
        gender=files.gender.where(files.index > 20, "x"),
    )
    new.to_csv("new.csv", index=False)
    words = (
        "apply",
        "model.json",
        "new.csv",
        *SCORE,
        "--format",
        "json",
        "--invalid",
        "null",
    )
    assert end(*words, "-o", "out.csv") == 0
    said = json.loads(capfd.readouterr().out)
    jsonschema.validate(
        said,
        json.loads(
            (resources("propcal") / "schemas" / "apply.schema.json").read_text()
        ),
    )
    valid = new[new.risk.notna()]
    corrected = model.apply(valid.risk, valid)
    assert (said["rows"], said["invalid"], said["written"]) == (3000, 7, ["out.csv"])
    assert (said["unseen"], said["unseen_rows"]) == ({"gender": 21}, 21)
    assert said["changed"] == np.count_nonzero(corrected != valid.risk)
    assert said["mean_shift"] == pytest.approx(
        (corrected - valid.risk).mean(), abs=1e-9
    )
    assert said["model_id"] == Correction.load("model.json").model_id
    assert end(*words, "--max-unseen", "0.5%", "-o", "more.csv") == 1
    refused = json.loads(capfd.readouterr().out)
    assert refused == said | {"written": []}
    assert not Path("more.csv").exists()


def test_a_score_of_another_name_is_noted(files, run, capfd):
    run(
        "fit",
        "past.csv",
        *SCORE,
        "--outcome",
        "y",
        "--groups",
        "race,gender",
        "-o",
        "named.json",
    )
    files.rename(columns={"risk": "risk_v2"}).to_csv("new.csv", index=False)
    capfd.readouterr()
    assert (
        end("apply", "named.json", "new.csv", "--score", "risk_v2", "-o", "out.csv")
        == 0
    )
    err = capfd.readouterr().err
    assert (
        "note: the correction was fitted to the score 'risk', and this one is called 'risk_v2'"
        in err
    )
    words = (
        "--outcome",
        "y",
        "--groups",
        "race",
        "--draws",
        "100",
        "--correction",
        "named.json",
    )
    assert end("audit", "new.csv", "--score", "risk_v2", *words) == 0
    assert "and this one is called 'risk_v2'" in capfd.readouterr().err
    assert end("apply", "named.json", "past.csv", *SCORE, "-o", "same.csv") == 0
    assert capfd.readouterr().err == ""


def test_show_prints_who_made_a_correction_from_what(files, run, capfd, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1750000000")
    run(
        "fit",
        "past.csv",
        *SCORE,
        "--outcome",
        "y",
        "--groups",
        "race,gender",
        "-o",
        "named.json",
    )
    loaded = Correction.load("named.json")
    loaded.with_notes(ticket="CAB-17\x1b[2J", approved={"by": "board"}).save(
        "noted.json"
    )
    said = " ".join(run("show", "noted.json").split())
    assert (
        "Fitted to the score 'risk' and the outcome 'y' of 2,000 to 4,999 people."
        in said
    )
    assert re.search(r"Made with propcal \S+, first saved 2025-06-15T15:06:40Z\.", said)
    assert loaded.model_id in said
    assert "ticket: CAB-17?[2J" in said
    assert 'approved: {"by": "board"}' in said
    assert f"Reads {', '.join(loaded.reads)}" in said
    assert "Its largest effects" in said
    content = json.loads(run("show", "named.json", "--format", "json"))
    first = content["effects"][0]
    assert content["about"]["outcome"] == "y"
    attributes = dict(
        pair.split("=")
        for pair in first["who"].split(" (and ")[0].split(" & ")
        if "=" in pair
    )
    assert first["corrected"] != first["score"]
    if {*attributes} == {*loaded.reads}:
        assert loaded.score_one(first["score"], **attributes) == pytest.approx(
            first["corrected"]
        )
    text = Path("named.json").read_text()
    Path("named.json").write_text(text.replace('"monotone": true', '"monotone": false'))
    capfd.readouterr()
    assert end("show", "named.json") == 2
    assert "named.json was edited or damaged" in capfd.readouterr().err


def test_quiet_prints_errors_and_failed_conditions_only(files, model, capfd):
    files.assign(gender="x").to_csv("new.csv", index=False)
    apply = ("apply", "model.json", "new.csv", *SCORE, "-o", "out.csv", "--force")
    audit = ("audit", "past.csv", *SCORE, "--outcome", "y", "--groups", "race")
    for words in (
        apply,
        audit,
        ("show", "model.json"),
        ("atoms", *audit[1:], "-o", "a.atoms"),
    ):
        assert end(*words, "--quiet") == end(
            "--quiet", *words, *(["--force"] if words[0] == "atoms" else [])
        )
        assert capfd.readouterr() == ("", "")
    assert end(*apply, "--quiet", "--max-unseen", "1%") == 1
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err[:17]) == ("", 1, "propcal: failed: ")
    assert end(*audit[:2], "--score", "nothing", *audit[4:], "--quiet") == 2
    assert capfd.readouterr().err.startswith("propcal: there is no column 'nothing'")
    assert end(*audit, "--quiet", "--format", "json") == 0
    assert json.loads(capfd.readouterr().out)["format"] == "propcal-audit"
    end(*audit)
    assert "Written" not in capfd.readouterr().err  # the next command talks again


def lines(err):
    return [json.loads(line) for line in err.splitlines()]


def test_logs_are_json_if_asked_for(files, model, capfd):
    files.assign(gender="x").to_csv("new.csv", index=False)
    words = ("apply", "model.json", "new.csv", *SCORE, "-o", "out.csv", "--log", "json")
    assert end(*words) == 0
    note, last = lines(capfd.readouterr().err)
    assert (note["level"], note["command"]) == ("warning", "apply")
    assert note["message"].startswith("'gender': none of the 3,000 values")
    assert (last["level"], last["exit_code"], last["written"]) == (
        "info",
        0,
        ["out.csv"],
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", last["time"])
    assert end(*words, "--force", "--max-unseen=1%", "--quiet") == 1
    failed, last = lines(capfd.readouterr().err)
    assert (failed["level"], last["exit_code"], last["written"]) == ("error", 1, [])
    assert end("apply", "--log=json", "--scroe", "risk") == 2  # also what is wrong use
    wrong, last = lines(capfd.readouterr().err)
    assert "No such option --scroe" in wrong["message"]
    assert end("apply", "--log", "xml") == 2
    assert capfd.readouterr().err == "propcal: --log 'xml' must be text or json\n"


def test_what_the_library_logs_is_a_line_of_the_log(files, model, capfd, monkeypatch):
    from propcal.cli import corrections

    def check_file(*_, **__):
        logging.getLogger("propcal").warning("slow")

    monkeypatch.setattr(corrections, "check_file", check_file)
    assert (
        end("apply", "model.json", "past.csv", *SCORE, "-o", "out.csv", "--log", "json")
        == 0
    )
    first, _ = lines(capfd.readouterr().err)
    assert (first["level"], first["message"]) == ("warning", "slow")
    assert logging.getLogger("propcal").handlers == []


def test_two_monitors_in_one_folder_do_not_collide(files, run):
    dated = files.assign(day="2026-01-15", other=files.risk**2)
    dated.to_csv("dated.csv", index=False)
    for state, score in (
        ("a.monitor", "risk"),
        ("b.monitor", "risk"),
        ("c.monitor", "other"),
    ):
        columns = (
            "--time",
            "day",
            "--score",
            score,
            "--outcome",
            "y",
            "--groups",
            "gender",
        )
        run(
            "monitor",
            "dated.csv",
            "--state",
            state,
            *columns,
            "--metrics",
            f"{state}.prom",
        )
    every = []
    for path in sorted(Path().glob("*.prom")):
        for family in text_string_to_metric_families(path.read_text()):
            every += [(s.name, *sorted(s.labels.items())) for s in family.samples]
    assert len(every) == len({*every})
    info = [dict(labels) for name, *labels in every if name == "propcal_info"]
    told = [(labels["version"], labels["score"], labels["state"]) for labels in info]
    assert told == [
        (__version__, s, f"{c}.monitor")
        for c, s in zip("abc", ("risk", "risk", "other"))
    ]
    assert all(
        {"score", "state"} <= {name for name, _ in labels} for _, *labels in every
    )
