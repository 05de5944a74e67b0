"""The claims of an audit, in the order in which they are told: everybody, groups, cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri

from propcal.auditing.claims import Claim, Kind, Region
from propcal.auditing.finding_names import AS_COMPARED, TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import (
    BENDS,
    CATEGORIES,
    DIFFERENCES,
    GROUP_SLOPES,
    SIGNIFICANCE,
    SLOPE,
    CalibrationTest,
)
from propcal.auditing.intervals import exact_interval
from propcal.auditing.measures import observed_expected
from propcal.auditing.named_errors import NamedErrors
from propcal.auditing.profile import Profile
from propcal.auditing.sample import Sample
from propcal.core.atoms import Atoms
from propcal.core.fit.log_odds_cells import Basis, fine_cells
from propcal.core.grid import UNIT
from propcal.core.groups.collection import EVERYBODY, Group, membership
from propcal.core.logistic import expit, fit_logistic

POINTS = 200
NEARLY = 0.01  # a rate so close to 0 or 1 is not told from a score of exactly 0 or 1


def curve_regions(atoms: Atoms) -> tuple[Region, ...]:
    """Regions from low to high scores; atoms have variances that allow for repeat visits.

    The curve is a spline in log-odds. Its band is Scheffé's, which holds at all scores together.
    """
    cells = fine_cells(atoms, (EVERYBODY,))
    found: list[Region] = []
    if len(cells):
        basis = Basis(cells)
        columns = basis(cells.log_odds)
        fit = fit_logistic(columns, cells.log_odds, cells.n, cells.positives)
        if fit is not None:
            at = np.linspace(basis.low, basis.high, POINTS)
            design = basis(at)
            error = np.sqrt(np.einsum("ij,ij->i", design @ np.linalg.pinv(fit.information), design))
            value = design @ fit.coefficients
            reach = np.sqrt(chdtri(columns.shape[1], SIGNIFICANCE)) * error
            sign = np.where(np.abs(value) > reach, np.sign(value), 0.0)
            starts = np.flatnonzero(np.diff(sign, prepend=np.nan))
            for first, last in zip(starts, [*(starts[1:] - 1), POINTS - 1]):
                if sign[first]:
                    low = 0.0 if first == 0 else float(expit(at[first]))
                    high = 1.0 if last == POINTS - 1 else float(expit(at[last]))
                    found.append(Region(low, high, TOO_LOW if sign[first] > 0 else TOO_HIGH))
    ends = certain_regions(atoms)
    return (*ends[0], *found, *ends[1])


def certain_regions(atoms: Atoms) -> tuple[list[Region], list[Region]]:
    """Scores of exactly 0, and of exactly 1, if their people's rates are others."""
    return _certain(atoms, 0, TOO_LOW), _certain(atoms, 1, TOO_HIGH)


def _certain(atoms: Atoms, score: int, direction: str) -> list[Region]:
    """Scores of exactly 0 or 1, if their people's rate is another."""
    there = atoms.score == score * UNIT
    weight, squares = float(atoms.weight[there].sum()), float(atoms.weight_sq[there].sum())
    if not squares:
        return []
    rate = np.array([float(atoms.positives[there].sum()) / weight])
    low, high = exact_interval(rate, np.array([weight**2 / squares]), SIGNIFICANCE / 2)
    wrong = low[0] > NEARLY if score == 0 else high[0] < 1 - NEARLY
    return [Region(float(score), float(score), direction)] if wrong else []


CERTAIN, FROM_OVERALL = "scores of exactly 0 and 1", "difference from the overall error"


