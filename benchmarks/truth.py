"""How often propcal says something false: worlds whose truth is known, and every claim judged against it.

    python benchmarks/truth.py                  # 200 data sets of each world, some 40 minutes on two cores
    python benchmarks/truth.py --sets 20 perfect bend

Each data set has 1,000 to 50,000 people; sites have 12 to 300 expected events each, monitors 24 months of
600 people, searches 3,000 to 50,000 people. A claim is false if its direction is not that of the truth: for
everybody and groups, the sum of the true risks minus the sum of the scores; for a shape, the same among
people with the scores that are named; for a difference from the overall error, the mean effect of the group
minus that of the others; for slopes that differ, whether they do. A certificate is false if any group is
further off than it allows, "within 20 %" if any group tested is. Writes results/truth.json and
results/truth.md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # two processes: more threads only wait for each other

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results"
SIZES = (1000, 3000, 10_000, 50_000)
WITHIN = 0.2


@dataclass
class World:
    """People with scores and true risks; `effect` is what sets them apart from the
    error that all share.

    `slopes` is whether the effect of a group depends on the score.
    """

    score: Any
    risk: Any
    groups: Any
    effect: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    y: Any = None
    slopes: bool = False

    def outcomes(self, rng: np.random.Generator) -> Any:
        """Drawn by the true risks."""
        return (
            (rng.random(len(self.risk)) < self.risk).astype(int)
            if self.y is None
            else self.y
        )


def expit(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def people(n: int, rng: np.random.Generator, level: float = -1.4) -> tuple[Any, Any]:
    """Races of 50 to 5 %, two sexes, and the log-odds of their scores."""
    shares = [0.5, 0.2, 0.15, 0.1, 0.05]
    frame = pd.DataFrame(
        {
            "race": rng.choice(list("ABCDE"), n, p=shares),
            "sex": rng.choice(["F", "M"], n),
        }
    )
    return frame, rng.normal(level, 1.1, n)


def shifted(
    effect: Callable[[Any], Any],
    common: Callable[[Any], Any] = lambda x: x,
    level: float = -1.4,
) -> Callable[[int, np.random.Generator], World]:
    """A world in which the log-odds of the truth are a curve that all share, plus an
    effect of groups.
    """

    def world(n: int, rng: np.random.Generator) -> World:
        frame, x = people(n, rng, level)
        own = effect(frame)
        return World(expit(x), expit(common(x) + own), frame, own)

    return world


def nothing(frame: Any) -> Any:
    return np.zeros(len(frame))


def where(**levels: str) -> Callable[[Any], Any]:
    return lambda frame: np.logical_and.reduce(
        [frame[name] == level for name, level in levels.items()]
    )


def of(size: float, **levels: str) -> Callable[[Any], Any]:
    return lambda frame: size * where(**levels)(frame)


def hidden(n: int, rng: np.random.Generator) -> World:
    """Only race B is wrong; most of B go to ward w1, where everybody else is right."""
    frame, x = people(n, rng)
    frame["ward"] = np.where(
        rng.random(n) < np.where(frame.race == "B", 0.8, 0.1), "w1", "w2"
    )
    own = 0.5 * (frame.race == "B").to_numpy()
    return World(expit(x), expit(x + own), frame[["race", "ward"]], own)


def too_low(n: int, rng: np.random.Generator) -> World:
    """The score of race D, a tenth of all people, is 20 % lower than the risk."""
    frame, x = people(n, rng, -1.0)
    score, own = expit(x), (frame.race == "D").to_numpy()
    risk = np.where(own, np.minimum(score / 0.8, 0.99), score)
    return World(score, risk, frame, 0.3 * own, slopes=True)


def few_events(n: int, rng: np.random.Generator) -> World:
    """Race E has hardly any events where the score expects some."""
    frame, x = people(n, rng, -2.0)
    own = -1.8 * (frame.race == "E").to_numpy()
    return World(expit(x), expit(x + own), frame, own)


def deciles(n: int, rng: np.random.Generator) -> World:
    frame, x = people(n, rng)
    place = np.floor(
        10 * pd.Series(x).rank(pct=True, method="first").to_numpy() * (1 - 1e-9)
    ).astype(int)
    risk = expit(x)
    score = pd.Series(risk).groupby(place).transform("mean").to_numpy()
    return World(score, score, frame, np.zeros(n))


def points(n: int, rng: np.random.Generator) -> World:
    """A score of 0 to 8 points whose table of risks is right."""
    frame, _ = people(n, rng)
    score = expit(-3.5 + 0.6 * rng.binomial(8, 0.35, n))
    return World(score, score, frame, np.zeros(n))


def certain(n: int, rng: np.random.Generator) -> World:
    """Scores of exactly 0 and 1 that are not certain; the others are right."""
    frame, x = people(n, rng)
    score = expit(x)
    risk = score.copy()
    end = rng.random(n)
    score, risk = np.where(end < 0.02, 1.0, score), np.where(end < 0.02, 0.9, risk)
    score, risk = np.where(end > 0.98, 0.0, score), np.where(end > 0.98, 0.04, risk)
    return World(score, risk, frame, np.zeros(n))


def alert(n: int, rng: np.random.Generator) -> World:
    """A score of 0 or 1 for all, with as many alerts as outcomes."""
    frame, _ = people(n, rng)
    score = (rng.random(n) < 0.2).astype(float)
    return World(score, np.where(score == 1, 0.5, 0.125), frame, np.zeros(n))


def rare(n: int, rng: np.random.Generator) -> World:
    frame, x = people(n, rng, -5.0)
    return World(expit(x), expit(x), frame, np.zeros(n))


def many_groups(n: int, rng: np.random.Generator) -> World:
    frame, x = people(n, rng)
    frame = pd.DataFrame({"ward": rng.integers(0, 100, n).astype(str)})
    return World(expit(x), expit(x), frame, np.zeros(n), {"groups": None})


def repeats(n: int, rng: np.random.Generator) -> World:
    """Patients with several visits whose risks are alike; the score is right on average
    over patients.
    """
    frame, x = people(n, rng)
    patient = rng.integers(0, max(n // 4, 50), n)
    own = rng.normal(0, 0.8, n)[patient]
    return World(
        expit(x),
        expit(x + own),
        frame,
        np.zeros(n),
        {"cluster": patient, "marginal": True},
    )


def few_repeats(n: int, rng: np.random.Generator) -> World:
    """Every row is its own patient, 40 wards of about 12 expected events each, and the
    score is right.
    """
    n = 4000
    x = rng.normal(-2.3, 0.8, n)
    frame = pd.DataFrame({"ward": rng.integers(0, 40, n).astype(str)})
    return World(expit(x), expit(x), frame, np.zeros(n), {"cluster": np.arange(n)})


def survey(n: int, rng: np.random.Generator) -> World:
    frame, x = people(n, rng)
    return World(
        expit(x),
        expit(x),
        frame,
        np.zeros(n),
        {"sample_weight": rng.gamma(2, 1, n) + 0.2},
    )


def overlapping(frame: Any) -> Any:
    return 0.45 * (frame.race == "B") - 0.35 * (frame.sex == "F")


def step(x: Any) -> Any:
    return np.where(x > -1, x + 0.5, x - 0.15)


WORLDS: dict[str, Callable[[int, np.random.Generator], World]] = {
    "perfect": shifted(nothing),
    "level": shifted(nothing, lambda x: x + 0.3),
    "slope": shifted(nothing, lambda x: -1.4 + 0.75 * (x + 1.4)),
    "bend": shifted(nothing, lambda x: x + 0.45 * np.sin(1.5 * x)),
    "step": shifted(nothing, step),
    "bend, and a group": shifted(
        of(0.4, race="B"), lambda x: x + 0.45 * np.sin(1.5 * x)
    ),
    "one group": shifted(of(0.4, race="B")),
    "a 10 % group 20 % too low": too_low,
    "two overlapping groups": shifted(overlapping),
    "intersection only": shifted(of(0.6, race="B", sex="F")),
    "women less than men": shifted(
        lambda f: np.where(f.sex == "F", -0.17, 0.17), lambda x: x + 0.4
    ),
    "everybody but one group": shifted(of(-0.3, race="D"), lambda x: x + 0.3),
    "a group behind another": hidden,
    "few events": few_events,
    "deciles": deciles,
    "points": points,
    "scores of 0 and 1": certain,
    "an alert": alert,
    "1 % outcome": rare,
    "100 groups": many_groups,
    "repeat visits": repeats,
    "patients once, few events": few_repeats,
    "survey weights": survey,
}


def judge(claim: Any, world: World, inside: Any, weight: Any) -> bool:
    """Whether a claim of an audit is true."""
    sign = {"too low": 1, "too high": -1, "higher": 1, "lower": -1, "": 0}[
        claim.direction
    ]
    gap = weight * (world.risk - world.score)
    score = world.score
    if claim.kind in ("within", "outside"):
        own = inside(claim.who)
        off = abs(gap[own].sum() / (weight * score)[own].sum())
        return (
            off <= claim.within + 1e-9 if claim.kind == "within" else off > claim.within
        )
    if claim.kind in ("overall", "group"):
        return sign * gap[inside(claim.who)].sum() > 0
    if claim.kind == "shape":
        if not claim.where:
            return _bent(score, gap)
        wanted = {"too low": 1, "too high": -1}
        return all(
            wanted[r.direction]
            * gap[(score >= r.low - 1e-9) & (score <= r.high + 1e-9)].sum()
            > 0
            for r in claim.where
        )
    if claim.kind == "cell":
        low, high = (float(part) for part in claim.bin.strip("[]()").split(","))
        there = inside(claim.who) & (score >= low) & ((score < high) | (high == 1))
        return sign * gap[there].sum() > 0
    if claim.test == "slopes and curves of groups":
        return world.slopes
    if not claim.who:
        return bool(np.ptp(world.effect) > 0)
    own = inside(claim.who)
    return bool(sign * (world.effect[own].mean() - world.effect[~own].mean()) > 1e-12)


def _bent(score: Any, gap: Any) -> bool:
    """Whether the score is wrong in some tenth of the people, in the order of their
    scores.
    """
    order = np.argsort(score, kind="stable")
    return any(abs(part.mean()) > 1e-4 for part in np.array_split(gap[order], 10))


def members(frame: Any) -> Callable[[str], Any]:
    """The rows of a group, by its name in an audit."""

    def inside(name: str) -> Any:
        found = np.ones(len(frame), dtype=bool)
        for part in name.split(" & ") if name != "everybody" else []:
            column, level = part.split("=")
            found &= (frame[column].astype(str) == level).to_numpy()
        return found

    return inside


def one(name: str, seed: int) -> dict[str, Any]:
    """One data set of a world: audit it (or compare sites, monitor, search), and judge
    all that is said.
    """
    if name in OTHERS:
        return OTHERS[name](seed)
    from propcal import audit

    rng = np.random.default_rng([seed, *name.encode()])
    world = WORLDS[name](SIZES[seed % len(SIZES)], rng)
    more = {
        key: value
        for key, value in world.settings.items()
        if key in ("cluster", "sample_weight")
    }
    y = world.outcomes(rng)
    a = audit(
        y,
        world.score,
        sensitive_features=world.groups,
        n_draws=100,
        random_state=seed,
        **more,
    )
    weight = more.get("sample_weight", np.ones(len(y)))
    inside = members(world.groups)
    if world.settings.get("marginal"):  # the risk of a visit, averaged over patients
        world.risk = _average_risk(world)
    false = [
        f"{c.kind} {c.who} {c.direction}"
        for c in a.verdict.claims
        if not judge(c, world, inside, weight)
    ]
    tested = a.groups[a.groups["certain_within"].notna()]
    ratio = np.array(
        [
            (weight * world.risk)[inside(g)].sum()
            / (weight * world.score)[inside(g)].sum()
            for g in tested["group"]
        ]
    )
    covered = (tested["observed_expected_low"] <= ratio) & (
        ratio <= tested["observed_expected_high"]
    )
    shown = bool((tested["shown_within"] <= WITHIN).all()) if len(tested) else False
    return {
        "claims": [c.kind for c in a.verdict.errors],
        "false": false,
        "named": sorted(c.who for c in a.verdict.errors if c.who),
        "certificate": bool(
            (np.abs(ratio - 1) <= tested["certain_within"] + 1e-9).all()
        ),
        "shown": shown,
        "falsely shown": bool(shown and (np.abs(ratio - 1) > WITHIN).any()),
        "intervals": len(covered),
        "covered": int(covered.sum()),
        "people": len(y),
    }


def judged(
    claims: Any, world: World, inside: Callable[[str], Any], **more: Any
) -> dict[str, Any]:
    """All claims of a result without certificates."""
    ones = np.ones(len(world.score))
    false = [
        f"{c.kind} {c.who} {c.direction}"
        for c in claims
        if not judge(c, world, inside, ones)
    ]
    return {
        "claims": [c.kind for c in claims],
        "false": [*false, *more.get("false", [])],
        "named": sorted(c.who for c in claims if c.who),
        "certificate": True,
        "falsely shown": False,
        "intervals": 0,
        "covered": 0,
        "people": len(ones),
    }


def sites(off: float, share: float) -> Callable[[int], dict[str, Any]]:
    """10 to 50 sites, a share of which is off by a factor on the odds."""

    def one_set(seed: int) -> dict[str, Any]:
        from propcal import Atoms, compare_sites

        rng = np.random.default_rng([seed, 7])
        n_sites, events = (10, 30, 50)[seed % 3], (13, 60, 300)[seed // 3 % 3]
        site = np.repeat([f"s{i}" for i in range(n_sites)], events * 5)
        x = rng.normal(-1.6, 0.9, len(site))
        wrong = rng.random(n_sites) < share
        effect = np.repeat(np.where(wrong, np.log(off), 0.0), events * 5)
        world = World(expit(x), expit(x + effect), None, effect)
        frame = pd.DataFrame(
            {"site": site, "risk": world.score, "y": world.outcomes(rng), "sex": "F"}
        )
        atoms = Atoms.from_frame(
            frame, score="risk", outcome="y", groups=["sex"], site="site"
        )
        found = compare_sites(atoms)

        def inside(name: str) -> Any:
            return (
                np.ones(len(site), dtype=bool) if name == "everybody" else site == name
            )

        # the slope is right where all sites are alike; a mixture of sites has another
        # one
        shapes = [c for c in found.claims if c.kind == "shape" and np.ptp(effect) == 0]
        rest = [c for c in found.claims if c.kind != "shape"]
        judgement = judged(rest, world, inside, false=["slope" for _ in shapes])
        return judgement | {"claims": [c.kind for c in found.claims]}

    return one_set


def months(
    size: float, group: str | None, start: int
) -> Callable[[int], dict[str, Any]]:
    """24 months, from one of which on the odds of a group (or of everybody) are off by
    a factor.
    """

    def one_set(seed: int) -> dict[str, Any]:
        from propcal import Monitor

        rng = np.random.default_rng([seed, 8])
        frame, x = people(24 * 600, rng, -1.2)
        month = np.repeat(np.arange(24), 600)
        own = (
            np.ones(len(x), dtype=bool)
            if group is None
            else (frame.race == group).to_numpy()
        )
        effect = np.log(size) * (own & (month >= start))
        world = World(expit(x), expit(x + effect), frame, effect)
        periods = pd.period_range("2024-01", periods=24, freq="M")
        rows = frame.assign(
            risk=world.score,
            y=world.outcomes(rng),
            day=periods[month].to_timestamp() + pd.Timedelta(days=9),
        )
        monitor = Monitor(score="risk", outcome="y", time="day", groups=["race", "sex"])
        monitor.add(rows)
        claims = monitor.course().claims
        named, begun = members(frame), [str(period) for period in periods]
        false = []
        for claim in claims:
            since = begun.index(claim.since) if claim.since else 0
            there = named(claim.who) & (month >= since)
            sign = {"too low": 1, "too high": -1}.get(claim.direction, 0)
            right = sign * (world.risk - world.score)[there].sum() > 0
            if claim.kind in ("shape", "cell"):
                right = size != 1.0
            if claim.since:
                right = (
                    right
                    and start > 0
                    and claim.since_low <= begun[start] <= claim.since_high
                )
            false += (
                []
                if right
                else [f"{claim.kind} {claim.who} {claim.direction} since {claim.since}"]
            )
        return judged((), world, named, false=false) | {
            "claims": [c.kind for c in claims]
        }

    return one_set


def search(size: float) -> Callable[[int], dict[str, Any]]:
    """A group that only its features define."""

    def one_set(seed: int) -> dict[str, Any]:
        from propcal import discover

        rng = np.random.default_rng([seed, 9])
        n = (3000, 10_000, 50_000)[seed % 3]
        frame = pd.DataFrame(
            {
                "age": rng.integers(18, 95, n),
                "visits": rng.poisson(1.5, n),
                "lab": rng.normal(0, 1, n),
            }
        )
        effect = size * ((frame.age > 70) & (frame.visits >= 2)).to_numpy()
        x = rng.normal(-1.4, 1.1, n)
        world = World(expit(x), expit(x + effect), frame, effect)
        found = discover(world.outcomes(rng), world.score, features=frame)
        conditions = {group.name: group.condition for group in found.found}

        def inside(name: str) -> Any:
            return frame.eval(conditions[name]).to_numpy()

        slopes = [group for group in found.found if group.measure != "O/E ratio"]
        levels = [
            c
            for c, group in zip(found.claims, found.found)
            if group.measure == "O/E ratio"
        ]
        judgement = judged(
            levels, world, inside, false=["slope" for _ in slopes if not size]
        )
        return judgement | {"claims": [c.kind for c in found.claims]}

    return one_set


OTHERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sites: none off": sites(1.0, 0.0),
    "sites: all off": sites(0.75, 1.0),
    "sites: some off": sites(0.5, 0.2),
    "monitor: no drift": months(1.0, None, 0),
    "monitor: everybody from the start": months(1.35, None, 0),
    "monitor: drift of everybody": months(1.35, None, 12),
    "monitor: drift of one group": months(1.8, "B", 12),
    "search: nothing": search(0.0),
    "search: a group defined by features": search(0.6),
}


def _average_risk(world: World) -> Any:
    """The expected risk at each score when patients' effects are not known."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    x = np.log(world.score / (1 - world.score))
    return expit(x[:, None] + 0.8 * nodes) @ weights / weights.sum()


