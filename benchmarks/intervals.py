"""How often 95 % intervals of O/E ratios, slopes and rates contain the truth, in data
with known risks.

python benchmarks/intervals.py [--repeats 1000]

The true O/E ratio of the people audited is the sum of their true risks over that of
their scores, the true slope that of a logistic regression of their risks, the true rate
of a cell the mean risk of its people. With repeat visits, risks are those given what
the score knows: patients differ beyond that. Prints a table and writes
benchmarks/results/coverage.json."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

from propcal import audit
from propcal.auditing.statistics.hypothesis_tests import events_p_value
from propcal.auditing.statistics.logistic_calibration import _coefficient, _fit
from propcal.auditing.statistics.measures import UNKNOWN, Estimate, observed_expected
from propcal.auditing.statistics.sample import Sample
from propcal.core.logistic import expit, fit_logistic, log_odds
from propcal.reading.rows import rows_to_atoms

RESULTS = Path(__file__).parent / "results" / "coverage.json"
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(30)
WRONG = {  # log-odds of the true risk, from those of the score around their middle
    "perfect": lambda x: x,
    "level": lambda x: x + 0.4,
    "slope": lambda x: 0.6 * x,
    "timid": lambda x: 1.5 * x,
}
WEAK, STRONG = 0.5, 1.5  # standard deviation of the log-odds
EVENTS = (5, 10, 20, 50)
REPEATS, CELLS_REPEATS = 1000, 100


def people(
    rng: np.random.Generator, n: int, rate: float, spread: float, wrong: str
) -> tuple:
    """Scores and true risks of people with about this rate."""
    x = spread * rng.normal(size=n)
    middle = np.log(rate / (1 - rate)) - spread**2 / 2 * (1 - 2 * rate)
    return expit(middle + x), expit(middle + WRONG[wrong](x))


def data(
    rng: np.random.Generator, kind: str, n: int, rate: float, spread: float, wrong: str
) -> tuple:
    """Scores, true risks, outcomes, weights and patients."""
    if kind != "repeat visits":
        score, risk = people(rng, n, rate, spread, wrong)
        weight = np.exp(rng.normal(0, 0.8, n)) if kind == "survey weights" else None
        return score, risk, (rng.random(n) < risk).astype(float), weight, None
    patient = rng.integers(0, n // 4, n)
    score, risk = people(rng, n, rate, spread, wrong)
    effect = rng.normal(size=n // 4)[patient]
    known = (expit(log_odds(risk)[:, None] + NODES) @ WEIGHTS) / WEIGHTS.sum()
    drawn = (rng.random(n) < expit(log_odds(risk) + effect)).astype(float)
    score = known if wrong == "perfect" else score
    return score, known, drawn, None, patient


def covers(low: float, truth: float, high: float) -> float:
    """1 if it does, 0 if not; NaN if there is no interval."""
    return (
        float(low - 1e-9 <= truth <= high + 1e-9) if np.isfinite(high - low) else np.nan
    )


def slope_of(sample: Sample) -> Estimate:
    """The calibration slope alone: all of `calibration` would take much longer."""
    line = _fit(sample, np.zeros(2)) if 0 < sample.observed < sample.total else None
    return UNKNOWN if line is None else _coefficient(sample, line, 1)


def ratios_and_slopes(
    kind: str, n: int, rate: float, spread: float, wrong: str, repeats: int
) -> list[dict]:
    """Shares of data sets whose intervals cover, and where interval and test agree on a
    ratio of 1.
    """
    rows = []
    for seed in range(repeats):
        score, risk, y, weight, patient = data(
            np.random.default_rng(
                [seed, n, round(1000 * rate), round(10 * spread), len(wrong)]
            ),
            *(kind, n, rate, spread, wrong),
        )
        sample = Sample.of(
            rows_to_atoms(score, y, sample_weight=weight, cluster=patient)
        )
        w = np.ones(n) if weight is None else weight
        ratio, slope = observed_expected(sample), slope_of(sample)
        x = log_odds(score)
        line = fit_logistic(
            np.stack([np.ones(n), x], axis=1), 0 * x, w, w * risk, np.array([0.0, 1.0])
        )
        p = events_p_value(sample)[1]
        rows.append(
            {
                "O/E": covers(ratio.low, float(w @ risk / (w @ score)), ratio.high),
                "slope": np.nan
                if line is None
                else covers(slope.low, line.coefficients[1], slope.high),
                "agrees": float((p < 0.05) == (not ratio.low <= 1 <= ratio.high)),
            }
        )
    found = pd.DataFrame(rows)
    about = {"kind": kind, "score": wrong, "people": n, "rate": rate, "spread": spread}
    return [
        {
            **about,
            "of": name,
            "data sets": int(found[name].notna().sum()),
            "share": float(found[name].mean()),
        }
        for name in found
    ]


def rates(kind: str, n: int, rate: float, wrong: str, repeats: int) -> list[dict]:
    """Wilson's intervals of the observed rates of cells (a group within a risk
    range).
    """
    held = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        score, risk, y, weight, patient = data(rng, kind, n, rate, 1.0, wrong)
        group = rng.choice([*"abc"], n, p=[0.6, 0.3, 0.1])
        found = audit(
            y,
            score,
            sensitive_features={"g": group},
            sample_weight=weight,
            cluster=patient,
            n_draws=100,
        )
        w = np.ones(n) if weight is None else weight
        bins = np.minimum(np.floor(score * 10), 9).astype(int)
        cells = found.categories[
            found.categories.eligible & found.categories.group.str.startswith("g=")
        ]
        for cell in cells.itertuples():
            inside = (group == cell.group[2:]) & (
                bins == int(float(cell.bin[1:].split(",")[0]) * 10 + 0.5)
            )
            truth = float(np.average(risk[inside], weights=w[inside]))
            held.append(covers(cell.rate_low, truth, cell.rate_high))
    about = {
        "kind": kind,
        "score": wrong,
        "people": n,
        "rate": rate,
        "spread": 1.0,
        "of": "rate",
    }
    return [{**about, "data sets": repeats, "share": float(np.nanmean(held))}]


def cases() -> list[tuple]:
    """Kind, people, rate, spread of the log-odds, and what is wrong with the score."""
    found = [
        ("independent", n, rate, spread, wrong)
        for n in (500, 2000)
        for rate in (0.01, 0.1, 0.3)
        for spread in (WEAK, STRONG)
        for wrong in WRONG
        if n * rate >= 20
    ]
    found += [
        ("independent", 20_000, 0.1, STRONG, wrong) for wrong in ("perfect", "slope")
    ]
    found += [
        ("few events", round(events / 0.05), 0.05, 1.0, "perfect") for events in EVENTS
    ]
    for kind in ("survey weights", "repeat visits"):
        found += [
            (kind, n, rate, 1.0, "perfect") for n in (500, 2000) for rate in (0.05, 0.3)
        ]
        found += [(kind, 2000, 0.1, 1.0, "slope"), (kind, 20_000, 0.1, 1.0, "perfect")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=REPEATS)
    repeats = parser.parse_args().repeats
    rows: list[dict] = []
    for kind, n, rate, spread, wrong in cases():
        rows += ratios_and_slopes(
            kind, n, rate, spread, wrong, repeats if n <= 2000 else repeats // 4
        )
    for kind in ("independent", "survey weights", "repeat visits"):
        rows += rates(kind, 5000, 0.2, "perfect", CELLS_REPEATS)
    table = pd.DataFrame(rows)
    about = ["kind", "score", "people", "rate", "spread"]
    print(table.pivot_table("share", about, "of", sort=False).round(3).to_string())
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
