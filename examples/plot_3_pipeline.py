"""
Your own model: a scikit-learn pipeline
=======================================

``MulticalibratedClassifier`` scores every person by a model that has not seen that person, fits the
correction to these scores, and refits the model on everybody.
"""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import MulticalibratedClassifier, PMCBoost, audit
from propcal.datasets import load_readmissions

stays = load_readmissions()
past, new = stays[stays.patient < 15_000], stays[stays.patient >= 15_000]
features = ["days_in_hospital", "previous_stays", "previous_emergencies", "medications", "diagnoses"]
base = make_pipeline(StandardScaler(), LogisticRegression())
model = MulticalibratedClassifier(base, PMCBoost(), cv=GroupKFold(5))

# %%
# The model itself does not see race or payer: they are passed beside the features. All stays of a
# patient are in the same fold.

model.fit(past[features], past.readmitted, groups=past.patient, sensitive_features=past[["race", "payer"]])
scores = {
    "the model alone": model.raw_score(new[features]),
    "corrected": model.predict_proba(new[features], sensitive_features=new[["race", "payer"]])[:, 1],
}

# %%
# Calibration of both for the payer with the largest error:

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained", sharey=True)
for ax, (name, score) in zip(axes, scores.items(), strict=True):
    a = audit(new.readmitted, score, sensitive_features=new[["payer"]], cluster=new.patient)
    a.plot("calibration", groups=["payer=private or other", "payer=Medicare"], ax=ax)
    ax.set_title(f"{name}: {a.verdict.conclusion}", fontsize=9)
