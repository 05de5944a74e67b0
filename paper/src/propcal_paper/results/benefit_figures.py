"""The pictures of `propcal paper benefit`: changes of errors, and O/E ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import labels, plural, short
from propcal_paper import figure_parts as parts
from propcal_paper.figure_parts import LOOKS, PAGE, SMALL, TEXT
from propcal_paper.results.benefit import (
    ALPHA,
    AVERAGE,
    FINE_ALPHA,
    LARGEST,
    PREDICTION,
    SETTING,
    benefit,
    method_name,
    observed_to_expected,
)
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.subgroups import subgroup
from propcal_paper.settings import BASE, MC, MODEL_NAMES, OURS, PMC

Panels = Mapping[str, Mapping[str, pd.DataFrame]]
PICTURES = ("benefit", "observed_to_expected")
SHOWN_MODEL = "RF"
BEFORE = method_name(BASE, np.nan)
MC_NAME = method_name(MC, ALPHA)
PMC_NAME = method_name(PMC, ALPHA)
FINE = method_name(PMC, FINE_ALPHA)
OURS_NAME = method_name(OURS, np.nan)
LOOKS_BY_NAME = {
    BEFORE: LOOKS[BASE],
    MC_NAME: LOOKS[MC],
    PMC_NAME: LOOKS[PMC],
    FINE: {**LOOKS[PMC], "markerfacecolor": "white"},
    OURS_NAME: LOOKS[OURS],
}


def benefit_figures(stores: Mapping[str, Evidence]) -> dict[str, Any]:
    """The two pictures by file name."""
    first = next(iter(stores.values()))
    model = SHOWN_MODEL if SHOWN_MODEL in first.models else first.models[0]
    fewest = min(evidence.n_seeds for evidence in stores.values())
    known = {
        "shuffles": plural(fewest, "shuffle"),
        "model": MODEL_NAMES[model].capitalize(),
        "unit": first.columns.unit,
        "share": 100 * SETTING["gamma"],
    }
    figures = (_draw_changes(stores), _draw_ratios(stores, model))
    drawn = dict(zip(PICTURES, figures))
    for name, figure in drawn.items():
        parts.note_below(figure, parts.words_of(name)["note"].format(**known))
    return drawn


def _draw_changes(stores: Mapping[str, Evidence]) -> Any:
    """A row of panels for each outcome, a column for each measure; points are changes
    of the error.
    """
    changes = {name: benefit(evidence) for name, evidence in stores.items()}
    places: dict[tuple[str, str], int] = {}
    for frame in changes.values():
        for place in zip(frame["groups"], frame["model"]):
            places.setdefault(place, len(places))

    panels = {}
    for outcome, frame in changes.items():
        rows = [places[place] for place in zip(frame["groups"], frame["model"])]
        placed = frame.assign(value=frame["change"], place=rows)
        of_measures = {}
        for measure in (LARGEST, AVERAGE, PREDICTION):
            of_measures[measure] = placed[placed["measure"] == measure]
        panels[outcome] = of_measures
    words = []
    for groups, model in places:
        grouping = groups.replace(" x ", " × ").replace("_", " ")
        words.append(f"{short(MODEL_NAMES[model])}\n{short(grouping)}")
    # MCBoost changes little at this alpha; its numbers are in the tables
    shown = (PMC_NAME, FINE, OURS_NAME)
    return _points(panels, shown, words, 0, "change, %\n← better   worse →")


def _draw_ratios(stores: Mapping[str, Evidence], model: str) -> Any:
    """A panel for each outcome: the O/E ratio of each subgroup of the last grouping,
    before and after.
    """
    ratios = {}
    groups = set[str]()
    for outcome, evidence in stores.items():
        frame = observed_to_expected(evidence)
        of_last = frame["groups"] == evidence.grouping_names[-1]
        frame = frame[of_last & (frame["model"] == model)]
        ratios[short(outcome)] = frame.assign(value=frame["ratio"])
        groups |= {*frame["group_name"]}

    order = sorted(groups)
    panels = {}
    for outcome, frame in ratios.items():
        panels[outcome] = frame.assign(place=frame["group_name"].map(order.index))
    first = next(iter(stores.values()))
    attributes = list(first.attributes.values())[-1]
    words = labels([subgroup(group, attributes) for group in order], 48, 2)
    shown = (BEFORE, MC_NAME, PMC_NAME, OURS_NAME)
    xlabel = "O/E ratio\n← predicts too high   too low →"
    return _points({"": panels}, shown, words, 1, xlabel)


def _points(
    panels: Panels, wanted: Sequence[str], words: list[str], middle: float, xlabel: str
) -> Any:
    """Rows of panels by their labels, with a point and an interval for each `place`
    (row) and method.
    """
    there = set[str]()
    for row in panels.values():
        for frame in row.values():
            there |= {*frame["name"]}
    shown = {name: {"ms": 4, **LOOKS_BY_NAME[name]} for name in wanted if name in there}

    n_columns = len(next(iter(panels.values())))
    panel_height = 0.5 + 0.135 * len(words) * (len(shown) + parts.GAP)
    height = 1.3 + len(panels) * panel_height
    # changes of different errors are not comparable, ratios are
    sharex = "col" if middle == 0 else "all"
    shape = (len(panels), n_columns)
    figure, grid = parts.panels(PAGE, height, *shape, sharex=sharex, sharey=True)
    *_, last = panels
    for axes, (label, row) in zip(grid, panels.items()):
        for ax, (title, frame) in zip(axes, row.items()):
            middles = parts.point_rows(ax, frame, shown, len(words))
            ax.axvline(middle, color="0.3", lw=0.9)
            ax.tick_params(labelbottom=True)
            parts.labelled(ax, title, xlabel if label == last else "")
        axes[0].set_ylabel(short(label), fontsize=TEXT, fontweight="bold")
        axes[0].set_yticks(middles, words, fontsize=SMALL)

    entries = [parts.entry(name, **{"lw": 0, **look}) for name, look in shown.items()]
    parts.legend_above(figure, entries)
    return figure
