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

Columns = dict[str, Any]

_DATA = tomllib.loads(
    (files("propcal.datasets") / "ed_visits.toml").read_text(encoding="utf-8")
)
TABLE_1: dict[str, list[tuple[int, int]]] = _DATA["table_1"]
N_VISITS = sum(visits for cell in TABLE_1.values() for visits, _ in cell)
MEDICAID: dict[str, float] = _DATA["medicaid"]
STEEPNESS: dict[str, float] = _DATA["steepness"]
COMPLAINTS: dict[str, float] = _DATA["complaints"]
SECOND_COMPLAINTS: dict[str, list[str]] = _DATA["second_complaints"]
DETAILS: list[str] = _DATA["details"]
MARITAL_STATUS: dict[str, list[float]] = _DATA["marital_status"]
MARITAL_AGES = (18, 40, 60, 90)
MEASURED = ("acuity", *_DATA["vital_signs"], "pain")


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
    race_of_cell = np.array([one.race for one in cells], dtype=object)
    gender_of_cell = np.array([one.gender for one in cells], dtype=object)
    race = race_of_cell[cell]
    gender = gender_of_cell[cell]

    illness = rng.normal(size=n)
    visits = _demographics(rng, race)
    visits |= _triage(rng, illness, visits["age"])

    log_odds = _log_odds(race, illness_effect * illness, complaint_effect, visits)
    risk = _with_rates(log_odds, cell, cells)
    is_admitted = rng.random(n) < risk

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
    result = pd.DataFrame({"race": race, "gender": gender, **visits})
    result["true_risk"] = risk
    result["admitted"] = is_admitted.astype(np.int64)
    return result


class VitalSign(NamedTuple):
    """How one vital sign is drawn; values are clipped to the plausible range."""

    mean: float
    by_age: float
    by_illness: float
    spread: float
    digits: int
    lowest: float
    highest: float


VITAL_SIGNS = {name: VitalSign(**sign) for name, sign in _DATA["vital_signs"].items()}


class _Cell(NamedTuple):
    """A cell of Table 1: how many visits, and how many of them were admitted."""

    race: str
    gender: str
    n_visits: int
    n_admitted: int


def _cells_of_table_1() -> list[_Cell]:
    cells = []
    for race, (women, men) in TABLE_1.items():
        cells.append(_Cell(race, "F", *women))
        cells.append(_Cell(race, "M", *men))
    return cells


def _drawn_cells(rng: np.random.Generator, cells: list[_Cell], n: int) -> IntArray:
    """The cell of each of n visits, in random order."""
    expected = [cell.n_visits * (n / N_VISITS) for cell in cells]
    n_visits = adding_up(expected, n)
    numbers = np.arange(len(cells))
    in_order = np.repeat(numbers, n_visits)
    return rng.permutation(in_order)


def _demographics(rng: np.random.Generator, race: Any) -> Columns:
    n = len(race)
    mean_age = np.where(race == "White", 58.0, 50.0)
    exact_age = rng.normal(mean_age, 19)
    age = np.clip(exact_age, 18, 95).astype(np.int64)

    share_medicaid = _looked_up(race, MEDICAID)
    medicaid = rng.random(n) < share_medicaid
    under_65 = np.where(medicaid, "Medicaid", "Other")
    share_medicare = np.where(age >= 65, 0.85, 0.0)
    medicare = rng.random(n) < share_medicare
    insurance = np.where(medicare, "Medicare", under_65)

    share_english = np.full(n, 0.95)
    share_english[race == "Hispanic/Latino"] = 0.6
    share_english[race == "Asian"] = 0.65
    n_visits = rng.negative_binomial(0.8, 0.3, n)
    marital_status = _marital_status(rng, age)
    speaks_english = rng.random(n) < share_english
    return {
        "age": age,
        "insurance": insurance,
        "marital_status": marital_status,
        "language": np.where(speaks_english, "ENGLISH", "?"),
        "n_previous_visits": n_visits,
        "n_previous_admissions": rng.binomial(n_visits, 0.3),
    }


def _marital_status(rng: np.random.Generator, age: IntArray) -> Any:
    """Draw marital status by age."""
    shares = [
        np.interp(age, MARITAL_AGES, by_age) for by_age in MARITAL_STATUS.values()
    ]
    upper_ends = np.cumsum(shares[:-1], axis=0)
    is_beyond = rng.random(len(age)) >= upper_ends
    place = is_beyond.sum(axis=0)
    statuses = np.array(list(MARITAL_STATUS), dtype=object)
    return statuses[place]


