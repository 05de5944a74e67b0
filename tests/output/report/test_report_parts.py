"""The parts of a page by themselves: the first picture, the key figures, what a correction changed."""

import numpy as np
import pandas as pd
import pytest

from propcal import audit, compare
from propcal.output.page_file import css_text
from propcal.output.report.changes import effect_sentences
from propcal.output.report.forest_bars import ForestAxis
from propcal.output.report.key_figures import key_figures
from propcal.output.report.main_picture import MOST_ROWS, main_picture


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
    found = main_picture(a, None)
    assert [row.name for row in found.rows][:2] == ["All people", "C"]
    assert found.rows[1].look == "low"
    assert len(found.rows) == MOST_ROWS
    assert found.more == int(a.groups["kept"].sum()) - MOST_ROWS
    assert not found.shape
    assert float(found.rows[1].bar.point) > float(found.rows[0].bar.point)


def test_a_wrong_shape_alone_is_shown_by_the_curve(people):
    mean = float(people.y.mean())
    steep = expit(np.log(mean / (1 - mean)) + 1.25 * (people.x - people.x.mean()))
    steep = np.clip(steep * mean / steep.mean(), 0, 1)
    a = audit(people.y, steep, n_draws=100)
    assert main_picture(a, None).shape == (a.groups["finding"].iloc[0] == "could be chance")
    assert main_picture(a, None).shape


def test_what_a_correction_changed_adds_up(people):
    before = expit(people.x - 0.9 * (people.g == "C") + 0.9 * (people.g == "D"))
    after = expit(people.x + 0.9 * (people.g == "E"))
    features = people[["g"]]
    both = compare({"old": before, "new": after}, people.y, sensitive_features=features, n_draws=100)
    told = effect_sentences(both, "new")
    assert told[0] == (
        "Miscalibrated subgroups, of 8 tested: 2 with old, 1 with new (2 put right, 0 still off, 1 new)."
    )
    assert both.worse_groups("new")[0].startswith("E (O/E ")
    assert any("Further off than before" in sentence and "E (O/E" in sentence for sentence in told)
    cards = key_figures(both.audits["new"], both.audits["old"], exact=True)
    ratio = next(card for card in cards if card.name == "O/E ratio")
    assert ratio.before == f"{both.audits['old'].groups.observed_expected.iloc[0]:.2f}"
    picture = main_picture(both.audits["new"], both.audits["old"])
    assert {"C", "D", "E"} <= {row.name for row in picture.rows}  # concerned before or after
    assert all(row.before is not None for row in picture.rows)


@pytest.mark.parametrize(("furthest", "last"), [(1.1, "1.25"), (1.9, "2"), (3, "4"), (50, "8")])
def test_the_axis_holds_what_is_drawn(furthest, last):
    axis = ForestAxis.holding([1 / furthest, 1.0])
    assert axis.ticks[-1].label == last
    bar = axis.bar(furthest, 1.0, 1000.0)
    assert bar.beyond == "right"
    assert axis.bar(float("nan"), 1.0, 1.0) is None


def test_a_title_cannot_leave_its_string():
    assert css_text('"}body{display:none') == "\\22 \\7d body\\7b display\\3a none"
