"""Pictures of audits and comparisons: they show the audit's numbers, whatever groups
are called.
"""

import re
import warnings
from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from first_cases import first
from propcal import audit, compare, displays
from propcal.auditing.loss_intervals import dc_by_bin
from propcal.documents.audit_charts import AUDIT_CHARTS
from propcal.errors import InputError
from propcal.extras import how_to_install
from propcal.numbers import risk_range
from propcal.render.matplotlib_style import labels, letters, short

mpl.use("Agg")
KINDS = sorted(AUDIT_CHARTS)
NASTY = [
    "$10,000-$25,000",
    r"$\frac{1}{",
    "_hidden",
    "x" * 300,
    "x" * 299 + "y",
    "two\nlines\tand\0more",
    "👩🏽‍⚕️ 病院",
    "بيمارستان שלום",
    "\u202eevil",
    "%s {0} & b=c",
    "<script>alert(1)</script>",
    "\\",
]


@pytest.fixture(scope="module")
def found(cohort):
    return audit(cohort.y, cohort.score, sensitive_features=cohort[["race", "gender"]])


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def people(group, *, wrong=1.3, seed=0, score=None):
    """An audit of people in the given groups, whose scores are too low."""
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 4, len(group)) if score is None else score
    y = rng.random(len(group)) < np.clip(score * wrong, 0, 1)
    return audit(y, score, sensitive_features={"_a$": group}, gamma=1e-6, n_draws=100)


def texts(ax):
    """Everything that can be read in a figure."""
    return [
        text.get_text()
        for text in ax.figure.findobj(Text)
        if text.get_text() and text.get_visible()
    ]


