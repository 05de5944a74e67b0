"""Rows in memory: checked, and reduced to atoms or matched with the patterns of a
correction to be scored.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from types import MappingProxyType
from typing import Any

import numpy as np

from propcal.core.arguments import check_choice, check_number
from propcal.core.atoms import NOBODY, Atoms, LeftOut
from propcal.core.conditions import Recipe, Where
from propcal.core.correction.definition import Definition, ScoringRows
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.unlisted import Unlisted
from propcal.core.grid import BoolArray, FloatArray, from_grid, ratio
from propcal.core.groups import Collection, Groups, membership
from propcal.core.patterns import (
    BESIDE,
    CLUSTER,
    Level,
    Patterns,
    combinations_present,
    patterns_of,
)
from propcal.core.reduction import atoms_of_rows
from propcal.errors import Argument, Column, InputError, refused
from propcal.reading import frames
from propcal.reading import role_columns as roles
from propcal.reading.derived_columns import attribute_values, fitting_values
from propcal.reading.frames import Columns, numbers
from propcal.reading.levels import (
    distinct,
    encode,
    encode_known,
    level_key,
    warn_of_failed_conditions,
    warn_of_similar_levels,
)

EVERY_COLUMN = Groups()
NAMES = ("score", "y", "sample_weight")  # of the columns, in errors
_PREVIEW = ("frame", "outcome", "sample_weight")


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: the pattern (by `code`), score, outcome and weight of each person.

    `left_out` counts the rows that were left out, `left_out_weight` their weights.
    """

    patterns: Patterns
    code: Any
    score: FloatArray
    outcome: Any
    weight: FloatArray | None
    left_out: LeftOut = NOBODY
    left_out_weight: LeftOut = NOBODY

    def atoms(self, *, resolution_bits: int = 32, weight_kind: str = "auto") -> Atoms:
        """Reduce them to atoms."""
        rows = (self.patterns, self.code, self.score, self.outcome, self.weight)
        atoms = atoms_of_rows(
            *rows, resolution_bits=resolution_bits, weight_kind=weight_kind
        )
        if not self.left_out.people:
            return atoms
        counted = self.weight is not None and atoms.frequencies
        return replace(
            atoms, left_out=self.left_out_weight if counted else self.left_out
        )


def rows_to_atoms(
    score: Any,
    outcome: Any,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    *,
    resolution: float | None = None,
    weight_kind: str = "auto",
    drop_missing: bool | None = False,
    **how: Any,
) -> Atoms:
    """Check arrays or series of people and reduce them to atoms; `how` as for
    `checked_rows`.
    """
    bits = resolution_bits(resolution)
    rows = checked_rows(
        score,
        outcome,
        sensitive_features,
        sample_weight,
        drop_missing=drop_missing,
        **how,
    )
    return rows.atoms(resolution_bits=bits, weight_kind=weight_kind)


