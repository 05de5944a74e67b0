"""Compares how well our method and others correct a score, on people with known risk and on real data.

make bench-quality, or
python benchmarks/quality.py [--repeats 20] [--only 1500 arrests ...] [--fresh]

Appends a line of JSON for each trial and method to benchmarks/results/quality.jsonl, so that an interrupted
run can be continued. `quality_report.py` turns the results into tables and a figure. The other methods are in
the dependency group `peers`. The hospital data (UCI, data set 296) are read from the folder in the
environment variable PROPCAL_DIABETES, if it is set.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from quality_measures import judge
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from propcal import PMCBoost
from propcal.core.logistic import expit, log_odds
from propcal.data.cohorts import TABLE_1

RESULTS = Path(__file__).parent / "results" / "quality.jsonl"
KINDS = ("perfect", "mild", "gross", "one intersection")
SIZES = {1_500: 1.0, 5_000: 1.0, 50_000: 1.0, 130_000: 0.1, 200_000: 0.25}  # people: share of the repeats
TEST_PEOPLE = 100_000
CELLS = [(race, sex, *cell) for race, pair in TABLE_1.items() for sex, cell in zip("FM", pair)]
SHARE = np.array([visits for *_, visits, _ in CELLS]) / sum(visits for *_, visits, _ in CELLS)
RATE = np.array([admitted / visits for *_, visits, admitted in CELLS])
SPREAD = 1.3  # standard deviation of true log-odds within a cell


def centre(rate: float) -> float:
    """The mean of log-odds for which the mean risk is the given rate."""
    ranks = SPREAD * np.random.default_rng(0).normal(size=5000)
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(ranks + middle).mean() < rate else (low, middle)
    return low


CENTRES = np.array([centre(rate) for rate in RATE])


def wrong_score(kind: str, seed: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Log-odds of a score from true log-odds and cell; its errors are drawn again for each seed."""
    rng = np.random.default_rng([seed, 1])
    race, sex = rng.uniform(-0.3, 0.3, 7), rng.uniform(-0.15, 0.15, 2)
    bend, turn = rng.uniform(-0.15, 0.15, 7), rng.uniform(-2, 2, 7)
    slope, offset = np.exp(rng.normal(0, 0.35, 14)), rng.normal(0, 0.35, 14)
    shift = rng.normal(0, 0.5, 7)
    small = [c for c in range(14) if 0.025 < SHARE[c] < 0.09][seed % 4]
    size = rng.choice([-0.8, 0.8])

    def mild(x, cell):
        wrong = race[cell // 2] + sex[cell % 2] + bend[cell // 2] * np.sin(x + turn[cell // 2])
        return x + np.clip(wrong, -0.3, 0.3)

    def gross(x, cell):
        return slope[cell] * (x + 1) - 1 + shift[cell // 2] + offset[cell]

    def one(x, cell):
        return x + size * (cell == small)

    return {"perfect": lambda x, _: x, "mild": mild, "gross": gross, "one intersection": one}[kind]


def people(n: int, kind: str, seed: int, part: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, 2 + part])
    cell = rng.choice(14, n, p=SHARE)
    x = CENTRES[cell] + SPREAD * rng.normal(size=n)
    frame = pd.DataFrame([c[:2] for c in CELLS], columns=["race", "sex"]).iloc[cell].reset_index(drop=True)
    frame["score"] = expit(wrong_score(kind, seed)(x, cell))
    frame["risk"] = expit(x)
    frame["y"] = (rng.random(n) < frame["risk"]).astype(int)
    return frame


# Each method takes people to learn from and the names of their group columns, and returns a function that
# corrects the scores of others.
Corrector = Callable[[pd.DataFrame], np.ndarray]


def base(_past: pd.DataFrame, _groups: list[str]) -> Corrector:
    return lambda new: new["score"].to_numpy()


def _x(frame: pd.DataFrame) -> np.ndarray:
    return log_odds(np.clip(frame["score"].to_numpy(), 1e-9, 1 - 1e-9))[:, None]


def platt(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    model = LogisticRegression(C=1e9).fit(_x(past), past["y"])
    return lambda new: model.predict_proba(_x(new))[:, 1]


def temperature(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    model = LogisticRegression(C=1e9, fit_intercept=False).fit(_x(past), past["y"])
    return lambda new: model.predict_proba(_x(new))[:, 1]


def isotonic(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    model = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(past["score"], past["y"])
    return lambda new: model.predict(new["score"])


def isotonic_per_group(past: pd.DataFrame, groups: list[str]) -> Corrector:
    everybody = isotonic(past, groups)
    own = {key: isotonic(part, groups) for key, part in past.groupby(groups, dropna=False)}

    def correct(new: pd.DataFrame) -> np.ndarray:
        result = everybody(new)
        for key, rows in new.groupby(groups, dropna=False).indices.items():
            if key in own:
                result[rows] = own[key](new.iloc[rows])
        return result

    return correct


def mcgrad(past: pd.DataFrame, groups: list[str]) -> Corrector:
    from mcgrad.methods import MCGrad

    model = MCGrad().fit(past, "score", "y", categorical_feature_column_names=groups)
    return lambda new: model.predict(new, "score", categorical_feature_column_names=groups)


def hkrr(past: pd.DataFrame, groups: list[str]) -> Corrector:
    """Its `predict` loops over people, so it scores 400 points per pattern, and shifts are interpolated."""
    from multicalibration import MulticalibrationPredictor

    def members(frame: pd.DataFrame) -> list[list[int]]:
        marginal = [list(np.flatnonzero(frame[g] == level)) for g in groups for level in levels[g]]
        return marginal + [list(np.flatnonzero(codes(frame) == p)) for p in range(len(patterns))]

    def codes(frame: pd.DataFrame) -> np.ndarray:
        return patterns.get_indexer(pd.MultiIndex.from_frame(frame[groups]))

    levels = {g: sorted(past[g].unique()) for g in groups}
    patterns = pd.MultiIndex.from_frame(past[groups].drop_duplicates())
    model = MulticalibrationPredictor("HKRR")
    rule = {"lambda": 0.1, "alpha": 0.1, "max_iter": 100, "randomized": False, "use_oracle": False}
    model.fit(past["score"].to_numpy(), past["y"].to_numpy(), members(past), rule)
    at = (np.arange(400) + 0.5) / 400
    asked = patterns.to_frame(index=False).loc[np.repeat(np.arange(len(patterns)), len(at))]
    asked = asked.reset_index(drop=True).assign(score=np.tile(at, len(patterns)))
    shift = (model.predict(asked["score"].to_numpy(), members(asked)) - asked["score"].to_numpy()).reshape(
        -1, 400
    )

    def correct(new: pd.DataFrame) -> np.ndarray:
        code, score = codes(new), new["score"].to_numpy()
        moved = score + shift[code, np.minimum((score * 400).astype(int), 399)]
        return np.where(code < 0, score, np.clip(moved, 0, 1))

    return correct


def _ours(model: PMCBoost) -> Callable[[pd.DataFrame, list[str]], Corrector]:
    def learn(past: pd.DataFrame, groups: list[str]) -> Corrector:
        model.fit(past["score"], past["y"], sensitive_features=past[groups])
        return lambda new: model.predict(new["score"], sensitive_features=new[groups])

    return learn


METHODS: dict[str, Callable[[pd.DataFrame, list[str]], Corrector]] = {
    "base": base,
    "Platt": platt,
    "temperature": temperature,
    "isotonic": isotonic,
    "isotonic per group": isotonic_per_group,
    "HKRR": hkrr,
    "MCGrad": mcgrad,
    "propcal, paper": _ours(PMCBoost.paper()),
    "propcal": _ours(PMCBoost()),
}
REPEATS_OF_HKRR = 5  # fewer, because it loops over people and takes a hundred times as long


def trials(repeats: int) -> Iterator[tuple[str, str, int, Callable[[], tuple]]]:
    """The name of the data, kind, repeat, and a function that makes (past, new, group columns)."""
    from quality_data import arrests, diabetes

    for n, share in SIZES.items():
        for repeat in range(max(int(repeats * share), 1)):
            for kind in KINDS:
                yield (
                    f"{n:,}",
                    kind,
                    repeat,
                    lambda: (
                        people(n, kind, repeat, 0),
                        people(TEST_PEOPLE, kind, repeat, 1),
                        ["race", "sex"],
                    ),
                )
    for repeat in range(repeats):
        yield "arrests", "real", repeat, lambda: arrests(repeat)
    if folder := os.environ.get("PROPCAL_DIABETES"):
        for repeat in range(max(repeats // 2, 1)):
            yield "diabetes", "real", repeat, lambda: diabetes(Path(folder), repeat)


def run(repeats: int, only: list[str]) -> None:
    done = set()
    if RESULTS.exists():
        lines = map(json.loads, RESULTS.read_text().splitlines())
        done = {(line["data"], line["kind"], line["repeat"], line["method"]) for line in lines}
    warm, few = people(2000, "gross", 0, 0), ["race", "sex"]
    for method in ("propcal", "propcal, paper"):  # compile first, so that compilation is not timed
        METHODS[method](warm, few)(warm)
    for data, kind, repeat, make in trials(repeats):
        if only and data.replace(",", "") not in only:
            continue
        missing = [name for name in METHODS if (data, kind, repeat, name) not in done]
        if (data not in ("1,500", "5,000", "arrests")) or repeat >= REPEATS_OF_HKRR:
            missing = [name for name in missing if name != "HKRR"]
        if not missing:
            continue
        past, new, groups = make()
        for name in missing:
            began = perf_counter()
            correct = METHODS[name](past, groups)
            seconds = perf_counter() - began
            found = judge(new, correct(new), groups)
            line = {"data": data, "kind": kind, "repeat": repeat, "method": name, "seconds": seconds, **found}
            with RESULTS.open("a") as file:
                file.write(json.dumps(line) + "\n")
        print(data, kind, repeat, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=[], help="sizes or names of data, such as 1500 arrests")
    parser.add_argument("--fresh", action="store_true", help="forget the results so far")
    arguments = parser.parse_args()
    if arguments.fresh:
        RESULTS.unlink(missing_ok=True)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # other methods warn about their own settings
    with threadpool_limits(1):
        run(arguments.repeats, arguments.only)
