"""Score, outcome, weight and patient ID of people in memory, read and checked once.

Atoms, the search for groups and points for features are all made from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.core.grid import BoolArray, FloatArray, IntArray
from propcal.errors import InputError, refused
from propcal.reading.frames import attribute_columns, numbers
from propcal.reading.outcomes import compact_outcomes, outcome_numbers
from propcal.reading.role_columns import (
    RoleNames,
    Trouble,
    check_lengths,
    check_rows,
    refuse_swapped,
)


@dataclass(frozen=True, eq=False)
class ReadPeople:
    """The columns with a role as numbers, not checked yet."""

    score: FloatArray
    outcome: FloatArray
    weight: FloatArray | None
    patient_ids: Any
    names: RoleNames

    def check(
        self, other_lengths: Mapping[str, int], *, drop_missing: bool | None
    ) -> CheckedPeople:
        """Refuse rows that cannot be used, and columns of different lengths.

        `drop_missing` leaves out rows without a score or an outcome; None refuses them
        without mentioning that they could be left out.
        """
        lengths = {
            self.names.score: len(self.score),
            self.names.outcome: len(self.outcome),
        }
        if self.weight is not None:
            lengths[self.names.weight] = len(self.weight)
        if self.patient_ids is not None:
            lengths[self.names.cluster] = len(self.patient_ids)
        check_lengths(lengths | dict(other_lengths))

        troubles = check_rows(
            self.score, self.outcome, self.weight, self.names, drop_missing=drop_missing
        )
        if troubles is None:
            outcome = compact_outcomes(self.outcome)
            return CheckedPeople(
                self.score, outcome, self.weight, self.patient_ids, self.names
            )
        used = troubles == Trouble.SOUND
        if self.weight is None:
            weight = None
            left_out_weight = None
        else:
            weight = self.weight[used]
            left_out_weight = self.weight[troubles == Trouble.LEFT_OUT]
        return CheckedPeople(
            self.score[used],
            compact_outcomes(self.outcome[used]),
            weight,
            self.patient_ids,
            self.names,
            troubles,
            left_out_weight,
        )


@dataclass(frozen=True, eq=False)
class CheckedPeople:
    """People who are used, and who of the rows that were passed they are.

    Attributes
    ----------
    score, outcome, weight : array
        Of the rows that are used; `weight` may be None.
    patient_ids : column or None
        Of all rows that were passed.
    names : RoleNames
    troubles : array or None
        The `Trouble` of each row that was passed; None if all of them are used.
    left_out_weight : array or None
        The weights of rows that were left out for want of a score or an outcome.
    """

    score: FloatArray
    outcome: Any
    weight: FloatArray | None
    patient_ids: Any
    names: RoleNames
    troubles: IntArray | None = None
    left_out_weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.score)

    @property
    def soft_outcomes(self) -> int:
        """How many outcomes lie strictly between 0 and 1."""
        if self.outcome.dtype.kind == "i":
            return 0
        return int(np.count_nonzero((self.outcome > 0) & (self.outcome < 1)))

    @property
    def used(self) -> BoolArray | None:
        """Which of the rows are used; None: all."""
        return None if self.troubles is None else self.troubles == Trouble.SOUND

    @property
    def counted(self) -> BoolArray | None:
        """Which of the rows have a weight above 0: those that are used, and those that
        are left out; None: all.
        """
        return None if self.troubles is None else self.troubles != Trouble.WEIGHT_ZERO

    @property
    def left_out(self) -> BoolArray | None:
        """Which of the counted rows are left out; None: none."""
        if self.troubles is None:
            return None
        counted = self.troubles[self.troubles != Trouble.WEIGHT_ZERO]
        return np.asarray(counted == Trouble.LEFT_OUT)

    def refuse_swapped(self) -> None:
        """Refuse scores and outcomes that took the place of each other."""
        refuse_swapped(
            self.score,
            1.0,
            self.soft_outcomes,
            len(self.outcome),
            self.names.score,
            self.names.outcome,
        )


def read_roles(
    score: Any,
    outcome: Any,
    sample_weight: Any,
    cluster: Any,
    names: RoleNames,
    positive: Any,
) -> ReadPeople:
    """Read the columns with a role; weights and patient IDs may be None."""
    scores = _score_numbers(score, names.score)
    outcomes = outcome_numbers(outcome, names.outcome, positive)
    weights = None
    if sample_weight is not None:
        weights = numbers(sample_weight, names.weight)
    patient_ids = None
    if cluster is not None:
        patient_ids = attribute_columns({"cluster": cluster})["cluster"]
    return ReadPeople(scores, outcomes, weights, patient_ids, names)


def _score_numbers(score: Any, name: str) -> FloatArray:
    """Scores as numbers; an error about texts asks whether they are outcomes."""
    try:
        return numbers(score, name)
    except InputError as error:
        try:
            outcome_numbers(score, name)
        except InputError:
            raise error from None
        raise refused("outcomes as scores", name=name) from None
