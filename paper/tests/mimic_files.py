"""Small files in the layouts of MIMIC-IV 1.0 and 2.x, and the paper's rule read row by
row.
"""

import csv
import gzip
from datetime import datetime
from pathlib import Path

import numpy as np

from propcal_paper.running.mimic_cohort import GROUP_OF

VITALS = (
    "temperature",
    "heartrate",
    "resprate",
    "o2sat",
    "sbp",
    "dbp",
    "pain",
    "acuity",
)
RANGES = {
    "temperature": (95, 105),
    "heartrate": (30, 300),
    "resprate": (2, 200),
    "o2sat": (50, 100),
    "sbp": (30, 400),
    "dbp": (30, 300),
    "pain": (0, 20),
    "acuity": (1, 5),
}
FINE = ("98.6", "80", "16", "99", "120", "80", "7", "2")  # of the vitals, in this order


def write_csv(path, rows, *, zipped=False):
    path = Path(f"{path}.csv.gz" if zipped else f"{path}.csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        gzip.open(path, "wt", newline="")
        if zipped
        else path.open("w", newline="") as file
    ):
        lines = csv.DictWriter(file, list(rows[0]))
        lines.writeheader()
        lines.writerows(rows)
    return path


def write_mimic(folder, tables, version="2.x", *, zipped=True, ed="ed", hospital=None):
    """Write tables (with all columns of 2.x) as one version has them."""
    folder, tables = (
        Path(folder),
        {name: [dict(row) for row in rows] for name, rows in tables.items()},
    )
    hospital = hospital or ("core" if version == "1.0" else "hosp")
    for row in tables["admissions"] if version == "1.0" else []:
        row["ethnicity"] = row.pop("race")
    for row in tables["edstays"] if version == "1.0" else []:
        del row["race"], row["gender"]
    for name, rows in tables.items():
        write_csv(
            folder / (ed if name in ("edstays", "triage") else hospital) / name,
            rows,
            zipped=zipped,
        )
    return folder


def stay(subject, stay_id, intime, hadm="", race="WHITE", gender="F"):
    return {
        "subject_id": subject,
        "hadm_id": hadm,
        "stay_id": stay_id,
        "intime": intime,
        "outtime": intime,
        "gender": gender,
        "race": race,
    }


def triaged(subject, stay_id, values=FINE, complaint="Chest pain"):
    return {
        "subject_id": subject,
        "stay_id": stay_id,
        **dict(zip(VITALS, values)),
        "chiefcomplaint": complaint,
    }


def admission(
    subject,
    hadm,
    time,
    kind="EW EMER.",
    told=("Other", "ENGLISH", "SINGLE"),
    race="WHITE",
):
    return {
        "subject_id": subject,
        "hadm_id": hadm,
        "admittime": time,
        "admission_type": kind,
        **dict(zip(("insurance", "language", "marital_status"), told)),
        "race": race,
    }


def patient(subject, gender="F", age=50, year=2150):
    return {
        "subject_id": subject,
        "gender": gender,
        "anchor_age": age,
        "anchor_year": year,
        "dod": "",
    }


def hand_worked():
    """Five people; each rule has a row that would show if it were left out."""
    return {
        "edstays": [  # not in order of arrival
            stay(1, 13, "2152-03-01 08:00:00", 102),
            stay(1, 11, "2150-05-02 10:00:00", 101, race="ASIAN - CHINESE"),
            stay(1, 12, "2151-01-01 00:00:00"),
            stay(2, 21, "2160-01-01 03:00:00", 201, "BLACK/AFRICAN", "M"),
            stay(2, 22, "2160-06-01 03:00:00", "", "PORTUGUESE", "M"),
            stay(2, 23, "2161-02-02 03:00:00", 202, "BLACK/AFRICAN", "M"),
            stay(3, 31, "2170-01-01 00:00:00", "", "UNABLE TO OBTAIN"),
            stay(4, 41, "2180-01-01 00:00:00", "", "", "M"),
            stay(4, 42, "2180-02-01 00:00:00", "", "MARTIAN", "M"),
            stay(5, 51, "2190-01-01 08:00:00", 501, "HISPANIC OR LATINO", "F"),
        ],
        "triage": [  # 41 has none
            triaged(1, 11, complaint="Chest pain, N/V"),
            triaged(1, 12, ("", "", "", "", "", "", "unable", "")),
            triaged(1, 13, complaint=""),
            triaged(2, 21),
            triaged(2, 22),
            triaged(2, 23),
            triaged(3, 31),
            triaged(4, 42),
            triaged(5, 51),
        ],
        "admissions": [  # the first in the file is not the first in time
            admission(
                1, 102, "2152-03-01 12:00:00", told=("Medicare", "ENGLISH", "MARRIED")
            ),
            admission(
                1,
                101,
                "2150-05-02 14:00:00",
                "OBSERVATION ADMIT",
                ("Medicaid", "?", "SINGLE"),
                "ASIAN",
            ),
            admission(
                2,
                201,
                "2160-01-01 05:00:00",
                "EU OBSERVATION",
                ("Other", "?", ""),
                "BLACK/AFRICAN AMERICAN",
            ),
            admission(
                2, 202, "2161-02-02 05:00:00", "URGENT", ("Medicare", "?", ""), "WHITE"
            ),
            admission(
                2, 200, "2155-01-01 00:00:00", told=("Private", "?", ""), race="ASIAN"
            ),
            admission(4, 401, "2185-01-01 00:00:00", "ELECTIVE", race="OTHER"),
            admission(
                5, 501, "2190-01-01 07:00:00", race="HISPANIC/LATINO"
            ),  # before the arrival
        ],
        "patients": [
            patient(1),
            patient(2, "M", 70, 2161),
            patient(3),
            patient(4, "M", 30, 2180),
            # 5 is missing
            patient(6),
        ],
    }


