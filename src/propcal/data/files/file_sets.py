"""Several files of people: found by their names, opened, and of one kind."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path

from propcal.core.atoms import Atoms
from propcal.data.files.formats import PeopleFile, open_file
from propcal.errors import InputError

Files = str | PathLike[str] | Sequence[str | PathLike[str]]


def find_files(files: Files) -> list[Path]:
    """The files that paths and patterns such as ``visits/*.parquet`` name, each once."""
    patterns = [files] if isinstance(files, (str, PathLike)) else list(files)
    if not patterns:
        raise InputError("files: name at least one file", argument="files")
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
                f"{path} is no file of this machine",
                argument="files",
                next_step="read it with DuckDB and pass the relation: Atoms.from_frame(duckdb.sql(...), ...)",
            )
        if seen.setdefault(path.resolve(), path) is not path:
            raise InputError(
                f"{path} is named twice; each of its people would be there twice", argument="files"
            )
    return found


def open_people(paths: Sequence[Path], *, missing: Sequence[str] = (), advice: str) -> list[PeopleFile]:
    """Open files of people; atoms are refused with some advice."""
    sources = []
    for path in paths:
        people = open_file(path, missing=missing)
        if isinstance(people, Atoms):
            raise InputError(f"{path} holds atoms, not people", next_step=advice)
        sources.append(people)
    return sources


def check_same_columns(
    sources: Sequence[PeopleFile], *, as_text: bool, only: Sequence[str] | None = None
) -> None:
    """Refuse files whose columns are not those of the first one: all of them in order, or those in `only`."""
    if len(sources) < 2:
        return
    first = sources[0]
    schema = first.schema(as_text=as_text)
    types = {field.name: field.type for field in schema if only is None or field.name in only}
    for other in sources[1:]:
        found = {field.name: field.type for field in other.schema(as_text=as_text)}
        for name, kind in types.items():
            if name not in found:
                raise InputError(f"{other.path} has no column {name!r}, which {first.path} has")
            if found[name] != kind:
                raise InputError(
                    f"column {name!r} is {found[name]} in {other.path} and {kind} in {first.path}",
                    argument=name,
                    next_step="write all files with the same types",
                )
        if only is None and other.names != first.names:
            more = [name for name in other.names if name not in types]
            if more:
                raise InputError(f"{other.path} has a column {more[0]!r}, which {first.path} has not")
            raise InputError(f"{other.path} has its columns in another order than {first.path}")
