"""Reads and writes the state of a monitor: one Parquet file of atoms by period, marked as personal data."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from os.path import realpath
from typing import Any
from weakref import WeakKeyDictionary

from propcal.core.groups import Group
from propcal.core.patterns import PERIOD
from propcal.core.reduction import people_by_key
from propcal.errors import Argument, FileFormatError, InputError, refused
from propcal.files.atoms_file import read_atoms, save_atoms
from propcal.files.strict_json import need
from propcal.files.transaction import Look, look_of, outputs
from propcal.monitoring.monitor import Monitor, PeriodRecord
from propcal.monitoring.watched_groups import WatchedGroup
from propcal.option_records import Identity, given

MONITOR = ("propcal-monitor", 1)
_NO_STATE = "is not the state of a monitor: " + Argument(
    "Monitor.save", written="write one with Monitor.save"
)
# what the file looked like when a monitor was read from it
_read: WeakKeyDictionary[Monitor, tuple[str, Look | None]] = WeakKeyDictionary()


def save_monitor(monitor: Monitor, path: str | PathLike[str]) -> None:
    """Write the state, whole or not at all; refuse if another run has changed the file meanwhile."""
    if monitor.atoms is None:
        raise InputError("the monitor has no people yet, so there is nothing to save")
    content = {
        "settings": monitor.settings,
        "identity": asdict(monitor.identity),
        "periods": {period: asdict(monitor.records[period]) for period in monitor.periods},
        "watched": [
            {"group": [list(pair) for pair in one.group.conditions], "later": one.later}
            for one in monitor.watched
        ],
        "edges": monitor.edges,
    }
    known = _read.get(monitor)
    again = known is not None and known[0] == realpath(path)
    with outputs() as out:
        save_atoms(monitor.atoms, path, kind=MONITOR, more={"monitor": content})
        if known is not None and again:
            out.unless_changed(path, known[1])
    if again:
        _read[monitor] = realpath(path), look_of(path)


def load_monitor(path: str | PathLike[str]) -> Monitor:
    """Read a state; refuse anything that `save_monitor` would not write."""
    before = look_of(path)
    atoms, header = read_atoms(path, MONITOR, _NO_STATE)
    try:
        monitor = _restored(header.get("monitor"), atoms)
    except (FileFormatError, InputError, TypeError, KeyError, ValueError, AttributeError) as error:
        told = str(error) if isinstance(error, (FileFormatError, InputError)) else "its header is malformed"
        raise refused("state damaged", FileFormatError, path=path, told=told) from None
    _read[monitor] = realpath(path), before
    return monitor


def _restored(content: Any, atoms: Any) -> Monitor:
    need(isinstance(content, dict), "it has no settings")
    monitor = Monitor(**content["settings"], **given(Identity(**content["identity"])))
    records = {str(name): PeriodRecord(**record) for name, record in content["periods"].items()}
    for name, record in records.items():
        monitor.calendar.start(name)
        need(type(record.people) is int and record.people > 0, "a period has nobody")
    people = people_by_key(atoms, PERIOD)
    need(people == {name: record.people for name, record in records.items()}, "its periods do not add up")
    own = [name for name in atoms.patterns.attributes if name != PERIOD]
    need(own == list(monitor.columns.attributes), "its groups are not those of its settings")
    watched = [
        WatchedGroup(Group(tuple((str(a), level) for a, level in one["group"])), int(one["later"]))
        for one in content["watched"]
    ]
    need(bool(watched) and {a for one in watched for a, _ in one.group.conditions} <= {*own}, "its groups")
    monitor.edges = [float(edge) for edge in content["edges"]]
    monitor.atoms, monitor.records, monitor.watched = atoms, records, watched
    return monitor
