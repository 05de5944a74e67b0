"""Reads and writes files in threads of their own, so that they do not wait for computation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")
DEPTH = 2  # items waiting on either side, each of which is one more batch in memory
_PATIENCE = 0.1  # seconds after which a thread checks whether it should stop
_END = object()


@contextmanager
def ahead(source: Iterator[T]) -> Iterator[Iterator[T]]:
    """The items of `source` in order, produced a few items ahead of their use.

    An error in the source is raised at the position of its item.
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
        except BaseException as error:  # raised where the item is used
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
    """A function that queues items to be written in order; all are written by the end of the block.

    After an error in `write`, nothing more is written, and the next call or the end of the block raises
    it. If the block itself fails, items that are still waiting are dropped.
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
            except BaseException as error:  # raised in the thread that queued the item
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
