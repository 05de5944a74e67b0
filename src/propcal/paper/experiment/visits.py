"""The people of an experiment: simulated visits, visits from a file, or any cohort file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import check_number
from propcal.data.cohorts import N_VISITS, make_ed_visits
from propcal.errors import Argument, InputError
from propcal.numbers import are, noun
from propcal.paper.experiment.cohort_columns import ADMISSIONS, TRUE_RISK, CohortColumns

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 100  # the fewest rows that can be run; the open demo of MIMIC has 215
LARGEST = float(np.finfo(np.float32).max)  # the base models use single precision
FEWEST_PEOPLE = 20  # the fewest that a split by person can use: five of them are the test set
FEW = 1000  # with fewer, test sets have groups without outcomes, and nothing can be judged
COHORT_KEY = "propcal_cohort"  # metadata key in a Parquet file: the MIMIC version and the rule
_SEED = 0  # for simulating the cohort, and for sampling --rows visits from a file


@dataclass(frozen=True)
class GeneratedVisits:
    """Simulated visits, modelled on the paper's Table 1."""

    rows: int = N_VISITS
    seed: int = _SEED
    columns = ADMISSIONS
    notes = ()

    def __post_init__(self) -> None:
        _check_rows(self.rows, N_VISITS, "the simulated cohort", "visits")

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each visit."""
        return make_ed_visits(self.rows, seed=self.seed)

    def about(self) -> dict[str, Any]:
        """The description of the visits in a store."""
        return {
            "cohort": f"generated, no patients: make_ed_visits, seed {self.seed}",
            "rows": self.rows,  # before the fingerprint, because an error names the first difference
            "fingerprint": _fingerprint(self.frame),
        }


@dataclass(frozen=True)
class CohortFile:
    """People from a CSV or Parquet file.

    Parameters
    ----------
    path : path
    asked : CohortColumns
        The columns to use.
    rows : int, optional
        Use a random sample of this many rows.
    positive : optional
        The value of the outcome that means the event; not needed for 0 and 1, or yes and no.
    na : sequence of str
        Texts that mean a missing value in a CSV file, beside the empty cell.
    how : str
        What to do if a column is missing.
    empty : tuple of str
        Columns that are not used because they have no values.
    """

    path: Path
    asked: CohortColumns
    rows: int | None = None
    positive: Any = None
    na: tuple[str, ...] = ()
    how: str = "Check the names of the columns"
    empty: tuple[str, ...] = ()

    @property
    def columns(self) -> CohortColumns:
        """The columns that are there: real people have no known true risk."""
        there = self.asked.true_risk in self.frame
        return self.asked if there else replace(self.asked, true_risk=None)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each row of the file; a random sample of them if fewer are asked for."""
        found = self._read()
        n, unit = len(found), self.asked.unit
        _check_rows(n if self.rows is None else self.rows, n, str(self.path), unit)
        if self.rows is not None and self.rows < n:
            some = np.random.default_rng(_SEED).choice(n, self.rows, replace=False)
            found = found.iloc[np.sort(some)].reset_index(drop=True)
        self._check_people(found)
        return found

    def _check_people(self, rows: pd.DataFrame) -> None:
        """Refuse so few people that a part of a split by person would have hardly any."""
        person = self.asked.person
        if person is None:
            return
        n = rows[person].nunique() + int(rows[person].isna().sum())
        if n < FEWEST_PEOPLE:
            few = "1 person" if n == 1 else f"{n} people"
            raise InputError(
                Argument("cluster", person)
                + f": the {len(rows):,} {self.asked.unit} are of {few}; a split by "
                f"person needs at least {FEWEST_PEOPLE}",
                next_step="Name the column of the patient ID, or leave it out",
            )

    def about(self) -> dict[str, Any]:
        """The description of the people in a store, without the file name, because files may be moved."""
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            while portion := file.read(1 << 20):
                digest.update(portion)
        told: dict[str, Any] = {
            "cohort": f"a file of {self.asked.unit}{_told(self.path)}",
            "rows": "all" if self.rows is None else self.rows,
        }
        if self.positive is not None:
            told["positive"] = str(self.positive)
        if self.na:
            told["na"] = sorted({*self.na})
        if self._n_alone:  # older versions left these rows out of every split
            told["alone"] = self._n_alone
        return {**told, "fingerprint": f"sha256:{digest.hexdigest()}"}

    @property
    def notes(self) -> Sequence[str]:
        """Sentences on what a user may not expect."""
        found = []
        if self.empty:
            n, names = len(self.empty), ", ".join(self.empty)
            what = "it is not a feature" if n == 1 else "they are not features"
            found.append(f"no values in {noun(n, 'column')} {names}: {what}")
        if n := self._n_alone:
            where = f"{n:,} of {len(self.frame):,} {self.asked.unit}"
            found.append(f"{self.asked.person!r} is missing in {where}: each counts as a person of its own")
        return found

    @property
    def _n_alone(self) -> int:
        """The number of rows without a person."""
        return int(self.frame[self.asked.person].isna().sum()) if self.asked.person else 0

    def _read(self) -> pd.DataFrame:
        """The columns of the experiment, checked."""
        asked, path = self.asked, self.path
        file = opened(path, self.na)
        lacking = [name for name in asked.wanted if name not in file.names]
        if lacking:
            raise InputError(
                f"{path} has no {noun(len(lacking), 'column')} {', '.join(lacking)}", next_step=self.how
            )
        extra = [asked.true_risk] if asked.true_risk and asked.true_risk in file.names else []
        wanted = [*asked.wanted, *extra]
        text_outcome = self.positive is not None
        numeric = [*asked.numbers, *extra, *([] if text_outcome else [asked.outcome])]
        try:
            table = read_columns(file, wanted, numeric)
        except InputError:
            if text_outcome:
                raise
            table = read_columns(file, wanted, [*asked.numbers, *extra])
        for name in (*asked.numbers, *extra):
            if not numeric_type(table.schema.field(name).type):
                raise InputError(f"column {name!r} of {path} must hold numbers")
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, table.column(name).cast("float64", safe=False))
        frame: pd.DataFrame = table.to_pandas()
        if asked.person:  # as floating-point numbers, long IDs would no longer differ
            frame[asked.person] = table.column(asked.person).to_pandas(integer_object_nulls=True)
        for name in asked.numbers:
            if wrong := int((frame[name].abs() > LARGEST).sum()):
                raise InputError(
                    f"column {name!r} of {path}: {are(wrong, 'value')} infinite or beyond {LARGEST:.1e}",
                    next_step="Leave the column out, or make them missing values",
                )
        return frame.assign(**{asked.outcome: self._outcome(frame[asked.outcome])})

    def _outcome(self, values: Any) -> Any:
        """The outcome as 0 and 1; both must occur."""
        from propcal.data.outcomes import outcome_numbers

        name, unit = self.asked.outcome, self.asked.unit
        found = outcome_numbers(values, name, self.positive)
        where = f"column {name!r} of {self.path}"
        if missing := int(np.isnan(found).sum()):
            raise InputError(
                f"{where} is missing for {missing:,} of {len(found):,} {unit}",
                argument="outcome",
                next_step="Leave them out of the file",
            )
        wrong = int(((found != 0) & (found != 1)).sum())
        if wrong:
            raise InputError(f"{where} must be 0 or 1; {are(wrong, 'value')} neither", argument="outcome")
        if len(np.unique(found)) == 1:
            raise InputError(
                f"{where} is {int(found[0])} for all {len(found):,} {unit}; both outcomes must occur"
            )
        return found.astype(np.int64)


