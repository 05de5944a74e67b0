"""Net benefit, and how many people are flagged, at the thresholds of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.documents.blocks import (
    At,
    Block,
    Details,
    Fragment,
    Paragraphs,
    Section,
    Table,
)
from propcal.documents.words import table, words
from propcal.numbers import known

SAME_THRESHOLD = 1e-9


def threshold_label(threshold: float) -> str:
    """A threshold as people say it.

    >>> threshold_label(0.075), threshold_label(0.2)
    ('7.5 %', '20 %')
    """
    return f"{100 * threshold:.4g} %"


def threshold_sections(audit: Audit) -> list[Section]:
    """What acting on the score comes to: at the user's thresholds, or on a page from
    the overall rate on.
    """
    if not len(audit.net_benefit):
        return []
    chosen = [float(threshold) for threshold in audit.settings["thresholds"]]
    thresholds = chosen or [_overall_rate(audit)]
    places = At.EVERYWHERE if chosen else At.WRITTEN

    first, *others = _tables(audit, thresholds, places)
    labelled = [(threshold, threshold_label(threshold)) for threshold in thresholds]
    about = {"chosen": bool(chosen), "thresholds": labelled}
    blocks: list[Block] = [Fragment("threshold_slider.html", lambda: about), first]
    if others:
        blocks.append(Details("At the other thresholds", others, places=places))
    note = words("tables", "thresholds")
    avoided = words("tables", "avoided")
    blocks += [
        Paragraphs([note], places=places & ~At.WRITTEN),
        Paragraphs([f"{note} {avoided}"], places=places & At.WRITTEN),
    ]
    title = "At your threshold"
    return [Section("thresholds", title, blocks, link="Thresholds", places=places)]


def _overall_rate(audit: Audit) -> float:
    """The overall rate in whole percents, which is where a page starts."""
    rate = audit.groups["outcome_rate"].iloc[0]
    if known(rate):
        return float(np.clip(round(100 * float(rate)), 1, 99)) / 100
    return 0.5


def _tables(audit: Audit, thresholds: Sequence[float], places: At) -> list[Table]:
    """A table for each threshold; readers can sort the first."""
    rows = row_dicts(audit.at_threshold(*thresholds))
    for row in rows:
        row["key"] = row["group"]

    tables = []
    for place, threshold in enumerate(thresholds):
        of_this = [
            row for row in rows if abs(row["threshold"] - threshold) < SAME_THRESHOLD
        ]
        about = {"label": threshold_label(threshold), "unit": audit.identity.unit}
        found = table("threshold", of_this, f"threshold-{place}", **about)
        tables.append(replace(found, places=places, sortable=place == 0))
    return tables
