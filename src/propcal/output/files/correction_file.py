"""Reads and writes correction files: versioned JSON that is checked completely, never pickle."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from propcal.core.bins import MOST_BINS, Bins
from propcal.core.correction.correction import Correction
from propcal.core.correction.smooth_map import MOST_SHIFT, N_KNOTS, SHIFT_UNIT, SmoothStart
from propcal.core.grid import UNIT
from propcal.core.groups.collection import Group
from propcal.core.groups.recipes import Recipe, recipe_from_json
from propcal.core.patterns import Patterns, sort_levels
from propcal.errors import FileFormatError, InputError
from propcal.output.files.older_corrections import as_present
from propcal.output.files.whole_file import write_whole
from propcal.plain_text import plain
from propcal.regular_file import refuse_special

CORRECTION_FORMAT, CORRECTION_VERSION = "propcal-correction", 5
WITHOUT_FOLDED = 4  # the version that is written if no levels were folded
MOST_DEPTH = 10  # how deeply "about" may be nested


def correction_to_json(correction: Correction) -> str:
    """The text of the file: one line for each group, pattern and update."""
    patterns = correction.patterns
    content: dict[str, Any] = {
        "format": CORRECTION_FORMAT,
        "version": CORRECTION_VERSION if correction.folded else WITHOUT_FOLDED,
        "unit": "2**-32",
        "about": dict(correction.about),
        "attributes": list(patterns.attributes),
        "derived": recipes(patterns),
        "bins": {
            "kind": correction.bins.kind,
            "divisor": correction.bins.divisor,
            "edges": correction.bins.edges.tolist(),
        },
        "groups": [[list(condition) for condition in group.conditions] for group in correction.groups],
        "patterns": [list(patterns.key(p)) for p in range(len(patterns))],
        "unseen": correction.unseen,
        "start": _start_rows(correction.start),
        "updates": correction.updates.tolist(),
        "monotone": bool(correction.monotone),
    }
    if correction.folded:
        content["folded"] = list(correction.folded)
    lines = []
    for key, value in content.items():
        if key in ("groups", "patterns", "start", "updates") and value:
            rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _start_rows(start: SmoothStart | None) -> list[list[Any]]:
    """Each term of the smooth recalibration: its group, and its shifts at the knots."""
    if start is None:
        return []
    groups = [[list(condition) for condition in group.conditions] for group in start.groups]
    return [[group, shifts] for group, shifts in zip(groups, start.shifts.tolist())]


def save_correction(correction: Correction, path: str | PathLike[str]) -> None:
    """Write a correction as JSON."""
    text = correction_to_json(correction)

    def write(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    write_whole(path, write)


def load_correction(path: str | PathLike[str]) -> Correction:
    """Read a correction; refuse anything that is not a valid correction file."""
    refuse_special(path)
    content = Path(path).read_bytes()
    other = _other_kind(path, content[:4096])
    if other:
        raise FileFormatError(
            f"{path} is not a correction file but {other}", next_step="Make a correction with propcal fit"
        )
    try:
        text = content.decode("utf-8-sig")
    except ValueError as error:
        raise FileFormatError(_no_json(path)) from error
    return correction_from_json(text, path)


def _other_kind(path: str | PathLike[str], start: bytes) -> str:
    """What kind of file it is by its first bytes, if propcal recognises it; otherwise an empty text."""
    if start.startswith(b"PAR1"):
        from propcal.data.files.formats import is_atoms_file  # imports pyarrow, which corrections do not need

        with suppress(FileFormatError):
            return "an atoms file" if is_atoms_file(path) else "a Parquet table"
        return "a truncated Parquet file"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return "a compressed file"
    line = start.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    a_table = line[:1] not in (b"{", b"[") and any(separator in line for separator in (b",", b";", b"\t"))
    return "a table" if a_table and b"\0" not in start else ""


def _no_json(path: str | PathLike[str]) -> str:
    return f"{path} is not a correction file: it is not complete JSON. Is it truncated?"


def correction_from_json(text: str, path: str | PathLike[str] = "this text") -> Correction:
    """The correction in the text of a file; errors name its `path`."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(_no_json(path)) from error
    if "\\u" in text and not _is_unicode(content):
        raise FileFormatError(f"{path} is not a correction file: it contains invalid Unicode")
    if not isinstance(content, dict) or content.get("format") != CORRECTION_FORMAT:
        raise FileFormatError(f'{path} is not a correction file: its "format" is not "{CORRECTION_FORMAT}"')
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FileFormatError(f'{path}: "version" must be a whole number of at least 1')
    if version > CORRECTION_VERSION:
        raise FileFormatError(
            f"{path} has version {plain(version, 9)}, but this propcal reads only up to "
            f"version {CORRECTION_VERSION}",
            next_step="Upgrade propcal",
        )
    try:
        correction = _correction(as_present(content, version))
    except FileFormatError as error:
        raise FileFormatError(f"{path} is damaged: {error}", next_step="Save the correction again") from None
    try:
        correction.refuse_overgrown()
    except InputError as error:
        raise FileFormatError(f"{path} is refused: " + error.problem, next_step=error.next_step) from None
    return correction


