"""Whether the table of protected groups is true of new people: errors left, shares
removed, and intervals.

    python benchmarks/protection.py --people 12000 --sets 100

A score is too low by 0.06 for race X (3 % of the people), and by 0.09 for race B above
the age of 60; the correction may read age and another column, not race. Each data set
is searched; the same correction is then applied to 200,000 new people whose true risks
are known."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from propcal import discover
from propcal.discovery.people import People, correct_for

NEW = 200_000


def make(n: int, seed: int, error: float) -> pd.DataFrame:
    """People of three races; the score does not know race."""
    rng = np.random.default_rng(seed)
    race = rng.choice(["A", "B", "X"], n, p=[0.6, 0.37, 0.03])
    age = np.clip(rng.normal(np.where(race == "B", 55, 48), 15), 18, 95).round()
    risk = rng.uniform(0.1, 0.5, n)
    true = risk + error * (race == "X") + 1.5 * error * (race == "B") * (age > 60)
    y = (rng.random(n) < true).astype(int)
    other = rng.integers(0, 5, n)
    return pd.DataFrame(
        {"race": race, "age": age, "other": other, "score": risk, "true": true, "y": y}
    )


def errors_of_new(
    found, fit: pd.DataFrame, new: pd.DataFrame
) -> dict[str, dict[str, float]]:
    """The true error of each correction in each race, among new people."""
    both = pd.concat([fit, new], ignore_index=True)
    old = np.arange(len(both)) < len(fit)
    people = People(
        both["score"].to_numpy(), both["y"].to_numpy(), np.ones(len(both)), False
    )
    groups = (
        [_rows(both, condition) for condition in found.groups.where.values()]
        if len(found)
        else []
    )
    races = [np.flatnonzero(both["race"] == race) for race in ("A", "B", "X")]
    scores = {"before": people.raw, "after": people.raw}
    if groups or found.overall["found"]:
        scores["after"] = correct_for(
            people, groups, whole=found.overall["found"], fitted=old
        )[1]
    scores["reading"] = correct_for(people, races, whole=True, fitted=old)[1]
    gap = {name: both["true"].to_numpy() - p for name, p in scores.items()}
    own = {race: ~old & (both["race"] == race).to_numpy() for race in ("A", "B", "X")}
    return {
        f"race {race}": {name: float(each[rows].mean()) for name, each in gap.items()}
        for race, rows in own.items()
    }


def _rows(frame: pd.DataFrame, condition: str) -> np.ndarray:
    return np.flatnonzero(frame.eval(condition.replace(" = ", " == ")))


def run(people: int, sets: int, seed: int, error: float, draws: int) -> pd.DataFrame:
    """A row for each data set and race: what the table says, and what is true."""
    rows = []
    for k in range(sets):
        fit = make(people, seed + k, error)
        new = make(NEW, 10**6 + seed + k, error)
        found = discover(
            "y",
            "score",
            data=fit,
            features=["age", "other"],
            protect=["race"],
            n_draws=draws,
            random_state=k,
        )
        true = errors_of_new(found, fit, new)
        for said in found.protection.to_frame().to_dict("records"):
            own = true[said["group"]]
            rows.append(
                {**said, "set": k, "n_found": len(found)}
                | {f"true_{m}": v for m, v in own.items()}
            )
    return pd.DataFrame(rows)


def figures(table: pd.DataFrame) -> pd.DataFrame:
    """Coverage of each interval, and the mean of what is said beside the mean of the
    truth.
    """
    rows = []
    for group, own in table.groupby("group"):
        told: dict[str, object] = {
            "group": group,
            "people": round(own["people"].mean()),
        }
        for name in ("before", "after", "reading"):
            truth = own[f"true_{name}"]
            inside = (own[f"{name}_low"] <= truth) & (truth <= own[f"{name}_high"])
            told[f"{name} covered"] = inside.mean()
            told[f"{name} bias"] = (own[name] - truth).mean()
            told[f"{name} bias se"] = (own[name] - truth).std() / np.sqrt(len(own))
        for name, said in (("after", "left"), ("reading", "left_reading")):
            told[f"{said} (said)"] = own[said].mean()
            told[f"{said} (true)"] = own[f"true_{name}"].abs().mean()
        clear = own[own["removed"].notna()]
        told["share given"] = len(clear)
        for name, said in (("after", "removed"), ("reading", "removed_reading")):
            truth = 1 - clear[f"true_{name}"].abs() / clear["true_before"].abs()
            inside = (clear[f"{said}_low"] <= truth + 1e-9) & (
                truth <= clear[f"{said}_high"] + 1e-9
            )
            told[f"{said} covered"] = inside.mean()
            told[f"{said} (median said)"] = clear[said].median()
            told[f"{said} (median true)"] = truth.median()
        rows.append(told)
    return pd.DataFrame(rows).set_index("group").T


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=12_000)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--error", type=float, default=0.06)
    parser.add_argument("--draws", type=int, default=24)
    given = parser.parse_args()
    result = run(given.people, given.sets, given.seed, given.error, given.draws)
    print(
        f"groups found: {result.groupby('set')['n_found'].first().value_counts().to_dict()}"
    )
    print(figures(result).round(4).to_string())
