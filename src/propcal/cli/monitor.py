"""``propcal monitor``: add periods to a state, and see if the score is still right."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import date, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal import options as options
from propcal.cli.atoms import groups_of
from propcal.cli.commands_from_records import ROWS, Only, Without
from propcal.cli.terminal import (
    Output,
    check_file,
    log,
    progress,
    say,
    warnings_as_lines,
    working,
)
from propcal.errors import InputError, refused
from propcal.formats.transaction import outputs
from propcal.numbers import listed
from propcal.options import (
    METHOD,
    TIME,
    Given,
    Identity,
    LossRule,
    Reading,
    Roles,
    Timing,
    given,
)

if TYPE_CHECKING:
    from propcal.monitoring.course import Course
    from propcal.monitoring.monitor import Added, Monitor

WATCHED = options.GROUPS.option(
    "SHARE", "Smallest share of people in a group that is watched. Default: 0.05"
)


def monitor(
    calendar: Timing,
    roles: Annotated[Roles, Without("weight", "weight_kind", "cluster", "site")],
    reading: Annotated[Reading, Only("memory_limit")],
    rule: Annotated[Given, LossRule, Without("alpha", gamma=WATCHED)],
    out: Annotated[Output, Without("markdown", "force")],
    names: Annotated[Identity, Without("period", "institution", "population")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES", help=f"{ROWS}. Without files, the state is shown as it is."
        ),
    ] = None,
    state: Path = TIME.required("FILE"),
    replaced: list[str] | None = TIME.option("--replace PERIOD", argument="replace"),
    as_of: date | None = TIME.option("DATE"),
    recalibrate: bool = METHOD.flag(),
    fail_on: list[str] | None = options.OUTPUT.option("alarm|new-alarm"),
) -> None:
    r"""Watch a score over time and raise an alarm when it is clear that it is wrong for
    a group.

    Each run adds the new periods of the files to the state. You may look as often as
    you like: if the score is right for everyone and rows are different people, at most
    5 % of states ever raise an alarm. Later runs take columns, groups and calendar from
    the state. Pages, JSON and metrics are replaced by every run. The exit code is 1 if
    a --fail-on condition holds.

    For example:

      propcal monitor 2026-03.csv --state risk.monitor --time admitted_at
      --score risk --outcome died --groups race,sex --delay 30d

      propcal monitor 2026-04.csv --state risk.monitor --html risk.html \
      --fail-on new-alarm

      propcal monitor 2026-03-corrected.csv --state risk.monitor --replace 2026-03

    Parameters
    ----------
    state
        State file; the first run creates it, later runs add to it.
    replaced
        Replace this period, because outcomes came late: 2026-03.
    as_of
        Treat this date as today when deciding which periods are complete.
    recalibrate
        Also find out whether recalibrating on recent periods would help.
    fail_on
        Exit with code 1 if an alarm stands, or only if this run raised one.
    """
    from propcal.monitoring.monitor import Added, Monitor
    from propcal.protect.protected_courses import protected_course

    for word in fail_on or []:
        if word not in ("alarm", "new-alarm"):
            raise InputError(f"--fail-on {word!r}: write alarm or new-alarm")
    out = replace(out, force=True)
    _check_files(files, state, replaced, out)
    settings = _settings(roles, calendar, rule)
    new = not state.exists()
    if new:
        watched = _begun(state, files, settings, names)
    else:
        watched = Monitor.load(state)
    before = watched.settings
    if not new:
        _update(watched, settings, roles, names)

    added = Added()
    course = None
    with warnings_as_lines():
        with progress("Reading") as done:
            if files:
                added = watched.add(
                    files,
                    as_of=as_of,
                    na=roles.na or [],
                    memory_limit=reading.memory_limit,
                    replace=replaced or [],
                    progress=done,
                )
        with working("Computing the evidence...") as update:
            if recalibrate:
                update("Fitting on recent periods...")
            if watched.periods:
                course = watched.course(recalibrate=recalibrate)
    if course is None:
        _show_nothing(added, watched, out, read=bool(files))
        return

    shown = cache(partial(protected_course, course))
    with outputs(force=True) as changes:
        if files and (added.changed or new or watched.settings != before):
            watched.save(state)
            if new:
                changes.unless_changed(state, None)
        content = out.write(
            output=course.to_json,
            html=lambda n: shown(n).to_html(suppress=0),
            metrics=lambda n: shown(n).to_metrics(suppress=0, state=state.name),
        )
    if not out.as_json:
        _say_added(added, watched, read=bool(files))
        say("")
    out.show(content, lambda n: shown(n)._document())
    for word in fail_on or []:
        _fail(word, course, added)


def _check_files(
    files: list[Path] | None, state: Path, replaced: list[str] | None, out: Output
) -> None:
    """Refuse files that cannot be written, or that are one file."""
    out.check(files)
    if files:  # without files, the state is only read
        check_file(state, files, force=True)
    if state.resolve() in [path.resolve() for path in out.files.values()]:
        raise InputError(
            f"--state and {listed(list(out.files))} must be different files"
        )
    if replaced and not files:
        raise InputError("--replace needs the files to replace it with")


def _show_nothing(added: Added, monitor: Monitor, out: Output, *, read: bool) -> None:
    """Print that there are no periods yet."""
    if out.as_json:
        out.show("null")
        return
    _say_added(added, monitor, read=read)
    say("There is nothing to add yet, so no state was written.")


def _say_added(added: Added, monitor: Monitor, *, read: bool) -> None:
    """Which periods were added to the state; `read` says whether there were any
    files.
    """
    from propcal.documents.sentences.files import periods_added
    from propcal.reading.periods import days

    ready = None
    if added.held_back:
        delay = timedelta(days=days(monitor.delay))
        ready = monitor.calendar.end(min(added.held_back)) + delay
    for line in periods_added(added, monitor.identity, monitor.delay, ready, read=read):
        say(line)


def _settings(roles: Roles, *others: Any) -> dict[str, Any]:
    """The settings of a monitor that were given; its groups are made if any option
    about them was.
    """
    from propcal.monitoring.monitor import MonitorSettings

    options = given(roles, *others)
    names = [field.name for field in fields(MonitorSettings)]
    settings = {name: options[name] for name in names if name in options}
    how = {
        name: options[name] for name in ("intersections", "missing") if name in options
    }
    if how or roles.groups or roles.cuts or roles.where or roles.as_levels:
        settings["groups"] = groups_of(roles, **how)
    return settings


def _begun(
    state: Path, files: list[Path] | None, settings: dict[str, Any], names: Identity
) -> Monitor:
    from propcal.monitoring.monitor import Monitor

    if not files:
        raise InputError(
            f"there is no state {state} yet", next_step="Name files to begin one"
        )
    for name in ("time", "score", "outcome"):
        if name not in settings:
            raise refused("no state", state=state, name=name)
    return Monitor(**settings, **given(names))


def _update(
    watched: Monitor, settings: dict[str, Any], roles: Roles, names: Identity
) -> None:
    """Change the settings that may change, and the names that are given."""
    if "groups" in settings and not roles.groups:
        # only how groups are made of the columns was given
        columns = watched.columns.definition.columns
        settings["groups"] = replace(settings["groups"], columns=columns)
    watched.change(settings)
    for name, value in given(names).items():
        setattr(watched, name, value)


def _fail(word: str, course: Course, added: Added) -> None:
    """Exit with code 1 if an alarm stands, or if this run raised one."""
    if word == "alarm":
        alarms = course.alarms
        what = "an alarm stands for"
    else:
        alarms = course.new_alarms(added.changed)
        what = "a new alarm was raised for"
    labels = list(dict.fromkeys(alarm.label for alarm in alarms))
    if labels:
        log("error", f"{word}: {what} {'; '.join(labels)}")
        raise typer.Exit(1)
