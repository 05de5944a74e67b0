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
from propcal_paper.results.curve_counts import (
    CURVE_METHODS,
    CURVE_MODEL,
    MIN_PEOPLE,
    CurveCounts,
)
from propcal_paper.results.evidence import HIGHER_IS_BETTER, METRICS, Evidence
from propcal_paper.results.medians import cells, convergence, method_medians, over_alpha
from propcal_paper.results.significance import LEGEND, tests, too_few
from propcal_paper.results.subgroups import subgroup
from propcal_paper.settings import BASE, MC, MC_FOR_PMC, OURS, PMC

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
    points = found.rename(columns={"method": "name", "median": "value"})
    points["place"] = points["model"].map(models.index)

    height = 1.5 + 0.85 * len(models)
    figure, [panels] = parts.panels(PAGE, height, 1, len(METRICS), sharey=True)
    for ax, (metric, metric_name) in zip(panels, METRICS.items()):
        of_metric = points[points["metric"] == metric]
        middles = parts.point_rows(ax, of_metric, shown, len(models))
        first_rows = [middle - (len(shown) - 1) / 2 for middle in middles]
        pairs = tested[tested["metric"] == metric].to_dict("records")
        _brackets(ax, pairs, dict(zip(models, first_rows)), list(shown))
        ax.locator_params(axis="x", nbins=4)
        ax.margins(x=0.08)
        better = "higher" if metric in HIGHER_IS_BETTER else "lower"
        tidy(ax, xlabel=f"{metric_name}\n({better} is better)")
    panels[0].set_yticks(middles, models, fontsize=TEXT)

    data = {"comparison": found, "comparison_tests": tested}
    known = {"legend": LEGEND, "too_few": too_few(tested)}
    entries = handles(evidence.methods)
    return finished("comparison", figure, entries, data, evidence, **known)


def _brackets(
    ax: Any,
    pairs: list[dict[Any, Any]],
    first_rows: dict[str, float],
    methods: list[str],
) -> None:
    """Brackets beside the panel, pale where tests over seeds give another mark."""
    for pair in pairs:
        both = (pair["method_a"], pair["method_b"])
        column = BRACKETS.get(both)
        if column is None:
            continue
        first = first_rows[pair["model"]]
        rows = [first + methods.index(method) for method in both]
        mark = pair["trials_mark"]
        color = "0.25" if mark == pair["mark"] else "0.65"
        _bracket(ax, rows, 1.04 + 0.15 * column, mark, color)


def _bracket(ax: Any, rows: list[float], x: float, mark: str, color: str) -> None:
    """A bracket beside the panel from one row to another, with its mark."""
    top, bottom = rows
    ends = [top + 0.12, bottom - 0.12]
    place = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    ax.plot([x, x], ends, color="0.5", lw=0.8, **place)
    style = {"fontsize": SMALL, "color": color, **DRAWN_AS["parts"]["bracket"]}
    ax.text(x + 0.015, sum(ends) / 2, mark, **place, **style)


def draw_curves(evidence: Evidence) -> PaperFigure | None:
    """One panel for each group; None if the store has no curves of the base model."""
    counts = CurveCounts.of(evidence)
    if counts is None or counts.errors.empty:
        return None
    errors = counts.errors.set_index("group")
    points = counts.points()
    methods = [method for method in CURVE_METHODS if method in errors]
    names = [subgroup(group, counts.attributes) for group in errors.index]

    figure, [panels] = parts.panels(PAGE, 3.5, 1, len(errors), sharex=True, sharey=True)
    for ax, group, title in zip(panels, errors.index, labels(names, 30, 3)):
        of_group = points[points["group"] == group].sort_values("bin_index")
        _curve_panel(ax, of_group, errors.loc[group], methods)
        ylabel = "outcome rate" if ax is panels[0] else ""
        labelled(ax, title, "mean score", ylabel)

    one_seed = counts.n_seeds == 1
    known = {
        "model": CURVE_MODEL,
        "seeds": "1 seed" if one_seed else f"{counts.n_seeds} seeds combined",
        "setting": counts.setting,
        "fewest": MIN_PEOPLE,
    }
    data = {"calibration_curves": points, "calibration_curves_groups": counts.errors}
    entries = handles(methods, lw=1.2)
    return finished("calibration_curves", figure, entries, data, evidence, **known)


