"""Grid search: our default and the paper's algorithm at several alphas, by PMC loss on held-out folds.

The data: 5,226 people arrested in Toronto for possession of marijuana, released with a summons or
not, by colour and sex (Friendly and Fox; shipped with scikit-lego, which this example needs).

python examples/grid_search_alpha.py
"""

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklego.datasets import load_arrests

from propcal import MulticalibratedClassifier, PMCBoost, loss_scorer, pmc_loss

arrests = load_arrests(as_frame=True)
y = arrests["released"] == "No"  # the outcome: held in custody
base = make_pipeline(
    make_column_transformer(
        (StandardScaler(), ["age", "checks"]),
        (OneHotEncoder(drop="if_binary"), ["employed", "citizen"]),
    ),
    LogisticRegression(),
)
model = MulticalibratedClassifier(base, PMCBoost(), sensitive_features=["colour", "sex"])
choices = {"default": PMCBoost()} | {
    f"paper, alpha {a}": PMCBoost.paper(alpha=a) for a in (0.05, 0.1, 0.4, 1.0)
}
search = GridSearchCV(
    model,
    {"calibrator": list(choices.values())},
    scoring=loss_scorer(pmc_loss, sensitive_features=["colour", "sex"], alpha=0.1, min_people=50),
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
).fit(arrests, y)

table = pd.DataFrame(search.cv_results_)[["mean_test_score", "std_test_score"]]
table.insert(0, "calibrator", list(choices))
print(table.round(3).to_string(index=False))
print("best:", table.calibrator[search.best_index_])

uncorrected = cross_val_score(base, arrests, y, scoring=search.scoring, cv=search.cv)
print(f"the model without correction: {uncorrected.mean():.3f}, {uncorrected.std():.3f}")
print("The differences are smaller than their spread: 5,226 people are too few to choose a setting.")
