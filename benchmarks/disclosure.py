"""Whether a protected page says what the terminal says, on generated data or on a file.

    python benchmarks/disclosure.py                       # about five minutes; writes results/disclosure.json
    python benchmarks/disclosure.py visits.csv --score risk --outcome died --groups race,sex

Generated: 300 to 100,000 people, outcome rates of 1, 4 and 30 %, few and many groups, tied scores, scores of
0 and 1, repeat visits. Of each data set an audit and a comparison with a corrected score are protected, and
compared with the exact ones:

- measures of everybody (slope, intercept, AUROC, Brier score, log loss, typical gap) at their printed digits;
- signs of all differences before and after; findings of groups and cells, and the conclusion;
- O/E ratios of groups with at least 20 events, and whether the exact one is in the printed interval;
- how many groups of at least 100 people, 11 with the outcome and 11 without it, are withheld;
- the processor time of a page, in times of one without protection.

`--attack` also counts how many values integer programming over a whole page leaves for each small count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from propcal import Atoms, audit, compare
from propcal.auditing.names import MEASURE_NAMES
from propcal.numbers import IN_TEXT, Limit, known
from propcal.protect.release import protected

RESULTS = Path(__file__).parent / "results"
SIZES = (300, 1000, 3000, 10_000, 30_000, 100_000)
RATES = (0.01, 0.04, 0.3)
KINDS = ("plain", "many groups", "tied", "certain", "repeat visits")
EVERYBODY = ("slope", "intercept", "auroc", "brier", "log_loss")
FEWEST_EVENTS, LARGE = 20, 100


def people(n: int, rate: float, kind: str, seed: int) -> dict[str, Any]:
    """People of several races, and a score that is wrong for one of them."""
    rng = np.random.default_rng(seed)
    share = np.array([0.6, 0.25, 0.1, 0.05])
    frame = pd.DataFrame(
        {
            "race": rng.choice(["A", "B", "C", "D"], n, p=share),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    if kind == "many groups":
        frame["ward"] = rng.choice([f"w{i}" for i in range(12)], n)
    x = rng.normal(0, 1, n) + np.log(rate / (1 - rate))
    risk = 1 / (1 + np.exp(-x - 0.4 * (frame["race"] == "B")))
    score = 1 / (1 + np.exp(-x))
    cluster = None
    if kind == "repeat visits":
        cluster = rng.integers(0, max(n // 3, 20), n)
        risk = 1 / (
            1 + np.exp(-np.log(risk / (1 - risk)) - rng.normal(0, 0.7, n)[cluster])
        )
    if kind == "tied":
        score = np.ceil(pd.Series(score).rank(pct=True).to_numpy() * 10) / 10 * 2 * rate
    if kind == "certain":
        score = np.where(
            rng.random(n) < 0.02, 1.0, np.where(rng.random(n) < 0.05, 0.0, score)
        )
        risk = np.where(score == 1, 0.9, risk)
    y = (rng.random(n) < risk).astype(int)
    return {"y": y, "score": np.clip(score, 0, 1), "groups": frame, "cluster": cluster}


class Found:
    """Counts and differences over all data sets."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.off: list[float] = []
        self.rates: list[float] = []
        self.times: list[float] = []

    def compare(self, exact: Any, shown: Any) -> None:
        """One audit, exact and protected."""
        a, b = exact.groups.iloc[0], shown.groups.iloc[0]
        for name in EVERYBODY:
            self._same("measures", a[name], b[name], MEASURE_NAMES[name].digits)
        self._same(
            "measures",
            100 * exact.debiased.loc["mc", "rms"],
            100 * shown.debiased.loc["mc", "rms"],
            1,
        )
        self.counts["conclusions"] += 1
        self.counts["conclusions unlike"] += (
            exact.verdict.conclusion != shown.verdict.conclusion
        )
        for kind in ("groups", "categories"):
            unlike = exact_text(exact, kind) != exact_text(shown, kind)
            self.counts["findings"] += len(unlike)
            self.counts["findings unlike"] += int(unlike.sum())
        for (_, a), (_, b) in zip(exact.groups.iterrows(), shown.groups.iterrows()):
            self._ratio(a, b)
            if (
                a["people"] >= LARGE
                and min(a["positives"], a["people"] - a["positives"]) >= 11
            ):
                self.counts["large groups"] += 1
                self.counts["large groups withheld"] += not known(b["people"])

    def _same(self, kind: str, exact: float, shown: Any, digits: int) -> None:
        if not known(exact):
            return
        if not known(shown):
            self.counts[f"{kind} withheld"] += 1
            return
        self.counts[kind] += 1
        self.counts[f"{kind} unlike"] += IN_TEXT.decimal(
            exact, digits
        ) != IN_TEXT.decimal(shown, digits)

    def _ratio(self, a: Any, b: Any) -> None:
        if a["positives"] < FEWEST_EVENTS or not known(a["observed_expected"]):
            return
        if not known(b["observed_expected"]) or isinstance(
            b["observed_expected"], Limit
        ):
            self.counts["ratios withheld"] += 1
            return
        self.off.append(abs(b["observed_expected"] / a["observed_expected"] - 1))
        self.rates.append(abs(b["outcome_rate"] - a["outcome_rate"]))
        if known(b["observed_expected_low"]):
            low, high = (
                float(b[f"observed_expected_{end}"]) for end in ("low", "high")
            )
            self.counts["intervals"] += 1
            self.counts["intervals that miss"] += (
                not low - 0.005 <= a["observed_expected"] <= high + 0.005
            )

    def signs(self, exact: pd.DataFrame, shown: pd.DataFrame) -> None:
        """Differences before and after."""
        for a, b in zip(exact.itertuples(), shown.itertuples()):
            if (
                known(a.difference)
                and known(b.difference)
                and a.difference
                and b.difference
            ):
                self.counts["signs"] += 1
                self.counts["signs unlike"] += np.sign(a.difference) != np.sign(
                    b.difference
                )

    def timed(self, result: Any) -> None:
        """A page with and without protection, the best of three each."""
        seconds = {}
        for suppress in (0, 11):
            runs = []
            for _ in range(3):
                begin = time.process_time()
                result.to_html(suppress=suppress)
                runs.append(time.process_time() - begin)
            seconds[suppress] = min(runs)
        self.times.append(seconds[11] / seconds[0])

    def summary(self) -> dict[str, Any]:
        """All figures."""
        off, rates = np.array(self.off), np.array(self.rates)
        return {
            **{name: int(count) for name, count in sorted(self.counts.items())},
            "ratios": len(off),
            "O/E ratio, relative difference": {
                "median": float(np.median(off)),
                "95 %": float(np.quantile(off, 0.95)),
                "most": float(off.max()),
            },
            "observed rate, difference": {
                "median": float(np.median(rates)),
                "95 %": float(np.quantile(rates, 0.95)),
            },
            "exact O/E in the interval": 1
            - self.counts["intervals that miss"] / max(self.counts["intervals"], 1),
            "page with protection, times one without": {
                "median": float(np.median(self.times)),
                "most": max(self.times),
            },
        }


