"""Finds files by path or pattern, opens them, and checks that they have the same columns."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path

from propcal.core.atoms import Atoms
from propcal.data.files.formats import PeopleFile, open_file
from propcal.data.site_names import named_column
from propcal.errors import InputError

Files = str | PathLike[str] | Sequence[str | PathLike[str]]


def find_files(files: Files) -> list[Path]:
    """The files that match paths and patterns such as ``visits/*.parquet``, without duplicates."""
    patterns = [files] if isinstance(files, (str, PathLike)) else list(files)
    if not patterns:
        raise InputError("files: at least one file is needed", argument="files")
    found: list[Path] = []
    for pattern in (fspath(pattern) for pattern in patterns):
        if not glob.has_magic(pattern) or Path(pattern).exists():
            found.append(Path(pattern))
            continue
        matches = sorted(path for path in map(Path, glob.glob(pattern, recursive=True)) if path.is_file())
        if not matches:
            raise InputError(f"no file matches {pattern}", argument="files")
        found += matches
    seen: dict[Path, Path] = {}
    for path in found:
        if "://" in fspath(path) or ":/" in fspath(path)[1:]:
            raise InputError(
                f"{path} is not a local file",
                argument="files",
                next_step="Read it with DuckDB and pass the relation: Atoms.from_frame(duckdb.sql(...), ...)",
            )
        if seen.setdefault(path.resolve(), path) is not path:
            raise InputError(f"{path} is named twice, so its people would be counted twice", argument="files")
    return found


def refuse_same_content(paths: Sequence[Path]) -> None:
    """Refuse copies of a file under another name; only files of the same size are read."""
    sizes: dict[int, list[Path]] = {}
    for path in paths:
        if path.is_file():
            sizes.setdefault(path.stat().st_size, []).append(path)
    for alike in sizes.values():
        seen: dict[bytes, Path] = {}
        for path in alike if len(alike) > 1 else []:
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
            if seen.setdefault(content, path) is not path:
                raise InputError(
                    f"{path} has the same content as {seen[content]}, so its people would be counted twice",
                    argument="files",
                    next_step="Leave one of them out",
                )


def site_column(files: Files, site: str | None) -> str | None:
    """The column that holds the site, if the first file has such a column; else it is a name."""
    if site is None:
        return None
    first = open_file(find_files(files)[0])
    if isinstance(first, Atoms):
        return None
    return named_column(site, first.names)


def open_people(paths: Sequence[Path], *, missing: Sequence[str] = (), advice: str) -> list[PeopleFile]:
    """Open files with one row per person; files of atoms are refused with this advice."""
    sources = []
    for path in paths:
        people = open_file(path, missing=missing)
        if isinstance(people, Atoms):
            raise InputError(f"{path} is an atoms file; this needs one row per person", next_step=advice)
        sources.append(people)
    return sources


def check_same_columns(
    sources: Sequence[PeopleFile], *, as_text: bool, only: Sequence[str] | None = None
) -> None:
    """Refuse files whose columns differ from the first file's (all of them in order, or those in `only`)."""
    if len(sources) < 2:
        return
    first = sources[0]
    schema = first.schema(as_text=as_text)
    types = {field.name: field.type for field in schema if only is None or field.name in only}
    for other in sources[1:]:
        found = {field.name: field.type for field in other.schema(as_text=as_text)}
        for name, kind in types.items():
            if name not in found:
                raise InputError(f"{other.path} has no column {name!r}, but {first.path} has one")
            if found[name] != kind:
                raise InputError(
                    f"column {name!r} is {found[name]} in {other.path} but {kind} in {first.path}",
                    argument=name,
                    next_step="Write all files with the same types",
                )
        if only is None and other.names != first.names:
            more = [name for name in other.names if name not in types]
            if more:
                raise InputError(f"{other.path} has a column {more[0]!r}, but {first.path} does not")
            raise InputError(f"{other.path} has its columns in a different order from {first.path}")
