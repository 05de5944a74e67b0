"""Results as text for a terminal: the verdict first, then groups, cells, losses, notes.

Readable at 80 columns and without colour. Names of groups are the users' data: shown as they are,
never read as markup, and without characters that would steer the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from propcal.auditing.finding_names import CHANCE, HEADLINES, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.numbers import IN_TEXT, excludes_one, known, plural, risk_range
from propcal.output.text_blocks import STYLES, left_text, note_text, text_row, text_table
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison

ENDS = ("base", "value")  # before and after
MOST_GROUPS = 25
MOST_LEFT_OUT = 8
SHORT_FINDINGS = {TOO_HIGH: TOO_HIGH, TOO_LOW: TOO_LOW, NOT_ENOUGH: "few data"}


def audit_text(audit: Audit) -> RenderableType:
    """An audit, to be printed."""
    parts = [*_verdict(audit), *_groups(audit), *_thresholds(audit)]
    return Group(*parts, *_cells(audit), *_bin_free(audit), *note_text(audit.notes))


def comparison_text(comparison: Comparison) -> RenderableType:
    """Several scores side by side: what differs, then the audit of the last of them in full."""
    names = list(comparison.audits)
    parts: list[RenderableType] = []
    for name, audit in comparison.audits.items():
        parts += [Text(plain(name), style="bold"), *_verdict(audit)]
    parts += [left_text(plain(sentence)) for sentence in comparison.worse()]
    parts += [Text()] if comparison.worse() else []
    parts += [_differences(comparison), Text(f"{plain(names[-1])}, in full", style="bold"), Text()]
    last = comparison.audits[names[-1]]
    parts += [*_groups(last), *_thresholds(last), *_cells(last), *_bin_free(last)]
    # of each score the comparison has said already to whom it was fitted
    own = [note for note in last.notes if not note.startswith("The correction was ")]
    return Group(*parts, *note_text([*comparison.notes, *own]))


def _verdict(audit: Audit) -> list[RenderableType]:
    conclusion = audit.verdict.conclusion
    headline = Text(f"Verdict: {conclusion}", style=STYLES.get(HEADLINES[conclusion].tone, "bold"))
    return [headline, left_text(plain(audit.verdict.text)), Text()]


def _cells(audit: Audit) -> list[RenderableType]:
    """Cells and losses, unless shared atoms leave them too uncertain; a note then says so."""
    return [] if audit.cells_unsure else [*_categories(audit), _losses(audit), *_debiased(audit)]


def _losses(audit: Audit) -> RenderableType:
    headings = ("loss", "value", "95 % CI", "by chance", "p", "where")
    table = text_table("Losses: the largest gap of all cells", headings)
    for name, row in audit.losses.iterrows():
        measure = MEASURE_NAMES[str(name)]
        loss = IN_TEXT.decimal(row["value"], measure.digits)
        floors = [IN_TEXT.decimal(row[column], measure.digits) for column in ("floor_median", "floor_95")]
        floor = ", ".join(floors) if known(row["floor_95"]) else IN_TEXT.unknown
        interval = IN_TEXT.interval(row["low"], row["high"], measure.digits)
        text_row(table, measure.symbol, loss, interval, floor, IN_TEXT.p_value(row["p_value"]), row["where"])
    said = (
        "A cell is a group within a range of scores. MC: gap between observed and predicted rate. PMC: the "
        "gap as a share of the observed rate. DC: log-ratio of two groups' observed rates. By chance: what "
        "a perfect score would show here, median and 95th percentile. The p-value of a maximum has low "
        "power; rely on the verdict."
    )
    return Group(table, left_text(said), Text())


def _debiased(audit: Audit) -> list[RenderableType]:
    parts = []
    for name, row in audit.debiased.iterrows():
        if known(row["rms"]):
            rms, interval = IN_TEXT.decimal(row["rms"], 3), IN_TEXT.interval(row["low"], row["high"], 3)
            parts.append(f"{MEASURE_NAMES[str(name)].symbol} {rms} (95 % CI {interval})")
    if not parts:
        return []
    said = f"Typical gap of a cell, without what chance adds (root mean square): {'; '.join(parts)}."
    return [left_text(said), Text()]


def _bin_free(audit: Audit) -> list[RenderableType]:
    """Measures that need no bins, if the audit has them."""
    from propcal.auditing.hypothesis_tests import SIGNIFICANCE  # brings numpy along

    found = audit.bin_free
    if found is None:
        return []
    if found.table.empty:
        return [left_text(plain(found.sentence)), Text()]
    ecce, smooth = found.of("ecce"), found.of("smooth_ece")
    headings = ("group", "worst range", "score", "ECCE", "chance 95 %", "p", "smooth ECE", "chance 95 %", "p")
    table = text_table("Without bins", headings)
    for (_, row), (_, other) in zip(ecce.head(MOST_GROUPS).iterrows(), smooth.iterrows()):
        ends = IN_TEXT.interval(100 * row["low"], 100 * row["high"], 1)
        numbers: list[str] = []
        for own in (row, other):
            numbers += [IN_TEXT.decimal(own[column], 3) for column in ("value", "chance_95")]
            numbers.append(IN_TEXT.p_value(own["adjusted_p"]))
        finding = row["direction"] if row["adjusted_p"] <= SIGNIFICANCE else ""
        text_row(table, row["label"], f"{ends} %", finding, *numbers)
    said = (
        f"{found.sentence} ECCE (cumulative error): the largest sum of observed minus predicted over any "
        "range of predicted risk (the worst range), per person of the group. Smooth ECE: the mean absolute "
        "error after smoothing. Chance 95 %: 95th percentile of a perfect score, for this group alone; p is "
        "adjusted for the number of groups. A blank could be chance. These measures do not enter the verdict."
    )
    return [table, *_more(len(ecce) - MOST_GROUPS), left_text(plain(said)), Text()]


def _categories(audit: Audit) -> list[RenderableType]:
    from propcal.auditing.conclusions import worst_categories  # brings pandas along

    worst = worst_categories(audit.categories)
    if not len(worst):
        return [Text("No cell has enough data to judge.\n")]
    sure = int(worst["beyond"].sum())
    title = "Cells with the clearest gaps" if sure else "Cells with the clearest gaps; all could be chance"
    if worst["low"].isna().all() and not sure:
        title = "Cells with the largest gaps; whether chance explains them is not known"
    headings = ("group", "predicted risk", audit.identity.unit, "observed", "predicted", "95 % CI of the gap")
    table = text_table(title, headings)
    labels = audit.labels
    for _, row in worst.iterrows():
        label = labels.get(row["group"], row["group"])
        rates = (IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"]))
        interval = IN_TEXT.interval(100 * row["low"], 100 * row["high"], 1, "+")
        marked = f"{label} *" if row["beyond"] else label
        text_row(table, marked, risk_range(row["bin"]), IN_TEXT.count(row["people"]), *rates, interval)
    said = (
        "Gap: observed minus predicted rate, in percentage points; intervals are adjusted for the number of "
        "cells."
    )
    said += " *: more than chance explains." if sure else ""
    return [table, left_text(said), Text()]


def _groups(audit: Audit) -> list[RenderableType]:
    kept = audit.groups["kept"].astype(bool)
    headings = ("group", audit.identity.unit, "observed", "predicted", "O/E", "95 % CI", "finding")
    table = text_table("Groups: observed and predicted rates, O/E ratio", headings)
    marks = set()
    for _, row in audit.groups[kept].head(MOST_GROUPS).iterrows():
        rates = (IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"]))
        low, high = row["observed_expected_low"], row["observed_expected_high"]
        ratio = (IN_TEXT.decimal(row["observed_expected"]), IN_TEXT.interval(low, high))
        found = SHORT_FINDINGS.get(row["finding"], "")
        if row["finding"] == CHANCE and excludes_one(low, high):
            found = "+"
        marks.add(found)
        text_row(table, row["label"], IN_TEXT.count(row["people"]), *rates, *ratio, found)
    said = "O/E: observed over expected events; below 1 the score is too high. Blank: could be chance."
    if "+" in marks:
        said += " +: the interval excludes 1, but with this many tests that, too, could be chance."
    more = _more(int(kept.sum()) - MOST_GROUPS)
    return [table, *more, left_text(said), Text(), *_left_out(audit.groups[~kept], audit.identity.unit)]


def _left_out(groups: Any, unit: str) -> list[RenderableType]:
    if not len(groups):
        return []
    title = f"Shown but not tested: {plural(len(groups), 'group')}"
    table = text_table(title, ("group", unit, "observed", "predicted", "why"))
    for _, row in groups.head(MOST_LEFT_OUT).iterrows():
        rates = (IN_TEXT.percent(row["outcome_rate"]), IN_TEXT.percent(row["mean_score"]))
        text_row(table, row["label"], IN_TEXT.count(row["people"]), *rates, row["reason"])
    return [table, *_more(len(groups) - MOST_LEFT_OUT), Text()]


def _thresholds(audit: Audit) -> list[RenderableType]:
    """What acting on the score at the user's thresholds comes to."""
    parts: list[RenderableType] = []
    headings = ("group", "flagged per 100", "sensitivity", "specificity", "PPV", "net benefit per 100")
    for threshold, rows in audit.at_threshold().groupby("threshold"):
        table = text_table(f"At a threshold of {100 * float(str(threshold)):g} %", headings)
        for _, row in rows.head(MOST_GROUPS).iterrows():
            shares = [IN_TEXT.percent(row[name]) for name in ("sensitivity", "specificity", "ppv")]
            per_100 = [IN_TEXT.decimal(100 * row[name], 1) for name in ("flagged", "net_benefit")]
            text_row(table, row["label"], per_100[0], *shares, per_100[1])
        parts += [table, *_more(len(rows) - MOST_GROUPS)]
    if parts:
        said = (
            "Flagged: predicted at or above the threshold. PPV: share of those flagged who had the outcome. "
            "Net benefit: true positives minus false positives weighted by the odds of the threshold. Their "
            "95 % intervals are in the report and in Audit.at_threshold()."
        )
        parts += [left_text(said), Text()]
    return parts


