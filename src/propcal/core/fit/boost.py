"""A whole fit of MCBoost or PMCBoost: atoms in, correction and fit summary out.

It recalibrates with a smooth curve, runs the update loop of Algorithm 1
(`propcal.core.fit.update_loop`), and makes the correction from its updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from propcal.core.arguments import Parameters, check_choice, check_number
from propcal.core.atoms import Atoms, LeftOutReport
from propcal.core.bins import Bins, category_min_share, make_bins
from propcal.core.categories import check_outcome_groups, outcome_alike
from propcal.core.compiled import say_if_compiling
from propcal.core.correction.correction import Correction
from propcal.core.correction.fit_summary import FitSummary
from propcal.core.correction.points_table import PointsTable
from propcal.core.criterion import Criterion
from propcal.core.fit import update_loop
from propcal.core.fit.evidence import (
    FoundErrors,
    repeat_effect,
    repeat_note,
    with_effect,
)
from propcal.core.fit.smooth_fit import Learned, learn_start
from propcal.core.fit.update_loop import (
    BoostingState,
    LoopResult,
    UpdateRule,
    run_update_loop,
    standard_error,
)
from propcal.core.grid import UNIT, BoolArray, IntArray, from_grid, to_grid
from propcal.core.groups import (
    EVERYBODY,
    Collection,
    Group,
    Groups,
    definition,
    membership,
)
from propcal.core.patterns import CLUSTER, Patterns
from propcal.core.reduction import fewer_attributes, with_attributes, without_clusters
from propcal.errors import InputError, refused

LEAST_Z = 1.0  # standard errors below which no cell is adjusted, whatever tests found


@dataclass(kw_only=True, eq=False)
class Settings(Parameters):
    """The checked parameters of a fit."""

    criterion: Criterion
    min_share: float | None = None
    _groups: Groups = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0, at_most=1)
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        check_number("eta", self.eta, above=0, at_most=2)
        check_number("max_updates", self.max_updates, at_least=0, whole=True)
        check_choice("order", self.order, ("cyclic", "random", "worst"))
        check_choice("sample", self.sample, (None, "bootstrap"))
        check_choice("unseen", self.unseen, ("replay", "keep", "error"))
        check_choice("start", self.start, ("smooth", "identity"))
        check_choice("monotone", self.monotone, (True, False))
        self._check_guard()
        if self.min_share is not None:
            check_number("min_share", self.min_share, at_least=0, at_most=1)
        # checks its own arguments
        self._groups = definition(self.groups, self.intersections, self.missing)

    def _check_guard(self) -> None:
        guard: Any = self.guard
        if isinstance(guard, (int, float, np.integer, np.floating)):
            check_number("guard", guard, at_least=0)
        elif isinstance(guard, str) and guard != "noise":
            raise refused("no guard", got=repr(guard))
        elif not (guard is None or isinstance(guard, str)):
            raise refused("no guard", got=f"a {type(guard).__name__}")

    @property
    def needs_evidence(self) -> bool:
        """Whether tests decide about any change that the fit makes."""
        return self.max_updates > 0 and (
            self.start == "smooth" or self.guard == "noise"
        )

    def definition(self) -> Groups:
        """The definition of the groups, from `groups` or from `intersections` and
        `missing`.
        """
        return self._groups


@dataclass(frozen=True, eq=False)
class BoostResult:
    """The result of a fit: the correction, and how the fit went."""

    correction: Correction
    collection: Collection
    fit_summary: FitSummary
    n_sweeps: int
    converged: bool


@dataclass(frozen=True, eq=False)
class FittingData:
    """The people of a fit, and what tests and boosting both need to know of them.

    Attributes
    ----------
    rows, atoms : Atoms
        With the clusters of repeat visits, if there are any, and without.
    effect : float
        The design effect of repeat visits.
    bins : Bins
    collection : Collection
    inside : array of bool, shape (n_groups, n_patterns)
        Which groups of the collection contain which patterns of `atoms`.
    """

    rows: Atoms
    atoms: Atoms
    effect: float
    bins: Bins
    collection: Collection
    inside: BoolArray

    @classmethod
    def of(cls, rows: Atoms, settings: Settings) -> FittingData:
        """Check the people, and choose bins and groups."""
        effect = repeat_effect(rows)
        atoms = without_clusters(rows)
        if alike := outcome_alike(atoms):
            raise InputError(
                f"a correction needs both classes of the outcome: {alike}",
                argument="outcome",
            )
        check_outcome_groups(atoms)

        bins = make_bins(
            settings.binning,
            settings.n_bins,
            rho=settings.rho,
            score=atoms.score,
            weight=atoms.weight,
        )
        groups = settings.definition()
        if settings.needs_evidence:  # tests measure every group, however small
            groups.refuse_too_many(atoms.patterns)
        collection = atoms.collection(groups, gamma=settings.gamma)
        inside = membership(collection.groups, atoms.patterns)
        return cls(rows, atoms, effect, bins, collection, inside)

    @property
    def unit(self) -> str:
        """What a row is."""
        if CLUSTER in self.rows.patterns.attributes:
            return "visits"
        return "people"


@dataclass(frozen=True, eq=False)
class AddedPoints:
    """Points that were learned from rows, and the people with their scores after
    recalibration and points.
    """

    table: PointsTable
    atoms: Atoms


def learn_curve(
    data: FittingData, settings: Settings, evidence: FoundErrors
) -> Learned:
    """The smooth recalibration, if it is asked for and tests found an error."""
    if settings.start != "smooth":
        return Learned(None)
    if settings.max_updates == 0:
        return Learned(
            None, notes=("not recalibrated, because max_updates=0 allows no change",)
        )
    atoms = with_effect(data.atoms, data.effect)
    return learn_start(atoms, data.collection, evidence)


def boost(
    data: FittingData,
    settings: Settings,
    rng: np.random.Generator,
    evidence: FoundErrors | None = None,
    learned: Learned | None = None,
    points: AddedPoints | None = None,
) -> BoostResult:
    """Recalibrate with a smooth curve if asked to, then run Algorithm 1 until a sweep
    makes no update.

    Without evidence of an error there is no recalibration, and with the guard against
    chance no update. A curve that was learned already is taken as it is, with the
    points that belong to it.
    """
    evidence = evidence or FoundErrors(tested=False)
    learned = learned or learn_curve(data, settings, evidence)
    if data.effect > 1:
        learned = replace(learned, notes=(*learned.notes, repeat_note(data.effect)))
    run = BoostingRun(data, settings, evidence, learned, points)

    atoms = run.starting_atoms()
    state = BoostingState(atoms, data.bins, data.inside)
    loop, rule = run.adjust(state, rng)
    if settings.monotone and len(loop.updates):
        correction, atoms = run.non_decreasing_correction(atoms, loop.updates, rule)
        state = BoostingState(atoms, data.bins, data.inside)
    else:
        correction = run.correction(loop.updates, rule)

    converged = loop.converged or run.no_error_to_adjust
    fit_summary = run.fit_summary(state, rule, correction)
    return BoostResult(
        correction, data.collection, fit_summary, loop.n_sweeps, converged
    )


@dataclass(frozen=True, eq=False)
class BoostingRun:
    """What a fit knows before Algorithm 1 begins, and the steps that need it."""

    data: FittingData
    settings: Settings
    evidence: FoundErrors
    learned: Learned
    points: AddedPoints | None

    @property
    def guarded(self) -> bool:
        """Whether updates must be more than chance explains."""
        return self.settings.guard == "noise"

    @property
    def no_error_to_adjust(self) -> bool:
        """Whether the guard allows no update, because tests found no error."""
        return self.guarded and not self.evidence.found

    def starting_atoms(self) -> Atoms:
        """The people with the scores from which Algorithm 1 starts."""
        effect = self.data.effect
        if self.points is not None:
            return with_effect(self.points.atoms, effect)
        atoms = with_effect(self.data.atoms, effect)
        start = self.learned.start
        if start is None:
            return atoms
        score = start.apply(atoms.score, atoms.pattern_index(), atoms.patterns)
        return replace(atoms, score=score)

    def adjust(
        self, state: BoostingState, rng: np.random.Generator
    ) -> tuple[LoopResult, UpdateRule]:
        """Run Algorithm 1; return what it did, and the rule by which it did so."""
        rule = self._update_rule()
        most = self._max_updates()
        say_if_compiling(update_loop.sweep if most else update_loop.start_segments)

        def run_loop(rule: UpdateRule) -> LoopResult:
            return run_update_loop(
                state, rule, self.settings, max_updates=most, rng=rng
            )

        loop = run_loop(rule)
        if not (self.guarded and most and self.learned.start is None):
            return loop, rule
        while not len(loop.updates):
            # tests found an error that the curve could not take up: adjust the clearest
            # cell
            rule = rule._replace(z=rule.z * 0.8)
            loop = run_loop(rule)
            if rule.z < LEAST_Z:
                break
        return loop, rule

    def _update_rule(self) -> UpdateRule:
        """The rule for when to update a category, in the kernel's units."""
        settings = self.settings
        min_share = settings.min_share
        if min_share is None:
            min_share = category_min_share(
                settings.alpha, settings.gamma, self.data.bins
            )
        if settings.guard == "noise":
            z = self.evidence.limit
        else:
            z = float(settings.guard or 0.0)
        return UpdateRule.of(
            settings.criterion, float(settings.alpha), z=z, min_share=min_share
        )

    def _max_updates(self) -> int:
        """The most updates that Algorithm 1 may make; curve and points count as one
        each.
        """
        if self.no_error_to_adjust:
            return 0
        n_before = (self.learned.start is not None) + (self.points is not None)
        return max(int(self.settings.max_updates) - n_before, 0)

    def non_decreasing_correction(
        self, before: Atoms, updates: IntArray, rule: UpdateRule
    ) -> tuple[Correction, Atoms]:
        """The correction without updates of groups that it would make worse, and the
        people with their corrected scores.

        Every update lowers the squared error of its group, but making the maps monotone
        can raise it again.
        """
        while len(updates):
            correction = self.correction(updates, rule)
            after_start = replace(correction.maps, smooth=correction.maps.smooth[:, :0])
            attributes = list(correction.patterns.attributes)
            _, pattern = fewer_attributes(before, attributes)
            score = after_start.apply(from_grid(before.score), pattern)
            after = replace(before, score=to_grid(score))
            worse = self._groups_made_worse(before, after, np.unique(updates[:, 0]))
            if not self.guarded or not len(worse):
                return correction, after
            updates = updates[~np.isin(updates[:, 0], worse)]
        return self.correction(updates, rule), before

    def _groups_made_worse(
        self, before: Atoms, after: Atoms, groups: IntArray
    ) -> IntArray:
        """Those of the groups whose squared error rose."""
        increase = np.zeros(len(before.patterns))
        for atoms, sign in ((before, -1.0), (after, 1.0)):
            score = from_grid(atoms.score)
            error = atoms.weight * score**2 - 2 * score * atoms.positives
            increase += sign * atoms.pattern_sums(error)
        return groups[self.data.inside[groups] @ increase > 0]

    def correction(self, updates: IntArray, rule: UpdateRule) -> Correction:
        """The correction with these updates, of the attributes on which it depends."""
        # what may be shared is decided there
        from propcal.protect.shared_corrections import sharing_of

        data = self.data
        settings = self.settings
        start = self.learned.start
        used = self._attributes_used(updates)
        rows, groups, updates = self._only_used(updates, used)
        names = [name for name in data.atoms.patterns.attributes if name in used]
        patterns, _ = fewer_attributes(data.atoms, names)
        with_rare_levels = {}
        if data.atoms.shared is not None:
            with_rare_levels = data.atoms.shared.folded
        return Correction(
            patterns=patterns,
            groups=groups,
            bins=data.bins,
            updates=np.ascontiguousarray(updates[:, :3]),
            start=start,
            unseen=settings.unseen,
            about=_about(settings, data.atoms, patterns, rule.z),
            sharing=sharing_of(rows, groups, data.bins, start, updates),
            monotone=settings.monotone,
            folded=tuple(name for name in names if name in with_rare_levels),
            points=None if self.points is None else self.points.table,
        )

    def _attributes_used(self, updates: IntArray) -> set[str]:
        """The attributes on which a corrected score depends."""
        collection = self.data.collection
        changed = [collection.groups[g] for g in np.unique(updates[:, 0])]
        if self.learned.start is not None:
            changed += self.learned.start.groups
        return {name for group in changed for name, _ in group.conditions}

    def _only_used(
        self, updates: IntArray, used: set[str]
    ) -> tuple[Atoms, tuple[Group, ...], IntArray]:
        """People, groups and updates by the attributes in use alone: a correction reads
        no others.
        """
        rows = self.data.rows
        groups = self.data.collection.groups
        names = rows.patterns.attributes
        kept_names = [name for name in names if name in used or name == CLUSTER]
        if len(kept_names) == len(names):
            return rows, groups, updates

        kept_groups: list[Group] = []
        new_index = np.full(len(groups), -1, dtype=np.int64)
        for g, group in enumerate(groups):
            if all(name in used for name, _ in group.conditions):
                new_index[g] = len(kept_groups)
                kept_groups.append(group)
        updates = updates.copy()
        updates[:, 0] = new_index[updates[:, 0]]
        rows = with_attributes(rows, kept_names)
        return rows, tuple(kept_groups) or (EVERYBODY,), updates

    def fit_summary(
        self, state: BoostingState, rule: UpdateRule, correction: Correction
    ) -> FitSummary:
        """Summarise the categories at the end of a fit."""
        settings = self.settings
        evidence = self.evidence
        atoms = self.data.atoms
        sums = state.category_sums().astype(np.float64)
        size = sums[:, :, update_loop.SIZE]
        group, j = np.nonzero((size > 0) & (size / state.total >= rule.min_share))
        weight, outcome, score, squares = sums[group, j, update_loop.WEIGHT :].T
        rate = outcome / weight / UNIT
        error = standard_error.in_python(weight, squares, outcome, score)
        never_tested = self.guarded and not evidence.tested and settings.max_updates > 0
        no_error_found = self.no_error_to_adjust and evidence.tested
        return FitSummary(
            self.data.collection,
            self.data.bins,
            group,
            j,
            people=weight**2 / squares,
            outcome_rate=rate,
            mean_score=score / weight / UNIT,
            cutoff=settings.criterion.cutoff(rate, float(settings.alpha)),
            standard_error=error / UNIT,
            z=rule.z,
            n_people=state.atoms.n_people,
            why=_why_gaps_remain(settings, correction),
            no_error_found=no_error_found and correction.points is None,
            enough=not never_tested,
            correction=correction,
            patterns=atoms.patterns,
            raw_scores=(int(atoms.score.min()), int(atoms.score.max())),
            found=evidence.found,
            notes=self.learned.notes,
            left_out=LeftOutReport.of(atoms),
            unit=self.data.unit,
        )


