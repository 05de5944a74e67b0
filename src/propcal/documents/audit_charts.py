"""Charts of audits and comparisons by name, and which groups they show; their numbers
are in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.compare import Comparison
from propcal.auditing.loss_intervals import dc_by_bin, in_bins
from propcal.auditing.names import UNTESTED, WRONG
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
from propcal.documents.risk_ranges import heat_rows
from propcal.documents.sentences.pictures import RangesShown, dc_lines
from propcal.documents.sentences.pictures import chosen_groups as chosen_groups_note
from propcal.documents.words import all_words
from propcal.errors import InputError, refused
from propcal.numbers import IN_TEXT, known

MOST_ROWS = 24
MOST_LINES = 4
MOST_BINS = 12
NOBODY = "No group has enough data for this picture."
NO_RATIO = "No group has enough data to compare observed and predicted rates."
ESTIMATE = [RATIO, f"{RATIO}_low", f"{RATIO}_high"]
CURVE = ["group", "score", "outcome_rate", "low", "high"]
MOST_LISTED = 20  # as many names as an error lists


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
    named: Iterable[str] = (
        [] if before is None else before.groups.loc[before.groups["rank"] > 0, "group"]
    )
    chosen = chosen_groups(a, groups, most, first=named, measured=measured)
    if chosen.rows[RATIO].isna().all():
        return NO_RATIO
    if before is None:
        earlier = {}
    else:
        earlier = before.groups.set_index("group")[RATIO].to_dict()
    rows = []
    for row in row_dicts(chosen.rows):
        value, low, high = (row[name] for name in ESTIMATE)
        look = LOOKS.get(row["finding"], "noise") if row["rank"] else "noise"
        was = earlier.get(row["group"])
        rows.append(
            ForestRow(str(row["label"]), value, low, high, look, was, row["finding"])
        )
    ends = [
        float(end)
        for row in rows
        for end in (row.value, row.low, row.high, row.before)
        if known(end)
    ]
    description = (
        "Dot: O/E ratio. Line: its 95 % CI. Coloured: off, and named by the verdict."
    )
    description += "" if before is None else " Ring: before the correction."
    return Forest(
        "ratios", "", description, ratio_axis(ends), rows, ends=SIDES, note=chosen.said
    )


def before_after(c: Comparison, groups: Any = None) -> Chart:
    """O/E ratio of each group under every score, with 95 % confidence intervals."""
    chosen = chosen_groups(c.audits[c.base], groups)
    tables = [
        a.groups.set_index("group", drop=False).loc[chosen.names]
        for a in c.audits.values()
    ]
    if all(table[RATIO].isna().all() for table in tables):
        return NO_RATIO
    step = min(0.26, 0.7 / len(tables))
    ends = np.concatenate(
        [table[ESTIMATE].to_numpy(dtype=np.float64).ravel() for table in tables]
    )
    x = ratio_axis(ends[np.isfinite(ends)])
    y = row_axis(chosen.labels)
    few = np.any([table[RATIO].isna() for table in tables], axis=0)
    marks = [
        Mark("rows", "shade", y=range(1, len(chosen.rows), 2)),
        Mark("rows", "hatch", y=np.flatnonzero(tables[0][RATIO].isna())),
        Mark("line", "guide", [1.0, 1.0], [y.low, y.high]),
    ]
    for i, (name, table) in enumerate(zip(c.audits, tables)):
        look = "grey dot" if i == 0 else f"series-{i} solid"
        value, low, high = table[ESTIMATE].to_numpy(dtype=np.float64).T
        place = np.arange(len(table)) + step * (i - (len(tables) - 1) / 2)
        sure = table["finding"].isin(WRONG).to_numpy()
        there = np.isfinite(value)
        known_ends = np.isfinite(low) & np.isfinite(high) & there
        marks.append(
            Mark("ranges", look, low[known_ends], place[known_ends], high[known_ends])
        )
        for row in np.flatnonzero(there):
            fill = look if sure[row] else f"{look} hollow"
            marks.append(Mark("points", fill, [value[row]], [place[row]]))
        marks.append(Mark("line", f"{look} keyed", name=name))
    marks += [
        Mark("points", "grey", name="filled: more than chance explains"),
        Mark("points", "grey hollow", name="hollow: could be chance, or not tested"),
        INTERVAL_KEY,
        *([FEW_KEY] if few.any() else []),
    ]
    height = round(max(29, 12 * len(tables)) * len(chosen.rows))
    description = "O/E ratio of each group under every score."
    return Plot(
        "before-after",
        "",
        description,
        x,
        y,
        marks,
        height=height,
        ends=SIDES,
        note=chosen.said,
    )


def _each(
    chosen: Chosen, table: pd.DataFrame
) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Name, label, look and numbers of each group; everybody is a black line."""
    others = 0
    for name, label in zip(chosen.names, chosen.labels):
        look = "all-line" if name == EVERYBODY.name else f"series-{others}"
        others += name != EVERYBODY.name
        yield name, label, look, table[table["group"] == name]


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
    for name, label, look, curve in _each(chosen, a.curves.reindex(columns=CURVE)):
        points = a.categories[
            (a.categories["group"] == name) & a.categories["eligible"]
        ]
        # a score of 0 or 1 that many people have is a point by itself
        certain = curve["score"].isin([0.0, 1.0]) & (len(curve) > 1)
        rows = curve[~certain]
        ends = curve[certain]
        marks.append(
            Mark(
                "points", f"{look} diamond hollow", ends["score"], ends["outcome_rate"]
            )
        )
        if len(rows) > 1:
            marks.append(Mark("band", look, rows["score"], rows["low"], rows["high"]))
            marks.append(
                Mark(
                    "line",
                    f"{look} keyed",
                    rows["score"],
                    rows["outcome_rate"],
                    name=label,
                )
            )
        elif len(rows) and points.empty:  # all scores are equal
            marks.append(
                Mark(
                    "points",
                    f"{look} hollow",
                    rows["score"],
                    rows["outcome_rate"],
                    name=label,
                )
            )
        elif len(points):
            marks.append(Mark("line", f"{look} keyed", name=label))
        else:
            enough = chosen.rows.loc[chosen.rows["group"] == name, RATIO].notna().any()
            marks.append(_missing(label, "no curve" if enough else "not enough data"))
        sure = points["finding"].isin(WRONG)
        for part, fill in ((points[sure], look), (points[~sure], f"{look} hollow")):
            marks.append(Mark("points", fill, part["mean_score"], part["outcome_rate"]))
    if (a.categories["finding"] == UNTESTED).any():
        otherwise = "not tested"
    else:
        otherwise = "could be chance"
    drawn = [
        np.asarray([mark.x, mark.y, mark.high if len(mark.high) else mark.y])
        for mark in marks
    ]
    most = float(np.nanmax([0.0, *np.concatenate([part.ravel() for part in drawn])]))
    # earlier if everything is rare
    if most > 0.6 or most <= 0:
        end = 1.0
    else:
        end = 1.1 * most
    marks += [
        Mark("points", "grey", name="risk range: more than chance explains"),
        Mark("points", "grey hollow", name=f"risk range: {otherwise}"),
        Mark(
            "line",
            "guide",
            [0.0, 1.0],
            [0.0, 1.0],
            name="a perfect score; bands: 95 % CI",
        ),
    ]
    x = Axis("predicted risk", 0.0, end)
    y = Axis("observed rate", 0.0, end)
    description = "Observed rate by predicted risk, with 95 % bands."
    return Plot(
        "calibration",
        "",
        description,
        x,
        y,
        marks,
        480,
        480,
        ends=SIDES,
        note=chosen.said,
    )


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
    for _, label, look, rows in _each(chosen, a.net_benefit):
        if rows.empty:
            marks.append(_missing(label))
            continue
        x = rows["threshold"].to_numpy()
        benefit = 100 * rows["net_benefit"].to_numpy()
        low, high, everybody = (
            100 * rows[name].to_numpy() for name in ("low", "high", "treat_all")
        )
        marks += [
            Mark("band", look, x, low, high),
            Mark("line", f"{look} marked", x, benefit, name=label),
            Mark("line", f"{look} dotted", x, everybody),
        ]
        top = max(top, float(np.nanmax(np.append(benefit, everybody))))
        bottom = min(bottom, float(np.nanmin(benefit)))
        useful = x[
            (np.maximum(benefit, everybody) > 0.02 * top)
            | (rows["treated"].to_numpy() > 0.01)
        ]
        reach = max(reach, float(useful.max(initial=0.0)))
    marks += [
        Mark("line", "grey dotted", name="everybody in the same group is acted on"),
        Mark(
            "line",
            "guide",
            [0.0, 1.0],
            [0.0, 0.0],
            name="nobody is acted on; bands: 95 % CI",
        ),
    ]
    top = top or 5.0
    across = Axis(
        "threshold: act on people with scores ≥ this",
        0.0,
        min(1.0, reach + 0.03) if reach else 1.0,
    )
    up = Axis(
        "net benefit per 100 people", max(1.1 * bottom, -top) - 0.05 * top, 1.05 * top
    )
    description = "Net benefit by threshold, with 95 % bands."
    return Plot(
        "decision", "", description, across, up, marks, 640, 400, note=chosen.said
    )


