"""A document as text for a terminal; readable at 80 columns and without colour.

Names are the users' data: shown as they are, never read as markup, and without
characters that would steer the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from textwrap import fill, wrap
from typing import Any

from rich.console import (
    Console,
    ConsoleOptions,
    Group,
    JustifyMethod,
    RenderableType,
    RenderResult,
)
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from propcal.documents.blocks import (
    At,
    Column,
    Document,
    Items,
    Paragraphs,
    Table,
    VerdictBlock,
    leaves_at,
)
from propcal.errors import plain
from propcal.numbers import IN_TEXT, unbroken
from propcal.render.cells import KINDS, cell

NARROW = (
    16  # letters that a column of words has at least, unless all its texts are shorter
)
APART = 2  # spaces between columns
STYLES = {"wrong": "bold red", "noise": "bold green"}  # by the tone of a verdict


def text(document: Document, *, full: bool = True) -> RenderableType:
    """A document, to be printed in full or in brief."""
    place = At.TEXT if full else At.BRIEF
    shown = [
        block for block in leaves_at(document.blocks, place) if type(block) in PARTS
    ]
    return Group(
        *chain.from_iterable(PARTS[type(block)](block, place) for block in shown)
    )


def as_text(shown: RenderableType, width: int = 100) -> str:
    """What would be printed, without colours."""
    written = StringIO()
    Console(width=width, file=written, no_color=True, highlight=False).print(shown)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def _verdict(block: VerdictBlock, _: At) -> Iterable[RenderableType]:
    subject = f"{block.subject}: " if block.subject else ""
    yield Text(
        plain(f"{subject}{block.headline}"), style=STYLES.get(block.tone, "bold")
    )
    yield from [indented(" ".join(block.sentences))] if block.sentences else []
    yield Text()


def _paragraphs(block: Paragraphs, _: At) -> Iterable[RenderableType]:
    if block.heading:
        yield Text(plain(block.heading), style="bold")
    yield from map(indented, block.texts)
    yield Text()


def indented(sentences: str) -> RenderableType:
    """Sentences, set in a little; no line ends within a number such as 95 %."""
    return _Sentences(unbroken(plain(sentences)))


@dataclass(frozen=True)
class _Sentences:
    words: str

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        for line in wrap(
            self.words, max(options.max_width - 2, 1), break_on_hyphens=False
        ):
            yield Text("  " + line.replace("\u00a0", " "))


def _items(block: Items, _: At) -> Iterable[RenderableType]:
    """A list with hanging indents, each item once."""
    items = list(dict.fromkeys(map(plain, block.items)))
    if items:
        grid = Grid(box=None, show_header=False, pad_edge=False)
        for item in items:
            grid.add_row(Text("-"), Text(item))
        yield Text(plain(block.title), style="bold")
        yield Padding(grid, (0, 0, 1, 0))


def _table(block: Table, place: At) -> Iterable[RenderableType]:
    rows = block.rows_at(place)
    yield _Grid(block, block.columns_at(place), rows)
    if more := block.more_than(rows):
        yield indented(
            f"{more}; {'--full shows more' if place == At.BRIEF else 'JSON has them all'}."
        )
    meanings = dict.fromkeys(
        block.legend[row["mark"]] for row in rows if row.get("mark") in block.legend
    )
    notes = " ".join([block.note, *meanings]).strip()
    yield from [indented(notes)] if notes else []
    yield Text()


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Letters for columns of words, which end lines within short texts, or within
    words, only if they must.

    >>> _widths([["race Black/African American", "F"], ["too high", "could be chance"]], 34)
    [19, 15]
    """
    whole = [max(map(len, texts)) for texts in columns]
    least = [
        max(size for text in texts for size in _least(text, NARROW))
        for texts in columns
    ]
    if sum(least) > room:
        least = [
            max(size for text in texts for size in _least(text, 0)) for texts in columns
        ]
    if sum(least) > room:
        least = [max(room // len(columns), 1)] * len(columns)
    lacking = [max(size - some, 0) for size, some in zip(whole, least)]
    share = min((room - sum(least)) / max(sum(lacking), 1), 1.0)
    return [some + int(more * share) for some, more in zip(least, lacking)]


def _least(text: str, short: int) -> Iterable[int]:
    """Letters that must stand on one line: those of a short text, or of each word."""
    if len(text) <= short:
        return [len(text)]
    return map(len, text.split())


@dataclass(frozen=True)
class _Grid:
    """A table in which words fold and numbers stand to the right; headings fold if they
    are too wide.
    """

    table: Table
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        grid = Grid(
            box=None,
            pad_edge=False,
            padding=(0, APART, 0, 0),
            title=plain(self.table.title),
        )
        grid.title_style = "bold"
        grid.header_style = "underline"
        grid.title_justify = "left"
        lines = [
            [plain(cell(column, row, IN_TEXT)) for column in self.columns]
            for row in self.rows
        ]
        headings = [column.heading for column in self.columns]
        longest = [max(map(len, texts), default=0) for texts in zip(*lines)] or [
            0
        ] * len(headings)
        words = [KINDS[column.kind].words for column in self.columns]
        sizes = [max(size) for size in zip(map(len, headings), longest)]
        needed = sum(
            APART + (min(NARROW, size) if word else size)
            for size, word in zip(sizes, words)
        )
        for i in range(len(headings)):
            if needed > options.max_width and not words[i]:
                sizes[i] = max(longest[i], *map(len, headings[i].split()))
                headings[i] = fill(headings[i], sizes[i])
        room = options.max_width - sum(
            APART + (0 if word else size) for size, word in zip(sizes, words)
        )
        whole = [
            [text for text, word in zip(line, words) if word]
            for line in [headings, *lines]
        ]
        widths = iter(_widths(list(zip(*whole)), room + APART))
        for heading, size, word in zip(headings, sizes, words):
            side: JustifyMethod = "left" if word else "right"
            width = next(widths) if word else size
            grid.add_column(
                heading, justify=side, overflow="fold", no_wrap=not word, width=width
            )
        for line in lines:
            grid.add_row(*map(Text, line))
        yield grid


PARTS: dict[type, Callable[[Any, At], Iterable[RenderableType]]] = {
    VerdictBlock: _verdict,
    Table: _table,
    Paragraphs: _paragraphs,
    Items: _items,
}
