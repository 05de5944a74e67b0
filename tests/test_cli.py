"""The command line."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from propcal import Correction, __version__
from propcal.cli import app


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(app, ["demo", "--people", "40000", "-o", str(folder)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return folder, result.output


def table_row(output, name):
    line = next(line for line in output.splitlines() if f" {name} " in line and line.startswith("│"))
    return [float(x) for x in re.findall(r"\d\.\d+", line)]


def test_demo_shows_all_losses_before_and_after(demo):
    _, output = demo
    rows = {name: table_row(output, name) for name in ("base model", "MCBoost", "PMCBoost")}
    assert all(len(row) == 5 for row in rows.values())
    assert rows["PMCBoost"][1] < rows["MCBoost"][1] < rows["base model"][1]  # PMC loss on held-out people
    assert rows["PMCBoost"][3] > rows["base model"][3] - 0.01  # AUROC
    for heading in ("MC loss", "PMC loss", "DC loss", "AUROC", "Brier"):
        assert heading in output


def test_demo_shows_what_improved_and_what_was_left_out(demo):
    _, output = demo
    part = output[output.index("improved most") :]
    assert len([line for line in part.splitlines() if line.startswith("│")]) == 3
    assert "left out" in output


def test_demo_writes_a_correction_that_loads(demo):
    folder, output = demo
    assert str(folder / "correction.json") in output.replace("\n", "")
    correction = Correction.load(folder / "correction.json")
    assert correction.attributes == ("race", "gender")
    assert correction.apply([0.5], {"race": ["White"], "gender": ["F"]}).shape == (1,)


def test_demo_is_the_same_each_time(demo, tmp_path):
    folder, output = demo
    again = CliRunner().invoke(
        app, ["demo", "--people", "40000", "-o", str(tmp_path)], env={"COLUMNS": "160"}
    )
    assert (tmp_path / "correction.json").read_text() == (folder / "correction.json").read_text()
    assert table_row(again.output, "PMCBoost") == table_row(output, "PMCBoost")


def run(*arguments, **kw):
    return subprocess.run([sys.executable, "-m", "propcal", *arguments], capture_output=True, text=True, **kw)


def test_help_and_version():
    shown = run("--help")
    assert shown.returncode == 0
    assert "demo" in shown.stdout
    assert "Example" in run("demo", "--help").stdout
    assert run("--version").stdout.strip() == f"propcal {__version__}"


def test_wrong_use_ends_with_2_and_one_line(tmp_path):
    wrong = run("demo", "--alpha", "3", "--people", "6000", "-o", str(tmp_path / "x"))
    assert wrong.returncode == 2
    assert wrong.stderr.strip() == "propcal: alpha must be a number above 0 and at most 1; got 3.0"
    assert "Traceback" not in wrong.stderr
    blocked = tmp_path / "file"
    blocked.touch()
    wrong = run("demo", "-o", str(blocked))
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    assert run("demo", "--people", "3").returncode == 2
    assert run("dance").returncode == 2
