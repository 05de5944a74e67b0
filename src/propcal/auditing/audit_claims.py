"""The claims of an audit, in the order of the verdict, and its certificates.

Claims are on everybody, on groups and on cells. Certificates say to within how much a
score is shown to be right. Simultaneous intervals turn "not found" into "right to
within 8 %": those of everybody and of all groups hold together with 95 % confidence
(Bonferroni). Asked the other way round, a score is shown to be within 20 % if the
interval of every group excludes larger errors; each of these tests has 5 %, because all
of them must pass (intersection-union test). Which groups are, if not all of them, is
read from the simultaneous intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log1p
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri

from propcal.auditing.claims import NAN, Claim, Kind, Region, numbers_of
from propcal.auditing.named_errors import NamedErrors
from propcal.auditing.names import AS_COMPARED, CHANCE, TOO_HIGH, TOO_LOW, WRONG
from propcal.auditing.profile import Profile
from propcal.auditing.statistics import hypothesis_tests as ht
from propcal.auditing.statistics.measures import (
    Estimate,
    observed_expected,
    ratio_intervals,
)
from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    Limits,
    exact_interval,
    normal_quantile,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import Basis, fine_cells
from propcal.core.grid import UNIT, FloatArray, from_grid
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.logistic import expit, fit_logistic
from propcal.numbers import known

POINTS = 200  # of a curve
# scores that are named one by one, and people who must have each
MAX_SINGLE_SCORES = 2
MIN_ALIKE = 50
# a rate this close to 0 or 1 does not contradict a score of exactly 0 or 1
NEARLY = 0.01


@dataclass(frozen=True, eq=False)
class Decisions:
    """What tests decide on everybody and on groups.

    `claims` are what is stated, `left` are the O/E ratios that they leave of other
    errors. `certain` has for each group tested how far off it can be, with 95 %
    confidence for all together and for each alone.
    """

    tests: Sequence[ht.CalibrationTest] = ()
    claims: tuple[Claim, ...] = ()
    left: Mapping[str, Estimate] = field(default_factory=dict)
    certain: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def any_error(self) -> bool:
        """Whether any error was found."""
        return bool(self.claims) or any(test.rejected for test in self.tests)


def error_regions(atoms: Atoms, *, curve: bool) -> tuple[Region, ...]:
    """Regions of scores that are wrong, from low to high: at 0 and 1, and where the
    `curve` is, if it is.

    Atoms have variances that allow for repeat visits.
    """
    at_zero, at_one = certain_regions(atoms)
    inner = _curve_regions(atoms) if curve else []
    covered = set()
    for region in inner:
        covered |= {(region.low, region.direction), (region.high, region.direction)}

    def alone(regions: Sequence[Region]) -> list[Region]:
        return [one for one in regions if (one.low, one.direction) not in covered]

    return (*alone(at_zero), *inner, *alone(at_one))


def _curve_regions(atoms: Atoms) -> list[Region]:
    """Where a spline in log-odds is off. Its band is Scheffé's, which holds at all
    scores together.
    """
    cells = fine_cells(atoms, (EVERYBODY,))
    if not len(cells):
        return []
    basis = Basis(cells)
    columns = basis(cells.log_odds)
    fit = fit_logistic(columns, cells.log_odds, cells.n, cells.positives)
    if fit is None:
        return []

    log_odds = np.linspace(basis.low, basis.high, POINTS)
    design = basis(log_odds)
    covariance = np.linalg.pinv(fit.information)
    variance = np.einsum("ij,ij->i", design @ covariance, design)
    error = np.sqrt(variance)
    width = np.sqrt(chdtri(columns.shape[1], ht.SIGNIFICANCE))
    reach = width * error
    value = design @ fit.coefficients
    off = np.abs(value) > reach
    sign = np.where(off, np.sign(value), 0.0)
    regions = []
    for region in _runs_of_errors(sign, expit(log_odds)):
        regions += _where_scores_are(region, atoms)
    return regions


def _runs_of_errors(sign: FloatArray, scores: FloatArray) -> list[Region]:
    """Runs of scores where a curve is off in one direction (`sign` is not 0); the first
    begins at a score of 0, and the last ends at 1.
    """
    changes = np.diff(sign, prepend=np.nan)
    starts = np.flatnonzero(changes)
    ends = [*(starts[1:] - 1), len(sign) - 1]
    regions = []
    for first, last in zip(starts, ends):
        if not sign[first]:
            continue
        low = 0.0 if first == 0 else float(scores[first])
        high = 1.0 if last == len(sign) - 1 else float(scores[last])
        direction = TOO_LOW if sign[first] > 0 else TOO_HIGH
        regions.append(Region(low, high, direction))
    return regions


def _where_scores_are(region: Region, atoms: Atoms) -> list[Region]:
    """A region, or the one or two scores in it if nobody has others: nothing is shown
    between them.
    """
    above_low = atoms.score > region.low * UNIT
    below_high = atoms.score < region.high * UNIT
    inside = above_low & below_high
    scores, index = np.unique(atoms.score[inside], return_inverse=True)
    people_inside = atoms.people[inside]
    people = np.bincount(index, weights=people_inside)
    if not 0 < len(scores) <= MAX_SINGLE_SCORES or people.min() < MIN_ALIKE:
        return [region]
    single = from_grid(scores).tolist()
    return [replace(region, low=score, high=score) for score in single]


def certain_regions(atoms: Atoms) -> tuple[list[Region], list[Region]]:
    """Scores of exactly 0, and of exactly 1, if their people's rates are others."""
    return _certain_region(atoms, 0), _certain_region(atoms, 1)


