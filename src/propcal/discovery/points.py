"""Learns points: what each feature adds to a score.

They come in addition to everybody's curve and the groups.

Features become codes of at most 160 pieces each. Three models are compared by cross-
validation: everybody's curve, the curve and the attributes of the groups, and both with
the features. Only if the features improve the held-out likelihood by more than chance
explains do they get points; curve and groups are then estimated together with them, so
that neither takes what belongs to the other.
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

# a value of so large a share of people, among more than so many values, stands apart
SPIKE_SHARE = 0.15
FEW_VALUES = 6
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
        n_codes = feature.recorded + 1
        if not feature.is_number:
            return cls(feature, np.arange(n_codes, dtype=np.uint8), (), n_codes)
        people = np.bincount(codes, minlength=n_codes)[: feature.recorded]
        spike: int | None = int(people.argmax())
        if len(people) <= FEW_VALUES or people.max() < SPIKE_SHARE * people.sum():
            spike = None
        starts = _starts(people, spike, most)
        place = np.searchsorted(starts, np.arange(feature.recorded), side="right") - 1
        missing = len(starts)  # the piece of missing values
        apart = [missing]
        if spike is not None:
            apart.insert(0, int(place[spike]))
        place_of_codes = np.append(place, missing).astype(np.uint8)
        return cls(feature, place_of_codes, tuple(apart), missing + 1)

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
        step = STEP_OF_RANGES if feature.is_number else 1
        rounded = np.rint(shift * PER_UNIT / step) * step
        points = [int(x) for x in np.clip(rounded, -MOST_POINTS, MOST_POINTS)]
        if not any(points):
            return None
        missing = points[-1] if people[-1] else None
        if feature.is_number:
            return self._points_of_ranges(points, missing)
        n = len(feature.levels)
        return FeaturePoints(
            column=feature.name,
            points=tuple(points[:n]),
            levels=feature.levels,
            missing=missing,
            other=points[n] if feature.pooled else None,
        )

    def _points_of_ranges(
        self, points: Sequence[int], missing: int | None
    ) -> FeaturePoints:
        """The points of a number; neighbouring ranges with the same points are one."""
        feature = self.feature
        last_codes = np.flatnonzero(np.diff(self.place[: feature.recorded]))
        of_ranges = [points[0]]
        cuts = []
        for last, before, after in zip(last_codes, points, points[1:]):
            if after != before:
                of_ranges.append(after)
                cuts.append(float(feature.cuts[last]))
        return FeaturePoints(
            column=feature.name,
            points=tuple(of_ranges),
            cuts=tuple(cuts),
            missing=missing,
            whole=feature.whole,
        )


def _starts(people: IntArray, spike: int | None, most: int) -> IntArray:
    """The codes at which pieces begin, so that each has enough people; a spike is a
    piece by itself.
    """
    around_spike: tuple[int, ...] = ()
    others = int(people.sum())
    if spike is not None:
        around_spike = (spike, spike + 1)
        others -= int(people[spike])
    enough = max(FEWEST_PEOPLE, -(-others // (most - 4)))

    starts = [0]
    count = 0
    for code, n in enumerate(people):
        at_spike = code in around_spike and code > starts[-1]
        if at_spike or count >= enough:
            starts.append(code)
            count = 0
        count += int(n)
    is_small = 0 < count < enough
    if is_small and len(starts) > 1 and starts[-1] not in around_spike:
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
        return PointsRows(
            log_odds=self.log_odds[rows],
            offset=self.offset[rows],
            outcome=self.outcome[rows],
            weight=self.weight[rows],
            groups=[codes[rows] for codes in self.groups],
            table=self.table.part(rows),
            cluster=None if self.cluster is None else self.cluster[rows],
        )


class PointsModel:
    """Everybody's curve, the attributes of groups, and features as terms of one
    additive model.
    """

    def __init__(self, rows: PointsRows, *, bends: bool = True) -> None:
        shares = np.arange(1, SCORE_RANGES) / SCORE_RANGES
        edges = np.unique(np.quantile(rows.log_odds, shares, method="lower"))
        score_range = np.searchsorted(edges, rows.log_odds, side="right")
        score_codes: Codes = score_range.astype(np.uint8)
        n_codes = len(edges) + 1
        self.curve = Curve(
            rows.log_odds, rows.weight, score_codes, n_codes, bends=bends
        )
        self.codes: list[Codes] = [score_codes, *rows.groups]
        self.terms = [self.curve.term]
        for codes in rows.groups:
            self.terms.append(term_of_levels(int(codes.max(initial=0)) + 1))
        n_without_features = len(self.terms)

        n = max(len(rows.table.features), 1)
        most = min(max(ALL_PIECES // n, FEWEST_PIECES), MOST_PIECES)
        waves = min(max(ALL_WAVES // n, FEWEST_WAVES), MOST_WAVES)
        self.pieces = []
        for feature, codes in zip(rows.table.features, rows.table.codes):
            pieces = Pieces.of(feature, codes, most)
            of_rows = pieces.place[codes]
            self.pieces.append(pieces)
            self.codes.append(of_rows)
            self.terms.append(pieces.term(of_rows, waves))
        # numbers of terms of the three models
        self.sizes = (1, n_without_features, len(self.terms))

    def rows(self, rows: PointsRows, order: Any = slice(None)) -> AdditiveRows:
        """The rows of the additive model."""
        codes = np.stack([of_term[order] for of_term in self.codes])
        offset = rows.offset[order]
        return AdditiveRows(codes, offset, rows.outcome[order], rows.weight[order])

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
        people = np.bincount(codes, weight, n_pieces).astype(np.float64)
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
    n = len(rows.outcome)
    if n > MOST_HELD_OUT and rows.cluster is None:
        step = n / MOST_HELD_OUT
        rows = rows.part((np.arange(MOST_HELD_OUT) * step).astype(np.int64))
        n = MOST_HELD_OUT
    model = PointsModel(rows)
    draws = Draws(OWN_SEED)
    likelihoods = []
    for _ in range(min(max(ROWS_REPEATED // n, 1), MOST_REPEATS)):
        fold = _folds(rows, draws)
        likelihoods.append(_held_out_likelihoods(model, rows, fold, passes))

    total = float(rows.weight.sum())
    gains = []
    errors = []
    for gain in np.diff(np.mean(likelihoods, axis=0), axis=0):
        gains.append(float(gain.sum()) / total)
        errors.append(_standard_error(gain, rows.cluster) / total)
    of_curve, of_groups, of_points = gains
    errors_of_gains = (errors[0], errors[1], errors[2])
    return Gains(of_curve, of_groups, of_points, errors_of_gains, len(model.pieces))


def _held_out_likelihoods(
    model: PointsModel, rows: PointsRows, fold: IntArray, passes: int
) -> FloatArray:
    """The log-likelihood of each row by its offset, and by each model fitted without
    the fold of the row.
    """
    order = np.argsort(fold, kind="stable")
    ends = np.searchsorted(fold[order], np.arange(FOLDS + 1))
    data = model.rows(rows, order)
    likelihoods = np.empty((1 + len(model.sizes), len(data)))
    likelihoods[0, order] = data.likelihood(data.offset)
    for low, high in itertools.pairwise(ends):
        fitting = model.rows(rows, np.r_[order[:low], order[high:]])
        held_out = data.part(slice(low, high))
        fit: AdditiveFit | None = None
        for of_model, n_terms in zip(likelihoods[1:], model.sizes):
            additive = model.model(n_terms)
            fitting_terms = replace(fitting, codes=fitting.codes[:n_terms])
            start = _extended(fit, additive)
            fit = fit_additive(additive, fitting_terms, start, passes=passes)
            held_out_terms = replace(held_out, codes=held_out.codes[:n_terms])
            log_odds = additive.log_odds(held_out_terms, fit.effect)
            of_model[order[low:high]] = held_out.likelihood(log_odds)
    return likelihoods


def _extended(fit: AdditiveFit | None, model: AdditiveModel) -> AdditiveFit | None:
    """A fit of fewer terms as the beginning of a fit of more."""
    if fit is None:
        return None
    start = AdditiveFit.first(model)
    start.effect[: len(fit.effect)] = fit.effect
    n = len(fit.variance)
    start.variance[:n] = np.maximum(fit.variance, start.variance[:n])
    return start


def _folds(rows: PointsRows, draws: Draws) -> IntArray:
    """The fold of each row, or of its person, drawn at random: in their own order,
    equal rows are together.

    If equal rows were dealt out like cards, folds would be images of each other, and so
    would their noise.
    """
    if rows.cluster is None:
        return _drawn_folds(len(rows.outcome), draws)
    n_persons = int(rows.cluster.max()) + 1
    return _drawn_folds(n_persons, draws)[rows.cluster]


def _drawn_folds(n: int, draws: Draws) -> IntArray:
    """Folds of nearly equal sizes, at random."""
    return np.asarray(np.argsort(draws.uniform((n,)), kind="stable") % FOLDS)


def _standard_error(gain: FloatArray, cluster: IntArray | None) -> float:
    """Of the sum of gains; rows of one person count together."""
    if cluster is not None:
        of_person = np.bincount(cluster, gain).astype(np.float64)
        gain = of_person[np.bincount(cluster) > 0]
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
    _, first, n_terms = model.sizes
    whole = model.model(n_terms)
    fit = fit_additive(whole, model.rows(rows))
    shifts = whole.shifts(fit.effect)
    constant = 0.0
    table = []
    spread = {}
    for pieces, shift, codes in zip(model.pieces, shifts[first:], model.codes[first:]):
        n = len(shift)
        weight = np.bincount(codes, rows.weight, n)
        total = weight.sum()
        mean = float(weight @ shift / total)
        constant += mean
        distance = shift - mean
        points = pieces.points(distance, np.bincount(codes, minlength=n))
        if points is not None:
            table.append(points)
            variance = weight @ distance**2 / total
            spread[points.column] = float(np.sqrt(variance))
    if not table:
        return None
    knots = (np.arange(N_KNOTS) - N_KNOTS // 2) / KNOTS_PER_UNIT
    curve = model.curve(knots, fit.effect) + constant
    levels = tuple(shifts[1:first])
    return FittedPoints(PointsTable(tuple(table)), curve, levels, spread)


def with_curves(
    start: SmoothStart | None,
    fitted: FittedPoints,
    attributes: Sequence[tuple[str, tuple[Level, ...]]],
) -> SmoothStart | None:
    """A recalibration with the curve and the constants of levels that belong to points
    added to it.

    Scores of exactly 0 and 1 that the recalibration leaves unchanged stay so.
    """
    most = MOST_SHIFT
    moves_knot = np.ones(N_KNOTS, dtype=np.int64)
    moves_knot[[0, -1]] = 0
    terms: dict[Group, Any] = {}
    if start is not None:
        most = MOST_WITH_ENDS if start.moves_ends else MOST_SHIFT
        moves_knot[[0, -1]] = start.shifts[:, [0, -1]].any(axis=0)
        terms = dict(zip(start.groups, start.shifts))

    added = {Group(()): fitted.curve}
    for (name, levels), constants in zip(attributes, fitted.levels):
        for level, shift in zip(levels, constants):
            added[Group(((name, level),))] = np.full(N_KNOTS, shift)
    for group, of_knots in added.items():
        units = moves_knot * np.rint(of_knots * SHIFT_UNIT).astype(np.int64)
        terms[group] = np.clip(terms.get(group, 0) + units, -most, most)
    kept = {group: shifts for group, shifts in terms.items() if np.any(shifts)}
    if not kept:
        return None
    return SmoothStart(tuple(kept), np.stack([*kept.values()]))
