"""``propcal atoms`` and ``merge``; and how every command reads people as atoms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

import propcal
from propcal.cli.commands_from_records import (
    CONFIG,
    FORCE,
    OFFERED,
    Files,
    typed_options,
)
from propcal.cli.terminal import check_file, log, progress, say, warnings_as_lines
from propcal.errors import InputError, refused
from propcal.formats.transaction import outputs
from propcal.options import DATA, OUTPUT, Reading, Roles, given

if TYPE_CHECKING:
    from propcal.reading.source import NamedColumns

# options that are arguments of `NamedColumns`
COLUMNS = (
    "score",
    "outcome",
    "weight",
    "weight_kind",
    "cluster",
    "resolution",
    "positive",
    "drop_missing",
)
OUT = OUTPUT.required("--output -o FILE", "Write the atoms to this file.")


def atoms(
    files: Files,
    roles: Roles,
    reading: Reading,
    share: bool = OUTPUT.flag(),
    output: Path = OUT,
    force: bool = FORCE,
    config: Path | None = CONFIG,
) -> None:
    """Reduce files of any size to atoms: counts of people and events by group and
    score.

    An audit or a fit needs nothing else. propcal merge adds up the atoms of months or
    sites.

    For example:

      propcal atoms visits.csv --score risk --outcome died --groups race -o visits.atoms

      propcal atoms "visits/*.parquet" --score risk --outcome died --groups race
      --resolution 2^-16 --memory 2GB -o visits.atoms

      propcal atoms north.csv --score risk --outcome died --groups race --site North
      --share -o north.atoms

    Parameters
    ----------
    share
        Write atoms that may be shared: scores are merged and rare levels folded, so
        that every cell has at least 11 people with the outcome and 11 without it.
    """
    from propcal.protect.shared_atoms import share_atoms

    check_file(output, files, config, force=force)
    with warnings_as_lines():
        people = read_people(files, roles, reading)
    folded: Mapping[str, list[str]] = {}
    if share:
        people, folded = share_atoms(people)
    with outputs(force=force):
        people.save(output)
    _report(people, output, folded, counted="people" if roles.cluster else "rows")


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Two or more files from propcal atoms."),
    ],
    allow_repeated: bool = DATA.flag(),
    output: Path = OUT,
    force: bool = FORCE,
) -> None:
    """Add up atoms files, for example of months or sites.

    The sum of exact atoms equals the atoms of all people together. Shared atoms stay
    apart by their file.

    For example:

      propcal merge january.atoms february.atoms -o winter.atoms

    Parameters
    ----------
    allow_repeated
        Add files up even if two of them have the same scores, outcomes and weights.
    """
    from propcal.reading.file_source import find_files

    paths = find_files(files)
    if len(paths) < 2:
        raise InputError(
            "merge needs at least two atoms files; one was named", argument="files"
        )
    check_file(output, paths, force=force)
    total = _merged(paths, allow_repeated=allow_repeated)
    with outputs(force=force):
        total.save(output)
    _report(total, output, {}, counted="people or rows")


def groups_of(roles: Roles, **settings: Any) -> propcal.Groups:
    """The groups as the library defines them; checks cuts and conditions."""
    return propcal.Groups(
        columns=roles.groups or [],
        cuts=roles.cuts,
        where=roles.where,
        as_levels=roles.as_levels or [],
        **settings,
    )


def read_people(
    files: list[Path], roles: Roles, reading: Reading, *, correction: Any = None
) -> propcal.Atoms:
    """Reduce files of any size to atoms, with the columns that a correction reads.

    All files take the same path; a small file takes a tenth of a second longer than in
    memory.
    """
    from propcal.reading.csv_parquet_excel import is_atoms_file
    from propcal.reading.file_source import FileSource, find_files, open_file

    groups = groups_of(roles)
    paths = find_files(files)
    for path in paths:
        if path.suffix == ".json" and _begins(path, 64).lstrip().startswith(b"{"):
            raise refused("json for people", path=path)
    atoms_files = [
        path for path in paths if _begins(path, 4) == b"PAR1" and is_atoms_file(path)
    ]
    if atoms_files:
        _refuse_columns(atoms_files[0], roles)
        if len(atoms_files) < len(paths):
            raise refused("not all atoms", path=atoms_files[0])
        return _merged(paths)

    if roles.score is None or roles.outcome is None:
        people: Any = open_file(paths[0])
        raise refused(
            "no column named",
            path=paths[0],
            columns=some_names(people.names),
            lacking="--score" if roles.score is None else "--outcome",
        )
    columns = named_columns(roles, reading, groups)
    with progress("Reading") as done:
        source = FileSource(
            paths, na=roles.na or [], memory_limit=reading.memory_limit, progress=done
        )
        return source.atoms(columns, site=roles.site, correction=correction)


def _refuse_columns(path: Path, roles: Roles) -> None:
    """Refuse options that name columns: atoms have them already."""
    typed = typed_options("atoms", replace(roles, na=None, weight_kind=None))
    if typed:
        flags = dict.fromkeys(word for word in typed if word in OFFERED["atoms"])
        raise refused("atoms hold columns", path=path, flags=", ".join(flags))


def named_columns(
    roles: Roles, reading: Reading, groups: propcal.Groups
) -> NamedColumns:
    """Which columns of files are read, and in which role."""
    from propcal.reading.source import NamedColumns

    options = given(roles, reading)
    columns = {name: options[name] for name in COLUMNS if name in options}
    return NamedColumns(**columns, groups=groups)


def note_unused_labels(
    labels: Mapping[str, Mapping[str, str]], atoms: propcal.Atoms
) -> None:
    """Say which labels name no level of the groups."""
    known = dict(zip(atoms.patterns.attributes, atoms.patterns.levels))
    for column, of_levels in labels.items():
        for level in of_levels:
            why = _why_unused(column, level, known)
            if why:
                log("note", f"--label {column}.{level}: {why}, so it is not used")


def _why_unused(column: str, level: str, known: Mapping[str, Any]) -> str:
    """Why a label names no level of the groups; empty if it does."""
    if column not in known:
        return f"{column!r} is not among the groups"
    if level not in ["" if name is None else name for name in known[column]]:
        return f"{column!r} has no value {level!r}"
    return ""


def _begins(path: Path, size: int) -> bytes:
    """The first bytes of a file; none if it cannot be opened, which is reported when it
    is read.
    """
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def some_names(names: list[str], most: int = 30) -> str:
    """Names of columns, unless they look like a person's values."""
    from propcal.reading.csv_parquet_excel import looks_like_values

    if looks_like_values(names):
        return "of its first line"
    shown = str(names[:most])
    if len(names) > most:
        return f"{shown} and {len(names) - most:,} more"
    return shown


