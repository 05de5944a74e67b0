"""What a monitor found: verdict, O/E ratios and evidence over time, methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import loss_of_everybody
from propcal.auditing.statistics.rate_intervals import NORMAL_REACH, wilson_interval
from propcal.core.grid import FloatArray
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
MOST_TICKS = 7  # of a wide picture
MOST_TICKS_NARROW = 4
HIGHEST = 1000.0  # evidence that is drawn
EVERYBODY = Group(()).name
TEST_NAMES = {"level": "O/E ratio", "slope": "slope", "cells": "risk ranges"}
DEFINITION = (
    "O/E ratio: observed over expected events. Above 1 the score predicts too low, "
    "below 1 too high."
)


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
    steps = Items("", next_steps(course))
    rates = "Observed and predicted rates over time"
    methods = Items("", [*_methods(course), *course.notes])
    blocks = [
        _verdict(course),
        Section("next", "What to do next", [steps], places=At.PAGE),
        _ratios(course),
        Section("evidence", "Evidence over time", _evidence(course), "Evidence"),
        Section("rates", rates, _rates(course), "Rates", At.PAGE),
        _last_period(course),
        *_recalibration(course),
        Section("methods", "Methods and notes", [methods], "Methods", At.PAGE),
        Items("Notes", course.notes, places=At.TEXT),
    ]
    return Document(
        brand="Monitoring of a risk score",
        title=title or identity.title or f"{identity.subject} over time",
        about=about,
        blocks=blocks,
        data=course_content(course),
    )


def _verdict(course: Course) -> VerdictBlock:
    headline, *details = course.sentences
    if course.conclusion == ALARM_RAISED:
        return VerdictBlock("wrong", headline, details, "", DEFINITION)
    return VerdictBlock("noise", headline, details, "")


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
    limits = []
    rows = row_dicts(groups)
    for row in rows:
        low = row["ratio_low"]
        high = row["ratio_high"]
        if known(high):
            limits.append((max(high - 1, 1 - low), row["label"]))
    if not known(rows[0]["ratio_high"]) or limits[0][0] > 1:
        return []

    overall, everybody = limits[0]
    largest, group = max(limits, key=lambda limit: limit[0])
    texts = [f"{at_most(overall)} for {everybody}"]
    if group != everybody:
        texts.append(f"{at_most(largest)} ({group})")
    return texts


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


def _labels(course: Course) -> dict[str, str]:
    return dict(zip(course.groups["group"], course.groups["label"]))


def _time_axis(course: Course, most_ticks: int) -> Axis:
    periods = course.settings["periods"]
    step = -(-len(periods) // most_ticks)
    ticks = [(float(i), str(periods[i])) for i in range(0, len(periods), step)]
    return Axis(course.settings["every"], -0.5, len(periods) - 0.5, ticks)


def _over_time(course: Course, group: str, *columns: str) -> list[FloatArray]:
    """Columns of the table of periods for one group, as numbers; limits are unknown."""
    rows = course.periods[course.periods["group"] == group].set_index("period")
    rows = rows.reindex(course.settings["periods"])
    return [np.array(without_limits(rows[column])) for column in columns]


def _looks(groups: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Groups with the looks of their line and band; everybody is black."""
    series = 0
    for name in groups:
        if name == EVERYBODY:
            yield name, "all-line", "all-band"
        else:
            yield name, f"series series-{series}", f"series-{series}-band"
            series += 1


def _ratios(course: Course) -> Section:
    plot = ratio_plot(course)
    title = "O/E ratio over time"
    return Section("ratios", title, [plot], "O/E over time", At.PAGE)


def ratio_plot(course: Course, groups: Any = None) -> Plot:
    """O/E ratios with their bands: of everybody and the groups that the verdict names,
    or those asked for.
    """
    claimed = dict.fromkeys(claim.who for claim in course.claims)
    claimed.pop(EVERYBODY, None)
    named = list(claimed)
    if groups is None:
        drawn = [EVERYBODY, *named[:MOST_BANDS]]
        more = len(named) - MOST_BANDS
    else:
        drawn = named_groups(course.groups, groups).names
        more = 0

    bands = {
        name: _over_time(course, name, RATIO, f"{RATIO}_low", f"{RATIO}_high")
        for name in drawn
    }
    x = _time_axis(course, MOST_TICKS)
    y = _axis_of_ratios(list(bands.values()))
    marks = [
        Mark("line", "guide", [x.low, x.high], [1.0, 1.0]),
        *_lines_and_bands(course, bands, y),
    ]
    if course.claims:
        marks.append(_first_alarm(course, y))

    labels = _labels(course)
    gaps = [(labels[name], *_gaps(course, name)) for name in drawn]
    about = {"every": course.settings["every"], "exact": course._findings.exact}
    description = words("pictures", "ratios", more=more, gaps=gaps, **about)
    heading = "Named groups and everybody" if named else "Everybody"
    return Plot("ratio", heading, description, x, y, marks, 720, 300)