def checked_rows(
    score: Any,
    outcome: Any,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    *,
    cluster: Any = None,
    groups: Groups = EVERY_COLUMN,
    beside: Mapping[str, Recipe | str] = MappingProxyType({}),
    names: tuple[str, str, str] = NAMES,
    positive: Any = None,
    drop_missing: bool | None = None,
) -> Rows:
    """Check arrays or series of people, and find the pattern of each.

    `names` is what errors call the score, the outcome and the weight; `beside` are
    attributes that make no groups, for a correction: how each is made, or from which
    column it is taken. `drop_missing` leaves out rows without a score or an outcome;
    None refuses them without mentioning that they could be left out.
    """
    _warn_of_other_order(score, outcome, sensitive_features, sample_weight, cluster)
    values = _score_numbers(score, names[0])
    y = roles.outcome_numbers(outcome, names[1], positive)
    frames.refuse_names(sensitive_features, len(values))
    if sample_weight is None:
        weight = None
    else:
        weight = numbers(sample_weight, names[2])
    columns = frames.attribute_columns(
        sensitive_features, wanted_columns(groups, beside)
    )
    if cluster is None:
        ids = None
    else:
        ids = frames.attribute_columns({"cluster": cluster})["cluster"]
    given = zip((*names, "cluster"), (values, y, weight, ids))
    sizes = {name: len(column) for name, column in given if column is not None}
    roles.check_lengths(
        sizes | {f"attribute {name!r}": len(column) for name, column in columns.items()}
    )
    troubles = roles.check_rows(values, y, weight, names, drop_missing=drop_missing)
    counts = None
    absent = None
    lost = [np.empty(0)]
    if troubles is not None:
        sound = troubles == roles.Trouble.SOUND
        counts = troubles != roles.Trouble.WEIGHT_ZERO
        absent = troubles[counts] == roles.Trouble.LEFT_OUT
        lost = [np.ones(int(absent.sum()))]
        values = values[sound]
        y = y[sound]
        if weight is not None:
            lost.append(weight[troubles == roles.Trouble.LEFT_OUT])
            weight = weight[sound]
    outcome = roles.compact_outcomes(y)
    if outcome.dtype.kind == "i":
        soft = 0
    else:
        soft = int(np.count_nonzero((y > 0) & (y < 1)))
    roles.refuse_swapped(values, 1.0, soft, len(y), (names[0], names[1]))
    del y
    recipes = groups.recipes()
    frames.require(
        list(columns),
        [*groups.as_levels, *(c for how in recipes.values() for c in how.columns)],
    )
    encoded = {}
    for name in groups.attributes(list(columns)):
        as_levels = name in groups.as_levels
        encoded[name] = encode(
            *fitting_values(
                name, recipes.get(name), columns, counts, as_levels=as_levels
            )
        )
    made = {name: how for name, how in beside.items() if not isinstance(how, str)}
    also = {
        name: encode(*attribute_values(str(c), made.get(name), columns))
        for name, c in beside.items()
    }
    if ids is not None:
        also[CLUSTER] = roles.CLUSTERS, roles.cluster_codes(ids)
    for name, (levels, code) in also.items():
        encoded[name] = levels, code if counts is None else code[counts]
    patterns, code, left_out = patterns_and_left_out(
        encoded, recipes | made, absent, lost, len(values)
    )
    warn_of_similar_levels(patterns, np.bincount(code, minlength=len(patterns)))
    met = [
        name for name, own in zip(patterns.attributes, patterns.levels) if "true" in own
    ]
    failed = {
        name: how
        for name, how in recipes.items()
        if isinstance(how, Where) and name not in met
    }
    warn_of_failed_conditions(
        failed, lambda column: map(level_key, distinct(columns[column])[0])
    )
    return Rows(patterns, code, values, outcome, weight, left_out[0], left_out[-1])


def patterns_and_left_out(
    encoded: Mapping[str, tuple[tuple[Level, ...], Any]],
    recipes: Mapping[str, Recipe],
    gone: BoolArray | None,
    counts: Sequence[Any],
    n_rows: int,
) -> tuple[Patterns, Any, list[LeftOut]]:
    """The patterns of rows, the pattern of each row, and those that are `gone`, counted
    by group.

    `encoded` has the levels of each attribute, and the place of each row's level among
    them; `counts` are one or more ways to count the rows that are gone; `n_rows` is the
    number of the others.
    """
    left_out = [NOBODY for _ in counts]
    codes = [code for _, code in encoded.values()]
    if gone is not None and gone.any():
        own = [
            name for name in encoded if not name.startswith(BESIDE) and name != CLUSTER
        ]
        levels = [encoded[name][0] for name in own]
        places = [encoded[name][1][gone] for name in own]
        left_out = [LeftOut.of(own, levels, places, people) for people in counts]
        codes = [code[~gone] for code in codes]
    every = tuple(levels for levels, _ in encoded.values())
    patterns, code = patterns_of(tuple(encoded), every, codes, n_rows, recipes)
    return patterns, code, left_out


def _score_numbers(score: Any, name: str) -> FloatArray:
    """Scores as numbers; an error about texts asks whether they are outcomes."""
    try:
        return numbers(score, name)
    except InputError as error:
        try:
            roles.outcome_numbers(score, name)
        except InputError:
            raise error from None
        raise refused("outcomes as scores", name=name) from None


