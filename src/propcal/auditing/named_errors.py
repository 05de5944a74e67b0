"""Whom an audit names: the fewest errors that account for all others, so that one does
not look like many.

One rule for audits, monitors and searches: a score that is too high for women is too
high for Black women, and a little too high for everybody. So the clearest error is
taken out, then the clearest of what is left, and so on. Then two things hold of the
groups that are named: a part is named only if it differs from the rest of the whole,
and a broad group only if an error remains in it once the other groups named are taken
out.

In an audit, errors are fitted together, by logistic regression on the log-odds of the
score: level and curve of everybody, if their tests reject, and a shift for each group
that is named. Groups are named in place of everybody if nothing is wrong in the people
of no group. They are not if they are (nearly) all people and off in the same direction:
that is an error of everybody, from which groups differ.
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
    while len(named) < most and (best := errors.clearest(named)) is not None:
        named.append(best)
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
BEYOND = (
    0.02  # level of all comparisons of groups with the overall error, taken together
)
# standard errors by which a part must differ from the rest of a broader group that is
# also wrong
APART = 2.5
# level at which others are wrong as well, where groups are named in place of everybody
LEFT_OVERALL = 0.02

FEWEST_OTHERS = (
    0.1  # share of people that a group named in place of everybody must leave out
)


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
    """The errors to tell: level and curve of everybody, and groups; and what they leave
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
    if (
        level and not 0 < atoms.positives.sum() < atoms.weight.sum()
    ):  # one error tells all
        return NamedErrors(True, False, (), {})
    model = _Model(atoms, tuple(groups))
    statistic = [
        rejected[g.name].statistic if g.name in rejected else 0.0 for g in groups
    ]
    wrong = np.sign(np.array(statistic, dtype=np.float64))
    base = int(level) + 2 * int(curve)
    if not len(model.cells):  # all scores are exactly 0 or 1
        if base:
            some = []
        else:
            some = [
                NamedGroup(g, False, sign) for g, sign in zip(groups, wrong) if sign
            ]
        return NamedErrors(level, curve, tuple(some[:MOST_NAMED]), {})
    # data may be separated
    base = next(b for b in (base, min(base, 1), 0) if model.fitted(b, []) is not None)
    errors = _Errors(model, base, wrong)
    chosen, fit = errors.chosen()
    if base:
        apart = _Errors(model, 0, wrong)
        alone, without = apart.chosen()
        fewer = 0 < len(alone) <= len(chosen) + (base > 1)
        if (
            fewer
            and model.others_p(alone, one_way=len({wrong[i] for i in alone}) == 1)
            > LEFT_OVERALL
        ):
            errors = apart
            chosen = alone
            fit = without
    if (
        not errors.base and not chosen and wrong.any()
    ):  # their error is that of scores of exactly 0 or 1
        chosen = [int(np.argmax(np.abs(statistic)))]
    named = tuple(errors.named(i, chosen, fit) for i in chosen)
    names = {one.group.name for one in named}
    ratios = model.left(fit)
    left = {
        g.name: ratios[i]
        for i, g in enumerate(groups)
        if wrong[i] and g.name not in names
    }
    overall = errors.base > 0 or not named
    return NamedErrors(level and overall, curve and overall, named, left)


class _Fit(NamedTuple):
    """Columns of a model, their effects on the log-odds, and the risks that it fits."""

    design: FloatArray
    effects: FloatArray
    risk: FloatArray