def _triage(rng: np.random.Generator, illness: FloatArray, age: IntArray) -> Columns:
    n = len(illness)
    seen = illness + rng.normal(scale=0.8, size=n)  # triage sees illness imperfectly
    acuity = np.round(3.0 - 0.6 * seen)
    triage = {"acuity": np.clip(acuity, 1, 5)}
    for name, sign in VITAL_SIGNS.items():
        mean = sign.mean + sign.by_age * age + sign.by_illness * illness
        value = mean + rng.normal(scale=sign.spread, size=n)
        rounded = np.round(value, sign.digits)
        triage[name] = np.clip(rounded, sign.lowest, sign.highest)

    pain = np.round(rng.normal(4.5, 3.2, n))
    triage["pain"] = np.clip(pain, 0, 10)
    complaints = np.array(list(COMPLAINTS), dtype=object)
    complaint = rng.integers(0, len(complaints), n)
    return {**triage, "chief_complaint": complaints[complaint]}


def _log_odds(
    race: Any, illness: FloatArray, complaint_effect: float, visits: Columns
) -> FloatArray:
    """The log-odds of admission by illness, age, history, insurance and complaint."""
    by_illness = _looked_up(race, STEEPNESS) * illness
    by_age = 0.02 * (visits["age"] - 50)
    by_history = 0.35 * np.log1p(visits["n_previous_admissions"])
    has_medicaid = visits["insurance"] == "Medicaid"
    by_insurance = np.where(has_medicaid, -0.2, 0.0)
    by_complaint = _looked_up(visits["chief_complaint"], COMPLAINTS)
    total: FloatArray = by_illness + by_age + by_history + by_insurance
    return total + complaint_effect * by_complaint


def _with_rates(log_odds: FloatArray, cell: IntArray, cells: list[_Cell]) -> FloatArray:
    """The risk of each visit, whose mean in each cell is the published rate."""
    log_odds = log_odds.copy()
    for number, published in enumerate(cells):
        rows = np.flatnonzero(cell == number)
        if len(rows):
            rate = published.n_admitted / published.n_visits
            intercept = _intercept(log_odds[rows], rate)
            log_odds[rows] += intercept
    return _expit(log_odds)


def _intercept(log_odds: FloatArray, rate: float) -> float:
    """The intercept at which the mean risk is the given rate, found by bisection."""
    low = -20.0
    high = 20.0
    for _ in range(60):
        middle = (low + high) / 2
        mean_risk = _expit(log_odds + middle).mean()
        if mean_risk < rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _expit(log_odds: FloatArray) -> FloatArray:
    odds_against = np.exp(-log_odds)
    return np.asarray(1 / (1 + odds_against))


def _looked_up(values: Any, table: dict[str, float]) -> FloatArray:
    return np.fromiter(map(table.__getitem__, values), np.float64, len(values))


def _some_missing(rng: np.random.Generator, visits: Columns) -> Columns:
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
    log_odds = -0.9 + 0.4 * illness + 0.01 * (age - 50)
    names_two = rng.random(n) < _expit(log_odds)
    n_kinds = len(next(iter(SECOND_COMPLAINTS.values())))
    places = _by_gravity(rng, illness, n_kinds)
    second = []
    for name, place in zip(main, places):
        choices = SECOND_COMPLAINTS[name]
        second.append(choices[place])
    second_texts = np.array(second, dtype=object)
    both = main + ", " + second_texts
    return np.where(names_two, both, main)


def _with_detail(
    rng: np.random.Generator, complaint: Any, illness: FloatArray, n_words: int
) -> Any:
    """A further word in a third of the texts; it is more severe for sicker patients."""
    has_one = rng.random(len(illness)) < 1 / 3
    words = np.array(DETAILS[:n_words], dtype=object)
    gravity = _by_gravity(rng, illness, n_words)
    word = words[gravity]
    longer = complaint + ", " + word
    return np.where(has_one, longer, complaint)


def _by_gravity(
    rng: np.random.Generator, illness: FloatArray, n_kinds: int
) -> IntArray:
    """Draw one of several kinds, ordered from mild to severe, by illness."""
    chance = rng.logistic(size=len(illness))
    gravity = _expit(0.8 * illness + chance)
    kind = (gravity * n_kinds).astype(np.int64)
    return np.minimum(kind, n_kinds - 1)


def _some_unrecorded(rng: np.random.Generator, race: Any, visits: Columns) -> Columns:
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
