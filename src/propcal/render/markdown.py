"""A document as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from propcal.documents.blocks import (
    At,
    Block,
    Column,
    Document,
    Figures,
    Table,
    shown_at,
)
from propcal.errors import plain
from propcal.numbers import ON_PAGE
from propcal.render.cells import KINDS, cell, more
from propcal.render.html import environment


def markdown(document: Document) -> str:
    """The whole document."""
    about = ". ".join(f"{name}: {escaped(text)}" for name, text in document.about)
    parts = [f"# {escaped(document.title)}"]
    if about:
        parts.append(f"{about}.")
    blocks = _blocks(document.blocks, 2)
    if blocks:
        parts.append(blocks)
    return "\n\n".join(parts) + "\n"


def _blocks(blocks: Sequence[Block], level: int) -> str:
    """Blocks with a blank line between their parts."""
    template = environment().overlay(autoescape=False).get_template("document.md")
    text = template.render(
        items=blocks,
        level=level,
        shown=lambda some: shown_at(some, At.MARKDOWN),
        md=escaped,
        texts=lambda some: [escaped(one) for one in some],
        figures=_figures,
        table=_table,
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _grid(
    headings: Sequence[str], numbers: Sequence[bool], rows: Iterable[Sequence[str]]
) -> str:
    """A table; columns of numbers are set to the right."""
    sides = {True: "---:", False: "---"}
    marks = [sides[number] for number in numbers]
    lines = [headings, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figures(block: Figures) -> str:
    """Key figures as columns, with a row for each of their parts that any has."""
    headings = []
    values = []
    intervals = []
    before = []
    for figure in block.figures:
        headings.append(escaped(figure.name))
        values.append(figure.value)
        intervals.append(figure.interval)
        before.append(figure.before)

    rows = []
    for label, texts in (("all", values), ("95 % CI", intervals), ("before", before)):
        if any(texts):
            rows.append([label, *map(escaped, texts)])
    numbers = [True] * len(headings)
    return _grid(["", *headings], [False, *numbers], rows)


def _table(block: Table) -> str:
    columns = block.columns_at(At.MARKDOWN)
    headings = []
    numbers = []
    for column in columns:
        headings.append(escaped(column.heading))
        numbers.append(not KINDS[column.kind].words)
    rows = []
    for row in block.rows_at(At.MARKDOWN):
        rows.append([_cell(column, row) for column in columns])
    return _grid(headings, numbers, rows)


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    text = cell(column, row, ON_PAGE)
    interval = more(column, row, ON_PAGE)
    if interval:
        text = f"{text} ({interval})"
    return escaped(text)


def escaped(value: Any) -> str:
    r"""Users' text as Markdown shows it letter by letter, on one line; what is `Markup`
    already stays.

    >>> print(escaped("a|b *c* <script>"))
    a\|b \*c\* &lt;script&gt;
    """
    if isinstance(value, Markup):
        return str(value)
    text = plain(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", text)
    # no link where none is meant
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")
