"""Times a default fit by the number of combinations of attributes, in processor time.

python benchmarks/default_fit.py [--rows 173561] python benchmarks/default_fit.py
--mcgrad    (both in one process, at 50,000 rows; needs the group `peers`)"""

from __future__ import annotations

import argparse
import logging
import warnings
from time import process_time

import numpy as np
import pandas as pd
from quality_kinds import shifted
from threadpoolctl import threadpool_limits

from propcal import PMCBoost
from propcal.core.logistic import expit

REPEATS = 3
AGAINST = ("gross", "mild", "overall off", "steps")


def crossed(n: int, patterns: int) -> tuple[pd.DataFrame, list[str]]:
    """People with three attributes that make so many patterns; the score is wrong by
    the first of them.
    """
    rng = np.random.default_rng(0)
    levels = round(patterns ** (1 / 3))
    frame = pd.DataFrame({name: rng.integers(0, levels, n) for name in "uvw"})
    x, wrong = rng.normal(-1.2, 1.3, n), rng.normal(0, 0.2, levels)
    frame["score"], frame["y"] = (
        expit(x + wrong[frame["u"]]),
        (rng.random(n) < expit(x)).astype(int),
    )
    return frame, list("uvw")


def main(n: int) -> None:
    for patterns in (14, 2000, 8000):
        frame, groups = (
            (shifted("gross", n, 0, 0), ["race", "sex"])
            if patterns == 14
            else crossed(n, patterns)
        )
        times = []
        for _ in range(REPEATS + 1):  # the first one compiles
            began = process_time()
            PMCBoost().fit(
                frame["score"], frame["y"], sensitive_features=frame[groups].astype(str)
            )
            times.append(process_time() - began)
        print(f"{patterns:,} patterns: {min(times[1:]):.2f} s")


def against_mcgrad(n: int = 50_000) -> None:
    """Processor time of both methods on the same people, in turns; the best run of each
    counts.
    """
    from quality import METHODS

    groups = ["race", "sex"]
    METHODS["propcal"](shifted("gross", 2000, 0, 0), groups)  # compiles
    for kind in AGAINST:
        past = shifted(kind, n, 1000, 0)
        times: dict[str, list[float]] = {"propcal": [], "MCGrad": []}
        for name in (
            "propcal",
            "MCGrad",
            "propcal",
            "propcal",
            "MCGrad",
            "propcal",
            "propcal",
        ):
            began = process_time()
            METHODS[name](past, groups)
            times[name].append(process_time() - began)
        ours, theirs = min(times["propcal"]), min(times["MCGrad"])
        print(
            f"{kind}: MCGrad {theirs:.2f} s, propcal {ours:.3f} s, ratio {theirs / ours:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=173_561)
    parser.add_argument("--mcgrad", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # MCGrad warns about its own settings
    with threadpool_limits(1):
        against_mcgrad() if arguments.mcgrad else main(arguments.rows)
