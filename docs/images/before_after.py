"""Draw the picture of the README: outcome rate against score by group, before and after PMCBoost.

python docs/images/before_after.py
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import PMCBoost
from propcal.cli.demo import FEATURES
from propcal.core.categories import pmc_of
from propcal.data.rows_to_atoms import rows_to_atoms
from propcal.datasets import make_ed_visits
from propcal.metrics import CategoryRule

# Okabe and Ito's colours, and a marker each: colour is never alone
LOOK = {
    "Black/African American": ("#D55E00", "o"),
    "Hispanic/Latino": ("#0072B2", "s"),
    "Other": ("#009E73", "^"),
    "White": ("#000000", "D"),
}


def panel(ax, title, visits, score):
    atoms = rows_to_atoms(score, visits["admitted"], visits[["race"]])
    table = CategoryRule(min_people=100).table(atoms)
    ax.plot([0, 1], [0, 1], color="0.6", lw=1, zorder=0)
    for g, size in enumerate(table.collection):
        race = dict(size.group.conditions)["race"]
        color, marker = LOOK[race]
        rows = table.eligible[g]
        x, y = table.mean_score[g, rows], table.outcome_rate[g, rows]
        spread = 1.96 * np.sqrt(y * (1 - y) / table.people[g, rows])
        ax.errorbar(x, y, spread, color=color, marker=marker, ms=5, lw=1.4, elinewidth=0.8, label=race)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="risk score", title=f"{title}: PMC loss {pmc_of(table, 0.1):.2f}")
    ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)


def main():
    visits = make_ed_visits(seed=0)
    n = len(visits)
    learn, adjust, held_out = (
        visits.iloc[: n // 2],
        visits.iloc[n // 2 : n // 2 + n // 4],
        visits.iloc[n // 2 + n // 4 :],
    )
    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression())
    model.fit(learn[FEATURES], learn["admitted"])
    score = model.predict_proba(adjust[FEATURES])[:, 1]
    groups = ["race", "gender"]
    calibrator = PMCBoost().fit(score, adjust["admitted"], sensitive_features=adjust[groups])
    raw = model.predict_proba(held_out[FEATURES])[:, 1]
    corrected = calibrator.predict(raw, sensitive_features=held_out[groups])

    figure, axes = plt.subplots(1, 2, figsize=(9, 5.3), sharey=True, layout="constrained")
    panel(axes[0], "Base model", held_out, raw)
    panel(axes[1], "After PMCBoost", held_out, corrected)
    axes[0].set_ylabel("share admitted")
    axes[0].text(
        0.87, 0.85, "score = share admitted", rotation=45, color="0.4", fontsize=8, ha="center", va="top"
    )
    axes[1].legend(frameon=False, fontsize=8, loc="upper left")
    figure.supxlabel("Generated emergency-department visits, held-out people, 95 % intervals", fontsize=9)
    figure.savefig(Path(__file__).with_name("before_after.png"), dpi=130)


if __name__ == "__main__":
    main()
