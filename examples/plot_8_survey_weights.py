"""
Survey weights
==============

If some people were more likely to be in the data than others, pass the weights. Whole-number weights are
counts; other weights are survey weights, and intervals become wider where they vary.
"""

import matplotlib.pyplot as plt
import numpy as np

from propcal import audit
from propcal.datasets import load_readmissions

stays = load_readmissions()

# A survey that takes every fifth stay, but every stay of people who pay themselves or have Medicaid.
rng = np.random.default_rng(0)
share = np.where(stays.payer.isin(["self-pay", "Medicaid"]), 1.0, 0.2)
survey = stays[rng.random(len(stays)) < share].assign(weight=lambda s: 1.0 / share[s.index])
print(len(survey), "stays, worth", round(survey.weight.sum()))

# %%
# With weights, the O/E ratio of everybody is that of all stays; without them, it is that of the survey.

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, weights in zip(axes, (None, survey.weight), strict=True):
    a = audit(
        survey.readmitted,
        survey.risk,
        sensitive_features=survey[["payer"]],
        sample_weight=weights,
        weight_kind="auto" if weights is None else "survey",
        cluster=survey.patient,
    )
    a.plot("forest", ax=ax)
    ratio = a.groups.observed_expected[0]
    ax.set_title(f"{'without' if weights is None else 'with'} weights: O/E of everybody {ratio:.3f}")
