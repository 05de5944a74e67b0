"""The commands of the guides about time and sites run as they are shown."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paths import ROOT
from propcal.cli import main
from propcal.datasets import make_ed_visits

GUIDE = ROOT / "docs" / "guide"


def commands(name):
    blocks = re.findall(r"```sh\n(.*?)```", (GUIDE / name).read_text(), re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def call(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0, arguments


def test_the_commands_about_time():
    visits = make_ed_visits(9000, seed=1).rename(columns={"true_risk": "risk"})
    days = np.arange(len(visits)) % 390
    visits["arrived"] = (
        pd.to_datetime("2025-01-01") + pd.to_timedelta(days, unit="D")
    ).strftime("%Y-%m-%d")
    visits[visits.arrived < "2026"].to_csv("2025.csv", index=False)
    visits[visits.arrived >= "2026"].to_csv("2026-01.csv", index=False)
    found = commands("monitor.md")
    assert len(found) == 3
    for arguments in found:
        call(arguments)
    assert Path("risk.html").exists()
    assert Path("risk.prom").read_text().endswith("# EOF\n")


def test_the_commands_about_sites():
    names = ("North", "South", "East", "West", "Centre")
    for number, name in enumerate(names):
        visits = make_ed_visits(3000, seed=number).rename(columns={"true_risk": "risk"})
        visits.to_csv(f"{name}.csv", index=False)
    share, *rest = commands("sites.md")
    for name in names:
        call([word.replace("North", name) for word in share])
    for arguments in rest:
        call(arguments)
    assert "Does a correction transfer?" in Path("report.html").read_text()
