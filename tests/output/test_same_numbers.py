"""Printed numbers agree with the exact ones, and are the same in terminal, notebook,
page and Markdown.
"""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import propcal
from first_cases import first
from propcal.documents.audit import audit_document
from propcal.documents.report import comparison_document
from propcal.numbers import IN_TEXT, Style
from propcal.render.text import as_text, text

SIGNS = str.maketrans({"−": "-", "–": "-"})


class Tables(HTMLParser):
    """The rows of every table of a page, as lists of texts; what is read aloud only is
    left out.
    """

    def __init__(self, text):
        super().__init__()
        self.rows, self.skip, self.open = [], 0, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
            self.open = True
        elif self.skip or tag in ("svg", "button", "script", "style"):
            self.skip += tag in ("svg", "button", "script", "style")

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self.open = False
        elif tag == "table":
            self.rows.append([])  # the rows of the next table are others
        elif tag in ("svg", "button", "script", "style"):
            self.skip -= 1

    def handle_data(self, text):
        if self.open and not self.skip:
            self.rows[-1][-1] += text


def cells(text):
    """Rows of a table in the terminal."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def markdown_cells(text):
    rows = [
        line.strip("|").split("|") if line.startswith("|") else []
        for line in text.splitlines()
    ]
    return [[re.sub(r"\\(.)", r"\1", cell).strip() for cell in row] for row in rows]


def plain_cells(rows):
    return [[cell.strip().translate(SIGNS) for cell in row] for row in rows]


def table_of(rows, headings):
    """The rows under the first line that has all of these headings, by the name in the
    first column.
    """
    for i, row in enumerate(rows):
        if set(headings) <= set(row):
            places = [row.index(heading) for heading in headings]
            found = {}
            for line in rows[i + 1 :]:
                if (
                    len(line) < len(row) - 1
                ):  # the last cell of a line in the terminal may be empty
                    break
                found[line[0]] = [
                    line[place] if place < len(line) else "" for place in places
                ]
            return found
    raise AssertionError(f"no table with the columns {headings}")


def draws(seed):
    """An audit of people drawn at random: few or many, rare or common outcomes, right
    or wrong scores.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.choice([400, 1500, 6000]))
    race = rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1])
    frame = pd.DataFrame({"race": race, "sex": rng.choice(["F", "M"], n)})
    risk = rng.beta(1, rng.choice([3, 30]), n)
    factor = np.where(frame.race == "B", rng.choice([1.0, 0.6, 1.5]), 1.0) * rng.choice(
        [1.0, 1.0, 0.8, 1.3]
    )
    y = rng.random(n) < np.clip(risk * factor, 0, 1)
    weight = rng.integers(1, 4, n) if seed % 5 == 0 else None
    return propcal.audit(
        y.astype(int),
        risk,
        sensitive_features=frame,
        sample_weight=weight,
        unit="patients",
        n_draws=200,
    )


def written(row):
    """What each place must print about a group, rounded once from the exact values."""
    return [
        IN_TEXT.count(row["people"]),
        IN_TEXT.percent(row["outcome_rate"]),
        IN_TEXT.percent(row["mean_score"]),
        IN_TEXT.decimal(row["observed_expected"]),
        IN_TEXT.interval(row["observed_expected_low"], row["observed_expected_high"]),
    ]


@pytest.mark.parametrize("seed", first(8, range(30)))
def test_a_group_has_the_same_numbers_everywhere(seed):
    a = draws(seed)
    columns = ["patients", "observed", "predicted", "O/E", "95 % CI"]
    places = {
        "terminal": table_of(
            plain_cells(cells(as_text(text(audit_document(a)), 250))), columns
        ),
        "notebook": table_of(plain_cells(Tables(a._repr_html_()).rows), columns),
        "page": table_of(plain_cells(Tables(a.to_html(suppress=0)).rows), columns),
        "markdown": table_of(
            plain_cells(markdown_cells(a.to_markdown(suppress=0))), columns
        ),
    }
    kept = a.groups[a.groups["kept"].astype(bool)]
    assert len(kept)
    for _, row in kept.iterrows():
        expected = written(row)
        for place, table in places.items():
            shown = [cell or "-" for cell in table[row["label"]]]
            assert shown == expected, (place, row["label"])


@pytest.mark.parametrize("seed", first(4, range(0, 30, 3)))
def test_the_verdict_is_the_same_sentences_everywhere(seed):
    a = draws(seed)
    page = (
        re.sub(r"<[^>]+>", "", a.to_html(suppress=0))
        .replace("&lt;", "<")
        .replace("&gt;", ">")
    )
    page = page.replace("\u00a0", " ")
    terminal = " ".join(as_text(text(audit_document(a))).split())
    for sentence in a.verdict.sentences:
        assert sentence in page
        assert sentence in terminal
        assert sentence.replace("<", "&lt;").replace(">", "&gt;") in a._repr_html_()
    for told in re.findall(r"O/E ([0-9.]+)", a.verdict.text):
        assert told in {IN_TEXT.decimal(x) for x in a.groups["observed_expected"]}


@pytest.mark.parametrize("seed", range(6))
def test_losses_are_the_same_everywhere(seed):
    a = draws(seed)
    names = {"MC": "mc", "PMC": "pmc", "DC": "dc"}
    terminal = table_of(
        plain_cells(cells(as_text(text(audit_document(a)), 250))), ["value", "95 % CI"]
    )
    page = table_of(
        plain_cells(Tables(a.to_html(suppress=0)).rows), ["loss", "value", "95 % CI"]
    )
    assert len(page) == 3
    for symbol, name in names.items():
        loss = a.losses.loc[name]
        value, limits = (
            IN_TEXT.decimal(loss["value"], 3),
            IN_TEXT.interval(loss["low"], loss["high"], 3),
        )
        assert terminal[f"{symbol} loss"] == [value, limits]
        assert page[f"{symbol} loss"][1:] == [value, limits]


def test_before_and_after_have_the_same_numbers_everywhere(cohort):
    a = propcal.compare(
        {"before": cohort.score, "after": cohort.score**1.1},
        cohort.y,
        sensitive_features=cohort[["race"]],
    )
    columns = ["before", "after", "95 % CI of the change"]
    terminal = table_of(
        plain_cells(cells(as_text(text(comparison_document(a)), 250))), columns
    )
    page = table_of(plain_cells(Tables(a.to_html(suppress=0)).rows), columns)
    assert len(page) == 9
    assert {name: page[name] for name in terminal if name in page} == page


@pytest.mark.parametrize("style", [IN_TEXT, Style(minus="−")])
def test_numbers_are_rounded_once_and_never_read_strangely(style):
    rng = np.random.default_rng(0)
    for value in np.concatenate(
        [rng.normal(size=500), rng.normal(size=500) * 1e-4, [0.0, -0.0]]
    ):
        for digits in (0, 1, 2, 3):
            text = style.decimal(value, digits, "+").translate(SIGNS)
            assert abs(float(text) - value) <= 0.5 * 10.0**-digits + 1e-12
            assert not re.fullmatch(r"[+-]0\.?0*", text)
    assert style.decimal(float("nan"), 2, "+") == style.unknown
    assert style.p_value(0.05 / 3) == "0.017"
    for rate in (0.0, 1e-5, 0.00049, 0.0043, 0.0099, 0.365, 1.0):
        text = style.percent(rate)
        assert abs(float(text.removesuffix(" %")) - 100 * rate) <= 0.05 * min(
            1, max(100 * rate, 0.01)
        )
