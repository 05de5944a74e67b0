"""Columns with a role: scores, outcomes as 0 and 1, weights and patient IDs, and what
may be wrong with them.

What may be wrong with a row is defined once (`troubles`), for arrays and for the
expressions of an engine, and told by one function (`refuse_troubles`), from the number
of rows with each trouble. Errors count the trouble and never show a value.

Outcomes are numbers, yes and no in their usual spellings, or one value that means the
event. One rule decides, cell by cell, in memory, in files and in every engine: with
`positive`, that value is the event and every other value is not; without it, yes, y,
true, t and 1 are the event and no, n, false, f and 0 are not, in any case and with any
spaces around them. Missing values stay missing.

Patient IDs are hashed into clusters, so that intervals allow for several rows per
person.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from functools import reduce
from hashlib import blake2b
from math import inf, nan
from operator import or_
from typing import Any

import numpy as np

from propcal.core.conditions import is_numeric
from propcal.core.grid import FloatArray, IntArray
from propcal.core.patterns import Level
from propcal.errors import Argument, InputError, PropcalError, refused, shown
from propcal.numbers import capital
from propcal.reading.frames import holds_text, numbers, one_column
from propcal.reading.levels import distinct, level_key

LARGEST_WEIGHT = 1e15
MOST_POINTS = (
    20  # scores of whole numbers up to here are points or deciles, and no percentages
)
INVALID = (
    "error",
    "null",
    "keep",
)  # what may be done about a score that is missing or no probability
CODES = (
    -1.0,
    -9.0,
    -99.0,
    -999.0,
    -9999.0,
    99.0,
    999.0,
    9999.0,
)  # beside probabilities, usually "missing"
# share of the values from which a hint takes all of them to be on another scale
MANY = 0.1
FEWEST_SWAPPED = 10
YES = ("1", "true", "yes", "y", "t")
NO = ("0", "false", "no", "n", "f")
SAME = {"1": "true", "true": "1", "0": "false", "false": "0"}


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
# in the order of errors: the place of the column among score, outcome and weight, and
# the word
WORDS = [
    (2, [Trouble.WEIGHT_MISSING], "missing"),
    (2, [Trouble.WEIGHT_INFINITE], "infinite"),
    (2, [Trouble.WEIGHT_NEGATIVE], "negative"),
    (2, [Trouble.WEIGHT_TOO_LARGE], "too large"),
    (0, [Trouble.SCORE_MISSING], "missing"),
    (0, [Trouble.SCORE_INFINITE], "infinite"),
    (0, OUTSIDE, "outside [0, 1]"),
    (1, [Trouble.OUTCOME_MISSING], "missing"),
    (1, [Trouble.OUTCOME_OUTSIDE], "outside [0, 1]"),
]
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
    """What may be wrong with a row that is not `sound`, likewise; without weights, `w`
    is None.
    """
    if drop_missing:
        found = [(absent(s) | absent(y), Trouble.LEFT_OUT)]
    else:
        found = []
    found += [(inside(s, absent) & absent(y), Trouble.OUTCOME_MISSING)]
    found += [
        (inside(s, absent), Trouble.OUTCOME_OUTSIDE),
        *score_troubles(s, absent, floor),
    ]
    if w is None:
        return found
    return [
        (absent(w), Trouble.WEIGHT_MISSING),
        ((w == inf) | (w == -inf), Trouble.WEIGHT_INFINITE),
        (w < 0, Trouble.WEIGHT_NEGATIVE),
        (w == 0, Trouble.WEIGHT_ZERO),
        (w > LARGEST_WEIGHT, Trouble.WEIGHT_TOO_LARGE),
        *found,
    ]


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
    if next(iter(sizes.values())) == 0 and not may_be_empty:
        raise InputError(
            f"{next(iter(sizes))} is empty: there are no rows",
            argument=next(iter(sizes)),
        )


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
        if drop_missing is None:
            missing = "people to exclude"
        else:
            missing = "rows to exclude"
        for count, what, key in (
            (self.counts[Trouble.SCORE_MISSING], "missing", "" if scoring else missing),
            (
                self.counts[Trouble.SCORE_INFINITE],
                "infinite",
                "" if scoring else "infinite scores",
            ),
            (self.outside, "outside that range", self.hint(scoring=scoring)),
        ):
            if count:
                known = {"name": name, "values": _values(count, self.n), "what": what}
                raise refused(
                    key or ("invalid in scoring" if scoring else "invalid scores"),
                    **known,
                )

    def hint(self, *, scoring: bool = False) -> str:
        """Which error says what the values outside of 0 to 1 probably are; "" unless
        they tell.
        """
        codes = self.counts[Trouble.SCORE_CODE]
        others = self.outside - codes
        if not others:
            likely = "codes in scoring" if scoring else "codes among scores"
            return likely if codes < self.n / 2 else ""
        if others == self.counts[Trouble.SCORE_NEAR]:
            return "rounded scores"
        if self.counts[Trouble.SCORE_LARGE] or others <= MANY * self.n:
            return ""
        return next(
            (key for trouble, key in SCALES.items() if self.counts[trouble]),
            "points as scores",
        )


def _within(values: FloatArray) -> bool:
    """Whether all values are from 0 to 1; quickly, for NaN spreads to the smallest and
    the largest.
    """
    return bool(values.min() >= 0 and values.max() <= 1)


def _first(cases: list[tuple[Any, Trouble]]) -> IntArray:
    """The first trouble that applies, for each row."""
    conditions, codes = zip(*cases)
    return np.asarray(
        np.select(
            conditions, [int(code) for code in codes], default=int(Trouble.SCORE_NEAR)
        )
    )


def _counted(codes: IntArray) -> Counter[Trouble]:
    found, counts = np.unique(codes, return_counts=True)
    return Counter({Trouble(code): int(n) for code, n in zip(found, counts)})


def _values(count: int, n: int) -> str:
    return f"{count:,} of {n:,} values {'is' if count == 1 else 'are'}"


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
    names: tuple[str, str, str],
    *,
    drop_missing: bool | None,
) -> IntArray | None:
    """Refuse rows that cannot be used. Returns the trouble of each row; None if all of
    them are sound.

    Of the rows that are not sound, those that remain have no weight, or are left out.
    """
    weighable = weight is None or bool(
        weight.min() > 0 and weight.max() <= LARGEST_WEIGHT
    )
    if weighable and _within(score) and _within(outcome):
        return None
    cases = [(sound(score, outcome, weight, np.isnan), Trouble.SOUND)]
    cases += troubles(
        score, outcome, weight, np.isnan, np.floor, drop_missing=drop_missing
    )
    codes = _first(cases)
    plausible = score[(codes == Trouble.SOUND) | (codes <= Trouble.OUTCOME_MISSING)]
    binary = bool(np.all((plausible == 0) | (plausible == 1)))
    refuse_troubles(_counted(codes), names, drop_missing=drop_missing, binary=binary)
    return codes


def refuse_troubles(
    of: Mapping[Trouble, int],
    names: tuple[str, str, str],
    *,
    drop_missing: bool | None,
    binary: bool,
) -> None:
    """Refuse rows, counted by their trouble: first weights, then scores, then outcomes.

    `names` is what errors call score, outcome and weight; `binary` says that the scores
    are all 0 or 1. The message also lists the problems of other rows, so that all of
    them can be fixed at once.
    """
    try:
        _refuse_first(of, names, drop_missing=drop_missing, binary=binary)
    except InputError as error:
        others = _others(of, names, str(error))
        problem = error.problem
        step = error.next_step
        problem, step = (
            (problem + others, None) if step is None else (problem, step + others)
        )
        between = error.message.between
        raise InputError(
            problem, argument=error.argument, next_step=step, between=between
        ) from None


def _refuse_first(
    of: Mapping[Trouble, int],
    names: tuple[str, str, str],
    *,
    drop_missing: bool | None,
    binary: bool,
) -> None:
    score, outcome, weight = names
    n = sum(of.values())
    for _, (trouble, *_), word in WORDS[:3]:
        if of[trouble]:
            what = "missing (NaN)" if word == "missing" else word
            raise refused(
                "wrong weights", name=weight, wrong=of[trouble], n=n, what=what
            )
    if of[Trouble.WEIGHT_TOO_LARGE]:
        raise refused("large weights", name=weight, most=LARGEST_WEIGHT)
    if of[Trouble.WEIGHT_ZERO] == n:
        raise InputError(
            f"{weight}: all {n:,} weights are 0, so there are no rows", argument=weight
        )
    n -= of[Trouble.WEIGHT_ZERO]
    if of[Trouble.LEFT_OUT] == n:
        raise InputError(
            f"none of the {n:,} people has both a score and an outcome", argument=score
        )
    n -= of[Trouble.LEFT_OUT]
    ScoreTally(n, of).check(score, drop_missing=drop_missing)
    if missing := of[Trouble.OUTCOME_MISSING]:
        if drop_missing is None:
            key = "people without outcome"
        else:
            key = "rows without outcome"
        raise refused(key, name=outcome, values=_values(missing, n))
    if outside := of[Trouble.OUTCOME_OUTSIDE]:
        values = _values(outside, n)
        beside = capital(score)
        raise refused(
            "swapped" if binary else "wrong outcomes",
            name=outcome,
            values=values,
            score=beside,
        )


def _others(of: Mapping[Trouble, int], names: tuple[str, str, str], first: str) -> str:
    """The other problems that were counted; each row counts only for its most urgent
    one.
    """
    counted = [
        (names[place], sum(of[one] for one in some), word)
        for place, some, word in WORDS
    ]
    told: dict[str, list[str]] = {}
    for name, count, word in [row for row in counted if row[1]][1:]:
        if name in told:
            values = ""
        elif count == 1:
            values = "value "
        else:
            values = "values "
        told.setdefault(name, []).append(
            f"{count:,} {values}{'is' if count == 1 else 'are'} {word}"
        )
    if not told:
        return ""
    also = " Also" if first.endswith((".", "?")) else "; also"
    return f"{also}, in other rows, " + "; ".join(
        f"{name}: {', '.join(all_)}" for name, all_ in told.items()
    )


def refuse_swapped(
    score: Any, one: float, soft: int, n: int, names: tuple[str, str]
) -> None:
    """Refuse scores that are all 0 or `one`, if both occur and most outcomes lie
    between.

    `soft` says how many of the `n` outcomes lie strictly between 0 and 1. A few rows,
    such as a small chunk of a file, may look like that by chance.
    """
    if soft <= max(n / 2, FEWEST_SWAPPED):
        return
    zeros = np.any(score == 0)
    ones = np.any(score == one)
    if zeros and ones and bool(np.all((score == 0) | (score == one))):
        raise refused("scores swapped", name=names[0], outcome=names[1])


def compact_outcomes(outcome: FloatArray) -> Any:
    """Outcomes of 0 and 1, which a byte each can hold; soft labels between stay
    floats.
    """
    whole = outcome.astype(np.int8)
    return whole if np.array_equal(whole, outcome) else outcome


def outcome_numbers(values: Any, name: str, positive: Any = None) -> FloatArray:
    """One column of outcomes as float64; missing values become NaN."""
    if (
        positive is None
        and isinstance(values, np.ndarray)
        and values.dtype.kind in "fiub"
    ):
        return numbers(values, name)
    column = one_column(values, name)
    if positive is None and not holds_text(column):
        return numbers(values if isinstance(column, np.ndarray) else column, name)
    found, codes = distinct(column)
    events = np.array([*event_codes(found, name, positive), nan])
    return np.asarray(events[codes])


def event_codes(found: Sequence[Any], name: str, positive: Any = None) -> list[float]:
    """For each different value of an outcome column: 1 if it is the event, 0 if not,
    NaN if it is missing.
    """
    levels = [level_key(value) for value in found]
    if positive is not None:
        events = _meant(positive, levels, name)
        return [nan if level is None else float(level in events) for level in levels]
    known = {
        level: _folded(level) for level in dict.fromkeys(levels) if level is not None
    }
    strange = [level for level, bare in known.items() if bare not in (*YES, *NO)]
    if strange:
        raise _not_understood(name, sorted(known), strange)
    return [nan if level is None else float(known[level] in YES) for level in levels]


def _folded(level: str) -> str:
    return level.strip().casefold()


def _meant(positive: Any, levels: Sequence[Level], name: str) -> set[str]:
    """The levels that `positive` means: itself, or else what differs in case, spaces or
    spelling only.
    """
    wanted = level_key(positive)
    known = {level for level in levels if level is not None}
    if wanted in known:
        return {str(wanted)}
    alike = {
        level
        for level in known
        if wanted is not None and _folded(level) == _folded(wanted)
    }
    if is_numeric(str(wanted)):
        number = str(level_key(Decimal(str(wanted))))
    else:
        number = ""
    spelled = {SAME.get(str(wanted), ""), number} & known
    if alike or spelled:
        return alike or spelled
    if len(known) > 1:
        step = f"It holds {len(known):,} different values."
    else:
        step = "It holds one value only."
    if len(known) == 2:
        step = "It holds {!r} and {!r}.".format(*sorted(known))
    raise InputError(
        f"{name}: no value is {shown(positive, 40)}",
        argument="positive",
        next_step=step,
    )


def _not_understood(
    name: str, levels: Sequence[str], strange: Sequence[str]
) -> PropcalError:
    if len(levels) <= 2:
        key = "two outcomes" if len(levels) == 2 else "one outcome"
        return refused(key, name=name, first=levels[0], second=levels[-1])
    are = "is" if len(strange) == 1 else "are"
    what = f"{len(strange):,} of its {len(levels):,} different values {are} neither"
    if len(strange) == len(levels):
        what = f"none of its {len(levels):,} different values is"
    return refused("many outcomes", name=name, what=what)


N_CLUSTERS = 256
MOST_COUNTED = 1_000_000  # rows in which the values of a column are counted
FEWEST_PATIENTS = 20  # fewer values may be codes
MOST_DIFFERENT = (
    0.95  # share of rows; where nearly every row has its own value, nobody comes again
)
PATIENT_ID = re.compile(
    "(patient|pat|subject|person|participant|member)(id|no|nr|nbr|num|number|key|identifier)|patient|mrn"
    "|medicalrecord(no|number)|nhs(id|no|number)|empi(id)?|id"
)
CLUSTERS: tuple[Level, ...] = tuple(f"{cluster:03d}" for cluster in range(N_CLUSTERS))


def cluster_codes(ids: Any) -> Any:
    """The cluster of each row: a hash of the patient ID that is the same in every file
    and on every machine.

    All rows of a person are in the same cluster, and clusters are practically
    independent, so that intervals can be computed from the variation between clusters.
    A cluster reveals almost nothing about an ID.
    """
    keys, codes = patient_codes(ids, Argument("cluster"))
    hashed = [
        -1 if key is None else blake2b(key.encode(), digest_size=1).digest()[0]
        for key in keys
    ]
    return np.array(hashed, dtype=np.int32)[codes]


def patient_codes(ids: Any, title: str | Argument) -> tuple[list[Level], Any]:
    """The different patient IDs, and the place of each row's ID among them; refuses
    missing ones.
    """
    values, codes = distinct(ids)
    keys = [level_key(value) for value in values]
    unknown = np.array(
        [*(key is None for key in keys), True]
    )  # code -1 looks up the last entry
    if absent := int(np.count_nonzero(unknown[codes])):
        step = "Find out whose rows they are, or give each of them an ID of its own"
        problem = (
            title + f": the patient ID is missing in {absent:,} of {len(codes):,} rows"
        )
        raise InputError(
            problem,
            argument=None if isinstance(title, Argument) else title,
            next_step=step,
        )
    return keys, codes


def looks_like_patient_id(name: str) -> bool:
    """Whether a column is named as patient IDs usually are.

    >>> [looks_like_patient_id(name) for name in ("subject_id", "NHS number", "PatientID", "stay_id", "age")]
    [True, True, True, False, False]
    """
    return PATIENT_ID.fullmatch(re.sub(r"[\W_]", "", name.casefold())) is not None


def warn_of_undeclared(
    unused: Iterable[str],
    count: Callable[[str], tuple[int, int]],
    key: str = "repeats",
    written: str = "cluster={}",
) -> str:
    """Warn of the first unused column that looks like a patient ID and has repeated
    values; its name, or "".

    `count` gives the number of rows that were counted and of different values in them;
    `written` is how Python passes the column, and `advice` what to do where it cannot
    be passed.
    """
    for name in filter(looks_like_patient_id, unused):
        rows, different = count(name)
        if FEWEST_PATIENTS <= different <= MOST_DIFFERENT * rows:
            counts = {"name": name, "different": different, "rows": rows}
            message = refused(key, passed=written.format(f'"{name}"'), **counts).message
            warnings.warn(message, UserWarning, stacklevel=4)
            return name
    return ""


def count_values(column: Any) -> tuple[int, int]:
    """How many of the first rows have a value, and how many different values these
    have.
    """
    _, codes = distinct(column[:MOST_COUNTED])
    known = codes[codes >= 0]
    return len(known), len(np.unique(known))
