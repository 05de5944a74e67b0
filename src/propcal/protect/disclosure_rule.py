"""The rule: which counts are small, and by how much others are moved.

Counts are moved by at most 2. How one is moved depends on who is in the cell and on
nothing else (cell-key method; Fraser and Wooton 2005; Marley and Leaver 2011): the same
people give the same number on every page, and one person more draws anew, so that two
pages cannot be subtracted from each other. A secret of the institution, in the
environment variable PROPCAL_SECRET, keeps others from working out by how much; it is
read here, and written nowhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any, NamedTuple

import numpy as np

from propcal.auditing.headcount import ScoreValues
from propcal.core.arguments import FEWEST_SHOWN, check_number
from propcal.core.grid import BoolArray, FloatArray, mix
from propcal.errors import refused
from propcal.numbers import SMALLEST_P, About, Limit, known

LEAST = 5  # a lower threshold protects nobody
# people, from which on statistics of a group are shown as they are
FEWEST_MEASURED = 50
MAX_MOVE = 2  # either way
MOVES = np.repeat(np.arange(-MAX_MOVE, MAX_MOVE + 1.0), [1, 2, 3, 2, 1])  # mean 0
VARIANCE = float(np.var(MOVES))
STAND_IN = 5.0  # people, in place of few with one score
MAX_MEAN_ERROR = 0.05  # relative, that hidden counts may cause
MANY_SCORES = 40  # different ones, from which on a mean does not reveal counts
# with so few different scores, two or three measures together reveal every count
SATURATED = 4
SECRET = "PROPCAL_SECRET"
# narrower bands would reveal the number of few events to within two
P_BAND = 0.05
P_DIGITS = 3


@dataclass(frozen=True)
class Rule:
    """Which counts are small: those below `fewest`, which is 11 unless the user wants
    another number.
    """

    fewest: int = FEWEST_SHOWN

    def __post_init__(self) -> None:
        check_number("suppress", self.fewest, at_least=0, at_most=1_000_000, whole=True)
        if 0 < self.fewest < LEAST:
            raise refused("threshold protects nobody", least=LEAST, fewest=self.fewest)

    @classmethod
    def asked(cls, fewest: int | None) -> Rule | None:
        """The rule that the user asks for; None if nothing is to be protected."""
        rule = cls(0 if fewest is None else fewest)
        return rule if rule.fewest > 1 else None

    def small(self, different: FloatArray) -> BoolArray:
        """Whether a count is of few different people."""
        return np.asarray(different < self.fewest - 1e-9)

    def to_nearest_five(self, count: int) -> Any:
        """A count that belongs to no table, to the nearest 5; 0 stays 0.

        >>> [Rule().to_nearest_five(count) for count in (0, 7, 1238)]
        [0, < 11, 1240]
        """
        if 0 < count < self.fewest:
            return Limit(self.fewest, "below")
        return About(5 * round(count / 5))

    def mean_of_few(self, values: ScoreValues, total: float) -> tuple[float, float]:
        """The mean of scores with few different values, from protected counts, and its
        variance.

        Such a mean reveals counts: 565 people with a mean score of 0.00708 are four
        alerts. Neighbouring scores of few people are counted together. What is left
        over counts as a fixed number of people, and many visits of few people as fewer;
        if that could change the mean by more than a twentieth, the mean is withheld.
        """
        runs = self._runs(values)
        score, people, left_out = np.array(
            [(run.score, run.people, run.left_out) for run in runs]
        ).T
        kept = np.array([run.enough for run in runs])
        if not kept.any():
            return float("nan"), 0.0
        weight = np.where(kept, np.maximum(people, 1.0), 0.0)
        n_small = float((~kept).sum())
        weight *= max(total - STAND_IN * n_small, 1.0) / weight.sum()
        weight = np.where(kept, weight, STAND_IN)
        mean = float(np.average(score, weights=weight))

        of_small = STAND_IN * float(np.abs(score[~kept] - mean).sum())
        unsure = of_small + abs(float(left_out @ (score - mean)))
        if unsure > MAX_MEAN_ERROR * mean * weight.sum():
            return float("nan"), 0.0
        squares = float(np.sum((score[kept] - mean) ** 2))
        return mean, VARIANCE * squares / weight.sum() ** 2

    def _runs(self, values: ScoreValues) -> list[ScoreRun]:
        """Scores from low to high; neighbouring ones of few people are taken together
        until there are enough.
        """
        few = self.small(values.different)
        runs = []
        first = 0
        for i in range(len(few)):
            different = values.different[i]
            if few[i]:
                different = values.different[first : i + 1].sum()
            enough = not self.small(different)
            last_of_kind = i + 1 == len(few) or few[i + 1] != few[i]
            if enough or last_of_kind:
                run = slice(first, i + 1)
                runs.append(self._run(values, run, few=bool(few[i]), enough=enough))
                first = i + 1
        return runs

    def _run(
        self, values: ScoreValues, run: slice, *, few: bool, enough: bool
    ) -> ScoreRun:
        """Scores that are taken together; repeat visits of few people count as if each
        score had nearly `fewest` of them.
        """
        key = np.sum(values.key[run], dtype=np.uint64)
        score = values.score[run].mean()
        exact = values.people[run].sum()
        people = float(exact + moved(key, 0))
        if not few:
            return ScoreRun(score, people, enough, 0.0)
        n_scores = run.stop - run.start if enough else 1
        most = (self.fewest - 1) * n_scores
        left_out = max(exact - most, 0.0)
        return ScoreRun(score, min(people, most), enough, left_out)


class ScoreRun(NamedTuple):
    """Neighbouring scores that are taken together: their mean, the moved count of
    people, whether these are enough, and how many visits are left out of the count.
    """

    score: float
    people: float
    enough: bool
    left_out: float


def reveals_counts(values: ScoreValues) -> bool:
    """Whether a mean of these scores reveals how many people have which."""
    n_scores = len(values.score)
    return n_scores < MANY_SCORES and values.people.sum() >= 2 * n_scores


def moved(key: Any, what: int) -> Any:
    """By how much a count is moved: `what` is 0 for all people of a cell, 1 for those
    with the outcome.
    """
    key = mix(np.asarray(key, dtype=np.uint64)) + np.uint64(what)
    secret = os.environ.get(SECRET)
    drawn = _secret_hashes(key, secret) if secret else mix(key)
    return MOVES[drawn % np.uint64(len(MOVES))]


def _secret_hashes(keys: Any, secret: str) -> Any:
    """A number for each key that nobody can tell without the secret (BLAKE2b)."""
    start = blake2b(key=sha256(os.fsencode(secret)).digest(), digest_size=8)
    digests = []
    for key in keys.astype("<u8").ravel():
        of_key = start.copy()
        of_key.update(key.tobytes())
        digests.append(of_key.digest())
    hashes = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
    return hashes.reshape(keys.shape)


def shown_p(p: float, large: Any = True) -> float:
    """A p-value with the digits that are printed; of few people as a limit: the exact
    one reveals their number.

    >>> shown_p(0.01234), shown_p(0.0008)
    (0.012, 0.0)
    >>> shown_p(0.004, large=False), shown_p(0.2, large=False)
    (< 0.05, > 0.05)
    """
    if large:
        return 0.0 if p < SMALLEST_P else round(float(p), P_DIGITS)
    if not known(p):
        return float("nan")
    return Limit(P_BAND, "below" if p < P_BAND else "above")
