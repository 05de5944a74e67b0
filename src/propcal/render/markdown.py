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
    lines = [
        f"# {escaped(document.title)}",
        f"{about}." if about else "",
        _blocks(document.blocks, 2),
    ]
    return "\n\n".join(filter(None, lines)) + "\n"


def _blocks(blocks: Sequence[Block], level: int) -> str:
    """Blocks with a blank line between their parts."""
    template = environment().overlay(autoescape=False).get_template("document.md")
    content: dict[str, Any] = {
        "shown": lambda some: shown_at(some, At.MARKDOWN),
        "md": escaped,
        "texts": lambda some: [escaped(text) for text in some],
        "figures": _figures,
        "table": _table,
    }
    return re.sub(
        r"\n{3,}", "\n\n", template.render(items=blocks, level=level, **content)
    ).strip()


def _grid(
    headings: Sequence[str], numbers: Sequence[bool], rows: Iterable[Sequence[str]]
) -> str:
    marks = ["---:" if number else "---" for number in numbers]
    lines = [headings, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figures(block: Figures) -> str:
    shown = {"all": "value", "95 % CI": "interval", "before": "before"}
    rows = [
        [label, *(escaped(getattr(figure, name)) for figure in block.figures)]
        for label, name in shown.items()
        if any(getattr(figure, name) for figure in block.figures)
    ]
    headings = ["", *(escaped(figure.name) for figure in block.figures)]
    return _grid(headings, [False, *[True] * len(block.figures)], rows)


def _table(block: Table) -> str:
    columns = block.columns_at(At.MARKDOWN)
    return _grid(
        [escaped(column.heading) for column in columns],
        [not KINDS[column.kind].words for column in columns],
        [
            [_cell(column, row) for column in columns]
            for row in block.rows_at(At.MARKDOWN)
        ],
    )


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    interval = more(column, row, ON_PAGE)
    return escaped(cell(column, row, ON_PAGE) + (f" ({interval})" if interval else ""))


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
    return text.replace("://", "&#58;//").replace(
        "www.", "www&#46;"
    )  # no link where none is meant
