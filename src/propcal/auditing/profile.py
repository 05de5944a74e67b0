"""Profiles: every group with its size, measures, curve, net benefit and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.decision_curve import decision_curve, distribution
from propcal.auditing.logistic_calibration import Calibration, calibration
from propcal.auditing.measures import UNKNOWN, Estimate, auroc, brier, log_loss, observed_expected
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.groups.collection import Collection, Group, GroupSize, membership

EVERYBODY = Group(())
MEASURES = (
    "observed_expected",
    "intercept",
    "slope",
    "ici",
    "e50",
    "e90",
    "emax",
    "brier",
    "log_loss",
    "auroc",
)


@dataclass(frozen=True, eq=False)
class Profile:
    """One group: who it is, its people, and its measures (NaN where there are too few people)."""

    size: GroupSize
    sample: Sample
    enough: bool
    measures: dict[str, Estimate]
    curve: Any
    thresholds: dict[str, Any]
    bars: dict[str, Any]


def audited_groups(atoms: Atoms, collection: Collection) -> list[GroupSize]:
    """Everybody, the groups of C, and those left out of it."""
    everybody = GroupSize(EVERYBODY, atoms.n_people, 1.0)
    listed = [size for size in (*collection.kept, *collection.left_out) if size.group != EVERYBODY]
    return [everybody, *listed]


def profiles(
    atoms: Atoms,
    sizes: Sequence[GroupSize],
    *,
    min_people: int,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> list[Profile]:
    """Measure every group; `progress` is told how many are done, and of how many."""
    inside = membership([size.group for size in sizes], atoms.patterns)
    found = []
    for i, (size, members) in enumerate(zip(sizes, inside)):
        sample = Sample.of(atoms, None if members.all() else np.flatnonzero(members))
        found.append(_profile(size, sample, min_people, rng))
        if progress is not None:
            progress(i + 1, len(sizes))
    return found


def _profile(size: GroupSize, sample: Sample, min_people: int, rng: np.random.Generator) -> Profile:
    if sample.n_people < min_people:
        return Profile(size, sample, False, dict.fromkeys(MEASURES, UNKNOWN), None, {}, {})
    fitted: Calibration = calibration(sample, rng)
    measures = {
        "observed_expected": observed_expected(sample),
        **{name: getattr(fitted, name) for name in ("intercept", "slope", "ici", "e50", "e90", "emax")},
        "brier": brier(sample),
        "log_loss": log_loss(sample),
        "auroc": auroc(sample),
    }
    return Profile(size, sample, True, measures, fitted.curve, decision_curve(sample), distribution(sample))
