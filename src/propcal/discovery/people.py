"""The people of a search: score, outcome and weight of each row.

They also say what the score was corrected for.

They are read from arrays, frames, frames of an engine, or files, and sorted by what
they hold, so that results do not depend on the order they came in. Features that give
away the outcome are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import special

from propcal.auditing.claims import NAN
from propcal.core.atoms import person_hash
from propcal.core.categories import tells_outcome
from propcal.core.grid import BoolArray, FloatArray, IntArray, to_grid
from propcal.core.logistic import (
    LogisticFit,
    expit,
    fit_logistic,
    log_odds,
    spline_columns,
)
from propcal.discovery.binned_features import FeatureTable, bin_features
from propcal.errors import Argument, ColumnTitle, InputError, refused, warn_user
from propcal.options import Identity
from propcal.reading.checked_people import CheckedPeople, read_roles
from propcal.reading.file_source import are_paths, source_of
from propcal.reading.frames import Columns, attribute_columns, frame_columns
from propcal.reading.patient_ids import patient_codes
from propcal.reading.people_files import LENIENT, NUMBER
from propcal.reading.role_columns import RoleNames
from propcal.reading.source import LazyColumns

NEAREST = 1e-6  # scores closer to 0 or 1 than this are taken as this close
OUTER_QUANTILES = (0.025, 0.975)  # log-odds beyond these count as these
KNOT_QUANTILES = (0.05, 0.35, 0.65, 0.95)
ROWS_AT_ONCE = 65_536  # whose terms of a correction are in memory
N_BINS = 400  # of log-odds, from which corrections are fitted
# numbers unlike those that simulated data drew from the same seed
OWN_STREAM = 20_260_418
PRIOR_PEOPLE = 1e-3  # with and without the event, in the prior of each coefficient
TINY = 1e-300  # in place of a total of 0


@dataclass(eq=False)
class People:
    """The rows of a search.

    Attributes
    ----------
    raw, score : array
        The score as it came, and after correction for what was found so far.
    outcome : array of 0 and 1
    weight : array
    survey : bool
        Whether weights are survey weights; otherwise a weight of 2 means two people.
    cluster : array or None
        Numbers of the persons behind the rows.
    keys : array of uint64
        Hashes of who they are, as those of atoms: from scores that were not clipped.
    """

    raw: FloatArray
    outcome: Any
    weight: FloatArray
    survey: bool
    cluster: IntArray | None = None
    keys: Any = None

    def __post_init__(self) -> None:
        if self.keys is None:
            self.keys = person_hash(to_grid(self.raw), self.outcome)
        self.raw = np.clip(self.raw, NEAREST, 1 - NEAREST)
        self.score = self.raw.copy()
        self.log_odds = log_odds(self.raw)
        # without extreme values, centred
        low, high = np.quantile(self.log_odds, OUTER_QUANTILES)
        self.x = np.clip(self.log_odds, low, high)
        self.x -= np.average(self.x, weights=self.weight)

    def __len__(self) -> int:
        return len(self.raw)

    def sums(
        self, rows: IntArray | slice = slice(None), score: FloatArray | None = None
    ) -> Any:
        """The six sums of each row (see `box_kernels`)."""
        if score is None:
            score = self.score
        p = score[rows]
        w = self.weight[rows]
        x = self.x[rows]
        variance = p * (1 - p)
        third = variance * (1 - 2 * p)
        if self.survey:
            variance *= w * w
            third *= w**3
        else:
            variance *= w
            third *= w
        residual = w * (self.outcome[rows] - p)
        mixed = variance * x
        columns = (residual, variance, residual * x, mixed, mixed * x, third)
        return np.stack(columns, axis=1, dtype=np.float32)

    @property
    def information(self) -> float:
        """The variance of the number of events if the score is right."""
        weight = self.weight**2 if self.survey else self.weight
        return float(np.sum(self.score * (1 - self.score) * weight))

    def inflation(self) -> float:
        """How much repeat visits and survey weights inflate the variance of a total, at
        least 1.
        """
        inflation = 1.0
        if self.survey:
            inflation = float(np.sum(self.weight**2) / np.sum(self.weight))
        if self.cluster is not None:
            residual = self.weight * (self.outcome - self.score)
            of_person = np.bincount(self.cluster, residual)
            squares = max(np.sum(residual**2), TINY)
            inflation *= float(np.sum(of_person**2) / squares)
        return max(inflation, 1.0)

    def part(self, rows: IntArray) -> People:
        """Some of the rows, with their raw scores."""
        cluster = None
        if self.cluster is not None:
            _, cluster = np.unique(self.cluster[rows], return_inverse=True)
        return People(
            raw=self.raw[rows],
            outcome=self.outcome[rows],
            weight=self.weight[rows],
            survey=self.survey,
            cluster=cluster,
            keys=self.keys[rows],
        )

    def slope(self, rows: IntArray, score: FloatArray) -> tuple[float, float]:
        """The calibration slope of a score of some rows, and its standard error; NaN
        without an answer.
        """
        n = len(rows)
        weight = self.weight[rows]
        positives = weight * self.outcome[rows]
        design = np.stack([np.ones(n), log_odds(score)], axis=1)
        fit = fit_logistic(design, np.zeros(n), weight, positives)
        if fit is None:
            return NAN, NAN
        variance = np.linalg.inv(fit.information)[1, 1] * self.inflation()
        return float(fit.coefficients[1]), float(np.sqrt(variance))

    def spread(self, rows: IntArray) -> float:
        """The standard error of observed minus expected events of some rows."""
        residual = self.weight[rows] * (self.outcome[rows] - self.score[rows])
        if self.cluster is not None:
            residual = np.bincount(self.cluster[rows], residual)
        centre = residual.sum() / max(len(residual), 1)
        squares = np.sum((residual - centre) ** 2)
        return float(np.sqrt(max(squares, TINY)))


@dataclass(frozen=True, eq=False)
class PeopleCells:
    """People with the same memberships and nearly the same log-odds, added up.

    `value` is the mean log-odds before a correction, `x` that of the raw score, without
    extreme values.
    """

    owner: IntArray
    value: FloatArray
    x: FloatArray
    weight: FloatArray
    positives: FloatArray

    @classmethod
    def of(cls, people: People, rows: IntArray, owner: IntArray) -> PeopleCells:
        """Add up some rows; `owner` has the number of the memberships of each."""
        weight = people.weight[rows]
        value = people.log_odds[rows]
        low = float(value.min())
        step = max((float(value.max()) - low) / N_BINS, 1e-12)
        place = owner * (N_BINS + 1) + ((value - low) / step).astype(np.int64)
        places, cell = np.unique(place, return_inverse=True)

        def total(column: FloatArray) -> FloatArray:
            return np.bincount(cell, weight * column).astype(np.float64)

        people_of_cell = total(np.ones(len(rows)))
        return cls(
            owner=places // (N_BINS + 1),
            value=total(value) / people_of_cell,
            x=total(people.x[rows]) / people_of_cell,
            weight=people_of_cell,
            positives=total(people.outcome[rows]),
        )

    def fit(self, design: FloatArray) -> LogisticFit | None:
        """A logistic regression with a weak prior, which keeps coefficients of
        separated data finite.
        """
        n_columns = design.shape[1]
        prior = np.full(n_columns, PRIOR_PEOPLE)
        fit = fit_logistic(
            np.vstack([design, np.eye(n_columns)]),
            np.append(self.value, np.zeros(n_columns)),
            np.append(self.weight, 2 * prior),
            np.append(self.positives, prior),
        )
        if fit is None:
            return None
        return fit._replace(fitted=fit.fitted[: len(self.value)])

    def log_likelihood(self, p: FloatArray) -> float:
        """Of everybody, if the people of each cell have one risk."""
        p = np.clip(p, 1e-12, 1 - 1e-12)
        others = self.weight - self.positives
        return float(self.positives @ np.log(p) + others @ np.log1p(-p))


class CorrectionTerms:
    """The terms of a correction: constant and slope of each group (its rows), and a
    curve of the whole.
    """

    def __init__(
        self, people: People, groups: Sequence[IntArray], *, whole: bool
    ) -> None:
        self.n_groups = len(groups)
        self.member = np.zeros(len(people), dtype=np.int64)  # a bit for each group
        for k, rows in enumerate(groups):
            self.member[rows] |= 1 << k
        self.knots = None
        if whole:
            self.knots = np.unique(np.quantile(people.x, KNOT_QUANTILES))

    def design(self, member: IntArray, x: FloatArray) -> FloatArray:
        """A column for each term."""
        columns = []
        for k in range(self.n_groups):
            inside = (member >> k & 1).astype(np.float64)
            columns += [inside, inside * x]
        if self.knots is not None:
            columns += spline_columns(x, self.knots)
        return np.stack(columns, axis=1)


def correct_for(
    people: People,
    groups: Sequence[IntArray],
    *,
    whole: bool,
    fitted: BoolArray | None = None,
) -> tuple[float, FloatArray]:
    """Correct the raw score for some groups (rows of each) together, and as a `whole`
    if asked.

    Each group has a constant and a slope in log-odds, the score as a whole a smooth
    curve. `fitted` says which rows the correction is learned from. Returns the p-value
    of that curve in addition to the groups (1 without it), and the scores.
    """
    terms = CorrectionTerms(people, groups, whole=whole)
    if whole:
        rows = np.arange(len(people))
    else:
        rows = np.flatnonzero(terms.member)
    learned = rows if fitted is None else rows[fitted[rows]]
    cells = PeopleCells.of(people, learned, terms.member[learned])
    design = terms.design(cells.owner, cells.x)
    fit = cells.fit(design)
    score = people.raw.copy()
    if fit is None:
        return 1.0, score

    n_group_terms = 2 * len(groups)
    p_value = 1.0
    if terms.knots is not None:
        of_groups = cells.fit(design[:, :n_group_terms]) if groups else None
        if of_groups is None:
            before = expit(cells.value)
        else:
            before = of_groups.fitted
        gain = 2 * (cells.log_likelihood(fit.fitted) - cells.log_likelihood(before))
        chi_square = max(gain / people.inflation(), 0.0)
        p_value = float(special.chdtrc(len(terms.knots), chi_square))

    of_rows = terms.design(terms.member[rows], people.x[rows])
    shift = of_rows[:, :n_group_terms] @ fit.coefficients[:n_group_terms]
    shift += of_rows[:, n_group_terms:] @ fit.coefficients[n_group_terms:]
    corrected = expit(people.log_odds[rows] + shift)
    score[rows] = np.clip(corrected, NEAREST, 1 - NEAREST)
    return p_value, score


def chance_followed(
    people: People,
    groups: Sequence[IntArray],
    others: Sequence[IntArray],
    score: FloatArray,
    *,
    whole: bool,
) -> FloatArray:
    """The share of the chance of other groups' outcomes that a correction for groups
    has followed.

    This is how much of a group's indicator the terms of the correction explain, each
    row with its variance after correction: 1 for a group that is corrected for itself,
    0 for one that has nobody in common with the groups. `whole` says whether the score
    was also corrected as a whole.
    """
    terms = CorrectionTerms(people, groups, whole=whole)
    variance = people.weight * score * (1 - score)
    inside = np.zeros((len(others), len(people)), dtype=np.bool_)
    for own, rows in zip(inside, others):
        own[rows] = True
    squares: Any = 0.0
    mixed: Any = 0.0
    for start in range(0, len(people), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        design = terms.design(terms.member[part], people.x[part])
        weighted = design * variance[part, None]
        squares = squares + design.T @ weighted
        mixed = mixed + inside[:, part] @ weighted
    effects, *_ = np.linalg.lstsq(squares, mixed.T, rcond=None)
    explained = np.einsum("ij,ij->i", mixed, effects.T)
    total = np.maximum(inside @ variance, TINY)
    return np.asarray(np.clip(explained / total, 0.0, 1.0))


ROLES = {
    "score": "score",
    "y": "outcome",
    "sample_weight": "weight",
    "cluster": "patient ID",
}
LEAK = "a leak"
MOST_REASONS = 3  # why columns cannot be searched, in a message
ODD_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # spreads bits well
HALF_OF_BITS = np.uint64(32)


def read_rows(
    given: Mapping[str, Any],
    features: Any,
    data: Any,
    protect: Sequence[str],
    **file_options: Any,
) -> tuple[dict[str, Any], RoleNames, LazyColumns]:
    """The columns by role (score, y, sample_weight, cluster) and what messages call
    them; the other columns.

    The others are features and protected columns, which are read when they are needed.
    `file_options` are `na` and `memory_limit`.
    """
    roles = {role: value for role, value in given.items() if value is not None}
    if data is None:
        return roles, RoleNames(), LazyColumns.of(_feature_columns(features))

    names = _checked_names(roles, features, protect)
    source = source_of(data, "data", **file_options)
    kinds = {}
    for role in ("score", "sample_weight"):
        if role in roles:
            kinds[roles[role]] = NUMBER
    kinds[roles["y"]] = LENIENT
    columns = source.columns(list(dict.fromkeys(roles.values())), kinds)
    n = len(columns[roles["y"]])
    if not n and are_paths(data):
        raise InputError(f"{source.title}: there are no rows")

    columns_by_role = {role: columns[name] for role, name in roles.items()}
    titles = RoleNames(
        score=ColumnTitle(roles["score"]),
        outcome=ColumnTitle(roles["y"]),
        weight=ColumnTitle(str(roles.get("sample_weight"))),
        cluster=ColumnTitle(str(roles.get("cluster"))),
    )
    return columns_by_role, titles, LazyColumns(tuple(names), n, source.columns)


def _checked_names(
    roles: Mapping[str, Any], features: Any, protect: Sequence[str]
) -> list[str]:
    """The names of features and protected columns of `data`."""
    for name, value in roles.items():
        if not isinstance(value, str):
            raise refused(
                "not a column name",
                argument=name,
                of=" of data",
                kind=type(value).__name__,
            )
    if not _are_names(features):
        problem = " must be a list of names of columns of data"
        raise InputError(Argument("features") + problem)
    for argument, names in (("features", features), ("protect", protect)):
        for role, column in roles.items():
            if column in names:
                raise refused(
                    "role is taken", argument=argument, column=column, role=ROLES[role]
                )
    return list(dict.fromkeys([*features, *protect]))


def _are_names(value: Any) -> bool:
    """Whether this is a list of names, and not empty."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(name, (str, PathLike)) for name in value)