def exact_text(result: Any, kind: str) -> Any:
    """Findings and names of a table."""
    return getattr(result, kind)["finding"].to_numpy()


def measure(found: Found, data: dict[str, Any], *, timed: bool) -> None:
    """One data set: an audit, and a comparison with a score that was corrected by
    hand.
    """
    y, score = data["y"], data["score"]
    more = {} if data["cluster"] is None else {"cluster": data["cluster"]}
    better = np.where(data["groups"]["race"] == "B", score * 1.4, score).clip(0, 1)
    c = compare(
        {"raw": score, "better": better},
        y,
        sensitive_features=data["groups"],
        n_draws=100,
        **more,
    )
    shown = protected(c, 11)
    for name, exact in c.audits.items():
        found.compare(exact, shown.audits[name])
    found.signs(c.differences, shown.differences)
    if timed:
        found.timed(c.audits["raw"])


def of_file(path: str, score: str, outcome: str, groups: list[str]) -> Found:
    """The same for a file."""
    found = Found()
    exact = audit(
        Atoms.from_files(
            path, score=score, outcome=outcome, groups=groups, drop_missing=True
        )
    )
    found.compare(exact, protected(exact, 11))
    found.timed(exact)
    return found


def attack() -> dict[str, Any]:
    """How many values remain for small counts, in 60 data sets."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "protect"))
    from attack import random_people, widths

    found: list[int] = []
    for seed in range(60):
        frame, score, y = random_people(seed)
        found += widths(
            audit(
                y, score, sensitive_features=frame, n_draws=100, gamma=0.001, n_bins=4
            ),
            most=20,
        )
    values = np.array(found)
    return {
        "small counts": len(values),
        "fewest values": int(values.min()),
        "median": float(np.median(values)),
        "fewer than five": float(np.mean(values < 5)),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--score")
    parser.add_argument("--outcome")
    parser.add_argument("--groups", type=lambda text: text.split(","), default=[])
    parser.add_argument(
        "--sets", type=int, default=2, help="data sets of each kind, size and rate"
    )
    parser.add_argument("--attack", action="store_true")
    given = parser.parse_args()
    if given.file:
        print(
            json.dumps(
                of_file(given.file, given.score, given.outcome, given.groups).summary(),
                indent=1,
            )
        )
        return
    found = Found()
    for i, (n, rate, kind) in enumerate(
        (n, rate, kind) for n in SIZES for rate in RATES for kind in KINDS
    ):
        for seed in range(given.sets):
            measure(
                found,
                people(n, rate, kind, 1000 * seed + i),
                timed=seed == 0 and n <= 30_000,
            )
    result = found.summary()
    if given.attack:
        result["attack"] = attack()
    print(json.dumps(result, indent=1))
    (RESULTS / "disclosure.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
