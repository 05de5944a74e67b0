"""Before and after: what differs between two scores, and what a fit says of its own categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.core.correction.fit_summary import WITHIN_ALPHA, FitSummary
from propcal.numbers import ON_PAGE

FURTHER = 0.01  # in the logarithm of the ratio: less is no matter


@dataclass(frozen=True)
class Change:
    """A measure before and after."""

    measure: str
    group: str
    before: str
    after: str
    interval: str


def further_off(comparison: Comparison, name: str) -> int:
    """How many groups' observed/expected ratios came to lie further from 1, more than chance explains."""
    table = comparison.differences
    chosen = table[(table["score"] == name) & (table["measure"] == "observed_expected")]
    before, after = (np.abs(np.log(np.maximum(chosen[c].astype(float), 1e-9))) for c in ("base", "value"))
    sure = (chosen["low"] > 0) | (chosen["high"] < 0)
    return int(np.sum(sure & (after > before + FURTHER)))


def measure_changes(comparison: Comparison, name: str) -> tuple[list[Change], list[Change]]:
    """What differs between the base and another score: overall, and observed/expected by group."""
    table = comparison.differences[comparison.differences["score"] == name]
    labels = comparison.audits[name].labels
    rows = [_change(row, labels) for row in row_dicts(table)]
    overall = table["group"].isin(["all categories", "everybody"]).tolist()
    ratio = (table["measure"] == "observed_expected").tolist()
    return (
        [row for row, whole in zip(rows, overall) if whole],
        [row for row, whole, chosen in zip(rows, overall, ratio) if chosen and not whole],
    )


def _change(row: dict[Any, Any], labels: dict[str, str]) -> Change:
    measure = MEASURE_NAMES[row["measure"]]
    return Change(
        measure=measure.name,
        group=labels.get(row["group"], row["group"]),
        before=ON_PAGE.decimal(row["base"], measure.digits),
        after=ON_PAGE.decimal(row["value"], measure.digits),
        interval=ON_PAGE.interval(row["low"], row["high"], measure.digits, "+"),
    )


@dataclass(frozen=True)
class CertificateView:
    """What a fit says of its own categories, without their counts."""

    sentences: list[str]
    rows: list[tuple[str, str, str]]
    more: int


def certificate_view(certificate: FitSummary | None, most: int = 30) -> CertificateView | None:
    """The certificate, and the categories that are not within alpha."""
    if certificate is None:
        return None
    frame = certificate.to_frame()
    frame = frame[frame["status"] != WITHIN_ALPHA]
    rows = [(r["group"], r["bin"], r["status"]) for r in frame.head(most).to_dict("records")]
    return CertificateView(certificate.sentences(), rows, max(len(frame) - most, 0))
