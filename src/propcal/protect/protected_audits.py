"""Audits for release: findings are protected once, before they are put into words.

What was found stays what the audit found, rounded. Counts are protected, and everything
that follows from them is computed from the counts that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit, assemble
from propcal.auditing.audit_tables import ENDS, AuditTables, stacked_columns
from propcal.auditing.claims import Claim, with_numbers
from propcal.auditing.findings import AuditedPeople, Findings
from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.auditing.statistics.hypothesis_tests import NOT_OF_GROUPS
from propcal.auditing.statistics.measures import net_benefit_variance, threshold_columns
from propcal.core.atoms import LeftOutReport
from propcal.core.grid import BoolArray, FloatArray, IntArray, from_grid
from propcal.numbers import RATIO_DIGITS, Limit, known
from propcal.protect.disclosure_rule import (
    P_DIGITS,
    SATURATED,
    Rule,
    moved,
    shown_p,
)
from propcal.protect.shared_atoms import are_shared
from propcal.protect.shown_cells import ShownCells
from propcal.protect.shown_counts import (
    CURVE_DIGITS,
    Sets,
    ShownCounts,
    printed,
    shown_table,
)

STATISTIC_DIGITS = 1
EFFECT_DIGITS = 1  # of design effects
SMALLEST_EFFECT = 0.1
MEAN_SQUARE_DIGITS = 4
TYPICAL_DIGITS = 3
REACH = 1.96  # standard errors


def protected_audit(audit: Audit, fewest: int | None) -> Audit:
    """An audit with protected counts; 0 or None protects nothing."""
    return protected_audits([audit], fewest)[0]


def protected_audits(audits: Sequence[Audit], fewest: int | None) -> list[Audit]:
    """Audits of different scores of the same people: what is withheld in one is
    withheld in all of them.
    """
    rule = Rule.asked(fewest)
    findings = [audit._source for audit in audits if audit._source is not None]
    if rule is None or len(findings) < len(audits):
        return [*audits]
    if are_shared(findings[0].shared, rule.fewest):  # they were protected before
        return [*audits]
    protected = protected_findings(findings, rule)
    return [assemble(one, audit.identity) for one, audit in zip(protected, audits)]


def protected_findings(findings: Sequence[Findings], rule: Rule) -> list[Findings]:
    """What may be shown of different scores of the same people."""
    groups = findings[0].counts.groups
    sets = Sets()
    totals = sets.add(findings[0].counts.totals)
    places = []
    for one in findings:
        in_own_order = [groups.index(group) for group in one.counts.groups]
        whole = totals[in_own_order]
        ranges_and_above = sets.add_ranges(one.counts, whole)
        places.append(np.concatenate([whole, ranges_and_above], axis=1))
    shown = sets.shown(rule)
    protected = []
    for one, own in zip(findings, places):
        protected.append(_ProtectedFindings(one, own, shown).findings())
    return protected


class _ProtectedFindings:
    """The counts of an audit as they are shown, and everything that follows from
    them.
    """

    def __init__(self, exact: Findings, places: IntArray, shown: ShownCounts) -> None:
        """`places` are those of each group, of its risk ranges, and of its people above
        each edge.
        """
        self.exact = exact
        self.counts = exact.counts
        self.rule = shown.rule
        self.n_groups = len(places)
        self.names = [group.name for group in self.counts.groups]
        ends_of_parts = [1, 1 + len(self.counts.bins)]
        whole, ranges, above = np.split(places, ends_of_parts, axis=1)
        # thresholds near hidden edges are not shown
        self.hidden_edges = np.isnan(shown.people[above])
        of_groups = whole.ravel()
        of_ranges = ranges.ravel()
        own = np.concatenate([of_groups, of_ranges])
        headcounts = [self.counts.totals, self.counts.ranges]
        headcount = Headcount.joined(headcounts)
        scores = self._scores()
        self.shown = ShownCounts.part_of(shown, own, headcount, scores)
        large_groups = self.shown.large[: self.n_groups]
        self.large = large_groups & ~self._saturated()
        self.cells = ShownCells(exact, self.shown, first=self.n_groups)

    def _scores(self) -> Iterator[tuple[int, ScoreValues]]:
        """The different scores of groups and cells, with their places."""
        edges = from_grid(self.counts.bins.edges)
        edges[-1] = np.inf
        for g, scores in enumerate(self.counts.values or []):
            yield g, scores
            n_ranges = len(self.counts.bins)
            first = self.n_groups + g * n_ranges
            for place, (low, high) in enumerate(pairwise(edges), start=first):
                yield place, scores.between(low, high)

    def _saturated(self) -> BoolArray:
        """Groups with so few different scores that their measures together reveal a
        small count.
        """
        saturated = np.zeros(self.n_groups, dtype=np.bool_)
        for g, scores in enumerate(self.counts.values or []):
            others = scores.people - scores.events
            with_and_without = np.concatenate([scores.events, others])
            small = self.rule.small(with_and_without)
            few_scores = len(scores.score) <= SATURATED
            saturated[g] = few_scores and bool(small.any())
        return saturated

    def findings(self) -> Findings:
        """The findings with everything replaced that counts reveal."""
        exact = self.exact
        groups = self._groups()
        categories = self.cells.categories()
        losses = self.cells.losses()
        typical_gaps = exact.shown.debiased.apply(_printed_mean_squares)
        curves = self._curves()
        net_benefit = self._net_benefit()
        distribution = self._distribution()
        tests = self._tests()
        bin_free = self._bin_free()
        shown = AuditTables(
            groups=groups,
            categories=categories,
            losses=losses,
            debiased=typical_gaps,
            curves=curves,
            net_benefit=net_benefit,
            distribution=distribution,
            tests=tests,
            smallest_alpha=None,
            bin_free=bin_free,
        )
        claims = [self._claim(claim, groups, categories) for claim in exact.claims]
        people = self._people()
        return replace(
            exact,
            people=people,
            shown=shown,
            claims=tuple(claims),
            fewest=self.rule.fewest,
        )

    def _groups(self) -> pd.DataFrame:
        """The table of groups."""
        exact = self.exact.shown.groups
        effect = exact["design_effect"].clip(lower=SMALLEST_EFFECT)
        shown_effect = printed(effect, EFFECT_DIGITS)
        columns: dict[str, Any] = {"design_effect": shown_effect}
        for end in ENDS:
            left_over = exact[f"left_over{end}"]
            columns[f"left_over{end}"] = printed(left_over, RATIO_DIGITS, self.large)
        for name in ("certain_within", "shown_within"):
            columns[name] = self._largest_errors(exact[name])

        sets = range(self.n_groups)
        small = self.shown.small[:, sets].any(axis=0)
        findings = exact["finding"].tolist()
        ratios = exact["observed_expected"].tolist()
        limits: list[tuple[Any, Any] | None] = [None] * self.n_groups
        for i in np.flatnonzero(small).tolist():
            limits[i] = self.shown.limits_at(i, findings[i], ratios[i])
        columns["limits"] = limits
        return shown_table(exact, self.shown, sets, self.large, **columns)

    def _largest_errors(self, exact: pd.Series) -> list[float]:
        """The largest error that the data allow, rounded up as it is printed; no limit
        for few people.
        """
        scale = 10**P_DIGITS
        scaled = exact.to_numpy(dtype=np.float64) * scale
        rounded_up = np.ceil(scaled) / scale
        is_shown = self.large | np.isnan(rounded_up)
        shown_errors = np.where(is_shown, rounded_up, np.inf)
        errors: list[float] = shown_errors.tolist()
        return errors

    def _of_many(self, groups: pd.Series) -> pd.Series:
        """Whether each name is that of a group of many people."""
        large_names = [self.names[g] for g in np.flatnonzero(self.large)]
        return groups.isin(large_names)

    def _curves(self) -> pd.DataFrame:
        """Smooth curves of groups of many people; not the points of scores that are
        exactly 0 or 1.
        """
        curves = self.exact.shown.curves
        if not len(curves):
            return curves
        inner = (curves["score"] > 0) & (curves["score"] < 1)
        of_many = self._of_many(curves["group"])
        shown = curves[of_many & inner]
        return shown.round(CURVE_DIGITS).reset_index(drop=True)

    def _measured(self) -> list[tuple[int, str]]:
        """Places and names of the groups that have thresholds and bars in the audit."""
        measured = set(self.exact.shown.distribution["group"])
        return [(g, name) for g, name in enumerate(self.names) if name in measured]

    def _net_benefit(self) -> pd.DataFrame:
        """The decision curves of groups whose counts are shown."""
        exact_effect = self.exact.shown.groups["design_effect"]
        design_effect = exact_effect.round(EFFECT_DIGITS)
        effect = design_effect.clip(lower=SMALLEST_EFFECT).to_numpy()
        known = self.shown.known
        columns_of = {}
        for g, name in self._measured():
            if known[g]:
                columns_of[name] = self._decision_curve(g, effect[g])
        return stacked_columns(columns_of)

    def _decision_curve(self, g: int, effect: float) -> dict[str, Any]:
        """The decision curve of a group, from moved counts at or above each threshold;
        a higher threshold never has more people.
        """
        thresholds = self.counts.thresholds
        people = self.shown.people[g]
        events = self.shown.events[g]
        flagged, flagged_events = self._flagged(g)
        at_most_all = np.minimum(flagged_events, events)
        right = np.minimum.accumulate(at_most_all)
        at_most_all_people = np.minimum(flagged, people)
        treated = np.minimum.accumulate(at_most_all_people)
        net_treated = treated - right
        wrong = np.clip(net_treated, 0.0, people - events)
        wrong = np.minimum.accumulate(wrong)

        withheld = self._withheld_thresholds(g)
        right = np.where(withheld, np.nan, right)
        wrong = np.where(withheld, np.nan, wrong)
        variance = effect * net_benefit_variance(thresholds, right, wrong, people)
        reach = REACH * np.sqrt(variance) / people
        return threshold_columns(thresholds, right, wrong, events, people, reach)

    def _flagged(self, g: int) -> tuple[FloatArray, FloatArray]:
        """Moved counts of the people of a group at or above each threshold, and of
        those with the outcome.
        """
        exact_counts = self.counts.flagged.people[:, g]
        events, others = np.rint(exact_counts)
        key = self.counts.flagged.key[g]
        moved_people = events + others + moved(key, 0)
        moved_events = events + moved(key, 1)
        return moved_people, moved_events

    def _withheld_thresholds(self, g: int) -> BoolArray:
        """Thresholds with few people above, or near an edge that is withheld."""
        different = self.counts.flagged.different[:, g]
        few = self.rule.small(different).any(axis=0)
        edges = from_grid(self.counts.bins.edges)
        middles = (edges[:-1] + edges[1:]) / 2
        thresholds = self.counts.thresholds
        above = thresholds >= middles[:-1, None]
        below = thresholds <= middles[1:, None]
        near_edge = above & below  # of each inner edge
        near_hidden_edge = near_edge[self.hidden_edges[g]].any(axis=0)
        return np.asarray(few | near_hidden_edge)

    def _distribution(self) -> pd.DataFrame:
        """Histograms in the risk ranges of the audit."""
        edges = from_grid(self.counts.bins.edges)
        of_cells = self.shown.printable[:, self.n_groups :]
        people, events = of_cells.reshape(2, -1, len(self.counts.bins))
        ends = {"score_from": edges[:-1], "score_to": edges[1:]}
        columns_of = {}
        for g, name in self._measured():
            columns_of[name] = {**ends, "people": people[g], "positives": events[g]}
        return stacked_columns(columns_of)

    def _bin_free(self) -> pd.DataFrame | None:
        """Measures without bins of groups of many people; None if there are none."""
        exact = self.exact.shown.bin_free
        if exact is None:
            return None
        of_many = self._of_many(exact["group"])
        shown = exact[of_many].round(CURVE_DIGITS)
        return shown if len(shown) else None

    def _people(self) -> AuditedPeople:
        """Totals for notes and settings."""
        exact = self.exact.people
        people = self.shown.people_at(0)
        with_missing = Sets([self.counts.missing]).shown(self.rule)
        missing = {}
        for i, name in enumerate(exact.missing):
            missing[name] = with_missing.people_at(i)
        at_ends: Any = 0
        if exact.at_ends:
            shown_ends = Sets([self.counts.at_ends]).shown(self.rule)
            at_ends = shown_ends.people_at(1)
        positives = self.shown.events_at(0)
        rows = self.rule.to_nearest_five(exact.rows)
        left_out = _left_out(exact.left_out, people, self.rule)
        return replace(
            exact,
            people=people,
            positives=positives,
            missing=missing,
            at_ends=at_ends,
            rounding=None,
            rows=rows,
            fingerprint=None,
            left_out=left_out,
        )

    def _tests(self) -> pd.DataFrame:
        """The tests: statistics of groups of many people, and p-values as they are
        printed.
        """
        tests = self.exact.shown.tests
        if not len(tests):
            return tests
        of_everybody = tests["test"].isin(NOT_OF_GROUPS)
        many = of_everybody | self._of_many(tests["test"])
        rounded = tests["statistic"].round(STATISTIC_DIGITS)
        statistic = rounded.where(many)
        tests = tests.assign(statistic=statistic)
        for name in ("p_value", "adjusted_p"):
            shown = [shown_p(p, large) for p, large in zip(tests[name], many)]
            tests[name] = pd.Series(shown, dtype=object, index=tests.index)
        return tests

    def _claim(
        self, exact: Claim, groups: pd.DataFrame, categories: pd.DataFrame
    ) -> Claim:
        """A claim with the numbers that are shown; the O/E ratio of all others follows
        from shown counts.
        """
        claim = with_numbers(exact, groups, categories)
        many = True
        if exact.who in self.names and exact.kind != "shape":
            large = self.large[self.names.index(exact.who)]
            many = bool(large) and not isinstance(claim.events, Limit)
        given = round(float(exact.given), RATIO_DIGITS)
        p_value = shown_p(exact.p_value, many)
        claim = replace(claim, given=given, p_value=p_value)
        if known(exact.others) and not exact.others_are:
            place = self.names.index(exact.who)
            others = self.shown.others_at(place, exact)
            claim = replace(claim, **others)
        return claim


def _printed_mean_squares(column: pd.Series) -> list[float]:
    """A column of the table of typical gaps, with the digits that are printed."""
    if str(column.name).startswith("mean"):
        return printed(column, MEAN_SQUARE_DIGITS)
    return printed(column, TYPICAL_DIGITS)


def _left_out(report: LeftOutReport, people: Any, rule: Rule) -> LeftOutReport:
    """People left out, in all and by level; levels with small counts are not listed."""
    in_fives = rule.to_nearest_five
    by_level: dict[str, list[Any]] = {}
    for name, rows in report.by.items():
        by_level[name] = []
        for level, left, total in rows:
            fewer = min(left, total - left)
            if fewer >= rule.fewest:
                shown_level = (level, in_fives(left), in_fives(total))
                by_level[name].append(shown_level)
    left_out = in_fives(report.left)
    fives = round(float(np.nan_to_num(people)) / 5)
    others = 5 * fives
    return LeftOutReport(left_out, others + int(left_out), by=by_level)
