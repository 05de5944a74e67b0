"""Published claims are decided by their rules: the evaluation is tested, not that the
claims come true.
"""

from dataclasses import replace

import pytest

from paper_trials import (
    MIMIC,
    like_the_paper,
    make_store,
    trial,
    unlike_the_paper,
    whole_store,
)
from propcal_paper.results.claim_case import NOT_SETTLED, NOT_YET, Case
from propcal_paper.results.claims import (
    AGREES,
    CLAIMS,
    CONTRADICTED,
    DIFFERS,
    UNDECIDED,
    VACUOUS,
    Judgement,
    claims_table,
    judge_all,
)
from propcal_paper.results.evidence import LOSSES, Evidence
from propcal_paper.results.medians import over_alpha, percent_change
from propcal_paper.results.predicates import about, all_hold
from propcal_paper.settings import ALPHAS, BASE, MC, MC_FOR_PMC, PMC, Setting
from propcal_paper.setups import setup_of

# Claims that the paper's own tables contradict: trials like the tables cannot agree
# with them.
AGAINST_ITSELF = {"better by all three losses", "time scales like updates"}
# Table 4 has RF's and DNN's AUROC lower with MCBoost, so that it can be best by one
# winner a seed only.
BY_ONE_READING = "best AUROC: MCBoost"


