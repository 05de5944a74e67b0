"""
Several rows of the same person
===============================

Rows of the same person are alike. If the audit does not know, its intervals are too
narrow and it finds too much. The data are those of the RAND Health Insurance
Experiment: up to five years of each person."""

import matplotlib.pyplot as plt

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()

# %%
# The same audit, without and with the number of the person:

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, person in zip(axes, (None, years.person), strict=True):
    groups = years[["plan", "limited"]]
    a = audit(
        years.frequent,
        years.risk,
        sensitive_features=groups,
        cluster=person,
        unit="person-years",
    )
    a.plot("forest", ax=ax)
    everybody = a.groups.iloc[0]
    width = everybody.observed_expected_high - everybody.observed_expected_low
    known = "rows as different people" if person is None else "repeat people known"
    ax.set_title(f"{known}: interval of everybody {width:.3f} wide", fontsize=9, pad=16)
print(a.verdict)
