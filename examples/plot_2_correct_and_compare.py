"""
Correct a score, and compare before and after
=============================================

A correction is fitted to one half of the patients. The other half shows whether it helps.
"""

from propcal import PMCBoost, compare
from propcal.datasets import load_readmissions

stays = load_readmissions()
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
roles = {"score": "risk", "outcome": "readmitted", "groups": ["race", "payer"], "cluster": "patient"}
cal = PMCBoost().fit(past, **roles)
print(*cal.fit_summary_.sentences(), sep="\n")

# %%
# The comparison applies the correction to the other half. Its sentences state only what paired tests
# show.

groups = new[["race", "payer"]]
c = compare(
    {"before": new.risk, "after": cal}, new.readmitted, sensitive_features=groups, cluster=new.patient
)
print(*c.sentences("after"), sep="\n")
ax = c.plot("before_after")

# %%
# Differences of the measures, with paired 95 % intervals:

table = c.differences.query("group == 'everybody'")
print(table[["measure", "base", "value", "difference", "low", "high"]].round(4).to_string(index=False))
