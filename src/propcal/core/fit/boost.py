"""Runs a whole fit, for MCBoost and PMCBoost (Algorithm 1): atoms in, correction and
fit summary out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from propcal.core.fit import update_loop as kernel
from propcal.core.fit.evidence import (
    FoundErrors,
    repeat_effect,
    repeat_note,
    with_effect,
)
from propcal.core.fit.smooth_fit import Learned, learn_start
from propcal.core.fit.update_loop import BoostingState, UpdateRule, standard_errors
from propcal.core.grid import UNIT, IntArray, from_grid, to_grid
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
        guard: Any = self.guard
        if isinstance(guard, (int, float, np.integer, np.floating)):
            check_number("guard", guard, at_least=0)
        elif not (guard is None or (isinstance(guard, str) and guard == "noise")):
            if isinstance(guard, str):
                shown = repr(guard)
            else:
                shown = f"a {type(guard).__name__}"
            raise refused("no guard", got=shown)
        if self.min_share is not None:
            check_number("min_share", self.min_share, at_least=0, at_most=1)
        self.definition()  # checks its own arguments

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
        return definition(self.groups, self.intersections, self.missing)


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
    """

    rows: Atoms
    atoms: Atoms
    effect: float
    bins: Bins
    collection: Collection

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
        people: dict[str, Any] = {"score": atoms.score, "weight": atoms.weight}
        bins = make_bins(settings.binning, settings.n_bins, rho=settings.rho, **people)
        words = settings.definition()
        if settings.needs_evidence:  # tests measure every group, however small
            words.refuse_too_many(atoms.patterns)
        return cls(
            rows, atoms, effect, bins, atoms.collection(words, gamma=settings.gamma)
        )

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
    if settings.start == "smooth" and settings.max_updates > 0:
        return learn_start(
            with_effect(data.atoms, data.effect), data.collection, evidence
        )
    if settings.start == "smooth":
        return Learned(
            None, notes=("not recalibrated, because max_updates=0 allows no change",)
        )
    return Learned(None)


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
    from propcal.protect.shared_corrections import (
        sharing_of,
    )  # what may be shared is decided there

    evidence = evidence or FoundErrors(tested=False)
    atoms = data.atoms
    bins = data.bins
    collection = data.collection
    rare = {} if atoms.shared is None else atoms.shared.folded
    learned = learned or learn_curve(data, settings, evidence)
    spread = with_effect(atoms, data.effect)
    if data.effect > 1:
        learned = replace(learned, notes=(*learned.notes, repeat_note(data.effect)))
    started = spread
    if learned.start is not None:
        score = learned.start.apply(atoms.score, atoms.pattern_index(), atoms.patterns)
        started = replace(spread, score=score)
    if points is not None:
        started = with_effect(points.atoms, data.effect)
    rule = _rule(settings, bins, evidence)
    most = max(
        int(settings.max_updates) - (learned.start is not None) - (points is not None),
        0,
    )
    if settings.guard == "noise" and not evidence.found:
        most = 0
    say_if_compiling(kernel.sweep if most else kernel.start_segments)
    state = BoostingState(started, bins, collection)
    batches, converged = _sweeps(state, settings, rule, most, rng)
    converged = converged or (settings.guard == "noise" and not evidence.found)
    while (
        settings.guard == "noise"
        and most
        and learned.start is None
        and not any(map(len, batches))
    ):
        # tests found an error that the curve could not take up: adjust the clearest
        # cell
        rule = replace(rule, z=rule.z * 0.8)
        batches, converged = _sweeps(state, settings, rule, most, rng)
        if rule.z < LEAST_Z:
            break
    made = np.concatenate([np.empty((0, 4), dtype=np.int64), *batches])
    while True:
        used = _attributes_used(collection, learned, made)
        rows, groups, updates = _only_used(data.rows, collection, made, used)
        patterns, _ = fewer_attributes(
            atoms, [name for name in atoms.patterns.attributes if name in used]
        )
        correction = Correction(
            patterns=patterns,
            groups=groups,
            bins=bins,
            updates=np.ascontiguousarray(updates[:, :3]),
            start=learned.start,
            unseen=settings.unseen,
            about=_about(settings, atoms, patterns, rule.z),
            sharing=sharing_of(rows, groups, bins, learned.start, updates),
            monotone=settings.monotone,
            folded=tuple(name for name in patterns.attributes if name in rare),
            points=None if points is None else points.table,
        )
        if not (settings.monotone and len(made)):
            break
        after = replace(correction.maps, smooth=correction.maps.smooth[:, :0])
        code = fewer_attributes(started, list(patterns.attributes))[1]
        corrected = replace(
            started, score=to_grid(after.apply(from_grid(started.score), code))
        )
        state = BoostingState(corrected, bins, collection)
        harmed = _harmed(started, corrected, collection, np.unique(made[:, 0]))
        if settings.guard != "noise" or not len(harmed):
            break
        made = made[~np.isin(made[:, 0], harmed)]
        state = BoostingState(
            started, bins, collection
        )  # without updates, unless others are left
    fit_summary = _fit_summary(
        state, settings, rule, data, correction, learned, evidence
    )
    return BoostResult(correction, collection, fit_summary, len(batches), converged)


