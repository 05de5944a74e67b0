"""An audit as it may be handed on: its own findings and statistics, and protected
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit, settings_of
from propcal.auditing.audit_tables import ENDS, categories_frame, stacked_columns
from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import Claim, Verdict, labelled_claims
from propcal.auditing.findings import AuditedPeople, Findings
from propcal.auditing.headcount import Headcount, ScoreValues
from propcal.auditing.loss_intervals import loss_places, loss_values, losses
from propcal.auditing.names import CHANCE, LOSSES, TOO_HIGH, TOO_LOW, WRONG
from propcal.auditing.statistics.hypothesis_tests import NOT_OF_GROUPS
from propcal.auditing.statistics.measures import net_benefit_variance, threshold_columns
from propcal.core.atoms import LeftOutReport
from propcal.core.grid import BoolArray, IntArray, from_grid
from propcal.numbers import RATIO_DIGITS, Limit, printed_rate
from propcal.protect.disclosure_rule import (
    P_DIGITS,
    SATURATED,
    VARIANCE,
    Rule,
    moved,
    shown_p,
)
from propcal.protect.shared_atoms import are_shared
from propcal.protect.shown_counts import (
    CURVE_DIGITS,
    Sets,
    ShownCounts,
    printed,
    shown_table,
)

MADE_OF_COUNTS = ("rate_low", "rate_high", "proportional_gap", "cutoff")  # of cells


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
    sets = Sets()
    groups = findings[0].counts.groups
    totals = sets.add(findings[0].counts.totals)
    # groups in the order of each audit
    whole = [
        totals[[groups.index(group) for group in one.counts.groups]] for one in findings
    ]
    places = [
        np.concatenate([own, sets.add_ranges(one.counts, own)], axis=1)
        for own, one in zip(whole, findings)
    ]
    shown = sets.shown(rule)
    return [
        _ProtectedAudit(*each, shown).audit() for each in zip(audits, findings, places)
    ]


class _ProtectedAudit:
    """The counts of an audit as they are shown, and everything that follows from
    them.
    """

    def __init__(
        self, audit: Audit, findings: Findings, places: IntArray, shown: ShownCounts
    ) -> None:
        """`places` are those of each group, of its risk ranges, and of its people above
        each edge.
        """
        self.exact = audit
        self.findings = findings
        self.rule = shown.rule
        self.counts = findings.counts
        self.n = len(places)
        n_ranges = len(findings.counts.bins)
        # thresholds near hidden edges are not shown
        self.hidden_edges = np.isnan(shown.people[places[:, 1 + n_ranges :]])
        headcount = Headcount.joined([self.counts.totals, self.counts.ranges])
        own = np.concatenate([places[:, 0], places[:, 1 : 1 + n_ranges].ravel()])
        self.shown = ShownCounts.part_of(shown, own, headcount, self._values())
        self.large = self.shown.large[: self.n] & ~self._saturated()
        self.names = [group.name for group in self.counts.groups]

    def _values(self) -> Iterator[tuple[int, ScoreValues]]:
        """The different scores of groups and cells."""
        edges = from_grid(self.counts.bins.edges)
        edges[-1] = np.inf
        for g, values in enumerate(self.counts.values or []):
            yield g, values
            for j, (low, high) in enumerate(pairwise(edges)):
                yield self.n + g * (len(edges) - 1) + j, values.between(low, high)

    def _saturated(self) -> BoolArray:
        """Groups with so few different scores that their measures together tell a small
        count.
        """
        found = np.zeros(self.n, dtype=np.bool_)
        for g, own in enumerate(self.counts.values or []):
            either = np.concatenate([own.events, own.people - own.events])
            found[g] = len(own.score) <= SATURATED and bool(
                self.rule.small(either).any()
            )
        return found

    def audit(self) -> Audit:
        """The audit with everything replaced that counts give away."""
        from propcal.documents.audit_sentences import notes_of

        exact = self.exact
        findings = replace(self.findings, people=self._people())
        groups = self._groups()
        categories = self._categories()
        debiased = exact.debiased.apply(
            lambda column: printed(
                column, 4 if str(column.name).startswith("mean") else 3
            )
        )
        notes = notes_of(findings, exact.identity, exact.groups)
        return replace(
            exact,
            verdict=self._verdict(groups, categories),
            losses=self._losses(),
            debiased=debiased,
            categories=categories,
            groups=groups,
            curves=self._curves(),
            net_benefit=self._net_benefit(),
            distribution=self._distribution(),
            notes=(*notes, protection_note(self.rule, exact.identity.unit)),
            settings={**settings_of(findings), "fingerprint": None},
            smallest_alpha=None,
            bin_free=self._bin_free(),
            _source=None,
        )

    def _groups(self) -> pd.DataFrame:
        exact = self.exact.groups
        finding = exact["finding"].tolist()
        ratio = exact["observed_expected"].tolist()
        small = np.asarray(self.shown.small[:, : self.n].any(axis=0)).tolist()
        columns: dict[str, Any] = {
            "design_effect": printed(exact["design_effect"].clip(lower=0.1), 1),
            **{
                f"left_over{end}": printed(exact[f"left_over{end}"], 2, self.large)
                for end in ENDS
            },
            **{
                name: self._certain(exact[name])
                for name in ("certain_within", "shown_within")
            },
            "limits": [
                self._limits(i, finding[i], ratio[i]) if small[i] else None
                for i in range(self.n)
            ],
        }
        return shown_table(exact, self.shown, range(self.n), self.large, **columns)

    def _certain(self, exact: pd.Series) -> list[float]:
        """The largest error that the data allow, rounded up as it is printed; no limit
        for few people.
        """
        whole = np.ceil(exact.to_numpy(dtype=np.float64) * 10**P_DIGITS) / 10**P_DIGITS
        return [float(x) for x in np.where(self.large | np.isnan(whole), whole, np.inf)]

    def _limits(self, i: int, finding: str, exact: float) -> tuple[Any, Any]:
        """What may be said of a rate and an O/E ratio where a count is small; it
        supports the finding.

        Half or twice the predicted events is only said where several counts are so
        small or large.
        """
        people = self.shown.people[i]
        mean = self.shown.mean[i]
        fewest = self.rule.fewest
        if np.isnan(mean):
            return float("nan"), float("nan")
        few = bool(self.shown.small[0, i])  # with the outcome, or else without it
        if few:
            rate = Limit((fewest - 0.5) / people, "below")
        else:
            rate = Limit(1 - (fewest - 0.5) / people, "above")
        if np.isnan(people) or finding not in WRONG:
            return (float("nan") if np.isnan(people) else rate), float("nan")
        expected = mean * people
        high = finding == TOO_HIGH
        if high:
            ratio = Limit(
                0.5 if exact < 0.5 and (expected >= fewest - 1 or not few) else 1.0,
                "below",
            )
        else:
            ratio = Limit(
                2.0 if exact > 2 and (2 * expected <= fewest - 6 or not few) else 1.0,
                "above",
            )
        clear = high == few and (rate < mean) == high
        return (rate if clear else Limit(printed_rate(mean), ratio.side)), ratio

    def _categories(self) -> pd.DataFrame:
        """The table of cells: numbers by the code of the audit, findings are the
        audit's.
        """
        exact = self.exact.categories
        shown = self.shown
        places = self._places[self.findings.table.people > 0]
        cells = categories_frame(self._cells, self.exact.identity.unit)
        low, high = (
            cells[end].to_numpy().round(CURVE_DIGITS) for end in ("low", "high")
        )
        finding = exact["finding"].to_numpy()
        agree = np.select(
            [finding == TOO_LOW, finding == TOO_HIGH, finding == CHANCE],
            [low > 0, high < 0, (low <= 0) & (high >= 0)],
            True,
        ).astype(bool)
        rates = cells["outcome_rate"].tolist()
        gaps = cells["gap"].tolist()
        for row in np.flatnonzero(shown.small[:, places].any(axis=0)).tolist():
            rates[row] = rate = self._limits(places[row], finding[row], 1.0)[0]
            known = isinstance(rate, Limit)
            gaps[row] = (
                Limit(rate - shown.mean[places[row]], rate.side) if known else np.nan
            )
        numbers = {name: cells[name].to_numpy() for name in MADE_OF_COUNTS}
        numbers |= {
            "low": np.where(agree, low, np.nan),
            "high": np.where(agree, high, np.nan),
        }
        numbers["detectable_gap"] = (
            exact["detectable_gap"].to_numpy().round(CURVE_DIGITS)
        )
        return shown_table(
            exact, shown, places, outcome_rate=rates, gap=gaps, **numbers
        )

    @cached_property
    def _places(self) -> Any:
        """Where the cells of the audit's table are among all sets."""
        place = {group: g for g, group in enumerate(self.counts.groups)}
        rows = np.array(
            [place[group] for group in self.findings.table.collection.groups],
            dtype=np.int64,
        )
        n_ranges = len(self.counts.bins)
        return self.n + rows[:, None] * n_ranges + np.arange(n_ranges)

    @cached_property
    def _cells(self) -> Findings:
        """The audit's cells with the counts that are shown; cells without have no
        numbers.

        Moved counts make a cell worth fewer independent people.
        """
        exact = self.findings
        places = self._places
        shown = self.shown
        known = shown.known[places]
        mean = shown.mean[places]
        people, events = (
            np.where(known, each[places], np.nan)
            for each in (shown.people, shown.events)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = events / people
            effect = np.maximum(
                np.round(exact.table.people / exact.noise.effective, 1), 0.1
            )
            added = (
                VARIANCE * (1 + rate**2) / people + shown.mean_variance[places] * people
            )
            effective = people / (effect + added / (rate * (1 - rate)))
        sums = {
            "weight": people,
            "positives": events,
            "score_sum": mean * people,
            "gap": rate - mean,
        }
        noise = replace(exact.noise, effective=effective, rates=exact.noise.rates[:0])
        return replace(exact, table=replace(exact.table, **sums), noise=noise)

    def _losses(self) -> pd.DataFrame:
        """The losses of the audit, each from the shown counts of its cells; no number
        if these are hidden.

        What chance would show is the audit's, and so is the cell that is named. An
        interval is over all cells; without the hidden ones it has no upper end.
        """
        exact = self.exact.losses
        cells = self._cells
        rho = self.findings.rule.rho
        known = np.isfinite(cells.table.gap) & (self.findings.table.people > 0)
        table = replace(cells.table, eligible=cells.table.eligible & known)
        value = np.full(len(LOSSES), np.nan)
        for name, places in loss_places(self.findings.table, rho).items():
            chosen = np.zeros(known.shape, dtype=np.bool_)
            chosen.flat[list(places)] = True
            if places and known[chosen].all():
                i = LOSSES.index(name)
                value[i] = loss_values(
                    table.outcome_rate, table.mean_score, chosen, rho
                )[i]
        low, high = losses(table, cells.noise, rho)[["low", "high"]].to_numpy().T
        some_hidden = (self.findings.table.eligible & ~known).any()
        ends = {"low": low, "high": np.where(some_hidden, np.nan, high)}
        shown = {
            name: np.where(np.isnan(value), np.nan, end) for name, end in ends.items()
        }
        return exact.assign(value=value, **shown).round(P_DIGITS)

    def _of_many(self, groups: pd.Series) -> pd.Series:
        """Whether each name is that of a group of many people."""
        return groups.isin(
            [name for name, large in zip(self.names, self.large) if large]
        )

    def _curves(self) -> pd.DataFrame:
        """Smooth curves of groups of many people; not the points of scores that are
        exactly 0 or 1.
        """
        curves = self.exact.curves
        if not len(curves):
            return curves
        inner = (curves["score"] > 0) & (curves["score"] < 1)
        return (
            curves[self._of_many(curves["group"]) & inner]
            .round(CURVE_DIGITS)
            .reset_index(drop=True)
        )

    @cached_property
    def _measured(self) -> list[int]:
        """Groups that have thresholds and bars in the audit."""
        some = set(self.exact.distribution["group"])
        return [g for g, name in enumerate(self.names) if name in some]

    def _net_benefit(self) -> pd.DataFrame:
        """From moved counts at or above each threshold; a higher threshold never has
        more people.
        """
        found = {}
        t = self.counts.thresholds
        flagged = self.counts.flagged
        effect = self.exact.groups["design_effect"].round(1).clip(lower=0.1).to_numpy()
        edges = from_grid(self.counts.bins.edges)
        low = (edges[:-2] + edges[1:-1]) / 2
        high = (edges[1:-1] + edges[2:]) / 2
        near = (t >= low[:, None]) & (t <= high[:, None])  # each inner edge
        for g in self._measured:
            if not self.shown.known[g]:
                continue
            people = self.shown.people[g]
            events = self.shown.events[g]
            both = np.rint(flagged.people[:, g])
            key = flagged.key[g]
            few = self.rule.small(flagged.different[:, g]).any(axis=0)
            few |= near[self.hidden_edges[g]].any(axis=0)
            right = np.minimum.accumulate(np.minimum(both[0] + moved(key, 1), events))
            all_of = np.minimum.accumulate(
                np.minimum(both.sum(axis=0) + moved(key, 0), people)
            )
            wrong = np.minimum.accumulate(np.clip(all_of - right, 0.0, people - events))
            right, wrong = (np.where(few, np.nan, count) for count in (right, wrong))
            reach = (
                1.96
                * np.sqrt(effect[g] * net_benefit_variance(t, right, wrong, people))
                / people
            )
            found[self.names[g]] = threshold_columns(
                t, right, wrong, events, people, reach
            )
        return stacked_columns(found)

    def _distribution(self) -> pd.DataFrame:
        """Histograms in the risk ranges of the audit."""
        edges = from_grid(self.counts.bins.edges)
        n = len(self.counts.bins)
        counts = self.shown.printable[:, self.n :].reshape(2, -1, n)
        ends = {"score_from": edges[:-1], "score_to": edges[1:]}
        found = {
            self.names[g]: ends | {"people": counts[0, g], "positives": counts[1, g]}
            for g in self._measured
        }
        return stacked_columns(found)

    def _bin_free(self) -> BinFree | None:
        from propcal.documents.audit_sentences import bin_free_summary

        exact = self.exact.bin_free
        if exact is None or exact.table.empty:
            return exact
        table = exact.table[self._of_many(exact.table["group"])].round(CURVE_DIGITS)
        return bin_free_summary(
            table if len(table) else None, self.exact.labels, self.findings.untested
        )

    def _people(self) -> AuditedPeople:
        """Totals for notes and settings."""
        who = self.findings.people
        missing, ends = (
            Sets([some]).shown(self.rule)
            for some in (self.counts.missing, self.counts.at_ends)
        )
        people: Any = self.shown.people_at(0)
        return replace(
            who,
            people=people,
            positives=self.shown.events_at(0),
            missing={name: missing.people_at(i) for i, name in enumerate(who.missing)},
            at_ends=ends.people_at(1) if who.at_ends else 0,
            rounding=None,
            rows=self.rule.alone(who.rows),
            fingerprint=None,
            left_out=_left_out(who.left_out, people, self.rule),
        )

    def _verdict(self, groups: pd.DataFrame, categories: pd.DataFrame) -> Verdict:
        from propcal.documents.audit_sentences import verdict_of

        exact = self.exact
        tests = exact.verdict.tests
        if len(tests):
            many = tests["test"].isin(NOT_OF_GROUPS) | self._of_many(tests["test"])
            tests = tests.assign(statistic=tests["statistic"].round(1).where(many))
            for name in ("p_value", "adjusted_p"):
                shown = [shown_p(p, some) for p, some in zip(tests[name], many)]
                tests[name] = pd.Series(shown, dtype=object, index=tests.index)
        claims = labelled_claims(exact.verdict.errors, groups, categories)
        claims = tuple(
            self._shown_claim(claim, true)
            for claim, true in zip(claims, exact.verdict.errors)
        )
        return verdict_of(
            self.findings,
            exact.identity,
            claims,
            groups,
            tests,
            exact.verdict.conclusion,
        )

    def _shown_claim(self, claim: Claim, exact: Claim) -> Claim:
        """A claim with the digits that are printed; the O/E ratio of all others follows
        from shown counts.
        """
        numbers: dict[str, Any] = {"given": round(float(claim.given), RATIO_DIGITS)}
        if exact.others == exact.others and not exact.others_are:
            numbers |= self.shown.others_at(self.names.index(claim.who), exact)
        of_group = claim.who in self.names and claim.kind != "shape"
        many = not of_group or (
            self.large[self.names.index(claim.who)]
            and not isinstance(claim.events, Limit)
        )
        return replace(claim, p_value=shown_p(claim.p_value, many), **numbers)


def _left_out(report: LeftOutReport, people: Any, rule: Rule) -> LeftOutReport:
    """People left out, in all and by level; levels with small counts are not listed."""
    known = {
        name: [
            (label, rule.alone(left), rule.alone(total))
            for label, left, total in rows
            if left >= rule.fewest and total - left >= rule.fewest
        ]
        for name, rows in report.by.items()
    }
    left = rule.alone(report.left)
    return LeftOutReport(
        left, 5 * round(float(np.nan_to_num(people)) / 5) + int(left), by=known
    )


def protection_note(rule: Rule, unit: str) -> str:
    """How counts were protected, and what that changes."""
    from propcal.documents.words import words

    return words("notes", "protection", fewest=rule.fewest, unit=unit)
