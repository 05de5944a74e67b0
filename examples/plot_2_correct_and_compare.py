"""
Correct a score, and compare before and after
=============================================

A correction is fitted to one half of the people. The other half shows whether it helps.
"""

from propcal import PMCBoost, compare
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
past, new = years[years.person < 1765], years[years.person >= 1765]
roles = {
    "score": "risk",
    "outcome": "frequent",
    "groups": ["plan", "limited"],
    "cluster": "person",
}
cal = PMCBoost().fit(past, **roles)
print(*cal.fit_summary_.sentences()[2:5], sep="\n")

# %%
# The comparison applies the correction to the other half. Its sentences state only what paired tests
# show.

groups = new[["plan", "limited"]]
scores = {"before": new.risk, "after": cal}
c = compare(
    scores,
    new.frequent,
    sensitive_features=groups,
    cluster=new.person,
    unit="person-years",
)
print(*c.sentences("after"), sep="\n")
ax = c.plot("before_after")

# %%
# Differences of the measures, with paired 95 % intervals:

table = c.differences.query("group == 'everybody'")
print(
    table[["measure", "base", "value", "difference", "low", "high"]]
    .round(4)
    .to_string(index=False)
)
