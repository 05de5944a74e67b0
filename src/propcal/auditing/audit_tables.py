"""The tables of an audit: numbers of groups, cells and curves, and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_claims import Decisions
from propcal.auditing.claims import Claim
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
from propcal.auditing.statistics.chance import Chance
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
from propcal.core.grid import BoolArray, FloatArray, ratio
from propcal.core.groups import Group, membership
from propcal.core.patterns import Patterns
from propcal.errors import refused
from propcal.options import AuditRule, Identity

POWER = 0.8
ENDS = ("", "_low", "_high")  # of the names of a number and its interval
TEST_COLUMNS = list(CalibrationTest.__dataclass_fields__)
OF_LEVELS = ("overall", "group", "beyond")  # kinds of claims that rank groups
# why a cell is not judged
FEW_PEOPLE = "few people"
SMALL_SHARE = "small share"
FEW_DIFFERENT = "few different people"


@dataclass(frozen=True, eq=False)
class AuditTables:
    """What is shown of each group, cell, curve and threshold: exact, or protected.

    The tables are those of an `Audit` without labels; `tests` are those of its verdict,
    and `bin_free` has its measures without bins (None if there are none).
    """

    groups: pd.DataFrame
    categories: pd.DataFrame
    losses: pd.DataFrame
    debiased: pd.DataFrame
    curves: pd.DataFrame
    net_benefit: pd.DataFrame
    distribution: pd.DataFrame
    tests: pd.DataFrame
    smallest_alpha: pd.DataFrame | None = None
    bin_free: pd.DataFrame | None = None


def row_dicts(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; unlike those of `to_dict` they keep limits."""
    names = [str(name) for name in table.columns]
    columns = [column.tolist() for _, column in table.items()]
    return [dict(zip(names, values)) for values in zip(*columns)]


def smallest_alpha_table(
    cells: Categories, *, gamma: float, rho: float
) -> pd.DataFrame:
    """The smallest alpha for which a score is (alpha, lambda)-MC or -PMC, by each of
    the two size rules.
    """
    rows = []
    for make_criterion in CRITERIA.values():
        criterion = make_criterion(rho)
        by_algorithm = smallest_alpha_of(cells, criterion, gamma)
        by_definition = smallest_alpha_of(cells, criterion, None)
        rows.append({"algorithm": by_algorithm, "definition": by_definition})
    criteria = pd.Index(CRITERIA, name="name")
    return pd.DataFrame(rows, index=criteria)


def tests_table(tests: Sequence[CalibrationTest]) -> pd.DataFrame:
    """One row a test."""
    return pd.DataFrame(tests, columns=TEST_COLUMNS)


def categories_table(
    cells: Categories,
    noise: Chance,
    rule: AuditRule,
    min_share: float,
    *,
    any_error: bool,
) -> pd.DataFrame:
    """One row for each cell that has people, in the order of groups and bins.

    Without `any_error` of the score, no cell is called wrong.
    """
    g, j = np.nonzero(cells.people)
    people = cells.people[g, j]
    rate = cells.outcome_rate[g, j]
    score = cells.mean_score[g, j]
    gap = cells.gap[g, j]
    eligible = cells.eligible[g, j]
    effective = noise.effective[g, j]
    rate_low, rate_high = wilson_interval(rate, effective, NORMAL_REACH)
    lowest_rate, highest_rate = rate_limits(cells, noise)
    low = lowest_rate[g, j] - score
    high = highest_rate[g, j] - score
    criterion = proportional(rule.rho)
    standard_errors = detectable(int(eligible.sum()))
    detectable_gap = standard_errors * noise.error[g, j]

    few = people < rule.min_people
    small = cells.share[g, j] < min_share
    too_small = [few, small]
    reason = np.select(too_small, [FEW_PEOPLE, SMALL_SHARE], FEW_DIFFERENT)
    # without limits of the gap nothing was tested
    untested = np.isnan(low)
    too_low = any_error & (low > 0)
    too_high = any_error & (high < 0)
    cases = [~eligible, untested, too_low, too_high]
    finding = np.select(cases, [NOT_ENOUGH, UNTESTED, TOO_LOW, TOO_HIGH], CHANCE)

    names = [size.group.name for size in cells.collection.kept]
    group_names = np.array(names, dtype=object)
    bin_labels = np.array(cells.bins.labels, dtype=object)
    proportional_gap = gap / criterion.allowance(rate)
    cutoff = criterion.cutoff(rate, rule.alpha)
    reason_if_unjudged = np.where(eligible, "", reason)
    shown_detectable_gap = np.where(eligible, detectable_gap, np.nan)
    columns: dict[str, Any] = {
        "group": group_names[g],
        "bin": bin_labels[j],
        "people": people,
        "positives": cells.positives[g, j],
        "outcome_rate": rate,
        "rate_low": rate_low,
        "rate_high": rate_high,
        "mean_score": score,
        "gap": gap,
        "proportional_gap": proportional_gap,
        "cutoff": cutoff,
        "eligible": eligible,
        "reason": reason_if_unjudged,
        "low": low,
        "high": high,
        "detectable_gap": shown_detectable_gap,
        "finding": finding,
    }
    return pd.DataFrame(columns)


