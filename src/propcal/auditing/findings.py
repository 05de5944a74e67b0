"""Findings: everything that is measured of one score, and of whom, before it is put
into tables and words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from propcal.auditing.audit_claims import (
    error_regions,
    group_claims,
    largest_errors,
    too_few_events,
)
from propcal.auditing.bin_free import bin_free_table
from propcal.auditing.claims import Claim
from propcal.auditing.decision import decide
from propcal.auditing.headcount import Counts
from propcal.auditing.named_errors import name_errors
from propcal.auditing.profile import JudgedGroups, Profile, audited_groups, profiles
from propcal.auditing.statistics.chance import Chance, enough_people
from propcal.auditing.statistics.hypothesis_tests import CalibrationTest
from propcal.auditing.statistics.measures import Estimate, checked_thresholds
from propcal.auditing.statistics.sample import Sample
from propcal.core.arguments import WeightKind, check_choice, check_number
from propcal.core.atoms import Atoms, LeftOutReport
from propcal.core.categories import Categories, check_outcome_groups
from propcal.core.draws import Draws
from propcal.core.fit.evidence import FEWEST_CLUSTERS, repeat_effect, with_effect
from propcal.core.grid import UNIT, ratio
from propcal.core.groups import EVERYBODY
from propcal.core.loss_bounds import LossBounds, loss_bounds
from propcal.core.patterns import Patterns
from propcal.core.reduction import without_clusters, without_keys
from propcal.errors import refused
from propcal.metrics import CategoryRule
from propcal.numbers import plural
from propcal.options import AuditRule, Identity, argument_of


@dataclass(frozen=True, eq=False)
class AuditedPeople:
    """Totals and properties of the data.

    Attributes
    ----------
    patterns : Patterns
    people : int
    positives, weight : float
        Weighted number of people with the outcome, and of all.
    missing : dict
        For each attribute that is missing for some people, for how many.
    at_ends : int
        People with a score of exactly 0 or 1.
    resolution_bits : int
    rounding : LossBounds or None
        What rounded scores can have changed; None if that is not known, or if scores
        are exact.
    frequencies, soft_labels : bool
    clusters : int
        Clusters of repeat visits; 0 if every row is a person.
    rows : int
        How many rows whole weights were counted up from; 0 if nobody was weighted.
    heaviest : float
        Share of the weight that one person carries, at the most.
    effective : float
        People of equal weight that the weights are worth.
    fingerprint : str or None
    left_out : LeftOutReport
        People without a score or an outcome, who were left out.
    unused_id : str
        A column that looks like a patient ID, repeats, and was not named as one.
    """

    patterns: Patterns
    people: int
    positives: float
    weight: float
    missing: dict[str, int]
    at_ends: int
    resolution_bits: int
    rounding: LossBounds | None
    frequencies: bool
    soft_labels: bool
    clusters: int
    rows: int
    heaviest: float
    effective: float
    fingerprint: str | None
    left_out: LeftOutReport
    unused_id: str

    @classmethod
    def of(
        cls, atoms: Atoms, counts: Counts, clusters: int, rounding: LossBounds | None
    ) -> AuditedPeople:
        """From atoms without clusters, and their counts."""
        weight = atoms.weight.astype(np.float64)
        patterns = atoms.patterns
        heaviest = ratio(atoms.weight_sq, weight, 0.0).max()
        named = [
            name
            for name, levels in zip(patterns.attributes, patterns.levels)
            if None in levels
        ]
        missing = (
            np.rint(counts.missing.people.sum(axis=0)).astype(int).ravel().tolist()
        )
        return cls(
            patterns=patterns,
            people=atoms.n_people,
            positives=float(atoms.positives.sum()),
            weight=float(weight.sum()),
            missing=dict(zip(named, missing)),
            at_ends=round(float(counts.at_ends.people[..., 1].sum())),
            resolution_bits=atoms.resolution_bits,
            rounding=rounding,
            frequencies=atoms.frequencies,
            soft_labels=atoms.soft_labels,
            clusters=clusters,
            rows=atoms.weighted_rows,
            heaviest=float(heaviest / weight.sum()),
            effective=float(weight.sum() ** 2 / atoms.weight_sq.sum()),
            fingerprint=atoms.fingerprint(),
            left_out=LeftOutReport.of(atoms),
            unused_id=atoms.unused_id,
        )


@dataclass(frozen=True)
class AuditSettings(AuditRule, CategoryRule):
    """How to audit; see `propcal.audit` for what each argument means."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weight_kind", self.weight_kind, get_args(WeightKind))
        if isinstance(self.random_state, (int, np.integer)):
            check_number("random_state", self.random_state, at_least=0, whole=True)
        if self.within is not None:
            check_number("within", self.within, at_least=0.001)
            if self.within >= 1:
                raise refused("within above 1", within=self.within)
        object.__setattr__(self, "thresholds", checked_thresholds(self.thresholds))
        self.words()  # checks its own arguments

    def reading(self) -> dict[str, Any]:
        """How rows are read."""
        names = ("weight_kind", "positive", "drop_missing")
        return {"groups": self.words(), **{name: getattr(self, name) for name in names}}


