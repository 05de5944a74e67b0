"""Results as text for a terminal: the verdict first, then losses, worst categories, groups, notes.

Readable at 80 columns and without colour. Names of groups are the users' data: shown as they are,
never read as markup, and without characters that would steer the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from propcal.auditing.finding_names import HEADLINES, TOO_HIGH, TOO_LOW
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.numbers import IN_TEXT, known, plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison

WORDS = ("", "group", "where", "why", "score", "measure")  # headings of columns that hold no numbers
MOST_GROUPS = 25
MOST_LEFT_OUT = 8
STYLES = {"wrong": "bold red", "noise": "bold green"}  # by the tone of the conclusion


def audit_text(audit: Audit) -> RenderableType:
    """An audit, to be printed."""
    parts = [*_verdict(audit), _losses(audit), *_debiased(audit), *_categories(audit), *_groups(audit)]
    return Group(*parts, *_notes(audit.notes))


def comparison_text(comparison: Comparison) -> RenderableType:
    """Several scores side by side: what differs, then the audit of the last of them in full."""
    names = list(comparison.audits)
    parts: list[RenderableType] = []
    for name, audit in comparison.audits.items():
        parts += [Text(plain(name), style="bold"), *_verdict(audit)]
    parts += [_differences(comparison), Text(f"{plain(names[-1])}, in full", style="bold"), Text()]
    last = comparison.audits[names[-1]]
    parts += [_losses(last), *_debiased(last), *_categories(last), *_groups(last)]
    # of each score the comparison has said already to whom it was fitted
    own = [note for note in last.notes if not note.startswith("The correction was ")]
    return Group(*parts, *_notes([*comparison.notes, *own]))


def as_text(shown: RenderableType, width: int = 100) -> str:
    """What would be printed, without colours."""
    written = StringIO()
    Console(width=width, file=written, no_color=True, highlight=False).print(shown)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip().splitlines())


def _table(title: str, headings: Iterable[str]) -> Table:
    """A table in which words fold and numbers stand to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    table.title_style, table.header_style = "bold", "underline"
    for heading in headings:
        words = heading in WORDS
        table.add_column(heading, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    return table


def _said(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2), expand=False)


def _row(table: Table, *cells: Any, style: str = "") -> None:
    table.add_row(*[Text(plain(cell)) for cell in cells], style=style)


def _verdict(audit: Audit) -> list[RenderableType]:
    conclusion = audit.verdict.conclusion
    headline = Text(f"Verdict: {conclusion}", style=STYLES.get(HEADLINES[conclusion].tone, "bold"))
    return [headline, _said(plain(audit.verdict.text)), Text()]


def _losses(audit: Audit) -> RenderableType:
    headings = ("", "loss", "noise floor", "p", "interval", "where")
    table = _table("Losses: the worst of all categories", headings)
    for name, row in audit.losses.iterrows():
        measure = MEASURE_NAMES[str(name)]
        loss, p, *floors = (
            IN_TEXT.decimal(row[column], measure.digits)
            for column in ("value", "p_value", "floor_median", "floor_95")
        )
        floor = ", ".join(floors) if known(row["floor_95"]) else IN_TEXT.unknown
        interval = IN_TEXT.interval(row["low"], row["high"], measure.digits)
        _row(table, measure.symbol, loss, floor, p, interval, row["where"])
    said = (
        "MC: gap between outcome rate and mean score. PMC: the same as a share of the rate. DC: log-ratio of "
        "two groups' rates. Noise floor: what a perfect score would show here, median and 95th percentile; "
        "p: how often it would show as much."
    )
    return Group(table, _said(said), Text())


def _debiased(audit: Audit) -> list[RenderableType]:
    parts = []
    for name, row in audit.debiased.iterrows():
        if known(row["rms"]):
            rms, interval = IN_TEXT.decimal(row["rms"], 3), IN_TEXT.interval(row["low"], row["high"], 3)
            parts.append(f"{MEASURE_NAMES[str(name)].symbol} {rms} ({interval})")
    if not parts:
        return []
    said = f"Typical gap after noise is taken off (root mean square): {'; '.join(parts)}."
    return [_said(said), Text()]