def judged(path, *names, n_draws=10):
    """The verdicts of a store by the names of the claims; of all claims, or of some."""
    claims = [claim for claim in CLAIMS if claim.name in names] if names else CLAIMS
    return {
        found.claim.name: found
        for found in judge_all(Evidence.from_store(path), n_draws, claims)
    }


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A store whose trials follow the published claims, on visits of MIMIC."""
    return whole_store(
        tmp_path_factory.mktemp("alike") / "a.sqlite", like_the_paper, about=MIMIC
    )


@pytest.fixture(scope="module")
def alike(published):
    return judged(published)


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    path = tmp_path_factory.mktemp("unlike") / "a.sqlite"
    return judged(whole_store(path, unlike_the_paper, better=False, about=MIMIC))


def test_every_claim_has_a_name_of_its_own():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS])
def test_trials_like_the_published_agree_and_opposite_ones_differ(alike, unlike, name):
    if name in AGAINST_ITSELF:
        assert {alike[name].verdict, unlike[name].verdict} == {CONTRADICTED}
        assert {alike[name].here, unlike[name].here} == {DIFFERS}
    else:
        assert alike[name].verdict == (DIFFERS if name == BY_ONE_READING else AGREES), (
            alike[name].numbers
        )
        assert unlike[name].verdict == DIFFERS, unlike[name].numbers
    assert alike[name].n_seeds == 20
    assert alike[name].claim.why


def test_the_table_says_what_trials_say_where_the_paper_contradicts_itself(alike):
    frame = claims_table([*alike.values()]).frame.set_index("claim")
    assert (frame.loc[[*AGAINST_ITSELF], "here_fixed"] == DIFFERS).all()
    assert (frame.drop([*AGAINST_ITSELF])["here_fixed"] == "").all()


def test_contradicted_claims_can_agree_too(tmp_path):
    """Nothing in the rules decides them in advance."""

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        if model == "LR" and setting.alpha is not None:
            found["mc_loss"] *= 0.5
        if setting.method == MC:
            found["auroc"] *= 1.01
        return found | {"fit_seconds": 0.01 * found.get("n_sweeps", 0)}

    found = judged(
        whole_store(tmp_path / "a.sqlite", values), *AGAINST_ITSELF, BY_ONE_READING
    )
    assert {found[name].here for name in AGAINST_ITSELF} == {AGREES}
    assert found[BY_ONE_READING].verdict == AGREES


def test_a_claim_about_wins_agrees_by_all_three_readings_or_says_by_which(
    alike, unlike
):
    numbers = alike["best AUROC: MCBoost"].numbers
    assert numbers.startswith(
        "holds by 1 of 3 interpretations; by seed: base model 0 %, MCBoost 100 %"
    )
    assert "by seed and model: base model 67 %, MCBoost 33 %" in numbers
    assert alike["best DC loss: PMCBoost"].numbers.startswith(
        "holds by 3 of 3 interpretations; by seed: base"
    )
    assert unlike["best DC loss: PMCBoost"].numbers.startswith(
        "holds by 0 of 3 interpretations"
    )
    never = alike["the base model is never best"].numbers
    assert never.count("PMC loss 0.0 %, DC loss 0.0 %") == 3
    assert "by seed, model, setting: " in never


def test_without_dnn_what_needs_it_cannot_be_said_yet(tmp_path):
    found = judged(
        whole_store(tmp_path / "a.sqlite", like_the_paper, models=("LR", "RF"))
    )
    for name, one in found.items():
        needed = "DNN" in one.claim.models
        assert (one.verdict == NOT_YET) == needed, name
    assert (
        found["MC loss of DNN"].numbers
        == "no trials of base model with DNN; 20 seeds are needed"
    )


def test_nineteen_seeds_are_too_few_for_any_verdict_but_the_guarantees(tmp_path):
    found = judged(whole_store(tmp_path / "a.sqlite", like_the_paper, seeds=range(19)))
    said = {name for name, one in found.items() if one.verdict != NOT_YET}
    assert said == {claim.name for claim in CLAIMS if not claim.models}
    assert found["MC loss of LR is not improved"].numbers.startswith(
        "19 seeds of base model with LR"
    )


def test_numbers_behind_a_verdict_are_those_of_the_trials(alike):
    assert alike["MC loss of RF"].numbers == "PMCBoost -17.00 %, MCBoost -6.50 %"
    assert alike["five times the updates"].numbers.startswith(
        "5.5x, 5.5x on average (sweeps, updates); LR at 0.001 7.96x, 7.96x"
    )
    assert alike["4.0x fewer updates to the lowest PMC loss"].numbers.startswith(
        "MCBoost / PMCBoost: updates for PMC loss 4.00x (200 and 50)"
    )
    assert "PMCBoost 100 %" in alike["best PMC loss: PMCBoost"].numbers
    assert "at most 0.900 alpha" in alike["PMCBoost reaches alpha-PMC"].numbers


def test_curves_are_of_the_groups_where_the_base_model_is_furthest_off(alike):
    numbers = alike["calibration curves of three groups"].numbers
    assert numbers.startswith("off by Asian, F, Medicaid: 160.0 % to 40.0 %;")
    assert "gamma=0.05; rho=0.1)" in numbers
    assert "alpha=0.1;" in numbers


def test_a_verdict_that_hangs_on_the_rule_of_the_losses_says_so(tmp_path):
    """By the paper's sizes each loss is on the other side of the base model's."""

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        base = like_the_paper(seed, model, Setting(BASE, setting.groups))
        return found | {
            f"sizes_{loss}": base[loss] ** 3 / found[loss] ** 2 for loss in LOSSES
        }

    found = judged(whole_store(tmp_path / "a.sqlite", values))
    for one in found.values():
        # a claim that does not depend on losses is judged once, and one that does by
        # three rules
        assert list(one.by_rule) == (
            ["fixed", "sizes", "own"] if one.claim.by_losses else []
        )
        assert not one.by_rule or one.by_rule["sizes"].numbers != one.numbers, (
            one.claim.name
        )
    one = found["PMCBoost improves PMC and DC loss"]
    assert [one.by_rule[rule].verdict for rule in ("fixed", "sizes")] == [
        AGREES,
        DIFFERS,
    ]
    table = claims_table([*found.values()])
    (row,) = (row for row in table.rows if row[1] == one.claim.says)
    assert "by alpha * lambda * N: differs, 0 % of resamples agree" in row[2]
    n = sum(one.depends_on_rule for one in found.values())
    assert f"{n} verdicts depend on the rule." in table.notes[1]
    assert sum("by alpha * lambda * N" in row[2] for row in table.rows) == n > 5


def test_by_its_own_rule_a_trial_is_compared_with_the_base_model_by_the_same_rule(
    tmp_path,
):
    def values(seed, model, setting):
        own = {f"own_{loss}": 0.3 for loss in LOSSES}
        return (
            like_the_paper(seed, model, setting)
            | own
            | {f"base_own_{loss}": 0.4 for loss in LOSSES}
        )

    path = whole_store(tmp_path / "a.sqlite", values)
    names = ("PMCBoost improves PMC and DC loss", "the base model is never best")
    verdicts = judged(path, *names)
    found = verdicts[names[0]].by_rule["own"]
    assert found.numbers.startswith("PMC: LR -25.00 %, RF -25.00 %, DNN -25.00 %")
    trials = Evidence.from_store(path).by("own").trials
    base = trials[trials["method"] == BASE]
    assert len(base) == 20 * 3 * 2 * 16  # one for each setting of each grouping
    assert (base["mc_loss"] == 0.4).all()
    assert verdicts[names[1]].by_rule["own"].verdict == AGREES


def test_the_set_up_decides_which_rule_comes_first_and_what_a_trial_of_table_6_is(
    tmp_path,
):
    about = {"cohort": "generated", "rows": 1000, "setup": setup_of("public").about()}
    path = whole_store(tmp_path / "a.sqlite", like_the_paper, about=about)
    four = "4.0x fewer updates to the lowest PMC loss"
    found = judged(path, "PMCBoost improves PMC and DC loss", BY_ONE_READING, four)
    one = found["PMCBoost improves PMC and DC loss"]
    assert one.numbers == one.by_rule["own"].numbers
    assert found[BY_ONE_READING].verdict == AGREES
    assert found[BY_ONE_READING].numbers.startswith("by seed: base model 0 %")
    # four times as many
    said = "updates for PMC loss 3.00 mean relative excess (200 and 50)"
    assert said in found[four].by_rule["fixed"].numbers


def test_seeds_that_disagree_leave_a_claim_undecided(tmp_path):
    """In eleven of twenty seeds RF's MC loss falls, in nine it rises."""

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        if setting.method == PMC and model == "RF" and seed <= 9:
            found["mc_loss"] *= 2
        return found

    path = whole_store(tmp_path / "a.sqlite", values)
    one = judged(path, "MC loss of RF", n_draws=60)["MC loss of RF"]
    assert one.verdict == UNDECIDED
    assert 0.3 < one.share < 0.9
    assert f"undecided, {100 * one.share:.0f} % of resamples agree" == one.sure()


