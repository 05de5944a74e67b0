"""The outcome among the groups, under its own name or another: refused, or warned of where it may be meant.

Groups by the outcome itself have rates of 0 and 1. A correction for them needs to know the outcome of whom it
scores, and an audit of them says nothing about the score.
"""

from __future__ import annotations

import warnings

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.patterns import BESIDE
from propcal.core.reduction import CLUSTER
from propcal.errors import InputError, Message

BY_CHANCE = 1e-6  # levels that tell the outcome are a coincidence if they would as often by chance
NEARLY = 0.1  # of the errors that a guess without the attribute makes, the share that is left with it


def check_outcome_groups(atoms: Atoms) -> None:
    """Refuse an attribute that is the outcome; warn of one that nearly is."""
    weight = atoms.pattern_sums(atoms.weight).astype(np.float64)
    positives = atoms.pattern_sums(atoms.positives).astype(np.float64)
    people = atoms.pattern_sums(atoms.people).astype(np.float64)
    for a, name in enumerate(atoms.patterns.attributes):
        if name == CLUSTER or name.startswith(BESIDE):
            continue
        level = atoms.patterns.table[:, a]
        sums = [np.bincount(level, column).astype(np.float64) for column in (weight, positives, people)]
        _check(name, *sums)


def _check(name: str, weight: FloatArray, positives: FloatArray, people: FloatArray) -> None:
    """Look at the levels of one attribute: how wrong is a guess of each level's more common outcome?"""
    total, events = weight.sum(), positives.sum()
    wrong, guessed = np.minimum(positives, weight - positives).sum(), min(events, total - events)
    if not guessed > 0 or wrong > NEARLY * guessed or _chance(people, events / total) > BY_CHANCE:
        return
    if wrong <= 1e-9 * total:
        raise InputError(
            f"attribute {name!r} is the outcome, or another name for it: each of its {len(people):,} levels "
            f"has only people with the outcome or only people without it ({int(people.sum()):,} people)",
            argument=name,
            next_step="Leave it out of the groups; a score is corrected before the outcome is known",
        )
    warnings.warn(
        Message(
            f"attribute {name!r} nearly is the outcome: it tells the outcome of {1 - wrong / total:.1%} of "
            "the people",
            argument=name,
            next_step="Was it known when the score was made? If not, leave it out of the groups",
        ),
        UserWarning,
        stacklevel=4,
    )


def _chance(people: FloatArray, rate: float) -> float:
    """How often levels of these sizes would have one outcome each if it had nothing to do with them."""
    people = people[people > 0]
    return float(np.prod(rate**people + (1 - rate) ** people))
