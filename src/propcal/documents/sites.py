"""What was found across sites: verdict, forest and funnel pictures, and tables."""

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
from propcal.documents.sentences.claim_lists import of_kind
from propcal.documents.words import all_words, table, words
from propcal.monitoring.held_out import Travel
from propcal.numbers import ON_PAGE, excludes_one, known, without_limits
from propcal.sites.compare_sites import Sites
from propcal.sites.site_findings import ALL_SITES, TOO_SMALL
from propcal.sites.site_measures import SCALES

PREDICTION = ["prediction_low", "prediction_high"]
DEFINITION = (
    "O/E: observed over expected events; below 1 the score predicts too high, above 1 "
    "too low."
)
SUBGROUPS = "Subgroups were not tested here; use propcal audit."
IN_SUMMARY = (
    ", the mean over sites, and the interval in which 95 % of new sites are expected"
)
BEFORE_AND_AFTER = (
    "O/E ratio of each site, before and after a correction that was fitted on the "
    "other sites."
)
FEWEST_IN_FUNNEL = 3  # sites


def sites_document(sites: Sites, title: str | None = None) -> Document:
    """The document of a comparison of sites."""
    names = sites.identity
    standard_title = names.score or f"Risk score at {len(sites.sites)} sites"
    about = named_texts(
        Score=names.score,
        Outcome=names.outcome,
        Source=names.source,
        Period=names.period,
    )
    steps = Items("", wording.next_steps(sites))
    blocks: list[Block] = [
        _verdict(sites, SUBGROUPS),
        Section("next", "What to do next", [steps], places=At.PAGE),
        Section("sites", "Measures of each site", _measures(sites)),
    ]
    return Document(
        brand="Comparison of sites",
        title=title or names.title or standard_title,
        about=about,
        blocks=blocks,
    )


def sites_section(sites: Sites) -> Section:
    """Sites as a part of the report of an audit."""
    blocks = [_verdict(sites), *_measures(sites)]
    return Section("sites", "Sites", blocks, link="Sites", places=At.PAGE)


def _verdict(sites: Sites, untested: str = "") -> VerdictBlock:
    """Without a tick: that sites do not differ does not show that the score is right at
    any of them.
    """
    tone = "few"
    if sites.claims:
        tone = "wrong"
    texts = [*sites.sentences]
    if untested and sites.conclusion == NONE_FOUND:
        texts.append(untested)
    return VerdictBlock(tone, sites.headline, texts, "Sites", DEFINITION)


def _measures(sites: Sites) -> list[Block]:
    """Pictures in pairs, and the tables behind them."""
    pictures: list[Block] = []
    for name in SCALES:
        values = without_limits(sites.sites[name])
        if name != "intercept" and np.isfinite(values).any():
            pictures.append(_forest(sites, name))
    pictures += _funnel(sites)
    pairs = [Beside(pictures[i : i + 2], even=True) for i in range(0, len(pictures), 2)]
    return [
        *pairs,
        _table(sites),
        *_summary(sites),
        *_travel(sites),
        Items("Notes", sites.notes),
    ]


def _table(sites: Sites) -> Table:
    """Every site that is judged, below all sites together."""
    rows = [*_pooled_rows(sites), *row_dicts(sites.sites[~sites.small])]
    unadjusted = False
    for row in rows:
        if row["finding"] == CHANCE and excludes_one(*_estimate(row, RATIO)[1:]):
            row["finding"] = f"{CHANCE} +"
            unadjusted = True

    measures = []
    for name in [*SCALES][1:]:
        heading = SCALES[name].name.removeprefix("Calibration ")
        digits = SCALES[name].digits
        measures += estimate_columns(name, heading, digits, places=At.PAGE)
    names = sites.identity
    small = ""
    if sites.small.any():
        small = names.worded(TOO_SMALL)
    texts = {"unit": names.unit, "unadjusted": unadjusted, "small": small}
    return table("each-site", rows, measures=measures, **texts)


def _pooled_rows(sites: Sites) -> list[dict[str, Any]]:
    """All sites together, with the finding on them, and small sites together."""
    n_small = int(sites.small.sum())
    small = "1 small site"
    if n_small > 1:
        small = f"{n_small:,} small sites together"
    overall = of_kind(sites.claims, "overall")
    if overall:
        finding = overall[0].direction
    elif sites.conclusion == NOT_ENOUGH:
        finding = NOT_ENOUGH
    else:
        finding = CHANCE

    rows: list[dict[str, Any]] = []
    for name, numbers in sites.pooled.iterrows():
        row: dict[str, Any] = dict.fromkeys(sites.sites.columns, np.nan)
        row |= dict(numbers)
        row["site"] = small
        if name == ALL_SITES:
            row["site"] = "All sites together"
        row["finding"] = ""
        if not rows:
            row["finding"] = finding
        rows.append(row)
    return rows


