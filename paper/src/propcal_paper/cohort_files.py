"""The people of an experiment: simulated visits, visits from a file, or any cohort
file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from propcal import datasets
from propcal.building_blocks import check_choice, check_number, noun, plural
from propcal_paper.errors import refused
from propcal_paper.settings import ADMISSIONS, SURROGATES, CohortColumns

FEWEST = 100  # the fewest rows that can be run; the open demo of MIMIC has 215
LARGEST = float(np.finfo(np.float32).max)  # the base models use single precision
FEWEST_PEOPLE = (
    20  # the fewest that a split by person can use: five of them are the test set
)
# with fewer, test sets have groups without outcomes, and nothing can be judged
FEW = 1000
MOST_LEVELS = 200
COHORT_KEY = (
    "propcal_cohort"  # metadata key in a Parquet file: the MIMIC version and the rule
)
_SEED = 0  # for simulating the cohort, and for sampling --rows visits from a file


CHECK_NAMES = "Check the names of the columns"


@dataclass(frozen=True, eq=False)
class Cohort:
    """The people of an experiment.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row for each visit.
    columns : CohortColumns
        The columns that are used; real people have no known true risk.
    about : dict
        The description in a store, with a hash of the data, on which trials depend, and
        without the name of the file, because files may be moved.
    notes : list of str
        Sentences on what a user may not expect.
    path : path, optional
        The file that they come from.
    """

    frame: pd.DataFrame
    columns: CohortColumns
    about: Mapping[str, Any]
    notes: Sequence[str] = ()
    path: Path | None = None


def visits_of(
    path: str | PathLike[str] | None,
    rows: int | None,
    *,
    surrogate: str = "calibrated",
    age: str = "age",
    person: str | None = None,
) -> Cohort:
    """Simulated visits, or those in a file; `age` is the column of the age, if the file
    has it.
    """
    if path is None:
        return _generated(datasets.N_VISITS if rows is None else rows, surrogate)
    if not Path(path).is_file():
        raise refused("no cohort", path=path)
    file = _opened(path)
    old = age if age in file.names else "age"
    numbers = tuple(old if name == "age" else name for name in ADMISSIONS.numbers)
    asked = replace(ADMISSIONS, numbers=numbers, person=person)
    _require(
        path,
        file.names,
        asked.wanted,
        "Make a file with all columns with propcal paper cohort",
    )
    found = _cohort(Path(path), file, asked, rows)
    other = f"{path} has no column {age}, which this set-up uses: {old} is used in its place"
    return replace(found, notes=[*([] if old == age else [other]), *found.notes])


def _generated(rows: int, surrogate: str) -> Cohort:
    """Simulated visits, modelled on the paper's Table 1; `surrogate` is one of
    settings.toml.
    """
    from pandas.util import hash_pandas_object

    check_choice("surrogate", surrogate, tuple(SURROGATES))
    _check_rows(rows, datasets.N_VISITS, "the simulated cohort", "visits")
    frame = datasets.make_ed_visits(rows, seed=_SEED, **SURROGATES[surrogate])
    known = frame.drop(columns=ADMISSIONS.true_risk)  # its last digits may vary
    hashes = np.ascontiguousarray(hash_pandas_object(known, index=False).to_numpy())
    about = {
        "cohort": f"generated, no patients: make_ed_visits, seed {_SEED}, {surrogate}",
        "surrogate": surrogate,
        # before the fingerprint, because an error names the first difference
        "rows": rows,
        "fingerprint": f"sha256:{hashlib.sha256(hashes.tobytes()).hexdigest()}",
    }
    return Cohort(frame, ADMISSIONS, about)


def cohort_file(
    path: str | PathLike[str],
    *,
    outcome: str,
    groups: Sequence[Sequence[str]],
    features: Sequence[str] = (),
    text: Sequence[str] = (),
    cluster: str | None = None,
    positive: Any = None,
    na: Sequence[str] = (),
    rows: int | None = None,
    unit: str = "rows",
) -> Cohort:
    """The people of a file, with their columns for the experiment.

    Parameters
    ----------
    path : path
        A CSV or Parquet file.
    outcome : str
        The column of the event; `positive` is the value that means it, if it is not 0
        and 1 or yes and no.
    groups : list of lists of str
        The groupings. Table 3 has two; one is enough.
    features : list of str, optional
        The columns that the base models use; by default all but the outcome and the
        cluster. Those of numbers are used as numbers, those of text as levels.
    text : list of str, optional
        Which of the features are free text, used by their frequent words.
    cluster : str, optional
        The column of the person, if people recur; splits are then by person.
    na : list of str
        Texts that mean a missing value in a CSV file, beside the empty value.
    rows, unit
        A sample of this many rows, and what a row is called.
    """
    file = _opened(path, na)
    chosen = list(features) or [
        name for name in file.names if name not in (outcome, cluster)
    ]
    chosen += [name for name in text if name not in chosen]
    attributes = [name for names in groups for name in names]
    _require(
        path,
        file.names,
        [outcome, *attributes, *chosen, *([cluster] if cluster else [])],
    )
    _check_roles(outcome, cluster, groups, chosen)
    table = file.read(chosen)
    empty = [name for name in chosen if table.column(name).null_count == len(table)]
    others = [name for name in chosen if name not in (*empty, *text)]
    numbers = [name for name in others if _numeric(table.schema.field(name).type)]
    levels = [name for name in others if name not in numbers]
    if lacking := [name for name in empty if name in (*features, *text)]:
        have = "has" if len(lacking) == 1 else "have"
        said = f"{noun(len(lacking), 'column')} {', '.join(lacking)} of {path} {have}"
        raise refused("empty features", columns=said)
    for name in levels:
        _check_levels(name, table.column(name))
    if not (numbers or levels or text):
        raise refused("no features", path=path)
    kinds_of = (tuple(numbers), tuple(levels), tuple(text))
    columns = CohortColumns(
        outcome, tuple(map(tuple, groups)), *kinds_of, cluster, unit=unit
    )
    found = _cohort(Path(path), file, columns, rows, positive, na)
    if len(empty) == 1:
        what = "it is not a feature"
    else:
        what = "they are not features"
    if empty:
        unused = [
            f"no values in {noun(len(empty), 'column')} {', '.join(empty)}: {what}"
        ]
    else:
        unused = []
    return replace(found, notes=[*unused, *found.notes])


def _cohort(
    path: Path,
    file: Any,
    asked: CohortColumns,
    rows: int | None,
    positive: Any = None,
    na: Sequence[str] = (),
) -> Cohort:
    """The people of an open file, or a random sample of this many rows."""
    frame = _read(path, file, asked, positive)
    unit = asked.unit
    _check_rows(len(frame) if rows is None else rows, len(frame), str(path), unit)
    if rows is not None and rows < len(frame):
        some = np.random.default_rng(_SEED).choice(len(frame), rows, replace=False)
        frame = frame.iloc[np.sort(some)].reset_index(drop=True)
    n_alone = 0
    notes = []
    if asked.person is not None:
        n_alone = int(frame[asked.person].isna().sum())
        people = frame[asked.person].nunique() + n_alone
        if people < FEWEST_PEOPLE:
            few = "1 person" if people == 1 else f"{people} people"
            known = {"person": asked.person, "n": len(frame), "unit": unit, "few": few}
            raise refused("few people", fewest=FEWEST_PEOPLE, **known)
    if n_alone:
        where = f"{n_alone:,} of {len(frame):,} {unit}"
        notes = [
            f"{asked.person!r} is missing in {where}: each counts as a person of its own"
        ]
    with open(path, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    about = {
        "cohort": f"a file of {unit}{_origin(path)}",
        "rows": "all" if rows is None else rows,
        "positive": None if positive is None else str(positive),
        "na": sorted({*na}) or None,
        "alone": n_alone or None,  # older versions left these rows out of every split
        "fingerprint": f"sha256:{digest}",
    }
    if asked.true_risk in frame:
        columns = asked
    else:
        columns = replace(asked, true_risk=None)
    there = {name: value for name, value in about.items() if value is not None}
    return Cohort(frame, columns, there, notes, path)


def _read(path: Path, file: Any, asked: CohortColumns, positive: Any) -> pd.DataFrame:
    """The columns of the experiment, checked."""
    from propcal.building_blocks import outcome_numbers

    extra = [name for name in file.names if name == asked.true_risk]
    numbers = [*asked.numbers, *extra]
    event = {asked.outcome: "lenient"} if positive is None else {}
    table = file.read([*asked.wanted, *extra], dict.fromkeys(numbers, "number") | event)
    frame: pd.DataFrame = table.to_pandas()
    if asked.person:  # as floating-point numbers, long IDs would no longer differ
        frame[asked.person] = table.column(asked.person).to_pandas(
            integer_object_nulls=True
        )
    for name in numbers:
        if not _numeric(table.schema.field(name).type):
            raise refused("no numbers", name=name, path=path)
        frame[name] = table.column(name).cast("float64", safe=False).to_pandas()
        if wrong := int((frame[name].abs() > LARGEST).sum()):
            raise refused(
                "beyond",
                name=name,
                path=path,
                are=_are(wrong),
                most=LARGEST,
            )
    outcome = outcome_numbers(frame[asked.outcome], asked.outcome, positive)
    known = {
        "where": f"column {asked.outcome!r} of {path}",
        "all": f"{len(frame):,} {asked.unit}",
    }
    if missing := int(np.isnan(outcome).sum()):
        raise refused("no outcome", n=missing, **known)
    if wrong := int(((outcome != 0) & (outcome != 1)).sum()):
        raise refused("neither", are=_are(wrong), **known)
    if len(np.unique(outcome)) == 1:
        raise refused("one outcome", value=int(outcome[0]), **known)
    return frame.assign(**{asked.outcome: outcome.astype(np.int64)})


def _are(n_values: int) -> str:
    """A number of values with its verb."""
    verb = "is" if n_values == 1 else "are"
    return f"{plural(n_values, 'value')} {verb}"


def _check_levels(name: str, column: Any) -> None:
    """Refuse columns of neither numbers nor text, of too many levels, or of infinite
    numbers.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise refused("kind of feature", name=name)
    try:
        values = [float(text) for text in column.drop_null().unique().to_pylist()]
    except ValueError:
        values = []
    if not all(abs(value) <= LARGEST for value in values):
        raise refused("no level", name=name, most=LARGEST)
    if (n := pc.count_distinct(column).as_py()) > MOST_LEVELS:
        raise refused("many levels", name=name, n=n)


