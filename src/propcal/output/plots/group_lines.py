"""Pictures of an audit with a line for each group: calibration, decision curves, scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW, UNTESTED
from propcal.output.plots.axes import (
    COLORS,
    HATCH,
    LETTER,
    MARKERS,
    SMALL,
    STYLES,
    axes,
    inches,
    labels,
    legend_below,
    say,
    symbol,
    tidy,
)
from propcal.output.plots.shown_groups import EVERYBODY, Chosen, lines_of

MOST_LINES = 5
NOBODY = "No group has enough data for this picture."


def _looks(chosen: Chosen) -> list[dict[str, Any]]:
    """Colour, line style and marker of each group; everybody is a black line."""
    looks, i = [], 0
    for name in chosen.names:
        if name == EVERYBODY:
            looks.append({"color": "black", "ls": "-", "marker": "", "lw": 1.0})
            continue
        style = STYLES[1:][(i + i // len(COLORS)) % 3] if i else "-"
        looks.append({"color": COLORS[i % 6], "ls": style, "marker": MARKERS[i % 7], "lw": 1.4})
        i += 1
    return looks


def _each(
    ax: Any, chosen: Chosen, table: pd.DataFrame
) -> Iterator[tuple[str, str, dict[str, Any], pd.DataFrame]]:
    """Name, label, look and numbers of each group."""
    shown = labels(chosen.labels, min(60, max(16, int(inches(ax) / LETTER) - 19)))
    for name, label, look in zip(chosen.names, shown, _looks(chosen)):
        yield name, label, look, table[table["group"] == name]


def _key(label: str, look: dict[str, Any], rows: pd.DataFrame, why: str = "not enough data") -> Any:
    """The group's entry in the legend; hatched if it cannot be drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if rows.empty:
        return Patch(label=f"{label}: {why}", **HATCH)
    return Line2D([], [], markersize=4, label=label, **look)


