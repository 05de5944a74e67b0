"""Times audits of many groups and of many atoms, against the times they are meant to
take.

python benchmarks/audit_groups.py [59] [839] [119] [--repeats 3]

Prints the best of several runs, as elapsed time and as processor time of one core: on a
busy machine, only the latter says much. Writes benchmarks/results/audit_groups.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from propcal import Atoms, audit

RESULTS = Path(__file__).parent / "results" / "audit_groups.json"
CASES = {  # groups: people, levels of each attribute, seconds that the audit may take
    "59": (10_000, (5, 9), 0.5),
    "839": (9_104, (6, 4, 5, 3), 2.0),
    "119": (3_000_000, (4, 3, 5), 5.0),
}


def people(n: int, levels: tuple[int, ...]) -> Atoms:
    """Atoms of people with continuous scores and unequal groups; the score is
    perfect.
    """
    rng = np.random.default_rng(0)
    columns = {}
    for i, k in enumerate(levels):
        share = np.linspace(2, 1, k)
        columns[f"a{i}"] = rng.choice(k, n, p=share / share.sum()).astype(str)
    score = rng.beta(1.5, 4, n)
    frame = pd.DataFrame(columns).assign(
        score=score, y=(rng.random(n) < score).astype(int)
    )
    return Atoms.from_frame(frame, score="score", outcome="y", groups=list(columns))


def measure(name: str, repeats: int) -> dict:
    n, levels, limit = CASES[name]
    atoms = people(n, levels)
    elapsed, processor = [], []
    for _ in range(repeats):
        began = perf_counter(), process_time()
        found = audit(atoms)
        elapsed.append(perf_counter() - began[0])
        processor.append(process_time() - began[1])
    return {
        "people": n,
        "atoms": len(atoms),
        "groups": len(found.groups) - 1,
        "seconds": min(elapsed),
        "processor_seconds": min(processor),
        "limit": limit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), help="how many groups: 59, 839, 119"
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with threadpool_limits(1):
        for name in arguments.cases:
            rows[name] = measure(name, arguments.repeats)
            print(json.dumps(rows[name]), flush=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
