"""Each theorem, on simulated people with known risk, under its conditions.

The theorems speak of one score value: a predictor here has one value per (group, bin),
and the people's risks are known, so that MC, PMC and DC are exact and not estimates.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propcal import MCBoost, PMCBoost, bounds
from propcal.errors import InputError

some_risks = st.lists(st.floats(0.01, 0.99), min_size=2, max_size=6)


def exact_losses(risk, score):
    """MC, PMC and DC at one score value: `risk` of each group among people scored
    `score`.
    """
    risk = np.asarray(risk)
    gap = np.abs(risk - score)
    return gap.max(), (gap / risk).max(), np.log(risk.max() / risk.min())


def privacy(risk):
    """The largest log ratio between groups of the probabilities of the event, and of no
    event.
    """
    return max(
        np.log(risk.max() / risk.min()), np.log((1 - risk.min()) / (1 - risk.max()))
    )


def test_the_papers_privacy_is_false_where_no_event_is_rare():
    """Its corollary says ln(1.1 / 0.9) = 0.2007 at every score, and forgets people
    without the event.
    """
    alpha, score = 0.1, 0.8
    risk = np.array([score / (1 + alpha), score / (1 - alpha)])
    assert exact_losses(risk, score)[1] == pytest.approx(alpha)  # alpha-PMC
    assert privacy(risk) == pytest.approx(0.898, abs=5e-4)
    assert privacy(risk) == pytest.approx(bounds.privacy_from_pmc(alpha, score))
    assert privacy(risk) > bounds.dc_from_pmc(alpha) == pytest.approx(0.2007, abs=5e-5)
    assert (
        bounds.privacy_from_pmc(alpha, 0.9) == math.inf
    )  # risks of 0.818 and 1: one group has it always
    limit = (1 - alpha**2) / 2
    assert bounds.privacy_from_pmc(alpha, limit) == pytest.approx(
        bounds.dc_from_pmc(alpha)
    )
    assert bounds.privacy_from_pmc(alpha, limit + 0.01) > bounds.dc_from_pmc(alpha)


def test_privacy_has_no_bound_at_the_edge_however_it_is_rounded():
    for percent in range(1, 100):
        assert (
            bounds.privacy_from_pmc(percent / 100, r_max=(100 - percent) / 100)
            == math.inf
        )
        assert (
            bounds.privacy_from_pmc(percent / 100, r_max=(99.99 - percent) / 100) < 20
        )
    assert [bounds.privacy_from_pmc(0, score) for score in (0, 0.3, 1)] == [
        0,
        0,
        0,
    ]  # equal rates


@pytest.mark.slow
def test_no_predictor_of_a_hundred_thousand_breaks_a_bound():
    """At one score, some groups with random risks and shares; in half of the draws
    close to the score.
    """
    rng = np.random.default_rng(0)
    for _ in range(100_000):
        n, score = rng.integers(2, 6), rng.uniform(0.01, 0.99)
        risk = score * rng.uniform(0.7, 1.3, n) if rng.random() < 0.5 else rng.random(n)
        risk = np.clip(risk, 1e-3, 1 - 1e-3)
        mc, pmc, dc = exact_losses(risk, score)
        overall = abs(np.average(risk, weights=rng.dirichlet(np.ones(n))) - score)
        assert dc <= bounds.dc_from_pmc(pmc) + 1e-9, (risk, score)
        assert mc <= bounds.mc_from_pmc(pmc) + 1e-9, (risk, score)
        assert privacy(risk) <= bounds.privacy_from_pmc(pmc, score) + 1e-9, (
            risk,
            score,
        )
        assert dc <= bounds.dc_from_mc(mc, score) + 1e-9, (risk, score)
        assert mc <= bounds.mc_from_dc(dc, overall) + 1e-9, (risk, score)
        lowest = risk.min()  # MC small enough for PMC, and PMC small enough for MC
        assert pmc <= mc / lowest + 1e-9, (risk, score)
        assert bounds.mc_alpha_for_pmc(mc / lowest, lowest) == pytest.approx(mc)
        assert mc <= pmc == bounds.pmc_alpha_for_mc(pmc), (risk, score)
        best, share = (
            rng.random(n),
            rng.dirichlet(np.ones(n)),
        )  # groups are the level sets of another model
        excess = share @ ((risk - score) ** 2 - (risk - best) ** 2)
        assert excess <= bounds.generalization_gap(pmc) + 1e-9, (risk, score)


@pytest.mark.slow
@pytest.mark.parametrize("binning", ["uniform", "geometric"])
def test_no_discretised_predictor_of_a_hundred_thousand_breaks_a_bound(binning):
    """Some groups in one bin, of which everybody is given one score; in half of the
    draws near its edges.
    """
    from propcal.core import bins as b

    rng = np.random.default_rng(1)
    choices = [(0.1, 10), (0.01, 5), (0.3, 20)]
    made = {
        (rho, n): b.uniform(n).edges
        if binning == "uniform"
        else b.geometric(n, rho).edges
        for rho, n in choices
    }
    for _ in range(100_000):
        rho, n_bins = choices[rng.integers(3)]
        edges = made[rho, n_bins] / 2**32
        j = rng.integers(len(edges) - 1)
        below = binning == "geometric" and j == 0
        places = (
            rng.random(2) if rng.random() < 0.5 else rng.permutation([1e-6, 1 - 1e-6])
        )
        mean, one_score = edges[j] + places * (edges[j + 1] - edges[j])
        risk = np.clip(mean * rng.uniform(0.7, 1.4, rng.integers(1, 6)), rho, 1)
        alpha = (np.abs(risk - mean) / risk).max()
        after = np.abs(risk - one_score)
        how = (alpha, n_bins, rho, binning)
        assert (after / risk).max() <= bounds.pmc_from_binned(
            *how, below_rho=below
        ) + 1e-9, (risk, mean)
        dc = np.log(risk.max() / risk.min())
        assert dc <= bounds.dc_from_binned_pmc(*how, below_rho=below) + 1e-9, (
            risk,
            mean,
        )
        if binning == "uniform":
            assert (
                after.max()
                <= bounds.mc_from_binned(np.abs(risk - mean).max(), n_bins) + 1e-9
            ), (
                risk,
                mean,
            )


@given(some_risks, st.floats(0.01, 0.99))
def test_pmc_bounds_dc_and_mc_at_one_score(risk, score):
    mc, pmc, dc = exact_losses(risk, score)
    assert dc <= bounds.dc_from_pmc(pmc) + 1e-9
    assert mc <= bounds.mc_from_pmc(pmc) + 1e-9
    assert privacy(np.asarray(risk)) <= bounds.privacy_from_pmc(pmc, score) + 1e-9


@given(some_risks, st.floats(0.01, 0.99))
def test_mc_bounds_dc_by_the_lowest_score(risk, score):
    mc, _, dc = exact_losses(risk, score)
    assert dc <= bounds.dc_from_mc(mc, score) + 1e-9


@given(some_risks, st.floats(0.01, 0.99), st.data())
def test_dc_and_calibration_overall_bound_mc(risk, score, data):
    share = np.array(
        data.draw(st.lists(st.floats(0.1, 1), min_size=len(risk), max_size=len(risk)))
    )
    overall = np.average(risk, weights=share)
    mc, _, dc = exact_losses(risk, score)
    assert mc <= bounds.mc_from_dc(dc, abs(overall - score)) + 1e-9


def test_the_bounds_are_reached():
    alpha = 0.2
    score = 0.3
    risk = [score / (1 + alpha), score / (1 - alpha)]
    _, pmc, dc = exact_losses(risk, score)
    assert pmc == pytest.approx(alpha)
    assert dc == pytest.approx(bounds.dc_from_pmc(alpha))
    mc, pmc, _ = exact_losses([1.0], 0.8)
    assert (mc, pmc) == (pytest.approx(0.2), pytest.approx(0.2))
    _, _, dc = exact_losses([0.25, 0.35], 0.3)
    assert dc == pytest.approx(bounds.dc_from_mc(0.05, 0.3))
    mc, _, dc = exact_losses(
        [math.exp(-0.5), 1.0], math.exp(-0.5) - 0.1
    )  # nearly everybody is in the first
    assert mc == pytest.approx(bounds.mc_from_dc(dc, 0.1))
    # in bins: a rate of 0.1 and a mean score at one edge of its bin, moved to the other
    for binning, rate, edge in (("uniform", 0.1, 0.2), ("geometric", 0.1, 0.1**0.9)):
        assert (edge - rate) / rate == pytest.approx(
            bounds.pmc_from_binned(0.0, 10, 0.1, binning)
        )


def test_an_outcome_rate_is_at_most_1_where_the_bound_on_dc_is_not_reached():
    highest = exact_losses([0.7, 1.0], 0.9)  # 0.2-MC would allow a rate of 1.1
    assert highest[0] == pytest.approx(0.2)
    assert highest[2] < bounds.dc_from_mc(0.2, 0.9)


def test_binned_losses_do_not_obey_the_theorems():
    """Two perfectly calibrated groups with mean scores .02 and .08 in one bin: PMC 0,
    DC ln 4.
    """
    from propcal import dc_loss, pmc_loss

    score = np.r_[np.full(100, 0.02), np.full(100, 0.08)]
    y = np.r_[np.ones(2), np.zeros(98), np.ones(8), np.zeros(92)]
    kw = {"sensitive_features": ["a"] * 100 + ["b"] * 100, "rho": 0.01}
    assert pmc_loss(y, score, **kw) == pytest.approx(0, abs=1e-8)
    assert dc_loss(y, score, **kw) == pytest.approx(math.log(4))


@pytest.mark.parametrize("binning", ["uniform", "geometric"])
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_binned_pmc_bounds_pmc_of_the_discretised_predictor(binning, data):
    """Claims 1 and 2: everybody in a bin is given some one score of it."""
    from propcal.core import bins as b

    rho, n_bins = data.draw(st.sampled_from([(0.1, 10), (0.01, 5), (0.3, 20)]))
    bins = b.uniform(n_bins) if binning == "uniform" else b.geometric(n_bins, rho)
    edges = bins.edges / 2**32
    j = data.draw(st.integers(0, len(bins) - 1))
    below = (
        binning == "geometric" and j == 0
    )  # the bin [0, rho), which the paper does not have
    mean = data.draw(st.floats(edges[j], edges[j + 1]))
    risk = np.array(data.draw(st.lists(st.floats(rho, 1), min_size=1, max_size=5)))
    alpha = (np.abs(risk - mean) / risk).max()
    one_score = data.draw(st.floats(edges[j], edges[j + 1]))
    after = (np.abs(risk - one_score) / risk).max()
    assert (
        after
        <= bounds.pmc_from_binned(alpha, n_bins, rho, binning, below_rho=below) + 1e-9
    )
    assert np.abs(risk - one_score).max() <= bounds.mc_from_binned(
        np.abs(risk - mean).max(), n_bins
    ) + 1e-9 or (
        binning == "geometric"  # alpha + lambda is for uniform bins
    )
    dc = np.log(risk.max() / risk.min())
    assert (
        dc
        <= bounds.dc_from_binned_pmc(alpha, n_bins, rho, binning, below_rho=below)
        + 1e-9
    )


def test_claim_2_needs_scores_of_at_least_rho():
    """In the bin [0, rho) a perfect mean score of 0.099 may become 0, with an error of
    1.
    """
    risk, one_score = 0.1, 0.0
    after = abs(risk - one_score) / risk
    assert after > bounds.pmc_from_binned(0.01, 10, 0.1, "geometric")
    assert after <= bounds.pmc_from_binned(0.01, 10, 0.1, "geometric", below_rho=True)
    assert (
        bounds.dc_from_binned_pmc(0.01, 10, 0.1, "geometric", below_rho=True)
        == math.inf
    )


def test_the_theorems_do_not_hold_for_people_whom_the_definitions_exempt():
    """Definition 4 with alpha 0.1: nine tenths of each group are calibrated, one tenth
    has its own score.
    """
    alpha, people = 0.1, 1000
    exempt = np.arange(people) < alpha * people
    score = np.where(exempt, 0.9, 0.3)
    risks = {
        "none of them": np.where(exempt, 0.01, 0.3),
        "all of them": np.where(exempt, 1.0, 0.3),
    }
    rates = [risk[score == 0.9].mean() for risk in risks.values()]
    for risk in (
        risks.values()
    ):  # the others are exactly calibrated, so both groups are alpha-PMC
        assert np.abs(risk[~exempt] - 0.3).max() == 0
    assert abs(np.log(rates[1] / rates[0])) > bounds.dc_from_pmc(alpha)
    assert abs(0.9 - rates[0]) > bounds.mc_from_pmc(alpha)


def test_boosting_ends_within_the_bound_on_updates(cohort, features):
    for cls, rho in ((PMCBoost, 0.1), (MCBoost, 1.0)):
        for alpha in (0.2, 0.05):
            model = cls.paper(alpha=alpha, rho=0.1).fit(
                cohort.score, cohort.y, sensitive_features=features
            )
            assert model.n_updates_ <= bounds.max_updates(alpha, 10, 0.05, rho)
            steps = model.n_sweeps_ * len(model.groups_) * 10
            assert steps <= bounds.max_steps(
                alpha, 10, 0.05, rho, n_groups=len(model.groups_)
            )


def test_mcboost_at_alpha_rho_gives_pmc_and_pmcboost_at_its_alpha_gives_mc(
    cohort, features
):
    """Section 3.1, on the fitting data: conditions are rates of at least rho."""
    from propcal import mc_loss, pmc_loss

    kw = {"sensitive_features": features, "alpha": 0.1, "min_share": 0.002}
    rho = 0.1
    small = bounds.mc_alpha_for_pmc(0.1, rho)
    model = MCBoost.paper(alpha=small, rho=rho).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    corrected = model.predict(cohort.score, sensitive_features=features)
    assert pmc_loss(cohort.y, corrected, rho=rho, **kw) <= 0.1 + 1e-8
    alpha = bounds.pmc_alpha_for_mc(0.1)
    model = PMCBoost.paper(alpha=alpha, rho=rho).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    corrected = model.predict(cohort.score, sensitive_features=features)
    assert mc_loss(cohort.y, corrected, **kw) <= 0.1 + 1e-8
    assert bounds.mc_from_pmc(alpha) == pytest.approx(0.1)


def test_a_calibrated_model_is_close_to_the_best_of_a_class():
    """Corollary: with the level sets of H as groups, alpha-PMC is within 6a of the best
    h.
    """
    rng = np.random.default_rng(0)
    risk = rng.uniform(0.05, 0.9, 40)
    for alpha in (0.05, 0.1, 0.3):
        score = risk * rng.uniform(1 - alpha, 1 + alpha, 40)
        best = 0.0  # H contains the true risk of each group
        assert np.mean((score - risk) ** 2) - best < bounds.generalization_gap(alpha)


def test_intersections_protect_their_marginals():
    """Theorem on intersections: alpha-MC on race x gender gives alpha-MC on race and on
    gender.

    The weights are the shares of the intersections *at this score*, P(q | g, R = r).
    """
    rng = np.random.default_rng(1)
    for _ in range(100):
        share, risk = rng.dirichlet(np.ones(6)).reshape(3, 2), rng.random((3, 2))
        score = rng.random()
        alpha = np.abs(risk - score).max()
        by_race = (share * risk).sum(axis=1) / share.sum(axis=1)
        by_gender = (share * risk).sum(axis=0) / share.sum(axis=0)
        assert (
            max(np.abs(by_race - score).max(), np.abs(by_gender - score).max())
            <= alpha + 1e-12
        )


def test_where_there_is_no_bound_it_is_infinite():
    assert bounds.dc_from_pmc(1.0) == bounds.privacy_from_pmc(1.0) == math.inf
    assert bounds.dc_from_mc(0.3, r_min=0.3) == math.inf
    assert bounds.dc_from_pmc(0) == bounds.mc_from_dc(0, 0) == 0


def test_the_papers_examples():
    assert pytest.approx(0.06, abs=0.002) == 0.05 / 0.85  # 6 % at a score of .9
    ratio = bounds.max_steps(0.01, 10, 0.05, 1, n_groups=1) / bounds.max_steps(
        0.1, 10, 0.05, 1, n_groups=1
    )
    assert ratio == pytest.approx(1000)  # MCBoost at alpha * rho
    more = bounds.max_updates(0.1, 10, 0.05, 0.1) / bounds.max_updates(0.1, 10, 0.05)
    assert ratio / more == pytest.approx(10)  # "10x more steps than PMCBoost"
    # "about 1.3x more steps" than MCBoost for 0.1-MC is (1 + alpha)**3, without
    # 1/rho**2
    mc = bounds.max_updates(0.1, 10, 0.05)
    assert bounds.max_updates(0.1 / 1.1, 10, 0.05, 0.1) / mc == pytest.approx(133.1)
    assert bounds.max_updates(
        bounds.pmc_alpha_for_mc(0.1), 10, 0.05, 0.1
    ) / mc == pytest.approx(100)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bounds.dc_from_pmc(-0.1),
        lambda: bounds.dc_from_mc(0.1, 1.5),
        lambda: bounds.max_updates(0, 10, 0.05),
        lambda: bounds.pmc_from_binned(0.1, 10, 0),
        lambda: bounds.pmc_from_binned(0.1, 10, 0.1, "quantile"),
        lambda: bounds.mc_from_binned(0.1, 0),
        lambda: bounds.generalization_gap(float("nan")),
    ],
)
def test_numbers_out_of_range_are_refused(call):
    with pytest.raises(InputError, match="must be"):
        call()


def test_groups_that_overlap_are_no_partition():
    score, only, both = (
        1 / 3,
        0.0,
        1.0,
    )  # three equal parts: only in A, only in B, in both
    rate = (only + both) / 2  # of A, and of B
    dc, overall = abs(np.log(rate / rate)), (only + only + both) / 3
    assert abs(rate - score) > bounds.mc_from_dc(dc, abs(overall - score)) + 0.1
