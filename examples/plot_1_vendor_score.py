"""
A vendor's score: for whom is it wrong?
=======================================

You have a score, the outcome and some columns that define groups. You do not need the model behind the
score. Here, a readmission score that was developed on Medicare patients is used for everybody.
"""

from propcal import audit
from propcal.datasets import load_readmissions

stays = load_readmissions()
new = stays[stays.patient >= 15_000]
a = audit(new, score="risk", outcome="readmitted", groups=["race", "payer"], cluster="patient", unit="stays")
print(a.verdict)

# %%
# The verdict names the fewest groups that account for the errors. The forest plot shows the O/E ratio
# (observed over expected events) of the largest groups. Filled marks are more than chance explains.

ax = a.plot("forest")

# %%
# Every number is in a data frame:

columns = [
    "label",
    "people",
    "observed_expected",
    "observed_expected_low",
    "observed_expected_high",
    "finding",
]
print(a.groups[columns].head(8).round(2).to_string(index=False))
