"""The store of an experiment: an SQLite file with one row for each trial.

The trials of a base model and seed are added in one transaction and have a key, so that an interrupted run
leaves only complete trials, and a continued run adds none twice.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from propcal.errors import FileFormatError, InputError

if TYPE_CHECKING:
    import pandas as pd

FORMAT, VERSION = "propcal-admissions", 2

TRIAL_COLUMNS = {
    "seed": "INTEGER NOT NULL",
    "model": "TEXT NOT NULL",
    "setting": "TEXT NOT NULL",  # Setting.key()
    "method": "TEXT NOT NULL",
    "groups": "TEXT NOT NULL",
    "alpha": "REAL",
    "gamma": "REAL",
    "rho": "REAL",
    "fit_alpha": "REAL",
    "n_train": "INTEGER NOT NULL",  # rows of the base model
    "n_post": "INTEGER NOT NULL",  # rows to which post-processing was fitted
    "n_test": "INTEGER NOT NULL",
    "n_updates": "INTEGER NOT NULL",
    "n_sweeps": "INTEGER NOT NULL",
    "converged": "INTEGER NOT NULL",
    "fit_seconds": "REAL NOT NULL",
    "evaluation_seconds": "REAL NOT NULL",
    # on the test set
    "auroc": "REAL",
    "brier": "REAL NOT NULL",
    "log_loss": "REAL NOT NULL",
    "mc_loss": "REAL",  # by settings.RULE
    "pmc_loss": "REAL",
    "dc_loss": "REAL",
    "sizes_mc_loss": "REAL",  # by settings.SIZES_RULE
    "sizes_pmc_loss": "REAL",
    "sizes_dc_loss": "REAL",
    "own_mc_loss": "REAL",  # by the fit's own rule
    "own_pmc_loss": "REAL",
    "own_dc_loss": "REAL",
    "base_own_mc_loss": "REAL",  # of the base model, by the fit's own rule
    "base_own_pmc_loss": "REAL",
    "base_own_dc_loss": "REAL",
    "true_risk_rms": "REAL",  # root mean squared error against the true risk, if known
    # on the rows of the fit, by its own rule: what Algorithm 1 guarantees
    "train_mc_loss": "REAL",
    "train_pmc_loss": "REAL",
}
CURVE_COLUMNS = {
    "seed": "INTEGER NOT NULL",
    "model": "TEXT NOT NULL",
    "setting": "TEXT NOT NULL",
    "method": "TEXT NOT NULL",
    "group_name": "TEXT NOT NULL",
    "bin_index": "INTEGER NOT NULL",
    "people": "INTEGER NOT NULL",
    "positives": "INTEGER NOT NULL",
    "score_sum": "REAL NOT NULL",
}
_KEYS = {"trials": "seed, model, setting", "curves": "seed, model, setting, group_name, bin_index"}
_TABLES = {"trials": TRIAL_COLUMNS, "curves": CURVE_COLUMNS}
_NUMBERS = ("integer", "floating", "mixed-integer-float", "empty")  # as pandas calls them
# Errors of SQLite that say nothing about the content: locked for a minute, read-only, disk full.
_NOT_DAMAGED = tuple(
    f"SQLITE_{name}" for name in ("BUSY", "CANTOPEN", "FULL", "IOERR", "LOCKED", "PERM", "READONLY")
)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# What a reader calls entries of `about` that have another name there.
_CALLED = {"name": "setup", "person": "cluster", "groupings": "groups", "alone": "rows without a person"}


def _difference(key: str, there: Any, now: Any) -> str:
    """The first difference between two entries of `about`.

    >>> _difference("setup", {"name": "public", "eta": 0.25}, {"name": "printed", "eta": 1})
    'setup: public there, printed now'
    >>> _difference("columns", {"groupings": [["sex", "payer"], ["age"]]}, {"groupings": [["sex"]]})
    'groups: sex x payer, age there, sex now'
    """
    if isinstance(there, Mapping) and isinstance(now, Mapping):
        for name in [*now, *there]:
            if there.get(name) != now.get(name):
                return _difference(name, there.get(name), now.get(name))
    joint = ", " if key == "features" else " x "
    return f"{_CALLED.get(key, key)}: {_said(there, joint)} there, {_said(now, joint)} now"


def _said(value: Any, joint: str) -> str:
    """An entry of `about` in words; `joint` joins the names of an inner list."""
    if not isinstance(value, list):
        return "none" if value is None else str(value)
    parts = [joint.join(map(str, one)) if isinstance(one, list) else str(one) for one in value]
    return ", ".join(part for part in parts if part)


class Store:
    """Trials on disk.

    Parameters
    ----------
    path : path
        The SQLite file.
    about : mapping, optional
        What all trials have in common: cohort, grid, rule, rows. An existing file must have the same;
        otherwise an error says what differs, and the file is not changed. None accepts any store.
    """

    def __init__(self, path: str | PathLike[str], about: Mapping[str, Any] | None = None) -> None:
        self.path = Path(path)
        if about is None and not self.path.is_file():
            raise InputError(
                f"there are no trials at {path}",
                next_step="Run propcal paper admissions or propcal paper experiment with -o "
                f"{quote(str(path))}",
            )
        new = not self.path.exists()
        try:
            with self._connected() as connection:
                known = self._about(connection)
                if known is None:
                    if about is None:
                        raise FileFormatError(f"{path} has no trials: it is not a store written by propcal")
                    self._create(connection, about)
                    known = json.loads(json.dumps(dict(about)))
        except BaseException:
            if new and self.path.is_file() and not self.path.stat().st_size:
                self.path.unlink()
            raise
        self.about: dict[str, Any] = known
        if about is not None:
            self._refuse_others(json.loads(json.dumps(dict(about))))

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to the file; what SQLite says about the file or the disk is told in words."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as connection:
                yield connection
        except sqlite3.IntegrityError:  # not about the file
            raise
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "").startswith(_NOT_DAMAGED):
                raise InputError(
                    f"cannot use {self.path}: {error}",
                    next_step="The trials stored so far are intact; fix the problem and run the same command "
                    "again to continue",
                ) from None
            raise self._damaged(str(error).split(" with text")[0]) from None  # no garbled text

    def _damaged(self, why: object) -> FileFormatError:
        return FileFormatError(
            f"{self.path} is not a store of trials, or it is damaged ({why})",
            next_step="Name another file",
        )

    def _about(self, connection: sqlite3.Connection) -> dict[str, Any] | None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "about" not in tables:
            if tables:
                raise FileFormatError(
                    f"{self.path} is a database for something else", next_step="Name another file"
                )
            return None
        content = dict(connection.execute("SELECT key, value FROM about"))
        if content.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path} is a database for something else", next_step="Name another file"
            )
        if content.get("version") != str(VERSION):
            raise FileFormatError(
                f"{self.path} was written by another version of propcal (file version "
                f"{content.get('version')}, this one writes {VERSION})",
                next_step="Name another file",
            )
        there = {row[1] for row in connection.execute("PRAGMA table_info(trials)")}
        lacking = [name for name in TRIAL_COLUMNS if name not in there]
        if lacking or len(there) > len(TRIAL_COLUMNS):
            raise FileFormatError(
                f"{self.path} was written by another version of propcal: its trials have different columns"
                f"{', without ' + ', '.join(lacking) if lacking else ''}",
                next_step="Name another file",
            )
        try:
            return dict(json.loads(content["about"]))
        except (KeyError, TypeError, ValueError):
            raise self._damaged("what its trials have in common cannot be read") from None

    def _create(self, connection: sqlite3.Connection, about: Mapping[str, Any]) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table, columns in _TABLES.items():
                listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
                connection.execute(f"CREATE TABLE {table} ({listed}, PRIMARY KEY ({_KEYS[table]}))")
            connection.execute("CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            entries = [("format", FORMAT), ("version", str(VERSION)), ("about", json.dumps(dict(about)))]
            connection.executemany("INSERT INTO about VALUES (?, ?)", entries)

    def _refuse_others(self, about: dict[str, Any]) -> None:
        for key in [*about, *self.about]:
            if about.get(key) != self.about.get(key) and key == "fingerprint":
                raise InputError(
                    f"{self.path} has trials with other data than these",
                    next_step="Name another file, or use the data with which it was begun",
                )
            if about.get(key) != self.about.get(key):
                raise InputError(
                    f"{self.path} has trials with a different setting of "
                    f"{_difference(key, self.about.get(key), about.get(key))}",
                    next_step="Name another file",
                )

    def done(self) -> set[tuple[int, str, str]]:
        """The seed, base model and setting of each stored trial."""
        with self._connected() as connection:
            return {*connection.execute("SELECT seed, model, setting FROM trials")}

    def add(self, trials: Iterable[Mapping[str, Any]], curves: Iterable[Mapping[str, Any]] = ()) -> None:
        """Add trials, either all or none; trials that are already stored stay unchanged."""
        with self._connected() as connection, connection:
            for table, rows in (("trials", trials), ("curves", curves)):
                names = list(_TABLES[table])
                marks = ", ".join("?" for _ in names)
                insert = f"INSERT INTO {table} ({_listed(names)}) VALUES ({marks})"
                connection.executemany(
                    f"{insert} ON CONFLICT ({_KEYS[table]}) DO NOTHING",
                    [[row[name] for name in names] for row in rows],
                )

    def trials(self) -> pd.DataFrame:
        """All trials, one row each, ordered by seed, model and setting."""
        return self._frame("trials")

    def curves(self) -> pd.DataFrame:
        """The counts of the calibration curves: one row for each seed, model, setting, group and bin."""
        return self._frame("curves")

    def _frame(self, table: str) -> pd.DataFrame:
        import pandas as pd

        columns = _TABLES[table]
        with self._connected() as connection:
            query = f"SELECT {_listed(columns)} FROM {table} ORDER BY {_KEYS[table]}"
            rows = connection.execute(query).fetchall()
        frame = pd.DataFrame(rows, columns=list(columns))
        for name, kind in columns.items():
            found = pd.api.types.infer_dtype(frame[name], skipna=True)
            if found not in (("string", "empty") if kind.startswith("TEXT") else _NUMBERS):
                raise self._damaged(f"{name} in the table {table} holds {found} values")
        return frame
