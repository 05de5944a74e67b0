"""Whom an audit names: the fewest errors that account for all others.

One rule for audits, monitors and searches: a score that is too high for women is too
high for Black women, and a little too high for everybody. So the clearest error is
taken out, then the clearest of what is left, and so on. Then two things hold of the
groups that are named: a part is named only if it differs from the rest of the whole,
and a broad group only if an error remains in it once the other groups named are taken
out.

In an audit, errors are fitted together, by logistic regression on the log-odds of the
score: level and curve of everybody, if their tests reject, and a shift for each group
that is named. Groups are named in place of everybody if nothing is wrong outside of
them, unless they are (nearly) all people and off in the same direction: that is an
error of everybody, from which groups differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from scipy.special import chdtrc

from propcal.auditing.statistics.chance import ScoreCells
from propcal.auditing.statistics.hypothesis_tests import (
    BENDS,
    SIGNIFICANCE,
    SLOPE,
    CalibrationTest,
    group_p_value,
)
from propcal.auditing.statistics.measures import Estimate
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH, normal_quantile
from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import CONSTANT, Basis, LogOddsCells, fine_cells
from propcal.core.grid import BoolArray, FloatArray
from propcal.core.groups import EVERYBODY, Group
from propcal.core.logistic import expit, fit_logistic

One = TypeVar("One")


class Errors(Protocol[One]):
    """Errors that may be named, and how to judge what is left once some are taken
    out.
    """

    def clearest(self, named: Sequence[One]) -> One | None:
        """The clearest error that is left once those named are taken out; None if there
        is none.
        """

    def whole_of(self, part: One, others: Sequence[One]) -> One | None:
        """A broader error that the part does not differ from; None if there is none."""

    def remains(self, one: One, others: Sequence[One]) -> bool:
        """Whether an error is left once the others are taken out."""

    def size(self, one: One) -> float:
        """How many people it concerns."""


def errors_to_name(errors: Errors[One], most: int) -> list[One]:
    """The errors to name, the clearest first."""
    named: list[One] = []
    while len(named) < most:
        clearest = errors.clearest(named)
        if clearest is None:
            break
        named.append(clearest)

    for part in list(named):
        others = [one for one in named if one is not part]
        whole = errors.whole_of(part, others)
        if whole is not None:
            named = [*others, whole]

    for one in sorted(named, key=errors.size, reverse=True):
        others = [other for other in named if other is not one]
        if others and not errors.remains(one, others):
            named = others
    return named


MOST_NAMED = 20
# level of all comparisons of groups with the overall error, taken together
BEYOND_LEVEL = 0.02
# standard errors by which a part must differ from the rest of a broader group that is
# also wrong
APART = 2.5
# level at which others are wrong as well, where groups are named in place of everybody
OTHERS_LEVEL = 0.02
# share of people that a group named in place of everybody must leave out
FEWEST_OTHERS = 0.1
# what a model has of the overall error
NOTHING = 0
LEVEL_ONLY = 1
WHOLE_CURVE = 2


class NamedGroup(NamedTuple):
    """A group to name, and the sign of its error.

    If it is compared with the overall error (`beyond`), the sign is that of the
    difference, the p-value is adjusted for all groups, and `given` is the O/E ratio
    that the error of the others would give.
    """

    group: Group
    beyond: bool
    sign: float
    p_value: float = float("nan")
    given: float = float("nan")


@dataclass(frozen=True)
class NamedErrors:
    """The errors to name: level and curve of everybody, and groups; and what they leave
    of other errors.

    `left` has the O/E ratio of each further group that its own test calls wrong, once
    the errors named are taken out, with its interval.
    """

    level: bool
    curve: bool
    named: tuple[NamedGroup, ...]
    left: dict[str, Estimate]


def name_errors(
    atoms: Atoms, groups: Sequence[Group], tests: Sequence[CalibrationTest]
) -> NamedErrors:
    """Choose from groups that were tested; atoms have variances that allow for repeat
    visits.

    People with a score of exactly 0 or 1 are left out: they have no log-odds.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    level = EVERYBODY.name in rejected
    curve = SLOPE in rejected or BENDS in rejected
    if not (level or curve or any(group.name in rejected for group in groups)):
        return NamedErrors(False, False, (), {})
    if level and not 0 < atoms.positives.sum() < atoms.weight.sum():
        # with no events, or nothing else, there is one error only
        return NamedErrors(True, False, (), {})

    statistic = np.zeros(len(groups))
    for i, group in enumerate(groups):
        if group.name in rejected:
            statistic[i] = rejected[group.name].statistic
    sign = np.sign(statistic)
    model = _Model(atoms, tuple(groups))
    if not len(model.cells):  # all scores are exactly 0 or 1
        named = []
        if not (level or curve):
            wrong = np.flatnonzero(sign)[:MOST_NAMED]
            named = [NamedGroup(groups[i], False, sign[i]) for i in wrong]
        return NamedErrors(level, curve, tuple(named), {})

    errors, chosen, fit = _choose(model, _base(model, level, curve), sign)
    if not errors.base and not chosen and sign.any():
        # the error of these groups is that of scores of exactly 0 or 1
        chosen = [int(np.argmax(np.abs(statistic)))]
    named_groups = tuple(errors.named(i, chosen, fit) for i in chosen)
    names = {one.group.name for one in named_groups}
    left = {}
    for i, ratio in enumerate(model.left(fit)):
        if sign[i] and groups[i].name not in names:
            left[groups[i].name] = ratio
    overall = errors.base > NOTHING or not named_groups
    return NamedErrors(level and overall, curve and overall, named_groups, left)


