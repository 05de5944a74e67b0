"""Scores with known errors, for the quality benchmark: who the people are, their true
risk, and the score.

Each kind of score is wrong in another way, drawn again for every seed. `generate` gives
the people to fit and the people to evaluate; both have the columns `score`, `risk` (the
truth) and `y`, beside their groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from propcal.core.logistic import expit, log_odds
from propcal.datasets import N_VISITS, TABLE_1, make_ed_visits

TEST_PEOPLE = 50_000
CELLS = [
    (race, sex, *cell)
    for race, pair in TABLE_1.items()
    for sex, cell in zip("FM", pair)
]
SHARE = np.array([visits for *_, visits, _ in CELLS]) / sum(
    visits for *_, visits, _ in CELLS
)
RATE = np.array([admitted / visits for *_, visits, admitted in CELLS])
SPREAD = 1.3  # standard deviation of true log-odds within a cell
RARE = 0.01
WARDS = ["site", "ward", "sex"]
VITAL_SIGNS = [
    "age",
    "acuity",
    "temperature",
    "heartrate",
    "resprate",
    "o2sat",
    "sbp",
    "dbp",
    "pain",
]
HISTORY = ["n_previous_visits", "n_previous_admissions"]

Wrong = Callable[
    [np.ndarray, np.ndarray], np.ndarray
]  # true log-odds and cell -> log-odds of the score


def centre(rate: float) -> float:
    """The mean of log-odds for which the mean risk is the given rate."""
    ranks = SPREAD * np.random.default_rng(0).normal(size=5000)
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if expit(ranks + middle).mean() < rate else (low, middle)
        )
    return low


CENTRES = np.array([centre(rate) for rate in RATE])
RARE_CENTRES = np.array([centre(rate * RARE / float(SHARE @ RATE)) for rate in RATE])


def perfect(_rng: np.random.Generator, _seed: int) -> Wrong:
    return lambda x, _: x


def mild(rng: np.random.Generator, _seed: int, most: float = 0.3) -> Wrong:
    race, sex = rng.uniform(-most, most, 7), rng.uniform(-most / 2, most / 2, 2)
    bend, turn = rng.uniform(-most / 2, most / 2, 7), rng.uniform(-2, 2, 7)

    def wrong(x, cell):
        off = (
            race[cell // 2]
            + sex[cell % 2]
            + bend[cell // 2] * np.sin(x + turn[cell // 2])
        )
        return x + np.clip(off, -most, most)

    return wrong


def gross(rng: np.random.Generator, _seed: int) -> Wrong:
    slope, offset, shift = (
        np.exp(rng.normal(0, 0.35, 14)),
        rng.normal(0, 0.35, 14),
        rng.normal(0, 0.5, 7),
    )
    return lambda x, cell: slope[cell] * (x + 1) - 1 + shift[cell // 2] + offset[cell]


def one_intersection(rng: np.random.Generator, seed: int) -> Wrong:
    small = [c for c in range(14) if 0.025 < SHARE[c] < 0.09][seed % 4]
    size = rng.choice([-0.8, 0.8])
    return lambda x, cell: x + size * (cell == small)


def overall(rng: np.random.Generator, _seed: int) -> Wrong:
    """The same wrong intercept and slope for everybody."""
    slope, offset = np.exp(rng.normal(0, 0.25)), rng.normal(0, 0.3)
    return lambda x, _: slope * (x + 1) - 1 + offset


def steps(rng: np.random.Generator, _seed: int) -> Wrong:
    """Off by a jump beyond one score for everybody, and beyond another for one race."""
    at, size = (
        rng.uniform(-2, 0.5, 2),
        rng.choice([-1, 1], 2) * rng.uniform(0.3, 0.8, 2),
    )
    race = int(rng.choice([2, 3, 6]))
    return lambda x, cell: (
        x + size[0] * (x > at[0]) + size[1] * (x > at[1]) * (cell // 2 == race)
    )


def rare(rng: np.random.Generator, seed: int) -> Wrong:
    """An outcome of 1 %, with errors twice those of a mildly wrong score."""
    return mild(rng, seed, 0.6)


SHIFTED: dict[str, Callable[[np.random.Generator, int], Wrong]] = {
    "perfect": perfect,
    "mild": mild,
    "gross": gross,
    "one intersection": one_intersection,
    "overall off": overall,
    "steps": steps,
    "rare": rare,
}


def shifted(kind: str, n: int, seed: int, part: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, 2 + part])
    cell = rng.choice(14, n, p=SHARE)
    centres = RARE_CENTRES if kind == "rare" else CENTRES
    x = centres[cell] + SPREAD * rng.normal(size=n)
    frame = (
        pd.DataFrame([c[:2] for c in CELLS], columns=["race", "sex"])
        .iloc[cell]
        .reset_index(drop=True)
    )
    frame["score"] = expit(
        SHIFTED[kind](np.random.default_rng([seed, 1]), seed)(x, cell)
    )
    return _with_outcome(frame, expit(x), rng)


def _with_outcome(
    frame: pd.DataFrame, risk: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    return frame.assign(risk=risk, y=(rng.random(len(risk)) < risk).astype(int))


def many_groups(n: int, seed: int, part: int) -> pd.DataFrame:
    """200 patterns (10 x 10 x 2) of unequal size; every attribute and some of the
    patterns have errors.
    """
    own = np.random.default_rng([seed, 1])
    shares = [
        own.dirichlet(np.full(10, 4.0)),
        own.dirichlet(np.full(10, 4.0)),
        np.array([0.5, 0.5]),
    ]
    effects = [own.normal(0, 0.2, len(share)) for share in shares]
    slope = np.exp(own.normal(0, 0.12, 10))
    pairs = own.normal(0, 0.3, (10, 10)) * (own.random((10, 10)) < 0.2)
    rng = np.random.default_rng([seed, 2 + part])
    codes = [rng.choice(len(share), n, p=share) for share in shares]
    x = rng.normal(-1.2, SPREAD, n)
    wrong = slope[codes[0]] * x + sum(
        effect[code] for effect, code in zip(effects, codes)
    )
    frame = pd.DataFrame(
        {
            name: np.char.add(name[0], code.astype(str))
            for name, code in zip(WARDS, codes)
        }
    )
    return _with_outcome(
        frame.assign(score=expit(wrong + pairs[codes[0], codes[1]])), expit(x), rng
    )


MODELS = {
    "forest": lambda: RandomForestClassifier(60, max_depth=5, random_state=0),
    "boosted trees": lambda: HistGradientBoostingClassifier(
        max_iter=100, random_state=0
    ),
    "logistic model": lambda: LogisticRegression(max_iter=300),
}


@lru_cache(maxsize=2)
def _trained(kind: str, seed: int):
    """A model of admission that is trained on a third of the visits and does not know
    the groups.
    """
    visits = make_ed_visits(N_VISITS // 3, seed=10 * seed)
    inputs = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), VITAL_SIGNS + HISTORY),
        (OneHotEncoder(handle_unknown="ignore"), ["complaint"]),
        sparse_threshold=0,
    )
    return make_pipeline(inputs, MODELS[kind]()).fit(
        _main_complaint(visits), visits["admitted"]
    )


def _main_complaint(visits: pd.DataFrame) -> pd.DataFrame:
    return visits.assign(complaint=visits["chief_complaint"].str.split(",").str[0])


def trained(kind: str, n: int, seed: int, part: int) -> pd.DataFrame:
    visits = make_ed_visits(n, seed=10 * seed + 1 + part)
    score = _trained(kind, seed).predict_proba(_main_complaint(visits))[:, 1]
    frame = visits[["race", "gender"]].assign(score=np.clip(score, 1e-6, 1 - 1e-6))
    return frame.assign(risk=visits["true_risk"], y=visits["admitted"])


KINDS = (*SHIFTED, "many groups", *MODELS)


def generate(
    kind: str, n: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """People to fit, people to evaluate, and the columns of their groups."""
    columns = (
        ["race", "sex"]
        if kind in SHIFTED
        else ["race", "gender"]
        if kind in MODELS
        else WARDS
    )
    return _people(kind, n, seed, 0), _to_evaluate(kind, seed), columns


def _people(kind: str, n: int, seed: int, part: int) -> pd.DataFrame:
    if kind in SHIFTED:
        return shifted(kind, n, seed, part)
    return (
        trained(kind, n, seed, part) if kind in MODELS else many_groups(n, seed, part)
    )


@lru_cache(maxsize=2)
def _to_evaluate(kind: str, seed: int) -> pd.DataFrame:
    return _people(kind, TEST_PEOPLE, seed, 1)


def log_odds_of(frame: pd.DataFrame) -> np.ndarray:
    """The log-odds of the scores as a column."""
    return log_odds(np.clip(frame["score"].to_numpy(), 1e-9, 1 - 1e-9))[:, None]
