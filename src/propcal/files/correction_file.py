"""Reads and writes correction files: versioned JSON that is checked completely, never pickle."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
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
from propcal.core.patterns import Level, Patterns, sort_levels
from propcal.errors import FileFormatError, InputError
from propcal.files.older_corrections import as_present
from propcal.files.whole_file import write_whole
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


Check = Callable[[Any], bool]


def _whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _list(check: Check, least: int = 0) -> Check:
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(check, value))


def _row(*checks: Check) -> Check:
    return lambda value: (
        isinstance(value, list) and len(value) == len(checks) and all(c(v) for c, v in zip(checks, value))
    )


def _one_of(*values: Any) -> Check:
    return lambda value: any(type(value) is type(known) and value == known for known in values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_level(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _depth_within(value: Any, most: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_depth_within(part, most - 1) for part in parts)


_is_group = _list(_row(_is_text, _is_level))
_MOST = MOST_SHIFT * SHIFT_UNIT
ABOUT: dict[str, Check] = {
    "method": _is_text,
    **dict.fromkeys(("alpha", "gamma", "rho", "eta"), lambda v: type(v) in (int, float) and 0 < v <= 2),
    "guard": lambda v: v is None or (type(v) in (int, float) and 0 <= v < inf),
}
# What each entry must be, in the order in which it is checked.
CHECKS: dict[str, tuple[Check, str]] = {
    "unit": (_one_of("2**-32"), 'must be "2**-32"'),
    "about": (lambda value: isinstance(value, dict), "must name a method"),
    "unseen": (_one_of("replay", "keep", "error"), "must be replay, keep or error"),
    "monotone": (_one_of(True, False), "must be true or false"),
    "attributes": (_list(_is_text), "must be a list of texts"),
    "folded": (_list(_is_text), "must be a list of attributes"),
    "derived": (lambda value: isinstance(value, dict), "must define attributes"),
    "bins": (
        lambda value: isinstance(value, dict) and {*value} == {"kind", "divisor", "edges"},
        "must have kind, divisor and edges",
    ),
    "groups": (
        _list(_is_group, 1),
        "must be groups, at least one, each a list of [attribute, level]",
    ),
    "patterns": (_list(_list(_is_level), 1), "must be a list of lists of levels, at least one"),
    "updates": (
        _list(_row(_whole(0, UNIT), _whole(0, UNIT), _whole(-2 * UNIT, 2 * UNIT))),
        "must be lists of three whole numbers: a group, a bin, and a shift from -2**33 to 2**33",
    ),
    "start": (
        _list(_row(_is_group, _row(*[_whole(-_MOST, _MOST)] * N_KNOTS))),
        f"must be groups, each with {N_KNOTS} whole numbers from -{_MOST:,} to {_MOST:,}",
    ),
}
BINS: dict[str, tuple[Check, str]] = {
    "kind": (_one_of("uniform", "geometric", "quantile", "explicit"), "is unknown"),
    "divisor": (_whole(1, UNIT), "must be a whole number"),
    "edges": (_list(_whole(0, UNIT), 2), "must be whole numbers"),
}


def _correction(content: dict[str, Any]) -> Correction:
    """Rebuild a correction from the content of a file, all of which is checked."""
    expected = {"format", "version", *CHECKS}
    need({*content} == expected, f"its entries must be {sorted(expected)}")
    for key, (fine, text) in CHECKS.items():
        need(fine(content[key]), f'"{key}" {text}')
    _check_about(content["about"])
    attributes, folded = content["attributes"], content["folded"]
    need(len({*attributes}) == len(attributes), '"attributes" must be distinct')
    need({*folded} <= {*attributes} and len({*folded}) == len(folded), '"folded" must be distinct attributes')
    bins, recipes = _bins(content["bins"]), derived(content["derived"], attributes)
    patterns = _patterns(attributes, content["patterns"], recipes)
    levels = {name: {*known} for name, known in zip(patterns.attributes, patterns.levels)}
    groups = _groups(content["groups"], levels, '"groups"')
    terms = _groups([group for group, _ in content["start"]], levels, 'the groups of "start"')
    updates = np.array(content["updates"], dtype=np.int64).reshape(-1, 3)
    need(
        bool(np.all(updates[:, :2] < (len(groups), len(bins)))),
        '"updates" must name groups and bins that there are',
    )
    shifts = np.array([shifts for _, shifts in content["start"]], dtype=np.int64)
    return Correction(
        patterns=patterns,
        groups=groups,
        bins=bins,
        updates=updates,
        unseen=content["unseen"],
        about=content["about"],
        start=SmoothStart(terms, shifts) if terms else None,
        monotone=content["monotone"],
        folded=tuple(folded),
    )


def _check_about(about: dict[str, Any]) -> None:
    """Check method and parameters, which are shown in reports."""
    need(_depth_within(about, MOST_DEPTH), '"about" is nested too deeply')
    for key, fine in ABOUT.items():
        need(key not in about or fine(about[key]), f'"{key}" of "about" is out of range')


def _bins(content: dict[str, Any]) -> Bins:
    for key, (fine, text) in BINS.items():
        need(fine(content[key]), f'"{key}" of "bins" {text}')
    edges = content["edges"]
    need(len(edges) <= MOST_BINS + 2, f"there are more than {MOST_BINS:,} bins")
    need(edges[0] == 0 and edges[-1] == UNIT, "edges must run from 0 to 2**32")
    need(all(a < b for a, b in itertools.pairwise(edges)), "edges must be increasing")
    return Bins(np.array(edges, dtype=np.int64), content["kind"], content["divisor"])


def _groups(rows: list[Any], levels: dict[str, set[Level]], what: str) -> tuple[Group, ...]:
    """Distinct groups, whatever the order of their conditions, of attributes and levels that there are."""
    for row in rows:
        need(all(name in levels for name, _ in row), "a group has an unknown attribute")
        need(len({name for name, _ in row}) == len(row), "a group names an attribute twice")
        occur = all(level in levels[name] for name, level in row)
        need(occur, "a group has a level that does not occur in any pattern")
    groups = tuple(Group(tuple((name, level) for name, level in row)) for row in rows)
    need(len({frozenset(group.conditions) for group in groups}) == len(groups), f"{what} must be distinct")
    return groups


def recipes(patterns: Patterns) -> dict[str, Any]:
    return {name: recipe.to_json() for name, recipe in patterns.derived.items()}


def derived(content: Any, attributes: list[str]) -> dict[str, Recipe]:
    need(isinstance(content, dict) and set(content) <= set(attributes), '"derived" must define attributes')
    try:
        return {name: recipe_from_json(recipe) for name, recipe in content.items()}
    except InputError as error:
        raise FileFormatError(f'"derived": {error}') from None


def _patterns(attributes: list[str], rows: list[list[Any]], derived: dict[str, Recipe]) -> Patterns:
    need(
        all(len(row) == len(attributes) for row in rows),
        f'each of "patterns" must have {len(attributes)} entries',
    )
    need(len({tuple(row) for row in rows}) == len(rows), '"patterns" must be distinct')
    levels = tuple(sort_levels([*{row[a] for row in rows}]) for a in range(len(attributes)))
    places = [{level: i for i, level in enumerate(known)} for known in levels]
    table = [[place[value] for place, value in zip(places, row)] for row in rows]
    sorted_table = np.array(sorted(table), dtype=np.int64).reshape(len(rows), -1)
    return Patterns(tuple(attributes), levels, sorted_table, derived)
