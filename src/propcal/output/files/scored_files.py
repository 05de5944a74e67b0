"""Files with their corrected scores: read, corrected and written in batches, all at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from propcal.core.correction.correction import Correction
from propcal.data.checks import ScoreTally
from propcal.data.derive import numeric_columns
from propcal.data.files.formats import PeopleFile, check_names
from propcal.data.frames import numbers
from propcal.data.rows_to_atoms import none_known, rows_to_score, warn_of_other_codes
from propcal.errors import InputError
from propcal.interrupts import check as check_stop
from propcal.interrupts import settling
from propcal.output.files.read_ahead import ahead, behind
from propcal.output.files.table_files import table_writer, writes_text
from propcal.output.files.whole_file import whole_file

Batches = Iterator[tuple[Any, Any]]


class FileScorer:
    """Writes files of people again with one more column, and counts over all of them."""

    def __init__(
        self,
        correction: Correction,
        score: str,
        column: str = "corrected",
        unseen: str | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self.correction, self.score, self.column = correction, score, column
        self._unseen, self._advance = unseen, advance
        self._tally = ScoreTally()
        self._unknown = np.ones(len(correction.attributes), dtype=bool)
        known = correction.patterns
        self._wanted = list(dict.fromkeys([score, *correction.reads]))
        self._numeric = [score, *numeric_columns(known.derived, known.attributes)]

    def schema(self, people: PeopleFile, *, as_text: bool) -> Any:
        """Names and types of what is written."""
        return people.schema(as_text=as_text).append(pa.field(self.column, pa.float64()))

    def write(self, sources: Sequence[PeopleFile], path: str | PathLike[str], stack: ExitStack) -> None:
        """Correct the rows of some files, one after another, into one; it appears when `stack` is left."""
        as_text = writes_text(path)
        schema = self.schema(sources[0], as_text=as_text)
        filled = [people for people in sources if people.count()]  # a lake has parts without rows
        batches = chain.from_iterable(self._batches(people, as_text=as_text) for people in filled)
        first = list(islice(batches, 1))  # what is wrong with a file is told before anything is written
        part = stack.enter_context(whole_file(path))
        with (
            table_writer(part, path, schema, delimiter=sources[0].delimiter) as out,
            ahead(batches) as rest,
            behind(out.write) as write,
        ):
            for rows, columns in chain(first, rest):
                check_stop()
                self._correct(rows, columns, write)

    def check(self, people: PeopleFile) -> None:
        """Whether a file has what is read and lacks what is written."""
        check_names(people.path, people.names, self._wanted)
        if self.column in people.names:
            raise InputError(
                f"{people.path} has a column {self.column!r} already; name another with --column"
            )

    def _batches(self, people: PeopleFile, *, as_text: bool) -> Batches:
        return people.batches(self._wanted, numeric=self._numeric, as_text=as_text)

    def _correct(self, rows: Any, columns: Any, write: Callable[[Any], None]) -> None:
        raw = numbers(columns[self.score], f"column {self.score!r}")
        if self._tally.add(raw):
            values, patterns, code = rows_to_score(raw, columns, self.correction.patterns)
            corrected = self.correction.apply_to_patterns(values, code, patterns, unseen=self._unseen)
            schema = rows.schema.append(pa.field(self.column, pa.float64()))
            write(pa.RecordBatch.from_arrays([*rows.columns, pa.array(corrected)], schema=schema))
            self._unknown &= none_known(patterns)
        if self._advance is not None:
            self._advance(len(raw))

    def finish(self) -> int:
        """Tell what is wrong with the scores, in all; the number of rows."""
        if not self._tally.n:
            raise InputError("there are columns and no rows")
        self._tally.check(f"column {self.score!r}")
        warn_of_other_codes(self.correction.patterns, self._tally.n, self._unknown)
        return self._tally.n


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
    return score_files(
        correction, [([people], path)], score=score, column=column, unseen=unseen, advance=advance
    )


def score_files(
    correction: Correction,
    jobs: Sequence[tuple[Sequence[PeopleFile], str | PathLike[str]]],
    *,
    score: str,
    column: str = "corrected",
    unseen: str | None = None,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Write several files, each from the rows of some others; all of them appear, or none does."""
    scorer = FileScorer(correction, score, column, unseen, advance)
    for people in chain.from_iterable(sources for sources, _ in jobs):
        scorer.check(people)
    with ExitStack() as end, ExitStack() as stack:
        for sources, path in jobs:
            scorer.write(sources, path, stack)
        rows = scorer.finish()
        end.enter_context(settling())  # left after the files have taken their places, all of them
        return rows
