"""From counts over time to evidence, alarms, tables and words: what makes a `Course`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.core.atoms import Atoms
from propcal.core.grid import FloatArray
from propcal.core.groups.labels import group_labels
from propcal.identity import Identity
from propcal.monitoring import e_processes as ep
from propcal.monitoring.course import (
    ALARM,
    ALARM_RAISED,
    FALLEN,
    NO_ALARM,
    RISEN,
    Alarm,
    Course,
    CourseSource,
)
from propcal.monitoring.course_sentences import course_sentences, unnoticed
from propcal.monitoring.explained_alarms import with_explanations
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

LARGEST = 690.0  # logarithm of the largest evidence that is printed


@dataclass(frozen=True, eq=False)
class CourseEvidence:
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
    found = evidence_over_time(sums, stakes_of(watched), reference)
    places = {group.name: place for place, group in enumerate(groups)}
    stakes = stakes_of(watched)

    def alarms_of(corrected: Atoms, name: str) -> tuple[Alarm, ...]:
        """The alarms of a group with other scores, if no other group had any evidence."""
        place = places[name]
        own = GroupMonths.of(corrected, [groups[place]], bins)
        alone = evidence_over_time(own, [stakes[place]], reference)
        return _alarms(own, alone, [labels[place]], bins, reference)

    alarms = _alarms(sums, found, labels, bins, reference)
    alarms = with_explanations(alarms, atoms, groups, bins, alarms_of)
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


def evidence_over_time(sums: GroupMonths, share: Any, reference: Sequence[str]) -> CourseEvidence:
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
    return CourseEvidence(tuple(shares), adjusted.reshape(len(table), len(shares), -1), gains, cells)


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
    sums: GroupMonths, found: CourseEvidence, labels: Sequence[str], bins: Bins, reference: Sequence[str]
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


def _table(sums: GroupMonths, found: CourseEvidence, labels: Sequence[str]) -> pd.DataFrame:
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
    sums: GroupMonths, found: CourseEvidence, labels: Sequence[str], periods: pd.DataFrame
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
