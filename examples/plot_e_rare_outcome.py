"""
A rare outcome, and a decision threshold
========================================

With rare outcomes nearly everybody is in the lowest of ten equal risk ranges. Choose a smaller ``rho``,
and ranges that grow by a constant factor. ``thresholds`` adds what acting on the score would come to.
"""

from sklearn.linear_model import LogisticRegression

from propcal import audit
from propcal.datasets import load_readmissions

stays = load_readmissions()
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
features = ["days_in_hospital", "previous_stays", "previous_emergencies", "diagnoses"]
model = LogisticRegression().fit(past[features], past.within_30_days)
score = model.predict_proba(new[features])[:, 1]
a = audit(
    new.within_30_days,
    score,
    sensitive_features=new[["payer"]],
    cluster=new.patient,
    rho=0.02,
    n_bins=6,
    binning="geometric",
    thresholds=[0.15],
    unit="stays",
)
print(a.verdict)
print(a.categories[a.categories.group == "payer=Medicare"].bin.tolist())

# %%
# Net benefit of treating from a threshold on, compared with treating everybody or nobody:

ax = a.plot("decision")
