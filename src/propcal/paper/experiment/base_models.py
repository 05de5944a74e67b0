"""The base models of the experiment: LR, RF and DNN, each trained on one core."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from time import process_time
from typing import Any

import numpy as np

from propcal.core.grid import FloatArray
from propcal.errors import Argument, InputError
from propcal.extras import how_to_install
from propcal.paper.experiment.features import Matrix
from propcal.paper.experiment.settings import MODELS

# Increased whenever the same data would give different models.
VERSION = 1


@dataclass(frozen=True)
class Trained:
    """A trained base model: `score` gives risks for rows of features."""

    score: Callable[[Matrix], FloatArray]
    seconds: float
    converged: bool


def check_models(names: Iterable[str]) -> tuple[str, ...]:
    """The models in the paper's order; unknown models, and those whose library is missing, are refused."""
    given = [name.strip() for name in names]
    known = {name.upper(): name for name in MODELS}
    for name in given:
        if name.upper() not in known:
            close = get_close_matches(name.upper(), known, n=1, cutoff=0.4)
            near = f"; did you mean {close[0]}?" if close else "."
            raise InputError(
                Argument("models") + f": there is no {name!r}{near}",
                next_step=f"The models are {', '.join(MODELS)}",
                between=" ",
            )
    if not given:
        raise InputError(Argument("models") + f" must include at least one of {', '.join(MODELS)}")
    wanted = {known[name.upper()] for name in given}
    if "RF" in wanted:
        _forest_class()
    return tuple(name for name in MODELS if name in wanted)


def train(name: str, features: Matrix, outcome: Any, seed: int, n_numbers: int) -> Trained:
    """Train a base model; the same seed gives the same model.

    The first `n_numbers` columns of the features are numbers, the others are 0 or 1.
    """
    from sklearn.exceptions import ConvergenceWarning

    makers: dict[str, Callable[[int, int, int], Any]] = {"LR": _logistic, "RF": _forest, "DNN": _network}
    model = makers[name](seed, n_numbers, features.shape[1])
    began = process_time()
    with warnings.catch_warnings():  # recorded in `converged`
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Got `batch_size` less than 1 or larger")  # with few visits
        model.fit(features, outcome)
    seconds = process_time() - began

    def score(rows: Matrix) -> FloatArray:
        return np.asarray(model.predict_proba(rows)[:, 1], dtype=np.float64)

    return Trained(score, seconds, name == "RF" or bool(np.max(model[-1].n_iter_) < model[-1].max_iter))


def _logistic(seed: int, n_numbers: int, n_features: int) -> Any:
    """Logistic regression with an l1 penalty of scikit-learn's default strength.

    Numbers are imputed and scaled. Columns of 0 and 1 are scaled but not centred, so that they stay sparse;
    with an intercept this is the same model in a tenth of the memory.
    """
    from scipy.sparse import csr_matrix
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    l1: dict[str, Any] = {"l1_ratio": 1.0}
    if signature(LogisticRegression).parameters["penalty"].default == "l2":  # scikit-learn before 1.8
        l1 = {"penalty": "l1"}
    columns = make_column_transformer(
        (_imputed_and_scaled(), list(range(n_numbers))),
        (
            make_pipeline(FunctionTransformer(csr_matrix), StandardScaler(with_mean=False)),
            list(range(n_numbers, n_features)),
        ),
        sparse_threshold=1.0,
    )
    return make_pipeline(
        columns, LogisticRegression(solver="liblinear", max_iter=1000, random_state=seed, **l1)
    )


def _forest(seed: int, *_: int) -> Any:
    """A random forest by XGBoost, which handles missing values itself.

    The paper names the library but no parameters; these are the defaults of XGBRFClassifier, written out.
    """
    return _forest_class()(
        n_estimators=100,
        max_depth=6,
        learning_rate=1.0,
        subsample=0.8,
        colsample_bynode=0.8,
        reg_lambda=1e-5,
        tree_method="hist",
        n_jobs=1,
        random_state=seed,
    )


def _forest_class() -> Any:
    try:
        from xgboost import XGBRFClassifier
    except ImportError:
        raise InputError("RF needs xgboost", next_step=how_to_install("paper"), between=": ") from None
    return XGBRFClassifier


def _network(seed: int, *_: int) -> Any:
    """Five layers of 100, as in the paper's appendix."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline

    network = MLPClassifier(
        hidden_layer_sizes=(100,) * 5,
        activation="relu",
        solver="adam",
        learning_rate_init=0.001,
        batch_size=200,
        early_stopping=True,
        validation_fraction=0.1,
        n_iter_no_change=10,
        max_iter=200,
        random_state=seed,
    )
    return make_pipeline(_imputed_and_scaled(), network)


def _imputed_and_scaled() -> Any:
    """Impute missing numbers by the median, then scale all to mean 0 and variance 1."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(copy=False)
    )