def random_tables(n=300, seed=0):
    rng = np.random.default_rng(seed)
    subjects = rng.integers(1, n // 4, n).tolist()
    words = [*GROUP_OF, "", "MARTIAN"]
    kinds = ["EW EMER.", "OBSERVATION ADMIT", "EU OBSERVATION", "URGENT", ""]
    minutes = rng.permutation(500_000)[:n].tolist()
    times = [
        f"21{50 + m // 50_000}-{1 + m % 12:02d}-{1 + m % 28:02d} {m % 24:02d}:{m % 60:02d}:00"
        for m in minutes
    ]
    hadm = [str(1000 + i) if rng.random() < 0.5 else "" for i in range(n)]
    stays = [
        stay(s, 9000 - i, t, h, str(rng.choice(words)), "F")
        for i, (s, t, h) in enumerate(zip(subjects, times, hadm))
    ]
    limits = [RANGES[v] for v in VITALS]
    triage = [
        triaged(
            s["subject_id"],
            s["stay_id"],
            [
                ""
                if rng.random() < 0.1
                else f"{rng.uniform(low * 0.8, high * 1.2):.1f}"
                for low, high in limits
            ],
            str(rng.choice(["Chest pain", "N/V; fever!", "", "s/p FALL___"])),
        )
        for s in stays
        if rng.random() < 0.95
    ]
    admissions = [
        admission(
            s["subject_id"],
            s["hadm_id"],
            s["intime"].replace(":00:00", ":59:00"),
            str(rng.choice(kinds)),
            (
                str(rng.choice(["Medicare", "Medicaid", "Other"])),
                "?",
                str(rng.choice(["SINGLE", ""])),
            ),
            str(rng.choice(words)),
        )
        for s in stays
        if s["hadm_id"] and rng.random() < 0.9
    ]
    rng.shuffle(admissions)
    patients = [
        patient(s, "FM"[s % 2], 20 + s % 60, 2150 + s % 7)
        for s in sorted(set(subjects))
        if s % 11
    ]
    return {
        "edstays": stays,
        "triage": triage,
        "admissions": admissions,
        "patients": patients,
    }


def by_the_papers_rule(tables):
    """The cohort, one stay after the other: slow and plain."""
    triage = {row["stay_id"]: row for row in tables["triage"]}
    patients = {row["subject_id"]: row for row in tables["patients"]}
    first = {}
    for row in tables["admissions"]:
        first.setdefault(row["subject_id"], row)
    rows, visits, admissions = [], {}, {}
    for s in sorted(tables["edstays"], key=lambda s: (s["intime"], s["stay_id"])):
        subject = s["subject_id"]
        if (
            s["stay_id"] not in triage
            or subject not in first
            or subject not in patients
        ):
            continue
        told, person, measured = first[subject], patients[subject], triage[s["stay_id"]]
        word = told["race"]
        row = {
            "subject_id": subject,
            "race": GROUP_OF.get(word, "Other") if word else "Unknown/Unable to Obtain",
            "gender": person["gender"],
            "anchor_age": person["anchor_age"],
            "age": person["anchor_age"]
            + datetime.fromisoformat(s["intime"]).year
            - person["anchor_year"],
            "insurance": told["insurance"] or None,
            "marital_status": told["marital_status"] or None,
            "language": told["language"] or None,
            "n_previous_visits": visits.get(subject, 0),
            "n_previous_admissions": admissions.get(subject, 0),
        }
        for name in ("acuity", *VITALS[:-1]):
            low, high = RANGES[name]
            try:
                value = float(measured[name])
            except ValueError:
                value = float("nan")
            row[name] = value if low <= value <= high else None
        letters = "".join(
            c if c.isalnum() else " " for c in measured["chiefcomplaint"].lower()
        )
        row["chief_complaint"] = " ".join(letters.split()) or None
        row["admitted"] = int(bool(s["hadm_id"]))
        visits[subject] = visits.get(subject, 0) + 1
        admissions[subject] = admissions.get(subject, 0) + row["admitted"]
        if not (row["admitted"] and "OBSERVATION" in told["admission_type"]):
            rows.append((subject, s["intime"], s["stay_id"], row))
    return [row for *_, row in sorted(rows, key=lambda entry: entry[:3])]