def _warn_of_other_order(*columns: Any) -> None:
    """Rows belong together by their place; pandas' indexes of the same labels may say
    otherwise.
    """
    found: list[Any] = [getattr(column, "index", None) for column in columns]
    first, *others = [index for index in found if hasattr(index, "equals")] or [None]
    for other in (
        other
        for other in others
        if len(first) == len(other) and not first.equals(other)
    ):
        try:
            same = first.sort_values().equals(other.sort_values())
        except TypeError:  # labels of several kinds have no order
            continue
        if same:
            warnings.warn(refused("other order").message, UserWarning, stacklevel=4)
            return


def rows_of_scores(
    scores: Mapping[str, Any],
    outcome: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    positive: Any = None,
    drop_missing: bool = False,
    **how: Any,
) -> tuple[Atoms, dict[str, FloatArray]]:
    """Atoms of single rows, and of each atom every one of several scores; `how` as for
    `rows_to_atoms`.

    The number of the row, in units of the grid, takes the place of the score, so that
    rows of one pattern stay apart. A row without one of the scores has no score.
    """
    values = {name: numbers(score, f"score {name!r}") for name, score in scores.items()}
    roles.check_lengths(
        {f"score {name!r}": len(score) for name, score in values.items()}
    )
    _warn_of_other_order(
        *scores.values(), outcome, sensitive_features, sample_weight, how.get("cluster")
    )
    y = roles.outcome_numbers(outcome, NAMES[1], positive)
    absent = np.zeros(len(next(iter(values.values()))), dtype=np.bool_)
    for score in values.values() if drop_missing else ():
        absent |= np.isnan(score)
    if drop_missing and len(y) == len(absent):
        known = ~absent & ~np.isnan(y)
    else:
        known = ~absent
    soft = int(np.count_nonzero((y > 0) & (y < 1)))
    for name, score in values.items():
        if known.any():
            roles.check_scores(
                score[known], f"score {name!r}", drop_missing=drop_missing
            )
            roles.refuse_swapped(
                score[known], 1.0, soft, len(y), (f"score {name!r}", NAMES[1])
            )
    number = from_grid(np.arange(len(absent)))
    number[absent] = np.nan
    atoms = rows_to_atoms(
        number, y, sensitive_features, sample_weight, drop_missing=drop_missing, **how
    )
    return atoms, {name: score[atoms.score] for name, score in values.items()}


class FrameColumns(dict[str, Any]):
    """Columns of a frame; `unused_id` is another one that looks like a patient ID and
    was not named.
    """

    unused_id: str = ""


def warn_of_unused_ids(sensitive_features: Any, groups: Groups) -> str:
    """Warn of a patient ID among columns that are passed and define no groups; its
    name, or "".
    """
    if isinstance(sensitive_features, FrameColumns):
        return sensitive_features.unused_id
    wanted = wanted_columns(groups)
    named = isinstance(sensitive_features, Mapping)
    if named:
        names = map(str, sensitive_features)
    else:
        names = frames.frame_names(sensitive_features)
    return roles.warn_of_undeclared(
        [] if wanted is None else [name for name in names if name not in wanted],
        lambda name: roles.count_values(
            frames.attribute_columns(sensitive_features, [name])[name]
        ),
        written="cluster=frame[{}]",
    )


def wanted_columns(
    groups: Groups, beside: Mapping[str, Recipe | str] = MappingProxyType({})
) -> list[str] | None:
    """The columns that groups (and attributes beside them) are made of; None: all that
    are passed.
    """
    if groups.columns is None:
        return None
    recipes = groups.recipes()
    plain = [
        name for name in (*groups.columns, *groups.as_levels) if name not in recipes
    ]
    made = [*recipes.values(), *beside.values()]
    read = [
        name
        for one in made
        for name in ([one] if isinstance(one, str) else one.columns)
    ]
    return list(dict.fromkeys([*plain, *read]))


def preview(
    groups: Groups, frame: Any, outcome: Any, *, gamma: float, sample_weight: Any
) -> Any:
    """The table of `Groups.preview`."""
    columns = frames.attribute_columns(frame)
    if isinstance(outcome, str) and outcome in columns:
        y = columns.pop(outcome)
    else:
        y = outcome
    if isinstance(y, str):
        frames.require(list(columns), [y])
    n = len(next(iter(columns.values()))) if columns else 0
    known = np.zeros(n) if y is None else y
    how: dict[str, Any] = {"groups": groups, "names": _PREVIEW, "drop_missing": None}
    atoms = rows_to_atoms(np.zeros(n), known, columns, sample_weight, **how)
    groups.refuse_too_many(atoms.patterns)
    weight = atoms.pattern_sums(atoms.weight)
    positives = atoms.pattern_sums(atoms.positives)
    sizes = groups.sizes(atoms, gamma=gamma)
    rates: Any = np.nan
    if y is not None:
        inside = membership([size.group for size in sizes], atoms.patterns)
        rates = ratio(
            inside @ positives, inside @ weight
        )  # none if nobody meets a condition
    table = Collection(tuple(sizes), ()).to_frame()
    table.insert(3, "outcome_rate", rates)
    return table


