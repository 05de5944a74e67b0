"""Rows in memory: checked, and reduced to atoms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from types import MappingProxyType
from typing import Any

import numpy as np

from propcal.core.arguments import check_number
from propcal.core.atoms import NOBODY, Atoms, LeftOut
from propcal.core.conditions import Recipe, Where
from propcal.core.grid import BoolArray, FloatArray, from_grid, ratio
from propcal.core.groups import Collection, Groups, membership
from propcal.core.patterns import (
    BESIDE,
    CLUSTER,
    Level,
    Patterns,
    patterns_of,
)
from propcal.core.reduction import atoms_of_rows
from propcal.errors import Argument, InputError, refused, warn_user
from propcal.reading import frames
from propcal.reading import role_columns as roles
from propcal.reading.checked_people import CheckedPeople, read_roles
from propcal.reading.derived_columns import attribute_values, fitting_values, recipes_of
from propcal.reading.frames import Columns, numbers
from propcal.reading.levels import (
    distinct,
    encode,
    level_key,
    warn_of_failed_conditions,
    warn_of_similar_levels,
)
from propcal.reading.outcomes import outcome_numbers
from propcal.reading.patient_ids import (
    CLUSTERS,
    cluster_codes,
    count_values,
    warn_of_undeclared,
)
from propcal.reading.role_columns import RoleNames

EVERY_COLUMN = Groups()
NO_ATTRIBUTES: Mapping[str, Recipe | str] = MappingProxyType({})
ROLE_NAMES = RoleNames()
_PREVIEW = RoleNames("frame", "outcome")
Encoded = dict[str, tuple[tuple[Level, ...], Any]]  # levels, and the level of each row


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
        atoms = atoms_of_rows(
            self.patterns,
            self.code,
            self.score,
            self.outcome,
            self.weight,
            resolution_bits=resolution_bits,
            weight_kind=weight_kind,
        )
        if not self.left_out.people:
            return atoms
        if self.weight is not None and atoms.frequencies:
            return replace(atoms, left_out=self.left_out_weight)
        return replace(atoms, left_out=self.left_out)


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
    beside: Mapping[str, Recipe | str] = NO_ATTRIBUTES,
    names: RoleNames = ROLE_NAMES,
    positive: Any = None,
    drop_missing: bool | None = None,
) -> Rows:
    """Check arrays or series of people, and find the pattern of each.

    `names` is what errors call the score, the outcome and the weight; `beside` are
    attributes that make no groups, for a correction: how each is made, or from which
    column it is taken. `drop_missing` leaves out rows without a score or an outcome;
    None refuses them without mentioning that they could be left out.
    """
    people, columns = read_people(
        score,
        outcome,
        sensitive_features,
        sample_weight,
        cluster=cluster,
        wanted=wanted_columns(groups, beside),
        names=names,
        positive=positive,
        drop_missing=drop_missing,
    )
    return rows_of_people(people, columns, groups, beside)


def read_people(
    score: Any,
    outcome: Any,
    sensitive_features: Any,
    sample_weight: Any,
    *,
    cluster: Any,
    wanted: Sequence[str] | None,
    names: RoleNames = ROLE_NAMES,
    positive: Any,
    drop_missing: bool | None,
) -> tuple[CheckedPeople, Columns]:
    """Read and check people, and read the wanted columns of `sensitive_features` (None:
    all).
    """
    _warn_of_other_order(score, outcome, sensitive_features, sample_weight, cluster)
    people = read_roles(score, outcome, sample_weight, cluster, names, positive)
    frames.refuse_names(sensitive_features, len(people.score))
    columns = frames.attribute_columns(sensitive_features, wanted)
    lengths = {f"attribute {name!r}": len(column) for name, column in columns.items()}
    return people.check(lengths, drop_missing=drop_missing), columns


def rows_of_people(
    people: CheckedPeople,
    columns: Columns,
    groups: Groups,
    beside: Mapping[str, Recipe | str] = NO_ATTRIBUTES,
) -> Rows:
    """The pattern of each person, from columns of the rows that were passed."""
    people.refuse_swapped()
    recipes = groups.recipes()
    frames.require(list(columns), groups.as_levels)
    for recipe in recipes.values():
        frames.require(list(columns), recipe.columns)

    encoded = _group_attributes(columns, groups, people.counted)
    encoded |= _further_attributes(columns, beside, people)
    left_out = people.left_out
    n_left_out = 0 if left_out is None else int(left_out.sum())
    counts = [np.ones(n_left_out)]
    if people.left_out_weight is not None:
        counts.append(people.left_out_weight)
    patterns, code, counted_left_out = patterns_and_left_out(
        encoded, recipes | recipes_of(beside), left_out, counts, len(people)
    )

    warn_of_similar_levels(patterns, np.bincount(code, minlength=len(patterns)))
    _warn_of_conditions_that_nobody_meets(recipes, patterns, columns)
    return Rows(
        patterns,
        code,
        people.score,
        people.outcome,
        people.weight,
        counted_left_out[0],
        counted_left_out[-1],
    )


def _group_attributes(
    columns: Columns, groups: Groups, counted: BoolArray | None
) -> Encoded:
    """The attributes that define the groups, of the rows that are counted."""
    recipes = groups.recipes()
    encoded = {}
    for name in groups.attributes(list(columns)):
        as_levels = name in groups.as_levels
        values, codes = fitting_values(
            name, recipes.get(name), columns, counted, as_levels=as_levels
        )
        encoded[name] = encode(values, codes)
    return encoded


def _further_attributes(
    columns: Columns, beside: Mapping[str, Recipe | str], people: CheckedPeople
) -> Encoded:
    """The attributes that define no groups, and the clusters of patients."""
    encoded = {}
    for name, made in beside.items():
        if isinstance(made, str):
            values, codes = attribute_values(made, None, columns)
        else:
            values, codes = attribute_values(str(made), made, columns)
        encoded[name] = encode(values, codes)
    if people.patient_ids is not None:
        encoded[CLUSTER] = CLUSTERS, cluster_codes(people.patient_ids)
    if people.counted is not None:
        for name, (levels, codes) in encoded.items():
            encoded[name] = levels, codes[people.counted]
    return encoded


def _warn_of_conditions_that_nobody_meets(
    recipes: Mapping[str, Recipe], patterns: Patterns, columns: Columns
) -> None:
    levels_of = dict(zip(patterns.attributes, patterns.levels))
    failed = {}
    for name, recipe in recipes.items():
        if isinstance(recipe, Where) and "true" not in levels_of.get(name, ()):
            failed[name] = recipe

    def levels_of_column(column: str) -> Iterable[Level]:
        values, _ = distinct(columns[column])
        return map(level_key, values)

    warn_of_failed_conditions(failed, levels_of_column)


def patterns_and_left_out(
    encoded: Mapping[str, tuple[tuple[Level, ...], Any]],
    recipes: Mapping[str, Recipe],
    left_out: BoolArray | None,
    counts: Sequence[Any],
    n_rows: int,
) -> tuple[Patterns, Any, list[LeftOut]]:
    """The patterns of rows, the pattern of each row, and the rows that are left out,
    counted by group.

    `encoded` has the levels of each attribute, and the place of each row's level among
    them; `counts` are one or more ways to count the rows that are left out; `n_rows` is
    the number of the others.
    """
    by_group = [NOBODY] * len(counts)
    levels = [levels for levels, _ in encoded.values()]
    codes = [codes for _, codes in encoded.values()]
    if left_out is not None and left_out.any():
        names = []
        levels_of_groups = []
        codes_of_groups = []
        for name, (own_levels, own_codes) in encoded.items():
            if name != CLUSTER and not name.startswith(BESIDE):
                names.append(name)
                levels_of_groups.append(own_levels)
                codes_of_groups.append(own_codes[left_out])
        by_group = [
            LeftOut.of(names, levels_of_groups, codes_of_groups, people)
            for people in counts
        ]
        codes = [own_codes[~left_out] for own_codes in codes]
    patterns, code = patterns_of(tuple(encoded), tuple(levels), codes, n_rows, recipes)
    return patterns, code, by_group


def _warn_of_other_order(*columns: Any) -> None:
    """Rows belong together by their place; pandas' indexes of the same labels may say
    otherwise.
    """
    indexes: list[Any] = []
    for column in columns:
        index = getattr(column, "index", None)
        if hasattr(index, "equals"):
            indexes.append(index)
    if not indexes:
        return
    first, *others = indexes
    for other in others:
        if len(first) != len(other) or first.equals(other):
            continue
        try:
            same_labels = first.sort_values().equals(other.sort_values())
        except TypeError:  # labels of several kinds have no order
            continue
        if same_labels:
            warn_user(refused("other order").message)
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
    lengths = {f"score {name!r}": len(score) for name, score in values.items()}
    roles.check_lengths(lengths)
    _warn_of_other_order(
        *scores.values(), outcome, sensitive_features, sample_weight, how.get("cluster")
    )
    y = outcome_numbers(outcome, ROLE_NAMES.outcome, positive)

    absent = np.zeros(next(iter(lengths.values())), dtype=np.bool_)
    if drop_missing:
        for score in values.values():
            absent |= np.isnan(score)
    known = ~absent
    if drop_missing and len(y) == len(absent):
        known &= ~np.isnan(y)
    if known.any():
        _check_several_scores(values, known, y, drop_missing=drop_missing)

    row_number = from_grid(np.arange(len(absent)))
    row_number[absent] = np.nan
    atoms = rows_to_atoms(
        row_number,
        y,
        sensitive_features,
        sample_weight,
        drop_missing=drop_missing,
        **how,
    )
    return atoms, {name: score[atoms.score] for name, score in values.items()}


def _check_several_scores(
    scores: Mapping[str, FloatArray],
    known: BoolArray,
    outcome: FloatArray,
    *,
    drop_missing: bool,
) -> None:
    """Refuse scores that are no probabilities, or outcomes, in the known rows."""
    soft = int(np.count_nonzero((outcome > 0) & (outcome < 1)))
    for name, score in scores.items():
        title = f"score {name!r}"
        roles.check_scores(score[known], title, drop_missing=drop_missing)
        roles.refuse_swapped(
            score[known], 1.0, soft, len(outcome), title, ROLE_NAMES.outcome
        )


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
    if isinstance(sensitive_features, Mapping):
        names = list(map(str, sensitive_features))
    else:
        names = frames.frame_names(sensitive_features)
    wanted = wanted_columns(groups)
    if wanted is None:
        return ""

    def count(name: str) -> tuple[int, int]:
        return count_values(frames.attribute_columns(sensitive_features, [name])[name])

    return warn_of_undeclared(names, wanted, count, written="cluster=frame[{}]")


def wanted_columns(
    groups: Groups, beside: Mapping[str, Recipe | str] = NO_ATTRIBUTES
) -> list[str] | None:
    """The columns that groups are made of, and attributes that make no groups; None:
    all that are passed.
    """
    if groups.columns is None:
        return None
    recipes = groups.recipes()
    wanted = [*groups.columns, *groups.as_levels]
    wanted = [name for name in wanted if name not in recipes]
    for made in [*recipes.values(), *beside.values()]:
        if isinstance(made, str):
            wanted.append(made)
        else:
            wanted += made.columns
    return list(dict.fromkeys(wanted))


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

    atoms = rows_to_atoms(
        np.zeros(n),
        np.zeros(n) if y is None else y,
        columns,
        sample_weight,
        groups=groups,
        names=_PREVIEW,
        drop_missing=None,
    )
    groups.refuse_too_many(atoms.patterns)
    sizes = groups.sizes(atoms, gamma=gamma)
    table = Collection(tuple(sizes), ()).to_frame()

    rates: Any = np.nan
    if y is not None:
        inside = membership([size.group for size in sizes], atoms.patterns)
        people = inside @ atoms.pattern_sums(atoms.weight)
        events = inside @ atoms.pattern_sums(atoms.positives)
        rates = ratio(events, people)  # missing if nobody meets a condition
    table.insert(3, "outcome_rate", rates)
    return table


def resolution_bits(resolution: float | None) -> int:
    """How many binary digits of the score a resolution such as 2**-16 keeps."""
    if resolution is None:
        return 32
    check_number("resolution", resolution, above=0, at_most=1)
    bits = -log2(resolution)
    if bits < 1 or bits > 32 or bits != int(bits):
        problem = f" must be 2**-1, 2**-2, ... or 2**-32; got {resolution!r}"
        raise InputError(Argument("resolution") + problem)
    return int(bits)
