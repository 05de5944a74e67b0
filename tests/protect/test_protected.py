"""What a reader of a protected page sees, and that it is what the audit says."""

import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import propcal
from propcal import audit, compare
from propcal.auditing.names import MEASURE_NAMES
from propcal.datasets import make_ed_visits
from propcal.documents.audit_sentences import next_steps
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, Limit, known
from propcal.protect.disclosure_rule import Rule
from propcal.protect.protected_audits import protected_audit
from propcal.protect.release import protected


@pytest.fixture(scope="module")
def visits():
    found = make_ed_visits(20_000, seed=1)
    found["score"] = found.groupby(
        ["acuity", found.age // 10], dropna=False
    ).admitted.transform("mean")
    return found


@pytest.fixture(scope="module")
def exact(visits):
    return audit(
        visits.admitted,
        visits.score,
        sensitive_features=visits[["race", "gender"]],
        n_draws=200,
    )


@pytest.fixture(scope="module")
def shown(exact):
    return protected_audit(exact, 11)


def test_findings_and_the_conclusion_are_those_of_the_audit(exact, shown):
    assert shown.verdict.conclusion == exact.verdict.conclusion
    for kind, names in (
        ("groups", ["group", "finding", "rank", "kept"]),
        ("categories", ["finding", "eligible"]),
    ):
        pd.testing.assert_frame_equal(
            getattr(shown, kind)[names], getattr(exact, kind)[names]
        )
    assert (
        shown.verdict.tests["rejected"].tolist()
        == exact.verdict.tests["rejected"].tolist()
    )


def test_nobody_is_said_to_have_a_score_of_0_or_1_if_nobody_has(visits):
    inside = audit(visits.admitted, visits.score.clip(0.01, 0.99), n_draws=100)
    certain = audit(
        visits.admitted, visits.score.where(visits.age < 80, 1), n_draws=100
    )
    for a, told in ((inside, False), (certain, True)):
        for each in (a, protected_audit(a, 11)):
            assert (
                any("a score of exactly 0 or 1" in note for note in each.notes) == told
            )


def test_statistics_of_many_people_are_those_of_the_audit_at_their_printed_digits(
    exact, shown
):
    events = exact.groups["positives"]
    many = (
        (events >= 11)
        & (exact.groups["people"] - events >= 11)
        & (exact.groups["people"] >= 50)
    )
    assert many.sum() > 10
    told, true = (
        each.groups.loc[many, "intercept"].to_numpy(dtype=float)
        for each in (shown, exact)
    )
    assert (
        round(true[0], 2) == told[0]
    )  # those of groups follow from the counts that are shown
    assert np.abs(told - true) == pytest.approx(0, abs=0.3)
    for name in ("auroc", "slope", "brier", "log_loss"):
        digits = MEASURE_NAMES[name].digits
        ends = [f"{name}_low", f"{name}_high"]
        told, true = (
            each.groups.loc[many, [name, *ends]].to_numpy() for each in (shown, exact)
        )
        assert [IN_TEXT.decimal(x[0], digits) for x in told] == [
            IN_TEXT.decimal(x[0], digits) for x in true
        ]
        told, true = (
            [IN_TEXT.interval(*x[1:], digits) for x in rows] for rows in (told, true)
        )
        assert told == true
    told, true = (each.groups.loc[many, "p_value"] for each in (shown, exact))
    assert [IN_TEXT.p_value(p) for p in told] == [IN_TEXT.p_value(p) for p in true]
    large = set(exact.groups["group"][many])
    curve = exact.curves[exact.curves["group"].isin(large)]
    inner = curve[(curve["score"] > 0) & (curve["score"] < 1)]
    assert shown.curves["outcome_rate"].to_numpy() == pytest.approx(
        inner["outcome_rate"].to_numpy(), abs=1e-4
    )
    assert large <= set(shown.net_benefit["group"])
    assert IN_TEXT.decimal(100 * shown.debiased.loc["mc", "rms"], 1) == IN_TEXT.decimal(
        100 * exact.debiased.loc["mc", "rms"], 1
    )


def test_numbers_have_no_more_digits_than_are_printed(shown):
    """What is embedded in a page for machines tells no more than the page does."""
    for name, digits in (
        ("auroc", 3),
        ("slope", 2),
        ("brier", 3),
        ("observed_expected", 2),
        ("p_value", 3),
    ):
        for value in shown.groups[name]:
            if known(value):
                assert float(value) == round(float(value), digits)
    assert all(
        IN_TEXT.percent(x) == IN_TEXT.percent(round(x, 5))
        for x in shown.groups["mean_score"]
        if known(x)
    )


def test_the_exact_ratio_is_within_the_printed_interval_and_near_the_printed_one(
    exact, shown
):
    for (_, told), (_, true) in zip(shown.groups.iterrows(), exact.groups.iterrows()):
        if known(told["observed_expected_low"]):
            low, high = told["observed_expected_low"], told["observed_expected_high"]
            assert low - 0.005 <= true["observed_expected"] <= high + 0.005
            at_most = 2.1 / true["positives"] + 2.1 / true["people"] + 0.01
            assert told["observed_expected"] == pytest.approx(
                true["observed_expected"], rel=at_most
            )


def test_numbers_agree_with_each_other(shown):
    for table in (shown.groups, shown.categories):
        rows = table[
            [known(x) and not isinstance(x, Limit) for x in table["outcome_rate"]]
        ]
        rate = rows["positives"].astype(float) / rows["people"].astype(float)
        assert rate.to_numpy() == pytest.approx(
            rows["outcome_rate"].to_numpy(dtype=float), abs=1e-9
        )
    gaps = shown.categories.dropna(subset=["low"])
    assert (gaps["low"] <= gaps["gap"].astype(float) + 1e-4).all()
    assert (gaps["high"] >= gaps["gap"].astype(float) - 1e-4).all()
    assert ((gaps["high"] < 0) == (gaps["finding"] == "too high")).all()
    assert ((gaps["low"] > 0) == (gaps["finding"] == "too low")).all()


def rare(events, expected_rate, n=165, seed=0):
    """Two groups; in one of them few people have the outcome."""
    rng = np.random.default_rng(seed)
    group = np.repeat(["A", "B"], [3000, n])
    score = rng.uniform(0.5, 1.5, 3000 + n) * np.where(
        group == "A", 0.12, expected_rate
    )
    y = (rng.random(len(score)) < score).astype(int)
    y[3000:] = np.arange(n) < events
    return audit(y, score, sensitive_features=group, n_draws=100, unit="patients")


def test_of_a_small_count_the_page_says_what_can_be_said():
    a = rare(3, 0.12)
    groups = protected_audit(a, 11).groups
    row = groups[groups["label"] == "B"].iloc[0]
    assert repr(row["positives"]) == "< 11"
    assert abs(row["people"] - 165) <= 2
    assert row["outcome_rate"] == pytest.approx(10.5 / row["people"])
    assert row["outcome_rate"].side == "below"
    assert repr(row["observed_expected"]) == "< 0.5"
    assert repr(row["p_value"]).startswith("< ")
    text = " ".join(protected_audit(a, 11).verdict.sentences)
    assert re.search(
        r"too high for B: fewer than 11 events among about 16\d patients, about 2\d predicted",
        text,
    )
    assert "&lt; 0.50" in a.to_html()


@pytest.mark.parametrize(
    ("events", "expected"), [(0, 0.062), (0, 0.055), (10, 0.012), (9, 0.011)]
)
def test_a_bound_that_would_not_support_the_finding_becomes_words(events, expected):
    a = rare(events, expected)
    high = a.groups.set_index("label").finding["B"] == "too high"
    assert high == (events == 0)
    shown = protected_audit(a, 11)
    row = shown.groups.set_index("label").loc["B"]
    assert float(row["outcome_rate"]) == row["mean_score"]
    assert (
        row["outcome_rate"].side
        == row["observed_expected"].side
        == ("below" if high else "above")
    )
    assert float(row["observed_expected"]) in ((0.5, 1.0) if high else (1.0, 2.0))
    if high:
        half = (
            "fewer than half of the predicted events"
            if expected > 0.06
            else "fewer events than predicted"
        )
        assert f"too high for B: {half} among about 16" in shown.verdict.text


@pytest.mark.parametrize(
    ("rate", "told"), [(0, "Fewer than 11 of about"), (1, "More than 1,987 of about")]
)
def test_the_page_of_a_single_class_warns_and_does_not_advise_a_correction(rate, told):
    score = np.random.default_rng(0).uniform(0.02, 0.2, 2_000)
    found = protected_audit(audit(np.full(2_000, rate), score, n_draws=100), 11)
    for texts in (found.notes, next_steps(found)):
        assert texts[0].startswith(told)
        assert (
            "Check that the right column, and the right value of it, is the event"
            in texts[0]
        )
    assert "propcal fit" not in " ".join(next_steps(found))


def test_losses_name_the_cell_of_the_audit_and_agree_with_its_shown_gap():
    hidden = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        score = rng.beta(1.3, 4, 2500)
        y = (rng.random(2500) < np.clip(score * 1.3, 0, 1)).astype(int)
        a = audit(
            y, score, sensitive_features=rng.choice(list("ABC"), 2500), n_draws=100
        )
        shown = protected_audit(a, 11)
        assert shown.losses["where"].tolist() == a.losses["where"].tolist()
        cells = a.categories[a.categories["eligible"]]
        place = cells["gap"].abs().idxmax()
        gap, value = shown.categories.loc[place, "gap"], shown.losses.loc["mc", "value"]
        if isinstance(gap, Limit) or not known(gap):
            hidden += 1
            assert np.isnan(value)
        else:
            assert value == pytest.approx(abs(gap), abs=5e-4)
        for name in ("floor_95", "p_value"):
            assert shown.losses[name].tolist() == [round(x, 3) for x in a.losses[name]]
    assert 0 < hidden < 6


def test_a_count_in_a_protected_sentence_is_about_right(exact, shown):
    text = " ".join([*shown.verdict.sentences, *shown.notes])
    assert re.findall(r"(\w+) [\d,]+ people", " ".join(exact.notes))
    assert set(re.findall(r"(\w+) [\d,]{3,} people", text)) <= {"about", "About"}
    assert f"about {shown.settings['people']:,} people" in shown.to_markdown()


@pytest.mark.parametrize("suppress", [11, 2000, 5000])
@pytest.mark.parametrize("within", [None, 0.5])
def test_sentences_support_the_conclusion_however_much_is_withheld(suppress, within):
    rng = np.random.default_rng(1)
    score = rng.beta(1.5, 6, 6000)
    y = (rng.random(6000) < score).astype(int)
    a = audit(
        y,
        score,
        sensitive_features=rng.choice(list("ABC"), 6000),
        n_draws=100,
        within=within,
    )
    told = protected_audit(a, suppress).verdict
    assert told.conclusion == a.verdict.conclusion
    assert (
        told.sentences[0].partition("(")[0] == a.verdict.sentences[0].partition("(")[0]
    )


@pytest.mark.parametrize("seed", range(4))
def test_nobody_newly_flagged_looks_like_a_few(seed):
    """A score that is only lowered flags nobody anew: the page must not tell nobody
    from a few.
    """
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 4, 4000)
    y = (rng.random(4000) < score).astype(int)
    groups = rng.choice(list("AB"), 4000)
    for more in (0, 4):
        lower = score * 0.8
        lower[np.flatnonzero(score < 0.3)[:more]] = 0.31
        scores = {"a": score, "b": lower}
        c = compare(
            scores, y, sensitive_features=groups, n_draws=100, thresholds=(0.3,)
        )
        assert c.flags["newly_flagged"].iloc[0] == more
        shown = protected(c, 11)
        assert {repr(x) for x in shown.flags["newly_flagged"]} == {"< 21"}
        flagged = {
            name: one.at_threshold(0.3).set_index("group")["flagged"]
            for name, one in shown.audits.items()
        }
        people = shown.audits["a"].groups.set_index("group")["people"]
        for row in shown.flags.itertuples():
            change = round((flagged["b"] - flagged["a"])[row.group] * people[row.group])
            newly = change + row.no_longer_flagged  # NaN: withheld
            values = min(newly + 6, 20) - max(newly - 6, 0) + 1
            assert not values < 5


