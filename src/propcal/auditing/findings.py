"""Findings: everything that is measured of one score, before it is put into tables and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audited_people import AuditedPeople
from propcal.auditing.bin_free import bin_free_table
from propcal.auditing.broadest_first import distinct_groups
from propcal.auditing.cell_counts import Counts
from propcal.auditing.chance import Chance, score_cells
from propcal.auditing.decision import decide
from propcal.auditing.decision_curve import checked_thresholds
from propcal.auditing.hypothesis_tests import CalibrationTest
from propcal.auditing.profile import JudgedGroups, Profile, audited_groups, profiles
from propcal.auditing.sample import FEWEST_CLUSTERS
from propcal.core.atoms import Atoms
from propcal.core.categories import Categories
from propcal.core.grid import UNIT, FloatArray, check_choice, check_number
from propcal.core.groups.collection import GroupSize
from propcal.core.keys import without_keys
from propcal.core.outcome_as_group import check_outcome_groups, outcome_alike
from propcal.core.reduction import without_clusters
from propcal.core.rounding import LossBounds, loss_bounds
from propcal.metrics import CategoryRule
from propcal.numbers import plural


@dataclass(frozen=True)
class AuditSettings(CategoryRule):
    """How to audit; see `propcal.audit` for what each argument means."""

    min_people: int = 30
    min_group: int = 50
    min_events: int = 10
    n_draws: int = 1000
    random_state: Any = 0
    weight_kind: str = "auto"
    positive: Any = None
    drop_missing: bool = False
    thresholds: Any = ()
    bin_free: bool = False

    def __post_init__(self) -> None:
        check_choice("weight_kind", self.weight_kind, ("auto", "frequency", "survey"))
        if isinstance(self.random_state, (int, np.integer)):
            check_number("random_state", self.random_state, at_least=0, whole=True)
        check_number("min_group", self.min_group, at_least=1, whole=True)
        check_number("min_events", self.min_events, at_least=0, whole=True)
        check_number("n_draws", self.n_draws, at_least=100, at_most=1_000_000, whole=True)
        object.__setattr__(self, "thresholds", checked_thresholds(self.thresholds))
        self.words()  # checks its own arguments


@dataclass(frozen=True, eq=False)
class Findings:
    """What was measured, of whom, and by which rule.

    `distinct` numbers the groups to name, the broadest first. `untested` says why there are no tests (empty
    if there are), `min_share` from which share a cell counts, `fitted_on_these` whether the score was
    corrected by something fitted to these people (None: it was not corrected), `shared` the atoms if they are
    shared ones, `shared_losses` what their exact losses can be, `protected` whether all numbers come from
    protected counts; `bin_free` has the measures without bins, if they were asked for.
    """

    rule: AuditSettings
    people: AuditedPeople
    table: Categories
    noise: Chance
    profiles: list[Profile]
    tests: list[CalibrationTest]
    distinct: dict[str, int]
    untested: str
    min_share: float
    fitted_on_these: bool | None
    counts: Counts
    shared: Atoms | None = None
    shared_losses: LossBounds | None = None
    protected: bool = False
    bin_free: pd.DataFrame | None = None


@dataclass(frozen=True, eq=False)
class AuditSource:
    """What an audit keeps of its findings, so that a page can be made from protected counts.

    Attributes
    ----------
    rule, people, table, tests, distinct, untested, min_share, fitted_on_these, counts, shared, shared_losses
        As in `Findings`.
    sizes : tuple of GroupSize
        Every group, in the order of the table of groups.
    too_few : tuple of str
        For each of them why it is not tested, if it is too small.
    measured : tuple of bool
        Whether it has enough people for measures.
    effects, cell_effects : array of float64, shapes (n_groups,) and that of `table`
        How many times larger variances are than those of as many independent people of equal weight.
    """

    rule: AuditSettings
    people: AuditedPeople
    table: Categories
    tests: list[CalibrationTest]
    distinct: dict[str, int]
    untested: str
    min_share: float
    fitted_on_these: bool | None
    counts: Counts
    sizes: tuple[GroupSize, ...]
    too_few: tuple[str, ...]
    measured: tuple[bool, ...]
    effects: FloatArray
    cell_effects: FloatArray
    shared: Atoms | None = None
    shared_losses: LossBounds | None = None

    @classmethod
    def of(cls, found: Findings) -> AuditSource:
        """Keep counts and findings, and leave out samples, curves and draws."""
        with np.errstate(invalid="ignore", divide="ignore"):
            cell_effects = found.table.people / found.noise.effective
        return cls(
            rule=found.rule,
            people=found.people,
            table=found.table,
            tests=found.tests,
            distinct=found.distinct,
            untested=found.untested,
            min_share=found.min_share,
            fitted_on_these=found.fitted_on_these,
            counts=found.counts,
            sizes=tuple(profile.size for profile in found.profiles),
            too_few=tuple(profile.too_few for profile in found.profiles),
            measured=tuple(profile.measured for profile in found.profiles),
            effects=np.array([profile.variance_ratio for profile in found.profiles]),
            cell_effects=cell_effects,
            shared=found.shared,
            shared_losses=found.shared_losses,
        )


def find(
    atoms: Atoms,
    rule: AuditSettings,
    *,
    fitted_on_these: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure everything, from atoms that may have clusters of repeated people."""
    rng = np.random.default_rng(rule.random_state)
    keyed, atoms = atoms, without_keys(atoms)
    bare = without_clusters(atoms)
    check_outcome_groups(bare)
    table = rule.table(bare, or_everybody=True)
    noise = Chance.of(atoms, table, rule.n_draws, rng)
    table = replace(table, eligible=table.eligible & noise.enough(rule.min_people))
    sizes = audited_groups(bare, rule.words())
    judged = JudgedGroups(rule.min_group, rule.min_events, float(bare.positives.sum() / bare.weight.sum()))
    measured = profiles(
        atoms,
        sizes,
        judged=judged,
        min_people=min(rule.min_people, rule.min_group),
        thresholds=rule.thresholds,
        rng=rng,
        progress=progress,
    )
    untested = _untested(bare, measured[0])
    cells = score_cells(bare, table.bins)
    tests = (
        []
        if untested
        else list(decide(atoms, measured[0].sample, table, sizes, judged, rule.min_people).tests)
    )
    min_share = rule.share_of(table.bins)
    rounded = bare.resolution_bits < 32 and fitted_on_these is None
    return Findings(
        rule=rule,
        people=AuditedPeople.of(
            bare,
            clusters=measured[0].sample.n_clusters,
            rounding=loss_bounds(bare, table, rho=rule.rho, min_share=min_share, min_people=rule.min_people)
            if rounded
            else None,
        ),
        table=table,
        noise=noise,
        profiles=measured,
        tests=tests,
        distinct=distinct_groups(cells, bare.patterns, measured, tests),
        untested=untested,
        min_share=min_share,
        fitted_on_these=fitted_on_these,
        counts=Counts.of(atoms, [profile.size.group for profile in measured], table.bins),
        shared=keyed if keyed.shared is not None else None,
        shared_losses=loss_bounds(keyed, table, rho=rule.rho, min_share=min_share, min_people=rule.min_people)
        if keyed.shared is not None
        else None,
        bin_free=None if untested or not rule.bin_free else _bin_free(atoms, measured, rule),
    )


def _bin_free(atoms: Atoms, measured: list[Profile], rule: AuditSettings) -> pd.DataFrame | None:
    """Measures without bins of everybody and the groups that are tested; None if there are none."""
    tested = [profile.size for profile in measured if not profile.size.left_out and not profile.too_few]
    if not tested:
        return None
    return bin_free_table(atoms, tested, rule.n_draws, np.random.default_rng(rule.random_state))


def _untested(atoms: Atoms, everybody: Profile) -> str:
    """Why nothing can be tested, or an empty text."""
    if alike := outcome_alike(atoms):
        return alike
    if atoms.soft_labels:
        swapped = bool(np.all((atoms.score == 0) | (atoms.score == UNIT)))
        hint = "; scores are all 0 or 1: are score and outcome swapped?" if swapped else ""
        return f"the outcomes are soft labels, whose noise is not known{hint}"
    filled = everybody.sample.n_clusters
    if everybody.sample.cluster is not None and filled < FEWEST_CLUSTERS:
        return (
            f"the patient ID column (cluster) has about {plural(filled, 'different value')}, too few to see "
            "how much patients differ. Name a column that identifies patients, not sites"
        )
    return ""
