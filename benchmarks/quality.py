"""Compares how well our method and others correct a score, on people with known risk
and on real data.

make bench-quality, or
python benchmarks/quality.py [--seeds 2000] [--repeats 6] [--only 1500 arrests ...]
    [--kinds "mild,overall off"] [--minutes 60] [--fresh]

Appends a line of JSON for each trial and method to benchmarks/results/quality.jsonl, so
that an interrupted run can be continued. `quality_report.py` turns the results into
tables and a figure. The kinds of scores are in `quality_kinds.py`; settings were chosen
on seeds 1000 to 1011, and reported once on seeds from 2000. The other methods are in
the dependency group `peers`. The hospital data (UCI, data set 296) are read from the
folder in the environment variable PROPCAL_DIABETES, if it is set."""

from __future__ import annotations

import argparse
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from quality_kinds import KINDS, generate, log_odds_of, shifted
from quality_measures import judge
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from propcal import PMCBoost

RESULTS = Path(__file__).parent / "results" / "quality.jsonl"
SIZES = {
    (500, 1_500, 5_000): 1.0,
    (50_000,): 0.5,
    (200_000,): 0.34,
}  # people: share of the repeats
FIRST_SEED = 2000


# Each method takes people to learn from and the names of their group columns, and
# returns a function that corrects the scores of others.
Corrector = Callable[[pd.DataFrame], np.ndarray]


def base(_past: pd.DataFrame, _groups: list[str]) -> Corrector:
    return lambda new: new["score"].to_numpy()


