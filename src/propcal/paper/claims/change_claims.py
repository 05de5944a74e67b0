"""Claims about Table 4: how much post-processing changes AUROC and the losses."""

from __future__ import annotations

from propcal.paper.claims.claim import (
    Case,
    Check,
    Claim,
    NotAskedError,
    NotYetError,
    about,
    all_hold,
    signed,
)
from propcal.paper.experiment.settings import BASE, MC, MODELS, PMC
from propcal.paper.results.calibration_by_group import N_GROUPS, subgroup

LOSSES = ("mc_loss", "pmc_loss", "dc_loss")
MEDIAN_WHY = (
    "Table 4 is a median over all settings. At alpha 0.1 and 0.2 many fits find no error that large and "
    "change nothing, so that a method that acts at small alpha only can have a median of 0."
)
NOISE_WHY = (
    "A loss is the largest error of any category. In small categories it is mostly chance, which "
    "post-processing cannot remove in new data."
)
LR_WHY = (
    "It depends on the errors that LR makes. In the simulated visits the true risk rises at a different rate "
    "in each group, which LR cannot model, so that there is an error to correct; the errors of LR in the "
    "paper's patients are unknown."
)
SMALL_WHY = (
    "A low alpha also lowers the size rule: at 0.001, categories of a single person are included, and both "
    "methods fit noise there. By each trial's own rule they are also judged on such categories."
)
CUTOFF_WHY = (
    "At the same alpha PMCBoost's cutoff is alpha times the rate, below MCBoost's alpha, so it corrects more "
    "and smaller errors; where those are real, its losses are lower, and where they are chance, higher."
)
RANK_WHY = (
    "AUROC depends on the order of the scores. Updates move whole categories by a few percent, which changes "
    "the order of few people."
)
SHORT = {"auroc": "AUROC", "mc_loss": "MC", "pmc_loss": "PMC", "dc_loss": "DC"}


def _listed(case: Case, method: str, metrics: tuple[str, ...]) -> dict[tuple[str, str], float]:
    return {(model, metric): case.change(method, model, metric) for model in MODELS for metric in metrics}


def _text(found: dict[tuple[str, str], float]) -> str:
    metrics = dict.fromkeys(metric for _, metric in found)
    rows = []
    for metric in metrics:
        values = ", ".join(f"{model} {signed(found[model, metric])} %" for model in MODELS)
        rows.append(f"{SHORT[metric]}: {values}")
    return "; ".join(rows)


def _idle(case: Case, method: str, found: dict[tuple[str, str], float]) -> list[bool]:
    """For each number: whether it is 0 only because fits made no update."""
    return [case.idle(method, model, metric) for model, metric in found]


def _small_cost(case: Case) -> tuple[bool | None, str]:
    found = _listed(case, PMC, ("auroc",))
    return all_hold([abs(value) < 0.6 for value in found.values()], _idle(case, PMC, found)), _text(found)


def _ten_to_eighty_one(case: Case) -> tuple[bool | None, str]:
    found = _listed(case, PMC, ("pmc_loss", "dc_loss"))
    flags = [-81.5 < value <= -9.5 for value in found.values()]
    return all_hold(flags, _idle(case, PMC, found)), _text(found)


def _improves_both(method: str) -> Check:
    def check(case: Case) -> tuple[bool | None, str]:
        found = _listed(case, method, ("pmc_loss", "dc_loss"))
        return all_hold([value < 0 for value in found.values()], _idle(case, method, found)), _text(found)

    return check


def _more_than_mcboost(case: Case) -> tuple[bool | None, str]:
    treated, other = (_listed(case, method, ("pmc_loss", "dc_loss")) for method in (PMC, MC))
    numbers = f"PMCBoost {_text(treated)}. MCBoost {_text(other)}"
    both = [a and b for a, b in zip(_idle(case, PMC, treated), _idle(case, MC, other))]
    return all_hold([treated[key] < other[key] for key in treated], both), numbers