PLAIN_COLUMNS = (Mapping, list, tuple, str, np.ndarray, pa.Array, pa.ChunkedArray)


def _feature_columns(features: Any) -> Columns:
    """The features by their names; those without names are numbered."""
    if features is None or _are_names(features):
        raise refused("features not columns")
    if not isinstance(features, PLAIN_COLUMNS):
        return frame_columns(features, "features", None)
    columns = {}
    for name, column in attribute_columns(features).items():
        columns[name.replace("sensitive_feature_", "feature_", 1)] = column
    return columns


def check_people(
    roles: Mapping[str, Any],
    names: RoleNames,
    features: LazyColumns,
    *,
    positive: Any,
    drop_missing: bool,
) -> CheckedPeople:
    """Read and check the columns by role, of the same rows as the features."""
    people = read_roles(
        roles["score"],
        roles["y"],
        roles.get("sample_weight"),
        roles.get("cluster"),
        names,
        positive,
    )
    lengths = {f"feature {name!r}": n for name, n in features.lengths.items()}
    return people.check(lengths, drop_missing=drop_missing)


def people_to_search(checked: CheckedPeople, *, weight_kind: str) -> People:
    """The people who were checked, as a search needs them."""
    persons = None
    if checked.patient_ids is not None:
        _, codes = patient_codes(checked.patient_ids, checked.names.cluster)
        persons = codes.astype(np.int64)
        if checked.used is not None:
            persons = np.unique(persons[checked.used], return_inverse=True)[1]
    _refuse_unsearchable(checked.score, checked.outcome, checked.names)

    weight = checked.weight
    if weight is None:
        weight = np.ones(len(checked))
        survey = False
    elif weight_kind == "auto":
        survey = bool(np.any(weight != np.rint(weight)))
    else:
        survey = weight_kind == "survey"
    if survey:
        weight = weight / weight.mean()
    return People(checked.score, checked.outcome, weight, survey, persons)