def test_medians_of_fits_that_did_nothing_decide_nothing(tmp_path):
    """MCBoost changes nothing at alpha 0.1 and 0.2; where it does something LR's MC
    loss falls.
    """

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        base = like_the_paper(seed, model, Setting(BASE, setting.groups))
        if setting.method in (MC, PMC) and model == "LR":
            idle = setting.alpha > 0.01
            found |= (
                base
                if idle
                else {"mc_loss": base["mc_loss"] * (0.9 if setting.rho == 0.1 else 1.0)}
            )
            found["n_updates"] = 0 if idle else 100
        return found

    names = ("MC loss of LR is not improved", "MC loss of LR gets worse by 11-14 %")
    found = judged(
        whole_store(tmp_path / "a.sqlite", values, models=("LR",), about=MIMIC), *names
    )
    one = found["MC loss of LR is not improved"]
    assert (one.verdict, one.numbers) == (VACUOUS, "MCBoost 0.00 %, PMCBoost 0.00 %")
    assert found["MC loss of LR gets worse by 11-14 %"].verdict == VACUOUS
    assert all_hold([False, True], [True, False]) is None
    assert all_hold([False, True], [False, True]) is False


def test_a_median_of_zero_over_fits_that_acted_is_a_result(tmp_path):
    """A quarter of the fits make no update; of the others as many raise AUROC as lower
    it.
    """

    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        if setting.method == PMC:
            base = like_the_paper(seed, model, Setting(BASE, setting.groups))["auroc"]
            up = setting.alpha == 0.001 or (
                setting.alpha == 0.01 and setting.rho == 0.1
            )
            idle = setting.alpha == 0.2
            found["auroc"] = base + (0 if idle else 0.001 if up else -0.0005)
            found["n_updates"] = 0 if idle else 100
        return found

    name = "AUROC cost of PMCBoost"
    one = judged(whole_store(tmp_path / "a.sqlite", values), name)[name]
    assert one.numbers == "AUROC: LR 0.00 %, RF 0.00 %, DNN 0.00 %"
    assert one.verdict == AGREES


