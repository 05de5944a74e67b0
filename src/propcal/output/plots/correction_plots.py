"""Pictures of a correction: the map of each pattern, and what moved one person's score."""

from __future__ import annotations

from typing import Any

import numpy as np

from propcal.core.correction.correction import Correction
from propcal.core.correction.explain import ALL_SCORES, Explanation
from propcal.core.grid import UNIT, from_grid
from propcal.core.groups.collection import pattern_name
from propcal.errors import InputError
from propcal.numbers import IN_TEXT
from propcal.output.changed_patterns import most_changed
from propcal.output.plots.axes import COLORS, HIGH, LOW, STYLES, axes, require_matplotlib, short

MOST_PATTERNS = 8


def plot_correction(correction: Correction, patterns: Any = None, *, ax: Any = None) -> Any:
    """Raw against corrected score for each pattern, with the identity line and the bins shaded."""
    require_matplotlib()
    chosen = _chosen(correction, patterns)
    ax = axes(ax, 9, 5)
    # the bins of the updates are bins of the score after a smooth start, which this axis does not show
    edges = from_grid(correction.bins.edges) if correction.start is None else np.empty(0)
    for low, high in zip(edges[::2], edges[1::2]):
        ax.axvspan(low, high, color="0.94", lw=0, zorder=0)
    ax.plot([0, 1], [0, 1], color="0.55", lw=1, zorder=1, label="no change")
    for i, (pattern, label) in enumerate(chosen):
        x, y = _path(correction, pattern)
        look = {"color": COLORS[i % len(COLORS)], "ls": STYLES[i // len(COLORS) % len(STYLES)]}
        ax.plot(x, y, lw=1.7, label=label, **look)
        ax.plot(x[~np.isnan(y)], y[~np.isnan(y)], lw=0.5, alpha=0.45, label="_jumps", **look)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="raw score", ylabel="corrected score")
    ax.set_box_aspect(1)
    title = (
        None if patterns is not None else f"of {len(correction.patterns)} patterns, those that change most"
    )
    ax.legend(
        fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, title=title, title_fontsize=7
    )
    return ax


def _chosen(correction: Correction, patterns: Any) -> list[tuple[int, str]]:
    """Patterns by name, or those that change most; patterns with one and the same map are one line."""
    names = [pattern_name(correction.patterns, p) for p in range(len(correction.patterns))]
    if patterns is not None:
        for name in patterns:
            if name not in names:
                raise InputError(f"there is no pattern {name!r}; there are {names}")
        return [(names.index(name), short(name)) for name in patterns]
    chosen = []
    for first, *others in sorted(each.patterns for each in most_changed(correction, MOST_PATTERNS)):
        also = f" (and {len(others)} more)" if others else ""
        chosen.append((first, short(names[first], 44) + also))
    return chosen


def _path(correction: Correction, pattern: int) -> tuple[Any, Any]:
    """Corners of one map, with a gap where it jumps."""
    owner, begin, slope, intercept = correction.maps.pieces()
    own = owner == pattern
    begin, slope, intercept = begin[own] / UNIT, slope[own], intercept[own]
    end = np.append(begin[1:], 1.0)
    x = np.column_stack([begin, end, end])
    y = np.column_stack([slope * begin + intercept, slope * end + intercept, np.full(len(end), np.nan)])
    return x.ravel(), y.ravel()


def plot_explanation(explanation: Explanation, person: int = 0, *, ax: Any = None) -> Any:
    """A waterfall: the raw score, each update that moved it, the corrected score."""
    steps = explanation.steps_of(person)
    ax = axes(ax, 6.4, 1.1 + 0.42 * (len(steps) + 2))
    labels = [
        "raw score",
        *(f"{short(group)}\n{_where(label)}" for group, label, _ in steps),
        "corrected score",
    ]
    raw, corrected = float(explanation.score[person]), float(explanation.corrected[person])
    place = np.cumsum([raw, *(shift for *_, shift in steps)])
    ax.barh(0, raw, color="0.75", height=0.6)
    for row, (*_, shift) in enumerate(steps, start=1):
        ax.barh(row, shift, left=place[row - 1], color=HIGH if shift > 0 else LOW, height=0.6)
        ax.text(
            max(place[row - 1 : row + 1]), row, f" {IN_TEXT.decimal(shift, 3, '+')}", va="center", fontsize=8
        )
        ax.plot([place[row - 1]] * 2, [row - 1 + 0.3, row + 0.3], color="0.5", lw=0.8)
    ax.barh(len(steps) + 1, corrected, color="0.45", height=0.6)
    for row, value in ((0, raw), (len(steps) + 1, corrected)):
        ax.text(value, row, f" {IN_TEXT.decimal(value, 3)}", va="center", fontsize=8)
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, min(1.0, 1.25 * max(place.max(), corrected, 0.05)))
    ax.set_xlabel("risk score")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _where(label: str) -> str:
    return label if label == ALL_SCORES else f"scores in {label}"
