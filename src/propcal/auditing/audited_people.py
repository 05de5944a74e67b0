"""AuditedPeople: who was audited, as far as notes and settings of an audit mention it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from propcal.core.atoms import Atoms
from propcal.core.grid import UNIT
from propcal.core.left_out import LeftOutReport
from propcal.core.patterns import Patterns
from propcal.core.rounding import LossBounds


@dataclass(frozen=True, eq=False)
class AuditedPeople:
    """Totals and properties of the data.

    Attributes
    ----------
    patterns : Patterns
    people : int
    positives : float
        Weighted number of people with the outcome.
    missing : dict
        For each attribute that is missing for some people, for how many.
    at_ends : int
        People with a score of exactly 0 or 1.
    resolution_bits : int
    rounding : LossBounds or None
        What rounded scores can have changed; None if that is not known, or if scores are exact.
    frequencies, soft_labels : bool
    clusters : int
        Clusters of repeat visits; 0 if every row is a person.
    rows : int
        How many rows whole weights were counted up from; 0 if nobody was weighted.
    fingerprint : str or None
    left_out : LeftOutReport
        People without a score or an outcome, who were left out.
    """

    patterns: Patterns
    people: int
    positives: float
    missing: dict[str, int]
    at_ends: int
    resolution_bits: int
    rounding: LossBounds | None
    frequencies: bool
    soft_labels: bool
    clusters: int
    rows: int
    fingerprint: str | None
    left_out: LeftOutReport

    @classmethod
    def of(cls, atoms: Atoms, *, clusters: int, rounding: LossBounds | None) -> AuditedPeople:
        """From atoms without clusters."""
        return cls(
            patterns=atoms.patterns,
            people=atoms.n_people,
            positives=float(atoms.positives.sum()),
            missing=missing_counts(atoms),
            at_ends=int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum()),
            resolution_bits=atoms.resolution_bits,
            rounding=rounding,
            frequencies=atoms.frequencies,
            soft_labels=atoms.soft_labels,
            clusters=clusters,
            rows=atoms.weighted_rows,
            fingerprint=atoms.fingerprint(),
            left_out=LeftOutReport.of(atoms),
        )


def missing_counts(atoms: Atoms) -> dict[str, int]:
    """For each attribute that is missing for some people, for how many."""
    people: Any = atoms.pattern_sums(atoms.people)
    patterns = atoms.patterns
    return {
        name: int(people[patterns.table[:, a] == levels.index(None)].sum())
        for a, (name, levels) in enumerate(zip(patterns.attributes, patterns.levels))
        if None in levels
    }