def _base(model: _Model, level: bool, curve: bool) -> int:
    """What a model has of the overall error, as far as data that may be separated
    determine it.
    """
    if curve and model.fitted(WHOLE_CURVE, []) is not None:
        return WHOLE_CURVE
    if (level or curve) and model.fitted(LEVEL_ONLY, []) is not None:
        return LEVEL_ONLY
    return NOTHING


def _choose(
    model: _Model, base: int, sign: FloatArray
) -> tuple[_GroupErrors, list[int], _ModelFit]:
    """The groups to name, beyond an overall error or in place of it, and the model with
    them.
    """
    errors = _GroupErrors(model, base, sign)
    chosen, fit = errors.chosen()
    if not base:
        return errors, chosen, fit

    without_overall = _GroupErrors(model, NOTHING, sign)
    instead, fit_instead = without_overall.chosen()
    if 0 < len(instead) <= len(chosen) + (base == WHOLE_CURVE):
        one_way = len({sign[i] for i in instead}) == 1
        if model.others_p(instead, one_way=one_way) > OTHERS_LEVEL:
            return without_overall, instead, fit_instead
    return errors, chosen, fit


class _ModelFit(NamedTuple):
    """Columns of a model, their effects on the log-odds, and the risks that it fits."""

    design: FloatArray
    effects: FloatArray
    risk: FloatArray