def _certain_region(atoms: Atoms, score: int) -> list[Region]:
    """The score of exactly 0 or 1, if the rate of the people who have it is another."""
    alike = atoms.score == score * UNIT
    weight = float(atoms.weight[alike].sum())
    squares = float(atoms.weight_sq[alike].sum())
    if not squares:
        return []
    events = float(atoms.positives[alike].sum())
    rate = np.array([events / weight])
    effective = np.array([weight**2 / squares])
    low, high = exact_interval(rate, effective, ht.SIGNIFICANCE / 2)
    if score == 0:
        wrong = low[0] > NEARLY
        direction = TOO_LOW
    else:
        wrong = high[0] < 1 - NEARLY
        direction = TOO_HIGH
    return [Region(float(score), float(score), direction)] if wrong else []


CERTAIN = "scores of exactly 0 and 1"
FROM_OVERALL = "difference from the overall error"
# looked at once another test has found an error
INTERVALS = "simultaneous intervals of the gaps of all cells"


def group_claims(
    atoms: Atoms,
    profiles: Sequence[Profile],
    tests: Sequence[ht.CalibrationTest],
    errors: NamedErrors,
    regions: tuple[Region, ...],
) -> tuple[Claim, ...]:
    """The claims on everybody and on groups, to which `with_numbers` adds the numbers
    of the tables.

    Atoms may have clusters of repeat visits.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    claims = []
    if errors.level:
        test = rejected[EVERYBODY.name]
        claims.append(claim_of_test("overall", EVERYBODY.name, test))
    claims += _shape_claims(rejected, errors, regions)
    claims += _claims_on_groups(atoms, profiles, rejected, errors)
    if not errors.named:
        claims += _claims_of_differences(rejected)
    return tuple(claims)


def _shape_claims(
    rejected: Mapping[str, ht.CalibrationTest],
    errors: NamedErrors,
    regions: tuple[Region, ...],
) -> list[Claim]:
    """That the calibration curve of everybody is off, or scores of exactly 0 or 1."""
    clearest = _clearest(rejected, (ht.SLOPE, ht.BENDS)) if errors.curve else None
    if clearest is not None:
        test = clearest.test
        p_value = clearest.adjusted_p
    elif regions:  # scores of exactly 0 or 1 leave nothing to chance
        test = CERTAIN
        p_value = 0.0
    else:
        return []
    return [claim_of("shape", EVERYBODY.name, 0.0, test, p_value, where=regions)]


def _claims_on_groups(
    atoms: Atoms,
    profiles: Sequence[Profile],
    rejected: Mapping[str, ht.CalibrationTest],
    errors: NamedErrors,
) -> list[Claim]:
    """The groups that are named, those with the most events in excess first.

    A group that differs from the overall error is said to be off by itself if it is off
    in the other direction.
    """
    excess = {}
    for one in profiles:
        excess[one.size.group.name] = abs(one.sample.observed - one.sample.expected)
    by_excess = sorted(errors.named, key=lambda one: -excess[one.group.name])
    overall = rejected[EVERYBODY.name].statistic if errors.level else 0.0
    claims = []
    for group, beyond, sign, p_value, given in by_excess:
        name = group.name
        test = rejected.get(name)
        statistic = 0.0 if test is None else test.statistic
        if beyond and statistic * overall >= 0:
            claim = claim_of("beyond", name, sign, FROM_OVERALL, p_value, given=given)
        else:
            claim = claim_of_test("group", name, rejected[name])
        if len(by_excess) == 1:
            groups = [one.size.group for one in profiles]
            claim = replace(claim, **_others(atoms, group, groups))
        claims.append(claim)
    return claims


def _claims_of_differences(rejected: Mapping[str, ht.CalibrationTest]) -> list[Claim]:
    """That groups differ, where none can be named."""
    test = _clearest(rejected, (ht.DIFFERENCES, ht.GROUP_SLOPES))
    if test is None:
        return []
    return [claim_of("beyond", "", 0.0, test.test, test.adjusted_p)]


def _clearest(
    rejected: Mapping[str, ht.CalibrationTest], names: Sequence[str]
) -> ht.CalibrationTest | None:
    """Of some tests that reject the one with the lowest adjusted p-value."""
    tests = [rejected[name] for name in names if name in rejected]
    return min(tests, key=attrgetter("adjusted_p"), default=None)


def cell_claims(
    tests: Sequence[ht.CalibrationTest],
    others: Sequence[Claim],
    categories: pd.DataFrame,
) -> tuple[Claim, ...]:
    """The clearest cell, unless other claims account for it; or that slopes and curves
    of groups differ.

    Claims of levels account for a cell that is off in their direction, unless errors of
    groups depend on the score. Where groups differ and none is named, a cell is named
    if the intervals of all cells say so.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    slopes = rejected.get(ht.GROUP_SLOPES)
    of_cells = rejected.get(ht.CATEGORIES)
    all_named = all(other.who for other in others)
    clearest = clearest_cells(categories, 1)
    if len(clearest):
        cell = clearest.iloc[0]
        claim = _cell_claim(cell, of_cells)
        accounted = any(_accounts_for(other, claim.direction) for other in others)
        if cell["beyond"] and not all_named:
            return (claim,)
        if of_cells is not None and (slopes is not None or not accounted):
            return (claim,)
    if slopes is not None and all_named:
        return (claim_of("beyond", "", 0.0, ht.GROUP_SLOPES, slopes.adjusted_p),)
    return ()


