"""Writes the example report of the documentation, docs/example-report.html, and a
picture of its top.

python docs/images/report.py    (the picture needs Chromium)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from propcal import audit
from propcal.datasets import load_doctor_visits

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
    years = load_doctor_visits()
    found = audit(
        years[years.person >= 1765],
        score="risk",
        outcome="frequent",
        groups=["plan", "limited"],
        cluster="person",
        title="Is this score right for everyone?",
        unit="person-years",
        outcome_name="five doctor visits or more in a year",
        population="families with insurance plans that pay all or part of their care",
        source="RAND Health Insurance Experiment, 1974 to 1982 (public domain)",
        thresholds=[0.3],
    )
    found.to_html(PAGE)
    browser = shutil.which("chromium")
    if browser is None:
        print("no Chromium: the picture stays as it is")
        return
    with tempfile.TemporaryDirectory() as profile:
        target = f"--screenshot={HERE / 'report.png'}"
        command = [
            browser,
            *QUIET,
            f"--user-data-dir={profile}",
            "--window-size=1280,860",
            target,
        ]
        subprocess.run([*command, PAGE.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
