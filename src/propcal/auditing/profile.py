"""Profiles: every group with its size, measures, curve, net benefit and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from propcal.auditing.statistics.logistic_calibration import DISTANCES, calibration
from propcal.auditing.statistics.measures import (
    FORMULAS,
    UNKNOWN,
    Estimate,
    decision_curve,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.conditions import Where
from propcal.core.draws import Draws
from propcal.core.groups import EVERYBODY, Group, Groups, GroupSize, membership

CURVE = ("score", "outcome_rate", "low", "high")
# what a group needs to be tested, by default
MIN_GROUP = 50
MIN_EVENTS = 10
# people of equal weight, below which no estimate is shown (NCHS standards, 2017)
FEWEST_EFFECTIVE = 30
FITTED = ("intercept", "slope", *DISTANCES)  # by logistic regression
MEASURES = ("observed_expected", *FITTED, *[*FORMULAS][1:])


@dataclass(frozen=True)
class JudgedGroups:
    """Which groups are tested: those with enough people, and enough expected events and
    non-events.

    Events are expected by the score or at the rate of everybody, whichever gives more:
    a score of nearly 0 must not hide the events of a large group.
    """

    people: int
    events: int
    rate: float

    @classmethod
    def of(
        cls, atoms: Atoms, people: int = MIN_GROUP, events: int = MIN_EVENTS
    ) -> JudgedGroups:
        """With the rate of these people."""
        return cls(people, events, float(atoms.positives.sum() / atoms.weight.sum()))

    def too_few(self, sample: Sample) -> str:
        """Why a group is too small to be tested; empty if it is not."""
        return self.too_few_of(
            sample.n_people, sample.effective, sample.expected, sample.total
        )

    def too_few_of(
        self, people: int, effective: float, expected: float, weight: float
    ) -> str:
        """`too_few` from numbers of a group: people, how many people of equal weight
        they are worth, the events that the score expects, and the weight.
        """
        if people < self.people:
            return f"fewer than {self.people:,} people"
        if dominated(people, effective):
            return f"weights worth fewer than {FEWEST_EFFECTIVE} people"
        mean_score = expected / weight if weight > 0 else 0.0
        if people * max(mean_score, self.rate) < self.events:
            return f"fewer than {self.events} expected events"
        if people * max(1 - mean_score, 1 - self.rate) < self.events:
            return f"fewer than {self.events} expected non-events"
        return ""


def dominated(people: int, effective: float) -> bool:
    """Whether a few people carry so much of the weight that the others hardly count."""
    return effective < min(FEWEST_EFFECTIVE, people) * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class Profile:
    """One group: who it is, its people, and its measures (NaN where there are too few
    people).

    `too_few` says why the group is not tested, if it is too small; a small group that
    the user did not name is also left out of the groups that count (`size.left_out`).
    """

    size: GroupSize
    sample: Sample
    too_few: str
    measures: dict[str, Estimate]
    curve: dict[str, Any]
    thresholds: dict[str, Any]
    bars: dict[str, Any]

    @property
    def measured(self) -> bool:
        """Whether it has enough people for measures and a curve."""
        return bool(self.thresholds)


def audited_groups(
    atoms: Atoms, groups: Groups, *, n_memberships: int | None = None
) -> list[GroupSize]:
    """Everybody, and every group there is; groups that a missing value rules out are
    marked.
    """
    groups.refuse_too_many(atoms.patterns, n_memberships)
    everybody = GroupSize(EVERYBODY, atoms.n_people, 1.0)
    sizes = groups.sizes(atoms, gamma=0.0)
    return [everybody, *(size for size in sizes if size.group != EVERYBODY)]


def profiles(
    atoms: Atoms,
    sizes: Sequence[GroupSize],
    judged: JudgedGroups,
    min_people: int,
    thresholds: Sequence[float],
    rng: Draws,
    progress: Callable[[int, int], None] | None,
) -> list[Profile]:
    """Measure every group: those that count first; `progress` gets the numbers of
    groups done and in all.
    """
    inside = membership([size.group for size in sizes], atoms.patterns)
    everybody = Sample.of(atoms)
    pattern_of_atom = atoms.pattern_index()
    measured = []
    for i, (size, members) in enumerate(zip(sizes, inside)):
        sample = everybody
        if not members.all():
            sample = everybody.where(members[pattern_of_atom])
        too_few = judged.too_few(sample)
        listed = size
        if too_few and not size.left_out and not _named(size.group, atoms):
            listed = replace(size, left_out=too_few)
        profile = profile_of(listed, sample, too_few, min_people, thresholds, rng)
        measured.append(profile)
        if progress is not None:
            progress(i + 1, len(sizes))
    return sorted(measured, key=lambda profile: bool(profile.size.left_out))


def _named(group: Group, atoms: Atoms) -> bool:
    """Whether the user named this very group: everybody, or the people who meet a
    condition.
    """
    if not group.conditions:
        return True
    if len(group.conditions) > 1:
        return False
    attribute, _ = group.conditions[0]
    return isinstance(atoms.patterns.derived.get(attribute), Where)


def profile_of(
    size: GroupSize,
    sample: Sample,
    too_few: str,
    min_people: int,
    thresholds: Sequence[float],
    rng: Draws,
) -> Profile:
    """Measure one group, if it has enough people and no few of them carry most of the
    weight.
    """
    if sample.n_people < min_people or dominated(sample.n_people, sample.effective):
        unknown = dict.fromkeys(MEASURES, UNKNOWN)
        return Profile(size, sample, too_few, unknown, {}, {}, {})

    fitted = calibration(sample.narrow, rng)
    measures = {}
    for name, formula in FORMULAS.items():
        people = sample.narrow if name == "auroc" else sample
        measures[name] = formula(people)
    for name in FITTED:
        measures[name] = getattr(fitted, name)
    curve = {} if fitted.curve is None else dict(zip(CURVE, fitted.curve.T))
    of_thresholds, bars = decision_curve(sample, thresholds)
    return Profile(size, sample, too_few, measures, curve, of_thresholds, bars)
