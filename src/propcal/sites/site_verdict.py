"""The verdict on several sites in sentences: at which of them the score is too high or too low."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from propcal.auditing.finding_names import CHANCE, MISCALIBRATED, NONE_FOUND, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import SIGNIFICANCE
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, known, listed, plural, without_limits

MOST_NAMED = 3
FEW_SITES = 10  # with fewer sites, no sign of a difference is weak evidence


def site_findings(table: pd.DataFrame) -> list[str]:
    """Whether the O/E ratio of each site differs from 1, adjusted for the number of sites (Holm)."""
    ratio = table["observed_expected"].to_numpy(dtype=np.float64)
    error = table["observed_expected_error"].to_numpy(dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.asarray(2 * special.ndtr(-np.abs(np.log(ratio) / error)))
    none = ratio == 0  # no events: the upper limit of the ratio is at least 3 / expected events
    p[none] = np.exp(-3 / table["observed_expected_high"].to_numpy(dtype=np.float64)[none])
    tested = np.flatnonzero(np.isfinite(p))
    found = [NOT_ENOUGH] * len(table)
    going = True
    for rank, i in enumerate(sorted(tested.tolist(), key=p.__getitem__)):
        going = going and p[i] * (len(tested) - rank) < SIGNIFICANCE
        found[i] = (TOO_HIGH if ratio[i] < 1 else TOO_LOW) if going else CHANCE
    return found


def site_conclusion(findings: Sequence[str]) -> str:
    """One of the conclusions of an audit."""
    if any(finding in (TOO_HIGH, TOO_LOW) for finding in findings):
        return MISCALIBRATED
    return NONE_FOUND if CHANCE in findings else NOT_ENOUGH


def verdict_sentences(table: pd.DataFrame, identity: Identity) -> list[str]:
    """At which sites the score is too high or too low; numbers may be limits."""
    n, subject = len(table), identity.subject
    parts = []
    for finding in (TOO_HIGH, TOO_LOW):
        rows = table[table["finding"] == finding]
        if len(rows):
            parts.append(f"{finding} at {_how_many(len(rows), n)}{_range(rows)}")
    free, few = (int((table["finding"] == finding).sum()) for finding in (CHANCE, NOT_ENOUGH))
    if parts:
        told = [f"{subject} predicts {' and '.join(parts)}."]
        if free:
            told.append(f"At {plural(free, 'other site')}, the O/E ratio could differ from 1 by chance.")
    elif free:
        where = "either site" if n == 2 == free else f"any of the {n} sites" if free == n else f"{free} sites"
        told = [f"No error in the O/E ratio was found at {where}.", _no_proof(table)]
    else:
        told = [f"There are not enough data to judge {_inside(subject)} at any site."]
    if few and (parts or free):
        told.append(f"There are not enough data to judge {plural(few, 'site')}.")
    return [sentence for sentence in told if sentence]


def _inside(subject: str) -> str:
    return "the score" if subject == "The score" else subject


def _how_many(some: int, n: int) -> str:
    if some == n:
        return "both sites" if n == 2 else f"all {n} sites"
    return f"{some} of {n} sites"


def _range(rows: pd.DataFrame) -> str:
    """The lowest and the highest O/E ratio with their sites."""
    told = rows[[known(x) and not isinstance(x, Limit) for x in rows["observed_expected"]]]
    if not len(told):
        return ""
    told = told.iloc[np.argsort(told["observed_expected"].to_numpy(dtype=np.float64), kind="stable")]
    ends = [told.iloc[0]] if len(told) == 1 else [told.iloc[0], told.iloc[-1]]
    named = [f"{IN_SENTENCE.decimal(row['observed_expected'])} at {row['site']}" for row in ends]
    return f" (O/E {' to '.join(named)})"


def _no_proof(table: pd.DataFrame) -> str:
    """The widest interval among the sites without a finding."""
    rows = table[table["finding"] == CHANCE]
    width = (rows["observed_expected_high"] / rows["observed_expected_low"]).to_numpy(dtype=np.float64)
    if not np.isfinite(width).any():
        return "This is not proof of calibration."
    row: Any = rows.iloc[int(np.nanargmax(width))]
    interval = IN_SENTENCE.interval(row["observed_expected_low"], row["observed_expected_high"])
    return f"This is not proof of calibration: at {row['site']}, the 95 % CI of the O/E ratio is {interval}."


def summary_sentences(
    table: pd.DataFrame, people: Any, pooled: float, summary: pd.DataFrame, identity: Identity
) -> list[str]:
    """The mean over sites, what to expect at a new one, and whether sites differ."""
    said = f"{plural(len(table), 'site')}, {identity.count(people)}."
    if "observed_expected" not in summary.index:
        return [said, "A summary over sites needs at least 3 sites with enough data."]
    row: Any = summary.loc["observed_expected"]
    ratio, interval = IN_SENTENCE.decimal(row["mean"]), IN_SENTENCE.interval(row["low"], row["high"])
    mean = f"Averaged over sites (random effects), the O/E ratio is {ratio} (95 % CI {interval})"
    if known(pooled):
        mean += f"; pooling all {identity.unit}, it is {IN_SENTENCE.decimal(pooled)}"
    ends = [IN_SENTENCE.decimal(row[f"prediction_{end}"]) for end in ("low", "high")]
    i2 = f"{100 * float(row['i2']):.0f} %"
    if float(row["p_alike"]) < SIGNIFICANCE:
        differ = f"The sites differ by more than chance explains (I² {i2})."
    else:
        few = row["n_sites"] < FEW_SITES
        weak = f"; with {row['n_sites']:.0f} sites this is weak evidence" if few else ""
        differ = f"The sites do not differ by more than chance explains (I² {i2}){weak}."
    return [
        f"{said} {mean}.",
        f"At a new site, we expect an O/E ratio between {ends[0]} and {ends[1]} (95 % prediction interval).",
        differ,
        *_left_out(table),
    ]


def _left_out(table: pd.DataFrame) -> list[str]:
    """Sites without a part in the summary of O/E ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(np.array(without_limits(table["observed_expected"])))
    out = ~np.isfinite(ratio) | ~np.isfinite(table["observed_expected_error"].to_numpy(dtype=np.float64))
    if not out.any():
        return []
    names = table["site"][out].astype(str).tolist()
    some = names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    has = "has too few events, and is" if len(names) == 1 else "have too few events, and are"
    return [
        f"{listed(some)} {has} not in this summary, which covers {int((~out).sum())} of {len(out)} sites."
    ]
