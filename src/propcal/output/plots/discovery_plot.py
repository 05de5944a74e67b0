"""The picture of a discovery: observed and predicted rate of each group that was found."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

from propcal.discovery.finding_rows import RATIO
from propcal.numbers import IN_TEXT
from propcal.output.plots.axes import COLORS, SMALL, TEXT, axes, letters, plain_letters, rows_alone, say, tidy

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery
    from propcal.discovery.finding_rows import FoundGroup

ROW = 0.5  # inches
NAME_WIDTH = 34  # letters
HOLLOW: dict[str, Any] = {"color": "0.35", "mfc": "white", "ms": 7}


def plot_discovery(found: Discovery, *, ax: Any = None, width: float = 6.4) -> Any:
    """For each group, the predicted rate, the observed rate, and how many people it has.

    The colour tells on which side of the predicted rate the observed one is: of that after correction for
    earlier findings, if there is one, as the O/E ratio beside it. Slopes are grey.
    """
    with plain_letters():
        if not found.found:
            return say(
                axes(ax, width, 1.5),
                "No group was found for whom the score is\nwrong by more than chance explains.",
            )
        ax = axes(ax, width, 1.5 + ROW * len(found.found))
        corrected = any(group.two_scores for group in found.found)
        for y, group in enumerate(found.found):
            rates = [100 * group.predicted, 100 * group.predicted_after, 100 * group.observed]
            color = _color(group)
            ax.plot(rates[1:], [y, y], color=color, lw=1.5, zorder=1)
            ax.plot(rates[0], y, "o", **HOLLOW)
            if corrected:
                ax.plot(rates[1], y, "D", **HOLLOW)
            ax.plot(rates[2], y, "o", color=color, ms=7)
            limits = IN_TEXT.interval(group.low, group.high)
            numbers = f"{group.measure} {IN_TEXT.decimal(group.value)}\n(95 % CI {limits})"
            ax.text(1.02, y, numbers, transform=ax.get_yaxis_transform(), fontsize=SMALL, va="center")
        names = [
            fill(letters(f"{g.name} ({found.identity.count(round(g.people))})"), NAME_WIDTH)
            for g in found.found
        ]
        ax.set_yticks(range(len(names)), names, fontsize=TEXT)
        ax.set_ylim(len(names) - 0.5, -0.5)
        shown = [(group.observed, group.predicted, group.predicted_after) for group in found.found]
        ax.set_xlim(0, 105 * max(map(max, shown)))
        after = " after correction" if corrected else ""
        ax.plot([], [], "o", **HOLLOW, label="predicted")
        if corrected:
            ax.plot([], [], "D", **HOLLOW, label=f"predicted{after}")
        ax.plot([], [], "o", color="0.5", ms=7, label="observed")
        ax.plot([], [], color=COLORS[0], lw=3, label=f"observed above predicted{after}")
        ax.plot([], [], color=COLORS[1], lw=3, label=f"observed below predicted{after}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=SMALL, frameon=False)
        tidy(ax, xlabel="rate of the outcome, in percent")
        rows_alone(ax)
    return ax


def _color(group: FoundGroup) -> str:
    if group.measure != RATIO:
        return "0.5"
    return str(COLORS[1] if group.observed < group.predicted_after else COLORS[0])
