"""
Groups in your own words
========================

Groups can be ranges of a number, conditions, or chosen intersections. The definitions
are saved with a correction."""

from propcal import Groups, audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
groups = Groups(
    columns=["plan"],
    cuts={"chronic_diseases": [10, 20]},
    where={"in poor health": "limited or health in [fair, poor]"},
    depth={"chronic_diseases": 1},  # not crossed with the others
)
print(
    groups.preview(years, "frequent")[["group", "people", "outcome_rate", "kept"]]
    .round(3)
    .to_string()
)

# %%
# The map shows the gap between observed and predicted rate for each group and range of scores (a cell).
# Marked cells are too high or too low by more than chance explains; hatched ones do not have enough
# data.

a = audit(
    years.frequent,
    years.risk,
    sensitive_features=years,
    groups=groups,
    cluster=years.person,
)
print(a.verdict)
ax = a.plot("heatmap")
