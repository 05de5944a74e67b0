"""Open data of real people, small enough to come with propcal."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_readmissions() -> pd.DataFrame:
    """Hospital stays of patients with diabetes, a risk score, and whether they were readmitted.

    42,538 stays of 30,000 patients in 130 US hospitals, 1999 to 2008. The score is that of a logistic
    regression of the counts, the kind of admission and the discharge, which was trained on Medicare stays
    of other patients. It is applied to everybody here, as a score developed elsewhere would be. Patients
    are in random order, so that ``stays[stays.patient < 15_000]`` and the rest are two random halves
    without a patient in common.

    Returns
    -------
    pandas.DataFrame
        One row per stay:

        - ``patient``: number of the patient; a patient can have several stays
        - ``race``, ``gender``, ``age`` (lower end of a decade), ``payer``: some are missing
        - ``days_in_hospital``, ``medications``, ``lab_tests``, ``diagnoses``: numbers of this stay
        - ``previous_stays``, ``previous_emergencies``, ``previous_outpatient``: visits in the year before
        - ``emergency``: admitted as an emergency; ``to_home``: discharged home
        - ``risk``: the score, for ``readmitted``
        - ``readmitted``: readmitted later; ``within_30_days``: within 30 days

    Notes
    -----
    Source: Clore, Cios, DeShazo and Strack (2014), "Diabetes 130-US Hospitals for Years 1999-2008", UCI
    Machine Learning Repository, doi 10.24432/C5230J; Strack and others (2014), "Impact of HbA1c
    measurement on hospital readmission rates", BioMed Research International. Licence: CC BY 4.0.
    Changed: patients chosen and renumbered at random, stays that ended in death or hospice left out,
    columns chosen and renamed, the score added (``benchmarks/make_datasets.py``).

    Examples
    --------
    >>> from propcal.datasets import load_readmissions
    >>> stays = load_readmissions()
    >>> len(stays), stays.patient.nunique(), round(float(stays.readmitted.mean()), 3)
    (42538, 30000, 0.473)
    """
    return _table("readmissions")


def load_doctor_visits() -> pd.DataFrame:
    """Years of people in the RAND Health Insurance Experiment, and how often they saw a doctor.

    20,190 person-years from the experiment of 1974 to 1982, in which families were assigned insurance
    plans that paid all or part of their care.

    Returns
    -------
    pandas.DataFrame
        One row per person and year:

        - ``person``: rows of one number are the same person. The source has no such number; rows that
          follow each other with the same plan, health and diseases have the same one
        - ``health``: in the person's own words, from "excellent" to "poor"
        - ``limited``: has a physical limitation
        - ``chronic_diseases``: index of chronic diseases
        - ``coinsurance``: percentage of costs that the person pays; ``deductible``: whether the plan has
          one
        - ``visits``: outpatient visits to a doctor in this year

    Notes
    -----
    Source: RAND Corporation; Cameron and Trivedi (2005), "Microeconometrics: methods and applications",
    as in statsmodels (``statsmodels.datasets.randhie``). Public domain. Changed: columns chosen, renamed
    and recoded, the number of the person added (``benchmarks/make_datasets.py``).

    Examples
    --------
    >>> from propcal.datasets import load_doctor_visits
    >>> years = load_doctor_visits()
    >>> years.groupby("health").visits.mean().round(1).to_dict()
    {'excellent': 2.6, 'fair': 3.7, 'good': 2.9, 'poor': 5.8}
    """
    return _table("doctor_visits")


def _table(name: str) -> pd.DataFrame:
    import pandas as pd

    with as_file(files("propcal.datasets") / f"{name}.parquet") as path:
        return pd.read_parquet(path)
