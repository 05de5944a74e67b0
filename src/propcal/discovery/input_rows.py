"""Input of a search: arrays, frames, frames of an engine, or files; checked, turned into codes and sorted.

Features that give away the outcome are left out. Rows are sorted by what they hold, so that results do not
depend on the order they came in.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.categories import tells_outcome
from propcal.core.grid import FloatArray, IntArray
from propcal.data.checks import Trouble, check_lengths, check_rows, compact_outcomes
from propcal.data.files.file_source import are_paths, source_of
from propcal.data.files.people_files import LENIENT, NUMBER
from propcal.data.frames import Columns, attribute_columns, frame_columns, numbers
from propcal.data.role_columns import outcome_numbers, patient_codes
from propcal.data.source import Table
from propcal.discovery.binned_features import FeatureTable, bin_features
from propcal.discovery.people import People
from propcal.errors import Argument, Column, InputError, Message, refused
from propcal.identity import Identity

ROLES = {"score": "score", "y": "outcome", "sample_weight": "weight", "cluster": "patient ID"}
LEAK = "a leak"
ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplies well into all bits
HALF = np.uint64(32)


def read_rows(
    given: Mapping[str, Any], features: Any, data: Any, protect: Sequence[str], **how: Any
) -> tuple[dict[str, Any], dict[str, str], Table]:
    """The columns by role (score, y, sample_weight, cluster) and what messages call them; the other columns.

    The others are features and protected columns, which are read when they are needed. `how` are the options
    of files: `na` and `memory_limit`.
    """
    roles = {name: value for name, value in given.items() if value is not None}
    if data is None:
        return roles, {}, Table.of(_feature_columns(features))
    names = _checked_names(roles, features, protect)
    source = source_of(data, "data", **how)
    kinds = {roles[name]: NUMBER for name in roles if name in ("score", "sample_weight")}
    columns = source.columns(list(dict.fromkeys(roles.values())), kinds | {roles["y"]: LENIENT})
    own = {name: columns[value] for name, value in roles.items()}
    if not len(own["y"]) and are_paths(data):
        raise InputError(f"{source.title}: there are no rows")
    called: dict[str, str] = {name: Column(value) for name, value in roles.items()}
    return own, called, Table(tuple(names), len(own["y"]), source.columns)


def _checked_names(roles: Mapping[str, Any], features: Any, protect: Sequence[str]) -> list[str]:
    """The names of features and protected columns of `data`."""
    for name, value in roles.items():
        if not isinstance(value, str):
            raise refused("not a column name", argument=name, of=" of data", kind=type(value).__name__)
    if isinstance(features, str) or not _names(features):
        raise InputError(Argument("features") + " must be a list of names of columns of data")
    for argument, names in (("features", features), ("protect", protect)):
        for name in (name for name, value in roles.items() if value in names):
            taken = Argument(argument) + f": column {roles[name]!r} is the {ROLES[name]}"
            raise InputError(taken, next_step="Remove it from " + Argument(argument))
    return list(dict.fromkeys([*features, *protect]))


def _names(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and len(value) > 0
    return several and all(isinstance(name, (str, PathLike)) for name in value)


def _feature_columns(features: Any) -> Columns:
    if features is None or (isinstance(features, (list, tuple)) and _names(features)):
        raise refused("features not columns")
    if not isinstance(features, (Mapping, list, tuple, str, np.ndarray, pa.Array, pa.ChunkedArray)):
        return frame_columns(features, "features", None)
    columns = attribute_columns(features)
    return {name.replace("sensitive_feature_", "feature_", 1): column for name, column in columns.items()}


def read_people(
    roles: Mapping[str, Any],
    rows: Table,
    called: Mapping[str, str] | None = None,
    *,
    weight_kind: str,
    positive: Any,
    drop_missing: bool,
) -> tuple[People, Table]:
    """Check the rows; returns the people, and the features of the rows that count.

    `called` is what messages call the columns: by default as the arguments, which are the roles. Roles may be
    None.
    """
    roles = {name: value for name, value in roles.items() if value is not None}
    names = {role: role for role in ROLES} | dict(called or {})
    own = {"score": numbers(roles["score"], names["score"])}
    own["y"] = outcome_numbers(roles["y"], names["y"], positive)
    if "sample_weight" in roles:
        own["sample_weight"] = numbers(roles["sample_weight"], names["sample_weight"])
    sizes = {names[role]: len(column) for role, column in own.items()}
    check_lengths(sizes | {f"feature {name!r}": n for name, n in rows.lengths.items()})
    titles, weight = (names["score"], names["y"], names["sample_weight"]), own.get("sample_weight")
    troubles = check_rows(own["score"], own["y"], weight, titles, drop_missing=drop_missing)
    person = None
    if "cluster" in roles:
        ids = attribute_columns({"cluster": roles["cluster"]})["cluster"]
        check_lengths({names["y"]: len(own["y"]), names["cluster"]: len(ids)})
        person = patient_codes(ids, names["cluster"])[1].astype(np.int64)
    if troubles is not None:
        keep = troubles == Trouble.SOUND
        own, rows = {role: column[keep] for role, column in own.items()}, rows.kept(keep)
        person = None if person is None else np.unique(person[keep], return_inverse=True)[1]
    score, outcome = own["score"], compact_outcomes(own["y"])
    _refuse_unsearchable(score, outcome, names)
    weight = own.get("sample_weight", np.ones(len(score)))
    survey = weight_kind == "survey" or (weight_kind == "auto" and bool(np.any(weight != np.rint(weight))))
    survey = survey and "sample_weight" in own
    return People(score, outcome, weight / weight.mean() if survey else weight, survey, person), rows


def _refuse_unsearchable(score: FloatArray, outcome: Any, names: Mapping[str, str]) -> None:
    """Refuse outcomes and scores of which no error can be told from chance."""
    people = Identity(unit="people").count(len(outcome))
    who = f"{'everybody' if outcome.any() else 'nobody'} had the outcome ({people})"
    soft = "must be 0 or 1; soft labels between have no chance to compare with"
    check = "Check that the right column, and the right value of it, is the event"
    refused = (
        ("y", outcome.dtype.kind != "i", f" {soft}", None),
        ("y", outcome.min() == outcome.max(), f": {who}, so that no error can be told from chance", check),
        (
            "score",
            np.all((score == 0) | (score == 1)),
            ": every value is 0 or 1; a search needs risks between",
            "Pass the predicted probability, not the decision",
        ),
    )
    for role, wrong, why, next_step in refused:
        if wrong:
            raise InputError(f"{names[role]}{why}", argument=names[role], next_step=next_step)


def read_table(rows: Table, people: People, names: Sequence[str] | None = None) -> FeatureTable:
    """The features (all columns, or those named) as codes, without those that cannot be searched."""
    table = _without_leaks(bin_features(rows, names), people)
    if not table.features:
        reasons = "; ".join(f"{name}: {why}" for name, why in [*table.left_out.items()][:3])
        none = f": no column can be searched ({reasons or 'there are none'})"
        raise InputError(Argument("features") + none)
    return table


def _without_leaks(table: FeatureTable, people: People) -> FeatureTable:
    """Leave out features by which the outcome can be told, and warn of them."""
    found, events = {}, people.outcome.astype(np.float64)
    for feature, codes in zip(table.features, table.codes):
        rows = np.bincount(codes).astype(np.float64)
        if tells_outcome(rows, np.bincount(codes, events).astype(np.float64), rows):
            found[feature.name] = f"it tells the outcome of nearly everybody, which makes it {LEAK}"
    for name, why in found.items():
        problem = Argument("features") + f": {name!r} is left out: {why}"
        step = "Was it known when the score was computed? If not, remove it"
        warnings.warn(Message(problem, next_step=step), UserWarning, stacklevel=3)
    return table.without(found)


def in_own_order(table: FeatureTable, people: People) -> tuple[FeatureTable, People, IntArray]:
    """The same rows in an order of their own, and where each of them was.

    Rows are sorted by a number that is mixed from everything they hold. Persons are numbered by their rows.
    """
    mixed = _mix(people.raw.view(np.uint64))
    for column in (people.outcome, people.weight.view(np.uint64), *table.codes):
        mixed = _mix(mixed ^ column.astype(np.uint64))
    order = np.argsort(mixed, kind="stable")
    if people.cluster is not None:
        behind = np.zeros(int(people.cluster.max()) + 1, dtype=np.uint64)
        np.add.at(behind, people.cluster, mixed)
        number = np.argsort(np.argsort(behind, kind="stable"), kind="stable")
        persons = number[people.cluster]
        people, order = replace(people, cluster=persons), np.lexsort((persons, mixed))
    return table.part(order), people.part(order), order


def _mix(values: Any) -> Any:
    """Spread every bit over all others."""
    values = values * ODD
    values ^= values >> HALF
    values *= ODD
    return values ^ (values >> HALF)
