"""What stands below pictures: which groups or risk ranges they show."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from propcal.documents.words import sentence
from propcal.numbers import known

say = partial(sentence, "pictures")


class RangesShown(NamedTuple):
    """How many risk ranges a chart shows, of those with a DC and of all."""

    shown: int
    with_dc: int
    all: int


def dc_lines(rho: float, floor: float, ranges: RangesShown) -> list[str]:
    """Below a chart of the groups furthest apart, a line each; `rho` is 0 if no rate
    is below it, and `floor` is what chance shows.
    """
    lines = [say("dc")]
    if rho:
        lines.append(say("rates_floored", rho=rho))
    if known(floor):
        lines.append(say("dc_by_chance", floor=floor))
    if ranges.shown < ranges.with_dc:
        about = {"shown": ranges.shown, "known_ranges": ranges.with_dc}
        lines.append(say("largest_shown", **about))
    elif ranges.with_dc < ranges.all:
        unknown = ranges.all - ranges.with_dc
        lines.append(say("ranges_unknown", unknown=unknown, n=ranges.all))
    return lines


def chosen_groups(
    shown: int, n: int, with_data: int, *, verdict_names_some: bool
) -> str:
    """Which groups a picture shows: so many of `n`, of which so many have enough
    data; nothing if it shows all.
    """
    if shown >= n:
        return ""
    if shown == with_data:
        which = say("others_without_data")
    elif verdict_names_some:
        which = say("named_then_largest")
    else:
        which = say("largest")
    return say("chosen_groups", shown=shown, n=n, which=which)