def resolution_bits(resolution: float | None) -> int:
    """How many binary digits of the score a resolution such as 2**-16 keeps."""
    if resolution is None:
        return 32
    check_number("resolution", resolution, above=0, at_most=1)
    bits = -log2(resolution)
    if bits < 1 or bits > 32 or bits != int(bits):
        raise InputError(
            Argument("resolution")
            + f" must be 2**-1, 2**-2, ... or 2**-32; got {resolution!r}"
        )
    return int(bits)


def scoring_rows(
    score: Any,
    sensitive_features: Any,
    correction: Definition,
    *,
    invalid: str = "error",
) -> ScoringRows:
    """Check rows to be scored, and warn of values that the correction does not list.

    There may be no rows. Unless `invalid` is "error", scores may be missing or outside
    [0, 1].
    """
    rows = rows_to_score(score, sensitive_features, correction, invalid=invalid)
    Unlisted(correction).add(rows).warn()
    return rows


def rows_to_score(
    score: Any,
    people: Any,
    correction: Definition,
    name: str = "score",
    *,
    invalid: str = "error",
) -> ScoringRows:
    """Like `scoring_rows`, but without warnings."""
    check_choice("invalid", invalid, roles.INVALID)
    refuse_truths(score, name)
    values = numbers(score, name)
    frames.refuse_names(people, len(values))
    columns: Columns = {}
    known = correction.patterns
    points = correction.points
    reads = list(correction.reads)
    if reads:
        if people is None:
            raise refused("features needed", reads=reads)
        columns = frames.attribute_columns(people, reads, plain=True)
    sizes = {f"attribute {a!r}": len(column) for a, column in columns.items()}
    roles.check_lengths({name: len(values)} | sizes, may_be_empty=True)
    if not len(values):
        none = np.empty((0, len(known.attributes)), dtype=np.int64)
        nobody = np.empty(0, dtype=np.int64)
        codes = [nobody for _ in points.features] if points else []
        return ScoringRows(values, replace(known, table=none), nobody, codes)
    if invalid == "error":
        roles.check_scores(values, name, scoring=True)
    codes = [
        encode_known(*attribute_values(name, known.derived.get(name), columns), levels)
        for name, levels in zip(known.attributes, known.levels)
    ]
    table, code = combinations_present(
        codes, [len(level) + 1 for level in known.levels], len(values)
    )
    patterns = Patterns(known.attributes, known.levels, table, known.derived)
    return ScoringRows(
        values, patterns, code, feature_codes(points, columns) if points else []
    )


def feature_codes(points: PointsTable, columns: Mapping[str, Any]) -> list[Any]:
    """Which level or range of each feature with points each row is in."""
    return [_codes(feature, columns[feature.column]) for feature in points.features]


def _codes(feature: FeaturePoints, column: Any) -> Any:
    if not feature.is_number:  # a missing value has the code behind the levels
        return encode_known(*distinct(column), (*feature.levels, None))
    values = frames.floats(
        column, Column(feature.column, f"feature {feature.column!r}")
    )
    codes = np.searchsorted(feature.cuts, values, side="right").astype(np.uint8)
    codes[np.isnan(values)] = len(feature.points)
    return codes


def refuse_truths(score: Any, name: str) -> None:
    """Refuse true and false in place of scores: they would count as certain."""
    kind = str(getattr(score, "dtype", getattr(score, "type", ""))).lower()
    of_objects = isinstance(score, (list, tuple)) or kind == "object"
    if kind.startswith("bool") or (
        of_objects and any(type(value) in (bool, np.bool_) for value in score)
    ):
        raise refused("truths as scores", name=name)
