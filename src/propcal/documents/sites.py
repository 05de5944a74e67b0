"""What was found across sites: the verdict, forest and funnel pictures, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.finding_names import HEADLINES, TOO_HIGH, TOO_LOW
from propcal.documents.blocks import (
    RATIO,
    At,
    Block,
    Column,
    Document,
    Items,
    Section,
    Table,
    Verdict,
    estimate_columns,
)
from propcal.documents.charts import (
    SIDES,
    Axis,
    Forest,
    ForestRow,
    Mark,
    Plot,
    axis_around,
    ratio_axis,
    round_steps,
)
from propcal.documents.data import plain_value, table_records
from propcal.documents.site_sentences import finding_text
from propcal.documents.words import words
from propcal.numbers import ON_PAGE, known, without_limits
from propcal.sites.site_claims import TOO_SMALL
from propcal.sites.site_measures import ALL_SITES, SCALES, Sites

SITES_FORMAT, SITES_VERSION = "propcal-sites", 2
MOST_SITES = 40
DEFINITION = "O/E: observed over expected events; below 1 the score predicts too high, above 1 too low."
LOOKS = {TOO_HIGH: "high", TOO_LOW: "low"}
MEANING = {
    RATIO: " Below 1 the score predicts too high, above 1 too low.",
    "slope": " Below 1 the predictions are too extreme, above 1 not extreme enough.",
}


def sites_document(found: Sites, title: str | None = None) -> Document:
    """The document of a comparison of sites."""
    names = found.identity
    about = [
        ("Score", names.score),
        ("Outcome", names.outcome),
        ("Source", names.source),
        ("Period", names.period),
    ]
    return Document(
        brand="Comparison of sites",
        title=title or names.title or names.score or f"Risk score at {len(found.sites)} sites",
        about=[(name, text) for name, text in about if text],
        blocks=[_verdict(found), Section("sites", "Measures of each site", _measures(found))],
    )


def sites_section(found: Sites) -> Section:
    """Sites as a part of the report of an audit."""
    return Section("sites", "Sites", [_verdict(found), *_measures(found)], link="Sites", places=At.PAGE)


def sites_data(found: Sites) -> dict[str, Any]:
    """Everything for machines."""
    return {
        "format": SITES_FORMAT,
        "version": SITES_VERSION,
        "conclusion": found.conclusion,
        "headline": found.headline,
        "claims": [{name: plain_value(x) for name, x in asdict(claim).items()} for claim in found.claims],
        "sentences": list(found.sentences),
        "pooled": table_records(found.pooled.rename_axis("of").reset_index()),
        "sites": table_records(found.sites),
        "summary": table_records(found.summary.rename_axis("measure").reset_index()),
        "travel": None if found.travel is None else table_records(found.travel.table),
        "notes": list(found.notes),
        "identity": asdict(found.identity),
    }


def _verdict(found: Sites) -> Verdict:
    tone = HEADLINES[found.conclusion].tone
    return Verdict(tone, found.headline, found.sentences, subject="Sites", explanation=DEFINITION)


def _measures(found: Sites) -> list[Block]:
    shown = [
        name for name in (RATIO, "slope", "auroc") if np.isfinite(without_limits(found.sites[name])).any()
    ]
    blocks: list[Block] = [_forest(found, name) for name in shown]
    blocks += [*_funnel(found), _table(found), *_summary(found), *_travel(found)]
    return [*blocks, Items("Notes", found.notes)]


def _table(found: Sites) -> Table:
    pooled = [
        dict.fromkeys(found.sites.columns, np.nan)
        | dict(row)
        | {"site": "All sites together" if name == ALL_SITES else _small_sites(found), "finding": ""}
        for name, row in found.pooled.iterrows()
    ]
    for claim in found.claims:
        if claim.kind == "overall":
            pooled[0]["finding"] = claim.direction
    rows = row_dicts(found.sites[~found.small])
    columns = [
        Column("site", "site"),
        Column("people", found.identity.unit, "count"),
        Column("positives", "events", "count", places=At.PAGE),
        *estimate_columns(),
        Column("finding", "finding", "finding"),
    ]
    for name in ("intercept", "slope", "auroc"):
        heading, digits = SCALES[name].name.removeprefix("Calibration "), SCALES[name].digits
        columns += estimate_columns(name, heading, digits, places=At.PAGE)
    note = f"{DEFINITION} Findings are adjusted for the number of tests."
    note += f" Small sites: {found.identity.worded(TOO_SMALL)}." if found.small.any() else ""
    return Table("each-site", "Each site", columns, [*pooled, *rows], note, MOST_SITES, "site")


def _small_sites(found: Sites) -> str:
    return f"{int(found.small.sum()):,} small sites together"


def _summary(found: Sites) -> list[Block]:
    rows = [
        row
        | {"name": SCALES[row["measure"]].name, "digits": SCALES[row["measure"]].digits}
        | {"mean_low": row["low"], "mean_high": row["high"], "tau2": f"{row['tau2']:.4f}"}
        for row in row_dicts(found.summary.rename_axis("measure").reset_index())
    ]
    columns = [
        Column("name", "measure"),
        *estimate_columns("mean", "mean"),
        Column("prediction", "new site", "interval"),
        Column("tau2", "tau²", "word"),
        Column("i2", "I²", "share"),
    ]
    title, note = "Over all sites (random effects, Hartung-Knapp)", words("tables", "site_summary")
    return [Table("summary", title, columns, rows, note)] if rows else []


def _forest(found: Sites, name: str) -> Forest:
    scale, table = SCALES[name], found.sites[~found.small]
    rows = [
        _forest_row(row["site"], row, name, LOOKS.get(row["finding"], "noise") if name == RATIO else "noise")
        for row in row_dicts(table)
    ]
    description = f"{scale.name} of each site with its 95 % confidence interval"
    if name in found.summary.index:
        row: Any = found.summary.loc[name]
        new = {name: np.nan, f"{name}_low": row["prediction_low"], f"{name}_high": row["prediction_high"]}
        mean = {name: row["mean"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
        rows = [
            _forest_row("All sites (mean, 95 % CI)", mean, name),
            *rows,
            _forest_row("New site (95 % prediction)", new, name),
        ]
        description += ", the mean over sites, and the interval in which 95 % of new sites are expected"
    return Forest(
        f"forest-{name}",
        scale.name,
        f"{description}.{MEANING.get(name, '')}",
        _forest_axis(rows, scale),
        rows,
        scale.right,
        SIDES if name == RATIO else ("", ""),
    )


def _forest_row(label: str, row: Any, name: str, look: str = "noise", end: str = "") -> ForestRow:
    value, low, high = (row[f"{name}{end}{part}"] for part in ("", "_low", "_high"))
    text = ON_PAGE.estimate(value, low, high, SCALES[name].digits)
    value, low, high = without_limits([value, low, high])
    return ForestRow(str(label), value, low, high, look, text=text)


def _forest_axis(rows: Sequence[ForestRow], scale: Any) -> Axis:
    ends = [end for row in rows for end in (row.low, row.high, row.value)]
    if scale is SCALES[RATIO]:
        return ratio_axis(ends)
    return axis_around([*ends, scale.right], scale.name)


def _funnel(found: Sites) -> list[Block]:
    """Log O/E of each site against its standard error, with the lines between which 95 % lie by chance."""
    table = found.sites[~found.small]
    value = np.array(without_limits(table[RATIO]))
    error = table[f"{RATIO}_error"].to_numpy(dtype=np.float64)
    there = np.isfinite(value) & np.isfinite(error) & (value > 0)
    if there.sum() < 3 or RATIO not in found.summary.index:
        return []
    mean, most = float(found.summary["mean"].to_dict()[RATIO]), float(error[there].max()) * 1.1
    reach = np.exp(max(1.96 * most, float(np.abs(np.log(value[there] / mean)).max()) * 1.1))
    steps, digits = round_steps(mean / reach, mean * reach, 5)
    levels, n = round_steps(0.0, most, 4)
    x = Axis(
        "O/E ratio",
        mean / reach,
        mean * reach,
        tuple((v, f"{v:.{digits}f}") for v in steps if v > 0),
        log=True,
    )
    y = Axis("standard error (log O/E)", most, 0.0, tuple((v, f"{v:.{n}f}") for v in levels))
    side = np.exp(1.96 * most)
    marks = [
        Mark("line", "guide", [mean / side, mean, mean * side], [most, 0.0, most]),
        Mark("line", "all-thin", [mean, mean], [0.0, most]),
        Mark("points", "all-line", value[there], error[there], names=table["site"][there].tolist()),
    ]
    heading, description = "Funnel plot: sites by their precision", words("pictures", "funnel")
    return [Plot("funnel", heading, description, x, y, marks, 500, 256)]


def _travel(found: Sites) -> list[Block]:
    if found.travel is None:
        return []
    rows = [row | {"finding": finding_text(row)} for row in row_dicts(found.travel.table)]
    columns = [
        Column("site", "site"),
        Column(f"{RATIO}_before", "O/E before", "decimal"),
        *estimate_columns(f"{RATIO}_after", "O/E after"),
        Column("change", "change of log loss", "signed", 4),
        Column("change", "95 % CI", "signed interval", 4),
        Column("finding", "finding"),
    ]
    title, note = "Does a correction transfer? (leave-one-site-out)", words("tables", "travel")
    blocks: list[Block] = [Table("travel", title, columns, rows, note, MOST_SITES, "site")]
    bars = [
        row
        for site in rows
        for row in (
            _forest_row(site["site"], site, RATIO, end="_before"),
            _forest_row("after correction", site, RATIO, end="_after"),
        )
    ]
    if not any(known(bar.value) for bar in bars):
        return blocks
    heading = "O/E ratio before and after"
    description = "O/E ratio of each site, before and after a correction that was fitted on the other sites."
    axis = _forest_axis(bars, SCALES[RATIO])
    return [Forest("forest-travel", heading, description, axis, bars), *blocks]
