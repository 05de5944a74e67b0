"""The recipes do what their page says; those of FastAPI, MLflow and dbt are skipped
where it is missing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paths import ROOT
from propcal import Atoms, Correction, PMCBoost, audit
from propcal.datasets import make_ed_visits

RECIPES = ROOT / "examples" / "recipes"
COLUMNS = {"score": "risk", "outcome": "admitted", "groups": ["race", "gender"]}


@pytest.fixture(scope="module")
def visits():
    """Visits with a date and a score that is too high for women."""
    frame = make_ed_visits(12_000, seed=1).rename(columns={"true_risk": "risk"})
    odds = frame["risk"] / (1 - frame["risk"]) * np.where(frame["gender"] == "F", 2, 1)
    frame["risk"] = odds / (1 + odds)
    frame["arrived"] = np.datetime64("2025-01-01") + np.arange(len(frame)) % 360
    return frame[["race", "gender", "risk", "admitted", "arrived"]]


@pytest.fixture(scope="module")
def model(visits):
    return PMCBoost().fit(visits, **COLUMNS).correction_


@pytest.fixture
def recipe(monkeypatch):
    """Import a recipe anew."""

    def load(name):
        monkeypatch.syspath_prepend(str(RECIPES))
        sys.modules.pop(name, None)
        return __import__(name)

    return load


def test_the_service_takes_up_a_new_model_and_survives_a_broken_one(
    recipe, model, visits, tmp_path, monkeypatch
):
    pytest.importorskip("fastapi")
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    path = tmp_path / "model.json"
    monkeypatch.setenv("MODEL", str(path))
    model.save(path)
    client = client_of(recipe("service").app)
    person = {"score": 0.3, "columns": {"race": "White", "gender": "F"}}
    answer = client.post("/score", json=person).json()
    saved = Correction.load(path)
    assert answer == {
        "corrected": saved.score_one(0.3, race="White", gender="F"),
        "unseen": [],
        "model": saved.model_id,
    }
    for wrong in (7, True, "0.3", None):
        assert client.post("/score", json={**person, "score": wrong}).status_code == 422
    for option in (
        "unseen",
        "invalid",
        "detail",
    ):  # how to score is for the service to say
        columns = {**person["columns"], option: "keep"}
        assert (
            client.post("/score", json={**person, "columns": columns}).status_code
            == 422
        )
    assert client.post("/score", json={"score": 0.3, "columns": {}}).status_code == 422

    other = (
        PMCBoost()
        .fit(visits, score="risk", outcome="admitted", groups=["gender"])
        .correction_
    )
    other.save(tmp_path / "new.json")
    os.replace(tmp_path / "new.json", path)
    assert client.get("/health").json() == {
        "model": Correction.load(path).model_id,
        "problem": None,
    }

    path.write_text("{")
    kept = client.get("/health").json()
    assert kept["model"] == other.model_id
    assert kept["problem"]
    assert (
        client.post(
            "/score", json={"score": 0.3, "columns": {"gender": "F"}}
        ).status_code
        == 200
    )

    path.unlink()
    assert client.get("/health").json()["problem"]
    assert (
        client.post(
            "/score", json={"score": 0.3, "columns": {"gender": "F"}}
        ).status_code
        == 200
    )
    model.save(path)
    assert client.get("/health").json() == {"model": saved.model_id, "problem": None}


@pytest.fixture
def in_folder(tmp_path, visits, monkeypatch):
    """Files of three sets of people, and a propcal command, in a folder of their
    own.
    """
    monkeypatch.chdir(tmp_path)
    half = len(visits) // 2
    visits[:half].to_csv("past.csv", index=False)
    visits[half:].to_csv("held_out.csv", index=False)
    visits.to_csv("new.csv", index=False)
    command = tmp_path / "bin" / "propcal"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m propcal "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    return tmp_path


def run(*command):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=600
    )


def test_the_monthly_job_puts_a_correction_to_use_only_if_it_passes(in_folder, visits):
    done = run(RECIPES / "monthly.sh", "past.csv", "held_out.csv", "new.csv")
    assert done.returncode == 1, (
        done.stderr
    )  # the score in use raises an alarm: it is wrong for women
    assert Path("model.json").exists(), Path("audit.txt").read_text()
    assert {*os.listdir()} >= {"monitor.html", "audit.html", "risk.monitor"}
    first = Path("model.json").read_text()

    visits[:39].to_csv(
        "few.csv", index=False
    )  # too few to judge by: the gate fails closed
    visits[6000:].replace({"gender": {"F": "female", "M": "male"}}).to_csv(
        "recoded.csv", index=False
    )
    for held_out, gate in [("few.csv", "verdict"), ("recoded.csv", "unseen > 1%")]:
        done = run(RECIPES / "monthly.sh", "past.csv", held_out, "new.csv")
        assert done.returncode == 1
        assert f"failed: {gate}" in done.stderr
        assert Path("model.json").read_text() == first
    assert (
        run(RECIPES / "monthly.sh", "nowhere.csv", "held_out.csv", "new.csv").returncode
        == 2
    )


def test_the_commands_of_the_dockerfile(model, tmp_path):
    """Docker is not run here: its commands are, with the file where the image has
    it.
    """
    text = (RECIPES / "Dockerfile").read_text()
    commands = [
        json.loads(line.split(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(("RUN", "ENTRY"))
    ]
    copied = tmp_path / "propcal_score.py"
    copied.write_text(model.to_code("python"), encoding="utf-8")
    check, entry = [
        [
            sys.executable
            if word == "python"
            else word.replace("/propcal_score.py", str(copied))
            for word in words
        ]
        for words in commands
    ]
    assert subprocess.run(check, capture_output=True, timeout=60).returncode == 0
    row = {"risk": 0.3, "race": "White", "gender": "F"}
    done = subprocess.run(
        [*entry, "--score", "risk"],
        input=json.dumps(row),
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == {
        **row,
        "corrected": model.score_one(0.3, race="White", gender="F"),
    }


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """MLflow, with runs in a folder of their own."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(
        "MLFLOW_ALLOW_FILE_STORE", "true"
    )  # a database would need more packages
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    return mlflow