def _curve_panel(
    ax: Any, points: pd.DataFrame, errors: pd.Series, methods: list[str]
) -> None:
    """The curves of a group, and by how much each is off."""
    ax.plot([0, 1], [0, 1], color="0.75", lw=0.8, zorder=0)
    # points at 0 or 1 are whole
    whole = {"lw": 1.2, "ms": 4, "clip_on": False, "in_layout": False}
    words = ["off by"]
    for method in methods:
        curve = points[points["method"] == method]
        if len(curve):  # there may be no bin with enough people
            look = {**whole, **LOOKS[method]}
            ax.plot(curve["mean_score"], curve["outcome_rate"], **look)
        name = parts.NAMES.get(method, method)
        words.append(f"{name}: {Style().percent(errors[method])}")
    ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    place = {"transform": ax.transAxes, "va": "top"}
    ax.text(0.03, 0.97, "\n".join(words), fontsize=SMALL, **place)


def draw_convergence(evidence: Evidence) -> PaperFigure | None:
    """One panel for each base model; None if there are no trials that aim at the same
    PMC yet.
    """
    found = convergence(evidence.trials)
    if found.empty:
        return None
    there = {*found["model"]}
    models = [model for model in evidence.models if model in there]
    order = sorted({*zip(found["alpha"], found["rho"])})

    figure, [panels] = parts.panels(PAGE, 2.8, 1, len(models), sharey=True)
    for ax, model in zip(panels, models):
        _convergence_panel(ax, found[found["model"] == model], order)
        parts.count_axis(ax, found["updates"])
        ylabel = "updates" if ax is panels[0] else ""
        labelled(ax, model, "target PMC (α) and ρ", ylabel)
    entries = handles(EQUIVALENT)
    return finished("convergence", figure, entries, {"convergence": found}, evidence)


def _convergence_panel(
    ax: Any, found: pd.DataFrame, order: list[tuple[float, float]]
) -> None:
    """Updates of both methods at each alpha and rho, with their ratio beside each
    pair.
    """
    for shift, method in zip((-0.13, 0.13), EQUIVALENT):
        rows = found[found["method"] == method]
        x = []
        for pair in zip(rows["alpha"], rows["rho"]):
            x.append(order.index(pair) + shift)
        look = {"ls": "", "lw": 1.2, "ms": 4.5, **LOOKS[method]}
        ax.errorbar(x, rows["updates"], yerr=reach(rows, "updates"), **look)

    by = ["alpha", "rho"]
    pairs = found.pivot(index=by, columns="method", values="updates")
    key: Any
    for key, updates in pairs.iterrows():
        if updates[PMC] > 0:
            ratio = f"{updates[MC_FOR_PMC] / updates[PMC]:.1f}x"
            where = DRAWN_AS["parts"]["ratio"]
            place = (order.index(key), max(updates))
            ax.annotate(ratio, place, fontsize=SMALL, **where)
    ticks = [f"{alpha:g}\nρ {rho:g}" for alpha, rho in order]
    ax.set_xticks(range(len(order)), ticks)
    ax.set_xlim(-0.5, len(order) - 0.5)
    ax.margins(y=0.12)
    parts.light_grid(ax, "y")


def draw_over_alpha(evidence: Evidence, column: str) -> PaperFigure | None:
    """The figure for one column of the trials; None if no method has an alpha."""
    found = over_alpha(evidence.trials, column)
    if found["alpha"].isna().all():
        return None
    of_updates = column == UPDATES
    if of_updates:
        losses = over_alpha(evidence.trials, "pmc_loss")["pmc_loss"]  # of the same rows
        found = found.assign(median_pmc_loss=losses)
        found = found[found["method"] != BASE]
    figure = _draw_over_alpha_panels(evidence, found, column)

    base = () if of_updates else (BASE,)
    entries = handles(base, marker="", lw=1.2) + handles((MC, PMC), lw=1.2)
    if OURS in evidence.methods:
        entries += handles((OURS,), marker="", lw=1.2, ls="--")
    name = over_alpha_name(column)
    label = LABELS[column]
    known = {
        "label": label[:1].upper() + label[1:],
        "more": RINGED if of_updates else "",
    }
    return finished(name, figure, entries, {name: found}, evidence, **known)