def _categories(audit: Audit) -> list[RenderableType]:
    from propcal.auditing.conclusions import worst_categories  # brings pandas along

    worst = worst_categories(audit.categories)
    if not len(worst):
        return [Text("No category has enough people to be looked at.\n")]
    sure = int(worst["beyond"].sum())
    title = "Worst categories" if sure else "Largest gaps, none of them beyond what noise allows"
    if worst["low"].isna().all():
        title = "Largest gaps; what noise allows is not known"
    # the gap itself is the difference of the two rates before it
    table = _table(title, ("group", "scores in", "people", "had it", "said", "gap is in"))
    for _, row in worst.iterrows():
        marked = f"{row['group']} *" if row["beyond"] else row["group"]
        rates = (IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"]))
        interval = IN_TEXT.interval(row["low"], row["high"], 2, "+")
        _row(table, marked, row["bin"], IN_TEXT.count(row["people"]), *rates, interval)
    said = "Had it: share with the outcome. Said: mean score."
    said += " *: beyond what noise allows." if sure else ""
    return [table, _said(said), Text()]


def _groups(audit: Audit) -> list[RenderableType]:
    kept = audit.groups["kept"].astype(bool)
    headings = ("group", "people", "had it", "said", "O/E", "O/E is in")
    table = _table("Groups: observed / expected outcomes, 1 is right", headings)
    for _, row in audit.groups[kept].head(MOST_GROUPS).iterrows():
        rates = (IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"]))
        ratio = IN_TEXT.decimal(row["observed_expected"])
        interval = IN_TEXT.interval(row["observed_expected_low"], row["observed_expected_high"])
        marked = f"{row['group']} *" if row["finding"] in (TOO_HIGH, TOO_LOW) else row["group"]
        _row(table, marked, IN_TEXT.count(row["people"]), *rates, ratio, interval)
    more = _more(int(kept.sum()) - MOST_GROUPS)
    said = (
        "*: beyond noise, corrected for the number of groups. Each interval stands for itself: one in twenty "
        "misses the truth by chance."
    )
    return [table, *more, _said(said), Text(), *_left_out(audit.groups[~kept])]


def _left_out(groups: Any) -> list[RenderableType]:
    if not len(groups):
        return []
    table = _table(f"Left out: {plural(len(groups), 'group')}", ("group", "why", "people"))
    for _, row in groups.head(MOST_LEFT_OUT).iterrows():
        _row(table, row["group"], row["reason"], IN_TEXT.count(row["people"]))
    return [table, *_more(len(groups) - MOST_LEFT_OUT), Text()]


def _more(count: int) -> list[RenderableType]:
    return [_said(f"... and {count:,} more groups; --format json has them all.")] if count > 0 else []


def _differences(comparison: Comparison) -> RenderableType:
    """For each other score what it is overall, then group by group."""
    names = list(comparison.audits)
    parts: list[RenderableType] = []
    for name in names[1:]:
        chosen = comparison.differences[comparison.differences["score"] == name]
        overall = chosen["group"].isin(["all categories", "everybody"])
        title = f"{plain(name)} against {plain(names[0])}"
        table = _table(title, ("measure", "before", "after", "difference", "interval"))
        for _, row in chosen[overall].iterrows():
            measure = MEASURE_NAMES[row["measure"]]
            numbers = [
                IN_TEXT.decimal(row[column], measure.digits) for column in ("base", "value", "difference")
            ]
            _row(table, measure.name, *numbers, IN_TEXT.interval(row["low"], row["high"], measure.digits))
        parts += [table, Text(), *_group_differences(chosen[~overall])]
    return Group(*parts)


def _group_differences(differences: Any) -> list[RenderableType]:
    """Observed/expected before and after, and what became of the Brier score."""
    ratio, brier = (
        differences[differences["measure"] == m].set_index("group") for m in ("observed_expected", "brier")
    )
    if not len(ratio):
        return []
    headings = ("group", "O/E before", "after", "Brier change", "is in")
    table = _table("Group by group: observed / expected, and the change of the Brier score", headings)
    for name, row in ratio.head(MOST_GROUPS).iterrows():
        change = brier.loc[name]
        ratios = (IN_TEXT.decimal(row["base"]), IN_TEXT.decimal(row["value"]))
        interval = IN_TEXT.interval(change["low"], change["high"], 3, "+")
        _row(table, name, *ratios, IN_TEXT.decimal(change["difference"], 3, "+"), interval)
    return [table, *_more(len(ratio) - MOST_GROUPS), Text()]


def _notes(notes: Iterable[str]) -> list[RenderableType]:
    lines = list(dict.fromkeys(plain(note) for note in notes))
    if not lines:
        return []
    table = Table(box=None, show_header=False, pad_edge=False)  # hanging indents
    for line in lines:
        table.add_row(Text("-"), Text(line))
    return [Text("Notes", style="bold"), Padding(table, (0, 0, 1, 0))]