class _Model:
    """Groups by cells of the log-odds of the score."""

    def __init__(self, atoms: Atoms, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.cells: LogOddsCells = fine_cells(atoms, (EVERYBODY, *groups))
        n_cells_of_row = np.diff(self.cells.starts)
        self.row = np.repeat(np.arange(len(self.cells.members)), n_cells_of_row)
        self.members = self.cells.members[:, 1:]

    @cached_property
    def basis(self) -> tuple[FloatArray, BoolArray]:
        """Columns of the overall error, and which of them is the level."""
        basis = Basis(self.cells)
        return basis(self.cells.log_odds), basis.kinds == CONSTANT

    def fitted(self, base: int, chosen: Sequence[int]) -> _ModelFit | None:
        """Fit the overall error and a shift for each chosen group; None if the data do
        not determine it.
        """
        cells = self.cells
        columns, level = self.basis
        if base == WHOLE_CURVE:
            overall = columns
        elif base == LEVEL_ONLY:
            overall = columns[:, level]
        else:
            overall = columns[:, :0]
        chosen_members = self.members[:, list(chosen)]
        shifts = chosen_members[self.row].astype(np.float64)
        design = np.hstack([overall, shifts])
        if not design.shape[1]:
            return _ModelFit(design, np.empty(0), expit(cells.log_odds))
        fit = fit_logistic(design, cells.log_odds, cells.n, cells.positives)
        if fit is None:
            return None
        return _ModelFit(design, fit.coefficients, fit.fitted)

    def excess(self, fit: _ModelFit) -> FloatArray:
        """Events beyond those expected in each group, in standard errors; 0 where the
        model has the group.
        """
        excess, variance = self._excess(fit)
        with np.errstate(invalid="ignore", divide="ignore"):
            z = excess / np.sqrt(variance)
            return np.nan_to_num(z, posinf=0.0, neginf=0.0)

    def _excess(self, fit: _ModelFit) -> tuple[FloatArray, FloatArray]:
        """Events beyond those expected in each group, and their variance; infinite
        where the model has it.
        """
        cells = self.cells
        starts = cells.starts[:-1]
        inside = self.members.T.astype(np.float64)
        expected = cells.n * fit.risk
        residual = cells.positives - expected
        excess = inside @ np.add.reduceat(residual, starts)
        curvature = cells.n * fit.risk * (1 - fit.risk)
        variance = inside @ np.add.reduceat(curvature, starts)
        if not fit.design.shape[1]:
            return excess, variance

        weighted = curvature[:, None] * fit.design
        across = inside @ np.add.reduceat(weighted, starts)
        information = fit.design.T @ weighted
        inverse = np.linalg.pinv(information)
        explained = np.einsum("ij,jk,ik->i", across, inverse, across)
        unexplained = variance - explained
        determined = unexplained > 1e-6 * variance
        return excess, np.where(determined, unexplained, np.inf)

    def tail(self, i: int, fit: _ModelFit) -> float:
        """P-value of a group's number of events under the risks of a model."""
        cells = self.cells
        inside = self.members[self.row, i]
        nowhere = np.zeros(len(cells), dtype=np.int64)
        size = np.ones(len(cells))
        events = float(cells.positives[inside].sum())
        score_cells = ScoreCells(nowhere, nowhere, cells.n, size, fit.risk)
        _, p_value = group_p_value(score_cells, inside, events)
        return p_value

    def others_p(self, chosen: Sequence[int], *, one_way: bool) -> float:
        """P-value of level and curve of the people who are in none of the chosen
        groups.

        If they are few, groups that are off `one_way` cannot be distinguished from
        everybody.
        """
        cells = self.cells
        chosen_members = self.members[:, list(chosen)]
        in_groups: BoolArray = np.any(chosen_members, axis=1)
        outside = ~in_groups[self.row]
        n_outside = float(cells.n[outside].sum())
        fewest = FEWEST_OTHERS * float(cells.n.sum())
        if one_way and n_outside < fewest:
            return 0.0
        if not outside.any():
            return 1.0

        columns = self.basis[0][outside]
        n = cells.n[outside]
        risk = expit(cells.log_odds[outside])
        residual = cells.positives[outside] - n * risk
        gradient = columns.T @ residual
        curvature = n * risk * (1 - risk)
        weighted = curvature[:, None] * columns
        information = columns.T @ weighted
        inverse = np.linalg.pinv(information, hermitian=True)
        statistic = float(gradient @ inverse @ gradient)
        freedom = np.linalg.matrix_rank(information, hermitian=True)
        return float(chdtrc(freedom, max(statistic, 0.0)))

    def left(self, fit: _ModelFit) -> list[Estimate]:
        """The O/E ratio of each group once the errors named are taken out."""
        excess, variance = self._excess(fit)
        expected_of_cells = self.cells.n * fit.risk
        of_rows = np.add.reduceat(expected_of_cells, self.cells.starts[:-1])
        expected = self.members.T.astype(np.float64) @ of_rows
        reach = NORMAL_REACH * np.sqrt(variance)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = 1 + excess / expected
            low = 1 + np.maximum(excess - reach, -expected) / expected
            high = 1 + (excess + reach) / expected
        limits = np.stack([ratio, low, high], 1)
        return [Estimate(*ends) for ends in limits.tolist()]


class _GroupErrors:
    """Groups of a model as errors to name, by their numbers.

    Without an overall error, only groups that their own test calls wrong, in its
    direction.
    """

    def __init__(self, model: _Model, base: int, sign: FloatArray) -> None:
        self.model = model
        self.base = base
        self.sign = sign
        level = BEYOND_LEVEL if base else SIGNIFICANCE
        n_tests = 2 * max(len(model.groups), 1)
        self.limit = normal_quantile(1 - level / n_tests)

    def fitted(self, chosen: Sequence[int]) -> _ModelFit | None:
        """The model with the chosen groups."""
        return self.model.fitted(self.base, chosen)

    def chosen(self) -> tuple[list[int], _ModelFit]:
        """The groups to name, in the order of their errors, and the model with them."""
        chosen = errors_to_name(self, MOST_NAMED)
        fit = self.fitted(chosen)
        assert fit is not None
        return chosen, fit

    def named(self, i: int, chosen: Sequence[int], fit: _ModelFit) -> NamedGroup:
        """A group with the sign of its error, or of its difference from an overall
        one.
        """
        model = self.model
        group = model.groups[i]
        if not self.base:
            return NamedGroup(group, False, float(self.sign[i]))

        others = [j for j in chosen if j != i]
        without = self.fitted(others)
        assert without is not None
        z = float(model.excess(without)[i])
        p_value = model.tail(i, without) * len(model.groups)

        inside = model.members[model.row, i]
        n = model.cells.n[inside]
        score = model.cells.log_odds[inside]
        first_shift = len(fit.effects) - len(chosen)
        place = first_shift + list(chosen).index(i)
        own_shift = fit.effects[place]
        all_effects = fit.design[inside] @ fit.effects
        others_error = score + all_effects - own_shift
        expected_with_others = float(n @ expit(others_error))
        given = expected_with_others / float(n @ expit(score))
        direction = float(np.sign(z))
        return NamedGroup(group, True, direction, min(p_value, 1.0), given)

    def clearest(self, named: Sequence[int]) -> int | None:
        """The group whose events are furthest from what the model expects."""
        fit = self.fitted(named)
        assert fit is not None
        z = self.model.excess(fit)
        z[list(named)] = 0.0
        far = np.abs(z) >= self.limit
        if self.base:
            allowed = np.zeros(len(z), dtype=np.bool_)
            for i in np.flatnonzero(far).tolist():
                # for small groups the normal approximation is not enough
                allowed[i] = self.model.tail(i, fit) <= BEYOND_LEVEL / len(z)
        else:
            allowed = far & (z * self.sign > 0)
        if not allowed.any():
            return None
        distance = np.where(allowed, np.abs(z), 0.0)
        best = int(np.argmax(distance))
        if self.fitted([*named, best]) is None:
            return None
        return best

    def whole_of(self, part: int, others: Sequence[int]) -> int | None:
        """A broader group that is wrong in the same direction, the broadest first."""
        for whole in self._wholes_of(part, others):
            if whole in others or self._differs(part, whole, others):
                continue
            if self.fitted([*others, whole]) is not None:
                return whole
        return None

    def _wholes_of(self, part: int, others: Sequence[int]) -> list[int]:
        """Groups that contain a part and are wrong in the same direction."""
        groups = self.model.groups
        sign = self.sign
        fit = self.fitted(others)
        if self.base and fit is not None:  # wrong in comparison with the overall error
            z = self.model.excess(fit)
            sign = np.where(np.abs(z) >= self.limit, np.sign(z), 0.0)
        if not sign[part]:
            return []

        conditions = set(groups[part].conditions)
        wholes = []
        for j, group in enumerate(groups):
            if sign[j] == sign[part] and set(group.conditions) < conditions:
                wholes.append(j)
        return sorted(wholes, key=lambda j: len(groups[j].conditions))

    def _differs(self, part: int, whole: int, others: Sequence[int]) -> bool:
        """Whether a part differs from the rest of the whole, given the other groups
        that are not within the whole.
        """
        members = self.model.members
        outside_whole = ~members[:, whole]
        given = [j for j in others if np.any(members[:, j] & outside_whole)]
        fit = self.fitted([*given, whole])
        if fit is None:
            return True
        difference = self.model.excess(fit)[part]
        return bool(abs(difference) >= APART)

    def remains(self, one: int, others: Sequence[int]) -> bool:
        """Whether its events are still far from what the model of the others
        expects.
        """
        fit = self.fitted(others)
        if fit is None:
            return True
        excess = float(self.model.excess(fit)[one])
        return abs(excess) >= self.limit

    def size(self, one: int) -> float:
        """Its people."""
        inside = self.model.members[self.model.row, one]
        return float(self.model.cells.n[inside].sum())