def plot_calibration(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """Smooth calibration curves with their bands, and the observed rate of each cell."""
    from matplotlib.lines import Line2D

    chosen = lines_of(a, groups, MOST_LINES)
    own = ax is None
    ax = axes(ax, width, min(width, 4.8) - 0.2 + 0.14 * (len(chosen.rows) + 4))
    if a.curves.empty and not a.categories["eligible"].any():
        return say(ax, NOBODY)
    ax.plot([0, 1], [0, 1], color="0.55", lw=0.8, zorder=1, label="_diagonal")
    keys = []
    for name, label, look, curve in _each(ax, chosen, a.curves):
        points = a.categories[(a.categories["group"] == name) & a.categories["eligible"]]
        line = {key: look[key] for key in ("color", "ls", "lw")}
        dot = {"marker": look["marker"] or "o", "color": look["color"], "ls": "", "ms": 4.5, "clip_on": False}
        rows, ends = curve, curve[:0]
        if len(curve) > 1:  # a score of 0 or 1 that many people have is a point by itself
            certain = curve["score"].isin([0.0, 1.0])
            rows, ends = curve[~certain], curve[certain]
        if len(ends):
            ax.plot(ends["score"], ends["outcome_rate"], label="_ends", mfc="white", **{**dot, "marker": "D"})
        if len(rows) > 1:
            x = rows["score"].to_numpy()
            ax.fill_between(x, rows["low"], rows["high"], color=look["color"], alpha=0.13, lw=0)
            ax.plot(x, rows["outcome_rate"], label=label, **line)
        elif len(rows) and points.empty:  # all scores are equal
            ax.plot(rows["score"], rows["outcome_rate"], label=label, mfc="white", **dot)
        sure = points["finding"].isin([TOO_HIGH, TOO_LOW])
        for part, fill in ((points[sure], look["color"]), (points[~sure], "white")):
            if len(part):
                ax.plot(part["mean_score"], part["outcome_rate"], label="_points", mfc=fill, zorder=3, **dot)
        enough = chosen.rows.loc[chosen.rows["group"] == name, "observed_expected"].notna().any()
        why = "no curve" if enough else "not enough data"
        keys.append(_key(label, look, rows if len(rows) else points, why))
    untested = (a.categories["finding"] == UNTESTED).any()
    dots = (
        ("0.3", "more than chance explains"),
        ("white", "not tested" if untested else "could be chance"),
    )
    for fill, text in dots:
        dot = {"marker": "o", "color": "0.3", "mfc": fill, "ls": "", "ms": 4.5}
        keys.append(Line2D([], [], label=f"risk range: {text}", **dot))
    keys.append(Line2D([], [], color="0.55", lw=0.8, label="a perfect score; bands: 95 % CI"))
    end = _end(a, chosen)
    ax.set(xlim=(0, end), ylim=(0, end))
    if own:  # other axes keep the shape that they were given
        ax.set_box_aspect(1)
        ax.set_anchor("S")  # the room for the legend is counted from below
    tidy(ax, xlabel="predicted risk", ylabel="observed rate")
    look = {"fontsize": SMALL, "color": "0.35", "style": "italic", "transform": ax.transAxes}
    ax.text(0.03, 0.97, "score too low", ha="left", va="top", **look)
    ax.text(0.97, 0.03, "score too high", ha="right", va="bottom", **look)
    legend_below(ax, keys, title=chosen.said, wide=inches(ax) < 5)
    return ax


def _end(a: Audit, chosen: Chosen) -> float:
    """Where both axes end: at 1, or earlier if everything is rare."""
    curves, points = (table[table["group"].isin(chosen.names)] for table in (a.curves, a.categories))
    points = points[points["eligible"]]
    tables = ((curves, ("score", "outcome_rate", "high")), (points, ("mean_score", "outcome_rate")))
    found = [float(table[name].max()) for table, names in tables if len(table) for name in names]
    most = float(np.nanmax([*found, 0.0]))
    return 1.0 if most > 0.6 or most <= 0 else 1.1 * most


def plot_decision(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """Net benefit of acting on the score over thresholds, beside acting on everybody or nobody."""
    from matplotlib.lines import Line2D

    chosen = lines_of(a, groups, MOST_LINES)
    ax = axes(ax, width, 0.62 * min(width, 6.4) + 0.55 + 0.17 * (len(chosen.rows) + 2))
    if a.net_benefit.empty:
        return say(ax, NOBODY)
    keys, top, bottom, reach = [], 0.0, 0.0, 0.0
    for _, label, look, rows in _each(ax, chosen, a.net_benefit):
        keys.append(_key(label, look, rows))
        if rows.empty:
            continue
        x, benefit = rows["threshold"].to_numpy(), 100 * rows["net_benefit"].to_numpy()
        low, high, everybody = (100 * rows[name].to_numpy() for name in ("low", "high", "treat_all"))
        ax.fill_between(x, low, high, color=look["color"], alpha=0.13, lw=0)
        ax.plot(x, benefit, label=label, markevery=(7, 15), ms=4, **look)
        ax.plot(x, everybody, color=look["color"], ls=":", lw=0.9, label="_everybody")
        top = max(top, float(np.nanmax(np.append(benefit, everybody))))
        bottom = min(bottom, float(np.nanmin(benefit)))
        useful = x[(np.maximum(benefit, everybody) > 0.02 * top) | (rows["treated"].to_numpy() > 0.01)]
        reach = max(reach, float(useful.max(initial=0.0)))
    ax.axhline(0, color="0.4", lw=0.8, zorder=1)
    text = "the same group if all its people are acted on"
    keys.append(Line2D([], [], color="0.3", ls=":", lw=0.9, label=text))
    text = "nobody is acted on; bands: 95 % CI"
    keys.append(Line2D([], [], color="0.4", lw=0.8, label=text))
    top = top or 5.0
    ax.set(
        xlim=(0, min(1.0, reach + 0.03) if reach else 1.0),
        ylim=(max(1.1 * bottom, -top) - 0.05 * top, 1.05 * top),
    )
    tidy(
        ax,
        xlabel=f"threshold: act on people with scores {symbol('≥', '>=')} this",
        ylabel="net benefit per 100 people",
    )
    legend_below(ax, keys, title=chosen.said, wide=inches(ax) < 5)
    return ax


def plot_distribution(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """How the scores of each group are spread, in twentieths."""
    chosen = lines_of(a, groups, MOST_LINES)
    ax = axes(ax, width, 0.55 * min(width, 6.4) + 0.55 + 0.17 * (len(chosen.rows) + 1))
    if a.distribution.empty:
        return say(ax, NOBODY)
    keys, top = [], 0.0
    for _, label, look, rows in _each(ax, chosen, a.distribution):
        keys.append(_key(label, look, rows))
        people = rows["people"].to_numpy(dtype=np.float64)
        if not people.sum():
            continue
        share = 100 * people / people.sum()
        edges = np.append(rows["score_from"], 1.0)
        line = {"color": look["color"], "ls": look["ls"], "lw": 1.1}
        ax.stairs(share, edges, label=label, baseline=None, **line)
        ax.plot(
            (edges[1:] + edges[:-1]) / 2, share, ls="", color=look["color"], marker=look["marker"], ms=3.5
        )
        top = max(top, float(share.max()))
    ax.set(xlim=(0, 1), ylim=(0, 1.06 * top or 1.0))
    tidy(ax, xlabel="risk score, in steps of 0.05", ylabel="people of the group, %")
    legend_below(ax, keys, title=chosen.said, wide=inches(ax) < 5)
    return ax