def drawn(ax):
    """Draw the figure with warnings as errors, as in a paper and on a screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    return ax


def assert_nothing_is_cut(ax):
    figure = ax.figure
    box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    whole = figure.get_window_extent()
    assert box.x0 >= whole.x0 - 2
    assert box.x1 <= whole.x1 + 2
    assert box.y0 >= whole.y0 - 2
    assert box.y1 <= whole.y1 + 2


def lines(ax, label):
    return [line for line in ax.get_lines() if line.get_label() == label]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [3.5, 7])
def test_every_picture_can_be_read_at_its_width(found, kind, width):
    ax = drawn(found.plot(kind, width=width))
    assert ax.figure.get_figwidth() == width
    for text in ax.figure.findobj(Text):
        if text.get_text() and text.get_visible():
            assert text.get_fontsize() >= 7
    assert_nothing_is_cut(ax)


@pytest.mark.parametrize("kind", KINDS)
def test_no_style_is_changed(found, kind):
    before = dict(mpl.rcParams)
    drawn(found.plot(kind))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_go_on_given_axes(found, kind):
    _, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
    assert found.plot(kind, ax=axes[1]) is axes[1]
    assert not axes[0].has_data()
    drawn(axes[1])
    part = plt.figure(figsize=(7, 5), layout="constrained").subfigures(1, 2)[1]
    assert found.plot(kind, ax=part.subplots()).figure is part
    part.figure.canvas.draw()


def test_calibration_shows_the_curves_and_the_categories(found):
    ax = found.plot("calibration", ["race=White", "gender=F"])
    for name, label in (("race=White", "White"), ("gender=F", "F")):
        curve = found.curves[found.curves.group == name]
        (line,) = lines(ax, label)
        assert np.array_equal(line.get_xydata(), curve[["score", "outcome_rate"]])
    points = np.concatenate([line.get_xydata() for line in lines(ax, "_points")])
    rows = found.categories.query("eligible and group in ['race=White', 'gender=F']")
    assert sorted(map(tuple, points)) == sorted(
        map(tuple, rows[["mean_score", "outcome_rate"]].to_numpy())
    )
    filled = [
        line for line in lines(ax, "_points") if line.get_markerfacecolor() != "white"
    ]
    assert (
        sum(len(line.get_xdata()) for line in filled)
        == rows.finding.isin(["too low", "too high"]).sum()
    )
    bands = [band.get_paths()[0].vertices[:, 1] for band in ax.collections]
    low = found.curves[found.curves.group == "race=White"].low
    assert min(bands[0]) == pytest.approx(low.min())


def test_groups_differ_by_more_than_their_colour(found):
    ax = found.plot("calibration")
    looks = [
        (line.get_linestyle(), line.get_marker())
        for line in ax.get_legend().get_lines()[1:5]
    ]
    assert len(set(looks)) == 4


def test_the_forest_shows_observed_over_expected(found):
    ax = found.plot("forest")
    rows = found.groups.set_index("group")
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown[0] == "All people"
    rows = found.groups.set_index("label", drop=False)
    ratios = rows.observed_expected[shown[1:]]
    assert ratios.is_monotonic_increasing
    assert set(shown) == set(rows.label[rows.kept])
    points, intervals = lines(ax, "_points"), lines(ax, "_ranges")
    for y, (name, point, interval) in enumerate(zip(shown, points, intervals)):
        row = rows.loc[name]
        assert point.get_xydata().tolist() == [[row.observed_expected, y]]
        assert interval.get_xdata().tolist() == [
            row.observed_expected_low,
            row.observed_expected_high,
        ]
        hollow = point.get_markerfacecolor() == "white"
        assert hollow == (row.finding == "could be chance")
        assert point.get_marker() == {"too high": "^", "too low": "v"}.get(
            row.finding, "o"
        )
    assert any("score too high" in text for text in texts(ax))


def test_the_heat_map_colours_what_is_beyond_noise(found):
    ax = found.plot("heatmap", width=7)
    called = {label: name for name, label in found.labels.items()}
    names = [
        called[label.get_text().replace("\n", " ")] for label in ax.get_yticklabels()
    ]
    edges = np.array(found.settings["edges"])
    cells = {
        text.get_position(): text.get_text() for text in ax.texts if text.get_text()
    }
    places = [(bar.get_x() + 0.5, bar.get_y() + 0.5) for bar in ax.patches]
    fills = dict(
        zip(
            places, (to_hex(bar.get_facecolor(), keep_alpha=True) for bar in ax.patches)
        )
    )
    white, seen = "#ffffffff", 0
    for row in found.categories.to_dict("records"):
        if row["group"] not in names:
            continue
        y, j = (
            names.index(row["group"]),
            int(np.searchsorted(edges, row["mean_score"], side="right")) - 1,
        )
        sure = row["finding"] in ("too high", "too low")
        seen += sure
        if row["eligible"]:
            assert int(cells[(j + 0.5, y)].replace("−", "-")) == round(100 * row["gap"])
            assert (fills[(j + 0.5, y)] != white) == sure
        else:
            assert (j + 0.5, y) not in cells
    assert seen > 5
    assert len(fills) == len(names) * 10


def test_dc_by_bin_is_the_dc_loss_bin_by_bin(found):
    table = dc_by_bin(found)
    loss = found.losses.loc["dc"]
    worst = table.loc[table.dc.idxmax()]
    assert worst.dc == pytest.approx(loss.value, abs=1e-12)
    high, low = found.labels[worst.highest], found.labels[worst.lowest]
    assert (
        loss["where"] == f"{high} against {low}, predicted risk {risk_range(worst.bin)}"
    )
    assert table.high.max() == pytest.approx(loss.high, abs=1e-12)
    assert table.low.max() == pytest.approx(loss.low, abs=1e-12)
    ax = found.plot("dc", width=7)
    told = table[table.dc.notna()]
    assert [label.get_text() for label in ax.get_yticklabels()] == told.bin.tolist()
    for row, line in zip(told.itertuples(), lines(ax, "_ranges")):
        assert np.ptp(np.log(line.get_xdata())) == pytest.approx(row.dc)
        assert f" ▶ {found.labels[row.highest]}" in texts(ax)
        assert f" ◀ {found.labels[row.lowest]}" in texts(ax)


def test_narrow_bins_have_labels_with_as_many_digits_as_tell_them_apart():
    rng = np.random.default_rng(0)
    score = 0.3 + rng.random(4000) * 1e-6
    y = rng.random(4000) < 0.3
    a = audit(
        y,
        score,
        sensitive_features=rng.integers(0, 2, 4000),
        binning="quantile",
        n_bins=4,
    )
    assert a.categories.bin.nunique() == 4
    assert (dc_by_bin(a).groups == 2).all()


def test_decision_curves_show_net_benefit(found):
    ax = found.plot("decision", "race=White")
    rows = found.net_benefit[found.net_benefit.group == "race=White"]
    assert lines(ax, "White")[0].get_ydata() == pytest.approx(
        100 * rows.net_benefit.to_numpy()
    )
    assert lines(ax, "_line")[0].get_ydata() == pytest.approx(
        100 * rows.treat_all.to_numpy()
    )


def test_distributions_add_up_to_a_hundred(found):
    ax = found.plot("distribution", ["race=White", "everybody"])
    for name, steps in zip(["race=White", "everybody"], ax.patches):
        rows = found.distribution[found.distribution.group == name]
        assert steps.get_data().values == pytest.approx(
            100 * rows.people / rows.people.sum()
        )


def test_before_and_after_are_both_in_the_picture(cohort):
    scores = {"base": cohort.score, "half": cohort.score / 2, "$x$": cohort.score**1.1}
    c = compare(scores, cohort.y, sensitive_features=cohort[["gender"]])
    ax = drawn(c.plot(width=3.5))
    points = [line.get_xydata()[0, 0] for line in lines(ax, "_points")]
    assert points == [
        a.groups.set_index("label").observed_expected[label.get_text()]
        for a in c.audits.values()
        for label in ax.get_yticklabels()
    ]
    assert {"base", "half", r"\$x\$"} <= set(texts(ax))
    display = displays.BeforeAfterDisplay.from_comparison(c, groups=["gender=F"])
    assert display.comparison is c
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["F"]
    again = displays.BeforeAfterDisplay.from_predictions(
        cohort.y,
        scores,
        sensitive_features=cohort[["gender"]],
        n_draws=100,
        show="gender=M",
    )
    assert again.figure_ is again.ax_.figure
    with pytest.raises(InputError, match="there is no picture 'forest'; there are"):
        c.plot("forest")


@pytest.fixture(scope="module")
def nasty():
    return people(np.array(NASTY, dtype=object)[np.arange(3600) % len(NASTY)])


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_shown_letter_by_letter(nasty, kind):
    for width in (3.5, 7):
        ax = drawn(nasty.plot(kind, width=width))
        assert_nothing_is_cut(ax)
        assert all(len(line) < 130 for text in texts(ax) for line in text.split("\n"))
    with mpl.rc_context({"text.usetex": True}):  # no TeX here: names would fail in it
        nasty.plot("forest")


def test_letters_that_the_font_lacks_are_marked():
    assert letters("a\nb\0c\u202e") == "a b c"
    assert "\ufffd" in letters("👩")
    assert letters("\ud800") == "\ufffd"
    assert short("$x$") == r"\$x\$"
    assert short("_x") == " _x"
    assert short("x" * 300, 20) == "x" * 19 + "…"
    two = labels(["a=" + "x" * 300, "a=" + "x" * 299 + "y"], 20)
    assert len(set(two)) == 2
    assert len(set(labels(["x" * 300] * 3, 20))) == 3
    assert labels(["race=a long name & gender=F"], 20, lines=2) == [
        "race=a long name &\ngender=F"
    ]


@pytest.fixture(scope="module")
def sixty():
    return people(np.char.add("g", (np.arange(6000) % 60).astype(str)))


@pytest.mark.parametrize("kind", KINDS)
def test_many_groups_are_cut_to_the_worst_and_that_is_said(sixty, kind):
    ax = drawn(sixty.plot(kind, width=3.5))
    assert ax.figure.get_figheight() < 12
    assert_nothing_is_cut(ax)
    if kind != "dc":  # which shows all of them
        assert any("of 60 groups" in text for text in texts(ax))


@cache  # for each kind of picture
def odd_audit(case):
    rng = np.random.default_rng(1)
    n = {"few": 40, "tiny": 5, "bins": 2000}.get(case, 600)
    score, y = rng.random(n), rng.random(n) < 0.4
    group = rng.choice(["a", "b", "c"], n, p=[0.6, 0.38, 0.02])
    settings = {
        "sensitive_features": None if case == "one" else {"g": group},
        "n_draws": 100,
    }
    if case == "equal":
        score = np.full(n, 0.3)
    elif case == "never":
        y = np.zeros(n)
    elif case == "always":
        y = np.ones(n)
    elif case == "soft":
        y = rng.random(n)
    elif case == "ends":
        score = np.round(score)
    elif case == "clusters":
        settings["cluster"] = np.arange(n) // 300
    elif case == "bins":
        settings["n_bins"] = 200
    elif case == "rare":
        score = score / 500
        y = rng.random(n) < score
    return audit(y, score, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case",
    first(
        3,
        [
            "one",
            "never",
            "bins",
            "few",
            "tiny",
            "equal",
            "always",
            "soft",
            "ends",
            "clusters",
            "rare",
        ],
    ),
)
def test_odd_audits_are_drawn_or_said_in_a_sentence(kind, case):
    a = odd_audit(case)
    for width in (3.5, 7):
        ax = drawn(a.plot(kind, width=width))
        assert_nothing_is_cut(ax)
        assert ax.has_data() or any(text.endswith(".") for text in texts(ax))
        assert all(np.isfinite(ax.get_xlim()))


def test_too_few_people_are_hatched_and_explained():
    group = np.array(["a"] * 500 + ["b"] * 20)
    a = people(group)
    for kind in ("forest", "heatmap"):
        ax = drawn(a.plot(kind, ["_a$=a", "_a$=b"]))
        assert any(patch.get_hatch() for patch in [*ax.patches, *ax.collections])
        assert any("not enough data" in text for text in texts(ax))
    ax = drawn(a.plot("calibration", ["_a$=a", "_a$=b"]))
    assert "b: not enough data" in texts(ax)
    assert len(a.plot("distribution").patches) == 2  # everybody and the larger group


def test_wrong_names_are_answered_with_the_right_ones(found):
    with pytest.raises(
        InputError, match=r"there is no picture 'forrest'.*Did you mean 'forest'"
    ):
        found.plot("forrest")
    with pytest.raises(
        InputError, match=r"there is no group 'race=Whit'.*Did you mean 'race=White'"
    ):
        found.plot("forest", ["race=Whit"])
    with pytest.raises(InputError, match="empty"):
        found.plot("dc", [])
    assert not plt.get_fignums()


def test_without_matplotlib_the_extra_is_named(found, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for kind in KINDS:
        with pytest.raises(
            ImportError,
            match=re.escape(f"plots need matplotlib: {how_to_install('plots')}"),
        ):
            found.plot(kind)


@pytest.mark.parametrize(
    "name", [name for name in displays.__all__ if name != "BeforeAfterDisplay"]
)
def test_displays_work_as_in_scikit_learn(found, cohort, name):
    display_of = getattr(displays, name)
    display = display_of.from_audit(found)
    assert display.figure_ is display.ax_.figure
    assert display.audit is found
    assert isinstance(display.frame, pd.DataFrame)
    assert len(display.frame)
    _, ax = plt.subplots()
    assert display.plot(ax=ax) is display
    assert display.ax_ is ax
    _, ax = plt.subplots()
    made = display_of.from_predictions(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race"]],
        n_draws=150,
        show=["race=Asian", "race=White"],
        ax=ax,
    )
    assert made.ax_ is ax
    assert made.audit.settings["n_draws"] == 150
    with pytest.raises(InputError, match=f"{name} draws Audit objects; got DataFrame"):
        display_of.from_audit(cohort)
