"""
A rare outcome, and a decision threshold
========================================

With rare outcomes nearly everybody is in the lowest of ten equal risk ranges. Choose a
smaller ``rho``, and ranges that grow by a constant factor. ``thresholds`` adds what
acting on the score would come to."""

from sklearn.linear_model import LogisticRegression

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
years["very_frequent"] = (years.visits >= 10).astype(int)
past, new = years[years.person < 1765], years[years.person >= 1765]
features = ["chronic_diseases", "limited"]
model = LogisticRegression().fit(past[features], past.very_frequent)
score = model.predict_proba(new[features])[:, 1]
a = audit(
    new.very_frequent,
    score,
    sensitive_features=new[["plan"]],
    cluster=new.person,
    rho=0.02,
    n_bins=6,
    binning="geometric",
    thresholds=[0.1],
    unit="person-years",
)
print(a.verdict)
print(a.categories[a.categories.group == "plan=free care"].bin.tolist())

# %%
# Net benefit of treating from a threshold on, compared with treating everybody or nobody:

ax = a.plot("decision")
