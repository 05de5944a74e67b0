"""The ends of a score: piles of scores of exactly 0 and 1, and scores that a forest squeezed together.

    python benchmarks/ends.py [--worlds "piles;squeezed"] [--sets 12] [--seed 2000] [--mcgrad]

Prints, for each world and method: expected log loss above that of the true risk (x 10,000), PMC and rms error
against the true risk, and the mean corrected score of people with a score of 1 and of 0. `spline` is one
plain spline for everybody. Settings were chosen on seeds from 1,000, and reported on seeds from 2,000.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from functools import partial

import numpy as np
import pandas as pd
from quality import mcgrad
from quality_measures import truth
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from propcal import PMCBoost
from propcal.core.logistic import expit, log_odds

GROUPS = ["race", "sex"]
NEW = 40_000


def piles(
    rng, n, ones=0.007, zeros=0.0, rate_of_ones=0.95, rate_of_zeros=0.03
) -> pd.DataFrame:
    """A score that is off for everybody and one race, and exactly 0 or 1 for some."""
    race, sex = (
        rng.choice(list("abcd"), n, p=[0.6, 0.2, 0.15, 0.05]),
        rng.choice(list("FM"), n),
    )
    x = rng.normal(-0.1, 1.4, n)
    score, risk, pile = (
        expit(1.1 * x + 0.15 + 0.25 * (race == "b")),
        expit(x),
        rng.random(n),
    )
    score[pile < ones], risk[pile < ones] = 1.0, rate_of_ones
    score[pile > 1 - zeros], risk[pile > 1 - zeros] = 0.0, rate_of_zeros
    return with_outcome(race, sex, score, risk, rng)


def squeezed(rng, n) -> pd.DataFrame:
    """Scores from 0.115 on, for true risks from 0.005 on; the score does not know race
    and sex.
    """
    race = rng.choice(
        ["White", "Black", "Asian", "Other"], n, p=[0.7, 0.17, 0.08, 0.05]
    )
    sex = rng.choice(list("FM"), n)
    known = rng.normal(-1.6, 1.3, n)
    score = 0.115 + 0.55 * expit(known + 0.15 * rng.normal(size=n)) ** 1.15
    return with_outcome(
        race,
        sex,
        score,
        expit(known + 0.3 * (race == "Black") - 0.2 * (sex == "F")),
        rng,
    )


def with_outcome(race, sex, score, risk, rng) -> pd.DataFrame:
    y = (rng.random(len(risk)) < risk).astype(int)
    return pd.DataFrame(
        {"race": race, "sex": sex, "score": score, "risk": risk, "y": y}
    )


WORLDS = {
    "piles": (piles, 4_552),
    "piles at both ends": (partial(piles, ones=0.02, zeros=0.03), 4_552),
    "piles that are right": (
        partial(piles, zeros=0.02, rate_of_ones=1.0, rate_of_zeros=0.0),
        4_552,
    ),
    "piles on the wrong side": (
        partial(piles, zeros=0.03, rate_of_ones=0.6, rate_of_zeros=0.3),
        4_552,
    ),
    "squeezed": (squeezed, 58_000),
    "squeezed, 4,000 people": (squeezed, 4_000),
}


def spline(past: pd.DataFrame, new: pd.DataFrame) -> np.ndarray:
    def columns(frame: pd.DataFrame) -> np.ndarray:
        return log_odds(np.clip(frame["score"].to_numpy(), 1e-3, 1 - 1e-3))[:, None]

    bends = SplineTransformer(6, knots="quantile", extrapolation="linear")
    model = make_pipeline(bends, LogisticRegression(C=100.0, max_iter=2000)).fit(
        columns(past), past["y"]
    )
    return model.predict_proba(columns(new))[:, 1]


def ours(past: pd.DataFrame, new: pd.DataFrame) -> np.ndarray:
    model = PMCBoost().fit(past["score"], past["y"], sensitive_features=past[GROUPS])
    return model.predict(new["score"], sensitive_features=new[GROUPS])


def main(chosen: argparse.Namespace) -> None:
    methods = {
        "raw": lambda _, new: new["score"].to_numpy(),
        "propcal": ours,
        "spline": spline,
    }
    if chosen.mcgrad:
        methods["MCGrad"] = lambda past, new: mcgrad(past, GROUPS)(new)
    for world in chosen.worlds.split(";") if chosen.worlds else WORLDS:
        make, n = WORLDS[world]
        rows = []
        for seed in range(chosen.seed, chosen.seed + chosen.sets):
            past, new = (
                make(np.random.default_rng([seed, 1]), n),
                make(np.random.default_rng([seed, 2]), NEW),
            )
            best = truth(new, new["risk"].to_numpy(), GROUPS)["true_log_loss"]
            for name, method in methods.items():
                score = method(past, new)
                found = truth(new, score, GROUPS)
                row = {"method": name, "excess": 1e4 * (found["true_log_loss"] - best)}
                row |= {"PMC": found["true_pmc_large"], "rms": found["true_rms"]}
                row |= {
                    f"score {k}": score[new["score"] == k].mean()
                    for k in (0, 1)
                    if k in set(new["score"])
                }
                rows.append(row)
        print(world)
        print(
            pd.DataFrame(rows)
            .groupby("method", sort=False)
            .mean()
            .round(4)
            .to_string(),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--worlds", help="names, separated by semicolons")
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--seed", type=int, default=2_000)
    parser.add_argument("--mcgrad", action="store_true")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    main(parser.parse_args())
