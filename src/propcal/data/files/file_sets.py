"""Finds files by path or pattern, tells their format by their content, and opens them.

They are Parquet, CSV (plain, gzip, zstd) or Excel, or atoms.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from propcal.core.atoms import Atoms
from propcal.data.files.formats import CsvFile, ExcelFile, ParquetFile, atoms_header
from propcal.data.files.people_files import ParquetFiles, PeopleFiles, TextFiles
from propcal.errors import FileFormatError, InputError, refused
from propcal.regular_file import refuse_special

_MAGIC = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_MAGIC |= {b"\xd0\xcf\x11\xe0": "xls", b"\xff\xfe": "utf16", b"\xfe\xff": "utf16"}
ENDINGS = [".parquet", ".csv", ".csv.gz", ".csv.zst", ".tsv", ".xlsx", ".atoms"]  # by which a folder is read
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
            raise refused("not local", path=path)
        if not path.is_dir():  # a folder is refused with the files in it when it is opened
            refuse_special(path)
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
            if (same := seen.setdefault(content, path)) is not path:
                raise refused("same content", path=path, same=same)


def open_file(path: str | PathLike[str], *, missing: Sequence[str] = ()) -> PeopleFiles | Atoms:
    """Recognise a file by its content; an atoms file is loaded. `missing` as for `PeopleFiles`."""
    path = Path(path)
    kind = _kind(path)
    if kind == "parquet":
        parquet = ParquetFile(path)
        return ParquetFiles([parquet]) if atoms_header(parquet.schema) is None else Atoms.load(path)
    if kind != "zip" and path.suffix.lower() in (".parquet", ".pq"):
        raise FileFormatError(f"{path} is not a Parquet file, despite its name. Is it cut off?")
    file = ExcelFile(path) if kind == "zip" else CsvFile(path, compression=kind)
    return TextFiles([file], missing=missing)


def _kind(path: Path) -> str:
    """What the first bytes say: parquet, gzip, zstd, zip for Excel, or none for text."""
    if path.is_dir():
        ending = next((ending for ending in ENDINGS if any(path.glob(f"*{ending}"))), ENDINGS[0])
        raise InputError(f"{path} is a folder", next_step=f'name files in it, say "{path}/*{ending}"')
    refuse_special(path)
    if not path.exists():
        raise _no_file(path)
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise FileFormatError(f"{path} is empty")
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "none")
    refused = (
        (kind == "zip" and not _is_workbook(path), "a zip archive", "unpack it"),
        (kind == "xls", "an Excel workbook in the old format (.xls)", "save it as .xlsx or CSV"),
        (kind == "utf16", "UTF-16 text", "save it as UTF-8 (in Excel: CSV UTF-8)"),
        (kind == "none" and b"\0" in start, "neither text nor Parquet", "save the table as CSV or Parquet"),
    )
    for holds, what, step in refused:
        if holds:
            raise FileFormatError(f"{path} is {what}", next_step=step)
    return kind


def _is_workbook(path: Path) -> bool:
    try:
        with ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except BadZipFile:
        return path.suffix.lower() == ".xlsx"  # cut off


def _no_file(path: Path) -> InputError:
    if not path.parent.is_dir():
        return InputError(f"there is no file {path}, nor a folder {path.parent}")
    close = get_close_matches(path.name, [other.name for other in path.parent.iterdir()], n=1)
    hint = f"Did you mean {path.parent / close[0]}?" if close else None
    return InputError(f"there is no file {path}", next_step=hint)


def open_people(paths: Sequence[Path], *, missing: Sequence[str] = (), advice: str) -> list[PeopleFiles]:
    """Open files with one row per person; files of atoms are refused with this advice."""
    sources = []
    for path in paths:
        people = open_file(path, missing=missing)
        if isinstance(people, Atoms):
            raise InputError(f"{path} is an atoms file; this needs one row per person", next_step=advice)
        sources.append(people)
    return sources


def open_files(paths: Sequence[Path], *, missing: Sequence[str] = ()) -> PeopleFiles:
    """Open files as one table; they must be either all Parquet or all text, and the content decides."""
    opened = open_people(paths, missing=missing, advice="Load it, or merge it with propcal merge")
    kinds = ["Parquet" if isinstance(file, ParquetFiles) else "text" for file in opened]
    for path, kind in zip(paths, kinds):
        if kind != kinds[0]:
            raise refused("other format", first=paths[0], kind=kinds[0], path=path, other=kind)
    parts = [part for file in opened for part in file.parts]
    return type(opened[0])(parts, missing=missing)


def check_same_columns(
    sources: Sequence[PeopleFiles], *, as_text: bool, only: Sequence[str] | None = None
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
                where = {"path": other.path, "first": first.path}
                raise refused("other type", name=name, found=found[name], kind=kind, **where)
        if only is None and other.names != first.names:
            more = [name for name in other.names if name not in types]
            if more:
                raise InputError(f"{other.path} has a column {more[0]!r}, but {first.path} does not")
            raise InputError(f"{other.path} has its columns in a different order from {first.path}")
