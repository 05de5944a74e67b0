"""At which risks a score is wrong.

Cells in a heat map, losses, measures without bins, and groups compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from propcal.auditing.audit import Audit
from propcal.auditing.audit_claims import clearest_cells
from propcal.auditing.audit_tables import row_dicts
from propcal.auditing.loss_intervals import dc_by_bin
from propcal.auditing.names import MEASURE_NAMES, NOT_ENOUGH
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE
from propcal.core.bins import bin_labels
from propcal.documents.blocks import (
    At,
    Block,
    Column,
    Details,
    Fragment,
    Paragraphs,
    Section,
)
from propcal.documents.charts import LOOKS
from propcal.documents.words import table, words
from propcal.numbers import ON_PAGE, Limit, known, risk_range

SHADES = (0.025, 0.05, 0.1)  # gaps from which cells of the heat map are darker
BRIEF_CELLS = 3  # rows in a short terminal


def risk_ranges(audit: Audit) -> Section:
    """Cells and losses, unless shared atoms leave them too uncertain; a note then says
    so.
    """
    blocks: list[Block] = []
    if not audit.cells_unsure:
        blocks = [*_heat(audit), *_clearest_cells(audit), *_losses(audit)]
    blocks += _bin_free(audit)
    return Section("heat", "At which risks?", blocks, link="Risk ranges")


@dataclass(frozen=True)
class HeatCell:
    """A cell of the heat map: its gap in print, what it means, and how it looks.

    `mark` stands for it in a table, `place` is its row among all cells, and it is
    `limited` if only a limit of its gap may be shown.
    """

    text: str
    meaning: str
    look: str
    mark: str
    place: int | None = None
    limited: bool = False


NOBODY_THERE = HeatCell("", "nobody", "nobody", "–")
HeatRow = tuple[str, list[HeatCell]]  # the label of a group, and its cells


def _cell_rows(audit: Audit) -> list[dict[str, Any]]:
    rows = row_dicts(audit.categories)
    labels = audit.labels
    for place, row in enumerate(rows):
        row["label"] = labels.get(row["group"], row["group"])
        row["key"] = place
        row["look"] = LOOKS.get(row["finding"], "noise")
    return rows


def _heat(audit: Audit) -> list[Block]:
    """The heat map, and every cell in numbers."""
    rows = _cell_rows(audit)
    if not rows:
        return [Paragraphs(["There are no cells."], places=At.PAGE)]

    ranges, by_group = heat_rows(audit)
    cells = [cell for _, of_group in by_group for cell in of_group]
    looks = {cell.look for cell in cells}
    limit = next((cell for cell in cells if cell.limited), None)
    hidden = [look for look in ("noise", "high", "low") if f"{look} hidden" in looks]
    content = {"ranges": ranges, "rows": by_group, "hidden": hidden, "limit": limit}

    columns = [Column(str(place), label, "word") for place, label in enumerate(ranges)]
    marks = [_marks(label, of_group) for label, of_group in by_group]
    every = table("categories", rows, unit=audit.identity.unit)
    heading = f"Every cell in numbers ({len(rows)})"
    return [
        Fragment("heat.html", lambda: content),
        table("by-risk", marks, ranges=columns),
        Details(heading, [every], key="all-categories"),
    ]


def _marks(label: str, cells: list[HeatCell]) -> dict[str, str]:
    """A group in a table of marks."""
    marks = {str(place): cell.mark for place, cell in enumerate(cells)}
    return {"label": label, **marks}


def heat_rows(audit: Audit) -> tuple[list[str], list[HeatRow]]:
    """The risk ranges, and the cells of each group in their order."""
    labels = bin_labels(audit.settings["edges"])
    by_group: dict[str, HeatRow] = {}
    for row in _cell_rows(audit):
        empty = (row["label"], [NOBODY_THERE] * len(labels))
        _, cells = by_group.setdefault(row["group"], empty)
        cells[labels.index(row["bin"])] = _heat_cell(row)
    return [risk_range(label) for label in labels], [*by_group.values()]


def _heat_cell(row: Mapping[str, Any]) -> HeatCell:
    finding = row["finding"]
    gap = row["gap"]
    look = row["look"]
    wrong = look in ("high", "low")
    limited = isinstance(gap, Limit)
    if not known(gap) or (limited and not wrong):
        text = ""
        if wrong:
            text = finding
        meaning = f"{finding}, number withheld to protect a small count"
        look += " hidden"
    elif finding == NOT_ENOUGH:
        text = ""
        meaning = finding
    else:
        text = _gap_text(gap, with_digits=wrong and not limited)
        meaning = f"{finding}, gap {text} percentage points"
        if wrong:
            look += f" s{1 + int(np.searchsorted(SHADES, abs(gap)))}"

    if wrong:
        mark = f"{text} *"
    elif text:
        mark = text
    elif finding == NOT_ENOUGH:
        mark = "few"
    else:
        mark = "–"
    return HeatCell(text, meaning, look, mark, row["key"], limited and bool(text))


def _gap_text(gap: float, *, with_digits: bool) -> str:
    """A gap in percentage points; digits after the point show that a small
    one is not 0.
    """
    size = abs(float(gap))
    digits = 0
    if with_digits and size < 0.01:
        digits = 1 if size >= 0.001 else 2
    text = ON_PAGE.points(float(gap), digits)
    if isinstance(gap, Limit):
        return f"{gap.side} {text}"
    return text


def _clearest_cells(audit: Audit) -> list[Block]:
    """The cells with the clearest gaps, in a terminal."""
    worst = clearest_cells(audit.categories)
    if not len(worst):
        return [Paragraphs(["No cell has enough data to judge."], places=At.TEXT)]

    sure = bool(worst["beyond"].any())
    low = worst["low"]
    high = worst["high"]
    untested = not sure and bool(low.isna().all())
    unsupported = not sure and bool(((low > 0) | (high < 0)).any())
    labels = audit.labels
    rows = row_dicts(worst)
    for place, row in enumerate(rows):
        label = labels.get(row["group"], row["group"])
        if row["beyond"]:
            label = f"* {label}"
        row["label"] = label
        row["brief"] = place < BRIEF_CELLS
    about = {"sure": sure, "untested": untested, "unsupported": unsupported}
    return [table("clearest", rows, unit=audit.identity.unit, **about)]


def _losses(audit: Audit) -> list[Block]:
    rows = row_dicts(audit.losses.reset_index())
    for row in rows:
        measure = MEASURE_NAMES[str(row["name"])]
        row["digits"] = measure.digits
        row["measure"] = measure.name
    blocks: list[Block] = [table("losses", rows)]
    gaps = [row for row in row_dicts(audit.debiased.reset_index()) if known(row["rms"])]
    if gaps:
        typical = words("tables", "typical", gaps=gaps)
        blocks.append(Paragraphs([typical], places=At.TEXT | At.WRITTEN))
    return blocks


def _bin_free(audit: Audit) -> list[Block]:
    """Measures that need no bins, if the audit has them."""
    found = audit.bin_free
    if found is None:
        return []
    if found.table.empty:
        return [Paragraphs([found.sentence])]

    smooth = found.of("smooth_ece")
    rows = row_dicts(found.of("ecce").reset_index())
    for row in rows:
        sure = row["adjusted_p"] <= SIGNIFICANCE
        row["finding"] = ""
        if sure:
            row["finding"] = row["direction"]
        for name in ("value", "chance_95", "adjusted_p"):
            row[f"smooth_{name}"] = smooth.loc[row["group"], name]
    return [table("bin-free", rows), Paragraphs([found.sentence])]


def groups_apart(audit: Audit, suppress: int) -> Section:
    """For each risk range the two groups whose rates are furthest apart, among those
    shown.
    """
    found = dc_by_bin(audit)
    rho = float(audit.settings["rho"])
    floor = f"{100 * rho:g} %"
    labels = audit.labels
    rows = row_dicts(found[found["dc"].notna()])
    for row in rows:
        row["highest"] = labels.get(row["highest"], row["highest"])
        row["lowest"] = labels.get(row["lowest"], row["lowest"])
        row["ratio"] = np.exp(row["dc"])
        if max(row["highest_rate"], row["lowest_rate"]) < rho:
            row["ratio"] = f"both below {floor}"

    none = Paragraphs(["No risk range has two groups with enough data to compare."])
    blocks: list[Block] = [none]
    if rows:
        about = Paragraphs([words("tables", "apart", floor=floor)])
        blocks = [about, table("dc", rows, suppress=suppress)]
    title = "The same score, different groups"
    return Section("apart", title, blocks, "Groups compared", At.WRITTEN)
