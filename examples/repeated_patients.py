"""Repeat visits: keeps all visits of a person in one fold, with scikit-learn's metadata routing off and on.

python examples/repeated_patients.py
"""

import numpy as np
import sklearn
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propcal import MulticalibratedClassifier, PMCBoost
from propcal.datasets import make_ed_visits

visits = make_ed_visits(20_000, seed=3)  # simulated
person = np.random.default_rng(0).integers(0, 8_000, len(visits))  # two or three visits each
X = visits[["age", "acuity", "heartrate", "o2sat", "n_previous_visits"]]

model = MulticalibratedClassifier(
    make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
    PMCBoost(),
    cv=GroupKFold(5),
)
model.fit(X, visits.admitted, sensitive_features=visits[["race", "gender"]], groups=person)
print(model.correction_)

with sklearn.config_context(enable_metadata_routing=True):  # GroupKFold requests `groups` by itself
    routed = sklearn.clone(model)
    routed.fit(X, visits.admitted, sensitive_features=visits[["race", "gender"]], groups=person)
print("the same with metadata routing:", routed.correction_.to_json() == model.correction_.to_json())
