"""Builds the hospital-admission cohort from MIMIC files, by the paper's rule or by a cleaner one.

There are two rules. ``paper`` follows the paper's public preprocessing code; the text of the paper does not
describe it. ``clean`` is our recommendation for new work: it keeps every visit, and uses only what was known
on arrival.

====================  ==========================================  =========================================
item                  paper                                       clean
====================  ==========================================  =========================================
visits                with a triage row, of people with any       all
                      hospital admission
insurance, language,  from the person's first admission in the    from the person's latest admission before
marital status        file, even if it came later                 the visit; missing if there was none
race                  from the same admission                     from the visit (2.x), otherwise as above
admitted              the stay has a hadm_id                      the same
admitted for          dropped if that first admission was for     kept
observation           observation, whatever this one was
====================  ==========================================  =========================================

With ``clean``, a stay is joined to its own admission only to count admissions for observation. Insurance
taken from the stay's own admission would be missing for everybody who was not admitted, and so reveal the
outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from propcal.errors import InputError
from propcal.numbers import plural
from propcal.paper.cohort import cohort_sql as sql
from propcal.paper.cohort.ethnoracial import GROUP_OF
from propcal.paper.cohort.mimic_files import MimicTable, read_tables
from propcal.paper.experiment.visits import COHORT_KEY

if TYPE_CHECKING:
    import pandas as pd

RULES = ("paper", "clean")
STEPS = (
    "without a triage row",
    "of people without any hospital admission",
    "of people who are not in patients",
    "admitted, and the person's first admission is for observation",
)
# how IDs and times are read, and how errors describe them
KINDS = {"BIGINT": "a whole number", "TIMESTAMP": "a time such as 2150-01-31 08:00:00"}
CASTS = {
    "edstays": {"subject_id": "BIGINT", "hadm_id": "BIGINT", "stay_id": "BIGINT", "intime": "TIMESTAMP"},
    "triage": {"stay_id": "BIGINT"},
    "admissions": {"subject_id": "BIGINT", "hadm_id": "BIGINT", "admittime": "TIMESTAMP"},
    "patients": {"subject_id": "BIGINT", "anchor_age": "BIGINT", "anchor_year": "BIGINT"},
}
MAY_BE_EMPTY = ("edstays.hadm_id", "admissions.admittime", "patients.anchor_age", "patients.anchor_year")
MANY_UNTRIAGED = 0.05  # warn if a larger share of stays has no triage row
KEYS = {"edstays": "stay_id", "triage": "stay_id", "admissions": "hadm_id", "patients": "subject_id"}


@dataclass(frozen=True)
class MimicCohort:
    """The visits, and how they were selected.

    Attributes
    ----------
    table : pyarrow.Table
        One row per visit, with the columns of `make_ed_visits` (except the true risk) and the patient ID
        `subject_id`. These are personal data under the licence of MIMIC.
    rule : str
        "paper" or "clean".
    layout : str
        "1.0" or "2.x"; both if the two databases are from different releases.
    n_stays : int
        The number of stays in edstays.
    dropped : dict
        The reasons for which stays were dropped, in order, with the number of stays.
    made_missing : pandas.DataFrame
        For each measured column, how many values were missing, not numbers, or out of range.
    notes : tuple of str
        Further remarks for the reader.
    """

    table: Any
    rule: str
    layout: str
    n_stays: int
    dropped: dict[str, int]
    made_missing: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def visits(self) -> pd.DataFrame:
        """The visits as a pandas frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def save(self, path: str | PathLike[str]) -> None:
        """Write the visits as Parquet or CSV, depending on the file name."""
        from propcal.output.files.table_files import table_writer
        from propcal.output.files.whole_file import whole_file

        # the Parquet file records its source and rule, and a store of trials copies this
        told = {COHORT_KEY: f"MIMIC {self.layout}, rule: {self.rule}"}
        schema = self.table.schema.with_metadata(told)
        with whole_file(path) as part, table_writer(part, path, schema) as rows:
            for batch in self.table.to_batches():
                rows.write(batch)


