"""Claims about alpha: the sensitivity analysis and the appendix's figures over alpha."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from propcal.paper.admissions.settings import ALPHAS, BASE, MC, PMC
from propcal.paper.claims.change_claims import SMALL_WHY
from propcal.paper.claims.claim import Case, Claim, NotYetError, defined, most
from propcal.paper.results.over_alpha import PANEL

RHO_WHY = (
    "PMC loss is evaluated with rates of at least rho = 0.1. With rho 0.01, PMCBoost also corrects errors at "
    "lower rates, which hardly count in the loss, and may fit noise there."
)
LOW, HIGH = ALPHAS[:2], ALPHAS[2:]
LOSSES = ("mc_loss", "pmc_loss", "dc_loss")


def _at(table: pd.DataFrame, alpha: float, method: str) -> Any:
    """Values of a method at an alpha, one for each base model and grouping."""
    return table.xs(alpha, level="alpha")[method]


def _lowest(table: pd.DataFrame, alphas: tuple[float, ...], method: str) -> pd.Series:
    chosen = table[table.index.get_level_values("alpha").isin(alphas)]
    return chosen[method].groupby(level=PANEL).min()


def _count(flags: pd.Series) -> str:
    return f"{int(flags.sum())} of {len(flags)}"


def _by_panel(*columns: pd.Series) -> str:
    """The numbers for each base model and grouping in short form: LR race x gender 0.30, 0.25; ..."""
    return "; ".join(
        f"{model} {groups} " + ", ".join(f"{column[model, groups]:.3g}" for column in columns)
        for model, groups in columns[0].index
    )


def _two_decimals(case: Case) -> tuple[bool, str]:
    table = case.medians("auroc")
    far = pd.concat([(table[method] - table[BASE]).abs() for method in (MC, PMC)], keys=(MC, PMC))
    place: Any = far.idxmax()
    method, model, groups, alpha = place
    where = f"{method} on {model}, {groups}, alpha {alpha:g}"
    return bool(far.max() < 0.005), f"largest difference of the medians {far.max():.4f} ({where})"


def _drops(case: Case) -> dict[str, Any]:
    """How much lower RF's AUROC is at the lowest alpha than at the highest; mean over groupings."""
    table: Any = case.medians("auroc", models=("RF",)).xs("RF", level="model")
    return {m: float((_at(table, ALPHAS[-1], m) - _at(table, ALPHAS[0], m)).mean()) for m in (MC, PMC)}


def _rf_declines(case: Case) -> tuple[bool, str]:
    drop = _drops(case)
    numbers = ", ".join(f"{method} {-value:+.4f}" for method, value in drop.items())
    return all(0 < value < 0.01 for value in drop.values()), numbers


def _rf_declines_more(case: Case) -> tuple[bool, str]:
    drop = _drops(case)
    return drop[MC] > drop[PMC], ", ".join(f"{method} {-value:+.4f}" for method, value in drop.items())


def _lowest_mc_loss(case: Case) -> tuple[bool, str]:
    table = case.medians("mc_loss")
    table = table[table.index.get_level_values("alpha").isin(HIGH)]
    lowest = table[PMC] < table[[BASE, MC]].min(axis=1)
    return most(lowest), f"PMCBoost lowest in {_count(lowest)} (base model, grouping, alpha)"


def _low_alpha_no_help(case: Case) -> tuple[bool, str]:
    table = case.medians("mc_loss")
    low, high = _lowest(table, LOW, MC), _lowest(table, HIGH, MC)
    unhelped = low >= high
    return most(unhelped), f"no help in {_count(unhelped)}: low and high alpha {_by_panel(low, high)}"


def _overfits(case: Case) -> tuple[bool, str]:
    rows = case.trials[case.trials["method"] == MC]
    beyond = rows.assign(beyond=rows["own_mc_loss"].astype(float) - rows["train_mc_loss"].astype(float))
    table = beyond.groupby("alpha")["beyond"].median().reindex([ALPHAS[0], ALPHAS[2]])
    low, high = (defined(float(value), "the loss on the training set") for value in table)
    numbers = f"test minus training MC loss: {low:.4f} at alpha 0.001, {high:.4f} at alpha 0.1"
    return low > high, numbers


def _mc_improves(case: Case) -> tuple[bool, str]:
    table = case.medians("pmc_loss")
    low, high = _at(table, ALPHAS[0], MC), _at(table, ALPHAS[-1], MC)
    better = low < high
    return most(better), f"lower in {_count(better)}: alpha 0.001 and 0.2 {_by_panel(low, high)}"


def _sensitive(case: Case) -> tuple[bool, str]:
    table = case.medians("pmc_loss")
    ends = table.groupby(level=PANEL)[[MC, PMC]].agg(["min", "max"])
    spread = {method: ends[method, "max"] / ends[method, "min"] for method in (MC, PMC)}
    if any(np.isinf(values).any() or values.isna().any() for values in spread.values()):
        raise NotYetError("a median PMC loss is 0")
    more = spread[MC] > spread[PMC]
    numbers = f"highest / lowest, MCBoost and PMCBoost: {_by_panel(spread[MC], spread[PMC])}"
    return most(more), f"more in {_count(more)}; {numbers}"