def test_thresholds_follow_from_shown_counts_and_never_rise():
    rng = np.random.default_rng(2)
    score = rng.beta(1, 2, 20_000)
    y = (rng.random(20_000) < score).astype(int)
    a = audit(y, score, n_draws=100)
    told = protected_audit(a, 11)
    exact, shown = (each.at_threshold(0.8).iloc[0] for each in (a, told))
    for name in ("ppv", "flagged", "sensitivity", "specificity", "net_benefit"):
        assert shown[name] == pytest.approx(exact[name], abs=0.02)
    known_ = told.net_benefit.dropna(subset=["treated"])
    assert (np.diff(known_["treated"]) <= 1e-12).all()
    events = float(told.groups["positives"].iloc[0])
    right = known_["sensitivity"] * events
    assert right.to_numpy() == pytest.approx(right.round().to_numpy(), abs=1e-6)


def test_the_page_says_once_how_counts_are_protected(exact):
    page = re.sub(r"\s+", " ", exact.to_html())
    assert (
        page.count(
            "Every other count is changed by up to 2, so parts need not add up to the whole"
        )
        == 1
    )
    assert "are shown as “fewer than 11”" in page
    assert "differ a little" not in page
    assert "Counts are protected" in re.sub(r"\s+", " ", exact.to_markdown())


