"""Builds the cohort from MIMIC files, by the paper's rule or by a cleaner one.

There are two rules. ``paper`` follows the paper's public preprocessing code; the text
of the paper does not describe it. ``clean`` is our recommendation for new work: it
keeps every visit, and uses only what was known on arrival.

================  ===================================  ================================
item              paper                                clean
================  ===================================  ================================
visits            with a triage row, of people with    all
                  any hospital admission
insurance,        from the person's first admission    from the person's latest
language,         in the file, even if it came later   admission before the visit;
marital status                                         missing if there was none
race              from the same admission              from the visit (2.x), otherwise
                                                       as above
admitted          the stay has a hadm_id               the same
admitted for      dropped if that first admission was  kept
observation       for observation, whatever this one
                  was
================  ===================================  ================================

With ``clean``, a stay is joined to its own admission only to count admissions for
observation. Insurance taken from the stay's own admission would be missing for
everybody who was not admitted, and so reveal the outcome.

Version 1.0 has admissions and patients in ``core/`` and race in
``admissions.ethnicity``; versions 2.x have them in ``hosp/``, name that column
``race``, and repeat race and gender in ``edstays``. The folders may have any name, such
as those of a download from PhysioNet. Rules, words and SQL are in mimic_cohort.toml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from propcal import datasets
from propcal.building_blocks import FileFormatError, Style, noun, plural
from propcal_paper.errors import refused
from propcal_paper.running.cohort_files import COHORT_KEY
from propcal_paper.settings import toml_file

DATA = toml_file("mimic_cohort.toml")
TABLES: dict[str, Any] = DATA["tables"]
RANGES: dict[str, tuple[int, int]] = DATA["ranges"]
GROUP_OF: dict[str, str] = {}  # the group of each of MIMIC's words
for _race, _words in DATA["races"].items():
    GROUP_OF |= dict.fromkeys(_words, _race)
SQL: dict[str, Any] = DATA["sql"]
RULES = ("paper", "clean")
# how IDs and times are read, and how errors describe them
KINDS = {"BIGINT": "a whole number", "TIMESTAMP": "a time such as 2150-01-31 08:00:00"}
MANY_UNTRIAGED = 0.05  # warn if a larger share of stays has no triage row
DEPTH = 6  # physionet.org/files/mimic-iv-ed/2.2/ed is five levels deep
# folders of other databases to skip, with a subfolder for each patient or study: a
# hundred thousand of them
PERSONAL_FOLDER = re.compile(r"[ps]\d+")


@dataclass(frozen=True)
class MimicCohort:
    """The visits, and how they were selected.

    Attributes
    ----------
    table : pyarrow.Table
        One row per visit, with the columns of `make_ed_visits` (except the true risk)
        and the patient ID `subject_id`. These are personal data under the licence of
        MIMIC.
    rule : str
        "paper" or "clean".
    layout : str
        "1.0" or "2.x"; both if the two databases are from different releases.
    n_stays : int
        The number of stays in edstays.
    dropped : dict
        The reasons for which stays were dropped, in order, with the number of stays.
    made_missing : pandas.DataFrame
        For each measured column, how many values were missing, not numbers, or out of
        range.
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
        from propcal.building_blocks import table_writer

        # the Parquet file records its source and rule, and a store of trials copies
        # this
        about = {COHORT_KEY: f"MIMIC {self.layout}, rule: {self.rule}"}
        schema = self.table.schema.with_metadata(about)
        with table_writer(path, schema) as write:
            for batch in self.table.to_batches():
                write(batch)

    def sentences(self) -> list[str]:
        """What was kept and what not, in words with numbers."""
        n_visits = len(self.table)
        n_admitted = sum(self.table.column("admitted").to_pylist())
        percent = Style().percent(n_admitted / n_visits)
        lines = [f"{self.n_stays:,} stays (MIMIC {self.layout}), rule: {self.rule}"]
        lines += [f"  - {n_stays:,} {why}" for why, n_stays in self.dropped.items()]
        lines.append(f"  = {n_visits:,} visits, {n_admitted:,} admitted ({percent}).")
        if self.rule == "paper":
            n_of_paper = datasets.N_VISITS
            lines.append(f"The paper has {n_of_paper:,} visits, from version 1.0.")
        missing = self._set_to_missing()
        if missing:
            lines += ["Set to missing:", *missing]
        return [*lines, *self.notes, ""]

    def _set_to_missing(self) -> list[str]:
        """A line for each measured column with values that are not numbers, or out of
        range.
        """
        lines = []
        for column, counts in self.made_missing.iterrows():
            low, high = RANGES[str(column)]
            reasons = {
                "no number": counts["no_number"],
                f"outside of {low} to {high}": counts["out_of_range"],
            }
            said = [f"{n:,} {reason}" for reason, n in reasons.items() if n]
            if said:
                lines.append(f"  {column}: {' and '.join(said)}")
        return lines


