"""
Several rows of the same person
===============================

Rows of the same person are alike. If the audit does not know, its intervals are too narrow and it finds
too much. The data are those of the RAND Health Insurance Experiment: up to five years of each person.
"""

import matplotlib.pyplot as plt

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
years["any_visit"] = (years.visits > 0).astype(int)
first_half = years.person < years.person.median()
rate = years[first_half].groupby(["coinsurance", "deductible"]).any_visit.mean()
later = years[~first_half].join(rate.rename("risk"), on=["coinsurance", "deductible"])

# %%
# The score knows only the insurance plan. The same audit, without and with the number of the person:

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, person in zip(axes, (None, later.person), strict=True):
    a = audit(later.any_visit, later.risk, sensitive_features=later[["health", "limited"]], cluster=person)
    a.plot("forest", ax=ax)
    everybody = a.groups.iloc[0]
    width = everybody.observed_expected_high - everybody.observed_expected_low
    known = "rows as different people" if person is None else "repeat people known"
    ax.set_title(f"{known}: interval of everybody {width:.3f} wide", fontsize=9)
print(a.verdict)
