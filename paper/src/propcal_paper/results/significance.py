"""Tests for differences between methods, with the marks of the published figure."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from propcal.building_blocks import plural
from propcal_paper.results.evidence import METRICS
from propcal_paper.results.wins import THREE, at_every_setting
from propcal_paper.settings import OURS, toml_file

# From the caption of the published figure, which has no mark for 0.01 < p <= 0.05.
MARKS = ((1e-4, "****"), (1e-3, "***"), (1e-2, "**"), (1.0, "ns"))
LEGEND = "ns: p > 1e-2; **: 1e-3 < p <= 1e-2; ***: 1e-4 < p <= 1e-3; ****: p <= 1e-4"


PUBLISHED_PAIRS = tuple(combinations(THREE, 2))
OUR_PAIRS = tuple((method, OURS) for method in THREE)
COLUMNS = [
    "metric",
    "model",
    "method_a",
    "method_b",
    "n_seeds",
    "comparisons",
    "rank_sum_p",
    "rank_sum_corrected",
    "mark",
    "signed_rank_p",
    "signed_rank_corrected",
    "smallest_possible_corrected",
    "trials_corrected",
    "trials_mark",
]


def signed_rank(a: ArrayLike, b: ArrayLike) -> float:
    """The p-value of the two-sided signed-rank test for pairs; 1 if no pair differs."""
    from scipy.stats import wilcoxon

    difference = np.subtract(a, b, dtype=np.float64)
    # pairs without a difference carry no information about its direction
    difference = difference[difference != 0]
    if not len(difference):
        return 1.0
    return float(wilcoxon(difference).pvalue)


def rank_sum(a: ArrayLike, b: ArrayLike) -> float:
    """The p-value of the two-sided rank-sum test; missing values are left out."""
    from scipy.stats import mannwhitneyu

    tested = mannwhitneyu(a, b, alternative="two-sided", nan_policy="omit")
    return float(tested.pvalue)


def smallest_rank_sum(n: int) -> float:
    """The smallest p-value that a rank-sum test of n values against n values can give.

    >>> smallest_rank_sum(3)
    0.1
    """
    return min(1.0, 2 / comb(2 * n, n))


def mark(p: float) -> str:
    """The mark for a p-value in the published figure; none if there is no p-value."""
    return next((sign for most, sign in MARKS if p <= most), "")


def tests(trials: pd.DataFrame) -> pd.DataFrame:
    """Both tests for every pair of methods of a base model and every metric, with
    Bonferroni correction.

    A method's value for a seed is the median over its settings. The p-values of a
    metric are multiplied by the number of pairs compared; pairs with our method are
    counted separately from the published ones. `trials_mark` is the mark of the paper's
    notebook, which counts every setting of every seed as a case of its own, the base
    model's as often as there are settings.
    """
    every_case = dict([*at_every_setting(trials).groupby(["model", "method"])])
    each = trials.groupby(["model", "method", "seed"])
    middle = each[[*METRICS]].median().reset_index()
    rows = []
    for metric in METRICS:
        wide = middle.pivot(index=["model", "seed"], columns="method", values=metric)
        for family in (PUBLISHED_PAIRS, OUR_PAIRS):
            pairs = _pairs(wide, family)
            for (model, *methods), both in pairs.items():
                row = _test(both.to_numpy().T, len(pairs))
                cases = [every_case.get((model, method)) for method in methods]
                row |= _test_of_trials(cases, metric, len(pairs))
                rows.append((metric, model, *methods, *row.values()))
    return pd.DataFrame(rows, columns=COLUMNS)


def _pairs(
    wide: pd.DataFrame, family: tuple[tuple[str, str], ...]
) -> dict[tuple[Any, ...], pd.DataFrame]:
    """The values of both methods for each seed, by base model and methods; pairs
    without common seeds are left out.
    """
    pairs = {}
    for model in wide.index.unique("model"):
        for methods in family:
            if {*methods} <= {*wide}:
                both = wide.loc[model, [*methods]].dropna()
                if len(both):
                    pairs[model, *methods] = both
    return pairs


def _test(both: Any, n_pairs: int) -> dict[str, Any]:
    """Both tests of the medians of seeds, and what they could show at most."""
    p = rank_sum(*both)
    paired = signed_rank(*both)
    n_seeds = both.shape[1]
    corrected = _corrected(p, n_pairs)
    return {
        "n_seeds": n_seeds,
        "comparisons": n_pairs,
        "rank_sum_p": p,
        "rank_sum_corrected": corrected,
        "mark": mark(corrected),
        "signed_rank_p": paired,
        "signed_rank_corrected": _corrected(paired, n_pairs),
        "smallest_possible_corrected": _corrected(smallest_rank_sum(n_seeds), n_pairs),
    }


def _test_of_trials(cases: list[Any], metric: str, n_pairs: int) -> dict[str, Any]:
    """The test of the paper's notebook, with every setting of every seed as a case."""
    p = np.nan
    if all(of_method is not None for of_method in cases):
        p = rank_sum(*(of_method[metric] for of_method in cases))
    corrected = _corrected(p, n_pairs)
    return {"trials_corrected": corrected, "trials_mark": mark(corrected)}


def _corrected(p: float, n_pairs: int) -> float:
    """Bonferroni's correction; 1 also if there is no p-value."""
    return min(1.0, p * n_pairs)


def too_few(found: pd.DataFrame) -> str:
    """A sentence if there are too few seeds for a significant result; otherwise an
    empty text.
    """
    if found.empty:
        return "There are no two methods to compare yet."
    hopeless = found["smallest_possible_corrected"] > MARKS[-2][0]
    if not hopeless.any():
        return ""
    which = "no test can" if hopeless.all() else "some tests cannot"
    seeds = plural(int(found["n_seeds"].min()), "seed")
    comparisons = int(found["comparisons"].max())
    sentence: str = toml_file("words.toml")["tests"]["few"]
    return sentence.format(seeds=seeds, comparisons=comparisons, which=which)
