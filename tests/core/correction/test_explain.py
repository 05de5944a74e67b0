"""Why a score moved: steps, sentences, pictures, notebook cards."""

import re
from decimal import Decimal

import matplotlib as mpl
import numpy as np
import pytest

import oracle
from propcal import Correction, PMCBoost
from propcal.core.bins import uniform
from propcal.core.correction.smooth_map import N_KNOTS, SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT, to_grid
from propcal.core.groups import Group, pattern_name
from propcal.core.patterns import Patterns
from propcal.errors import InputError, UnseenError
from propcal.extras import how_to_install

mpl.use("Agg")


@pytest.fixture(scope="module")
def fitted(cohort):
    return PMCBoost.paper(alpha=0.02).fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )


@pytest.fixture(scope="module")
def explanation(fitted, cohort):
    return fitted.correction_.explain(cohort.score, cohort[["race", "gender"]])


def test_the_steps_lead_from_the_raw_to_the_corrected_score(
    explanation, fitted, cohort
):
    corrected = fitted.predict(
        cohort.score, sensitive_features=cohort[["race", "gender"]]
    )
    assert np.array_equal(explanation.corrected, corrected)
    frame = explanation.to_frame()
    assert frame.groupby("person")["shift"].sum().reindex(
        range(3000), fill_value=0
    ).to_numpy() == pytest.approx(corrected - cohort.score.to_numpy(), abs=1e-9)
    assert (
        frame.groupby("person").update.apply(lambda u: u.is_monotonic_increasing).all()
    )
    first = frame.groupby("person").first()
    assert (
        to_grid(first.score_before.to_numpy()).tolist()
        == to_grid(cohort.score.to_numpy())[first.index].tolist()
    )


def test_each_step_is_an_update_of_a_group_that_the_person_is_in(
    explanation, fitted, cohort
):
    correction = fitted.correction_
    groups = [
        tuple((("race", "gender").index(a), v) for a, v in group.conditions)
        for group in correction.groups
    ]
    for person in range(0, 3000, 501):
        key = tuple(
            None if v != v else v for v in cohort.loc[person, ["race", "gender"]]
        )
        value, steps = int(to_grid(np.array([cohort.score[person]]))[0]), []
        for u, (g, j, shift) in enumerate(correction.updates.tolist()):
            if oracle.belongs(key, groups[g]) and oracle.in_bin(
                value, correction.bins.edges.tolist(), j
            ):
                after = min(max(value + shift, 0), UNIT)
                if after != value:
                    steps.append([person, u, value, after])
                value = after
        assert explanation.steps[explanation.steps[:, 0] == person].tolist() == steps


@pytest.fixture(scope="module")
def smooth(cohort):
    """A smooth start and updates."""
    frame = cohort[["race", "gender"]]
    return (
        PMCBoost(guard=None)
        .fit(cohort.score, cohort.y, sensitive_features=frame)
        .correction_
    )


def test_the_smooth_start_is_told_group_by_group_before_the_updates(smooth, cohort):
    frame = cohort[["race", "gender"]]
    told = smooth.explain(cohort.score, frame)
    assert np.array_equal(told.corrected, smooth.apply(cohort.score, frame))
    steps = told.to_frame()
    start = steps[steps["update"] == 1]
    started = smooth.apply(cohort.score, frame, n_updates=1)
    moved = np.flatnonzero(started != cohort.score)
    assert len(moved) > 2900
    assert (
        start.groupby("person")["score_after"].last().loc[moved].tolist()
        == started[moved].tolist()
    )
    assert set(start["bin"]) == {"all scores"}
    assert set(start["group"]) <= {group.name for group in smooth.start.groups}
    assert start["group"].nunique() > 4
    breadth = start["group"].str.count("&")  # broad groups come first
    assert (
        breadth.groupby(start["person"])
        .apply(lambda b: b.is_monotonic_increasing)
        .all()
    )
    assert steps["update"].max() > 1
    assert told.plot(int(moved[0])) is not None
    kept = PMCBoost(unseen="keep").fit(cohort.score, cohort.y, sensitive_features=frame)
    new = kept.correction_.explain([0.3], {"race": ["Martian"], "gender": ["F"]})
    assert new.corrected.tolist() == [0.3]


