"""From the options of a command to atoms: the columns of files, or atoms files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propcal.cli.screen import say
from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal import Atoms, Groups


@dataclass(frozen=True)
class Columns:
    """The roles of the columns of a file."""

    score: str | None
    outcome: str | None
    groups: list[str] = field(default_factory=list)
    weight: str | None = None
    cluster: str | None = None
    cuts: dict[str, list[float]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    na: list[str] = field(default_factory=list)
    positive: str | None = None
    drop_missing: bool = False
    as_levels: list[str] = field(default_factory=list)
    site: str | None = None

    def definition(self, **settings: Any) -> Groups:
        """The groups as the library defines them; checks cuts and conditions."""
        from propcal import Groups

        return Groups(
            columns=self.groups,
            cuts=self.cuts or None,
            where=self.where or None,
            as_levels=self.as_levels,
            **settings,
        )

    def flags(self) -> list[str]:
        """The same columns as options of a command."""
        cuts = [f"{column}={','.join(f'{p:g}' for p in points)}" for column, points in self.cuts.items()]
        where = [f"{name}={condition}" for name, condition in self.where.items()]
        said: list[tuple[str, list[str | None]]] = [
            ("--score", [self.score]),
            ("--outcome", [self.outcome]),
            ("--positive", [self.positive]),
            ("--groups", [",".join(_cell(name) for name in self.groups)]),
            ("--as-levels", [",".join(_cell(name) for name in self.as_levels)]),
            ("--weight", [self.weight]),
            ("--cluster", [self.cluster]),
            ("--site", [self.site]),
            ("--cut", [*cuts]),
            ("--where", [*where]),
            ("--na", [*self.na]),
        ]
        given = [part for flag, values in said for value in values if value for part in (flag, value)]
        return [*given, *(["--drop-missing"] if self.drop_missing else [])]

    def atoms(
        self,
        files: list[Path],
        *,
        weight_kind: str | None = None,
        resolution: float | None = None,
        memory: str | None = None,
        correction: Any = None,
        progress: Callable[[float], None] | None = None,
    ) -> Atoms:
        """Reduce files of any size to atoms, with the columns that a correction reads.

        All files take the same path; a small file takes a tenth of a second longer than in memory.
        """
        from propcal.data.files.file_sets import find_files, site_column
        from propcal.data.files.files_to_atoms import atoms_from_files
        from propcal.data.named_columns import NamedColumns
        from propcal.data.site_names import with_site

        groups = self.definition()
        paths = find_files(files)
        for path in paths:
            if _holds_json(path):
                raise InputError(
                    f"{path} is a JSON file, perhaps a correction, and not a file of people",
                    next_step="Name a file of people. To compare a score with its correction, add "
                    f"--correction {path}",
                )
        kept = [path for path in paths if holds_atoms(path)]
        if kept:
            self._refuse_columns(kept[0])
            if len(kept) < len(paths):
                raise InputError(
                    f"{kept[0]} is an atoms file, and other files are not",
                    next_step="reduce all of them with propcal atoms first",
                )
            return merged(paths)
        if self.score is None or self.outcome is None:
            lacking = "--score" if self.score is None else "--outcome"
            raise InputError(
                f"{paths[0]} has the columns {_columns(paths[0])}",
                argument=lacking,
                next_step=f"name one of them with {lacking}",
            )
        columns = NamedColumns(
            self.score,
            self.outcome,
            groups,
            self.weight,
            self.cluster,
            resolution,
            weight_kind or "auto",
            positive=self.positive,
            drop_missing=self.drop_missing,
            site=site_column(files, self.site),
        )
        made = atoms_from_files(
            paths, columns, na=self.na, memory_limit=memory, correction=correction, progress=progress
        )
        return made if self.site is None else with_site(made, self.site)

    def _refuse_columns(self, path: Path) -> None:
        said = {
            "--score": self.score,
            "--outcome": self.outcome,
            "--groups": self.groups,
            "--weight": self.weight,
            "--cluster": self.cluster,
            "--cut": self.cuts,
            "--where": self.where,
            "--positive": self.positive,
            "--drop-missing": self.drop_missing,
            "--as-levels": self.as_levels,
            "--site": self.site,
        }
        useless = [option for option, value in said.items() if value]
        if useless:
            raise InputError(
                f"{path} is an atoms file, which already has a score, an outcome and groups",
                next_step=f"leave out {', '.join(useless)}",
            )


def _holds_json(path: Path) -> bool:
    """Whether a file is JSON, such as a correction."""
    try:
        with path.open("rb") as file:
            return path.suffix == ".json" and file.read(64).lstrip().startswith(b"{")
    except OSError:  # reported when it is read
        return False


def unused_labels(labels: dict[str, dict[str, str]], atoms: Atoms) -> list[str]:
    """For each label that names no level of the groups, a sentence that says so."""
    patterns = atoms.patterns
    known = dict(zip(patterns.attributes, patterns.levels))
    told = []
    for column, own in labels.items():
        for level in own:
            if column not in known:
                told.append(
                    f"--label {column}.{level}: {column!r} is not among the groups, so it is not used"
                )
            elif level not in ["" if name is None else name for name in known[column]]:
                told.append(f"--label {column}.{level}: {column!r} has no value {level!r}, so it is not used")
    return told


def holds_atoms(path: Path) -> bool:
    """Whether a file is an atoms file."""
    from propcal.data.files.formats import is_atoms_file

    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1" and is_atoms_file(path)
    except OSError:  # reported when it is read
        return False


def merged(paths: list[Path], *, allow_repeated: bool = False) -> Atoms:
    """Add up atoms files; refuses two files with the same people, or a site under two spellings."""
    from propcal import Atoms
    from propcal.data.site_names import refuse_other_spellings

    total: Any = 0
    seen: dict[str, Path] = {}
    grids: dict[Path, int] = {}
    sites: list[tuple[Path, Atoms]] = []
    for path in paths:
        atoms = Atoms.load(path)
        grids[path] = atoms.resolution_bits
        other = seen.setdefault(atoms.people_fingerprint(), path)
        if other != path and not allow_repeated:
            raise InputError(
                f"{other} and {path} have the same scores, outcomes and weights, so these people would count "
                "twice",
                next_step="propcal merge --allow-repeated adds them up anyway",
            )
        sites.append((path, atoms))
        try:
            total = total + atoms
        except InputError as error:
            raise InputError(f"{paths[0]} and {path}: " + error.message) from None
    if len({*grids.values()}) > 2:  # coarsest first, so that no score is rounded twice
        total = sum(Atoms.load(path) for path in sorted(paths, key=grids.__getitem__))
    _tell_grids(grids)
    refuse_other_spellings([(str(path), one) for path, one in sites])
    result: Atoms = total
    return result


def _tell_grids(grids: dict[Path, int]) -> None:
    """Report the common rounding of scores, if the files differ in it."""
    coarsest, finest = min(grids, key=grids.__getitem__), max(grids, key=grids.__getitem__)
    if grids[coarsest] < grids[finest]:
        grid = f"rounded to 2**-{grids[coarsest]}"
        fine = "exact" if grids[finest] == 32 else f"rounded to 2**-{grids[finest]}"
        told = f"Scores in {finest} are {fine}, and in {coarsest} {grid}; all are now {grid}."
        say(told, err=True)


def _columns(path: Path) -> str:
    from propcal.core.atoms import Atoms
    from propcal.data.files.formats import open_file

    people = open_file(path)
    assert not isinstance(people, Atoms)
    return some_names(people.names)


def _cell(name: str) -> str:
    return f'"{name}"' if "," in name else name


def some_names(names: list[str], most: int = 30) -> str:
    """Names of columns, unless they look like a person's values."""
    from propcal.data.files.formats import looks_like_values

    if looks_like_values(names):
        return "of its first line"
    return f"{names[:most]}" + (f" and {len(names) - most:,} more" if len(names) > most else "")
