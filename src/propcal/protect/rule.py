"""The rule: counts below a threshold are withheld, and others moved by at most 2 (cell-key method).

How a count is moved depends on who is in the cell and on nothing else (Fraser and Wooton 2005; Marley and
Leaver 2011): the same people give the same number on every page, and one person more draws anew, so that two
pages cannot be subtracted from each other. A secret of the institution, in the environment variable
PROPCAL_SECRET, keeps others from working out by how much; it is read here, and written nowhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np

from propcal.auditing.headcount import ScoreValues
from propcal.core.arguments import check_number
from propcal.core.grid import BoolArray, FloatArray, mix
from propcal.errors import refused
from propcal.numbers import SMALLEST_P, About, Limit, known

LEAST = 5  # a lower threshold protects nobody
FEWEST_MEASURED = 50  # people, from which on statistics of a group are shown as they are
MOVED = 2  # the most, either way
TABLE = np.repeat(np.arange(-MOVED, MOVED + 1.0), [1, 2, 3, 2, 1])  # mean 0
VARIANCE = float(np.var(TABLE))
STAND_IN = 5.0  # for few people with one score
MOST_UNSURE = 0.05  # relative error of a mean that hidden counts may cause
FEW_SCORES = 40  # different ones, from which on a mean does not tell counts
SATURATED = 4  # with so few different scores, two or three measures together tell every count
SECRET = "PROPCAL_SECRET"
P_BAND, P_DIGITS = 0.05, 3  # narrower bands would tell the number of few events to within two


@dataclass(frozen=True)
class Rule:
    """Which counts are small: those below `fewest`, which is 11 unless the user wants another number."""

    fewest: int = 11

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

    def alone(self, count: int) -> Any:
        """A count that belongs to no table, to the nearest 5; nobody stays nobody.

        >>> Rule().alone(0), Rule().alone(7), Rule().alone(1238)
        (0, < 11, 1240)
        """
        return Limit(self.fewest, "below") if 0 < count < self.fewest else About(5 * round(count / 5))

    def mean_of_few(self, values: ScoreValues, total: float) -> tuple[float, float]:
        """The mean of scores with few different values, from protected counts, and its variance.

        Such a mean tells counts: 565 people with a mean score of 0.00708 are four alerts. Neighbouring scores
        of few people are counted together. What is left over counts as a fixed number of people; if that
        could change the mean by more than a twentieth, the mean is not told.
        """
        score, people, kept = self._together(values)
        if not kept.any():
            return float("nan"), 0.0
        left = STAND_IN * float((~kept).sum())
        weight = np.where(kept, np.maximum(people, 1.0), 0.0)
        weight *= max(total - left, 1.0) / weight.sum()
        weight = np.where(kept, weight, STAND_IN)
        mean = float(np.average(score, weights=weight))
        unsure = STAND_IN * float(np.abs(score[~kept] - mean).sum()) / weight.sum()
        if unsure > MOST_UNSURE * mean:
            return float("nan"), 0.0
        spread = VARIANCE * float(np.sum((score[kept] - mean) ** 2)) / weight.sum() ** 2
        return mean, spread

    def _together(self, values: ScoreValues) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Scores, moved counts of people, and which of the counts are not small."""
        score, people, kept = [], [], []
        first, few = 0, self.small(values.different)
        for i in range(len(few)):
            run = slice(first, i + 1)
            enough = not self.small(values.different[run].sum() if few[i] else values.different[i])
            last = i + 1 == len(few) or few[i + 1] != few[i]
            if not (enough or last):
                continue
            key = np.sum(values.key[run], dtype=np.uint64)
            shown = float(values.people[run].sum() + moved(key, 0))
            most = (self.fewest - 1) * (i + 1 - first)  # as if all of them were nearly `fewest`
            score.append(values.score[run].mean())
            people.append(min(shown, most) if few[i] else shown)
            kept.append(enough)
            first = i + 1
        return np.array(score), np.array(people), np.array(kept, dtype=np.bool_)


def tells_counts(values: ScoreValues) -> bool:
    """Whether a mean of these scores tells how many people have which."""
    return len(values.score) < FEW_SCORES and values.people.sum() >= 2 * len(values.score)


def moved(key: Any, what: int) -> Any:
    """By how much a count is moved: `what` is 0 for all people of a cell, 1 for those with the outcome."""
    key = mix(np.asarray(key, dtype=np.uint64)) + np.uint64(what)
    secret = os.environ.get(SECRET)
    return TABLE[(_keyed(key, secret) if secret else mix(key)) % np.uint64(len(TABLE))]


def _keyed(key: Any, secret: str) -> Any:
    """A number for each key that nobody can tell without the secret (BLAKE2b)."""
    start = blake2b(key=sha256(os.fsencode(secret)).digest(), digest_size=8)
    found = []
    for one in key.astype("<u8").ravel():
        own = start.copy()
        own.update(one.tobytes())
        found.append(own.digest())
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64).reshape(key.shape)


def shown_p(p: float, large: Any = True) -> float:
    """A p-value with the digits that are printed; of few people as a limit: the exact one tells their number.

    >>> shown_p(0.01234), shown_p(0.0008), shown_p(0.004, large=False), shown_p(0.2, large=False)
    (0.012, 0.0, < 0.05, > 0.05)
    """
    if large:
        return 0.0 if p < SMALLEST_P else round(float(p), P_DIGITS)
    if not known(p):
        return float("nan")
    return Limit(P_BAND, "below" if p < P_BAND else "above")
