"""The page in a real browser, from disk, the network blocked: by mouse, by keyboard, on
paper, on a phone.
"""

import shutil

import numpy as np
import pytest

from accessibility import AXE, serious_violations
from propcal import PMCBoost, audit, compare, discover
from propcal.numbers import risk_range
from propcal.render.html import unpacked

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
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium on this machine; .ci/run installs it"
)


@pytest.fixture(scope="module")
def results(cohort):
    features = cohort[["race", "gender"]]
    cal = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=features)
    scores = {"score": cohort.score, "corrected": cal}
    return {
        "audit": audit(
            cohort.y,
            cohort.score,
            sensitive_features=features,
            n_draws=200,
            thresholds=[0.3, 0.525],
        ),
        "both": compare(scores, cohort.y, sensitive_features=features, n_draws=200),
        "model": cal,
        "y": cohort.y,
        "score": cohort.score,
        "features": features,
    }


@pytest.fixture(scope="module")
def pages(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    results["audit"].to_html(folder / "open.html", suppress=0)
    codes = np.random.default_rng(1).integers(0, 90, 9000)
    chance = np.random.default_rng(2).random((2, 9000))
    features = np.char.add("level ", codes.astype(str))
    many = audit(
        (chance[1] < chance[0]).astype(int),
        chance[0],
        sensitive_features=features,
        n_draws=100,
    )
    many.to_html(folder / "many.html")
    results["audit"].to_html(folder / "hidden.html")
    found = discover(
        results["y"], results["score"], features=results["features"], n_draws=20
    )
    assert len(found) >= 2
    results["both"].to_html(
        folder / "both.html", correction=results["model"], discovery=found
    )
    rng = np.random.default_rng(0)
    names = rng.choice(
        ["<script>alert(1)</script>", "x" * 300, "مرضى السكري", "👩🏽‍⚕️", "\"'</style>"],
        3000,
    )
    score = rng.beta(2, 3, 3000)
    y = (rng.random(3000) < score).astype(int)
    audit(y, score, sensitive_features=names, n_draws=100).to_html(
        folder / "hostile.html"
    )
    audit(y[:20], score[:20], sensitive_features=names[:20], n_draws=100).to_html(
        folder / "few.html"
    )
    return folder


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def visit(browser, pages):
    """Open a page; it may ask for nothing and say nothing on the console."""
    contexts, asked, said = [], [], []

    def open_page(name="open", **options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        target = (pages / f"{name}.html").as_uri()
        page.on(
            "request",
            lambda request: (
                asked.append(request.url) if request.url != target else None
            ),
        )
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(target)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith("data:")] == []
    assert said == []


def column(page, table, place):
    return page.eval_on_selector_all(
        f"#{table} tbody tr:not([hidden])",
        f"rows => rows.map(r => r.cells[{place}].textContent.trim())",
    )


@pytest.mark.parametrize("name", ["open", "hidden", "both", "hostile", "few"])
def test_no_request_and_no_message(visit, name):
    page = visit(name)
    assert page.title()
    assert page.locator("#verdict h2").inner_text()


def test_values_shown_equal_the_audit(visit, results):
    page = visit()
    groups = results["audit"].groups
    kept = groups[groups["kept"]]
    labels = column(
        page, "groups-table", 0
    )  # those that are named or clearest come after everybody
    assert labels[0] == kept["label"].iloc[0]
    assert sorted(labels) == sorted(kept["label"])
    kept = kept.set_index("label").loc[labels]
    assert column(page, "groups-table", 4) == [
        f"{x:.2f}" for x in kept["observed_expected"]
    ]
    assert column(page, "groups-table", 1) == [f"{x:,}" for x in kept["people"]]
    content = unpacked(page.locator("#audit-data").text_content())
    assert [g["people"] for g in content["groups"]] == groups["people"].tolist()


def test_sorting_by_mouse(visit):
    page = visit()
    heading = page.locator("#groups-table thead th").nth(1)
    before = column(page, "groups-table", 1)
    heading.locator("button").click()
    numbers = [int(x.replace(",", "")) for x in column(page, "groups-table", 1)]
    assert numbers == sorted(numbers)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert [
        int(x.replace(",", "")) for x in column(page, "groups-table", 1)
    ] == numbers[::-1]
    assert sorted(before) == sorted(column(page, "groups-table", 1))


def test_sorting_by_keyboard_alone(visit):
    page = visit()
    page.locator("#find-groups").focus()
    for _ in range(
        3
    ):  # past the choice of findings and the scrolling region to the first heading
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "group"
    page.keyboard.press("Enter")
    names = column(page, "groups-table", 0)
    assert names == sorted(names, key=str.lower)
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    ratios = [float(x) for x in column(page, "groups-table", 4)]
    assert ratios == sorted(ratios)


def test_filtering_by_name_and_finding(visit, results):
    page = visit()
    page.locator("#all-categories > summary").click()
    page.locator("#find-categories").fill("white")
    table = results["audit"].categories
    table = table.assign(group=table["group"].map(results["audit"].labels))
    chosen = table[table["group"].str.lower().str.contains("white")]
    assert column(page, "categories-table", 0) == chosen["group"].tolist()
    page.locator("#find-categories-finding").select_option("too high")
    chosen = chosen[chosen["finding"] == "too high"]
    assert column(page, "categories-table", 0) == chosen["group"].tolist()
    assert (
        page.locator("[data-shown=categories-table]").inner_text()
        == f"{len(chosen)} of {len(table)} rows"
    )
    page.locator("#find-heat").focus()
    page.keyboard.type("asian")
    assert set(column(page, "heat-table", 0)) == {
        n for n in table["group"] if "asian" in n.lower()
    }


def test_the_group_picker_by_mouse_and_by_keyboard(visit, results):
    page = visit()
    names = page.eval_on_selector_all(
        "#pick option", "all => all.map(o => o.textContent)"
    )
    assert page.locator("#line-roc").get_attribute("d") == ""
    page.select_option("#pick", index=1)
    first = page.locator("#line-calibration").get_attribute("d")
    assert first.startswith("M")
    assert page.locator("#picked-name").inner_text() == names[1]
    row = results["audit"].groups.set_index("label").loc[names[1]]
    assert f"AUROC {row['auroc']:.3f}" in page.locator("#told-roc").inner_text()
    page.locator("#pick").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.locator("#picked-name").inner_text() == names[2]
    assert page.locator("#line-calibration").get_attribute("d") != first
    assert page.locator("#table-roc tbody tr").count() > 5
    page.select_option("#pick", index=0)
    assert page.locator("#line-roc").get_attribute("d") == ""


def test_details_of_a_cell_by_pointer_and_by_arrow_keys(visit, results):
    page = visit()
    cells = page.locator("#heat-table tbody td[data-row]")
    cells.nth(3).hover()
    told = page.locator("#detail").inner_text()
    row = results["audit"].categories.iloc[int(cells.nth(3).get_attribute("data-row"))]
    assert results["audit"].labels[row["group"]] in told
    assert risk_range(row["bin"]) in told
    assert f"{row['people']:,}" in told
    page.locator("#heat-table tbody td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    place = page.evaluate(
        "[document.activeElement.parentNode.rowIndex, document.activeElement.cellIndex]"
    )
    assert place == [2, 2]
    told = page.locator("#detail").inner_text()
    assert (
        page.evaluate("document.activeElement.parentNode.cells[0].textContent") in told
    )
    assert page.locator("#heat-table td[tabindex='0']").count() == 1


def test_the_slider_gives_the_numbers_of_the_audit(visit, results):
    page = visit()
    assert page.locator("#threshold-value").inner_text() == "30 %"  # as the user asked
    for threshold in (0.3, 0.55, 0.04):
        page.locator("#threshold").fill(str(round(100 * threshold)))
        table = results["audit"].at_threshold(threshold)
        assert page.locator("#threshold-value").inner_text() == f"{100 * threshold:g} %"
        shown = [
            page.eval_on_selector_all(
                "#threshold-0-table tbody tr",
                f"rows => rows.map(r => r.cells[{place}].firstChild.textContent)",
            )
            for place in range(1, 7)
        ]
        names = (
            "flagged",
            "sensitivity",
            "specificity",
            "ppv",
            "net_benefit",
            "avoided",
        )
        for name, texts in zip(names, shown):
            for text, value in zip(texts, table[name], strict=True):
                if text == "–":
                    assert np.isnan(value)
                else:
                    assert float(text.replace("−", "-")) == pytest.approx(
                        100 * value, abs=0.06
                    )
        first = (
            page.locator("#threshold-0-table tbody tr")
            .first.locator("td")
            .nth(1)
            .locator(".ci")
        )
        ends = [float(end) for end in first.inner_text().split(" to ")]
        row = table.iloc[0]
        assert ends == pytest.approx(
            [100 * row.sensitivity_low, 100 * row.sensitivity_high], abs=0.06
        )
    page.locator("button.choose").nth(1).click()
    assert page.locator("#threshold-value").inner_text() == "52.5 %"
    page.locator("#threshold").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#threshold-value").inner_text() == "54 %"


def test_treatments_avoided_are_withheld_with_net_benefit(visit):
    page, withheld = visit("hidden"), 0
    for percent in (1, 5, 30, 60, 80, 90, 95, 99):
        page.locator("#threshold").fill(str(percent))
        benefit, avoided = (
            column(page, "threshold-0-table", place) for place in (5, 6)
        )
        hidden = [i for i, text in enumerate(benefit) if text == "–"]
        assert [avoided[i] for i in hidden] == ["–"] * len(hidden)
        withheld += len(hidden)
    assert withheld


def test_a_phone_shows_key_columns_and_all_on_request(visit):
    page = visit(viewport={"width": 390, "height": 844})
    hidden = page.locator("#groups-table thead th.more").first
    assert not hidden.is_visible()
    page.locator("button[data-columns=groups-table]").click()
    assert hidden.is_visible()
    assert (
        page.locator("button[data-columns=groups-table]").get_attribute("aria-pressed")
        == "true"
    )
    wide = visit()
    assert wide.locator("#groups-table thead th.more").first.is_visible()
    assert not wide.locator("button[data-columns=groups-table]").is_visible()


def test_long_tables_unfold(visit):
    page = visit("many")
    rows = page.locator("#groups-table tbody tr")
    assert page.locator("#groups-table tbody tr:not([hidden])").count() == 60
    page.locator("#find-groups").fill("7")
    assert page.locator("#groups-table tbody tr:not([hidden])").count() < rows.count()
    page.locator("#find-groups").fill("")
    assert page.locator("#groups-table tbody tr:not([hidden])").count() == rows.count()


def test_the_first_screen_has_the_verdict_the_figures_and_the_picture(visit):
    for name in ("open", "hidden", "both"):
        page = visit(name, viewport={"width": 1280, "height": 800})
        for part in ("#verdict", ".strip", "#picture .bars"):
            assert page.locator(part).bounding_box()["y"] < 640
        assert page.locator("#picture .bars li").nth(4).bounding_box()["y"] < 800
        phone = visit(name, viewport={"width": 390, "height": 844})
        assert phone.locator(".strip").bounding_box()["y"] < 844


def test_everything_can_be_read_without_javascript(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "open.html").as_uri())
    assert page.locator("#groups-table tbody tr").count() > 5
    assert page.locator("#groups-table thead th .plain").first.is_visible()
    assert not page.locator("#pick").is_visible()
    assert not page.locator("button.sort").first.is_visible()
    assert page.locator("svg.picture").first.is_visible()
    context.close()