def settings_and_names(arguments: Mapping[str, Any]) -> tuple[AuditSettings, Identity]:
    """The arguments of an audit, without its data: settings, and names for its
    words.
    """
    called = {argument_of(f): f.name for f in fields(Identity)}
    settings = {name: value for name, value in arguments.items() if name not in called}
    names = {called[name]: value for name, value in arguments.items() if name in called}
    return AuditSettings(**settings), Identity(**names)


@dataclass(frozen=True, eq=False)
class Findings:
    """What was measured, of whom, and by which rule.

    `claims` are what is stated of everybody and of groups, `left` the O/E ratios that
    they leave of other errors. `certain` has for each group tested how far off it can
    be, with 95 % confidence for all together and for each alone. `untested` says why
    there are no tests (empty if there are), `min_share` from which share a cell counts,
    `fitted_on_these` whether the score was corrected by something fitted to these
    people (None: it was not corrected), `shared` the atoms if they are shared ones,
    `shared_losses` what their exact losses can be; `bin_free` has the measures without
    bins, if they were asked for; `called` is the name of the score in a comparison.
    """

    rule: AuditSettings
    people: AuditedPeople
    table: Categories
    noise: Chance
    profiles: list[Profile]
    tests: list[CalibrationTest]
    claims: tuple[Claim, ...]
    left: dict[str, Estimate]
    certain: dict[str, tuple[float, float]]
    untested: str
    min_share: float
    fitted_on_these: bool | None
    counts: Counts
    shared: Atoms | None = None
    shared_losses: LossBounds | None = None
    bin_free: pd.DataFrame | None = None
    called: str = ""

    def subject(self, identity: Identity) -> Identity:
        """The identity under which a verdict speaks of the score; in a comparison each
        has its name.
        """
        if not self.called:
            return identity
        own = f"“{self.called}”"
        return replace(
            identity, score=f"{identity.score} ({own})" if identity.score else own
        )

    def without_samples(self) -> Findings:
        """Without people and draws: what an audit keeps, so that its counts can be
        protected later.
        """
        return replace(
            self, profiles=[], noise=replace(self.noise, rates=self.noise.rates[:0])
        )


