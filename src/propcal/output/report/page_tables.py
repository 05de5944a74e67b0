"""The tables of the page: groups, the heat map, every category, DC by bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.dc_by_bin import bin_labels, dc_by_bin
from propcal.auditing.finding_names import CHANCE, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.auditing.measure_names import MEASURE_NAMES, MeasureName
from propcal.numbers import ON_PAGE, Limit, known, rough_percent
from propcal.output.report.forest_bars import ForestAxis, ForestBar
from propcal.output.report.svg import Tick

SYMBOLS = {TOO_HIGH: "▲", TOO_LOW: "▼"}
LOOKS = {TOO_HIGH: "high", TOO_LOW: "low", CHANCE: "noise", NOT_ENOUGH: "few"}
SHADES = (0.025, 0.05, 0.1)


@dataclass(frozen=True)
class GroupRow:
    """A group in the table of groups."""

    name: str
    finding: str
    symbol: str
    look: str
    people: str
    expected: str
    observed: str
    ratio: str
    ratio_interval: str
    forest: ForestBar | None
    auroc: str
    p_value: str
    unnoticed: str
    reason: str


@dataclass(frozen=True)
class HeatCell:
    """A category in the heat map."""

    text: str
    told: str
    look: str
    key: str
    category: int


@dataclass(frozen=True)
class HeatRow:
    """A group in the heat map."""

    name: str
    cells: list[HeatCell]


@dataclass(frozen=True)
class CategoryRow:
    """A category in the table of all."""

    group: str
    bin: str
    bin_place: int
    finding: str
    symbol: str
    look: str
    people: str
    expected: str
    observed: str
    gap_interval: str
    detectable: str


def group_rows(groups: pd.DataFrame) -> tuple[list[GroupRow], list[GroupRow], list[Tick]]:
    """Groups that count, those left out, and the axis of the forest plot."""
    ends = groups.loc[groups["kept"], ["observed_expected_low", "observed_expected_high"]]
    axis = ForestAxis.holding(ends.to_numpy(dtype=np.float64).ravel())
    rows = [_group_row(row, axis) for row in row_dicts(groups)]
    kept = groups["kept"].tolist()
    return [r for r, k in zip(rows, kept) if k], [r for r, k in zip(rows, kept) if not k], axis.ticks


def _group_row(row: dict[Any, Any], axis: ForestAxis) -> GroupRow:
    oe = [row[f"observed_expected{end}"] for end in ("", "_low", "_high")]
    return GroupRow(
        name=row["label"],
        finding=row["finding"],
        symbol=SYMBOLS.get(row["finding"], ""),
        look=LOOKS.get(row["finding"], "few"),
        people=ON_PAGE.count(row["people"]),
        expected=ON_PAGE.percent(row["mean_score"]),
        observed=ON_PAGE.percent(row["outcome_rate"]),
        ratio=ON_PAGE.decimal(oe[0]),
        ratio_interval=ON_PAGE.interval(oe[1], oe[2]),
        forest=axis.bar(*oe),
        auroc=ON_PAGE.decimal(row["auroc"], MEASURE_NAMES["auroc"].digits),
        p_value=ON_PAGE.p_value(row["p_value"]),
        unnoticed=rough_percent(row["detectable_error"])
        if known(row["detectable_error"])
        else ON_PAGE.unknown,
        reason=row["reason"],
    )


def heat_map(audit: Audit) -> tuple[list[str], list[HeatRow], list[CategoryRow]]:
    """Labels of the bins, the map, and every category behind it."""
    labels, used = bin_labels(audit), list(dict.fromkeys(audit.categories["bin"].tolist()))
    if not set(used) <= set(labels):  # bins so narrow that the edges in the settings do not tell them
        labels = used
    rows: list[HeatRow] = []
    listed: list[CategoryRow] = []
    last, groups = len(labels), audit.labels
    for i, row in enumerate(row_dicts(audit.categories)):
        place = _next(labels, row["bin"], last)
        row["group"] = groups.get(row["group"], row["group"])
        if place is None or rows[-1].name != row["group"]:
            place = _next(labels, row["bin"], -1) or 0
            rows.append(HeatRow(row["group"], [_nobody() for _ in labels]))
        rows[-1].cells[place] = _heat_cell(row, i)
        listed.append(_category_row(row, place))
        last = place
    return labels, rows, listed


def _next(labels: list[str], label: str, after: int) -> int | None:
    """The next bin of that name; narrow ones may share theirs."""
    return next((i for i in range(after + 1, len(labels)) if labels[i] == label), None)


def _nobody() -> HeatCell:
    return HeatCell("", "nobody", "nobody", "", -1)


def _heat_cell(row: dict[Any, Any], i: int) -> HeatCell:
    finding, gap = row["finding"], row["gap"]
    look = LOOKS.get(finding, "noise")
    symbol = SYMBOLS.get(finding, "")
    if not known(gap):
        return HeatCell(symbol, f"{finding}, too few people for numbers", f"{look} hidden", "", i)
    off = ON_PAGE.points(gap, 0)
    if finding == NOT_ENOUGH:
        return HeatCell("", finding, look, _sort_key(gap), i)
    shade = f" s{1 + int(np.searchsorted(SHADES, abs(gap)))}" if symbol else ""
    told = f"{finding}, gap {off} percentage points"
    return HeatCell(f"{symbol} {off}".strip(), told, look + shade, _sort_key(gap), i)


def _sort_key(gap: float) -> str:
    """What a table sorts by."""
    return f"{gap:.6g}"


def _category_row(row: dict[Any, Any], b: int) -> CategoryRow:
    return CategoryRow(
        group=row["group"],
        bin=row["bin"],
        bin_place=b,
        finding=row["finding"],
        symbol=SYMBOLS.get(row["finding"], ""),
        look=LOOKS.get(row["finding"], "noise"),
        people=ON_PAGE.count(row["people"]),
        expected=ON_PAGE.percent(row["mean_score"]),
        observed=ON_PAGE.percent(row["outcome_rate"]),
        gap_interval=ON_PAGE.interval(100 * row["low"], 100 * row["high"], 1, "+"),
        detectable=ON_PAGE.decimal(100 * row["detectable_gap"], 1),
    )


@dataclass(frozen=True)
class DcRow:
    """How far apart the groups' rates are within a bin."""

    bin: str
    highest: str
    highest_rate: str
    lowest: str
    lowest_rate: str
    ratio: str
    log_ratio: str
    width: str
    groups: int


