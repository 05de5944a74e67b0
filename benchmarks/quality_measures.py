"""Measures of miscalibration: from outcomes, debiased and compared with chance, and
against the true risk.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from propcal.core.categories import bucket_sums, dc_of, mc_of, pmc_of
from propcal.core.groups import membership
from propcal.metrics import CategoryRule
from propcal.reading.rows import rows_to_atoms

ALPHA, RHO, DRAWS = 0.1, 0.1, 100


def judge(new: pd.DataFrame, score: np.ndarray, groups: list[str]) -> dict[str, float]:
    """Every measure of one corrected score on people who were not used to fit."""
    y = new["y"].to_numpy()
    atoms = rows_to_atoms(score, y, new[groups])
    table = CategoryRule(alpha=ALPHA, rho=RHO).table(atoms)
    found = {
        "auroc": float(roc_auc_score(y, score)),
        "brier": float(brier_score_loss(y, score)),
        "log_loss": float(log_loss(y, np.clip(score, 1e-6, 1 - 1e-6))),
        "mc": mc_of(table),
        "pmc": pmc_of(table, RHO),
        "dc": dc_of(table, RHO),
    }
    return found | (truth(new, score, groups) if "risk" in new else noise(atoms, table))


def noise(atoms, table) -> dict[str, float]:
    """The mean squared proportional gap minus what chance adds to it, and the losses of
    a perfect score.
    """
    chosen = table.eligible
    gap, rate, mean = (
        a[chosen] for a in (table.gap, table.outcome_rate, table.mean_score)
    )
    n = table.people[chosen]
    floor = np.maximum(rate, RHO)
    chance = mean * (1 - mean) / n
    debiased = float(
        np.average((gap**2 - chance) / np.maximum(mean, RHO) ** 2, weights=n)
    )
    inside = membership(table.collection.groups, atoms.patterns).astype(float)
    people, score = (
        bucket_sums(atoms, table.bins, c)
        for c in (atoms.people, atoms.weight * atoms.score / 2**32)
    )
    risk = np.divide(score, people, out=np.zeros(people.shape), where=people > 0)
    drawn = inside @ np.random.default_rng(0).binomial(
        people, np.clip(risk, 0, 1), (DRAWS, *people.shape)
    )
    drawn = drawn[:, chosen] / n
    gaps = np.abs(drawn - mean)
    return {
        "rms": float(np.sqrt(np.average((gap / floor) ** 2, weights=n))),
        "debiased": debiased,
        "mc_floor": float(gaps.max(axis=1).mean()),
        "pmc_floor": float((gaps / np.maximum(drawn, RHO)).max(axis=1).mean()),
    }


def truth(new: pd.DataFrame, score: np.ndarray, groups: list[str]) -> dict[str, float]:
    """Errors against the true risk, which replaces the outcome.

    Log loss is the expected one, given the true risks. PMC is also taken over cells of
    at least 1 % of the people, which few people in a cell do not dominate."""
    risk, clipped = new["risk"].to_numpy(), np.clip(score, 1e-6, 1 - 1e-6)
    atoms = rows_to_atoms(score, risk, new[groups])
    table = CategoryRule(alpha=ALPHA, rho=RHO).table(atoms)
    large = CategoryRule(alpha=ALPHA, rho=RHO, min_share=0.01).table(atoms)
    gap = table.gap[table.eligible] / np.maximum(
        table.outcome_rate[table.eligible], RHO
    )
    return {
        "true_log_loss": float(
            -np.mean(risk * np.log(clipped) + (1 - risk) * np.log1p(-clipped))
        ),
        "true_mse": float(np.mean((score - risk) ** 2)),
        "true_pmc": float(np.abs(gap).max()),
        "true_pmc_large": pmc_of(large, RHO),
        "true_mc": mc_of(table),
        "true_rms": float(np.sqrt(np.mean(gap**2))),
    }
