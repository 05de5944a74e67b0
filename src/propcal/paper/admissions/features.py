"""Table 2: the features of a visit that the base models of the hospital-admission experiment use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from propcal.core.grid import IntArray

if TYPE_CHECKING:
    import pandas as pd

VITALS = ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp")
NUMBERS = (*VITALS, "acuity", "pain", "n_previous_visits", "n_previous_admissions", "age")
CATEGORIES = ("race", "gender", "marital_status", "insurance", "language")
TEXT, OUTCOME, TRUE_RISK = "chief_complaint", "admitted", "true_risk"
COLUMNS = (*NUMBERS, *CATEGORIES, TEXT, OUTCOME)  # of a cohort; simulated cohorts also have TRUE_RISK

# Increased whenever the same visits would give different features, so that trials are not mixed.
VERSION = 1

# Words of the chief complaint are features if at least this share of the training visits has them, the most
# frequent ones first. Real complaints have thousands of words, most of them misspelt and in only a few
# visits.
WORD_SHARE = 0.001
MOST_WORDS = 300

Matrix = npt.NDArray[np.float32]


class Features:
    """Turns visits into a matrix of numbers, using only the training visits to learn categories and words.

    The features are the numbers, with NaN for missing ones; a column of 0 and 1 for each category, including
    "missing"; and one for each word of the chief complaint. Categories and words that do not occur in the
    training visits are left out.
    """

    def fit(self, visits: pd.DataFrame) -> Self:
        """Learn categories and words."""
        from sklearn.feature_extraction.text import CountVectorizer

        self._levels = {name: sorted({*_unique(visits[name])[1]}) for name in CATEGORIES}
        words = CountVectorizer(
            binary=True, dtype=np.float32, min_df=WORD_SHARE, max_features=MOST_WORDS, token_pattern=r"\w+"
        )
        try:
            self._words = words.fit(visits[TEXT].fillna("").astype(str))
        except ValueError:  # no word is frequent enough
            self._words = None
        return self

    def transform(self, visits: pd.DataFrame) -> Matrix:
        """One row for each visit, one column for each feature."""
        parts = [visits[list(NUMBERS)].to_numpy(dtype=np.float32, na_value=np.nan)]
        parts += [_one_hot(visits[name], self._levels[name]) for name in CATEGORIES]
        if self._words is not None:
            text, texts = _unique(visits[TEXT].fillna(""))
            parts.append(self._words.transform(texts)[text].toarray())
        return np.hstack(parts)


def _unique(column: Any) -> tuple[IntArray, list[str]]:
    """The index of each value in the list of distinct values, and that list as text; -1 if missing."""
    import pandas as pd

    place, values = pd.factorize(column)
    return place, [str(value) for value in values]


def _one_hot(column: Any, levels: list[str]) -> Matrix:
    place, values = _unique(column)
    known = {level: k for k, level in enumerate(levels)}
    nothing = len(levels) + 1  # an extra column for unknown levels, dropped again below
    columns = np.array([*(known.get(value, nothing) for value in values), len(levels)])
    coded: Matrix = np.eye(len(levels) + 2, len(levels) + 1, dtype=np.float32)[columns[place]]
    return coded
