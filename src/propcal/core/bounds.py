"""The paper's theorems, claims and corollaries, as functions that compute bounds.

MC, PMC and DC here are the paper's continuous definitions, which compare people with
exactly the same score. The bounds do not hold for binned losses (two perfectly
calibrated groups with mean scores 0.02 and 0.08 in the bin [0, 0.1) have PMC 0 and DC
ln 4); use the `..._binned` functions for bins.

Definitions 1 and 4 exempt a share alpha of each group, of whom nothing is asked. The
theorems, as the paper proves them, are about the others: if the exempt people of a
group have the same score, and all or none of them the outcome, then the DC and the MC
of the whole group at that score have no bound. Here nobody is exempt.
`docs/paper-to-code.md` lists the function for each statement.
"""

from __future__ import annotations

import math

from propcal.core.arguments import check_choice, check_number


def dc_from_pmc(alpha: float) -> float:
    """DC of a model that satisfies alpha-PMC: ln((1 + alpha) / (1 - alpha)) (Theorem
    PMC to DC).

    Conditions: every group's outcome rate at each score is positive, and within alpha
    of it for the whole group: nobody is exempt, and no rate is replaced by rho (as the
    losses do with small ones). There is no bound if alpha is 1 or more.

    >>> round(dc_from_pmc(0.1), 4)
    0.2007
    """
    check_number("alpha", alpha, at_least=0)
    if alpha < 1:
        return math.log((1 + alpha) / (1 - alpha))
    return math.inf


def privacy_from_pmc(alpha: float, r_max: float = 1.0) -> float:
    """Epsilon of the pufferfish privacy of group membership under alpha-PMC, for scores
    up to `r_max`.

    The secret is which group of C a person is in; the mechanism reveals the outcome at
    a score. The paper's corollary says ln((1 + alpha) / (1 - alpha)), as for
    `dc_from_pmc`, but DC compares how often groups have the event, and privacy also
    asks how often they do not. At a score r, rates lie between r / (1 + alpha) and r /
    (1 - alpha), so that the probabilities of no event differ by a factor of up to (1 -
    r / (1 + alpha)) / (1 - r / (1 - alpha)). The corollary is true for scores up to (1
    - alpha**2) / 2; there is no bound from 1 - alpha on, where one group may have the
    event always. With alpha 0 all groups have the same rate, and epsilon is 0.

    Conditions: those of `dc_from_pmc`.

    >>> round(privacy_from_pmc(0.1, r_max=0.4), 4)
    0.2007
    >>> round(privacy_from_pmc(0.1, r_max=0.8), 3), privacy_from_pmc(0.1)
    (0.898, inf)
    """
    check_number("r_max", r_max, at_least=0, at_most=1)
    event = dc_from_pmc(alpha)
    if alpha + r_max > 1 - 1e-12:  # 0.7 + 0.3 may be rounded
        return math.inf if alpha else 0.0
    highest = 1 - r_max / (1 + alpha)
    lowest = 1 - r_max / (1 - alpha)
    return max(event, math.log(highest / lowest))


def mc_from_pmc(alpha: float) -> float:
    """MC of a model that satisfies alpha-PMC: alpha (Theorem PMC to MC, with its tight
    bound).

    A gap is at most alpha times the outcome rate, which is at most 1. The paper's bound
    is alpha / (1 - alpha), which is looser. Conditions: nobody is exempt.

    >>> mc_from_pmc(0.2)
    0.2
    """
    check_number("alpha", alpha, at_least=0)
    return float(alpha)


def dc_from_mc(alpha: float, r_min: float) -> float:
    """DC under alpha-MC: ln((r_min + alpha) / (r_min - alpha)) (Theorem MC to DC).

    Conditions: `r_min` is the smallest score that any group of C receives, and nobody
    is exempt. There is no bound if it is alpha or less: a low-risk group may then have
    no outcomes at all. The bound is reached for `r_min` up to 1 - alpha; above, it
    would need an outcome rate of more than 1.

    >>> round(dc_from_mc(0.05, r_min=0.3), 4)
    0.3365
    """
    check_number("alpha", alpha, at_least=0)
    check_number("r_min", r_min, at_least=0, at_most=1)
    if r_min > alpha:
        return math.log((r_min + alpha) / (r_min - alpha))
    return math.inf


def mc_from_dc(epsilon: float, delta: float) -> float:
    """MC of a model with epsilon-DC that is delta-calibrated overall: 1 - exp(-epsilon)
    + delta.

    Theorem DC to MC. Conditions: C includes everybody as a group, or groups that do not
    overlap and together include everybody; the model is calibrated overall to within
    `delta` at each score. (With overlapping groups alone the bound can fail: of three
    equal parts at a score of 1/3, let the one that is both in A and in B have the
    outcome, and those only in A or only in B not. A and B have the same rate, 1/2.)

    >>> round(mc_from_dc(0.1, delta=0.05), 4)
    0.1452
    """
    check_number("epsilon", epsilon, at_least=0)
    check_number("delta", delta, at_least=0)
    return 1 - math.exp(-epsilon) + delta


def mc_from_binned(alpha: float, n_bins: int) -> float:
    """MC of a model that satisfies (alpha, lambda)-MC: alpha + lambda (quoted from
    Hebert-Johnson et al.).

    Conditions: lambda = 1 / n_bins and uniform bins. The bound is for the discretised
    model, which gives everybody in a bin the same score from that bin.

    >>> mc_from_binned(0.1, n_bins=10)
    0.2
    """
    check_number("alpha", alpha, at_least=0)
    check_number("n_bins", n_bins, at_least=1, whole=True)
    return alpha + 1 / n_bins


