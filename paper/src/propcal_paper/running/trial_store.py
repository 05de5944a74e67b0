"""The store of an experiment: an SQLite file with one row for each trial.

The trials of a base model and seed are added in one transaction and have a key, so that
an interrupted run leaves only complete trials, and a continued run adds none twice.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.resources import files
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from propcal.building_blocks import FileFormatError
from propcal_paper.errors import refused
from propcal_paper.settings import ADMISSIONS
from propcal_paper.setups import setup_of

HEADER = {"format": "propcal-admissions", "version": "2"}
SCHEMA = (files("propcal_paper") / "trial_store.sql").read_text(encoding="utf-8")
# Errors of SQLite that say nothing about the content: locked for a minute, read-only,
# disk full.
_NOT_DAMAGED = tuple(
    f"SQLITE_{name}"
    for name in ("BUSY", "CANTOPEN", "FULL", "IOERR", "LOCKED", "PERM", "READONLY")
)
# What a reader calls entries of `about` that have another name there.
_CALLED = {
    "name": "setup",
    "person": "cluster",
    "groupings": "groups",
    "alone": "rows without a person",
}


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The columns of a table with their types."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


with closing(sqlite3.connect(":memory:")) as _empty:
    _empty.executescript(SCHEMA)
    TRIAL_COLUMNS = _columns(_empty, "trials")
    CURVE_COLUMNS = _columns(_empty, "curves")
TABLES = {"trials": TRIAL_COLUMNS, "curves": CURVE_COLUMNS}
NUMBER_TYPES = {"REAL": "float64", "INTEGER": "int64"}


class Store:
    """Trials on disk.

    Parameters
    ----------
    path : path
        The SQLite file.
    about : mapping, optional
        What all trials have in common: cohort, grid, rule, rows. An existing file must
        have the same; otherwise an error says what differs, and the file is not
        changed. None accepts any store.
    """

    def __init__(
        self, path: str | PathLike[str], about: Mapping[str, Any] | None = None
    ) -> None:
        self.path = Path(path)
        if about is None and not self.path.is_file():
            raise refused("no store", path=path, quoted=quote(str(path)))
        new = not self.path.exists()
        try:
            with self._connected() as connection:
                if about is not None and not _tables(connection):
                    _create(connection, about)
                self.about = self._read_about(connection)
        except BaseException:
            self._remove_empty_file(new=new)
            raise
        if about is not None:
            self._refuse_others(_current(json.loads(json.dumps(about))))
            if not new:
                self._refuse_damage()

    def _remove_empty_file(self, *, new: bool) -> None:
        """Leave nothing behind of a store that could not be made."""
        if new and self.path.is_file() and not self.path.stat().st_size:
            self.path.unlink()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to the file; what SQLite says about the file or the disk is told
        in words.
        """
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as connection:
                yield connection
        except sqlite3.IntegrityError:  # not about the file
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorname", "").startswith(_NOT_DAMAGED):
                raise refused("unusable store", path=self.path, error=error) from None
            why = str(error).split(" with text")[0]
            raise self._refusal(
                f"is not a store of trials, or it is damaged ({why})"
            ) from None

    def _refusal(self, why: str) -> FileFormatError:
        return FileFormatError(f"{self.path} {why}", next_step="Name another file")

    def _read_about(self, connection: sqlite3.Connection) -> dict[str, Any]:
        """What all trials have in common; files of other programs and other versions
        are refused.
        """
        content: dict[str, str] = {}
        if _columns(connection, "about"):
            content = dict(connection.execute("SELECT key, value FROM about"))
        if content.get("format") != HEADER["format"]:
            raise self._refusal("holds something else than trials of propcal")

        version = content.get("version")
        columns = _columns(connection, "trials")
        if version != HEADER["version"] or columns != TRIAL_COLUMNS:
            said = f"file version {version}, this one writes {HEADER['version']}"
            lacking = [name for name in TRIAL_COLUMNS if name not in columns]
            if lacking:
                said += f", without {', '.join(lacking)}"
            raise self._refusal(f"was written by another version of propcal: {said}")
        try:
            return _current(json.loads(content["about"]))
        except (KeyError, TypeError, ValueError):
            raise self._refusal(
                "is damaged: what its trials have in common cannot be read"
            ) from None

    def _refuse_damage(self) -> None:
        """Check the whole file before trials are added, which takes seconds for a large
        one.
        """
        with self._connected() as connection:
            if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("database disk image is malformed")

    def _refuse_others(self, now: Mapping[str, Any]) -> None:
        different = [key for key in now if now[key] != self.about.get(key)]
        different += [key for key in self.about if key not in now]
        if not different:
            return
        first = different[0]
        if first == "fingerprint":
            raise refused("other data", path=self.path)
        said = _difference(first, self.about.get(first), now.get(first))
        raise refused("other setting", path=self.path, said=said)

    def done(self) -> set[tuple[int, str, str]]:
        """The seed, base model and setting of each stored trial."""
        with self._connected() as connection:
            return {*connection.execute("SELECT seed, model, setting FROM trials")}

    def add(
        self,
        trials: Iterable[Mapping[str, Any]],
        curves: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Add trials, either all or none; trials that are already stored stay
        unchanged.
        """
        with self._connected() as connection, connection:
            for table, rows in (("trials", trials), ("curves", curves)):
                columns = TABLES[table]
                places = ", ".join(f":{name}" for name in columns)
                into = f"{table} ({', '.join(columns)})"
                insert = f"INSERT INTO {into} VALUES ({places}) ON CONFLICT DO NOTHING"
                connection.executemany(insert, rows)

    def trials(self) -> pd.DataFrame:
        """All trials, one row each, ordered by seed, model and setting."""
        return self._frame("trials", "seed, model, setting")

    def curves(self) -> pd.DataFrame:
        """The counts of the calibration curves: one row for each seed, model, setting,
        group and bin.
        """
        return self._frame("curves", "seed, model, setting, group_name, bin_index")

    def _frame(self, table: str, order: str) -> pd.DataFrame:
        columns = TABLES[table]
        query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"
        with self._connected() as connection:
            rows = connection.execute(query).fetchall()
        frame = pd.DataFrame(rows, columns=list(columns))

        kinds = {}
        texts = []
        for name, kind in columns.items():
            if kind in NUMBER_TYPES:
                kinds[name] = NUMBER_TYPES[kind]
            else:
                texts.append(name)
        damaged = f"is damaged: the table {table} holds"
        try:
            whole = frame.astype(kinds)
        except (TypeError, ValueError):
            raise self._refusal(f"{damaged} text in place of numbers") from None
        if not all(isinstance(text, str) for text in frame[texts].to_numpy().ravel()):
            raise self._refusal(f"{damaged} numbers in place of text")
        return whole


def _create(connection: sqlite3.Connection, about: Mapping[str, Any]) -> None:
    """Make the tables of a store, and say what all trials have in common."""
    entries = [*HEADER.items(), ("about", json.dumps(about))]
    connection.executescript(f"BEGIN IMMEDIATE;\n{SCHEMA}")
    connection.executemany("INSERT INTO about VALUES (?, ?)", entries)
    connection.commit()


def _tables(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute("SELECT name FROM sqlite_master").fetchall()


def _current(about: Mapping[str, Any]) -> dict[str, Any]:
    """What trials have in common, with all entries of the set-up; stores before 0.3
    have fewer.
    """
    current = dict(about)
    if "setup" in about:
        current["setup"] = setup_of(about["setup"]).about()
    return current


def _difference(key: str, there: Any, now: Any) -> str:
    """The first difference between two entries of `about`.

    >>> _difference("setup", {"name": "public", "eta": 0.25}, {"name": "printed"})
    'setup: public there, printed now'
    >>> two = {"groupings": [["sex", "payer"], ["age"]]}
    >>> _difference("columns", two, {"groupings": [["sex"]]})
    'groups: sex x payer, age there, sex now'
    >>> by_visit = {"outcome": "admitted"}
    >>> _difference("columns", by_visit, by_visit | {"person": "subject_id"})
    'split: visit there, patient now'
    """
    if isinstance(there, Mapping) and isinstance(now, Mapping):
        for name in (*now, *there):
            if there.get(name) == now.get(name):
                continue
            if name == "person" and now.get("outcome") == ADMISSIONS.outcome:
                by_patient = "split: visit there, patient now"
                by_visit = "split: patient there, visit now"
                return by_patient if now[name] else by_visit
            return _difference(name, there.get(name), now.get(name))
    joint = ", " if key == "features" else " x "
    name = _CALLED.get(key, key)
    return f"{name}: {_said(there, joint)} there, {_said(now, joint)} now"


def _said(value: Any, joint: str) -> str:
    """An entry of `about` in words; `joint` joins the names of an inner list."""
    if value is None:
        return "none"
    if not isinstance(value, list):
        return str(value)
    parts = []
    for item in value:
        part = joint.join(map(str, item)) if isinstance(item, list) else str(item)
        if part:
            parts.append(part)
    return ", ".join(parts)
