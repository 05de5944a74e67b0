"""Times MulticalibratedClassifier relative to the fits that it needs, and explanations.

python benchmarks/classifier.py

Writes benchmarks/results/classifier.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from engine import SHAPES, best, people
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import MulticalibratedClassifier, PMCBoost
from propcal.datasets import make_ed_visits

NUMBERS = [
    "age",
    "acuity",
    "heartrate",
    "resprate",
    "o2sat",
    "sbp",
    "n_previous_admissions",
]


def overhead(n: int) -> dict:
    visits = make_ed_visits(n, seed=0)
    X, y, groups = (
        visits[NUMBERS],
        visits.admitted.to_numpy(),
        visits[["race", "gender"]],
    )
    base = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    score = np.empty(n)

    def needed():
        """Five out-of-fold fits and predictions, one fit on everybody, and one
        correction.
        """
        for train, test in StratifiedKFold(5).split(X, y):
            score[test] = (
                clone(base)
                .fit(X.iloc[train], y[train])
                .predict_proba(X.iloc[test])[:, 1]
            )
        clone(base).fit(X, y)
        PMCBoost().fit(score, y, sensitive_features=groups)

    model = MulticalibratedClassifier(base)
    needed()
    bare, wrapped = [], []
    for _ in range(7):  # alternate, so that both run under the same load
        bare.append(best(needed, 1))
        wrapped.append(best(lambda: model.fit(X, y, sensitive_features=groups), 1))
    return {
        "rows": n,
        "needed_s": min(bare),
        "wrapper_s": min(wrapped),
        "overhead": min(wrapped) / min(bare) - 1,
    }


def explanations(n: int, n_explained: int) -> dict:
    score, y, frame = people(n, SHAPES[14])
    model = PMCBoost.paper(alpha=0.01).fit(score, y, sensitive_features=frame)
    some, who = score[:n_explained], frame[:n_explained]
    model.correction_.explain(some[:10], who[:10])
    whole = best(lambda: model.correction_.explain(some, who).to_frame(), 5)
    told = best(lambda: model.correction_.explain(some, who).sentences(), 3)
    return {
        "people": n_explained,
        "updates": model.n_updates_,
        "explain_to_frame_s": whole,
        "explain_sentences_s": told,
    }


def main() -> None:
    result = {
        "overhead": [overhead(n) for n in (10_000, 100_000)],
        "explain": explanations(173_561, 10_000),
    }
    (Path(__file__).parent / "results" / "classifier.json").write_text(
        json.dumps(result, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
