"""What a fit did, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.core.correction.fit_summary import FitSummary, Gains
from propcal.core.correction.points_table import PointsTable
from propcal.documents.words import sentence, sentence_if
from propcal.errors import plain

ALL_OF_IT = 100  # percent
MOSTLY_POINTS = 0.5  # of the whole gain
MOSTLY_ONE = 0.5  # of the variance of all points

say = partial(sentence, "fit")
say_if = partial(sentence_if, "fit")


def what_was_done(
    s: FitSummary, points: PointsTable | None, *, noise: int, outside: int
) -> list[str]:
    """What was corrected or why nothing was, what tests found, and how many cells are
    within tolerance; `noise` and `outside` count cells that are not.
    """
    if s.n_updates:
        texts = [_corrected(s, points)]
        if s.found:
            texts.append(_tests_found(s))
    else:
        texts = [say("no_change", why=_why_nothing(s, noise=noise, outside=outside))]
    if s.enough:
        texts.append(cells(s, noise=noise, outside=outside))
    return texts


def _corrected(s: FitSummary, points: PointsTable | None) -> str:
    """What the correction is made of."""
    parts = []
    adjustments = s.n_updates - s.smooth
    if points is not None:
        adjustments -= 1
        parts.append(say("points_of", features=len(points.features)))
    if adjustments == 1:
        parts.append(say("one_adjustment"))
    elif adjustments:
        parts.append(say("adjustments", n=adjustments))

    if not s.smooth:
        how = say("corrected_by", parts=parts)
    elif len(parts) > 1:
        how = say("smooth_curve_and_both", parts=parts)
    elif parts:
        how = say("smooth_curve_and", part=parts[0])
    else:
        how = say("smooth_curve")
    return say("corrected", how=how, s=s)


def _why_nothing(s: FitSummary, *, noise: int, outside: int) -> str:
    """Why a fit changed nothing."""
    if not s.enough or not len(s.people):
        return say("not_enough")
    if s.no_error_found:
        return say("nothing_found", s=s)
    if outside:
        return s.why
    return say("all_within", noise=noise, z=s.z)


def _tests_found(s: FitSummary) -> str:
    """For which groups the raw score is wrong, and what other tests found."""
    labels = s.labels
    groups = []
    clauses = []
    for name in s.found:
        if name in labels:
            groups.append(plain(labels[name]))
        else:
            clauses.append(say("meaning", test=name))
    if groups:
        clauses.insert(0, say("wrong_for", groups=groups))
    return say("tests_found", clauses=clauses)


def cells(s: FitSummary, *, noise: int, outside: int) -> str:
    """How many cells are within tolerance, and how many exceed it."""
    n = len(s.people)
    n_within = n - outside
    if not n:
        return say("no_cell_judged")

    if outside and n_within:
        which = say("some_cells", n_within=n_within, n=n)
    elif outside:
        which = say("none_of_the_cells", n=n)
    elif n == 1:
        which = say("only_cell")
    elif n == 2:
        which = say("both_cells")
    else:
        which = say("all_cells", n=n)
    exceeding = say_if(outside, "exceed", n=outside, s=s)
    about = {"n_within": n_within, "noise": noise, "exceeding": exceeding}
    return say("cells_within", which=which, **about)


def gains(
    found: Gains, points: PointsTable | None, shares: Sequence[int], unit: str
) -> list[str]:
    """What points gain for people who were left out of the fit, and where the whole
    gain comes from: `shares` are those of curve, groups and points, in percent.
    """
    size = say("size_of_gain", gains=found)
    if points is None:
        return [say("no_points", features=found.n_features, unit=unit, size=size)]

    curve, groups, of_points = shares
    if of_points == ALL_OF_IT:
        where = say("all_from_points")
    else:
        where = say("shares_of_gain", curve=curve, groups=groups, points=of_points)
    columns = [plain(name) for name in points.columns]
    without = _without_points([plain(name) for name in found.without])
    return [
        say("columns_with_points", columns=columns, without=without),
        say("points_reduce", unit=unit, size=size, shares=where),
        *_largest_feature(found),
    ]


def _without_points(columns: Sequence[str]) -> str:
    if len(columns) > 1:
        return say("several_without", columns=columns)
    if columns:
        return say("one_without", column=columns[0])
    return ""


def _largest_feature(found: Gains) -> list[str]:
    """Whether the points are mostly those of one feature, or spread over many, if they
    make most of the gain.
    """
    if found.shares[2] <= MOSTLY_POINTS:
        return []
    share = f"{100 * found.largest:.0f} %"
    spread = found.spread
    feature = plain(max(spread, key=lambda name: spread[name])) if spread else ""
    if found.largest >= MOSTLY_ONE:
        return [say("mostly_one_feature", feature=feature, share=share)]
    if len(spread) > 2:
        return [say("spread_over_many", n=len(spread), feature=feature, share=share)]
    return []


def cell(row: Mapping[str, Any]) -> str:
    """A row of the table of cells."""
    return say("cell", row=row)


def whom(method: str, who: str, n_groups: int, n_read: int) -> str:
    """Whom a fitted estimator saw, and how many of the groups it reads: none if it
    corrects everyone alike.
    """
    groups = f"{n_groups:,} groups" if n_groups > 1 else "one group"
    reads = say_if(0 < n_read < n_groups, "some_are_read", n=n_read)
    return say("whom", method=method, who=who, groups=groups, reads=reads)


def small_groups(n: int, gamma: float, unit: str, *, smooth: bool, fewest: int) -> str:
    """How many groups were too small for cells; a smooth curve corrects those of at
    least so many people, or the largest if `fewest` is 0.
    """
    if not smooth:
        curve = ""
    elif fewest:
        curve = say("curve_for_those_of", fewest=fewest, unit=unit)
    else:
        curve = say("curve_for_the_largest")
    about = {"gamma": gamma, "unit": unit, "curve": curve}
    if n == 1:
        return say("small_group", **about)
    return say("small_groups", n=n, **about)
