"""`propcal paper admissions`: how much is to be done, how to go on, and wrong use by
its options.
"""

import re
import sys

import pytest
import typer

from propcal.cli import main
from propcal_paper.commands import app
from propcal_paper.running.experiment import Experiment
from propcal_paper.running.trial_store import Store


@pytest.mark.engines
@pytest.mark.xdist_group("dask_client")
def test_the_command_runs_on_a_dask_cluster(tmp_path, dask_client, capsys):
    path, address = str(tmp_path / "x.sqlite"), dask_client.scheduler.address
    where = ["--scheduler", address, "--trials", "1", "-o", path]
    assert command("--rows", "1000", "--models", "LR", *where) == 0
    assert len(Store(path).done()) == 84
    assert command("--jobs", "2", *where) == 2
    assert "--jobs" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_is_told_before_a_store_is_made(
    tmp_path, capsys, monkeypatch
):
    store = tmp_path / "x.sqlite"
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert (
        command("--scheduler", "tcp://nowhere:1", "--rows", "1000", "-o", str(store))
        == 2
    )
    assert (
        '--scheduler needs Dask: pip install "dask[distributed]"'
        in capsys.readouterr().err
    )
    assert not store.exists()


def test_errors_of_the_command_name_its_options(tmp_path, capsys):
    store = str(tmp_path / "x.sqlite")
    assert command("--models", "xyz", "-o", store) == 2
    assert (
        "--models: there is no 'xyz'. The models are LR, RF, DNN"
        in capsys.readouterr().err
    )
    assert command("--rows", "200000", "-o", store) == 2
    assert "--rows is 200,000, but" in capsys.readouterr().err
    for flag, words in (
        ("--groups", "--groups must"),
        ("--data-sets", "--data-sets must"),
    ):
        with pytest.raises(SystemExit):
            main(["paper", "simulation", flag, "0", "-o", str(tmp_path)])
        assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["paper", "admissions", *arguments])
    return ended.value.code


def test_the_command_says_how_much_there_is_and_that_all_is_done(tmp_path, capsys):
    path = tmp_path / "Aus gabe é.sqlite"
    arguments = [
        "--rows",
        "1000",
        "--trials",
        "1",
        "--models",
        "lr",
        "--jobs",
        "1",
        "-o",
        str(path),
    ]
    assert command(*arguments) == 0
    told = capsys.readouterr()
    assert (
        "84 trials: 1 shuffle x 1 base model (LR) x 84 settings, on 1,000 visits (generated"
        in told.out
    )
    assert "84 are to be run" in told.out
    assert "84 of 84 trials are done" in told.err
    assert f"propcal paper tables '{path}'; propcal paper figures '{path}'" in told.out
    assert command(*arguments) == 0
    assert f"All are in {path} already." in capsys.readouterr().out
    assert command("--rows", "1200", *arguments[2:]) == 2
    assert (
        "a different setting of rows: 1000 there, 1200 now" in capsys.readouterr().err
    )


@pytest.mark.slow
def test_a_hundred_visits_run_with_a_word_that_nothing_can_be_judged(tmp_path, capsys):
    arguments = [
        "--rows",
        "100",
        "--trials",
        "1",
        "--jobs",
        "1",
        "-o",
        str(tmp_path / "x.sqlite"),
    ]
    assert command(*arguments) == 0
    assert "note: on 100 visits nothing can be judged" in capsys.readouterr().err
    assert len(Store(tmp_path / "x.sqlite").done()) == 3 * 84
    assert command("--rows", "99", *arguments[2:]) == 2
    assert "--rows must be" in capsys.readouterr().err


def test_an_interrupted_command_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    path = tmp_path / "x.sqlite"
    assert command("--rows", "1000", "--models", "LR", "-o", str(path)) == 130
    said = f"propcal: interrupted; 0 trials are in {path}, and the same command goes on"
    assert capsys.readouterr().err.splitlines()[-1] == said  # and no line about files


def test_the_help_names_the_options(capsys):
    assert command("--help") == 0
    shown = capsys.readouterr().out
    for option in (
        "--cohort",
        "--trials",
        "--rows",
        "--models",
        "--jobs",
        "--scheduler",
        "--output",
    ):
        assert option in shown


COMMANDS = typer.main.get_command(app).commands


def test_propcal_lists_the_commands_of_the_paper(capfd):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert re.search("paper +Reproduce the paper", capfd.readouterr().out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_an_example_and_fits_80_columns(command, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["paper", command, "--help"])
    said = capfd.readouterr().out
    example = said.split("Usage:")[1].split("\n", 1)[1].strip()
    assert example.startswith(f"Example: propcal paper {command}")
    assert max(map(len, said.splitlines())) <= 80
    assert "<bool>" not in said
    if command == "admissions":  # lists of choices break between words
        assert "authors-code" in said
