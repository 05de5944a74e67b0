"""Pictures of an audit by name, and the one that is no chart yet: a heat map of groups and bins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.finding_names import CHANCE, TOO_HIGH, TOO_LOW, UNTESTED
from propcal.auditing.loss_intervals import bin_places
from propcal.documents.audit_charts import AUDIT_CHARTS, MOST_ROWS
from propcal.documents.shown_groups import Chosen, rows_of, unknown
from propcal.render.letters import labels, symbol
from propcal.render.matplotlib import (
    HATCH,
    HIGH,
    LETTER,
    LOW,
    SMALL,
    TEXT,
    axes,
    draw,
    inches,
    legend_below,
    plain_letters,
    require_matplotlib,
    rows_alone,
    say,
    tidy,
)

ROW = 0.29  # inches, for a name of two lines
NUMBER, BOLD = 0.18, 0.26  # inches that a cell must be wide for its number, and for a bold one


def plot_audit(a: Audit, kind: str, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """Draw one kind of picture of an audit."""
    if kind in AUDIT_CHARTS:
        return draw(AUDIT_CHARTS[kind](a, groups), ax, width)
    if kind != "heatmap":
        raise unknown("picture", kind, [*AUDIT_CHARTS, "heatmap"])
    require_matplotlib()
    with plain_letters():
        return plot_heatmap(a, groups, ax=ax, width=width)


def plot_heatmap(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """The gap of every cell; coloured where it is more than chance explains, hatched without enough data."""
    wrong = a.categories.loc[a.categories["finding"].isin([TOO_HIGH, TOO_LOW]), "group"]
    with_cells = replace(a, groups=a.groups[a.groups["group"].isin(a.categories["group"])])
    chosen = rows_of(a if groups is not None else with_cells, groups, MOST_ROWS, wrong=wrong, everybody=False)
    gap, finding, eligible = _cells(a, chosen)
    if not eligible.any():
        return say(axes(ax, width, 1.5), "No cell has enough data to judge.")
    ax = axes(ax, width, 2.1 + ROW * len(chosen.rows))
    n_rows, n_bins = gap.shape
    coloured = np.isin(finding, [TOO_HIGH, TOO_LOW, UNTESTED]) & eligible
    reach = max(5.0, float(np.max(np.abs(gap[eligible]))))
    mesh = ax.pcolormesh(
        np.arange(n_bins + 1),
        np.arange(n_rows + 1) - 0.5,
        np.ma.masked_where(~coloured, gap),
        cmap=_map(),
        vmin=-reach,
        vmax=reach,
        zorder=1,
    )
    for y in range(n_rows):
        few = (finding[y] != "") & ~eligible[y]
        ax.broken_barh(_runs(few), (y - 0.5, 1), zorder=1, **HATCH)
    room = 0.55 * inches(ax) / n_bins
    for y, j in zip(*np.nonzero(eligible)):
        sure = finding[y, j] in (TOO_HIGH, TOO_LOW)
        dark = bool(coloured[y, j]) and abs(gap[y, j]) > 0.55 * reach
        text = _signed(gap[y, j]) if room >= NUMBER else _signed(gap[y, j])[0] if room > 0.09 and sure else ""
        if text:
            look = {"color": "white" if dark else "0.35" if finding[y, j] == CHANCE else "black"}
            weight = "bold" if sure and room > BOLD else "normal"
            ax.text(j + 0.5, y, text, ha="center", va="center", fontsize=SMALL, weight=weight, **look)
    _bin_axis(ax, a, n_rows)
    most = max(14, int(0.33 * inches(ax) / LETTER))
    ax.set_yticks(range(n_rows), labels(chosen.labels, most, lines=2), fontsize=SMALL, linespacing=0.95)
    _scale(ax, mesh)
    _heat_legend(ax, chosen, finding, eligible)
    return ax


def _cells(a: Audit, chosen: Chosen) -> tuple[Any, Any, Any]:
    """Gap per 100 people, finding and eligibility of each group (rows) and bin (columns)."""
    place = {name: y for y, name in enumerate(chosen.names)}
    shape = (len(place), len(a.settings["edges"]) - 1)
    gap, finding = np.full(shape, np.nan), np.full(shape, "", dtype=object)
    eligible = np.zeros(shape, dtype=np.bool_)
    for j, row in zip(bin_places(a), a.categories.to_dict("records")):
        y = place.get(row["group"])
        if y is not None:
            gap[y, j], finding[y, j], eligible[y, j] = 100 * row["gap"], row["finding"], row["eligible"]
    return gap, finding, eligible


def _map() -> Any:
    """From too high to too low: told apart with any colour vision."""
    from matplotlib.colors import LinearSegmentedColormap

    # the palest colours are not white: white says "could be chance"
    colors = [(0, HIGH), (0.5, "#F9DDCB"), (0.5, "#CFE4F1"), (1, LOW)]
    return LinearSegmentedColormap.from_list("too high, too low", colors)


def _signed(value: float) -> str:
    """A whole number with its sign; zero has none."""
    whole = round(float(value))
    return "0" if not whole else ("+" if whole > 0 else symbol("−")) + str(abs(whole))


def _runs(where: Any) -> list[tuple[int, int]]:
    """First cell and length of each run of marked cells."""
    step = np.diff(np.concatenate([[0], where.astype(np.int8), [0]]))
    begins, ends = np.flatnonzero(step == 1), np.flatnonzero(step == -1)
    return [(int(begin), int(end - begin)) for begin, end in zip(begins, ends)]


def _bin_axis(ax: Any, a: Audit, n_rows: int) -> None:
    """The edges of the bins under the borders of the cells, as many as there is room for."""
    edges = a.settings["edges"]
    texts = [f"{edge:.2g}" for edge in edges]
    longest = max(map(len, texts)) * LETTER + 0.06
    every = max(1, int(np.ceil(longest * (len(edges) - 1) / (0.55 * inches(ax)))))
    ax.set_xticks(range(0, len(edges), every), texts[::every])
    ax.set_xlim(0, len(edges) - 1)
    ax.set_ylim(n_rows - 0.5, -0.5)
    tidy(ax, xlabel="predicted risk")
    rows_alone(ax)
    if len(edges) <= 60:
        ax.vlines(range(1, len(edges) - 1), -0.5, n_rows - 0.5, color="0.85", lw=0.5, zorder=2)
    ax.hlines(np.arange(n_rows - 1) + 0.5, 0, len(edges) - 1, color="0.85", lw=0.5, zorder=2)


def _scale(ax: Any, mesh: Any) -> None:
    """What the colours mean, above the cells."""
    bar = ax.figure.colorbar(mesh, ax=ax, location="top", shrink=0.9, aspect=30, pad=0.02)
    bar.outline.set_linewidth(0.4)
    bar.ax.tick_params(labelsize=SMALL, width=0.4)
    left, right = symbol("←"), symbol("→")
    sides = f"{left} score too high   score too low {right}"
    text = f"{sides}\ngap: observed minus predicted\nrate, percentage points"
    bar.set_label(text, fontsize=SMALL if inches(ax) < 5 else TEXT)


def _heat_legend(ax: Any, chosen: Chosen, finding: Any, eligible: Any) -> None:
    from matplotlib.patches import Patch

    keys = []
    for case, color in ((TOO_HIGH, HIGH), (TOO_LOW, LOW)):
        if (finding == case).any():
            keys.append(Patch(facecolor=color, alpha=0.6, label=f"coloured: score {case}"))
    if (eligible & (finding != UNTESTED) & ~np.isin(finding, [TOO_HIGH, TOO_LOW])).any():
        keys.append(Patch(facecolor="white", edgecolor="0.6", linewidth=0.4, label="white: could be chance"))
    if (finding == UNTESTED).any():
        keys.append(Patch(facecolor="#BFDCEB", edgecolor="0.6", linewidth=0.4, label="not tested"))
    if ((finding != "") & ~eligible).any():
        keys.append(Patch(label="hatched: not enough data", **HATCH))
    if (finding == "").any():
        keys.append(Patch(facecolor="white", edgecolor="white", label="empty: nobody"))
    legend_below(ax, keys, title=chosen.said, wide=True)
