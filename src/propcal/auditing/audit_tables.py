"""The tables of an audit, as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.findings import Findings
from propcal.auditing.loss_intervals import rate_limits
from propcal.auditing.names import (
    AS_COMPARED,
    CHANCE,
    LEFT_OUT,
    NOT_ENOUGH,
    TOO_HIGH,
    TOO_LOW,
    UNTESTED,
)
from propcal.auditing.profile import MEASURES, Profile
from propcal.auditing.statistics.hypothesis_tests import (
    NOT_OF_GROUPS,
    SIGNIFICANCE,
    CalibrationTest,
)
from propcal.auditing.statistics.measures import UNKNOWN, checked_thresholds, odds_of
from propcal.auditing.statistics.rate_intervals import (
    NORMAL_REACH,
    normal_quantile,
    wilson_interval,
)
from propcal.core.categories import Categories, smallest_alpha_of
from propcal.core.criterion import CRITERIA, proportional
from propcal.core.grid import BoolArray, ratio
from propcal.core.groups import group_labels, membership
from propcal.errors import refused
from propcal.options import Identity

POWER = 0.8
ENDS = ("", "_low", "_high")  # of the names of a number and its interval


def row_dicts(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; unlike those of `to_dict` they keep limits."""
    columns = {str(name): table[name].tolist() for name in table.columns}
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def smallest_alpha_frame(
    table: Categories, *, gamma: float, rho: float
) -> pd.DataFrame:
    """The smallest alpha for which a score is (alpha, lambda)-MC or -PMC, by each of
    the two size rules.
    """
    columns = {
        size: [
            smallest_alpha_of(table, criterion(rho), own)
            for criterion in CRITERIA.values()
        ]
        for size, own in (("algorithm", gamma), ("definition", None))
    }
    return pd.DataFrame(columns, index=pd.Index(CRITERIA, name="name"))


def categories_frame(findings: Findings, unit: str) -> pd.DataFrame:
    """Every category that has people, in the order of groups and bins."""
    table = findings.table
    noise = findings.noise
    rule = findings.rule
    g, j = np.nonzero(table.people)
    rate = table.outcome_rate[g, j]
    score = table.mean_score[g, j]
    people = table.people[g, j]
    eligible = table.eligible[g, j]
    low, high = (end[g, j] - score for end in rate_limits(table, noise))
    wilson = wilson_interval(rate, noise.effective[g, j], NORMAL_REACH)
    reason = np.select(
        [people < rule.min_people, table.share[g, j] < findings.min_share],
        [
            f"fewer than {rule.min_people} {unit}",
            f"share below {findings.min_share:.2g} of all",
        ],
        f"with repeat visits, worth fewer than {rule.min_people} different people",
    )
    # without limits of the gap nothing was tested; no cell is wrong of a score in which
    # no error was found
    wrong = bool(findings.claims) or any(test.rejected for test in findings.tests)
    cases = [~eligible, np.isnan(low), wrong & (low > 0), wrong & (high < 0)]
    names = np.array([size.group.name for size in table.collection.kept], dtype=object)
    labels = np.array(table.bins.labels, dtype=object)
    columns: dict[str, Any] = {
        "group": names[g],
        "bin": labels[j],
        "people": people,
        "positives": table.positives[g, j],
        "outcome_rate": rate,
        "rate_low": wilson[0],
        "rate_high": wilson[1],
        "mean_score": score,
        "gap": table.gap[g, j],
        "proportional_gap": table.gap[g, j] / proportional(rule.rho).allowance(rate),
        "cutoff": proportional(rule.rho).cutoff(rate, rule.alpha),
        "eligible": eligible,
        "reason": np.where(eligible, "", reason),
        "low": low,
        "high": high,
        "detectable_gap": np.where(
            eligible, detectable(int(eligible.sum())) * noise.error[g, j], np.nan
        ),
        "finding": np.select(cases, [NOT_ENOUGH, UNTESTED, TOO_LOW, TOO_HIGH], CHANCE),
    }
    return pd.DataFrame(columns)


