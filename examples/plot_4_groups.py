"""
Groups in your own words
========================

Groups can be ranges of a number, conditions, or chosen intersections. The definitions are saved with a
correction.
"""

from propcal import Groups, audit
from propcal.datasets import load_readmissions

stays = load_readmissions()
groups = Groups(
    columns=["gender"],
    cuts={"age": [50, 70]},
    where={"frequent patients": "previous_stays >= 2 or previous_emergencies >= 2"},
    depth={"age": 1},  # age is not crossed with the others
)
print(groups.preview(stays, "readmitted")[["group", "people", "outcome_rate", "kept"]].round(3).to_string())

# %%
# The map shows the gap between observed and predicted rate for each group and range of scores (a cell).
# Marked cells are too high or too low by more than chance explains; hatched ones do not have enough
# data.

a = audit(stays.readmitted, stays.risk, sensitive_features=stays, groups=groups, cluster=stays.patient)
print(a.verdict)
ax = a.plot("heatmap")