def test_with_protection_off_nothing_changes(exact):
    assert protected(exact, 0) is exact
    assert protected(exact, None) is exact
    assert exact.to_json() == exact.to_json(suppress=0) == exact.to_json(suppress=None)
    assert "Counts are protected" not in exact.to_html(suppress=0)


@pytest.mark.parametrize("write", ["to_html", "to_markdown"])
def test_a_page_needs_a_threshold(exact, write):
    with pytest.raises(
        InputError, match=r"suppress must be a whole number .*; got None"
    ):
        getattr(exact, write)(suppress=None)


def test_what_is_protected_already_stays_as_it_is(exact, shown):
    assert protected(shown, 11) is shown
    assert shown.to_html() == exact.to_html()


@pytest.mark.slow
def test_equal_data_give_equal_pages(visits, exact):
    again = audit(
        visits.admitted,
        visits.score,
        sensitive_features=visits[["race", "gender"]],
        n_draws=200,
    )
    assert again.to_html() == exact.to_html()
    order = np.random.default_rng(0).permutation(len(visits))
    mixed = visits.iloc[order]
    assert (
        audit(
            mixed.admitted,
            mixed.score,
            sensitive_features=mixed[["race", "gender"]],
            n_draws=200,
        ).to_markdown()
        == exact.to_markdown()
    )
    assert pickle.loads(pickle.dumps(exact)).to_html() == exact.to_html()


