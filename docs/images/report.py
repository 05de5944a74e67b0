"""Writes the example report of the documentation, docs/example-report.html, and a picture of its top.

python docs/images/report.py    (the picture needs Chromium)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from propcal import audit
from propcal.datasets import make_ed_visits

HERE = Path(__file__).parent
PAGE = HERE.parent / "example-report.html"
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def main() -> None:
    visits = make_ed_visits(40_000, seed=1)
    score = visits.groupby(["acuity", visits.age // 10], dropna=False).admitted.transform("mean")
    found = audit(
        visits.admitted,
        score,
        sensitive_features=visits[["race", "gender"]],
        labels={"gender": {"F": "women", "M": "men"}},
        title="Is this admission score right for everyone?",
        unit="patients",
        score_name="The triage score",
        outcome_name="admission",
        population="visits to an emergency department",
        source="generated data",
        thresholds=[0.3],
    )
    found.to_html(PAGE)
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium: the picture stays as it is")
        return
    with tempfile.TemporaryDirectory() as profile:
        target = f"--screenshot={HERE / 'report.png'}"
        command = [browser, *QUIET, f"--user-data-dir={profile}", "--window-size=1280,860", target]
        subprocess.run([*command, PAGE.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
