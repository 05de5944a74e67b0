"""The store of an experiment, an SQLite file with one row for each trial (its tables:
trial_store.sql).

The trials of a base model and seed are added in one transaction and have a key, so that
an interrupted run leaves only complete trials, and a continued run adds none twice.
`Evidence` is what a store holds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from propcal.building_blocks import FileFormatError, noun, plural
from propcal_paper import settings as s
from propcal_paper.errors import refused
from propcal_paper.settings import (
    BASE,
    MC,
    MODELS,
    OURS,
    OWN,
    PMC,
    CohortColumns,
    Setup,
)

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
KEYS = ["seed", "model", "setting"]  # of a trial
_SETTING = ["groups", "alpha", "gamma", "rho", "min_share", "n_test"]
_KEYS_OF_BASE = ["seed", "model", "groups"]
METRICS = {
    "auroc": "AUROC",
    "mc_loss": "MC loss",
    "pmc_loss": "PMC loss",
    "dc_loss": "DC loss",
}
HIGHER_IS_BETTER = ("auroc",)
LOSSES = tuple(name for name in METRICS if name not in HIGHER_IS_BETTER)
_PREFIX = {s.FIXED: "", s.SIZES: "sizes_", OWN: "own_"}  # of the losses by each rule


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The columns of a table with their types."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}


with closing(sqlite3.connect(":memory:")) as _empty:
    _empty.executescript(SCHEMA)
    TRIAL_COLUMNS, CURVE_COLUMNS = (
        _columns(_empty, table) for table in ("trials", "curves")
    )
_TABLES = {"trials": TRIAL_COLUMNS, "curves": CURVE_COLUMNS}


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
        now = json.loads(json.dumps(about))
        try:
            with self._connected() as connection:
                tables = {
                    name
                    for (name,) in connection.execute("SELECT name FROM sqlite_master")
                }
                if not tables and about is not None:
                    entries = [*HEADER.items(), ("about", json.dumps(now))]
                    connection.executescript(f"BEGIN IMMEDIATE;\n{SCHEMA}")
                    connection.executemany("INSERT INTO about VALUES (?, ?)", entries)
                    connection.commit()
                self.about = self._read_about(connection)
        except BaseException:
            if new and self.path.is_file() and not self.path.stat().st_size:
                self.path.unlink()
            raise
        if about is not None:
            self._refuse_others(_current(now))
            if not new:
                self._refuse_damage()

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
        there = _columns(connection, "about")
        if there:
            content = dict(connection.execute("SELECT key, value FROM about"))
        else:
            content = {}
        if content.get("format") != HEADER["format"]:
            raise self._refusal("holds something else than trials of propcal")
        columns = _columns(connection, "trials")
        if content.get("version") != HEADER["version"] or columns != TRIAL_COLUMNS:
            lacking = ", ".join(name for name in TRIAL_COLUMNS if name not in columns)
            versions = f"file version {content.get('version')}, this one writes {HEADER['version']}"
            without = f", without {lacking}" if lacking else ""
            raise self._refusal(
                f"was written by another version of propcal: {versions}{without}"
            )
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
        first = next(
            (key for key in [*now, *self.about] if now.get(key) != self.about.get(key)),
            None,
        )
        if first == "fingerprint":
            raise refused("other data", path=self.path)
        if first:
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
            for (table, columns), rows in zip(_TABLES.items(), (trials, curves)):
                values = ", ".join(f":{name}" for name in columns)
                insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
                connection.executemany(f"{insert} ON CONFLICT DO NOTHING", rows)

    def trials(self) -> pd.DataFrame:
        """All trials, one row each, ordered by seed, model and setting."""
        return self._frame("trials", "seed, model, setting")

    def curves(self) -> pd.DataFrame:
        """The counts of the calibration curves: one row for each seed, model, setting,
        group and bin.
        """
        return self._frame("curves", "seed, model, setting, group_name, bin_index")

    def _frame(self, table: str, order: str) -> pd.DataFrame:
        columns = _TABLES[table]
        kinds = {"REAL": "float64", "INTEGER": "int64"}
        with self._connected() as connection:
            query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"
            frame = pd.DataFrame(
                connection.execute(query).fetchall(), columns=list(columns)
            )
        try:
            whole = frame.astype(
                {name: kinds[kind] for name, kind in columns.items() if kind in kinds}
            )
        except (TypeError, ValueError):
            raise self._refusal(
                f"is damaged: the table {table} holds text in place of numbers"
            ) from None
        texts = frame[[name for name, kind in columns.items() if kind not in kinds]]
        if not all(isinstance(value, str) for value in texts.to_numpy().ravel()):
            raise self._refusal(
                f"is damaged: the table {table} holds numbers in place of text"
            )
        return whole


def _current(about: Mapping[str, Any]) -> dict[str, Any]:
    """What trials have in common, with all entries of the set-up; stores before 0.3
    have fewer.
    """
    return {
        **about,
        **({"setup": s.setup_of(about["setup"]).about()} if "setup" in about else {}),
    }


def _difference(key: str, there: Any, now: Any) -> str:
    """The first difference between two entries of `about`.

    >>> _difference("setup", {"name": "public", "eta": 0.25}, {"name": "printed", "eta": 1})
    'setup: public there, printed now'
    >>> _difference("columns", {"groupings": [["sex", "payer"], ["age"]]}, {"groupings": [["sex"]]})
    'groups: sex x payer, age there, sex now'
    >>> _difference("columns", {"outcome": "admitted"}, {"outcome": "admitted", "person": "subject_id"})
    'split: visit there, patient now'
    """
    if isinstance(there, Mapping) and isinstance(now, Mapping):
        for name in [*now, *there]:
            if there.get(name) != now.get(name):
                if name == "person" and now.get("outcome") == s.ADMISSIONS.outcome:
                    return f"split: {'visit there, patient' if now[name] else 'patient there, visit'} now"
                return _difference(name, there.get(name), now.get(name))
    joint = ", " if key == "features" else " x "
    return (
        f"{_CALLED.get(key, key)}: {_said(there, joint)} there, {_said(now, joint)} now"
    )


def _said(value: Any, joint: str) -> str:
    """An entry of `about` in words; `joint` joins the names of an inner list."""
    if not isinstance(value, list):
        return "none" if value is None else str(value)
    parts = [
        joint.join(map(str, one)) if isinstance(one, list) else str(one)
        for one in value
    ]
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Evidence:
    """The trials of a store, the counts of their calibration curves, and what all
    trials have in common.

    `trials` has the losses by one rule (`rule`), and beside each metric that of the
    base model by the same rule, as `base_auroc`, `base_mc_loss` and so on. `stored` is
    what the store holds, or that without our method (`ours` is false).
    """

    stored: pd.DataFrame
    curves: pd.DataFrame
    about: Mapping[str, Any]
    rule: str = s.FIXED
    ours: bool = True

    @classmethod
    def from_store(cls, path: str | PathLike[str], *, cells: bool = True) -> Evidence:
        """Read a store; refuse one without trials, and unless `cells` one that varies
        the smallest cell.
        """
        store = Store(path)
        trials = store.trials()
        if trials.empty:
            raise refused("no trials", path=path, quoted=quote(str(path)))
        smallest = (
            trials["setting"].str.extract(r"; min_share=([^;]+)")[0].astype(float)
        )
        if not cells and smallest.notna().any():
            raise refused("other cells", path=path)
        return cls(trials.assign(min_share=smallest), store.curves(), store.about)

    def by(self, rule: str) -> Evidence:
        """These trials with their losses by another rule."""
        return replace(self, rule=rule)

    def without_ours(self) -> Evidence:
        """These trials without our default method, which is not in the paper."""
        stored, curves = (
            frame[frame["method"] != OURS] for frame in (self.stored, self.curves)
        )
        return replace(self, stored=stored, curves=curves, ours=False)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """All trials, with the losses by the rule, and those of their base model."""
        found = self.stored.assign(
            **{loss: self.stored[f"{_PREFIX[self.rule]}{loss}"] for loss in LOSSES}
        )
        base = (
            found[found["method"] == BASE]
            .set_index(_KEYS_OF_BASE)[[*METRICS]]
            .add_prefix("base_")
        )
        found = found.join(base, on=_KEYS_OF_BASE)
        if self.rule == OWN:
            found = found.assign(
                **{f"base_{loss}": found[f"base_own_{loss}"] for loss in LOSSES}
            )
            return _with_base_of_every_setting(found)
        return found

    @cached_property
    def counts(self) -> pd.DataFrame:
        """The counts of the calibration curves, with the settings of their trials."""
        return self.curves.merge(self.stored[[*KEYS, *_SETTING]], on=KEYS)

    @cached_property
    def group_sums(self) -> pd.DataFrame:
        """People, outcomes and scores of each group in each trial with curves, with the
        setting of the trial.

        `off` is the sum over bins of the differences between outcomes and scores.
        """
        counts = self.counts.assign(
            off=(self.counts["positives"] - self.counts["score_sum"]).abs()
        )
        trial = [*KEYS, "method", *_SETTING]
        sums = ["people", "positives", "score_sum", "off"]
        return (
            counts.groupby([*trial, "group_name"], dropna=False)[sums]
            .sum()
            .reset_index()
        )

    @cached_property
    def columns(self) -> CohortColumns:
        """The columns of the cohort."""
        return CohortColumns.of(self.about.get("columns", {}))

    @property
    def setup(self) -> Setup:
        """The set-up of the experiment."""
        return s.setup_of(self.about.get("setup"))

    @property
    def of_admissions(self) -> bool:
        """Whether the rows are visits to the emergency department with the paper's
        outcome and groups.
        """
        return self.columns.outcome == s.ADMISSIONS.outcome

    @property
    def of_cells(self) -> bool:
        """Whether the trials vary the smallest cell, and are not those of Table 3."""
        return bool(self.stored["min_share"].notna().any())

    @property
    def attributes(self) -> dict[str, tuple[str, ...]]:
        """The attributes of each grouping, by its name in the trials."""
        return {" x ".join(names): names for names in self.columns.groupings}

    @property
    def grouping_names(self) -> list[str]:
        """The groupings as they are named in the trials."""
        return list(self.attributes)

    @property
    def methods(self) -> tuple[str, ...]:
        """The base model, MCBoost, PMCBoost and our method, as far as there are trials
        of them.
        """
        return tuple(m for m in (BASE, MC, PMC, OURS) if m in {*self.stored["method"]})

    @property
    def models(self) -> tuple[str, ...]:
        """The base models, in the paper's order."""
        return tuple(m for m in MODELS if m in {*self.stored["model"]})

    @cached_property
    def seeds(self) -> list[int]:
        """The shuffles of the data with at least one trial."""
        return sorted(self.stored["seed"].unique().tolist())

    @property
    def n_seeds(self) -> int:
        """The number of shuffles of the data with at least one trial."""
        return len(self.seeds)

    def seeds_of(self, model: str) -> int:
        """The number of shuffles with at least one trial of a base model."""
        return int(self.stored.loc[self.stored["model"] == model, "seed"].nunique())

    @property
    def cohort(self) -> str:
        """The store's description of its visits."""
        return str(self.about.get("cohort", "a cohort that the store does not name"))

    @property
    def name(self) -> str:
        """The run in a few words: the simulated visits, or the file and the outcome;
        and the set-up.
        """
        of_file = f"{self.cohort.removeprefix('a file of ')}, {self.columns.outcome}"
        if self.generated:
            what = f"{self.about.get('surrogate', 'weak')} visits"
        else:
            what = of_file
        return f"{what}, {self.setup.name}"

    @property
    def generated(self) -> bool:
        """Whether the visits are simulated."""
        return "generated" in self.cohort.lower()

    @property
    def n_rows(self) -> int:
        """The number of rows of a shuffle (with splits by person it may differ a little
        between shuffles).
        """
        parts = ["n_train", "n_test", *(["n_post"] if self.setup.kept_apart else [])]
        return int(self.stored[parts].iloc[0].sum())

    def processor_seconds(self) -> float:
        """Processor time of the whole run: training, post-processing, and
        evaluation.
        """
        trials = self.stored
        base = self.stored["method"] == BASE
        trained = trials[base].drop_duplicates(
            ["seed", "model"]
        )  # once for all groupings
        # settings of MCBoost that differ in rho alone share a fit
        algorithm = trials["method"].where(trials["method"].isin((PMC, OURS)), MC)
        fits = trials.assign(
            method=algorithm, rho=trials["rho"].where(algorithm == PMC)
        )[~base]
        fits = fits.drop_duplicates(
            [*_KEYS_OF_BASE, "method", "fit_alpha", "gamma", "rho", "min_share"]
        )
        fitted = trained["fit_seconds"].sum() + fits["fit_seconds"].sum()
        return float(fitted + trials["evaluation_seconds"].sum())

    def caption(self) -> str:
        """The line below every figure: which visits, and how many shuffles."""
        if self.generated:
            whose = "Simulated visits, no patients"
        else:
            whose = f"Data: {self.cohort}"
        counts = {model: self.seeds_of(model) for model in self.models}
        said = "Shuffles of the data (seeds): " + ", ".join(
            f"{model} {n}" for model, n in counts.items()
        )
        if len({*counts.values()}) == 1:
            said = f"{_shuffles(self.n_seeds)} ({noun(self.n_seeds, 'seed')}) for each model"
        absent = [model for model in MODELS if model not in counts]
        return f"{whose}. {said}." + (
            f" No {' and '.join(absent)} yet." if absent else ""
        )

    def by_which(self) -> str:
        """The sentence about the rule of the losses below a figure."""
        return f"Set-up {self.setup.name}; losses by {s.RULES[self.rule]}."

    def how_sure(self) -> str:
        """The sentence about intervals below a figure."""
        several = "Intervals: 99 % bootstrap intervals over seeds."
        if self.n_seeds > 1:
            return several
        return "There are no intervals with one seed."

    def missing(self) -> list[str]:
        """Sentences on what is missing compared with a finished run of the seeds begun
        so far.
        """
        said = [
            f"There are no trials of {model} yet."
            for model in MODELS
            if model not in self.models
        ]
        wanted = s.grid([*self.attributes.values()], s.GRIDS[self.of_cells])
        wanted = [one for one in wanted if self.ours or one.method != OURS]
        for model in self.models:
            rows = self.stored[self.stored["model"] == model]
            n = self.n_seeds - self.seeds_of(model)
            partial = int(
                (rows.groupby("seed")["setting"].nunique() < len(wanted)).sum()
            )
            lacking = [f"{n} of {self.n_seeds} shuffles"] if n else []
            lacking += [f"some settings of {_shuffles(partial)}"] if partial else []
            if lacking:
                said.append(f"{model}: {' and '.join(lacking)} are still missing.")
        fits = self.stored[self.stored["method"] != BASE]
        if failed := int((fits["converged"] == 0).sum()):
            said.append(f"{failed:,} of {len(fits):,} fits stopped at their limit.")
        undefined = {
            name: int(self.trials[key].isna().sum()) for key, name in METRICS.items()
        }
        said += [
            f"{name} could not be computed in {n:,} trials."
            for name, n in undefined.items()
            if n
        ]
        return said


def _with_base_of_every_setting(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials, with a row of the base model for each setting, judged by the rule of
    that setting.
    """
    columns = ["alpha", "gamma", "rho", *(f"base_{loss}" for loss in LOSSES)]
    settings = trials.loc[trials["method"] == PMC, [*_KEYS_OF_BASE, *columns]]
    base = trials[trials["method"] == BASE].drop(columns=columns)
    repeated = base.merge(settings, on=_KEYS_OF_BASE)
    repeated = repeated.assign(**{loss: repeated[f"base_{loss}"] for loss in LOSSES})
    others = trials[trials["method"] != BASE]
    if len(repeated):
        return pd.concat([others, repeated[others.columns]], ignore_index=True)
    return trials


def _shuffles(n: int) -> str:
    return f"{plural(n, 'shuffle')} of the data"
