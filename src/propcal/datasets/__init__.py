"""Data for examples: an open data set that comes with propcal, and simulated visits.

Nothing is downloaded. `SOURCES.md` beside the files gives sources and licences. The
simulated visits to an emergency department are modelled on the paper's Table 1; there
are no real patients among them.
"""

from __future__ import annotations

import tomllib
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.arguments import check_number
from propcal.core.grid import FloatArray, IntArray
from propcal.numbers import adding_up

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_doctor_visits", "make_ed_visits"]

_DATA = tomllib.loads(
    (files("propcal.datasets") / "ed_visits.toml").read_text(encoding="utf-8")
)
TABLE_1: dict[str, list[tuple[int, int]]] = _DATA["table_1"]
N_VISITS = sum(visits for cell in TABLE_1.values() for visits, _ in cell)
MEDICAID: dict[str, float] = _DATA["medicaid"]
STEEPNESS: dict[str, float] = _DATA["steepness"]
PLAUSIBLE: dict[str, tuple[float, float]] = _DATA["plausible"]
COMPLAINTS: dict[str, float] = _DATA["complaints"]
SECOND_COMPLAINTS: dict[str, list[str]] = _DATA["second_complaints"]
DETAILS: list[str] = _DATA["details"]
MARITAL_STATUS: dict[str, list[float]] = _DATA["marital_status"]
MARITAL_AGES = (18, 40, 60, 90)
MEASURED = (
    "acuity",
    "temperature",
    "heartrate",
    "resprate",
    "o2sat",
    "sbp",
    "dbp",
    "pain",
)


def load_doctor_visits() -> pd.DataFrame:
    """Years of people in the RAND Health Insurance Experiment, and a risk score for
    frequent doctor visits.

    13,326 person-years from the experiment of 1974 to 1982, in which families were
    assigned insurance plans that paid all or part of their care. The score is that of a
    logistic regression of health, limitations and chronic diseases on other people, all
    of whom had free care. It is applied to everybody here, as a score developed
    elsewhere would be. People are in random order, so that ``years[years.person <
    1765]`` and the rest are two random halves without a person in common.

    Returns
    -------
    pandas.DataFrame
        One row per person and year:

        - ``person``: number of the person. The source has no such number; rows that
          follow each other with the same plan, health, income limits and diseases have
          the same one
        - ``plan``: what the person pays: "free care", "pays 25 %", "pays 50 %" or "pays
          95 % or all"
        - ``deductible``: whether the plan has an individual deductible
        - ``health``: in the person's own words, from "excellent" to "poor"
        - ``limited``: has a physical limitation
        - ``chronic_diseases``: index of chronic diseases
        - ``visits``: outpatient visits to a doctor in this year
        - ``risk``: the score, for ``frequent``
        - ``frequent``: five visits or more

    Notes
    -----
    Source: RAND Corporation; Cameron and Trivedi (2005), "Microeconometrics: methods
    and applications", as in statsmodels (``statsmodels.datasets.randhie``). Public
    domain. Changed: people chosen and numbered at random, columns chosen, renamed and
    recoded, the score added (``benchmarks/make_datasets.py``).

    Examples
    --------
    >>> from propcal.datasets import load_doctor_visits
    >>> years = load_doctor_visits()
    >>> len(years), years.person.nunique(), round(float(years.frequent.mean()), 3)
    (13326, 3529, 0.197)
    >>> years.groupby("plan").frequent.mean().round(2).to_dict()
    {'free care': 0.22, 'pays 25 %': 0.19, 'pays 50 %': 0.18, 'pays 95 % or all': 0.15}
    """
    import pandas as pd

    with as_file(files("propcal.datasets") / "doctor_visits.parquet") as path:
        return pd.read_parquet(path)


