"""Parts of what is printed on a terminal: tables, sentences and notes.

Names are the users' data: shown as they are, never read as markup, and without characters that would steer
the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from propcal.plain_text import plain

WORDS = (
    "",
    "group",
    "site",
    "where",
    "why",
    "score",
    "measure",
    "finding",
)  # headings of columns that hold no numbers
STYLES = {"wrong": "bold red", "noise": "bold green"}  # by the tone of the conclusion


def as_text(shown: RenderableType, width: int = 100) -> str:
    """What would be printed, without colours."""
    written = StringIO()
    Console(width=width, file=written, no_color=True, highlight=False).print(shown)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def text_table(title: str, headings: Iterable[str]) -> Table:
    """A table in which words fold and numbers stand to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    table.title_style, table.header_style = "bold", "underline"
    for heading in headings:
        words = heading in WORDS
        table.add_column(heading, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    return table


def left_text(text: str) -> RenderableType:
    """Sentences, set in a little."""
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def text_row(table: Table, *cells: Any, style: str = "") -> None:
    """Add a row of values as they are."""
    table.add_row(*[Text(plain(cell)) for cell in cells], style=style)


def note_text(notes: Iterable[str]) -> list[RenderableType]:
    """Notes as a list, each once."""
    lines = list(dict.fromkeys(plain(note) for note in notes))
    if not lines:
        return []
    table = Table(box=None, show_header=False, pad_edge=False)  # hanging indents
    for line in lines:
        table.add_row(Text("-"), Text(line))
    return [Text("Notes", style="bold"), Padding(table, (0, 0, 1, 0))]
