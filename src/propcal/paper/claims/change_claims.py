"""Claims about Table 4: how much post-processing changes AUROC and the losses."""

from __future__ import annotations

from propcal.paper.admissions.settings import BASE, MC, MODELS, PMC
from propcal.paper.claims.claim import Case, Check, Claim, NotYetError, about
from propcal.paper.results.calibration_by_group import N_GROUPS, curves

LOSSES = ("mc_loss", "pmc_loss", "dc_loss")
LOSSES_WHY = (
    "All trials are evaluated here by one rule (gamma 0.05, rho 0.1, size rule at alpha 0.1). DC loss "
    "compares all pairs of groups, the paper's public code only neighbouring ones. Rates below rho are "
    "replaced by rho."
)
LR_WHY = (
    "In the simulated visits the true risk rises at a different rate in each group, which LR cannot model, "
    "so there is an error to correct. The errors of LR in the paper's patients are unknown."
)
SMALL_WHY = (
    "A low alpha also lowers the size rule: at 0.001, categories of a single person are included, and both "
    "methods fit noise there. The paper has three size rules; this is the rule of Algorithm 1."
)
TRAINING_WHY = (
    "Base model and post-processing are fitted to the same visits. If the scores overfit the training "
    "visits, corrections learned there need not apply to others. See the table of base models on both "
    "sets."
)
SHORT = {"auroc": "AUROC", "mc_loss": "MC", "pmc_loss": "PMC", "dc_loss": "DC"}


def _listed(case: Case, method: str, metrics: tuple[str, ...]) -> dict[tuple[str, str], float]:
    return {(model, metric): case.change(method, model, metric) for model in MODELS for metric in metrics}


def _text(found: dict[tuple[str, str], float]) -> str:
    metrics = dict.fromkeys(metric for _, metric in found)
    rows = []
    for metric in metrics:
        values = ", ".join(f"{model} {found[model, metric]:+.2f} %" for model in MODELS)
        rows.append(f"{SHORT[metric]}: {values}")
    return "; ".join(rows)


def _small_cost(case: Case) -> tuple[bool, str]:
    found = _listed(case, PMC, ("auroc",))
    return all(abs(value) < 0.6 for value in found.values()), _text(found)


def _ten_to_eighty_one(case: Case) -> tuple[bool, str]:
    found = _listed(case, PMC, ("pmc_loss", "dc_loss"))
    return all(-81.5 < value <= -9.5 for value in found.values()), _text(found)


def _improves_both(method: str) -> Check:
    def check(case: Case) -> tuple[bool, str]:
        found = _listed(case, method, ("pmc_loss", "dc_loss"))
        return all(value < 0 for value in found.values()), _text(found)

    return check


def _more_than_mcboost(case: Case) -> tuple[bool, str]:
    treated, other = (_listed(case, method, ("pmc_loss", "dc_loss")) for method in (PMC, MC))
    numbers = f"PMCBoost {_text(treated)}. MCBoost {_text(other)}"
    return all(treated[key] < other[key] for key in treated), numbers


def _mc_loss_of(model: str) -> Check:
    def check(case: Case) -> tuple[bool, str]:
        treated, other = case.change(PMC, model, "mc_loss"), case.change(MC, model, "mc_loss")
        return treated < min(other, 0), f"PMCBoost {treated:+.2f} %, MCBoost {other:+.2f} %"

    return check


def _lr_not_improved(case: Case) -> tuple[bool, str]:
    found = {method: case.change(method, "LR", "mc_loss") for method in (MC, PMC)}
    return all(v >= 0 for v in found.values()), ", ".join(f"{m} {v:+.2f} %" for m, v in found.items())


def _lr_worse_by(case: Case) -> tuple[bool, str]:
    _, numbers = _lr_not_improved(case)
    close = [about(case.change(MC, "LR", "mc_loss"), 10.95), about(case.change(PMC, "LR", "mc_loss"), 14.18)]
    return all(close), numbers


def _lr_others(case: Case) -> tuple[bool, str]:
    auroc, pmc, dc = (case.change(PMC, "LR", metric) for metric in ("auroc", "pmc_loss", "dc_loss"))
    numbers = f"AUROC {auroc:+.3f} %, PMC loss {pmc:+.2f} %, DC loss {dc:+.2f} %"
    return abs(auroc) < 0.05 and pmc < 0 and dc < 0, numbers


def _everything_better(case: Case) -> tuple[bool, str]:
    found = _listed(case, PMC, LOSSES)
    small, cost = _small_cost(case)
    return small and all(value < 0 for value in found.values()), f"{_text(found)}; {cost}"


