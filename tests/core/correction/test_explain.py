"""Why a score moved: steps, sentences, pictures, notebook cards."""

import matplotlib as mpl
import numpy as np
import pytest

import oracle
from propcal import PMCBoost
from propcal.core.grid import UNIT, to_grid
from propcal.core.groups.collection import pattern_name
from propcal.errors import InputError, UnseenError

mpl.use("Agg")


@pytest.fixture(scope="module")
def fitted(cohort):
    return PMCBoost.paper(alpha=0.02).fit(
        cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
    )


@pytest.fixture(scope="module")
def explanation(fitted, cohort):
    return fitted.correction_.explain(cohort.score, cohort[["race", "gender"]])


def test_the_steps_lead_from_the_raw_to_the_corrected_score(explanation, fitted, cohort):
    corrected = fitted.predict(cohort.score, sensitive_features=cohort[["race", "gender"]])
    assert np.array_equal(explanation.corrected, corrected)
    frame = explanation.to_frame()
    assert frame.groupby("person")["shift"].sum().reindex(
        range(3000), fill_value=0
    ).to_numpy() == pytest.approx(corrected - cohort.score.to_numpy(), abs=1e-9)
    assert frame.groupby("person").update.apply(lambda u: u.is_monotonic_increasing).all()
    first = frame.groupby("person").first()
    assert (
        to_grid(first.score_before.to_numpy()).tolist()
        == to_grid(cohort.score.to_numpy())[first.index].tolist()
    )


def test_each_step_is_an_update_of_a_group_that_the_person_is_in(explanation, fitted, cohort):
    correction = fitted.correction_
    groups = [
        tuple((("race", "gender").index(a), v) for a, v in group.conditions) for group in correction.groups
    ]
    for person in range(0, 3000, 501):
        key = tuple(None if v != v else v for v in cohort.loc[person, ["race", "gender"]])
        value, steps = int(to_grid(np.array([cohort.score[person]]))[0]), []
        for u, (g, j, shift) in enumerate(correction.updates.tolist()):
            if oracle.belongs(key, groups[g]) and oracle.in_bin(value, correction.bins.edges.tolist(), j):
                after = min(max(value + shift, 0), UNIT)
                if after != value:
                    steps.append([person, u, value, after])
                value = after
        assert explanation.steps[explanation.steps[:, 0] == person].tolist() == steps


def test_a_smooth_start_is_the_first_step_of_those_it_moves(cohort):
    frame = cohort[["race", "gender"]]
    model = PMCBoost(guard=None).fit(cohort.score, cohort.y, sensitive_features=frame)
    told = model.correction_.explain(cohort.score, frame)
    assert np.array_equal(told.corrected, model.predict(cohort.score, sensitive_features=frame))
    steps = told.to_frame()
    first = steps.groupby("person").first()
    started = model.predict(cohort.score, sensitive_features=frame, n_updates=1)
    moved = np.flatnonzero(started != cohort.score)
    assert len(moved) > 2900
    assert set(first.loc[moved, "group"]) == {"smooth start"}
    assert first.loc[moved, "score_after"].to_numpy() == pytest.approx(started[moved], abs=1e-12)
    assert steps.groupby("person")["shift"].sum().loc[moved].to_numpy() == pytest.approx(
        (told.corrected - cohort.score.to_numpy())[moved], abs=1e-9
    )
    person = int(moved[np.argmax(np.abs(started - cohort.score)[moved])])
    assert "by the smooth start, because" in told.sentence(person)
    assert told.plot(person) is not None
    kept = PMCBoost(unseen="keep").fit(cohort.score, cohort.y, sensitive_features=frame)
    new = kept.correction_.explain([0.3], {"race": ["Martian"], "gender": ["F"]})
    assert new.corrected.tolist() == [0.3]