def _more(count: int) -> list[RenderableType]:
    return (
        [left_text(f"... and {plural(count, 'more group')}; --format json has them all.")]
        if count > 0
        else []
    )


def _differences(comparison: Comparison) -> RenderableType:
    """For each other score what changes overall, then group by group."""
    names = list(comparison.audits)
    parts: list[RenderableType] = []
    for name in names[1:]:
        chosen = comparison.differences[comparison.differences["score"] == name]
        overall = chosen["group"].isin(["all categories", "everybody"])
        title = f"{plain(name)} compared with {plain(names[0])}"
        table = text_table(title, ("measure", "before", "after", "95 % CI of the change"))
        for _, row in chosen[overall].iterrows():
            measure = MEASURE_NAMES[row["measure"]]
            numbers = [IN_TEXT.decimal(measure.shown(row[column]), measure.digits) for column in ENDS]
            interval = IN_TEXT.change(row["low"], row["high"], measure.digits)
            text_row(table, measure.name, *numbers, interval)
        parts += [table, Text(), *_group_differences(chosen[~overall], comparison.audits[name].labels)]
    return Group(*parts)


def _group_differences(differences: Any, labels: dict[str, str]) -> list[RenderableType]:
    """O/E ratio before and after, and the interval of the change of the Brier score."""
    ratio, brier = (
        differences[differences["measure"] == m].set_index("group") for m in ("observed_expected", "brier")
    )
    if not len(ratio):
        return []
    headings = ("group", "O/E before", "O/E after", "change of Brier score, 95 % CI")
    table = text_table("Group by group", headings)
    for name, row in ratio.head(MOST_GROUPS).iterrows():
        change = brier.loc[name]
        ratios = (IN_TEXT.decimal(row["base"]), IN_TEXT.decimal(row["value"]))
        label = labels.get(name, name)
        text_row(table, label, *ratios, IN_TEXT.change(change["low"], change["high"], 3))
    return [table, *_more(len(ratio) - MOST_GROUPS), Text()]
