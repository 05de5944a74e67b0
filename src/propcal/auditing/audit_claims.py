"""The claims of an audit, in the order of the verdict: everybody, groups, cells; and
certificates.

Certificates say to within how much a score is shown to be right. Simultaneous intervals
turn "not found" into "right to within 8 %": those of everybody and of all groups hold
together with 95 % confidence (Bonferroni). Asked the other way round, a score is shown
to be within 20 % if the interval of every group excludes larger errors; each of these
tests has 5 %, because all of them must pass (intersection-union test). Which groups
are, if not all of them, is read from the simultaneous intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log1p
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri

from propcal.auditing.claims import Claim, Kind, Region, numbers_of
from propcal.auditing.named_errors import NamedErrors
from propcal.auditing.names import AS_COMPARED, CHANCE, TOO_HIGH, TOO_LOW, WRONG
from propcal.auditing.profile import Profile
from propcal.auditing.statistics import hypothesis_tests as ht
from propcal.auditing.statistics.measures import (
    Limits,
    observed_expected,
    ratio_intervals,
)
from propcal.auditing.statistics.rate_intervals import (
    CONFIDENCE,
    exact_interval,
    normal_quantile,
)
from propcal.auditing.statistics.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import Basis, fine_cells
from propcal.core.grid import UNIT
from propcal.core.groups import EVERYBODY, Group, membership
from propcal.core.logistic import expit, fit_logistic
from propcal.numbers import known

POINTS = 200
# scores that are named one by one, and people who must have each
MOST_SINGLE = 2
FEWEST_ALIKE = 50
NEARLY = (
    0.01  # a rate this close to 0 or 1 does not contradict a score of exactly 0 or 1
)


def error_regions(atoms: Atoms, *, curve: bool) -> tuple[Region, ...]:
    """Regions of scores that are wrong, from low to high: at 0 and 1, and where the
    `curve` is, if it is.

    Atoms have variances that allow for repeat visits.
    """
    low, high = certain_regions(atoms)
    inner = _curve_regions(atoms) if curve else []
    ends = {
        (end, region.direction) for region in inner for end in (region.low, region.high)
    }
    low, high = (
        [one for one in some if (one.low, one.direction) not in ends]
        for some in (low, high)
    )
    return (*low, *inner, *high)


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
    at = np.linspace(basis.low, basis.high, POINTS)
    design = basis(at)
    error = np.sqrt(
        np.einsum("ij,ij->i", design @ np.linalg.pinv(fit.information), design)
    )
    value = design @ fit.coefficients
    reach = np.sqrt(chdtri(columns.shape[1], ht.SIGNIFICANCE)) * error
    sign = np.where(np.abs(value) > reach, np.sign(value), 0.0)
    starts = np.flatnonzero(np.diff(sign, prepend=np.nan))
    lows = expit(at)
    highs = expit(at)
    lows[0] = 0.0
    highs[-1] = 1.0
    regions = [
        Region(
            float(lows[first]),
            float(highs[last]),
            TOO_LOW if sign[first] > 0 else TOO_HIGH,
        )
        for first, last in zip(starts, [*(starts[1:] - 1), POINTS - 1])
        if sign[first]
    ]
    return [part for region in regions for part in _where_scores_are(region, atoms)]


def _where_scores_are(region: Region, atoms: Atoms) -> list[Region]:
    """A region, or the one or two scores in it if nobody has others: nothing is shown
    between them.
    """
    inside = (atoms.score > region.low * UNIT) & (atoms.score < region.high * UNIT)
    scores, index = np.unique(atoms.score[inside], return_inverse=True)
    people = np.bincount(index, weights=atoms.people[inside])
    if not 0 < len(scores) <= MOST_SINGLE or people.min() < FEWEST_ALIKE:
        return [region]
    return [
        replace(region, low=score / UNIT, high=score / UNIT)
        for score in scores.tolist()
    ]


def certain_regions(atoms: Atoms) -> tuple[list[Region], list[Region]]:
    """Scores of exactly 0, and of exactly 1, if their people's rates are others."""
    found: tuple[list[Region], list[Region]] = [], []
    for score, direction in enumerate((TOO_LOW, TOO_HIGH)):
        there = atoms.score == score * UNIT
        weight = float(atoms.weight[there].sum())
        squares = float(atoms.weight_sq[there].sum())
        if squares:
            rate = np.array([float(atoms.positives[there].sum()) / weight])
            low, high = exact_interval(
                rate, np.array([weight**2 / squares]), ht.SIGNIFICANCE / 2
            )
            if high[0] < 1 - NEARLY if score else low[0] > NEARLY:
                found[score].append(Region(float(score), float(score), direction))
    return found


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
    """The claims on everybody and on groups, to which `labelled_claims` adds the
    numbers of the tables.

    Atoms may have clusters of repeat visits.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    excess = {
        one.size.group.name: one.sample.observed - one.sample.expected
        for one in profiles
    }
    claims = []

    def add(
        kind: Kind, who: str, sign: float, test: ht.CalibrationTest, **more: Any
    ) -> None:
        claims.append(claim_of(kind, who, sign, test.test, test.adjusted_p, **more))

    overall = rejected[EVERYBODY.name].statistic if errors.level else 0.0
    if errors.level:
        add("overall", EVERYBODY.name, overall, rejected[EVERYBODY.name])
    curved = [
        rejected[name]
        for name in (ht.SLOPE, ht.BENDS)
        if errors.curve and name in rejected
    ]
    if curved:
        add(
            "shape",
            EVERYBODY.name,
            0.0,
            min(curved, key=lambda test: test.adjusted_p),
            where=regions,
        )
    elif regions:  # scores of exactly 0 or 1, which leave nothing to chance
        claims.append(
            claim_of("shape", EVERYBODY.name, 0.0, CERTAIN, 0.0, where=regions)
        )
    for group, beyond, sign, p_value, given in sorted(
        errors.named, key=lambda one: -abs(excess[one.group.name])
    ):
        alone = len(errors.named) == 1
        if alone:
            others = _others(atoms, group, [one.size.group for one in profiles])
        else:
            others = {}
        if group.name in rejected:
            own = rejected[group.name].statistic
        else:
            own = 0.0
        if (
            beyond and own * overall >= 0
        ):  # a group that is off in the other direction is named by itself
            claims.append(
                claim_of(
                    "beyond",
                    group.name,
                    sign,
                    FROM_OVERALL,
                    p_value,
                    given=given,
                    **others,
                )
            )
        else:
            add(
                "group",
                group.name,
                rejected[group.name].statistic,
                rejected[group.name],
                **others,
            )
    differences = [
        rejected[name] for name in (ht.DIFFERENCES, ht.GROUP_SLOPES) if name in rejected
    ]
    if differences and not errors.named:
        add("beyond", "", 0.0, min(differences, key=lambda test: test.adjusted_p))
    return tuple(claims)


def cell_claims(
    tests: Sequence[ht.CalibrationTest],
    others: Sequence[Claim],
    categories: pd.DataFrame,
) -> tuple[Claim, ...]:
    """The clearest cell, unless other claims account for it; or that slopes and curves
    of groups differ.

    Claims of levels account for a cell that is off in their direction, unless errors of
    groups depend on the score. Where groups differ and none is named, a cell is told if
    the intervals of all cells say so.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    slopes = rejected.get(ht.GROUP_SLOPES)
    worst = clearest_cells(categories, 1)
    for _, cell in worst.iterrows():
        test = INTERVALS
        p_value = float("nan")
        if ht.CATEGORIES in rejected:
            test = ht.CATEGORIES
            p_value = rejected[ht.CATEGORIES].adjusted_p
        claim = claim_of(
            "cell", cell["group"], cell["gap"], test, p_value, bin=cell["bin"]
        )
        unnamed = cell["beyond"] and not all(other.who for other in others)
        left = slopes or not any(
            _accounts_for(other, claim.direction) for other in others
        )
        if unnamed or (test == ht.CATEGORIES and left):
            return (claim,)
    if slopes and all(other.who for other in others):
        return (claim_of("beyond", "", 0.0, ht.GROUP_SLOPES, slopes.adjusted_p),)
    return ()


