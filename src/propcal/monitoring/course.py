"""Course: what a monitor found over time, as tables, alarms and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.groups.collection import Group, membership
from propcal.core.groups.labels import group_labels
from propcal.identity import Identity
from propcal.monitoring import e_processes as ep
from propcal.monitoring.course_sentences import course_sentences, unnoticed
from propcal.monitoring.group_months import GroupMonths
from propcal.monitoring.no_overshoot import level_evidence
from propcal.monitoring.onset import (
    Onset,
    cell_ratio_since,
    onset_of,
    ratio_since,
    ratios,
    reference_ratio,
)
from propcal.monitoring.watched import CHANGE_TESTS, FOUNDERS, TESTS, WatchedGroup, stakes_of
from propcal.numbers import risk_range

if TYPE_CHECKING:
    from propcal.core.bins import Bins
    from propcal.monitoring.recalibration import Recalibration

ALARM = 20.0  # evidence at which an alarm is raised: in at most 1 of 20 monitors of calibrated scores
LARGEST = 690.0  # logarithm of the largest evidence that is printed
ALARM_RAISED, NO_ALARM = "alarm", "no alarm"
RISEN, FALLEN = "has risen", "has fallen"  # the O/E ratio since the reference


@dataclass(frozen=True)
class Alarm:
    """A group, the test that raised the alarm, when, since when, and how large the error is.

    `value`, `low` and `high` are the O/E ratio since the onset, of the group or (for cells) of its risk range
    `where`; for the slope they are missing, and `direction` says whether scores are too extreme. If an
    earlier period is the reference, `reference_value` is the O/E ratio at that time, and `direction` says
    whether it has risen or fallen since.
    `explained_by` names another group without whose people there would be no alarm.
    """

    group: str
    label: str
    test: str
    raised: str
    evidence: float
    onset: str
    onset_low: str
    onset_high: str
    value: float
    low: float
    high: float
    direction: str
    where: str = ""
    explained_by: str = ""
    reference_value: float = float("nan")


@dataclass(frozen=True, eq=False)
class CourseSource:
    """What a course was computed from: a page that is handed on is computed again, from protected counts.

    `left_out` is the number of people without a score or an outcome.
    """

    atoms: Atoms
    bins: Bins
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Course:
    """What was found over time.

    Attributes
    ----------
    conclusion : str
        "alarm" or "no alarm".
    alarms : tuple of Alarm
        The clearest first.
    periods : DataFrame
        The ordinary picture: each group in each period, with its O/E ratio and 95 % interval, which is not
        adjusted for the number of groups nor of looks.
    evidence : DataFrame
        Each test of each group after each period, adjusted for the number of tests. An alarm is raised at 20.
    groups : DataFrame
        Each group: its evidence now and at its highest, and the last period beside the one before.
    sentences, notes : tuple of str
    settings : dict
    identity : Identity
    recalibration : Recalibration, optional
        Whether recalibrating would help, if that was asked.
    watched : tuple of Group
        The groups, in the order of `groups`.
    """

    conclusion: str
    alarms: tuple[Alarm, ...]
    periods: pd.DataFrame
    evidence: pd.DataFrame
    groups: pd.DataFrame
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    identity: Identity = field(default_factory=Identity)
    recalibration: Recalibration | None = None
    watched: tuple[Group, ...] = field(default=(), repr=False)
    _source: CourseSource | None = field(default=None, repr=False)

    @property
    def last(self) -> str:
        """The last period that has people."""
        return str(self.settings["periods"][-1])

    def new_alarms(self, periods: Sequence[str]) -> tuple[Alarm, ...]:
        """The alarms that were raised by one of these periods."""
        return tuple(alarm for alarm in self.alarms if alarm.raised in periods)

    def to_frame(self, kind: str = "groups") -> pd.DataFrame:
        """One of the tables: "groups", "periods", "evidence" or "alarms"."""
        from propcal.core.grid import check_choice

        check_choice("kind", kind, ("groups", "periods", "evidence", "alarms"))
        if kind == "alarms":
            return pd.DataFrame([vars(alarm) for alarm in self.alarms], columns=list(Alarm.__annotations__))
        table: pd.DataFrame = getattr(self, kind)
        return table.copy()

    def plot(self, kind: str = "evidence", groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
        """Draw what was found with matplotlib (extra `plots`).

        Parameters
        ----------
        kind : {"evidence", "ratios"}
            The evidence of groups over time, with the alarm line; or the O/E ratio of each period, with its
            ordinary 95 % interval if one or two groups are drawn.
        groups : list of str, optional
            Names or labels of the groups to draw; by default the six with the most evidence.
        ax : matplotlib axes, optional
        width : float, default=6.4
            Inches of a new figure.

        Returns
        -------
        The axes.
        """
        from propcal.output.plots.course_plots import plot_course

        return plot_course(self, kind, groups, ax=ax, width=width)

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON; with `suppress=11` from protected counts: see the guide to the report."""
        from propcal.output.monitor.monitor_json import course_to_json

        return course_to_json(self, suppress)

    def to_html(
        self, path: str | PathLike[str] | None = None, *, suppress: int = 11, title: str | None = None
    ) -> str:
        """One page for everyone who must decide; it is one file that needs nothing else."""
        from propcal.output.monitor.monitor_page import write_monitor_page

        return write_monitor_page(self, path, suppress=suppress, title=title)

    def to_metrics(self, path: str | PathLike[str] | None = None, *, suppress: int = 11) -> str:
        """The newest numbers as OpenMetrics text, for the textfile collector of Prometheus."""
        from propcal.output.monitor.openmetrics import write_metrics

        return write_metrics(self, path, suppress=suppress)

    def __repr__(self) -> str:
        from propcal.output.monitor.monitor_text import course_text
        from propcal.output.terminal import as_text

        return as_text(course_text(self))

    def _repr_html_(self) -> str:
        from propcal.output.monitor.monitor_text import course_card

        return course_card(self)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Log evidence after each period, adjusted, of shape (periods, tests, groups), and the bets behind it."""

    kinds: tuple[str, ...]
    adjusted: FloatArray
    gains: dict[str, FloatArray]
    cells: FloatArray


def course_of(
    atoms: Atoms,
    watched: Sequence[WatchedGroup],
    bins: Bins,
    identity: Identity,
    *,
    reference: Sequence[str],
    settings: dict[str, Any],
    notes: Sequence[str] = (),
    left_out: int = 0,
) -> Course:
    """Put counts over time into evidence, alarms, tables and words."""
    groups, patterns = [one.group for one in watched], atoms.patterns
    sums = GroupMonths.of(atoms, groups, bins)
    labels = group_labels(groups, patterns, identity.labels, everyone=identity.everyone)
    found = _evidence(sums, stakes_of(watched), reference)
    alarms = _explained(_alarms(sums, found, labels, bins, reference), atoms, watched, bins, reference)
    periods = _periods(sums, labels)
    evidence = _table(sums, found, labels)
    return Course(
        conclusion=ALARM_RAISED if alarms else NO_ALARM,
        alarms=alarms,
        periods=periods,
        evidence=evidence,
        groups=_groups(sums, found, labels, periods),
        sentences=course_sentences(
            alarms,
            sums.periods,
            int(sums.people[:, 0].sum()),
            len(groups),
            identity,
            reference,
            missed_errors(periods, len(groups), reference),
        ),
        notes=tuple(notes),
        settings={
            **settings,
            "reference": list(reference),
            "periods": list(sums.periods),
            "alarm": ALARM,
            "tests": list(found.kinds),
        },
        identity=identity,
        watched=tuple(groups),
        _source=CourseSource(atoms, bins, left_out),
    )


def missed_errors(periods: pd.DataFrame, n_groups: int, reference: Sequence[str]) -> tuple[str, float] | None:
    """What could have gone unnoticed; not known if an earlier period is the reference."""
    return None if reference else unnoticed(periods, TESTS["level"] * FOUNDERS / n_groups / ALARM)


def _evidence(sums: GroupMonths, share: Any, reference: Sequence[str]) -> _Evidence:
    if reference:
        chosen = np.array([period in reference for period in sums.periods])
        level, cells = ep.changed_evidence(sums, chosen)
        shares, evidence = CHANGE_TESTS, {"level": level}
        before = [part[chosen].sum(axis=0) for part in (sums.positives, sums.score)]
        shift = _reference_shift(sums, chosen, before[0])
        gain = _gains_from(sums, shift, ep.BETS)
        gain[: np.flatnonzero(chosen)[-1] + 1] = 0.0
        gains = {"level": gain.sum(axis=2), "cells": gain}
    else:
        gain, slope = ep.level_gains(sums), ep.slope_gains(sums)
        gains = {"level": gain.sum(axis=2), "slope": slope, "cells": gain}
        cells = ep.mixture(gain, ep.BET_STAKES)
        shares = TESTS
        caps = np.log(ALARM / (shares["level"] * np.asarray(share))) + 1e-9  # enough, whatever others have
        evidence = {"level": level_evidence(sums, gains["level"], caps), "slope": ep.mixture(slope)}
    evidence["cells"] = np.logaddexp.reduce(cells, axis=2) - np.log(cells.shape[2])
    stakes = np.concatenate([shares[kind] * np.asarray(share) for kind in shares])
    table = np.concatenate([evidence[kind] for kind in shares], axis=1)
    # what is kept for groups that may still come counts as a test without evidence
    kept = np.zeros((len(table), 1))
    adjusted = ep.adjusted(np.append(table, kept, axis=1), np.append(stakes, 1 - stakes.sum()))[:, :-1]
    return _Evidence(tuple(shares), adjusted.reshape(len(table), len(shares), -1), gains, cells)


def _reference_shift(sums: GroupMonths, chosen: Any, positives: FloatArray) -> FloatArray:
    """The shift of each group's log-odds at the reference, by bisection; 0 where nobody was."""
    people, mean = sums.people[chosen], sums.mean[chosen]
    total = positives.sum(axis=1)
    low, high = np.full(len(total), -6.0), np.full(len(total), 6.0)
    for _ in range(50):
        middle = (low + high) / 2
        factor = np.exp(middle)[None, :, None]
        expected = (people * mean * factor / (1 - mean + mean * factor)).sum(axis=(0, 2))
        low, high = np.where(expected < total, middle, low), np.where(expected < total, high, middle)
    return np.where(people.sum(axis=(0, 2)) > 0, (low + high) / 2, 0.0)


