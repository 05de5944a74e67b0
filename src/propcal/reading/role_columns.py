"""What may be wrong with scores, outcomes and weights, and the errors that say so.

What may be wrong with a row is defined once (`troubles`), for arrays and for the
expressions of an engine. One function refuses it (`refuse_troubles`), from the number
of rows with each trouble. Errors count the trouble and never show a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import reduce
from math import inf
from operator import or_
from typing import Any, NamedTuple

import numpy as np

from propcal.core.grid import FloatArray, IntArray
from propcal.errors import InputError, refused
from propcal.numbers import agreeing, capital

LARGEST_WEIGHT = 1e15
# what may be done about a score that is missing or no probability
INVALID = ("error", "null", "keep")
# scores of whole numbers up to here are points or deciles, and no percentages
MOST_POINTS = 20
# beside probabilities, these usually mean "missing"
CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)
# share of the values from which a hint takes all of them to be on another scale
MANY = 0.1
FEWEST_SWAPPED = 10  # soft outcomes from which scores may have taken their place


class RoleNames(NamedTuple):
    """What errors call the columns with a role."""

    score: str = "score"
    outcome: str = "y"
    weight: str = "sample_weight"
    cluster: str = "cluster"


class Trouble(IntEnum):
    """What is wrong with a row; of several problems, the most urgent one."""

    SOUND = 0
    WEIGHT_ZERO = -1
    WEIGHT_MISSING = -2
    WEIGHT_INFINITE = -3
    WEIGHT_NEGATIVE = -4
    WEIGHT_TOO_LARGE = -5
    LEFT_OUT = -6  # no score or no outcome, and such rows are left out
    SCORE_MISSING = -7
    SCORE_INFINITE = -8
    # scores outside of 0 to 1 by what they look like, so that a hint fits the values
    SCORE_CODE = -9  # such as -1 or 999
    SCORE_POINTS = -10  # whole numbers up to 20
    SCORE_WHOLE = -11  # whole numbers up to 100
    SCORE_LARGE = -12
    SCORE_PERCENT = -13  # other numbers up to 100
    SCORE_NEGATIVE = -14
    SCORE_NEAR = -15  # near 0 or 1
    OUTCOME_MISSING = -16
    OUTCOME_OUTSIDE = -17


OUTSIDE = [
    trouble
    for trouble in Trouble
    if Trouble.SCORE_NEAR <= trouble <= Trouble.SCORE_CODE
]


class Complaint(NamedTuple):
    """How an error words some troubles: the role of the column, and the adjective."""

    role: str
    troubles: list[Trouble]
    adjective: str


WRONG_WEIGHTS = [
    Complaint("weight", [Trouble.WEIGHT_MISSING], "missing"),
    Complaint("weight", [Trouble.WEIGHT_INFINITE], "infinite"),
    Complaint("weight", [Trouble.WEIGHT_NEGATIVE], "negative"),
]
# in the order of errors
COMPLAINTS = [
    *WRONG_WEIGHTS,
    Complaint("weight", [Trouble.WEIGHT_TOO_LARGE], "too large"),
    Complaint("score", [Trouble.SCORE_MISSING], "missing"),
    Complaint("score", [Trouble.SCORE_INFINITE], "infinite"),
    Complaint("score", OUTSIDE, "outside [0, 1]"),
    Complaint("outcome", [Trouble.OUTCOME_MISSING], "missing"),
    Complaint("outcome", [Trouble.OUTCOME_OUTSIDE], "outside [0, 1]"),
]
# the text in errors.toml that names the scale of most scores outside of 0 to 1
SCALES = {
    Trouble.SCORE_NEGATIVE: "log-odds",
    Trouble.SCORE_PERCENT: "percentages",
    Trouble.SCORE_WHOLE: "percentages or points",
}
Function = Callable[[Any], Any]


def score_troubles(
    s: Any, absent: Function, floor: Function
) -> list[tuple[Any, Trouble]]:
    """What may be wrong with a score that is not from 0 to 1; the first that applies,
    else `SCORE_NEAR`.

    `s` is an array or an expression; `absent` says which values are missing, `floor`
    rounds down.
    """
    whole = s == floor(s)
    return [
        (absent(s), Trouble.SCORE_MISSING),
        ((s == inf) | (s == -inf), Trouble.SCORE_INFINITE),
        (reduce(or_, [s == code for code in CODES]), Trouble.SCORE_CODE),
        (whole & (s <= MOST_POINTS), Trouble.SCORE_POINTS),
        (whole & (s <= 100), Trouble.SCORE_WHOLE),
        (s > 100, Trouble.SCORE_LARGE),
        (s > 1.01, Trouble.SCORE_PERCENT),
        (s < -0.01, Trouble.SCORE_NEGATIVE),
    ]


def troubles(
    s: Any,
    y: Any,
    w: Any,
    absent: Function,
    floor: Function,
    *,
    drop_missing: bool | None,
) -> list[tuple[Any, Trouble]]:
    """What may be wrong with a row that is not `sound`; the first that applies. Without
    weights, `w` is None.
    """
    cases = []
    if w is not None:
        cases += [
            (absent(w), Trouble.WEIGHT_MISSING),
            ((w == inf) | (w == -inf), Trouble.WEIGHT_INFINITE),
            (w < 0, Trouble.WEIGHT_NEGATIVE),
            (w == 0, Trouble.WEIGHT_ZERO),
            (w > LARGEST_WEIGHT, Trouble.WEIGHT_TOO_LARGE),
        ]
    if drop_missing:
        cases.append((absent(s) | absent(y), Trouble.LEFT_OUT))
    cases += [
        (inside(s, absent) & absent(y), Trouble.OUTCOME_MISSING),
        (inside(s, absent), Trouble.OUTCOME_OUTSIDE),
    ]
    return cases + score_troubles(s, absent, floor)


def sound(s: Any, y: Any, w: Any, absent: Function) -> Any:
    """Which rows can be used: score and outcome are from 0 to 1, and a weight is above
    0.
    """
    fine = inside(s, absent) & inside(y, absent)
    if w is None:
        return fine
    return fine & ~absent(w) & (w > 0) & (w <= LARGEST_WEIGHT)


def inside(value: Any, absent: Function) -> Any:
    """Whether numbers are present and from 0 to 1."""
    return ~absent(value) & (value >= 0) & (value <= 1)


def check_lengths(sizes: dict[str, int], *, may_be_empty: bool = False) -> None:
    """All columns must have the same number of rows, at least one unless nothing is
    learned from them.
    """
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
        raise InputError(f"the inputs must have the same number of rows: {listed}")
    name, size = next(iter(sizes.items()))
    if size == 0 and not may_be_empty:
        raise InputError(f"{name} is empty: there are no rows", argument=name)


@dataclass
class ScoreTally:
    """Counts what is wrong with scores, batch by batch, so that one message can give
    the totals.
    """

    n: int = 0
    counts: Mapping[Trouble, int] = field(default_factory=Counter)

    @property
    def outside(self) -> int:
        """How many are outside of 0 to 1, infinite ones included."""
        return sum(
            self.counts[trouble] for trouble in (Trouble.SCORE_INFINITE, *OUTSIDE)
        )

    @property
    def invalid(self) -> int:
        """How many are missing or no probability."""
        return self.counts[Trouble.SCORE_MISSING] + self.outside

    def add(self, score: FloatArray) -> bool:
        """Count a batch; returns whether all scores so far are probabilities."""
        self.n += len(score)
        if len(score) and not _within(score):
            off = score[~inside(score, np.isnan)]
            self.counts = Counter(self.counts) + _counted(
                _first(score_troubles(off, np.isnan, np.floor))
            )
        return not self.invalid

    def check(
        self, name: str, *, drop_missing: bool | None = None, scoring: bool = False
    ) -> None:
        """Refuse what was counted; `drop_missing` is None if no argument leaves out
        missing scores.

        When scores are corrected (`scoring`), invalid ones can be left empty.
        """
        if scoring:
            missing = "invalid in scoring"
            infinite = "invalid in scoring"
            outside = self.hint(scoring=True) or "invalid in scoring"
        else:
            missing = "people to exclude" if drop_missing is None else "rows to exclude"
            infinite = "infinite scores"
            outside = self.hint() or "invalid scores"

        for count, adjective, key in (
            (self.counts[Trouble.SCORE_MISSING], "missing", missing),
            (self.counts[Trouble.SCORE_INFINITE], "infinite", infinite),
            (self.outside, "outside that range", outside),
        ):
            if count:
                values = _values(count, self.n)
                raise refused(key, name=name, values=values, what=adjective)

    def hint(self, *, scoring: bool = False) -> str:
        """Which error says what the values outside of 0 to 1 probably are; "" if that
        is not clear.
        """
        codes = self.counts[Trouble.SCORE_CODE]
        others = self.outside - codes
        if not others:
            if codes >= self.n / 2:
                return ""
            return "codes in scoring" if scoring else "codes among scores"
        if others == self.counts[Trouble.SCORE_NEAR]:
            return "rounded scores"
        if self.counts[Trouble.SCORE_LARGE] or others <= MANY * self.n:
            return ""
        for trouble, scale in SCALES.items():
            if self.counts[trouble]:
                return scale
        return "points as scores"


def _within(values: FloatArray) -> bool:
    """Whether all values are from 0 to 1; without a mask, because NaN spreads to the
    smallest and the largest value.
    """
    return bool(values.min() >= 0 and values.max() <= 1)


def _first(cases: list[tuple[Any, Trouble]]) -> IntArray:
    """The first trouble that applies, for each row."""
    conditions = [condition for condition, _ in cases]
    codes = [int(trouble) for _, trouble in cases]
    return np.select(conditions, codes, default=int(Trouble.SCORE_NEAR))


def _counted(codes: IntArray) -> Counter[Trouble]:
    different, counts = np.unique(codes, return_counts=True)
    return Counter({Trouble(code): int(n) for code, n in zip(different, counts)})


def _values(count: int, n: int) -> str:
    return f"{count:,} of {n:,} values {agreeing(count, 'is', 'are')}"


def check_scores(
    score: FloatArray,
    name: str,
    *,
    drop_missing: bool | None = None,
    scoring: bool = False,
) -> None:
    """Scores must be probabilities."""
    tally = ScoreTally()
    if not tally.add(score):
        tally.check(name, drop_missing=drop_missing, scoring=scoring)


def check_rows(
    score: FloatArray,
    outcome: FloatArray,
    weight: FloatArray | None,
    names: RoleNames,
    *,
    drop_missing: bool | None,
) -> IntArray | None:
    """Refuse rows that cannot be used. Returns the trouble of each row; None if all of
    them are sound.

    Of the rows that are not sound, those that remain have no weight, or are left out.
    """
    weights_in_range = weight is None or bool(
        weight.min() > 0 and weight.max() <= LARGEST_WEIGHT
    )
    if weights_in_range and _within(score) and _within(outcome):
        return None

    cases = [(sound(score, outcome, weight, np.isnan), Trouble.SOUND)]
    cases += troubles(
        score, outcome, weight, np.isnan, np.floor, drop_missing=drop_missing
    )
    codes = _first(cases)

    score_in_range = (codes == Trouble.SOUND) | (codes <= Trouble.OUTCOME_MISSING)
    plausible = score[score_in_range]
    binary = bool(np.all((plausible == 0) | (plausible == 1)))
    refuse_troubles(_counted(codes), names, drop_missing=drop_missing, binary=binary)
    return codes


def refuse_troubles(
    counts: Mapping[Trouble, int],
    names: RoleNames,
    *,
    drop_missing: bool | None,
    binary: bool,
) -> None:
    """Refuse rows, counted by their trouble: first weights, then scores, then outcomes.

    `binary` says that the scores are all 0 or 1. The message also lists the problems of
    other rows, so that all of them can be fixed at once.
    """
    try:
        _refuse_first(counts, names, drop_missing=drop_missing, binary=binary)
    except InputError as error:
        others = _other_complaints(counts, names, str(error))
        problem = error.problem
        next_step = error.next_step
        if next_step is None:
            problem = problem + others
        else:
            next_step = next_step + others
        raise InputError(
            problem,
            argument=error.argument,
            next_step=next_step,
            between=error.message.between,
        ) from None


def _refuse_first(
    counts: Mapping[Trouble, int],
    names: RoleNames,
    *,
    drop_missing: bool | None,
    binary: bool,
) -> None:
    n = sum(counts.values())
    for complaint in WRONG_WEIGHTS:
        wrong = _count_of(complaint, counts)
        if wrong:
            what = complaint.adjective
            if what == "missing":
                what = "missing (NaN)"
            raise refused(
                "wrong weights", name=names.weight, wrong=wrong, n=n, what=what
            )
    if counts[Trouble.WEIGHT_TOO_LARGE]:
        raise refused("large weights", name=names.weight, most=LARGEST_WEIGHT)
    if counts[Trouble.WEIGHT_ZERO] == n:
        problem = f"{names.weight}: all {n:,} weights are 0, so there are no rows"
        raise InputError(problem, argument=names.weight)
    n -= counts[Trouble.WEIGHT_ZERO]

    if counts[Trouble.LEFT_OUT] == n:
        problem = f"none of the {n:,} people has both a score and an outcome"
        raise InputError(problem, argument=names.score)
    n -= counts[Trouble.LEFT_OUT]

    ScoreTally(n, counts).check(names.score, drop_missing=drop_missing)
    _refuse_outcomes(counts, n, names, drop_missing=drop_missing, binary=binary)


def _refuse_outcomes(
    counts: Mapping[Trouble, int],
    n: int,
    names: RoleNames,
    *,
    drop_missing: bool | None,
    binary: bool,
) -> None:
    missing = counts[Trouble.OUTCOME_MISSING]
    if missing:
        if drop_missing is None:
            key = "people without outcome"
        else:
            key = "rows without outcome"
        raise refused(key, name=names.outcome, values=_values(missing, n))
    outside = counts[Trouble.OUTCOME_OUTSIDE]
    if outside:
        raise refused(
            "swapped" if binary else "wrong outcomes",
            name=names.outcome,
            values=_values(outside, n),
            score=capital(names.score),
        )


def _count_of(complaint: Complaint, counts: Mapping[Trouble, int]) -> int:
    return sum(counts[trouble] for trouble in complaint.troubles)


def _other_complaints(
    counts: Mapping[Trouble, int], names: RoleNames, first_error: str
) -> str:
    """What is wrong with rows other than those of the first error; each row counts only
    for its most urgent trouble.
    """
    occurring = [complaint for complaint in COMPLAINTS if _count_of(complaint, counts)]
    by_column: dict[str, list[str]] = {}
    for complaint in occurring[1:]:
        count = _count_of(complaint, counts)
        sentences = by_column.setdefault(getattr(names, complaint.role), [])
        words = [f"{count:,}", agreeing(count, "is", "are"), complaint.adjective]
        if not sentences:
            words.insert(1, agreeing(count, "value", "values"))
        sentences.append(" ".join(words))
    if not by_column:
        return ""

    also = " Also" if first_error.endswith((".", "?")) else "; also"
    listed = [f"{name}: {', '.join(all_)}" for name, all_ in by_column.items()]
    return f"{also}, in other rows, {'; '.join(listed)}"


def refuse_swapped(
    score: Any, one: float, soft: int, n: int, score_name: str, outcome_name: str
) -> None:
    """Refuse scores that are all 0 or `one`, if both occur and most outcomes lie
    between.

    `soft` says how many of the `n` outcomes lie strictly between 0 and 1. A few rows,
    such as a small chunk of a file, may look like that by chance.
    """
    if soft <= max(n / 2, FEWEST_SWAPPED):
        return
    is_zero = score == 0
    is_one = score == one
    if np.any(is_zero) and np.any(is_one) and bool(np.all(is_zero | is_one)):
        raise refused("scores swapped", name=score_name, outcome=outcome_name)
