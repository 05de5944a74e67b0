"""Pictures of an audit with a row for each group: forest, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.compare import Comparison
from propcal.auditing.finding_names import CHANCE, LEFT_OUT, NOT_ENOUGH, TOO_HIGH, TOO_LOW, UNTESTED
from propcal.numbers import IN_TEXT
from propcal.output.plots.axes import (
    COLORS,
    HATCH,
    HIGH,
    LETTER,
    LOW,
    MARKERS,
    SMALL,
    axes,
    inches,
    labels,
    legend_below,
    log_axis,
    rows_alone,
    say,
    symbol,
    tidy,
)
from propcal.output.plots.shown_groups import rows_of

MOST_ROWS = 24
ROW = 0.29  # inches, for a name of two lines
# marker, colour and filling of each finding, and what the legend calls it
FINDINGS: dict[str, tuple[str, str, str, str]] = {
    TOO_HIGH: ("^", HIGH, HIGH, "score too high"),
    TOO_LOW: ("v", LOW, LOW, "score too low"),
    CHANCE: ("o", "0.35", "white", "could be chance"),
    NOT_ENOUGH: ("D", "0.35", "white", "not enough data to judge"),
    UNTESTED: ("s", "0.35", "white", "not tested"),
    LEFT_OUT: ("x", "0.35", "0.35", "shown but not tested"),
}
# ticks of the ratio axis, by how far it reaches
MARKS = {
    2.5: [0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5],
    20: [0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20],
    1000: [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20],
}
EMPTY = ""  # no ratio to draw
RATIO = ("observed_expected", "observed_expected_low", "observed_expected_high")


def plot_forest(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """O/E ratio of each group, with 95 % confidence intervals."""
    from matplotlib.lines import Line2D

    chosen = rows_of(a, groups, MOST_ROWS)
    if chosen.rows["observed_expected"].isna().all():
        return say(axes(ax, width, 1.5), "No group has enough data to compare observed and predicted rates.")
    ax = axes(ax, width, 1.5 + ROW * len(chosen.rows))
    limits = _ratio_axis(ax, [chosen.rows])
    used = []
    for y, row in enumerate(chosen.rows.to_dict("records")):
        found = row["finding"] if np.isfinite(row["observed_expected"]) else EMPTY
        used.append(found)
        if found == EMPTY:
            _hatched(ax, y)
            continue
        marker, color, fill, _ = FINDINGS[found]
        _whisker(ax, y, row, limits, marker=marker, color=color, mfc=fill)
        if inches(ax) > 5:
            text, across = _in_figures(row), ax.get_yaxis_transform()
            ax.text(1.02, y, text, transform=across, fontsize=SMALL, va="center")
    _name_rows(ax, chosen.labels)
    keys = [
        Line2D([], [], ls="", marker=marker, color=color, mfc=fill, ms=5, label=text)
        for finding, (marker, color, fill, text) in FINDINGS.items()
        if finding in used
    ]
    _legend(ax, keys, used, chosen.said)
    return ax


def plot_before_after(c: Comparison, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """O/E ratio of each group under every score."""
    from matplotlib.lines import Line2D

    chosen = rows_of(c.audits[c.base], groups, MOST_ROWS)
    tables = [a.groups.set_index("group", drop=False).loc[chosen.names] for a in c.audits.values()]
    if all(table["observed_expected"].isna().all() for table in tables):
        return say(axes(ax, width, 1.5), "No group has enough data to compare observed and predicted rates.")
    step = min(0.26, 0.7 / len(tables))
    ax = axes(ax, width, 1.6 + max(ROW, 0.12 * len(tables)) * len(chosen.rows))
    limits = _ratio_axis(ax, tables)
    keys, used = [], []
    for i, (name, table) in enumerate(zip(labels(list(c.audits), 40), tables)):
        color, marker = ("0.35", "o") if i == 0 else (COLORS[(i - 1) % 6], MARKERS[1:][(i - 1) % 6])
        for y, row in enumerate(table.to_dict("records")):
            if not np.isfinite(row["observed_expected"]):
                used.append(EMPTY)
                if i == 0:
                    _hatched(ax, y)
                continue
            place = y + step * (i - (len(tables) - 1) / 2)
            sure = row["finding"] in (TOO_HIGH, TOO_LOW)
            _whisker(ax, place, row, limits, marker=marker, color=color, mfc=color if sure else "white")
        keys.append(Line2D([], [], color=color, marker=marker, ms=5, lw=1.1, label=name))
    keys += [
        Line2D([], [], ls="", marker="o", color="0.35", mfc=fill, ms=5, label=text)
        for fill, text in (
            ("0.35", "filled: more than chance explains"),
            ("white", "hollow: could be chance, or not tested"),
        )
    ]
    _name_rows(ax, chosen.labels)
    for y in range(1, len(chosen.rows), 2):
        ax.axhspan(y - 0.5, y + 0.5, color="0.95", lw=0, zorder=0)
    _legend(ax, keys, used, chosen.said)
    return ax


def _ratio_axis(ax: Any, tables: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """A log axis of observed/expected that says on which side the score is too high; its ends."""
    values = np.concatenate([table[list(RATIO)].to_numpy(dtype=np.float64).ravel() for table in tables])
    values = values[np.isfinite(values) & (values > 0)]
    low = float(np.clip(values.min(initial=1.0) / 1.08, 0.05, 1 / 1.25))
    high = float(np.clip(values.max(initial=1.0) * 1.08, 1.25, 20.0))
    marks = next(marks for reach, marks in MARKS.items() if high / low <= reach)
    log_axis(ax, low, high, {mark: f"{mark:g}" for mark in marks if low <= mark <= high})
    ax.axvline(1, color="0.55", lw=0.8, zorder=1)
    tidy(ax, xlabel="O/E ratio: observed over\nexpected events (log scale)")
    left, right = symbol("←", "<"), symbol("→", ">")
    space = "\n" if inches(ax) < 5 else " "
    look = {"fontsize": SMALL, "color": "0.25", "style": "italic", "transform": ax.transAxes, "va": "bottom"}
    ax.text(0, 1.01, f"{left} score{space}too high", ha="left", **look)
    right = f"score {right}{space}too low" if space == "\n" else f"score too low {right}"
    ax.text(1, 1.01, right, ha="right", **look)
    return low, high


def _in_figures(row: dict[Any, Any]) -> str:
    """The ratio and its interval, as a table would have them."""
    value, low, high = (float(row[name]) for name in RATIO)
    ratio = IN_TEXT.decimal(value)
    return f"{ratio} ({IN_TEXT.interval(low, high)})" if np.isfinite(low) else ratio


def _whisker(ax: Any, y: float, row: dict[Any, Any], limits: tuple[float, float], **look: Any) -> None:
    """A point with its interval; an arrow at the end of the axis where the point lies beyond it."""
    value, low, high = (float(row[name]) for name in RATIO)
    tiny = 1e-9  # zero has no place on a log axis
    if np.isfinite(low) and np.isfinite(high):
        ax.plot([max(low, tiny), max(high, tiny)], [y, y], color=look["color"], lw=1.1, label="_interval")
    ax.plot([max(value, tiny)], [y], ls="", ms=5, zorder=3, label="_ratio", **look)
    for beyond, end, arrow in ((value < limits[0], limits[0], "<"), (value > limits[1], limits[1], ">")):
        if beyond:
            look = {"color": look["color"], "mfc": look["mfc"], "marker": arrow}
            ax.plot([end], [y], ls="", ms=6, zorder=3, clip_on=False, label="_beyond", **look)


def _hatched(ax: Any, y: float, height: float = 0.6) -> None:
    ax.axhspan(y - height / 2, y + height / 2, zorder=0, **HATCH)


def _legend(ax: Any, keys: Sequence[Any], used: Sequence[str], title: str) -> None:
    """The given keys, and those of intervals and of groups with too few people where there are any."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys = list(keys)
    if any(line.get_label() == "_interval" for line in ax.get_lines()):
        keys.append(Line2D([], [], color="0.35", lw=1.1, label="95 % CI"))
    if EMPTY in used:
        keys.append(Patch(label="not enough data for a ratio", **HATCH))
    legend_below(ax, keys, title=title, drop=42, wide=True)


def _name_rows(ax: Any, names: Sequence[str]) -> None:
    """The groups' names from top to bottom, on at most two lines."""
    most = max(14, int(0.42 * inches(ax) / LETTER))
    ax.set_yticks(range(len(names)), labels(names, most, lines=2), fontsize=SMALL, linespacing=0.95)
    ax.set_ylim(len(names) - 0.4, -0.6)
    rows_alone(ax)