def mimic_cohort(
    *folders: str | PathLike[str],
    rule: str = "paper",
    say: Callable[[str], None] = lambda _: None,
) -> MimicCohort:
    """Build the hospital-admission cohort from MIMIC's files.

    Parameters
    ----------
    *folders : paths
        Folders that contain the files at any depth: ``ed/edstays``, ``ed/triage``, and
        ``admissions`` and ``patients`` in ``core/`` (1.0) or ``hosp/`` (2.x), each as
        .csv or .csv.gz.
    rule : {"paper", "clean"}, default="paper"
        Which visits to include and what is known about them; see the module docstring.
    say : callable
        Called with progress messages.
    """
    if rule not in RULES:
        raise refused("rule", known=list(RULES), rule=rule)
    engine = _database()
    columns = {}
    notes = []
    for name, path in find_tables(folders).items():
        say(f"Reading {path.name}...")
        columns[name], repeated = _loaded(engine, name, path)
        notes += repeated
    say("Joining...")
    final = SQL["final"][rule]
    n_stays, dropped = _joined(engine, rule)
    measured = _measured("in_range")
    query = SQL["visits"].format(measured=measured, final=final)
    table = engine.sql(query).to_arrow_table()
    if not len(table):
        reasons = [f"{n:,} {why}" for why, n in dropped.items() if n]
        raise refused("no visits", n=n_stays, said=", ".join(reasons))

    notes += _few_triaged(engine)
    notes += _notes(engine, rule)
    made_missing = _made_missing(engine, final)
    layout = _layout(columns)
    return MimicCohort(
        table, rule, layout, n_stays, dropped, made_missing, tuple(notes)
    )


def _joined(engine: Any, rule: str) -> tuple[int, dict[str, int]]:
    """Join the tables; the number of stays, and how many of them were dropped for each
    reason.
    """
    engine.execute(SQL["number"])
    races = {"word": list(GROUP_OF), "race": list(GROUP_OF.values())}
    engine.register("words", pa.table(races))
    by_rule = {"race": SQL["race"][rule], "told_by": SQL["told_by"][rule]}
    engine.execute(SQL["joined"].format(**by_rule))
    engine.execute(SQL["counted"].format(kept=SQL["kept"][rule]))
    n_stays, *n_dropped = _row(engine, SQL["steps"][rule])
    return n_stays, dict(zip(DATA["dropped"], n_dropped))


def _layout(columns: dict[str, list[str]]) -> str:
    """The version of the files; both if the two databases are from different
    releases.
    """
    hospital = "1.0" if "ethnicity" in columns["admissions"] else "2.x"
    emergency = "2.x" if "race" in columns["edstays"] else "1.0"
    if hospital == emergency:
        return hospital
    return f"{hospital}, MIMIC-IV-ED {emergency}"