def _merged(paths: list[Path], *, allow_repeated: bool = False) -> propcal.Atoms:
    """Add up atoms files; refuses two files with the same people, or a site under two
    spellings.
    """
    from propcal.reading.source import refuse_other_spellings

    parts = {path: propcal.Atoms.load(path) for path in paths}
    bits = {path: part.resolution_bits for path, part in parts.items()}
    # coarsest first, so that no score is rounded twice
    ordered = sorted(parts, key=bits.__getitem__)
    coarsest = ordered[0]
    finest = ordered[-1]
    seen: dict[str, Path] = {}
    total: Any = 0
    for path in ordered:
        other = seen.setdefault(parts[path].people_fingerprint(), path)
        if other != path and not allow_repeated:
            raise refused("people twice", other=other, path=path)
        try:
            total = total + parts[path]
        except InputError as error:
            raise InputError(f"{coarsest} and {path}: " + error.message) from None

    if bits[coarsest] < bits[finest]:
        coarse = grid_words(bits[coarsest])
        fine = grid_words(bits[finest])
        scores = f"Scores in {finest} are {fine}, and in {coarsest} {coarse}"
        log("info", f"{scores}; all are now {coarse}.")
    refuse_other_spellings([(str(path), part) for path, part in parts.items()])
    merged: propcal.Atoms = total
    return merged


def grid_words(bits: int) -> str:
    """How exact scores are.

    >>> grid_words(32), grid_words(16)
    ('exact', 'rounded to 2**-16')
    """
    if bits == 32:
        return "exact"
    return f"rounded to 2**-{bits}"


def site_names(people: propcal.Atoms) -> list[str]:
    """The sites of people, if they are known."""
    from propcal.core.patterns import SITE
    from propcal.core.reduction import split_by

    return list(split_by(people, SITE))


def _report(
    atoms: propcal.Atoms, output: Path, folded: Mapping[str, list[str]], *, counted: str
) -> None:
    """What was written, and the next commands."""
    from propcal.core.arguments import FEWEST_SHOWN
    from propcal.core.atoms import LeftOutReport
    from propcal.core.loss_bounds import are_coarse
    from propcal.core.reduction import without_keys
    from propcal.documents.sentences.files import atoms_written

    few = 0 if atoms.shared is None else int(are_coarse(atoms).sum())
    lines = atoms_written(
        atoms,
        without_keys(atoms).patterns,
        len(site_names(atoms)),
        left_out=LeftOutReport.of(atoms).sentence(FEWEST_SHOWN),
        file=f"{output} ({output.stat().st_size:,} bytes)",
        grid=grid_words(atoms.resolution_bits),
        folded=folded,
        counted=counted,
        n_coarse=few,
    )
    for line in lines:
        say(line)
    say(f"  propcal audit {quote(str(output))}")
    say(f"  propcal fit {quote(str(output))} -o model.json")
