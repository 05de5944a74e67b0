"""
Why did this patient's score change?
====================================

A correction explains each change: which groups contributed, and by how much.
"""

from propcal import PMCBoost
from propcal.datasets import load_readmissions

stays = load_readmissions()
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
cal = PMCBoost().fit(past, score="risk", outcome="readmitted", groups=["race", "payer"], cluster="patient")
patients = new[new.payer == "private or other"][:3]
explanation = cal.correction_.explain(patients.risk, patients, unit="patients")
for person in range(3):
    print(explanation.sentence(person))

# %%
# The numbers of a sentence add up as printed; those of the table add up exactly.

print(explanation.to_frame("groups").round(4).to_string(index=False))
ax = explanation.plot(0)
