"""Pages of a monitor, of sites and of a search in a browser: no request, no message, no
axe violation.
"""

import shutil

import numpy as np
import pandas as pd
import pytest

from accessibility import AXE, serious_violations
from propcal import Atoms, Monitor, compare_sites, discover

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]
PAGES = ("alarm", "quiet", "sites", "found")

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; .ci/run installs it"
)


def people(wrong, n=6000):
    rng = np.random.default_rng(3)
    ward = rng.choice(
        ["A", "x" * 200, "<script>alert(1)</script>", "rare"],
        n,
        p=[0.6, 0.2, 0.195, 0.005],
    )
    month, risk = rng.integers(0, 6, n), rng.beta(2, 4, n)
    chance = np.minimum(np.where((ward == "A") & (month >= 3), wrong, 1.0) * risk, 1)
    day = pd.Timestamp("2024-01-15") + pd.to_timedelta(month * 31, unit="D")
    y = (rng.random(n) < chance).astype(int)
    site = rng.choice(["N", "S", "E"], n)
    return pd.DataFrame({"day": day, "ward": ward, "risk": risk, "y": y, "site": site})


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("over_time")
    for name, wrong in (("alarm", 1.4), ("quiet", 1.0)):
        monitor = Monitor(
            score="risk", outcome="y", time="day", groups=["ward"], gamma=0.001
        )
        monitor.add(people(wrong))
        course = monitor.course()
        assert (course.conclusion == "alarm") == (name == "alarm")
        course.to_html(folder / f"{name}.html")
    atoms = Atoms.from_frame(
        people(1.0), score="risk", outcome="y", groups=["ward"], site="site"
    )
    compare_sites(atoms).to_html(folder / "sites.html")
    wrong = people(1.6)
    discover("y", "risk", data=wrong, features=["ward", "site"], n_draws=24).to_html(
        folder / "found.html"
    )
    return folder


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_request_no_message_and_no_scrolling_sideways(browser, pages, name):
    context = browser.new_context(offline=True, viewport={"width": 360, "height": 740})
    page = context.new_page()
    target, asked, said = (pages / f"{name}.html").as_uri(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(target)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.title()
    assert page.locator("svg.picture, svg.forest").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".card").count() >= 1
    context.close()
    assert [url for url in asked if url != target and not url.startswith("data:")] == []
    assert said == []


@pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed; .ci/run installs it"
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_serious_violation_over_time(browser, pages, name, scheme):
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto((pages / f"{name}.html").as_uri())
    found = serious_violations(page)
    context.close()
    assert found == []
