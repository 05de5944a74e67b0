"""Tables with their words, as CSV, Markdown and LaTeX, and for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from propcal.building_blocks import Style, escaped
from propcal_paper.results.evidence import METRICS
from propcal_paper.settings import BASE, OURS, toml_file

WORDS = toml_file("words.toml")
PRINTED = Style(unknown="–")
SHORT = {BASE: "base", OURS: "ours"}
LONG_TEXT = 40  # letters of a cell; tables with longer ones have space between rows
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"–": "--", "<": "$<$", ">": "$>$", "×": r"$\times$"}
)


def _with_digits(digits: int, sign: str = "") -> Callable[[Any], str]:
    return partial(PRINTED.decimal, digits=digits, sign=sign)


# How the cells of a column are written (the third entry of a column in words.toml).
KINDS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "metric": METRICS.__getitem__,
    "method": lambda method: SHORT.get(method, method),
    "number": "{:g}".format,
    "count": "{:,.0f}".format,
    "whole": PRINTED.whole,
    "0": _with_digits(0),
    "3": _with_digits(3),
    "4": _with_digits(4),
    "+2": _with_digits(2, "+"),
    "p": "{:.2g}".format,
}


@dataclass(frozen=True)
class PaperTable:
    """A table: its file name, title, notes, numbers, and the rows that are shown."""

    name: str
    title: str
    notes: tuple[str, ...]
    frame: pd.DataFrame
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_texts: int = 2  # the first columns contain words, the others numbers

    def written(self, kind: str) -> Any:
        """The content of a file: csv, md or tex."""
        if kind == "csv":
            return self.frame
        if kind == "md":
            return self.markdown()
        return self.latex()

    def _aligned(self, words: str, numbers: str) -> list[str]:
        """A mark for each column: one for words, another for numbers."""
        n_numbers = len(self.headings) - self.n_texts
        marks = [words] * self.n_texts + [numbers] * n_numbers
        return marks[: len(self.headings)]

    def markdown(self) -> str:
        """The title, table and notes as Markdown."""
        heading = [escaped(text) for text in self.headings]
        lines = [heading, self._aligned("---", "---:")]
        for row in self.rows:
            lines.append([escaped(cell) for cell in row])
        body = "Nothing yet."
        if self.rows:
            body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = [escaped(note) for note in self.notes]
        return "\n\n".join([f"### {escaped(self.title)}", body, *notes]) + "\n"

    def latex(self) -> str:
        """The table for LaTeX, with the rules of the booktabs package; the notes are
        comments.
        """
        headings = [text.translate(LATEX) for text in self.headings]
        rows = []
        for row in self.rows:
            rows.append([cell.translate(LATEX) for cell in row])
        shown: Any = pd.DataFrame(rows, columns=pd.Index(headings), dtype=object)
        text: str = shown.to_latex(
            index=False,
            escape=False,
            column_format="".join(self._aligned("l", "r")),
            caption=self.title.translate(LATEX),
            label=f"tbl:{self.name.replace('_', '-')}",
        )
        centred = text.replace(r"\begin{table}", "\\begin{table}\n\\centering")
        notes = "\n".join(self.notes).splitlines()
        return "".join(f"% {line}\n" for line in notes) + centred

    def to_rich(self) -> Any:
        """The table for a terminal."""
        from rich.table import Table

        drawn = Table(
            title=self.title, title_justify="left", title_style="bold", box=None
        )
        drawn.leading = int(self._has_long_texts())
        drawn.pad_edge = False
        drawn.padding = (0, 1, 0, 0)
        sides: Any = self._aligned("left", "right")
        for heading, side in zip(self.headings, sides):
            drawn.add_column(heading, justify=side, no_wrap=side == "right")
        for row in self.rows:
            drawn.add_row(*row)
        return drawn

    def _has_long_texts(self) -> bool:
        return any(len(cell) > LONG_TEXT for row in self.rows for cell in row)


def table_of(
    name: str,
    frame: pd.DataFrame,
    shown: pd.DataFrame,
    file: str = "",
    more: str = "",
    **known: Any,
) -> PaperTable:
    """A table with its words, into which `known` is filled: the `frame` of its CSV, and
    what is `shown`.
    """
    words = WORDS[name]
    if "like" in words:
        words = WORDS[words["like"]] | words

    headings = []
    columns = []
    for heading, column, kind in _described_columns(words, shown):
        if column in shown:
            headings.append(heading)
            columns.append([KINDS[kind](value) for value in shown[column]])
    notes = [note.format(**known) for note in words["notes"]]
    return PaperTable(
        file or name,
        words["title"].format(**known),
        tuple(note for note in (*notes, more) if note),
        frame,
        tuple(headings),
        [*zip(*columns)],
        words.get("n_texts", 2),
    )


def _described_columns(
    words: dict[str, Any], shown: pd.DataFrame
) -> list[tuple[str, str, str]]:
    """Heading, column of the frame and kind of each column; without a description,
    every column is text.
    """
    if "columns" not in words:
        return [(str(column), str(column), "text") for column in shown]
    described = []
    for heading, column, *kind in words["columns"]:
        described.append((heading, column, kind[0] if kind else "text"))
    return described
