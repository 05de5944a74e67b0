"""Findings: everything that is measured of one score, and of whom, before words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from propcal.auditing.audit_claims import (
    Decisions,
    cell_claims,
    error_regions,
    group_claims,
    largest_errors,
    too_few_events,
)
from propcal.auditing.audit_tables import (
    AuditTables,
    categories_table,
    groups_table,
    smallest_alpha_table,
    stacked,
    tests_table,
)
from propcal.auditing.bin_free import bin_free_table
from propcal.auditing.claims import Claim, with_numbers, with_others
from propcal.auditing.decision import decide
from propcal.auditing.headcount import Counts
from propcal.auditing.loss_intervals import debiased, losses, ranges_unsure
from propcal.auditing.named_errors import name_errors
from propcal.auditing.profile import JudgedGroups, Profile, audited_groups, profiles
from propcal.auditing.statistics.chance import Chance, enough_people
from propcal.auditing.statistics.hypothesis_tests import CalibrationTest
from propcal.auditing.statistics.measures import checked_thresholds
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

EXACT_BITS = 32  # of scores that are not rounded


@dataclass(frozen=True, eq=False)
class AuditedPeople:
    """Totals and properties of the data.

    Attributes
    ----------
    patterns : Patterns
    people : int
    positives, weight : float
        Weighted number of people with the outcome, and of all.
    outcome_rate : float
        The exact one, also if counts are protected: it decides what is said of a rare
        outcome, and is not printed.
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
    outcome_rate: float
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
        patterns = atoms.patterns
        weight = atoms.weight.astype(np.float64)
        total_weight = float(weight.sum())
        positives = float(atoms.positives.sum())
        mean_weight = ratio(atoms.weight_sq, weight, 0.0)
        heaviest = float(mean_weight.max())
        with_missing = [
            name
            for name, levels in zip(patterns.attributes, patterns.levels)
            if None in levels
        ]
        n_missing = counts.missing.people.sum(axis=0)
        missing = np.rint(n_missing).astype(int).ravel()
        at_ends = counts.at_ends.people[..., 1].sum()
        outcome_rate = positives / total_weight
        missing_people = dict(zip(with_missing, missing.tolist()))
        heaviest_share = heaviest / total_weight
        effective = total_weight**2 / float(atoms.weight_sq.sum())
        left_out = LeftOutReport.of(atoms)
        return cls(
            patterns=patterns,
            people=atoms.n_people,
            positives=positives,
            weight=total_weight,
            outcome_rate=outcome_rate,
            missing=missing_people,
            at_ends=round(float(at_ends)),
            resolution_bits=atoms.resolution_bits,
            rounding=rounding,
            frequencies=atoms.frequencies,
            soft_labels=atoms.soft_labels,
            clusters=clusters,
            rows=atoms.weighted_rows,
            heaviest=heaviest_share,
            effective=effective,
            fingerprint=atoms.fingerprint(),
            left_out=left_out,
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
        self.definition()  # checks its own arguments

    def reading(self) -> dict[str, Any]:
        """How rows are read."""
        names = ("weight_kind", "positive", "drop_missing")
        return {
            "groups": self.definition(),
            **{name: getattr(self, name) for name in names},
        }


def settings_and_names(arguments: Mapping[str, Any]) -> tuple[AuditSettings, Identity]:
    """The arguments of an audit, without its data: settings, and names for its
    words.
    """
    field_of = {argument_of(each): each.name for each in fields(Identity)}
    settings = {}
    names = {}
    for argument, value in arguments.items():
        if argument in field_of:
            names[field_of[argument]] = value
        else:
            settings[argument] = value
    return AuditSettings(**settings), Identity(**names)


@dataclass(frozen=True, eq=False)
class Findings:
    """What was measured, of whom, and by which rule: exact, or protected.

    Everything that an audit prints is made from findings, by `assemble`.

    Attributes
    ----------
    rule : AuditSettings
    people : AuditedPeople
    table : Categories
    noise : Chance
    profiles : list of Profile
        Everything measured of each group; an audit does not keep them.
    shown : AuditTables
        What is shown of groups, cells, curves and thresholds.
    claims : tuple of Claim
        What is stated of everybody, groups and cells, with the numbers that are shown.
    untested : str
        Why there are no tests; empty if there are.
    min_share : float
        From which share of all people a cell counts.
    fitted_on_these : bool or None
        Whether the score was corrected by something fitted to these people; None if it
        was not corrected.
    counts : Counts
    shared : Atoms or None
        The atoms, if they are shared ones.
    shared_losses : LossBounds or None
        What the exact losses of shared atoms can be.
    called : str
        The name of the score in a comparison.
    conclusion : str
        What the verdict came to, of findings that an audit keeps: protected counts do
        not change it.
    fewest : int
        Smaller counts are protected; 0 if the numbers are exact.
    """

    rule: AuditSettings
    people: AuditedPeople
    table: Categories
    noise: Chance
    profiles: list[Profile]
    shown: AuditTables
    claims: tuple[Claim, ...]
    untested: str
    min_share: float
    fitted_on_these: bool | None
    counts: Counts
    shared: Atoms | None = None
    shared_losses: LossBounds | None = None
    called: str = ""
    conclusion: str = ""
    fewest: int = 0

    def subject(self, identity: Identity) -> Identity:
        """The identity under which a verdict speaks of the score; in a comparison each
        has its name.
        """
        if not self.called:
            return identity
        name = f"“{self.called}”"
        if identity.score:
            name = f"{identity.score} ({name})"
        return replace(identity, score=name)

    def kept(self, conclusion: str) -> Findings:
        """What an audit keeps, so that its counts can be protected later: neither
        people nor draws.
        """
        noise = replace(self.noise, rates=self.noise.rates[:0])
        return replace(self, profiles=[], noise=noise, conclusion=conclusion)


def find(
    atoms: Atoms,
    rule: AuditSettings,
    *,
    fitted_on_these: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure everything, from atoms that may have clusters of repeated people."""
    rng = Draws(rule.random_state)
    people = without_keys(atoms)
    bare = without_clusters(people)
    check_outcome_groups(bare)
    sizes = audited_groups(bare, rule.definition(), n_memberships=len(people.patterns))
    table = rule.table(bare, or_everybody=True)
    noise = Chance.of(people, table, rule.n_draws, rng)
    enough = enough_people(noise.people, table.people, noise.effect, rule.min_people)
    table = replace(table, eligible=table.eligible & enough)
    judged = JudgedGroups.of(bare, rule.min_group, rule.min_events)
    least = min(rule.min_people, rule.min_group)
    measured = profiles(people, sizes, judged, least, rule.thresholds, rng, progress)
    everybody = measured[0].sample

    untested = _untested(bare, everybody)
    decisions = Decisions()
    bin_free = None
    if not untested:
        _check_enough(everybody, rule.within)
        tests, _ = decide(people, everybody, table, sizes, judged, noise.effect)
        decisions = _decisions(people, measured, tests)
        if rule.bin_free:
            bin_free = _bin_free(people, measured, rule)

    shown = _tables(table, noise, measured, decisions, rule, bare.patterns)
    shown = replace(shown, bin_free=bin_free)
    groups = [one.size.group for one in measured]
    counts = Counts.of(people, groups, table.bins, rule.thresholds)
    rounding = None
    if bare.resolution_bits < EXACT_BITS and fitted_on_these is None:
        rounding = _loss_bounds(bare, table, rule)
    shared_losses = None
    if atoms.shared is not None:
        shared_losses = _loss_bounds(atoms, table, rule)
    claims = _all_claims(decisions, shown, cells_unsure=ranges_unsure(shared_losses))
    audited = AuditedPeople.of(bare, counts, everybody.n_clusters, rounding)
    min_share = rule.share_of(table.bins)
    return Findings(
        rule=rule,
        people=audited,
        table=table,
        noise=noise,
        profiles=measured,
        shown=shown,
        claims=claims,
        untested=untested,
        min_share=min_share,
        fitted_on_these=fitted_on_these,
        counts=counts,
        shared=None if atoms.shared is None else atoms,
        shared_losses=shared_losses,
    )


def _tables(
    table: Categories,
    noise: Chance,
    measured: list[Profile],
    decisions: Decisions,
    rule: AuditSettings,
    patterns: Patterns,
) -> AuditTables:
    """What is shown of groups, cells, curves and thresholds."""
    min_share = rule.share_of(table.bins)
    any_error = decisions.any_error
    shown_groups = groups_table(measured, decisions, patterns)
    categories = categories_table(table, noise, rule, min_share, any_error=any_error)
    typical_gaps = debiased(table, noise, rule.rho)
    smallest_alpha = smallest_alpha_table(table, gamma=rule.gamma, rho=rule.rho)
    return AuditTables(
        groups=shown_groups,
        categories=categories,
        losses=losses(table, noise, rule.rho),
        debiased=typical_gaps,
        curves=stacked(measured, "curve"),
        net_benefit=stacked(measured, "thresholds"),
        distribution=stacked(measured, "bars"),
        tests=tests_table(decisions.tests),
        smallest_alpha=smallest_alpha,
    )


def _loss_bounds(atoms: Atoms, table: Categories, rule: AuditSettings) -> LossBounds:
    """What the losses of the exact scores can be."""
    share = rule.share_of(table.bins)
    people = rule.min_people
    return loss_bounds(atoms, table, rho=rule.rho, min_share=share, min_people=people)


def _check_enough(everybody: Sample, within: float | None) -> None:
    """Refuse a question that these people could not answer even if the score were
    right.
    """
    if within is None:
        return
    expected = everybody.expected
    rate = expected / everybody.total
    why = too_few_events(within, expected, rate, everybody.variance_ratio)
    if why:
        raise refused("within too narrow", within=within, why=why)


def _decisions(
    atoms: Atoms, measured: list[Profile], tests: Sequence[CalibrationTest]
) -> Decisions:
    """What follows from the tests: claims on everybody and on groups, and how far off
    each group tested can be.
    """
    names = {EVERYBODY.name, *(test.test for test in tests)}
    tested = [
        one
        for one in measured
        if one.size.group.name in names and not one.size.left_out
    ]
    limits = largest_errors([one.sample for one in tested])
    certain = {one.size.group.name: pair for one, pair in zip(tested, limits)}
    if not any(test.rejected for test in tests):
        return Decisions(tests, certain=certain)

    with_repeats = with_effect(without_clusters(atoms), repeat_effect(atoms))
    everybody = measured[0].size
    parts = [one.size.group for one in tested[1:] if one.size.people < everybody.people]
    errors = name_errors(with_repeats, parts, tests)
    regions = error_regions(with_repeats, curve=errors.curve)
    claims = group_claims(atoms, measured, tests, errors, regions)
    return Decisions(tests, claims, errors.left, certain)


def _all_claims(
    decisions: Decisions, shown: AuditTables, *, cells_unsure: bool
) -> tuple[Claim, ...]:
    """The claims on everybody, groups and cells, with the numbers of the shown."""
    claims = list(decisions.claims)
    if not cells_unsure:
        claims += cell_claims(decisions.tests, decisions.claims, shown.categories)
    numbered = (with_numbers(claim, shown.groups, shown.categories) for claim in claims)
    return tuple(with_others(claim, shown.groups) for claim in numbered)


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
        why = "the outcomes are soft labels, whose noise is not known"
        if np.all((atoms.score == 0) | (atoms.score == UNIT)):
            why += "; scores are all 0 or 1: are score and outcome swapped?"
        return why
    if everybody.cluster is None or everybody.n_clusters >= FEWEST_CLUSTERS:
        return ""
    values = plural(everybody.n_clusters, "different value")
    return (
        f"the patient ID column (cluster) has about {values}, too few to see how much "
        "patients differ. Name a column that identifies patients, not sites"
    )
