"""What an attacker can work out from a protected page: the fewest and the most people that a count may be.

Everything that a page tells about counts is a range for a sum of unknown whole numbers: people of one
pattern (a combination of levels), one narrow range of scores, and one outcome. Integer programming finds the
least and the largest value that such a sum may have.
"""

import json

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from propcal.core.groups.collection import membership
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected_sample import cell_starts

MIDDLE = 5
INFINITE = np.inf


def block(shown):
    """The counts that are shown as this number."""
    return (0, 10) if shown is None or shown == MIDDLE else (shown - MIDDLE + 1, shown + MIDDLE)


def both(people, positives):
    """What is shown of people with and without the outcome."""
    if people is None:
        return None, None
    if positives is None:
        return None, people - MIDDLE
    return positives, people - positives


def small_one(people, positives):
    """Which of the two counts is small, if only one is."""
    if people is None:
        return None
    return 0 if positives is None else 1 if people - positives == MIDDLE else None


class Page:
    """All that the JSON of a protected audit tells about counts, as ranges of sums.

    Unknown are people by outcome, pattern and piece: ranges of scores between all edges that matter.
    """

    def __init__(self, a, pieces=True):
        self.source = a._source
        self.content = json.loads(a.to_json(suppress=11))
        self.groups = [size.group for size in self.source.sizes]
        self.inside = membership(self.groups, self.source.people.patterns)
        self.bins = np.array(self.content["settings"]["edges"])
        self.grid = np.concatenate([[0.0], _grid()])
        cells = self._cell_edges() if pieces else np.empty(0)
        self.edges = np.unique(np.concatenate([self.bins, cells]).round(9))
        self.rows, self.low, self.high = [], [], []
        self._tell_groups()
        self._tell_bars()
        if pieces:
            self._tell_cells()

    @property
    def shape(self):
        return 2, self.inside.shape[1], len(self.edges) - 1

    def chosen(self, outcome, group, low=0.0, high=1.0):
        """The unknowns of a group within a range of scores."""
        middles = (self.edges[1:] + self.edges[:-1]) / 2
        row = np.zeros(self.shape)
        row[np.ix_([outcome], self.inside[group], (middles > low) & (middles < high))] = 1
        return row.ravel()

    def tell(self, row, low, high):
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def _tell_both(self, group, people, positives, low=0.0, high=1.0):
        rows = [self.chosen(outcome, group, low, high) for outcome in (0, 1)]
        small = small_one(people, positives)
        if small is None:
            for row, shown in zip(rows, both(people, positives)):
                self.tell(row, *block(shown))
        else:  # the block is that of both together
            self.tell(rows[small], 0, 10)
            self.tell(rows[0] + rows[1], *block(people))

    def _tell_groups(self):
        fewest = self.content["settings"]["min_group"]
        for i, group in enumerate(self.content["groups"]):
            self._tell_both(i, group["people"], group["positives"])
            if group["kept"] and i and not group["reason"]:
                self.tell(self.chosen(0, i) + self.chosen(1, i), fewest, INFINITE)

    def _tell_bars(self):
        """Histograms have the counts of every cell; cells that are not listed are empty."""
        places = {group["group"]: i for i, group in enumerate(self.content["groups"])}
        for bars in self.content["distribution"]:
            group = places[bars["group"]]
            for low, high, people, positives in zip(
                bars["score_from"], bars["score_to"], bars["people"], bars["positives"]
            ):
                if people == 0:
                    for outcome in (0, 1):
                        self.tell(self.chosen(outcome, group, low, high), 0, 0)
                else:
                    self._tell_both(group, people, positives, low, high)
        fewest = self.content["settings"]["min_people"]
        for cell in self.content["categories"]:
            low, high = (float(part) for part in cell["bin"].strip("[]()").split(","))
            group = places[cell["group"]]
            self._tell_both(group, cell["people"], cell["positives"], low, high)
            together = self.chosen(0, group, low, high) + self.chosen(1, group, low, high)
            self.tell(together, fewest if cell["eligible"] else 1, INFINITE)

    def _measured(self):
        """Groups and outcomes whose cells can be seen in measures and curves."""
        totals, blocks = self.source.counts.totals, Blocks(11)
        for i in range(len(self.groups)):
            small = blocks.small(totals.people[:, i, 0], totals.different[:, i, 0])
            for outcome in (0, 1):
                if self.source.measured[i] and not small.any():
                    starts, least = cell_starts(self.source.counts.fine, outcome, i, blocks)
                    yield outcome, i, starts, [*starts[1:], len(self.grid) - 1], least

    def _cell_edges(self):
        """Edges of the cells, and of the step of the grid before each."""
        places = [place for _, _, starts, ends, _ in self._measured() for place in (*starts, *ends)]
        return self.grid[np.unique([*places, *(max(place - 1, 0) for place in places)])]

    def _tell_cells(self):
        """Curves may give away where cells end, which tells that they were not full a step before."""
        fine = self.source.counts.fine
        for outcome, group, starts, ends, least in self._measured():
            for begin, end in zip(starts, ends):
                count = fine.people[outcome, group, begin:end].sum()
                shown = float(Blocks(11).shown(count, count))
                self.tell(self.chosen(outcome, group, self.grid[begin], self.grid[end]), *block(shown))
                if end < ends[-1]:
                    before = self.chosen(outcome, group, self.grid[begin], self.grid[end - 1])
                    self.tell(before, 0, least)

    def range_of(self, row):
        """The fewest and the most that a sum of unknowns may be."""
        ends = []
        limits = LinearConstraint(np.array(self.rows), self.low, self.high)
        for sign in (1, -1):
            found = milp(
                sign * row,
                constraints=limits,
                bounds=Bounds(0, INFINITE),
                integrality=np.ones(len(row)),
                options={"time_limit": 20},
            )
            assert found.fun is not None, found.message
            ends.append(round(sign * found.fun))  # when time is up: the best found so far
        return ends

    def small_counts(self):
        """Every count from 1 to 10 of a group, or of a group in a bin: its unknowns, and the count."""
        counts, seen = self.source.counts, set()
        for group in range(len(self.groups)):
            for outcome in (0, 1):
                rows = [(counts.totals.people[outcome, group, 0], self.chosen(outcome, group))]
                for j, (low, high) in enumerate(zip(self.bins[:-1], self.bins[1:])):
                    row = self.chosen(outcome, group, low, high)
                    rows.append((counts.ranges.people[outcome, group, j], row))
                for count, row in rows:
                    if 0 < count < 11 and row.tobytes() not in seen:
                        seen.add(row.tobytes())
                        yield row, int(count)


def _grid():
    from propcal.auditing.cell_counts import fine_ranges
    from propcal.core.grid import from_grid

    return from_grid(fine_ranges().edges)[1:]


def widths(a, most=None, seed=0, pieces=True):
    """How many values each count from 1 to 10 may have, for so many of them chosen at random."""
    page = Page(a, pieces)
    small = list(page.small_counts())
    if most is not None:
        small = [small[i] for i in np.random.default_rng(seed).permutation(len(small))[:most]]
    found = []
    for row, count in small:
        low, high = page.range_of(row)
        assert low <= count <= high
        found.append(high - low + 1)
    return found
