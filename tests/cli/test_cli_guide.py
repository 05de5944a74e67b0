"""The commands of the guide run as they are shown."""

import re
import shlex
from pathlib import Path

import pytest

from paths import ROOT
from propcal.cli import main
from propcal.datasets import make_ed_visits

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text()


def test_the_commands_of_the_guide_run(capfd):
    visits = make_ed_visits(20_000, seed=1).rename(columns={"true_risk": "risk"})
    visits["disposition"] = visits.admitted.map({1: "ADMITTED", 0: "HOME"})
    visits["partial_risk"] = visits.risk.where(visits.index % 50 > 0)
    visits[:10_000].to_csv("visits.csv", index=False)
    visits[10_000:].to_csv("new.csv", index=False)
    visits[10_000:].to_parquet("new.parquet")
    Path("propcal.toml").write_text(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) >= 9
    for command in commands:
        name, *arguments = shlex.split(command)
        assert name == "propcal"
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0, command + capfd.readouterr().err
    assert Path("corrected.csv").exists()
    assert Path("corrected.parquet").exists()


@pytest.mark.slow
def test_the_commands_of_the_start_page_run(capfd):
    page = (ROOT / "docs" / "start.md").read_text()
    lines = [
        line.split("#")[0]
        for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in block.splitlines()
    ]
    commands = [shlex.split(line) for line in lines if line.startswith("propcal")]
    assert [words[1] for words in commands] == [
        "demo",
        "audit",
        "fit",
        "audit",
        "apply",
    ]
    for _, *arguments in commands:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0, capfd.readouterr().err
    assert "corrected" in Path("corrected.csv").read_text().splitlines()[0]
