"""Reading ahead and writing behind, each in a thread of its own: files wait for no arithmetic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")
DEPTH = 2  # items that wait on either side; memory holds so many batches more
_PATIENCE = 0.1  # seconds after which a thread looks whether it is still wanted
_END = object()


@contextmanager
def ahead(source: Iterator[T]) -> Iterator[Iterator[T]]:
    """What `source` gives, in order, made a few items before it is asked for.

    An error of the source is raised where its item would have come.
    """
    line: Queue[Any] = Queue(DEPTH)
    unwanted = threading.Event()

    def put(item: Any) -> None:
        while not unwanted.is_set():
            try:
                line.put(item, timeout=_PATIENCE)
            except Full:
                continue
            return

    def work() -> None:
        try:
            for item in source:
                put((item, None))
                if unwanted.is_set():
                    return
            put((_END, None))
        except BaseException as error:  # told where the item is asked for
            put((_END, error))

    def items() -> Iterator[T]:
        while True:
            item, error = line.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item

    thread = threading.Thread(target=work, name="propcal-read", daemon=True)
    thread.start()
    try:
        yield items()
    finally:
        unwanted.set()
        thread.join()


@contextmanager
def behind(write: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """A function that hands an item on to be written, in order; all are written when the block ends.

    After an error of `write` nothing more is written, and the next call or the end of the block
    raises it. If the block itself fails, what still waits is dropped.
    """
    line: Queue[Any] = Queue(DEPTH)
    unwanted = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        while not unwanted.is_set():
            try:
                item = line.get(timeout=_PATIENCE)
            except Empty:
                continue
            if item is _END:
                return
            try:
                write(item)
            except BaseException as error:  # told in the thread that gave the item
                failed.append(error)
                return

    def hand_on(item: Any) -> None:
        while not failed:
            try:
                line.put(item, timeout=_PATIENCE)
            except Full:
                continue
            return
        raise failed[0]

    thread = threading.Thread(target=work, name="propcal-write", daemon=True)
    thread.start()
    try:
        yield hand_on
        hand_on(_END)
    except BaseException:
        unwanted.set()
        raise
    finally:
        thread.join()
    if failed:
        raise failed[0]
