"""What was found across sites: sentences from claims, forest and funnel pictures, and
tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from propcal.auditing.audit_tables import ENDS, row_dicts
from propcal.auditing.names import CHANCE, NONE_FOUND, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.documents.blocks import (
    RATIO,
    At,
    Beside,
    Block,
    Document,
    Items,
    Section,
    Table,
    VerdictBlock,
    estimate_columns,
    named_texts,
)
from propcal.documents.charts import (
    LOOKS,
    SIDES,
    Axis,
    Forest,
    ForestRow,
    Mark,
    Plot,
    axis_around,
    ratio_axis,
    round_axis,
)
from propcal.documents.sentences import sites as wording
from propcal.documents.sentences import travel as travel_wording
from propcal.documents.words import all_words, table, words
from propcal.monitoring.held_out import Travel
from propcal.numbers import ON_PAGE, excludes_one, known, without_limits
from propcal.sites.compare_sites import Sites
from propcal.sites.site_findings import ALL_SITES, TOO_SMALL
from propcal.sites.site_measures import SCALES

PREDICTION = ["prediction_low", "prediction_high"]
DEFINITION = "O/E: observed over expected events; below 1 the score predicts too high, above 1 too low."
SUBGROUPS = "Subgroups were not tested here; use propcal audit."


def sites_document(sites: Sites, title: str | None = None) -> Document:
    """The document of a comparison of sites."""
    names = sites.identity
    steps = wording.next_steps(sites)
    return Document(
        brand="Comparison of sites",
        title=title
        or names.title
        or names.score
        or f"Risk score at {len(sites.sites)} sites",
        about=named_texts(
            Score=names.score,
            Outcome=names.outcome,
            Source=names.source,
            Period=names.period,
        ),
        blocks=[
            _verdict(sites, SUBGROUPS),
            Section("next", "What to do next", [Items("", steps)], places=At.PAGE),
            Section("sites", "Measures of each site", _measures(sites)),
        ],
    )


def sites_section(sites: Sites) -> Section:
    """Sites as a part of the report of an audit."""
    return Section(
        "sites",
        "Sites",
        [_verdict(sites), *_measures(sites)],
        link="Sites",
        places=At.PAGE,
    )


def _verdict(sites: Sites, untested: str = "") -> VerdictBlock:
    """Without a tick: that sites do not differ does not show that the score is right at
    any of them.
    """
    nothing = sites.conclusion == NONE_FOUND
    tone = "wrong" if sites.claims else "few"
    sentences = [*sites.sentences, *([untested] if untested and nothing else [])]
    return VerdictBlock(
        tone, sites.headline, sentences, subject="Sites", explanation=DEFINITION
    )


def _measures(sites: Sites) -> list[Block]:
    shown = [
        name
        for name in SCALES
        if name != "intercept" and np.isfinite(without_limits(sites.sites[name])).any()
    ]
    pictures: list[Block] = [*(_forest(sites, name) for name in shown), *_funnel(sites)]
    pairs = [Beside(pictures[i : i + 2], even=True) for i in range(0, len(pictures), 2)]
    return [
        *pairs,
        _table(sites),
        *_summary(sites),
        *_travel(sites),
        Items("Notes", sites.notes),
    ]


def _table(sites: Sites) -> Table:
    n = int(sites.small.sum())
    together = f"{n:,} small sites together" if n > 1 else "1 small site"
    rows = [
        dict.fromkeys(sites.sites.columns, np.nan)
        | dict(row)
        | {
            "site": "All sites together" if name == ALL_SITES else together,
            "finding": "",
        }
        for name, row in sites.pooled.iterrows()
    ]
    tested = CHANCE if sites.conclusion != NOT_ENOUGH else NOT_ENOUGH
    rows[0]["finding"] = next(
        (c.direction for c in sites.claims if c.kind == "overall"), tested
    )
    rows += row_dicts(sites.sites[~sites.small])
    chance = [row for row in rows if row["finding"] == CHANCE]
    unadjusted = [row for row in chance if excludes_one(*_estimate(row, RATIO)[1:])]
    for row in unadjusted:
        row["finding"] = f"{CHANCE} +"
    measures = []
    for name in [*SCALES][1:]:
        heading = SCALES[name].name.removeprefix("Calibration ")
        digits = SCALES[name].digits
        measures += estimate_columns(name, heading, digits, places=At.PAGE)
    names = sites.identity
    small = names.worded(TOO_SMALL) if sites.small.any() else ""
    texts = {"unit": names.unit, "unadjusted": unadjusted, "small": small}
    return table("each-site", rows, measures=measures, **texts)


def _summary(sites: Sites) -> list[Block]:
    rows = row_dicts(sites.summary.rename_axis("measure").reset_index())
    for row in rows:
        row |= {
            "name": SCALES[row["measure"]].name,
            "digits": SCALES[row["measure"]].digits,
        }
        row["tau2"] = f"{row['tau2']:.4f}"
    return [table("summary", rows)] if rows else []


def _forest(sites: Sites, name: str) -> Forest:
    scale = SCALES[name]
    rows = []
    for row in row_dicts(sites.sites[~sites.small]):
        wrong = name == RATIO and row["finding"] in (TOO_HIGH, TOO_LOW)
        look = LOOKS[row["finding"]] if wrong else "noise"
        rows.append(_forest_row(row["site"], _estimate(row, name), scale.digits, look))
    description = f"{scale.name} of each site with its 95 % confidence interval"
    meaning = all_words("measures_of_sites").get(name, "")
    if name in sites.summary.index:
        mean, low, high, *new = sites.summary.loc[
            name, ["mean", "low", "high", *PREDICTION]
        ]
        rows = [
            _forest_row("Mean over sites (95 % CI)", [mean, low, high], scale.digits),
            *rows,
        ]
        rows.append(
            _forest_row("New site (95 % prediction)", [np.nan, *new], scale.digits)
        )
        description += ", the mean over sites, and the interval in which 95 % of new sites are expected"
    description = f"{description}. {meaning}".strip()
    ends = SIDES if name == RATIO else ("", "")
    axis = _forest_axis(rows, scale)
    return Forest(
        f"forest-{name}", scale.name, description, axis, rows, scale.right, ends
    )


def _estimate(row: Mapping[str, Any], name: str) -> list[Any]:
    return [row[f"{name}{end}"] for end in ENDS]


def _forest_row(
    label: str, estimate: Sequence[Any], digits: int, look: str = "noise"
) -> ForestRow:
    value, low, high = estimate
    text = ON_PAGE.estimate(value, low, high, digits)
    value, low, high = without_limits(estimate)
    return ForestRow(str(label), value, low, high, look, text=text)


def _forest_axis(rows: Sequence[ForestRow], scale: Any) -> Axis:
    ends = [end for row in rows for end in (row.low, row.high, row.value)]
    if scale is SCALES[RATIO]:
        return ratio_axis(ends)
    return axis_around([*ends, scale.right], scale.name)


def _funnel(sites: Sites) -> list[Block]:
    """Log O/E of each site against its standard error, with the lines between which 95
    % lie by chance.
    """
    table = sites.sites[~sites.small]
    value = np.array(without_limits(table[RATIO]))
    error = table[f"{RATIO}_error"].to_numpy(dtype=np.float64)
    there = np.isfinite(value) & np.isfinite(error) & (value > 0)
    if there.sum() < 3 or RATIO not in sites.summary.index:
        return []
    mean = float(sites.summary["mean"].to_dict()[RATIO])
    most = float(error[there].max()) * 1.1
    reach = np.exp(
        max(1.96 * most, float(np.abs(np.log(value[there] / mean)).max()) * 1.1)
    )
    x = round_axis("O/E ratio", mean / reach, mean * reach, log=True)
    y = round_axis("standard error (log O/E)", most, 0.0, most=4)
    side = np.exp(1.96 * most)
    marks = [
        Mark("line", "guide", [mean / side, mean, mean * side], [most, 0.0, most]),
        Mark("line", "all-thin", [mean, mean], [0.0, most]),
        Mark(
            "points",
            "all-line",
            value[there],
            error[there],
            names=table["site"][there].tolist(),
        ),
    ]
    heading = "Funnel plot: sites by their precision"
    description = words("pictures", "funnel")
    return [Plot("funnel", heading, description, x, y, marks, 500, 256)]


def _travel(sites: Sites) -> list[Block]:
    if sites.travel is None:
        return []
    rows = [
        row | {"finding": travel_wording.finding(row)}
        for row in row_dicts(sites.travel.table)
    ]
    blocks: list[Block] = [table("travel", rows)]
    bars = []
    for row in rows:
        for label, when in ((row["site"], "before"), ("after correction", "after")):
            bars.append(
                _forest_row(
                    label, _estimate(row, f"{RATIO}_{when}"), SCALES[RATIO].digits
                )
            )
    if not any(known(bar.value) for bar in bars):
        return blocks
    heading = "O/E ratio before and after"
    description = "O/E ratio of each site, before and after a correction that was fitted on the other sites."
    axis = _forest_axis(bars, SCALES[RATIO])
    return [Forest("forest-travel", heading, description, axis, bars), *blocks]


def _ratio_summary(sites: Sites) -> Any:
    """O/E ratios over all sites, if they were summarised."""
    if RATIO not in sites.summary.index:
        return None
    return sites.summary.loc[RATIO].to_dict()


def headline(sites: Sites) -> str:
    """The verdict in a few words."""
    return wording.headline(sites, _ratio_summary(sites))


def site_sentences(sites: Sites) -> tuple[str, ...]:
    """What was found, in words, from claims; numbers may be limits."""
    pooled = sites.pooled.loc[ALL_SITES]
    return tuple(wording.site_sentences(sites, pooled, _ratio_summary(sites)))


def travel_sentence(travel: Travel) -> str:
    """Whether a correction transfers, in words."""
    return travel_wording.travel(row_dicts(travel.table), travel.pooled)
