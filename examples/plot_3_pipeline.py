"""
Your own model: a scikit-learn pipeline
=======================================

``MulticalibratedClassifier`` scores every person by a model that has not seen that
person, fits the correction to these scores, and refits the model on everybody."""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import MulticalibratedClassifier, PMCBoost, audit
from propcal.datasets import load_doctor_visits

years = load_doctor_visits()
past, new = years[years.person < 1765], years[years.person >= 1765]
features = ["chronic_diseases", "limited"]
base = make_pipeline(StandardScaler(), LogisticRegression())
model = MulticalibratedClassifier(base, PMCBoost(), cv=GroupKFold(5))

# %%
# The model itself does not see the insurance plan: it is passed beside the features. All years of a
# person are in the same fold.

model.fit(
    past[features], past.frequent, groups=past.person, sensitive_features=past[["plan"]]
)
scores = {
    "the model alone": model.raw_score(new[features]),
    "corrected": model.predict_proba(new[features], sensitive_features=new[["plan"]])[
        :, 1
    ],
}

# %%
# Calibration of both with free care, and for those who pay nearly everything:

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained", sharey=True)
for ax, (name, score) in zip(axes, scores.items(), strict=True):
    a = audit(new.frequent, score, sensitive_features=new[["plan"]], cluster=new.person)
    a.plot("calibration", groups=["plan=pays 95 % or all", "plan=free care"], ax=ax)
    ax.set_title(f"{name}: {a.verdict.conclusion}", fontsize=9)
