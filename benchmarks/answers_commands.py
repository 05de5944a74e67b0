"""Cases of answers.py on the command line: its output, exit codes and files."""

from __future__ import annotations

import gzip
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from answers_cases import newcomers, people

ROLES = "--score score --outcome y"
BOTH = f"{ROLES} --groups race,gender"
HELP = ("", "demo", "audit", "fit", "apply", "atoms", "merge", "export", "paper")
PAPER = (
    "simulation",
    "theory",
    "cohort",
    "admissions",
    "experiment",
    "tables",
    "figures",
    "reproduction",
    "benefit",
)
HELP += tuple(f"paper {name}" for name in PAPER)
CONFIG = """score = "score"
outcome = "y"
groups = "race,gender"
cut = ["age=40,65"]
[fit]
alpha = 0.2
paper = true
[apply]
column = "better"
"""


def propcal(ask: Any, command: str, part: str | None = None) -> None:
    """Run a command, and store its exit code, its output and every new or changed
    file.
    """
    before = {path: path.read_bytes() for path in _files()}
    arguments = [sys.executable, "-m", "propcal", *shlex.split(command)]
    found = subprocess.run(
        arguments, capture_output=True, text=True, timeout=300, check=False
    )
    printed = re.sub(r"^\d+ s$", "N s", found.stdout, flags=re.MULTILINE)  # of the demo
    ask.keep(
        part or command or "nothing",
        f"exit {found.returncode}\n{printed}\n--- stderr\n{found.stderr}",
    )
    for path in _files():
        if before.get(path) != path.read_bytes():
            ask(f"{part or command} > {path}", lambda: _content(path))


def _files() -> list[Path]:
    return sorted(path for path in Path().rglob("*") if path.is_file())


def _content(path: Path) -> Any:
    if path.suffix == ".sqlite":
        return "a store"  # it contains times; admissions() reads it
    if path.suffix == ".png":
        return "a picture"
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return data if data[:4] == b"PAR1" else data.decode()


def prepare() -> None:
    """People of two months, as CSV and as Parquet, and new ones."""
    frame = people(1600, 21)
    for name, part in (("jan", frame[:900]), ("feb", frame[900:])):
        part.to_csv(f"{name}.csv", index=False)
        part.to_parquet(f"{name}.parquet", index=False)
    new = newcomers(22, "beta")
    new.to_csv("new.csv", index=False)
    new.to_csv("new.csv.gz", index=False)
    new.assign(insurance=new.insurance.astype(str)).to_parquet(
        "new.parquet", index=False
    )
    Path("propcal.toml").write_text(CONFIG)
    Path("wrong.toml").write_text("alhpa = 0.1")
    Path("broken.toml").write_text("alpha = [")
    Path("notes.txt").write_text("no table at all")
    Path("old.csv").write_text("old")


def commands(ask: Any, lines: Sequence[str]) -> None:
    prepare()
    for line in lines:
        propcal(ask, line)


