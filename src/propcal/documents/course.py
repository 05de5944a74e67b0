"""What a monitor found: the verdict, O/E ratios and evidence over time, tables and
methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import ENDS, row_dicts
from propcal.auditing.compare import loss_of_everybody
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH, wilson_interval
from propcal.core.groups import Group
from propcal.documents.blocks import (
    RATIO,
    At,
    Block,
    Details,
    Document,
    Items,
    Paragraphs,
    Section,
    Table,
    VerdictBlock,
    named_texts,
)
from propcal.documents.charts import Axis, Mark, Plot, Plots, axis_around, ratio_axis
from propcal.documents.chosen_groups import named_groups
from propcal.documents.data import course_content
from propcal.documents.sentences import course as wording
from propcal.documents.words import all_words, at_most, table, words
from propcal.monitoring.course import ALARM_RAISED, Course
from propcal.monitoring.e_processes import ALARM
from propcal.monitoring.held_out import RECALIBRATED, Recalibration
from propcal.numbers import known, without_limits
from propcal.reading.periods import span_of

MOST_BANDS = 3  # O/E ratios of groups in one picture, beside that of everybody
MOST_LINES = 6  # colours that can be told apart
MOST_PICTURES = 24
HIGHEST = 1000.0  # evidence that is drawn
EVERYBODY = Group(()).name
TEST_NAMES = {"level": "O/E ratio", "slope": "slope", "cells": "risk ranges"}
DEFINITION = "O/E ratio: observed over expected events. Above 1 the score predicts too low, below 1 too high."


def course_document(course: Course, title: str | None = None) -> Document:
    """The document of what a monitor found."""
    identity = course.identity
    settings = course.settings
    about = named_texts(
        Source=identity.source,
        Score=identity.score or settings["score"],
        Outcome=identity.outcome or settings["outcome"],
        Periods=span_of(settings["periods"]),
    )
    how = [*_methods(course), *course.notes]
    alarm, (verdict, *details) = course.conclusion == ALARM_RAISED, course.sentences
    return Document(
        brand="Monitoring of a risk score",
        title=title or identity.title or f"{identity.subject} over time",
        about=about,
        blocks=[
            VerdictBlock(
                "wrong" if alarm else "noise",
                verdict,
                details,
                "",
                DEFINITION if alarm else "",
            ),
            Section(
                "next",
                "What to do next",
                [Items("", next_steps(course))],
                places=At.PAGE,
            ),
            Section(
                "ratios",
                "O/E ratio over time",
                [ratio_plot(course)],
                "O/E over time",
                At.PAGE,
            ),
            Section("evidence", "Evidence over time", _evidence(course), "Evidence"),
            Section(
                "rates",
                "Observed and predicted rates over time",
                _rates(course),
                "Rates",
                At.PAGE,
            ),
            _last_period(course),
            *(
                []
                if course.recalibration is None
                else _recalibration(course, course.recalibration)
            ),
            Section(
                "methods", "Methods and notes", [Items("", how)], "Methods", At.PAGE
            ),
            Items("Notes", course.notes, places=At.TEXT),
        ],
        data=course_content(course),
    )


def course_sentences(course: Course) -> tuple[str, ...]:
    """At most four sentences, the verdict first."""
    groups = course.groups
    reference = _reference(course)
    if course.claims:
        others = row_dicts(groups[groups["alarm"] & ~groups["named"]])
        return tuple(wording.alarm(course, reference, others))
    span = span_of(course.settings["periods"])
    limits = _right_to_within(groups)
    return tuple(wording.no_alarm(course, span, reference, limits))


def _reference(course: Course) -> str:
    """The periods that others are compared with; nothing if that is perfect
    calibration.
    """
    if course.settings["reference"]:
        return span_of(course.settings["reference"])
    return ""


def _right_to_within(groups: pd.DataFrame) -> list[str]:
    """How large an error is excluded over the whole time: for all people, and where the
    data say least.
    """
    ends = zip(groups["label"], groups["ratio_low"], groups["ratio_high"])
    limits = [
        (max(high - 1, 1 - low), label) for label, low, high in ends if known(high)
    ]
    if not limits or limits[0][0] > 1:
        return []
    (overall, everybody), (most, group) = (
        limits[0],
        max(limits, key=lambda limit: limit[0]),
    )
    least = [f"{at_most(most)} ({group})"] if group != everybody else []
    return [f"{at_most(overall)} for {everybody}", *least]


def recalibration_sentence(recalibration: Recalibration) -> str:
    """Whether it helps: the log loss of everybody before and after, and groups that are
    further off.
    """
    loss = loss_of_everybody(recalibration.comparison)
    worse = recalibration.comparison.worse_groups(RECALIBRATED)
    return wording.recalibration(recalibration, loss, worse)


def next_steps(course: Course) -> list[str]:
    """What to do after looking."""
    return wording.next_steps(course, _reference(course))


def _methods(course: Course) -> list[str]:
    """How evidence, alarms and onsets were computed."""
    standing = list(all_words("course_methods", alarm=ALARM).values())
    kinds = [TEST_NAMES[kind] for kind in course.settings["tests"]]
    return wording.methods(course, _reference(course), kinds, standing)


def _time_axis(course: Course, most: int) -> Axis:
    periods = course.settings["periods"]
    step = -(-len(periods) // most)
    ticks = [(float(i), str(periods[i])) for i in range(0, len(periods), step)]
    return Axis(course.settings["every"], -0.5, len(periods) - 0.5, ticks)


def _over_time(course: Course, group: str, *columns: str) -> list[Any]:
    """Columns of the table of periods for one group, as numbers; limits are unknown."""
    rows = course.periods[course.periods["group"] == group].set_index("period")
    rows = rows.reindex(course.settings["periods"])
    return [np.array(without_limits(rows[column])) for column in columns]


def ratio_plot(course: Course, groups: Any = None) -> Plot:
    """O/E ratios with their bands: of everybody and the groups that the verdict names,
    or those asked for.
    """
    x = _time_axis(course, 7)
    label = dict(zip(course.groups["group"], course.groups["label"]))
    named = list(
        dict.fromkeys(claim.who for claim in course.claims if claim.who != EVERYBODY)
    )
    drawn = [EVERYBODY, *named[:MOST_BANDS]]
    if groups is not None:
        drawn = named_groups(course.groups, groups).names
    bands = {
        name: _over_time(course, name, RATIO, f"{RATIO}_low", f"{RATIO}_high")
        for name in drawn
    }
    values = np.concatenate([band[0] for band in bands.values()])
    ends = np.concatenate([end for band in bands.values() for end in band[1:]])
    y = ratio_axis([*values, *np.clip(ends, 0.5, 2)], "O/E ratio of each period")
    places = np.arange(len(course.settings["periods"]), dtype=np.float64)
    lines = []
    marks = [Mark("line", "guide", [x.low, x.high], [1.0, 1.0])]
    looks = ((f"series-{i}", f"series series-{i}") for i in range(len(drawn)))
    for name, band in bands.items():
        value, low, high = (np.clip(part, y.low, y.high) for part in band)
        look, style = ("all", "all-line") if name == EVERYBODY else next(looks)
        if len(drawn) <= MOST_BANDS + 1:  # more would hide each other
            marks.append(Mark("band", f"{look}-band", places, low, high))
        lines.append(Mark("line", style, places, value, name=label[name]))
    if course.claims:
        first = min(claim.raised for claim in course.claims)
        place = course.settings["periods"].index(first)
        lines.append(
            Mark(
                "line",
                "alarm",
                [place, place],
                [y.low, y.high],
                name=f"first alarm, {first}",
            )
        )
    more = len(named) - MOST_BANDS if groups is None else 0
    gaps = [(label[name], *_gaps(course, name)) for name in drawn]
    about = {"every": course.settings["every"], "exact": course._findings.exact}
    description = words("pictures", "ratios", more=more, gaps=gaps, **about)
    heading = "Named groups and everybody" if named else "Everybody"
    return Plot("ratio", heading, description, x, y, [*marks, *lines], 720, 300)


def _gaps(course: Course, group: str) -> tuple[int, int]:
    """In how many periods with people a group has no O/E ratio, and of how many."""
    rows = course.periods[course.periods["group"] == group]
    missing = np.isnan(without_limits(rows[RATIO])) & (rows["people"].to_numpy() != 0)
    return int(missing.sum()), len(rows)


def _evidence(course: Course) -> list[Block]:
    if (course.groups["highest"] >= 1).any():
        return [evidence_plot(course), _groups(course)]
    below = "The evidence of every group has been below 1 all the time."
    return [Paragraphs([below], places=At.PAGE), _groups(course)]


def evidence_plot(course: Course, groups: Any = None) -> Plot:
    """The adjusted evidence of each group, on a log scale, with the alarm line."""
    x = _time_axis(course, 7)
    order = list(course.ranked["group"])
    if groups is not None:
        order = named_groups(course.groups, groups).names
    marks_of_axis = {
        1: "≤ 1",
        5: "5",
        ALARM: f"{ALARM:g}",
        100: "100",
        HIGHEST: f"≥ {HIGHEST:,.0f}",
    }
    y = Axis("evidence", 1.0, HIGHEST, list(marks_of_axis.items()), log=True)
    best = (
        course.evidence.groupby(["group", "period"], sort=False)["evidence"]
        .max()
        .unstack("period")
    )
    values = np.clip(best[course.settings["periods"]].astype(float), y.low, y.high)
    label = dict(zip(course.groups["group"], course.groups["label"]))
    places = np.arange(values.shape[1], dtype=np.float64)

    def line(name: str, look: str, known_as: str = "") -> Mark:
        return Mark("line", look, places, values.loc[name].to_numpy(), name=known_as)

    marks = [line(name, "all-thin") for name in reversed(order[MOST_LINES:])]
    looks = iter(f"series series-{i}" for i in range(MOST_LINES))
    for name in order[:MOST_LINES]:
        marks.append(
            line(name, "all-line" if name == EVERYBODY else next(looks), label[name])
        )
    marks.append(
        Mark("line", "alarm", [x.low, x.high], [ALARM, ALARM], name="alarm line")
    )
    description = words("pictures", "evidence", alarm=ALARM)
    return Plot(
        "evidence-picture", "Evidence of each group", description, x, y, marks, 720, 300
    )


COURSE_CHARTS: dict[str, Callable[..., Plot]] = {
    "evidence": evidence_plot,
    "ratios": ratio_plot,
}


def _groups(course: Course) -> Table:
    rows = row_dicts(course.ranked)
    for row in rows:
        row |= {
            "look": "high" if row["named"] else "",
            "raised": row["raised"] or "no alarm",
        }
        row |= {"test": TEST_NAMES[row["highest_test"]] if row["highest"] > 1 else ""}
        row |= {"finding": wording.what_is_left(row)}
    reference = course.settings["reference"]
    return table(
        "evidence",
        rows,
        "groups",
        claims=course.claims,
        reference=reference,
        alarm=ALARM,
    )


def _rates(course: Course) -> list[Block]:
    """Observed and predicted rates of each group, the named ones first."""
    known = course.periods[np.isfinite(without_limits(course.periods["outcome_rate"]))]
    shown = [name for name in course.ranked["group"] if name in set(known["group"])][
        :MOST_PICTURES
    ]
    more = len(course.groups) - len(shown)
    below = words(
        "tables", "rates_over_time", more=more, gaps=len(known) < len(course.periods)
    )
    periods = table("periods", row_dicts(course.periods), unit=course.identity.unit)
    plots = Plots([_rate_plot(course, group, i) for i, group in enumerate(shown)])
    return [Paragraphs([below]), plots, Details(periods.title, [periods])]


def _rate_plot(course: Course, group: str, i: int) -> Plot:
    """Observed rate with its 95 % band, and the predicted rate, of one group."""
    people, observed, predicted = _over_time(
        course, group, "people", "outcome_rate", "mean_score"
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = wilson_interval(observed, people, NORMAL_REACH)
    places = np.arange(len(people), dtype=np.float64)
    marks = [
        Mark("band", "all-band", places, low, high),
        Mark("line", "all-line", places, observed, name="observed, with 95 % band"),
        Mark("line", "one-line", places, predicted, name="predicted"),
    ]
    label = str(course.groups["label"][course.groups["group"] == group].iloc[0])
    y = axis_around(100 * np.concatenate([low, high, predicted]), "rate", most=4)
    ticks = [(tick / 100, f"{text} %") for tick, text in y.ticks if 0 <= tick <= 100]
    scale = Axis("", max(y.low, 0) / 100, min(y.high, 100) / 100, ticks)
    rates = "observed rate (solid, with 95 % band) and predicted rate (dashed) in each period"
    return Plot(
        f"rates-{i}",
        label,
        f"{label}: {rates}.",
        _time_axis(course, 4),
        scale,
        marks,
        360,
        200,
    )


def _last_period(course: Course) -> Section:
    """The last period by itself, and the one before."""
    last = course.last
    before = course.settings["periods"][-2:-1]
    texts = {"last": last, "before": "".join(before), "unit": course.identity.unit}
    period = table("last", row_dicts(course.ranked), **texts)
    heading = " compared with ".join([last, *before])
    return Section("period", heading, [period], "The last period", At.TEXT | At.PAGE)


def _recalibration(course: Course, recalibration: Recalibration) -> list[Block]:
    """Whether recalibrating would help, and what it does to each group."""
    named = recalibration.comparison.audits[RECALIBRATED].labels
    found = recalibration.comparison.differences
    label = named | dict(zip(course.groups["group"], course.groups["label"]))
    loss = {
        row["group"]: row for row in row_dicts(found[found["measure"] == "log_loss"])
    }
    rows = [
        {
            "label": label.get(row["group"], row["group"]),
            "before": row["base"],
            "after": row["value"],
        }
        | {
            f"change{end}": loss[row["group"]][name]
            for end, name in zip(ENDS, ("difference", "low", "high"))
        }
        for row in row_dicts(
            found[(found["measure"] == RATIO) & found["group"].isin(loss)]
        )
    ]
    heading = "Would recalibrating help?"
    blocks: list[Block] = [
        Paragraphs([recalibration.sentence]),
        table("recalibrated", rows, judged=span_of(recalibration.judged)),
    ]
    return [
        Paragraphs([recalibration.sentence], heading, At.TEXT),
        Section("recalibration", heading, blocks, "Recalibration", At.PAGE),
    ]
