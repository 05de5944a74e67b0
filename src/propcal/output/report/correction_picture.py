"""A correction as a picture: what it makes of each score, for the patterns that it changes most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from propcal.core.patterns import Patterns
from propcal.numbers import ON_PAGE, plural
from propcal.output.changed_patterns import SCORES, most_changed
from propcal.output.report.pictures import TENTHS, X, Y
from propcal.output.report.svg import Line, Picture, path, ticks

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST = 6


@dataclass(frozen=True)
class CorrectionView:
    """The picture, its key, and the numbers behind it."""

    told: str
    picture: Picture
    names: list[str]
    table: list[list[str]]


def _name(patterns: Patterns, place: int) -> str:
    """The levels of a pattern, as people say them."""
    levels = patterns.key(place)
    return ", ".join("not recorded" if level is None else level for level in levels) or "everybody"


def correction_view(correction: Correction | None) -> CorrectionView | None:
    """Raw against corrected score of the patterns that change most."""
    if correction is None:
        return None
    most = most_changed(correction, MOST)
    lines = [Line("guide", path(X([0, 1]), Y([0, 1])))]
    names = []
    for i, each in enumerate(most):
        lines.append(Line(f"series series-{i}", path(X(SCORES), Y(each.corrected))))
        also = f" and {len(each.patterns) - 1} more" if len(each.patterns) > 1 else ""
        names.append(_name(correction.patterns, each.patterns[0]) + also)
    table = [
        [
            ON_PAGE.decimal(score, 1),
            *(ON_PAGE.decimal(each.corrected[round(500 * score)], 3) for each in most),
        ]
        for score in np.round(np.arange(0.0, 1.01, 0.1), 1)
    ]
    reads = ", ".join(correction.reads) or "no columns"
    told = (
        f"The correction reads {reads}. The picture shows the {len(most)} of "
        f"{plural(len(correction.patterns), 'combination')} of levels that it changes most."
    )
    picture = Picture(
        "correction",
        "What the correction does",
        "Corrected against raw score. On the dotted diagonal nothing changes; above it scores are raised, "
        "below it lowered.",
        "raw score",
        "corrected score",
        ticks(X, TENTHS),
        ticks(Y, TENTHS),
        lines,
    )
    return CorrectionView(told, picture, names, table)
