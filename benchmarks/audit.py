"""Times an audit, and the losses by themselves relative to encoding, binning and three
bincounts.

python benchmarks/audit.py

Writes benchmarks/results/audit.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from engine import SHAPES, best, encode, people

from propcal import PMCBoost, audit, compare
from propcal.core.categories import dc_of, mc_of, pmc_of
from propcal.metrics import CategoryRule
from propcal.reading.rows import checked_rows

SIZES = [10_000, 173_561, 1_000_000]
EDGES = np.linspace(0, 1, 11)[1:-1]


def baseline(score, y, frame) -> tuple:
    """The minimum that losses need: groups, bins, and the people, outcomes and scores
    of each.
    """
    key = encode(frame) * 10 + np.searchsorted(EDGES, score, side="right")
    return (
        np.bincount(key),
        np.bincount(key, weights=y),
        np.bincount(key, weights=score),
    )


def losses(score, y, frame) -> tuple[float, float, float]:
    table = CategoryRule().table(checked_rows(score, y, frame).atoms())
    return mc_of(table), pmc_of(table, 0.1), dc_of(table, 0.1)


def measure(n: int) -> dict:
    score, y, frame = people(n, SHAPES[14])
    repeats = 15 if n <= 200_000 else 5
    bare, three = [], []
    for _ in range(repeats):  # alternate, so that both run under the same load
        bare.append(best(lambda: baseline(score, y, frame), 1))
        three.append(best(lambda: losses(score, y, frame), 1))
    return {
        "rows": n,
        "losses_s": min(three),
        "losses_ratio": min(three) / min(bare),
        "audit_s": best(
            lambda: audit(y, score, sensitive_features=frame), 5, budget=15
        ),
        "groups": len(audit(y, score, sensitive_features=frame).groups) - 1,
    }


def others(n: int) -> dict:
    """Repeat visits, survey weights, and a comparison of two scores."""
    score, y, frame = people(n, SHAPES[14])
    rng = np.random.default_rng(0)
    ids, weight = rng.integers(0, n // 3, n), rng.exponential(1.0, n) + 0.1
    cal = PMCBoost.paper().fit(score, y, sensitive_features=frame)
    return {
        "rows": n,
        "cluster_s": best(
            lambda: audit(y, score, sensitive_features=frame, cluster=ids), 3
        ),
        "survey_s": best(
            lambda: audit(y, score, sensitive_features=frame, sample_weight=weight), 3
        ),
        "compare_s": best(
            lambda: compare({"a": score, "b": cal}, y, sensitive_features=frame), 3
        ),
    }


def main() -> None:
    result = {"sizes": [measure(n) for n in SIZES], "others": others(173_561)}
    (Path(__file__).parent / "results" / "audit.json").write_text(
        json.dumps(result, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