def _axis_of_ratios(bands: Sequence[Sequence[FloatArray]]) -> Axis:
    """An axis that holds all O/E ratios, and their bands between 0.5 and 2."""
    values = np.concatenate([value for value, _, _ in bands])
    ends = np.concatenate([end for _, low, high in bands for end in (low, high)])
    shown = [*values, *np.clip(ends, 0.5, 2)]
    return ratio_axis(shown, "O/E ratio of each period")


def _lines_and_bands(
    course: Course, bands: dict[str, list[FloatArray]], y: Axis
) -> list[Mark]:
    """A line for each group, above the bands; more than a few bands would hide each
    other.
    """
    labels = _labels(course)
    places = np.arange(len(course.settings["periods"]), dtype=np.float64)
    areas = []
    lines = []
    for name, line_look, band_look in _looks(list(bands)):
        value, low, high = (np.clip(part, y.low, y.high) for part in bands[name])
        areas.append(Mark("band", band_look, places, low, high))
        lines.append(Mark("line", line_look, places, value, name=labels[name]))
    if len(bands) > MOST_BANDS + 1:
        return lines
    return [*areas, *lines]


def _first_alarm(course: Course, y: Axis) -> Mark:
    first = min(claim.raised for claim in course.claims)
    place = course.settings["periods"].index(first)
    name = f"first alarm, {first}"
    return Mark("line", "alarm", [place, place], [y.low, y.high], name=name)


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
    order = list(course.ranked["group"])
    if groups is not None:
        order = named_groups(course.groups, groups).names
    x = _time_axis(course, MOST_TICKS)
    y = _axis_of_evidence()
    values = _highest_evidence(course, y)
    labels = _labels(course)
    places = np.arange(values.shape[1], dtype=np.float64)

    marks = [
        Mark("line", "all-thin", places, values.loc[name].to_numpy())
        for name in reversed(order[MOST_LINES:])
    ]
    for name, look, _ in _looks(order[:MOST_LINES]):
        evidence = values.loc[name].to_numpy()
        marks.append(Mark("line", look, places, evidence, name=labels[name]))
    alarm = [ALARM, ALARM]
    marks.append(Mark("line", "alarm", [x.low, x.high], alarm, name="alarm line"))
    heading = "Evidence of each group"
    text = words("pictures", "evidence", alarm=ALARM)
    return Plot("evidence-picture", heading, text, x, y, marks, 720, 300)


def _axis_of_evidence() -> Axis:
    ticks = [
        (1.0, "≤ 1"),
        (5.0, "5"),
        (ALARM, f"{ALARM:g}"),
        (100.0, "100"),
        (HIGHEST, f"≥ {HIGHEST:,.0f}"),
    ]
    return Axis("evidence", 1.0, HIGHEST, ticks, log=True)


def _highest_evidence(course: Course, y: Axis) -> pd.DataFrame:
    """The highest evidence of any test, by group and period."""
    by_group = course.evidence.groupby(["group", "period"], sort=False)["evidence"]
    best: pd.DataFrame = by_group.max().unstack("period")
    values = best[course.settings["periods"]].astype(float)
    shown: pd.DataFrame = values.clip(y.low, y.high)
    return shown


COURSE_CHARTS: dict[str, Callable[..., Plot]] = {
    "evidence": evidence_plot,
    "ratios": ratio_plot,
}


def _groups(course: Course) -> Table:
    rows = row_dicts(course.ranked)
    for row in rows:
        row["look"] = ""
        if row["named"]:
            row["look"] = "high"
        row["raised"] = row["raised"] or "no alarm"
        row["test"] = ""
        if row["highest"] > 1:
            row["test"] = TEST_NAMES[row["highest_test"]]
        row["finding"] = wording.what_is_left(row)
    about = {"claims": course.claims, "reference": course.settings["reference"]}
    return table("evidence", rows, "groups", alarm=ALARM, **about)


