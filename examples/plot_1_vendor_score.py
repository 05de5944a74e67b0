"""
A vendor's score: for whom is it wrong?
=======================================

You have a score, the outcome and some columns that define groups. You do not need the
model behind the score. Here, a score for frequent doctor visits that was developed on
people with free care is used for everybody in the RAND Health Insurance Experiment."""

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
new = years[years.person >= 1765]
a = audit(
    new,
    score="risk",
    outcome="frequent",
    groups=["plan", "limited"],
    cluster="person",
    unit="person-years",
)
print(a.verdict)

# %%
# The verdict names the fewest groups that account for the errors. The forest plot shows the O/E ratio
# (observed over expected events) of the largest groups. Filled marks are more than chance explains.

ax = a.plot("forest")

# %%
# Every number is in a data frame:

columns = {
    "label": "group",
    "people": "people",
    "observed_expected": "O/E",
    "observed_expected_low": "low",
    "observed_expected_high": "high",
    "finding": "finding",
}
print(
    a.groups.rename(columns=columns)[[*columns.values()]]
    .head(8)
    .round(2)
    .to_string(index=False)
)
