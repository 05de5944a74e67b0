"""Groups found out of fold: in each half of the people, confirmed in the other half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from propcal.core.grid import IntArray
from propcal.core.groups.groups import Groups
from propcal.data.frames import attribute_columns, require
from propcal.discovery import box_kernels as kernels
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.box_search import Box, Candidate, Data, Space, rows_inside
from propcal.discovery.descriptions import clause, describe, label
from propcal.discovery.feature_rows import MemoryRows
from propcal.discovery.input_rows import read_people, read_table
from propcal.discovery.people import People, correct_for, halves, recalibrate_overall
from propcal.discovery.rounds import SAME_PEOPLE, SMALLEST, Found, Search, search_rounds
from propcal.discovery.row_order import in_own_order
from propcal.errors import Argument, InputError

CONFIRMED = 0.05  # the level of the confirmation, divided by the number of groups
MOST_GROUPS = 10
LEFT = 3.0  # standard errors of an error that stronger groups must leave


@dataclass(frozen=True)
class Confirmed:
    """A group that was found in one half of the people and confirmed in the other."""

    name: str
    condition: str
    share: float


def confirmed_groups(
    score: Any,
    y: Any,
    frame: Any,
    names: Sequence[str],
    *,
    sample_weight: Any = None,
    cluster: Any = None,
    positive: Any = None,
    drop_missing: bool = False,
) -> list[Confirmed]:
    """Find groups in each half of the people by the named columns, and confirm them in the other half."""
    columns = attribute_columns(frame)
    require(list(columns), names)
    given = {"score": score, "y": y, "sample_weight": sample_weight, "cluster": cluster}
    roles = {name: value for name, value in given.items() if value is not None}
    people, own = read_people(
        roles,
        MemoryRows({name: columns[name] for name in names}),
        weight_kind="auto",
        positive=positive,
        drop_missing=drop_missing,
    )
    table, people, _ = in_own_order(read_table(own, people), people)
    boxes = _confirmed(table, people)
    found: list[Confirmed] = []
    taken = [*columns]
    for box in boxes:
        rows = rows_inside(table.features, table.codes, box)
        condition, name = str(clause(table.features, box)), label(table.features, box, {})
        share = float(people.weight[rows].sum() / people.weight.sum())
        found.append(Confirmed(condition if name in taken else name, condition, share))
        taken.append(found[-1].name)
    return found


def _confirmed(table: FeatureTable, people: People) -> list[Box]:
    half = halves(people, 0)
    kept: list[Candidate] = []
    whole = _data(table, people, np.arange(len(people)))
    for side in (0, 1):
        rows, others = np.flatnonzero(half == side), np.flatnonzero(half != side)
        if min(len(rows), len(others)) < 2:
            return []
        part = FeatureTable(table.features, np.ascontiguousarray(table.codes[:, rows]), {})
        found = search_rounds(part, people.part(rows), Search(), lambda _: None).groups
        held = _data(table, people, others)
        for group in found:
            if _holds(held, group, CONFIRMED / len(found)):
                kept.append(Candidate(group.box, group.kind, whole.evidence(group.box, group.kind)))
    return _described(table, people, kept)


def _data(table: FeatureTable, people: People, rows: IntArray) -> Data:
    own = people.part(rows)
    p_value, better = recalibrate_overall(own)
    if p_value < CONFIRMED:
        own.score = better
    codes = np.ascontiguousarray(table.codes[:, rows])
    space = Space(table.features, tuple(True for _ in table.features))
    return Data(space, codes, space.coarse(codes), own.sums(), 1e-3)


def _holds(held: Data, group: Found, level: float) -> bool:
    """Whether a finding has the same sign and is significant among other people."""
    from scipy.special import ndtri

    total = held.totals(held.rows_in(group.box))
    statistic = float(kernels.box_statistic(total, held.smallest, group.kind))
    return bool(statistic * np.sign(group.statistic) > -ndtri(level))


def _described(table: FeatureTable, people: People, kept: list[Candidate]) -> list[Box]:
    """The strongest first, each described with stronger ones corrected for, without the same people twice."""
    chosen: list[tuple[Box, IntArray]] = []
    p_value, score = recalibrate_overall(people)
    whole = p_value < CONFIRMED
    people.score = score if whole else people.raw.copy()
    for start in sorted(kept, key=lambda one: -one.evidence):
        space = Space(table.features, tuple(True for _ in table.features))
        smallest = max(Search().min_share * people.information, SMALLEST)
        data = Data(space, table.codes, space.coarse(table.codes), people.sums(), smallest)
        own = replace(start, evidence=data.evidence(start.box, start.kind))
        rows = data.rows_in(own.box)
        statistic = kernels.box_statistic(data.totals(rows), data.smallest, own.kind)
        if abs(statistic) < LEFT or any(_alike(rows, other) for _, other in chosen):
            continue  # found in the other half as well, or explained by stronger groups
        box = describe(data, [own], own).box
        described = data.rows_in(box)
        if not _alike(rows, described):
            box, described = own.box, rows
        rows = described
        if any(_alike(rows, other) for _, other in chosen):
            continue
        chosen.append((box, rows))
        if len(chosen) == MOST_GROUPS:
            break
        _, people.score = correct_for(people, [other for _, other in chosen], whole=whole)
    return [box for box, _ in chosen]


def _alike(rows: IntArray, others: IntArray) -> bool:
    both = len(np.intersect1d(rows, others, assume_unique=True))
    return both >= SAME_PEOPLE * (len(rows) + len(others) - both)


def with_found(base: Groups, passed: Sequence[str], names: Sequence[str], found: list[Confirmed]) -> Groups:
    """The user's groups and the found ones, each of which is a group by itself.

    Columns that are only searched make no groups themselves.
    """
    own = [name for name in (passed if base.columns is None else base.columns) if name not in names]
    if isinstance(base.intersections, (str, int, np.integer)):
        attributes = Groups(
            columns=own, cuts=base.cuts, where=base.where, as_levels=base.as_levels
        ).attributes([])
        combined = [[attributes[k] for k in places] for places in base.combinations(attributes)]
    else:
        combined = [list(names) for names in base.intersections]
    clash = [group.name for group in found if group.name in (base.where or {})]
    if clash:
        raise InputError(
            Argument("where") + f": {clash[0]!r} is also the name of a group that was found",
            next_step="Rename the condition",
        )
    where = {**(base.where or {}), **{group.name: group.condition for group in found}}
    lists = [*combined, *([group.name] for group in found)]
    return Groups(
        columns=own,
        cuts=base.cuts,
        where=where or None,
        intersections=lists or "marginal",
        missing=base.missing,
        as_levels=base.as_levels,
    )
