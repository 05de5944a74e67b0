"""Would recalibrating help? Fitted on recent periods except the last ones, and judged on those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.core.atoms import Atoms
from propcal.core.correction.correction import Correction
from propcal.core.groups.groups import Groups
from propcal.errors import InputError
from propcal.estimators import PMCBoost
from propcal.identity import Identity

HELPS, HARMS, UNCLEAR, NOTHING = "it would help", "it would do harm", "no clear gain", "nothing to correct"
EARLY = "too early to say"
RECALIBRATED = "recalibrated"
FEWEST_FITTED = 2  # periods
USUAL = 12  # periods that are used if it is not known since when the score is wrong
N_DRAWS = 200


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A correction fitted on some periods, and what it does on later ones.

    Attributes
    ----------
    answer : str
        "it would help", "it would do harm", "no clear gain", "nothing to correct" or "too early to say".
    fitted, judged : tuple of str
        Periods.
    comparison : Comparison
        The score and its correction on the periods that were held out.
    correction : Correction
        Fitted on `fitted` only; to use one, fit it on all recent periods.
    """

    answer: str
    fitted: tuple[str, ...]
    judged: tuple[str, ...]
    comparison: Comparison
    correction: Correction

    @property
    def sentence(self) -> str:
        """The answer in words."""
        from propcal.documents.course_sentences import recalibration_sentence

        return recalibration_sentence(self)


def would_recalibrating_help(
    periods: Mapping[str, Atoms],
    *,
    since: str = "",
    held_out: int | None = None,
    gamma: float = 0.05,
    groups: Groups | None = None,
    identity: Identity | None = None,
) -> Recalibration:
    """Fit on all but the last periods since the onset (or of the last year), and judge on those."""
    identity = identity or Identity(unit="people")
    names = sorted(periods)
    recent = [name for name in names if since and name >= since]
    early = bool(since) and len(recent) <= FEWEST_FITTED
    if len(recent) <= FEWEST_FITTED:
        recent = names[-USUAL:]
    n = max(len(recent) // 4, 1) if held_out is None else held_out
    if not 1 <= n < len(recent):
        raise InputError(
            f"{len(recent)} periods are too few to fit on some and judge on {n} others", argument="held_out"
        )
    fitted, judged = recent[:-n], recent[-n:]
    past: Any = sum(periods[name] for name in fitted)
    later: Any = sum(periods[name] for name in judged)
    correction = PMCBoost(gamma=gamma, groups=groups).fit_atoms(past).correction_
    comparison = compare(
        {"score": None, RECALIBRATED: correction},
        later,
        gamma=gamma,
        groups=groups,
        n_draws=N_DRAWS,
        labels=identity.labels,
        unit=identity.unit,
    )
    row = loss_of_everybody(comparison)
    answer = NOTHING if not correction.n_updates else _answer(float(row["low"]), float(row["high"]))
    answer = EARLY if early else answer
    return Recalibration(
        answer,
        tuple(fitted),
        tuple(judged),
        comparison,
        correction,
    )


def _answer(low: float, high: float) -> str:
    if not np.isfinite([low, high]).all():
        return UNCLEAR
    return HELPS if high < 0 else HARMS if low > 0 else UNCLEAR
