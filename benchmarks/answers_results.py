"""Cases of answers.py on searches, monitors and sites: in Python, and on the command
line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from answers_cases import people
from answers_commands import propcal
from answers_frames import shown

from propcal import Monitor, discover

ROLES = "--score score --outcome y"
FEATURES = ["age", "acuity", "gender", "icu", "insurance", "lactate", "y"]


def dated(n: int, seed: int, months: int, *, change: int | None = None) -> pd.DataFrame:
    """People of several months and four hospitals; from a month on, women have the
    outcome more often.
    """
    rng = np.random.default_rng(seed)
    frame = people(n, seed, right=True)
    month = rng.integers(0, months, n)
    day = pd.Timestamp("2025-01-01") + pd.to_timedelta(
        30 * month + rng.integers(0, 28, n), "D"
    )
    hospital = rng.choice(
        ["North", "South", "East", "West", "Tiny"], n, p=[0.3, 0.3, 0.2, 0.19, 0.01]
    )
    frame = frame.assign(day=day.strftime("%Y-%m-%d"), hospital=hospital)
    more = (frame.gender == "F") & (month >= (months if change is None else change))
    risk = (
        np.where(more, 1.9, 1.0)
        * np.where(frame.hospital == "West", 1.5, 1.0)
        * frame.score
    )
    return frame.assign(y=(rng.random(n) < np.clip(risk, 0, 1)).astype(int))


def searches(ask: Any) -> None:
    cases: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
        "wrong": (people(6000, 41), {}),
        "wrong, protected": (people(6000, 42), {"protect": ["race"]}),
        "right": (people(3000, 43, right=True), {}),
        "few": (people(60, 44), {}),
        "rare": (
            people(5000, 45, "rare"),
            {"depth": 1, "unit": "patients", "score_name": "EWS"},
        ),
    }
    for name, (frame, options) in cases.items():
        data = frame.drop(columns=["soft", "survey", "count", "person"])
        found = ask(
            f"{name}: text",
            lambda: (
                discover(
                    frame.y, frame.score, features=data[FEATURES], data=None, **options
                )
                if "protect" not in options
                else discover(
                    "y", "score", features=FEATURES[:-1], data=data, **options
                )
            ),
        )
        if found is not None:
            ask(f"{name}: JSON", lambda: [found.to_json(), found.to_json(suppress=11)])
            ask(f"{name}: page", lambda: [found.to_html(), found.to_html(suppress=0)])
            ask(
                f"{name}: card",
                lambda: [found._repr_html_(), found.text, found.sentences],
            )
            ask(f"{name}: frame", found.to_frame)
            ask(f"{name}: picture", lambda: shown(found.plot()))


def monitors(ask: Any) -> None:
    cases: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
        "right": (dated(4000, 51, 6), {}),
        "changed": (dated(9000, 52, 9, change=4), {}),
        "against a baseline": (
            dated(9000, 53, 9, change=4),
            {"baseline": "2025-01..2025-03"},
        ),
        "few": (dated(150, 54, 3), {"unit": "patients", "score_name": "EWS"}),
    }
    for name, (frame, options) in cases.items():
        watched = Monitor(
            score="score", outcome="y", time="day", groups=["gender", "race"], **options
        )
        ask(f"{name}: added", lambda: repr(watched.add(frame)))
        for recalibrate in (False, True):
            told = f"{name}{', recalibrated' if recalibrate else ''}"
            course = ask(told, lambda: watched.course(recalibrate=recalibrate))
            if course is not None:
                ask(
                    f"{told}: JSON",
                    lambda: [course.to_json(), course.to_json(suppress=11)],
                )
                ask(f"{told}: page", course.to_html)
                ask(
                    f"{told}: card",
                    lambda: [
                        course._repr_html_(),
                        course.sentences,
                        course.to_metrics(),
                    ],
                )
                ask(
                    f"{told}: frames",
                    lambda: [course.groups, course.periods, course.evidence],
                )
                for kind in ("evidence", "ratios", "pie"):
                    ask(f"{told}: picture of {kind}", lambda: shown(course.plot(kind)))


def commands(ask: Any) -> None:
    frame = dated(8000, 61, 8, change=4)
    frame.to_csv("all.csv", index=False)
    for month, rows in frame.groupby(frame.day.str[:7]):
        rows.to_csv(f"{month}.csv", index=False)
    for name, rows in frame.groupby("hospital"):
        rows.to_csv(f"{name}.csv", index=False)
    begin = (
        f"{ROLES} --time day --groups gender,race --state a.monitor --as-of 2026-01-01"
    )
    both = f"{ROLES} --site hospital --groups gender"
    features = "--features age,acuity,gender,icu,insurance"
    for line in (
        "monitor --help",
        "monitor --help-all",
        "sites --help-all",
        "discover --help-all",
        "audit --help-all",
        "fit --help-all",
        f"monitor 2025-01.csv {begin} --title Watch --score-name EWS --unit patients",
        "monitor 2025-02.csv 2025-03.csv --state a.monitor --as-of 2026-01-01 --format json",
        "monitor 2025-0[4-8].csv --state a.monitor --as-of 2026-01-01 --fail-on new-alarm --html a.html",
        "monitor --state a.monitor --recalibrate --metrics a.prom -o a.json --suppress 5 --fail-on alarm",
        "monitor 2025-03.csv --state a.monitor --replace 2025-03 --as-of 2026-01-01",
        "monitor --state a.monitor --fail-on nothing",
        "monitor --state none.monitor",
        f"sites all.csv {both} --html sites.html -o sites.json",
        f"sites all.csv {both} --travel --score-name EWS --unit patients --suppress 5",
        f"sites North.csv {ROLES} --site clinic",
        f"sites North.csv {ROLES}",
        f"atoms North.csv {ROLES} --groups gender --site North --share -o north.atoms",
        f"atoms South.csv {ROLES} --groups gender --site South --share -o south.atoms",
        "sites north.atoms south.atoms",
        "audit north.atoms south.atoms --draws 100",
        f"audit all.csv {both} --draws 100 --full --html audit.html --md audit.md",
        f"audit all.csv {both} --draws 100 --format json --suppress 11",
        f"audit all.csv {both} --draws 100 --travel",
        f"audit all.csv {ROLES} --groups gender,race --draws 100 --full --threshold 0.2 --threshold 0.4 "
        "--bin-free --html thresholds.html --md thresholds.md --label gender.F=women --unit patients",
        f"audit all.csv {ROLES} --groups gender,race --draws 100 --within 20%",
        f"discover all.csv {ROLES} {features}",
        f"discover all.csv {ROLES} {features} --protect race --html found.html -o found.json --suppress 5",
        f"discover all.csv {ROLES}",
        f"fit 2025-0[1-3].csv {ROLES} --groups gender,race -o model.json --unit patients --share",
        f"audit all.csv {ROLES} --groups gender,race --draws 100 --correction model.json --full --md both.md "
        "--threshold 0.3 --fail-on verdict",
    ):
        propcal(ask, line)
    for path in Path().glob("*.csv"):
        path.unlink()


CASES: dict[str, Callable[[Any], None]] = {
    "results: searches": searches,
    "results: monitors": monitors,
    "results: commands": commands,
}