def make_ed_visits(
    n: int = N_VISITS,
    seed: int = 0,
    *,
    illness_effect: float = 1.0,
    complaint_effect: float = 1.0,
    details: int = 0,
) -> pd.DataFrame:
    """Generate emergency-department visits with a known true risk of admission.

    Ethnoracial group and gender have the frequencies of the paper's Table 1, and their
    mean true risk is the published admission rate. Everything else is invented: the
    columns are those of the paper's Table 2, with plausible associations and missing
    values.

    Parameters
    ----------
    n : int, default=173_561
        Number of visits.
    seed : int, default=0
    illness_effect, complaint_effect : float, default=1
        How many times as much the log-odds of admission depend on illness, and on the
        complaint. Larger effects make admission easier to predict.
    details : int, default=0
        How many further words, such as "chronic" or "left", complaints may contain (at
        most 49): a third of the visits have one. Everything else stays the same.

    Returns
    -------
    pandas.DataFrame
        One row per visit: race, gender, age, insurance, vital signs, chief complaint
        and so on (some missing), the outcome `admitted` and its `true_risk`.

    Examples
    --------
    >>> visits = make_ed_visits(1000, seed=1)
    >>> visits.groupby("gender").size().to_dict()
    {'F': 571, 'M': 429}
    """
    import pandas as pd

    check_number("n", n, at_least=100, whole=True)
    check_number("illness_effect", illness_effect, at_least=0)
    check_number("complaint_effect", complaint_effect, at_least=0)
    check_number("details", details, at_least=0, at_most=len(DETAILS), whole=True)
    rng = np.random.default_rng(seed)
    cells = _cells_of_table_1()
    cell = _drawn_cells(rng, cells, n)
    race = np.array([one.race for one in cells], dtype=object)[cell]
    gender = np.array([one.gender for one in cells], dtype=object)[cell]
    illness = rng.normal(size=n)
    visits = _demographics(rng, race)
    visits |= _triage(rng, illness, visits["age"])

    log_odds = _log_odds(race, illness_effect * illness, complaint_effect, visits)
    risk = _with_rates(log_odds, cell, cells)
    admitted = (rng.random(n) < risk).astype(np.int64)

    visits = _some_missing(rng, visits)
    # a separate generator, which affects neither risk nor outcome
    extra = np.random.default_rng([seed, 1])
    complaint = visits["chief_complaint"]
    complaint = _with_second(extra, complaint, illness, visits["age"])
    visits |= _some_unrecorded(extra, race, visits)
    if details:
        further = np.random.default_rng([seed, 2])
        complaint = _with_detail(further, complaint, illness, details)
    visits["chief_complaint"] = complaint
    columns: dict[str, Any] = {"race": race, "gender": gender, **visits}
    return pd.DataFrame({**columns, "true_risk": risk, "admitted": admitted})


class _Cell(NamedTuple):
    """A cell of Table 1: how many visits, and how many of them were admitted."""

    race: str
    gender: str
    n_visits: int
    n_admitted: int


def _cells_of_table_1() -> list[_Cell]:
    cells = []
    for race, (women, men) in TABLE_1.items():
        cells += [_Cell(race, "F", *women), _Cell(race, "M", *men)]
    return cells


def _drawn_cells(rng: np.random.Generator, cells: list[_Cell], n: int) -> IntArray:
    """The cell of each of n visits, in random order."""
    expected = [cell.n_visits * (n / N_VISITS) for cell in cells]
    return rng.permutation(np.repeat(np.arange(len(cells)), adding_up(expected, n)))


def _demographics(rng: np.random.Generator, race: Any) -> dict[str, Any]:
    n = len(race)
    mean_age = np.where(race == "White", 58.0, 50.0)
    age = np.clip(rng.normal(mean_age, 19), 18, 95).astype(np.int64)
    medicaid = rng.random(n) < _looked_up(race, MEDICAID)
    under_65 = np.where(medicaid, "Medicaid", "Other")
    medicare = (age >= 65) & (rng.random(n) < 0.85)
    insurance = np.where(medicare, "Medicare", under_65)
    share_english = np.full(n, 0.95)
    share_english[race == "Hispanic/Latino"] = 0.6
    share_english[race == "Asian"] = 0.65
    n_visits = rng.negative_binomial(0.8, 0.3, n)
    return {
        "age": age,
        "insurance": insurance,
        "marital_status": _marital_status(rng, age),
        "language": np.where(rng.random(n) < share_english, "ENGLISH", "?"),
        "n_previous_visits": n_visits,
        "n_previous_admissions": rng.binomial(n_visits, 0.3),
    }


def _marital_status(rng: np.random.Generator, age: IntArray) -> Any:
    """Draw marital status by age."""
    shares = [
        np.interp(age, MARITAL_AGES, by_age) for by_age in MARITAL_STATUS.values()
    ]
    upper_ends = np.cumsum(shares[:-1], axis=0)
    place = (rng.random(len(age)) >= upper_ends).sum(axis=0)
    return np.array(list(MARITAL_STATUS), dtype=object)[place]


def _triage(
    rng: np.random.Generator, illness: FloatArray, age: IntArray
) -> dict[str, Any]:
    n = len(illness)
    seen = illness + rng.normal(scale=0.8, size=n)  # triage sees illness imperfectly

    def noise(scale: float) -> FloatArray:
        return rng.normal(scale=scale, size=n)

    triage: dict[str, Any] = {}
    triage["acuity"] = np.clip(np.round(3.0 - 0.6 * seen), 1, 5)
    triage["temperature"] = np.round(98.1 + 0.25 * illness + noise(0.8), 1)
    triage["heartrate"] = np.round(84 + 7 * illness + noise(13))
    triage["resprate"] = np.round(17.5 + 1.0 * illness + noise(1.8))
    triage["o2sat"] = np.round(98.3 - 0.8 * illness + noise(1.4))
    triage["sbp"] = np.round(118 + 0.35 * age - 3 * illness + noise(18))
    triage["dbp"] = np.round(78 - 1.5 * illness + noise(12))
    triage["pain"] = np.clip(np.round(rng.normal(4.5, 3.2, n)), 0, 10)
    complaints = np.array(list(COMPLAINTS), dtype=object)
    triage["chief_complaint"] = complaints[rng.integers(0, len(complaints), n)]
    for name, (low, high) in PLAUSIBLE.items():
        triage[name] = np.clip(triage[name], low, high)
    return triage


