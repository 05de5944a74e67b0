"""
Groups that nobody named
========================

``discover`` searches the features for people for whom the score is wrong by more than chance explains.
"""

from propcal import discover
from propcal.datasets import load_readmissions

stays = load_readmissions()
features = ["age", "payer", "race", "gender", "previous_stays", "previous_outpatient", "diagnoses", "to_home"]
found = discover(
    stays, score="risk", outcome="readmitted", features=features, cluster="patient", unit="stays"
)
print(found)

# %%
# Each group has its observed and predicted rate, with an interval that allows for the search.

ax = found.plot()

# %%
# ``found.groups`` is an ordinary definition of groups, for ``audit`` and ``PMCBoost``. Audit such a
# correction on people who were not searched.

print(found.to_frame()[["condition", "people", "error", "p_value"]].to_string(index=False))
