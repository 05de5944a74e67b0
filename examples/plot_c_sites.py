"""
Several hospitals, no rows shared
=================================

Each hospital reduces its rows to counts that may be shared: every row stands for at
least 11 people with the outcome and 11 without it. The counts add up in one place. The
visits are simulated; the score is too high by another factor at each hospital."""

import matplotlib.pyplot as plt
import numpy as np

from propcal import Atoms, compare_sites
from propcal.datasets import make_ed_visits

shared = []
for number, (name, factor) in enumerate(
    {"North": 1.25, "South": 1.15, "East": 1.3, "West": 1.1}.items()
):
    visits = make_ed_visits(6000 + 2000 * number, seed=10 + number)
    visits["risk"] = np.clip(visits.true_risk * factor, 0, 0.97)
    atoms = Atoms.from_frame(
        visits, score="risk", outcome="admitted", groups=["race", "gender"], site=name
    )
    shared.append(atoms.share())
total = sum(shared)
print(total)

# %%
# The sites are compared, and a new site gets a prediction interval.

sites = compare_sites(total)
print(sites.headline, *sites.sentences, sep="\n")

# %%
# The O/E ratio of each site:

table = sites.sites
ratio = table.observed_expected
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
error = [ratio - table.observed_expected_low, table.observed_expected_high - ratio]
ax.errorbar(ratio, table.site, xerr=error, fmt="o")
ax.axvline(1, color="grey", linestyle=":")
ax.set(xlabel="O/E ratio, 95 % CI")
