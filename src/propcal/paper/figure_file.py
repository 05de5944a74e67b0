"""Creates the paper's figures without a window, and writes them and their numbers to files."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propcal.errors import InputError
from propcal.extras import how_to_install
from propcal.output.files.whole_file import write_whole
from propcal.output.plots.axes import require_matplotlib

if TYPE_CHECKING:
    import pandas as pd

COLUMN, PAGE = 3.4, 7.0  # widths in inches: one column of a journal page, or the whole page
DPI = 200


def new_figure(width: float, height: float) -> Any:
    """A new figure without a window."""
    try:
        figure = require_matplotlib()
    except ImportError:
        raise InputError(
            "the paper's figures need matplotlib", next_step=how_to_install("paper"), between=": "
        ) from None
    return figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: str | PathLike[str]) -> None:
    """Write a figure in the format given by the ending of the file name."""
    kind = Path(path).suffix.lstrip(".").lower() or "png"
    import matplotlib as mpl

    # letters stay letters in vector files, and the same figure gives the same file
    with mpl.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "propcal"}):
        dated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
        write_whole(path, lambda part: figure.savefig(part, format=kind, dpi=DPI, metadata=dated))


def save_table(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write the numbers of a figure as CSV, with six digits."""
    write_whole(path, lambda part: frame.to_csv(part, index=False, float_format="%.6g"))
