"""Pictures of an audit's categories: a heat map of groups and bins, and DC by bin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.dc_by_bin import bin_places, dc_by_bin, in_bins
from propcal.auditing.finding_names import CHANCE, TOO_HIGH, TOO_LOW, UNTESTED
from propcal.numbers import IN_TEXT
from propcal.output.plots.axes import (
    HATCH,
    HIGH,
    LETTER,
    LOW,
    SMALL,
    TEXT,
    axes,
    inches,
    labels,
    legend_below,
    log_axis,
    rows_alone,
    say,
    short,
    symbol,
    tidy,
)
from propcal.output.plots.forest import MOST_ROWS, ROW
from propcal.output.plots.shown_groups import Chosen, named_groups, rows_of

MOST_BINS = 12
TOP, BOTTOM = "#009E73", "#AA4499"  # the group with the highest rate; with the lowest
NUMBER, BOLD = 0.18, 0.26  # inches that a cell must be wide for its number, and for a bold one


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
    return "0" if not whole else ("+" if whole > 0 else symbol("−", "-")) + str(abs(whole))


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
    left, right = symbol("←", "<"), symbol("→", ">")
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


def plot_dc(a: Audit, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """In each bin, how far apart the outcome rates of groups are; the two furthest apart are named."""
    if groups is not None:
        chosen = named_groups(a, groups)
        a = replace(a, categories=a.categories[a.categories["group"].isin(chosen.names)])
    table, members = dc_by_bin(a), [rows[rows["eligible"]] for _, rows in in_bins(a)]
    told = table.index[table["dc"].notna()].tolist()
    if not told:
        return say(axes(ax, width, 1.5), "No risk range has two groups with enough data to compare.")
    drawn = sorted(sorted(told, key=lambda j: -float(table["dc"][j]))[:MOST_BINS])
    ax = axes(ax, width, 1.75 + 0.47 * len(drawn))
    rho, most = float(a.settings["rho"]), max(16, int((inches(ax) - 1.5) / LETTER))
    for y, j in enumerate(drawn):
        _pair(ax, y, table.loc[j], members[j], rho, most, a.labels)
    rates = [float(table.loc[j, name]) for j in drawn for name in ("lowest_rate", "highest_rate")]
    _rate_axis(ax, max(min(rates), rho), max(*rates, rho))
    ax.set_yticks(np.arange(len(drawn)) + 0.25, table.loc[drawn, "bin"].tolist(), fontsize=SMALL)
    ax.set_ylim(-0.35, len(drawn) - 0.15)
    ax.hlines(np.arange(1, len(drawn)) - 0.28, 0, 1, transform=ax.get_yaxis_transform(), color="0.88", lw=0.6)
    tidy(ax, xlabel="observed rate, % (log scale)", ylabel="predicted risk")
    rows_alone(ax)
    _dc_legend(ax, a, table, len(told), len(drawn), whole=groups is None)
    return ax


def _pair(ax: Any, y: int, row: Any, members: Any, rho: float, most: int, called: dict[str, str]) -> None:
    """One bin: every group's rate, the range of them, and the names of its ends."""
    low, high = (max(float(row[name]), rho) for name in ("lowest_rate", "highest_rate"))
    sure = bool(row["low"] > 0)
    look = {"color": "black", "lw": 2.2} if sure else {"color": "0.5", "lw": 1.1, "ls": (0, (3, 2))}
    ax.plot([low, high], [y, y], label="_range", zorder=2, **look)
    every = np.maximum(members["outcome_rate"].to_numpy(dtype=np.float64), rho)
    ax.plot(every, np.full(len(every), y), ls="", marker="|", ms=6, color="0.35", label="_groups", zorder=2)
    across = ax.get_yaxis_transform()
    for value, marker, color, name, up in (
        (high, ">", TOP, "highest", 0.55),
        (low, "<", BOTTOM, "lowest", 0.28),
    ):
        fill = color if sure else "white"
        ax.plot([value], [y], ls="", marker=marker, ms=5.5, color=color, mfc=fill, zorder=3, label="_end")
        ax.plot(
            [0.012],
            [y + up],
            ls="",
            marker=marker,
            ms=4,
            color=color,
            transform=across,
            label="_key",
            clip_on=False,
        )
        label = short(called.get(row[name], str(row[name])), most)
        ax.text(0.035, y + up, label, transform=across, fontsize=SMALL, va="center")
    weight = "bold" if sure else "normal"
    text = f"DC {IN_TEXT.decimal(row['dc'])}"
    ax.text(1, y + 0.42, text, transform=across, fontsize=SMALL, va="center", ha="right", weight=weight)


def _rate_axis(ax: Any, low: float, high: float) -> None:
    """A log axis of rates, marked in per cent."""
    low, high = (low / 1.1, high * 1.1) if high > low * 1.05 else (low / 1.5, high * 1.5)
    marks: list[float] = []
    for steps in ((10, 20, 30, 50), range(10, 100, 10), range(10, 100, 5), range(10, 100)):
        every = (step * 10.0**power for power in range(-7, 2) for step in steps)
        marks = [mark for mark in every if 100 * low <= mark <= 100 * high]
        if len(marks) > 2:
            break
    log_axis(ax, low, high, {mark / 100: f"{mark:g}" for mark in marks[:: 1 + len(marks) // 9]})


def _dc_legend(ax: Any, a: Audit, table: Any, told: int, drawn: int, *, whole: bool) -> None:
    from matplotlib.lines import Line2D

    tested = bool(table["low"].notna().any())
    keys = [
        Line2D([], [], color="black", lw=2.2, label="the groups differ by more than chance explains"),
        Line2D(
            [],
            [],
            color="0.5",
            lw=1.1,
            ls=(0, (3, 2)),
            label="could be chance" if tested else "not tested",
        ),
        Line2D([], [], ls="", marker="|", ms=6, color="0.35", label="each group with enough data"),
    ]
    title = ["DC: log of the ratio of the highest to the lowest rate"]
    if a.settings["rho"] > table["lowest_rate"].min():
        least = f"{100 * a.settings['rho']:g} %"
        title.append(f"Rates below {least} count as {least}")
    floor = float(a.losses["floor_95"]["dc"])
    if whole and np.isfinite(floor):
        title.append(f"By chance, a perfect score shows a DC up to {IN_TEXT.decimal(floor)} here")
    if drawn < told:
        title.append(f"{drawn} of {told} risk ranges: the largest DC")
    elif told < len(table):
        title.append(
            f"{len(table) - told} of {len(table)} risk ranges do not have two groups with enough data"
        )
    legend_below(ax, keys, title="\n".join(title), wide=True)
