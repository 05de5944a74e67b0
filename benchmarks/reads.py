"""How often does a correction read an attribute that has no effect?

    python benchmarks/reads.py [--sets 40] [--seed 2000]

The score is off for women, or for everybody by the same line; race and payer, and in
the second world sex, have no effect. Prints, for each world and number of people, in
how many data sets the correction reads each."""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

import numpy as np
import pandas as pd

from propcal import PMCBoost
from propcal.core.logistic import expit

LEVELS = {
    "race": (["White", "Black", "Asian", "Other"], [0.6, 0.2, 0.15, 0.05]),
    "sex": (["F", "M"], [0.5, 0.5]),
    "payer": (["public", "private"], [0.5, 0.5]),
}


def world(kind: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Attributes, scores and outcomes."""
    rng = np.random.default_rng([seed, 7])
    frame = pd.DataFrame(
        {
            name: rng.choice(levels, n, p=share)
            for name, (levels, share) in LEVELS.items()
        }
    )
    x = rng.normal(-1.2, 1.3, n)
    wrong = x + 0.4 * (frame["sex"] == "F") if kind == "sex" else 1.25 * x + 0.25
    return frame, expit(np.asarray(wrong)), (rng.random(n) < expit(x)).astype(int)


def main(chosen: argparse.Namespace) -> None:
    for kind in ("sex", "everybody"):
        for n in (2_000, 10_000):
            found: Counter[str] = Counter()
            for seed in range(chosen.seed, chosen.seed + chosen.sets):
                frame, score, y = world(kind, n, seed)
                model = PMCBoost().fit(score, y, sensitive_features=frame)
                reads = model.correction_.reads
                without_effect = {*reads} - ({"sex"} if kind == "sex" else set())
                found.update(["changed"] * (model.n_updates_ > 0))
                found.update([*reads, *["any without effect"] * bool(without_effect)])
            print(f"{kind}, {n:,} people, {chosen.sets} sets:", dict(found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--seed", type=int, default=2000)
    warnings.simplefilter("ignore")
    main(parser.parse_args())
