"""Comparisons of sites for release: with protected counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import protection_note
from propcal.auditing.audit_tables import ENDS, row_dicts
from propcal.auditing.claims import Claim
from propcal.auditing.headcount import Headcount, everybody, score_values
from propcal.auditing.statistics.measures import Estimate
from propcal.core.atoms import Atoms
from propcal.core.reduction import joined
from propcal.monitoring.held_out import Travel, site_change
from propcal.numbers import RATIO_DIGITS, Limit, beside_one
from propcal.protect.disclosure_rule import Rule
from propcal.protect.protected_comparisons import protected_comparison
from propcal.protect.shared_atoms import are_shared
from propcal.protect.shown_counts import Sets, ShownCounts, printed, shown_table
from propcal.sites.compare_sites import Sites, assembled
from propcal.sites.site_findings import PeopleNumbers, SiteFindings
from propcal.sites.site_measures import RATIO, SCALES

TAU2_DIGITS = 4
I2_DIGITS = 2
EVERYBODY_PLACE = 0  # of the set of all people


def protected_sites(sites: Sites, fewest: int | None) -> Sites:
    """A comparison of sites with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    parts = sites._findings.parts
    if rule is None or parts is None:
        return sites
    if all(are_shared(atoms, rule.fewest) for atoms in parts.values()):
        return sites  # they were protected before
    small = np.flatnonzero(sites.small).tolist()
    shown = _shown_counts(list(parts.values()), small, len(sites.pooled), rule)
    return assembled(_protected_findings(sites._findings, shown))


def _shown_counts(
    parts: list[Atoms], small: list[int], n_pooled: int, rule: Rule
) -> ShownCounts:
    """The counts of all people, of each site, and of small sites together if they have
    a row of their own.
    """
    n = len(parts)
    sets = Sets()
    together = [joined(parts)]
    sums = [(EVERYBODY_PLACE, [*range(1, n + 1)])]
    if n_pooled > 1:
        together.append(joined([parts[i] for i in small]))
        sums.append((n + 1, [1 + i for i in small]))
    for atoms in (together[0], *parts, *together[1:]):
        scores = score_values(atoms, everybody(atoms.patterns))
        sets.add(Headcount.of(atoms, everybody), scores)
    sets.sums += sums
    return sets.shown(rule)


def _protected_findings(findings: SiteFindings, shown: ShownCounts) -> SiteFindings:
    """Findings with everything replaced that reveals counts; the set of a site has its
    number, from 1.
    """
    rule = shown.rule
    n = len(findings.sites)
    table = shown_table(findings.sites, shown, range(1, n + 1))
    pooled_rows = []
    for i, place in enumerate((EVERYBODY_PLACE, n + 1)[: len(findings.pooled)]):
        row = findings.pooled.iloc[[i]]
        pooled_rows.append(shown_table(row, shown, [place]))
    pooled = pd.concat(pooled_rows).set_axis(findings.pooled.index)

    place_of = {name: i for i, name in enumerate(findings.sites["site"], 1)}
    rows = row_dicts(table)
    at_site = {}
    for name in findings.at_site:
        place = place_of[name]
        at_site[name] = _shown_numbers(shown, place, rows[place - 1])
    stated = None
    if findings.stated is not None:
        stated = tuple(
            _protected_claim(claim, shown, place_of) for claim in findings.stated
        )
    few = ~shown.large[1 : n + 1]
    exact_everybody = row_dicts(pooled)[0]
    everybody_numbers = _shown_numbers(shown, EVERYBODY_PLACE, exact_everybody)
    summary = _summary(findings.summary)
    travel = _travel(findings.travel, table, rule)
    note = protection_note(rule.fewest, findings.identity.unit)
    withheld = frozenset(compress(place_of, few))
    return replace(
        findings,
        stated=stated,
        everybody=everybody_numbers,
        at_site=at_site,
        pooled=pooled,
        sites=table,
        summary=summary,
        travel=travel,
        notes=(*findings.notes, note),
        parts=None,
        withheld=withheld,
    )


def _shown_numbers(
    shown: ShownCounts, place: int, row: Mapping[str, Any]
) -> PeopleNumbers:
    """Numbers that follow from shown counts; the ratio is that of a row of a table."""
    estimate, low, high = (row[f"{RATIO}{end}"] for end in ENDS)
    counts = shown.numbers_at(place)
    return PeopleNumbers(**counts, estimate=estimate, low=low, high=high)


def _protected_claim(
    claim: Claim, shown: ShownCounts, place_of: Mapping[str, int]
) -> Claim:
    """A claim with the digits that are printed, and the O/E ratio of the other sites
    from shown counts.
    """
    p_value = float(f"{claim.p_value:.2g}")
    claim = replace(claim, p_value=p_value)
    if not claim.who:
        return claim
    if claim.kind == "shape":
        slope = (claim.estimate, claim.low, claim.high)
        estimate, low, high = printed(slope, RATIO_DIGITS)
        claim = replace(claim, estimate=estimate, low=low, high=high)
    if claim.kind in ("group", "beyond"):
        place = place_of[claim.who]
    else:
        place = EVERYBODY_PLACE
    return replace(claim, **shown.others_at(place, claim))


def _summary(exact: pd.DataFrame) -> pd.DataFrame:
    """The summary with the digits that are printed."""
    rows: dict[Any, Any] = exact.to_dict("index")
    for name, row in rows.items():
        digits = SCALES[name].digits
        row["tau2"] = round(row["tau2"], TAU2_DIGITS)
        row["i2"] = round(row["i2"], I2_DIGITS)
        row["mean"] = round(row["mean"], digits)
        for low, high in (("low", "high"), ("prediction_low", "prediction_high")):
            ends = beside_one(row[low], row[high], digits)
            row[low], row[high] = printed(ends, digits)
    return pd.DataFrame.from_dict(rows, orient="index")


def _travel(
    travel: Travel | None, table_of_sites: pd.DataFrame, rule: Rule
) -> Travel | None:
    """How corrections travel, with protected counts; findings are those of the
    comparison.

    The numbers of a site before its correction are those of the table of sites.
    """
    if travel is None:
        return None
    comparisons = {}
    rows = []
    for name, exact in travel.comparisons.items():
        comparisons[name] = protected_comparison(exact, rule.fewest)
        change = site_change(comparisons[name])
        rows.append({"site": name, **change})
    table = pd.DataFrame(rows)
    for name in ("finding", "moved", "level"):
        table[name] = travel.table[name].to_numpy()
    for end in ENDS:
        before = table_of_sites[f"{RATIO}{end}"].to_numpy()
        table[f"{RATIO}_before{end}"] = before
    table["people"] = table_of_sites["people"].to_numpy()
    for name in ("people", f"{RATIO}_after"):
        values = []
        for row in rows:
            is_limit = isinstance(row[name], Limit)
            values.append(np.nan if is_limit else row[name])
        table[name] = pd.Series(values, dtype=object)
    pooled_ends = printed(travel.pooled, RATIO_DIGITS)
    pooled = Estimate(*pooled_ends)
    return Travel(table, pooled, comparisons)
