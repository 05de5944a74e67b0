"""Findings computed from protected counts: the same measures, tests and losses, by the same code as always.

What was found ("too high", a rejected test, which groups are named) stays as the exact audit found it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from propcal.auditing.audited_people import AuditedPeople
from propcal.auditing.chance import HALF, Chance
from propcal.auditing.findings import AuditSource, Findings
from propcal.auditing.hypothesis_tests import (
    GROUPS,
    NOT_OF_GROUPS,
    OVERALL,
    SIGNIFICANCE,
    SLOPE,
    CalibrationTest,
    NamedTest,
    adjust,
    events_p_value,
    slope_test,
)
from propcal.auditing.measures import UNKNOWN
from propcal.auditing.profile import EVERYBODY, MEASURES, Profile, profile_of
from propcal.core.boosting.null import draw_outcomes
from propcal.core.categories import Categories
from propcal.core.grid import BoolArray, FloatArray, from_grid
from propcal.core.left_out import LeftOutReport
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected_sample import expected_events, protected_sample
from propcal.numbers import Limit


def protected_findings(source: AuditSource, blocks: Blocks) -> Findings:
    """Findings whose every number comes from protected counts.

    Small counts have their stand-in here; `small_counts` replaces it by what may be said.
    """
    seed = source.rule.random_state
    rng = np.random.default_rng(seed if isinstance(seed, (int, np.integer)) else 0)
    table = _table(source, blocks)
    noise = _chance(source, table, blocks, rng)
    profiles = [_profile(source, group, blocks, rng) for group in range(len(source.sizes))]
    return Findings(
        rule=source.rule,
        people=_people(source, blocks),
        table=table,
        noise=noise,
        profiles=profiles,
        tests=_tests(source, blocks, profiles),
        distinct=source.distinct,
        untested=source.untested,
        min_share=source.min_share,
        fitted_on_these=source.fitted_on_these,
        counts=source.counts,
        shared=source.shared,
        shared_losses=source.shared_losses,
        protected=True,
    )


def rounded_effect(effects: Any) -> Any:
    """How many times larger variances are, to one digit after the point."""
    return np.round(effects, 1)


def _people(source: AuditSource, blocks: Blocks) -> AuditedPeople:
    """Totals for notes and settings."""
    who, counts = source.people, source.counts
    missing: list[Any] = [
        blocks.people(counts.missing.people[:, i, 0], counts.missing.different[:, i, 0])
        for i in range(len(who.missing))
    ]
    totals, different = counts.totals.people[:, 0, 0], counts.totals.different[:, 0, 0]
    small, shown = blocks.small(totals, different), blocks.pair(totals, different)
    people: Any = blocks.people(totals, different)
    events = Limit(blocks.fewest, "below") if small[0] else float(shown[0])
    return replace(
        who,
        people=people,
        positives=events,
        missing=dict(zip(who.missing, missing)),
        at_ends=alone(who.at_ends, blocks),
        rounding=None,
        rows=alone(who.rows, blocks),
        fingerprint=None,
        left_out=_left_out(who.left_out, int(people), blocks),
    )


def _left_out(report: LeftOutReport, people: int, blocks: Blocks) -> LeftOutReport:
    """People left out, in all and by level; levels with small counts are not listed."""

    def share(left: int, total: int) -> tuple[Any, Any]:
        left_out, kept = alone(left, blocks), alone(total - left, blocks)
        return left_out, (blocks.stand_in if isinstance(left_out, Limit) else left_out) + int(kept)

    by = {
        name: [(label, *share(left, total)) for label, left, total in rows]
        for name, rows in report.by.items()
    }
    known = {
        name: [row for row in rows if not any(isinstance(value, Limit) for value in row)]
        for name, rows in by.items()
    }
    left = alone(report.left, blocks)
    return LeftOutReport(left, people + (blocks.stand_in if isinstance(left, Limit) else left), by=known)


def alone(count: int, blocks: Blocks) -> Any:
    """A count that stands by itself; nobody stays nobody."""
    if 0 < count < blocks.fewest:
        return Limit(blocks.fewest, "below")
    return int(blocks.shown(np.array(count), np.array(count))) if count else 0


def _profile(source: AuditSource, group: int, blocks: Blocks, rng: np.random.Generator) -> Profile:
    """A group with protected counts; one that is small in either of them has no measures."""
    counts, size = source.counts, source.sizes[group]
    effect = float(rounded_effect(source.effects[group]))
    sample, small = protected_sample(counts, group, blocks, effect=effect, soft=source.people.soft_labels)
    everybody = blocks.pair(counts.totals.people[:, 0, 0], counts.totals.different[:, 0, 0]).sum()
    people = round(sample.total) if size.people else 0
    listed = replace(size, people=people, share=min(people / everybody, 1.0))
    if not source.measured[group]:
        return Profile(listed, sample, source.too_few[group], dict.fromkeys(MEASURES, UNKNOWN), None, {}, {})
    bars = _bars(source, group, blocks)
    if small:
        unknown = dict.fromkeys(MEASURES, UNKNOWN)
        return Profile(listed, sample, source.too_few[group], unknown, None, {}, bars)
    made = profile_of(listed, sample, source.too_few[group], 0, source.rule.thresholds, rng)
    return replace(made, bars=bars, curve=_between_cells(made))


def _between_cells(profile: Profile) -> FloatArray | None:
    """The curve where there are cells of both outcomes around; beyond them it would be made of rounding.

    Whether people with a score of exactly 0 or 1 had the outcome is not told by cells either.
    """
    curve, sample = profile.curve, profile.sample
    if curve is None:
        return None
    with_outcome = sample.positives > 0
    ends = [np.quantile(sample.score[chosen], (0.0, 1.0)) for chosen in (with_outcome, ~with_outcome)]
    low, high = max(first for first, _ in ends), min(last for _, last in ends)
    inside = (curve[:, 0] >= low) & (curve[:, 0] <= high) & (curve[:, 0] > 0) & (curve[:, 0] < 1)
    return np.asarray(curve[inside]) if inside.any() else None


def _bars(source: AuditSource, group: int, blocks: Blocks) -> dict[str, Any]:
    """The histogram: protected people in the ranges of the audit."""
    ranges, edges = source.counts.ranges, from_grid(source.table.bins.edges)
    people, different = ranges.people[:, group], ranges.different[:, group]
    shown, small = blocks.pair(people, different), blocks.small(people, different)
    nobody = people.sum(axis=0) <= 0
    total = np.where(nobody, 0.0, shown.sum(axis=0)).astype(object)
    events = np.where(nobody, 0.0, shown[0]).astype(object)
    for j in np.flatnonzero(~nobody):
        if small[:, j].all():
            total[j] = Limit(2 * blocks.width + 1, "below")
        if small[0, j]:
            events[j] = Limit(blocks.fewest, "below")
    return {"score_from": edges[:-1], "score_to": edges[1:], "people": total, "positives": events}


def table_rows(source: AuditSource) -> list[int]:
    """For each group that has cells, its place among all groups."""
    places = {size.group: i for i, size in enumerate(source.sizes)}
    return [places[group] for group in source.table.collection.groups]


def _table(source: AuditSource, blocks: Blocks) -> Categories:
    """Cells with protected counts and expected events, whose mean scores stay within their ranges.

    Those with small counts have no numbers, and so take no part in losses.
    """
    table, ranges, rows = source.table, source.counts.ranges, table_rows(source)
    people, different, score = (x[:, rows] for x in (ranges.people, ranges.different, ranges.score))
    somebody = table.people > 0
    shown = np.where(somebody, blocks.pair(people, different), 0.0)
    total = shown.sum(axis=0)
    mean = score.sum(axis=0) / np.maximum(people.sum(axis=0), 1e-300)
    expected = np.vectorize(expected_events, otypes=[np.float64])(mean, total)
    edges = from_grid(table.bins.edges)
    expected = np.clip(expected, total * edges[:-1], total * edges[1:])
    small = blocks.small(people, different).any(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = (shown[0] - expected) / total
    return replace(
        table,
        people=total.astype(np.int64),
        weight=total,
        positives=shown[0],
        score_sum=expected,
        gap=gap,
        share=total / max(float(total[0].sum()), 1.0),
        eligible=table.eligible & ~small & ~undecided_cells(source, blocks)[rows],
    )


def undecided_cells(source: AuditSource, blocks: Blocks) -> BoolArray:
    """Cells, of all groups, of which the page must not tell whether they have enough people to be judged."""
    ranges = source.counts.ranges
    by_limit = [blocks.undecided(ranges.people, ranges.different, limit) for limit in cell_limits(source)]
    return np.asarray(np.any(by_limit, axis=0))


def cell_limits(source: AuditSource) -> tuple[float, float]:
    """How many people a cell needs to be judged: by count, and by share."""
    return source.rule.min_people, source.min_share * float(source.counts.totals.people[:, 0, 0].sum())


def _chance(source: AuditSource, table: Categories, blocks: Blocks, rng: np.random.Generator) -> Chance:
    """What a protected page of a perfect score would show in cells of so many people, by chance."""
    effect = rounded_effect(source.cell_effects)
    filled = table.people > 0
    if not np.isfinite(effect[filled]).any():
        return Chance.unknown(table)
    effect = np.where(np.isfinite(effect), np.maximum(effect, 0.1), 1.0)
    score = np.where(filled, table.mean_score, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt((table.weight * score * (1 - score) + HALF) * effect) / table.weight
        effective = np.where(filled, table.weight / effect, np.nan)
    rates = np.full((source.rule.n_draws, *table.people.shape), np.nan)
    whole = np.maximum(np.rint(effective[filled]), 1).astype(np.int64)
    (drawn,) = draw_outcomes(whole, score[filled], source.rule.n_draws, rng, block=source.rule.n_draws)
    counts = np.stack([drawn, whole - drawn]).astype(np.float64)
    events, others = blocks.pair(counts, counts)
    rates[:, filled] = events / (events + others)
    people = table.weight.astype(np.float64)
    return Chance(error, effective, rates, people, table.people, np.ones(len(table.bins)))


def _tests(source: AuditSource, blocks: Blocks, profiles: Sequence[Profile]) -> list[CalibrationTest]:
    """The tests of level and slope on protected counts; which tests reject is what the exact audit found.

    Of the other tests, of cells and of shapes, only this is told.
    """
    by_name = {profile.size.group.name: profile for profile in reversed(profiles)}
    totals = source.counts.totals
    open_ = blocks.undecided(totals.people[:, :, 0], totals.different[:, :, 0], source.rule.min_group)
    hidden = {size.group.name for size, undecided in zip(source.sizes[1:], open_[1:]) if undecided}
    tests = [test for test in source.tests if test.rejected or test.test not in hidden]
    families: dict[str, list[NamedTest]] = {OVERALL: [], GROUPS: []}
    for test in tests:
        if test.test == SLOPE:
            families[OVERALL].append((SLOPE, _known(slope_test(profiles[0].sample))))
        elif test.test not in NOT_OF_GROUPS:
            family = OVERALL if test.test == EVERYBODY.name else GROUPS
            families[family].append((test.test, _known(events_p_value(by_name[test.test].sample))))
    made = {test.test: test for test in adjust(families)}
    return [_agreeing(made.get(exact.test), exact) for exact in tests]


def _known(test: tuple[float, float]) -> tuple[float, float]:
    return test if np.isfinite(test[1]) else (0.0, 1.0)


def _agreeing(test: CalibrationTest | None, exact: CalibrationTest) -> CalibrationTest:
    """A test on protected counts, if there is one, that agrees with what was found."""
    found = SIGNIFICANCE * (1 - 1e-9) if exact.rejected else 1.0
    if test is None:
        return CalibrationTest(exact.test, float("nan"), found, found, exact.rejected)
    adjusted = test.adjusted_p if exact.rejected == (test.adjusted_p < SIGNIFICANCE) else found
    return CalibrationTest(
        test=exact.test,
        statistic=float(np.copysign(round(abs(test.statistic), 1), exact.statistic)),
        p_value=min(test.p_value, adjusted),
        adjusted_p=adjusted,
        rejected=exact.rejected,
    )
