"""A document as text for a terminal; readable at 80 columns and without colour.

Names are the users' data: shown as they are, never read as markup, and without
characters that would steer the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
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

# letters that a column of words has at least, unless all its texts are shorter
NARROW = 16
APART = 2  # spaces between columns
STYLES = {"wrong": "bold red", "noise": "bold green"}  # by the tone of a verdict


def text(document: Document, *, full: bool = True) -> RenderableType:
    """A document, to be printed in full or in brief."""
    place = At.TEXT if full else At.BRIEF
    parts: list[RenderableType] = []
    for block in leaves_at(document.blocks, place):
        if type(block) in PARTS:
            parts += PARTS[type(block)](block, place)
    return Group(*parts)


def as_text(shown: RenderableType, width: int = 100) -> str:
    """What would be printed, without colours."""
    written = StringIO()
    Console(width=width, file=written, no_color=True, highlight=False).print(shown)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def _verdict(block: VerdictBlock, _: At) -> Iterable[RenderableType]:
    headline = block.headline
    if block.subject:
        headline = f"{block.subject}: {headline}"
    yield Text(plain(headline), style=STYLES.get(block.tone, "bold"))
    if block.sentences:
        yield indented(" ".join(block.sentences))
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
        width = max(options.max_width - 2, 1)
        for line in wrap(self.words, width, break_on_hyphens=False):
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
    more = block.more_than(rows)
    if more:
        where = "JSON has them all"
        if place == At.BRIEF:
            where = "--full shows more"
        yield indented(f"{more}; {where}.")
    meanings: dict[str, None] = {}
    for row in rows:
        mark = row.get("mark", "")
        if mark in block.legend:
            meanings[block.legend[mark]] = None

    notes = " ".join([block.note, *meanings]).strip()
    if notes:
        yield indented(notes)
    yield Text()


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Letters for columns of words, which end lines within short texts, or within
    words, only if they must.

    >>> groups = ["race Black/African American", "F"]
    >>> _widths([groups, ["too high", "could be chance"]], 34)
    [19, 15]
    """
    whole = [max(map(len, texts)) for texts in columns]
    least = [_least(texts, NARROW) for texts in columns]
    if sum(least) > room:
        least = [_least(texts, 0) for texts in columns]
    if sum(least) > room:
        least = [max(room // len(columns), 1)] * len(columns)
    lacking = [max(size - some, 0) for size, some in zip(whole, least)]
    share = min((room - sum(least)) / max(sum(lacking), 1), 1.0)
    return [some + int(more * share) for some, more in zip(least, lacking)]


def _least(texts: Sequence[str], short: int) -> int:
    """Letters that must stand on one line: those of each short text, and of each
    word.
    """
    longest = 0
    for text in texts:
        parts = [text]
        if len(text) > short:
            parts = text.split()
        longest = max([longest, *map(len, parts)])
    return longest


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
        parts = [self._part(column) for column in self.columns]
        _set_widths(parts, options.max_width)
        title = plain(self.table.title)
        grid = Grid(box=None, pad_edge=False, padding=(0, APART, 0, 0), title=title)
        grid.title_style = "bold"
        grid.header_style = "underline"
        grid.title_justify = "left"
        for part in parts:
            side: JustifyMethod = "left" if part.words else "right"
            grid.add_column(
                part.heading,
                justify=side,
                overflow="fold",
                no_wrap=not part.words,
                width=part.width,
            )
        for line in zip(*(part.texts for part in parts)):
            grid.add_row(*map(Text, line))
        yield grid

    def _part(self, column: Column) -> _GridColumn:
        texts = [plain(cell(column, row, IN_TEXT)) for row in self.rows]
        words = KINDS[column.kind].words
        return _GridColumn(column.heading, texts, words)


@dataclass
class _GridColumn:
    """A column in print: its heading, its texts and its width in letters."""

    heading: str
    texts: list[str]
    words: bool
    width: int = 0

    @property
    def longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @property
    def whole(self) -> int:
        """Letters of the heading or the longest text."""
        return max(len(self.heading), self.longest)

    def fold_heading(self) -> None:
        """Make a column of numbers as narrow as its numbers and words allow."""
        self.width = max([self.longest, *map(len, self.heading.split())])
        self.heading = fill(self.heading, self.width)


def _set_widths(columns: Sequence[_GridColumn], room: int) -> None:
    """Numbers take what they need, and columns of words share the rest."""
    words = []
    numbers = []
    for column in columns:
        if column.words:
            words.append(column)
        else:
            numbers.append(column)
            column.width = column.whole
    needed = APART * len(columns)
    for column in columns:
        needed += min(NARROW, column.whole) if column.words else column.width
    if needed > room:
        for column in numbers:
            column.fold_heading()

    left = room - APART * (len(columns) - 1)
    left -= sum(column.width for column in numbers)
    widths = _widths([[column.heading, *column.texts] for column in words], left)
    for column, width in zip(words, widths):
        column.width = width


PARTS: dict[type, Callable[[Any, At], Iterable[RenderableType]]] = {
    VerdictBlock: _verdict,
    Table: _table,
    Paragraphs: _paragraphs,
    Items: _items,
}
