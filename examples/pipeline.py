"""Your own pipeline: imputation, boosted trees, groups as columns of X, cross-fitted scores.

python examples/pipeline.py
"""

from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from propcal import MulticalibratedClassifier, PMCBoost, pmc_loss
from propcal.datasets import make_ed_visits

NUMBERS = ["age", "acuity", "heartrate", "resprate", "o2sat", "sbp", "n_previous_admissions"]
GROUPS = ["race", "gender"]

visits = make_ed_visits(40_000, seed=2)  # simulated
train, test = train_test_split(visits, random_state=0)

model = make_pipeline(
    make_column_transformer(
        (SimpleImputer(strategy="median"), NUMBERS),
        (CountVectorizer(binary=True), "chief_complaint"),  # words: "chest pain, shortness of breath"
        sparse_threshold=0,
    ),
    HistGradientBoostingClassifier(max_iter=60, random_state=0),
)
# race and gender are columns of X that the pipeline ignores and the correction uses
calibrated = MulticalibratedClassifier(model, PMCBoost(), sensitive_features=GROUPS, cv=3)
calibrated.fit(train, train.admitted)

for name, score in (
    ("boosted trees", calibrated.raw_score(test)),
    ("corrected", calibrated.predict_proba(test)[:, 1]),
):
    loss = pmc_loss(test.admitted, score, sensitive_features=test[GROUPS], alpha=0.1, min_people=100)
    print(f"{name}: AUROC {roc_auc_score(test.admitted, score):.3f}, PMC loss {loss:.2f}")