def distribution(a: Audit, groups: Any = None) -> Chart:
    """How the scores of each group are spread, in twentieths."""
    chosen = chosen_groups(a, groups, MOST_LINES, measured=True, by_ratio=False)
    if a.distribution.empty:
        return NOBODY
    marks = []
    top = 0.0
    for _, label, look, rows in _each(chosen, a.distribution):
        people = rows["people"].to_numpy(dtype=np.float64)
        if not people.sum():
            marks.append(_missing(label))
            continue
        share = 100 * people / people.sum()
        marks.append(
            Mark("steps", look, np.append(rows["score_from"], 1.0), share, name=label)
        )
        top = max(top, float(share.max()))
    x = Axis("risk score, in steps of 0.05", 0.0, 1.0)
    y = Axis("people of the group, %", 0.0, 1.06 * top or 1.0)
    description = "Share of people by score."
    return Plot(
        "distribution", "", description, x, y, marks, 640, 352, note=chosen.said
    )


def dc(a: Audit, groups: Any = None) -> Chart:
    """In each bin, how far apart the outcome rates of groups are; the two furthest
    apart are named.
    """
    if groups is not None:
        names = named_groups(a.groups, groups).names
        a = replace(a, categories=a.categories[a.categories["group"].isin(names)])
    table = dc_by_bin(a)
    members = [rows[rows["eligible"]] for _, rows in in_bins(a)]
    known = table.index[table["dc"].notna()].tolist()
    if not known:
        return "No risk range has two groups with enough data to compare."
    drawn = sorted(sorted(known, key=lambda j: -float(table["dc"][j]))[:MOST_BINS])
    rho = float(a.settings["rho"])
    shown = table.loc[drawn]
    rates = np.maximum(
        shown[["lowest_rate", "highest_rate"]].to_numpy(dtype=np.float64), rho
    )
    x = _rate_axis(float(rates.min()), float(rates.max()))
    bins = [(float(y), str(name)) for y, name in enumerate(shown["bin"])]
    rows = Axis("predicted risk", -0.35, len(drawn) - 0.15, bins, rows=True)
    marks = [
        Mark("line", "shade", [x.low, x.high], [y - 0.28] * 2)
        for y in range(1, len(drawn))
    ]
    for y, (row, (low, high)) in enumerate(zip(shown.to_dict("records"), rates)):
        sure = row["low"] > 0
        fill, bold = ("", " bold") if sure else (" hollow", "")
        every = np.maximum(
            members[drawn[y]]["outcome_rate"].to_numpy(dtype=np.float64), rho
        )
        highest, lowest = (
            a.labels.get(row[name], str(row[name])) for name in ("highest", "lowest")
        )
        marks += [
            Mark("ranges", "heavy" if sure else "grey dashed", [low], [y], [high]),
            Mark("points", "grey stroke", every, np.full(len(every), y)),
            Mark("points", f"rightmost{fill}", [high], [y]),
            Mark("points", f"leftmost{fill}", [low], [y]),
            Mark("texts", "rightmost", [x.low], [y + 0.55], names=[f"▶ {highest}"]),
            Mark("texts", "leftmost", [x.low], [y + 0.28], names=[f"◀ {lowest}"]),
            Mark(
                "texts",
                f"flush{bold}",
                [x.high],
                [y + 0.42],
                names=[f"DC {IN_TEXT.decimal(row['dc'])}"],
            ),
        ]
    if table["low"].notna().any():
        otherwise = "could be chance"
    else:
        otherwise = "not tested"
    marks += [
        Mark("line", "heavy", name="further apart than chance explains"),
        Mark("line", "grey dashed", name=otherwise),
        Mark("points", "grey stroke", name="each group with enough data"),
    ]
    floored = rho if rho > table["lowest_rate"].min() else 0.0
    by_chance = a.losses["floor_95"]["dc"] if groups is None else np.nan
    ranges = RangesShown(len(drawn), len(known), len(table))
    note = dc_lines(floored, by_chance, ranges)
    height = 47 * len(drawn)
    description = "The groups whose rates differ most, by predicted risk."
    return Plot(
        "dc", "", description, x, rows, marks, height=height, note="\n".join(note)
    )