def _gains_from(sums: GroupMonths, shift: FloatArray, bets: FloatArray) -> FloatArray:
    """Log-likelihood ratios of shifts beyond each group's own: (periods, groups, bins, shifts)."""
    factor = np.exp(shift)[None, :, None]
    mean = sums.mean * factor / (1 - sums.mean + sums.mean * factor)
    made = [sums.by_bin(bet * sums.positives - sums.people * np.log1p(mean * np.expm1(bet))) for bet in bets]
    return np.stack(made, axis=-1)


def _alarms(
    sums: GroupMonths, found: _Evidence, labels: Sequence[str], bins: Bins, reference: Sequence[str]
) -> tuple[Alarm, ...]:
    line, made = np.log(ALARM), []
    after = 0
    if reference:
        after = max(i for i, period in enumerate(sums.periods) if period in reference) + 1
    for k, kind in enumerate(found.kinds):
        for g, label in enumerate(labels):
            course = found.adjusted[:, k, g]
            if course.max() < line:
                continue
            raised = int(np.argmax(course >= line))
            gain, where, b = found.gains[kind][:, g], "", 0
            if kind == "cells":
                b = int(np.argmax(found.cells[:, g].max(axis=0)))
                gain, where = gain[:, b], risk_range(bins.label(b))
            onset = onset_of(gain[after:])
            onset = Onset(onset.place + after, onset.low + after, onset.high + after)
            size, direction = _size(sums, kind, g, b, onset, gain)
            then = np.nan
            if reference:
                then = reference_ratio(
                    sums, g, sums.bin_of == b if kind == "cells" else slice(None), reference
                )
                direction = RISEN if not size[0] < then else FALLEN
            name = sums.groups[g].name
            made.append(
                Alarm(
                    name,
                    label,
                    kind,
                    sums.periods[raised],
                    _number(float(course.max())),
                    sums.periods[onset.place],
                    sums.periods[onset.low],
                    sums.periods[onset.high],
                    size[0],
                    size[1],
                    size[2],
                    direction,
                    where,
                    reference_value=then,
                )
            )
    return tuple(sorted(made, key=lambda alarm: (-alarm.evidence, alarm.group)))