def detectable(n_tests: int) -> float:
    """Standard errors by which a rate must be off to be found with 80 % probability by
    `n_tests`.
    """
    return normal_quantile(1 - SIGNIFICANCE / (2 * max(n_tests, 1))) + normal_quantile(
        POWER
    )


def groups_frame(findings: Findings, identity: Identity) -> pd.DataFrame:
    """One row a group: everybody, the groups that count, those that are not tested."""
    by_name = {
        test.test: test for test in findings.tests if test.test not in NOT_OF_GROUPS
    }
    everybody = findings.profiles[0].size
    twins = [
        p.size.group.name
        for p in findings.profiles
        if p.size.people == everybody.people
    ]
    if twin := next((by_name[name] for name in twins if name in by_name), None):
        by_name |= dict.fromkeys(twins, twin)  # a group of everybody is tested once
    groups = [profile.size.group for profile in findings.profiles]
    patterns = findings.people.patterns
    labels = group_labels(groups, patterns, identity.labels, everyone=identity.everyone)
    pairs = zip(findings.profiles, labels)
    rows = [
        _group_row(profile, label, findings, by_name, identity)
        for profile, label in pairs
    ]
    table = pd.DataFrame(rows)
    named = dict(zip(table["group"], table["label"]))
    if findings.left:
        members = membership(findings.counts.groups, patterns)
    else:
        members = ()
    inside = dict(zip((group.name for group in findings.counts.groups), members))
    table["explained_by"] = [
        "; ".join(named[who] for who in explained_by(findings, group, finding, inside))
        for group, finding in zip(table["group"], table["finding"])
    ]
    return table


def explained_by(
    findings: Findings, group: str, direction: str, inside: Mapping[str, BoolArray]
) -> list[str]:
    """The named errors of the same direction that leave no error to show in a group.

    `inside` has the patterns of each group.
    """
    left = findings.left.get(group, UNKNOWN)
    if not left.low <= 1 <= left.high:
        return []
    others = {claim.others_are for claim in findings.claims if claim.others_are}
    if group in others:  # named beside the group that differs from it
        return []
    ways = (direction, AS_COMPARED.get(direction), "")
    named = [
        claim.who for claim in findings.claims if claim.who and claim.direction in ways
    ]
    within = [who for who in others if not np.any(inside[group] & ~inside[who])]
    named = (
        within or named
    )  # the overall error is that of the others, where a group differs from it
    return [who for who in dict.fromkeys(named) if np.any(inside[who] & inside[group])]


def _group_row(
    profile: Profile,
    label: str,
    findings: Findings,
    tests: dict[str, CalibrationTest],
    identity: Identity,
) -> dict[str, Any]:
    size = profile.size
    sample = profile.sample
    test = tests.get(size.group.name) if not size.left_out else None
    kinds = ("overall", "group", "beyond")
    levels = [
        (i, claim)
        for i, claim in enumerate(findings.claims, start=1)
        if claim.kind in kinds
    ]
    rank = {claim.who: i for i, claim in reversed(levels)}
    if (
        levels and levels[0][1].kind == "overall"
    ):  # the others of a group are named beside it
        rank |= {claim.others_are: i for i, claim in levels if claim.others_are}
    compared = {
        claim.who: claim.direction for _, claim in levels if claim.kind == "beyond"
    }
    certain = findings.certain.get(size.group.name, (np.nan, np.nan))
    empty = sample.total <= 0
    row: dict[str, Any] = {
        "group": size.group.name,
        "label": label,
        "people": size.people,
        "share": size.share,
        "kept": not size.left_out,
        "reason": identity.worded(size.left_out or profile.too_few),
        "missing": any(level is None for _, level in size.group.conditions),
        "finding": group_finding(profile, test, tested=bool(tests)),
        "rank": rank.get(size.group.name, 0) if not size.left_out else 0,
        "compared": compared.get(size.group.name, ""),
        "p_value": test.adjusted_p if test is not None else np.nan,
        "positives": sample.observed,
        "outcome_rate": np.nan if empty else sample.observed / sample.total,
        "mean_score": np.nan if empty else sample.expected / sample.total,
        "design_effect": sample.variance_ratio if profile.measured else np.nan,
        "certain_within": certain[0],
        "shown_within": certain[1],
    }
    row |= zip(
        (f"left_over{end}" for end in ENDS), findings.left.get(size.group.name, UNKNOWN)
    )
    for name in MEASURES:
        row |= zip((f"{name}{end}" for end in ENDS), profile.measures[name])
    return row


