"""The rules of the cohort as SQL for DuckDB.

They need the tables stays, triage, admissions and patients (with IDs and times converted, everything else as
text, and `line` as the line in the file) and words (MIMIC's word for a race, and its group).
"""

from __future__ import annotations

# Plausible values; anything else counts as missing. From the paper's public preprocessing.
RANGES = {
    "acuity": (1, 5),
    "temperature": (95, 105),
    "heartrate": (30, 300),
    "resprate": (2, 200),
    "o2sat": (50, 100),
    "sbp": (30, 400),
    "dbp": (30, 300),
    "pain": (0, 20),
}

# The admission of each stay from which admission type, insurance, language and marital status are taken.
# paper: the person's first admission in the file, whether it came before or after the visit. clean: the
# person's latest admission before the visit. The visit's own admission must not be used, because it exists
# only for those who were admitted.
TOLD_BY = {
    "paper": """
        SELECT s.stay_id, a.* EXCLUDE (subject_id, hadm_id, line)
        FROM stays s JOIN (
            SELECT * FROM admissions QUALIFY row_number() OVER (PARTITION BY subject_id ORDER BY line) = 1
        ) a USING (subject_id)""",
    "clean": """
        SELECT s.stay_id, a.* EXCLUDE (subject_id, hadm_id, line)
        FROM stays s JOIN admissions a
            ON a.subject_id = s.subject_id AND a.admittime < s.intime AND a.hadm_id IS DISTINCT FROM s.hadm_id
        QUALIFY row_number() OVER (PARTITION BY s.stay_id ORDER BY a.admittime DESC, a.line DESC) = 1""",
}

# clean uses the race recorded with the visit, if the version has it
RACE = {"paper": "told.race", "clean": "coalesce(stays.race, told.race)"}

JOINED = """
    CREATE TEMP TABLE joined AS
    SELECT
        stays.subject_id, stays.stay_id, stays.hadm_id, stays.intime,
        triage.stay_id IS NOT NULL AS has_triage,
        told.stay_id IS NOT NULL AS has_admission,
        patients.subject_id IS NOT NULL AS has_patient,
        {race} AS word,
        coalesce(patients.gender, stays.gender) AS gender,
        patients.anchor_age + year(stays.intime) - patients.anchor_year AS age,
        told.insurance, told.marital_status, told.language,
        contains(upper(coalesce(told.admission_type, '')), 'OBSERVATION') AS told_observation,
        own.hadm_id IS NOT NULL AS has_own,
        contains(upper(coalesce(own.admission_type, '')), 'OBSERVATION') AS own_observation,
        triage.* EXCLUDE (stay_id, line)
    FROM stays
    LEFT JOIN triage USING (stay_id)
    LEFT JOIN ({told_by}) AS told USING (stay_id)
    LEFT JOIN patients USING (subject_id)
    LEFT JOIN admissions AS own ON own.hadm_id = stays.hadm_id"""

# Previous visits and admissions, counted in order of arrival before admissions for observation are dropped.
COUNTED = """
    CREATE TEMP TABLE counted AS
    SELECT *,
        row_number() OVER arrivals - 1 AS n_previous_visits,
        count(hadm_id) OVER (arrivals ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS n_previous_admissions
    FROM joined
    WHERE {kept}
    WINDOW arrivals AS (PARTITION BY subject_id ORDER BY intime, stay_id)"""
KEPT = {"paper": "has_triage AND has_admission AND has_patient", "clean": "true"}
FINAL = {"paper": "NOT (hadm_id IS NOT NULL AND told_observation)", "clean": "true"}

STEPS = {
    "paper": """
        SELECT
            count(*),
            count(*) FILTER (NOT has_triage),
            count(*) FILTER (has_triage AND NOT has_admission),
            count(*) FILTER (has_triage AND has_admission AND NOT has_patient),
            count(*) FILTER (has_triage AND has_admission AND has_patient
                             AND hadm_id IS NOT NULL AND told_observation)
        FROM joined""",
    "clean": "SELECT count(*) FROM joined",
}
NOTED = """
    SELECT
        count(*) FILTER (NOT has_triage) AS no_triage,
        count(*) FILTER (NOT has_patient) AS no_patient,
        count(*) FILTER (NOT has_admission) AS nothing_told,
        count(*) FILTER (hadm_id IS NOT NULL AND NOT has_own) AS no_own,
        count(*) FILTER (hadm_id IS NOT NULL AND own_observation) AS own_observation,
        count(*) FILTER (NOT has_admission AND word IS NULL) AS no_race
    FROM counted WHERE {final}"""
UNLISTED = """
    SELECT count(*), count(DISTINCT counted.word)
    FROM counted LEFT JOIN words ON words.word = upper(trim(counted.word))
    WHERE {final} AND counted.word IS NOT NULL AND words.word IS NULL"""


# The words of the chief complaint in lower case, separated by spaces, for the models to count.
COMPLAINT = r"nullif(trim(regexp_replace(lower(chiefcomplaint), '[^\pL\pN]+', ' ', 'g')), '')"


def as_number(column: str) -> str:
    """A text column as a number; anything that is not a number is missing."""
    return f"TRY_CAST(trim({column}) AS DOUBLE)"


def in_range(column: str) -> str:
    """A text column as a number within its range; anything else is missing."""
    low, high = RANGES[column]
    return f"CASE WHEN {as_number(column)} BETWEEN {low} AND {high} THEN {as_number(column)} END"


def final_visits(rule: str) -> str:
    """A query for the cohort, one row per visit, with the columns of `make_ed_visits`."""
    from propcal.paper.cohort.ethnoracial import OTHER, UNKNOWN

    measured = ", ".join(f"{in_range(column)} AS {column}" for column in RANGES)
    return f"""
        SELECT
            subject_id,
            CASE WHEN counted.word IS NULL THEN '{UNKNOWN}' ELSE coalesce(words.race, '{OTHER}') END AS race,
            gender, CAST(age AS BIGINT) AS age, insurance, marital_status, language,
            CAST(n_previous_visits AS BIGINT) AS n_previous_visits,
            CAST(n_previous_admissions AS BIGINT) AS n_previous_admissions,
            {measured},
            {COMPLAINT} AS chief_complaint,
            CAST(hadm_id IS NOT NULL AS BIGINT) AS admitted
        FROM counted LEFT JOIN words ON words.word = upper(trim(counted.word))
        WHERE {FINAL[rule]}
        ORDER BY subject_id, intime, stay_id"""


def made_missing(rule: str) -> str:
    """A query that counts values that are missing, not numbers, or out of range in each measured column."""
    counts = []
    for column in RANGES:
        counts += [
            f"count(*) FILTER ({column} IS NULL)",
            f"count(*) FILTER ({column} IS NOT NULL AND {as_number(column)} IS NULL)",
            f"count(*) FILTER ({as_number(column)} IS NOT NULL AND {in_range(column)} IS NULL)",
        ]
    return f"SELECT {', '.join(counts)} FROM counted WHERE {FINAL[rule]}"