def test_sentences_name_the_group_and_the_shift():
    group = np.array(["a"] * 100 + ["b"] * 100)
    y = np.r_[np.ones(20), np.zeros(80), np.ones(40), np.zeros(60)]
    model = PMCBoost.paper(alpha=0.05).fit(np.full(200, 0.3), y, sensitive_features={"ward": group})
    told = model.correction_.explain([0.3, 0.3, 0.9], {"ward": ["a", "b", "a"]})
    assert told.sentences() == [
        "The score of 0.300 becomes 0.200. It is lowered by 0.100 because people in the group ward=a with "
        "scores in [0.3, 0.4) had the outcome less often than scored.",
        "The score of 0.300 becomes 0.400. It is raised by 0.100 because people in the group ward=b with "
        "scores in [0.3, 0.4) had the outcome more often than scored.",
        "The score of 0.900 stays as it is: no update applies to it.",
    ]
    assert repr(told).startswith("0: The score of 0.300 becomes 0.200.")
    with pytest.raises(InputError, match="person"):
        told.sentence(3)


def test_long_stories_are_summed_up(explanation):
    counts = np.bincount(explanation.steps[:, 0], minlength=3000)
    longest = int(counts.argmax())
    assert counts[longest] > 5
    sentence = explanation.sentence(longest)
    assert f"{counts[longest] - 4} smaller change" in sentence
    assert len(repr(explanation).splitlines()) == 6


def test_policies_for_unseen_people(fitted, cohort):
    frame = {"race": ["Martian"], "gender": ["F"]}
    replayed = fitted.correction_.explain([0.3], frame)
    assert replayed.corrected == fitted.correction_.apply([0.3], frame)
    for policy in ("keep", "error"):
        other = PMCBoost.paper(alpha=0.02, unseen=policy).fit(
            cohort.score, cohort.y, sensitive_features=cohort[["race", "gender"]]
        )
        if policy == "keep":
            told = other.correction_.explain([0.3], frame)
            assert len(told.steps) == 0
            assert told.sentence().endswith("This combination of attributes was not seen in fitting.")
        else:
            with pytest.raises(UnseenError):
                other.correction_.explain([0.3], frame)


def test_the_picture_of_a_correction_shows_its_maps(fitted):
    before = dict(mpl.rcParams)
    ax = fitted.correction_.plot()
    labels = [line.get_label() for line in ax.get_lines() if not line.get_label().startswith("_")]
    names = {pattern_name(fitted.correction_.patterns, p) for p in range(len(fitted.correction_.patterns))}
    assert labels[0] == "no change"
    assert len(labels) == 1 + min(8, len(names))
    assert set(labels[1:]) <= names
    assert dict(mpl.rcParams) == before
    name = "race=White & gender=F"
    points = fitted.correction_.plot([name]).get_lines()[1].get_xydata()
    starts = points[::3]  # first corner of each piece
    frame = {"race": ["White"] * len(starts), "gender": ["F"] * len(starts)}
    assert starts[:, 1] == pytest.approx(fitted.correction_.apply(starts[:, 0], frame), abs=1e-9)
    with pytest.raises(InputError, match="no pattern 'x'"):
        fitted.correction_.plot(["x"])


def test_the_picture_of_an_explanation_is_a_waterfall(explanation):
    longest = int(np.bincount(explanation.steps[:, 0]).argmax())
    ax = explanation.plot(longest)
    bars = ax.patches
    steps = explanation.steps_of(longest)
    assert len(bars) == len(steps) + 2
    assert bars[0].get_width() == pytest.approx(explanation.score[longest])
    assert [bar.get_width() for bar in bars[1:-1]] == pytest.approx([shift for *_, shift in steps])
    assert bars[-1].get_width() == pytest.approx(explanation.corrected[longest])
    assert explanation.plot(0, ax=ax) is ax


def test_pictures_without_matplotlib_say_what_to_install(fitted, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'plots need matplotlib: pip install "propcal\[plots\]"'):
        fitted.correction_.plot()


def test_notebook_cards_escape_everything_and_bring_no_script():
    nasty = "<script>alert('1')</script>"
    group = np.array([nasty] * 100 + ["b"] * 100)
    y = np.r_[np.ones(20), np.zeros(80), np.ones(40), np.zeros(60)]
    model = PMCBoost.paper(alpha=0.05).fit(np.full(200, 0.3), y, sensitive_features={"</style>": group})
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
