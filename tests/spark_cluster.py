"""A reduction on a Spark cluster of two executor processes, one of which dies half-way.
Run by a test.

Prints a line of JSON: how many executors there were, how many were lost, and whether
the atoms are right."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from propcal import Atoms
from sessions import spark_session

ROWS, PARTS = 4_000_000, 48
COLUMNS = {
    "score": "score",
    "outcome": "y",
    "groups": ["race", "sex"],
    "resolution": 2**-12,
}
MADE = {
    "score": "(id * 7919 % 1000003) / 1000003.0D",
    "y": "CAST(id % 7 < 2 AS INT)",
    "race": "CASE WHEN id % 5 = 0 THEN NULL ELSE concat('race ', id % 3) END",
    "sex": "id % 2 = 0",
}


def in_memory():
    """The same people by numpy."""
    i = np.arange(ROWS)
    race = pd.Categorical.from_codes(
        np.where(i % 5 == 0, -1, i % 3), [f"race {k}" for k in range(3)]
    )
    frame = {
        "score": (i * 7919 % 1000003) / 1000003.0,
        "y": (i % 7 < 2).astype(int),
        "race": race,
        "sex": i % 2 == 0,
    }
    return Atoms.from_frame(pd.DataFrame(frame), **COLUMNS)


def executors(app):
    """Process ids of the executors of this application, which are children of its own
    workers.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            any(b"CoarseGrainedExecutorBackend" in word for word in words)
            and app.encode() in words
        ):
            found.append(int(folder.name))
    return sorted(found)


def kill_one_half_way(context, done):
    """Kill an executor once some tasks of the first stage are through and others are
    not.
    """
    tracker = context.statusTracker()
    while not done.is_set():
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if (
                info
                and info.numTasks == PARTS
                and 6 <= info.numCompletedTasks <= PARTS - 10
            ):
                victim = executors(context.applicationId)[0]
                os.kill(victim, signal.SIGKILL)
                lost.append((victim, info.numCompletedTasks))
                return
        time.sleep(0.02)


lost: list[tuple[int, int]] = []


def main():
    spark = spark_session(
        "local-cluster[2,1,1024]", **{"spark.sql.shuffle.partitions": "4"}
    )
    context = spark.sparkContext
    people = spark.range(0, ROWS, 1, PARTS).selectExpr(
        *(f"{sql} AS {name}" for name, sql in MADE.items())
    )
    expected = in_memory().fingerprint()
    began = Atoms.from_frame(people, **COLUMNS).fingerprint()
    before = executors(context.applicationId)
    done = threading.Event()
    killer = threading.Thread(target=kill_one_half_way, args=(context, done))
    # the same work, slowly enough to be met in the middle of it
    slow = people.mapInArrow(slowly, people.schema)
    killer.start()
    after = Atoms.from_frame(slow, **COLUMNS).fingerprint()
    done.set()
    killer.join()
    same = [began == expected, after == expected]
    print(
        json.dumps(
            {
                "executors": len(before),
                "killed": len(lost),
                "completed": [n for _, n in lost],
                "same": same,
            }
        )
    )
    spark.stop()


def slowly(batches):
    import time

    for batch in batches:
        time.sleep(0.1)
        yield batch


if __name__ == "__main__":
    sys.exit(main())