def _is_unicode(content: Any) -> bool:
    """Whether no text contains half of a surrogate pair, which only JSON can represent."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an entry occurs twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def need(condition: bool, text: str) -> None:
    if not condition:
        raise FileFormatError(text)


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _rows(content: dict[str, Any], key: str, width: int | None) -> list[list[Any]]:
    rows = content.get(key)
    need(
        isinstance(rows, list) and all(isinstance(row, list) for row in rows),
        f'"{key}" must be a list of lists',
    )
    assert isinstance(rows, list)
    if width is not None:
        need(all(len(row) == width for row in rows), f'each of "{key}" must have {width} entries')
    return rows


def _check_about(about: Any) -> None:
    """Check method and parameters, which are shown in reports."""
    need(isinstance(about, dict) and isinstance(about.get("method", ""), str), '"about" must name a method')
    need(_depth_within(about, MOST_DEPTH), '"about" is nested too deeply')
    for key in ("alpha", "gamma", "rho", "eta"):
        known = about.get(key, 1.0)
        need(type(known) in (int, float) and 0 < known <= 2, f'"{key}" of "about" is out of range')
    guard = about.get("guard")
    need(
        guard is None or (type(guard) in (int, float) and 0 <= guard < inf),
        '"guard" of "about" is out of range',
    )


def _depth_within(value: Any, most: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_depth_within(part, most - 1) for part in parts)


def _correction(content: dict[str, Any]) -> Correction:
    """Rebuild a correction from the checked content of a file."""
    expected = {
        "format",
        "version",
        "unit",
        "about",
        "attributes",
        "derived",
        "bins",
        "groups",
        "patterns",
        "unseen",
        "start",
        "updates",
        "monotone",
        "folded",
    }
    need(set(content) == expected, f"its entries must be {sorted(expected)}")
    need(content["unit"] == "2**-32", '"unit" must be "2**-32"')
    _check_about(content["about"])
    need(content["unseen"] in ("replay", "keep", "error"), '"unseen" must be replay, keep or error')
    need(type(content["monotone"]) is bool, '"monotone" must be true or false')
    attributes = content["attributes"]
    need(
        isinstance(attributes, list) and all(isinstance(a, str) for a in attributes),
        '"attributes" must be a list of texts',
    )
    need(len(set(attributes)) == len(attributes), '"attributes" must be distinct')
    folded = content["folded"]
    need(
        isinstance(folded, list) and all(isinstance(a, str) and a in attributes for a in folded),
        '"folded" must be a list of attributes',
    )
    need(len(set(folded)) == len(folded), '"folded" must be distinct')
    bins = _bins(content["bins"])
    names = {*attributes}
    groups = tuple(_group(row, names) for row in _rows(content, "groups", None))
    need(len(groups) > 0 and _differ(groups), '"groups" must be a list of distinct groups, at least one')
    updates = _rows(content, "updates", 3)
    need(
        all(
            _whole(g, 0, len(groups) - 1) and _whole(b, 0, len(bins) - 1) and _whole(s, -2 * UNIT, 2 * UNIT)
            for g, b, s in updates
        ),
        '"updates" must be lists of three whole numbers: a group, a bin, and a shift from -2**33 to 2**33',
    )
    patterns = _patterns(
        attributes, _rows(content, "patterns", len(attributes)), derived(content["derived"], attributes)
    )
    start = _start(_rows(content, "start", 2), names)
    levels = {name: {*known} for name, known in zip(patterns.attributes, patterns.levels)}
    known = (*groups, *(start.groups if start else ()))
    need(
        all(level in levels[name] for group in known for name, level in group.conditions),
        "a group has a level that does not occur in any pattern",
    )
    return Correction(
        patterns=patterns,
        groups=groups,
        bins=bins,
        updates=np.array(updates, dtype=np.int64).reshape(-1, 3),
        unseen=content["unseen"],
        about=content["about"],
        start=start,
        monotone=content["monotone"],
        folded=tuple(folded),
    )


def _start(rows: list[list[Any]], attributes: set[str]) -> SmoothStart | None:
    if not rows:
        return None
    need(
        all(isinstance(group, list) and isinstance(shifts, list) for group, shifts in rows),
        'each of "start" must be a group and a list of shifts',
    )
    groups = tuple(_group(group, attributes) for group, _ in rows)
    need(_differ(groups), 'the groups of "start" must be distinct')
    most = MOST_SHIFT * SHIFT_UNIT
    need(
        all(len(shifts) == N_KNOTS and all(_whole(s, -most, most) for s in shifts) for _, shifts in rows),
        f'the shifts of "start" must be {N_KNOTS} whole numbers from -{most:,} to {most:,}',
    )
    return SmoothStart(groups, np.array([shifts for _, shifts in rows], dtype=np.int64))


def _bins(content: Any) -> Bins:
    need(
        isinstance(content, dict) and set(content) == {"kind", "divisor", "edges"},
        '"bins" must have kind, divisor and edges',
    )
    edges = content["edges"]
    need(
        content["kind"] in ("uniform", "geometric", "quantile", "explicit"),
        "the kind of bins is unknown",
    )
    need(_whole(content["divisor"], 1, UNIT), "the divisor of bins must be a whole number")
    need(
        isinstance(edges, list) and len(edges) > 1 and all(_whole(e, 0, UNIT) for e in edges),
        "edges must be whole numbers",
    )
    need(len(edges) <= MOST_BINS + 2, f"there are more than {MOST_BINS:,} bins")
    need(edges[0] == 0 and edges[-1] == UNIT, "edges must run from 0 to 2**32")
    need(all(a < b for a, b in itertools.pairwise(edges)), "edges must be increasing")
    return Bins(np.array(edges, dtype=np.int64), content["kind"], content["divisor"])


def _level(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _group(row: list[Any], attributes: set[str]) -> Group:
    need(
        all(isinstance(c, list) and len(c) == 2 for c in row),
        "a group must be a list of [attribute, level]",
    )
    need(
        all(isinstance(c[0], str) and c[0] in attributes and _level(c[1]) for c in row),
        "a group has an unknown attribute or level",
    )
    need(len({c[0] for c in row}) == len(row), "a group names an attribute twice")
    return Group(tuple((c[0], c[1]) for c in row))


def _differ(groups: tuple[Group, ...]) -> bool:
    """Whether all groups are distinct, ignoring the order of their conditions."""
    return len({frozenset(group.conditions) for group in groups}) == len(groups)


def recipes(patterns: Patterns) -> dict[str, Any]:
    return {name: recipe.to_json() for name, recipe in patterns.derived.items()}


def derived(content: Any, attributes: list[str]) -> dict[str, Recipe]:
    need(isinstance(content, dict) and set(content) <= set(attributes), '"derived" must define attributes')
    try:
        return {name: recipe_from_json(recipe) for name, recipe in content.items()}
    except InputError as error:
        raise FileFormatError(f'"derived": {error}') from None


def _patterns(attributes: list[str], rows: list[list[Any]], derived: dict[str, Recipe]) -> Patterns:
    need(all(_level(value) for row in rows for value in row), "a pattern has a level that is not text")
    need(
        len(rows) > 0 and len({tuple(row) for row in rows}) == len(rows),
        '"patterns" must be a list of distinct patterns, at least one',
    )
    levels = tuple(sort_levels([*{row[a] for row in rows}]) for a in range(len(attributes)))
    places = [{level: i for i, level in enumerate(known)} for known in levels]
    table = [[place[value] for place, value in zip(places, row)] for row in rows]
    sorted_table = np.array(sorted(table), dtype=np.int64).reshape(len(rows), -1)
    return Patterns(tuple(attributes), levels, sorted_table, derived)