def _cell_claim(cell: pd.Series, of_cells: ht.CalibrationTest | None) -> Claim:
    """The claim on a cell, by the test of all cells, or else by their intervals."""
    test = INTERVALS
    p_value = NAN
    if of_cells is not None:
        test = of_cells.test
        p_value = of_cells.adjusted_p
    sign = cell["gap"]
    return claim_of("cell", cell["group"], sign, test, p_value, bin=cell["bin"])


def _accounts_for(claim: Claim, direction: str) -> bool:
    """Whether a claim accounts for a cell that is off in a direction."""
    if not claim.who:
        return True
    directions = {claim.direction, *(region.direction for region in claim.where)}
    return direction in directions or AS_COMPARED.get(direction) in directions


def clearest_cells(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Cells with enough data: surely wrong ones first, then by their gap relative to
    the detectable one.
    """
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    gap = eligible["gap"].astype(float).abs()
    detectable = eligible["detectable_gap"].astype(float)
    # by the gap itself if chance is not known
    relative = (gap / detectable).where(detectable.notna(), gap)
    wrong = eligible["finding"].isin(WRONG)
    ranked = eligible.assign(beyond=wrong, relative=relative).sort_values(
        ["beyond", "relative"], ascending=False, kind="stable"
    )
    return ranked.head(n)


def claim_of_test(kind: Kind, who: str, test: ht.CalibrationTest) -> Claim:
    """A claim on the people of a test, in its direction."""
    return claim_of(kind, who, test.statistic, test.test, test.adjusted_p)


def claim_of(
    kind: Kind, who: str, sign: float, test: str, p_value: float, **more: Any
) -> Claim:
    """A claim whose direction is that of the events beyond those expected, by their
    sign.
    """
    if sign > 0:
        direction = TOO_LOW
    elif sign < 0:
        direction = TOO_HIGH
    else:
        direction = ""
    if kind == "beyond":
        direction = AS_COMPARED.get(direction, "")
    return Claim(kind, who, who, direction, test=test, p_value=float(p_value), **more)


def _others(atoms: Atoms, group: Group, groups: Sequence[Group]) -> dict[str, Any]:
    """Everybody who is not in a group: the name of their group, if it is one, and their
    O/E ratio.
    """
    outside = ~membership([group], atoms.patterns)[0]
    others = Sample.of(atoms).where(outside[atoms.pattern_index()])
    value, low, high = observed_expected(others)
    numbers = {"others": value, "others_low": low, "others_high": high}
    for other, members in zip(groups, membership(groups, atoms.patterns)):
        if np.array_equal(members, outside):
            return {**numbers, "others_are": other.name}
    return numbers


TOGETHER = "simultaneous intervals of O/E ratios"
EACH = "intervals of the O/E ratio of every group"


def largest_errors(samples: Sequence[Sample]) -> list[Limits]:
    """The largest relative error that each group may have: with all groups together,
    and alone; or NaN.

    The first is of intervals that hold together. The second is of intervals whose ends
    are one-sided limits at 95 % each: a claim about all groups must pass each.
    """
    n_groups = max(len(samples), 1)
    confidences = 1 - (1 - CONFIDENCE) / n_groups, 2 * CONFIDENCE - 1
    limits_of_groups = [ratio_intervals(one, *confidences) for one in samples]
    limits = np.array(limits_of_groups)
    pairs = limits.reshape(-1, 2, 2)
    low, high = np.moveaxis(pairs, -1, 0)
    errors = np.maximum(1 - low, high - 1)
    return [(together, alone) for together, alone in errors.tolist()]


def events_needed(within: float, rate: float = 0.0, effect: float = 1.0) -> int:
    """About how many expected events show that a score is right to within a share, if
    its O/E ratio is 1.

    Common outcomes vary less than rare ones; repeat visits and uneven weights vary
    more, by a design effect.

    >>> events_needed(0.2), events_needed(0.1), events_needed(0.2, rate=0.5, effect=3.0)
    (82, 298, 123)
    """
    relative_error = normal_quantile(CONFIDENCE) / log1p(within)
    of_rare_events = relative_error**2
    return ceil(of_rare_events * (1 - rate) * effect)


def too_few_events(within: float, expected: float, rate: float, effect: float) -> str:
    """Why these people could not answer a question even if the score were right; empty
    if they could.
    """
    needed = events_needed(within, rate, effect)
    if expected >= needed:
        return ""
    return (
        f"it takes about {needed:,} expected events or more to show that a score is "
        f"right to within {100 * within:g} %; there are {expected:,.0f}"
    )


def certificate(groups: pd.DataFrame) -> tuple[Claim, ...]:
    """How far off the score can be, for everybody and each group in which no error was
    found.
    """
    no_error_found = groups[groups["finding"] == CHANCE]
    return tuple(
        _within(row, row["certain_within"], TOGETHER) for row in _tested(no_error_found)
    )


def shown_within(groups: pd.DataFrame, within: float) -> tuple[bool, tuple[Claim, ...]]:
    """Whether the score is shown to be right to within a share everywhere, and what is
    shown of each group.

    A group is off by more if its test calls it wrong, and its interval excludes all
    errors up to the share.
    """
    rows = _tested(groups)
    if all(row["shown_within"] <= within for row in rows):
        return True, tuple(_within(row, within, EACH) for row in rows)
    outside = []
    inside = []
    for row in rows:
        if _is_outside(row, within):
            outside.append(_outside(row, within))
        if row["certain_within"] <= within:
            inside.append(_within(row, within, TOGETHER))
    return False, (*outside, *inside)


def _is_outside(row: Any, within: float) -> bool:
    """Whether a group is shown to be off by more than a share."""
    low = row["observed_expected_low"]
    high = row["observed_expected_high"]
    return row["finding"] in WRONG and (low > 1 + within or high < 1 - within)


def _outside(row: Any, within: float) -> Claim:
    """The claim that a group is off by more than a share."""
    p_value = row["p_value"] if known(row["p_value"]) else NAN
    claim = _within(row, within, row["group"])
    return replace(claim, kind="outside", direction=row["finding"], p_value=p_value)


def _tested(groups: pd.DataFrame) -> list[Any]:
    """The rows of the groups tested."""
    is_tested = groups["kept"].astype(bool) & groups["certain_within"].notna()
    tested = groups[is_tested]
    return [row for _, row in tested.iterrows()]


def _within(row: Any, within: float, test: str) -> Claim:
    """The claim that the score is right for a group to within a share."""
    numbers = numbers_of(row)
    name = row["group"]
    return Claim("within", name, row["label"], "", test=test, within=within, **numbers)
