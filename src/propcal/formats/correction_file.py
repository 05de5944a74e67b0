"""Reads and writes correction files: versioned JSON, checked completely; no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from propcal.core.arguments import refuse_special
from propcal.core.correction.correction import Correction
from propcal.core.correction.definition import Definition
from propcal.core.correction.points_table import FeaturePoints
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.groups import Group
from propcal.core.patterns import Level
from propcal.errors import FileFormatError, InputError, refused
from propcal.formats import strict_json as strict
from propcal.formats.correction_content import (
    ADDED,
    BY_ROWS,
    CORRECTION,
    CORRECTION_FORMAT,
    CORRECTION_VERSION,
    MOST_DEPTH,
    PLAIN,
    correction_of_content,
    nested_within,
    recipes,
)
from propcal.formats.strict_json import need

FIRST_BYTES = 4096  # from which another kind of file is recognised
BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def save_correction(correction: Correction, path: str | PathLike[str]) -> None:
    """Write a file, all or nothing, with the time if the correction has none.

    The time enters here and not in the fit, so that two fits of the same people are the
    same to the last bit.
    """
    from propcal.formats.transaction import write_text

    created = correction.about.get("created") or strict.now()
    dated = replace(correction, about={**correction.about, "created": created})
    write_text(correction_to_json(dated), path)


def model_id(correction: Definition) -> str:
    """A hash of all that the file says, but for the time and the notes of its users."""
    return strict.content_hash(_content(correction))


def correction_to_json(correction: Correction) -> str:
    """The text of the file: one line for each group, pattern and update."""
    content = _content(correction)
    content["about"] = {**content["about"], "model_id": strict.content_hash(content)}
    lines = []
    for key, value in content.items():
        if key in BY_ROWS and value:
            rows = map(_json, value)
            text = "[\n    " + ",\n    ".join(rows) + "\n  ]"
        else:
            text = _json(value)
        lines.append(f'  "{key}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _content(correction: Definition) -> dict[str, Any]:
    """What the file says, without its hash, in the first version that can hold it."""
    patterns = correction.patterns
    bins = correction.bins
    about = {key: value for key, value in correction.about.items() if key != "model_id"}
    content: dict[str, Any] = {
        "format": CORRECTION_FORMAT,
        "version": PLAIN,
        "unit": "2**-32",
        "about": about,
        "attributes": list(patterns.attributes),
        "derived": recipes(patterns),
        "bins": {
            "kind": bins.kind,
            "divisor": bins.divisor,
            "edges": bins.edges.tolist(),
        },
        "groups": list(map(_pairs, correction.groups)),
        "patterns": [list(patterns.key(p)) for p in range(len(patterns))],
        "unseen": correction.unseen,
        "start": [],
        "updates": correction.updates.tolist(),
        "monotone": bool(correction.monotone),
        "folded": list(correction.folded),
        "points": [],
        "ends": [],
    }
    if correction.start:
        content |= _start(correction.start)
    if correction.points:
        content["points"] = list(map(_points, correction.points.features))

    needed = [PLAIN]
    for version, (key, empty) in ADDED.items():
        if content[key] != empty:
            needed.append(version)
    content["version"] = max(needed)
    for version, (key, _) in ADDED.items():
        if version > content["version"]:
            del content[key]
    return content


def _start(start: SmoothStart) -> dict[str, Any]:
    """The terms of a recalibration, and how its ends move if they do."""
    terms = []
    for group, shifts in zip(start.groups, start.shifts[:, 1:-1].tolist()):
        terms.append([_pairs(group), shifts])
    if not start.moves_ends:
        return {"start": terms}
    return {"start": terms, "ends": start.shifts[:, [0, -1]].tolist()}


def _points(feature: FeaturePoints) -> dict[str, Any]:
    keys = strict.schema_of(CORRECTION)["$defs"]["points"]["required"]
    return {key: getattr(feature, key) for key in keys}


def _pairs(group: Group) -> list[list[Level]]:
    return list(map(list, group.conditions))


def load_correction(path: str | PathLike[str]) -> Correction:
    """Read a correction; refuse anything that is not a valid correction file."""
    refuse_special(path)
    content = Path(path).read_bytes()
    other = _other_kind(path, content[:FIRST_BYTES])
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
        # imports pyarrow, which corrections do not need
        from propcal.reading.csv_parquet_excel import is_atoms_file

        with suppress(FileFormatError):
            return "an atoms file" if is_atoms_file(path) else "a Parquet table"
        return "a truncated Parquet file"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return "a compressed file"
    line = start.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    if line[:1] in (b"{", b"[") or b"\0" in start:
        return ""
    separated = any(separator in line for separator in (b",", b";", b"\t"))
    return "a table" if separated else ""


def correction_from_json(
    text: str, path: str | PathLike[str] = "this text"
) -> Correction:
    """The correction in the text of a file; errors name its `path`."""
    content = _parsed(text, path)
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise FileFormatError(f'{path}: "version" must be a whole number of at least 1')
    strict.refuse_newer(path, version, CORRECTION_VERSION)
    try:
        correction = correction_of_content(content, version)
    except FileFormatError as error:
        raise FileFormatError(
            f"{path} is damaged: {error}", next_step="Save the correction again"
        ) from None

    content_hash = strict.content_hash(content)
    if content["about"].get("model_id", content_hash) != content_hash:
        raise refused("edited", FileFormatError, path=path)
    try:
        correction.refuse_overgrown()
    except InputError as error:
        raise FileFormatError(
            f"{path} is refused: " + error.problem, next_step=error.next_step
        ) from None
    return correction


def _parsed(text: str, path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a text that says that it is a correction file."""
    text = text.removeprefix("\ufeff")  # some editors add this mark
    try:
        content = strict.parsed(text)
        named = isinstance(content, dict) and content.get("format") == CORRECTION_FORMAT
        need(named, f'its "format" is not "{CORRECTION_FORMAT}"')
    except FileFormatError as error:
        raise FileFormatError(f"{path} is not a correction file: {error}") from None
    known: dict[str, Any] = content
    return known


def noted(about: Mapping[str, Any], notes: dict[str, object]) -> dict[str, Any]:
    """What is known about a correction, with further notes of its users that a file can
    hold.
    """
    with_notes = {**about, "user": {**about.get("user", {}), **notes}}
    # errors of what is no JSON
    with suppress(AttributeError, RecursionError, TypeError, ValueError):
        strict.canonical(notes).encode()
        if nested_within(with_notes, MOST_DEPTH):
            return with_notes
    problem = (
        "notes must be texts, finite numbers, true, false, None, or lists and dicts of "
        f"these, nested at most {MOST_DEPTH - 2} levels deep"
    )
    raise InputError(problem, argument="notes")
