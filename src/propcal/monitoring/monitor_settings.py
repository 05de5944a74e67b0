"""Settings of a monitor: columns, calendar, groups, bins and reference, fixed when the state is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import Bins, make_bins
from propcal.core.grid import check_number, from_grid
from propcal.core.groups.groups import Groups
from propcal.data.named_columns import NamedColumns
from propcal.data.periods import Calendar, days
from propcal.errors import Argument, InputError
from propcal.plain_text import shown

NAMES = {
    "groups": "groups",
    "every": "the length of a period",
    "n_bins": "the number of risk ranges",
    "binning": "the risk ranges",
}


FREE = ("delay", "drop_missing")  # what later runs may change: the atoms of earlier periods stay as they are


@dataclass(frozen=True)
class MonitorSettings:
    """See `propcal.Monitor` for what each of them means."""

    score: str
    outcome: str
    time: str
    groups: Groups = field(default_factory=lambda: Groups(columns=[]))
    every: str = "month"
    timezone: str = "UTC"
    delay: int = 0
    outcome_time: str | None = None
    positive: Any = None
    drop_missing: bool = False
    baseline: str | None = None
    gamma: float = 0.05
    rho: float = 0.1
    n_bins: int = 10
    binning: Any = "uniform"

    def __post_init__(self) -> None:
        for name in ("score", "outcome", "time"):
            if not isinstance(getattr(self, name), str):
                raise InputError(Argument(name) + " must be the name of a column")
        object.__setattr__(self, "delay", days(self.delay))
        object.__setattr__(self, "groups", _definition(self.groups))
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        if not isinstance(self.binning, str):
            object.__setattr__(
                self, "binning", tuple(float(edge) for edge in np.asarray(self.binning).ravel())
            )
        if self.positive is not None and not isinstance(self.positive, (str, int, float, bool)):
            raise InputError(Argument("positive") + f" must be a single value; got {shown(self.positive)}")
        self.reference(self.calendar)
        _ = self.columns.words  # checks the columns

    @property
    def calendar(self) -> Calendar:
        """How time is divided."""
        return Calendar(self.every, self.timezone)

    @property
    def columns(self) -> NamedColumns:
        """What the columns are taken for."""
        return NamedColumns(
            self.score,
            self.outcome,
            self.groups,
            weight_kind="auto",
            positive=self.positive,
            drop_missing=self.drop_missing,
        )

    def reference(self, calendar: Calendar) -> list[str]:
        """The periods that later ones are compared with; none if the reference is perfect calibration."""
        if self.baseline is None:
            return []
        first, dots, last = str(self.baseline).partition("..")
        try:
            found = calendar.span(first, last if dots else first)
        except InputError as error:
            raise InputError(Argument("baseline") + ": " + error.message) from None
        if not found:
            raise InputError(Argument("baseline") + f": {shown(self.baseline)} ends before it begins")
        return found

    def bins(self, atoms: Atoms) -> Bins:
        """The risk ranges; quantiles are those of these people."""
        return make_bins(self.binning, self.n_bins, rho=self.rho, score=atoms.score, weight=atoms.weight)

    def to_json(self) -> dict[str, Any]:
        """As it is written in the state."""
        content: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        words = {f.name: getattr(self.groups, f.name) for f in fields(self.groups)}
        content["groups"] = {name: _jsonable(value) for name, value in words.items()}
        content["binning"] = _jsonable(self.binning)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> MonitorSettings:
        """From what `to_json` made; an unknown setting is an error."""
        made = dict(content)
        try:
            words = dict(made.pop("groups"))
            return cls(groups=Groups(**words), **made)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise InputError(f"its settings cannot be read: {error}") from None

    def with_other(self, given: Mapping[str, Any]) -> MonitorSettings:
        """These settings with others that may change; refuse the rest, and say what differs."""
        own, free = self.to_json(), {}
        for name, setting in given.items():
            value = days(setting) if name == "delay" else _jsonable(setting)
            if isinstance(setting, Groups):
                value = {f.name: _jsonable(getattr(setting, f.name)) for f in fields(setting)}
                if sorted(value["columns"] or []) == sorted(own[name]["columns"] or []):
                    value["columns"] = own[name]["columns"]
            if own[name] == value:
                continue
            if name in FREE:
                free[name] = setting
                continue
            before, now = _told(own[name], value)
            raise InputError(
                Argument(name)
                + f": {NAMES.get(name, 'the setting')} cannot differ from the state's. The state has "
                f"{before}; "
                f"{now} was given",
                next_step="Leave it out, or begin a new state",
            )
        return replace(self, **free)


def _definition(groups: Any) -> Groups:
    """Groups by columns, or a definition that lists its columns."""
    if isinstance(groups, Groups):
        return groups if groups.columns is not None else replace(groups, columns=[])
    return Groups(columns=[groups] if isinstance(groups, str) else list(groups))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _told(own: Any, given: Any) -> tuple[str, str]:
    """The parts that differ."""
    if isinstance(own, dict) and isinstance(given, dict):
        name = next(key for key in [*own, *given] if own.get(key) != given.get(key))
        return f"{name} {shown(own.get(name))}", f"{name} {shown(given.get(name))}"
    return shown(own), shown(given)


def bin_edges(bins: Bins) -> list[float]:
    """The edges of risk ranges, as they are written in the state."""
    return [float(edge) for edge in from_grid(bins.edges)]
