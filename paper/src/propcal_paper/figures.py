"""The figures of an experiment, drawn from the frames of its results."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propcal.building_blocks import Style, labels, short, tidy
from propcal_paper import figure_parts as parts
from propcal_paper.figure_parts import (
    DRAWN_AS,
    LOOKS,
    PAGE,
    SMALL,
    TEXT,
    PaperFigure,
    handles,
    labelled,
    reach,
)
from propcal_paper.results import (
    LEGEND,
    cells,
    convergence,
    method_medians,
    over_alpha,
    tests,
    too_few,
)
from propcal_paper.settings import BASE, MC, MC_FOR_PMC, OURS, PMC
from propcal_paper.trial_arrays import (
    CURVE_METHODS,
    CURVE_MODEL,
    MIN_PEOPLE,
    CurveCounts,
    subgroup,
)
from propcal_paper.trial_store import HIGHER_IS_BETTER, METRICS, Evidence

# Which pairs get a bracket, and in which column beside the panel.
BRACKETS = {(BASE, MC): 0, (MC, PMC): 0, (BASE, PMC): 1}
EQUIVALENT = (MC_FOR_PMC, PMC)
UPDATES = "n_updates"
LABELS = {**METRICS, UPDATES: "updates"}
WIDE = 20  # values that differ by more than this factor are drawn on a logarithmic axis
RINGED = " Numbers: median PMC loss; the ring marks the lowest of each method."
DRAWN = ("auroc", "mc_loss", "pmc_loss", UPDATES)


def draw_comparison(evidence: Evidence) -> PaperFigure:
    """Medians with intervals, and brackets with the significance marks of the published
    caption.
    """
    found = method_medians(evidence.trials)
    tested = tests(evidence.trials)
    models = evidence.models
    shown = {method: LOOKS[method] for method in evidence.methods}
    points = found.assign(
        name=found["method"],
        value=found["median"],
        place=found["model"].map(models.index),
    )
    figure, [panels] = parts.panels(
        PAGE, 1.5 + 0.85 * len(models), 1, len(METRICS), sharey=True
    )
    for ax, metric in zip(panels, METRICS):
        middles = parts.point_rows(
            ax, points[points["metric"] == metric], shown, len(models)
        )
        for pair in tested[tested["metric"] == metric].to_dict("records"):
            both = pair["method_a"], pair["method_b"]
            if (column := BRACKETS.get(both)) is not None:
                first = middles[models.index(pair["model"])] - (len(shown) - 1) / 2
                rows = [first + [*shown].index(method) for method in both]
                color = "0.25" if pair["trials_mark"] == pair["mark"] else "0.65"
                _bracket(ax, rows, 1.04 + 0.15 * column, pair["trials_mark"], color)
        ax.locator_params(axis="x", nbins=4)
        ax.margins(x=0.08)
        if metric in HIGHER_IS_BETTER:
            better = "higher is better"
        else:
            better = "lower is better"
        tidy(ax, xlabel=f"{METRICS[metric]}\n({better})")
    panels[0].set_yticks(middles, models, fontsize=TEXT)
    data = {"comparison": found, "comparison_tests": tested}
    known = {"legend": LEGEND, "too_few": too_few(tested)}
    return finished(
        "comparison", figure, handles(evidence.methods), data, evidence, **known
    )


def _bracket(ax: Any, rows: list[float], x: float, mark: str, color: str) -> None:
    """A bracket beside the panel from one row to another, with its mark."""
    ends = [rows[0] + 0.12, rows[1] - 0.12]
    place = ax.get_yaxis_transform()
    ax.plot([x, x], ends, transform=place, color="0.5", lw=0.8, clip_on=False)
    style = {
        "fontsize": SMALL,
        "color": color,
        "clip_on": False,
        **DRAWN_AS["parts"]["bracket"],
    }
    ax.text(x + 0.015, sum(ends) / 2, mark, transform=place, **style)


def draw_curves(evidence: Evidence) -> PaperFigure | None:
    """One panel for each group; None if the store has no curves of the base model."""
    found = CurveCounts.of(evidence)
    if found is None or found.errors.empty:
        return None
    errors = found.errors.set_index("group")
    points = found.points()
    methods = tuple(m for m in CURVE_METHODS if m in errors)
    figure, [panels] = parts.panels(PAGE, 3.5, 1, len(errors), sharex=True, sharey=True)
    titles = labels(
        [subgroup(group, found.attributes) for group in errors.index], 30, 3
    )
    for ax, group, title in zip(panels, errors.index, titles):
        ax.plot([0, 1], [0, 1], color="0.75", lw=0.8, zorder=0)
        for method in methods:
            chosen = (points["group"] == group) & (points["method"] == method)
            curve = points[chosen].sort_values("bin_index")
            look = {
                "lw": 1.2,
                "ms": 4,
                "clip_on": False,
                "in_layout": False,
            }  # points at 0 or 1 are whole
            if len(curve):  # there may be no bin with enough people
                ax.plot(
                    curve["mean_score"], curve["outcome_rate"], **look, **LOOKS[method]
                )
        ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
        off = [
            f"{parts.NAMES.get(m, m)}: {Style().percent(errors.at[group, m])}"
            for m in methods
        ]
        words = "\n".join(["off by", *off])
        ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=SMALL)
        labelled(ax, title, "mean score", "outcome rate" if ax is panels[0] else "")
    if found.n_seeds == 1:
        seeds = "1 seed"
    else:
        seeds = f"{found.n_seeds} seeds combined"
    known = {
        "model": CURVE_MODEL,
        "seeds": seeds,
        "setting": found.setting,
        "fewest": MIN_PEOPLE,
    }
    data = {"calibration_curves": points, "calibration_curves_groups": found.errors}
    return finished(
        "calibration_curves", figure, handles(methods, lw=1.2), data, evidence, **known
    )


def draw_convergence(evidence: Evidence) -> PaperFigure | None:
    """One panel for each base model; None if there are no trials that aim at the same
    PMC yet.
    """
    found = convergence(evidence.trials)
    if found.empty:
        return None
    models = [model for model in evidence.models if model in {*found["model"]}]
    figure, [panels] = parts.panels(PAGE, 2.8, 1, len(models), sharey=True)
    order = sorted({*zip(found["alpha"], found["rho"])})
    for ax, model in zip(panels, models):
        _convergence_panel(ax, found[found["model"] == model], order)
        parts.count_axis(ax, found["updates"])
        labelled(
            ax, model, "target PMC (α) and ρ", "updates" if ax is panels[0] else ""
        )
    return finished(
        "convergence", figure, handles(EQUIVALENT), {"convergence": found}, evidence
    )


def _convergence_panel(
    ax: Any, found: pd.DataFrame, order: list[tuple[float, float]]
) -> None:
    """Updates of both methods at each alpha and rho, with their ratio beside each
    pair.
    """
    for shift, method in zip((-0.13, 0.13), EQUIVALENT):
        rows = found[found["method"] == method]
        x = [order.index(key) + shift for key in zip(rows["alpha"], rows["rho"])]
        ax.errorbar(
            x,
            rows["updates"],
            yerr=reach(rows, "updates"),
            ls="",
            lw=1.2,
            ms=4.5,
            **LOOKS[method],
        )
    key: Any
    for key, row in found.pivot(
        index=["alpha", "rho"], columns="method", values="updates"
    ).iterrows():
        if row[PMC] > 0:
            place = (order.index(key), max(row))
            where = DRAWN_AS["parts"]["ratio"]
            ax.annotate(
                f"{row[MC_FOR_PMC] / row[PMC]:.1f}x", place, fontsize=SMALL, **where
            )
    ax.set_xticks(range(len(order)), [f"{alpha:g}\nρ {rho:g}" for alpha, rho in order])
    ax.set_xlim(-0.5, len(order) - 0.5)
    ax.margins(y=0.12)
    parts.light_grid(ax, "y")


def draw_over_alpha(evidence: Evidence, column: str) -> PaperFigure | None:
    """The figure for one column of the trials; None if no method has an alpha."""
    found = over_alpha(evidence.trials, column)
    if found["alpha"].isna().all():
        return None
    if column == UPDATES:
        losses = over_alpha(evidence.trials, "pmc_loss")["pmc_loss"]  # of the same rows
        found = found.assign(median_pmc_loss=losses)[found["method"] != BASE]
    groupings = [name for name in evidence.grouping_names if name in {*found["groups"]}]
    models = evidence.models
    shape = (len(models), len(groupings))
    height = 1.2 + 1.6 * len(models)
    figure, panels = parts.panels(PAGE, height, *shape, sharex=True, sharey="row")
    for row, model in zip(panels, models):
        for ax, groups in zip(row, groupings):
            chosen = (found["model"] == model) & (found["groups"] == groups)
            _alpha_panel(ax, found[chosen], column, found[column])
            label = f"{model}: {LABELS[column]}" if ax is row[0] else ""
            if model == models[0]:
                title = short(groups.replace(" x ", " × "))
            else:
                title = ""
            labelled(ax, title, "α" if model == models[-1] else "", label)
    entries = handles(
        () if column == UPDATES else (BASE,), marker="", lw=1.2
    ) + handles((MC, PMC), lw=1.2)
    entries += (
        handles((OURS,), marker="", lw=1.2, ls="--") if OURS in evidence.methods else []
    )
    name = f"{column.removeprefix('n_')}_over_alpha"
    more = RINGED if column == UPDATES else ""
    return finished(
        name,
        figure,
        entries,
        {name: found},
        evidence,
        label=LABELS[column][:1].upper() + LABELS[column][1:],
        more=more,
    )


def _alpha_panel(ax: Any, found: pd.DataFrame, column: str, counts: pd.Series) -> None:
    parts.alpha_axis(ax, found["alpha"])
    for _, row in found[found["alpha"].isna()].iterrows():
        look = {
            "color": LOOKS[row["method"]]["color"],
            "ls": "--" if row["method"] == OURS else "-",
        }
        ax.axhline(row[column], lw=1.2, **look)
        if not pd.isna(row["low"]):
            ax.axhspan(row["low"], row["high"], color=look["color"], alpha=0.12, lw=0)
    base = found[(found["method"] == BASE) & found["alpha"].notna()].sort_values(
        "alpha"
    )
    if len(base):  # judged by the rule of each alpha
        ax.plot(base["alpha"], base[column], lw=1.2, color=LOOKS[BASE]["color"])
    for shift, method in ((0.93, MC), (1.07, PMC)):
        rows = found[found["method"] == method].sort_values("alpha")
        rows = rows.assign(x=rows["alpha"] * shift)
        ax.errorbar(
            rows["x"],
            rows[column],
            yerr=reach(rows, column),
            lw=1.2,
            ms=4,
            **LOOKS[method],
        )
        if column == UPDATES:
            _annotate(ax, rows, method)
    if column == UPDATES:
        parts.count_axis(ax, counts)
    elif counts.min() > 0 and counts.max() > WIDE * counts.min():
        parts.log_value_axis(ax)
    # space for the numbers next to the first and lowest points
    ax.margins(
        x=0.2 if column == UPDATES else 0.12, y=0.3 if column == UPDATES else None
    )
    parts.light_grid(ax, "y")


def _annotate(ax: Any, rows: pd.DataFrame, method: str) -> None:
    """The median PMC loss at each point, and a ring around the lowest; among equals,
    the largest alpha.
    """
    from matplotlib.patheffects import withStroke

    halo = [
        withStroke(linewidth=2.5, foreground="white")
    ]  # keep numbers legible where lines cross them
    color = LOOKS[method]["color"]
    look = {
        "fontsize": SMALL,
        "color": color,
        "path_effects": halo,
        **DRAWN_AS["parts"][method],
    }
    for _, row in rows.iterrows():
        ax.annotate(f"{row['median_pmc_loss']:.2f}", (row["x"], row[UPDATES]), **look)
    lowest = rows[rows["median_pmc_loss"] == rows["median_pmc_loss"].min()].iloc[-1:]
    ax.plot(lowest["x"], lowest[UPDATES], mec=color, **DRAWN_AS["parts"]["ring"])


def draw_cells(evidence: Evidence) -> PaperFigure:
    """Alpha by the smallest cell: a row of panels for each method, a line for each size
    and one for ours.
    """
    found = cells(evidence)
    model = "RF" if "RF" in evidence.models else evidence.models[0]
    rows = found[found["model"] == model]
    levels = rows[rows["alpha"].isna()].set_index(["method", "metric"])[
        "median"
    ]  # without an alpha
    methods = [m for m in (MC, PMC) if m in evidence.methods]
    measures = parts.words_of("cells")["measures"]
    shape = (len(methods), len(measures))
    height = 0.9 + 1.75 * len(methods)
    figure, panels = parts.panels(PAGE, height, *shape, sharex=True, sharey="col")
    sizes = [0.0, *sorted(rows["min_share"].dropna().unique())]
    names = ["smallest cell as printed", *(f"{100 * size:g} %" for size in sizes[1:])]
    ours = {"color": "black", "lw": 1.2, "ls": (0, (1, 1))}
    looks = [
        {"color": c, "ls": ls, "marker": "o", "ms": 3}
        for c, ls in zip(*DRAWN_AS["lines"].values())
    ]
    for method, row in zip(methods, panels):
        for ax, (metric, label) in zip(row, measures.items()):
            part = rows[(rows["method"] == method) & (rows["metric"] == metric)]
            for size, look in zip(sizes, looks):
                line = part[part["min_share"].fillna(0) == size].sort_values("alpha")
                ax.plot(line["alpha"], line["median"], lw=1.2, **look)
            ax.axhline(levels.get((BASE, metric), 0.0), color="0.4", lw=0.8)
            if (OURS, metric) in levels:
                ax.axhline(levels[OURS, metric], **ours)
            parts.alpha_axis(ax, rows["alpha"])
            ax.set_title(label if method == methods[0] else "", fontsize=SMALL)
            tidy(
                ax,
                xlabel="α" if method == methods[-1] else "",
                ylabel=method if ax is row[0] else "",
            )
            if metric == "log_loss":
                ax.set_yscale("symlog", linthresh=10, subs=[3])
                ax.yaxis.set_minor_formatter("{x:g}")
                ax.tick_params(which="minor", labelsize=SMALL, axis="y")
                ax.yaxis.set_major_formatter("{x:g}")
    entries = [parts.entry(name, lw=1.2, **look) for name, look in zip(names, looks)]
    entries += (
        [parts.entry(parts.NAMES[OURS], **ours)] if OURS in evidence.methods else []
    )
    return finished("cells", figure, entries, {"cells": found}, evidence, model=model)


def finished(
    name: str,
    figure: Any,
    entries: list[Any],
    data: dict[str, Any],
    evidence: Evidence,
    **known: Any,
) -> PaperFigure:
    """A figure with its legend, and with its title and note of words.toml."""
    words = parts.words_of(name)
    known |= {
        "caption": evidence.caption(),
        "by_which": evidence.by_which(),
        "sure": evidence.how_sure(),
    }
    parts.legend_above(figure, entries)
    parts.note_below(
        figure, words["note"].format(setup=evidence.setup.name, **known).strip()
    )
    return PaperFigure(name, words["title"].format(**known), figure, data)


PICTURES = ["comparison", "calibration_curves", "convergence"]
PICTURES += [f"{column.removeprefix('n_')}_over_alpha" for column in DRAWN]
TABLES = (*PICTURES, "cells", "comparison_tests", "calibration_curves_groups")


def pictures(evidence: Evidence) -> tuple[list[PaperFigure], list[str]]:
    """The figures that can be drawn by the rule of the set-up, and a sentence for each
    that cannot yet.
    """
    if evidence.of_cells:
        return [draw_cells(evidence)], []
    evidence = evidence.by(evidence.setup.rule)
    drawn = [
        draw_comparison(evidence),
        draw_curves(evidence),
        draw_convergence(evidence),
    ]
    drawn += [draw_over_alpha(evidence, column) for column in DRAWN]
    absent = [name for name, picture in zip(PICTURES, drawn) if picture is None]
    missing = [f"{name}: {parts.words_of(name)['missing']}" for name in absent]
    return [picture for picture in drawn if picture is not None], missing
