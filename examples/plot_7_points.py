"""
A score in points or deciles
============================

Points are not probabilities. Replace each by the event rate that it had in earlier
data; the audit of later data then asks whether a point still means that risk, in every
group."""

import numpy as np

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
years["points"] = np.digitize(years.risk, [0.15, 0.2, 0.22, 0.25, 0.3, 0.4]) + 1
past, new = years[years.person < 1765], years[years.person >= 1765]
rate = past.groupby("points").frequent.mean()
print(rate.round(3).to_dict())

# %%
# Points mean less for people who pay nearly everything themselves: their curve is below the diagonal.

risk = new.points.map(rate)
a = audit(
    new.frequent,
    risk,
    sensitive_features=new[["plan"]],
    cluster=new.person,
    unit="person-years",
)
print(a.verdict)
ax = a.plot("calibration", groups=["everybody", "plan=pays 95 % or all"])
