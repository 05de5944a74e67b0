"""What is claimed of several sites: of all of them together, and of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from propcal.auditing.claims import NAN, Claim, Kind
from propcal.auditing.hypothesis_tests import (
    GROUPS,
    OVERALL,
    SHAPE,
    SHARES,
    SIGNIFICANCE,
    SITE_DIFFERENCES,
    SLOPE,
    TOGETHER,
    adjust,
    events_p_value,
    slope_test,
)
from propcal.auditing.logistic_calibration import calibration
from propcal.auditing.measures import UNKNOWN, Estimate, observed_expected
from propcal.auditing.names import (
    AS_COMPARED,
    CHANCE,
    MISCALIBRATED,
    NONE_FOUND,
    NOT_ENOUGH,
    TOO_HIGH,
    TOO_LOW,
)
from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP, JudgedGroups
from propcal.auditing.sample import Sample
from propcal.core.draws import Draws
from propcal.core.grid import FloatArray
from propcal.sites.between_sites import site_differences

MOST_COMPARED = 4
NEXT = SIGNIFICANCE * TOGETHER * SHARES[SHAPE]  # the level at which sites that are left still differ
EVERYBODY = "everybody"
EVENTS = "number of events"
TOO_SMALL = f"fewer than {MIN_GROUP} people, or fewer than {MIN_EVENTS} expected events or non-events"


def judged_sites(samples: Mapping[str, Sample], everybody: Sample) -> list[str]:
    """The sites with enough data to be judged, by the rules for the groups of an audit."""
    judged = JudgedGroups(MIN_GROUP, MIN_EVENTS, everybody.observed / everybody.total)
    return [name for name, sample in samples.items() if not sample.soft and not judged.too_few(sample)]


def site_claims(
    samples: Mapping[str, Sample],
    judged: Sequence[str],
    everybody: Sample,
    effect: FloatArray,
    people_at: Callable[[Collection[str]], Sample],
) -> tuple[Claim, ...] | None:
    """What is claimed, in the order in which it is told; None if there are not enough data for any test.

    The level and slope of everybody, the differences between sites, and the level of each site are one family
    of tests at 5 %. Single sites are compared with the others only if the sites differ. `effect` is that of
    weights and repeat visits at each site, and `people_at` gives the people of some sites.
    """
    if everybody.soft or JudgedGroups(MIN_GROUP, MIN_EVENTS, 0.0).too_few(everybody):
        return None
    level = events_p_value(everybody)
    if not np.isfinite(level[1]):
        return None
    differences = site_differences(list(samples.values()), effect)
    families = {
        OVERALL: [(EVERYBODY, level), (SLOPE, slope_test(everybody))],
        GROUPS: [(f"site {name}", events_p_value(samples[name])) for name in judged],
        SHAPE: [(SITE_DIFFERENCES, (differences.statistic, differences.p_value))] if differences else [],
    }
    tests = {family: [t for t in own if np.isfinite(t[1][1])] for family, own in families.items()}
    found = {test.test: test for test in adjust(tests) if test.rejected}

    def claimed(kind: Kind, who: str, sample: Sample, test: str) -> list[Claim]:
        own = found.get(test)
        return [] if own is None else [_claim(kind, who, sample, own.statistic, own.adjusted_p)]

    overall = claimed("overall", EVERYBODY, everybody, EVERYBODY)
    group = [one for name in judged for one in claimed("group", name, samples[name], f"site {name}")]
    shape, beyond = [], []
    if SLOPE in found:  # without scores of exactly 0 or 1, which have no log-odds
        inside = everybody.where((everybody.score > 0) & (everybody.score < 1))
        slope = calibration(inside, Draws(0)).slope
        shape.append(_claim("shape", EVERYBODY, everybody, 0.0, found[SLOPE].adjusted_p, SLOPE, slope))
    if SITE_DIFFERENCES in found:
        p = found[SITE_DIFFERENCES].adjusted_p
        beyond.append(Claim("beyond", "", "", "", test=SITE_DIFFERENCES, p_value=p))
        apart = differing_sites(samples, judged, effect) if overall else {}
        others = observed_expected(people_at({*samples} - {*apart}))
        for name, (z, own) in apart.items():
            beyond.append(
                _claim("beyond", name, samples[name], z, max(own, p), SITE_DIFFERENCES, None, others)
            )
    return (*overall, *shape, *beyond, *group) if overall else (*group, *shape, *beyond)


def differing_sites(
    samples: Mapping[str, Sample], judged: Sequence[str], effect: FloatArray
) -> dict[str, tuple[float, float]]:
    """Sites that differ from the others: the clearest, and then of those that are left, if they differ.

    Returns the excess of events of each in standard errors, and its adjusted p-value.
    """
    found: dict[str, tuple[float, float]] = {}
    left = dict(zip(samples, effect))
    while len(left) > 2 and len(found) < MOST_COMPARED:
        test = site_differences([samples[name] for name in left], np.array(list(left.values())))
        if test is None or (found and test.p_value > NEXT):
            break
        own = {
            name: (z, p * len(left)) for name, z, p in zip(left, test.excess, test.p_values) if name in judged
        }
        name = min(own, key=lambda name: np.nan_to_num(own[name][1], nan=np.inf), default="")
        if not name or not own[name][1] <= SIGNIFICANCE:
            break
        found[name] = own[name]
        del left[name]
    return found


def _claim(
    kind: Kind,
    who: str,
    sample: Sample,
    excess: float,
    p_value: float,
    test: str = EVENTS,
    estimate: Estimate | None = None,
    others: Estimate = UNKNOWN,
) -> Claim:
    """A claim of some people; it is about their O/E ratio, unless there is another estimate."""
    direction = TOO_HIGH if excess < 0 else TOO_LOW if excess > 0 else ""
    return Claim(
        kind,
        who,
        who,
        AS_COMPARED[direction] if kind == "beyond" else direction,
        *(estimate or observed_expected(sample)),
        test,
        float(p_value),
        sample.n_people,
        sample.observed,
        NAN,
        sample.expected / sample.total,
        *others,
    )


def site_findings(names: Sequence[str], judged: Sequence[str], claims: Sequence[Claim] | None) -> list[str]:
    """The mark of each site in tables and pictures: that of its own claim."""
    own = {claim.who: claim.direction for claim in claims or () if claim.kind == "group"}
    return [own.get(name, CHANCE if name in judged and claims is not None else NOT_ENOUGH) for name in names]


def site_conclusion(claims: Sequence[Claim] | None) -> str:
    """One of the conclusions of an audit."""
    return NOT_ENOUGH if claims is None else MISCALIBRATED if claims else NONE_FOUND