Cohort = GeneratedVisits | CohortFile


def visits_of(cohort: str | PathLike[str] | None, rows: int | None) -> Cohort:
    """Simulated visits, or those in a file."""
    if cohort is None:
        return GeneratedVisits() if rows is None else GeneratedVisits(rows)
    path = Path(cohort)
    if not path.is_file():
        raise InputError(
            f"there is no file {path}",
            next_step="Make one from MIMIC-IV with propcal paper cohort, or leave out --cohort to simulate "
            "visits",
        )
    return CohortFile(path, ADMISSIONS, rows, how="Make a file with all columns with propcal paper cohort")


def opened(path: Path, na: Sequence[str] = ()) -> Any:
    """A file with a row for each person; a file of atoms is refused."""
    from propcal.core.atoms import Atoms
    from propcal.data.files.formats import open_file

    file = open_file(path, missing=na)
    if isinstance(file, Atoms):
        raise InputError(f"{path} is a file of atoms; the experiment needs one row per visit, with features")
    return file


def read_columns(file: Any, wanted: Sequence[str], numeric: Sequence[str] = ()) -> Any:
    """Columns of a file as an Arrow table; categories, which a file may store as numbers, are texts."""
    import pyarrow as pa

    table = file.read(wanted, numeric=numeric)
    kinds = [t.value_type if pa.types.is_dictionary(t) else t for t in table.schema.types]
    return table.cast(pa.schema([*zip(table.schema.names, kinds)]))


def numeric_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers; truth values are 0 and 1."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _check_rows(rows: int, most: int, whose: str, unit: str) -> None:
    if most < FEWEST:
        raise InputError(f"{whose} has {most:,} {unit}; the experiment needs at least {FEWEST:,}")
    check_number("rows", rows, at_least=FEWEST, whole=True)
    if rows > most:
        raise InputError(
            Argument("rows") + f" is {rows:,}, but {whose} has only {most:,} {unit}",
            next_step="Choose fewer",
        )


def _fingerprint(frame: pd.DataFrame) -> str:
    """A hash of the data on which trials depend, without the true risks, whose last digits may vary."""
    from pandas.util import hash_pandas_object

    rows = hash_pandas_object(frame.drop(columns=TRUE_RISK), index=False).to_numpy()
    return f"sha256:{hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()}"


def _told(path: Path) -> str:
    """The description in a Parquet file of `propcal paper cohort`; empty if it has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        said = (pq.read_schema(path).metadata or {}).get(COHORT_KEY.encode())
    except (pa.ArrowException, OSError):  # not Parquet, or damaged; reading it will raise the error
        return ""
    return f" ({said.decode(errors='replace')})" if said else ""