def pmc_from_binned(
    alpha: float,
    n_bins: int,
    rho: float,
    binning: str = "uniform",
    *,
    below_rho: bool = False,
) -> float:
    """PMC of a model that satisfies (alpha, lambda)-PMC (Claims 1 and 2).

    Uniform bins: alpha + lambda / rho. Geometric bins: (1 + alpha) * rho**(-lambda) -
    1. Conditions: lambda = 1 / n_bins; every category has an outcome rate of at least
    `rho`; nobody is exempt. The bound is for the discretised model, which gives
    everybody in a bin the same score from that bin.

    The paper's geometric bins begin at `rho`. If scores below it occur (`below_rho`),
    they are in propcal's added bin [0, rho), where a score may become 0 and the error
    1: the bound is then at least 1.

    >>> round(pmc_from_binned(0.1, 10, rho=0.1), 4)
    1.1
    >>> round(pmc_from_binned(0.1, 10, rho=0.1, binning="geometric"), 4)
    0.3848
    >>> pmc_from_binned(0.1, 10, rho=0.1, binning="geometric", below_rho=True)
    1.0
    """
    check_number("alpha", alpha, at_least=0)
    check_number("n_bins", n_bins, at_least=1, whole=True)
    check_number("rho", rho, above=0, at_most=1)
    check_choice("binning", binning, ("uniform", "geometric"))
    if binning == "uniform":
        return float(alpha + 1 / (n_bins * rho))
    bound = float((1 + alpha) * rho ** (-1 / n_bins) - 1)
    return max(bound, 1.0) if below_rho else bound


def dc_from_binned_pmc(
    alpha: float,
    n_bins: int,
    rho: float,
    binning: str = "uniform",
    *,
    below_rho: bool = False,
) -> float:
    """DC of a model that satisfies (alpha, lambda)-PMC: Claims 1 and 2, then Theorem
    PMC to DC.

    Conditions: those of `pmc_from_binned` and `dc_from_pmc`. There is no bound if
    scores below `rho` occur in geometric bins.

    >>> round(dc_from_binned_pmc(0.1, 10, rho=0.1, binning="geometric"), 4)
    0.8114
    """
    return dc_from_pmc(
        pmc_from_binned(alpha, n_bins, rho, binning, below_rho=below_rho)
    )


def max_updates(alpha: float, n_bins: int, gamma: float, rho: float = 1.0) -> float:
    """The most updates before PMCBoost converges: n_bins / (alpha**3 * rho**2 * gamma)
    (Proposition).

    Conditions: eta = 1, no resampling, every group's share at least `gamma`, every
    category's outcome rate at least `rho`. For MCBoost, rho = 1. Each update lowers the
    squared error by at least alpha**3 * rho**2 * lambda * gamma per person, and the
    error starts at 1 or below.

    >>> round(max_updates(0.1, 10, gamma=0.05, rho=0.1))
    20000000
    """
    check_number("alpha", alpha, above=0)
    check_number("n_bins", n_bins, at_least=1, whole=True)
    check_number("gamma", gamma, above=0, at_most=1)
    check_number("rho", rho, above=0, at_most=1)
    return n_bins / (alpha**3 * rho**2 * gamma)


def max_steps(
    alpha: float, n_bins: int, gamma: float, rho: float, n_groups: int
) -> float:
    """The most visits to categories before PMCBoost converges: n_groups / (alpha**3
    lambda**2 rho**2 gamma).

    Proposition, under the conditions of `max_updates`: in the worst case each sweep
    over all categories makes only one update.

    >>> visits = max_steps(0.1, 10, 0.05, rho=0.1, n_groups=23)
    >>> round(visits / max_updates(0.1, 10, 0.05, rho=0.1))
    230
    """
    check_number("n_groups", n_groups, at_least=1, whole=True)
    return max_updates(alpha, n_bins, gamma, rho) * n_groups * n_bins


def mc_alpha_for_pmc(alpha: float, rho: float) -> float:
    """The alpha that MCBoost needs in order to give alpha-PMC as well: alpha * rho
    (section 3.1).

    Conditions: every category's outcome rate is at least `rho`. The bound on updates is
    1/rho**3 times that of MCBoost at `alpha`, and 1/rho times that of PMCBoost at
    `alpha`.

    >>> round(mc_alpha_for_pmc(0.1, rho=0.1), 4)
    0.01
    """
    check_number("alpha", alpha, above=0)
    check_number("rho", rho, above=0, at_most=1)
    return alpha * rho


def pmc_alpha_for_mc(alpha: float) -> float:
    """The alpha that PMCBoost needs in order to give alpha-MC as well: alpha itself
    (section 3.1).

    The inverse of `mc_from_pmc`; the paper has alpha / (1 + alpha), the inverse of its
    looser bound. The bound on updates is 1/rho**2 times that of MCBoost at `alpha`: 100
    times with rho = 0.1. The paper's "1.3x more steps" is (1 + alpha)**3 and leaves
    this factor out.

    >>> mc_from_pmc(pmc_alpha_for_mc(0.1))
    0.1
    """
    check_number("alpha", alpha, above=0)
    return float(alpha)


def generalization_gap(alpha: float) -> float:
    """How much worse than the best predictor of a class an alpha-PMC model can be: 6
    alpha.

    Corollary on generalization: the excess of the mean squared distance to the true
    risk over that of the best h in H. Conditions: C contains the level sets of H
    (Theorem 5 of Hebert-Johnson et al., with the MC of `mc_from_pmc` for its alpha; the
    paper has 6 alpha / (1 - alpha), from its looser bound).

    >>> round(generalization_gap(0.1), 4)
    0.6
    """
    return 6 * mc_from_pmc(alpha)
