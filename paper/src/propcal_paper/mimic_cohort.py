"""Builds the hospital-admission cohort from MIMIC files, by the paper's rule or by a
cleaner one.

There are two rules. ``paper`` follows the paper's public preprocessing code; the text
of the paper does not describe it. ``clean`` is our recommendation for new work: it
keeps every visit, and uses only what was known on arrival.

====================  ==========================================
========================================= item                  paper
clean ====================  ==========================================
========================================= visits                with a triage row, of
people with any       all
                      hospital admission
insurance, language,  from the person's first admission in the    from the person's
latest admission before marital status        file, even if it came later
the visit; missing if there was none race                  from the same admission
from the visit (2.x), otherwise as above admitted              the stay has a hadm_id
the same admitted for          dropped if that first admission was for     kept
observation           observation, whatever this one was ====================
==========================================  =========================================

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
from propcal_paper.cohort_files import COHORT_KEY
from propcal_paper.errors import refused
from propcal_paper.settings import toml_file

DATA = toml_file("mimic_cohort.toml")
TABLES: dict[str, Any] = DATA["tables"]
RANGES: dict[str, tuple[int, int]] = DATA["ranges"]
GROUP_OF = {word: race for race, words in DATA["races"].items() for word in words}
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
        n = len(self.table)
        admitted = sum(self.table.column("admitted").to_pylist())
        lines = [f"{self.n_stays:,} stays (MIMIC {self.layout}), rule: {self.rule}"]
        lines += [f"  - {count:,} {why}" for why, count in self.dropped.items()]
        lines.append(
            f"  = {n:,} visits, {admitted:,} admitted ({Style().percent(admitted / n)})."
        )
        if self.rule == "paper":
            lines.append(
                f"The paper has {datasets.N_VISITS:,} visits, from version 1.0."
            )
        missing = []
        for column, row in self.made_missing.iterrows():
            low, high = RANGES[str(column)]
            why = {
                "no number": row["no_number"],
                f"outside of {low} to {high}": row["out_of_range"],
            }
            said = " and ".join(
                f"{count:,} {what}" for what, count in why.items() if count
            )
            missing += [f"  {column}: {said}"] if said else []
        return [
            *lines,
            *(["Set to missing:", *missing] if missing else []),
            *self.notes,
            "",
        ]


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
    repeated = []
    for name, path in find_tables(folders).items():
        say(f"Reading {path.name}...")
        columns[name], note = _loaded(engine, name, path)
        repeated += note
    say("Joining...")
    engine.execute(SQL["number"])
    engine.register(
        "words", pa.table({"word": list(GROUP_OF), "race": list(GROUP_OF.values())})
    )
    final = SQL["final"][rule]
    engine.execute(
        SQL["joined"].format(race=SQL["race"][rule], told_by=SQL["told_by"][rule])
    )
    engine.execute(SQL["counted"].format(kept=SQL["kept"][rule]))
    n_stays, *counts = _row(engine, SQL["steps"][rule])
    dropped = dict(zip(DATA["dropped"], counts))
    table = engine.sql(
        SQL["visits"].format(measured=_measured("in_range"), final=final)
    ).to_arrow_table()
    if not len(table):
        said = ", ".join(f"{count:,} {why}" for why, count in dropped.items() if count)
        raise refused("no visits", n=n_stays, said=said)
    hospital = "1.0" if "ethnicity" in columns["admissions"] else "2.x"
    emergency = "2.x" if "race" in columns["edstays"] else "1.0"
    if hospital == emergency:
        layout = hospital
    else:
        layout = f"{hospital}, MIMIC-IV-ED {emergency}"
    notes = (*repeated, *_few_triaged(engine), *_notes(engine, rule))
    return MimicCohort(
        table, rule, layout, n_stays, dropped, _made_missing(engine, final), notes
    )


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
            if Path(folder).exists():
                what = "is not a folder"
            else:
                what = "does not exist"
            raise refused("mimic folder", folder=folder, what=what)
        seen += _files_below(Path(folder))
    found: dict[str, list[Path]] = {}
    for name in TABLES:
        files = [
            path for path in seen if path.name in (f"{name}.csv", f"{name}.csv.gz")
        ]
        found[name] = list({os.path.realpath(path): path for path in files}.values())
    where = ", ".join(str(folder) for folder in folders)
    if missing := [name for name, paths in found.items() if not paths]:
        listed = "; ".join(
            f"{name}.csv or {name}.csv.gz, from {TABLES[name]['home']}"
            for name in missing
        )
        alike = [
            path for path in seen if any(name in path.name.lower() for name in missing)
        ]
        hint = f" Is it {alike[0]}? Then rename that file." if alike else ""
        known = {"depth": DEPTH, "listed": listed, "hint": hint, "how": DATA["access"]}
        raise refused("mimic files", where=where, **known)
    for name, paths in found.items():
        if len(paths) > 1:
            listed = ", ".join(map(str, paths))
            raise refused(
                "mimic twice", where=where, n=len(paths), name=name, listed=listed
            )
    return {name: paths[0] for name, paths in found.items()}


def _files_below(folder: Path) -> list[Path]:
    files = []
    for here, folders, names in os.walk(folder, followlinks=True):
        deep = len(Path(here).relative_to(folder).parts)
        keep = [
            f
            for f in sorted(folders)
            if not (f.startswith(".") or PERSONAL_FOLDER.fullmatch(f))
        ]
        folders[:] = keep if deep < DEPTH else []
        files += [Path(here) / name for name in sorted(names)]
    return files


def _loaded(engine: Any, name: str, path: Path) -> tuple[list[str], list[str]]:
    """Read a table into the engine, with IDs and times converted, each key once; its
    columns, and a note.
    """
    text, there = _read(name, path)
    engine.register("read", text)
    _check_values(engine, name, path, len(text))
    casts = TABLES[name]["casts"]
    key = TABLES[name]["key"]
    chosen = [
        f"TRY_CAST(trim({c}) AS {casts[c]}) AS {c}" if c in casts else c
        for c in text.column_names
    ]
    query = f"SELECT {', '.join(chosen)} FROM read"
    # only the first row of each stay, admission or person, as in the paper's code
    first = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY line) = 1"
    target = "stays" if name == "edstays" else name
    engine.execute(f"CREATE TABLE {target} AS SELECT * FROM ({query}) {first}")
    (n_kept,) = _row(engine, f"SELECT count(*) FROM {target}")
    engine.unregister("read")
    n = len(text) - n_kept
    repeat = f"{plural(n, 'row')} of {name} {'repeats' if n == 1 else 'repeat'} a {key}"
    return there, [f"{repeat}; only the first row of each was used."] if n else []


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
    old = "ethnicity" in file.names and "race" not in file.names
    there = {*file.names}
    later = {
        "admissions": ["ethnicity" if old else "race"],
        "edstays": sorted({"gender", "race"} & there),
    }
    wanted = [*TABLES[name]["columns"], *later.get(name, [])]
    if lacking := [column for column in wanted if column not in file.names]:
        columns = f"{noun(len(lacking), 'column')} {', '.join(map(repr, lacking))}"
        raise refused("mimic columns", path=path, columns=columns, name=name, home=home)
    text = file.read(wanted, dict.fromkeys(wanted, "text"))
    text = text.rename_columns(
        ["race" if column == "ethnicity" else column for column in wanted]
    )
    for column in {"edstays": ("gender", "race")}.get(name, ()):
        if column not in wanted:
            text = text.append_column(column, pa.nulls(len(text), pa.string()))
    return text.append_column("line", pa.array(np.arange(len(text)))), wanted


def _check_values(engine: Any, name: str, path: Path, n_rows: int) -> None:
    """Refuse IDs and times that cannot be read."""
    for column, kind in TABLES[name]["casts"].items():
        if column in TABLES[name]["may_be_empty"]:
            empty = f" AND {column} IS NOT NULL"
        else:
            empty = ""
        wrong = f"TRY_CAST(trim({column}) AS {kind}) IS NULL{empty}"
        (n_wrong,) = _row(engine, f"SELECT count(*) FROM read WHERE {wrong}")
        if n_wrong:
            known = {"kind": KINDS[kind], "n": n_wrong, "n_rows": n_rows}
            raise refused("mimic values", path=path, column=column, **known)


def _measured(what: str) -> str:
    """The same SQL for each measured column."""
    return ", ".join(
        SQL[what].format(c=c, low=low, high=high) for c, (low, high) in RANGES.items()
    )


def _made_missing(engine: Any, final: str) -> pd.DataFrame:
    """How many values of each measured column are missing, not numbers, or out of
    range.
    """
    counts = _row(engine, f"SELECT {_measured('lost')} FROM counted WHERE {final}")
    names = ["missing", "no_number", "out_of_range"]
    return pd.DataFrame(np.reshape(counts, (-1, 3)), [*RANGES], names).rename_axis(
        "column"
    )


def _few_triaged(engine: Any) -> list[str]:
    """A warning if many stays have no triage row, because a file may be truncated at
    the end of a line.
    """
    n, lacking = _row(
        engine, "SELECT count(*), count(*) FILTER (NOT has_triage) FROM joined"
    )
    if lacking <= MANY_UNTRIAGED * n:
        return []
    return [DATA["few_triaged"].format(lacking=lacking, n=n, percent=100 * lacking / n)]


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
