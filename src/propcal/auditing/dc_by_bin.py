"""How far apart the outcome rates of groups are within each bin."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal.core.bins import bin_label
from propcal.numbers import Limit

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit

COLUMNS = ("bin", "groups", "dc", "low", "high", "highest", "highest_rate", "lowest", "lowest_rate")


def dc_by_bin(a: Audit, *, own_rates: bool = False) -> pd.DataFrame:
    """One row a bin: the two groups furthest apart, their rates, and the log of their ratio.

    `dc` is the largest |log rate_a - log rate_b| over all pairs of eligible groups, rates floored at rho;
    `low` and `high` are its limits, which hold for all bins at once. The largest row is the DC loss.
    Of groups that the floor makes alike the first is named, or, by their `own_rates`, the one whose rate is
    lowest; that may be the highest too. Cells of which only limits are known are left aside.

    Examples
    --------
    >>> from propcal import audit
    >>> from propcal.data.cohorts import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=1)
    >>> a = audit(visits.admitted, visits.true_risk, sensitive_features=visits[["race", "gender"]])
    >>> bool(np.isclose(dc_by_bin(a).dc.max(), a.losses.loc["dc", "value"]))
    True
    """
    rho = float(a.settings["rho"])
    rate = a.categories["outcome_rate"]
    shown = (
        a.categories["eligible"]
        & rate.notna()
        & ~rate.map(lambda value: isinstance(value, Limit)).astype(bool)
    )
    found = [_row(label, rows[shown[rows.index]], rho, own_rates) for label, rows in in_bins(a)]
    return pd.DataFrame(found, columns=list(COLUMNS))


def in_bins(a: Audit) -> list[tuple[str, pd.DataFrame]]:
    """Every bin's label and its categories, in the order of the bins."""
    place = bin_places(a)
    return [(label, a.categories[place == j]) for j, label in enumerate(bin_labels(a))]


def bin_labels(a: Audit) -> list[str]:
    """Every bin as an interval, also those without people."""
    edges = a.settings["edges"]
    return [
        bin_label(low, high, last=j == len(edges) - 1)
        for j, (low, high) in enumerate(pairwise(edges), start=1)
    ]


def bin_places(a: Audit) -> Any:
    """Number of the bin of each category."""
    names = bin_labels(a)
    times = Counter(names)
    alone = {name: j for j, name in enumerate(names) if times[name] == 1}
    # bins so narrow that their labels are alike: a mean lies between the edges of its bin
    inner = np.array(a.settings["edges"][1:-1]) - 1e-9
    by_mean = np.searchsorted(inner, a.categories["mean_score"].to_numpy(dtype=np.float64), side="right")
    told = [alone.get(label, int(j)) for label, j in zip(a.categories["bin"].tolist(), by_mean)]
    return np.array(told, dtype=np.int64)


def _row(label: str, chosen: pd.DataFrame, rho: float, own_rates: bool) -> tuple[Any, ...]:
    if len(chosen) < 2:
        return (label, len(chosen), *[np.nan] * 3, "", np.nan, "", np.nan)
    rate = chosen["outcome_rate"].to_numpy(dtype=np.float64)
    score = chosen["mean_score"].to_numpy(dtype=np.float64)
    size = np.log(np.maximum(rate, rho))
    ranked = rate if own_rates else size
    top, bottom = int(ranked.argmax()), int(ranked.argmin())
    if top == bottom and not own_rates:  # all alike
        bottom = 1
    least, most = (chosen[end].to_numpy(dtype=np.float64) + score for end in ("low", "high"))
    below, above = (np.log(np.maximum(end, rho)) for end in (least, most))
    apart = above[:, None] - below[None, :]
    np.fill_diagonal(apart, 0.0)  # a group does not differ from itself
    names = chosen["group"].tolist()
    low = max(0.0, float(below.max() - above.min())) if np.isfinite(below).all() else np.nan
    return (
        label,
        len(chosen),
        float(size[top] - size[bottom]),
        low,
        float(apart.max()),
        names[top],
        float(rate[top]),
        names[bottom],
        float(rate[bottom]),
    )
