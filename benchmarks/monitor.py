"""Monitoring: how often a perfect score raises an alarm, how soon a wrong one does,
what a month costs.

python benchmarks/monitor.py [--lives 400] [--seed 1000]

Settings were chosen on other seeds (below 1000). Writes
benchmarks/results/monitor.json."""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from propcal import Monitor
from propcal.core.bins import uniform
from propcal.core.grid import from_grid, to_grid
from propcal.core.groups import Group
from propcal.monitoring.alarms import onset_of, ratio_since
from propcal.monitoring.e_processes import (
    ALARM,
    BETS,
    best_always,
    evidence_over_time,
    shift_gains,
)
from propcal.monitoring.watched_groups import (
    PeriodCounts,
    WatchedGroup,
    evidence_ranges,
    stakes_of,
)

RESULTS = Path(__file__).parent / "results" / "monitor.json"
BINS = uniform(10)
FINE = evidence_ranges(BINS)
GROUPS = [
    Group(()),
    *(Group((("group", str(i)),)) for i in range(10)),
]  # everybody, and ten of a tenth each
WATCHED = [WatchedGroup(group) for group in GROUPS]
WRONG = 4  # the group whose O/E ratio changes
SHAPES = {
    "1/3": (2, 4),
    "1/4": (1.5, 4.5),
    "1/5": (1, 4),
    "1/10": (1, 9),
}  # mean risk: scores by Beta


def life(rng, months, people, *, factor=1.0, begins=10**6, shape=(2, 4)):
    """The counts of one life: scores by a Beta distribution, outcomes by the score
    times the factor.
    """
    n_fine = len(FINE)
    sums = np.zeros((3, months, 11, n_fine))
    for t in range(months):
        score = rng.beta(*shape, people)
        group = rng.integers(0, 10, people)
        chance = np.where(
            (group == WRONG - 1) & (t >= begins), np.minimum(score * factor, 1), score
        )
        outcome = rng.random(people) < chance
        key = group * n_fine + FINE.index(to_grid(score))
        for table, weight in zip(sums, (None, outcome, score)):
            table[t, 1:] = np.bincount(
                key, weights=weight, minlength=10 * n_fine
            ).reshape(10, n_fine)
    for table in sums:
        table[:, 0] = table[:, 1:].sum(axis=1)
    return PeriodCounts(
        tuple(f"{t:03d}" for t in range(months)),
        tuple(GROUPS),
        BINS.index(FINE.edges[:-1]),
        from_grid(FINE.edges),
        *sums,
    )


def alarms(sums):
    """Which groups have an alarm after each month, by any test."""
    evidence = evidence_over_time(sums, stakes_of(WATCHED), ())
    return np.maximum.accumulate(evidence.adjusted.max(axis=1) >= np.log(ALARM), axis=0)


def monthly_audit(sums):
    """What a monthly audit says: O/E ratios at 5 %, adjusted for the groups but not for
    the months.
    """
    observed, expected = sums.positives.sum(axis=2), sums.score.sum(axis=2)
    variance = (sums.people * sums.mean * (1 - sums.mean)).sum(axis=2)
    z = np.abs(observed - expected) / np.sqrt(variance)
    return z > norm.isf(0.05 / 2 / sums.people.shape[1])


def false_alarms(lives, seed, months=24, people=5000):
    mine = audits = unadjusted = 0
    for k in range(lives):
        sums = life(np.random.default_rng([seed, 1, k]), months, people)
        mine += bool(alarms(sums).any())
        audits += bool(monthly_audit(sums).any())
        observed, expected = (
            sums.positives.sum(axis=2)[:, 0],
            sums.score.sum(axis=2)[:, 0],
        )
        variance = (sums.people * sums.mean * (1 - sums.mean)).sum(axis=2)[:, 0]
        unadjusted += bool(
            (np.abs(observed - expected) > 1.96 * np.sqrt(variance)).any()
        )
    return {
        "lives": lives,
        "months": months,
        "people a month": people,
        "monitor: any alarm": mine / lives,
        "monthly audit at 5 %: any alarm": audits / lives,
        "everybody's O/E at 5 % each month: any alarm": unadjusted / lives,
    }