def labelled_categories(
    categories: pd.DataFrame, rule: AuditRule, min_share: float, unit: str
) -> pd.DataFrame:
    """The table of cells, which says in words why some are not judged."""
    different = f"worth fewer than {rule.min_people} different people"
    in_words = {
        "": "",
        FEW_PEOPLE: f"fewer than {rule.min_people} {unit}",
        SMALL_SHARE: f"share below {min_share:.2g} of all",
        FEW_DIFFERENT: f"with repeat visits, {different}",
    }
    reason = categories["reason"].map(in_words)
    return categories.assign(reason=reason)


def detectable(n_tests: int) -> float:
    """Standard errors by which a rate must be off to be found with 80 % probability by
    `n_tests`.
    """
    n_tails = 2 * max(n_tests, 1)
    critical = normal_quantile(1 - SIGNIFICANCE / n_tails)
    return critical + normal_quantile(POWER)


def groups_table(
    profiles: Sequence[Profile], decisions: Decisions, patterns: Patterns
) -> pd.DataFrame:
    """One row a group: everybody, the groups that count, those that are not tested.

    `explained_by` has the names of groups.
    """
    tests = _tests_of_groups(profiles, decisions.tests)
    rows = [_group_row(each, decisions, tests) for each in profiles]
    table = pd.DataFrame(rows)
    groups = [profile.size.group for profile in profiles]
    table["explained_by"] = _explanations(table, groups, decisions, patterns)
    return table


def labelled_groups(
    groups: pd.DataFrame, labels: Mapping[str, str], identity: Identity
) -> pd.DataFrame:
    """The table of groups with what people call them."""

    def in_words(names: Sequence[str]) -> str:
        return "; ".join(labels[name] for name in names)

    labelled = groups.copy()
    label = groups["group"].map(labels)
    labelled.insert(1, "label", label)
    labelled["reason"] = groups["reason"].map(identity.worded)
    labelled["explained_by"] = groups["explained_by"].map(in_words)
    return labelled


def _tests_of_groups(
    profiles: Sequence[Profile], tests: Sequence[CalibrationTest]
) -> dict[str, CalibrationTest]:
    """The test of each group by name; groups of everybody share one test."""
    by_name = {test.test: test for test in tests if test.test not in NOT_OF_GROUPS}
    everybody = profiles[0].size.people
    twins = [each.size.group.name for each in profiles if each.size.people == everybody]
    for name in twins:
        if name in by_name:
            shared_test = by_name[name]
            return by_name | dict.fromkeys(twins, shared_test)
    return by_name