def test_the_changes_add_up_exactly(smooth, cohort):
    told = smooth.explain(cohort.score, cohort[["race", "gender"]])
    units = to_grid(told.corrected) - to_grid(told.score)
    for kind, column in (("steps", "shift"), ("groups", "change")):
        frame = told.to_frame(kind)
        changes = np.zeros(len(told), dtype=np.int64)
        np.add.at(changes, frame["person"], (frame[column] * UNIT).astype(np.int64))
        assert np.array_equal(changes, units)
    largest_first = told.to_frame("groups").assign(size=lambda f: -f["change"].abs())
    assert (
        largest_first.groupby("person")["size"]
        .apply(lambda s: s.is_monotonic_increasing)
        .all()
    )
    assert [change for _, change in told.changes_of(7)] == told.to_frame(
        "groups"
    ).query("person == 7").change.tolist()


def test_printed_numbers_add_up_as_they_are_printed(smooth, explanation, cohort):
    told = smooth.explain(cohort.score, cohort[["race", "gender"]])
    many = 0
    for sentence in [*told.sentences(), *explanation.sentences()]:
        before, after = (
            Decimal(x)
            for x in re.match(
                r"([\d.]+) (?:becomes|stays) ([\d.]+):", sentence
            ).groups()
        )
        parts = [Decimal(x) for x in re.findall(r"[+-]0\.\d{3}", sentence)]
        assert sum(parts) == after - before, sentence
        assert "0.000 because" not in sentence
        many += len(parts) > 2
    assert many > 1000


def parts_of(shifts, score):
    """Parts of one person who is in all of the terms, and what the start makes of the
    score.
    """
    groups = tuple(Group((("g", "x"),) * bool(t)) for t in range(len(shifts)))
    start = SmoothStart(groups, np.array(shifts, dtype=np.int64))
    patterns = Patterns(("g",), (("x",),), np.zeros((1, 1), dtype=np.int64))
    raw = to_grid(np.atleast_1d(score))
    code = np.zeros(len(raw), dtype=np.int64)
    return start.parts(raw, code, patterns), start.apply(raw, code, patterns) - raw


def constant(log_odds, ends=0.0):
    shifts = np.full(N_KNOTS, round(log_odds * SHIFT_UNIT))
    shifts[[0, -1]] = round(ends * SHIFT_UNIT)
    return shifts


SCORES = np.concatenate(
    [[0, 1, 1e-9, 1 - 1e-9, 0.5], np.random.default_rng(0).random(500)]
)


def test_groups_with_the_same_shift_have_the_same_part_in_any_order():
    parts, total = parts_of([constant(0.4), constant(-0.2), constant(0.4)], SCORES)
    assert np.array_equal(parts.sum(axis=1), total)
    assert np.abs(parts[:, 0] - parts[:, 2]).max() <= 1
    assert np.abs(parts[:, 0] + 2 * parts[:, 1]).max() <= 3


def test_a_part_is_the_shift_times_the_mean_slope_of_the_curve():
    shifts = np.array([0.7, -0.3, 0.15])
    parts, _ = parts_of([constant(shift) for shift in shifts], SCORES)
    x = np.log(SCORES[4:] / (1 - SCORES[4:]))
    expected = (
        (1 / (1 + np.exp(-x - shifts.sum())) - SCORES[4:])[:, None]
        * shifts
        / shifts.sum()
    )
    assert parts[4:, :3] / UNIT == pytest.approx(
        expected, abs=1e-3
    )  # lines between knots
    assert parts[:2].tolist() == [[0] * 4] * 2


