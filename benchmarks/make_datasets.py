"""Makes the files of `propcal.datasets` from their sources.

python benchmarks/make_datasets.py diabetic_data.csv

The file is that of the UCI Machine Learning Repository (data set 296, doi 10.24432/C5230J, CC BY 4.0). The
data of the RAND experiment are those of statsmodels (public domain).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FOLDER = Path(__file__).parents[1] / "src" / "propcal" / "datasets"
GONE = (11, 13, 14, 19, 20, 21)  # discharged to hospice, or died
PAYERS = {"MC": "Medicare", "MD": "Medicaid", "SP": "self-pay"}
PATIENTS = 30_000  # that the file has
COUNTS = {
    "time_in_hospital": "days_in_hospital",
    "number_inpatient": "previous_stays",
    "number_emergency": "previous_emergencies",
    "number_outpatient": "previous_outpatient",
    "num_medications": "medications",
    "num_lab_procedures": "lab_tests",
    "number_diagnoses": "diagnoses",
}


def readmissions(path: str) -> pd.DataFrame:
    """30,000 patients, with the risk that a model of the Medicare stays of a third of the others predicts."""
    raw = pd.read_csv(path, na_values="?", keep_default_na=False, low_memory=False)
    raw = raw[~raw.discharge_disposition_id.isin(GONE) & raw.gender.isin(["Female", "Male"])]
    order = np.random.default_rng(0).permutation(raw.patient_nbr.unique())
    payer = raw.payer_code.map(PAYERS).fillna("private or other").where(raw.payer_code.notna())
    stays = pd.DataFrame(
        {
            "patient": raw.patient_nbr.map(pd.Series(range(len(order)), index=order)),
            "race": raw.race.replace("AfricanAmerican", "African American"),
            "gender": raw.gender.map({"Female": "F", "Male": "M"}),
            "age": raw.age.str.extract(r"(\d+)")[0].astype(int),
            "payer": payer,
            **{new: raw[old] for old, new in COUNTS.items()},
            "emergency": raw.admission_type_id == 1,
            "to_home": raw.discharge_disposition_id == 1,
            "readmitted": (raw.readmitted != "NO").astype(int),
            "within_30_days": (raw.readmitted == "<30").astype(int),
            "encounter": raw.encounter_id,
        }
    )
    features = [*COUNTS.values(), "emergency", "to_home"]
    developed = stays[(stays.patient >= 2 * len(order) // 3) & (stays.payer == "Medicare")]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        developed[features], developed.readmitted
    )
    stays = stays[stays.patient < PATIENTS].sort_values(["patient", "encounter"]).drop(columns="encounter")
    risk = model.predict_proba(stays[features])[:, 1]
    stays.insert(len(stays.columns) - 2, "risk", risk.clip(0.0001, 0.9999).round(4))
    return stays.reset_index(drop=True)


def doctor_visits() -> pd.DataFrame:
    """Person-years of the RAND experiment; rows that follow each other with the same facts are one person."""
    from statsmodels.datasets import randhie

    raw = randhie.load_pandas().data
    person = ["lncoins", "idp", "physlm", "disea", "hlthg", "hlthf", "hlthp"]
    health = np.select(
        [raw.hlthg == 1, raw.hlthf == 1, raw.hlthp == 1], ["good", "fair", "poor"], "excellent"
    )
    return pd.DataFrame(
        {
            "person": (raw[person] != raw[person].shift()).any(axis=1).cumsum() - 1,
            "health": health,
            "limited": raw.physlm > 0.5,
            "chronic_diseases": raw.disea.round(1),
            "coinsurance": (np.exp(raw.lncoins) - 1).round().astype(int),
            "deductible": raw.idp == 1,
            "visits": raw.mdvis.astype(int),
        }
    )


def small(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of the narrowest type; texts as categories."""
    for name, column in frame.items():
        if column.dtype.kind in "iu":
            frame[name] = pd.to_numeric(column, downcast="integer")
        elif column.dtype.kind == "f":
            frame[name] = column.astype("float64")
    return frame


def main(path: str) -> None:
    for name, frame in (("readmissions", readmissions(path)), ("doctor_visits", doctor_visits())):
        print(name, len(frame), frame.iloc[:, 0].nunique())
        print(frame.head(3).to_string())
        file = FOLDER / f"{name}.parquet"
        small(frame).to_parquet(file, index=False, compression="zstd", compression_level=19)
        print(f"{file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1])
