"""Group by group: the table of the groups tested, and of those that were not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from propcal.auditing import names as finding
from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.documents.blocks import (
    RATIO,
    At,
    Block,
    Column,
    Details,
    Paragraphs,
    Section,
)
from propcal.documents.charts import LOOKS
from propcal.documents.sentences import verdict
from propcal.documents.sentences.claim_lists import split
from propcal.documents.words import all_words, table, words
from propcal.numbers import Limit, excludes_one, plural

BRIEF_GROUPS = 5  # rows in a short terminal

Row = Mapping[str, Any]


def group_section(audit: Audit, score: str) -> Section:
    """Each group; a short terminal shows everybody and the groups that matter most."""
    rows = [_shown(row) for row in row_dicts(audit.groups)]
    tested, untested = split(rows, lambda row: row["kept"])
    tested = _most_important_first(audit, tested)
    explained = any(row["explained"] for row in tested)
    marks = all_words("marks", tested=len(audit.verdict.tests))
    used_marks = dict.fromkeys(
        marks[row["told"]] for row in tested if row["told"] in marks
    )

    reading = words("tables", "groups", explained=explained)
    groups = _table_of_tested(audit, tested, score, explained=explained)
    blocks: list[Block] = [
        Paragraphs([reading], places=At.PAGE),
        replace(groups, legend=marks),
        Paragraphs(list(used_marks), places=At.WRITTEN),
    ]
    if untested:
        blocks.append(_untested(audit, untested))
    return Section("groups", "Group by group", blocks, link="Groups")


def _shown(row: Row) -> dict[str, Any]:
    """A row with how it looks, and its finding in a wide and a narrow table."""
    return {
        **row,
        "look": look_of(row),
        "mark": _mark(row),
        "told": _finding(row),
        "explained": verdict.explained(row),
    }


def _not_named(row: Row) -> bool:
    """Whether the score is off for a group that the verdict does not name."""
    return row["finding"] in finding.WRONG and not row["rank"]


def look_of(row: Row) -> str:
    """How a group is drawn: in colour if the verdict names it."""
    if _not_named(row):
        return "noise"
    return LOOKS.get(row["finding"], "few")


def _finding(row: Row) -> str:
    """A finding, in brackets if the score is off and the verdict does not name the
    group.
    """
    if _not_named(row):
        return f"({row['finding']})"
    return str(row["finding"])


def _mark(row: Row) -> str:
    """A finding in a narrow table: "+" if it is near one, and nothing if it could be
    chance.
    """
    if row["finding"] in finding.WRONG:
        return _finding(row)
    if row["compared"]:
        return str(row["compared"])
    if row["finding"] == finding.NOT_ENOUGH:
        return "few data"
    by_itself = excludes_one(row[f"{RATIO}_low"], row[f"{RATIO}_high"])
    if row["finding"] == finding.CHANCE and by_itself:
        return "+"
    return ""


def _most_important_first(
    audit: Audit, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Everybody, then the groups that the verdict names, or those with the lowest
    p-values if it names none; these are the rows of a short terminal.
    """
    everybody, *groups = rows
    named = sorted(
        (row for row in groups if row["rank"] > 0), key=lambda row: row["rank"]
    )
    first = named or clearest_groups(audit, groups)
    for row in groups:
        row["brief"] = row in first
    everybody["brief"] = True
    return [everybody, *first, *(row for row in groups if not row["brief"])]


def clearest_groups(
    audit: Audit, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The groups with the lowest p-values, among those that may be shown."""
    p_values = {
        row["test"]: row["p_value"]
        for row in row_dicts(audit.verdict.tests)
        if not isinstance(row["p_value"], Limit)
    }
    by_p_value = sorted(rows, key=lambda row: p_values.get(row["group"], 1.0))
    return by_p_value[: BRIEF_GROUPS - 1]


def _table_of_tested(
    audit: Audit, rows: Sequence[Row], score: str, *, explained: bool
) -> Any:
    measures = [
        _column_of(measure)
        for measure in finding.MEASURE_NAMES.values()
        if measure.of_groups
    ]
    unit = audit.identity.unit
    about = {"score": score, "unit": unit, "explained": explained}
    return table("groups", rows, measures=measures, **about)


def _column_of(measure: finding.MeasureName) -> Column:
    places = At.WRITTEN
    if measure.in_terminal:
        places |= At.SCREEN
    return Column(
        measure.key, measure.name, "decimal", measure.digits, places, minor=True
    )


def _untested(audit: Audit, rows: Sequence[Row]) -> Details:
    """Groups that are shown, with the reason why they were not tested."""
    heading = f"Shown but not tested: {plural(len(rows), 'group')}"
    is_protected = audit._source is None
    about = {"unit": audit.identity.unit, "protected": is_protected}
    left_out = table("left", rows, heading=heading, **about)
    return Details(heading, [left_out], places=At.TEXT | At.WRITTEN, printed=True)