def over_alpha_name(column: str) -> str:
    """The name of the figure for a column."""
    return f"{column.removeprefix('n_')}_over_alpha"


def _draw_over_alpha_panels(
    evidence: Evidence, found: pd.DataFrame, column: str
) -> Any:
    """A row of panels for each base model, a column for each grouping."""
    there = {*found["groups"]}
    groupings = [name for name in evidence.grouping_names if name in there]
    models = evidence.models
    shape = (len(models), len(groupings))
    height = 1.2 + 1.6 * len(models)
    figure, panels = parts.panels(PAGE, height, *shape, sharex=True, sharey="row")
    for row, model in zip(panels, models):
        of_model = found[found["model"] == model]
        for ax, groups in zip(row, groupings):
            of_panel = of_model[of_model["groups"] == groups]
            _alpha_panel(ax, of_panel, column, found[column])
            title = short(groups.replace(" x ", " × ")) if model == models[0] else ""
            labelled(ax, title, "α" if model == models[-1] else "")
        row[0].set_ylabel(f"{model}: {LABELS[column]}", fontsize=TEXT)
    return figure


def _alpha_panel(ax: Any, found: pd.DataFrame, column: str, counts: pd.Series) -> None:
    of_updates = column == UPDATES
    has_alpha = found["alpha"].notna()
    parts.alpha_axis(ax, found["alpha"])
    for _, row in found[~has_alpha].iterrows():
        _level_line(ax, row, column)
    of_base = found["method"] == BASE
    base = found[of_base & has_alpha].sort_values("alpha")
    if len(base):  # judged by the rule of each alpha
        ax.plot(base["alpha"], base[column], lw=1.2, color=LOOKS[BASE]["color"])

    for shift, method in ((0.93, MC), (1.07, PMC)):
        rows = found[found["method"] == method].sort_values("alpha")
        rows = rows.assign(x=rows["alpha"] * shift)
        look = {"lw": 1.2, "ms": 4, **LOOKS[method]}
        ax.errorbar(rows["x"], rows[column], yerr=reach(rows, column), **look)
        if of_updates:
            _annotate(ax, rows, method)

    if of_updates:
        parts.count_axis(ax, counts)
        ax.margins(x=0.2, y=0.3)  # for the numbers next to the first and lowest points
    else:
        if counts.min() > 0 and counts.max() > WIDE * counts.min():
            parts.log_value_axis(ax)
        ax.margins(x=0.12)
    parts.light_grid(ax, "y")


def _level_line(ax: Any, row: pd.Series, column: str) -> None:
    """The value of a method without an alpha, with its interval."""
    method = row["method"]
    color = LOOKS[method]["color"]
    ax.axhline(row[column], lw=1.2, color=color, ls="--" if method == OURS else "-")
    if not pd.isna(row["low"]):
        ax.axhspan(row["low"], row["high"], color=color, alpha=0.12, lw=0)


def _annotate(ax: Any, rows: pd.DataFrame, method: str) -> None:
    """The median PMC loss at each point, and a ring around the lowest; among equals,
    the largest alpha.
    """
    from matplotlib.patheffects import withStroke

    color = LOOKS[method]["color"]
    # keep numbers legible where lines cross them
    halo = [withStroke(linewidth=2.5, foreground="white")]
    look = {"fontsize": SMALL, "color": color, "path_effects": halo}
    look |= DRAWN_AS["parts"][method]
    losses = rows["median_pmc_loss"]
    for loss, place in zip(losses, zip(rows["x"], rows[UPDATES])):
        ax.annotate(f"{loss:.2f}", place, **look)
    lowest = rows[losses == losses.min()].iloc[-1:]
    ax.plot(lowest["x"], lowest[UPDATES], mec=color, **DRAWN_AS["parts"]["ring"])


OURS_LOOK = {"color": "black", "lw": 1.2, "ls": (0, (1, 1))}