@pytest.mark.parametrize("rest", [0.0, 1e-6, 0.01])
def test_groups_that_cancel_each_other_have_opposite_parts(rest):
    parts, total = parts_of([constant(1.0), constant(rest - 1.0)], SCORES)
    assert np.array_equal(parts.sum(axis=1), total)
    slope = SCORES * (1 - SCORES)
    assert parts[:, 0] / UNIT == pytest.approx(slope, abs=0.004)
    assert parts[:, 1] / UNIT == pytest.approx((rest - 1) * slope, abs=0.004)


def test_levels_of_0_and_1_have_parts_that_add_up():
    parts, total = parts_of([constant(0.1, -9.0), constant(-0.2, -1.0)], SCORES)
    assert np.array_equal(parts.sum(axis=1), total)
    assert parts[1, 0] == pytest.approx(9 * parts[1, 1], rel=1e-6)
    assert (parts[1, :2].sum() + UNIT) / UNIT == pytest.approx(
        1 / (1 + np.exp(-2.125)), abs=1e-3
    )
    assert parts[1, 2] > 0  # a score of 1 does not fall below lower ones


def test_shifts_beyond_the_table_and_curves_that_would_fall_add_up_too():
    falling = np.linspace(24, -24, N_KNOTS) * SHIFT_UNIT
    for shifts in (
        [constant(8), constant(7)],
        [constant(-30), constant(1)],
        [falling, constant(0.1)],
    ):
        parts, total = parts_of(shifts, SCORES)
        assert np.array_equal(parts.sum(axis=1), total)
    assert (
        np.abs(parts[:, -1]).max() > 0.01 * UNIT
    )  # the last one was kept from falling
    assert np.abs(parts_of([constant(8)], SCORES)[0][:, -1]).max() == 0


def hand_made(start=None, updates=(), **options):
    """Two wards, two bins, and what the test wants to see told."""
    groups = (Group(()), Group((("ward", "a"),)), Group((("ward", "b"),)))
    patterns = Patterns(("ward",), (("a", "b"),), np.array([[0], [1]]))
    table = np.array(
        [(g, j, round(shift * UNIT)) for g, j, shift in updates], dtype=np.int64
    ).reshape(-1, 3)
    return Correction(patterns, groups, uniform(2), table, start=start, **options)


def test_sentences_name_groups_and_changes_largest_first():
    correction = hand_made(
        updates=[
            (0, 0, 0.019),
            (1, 0, 0.05),
            (1, 0, -0.009),
            (2, 1, -0.4),
            (2, 0, -0.2),
        ]
    )
    told = correction.explain(
        [0.168, 0.1, 0.9, 0.55], {"ward": ["a", "b", "a", "b"]}, unit="patients"
    )
    assert told.sentences() == [
        "0.168 becomes 0.228: +0.041 by the adjustments of a patients; also +0.019 for all patients.",
        "0.100 becomes 0.000: -0.119 by the adjustment of b patients; also +0.019 for all patients. "
        "A risk cannot be below 0.",
        "0.900 stays: no adjustment applies to such a score.",
        "0.550 becomes 0.000: -0.550 by the adjustments of b patients. A risk cannot be below 0.",
    ]
    assert repr(told).startswith(
        "0: 0.168 becomes 0.228: +0.041 by the adjustments of a patients"
    )
    assert told.to_frame("groups")["change"].round(3).tolist()[:2] == [0.041, 0.019]
    with pytest.raises(InputError, match="person"):
        told.sentence(4)
    with pytest.raises(InputError, match="kind"):
        told.to_frame("parts")


