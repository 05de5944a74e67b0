"""What was found across sites as a section of a page: verdict, forest and funnel pictures, and tables."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from propcal.auditing.finding_names import HEADLINES, TOO_HIGH, TOO_LOW
from propcal.disclosure.protected_sites import protected_sites
from propcal.numbers import ON_PAGE, without_limits
from propcal.output.page_file import FRAME, REPORT, filled, whole_page, write_page
from propcal.output.report.svg import Axis, Tick, path, round_steps
from propcal.sites.site_measures import SCALES
from propcal.sites.travel import finding_text

if TYPE_CHECKING:
    from propcal.sites.site_measures import Sites

PACKAGE = "propcal.output.sites"
LEFT, RIGHT, ROW = 190, 560, 22  # of a forest picture
LOOKS = {TOO_HIGH: "high", TOO_LOW: "low"}
MEANING = {
    "observed_expected": " Below 1 the score predicts too high, above 1 too low.",
    "slope": " Below 1 the predictions are too extreme, above 1 not extreme enough.",
}


@dataclass(frozen=True)
class SiteMark:
    """A row of a forest: a name, a line from `low` to `high`, and a point."""

    name: str
    y: float
    low: str
    high: str
    point: str
    told: str
    look: str = "site"


@dataclass(frozen=True)
class SiteForest:
    """A forest picture as data."""

    key: str
    heading: str
    description: str
    height: int
    right: str
    ticks: list[Tick]
    marks: list[SiteMark]


def sites_section(found: Sites, *, suppress: int = 11, alone: bool = False) -> Markup:
    """The section, to stand in any page with the look of the report, or `alone` on its own page."""
    shown = protected_sites(found, suppress)
    return filled(
        PACKAGE,
        "sites.html",
        tone=HEADLINES[shown.conclusion].tone,
        sentences=shown.sentences,
        notes=shown.notes,
        alone=alone,
        forests=[
            _forest(shown, name)
            for name in ("observed_expected", "slope", "auroc")
            if np.isfinite(without_limits(shown.sites[name])).any()
        ],
        funnel=_funnel(shown),
        rows=[_row(row) for _, row in shown.sites.iterrows()],
        summary=[_summary_row(str(name), row) for name, row in shown.summary.iterrows()],
        travel=None
        if shown.travel is None
        else [_travel_row(row) for _, row in shown.travel.table.iterrows()],
        travels=None if shown.travel is None else _travel_forest(shown),
        unit=shown.identity.unit,
    )


def with_sites(page: str, found: Sites, *, suppress: int) -> str:
    """The report of an audit with the sites: in its verdict, its menu, and as its last section."""
    first = protected_sites(found, suppress).sentences[0]
    verdict = Markup('<p class="said"><a href="#sites">Sites</a>: <bdi>{}</bdi></p>').format(first)
    added = {
        "</section>": verdict,  # the first section is the verdict
        "</ul></nav>": Markup('<li><a href="#sites">Sites</a></li>'),
        "</main>": sites_section(found, suppress=suppress),
    }
    for end, part in added.items():
        page = page.replace(end, f"{part}{end}", 1)
    return page


def write_sites_page(
    found: Sites, target: str | PathLike[str] | None, *, suppress: int = 11, title: str | None = None
) -> str:
    """The section as a page of its own."""
    names = found.identity
    about = [
        ("Score", names.score),
        ("Outcome", names.outcome),
        ("Source", names.source),
        ("Period", names.period),
    ]
    page = whole_page(
        REPORT,
        FRAME,
        brand="Comparison of sites",
        title=title or names.title or names.score or f"Risk score at {len(found.sites)} sites",
        about=[(name, text) for name, text in about if text],
        section=sites_section(found, suppress=suppress, alone=True),
    )
    return write_page(page, target)


def _forest(found: Sites, name: str) -> SiteForest:
    scale, table = SCALES[name], found.sites
    row: Any = found.summary.loc[name] if name in found.summary.index else None
    ends = [table[f"{name}_low"], table[f"{name}_high"]]
    if row is not None:
        ends.append(row[["low", "high", "prediction_low", "prediction_high"]])
    axis = _axis(scale, [float(x) for part in ends for x in np.asarray(part, dtype=np.float64)], scale.right)
    marks = [
        _mark(str(site), scale, axis, i, value, low, high)
        for i, (site, value, low, high) in enumerate(
            zip(table["site"], without_limits(table[name]), table[f"{name}_low"], table[f"{name}_high"])
        )
    ]
    told = f"{scale.name} of each site with its 95 % confidence interval"
    if row is not None:
        n, ends_of_new = len(marks), (row["prediction_low"], row["prediction_high"])
        mean = row["mean"], row["low"], row["high"]
        marks.append(_mark("All sites (mean, 95 % CI)", scale, axis, n, *mean, "all"))
        marks.append(_mark("New site (95 % prediction)", scale, axis, n + 1, np.nan, *ends_of_new, "new"))
        told += ", the mean over sites, and the interval in which 95 % of new sites are expected"
    return SiteForest(
        name,
        scale.name,
        f"{told}.{MEANING.get(name, '')}",
        ROW * len(marks) + 30,
        f"{float(axis(scale.there(scale.right))):.1f}",
        _ticks(scale, axis),
        marks,
    )


def _axis(scale: Any, values: list[float], right: float) -> Axis:
    with np.errstate(all="ignore"):
        known = [float(scale.there(v)) for v in values if np.isfinite(v) and np.isfinite(scale.there(v))]
    known.append(float(scale.there(right)))
    low, high = min(known), max(known)
    margin = 0.05 * max(high - low, 0.1)
    return Axis(low - margin, high + margin, LEFT, RIGHT)


def _ticks(scale: Any, axis: Axis) -> list[Tick]:
    values, digits = round_steps(float(scale.back(axis.low)), float(scale.back(axis.high)), 5)
    return [
        Tick(f"{float(axis(scale.there(v))):.1f}", ON_PAGE.decimal(v, digits))
        for v in values
        if np.isfinite(scale.there(v)) and axis.low <= scale.there(v) <= axis.high
    ]


def _mark(
    name: str, scale: Any, axis: Axis, i: int, value: float, low: float, high: float, look: str = "site"
) -> SiteMark:
    def place(x: float) -> str:
        with np.errstate(all="ignore"):
            at = float(np.clip(axis(scale.there(x)), LEFT, RIGHT)) if np.isfinite(x) else float("nan")
        return f"{at:.1f}" if np.isfinite(at) else ""

    told = (
        f"{ON_PAGE.decimal(value)} ({ON_PAGE.interval(low, high)})"
        if np.isfinite(value)
        else ON_PAGE.interval(low, high)
    )
    return SiteMark(name, ROW * i + 16, place(low), place(high), place(value), told, look)


def _funnel(found: Sites) -> dict[str, Any] | None:
    """Log O/E of each site against its standard error, with the lines between which 95 % lie by chance."""
    table = found.sites
    value = SCALES["observed_expected"].there(np.array(without_limits(table["observed_expected"])))
    error = table["observed_expected_error"].to_numpy(dtype=np.float64)
    known = np.isfinite(value) & np.isfinite(error)
    if known.sum() < 3 or "observed_expected" not in found.summary.index:
        return None
    mean = float(np.log(found.summary["mean"].to_dict()["observed_expected"]))
    most = float(error[known].max()) * 1.1
    reach = max(1.96 * most, float(np.abs(value[known] - mean).max()) * 1.1)
    x, y = Axis(mean - reach, mean + reach, 60, 480), Axis(0.0, most, 20, 220)
    steps, digits = round_steps(float(np.exp(x.low)), float(np.exp(x.high)), 5)
    levels, n = round_steps(0.0, most, 4)
    return {
        "points": [
            (f"{float(x(v)):.1f}", f"{float(y(e)):.1f}", s)
            for v, e, s in zip(value[known], error[known], table["site"][known])
        ],
        "lines": path(x([mean - 1.96 * most, mean, mean + 1.96 * most]), y([most, 0, most])),
        "middle": f"{float(x(mean)):.1f}",
        "ticks": [Tick(f"{float(x(np.log(v))):.1f}", ON_PAGE.decimal(v, digits)) for v in steps if v > 0],
        "errors": [Tick(f"{float(y(v)):.1f}", ON_PAGE.decimal(v, n)) for v in levels],
    }


def _row(row: Any) -> dict[str, str]:
    made = {
        "name": row["site"],
        "people": ON_PAGE.count(row["people"]),
        "events": ON_PAGE.count(row["positives"]),
        "finding": row["finding"],
        "look": LOOKS.get(row["finding"], ""),
    }
    for name in SCALES:
        made[name] = ON_PAGE.decimal(row[name])
        made[f"{name}_interval"] = ON_PAGE.interval(row[f"{name}_low"], row[f"{name}_high"])
    return made


def _summary_row(name: str, row: Any) -> dict[str, str]:
    return {
        "name": SCALES[name].name,
        "mean": ON_PAGE.decimal(row["mean"]),
        "interval": ON_PAGE.interval(row["low"], row["high"]),
        "prediction": ON_PAGE.interval(row["prediction_low"], row["prediction_high"]),
        "tau2": ON_PAGE.decimal(row["tau2"], 4),
        "i2": f"{100 * row['i2']:.0f} %" if row["i2"] == row["i2"] else ON_PAGE.unknown,
    }


def _travel_row(row: Any) -> dict[str, str]:
    return {
        "name": row["site"],
        "before": ON_PAGE.decimal(row["observed_expected_before"]),
        "after": ON_PAGE.decimal(row["observed_expected_after"]),
        "change": ON_PAGE.decimal(row["change"], 4, "+") if row["change"] == row["change"] else "suppressed",
        "interval": ON_PAGE.interval(row["change_low"], row["change_high"], 4, "+"),
        "finding": finding_text(row),
    }


def _travel_forest(found: Sites) -> SiteForest:
    """O/E ratio of each site before and after the correction."""
    assert found.travel is not None
    scale, table = SCALES["observed_expected"], found.travel.table
    names = [f"observed_expected_{when}" for when in ("before", "after")]
    axis = _axis(
        scale, [float(x) for n in names for end in ("_low", "_high") for x in table[f"{n}{end}"]], 1.0
    )
    marks = []
    for i, (_, row) in enumerate(table.iterrows()):
        for j, (name, look) in enumerate(zip(names, ("site", "after"))):
            label = str(row["site"]) if not j else "after correction"
            value, low, high = without_limits(row[[name, f"{name}_low", f"{name}_high"]])
            marks.append(_mark(label, scale, axis, 2 * i + j, value, low, high, look))
    return SiteForest(
        "travel",
        "O/E ratio before and after",
        "O/E ratio of each site, before and after a correction that was fitted on the other sites.",
        ROW * len(marks) + 30,
        f"{float(axis(0.0)):.1f}",
        _ticks(scale, axis),
        marks,
    )
