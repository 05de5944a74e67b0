"""Groups found out of fold: in each half of the people, confirmed in the other half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from propcal.core.grid import IntArray
from propcal.core.groups.groups import Groups
from propcal.data.frames import attribute_columns, require
from propcal.data.source import Table
from propcal.discovery.binned_features import Box, FeatureTable, clause, label
from propcal.discovery.box_search import Candidate, Data, Search, Space
from propcal.discovery.input_rows import in_own_order, read_people, read_table
from propcal.discovery.people import OWN_STREAM, People, correct_for
from propcal.discovery.search_rounds import SMALLEST, Found, describe, mostly_same, search_rounds
from propcal.errors import Argument, InputError

CONFIRMED = 0.05  # the level of the confirmation, divided by the number of groups
MOST_GROUPS = 10
ANY_SIZE = 1e-3  # variance of a group, as small as can be, where a size has been tested already
LEFT = 3.0  # standard errors of an error that stronger groups must leave


@dataclass(frozen=True)
class Confirmed:
    """A group that was found in one half of the people and confirmed in the other."""

    name: str
    condition: str


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
        Table.of({name: columns[name] for name in names}),
        weight_kind="auto",
        positive=positive,
        drop_missing=drop_missing,
    )
    table, people, _ = in_own_order(read_table(own, people), people)
    confirmed: list[Confirmed] = []
    taken = [*columns]
    for box, _ in _confirmed(table, people):
        condition, name = str(clause(table.features, box)), label(table.features, box, {})
        confirmed.append(Confirmed(condition if name in taken else name, condition))
        taken.append(confirmed[-1].name)
    return confirmed


def _confirmed(table: FeatureTable, people: People) -> list[tuple[Box, IntArray]]:
    """The boxes that hold in the half they were not found in, described with all people, and their rows."""
    half = _halves(people)
    if min(np.bincount(half, minlength=2)) < 2:
        return []
    candidates: list[Candidate] = []
    whole = _recalibrate(people)
    everybody = Data(Space(table), table.codes, people.sums(), ANY_SIZE)
    for side in (0, 1):
        rows, others = np.flatnonzero(half == side), people.part(np.flatnonzero(half != side))
        found = search_rounds(table.part(rows), people.part(rows), Search(), lambda _: None).groups
        _recalibrate(others)
        codes = table.part(np.flatnonzero(half != side)).codes
        held = Data(everybody.space, codes, others.sums(), ANY_SIZE)
        candidates += [
            everybody.candidate(group.box, group.kind)
            for group in found
            if _holds(held, group, CONFIRMED / len(found))
        ]
    strongest_first = sorted(candidates, key=lambda one: -one.evidence)
    return _described(everybody, people, strongest_first, whole=whole)


def _halves(people: People) -> IntArray:
    """0 or 1 for each row, at random; all rows of a person have the same."""
    rng = np.random.default_rng([OWN_STREAM, 0])
    if people.cluster is None:
        return rng.integers(0, 2, len(people))
    return rng.integers(0, 2, int(people.cluster.max()) + 1)[people.cluster]


def _recalibrate(people: People) -> bool:
    """Correct the score as a whole if one smooth curve improves it; returns whether it does."""
    p_value, better = correct_for(people, [], whole=True)
    if p_value < CONFIRMED:
        people.score = better
    return p_value < CONFIRMED


def _holds(held: Data, group: Found, level: float) -> bool:
    """Whether a finding has the same sign and is significant among other people."""
    statistic = held.statistic(held.rows_in(group.box), group.kind)
    return bool(statistic * np.sign(group.statistic) > -special.ndtri(level))


def _described(
    data: Data, people: People, candidates: Sequence[Candidate], *, whole: bool
) -> list[tuple[Box, IntArray]]:
    """Describe each with the ones before it corrected for, without the same people twice."""
    chosen: list[tuple[Box, IntArray]] = []
    for start in candidates:
        smallest = max(Search().min_share * people.information, SMALLEST)
        data = Data(data.space, data.codes, people.sums(), smallest)
        candidate, rows = data.candidate(start.box, start.kind), data.rows_in(start.box)
        if abs(data.statistic(rows, start.kind)) < LEFT or any(mostly_same(rows, r) for _, r in chosen):
            continue  # found in the other half as well, or explained by stronger groups
        box = describe(data, [candidate], candidate).box
        if mostly_same(rows, data.rows_in(box)):
            rows = data.rows_in(box)
        else:
            box = start.box
        if any(mostly_same(rows, r) for _, r in chosen):
            continue
        chosen.append((box, rows))
        if len(chosen) == MOST_GROUPS:
            break
        _, people.score = correct_for(people, [r for _, r in chosen], whole=whole)
    return chosen


def with_found(
    base: Groups, passed: Sequence[str], names: Sequence[str], found: Sequence[Confirmed]
) -> Groups:
    """The user's groups and the found ones, each of which is a group by itself.

    Columns that are only searched make no groups themselves.
    """
    clash = [group.name for group in found if group.name in (base.where or {})]
    if clash:
        raise InputError(
            Argument("where") + f": {clash[0]!r} is also the name of a group that was found",
            next_step="Rename the condition",
        )
    own = [name for name in (passed if base.columns is None else base.columns) if name not in names]
    combined = base.intersections
    if isinstance(combined, (str, int, np.integer)):
        attributes = replace(base, columns=own).attributes([])
        combined = [[attributes[k] for k in places] for places in base.combinations(attributes)]
    where = {**(base.where or {}), **{group.name: group.condition for group in found}}
    lists = [*map(list, combined), *([group.name] for group in found)]
    return replace(base, columns=own, where=where or None, intersections=lists or "marginal", depth=None)
