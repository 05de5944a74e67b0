"""Cells: how each kind of column prints a value; the one registry of digits and
alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from propcal.documents.blocks import Column
from propcal.errors import plain
from propcal.numbers import IN_TEXT, Limit, Style, known, risk_range

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """How a kind of column is printed, whether it holds words, which may wrap, and what
    a page adds.
    """

    text: Callable[[Style, Row, Column], str]
    words: bool = False
    more: Callable[[Style, Row, Column], str] | None = None


def _of(method: str) -> Kind:
    """A kind that a method of the formatter prints."""
    return Kind(lambda style, row, column: getattr(style, method)(row[column.key]))


def _ends(row: Row, column: Column, factor: float = 1.0) -> tuple[Any, Any]:
    low, high = (row[end] for end in column.ends)
    if factor != 1.0 and known(low) and known(high):
        return (factor * low, factor * high)
    return (low, high)


def _digits(row: Row, column: Column) -> int:
    """The digits of the row, whose measure may have its own, or of the column."""
    return int(row.get("digits", column.digits))


def _words(_: Style, row: Row, column: Column) -> str:
    return plain(row[column.key])


def _explained(_: Style, row: Row, __: Column) -> str:
    """The errors that account for a finding, or how a group compares with the
    others.
    """
    if row.get("compared"):
        return f"O/E {row['compared']} than the errors of everybody else explain"
    if row.get("explained"):
        return f"explained by the errors of {plain(row['explained'])}"
    return ""


def _if_known(text: Callable[[float], str]) -> Callable[[Style, Row, Column], str]:
    """What a function says of a value that is known."""
    return lambda style, row, column: (
        text(row[column.key]) if known(row[column.key]) else style.unknown
    )


def _per_100(style: Style, row: Row, column: Column) -> str:
    value = row[column.key]
    if known(value):
        return style.decimal(100 * value, _digits(row, column))
    return style.unknown


def _percent_interval(style: Style, row: Row, column: Column, sign: str = "") -> str:
    if column.ends[0] not in row:
        return style.unknown
    return style.interval(*_ends(row, column, 100), _digits(row, column), sign)


def _open_interval(style: Style, row: Row, column: Column) -> str:
    """An interval of which only the lower end may be shown; "at least 0" would say
    nothing.
    """
    low, high = _ends(row, column)
    if known(low) and not known(high) and round(low, _digits(row, column)) > 0:
        return style.decimal(Limit(low, "at least"), _digits(row, column))
    return style.interval(low, high, _digits(row, column))


KINDS = {
    "text": Kind(_words, words=True),
    "finding": Kind(_words, words=True, more=_explained),
    "label": Kind(_words, words=True),  # on one line
    "word": Kind(_words),
    "range": Kind(lambda _, row, column: risk_range(row[column.key])),
    "count": _of("count"),
    "some": Kind(
        lambda style, row, column: (
            style.count(row[column.key]) if row[column.key] != 0 else ""
        )
    ),
    "percent": _of("percent"),
    "share": Kind(_if_known(lambda value: f"{100 * value:.0f} %")),
    "p": _of("p_value"),
    "decimal": Kind(
        lambda style, row, column: style.decimal(row[column.key], _digits(row, column))
    ),
    "signed": Kind(
        lambda style, row, column: style.decimal(
            row[column.key], _digits(row, column), "+"
        )
    ),
    "interval": Kind(
        lambda style, row, column: style.interval(
            *_ends(row, column), _digits(row, column)
        )
    ),
    "signed interval": Kind(
        lambda style, row, column: style.interval(
            *_ends(row, column), _digits(row, column), "+"
        )
    ),
    "change": Kind(
        lambda style, row, column: style.change(
            *_ends(row, column), _digits(row, column)
        )
    ),
    "open interval": Kind(_open_interval),
    "percent interval": Kind(_percent_interval),
    "points interval": Kind(
        lambda style, row, column: _percent_interval(style, row, column, "+")
    ),
    "per 100": Kind(_per_100),
    "per 100 with interval": Kind(_per_100, more=_percent_interval),
    "at most": Kind(_if_known(lambda value: f"{ceil(round(100 * value, 6))} %")),
    "forest": Kind(lambda *_: ""),  # drawn, not printed
    "evidence": Kind(lambda style, row, column: evidence_text(row[column.key], style)),
}


def cell(column: Column, row: Row, style: Style) -> str:
    """A value as it is printed; a text in its place stays."""
    if isinstance(row.get(column.key), str) and column.kind != "range":
        return plain(row[column.key])
    return KINDS[column.kind].text(style, row, column)


def more(column: Column, row: Row, style: Style) -> str:
    """What stands below a value, or behind it in parentheses, where there is room."""
    print_more = KINDS[column.kind].more
    text = "" if print_more is None else print_more(style, row, column)
    return "" if text == style.unknown else text


def evidence_text(value: Any, style: Style = IN_TEXT) -> str:
    """Evidence as people read it: two digits, and no more than a million.

    >>> evidence_text(0.4789), evidence_text(23.4), evidence_text(4e9), evidence_text(None)
    ('0.48', '23', '> 1,000,000', '-')
    >>> evidence_text(0.7), evidence_text(3.0), evidence_text(Limit(5, "at least"))
    ('0.70', '3.0', '≥ 5')
    """
    if not known(value):
        return style.unknown
    if isinstance(value, Limit):
        return style.count(value)
    if value > 1e6:
        return "> 1,000,000"
    if value >= 10:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"
