"""Pictures of audits and comparisons by name; each draws numbers that are in a table of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison
from propcal.output.plots.axes import plain_letters, require_matplotlib
from propcal.output.plots.forest import plot_before_after, plot_forest
from propcal.output.plots.group_lines import plot_calibration, plot_decision, plot_distribution
from propcal.output.plots.heatmap import plot_dc, plot_heatmap
from propcal.output.plots.shown_groups import unknown

AUDIT_KINDS: dict[str, Callable[..., Any]] = {
    "calibration": plot_calibration,
    "forest": plot_forest,
    "heatmap": plot_heatmap,
    "dc": plot_dc,
    "decision": plot_decision,
    "distribution": plot_distribution,
}
COMPARISON_KINDS: dict[str, Callable[..., Any]] = {"before_after": plot_before_after}
COLUMN, PAGE = 3.5, 6.4  # inches


def plot_audit(a: Audit, kind: str, groups: Any = None, *, ax: Any = None, width: float = PAGE) -> Any:
    """Draw one kind of picture of an audit."""
    return _plot(AUDIT_KINDS, a, kind, groups, ax, width)


def plot_comparison(
    c: Comparison, kind: str, groups: Any = None, *, ax: Any = None, width: float = PAGE
) -> Any:
    """Draw one kind of picture of a comparison."""
    return _plot(COMPARISON_KINDS, c, kind, groups, ax, width)


def _plot(
    kinds: Mapping[str, Callable[..., Any]], result: Any, kind: str, groups: Any, ax: Any, width: float
) -> Any:
    if kind not in kinds:
        raise unknown("picture", kind, list(kinds))
    require_matplotlib()
    with plain_letters():
        return kinds[kind](result, groups, ax=ax, width=width)
