"""The people of an experiment: simulated visits, or the rows of a file."""

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
# the fewest that a split by person can use: five of them are the test set
FEWEST_PEOPLE = 20
# with fewer, test sets have groups without outcomes, and nothing can be judged
FEW = 1000
MOST_LEVELS = 200
# metadata key in a Parquet file: the MIMIC version and the rule
COHORT_KEY = "propcal_cohort"
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
    age_there = age if age in file.names else "age"
    numbers = [age_there if name == "age" else name for name in ADMISSIONS.numbers]
    asked = replace(ADMISSIONS, numbers=tuple(numbers), person=person)
    how = "Make a file with all columns with propcal paper cohort"
    _require(path, file.names, asked.wanted, how)
    cohort = _cohort(Path(path), file, asked, rows)
    if age_there == age:
        return cohort
    other = f"{path} has no column {age}, which this set-up uses"
    note = f"{other}: {age_there} is used in its place"
    return replace(cohort, notes=[note, *cohort.notes])


def _generated(rows: int, surrogate: str) -> Cohort:
    """Simulated visits, modelled on the paper's Table 1; `surrogate` is one of
    settings.toml.
    """
    from pandas.util import hash_pandas_object

    check_choice("surrogate", surrogate, tuple(SURROGATES))
    _check_rows(rows, datasets.N_VISITS, "the simulated cohort", "visits")
    frame = datasets.make_ed_visits(rows, seed=_SEED, **SURROGATES[surrogate])
    known = frame.drop(columns=ADMISSIONS.true_risk)  # its last digits may vary
    hashes = hash_pandas_object(known, index=False).to_numpy()
    digest = hashlib.sha256(np.ascontiguousarray(hashes).tobytes()).hexdigest()
    made = f"make_ed_visits, seed {_SEED}, {surrogate}"
    about = {
        "cohort": f"generated, no patients: {made}",
        "surrogate": surrogate,
        # before the fingerprint, because an error names the first difference
        "rows": rows,
        "fingerprint": f"sha256:{digest}",
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
    chosen = list(features)
    if not chosen:
        chosen = [name for name in file.names if name not in (outcome, cluster)]
    chosen += [name for name in text if name not in chosen]
    wanted = [outcome]
    for names in groups:
        wanted += names
    wanted += chosen
    if cluster:
        wanted.append(cluster)
    _require(path, file.names, wanted)
    _check_roles(outcome, cluster, groups, chosen)

    table = file.read(chosen)
    empty = [name for name in chosen if table.column(name).null_count == len(table)]
    _refuse_empty_features([name for name in empty if name in (*features, *text)], path)
    numbers = []
    levels = []
    for name in chosen:
        if name in empty or name in text:
            continue
        if _numeric(table.schema.field(name).type):
            numbers.append(name)
        else:
            _check_levels(name, table.column(name))
            levels.append(name)
    if not (numbers or levels or text):
        raise refused("no features", path=path)

    columns = CohortColumns(
        outcome,
        tuple(map(tuple, groups)),
        tuple(numbers),
        tuple(levels),
        tuple(text),
        cluster,
        unit=unit,
    )
    cohort = _cohort(Path(path), file, columns, rows, positive, na)
    if not empty:
        return cohort
    what = "it is not a feature" if len(empty) == 1 else "they are not features"
    unused = f"no values in {noun(len(empty), 'column')} {', '.join(empty)}: {what}"
    return replace(cohort, notes=[unused, *cohort.notes])


def _refuse_empty_features(names: Sequence[str], path: str | PathLike[str]) -> None:
    """Refuse features that were asked for and have no values."""
    if not names:
        return
    have = "has" if len(names) == 1 else "have"
    columns = f"{noun(len(names), 'column')} {', '.join(names)}"
    raise refused("empty features", columns=f"{columns} of {path} {have}")


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
    n_alone = _people_alone(frame, asked)
    notes = []
    if n_alone:
        where = f"{n_alone:,} of {len(frame):,} {unit}"
        each = "each counts as a person of its own"
        notes.append(f"{asked.person!r} is missing in {where}: {each}")

    with open(path, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    about: dict[str, Any] = {"cohort": f"a file of {unit}{_origin(path)}"}
    about["rows"] = "all" if rows is None else rows
    if positive is not None:
        about["positive"] = str(positive)
    if na:
        about["na"] = sorted({*na})
    if n_alone:  # older versions left these rows out of every split
        about["alone"] = n_alone
    about["fingerprint"] = f"sha256:{digest}"
    columns = asked
    if asked.true_risk not in frame:
        columns = replace(asked, true_risk=None)
    return Cohort(frame, columns, about, notes, path)


def _people_alone(frame: pd.DataFrame, asked: CohortColumns) -> int:
    """The number of rows without a person; too few people are refused."""
    if asked.person is None:
        return 0
    person = frame[asked.person]
    n_alone = int(person.isna().sum())
    n_people = person.nunique() + n_alone
    if n_people < FEWEST_PEOPLE:
        few = "1 person" if n_people == 1 else f"{n_people} people"
        known = {"n": len(frame), "unit": asked.unit, "few": few}
        raise refused("few people", person=asked.person, fewest=FEWEST_PEOPLE, **known)
    return n_alone


def _read(path: Path, file: Any, asked: CohortColumns, positive: Any) -> pd.DataFrame:
    """The columns of the experiment, checked."""
    from propcal.building_blocks import outcome_numbers

    numbers = [*asked.numbers]
    wanted = [*asked.wanted]
    if asked.true_risk in file.names:
        numbers.append(str(asked.true_risk))
        wanted.append(str(asked.true_risk))
    kinds = dict.fromkeys(numbers, "number")
    if positive is None:
        kinds[asked.outcome] = "lenient"
    table = file.read(wanted, kinds)
    frame: pd.DataFrame = table.to_pandas()
    if asked.person:  # as floating-point numbers, long IDs would no longer differ
        person = table.column(asked.person)
        frame[asked.person] = person.to_pandas(integer_object_nulls=True)
    for name in numbers:
        frame[name] = _checked_numbers(path, name, table.column(name))
    values = outcome_numbers(frame[asked.outcome], asked.outcome, positive)
    _check_outcome(path, asked, values)
    return frame.assign(**{asked.outcome: values.astype(np.int64)})


def _checked_numbers(path: Path, name: str, column: Any) -> pd.Series:
    if not _numeric(column.type):
        raise refused("no numbers", name=name, path=path)
    values: pd.Series = column.cast("float64", safe=False).to_pandas()
    n_beyond = int((values.abs() > LARGEST).sum())
    if n_beyond:
        known = {"are": _are(n_beyond), "most": LARGEST}
        raise refused("beyond", name=name, path=path, **known)
    return values


def _check_outcome(path: Path, asked: CohortColumns, values: Any) -> None:
    """Refuse an outcome that is missing, neither 0 nor 1, or the same for all."""
    known = {
        "where": f"column {asked.outcome!r} of {path}",
        "all": f"{len(values):,} {asked.unit}",
    }
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        raise refused("no outcome", n=n_missing, **known)
    n_wrong = int(((values != 0) & (values != 1)).sum())
    if n_wrong:
        raise refused("neither", are=_are(n_wrong), **known)
    if len(np.unique(values)) == 1:
        raise refused("one outcome", value=int(values[0]), **known)


def _are(n_values: int) -> str:
    """A number of values with its verb."""
    verb = "is" if n_values == 1 else "are"
    return f"{plural(n_values, 'value')} {verb}"


def _check_levels(name: str, column: Any) -> None:
    """Refuse columns of neither numbers nor text, of too many levels, or of infinite
    numbers.
    """
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not is_text:
        raise refused("kind of feature", name=name)
    try:
        values = [float(text) for text in column.drop_null().unique().to_pylist()]
    except ValueError:
        values = []
    if not all(abs(value) <= LARGEST for value in values):
        raise refused("no level", name=name, most=LARGEST)
    n_levels = pc.count_distinct(column).as_py()
    if n_levels > MOST_LEVELS:
        raise refused("many levels", name=name, n=n_levels)


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
    before: list[set[str]] = []
    for names in groups:
        if {*names} in before:
            raise refused("grouping twice", names=",".join(names))
        before.append({*names})
    named = [" x ".join(names) for names in groups]  # as in the store
    if len({*named}) < len(named):
        raise refused("groupings alike", name=max(named, key=named.count))


def _require(
    path: object, there: Sequence[str], asked: Sequence[str], how: str = CHECK_NAMES
) -> None:
    """Refuse a file that lacks columns."""
    lacking = [name for name in dict.fromkeys(asked) if name not in there]
    if lacking:
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
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        # not Parquet, or damaged; reading it will raise the error
        return ""
    described = metadata.get(COHORT_KEY.encode())
    if not described:
        return ""
    return f" ({described.decode(errors='replace')})"
