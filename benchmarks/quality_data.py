"""Real data for the quality benchmark: a third to fit a model, one to correct it, one
to evaluate it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HOSPICE_OR_DEATH = (11, 13, 14, 19, 20, 21)  # these patients cannot be readmitted
NUMBERS = [
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
    "admission_type_id",
    "discharge_disposition_id",
    "admission_source_id",
]


def thirds(owner: np.ndarray, seed: int) -> list[np.ndarray]:
    """The rows of three random thirds of the people; all rows of a person are in the
    same third.
    """
    names, code = np.unique(owner, return_inverse=True)
    part = np.random.default_rng(seed).permutation(len(names)) * 3 // len(names)
    return [np.flatnonzero(part[code] == k) for k in range(3)]


def scored(
    frame: pd.DataFrame, y: np.ndarray, model, features, groups: pd.DataFrame, parts
) -> tuple:
    learn, past, new = parts
    model.fit(frame[features].iloc[learn], y[learn])
    whole = groups.assign(score=np.nan, y=y)
    for rows in (past, new):
        whole.loc[whole.index[rows], "score"] = model.predict_proba(
            frame[features].iloc[rows]
        )[:, 1]
    return (
        whole.iloc[past].reset_index(drop=True),
        whole.iloc[new].reset_index(drop=True),
        list(groups),
    )


def arrests(repeat: int) -> tuple:
    """Arrests for possession in Toronto: who was held in custody, by colour and sex
    (scikit-lego).
    """
    from sklego.datasets import load_arrests

    frame = load_arrests(as_frame=True)
    model = make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "checks"]),
            (OneHotEncoder(drop="if_binary"), ["employed", "citizen"]),
        ),
        LogisticRegression(),
    )
    y = (frame["released"] == "No").to_numpy().astype(int)
    parts = thirds(np.arange(len(frame)), repeat)
    return scored(
        frame,
        y,
        model,
        ["age", "checks", "employed", "citizen"],
        frame[["colour", "sex"]],
        parts,
    )


@cache
def _encounters(folder: Path) -> pd.DataFrame:
    path = folder / "diabetic_data.csv.gz"
    frame = pd.read_csv(path, na_values="?", keep_default_na=False, low_memory=False)
    return frame[~frame["discharge_disposition_id"].isin(HOSPICE_OR_DEATH)].reset_index(
        drop=True
    )


def diabetes(folder: Path, repeat: int) -> tuple:
    """Readmission within 30 days by race, gender and age, split by patient; the model
    does not use these.
    """
    frame = _encounters(folder)
    age = frame["age"].str.extract(r"\[(\d+)-")[0].astype(int)
    band = np.select([age < 50, age < 70], ["under 50", "50 to 69"], "70 or over")
    groups = pd.DataFrame(
        {
            "race": frame["race"].fillna("missing"),
            "gender": frame["gender"],
            "age": band,
        }
    )
    y = (frame["readmitted"] == "<30").to_numpy().astype(int)
    model = HistGradientBoostingClassifier(max_iter=80, random_state=0)
    parts = thirds(frame["patient_nbr"].to_numpy(), repeat)
    return scored(frame, y, model, NUMBERS, groups, parts)