def _log_odds(
    race: Any, illness: FloatArray, complaint_effect: float, visits: dict[str, Any]
) -> FloatArray:
    """The log-odds of admission by illness, age, history, insurance and complaint."""
    by_illness = _looked_up(race, STEEPNESS) * illness
    by_age = 0.02 * (visits["age"] - 50)
    by_history = 0.35 * np.log1p(visits["n_previous_admissions"])
    by_insurance = np.where(visits["insurance"] == "Medicaid", -0.2, 0.0)
    by_complaint = _looked_up(visits["chief_complaint"], COMPLAINTS)
    total: FloatArray = (
        by_illness
        + by_age
        + by_history
        + by_insurance
        + complaint_effect * by_complaint
    )
    return total


def _with_rates(log_odds: FloatArray, cell: IntArray, cells: list[_Cell]) -> FloatArray:
    """The risk of each visit, whose mean in each cell is the published rate."""
    log_odds = log_odds.copy()
    for number, published in enumerate(cells):
        rows = np.flatnonzero(cell == number)
        if len(rows):
            rate = published.n_admitted / published.n_visits
            log_odds[rows] += _intercept(log_odds[rows], rate)
    return _expit(log_odds)


def _intercept(log_odds: FloatArray, rate: float) -> float:
    """The intercept at which the mean risk is the given rate, found by bisection."""
    low = -20.0
    high = 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if _expit(log_odds + middle).mean() < rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _expit(log_odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-log_odds)))


def _looked_up(values: Any, table: dict[str, float]) -> FloatArray:
    return np.fromiter(map(table.__getitem__, values), np.float64, len(values))


def _some_missing(rng: np.random.Generator, visits: dict[str, Any]) -> dict[str, Any]:
    """Make some vital signs and triage values missing; in some visits all of them."""
    n = len(visits["age"])
    never_measured = rng.random(n) < 0.04
    result = dict(visits)
    for name in MEASURED:
        absent = never_measured | (rng.random(n) < 0.02)
        result[name] = np.where(absent, np.nan, visits[name])
    return result


def _with_second(
    rng: np.random.Generator, main: Any, illness: FloatArray, age: IntArray
) -> Any:
    """Texts such as "chest pain, cough": a second complaint is likelier for older and
    sicker patients.

    It is also more severe for sicker patients.
    """
    n = len(main)
    names_two = rng.random(n) < _expit(-0.9 + 0.4 * illness + 0.01 * (age - 50))
    n_kinds = len(next(iter(SECOND_COMPLAINTS.values())))
    places = _by_gravity(rng, illness, n_kinds)
    second = [SECOND_COMPLAINTS[name][place] for name, place in zip(main, places)]
    return np.where(names_two, main + ", " + np.array(second, dtype=object), main)


def _with_detail(
    rng: np.random.Generator, complaint: Any, illness: FloatArray, n_words: int
) -> Any:
    """A further word in a third of the texts; it is more severe for sicker patients."""
    has_one = rng.random(len(illness)) < 1 / 3
    words = np.array(DETAILS[:n_words], dtype=object)
    word = words[_by_gravity(rng, illness, n_words)]
    return np.where(has_one, complaint + ", " + word, complaint)


def _by_gravity(
    rng: np.random.Generator, illness: FloatArray, n_kinds: int
) -> IntArray:
    """Draw one of several kinds, ordered from mild to severe, by illness."""
    gravity = _expit(0.8 * illness + rng.logistic(size=len(illness)))
    return np.minimum((gravity * n_kinds).astype(np.int64), n_kinds - 1)


def _some_unrecorded(
    rng: np.random.Generator, race: Any, visits: dict[str, Any]
) -> dict[str, Any]:
    """Make some marital status and language values missing, more often where race is
    unknown too.
    """
    unknown = race == "Unknown/Unable to Obtain"
    result = {}
    for name, usual_share, share_if_unknown in (
        ("marital_status", 0.03, 0.25),
        ("language", 0.005, 0.04),
    ):
        share = np.where(unknown, share_if_unknown, usual_share)
        absent = rng.random(len(race)) < share
        result[name] = np.where(absent, None, visits[name])
    return result
