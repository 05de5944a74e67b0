"""From the options of a command to people: the columns of a file, or atoms."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal import Atoms, Groups


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what."""

    score: str | None
    outcome: str | None
    groups: list[str] = field(default_factory=list)
    weight: str | None = None
    cluster: str | None = None
    cuts: dict[str, list[float]] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)
    na: list[str] = field(default_factory=list)

    def definition(self, **settings: Any) -> Groups:
        """The groups in the words of the library; checks cuts and conditions."""
        from propcal import Groups

        return Groups(columns=self.groups, cuts=self.cuts or None, where=self.where or None, **settings)

    def flags(self) -> list[str]:
        """The same columns, as one would type them."""
        cuts = [f"{column}={','.join(f'{p:g}' for p in points)}" for column, points in self.cuts.items()]
        where = [f"{name}={condition}" for name, condition in self.where.items()]
        said: list[tuple[str, list[str | None]]] = [
            ("--score", [self.score]),
            ("--outcome", [self.outcome]),
            ("--groups", [",".join(_cell(name) for name in self.groups)]),
            ("--weight", [self.weight]),
            ("--cut", [*cuts]),
            ("--where", [*where]),
            ("--na", [*self.na]),
        ]
        return [part for flag, values in said for value in values if value for part in (flag, value)]

    def load(self, path: Path, *, also: tuple[str, ...] = ()) -> Any:
        """The wanted columns of the file and those of `also` as a table, or its atoms."""
        from propcal.core.atoms import Atoms
        from propcal.data.derive import numeric_columns
        from propcal.data.files import open_file
        from propcal.data.people import refuse_two_roles, wanted_columns

        groups = self.definition()
        people = open_file(path, missing=self.na)
        if isinstance(people, Atoms):
            self._refuse_columns(path)
            return people
        if self.score is None or self.outcome is None:
            lacking = "--score" if self.score is None else "--outcome"
            raise InputError(f"{path} has the columns {_some(people.names)}; say which is the {lacking}")
        refuse_two_roles(self.score, self.outcome, wanted_columns(groups) or [])
        single = [name for name in (self.score, self.outcome, self.weight) if name is not None]
        wanted = [*single, *(wanted_columns(groups) or []), *also]
        wanted += [] if self.cluster is None else [self.cluster]
        recipes = groups.recipes()
        numeric = [*single, *numeric_columns(recipes, groups.attributes([]))]
        return people.read(list(dict.fromkeys(wanted)), numeric=numeric)

    def atoms(self, loaded: Any, weight_kind: str = "auto") -> Atoms:
        """What `load` gave, reduced to atoms."""
        from propcal.core.atoms import Atoms

        if isinstance(loaded, Atoms):
            return loaded
        assert self.score is not None
        assert self.outcome is not None
        return Atoms.from_frame(
            loaded,
            score=self.score,
            outcome=self.outcome,
            groups=self.definition(),
            weight=self.weight,
            cluster=self.cluster,
            weight_kind=weight_kind,
        )

    def _refuse_columns(self, path: Path) -> None:
        said = {
            "--score": self.score,
            "--outcome": self.outcome,
            "--groups": self.groups,
            "--weight": self.weight,
            "--cluster": self.cluster,
            "--cut": self.cuts,
            "--where": self.where,
        }
        useless = [option for option, value in said.items() if value]
        if useless:
            raise InputError(
                f"{path} holds atoms, which have a score, an outcome and groups already; leave out "
                f"{', '.join(useless)}"
            )


def _cell(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _some(names: list[str], most: int = 30) -> str:
    """Names of columns, unless they look like the values of a person."""
    from propcal.data.files import looks_like_values

    if looks_like_values(names):
        return "of its first line"
    return f"{names[:most]}" + (f" and {len(names) - most:,} more" if len(names) > most else "")
