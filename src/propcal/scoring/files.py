"""Adds a column of corrected scores to files: reads, corrects and writes batches at the same time."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from os import PathLike
from typing import Any, TypeVar

from propcal.core.correction.correction import Correction
from propcal.data.files.formats import check_names
from propcal.data.files.people_files import NUMBER, TEXT, PeopleFiles
from propcal.errors import Column, InputError, Message
from propcal.files.table_files import table_writer, writes_text
from propcal.files.transaction import Outputs, outputs
from propcal.interrupts import check as check_stop
from propcal.scoring.scorer import Scorer, Tally

T = TypeVar("T")
DEPTH = 2  # items waiting on either side, each of which is one more batch in memory
_END = object()


class ScoredFiles:
    """Copies files of people with one more column, and counts problems over all of them."""

    def __init__(self, scorer: Scorer, advance: Callable[[int], None] | None = None) -> None:
        self._scorer, self._advance = scorer, advance
        self._tally = Tally(scorer)

    def write(self, sources: Sequence[PeopleFiles], path: str | PathLike[str], out: Outputs) -> None:
        """Correct the rows of several files, one after another, into one file of a transaction."""
        how, as_text = self._scorer, writes_text(path)
        filled = [people for people in sources if people.count()]  # data lakes contain files without rows
        typed = (filled or list(sources))[0]  # a text file without rows has no column types
        schema = how.schema(typed.schema(as_text=as_text))
        kinds = dict.fromkeys(how.numeric, NUMBER) | dict.fromkeys(how.texts, TEXT)
        batches = chain.from_iterable(people.batches(how.wanted, kinds, as_text=as_text) for people in filled)
        first = list(islice(batches, 1))  # raises errors in a file before anything is written
        part = out.file(path)
        with (
            table_writer(part, path, schema, delimiter=sources[0].delimiter) as write_rows,
            ahead(batches) as rest,
            behind(write_rows) as write,
        ):
            for rows, columns in chain(first, rest):
                check_stop()
                corrected = how.correct(columns, self._tally)
                if len(corrected):
                    write(how.appended(rows, corrected))
                if self._advance is not None:
                    self._advance(len(rows))

    def check(self, people: PeopleFiles) -> None:
        """Check that a file has the columns to read, and not yet the one to write."""
        column = self._scorer.column
        check_names(people.path, people.names, self._scorer.wanted)
        if column in people.names:
            raise InputError(
                f"{people.path} already has a column {column!r}",
                argument="column",
                next_step="Choose another name with --column",
            )

    def finish(self) -> int:
        """Report problems in all rows together; returns the number of rows."""
        self._tally.tell()
        if self._tally.invalid:
            kept = self._scorer.invalid == "keep"
            warnings.warn(
                Message(
                    f"{Column(self._scorer.score)}: {self._tally.invalid:,} of {self._tally.n:,} values are "
                    "missing or outside [0, 1]; "
                    + ("they are returned unchanged" if kept else "their corrected score is missing"),
                    argument=self._scorer.score,
                ),
                UserWarning,
                stacklevel=3,
            )
        return self._tally.n


def score_file(
    correction: Correction,
    people: PeopleFiles,
    path: str | PathLike[str],
    *,
    score: str,
    column: str = "corrected",
    unseen: str | None = None,
    invalid: str = "error",
    advance: Callable[[int], None] | None = None,
) -> int:
    """Copy a file of people with one more column, the corrected score; returns the number of rows.

    The scores equal those of ``correction.apply`` on all rows at once. Only a few batches are in memory, and
    `path` changes only when everything has been written. `advance` is called with the rows of each batch.
    """
    return score_files(
        correction,
        [([people], path)],
        score=score,
        column=column,
        unseen=unseen,
        invalid=invalid,
        advance=advance,
    )


def score_files(
    correction: Correction,
    jobs: Sequence[tuple[Sequence[PeopleFiles], str | PathLike[str]]],
    *,
    score: str,
    column: str = "corrected",
    unseen: str | None = None,
    invalid: str = "error",
    advance: Callable[[int], None] | None = None,
) -> int:
    """Write several files, each from the rows of some input files; either all of them appear or none."""
    scored = ScoredFiles(Scorer(correction, score, column, unseen=unseen, invalid=invalid), advance)
    for people in chain.from_iterable(sources for sources, _ in jobs):
        scored.check(people)
    with outputs() as out:
        for sources, path in jobs:
            scored.write(sources, path, out)
        return scored.finish()


@contextmanager
def ahead(source: Iterator[T]) -> Iterator[Iterator[T]]:
    """The items of `source` in order, read by a thread of its own a few items ahead of their use.

    An error in the source is raised at the position of its item.
    """
    with ThreadPoolExecutor(1, "propcal-read") as reader:
        waiting: deque[Future[Any]] = deque(reader.submit(next, source, _END) for _ in range(DEPTH))

        def items() -> Iterator[T]:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(reader.submit(next, source, _END))
                yield item

        try:
            yield items()
        finally:
            reader.shutdown(cancel_futures=True)


@contextmanager
def behind(write: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """A function that queues items for a thread that writes them; all are written by the end of the block.

    After an error in `write`, nothing more is written, and the next call or the end of the block raises
    it. If the block itself fails, items that are still waiting are dropped.
    """
    waiting: deque[Future[None]] = deque()
    failed: list[BaseException] = []

    def write_next(item: T) -> None:
        if failed:
            return
        try:
            write(item)
        except BaseException as error:
            failed.append(error)
            raise

    def hand_on(item: T) -> None:
        while waiting and (len(waiting) > DEPTH or waiting[0].done()):
            waiting.popleft().result()
        waiting.append(writer.submit(write_next, item))

    with ThreadPoolExecutor(1, "propcal-write") as writer:
        try:
            yield hand_on
            for done in waiting:
                done.result()
        finally:
            writer.shutdown(cancel_futures=True)
