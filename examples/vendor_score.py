"""A vendor's score without the model: measure it, correct it, save the correction, explain a person.

python examples/vendor_score.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from propcal import Correction, Groups, PMCBoost, pmc_loss
from propcal.data.cohorts import make_ed_visits

# What a hospital has: the vendor's score, what became of people, and who they are. Generated here.
visits = make_ed_visits(60_000, seed=1)
visits["score"] = visits.groupby(["acuity", visits.age // 10], dropna=False).admitted.transform("mean")
past, new = visits[:30_000], visits[30_000:]

# Groups in our words; look at them first.
groups = Groups(columns=["race", "gender"], where={"elderly Medicare": "age >= 75 and insurance = Medicare"})
print(groups.preview(past, "admitted").query("kept").to_string(index=False))

cal = PMCBoost(groups=groups).fit(past.score, past.admitted, sensitive_features=past)
corrected = cal.predict(new.score, sensitive_features=new)
for name, score in (("vendor's score", new.score), ("corrected", corrected)):
    loss = pmc_loss(new.admitted, score, sensitive_features=new, groups=groups, alpha=0.1, min_people=100)
    print(f"{name}: the worst error is {100 * loss:.0f} % of a category's rate")

print(cal.fit_summary_)

# The file is all that scoring needs; the vendor's model never was.
with TemporaryDirectory() as folder:
    path = Path(folder) / "correction.json"
    cal.correction_.save(path)
    correction = Correction.load(path)
print(correction)
print(correction.explain(new.score[:1], new[:1]).sentence())
