"""What a correction file may say, in every version: checked, and rebuilt."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from propcal.core.bins import Bins
from propcal.core.conditions import Recipe, recipe_from_json
from propcal.core.correction.correction import Correction
from propcal.core.correction.points_table import MOST_TOTAL, FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import N_KNOTS, SmoothStart
from propcal.core.grid import UNIT, IntArray
from propcal.core.groups import Group
from propcal.core.patterns import Level, Patterns, sort_levels
from propcal.errors import FileFormatError, InputError, plain
from propcal.formats import strict_json as strict
from propcal.formats.strict_json import Check, need
from propcal.reading.levels import text_key

CORRECTION = "correction"  # the name of its schema
CORRECTION_FORMAT = "propcal-correction"
CORRECTION_VERSION = 7
PLAIN = 4  # the version that is written unless a later one is needed
# the entry that came with a version, and what it is in those before
ADDED: dict[int, tuple[str, Any]] = {
    2: ("start", []),
    4: ("monotone", False),
    5: ("folded", []),
    6: ("points", []),
    7: ("ends", []),
}
# entries with a line for each row
BY_ROWS = ("groups", "patterns", "start", "updates", "points", "ends")
MOST_DEPTH = 10  # how deeply "about" may be nested


def correction_of_content(content: dict[str, Any], version: int) -> Correction:
    """Rebuild a correction from the content of a file of any version, all of which is
    checked.
    """
    content = _with_later_entries(content, version)
    _check_entries(content, version)
    if version <= 2:
        content = _with_level_keys(content)

    attributes = content["attributes"]
    need({*content["folded"]} <= {*attributes}, _must("folded"))
    recipes_of_file = derived(content["derived"], attributes)
    patterns = _patterns(attributes, content["patterns"], recipes_of_file)
    levels = dict(zip(patterns.attributes, map(set, patterns.levels)))
    groups = _groups(content["groups"], levels, '"groups"')
    bins = _bins(content["bins"])
    return Correction(
        patterns=patterns,
        groups=groups,
        bins=bins,
        updates=_updates(content["updates"], len(groups), len(bins)),
        unseen=content["unseen"],
        about=content["about"],
        start=_start(content, version, levels),
        monotone=content["monotone"],
        folded=tuple(content["folded"]),
        points=_points_table(content["points"]),
    )


def _with_later_entries(content: dict[str, Any], version: int) -> dict[str, Any]:
    """Content with the entries that came with versions after its own."""
    content = dict(content)
    for since, (key, value) in ADDED.items():
        if version < since:
            need(key not in content, f'version {version} has no "{key}"')
            content[key] = value
    return content


@cache
def _checks() -> dict[str, Check]:
    """Whether an entry of the file is as the schema says."""
    schema = strict.schema_of(CORRECTION)
    return strict.checks_of(schema["properties"], schema["$defs"])


@cache
def _checks_about() -> dict[str, Check]:
    """Whether an entry of "about" is as the schema says."""
    entries = strict.schema_of(CORRECTION)["properties"]["about"]["properties"]
    return strict.checks_of(entries)


def _check_entries(content: dict[str, Any], version: int) -> None:
    """Refuse entries that are missing, unknown, or not as the schema says."""
    checks = _checks()
    for key in checks:
        need(key in content, f'the entry "{key}" is missing')
    for key in content:
        need(key in checks, f'"{plain(key, 40)}" is not an entry of version {version}')

    about = content["about"]
    need(isinstance(about, dict) and nested_within(about, MOST_DEPTH), _must("about"))
    checks_about = _checks_about()
    for key in about.keys() & checks_about.keys():
        fits = checks_about[key](about[key])
        need(fits, f'"{key}" of "about" is of the wrong kind, or out of range')

    for key, check in checks.items():
        if key != "version" and not check(content[key]):
            wrong_row = _first_wrong_row(key, content[key], check)
            raise FileFormatError(wrong_row + _must(key))


def _must(key: str) -> str:
    """What an entry must be."""
    entry = strict.schema_of(CORRECTION)["properties"][key]
    return f'"{key}" {entry.get("description", "")}'


def _first_wrong_row(key: str, value: Any, check: Check) -> str:
    """The first row of an entry that is wrong, if it has rows."""
    if key in BY_ROWS and isinstance(value, list):
        for number, row in enumerate(value, 1):
            if not check([row]):
                return f'row {number:,} of "{key}" is wrong: '
    return ""


def nested_within(value: Any, most: int) -> bool:
    """Whether lists and dicts are nested at most so deeply."""
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return most > 0 and all(nested_within(part, most - 1) for part in parts)


def _bins(content: dict[str, Any]) -> Bins:
    edges = np.array(content["edges"], dtype=np.int64)
    whole_range = edges[0] == 0 and edges[-1] == UNIT
    need(whole_range and np.all(np.diff(edges) > 0), _must("bins"))
    return Bins(edges, content["kind"], content["divisor"])


def _updates(rows: list[Any], n_groups: int, n_bins: int) -> IntArray:
    updates = np.array(rows, dtype=np.int64).reshape(-1, 3)
    known = np.all(updates[:, :2] < (n_groups, n_bins))
    need(known, '"updates" must name groups and bins that there are')
    return updates


def _start(
    content: dict[str, Any], version: int, levels: dict[str, set[Level]]
) -> SmoothStart | None:
    """The recalibration of a file; None if there is none."""
    rows_of_start = content["start"]
    terms = _groups([group for group, _ in rows_of_start], levels, '"start"')
    ends = content["ends"]
    if version < CORRECTION_VERSION:
        ends = [[0, 0]] * len(terms)
    need(len(ends) == len(terms), '"ends" must have a pair for each term of "start"')
    rows = []
    for (_, inner), (low, high) in zip(rows_of_start, ends):
        rows.append([low, *inner, high])
    shifts = np.array(rows, dtype=np.int64).reshape(-1, N_KNOTS)
    if not terms:
        return None
    start = SmoothStart(terms, shifts)
    limit = f"whole numbers from -{start.most:,} to {start.most:,}"
    need(np.abs(shifts).max() <= start.most, f'"start" must have {limit}')
    return start


def _points_table(rows: list[dict[str, Any]]) -> PointsTable | None:
    """The points of a file whose shape has been checked; None if there are none."""
    if not rows:
        return None
    features = tuple(map(_feature, rows))
    columns = []
    largest_total = 0
    for feature in features:
        columns.append(feature.column)
        largest_total += max(abs(points or 0) for points in feature.pieces)
    need(strict.distinct(columns), '"points" name a column twice')
    problem = f'"points" of a person may add up to at most {MOST_TOTAL:,}'
    need(largest_total <= MOST_TOTAL, problem)
    return PointsTable(features)


def _feature(row: dict[str, Any]) -> FeaturePoints:
    """The points of one feature."""
    lists = {}
    for key, kind in (("points", int), ("levels", str), ("cuts", float)):
        lists[key] = tuple(map(kind, row[key]))
    feature = FeaturePoints(**row | lists)
    for low, high in pairwise(feature.cuts):
        need(low < high, _must("points"))
    n_points = len(feature.levels) or len(feature.cuts) + 1
    one_each = len(feature.points) == n_points
    need(one_each, '"points" must have one number for each level or range')
    of_one_kind = not (feature.levels and feature.cuts)
    need(of_one_kind, '"points" have either levels or cuts')
    other_fits = feature.levels or feature.other is None
    need(other_fits, '"points" of numbers have no other levels')
    return feature


def _with_level_keys(content: dict[str, Any]) -> dict[str, Any]:
    """Content of version 1 or 2, in which the level was the text itself: "TRUE"
    differed from "true", and "1.0" from "1".
    """
    before = list(map(tuple, content["patterns"]))
    after = [tuple(map(_level_key, levels)) for levels in before]
    need(
        strict.distinct(after) or not strict.distinct(before),
        "it distinguishes levels that are now the same, such as TRUE and true; fit the "
        "correction again",
    )
    groups = list(map(_with_keys, content["groups"]))
    start = [[_with_keys(pairs), shifts] for pairs, shifts in content["start"]]
    return {**content, "patterns": after, "groups": groups, "start": start}


def _level_key(level: Level) -> Level:
    return level if level is None else text_key(level)


def _with_keys(pairs: list[Any]) -> list[list[Level]]:
    """The conditions of a group with levels as they are now."""
    return [[name, _level_key(level)] for name, level in pairs]


def _groups(
    rows: list[Any], levels: dict[str, set[Level]], what: str
) -> tuple[Group, ...]:
    """Distinct groups, whatever the order of their conditions, of attributes and levels
    that there are.
    """
    groups = []
    for number, pairs in enumerate(rows, 1):
        where = f"row {number:,} of {what}: the group"
        names = []
        for name, _ in pairs:
            need(name in levels, f"{where} has an unknown attribute")
            names.append(name)
        need(strict.distinct(names), f"{where} names an attribute twice")
        for name, level in pairs:
            problem = f"{where} has a level that does not occur in any pattern"
            need(level in levels[name], problem)
        groups.append(Group(tuple(map(tuple, pairs))))
    conditions = [frozenset(group.conditions) for group in groups]
    need(strict.distinct(conditions), f"the groups of {what} must be distinct")
    return tuple(groups)


def recipes(patterns: Patterns) -> dict[str, Any]:
    """How attributes are made that are no columns, as a file says it."""
    return {name: recipe.to_json() for name, recipe in patterns.derived.items()}


def derived(content: Any, attributes: list[str]) -> dict[str, Recipe]:
    """How attributes are made that are no columns, from a file."""
    fits = isinstance(content, dict) and {*content} <= {*attributes}
    need(fits, '"derived" must define attributes')
    try:
        return {name: recipe_from_json(recipe) for name, recipe in content.items()}
    except InputError as error:
        raise FileFormatError(f'"derived": {error}') from None


def _patterns(
    attributes: list[str], rows: list[Any], recipes_of_file: dict[str, Recipe]
) -> Patterns:
    n = len(attributes)
    keys = list(map(tuple, rows))
    for key in keys:
        need(len(key) == n, f'each of "patterns" must have {n} entries')
    need(strict.distinct(keys), '"patterns" must be distinct')

    levels = []
    codes = np.empty((len(keys), n), dtype=np.int64)
    for a in range(n):
        column = [key[a] for key in keys]
        known = sort_levels(list(set(column)))
        places = dict(zip(known, range(len(known))))
        codes[:, a] = [places[level] for level in column]
        levels.append(known)
    in_order = np.lexsort(codes.T[::-1]) if n else np.arange(len(keys))
    return Patterns(tuple(attributes), tuple(levels), codes[in_order], recipes_of_file)
