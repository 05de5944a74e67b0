"""The figures of the theory and their numbers, by the functions of `propcal.bounds`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from propcal import bounds
from propcal.building_blocks import check_number, legend_below, tidy
from propcal_paper import figure_parts as parts
from propcal_paper.figure_parts import COLUMN, DRAWN_AS, LOOKS, PAGE, SMALL, PaperFigure
from propcal_paper.settings import PMC, toml_file

R_MINS = (0.01, 0.1, 0.3, 1.0)  # the paper shades [0.01, 1]
# the paper shades [0, 0.5]; `crossing` has where PMC meets the last three
DELTAS = (0.0, 0.05, 0.17, 0.5)
RHOS = (0.5, 0.1, 0.05, 0.01)
N_BINS = tuple(range(2, 101))  # lambda = 1 / n_bins, from 0.5 to 0.01
BINNED_ALPHA = 0.1
LINE_WIDTHS = {"geometric": 1.8, "uniform": 0.8}  # points


def constraints(alpha: float = 0.2, rho: float = 0.1, n: int = 201) -> pd.DataFrame:
    """How far the score may be from the outcome rate under MC and under PMC.

    At an outcome rate p, alpha-PMC allows the same as (alpha p)-MC; for rates below
    `rho` it allows the same as at rho.

    Returns
    -------
    pandas.DataFrame
        outcome_rate, and the lowest and highest score that each of MC and PMC allows,
        within [0, 1].

    Examples
    --------
    >>> allowed = constraints(alpha=0.2, rho=0.1).set_index("outcome_rate")
    >>> allowed.loc[0.5].round(3).to_dict()
    {'mc_low': 0.3, 'mc_high': 0.7, 'pmc_low': 0.4, 'pmc_high': 0.6}
    """
    check_number("alpha", alpha, above=0, at_most=1)
    check_number("rho", rho, above=0, at_most=1)
    rate = np.linspace(0, 1, n)
    allowed_by_pmc = np.empty(n)
    for i, p in enumerate(rate.tolist()):
        allowed_by_pmc[i] = bounds.mc_alpha_for_pmc(alpha, max(p, rho))

    frame = pd.DataFrame({"outcome_rate": rate})
    for name, distance in (("mc", alpha), ("pmc", allowed_by_pmc)):
        frame[f"{name}_low"] = np.maximum(rate - distance, 0)
        frame[f"{name}_high"] = np.minimum(rate + distance, 1)
    return frame


def relations(n: int = 201) -> pd.DataFrame:
    """What a guarantee of one kind implies for another (both panels of the figure).

    Returns
    -------
    pandas.DataFrame
        One row for each panel, line and x. `panel` is the implied guarantee, "DC" or
        "MC"; `given` is the kind of guarantee on the x axis; `parameter` and `at` are
        r_min for MC and delta for DC; `implied` is inf if there is no bound.

    Examples
    --------
    >>> frame = relations(n=11)
    >>> row = frame.query("panel == 'MC' and given == 'PMC' and x == 0.5")
    >>> row["implied"].tolist()
    [0.5]
    """
    frames = [_relation("DC", "PMC", bounds.dc_from_pmc, n)]
    for r_min in R_MINS:
        dc_from_mc = partial(bounds.dc_from_mc, r_min=r_min)
        frames.append(_relation("DC", "MC", dc_from_mc, n, "r_min", r_min))
    frames.append(_relation("MC", "PMC", bounds.mc_from_pmc, n))
    for delta in DELTAS:
        mc_from_dc = partial(bounds.mc_from_dc, delta=delta)
        frames.append(_relation("MC", "DC", mc_from_dc, n, "delta", delta))
    return pd.concat(frames, ignore_index=True)


def _relation(
    panel: str,
    given: str,
    bound: Callable[[float], float],
    n: int,
    parameter: str = "",
    at: float = np.nan,
) -> pd.DataFrame:
    """One line of a panel: what `given` implies by a bound, at `n` places."""
    x = np.linspace(0, 1, n).tolist()
    frame = pd.DataFrame({"x": x, "implied": [bound(value) for value in x]})
    line: dict[str, Any] = {
        "panel": panel,
        "given": given,
        "parameter": parameter,
        "at": at,
    }
    return frame.assign(**line)[[*line, "x", "implied"]]


def discretisation(alpha: float = BINNED_ALPHA) -> pd.DataFrame:
    """PMC of the discretised model under (alpha, lambda)-PMC, for geometric and uniform
    bins.

    Returns
    -------
    pandas.DataFrame
        One row for each binning, rho and number of bins; `bin_width` is lambda.

    Examples
    --------
    >>> frame = discretisation().query("n_bins == 10 and rho == 0.1")
    >>> frame.set_index("binning")["pmc"].round(3).to_dict()
    {'geometric': 0.385, 'uniform': 1.1}
    """
    rows = []
    for binning, rho, n_bins in product(("geometric", "uniform"), RHOS, N_BINS):
        pmc = bounds.pmc_from_binned(alpha, n_bins, rho, binning)
        rows.append((binning, rho, n_bins, 1 / n_bins, pmc))
    return pd.DataFrame(rows, columns=["binning", "rho", "n_bins", "bin_width", "pmc"])


def crossing(delta: float) -> float:
    """The tolerance up to which PMC implies a better MC than DC together with overall
    calibration `delta`.

    The paper says 0.3 "given delta > 0", by its looser bound alpha / (1 - alpha) on the
    MC of PMC.

    Examples
    --------
    >>> [round(crossing(delta), 2) for delta in (0.05, 0.17, 0.5)]
    [0.33, 0.65, 1.2]
    """
    from scipy.optimize import brentq

    check_number("delta", delta, at_least=0)
    if delta == 0:
        return 0.0

    def excess(tolerance: float) -> float:
        return bounds.mc_from_pmc(tolerance) - bounds.mc_from_dc(tolerance, delta)

    return float(brentq(excess, 0.0, 1 + delta))


PICTURES = ("theory_constraints", "theory_relations", "theory_discretisation")


def pictures(alpha: float, rho: float) -> list[PaperFigure]:
    """The three figures with their numbers."""
    frames = (constraints(alpha, rho), relations(), discretisation())
    figures = (
        plot_constraints(frames[0], alpha=alpha, rho=rho),
        plot_relations(frames[1]),
        plot_discretisation(frames[2]),
    )
    drawn = []
    for name, figure, frame in zip(PICTURES, figures, frames):
        drawn.append(PaperFigure(name, name, figure, {name: frame}))
    return drawn


def sentences(alpha: float, rho: float) -> list[str]:
    """What the figures show, in words with numbers."""
    dc = {str(r_min): bounds.dc_from_mc(0.1, r_min) for r_min in (0.3, 0.15)}
    dc["pmc"] = bounds.dc_from_pmc(0.1)
    binned = {}
    for binning in ("geometric", "uniform"):
        binned[binning] = bounds.pmc_from_binned(0.1, 10, 0.1, binning)
    known = {
        "alpha": alpha,
        "rho": rho,
        "low": bounds.mc_alpha_for_pmc(alpha, rho),
        "dc": dc,
        "crossing": {str(delta): crossing(delta) for delta in (0.05, 0.17, 0.5)},
        "binned": binned,
    }
    words = toml_file("words.toml")["theory"]["sentences"]
    return [sentence.format(**known) for sentence in words]


def plot_constraints(frame: pd.DataFrame, *, alpha: float, rho: float) -> Any:
    """How far the score may be from the outcome rate: one band for MC and one for
    PMC.
    """
    figure, [[ax]] = parts.panels(COLUMN, 1.02 * COLUMN)
    for kind, look in DRAWN_AS["theory"]["constraints"].items():
        _band(ax, frame, kind, label=f"{alpha:g}-{kind.upper()}", look=look)

    ax.plot([0, 1], [0, 1], color="0.35", lw=0.8, label="calibrated")
    ax.axvline(rho, color="0.2", lw=0.9, ls=":")
    at_the_top: dict[str, Any] = {"va": "top", "transform": ax.get_xaxis_transform()}
    ax.text(rho + 0.015, 0.985, f"ρ = {rho:g}", fontsize=SMALL, **at_the_top)
    tidy(ax, xlabel="outcome rate of the group", ylabel="allowed scores")
    ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", handlelength=2.6)
    return figure


def _band(
    ax: Any, frame: pd.DataFrame, kind: str, *, label: str, look: dict[str, Any]
) -> None:
    """The scores that a guarantee allows, between two lines."""
    x = frame["outcome_rate"]
    low = frame[f"{kind}_low"]
    high = frame[f"{kind}_high"]
    color = look["color"]
    ax.fill_between(x, low, high, facecolor=color, alpha=0.18, lw=0)
    if look["hatch"]:
        hatched = {"facecolor": "none", "edgecolor": color, "hatch": look["hatch"]}
        ax.fill_between(x, low, high, alpha=0.35, lw=0, **hatched)

    line = {"color": color, "ls": look["ls"], "lw": 1.3}
    ax.plot(x, low, label=label, **line)
    ax.plot(x, high, **line)


def plot_relations(frame: pd.DataFrame) -> Any:
    """Two panels, the DC and the MC that other guarantees imply.

    Each has a line for PMC, and the other guarantee as an area over the range of its
    parameter.
    """
    figure, [row] = parts.panels(PAGE, 0.46 * PAGE, 1, 2)
    for ax, (implied, look) in zip(row, DRAWN_AS["theory"]["relations"].items()):
        top = look["top"]
        rows = frame[frame["panel"] == implied]
        rows = rows.assign(implied=rows["implied"].clip(upper=2 * top))
        _relation_panel(ax, rows, look)
        ax.set(xlim=(0, 1), ylim=(0, top))
        ax.legend(fontsize=SMALL, **DRAWN_AS["parts"]["legend_of_panel"])
        title = f"What {look['given']} and PMC imply for {implied}"
        ax.set_title(title, fontsize=SMALL + 1, loc="left")
        tidy(ax, xlabel=look["x"], ylabel=look["y"])
    return figure


def _relation_panel(ax: Any, rows: pd.DataFrame, look: dict[str, Any]) -> None:
    """The lines of a panel, and the area of the guarantee with a parameter."""
    given = look["given"]
    color = look["color"]
    parameter = look["parameter"]
    pmc = rows[rows["given"] == "PMC"]
    curves = {}
    for at, curve in rows[rows["given"] == given].groupby("at")["implied"]:
        curves[float(str(at))] = curve

    first = min(curves)
    last = max(curves)
    span = f"{given}, {parameter} from {first:g} to {last:g}"
    area = {"facecolor": color, "alpha": 0.18, "lw": 0, "label": span}
    ax.fill_between(pmc["x"], curves[first], curves[last], **area)
    ax.plot(pmc["x"], pmc["implied"], color=LOOKS[PMC]["color"], lw=3, label="PMC")
    # drawn after PMC: MC with r_min = 1 implies the same DC and covers its line
    for style, at in zip(("--", "-.", ":", "-"), sorted(curves, reverse=True)):
        label = f"{given}, {parameter} = {at:g}"
        ax.plot(pmc["x"], curves[at], color=color, lw=1.2, ls=style, label=label)


def plot_discretisation(frame: pd.DataFrame) -> Any:
    """PMC of the discretised model by bin width, one line for each rho."""
    figure, [[ax]] = parts.panels(COLUMN, 1.05 * COLUMN)
    handles = []
    for rho, color, style in zip(RHOS, *DRAWN_AS["lines"].values()):
        of_rho = frame[frame["rho"] == rho]
        for binning, width in LINE_WIDTHS.items():
            rows = of_rho[of_rho["binning"] == binning]
            ax.plot(rows["bin_width"], rows["pmc"], lw=width, color=color, ls=style)
        handles.append(parts.entry(f"ρ = {rho:g}", lw=1.8, color=color, ls=style))
    for binning, strength in (("geometric", "thick"), ("uniform", "thin")):
        label = f"{binning} bins ({strength})"
        handles.append(parts.entry(label, color="0.4", lw=LINE_WIDTHS[binning]))

    _mark_height(ax, BINNED_ALPHA, "-", 0.495, "α of (α, λ)-PMC")
    _mark_height(ax, 1.0, ":", 0.445, "above: no MC")
    ax.set_yscale("log")
    ax.set_yticks([0.1, 0.5, 1, 5, 10, 50], ["0.1", "0.5", "1", "5", "10", "50"])
    ax.minorticks_off()
    tidy(ax, xlabel="λ = 1 / number of bins", ylabel="implied α of PMC")
    ax.set(xlim=(0, 0.5), ylim=(0.075, 60))
    legend_below(ax, handles, columns=2)
    return figure


def _mark_height(ax: Any, height: float, style: str, end: float, words: str) -> None:
    """A level line with words above it, which end at `end`."""
    ax.axhline(height, color="0.3", lw=0.8, ls=style)
    ax.text(end, height * 1.03, words, fontsize=SMALL, ha="right", va="bottom")
