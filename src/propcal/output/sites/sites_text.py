"""What was found across sites as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from propcal.numbers import IN_TEXT
from propcal.output.terminal import _row as text_row
from propcal.output.terminal import _said as left_text
from propcal.output.terminal import _table as text_table
from propcal.plain_text import plain
from propcal.sites.site_measures import SCALES

if TYPE_CHECKING:
    from propcal.sites.site_measures import Sites

MOST_SITES = 40


def sites_text(found: Sites) -> RenderableType:
    """What was found, to be printed."""
    parts: list[RenderableType] = [
        Text("Sites", style="bold"),
        left_text(plain(" ".join(found.sentences))),
        Text(),
    ]
    headings = ("site", found.identity.unit, "O/E, 95 % CI", "intercept", "slope", "AUROC, 95 % CI")
    table = text_table("Each site", headings)
    for _, row in found.sites.head(MOST_SITES).iterrows():
        text_row(
            table,
            row["site"],
            IN_TEXT.count(row["people"]),
            _with_interval(row, "observed_expected"),
            IN_TEXT.decimal(row["intercept"]),
            IN_TEXT.decimal(row["slope"]),
            _with_interval(row, "auroc"),
        )
    parts += [table, Text()]
    names = ("measure", "mean, 95 % CI", "new site", "tau squared", "I squared")
    table = text_table("Over all sites (random effects, Hartung-Knapp)", names)
    for name, row in found.summary.iterrows():
        interval = IN_TEXT.interval(row["prediction_low"], row["prediction_high"])
        both = f"{IN_TEXT.decimal(row['mean'])} ({IN_TEXT.interval(row['low'], row['high'])})"
        i2 = f"{100 * row['i2']:.0f} %" if row["i2"] == row["i2"] else IN_TEXT.unknown
        text_row(table, SCALES[str(name)].name, both, interval, IN_TEXT.decimal(row["tau2"], 4), i2)
    said = (
        "New site: 95 % prediction interval. Tau squared is on the scale of the summary: log O/E, log-odds "
        "of the "
        "AUROC, intercept and slope as they are."
    )
    parts += [table, left_text(said), Text()]
    return Group(*parts, *_travel(found))


def _with_interval(row: Any, name: str) -> str:
    return _both(IN_TEXT.decimal(row[name]), IN_TEXT.interval(row[f"{name}_low"], row[f"{name}_high"]))


def _both(value: str, interval: str) -> str:
    """A number and its interval, if there is one."""
    return value if interval == IN_TEXT.unknown else f"{value} ({interval})"


def _travel(found: Sites) -> list[RenderableType]:
    if found.travel is None:
        return []
    headings = ("site", "O/E before", "after", "change of log loss, 95 % CI", "finding")
    table = text_table("Will it travel? Corrected by what the other sites teach", headings)
    for _, row in found.travel.table.head(MOST_SITES).iterrows():
        ratios = [IN_TEXT.decimal(row[f"observed_expected_{when}"]) for when in ("before", "after")]
        interval = IN_TEXT.interval(row["change_low"], row["change_high"], 4, "+")
        change = _both(IN_TEXT.decimal(row["change"], 4, "+"), interval)
        text_row(table, row["site"], *ratios, change, row["finding"])
    return [table, Text()]