@pytest.mark.filterwarnings("ignore")
def test_a_correction_is_a_model_of_mlflow(tracked, model, visits, tmp_path):
    model.save("model.json")
    tracked.pyfunc.save_model(
        tmp_path / "saved",
        python_model=str(RECIPES / "mlflow_correction.py"),
        artifacts={"correction": "model.json"},
        model_config={"score": "risk"},
        pip_requirements=["propcal"],
    )
    loaded = tracked.pyfunc.load_model(str(tmp_path / "saved"))
    people = visits[:500]
    assert (
        loaded.predict(people).tolist() == model.apply(people["risk"], people).tolist()
    )
    assert not list((tmp_path / "saved").rglob("*.pkl"))


@pytest.mark.filterwarnings("ignore")
def test_mlflow_evaluates_by_an_audit(tracked, visits, recipe):
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry

    _model_evaluation_registry.register(
        "propcal", recipe("mlflow_evaluator").PropcalEvaluator
    )
    people = visits[["race", "gender", "risk", "admitted"]]
    with tracked.start_run() as active:
        result = tracked.models.evaluate(
            data=people,
            predictions="risk",
            targets="admitted",
            model_type="classifier",
            evaluators="propcal",
            evaluator_config={"groups": ["race", "gender"]},
        )
    wanted = audit(
        people["admitted"],
        people["risk"],
        sensitive_features=people[["race", "gender"]],
    )
    assert result.metrics["pmc_loss"] == wanted.losses.loc["pmc", "value"]
    assert result.metrics["miscalibrated"] == 1
    client = tracked.MlflowClient()
    assert client.get_run(active.info.run_id).data.metrics["miscalibrated"] == 1
    assert [file.path for file in client.list_artifacts(active.info.run_id)] == [
        "audit.html"
    ]


def test_dbt_makes_atoms_and_a_wrong_score_fails_the_build(
    visits, tmp_path, monkeypatch
):
    pytest.importorskip("dbt.cli.main")
    project = tmp_path / "project"
    shutil.copytree(RECIPES / "dbt", project)
    monkeypatch.chdir(project)

    def build(frame):
        frame[["race", "gender", "risk", "admitted"]].to_csv(
            "seeds/visits.csv", index=False
        )
        return run(
            sys.executable,
            "-c",
            "from dbt.cli.main import cli; cli()",
            "build",
            "--profiles-dir",
            ".",
        )

    done = build(visits)
    assert done.returncode == 1, done.stdout
    assert "FAIL 1 calibrated_visit_atoms_gender" in done.stdout
    right = make_ed_visits(12_000, seed=2).rename(columns={"true_risk": "risk"})
    done = build(right)
    assert done.returncode == 0, done.stdout

    import duckdb

    with duckdb.connect("warehouse.duckdb") as warehouse:
        atoms = warehouse.execute("SELECT * FROM visit_atoms").df()
    counted = Atoms.from_frame(
        atoms,
        score="score",
        outcome="outcome",
        groups=["race", "gender"],
        weight="people",
        weight_kind="frequency",
    )
    rounded = Atoms.from_frame(
        right,
        score="risk",
        outcome="admitted",
        groups=["race", "gender"],
        resolution=2**-16,
    )
    assert counted.n_people == rounded.n_people
    assert audit(counted).losses.loc["mc", "value"] == pytest.approx(
        audit(rounded).losses.loc["mc", "value"], abs=1e-9
    )
