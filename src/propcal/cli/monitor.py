"""``propcal monitor``: add new periods to a state; is the score still right for every group?"""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli import options as o
from propcal.cli.screen import percentage, warnings_as_lines, working
from propcal.errors import InputError
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.monitoring.course import Course
    from propcal.monitoring.monitor import Added, Monitor

_TIME, _OUT = "Time", "Output"
PAGE_SUPPRESS = 11
ENDINGS = {"--html": ((".html", ".htm"), "an HTML page"), "--output": ((".json",), "JSON")}
FAILS = ("alarm", "new-alarm")


def monitor(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES",
            help="CSV (also .gz, .zst), Parquet or Excel files with one row per person. Without files, the "
            "state "
            "is shown as it is.",
        ),
    ] = None,
    *,
    state: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_TIME,
            help="State file; the first run creates it, later runs add to it.",
        ),
    ],
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", rich_help_panel=_TIME, help="Column with the date of the score (ISO 8601)."
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="day|week|month|quarter|year",
            rich_help_panel=_TIME,
            help="Length of a period. [dim]Default: month[/dim]",
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_TIME,
            help="Time zone in which a day begins, such as Europe/Berlin. [dim]Default: UTC[/dim]",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            metavar="30d",
            rich_help_panel=_TIME,
            help="Wait this many days (d) or weeks (w) after the end of a period before adding it. "
            "[dim]Default: 0d[/dim]",
        ),
    ] = None,
    outcome_time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=_TIME,
            help="Column with the date of the outcome; outcomes before the score are refused.",
        ),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            rich_help_panel=_TIME,
            help="Replace this period, because outcomes came late: 2026-03. May be repeated.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD",
            rich_help_panel=_TIME,
            help="Compare with the score as it was then (2025-01 or 2025-01..2025-06) instead of perfect "
            "calibration.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            rich_help_panel=_TIME,
            help="Treat this date as today when deciding which periods are complete.",
        ),
    ] = None,
    score: o.Score = None,
    outcome: o.Outcome = None,
    positive: o.Positive = None,
    groups: o.Groups = None,
    na: o.Na = None,
    drop_missing: o.DropMissing = False,
    memory: o.Memory = None,
    cut: o.Cut = None,
    where: o.Where = None,
    as_levels: o.AsLevels = None,
    intersections: o.Intersections = None,
    missing: o.Missing = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Groups",
            help="Smallest share of people in a group that is watched. [dim]Default: 0.05[/dim]",
        ),
    ] = None,
    rho: o.Rho = None,
    n_bins: o.NBins = None,
    binning: o.Binning = None,
    recalibrate: Annotated[
        bool,
        typer.Option(
            "--recalibrate",
            rich_help_panel="Method",
            help="Also find out whether recalibrating on recent periods would help.",
        ),
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="alarm|new-alarm",
            rich_help_panel=_OUT,
            help="Exit with code 1 if an alarm stands, or only if this run raised one.",
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|json", rich_help_panel=_OUT, help="Print text or JSON.")
    ] = "text",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", rich_help_panel=_OUT, help="Also write JSON to this file."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", rich_help_panel=_OUT, help="Write a page for any reader."),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_OUT,
            help="Write OpenMetrics text, for the textfile collector of Prometheus (a name in .prom).",
        ),
    ] = None,
    title: o.Title = "",
    score_name: o.ScoreName = "",
    outcome_name: o.OutcomeName = "",
    unit: o.Unit = "",
    label: o.Label = None,
    source: o.Source = "",
    suppress: o.PageSuppress = None,
    config: o.Config = None,  # noqa: ARG001  # its callback has read it
) -> None:
    """Watch a score over time: is it still right for every group, and if not, for whom and since when?

    Each run adds the new periods of the files to the state. You may look as often as you like: over the
    whole life of a state, a calibrated score raises an alarm in at most 5 % of cases. Later runs take
    columns, groups and calendar from the state. Pages, JSON and metrics are replaced by every run.

    Exit codes: 0 success, 1 a --fail-on condition holds, 2 wrong use.

    For example:

      propcal monitor 2026-03.csv --state risk.monitor --time admitted_at
      --score risk --outcome died --groups race,sex --delay 30d

      propcal monitor 2026-04.csv --state risk.monitor --html risk.html --fail-on new-alarm

      propcal monitor 2026-03-corrected.csv --state risk.monitor --replace 2026-03
    """
    from propcal.monitoring.monitor import Monitor
    from propcal.output.files.transaction import outputs

    _check_options(files, fail_on, format_, state, [output, html, metrics])
    given = o.given(
        time=time,
        every=every,
        timezone=timezone,
        delay=delay,
        outcome_time=outcome_time,
        baseline=baseline,
        score=score,
        outcome=outcome,
        positive=positive,
        drop_missing=drop_missing or None,
        gamma=gamma,
        rho=rho,
        n_bins=n_bins,
        binning=o.bins(binning),
    )
    words = _groups(groups, cut, where, as_levels, intersections, missing)
    names: dict[str, Any] = {
        "title": title,
        "score_name": score_name,
        "outcome_name": outcome_name,
        "unit": unit,
    }
    names |= {"labels": o.labels(label), "source": source}
    new = not state.exists()
    before = None
    if not new:
        watched = Monitor.load(state)
        before = watched.settings
        if words is not None and not groups:  # only how groups are made of the columns was given
            words = dataclasses.replace(words, columns=before.groups.columns)
        watched.settings = before.with_other(given | ({} if words is None else {"groups": words}))
        _rename(watched, names)
    else:
        watched = _new(state, files, given, words, names)
    day = _day(as_of)
    with warnings_as_lines():
        added = _added(watched, files, replace or [], day, na or [], memory)
        with working("Computing the evidence...") as say:
            if recalibrate:
                say("Fitting on recent periods...")
            course = watched.course(recalibrate=recalibrate) if watched.periods else None
    shown = suppress or 0
    text = course.to_json(shown) if course is not None and (output or format_ == "json") else ""
    hidden = PAGE_SUPPRESS if suppress is None else suppress
    with outputs(force=True) as out:
        if course is not None:
            if files and (added.changed or new or watched.settings != before):
                watched.save(state)
                if new:
                    out.unless_changed(state, None)
            _write(course, text, output, html, metrics, hidden)
    if format_ == "json":
        typer.echo(text or "null")
    else:
        paths = [path for path in (html, output, metrics) if path is not None]
        _tell(added, watched, course, shown, paths, read=bool(files))
    _end(fail_on or [], course, added)


