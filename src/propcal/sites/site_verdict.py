"""The verdict on several sites in sentences: at which of them the score is too high or too low."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.decision import MIN_EVENTS, MIN_GROUP
from propcal.auditing.finding_names import CHANCE, MISCALIBRATED, NONE_FOUND, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import SIGNIFICANCE, events_p_value
from propcal.auditing.profile import JudgedGroups
from propcal.auditing.sample import Sample
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, excludes_one, known, listed, plural, without_limits

MOST_NAMED = 3
TOO_SMALL = f"fewer than {MIN_GROUP} people, or fewer than {MIN_EVENTS} expected events or non-events"
FEW_SITES = 10  # with fewer sites, no sign of a difference is weak evidence


def site_findings(samples: Sequence[Sample]) -> list[str]:
    """Whether the O/E ratio of each site differs from 1, adjusted for the number of sites (Holm).

    Sites are judged by the rules for the groups of an audit: which are large enough, and by what test.
    """
    rate = sum(sample.observed for sample in samples) / sum(sample.total for sample in samples)
    judged = JudgedGroups(MIN_GROUP, MIN_EVENTS, rate)
    tests = {
        i: events_p_value(sample)
        for i, sample in enumerate(samples)
        if not sample.soft and not judged.too_few(sample)
    }
    tests = {i: test for i, test in tests.items() if np.isfinite(test[1])}
    found = [NOT_ENOUGH] * len(samples)
    going = True
    for rank, (i, (excess, p)) in enumerate(sorted(tests.items(), key=lambda item: item[1][1])):
        going = going and p * (len(tests) - rank) < SIGNIFICANCE
        found[i] = (TOO_HIGH if excess < 0 else TOO_LOW) if going else CHANCE
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
        told = [f"There are not enough data to judge {_inside(subject)} at any site ({TOO_SMALL})."]
    if few and (parts or free):
        told.append(f"There are not enough data to judge {plural(few, 'site')} ({TOO_SMALL}).")
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
        *_slope(summary),
        *_left_out(table),
    ]


def _slope(summary: pd.DataFrame) -> list[str]:
    """The mean calibration slope, if its interval excludes 1: findings on sites are about O/E ratios only."""
    if "slope" not in summary.index:
        return []
    row: Any = summary.loc["slope"]
    if not excludes_one(row["low"], row["high"]):
        return []
    shape = "not extreme enough" if row["mean"] > 1 else "too extreme"
    slope, interval = IN_SENTENCE.decimal(row["mean"]), IN_SENTENCE.interval(row["low"], row["high"])
    return [
        f"Predictions are {shape}: the mean calibration slope over sites is {slope} (95 % CI {interval})."
    ]


def _left_out(table: pd.DataFrame) -> list[str]:
    """Sites without a part in the summary of O/E ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(np.array(without_limits(table["observed_expected"])))
    out = ~np.isfinite(ratio) | ~np.isfinite(table["observed_expected_error"].to_numpy(dtype=np.float64))
    out |= (table["finding"] == NOT_ENOUGH).to_numpy()
    if not out.any():
        return []
    names = table["site"][out].astype(str).tolist()
    some = names if len(names) <= MOST_NAMED else [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    has = (
        "has too few people or events, and is"
        if len(names) == 1
        else "have too few people or events, and are"
    )
    return [
        f"{listed(some)} {has} not in this summary, which covers {int((~out).sum())} of {len(out)} sites."
    ]
