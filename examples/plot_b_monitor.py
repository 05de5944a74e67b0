"""
A score over time
=================

A monitor adds each month to a state and may be looked at as often as you like: over its
whole life, a calibrated score raises a false alarm in at most 5 % of cases. The visits
are simulated, so that the truth is known: from January 2025 on, White patients are
admitted more often than the score says."""

import numpy as np
import pandas as pd

from propcal import Monitor
from propcal.datasets import make_ed_visits

rng = np.random.default_rng(1)
visits = make_ed_visits(40_000, seed=1).rename(columns={"true_risk": "risk"})
visits["arrived"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(
    rng.integers(0, 731, len(visits)), unit="D"
)
late = (visits.arrived >= "2025-01-01") & (visits.race == "White")
visits.loc[late, "admitted"] = (
    rng.random(late.sum()) < (1.2 * visits.risk[late]).clip(upper=1)
).astype(int)

monitor = Monitor(
    score="risk",
    outcome="admitted",
    time="arrived",
    groups=["race", "gender"],
    unit="patients",
)
for _, month in visits.groupby(visits.arrived.dt.to_period("M")):
    monitor.add(month)
course = monitor.course()
print(*course.sentences, sep="\n")

# %%
# The evidence against the score, by group. An alarm is raised at 20.

ax = course.plot()

# %%
# The O/E ratio of each month:

ax = course.plot("ratios", ["White"])
