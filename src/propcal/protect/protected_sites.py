"""Comparisons of sites as they may be handed on: with protected counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import protection_note
from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import Claim
from propcal.auditing.headcount import Headcount, everybody, score_values
from propcal.auditing.statistics.measures import Estimate
from propcal.core.reduction import joined
from propcal.monitoring.held_out import Travel, site_change
from propcal.numbers import RATIO_DIGITS, Limit, beside_one
from propcal.protect.disclosure_rule import Rule
from propcal.protect.results import protected_comparison
from propcal.protect.shared_atoms import are_shared
from propcal.protect.shown_counts import Sets, ShownCounts, printed, shown_table
from propcal.sites.compare_sites import EVERYBODY, SCALES, Sites

OTHER_DIGITS = {"tau2": 4, "i2": 2}  # of the summary


def protected_sites(sites: Sites, fewest: int | None) -> Sites:
    """A comparison of sites with protected counts; 0 or None protects nothing."""
    rule = Rule.asked(fewest)
    if rule is None or sites._parts is None:
        return sites
    if all(
        are_shared(atoms, rule.fewest) for atoms in sites._parts.values()
    ):  # they were protected before
        return sites
    parts = list(sites._parts.values())
    n = len(parts)
    few = np.flatnonzero(sites.small).tolist()
    n_pooled = len(sites.pooled)
    together = [joined([parts[i] for i in some]) for some in (range(n), few)[:n_pooled]]
    sets = Sets()
    for atoms in (together[0], *parts, *together[1:]):
        sets.add(
            Headcount.of(atoms, everybody),
            score_values(atoms, everybody(atoms.patterns)),
        )
    sets.sums += [(0, range(1, n + 1)), (n + 1, [1 + i for i in few])][:n_pooled]
    shown = sets.shown(rule)
    table = shown_table(sites.sites, shown, range(1, 1 + n))
    rows = [
        shown_table(sites.pooled.iloc[[i]], shown, [i * (n + 1)])
        for i in range(n_pooled)
    ]
    pooled = pd.concat(rows).set_axis(sites.pooled.index)
    sets_of = {EVERYBODY: (0, pooled.iloc[0])}
    sets_of |= {row["site"]: (i, row) for i, (_, row) in enumerate(table.iterrows(), 1)}
    return replace(
        sites,
        claims=tuple(
            _claim(claim, shown, *sets_of.get(claim.who, (0, None)))
            for claim in sites.claims
        ),
        pooled=pooled,
        sites=table,
        summary=_summary(sites.summary),
        travel=_travel(sites.travel, table, rule),
        notes=(*sites.notes, protection_note(rule.fewest, sites.identity.unit)),
        _parts=None,
    )


def _claim(claim: Claim, shown: ShownCounts, place: int, row: Any) -> Claim:
    """A claim with the numbers that are shown; `row` is that of its site in the
    table.
    """
    claim = replace(claim, p_value=float(f"{claim.p_value:.2g}"))
    if row is None:
        return claim
    numbers = shown.numbers_at(place)
    estimate = [row[f"observed_expected{end}"] for end in ENDS]
    if claim.kind == "shape":
        estimate = printed((claim.estimate, claim.low, claim.high), RATIO_DIGITS)
    numbers |= zip(("estimate", "low", "high"), estimate)
    return replace(claim, **numbers, **shown.others_at(place, claim))


def _summary(exact: pd.DataFrame) -> pd.DataFrame:
    """The summary with the digits that are printed."""
    rows: dict[Any, Any] = exact.to_dict("index")
    for name, row in rows.items():
        digits = SCALES[name].digits
        row |= {key: round(row[key], n) for key, n in OTHER_DIGITS.items()}
        row["mean"] = round(row["mean"], digits)
        for low, high in (("low", "high"), ("prediction_low", "prediction_high")):
            row[low], row[high] = printed(
                beside_one(row[low], row[high], digits), digits
            )
    return pd.DataFrame.from_dict(rows, orient="index")


def _travel(
    travel: Travel | None, table_of_sites: pd.DataFrame, rule: Rule
) -> Travel | None:
    """How corrections travel, with protected counts; findings are those of the
    comparison.

    What a site was before is what the table of sites says of it.
    """
    if travel is None:
        return None
    comparisons = {
        name: protected_comparison(one, rule.fewest)
        for name, one in travel.comparisons.items()
    }
    rows = [{"site": name, **site_change(one)} for name, one in comparisons.items()]
    table = pd.DataFrame(rows)
    for name in ("finding", "moved", "level"):
        table[name] = travel.table[name].to_numpy()
    for end in ENDS:
        table[f"observed_expected_before{end}"] = table_of_sites[
            f"observed_expected{end}"
        ].to_numpy()
    table["people"] = table_of_sites["people"].to_numpy()
    for name in ("people", "observed_expected_after"):
        values = [row[name] for row in rows]
        table[name] = pd.Series(
            [np.nan if isinstance(x, Limit) else x for x in values], dtype=object
        )
    return Travel(table, Estimate(*printed(travel.pooled, RATIO_DIGITS)), comparisons)