def _database() -> Any:
    """An empty database in memory, which downloads nothing and prints nothing."""
    import duckdb

    known_only: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    engine = duckdb.connect(":memory:", config=known_only)
    engine.execute("SET enable_progress_bar = false")
    return engine


def find_tables(folders: Sequence[str | PathLike[str]]) -> dict[str, Path]:
    """The file of each table, anywhere in the folders; there must be exactly one for
    each table.
    """
    seen: list[Path] = []
    for folder in folders:
        if not Path(folder).is_dir():
            exists = Path(folder).exists()
            what = "is not a folder" if exists else "does not exist"
            raise refused("mimic folder", folder=folder, what=what)
        seen += _files_below(Path(folder))

    found: dict[str, list[Path]] = {}
    for name in TABLES:
        there = {}
        for path in seen:
            if path.name in (f"{name}.csv", f"{name}.csv.gz"):
                there[os.path.realpath(path)] = path
        found[name] = list(there.values())
    where = ", ".join(map(str, folders))
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        raise _files_missing(missing, seen, where)
    for name, paths in found.items():
        if len(paths) > 1:
            listed = ", ".join(map(str, paths))
            known = {"n": len(paths), "name": name, "listed": listed}
            raise refused("mimic twice", where=where, **known)
    return {name: paths[0] for name, paths in found.items()}


def _files_missing(missing: list[str], seen: list[Path], where: str) -> Exception:
    """The error that names the missing tables, and a file that may be one of them."""
    wanted = []
    alike = []
    for name in missing:
        home = TABLES[name]["home"]
        wanted.append(f"{name}.csv or {name}.csv.gz, from {home}")
    for path in seen:
        if any(name in path.name.lower() for name in missing):
            alike.append(path)
    hint = f" Is it {alike[0]}? Then rename that file." if alike else ""
    known = {"listed": "; ".join(wanted), "hint": hint, "how": DATA["access"]}
    return refused("mimic files", where=where, depth=DEPTH, **known)


def _files_below(folder: Path) -> list[Path]:
    files = []
    for here, folders, names in os.walk(folder, followlinks=True):
        depth = len(Path(here).relative_to(folder).parts)
        searched = []
        for name in sorted(folders):
            skipped = name.startswith(".") or PERSONAL_FOLDER.fullmatch(name)
            if depth < DEPTH and not skipped:
                searched.append(name)
        folders[:] = searched
        files += [Path(here) / name for name in sorted(names)]
    return files


def _loaded(engine: Any, name: str, path: Path) -> tuple[list[str], list[str]]:
    """Read a table into the engine, with IDs and times converted, each key once; its
    columns, and a note.
    """
    text, columns = _read(name, path)
    engine.register("read", text)
    _check_values(engine, name, path, len(text))
    casts = TABLES[name]["casts"]
    key = TABLES[name]["key"]
    chosen = []
    for column in text.column_names:
        if column in casts:
            kind = casts[column]
            chosen.append(f"TRY_CAST(trim({column}) AS {kind}) AS {column}")
        else:
            chosen.append(column)
    query = f"SELECT {', '.join(chosen)} FROM read"
    # only the first row of each stay, admission or person, as in the paper's code
    first = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY line) = 1"
    target = "stays" if name == "edstays" else name
    engine.execute(f"CREATE TABLE {target} AS SELECT * FROM ({query}) {first}")
    (n_kept,) = _row(engine, f"SELECT count(*) FROM {target}")
    engine.unregister("read")

    n_repeated = len(text) - n_kept
    if not n_repeated:
        return columns, []
    verb = "repeats" if n_repeated == 1 else "repeat"
    repeated = f"{plural(n_repeated, 'row')} of {name} {verb} a {key}"
    return columns, [f"{repeated}; only the first row of each was used."]


