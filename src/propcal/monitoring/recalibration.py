"""Would recalibrating help? Fitted on recent periods except the last ones, and judged on those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.compare import Comparison, compare, loss_of_everybody
from propcal.core.atoms import Atoms
from propcal.core.correction.correction import Correction
from propcal.errors import InputError
from propcal.estimators import PMCBoost
from propcal.identity import Identity
from propcal.monitoring.course_sentences import span_of
from propcal.numbers import IN_TEXT, known, listed, plural

HELPS, HARMS, UNCLEAR, NOTHING = "it would help", "it would do harm", "no clear gain", "nothing to correct"
EARLY = "too early to say"
RECALIBRATED = "recalibrated"
MOST_NAMED = 5
FEWEST_FITTED = 2  # periods
USUAL = 12  # periods that are used if no alarm says since when the score is wrong
N_DRAWS = 200


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A correction fitted on some periods, and what it does on later ones.

    Attributes
    ----------
    answer : str
        "it would help", "it would do harm", "no clear gain", "nothing to correct" or "too early to say".
    sentence : str
    fitted, judged : tuple of str
        Periods.
    comparison : Comparison
        The score and its correction on the periods that were held out.
    correction : Correction
        Fitted on `fitted` only; to use one, fit it on all recent periods.
    """

    answer: str
    sentence: str
    fitted: tuple[str, ...]
    judged: tuple[str, ...]
    comparison: Comparison
    correction: Correction


def would_recalibrating_help(
    periods: Mapping[str, Atoms],
    *,
    since: str | None = None,
    held_out: int | None = None,
    gamma: float = 0.05,
    identity: Identity | None = None,
) -> Recalibration:
    """Fit on all but the last periods since the onset (or of the last year), and judge on those."""
    identity = identity or Identity(unit="people")
    names = sorted(periods)
    recent = [name for name in names if since is not None and name >= since]
    early = since is not None and len(recent) <= FEWEST_FITTED
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
    correction = PMCBoost(gamma=gamma).fit_atoms(past).correction_
    comparison = compare(
        {"score": None, RECALIBRATED: correction},
        later,
        gamma=gamma,
        n_draws=N_DRAWS,
        labels=identity.labels,
        unit=identity.unit,
    )
    row = loss_of_everybody(comparison)
    answer = NOTHING if not correction.n_updates else _answer(float(row["low"]), float(row["high"]))
    answer = EARLY if early else answer
    return Recalibration(
        answer,
        recalibration_sentence(answer, fitted, judged, comparison),
        tuple(fitted),
        tuple(judged),
        comparison,
        correction,
    )


def _answer(low: float, high: float) -> str:
    if not np.isfinite([low, high]).all():
        return UNCLEAR
    return HELPS if high < 0 else HARMS if low > 0 else UNCLEAR


def recalibration_sentence(
    answer: str, fitted: Sequence[str], judged: Sequence[str], comparison: Comparison
) -> str:
    """The answer in words: the log loss of everybody before and after, and groups that are further off."""
    row = loss_of_everybody(comparison)
    on, later = f"fitted on {span_of(fitted)}", f"in {span_of(judged)}"
    change = ""
    if known(row["difference"]):
        change = (
            f" (log loss {IN_TEXT.decimal(row['base'], 4)} before and {IN_TEXT.decimal(row['value'], 4)} "
            f"after, 95 % CI of the change {IN_TEXT.interval(row['low'], row['high'], 4, '+')})"
        )
    told = {
        HELPS: f"Recalibrating would help: {on}, it would have lowered the error {later}{change}.",
        HARMS: f"Recalibrating would do harm: {on}, it would have raised the error {later}{change}.",
        UNCLEAR: f"Whether recalibrating would help is not clear yet: {on}, it would have changed the error "
        f"{later} by no more than chance explains{change}.",
        NOTHING: "Recalibrating would change nothing: "
        f"in {span_of(fitted)} the score is off by no more than chance explains.",
        EARLY: "It is too early to say whether recalibrating would help: at least "
        f"{FEWEST_FITTED + 1} periods since the beginning of the error are needed.",
    }
    worse = comparison.worse_groups(RECALIBRATED) if answer in (HELPS, HARMS, UNCLEAR) else []
    if not worse:
        return told[answer]
    n = len(worse)
    some = [*worse[:MOST_NAMED], *([f"{n - MOST_NAMED} more"] if n > MOST_NAMED else [])]
    return f"{told[answer]} {plural(n, 'group')} would be further off than now: {listed(some)}."
