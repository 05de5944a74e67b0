"""
Many small errors: a points table
=================================

A score may be a little wrong for many reasons at once: for frequent visitors, for the
old, for those whose test was not done. No single group shows it.
``PMCBoost(features=[...])`` gives each level or range of each feature its own points in
log-odds, shrunk towards none, and only if this improves the score for people who were
left out of the fit."""

# %%
# A vendor's score knows nothing of three features that matter; three that do not matter are tried as well.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from propcal import PMCBoost

rng, n = np.random.default_rng(1), 12_000
people = pd.DataFrame(
    {
        "age": rng.integers(18, 96, n),
        "visits": rng.poisson(1.2, n),
        "troponin": np.where(
            rng.random(n) < 0.3, np.nan, rng.gamma(2, 0.02, n).round(3)
        ),
        "ward": rng.choice(["A", "B", "C"], n),
        "weekday": rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri"], n),
        "height": rng.normal(170, 10, n).round(),
    }
)
known = rng.normal(-1.5, 1, n)
truth = known + 0.012 * (people.age - 55) + 0.25 * people.visits - 0.25
truth += np.where(people.troponin.isna(), -0.3, 12 * (people.troponin.fillna(0) - 0.04))
died = rng.random(n) < 1 / (1 + np.exp(-truth))
risk = 1 / (1 + np.exp(-known))

# %%
# The summary says what the points gain for people who were left out, and whether to retrain the model.
half = n // 2
model = PMCBoost(features=list(people)).fit(
    risk[:half], died[:half], sensitive_features=people[:half]
)
print(*model.fit_summary_.sentences()[-2:], sep="\n")

# %%
# The shapes: "not recorded" is a range of its own. Ward and weekday have no points; height has a few by
# chance.
points = model.correction_.points
figure, axes = plt.subplots(
    1, len(points.columns), figsize=(11, 6), layout="constrained"
)
for name, ax in zip(points.columns, axes):
    points.plot(name, ax=ax)

# %%
# The other half: what each feature does to one person's score, and the log loss before and after.
print(
    model.correction_.explain(
        risk[half : half + 1], people[half : half + 1], unit="patients"
    ).sentence()
)
corrected = model.predict(risk[half:], sensitive_features=people[half:])
for name, p in (("raw", risk[half:]), ("corrected", corrected)):
    print(name, round(float(-np.mean(np.log(np.where(died[half:], p, 1 - p)))), 4))
