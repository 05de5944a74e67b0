"""
Groups that nobody named
========================

``discover`` searches the features for people for whom the score is wrong by more than
chance explains."""

from propcal import discover
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
features = ["plan", "deductible", "health", "limited", "chronic_diseases"]
found = discover(
    years,
    score="risk",
    outcome="frequent",
    features=features,
    cluster="person",
    unit="person-years",
)
print(found)

# %%
# Each group has its observed and predicted rate, with an interval that allows for the search.

ax = found.plot()

# %%
# ``found.groups`` is an ordinary definition of groups, for ``audit`` and ``PMCBoost``. Audit such a
# correction on people who were not searched.

print(
    found.to_frame()[["condition", "people", "error", "p_value"]].to_string(index=False)
)