def test_differences_between_scores_are_those_of_the_exact_values(visits):
    frame = visits[["race", "gender"]].head(3000)
    scores = {"base": visits.score.head(3000), "true": visits.true_risk.head(3000)}
    c = compare(
        scores, visits.admitted.head(3000), sensitive_features=frame, n_draws=100
    )
    told = protected(c, 11)
    first, second = told.audits.values()
    for name in ("people", "positives"):  # numbers, limits, or nothing
        assert [repr(x) for x in first.groups[name]] == [
            repr(x) for x in second.groups[name]
        ]
    pairs = zip(c.differences.itertuples(), told.differences.itertuples())
    both = [(a, b) for a, b in pairs if known(a.difference) and known(b.difference)]
    assert len(both) > 20
    for a, b in both:
        assert np.sign(a.difference) == np.sign(b.difference)
        if a.measure in ("brier", "auroc", "log_loss"):
            assert b.difference == pytest.approx(a.difference, rel=0.01)
            own = told.audits["true"].groups.set_index("group").loc[a.group, a.measure]
            assert b.value == own == round(a.value, 3)
    assert "Before and after" in c.to_html()


@pytest.mark.parametrize(
    "kind", ["survey weights", "soft labels", "visits", "few people", "nobody"]
)
def test_odd_data_are_protected_too(kind):
    rng = np.random.default_rng(4)
    n = 12 if kind == "few people" else 1500
    score = rng.beta(1.5, 4, n)
    y = (rng.random(n) < score).astype(int)
    more = {}
    if kind == "survey weights":
        more["sample_weight"] = rng.exponential(1, n) + 0.1
    if kind == "visits":
        more["cluster"] = np.arange(n) // 3
    if kind == "soft labels":
        y = score**2
    if kind == "nobody":
        y = 0 * y
    a = audit(
        y, score, sensitive_features=rng.choice(list("AB"), n), n_draws=100, **more
    )
    told = protected_audit(a, 11)
    assert told.settings["people"] == pytest.approx(n, abs=2) or n < 21
    if kind in ("survey weights", "visits"):
        first, true = told.groups.iloc[0], a.groups.iloc[0]
        assert first["outcome_rate"] == pytest.approx(true["outcome_rate"], abs=0.003)
        wide = (
            g["observed_expected_high"] / g["observed_expected_low"]
            for g in (first, true)
        )
        assert next(wide) == pytest.approx(next(wide), rel=0.1)
    assert json.loads(a.to_json(suppress=11))["format"] == "propcal-audit"
    assert (
        "nan"
        not in re.sub(r"<script.*", "", a.to_html(), flags=re.DOTALL).lower().split()
    )