@pytest.mark.parametrize("name", ["open", "both", "hostile", "few"])
def test_a_phone_never_scrolls_sideways(visit, name):
    page = visit(name, viewport={"width": 360, "height": 740})
    if page.locator("#pick option").count() > 1:
        page.select_option("#pick", index=1)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.childElementCount
        && !e.closest('svg, .sr') && e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 12)
        .length"""
    )
    assert small == 0


@pytest.mark.parametrize("name", ["open", "both", "hostile"])
def test_on_paper_no_table_is_cut(visit, name):
    page = visit(name, viewport={"width": 688, "height": 1000})  # A4 less its margins
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    cut = page.evaluate(
        """[...document.querySelectorAll('table')].filter(t => t.checkVisibility()
        && t.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
        .map(t => t.caption.textContent)"""
    )
    assert cut == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 690
    assert len(page.pdf(prefer_css_page_size=True)) > 10_000


@pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not installed; .ci/run installs it"
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["open", "hidden", "both", "hostile", "few"])
def test_axe_finds_no_serious_violation(browser, pages, name, scheme):
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto((pages / f"{name}.html").as_uri())
    if page.locator("#pick option").count() > 1:
        page.select_option("#pick", index=1)
    found = serious_violations(page)
    context.close()
    assert found == []
