"""Blocks: what a document is made of.

Results become blocks, and only renderers print them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from propcal.documents.charts import Forest, Plot, Plots
from propcal.numbers import plural

RATIO = "observed_expected"


class At(Flag):
    """Where something is shown: a short terminal, a full one, a page, Markdown, a card
    of a notebook.
    """

    BRIEF = auto()
    TEXT = auto()
    PAGE = auto()
    MARKDOWN = auto()
    CARD = auto()
    SCREEN = BRIEF | TEXT
    WRITTEN = PAGE | MARKDOWN
    PRINTED = WRITTEN | CARD  # everywhere but in a terminal
    FULL = PRINTED | TEXT  # everywhere but where little is shown
    EVERYWHERE = FULL | BRIEF


@dataclass(frozen=True)
class Column:
    """One column of a table: which value of a row it shows, and how.

    Attributes
    ----------
    key : str
        Name of the value in each row. Intervals are made of `key`_low and `key`_high,
        or of the two ends that the key names: "low..high".
    heading : str
    kind : str
        How values are printed and aligned: one of `propcal.render.cells.KINDS`.
    digits : int
        After the point, for kinds that need them.
    places : At
        Where the column is shown.
    minor : bool
        Whether a narrow screen may leave it out.
    """

    key: str
    heading: str
    kind: str = "text"
    digits: int = 2
    places: At = At.EVERYWHERE
    minor: bool = False

    @property
    def ends(self) -> tuple[str, str]:
        """Names of the two ends of an interval."""
        low, _, high = self.key.partition("..")
        return (low, high) if high else (f"{low}_low", f"{low}_high")


def estimate_columns(
    key: str = RATIO,
    heading: str = "O/E",
    digits: int = 2,
    *,
    places: At = At.EVERYWHERE,
) -> list[Column]:
    """A number, and its 95 % interval at these places."""
    interval = Column(key, "95 % CI", "interval", digits, places)
    return [Column(key, heading, "decimal", digits), interval]


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
        Values by column key. `look` ("high", "low", "noise", "few") colours findings,
        `digits` are those of all numbers of the row, `key` identifies it for scripts,
        and one that is not `brief` is left out of a short terminal. A text in the place
        of a number is printed as it is.
    note : str
        What a reader must know, below the table.
    legend : mapping
        What the values of `mark` mean in a terminal, for the rows that are shown there.
    most : int
        Rows that a terminal or a card shows; a page and Markdown show all of them. 0:
        all.
    item : str
        What a row is, for "... and 3 more groups".
    places : At
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
    places: At = At.EVERYWHERE
    sortable: bool = False
    legend: Mapping[str, str] = field(default_factory=dict)

    def columns_at(self, place: At) -> list[Column]:
        """The columns that are shown at a place."""
        return [column for column in self.columns if place in column.places]

    def rows_at(self, place: At) -> Sequence[Mapping[str, Any]]:
        """The rows that are shown at a place."""
        if place in At.WRITTEN:
            return self.rows
        rows = [row for row in self.rows if place != At.BRIEF or row.get("brief", True)]
        return rows[: self.most] if self.most else rows

    def more_than(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """How many rows there are besides some of them; nothing if there are none."""
        more = len(self.rows) - len(rows)
        if more:
            return f"... and {plural(more, f'more {self.item}')}"
        return ""


@dataclass(frozen=True)
class VerdictBlock:
    """What was found: a headline with its tone ("wrong", "noise" or "few"), and
    sentences.

    `explanation` says how to read the numbers, `subject` comes first in a terminal, and
    `links` lead to parts of a page: the key of the section, its name and what it found.
    """

    tone: str
    headline: str
    sentences: Sequence[str]
    subject: str = "Verdict"
    explanation: str = ""
    places: At = At.EVERYWHERE
    links: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True)
class Figure:
    """A key figure: a name, a number, its interval, what it was before a correction,
    and how to read it.
    """

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
    places: At = At.PRINTED


@dataclass(frozen=True)
class Paragraphs:
    """Sentences, a paragraph each, below an optional heading."""

    texts: Sequence[str]
    heading: str = ""
    places: At = At.EVERYWHERE


@dataclass(frozen=True)
class Items:
    """A list: notes, next steps, limits."""

    title: str
    items: Sequence[str]
    places: At = At.EVERYWHERE


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds away, and opens on paper if they are `printed`;
    elsewhere they just follow.
    """

    summary: str
    blocks: Sequence[Block]
    places: At = At.PAGE
    key: str = ""
    printed: bool = False


@dataclass(frozen=True)
class Beside:
    """Blocks that a wide page shows side by side."""

    blocks: Sequence[Block]
    even: bool = False
    places: At = At.FULL


@dataclass(frozen=True)
class Section:
    """Blocks under a heading: a card of a page, with a link in its menu."""

    key: str
    title: str
    blocks: Sequence[Block]
    link: str = ""
    places: At = At.EVERYWHERE


@dataclass(frozen=True)
class Fragment:
    """A part of a page with a template of its own, for what readers can operate (a
    slider, a picker).

    Its content is made when a page is.
    """

    template: str
    content: Callable[[], Mapping[str, Any]]
    places: At = At.PAGE


Words = VerdictBlock | Figures | Paragraphs | Items | Table
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
        The numbers for machines, which a page contains as well, or a function that
        makes them; None for none.
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


def named_texts(**texts: str) -> list[tuple[str, str]]:
    """What is printed above a document, as far as it was given."""
    return [(name, text) for name, text in texts.items() if text]


def shown_at(blocks: Sequence[Block], place: At) -> list[Block]:
    """The blocks among these that are shown at a place; pictures are for pages."""
    return [block for block in blocks if place in getattr(block, "places", At.PAGE)]


def leaves_at(blocks: Sequence[Block], place: At) -> Iterator[Block]:
    """The blocks that are shown at a place without sections, one after the other."""
    for block in shown_at(blocks, place):
        if isinstance(block, (Section, Details, Beside)):
            yield from leaves_at(block.blocks, place)
        else:
            yield block
