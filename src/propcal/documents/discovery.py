"""What a search for groups found: sentences and a table, for a page of its own or a section of a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from propcal.discovery.discovery import Discovery
from propcal.discovery.finding_rows import RATIO, FoundGroup, whole
from propcal.documents import discovery_sentences as sentences
from propcal.documents.blocks import (
    CARD,
    PAGE,
    TEXT,
    Block,
    Column,
    Document,
    Items,
    Paragraphs,
    Section,
    Table,
    Verdict,
)
from propcal.documents.charts import Axis, Chart, Forest, ForestRow, Mark, Plot, ratio_axis, row_axis
from propcal.numbers import IN_TEXT, ON_PAGE, Limit, known, without_limits
from propcal.protect.discoveries import protected_discovery

NOTE = (
    "Groups were found by a search; intervals and p-values allow for it, so that intervals are wider than in "
    "other tables. The p-value decides whether a group is named. An interval that includes 1 means that the "
    "size of the error is uncertain. Found again: share of resamples in which the search described mostly "
    "the same people; a low share means that the description is uncertain. A group "
    "that is found need not be the cause of the error."
)
MOVED = "Counts are moved by at most 2, and rates and O/E ratios follow from them. "
AFTER_NOTE = (
    "Predicted: by the raw score. After correction: predicted by the score once errors named before are "
    "corrected for (the whole score, and the groups above in the table); O/E ratio or slope, interval and "
    "p-value are of that score. "
)
NEXT_STEPS = (
    "Find out why: coding, case mix, treatment, or the score's inputs. The group need not be the cause.",
    "Correct for the groups (propcal fit, PMCBoost), and audit the correction on people not searched.",
)
SMALL = "Numbers are limited or left out where fewer than {} {} had (or did not have) the outcome. "


def discovery_document(found: Discovery, suppress: int = 0, title: str | None = None) -> Document:
    """The document of a search, from protected counts; 0 protects nothing."""
    shown = protected_discovery(found, suppress)
    repaired = [] if shown.protection is None else shown.protection.sentences
    further = {"Protected groups": repaired, "Columns that were not searched": sentences.not_searched(shown)}
    tone = "wrong" if shown.found or shown.overall["found"] else "noise"
    return Document(
        brand="Search for groups",
        title=title or shown.identity.title or "Groups found by a search",
        about=[("Score", shown.identity.score)] if shown.identity.score else [],
        blocks=[
            Verdict(
                tone if shown.enough else "few", sentences.count(shown), sentences.overall(shown), subject=""
            ),
            Paragraphs([sentences.finding(group, shown.identity) for group in shown.found], places=(TEXT,)),
            *(
                [Section("next", "What to do next", [Items("", NEXT_STEPS)], places=(PAGE,))]
                if shown.found
                else []
            ),
            Section("groups", "Groups found", _table(found, shown, suppress), places=(PAGE, CARD)),
            *(
                Section(f"further-{i}", heading, [Paragraphs(texts)])
                for i, (heading, texts) in enumerate(further.items())
                if texts
            ),
        ],
    )


def discovery_section(found: Discovery, suppress: int = 11) -> Section:
    """The groups found as a part of the report of an audit."""
    shown = protected_discovery(found, suppress)
    blocks = [Paragraphs(shown.around_groups), *_table(found, shown, suppress)]
    return Section("discovery", "Groups found by a search", blocks, "Groups found")


def _table(found: Discovery, shown: Discovery, suppress: int) -> list[Block]:
    """The groups, with what a reader must know of their numbers; only that if there are none."""
    groups, unit = shown.found, shown.identity.unit
    corrected = any(group.two_scores for group in groups)
    slopes = any(group.measure != RATIO for group in groups)
    protected = shown is not found and bool(groups)
    small = any(isinstance(group.value, Limit) or not known(group.value) for group in groups)
    note = MOVED if protected else ""
    note += SMALL.format(suppress, unit) if small and protected else ""
    note += (AFTER_NOTE if corrected else "") + NOTE
    if not groups:
        return [Paragraphs([note])]
    rows = [
        vars(group)
        | {"words": group.words, "people": whole(group.people), "digits": group.digits}
        | {"value_low": group.low, "value_high": group.high}
        for group in groups
    ]
    columns = [
        Column("name", "group"),
        Column("words", "the score is"),
        Column("people", unit, "count"),
        Column("observed", "observed", "percent"),
        Column("predicted", "predicted", "percent"),
        *([Column("predicted_after", "predicted after correction", "percent")] if corrected else []),
        *([Column("measure", "measure", "label")] if slopes else []),
        Column("value", "value" if slopes else RATIO, "decimal"),
        Column("value", "95 % CI after selection", "interval"),
        Column("p_value", "p, adjusted for the search", "p"),
        Column("again", "found again", "share"),
    ]
    title = "Groups for whom the score is wrong by more than chance explains"
    return [*_forest(groups), Table("found", title, columns, rows, note)]


def _forest(groups: Sequence[FoundGroup]) -> list[Block]:
    """O/E ratios of the groups, with their intervals."""
    rows = []
    for group in groups:
        value, low, high = without_limits([group.value, group.low, group.high])
        if group.measure == RATIO and known(value):
            text = f"{ON_PAGE.decimal(value)} ({ON_PAGE.interval(low, high)})"
            rows.append(ForestRow(group.name, value, low, high, text, "high" if value < 1 else "low"))
    after = ", once the errors named before are corrected for" if any(g.two_scores for g in groups) else ""
    description = f"O/E ratio of each group with its 95 % confidence interval after selection{after}."
    axis = ratio_axis([end for row in rows for end in (row.low, row.high)])
    ends = ("score too high", "score too low")
    return [Forest("forest-found", "O/E ratio", description, axis, rows, ends=ends)] if rows else []


def rates_chart(found: Discovery) -> Chart:
    """For each group, the predicted rate, the observed rate, and how many people it has.

    The colour tells on which side of the predicted rate the observed one is: of that after correction for
    earlier findings, if there is one, as the O/E ratio beside it. Slopes are grey.
    """
    if not found.found:
        return "No group was found for whom the score is wrong by more than chance explains."
    names = [f"{group.name} ({found.identity.count(round(group.people))})" for group in found.found]
    corrected = any(group.two_scores for group in found.found)
    marks, texts = [], []
    for y, group in enumerate(found.found):
        before, after, observed = (
            100 * rate for rate in (group.predicted, group.predicted_after, group.observed)
        )
        look = "grey" if group.measure != RATIO else "red" if observed < after else "blue"
        marks.append(Mark("ranges", look, [after], [y], [observed]))
        marks.append(Mark("points", "grey hollow", [before], [y]))
        marks += [Mark("points", "grey hollow diamond", [after], [y])] if corrected else []
        marks.append(Mark("points", look, [observed], [y]))
        limits = IN_TEXT.interval(group.low, group.high)
        texts.append(f"{group.measure} {IN_TEXT.decimal(group.value)}\n(95 % CI {limits})")
    end = " after correction" if corrected else ""
    rates = [(group.observed, group.predicted, group.predicted_after) for group in found.found]
    marks += [
        Mark("texts", "", [], range(len(texts)), names=texts),
        Mark("points", "grey hollow", [], [], name="predicted"),
        *([Mark("points", "grey hollow diamond", [], [], name=f"predicted{end}")] if corrected else []),
        Mark("points", "grey", [], [], name="observed"),
        Mark("line", "blue thick", [], [], name=f"observed above predicted{end}"),
        Mark("line", "red thick", [], [], name=f"observed below predicted{end}"),
    ]
    x = Axis("rate of the outcome, in percent", 0.0, 105 * float(np.max(rates)))
    description = "Observed and predicted rate of each group."
    return Plot("rates", "", description, x, row_axis(names), marks, height=50 * len(names))
