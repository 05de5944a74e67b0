"""What a reader of a protected page still sees, and that it is true."""

import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import propcal
from propcal import audit, compare
from propcal.data.cohorts import make_ed_visits
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected import protected, protected_audit
from propcal.numbers import Limit


@pytest.fixture(scope="module")
def visits():
    found = make_ed_visits(20_000, seed=1)
    found["score"] = found.groupby(["acuity", found.age // 10], dropna=False).admitted.transform("mean")
    return found


@pytest.fixture(scope="module")
def exact(visits):
    return audit(visits.admitted, visits.score, sensitive_features=visits[["race", "gender"]], n_draws=200)


@pytest.fixture(scope="module")
def shown(exact):
    return protected_audit(exact, 11)


@pytest.mark.parametrize("fewest", [5, 11, 20])
def test_blocks_are_as_wide_as_the_first_one(fewest):
    count = np.arange(0.0, 200)
    told = Blocks(fewest).shown(count, count)
    sizes = pd.Series(count[fewest:]).groupby(told[fewest:]).size()
    assert set(sizes.iloc[:-1]) == {fewest - 1}
    assert np.max(np.abs(told - count)[fewest:]) <= fewest / 2
    assert Blocks(fewest).small(count, count).sum() == fewest
    assert Blocks(fewest).small(np.array([50.0]), np.array([3.0]))[0]  # many visits of three people


def test_findings_and_the_conclusion_are_those_of_the_exact_audit(exact, shown):
    """But for groups and cells so near to the smallest size that blocks do not tell whether they reach it."""
    assert shown.verdict.conclusion == exact.verdict.conclusion
    for kind, names, smallest in (
        ("groups", ["group", "finding", "rank", "kept"], 50),
        ("categories", ["finding", "eligible"], 30),
    ):
        told, true = getattr(shown, kind), getattr(exact, kind)
        clear = ((true["people"] - smallest).abs() > 20) | true["finding"].isin(["too high", "too low"])
        assert clear.sum() > 15
        pd.testing.assert_frame_equal(told.loc[clear, names], true.loc[clear, names])
    rejected = shown.verdict.tests.set_index("test")["rejected"]
    true = exact.verdict.tests.set_index("test")["rejected"]
    assert rejected.to_dict() == true[rejected.index].to_dict()
    assert set(true.index[true]) <= set(rejected.index)


def test_groups_with_eleven_of_both_keep_their_numbers_and_their_curve(exact, shown):
    events = exact.groups["positives"]
    enough = (events >= 11) & (exact.groups["people"] - events >= 11) & exact.groups["auroc"].notna()
    assert enough.sum() > 10
    columns = ["outcome_rate", "mean_score", "observed_expected", "auroc", "slope", "ici", "brier"]
    for name in columns:
        told = shown.groups.loc[enough, name]
        assert told.notna().all()
        assert not any(isinstance(value, Limit) for value in told)
    for kind in ("curves", "net_benefit"):
        assert set(exact.groups["group"][enough]) <= set(getattr(shown, kind)["group"])


@pytest.mark.parametrize("measure", ["observed_expected", "auroc", "slope", "intercept", "brier", "log_loss"])
def test_exact_values_lie_within_the_protected_intervals(exact, shown, measure):
    told = shown.groups[shown.groups["people"].astype(float) >= 300]
    true = exact.groups.loc[told.index, measure].to_numpy()
    assert len(told) > 10
    assert (told[f"{measure}_low"].to_numpy() <= true).all()
    assert (true <= told[f"{measure}_high"].to_numpy()).all()


def test_rates_of_large_groups_hardly_change(exact, shown):
    large = (exact.groups["people"] >= 500).to_numpy()
    for measure in ("outcome_rate", "mean_score"):
        error = shown.groups[measure][large].astype(float) - exact.groups[measure][large]
        assert error.abs().max() < 0.012


def test_numbers_agree_with_each_other(shown):
    for table in (shown.groups, shown.categories):
        plain = [isinstance(x, (int, float)) and not isinstance(x, Limit) for x in table["outcome_rate"]]
        rows = table[np.array(plain) & table["outcome_rate"].notna().to_numpy()]
        rate = rows["positives"].astype(float) / rows["people"].astype(float)
        assert rate.to_numpy() == pytest.approx(rows["outcome_rate"].to_numpy(dtype=float), abs=1e-9)
    rows = shown.groups[shown.groups["auroc"].notna()]
    ratio = rows["outcome_rate"].astype(float) / rows["mean_score"]
    assert ratio.to_numpy() == pytest.approx(rows["observed_expected"].to_numpy(dtype=float), rel=1e-6)
    gaps = shown.categories.dropna(subset=["low"])
    assert (gaps["low"] <= gaps["gap"].astype(float) + 0.001).all()
    assert (gaps["high"] >= gaps["gap"].astype(float) - 0.001).all()
    assert ((gaps["high"] < 0) == (gaps["finding"] == "too high")).all()
    assert ((gaps["low"] > 0) == (gaps["finding"] == "too low")).all()


def rare(n=165, seed=0):
    """Two groups; in one of them few people have the outcome."""
    rng = np.random.default_rng(seed)
    group = np.repeat(["A", "B"], [3000, n])
    score = rng.beta(2, 15, 3000 + n)
    y = (rng.random(len(score)) < score).astype(int)
    y[3000:] = 0
    y[3000:3006] = 1
    return audit(y, score, sensitive_features=group, n_draws=100), score[3000:].sum()


def test_where_a_number_must_go_a_limit_is_told():
    a, expected = rare()
    groups = protected_audit(a, 11).groups
    row = groups[groups["label"] == "B"].iloc[0]
    assert repr(row["positives"]) == "< 11"
    assert row["people"] == 165
    assert row["outcome_rate"] == pytest.approx(10.5 / 165)
    assert row["outcome_rate"].side == "below"
    ratio = row["observed_expected"]
    assert ratio.side == "below"
    assert 10 / expected < ratio < 10 / expected + 0.25
    assert ratio * 10 == pytest.approx(round(ratio * 10))
    page = a.to_html()
    assert f"&lt; {ratio:.2f}" in page
    assert "&lt; 6.4 %" in page


def test_a_sentence_tells_a_limit_in_words():
    rng = np.random.default_rng(3)
    score = np.full(2000, 0.05)
    group = np.repeat(["A", "B"], [1400, 600])
    y = (rng.random(2000) < 0.05).astype(int)
    y[1400:] = np.arange(600) < 4
    told = protected_audit(audit(y, score, sensitive_features=group), 11).verdict.text
    assert (
        "too high for B: observed below 1.8 %, predicted 5.0 % (fewer than 11 events, O/E below 0.40)" in told
    )


def test_losses_have_values_and_agree_with_the_cells_shown():
    larger = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        score = rng.beta(1.3, 4, 2500)
        y = (rng.random(2500) < np.clip(score * 1.3, 0, 1)).astype(int)
        a = audit(y, score, sensitive_features=rng.choice(list("ABC"), 2500), n_draws=100)
        shown = protected_audit(a, 11)
        for _, row in shown.losses.iterrows():
            assert np.isfinite(row["value"])
            assert "predicted risk" in row["where"]
            larger += "a cell with small counts could be larger" in row["where"]
        cells = shown.categories[shown.categories["eligible"]]
        gaps = [abs(float(gap)) for gap in cells["gap"] if gap == gap and not isinstance(gap, Limit)]
        assert shown.losses.loc["mc", "value"] == pytest.approx(max(gaps))
    assert larger


def test_a_loss_of_small_cells_alone_is_at_least_a_number():
    score = np.random.default_rng(1).uniform(0.02, 0.08, 300)
    a = audit((np.arange(300) < 9).astype(int), score, n_draws=100)
    losses = protected_audit(a, 11).losses
    value = losses.loc["mc", "value"]
    assert isinstance(value, Limit)
    assert value.side == "at least"
    assert value <= a.losses.loc["mc", "value"] + 1e-9
    assert losses.loc["mc", "where"] == "a cell with small counts"


def test_thresholds_agree_with_the_histogram():
    rng = np.random.default_rng(2)
    score = rng.beta(1, 2, 20_000)
    y = (rng.random(20_000) < score).astype(int)
    a = audit(y, score, n_draws=100)
    exact, shown = (each.at_threshold(0.9).iloc[0] for each in (a, protected_audit(a, 11)))
    assert shown.ppv == pytest.approx(exact.ppv, abs=0.04)
    assert shown.flagged == pytest.approx(exact.flagged, rel=0.2)
    benefit = protected_audit(a, 11).net_benefit["net_benefit"]
    assert np.diff(benefit).max() < 0.01  # no saw-tooth


def test_p_values_are_told_in_bands(exact, shown):
    for column in (shown.verdict.tests["adjusted_p"], shown.groups["p_value"].dropna()):
        told = {repr(value) for value in column}
        assert told <= {"< 0.001", "< 0.01", "< 0.05", "> 0.05"}
    tests = shown.verdict.tests.set_index("test")
    sure = tests["adjusted_p"].map(lambda p: p.side == "below")
    assert sure.tolist() == exact.verdict.tests.set_index("test")["rejected"][tests.index].tolist()


def test_the_page_says_how_counts_are_protected_and_how_many_numbers_are_blank(exact):
    page = re.sub(r"\s+", " ", exact.to_html())
    assert "From 0 to 10 people with the outcome, or without it, are shown as “fewer than 11”" in page
    assert "11 to 20 as 15, 21 to 30 as 25" in page
    assert "without --suppress shows the exact values" in page
    assert re.search(r"\d+ of [\d,]+ numbers in the tables are left blank for this reason", page)
    assert "Small counts are protected" in re.sub(r"\s+", " ", exact.to_markdown())


def test_with_protection_off_nothing_changes(exact):
    assert protected(exact, 0) is exact
    assert protected(exact, None) is exact
    assert exact.to_json() == exact.to_json(suppress=0) == exact.to_json(suppress=None)
    assert "are protected" not in exact.to_html(suppress=0)


@pytest.mark.slow
def test_equal_data_give_equal_pages(visits, exact):
    again = audit(visits.admitted, visits.score, sensitive_features=visits[["race", "gender"]], n_draws=200)
    assert again.to_html() == exact.to_html()
    order = np.random.default_rng(0).permutation(len(visits))
    mixed = visits.iloc[order]
    assert (
        audit(
            mixed.admitted, mixed.score, sensitive_features=mixed[["race", "gender"]], n_draws=200
        ).to_markdown()
        == exact.to_markdown()
    )
    assert pickle.loads(pickle.dumps(exact)).to_html() == exact.to_html()


def test_a_comparison_is_protected_by_the_same_rule(visits):
    frame = visits[["race", "gender"]].head(3000)
    scores = {"base": visits.score.head(3000), "true": visits.true_risk.head(3000)}
    c = compare(scores, visits.admitted.head(3000), sensitive_features=frame, n_draws=100)
    told = protected(c, 11)
    first, second = told.audits.values()
    assert first.groups["people"].tolist() == second.groups["people"].tolist()
    assert first.groups["positives"].tolist() == second.groups["positives"].tolist()
    by_group = {name: table.groups.set_index("group") for name, table in told.audits.items()}
    known = told.differences.dropna(subset=["difference"])
    assert len(known) > 20
    assert (
        known["difference"] - (known["value"].astype(float) - known["base"].astype(float))
    ).abs().max() < 1e-12
    for row in known[known["measure"] == "brier"].itertuples():
        assert row.base == by_group["base"].loc[row.group, "brier"]
        assert row.value == by_group["true"].loc[row.group, "brier"]
    assert "Before and after" in c.to_html()


@pytest.mark.parametrize("kind", ["survey weights", "soft labels", "visits", "few people", "nobody"])
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
    a = audit(y, score, sensitive_features=rng.choice(list("AB"), n), n_draws=100, **more)
    told = protected_audit(a, 11)
    assert told.settings["people"] == pytest.approx(n, abs=10) or n < 21
    if kind in ("survey weights", "visits"):
        first, true = told.groups.iloc[0], a.groups.iloc[0]
        assert first["outcome_rate"] == pytest.approx(true["outcome_rate"], abs=0.02)
        wide = (g["observed_expected_high"] / g["observed_expected_low"] for g in (first, true))
        assert next(wide) == pytest.approx(next(wide), rel=0.15)
    assert json.loads(a.to_json(suppress=11))["format"] == "propcal-audit"
    assert "nan" not in re.sub(r"<script.*", "", a.to_html(), flags=re.DOTALL).lower().split()


@pytest.mark.parametrize("wrong", [-1, 2.5, "few"])
def test_suppress_must_be_a_number_of_people(exact, wrong):
    with pytest.raises(ValueError, match="suppress"):
        exact.to_html(suppress=wrong)


@pytest.mark.slow
def test_sixty_groups_are_protected_in_a_moment():
    """In seconds of the processor: less than the audit itself takes."""
    import time

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"a{i}": rng.integers(0, k, 30_000).astype(str) for i, k in enumerate((5, 9))})
    score = rng.beta(1.5, 4, 30_000)
    a = propcal.audit((rng.random(30_000) < score).astype(int), score, sensitive_features=frame, gamma=1e-4)
    protected_audit(a, 11)
    begin = time.process_time()
    protected_audit(a, 11)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("n_small", [44, 49, 50, 52])
def test_notes_count_as_untested_what_the_table_shows_as_untested(n_small):
    rng = np.random.default_rng(n_small)
    score = rng.uniform(0.2, 0.6, 3000)
    y = (rng.random(3000) < score).astype(int)
    group = np.where(np.arange(3000) < n_small, "small", np.where(np.arange(3000) < 1500, "a", "b"))
    shown = protected_audit(audit(y, score, sensitive_features=pd.DataFrame({"g": group}), n_draws=100), 11)
    assert not shown.groups.set_index("label").kept["small"]  # whichever side of 50 it is on
    (note,) = [note for note in shown.notes if "not tested" in note]
    assert note == "1 subgroup was not tested: fewer than about 50 people."
