"""Splits of the rows into training, fitting and test parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from propcal.building_blocks import IntArray
from propcal_paper.settings import TEST_SHARE, CohortColumns
from propcal_paper.setups import Setup

# recorded in the store
SPLIT = "default_rng(seed).permutation; the first quarter is the test set"


class ShuffledParts(NamedTuple):
    """The rows of a shuffle: to train the base model, to fit the post-processing, and
    to test both.
    """

    train: IntArray
    post: IntArray
    test: IntArray


def split(
    n: int,
    seed: int,
    *,
    kept_apart: float = 0.0,
    person: Any = None,
    outcome: Any = None,
) -> ShuffledParts:
    """Shuffle the rows: 75 % to train and 25 % to test.

    Parameters
    ----------
    n, seed : int
        The number of rows, and the seed of the shuffle.
    kept_apart : float
        The share of the training rows that only the post-processing sees; with 0 it
        sees all of them.
    person : array of shape (n,), optional
        The person of each row. People are then shuffled, and all rows of a person are
        in the same part. A row without one is a person of its own.
    outcome : array of shape (n,), optional
        With it, all parts have the same share of outcomes.
    """
    if person is not None:
        return _split_by_person(person, seed, kept_apart)
    if outcome is not None:
        return _stratified_split(outcome, seed, kept_apart)
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(n * TEST_SHARE)
    test = order[:n_test]
    learn = order[n_test:]
    n_post = round(len(learn) * kept_apart)
    if not n_post:
        return ShuffledParts(learn, learn, test)
    return ShuffledParts(learn[n_post:], learn[:n_post], test)


def _split_by_person(person: Any, seed: int, kept_apart: float) -> ShuffledParts:
    code, people = pd.factorize(np.asarray(person))
    alone = np.flatnonzero(code < 0)
    code[alone] = len(people) + np.arange(len(alone))
    n_people = len(people) + len(alone)
    parts = split(n_people, seed, kept_apart=kept_apart)
    return ShuffledParts(*(np.flatnonzero(np.isin(code, part)) for part in parts))


def _stratified_split(outcome: Any, seed: int, kept_apart: float) -> ShuffledParts:
    from sklearn.model_selection import train_test_split

    def divided(rows: IntArray, share: float) -> Any:
        strata = outcome[rows]
        how = {"test_size": share, "stratify": strata, "random_state": seed}
        return train_test_split(rows, **how)

    learn, test = divided(np.arange(len(outcome)), TEST_SHARE)
    if not kept_apart:
        return ShuffledParts(learn, learn, test)
    train, post = divided(learn, kept_apart)
    return ShuffledParts(train, post, test)


def split_rows(
    rows: pd.DataFrame, seed: int, columns: CohortColumns, setup: Setup
) -> ShuffledParts:
    """The parts of a shuffle of a cohort."""
    person = rows[columns.person] if columns.person else None
    outcome = None
    if setup.stratified and person is None:
        outcome = rows[columns.outcome].to_numpy()
    return split(
        len(rows), seed, kept_apart=setup.kept_apart, person=person, outcome=outcome
    )
