"""The picture at the top of the page: O/E ratios of the groups concerned, or the calibration of everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import SLOPE
from propcal.numbers import ON_PAGE, known
from propcal.output.report.forest_bars import ForestAxis, ForestBar
from propcal.output.report.svg import Tick

MOST_NAMED, MOST_ROWS = 5, 7


@dataclass(frozen=True)
class MainRow:
    """A group in the picture; `before` is its bar for the score that was corrected."""

    name: str
    look: str
    bar: ForestBar
    before: ForestBar | None
    ratio: str
    interval: str
    before_ratio: str


@dataclass(frozen=True)
class MainPicture:
    """O/E ratios of everybody, of the groups that the verdict names, and of the largest others.

    `shape` says that the finding is one of shape, which a calibration curve shows better.
    """

    rows: list[MainRow]
    ticks: list[Tick]
    shape: bool
    more: int


def main_picture(audit: Audit, before: Audit | None) -> MainPicture:
    """Choose the groups, and place their bars."""
    groups = audit.groups
    earlier = {} if before is None else {row["group"]: row for row in row_dicts(before.groups)}
    shown = groups[groups["kept"].astype(bool) & groups["observed_expected"].notna()]
    concerned = _concerned(shown, None if before is None else before.groups)
    others = shown[~shown["group"].isin(concerned)].sort_values("share", ascending=False, kind="stable")
    names = [*concerned, *others["group"].tolist()][:MOST_ROWS]
    chosen = {row["group"]: row for row in row_dicts(shown) if row["group"] in names}
    ends = [chosen[name][f"observed_expected{end}"] for name in names for end in ("", "_low", "_high")]
    ends += [earlier[name]["observed_expected"] for name in names if name in earlier]
    axis = ForestAxis.holding(float(end) for end in ends if known(end))
    rows = [row for name in names if (row := _row(chosen[name], earlier.get(name), axis)) is not None]
    return MainPicture(rows, axis.ticks, _only_shape(audit), len(shown) - len(rows))


def _concerned(shown: pd.DataFrame, before: pd.DataFrame | None) -> list[str]:
    """Everybody, and the groups that the verdict names (before a correction, too)."""
    ranked = shown[shown["rank"] > 0].sort_values("rank", kind="stable")["group"].tolist()
    if before is not None:
        ranked += before[before["rank"] > 0].sort_values("rank", kind="stable")["group"].tolist()
    there = set(shown["group"])
    everybody = shown["group"].iloc[:1].tolist()
    return [name for name in dict.fromkeys([*everybody, *ranked]) if name in there][: MOST_NAMED + 1]


def _row(row: dict[str, Any], earlier: dict[str, Any] | None, axis: ForestAxis) -> MainRow | None:
    ratio, low, high = (row[f"observed_expected{end}"] for end in ("", "_low", "_high"))
    bar = axis.bar(ratio, low, high)
    if bar is None:
        return None
    was = None if earlier is None else earlier["observed_expected"]
    return MainRow(
        name=row["label"],
        look={TOO_HIGH: "high", TOO_LOW: "low"}.get(row["finding"], "noise"),
        bar=bar,
        before=None if was is None else axis.bar(was, was, was),
        ratio=ON_PAGE.decimal(ratio),
        interval=ON_PAGE.interval(low, high),
        before_ratio="" if was is None else ON_PAGE.decimal(was),
    )


def _only_shape(audit: Audit) -> bool:
    """Whether the slope is wrong, and neither the level nor any group."""
    tests = audit.verdict.tests
    rejected = set(tests["test"][tests["rejected"].astype(bool)]) if len(tests) else set()
    wrong = audit.groups["finding"].isin([TOO_HIGH, TOO_LOW]).any()
    return SLOPE in rejected and not wrong
