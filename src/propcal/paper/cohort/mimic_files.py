"""Finds and reads the four tables of MIMIC-IV and MIMIC-IV-ED that the cohort needs.

Version 1.0 has admissions and patients in ``core/`` and race in ``admissions.ethnicity``; versions 2.x have
them in ``hosp/``, name that column ``race``, and repeat race and gender in ``edstays``. The folders may have
any name, such as those of a download from PhysioNet.
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
import pyarrow as pa

from propcal.errors import FileFormatError, InputError
from propcal.numbers import noun

DEPTH = 6  # physionet.org/files/mimic-iv-ed/2.2/ed is five levels deep
# folders of other databases to skip, with a subfolder for each patient or study: a hundred thousand of them
PERSONAL_FOLDER = re.compile(r"[ps]\d+")
ENDINGS = (".csv", ".csv.gz")
VITALS = ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain", "acuity")
COLUMNS = {
    "edstays": ("subject_id", "hadm_id", "stay_id", "intime"),
    "triage": ("stay_id", *VITALS, "chiefcomplaint"),
    "admissions": (
        "subject_id",
        "hadm_id",
        "admittime",
        "admission_type",
        "insurance",
        "language",
        "marital_status",
    ),
    "patients": ("subject_id", "gender", "anchor_age", "anchor_year"),
}
HOME = {
    "edstays": "ed/ of MIMIC-IV-ED",
    "triage": "ed/ of MIMIC-IV-ED",
    "admissions": "core/ (1.0) or hosp/ (2.x) of MIMIC-IV",
    "patients": "core/ (1.0) or hosp/ (2.x) of MIMIC-IV",
}
ACCESS = (
    "Credentialed users of PhysioNet have access to both databases: physionet.org/content/mimiciv and "
    "physionet.org/content/mimic-iv-ed. Demos with 100 patients are open to everybody: "
    "physionet.org/content/mimic-iv-demo and physionet.org/content/mimic-iv-ed-demo"
)


@dataclass(frozen=True)
class MimicTable:
    """One table as text, in the order of the file."""

    path: Path
    text: Any  # pyarrow Table

    def has(self, column: str) -> bool:
        """Whether the file has this column."""
        return column in self.text.column_names


def find_tables(folders: Sequence[str | PathLike[str]]) -> dict[str, Path]:
    """The file of each table, anywhere in the folders; there must be exactly one for each table."""
    seen: list[Path] = []
    for folder in folders:
        if not Path(folder).is_dir():
            what = "is not a folder" if Path(folder).exists() else "does not exist"
            raise InputError(
                f"--mimic {folder} {what}",
                argument="--mimic",
                next_step="Name the folder that contains ed/ and core/ or hosp/",
            )
        seen += _files_below(Path(folder))
    found = {
        name: list({p.resolve(): p for p in seen if p.name in {name + e for e in ENDINGS}}.values())
        for name in COLUMNS
    }
    where = ", ".join(str(folder) for folder in folders)
    missing = [name for name, paths in found.items() if not paths]
    if missing:
        raise InputError(_not_found(missing, where, seen))
    several = {name: paths for name, paths in found.items() if len(paths) > 1}
    if several:
        name, paths = next(iter(several.items()))
        raise InputError(
            f"{where} contains {len(paths)} files of {name}: {', '.join(str(path) for path in paths)}",
            argument="--mimic",
            next_step="Name the folder of a single version; --mimic can be given twice, once per database",
        )
    return {name: paths[0] for name, paths in found.items()}


def _files_below(folder: Path) -> list[Path]:
    files = []
    for here, folders, names in os.walk(folder, followlinks=True):
        deep = len(Path(here).relative_to(folder).parts)
        keep = [f for f in sorted(folders) if not (f.startswith(".") or PERSONAL_FOLDER.fullmatch(f))]
        folders[:] = keep if deep < DEPTH else []
        files += [Path(here) / name for name in sorted(names)]
    return files


def _not_found(missing: Sequence[str], where: str, seen: Sequence[Path]) -> str:
    listed = "; ".join(f"{name}.csv or {name}.csv.gz, from {HOME[name]}" for name in missing)
    alike = [p for p in seen if any(name in p.name.lower() for name in missing)]
    hint = f" Is it {alike[0]}? Then rename that file." if alike else ""
    return f"{where} (searched {DEPTH} folders deep) does not contain {listed}.{hint} {ACCESS}"


def read_tables(
    folders: Sequence[str | PathLike[str]], say: Callable[[str], None] = lambda _: None
) -> dict[str, MimicTable]:
    """Find and read the four tables; truncated, empty or unrelated files are refused."""
    paths = find_tables(folders)
    return {name: _read(name, path, say) for name, path in paths.items()}


def _read(name: str, path: Path, say: Callable[[str], None]) -> MimicTable:
    from propcal.data.files.formats import open_file
    from propcal.data.files.text_file import TextFile

    say(f"Reading {path.name}...")
    file = open_file(path)
    if not isinstance(file, TextFile):
        raise FileFormatError(f"{path} is not a CSV file; it must be the file from {HOME[name]}")
    wanted = [*COLUMNS[name], *_optional(name, file.names)]
    lacking = [column for column in wanted if column not in file.names]
    if lacking:
        raise InputError(
            f"{path} has no {noun(len(lacking), 'column')} {', '.join(map(repr, lacking))}: it is not {name} "
            f"from {HOME[name]}, or it is from a version that propcal does not support (it supports 1.0 and "
            "2.x)"
        )
    text = file.read_text(wanted)
    return MimicTable(path, text.append_column("line", pa.array(np.arange(len(text)))))


def _optional(name: str, names: Sequence[str]) -> list[str]:
    """The columns that only some versions have."""
    if name == "admissions":
        return ["ethnicity" if "ethnicity" in names and "race" not in names else "race"]
    return [c for c in ("gender", "race") if c in names] if name == "edstays" else []
