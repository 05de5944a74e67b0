"""An Excel workbook of people: its first sheet, read with openpyxl and then treated like a CSV file."""

from __future__ import annotations

import csv
import warnings
from datetime import date, datetime, time
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from propcal.data.files.text_file import CsvFile
from propcal.errors import FileFormatError, InputError, Message
from propcal.extras import how_to_install


class ExcelFile(CsvFile):
    """The first sheet of a workbook; its first row names the columns."""

    def __init__(self, path: Path) -> None:
        folder = mkdtemp(prefix="propcal-")
        finalize(self, rmtree, folder, ignore_errors=True)  # with this object, or at the end
        content = Path(folder) / "sheet.csv"
        _write_sheet(path, content)
        super().__init__(path, content=content)


def _write_sheet(path: Path, content: Path) -> None:
    """Write the first sheet as CSV; rows without any value are skipped."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(
            f"{path} is an Excel workbook, which needs openpyxl",
            next_step=f"{how_to_install('excel')}, or save the table as CSV",
            between=": ",
        ) from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        sheets = book.worksheets
        sheets[0].reset_dimensions()  # the size that the file states may be out of date
        rows = [row for row in sheets[0].iter_rows(values_only=True) if any(cell is not None for cell in row)]
        title, others = sheets[0].title, len(sheets) - 1
        book.close()
    except Exception:  # openpyxl raises errors of many kinds, and some quote cells
        raise FileFormatError(
            f"{path} cannot be read as an Excel workbook", next_step="save the table in it as CSV"
        ) from None
    if others:
        there = "there is 1 more" if others == 1 else f"there are {others} more"
        warnings.warn(
            Message(f"{path}: only the first sheet, {title!r}, is read; {there}"),
            UserWarning,
            stacklevel=5,
        )
    if not rows:
        raise FileFormatError(f"{path}: its first sheet, {title!r}, is empty")
    width = max(i for i, name in enumerate(rows[0], start=1) if name is not None)
    if any(cell is not None for row in rows for cell in row[width:]):
        raise FileFormatError(f"{path}: a column of its first sheet has values and no name in the first row")
    with content.open("w", encoding="utf-8", newline="") as file:
        table = ([_text(cell) for cell in row[:width]] + [""] * (width - len(row)) for row in rows)
        csv.writer(file, lineterminator="\n").writerows(table)


def _text(cell: Any) -> str:
    """A cell as CSV has it: ISO dates, truth values, numbers with as many digits as tell them apart."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(sep=" ")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return str(cell)
