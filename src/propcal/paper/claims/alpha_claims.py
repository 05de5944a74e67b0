"""Claims about alpha: the sensitivity analysis and the appendix's figures over alpha."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.paper.claims.change_claims import CUTOFF_WHY, RANK_WHY, SMALL_WHY
from propcal.paper.claims.claim import Case, Claim, NotYetError, most, signed
from propcal.paper.experiment.settings import ALPHAS, BASE, MC, PMC
from propcal.paper.results.trial_cube import median

RHO_WHY = (
    "PMC loss is computed with rates of at least rho. With rho 0.01, PMCBoost also corrects errors at lower "
    "rates, which hardly count in a loss with rho 0.1, and may fit noise there."
)
SCALE_WHY = (
    "MCBoost's cutoff is the same at all rates. At alpha 0.2 it finds hardly any error that large and leaves "
    "the score alone; PMCBoost's cutoff at low rates is ten times lower, so it still corrects."
)
AUROC_WHY = (
    "A forest leaves errors between groups, and correcting them changes the order of people: AUROC rises if "
    "the errors are real, and falls if they are chance. The paper's forest has another size and other "
    "patients."
)
FIT_WHY = (
    "A low alpha corrects small errors and small categories, which are mostly chance: they fit the fitting "
    "data more closely and new data less."
)
LOW, HIGH = slice(0, 2), slice(2, 4)  # alpha 0.001 and 0.01; alpha 0.1 and 0.2
LOSSES = ("mc_loss", "pmc_loss", "dc_loss")


def _count(flags: Any) -> str:
    return f"{int(np.sum(flags))} of {np.size(flags)}"


def _by_panel(case: Case, *columns: Any) -> str:
    """The numbers for each base model and grouping in short form: LR race x gender 0.30, 0.25; ..."""
    flat = [np.ravel(column) for column in columns]
    return "; ".join(
        f"{model} {groups} " + ", ".join(f"{column[i]:.3g}" for column in flat)
        for i, (model, groups) in enumerate(case.panels)
    )


def _active(case: Case) -> Any:
    """The base models, groupings and alphas at which MCBoost or PMCBoost made updates (by median)."""
    return (case.by_alpha("n_updates", MC) > 0) | (case.by_alpha("n_updates", PMC) > 0)


def _two_decimals(case: Case) -> tuple[bool | None, str]:
    base = case.by_alpha("auroc", BASE)
    far = np.stack([np.abs(case.by_alpha("auroc", method) - base) for method in (MC, PMC)])
    k, m, g, a = np.unravel_index(int(np.argmax(far)), far.shape)
    where = f"{(MC, PMC)[k]} on {case.cube.models[m]}, {case.cube.groupings[g]}, alpha {ALPHAS[a]:g}"
    return bool(far.max() < 0.005), f"largest difference of the medians {far.max():.4f} ({where})"


def _drops(case: Case) -> dict[str, float]:
    """How much lower RF's AUROC is at the lowest alpha than at the highest; mean over groupings."""
    found = {}
    for method in (MC, PMC):
        auroc = case.cube.by_alpha("auroc", method)[case.cube.models.index("RF")]
        found[method] = float(np.mean(auroc[:, -1] - auroc[:, 0]))
    if any(np.isnan(value) for value in found.values()):
        raise NotYetError("AUROC is not available for every grouping and alpha")
    return found


def _rf_declines(case: Case) -> tuple[bool | None, str]:
    drop = _drops(case)
    numbers = ", ".join(f"{method} {signed(-value, 4)}" for method, value in drop.items())
    return all(0 < value < 0.01 for value in drop.values()), numbers


def _rf_declines_more(case: Case) -> tuple[bool | None, str]:
    drop = _drops(case)
    numbers = ", ".join(f"{method} {signed(-value, 4)}" for method, value in drop.items())
    if all(value <= 0 for value in drop.values()):
        return None, f"AUROC does not decrease with either method: {numbers}"
    return drop[MC] > drop[PMC], numbers


def _lowest_mc_loss(case: Case) -> tuple[bool | None, str]:
    base, mc, pmc = (case.by_alpha("mc_loss", method)[..., HIGH] for method in (BASE, MC, PMC))
    lowest = (pmc < np.minimum(base, mc))[_active(case)[..., HIGH]]
    if not lowest.size:
        return None, "neither method made updates at alpha 0.1 or 0.2"
    return most(lowest), f"PMCBoost lowest in {_count(lowest)} (base model, grouping, alpha) with updates"


