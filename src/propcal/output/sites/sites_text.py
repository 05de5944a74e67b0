"""What was found across sites as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from propcal.auditing.finding_names import CHANCE, HEADLINES, MISCALIBRATED, NONE_FOUND, NOT_ENOUGH
from propcal.numbers import IN_TEXT
from propcal.output.text_blocks import STYLES, left_text, note_text, text_row, text_table
from propcal.plain_text import plain
from propcal.sites.site_measures import SCALES
from propcal.sites.travel import finding_text

if TYPE_CHECKING:
    from propcal.sites.site_measures import Sites

MOST_SITES = 40
TITLES = {
    MISCALIBRATED: "O/E ratio wrong at some of them",
    NONE_FOUND: "no error in the O/E ratio found",
    NOT_ENOUGH: "not enough data",
}
DEFINITION = (
    "O/E: observed over expected events; below 1 the score predicts too high, above 1 too low. Findings are "
    "adjusted for the number of sites; blank: could be chance."
)


def sites_text(found: Sites) -> RenderableType:
    """What was found, to be printed."""
    style = STYLES.get(HEADLINES[found.conclusion].tone, "bold")
    parts: list[RenderableType] = [
        Text(f"Sites: {TITLES[found.conclusion]}", style=style),
        left_text(plain(" ".join(found.sentences))),
        Text(),
    ]
    headings = ("site", found.identity.unit, "O/E, 95 % CI", "finding", "intercept", "slope", "AUROC")
    table = text_table("Each site", headings)
    for _, row in found.sites.head(MOST_SITES).iterrows():
        text_row(
            table,
            row["site"],
            IN_TEXT.count(row["people"]),
            _with_interval(row, "observed_expected"),
            "" if row["finding"] == CHANCE else row["finding"],
            IN_TEXT.decimal(row["intercept"]),
            IN_TEXT.decimal(row["slope"]),
            IN_TEXT.decimal(row["auroc"]),
        )
    more = len(found.sites) - MOST_SITES
    parts += [table, *([left_text(f"and {more:,} more")] if more > 0 else []), left_text(DEFINITION), Text()]
    return Group(*parts, *_summary(found), *_travel(found), *note_text(found.notes))


def _summary(found: Sites) -> list[RenderableType]:
    if not len(found.summary):
        return []
    names = ("measure", "mean, 95 % CI", "new site", "tau squared", "I squared")
    table = text_table("Over all sites (random effects, Hartung-Knapp)", names)
    for name, row in found.summary.iterrows():
        interval = IN_TEXT.interval(row["prediction_low"], row["prediction_high"])
        both = f"{IN_TEXT.decimal(row['mean'])} ({IN_TEXT.interval(row['low'], row['high'])})"
        i2 = f"{100 * row['i2']:.0f} %"
        text_row(table, SCALES[str(name)].name, both, interval, IN_TEXT.decimal(row["tau2"], 4), i2)
    said = (
        "New site: 95 % prediction interval. Tau squared: variance between sites, of the log O/E ratio, the "
        "log-odds of the AUROC, the intercept and the slope."
    )
    return [table, left_text(said), Text()]


def _with_interval(row: Any, name: str) -> str:
    return _both(IN_TEXT.decimal(row[name]), IN_TEXT.interval(row[f"{name}_low"], row[f"{name}_high"]))


def _both(value: str, interval: str) -> str:
    """A number and its interval, if there is one."""
    return value if interval == IN_TEXT.unknown else f"{value} ({interval})"


def _travel(found: Sites) -> list[RenderableType]:
    if found.travel is None:
        return []
    headings = ("site", "O/E before", "after", "change of log loss, 95 % CI", "finding")
    table = text_table("Does a correction transfer? (leave-one-site-out)", headings)
    for _, row in found.travel.table.head(MOST_SITES).iterrows():
        ratios = [IN_TEXT.decimal(row[f"observed_expected_{when}"]) for when in ("before", "after")]
        interval = IN_TEXT.interval(row["change_low"], row["change_high"], 4, "+")
        change = _both(IN_TEXT.decimal(row["change"], 4, "+"), interval)
        text_row(table, row["site"], *ratios, change, finding_text(row))
    said = (
        "Each site is corrected by a fit on all other sites (internal-external cross-validation). A negative "
        "change of the log loss is an improvement."
    )
    return [table, left_text(said), Text()]