def _accounts_for(claim: Claim, direction: str) -> bool:
    directions = (claim.direction, *(region.direction for region in claim.where))
    return (
        direction in directions or AS_COMPARED[direction] in directions or not claim.who
    )


def clearest_cells(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Cells with enough data: surely wrong ones first, then by their gap relative to
    the detectable one.
    """
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    sure = eligible["finding"].isin(WRONG)
    gap = eligible["gap"].astype(float).abs()
    detectable = eligible["detectable_gap"].astype(float)
    relative = (gap / detectable).where(
        detectable.notna(), gap
    )  # by the gap itself if chance is not known
    ranked = eligible.assign(beyond=sure, relative=relative)
    return ranked.sort_values(
        ["beyond", "relative"], ascending=False, kind="stable"
    ).head(n)


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
    inside = zip(groups, membership(groups, atoms.patterns))
    names = [other.name for other, own in inside if np.array_equal(own, outside)]
    others = Sample.of(atoms).where(outside[atoms.pattern_index()])
    value, low, high = observed_expected(others)
    return {
        "others": value,
        "others_low": low,
        "others_high": high,
        "others_are": "".join(names[:1]),
    }


TOGETHER = "simultaneous intervals of O/E ratios"
EACH = "intervals of the O/E ratio of every group"


def largest_errors(samples: Sequence[Sample]) -> list[Limits]:
    """The largest relative error that each group may have: with all groups together,
    and alone; or NaN.

    The first is of intervals that hold together. The second is of intervals whose ends
    are one-sided limits at 95 % each: a claim about all groups must pass each.
    """
    confidences = 1 - (1 - CONFIDENCE) / max(len(samples), 1), 2 * CONFIDENCE - 1
    ends = np.array([ratio_intervals(one, *confidences) for one in samples]).reshape(
        -1, 2, 2
    )
    return [
        (together, alone)
        for together, alone in np.maximum(1 - ends[..., 0], ends[..., 1] - 1).tolist()
    ]


def events_needed(within: float, rate: float = 0.0, effect: float = 1.0) -> int:
    """About how many expected events show that a score is right to within a share, if
    its O/E ratio is 1.

    Common outcomes vary less than rare ones; repeat visits and uneven weights vary
    more, by a design effect.

    >>> events_needed(0.2), events_needed(0.1), events_needed(0.2, rate=0.5, effect=3.0)
    (82, 298, 123)
    """
    return ceil(
        (normal_quantile(CONFIDENCE) / log1p(within)) ** 2 * (1 - rate) * effect
    )


def too_few_events(within: float, expected: float, rate: float, effect: float) -> str:
    """Why these people could not answer a question even if the score were right; empty
    if they could.
    """
    needed = events_needed(within, rate, effect)
    if expected >= needed:
        return ""
    share = f"{100 * within:g} %"
    events = f"about {needed:,} expected events or more"
    return f"it takes {events} to show that a score is right to within {share}; there are {expected:,.0f}"


def certificate(groups: pd.DataFrame) -> tuple[Claim, ...]:
    """How far off the score can be, for everybody and each group in which no error was
    found.
    """
    tested = groups[groups["finding"] == CHANCE]
    return tuple(
        _within(row, row["certain_within"], TOGETHER) for row in _judged(tested)
    )


def shown_within(groups: pd.DataFrame, within: float) -> tuple[bool, tuple[Claim, ...]]:
    """Whether the score is shown to be right to within a share everywhere, and what is
    shown of each group.

    A group is off by more if its test calls it wrong, and its interval excludes all
    errors up to the share.
    """
    rows = _judged(groups)
    if all(row["shown_within"] <= within for row in rows):
        return True, tuple(_within(row, within, EACH) for row in rows)
    claims = []
    for row in rows:
        wrong = row["finding"] in WRONG
        p_value = row["p_value"]
        low = row["observed_expected_low"]
        high = row["observed_expected_high"]
        if wrong and (low > 1 + within or high < 1 - within):
            claim = _within(row, within, row["group"])
            p_value = p_value if known(p_value) else float("nan")
            claims.append(
                replace(
                    claim, kind="outside", direction=row["finding"], p_value=p_value
                )
            )
    claims += [
        _within(row, within, TOGETHER)
        for row in rows
        if row["certain_within"] <= within
    ]
    return False, tuple(claims)


def _judged(groups: pd.DataFrame) -> list[Any]:
    """The rows of the groups tested."""
    tested = groups[groups["kept"].astype(bool) & groups["certain_within"].notna()]
    return [row for _, row in tested.iterrows()]


def _within(row: Any, within: float, test: str) -> Claim:
    return Claim(
        "within",
        row["group"],
        row["label"],
        "",
        test=test,
        within=within,
        **numbers_of(row),
    )