def test_a_smooth_start_and_updates_of_one_group_are_one_change():
    start = SmoothStart(
        (Group((("ward", "a"),)), Group(())),
        np.array([constant(0.5), constant(-0.1)], dtype=np.int64),
    )
    told = hand_made(start, [(1, 0, 0.02)]).explain([0.2], {"ward": ["a"]})
    steps = told.to_frame()
    assert steps["group"].tolist() == ["everybody", "ward=a", "ward=a"]
    assert steps["update"].tolist() == [1, 1, 2]
    changes = dict(told.changes_of(0))
    assert changes["a"] == steps["shift"][1] + steps["shift"][2]
    assert told.sentence().startswith("0.200 becomes 0.2")
    assert "by the recalibration curve and adjustment of a people;" in told.sentence()
    assert "; also -0.018 for all people." in told.sentence()


def test_changes_that_cancel_and_changes_too_small_to_print():
    told = hand_made(updates=[(0, 0, 0.004), (1, 0, -0.004), (2, 0, -0.0039)]).explain(
        [0.2, 0.2], {"ward": ["a", "b"]}
    )
    assert told.sentences() == [
        "0.200 stays 0.200: +0.004 by the adjustment of all people; also -0.004 for a people.",
        "0.200 stays 0.200: +0.004 by the adjustment of all people; also -0.004 for b people.",
    ]
    small = hand_made(updates=[(0, 0, 0.0004)]).explain([0.2], {"ward": ["a"]})
    assert (
        small.sentence()
        == "0.200 stays 0.200: the adjustments come to less than 0.001."
    )
    falling = SmoothStart(
        (Group(()),),
        (np.linspace(24, -24, N_KNOTS) * SHIFT_UNIT).astype(np.int64)[None],
    )
    told = hand_made(falling).explain([0.7], {"ward": ["a"]})
    assert re.search(r"[+-]0\.\d+ to keep higher scores higher", told.sentence())
    assert "order of scores" in told.to_frame()["group"].tolist()


def test_long_stories_are_summed_up():
    levels = [f"level {i}" for i in range(8)]
    groups = tuple(Group(((f"a{i}", levels[i]),)) for i in range(8))
    patterns = Patterns(
        tuple(f"a{i}" for i in range(8)),
        tuple((x,) for x in levels),
        np.zeros((1, 8), dtype=np.int64),
    )
    updates = np.array(
        [(g, 0, round((0.001 + 0.001 * g) * UNIT)) for g in range(8)], dtype=np.int64
    )
    told = Correction(patterns, groups, uniform(2), updates).explain(
        [0.2], {f"a{i}": [levels[i]] for i in range(8)}
    )
    sentence = told.sentence()
    assert sentence.startswith(
        "0.200 becomes 0.236: +0.008 by the adjustment of level 7 people; also"
    )
    assert sentence.endswith(
        "+0.005 for level 4 people, +0.010 from 4 smaller adjustments."
    )


def test_groups_are_called_as_people_call_them(smooth):
    told = smooth.explain(
        [0.3],
        {"race": ["Asian"], "gender": ["F"]},
        unit="patients",
        labels={"gender": {"F": "women"}},
    )
    assert (
        "by the recalibration curve and adjustments of Asian patients"
        in told.sentence()
    )
    assert "for patients (women)" in told.sentence()
    assert "for patients (Asian, women)" in told.sentence()
    assert {name for name, *_ in told.steps_of(0)} <= {
        "All patients",
        "Asian",
        "women",
        "Asian, women",
        "order of scores",
    }
    names = {group.name for group in smooth.start.groups + smooth.groups}
    assert set(told.to_frame()["group"]) <= names | {"order of scores"}


def test_only_a_few_sentences_are_shown_at_once(explanation):
    assert len(repr(explanation).splitlines()) == 6


def test_policies_for_unseen_people(fitted, cohort):
    frame = {"race": ["Martian"], "gender": ["F"]}
    replayed = fitted.correction_.explain([0.3], frame)
    assert replayed.corrected == fitted.correction_.apply([0.3], frame)
    assert replayed.sentence().endswith(
        "This combination of attributes was not seen in fitting; only groups that it belongs to apply."
    )
    assert "race" not in replayed.sentence().split(":")[1]
    for policy in ("keep", "error"):
        other = PMCBoost.paper(alpha=0.02, unseen=policy).fit(
            cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
        )
        if policy == "keep":
            told = other.correction_.explain([0.3], frame)
            assert len(told.steps) == 0
            assert (
                told.sentence()
                == "0.300 stays: this combination of attributes was not seen in fitting."
            )
        else:
            with pytest.raises(UnseenError):
                other.correction_.explain([0.3], frame)


