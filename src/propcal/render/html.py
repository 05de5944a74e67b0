"""A document as one HTML file or as a card for notebooks.

Nothing comes from elsewhere, and everything is escaped.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup, escape

from propcal import __version__
from propcal.documents.blocks import (
    At,
    Block,
    Column,
    Document,
    Fragment,
    Section,
    Table,
    leaves_at,
    shown_at,
)
from propcal.documents.charts import LOOKS
from propcal.documents.data import rounded
from propcal.formats.transaction import write_text
from propcal.numbers import IN_NOTEBOOK, ON_PAGE, unbroken
from propcal.render import svg
from propcal.render.cells import KINDS, cell, more

LONG = 150  # rows
DRAWING: tuple[Callable[..., Any], ...] = (  # filters of templates
    svg.forest_bar,
    svg.forest_scale,
    svg.table_axis,
    svg.table_bar,
    svg.scales,
    svg.paths,
    svg.group_lines,
    svg.group_data,
)


@cache
def template_text(name: str) -> str:
    """A template, style sheet or script of this package."""
    return (files("propcal.render") / "templates" / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """All templates; everything that is put in is escaped."""
    jinja = Environment(
        loader=FunctionLoader(template_text),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {
        "nb": _unbroken,
        "on_page": _on_page,
        "on_card": _on_card,
        "card_cell": _card_cell,
        "kind": _kind,
        "fragment": _fragment,
        "cells": _cells,
        "packed": packed,
        "hash": _hash,
        "is_long": _is_long,
        "look": _look,
        "sorts": _has_words,
        "before_menu": _before_menu,
        "after_menu": _after_menu,
    }
    jinja.filters |= {draw.__name__: draw for draw in DRAWING}
    jinja.globals |= {"At": At, "page_style": ON_PAGE}
    return jinja


def _on_page(blocks: Sequence[Block]) -> list[Block]:
    return shown_at(blocks, At.PAGE)


def _on_card(blocks: Sequence[Block]) -> Iterator[Block]:
    return leaves_at(blocks, At.CARD)


def _card_cell(column: Column, row: Mapping[str, Any]) -> str:
    return cell(column, row, IN_NOTEBOOK)


def _kind(block: Block) -> str:
    return type(block).__name__


def _fragment(block: Fragment) -> Markup:
    return filled(block.template, **block.content())


def _has_words(column: Column) -> bool:
    return KINDS[column.kind].words


def html(document: Document) -> str:
    """The page of a document, with a rule that allows no other style and no other
    script.
    """
    data = document.data
    if callable(data):
        data = data()
    content = ""
    if data is not None:
        content = packed(rounded(data))
    script = ""
    if document.script:
        script = template_text(document.script)
    page = filled(
        "document.html",
        document=document,
        style=_style(document),
        script=script,
        content=content,
        version=__version__,
    )
    return str(page)


def _style(document: Document) -> str:
    """The style sheet, with the title and a line at the foot of each sheet of paper."""
    style = template_text("page.css")
    style = style.replace("@@title@@", css_text(document.title))
    return style.replace("@@made@@", document.made or f"propcal {__version__}")


def card(document: Document) -> str:
    """A small card: scoped by a class of its own, and without scripts."""
    return str(filled("card.html", document=document)).rstrip("\n")


def _menu(blocks: Sequence[Block]) -> int:
    """Where the menu goes: before the first section that it links to."""
    for place, block in enumerate(blocks):
        if isinstance(block, Section) and block.link:
            return place
    return len(blocks)


def _before_menu(blocks: Sequence[Block]) -> Sequence[Block]:
    return blocks[: _menu(blocks)]


def _after_menu(blocks: Sequence[Block]) -> Sequence[Block]:
    return blocks[_menu(blocks) :]


def _is_long(document: Document) -> bool:
    """Whether a table is so long that a browser had better draw the page bit by bit."""
    for section in document.blocks:
        if isinstance(section, Section):
            for block in section.blocks:
                if isinstance(block, Table) and len(block.rows) > LONG:
                    return True
    return False


def _cells(
    row: Mapping[str, Any], columns: Sequence[Column]
) -> list[tuple[Column, str, str]]:
    return [
        (column, cell(column, row, ON_PAGE), more(column, row, ON_PAGE))
        for column in columns
    ]


def _look(row: Mapping[str, Any], column: Column) -> str:
    return str(row.get("look", LOOKS.get(row[column.key], "")))


def filled(name: str, **content: Any) -> Markup:
    """A template, filled in."""
    return Markup(environment().get_template(name).render(**content))


def write_page(text: str, path: str | PathLike[str] | None) -> str:
    """Write the page whole or not at all, if a path is given."""
    write_text(text, path)
    return text


def css_text(text: str) -> str:
    r"""A text for a string in a style sheet; whatever is not a plain letter or digit is
    written as a code.

    >>> css_text('A "b"')
    'A\\20 \\22 b\\22 '
    """
    signs = []
    for sign in text:
        if sign.isascii() and sign.isalnum():
            signs.append(sign)
        else:
            signs.append(f"\\{ord(sign):x} ")
    return "".join(signs)


def _unbroken(text: str) -> Markup:
    """A sentence in which no line ends within a number or an option, such as
    --correction.
    """
    escaped = str(escape(unbroken(text)))
    return Markup(
        re.sub(r"--[a-z][a-z-]*", r'<span class="option">\g<0></span>', escaped)
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def packed(content: Any) -> str:
    """JSON, compressed with gzip, as base64: an eighth of the size, and no letter that
    HTML would read.

    >>> unpacked(packed({"a": [1, "</script>"]}))
    {'a': [1, '</script>']}
    """
    text = json.dumps(
        content, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    compressed = gzip.compress(text.encode("utf-8"), 4, mtime=0)
    return base64.b64encode(compressed).decode("ascii")


def unpacked(text: str) -> Any:
    """What `packed` wrote."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
