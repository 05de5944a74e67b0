"""The pictures of a monitor: evidence over time with its alarm line, and O/E ratios over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.errors import InputError
from propcal.output.plots.axes import COLORS, SMALL, STYLES, axes, labels, legend_below, plain_letters, tidy
from propcal.output.plots.shown_groups import unknown

if TYPE_CHECKING:
    from propcal.monitoring.course import Course

MOST_LINES = 6
NAME_WIDTH = 40  # letters
MOST_TICKS = 8
LOWEST = 0.1  # of the evidence that is drawn


def plot_course(course: Course, kind: str, groups: Any = None, *, ax: Any = None, width: float = 6.4) -> Any:
    """Draw one kind of picture of what a monitor found."""
    if kind not in COURSE_KINDS:
        raise unknown("picture", kind, list(COURSE_KINDS))
    names = _chosen(course, groups)
    with plain_letters():
        ax = axes(ax, width, 3.4)
        periods = [str(period) for period in course.settings["periods"]]
        handles = COURSE_KINDS[kind](course, names, periods, ax)
        step = max(1, -(-len(periods) // MOST_TICKS))
        ax.set_xticks(range(0, len(periods), step), periods[::step])
        legend_below(ax, handles, columns=2)
    return ax


def _chosen(course: Course, groups: Any) -> list[str]:
    """The groups to draw: those asked for, by name or label, or those with the most evidence."""
    ranked = course.groups.sort_values(["highest", "group"], ascending=[False, True], kind="stable")
    if groups is None:
        return [str(name) for name in ranked["group"][:MOST_LINES]]
    called = {**dict(zip(ranked["label"], ranked["group"])), **{name: name for name in ranked["group"]}}
    wanted = [groups] if isinstance(groups, str) else list(groups)
    if not wanted:
        raise InputError("groups is an empty list", argument="groups", next_step="None chooses for you")
    for name in wanted:
        if name not in called:
            raise unknown("group", name, list(course.groups["group"]))
    return [str(called[name]) for name in wanted]


def _called(course: Course, names: list[str]) -> list[str]:
    own = dict(zip(course.groups["group"], course.groups["label"]))
    return labels([str(own[name]) for name in names], NAME_WIDTH)


def _evidence(course: Course, names: list[str], periods: list[str], ax: Any) -> list[Any]:
    from propcal.monitoring.course import ALARM

    best = course.evidence.groupby(["group", "period"], sort=False)["evidence"].max().unstack("period")
    handles = []
    for i, (name, label) in enumerate(zip(names, _called(course, names))):
        values = np.maximum(best.loc[name, periods].to_numpy(dtype=np.float64), LOWEST)
        look = {"color": COLORS[i % len(COLORS)], "ls": STYLES[i % len(STYLES)]}
        handles += ax.plot(range(len(periods)), values, lw=1.5, label=label, **look)
    ax.axhline(ALARM, color="0.3", lw=1, ls=(0, (6, 3)))
    ax.text(1, ALARM, " alarm", transform=ax.get_yaxis_transform(), fontsize=SMALL, va="center")
    ax.set_yscale("log")
    tidy(ax, xlabel="", ylabel="evidence, adjusted for the number of tests")
    return handles


def _ratios(course: Course, names: list[str], periods: list[str], ax: Any) -> list[Any]:
    from propcal.numbers import without_limits

    handles = []
    for i, (name, label) in enumerate(zip(names, _called(course, names))):
        own = course.periods[course.periods["group"] == name].set_index("period").loc[periods]
        start = "observed_expected"
        value, low, high = (np.array(without_limits(own[f"{start}{end}"])) for end in ("", "_low", "_high"))
        look = {"color": COLORS[i % len(COLORS)], "ls": STYLES[i % len(STYLES)]}
        handles += ax.plot(range(len(periods)), value, lw=1.5, label=label, **look)
        if len(names) <= 2:  # more bands would hide each other
            ax.fill_between(range(len(periods)), low, high, color=look["color"], alpha=0.15, lw=0)
    ax.axhline(1, color="0.3", lw=1)
    tidy(ax, xlabel="", ylabel="O/E ratio of each period")
    return handles


COURSE_KINDS: dict[str, Callable[..., list[Any]]] = {"evidence": _evidence, "ratios": _ratios}
