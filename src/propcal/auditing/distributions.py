"""Quantiles and tails of usual distributions, from scipy.special: scipy.stats takes a second to import."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special


def normal_quantile(p: float) -> float:
    """Value that a standard normal variable stays below with probability `p`.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return float(special.ndtri(p))


def normal_tail(z: float) -> float:
    """Probability that a standard normal variable exceeds `z`; precise far out, too."""
    return float(special.ndtr(-z))


def normal_density(z: float) -> float:
    """Density of the standard normal distribution."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def t_quantile(p: float, df: float) -> float:
    """Value that Student's t with `df` degrees of freedom stays below with probability `p`.

    >>> round(t_quantile(0.975, 10), 3)
    2.228
    """
    return float(special.stdtrit(df, p))


def t_tail(t: float, df: float) -> float:
    """Probability that Student's t exceeds `t`."""
    return float(special.stdtr(df, -t))


def beta_quantile(p: float, a: Any, b: Any) -> Any:
    """Value that a beta variable stays below with probability `p`; NaN where `a` or `b` is 0."""
    return np.asarray(special.betaincinv(a, b, p))


def most_of_none(p: float) -> float:
    """Largest expected count under which a count of 0 still has probability 1 - `p` (Poisson).

    >>> round(most_of_none(0.95), 2)
    3.0
    """
    return -math.log1p(-p)
