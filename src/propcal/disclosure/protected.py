"""An audit or a comparison as it may be handed on: computed from protected counts, and from nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit, assemble, too_small, typical_gap
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.conclusions import worst_categories
from propcal.auditing.findings import AuditSource
from propcal.auditing.measure_names import LOSSES
from propcal.auditing.notes import notes_of
from propcal.auditing.verdict import verdict_of
from propcal.core.shared_atoms import are_shared
from propcal.disclosure.blocks import Blocks
from propcal.disclosure.protected_findings import (
    cell_limits,
    protected_findings,
    table_rows,
    undecided_cells,
)
from propcal.disclosure.small_counts import (
    SmallCounts,
    limited_categories,
    limited_groups,
    limited_losses,
    limited_tests,
)
from propcal.numbers import Limit, plural

ACCURACY = ("brier", "log_loss", "auroc")
ON_THE_PAGE = {
    "groups": ("outcome_rate", "mean_score", "observed_expected", "observed_expected_low", "auroc"),
    "categories": ("outcome_rate", "mean_score", "gap", "low", "detectable_gap"),
    "losses": ("value", "low", "high"),
}


def protected(result: Audit | Comparison, fewest: int | None) -> Audit | Comparison:
    """An audit or a comparison from protected counts; 0 or None protects nothing."""
    if isinstance(result, Comparison):
        return protected_comparison(result, fewest)
    return protected_audit(result, fewest)


def protected_audit(audit: Audit, fewest: int | None) -> Audit:
    """Compute an audit again, from protected counts; 0 or None protects nothing."""
    if fewest is None or Blocks(fewest).fewest <= 1 or audit._source is None:
        return audit
    if are_shared(audit._source.shared, fewest):  # they were protected before
        return audit
    return _protected(audit, Blocks(fewest))


def _protected(audit: Audit, blocks: Blocks) -> Audit:
    source = audit._source
    assert source is not None
    found = protected_findings(source, blocks)
    made = assemble(found, audit.identity)
    counts = SmallCounts.of(source.counts.ranges, _places(source), blocks, *cell_limits(source))
    eligible = source.table.eligible & ~undecided_cells(source, blocks)[table_rows(source)]
    groups = limited_groups(made.groups, found, audit.groups, blocks, audit.identity.unit)
    categories = limited_categories(made.categories, audit.categories, counts)
    verdict = verdict_of(
        limited_tests(made.verdict.tests),
        groups,
        categories,
        audit.identity,
        untested=source.untested,
        too_small=too_small(source.rule, audit.identity),
        typical_gap=typical_gap(made.debiased),
        worst=_clearest(audit),
        cells=not audit.cells_unsure,
    )
    shown = replace(
        made,
        verdict=replace(verdict, conclusion=audit.verdict.conclusion),
        losses=limited_losses(made.losses, found, eligible, counts, made.labels),
        groups=groups,
        categories=categories,
        _source=None,
    )
    notes = notes_of(found, audit.identity, groups)
    return replace(shown, notes=(*notes, *_protection_notes(audit, shown, blocks)))


def _clearest(audit: Audit) -> tuple[str, str] | None:
    """The cell with the clearest gap in the exact audit."""
    found = worst_categories(audit.categories, 1)
    return (str(found["group"].iloc[0]), str(found["bin"].iloc[0])) if len(found) else None


def _places(source: AuditSource) -> tuple[Any, Any]:
    """For each row of the table of cells its group, among all groups, and its range."""
    row, column = np.nonzero(source.table.people)
    return np.array(table_rows(source), dtype=np.int64)[row], column


def _protection_notes(audit: Audit, shown: Audit, blocks: Blocks) -> tuple[str, ...]:
    """How counts were protected, and how many numbers are missing for that reason."""
    n, width, unit = blocks.fewest, blocks.width, audit.identity.unit
    whom = "patients" if audit.settings["buckets"] else unit
    told = (
        f"Small counts are protected. From 0 to {width} {whom} with the outcome, or without it, are shown as "
        f"“fewer than {n}” or “< {n}”, and larger counts as the middle of a block of {width}: {n} to "
        f"{2 * width} as {width + blocks.stand_in}, {2 * width + 1} to {3 * width} as "
        f"{2 * width + blocks.stand_in}, and so on. All numbers, curves and intervals are computed from "
        "these counts, so they differ a little from the exact ones. Findings and the conclusion are those of "
        "the exact audit. On a terminal, propcal audit without --suppress shows the exact values."
    )
    notes = [told]
    if audit.bin_free is not None:
        notes.append("Measures without bins are not shown here: they depend on exact counts.")
    blank = total = 0
    for kind, names in ON_THE_PAGE.items():
        before, after = (getattr(each, kind)[list(names)].notna().to_numpy() for each in (audit, shown))
        blank += int(np.sum(before & ~after))
        total += int(before.sum())
    if blank:
        are = "is" if blank == 1 else "are"
        left = f"{blank:,} of {plural(total, 'number')} in the tables {are} left blank for this reason."
        notes.insert(1, left)
    return tuple(notes)


def protected_comparison(comparison: Comparison, fewest: int | None) -> Comparison:
    """Protect all audits of a comparison by the same rule, and take their differences."""
    audits = {name: protected_audit(audit, fewest) for name, audit in comparison.audits.items()}
    if audits == comparison.audits:
        return comparison
    others = [*comparison.audits][1:]
    return replace(
        comparison,
        audits=audits,
        differences=_differences(comparison, audits),
        exactly_worse={name: comparison.further_off(name)["group"].tolist() for name in others},
    )


def _differences(comparison: Comparison, audits: dict[str, Audit]) -> pd.DataFrame:
    """Differences of protected values; intervals are as wide as they were, to two digits."""
    rows = []
    for row in row_dicts(comparison.differences):
        base, value = (_measured(audits[name], row) for name in (comparison.base, row["score"]))
        known = not any(isinstance(x, Limit) or x != x for x in (base, value))
        change = value - base if known else np.nan
        if row["measure"] in ACCURACY and known and _distorted(change, row):
            base = value = change = np.nan
            known = False
        below, above = (
            float(f"{abs(row[end] - row['difference']):.2g}") if known else np.nan for end in ("low", "high")
        )
        rows.append({**row, "base": base, "value": value, "difference": change})
        rows[-1] |= {"low": change - below, "high": change + above}
    table = pd.DataFrame(rows, columns=comparison.differences.columns)
    for name in ("base", "value"):
        table[name] = pd.Series([row[name] for row in rows], dtype=object)
    return table


def _distorted(change: float, row: dict[Any, Any]) -> bool:
    """Whether protection moved a change by more than a quarter of its interval.

    The counts of the two scores are protected apart. A change of accuracy can be smaller than what that does.
    """
    width = row["high"] - row["low"]
    return bool(abs(change - row["difference"]) > width / 4)


def _measured(audit: Audit, row: dict[Any, Any]) -> Any:
    """A measure of a protected audit."""
    measure = row["measure"]
    if measure in LOSSES:
        return audit.losses.loc[measure, "value"]
    if measure.endswith("_mean_square"):
        return audit.debiased.loc[measure.removesuffix("_mean_square"), "mean_square"]
    chosen = audit.groups[audit.groups["group"] == row["group"]]
    return chosen[measure].iloc[0]
