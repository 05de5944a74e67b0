"""What protected counts leave of the truth for readers, and what they leave for attackers.

    python benchmarks/disclosure.py       # about two minutes

Readers: 20 generated data sets of 300 to 100,000 people are audited exactly, and from protected counts with
limits of 6, 11 and 21 people. The differences of what both show are printed: of O/E ratios relative to the
exact one, of rates in percentage points, of AUROC and slope as they are; and how many of the numbers in the
tables of groups and cells are blank or only limits.

Attackers: a group of 1 to 10 people is left over when a group of known size is taken from a total. For every
such pair, the sizes that the shown counts leave possible are counted: for blocks of ten, and for rounding to
the nearest 5 with a limit of 11. (tests/disclosure attacks whole pages, by integer programming.)

Writes benchmarks/results/disclosure.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propcal import audit
from propcal.core.grid import FloatArray
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected import protected_audit
from propcal.numbers import Limit

RESULTS = Path(__file__).parent / "results"
SIZES = (300, 1000, 3000, 10_000, 100_000)
RARE = (0.04, 0.3)  # outcome rates
LIMITS = (6, 11, 21)
MEASURES = {
    "observed_expected": "O/E ratio, relative",
    "outcome_rate": "observed rate",
    "mean_score": "predicted rate",
    "auroc": "AUROC",
    "slope": "calibration slope",
}


def people(n: int, rate: float, seed: int) -> tuple[Any, Any, Any]:
    """Two attributes with rare levels, and a score that is wrong for one of them."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["White", "Black", "Asian", "Other"], n, p=[0.6, 0.25, 0.1, 0.05])
    sex = rng.choice(["F", "M"], n)
    x = rng.normal(0, 1, n) + np.log(rate / (1 - rate))
    risk = 1 / (1 + np.exp(-x - 0.4 * (race == "Black")))
    y = (rng.random(n) < risk).astype(int)
    return y, 1 / (1 + np.exp(-x)), pd.DataFrame({"race": race, "sex": sex})


def differences(exact: Any, shown: Any) -> dict[str, list[float]]:
    """Between the numbers that both audits show of groups."""
    found = {}
    for measure in MEASURES:
        pairs = [
            (a, b)
            for a, b in zip(exact.groups[measure], shown.groups[measure])
            if a == a and b == b and not isinstance(b, Limit)
        ]
        scale = [a if measure == "observed_expected" else 1.0 for a, _ in pairs]
        found[measure] = [abs(b - a) / s for (a, b), s in zip(pairs, scale)]
    return found


def blanks(exact: Any, shown: Any) -> tuple[int, int, int]:
    """Numbers in the tables, those that are only a limit, and those that are left blank."""
    total = limits = blank = 0
    for kind, names in (
        ("groups", ("outcome_rate", "mean_score", "observed_expected", "auroc")),
        ("categories", ("outcome_rate", "mean_score", "gap")),
    ):
        for name in names:
            for a, b in zip(getattr(exact, kind)[name], getattr(shown, kind)[name]):
                total += a == a
                limits += isinstance(b, Limit)
                blank += a == a and b != b
    return total, limits, blank


def readers() -> list[dict[str, Any]]:
    """One row for each limit."""
    audits = []
    for i, (n, rate) in enumerate((n, rate) for n in SIZES for rate in RARE):
        for seed in (i, 100 + i):
            y, score, groups = people(n, rate, seed)
            audits.append(audit(y, score, sensitive_features=groups, n_draws=200))
    rows = []
    for fewest in LIMITS:
        shown = [protected_audit(a, fewest) for a in audits]
        each = [differences(a, b) for a, b in zip(audits, shown)]
        counted = np.sum([blanks(a, b) for a, b in zip(audits, shown)], axis=0)
        row: dict[str, Any] = {"fewest": fewest, "data_sets": len(audits)}
        for measure in MEASURES:
            values = np.concatenate([found[measure] for found in each])
            row[measure] = {"median": float(np.median(values)), "95 %": float(np.quantile(values, 0.95))}
        row |= dict(zip(("numbers", "limits", "blank"), map(int, counted)))
        row["findings_kept"] = all(
            list(a.groups["finding"]) == list(b.groups["finding"]) for a, b in zip(audits, shown)
        )
        rows.append(row)
    return rows


def nearest_5(count: FloatArray) -> FloatArray:
    """To the nearest multiple of 5, at least 15; what is below 11 stands for itself as 5."""
    return np.where(count < 11, 5.0, np.maximum(np.rint(count / 5) * 5, 15.0))


def attackers() -> dict[str, dict[str, float]]:
    """How many sizes remain possible for a group of 1 to 10 people that subtraction isolates."""
    numbers = np.arange(0.0, 400)
    schemes = {"blocks of ten": Blocks(11).shown(numbers, numbers), "nearest 5": nearest_5(numbers)}
    result = {}
    for name, shown in schemes.items():
        left = []
        for rest in range(11, 300):
            for small in range(1, 11):
                rests = np.flatnonzero(shown == shown[rest])
                totals = np.flatnonzero(shown == shown[rest + small])
                possible = {t - r for t in totals for r in rests if 0 <= t - r <= 10}
                left.append(len(possible))
        result[name] = {"fewest": min(left), "median": float(np.median(left))}
    return result


def main() -> None:
    """Measure, print and write."""
    found = {"readers": readers(), "attackers": attackers()}
    for row in found["readers"]:
        print(f"limit {row['fewest']}, {row['data_sets']} data sets")
        for measure, name in MEASURES.items():
            print(f"  {name:24} median {row[measure]['median']:.4f}, 95 % below {row[measure]['95 %']:.4f}")
        print(f"  of {row['numbers']:,} numbers, {row['limits']:,} are limits and {row['blank']:,} blank")
        print(f"  findings as in the exact audit: {row['findings_kept']}")
    for name, row in found["attackers"].items():
        print(f"{name}: at least {row['fewest']} values are possible, {row['median']:g} in the median")
    (RESULTS / "disclosure.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
