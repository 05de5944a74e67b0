"""Reads and writes the state of a monitor: one Parquet file of atoms by period, marked as personal data."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike, fspath, stat
from typing import Any
from weakref import WeakKeyDictionary

from propcal.core.groups.collection import Group
from propcal.core.keys import people_by_key
from propcal.core.patterns import PERIOD
from propcal.errors import Argument, FileFormatError, InputError
from propcal.identity import Identity
from propcal.monitoring.monitor import Monitor, PeriodRecord
from propcal.monitoring.monitor_settings import MonitorSettings
from propcal.monitoring.watched import WatchedGroup
from propcal.output.files.atoms_file import read_atoms, save_atoms
from propcal.output.files.correction_file import need

MONITOR = ("propcal-monitor", 1)
_NO_STATE = "is not the state of a monitor: " + Argument(
    "Monitor.save", written="write one with Monitor.save"
)
# what the file looked like when a monitor was read from it
_read: WeakKeyDictionary[Monitor, tuple[str, tuple[int, ...]]] = WeakKeyDictionary()


def save_monitor(monitor: Monitor, path: str | PathLike[str]) -> None:
    """Write the state, whole or not at all; refuse if another run has changed the file meanwhile."""
    if monitor.atoms is None:
        raise InputError("the monitor has no people yet, so there is nothing to save")
    known = _read.get(monitor)
    if known is not None and known[0] == fspath(path) and known[1] != _look(path):
        raise InputError(
            f"{path} was changed by another run in the meantime; it is as that run left it",
            next_step="Run the command again",
        )
    content = {
        "settings": monitor.settings.to_json(),
        "identity": asdict(monitor.identity),
        "periods": {period: asdict(monitor.records[period]) for period in monitor.periods},
        "watched": [
            {"group": [list(pair) for pair in one.group.conditions], "later": one.later}
            for one in monitor.watched
        ],
        "edges": monitor.edges,
    }
    save_atoms(monitor.atoms, path, kind=MONITOR, more={"monitor": content})


def load_monitor(path: str | PathLike[str]) -> Monitor:
    """Read a state; refuse anything that `save_monitor` would not write."""
    before = _look(path)
    atoms, header = read_atoms(path, MONITOR, _NO_STATE)
    try:
        monitor = _restored(header.get("monitor"), atoms)
    except (FileFormatError, InputError, TypeError, KeyError, ValueError, AttributeError) as error:
        told = str(error) if isinstance(error, (FileFormatError, InputError)) else "its header is malformed"
        raise FileFormatError(
            f"{path} is damaged: {told}", next_step="Restore the last copy of the state"
        ) from None
    _read[monitor] = fspath(path), before
    return monitor


def _restored(content: Any, atoms: Any) -> Monitor:
    need(isinstance(content, dict), "it has no settings")
    settings = MonitorSettings.from_json(content["settings"])
    records = {str(name): PeriodRecord(**record) for name, record in content["periods"].items()}
    for name, record in records.items():
        settings.calendar.start(name)
        need(type(record.people) is int and record.people > 0, "a period has nobody")
    people = people_by_key(atoms, PERIOD)
    need(people == {name: record.people for name, record in records.items()}, "its periods do not add up")
    own = [name for name in atoms.patterns.attributes if name != PERIOD]
    need(own == list(settings.columns.attributes), "its groups are not those of its settings")
    watched = [
        WatchedGroup(Group(tuple((str(a), level) for a, level in one["group"])), int(one["later"]))
        for one in content["watched"]
    ]
    need(bool(watched) and {a for one in watched for a, _ in one.group.conditions} <= {*own}, "its groups")
    edges = [float(edge) for edge in content["edges"]]
    return Monitor.restored(settings, Identity(**content["identity"]), atoms, records, watched, edges)


def _look(path: str | PathLike[str]) -> tuple[int, ...]:
    found = stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
