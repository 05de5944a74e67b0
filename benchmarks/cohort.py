"""Times building the MIMIC cohort, with simulated files of realistic size.

    python benchmarks/cohort.py

The files have 450,000 stays of 210,000 people, 450,000 triage rows, 520,000 admissions
and 380,000 patients, as gzipped CSV in the layouts of 1.0 and 2.x. The real files are
only for credentialed users and were not used. Each run is a separate process, `propcal
paper cohort`, timed from its start to the written Parquet file. Writes
benchmarks/results/cohort.json.

Measured on 2 cores under heavy load from other work: 6 to 8 seconds of CPU time and 21
to 28 seconds of wall time per run, with at most 1 GB of memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

N_STAYS, N_PEOPLE, N_PATIENTS, N_ADMISSIONS = 450_000, 210_000, 380_000, 520_000
WORDS = [
    "WHITE",
    "BLACK/AFRICAN AMERICAN",
    "HISPANIC/LATINO",
    "ASIAN",
    "OTHER",
    "UNKNOWN",
]
KINDS = ["EW EMER.", "URGENT", "OBSERVATION ADMIT", "EU OBSERVATION", "ELECTIVE"]
COMPLAINTS = [
    "Chest pain",
    "Abd pain, N/V",
    "Dyspnea",
    "s/p Fall",
    "Headache, Dizziness",
    "ILI",
]


def times(rng: np.random.Generator, n: int) -> pd.Series:
    seconds = rng.integers(0, 40 * 365 * 86_400, n)
    return pd.Series(np.datetime64("2120-01-01") + seconds.astype("timedelta64[s]"))


def tables(seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    patients = np.arange(10_000_000, 10_000_000 + N_PATIENTS)
    rng.shuffle(patients)
    visiting = patients[:N_PEOPLE]
    # most people have one visit, some have many
    who = visiting[
        (N_PEOPLE * rng.beta(0.6, 1.0, N_STAYS)).astype(int).clip(0, N_PEOPLE - 1)
    ]
    intime = times(rng, N_STAYS)
    admitted = rng.random(N_STAYS) < 0.45
    hadm = np.arange(20_000_000, 20_000_000 + N_ADMISSIONS)
    n_own = int(admitted.sum())
    stay_hadm = pd.array(np.zeros(N_STAYS, dtype=np.int64), dtype="Int64")
    stay_hadm[:] = pd.NA
    stay_hadm[admitted] = hadm[:n_own]
    stays = pd.DataFrame(
        {
            "subject_id": who,
            "hadm_id": stay_hadm,
            "stay_id": 30_000_000 + np.arange(N_STAYS),
        }
    )
    stays["intime"] = intime.astype(str)
    stays["outtime"] = stays["intime"]
    stays["gender"], stays["race"] = "F", rng.choice(WORDS, N_STAYS)
    n = N_ADMISSIONS
    subject = np.concatenate([who[admitted], rng.choice(patients, n - n_own)])
    admittime = pd.concat(
        [intime[admitted] + pd.Timedelta("4h"), times(rng, n - n_own)],
        ignore_index=True,
    )
    admissions = pd.DataFrame(
        {"subject_id": subject, "hadm_id": hadm, "admittime": admittime.astype(str)}
    )
    choices = {"admission_type": KINDS, "insurance": ["Medicare", "Medicaid", "Other"]}
    choices |= {
        "language": ["ENGLISH", "?"],
        "marital_status": ["MARRIED", "SINGLE", ""],
        "race": WORDS,
    }
    for name, words in choices.items():
        admissions[name] = rng.choice(words, n)
    triage = stays[["subject_id", "stay_id"]].copy()
    vitals = {
        "temperature": (98, 1),
        "heartrate": (85, 17),
        "resprate": (18, 3),
        "o2sat": (98, 2),
    }
    vitals |= {"sbp": (135, 22), "dbp": (78, 15)}
    for name, (mean, spread) in vitals.items():
        triage[name] = np.where(
            rng.random(N_STAYS) < 0.05,
            np.nan,
            rng.normal(mean, spread, N_STAYS).round(1),
        )
    triage["pain"] = rng.choice(
        [*map(str, range(11)), "unable", "Critical", ""], N_STAYS
    )
    triage["acuity"] = rng.integers(1, 6, N_STAYS)
    triage["chiefcomplaint"] = rng.choice(COMPLAINTS, N_STAYS)
    people = pd.DataFrame(
        {"subject_id": patients, "gender": rng.choice(["F", "M"], N_PATIENTS)}
    )
    people["anchor_age"], people["anchor_year"] = rng.integers(18, 92, N_PATIENTS), 2140
    return {
        "edstays": stays,
        "triage": triage,
        "admissions": admissions.sample(frac=1, random_state=seed),
        "patients": people,
    }


def write(folder: Path, made: dict[str, pd.DataFrame], version: str) -> None:
    hospital = "core" if version == "1.0" else "hosp"
    for name, frame in made.items():
        place = folder / ("ed" if name in ("edstays", "triage") else hospital)
        place.mkdir(parents=True, exist_ok=True)
        kept = frame
        if version == "1.0":
            kept = (
                frame.drop(columns=["gender", "race"]) if name == "edstays" else frame
            )
            kept = kept.rename(columns={"race": "ethnicity"})
        kept.to_csv(
            place / f"{name}.csv.gz",
            index=False,
            compression={"method": "gzip", "compresslevel": 1},
        )


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path, rule: str) -> dict[str, float]:
    target = folder / "cohort.parquet"
    command = [
        sys.executable,
        "-m",
        "propcal",
        "paper",
        "cohort",
        "--mimic",
        str(folder),
        "--cohort",
        rule,
    ]
    began, used = time.perf_counter(), cpu()
    subprocess.run(
        [*command, "-o", str(target), "--force"], check=True, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(
            cpu() - used, 2
        ),  # what it would be at most if nothing else ran
        "visits": len(pd.read_parquet(target, columns=["admitted"])),
    }


def main() -> None:
    made = tables()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for version in ("1.0", "2.x"):
            folder = Path(place) / version
            write(folder, made, version)
            for rule in ("paper", "clean"):
                rows.append(
                    {
                        "version": version,
                        "rule": rule,
                        "stays": N_STAYS,
                        **measure(folder, rule),
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    result = {"runs": rows, "peak_megabytes": round(peak)}
    (Path(__file__).parent / "results" / "cohort.json").write_text(
        json.dumps(result, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