def group_claims(
    atoms: Atoms,
    profiles: Sequence[Profile],
    tests: Sequence[CalibrationTest],
    errors: NamedErrors,
    regions: tuple[Region, ...],
) -> tuple[Claim, ...]:
    """The claims on everybody and on groups, to which `labelled_claims` adds the numbers of the tables.

    Atoms may have clusters of repeat visits.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    excess = {one.size.group.name: one.sample.observed - one.sample.expected for one in profiles}
    claims = []
    if errors.level:
        test = rejected[EVERYBODY.name]
        claims.append(_claim("overall", EVERYBODY.name, test.statistic, test.test, test.adjusted_p))
    curved = [rejected[name] for name in (SLOPE, BENDS) if errors.curve and name in rejected]
    if curved:
        shape = min(curved, key=lambda test: test.adjusted_p)
        claims.append(_claim("shape", EVERYBODY.name, 0.0, shape.test, shape.adjusted_p, where=regions))
    elif regions:  # scores of exactly 0 or 1, which leave nothing to chance
        claims.append(_claim("shape", EVERYBODY.name, 0.0, CERTAIN, 0.0, where=regions))
    named = sorted(errors.named, key=lambda one: -abs(excess[one.group.name]))
    alone = len(errors.named) == 1
    for group, beyond, sign, p_value, given in named:
        others = _others(atoms, group, [one.size.group for one in profiles]) if alone else {}
        if beyond:
            claims.append(_claim("beyond", group.name, sign, FROM_OVERALL, p_value, given=given, **others))
        else:
            test = rejected[group.name]
            claims.append(_claim("group", group.name, test.statistic, test.test, test.adjusted_p, **others))
    differences = [rejected[name] for name in (DIFFERENCES, GROUP_SLOPES) if name in rejected]
    if differences and not errors.named:
        test = min(differences, key=lambda t: t.adjusted_p)
        claims.append(Claim("beyond", "", "", "", test=test.test, p_value=test.adjusted_p))
    return tuple(claims)


def cell_claims(
    tests: Sequence[CalibrationTest], others: Sequence[Claim], categories: pd.DataFrame
) -> tuple[Claim, ...]:
    """The clearest cell, unless other claims account for it; or that slopes and curves of groups differ.

    Claims of levels account for a cell that is off in their direction, unless errors of groups depend on the
    score.
    """
    rejected = {test.test: test for test in tests if test.rejected}
    slopes, worst = rejected.get(GROUP_SLOPES), clearest_cells(categories, 1)
    if CATEGORIES in rejected and not worst.empty:
        cell, p_value = worst.iloc[0], rejected[CATEGORIES].adjusted_p
        claim = _claim("cell", cell["group"], cell["gap"], CATEGORIES, p_value, bin=cell["bin"])
        if slopes or not any(_accounts_for(other, claim.direction) for other in others):
            return (claim,)
    if slopes and all(other.who for other in others):
        return (Claim("beyond", "", "", "", test=GROUP_SLOPES, p_value=slopes.adjusted_p),)
    return ()


def _accounts_for(claim: Claim, direction: str) -> bool:
    directions = (claim.direction, *(region.direction for region in claim.where))
    return direction in directions or AS_COMPARED[direction] in directions or not claim.who


def clearest_cells(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Cells with enough data: surely wrong ones first, then by their gap relative to the detectable one."""
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    sure = eligible["finding"].isin([TOO_HIGH, TOO_LOW])
    gap, detectable = eligible["gap"].astype(float).abs(), eligible["detectable_gap"].astype(float)
    relative = (gap / detectable).where(detectable.notna(), gap)  # by the gap itself if chance is not known
    ranked = eligible.assign(beyond=sure, relative=relative)
    return ranked.sort_values(["beyond", "relative"], ascending=False, kind="stable").head(n)


def _claim(kind: Kind, who: str, sign: float, test: str, p_value: float, **more: Any) -> Claim:
    direction = TOO_LOW if sign > 0 else TOO_HIGH if sign < 0 else ""
    direction = AS_COMPARED.get(direction, "") if kind == "beyond" else direction
    return Claim(kind, who, who, direction, test=test, p_value=p_value, **more)


def _others(atoms: Atoms, group: Group, groups: Sequence[Group]) -> dict[str, Any]:
    """Everybody who is not in a group: the name of their group, if it is one, and their O/E ratio."""
    outside = ~membership([group], atoms.patterns)[0]
    inside = zip(groups, membership(groups, atoms.patterns))
    names = [other.name for other, own in inside if np.array_equal(own, outside)]
    value, low, high = observed_expected(Sample.of(atoms, np.flatnonzero(outside)))
    return {"others": value, "others_low": low, "others_high": high, "others_are": "".join(names[:1])}
