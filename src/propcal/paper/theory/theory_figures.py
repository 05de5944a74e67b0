"""Draws the figures of the theory from the tables of `propcal.paper.theory.theory`."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.output.plots.axes import COLORS, SMALL, STYLES, legend_below, tidy
from propcal.paper.figure_file import COLUMN, PAGE, new_figure
from propcal.paper.method_colors import DC_COLOR, MC_COLOR, PMC_COLOR
from propcal.paper.theory.theory import BINNED_ALPHA, FEASIBLE_ALPHA, RHOS

TOP = 3.0  # upper end of the DC axis: e**3, a factor of 20, offers no protection


def plot_constraints(frame: pd.DataFrame, *, alpha: float, rho: float, width: float = COLUMN) -> Any:
    """How far the score may be from the outcome rate: one band for MC and one for PMC."""
    figure = new_figure(width, 1.02 * width)
    ax = figure.subplots()
    x = frame["outcome_rate"]
    looks = {"mc": (MC_COLOR, "-", f"{alpha:g}-MC", ""), "pmc": (PMC_COLOR, "--", f"{alpha:g}-PMC", "////")}
    for kind, (color, line, label, hatch) in looks.items():
        low, high = frame[f"{kind}_low"], frame[f"{kind}_high"]
        ax.fill_between(x, low, high, facecolor=color, alpha=0.18, lw=0)
        if hatch:  # distinguishable without colours
            ax.fill_between(x, low, high, facecolor="none", edgecolor=color, alpha=0.35, hatch=hatch, lw=0)
        ax.plot(x, low, color=color, ls=line, lw=1.3, label=label)
        ax.plot(x, high, color=color, ls=line, lw=1.3)
    ax.plot([0, 1], [0, 1], color="0.35", lw=0.8, label="calibrated")
    ax.axvline(rho, color="0.2", lw=0.9, ls=":")
    ax.text(rho + 0.015, 0.985, f"ρ = {rho:g}", fontsize=SMALL, va="top", transform=ax.get_xaxis_transform())
    tidy(ax, xlabel="outcome rate of the group", ylabel="allowed scores")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_box_aspect(1)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", handlelength=2.6)
    return figure


def plot_relations(frame: pd.DataFrame, *, width: float = PAGE) -> Any:
    """Two panels: the DC and the MC that other guarantees imply."""
    figure = new_figure(width, 0.46 * width)
    left, right = figure.subplots(1, 2)
    _implied(left, frame[frame["panel"] == "DC"], MC_COLOR, "MC", "r_min", TOP)
    tidy(left, xlabel="α of the guarantee (MC or PMC)", ylabel="implied ε of DC")
    left.set_title("What MC and PMC imply for DC", fontsize=SMALL + 1, loc="left")
    _implied(right, frame[frame["panel"] == "MC"], DC_COLOR, "DC", "delta", 1.0)
    tidy(right, xlabel="α of PMC, or ε of DC", ylabel="implied α of MC")
    right.set_title("What DC and PMC imply for MC", fontsize=SMALL + 1, loc="left")
    right.axvline(FEASIBLE_ALPHA, color="0.2", lw=0.9, ls=":")
    right.text(
        FEASIBLE_ALPHA + 0.015,
        0.03,
        "from here on, PMC\nimplies no MC",
        fontsize=SMALL,
        va="bottom",
        transform=right.get_xaxis_transform(),
    )
    return figure


def _implied(ax: Any, frame: pd.DataFrame, color: str, other: str, parameter: str, top: float) -> None:
    """One panel: the line for PMC, and the other guarantee as an area over the range of its parameter."""
    name = {"r_min": "$r_{min}$", "delta": "δ"}[parameter]
    lines = frame[frame["given"] == other].groupby("at")["implied"]
    curves = {float(str(at)): implied.clip(upper=2 * top) for at, implied in lines}
    first, last = min(curves), max(curves)
    x = frame.loc[frame["given"] == "PMC", "x"]
    span = f"{other}, {name} from {first:g} to {last:g}"
    ax.fill_between(x, curves[first], curves[last], facecolor=color, alpha=0.18, lw=0, label=span)
    pmc = frame.loc[frame["given"] == "PMC", "implied"].clip(upper=2 * top)
    ax.plot(x, pmc, color=PMC_COLOR, lw=3, label="PMC")
    # drawn after PMC: MC with r_min = 1 implies the same DC and covers its line
    for line, (at, curve) in zip(("--", "-.", ":", "-"), sorted(curves.items(), reverse=True)):
        ax.plot(x, curve, color=color, lw=1.2, ls=line, label=f"{other}, {name} = {at:g}")
    ax.set(xlim=(0, 1), ylim=(0, top))
    ax.legend(
        fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, handlelength=2.6
    )


def plot_discretisation(frame: pd.DataFrame, *, width: float = COLUMN) -> Any:
    """PMC of the discretised model by bin width, one line for each rho."""
    from matplotlib.lines import Line2D

    figure = new_figure(width, 1.05 * width)
    ax = figure.subplots()
    handles = []
    for i, rho in enumerate(RHOS):
        look: dict[str, Any] = {"color": COLORS[i], "ls": STYLES[i]}
        for binning, weight in (("geometric", 1.8), ("uniform", 0.8)):
            rows = frame[(frame["rho"] == rho) & (frame["binning"] == binning)]
            ax.plot(rows["bin_width"], rows["pmc"], lw=weight, **look)
        handles.append(Line2D([], [], lw=1.8, label=f"ρ = {rho:g}", **look))
    handles.append(Line2D([], [], color="0.4", lw=1.8, label="geometric bins (thick)"))
    handles.append(Line2D([], [], color="0.4", lw=0.8, label="uniform bins (thin)"))
    marks = {BINNED_ALPHA: ("-", 0.495, "α of (α, λ)-PMC"), FEASIBLE_ALPHA: (":", 0.43, "above: no MC")}
    for height, (line, end, words) in marks.items():
        ax.axhline(height, color="0.3", lw=0.8, ls=line)
        ax.text(end, height * 1.03, words, fontsize=SMALL, ha="right", va="bottom")
    ax.set_yscale("log")
    ax.set_yticks([0.1, 0.5, 1, 5, 10, 50], ["0.1", "0.5", "1", "5", "10", "50"])
    ax.minorticks_off()
    tidy(ax, xlabel="λ = 1 / number of bins", ylabel="implied α of PMC")
    ax.set(xlim=(0, 0.5), ylim=(0.075, 60))
    legend_below(ax, handles, columns=2)
    return figure