def _low_alpha_no_help(case: Case) -> tuple[bool | None, str]:
    loss = case.by_alpha("mc_loss", MC)
    low, high = loss[..., LOW].min(axis=-1), loss[..., HIGH].min(axis=-1)
    unhelped = low >= high
    return most(unhelped), f"no help in {_count(unhelped)}: low and high alpha {_by_panel(case, low, high)}"


def _overfits(case: Case) -> tuple[bool | None, str]:
    beyond = case.cube.of_method("own_mc_loss", MC) - case.cube.of_method("train_mc_loss", MC)
    low, high = (float(median(beyond[:, :, :, ALPHAS.index(alpha)])) for alpha in (0.001, 0.1))
    if np.isnan(low) or np.isnan(high):
        raise NotYetError("the loss on the fitting data could not be computed")
    numbers = (
        f"MC loss on test data minus that on the fitting data: {low:.4f} at alpha 0.001, {high:.4f} at 0.1"
    )
    return low > high, numbers


def _mc_improves(case: Case) -> tuple[bool | None, str]:
    loss = case.by_alpha("pmc_loss", MC)
    low, high = loss[..., 0], loss[..., -1]
    better = low < high
    return most(better), f"lower in {_count(better)}: alpha 0.001 and 0.2 {_by_panel(case, low, high)}"


def _sensitive(case: Case) -> tuple[bool | None, str]:
    spread = {}
    for method in (MC, PMC):
        loss = case.by_alpha("pmc_loss", method)
        if not loss.min() > 0:
            raise NotYetError("a median PMC loss is 0")
        spread[method] = loss.max(axis=-1) / loss.min(axis=-1)
    more = spread[MC] > spread[PMC]
    numbers = f"highest / lowest, MCBoost and PMCBoost: {_by_panel(case, spread[MC], spread[PMC])}"
    return most(more), f"more in {_count(more)}; {numbers}"


def _as_well_or_better(case: Case) -> tuple[bool | None, str]:
    better = (case.by_alpha("pmc_loss", PMC) <= case.by_alpha("pmc_loss", MC))[_active(case)]
    if not better.size:
        return None, "neither method made updates"
    return most(better), f"in {_count(better)} (base model, grouping, alpha) with updates"


def _particularly_large(case: Case) -> tuple[bool | None, str]:
    gain = np.mean(case.by_alpha("pmc_loss", MC) - case.by_alpha("pmc_loss", PMC), axis=(0, 1))
    low, high = float(gain[LOW].mean()), float(gain[HIGH].mean())
    listed = ", ".join(f"{alpha:g}: {signed(value, 3)}" for alpha, value in zip(ALPHAS, gain))
    return high > max(low, 0.0), f"mean of MCBoost's minus PMCBoost's PMC loss by alpha {listed}"


def _better_somewhere(case: Case) -> tuple[bool | None, str]:
    mc, pmc = (case.by_alpha("pmc_loss", method).min(axis=-1) for method in (MC, PMC))
    better = pmc < mc
    numbers = f"in {_count(better)}: lowest of MCBoost and PMCBoost {_by_panel(case, mc, pmc)}"
    return bool(better.all()), numbers


def _beneficial(case: Case) -> tuple[bool | None, str]:
    idle = sum(case.cube.of_method("n_updates", method) for method in (MC, PMC)) == 0
    good, parts = [], []
    shares = {}
    for loss in LOSSES:
        mc, pmc = (case.cube.of_method(loss, method) for method in (MC, PMC))
        better = np.where(idle | np.isnan(mc) | np.isnan(pmc), np.nan, (pmc < mc) + 0.5 * (pmc == mc))
        by_alpha = np.moveaxis(better, 3, 0).reshape(len(ALPHAS), -1)
        shares[loss] = [
            float(np.mean(row[~np.isnan(row)])) if not np.isnan(row).all() else np.nan for row in by_alpha
        ]
    for a, alpha in enumerate(ALPHAS):
        row = [shares[loss][a] for loss in LOSSES]
        if np.isnan(row).any():
            continue
        good.append(all(value > 0.5 for value in row))
        parts.append(f"{alpha:g}: " + ", ".join(f"{100 * value:.0f}" for value in row))
    if len(good) < 3:
        return None, "fewer than three alphas have pairs in which a method made updates"
    return sum(good) >= 3, f"percent of pairs by alpha, MC, PMC and DC loss: {'; '.join(parts)}"


