"""The page and its Markdown: what they say, and that nothing can break them."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from paths import ROOT
from propcal import PMCBoost, audit, compare
from propcal.cli import main
from propcal.documents.audit_pictures import main_curve, performance_pictures
from propcal.documents.blocks import At, Section, VerdictBlock, shown_at
from propcal.documents.report import report
from propcal.errors import InputError
from propcal.numbers import ON_PAGE, risk_range
from propcal.render.html import unpacked

SCHEMA = json.loads(
    (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
)
CANARY = "canary-91c2"
VOID = {"meta", "link", "input", "br", "path", "circle"}


class Page(HTMLParser):
    """Elements in order; every one that is opened is closed, and ids are unique."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        assert not self.open, self.open
        ids = [attrs["id"] for _, attrs in self.elements if "id" in attrs]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def of(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def found(cohort):
    return audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race", "gender"]],
        n_draws=200,
    )


@pytest.fixture(scope="module")
def page(found):
    return found.to_html(suppress=0)


def embedded(page):
    return unpacked(re.search(r'id="audit-data">(.*?)</script>', page).group(1))


def test_the_page_is_sound_and_needs_nothing_else(page):
    parsed = Page(page)
    assert page.startswith("<!doctype html>\n")
    assert parsed.of("html") == [{"lang": "en"}]
    for attribute in ("src", "href", "srcset", "action", "data"):
        for _, attrs in parsed.elements:
            assert attrs.get(attribute, "#").startswith(("#", "data:,"))
    assert not any(
        name in ("img", "iframe", "object", "embed", "base")
        for name, _ in parsed.elements
    )
    assert not any(
        key.startswith("on") or key == "style"
        for _, attrs in parsed.elements
        for key in attrs
    )
    assert "url(" not in page
    assert "@import" not in page
    policy = next(m["content"] for m in parsed.of("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_headings_are_in_order_and_tables_have_captions_and_scopes(page):
    parsed = Page(page)
    levels = [
        int(name[1]) for name, _ in parsed.elements if re.fullmatch(r"h[1-6]", name)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(parsed.of("table")) == len(parsed.of("caption"))
    assert all("scope" in attrs for attrs in parsed.of("th"))
    for attrs in parsed.of("svg"):
        assert attrs.get("role") == "img" or attrs.get("aria-hidden") == "true"
    assert {name for name, _ in parsed.elements} >= {"header", "nav", "main", "footer"}


def test_the_parts_come_in_the_order_in_which_a_committee_reads(cohort):
    features = cohort[["race", "gender"]]
    cal = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=features)
    both = compare(
        {"score": cohort.score, "new": cal},
        cohort.y,
        sensitive_features=features,
        n_draws=200,
    )
    page = both.to_html(correction=cal)
    parsed = Page(page)
    sections = [attrs["id"] for attrs in parsed.of("section")]
    first = ["verdict", "picture", "details", "limits"]
    then = [
        "groups",
        "panels",
        "heat",
        "thresholds",
        "change",
        "correction",
        "pictures",
        "apart",
        "methods",
    ]
    assert sections == [*first, *then]
    text = " ".join(parsed.text)
    assert "New: " in text  # which of the scores the page is about
    assert "not evidence" in text  # fitted to these very people
    assert cal.fit_summary_.sentences()[0] in text
    assert "What the correction does" in text
    jsonschema.validate(embedded(page), SCHEMA)
    assert embedded(page)["format"] == "propcal-comparison"


def test_a_wrong_shape_comes_first_as_a_curve_with_observed_rates_and_the_distribution():
    rng = np.random.default_rng(0)
    true = rng.uniform(0.02, 0.98, 6000)
    x = 2 * np.log(true / (1 - true)) + 0.4
    groups = pd.DataFrame({"sex": rng.choice(["F", "M"], 6000)})
    a = audit(
        (rng.random(6000) < true).astype(int),
        1 / (1 + np.exp(-x)),
        sensitive_features=groups,
    )
    assert {claim.kind for claim in a.verdict.errors} >= {"shape", "overall"}
    plot = main_curve(a, performance_pictures(a))
    _, bars, *curve, rates = plot.marks
    assert [mark.kind for mark in curve] == ["band", "line", "points"]
    everybody = a.distribution[a.distribution["group"] == "everybody"]
    assert np.allclose(rates.y[::3], everybody["positives"] / everybody["people"])
    assert np.allclose(rates.x[::3], everybody["score_from"])
    shares = everybody["people"] / (everybody["score_to"] - everybody["score_from"])
    assert np.allclose(bars.y / max(bars.y), shares / max(shares))
    row = a.groups.iloc[0]
    assert f"slope {row['slope']:.2f}" in plot.description
    page = a.to_html()
    assert plot.description.split(". ")[0] in page
    assert "Observed rate by predicted risk" in page


def test_a_number_that_is_withheld_leaves_the_other_bars_of_the_distribution():
    score = np.repeat([0.05, 0.15, 0.25, 0.35], [100, 300, 500, 100])
    a = audit((np.arange(1000) % 4 == 0).astype(int), score)
    assert a.distribution["people"].tolist()[1:8:2] == [100, 300, 500, 100]
    people = a.distribution["people"].astype(object)
    people[7] = float("nan")
    bars = performance_pictures(
        replace(a, distribution=a.distribution.assign(people=people))
    ).groups[0]
    drawn = bars.marks["distribution"]
    assert [*map(float, drawn.x)] == [0.05, 0.15, 0.25]
    assert np.allclose(drawn.y, [0.2, 0.6, 1.0])


def test_the_top_has_the_verdict_and_what_follows(found):
    blocks = shown_at(report(found, suppress=0).blocks, At.PAGE)
    verdict = blocks[0]
    assert isinstance(verdict, VerdictBlock)
    assert verdict.headline == "Miscalibrated"
    assert list(verdict.sentences) == list(found.verdict.sentences)
    assert 2 <= len(verdict.sentences) <= 5
    assert next(block for block in blocks if isinstance(block, Section)).key == "limits"


def test_values_shown_are_those_of_the_audit(found, page):
    content = embedded(page)
    jsonschema.validate(content, SCHEMA)
    exact = json.loads(found.to_json())
    for kind in ("groups", "categories"):
        for row, expected in zip(content[kind], exact[kind], strict=True):
            for name, value in expected.items():
                assert row[name] == (
                    pytest.approx(value, rel=1e-5)
                    if isinstance(value, float)
                    else value
                )
    rows = re.findall(r'<tr data-key="\d+">(.*?)</tr>', page)
    assert len(rows) == len(found.categories)
    for row, (_, category) in zip(rows, found.categories.iterrows()):
        cells = [
            unescape(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        assert cells[0] == found.labels[category["group"]]
        assert cells[1] == risk_range(category["bin"])
        assert cells[2] == f"{category['people']:,}"
        assert cells[3:5] == [
            ON_PAGE.percent(category["outcome_rate"]),
            ON_PAGE.percent(category["mean_score"]),
        ]


def test_the_same_audit_gives_the_same_page(found):
    assert found.to_html() == found.to_html()


def test_the_file_is_written_whole_or_not_at_all(found, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    assert found.to_html(target) == target.read_text(encoding="utf-8")
    found.to_markdown(tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == found.to_markdown()

    def full(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    before = target.read_bytes()
    with pytest.raises(OSError, match="no space"):
        found.to_html(target)
    assert target.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.md"]


def test_wrong_arguments_are_named(found):
    with pytest.raises(InputError, match="correction must be"):
        found.to_html(correction="model.json")
    with pytest.raises(InputError, match="certificate must be"):
        found.to_html(certificate=1)


HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "'\"`{{ 7*7 }}{% raw %}",
    "]]>--><!-- </script><b>",
    "x" * 300,
    "👩🏽‍⚕️ é ñ",
    "مرضى السكري",
    "\u202eright to left override",
    "Case",
    "case",
    "a|b\n# heading *bold* [link](http://example.org)",
    "line\u2028separator\u0000nul",
]


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    n = 6000
    frame = pd.DataFrame(
        {'<b>name</b> & "x"': rng.choice(HOSTILE, n), CANARY: rng.random(n)}
    )
    frame.index = [f"{CANARY}-{i}" for i in range(n)]
    score = rng.beta(2, 3, n)
    y = (rng.random(n) < score).astype(int)
    return audit(y, score, sensitive_features=frame[[frame.columns[0]]], n_draws=100)


def test_hostile_names_are_shown_letter_by_letter(hostile):
    page = hostile.to_html(title="<script>alert(2)</script>", suppress=0)
    parsed = Page(page)
    assert len(parsed.of("script")) == 3
    assert not parsed.of("b")
    assert not parsed.of("img")
    text = " ".join(parsed.text)
    for name in hostile.groups["label"]:
        assert name.replace("\x00", "") in text.replace("\x00", "")
    names = [group["group"] for group in embedded(page)["groups"]]
    assert names == hostile.groups["group"].tolist()
    assert "49" not in re.findall(r"`(\d+)", page)
    options = re.findall(r"<option value=\"\d+\"", page)
    assert len(options) == len(HOSTILE)


def test_hostile_names_in_markdown_stay_in_their_cell(hostile):
    text = hostile.to_markdown(suppress=0)
    assert "<script" not in text
    assert "<img" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert widths <= {3, 6, 7, 8, 10, 12}
    assert "\n# heading" not in text


def test_a_canary_in_an_unrelated_column_or_index_never_appears(cohort):
    people = cohort.assign(secret=CANARY)
    people.index = [f"{CANARY}-{i}" for i in range(len(people))]
    people.to_csv("people.csv", index_label="id")
    flags = [
        "--score",
        "score",
        "--outcome",
        "y",
        "--groups",
        "race,gender",
        "--draws",
        "100",
    ]
    with pytest.raises(SystemExit) as end:
        main(
            [
                "audit",
                "people.csv",
                *flags,
                "--html",
                "a.html",
                "--md",
                "a.md",
                "-o",
                "a.json",
            ]
        )
    assert end.value.code == 0
    for name in ("a.html", "a.md", "a.json"):
        text = Path(name).read_text(encoding="utf-8")
        assert CANARY not in text
        assert ("Counts are protected" in text) == (name != "a.json")
    jsonschema.validate(json.loads(Path("a.json").read_text()), SCHEMA)


def test_pages_protect_small_counts_by_default_and_the_terminal_does_if_asked(
    cohort, capfd
):
    cohort.head(700).to_csv("people.csv", index=False)
    flags = [
        "--score",
        "score",
        "--outcome",
        "y",
        "--groups",
        "race,gender",
        "--draws",
        "100",
    ]

    def said(*more):
        with pytest.raises(SystemExit):
            main(["audit", "people.csv", *flags, "--force", *more])
        return capfd.readouterr().out

    exact = said("--html", "a.html", "--md", "a.md")
    assert "are protected" not in exact
    assert exact.replace("Written: a.html, a.md\n\n", "") == said("--suppress", "0")
    pages = [Path(name).read_text(encoding="utf-8") for name in ("a.html", "a.md")]
    for text in (*pages, said("--suppress", "11", "--full")):
        assert "Counts are protected" in re.sub(r"\s+", " ", text)
    assert (
        min(row["people"] for row in json.loads(said("--format", "json"))["categories"])
        < 11
    )
    content = json.loads(said("--format", "json", "--suppress", "11"))
    jsonschema.validate(content, SCHEMA)
    people, positives = (
        [row[name] for row in content["categories"]] for name in ("people", "positives")
    )
    assert None in people
    exact = json.loads(said("--format", "json"))["categories"]
    moved = {n - row["people"] for n, row in zip(people, exact) if n is not None}
    assert moved <= {-2, -1, 0, 1, 2}
    assert len(moved) > 2
    assert None in positives
    said("--html", "open.html", "--suppress", "0")
    assert "are protected" not in Path("open.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("flag", ["--html", "--md"])
def test_a_file_that_exists_is_refused_before_the_work(flag, capfd):
    Path("old").write_text("mine")
    with pytest.raises(SystemExit) as end:
        main(["audit", "missing.csv", flag, "old"])
    assert end.value.code == 2
    assert (
        capfd.readouterr().err
        == "propcal: old already exists. Use --force to replace it\n"
    )
    assert Path("old").read_text() == "mine"


def test_one_file_cannot_be_two_reports(capfd):
    with pytest.raises(SystemExit) as end:
        main(["audit", "missing.csv", "--html", "a", "--md", "./a"])
    assert end.value.code == 2
    assert "must be different files" in capfd.readouterr().err


def scored(n, seed=0, levels=3):
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 3, n)
    return (
        rng.integers(0, levels, n).astype(str),
        score,
        (rng.random(n) < score).astype(int),
    )


def odd_cases():
    group, score, y = scored(2000)
    yield "one group", audit(y, score, n_draws=100)
    yield (
        "all in one level",
        audit(y, score, sensitive_features=np.repeat("a", 2000), n_draws=100),
    )
    yield (
        "no eligible category",
        audit(y, score, sensitive_features=group, min_people=5000, n_draws=100),
    )
    yield (
        "all scores equal",
        audit(y, np.full(2000, 0.3), sensitive_features=group, n_draws=100),
    )
    none = np.where(group == "1", 0, y)
    yield (
        "no positives in a group",
        audit(none, score, sensitive_features=group, n_draws=100),
    )
    yield (
        "nobody has the outcome",
        audit(0 * y, score, sensitive_features=group, n_draws=100),
    )
    yield (
        "everybody has it",
        audit(0 * y + 1, score, sensitive_features=group, n_draws=100),
    )
    yield (
        "two people",
        audit([0, 1], [0.2, 0.9], sensitive_features=["a", "b"], n_draws=100),
    )
    yield "soft labels", audit(score**2, score, sensitive_features=group, n_draws=100)
    weight = np.random.default_rng(1).exponential(1, 2000) + 0.1
    yield (
        "survey weights",
        audit(y, score, sensitive_features=group, sample_weight=weight, n_draws=100),
    )
    for binning in ("quantile", "geometric", [0, 0.2, 1.0]):
        yield (
            str(binning),
            audit(y, score, sensitive_features=group, binning=binning, n_draws=100),
        )
    people = np.arange(2000) // 3
    yield (
        "people who come again",
        audit(y, score, sensitive_features=group, cluster=people, n_draws=100),
    )


@pytest.mark.parametrize("suppress", [0, pytest.param(11, marks=pytest.mark.slow)])
def test_odd_data_give_a_sound_page(suppress):
    for name, a in odd_cases():
        page = a.to_html(suppress=suppress)
        parsed = Page(page)
        text = " ".join(parsed.text)
        assert not re.search(r"\b(nan|None|inf|NaN)\b", text), name
        assert "nan" not in " ".join(
            attrs.get("d", "") for attrs in parsed.of("path")
        ), name
        jsonschema.validate(embedded(page), SCHEMA)
        md = a.to_markdown(suppress=suppress)
        assert not re.search(r"\b(nan|None|NaN)\b", md), name


@pytest.mark.parametrize(
    ("n_first", "n_second"), [(10, 18), pytest.param(20, 24, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_many_groups_fit_on_the_page(n_first, n_second):
    rng = np.random.default_rng(0)
    n_pairs = n_first * n_second
    n = 125 * n_pairs
    first, second = (
        rng.integers(0, n_first, n).astype(str),
        rng.integers(0, n_second, n).astype(str),
    )
    frame = pd.DataFrame({"first": first, "second": second})
    score = rng.beta(2, 3, n)
    y = (rng.random(n) < score).astype(int)
    a = audit(y, score, sensitive_features=frame, gamma=1e-4, n_draws=100)
    assert len(a.groups) == 1 + n_first + n_second + n_pairs
    parsed = Page(a.to_html())
    assert len(parsed.of("option")) > n_pairs


def test_sixty_groups_are_under_a_megabyte():
    rng = np.random.default_rng(0)
    n = 50_000
    frame = pd.DataFrame(
        {"a": rng.integers(0, 5, n).astype(str), "b": rng.integers(0, 9, n).astype(str)}
    )
    score = rng.beta(2, 3, n)
    y = (rng.random(n) < score).astype(int)
    a = audit(y, score, sensitive_features=frame, gamma=0.001, n_draws=100)
    assert int(a.groups["kept"].sum()) >= 60
    for suppress in (0, 11):
        assert len(a.to_html(suppress=suppress).encode()) < 1_000_000


def test_markdown_says_the_same(found):
    text = found.to_markdown(suppress=0)
    assert text.startswith("# Is this risk score right for everyone?\n")
    assert found.verdict.sentences[1] in text
    for _, row in found.groups[found.groups["kept"]].iterrows():
        low, high = row["observed_expected_low"], row["observed_expected_high"]
        ratio = f"| {row['observed_expected']:.2f} | {ON_PAGE.interval(low, high)} |"
        named = row["rank"] or row["finding"] not in ("too high", "too low")
        assert (
            f"{ratio} {row['finding'] if named else '(' + row['finding'] + ')'}" in text
        )


def test_a_protected_page_says_about_how_many_people_it_covers(found):
    exact, protected = (found.to_markdown(suppress=suppress) for suppress in (0, 11))
    assert re.search(r"The audit covers [\d,]+ people with [\d,]+ events ", exact)
    assert re.search(
        r"The audit covers about [\d,]+ people with about [\d,]+ events ", protected
    )


def test_a_comparison_says_for_whom_the_score_before_was_off_by_more_than_asked(cohort):
    features = cohort[["race", "gender"]]
    scores = {"old": 0.5 * cohort.score, "new": cohort.score}
    both = compare(
        scores, cohort.y, sensitive_features=features, within=0.2, n_draws=100
    )
    first = both.audits["old"].verdict.sentences[0]
    assert first.startswith("“old” is off by more than 20 % for ")
    for suppress in (0, 11):
        text = both.to_markdown(suppress=suppress)
        assert (
            "For comparison, “old”: not shown to be within 20 %. “old” is off by more than 20 % for "
            in text
        )


def test_a_comparison_says_what_the_score_before_was(cohort):
    half = len(cohort) // 2
    past, new, groups = cohort[:half], cohort[half:], ["race", "gender"]
    cal = PMCBoost().fit(past.score, past.y, sensitive_features=past[groups])
    both = compare(
        {"as it is": new.score, "corrected": cal}, new.y, sensitive_features=new[groups]
    )
    text = both.to_markdown()
    assert "For comparison, “as it is”: miscalibrated. " in text
    assert "“corrected” is closer to the observed rate than “as it is” " in text
    assert "## Corrected: " in text
    assert "propcal fit" not in text  # a correction is there already