def test_an_undecided_claim_says_in_how_many_resamples_nothing_could_be_compared():
    claim = CLAIMS[0]
    one = Judgement(claim, UNDECIDED, "", 20, share=0.0, vacuous=0.8)
    assert one.sure() == "undecided, 0 % of resamples agree, 80 % vacuous"
    assert (
        Judgement(claim, UNDECIDED, "", 20, share=0.895).sure()
        == "undecided, 89.5 % of resamples agree"
    )
    assert (
        Judgement(claim, AGREES, "", 20, share=0.9, vacuous=0.1).sure()
        == "agrees, 90 % of resamples agree"
    )
    assert Judgement(claim, VACUOUS, "", 20).sure() == "vacuous"


def test_two_increases_show_no_decrease(tmp_path):
    def values(seed, model, setting):
        found = like_the_paper(seed, model, setting)
        if setting.alpha:
            found["auroc"] = 0.86 - 0.01 * setting.alpha
        return found

    name = "RF: the decrease is mainly with MCBoost"
    one = judged(whole_store(tmp_path / "a.sqlite", values, models=("RF",)), name)[name]
    assert one.verdict == VACUOUS
    assert one.numbers.startswith("AUROC does not decrease with either method")


def test_only_the_papers_patients_can_settle_how_large_an_effect_is_among_them(
    tmp_path,
):
    sizes = [
        "PMC and DC loss improve by 10-81 %",
        "MC loss of LR gets worse by 11-14 %",
    ]
    simulated = judged(whole_store(tmp_path / "b.sqlite", like_the_paper), *sizes)
    assert {one.verdict for one in simulated.values()} == {NOT_SETTLED}
    assert simulated[sizes[1]].numbers == "here MCBoost +11.00 %, PMCBoost +14.00 %"
    columns = {
        "outcome": "readmitted",
        "groupings": [["race", "gender"], ["race", "gender", "insurance"]],
    }
    about = {
        "cohort": "a file of stays",
        "rows": "all",
        "columns": {**columns, "unit": "stays"},
    }
    found = judged(whole_store(tmp_path / "a.sqlite", like_the_paper, about=about))
    assert [name for name, one in found.items() if one.verdict == NOT_SETTLED] == sizes


def test_fits_that_stopped_at_their_limit_are_left_out_of_table_5_and_counted(tmp_path):
    def values(seed, model, setting):
        stopped = {"converged": 0, "n_updates": 10**6, "n_sweeps": 10**6}
        at_limit = setting.method == MC_FOR_PMC and seed == 1
        return like_the_paper(seed, model, setting) | (stopped if at_limit else {})

    path, name = whole_store(tmp_path / "a.sqlite", values), "five times the updates"
    numbers = judged(path, name)[name].numbers
    assert numbers.startswith("5.5x, 5.5x on average")
    assert numbers.endswith(
        "; 32 pairs of fits left out, as one stopped at its limit"
    )  # 2 models, 16 each