def _rates(course: Course) -> list[Block]:
    """Observed and predicted rates of each group, the named ones first."""
    measured = np.isfinite(without_limits(course.periods["outcome_rate"]))
    with_rates = set(course.periods.loc[measured, "group"])
    shown = [name for name in course.ranked["group"] if name in with_rates]
    shown = shown[:MOST_PICTURES]
    more = len(course.groups) - len(shown)
    below = words("tables", "rates_over_time", more=more, gaps=not measured.all())
    periods = table("periods", row_dicts(course.periods), unit=course.identity.unit)
    plots = [_rate_plot(course, group, place) for place, group in enumerate(shown)]
    details = Details(periods.title, [periods])
    return [Paragraphs([below]), Plots(plots), details]


def _rate_plot(course: Course, group: str, place: int) -> Plot:
    """Observed rate with its 95 % band, and the predicted rate, of one group."""
    people, observed, predicted = _over_time(
        course, group, "people", "outcome_rate", "mean_score"
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = wilson_interval(observed, people, NORMAL_REACH)
    x = _time_axis(course, MOST_TICKS_NARROW)
    y = _axis_of_rates(np.concatenate([low, high, predicted]))

    places = np.arange(len(people), dtype=np.float64)
    marks = [
        Mark("band", "all-band", places, low, high),
        Mark("line", "all-line", places, observed, name="observed, with 95 % band"),
        Mark("line", "one-line", places, predicted, name="predicted"),
    ]
    label = _labels(course)[group]
    description = (
        f"{label}: observed rate (solid, with 95 % band) and predicted rate (dashed) "
        "in each period."
    )
    return Plot(f"rates-{place}", label, description, x, y, marks, 360, 200)


def _axis_of_rates(rates: FloatArray) -> Axis:
    """An axis in percent that holds these rates."""
    percent = axis_around(100 * rates, "rate", most=4)
    ticks = [
        (tick / 100, f"{text} %") for tick, text in percent.ticks if 0 <= tick <= 100
    ]
    return Axis("", max(percent.low, 0) / 100, min(percent.high, 100) / 100, ticks)


def _last_period(course: Course) -> Section:
    """The last period by itself, and the one before."""
    last = course.last
    before = course.settings["periods"][-2:-1]
    texts = {"last": last, "before": "".join(before), "unit": course.identity.unit}
    period = table("last", row_dicts(course.ranked), **texts)
    heading = " compared with ".join([last, *before])
    return Section("period", heading, [period], "The last period", At.TEXT | At.PAGE)


def _recalibration(course: Course) -> list[Block]:
    """Whether recalibrating would help, and what it does to each group, if that was
    asked.
    """
    recalibration = course.recalibration
    if recalibration is None:
        return []
    rows = _recalibrated_rows(course, recalibration)
    heading = "Would recalibrating help?"
    sentence = recalibration.sentence
    blocks: list[Block] = [
        Paragraphs([sentence]),
        table("recalibrated", rows, judged=span_of(recalibration.judged)),
    ]
    return [
        Paragraphs([sentence], heading, At.TEXT),
        Section("recalibration", heading, blocks, "Recalibration", At.PAGE),
    ]


def _recalibrated_rows(
    course: Course, recalibration: Recalibration
) -> list[dict[str, Any]]:
    """O/E ratios of each group before and after, and the change of its log loss."""
    labels = recalibration.comparison.audits[RECALIBRATED].labels | _labels(course)
    found = recalibration.comparison.differences
    losses = found[found["measure"] == "log_loss"]
    loss_of = {row["group"]: row for row in row_dicts(losses)}
    ratios = found[(found["measure"] == RATIO) & found["group"].isin(loss_of)]

    rows = []
    for row in row_dicts(ratios):
        loss = loss_of[row["group"]]
        shown = {
            "label": labels.get(row["group"], row["group"]),
            "before": row["base"],
            "after": row["value"],
            "change": loss["difference"],
            "change_low": loss["low"],
            "change_high": loss["high"],
        }
        rows.append(shown)
    return rows
