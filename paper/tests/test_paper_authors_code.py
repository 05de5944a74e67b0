"""The set-up authors-code: every difference from the printed algorithm, on cases
computed by hand.
"""

import math
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from propcal.metrics import CategoryRule
from propcal.reading.rows import checked_rows
from propcal_paper.running.authors_code import (
    fit_frozen,
    neighbours_dc,
    single_and_full,
)
from propcal_paper.running.base_models import Features, Trained
from propcal_paper.running.bench import Bench
from propcal_paper.running.cohort_files import visits_of
from propcal_paper.running.experiment import Experiment
from propcal_paper.running.splits import split
from propcal_paper.running.trial_store import Store
from propcal_paper.settings import ADMISSIONS, MC, PMC, CohortColumns, Setting
from propcal_paper.setups import SETUPS, Setup, setup_of

EVERYBODY = np.array([[True]])


def fitted(score, outcome, code=None, inside=EVERYBODY, **what):
    score, outcome = np.asarray(score, float), np.asarray(outcome)
    code = np.zeros(len(score), dtype=np.int64) if code is None else np.asarray(code)
    rule = {
        "alpha": 0.05,
        "rho": None,
        "min_share": 0.0,
        "eta": 1.0,
        "n_bins": 10,
        "max_visits": 100_000,
    }
    fit = fit_frozen(score, outcome, code, inside, **{**rule, **what})
    return fit, fit.apply(score, code, inside)


def test_people_whom_an_update_moves_stay_in_their_bin_until_the_sweep_ends():
    """Bin 1 (rate 1/4) moves to 0.25 and stays apart from bin 2 (rate 0), which moves
    to 0.

    With moving bins all eight would meet in bin 2 and be moved to their common rate,
    0.125."""
    fit, after = fitted([0.15] * 4 + [0.25] * 4, [1, 0, 0, 0] + [0] * 4)
    assert after.tolist() == pytest.approx([0.25] * 4 + [0.0] * 4)
    assert (fit.n_updates, fit.n_sweeps, fit.converged) == (2, 2, True)


def test_scores_are_clipped_at_the_end_of_a_sweep_only():
    """Everybody's gap of 0.06 takes a to 1.04, beyond 1; then a's own gap of -0.04
    takes it back to 1.
    """
    inside = np.array([[True, True], [True, False]])
    what = {"code": [0, 0, 1, 1], "inside": inside, "alpha": 0.03}
    fit, after = fitted([0.98, 0.98, 0.90, 0.90], [1, 1, 1, 1], **what)
    assert fit.n_updates == 2  # had a been clipped at once, its gap would have been 0
    assert after.tolist() == pytest.approx([1.0, 1.0, 0.96, 0.96])


def test_people_of_a_new_pattern_have_the_updates_of_their_groups():
    """Groups everybody and a: a third pattern, in neither fitted cell of its own, is in
    everybody only.
    """
    fit, _ = fitted(
        [0.15] * 4 + [0.15] * 4,
        [1, 1, 1, 0] + [0] * 4,
        code=[0] * 4 + [1] * 4,
        inside=np.array([[True, True], [True, False]]),
        alpha=0.3,
    )
    assert fit.shifts[0][:, 1].tolist() == pytest.approx(
        [0.0, 0.6]
    )  # gaps 0.225 and 0.6
    new = fit.apply(
        np.array([0.15, 0.15]),
        np.array([0, 1]),
        np.array([[True, True], [False, True]]),
    )
    assert new.tolist() == pytest.approx([0.15, 0.75])


def test_the_limit_counts_visits_to_categories():
    score, outcome = [0.15] * 4 + [0.25] * 4, [1, 0, 0, 0] + [0] * 4
    fit, after = fitted(
        score, outcome, max_visits=2
    )  # bins 0 and 1; bin 2 is never visited
    assert (fit.n_updates, fit.converged) == (1, False)
    assert after.tolist() == pytest.approx([0.25] * 8)


def test_a_fit_that_stops_within_a_sweep_has_not_converged():
    """The second sweep visits bins 0 and 1, where nothing is wrong, but not bin 7,
    where the gap is 0.7.
    """
    score, outcome = [0.15] * 20 + [0.95] * 4, [1] * 3 + [0] * 21
    fit, after = fitted(score, outcome, eta=0.25, max_visits=12)
    assert (fit.n_updates, fit.n_sweeps, fit.converged) == (1, 2, False)
    assert after[-1] == pytest.approx(0.75 * 0.95)
    assert fitted([0.15] * 20, [1] * 3 + [0] * 17, max_visits=10)[
        0
    ].converged  # the limit, after a whole sweep


