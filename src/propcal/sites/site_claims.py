"""Claims about sites: tests of everybody, each site and differences, as one family."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from propcal.auditing.audit_claims import claim_of
from propcal.auditing.audit_tables import ENDS
from propcal.auditing.claims import Claim, Kind
from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP, JudgedGroups
from propcal.auditing.statistics import hypothesis_tests as ht
from propcal.auditing.statistics.logistic_calibration import calibration
from propcal.auditing.statistics.measures import Estimate, observed_expected
from propcal.auditing.statistics.sample import Sample
from propcal.core.draws import Draws
from propcal.core.grid import FloatArray
from propcal.sites.between_sites import site_differences

EVERYBODY = "everybody"
EVENTS = "number of events"
MOST_COMPARED = 4  # sites that are said to differ from the others
# level at which the sites that are left still differ
LEVEL_OF_REST = ht.SIGNIFICANCE * ht.SUM_OF_SHARES * ht.SHARES[ht.SHAPE]

PeopleAt = Callable[[Collection[str]], Sample]  # the people of some sites


def site_claims(
    samples: Mapping[str, Sample],
    judged: Sequence[str],
    everybody: Sample,
    effect: FloatArray,
    people_at: PeopleAt,
) -> tuple[Claim, ...] | None:
    """What is claimed, in the order of the verdict, without numbers of people; None if
    there are not enough data for any test.

    The level and slope of everybody, the differences between sites, and the level of
    each site are one family of tests at 5 %. Single sites are compared with the others
    only if the sites differ. `effect` is that of weights and repeat visits at each
    site.
    """
    if everybody.soft or JudgedGroups(MIN_GROUP, MIN_EVENTS, 0.0).too_few(everybody):
        return None
    level = ht.events_p_value(everybody)
    if not np.isfinite(level[1]):
        return None

    rejected = _rejected(samples, judged, everybody, level, effect)

    def level_claims(kind: Kind, who: str, test_name: str) -> list[Claim]:
        if test_name not in rejected:
            return []
        test = rejected[test_name]
        return [claim_of(kind, who, test.statistic, EVENTS, test.adjusted_p)]

    overall = level_claims("overall", EVERYBODY, EVERYBODY)
    sites = []
    for name in judged:
        sites += level_claims("group", name, _of_site(name))
    shape = []
    if ht.SLOPE in rejected:
        shape.append(_slope_claim(everybody, rejected[ht.SLOPE].adjusted_p))
    differences = []
    if ht.SITE_DIFFERENCES in rejected:
        p_value = rejected[ht.SITE_DIFFERENCES].adjusted_p
        differences.append(claim_of("beyond", "", 0.0, ht.SITE_DIFFERENCES, p_value))
        if overall:
            apart = differing_sites(samples, judged, effect)
            differences += _claims_of_apart(apart, samples, p_value, people_at)
    if overall:
        return (*overall, *shape, *differences, *sites)
    return (*sites, *shape, *differences)


def _of_site(name: str) -> str:
    """The name of the test of the level of a site."""
    return f"site {name}"


def _rejected(
    samples: Mapping[str, Sample],
    judged: Sequence[str],
    everybody: Sample,
    level: tuple[float, float],
    effect: FloatArray,
) -> dict[str, ht.CalibrationTest]:
    """The tests of all families that reject, by their names."""
    shape = []
    differences = site_differences(list(samples.values()), effect)
    if differences:
        result = differences.statistic, differences.p_value
        shape.append((ht.SITE_DIFFERENCES, result))
    slope = ht.slope_test(everybody)
    of_sites = []
    for name in judged:
        result = ht.events_p_value(samples[name])
        of_sites.append((_of_site(name), result))
    families = {
        ht.OVERALL: [(EVERYBODY, level), (ht.SLOPE, slope)],
        ht.GROUPS: of_sites,
        ht.SHAPE: shape,
    }
    for family, tests in families.items():
        known = []
        for name, result in tests:
            _, p_value = result
            if np.isfinite(p_value):
                known.append((name, result))
        families[family] = known
    return {test.test: test for test in ht.adjust(families) if test.rejected}


def _slope_claim(everybody: Sample, p_value: float) -> Claim:
    """The calibration slope, without scores of exactly 0 or 1, which have no
    log-odds.
    """
    uncertain = (everybody.score > 0) & (everybody.score < 1)
    inside = everybody.where(uncertain)
    value, low, high = calibration(inside, Draws(0)).slope
    slope = {"estimate": value, "low": low, "high": high}
    return claim_of("shape", EVERYBODY, 0.0, ht.SLOPE, p_value, **slope)


def _claims_of_apart(
    apart: Mapping[str, tuple[float, float]],
    samples: Mapping[str, Sample],
    p_value: float,
    people_at: PeopleAt,
) -> list[Claim]:
    """The sites that differ from the others, with the O/E ratio of the others."""
    others_of_apart = {*samples} - {*apart}
    ratio: Estimate = observed_expected(people_at(others_of_apart))
    others = {f"others{end}": value for end, value in zip(ENDS, ratio)}
    claims = []
    for name, (excess, p_of_site) in apart.items():
        p = max(p_of_site, p_value)
        test = ht.SITE_DIFFERENCES
        claims.append(claim_of("beyond", name, excess, test, p, **others))
    return claims


def differing_sites(
    samples: Mapping[str, Sample], judged: Sequence[str], effect: FloatArray
) -> dict[str, tuple[float, float]]:
    """Sites that differ from the others: the clearest, and then of those that are left,
    if they differ.

    Returns the excess of events of each in standard errors, and its adjusted p-value.
    """
    apart: dict[str, tuple[float, float]] = {}
    left = dict(zip(samples, effect))
    while len(left) > 2 and len(apart) < MOST_COMPARED:
        rest = [samples[name] for name in left]
        effect_of_left = np.array(list(left.values()))
        test = site_differences(rest, effect_of_left)
        if test is None or (apart and test.p_value > LEVEL_OF_REST):
            break
        clearest = ""
        smallest_p = np.inf
        excess = np.nan
        for name, z, p in zip(left, test.excess, test.p_values):
            adjusted_p = p * len(left)
            if name in judged and adjusted_p < smallest_p:
                clearest, smallest_p, excess = name, adjusted_p, z
        if smallest_p > ht.SIGNIFICANCE:
            break
        apart[clearest] = excess, smallest_p
        del left[clearest]
    return apart
