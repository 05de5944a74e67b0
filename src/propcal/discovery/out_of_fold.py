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
from propcal.discovery.box_search import Candidate, Data, Search, Space
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
    LEFT,
    SMALLEST,
    Boxes,
    describe,
    mostly_same,
    search_rounds,
)
from propcal.errors import refused
from propcal.reading.checked_people import CheckedPeople
from propcal.reading.frames import Columns, require
from propcal.reading.source import LazyColumns

CONFIRMED = 0.05  # the level of the confirmation, divided by the number of groups
MOST_GROUPS = 10
# standard errors of an effect that are put down to the search (chosen on seeds below
# 100)
BY_SEARCH = 3.0
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
    found: dict[str, str] = {}
    shares: dict[str, float] = {}
    for one in _confirmed(table, people):
        name, condition = name_and_condition(
            table.features, one.box, {}, [*columns, *found]
        )
        found[name] = condition
        shares[name] = max(1 - (BY_SEARCH / one.statistic) ** 2, 0.0)
    return found, shares


def _confirmed(table: FeatureTable, people: People) -> list[Found]:
    """The boxes that hold in the half they were not found in, described with all
    people.
    """
    half = _halves(people)
    if min(np.bincount(half, minlength=2)) < 2:
        return []
    candidates: list[Candidate] = []
    whole = _recalibrate(people)
    everybody = Data(Space(table), table.codes, people.sums(), ANY_SIZE)
    for side in (0, 1):
        rows = np.flatnonzero(half == side)
        others = people.part(np.flatnonzero(half != side))
        found = search_rounds(
            table.part(rows), people.part(rows), Search(), lambda _: None
        ).groups
        _recalibrate(others)
        codes = table.part(np.flatnonzero(half != side)).codes
        held = Data(everybody.space, codes, others.sums(), ANY_SIZE)
        candidates += [
            everybody.candidate(group.box, group.kind)
            for group in found
            if _holds(held, group, CONFIRMED / len(found))
        ]
    strongest_first = sorted(candidates, key=lambda one: -one.evidence)
    boxes = _Confirmed(people, everybody, strongest_first, whole=whole)
    return errors_to_name(boxes, MOST_GROUPS)


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
    p_value, better = correct_for(people, [], whole=True)
    if p_value < CONFIRMED:
        people.score = better
    return p_value < CONFIRMED


def _holds(held: Data, group: Found, level: float) -> bool:
    """Whether a finding has the same sign and is significant among other people."""
    statistic = held.statistic(held.rows_in(group.box), group.kind)
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
        smallest = max(Search().min_share * self.people.information, SMALLEST)
        data = Data(self.data.space, self.data.codes, self.people.sums(), smallest)
        while self.candidates:
            start = self.candidates.pop(0)
            candidate = data.candidate(start.box, start.kind)
            rows = data.rows_in(start.box)
            if abs(data.statistic(rows, start.kind)) < LEFT or _among(rows, named):
                # found in the other half as well, or explained by stronger groups
                continue
            simple = describe(data, [candidate], candidate).box
            same = mostly_same(rows, data.rows_in(simple))
            box, rows = (simple, data.rows_in(simple)) if same else (start.box, rows)
            if not _among(rows, named):
                return Found(box, start.kind, rows, data.statistic(rows, start.kind))
        return None


def _among(rows: IntArray, named: Sequence[Found]) -> bool:
    return any(mostly_same(rows, one.rows) for one in named)


def weakened(
    start: SmoothStart | None, shares: Mapping[str, float]
) -> SmoothStart | None:
    """A recalibration with only a share of the effect of each group found: the search
    overstates it.
    """
    if start is None:
        return None
    of = [
        min((shares.get(name, 1.0) for name, _ in group.conditions), default=1.0)
        for group in start.groups
    ]
    shifts = np.rint(start.shifts * np.array(of)[:, None]).astype(np.int64)
    kept = shifts.any(axis=1)
    groups = tuple(group for group, keep in zip(start.groups, kept) if keep)
    return SmoothStart(groups, shifts[kept]) if groups else None


def with_found(
    base: Groups, passed: Sequence[str], names: Sequence[str], found: Mapping[str, str]
) -> Groups:
    """The user's groups and the found ones, each of which is a group by itself.

    Columns that are only searched make no groups themselves.
    """
    clash = [name for name in found if name in (base.where or {})]
    if clash:
        raise refused("found name taken", name=clash[0])
    own = [
        name
        for name in (passed if base.columns is None else base.columns)
        if name not in names
    ]
    combined = base.intersections
    if isinstance(combined, (str, int, np.integer)):
        attributes = replace(base, columns=own).attributes([])
        combined = [
            [attributes[k] for k in places] for places in base.combinations(attributes)
        ]
    where = {**(base.where or {}), **found}
    lists = [*map(list, combined), *([name] for name in found)]
    return replace(
        base,
        columns=own,
        where=where or None,
        intersections=lists or "marginal",
        depth=None,
    )
