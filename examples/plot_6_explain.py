"""
Why did this person's score change?
===================================

A correction explains each change: which groups contributed, and by how much.
"""

from propcal import PMCBoost
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
past, new = years[years.person < 1765], years[years.person >= 1765]
cal = PMCBoost().fit(
    past, score="risk", outcome="frequent", groups=["plan", "limited"], cluster="person"
)
people = new[new.plan == "pays 95 % or all"].drop_duplicates("person")[:3]
words = {"plan": {"pays 95 % or all": "who pay 95 % or all"}}
explanation = cal.correction_.explain(people.risk, people, labels=words)
for person in range(3):
    print(explanation.sentence(person))

# %%
# The numbers of a sentence add up as printed; those of the table add up exactly.

print(explanation.to_frame("groups").round(4).to_string(index=False))
ax = explanation.plot(0)