def _check_options(
    files: list[Path] | None, fail_on: list[str] | None, format_: str, state: Path, paths: list[Path | None]
) -> None:
    from propcal.data.files.file_sets import find_files
    from propcal.output.files.whole_file import check_target

    for word in fail_on or []:
        if word not in FAILS:
            raise InputError(f"--fail-on {word!r}: write alarm or new-alarm", argument="--fail-on")
    if format_ not in ("text", "json"):
        raise InputError(f"--format {format_!r}: write text or json", argument="--format")
    reads = find_files(files) if files else []
    given = [path for path in paths if path is not None]
    for option, path in zip(("--output", "--html"), paths):
        endings, what = ENDINGS[option]
        if path is not None and path.suffix and path.suffix.lower() not in endings:
            raise InputError(
                f"{option} {path}: {option} writes {what}, so the name must end in {endings[0]}",
                argument=option,
            )
    for path in [state, *given] if files else given:  # without files, the state is only read
        check_target(path, force=True, reads=reads)
    if len({path.resolve() for path in [state, *given]}) <= len(given):
        raise InputError("--state, --output, --html and --metrics must be different files")


def _groups(groups: Any, cut: Any, where: Any, as_levels: Any, intersections: Any, missing: Any) -> Any:
    """The groups, if any option about them was given."""
    if not any((groups, cut, where, as_levels, intersections, missing)):
        return None
    from propcal import Groups

    return Groups(
        columns=o.names(groups),
        cuts=o.cuts(cut) or None,
        where=o.conditions(where) or None,
        as_levels=o.names(as_levels, "--as-levels"),
        **o.given(intersections=o.depth(intersections), missing=missing),
    )