ALPHA_CLAIMS = (
    Claim(
        "AUROC to two decimals",
        "Appendix, AUROC over alpha",
        "Post-processing has a minimal effect on AUROC in all cases; the differences disappear when rounded "
        "to two decimal places.",
        "median AUROC differs from the base model's by less than 0.005 for every model, grouping and alpha",
        _two_decimals,
        why=RANK_WHY,
        by_losses=False,
    ),
    Claim(
        "RF: lower alpha, slightly lower AUROC",
        "Appendix, AUROC over alpha",
        "With RF, lower values of alpha go with a very slight decrease in AUROC.",
        "RF's median AUROC at alpha 0.001 is below that at 0.2, by less than 0.01, for both methods",
        _rf_declines,
        why=AUROC_WHY,
        models=("RF",),
        by_losses=False,
    ),
    Claim(
        "RF: the decrease is mainly with MCBoost",
        "Appendix, AUROC over alpha",
        "The slight decrease is seen particularly with MC post-processing.",
        "from alpha 0.2 to 0.001 RF's median AUROC falls more with MCBoost than with PMCBoost",
        _rf_declines_more,
        why=AUROC_WHY,
        odd="Table 4 has the larger loss of AUROC of RF with PMCBoost (0.27 %, MCBoost 0.09 %).",
        models=("RF",),
        by_losses=False,
    ),
    Claim(
        "lowest MC loss at alpha > 0.01",
        "Appendix, MC loss over alpha",
        "PMC post-processing tends to give the lowest MC loss at alpha above 0.01.",
        "at alpha 0.1 and 0.2 its median MC loss is below MCBoost's and the base model's in more than half "
        "of the base models, groupings and alphas at which a method made updates",
        _lowest_mc_loss,
        why=CUTOFF_WHY,
    ),
    Claim(
        "low alpha does not help MCBoost's MC loss",
        "Appendix, MC loss over alpha",
        "Lower values of alpha do not help MC post-processing in most cases.",
        "its lowest median MC loss at alpha 0.001 or 0.01 is not below that at 0.1 or 0.2, in more than "
        "half of the base models and groupings",
        _low_alpha_no_help,
        why=SMALL_WHY,
    ),
    Claim(
        "small updates overfit",
        "Appendix, MC loss over alpha",
        "Smaller updates may be overfitting to the post-processing data.",
        "MCBoost's MC loss on the test set exceeds that on the training set by more at alpha 0.001 than at "
        "0.1 (both by the fit's own rule)",
        _overfits,
        why=FIT_WHY,
        methods=(MC,),
        by_losses=False,
    ),
    Claim(
        "low alpha improves MCBoost's PMC loss",
        "Sensitivity analysis; appendix, PMC loss over alpha",
        "Low values of alpha improve the PMC loss of MCBoost.",
        "MCBoost's median PMC loss is lower at alpha 0.001 than at 0.2 in more than half of the base models "
        "and groupings",
        _mc_improves,
        why=SCALE_WHY,
    ),
    Claim(
        "MCBoost's PMC loss depends on alpha",
        "Appendix, PMC loss over alpha",
        "The PMC loss of MC post-processing is highly sensitive to alpha.",
        "the ratio of the highest to the lowest median over alpha is larger for MCBoost than for PMCBoost in "
        "more than half of the base models and groupings",
        _sensitive,
        why=SCALE_WHY,
    ),
    Claim(
        "as well or better at the same alpha",
        "Sensitivity analysis",
        "PMCBoost typically performs as well or better in PMC loss.",
        "its median PMC loss is not above MCBoost's in more than half of the base models, groupings and "
        "alphas at which a method made updates",
        _as_well_or_better,
        why=RHO_WHY,
    ),
    Claim(
        "better particularly at larger alpha",
        "Sensitivity analysis",
        "PMCBoost performs as well or better, particularly for larger values of alpha.",
        "its mean gain in median PMC loss over MCBoost at alpha 0.1 and 0.2 is positive and exceeds that at "
        "0.001 and 0.01",
        _particularly_large,
        why=SCALE_WHY,
    ),
    Claim(
        "a better PMC loss at some alpha",
        "Appendix, PMC loss over alpha",
        "In all cases PMC post-processing gives a better median PMC loss at some alpha.",
        "the lowest median PMC loss over alpha is PMCBoost's for every base model and grouping",
        _better_somewhere,
        why=RHO_WHY,
    ),
    Claim(
        "beneficial over a large range of alpha",
        "Appendix, Table 6",
        "Over a large range of alpha, PMCBoost is beneficial compared to MCBoost.",
        "for at least 3 of the 4 alphas, PMCBoost has the lower MC, PMC and DC loss in more than half of the "
        "pairs with the same seed, base model and setting in which a method made updates (ties count half)",
        _beneficial,
        why=RHO_WHY,
    ),
)
