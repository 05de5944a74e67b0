"""Generated people. No row here describes anybody; the shape is that of the paper's Table 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.grid import FloatArray, IntArray, check_number

if TYPE_CHECKING:
    import pandas as pd

# Table 1: visits and admissions of the paper's cohort by ethnoracial group, women then men.
TABLE_1: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "American Indian/Alaska Native": ((257, 70), (170, 82)),
    "Asian": ((3595, 1043), (2384, 1032)),
    "Black/African American": ((27486, 3124), (14458, 2603)),
    "Hispanic/Latino": ((10262, 1063), (5795, 1168)),
    "Other": ((5163, 1232), (3849, 1479)),
    "Unknown/Unable to Obtain": ((2156, 1521), (2377, 2074)),
    "White": ((50174, 18147), (45435, 18951)),
}
N_VISITS = sum(visits for cell in TABLE_1.values() for visits, _ in cell)

# Share of visits insured by Medicaid below the age of 65, by group; invented, ordered as is usual.
MEDICAID = {
    "American Indian/Alaska Native": 0.35,
    "Asian": 0.2,
    "Black/African American": 0.4,
    "Hispanic/Latino": 0.45,
    "Other": 0.3,
    "Unknown/Unable to Obtain": 0.25,
    "White": 0.15,
}
# How steeply true risk rises with illness; differs by group, so that one score for all is wrong.
STEEPNESS = {
    "American Indian/Alaska Native": 1.1,
    "Asian": 1.4,
    "Black/African American": 1.0,
    "Hispanic/Latino": 1.5,
    "Other": 1.2,
    "Unknown/Unable to Obtain": 0.7,
    "White": 1.3,
}
COMPLAINTS = {
    "abdominal pain": 0.1,
    "chest pain": 0.2,
    "shortness of breath": 0.8,
    "fever": 0.5,
    "headache": -0.7,
    "back pain": -0.8,
    "fall": 0.1,
    "dizziness": 0.0,
    "weakness": 0.9,
    "laceration": -1.4,
    "altered mental status": 1.3,
    "vomiting": 0.2,
    "ankle injury": -1.6,
    "cough": -0.3,
    "alcohol": -1.0,
}


def make_ed_visits(n: int = N_VISITS, seed: int = 0) -> pd.DataFrame:
    """Generate emergency-department visits with a known true risk of admission.

    Group and gender occur as often as in the paper's Table 1, and their mean true risk is the
    published admission rate. Everything else is invented.

    Parameters
    ----------
    n : int, default=173_561
        Number of visits.
    seed : int, default=0

    Returns
    -------
    pandas.DataFrame
        One row a visit: race, gender, age, insurance, vital signs and the like (some missing), the
        outcome `admitted` and its `true_risk`.

    Examples
    --------
    >>> visits = make_ed_visits(1000, seed=1)
    >>> visits.groupby("gender").size().to_dict()
    {'F': 571, 'M': 429}
    """
    import pandas as pd

    check_number("n", n, at_least=100, whole=True)
    rng = np.random.default_rng(seed)
    cells = [(race, gender, *cell) for race, pair in TABLE_1.items() for gender, cell in zip("FM", pair)]
    cell = rng.permutation(np.repeat(np.arange(len(cells)), _shares(n, [visits for *_, visits, _ in cells])))
    race = np.array([c[0] for c in cells], dtype=object)[cell]
    gender = np.array([c[1] for c in cells], dtype=object)[cell]
    illness = rng.normal(size=n)
    visits = _demographics(rng, race)
    visits.update(_triage(rng, illness, visits["age"]))
    risk = _true_risk(race, cell, cells, illness, visits)
    admitted = (rng.random(n) < risk).astype(np.int64)
    columns: dict[str, Any] = {"race": race, "gender": gender, **_some_missing(rng, visits)}
    return pd.DataFrame({**columns, "true_risk": risk, "admitted": admitted})


def _shares(n: int, counts: list[int]) -> IntArray:
    """N divided in proportion to counts, by largest remainder."""
    exact = np.array(counts) * (n / sum(counts))
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: n - int(whole.sum())]] += 1
    return whole


def _demographics(rng: np.random.Generator, race: Any) -> dict[str, Any]:
    n = len(race)
    older = np.where(race == "White", 8.0, 0.0)
    age = np.clip(rng.normal(50 + older, 19), 18, 95).astype(np.int64)
    medicaid = rng.random(n) < np.array([MEDICAID[r] for r in MEDICAID])[_index(race, MEDICAID)]
    insurance = np.where(
        (age >= 65) & (rng.random(n) < 0.85), "Medicare", np.where(medicaid, "Medicaid", "Other")
    )
    english = np.where(race == "Hispanic/Latino", 0.6, np.where(race == "Asian", 0.65, 0.95))
    n_visits = rng.negative_binomial(0.8, 0.3, n)
    return {
        "age": age,
        "insurance": insurance,
        "marital_status": rng.choice(
            ["MARRIED", "SINGLE", "DIVORCED", "WIDOWED"], n, p=[0.4, 0.43, 0.08, 0.09]
        ),
        "language": np.where(rng.random(n) < english, "ENGLISH", "?"),
        "n_previous_visits": n_visits,
        "n_previous_admissions": rng.binomial(n_visits, 0.3),
    }


def _triage(rng: np.random.Generator, illness: FloatArray, age: IntArray) -> dict[str, Any]:
    n = len(illness)
    seen = illness + rng.normal(scale=0.8, size=n)  # triage sees illness imperfectly
    complaints = np.array(list(COMPLAINTS), dtype=object)
    return {
        "acuity": np.clip(np.round(3.0 - 0.6 * seen), 1, 5),
        "temperature": np.round(98.1 + 0.25 * illness + rng.normal(scale=0.8, size=n), 1),
        "heartrate": np.round(84 + 7 * illness + rng.normal(scale=13, size=n)),
        "resprate": np.round(17.5 + 1.0 * illness + rng.normal(scale=1.8, size=n)),
        "o2sat": np.minimum(np.round(98.3 - 0.8 * illness + rng.normal(scale=1.4, size=n)), 100),
        "sbp": np.round(118 + 0.35 * age - 3 * illness + rng.normal(scale=18, size=n)),
        "dbp": np.round(78 - 1.5 * illness + rng.normal(scale=12, size=n)),
        "pain": np.clip(np.round(rng.normal(4.5, 3.2, n)), 0, 10),
        "chief_complaint": complaints[rng.integers(0, len(complaints), n)],
    }


def _true_risk(
    race: Any,
    cell: IntArray,
    cells: list[tuple[str, str, int, int]],
    illness: FloatArray,
    visits: dict[str, Any],
) -> FloatArray:
    """Risk from illness, age, history and complaint; each cell's mean is the published rate."""
    steepness = np.array(list(STEEPNESS.values()))[_index(race, STEEPNESS)]
    complaint = np.array(list(COMPLAINTS.values()))[_index(visits["chief_complaint"], COMPLAINTS)]
    log_odds = (
        steepness * illness
        + 0.02 * (visits["age"] - 50)
        + 0.35 * np.log1p(visits["n_previous_admissions"])
        + np.where(visits["insurance"] == "Medicaid", -0.2, 0.0)
        + complaint
    )
    for number, (_, _, n_visits, n_admitted) in enumerate(cells):
        rows = np.flatnonzero(cell == number)
        if len(rows):
            log_odds[rows] += _intercept(log_odds[rows], n_admitted / n_visits)
    return _expit(log_odds)


def _intercept(log_odds: FloatArray, rate: float) -> float:
    """What to add so that the mean risk is the given rate, by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if _expit(log_odds + middle).mean() < rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _expit(log_odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _index(values: Any, table: dict[str, float]) -> IntArray:
    names = np.array(sorted(table), dtype=object)
    order = np.array([list(table).index(name) for name in names])
    return np.asarray(order[np.searchsorted(names, values)])


def _some_missing(rng: np.random.Generator, visits: dict[str, Any]) -> dict[str, Any]:
    """Vital signs and triage are missing now and then, together for some visits."""
    n = len(visits["age"])
    never_measured = rng.random(n) < 0.04
    result = dict(visits)
    for name in ("acuity", "temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain"):
        absent = never_measured | (rng.random(n) < 0.02)
        result[name] = np.where(absent, np.nan, visits[name])
    return result