def _explanations(
    table: pd.DataFrame,
    groups: Sequence[Group],
    decisions: Decisions,
    patterns: Patterns,
) -> pd.Series:
    """Which named errors leave no error to show in each group, by their names."""
    names = table["group"].tolist()
    explanations: list[Sequence[str]] = [()] * len(names)
    if decisions.left:
        members = membership(groups, patterns)
        inside = dict(zip(names, members))
        for i, finding in enumerate(table["finding"]):
            explanations[i] = explained_by(decisions, names[i], finding, inside)
    return pd.Series(explanations, index=table.index, dtype=object)


def explained_by(
    decisions: Decisions, group: str, direction: str, inside: Mapping[str, BoolArray]
) -> list[str]:
    """The named errors of the same direction that leave no error to show in a group.

    `inside` has the patterns of each group.
    """
    left = decisions.left.get(group, UNKNOWN)
    if not left.low <= 1 <= left.high:
        return []
    own = inside[group]
    directions = (direction, AS_COMPARED.get(direction), "")
    named: dict[str, None] = {}
    # others of a group that differs from the overall error, which is theirs
    around: dict[str, None] = {}
    for claim in decisions.claims:
        if claim.others_are == group:  # named beside the group that differs from it
            return []
        if claim.others_are and not np.any(own & ~inside[claim.others_are]):
            around[claim.others_are] = None
        if claim.who and claim.direction in directions:
            named[claim.who] = None
    return [name for name in around or named if np.any(inside[name] & own)]


def _group_row(
    profile: Profile, decisions: Decisions, tests: Mapping[str, CalibrationTest]
) -> dict[str, Any]:
    """The numbers of one group."""
    size = profile.size
    sample = profile.sample
    name = size.group.name
    counts = not size.left_out
    test = None
    rank = 0
    if counts:
        test = tests.get(name)
        rank = _ranks(decisions.claims).get(name, 0)
    p_value = np.nan
    if test is not None:
        p_value = test.adjusted_p
    design_effect = np.nan
    if profile.measured:
        design_effect = sample.variance_ratio
    rate = np.nan
    mean_score = np.nan
    if sample.total > 0:
        rate = sample.observed / sample.total
        mean_score = sample.expected / sample.total
    no_limits = (np.nan, np.nan)
    certain_within, shown_within = decisions.certain.get(name, no_limits)
    finding = group_finding(profile, test, tested=bool(tests))
    compared = _compared(decisions.claims).get(name, "")
    row: dict[str, Any] = {
        "group": name,
        "people": size.people,
        "share": size.share,
        "kept": counts,
        "reason": size.left_out or profile.too_few,
        "missing": any(level is None for _, level in size.group.conditions),
        "finding": finding,
        "rank": rank,
        "compared": compared,
        "p_value": p_value,
        "positives": sample.observed,
        "outcome_rate": rate,
        "mean_score": mean_score,
        "design_effect": design_effect,
        "certain_within": certain_within,
        "shown_within": shown_within,
    }
    estimates = {"left_over": decisions.left.get(name, UNKNOWN)}
    estimates |= {measure: profile.measures[measure] for measure in MEASURES}
    for measure, estimate in estimates.items():
        row |= {f"{measure}{end}": value for end, value in zip(ENDS, estimate)}
    return row


def _ranks(claims: Sequence[Claim]) -> dict[str, int]:
    """The place of the first claim on each group among all claims, from 1.

    Beside an overall error, a group that differs is named with its others.
    """
    ranks: dict[str, int] = {}
    others: dict[str, int] = {}
    for place, claim in enumerate(claims, start=1):
        if claim.kind in OF_LEVELS:
            ranks.setdefault(claim.who, place)
            if claim.others_are:
                others[claim.others_are] = place
    if "overall" in [claim.kind for claim in claims]:
        ranks |= others
    return ranks


def _compared(claims: Sequence[Claim]) -> dict[str, str]:
    """The direction of each group that differs from the overall error."""
    return {claim.who: claim.direction for claim in claims if claim.kind == "beyond"}


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
    columns_of = {}
    for profile in profiles:
        columns = getattr(profile, part)
        if columns:
            columns_of[profile.size.group.name] = columns
    return stacked_columns(columns_of)


