"""Fits the simulated visits of the paper's experiment to what is public about its
patients.

python benchmarks/surrogate.py [ROWS]

The counts and admission rates by group, and so the share of admissions, are those of
the paper's Table 1 by construction. Three numbers are free. `details` is chosen so that
100 words of the complaint occur in at least 100 training visits: the authors'
description of the cohort names the 100 most frequent words. How strongly admission
depends on illness and on the complaint is chosen so that logistic regression and random
forest have the AUROC that the authors' public notebook reports for MIMIC (0.896 and
0.870): a quadratic surface of each AUROC over a grid of both effects, then least
squares. The result is `[surrogates.calibrated]` in `propcal_paper/settings.toml`; the
last line printed is the AUROC measured there."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score

from propcal.datasets import DETAILS, make_ed_visits
from propcal_paper.running.base_models import Features, train
from propcal_paper.running.splits import split
from propcal_paper.settings import ADMISSIONS

PUBLIC = {"LR": 0.896, "RF": 0.870}
PUBLIC_WORDS = 100
ILLNESS, COMPLAINT = (2.5, 4.0, 5.5), (1.0, 2.0, 3.0)


def training(visits: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Half of the training visits of a shuffle, and its test set."""
    parts = split(len(visits), 0, kept_apart=0.5)
    return visits.iloc[parts.train], visits.iloc[parts.test]


def frequent_words(rows: int, details: int) -> int:
    """The number of words that occur in at least 100 training visits."""
    learn, _ = training(make_ed_visits(rows, details=details))
    words = CountVectorizer(binary=True, token_pattern=r"\w+", min_df=100)
    return len(words.fit(learn["chief_complaint"]).vocabulary_)


def aurocs(illness: float, complaint: float, details: int, rows: int) -> list[float]:
    """The AUROC of LR and RF on held-out visits, trained on half of the training
    visits.
    """
    effects = {"illness_effect": illness, "complaint_effect": complaint}
    learn, test = training(make_ed_visits(rows, **effects, details=details))
    features = Features(ADMISSIONS).fit(learn)
    found = []
    for name in PUBLIC:
        y = learn["admitted"].to_numpy()
        model = train(name, features.transform(learn), y, 0, len(ADMISSIONS.numbers))
        found.append(
            float(
                roc_auc_score(test["admitted"], model.score(features.transform(test)))
            )
        )
    return found


def terms(point: tuple[float, float] | np.ndarray) -> np.ndarray:
    """A quadratic surface in the logarithms of both effects."""
    a, b = np.log(point)
    return np.array([1, a, b, a * a, a * b, b * b])


def main(rows: int) -> None:
    details = min(max(PUBLIC_WORDS - frequent_words(rows, 0), 0), len(DETAILS))
    print(f"details = {details}: {frequent_words(rows, details)} words", flush=True)
    grid = [*product(ILLNESS, COMPLAINT)]
    found = []
    for point in grid:
        found.append(aurocs(*point, details, rows))
        print(
            "illness {:g}, complaint {:g}:".format(*point),
            *(f"{v:.4f}" for v in found[-1]),
            flush=True,
        )
    surface, *_ = np.linalg.lstsq(
        np.array([terms(point) for point in grid]), np.array(found), rcond=None
    )
    target = np.array([*PUBLIC.values()])
    best = least_squares(
        lambda x: terms(x) @ surface - target, (4.0, 1.6), bounds=((0.5, 0.5), (8, 8))
    )
    illness, complaint = np.round(best.x, 2)
    print(f"calibrated: illness_effect = {illness:g}, complaint_effect = {complaint:g}")
    print(
        "AUROC there:", *(f"{v:.4f}" for v in aurocs(illness, complaint, details, rows))
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 173_561)
