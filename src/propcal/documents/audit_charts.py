"""Charts of audits and comparisons by name; their numbers are in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.loss_intervals import dc_by_bin, in_bins
from propcal.auditing.names import UNTESTED, WRONG
from propcal.core.grid import FloatArray
from propcal.core.groups import EVERYBODY
from propcal.documents.blocks import RATIO
from propcal.documents.charts import (
    FEW_KEY,
    INTERVAL_KEY,
    LOOKS,
    SIDES,
    Axis,
    Chart,
    Forest,
    ForestRow,
    Mark,
    Plot,
    ratio_axis,
    row_axis,
)
from propcal.documents.chosen_groups import (
    MOST_ROWS,
    Chosen,
    chosen_groups,
    named_groups,
    unknown,
)
from propcal.documents.group_curves import GroupCurves, group_curves
from propcal.documents.risk_ranges import heat_rows
from propcal.documents.sentences.pictures import RangesShown, dc_lines
from propcal.documents.words import all_words
from propcal.numbers import IN_TEXT, known

if TYPE_CHECKING:
    from propcal.auditing.compare import Comparison

MOST_LINES = 4
MOST_BINS = 12
MOST_TICKS = 5  # of a heat map
ROW = 29  # height of a row with a name, in pixels
NOBODY = "No group has enough data for this picture."
NO_RATIO = "No group has enough data to compare observed and predicted rates."
NOT_COMPARED = "No risk range has two groups with enough data to compare."
NO_CELLS = "No cell has enough data to judge."
ESTIMATE = [RATIO, f"{RATIO}_low", f"{RATIO}_high"]
USEFUL = 0.02  # share of the highest net benefit below which a curve is not followed
FEW_TREATED = 0.01


def forest(
    a: Audit,
    groups: Any = None,
    *,
    before: Audit | None = None,
    most: int = MOST_ROWS,
    measured: bool = False,
) -> Chart:
    """O/E ratio of everybody and of each group, with 95 % confidence intervals, and
    what it was before.
    """
    named: Iterable[str] = []
    earlier: Mapping[Any, Any] = {}
    description = (
        "Dot: O/E ratio. Line: its 95 % CI. Coloured: off, and named by the verdict."
    )
    if before is not None:
        named = before.groups.loc[before.groups["rank"] > 0, "group"]
        earlier = before.groups.set_index("group")[RATIO].to_dict()
        description += " Ring: before the correction."

    chosen = chosen_groups(a, groups, most, first=named, measured=measured)
    if chosen.rows[RATIO].isna().all():
        return NO_RATIO
    rows = [_ratio_row(row, earlier) for row in row_dicts(chosen.rows)]
    ends: list[float] = []
    for row in rows:
        numbers = (row.value, row.low, row.high, row.before)
        ends += [float(number) for number in numbers if known(number)]
    axis = ratio_axis(ends)
    return Forest("ratios", "", description, axis, rows, ends=SIDES, note=chosen.note)


def _ratio_row(row: Mapping[str, Any], earlier: Mapping[Any, Any]) -> ForestRow:
    """The O/E ratio of a group, in colour if the verdict names it."""
    value, low, high = (row[name] for name in ESTIMATE)
    look = "noise"
    if row["rank"]:
        look = LOOKS.get(row["finding"], "noise")
    was = earlier.get(row["group"])
    return ForestRow(str(row["label"]), value, low, high, look, was, row["finding"])


def before_after(c: Comparison, groups: Any = None) -> Chart:
    """O/E ratio of each group under every score, with 95 % confidence intervals."""
    chosen = chosen_groups(c.audits[c.base], groups)
    tables = {}
    for name, a in c.audits.items():
        by_group = a.groups.set_index("group", drop=False)
        tables[name] = by_group.loc[chosen.names]
    missing = np.array([table[RATIO].isna() for table in tables.values()])
    if missing.all():
        return NO_RATIO

    y = row_axis(chosen.labels)
    marks = [
        Mark("rows", "shade", y=range(1, len(chosen.rows), 2)),
        Mark("rows", "hatch", y=np.flatnonzero(missing[0])),
        Mark("line", "guide", [1.0, 1.0], [y.low, y.high]),
    ]
    apart = min(0.26, 0.7 / len(tables))  # of a row, between scores
    for place, (name, table) in enumerate(tables.items()):
        look = f"series-{place} solid"
        if place == 0:
            look = "grey dot"
        offset = apart * (place - (len(tables) - 1) / 2)
        marks += _ratios_of_a_score(table, look, offset)
        marks.append(Mark("line", f"{look} keyed", name=name))
    marks += [
        Mark("points", "grey", name="filled: more than chance explains"),
        Mark("points", "grey hollow", name="hollow: could be chance, or not tested"),
        INTERVAL_KEY,
    ]
    if missing.any():
        marks.append(FEW_KEY)
    return Plot(
        "before-after",
        "",
        "O/E ratio of each group under every score.",
        _axis_of_all(list(tables.values())),
        y,
        marks,
        height=round(max(ROW, 12 * len(tables)) * len(chosen.rows)),
        ends=SIDES,
        note=chosen.note,
    )


def _axis_of_all(tables: Sequence[pd.DataFrame]) -> Axis:
    """An axis that holds the O/E ratios of several tables with their intervals."""
    numbers = [table[ESTIMATE].to_numpy(dtype=np.float64).ravel() for table in tables]
    ends = np.concatenate(numbers)
    return ratio_axis(ends[np.isfinite(ends)])


def _ratios_of_a_score(table: pd.DataFrame, look: str, offset: float) -> list[Mark]:
    """O/E ratios under one score, beside those under others."""
    value, low, high = table[ESTIMATE].to_numpy(dtype=np.float64).T
    place = np.arange(len(table)) + offset
    sure = table["finding"].isin(WRONG).to_numpy()
    there = np.isfinite(value)
    with_ends = np.isfinite(low) & np.isfinite(high) & there
    ranges = low[with_ends], place[with_ends], high[with_ends]
    marks = [Mark("ranges", look, *ranges)]
    for row in np.flatnonzero(there):
        fill = look if sure[row] else f"{look} hollow"
        marks.append(Mark("points", fill, [value[row]], [place[row]]))
    return marks


class GroupCurve(NamedTuple):
    """A group in a picture of curves: what it is called, and how it looks."""

    name: str
    label: str
    look: str
    curves: GroupCurves


def _each(a: Audit, chosen: Chosen) -> Iterator[GroupCurve]:
    """The groups of a picture of curves; everybody is a black line."""
    series = 0
    for curves in group_curves(a, row_dicts(chosen.rows)):
        name = str(curves.row["group"])
        look = "all-line"
        if name != EVERYBODY.name:
            look = f"series-{series}"
            series += 1
        yield GroupCurve(name, str(curves.row["label"]), look, curves)


def _missing(label: str, why: str = "not enough data") -> Mark:
    return Mark("rows", "hatch", names=[why], name=label)


def calibration(a: Audit, groups: Any = None) -> Chart:
    """Smooth calibration curves with their bands, and the observed rate of each
    cell.
    """
    chosen = chosen_groups(a, groups, MOST_LINES, measured=True, by_ratio=False)
    if a.curves.empty and not a.categories["eligible"].any():
        return NOBODY
    marks: list[Mark] = []
    for one in _each(a, chosen):
        of_group = a.categories["group"] == one.name
        cells = a.categories[of_group & a.categories["eligible"]]
        marks += _curve_marks(one, with_cells=not cells.empty)
        sure = cells["finding"].isin(WRONG)
        marks.append(_cell_marks(cells[sure], one.look))
        marks.append(_cell_marks(cells[~sure], f"{one.look} hollow"))

    otherwise = "could be chance"
    if (a.categories["finding"] == UNTESTED).any():
        otherwise = "not tested"
    end = _end_of_rates(marks)
    diagonal = [0.0, 1.0]
    perfect = "a perfect score; bands: 95 % CI"
    marks += [
        Mark("points", "grey", name="risk range: more than chance explains"),
        Mark("points", "grey hollow", name=f"risk range: {otherwise}"),
        Mark("line", "guide", diagonal, diagonal, name=perfect),
    ]
    return Plot(
        "calibration",
        "",
        "Observed rate by predicted risk, with 95 % bands.",
        Axis("predicted risk", 0.0, end),
        Axis("observed rate", 0.0, end),
        marks,
        480,
        480,
        ends=SIDES,
        note=chosen.note,
    )


def _curve_marks(one: GroupCurve, *, with_cells: bool) -> list[Mark]:
    """The calibration curve of a group; a score of 0 or 1 that many people have is a
    point by itself.
    """
    look = one.look
    name = one.label
    line = one.curves.inside
    ends = one.curves.at_ends
    if len(one.curves.curve["score"]) == 1:  # all scores are equal
        line = one.curves.curve
        ends = {column: values[:0] for column, values in ends.items()}

    score = line["score"]
    rate = line["outcome_rate"]
    points = Mark(
        "points", f"{look} diamond hollow", ends["score"], ends["outcome_rate"]
    )
    if len(score) > 1:
        band = Mark("band", look, score, line["low"], line["high"])
        curve = Mark("line", f"{look} keyed", score, rate, name=name)
        return [points, band, curve]
    if len(score) and not with_cells:
        return [points, Mark("points", f"{look} hollow", score, rate, name=name)]
    if with_cells:
        return [points, Mark("line", f"{look} keyed", name=name)]
    if known(one.curves.row[RATIO]):
        return [points, _missing(name, "no curve")]
    return [points, _missing(name)]


def _cell_marks(cells: pd.DataFrame, look: str) -> Mark:
    return Mark("points", look, cells["mean_score"], cells["outcome_rate"])


def _end_of_rates(marks: Sequence[Mark]) -> float:
    """Where both axes end: at 1, or earlier if everything is rare."""
    highest = 0.0
    for mark in marks:
        for places in (mark.x, mark.y, mark.high):
            numbers = np.asarray(places, dtype=np.float64)
            highest = max(highest, float(np.nanmax(numbers, initial=0.0)))
    if 0 < highest <= 0.6:
        return 1.1 * highest
    return 1.0


def decision(a: Audit, groups: Any = None) -> Chart:
    """Net benefit of acting on the score over thresholds, beside acting on everybody or
    nobody.
    """
    chosen = chosen_groups(a, groups, MOST_LINES, measured=True, by_ratio=False)
    if a.net_benefit.empty:
        return NOBODY
    marks = []
    top = 0.0
    bottom = 0.0
    reach = 0.0
    for one in _each(a, chosen):
        numbers = one.curves.by_threshold
        threshold = numbers["threshold"]
        if not len(threshold):
            marks.append(_missing(one.label))
            continue
        benefit = 100 * numbers["net_benefit"]
        treat_all = 100 * numbers["treat_all"]
        ends = 100 * numbers["low"], 100 * numbers["high"]
        marks += [
            Mark("band", one.look, threshold, *ends),
            Mark("line", f"{one.look} marked", threshold, benefit, name=one.label),
            Mark("line", f"{one.look} dotted", threshold, treat_all),
        ]
        top = max(top, float(np.nanmax(np.append(benefit, treat_all))))
        bottom = min(bottom, float(np.nanmin(benefit)))
        useful = np.maximum(benefit, treat_all) > USEFUL * top
        followed = threshold[useful | (numbers["treated"] > FEW_TREATED)]
        reach = max(reach, float(followed.max(initial=0.0)))

    nobody = "nobody is acted on; bands: 95 % CI"
    marks += [
        Mark("line", "grey dotted", name="everybody in the same group is acted on"),
        Mark("line", "guide", [0.0, 1.0], [0.0, 0.0], name=nobody),
    ]
    top = top or 5.0
    end = min(1.0, reach + 0.03) if reach else 1.0
    lowest = max(1.1 * bottom, -top) - 0.05 * top
    return Plot(
        "decision",
        "",
        "Net benefit by threshold, with 95 % bands.",
        Axis("threshold: act on people with scores ≥ this", 0.0, end),
        Axis("net benefit per 100 people", lowest, 1.05 * top),
        marks,
        640,
        400,
        note=chosen.note,
    )


def distribution(a: Audit, groups: Any = None) -> Chart:
    """How the scores of each group are spread, in twentieths."""
    chosen = chosen_groups(a, groups, MOST_LINES, measured=True, by_ratio=False)
    if a.distribution.empty:
        return NOBODY
    marks = []
    top = 0.0
    for one in _each(a, chosen):
        people = one.curves.histogram["people"].astype(np.float64)
        if not people.sum():
            marks.append(_missing(one.label))
            continue
        share = 100 * people / people.sum()
        edges = np.append(one.curves.histogram["score_from"], 1.0)
        marks.append(Mark("steps", one.look, edges, share, name=one.label))
        top = max(top, float(share.max()))
    return Plot(
        "distribution",
        "",
        "Share of people by score.",
        Axis("risk score, in steps of 0.05", 0.0, 1.0),
        Axis("people of the group, %", 0.0, 1.06 * top or 1.0),
        marks,
        640,
        352,
        note=chosen.note,
    )


def dc(a: Audit, groups: Any = None) -> Chart:
    """In each bin, how far apart the outcome rates of groups are; the two furthest
    apart are named.
    """
    if groups is not None:
        names = named_groups(a.groups, groups).names
        a = replace(a, categories=a.categories[a.categories["group"].isin(names)])
    table = dc_by_bin(a)
    with_dc = table.index[table["dc"].notna()].tolist()
    if not with_dc:
        return NOT_COMPARED

    rho = float(a.settings["rho"])
    largest_first = sorted(with_dc, key=lambda j: -float(table["dc"][j]))
    bins = sorted(largest_first[:MOST_BINS])
    shown = table.loc[bins]
    rates = shown[["lowest_rate", "highest_rate"]].to_numpy(dtype=np.float64)
    rates = np.maximum(rates, rho)
    x = _rate_axis(float(rates.min()), float(rates.max()))
    names_of_rows = [(float(y), str(name)) for y, name in enumerate(shown["bin"])]
    y_axis = Axis("predicted risk", -0.35, len(bins) - 0.15, names_of_rows, rows=True)

    marks = [
        Mark("line", "shade", [x.low, x.high], [y - 0.28] * 2)
        for y in range(1, len(bins))
    ]
    groups_in_bins = [cells for _, cells in in_bins(a)]
    for y, row in enumerate(shown.to_dict("records")):
        cells = groups_in_bins[bins[y]]
        every = cells.loc[cells["eligible"], "outcome_rate"].to_numpy(dtype=np.float64)
        low, high = rates[y]
        marks += _range_of_rates(row, y, low, high, np.maximum(every, rho))
        marks += _texts_of_range(row, y, x, a.labels)
    marks += _dc_key(tested=bool(table["low"].notna().any()))

    floored = 0.0
    if rho > table["lowest_rate"].min():
        floored = rho
    by_chance = np.nan
    if groups is None:
        by_chance = a.losses["floor_95"]["dc"]
    ranges = RangesShown(len(bins), len(with_dc), len(table))
    note = "\n".join(dc_lines(floored, by_chance, ranges))
    description = "The groups whose rates differ most, by predicted risk."
    height = 47 * len(bins)
    return Plot("dc", "", description, x, y_axis, marks, height=height, note=note)


def _range_of_rates(
    row: Mapping[Any, Any], y: int, low: float, high: float, every: FloatArray
) -> list[Mark]:
    """From the lowest to the highest rate of a bin, and the rate of each group."""
    line = "grey dashed"
    fill = " hollow"
    if row["low"] > 0:
        line = "heavy"
        fill = ""
    return [
        Mark("ranges", line, [low], [y], [high]),
        Mark("points", "grey stroke", every, np.full(len(every), y)),
        Mark("points", f"rightmost{fill}", [high], [y]),
        Mark("points", f"leftmost{fill}", [low], [y]),
    ]


def _texts_of_range(
    row: Mapping[Any, Any], y: int, x: Axis, labels: Mapping[str, str]
) -> list[Mark]:
    """The names of the two groups furthest apart, and their DC."""
    highest = labels.get(row["highest"], str(row["highest"]))
    lowest = labels.get(row["lowest"], str(row["lowest"]))
    look = "flush bold" if row["low"] > 0 else "flush"
    size = f"DC {IN_TEXT.decimal(row['dc'])}"
    return [
        Mark("texts", "rightmost", [x.low], [y + 0.55], names=[f"▶ {highest}"]),
        Mark("texts", "leftmost", [x.low], [y + 0.28], names=[f"◀ {lowest}"]),
        Mark("texts", look, [x.high], [y + 0.42], names=[size]),
    ]


def _dc_key(*, tested: bool) -> list[Mark]:
    otherwise = "could be chance" if tested else "not tested"
    return [
        Mark("line", "heavy", name="further apart than chance explains"),
        Mark("line", "grey dashed", name=otherwise),
        Mark("points", "grey stroke", name="each group with enough data"),
    ]


def _rate_axis(low: float, high: float) -> Axis:
    """A log axis of rates, marked in per cent."""
    margin = 1.1 if high > low * 1.05 else 1.5
    low = low / margin
    high = high * margin
    marks: list[float] = []
    for steps in (
        (10, 20, 30, 50),
        range(10, 100, 10),
        range(10, 100, 5),
        range(10, 100),
    ):
        every = [step * 10.0**power for power in range(-7, 2) for step in steps]
        marks = [mark for mark in every if 100 * low <= mark <= 100 * high]
        if len(marks) > 2:
            break
    ticks = [(mark / 100, f"{mark:g}") for mark in marks[:: 1 + len(marks) // 9]]
    return Axis("observed rate, % (log scale)", low, high, ticks, log=True)


class Cell(NamedTuple):
    """Where a cell of a heat map is, and what stands in it."""

    column: int
    row: int
    text: str


def heatmap(a: Audit, groups: Any = None) -> Chart:
    """The gap of every cell, a group within a range of scores."""
    audited = a
    if groups is None:
        with_cells = a.groups["group"].isin(a.categories["group"])
        audited = replace(a, groups=a.groups[with_cells])
    wrong = a.categories.loc[a.categories["finding"].isin(WRONG), "group"]
    chosen = chosen_groups(audited, groups, first=wrong)

    ranges, by_group = heat_rows(a)
    by_label = dict(by_group)
    by_look: dict[str, list[Cell]] = {}
    for row, label in enumerate(chosen.labels):
        for column, cell in enumerate(by_label.get(label, [])):
            place = Cell(column, row, cell.text)
            by_look.setdefault(cell.look, []).append(place)
    if not {*by_look} - {"few", "nobody"}:
        return NO_CELLS

    marks = []
    keys = all_words("heat_keys")
    for look, cells in sorted(by_look.items(), reverse=True):
        name = keys.pop(look.split()[0], "")  # of the darkest of each side
        columns, rows, texts = zip(*cells)
        x = np.array(columns)
        y = np.array(rows)
        marks.append(Mark("cells", look, x, y, x + 1, list(texts), name=name))
    return Plot(
        "heat",
        "",
        "The gap of every cell.",
        _axis_of_ranges(a.settings["edges"], len(ranges)),
        row_axis(chosen.labels),
        marks,
        height=ROW * len(chosen.labels),
        note=chosen.note,
    )


def _axis_of_ranges(edges: Sequence[float], n: int) -> Axis:
    ticks = [(float(j), f"{edge:.2g}") for j, edge in enumerate(edges)]
    every = -(-n // MOST_TICKS)
    label = "predicted risk\n(in cells: gap in\npercentage points)"
    return Axis(label, 0, n, ticks[::every])


COMPARISON_CHARTS: dict[str, Callable[..., Chart]] = {"before_after": before_after}
AUDIT_CHARTS: dict[str, Callable[..., Chart]] = {
    "forest": forest,
    "calibration": calibration,
    "dc": dc,
    "decision": decision,
    "distribution": distribution,
    "heatmap": heatmap,
}


def chart_of(
    charts: Mapping[str, Callable[..., Any]], kind: str, result: Any, groups: Any = None
) -> Any:
    """A chart of a result by name."""
    if kind not in charts:
        raise unknown("picture", kind, list(charts))
    return charts[kind](result, groups)
