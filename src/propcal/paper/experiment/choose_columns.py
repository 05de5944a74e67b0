"""Chooses the columns of any cohort file for the experiment: which features are numbers, levels or words."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from propcal.errors import Argument, InputError
from propcal.numbers import noun
from propcal.paper.experiment.cohort_columns import CohortColumns
from propcal.paper.experiment.visits import LARGEST, CohortFile, numeric_type, opened, read_columns
from propcal.plain_text import shown

MOST_LEVELS = 200


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
) -> CohortFile:
    """A cohort file with its columns for the experiment.

    Parameters
    ----------
    path : path
        A CSV or Parquet file.
    outcome : str
        The column of the event; `positive` is the value that means it, if it is not 0 and 1 or yes and no.
    groups : list of lists of str
        The groupings. Table 3 has two; one is enough.
    features : list of str, optional
        The columns that the base models use; by default all but the outcome and the cluster.
    text : list of str, optional
        Which of the features are free text, used by their frequent words.
    cluster : str, optional
        The column of the person, if people recur; splits are then by person.
    na : list of str
        Texts that mean a missing value in a CSV file.
    rows, unit
        A sample of this many rows, and what a row is called.
    """
    file = opened(Path(path), na)
    chosen = list(features) or [name for name in file.names if name not in (outcome, cluster)]
    chosen += [name for name in text if name not in chosen]
    _check(path, file.names, outcome, groups, chosen, cluster)
    table = read_columns(file, chosen)
    numbers, categories, strange, empty = [], [], [], []
    for name, column in zip(chosen, table.columns):
        kind = column.type
        if column.null_count == len(column):
            empty.append(name)
        elif name in text:
            continue
        elif numeric_type(kind):
            numbers.append(name)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            categories.append(name)
        else:
            strange.append(name)
    if strange:
        raise InputError(
            Argument("features") + f": {noun(len(strange), 'column')} {', '.join(strange)} must hold numbers "
            "or text",
            next_step="Leave them out",
        )
    if refused := [name for name in empty if name in (*features, *text)]:
        raise InputError(
            Argument("features") + f": {noun(len(refused), 'column')} {', '.join(refused)} of {path} "
            f"{'has' if len(refused) == 1 else 'have'} no values",
            next_step="Leave it out" if len(refused) == 1 else "Leave them out",
        )
    if not (numbers or categories or text):
        raise InputError(Argument("features") + f": all columns of {path} that could be features are empty")
    for name in categories:
        _refuse_infinite(name, table.column(name))
        n = pc.count_distinct(table.column(name)).as_py()
        if n > MOST_LEVELS:
            raise InputError(
                Argument("features") + f": column {name!r} holds {n:,} different texts",
                next_step="Leave it out, or name it in " + Argument("text") + " to use its frequent words",
            )
    columns = CohortColumns(
        outcome,
        tuple(tuple(names) for names in groups),
        tuple(numbers),
        tuple(categories),
        tuple(text),
        cluster,
        unit=unit,
    )
    return CohortFile(Path(path), columns, rows, positive, tuple(na), empty=tuple(empty))


def _refuse_infinite(name: str, column: Any) -> None:
    """Refuse a column of a text file that would be numbers, were some of them not infinite or undefined."""
    try:
        values = {text: float(text) for text in column.drop_null().unique().to_pylist()}
    except ValueError:
        return
    wrong = [text for text, value in values.items() if not abs(value) <= LARGEST]
    if wrong:
        raise InputError(
            Argument("features") + f": column {name!r} holds numbers that are infinite, undefined or beyond "
            f"{LARGEST:.1e}, such as {shown(wrong[0])}",
            next_step="Leave it out, or name these texts with --na if they mean missing",
        )


def _check(
    path: str | PathLike[str],
    there: Sequence[str],
    outcome: str,
    groups: Sequence[Sequence[str]],
    features: Sequence[str],
    cluster: str | None,
) -> None:
    """Refuse columns that the file does not have, and those that would give the outcome away."""
    if not groups or not all(groups):
        raise InputError(Argument("groups") + " must name at least one column")
    asked = [
        outcome,
        *(name for names in groups for name in names),
        *features,
        *([cluster] if cluster else []),
    ]
    lacking = [name for name in dict.fromkeys(asked) if name not in there]
    if lacking:
        raise InputError(
            f"{path} has no {noun(len(lacking), 'column')} {', '.join(lacking)}",
            next_step="Check the names of the columns",
        )
    for name, column in (("outcome", outcome), ("cluster", cluster)):
        if column in features:
            raise InputError(Argument("features") + f": {column!r} is the {name}, and cannot be a feature")
        if any(column in names for names in groups):
            raise InputError(Argument("groups") + f": {column!r} is the {name}, and cannot define groups")
    if len({frozenset(names) for names in groups}) < len(groups):
        raise InputError(Argument("groups") + f": the grouping {_twice(groups)} is listed twice")
    named = [" x ".join(names) for names in groups]  # as in the store
    if len({*named}) < len(named):
        raise InputError(
            Argument("groups") + f": two groupings would be called {max(named, key=named.count)!r}",
            next_step="Rename a column",
        )
    if not features:
        raise InputError(Argument("features") + ": the file has no column left that could be a feature")


def _twice(groups: Sequence[Sequence[str]]) -> str:
    """The first grouping that is listed again, perhaps in another order."""
    sets = [frozenset(names) for names in groups]
    return next(",".join(names) for i, names in enumerate(groups) if sets[i] in sets[:i])
