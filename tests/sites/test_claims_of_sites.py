"""What is claimed of sites, from a few sites with round numbers."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from propcal.auditing.statistics.sample import Sample
from propcal.sites.between_sites import site_differences
from propcal.sites.compare_sites import Sites
from propcal.sites.site_claims import (
    MOST_COMPARED,
    _claims_of_apart,
    _slope_claim,
    differing_sites,
    site_claims,
)
from propcal.sites.site_findings import PeopleNumbers, _findings, _judged, _named

SCORES = np.array([0.1, 0.2, 0.3, 0.4])


def sample_of(times=1.0, n=1000, scores=SCORES):
    """People at each of some scores, who have so many times the expected events."""
    people = np.full(len(scores), float(n))
    events = np.round(times * scores * n)
    return Sample(
        score=scores,
        people=people.astype(np.int64),
        weight=people,
        weight_sq=people,
        positives=events,
        positives_sq=events,
        cluster=None,
    )


def joined(samples):
    def column(name):
        return np.concatenate([getattr(sample, name) for sample in samples])

    names = ["score", "people", "weight", "weight_sq", "positives", "positives_sq"]
    return Sample(**{name: column(name) for name in names}, cluster=None)


def claims_of(samples):
    everybody = joined(samples.values())
    found = site_claims(
        samples,
        list(samples),
        everybody,
        np.ones(len(samples)),
        lambda some: joined([samples[name] for name in sorted(some)]),
    )
    if found is None:
        return None
    return [(claim.kind, claim.who, claim.direction) for claim in found]


def sites(**times):
    return {name: sample_of(factor) for name, factor in times.items()}


def test_nothing_is_claimed_of_sites_that_are_right():
    assert claims_of(sites(A=1, B=1, C=1)) == []


def test_without_enough_people_there_are_no_claims():
    assert claims_of({"A": sample_of(1, n=3), "B": sample_of(1, n=3)}) is None


def test_a_score_that_is_too_low_everywhere():
    found = claims_of(sites(A=1.3, B=1.3, C=1.3))
    assert [claim for claim in found if claim[0] != "shape"] == [
        ("overall", "everybody", "too low"),
        ("group", "A", "too low"),
        ("group", "B", "too low"),
        ("group", "C", "too low"),
    ]


def test_a_site_that_differs_from_others_that_are_wrong_as_well():
    found = claims_of(sites(A=1.3, B=1.3, C=1.3, D=1.9))
    assert found[0] == ("overall", "everybody", "too low")
    assert ("beyond", "", "") in found
    beyond = [claim for claim in found if claim[0] == "beyond" and claim[1]]
    assert beyond == [("beyond", "D", "higher")]


def test_a_single_wrong_site_comes_before_differences():
    """Errors that make up for each other: everybody together is right."""
    found = claims_of(sites(A=1.3, B=0.7, C=1))
    kinds = [(kind, who) for kind, who, _ in found]
    assert kinds == [("group", "A"), ("group", "B"), ("beyond", "")]
    assert [direction for *_, direction in found] == ["too low", "too high", ""]


def apart(samples, judged=None):
    effect = np.ones(len(samples))
    return differing_sites(samples, judged or list(samples), effect)


def test_sites_that_differ_are_taken_out_one_after_the_other():
    found = apart(sites(A=1, B=1, C=1, D=1, E=1.8, F=0.6))
    assert list(found) == ["E", "F"]
    assert found["E"][0] > 0 > found["F"][0]
    assert all(p < 1e-6 for _, p in found.values())
    assert apart(sites(A=1, B=1, C=1)) == {}


def test_two_sites_are_not_told_apart():
    assert apart(sites(A=1, B=1.8)) == {}
    assert list(apart(sites(A=1, B=1, C=1.8))) == ["C"]


def test_only_sites_that_are_judged_are_named():
    assert apart(sites(A=1, B=1, C=1.8), judged=["A", "B"]) != {}
    assert "C" not in apart(sites(A=1, B=1, C=1.8), judged=["A", "B"])


def test_at_most_four_sites_are_said_to_differ():
    assert MOST_COMPARED == 4
    factors = {"U": 2.0, "V": 1.8, "W": 1.6, "X": 0.5, "Y": 0.3}
    same = dict.fromkeys("ABCDEFGHIJ", 1.0)
    assert len(apart(sites(**same, **factors))) == 4


def test_p_values_are_multiplied_by_the_number_of_sites():
    samples = sites(A=1, B=1, C=1, D=1.12)
    test = site_differences(list(samples.values()), np.ones(4))
    assert apart(samples) == {"D": (test.excess[3], 4 * test.p_values[3])}


def test_a_claim_on_the_slope_is_of_nobody_in_particular():
    """Scores of exactly 0 or 1 have no log-odds."""
    inside = sample_of(1.2)
    with_ends = joined([inside, sample_of(1, scores=np.array([0.0, 1.0]))])
    claim = _slope_claim(with_ends, 0.01)
    assert (claim.kind, claim.who, claim.direction) == ("shape", "everybody", "")
    alone = _slope_claim(inside, 0.01)
    assert [claim.estimate, claim.low, claim.high] == [
        alone.estimate,
        alone.low,
        alone.high,
    ]
    assert claim.low < claim.estimate < claim.high


def test_a_claim_on_a_site_has_the_ratio_of_the_others():
    samples = sites(A=1, B=1.5, C=2)

    def people_at(names):
        return joined([samples[name] for name in sorted(names)])

    apart = {"C": (9.0, 1e-9), "A": (-3.0, 0.02)}
    higher, lower = _claims_of_apart(apart, samples, 0.001, people_at)
    assert (higher.who, higher.direction, higher.p_value) == ("C", "higher", 0.001)
    assert (lower.who, lower.direction, lower.p_value) == ("A", "lower", 0.02)
    assert higher.others == lower.others == pytest.approx(1.5)


def test_numbers_of_people():
    numbers = PeopleNumbers.of(sample_of(1.2, n=100))
    assert (numbers.people, numbers.events) == (400, 120)
    assert numbers.predicted == pytest.approx(0.25)
    assert numbers.estimate == pytest.approx(1.2)
    assert np.isnan(numbers.observed)


def test_findings_of_sites_follow_from_claims():
    samples = sites(A=1.3, B=1, C=1)
    samples["D"] = sample_of(1, n=3)
    everybody = joined(samples.values())
    judged = _judged(samples, everybody)
    assert judged == ["A", "B", "C"]
    stated = site_claims(
        samples,
        judged,
        everybody,
        np.ones(4),
        lambda some: joined([samples[name] for name in sorted(some)]),
    )
    assert _findings(samples, judged, stated) == [
        "too low",
        "could be chance",
        "could be chance",
        "not enough data",
    ]
    assert _findings(samples, judged, None) == ["not enough data"] * 4
    assert "A" in _named(stated)
    assert _named(None) == []


@pytest.mark.parametrize(("n_few", "in_one_line"), [(1, 0), (2, 2), (3, 3)])
def test_several_sites_without_enough_data_are_in_one_line(n_few, in_one_line):
    finding = ["not enough data"] * n_few + ["could be chance"] * 2
    compared = SimpleNamespace(sites=pd.DataFrame({"finding": finding}))
    small = Sites.small.fget(compared)
    assert small.sum() == in_one_line
    assert not small[n_few:].any()
