"""
The paper's algorithm, step by step
===================================

``PMCBoost.paper()`` is Algorithm 1 of La Cava, Lett and Wan (2023) to the letter. It
visits one cell (a group within a range of scores) after the other and shifts its scores
wherever observed and predicted rate differ by more than ``alpha`` times the observed
rate."""

import matplotlib.pyplot as plt

from propcal import PMCBoost, audit, pmc_loss
from propcal.datasets import make_ed_visits

visits = make_ed_visits(20_000, seed=3)
visits["score"] = visits.groupby("acuity", dropna=False).admitted.transform("mean")
groups = visits[["race", "gender"]]
cal = PMCBoost.paper(alpha=0.1, intersections="marginal").fit(
    visits.score, visits.admitted, sensitive_features=groups
)
print(cal.n_updates_, "updates in", cal.n_sweeps_, "sweeps; the first three:")
for update in cal.updates_[:3]:
    print(" ", update)

# %%
# Observed against predicted rate of each cell after the first k updates:

steps = [0, 5, 15, cal.n_updates_]
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained", sharey=True)
for ax, k in zip(axes, steps, strict=True):
    score = cal.predict(visits.score, sensitive_features=groups, n_updates=k)
    a = audit(
        visits.admitted,
        score,
        sensitive_features=groups,
        intersections="marginal",
        n_draws=100,
    )
    cells = a.categories.query("people >= 100")
    ax.scatter(cells.mean_score, cells.outcome_rate, s=cells.people / 40, alpha=0.6)
    ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
    loss = pmc_loss(
        visits.admitted,
        score,
        sensitive_features=groups,
        intersections="marginal",
        min_people=100,
    )
    ax.set(title=f"{k} updates: PMC loss {loss:.2f}", xlabel="predicted")
axes[0].set_ylabel("observed")