def detection(lives, seed, shape, factor, people=5000, begins=12, months=24):
    delays, audits, others, onset_holds, ratio_holds, early = [], [], 0, 0, 0, 0
    true = _true_ratio(shape, factor)
    for k in range(lives):
        sums = life(
            np.random.default_rng([seed, 2, k]),
            months,
            people,
            factor=factor,
            begins=begins,
            shape=shape,
        )
        found = alarms(sums)
        named = found[:, WRONG]
        first = int(np.argmax(named)) if named.any() else months + 99
        delays.append(first - begins + 1)
        early += first < begins
        others += bool(np.delete(found[: begins + 3], [0, WRONG], axis=1).any())
        audit = monthly_audit(sums)[begins:, WRONG]
        audits.append(int(np.argmax(audit)) + 1 if audit.any() else 99)
        if named.any():
            past = PeriodCounts(
                sums.periods[: first + 1],
                sums.groups,
                sums.bin_of,
                sums.ends,
                *(
                    part[: first + 1]
                    for part in (sums.people, sums.positives, sums.score)
                ),
            )
            own = past.one(WRONG)
            always = best_always(own, "level", np.zeros(1))
            gain = shift_gains(own, BETS).sum(axis=2)[:, 0]
            onset = onset_of(gain, always, ALARM * len(GROUPS))
            onset_holds += onset.low <= begins <= onset.high
            _, low, high = ratio_since(past, WRONG, onset)
            ratio_holds += low <= true <= high
    delays = np.array(delays)
    n = int(np.sum(delays < 90))
    return {
        "O/E": factor,
        "people a month": people,
        "named within 3 months": float(np.mean((delays >= 1) & (delays <= 3))),
        "named within 6 months": float(np.mean((delays >= 1) & (delays <= 6))),
        "median months": float(np.median(delays)),
        "named before it was wrong": early / lives,
        "another group named": others / lives,
        "monthly audit names it within 3 months": float(np.mean(np.array(audits) <= 3)),
        "interval of the onset holds it": onset_holds / max(n, 1),
        "interval of O/E holds it": ratio_holds / max(n, 1),
    }


def _true_ratio(shape, factor):
    """O/E of scores times a factor, at most 1."""
    score = np.random.default_rng(0).beta(*shape, 200_000)
    return float(np.minimum(score * factor, 1).mean() / score.mean())


def ceiling(shape, factor=1.2, people=500, months=24, begins=12, lives=200_000):
    """What 5 % allow at best: named within 3 months by a sum of scores that knows the
    size of the error.

    A CUSUM of each group, whose threshold makes exactly 5 % of monitors raise an alarm
    within 24 months."""
    score = np.random.default_rng(0).beta(*shape, 200_000)
    mean = (factor - 1) * score.mean() * np.sqrt(people / (score * (1 - score)).mean())

    def highest(z):
        both, found = np.zeros((2, len(z))), []
        for now in z.T:
            both = np.maximum(both, 0) + mean * np.array([now, -now]) - mean**2 / 2
            found.append(both.max(axis=0))
        return np.array(found)

    rng = np.random.default_rng(1)
    line = np.quantile(
        highest(rng.normal(size=(lives, months))).max(axis=0), 1 - 0.05 / len(GROUPS)
    )
    z = rng.normal(size=(lives // 10, begins + 3))
    z[:, begins:] += mean
    hit = highest(z) >= line
    return float(np.mean(hit.any(axis=0) & ~hit[:begins].any(axis=0)))


def cost(people, months=60, factor=1.0):
    """Adding a month to five years: seconds of load, add, course and save; bytes of the
    state.

    From the third year on, women of group A have `factor` times the risk that the score
    says."""
    rng = np.random.default_rng(5)
    monitor = Monitor(score="risk", outcome="y", time="day", groups=["race", "sex"])
    frames = []
    for month in pd.period_range("2020-01", periods=months + 1, freq="M"):
        frame = pd.DataFrame(
            {
                "day": month.start_time
                + pd.to_timedelta(
                    rng.integers(0, month.days_in_month, people), unit="D"
                ),
                "race": rng.choice(list("ABCDEFG"), people),
                "sex": rng.choice(["F", "M"], people),
                "risk": rng.beta(2, 4, people),
            }
        )
        wrong = (frame.race == "A") & (frame.sex == "F") & (len(frames) >= 24)
        chance = np.minimum(frame.risk * np.where(wrong, factor, 1.0), 1)
        frames.append(frame.assign(y=(rng.random(people) < chance).astype(int)))
    monitor.add(pd.concat(frames[:-1]))
    monitor.save("five-years.monitor")
    frames[-1].to_parquet("month.parquet")
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        again = Monitor.load("five-years.monitor")
        again.add("month.parquet")
        again.course()
        again.save("six.monitor")
        times.append(time.perf_counter() - begin)
    size = Path("six.monitor").stat().st_size
    for name in ("five-years.monitor", "six.monitor", "month.parquet"):
        Path(name).unlink()
    return {
        "people a month": people,
        "O/E of women of A since the third year": factor,
        "seconds to add a month": min(times),
        "state, megabytes": size / 1e6,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lives", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--skip-cost", action="store_true")
    options = parser.parse_args()
    result = {
        "seed": options.seed,
        "false alarms": false_alarms(options.lives, options.seed),
    }
    print(json.dumps(result, indent=1), flush=True)
    result["detection"] = {}
    for name, shape in SHAPES.items():
        result["detection"][name] = [
            detection(options.lives, options.seed, shape, factor)
            for factor in (1.2, 0.8)
        ]
        print(name, json.dumps(result["detection"][name], indent=1), flush=True)
    result["20,000 people a month, mean risk 1/5"] = detection(
        options.lives, options.seed, SHAPES["1/5"], 1.2, people=20_000
    )
    result["named within 3 months, at best"] = {
        name: ceiling(shape) for name, shape in SHAPES.items()
    }
    if not options.skip_cost:
        result["cost"] = [
            cost(people, factor=factor)
            for people in (5_000, 50_000)
            for factor in (1.0, 1.3)
        ]
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
