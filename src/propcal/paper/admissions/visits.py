"""The visits of the hospital-admission experiment: simulated, or read from a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import check_number
from propcal.data.cohorts import N_VISITS, make_ed_visits
from propcal.errors import Argument, InputError
from propcal.numbers import noun
from propcal.paper.admissions.features import CATEGORIES, COLUMNS, NUMBERS, OUTCOME, TEXT, TRUE_RISK

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 100  # the fewest visits that can be run; the open demo of MIMIC has 215
FEW = 1000  # with fewer, test sets have groups without outcomes, and nothing can be judged
COHORT_KEY = "propcal_cohort"  # metadata key in a Parquet file: the MIMIC version and the rule
_SEED = 0  # for simulating the cohort, and for sampling --rows visits from a file


@dataclass(frozen=True)
class GeneratedVisits:
    """Simulated visits, modelled on the paper's Table 1."""

    rows: int = N_VISITS
    seed: int = _SEED

    def __post_init__(self) -> None:
        _check_rows(self.rows, N_VISITS, "the simulated cohort")

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
class FileOfVisits:
    """Visits from a file written by `propcal paper cohort`, or from any file with the same columns."""

    path: Path
    rows: int | None = None

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each visit; a random sample of them if fewer are asked for."""
        found = _read(self.path)
        n = len(found)
        _check_rows(n if self.rows is None else self.rows, n, str(self.path))
        if self.rows is None or self.rows == n:
            return found
        some = np.random.default_rng(_SEED).choice(n, self.rows, replace=False)
        return found.iloc[np.sort(some)].reset_index(drop=True)

    def about(self) -> dict[str, Any]:
        """The description of the visits in a store, without the file name, because files may be moved."""
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            while portion := file.read(1 << 20):
                digest.update(portion)
        return {
            "cohort": f"a file of visits{_told(self.path)}",
            "rows": "all" if self.rows is None else self.rows,
            "fingerprint": f"sha256:{digest.hexdigest()}",
        }


Visits = GeneratedVisits | FileOfVisits


def visits_of(cohort: str | PathLike[str] | None, rows: int | None) -> Visits:
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
    return FileOfVisits(path, rows)


def _check_rows(rows: int, most: int, whose: str) -> None:
    if most < FEWEST:
        raise InputError(f"{whose} has {most:,} visits; the experiment needs at least {FEWEST:,}")
    check_number("rows", rows, at_least=FEWEST, whole=True)
    if rows > most:
        raise InputError(
            Argument("rows") + f" is {rows:,}, but {whose} has only {most:,} visits",
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


def _read(path: Path) -> pd.DataFrame:
    """The columns of the experiment, checked."""
    from propcal.core.atoms import Atoms
    from propcal.data.files.formats import open_file

    file = open_file(path)
    if isinstance(file, Atoms):
        raise InputError(f"{path} is a file of atoms; the experiment needs one row per visit, with features")
    lacking = [name for name in COLUMNS if name not in file.names]
    if lacking:
        raise InputError(
            f"{path} has no {noun(len(lacking), 'column')} {', '.join(lacking)}",
            next_step="Make a file with all columns with propcal paper cohort",
        )
    wanted = [*COLUMNS, *([TRUE_RISK] if TRUE_RISK in file.names else [])]
    numbers = [name for name in wanted if name not in (*CATEGORIES, TEXT)]
    frame: pd.DataFrame = file.read(wanted, numeric=numbers).to_pandas()
    for name in numbers:
        if frame[name].dtype.kind not in "iufb":
            raise InputError(f"column {name!r} of {path} must be numeric; it is text")
    if not frame[OUTCOME].isin([0, 1]).all():
        wrong = int((~frame[OUTCOME].isin([0, 1])).sum())
        raise InputError(f"column {OUTCOME!r} of {path} must be 0 or 1; {wrong:,} values are neither")
    if frame[OUTCOME].nunique() == 1:
        raise InputError(
            f"column {OUTCOME!r} of {path} is {int(frame[OUTCOME].iloc[0])} for all {len(frame):,} visits; "
            "both outcomes must occur"
        )
    return frame.astype({OUTCOME: np.int64, **dict.fromkeys(NUMBERS, np.float64)})