def group_finding(
    profile: Profile, test: CalibrationTest | None, *, tested: bool
) -> str:
    """What can be said of a group as a whole."""
    if profile.size.left_out:
        return LEFT_OUT
    if test is None:  # too few people, or too few different ones behind many rows
        return NOT_ENOUGH if profile.too_few or tested else UNTESTED
    if not test.rejected:
        return CHANCE
    return TOO_LOW if test.statistic > 0 else TOO_HIGH


def stacked(profiles: Sequence[Profile], part: str) -> pd.DataFrame:
    """The curve, thresholds or bars of all groups under one another."""
    columns = {profile.size.group.name: getattr(profile, part) for profile in profiles}
    return stacked_columns({name: own for name, own in columns.items() if own})


def stacked_columns(found: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Columns of several groups under one another."""
    if not found:
        return pd.DataFrame({"group": []})
    lengths = [len(next(iter(columns.values()))) for columns in found.values()]
    names = next(iter(found.values()))
    together = {
        name: np.concatenate([columns[name] for columns in found.values()])
        for name in names
    }
    return pd.DataFrame(
        {"group": np.repeat(np.array([*found], dtype=object), lengths), **together}
    )


SHARES = ("flagged", "sensitivity", "specificity", "ppv", "net_benefit")
AT_THRESHOLD = (
    "threshold",
    "group",
    "label",
    *(f"{x}{end}" for x in SHARES for end in ENDS),
    "avoided",
)
AT = (
    "treated",
    "sensitivity",
    "specificity",
    "net_benefit",
    "low",
    "high",
    "treat_all",
)  # of the curve
NEAR = 1e-9


def threshold_table(
    groups: pd.DataFrame, net_benefit: pd.DataFrame, thresholds: Iterable[float]
) -> pd.DataFrame:
    """One row for each threshold and group: everybody and the groups that count.

    Shares have Wilson intervals for as many independent people as the group is worth
    (`design_effect`).
    """
    shown = groups[groups["kept"].astype(bool) | (groups.index == groups.index[0])]
    at = net_benefit.reindex(columns=["group", "threshold", *AT])
    parts: list[pd.DataFrame] = []
    for t in checked_thresholds(thresholds):
        here = at[np.abs(at["threshold"] - t) < NEAR]
        if len(at) and here.empty:
            raise refused("other threshold", t=t)
        parts.append(
            shown.merge(here.drop(columns="threshold"), "left", "group").assign(
                threshold=t
            )
        )
    if not parts:
        return pd.DataFrame(columns=list(AT_THRESHOLD))
    table = pd.concat(parts, ignore_index=True)
    of_group = table[["people", "design_effect", "outcome_rate"]].to_numpy(np.float64)
    (people, effect, rate), ones = of_group.T, np.ones(len(table))
    flagged, sensitivity, specificity, benefit, low, high, everybody = (
        table[[*AT]].to_numpy(np.float64).T
    )
    ppv = ratio(sensitivity * rate, flagged)
    shares = np.array([flagged, sensitivity, specificity, ppv])
    n = people / effect * np.array([ones, rate, 1 - rate, flagged])
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = [
            np.where(n > 0, end, np.nan)
            for end in wilson_interval(shares, n, NORMAL_REACH)
        ]
    for end, rows, own in zip(ENDS, (shares, *ends), (benefit, low, high)):
        table[[f"{name}{end}" for name in SHARES]] = np.array([*rows, own]).T
    table["avoided"] = (benefit - everybody) / odds_of(table["threshold"].to_numpy())
    return table[[*AT_THRESHOLD]]
