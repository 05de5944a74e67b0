"""Writes the example report of the documentation, docs/example-report.html, and a picture of its top.

python docs/images/report.py    (the picture needs Chromium)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from propcal import audit
from propcal.datasets import load_readmissions

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
    stays = load_readmissions()
    found = audit(
        stays[stays.patient >= 15_000],
        score="risk",
        outcome="readmitted",
        groups=["race", "payer"],
        cluster="patient",
        title="Is this readmission score right for everyone?",
        unit="stays",
        score_name="The readmission score",
        outcome_name="readmission",
        population="patients with diabetes",
        source="130 US hospitals, 1999 to 2008 (doi 10.24432/C5230J, CC BY 4.0)",
        thresholds=[0.5],
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
