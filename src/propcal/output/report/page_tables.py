"""The tables of the page: groups, the heat map, every category, DC by bin."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import INSUFFICIENT, WITHIN
from propcal.output.numbers import (
    NOTHING,
    count,
    decimal,
    interval,
    known,
    p_value,
    per_100,
    sort_key,
)
from propcal.output.report.svg import Axis, Tick

SYMBOLS = {TOO_HIGH: "▲", TOO_LOW: "▼"}
LOOKS = {TOO_HIGH: "high", TOO_LOW: "low", WITHIN: "noise", INSUFFICIENT: "few"}
SHADES = (0.025, 0.05, 0.1)
REACHES = ((1.25, "⅘", "1¼"), (2.0, "½", "2"), (4.0, "¼", "4"), (8.0, "⅛", "8"))  # of the forest plot
MEASURES = {
    "mc": "MC loss: largest gap of a category",
    "pmc": "PMC loss: largest gap as a share of the rate",
    "dc": "DC loss: largest log-ratio of two groups' rates",
    "mc_mean_square": "mean squared gap, noise taken off",
    "pmc_mean_square": "mean squared share, noise taken off",
    "observed_expected": "outcomes for each one expected",
    "brier": "Brier score",
    "log_loss": "log loss",
    "auroc": "AUROC",
}


@dataclass(frozen=True)
class Forest:
    """A point and its interval on the axis of observed/expected; arrows where it reaches beyond."""

    low: str
    high: str
    point: str
    beyond: str
    told: str


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
    forest: Forest | None
    auroc: str
    p_value: str
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
    gap: str
    gap_interval: str
    detectable: str


def group_rows(groups: pd.DataFrame) -> tuple[list[GroupRow], list[GroupRow], list[Tick]]:
    """Groups that count, those left out, and the axis of the forest plot."""
    axis, marks = _forest_axis(groups)
    rows = [_group_row(row, axis) for row in groups.to_dict("records")]
    kept = groups["kept"].tolist()
    return [r for r, k in zip(rows, kept) if k], [r for r, k in zip(rows, kept) if not k], marks


def _forest_axis(groups: pd.DataFrame) -> tuple[Axis, list[Tick]]:
    """A logarithmic axis that holds the intervals of the groups that count; half and double lie alike."""
    ends = groups.loc[groups["kept"], ["observed_expected_low", "observed_expected_high"]]
    logs = np.abs(np.log(np.maximum(ends.to_numpy(dtype=np.float64), 1e-6)))
    furthest = float(np.exp(np.nanmax(logs, initial=0.0)))
    reach, *labels = next((found for found in REACHES if found[0] >= furthest), REACHES[-1])
    axis = Axis(-np.log(reach), np.log(reach), 10, 190)
    values = {1 / reach: labels[0], 1.0: "1", reach: labels[1]}
    if reach > 2:
        values |= {0.5: "½", 2.0: "2"}
    return axis, [Tick(f"{axis(np.log(v)):.1f}", values[v]) for v in sorted(values)]


def _group_row(row: dict[Any, Any], axis: Axis) -> GroupRow:
    oe = [row[f"observed_expected{end}"] for end in ("", "_low", "_high")]
    return GroupRow(
        name=row["group"],
        finding=row["finding"],
        symbol=SYMBOLS.get(row["finding"], ""),
        look=LOOKS.get(row["finding"], "few"),
        people=count(row["people"]),
        expected=per_100(row["mean_score"]),
        observed=per_100(row["outcome_rate"]),
        ratio=decimal(oe[0]),
        ratio_interval=interval(oe[1], oe[2]),
        forest=_forest(axis, *oe),
        auroc=decimal(row["auroc"]),
        p_value=p_value(row["p_value"]),
        reason=row["reason"],
    )


def _forest(axis: Axis, ratio: float, low: float, high: float) -> Forest | None:
    if not known(ratio):
        return None
    low, high = (low, high) if known(low) and known(high) else (ratio, ratio)
    logs = np.log(np.maximum([low, high, ratio], 1e-6))
    places = axis(np.clip(logs, axis.low, axis.high))
    left, right = logs[0] < axis.low, logs[1] > axis.high
    low_end, high_end, point = (f"{place:.1f}" for place in places)
    beyond = ("left " if left else "") + ("right" if right else "")
    return Forest(low_end, high_end, point, beyond, f"{decimal(ratio)}, {interval(low, high)}")


def heat_map(audit: Audit) -> tuple[list[str], list[HeatRow], list[CategoryRow]]:
    """Labels of the bins, the map, and every category behind it."""
    labels = bin_labels(audit)
    rows: list[HeatRow] = []
    listed: list[CategoryRow] = []
    last = len(labels)
    for i, row in enumerate(audit.categories.to_dict("records")):
        place = _next(labels, row["bin"], last)
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


def bin_labels(audit: Audit) -> list[str]:
    """The bins in words, also those without people."""
    ends = [f"{edge:.4g}" for edge in audit.settings["edges"]]
    said = [f"[{a}, {b})" for a, b in pairwise(ends[:-1])] + [f"[{ends[-2]}, {ends[-1]}]"]
    listed = list(dict.fromkeys(audit.categories["bin"].tolist()))
    return said if set(listed) <= set(said) else listed


def _nobody() -> HeatCell:
    return HeatCell("", "nobody", "nobody", "", -1)


def _heat_cell(row: dict[Any, Any], i: int) -> HeatCell:
    finding, gap = row["finding"], row["gap"]
    look = LOOKS.get(finding, "noise")
    symbol = SYMBOLS.get(finding, "")
    if not known(gap):
        return HeatCell(symbol, f"{finding}, numbers hidden", f"{look} hidden", "", i)
    off = f"{abs(100 * gap):.0f}"
    if finding == INSUFFICIENT:
        return HeatCell("", finding, look, sort_key(gap), i)
    shade = f" s{1 + int(np.searchsorted(SHADES, abs(gap)))}" if symbol else ""
    told = f"{finding}, off by {off} of 100 people"
    return HeatCell(f"{symbol} {off}".strip(), told, look + shade, sort_key(gap), i)


def _category_row(row: dict[Any, Any], b: int) -> CategoryRow:
    return CategoryRow(
        group=row["group"],
        bin=row["bin"],
        bin_place=b,
        finding=row["finding"] if row["people"] is not None else f"{row['finding']}; numbers hidden",
        symbol=SYMBOLS.get(row["finding"], ""),
        look=LOOKS.get(row["finding"], "noise"),
        people=count(row["people"]),
        expected=per_100(row["mean_score"]),
        observed=per_100(row["outcome_rate"]),
        gap=decimal(100 * row["gap"], 1, "+") if known(row["gap"]) else NOTHING,
        gap_interval=interval(100 * row["low"], 100 * row["high"], 1, "+")
        if known(row["low"]) and known(row["high"])
        else NOTHING,
        detectable=per_100(row["detectable_gap"]),
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
    table = audit.categories
    shown = table[table["eligible"].astype(bool) & table["outcome_rate"].notna()]
    found = []
    for label, own in shown.groupby("bin", sort=False):
        rate = own["outcome_rate"].to_numpy(dtype=np.float64)
        logs = np.log(np.maximum(rate, audit.settings["rho"]))
        top, bottom = int(np.argmax(rate)), int(np.argmin(rate))
        if len(own) < 2:
            continue
        far = float(logs[top] - logs[bottom])
        found.append(
            (
                str(label),
                own["group"].iloc[top],
                rate[top],
                own["group"].iloc[bottom],
                rate[bottom],
                far,
                len(own),
            )
        )
    order = {label: i for i, label in enumerate(bin_labels(audit))}
    found.sort(key=lambda row: order[row[0]])
    widest = max([0.1, *(row[5] for row in found)])
    return [
        DcRow(
            b,
            high,
            per_100(r1),
            low,
            per_100(r0),
            decimal(np.exp(far)),
            decimal(far),
            f"{180 * far / widest:.1f}",
            n,
        )
        for b, high, r1, low, r0, far, n in found
    ]


def loss_rows(audit: Audit) -> list[list[str]]:
    """MC, PMC and DC loss with noise floor and interval."""
    return [
        [
            MEASURES[str(name)],
            decimal(row["value"], 3),
            decimal(row["floor_95"], 3),
            interval(row["low"], row["high"], 3),
            str(row["where"]),
        ]
        for name, row in audit.losses.iterrows()
    ]
