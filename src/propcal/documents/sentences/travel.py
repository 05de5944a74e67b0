"""Whether a correction that was fitted at the other sites helps at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.auditing.names import TOO_HIGH, TOO_LOW, UNTESTED
from propcal.auditing.statistics.measures import Estimate
from propcal.documents.sentences.claim_lists import split
from propcal.documents.words import sentence
from propcal.monitoring.held_out import BETTER, FURTHER, NEARER, NOT_CORRECTED, WORSE
from propcal.numbers import known, listed

MOST_SITES = 3  # that are named
RATIO = "observed_expected"

Row = Mapping[str, Any]

say = partial(sentence, "travel")


def travel(rows: Sequence[Row], pooled: Estimate) -> str:
    """Whether a correction transfers, and first where it does not; `rows` are those of
    the table of sites.
    """
    n = len([row for row in rows if row["finding"] != UNTESTED])
    others = "site" if len(rows) == 2 else "sites"
    uncorrected = _rows_with(rows, "finding", NOT_CORRECTED)
    if len(uncorrected) == n:
        return say("nothing_to_correct", others=others)

    further, rest = split(rows, lambda row: row["moved"] == FURTHER)
    nearer = _rows_with(rows, "moved", NEARER)
    worse, not_worse = split(rest, lambda row: row["finding"] == WORSE)
    off = [row for row in not_worse if row["level"]]

    findings = []
    if further:
        findings.append(say("further_from_1", sites=_sites(further, n)))
    if worse:
        findings.append(say("higher_loss", sites=_sites(worse, n)))
    if off:
        findings.append(say("still_off", sites=_sites_by_side(off, n)))
    if uncorrected:
        findings.append(say("stays", sites=_sites(uncorrected, n)))
    findings.append(say("pooled", ratio=pooled))
    if nearer:
        findings.append(say("nearer_to_1", sites=_count(len(nearer), n)))
    elif not further and not worse and not off:
        findings.append(say("no_clear_change"))
    return say("corrected", others=others, findings=findings)


def _rows_with(rows: Sequence[Row], column: str, value: str) -> list[Row]:
    return [row for row in rows if row[column] == value]


def _sites_by_side(rows: Sequence[Row], n: int) -> str:
    parts = []
    for side in (TOO_HIGH, TOO_LOW):
        on_this_side = _rows_with(rows, "level", side)
        if on_this_side:
            parts.append(f"{side} at {_sites(on_this_side, n)}")
    return " and ".join(parts)


def _sites(rows: Sequence[Row], n: int) -> str:
    """A few sites with the O/E ratio before and after, or how many."""
    if len(rows) > MOST_SITES:
        return _count(len(rows), n)
    return listed([_ratios(row) for row in rows], commas=True)


def _count(some: int, n: int) -> str:
    if some < n:
        return say("some_sites", some=some, n=n)
    if n == 2:
        return say("both_sites")
    return say("all_sites", n=n)


def _ratios(row: Row) -> str:
    """A site with its O/E ratios, as far as they are known."""
    site = str(row["site"])
    before = row[f"{RATIO}_before"]
    after = row[f"{RATIO}_after"]
    if not known(before) or not known(after):
        return site
    ends = {"low": row[f"{RATIO}_after_low"], "high": row[f"{RATIO}_after_high"]}
    if row["finding"] == NOT_CORRECTED:
        return say("not_moved", site=site, ratio=after, **ends)
    return say("moved", site=site, before=before, after=after, **ends)


def finding(row: Row) -> str:
    """What was found of the log loss of a site, of its O/E ratio, and whether its
    corrected score is off.
    """
    parts = []
    if row["finding"] == BETTER:
        parts.append(say("lower"))
    elif row["finding"] == WORSE:
        parts.append(say("higher"))
    if row["moved"]:
        parts.append(say("ratio_moved", row=row))
    if row["level"]:
        parts.append(say("corrected_score_off", row=row))
    if parts:
        return "; ".join(parts)
    if row["finding"] == NOT_CORRECTED:
        return say("not_corrected")
    return say("not_tested" if row["finding"] == UNTESTED else "nothing_shown")