def mimic_cohort(
    *folders: str | PathLike[str], rule: str = "paper", say: Callable[[str], None] = lambda _: None
) -> MimicCohort:
    """Build the hospital-admission cohort from MIMIC's files.

    Parameters
    ----------
    *folders : paths
        Folders that contain the files at any depth: ``ed/edstays``, ``ed/triage``, and ``admissions`` and
        ``patients`` in ``core/`` (1.0) or ``hosp/`` (2.x), each as .csv or .csv.gz.
    rule : {"paper", "clean"}, default="paper"
        Which visits to include and what is known about them; see the module docstring.
    say : callable
        Called with progress messages.
    """
    if rule not in RULES:
        raise InputError(f"--rule must be one of {list(RULES)}; got {rule!r}", argument="--rule")
    tables = read_tables(folders, say)
    say("Joining...")
    engine, repeated = _engine(tables)
    joined = sql.JOINED.format(race=sql.RACE[rule], told_by=sql.TOLD_BY[rule])
    engine.execute(joined)
    engine.execute(sql.COUNTED.format(kept=sql.KEPT[rule]))
    n_stays, *counts = engine.execute(sql.STEPS[rule]).fetchall()[0]
    dropped = dict(zip(STEPS, counts))
    table = engine.sql(sql.final_visits(rule)).to_arrow_table()
    if not len(table):
        raise InputError(_nothing_left(n_stays, dropped))
    layout = _layout(tables)
    notes = (*repeated, *_few_triaged(engine), *_notes(engine, rule), *_unlisted(engine, rule))
    return MimicCohort(table, rule, layout, n_stays, dropped, _made_missing(engine, rule), notes)


def _layout(tables: dict[str, MimicTable]) -> str:
    """The version of the files, judged by their columns; both versions if the databases differ."""
    hospital = "1.0" if tables["admissions"].has("ethnicity") else "2.x"
    emergency = "2.x" if tables["edstays"].has("race") else "1.0"
    return hospital if hospital == emergency else f"{hospital}, MIMIC-IV-ED {emergency}"


def _few_triaged(engine: Any) -> list[str]:
    """A warning if many stays have no triage row, because a file may be truncated at the end of a line."""
    n, lacking = engine.execute("SELECT count(*), count(*) FILTER (NOT has_triage) FROM joined").fetchall()[0]
    if lacking <= MANY_UNTRIAGED * n:
        return []
    return [
        f"Warning: {lacking:,} of {n:,} stays ({100 * lacking / n:.0f} %) have no row in triage; nearly all "
        "of them should have one. Is the triage file truncated?"
    ]


def _engine(tables: dict[str, MimicTable]) -> tuple[Any, list[str]]:
    """A DuckDB connection with the checked tables and the list of words for race, and notes."""
    import pyarrow as pa

    from propcal.data.files.duckdb_setup import connect

    engine = connect()
    notes = []
    for name, table in tables.items():
        engine.register("read", table.text)
        _check_values(engine, name, table)
        engine.execute(f"CREATE TABLE {'stays' if name == 'edstays' else name} AS {_typed(name, table)}")
        engine.unregister("read")
        notes += _without_repeats(engine, name)
    engine.register("words", pa.table({"word": list(GROUP_OF), "race": list(GROUP_OF.values())}))
    return engine, notes


def _typed(name: str, table: MimicTable) -> str:
    """A query for a table with IDs and times converted, and with race and gender in every version."""
    casts = CASTS[name]
    columns = [c for c in table.text.column_names if c not in ("ethnicity", "line")]
    chosen = [f"TRY_CAST(trim({c}) AS {casts[c]}) AS {c}" if c in casts else c for c in columns]
    if table.has("ethnicity"):
        chosen.append("ethnicity AS race")
    if name == "edstays":
        chosen += [f"CAST(NULL AS VARCHAR) AS {c}" for c in ("gender", "race") if not table.has(c)]
    return f"SELECT {', '.join(chosen)}, line FROM read"


