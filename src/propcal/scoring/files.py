"""Adds a column of corrected scores to files.

Batches are read, corrected and written at the same time.
"""

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
from propcal.errors import Message, refused
from propcal.formats.table_files import table_writer, writes_text
from propcal.formats.transaction import outputs
from propcal.interrupts import check as check_stop
from propcal.reading.csv_parquet_excel import check_names
from propcal.reading.people_files import NUMBER, TEXT, PeopleFiles
from propcal.scoring.scorer import Scorer, ScoringSummary, Tally

T = TypeVar("T")
MAX_WAITING = 2  # items on either side, each of which is one more batch in memory
_END = object()

# files of people, and the file for all of their rows
Job = tuple[Sequence[PeopleFiles], str | PathLike[str]]


def score_files(
    correction: Correction,
    jobs: Sequence[Job],
    *,
    score: str,
    column: str = "corrected",
    unseen: str | None = None,
    invalid: str = "error",
    max_unseen: float | None = None,
    advance: Callable[[int], None] | None = None,
) -> ScoringSummary:
    """Copy files of people with one more column, the corrected score; returns what was
    counted.

    Each job writes the rows of some files, one after another, to one file; either all
    files appear or none. The scores equal those of ``correction.apply`` on all rows at
    once. Only a few batches are in memory. If more than the share `max_unseen` of the
    rows have values that did not occur in fitting, nothing is written. `advance` is
    called with the number of rows of each batch.
    """
    scorer = Scorer(correction, score, column, unseen=unseen, invalid=invalid)
    tally = Tally(scorer)
    warn_of_other_score(correction, score)
    for people in chain.from_iterable(sources for sources, _ in jobs):
        check_names(people.path, people.names, scorer.wanted)
        if column in people.names:
            raise refused(
                "column exists", where=people.path, column=column, how="--column"
            )
    with outputs():
        for sources, path in jobs:
            _write(scorer, tally, sources, path, advance)
        tally.refuse_unseen(max_unseen)
        tally.tell(count_invalid=True)
    return tally.summary()


def warn_of_other_score(correction: Correction, score: str) -> None:
    """Warn if the correction was fitted to a score of another name."""
    fitted = correction.about.get("score", score)
    if fitted == score:
        return
    problem = (
        f"the correction was fitted to the score {fitted!r}, "
        f"and this one is called {score!r}"
    )
    message = Message(problem, argument="score", next_step="Are they the same score?")
    warnings.warn(message, UserWarning, stacklevel=3)


def _write(
    scorer: Scorer,
    tally: Tally,
    sources: Sequence[PeopleFiles],
    path: str | PathLike[str],
    advance: Callable[[int], None] | None,
) -> None:
    """Correct the rows of several files, one after another, into one file."""
    as_text = writes_text(path)
    # data lakes contain files without rows; such a text file has no column types
    with_rows = [people for people in sources if people.count()]
    typed = with_rows[0] if with_rows else sources[0]
    schema = scorer.schema(typed.schema(as_text=as_text))
    kinds = dict.fromkeys(scorer.numeric, NUMBER) | dict.fromkeys(scorer.texts, TEXT)
    batches = chain.from_iterable(
        people.batches(scorer.wanted, kinds, as_text=as_text) for people in with_rows
    )
    # raises errors in a file before anything is written
    first_batch = list(islice(batches, 1))
    with (
        table_writer(path, schema, delimiter=sources[0].delimiter) as write_rows,
        ahead(batches) as rest,
        behind(write_rows) as write,
    ):
        for rows, columns in chain(first_batch, rest):
            check_stop()
            corrected = scorer.correct(columns, tally)
            if len(corrected):
                write(scorer.appended(rows, corrected))
            if advance is not None:
                advance(len(rows))


@contextmanager
def ahead(source: Iterator[T]) -> Iterator[Iterator[T]]:
    """The items of `source` in order, read by a thread of its own a few items ahead of
    their use.

    An error in the source is raised at the position of its item.
    """
    with ThreadPoolExecutor(1, "propcal-read") as reader:
        waiting: deque[Future[Any]] = deque()
        for _ in range(MAX_WAITING):
            waiting.append(reader.submit(next, source, _END))

        def items() -> Iterator[T]:
            while True:
                item = waiting.popleft().result()
                if item is _END:
                    return
                waiting.append(reader.submit(next, source, _END))
                yield item

        try:
            yield items()
        finally:
            reader.shutdown(cancel_futures=True)


@contextmanager
def behind(write: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """A function that queues items for a thread that writes them; all are written by
    the end of the block.

    The next call, or the end of the block, raises an error in `write`. What is still
    waiting is then dropped, as it is if the block itself fails.
    """
    waiting: deque[Future[None]] = deque()

    def hand_on(item: T) -> None:
        # take out what is written, and wait while too much is not
        while waiting and (len(waiting) > MAX_WAITING or waiting[0].done()):
            waiting.popleft().result()
        waiting.append(writer.submit(write, item))

    with ThreadPoolExecutor(1, "propcal-write") as writer:
        try:
            yield hand_on
            for done in waiting:
                done.result()
        finally:
            writer.shutdown(cancel_futures=True)
