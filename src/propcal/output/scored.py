"""A file with its corrected scores: read, corrected and written in batches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.correction import Correction
from propcal.data.derive import numeric_columns
from propcal.data.files import PeopleFile
from propcal.data.frames import numbers
from propcal.data.people import none_known, rows_to_score, warn_of_other_codes
from propcal.data.rows import ScoreTally
from propcal.errors import InputError
from propcal.output.tables import open_table, writes_text


def score_file(
    correction: Correction,
    people: PeopleFile,
    path: str | PathLike[str],
    *,
    score: str,
    column: str = "corrected",
    unseen: str | None = None,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Write the file of people with one more column, the corrected score; returns the number of rows.

    The scores are those of ``correction.apply`` on all rows at once. Memory holds a few batches, and
    `path` changes only when everything is written. `advance` is told the rows of each batch.
    """
    if column in people.names:
        raise InputError(f"{people.path} has a column {column!r} already; name another with --column")
    as_text = writes_text(path)
    known = correction.patterns
    wanted = list(dict.fromkeys([score, *correction.reads]))
    numeric = numeric_columns(known.derived, known.attributes)
    batches = people.batches(wanted, numeric=[score, *numeric], as_text=as_text)
    first = next(batches)  # what is wrong with the file is told before anything is written
    schema = people.schema(as_text=as_text).append(pa.field(column, pa.float64()))
    tally, unknown = ScoreTally(), np.ones(len(known.attributes), dtype=bool)
    with open_table(path, schema, delimiter=people.delimiter) as out:
        for rows, columns in chain([first], batches):
            raw = numbers(columns[score], f"column {score!r}")
            if tally.add(raw):
                values, patterns, code = rows_to_score(raw, columns, known)
                corrected = correction.apply_to_patterns(values, code, patterns, unseen=unseen)
                out.write(_with(rows, corrected, schema))
                unknown &= none_known(patterns)
            if advance is not None:
                advance(len(raw))
        tally.check(f"column {score!r}")
        warn_of_other_codes(known, tally.n, unknown)
    return tally.n


def _with(rows: Any, corrected: Any, schema: Any) -> Any:
    column = pa.array(np.asarray(corrected, dtype=np.float64))
    return pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)
