"""The site in a real browser, from disk, after `make docs`: nothing leaves the machine,
every page works.
"""

import re
import shutil
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import pytest

from paths import ROOT

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
SITE = ROOT / "build" / "site"
MAIN = [
    "index.html",
    "start.html",
    "guide/audit.html",
    "gallery/index.html",
    "gallery/plot_1_vendor_score.html",
    "reference/api.html",
    "reference/generated/propcal.audit.html",
    "reference/command-line.html",
    "background/how-it-works.html",
    "evidence.html",
]

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None, reason="no Chromium on this machine; .ci/run installs it"
    ),
    pytest.mark.skipif(
        not (SITE / "index.html").exists(), reason="make docs has not built the site"
    ),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """Open a page of the site; a request to the network or an error on the console is a
    failure.
    """
    troubles = []
    context = browser.new_context()
    context.set_default_timeout(120_000)

    def opened(name, query="", **options):
        page = context.new_page()
        page.on(
            "request",
            lambda asked: (
                asked.url.startswith(("file:", "data:")) or troubles.append(asked.url)
            ),
        )
        page.on(
            "console", lambda said: said.type == "error" and troubles.append(said.text)
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.set_viewport_size({"width": 1280, "height": 900} | options)
        page.goto((SITE / name).as_uri() + query)
        return page

    yield opened
    context.close()
    assert troubles == []


@pytest.mark.parametrize("name", MAIN)
def test_a_page_opens_without_the_network_and_without_errors(visit, name):
    page = visit(name)
    assert page.locator("h1").count() == 1
    assert "propcal" in page.title()


@pytest.mark.parametrize("name", MAIN)
def test_a_page_fits_a_phone(visit, name):
    page = visit(name, width=390, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= 391


@pytest.mark.parametrize(
    "name", ["start.html", "guide/correct.html", "gallery/plot_1_vendor_score.html"]
)
def test_a_verdict_is_read_without_scrolling(visit, name):
    page = visit(name, width=390, height=800)
    ends = "one => Math.max(...Array.from(one.getClientRects(), box => box.right))"
    rights = page.evaluate(
        f"Array.from(document.querySelectorAll('.highlight .sentences'), {ends})"
    )
    assert rights
    assert max(rights) <= 390


def test_on_a_phone_the_type_of_an_argument_has_the_whole_line(visit):
    page = visit("reference/generated/propcal.audit.html", width=390, height=800)
    names = page.locator("dl.field-list dl dt:has(.classifier)")
    shown = names.evaluate_all("all => all.map(one => getComputedStyle(one).display)")
    assert len(shown) > 10
    assert set(shown) == {"block"}


def test_dark_mode_is_dark(visit):
    page = visit("start.html")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", colour)[:3])) < 80


def test_search_works_offline(visit):
    page = visit("search.html", "?q=prediction+interval")
    # results come one by one
    page.locator(
        "#search-results li", has_text="Several sites, no rows shared"
    ).first.wait_for()


@pytest.mark.browser  # it needs none, but the site, as the others do
def test_no_link_of_the_site_is_dead():
    paths = [path for path in SITE.rglob("*.html") if "_static" not in path.parts]
    pages = {path: path.read_text(encoding="utf-8") for path in paths}
    assert len(pages) > 60
    names = {
        path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()
    }
    dead = set()
    for path, text in pages.items():
        if path.name == "example-report.html":
            continue
        for link in re.findall(r'href="([^"]+)"', text):
            target, anchor = urldefrag(
                urljoin(path.as_uri(), link.replace("&amp;", "&"))
            )
            if not target.startswith("file:"):
                continue
            file = type(SITE)(unquote(urlparse(target).path))
            known = names.get(file)
            if not file.exists() or (
                anchor and known is not None and unquote(anchor) not in known
            ):
                dead.add(f"{path.relative_to(SITE)}: {link}")
    assert dead == set()