@pytest.mark.parametrize("wrong", [-1, 2.5, "few"])
def test_suppress_must_be_a_number_of_people(exact, wrong):
    with pytest.raises(ValueError, match="suppress"):
        exact.to_html(suppress=wrong)


def test_few_different_scores_are_counted_together_before_they_are_averaged():
    from propcal.auditing.headcount import ScoreValues

    score, people = np.arange(1, 6) / 10, np.array([4.0, 9, 40, 3, 50])
    key = np.arange(5, dtype=np.uint64)
    values = ScoreValues(score, people, people / 2, people, key)
    mean, variance = Rule(11).mean_of_few(values, 106.0)
    # 13 people at 0.1 and 0.2, 40 at 0.3, a stand-in of 5 for 3 people at 0.4, 50 at
    # 0.5
    assert mean == pytest.approx(
        (13 * 0.15 + 40 * 0.3 + 5 * 0.4 + 50 * 0.5) / 108, abs=0.008
    )
    assert 0 < variance < 0.0001


def test_a_mean_that_visits_of_few_people_could_change_by_more_than_a_twentieth_is_not_told():
    """Many visits of the few people with high scores: counted as 10 a score, the mean
    is a tenth too low.
    """
    from propcal.auditing.headcount import ScoreValues

    score, different = np.array([0.1, 0.2, 0.4, 0.5]), np.array([200.0, 100, 8, 8])
    key = np.arange(4, dtype=np.uint64)
    few, many = (np.array([200.0, 100, visits, visits]) for visits in (10, 40))
    told, untold = (ScoreValues(score, n, n / 5, different, key) for n in (few, many))
    mean, _ = Rule(11).mean_of_few(told, few.sum())
    assert mean == pytest.approx(np.average(score, weights=few), rel=0.02)
    assert np.isnan(Rule(11).mean_of_few(untold, many.sum())[0])
    # a few visits too many change the mean by less
    slightly = np.array([200.0, 100, 12, 12])
    mean, _ = Rule(11).mean_of_few(
        ScoreValues(score, slightly, slightly / 5, different, key), slightly.sum()
    )
    assert mean == pytest.approx(np.average(score, weights=slightly), rel=0.05)


def test_shown_curves_leave_out_scores_of_exactly_0_and_1(visits):
    a = audit(
        visits.admitted,
        visits.score.where(visits.age < 80, 1).where(visits.age > 25, 0),
        n_draws=100,
    )
    assert {0, 1} <= {*a.curves.score}
    assert {*protected_audit(a, 11).curves.score} == {*a.curves.score.round(4)} - {0, 1}


def test_a_rate_is_above_a_limit_if_few_do_not_have_the_outcome():
    ward, score = (np.repeat(both, [165, 2000]) for both in (["A", "B"], [0.8, 0.3]))
    y = np.r_[np.arange(165) < 163, np.arange(2000) < 600].astype(int)
    told = protected_audit(
        audit(y, score, sensitive_features={"ward": ward}, n_draws=100), 11
    )
    row = told.groups.set_index("group").loc["ward=A"]
    assert row.outcome_rate.side == "above"
    assert float(row.outcome_rate) == pytest.approx(1 - 10.5 / row.people)


def test_intervals_of_cells_allow_for_moved_counts():
    """At a rate of 90 %, a count that is moved by 2 matters more than at one half."""
    ward, y = np.repeat(np.arange(10), 130).astype(str), np.arange(1300) % 10 < 9
    a = audit(
        y.astype(int),
        np.full(1300, 0.85),
        sensitive_features={"ward": ward},
        n_draws=100,
    )
    cells = [
        each.categories.query("group != 'everybody'")
        for each in (a, protected_audit(a, 11))
    ]
    exact, shown = ((each.high - each.low).astype(float) for each in cells)
    assert 1.05 < np.mean(shown / exact) < 1.3


@pytest.mark.slow
def test_sixty_groups_are_protected_in_a_moment():
    """In seconds of the processor: less than the audit itself takes."""
    import time

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {f"a{i}": rng.integers(0, k, 30_000).astype(str) for i, k in enumerate((5, 9))}
    )
    score = rng.beta(1.5, 4, 30_000)
    a = propcal.audit(
        (rng.random(30_000) < score).astype(int),
        score,
        sensitive_features=frame,
        gamma=1e-4,
    )
    protected_audit(a, 11)
    begin = time.process_time()
    protected_audit(a, 11)
    assert time.process_time() - begin < 1