def _explained(
    alarms: tuple[Alarm, ...],
    atoms: Atoms,
    watched: Sequence[WatchedGroup],
    bins: Bins,
    reference: Sequence[str],
) -> tuple[Alarm, ...]:
    """Which alarms are there only because of people of a group with a clearer one.

    Beginning with the clearest, the evidence of every other group is computed again without the people of the
    groups named before it.
    """
    groups = [one.group for one in watched]
    inside = dict(zip((group.name for group in groups), membership(groups, atoms.patterns)))
    named: list[Alarm] = []
    found: dict[str, str] = {}
    for alarm in alarms:
        if alarm.group in found:
            continue
        found[alarm.group] = ""
        for other in named:
            rest = inside[alarm.group] & ~inside[other.group]
            if not rest.any() or not _alarms_alone(rest, alarm.group, atoms, watched, bins, reference):
                found[alarm.group] = other.label
                break
        if not found[alarm.group]:
            named.append(alarm)
    return tuple(replace(alarm, explained_by=found[alarm.group]) for alarm in alarms)


def _alarms_alone(
    rest: Any, name: str, atoms: Atoms, watched: Sequence[WatchedGroup], bins: Bins, reference: Sequence[str]
) -> bool:
    """Whether some people of a group would raise an alarm if no other group had any evidence."""
    place = next(i for i, one in enumerate(watched) if one.group.name == name)
    sums = GroupMonths.of(atoms, [watched[place].group], bins, rest[None, :])
    stake = float(stakes_of(watched)[place])
    return bool(_evidence(sums, [stake], reference).adjusted.max() >= np.log(ALARM))


