"""Reads and writes correction files: versioned JSON that is checked completely, never
pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from propcal.core.arguments import refuse_special
from propcal.core.bins import Bins
from propcal.core.conditions import Recipe, recipe_from_json
from propcal.core.correction.correction import Correction
from propcal.core.correction.definition import Definition
from propcal.core.correction.points_table import MOST_TOTAL, FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import N_KNOTS, SmoothStart
from propcal.core.grid import UNIT
from propcal.core.groups import Group
from propcal.core.patterns import Level, Patterns, sort_levels
from propcal.errors import FileFormatError, InputError, plain, refused
from propcal.formats import strict_json as strict
from propcal.formats.strict_json import Check, need
from propcal.reading.levels import text_key

CORRECTION = "correction"  # the name of its schema
CORRECTION_FORMAT = "propcal-correction"
CORRECTION_VERSION = 7
PLAIN = 4  # the version that is written unless a later one is needed
# what came with later versions, and how it is read in those before
ADDED: dict[int, tuple[str, Any]] = {
    2: ("start", []),
    4: ("monotone", False),
    5: ("folded", []),
    6: ("points", []),
    7: ("ends", []),
}
BY_ROWS = (
    "groups",
    "patterns",
    "start",
    "updates",
    "points",
    "ends",
)  # entries with a line for each row
MOST_DEPTH = 10  # how deeply "about" may be nested
BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def save_correction(correction: Correction, path: str | PathLike[str]) -> None:
    """Write a file, all or nothing, with the time if the correction has none.

    The time enters here and not in the fit, so that two fits of the same people are the
    same to the last bit.
    """
    from propcal.formats.transaction import write_text

    about = {
        **correction.about,
        "created": correction.about.get("created") or strict.now(),
    }
    write_text(correction_to_json(replace(correction, about=about)), path)


def model_id(correction: Definition) -> str:
    """A hash of all that the file says, but for the time and the notes of its users."""
    return strict.content_hash(_content(correction))


def correction_to_json(correction: Correction) -> str:
    """The text of the file: one line for each group, pattern and update."""
    content = _content(correction)
    content["about"] = {**content["about"], "model_id": strict.content_hash(content)}
    lines = []
    for key, value in content.items():
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if key in BY_ROWS and value:
            rows = [
                json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value
            ]
            text = "[\n    " + ",\n    ".join(rows) + "\n  ]"
        lines.append(f'  "{key}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _content(correction: Definition) -> dict[str, Any]:
    """What the file says, without its hash, in the first version that can hold it."""
    patterns = correction.patterns
    bins = correction.bins
    start = correction.start
    terms, shifts = (
        (start.groups, start.shifts)
        if start
        else ((), np.empty((0, N_KNOTS), dtype=np.int64))
    )
    content: dict[str, Any] = {
        "format": CORRECTION_FORMAT,
        "version": PLAIN,
        "unit": "2**-32",
        "about": {
            key: value for key, value in correction.about.items() if key != "model_id"
        },
        "attributes": list(patterns.attributes),
        "derived": recipes(patterns),
        "bins": {
            "kind": bins.kind,
            "divisor": bins.divisor,
            "edges": bins.edges.tolist(),
        },
        "groups": [_pairs(group) for group in correction.groups],
        "patterns": [list(patterns.key(p)) for p in range(len(patterns))],
        "unseen": correction.unseen,
        "start": [
            [_pairs(group), inner]
            for group, inner in zip(terms, shifts[:, 1:-1].tolist())
        ],
        "updates": correction.updates.tolist(),
        "monotone": bool(correction.monotone),
        "folded": list(correction.folded),
        "points": [
            {
                key: getattr(one, key)
                for key in strict.schema_of(CORRECTION)["$defs"]["points"]["required"]
            }
            for one in (correction.points.features if correction.points else ())
        ],
        "ends": shifts[:, [0, -1]].tolist() if start and start.moves_ends else [],
    }
    version = max(
        since
        for since, (key, empty) in ADDED.items()
        if since == PLAIN or content[key] != empty
    )
    content["version"] = version
    later = [key for since, (key, _) in ADDED.items() if since > version]
    return {key: value for key, value in content.items() if key not in later}


def _pairs(group: Group) -> list[list[Level]]:
    return [list(condition) for condition in group.conditions]


def load_correction(path: str | PathLike[str]) -> Correction:
    """Read a correction; refuse anything that is not a valid correction file."""
    refuse_special(path)
    content = Path(path).read_bytes()
    other = _other_kind(path, content[:4096])
    if other:
        raise refused("other file", FileFormatError, path=path, other=other)
    mark = BYTE_ORDER_MARKS.get(content[:2])
    if mark:
        raise refused("other encoding", FileFormatError, path=path, mark=mark)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(
            "not utf-8", FileFormatError, path=path, byte=error.start
        ) from error
    return correction_from_json(text, path)


def _other_kind(path: str | PathLike[str], start: bytes) -> str:
    """What kind of file it is by its first bytes, if propcal recognises it; otherwise
    an empty text.
    """
    if start.startswith(b"PAR1"):
        from propcal.reading.csv_parquet_excel import (
            is_atoms_file,  # imports pyarrow, which corrections do not need
        )

        with suppress(FileFormatError):
            if is_atoms_file(path):
                return "an atoms file"
            return "a Parquet table"
        return "a truncated Parquet file"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return "a compressed file"
    line = start.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    a_table = line[:1] not in (b"{", b"[") and any(
        separator in line for separator in (b",", b";", b"\t")
    )
    return "a table" if a_table and b"\0" not in start else ""


def correction_from_json(
    text: str, path: str | PathLike[str] = "this text"
) -> Correction:
    """The correction in the text of a file; errors name its `path`."""
    try:
        content = strict.parsed(
            text.removeprefix("\ufeff")
        )  # some editors add this mark
        named = isinstance(content, dict) and content.get("format") == CORRECTION_FORMAT
        need(named, f'its "format" is not "{CORRECTION_FORMAT}"')
    except FileFormatError as error:
        raise FileFormatError(f"{path} is not a correction file: {error}") from None
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FileFormatError(f'{path}: "version" must be a whole number of at least 1')
    strict.refuse_newer(path, version, CORRECTION_VERSION)
    try:
        correction = _correction(content, version)
    except FileFormatError as error:
        raise FileFormatError(
            f"{path} is damaged: {error}", next_step="Save the correction again"
        ) from None
    if content["about"].get("model_id", told := strict.content_hash(content)) != told:
        raise refused("edited", FileFormatError, path=path)
    try:
        correction.refuse_overgrown()
    except InputError as error:
        raise FileFormatError(
            f"{path} is refused: " + error.problem, next_step=error.next_step
        ) from None
    return correction


def noted(about: Mapping[str, Any], notes: dict[str, object]) -> dict[str, Any]:
    """What is known about a correction, with further notes of its users that a file can
    hold.
    """
    found = {**about, "user": {**about.get("user", {}), **notes}}
    with suppress(
        AttributeError, RecursionError, TypeError, ValueError
    ):  # of what is no JSON
        strict.canonical(notes).encode()
        if _depth_within(found, MOST_DEPTH):
            return found
    problem = "notes must be texts, finite numbers, true, false, None, or lists and dicts of these"
    raise InputError(
        f"{problem}, nested at most {MOST_DEPTH - 2} levels deep", argument="notes"
    )


def _depth_within(value: Any, most: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_depth_within(part, most - 1) for part in parts)


@cache
def _checks() -> tuple[dict[str, Check], dict[str, Check]]:
    """By the schema of the file, whether an entry is as it must be; and whether one of
    its "about" is.
    """
    schema = strict.schema_of(CORRECTION)
    entries = {
        key: strict.check_of(entry, schema["$defs"])
        for key, entry in schema["properties"].items()
    }
    return entries, {
        key: strict.check_of(entry)
        for key, entry in schema["properties"]["about"]["properties"].items()
    }


def _must(key: str) -> str:
    """What an entry must be."""
    return f'"{key}" {strict.schema_of(CORRECTION)["properties"][key].get("description", "")}'


def _correction(content: dict[str, Any], version: int) -> Correction:
    """Rebuild a correction from the content of a file of any version, all of which is
    checked.
    """
    for since, (key, value) in ADDED.items():
        if version < since:
            need(key not in content, f'version {version} has no "{key}"')
            content = {**content, key: value}
    checks, checks_about = _checks()
    for key in checks:
        need(key in content, f'the entry "{key}" is missing')
    for key in content:
        need(key in checks, f'"{plain(key, 40)}" is not an entry of version {version}')
    about = content["about"]
    attributes = content["attributes"]
    need(isinstance(about, dict) and _depth_within(about, MOST_DEPTH), _must("about"))
    for key in about.keys() & checks_about.keys():
        need(
            checks_about[key](about[key]),
            f'"{key}" of "about" is of the wrong kind, or out of range',
        )
    for key, fits in checks.items():
        need(
            key == "version" or fits(content[key]),
            f"{_where(key, content[key], fits)}{_must(key)}",
        )
    need({*content["folded"]} <= {*attributes}, _must("folded"))
    content = content if version > 2 else _with_level_keys(content)
    patterns = _patterns(
        attributes, content["patterns"], derived(content["derived"], attributes)
    )
    levels = {
        name: {*known} for name, known in zip(patterns.attributes, patterns.levels)
    }
    groups = _groups(content["groups"], levels, '"groups"')
    terms = _groups([group for group, _ in content["start"]], levels, '"start"')
    edges = np.array(content["bins"]["edges"], dtype=np.int64)
    need(
        edges[0] == 0 and edges[-1] == UNIT and np.all(np.diff(edges) > 0),
        _must("bins"),
    )
    bins = Bins(edges, content["bins"]["kind"], content["bins"]["divisor"])
    updates = np.array(content["updates"], dtype=np.int64).reshape(-1, 3)
    known = np.all(updates[:, :2] < (len(groups), len(bins)))
    need(known, '"updates" must name groups and bins that there are')
    if version == CORRECTION_VERSION:
        ends = content["ends"]
    else:
        ends = [[0, 0]] * len(terms)
    need(len(ends) == len(terms), '"ends" must have a pair for each term of "start"')
    rows = [
        [low, *inner, high] for (_, inner), (low, high) in zip(content["start"], ends)
    ]
    shifts = np.array(rows, dtype=np.int64).reshape(-1, N_KNOTS)
    start = SmoothStart(terms, shifts) if terms else None
    most = start.most if start else 0
    need(
        np.abs(shifts).max(initial=0) <= most,
        f'"start" must have whole numbers from -{most:,} to {most:,}',
    )
    return Correction(
        patterns=patterns,
        groups=groups,
        bins=bins,
        updates=updates,
        unseen=content["unseen"],
        about=about,
        start=start,
        monotone=content["monotone"],
        folded=tuple(content["folded"]),
        points=_points_table(content["points"]),
    )


def _points_table(rows: list[dict[str, Any]]) -> PointsTable | None:
    """The points of a file whose shape has been checked; None if there are none."""
    kinds = {"points": int, "levels": str, "cuts": float}
    lists = [
        {key: tuple(map(kind, one[key])) for key, kind in kinds.items()} for one in rows
    ]
    features = tuple(FeaturePoints(**one | own) for one, own in zip(rows, lists))
    for feature in features:
        need(all(a < b for a, b in pairwise(feature.cuts)), _must("points"))
        wanted = len(feature.levels) or len(feature.cuts) + 1
        need(
            len(feature.points) == wanted,
            '"points" must have one number for each level or range',
        )
        need(
            not (feature.levels and feature.cuts), '"points" have either levels or cuts'
        )
        need(
            feature.levels or feature.other is None,
            '"points" of numbers have no other levels',
        )
    need(
        strict.distinct([feature.column for feature in features]),
        '"points" name a column twice',
    )
    total = sum(
        max(abs(points or 0) for points in feature.pieces) for feature in features
    )
    need(
        total <= MOST_TOTAL,
        f'"points" of a person may add up to at most {MOST_TOTAL:,}',
    )
    return PointsTable(features) if features else None


def _where(key: str, value: Any, fine: Check) -> str:
    """The first row of an entry that is wrong, if it has rows."""
    if key in BY_ROWS and isinstance(value, list):
        rows = enumerate(value, 1)
    else:
        rows = ()
    wrong = next((i for i, row in rows if not fine([row])), None)
    if wrong is None:
        return ""
    return f'row {wrong:,} of "{key}" is wrong: '


def _with_level_keys(content: dict[str, Any]) -> dict[str, Any]:
    """Up to version 2 the level was the text itself: "TRUE" differed from "true", and
    "1.0" from "1".
    """

    def key(level: Level) -> Level:
        return level if level is None else text_key(level)

    def group(pairs: list[Any]) -> list[list[Level]]:
        return [[name, key(level)] for name, level in pairs]

    before = [tuple(levels) for levels in content["patterns"]]
    after = [tuple(map(key, levels)) for levels in before]
    need(
        strict.distinct(after) or not strict.distinct(before),
        "it distinguishes levels that are now the same, such as TRUE and true; fit the correction again",
    )
    start = [[group(pairs), shifts] for pairs, shifts in content["start"]]
    return {
        **content,
        "patterns": after,
        "groups": [*map(group, content["groups"])],
        "start": start,
    }


def _groups(
    rows: list[Any], levels: dict[str, set[Level]], what: str
) -> tuple[Group, ...]:
    """Distinct groups, whatever the order of their conditions, of attributes and levels
    that there are.
    """
    for i, pairs in enumerate(rows, 1):
        where = f"row {i:,} of {what}: the group"
        need(
            all(name in levels for name, _ in pairs),
            f"{where} has an unknown attribute",
        )
        need(
            strict.distinct([name for name, _ in pairs]),
            f"{where} names an attribute twice",
        )
        occur = all(level in levels[name] for name, level in pairs)
        need(occur, f"{where} has a level that does not occur in any pattern")
    groups = tuple(
        Group(tuple((name, level) for name, level in pairs)) for pairs in rows
    )
    need(
        strict.distinct([frozenset(group.conditions) for group in groups]),
        f"the groups of {what} must be distinct",
    )
    return groups


def recipes(patterns: Patterns) -> dict[str, Any]:
    return {name: recipe.to_json() for name, recipe in patterns.derived.items()}


def derived(content: Any, attributes: list[str]) -> dict[str, Recipe]:
    need(
        isinstance(content, dict) and {*content} <= {*attributes},
        '"derived" must define attributes',
    )
    try:
        return {name: recipe_from_json(recipe) for name, recipe in content.items()}
    except InputError as error:
        raise FileFormatError(f'"derived": {error}') from None


def _patterns(
    attributes: list[str], rows: list[Any], derived: dict[str, Recipe]
) -> Patterns:
    n = len(attributes)
    need(
        all(len(levels) == n for levels in rows),
        f'each of "patterns" must have {n} entries',
    )
    need(
        strict.distinct([tuple(levels) for levels in rows]),
        '"patterns" must be distinct',
    )
    levels = tuple(sort_levels([*{row[a] for row in rows}]) for a in range(n))
    places = [{level: i for i, level in enumerate(known)} for known in levels]
    table = sorted([place[level] for place, level in zip(places, row)] for row in rows)
    return Patterns(
        tuple(attributes),
        levels,
        np.array(table, dtype=np.int64).reshape(len(rows), n),
        derived,
    )
