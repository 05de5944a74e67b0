"""The parts of a page by themselves: the first picture, the key figures, what a
correction changed.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from propcal import audit, compare
from propcal.documents.audit import audit_document
from propcal.documents.audit_pictures import performance_pictures
from propcal.documents.blocks import Beside, Column, Fragment
from propcal.documents.charts import ForestRow, ratio_axis
from propcal.documents.first_screen import MOST_BARS, key_figures, ratio_forest
from propcal.documents.report import effect_sentences
from propcal.numbers import ON_PAGE
from propcal.render.cells import cell
from propcal.render.html import css_text
from propcal.render.svg import forest_bar


def expit(x):
    return 1 / (1 + np.exp(-x))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 8000
    frame = pd.DataFrame(
        {"g": rng.choice(list("ABCDEFGH"), n), "sex": rng.choice(["F", "M"], n)}
    )
    x = rng.normal(-1, 1, n)
    return frame.assign(x=x, y=(rng.random(n) < expit(x)).astype(int))


def test_the_first_picture_has_the_groups_that_the_verdict_names(people):
    score = expit(people.x - 1.2 * (people.g == "C"))
    a = audit(people.y, score, sensitive_features=people[["g", "sex"]], n_draws=100)
    found = ratio_forest(a)
    assert found.rows[0].name == "All people"
    assert [row.look for row in found.rows if row.name == "C"] == ["low"]
    ratios = [row.value for row in found.rows[1:]]
    assert ratios == sorted(ratios)
    assert len(found.rows) == MOST_BARS
    assert (
        f"{int(a.groups['kept'].sum()) - MOST_BARS} more groups are in the table"
        in found.description
    )


def test_a_wrong_shape_alone_is_shown_by_the_curve(people):
    mean = float(people.y.mean())
    steep = expit(np.log(mean / (1 - mean)) + 1.25 * (people.x - people.x.mean()))
    steep = np.clip(steep * mean / steep.mean(), 0, 1)
    a = audit(people.y, steep, n_draws=100)
    assert a.groups["finding"].iloc[0] == "could be chance"
    (first,) = [
        block for block in audit_document(a).blocks if isinstance(block, Beside)
    ]
    assert isinstance(first.blocks[0].blocks[0], Fragment)


def test_a_score_of_1_that_the_verdict_names_is_in_the_picture(people):
    low = 0.5 * expit(people.x)
    y = (np.random.default_rng(1).random(len(low)) < low).astype(int)
    sure = np.arange(len(low)) < 120
    ends = []
    for score in (low, low.mask(sure, 1.0)):
        a = audit(y, score, n_draws=100)
        ends.append(performance_pictures(a).plots[1].x.high)
    assert "100 %" in a.verdict.text
    assert ends[0] < ends[1] == 1.0


def test_a_page_breaks_no_line_within_an_option(people):
    page = audit(people.y, expit(people.x - 0.5), n_draws=100).to_html()
    assert '<span class="option">--correction</span>' in page


def test_what_a_correction_changed_adds_up(people):
    before = expit(people.x - 0.9 * (people.g == "C") + 0.9 * (people.g == "D"))
    after = expit(people.x + 0.9 * (people.g == "E"))
    features = people[["g"]]
    both = compare(
        {"old": before, "new": after},
        people.y,
        sensitive_features=features,
        n_draws=100,
    )
    told = effect_sentences(both, "new")
    assert " is closer to the observed rate than “old” " in told[0]
    assert " 2 of 8 subgroups compared: " in told[0]
    assert "E (O/E " in told[1]
    assert told[1].startswith("It is further off ")
    assert any(one.startswith("E (O/E ") for one in both.worse_groups("new"))
    cards = key_figures(both.audits["new"], both.audits["old"]).figures
    ratio = next(card for card in cards if card.name == "O/E ratio")
    assert ratio.before == f"{both.audits['old'].groups.observed_expected.iloc[0]:.2f}"
    picture = ratio_forest(both.audits["new"], both.audits["old"])
    assert {"C", "D", "E"} <= {
        row.name for row in picture.rows
    }  # concerned before or after
    assert all(row.before == row.before for row in picture.rows)


def test_a_change_of_the_typical_gap_that_could_be_chance_is_said_to_be(people):
    right, wrong = (
        expit(people.x),
        expit(people.x - 0.9 * (people.g == "C") + 0.9 * (people.g == "D")),
    )
    scores = {"wrong": wrong, "hardly better": 0.99 * wrong, "right": right}
    both = compare(scores, people.y, sensitive_features=people[["g"]], n_draws=100)
    changes = both.differences[
        both.differences["measure"] == "mc_mean_square"
    ].set_index("score")
    assert (
        changes.loc["hardly better", "low"] < 0 < changes.loc["hardly better", "high"]
    )
    assert changes.loc["right", "high"] < 0
    assert effect_sentences(both, "hardly better")[-1].endswith(
        " after. The difference could be chance."
    )
    assert effect_sentences(both, "right")[-1].endswith(" after.")


def test_a_finding_whose_gap_is_withheld_is_told_in_words(people):
    a = audit(
        people.y, expit(people.x + 0.9), sensitive_features=people[["g"]], n_draws=100
    )
    beyond = a.categories["finding"] == "too high"
    assert beyond.any()
    a = replace(a, categories=a.categories.assign(gap=a.categories["gap"].mask(beyond)))
    assert a.to_markdown(suppress=0).count("| too high \\* ") == beyond.sum()
    page = a.to_html(suppress=0)
    assert page.count('<span aria-hidden="true">too high</span>') == beyond.sum()
    words = "score too high, number withheld to protect a small count"
    assert f'<span class="box high hidden">too high</span> {words}' in page
    assert "box low hidden" not in page


@pytest.mark.parametrize(
    ("low", "text"), [(0.0, "–"), (0.0004, "–"), (0.024, "≥ 0.024")]
)
def test_an_interval_from_zero_on_is_a_dash(low, text):
    row = {"interval_low": low, "interval_high": float("nan")}
    assert cell(Column("interval", "95 % CI", "open interval", 3), row, ON_PAGE) == text


@pytest.mark.parametrize(
    ("furthest", "last"), [(1.1, "1.25"), (1.9, "2"), (3, "4"), (50, "8")]
)
def test_the_axis_holds_what_is_drawn(furthest, last):
    axis = ratio_axis([1 / furthest, 1.0])
    assert axis.ticks[-1][1] == last
    assert forest_bar(ForestRow("", furthest, 1.0, 1000.0), axis).beyond == "right"
    assert not forest_bar(
        ForestRow("", float("nan"), float("nan"), float("nan")), axis
    ).point


def test_a_title_cannot_leave_its_string():
    assert css_text('"}body{display:none') == "\\22 \\7d body\\7b display\\3a none"
