"""The parts of a page by themselves: the first picture, the key figures, what a correction changed."""

import numpy as np
import pandas as pd
import pytest

from propcal import audit, compare
from propcal.documents.audit import MOST_BARS, audit_document, key_figures, ratio_forest
from propcal.documents.blocks import Beside, Fragment
from propcal.documents.charts import ForestRow, ratio_axis
from propcal.documents.comparison import effect_sentences
from propcal.render.html import css_text
from propcal.render.svg import forest_bar


def expit(x):
    return 1 / (1 + np.exp(-x))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 8000
    frame = pd.DataFrame({"g": rng.choice(list("ABCDEFGH"), n), "sex": rng.choice(["F", "M"], n)})
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
    assert f"{int(a.groups['kept'].sum()) - MOST_BARS} more groups are in the table" in found.description


def test_a_wrong_shape_alone_is_shown_by_the_curve(people):
    mean = float(people.y.mean())
    steep = expit(np.log(mean / (1 - mean)) + 1.25 * (people.x - people.x.mean()))
    steep = np.clip(steep * mean / steep.mean(), 0, 1)
    a = audit(people.y, steep, n_draws=100)
    assert a.groups["finding"].iloc[0] == "could be chance"
    (first,) = [block for block in audit_document(a).blocks if isinstance(block, Beside)]
    assert isinstance(first.blocks[0].blocks[0], Fragment)


def test_what_a_correction_changed_adds_up(people):
    before = expit(people.x - 0.9 * (people.g == "C") + 0.9 * (people.g == "D"))
    after = expit(people.x + 0.9 * (people.g == "E"))
    features = people[["g"]]
    both = compare({"old": before, "new": after}, people.y, sensitive_features=features, n_draws=100)
    told = effect_sentences(both, "new")
    assert " is closer to the observed rate than “old” " in told[0]
    assert " 2 of 8 subgroups tested: " in told[0]
    assert "E (O/E " in told[1]
    assert told[1].startswith("It is further off ")
    assert any(one.startswith("E (O/E ") for one in both.worse_groups("new"))
    cards = key_figures(both.audits["new"], both.audits["old"]).figures
    ratio = next(card for card in cards if card.name == "O/E ratio")
    assert ratio.before == f"{both.audits['old'].groups.observed_expected.iloc[0]:.2f}"
    picture = ratio_forest(both.audits["new"], both.audits["old"])
    assert {"C", "D", "E"} <= {row.name for row in picture.rows}  # concerned before or after
    assert all(row.before == row.before for row in picture.rows)


@pytest.mark.parametrize(("furthest", "last"), [(1.1, "1.25"), (1.9, "2"), (3, "4"), (50, "8")])
def test_the_axis_holds_what_is_drawn(furthest, last):
    axis = ratio_axis([1 / furthest, 1.0])
    assert axis.ticks[-1][1] == last
    assert forest_bar(ForestRow("", furthest, 1.0, 1000.0), axis).beyond == "right"
    assert not forest_bar(ForestRow("", float("nan"), float("nan"), float("nan")), axis).point


def test_a_title_cannot_leave_its_string():
    assert css_text('"}body{display:none') == "\\22 \\7d body\\7b display\\3a none"
