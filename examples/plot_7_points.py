"""
A score in points or deciles
============================

Points are not probabilities. Replace each by the event rate that it had in earlier data; the audit of
later data then asks whether a point still means that risk, in every group.
"""

import numpy as np

from propcal import audit
from propcal.datasets import load_readmissions

stays = load_readmissions()
stays["points"] = np.digitize(stays.risk, [0.38, 0.42, 0.46, 0.5, 0.55, 0.6, 0.7, 0.8]) + 1
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
rate = past.groupby("points").readmitted.mean()
print(rate.round(3).to_dict())

# %%
# Nine points are nine different risks. The calibration plot has as many marks.

risk = new.points.map(rate)
a = audit(new.readmitted, risk, sensitive_features=new[["payer"]], cluster=new.patient, unit="stays")
print(a.verdict)
ax = a.plot("calibration", groups=["everybody", "payer=private or other"])