class _Model:
    """Groups by cells of the log-odds of the score."""

    def __init__(self, atoms: Atoms, groups: tuple[Group, ...]) -> None:
        self.groups = groups
        self.cells: LogOddsCells = fine_cells(atoms, (EVERYBODY, *groups))
        self.row = np.repeat(
            np.arange(len(self.cells.members)), np.diff(self.cells.starts)
        )
        self.members = self.cells.members[:, 1:]

    @cached_property
    def basis(self) -> tuple[FloatArray, BoolArray]:
        """Columns of the overall error, and which of them is the level."""
        basis = Basis(self.cells)
        return basis(self.cells.log_odds), basis.kinds == CONSTANT

    def fitted(self, base: int, chosen: Sequence[int]) -> _Fit | None:
        """Fit the overall error and a shift for each chosen group; None if the data do
        not determine it.
        """
        cells, (columns, level) = self.cells, self.basis
        if base > 1:
            overall = columns
        elif base:
            overall = columns[:, level]
        else:
            overall = columns[:, :0]
        design = np.hstack(
            [overall, self.members[:, list(chosen)][self.row].astype(np.float64)]
        )
        if not design.shape[1]:
            return _Fit(design, np.empty(0), expit(cells.log_odds))
        fit = fit_logistic(design, cells.log_odds, cells.n, cells.positives)
        if fit is None:
            return None
        return _Fit(design, fit.coefficients, fit.fitted)

    def excess(self, fit: _Fit) -> FloatArray:
        """Events beyond those expected in each group, in standard errors; 0 where the
        model has the group.
        """
        more, variance = self._excess(fit)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(more / np.sqrt(variance), posinf=0.0, neginf=0.0)

    def _excess(self, fit: _Fit) -> tuple[FloatArray, FloatArray]:
        """Events beyond those expected in each group, and their variance; infinite
        where the model has it.
        """
        cells, starts = self.cells, self.cells.starts[:-1]
        spread = cells.n * fit.risk * (1 - fit.risk)
        inside = self.members.T.astype(np.float64)
        more = inside @ np.add.reduceat(cells.positives - cells.n * fit.risk, starts)
        variance = inside @ np.add.reduceat(spread, starts)
        if fit.design.shape[1]:
            across = inside @ np.add.reduceat(spread[:, None] * fit.design, starts)
            inner = np.linalg.pinv(fit.design.T @ (spread[:, None] * fit.design))
            free = variance - np.einsum("ij,jk,ik->i", across, inner, across)
            variance = np.where(free > 1e-6 * variance, free, np.inf)
        return more, variance

    def tail(self, i: int, fit: _Fit) -> float:
        """P-value of a group's number of events under the risks of a model."""
        cells = self.cells
        inside = self.members[self.row, i]
        nowhere = np.zeros(len(cells), dtype=np.int64)
        one = np.ones(len(cells))
        events = float(cells.positives[inside].sum())
        return group_p_value(
            ScoreCells(nowhere, nowhere, cells.n, one, fit.risk), inside, events
        )[1]

    def others_p(self, chosen: Sequence[int], *, one_way: bool) -> float:
        """P-value of level and curve of the people who are in none of the chosen
        groups.

        If they are few, groups that are off `one_way` are not told from everybody.
        """
        inside: BoolArray = self.members[:, list(chosen)].any(axis=1)  # type: ignore[assignment]
        outside = ~inside[self.row]
        n_outside = float(self.cells.n[outside].sum())
        if one_way and n_outside < FEWEST_OTHERS * float(self.cells.n.sum()):
            return 0.0
        if not outside.any():
            return 1.0
        cells = self.cells
        columns = self.basis[0][outside]
        n = cells.n[outside]
        risk = expit(cells.log_odds[outside])
        gradient = columns.T @ (cells.positives[outside] - n * risk)
        information = columns.T @ ((n * risk * (1 - risk))[:, None] * columns)
        statistic = float(
            gradient @ np.linalg.pinv(information, hermitian=True) @ gradient
        )
        return float(
            chdtrc(
                np.linalg.matrix_rank(information, hermitian=True), max(statistic, 0.0)
            )
        )

    def left(self, fit: _Fit) -> list[Estimate]:
        """The O/E ratio of each group once the errors named are taken out."""
        more, variance = self._excess(fit)
        by_row = np.add.reduceat(self.cells.n * fit.risk, self.cells.starts[:-1])
        expected = self.members.T.astype(np.float64) @ by_row
        reach = NORMAL_REACH * np.sqrt(variance)
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = [
                1 + end / expected
                for end in (more, np.maximum(more - reach, -expected), more + reach)
            ]
        return [Estimate(*map(float, one)) for one in zip(*ends)]