def _curves_improve(case: Case) -> tuple[bool, str]:
    found = curves(case.evidence)
    if found is None or len(found.errors) < N_GROUPS:
        raise NotYetError("no calibration curves of RF in three large intersectional groups")
    rows = [*zip(found.errors["group"], found.errors[BASE], found.errors[PMC])]
    numbers = "; ".join(f"{group}: {100 * b:.1f} % to {100 * a:.1f} %" for group, b, a in rows)
    return all(after < before for _, before, after in rows), f"off by {numbers} (setting {found.setting})"


CHANGE_CLAIMS = (
    Claim(
        "AUROC cost of PMCBoost",
        "Results, Table 4 (also abstract: virtually no cost)",
        "PMCBoost has a small effect on predictive performance: AUROC changes by less than 0.6 %.",
        "median |change| of AUROC < 0.6 % for LR, RF and DNN",
        _small_cost,
        methods=(BASE, PMC),
        by_losses=False,
    ),
    Claim(
        "PMC and DC loss improve by 10-81 %",
        "Results, Table 4",
        "PMCBoost improves DC loss and PMC loss by 10-81 % across LR, RF and DNN.",
        "all six median changes lie between -10 % and -81 %, rounded to whole percents",
        _ten_to_eighty_one,
        why=f"{LOSSES_WHY} {TRAINING_WHY}",
        methods=(BASE, PMC),
    ),
    Claim(
        "PMCBoost improves PMC and DC loss",
        "Table 4",
        "With PMCBoost, PMC and DC loss are lower than the base model's, for all three models.",
        "all six median changes < 0",
        _improves_both(PMC),
        why=TRAINING_WHY,
        methods=(BASE, PMC),
    ),
    Claim(
        "MCBoost improves PMC and DC loss",
        "Table 4",
        "With MCBoost too, PMC and DC loss are lower than the base model's, for all three models.",
        "all six median changes < 0",
        _improves_both(MC),
        why=TRAINING_WHY,
        methods=(BASE, MC),
    ),
    Claim(
        "PMCBoost improves PMC and DC loss more",
        "Table 4",
        "PMCBoost improves PMC and DC loss more than MCBoost, for all three models.",
        "all six median changes are lower with PMCBoost",
        _more_than_mcboost,
        why=f"{LOSSES_WHY} {TRAINING_WHY}",
    ),
    Claim(
        "MC loss of DNN",
        "Results, Table 4",
        "PMCBoost improves MC loss more than MCBoost for DNN (19 % versus 11 %).",
        "PMCBoost's median change is < 0 and below MCBoost's",
        _mc_loss_of("DNN"),
        odd="MCBoost aims at MC loss itself; the paper calls it somewhat surprising.",
        why=f"{TRAINING_WHY} {SMALL_WHY}",
        models=("DNN",),
    ),
    Claim(
        "MC loss of RF",
        "Results, Table 4",
        "PMCBoost improves MC loss more than MCBoost for RF (18 % versus 6 %).",
        "PMCBoost's median change is < 0 and below MCBoost's",
        _mc_loss_of("RF"),
        odd="MCBoost aims at MC loss itself; the paper calls it somewhat surprising.",
        why=f"{TRAINING_WHY} {SMALL_WHY}",
        models=("RF",),
    ),
    Claim(
        "MC loss of LR is not improved",
        "Results",
        "PMCBoost and MCBoost do not improve MC loss of LR models.",
        "both median changes >= 0",
        _lr_not_improved,
        odd="A method that aims at MC loss does not lower it.",
        why=LR_WHY,
        models=("LR",),
    ),
    Claim(
        "MC loss of LR gets worse by 11-14 %",
        "Table 4",
        "LR's MC loss rises by 10.95 % with MCBoost and by 14.18 % with PMCBoost.",
        "each median change is at least half and at most twice the published one",
        _lr_worse_by,
        odd="Post-processing increases the error that it is meant to reduce.",
        why=LR_WHY,
        models=("LR",),
    ),
    Claim(
        "LR's other losses improve at no cost",
        "Results",
        "PMCBoost improves PMC loss and DC loss of LR without changing AUROC.",
        "both median changes < 0 and median |change| of AUROC < 0.05 %",
        _lr_others,
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
        why=TRAINING_WHY,
        odd="Table 4 itself has LR's MC loss 14.18 % worse.",
        methods=(BASE, PMC),
    ),
    Claim(
        "calibration curves of three groups",
        "Results, figure of calibration curves",
        "PMCBoost improves the calibration of RF models for three groups by race/ethnicity, gender and "
        "insurance.",
        "in each of three groups, chosen by our rule, the calibration error is smaller with PMCBoost",
        _curves_improve,
        why=TRAINING_WHY,
        odd="The paper does not say how its three groups were chosen.",
        models=("RF",),
        methods=(BASE, PMC),
        by_losses=False,
    ),
)