def stacked_columns(columns_of: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Columns of several groups under one another."""
    if not columns_of:
        return pd.DataFrame({"group": []})
    tables = [*columns_of.values()]
    names = [*tables[0]]
    lengths = [len(columns[names[0]]) for columns in tables]
    names_of_groups = np.array([*columns_of], dtype=object)
    groups = np.repeat(names_of_groups, lengths)
    together: dict[str, Any] = {"group": groups}
    for name in names:
        together[name] = np.concatenate([columns[name] for columns in tables])
    return pd.DataFrame(together)


SHARES = ("flagged", "sensitivity", "specificity", "ppv", "net_benefit")
AT_THRESHOLD = (
    "threshold",
    "group",
    "label",
    *(f"{share}{end}" for share in SHARES for end in ENDS),
    "avoided",
)
# what is known of a group at a threshold, as the decision curve has it
CURVE_COLUMNS = [
    "treated",
    "sensitivity",
    "specificity",
    "net_benefit",
    "low",
    "high",
    "treat_all",
]
NEAR = 1e-9


def threshold_table(
    groups: pd.DataFrame, net_benefit: pd.DataFrame, thresholds: Iterable[float]
) -> pd.DataFrame:
    """One row for each threshold and group: everybody and the groups that count.

    Shares have Wilson intervals for as many independent people as the group is worth
    (`design_effect`).
    """
    parts = []
    for threshold in checked_thresholds(thresholds):
        parts.append(_at_threshold(groups, net_benefit, threshold))
    if not parts:
        return pd.DataFrame(columns=list(AT_THRESHOLD))
    table = pd.concat(parts, ignore_index=True)
    curve = table[CURVE_COLUMNS].to_numpy(np.float64)
    flagged, sensitivity, specificity, benefit, low, high, treat_all = curve.T

    rate = table["outcome_rate"].to_numpy(np.float64)
    ppv = ratio(sensitivity * rate, flagged)
    shares = np.array([flagged, sensitivity, specificity, ppv])
    lows, highs = _share_intervals(table, shares)
    share_values = np.array([*shares, benefit])
    table[[*SHARES]] = share_values.T
    low_names = [f"{name}_low" for name in SHARES]
    low_values = np.array([*lows, low])
    table[low_names] = low_values.T
    high_names = [f"{name}_high" for name in SHARES]
    high_values = np.array([*highs, high])
    table[high_names] = high_values.T
    odds = odds_of(table["threshold"].to_numpy())
    table["avoided"] = (benefit - treat_all) / odds
    return table[[*AT_THRESHOLD]]


def _at_threshold(
    groups: pd.DataFrame, net_benefit: pd.DataFrame, threshold: float
) -> pd.DataFrame:
    """The rows of the groups that count, with their points of the decision curve."""
    first = groups.index == groups.index[0]
    shown = groups["kept"].astype(bool) | first
    counted = groups[shown]
    curves = net_benefit.reindex(columns=["group", "threshold", *CURVE_COLUMNS])
    distance = np.abs(curves["threshold"] - threshold)
    points = curves[distance < NEAR]
    if len(curves) and points.empty:
        raise refused("other threshold", t=threshold)
    curves_there = points.drop(columns="threshold")
    table: pd.DataFrame = counted.merge(curves_there, "left", "group")
    return table.assign(threshold=threshold)


def _share_intervals(
    table: pd.DataFrame, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intervals of the shares flagged, of sensitivity, specificity and PPV."""
    people = table["people"].to_numpy(np.float64)
    effect = table["design_effect"].to_numpy(np.float64)
    rate = table["outcome_rate"].to_numpy(np.float64)
    everybody = np.ones(len(table))
    of_whom = np.array([everybody, rate, 1 - rate, shares[0]])
    n = people / effect * of_whom
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = wilson_interval(shares, n, NORMAL_REACH)
        low = np.where(n > 0, low, np.nan)
        high = np.where(n > 0, high, np.nan)
        return low, high