def _why_gaps_remain(settings: Settings, correction: Correction) -> str:
    """Why a category may be outside of its limits at the end."""
    if correction.n_updates >= settings.max_updates:
        return f"stopped at max_updates={settings.max_updates:,}"
    if settings.monotone and len(correction.updates):
        return "a higher score must not become a lower one"
    if settings.sample:
        return "the last sweep used a bootstrap sample"
    return "the next shift rounds to zero"


def _about(
    settings: Settings, atoms: Atoms, used: Patterns, z: float
) -> dict[str, Any]:
    """How the correction was made, for readers of its file; it contains no exact counts
    and no rows.
    """
    from propcal import __version__

    groups = settings.definition()
    intersections: Any = groups.intersections
    if not isinstance(intersections, (str, int)):
        intersections = [list(names) for names in intersections]

    about: dict[str, Any] = {"method": settings.criterion.method}
    for name in ("alpha", "gamma", "rho", "eta"):
        about[name] = float(getattr(settings, name))
    if isinstance(settings.binning, str):
        about["binning"] = settings.binning
    else:
        about["binning"] = "explicit"
    about["intersections"] = intersections
    about["order"] = settings.order
    about["sample"] = settings.sample
    if settings.min_share is not None:
        about["min_share"] = float(settings.min_share)
    not_read = [name for name in atoms.patterns.reads if name not in used.reads]
    if not_read:
        about["not_read"] = not_read
    about["missing"] = groups.missing
    about["start"] = settings.start
    about["guard"] = None if settings.guard is None else round(z, 6)
    about["monotone"] = bool(settings.monotone)
    about["propcal"] = __version__
    about["people"] = people_band(atoms.n_people)
    about["fingerprint"] = atoms.people_fingerprint()
    return about


def people_band(n: int) -> list[int]:
    """A number of people as a range from one to the next of 100, 200, 500, 1000, ...

    >>> people_band(42), people_band(13_326), people_band(20_000)
    ([0, 99], [10000, 19999], [20000, 49999])
    """
    if n < 100:
        return [0, 99]
    power = 10 ** (len(str(n)) - 1)
    starts = [k * power for k in (1, 2, 5, 10)]
    first = max(i for i, start in enumerate(starts) if start <= n)
    return [starts[first], starts[first + 1] - 1]
