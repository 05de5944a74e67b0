"""Tables 4, 5 and 6 from trials: each number can be worked out by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from paper_trials import like_the_paper, make_store, trial, whole_store
from propcal.errors import InputError
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.intervals import median_interval
from propcal_paper.results.medians import (
    accuracy,
    base_on_both_sets,
    best_alphas,
    convergence,
    over_alpha,
    percent_change,
    updates_and_time,
)
from propcal_paper.results.printed_tables import PaperTable
from propcal_paper.results.significance import (
    mark,
    signed_rank,
    smallest_rank_sum,
    tests,
    too_few,
)
from propcal_paper.results.wins import wins
from propcal_paper.running.trial_store import Store
from propcal_paper.settings import BASE, GROUPINGS, MC, MC_FOR_PMC, OURS, PMC, Setting

tests.__test__ = False
TWO, THREE = GROUPINGS


def evidence_of(tmp_path, *trials):
    return Evidence.from_store(make_store(tmp_path / "a.sqlite", trials))


def read(tmp_path, *trials):
    return evidence_of(tmp_path, *trials).trials


def at(method, alpha=0.1, groups=TWO, gamma=0.05, rho=0.1):
    return Setting(method, groups, alpha, gamma, rho)


def test_percent_change_compares_with_the_base_model_of_the_same_seed_and_grouping(
    tmp_path,
):
    trials = read(
        tmp_path,
        trial(1, "LR", Setting(BASE, TWO), mc_loss=0.1, auroc=0.8),
        trial(1, "LR", Setting(BASE, THREE), mc_loss=0.2, auroc=0.8),
        trial(1, "LR", at(PMC), mc_loss=0.05, auroc=0.84),  # -50 %, +5 %
        trial(1, "LR", at(PMC, groups=THREE), mc_loss=0.18, auroc=0.8),  # -10 %
        trial(2, "LR", Setting(BASE, TWO), mc_loss=0.4),
        trial(2, "LR", at(PMC), mc_loss=0.5),  # +25 %
        trial(3, "LR", at(PMC), mc_loss=9.0),  # no base model: left out
    )
    table = percent_change(trials).set_index(["method", "model", "metric"])
    row = table.loc[(PMC, "LR", "mc_loss")]
    assert row["change"] == pytest.approx(-10)
    assert (row["n_seeds"], row["n_trials"], row["published"]) == (2, 3, 14.18)
    assert table.loc[(PMC, "LR", "auroc"), "change"] == 0
    assert row["low"] <= -10 <= row["high"]


def test_percent_change_of_our_method_has_no_published_number_and_zero_has_no_percent(
    tmp_path,
):
    trials = read(
        tmp_path,
        trial(1, "RF", Setting(BASE, TWO), mc_loss=0.0, pmc_loss=None),
        trial(1, "RF", Setting(OURS, TWO), mc_loss=0.1, dc_loss=0.5),
    )
    table = percent_change(trials).set_index("metric")
    assert table["published"].isna().all()
    assert np.isnan(table.at["mc_loss", "change"])
    assert np.isnan(table.at["pmc_loss", "change"])
    assert table.at["dc_loss", "change"] == -50


def test_updates_and_time_are_means_of_runs_that_aim_at_the_same_pmc(tmp_path):
    evidence = evidence_of(
        tmp_path,
        trial(
            1, "LR", at(MC_FOR_PMC, 0.01), n_updates=300, n_sweeps=30, fit_seconds=3.0
        ),
        trial(
            2, "LR", at(MC_FOR_PMC, 0.01), n_updates=500, n_sweeps=50, fit_seconds=1.0
        ),
        trial(1, "LR", at(PMC, 0.01), n_updates=90, fit_seconds=1.0),
        trial(2, "LR", at(PMC, 0.01), n_updates=110, fit_seconds=1.0),
        trial(3, "LR", at(PMC, 0.01), n_updates=9999),  # nothing to compare with
        trial(
            4, "LR", at(MC_FOR_PMC, 0.01), n_updates=10**5, converged=0
        ),  # stopped at its limit
        trial(4, "LR", at(PMC, 0.01), n_updates=8888),
        trial(
            1, "LR", at(MC, 0.01), n_updates=7777
        ),  # MCBoost at alpha aims at something else
    )
    (row,) = updates_and_time(evidence).to_dict("records")
    assert (row["model"], row["alpha"], row["n_seeds"]) == ("LR", 0.01, 2)
    assert (row["mc_updates"], row["pmc_updates"], row["updates_ratio"]) == (
        400,
        100,
        4,
    )
    assert (row["mc_seconds"], row["pmc_seconds"], row["seconds_ratio"]) == (2, 1, 2)
    assert (row["mc_sweeps"], row["pmc_sweeps"], row["stopped"]) == (40, 1, 1)
    assert (row["published_mc_sweeps"], row["published_pmc_seconds"]) == (
        631,
        202,
    )  # iterations
    assert row["published_sweeps_ratio"] == pytest.approx(631 / 153)
    drawn = convergence(evidence.trials).set_index("method")
    assert drawn.at[MC_FOR_PMC, "updates"] == 400
    assert drawn.at[PMC, "n_seeds"] == 2


def test_wins_are_counted_by_each_reading_and_ties_are_shared(tmp_path):
    base = [trial(s, "LR", Setting(BASE, TWO), mc_loss=0.3, auroc=0.8) for s in (1, 2)]
    trials = read(
        tmp_path,
        *base,
        trial(1, "LR", at(MC), mc_loss=0.2, auroc=0.8),
        trial(1, "LR", at(MC, 0.2), mc_loss=0.4, auroc=0.7),
        trial(1, "LR", at(PMC), mc_loss=0.1, auroc=0.7),
        trial(1, "LR", at(PMC, 0.2), mc_loss=0.5, auroc=0.7),
        trial(2, "LR", at(MC), mc_loss=0.2, auroc=0.9),
        trial(2, "LR", at(PMC), mc_loss=0.25, auroc=0.7),
        trial(3, "LR", at(PMC), mc_loss=0.0),  # nobody to compare with
    )
    table = wins(trials).set_index(["reading", "metric", "method"])
    by_seed = table.loc["seed"]
    assert [by_seed.at[("mc_loss", m), "wins"] for m in (BASE, MC, PMC)] == [0, 1, 1]
    assert [by_seed.at[("auroc", m), "wins"] for m in (BASE, MC, PMC)] == [
        0.5,
        1.5,
        0,
    ]  # seed 1: a tie
    assert by_seed.at[("mc_loss", PMC), "percent"] == 50
    assert by_seed.at[("mc_loss", PMC), "published"] == 70
    paired = table.loc["seed, model, setting"]
    # seed 1 at 0.1: PMCBoost; seed 1 at 0.2: the base model; seed 2: MCBoost
    assert [paired.at[("mc_loss", m), "wins"] for m in (BASE, MC, PMC)] == [1, 1, 1]
    assert paired.at[("mc_loss", PMC), "comparisons"] == 3


def test_wins_with_our_method_are_counted_apart_and_have_no_published_number(tmp_path):
    trials = read(
        tmp_path,
        trial(1, "LR", Setting(BASE, TWO), mc_loss=0.3),
        trial(1, "LR", at(MC), mc_loss=0.2),
        trial(1, "LR", at(PMC), mc_loss=0.1),
        trial(1, "LR", Setting(OURS, TWO), mc_loss=0.05),
    )
    four = wins(trials, (BASE, MC, PMC, OURS))
    assert four["published"].isna().all()
    ours = four[(four["method"] == OURS) & (four["metric"] == "mc_loss")]
    assert (ours["percent"] == 100).all()


def test_the_best_alpha_is_that_of_the_lowest_median_and_of_fewest_updates_if_equal(
    tmp_path,
):
    values = {0.001: (0.2, 900), 0.01: (0.1, 500), 0.1: (0.1, 50), 0.2: (0.3, 5)}
    evidence = evidence_of(
        tmp_path,
        *(
            trial(1, "RF", at(MC, a), pmc_loss=v, n_updates=n)
            for a, (v, n) in values.items()
        ),
    )
    (row,) = best_alphas(evidence).query("metric == 'pmc_loss'").to_dict("records")
    assert (row["alpha"], row["median"], row["n_updates"]) == (0.1, 0.1, 50)
    stopped = trial(2, "RF", at(MC, 0.1), pmc_loss=0.1, n_updates=10**5, converged=0)
    Store(tmp_path / "a.sqlite").add([stopped])
    both = best_alphas(Evidence.from_store(tmp_path / "a.sqlite"))
    (row,) = both.query("metric == 'pmc_loss'").to_dict("records")
    assert row["n_updates"] == 50  # that of the fit that ended
    drawn = over_alpha(evidence.trials, "pmc_loss").set_index("alpha")["pmc_loss"]
    assert drawn.to_dict() == {a: v for a, (v, _) in values.items()}


def test_accuracy_and_the_base_models_on_both_sets_are_medians(tmp_path):
    trials = read(
        tmp_path,
        trial(
            1,
            "LR",
            Setting(BASE, TWO),
            brier=0.1,
            true_risk_rms=0.2,
            train_mc_loss=0.01,
            mc_loss=0.1,
        ),
        trial(
            2,
            "LR",
            Setting(BASE, TWO),
            brier=0.3,
            true_risk_rms=0.4,
            train_mc_loss=0.03,
            mc_loss=0.3,
        ),
        trial(1, "LR", at(PMC), brier=0.05, train_mc_loss=9.0),
    )
    table = accuracy(trials).set_index("method")
    assert table.at[BASE, "brier"] == pytest.approx(0.2)
    assert table.at[BASE, "true_risk_rms"] == pytest.approx(0.3)
    assert np.isnan(table.at[PMC, "true_risk_rms"])
    assert table.at[PMC, "n_seeds"] == 1
    (row,) = base_on_both_sets(trials).to_dict("records")
    assert (row["train_mc_loss"], row["mc_loss"]) == (
        pytest.approx(0.02),
        pytest.approx(0.2),
    )


def test_the_interval_of_the_median_is_the_bootstrap_of_scipy():
    values = np.random.default_rng(5).gamma(2.0, size=60)
    median, low, high, _ = median_interval(values, n_draws=4000)
    theirs = stats.bootstrap(
        (values,),
        np.median,
        confidence_level=0.99,
        method="percentile",
        n_resamples=4000,
        random_state=7,
    ).confidence_interval
    assert median == np.median(values)
    assert (low, high) == (
        pytest.approx(theirs.low, abs=0.08),
        pytest.approx(theirs.high, abs=0.08),
    )


def test_settings_of_a_seed_are_drawn_together():
    """Settings that copy each other add no certainty."""
    values = np.random.default_rng(6).normal(size=20)
    alone, copied = (
        median_interval(values),
        median_interval(np.repeat(values[:, None], 32, axis=1)),
    )
    assert alone[1:3] == copied[1:3]


def test_a_single_seed_has_no_interval_and_none_has_nothing():
    median, low, high, n_seeds = median_interval([[1.0, 2.0, 9.0]])
    assert (median, n_seeds) == (2, 1)
    assert np.isnan([low, high]).all()
    assert median_interval(np.empty((0, 1)))[-1] == 0


def test_the_tests_are_those_of_scipy_with_bonferroni(tmp_path):
    rng = np.random.default_rng(8)
    rows = []
    for seed in range(12):
        for method, shift in ((BASE, 1.0), (MC, 0.5), (PMC, 0.0)):
            setting = Setting(BASE, TWO) if method == BASE else at(method)
            rows.append(trial(seed, "LR", setting, mc_loss=shift + rng.random()))
    trials = read(tmp_path, *rows)
    found = tests(trials)
    row = found[(found["metric"] == "mc_loss") & (found["method_a"] == MC)].iloc[0]
    values = {
        m: trials.loc[trials["method"] == m, "mc_loss"].to_numpy() for m in (MC, PMC)
    }
    p = stats.mannwhitneyu(values[MC], values[PMC], alternative="two-sided").pvalue
    assert row["rank_sum_p"] == p
    assert (row["comparisons"], row["rank_sum_corrected"]) == (3, min(1.0, 3 * p))
    assert row["signed_rank_p"] == stats.wilcoxon(values[MC], values[PMC]).pvalue
    assert row["mark"] == mark(row["rank_sum_corrected"])
    assert too_few(found) == ""


def test_marks_over_trials_count_every_setting_of_every_seed(tmp_path):
    """As in the paper's notebook, where the base model counts as often as there are
    settings.
    """
    rng = np.random.default_rng(9)
    rows = []
    for seed in range(4):
        rows.append(trial(seed, "LR", Setting(BASE, TWO), mc_loss=1 + rng.random()))
        rows += [
            trial(seed, "LR", at(PMC, alpha=alpha), mc_loss=rng.random())
            for alpha in (0.001, 0.1, 0.2)
        ]
    trials = read(tmp_path, *rows)
    (row,) = tests(trials).query("metric == 'mc_loss'").to_dict("records")
    base, pmc = (
        trials.loc[trials["method"] == method, "mc_loss"].to_numpy()
        for method in (BASE, PMC)
    )
    p = stats.mannwhitneyu(np.repeat(base, 3), pmc).pvalue
    assert row["trials_corrected"] == pytest.approx(p)
    assert (row["trials_mark"], row["mark"]) == ("****", "ns")


def test_marks_are_those_of_the_published_caption():
    assert [mark(p) for p in (1, 0.04, 0.01, 0.001, 1e-4, 0)] == [
        "ns",
        "ns",
        "**",
        "***",
        "****",
        "****",
    ]


def test_three_seeds_cannot_be_significant_and_that_is_said(tmp_path):
    evidence = Evidence.from_store(
        whole_store(tmp_path / "a.sqlite", like_the_paper, seeds=(1, 2, 3))
    )
    assert (
        smallest_rank_sum(3)
        == stats.mannwhitneyu([1, 2, 3], [4, 5, 6]).pvalue
        == pytest.approx(0.1)
    )
    sentence = too_few(tests(evidence.trials))
    assert "With 3 seeds" in sentence
    assert "no test can be significant" in sentence
    assert signed_rank([1.0, 2.0], [1.0, 2.0]) == 1


def test_the_time_of_a_run_counts_every_fit_once(tmp_path):
    same = [
        Setting(MC, TWO, 0.1, 0.05, rho) for rho in (0.01, 0.1)
    ]  # MCBoost does not use rho
    two = [Setting(PMC, TWO, 0.1, 0.05, 0.1, size) for size in (None, 0.005)]
    fits = [
        trial(1, "LR", setting, fit_seconds=1.0, evaluation_seconds=0.5)
        for setting in (*same, *two)
    ]
    base = trial(1, "LR", Setting(BASE, TWO), fit_seconds=10.0, evaluation_seconds=0.0)
    assert (
        evidence_of(tmp_path, base, *fits).processor_seconds() == 10 + 3 * 1.0 + 4 * 0.5
    )


def test_an_empty_store_and_a_missing_one_say_what_to_do(tmp_path):
    with pytest.raises(
        InputError,
        match=r"has no trials yet\. Add some with propcal paper admissions or",
    ):
        Evidence.from_store(make_store(tmp_path / "a.sqlite"))
    with pytest.raises(InputError, match="there are no trials at"):
        Evidence.from_store(tmp_path / "b.sqlite")


def test_what_is_missing_is_said(tmp_path):
    path = whole_store(
        tmp_path / "a.sqlite", like_the_paper, seeds=(1, 2, 3), models=("LR",)
    )
    evidence = Evidence.from_store(path)
    none_of = [f"There are no trials of {model} yet." for model in ("RF", "DNN")]
    assert evidence.missing() == evidence.without_ours().missing() == none_of
    make_store(path, [trial(9, "RF", at(PMC), dc_loss=None, converged=0)])
    evidence = Evidence.from_store(path)
    said = " ".join(evidence.missing())
    assert "There are no trials of DNN yet." in said
    assert "LR: 1 of 4 shuffles are still missing." in said
    assert "RF: 3 of 4 shuffles and some settings of 1 shuffle" in said
    assert "1 of 247 fits stopped at their limit." in said
    assert "DC loss could not be computed in 1 trials." in said
    assert evidence.caption() == (
        "Simulated visits, no patients. Shuffles of the data (seeds): LR 3, RF 1. No DNN yet."
    )


def test_names_in_tables_are_escaped():
    level = "A|`x`[y](http://z)<b>\x1b[2J\r\n# *h*"
    shown = PaperTable(
        "t", f"Title {level}", (level,), pd.DataFrame(), ("a|b", "c"), ((level, "1"),)
    )
    text = shown.markdown()
    assert all(line.isprintable() for line in text.split("\n"))
    assert "<b>" not in text
    assert "a\\|b" in text