def test_fits_that_stopped_are_left_out_of_the_updates_of_the_best_alpha(
    tmp_path, published
):
    def values(seed, model, setting):
        stopped = {"converged": 0, "n_updates": 10**6}
        return like_the_paper(seed, model, setting) | (
            stopped if setting.method == MC and seed == 1 else {}
        )

    name = "4.0x fewer updates to the lowest PMC loss"
    found = judged(whole_store(tmp_path / "a.sqlite", values), name)[name]
    whole = judged(published, name)[name]
    assert found.verdict == whole.verdict == "agrees"
    assert found.numbers.split("; ")[0] == whole.numbers
    assert found.numbers.endswith(
        "; 96 fits left out that stopped at the limit"
    )  # 3 models, 32 each


def test_verdicts_of_other_runs_stand_beside(published, tmp_path):
    about = {"cohort": "generated", "rows": 1000, "surrogate": "strong"}
    other = Evidence.from_store(
        whole_store(tmp_path / "b.sqlite", unlike_the_paper, about=about)
    )
    found = judge_all(Evidence.from_store(published), 10, CLAIMS[:3])
    table = claims_table(found, {other.name: judge_all(other, 10, CLAIMS[:3])})
    assert table.headings == (
        "verdict",
        "in strong visits, printed",
        "the paper says",
        "here",
    )
    assert table.rows[0][:2] == (found[0].sure(), DIFFERS)
    assert table.frame["in strong visits, printed"].iloc[0] == DIFFERS


def test_claims_that_do_not_depend_on_losses_have_the_same_numbers_by_any(published):
    evidence = Evidence.from_store(published)
    other = evidence.stored.assign(mc_loss=0.1, pmc_loss=0.2, dc_loss=0.3)
    cases = Case.of(evidence), Case.of(replace(evidence, stored=other))
    for claim in CLAIMS:
        if not claim.by_losses:
            assert claim.check(cases[0]) == claim.check(cases[1]), claim.name


def test_the_numbers_of_claims_are_those_of_the_tables(published):
    evidence = Evidence.from_store(published)
    case, changes = (
        Case.of(evidence),
        percent_change(evidence.trials).set_index(["method", "model", "metric"]),
    )
    for (method, model, metric), row in changes.iterrows():
        if method in (MC, PMC):
            assert case.change(method, model, metric) == pytest.approx(row["change"])
    table = over_alpha(evidence.trials, "pmc_loss").set_index(
        ["model", "groups", "method", "alpha"]
    )["pmc_loss"]
    drawn = case.by_alpha("pmc_loss", MC)
    for m, model in enumerate(case.cube.models):
        for g, groups in enumerate(case.cube.groupings):
            expected = [table[model, groups, MC, alpha] for alpha in ALPHAS]
            assert drawn[m, g].tolist() == pytest.approx(expected)


def test_guarantees_are_judged_by_converged_trials_and_the_others_are_counted(tmp_path):
    settings = [
        Setting(PMC, ("race", "gender"), alpha, 0.05, 0.1) for alpha in (0.001, 0.1)
    ]
    rows = [
        trial(1, "LR", s, train_pmc_loss=0.05, converged=int(s.alpha == 0.1))
        for s in settings
    ]
    found = judged(make_store(tmp_path / "a.sqlite", rows))[
        "PMCBoost reaches alpha-PMC"
    ]
    assert (found.verdict, found.n_seeds) == (AGREES, 1)
    assert found.numbers == (
        "1 of 1 converged trials; at most 0.500 alpha; 1 trial stopped at the limit and cannot be judged"
    )


def test_about_means_from_half_to_twice():
    assert [about(v, 4) for v in (1.9, 2, 8, 8.1, -4)] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_losses_that_could_not_be_computed_decide_nothing(tmp_path):
    def values(seed, model, setting):
        return like_the_paper(seed, model, setting) | {"dc_loss": None}

    names = (
        "better by all three losses",
        "best DC loss: PMCBoost",
        "AUROC cost of PMCBoost",
    )
    found = judged(whole_store(tmp_path / "a.sqlite", values), *names)
    assert found["better by all three losses"].verdict == NOT_YET
    assert found["best DC loss: PMCBoost"].verdict == NOT_YET
    assert found["AUROC cost of PMCBoost"].verdict == AGREES
