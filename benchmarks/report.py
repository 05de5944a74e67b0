"""Time and size of the HTML report of an audit, and how long Chromium takes to open it,
if it is installed.

python benchmarks/report.py

Writes benchmarks/results/report.json.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from engine import best

from propcal import audit

SHAPES = {
    "23 groups x 10": ((5, 3), 10),
    "60 groups x 10": ((5, 9), 10),
    "200 groups x 20": ((10, 17), 20),
    "500 groups x 10": ((20, 24), 10),
}


def audited(levels: tuple[int, ...], n_bins: int, n: int = 60_000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {f"a{i}": rng.integers(0, k, n).astype(str) for i, k in enumerate(levels)}
    )
    score = rng.beta(1.5, 4, n)
    y = (rng.random(n) < score).astype(int)
    return audit(
        y, score, sensitive_features=frame, gamma=1e-4, n_bins=n_bins, n_draws=100
    )


def seconds_to_open(page: str) -> float | None:
    """From the request until everything works, the best of five; None without a
    browser.
    """
    browser = shutil.which("chromium")
    if browser is None:
        return None
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        target = Path(folder) / "page.html"
        target.write_text(page, encoding="utf-8")
        running = driver.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = running.new_page()

        def visit() -> None:
            tab.goto(target.as_uri())
            tab.wait_for_selector("html[data-ready]", state="attached")

        visit()
        found = best(visit, 5)
        running.close()
    return found


def main() -> None:
    rows = []
    for name, (levels, n_bins) in SHAPES.items():
        a = audited(levels, n_bins)
        a.to_html()  # loads the templates
        for suppress in (11, 0):
            page = a.to_html(suppress=suppress)
            rows.append(
                {
                    "shape": name,
                    "groups": int(a.groups["kept"].sum()) - 1,
                    "suppress": suppress,
                    "seconds": best(lambda: a.to_html(suppress=suppress), 3),
                    "megabytes": len(page.encode()) / 1e6,
                    "seconds_to_open": seconds_to_open(page),
                }
            )
    (Path(__file__).parent / "results" / "report.json").write_text(
        json.dumps(rows, indent=1) + "\n"
    )
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