FIT = (
    f"fit jan.csv {BOTH} -o model.json",
    f"fit jan.parquet {BOTH} --paper -o paper.json",
    f"fit jan.csv feb.csv {BOTH} --method mcboost --alpha 0.02 --start identity --guard 2 -o mc.json",
    f'fit "*.parquet" {ROLES} --groups icu -o x.json',
    f'fit jan.csv {ROLES} --groups gender --cut age=40,65 --where "ill=lactate > 3 or icu" -o words.json',
    f"fit jan.csv {BOTH} --weight count --binning quantile --missing exclude --gamma 0.15 -o weighted.json",
    f"fit jan.csv {BOTH} --binning 0,0.1,0.4,1 --rho 0.2 --eta 0.5 --guard none --max-updates 9 -o e.json",
    f"fit jan.csv {BOTH} --resolution 2^-8 --intersections marginal --unseen keep --seed 3 -o coarse.json",
    "fit jan.csv --config propcal.toml -o config.json",
    "apply model.json new.csv --score score -o out.csv",
    "apply model.json new.csv --score score -o out.csv --force --column better --unseen keep",
    "apply paper.json new.parquet --score score -o out.parquet",
    "apply words.json new.csv.gz --score score -o out.csv.gz",
    "apply mc.json jan.csv feb.csv --score score -o both.tsv",
    "apply mc.json jan.parquet feb.parquet --score score -o scored/",
    "apply config.json new.csv --config propcal.toml -o better.csv",
    "apply model.json new.csv --score score --unseen error -o refused.csv",
    *(
        f"export model.json --dialect {d} --score score -o {d}.sql"
        for d in ("duckdb", "postgres", "tsql")
    ),
    "export words.json --dialect sqlite --score risk --table a.b --form values --type gender=text --column c",
    "export paper.json --dialect spark --score r --rename race=RACE --lookup-table l --unseen error",
)
AUDIT = (
    f"audit jan.csv {BOTH} --draws 100",
    f"audit jan.parquet {BOTH} --draws 100 --format json --suppress 0",
    f"audit jan.csv feb.csv {BOTH} --draws 100 --html page.html --md page.md -o audit.json",
    f'audit jan.csv {BOTH} --draws 100 --fail-on "pmc > 0.2" --fail-on "dc.low > 9" --fail-on verdict',
    f"audit jan.csv {ROLES} --groups race --cluster person --draws 100 --min-people 10 --seed 4",
    f"audit jan.csv {ROLES} --groups icu --weight count --weight-kind survey --draws 100 --n-bins 4",
    f'audit jan.csv {ROLES} --cut age=40 --where "ill=lactate > 3" --draws 100 --binning geometric',
    f"fit jan.csv {BOTH} -o model.json",
    f"audit feb.csv {BOTH} --correction model.json --draws 100 --html after.html",
    f"audit jan.csv {ROLES} --groups gender --correction model.json --draws 100 --format json",
    f"atoms jan.csv {BOTH} -o jan.atoms",
    f"atoms feb.parquet {BOTH} --resolution 2^-10 -o feb.atoms",
    "merge jan.atoms feb.atoms -o both.atoms",
    f"atoms jan.csv feb.csv {BOTH} --memory 1GB -o whole.atoms",
    "merge jan.atoms whole.atoms -o more.atoms --force",
    "audit both.atoms --draws 100 --suppress 5",
    "fit whole.atoms -o atoms.json",
    "audit whole.atoms --correction model.json --draws 100",
    "merge jan.atoms jan.atoms -o twice.atoms",
    f"atoms jan.csv {ROLES} --groups icu -o icu.atoms",
    "merge jan.atoms icu.atoms -o mixed.atoms",
)
WRONG = (
    "",
    "--version",
    "dance",
    "audit",
    "audit jan.csv",
    "audit jan.csv --score score",
    f"audit nowhere.csv {BOTH}",
    f"audit jan.csv {BOTH} --format html",
    f"audit jan.csv {BOTH} --fail-on pmc",
    f'audit jan.csv {BOTH} --fail-on "foo > 1"',
    f"audit jan.csv {BOTH} --correction jan.csv",
    f"audit jan.csv {ROLES} --groups race,gendre",
    f"audit jan.csv {ROLES} --groups person",
    f"audit jan.csv {BOTH} --weight race",
    f"audit jan.csv {BOTH} -o jan.csv --force",
    f"audit jan.csv {BOTH} -o x.json --html x.json",
    f"audit jan.csv {BOTH} --config no.toml",
    f"audit notes.txt {BOTH}",
    f"fit jan.csv {BOTH}",
    f"fit jan.csv {BOTH} -o m.json --alpha 3",
    f"fit jan.csv {BOTH} -o m.json --alfa 3",
    f"fit jan.csv {BOTH} -o m.json --alpha x",
    f"fit jan.csv {BOTH} -o m.json --cut age",
    f"fit jan.csv {BOTH} -o m.json --where 'old=age >= '",
    f"fit jan.csv {BOTH} -o m.json --guard some",
    f"fit jan.csv {BOTH} -o m.json --missing error",
    f"fit jan.csv {BOTH} -o m.json --resolution 0.3",
    f"fit jan.csv {BOTH} -o m.json --config wrong.toml",
    f"fit jan.csv {BOTH} -o m.json --config broken.toml",
    f"fit jan.csv {BOTH} -o no/m.json",
    f"fit jan.csv {ROLES} --groups age -o m.json",
    "fit jan.csv --score race --outcome y -o m.json",
    "fit jan.csv --score score --outcome age -o m.json",
    "apply no.json new.csv --score score -o o.csv",
    "apply jan.csv new.csv --score score -o o.csv",
    "apply notes.txt new.csv --score score -o o.xlsx",
    "apply notes.txt new.csv --score score -o old.csv",
    f"atoms jan.csv {BOTH} -o old.csv",
    "merge jan.csv -o x.atoms",
    "merge jan.csv feb.csv -o x.atoms",
    "export jan.csv --score score",
    "export no.json --score score --dialect oracle",
    "paper tables no.sqlite",
    "paper cohort --mimic . -o cohort.parquet",
    "paper admissions --models XX --trials 1 -o a.sqlite",
    "paper simulation --groups 0 -o figures",
)


