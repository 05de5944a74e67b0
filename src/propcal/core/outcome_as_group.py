"""Refuse groups that are defined by the outcome itself, and warn of groups that nearly are.

Such groups have outcome rates of 0 and 1. A correction for them would need to know the outcome before
scoring, and an audit of them says nothing about the score.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.patterns import BESIDE, CLUSTER, KEY, Patterns
from propcal.errors import InputError, Message

BY_CHANCE = 1e-6  # if chance separates the outcomes this often, it is taken for a coincidence
NEARLY = 0.1  # warn if guessing the outcome by level leaves less than this share of the errors


def check_outcome_groups(atoms: Atoms) -> None:
    """Refuse an attribute that is the outcome; warn if one nearly is."""
    weight, positives = atoms.pattern_sums(atoms.weight), atoms.pattern_sums(atoms.positives)
    people = weight if atoms.people is atoms.weight else atoms.pattern_sums(atoms.people)
    check_outcome_patterns(atoms.patterns, weight, positives, people)


def check_outcome_patterns(patterns: Patterns, weight: Any, positives: Any, people: Any) -> None:
    """The same, from the sums of each pattern."""
    for a, name in enumerate(patterns.attributes):
        if name == CLUSTER or name.startswith((BESIDE, KEY)):
            continue
        level = patterns.table[:, a]
        sums = [np.bincount(level, column).astype(np.float64) for column in (weight, positives, people)]
        _check(name, *sums)


def tells_outcome(weight: FloatArray, positives: FloatArray, people: FloatArray) -> bool:
    """Whether the levels of an attribute, by their sums, tell the outcome of nearly everybody."""
    total, events = weight.sum(), positives.sum()
    wrong, guessed = np.minimum(positives, weight - positives).sum(), min(events, total - events)
    if not guessed > 0 or wrong > NEARLY * guessed:
        return False
    return _chance(people, events / total) <= BY_CHANCE


def _check(name: str, weight: FloatArray, positives: FloatArray, people: FloatArray) -> None:
    """Check one attribute: how often would guessing each level's more common outcome be wrong?"""
    if not tells_outcome(weight, positives, people):
        return
    total, wrong = weight.sum(), np.minimum(positives, weight - positives).sum()
    if wrong <= 1e-9 * total:
        raise InputError(
            f"attribute {name!r} is the outcome, perhaps under another name: in each of its {len(people):,} "
            f"levels, either everyone or no one had the outcome ({int(people.sum()):,} people)",
            argument=name,
            next_step="Remove it from the groups: scores are corrected before the outcome is known",
        )
    warnings.warn(
        Message(
            f"attribute {name!r} is nearly the outcome itself: it predicts the outcome of "
            f"{1 - wrong / total:.1%} of people",
            argument=name,
            next_step="Was it known when the score was computed? If not, remove it from the groups",
        ),
        UserWarning,
        stacklevel=4,
    )


def _chance(people: FloatArray, rate: float) -> float:
    """The probability that each level has only one outcome if the attribute is unrelated to the outcome."""
    people = people[people > 0]
    return float(np.prod(rate**people + (1 - rate) ** people))


def outcome_alike(atoms: Atoms) -> str:
    """Whether nobody or everybody had the outcome, in words; empty if some had it and some had not."""
    events, total = float(atoms.positives.sum()), float(atoms.weight.sum())
    if 0 < events < total:
        return ""
    who = "nobody" if events <= 0 else "everybody"
    return f"{who} had the outcome; check that the right column, and the right value of it, is the event"
