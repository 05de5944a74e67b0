"""Reads and writes the state of a monitor: atoms by period, and its settings."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from os.path import realpath
from typing import Any
from weakref import WeakKeyDictionary

from propcal.core.atoms import Atoms
from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import people_by
from propcal.errors import Argument, FileFormatError, InputError, PropcalError, refused
from propcal.formats.atoms_file import read_atoms, save_atoms
from propcal.formats.strict_json import need
from propcal.formats.transaction import Look, look_of, outputs
from propcal.monitoring.monitor import Monitor, PeriodRecord
from propcal.monitoring.watched_groups import WatchedGroup
from propcal.options import Identity, given

MONITOR = ("propcal-monitor", 1)
_NO_STATE = "is not the state of a monitor: " + Argument(
    "Monitor.save", written="write one with Monitor.save"
)
# what the file looked like when a monitor was read from it
_looked: WeakKeyDictionary[Monitor, tuple[str, Look | None]] = WeakKeyDictionary()


def save_monitor(monitor: Monitor, path: str | PathLike[str]) -> None:
    """Write the state, whole or not at all; refuse if another run has changed the file
    meanwhile.
    """
    if monitor.atoms is None:
        raise InputError("the monitor has no people yet, so there is nothing to save")
    periods = {period: asdict(monitor.records[period]) for period in monitor.periods}
    watched = []
    for group in monitor.watched:
        conditions = list(map(list, group.group.conditions))
        watched.append({"group": conditions, "later": group.later})
    content = {
        "settings": monitor.settings,
        "identity": asdict(monitor.identity),
        "periods": periods,
        "watched": watched,
        "edges": monitor.edges,
    }
    read_from, look = _looked.get(monitor, ("", None))
    is_own_file = read_from == realpath(path)
    with outputs() as out:
        save_atoms(monitor.atoms, path, kind=MONITOR, more={"monitor": content})
        if is_own_file:
            out.unless_changed(path, look)
    if is_own_file:
        _looked[monitor] = realpath(path), look_of(path)


def load_monitor(path: str | PathLike[str]) -> Monitor:
    """Read a state; refuse anything that `save_monitor` would not write."""
    before = look_of(path)
    atoms, header = read_atoms(path, MONITOR, _NO_STATE)
    try:
        monitor = _restored(header.get("monitor"), atoms)
    except (FileFormatError, InputError) as error:
        raise _damaged(path, str(error)) from None
    except (TypeError, KeyError, ValueError, AttributeError):
        raise _damaged(path, "its header is malformed") from None
    _looked[monitor] = realpath(path), before
    return monitor


def _damaged(path: str | PathLike[str], problem: str) -> PropcalError:
    return refused("state damaged", FileFormatError, path=path, told=problem)


def _restored(content: Any, atoms: Atoms) -> Monitor:
    """The monitor of a header and its atoms, which must belong together."""
    need(isinstance(content, dict), "it has no settings")
    monitor = Monitor(**content["settings"], **given(Identity(**content["identity"])))

    records = {}
    for name, record in content["periods"].items():
        monitor.calendar.start(name)
        records[str(name)] = PeriodRecord(**record)
    for record in records.values():
        need(type(record.people) is int and record.people > 0, "a period has nobody")
    people = {name: record.people for name, record in records.items()}
    need(people == people_by(atoms, PERIOD), "its periods do not add up")

    attributes = [name for name in atoms.patterns.attributes if name != PERIOD]
    of_settings = list(monitor.columns.attributes)
    need(attributes == of_settings, "its groups are not those of its settings")
    watched = []
    for entry in content["watched"]:
        conditions = []
        for name, level in entry["group"]:
            need(name in attributes, "its groups")
            conditions.append((name, level))
        watched.append(WatchedGroup(Group(tuple(conditions)), int(entry["later"])))
    need(watched, "its groups")

    monitor.edges = list(map(float, content["edges"]))
    monitor.atoms = atoms
    monitor.records = records
    monitor.watched = watched
    return monitor