def _as_well_or_better(case: Case) -> tuple[bool, str]:
    table = case.medians("pmc_loss")
    better = table[PMC] <= table[MC]
    return most(better), f"in {_count(better)} (base model, grouping, alpha)"


def _particularly_large(case: Case) -> tuple[bool, str]:
    table = case.medians("pmc_loss")
    gain = (table[MC] - table[PMC]).groupby(level="alpha").mean()
    low, high = float(gain[list(LOW)].mean()), float(gain[list(HIGH)].mean())
    listed = ", ".join(f"{alpha:g}: {value:+.3f}" for alpha, value in gain.items())
    return high > max(low, 0.0), f"mean of MCBoost's minus PMCBoost's PMC loss by alpha {listed}"


def _better_somewhere(case: Case) -> tuple[bool, str]:
    table = case.medians("pmc_loss")
    mc, pmc = _lowest(table, ALPHAS, MC), _lowest(table, ALPHAS, PMC)
    better = pmc < mc
    return bool(better.all()), f"in {_count(better)}: lowest of MCBoost and PMCBoost {_by_panel(mc, pmc)}"


def _beneficial(case: Case) -> tuple[bool, str]:
    keys = ["seed", "model", "groups", "alpha", "gamma", "rho"]
    rows = case.trials[case.trials["method"].isin((MC, PMC))]
    shares = {}
    for loss in LOSSES:
        pairs = rows.pivot(index=keys, columns="method", values=loss).dropna()
        better = (pairs[PMC] < pairs[MC]) + 0.5 * (pairs[PMC] == pairs[MC])
        shares[loss] = better.groupby(level="alpha").mean().reindex(list(ALPHAS))
    table = pd.DataFrame(shares)
    if table.isna().any(axis=None):
        raise NotYetError("not every alpha has pairs of MCBoost and PMCBoost")
    good = (table > 0.5).all(axis=1)
    listed = "; ".join(
        f"{alpha:g}: " + ", ".join(f"{100 * row[loss]:.0f}" for loss in LOSSES)
        for alpha, row in table.iterrows()
    )
    return int(good.sum()) >= 3, f"percent of pairs by alpha, MC, PMC and DC loss: {listed}"


ALPHA_CLAIMS = (
    Claim(
        "AUROC to two decimals",
        "Appendix, AUROC over alpha",
        "Post-processing has a minimal effect on AUROC in all cases; the differences disappear when rounded "
        "to two decimal places.",
        "median AUROC differs from the base model's by less than 0.005 for every model, grouping and alpha",
        _two_decimals,
        by_losses=False,
    ),
    Claim(
        "RF: lower alpha, slightly lower AUROC",
        "Appendix, AUROC over alpha",
        "With RF, lower values of alpha go with a very slight decrease in AUROC.",
        "RF's median AUROC at alpha 0.001 is below that at 0.2, by less than 0.01, for both methods",
        _rf_declines,
        models=("RF",),
        by_losses=False,
    ),
    Claim(
        "RF: the decrease is mainly with MCBoost",
        "Appendix, AUROC over alpha",
        "The slight decrease is seen particularly with MC post-processing.",
        "from alpha 0.2 to 0.001 RF's median AUROC falls more with MCBoost than with PMCBoost",
        _rf_declines_more,
        odd="Table 4 has the larger loss of AUROC of RF with PMCBoost (0.27 %, MCBoost 0.09 %).",
        models=("RF",),
        by_losses=False,
    ),
    Claim(
        "lowest MC loss at alpha > 0.01",
        "Appendix, MC loss over alpha",
        "PMC post-processing tends to give the lowest MC loss at alpha above 0.01.",
        "at alpha 0.1 and 0.2 its median MC loss is below MCBoost's and the base model's in more than half "
        "of the base models, groupings and alphas",
        _lowest_mc_loss,
        why=SMALL_WHY,
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
    ),
    Claim(
        "MCBoost's PMC loss depends on alpha",
        "Appendix, PMC loss over alpha",
        "The PMC loss of MC post-processing is highly sensitive to alpha.",
        "the ratio of the highest to the lowest median over alpha is larger for MCBoost than for PMCBoost in "
        "more than half of the base models and groupings",
        _sensitive,
    ),
    Claim(
        "as well or better at the same alpha",
        "Sensitivity analysis",
        "PMCBoost typically performs as well or better in PMC loss.",
        "its median PMC loss is not above MCBoost's in more than half of the base models, groupings and "
        "alphas",
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
        "pairs with the same seed, base model and setting (ties count half)",
        _beneficial,
        why=RHO_WHY,
    ),
)