def _summary(sites: Sites) -> list[Block]:
    rows = row_dicts(sites.summary.rename_axis("measure").reset_index())
    for row in rows:
        scale = SCALES[row["measure"]]
        row["name"] = scale.name
        row["digits"] = scale.digits
        row["tau2"] = f"{row['tau2']:.4f}"
    if rows:
        return [table("summary", rows)]
    return []


def _forest(sites: Sites, name: str) -> Forest:
    """A measure of each site, between the mean over sites and a new site."""
    scale = SCALES[name]
    rows = []
    for row in row_dicts(sites.sites[~sites.small]):
        look = "noise"
        if name == RATIO and row["finding"] in (TOO_HIGH, TOO_LOW):
            look = LOOKS[row["finding"]]
        rows.append(_forest_row(row["site"], _estimate(row, name), scale.digits, look))

    description = f"{scale.name} of each site with its 95 % confidence interval"
    if name in sites.summary.index:
        summary = sites.summary.loc[name]
        mean = [summary[column] for column in ("mean", "low", "high")]
        new_site = [np.nan, *(summary[column] for column in PREDICTION)]
        first = _forest_row("Mean over sites (95 % CI)", mean, scale.digits)
        last = _forest_row("New site (95 % prediction)", new_site, scale.digits)
        rows = [first, *rows, last]
        description += IN_SUMMARY
    meaning = all_words("measures_of_sites").get(name, "")
    description = f"{description}. {meaning}".strip()
    axis = _forest_axis(rows, scale)
    ends = SIDES if name == RATIO else ("", "")
    key = f"forest-{name}"
    return Forest(key, scale.name, description, axis, rows, scale.right, ends)


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
    ends = []
    for row in rows:
        ends += [row.low, row.high, row.value]
    if scale is SCALES[RATIO]:
        return ratio_axis(ends)
    return axis_around([*ends, scale.right], scale.name)


def _funnel(sites: Sites) -> list[Block]:
    """Log O/E of each site against its standard error, with the lines between which 95
    % lie by chance.
    """
    shown = sites.sites[~sites.small]
    value = np.array(without_limits(shown[RATIO]))
    error = shown[f"{RATIO}_error"].to_numpy(dtype=np.float64)
    there = np.isfinite(value) & np.isfinite(error) & (value > 0)
    if there.sum() < FEWEST_IN_FUNNEL or RATIO not in sites.summary.index:
        return []

    mean = float(sites.summary["mean"].to_dict()[RATIO])
    largest_error = float(error[there].max()) * 1.1
    by_chance = 1.96 * largest_error
    furthest = float(np.abs(np.log(value[there] / mean)).max()) * 1.1
    side = np.exp(by_chance)
    reach = np.exp(max(by_chance, furthest))
    x = round_axis("O/E ratio", mean / reach, mean * reach, log=True)
    y = round_axis("standard error (log O/E)", largest_error, 0.0, most=4)

    lines = [mean / side, mean, mean * side]
    names = shown["site"][there].tolist()
    marks = [
        Mark("line", "guide", lines, [largest_error, 0.0, largest_error]),
        Mark("line", "all-thin", [mean, mean], [0.0, largest_error]),
        Mark("points", "all-line", value[there], error[there], names=names),
    ]
    heading = "Funnel plot: sites by their precision"
    description = words("pictures", "funnel")
    return [Plot("funnel", heading, description, x, y, marks, 500, 256)]


def _travel(sites: Sites) -> list[Block]:
    """What a correction does that was fitted on the other sites, if that was asked."""
    if sites.travel is None:
        return []
    rows = row_dicts(sites.travel.table)
    bars = []
    digits = SCALES[RATIO].digits
    for row in rows:
        row["finding"] = travel_wording.finding(row)
        before = _estimate(row, f"{RATIO}_before")
        after = _estimate(row, f"{RATIO}_after")
        bars.append(_forest_row(row["site"], before, digits))
        bars.append(_forest_row("after correction", after, digits))
    found = table("travel", rows)
    if not any(known(bar.value) for bar in bars):
        return [found]
    heading = "O/E ratio before and after"
    axis = _forest_axis(bars, SCALES[RATIO])
    return [Forest("forest-travel", heading, BEFORE_AND_AFTER, axis, bars), found]


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
