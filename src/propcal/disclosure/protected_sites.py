"""Sites as they may be handed on: each site's measures, the summary and the travels from protected counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.cell_counts import Counts
from propcal.auditing.decision import MIN_GROUP
from propcal.auditing.finding_names import CHANCE, NOT_ENOUGH
from propcal.auditing.profile import EVERYBODY, event_effect
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.bins import uniform
from propcal.core.reduction import without_clusters
from propcal.core.shared_atoms import are_shared
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected import protected_comparison
from propcal.disclosure.protected_findings import rounded_effect
from propcal.disclosure.protected_sample import protected_sample
from propcal.disclosure.small_counts import SmallCounts, limited_ratio
from propcal.sites.site_measures import Sites, site_row, site_sentences, site_summary
from propcal.sites.travel import Travel, judged

RANGES = uniform(10)  # in which the protected people of a site are counted


def protected_sites(found: Sites, fewest: int | None) -> Sites:
    """Compute the comparison of sites again, from protected counts; 0 or None protects nothing.

    Findings are those of the exact comparison. Sites with few people with the outcome, or without it, have
    limits in place of numbers, and take no part in the summary.
    """
    if fewest is None or Blocks(fewest).fewest <= 1 or found._parts is None:
        return found
    if all(are_shared(atoms, fewest) for atoms in found._parts.values()):  # they were protected before
        return found
    blocks = Blocks(fewest)
    rows, totals, undecided = [], np.zeros(2), []
    for name, atoms in found._parts.items():
        counts = Counts.of(atoms, [EVERYBODY], RANGES)
        totals += counts.totals.people[:, 0, 0]
        rows.append({"site": name, **_row(atoms, counts, blocks)})
        undecided.append(SmallCounts.of(counts.totals, ([0], 0), blocks, MIN_GROUP).undecided[0])
    table = pd.DataFrame(rows, columns=found.sites.columns)
    for name in ("people", "positives", "observed_expected"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    # "could be chance" would tell that a site whose block leaves it open is large enough to be judged
    hidden = np.array(undecided) & (found.sites["finding"] == CHANCE).to_numpy()
    table["finding"] = np.where(hidden, NOT_ENOUGH, found.sites["finding"])
    summary = site_summary(table)
    travel = _travel(found.travel, blocks)
    people = blocks.people(totals, totals)
    return replace(
        found,
        sites=table,
        summary=summary,
        travel=travel,
        sentences=site_sentences(table, people, summary, travel, found.identity),
        notes=(*found.notes, _note(travel, found.identity.unit, blocks)),
        _parts=None,
    )


def _row(atoms: Atoms, counts: Counts, blocks: Blocks) -> dict[str, Any]:
    """The measures of a site, or what may be said of a small one."""
    effect = float(rounded_effect(event_effect(Sample.of(atoms))))
    bare = without_clusters(atoms)
    sample, small = protected_sample(counts, 0, blocks, effect=effect, soft=bare.soft)
    shown = SmallCounts.of(counts.totals, ([0], 0), blocks)
    if not small:
        return {**site_row(sample), "people": shown.people(0), "positives": shown.events(0)}
    row: dict[str, Any] = dict.fromkeys(site_row(sample), float("nan"))
    ratio = limited_ratio(shown.rate(0), float(shown.shown.sum()), sample.expected)
    return row | {"people": shown.people(0), "positives": shown.events(0), "observed_expected": ratio}


def _travel(found: Travel | None, blocks: Blocks) -> Travel | None:
    """The same travels from protected counts; findings are those of the exact comparison."""
    if found is None:
        return None
    comparisons = {name: protected_comparison(one, blocks.fewest) for name, one in found.comparisons.items()}
    rows = [{"site": name, **judged(one)} for name, one in comparisons.items()]
    table = pd.DataFrame(rows)
    for name in ("finding", "level"):
        table[name] = found.table[name].to_numpy()
    for name in ("people", "observed_expected_before", "observed_expected_after"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return Travel(table, found.sentence, comparisons)


def _note(travel: Travel | None, unit: str, blocks: Blocks) -> str:
    n, width = blocks.fewest, blocks.width
    told = (
        f"Small counts are protected: from 0 to {width} {unit} with the outcome, or without it, are shown as "
        f"“fewer than {n}” or “< {n}”, larger counts as the middle of a block of {width}, and everything "
        "else is computed from these counts, so numbers differ from the exact ones, most where few had the "
        "outcome. Protected counts need not add up. Findings are those of the exact comparison."
    )
    if travel is not None and travel.table["change"].isna().any():
        told += " Changes are suppressed where protected counts would distort them."
    return told