def _harmed(
    before: Atoms, after: Atoms, collection: Collection, groups: IntArray
) -> IntArray:
    """The groups whose squared error rose, though every update lowers it: scores in
    order may be higher.

    A map that is its own running maximum lifts everybody above a cell with that cell.
    """
    worse = np.zeros(len(before.patterns))
    for atoms, sign in ((before, -1.0), (after, 1.0)):
        score = from_grid(atoms.score)
        worse += sign * atoms.pattern_sums(
            atoms.weight * score**2 - 2 * score * atoms.positives
        )
    inside = membership([collection.groups[g] for g in groups], before.patterns)
    return groups[inside @ worse > 0]


def _attributes_used(
    collection: Collection, learned: Learned, updates: IntArray
) -> set[str]:
    """The attributes on which a corrected score depends."""
    changed = [collection.groups[g] for g in np.unique(updates[:, 0])]
    changed += [] if learned.start is None else learned.start.groups
    return {name for group in changed for name, _ in group.conditions}


def _only_used(
    rows: Atoms, collection: Collection, updates: IntArray, used: set[str]
) -> tuple[Atoms, tuple[Group, ...], IntArray]:
    """People, groups and updates by the attributes in use alone: a correction reads no
    others.
    """
    names = rows.patterns.attributes
    left = [name for name in names if name in used or name == CLUSTER]
    if len(left) == len(names):
        return rows, collection.groups, updates
    stays = np.array(
        [
            all(name in used for name, _ in group.conditions)
            for group in collection.groups
        ]
    )
    groups = tuple(group for group, stay in zip(collection.groups, stays) if stay) or (
        EVERYBODY,
    )
    updates = updates.copy()
    updates[:, 0] = (np.cumsum(stays) - 1)[updates[:, 0]]
    return with_attributes(rows, left), groups, updates


def _rule(settings: Settings, bins: Bins, evidence: FoundErrors) -> UpdateRule:
    """The rule for when to update a category, in the kernel's units."""
    usual = category_min_share(settings.alpha, settings.gamma, bins)
    if settings.min_share is None:
        min_share = usual
    else:
        min_share = float(settings.min_share)
    if settings.guard == "noise":
        z = evidence.limit
    else:
        z = float(settings.guard or 0.0)
    return UpdateRule.of(
        settings.criterion, float(settings.alpha), z=z, min_share=min_share
    )