def _check_values(engine: Any, name: str, table: MimicTable) -> None:
    """Refuse IDs and times that cannot be read."""
    wrong = []
    for column, kind in CASTS[name].items():
        empty = f" AND {column} IS NOT NULL" if f"{name}.{column}" in MAY_BE_EMPTY else ""
        wrong.append(f"count(*) FILTER (TRY_CAST(trim({column}) AS {kind}) IS NULL{empty})")
    counts = engine.execute(f"SELECT {', '.join(wrong)} FROM read").fetchall()[0]
    for (column, kind), n_wrong in zip(CASTS[name].items(), counts):
        if n_wrong:
            raise InputError(
                f"{table.path}: each {column} must be {KINDS[kind]}; {n_wrong:,} of "
                f"{len(table.text):,} are not",
                argument=column,
                next_step="Is this the original file from PhysioNet?",
            )


def _without_repeats(engine: Any, name: str) -> list[str]:
    """Keep only the first row of each stay, admission or person, as in the paper's code."""
    key, table = KEYS[name], "stays" if name == "edstays" else name
    ((n_repeated,),) = engine.execute(f"SELECT count(*) - count(DISTINCT {key}) FROM {table}").fetchall()
    if not n_repeated:
        return []
    first = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY line) = 1"
    engine.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM {table} {first}")
    repeat = "repeats" if n_repeated == 1 else "repeat"
    return [f"{plural(n_repeated, 'row')} of {name} {repeat} a {key}; only the first row of each was used."]


def _nothing_left(n_stays: int, dropped: dict[str, int]) -> str:
    said = ", ".join(f"{count:,} {why}" for why, count in dropped.items() if count)
    return (
        f"no visit is left: of {n_stays:,} stays, {said} were dropped. Are MIMIC-IV and MIMIC-IV-ED from "
        "the same release?"
    )


def _made_missing(engine: Any, rule: str) -> pd.DataFrame:
    import pandas as pd

    counts = engine.execute(sql.made_missing(rule)).fetchall()[0]
    rows = [counts[i : i + 3] for i in range(0, len(counts), 3)]
    names = ["missing", "no_number", "out_of_range"]
    return pd.DataFrame(rows, index=pd.Index(list(sql.RANGES), name="column"), columns=names)


def _have(n_visits: int) -> str:
    return "1 visit has" if n_visits == 1 else f"{n_visits:,} visits have"


def _notes(engine: Any, rule: str) -> list[str]:
    query = sql.NOTED.format(final=sql.FINAL[rule])
    names = ("no_triage", "no_patient", "nothing_told", "no_own", "own_observation", "no_race")
    found = dict(zip(names, engine.execute(query).fetchall()[0]))
    notes = []
    if found["no_own"]:
        notes.append(f"{_have(found['no_own'])} an admission that is missing in admissions.")
    if rule == "paper":
        notes.append(
            f"Admissions for observation among the remaining visits: {found['own_observation']:,}. The "
            "paper's rule only looks at the person's first admission."
        )
        return notes
    notes.append(f"Admissions for observation: {found['own_observation']:,}. They count as admitted.")
    told = "insurance, language and marital status are unknown"
    if found["no_race"]:
        told += f", and race is unknown for {found['no_race']:,} of them"
    notes.append(f"{_have(found['nothing_told'])} no earlier admission, so {told}.")
    for name, what in (("no_triage", "triage row"), ("no_patient", "row in patients")):
        if found[name]:
            notes.append(f"{_have(found[name])} no {what}; its values are missing.")
    return notes


def _unlisted(engine: Any, rule: str) -> list[str]:
    n_visits, n_words = engine.execute(sql.UNLISTED.format(final=sql.FINAL[rule])).fetchall()[0]
    said = f"{_have(n_visits)} an unlisted word for race ({n_words:,} different words); it counts as Other."
    return [said] if n_visits else []