def dc_rows(audit: Audit) -> list[DcRow]:
    """For each bin the two groups whose rates are furthest apart, among those shown."""
    found = dc_by_bin(audit, own_rates=True)
    found = found[found["dc"].notna()]
    widest, labels = max([0.1, *found["dc"]]), audit.labels
    return [
        DcRow(
            bin=row["bin"],
            highest=labels.get(row["highest"], row["highest"]),
            highest_rate=ON_PAGE.percent(row["highest_rate"]),
            lowest=labels.get(row["lowest"], row["lowest"]),
            lowest_rate=ON_PAGE.percent(row["lowest_rate"]),
            ratio=_ratio(row, float(audit.settings["rho"])),
            log_ratio=ON_PAGE.decimal(row["dc"]),
            width=f"{180 * row['dc'] / widest:.1f}",
            groups=row["groups"],
        )
        for row in row_dicts(found)
    ]


def _ratio(row: dict[Any, Any], rho: float) -> str:
    """How far apart two rates are; below the floor, rates count as the floor."""
    if row["highest_rate"] < rho and row["lowest_rate"] < rho:
        return f"both below {100 * rho:g} %"
    return ON_PAGE.decimal(np.exp(row["dc"]))


def loss_rows(audit: Audit) -> list[list[str]]:
    """MC, PMC and DC loss with their intervals and what chance would show."""
    rows = []
    for name, row in audit.losses.iterrows():
        measure = MEASURE_NAMES[str(name)]
        value, floor = (ON_PAGE.decimal(row[column], measure.digits) for column in ("value", "floor_95"))
        interval = ON_PAGE.interval(row["low"], row["high"], measure.digits)
        if known(row["low"]) and not known(row["high"]):
            interval = ON_PAGE.decimal(Limit(row["low"], "at least"), measure.digits)
        rows.append([_measure(measure), value, floor, interval, str(row["where"])])
    return rows


def _measure(measure: MeasureName) -> str:
    return f"{measure.name}: {measure.meaning}" if measure.meaning else measure.name