def test_the_picture_of_a_correction_shows_its_maps(fitted):
    before = dict(mpl.rcParams)
    ax = fitted.correction_.plot()
    labels = [
        line.get_label()
        for line in ax.get_lines()
        if not line.get_label().startswith("_")
    ]
    names = {
        pattern_name(fitted.correction_.patterns, p)
        for p in range(len(fitted.correction_.patterns))
    }
    assert labels[0] == "no change"
    assert len(labels) == 1 + min(8, len(names))
    assert set(labels[1:]) <= names
    assert dict(mpl.rcParams) == before
    name = "race=White & gender=F"
    points = fitted.correction_.plot([name]).get_lines()[1].get_xydata()
    starts = points[::3]  # first corner of each piece
    frame = {"race": ["White"] * len(starts), "gender": ["F"] * len(starts)}
    assert starts[:, 1] == pytest.approx(
        fitted.correction_.apply(starts[:, 0], frame), abs=1e-9
    )
    with pytest.raises(InputError, match="no pattern 'x'"):
        fitted.correction_.plot(["x"])


def test_the_picture_of_an_explanation_is_a_waterfall(explanation):
    longest = int(np.bincount(explanation.steps[:, 0]).argmax())
    ax = explanation.plot(longest)
    bars = ax.patches
    steps = explanation.steps_of(longest)
    assert len(bars) == len(steps) + 2
    assert bars[0].get_width() == pytest.approx(explanation.score[longest])
    assert [bar.get_width() for bar in bars[1:-1]] == pytest.approx(
        [shift for *_, shift in steps]
    )
    assert bars[-1].get_width() == pytest.approx(explanation.corrected[longest])
    assert explanation.plot(0, ax=ax) is ax


def test_pictures_without_matplotlib_say_what_to_install(fitted, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        ImportError,
        match=re.escape(f"plots need matplotlib: {how_to_install('plots')}"),
    ):
        fitted.correction_.plot()


def test_notebook_cards_escape_everything_and_bring_no_script():
    nasty = "<script>alert('1')</script>"
    group = np.array([nasty] * 100 + ["b"] * 100)
    y = np.r_[np.ones(20), np.zeros(80), np.ones(40), np.zeros(60)]
    model = PMCBoost.paper(alpha=0.05).fit(
        np.full(200, 0.3), y, sensitive_features={"</style>": group}
    )
    told = model.correction_.explain(np.full(200, 0.3), {"</style>": group})
    for html in (model.correction_._repr_html_(), told._repr_html_()):
        assert "<script" not in html
        assert html.count("</style>") == 1
        assert "&lt;script&gt;" in html
    assert "190 more people" in told._repr_html_()
    unchanged = PMCBoost.paper(alpha=1.0).fit(np.full(200, 0.3), y).correction_
    assert "changes no score" in unchanged._repr_html_()


def test_pictures_show_names_letter_by_letter():
    rng = np.random.default_rng(0)
    names = np.array(["$10,000-$25,000", r"$\foo$", "_hidden\n👩"], dtype=object)
    group, score = names[rng.integers(0, 3, 600)], rng.random(600)
    model = PMCBoost.paper(alpha=0.05).fit(
        score, rng.random(600) < score**2, sensitive_features={"_INCOME": group}
    )
    ax = model.correction_.plot()
    ax.figure.canvas.draw()  # formulas would fail here
    assert len(ax.get_legend().get_texts()) == 4
    told = model.correction_.explain(score[:5], {"_INCOME": group[:5]})
    told.plot(0).figure.canvas.draw()