def main() -> None:
    """Run, judge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="*")
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    chosen = given.worlds or [*WORLDS, *OTHERS]
    rows, found = [], {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for name in chosen:
            seeds = range(given.first, given.first + given.sets)
            results = list(pool.map(one, [name] * given.sets, seeds, chunksize=5))
            found[name] = results
            rows.append(summary(name, results))
            print(json.dumps(rows[-1]), flush=True)
            for said in sorted({text for r in results for text in r["false"]})[:6]:
                print(
                    "    ", said, sum(said in r["false"] for r in results), flush=True
                )
    table = pd.DataFrame(rows)
    total = f"any false claim: {table['false claim, %'].mean():.1f} % of all data sets"
    print(total)
    if not given.worlds:
        (RESULTS / "truth.json").write_text(json.dumps(rows, indent=1) + "\n")
        lines = [
            "| " + " | ".join(table.columns) + " |",
            "|" + " --- |" * len(table.columns),
        ]
        lines += [
            "| " + " | ".join(str(x) for x in row) + " |"
            for row in table.to_numpy().tolist()
        ]
        (RESULTS / "truth.md").write_text("\n".join([*lines, "", total, ""]))


def summary(name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Percentages of a world."""

    def percent(key: Callable[[dict[str, Any]], bool]) -> float:
        return round(100 * float(np.mean([key(r) for r in results])), 1)

    large = [r for r in results if r["people"] == 10_000]
    intervals = sum(r["intervals"] for r in results)
    return {
        "world": name,
        "data sets": len(results),
        "any claim, %": percent(lambda r: bool(r["claims"])),
        "false claim, %": percent(lambda r: bool(r["false"])),
        "D named at 10,000, %": round(
            100 * float(np.mean(["race=D" in r["named"] for r in large])), 1
        )
        if "10 %" in name
        else "",
        "certificate covers, %": percent(lambda r: r["certificate"])
        if intervals
        else "",
        "falsely within 20 %, %": percent(lambda r: r["falsely shown"])
        if intervals
        else "",
        "O/E intervals cover, %": round(
            100 * sum(r["covered"] for r in results) / intervals, 1
        )
        if intervals
        else "",
    }


if __name__ == "__main__":
    main()