def _size(
    sums: GroupMonths, kind: str, group: int, bin_index: int, onset: Onset, gain: FloatArray
) -> tuple[tuple[float, float, float], str]:
    if kind == "slope":
        total = gain[onset.place :].sum(axis=0)
        half = len(total) // 2
        extreme = np.logaddexp.reduce(total[:half]) > np.logaddexp.reduce(total[half:])
        return (np.nan, np.nan, np.nan), "too extreme" if extreme else "not extreme enough"
    if kind == "level":
        size = ratio_since(sums, group, onset)
    else:
        size = cell_ratio_since(sums, group, bin_index, onset)
    return size, "too high" if size[0] < 1 else "too low"


def _number(log_evidence: float) -> float:
    return float(np.exp(min(log_evidence, LARGEST)))


def _periods(sums: GroupMonths, labels: Sequence[str]) -> pd.DataFrame:
    people, positives, score = (part.sum(axis=2) for part in (sums.people, sums.positives, sums.score))
    ratio, low, high = ratios(positives, score, sums.score_positives, sums.score_square)
    shape = people.shape
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = positives / people, score / people
    return pd.DataFrame(
        {
            "period": np.repeat(sums.periods, shape[1]),
            "group": np.tile([group.name for group in sums.groups], shape[0]),
            "label": np.tile(np.array(labels, dtype=object), shape[0]),
            "people": people.ravel().astype(np.int64),
            "positives": positives.ravel().astype(np.int64),
            "outcome_rate": rates[0].ravel(),
            "mean_score": rates[1].ravel(),
            "observed_expected": ratio.ravel(),
            "observed_expected_low": low.ravel(),
            "observed_expected_high": high.ravel(),
        }
    )


def _table(sums: GroupMonths, found: _Evidence, labels: Sequence[str]) -> pd.DataFrame:
    n, tests, groups = found.adjusted.shape
    value = np.exp(np.minimum(found.adjusted, LARGEST))
    return pd.DataFrame(
        {
            "period": np.repeat(sums.periods, tests * groups),
            "test": np.tile(np.repeat(found.kinds, groups), n),
            "group": np.tile([group.name for group in sums.groups], n * tests),
            "label": np.tile(np.array(labels, dtype=object), n * tests),
            "evidence": value.ravel(),
            "alarm": (np.maximum.accumulate(value, axis=0) >= ALARM).ravel(),
        }
    )


def _groups(
    sums: GroupMonths, found: _Evidence, labels: Sequence[str], periods: pd.DataFrame
) -> pd.DataFrame:
    """One row for each group: evidence, and the last period beside the one before."""
    best = found.adjusted.max(axis=1)
    columns = ["people", "outcome_rate", "mean_score", "observed_expected"]
    columns += ["observed_expected_low", "observed_expected_high"]
    rows = []
    for g, (group, label) in enumerate(zip(sums.groups, labels)):
        own = periods[periods["group"] == group.name]
        now = own.iloc[-1]
        before = own.iloc[-2] if len(own) > 1 else None
        kind = found.kinds[int(np.argmax(found.adjusted[-1, :, g]))]
        peak = int(np.argmax(found.adjusted.max(axis=0)[:, g]))
        raised = best[:, g] >= np.log(ALARM)
        rows.append(
            {
                "group": group.name,
                "label": label,
                "evidence": _number(float(best[-1, g])),
                "test": kind,
                "highest": _number(float(best[:, g].max())),
                "highest_test": found.kinds[peak],
                "alarm": bool(raised.any()),
                "raised": sums.periods[int(np.argmax(raised))] if raised.any() else "",
                **{name: now[name] for name in columns},
                **{f"before_{name}": np.nan if before is None else before[name] for name in columns},
            }
        )
    return pd.DataFrame(rows)