def _fit_summary(
    state: BoostingState,
    settings: Settings,
    rule: UpdateRule,
    data: FittingData,
    correction: Correction,
    learned: Learned,
    evidence: FoundErrors,
) -> FitSummary:
    """Summarise the categories at the end of a fit."""
    sums = state.category_sums().astype(np.float64)
    size = sums[:, :, kernel.SIZE]
    group, j = np.nonzero((size > 0) & (size / state.total >= rule.min_share))
    weight, outcome, score, squares = np.moveaxis(sums[group, j, kernel.WEIGHT :], 1, 0)
    rate = outcome / weight / UNIT
    if settings.sample:
        why = "the last sweep used a bootstrap sample"
    else:
        why = "the next shift rounds to zero"
    if settings.monotone and len(correction.updates):
        why = "a higher score must not become a lower one"
    if correction.n_updates >= settings.max_updates:
        why = f"stopped at max_updates={settings.max_updates:,}"
    return FitSummary(
        data.collection,
        data.bins,
        group,
        j,
        people=weight**2 / squares,
        outcome_rate=rate,
        mean_score=score / weight / UNIT,
        cutoff=settings.criterion.cutoff(rate, float(settings.alpha)),
        standard_error=standard_errors(weight, squares, outcome / UNIT, score / UNIT),
        z=rule.z,
        n_people=state.atoms.n_people,
        why=why,
        calm=bool(settings.guard == "noise" and evidence.tested and not evidence.found)
        and correction.points is None,
        enough=evidence.tested
        or settings.guard != "noise"
        or settings.max_updates == 0,
        correction=correction,
        patterns=data.atoms.patterns,
        raw_scores=(int(data.atoms.score.min()), int(data.atoms.score.max())),
        found=evidence.found,
        notes=learned.notes,
        left_out=LeftOutReport.of(data.atoms),
        unit=data.unit,
    )


def _sweeps(
    state: BoostingState,
    settings: Settings,
    rule: UpdateRule,
    most: int,
    rng: np.random.Generator,
) -> tuple[list[IntArray], bool]:
    """Sweep until nothing changes or `most` updates were made; return the updates of
    each sweep.
    """
    batches: list[IntArray] = []
    left = most
    for order in _orders(state, settings, rule, rng):
        if left == 0:
            return batches, state.worst(rule) < 0
        updates = state.sweep(order, rule, float(settings.eta), left)
        batches.append(updates)
        left -= len(updates)
        if not len(updates):
            # a shift that rounds to zero is not an update, but it does not show
            # convergence either
            return batches, settings.eta * rule.smallest_cutoff >= 1 or state.worst(
                rule
            ) < 0
    raise AssertionError("unreachable: the orders never end")


def _orders(
    state: BoostingState, settings: Settings, rule: UpdateRule, rng: np.random.Generator
) -> Iterator[IntArray]:
    """The categories that each sweep visits, in order; draws a new sample first if
    asked to.
    """
    everything = np.arange((len(state.group_starts) - 1) * (len(state.edges) - 1))
    while True:
        if settings.sample == "bootstrap":
            state.resample(rng)
        if settings.order == "cyclic":
            yield everything
        elif settings.order == "random":
            yield rng.permutation(len(everything))
        else:
            worst = state.worst(rule)
            yield np.array([worst] if worst >= 0 else [], dtype=np.int64)


def _about(
    settings: Settings, atoms: Atoms, used: Patterns, z: float
) -> dict[str, Any]:
    """How the correction was made, for readers of its file; it contains no exact counts
    and no rows.
    """
    from propcal import __version__

    if isinstance(settings.binning, str):
        binning = settings.binning
    else:
        binning = "explicit"
    combined: Any = settings.definition().intersections
    plain = isinstance(combined, (str, int))
    asked: dict[str, Any] = (
        {} if settings.min_share is None else {"min_share": float(settings.min_share)}
    )
    if not_read := [
        column for column in atoms.patterns.reads if column not in used.reads
    ]:
        asked["not_read"] = not_read
    return {
        "method": settings.criterion.method,
        **{
            name: float(getattr(settings, name))
            for name in ("alpha", "gamma", "rho", "eta")
        },
        "binning": binning,
        "intersections": combined if plain else [list(names) for names in combined],
        "order": settings.order,
        "sample": settings.sample,
        **asked,
        "missing": settings.definition().missing,
        "start": settings.start,
        "guard": settings.guard if settings.guard is None else round(z, 6),
        "monotone": bool(settings.monotone),
        "propcal": __version__,
        "people": people_band(atoms.n_people),
        "fingerprint": atoms.people_fingerprint(),
    }


def people_band(n: int) -> list[int]:
    """A number of people as a range from one to the next of 100, 200, 500, 1000, ...

    >>> people_band(42), people_band(13_326), people_band(20_000)
    ([0, 99], [10000, 19999], [20000, 49999])
    """
    if n < 100:
        return [0, 99]
    power = 10 ** (len(str(n)) - 1)
    first, following = max(
        (k, m) for k, m in ((1, 2), (2, 5), (5, 10)) if k * power <= n
    )
    return [first * power, following * power - 1]
