"""A vendor's score without the model: audits it, corrects it, saves the correction, and explains one person.

python examples/vendor_score.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from propcal import Correction, Groups, PMCBoost, pmc_loss
from propcal.datasets import make_ed_visits

# What a hospital has: the vendor's score, outcomes and patient characteristics. Simulated here.
visits = make_ed_visits(60_000, seed=1)
visits["score"] = visits.groupby(["acuity", visits.age // 10], dropna=False).admitted.transform("mean")
past, new = visits[:30_000], visits[30_000:]

# Define the groups, and look at them first.
groups = Groups(columns=["race", "gender"], where={"elderly Medicare": "age >= 75 and insurance = Medicare"})
print(groups.preview(past, "admitted").query("kept").to_string(index=False))

cal = PMCBoost(groups=groups).fit(past.score, past.admitted, sensitive_features=past)
corrected = cal.predict(new.score, sensitive_features=new)
for name, score in (("vendor's score", new.score), ("corrected", corrected)):
    loss = pmc_loss(new.admitted, score, sensitive_features=new, groups=groups, alpha=0.1, min_people=100)
    print(f"{name}: the largest calibration error is {100 * loss:.0f} % of a cell's outcome rate")

print(cal.fit_summary_)

# Scoring only needs the file, not the vendor's model.
with TemporaryDirectory() as folder:
    path = Path(folder) / "correction.json"
    cal.correction_.save(path)
    correction = Correction.load(path)
print(correction)
print(correction.explain(new.score[:1], new[:1]).sentence())
