"""The base models of the experiment: the features they use, and LR, RF and DNN, each
trained on one core.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from time import process_time
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from propcal.building_blocks import FloatArray
from propcal_paper.errors import refused
from propcal_paper.settings import (
    ADMISSIONS,
    DATA,
    MODELS,
    CohortColumns,
    Setup,
    setup_of,
)

# Increased whenever the same data would give different features or models, so that
# trials are not mixed.
FEATURES_VERSION = 1
MODELS_VERSION = 1

PRINTED = setup_of("printed")
# The most words that are features, the most frequent ones first. Real complaints have
# thousands of words, most of them misspelt and in only a few visits.
MOST_WORDS = 300
MISSING = "\1"  # in place of a missing level: never equal to a text such as "missing"

Matrix = npt.NDArray[np.float32]


class Features:
    """Turns rows into a matrix of numbers, using only the training rows to learn levels
    and words.

    The features are the numbers, with NaN for missing ones; a column of 0 and 1 for
    each level, the last one for "missing"; and one for each frequent word of a text.
    Levels and words that do not occur in the training rows are left out. A set-up may
    ask for one number for all levels of a column instead.
    """

    def __init__(
        self, columns: CohortColumns = ADMISSIONS, setup: Setup = PRINTED
    ) -> None:
        self.columns = columns
        self.setup = setup
        coded = columns.categories if setup.encoding == "codes" else ()
        self.n_numbers = len(columns.numbers) + len(
            coded
        )  # the first columns of the matrix

    def fit(self, rows: pd.DataFrame) -> Self:
        """Learn levels and words."""
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

        texts = self._texts(rows)
        self._encoders = list[tuple[Any, Any]]()
        kind: dict[str, Any] = {"dtype": np.float32}
        names = list(self.columns.categories)
        levels = [[*sorted({*texts[name]} - {MISSING}), MISSING] for name in names]
        encoder: Any = OneHotEncoder(categories=levels, handle_unknown="ignore", **kind)
        if self.setup.encoding == "codes":
            unknown: Any = {
                "handle_unknown": "use_encoded_value",
                "unknown_value": np.nan,
            }
            encoder = OrdinalEncoder(categories=levels, **unknown, **kind)
        if names:
            self._encoders.append((names, encoder.fit(texts[names])))
        most = {"max_features": MOST_WORDS, "min_df": self.setup.min_words}
        for name in self.columns.text:
            words = CountVectorizer(binary=True, token_pattern=r"\w+", **most, **kind)
            with suppress(ValueError):  # no word is frequent enough
                self._encoders.append((name, words.fit(texts[name])))
        return self

    def transform(self, rows: pd.DataFrame) -> Matrix:
        """One row for each row, one column for each feature."""
        from scipy.sparse import issparse

        texts = self._texts(rows)
        parts = [encoder.transform(texts[names]) for names, encoder in self._encoders]
        numbers = rows[list(self.columns.numbers)].to_numpy(
            dtype=np.float32, na_value=np.nan
        )
        return np.hstack(
            [numbers, *(part.toarray() if issparse(part) else part for part in parts)]
        )

    def _texts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The columns of levels and words as texts."""
        missing = dict.fromkeys(self.columns.categories, MISSING) | dict.fromkeys(
            self.columns.text, ""
        )
        texts = {
            name: np.where(rows[name].isna(), instead, rows[name].astype(str))
            for name, instead in missing.items()
        }
        return pd.DataFrame(texts, index=rows.index, dtype=object)


@dataclass(frozen=True)
class Trained:
    """A trained base model: `score` gives risks for rows of features."""

    score: Callable[[Matrix], FloatArray]
    seconds: float
    converged: bool


def check_models(names: Iterable[str]) -> tuple[str, ...]:
    """The models in the paper's order; unknown ones are refused."""
    given = [name.strip() for name in names]
    wanted = {name.upper() for name in given}
    unknown = [name for name in given if name.upper() not in MODELS]
    if unknown or not wanted:
        if unknown:
            wrong = f": there is no {unknown[0]!r}"
        else:
            wrong = " must name one or more"
        raise refused("models", wrong=wrong, known=", ".join(MODELS))
    return tuple(name for name in MODELS if name in wanted)


def train(
    name: str,
    features: Matrix,
    outcome: Any,
    seed: int,
    n_numbers: int,
    solver: str = PRINTED.solver,
) -> Trained:
    """Train a base model; the same seed gives the same model.

    The first `n_numbers` columns of the features are numbers, the others are 0 or 1.
    `solver` is that of LR.
    """
    from sklearn.exceptions import ConvergenceWarning

    chosen = {"random_state": seed} | ({"solver": solver} if name == "LR" else {})
    model = _model(name, chosen, n_numbers, features.shape[1])
    began = process_time()
    with warnings.catch_warnings():  # recorded in `converged`
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="Got `batch_size` less than 1 or larger"
        )  # with few visits
        model.fit(features, outcome)
    seconds = process_time() - began

    def score(rows: Matrix) -> FloatArray:
        return np.asarray(model.predict_proba(rows)[:, 1], dtype=np.float64)

    return Trained(
        score,
        seconds,
        name == "RF" or bool(np.max(model[-1].n_iter_) < model[-1].max_iter),
    )


def _model(name: str, chosen: dict[str, Any], n_numbers: int, n_features: int) -> Any:
    """A base model with the parameters of settings.toml.

    The forest handles missing values itself; for the others numbers are imputed and
    scaled. For LR, columns of 0 and 1 are scaled but not centred, so that they stay
    sparse; with an intercept this is the same model in a tenth of the memory.
    """
    from scipy.sparse import csr_matrix
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    given: dict[str, Any] = DATA["base_models"][name] | chosen
    if name == "RF":
        from xgboost import XGBRFClassifier

        return XGBRFClassifier(**given)
    imputer = SimpleImputer(strategy="median", keep_empty_features=True)
    scaled = make_pipeline(imputer, StandardScaler(copy=False))
    if name == "DNN":
        return make_pipeline(scaled, MLPClassifier(**given))
    sparse = make_pipeline(
        FunctionTransformer(csr_matrix), StandardScaler(with_mean=False)
    )
    both = (
        (scaled, [*range(n_numbers)]),
        (sparse, [*range(n_numbers, n_features)]),
    )  # either may be empty
    columns = make_column_transformer(*both, sparse_threshold=1.0)
    old = (
        signature(LogisticRegression).parameters["penalty"].default == "l2"
    )  # scikit-learn before 1.8
    l1: dict[str, Any] = {"penalty": "l1"} if old else {"l1_ratio": 1.0}
    return make_pipeline(columns, LogisticRegression(**given, **l1))