def _check_roles(
    outcome: str,
    cluster: str | None,
    groups: Sequence[Sequence[str]],
    features: Sequence[str],
) -> None:
    """Refuse columns that would give the outcome away, and groupings that are the
    same.
    """
    if not groups or not all(groups):
        raise refused("groups")
    for role, column in (("outcome", outcome), ("cluster", cluster)):
        if column in features:
            raise refused("role is feature", column=column, role=role)
        if any(column in names for names in groups):
            raise refused("role is group", column=column, role=role)
    for i, names in enumerate(groups):
        if {*names} in [{*before} for before in groups[:i]]:
            raise refused("grouping twice", names=",".join(names))
    named = [" x ".join(names) for names in groups]  # as in the store
    if len({*named}) < len(named):
        raise refused("groupings alike", name=max(named, key=named.count))


def _require(
    path: object, there: Sequence[str], asked: Sequence[str], how: str = CHECK_NAMES
) -> None:
    """Refuse a file that lacks columns."""
    if lacking := [name for name in dict.fromkeys(asked) if name not in there]:
        names = f"{noun(len(lacking), 'column')} {', '.join(lacking)}"
        raise refused("no columns", path=path, names=names, how=how)


def _opened(path: str | PathLike[str], na: Sequence[str] = ()) -> Any:
    """A file with a row for each person; a file of atoms is refused."""
    from propcal import Atoms
    from propcal.building_blocks import open_file

    file = open_file(path, missing=na)
    if isinstance(file, Atoms):
        raise refused("atoms", path=path)
    return file


def _numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers; truth values are 0 and 1."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
    )


def _check_rows(rows: int, most: int, whose: str, unit: str) -> None:
    if most < FEWEST:
        raise refused("few rows", whose=whose, most=most, unit=unit, fewest=FEWEST)
    check_number("rows", rows, at_least=FEWEST, whole=True)
    if rows > most:
        raise refused("many rows", rows=rows, whose=whose, most=most, unit=unit)


def _origin(path: Path) -> str:
    """The description in a Parquet file of `propcal paper cohort`; empty if it has
    none.
    """
    try:
        said = (pq.read_schema(path).metadata or {}).get(COHORT_KEY.encode())
    except (
        pa.ArrowException,
        OSError,
    ):  # not Parquet, or damaged; reading it will raise the error
        return ""
    return f" ({said.decode(errors='replace')})" if said else ""