def find(
    atoms: Atoms,
    rule: AuditSettings,
    *,
    fitted_on_these: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure everything, from atoms that may have clusters of repeated people."""
    rng = Draws(rule.random_state)
    keyed = atoms
    atoms = without_keys(atoms)
    bare = without_clusters(atoms)
    check_outcome_groups(bare)
    sizes = audited_groups(bare, rule.words(), n_memberships=len(atoms.patterns))
    table = rule.table(bare, or_everybody=True)
    noise = Chance.of(atoms, table, rule.n_draws, rng)
    enough = enough_people(noise.people, table.people, noise.effect, rule.min_people)
    table = replace(table, eligible=table.eligible & enough)
    judged = JudgedGroups.of(bare, rule.min_group, rule.min_events)
    least = min(rule.min_people, rule.min_group)
    measured = profiles(atoms, sizes, judged, least, rule.thresholds, rng, progress)
    everybody = measured[0].sample
    untested = _untested(bare, everybody)
    tests: list[CalibrationTest] = []
    if not untested:
        _check_enough(everybody, rule.within)
        tests, _ = decide(atoms, everybody, table, sizes, judged, noise.effect)
    named = {EVERYBODY.name, *(test.test for test in tests)}
    tested = [
        one
        for one in measured
        if one.size.group.name in named and not one.size.left_out
    ]
    claims, left = _claims(atoms, measured, tested, tests)
    if untested:
        errors = []
    else:
        errors = largest_errors([one.sample for one in tested])
    min_share = rule.share_of(table.bins)
    counts = Counts.of(
        atoms, [one.size.group for one in measured], table.bins, rule.thresholds
    )

    def bounds(own: Atoms) -> LossBounds:
        return loss_bounds(
            own, table, rho=rule.rho, min_share=min_share, min_people=rule.min_people
        )

    if bare.resolution_bits < 32 and fitted_on_these is None:
        rounding = bounds(bare)
    else:
        rounding = None
    shared = keyed if keyed.shared is not None else None
    return Findings(
        rule=rule,
        people=AuditedPeople.of(bare, counts, everybody.n_clusters, rounding),
        table=table,
        noise=noise,
        profiles=measured,
        tests=tests,
        claims=claims,
        left=left,
        certain={one.size.group.name: pair for one, pair in zip(tested, errors)},
        untested=untested,
        min_share=min_share,
        fitted_on_these=fitted_on_these,
        counts=counts,
        shared=shared,
        shared_losses=None if shared is None else bounds(shared),
        bin_free=None
        if untested or not rule.bin_free
        else _bin_free(atoms, measured, rule),
    )


def _check_enough(everybody: Sample, within: float | None) -> None:
    """Refuse a question that these people could not answer even if the score were
    right.
    """
    expected = everybody.expected
    total = everybody.total
    effect = everybody.variance_ratio
    if within is not None and (
        why := too_few_events(within, expected, expected / total, effect)
    ):
        raise refused("within too narrow", within=within, why=why)


def _claims(
    atoms: Atoms,
    measured: list[Profile],
    tested: list[Profile],
    tests: Sequence[CalibrationTest],
) -> tuple[tuple[Claim, ...], dict[str, Estimate]]:
    """What is stated of everybody and of groups, and what that leaves of other
    errors.
    """
    if not any(test.rejected for test in tests):
        return (), {}
    own = with_effect(without_clusters(atoms), repeat_effect(atoms))
    parts = [
        one.size.group
        for one in tested[1:]
        if one.size.people < measured[0].size.people
    ]
    errors = name_errors(own, parts, tests)
    regions = error_regions(own, curve=errors.curve)
    return group_claims(atoms, measured, tests, errors, regions), errors.left


def _bin_free(
    atoms: Atoms, measured: list[Profile], rule: AuditSettings
) -> pd.DataFrame | None:
    """Measures without bins of everybody and the groups that are tested; None if there
    are none.
    """
    tested = [
        profile.size
        for profile in measured
        if not profile.size.left_out and not profile.too_few
    ]
    if tested:
        return bin_free_table(atoms, tested, rule.n_draws, Draws(rule.random_state))
    return None


def _untested(atoms: Atoms, everybody: Sample) -> str:
    """Why nothing can be tested, or an empty text."""
    if atoms.soft_labels:
        swapped = bool(np.all((atoms.score == 0) | (atoms.score == UNIT)))
        if swapped:
            hint = "; scores are all 0 or 1: are score and outcome swapped?"
        else:
            hint = ""
        return f"the outcomes are soft labels, whose noise is not known{hint}"
    if everybody.cluster is None or everybody.n_clusters >= FEWEST_CLUSTERS:
        return ""
    return (
        f"the patient ID column (cluster) has about {plural(everybody.n_clusters, 'different value')}, too "
        "few to see how much patients differ. Name a column that identifies patients, not sites"
    )
