"""Learns points: what each feature adds to a score, beside everybody's curve and the
groups.

Features become codes of at most 160 pieces each. Three models are compared by
cross-validation: everybody's curve, the attributes of the groups beside it, and the
features beside both. Only if the features improve the held-out likelihood by more than
chance explains do they get points; curve and groups are then estimated together with
them, so that neither takes what belongs to the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.core.correction.fit_summary import Gains
from propcal.core.correction.points_table import (
    MOST_POINTS,
    PER_UNIT,
    FeaturePoints,
    PointsTable,
)
from propcal.core.correction.smooth_map import (
    KNOTS_PER_UNIT,
    MOST_SHIFT,
    MOST_WITH_ENDS,
    N_KNOTS,
    SHIFT_UNIT,
    SmoothStart,
)
from propcal.core.draws import Draws
from propcal.core.fit.additive_fit import (
    MOST_WAVES,
    AdditiveFit,
    AdditiveModel,
    AdditiveRows,
    Codes,
    Term,
    fit_additive,
    term_of_levels,
    term_of_ranges,
)
from propcal.core.fit.log_odds_cells import CURVE_KNOTS
from propcal.core.grid import FloatArray, IntArray
from propcal.core.groups import Group
from propcal.core.logistic import UncorrelatedSpline
from propcal.core.patterns import Level
from propcal.discovery.binned_features import Feature, FeatureTable

# a value of so many people, among more than so many values, stands apart
SPIKE = 0.15
FEWEST_VALUES = 6
FEWEST_PEOPLE = 20  # of a range of numbers
# Pieces and waves of a number; many features share a sum of them, because time and
# memory grow with its square. With 32 and 12, log loss was higher by up to 0.008
# (docs/evidence.md, Points).
MOST_PIECES = 160
ALL_PIECES = 3_200
FEWEST_PIECES = 32
ALL_WAVES = 640
FEWEST_WAVES = 12
# points of ranges are multiples, so that neighbours have the same and become one range
STEP_OF_RANGES = 50
SCORE_RANGES = 64  # of equal numbers of people, from which everybody's curve is learned
FOLDS = 5
OWN_SEED = 20_260_419
# Standard errors of the cross-validated gain from which features get points. Of 800
# perfect scores (seeds below 1,000), 7 reached it in one division into folds; on
# average over four, none of 279 reached 1.2.
LIMIT = 1.5
MOST_HELD_OUT = 200_000  # rows of a cross-validation
# divisions into folds, and rows of all of them together
MOST_REPEATS = 4
ROWS_REPEATED = 60_000
PASSES = 3  # over the rows of a fold


@dataclass(frozen=True, eq=False)
class Pieces:
    """A feature cut into pieces: which piece each of its codes belongs to, and which
    are not in order.
    """

    feature: Feature
    place: Codes
    apart: tuple[int, ...]
    n_pieces: int

    @classmethod
    def of(cls, feature: Feature, codes: Codes, most: int = MOST_PIECES) -> Pieces:
        """At most so many pieces of a number, each with enough people; every level is
        one.
        """
        people = np.bincount(codes, minlength=feature.recorded + 1)
        if not feature.is_number:
            return cls(
                feature,
                np.arange(feature.recorded + 1, dtype=np.uint8),
                (),
                feature.recorded + 1,
            )
        own = people[: feature.recorded]
        spike = int(own.argmax())
        if len(own) <= FEWEST_VALUES or own[spike] < SPIKE * own.sum():
            spike = -1
        starts = _starts(own, spike, most)
        place = np.searchsorted(starts, np.arange(feature.recorded), side="right") - 1
        last = len(starts)  # the piece of missing values
        apart = (*((int(place[spike]),) if spike >= 0 else ()), last)
        return cls(feature, np.append(place, last).astype(np.uint8), apart, last + 1)

    def term(self, codes: Codes, waves: int) -> Term:
        """Its term of the model, given the pieces of the rows."""
        if not self.feature.is_number:
            return term_of_levels(self.n_pieces)
        people = np.bincount(codes, minlength=self.n_pieces).astype(np.float64)
        return term_of_ranges(people, self.apart, waves)

    def points(self, shift: FloatArray, people: IntArray) -> FeaturePoints | None:
        """Its points, given the shift and the number of people of each piece; None if
        all are zero.
        """
        feature = self.feature
        most = MOST_POINTS
        step = STEP_OF_RANGES if feature.is_number else 1
        found = [
            int(x)
            for x in np.clip(np.rint(shift * PER_UNIT / step) * step, -most, most)
        ]
        if not any(found):
            return None
        missing = found[-1] if people[-1] else None
        if not feature.is_number:
            n = len(feature.levels)
            other = found[n] if feature.pooled else None
            return FeaturePoints(
                feature.name, tuple(found[:n]), feature.levels, (), missing, other
            )
        first = np.flatnonzero(
            np.diff(self.place[: feature.recorded])
        )  # codes at which a piece ends
        # neighbouring ranges with the same points are one
        joined = [k for k in range(len(first)) if found[k] != found[k + 1]]
        points = (found[0], *(found[k + 1] for k in joined))
        cuts = tuple(float(feature.cuts[first[k]]) for k in joined)
        return FeaturePoints(
            feature.name, points, (), cuts, missing, None, feature.whole
        )


def _starts(people: IntArray, spike: int, most: int) -> IntArray:
    """The codes at which pieces begin, so that each has enough people; a spike is a
    piece by itself.
    """
    rest = int(people.sum()) - (int(people[spike]) if spike >= 0 else 0)
    enough = max(FEWEST_PEOPLE, -(-rest // (most - 4)))
    starts = [0]
    count = 0
    for code, n in enumerate(people):
        if (
            code in (spike, spike + 1) and spike >= 0 and code > starts[-1]
        ) or count >= enough:
            starts.append(code)
            count = 0
        count += int(n)
    if 0 < count < enough and len(starts) > 1 and starts[-1] not in (spike, spike + 1):
        starts.pop()
    return np.array(starts)


@dataclass(frozen=True, eq=False)
class PointsRows:
    """The rows to learn points from.

    Attributes
    ----------
    log_odds : array
        Of the raw score, without those of exactly 0 and 1.
    offset : array
        The log-odds to which effects are added: of the raw score, or of the
        recalibrated one.
    outcome, weight : arrays
        Weights are effective numbers of people: those of repeat visits are smaller.
    groups : sequence of arrays of uint8
        The level of each attribute of the groups.
    table : FeatureTable
        The features.
    cluster : array or None
        The number of the person behind each row.
    """

    log_odds: FloatArray
    offset: FloatArray
    outcome: FloatArray
    weight: FloatArray
    groups: Sequence[Codes]
    table: FeatureTable
    cluster: IntArray | None = None

    def part(self, rows: Any) -> PointsRows:
        """Some of the rows."""
        log_odds = self.log_odds
        offset = self.offset
        outcome = self.outcome
        weight = self.weight
        return PointsRows(
            *(log_odds[rows], offset[rows], outcome[rows], weight[rows]),
            [codes[rows] for codes in self.groups],
            self.table.part(rows),
            None if self.cluster is None else self.cluster[rows],
        )


class PointsModel:
    """Everybody's curve, the attributes of groups, and features as terms of one
    additive model.
    """

    def __init__(self, rows: PointsRows, *, bends: bool = True) -> None:
        n = max(len(rows.table.features), 1)
        most = min(max(ALL_PIECES // n, FEWEST_PIECES), MOST_PIECES)
        waves = min(max(ALL_WAVES // n, FEWEST_WAVES), MOST_WAVES)
        self.pieces = [
            Pieces.of(*one, most) for one in zip(rows.table.features, rows.table.codes)
        ]
        shares = np.arange(1, SCORE_RANGES) / SCORE_RANGES
        edges = np.unique(np.quantile(rows.log_odds, shares, method="lower"))
        curve = np.searchsorted(edges, rows.log_odds, side="right").astype(np.uint8)
        features = [
            pieces.place[codes] for pieces, codes in zip(self.pieces, rows.table.codes)
        ]
        self.codes: Codes = np.stack([curve, *rows.groups, *features])
        n_levels = [int(codes.max(initial=0)) + 1 for codes in rows.groups]
        self.curve = Curve(
            rows.log_odds, rows.weight, curve, len(edges) + 1, bends=bends
        )
        own = [
            pieces.term(codes, waves) for pieces, codes in zip(self.pieces, features)
        ]
        self.terms = [self.curve.term, *map(term_of_levels, n_levels), *own]
        self.n_groups = len(n_levels)
        self.sizes = (1, 1 + self.n_groups, len(self.terms))

    def rows(self, rows: PointsRows, order: Any = slice(None)) -> AdditiveRows:
        """The rows of the additive model."""
        codes = np.ascontiguousarray(self.codes[:, order])
        return AdditiveRows(
            codes, rows.offset[order], rows.outcome[order], rows.weight[order]
        )

    def model(self, n_terms: int) -> AdditiveModel:
        """The first so many terms."""
        return AdditiveModel(self.terms[:n_terms])


class Curve:
    """Everybody's curve: a constant, a slope and a restricted cubic spline of the
    log-odds of the score; the constant alone without `bends`.
    """

    def __init__(
        self,
        log_odds: FloatArray,
        weight: FloatArray,
        codes: Codes,
        n_pieces: int,
        *,
        bends: bool = True,
    ) -> None:
        people = np.bincount(codes, weight, n_pieces)
        sums = np.bincount(codes, weight * log_odds, n_pieces)
        mean = sums / np.where(people > 0, people, 1.0)
        knots = np.unique(np.quantile(log_odds, CURVE_KNOTS, method="lower"))
        low, high = np.quantile(log_odds, [0.005, 0.995], method="lower")
        self.spline = UncorrelatedSpline(mean, people, knots, low, high)
        self.n_effects = self.spline.n_columns if bends else 1
        kinds = np.minimum(np.arange(self.n_effects), 2)
        columns = self.spline(mean)[:, : self.n_effects]
        self.term = Term(columns, kinds, kept=not bends)

    def __call__(self, log_odds: FloatArray, effect: FloatArray) -> FloatArray:
        """The curve at these log-odds, of which `effect` has the effects."""
        columns = self.spline(log_odds)[:, : self.n_effects]
        return columns @ effect[: self.n_effects]


def cross_validate(rows: PointsRows, *, passes: int = PASSES) -> Gains:
    """Compare the three models on people who were left out of their fit, in five folds.

    Which people share a fold is chance; a few divisions are averaged if there are not
    too many rows.
    """
    if len(rows.outcome) > MOST_HELD_OUT and rows.cluster is None:
        step = len(rows.outcome) / MOST_HELD_OUT
        rows = rows.part((np.arange(MOST_HELD_OUT) * step).astype(np.int64))
    model = PointsModel(rows)
    repeats = min(max(ROWS_REPEATED // len(rows.outcome), 1), MOST_REPEATS)
    draws = Draws(OWN_SEED)
    found = [
        _held_out(model, rows, _folds(rows, draws), passes) for _ in range(repeats)
    ]
    steps = np.diff(np.mean(found, axis=0), axis=0)
    total = float(rows.weight.sum())
    errors = [_standard_error(step, rows.cluster) / total for step in steps]
    gains = [float(step.sum()) / total for step in steps]
    return Gains(
        gains[0],
        gains[1],
        gains[2],
        (errors[0], errors[1], errors[2]),
        len(model.pieces),
    )


def _held_out(
    model: PointsModel, rows: PointsRows, fold: IntArray, passes: int
) -> FloatArray:
    """The log-likelihood of each row by its offset, and by each model fitted without
    the fold of the row.
    """
    order = np.argsort(fold, kind="stable")
    ends = np.searchsorted(fold[order], np.arange(FOLDS + 1))
    data = model.rows(rows, order)
    found = np.empty((1 + len(model.sizes), len(data)))
    found[0, order] = data.likelihood(data.offset)
    for low, high in itertools.pairwise(ends):
        past = model.rows(rows, np.r_[order[:low], order[high:]])
        new = data.part(slice(low, high))
        fit: AdditiveFit | None = None
        for held, n_terms in zip(found[1:], model.sizes):
            own = model.model(n_terms)
            some = replace(past, codes=past.codes[:n_terms])
            fit = fit_additive(own, some, _extended(fit, own), passes=passes)
            log_odds = own.log_odds(replace(new, codes=new.codes[:n_terms]), fit.effect)
            held[order[low:high]] = new.likelihood(log_odds)
    return found


def _extended(fit: AdditiveFit | None, model: AdditiveModel) -> AdditiveFit | None:
    """A fit of fewer terms as the beginning of a fit of more."""
    if fit is None:
        return None
    start = AdditiveFit.first(model)
    start.effect[: len(fit.effect)] = fit.effect
    start.variance[: len(fit.variance)] = np.maximum(
        fit.variance, start.variance[: len(fit.variance)]
    )
    return start


def _folds(rows: PointsRows, draws: Draws) -> IntArray:
    """The fold of each row, or of its person, drawn at random: in their own order,
    equal rows are together.

    If equal rows were dealt out like cards, folds would be images of each other, and so
    would their noise.
    """
    if rows.cluster is None:
        n = len(rows.outcome)
    else:
        n = int(rows.cluster.max()) + 1
    fold = np.argsort(draws.uniform((n,)), kind="stable") % FOLDS
    return np.asarray(fold if rows.cluster is None else fold[rows.cluster])


def _standard_error(gain: FloatArray, cluster: IntArray | None) -> float:
    """Of the sum of gains; rows of one person count together."""
    if cluster is not None:
        together = np.bincount(cluster, gain).astype(np.float64)
        gain = together[np.bincount(cluster) > 0]
    return float(np.std(gain) * np.sqrt(len(gain)))


@dataclass(frozen=True, eq=False)
class FittedPoints:
    """Points, the constants and curves that were estimated with them, and how much each
    feature moves.

    `curve` has everybody's shifts in log-odds at the knots of a recalibration, `levels`
    a constant for each level of each attribute, and `spread` the standard deviation of
    each feature's points among people.
    """

    table: PointsTable
    curve: FloatArray
    levels: tuple[FloatArray, ...]
    spread: dict[str, float]


def fit_points(rows: PointsRows, *, bends: bool = True) -> FittedPoints | None:
    """Fit all terms together; None if no feature has points. Without `bends` the curve
    is a constant.
    """
    model = PointsModel(rows, bends=bends)
    whole = model.model(model.sizes[2])
    data = model.rows(rows)
    fit = fit_additive(whole, data)
    shifts = whole.shifts(fit.effect)
    constant = 0.0
    table = []
    spread = {}
    first = model.sizes[1]
    for pieces, shift, codes in zip(model.pieces, shifts[first:], model.codes[first:]):
        people = np.bincount(codes, rows.weight, len(shift))
        mean = float(people @ shift / people.sum())
        points = pieces.points(shift - mean, np.bincount(codes, minlength=len(shift)))
        constant += mean
        if points is not None:
            table.append(points)
            spread[points.column] = float(
                np.sqrt(people @ (shift - mean) ** 2 / people.sum())
            )
    if not table:
        return None
    at = (np.arange(N_KNOTS) - N_KNOTS // 2) / KNOTS_PER_UNIT
    curve = model.curve(at, fit.effect) + constant
    return FittedPoints(
        PointsTable(tuple(table)), curve, tuple(shifts[1:first]), spread
    )


def with_curves(
    start: SmoothStart | None,
    fitted: FittedPoints,
    attributes: Sequence[tuple[str, tuple[Level, ...]]],
) -> SmoothStart | None:
    """A recalibration with the curve and the constants of levels that belong to points
    added to it.

    Scores of exactly 0 and 1 that the recalibration leaves unchanged stay so.
    """
    if start is not None and start.moves_ends:
        most = MOST_WITH_ENDS
    else:
        most = MOST_SHIFT
    moves = np.ones(N_KNOTS, dtype=np.int64)
    moves[[0, -1]] = 0 if start is None else start.shifts[:, [0, -1]].any(axis=0)
    terms = {} if start is None else dict(zip(start.groups, start.shifts))
    added = {Group(()): fitted.curve} | {
        Group(((name, level),)): np.full(N_KNOTS, shift)
        for (name, levels), own in zip(attributes, fitted.levels)
        for level, shift in zip(levels, own)
    }
    for group, shift in added.items():
        units = moves * np.rint(shift * SHIFT_UNIT).astype(np.int64)
        terms[group] = np.clip(terms.get(group, 0) + units, -most, most)
    kept = {group: shifts for group, shifts in terms.items() if np.any(shifts)}
    if kept:
        return SmoothStart(tuple(kept), np.stack([*kept.values()]))
    return None
