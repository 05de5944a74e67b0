"""What an attacker can work out from a protected page: the fewest and the most people
that a count may be.

Everything that a page tells about counts is a range for a sum of unknown whole numbers:
people of one pattern (a combination of levels), one range of scores, and one outcome.
Integer programming finds the least and the largest value that such a sum may have."""

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, LinearConstraint, milp

from propcal.core.groups import membership
from propcal.numbers import Limit, known
from propcal.protect.protected_audits import protected_audit

MOVED, FEWEST = 2, 11
ENDLESS = np.inf


def told_counts(people, events):
    """What a row tells: ranges of people with the outcome, without it, and of both
    together.
    """
    ends = {"events": (0, ENDLESS), "others": (0, ENDLESS), "people": (0, ENDLESS)}
    if isinstance(people, Limit):  # both are small
        return {**ends, "events": (0, FEWEST - 1), "others": (0, FEWEST - 1)}
    if known(people):
        ends["people"] = (0, 0) if people == 0 else (people - MOVED, people + MOVED)
    if isinstance(events, Limit):
        small, large = (
            ("events", "others") if events.side == "below" else ("others", "events")
        )
        return {**ends, small: (0, FEWEST - 1), large: (FEWEST, ENDLESS)}
    if known(events) and people:
        return {
            **ends,
            "events": (max(events - MOVED, FEWEST), events + MOVED),
            "others": (FEWEST, ENDLESS),
        }
    return ends


class Page:
    """All that a protected page tells about counts, as ranges of sums.

    Unknown are people by outcome, pattern and piece of the score between all edges that
    matter."""

    def __init__(self, a, thresholds=False, patterns=None):
        self.counts, self.shown = a._source.counts, protected_audit(a, 11)
        self.patterns = a._source.people.patterns if patterns is None else patterns
        self.inside = membership(self.counts.groups, self.patterns)
        self.bins = np.array(a.settings["edges"])
        more = self.counts.thresholds if thresholds else []
        self.edges = np.unique(np.concatenate([self.bins, more]).round(9))
        self.rows, self.low, self.high = [], [], []
        self.names = {group.name: g for g, group in enumerate(self.counts.groups)}
        self._tell_groups(a.settings["min_group"])
        self._tell_cells(a.settings["min_people"])
        if thresholds:
            self._tell_thresholds()

    @property
    def shape(self):
        return 2, self.inside.shape[1], len(self.edges) - 1

    def chosen(self, outcome, group, low=0.0, high=1.0):
        """The unknowns of a group within a range of scores."""
        middles = (self.edges[1:] + self.edges[:-1]) / 2
        row = np.zeros(self.shape)
        row[
            np.ix_([outcome], self.inside[group], (middles > low) & (middles < high))
        ] = 1
        return row.ravel()

    def tell(self, row, low, high):
        if np.isfinite(high) or low > 0:
            self.rows.append(row)
            self.low.append(low)
            self.high.append(high)

    def _tell(self, group, people, events, low=0.0, high=1.0):
        with_it, without = (
            self.chosen(outcome, group, low, high) for outcome in (0, 1)
        )
        told = told_counts(people, events)
        for name, row in (
            ("events", with_it),
            ("others", without),
            ("people", with_it + without),
        ):
            self.tell(row, *told[name])

    def _tell_groups(self, fewest):
        for _, row in self.shown.groups.iterrows():
            g = self.names[row["group"]]
            self._tell(g, row["people"], row["positives"])
            if g and row["kept"] and not row["reason"]:
                self.tell(self.chosen(0, g) + self.chosen(1, g), fewest, ENDLESS)

    def _tell_cells(self, fewest):
        """Histograms have the counts of every cell; the table of cells has those of
        large groups.
        """
        for _, bar in self.shown.distribution.iterrows():
            g = self.names[bar["group"]]
            self._tell(
                g, bar["people"], bar["positives"], bar["score_from"], bar["score_to"]
            )
        for _, cell in self.shown.categories.iterrows():
            low, high = (float(part) for part in cell["bin"].strip("[]()").split(","))
            g = self.names[cell["group"]]
            self._tell(g, cell["people"], cell["positives"], low, high)
            if cell["eligible"]:
                self.tell(
                    self.chosen(0, g, low, high) + self.chosen(1, g, low, high),
                    fewest,
                    ENDLESS,
                )

    def _tell_thresholds(self):
        """Shares of a known total are counts."""
        groups = self.shown.groups.set_index("group")
        for _, row in self.shown.net_benefit.iterrows():
            if not known(row["sensitivity"]):
                continue
            g, own = self.names[row["group"]], groups.loc[row["group"]]
            right = round(row["sensitivity"] * own["positives"])
            flagged = round(row["treated"] * own["people"])
            for count, outcomes in ((right, (0,)), (flagged, (0, 1))):
                chosen = sum(
                    self.chosen(outcome, g, row["threshold"], 1.0)
                    for outcome in outcomes
                )
                self.tell(chosen, count - MOVED, count + MOVED)

    def range_of(self, row):
        """The fewest and the most that a sum of unknowns may be."""
        ends = []
        limits = LinearConstraint(np.array(self.rows), self.low, self.high)
        for sign in (1, -1):
            found = milp(
                sign * row,
                constraints=limits,
                bounds=Bounds(0, ENDLESS),
                integrality=np.ones(len(row)),
                options={"time_limit": 120},
            )
            assert found.fun is not None, found.message
            ends.append(
                round(sign * found.fun)
            )  # when time is up: the best found so far
        return ends

    def small_counts(self):
        """Every count from 0 to 10 of a group, or of a group in a risk range, that has
        people.
        """
        counts, seen = self.counts, set()
        for g in range(len(counts.groups)):
            ends = [(0.0, 1.0), *zip(self.bins[:-1], self.bins[1:])]
            both = [counts.totals.people[:, g, 0], *counts.ranges.people[:, g].T]
            for (low, high), pair in zip(ends, both):
                for outcome in (0, 1):
                    row = self.chosen(outcome, g, low, high)
                    if (
                        pair[outcome] < FEWEST
                        and pair.sum()
                        and row.tobytes() not in seen
                    ):
                        seen.add(row.tobytes())
                        yield row, int(pair[outcome])


def widths(a, most=None, seed=0, **settings):
    """How many values each small count may have, for so many of them chosen at
    random.
    """
    page = Page(a, **settings)
    small = list(page.small_counts())
    if most is not None:
        small = [
            small[i] for i in np.random.default_rng(seed).permutation(len(small))[:most]
        ]
    found = []
    for row, count in small:
        low, high = page.range_of(row)
        assert low <= count <= high
        found.append(high - low + 1)
    return found


def people(n, seed, levels=(("A", "B", "C"), ("F", "M")), power=3.0):
    """Some levels are rare, and so is the outcome at low scores."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            f"attribute{i}": rng.choice(
                list(each), n, p=(w := np.arange(1, len(each) + 1) ** power) / w.sum()
            )
            for i, each in enumerate(levels)
        }
    )
    score = rng.beta(1.3, 4, n)
    return frame, score, (rng.random(n) < score).astype(int)


def random_people(seed):
    """600 to 10,000 people of 4 to 8 races and two sexes."""
    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(np.log(600), np.log(10_000))))
    races = "ABCDEFGH"[: rng.integers(4, 9)]
    return people(n, seed, (tuple(races), ("F", "M")), power=rng.uniform(1.5, 3.5))