def _read(name: str, path: Path) -> tuple[Any, list[str]]:
    """The columns of a table as text, the same in every version, with its lines; and
    those of the file.

    Truncated, empty or unrelated files are refused.
    """
    from propcal.building_blocks import TextFiles, open_file

    file = open_file(path)
    home = TABLES[name]["home"]
    if not isinstance(file, TextFiles):
        raise FileFormatError(
            f"{path} is not a CSV file; it must be the file from {home}"
        )
    wanted = [*TABLES[name]["columns"], *_columns_of_version(name, file.names)]
    lacking = [column for column in wanted if column not in file.names]
    if lacking:
        names = ", ".join(map(repr, lacking))
        columns = f"{noun(len(lacking), 'column')} {names}"
        known = {"columns": columns, "name": name, "home": home}
        raise refused("mimic columns", path=path, **known)

    text = file.read(wanted, dict.fromkeys(wanted, "text"))
    renamed = ["race" if column == "ethnicity" else column for column in wanted]
    text = text.rename_columns(renamed)
    if name == "edstays":
        for column in ("gender", "race"):
            if column not in wanted:
                text = text.append_column(column, pa.nulls(len(text), pa.string()))
    return text.append_column("line", pa.array(np.arange(len(text)))), wanted


def _columns_of_version(name: str, there: Sequence[str]) -> list[str]:
    """The columns of a table that not every version has under the same name."""
    if name == "admissions":
        old = "ethnicity" in there and "race" not in there
        return ["ethnicity" if old else "race"]
    if name == "edstays":
        return [column for column in ("gender", "race") if column in there]
    return []


def _check_values(engine: Any, name: str, path: Path, n_rows: int) -> None:
    """Refuse IDs and times that cannot be read."""
    for column, kind in TABLES[name]["casts"].items():
        wrong = f"TRY_CAST(trim({column}) AS {kind}) IS NULL"
        if column in TABLES[name]["may_be_empty"]:
            wrong += f" AND {column} IS NOT NULL"
        (n_wrong,) = _row(engine, f"SELECT count(*) FROM read WHERE {wrong}")
        if n_wrong:
            known = {"kind": KINDS[kind], "n": n_wrong, "n_rows": n_rows}
            raise refused("mimic values", path=path, column=column, **known)


def _measured(what: str) -> str:
    """SQL that is repeated for each measured column."""
    parts = []
    for column, (low, high) in RANGES.items():
        parts.append(SQL[what].format(c=column, low=low, high=high))
    return ", ".join(parts)


def _made_missing(engine: Any, final: str) -> pd.DataFrame:
    """How many values of each measured column are missing, not numbers, or out of
    range.
    """
    counts = _row(engine, f"SELECT {_measured('lost')} FROM counted WHERE {final}")
    table = np.reshape(counts, (-1, 3))
    names = ["missing", "no_number", "out_of_range"]
    frame = pd.DataFrame(table, list(RANGES), names)
    return frame.rename_axis("column")


def _few_triaged(engine: Any) -> list[str]:
    """A warning if many stays have no triage row, because a file may be truncated at
    the end of a line.
    """
    query = "SELECT count(*), count(*) FILTER (NOT has_triage) FROM joined"
    n, lacking = _row(engine, query)
    if lacking <= MANY_UNTRIAGED * n:
        return []
    percent = 100 * lacking / n
    return [DATA["few_triaged"].format(lacking=lacking, n=n, percent=percent)]


def _notes(engine: Any, rule: str) -> list[str]:
    """The notes of mimic_cohort.toml that apply to the rule and to the visits."""
    notes = []
    for note in DATA["note"]:
        n, words = _row(engine, SQL["noted"].format(final=SQL["final"][rule], **note))
        have = "1 visit has" if n == 1 else f"{n:,} visits have"
        if rule in note["rules"] and (n or note["always"]):
            notes.append(note["says"].format(n=n, have=have, words=words))
    return notes


def _row(engine: Any, query: str) -> Any:
    """The only row of the answer to a query."""
    return engine.execute(query).fetchall()[0]
