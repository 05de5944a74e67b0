"""How far apart the outcome rates of groups are within each bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit

COLUMNS = ("bin", "groups", "dc", "low", "high", "highest", "highest_rate", "lowest", "lowest_rate")


def dc_by_bin(a: Audit) -> pd.DataFrame:
    """One row a bin: the two groups furthest apart, their rates, and the log of their ratio.

    `dc` is the largest |log rate_a - log rate_b| over all pairs of eligible groups, rates floored at rho;
    `low` and `high` are its limits, which hold for all bins at once. The largest row is the DC loss.

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
    rows = [_row(label, rows[rows["eligible"]], rho) for label, rows in in_bins(a)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def in_bins(a: Audit) -> list[tuple[str, pd.DataFrame]]:
    """Every bin's label and its categories, in the order of the bins."""
    place = bin_places(a)
    names = bin_labels(a)
    return [(name, a.categories[place == j]) for j, name in enumerate(names)]


def bin_labels(a: Audit) -> list[str]:
    """Every bin as an interval, also those without people."""
    edges = a.settings["edges"]
    ends = [")"] * (len(edges) - 2) + ["]"]
    return [f"[{low:.4g}, {high:.4g}{end}" for low, high, end in zip(edges, edges[1:], ends)]


def bin_places(a: Audit) -> Any:
    """Number of the bin of each category."""
    names = bin_labels(a)
    known = {name: j for j, name in enumerate(names)}
    labels = a.categories["bin"].tolist()
    if len(known) == len(names) and set(labels) <= set(known):
        return np.array([known[label] for label in labels], dtype=np.int64)
    # bins so narrow that their labels are alike: a mean lies between the edges of its bin
    inner = np.array(a.settings["edges"][1:-1]) - 1e-9
    return np.searchsorted(inner, a.categories["mean_score"].to_numpy(dtype=np.float64), side="right")


def _row(label: str, chosen: pd.DataFrame, rho: float) -> tuple[Any, ...]:
    if len(chosen) < 2:
        return (label, len(chosen), *[np.nan] * 3, "", np.nan, "", np.nan)
    rate = chosen["outcome_rate"].to_numpy(dtype=np.float64)
    score = chosen["mean_score"].to_numpy(dtype=np.float64)
    size = np.log(np.maximum(rate, rho))
    top, bottom = int(size.argmax()), int(size.argmin())
    if top == bottom:  # all alike
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