def _mc_loss_of(model: str) -> Check:
    def check(case: Case) -> tuple[bool | None, str]:
        treated, other = case.change(PMC, model, "mc_loss"), case.change(MC, model, "mc_loss")
        idle = [case.idle(PMC, model, "mc_loss")]
        return all_hold(
            [treated < min(other, 0)], idle
        ), f"PMCBoost {signed(treated)} %, MCBoost {signed(other)} %"

    return check


def _lr_changes(case: Case) -> tuple[dict[str, float], list[bool], str]:
    found = {method: case.change(method, "LR", "mc_loss") for method in (MC, PMC)}
    idle = [case.idle(method, "LR", "mc_loss") for method in found]
    return found, idle, ", ".join(f"{m} {signed(v)} %" for m, v in found.items())


def _lr_not_improved(case: Case) -> tuple[bool | None, str]:
    found, idle, numbers = _lr_changes(case)
    return all_hold([value >= 0 for value in found.values()], idle), numbers


def _lr_worse_by(case: Case) -> tuple[bool | None, str]:
    found, idle, numbers = _lr_changes(case)
    return all_hold([about(found[MC], 10.95), about(found[PMC], 14.18)], idle), numbers


def _lr_others(case: Case) -> tuple[bool | None, str]:
    auroc, pmc, dc = (case.change(PMC, "LR", metric) for metric in ("auroc", "pmc_loss", "dc_loss"))
    numbers = f"AUROC {signed(auroc, 3)} %, PMC loss {signed(pmc)} %, DC loss {signed(dc)} %"
    idle = [case.idle(PMC, "LR", metric) for metric in ("auroc", "pmc_loss", "dc_loss")]
    return all_hold([abs(auroc) < 0.05, pmc < 0, dc < 0], idle), numbers


def _everything_better(case: Case) -> tuple[bool | None, str]:
    found = _listed(case, PMC, LOSSES)
    small, cost = _small_cost(case)
    better = all_hold([value < 0 for value in found.values()], _idle(case, PMC, found))
    return (False if small is False else better), f"{_text(found)}; {cost}"


def _curves_improve(case: Case) -> tuple[bool | None, str]:
    found = case.curves
    if found is None:
        raise NotYetError("no calibration curves of RF")
    if len(found.errors) < N_GROUPS:
        raise NotAskedError("fewer than three intersectional groups have a share of gamma of the test set")
    rows = [*zip(found.errors["group"], found.errors[BASE], found.errors[PMC])]
    numbers = "; ".join(
        f"{subgroup(group, found.attributes)}: {100 * b:.1f} % to {100 * a:.1f} %" for group, b, a in rows
    )
    return all(after < before for _, before, after in rows), f"off by {numbers} (setting {found.setting})"


