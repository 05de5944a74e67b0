"""The base models: features, and LR, RF and DNN, each trained on one core."""

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
from propcal_paper.settings import ADMISSIONS, DATA, MODELS, CohortColumns
from propcal_paper.setups import Setup, setup_of

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
        # the first columns of the matrix
        self.n_numbers = len(columns.numbers)
        if setup.encoding == "codes":
            self.n_numbers += len(columns.categories)

    def fit(self, rows: pd.DataFrame) -> Self:
        """Learn levels and words."""
        from sklearn.feature_extraction.text import CountVectorizer

        texts = self._texts(rows)
        self._encoders = list[tuple[Any, Any]]()
        names = list(self.columns.categories)
        if names:
            self._encoders.append((names, self._level_encoder(texts[names])))
        for name in self.columns.text:
            words = CountVectorizer(
                binary=True,
                token_pattern=r"\w+",
                max_features=MOST_WORDS,
                min_df=self.setup.min_words,
                dtype=np.float32,
            )
            with suppress(ValueError):  # no word is frequent enough
                self._encoders.append((name, words.fit(texts[name])))
        return self

    def _level_encoder(self, texts: pd.DataFrame) -> Any:
        """The fitted encoder of the columns of levels."""
        from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

        levels = []
        for name in texts:
            known = {*texts[name]} - {MISSING}
            levels.append([*sorted(known), MISSING])
        encoder: Any
        if self.setup.encoding == "codes":
            encoder = OrdinalEncoder(
                categories=levels,
                handle_unknown="use_encoded_value",
                unknown_value=np.nan,
                dtype=np.float32,
            )
        else:
            encoder = OneHotEncoder(
                categories=levels, handle_unknown="ignore", dtype=np.float32
            )
        return encoder.fit(texts)

    def transform(self, rows: pd.DataFrame) -> Matrix:
        """One row for each row, one column for each feature."""
        from scipy.sparse import issparse

        texts = self._texts(rows)
        numbers = rows[list(self.columns.numbers)]
        parts = [numbers.to_numpy(dtype=np.float32, na_value=np.nan)]
        for names, encoder in self._encoders:
            encoded = encoder.transform(texts[names])
            parts.append(encoded.toarray() if issparse(encoded) else encoded)
        return np.hstack(parts)

    def _texts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The columns of levels and words as texts."""
        in_place_of_missing = dict.fromkeys(self.columns.categories, MISSING)
        in_place_of_missing |= dict.fromkeys(self.columns.text, "")
        texts = {}
        for name, text in in_place_of_missing.items():
            texts[name] = np.where(rows[name].isna(), text, rows[name].astype(str))
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

    chosen: dict[str, Any] = {"random_state": seed}
    if name == "LR":
        chosen["solver"] = solver
    model = _model(name, chosen, n_numbers, features.shape[1])
    few_rows = "Got `batch_size` less than 1 or larger"
    began = process_time()
    with warnings.catch_warnings():  # recorded in `converged`
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=few_rows)
        model.fit(features, outcome)
    seconds = process_time() - began

    def score(rows: Matrix) -> FloatArray:
        return np.asarray(model.predict_proba(rows)[:, 1], dtype=np.float64)

    converged = True
    if name != "RF":
        last = model[-1]
        converged = bool(np.max(last.n_iter_) < last.max_iter)
    return Trained(score, seconds, converged)


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
    # either may be empty
    numbers = (scaled, [*range(n_numbers)])
    others = (sparse, [*range(n_numbers, n_features)])
    columns = make_column_transformer(numbers, others, sparse_threshold=1.0)
    parameters = signature(LogisticRegression).parameters
    before_1_8 = parameters["penalty"].default == "l2"  # of scikit-learn
    l1: dict[str, Any] = {"penalty": "l1"} if before_1_8 else {"l1_ratio": 1.0}
    return make_pipeline(columns, LogisticRegression(**given, **l1))