def logistic(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    """Logistic recalibration: an intercept and a slope (Platt scaling)."""
    model = LogisticRegression(C=1e9).fit(log_odds_of(past), past["y"])
    return lambda new: model.predict_proba(log_odds_of(new))[:, 1]


def beta(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    from betacal import BetaCalibration

    model = BetaCalibration(parameters="abm").fit(
        past["score"].to_numpy(), past["y"].to_numpy()
    )
    return lambda new: model.predict(new["score"].to_numpy())


def venn_abers(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    """Inductive Venn-Abers; scores to predict are rounded to six decimals, which limits
    its time.
    """
    from venn_abers import VennAbers

    def two(score: np.ndarray) -> np.ndarray:
        return np.stack([1 - score, score], axis=1)

    model = VennAbers()
    model.fit(two(past["score"].to_numpy()), past["y"].to_numpy(), precision=6)

    def correct(new: pd.DataFrame) -> np.ndarray:
        risk, _ = model.predict_proba(two(new["score"].to_numpy()))
        return np.asarray(risk)[:, 1]

    return correct


def isotonic(past: pd.DataFrame, _groups: list[str]) -> Corrector:
    model = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(
        past["score"], past["y"]
    )
    return lambda new: model.predict(new["score"])


def isotonic_per_group(past: pd.DataFrame, groups: list[str]) -> Corrector:
    everybody = isotonic(past, groups)
    own = {
        key: isotonic(part, groups) for key, part in past.groupby(groups, dropna=False)
    }

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
    return lambda new: model.predict(
        new, "score", categorical_feature_column_names=groups
    )


def hkrr(past: pd.DataFrame, groups: list[str]) -> Corrector:
    """Its `predict` loops over people, so it scores 400 points per pattern, and shifts
    are interpolated.
    """
    from multicalibration import MulticalibrationPredictor

    def members(frame: pd.DataFrame) -> list[list[int]]:
        marginal = [
            list(np.flatnonzero(frame[g] == level))
            for g in groups
            for level in levels[g]
        ]
        return marginal + [
            list(np.flatnonzero(codes(frame) == p)) for p in range(len(patterns))
        ]

    def codes(frame: pd.DataFrame) -> np.ndarray:
        return patterns.get_indexer(pd.MultiIndex.from_frame(frame[groups]))

    levels = {g: sorted(past[g].unique()) for g in groups}
    patterns = pd.MultiIndex.from_frame(past[groups].drop_duplicates())
    model = MulticalibrationPredictor("HKRR")
    rule = {
        "lambda": 0.1,
        "alpha": 0.1,
        "max_iter": 100,
        "randomized": False,
        "use_oracle": False,
    }
    model.fit(past["score"].to_numpy(), past["y"].to_numpy(), members(past), rule)
    at = (np.arange(400) + 0.5) / 400
    asked = patterns.to_frame(index=False).loc[
        np.repeat(np.arange(len(patterns)), len(at))
    ]
    asked = asked.reset_index(drop=True).assign(score=np.tile(at, len(patterns)))
    shift = (
        model.predict(asked["score"].to_numpy(), members(asked))
        - asked["score"].to_numpy()
    ).reshape(-1, 400)

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
    "logistic": logistic,
    "isotonic": isotonic,
    "isotonic per group": isotonic_per_group,
    "beta": beta,
    "Venn-Abers": venn_abers,
    "HKRR": hkrr,
    "MCGrad": mcgrad,
    "propcal, paper": _ours(PMCBoost.paper()),
    "propcal": _ours(PMCBoost()),
}
# methods that take very long run on small data only, and on a few of the repeats
LIMITS = {"HKRR": (5_000, 3), "Venn-Abers": (50_000, np.inf)}


def trials(
    first: int, repeats: int
) -> Iterator[tuple[str, str, int, Callable[[], tuple]]]:
    """The name of the data, kind, seed, and a function that makes (past, new, group
    columns).
    """
    from quality_data import arrests, diabetes

    for sizes in SIZES:
        for repeat in range(max(round(repeats * SIZES[sizes]), 1)):
            for kind in KINDS:
                for n in sizes:
                    yield (
                        f"{n:,}",
                        kind,
                        first + repeat,
                        lambda: generate(kind, n, first + repeat),
                    )
    for repeat in range(repeats):
        yield "arrests", "real", first + repeat, lambda: arrests(first + repeat)
    folder = os.environ.get("PROPCAL_DIABETES")
    for repeat in range(max(repeats // 2, 1) if folder else 0):
        yield (
            "diabetes",
            "real",
            first + repeat,
            lambda: diabetes(Path(folder), first + repeat),
        )


def run(
    first: int,
    repeats: int,
    only: list[str],
    kinds: str,
    without: list[str],
    minutes: float,
) -> None:
    began = perf_counter()
    done = set()
    if RESULTS.exists():
        lines = map(json.loads, RESULTS.read_text().splitlines())
        done = {
            (line["data"], line["kind"], line["seed"], line["method"]) for line in lines
        }
    warm = shifted("gross", 2000, 0, 0)
    for method in (
        "propcal",
        "propcal, paper",
    ):  # compile first, so that compilation is not timed
        METHODS[method](warm, ["race", "sex"])(warm)
    for data, kind, seed, make in trials(first, repeats):
        if (
            only and data.replace(",", "") not in only
        ) or perf_counter() - began > 60 * minutes:
            continue
        if kinds and kind not in kinds.split(","):
            continue
        missing = [
            name
            for name in METHODS
            if (data, kind, seed, name) not in done
            and name not in without
            and not _too_long(name, data, seed - first)
        ]
        if not missing:
            continue
        past, new, groups = make()
        for name in missing:
            start = process_time()  # one thread, on a machine that may be busy
            correct = METHODS[name](past, groups)
            seconds = process_time() - start
            found = judge(new, correct(new), groups)
            line = {
                "data": data,
                "kind": kind,
                "seed": seed,
                "method": name,
                "seconds": seconds,
                **found,
            }
            with RESULTS.open("a") as file:
                file.write(
                    json.dumps({key: _short(value) for key, value in line.items()})
                    + "\n"
                )
        print(data, kind, seed, flush=True)


def _short(value):
    """Seven digits are enough."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _too_long(name: str, data: str, repeat: int) -> bool:
    people, repeats = LIMITS.get(name, (np.inf, np.inf))
    return repeat >= repeats or (
        data[0].isdigit() and int(data.replace(",", "")) > people
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="sizes or names of data, such as 1500 arrests",
    )
    parser.add_argument(
        "--kinds", default="", help="kinds of scores, separated by commas"
    )
    parser.add_argument("--without", nargs="*", default=[], help="methods to leave out")
    parser.add_argument(
        "--minutes", type=float, default=600, help="begin no trial after this time"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget the results so far"
    )
    arguments = parser.parse_args()
    if arguments.fresh:
        RESULTS.unlink(missing_ok=True)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # other methods warn about their own settings
    with threadpool_limits(1):
        run(
            arguments.seeds,
            arguments.repeats,
            arguments.only,
            arguments.kinds,
            arguments.without,
            arguments.minutes,
        )