CHANGE_CLAIMS = (
    Claim(
        "AUROC cost of PMCBoost",
        "Results, Table 4 (also abstract: virtually no cost)",
        "PMCBoost has a small effect on predictive performance: AUROC changes by less than 0.6 %.",
        "median |change| of AUROC < 0.6 % for LR, RF and DNN",
        _small_cost,
        why=RANK_WHY,
        methods=(BASE, PMC),
        by_losses=False,
    ),
    Claim(
        "PMC and DC loss improve by 10-81 %",
        "Results, Table 4",
        "PMCBoost improves DC loss and PMC loss by 10-81 % across LR, RF and DNN.",
        "all six median changes lie between -10 % and -81 %, rounded to whole percents",
        _ten_to_eighty_one,
        why=f"{NOISE_WHY} How much of it is left to remove depends on the base model.",
        methods=(BASE, PMC),
        of_its_patients=True,
    ),
    Claim(
        "PMCBoost improves PMC and DC loss",
        "Table 4",
        "With PMCBoost, PMC and DC loss are lower than the base model's, for all three models.",
        "all six median changes < 0",
        _improves_both(PMC),
        why=NOISE_WHY,
        methods=(BASE, PMC),
    ),
    Claim(
        "MCBoost improves PMC and DC loss",
        "Table 4",
        "With MCBoost too, PMC and DC loss are lower than the base model's, for all three models.",
        "all six median changes < 0",
        _improves_both(MC),
        why=MEDIAN_WHY,
        methods=(BASE, MC),
    ),
    Claim(
        "PMCBoost improves PMC and DC loss more",
        "Table 4",
        "PMCBoost improves PMC and DC loss more than MCBoost, for all three models.",
        "all six median changes are lower with PMCBoost",
        _more_than_mcboost,
        why=CUTOFF_WHY,
    ),
    Claim(
        "MC loss of DNN",
        "Results, Table 4",
        "PMCBoost improves MC loss more than MCBoost for DNN (19 % versus 11 %).",
        "PMCBoost's median change is < 0 and below MCBoost's",
        _mc_loss_of("DNN"),
        why=f"{CUTOFF_WHY} {MEDIAN_WHY}",
        odd="MCBoost aims at MC loss itself; the paper calls it somewhat surprising.",
        models=("DNN",),
    ),
    Claim(
        "MC loss of RF",
        "Results, Table 4",
        "PMCBoost improves MC loss more than MCBoost for RF (18 % versus 6 %).",
        "PMCBoost's median change is < 0 and below MCBoost's",
        _mc_loss_of("RF"),
        why=f"{CUTOFF_WHY} {MEDIAN_WHY}",
        odd="MCBoost aims at MC loss itself; the paper calls it somewhat surprising.",
        models=("RF",),
    ),
    Claim(
        "MC loss of LR is not improved",
        "Results",
        "PMCBoost and MCBoost do not improve MC loss of LR models.",
        "both median changes >= 0",
        _lr_not_improved,
        why=f"{LR_WHY} {MEDIAN_WHY}",
        odd="A method that aims at MC loss does not lower it.",
        models=("LR",),
    ),
    Claim(
        "MC loss of LR gets worse by 11-14 %",
        "Table 4",
        "LR's MC loss rises by 10.95 % with MCBoost and by 14.18 % with PMCBoost.",
        "each median change is at least half and at most twice the published one",
        _lr_worse_by,
        why=f"{LR_WHY} {SMALL_WHY}",
        odd="Post-processing increases the error that it is meant to reduce.",
        models=("LR",),
        of_its_patients=True,
    ),
    Claim(
        "LR's other losses improve at no cost",
        "Results",
        "PMCBoost improves PMC loss and DC loss of LR without changing AUROC.",
        "both median changes < 0 and median |change| of AUROC < 0.05 %",
        _lr_others,
        why=f"{RANK_WHY} {NOISE_WHY}",
        models=("LR",),
        methods=(BASE, PMC),
    ),
    Claim(
        "better by all three losses",
        "Discussion",
        "Post-processing three types of models with PMC leads to better performance across all three "
        "fairness metrics, with a small impact on predictive performance.",
        "all nine median changes < 0, and median |change| of AUROC < 0.6 %",
        _everything_better,
        why=NOISE_WHY,
        odd="Table 4 itself has LR's MC loss 14.18 % worse.",
        contradicted=True,
        methods=(BASE, PMC),
    ),
    Claim(
        "calibration curves of three groups",
        "Results, figure of calibration curves",
        "PMCBoost improves the calibration of RF models for three groups by race/ethnicity, gender and "
        "insurance.",
        "in each of three groups, chosen by our rule, the calibration error is smaller with PMCBoost",
        _curves_improve,
        why="The three groups are those where the base model is worst, so that even a method without effect "
        "would look better there in new data (regression to the mean).",
        odd="The paper does not say how its three groups were chosen.",
        models=("RF",),
        methods=(BASE, PMC),
        by_losses=False,
    ),
)