class _Errors:
    """Groups of a model as errors to name, by their numbers.

    Without an overall error, only groups that their own test calls wrong, in its
    direction.
    """

    def __init__(self, model: _Model, base: int, wrong: FloatArray) -> None:
        self.model = model
        self.base = base
        self.wrong = wrong
        level = BEYOND if base else SIGNIFICANCE
        self.limit = normal_quantile(1 - level / (2 * max(len(model.groups), 1)))

    def fitted(self, chosen: Sequence[int]) -> _Fit | None:
        """The model with the chosen groups."""
        return self.model.fitted(self.base, chosen)

    def chosen(self) -> tuple[list[int], _Fit]:
        """The groups to name, in the order of their errors, and the model with them."""
        chosen = errors_to_name(self, MOST_NAMED)
        fit = self.fitted(chosen)
        assert fit is not None
        return chosen, fit

    def named(self, i: int, chosen: Sequence[int], fit: _Fit) -> NamedGroup:
        """A group with the sign of its error, or of its difference from an overall
        one.
        """
        model = self.model
        if not self.base:
            return NamedGroup(model.groups[i], False, float(self.wrong[i]))
        without = self.fitted([j for j in chosen if j != i])
        assert without is not None
        z = float(model.excess(without)[i])
        p_value = model.tail(i, without) * len(model.groups)
        inside = model.members[model.row, i]
        cells = model.cells
        shift = fit.effects[len(fit.effects) - len(chosen) + list(chosen).index(i)]
        n = cells.n[inside]
        score = cells.log_odds[inside]
        given = float(
            n @ expit(score + fit.design[inside] @ fit.effects - shift)
        ) / float(n @ expit(score))
        return NamedGroup(
            model.groups[i], True, float(np.sign(z)), min(p_value, 1.0), given
        )

    def clearest(self, named: Sequence[int]) -> int | None:
        """The group whose events are furthest from what the model expects."""
        fit = self.fitted(named)
        assert fit is not None
        z = self.model.excess(fit)
        z[list(named)] = 0.0
        far = np.abs(z) >= self.limit
        if (
            self.base
        ):  # the exact p-value of a small group must be as small as its normal one
            exact = [
                bool(own) and self.model.tail(i, fit) <= BEYOND / len(z)
                for i, own in enumerate(far)
            ]
            allowed = np.array(exact, dtype=np.bool_)
        else:
            allowed = far & (z * self.wrong > 0)
        if not allowed.any():
            return None
        best = int(np.argmax(np.where(allowed, np.abs(z), 0.0)))
        return best if self.fitted([*named, best]) is not None else None

    def whole_of(self, part: int, others: Sequence[int]) -> int | None:
        """A broader group that is wrong in the same direction, the broadest first."""
        model, wrong, own = (
            self.model,
            self.wrong,
            set(self.model.groups[part].conditions),
        )
        fit = self.fitted(others)
        if self.base and fit is not None:  # wrong in comparison with the overall error
            z = model.excess(fit)
            wrong = np.where(np.abs(z) >= self.limit, np.sign(z), 0.0)
        wholes = [
            j
            for j, group in enumerate(model.groups)
            if wrong[part] and wrong[j] == wrong[part] and set(group.conditions) < own
        ]
        for whole in sorted(wholes, key=lambda j: len(model.groups[j].conditions)):
            if whole in others:
                continue
            apart = [
                j
                for j in others
                if np.any(model.members[:, j] & ~model.members[:, whole])
            ]
            compared = self.fitted([*apart, whole])
            if compared is None or abs(model.excess(compared)[part]) >= APART:
                continue
            if self.fitted([*others, whole]) is not None:
                return whole
        return None

    def remains(self, one: int, others: Sequence[int]) -> bool:
        """Whether its events are still far from what the model of the others
        expects.
        """
        fit = self.fitted(others)
        return fit is None or abs(float(self.model.excess(fit)[one])) >= self.limit

    def size(self, one: int) -> float:
        """Its people."""
        return float(self.model.cells.n[self.model.members[self.model.row, one]].sum())