def _refuse_unsearchable(score: FloatArray, outcome: Any, names: RoleNames) -> None:
    """Refuse outcomes and scores whose errors could not be told from chance."""
    if outcome.dtype.kind != "i":
        raise refused("soft outcomes", name=names.outcome)
    if outcome.min() == outcome.max():
        who = "everybody" if outcome.any() else "nobody"
        people = Identity(unit="people").count(len(outcome))
        raise refused("outcomes alike", name=names.outcome, who=who, people=people)
    if np.all((score == 0) | (score == 1)):
        raise refused("decisions", name=names.score)


def read_table(
    rows: LazyColumns, people: People, names: Sequence[str] | None = None
) -> FeatureTable:
    """The features (all columns, or those named) as codes, without those that cannot be
    searched.
    """
    table = _without_leaks(bin_features(rows, names), people)
    if not table.features:
        first = [*table.left_out.items()][:MOST_REASONS]
        reasons = "; ".join(f"{name}: {why}" for name, why in first)
        problem = f": no column can be searched ({reasons or 'there are none'})"
        raise InputError(Argument("features") + problem)
    return table


def _without_leaks(table: FeatureTable, people: People) -> FeatureTable:
    """Leave out features that reveal the outcome, and warn of them."""
    leaks = {}
    outcome = people.outcome.astype(np.float64)
    for feature, codes in zip(table.features, table.codes):
        rows = np.bincount(codes).astype(np.float64)
        events = np.bincount(codes, outcome).astype(np.float64)
        if tells_outcome(rows, events, rows):
            leaks[feature.name] = (
                f"it tells the outcome of nearly everybody, which makes it {LEAK}"
            )
    for name, why in leaks.items():
        warn_user(refused("leak", name=name, why=why).message)
    return table.without(leaks)


def in_own_order(
    table: FeatureTable, people: People
) -> tuple[FeatureTable, People, IntArray]:
    """The same rows in an order of their own, and where each of them was.

    Rows are sorted by a number that is mixed from everything they hold. Persons are
    numbered by their rows.
    """
    mixed = _mix(people.raw.view(np.uint64))
    for column in (people.outcome, people.weight.view(np.uint64), *table.codes):
        mixed = _mix(mixed ^ column.astype(np.uint64))
    order = np.argsort(mixed, kind="stable")
    if people.cluster is not None:
        of_person = np.zeros(int(people.cluster.max()) + 1, dtype=np.uint64)
        np.add.at(of_person, people.cluster, mixed)
        # the rank of each person
        number = np.argsort(np.argsort(of_person, kind="stable"), kind="stable")
        persons = number[people.cluster]
        people = replace(people, cluster=persons)
        order = np.lexsort((persons, mixed))
    return table.part(order), people.part(order), order


def _mix(values: Any) -> Any:
    """Spread every bit over all others."""
    values = values * ODD_FACTOR
    values ^= values >> HALF_OF_BITS
    values *= ODD_FACTOR
    return values ^ (values >> HALF_OF_BITS)
