"""propcal monitor: a state that grows by a file a month, and is never lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from propcal import Monitor

FIRST = (
    "--time",
    "seen_at",
    "--score",
    "risk",
    "--outcome",
    "y",
    "--groups",
    "race,gender",
)


@pytest.fixture
def months(people):
    """Six files, one a month; Black people have fewer events in the last three."""
    rng = np.random.default_rng(7)
    whole = people.sample(len(people) * 4, replace=True, random_state=1).reset_index(
        drop=True
    )
    month = np.arange(len(whole)) % 6
    factor = np.where((whole.race == "Black") & (month >= 3), 0.4, 1.0)
    whole["y"] = (rng.random(len(whole)) < whole.risk * factor).astype(int)
    whole["seen_at"] = pd.to_datetime("2024-01-10") + pd.to_timedelta(
        month * 31, unit="D"
    )
    for i in range(6):
        whole[month == i].to_csv(f"m{i + 1}.csv", index=False)
    return whole


def test_a_state_grows_month_by_month_and_the_alarm_ends_a_run_with_code_1(months, run):
    first = run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    assert first.startswith("Added: 2024-01.")
    assert "No alarm in 2024-01" in first
    for i in (2, 3):
        run("monitor", f"m{i}.csv", "--state", "a.monitor", "--fail-on", "alarm")
    again = run("monitor", "m3.csv", "--state", "a.monitor")
    assert "Unchanged, with the same people: 2024-03." in again
    for i in (4, 5):
        run("monitor", f"m{i}.csv", "--state", "a.monitor")
    assert "alarm: an alarm stands for Black" in run(
        "monitor", "m6.csv", "--state", "a.monitor", "--fail-on", "alarm", code=1
    )
    assert "an alarm stands for" in run(
        "monitor", "--state", "a.monitor", "--fail-on", "alarm", code=1
    )
    run(
        "monitor", "--state", "a.monitor", "--fail-on", "new-alarm"
    )  # raised by an earlier run


def test_all_outputs_are_written_together(months, run):
    names = ("--html", "a.html", "-o", "a.json", "--metrics", "a.prom")
    said = run(
        "monitor",
        "m*.csv",
        "--state",
        "a.monitor",
        *FIRST,
        *names,
        "--recalibrate",
        "--unit",
        "patients",
    )
    assert "Written: a.html, a.json, a.prom" in said
    content = json.loads(Path("a.json").read_text())
    assert content["alarms"][0]["label"] == "Black"
    assert content["recalibration"]["answer"] == "it would help"
    assert "patients" in Path("a.html").read_text()
    assert Path("a.prom").read_text().endswith("# EOF\n")
    printed = run("monitor", "--state", "a.monitor", "--format", "json")
    assert json.loads(printed)["alarms"] == content["alarms"]
    run(
        "monitor", "--state", "a.monitor", *names
    )  # replaced without asking, as by every run


def test_options_come_from_a_file_too(months, run):
    Path("propcal.toml").write_text(
        'score = "risk"\noutcome = "y"\ngroups = ["race", "gender"]\n'
        '[monitor]\nstate = "a.monitor"\ntime = "seen_at"\ndelay = "5d"\n'
    )
    run("monitor", "m1.csv", "--config", "propcal.toml")
    run("monitor", "m2.csv", "--config", "propcal.toml")
    assert Monitor.load("a.monitor").periods == ("2024-01", "2024-02")


def test_periods_are_held_back_and_replaced(months, run):
    said = run(
        "monitor",
        "m*.csv",
        "--state",
        "a.monitor",
        *FIRST,
        "--delay",
        "30d",
        "--as-of",
        "2024-06-10",
    )
    assert "Added: 2024-01, 2024-02, 2024-03 and 2024-04." in said
    assert (
        "Held back, because their outcomes may not be known yet: 2024-05 and 2024-06. 2024-05 can be"
        in said
    )
    fewer = pd.read_csv("m2.csv")[:-5]
    fewer.to_csv("m2b.csv", index=False)
    wrong = run("monitor", "m2b.csv", "--state", "a.monitor", code=2)
    assert "2024-02 is in the state already" in wrong
    assert "--replace 2024-02" in wrong
    assert "Replaced: 2024-02 (" in run(
        "monitor", "m2b.csv", "--state", "a.monitor", "--replace", "2024-02"
    )
    nothing = run(
        "monitor", "m6.csv", "--state", "b.monitor", *FIRST, "--as-of", "2024-06-10"
    )
    assert "nothing to add yet" in nothing
    assert not Path("b.monitor").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--groups", "race"], "--groups: groups cannot differ from the state's"),
        (
            ["--n-bins", "5"],
            "--n-bins: the number of risk ranges cannot differ from the state's",
        ),
        (["--every", "week"], "--every: the length of a period cannot differ"),
        (["--score", "age"], "score"),
        (["--baseline", "2024-01"], "--baseline"),
        (["--fail-on", "verdict"], "write alarm or new-alarm"),
        (["--format", "xml"], "'xml' is not one of 'text', 'json'"),
        (["--html", "a.pdf"], "must end in .html"),
        (["--html", "a.monitor"], "must end in .html"),
        (["--metrics", "a.monitor"], "must be different files"),
        (["--as-of", "today"], "write it like 2026-03-31"),
        (["--replace", "March"], "is not a month"),
    ],
)
def test_what_differs_from_the_state_is_said_and_the_state_stays(
    months, run, arguments, told
):
    run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    before = Path("a.monitor").read_bytes()
    assert told in run("monitor", "m2.csv", "--state", "a.monitor", *arguments, code=2)
    assert Path("a.monitor").read_bytes() == before


def test_later_runs_may_change_the_delay_and_how_missing_values_are_treated(
    months, run
):
    run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    run("monitor", "m2.csv", "--state", "a.monitor", "--delay", "9d", "--drop-missing")
    settings = Monitor.load("a.monitor").settings
    assert (settings["delay"], settings["drop_missing"]) == (9, True)
    run(
        "monitor", "m3.csv", "--state", "a.monitor", "--groups", "gender,race"
    )  # the order does not matter
    said = run(
        "monitor", "m4.csv", "--state", "a.monitor", "--missing", "exclude", code=2
    )
    assert "The state has missing" in said


def test_two_first_runs_at_once_do_not_lose_a_state(months, run, monkeypatch):
    other = Path("m2.csv").read_bytes()

    def meanwhile(*arguments, **options):
        Path("a.monitor").write_bytes(other)  # by another run
        return add(*arguments, **options)

    add = Monitor.add
    monkeypatch.setattr(Monitor, "add", meanwhile)
    said = run(
        "monitor", "m1.csv", "--state", "a.monitor", *FIRST, "--html", "a.html", code=2
    )
    assert "a.monitor was created by another run in the meantime" in said
    assert Path("a.monitor").read_bytes() == other
    assert not Path("a.html").exists()
    assert not list(Path().glob(".propcal-*"))


def test_a_copy_of_a_file_and_an_empty_export_are_noticed(months, run):
    Path("copy.csv").write_bytes(Path("m1.csv").read_bytes())
    assert "has the same content as" in run(
        "monitor", "m1.csv", "copy.csv", "--state", "a.monitor", *FIRST, code=2
    )
    run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    Path("empty.csv").write_text(Path("m1.csv").read_text().splitlines()[0] + "\n")
    before = Path("a.monitor").read_bytes()
    assert "empty.csv: there are no rows" in run(
        "monitor", "empty.csv", "--state", "a.monitor", code=2
    )
    assert Path("a.monitor").read_bytes() == before


def test_a_state_can_be_shown_where_nothing_may_be_written(months, run, monkeypatch):
    run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not mode & os.W_OK and allowed(path, mode)
    )
    assert "No alarm in 2024-01" in run("monitor", "--state", "a.monitor")
    assert "is not writable" in run("monitor", "m2.csv", "--state", "a.monitor", code=2)
    assert "is not writable" in run(
        "monitor", "--state", "a.monitor", "--html", "a.html", code=2
    )


def test_a_new_state_needs_columns_and_files(months, run):
    assert "needs --time, --score and --outcome" in run(
        "monitor", "m1.csv", "--state", "a.monitor", code=2
    )
    assert "Name files to begin one" in run("monitor", "--state", "a.monitor", code=2)
    assert "is also an input file" in run(
        "monitor", "m1.csv", "--state", "m1.csv", *FIRST, code=2
    )
    text = Path("a.monitor")
    text.write_text("state")
    assert "a.monitor" in run(
        "monitor", "m1.csv", "--state", "a.monitor", *FIRST, code=2
    )
    assert text.read_text() == "state"


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_the_old_state_whole(months, run):
    """kill -9 at many moments of a run: the state is the old one or the new one."""
    run("monitor", "m1.csv", "--state", "a.monitor", *FIRST)
    old = Path("a.monitor").read_bytes()
    slow = (
        "import os, time, pyarrow.parquet as pq\n"
        "write = pq.write_table\n"
        "def half(table, part, **more):\n"
        "    write(table.slice(0, len(table) // 2), part, **more)\n"
        "    open('writing', 'w').close()\n"
        "    time.sleep(60)\n"
        "pq.write_table = half\n"
        "from propcal.cli import main\n"
        "main(['monitor', 'm2.csv', '--state', 'a.monitor'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slow], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    for _ in range(300):
        if Path("writing").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert Path("a.monitor").read_bytes() == old
    assert Monitor.load("a.monitor").periods == ("2024-01",)
    run("monitor", "m2.csv", "--state", "a.monitor")
    assert Monitor.load("a.monitor").periods == ("2024-01", "2024-02")


def test_repeat_visits_of_a_monitor_are_noted(tmp_path):
    rng = np.random.default_rng(0)
    risk = rng.uniform(0.05, 0.6, 4000)
    frame = pd.DataFrame({"risk": risk, "died": rng.random(4000) < risk})
    frame["patient_id"] = rng.integers(0, 900, 4000)
    frame["day"] = pd.date_range("2024-01-01", periods=4000, freq="h").date
    frame.to_csv(tmp_path / "visits.csv", index=False)
    monitor = Monitor(score="risk", outcome="died", time="day")
    with pytest.warns(UserWarning, match="keep one visit of each patient"):
        monitor.add(tmp_path / "visits.csv")