def test_steps_of_a_quarter_and_the_cutoff_of_pmcboost():
    """A rate of 0.5 at a score of 0.42 has a gap of 0.08: within MC's cutoff of 0.1,
    beyond PMC's of 0.05.
    """
    score, outcome = [0.42] * 4, [1, 1, 0, 0]
    assert fitted(score, outcome, alpha=0.1)[0].n_updates == 0
    fit, after = fitted(score, outcome, alpha=0.1, rho=0.1, eta=0.25)
    assert after.tolist() == pytest.approx(
        [0.5 - 0.08 * 0.75**2] * 4
    )  # then the gap is 0.045
    assert fit.n_updates == 2


def test_categories_that_are_too_small_are_left_alone():
    assert (
        fitted([0.15] + [0.55] * 9, [1] + [1] * 5 + [0] * 4, min_share=0.2)[0].n_updates
        == 0
    )
    assert (
        fitted([0.15] + [0.55] * 9, [1] + [1] * 5 + [0] * 4, min_share=0.1)[0].n_updates
        == 1
    )


def test_dc_compares_each_full_intersection_with_the_next():
    """Rates 0.1, 0.2 and 0.4 in one bin: all pairs give ln 4, neighbours ln 2."""
    outcome = np.concatenate(
        [np.arange(100) < 100 * rate for rate in (0.1, 0.2, 0.4)]
    ).astype(int)
    rows = checked_rows(
        np.full(300, 0.25),
        outcome,
        pd.DataFrame({"site": np.repeat(["a", "b", "c"], 100)}),
    )
    table = CategoryRule(alpha=0.1, gamma=0.05).table(rows.atoms())
    assert neighbours_dc(table, 0.01, depth=1) == pytest.approx(math.log(2))
    assert neighbours_dc(table, 0.3, depth=1) == pytest.approx(math.log(0.4 / 0.3))
    assert math.isnan(
        neighbours_dc(table, 0.1, depth=2)
    )  # there is no intersection of two


@pytest.mark.parametrize(("setup", "ratio"), [("held-out", 8), ("authors-code", 4)])
def test_a_trial_of_the_public_code_has_the_losses_of_the_public_code(setup, ratio):
    """Rates 0.1, 0.4, 0.2 and 0.8 of four groups in one bin: all pairs give ln 8,
    neighbours ln 4.
    """
    sexes, rates = (
        pd.DataFrame(list(product("ab", "fm")), columns=["site", "sex"]),
        (0.1, 0.4, 0.2, 0.8),
    )
    people = sexes.loc[np.repeat(range(4), 100)].reset_index(drop=True)
    people["admitted"] = np.concatenate(
        [np.arange(100) < 100 * rate for rate in rates]
    ).astype(int)
    columns = CohortColumns("admitted", (("site", "sex"),))
    scores, model = [np.full(400, 0.25)] * 2, Trained(lambda rows: scores[0], 0.0, True)
    bench = Bench(
        model, columns, setup_of(setup), [people, people], scores, ("site", "sex")
    )
    trial, _ = bench.trial(Setting("base model", ("site", "sex")))
    assert trial["dc_loss"] == pytest.approx(math.log(ratio))
    assert trial["mc_loss"] == pytest.approx(0.8 - 0.25)
    assert trial["pmc_loss"] == pytest.approx((0.25 - 0.1) / 0.1)


def test_groups_are_single_attributes_and_the_intersection_of_all(tmp_path):
    """Two sites, two sexes, two payers: six groups of one attribute and eight of three,
    none of two.
    """
    people = pd.DataFrame(
        list(product("ab", "fm", "xy")) * 50, columns=["site", "sex", "payer"]
    )
    rows = checked_rows(np.full(400, 0.5), np.arange(400) % 2, people)
    chosen = single_and_full(["site", "sex", "payer"])
    groups = (
        CategoryRule(alpha=0.1, gamma=0.05, intersections=chosen)
        .table(rows.atoms())
        .collection.groups
    )
    assert Counter(len(group.conditions) for group in groups) == {1: 6, 3: 8}


@pytest.mark.parametrize("bins", ["moving", "frozen"])
def test_a_fit_has_the_groups_of_its_set_up_whatever_its_bins_are(bins):
    """Rates of 0.7 and 0.3 that cancel in every single attribute; intersections of
    three are below gamma.
    """
    people = pd.DataFrame(
        list(product("ab", "fm", "xy")) * 10, columns=["site", "sex", "payer"]
    )
    people = people.sort_values(["site", "sex"], ignore_index=True)
    rate = np.where((people["site"] == "a") == (people["sex"] == "f"), 0.7, 0.3)
    people["admitted"] = (np.arange(80) % 20 < 20 * rate).astype(int)
    groups, scores = ("site", "sex", "payer"), [np.full(80, 0.5)] * 2
    columns, model = (
        CohortColumns("admitted", (groups,)),
        Trained(lambda rows: scores[0], 0.0, True),
    )
    for intersections in ("all", "single and full"):
        setup = Setup("mine", bins=bins, intersections=intersections)
        bench = Bench(model, columns, setup, [people, people], scores, groups)
        trial, _ = bench.trial(Setting(PMC, groups, 0.1, 0.2, 0.1))
        assert (trial["n_updates"] > 0) == (intersections == "all")