def _new(state: Path, files: Any, given: dict[str, Any], words: Any, names: dict[str, Any]) -> Monitor:
    from propcal.monitoring.monitor import Monitor

    if not files:
        raise InputError(
            f"there is no state {state} yet", argument="--state", next_step="Name files to begin one"
        )
    for name in ("time", "score", "outcome"):
        if name not in given:
            raise InputError(
                f"there is no state {state} yet, and a new one needs --time, --score and --outcome",
                argument=f"--{name}",
            )
    return Monitor(**given, groups=() if words is None else words, **names)


def _rename(watched: Monitor, names: dict[str, Any]) -> None:
    """Names that are given replace those of the state."""
    from dataclasses import replace

    said = {name.removesuffix("_name"): value for name, value in names.items() if value}
    if said:
        watched.identity = replace(watched.identity, **said)


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--as-of {text}: write it like 2026-03-31", argument="--as-of") from None


def _added(
    watched: Monitor, files: Any, replaced: list[str], day: date | None, na: list[str], memory: str | None
) -> Added:
    from propcal.monitoring.monitor import Added

    if not files:
        if replaced:
            raise InputError("--replace needs the files to replace it with", argument="--replace")
        return Added()
    with percentage("Reading") as progress:
        return watched.add(files, replace=replaced, as_of=day, na=na, memory_limit=memory, progress=progress)


def _write(
    course: Course, text: str, output: Path | None, html: Path | None, metrics: Path | None, hidden: int
) -> None:
    from propcal.output.page_file import write_page

    if output is not None:
        write_page(text + "\n", output)
    if html is not None:
        course.to_html(html, suppress=hidden)
    if metrics is not None:
        course.to_metrics(metrics, suppress=hidden)


def _tell(
    added: Added, watched: Monitor, course: Course | None, suppress: int, written: list[Path], *, read: bool
) -> None:
    from rich.console import Console

    from propcal.disclosure.protected_course import protected_course
    from propcal.numbers import listed
    from propcal.output.monitor.monitor_text import course_text

    def some(periods: Any) -> str:
        names = list(periods)
        return listed(names) if len(names) <= 6 else f"{names[0]} to {names[-1]} ({len(names)} periods)"

    lines = [
        f"Added: {some(added.new)}." if added.new else "",
        *(
            f"Replaced: {period} ({watched.identity.count(now)} instead of {was:,})."
            for period, (was, now) in added.replaced_people.items()
        ),
        f"Unchanged, with the same {watched.identity.unit}: {some(added.unchanged)}."
        if added.unchanged
        else "",
        _held_back(added, watched, some) if added.held_back else "",
        "Nothing was added: the files have nobody with a date."
        if read and not (added.changed or added.unchanged or added.held_back)
        else "",
        f"{watched.identity.count(added.undated)} without a date were left out." if added.undated else "",
    ]
    for line in filter(None, lines):
        typer.echo(plain(line))
    if course is None:
        typer.echo("There is nothing to add yet, so no state was written.")
        return
    typer.echo()
    Console(highlight=False).print(course_text(protected_course(course, suppress)))
    if written:
        typer.echo(f"Written: {', '.join(map(str, written))}")


def _held_back(added: Added, watched: Monitor, some: Any) -> str:
    """Which periods are not added yet, and when the first of them will be."""
    from datetime import timedelta

    settings, first = watched.settings, min(added.held_back)
    ready = settings.calendar.end(first) + timedelta(days=settings.delay)
    why = "their outcomes may not be known yet" if settings.delay else "they are not over"
    until = f"{first} can be added from {ready} on"
    return f"Held back, because {why}: {some(added.held_back)}. {until}."


def _end(fail_on: list[str], course: Course | None, added: Added) -> None:
    if course is None:
        return
    for word in fail_on:
        alarms = course.alarms if word == "alarm" else course.new_alarms(added.changed)
        found = list(dict.fromkeys(alarm.label for alarm in alarms))
        if found:
            what = "an alarm stands for" if word == "alarm" else "a new alarm was raised for"
            typer.echo(plain(f"propcal: {word}: {what} {'; '.join(found)}"), err=True)
            raise typer.Exit(1)
