"""Published claims are decided by their rules: the evaluation is tested, not that the claims come true."""

from dataclasses import replace

import pytest

from paper_trials import like_the_paper, make_store, trial, unlike_the_paper, whole_store
from propcal.paper.admissions.settings import BASE, MC, PMC, Setting
from propcal.paper.claims import AGREES, CLAIMS, DIFFERS, NOT_YET, judge, judge_all
from propcal.paper.claims.claim import Case, about, most
from propcal.paper.claims.claims_table import claims_table
from propcal.paper.results.evidence import LOSSES, Evidence

# Claims that the paper's own tables contradict: trials like the tables cannot agree with them.
CONTRADICTED = {"better by all three losses", "time scales like updates"}
# Table 4 has RF's and DNN's AUROC lower with MCBoost, so that it can be best by one winner a seed only.
CONTRADICTED |= {"best AUROC: MCBoost"}


def judged(path):
    return {found.claim.name: found for found in judge_all(Evidence.from_store(path))}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A store whose trials follow the published claims."""
    return whole_store(tmp_path_factory.mktemp("alike") / "a.sqlite", like_the_paper)


@pytest.fixture(scope="module")
def alike(published):
    return judged(published)


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    path = tmp_path_factory.mktemp("unlike") / "a.sqlite"
    return judged(whole_store(path, unlike_the_paper, better=False))


def test_every_claim_has_a_name_of_its_own():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS])
def test_trials_like_the_published_agree_and_opposite_ones_differ(alike, unlike, name):
    assert alike[name].verdict == (DIFFERS if name in CONTRADICTED else AGREES), alike[name].numbers
    assert unlike[name].verdict == DIFFERS, unlike[name].numbers
    assert alike[name].n_seeds == 3


def test_contradicted_claims_can_agree_too(tmp_path):
    """Nothing in the rules decides them in advance."""

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        if model == "LR" and setting.alpha is not None:
            found["mc_loss"] *= 0.5
        if setting.method == MC:
            found["auroc"] *= 1.01
        return found | {"fit_seconds": 0.01 * found.get("n_updates", 0)}

    found = judged(whole_store(tmp_path / "a.sqlite", values))
    assert {found[name].verdict for name in CONTRADICTED} == {AGREES}


def test_a_claim_about_wins_agrees_by_all_three_readings_or_says_by_which(alike, unlike):
    numbers = alike["best AUROC: MCBoost"].numbers
    assert numbers.startswith(
        "agrees by the first interpretation only; by seed: base model 0 %, MCBoost 100 %"
    )
    assert "by seed and model: base model 67 %, MCBoost 33 %" in numbers
    assert alike["best DC loss: PMCBoost"].numbers.startswith("by all 3 interpretations; by seed: base")
    assert unlike["best DC loss: PMCBoost"].numbers.startswith("by none of 3 interpretations")
    never = alike["the base model is never best"].numbers
    assert never.count("PMC loss 0.0 %, DC loss 0.0 %") == 3
    assert "by seed, model, setting: " in never


def test_without_dnn_what_needs_it_cannot_be_said_yet(tmp_path):
    found = judged(whole_store(tmp_path / "a.sqlite", like_the_paper, models=("LR", "RF")))
    for name, one in found.items():
        needed = "DNN" in one.claim.models
        assert (one.verdict == NOT_YET) == needed, name
    assert found["MC loss of DNN"].numbers == "no trials of base model with DNN; 3 seeds are needed"


def test_two_seeds_are_too_few_for_any_verdict_but_the_guarantees(tmp_path):
    found = judged(whole_store(tmp_path / "a.sqlite", like_the_paper, seeds=(1, 2)))
    said = {name for name, one in found.items() if one.verdict != NOT_YET}
    assert said == {claim.name for claim in CLAIMS if not claim.models}
    assert found["MC loss of LR is not improved"].numbers.startswith("2 seeds of base model with LR")


def test_numbers_behind_a_verdict_are_those_of_the_trials(alike):
    assert alike["MC loss of RF"].numbers == "PMCBoost -17.00 %, MCBoost -6.50 %"
    assert alike["five times the updates"].numbers.startswith("5.5x on average; LR at 0.001 7.96x")
    assert alike["4.0x fewer updates to the lowest PMC loss"].numbers.startswith("4.0x: MCBoost 200, ")
    assert "PMCBoost 100 %" in alike["best PMC loss: PMCBoost"].numbers
    assert "at most 0.900 alpha" in alike["PMCBoost reaches alpha-PMC"].numbers


def test_curves_are_of_the_groups_where_the_base_model_is_furthest_off(alike):
    numbers = alike["calibration curves of three groups"].numbers
    assert numbers.startswith("off by race=Asian & gender=F & insurance=Medicaid: 160.0 % to 40.0 %;")
    assert "gamma=0.05; rho=0.1)" in numbers
    assert "alpha=0.1;" in numbers


def test_a_verdict_that_hangs_on_the_size_of_a_category_says_so(tmp_path):
    """By the paper's sizes each loss is on the other side of the base model's."""

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        base = like_the_paper(seed, model, Setting(BASE, setting.groups))
        return found | {f"paper_{loss}": base[loss] ** 3 / found[loss] ** 2 for loss in LOSSES}

    found = judged(whole_store(tmp_path / "a.sqlite", values))
    for one in found.values():
        # a claim that does not depend on losses is not judged twice, and one that does gets other numbers
        assert (one.by_paper is not None) == one.claim.by_losses
        assert one.by_paper is None or one.by_paper.numbers != one.numbers, one.claim.name
    one = found["PMCBoost improves PMC and DC loss"]
    assert (one.verdict, one.by_paper.verdict) == (AGREES, DIFFERS)
    assert one.second_opinion().startswith("by the paper's size rule: differs (PMC: LR +")
    table = claims_table([*found.values()])
    n = sum(one.depends_on_sizes for one in found.values())
    assert f"which changes {n} verdicts." in table.notes[1]
    assert sum("by the paper's size rule" in row[2] for row in table.rows) == n > 5


def test_claims_that_do_not_depend_on_losses_have_the_same_numbers_by_any(published):
    evidence = Evidence.from_store(published)
    zero = evidence.trials.assign(mc_loss=0.1, pmc_loss=0.2, dc_loss=0.3)
    cases = Case(evidence), Case(replace(evidence, trials=zero))
    for claim in CLAIMS:
        if not claim.by_losses:
            assert judge(claim, cases[0]) == judge(claim, cases[1]), claim.name


def test_guarantees_are_judged_by_converged_trials_and_the_others_are_counted(tmp_path):
    settings = [Setting(PMC, ("race", "gender"), alpha, 0.05, 0.1) for alpha in (0.001, 0.1)]
    rows = [trial(1, "LR", s, train_pmc_loss=0.05, converged=int(s.alpha == 0.1)) for s in settings]
    found = judged(make_store(tmp_path / "a.sqlite", rows))["PMCBoost reaches alpha-PMC"]
    assert (found.verdict, found.n_seeds) == (AGREES, 1)
    assert found.numbers == (
        "1 of 1 converged trials; at most 0.500 alpha; 1 trial stopped at the update limit and cannot be "
        "judged"
    )


def test_about_means_from_half_to_twice():
    assert [about(v, 4) for v in (1.9, 2, 8, 8.1, -4)] == [False, True, True, False, False]
    assert [most(v) for v in ([True, False], [True, True, False])] == [False, True]


def test_losses_that_could_not_be_computed_decide_nothing(tmp_path):
    def values(seed, model, setting):
        return like_the_paper(seed, model, setting) | {"dc_loss": None}

    found = judged(whole_store(tmp_path / "a.sqlite", values))
    assert found["better by all three losses"].verdict == NOT_YET
    assert found["best DC loss: PMCBoost"].verdict == NOT_YET
    assert found["AUROC cost of PMCBoost"].verdict == AGREES