def test_the_age_is_that_of_the_anchor_year_if_the_file_has_it(tmp_path):
    visits_of(None, 200).frame.assign(anchor_age=1.0).to_parquet(
        tmp_path / "visits.parquet"
    )
    for setup, name in (("printed", "age"), ("authors-code", "anchor_age")):
        cohort = visits_of(tmp_path / "visits.parquet", None, age=setup_of(setup).age)
        assert {"age", "anchor_age"} & {*cohort.columns.numbers} == {name}
        assert not cohort.notes
    visits_of(None, 200).frame.to_parquet(tmp_path / "without.parquet")
    (note,) = visits_of(tmp_path / "without.parquet", None, age="anchor_age").notes
    assert (
        "has no column anchor_age, which this set-up uses: age is used in its place"
        in note
    )
    assert "age" in visits_of(None, 200, age="anchor_age").columns.numbers


def test_codes_are_one_feature_for_each_column_and_words_are_counted():
    rows = pd.DataFrame({name: np.zeros(300) for name in ADMISSIONS.numbers})
    rows = rows.assign(
        **{name: ["b", "a", None] * 100 for name in ADMISSIONS.categories}
    )
    rows = rows.assign(
        chief_complaint=["chest pain"] * 150 + ["fall"] * 50 + ["cough"] * 100
    )
    features = Features(ADMISSIONS, setup_of("authors-code")).fit(rows)
    matrix = features.transform(rows)
    n, n_coded = len(ADMISSIONS.numbers), len(ADMISSIONS.categories)
    assert features.n_numbers == n + n_coded
    assert matrix[:3, n].tolist() == [1, 0, 2]  # sorted levels, the missing one last
    assert (
        matrix.shape[1] == n + n_coded + 3
    )  # cough, chest and pain; fall is in fewer than 100 rows
    assert (
        Features(ADMISSIONS).fit(rows).transform(rows).shape[1] == n + 3 * n_coded + 4
    )


def test_a_stratified_split_has_the_same_share_of_outcomes_everywhere():
    outcome = (np.arange(4000) % 10 == 0).astype(int)
    parts = split(4000, 3, kept_apart=0.5, outcome=outcome)
    assert [len(part) for part in parts] == [1500, 1500, 1000]
    assert [outcome[part].mean() for part in parts] == pytest.approx([0.1] * 3)
    assert len(np.unique(np.concatenate(parts))) == 4000


def test_lr_has_the_solver_of_the_set_up(tmp_path, monkeypatch):
    used, fit = [], LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression,
        "fit",
        lambda self, *data: used.append(self.solver) or fit(self, *data),
    )
    for setup in ("held-out", "authors-code"):
        what = {
            "rows": 1000,
            "models": ["LR"],
            "settings": [Setting("base model", ("race",))],
            "setup": setup,
        }
        Experiment(tmp_path / f"{setup}.sqlite", trials=1, **what).run(jobs=1)
    assert used == ["liblinear", "saga"]


def test_the_set_ups_are_data_and_the_former_name_still_works():
    assert [*SETUPS] == ["printed", "held-out", "authors-code"]
    assert (
        setup_of("public")
        == setup_of("held-out")
        == setup_of({"name": "public", **SETUPS["held-out"]})
    )
    assert setup_of("printed") == Setup("printed")
    changed = {
        name for name in SETUPS["authors-code"] if name not in SETUPS["held-out"]
    }
    assert changed == {
        *(
            "bins",
            "intersections",
            "dc_pairs",
            "encoding",
            "min_words",
            "solver",
            "stratified",
            "age",
        )
    }


def test_trials_with_frozen_bins_are_stored_with_their_sweeps(tmp_path):
    groups = ("race", "gender")
    settings = [
        Setting("base model", groups),
        *(Setting(m, groups, 0.05, 0.05, 0.1) for m in (MC, PMC)),
    ]
    what = {
        "rows": 3000,
        "models": ["RF"],
        "settings": settings,
        "setup": "authors-code",
    }
    store = Experiment(tmp_path / "x.sqlite", trials=1, **what).run(jobs=1)
    trials = store.trials().set_index("method")
    assert (trials.loc[[MC, PMC], "n_sweeps"] > 1).all()
    assert trials.loc[PMC, "n_updates"] >= trials.loc[MC, "n_updates"] > 0
    converged = trials[trials["converged"] == 1]
    assert converged.loc[PMC, "train_pmc_loss"] <= 0.05 + 1e-6
    assert Store(store.path).about["setup"]["bins"] == "frozen"
