"""Learns the smooth recalibration: a random-effects logistic model.

Fitted to a few thousand cells of log-odds, the model corrects the log-odds of a score
for everybody, for each group and for each intersection by a constant, a slope, a curve
and local bumps. What groups share is learned from everybody; a group only adds its
departure. Few people, all together or in a group, have fewer columns. Scores of exactly
0 and 1 are taken to the ends of the curve, and to a level of their own beyond them. For
each set of attributes, every kind of effect has one variance, estimated by marginal
likelihood (`random_effects`), so that effects without support in the data shrink to
zero. Before that, tests of the hypothesis that the score is perfect decide whether to
recalibrate at all (`FoundErrors`). Afterwards, attributes are left out, one by one, if
the model fits nearly as well without them and no group is wrong then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from propcal.core.atoms import Atoms
from propcal.core.correction.smooth_map import SmoothStart, knot_log_odds
from propcal.core.fit import log_odds_cells as lc
from propcal.core.fit.evidence import FoundErrors
from propcal.core.fit.log_odds_cells import (
    Basis,
    LogOddsCells,
    fine_cells,
    smooth_terms,
)
from propcal.core.fit.non_decreasing import non_decreasing
from propcal.core.fit.random_effects import Effects, FittedEffects, fit_effects
from propcal.core.grid import UNIT, BoolArray, FloatArray, IntArray, to_grid
from propcal.core.groups import Collection, Group
from propcal.core.logistic import expit
from propcal.numbers import plural

N_BUMPS = 20
# scores that a forest squeezed bend most at their ends
MANY_KNOTS = (0.01, *lc.CURVE_KNOTS, 0.99)
# people of a group
FEWEST_FOR_SLOPE = 300
FEWEST_FOR_CURVE = 1500
FEWEST_FOR_BUMPS = 5000
# people who get a curve together although their level or slope is wrong
FEWEST_BESIDE_SLOPE = 2000
# combinations of terms, above which groups have no bumps: they would take minutes
MOST_ROWS_FOR_BUMPS = 1000
# The smallest variance of the overall level and slope if a test found them wrong: they
# are two numbers, which need little shrinkage. Where everything would be shrunk to zero
# although tests found an error, a second attempt keeps every variance above the other
# number.
MIN_VARIANCE_OVERALL = 0.1
MIN_VARIANCE_OF_ALL = 0.01
# the smallest variance of levels of 0 and 1, which are far from the curve if any
MIN_VARIANCE_OF_LEVELS = 1.0
# When a variance is estimated, half an effect of zero is added to the effects. Chosen
# by the benchmark: without it, fits of slightly miscalibrated scores follow noise; with
# two, large errors are shrunk too much.
PRIOR_EFFECTS = 0.5
PRIOR_BUMPS = 1.0
# An attribute is left out if the fit without it is worse by less than chance gives this
# often, and leaves no group that the tests of an audit would call wrong. The second
# number is divided by the people (1 % for 1,500, 0.15 % for 10,000): the more there
# are, the less costs a small effect that is left out.
MAX_P_IDLE = 0.05
MAX_P_IDLE_TIMES_PEOPLE = 15.0
# attributes that a fit tries to do without, beside those that have shrunk to zero by
# themselves
MOST_TRIALS = 8


@dataclass(frozen=True, eq=False)
class Learned:
    """A smooth recalibration, or the reason why there is none."""

    start: SmoothStart | None
    notes: tuple[str, ...] = ()


def learn_start(atoms: Atoms, collection: Collection, evidence: FoundErrors) -> Learned:
    """Learn a smooth recalibration, if tests found the score miscalibrated."""
    people = _people_between(atoms)
    if people < lc.FEWEST_PEOPLE:
        few = (
            f"not recalibrated: this needs at least {lc.FEWEST_PEOPLE} people with "
            f"scores between 0 and 1, and there are {people:.0f}"
        )
        return Learned(None, (few,))
    if not evidence.found:
        return Learned(None)

    terms, notes = smooth_terms(collection)
    cells = fine_cells(atoms, terms, ends=True)
    basis = _basis(cells, people, evidence)
    model = _CurveModel(terms, cells, basis, basis(cells.log_odds), evidence)
    max_p_idle = min(MAX_P_IDLE, MAX_P_IDLE_TIMES_PEOPLE / people)
    tests_rejected = len(evidence.found) > evidence.certain
    # the second time, nothing is shrunk to zero
    attempts = (False, True) if tests_rejected else (False,)
    for keep_all in attempts:
        fit = model.fitted(model.all_terms, keep_all=keep_all)
        if fit is None:
            failed = "not recalibrated: the smooth curve did not converge"
            return Learned(None, (*notes, failed))
        simpler = model.without_idle_attributes(fit, max_p_idle, keep_all=keep_all)
        for effects in (simpler, fit.table):
            start = model.tabulated(effects)
            if start is not None and model.improves(start):
                return Learned(start, (*notes, *_notes(basis, atoms)))
    useless = "not recalibrated: the smooth curve did not improve the fit"
    return Learned(None, (*notes, useless))


def _people_between(atoms: Atoms) -> float:
    """How many people have scores between 0 and 1; with survey weights, their effective
    number.
    """
    between = (atoms.score > 0) & (atoms.score < UNIT)
    people = float(atoms.weight[between].sum())
    people *= float(atoms.weight.sum()) / float(atoms.weight_sq.sum())
    return people


def _notes(basis: Basis, atoms: Atoms) -> tuple[str, ...]:
    """Where the recalibration has no slope or no curve, and whose scores it leaves
    unchanged.
    """
    notes = []
    if lc.SLOPE not in basis.kinds:
        notes.append(
            "all scores are equal, so each group is recalibrated by a constant shift "
            "only"
        )
    elif lc.CURVE not in basis.kinds:
        notes.append(
            "there are few distinct scores, so the recalibration is a straight line in "
            "log-odds"
        )
    for score, end in ((0, -lc.END), (1, lc.END)):
        people = int(atoms.people[atoms.score == score * UNIT].sum())
        if people and end not in basis.ends:
            scores = plural(people, "score")
            notes.append(
                f"the recalibration leaves {scores} of exactly {score} unchanged"
            )
    return tuple(notes)


def _basis(cells: LogOddsCells, people: float, evidence: FoundErrors) -> Basis:
    """The columns of everybody: few people whose level or slope is wrong get no curve
    beside them.
    """
    if people >= FEWEST_FOR_BUMPS:
        return Basis(cells, N_BUMPS, MANY_KNOTS)
    if people < FEWEST_BESIDE_SLOPE and evidence.overall:
        return Basis(cells, knots=())
    return Basis(cells)


@dataclass(frozen=True, eq=False)
class _CurveModel:
    """Terms, the cells in which their people are counted, and the columns of the basis
    in these cells, of which each term has some.
    """

    terms: tuple[Group, ...]
    cells: LogOddsCells
    basis: Basis
    columns: FloatArray
    evidence: FoundErrors

    @property
    def all_terms(self) -> BoolArray:
        """All terms, as a choice of them."""
        return np.ones(len(self.terms), dtype=np.bool_)

    def fitted(self, chosen: BoolArray, *, keep_all: bool) -> FittedEffects | None:
        """Fit the chosen terms alone; None if that does not converge."""
        cells = replace(self.cells, members=self.cells.members[:, chosen])
        terms = [term for term, stays in zip(self.terms, chosen) if stays]
        effects = _effects(terms, cells, self.basis, self.evidence, keep_all=keep_all)
        offset = self.basis.offset(cells.log_odds)
        return fit_effects(cells, offset, self.columns, effects)

    def without_idle_attributes(
        self, whole: FittedEffects, max_p_idle: float, *, keep_all: bool
    ) -> FloatArray:
        """The effects without those of attributes that are not needed, which are left
        out one by one.

        Attributes that have shrunk to zero are left out first, so that chance does not
        bring them back.
        """
        effects = whole.table
        terms_with = self._terms_by_attribute()
        alive = [name for name, terms in terms_with.items() if effects[terms].any()]
        kept = np.array(
            [all(name in alive for name, _ in term.conditions) for term in self.terms]
        )
        losses = {name: whole.loss_without(terms_with[name]) for name in alive}

        current = whole
        for name in sorted(alive, key=lambda name: losses[name])[:MOST_TRIALS]:
            fewer = kept & ~terms_with[name]
            without = self.fitted(fewer, keep_all=keep_all)
            if without is None:
                continue
            deviance = 2 * (current.value - without.value)
            freedom = max(current.free - without.free, 1.0)
            table = np.zeros_like(effects)
            table[fewer] = without.table
            idle = deviance < special.chdtri(freedom, max_p_idle)
            if idle and not whole.wrong_with(table, ~fewer):
                kept = fewer
                current = without
                effects = table
        return effects

    def _terms_by_attribute(self) -> dict[str, BoolArray]:
        """For each attribute, which terms are defined by it, alone or with others."""
        names = dict.fromkeys(
            name for term in self.terms for name, _ in term.conditions
        )
        return {
            name: np.array([name in dict(term.conditions) for term in self.terms])
            for name in names
        }

    def tabulated(self, effects: FloatArray) -> SmoothStart | None:
        """The shifts in log-odds at the knots, made non-decreasing; None if all of them
        are zero.
        """
        basis = self.basis
        at = knot_log_odds()
        shifts = _levels_beyond_curve(effects, basis) @ basis(at).T
        shifts[0] += basis.offset(at) - at
        stay_0_or_1 = ~np.isin(at, basis.ends) & (np.abs(at) == lc.END)
        shifts[:, stay_0_or_1] = 0.0
        has_ends = len(basis.ends) > 0
        start = SmoothStart.of_shifts(self.terms, shifts, with_ends=has_ends)
        if not start.groups:
            return None
        raw, row = self._raw_scores()
        return non_decreasing(start, raw, row, self._inside(start), self.cells.n)

    def improves(self, start: SmoothStart) -> bool:
        """Whether the recalibration as applied (tabulated, non-decreasing) fits better
        than the raw score.
        """
        cells = self.cells
        raw, row = self._raw_scores()
        values = start.values_inside(self._inside(start))
        corrected = start.apply_to_rows(raw, row, values)
        before = np.clip(raw, 1, UNIT - 1) / UNIT
        after = np.clip(corrected, 1, UNIT - 1) / UNIT
        gain = cells.positives * np.log(after / before)
        gain += (cells.n - cells.positives) * (np.log1p(-after) - np.log1p(-before))
        return float(gain.sum()) > 0

    def _inside(self, start: SmoothStart) -> BoolArray:
        """Which terms of the recalibration (rows) apply to which rows of the cells
        (columns).
        """
        members = self.cells.members
        inside = np.ones((len(start.groups), len(members)), dtype=np.bool_)
        for row, group in zip(inside, start.groups):
            if group in self.terms:
                row[:] = members[:, self.terms.index(group)]
        return inside

    def _raw_scores(self) -> tuple[IntArray, IntArray]:
        """The raw score of each cell, in units, and its row."""
        cells = self.cells
        at_end = np.abs(cells.log_odds) == lc.END
        end = UNIT * (cells.log_odds > 0)
        raw = np.where(at_end, end, to_grid(expit(cells.log_odds)))
        cells_of_row = np.diff(cells.starts)
        return raw, np.repeat(np.arange(len(cells.members)), cells_of_row)


def _effects(
    terms: Sequence[Group],
    cells: LogOddsCells,
    basis: Basis,
    evidence: FoundErrors,
    *,
    keep_all: bool,
) -> Effects:
    """The columns of each term, and the variance of each effect."""
    people = cells.members.T @ np.add.reduceat(cells.n, cells.starts[:-1])
    bumps = len(cells.members) <= MOST_ROWS_FOR_BUMPS
    n_columns = np.array([_n_columns(basis, n, bumps=bumps) for n in people])
    n_columns[0] = len(basis.kinds)

    # effects share a variance if they are of one kind and one set of attributes
    n_kinds = int(basis.kinds.max()) + 1
    sets: dict[tuple[str, ...], int] = {}
    set_and_kind = []
    for term, n in zip(terms, n_columns):
        attributes = tuple(name for name, _ in term.conditions)
        number = sets.setdefault(attributes, len(sets))
        set_and_kind.append(number * n_kinds + basis.kinds[:n])
    variances, component = np.unique(np.concatenate(set_and_kind), return_inverse=True)

    kind = variances % n_kinds
    least = np.zeros(len(variances))
    if keep_all:
        least[:] = MIN_VARIANCE_OF_ALL
    if evidence.overall:
        # everybody is the first set
        of_everybody = (variances == lc.CONSTANT) | (variances == lc.SLOPE)
        least[of_everybody] = MIN_VARIANCE_OVERALL
    least[kind == lc.LEVEL] = MIN_VARIANCE_OF_LEVELS
    prior = np.where(kind == lc.BUMPS, PRIOR_BUMPS, PRIOR_EFFECTS)
    return Effects(n_columns, component.reshape(-1), least, prior)


def _n_columns(basis: Basis, people: float, *, bumps: bool) -> int:
    """How many columns a group of so many people has."""
    if people < FEWEST_FOR_SLOPE:
        return 1
    if people < FEWEST_FOR_CURVE:
        return min(2, basis.n_smooth)
    if bumps and people >= FEWEST_FOR_BUMPS:
        return basis.n_smooth + len(basis.bumps)
    return basis.n_smooth


def _levels_beyond_curve(effects: FloatArray, basis: Basis) -> FloatArray:
    """The effects, with levels of 0 and 1 that are not on the wrong side of the end of
    the curve.
    """
    away = np.sign(basis.levels)
    of_levels = basis.kinds == lc.LEVEL
    effects = effects.copy()
    effects[:, of_levels] = away * np.maximum(away * effects[:, of_levels], 0.0)
    return effects
