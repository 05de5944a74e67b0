"""The picture of a discovery: observed and predicted rate of each group that was found."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

from propcal.numbers import IN_TEXT
from propcal.output.plots.axes import COLORS, SMALL, TEXT, axes, letters, plain_letters, rows_alone, say, tidy

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery

ROW = 0.5  # inches
NAME_WIDTH = 34  # letters


def plot_discovery(found: Discovery, *, ax: Any = None, width: float = 6.4) -> Any:
    """For each group, the predicted rate, the observed rate, and how many people it has."""
    with plain_letters():
        if not found.found:
            return say(axes(ax, width, 1.5), "No group was found for whom the score is wrong.")
        ax = axes(ax, width, 1.2 + ROW * len(found.found))
        for y, group in enumerate(found.found):
            color = COLORS[1] if group.observed < group.predicted else COLORS[0]
            rates = [100 * group.predicted, 100 * group.observed]
            ax.plot(rates, [y, y], color=color, lw=1.5, zorder=1)
            ax.plot(rates[0], y, "o", color="0.35", mfc="white", ms=7, label="predicted" if not y else None)
            ax.plot(rates[1], y, "o", color=color, ms=7, label="observed" if not y else None)
            limits = IN_TEXT.interval(group.low, group.high)
            numbers = f"{group.measure} {IN_TEXT.decimal(group.value)} ({limits})"
            ax.text(1.02, y, numbers, transform=ax.get_yaxis_transform(), fontsize=SMALL, va="center")
        names = [
            fill(letters(f"{g.name} ({found.identity.count(round(g.people))})"), NAME_WIDTH)
            for g in found.found
        ]
        ax.set_yticks(range(len(names)), names, fontsize=TEXT)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(0, 105 * max(max(group.observed, group.predicted) for group in found.found))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=TEXT, frameon=False)
        tidy(ax, xlabel="rate of the outcome, in percent")
        rows_alone(ax)
    return ax
