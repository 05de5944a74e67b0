"""Fits the simulated visits of the paper's experiment to what is public about its patients.

python benchmarks/surrogate.py [ROWS]

The counts and admission rates by group are those of the paper's Table 1 by construction. Two numbers are
free: how strongly admission depends on illness and on the complaint. They are chosen so that logistic
regression and random forest have the AUROC that the authors' public notebook reports for MIMIC (0.896 and
0.870): a quadratic surface of each AUROC over a grid of both effects, then least squares. The result is
`[surrogates.calibrated]` in `propcal/paper/settings.toml`; the last line printed is the AUROC measured there.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
from scipy.optimize import least_squares
from sklearn.metrics import roc_auc_score

from propcal.datasets import make_ed_visits
from propcal.paper.base_models import Features, train
from propcal.paper.settings import ADMISSIONS
from propcal.paper.trials import split

PUBLIC = {"LR": 0.896, "RF": 0.870}
ILLNESS, COMPLAINT = (2.5, 4.0, 5.5), (1.0, 2.0, 3.0)


def aurocs(illness: float, complaint: float, rows: int) -> list[float]:
    """The AUROC of LR and RF on held-out visits, trained on half of the training visits."""
    visits = make_ed_visits(rows, illness_effect=illness, complaint_effect=complaint)
    parts = split(len(visits), 0, kept_apart=0.5)
    learn, test = visits.iloc[parts.train], visits.iloc[parts.test]
    features = Features(ADMISSIONS).fit(learn)
    found = []
    for name in PUBLIC:
        y = learn["admitted"].to_numpy()
        model = train(name, features.transform(learn), y, 0, len(ADMISSIONS.numbers))
        found.append(float(roc_auc_score(test["admitted"], model.score(features.transform(test)))))
    return found


def terms(point: tuple[float, float] | np.ndarray) -> np.ndarray:
    """A quadratic surface in the logarithms of both effects."""
    a, b = np.log(point)
    return np.array([1, a, b, a * a, a * b, b * b])


def main(rows: int) -> None:
    grid = [*product(ILLNESS, COMPLAINT)]
    found = []
    for point in grid:
        found.append(aurocs(*point, rows))
        print("illness {:g}, complaint {:g}:".format(*point), *(f"{v:.4f}" for v in found[-1]), flush=True)
    surface, *_ = np.linalg.lstsq(np.array([terms(point) for point in grid]), np.array(found), rcond=None)
    target = np.array([*PUBLIC.values()])
    best = least_squares(lambda x: terms(x) @ surface - target, (4.0, 1.6), bounds=((0.5, 0.5), (8, 8)))
    illness, complaint = np.round(best.x, 2)
    print(f"calibrated: illness_effect = {illness:g}, complaint_effect = {complaint:g}")
    print("AUROC there:", *(f"{v:.4f}" for v in aurocs(illness, complaint, rows)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 173_561)
