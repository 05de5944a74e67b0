"""Opens DuckDB with a memory limit and a temporary folder, and reports its progress."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar
from uuid import uuid4

import duckdb

from propcal.errors import PropcalError, quoted, refused, shown

T = TypeVar("T")
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
SMALLEST = 64 << 20  # DuckDB cannot start with less
LARGEST = 1 << 60  # DuckDB accepts no more, and no machine has it


def connect(**config: Any) -> Any:
    """An in-memory database that downloads nothing and prints nothing."""
    alone = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    engine = duckdb.connect(":memory:", config={**alone, **config})
    engine.execute(
        "SET enable_progress_bar = false"
    )  # it would be printed to standard output
    return engine


def memory_bytes(limit: str | int | None) -> int | None:
    """Read a memory limit such as "4GB".

    >>> memory_bytes("1.5 GB"), memory_bytes("512MiB")
    (1500000000, 536870912)
    """
    if limit is None:
        return None
    text = limit if isinstance(limit, str) else shown(limit)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = found[2].upper() if found else ""
    if isinstance(limit, bool) or found is None or unit not in UNITS:
        raise refused("no size", got=shown(limit))
    size = float(found[1]) * UNITS[unit]
    if size < SMALLEST:
        raise refused("small memory", least=SMALLEST >> 20, got=shown(limit))
    return int(min(size, LARGEST))


@contextmanager
def limited(memory: int | None, threads: int | None) -> Iterator[Any]:
    """A connection with a limit on memory and threads.

    Data that do not fit into memory are written to a temporary folder, which is always
    removed at the end.
    """
    config: dict[str, Any] = {} if memory is None else {"memory_limit": f"{memory}B"}
    if threads is not None:
        config["threads"] = threads
    # the name is chosen before the folder is made, so that a signal in between cannot
    # leave it behind
    aside = Path(tempfile.gettempdir()) / f"propcal-{uuid4().hex}"
    try:
        aside.mkdir(mode=0o700)
        # the order of rows does not matter, because atoms are sorted afterwards
        engine = connect(
            temp_directory=str(aside), preserve_insertion_order=False, **config
        )
        try:
            yield engine
        finally:
            engine.close()
    finally:
        rmtree(aside, ignore_errors=True)


def setting(engine: Any, name: str) -> Any:
    """A setting of a connection, such as "threads" or "memory_limit"."""
    return engine.sql(f"SELECT current_setting({quoted(name)})").fetchall()[0][0]


def fewer_threads(engine: Any, run: Callable[[], T]) -> T:
    """Run a query; if memory is short, try again with half the threads, down to one.

    Each thread fills its own table, so that fewer threads need less memory.
    """
    while True:
        threads = int(setting(engine, "threads"))
        try:
            return run()
        except duckdb.OutOfMemoryException:
            if threads == 1:
                raise
            engine.execute(f"SET threads = {threads // 2}")


def disk_full(error: Exception) -> bool:
    """Whether the disk is full, which DuckDB also reports as out of memory."""
    text = str(error).lower()
    return (
        "no space left" in text
        or "max_temp_directory_size" in text
        or "failed to offload" in text
    )


def no_room() -> PropcalError:
    """The error for a full disk."""
    return refused("no room", folder=tempfile.gettempdir())


@contextmanager
def watched(engine: Any, advance: Callable[[float], None] | None) -> Iterator[None]:
    """Call `advance` with the percentage completed, several times a second, while
    queries run.
    """
    if advance is None:
        yield
        return
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            advance(max(0.0, engine.query_progress()))

    engine.execute(
        "SET enable_progress_bar = true; SET enable_progress_bar_print = false"
    )
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    advance(100.0)  # a query may end before the first check
