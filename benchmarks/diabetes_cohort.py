"""Makes a cohort for `propcal paper experiment` from the open data "Diabetes 130-US
hospitals".

python benchmarks/diabetes_cohort.py diabetic_data.csv cohort.parquet

The data are not part of this project: UCI Machine Learning Repository, data set 296
(doi 10.24432/C5230J, CC BY 4.0; Strack et al. 2014). Stays that ended in death or
hospice are left out, as these patients cannot be readmitted. The two outcomes are
readmission within 30 days and any readmission."""

from __future__ import annotations

import sys

import pandas as pd

GONE = (11, 13, 14, 19, 20, 21)  # discharged to hospice, or died
NUMBERS = (
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
)
LEVELS = (
    "max_glu_serum",
    "A1Cresult",
    "insulin",
    "metformin",
    "glipizide",
    "glyburide",
    "change",
    "diabetesMed",
)
# Ranges of ICD-9 codes, as in the paper of the data.
DIAGNOSES = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}


def diagnosis(code: object) -> str:
    """The chapter of an ICD-9 code."""
    try:
        number = int(float(str(code)))
    except ValueError:  # E and V codes, and missing ones
        return "other"
    for name, ranges in DIAGNOSES.items():
        if any(low <= number <= high for low, high in ranges):
            return name
    return "other"


def cohort(path: str) -> pd.DataFrame:
    """One row for each stay: groups, features and both outcomes."""
    # "None" is a value of two columns (not measured), so only the question mark is
    # missing
    raw = pd.read_csv(path, na_values="?", keep_default_na=False, low_memory=False)
    raw = raw[~raw["discharge_disposition_id"].isin(GONE)].reset_index(drop=True)
    years = raw["age"].str.extract(r"(\d+)")[0].astype(int)
    payer = (
        raw["payer_code"]
        .map({"MC": "Medicare", "MD": "Medicaid"})
        .fillna("private or other")
    )
    specialty = raw["medical_specialty"].fillna("not recorded")
    common = specialty.value_counts().index[:11]
    return pd.DataFrame(
        {
            "patient": raw["patient_nbr"],
            "race": raw["race"].fillna("not recorded"),
            "gender": raw["gender"],
            "age_band": pd.cut(
                years, [-1, 49, 69, 200], labels=["under 50", "50-69", "70 or older"]
            ).astype(str),
            "payer": payer.where(raw["payer_code"].notna(), "not recorded"),
            "age": years + 5.0,
            "admission_type": raw["admission_type_id"].astype(str),
            "admission_source": raw["admission_source_id"].astype(str),
            "discharge": raw["discharge_disposition_id"].astype(str),
            "specialty": specialty.where(specialty.isin(common), "other"),
            **{name: raw[name].astype(float) for name in NUMBERS},
            **{name: raw[name].astype(str) for name in LEVELS},
            **{f"diagnosis_{i}": raw[f"diag_{i}"].map(diagnosis) for i in (1, 2, 3)},
            "readmitted_30_days": (raw["readmitted"] == "<30").astype(int),
            "readmitted": (raw["readmitted"] != "NO").astype(int),
        }
    )


if __name__ == "__main__":
    made = cohort(sys.argv[1])
    made.to_parquet(sys.argv[2], index=False)
    print(
        f"{len(made):,} stays of {made['patient'].nunique():,} patients in {sys.argv[2]}"
    )
