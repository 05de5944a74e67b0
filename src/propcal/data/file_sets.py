"""Several files of people: found by their names, opened, and of one kind."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from propcal.core.atoms import Atoms
from propcal.data.files import PeopleFile, open_file
from propcal.errors import InputError


def find_files(names: Sequence[str | PathLike[str]]) -> list[Path]:
    """The files of these names, in order; a name such as ``visits/*.parquet`` stands for all that match.

    A file that there is, is meant itself, whatever is in its name.
    """
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if path.exists() or not glob.has_magic(str(name)):
            found.append(path)
            continue
        matches = sorted(Path(match) for match in glob.glob(str(name), recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise InputError(f"there is no file {name}")
        found += files
    seen: dict[Path, Path] = {}
    for path in found:
        if path.resolve() in seen:
            raise InputError(f"{path} is named twice; each row would be written twice")
        seen[path.resolve()] = path
    return found


def open_people(paths: Sequence[Path], *, missing: Sequence[str] = ()) -> list[PeopleFile]:
    """Open files of people; atoms are refused."""
    sources = []
    for path in paths:
        people = open_file(path, missing=missing)
        if isinstance(people, Atoms):
            raise InputError(f"{path} holds atoms, not people; apply needs a row for each person")
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
                    f"column {name!r} is {found[name]} in {other.path} and {kind} in {first.path}; "
                    "write all files with the same types"
                )
        if only is None and other.names != first.names:
            more = [name for name in other.names if name not in types]
            if more:
                raise InputError(f"{other.path} has a column {more[0]!r}, which {first.path} has not")
            raise InputError(f"{other.path} has its columns in another order than {first.path}")
