"""Sites: coverage of prediction intervals, perfect scores at small sites, shared atoms
against exact ones.

python benchmarks/sites.py [--draws 400] [--seed 2000] [--only shared]

Settings were chosen on other seeds. Writes benchmarks/results/sites.json.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from propcal import Atoms, audit, compare_sites
from propcal.auditing.loss_intervals import shared_bounds
from propcal.datasets import make_ed_visits
from propcal.sites.between_sites import random_effects

RESULTS = Path(__file__).parent / "results" / "sites.json"


def coverage(n_sites, tau, draws, seed):
    """The share of new sites that prediction intervals hold, and of means that
    intervals hold.

    Sites have 300 to 5,000 people and an event rate of 30 %; log O/E differs between
    them by tau."""
    rng = np.random.default_rng([seed, n_sites, int(1000 * tau)])
    new, usual, mean = [], [], []
    for _ in range(draws):
        variance = 0.7 / (0.3 * rng.integers(300, 5000, n_sites))
        estimate = rng.normal(0, tau, n_sites) + rng.normal(0, np.sqrt(variance))
        found = random_effects(estimate, variance)
        reach = stats.t.ppf(0.975, n_sites - 2) * np.sqrt(found.tau2 + found.error**2)
        ends = (
            (found.prediction_low, found.prediction_high),
            (found.mean - reach, found.mean + reach),
        )
        for (low, high), held in zip(ends, (new, usual)):
            held.append(
                float(low <= 0 <= high)
                if tau == 0
                else np.diff(stats.norm.cdf([low / tau, high / tau]))[0]
            )
        mean.append(found.low <= 0 <= found.high)
    return {
        "sites": n_sites,
        "tau": tau,
        "prediction interval": float(np.mean(new)),
        "usual prediction interval (Higgins)": float(np.mean(usual)),
        "interval of the mean": float(np.mean(mean)),
    }


def perfect(sizes, shape, draws, seed):
    """How often anything is claimed of a perfect score, and the mean over sites, with
    its interval.
    """
    rng = np.random.default_rng(
        [seed, len(sizes), sum(sizes), *(int(10 * part) for part in shape)]
    )
    site = np.repeat([f"site {i}" for i in range(len(sizes))], sizes)
    wrong, held, mean = 0, [], []
    for _ in range(draws):
        risk = rng.beta(*shape, len(site))
        frame = pd.DataFrame(
            {
                "site": site,
                "risk": risk,
                "y": (rng.random(len(site)) < risk).astype(int),
            }
        )
        found = compare_sites(
            Atoms.from_frame(frame, score="risk", outcome="y", site="site")
        )
        wrong += found.conclusion == "miscalibrated"
        if "observed_expected" in found.summary.index:
            row = found.summary.loc["observed_expected"]
            held.append(row["low"] <= 1 <= row["high"])
            mean.append(row["mean"])
    return {
        "people of sites": [sizes[0], sizes[-1]],
        "sites": len(sizes),
        "rate": round(shape[0] / sum(shape), 2),
        "any claim": wrong / draws,
        "interval of the mean contains 1": float(np.mean(held)) if held else None,
        "median of the mean O/E": float(np.median(mean)) if mean else None,
    }


PERFECT = (
    ([500] * 4, (2, 4)),
    ([50] * 30, (2, 4)),
    ([20] * 30, (2, 4)),
    ([500] * 10 + [5] * 20, (2, 4)),
    ([200] * 20, (1, 19)),
    ([1000] * 10, (1, 49)),
)


def data_sets(seed):
    """Twenty: simulated emergency visits of several sizes, and scores of several
    shapes.
    """
    for i, n in enumerate((2000, 5000, 10_000, 20_000, 50_000)):
        for wrong in (1.0, 0.85):
            visits = make_ed_visits(n, seed=seed + i)
            score = np.clip(visits.true_risk / wrong, 0, 1)
            yield (
                f"visits {n} x {wrong}",
                visits[["race", "gender"]].assign(score=score, y=visits.admitted),
            )
    for i, (a, b) in enumerate([(1.3, 4), (0.5, 20), (3, 2), (1, 1), (2, 30)]):
        for n in (5000, 30_000):
            rng = np.random.default_rng([seed, i, n])
            score = rng.beta(a, b, n)
            groups = {
                "race": rng.choice(list("ABCD"), n, p=[0.6, 0.3, 0.08, 0.02]),
                "gender": rng.choice(["F", "M"], n),
            }
            y = (
                rng.random(n) < score * np.where(groups["race"] == "B", 0.8, 1)
            ).astype(int)
            yield f"Beta({a}, {b}), {n}", pd.DataFrame(groups).assign(score=score, y=y)


def shared(seed):
    rows = []
    for name, frame in data_sets(seed):
        atoms = Atoms.from_frame(
            frame, score="score", outcome="y", groups=["race", "gender"]
        )
        cells = atoms.share()
        exact, merged = audit(atoms, n_draws=100), audit(cells, n_draws=100)
        both = exact.groups[exact.groups.kept].merge(
            merged.groups[merged.groups.kept], on="group"
        )
        everybody = both.iloc[0]
        bounds = shared_bounds(cells)
        rows.append(
            {
                "data": name,
                "people": len(frame),
                "atoms": len(atoms),
                "cells": len(cells),
                "groups kept": f"{len(both)} of {int(exact.groups.kept.sum())}",
                "O/E, largest relative difference": float(
                    (both.observed_expected_x / both.observed_expected_y - 1)
                    .abs()
                    .max()
                ),
                "slope, everybody": float(everybody.slope_x - everybody.slope_y),
                "intercept, everybody": float(
                    everybody.intercept_x - everybody.intercept_y
                ),
                "AUROC, exact": float(everybody.auroc_x),
                "AUROC, shared": float(everybody.auroc_y),
                "AUROC, printed bounds": [round(x, 4) for x in bounds.auroc],
                "AUROC, largest difference of a group": float(
                    (both.auroc_x - both.auroc_y).abs().max()
                ),
                "Brier, exact": float(everybody.brier_x),
                "Brier, shared": float(everybody.brier_y),
                "Brier, printed bounds": [round(x, 4) for x in bounds.brier],
                "same verdict": exact.verdict.conclusion == merged.verdict.conclusion,
            }
        )
    return rows


def hospitals(seed, repeats):
    """Five hospitals of 6,000 to 14,000 people, as in the guide: exact and shared
    measures of each site.
    """
    factor = {"North": 1.25, "South": 1.15, "East": 1.3, "West": 1.2, "Centre": 1.1}
    rows = []
    for repeat in range(repeats):
        exact = []
        for number, (name, too_high) in enumerate(factor.items()):
            visits = make_ed_visits(
                6000 + 2000 * number, seed=seed + 10 * repeat + number
            )
            visits["risk"] = np.clip(visits.true_risk * too_high, 0, 0.97)
            columns = {
                "score": "risk",
                "outcome": "admitted",
                "groups": ["race", "gender"],
            }
            exact.append(Atoms.from_frame(visits, **columns, site=name))
        one, other = (
            compare_sites(sum(exact)),
            compare_sites(sum(part.share() for part in exact)),
        )
        row = {"repeat": repeat}
        for measure in ("observed_expected", "intercept", "slope", "auroc"):
            difference = one.sites[measure] - other.sites[measure]
            row[f"{measure}, largest difference of a site"] = float(
                difference.abs().max()
            )
            row[f"{measure}, new site"] = [
                [
                    round(float(found.summary[f"prediction_{end}"][measure]), 3)
                    for end in ("low", "high")
                ]
                for found in (one, other)
            ]
        inside = one.sites.auroc.between(other.sites.auroc_low, other.sites.auroc_high)
        row["AUROC within the shared interval, of 5"] = int(inside.sum())
        row["same findings"] = (
            one.sites["finding"].tolist() == other.sites["finding"].tolist()
        )
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument(
        "--only", choices=["shared"], help="keep the coverage that was measured before"
    )
    options = parser.parse_args()
    result = {
        "seed": options.seed,
        "draws": options.draws,
        "shared atoms": shared(options.seed),
    }
    result["five hospitals"] = hospitals(options.seed, 20)
    result["perfect scores"] = [
        perfect(*about, options.draws // 2, options.seed) for about in PERFECT
    ]
    print(json.dumps(result, indent=1), flush=True)
    if options.only:
        before = json.loads(RESULTS.read_text())
        result |= {"draws": before["draws"], "coverage": before["coverage"]}
    else:
        result["coverage"] = [
            coverage(n, tau, options.draws, options.seed)
            for tau in (0.0, 0.03, 0.05, 0.1, 0.2)
            for n in (8, 15, 30)
        ]
    print(json.dumps(result["coverage"], indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
