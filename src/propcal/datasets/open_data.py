"""Open data of real people, small enough to come with propcal."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_doctor_visits() -> pd.DataFrame:
    """Years of people in the RAND Health Insurance Experiment, and a risk score for frequent doctor visits.

    13,326 person-years from the experiment of 1974 to 1982, in which families were assigned insurance plans
    that paid all or part of their care. The score is that of a logistic regression of health, limitations
    and chronic diseases on other people, all of whom had free care. It is applied to everybody here, as a
    score developed elsewhere would be. People are in random order, so that
    ``years[years.person < 1765]`` and the rest are two random halves without a person in common.

    Returns
    -------
    pandas.DataFrame
        One row per person and year:

        - ``person``: number of the person. The source has no such number; rows that follow each other with
          the same plan, health, income limits and diseases have the same one
        - ``plan``: what the person pays: "free care", "pays 25 %", "pays 50 %" or "pays 95 % or all"
        - ``deductible``: whether the plan has an individual deductible
        - ``health``: in the person's own words, from "excellent" to "poor"
        - ``limited``: has a physical limitation
        - ``chronic_diseases``: index of chronic diseases
        - ``visits``: outpatient visits to a doctor in this year
        - ``risk``: the score, for ``frequent``
        - ``frequent``: five visits or more

    Notes
    -----
    Source: RAND Corporation; Cameron and Trivedi (2005), "Microeconometrics: methods and applications",
    as in statsmodels (``statsmodels.datasets.randhie``). Public domain. Changed: people chosen and numbered
    at random, columns chosen, renamed and recoded, the score added (``benchmarks/make_datasets.py``).

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
