"""Cells: how each kind of column prints a value, and how it is aligned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from propcal.documents.blocks import Column
from propcal.errors import plain
from propcal.numbers import IN_TEXT, Limit, Style, known, risk_range

Row = Mapping[str, Any]


Printer = Callable[[Style, Row, Column], str]


@dataclass(frozen=True)
class Kind:
    """How a kind of column is printed, whether it holds words, which may wrap, and what
    a page adds.
    """

    text: Printer
    words: bool = False
    more: Printer | None = None


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


def _drawn(*_: object) -> str:
    """Nothing: the column is drawn."""
    return ""


def _range(_: Style, row: Row, column: Column) -> str:
    return risk_range(row[column.key])


def _count(style: Style, row: Row, column: Column) -> str:
    return style.count(row[column.key])


def _some(style: Style, row: Row, column: Column) -> str:
    """A count; nothing in the place of 0."""
    value = row[column.key]
    if value == 0:
        return ""
    return style.count(value)


def _percent(style: Style, row: Row, column: Column) -> str:
    return style.percent(row[column.key])


def _share(style: Style, row: Row, column: Column) -> str:
    """A share in whole percents."""
    value = row[column.key]
    if known(value):
        return f"{100 * value:.0f} %"
    return style.unknown


def _at_most(style: Style, row: Row, column: Column) -> str:
    """A share in whole percents, rounded up."""
    value = row[column.key]
    if known(value):
        return f"{ceil(round(100 * value, 6))} %"
    return style.unknown


def _p_value(style: Style, row: Row, column: Column) -> str:
    return style.p_value(row[column.key])


def _decimal(style: Style, row: Row, column: Column, sign: str = "") -> str:
    return style.decimal(row[column.key], _digits(row, column), sign)


def _signed(style: Style, row: Row, column: Column) -> str:
    return _decimal(style, row, column, "+")


def _per_100(style: Style, row: Row, column: Column) -> str:
    value = row[column.key]
    if known(value):
        return style.decimal(100 * value, _digits(row, column))
    return style.unknown


def _interval(style: Style, row: Row, column: Column, sign: str = "") -> str:
    return style.interval(*_ends(row, column), _digits(row, column), sign)


def _signed_interval(style: Style, row: Row, column: Column) -> str:
    return _interval(style, row, column, "+")


def _change(style: Style, row: Row, column: Column) -> str:
    return style.change(*_ends(row, column), _digits(row, column))


def _open_interval(style: Style, row: Row, column: Column) -> str:
    """An interval of which only the lower end may be shown; "at least 0" would say
    nothing.
    """
    low, high = _ends(row, column)
    digits = _digits(row, column)
    if known(low) and not known(high) and round(low, digits) > 0:
        return style.decimal(Limit(low, "at least"), digits)
    return style.interval(low, high, digits)


def _percent_interval(style: Style, row: Row, column: Column, sign: str = "") -> str:
    if column.ends[0] not in row:
        return style.unknown
    return style.interval(*_ends(row, column, 100), _digits(row, column), sign)


def _points_interval(style: Style, row: Row, column: Column) -> str:
    return _percent_interval(style, row, column, "+")


def _evidence(style: Style, row: Row, column: Column) -> str:
    return evidence_text(row[column.key], style)


KINDS = {
    "text": Kind(_words, words=True),
    "finding": Kind(_words, words=True, more=_explained),
    "label": Kind(_words, words=True),  # on one line
    "word": Kind(_words),
    "range": Kind(_range),
    "count": Kind(_count),
    "some": Kind(_some),
    "percent": Kind(_percent),
    "share": Kind(_share),
    "p": Kind(_p_value),
    "decimal": Kind(_decimal),
    "signed": Kind(_signed),
    "interval": Kind(_interval),
    "signed interval": Kind(_signed_interval),
    "change": Kind(_change),
    "open interval": Kind(_open_interval),
    "percent interval": Kind(_percent_interval),
    "points interval": Kind(_points_interval),
    "per 100": Kind(_per_100),
    "per 100 with interval": Kind(_per_100, more=_percent_interval),
    "at most": Kind(_at_most),
    "forest": Kind(_drawn),
    "evidence": Kind(_evidence),
}


def cell(column: Column, row: Row, style: Style) -> str:
    """A value as it is printed; a text in its place stays."""
    if isinstance(row.get(column.key), str) and column.kind != "range":
        return plain(row[column.key])
    return KINDS[column.kind].text(style, row, column)


def more(column: Column, row: Row, style: Style) -> str:
    """What stands below a value, or behind it in parentheses, where there is room."""
    print_more = KINDS[column.kind].more
    if print_more is None:
        return ""
    text = print_more(style, row, column)
    return "" if text == style.unknown else text


def evidence_text(value: Any, style: Style = IN_TEXT) -> str:
    """Evidence as people read it: two digits, and no more than a million.

    >>> evidence_text(0.4789), evidence_text(23.4), evidence_text(4e9)
    ('0.48', '23', '> 1,000,000')
    >>> evidence_text(0.7), evidence_text(3.0), evidence_text(Limit(5, "at least"))
    ('0.70', '3.0', '≥ 5')
    >>> evidence_text(None)
    '-'
    """
    if not known(value):
        return style.unknown
    if isinstance(value, Limit):
        return style.count(value)
    if value > 1e6:
        return "> 1,000,000"
    if value >= 10:
        return f"{float(f'{value:.2g}'):,.0f}"
    if value >= 1:
        return f"{value:.1f}"
    return f"{value:.2f}"
