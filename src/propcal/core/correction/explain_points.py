"""What points do in an explanation: each feature's part of the change, which add up exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from propcal.core.correction.explain import FEATURE, LOG_ODDS, Begun, Reason, refuse_if
from propcal.core.correction.limits import MOST_TRACED
from propcal.core.correction.points_table import PER_UNIT, PointsTable, multiply
from propcal.core.correction.smooth_map import whole_parts
from propcal.core.grid import UNIT, BoolArray
from propcal.core.groups.collection import Group, Labels


def feature_label(group: Group, labels: Labels | None) -> str:
    """What sentences call a level or range of a feature."""
    (name, level), *_ = group.conditions
    column = name.removeprefix(FEATURE)
    named = (labels or {}).get(column, {}).get(str(level))
    return named or f"{column} {level}"


def feature_reasons(points: PointsTable, update: int) -> Iterator[Reason]:
    """A reason for each code of each feature, in order."""
    for feature in points.features:
        for label, own in zip(feature.labels, feature.pieces):
            group = Group(((f"{FEATURE}{feature.column}", label),))
            yield Reason(update, group, f"{(own or 0) / PER_UNIT:+.3f} {LOG_ODDS}")


def with_points(begun: Begun, points: PointsTable, codes: Sequence[Any], kept: BoolArray) -> Begun:
    """The steps so far, and one for each feature that moves a score; people `kept` have none.

    A feature's part of the change is its points times the mean slope of the logistic curve on the way.
    """
    n = len(begun.score)
    refuse_if(n * len(codes) > MOST_TRACED, n, len(codes))
    own = np.stack(
        [np.array([p or 0 for p in feature.pieces])[code] for feature, code in zip(points.features, codes)],
        axis=1,
    )
    after = multiply(begun.score, points.odds(codes))
    change, total = after - begun.score, own.sum(axis=1)
    risk = begun.score / UNIT
    slope = np.where(total == 0, risk * (1 - risk) * UNIT / PER_UNIT, change / np.where(total == 0, 1, total))
    parts = whole_parts(own * slope[:, None], own != 0, change)
    parts[kept] = 0
    running = begun.score[:, None] + np.cumsum(parts, axis=1)
    sizes = np.cumsum([0, *(len(feature.pieces) for feature in points.features)])
    reason = begun.n_reasons + np.stack([first + code for first, code in zip(sizes, codes)], axis=1)
    person, place = np.nonzero(parts)
    steps = np.stack(
        [person, reason[person, place], (running - parts)[person, place], running[person, place]], axis=1
    )
    return Begun(running[:, -1], np.concatenate([begun.steps, steps]), begun.n_reasons + int(sizes[-1]))