def helps(ask: Any) -> None:
    for command in HELP:
        propcal(ask, f"{command} --help".strip())


def paper(ask: Any) -> None:
    propcal(ask, "paper simulation --data-sets 40 --people 200 -o figures")
    propcal(
        ask,
        "paper simulation --groups 11 --alpha 0.05 --data-sets 20 --people 100 --seed 3 -o others",
    )
    propcal(ask, "paper theory -o figures")
    propcal(ask, "paper theory --alpha 0.1 --rho 0.05 -o figures")


def admissions(ask: Any) -> None:
    """The experiment on a few visits, with all times set to 1 before tables are
    made.
    """
    propcal(
        ask, "paper admissions --rows 400 --trials 2 --models LR --jobs 1 -o a.sqlite"
    )
    with sqlite3.connect("a.sqlite") as store:
        store.execute("UPDATE trials SET fit_seconds = 1, evaluation_seconds = 1")
        for table, order in (
            ("trials", "seed, model, setting"),
            ("curves", "1, 2, 3, 4, 5, 6"),
            ("about", "1"),
        ):
            rows = store.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
            ask(f"the table {table}", lambda: rows)
    store.close()
    propcal(
        ask,
        "paper admissions --rows 400 --trials 2 --models LR --jobs 1 -o a.sqlite",
        "once more",
    )
    propcal(ask, "paper tables a.sqlite -o tables")
    propcal(ask, "paper figures a.sqlite -o figures")
    propcal(ask, "paper reproduction a.sqlite -o page.md")


def mimic(ask: Any) -> None:
    """A few visits in the files of MIMIC, version 2."""
    Path("ed").mkdir()
    Path("hosp").mkdir()
    stays, triage, admitted, patients = [], [], [], []
    races = (
        "WHITE",
        "BLACK/AFRICAN AMERICAN",
        "ASIAN - CHINESE",
        "PORTUGUESE",
        "",
        "UNABLE TO OBTAIN",
    )
    kinds = ("EW EMER.", "OBSERVATION ADMIT", "URGENT")
    for i in range(120):
        subject, hadm, race = 1 + i % 40, f"{1000 + i}" if i % 3 else "", races[i % 6]
        time = f"{2150 + i // 40}-0{1 + i % 9}-{10 + i % 17} 0{i % 10}:00:00"
        stays.append(
            f"{subject},{hadm},{5000 - i},{time},{time},{'FM'[subject % 2]},{race}"
        )
        vitals = f"{90 + i / 6:.1f},{80 + i},{10 + i % 9},{99 - i % 60},{100 + i},{60 + i % 30},{i % 25},{i % 7}"
        triage.append(
            f"{subject},{5000 - i},{vitals},{'Chest pain' if i % 4 else 'N/V; fever!'}"
        )
        if hadm:
            told = f"{('Medicare', 'Other', '')[i % 3]},ENGLISH,{('SINGLE', '')[i % 2]},{race}"
            admitted.append(f"{subject},{hadm},{time},{kinds[i % 3]},{told}")
    patients = [f"{s},{'FM'[s % 2]},{20 + s},{2150 + s % 3}," for s in range(1, 40)]
    ids, vitals = (
        "subject_id,hadm_id",
        "temperature,heartrate,resprate,o2sat,sbp,dbp,pain,acuity",
    )
    tables = {
        "ed/edstays": [f"{ids},stay_id,intime,outtime,gender,race", *stays],
        "ed/triage": [f"subject_id,stay_id,{vitals},chiefcomplaint", *triage],
        "hosp/admissions": [
            f"{ids},admittime,admission_type,insurance,language,marital_status,race",
            *admitted,
        ],
        "hosp/patients": ["subject_id,gender,anchor_age,anchor_year,dod", *patients],
    }
    for name, lines in tables.items():
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    propcal(ask, "paper cohort --mimic . -o cohort.csv")
    propcal(ask, "paper cohort --mimic . --cohort clean -o clean.csv")
    propcal(ask, "paper cohort --mimic . --cohort odd -o odd.csv")


CASES: dict[str, Callable[[Any], None]] = {
    "commands: help": helps,
    "commands: fit, apply, export": partial(commands, lines=FIT),
    "commands: audit, atoms, merge": partial(commands, lines=AUDIT),
    "commands: wrong": partial(commands, lines=WRONG),
    "commands: demo": lambda ask: propcal(ask, "demo --people 5000 --seed 2 -o demo"),
    "commands: paper": paper,
    "commands: paper admissions": admissions,
    "commands: paper cohort": mimic,
}
