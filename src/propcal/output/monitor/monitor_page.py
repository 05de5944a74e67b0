"""What a monitor found as one HTML page: verdict, evidence and rates over time, tables, methods."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from propcal.disclosure.protected_course import protected_course
from propcal.monitoring.course import ALARM, ALARM_RAISED
from propcal.monitoring.course_sentences import span_of
from propcal.monitoring.recalibration import RECALIBRATED
from propcal.numbers import ON_PAGE, listed, plural
from propcal.output.json import rounded
from propcal.output.monitor.monitor_json import course_content
from propcal.output.monitor.monitor_text import TEST_NAMES, clearest_test, evidence_text, promise
from propcal.output.monitor.time_pictures import evidence_picture, has_rates, rate_picture
from propcal.output.page_file import packed, whole_page, write_page

if TYPE_CHECKING:
    from propcal.monitoring.course import Course

MOST_PICTURES = 24


def write_monitor_page(
    course: Course, path: str | PathLike[str] | None, *, suppress: int = 11, title: str | None = None
) -> str:
    """The page; written whole or not at all if a path is given."""
    shown = protected_course(course, suppress)
    identity = course.identity
    exact = course.groups.sort_values(["highest", "group"], ascending=[False, True], kind="stable")
    ranked = shown.groups.loc[_in_order(course, exact).index]
    drawn = [name for name in ranked["group"] if has_rates(shown, name)]
    alarm = course.conclusion == ALARM_RAISED
    settings = course.settings
    bands = shown.settings.get("evidence_bands", ())
    span = f"{settings['periods'][0]} to {settings['periods'][-1]}"
    about = [
        ("Source", identity.source),
        ("Score", identity.score or settings["score"]),
        ("Outcome", identity.outcome or settings["outcome"]),
        ("Periods", span),
    ]
    return write_page(
        whole_page(
            "propcal.output.monitor",
            "monitor.html",
            own_style="monitor.css",
            brand="Monitoring of a risk score",
            title=title or identity.title or f"{identity.subject} over time",
            about=[(name, text) for name, text in about if text],
            tone="wrong" if alarm else "noise",
            sentences=shown.sentences,
            next_steps=_next_steps(shown),
            promise=promise(shown),
            evidence=evidence_picture(shown, list(ranked["group"]))
            if (shown.groups["highest"] >= 1).any()
            else None,
            pictures=[rate_picture(shown, name) for name in drawn[:MOST_PICTURES]],
            more=len(ranked) - len(drawn[:MOST_PICTURES]),
            groups=[_row(row, bands) for _, row in ranked.iterrows()],
            unit=identity.unit,
            last=shown.last,
            before=settings["periods"][-2] if len(settings["periods"]) > 1 else None,
            periods=[_period(row) for _, row in shown.periods.iterrows()],
            recalibration=_recalibration(shown),
            methods=_methods(shown),
            notes=shown.notes,
            content=packed(rounded(course_content(shown))),
        ),
        path,
    )


def _in_order(course: Course, ranked: Any) -> Any:
    """Groups in the order of the verdict: those it names, other alarms, and then by evidence."""
    named = [alarm.group for alarm in course.alarms]
    place = {group: i for i, group in reversed(list(enumerate(named)))}
    return ranked.sort_values(
        "group", key=lambda names: [place.get(name, len(named)) for name in names], kind="stable"
    )


def _row(row: Any, bands: Sequence[float]) -> dict[str, str]:
    """A group in the tables."""
    return {
        "name": row["label"],
        "look": "high" if row["alarm"] else "",
        "raised": row["raised"] or "no alarm",
        "evidence": evidence_text(row["evidence"], bands).replace("-", "–"),
        "highest": evidence_text(row["highest"], bands).replace("-", "–"),
        "test": clearest_test(row),
        "people": ON_PAGE.count(row["people"]),
        "observed": ON_PAGE.percent(row["outcome_rate"]),
        "predicted": ON_PAGE.percent(row["mean_score"]),
        "ratio": ON_PAGE.decimal(row["observed_expected"]),
        "interval": ON_PAGE.interval(row["observed_expected_low"], row["observed_expected_high"]),
        "before": ON_PAGE.decimal(row["before_observed_expected"]),
        "before_interval": ON_PAGE.interval(
            row["before_observed_expected_low"], row["before_observed_expected_high"]
        ),
    }


def _period(row: Any) -> dict[str, str]:
    return {
        "period": row["period"],
        "name": row["label"],
        "people": ON_PAGE.count(row["people"]),
        "observed": ON_PAGE.percent(row["outcome_rate"]),
        "predicted": ON_PAGE.percent(row["mean_score"]),
        "ratio": ON_PAGE.decimal(row["observed_expected"]),
        "interval": ON_PAGE.interval(row["observed_expected_low"], row["observed_expected_high"]),
    }


def _next_steps(course: Course) -> list[str]:
    found = course.recalibration
    if course.conclusion != ALARM_RAISED:
        steps = ["Go on: add the next period when its outcomes are known."]
        return steps if found is None else [*steps, found.sentence]
    first = course.alarms[0]
    return [
        f"Find out what changed for {first.label} about {first.onset}: coding, case mix, treatment, or the "
        "score's inputs.",
        "Ask the analyst whether recalibrating would help (propcal monitor --recalibrate)."
        if found is None
        else found.sentence,
        "Once the score is corrected, begin a new state: an alarm stays raised.",
    ]


def _recalibration(course: Course) -> dict[str, Any] | None:
    found = course.recalibration
    if found is None:
        return None
    table = found.comparison.differences
    table = table[table["measure"].isin(["observed_expected", "log_loss"])]
    labels = dict(zip(course.groups["group"], course.groups["label"]))
    rows = []
    for group, own in table.groupby("group", sort=False):
        by = own.set_index("measure")
        if {"observed_expected", "log_loss"} <= {*by.index}:
            ratio, loss = by.loc["observed_expected"], by.loc["log_loss"]
            rows.append(
                {
                    "name": labels.get(str(group))
                    or found.comparison.audits[RECALIBRATED].labels.get(str(group), str(group)),
                    "before": ON_PAGE.decimal(ratio["base"]),
                    "after": ON_PAGE.decimal(ratio["value"]),
                    "change": ON_PAGE.decimal(loss["difference"], 4, "+"),
                    "interval": ON_PAGE.interval(loss["low"], loss["high"], 4, "+"),
                }
            )
    return {"sentence": found.sentence, "rows": rows, "judged": span_of(found.judged)}


def _methods(course: Course) -> list[str]:
    settings = course.settings
    reference = (
        f"the score as it was in {span_of(settings['reference'])}"
        if settings["reference"]
        else "perfect calibration"
    )
    waited = f" and {plural(settings['delay'], 'more day')} have passed" if settings["delay"] else ""
    kinds = listed([TEST_NAMES[kind] for kind in settings["tests"]])
    return [
        f"Reference: {reference}. Tests for each of {plural(len(course.groups), 'group')}: {kinds}.",
        "Each test is an e-process: a bet against the reference whose value stays at 1 on average if the "
        "reference "
        "holds. The bet is divided over sizes of the error and over all periods in which it may begin. The "
        "chance "
        "that such a value ever reaches 20 is at most 1 in 20 (Ville's inequality), however often one "
        "looks and "
        "whenever one stops.",
        "Evidence is adjusted for the number of tests by closed testing with weighted means; an alarm is "
        "raised at "
        f"{ALARM:g}. If the reference holds for every group, at most 5 % of monitors raise an alarm in their "
        "whole time.",
        "Start of the error: the most plausible period, and the range of the periods with 95 % of the "
        "weight. "
        "O/E ratio since then: its 95 % confidence interval covers every plausible start.",
        f"A period is added when it has ended{waited}. Scores are kept to 7 binary digits.",
    ]
