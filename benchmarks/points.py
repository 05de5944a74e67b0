"""Points: do they help people who were left out, leave a perfect score alone, and take little time?

    python benchmarks/points.py real [--mcgrad] [--only adult,law] --sets 5
    python benchmarks/points.py perfect --sets 200         # perfect scores: how often are points given?
    python benchmarks/points.py perfect --sets 1000 --curves    # how often is anything else changed?
    python benchmarks/points.py speed [--mcgrad]

`real` has the sets of benchmarks/discover.py, which says where they come from, and one of scikit-learn. A
third of each makes the score, a third corrects it, and a third judges. Scores: a weak
model (logistic regression), a competent one (boosted trees), and one as a vendor sells it: the logistic
regression of a few columns, as a score from 1 to 10 that is rescaled to risks. Settings were chosen on seeds
below 1,000; sets begin with seed 1,000. Each line is JSON, the mean over so many random divisions; losses
are log losses times 1,000. A difference from the raw score or from MCGrad is level if it is within one
paired standard error, over people and divisions.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings

import numpy as np
import pandas as pd
from discover import _losses, _mcgrad, features, real_sets
from scipy.special import expit, logit
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import PMCBoost


def scores(
    strength: str, coded: pd.DataFrame, y: np.ndarray, past: np.ndarray
) -> np.ndarray:
    """The risks of a weak, a competent or a vendor's model that was made from some of
    the rows.
    """
    if strength == "competent":
        model = HistGradientBoostingClassifier(max_iter=150, random_state=0)
        return model.fit(coded[past], y[past]).predict_proba(coded)[:, 1]
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    if strength == "vendor":
        coded = coded[list(coded)[: max(len(list(coded)) // 4, 2)]]
    risk = linear.fit(coded[past], y[past]).predict_proba(coded)[:, 1]
    if strength == "weak":
        return risk
    decile = np.ceil(10 * pd.Series(risk).rank(pct=True).to_numpy())
    return decile / 11


def sets():
    yield from real_sets()
    cancer = load_breast_cancer(as_frame=True)
    yield "breast cancer", cancer.data, 1 - cancer.target.to_numpy()


def run_real(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    for name, frame, outcome in sets():
        if args.only and name not in args.only.split(","):
            continue
        y = np.asarray(outcome).astype(int)
        coded = pd.get_dummies(frame).astype(float).fillna(0)
        for strength in ("vendor", "weak", "competent"):
            splits = [
                one_split(
                    args,
                    frame.reset_index(drop=True),
                    y,
                    coded,
                    strength,
                    args.seed + k,
                )
                for k in range(args.sets)
            ]
            row = {
                key: float(np.mean([found[key] for found, _ in splits]))
                for key in splits[0][0]
            }
            row = {key: round(value, 2) for key, value in row.items()}
            for other in splits[0][1]:
                row |= compared(
                    other, [differences[other] for _, differences in splits]
                )
            print(
                json.dumps({"data": name, "score": strength, "rows": len(y), **row}),
                flush=True,
            )


def compared(
    other: str, differences: list[tuple[np.ndarray, np.ndarray]]
) -> dict[str, float | str]:
    """Points minus another score, of the people of each division, with the standard
    error of the mean.

    Its variance is that of people, who are judged in several divisions, and that of
    divisions, less what both count."""
    person, split = [
        np.concatenate([pair[0] for pair in differences]),
        np.repeat(np.arange(len(differences)), [len(pair[0]) for pair in differences]),
    ]
    gap = np.concatenate([pair[1] for pair in differences])
    rest = gap - gap.mean()
    people = np.sum(np.bincount(person, rest) ** 2)
    variance = max(
        people + np.sum(np.bincount(split, rest) ** 2) - np.sum(rest**2), people
    )
    error = float(np.sqrt(variance)) / len(gap)
    said = (
        "level" if abs(gap.mean()) <= error else "lower" if gap.mean() < 0 else "higher"
    )
    return {
        f"minus {other}": round(float(gap.mean()), 2),
        f"SE, {other}": round(error, 2),
        f"than {other}": said,
    }


def one_split(
    args, frame, y, coded, strength: str, seed: int
) -> tuple[dict[str, float], dict]:
    """What was found in one division, and for raw score and MCGrad the people judged
    and the differences.
    """
    part = np.random.default_rng(seed).integers(0, 3, len(y))
    risk = scores(strength, coded, y, part == 0)
    past, new = part == 1, part == 2
    raw = _losses(y[new], risk[new])
    found = {"raw": 1000 * raw.mean()}
    start = time.process_time()
    model = PMCBoost(features=list(frame)).fit(
        risk[past], y[past], sensitive_features=frame[past]
    )
    found["seconds"] = time.process_time() - start
    ours = _losses(y[new], model.predict(risk[new], sensitive_features=frame[new]))
    differences = {"raw": (np.flatnonzero(new), 1000 * (ours - raw))}
    found |= {
        "points": 1000 * ours.mean(),
        "features with points": 0
        if model.correction_.points is None
        else len(model.correction_.points.features),
    }
    curve = PMCBoost().fit(risk[past], y[past])
    found["curve alone"] = 1000 * _losses(y[new], curve.predict(risk[new])).mean()
    if args.discover:
        groups = PMCBoost(discover=list(frame)).fit(
            risk[past], y[past], sensitive_features=frame[past]
        )
        corrected = groups.predict(risk[new], sensitive_features=frame[new])
        found["discover"] = 1000 * _losses(y[new], corrected).mean()
    if args.mcgrad:
        start = time.process_time()
        theirs = _mcgrad(frame[past], risk[past], y[past], frame[new], risk[new])
        found["mcgrad seconds"] = time.process_time() - start
        theirs = _losses(y[new], theirs)
        found["mcgrad"] = 1000 * theirs.mean()
        differences["mcgrad"] = (np.flatnonzero(new), 1000 * (ours - theirs))
    return found, differences


def run_perfect(args: argparse.Namespace) -> None:
    """Perfect scores of several sizes and rates: how often are points given, or
    anything changed?
    """
    changed, points, worst = 0, 0, -np.inf
    for seed in range(args.seed, args.seed + args.sets):
        rng = np.random.default_rng(seed)
        frame = features(rng, (1_000, 3_000, 10_000)[seed % 3])
        risk = expit(rng.normal((-1.0, -2.5)[seed % 2], 1, len(frame)))
        y = (rng.random(len(risk)) < risk).astype(int)
        if args.curves:
            changed += PMCBoost().fit(risk, y).n_updates_ > 0
            continue
        model = PMCBoost(features=list(frame)).fit(risk, y, sensitive_features=frame)
        points += model.correction_.points is not None
        changed += model.n_updates_ > 0
        worst = max(worst, model.fit_summary_.gains.points_z)
    row = {"sets": args.sets, "changed": changed}
    if not args.curves:
        row |= {"points given": points, "largest gain in SE": round(worst, 2)}
    print(json.dumps(row), flush=True)


def run_speed(args: argparse.Namespace) -> None:
    for n, columns in ((1_000, 30), (100_000, 40), (1_000_000, 40)):
        rng = np.random.default_rng(args.seed)
        frame = pd.concat(
            [features(rng, n), features(rng, n).add_suffix("b")], axis=1
        ).iloc[:, :columns]
        risk = expit(rng.normal(-1, 1, n))
        shift = 0.3 * (frame["number_1"] > 60) + 0.3 * (frame["level_1"] == "a")
        y = (rng.random(n) < expit(logit(risk) + shift)).astype(int)
        start, wall = time.process_time(), time.perf_counter()
        model = PMCBoost(features=list(frame)).fit(risk, y, sensitive_features=frame)
        row = {
            "rows": n,
            "features": columns,
            "fit, CPU seconds": time.process_time() - start,
        }
        row["fit, seconds"] = time.perf_counter() - wall
        row["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        start = time.process_time()
        model.predict(risk, sensitive_features=frame)
        row["scoring, CPU seconds"] = time.process_time() - start
        groups = PMCBoost().fit(
            risk, y, sensitive_features=frame[["level_1", "level_2"]]
        )
        start = time.process_time()
        groups.predict(risk, sensitive_features=frame[["level_1", "level_2"]])
        row["scoring by groups, CPU seconds"] = time.process_time() - start
        if args.mcgrad and n <= 100_000:
            start = time.process_time()
            _mcgrad(frame, risk, y, frame[:1000], risk[:1000])
            row["mcgrad, CPU seconds"] = time.process_time() - start
        print(
            json.dumps({key: round(float(value), 2) for key, value in row.items()}),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("real", "perfect", "speed"))
    parser.add_argument("--only", help="names of real data sets, separated by commas")
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--mcgrad", action="store_true")
    parser.add_argument("--discover", action="store_true")
    parser.add_argument(
        "--curves",
        action="store_true",
        help="perfect: tests and curves alone, no points",
    )
    chosen = parser.parse_args()
    {"real": run_real, "perfect": run_perfect, "speed": run_speed}[chosen.what](chosen)
