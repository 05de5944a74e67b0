"""Blocks: what a document is made of. Results become blocks, and only renderers print them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from propcal.documents.charts import Forest, Plot, Plots

BRIEF, TEXT, PAGE, MARKDOWN, CARD = "brief", "text", "page", "markdown", "card"  # brief: a short terminal
EVERYWHERE = (BRIEF, TEXT, PAGE, MARKDOWN, CARD)
FULL = (TEXT, PAGE, MARKDOWN, CARD)  # everywhere but where little is shown
WRITTEN = (PAGE, MARKDOWN)
PRINTED = (PAGE, MARKDOWN, CARD)  # everywhere but in a terminal


@dataclass(frozen=True)
class Column:
    """One column of a table: which value of a row it shows, and how.

    Attributes
    ----------
    key : str
        Name of the value in each row. Intervals are made of `key`_low and `key`_high.
    heading : str
    kind : str
        How values are printed and aligned: one of `propcal.render.cells.KINDS`.
    digits : int
        After the point, for kinds that need them.
    places : tuple of str
        Where the column is shown.
    minor : bool
        Whether a narrow screen may leave it out.
    """

    key: str
    heading: str
    kind: str = "text"
    digits: int = 2
    places: tuple[str, ...] = EVERYWHERE
    minor: bool = False


@dataclass(frozen=True)
class Table:
    """Rows with typed columns; the first column names the row.

    Attributes
    ----------
    key : str
        Identifies the table within its page.
    title : str
    columns : sequence of Column
    rows : sequence of mappings
        Values by column key. `look` ("high", "low", "noise", "few") colours findings, `digits` are those of
        all numbers of the row, `key` identifies it for scripts, and one that is not `brief` is left out of a
        short terminal. A text in the place of a number is printed as it is.
    note : str
        What a reader must know, below the table.
    legend : mapping
        What the values of `mark` mean in a terminal, for the rows that are shown there.
    most : int
        Rows that a terminal or a card shows; a page and Markdown show all of them. 0: all.
    item : str
        What a row is, for "... and 3 more groups".
    places : tuple of str
    sortable : bool
        Whether a page lets readers sort and filter it.
    """

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    note: str = ""
    most: int = 25
    item: str = "group"
    places: tuple[str, ...] = EVERYWHERE
    sortable: bool = False
    legend: Mapping[str, str] = field(default_factory=dict)

    def columns_at(self, place: str) -> list[Column]:
        """The columns that are shown at a place."""
        return [column for column in self.columns if place in column.places]

    def rows_at(self, place: str) -> Sequence[Mapping[str, Any]]:
        """The rows that are shown at a place."""
        if place in (PAGE, MARKDOWN):
            return self.rows
        rows = [row for row in self.rows if place != BRIEF or row.get("brief", True)]
        return rows[: self.most] if self.most else rows


@dataclass(frozen=True)
class Verdict:
    """What was found: a headline with its tone ("wrong", "noise" or "few"), and sentences.

    `explanation` says how to read the numbers, `subject` comes first in a terminal, and `links` lead to parts
    of a page: the key of the section, its name and what it found.
    """

    tone: str
    headline: str
    sentences: Sequence[str]
    subject: str = "Verdict"
    explanation: str = ""
    places: tuple[str, ...] = EVERYWHERE
    links: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True)
class Figure:
    """A key figure: a name, a number, its interval, what it was before a correction, and how to read it."""

    name: str
    value: str
    interval: str = ""
    before: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Figures:
    """Key figures in a strip."""

    title: str
    figures: Sequence[Figure]
    places: tuple[str, ...] = PRINTED


@dataclass(frozen=True)
class Paragraphs:
    """Sentences, a paragraph each, below an optional heading."""

    texts: Sequence[str]
    heading: str = ""
    places: tuple[str, ...] = EVERYWHERE


@dataclass(frozen=True)
class Items:
    """A list: notes, next steps, limits."""

    title: str
    items: Sequence[str]
    places: tuple[str, ...] = EVERYWHERE


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds away, and opens on paper if they are `printed`; elsewhere they just follow."""

    summary: str
    blocks: Sequence[Block]
    places: tuple[str, ...] = (PAGE,)
    key: str = ""
    printed: bool = False


@dataclass(frozen=True)
class Beside:
    """Blocks that a wide page shows side by side."""

    blocks: Sequence[Block]
    even: bool = False
    places: tuple[str, ...] = FULL


@dataclass(frozen=True)
class Section:
    """Blocks under a heading: a card of a page, with a link in its menu."""

    key: str
    title: str
    blocks: Sequence[Block]
    link: str = ""
    places: tuple[str, ...] = EVERYWHERE


@dataclass(frozen=True)
class Fragment:
    """A part of a page with a template of its own, for what readers can operate (a slider, a picker).

    Its content is made when a page is.
    """

    template: str
    content: Callable[[], Mapping[str, Any]]
    places: tuple[str, ...] = (PAGE,)


Words = Verdict | Figures | Paragraphs | Items | Table
Block = Words | Forest | Plot | Plots | Details | Beside | Section | Fragment


@dataclass(frozen=True)
class Document:
    """A result in words, numbers and pictures.

    Attributes
    ----------
    brand : str
        What kind of document it is, above its title.
    title : str
    about : sequence of pairs
        Score, outcome, source, as far as they were given.
    blocks : sequence of blocks
    data : any
        The numbers for machines, which a page contains as well, or a function that makes them; None for none.
    data_key : str
        What a page calls them.
    made : str
        The day it was made, if that is printed.
    script : str
        Name of the script that a page needs.
    """

    brand: str
    title: str
    blocks: Sequence[Block]
    about: Sequence[tuple[str, str]] = ()
    data: Any = None
    data_key: str = "course"
    made: str = ""
    script: str = ""

    def at(self, place: str) -> list[Block]:
        """The blocks that are shown at a place."""
        return shown_at(self.blocks, place)


def shown_at(blocks: Sequence[Block], place: str) -> list[Block]:
    """The blocks among these that are shown at a place."""
    return [block for block in blocks if place in block.places]