def _rate_axis(low: float, high: float) -> Axis:
    """A log axis of rates, marked in per cent."""
    low, high = (
        (low / 1.1, high * 1.1) if high > low * 1.05 else (low / 1.5, high * 1.5)
    )
    marks: list[float] = []
    for steps in (
        (10, 20, 30, 50),
        range(10, 100, 10),
        range(10, 100, 5),
        range(10, 100),
    ):
        every = (step * 10.0**power for power in range(-7, 2) for step in steps)
        marks = [mark for mark in every if 100 * low <= mark <= 100 * high]
        if len(marks) > 2:
            break
    ticks = [(mark / 100, f"{mark:g}") for mark in marks[:: 1 + len(marks) // 9]]
    return Axis("observed rate, % (log scale)", low, high, ticks, log=True)


def heatmap(a: Audit, groups: Any = None) -> Chart:
    """The gap of every cell, a group within a range of scores."""
    wrong = a.categories.loc[a.categories["finding"].isin(WRONG), "group"]
    with_cells = replace(
        a, groups=a.groups[a.groups["group"].isin(a.categories["group"])]
    )
    chosen = chosen_groups(a if groups is not None else with_cells, groups, first=wrong)
    ranges, by_group = heat_rows(a)
    cells = dict(by_group)
    drawn: dict[str, list[tuple[int, int, str]]] = {}
    for y, label in enumerate(chosen.labels):
        for j, cell in enumerate(cells.get(label, [])):
            drawn.setdefault(cell["look"], []).append((j, y, cell["text"]))
    if not {*drawn} - {"few", "nobody"}:
        return "No cell has enough data to judge."
    marks = []
    keys = all_words("heat_keys")
    for look, places in sorted(
        drawn.items(), reverse=True
    ):  # the darkest of each side is in the key
        x, row = (np.array([place[i] for place in places]) for i in (0, 1))
        key = keys.pop(look.split()[0], "")
        marks.append(
            Mark("cells", look, x, row, x + 1, [text for *_, text in places], name=key)
        )
    every = -(-len(ranges) // 5)
    ticks = [(float(j), f"{edge:.2g}") for j, edge in enumerate(a.settings["edges"])][
        ::every
    ]
    axis = Axis(
        "predicted risk\n(in cells: gap in\npercentage points)", 0, len(ranges), ticks
    )
    height = 29 * len(chosen.labels)
    rows = row_axis(chosen.labels)
    return Plot(
        "heat",
        "",
        "The gap of every cell.",
        axis,
        rows,
        marks,
        height=height,
        note=chosen.said,
    )


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


@dataclass(frozen=True, eq=False)
class Chosen:
    """Rows of the audit's groups in the order of the picture, and a line on those that
    are not in it.
    """

    rows: pd.DataFrame
    said: str

    @property
    def names(self) -> list[str]:
        """Their names in the tables."""
        return [str(name) for name in self.rows["group"]]

    @property
    def labels(self) -> list[str]:
        """What people call them."""
        return [str(label) for label in self.rows["label"]]


def unknown(what: str, name: object, known: Sequence[str]) -> InputError:
    """The error of a name that does not exist: what there is, and what comes close."""
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    if len(known) > MOST_LISTED:
        more = f" and {len(known) - MOST_LISTED:,} more"
    else:
        more = ""
    problem = (
        f"there is no {what} {name!r}; there are {list(known[:MOST_LISTED])}{more}."
    )
    return InputError(
        problem, next_step=f"Did you mean {near[0]!r}?" if near else None, between=" "
    )


def named_groups(table: pd.DataFrame, groups: Any) -> Chosen:
    """The rows of the groups that the user names or labels, in that order."""
    wanted = [groups] if isinstance(groups, str) else list(groups)
    if not wanted:
        raise refused("no groups to draw")
    known = [str(name) for name in table["group"]]
    called = {str(label): i for i, label in enumerate(table["label"])}
    called |= {name: i for i, name in enumerate(known)}
    for name in wanted:
        if name not in called:
            raise unknown("group", name, known)
    return Chosen(table.iloc[[called[name] for name in wanted]], "")


def chosen_groups(
    a: Audit,
    groups: Any = None,
    most: int = MOST_ROWS,
    *,
    first: Iterable[str] = (),
    measured: bool = False,
    by_ratio: bool = True,
) -> Chosen:
    """Everybody, and the groups that a picture has room for, by O/E ratio or by
    concern.

    Groups that the verdict names, or `first`, come before others that are off, and
    these before the largest.
    """
    if groups is not None:
        return named_groups(a.groups, groups)
    everybody = a.groups["group"] == EVERYBODY.name
    others = a.groups[a.groups["kept"].astype(bool) & ~everybody]
    there = others[others[RATIO].notna()] if measured else others
    named = there["rank"] > 0
    off = there["finding"].isin(WRONG)
    rank = np.where(
        named,
        there["rank"],
        np.where(there["group"].isin(list(first)), len(a.groups), np.inf),
    )
    order = there.assign(concern=rank, off=off).sort_values(
        ["concern", "off", "share"], ascending=[True, False, False], kind="stable"
    )
    kept = order.head(most)
    if by_ratio:
        kept = kept.sort_values(RATIO, kind="stable", na_position="last")
    note = chosen_groups_note(
        len(kept), len(others), len(there), verdict_names_some=bool(named.any())
    )
    return Chosen(a.groups.loc[[*a.groups.index[everybody], *kept.index]], note)
