"""What a monitor found as text for a terminal, and as a small card for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from propcal.monitoring.course import ALARM, ALARM_RAISED
from propcal.numbers import IN_TEXT, known
from propcal.output.notebook import card, card_table
from propcal.output.text_blocks import STYLES, left_text, note_text, text_row, text_table
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.monitoring.course import Course

MOST_GROUPS = 25
TEST_NAMES = {"level": "O/E ratio", "slope": "slope", "cells": "risk ranges"}


def evidence_text(value: Any, bands: Sequence[float] = ()) -> str:
    """Evidence as people read it: two digits, and no more than a million; or the band that it lies in.

    >>> evidence_text(0.4789), evidence_text(23.4), evidence_text(4e9), evidence_text(None)
    ('0.48', '23', '> 1,000,000', '-')
    >>> evidence_text(0.7), evidence_text(3.0)
    ('0.70', '3.0')
    >>> [evidence_text(value, (0, 1, 5, 20)) for value in (0.0, 5.0, 20.0)]
    ['< 1', '5 to 20', '≥ 20']
    """
    if not known(value):
        return IN_TEXT.unknown
    if bands:
        above = [band for band in bands if band > value]
        if not above:
            return f"≥ {value:,.0f}"
        return f"{value:,.0f} to {above[0]:,.0f}" if value else f"< {above[0]:,.0f}"
    if value > 1e6:
        return "> 1,000,000"
    if value >= 10:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def clearest_test(row: Any) -> str:
    """The clearest test of a group; none if no test points to an error."""
    return TEST_NAMES[row["highest_test"]] if row["highest"] > 1 else ""


def promise(course: Course) -> str:
    """What the alarm line promises."""
    right = "had not changed" if course.settings["reference"] else "were right for everyone"
    return (
        f"An alarm is raised at {ALARM:g}. If the score {right}, at most 1 in 20 monitors would raise an "
        "alarm in their whole time, however often one looks. Values below 1 do not point to an error."
    )


def _bands(course: Course) -> Sequence[float]:
    """The bands in which evidence is told, if small counts are protected."""
    return tuple(course.settings.get("evidence_bands", ()))


def course_text(course: Course) -> RenderableType:
    """What was found, to be printed."""
    style = STYLES["wrong" if course.conclusion == ALARM_RAISED else "noise"]
    first, *others = course.sentences
    parts: list[RenderableType] = [Text(plain(first), style=style)]
    parts += [left_text(plain(sentence)) for sentence in others]
    parts += [Text(), *_groups(course), *_period(course)]
    if course.recalibration is not None:
        parts += [
            Text("Would recalibrating help?", style="bold"),
            left_text(plain(course.recalibration.sentence)),
            Text(),
        ]
    return Group(*parts, *note_text(course.notes))


def _groups(course: Course) -> list[RenderableType]:
    headings = ("group", "evidence now", "highest", "clearest test", "alarm raised")
    table = text_table("Evidence over the whole time, clearest first", headings)
    ranked = course.groups.sort_values(["highest", "group"], ascending=[False, True], kind="stable")
    for _, row in ranked.head(MOST_GROUPS).iterrows():
        cells = (evidence_text(row[column], _bands(course)) for column in ("evidence", "highest"))
        text_row(table, row["label"], *cells, clearest_test(row), row["raised"] or "no")
    return [table, left_text(promise(course)), Text()]


def _period(course: Course) -> list[RenderableType]:
    headings = ("group", course.identity.unit, "observed", "predicted", "O/E", "95 % CI", "O/E before")
    title = f"The last period, {course.last}, by itself (ordinary intervals)"
    table = text_table(title, headings)
    for _, row in course.groups.head(MOST_GROUPS).iterrows():
        rates = IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"])
        interval = IN_TEXT.interval(row["observed_expected_low"], row["observed_expected_high"])
        ratio, before = (IN_TEXT.decimal(row[c]) for c in ("observed_expected", "before_observed_expected"))
        text_row(table, row["label"], IN_TEXT.count(row["people"]), *rates, ratio, interval, before)
    said = (
        "O/E: observed over expected events; below 1 the score predicts too high. These intervals hold for "
        "one look at one group: among many groups and periods, some exclude 1 by chance. Rely on the "
        "evidence above."
    )
    return [table, left_text(said), Text()]


def course_card(course: Course) -> str:
    """The same in short, for a notebook."""
    from html import escape

    said = "".join(f"<div>{escape(plain(sentence))}</div>" for sentence in course.sentences)
    ranked = course.groups.sort_values("highest", ascending=False, kind="stable").head(MOST_GROUPS)
    rows = [
        (
            row["label"],
            *(evidence_text(row[column], _bands(course)) for column in ("evidence", "highest")),
            row["raised"] or "no",
        )
        for _, row in ranked.iterrows()
    ]
    return card("Monitor", said, card_table(("group", "evidence now", "highest", "alarm raised"), rows))
