"""Groups found out of fold: in each half of the people, confirmed in the other half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from propcal.auditing.named_errors import errors_to_name
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.grid import IntArray
from propcal.core.groups import Groups
from propcal.discovery.binned_features import FeatureTable, name_and_condition
from propcal.discovery.box_search import Candidate, Data, SearchRule, Space
from propcal.discovery.finding_rows import Found
from propcal.discovery.people import (
    OWN_STREAM,
    People,
    correct_for,
    in_own_order,
    people_to_search,
    read_table,
)
from propcal.discovery.search import (
    LEAST_LEFT_SD,
    LEAST_VARIANCE,
    Boxes,
    describe,
    mostly_same,
    search_rounds,
)
from propcal.errors import refused
from propcal.reading.checked_people import CheckedPeople
from propcal.reading.frames import Columns, require
from propcal.reading.source import LazyColumns

CONFIRMATION_LEVEL = 0.05  # divided by the number of groups
MOST_CONFIRMED = 10  # groups
# standard errors of an effect that are put down to the search (chosen on seeds below
# 100)
SEARCH_SD = 3.0
# variance of a group, as small as can be, where a size has been tested already
ANY_SIZE = 1e-3


def confirmed_groups(
    checked: CheckedPeople, columns: Columns, names: Sequence[str]
) -> tuple[dict[str, str], dict[str, float]]:
    """Find groups in each half of the people by the named columns, and confirm them in
    the other half.

    Returns the condition of each group by its name, and the share of its effect that is
    not put down to the search.
    """
    require(list(columns), names)
    people = people_to_search(checked, weight_kind="auto")
    searched = LazyColumns.of({name: columns[name] for name in names})
    table = read_table(searched.kept(checked.used), people)
    table, people, _ = in_own_order(table, people)
    conditions: dict[str, str] = {}
    shares: dict[str, float] = {}
    for found in _confirmed(table, people):
        taken = [*columns, *conditions]
        name, condition = name_and_condition(table.features, found.box, {}, taken)
        conditions[name] = condition
        shares[name] = max(1 - (SEARCH_SD / found.statistic) ** 2, 0.0)
    return conditions, shares


def _confirmed(table: FeatureTable, people: People) -> list[Found]:
    """The boxes that hold in the half they were not found in, described with all
    people.
    """
    half = _halves(people)
    if min(np.bincount(half, minlength=2)) < 2:
        return []
    whole = _recalibrate(people)
    everybody = Data(Space(table), table.codes, people.sums(), ANY_SIZE)
    candidates: list[Candidate] = []
    for side in (0, 1):
        rows = np.flatnonzero(half == side)
        other_rows = np.flatnonzero(half != side)
        others = people.part(other_rows)
        outcome = search_rounds(
            table.part(rows), people.part(rows), SearchRule(), lambda _: None
        )
        _recalibrate(others)
        codes = table.part(other_rows).codes
        held_out = Data(everybody.space, codes, others.sums(), ANY_SIZE)
        for group in outcome.groups:
            if _holds(held_out, group, CONFIRMATION_LEVEL / len(outcome.groups)):
                candidates.append(everybody.candidate(group.box, group.kind))
    candidates.sort(key=lambda candidate: -candidate.evidence)
    boxes = _Confirmed(people, everybody, candidates, whole=whole)
    return errors_to_name(boxes, MOST_CONFIRMED)


def _halves(people: People) -> IntArray:
    """0 or 1 for each row, at random; all rows of a person have the same."""
    rng = np.random.default_rng([OWN_STREAM, 0])
    if people.cluster is None:
        return rng.integers(0, 2, len(people))
    return rng.integers(0, 2, int(people.cluster.max()) + 1)[people.cluster]


def _recalibrate(people: People) -> bool:
    """Correct the score as a whole if one smooth curve improves it; returns whether it
    does.
    """
    p_value, recalibrated = correct_for(people, [], whole=True)
    if p_value >= CONFIRMATION_LEVEL:
        return False
    people.score = recalibrated
    return True


def _holds(held_out: Data, group: Found, level: float) -> bool:
    """Whether a finding has the same sign and is significant among other people."""
    rows = held_out.rows_in(group.box)
    statistic = held_out.statistic(rows, group.kind)
    return bool(statistic * np.sign(group.statistic) > -special.ndtri(level))


class _Confirmed(Boxes):
    """Boxes that were confirmed, each described with those before it corrected for."""

    def __init__(
        self, people: People, data: Data, candidates: list[Candidate], *, whole: bool
    ) -> None:
        super().__init__(people, whole=whole)
        self.data = data
        self.candidates = candidates

    def clearest(self, named: Sequence[Found]) -> Found | None:
        """The strongest that is left, of people who are not named yet."""
        if named:
            self.people.score = self.corrected(named)
        smallest = max(SearchRule().min_share * self.people.information, LEAST_VARIANCE)
        data = Data(self.data.space, self.data.codes, self.people.sums(), smallest)
        while self.candidates:
            start = self.candidates.pop(0)
            candidate = data.candidate(start.box, start.kind)
            rows = data.rows_in(start.box)
            if abs(data.statistic(rows, start.kind)) < LEAST_LEFT_SD:
                continue  # explained by stronger groups
            if _among(rows, named):
                continue  # found in the other half as well
            box = start.box
            simple = describe(data, [candidate], candidate).box
            simple_rows = data.rows_in(simple)
            if mostly_same(rows, simple_rows):
                box = simple
                rows = simple_rows
            if not _among(rows, named):
                return Found(box, start.kind, rows, data.statistic(rows, start.kind))
        return None


def _among(rows: IntArray, named: Sequence[Found]) -> bool:
    return any(mostly_same(rows, one.rows) for one in named)


def weakened(
    start: SmoothStart | None, shares: Mapping[str, float]
) -> SmoothStart | None:
    """A recalibration with only a share of the effect of each group found: the search
    exaggerates it.
    """
    if start is None:
        return None
    share_kept = []
    for group in start.groups:
        of_group = [shares.get(name, 1.0) for name, _ in group.conditions]
        share_kept.append(min(of_group, default=1.0))
    shifts = np.rint(start.shifts * np.array(share_kept)[:, None]).astype(np.int64)
    has_effect = shifts.any(axis=1)
    groups = tuple(group for group, keep in zip(start.groups, has_effect) if keep)
    if not groups:
        return None
    return SmoothStart(groups, shifts[has_effect])


def with_found(
    base: Groups, passed: Sequence[str], names: Sequence[str], found: Mapping[str, str]
) -> Groups:
    """The user's groups and the found ones, each of which is a group by itself.

    Columns that are only searched make no groups themselves.
    """
    clash = [name for name in found if name in (base.where or {})]
    if clash:
        raise refused("found name taken", name=clash[0])
    columns = passed if base.columns is None else base.columns
    own = [name for name in columns if name not in names]
    if isinstance(base.intersections, (str, int, np.integer)):
        attributes = replace(base, columns=own).attributes([])
        combined = []
        for places in base.combinations(attributes):
            combined.append([attributes[k] for k in places])
    else:
        combined = [list(names) for names in base.intersections]
    combined += [[name] for name in found]
    where = {**(base.where or {}), **found}
    return replace(
        base,
        columns=own,
        where=where or None,
        intersections=combined or "marginal",
        depth=None,
    )
