"""Before and after: what differs between two scores, and what a fit says of its own categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from propcal.auditing.audit import Audit, typical_gap
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.finding_names import CHANCE, TOO_HIGH, TOO_LOW
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.core.correction.fit_summary import WITHIN_ALPHA, FitSummary
from propcal.numbers import IN_SENTENCE, ON_PAGE, known, listed

MOST_WORSE = 5


@dataclass(frozen=True)
class Change:
    """A measure before and after."""

    measure: str
    group: str
    before: str
    after: str
    interval: str


def effect_sentences(comparison: Comparison, name: str) -> list[str]:
    """What changed for whom, in numbers that add up."""
    base, last = (comparison.audits[each] for each in (comparison.base, name))
    before, after = (_off(each) for each in (base, last))
    tested = set(before) & set(after)
    was, now = ({group for group in tested if found[group]} for found in (before, after))
    told = []
    if tested:
        told.append(
            f"Miscalibrated subgroups, of {len(tested)} tested: {len(was)} with {comparison.base}, "
            f"{len(now)} with {name} ({len(was - now)} put right, {len(was & now)} still off, "
            f"{len(now - was)} new)."
        )
    typical = [typical_gap(each.debiased)[0] for each in (base, last)]
    if all(map(known, typical)):
        first, second = (IN_SENTENCE.decimal(100 * value, 1) for value in typical)
        told.append(
            f"Typical gap of a cell (a group within a risk range), without what chance adds: {first} "
            f"percentage points before, {second} after."
        )
    worse = comparison.worse_groups(name)
    if worse:
        more = [f"{len(worse) - MOST_WORSE} more"] if len(worse) > MOST_WORSE else []
        told.append(
            "Further off than before, with a 95 % CI of the O/E ratio that excludes 1: "
            f"{listed([*worse[:MOST_WORSE], *more])}."
        )
    elif len(comparison.differences):
        told.append("No group is further off than before with a 95 % CI of the O/E ratio that excludes 1.")
    return told


def _off(audit: Audit) -> dict[str, bool]:
    """For each subgroup tested, whether it is too high or too low."""
    tested = audit.groups.iloc[1:][lambda rows: rows["finding"].isin([TOO_HIGH, TOO_LOW, CHANCE])]
    return dict(zip(tested["group"], tested["finding"] != CHANCE))


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
        before=ON_PAGE.decimal(measure.shown(row["base"]), measure.digits),
        after=ON_PAGE.decimal(measure.shown(row["value"]), measure.digits),
        interval=ON_PAGE.change(row["low"], row["high"], measure.digits),
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
