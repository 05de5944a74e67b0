"""A document as a small card for notebooks: scoped by a class of its own, no scripts, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from propcal.documents.blocks import (
    CARD,
    Beside,
    Block,
    Column,
    Details,
    Document,
    Figures,
    Items,
    Paragraphs,
    Section,
    Table,
    Verdict,
    shown_at,
)
from propcal.documents.charts import Axis
from propcal.numbers import IN_NOTEBOOK, plural
from propcal.render.cells import KINDS, cell
from propcal.render.svg import table_axis, table_bar

STYLE = (
    "<style>.propcal-card{font-family:system-ui,sans-serif;font-size:13px;line-height:1.4;max-width:72em}"
    ".propcal-card table{border-collapse:collapse;margin:.4em 0;font-size:inherit}"
    ".propcal-card caption{text-align:left;font-weight:600}"
    ".propcal-card th,.propcal-card td{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}"
    ".propcal-card th{font-weight:600;border-bottom:1px solid currentColor}"
    ".propcal-card .propcal-number{text-align:right;font-variant-numeric:tabular-nums}"
    ".propcal-card td.propcal-number{white-space:nowrap}"
    ".propcal-card .propcal-verdict{border-left:.45em solid #767b83;background:rgba(118,123,131,.12);"
    "border-radius:.4em;padding:.5em .9em;margin:.3em 0;font-size:14px}"
    ".propcal-card .propcal-wrong{border-color:#c2500f;background:rgba(194,80,15,.12)}"
    ".propcal-card .propcal-noise{border-color:#2f7d50;background:rgba(47,125,80,.12)}"
    ".propcal-card .propcal-figures{display:flex;flex-wrap:wrap;gap:.4em 1.6em;margin:.5em 0}"
    ".propcal-card svg{width:9em;height:1.3em;vertical-align:middle}"
    ".propcal-card .propcal-figures b{display:block;font-size:17px;font-variant-numeric:tabular-nums}</style>"
)
INKS = {"high": "#c2500f", "low": "#1f6fb5"}  # as on the page, and readable on light and dark


def card(document: Document) -> str:
    """The card of a document."""
    body = "".join(_parts(document.blocks))
    return f'{STYLE}<div class="propcal-card"><strong>{escape(document.title)}</strong>{body}</div>'


def _parts(blocks: Sequence[Block]) -> Iterable[str]:
    for block in shown_at(blocks, CARD):
        if isinstance(block, Verdict):
            words = escape(" ".join(block.sentences))
            yield (
                f'<div class="propcal-verdict propcal-{block.tone}"><strong>{escape(block.headline)}</strong>'
                f"<br>{words}</div>"
            )
        elif isinstance(block, Figures):
            yield _figures(block)
        elif isinstance(block, Paragraphs):
            yield from (f"<div>{escape(text)}</div>" for text in [block.heading, *block.texts] if text)
        elif isinstance(block, Items) and block.items:
            items = "".join(f"<li>{escape(item)}</li>" for item in dict.fromkeys(block.items))
            yield f"<div>{escape(block.title)}</div><ul>{items}</ul>"
        elif isinstance(block, Table):
            yield _table(block)
        elif isinstance(block, (Section, Details, Beside)):
            yield from _parts(block.blocks)


def _figures(block: Figures) -> str:
    cards = "".join(
        f"<span>{escape(figure.name)}<b>{escape(figure.value)}</b>"
        f"{escape(f'95 % CI {figure.interval}' if figure.interval else figure.meaning)}</span>"
        for figure in block.figures
    )
    return f'<div class="propcal-figures">{cards}</div>'


def _table(block: Table) -> str:
    columns, rows, axis = block.columns_at(CARD), block.rows_at(CARD), table_axis(block)
    look = ["" if KINDS[column.kind].words else ' class="propcal-number"' for column in columns]
    head = "".join(f"<th{own}>{escape(column.heading)}</th>" for own, column in zip(look, columns))
    lines = "".join(
        "<tr>"
        + "".join(f"<td{own}>{_cell(column, row, axis)}</td>" for own, column in zip(look, columns))
        + "</tr>"
        for row in rows
    )
    more = len(block.rows) - len(rows)
    after = f"<div>... and {plural(more, f'more {block.item}')}</div>" if more else ""
    return (
        f"<table><caption>{escape(block.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table>{after}"
    )


def _cell(column: Column, row: Mapping[str, Any], axis: Axis) -> str:
    if column.kind != "forest":
        return escape(cell(column, row, IN_NOTEBOOK))
    bar = table_bar(column, row, axis)
    if not bar.low:
        return ""
    ink = INKS.get(row.get("look", ""), "#767b83")
    point = f'<circle cx="{bar.point}" cy="10" r="4.5" fill="{ink}"/>' if bar.point else ""
    return (
        '<svg viewBox="0 0 200 20" aria-hidden="true"><path d="M100,0V20" stroke="#767b83" '
        f'stroke-dasharray="2 2"/><path d="M{bar.low},10H{bar.high}" stroke="{ink}" stroke-width="2"/>{point}'
        "</svg>"
    )
