"""Settings of a monitor: columns, calendar, groups, bins and reference, fixed when the state is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from propcal.core.arguments import check_number
from propcal.core.groups import Groups
from propcal.data.periods import Calendar, days
from propcal.data.source import NamedColumns
from propcal.errors import Argument, InputError, shown

NAMES = {
    "groups": "groups",
    "every": "the length of a period",
    "n_bins": "the number of risk ranges",
    "binning": "the risk ranges",
}
FREE = ("delay", "drop_missing")  # what later runs may change: the atoms of earlier periods stay as they are


@dataclass(kw_only=True, eq=False, repr=False)
class MonitorSettings:
    """The one list of settings; see `propcal.Monitor` for what each of them means."""

    score: str
    outcome: str
    time: str
    groups: Sequence[str] | str | Groups = ()
    every: str = "month"
    timezone: str = "UTC"
    delay: str | int = 0
    outcome_time: str | None = None
    positive: str | float | None = None
    drop_missing: bool = False
    baseline: str | None = None
    gamma: float = 0.05
    rho: float = 0.1
    n_bins: int = 10
    binning: str | Sequence[float] = "uniform"

    def __post_init__(self) -> None:
        for name in ("score", "outcome", "time"):
            if not isinstance(getattr(self, name), str):
                raise InputError(Argument(name) + " must be the name of a column")
        self.delay, self.groups = days(self.delay), _definition(self.groups)
        check_number("gamma", self.gamma, above=0, at_most=1)
        check_number("rho", self.rho, above=0, at_most=1)
        if not isinstance(self.binning, str):
            self.binning = tuple(float(edge) for edge in np.asarray(self.binning).ravel())
        if self.positive is not None and not isinstance(self.positive, (str, int, float, bool)):
            raise InputError(Argument("positive") + f" must be a single value; got {shown(self.positive)}")
        _ = self.calendar, self.reference, self.columns  # checks them

    @property
    def calendar(self) -> Calendar:
        """How time is divided."""
        return Calendar(self.every, self.timezone)

    @property
    def columns(self) -> NamedColumns:
        """What the columns are taken for."""
        own = {name: getattr(self, name) for name in ("groups", "positive", "drop_missing")}
        return NamedColumns(self.score, self.outcome, **own)

    @property
    def reference(self) -> list[str]:
        """The periods that later ones are compared with; none if the reference is perfect calibration."""
        if self.baseline is None:
            return []
        first, dots, last = str(self.baseline).partition("..")
        try:
            found = self.calendar.span(first, last if dots else first)
        except InputError as error:
            raise InputError(Argument("baseline") + ": " + error.message) from None
        if not found:
            raise InputError(Argument("baseline") + f": {shown(self.baseline)} ends before it begins")
        return found

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are written in the state."""
        return {f.name: _jsonable(getattr(self, f.name)) for f in fields(MonitorSettings)}

    def change(self, given: Mapping[str, Any]) -> None:
        """Change the settings that may change; refuse the others, and say what differs."""
        own, free = self.settings, {}
        for name, setting in given.items():
            value: Any = days(setting) if name == "delay" else _jsonable(setting)
            if isinstance(setting, Groups) and {*value["columns"]} == {*own[name]["columns"]}:
                value["columns"] = own[name]["columns"]
            if own[name] == value:
                continue
            if name not in FREE:
                before, now = _differing(own[name], value)
                raise InputError(
                    Argument(name) + f": {NAMES.get(name, 'the setting')} cannot differ from the state's. "
                    f"The state has {before}; {now} was given",
                    next_step="Leave it out, or begin a new state",
                )
            free[name] = value
        vars(self).update(free)


def _definition(groups: Any) -> Groups:
    """Groups by columns, or a definition that lists its columns, or one that a state has."""
    if isinstance(groups, Mapping):
        return Groups(**groups)
    if isinstance(groups, Groups):
        return groups if groups.columns is not None else replace(groups, columns=[])
    return Groups(columns=[groups] if isinstance(groups, str) else list(groups))


def _jsonable(value: Any) -> Any:
    if isinstance(value, Groups):
        return {f.name: _jsonable(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_jsonable(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def _differing(own: Any, given: Any) -> tuple[str, str]:
    """The parts that differ."""
    if isinstance(own, dict) and isinstance(given, dict):
        name = next(key for key in [*own, *given] if own.get(key) != given.get(key))
        return f"{name} {shown(own.get(name))}", f"{name} {shown(given.get(name))}"
    return shown(own), shown(given)
