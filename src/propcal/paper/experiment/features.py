"""Turns the rows of a cohort into the features that the base models use (Table 2 for visits)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from propcal.core.grid import IntArray
from propcal.paper.experiment.cohort_columns import ADMISSIONS, CohortColumns

if TYPE_CHECKING:
    import pandas as pd

# Increased whenever the same visits would give different features, so that trials are not mixed.
VERSION = 1

# Words of a text are features if at least this share of the training rows has them, the most frequent ones
# first. Real complaints have thousands of words, most of them misspelt and in only a few visits.
WORD_SHARE = 0.001
MOST_WORDS = 300

Matrix = npt.NDArray[np.float32]


class Features:
    """Turns rows into a matrix of numbers, using only the training rows to learn categories and words.

    The features are the numbers, with NaN for missing ones; a column of 0 and 1 for each category, including
    "missing"; and one for each frequent word of a text. Categories and words that do not occur in the
    training rows are left out.
    """

    def __init__(self, columns: CohortColumns = ADMISSIONS) -> None:
        self.columns = columns

    def fit(self, rows: pd.DataFrame) -> Self:
        """Learn categories and words."""
        self._levels = {name: sorted({*_unique(rows[name])[1]}) for name in self.columns.categories}
        self._words = {name: _vocabulary(rows[name]) for name in self.columns.text}
        return self

    def transform(self, rows: pd.DataFrame) -> Matrix:
        """One row for each row, one column for each feature."""
        parts = [rows[list(self.columns.numbers)].to_numpy(dtype=np.float32, na_value=np.nan)]
        parts += [_one_hot(rows[name], levels) for name, levels in self._levels.items()]
        for name, words in self._words.items():
            if words is not None:
                text, texts = _unique(rows[name].fillna(""))
                parts.append(words.transform(texts)[text].toarray())
        return np.hstack(parts)


def _vocabulary(column: Any) -> Any:
    """The frequent words of a column; None if no word is frequent enough."""
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(
        binary=True, dtype=np.float32, min_df=WORD_SHARE, max_features=MOST_WORDS, token_pattern=r"\w+"
    )
    try:
        return words.fit(column.fillna("").astype(str))
    except ValueError:
        return None


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
