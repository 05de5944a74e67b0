"""
Survey weights
==============

If some people were more likely to be in the data than others, pass the weights.
Whole-number weights are counts; other weights are survey weights, and intervals become
wider where they vary."""

import matplotlib.pyplot as plt
import numpy as np

from propcal import audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()

# A survey that takes every third person with free care, and everybody else.
rng = np.random.default_rng(0)
share = np.where(years.plan == "free care", 1 / 3, 1.0)
chosen = (
    rng.random(years.person.max() + 1)[years.person] < share
)  # all years of a person or none
survey = years.assign(weight=1.0 / share)[chosen]
print(len(survey), "person-years, worth", round(survey.weight.sum()))

# %%
# With weights, the O/E ratio of everybody is that of all person-years; without them, that of the survey.

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, weights in zip(axes, (None, survey.weight), strict=True):
    a = audit(
        survey.frequent,
        survey.risk,
        sensitive_features=survey[["plan"]],
        sample_weight=weights,
        weight_kind="auto" if weights is None else "survey",
        cluster=survey.person,
        unit="person-years",
    )
    a.plot("forest", ax=ax)
    ratio = a.groups.observed_expected[0]
    ax.set_title(
        f"{'without' if weights is None else 'with'} weights: O/E of everybody {ratio:.3f}",
        pad=16,
    )
