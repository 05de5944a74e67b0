"""The figures of the theory and their numbers, all computed by functions of
`propcal.bounds`.
"""

from __future__ import annotations

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
DELTAS = (
    0.0,
    0.05,
    0.17,
    0.5,
)  # the paper shades [0, 0.5]; `crossing` has where PMC meets the last three
RHOS = (0.5, 0.1, 0.05, 0.01)
N_BINS = tuple(range(2, 101))  # lambda = 1 / n_bins, from 0.5 to 0.01
BINNED_ALPHA = 0.1


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
    >>> constraints(alpha=0.2, rho=0.1).set_index("outcome_rate").loc[0.5].round(3).to_dict()
    {'mc_low': 0.3, 'mc_high': 0.7, 'pmc_low': 0.4, 'pmc_high': 0.6}
    """
    check_number("alpha", alpha, above=0, at_most=1)
    check_number("rho", rho, above=0, at_most=1)
    rate = np.linspace(0, 1, n)
    allowed = np.array(
        [bounds.mc_alpha_for_pmc(alpha, max(p, rho)) for p in rate.tolist()]
    )
    found = {"outcome_rate": rate}
    for name, far in (("mc", alpha), ("pmc", allowed)):
        found[f"{name}_low"] = np.maximum(rate - far, 0)
        found[f"{name}_high"] = np.minimum(rate + far, 1)
    return pd.DataFrame(found)


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
    lines: list[tuple[Any, ...]] = [("DC", "PMC", "", np.nan, bounds.dc_from_pmc)]
    lines += [
        ("DC", "MC", "r_min", r, partial(bounds.dc_from_mc, r_min=r)) for r in R_MINS
    ]
    lines += [("MC", "PMC", "", np.nan, bounds.mc_from_pmc)]
    lines += [
        ("MC", "DC", "delta", d, partial(bounds.mc_from_dc, delta=d)) for d in DELTAS
    ]
    rows = [
        (*head, x, bound(x))
        for *head, bound in lines
        for x in np.linspace(0, 1, n).tolist()
    ]
    return pd.DataFrame(
        rows, columns=["panel", "given", "parameter", "at", "x", "implied"]
    )


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
    rows = [
        (
            binning,
            rho,
            n_bins,
            1 / n_bins,
            bounds.pmc_from_binned(alpha, n_bins, rho, binning),
        )
        for binning, rho, n_bins in product(("geometric", "uniform"), RHOS, N_BINS)
    ]
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
    return float(
        brentq(
            lambda x: bounds.mc_from_pmc(x) - bounds.mc_from_dc(x, delta),
            0.0,
            1 + delta,
        )
    )


PICTURES = ("theory_constraints", "theory_relations", "theory_discretisation")


def pictures(alpha: float, rho: float) -> list[PaperFigure]:
    """The three figures with their numbers."""
    frames = (constraints(alpha, rho), relations(), discretisation())
    plots: Any = (
        partial(plot_constraints, alpha=alpha, rho=rho),
        plot_relations,
        plot_discretisation,
    )
    made = zip(PICTURES, plots, frames)
    return [
        PaperFigure(name, name, plot(frame), {name: frame})
        for name, plot, frame in made
    ]


def sentences(alpha: float, rho: float) -> list[str]:
    """What the figures show, in words with numbers."""
    known: dict[str, Any] = {
        "alpha": alpha,
        "rho": rho,
        "low": bounds.mc_alpha_for_pmc(alpha, rho),
    }
    known["dc"] = {str(r_min): bounds.dc_from_mc(0.1, r_min) for r_min in (0.3, 0.15)}
    known["dc"]["pmc"] = bounds.dc_from_pmc(0.1)
    known["crossing"] = {str(delta): crossing(delta) for delta in (0.05, 0.17, 0.5)}
    known["binned"] = {
        name: bounds.pmc_from_binned(0.1, 10, 0.1, name)
        for name in ("geometric", "uniform")
    }
    return [
        sentence.format(**known)
        for sentence in toml_file("words.toml")["theory"]["sentences"]
    ]


def plot_constraints(frame: pd.DataFrame, *, alpha: float, rho: float) -> Any:
    """How far the score may be from the outcome rate: one band for MC and one for
    PMC.
    """
    figure, [[ax]] = parts.panels(COLUMN, 1.02 * COLUMN)
    x = frame["outcome_rate"]
    for kind, look in DRAWN_AS["theory"]["constraints"].items():
        line = {**look, "lw": 1.3}
        low = frame[f"{kind}_low"]
        high = frame[f"{kind}_high"]
        hatch = line.pop("hatch")
        color = look["color"]
        ax.fill_between(x, low, high, facecolor=color, alpha=0.18, lw=0)
        if hatch:
            ax.fill_between(
                x,
                low,
                high,
                facecolor="none",
                edgecolor=color,
                alpha=0.35,
                hatch=hatch,
                lw=0,
            )
        ax.plot(x, low, label=f"{alpha:g}-{kind.upper()}", **line)
        ax.plot(x, high, **line)
    ax.plot([0, 1], [0, 1], color="0.35", lw=0.8, label="calibrated")
    ax.axvline(rho, color="0.2", lw=0.9, ls=":")
    ax.text(
        rho + 0.015,
        0.985,
        f"ρ = {rho:g}",
        fontsize=SMALL,
        va="top",
        transform=ax.get_xaxis_transform(),
    )
    tidy(ax, xlabel="outcome rate of the group", ylabel="allowed scores")
    ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower right", handlelength=2.6)
    return figure


def plot_relations(frame: pd.DataFrame) -> Any:
    """Two panels, the DC and the MC that other guarantees imply.

    Each has a line for PMC, and the other guarantee as an area over the range of its
    parameter.
    """
    figure, [row] = parts.panels(PAGE, 0.46 * PAGE, 1, 2)
    for ax, (implied, look) in zip(row, DRAWN_AS["theory"]["relations"].items()):
        other, color, top = (look[name] for name in ("given", "color", "top"))
        rows = frame[frame["panel"] == implied].assign(
            implied=frame["implied"].clip(upper=2 * top)
        )
        pmc = rows[rows["given"] == "PMC"]
        lines = rows[rows["given"] == other].groupby("at")["implied"]
        curves = {float(str(at)): line for at, line in lines}
        first, *_, last = sorted(curves)
        span = f"{other}, {look['parameter']} from {first:g} to {last:g}"
        ax.fill_between(
            pmc["x"],
            curves[first],
            curves[last],
            facecolor=color,
            alpha=0.18,
            lw=0,
            label=span,
        )
        ax.plot(pmc["x"], pmc["implied"], color=LOOKS[PMC]["color"], lw=3, label="PMC")
        # drawn after PMC: MC with r_min = 1 implies the same DC and covers its line
        for line, at in zip(("--", "-.", ":", "-"), sorted(curves, reverse=True)):
            label = f"{other}, {look['parameter']} = {at:g}"
            ax.plot(pmc["x"], curves[at], color=color, lw=1.2, ls=line, label=label)
        ax.set(xlim=(0, 1), ylim=(0, top))
        ax.legend(fontsize=SMALL, **DRAWN_AS["parts"]["legend_of_panel"])
        ax.set_title(
            f"What {other} and PMC imply for {implied}", fontsize=SMALL + 1, loc="left"
        )
        tidy(ax, xlabel=look["x"], ylabel=look["y"])
    return figure


def plot_discretisation(frame: pd.DataFrame) -> Any:
    """PMC of the discretised model by bin width, one line for each rho."""
    (figure, [[ax]]), handles = parts.panels(COLUMN, 1.05 * COLUMN), []
    for rho, color, line in zip(RHOS, *DRAWN_AS["lines"].values()):
        for binning, weight in (("geometric", 1.8), ("uniform", 0.8)):
            rows = frame[(frame["rho"] == rho) & (frame["binning"] == binning)]
            ax.plot(rows["bin_width"], rows["pmc"], lw=weight, color=color, ls=line)
        handles.append(parts.entry(f"ρ = {rho:g}", lw=1.8, color=color, ls=line))
    for words, weight in (
        ("geometric bins (thick)", 1.8),
        ("uniform bins (thin)", 0.8),
    ):
        handles.append(parts.entry(words, color="0.4", lw=weight))
    marks = {
        BINNED_ALPHA: ("-", 0.495, "α of (α, λ)-PMC"),
        1.0: (":", 0.445, "above: no MC"),
    }
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