def draw_cells(evidence: Evidence) -> PaperFigure:
    """Alpha by the smallest cell: a row of panels for each method, a line for each size
    and one for ours.
    """
    found = cells(evidence)
    model = "RF" if "RF" in evidence.models else evidence.models[0]
    rows = found[found["model"] == model]
    methods = [method for method in (MC, PMC) if method in evidence.methods]
    measures = parts.words_of("cells")["measures"]
    looks = _looks_of_sizes(rows)

    shape = (len(methods), len(measures))
    height = 0.9 + 1.75 * len(methods)
    figure, panels = parts.panels(PAGE, height, *shape, sharex=True, sharey="col")
    for method, axes in zip(methods, panels):
        for ax, (metric, title) in zip(axes, measures.items()):
            of_metric = rows[rows["metric"] == metric]
            _cells_panel(ax, of_metric, method, looks)
            ax.set_title(title if method == methods[0] else "", fontsize=SMALL)
            tidy(ax, xlabel="α" if method == methods[-1] else "")
            if metric == "log_loss":
                _log_loss_axis(ax)
        axes[0].set_ylabel(method, fontsize=TEXT)

    entries = []
    for size, look in looks.items():
        name = f"{100 * size:g} %" if size else "smallest cell as printed"
        entries.append(parts.entry(name, lw=1.2, **look))
    if OURS in evidence.methods:
        entries.append(parts.entry(parts.NAMES[OURS], **OURS_LOOK))
    return finished("cells", figure, entries, {"cells": found}, evidence, model=model)


def _looks_of_sizes(rows: pd.DataFrame) -> dict[float, dict[str, Any]]:
    """The look of the line of each smallest cell; 0 is the one as printed."""
    sizes = [0.0, *sorted(rows["min_share"].dropna().unique())]
    looks = {}
    for size, color, style in zip(sizes, *DRAWN_AS["lines"].values()):
        looks[size] = {"color": color, "ls": style, "marker": "o", "ms": 3}
    return looks


def _cells_panel(
    ax: Any, rows: pd.DataFrame, method: str, looks: dict[float, dict[str, Any]]
) -> None:
    """Lines of a method by its smallest cell, and the base model and ours, which have
    no alpha.
    """
    of_method = rows[rows["method"] == method].sort_values("alpha")
    sizes = of_method["min_share"].fillna(0)
    for size, look in looks.items():
        line = of_method[sizes == size]
        ax.plot(line["alpha"], line["median"], lw=1.2, **look)

    levels = rows[rows["alpha"].isna()].set_index("method")["median"]
    ax.axhline(levels.get(BASE, 0.0), color="0.4", lw=0.8)
    if OURS in levels:
        ax.axhline(levels[OURS], **OURS_LOOK)
    parts.alpha_axis(ax, rows["alpha"])


def _log_loss_axis(ax: Any) -> None:
    ax.set_yscale("symlog", linthresh=10, subs=[3])
    ax.yaxis.set_minor_formatter("{x:g}")
    ax.tick_params(which="minor", labelsize=SMALL, axis="y")
    ax.yaxis.set_major_formatter("{x:g}")


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
        "setup": evidence.setup.name,
        "caption": evidence.caption(),
        "by_which": evidence.by_which(),
        "sure": evidence.how_sure(),
    }
    parts.legend_above(figure, entries)
    parts.note_below(figure, words["note"].format(**known).strip())
    return PaperFigure(name, words["title"].format(**known), figure, data)


PICTURES = ["comparison", "calibration_curves", "convergence"]
PICTURES += [over_alpha_name(column) for column in DRAWN]
TABLES = (*PICTURES, "cells", "comparison_tests", "calibration_curves_groups")


def pictures(evidence: Evidence) -> tuple[list[PaperFigure], list[str]]:
    """The figures that can be drawn by the rule of the set-up, and a sentence for each
    that cannot yet.
    """
    if evidence.of_cells:
        return [draw_cells(evidence)], []
    evidence = evidence.by(evidence.setup.rule)
    found = [
        draw_comparison(evidence),
        draw_curves(evidence),
        draw_convergence(evidence),
    ]
    found += [draw_over_alpha(evidence, column) for column in DRAWN]

    drawn = []
    missing = []
    for name, picture in zip(PICTURES, found):
        if picture is None:
            missing.append(f"{name}: {parts.words_of(name)['missing']}")
        else:
            drawn.append(picture)
    return drawn, missing
