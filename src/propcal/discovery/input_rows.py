"""Input of a search: arrays, frames, frames of an engine, or files; checked, and turned into codes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.data.checks import advice, check_lengths, check_scores, check_weights, compact_outcomes
from propcal.data.derive import Columns
from propcal.data.files.file_columns import open_columns
from propcal.data.files.file_sets import find_files
from propcal.data.frames import attribute_columns, collected_columns, frame_columns, is_engine_frame, numbers
from propcal.data.levels import distinct
from propcal.data.outcomes import outcome_numbers
from propcal.discovery.binned_features import FeatureTable, bin_features, refuse_nothing_left
from propcal.discovery.feature_rows import FeatureRows, FileRows, MemoryRows
from propcal.discovery.leaks import without_leaks
from propcal.discovery.people import People
from propcal.errors import Argument, Column, InputError
from propcal.identity import Identity
from propcal.numbers import listed

MOST_VALUES = 20_000_000  # of features of files that are read at once, which is faster
ROLES = {"score": "score", "y": "outcome", "sample_weight": "weight", "cluster": "patient ID"}


@contextmanager
def read_rows(
    y: Any,
    score: Any,
    features: Any,
    data: Any,
    sample_weight: Any,
    cluster: Any,
    protect: Sequence[str],
    *,
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
) -> Iterator[tuple[dict[str, Any], dict[str, str], FeatureRows]]:
    """The columns by role (score, y, sample_weight, cluster) and what messages call them; the other rows.

    The other rows are of features and protected columns. Features of large files are read in batches, so that
    only their codes are held in memory.
    """
    given = {"score": score, "y": y, "sample_weight": sample_weight, "cluster": cluster}
    roles = {name: value for name, value in given.items() if value is not None}
    if data is None:
        yield roles, {}, MemoryRows(_feature_columns(features))
        return
    names = _checked_names(roles, features, protect)
    called: dict[str, str] = {name: Column(value) for name, value in roles.items()}
    wanted = list(dict.fromkeys([*roles.values(), *names]))
    if not (isinstance(data, (str, PathLike)) or _names(data)):
        collect = collected_columns if is_engine_frame(data) else _frame_columns
        columns = collect(data, wanted)
        own = {name: columns[value] for name, value in roles.items()}
        yield own, called, MemoryRows({name: columns[name] for name in names})
        return
    with open_columns(
        data,
        wanted,
        numeric=[roles[name] for name in ("score", "sample_weight") if name in roles],
        lenient=[roles["y"]],
        na=na,
        memory_limit=memory_limit,
    ) as file:
        columns = file.whole(list(dict.fromkeys(roles.values())))
        own = {name: columns[value] for name, value in roles.items()}
        n = len(own["y"])
        if not n:
            raise InputError(f"{listed([str(path) for path in find_files(data)])}: there are no rows")
        few = n * len(names) <= MOST_VALUES
        yield own, called, MemoryRows(file.whole(names)) if few else FileRows(file, tuple(names), n)


def _checked_names(roles: Mapping[str, Any], features: Any, protect: Sequence[str]) -> list[str]:
    """The names of features and protected columns of `data`."""
    for name, value in roles.items():
        if not isinstance(value, str):
            raise InputError(
                f"{name} must be the name of a column of data; got {type(value).__name__}", argument=name
            )
    if isinstance(features, str) or not _names(features):
        raise InputError(
            Argument("features") + " must be a list of names of columns of data", argument="features"
        )
    for argument, names in (("features", features), ("protect", protect)):
        own = [name for name, value in roles.items() if value in names]
        if own:
            raise InputError(
                Argument(argument) + f": column {roles[own[0]]!r} is the {ROLES[own[0]]}",
                next_step="Remove it from " + Argument(argument),
            )
    return list(dict.fromkeys([*features, *protect]))


def _frame_columns(data: Any, wanted: list[str]) -> Columns:
    return frame_columns(data, "data", wanted)


def _names(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and len(value) > 0
    return several and all(isinstance(name, (str, PathLike)) for name in value)


def _feature_columns(features: Any) -> Columns:
    if features is None or (isinstance(features, (list, tuple)) and _names(features)):
        raise InputError(
            "features must be a data frame, a series or an array",
            argument="features",
            next_step="Names of columns need the frame or the files beside them, data=...",
        )
    if not isinstance(features, (Mapping, list, tuple, str, np.ndarray, pa.Array, pa.ChunkedArray)):
        return frame_columns(features, "features", None)
    columns = attribute_columns(features)
    return {name.replace("sensitive_feature_", "feature_", 1): column for name, column in columns.items()}


def read_people(
    roles: Mapping[str, Any],
    rows: FeatureRows,
    called: Mapping[str, str] | None = None,
    *,
    weight_kind: str,
    positive: Any,
    drop_missing: bool,
) -> tuple[People, FeatureRows]:
    """Check the rows; returns the people, and the features of the rows that count.

    `called` is what messages call the columns: by default as the arguments, which are the roles.
    """
    names = {role: role for role in ROLES} | dict(called or {})
    score = numbers(roles["score"], names["score"])
    y = outcome_numbers(roles["y"], names["y"], positive)
    sizes = {names["score"]: len(score), names["y"]: len(y)}
    weight = None
    if "sample_weight" in roles:
        weight = numbers(roles["sample_weight"], names["sample_weight"])
        sizes[names["sample_weight"]] = len(weight)
    check_lengths(sizes | rows.lengths)
    keep = np.ones(len(y), dtype=np.bool_)
    if weight is not None:
        keep = check_weights(weight, names["sample_weight"])
    if drop_missing:
        keep &= ~(np.isnan(score) | np.isnan(y))
        if not keep.any():
            raise InputError(
                f"none of the {len(y):,} people has both a score and an outcome", argument=names["score"]
            )
    person = None if "cluster" not in roles else _persons(roles["cluster"], len(y), names)
    if not keep.all():
        score, y = score[keep], y[keep]
        weight = None if weight is None else weight[keep]
        person = None if person is None else np.unique(person[keep], return_inverse=True)[1]
        rows = rows.kept(keep)
    check_scores(score, names["score"], missing=advice(drop_missing, "score"))
    outcome = compact_outcomes(y, names["y"], drop_missing=drop_missing)
    if outcome.dtype.kind != "i":
        raise InputError(
            f"{names['y']} must be 0 or 1; soft labels between have no chance to compare with",
            argument=names["y"],
        )
    if outcome.min() == outcome.max():
        who = "nobody" if not outcome.any() else "everybody"
        people = Identity(unit="people").count(len(outcome))
        raise InputError(
            f"{names['y']}: {who} had the outcome ({people}), so that no error can be told from chance",
            argument=names["y"],
            next_step="Check that the right column, and the right value of it, is the event",
        )
    if np.all((score == 0) | (score == 1)):
        raise InputError(
            f"{names['score']}: every value is 0 or 1; a search needs risks between",
            argument=names["score"],
            next_step="Pass the predicted probability, not the decision",
        )
    survey = weight is not None and (
        weight_kind == "survey" or (weight_kind == "auto" and bool(np.any(weight != np.rint(weight))))
    )
    weight = np.ones(len(outcome)) if weight is None else weight
    if survey:
        weight = weight / weight.mean()
    return People(score, outcome, weight, survey, person), rows


def _persons(ids: Any, n: int, names: Mapping[str, str]) -> Any:
    column = next(iter(attribute_columns({"cluster": ids}).values()))
    check_lengths({names["y"]: n, names["cluster"]: len(column)})
    _, codes = distinct(column)
    absent = int(np.count_nonzero(codes < 0))
    if absent:
        raise InputError(
            f"{names['cluster']}: the patient ID is missing in {absent:,} of {n:,} rows",
            argument=names["cluster"],
            next_step="Find out whose rows they are, or give each of them an ID of its own",
        )
    return codes.astype(np.int64)


def read_table(rows: FeatureRows, people: People) -> FeatureTable:
    """The features as codes, without those that cannot be searched."""
    table = without_leaks(bin_features(rows), people)
    refuse_nothing_left(table)
    return table
