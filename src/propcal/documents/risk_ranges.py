"""At which risks a score is wrong: cells in a heat map, losses, measures without bins,
groups compared.
"""

from __future__ import annotations

from collections.abc import Mapping
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
BRIEF_CELLS = 3


def risk_ranges(audit: Audit) -> Section:
    """Cells and losses, unless shared atoms leave them too uncertain; a note then says
    so.
    """
    blocks: list[Block] = []
    if not audit.cells_unsure:
        blocks = [*_heat(audit), *_clearest_cells(audit), *_losses(audit)]
    return Section(
        "heat", "At which risks?", [*blocks, *_bin_free(audit)], link="Risk ranges"
    )


def _cell_rows(audit: Audit) -> list[dict[str, Any]]:
    rows = row_dicts(audit.categories)
    labels = audit.labels
    for place, row in enumerate(rows):
        row |= {"label": labels.get(row["group"], row["group"]), "key": place}
        row["look"] = LOOKS.get(row["finding"], "noise")
    return rows


def _heat(audit: Audit) -> list[Block]:
    """The heat map, and every cell in numbers."""
    rows = _cell_rows(audit)
    if not rows:
        return [Paragraphs(["There are no cells."], places=At.PAGE)]
    labels, by_group = heat_rows(audit)
    looks = {cell["look"] for _, cells in by_group for cell in cells}
    limit = next(
        (cell for _, cells in by_group for cell in cells if cell.get("limited")), None
    )
    hidden = [look for look in ("noise", "high", "low") if f"{look} hidden" in looks]
    ranges = [Column(str(i), label, "word") for i, label in enumerate(labels)]
    marks = [
        {"label": name, **{str(i): cell["mark"] for i, cell in enumerate(cells)}}
        for name, cells in by_group
    ]
    every = table("categories", rows, unit=audit.identity.unit)
    return [
        Fragment(
            "heat.html",
            lambda: {
                "ranges": labels,
                "rows": by_group,
                "hidden": hidden,
                "limit": limit,
            },
        ),
        table("by-risk", marks, ranges=ranges),
        Details(f"Every cell in numbers ({len(rows)})", [every], key="all-categories"),
    ]


def heat_rows(audit: Audit) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """The cells of each group in the order of the risk ranges."""
    nobody = {"text": "", "words": "nobody", "look": "nobody", "mark": "–"}
    labels = bin_labels(audit.settings["edges"])
    by_group: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for row in _cell_rows(audit):
        _, cells = by_group.setdefault(
            row["group"], (row["label"], [nobody] * len(labels))
        )
        cells[labels.index(row["bin"])] = _heat_cell(row)
    return [risk_range(label) for label in labels], [*by_group.values()]


def _heat_cell(row: Mapping[str, Any]) -> dict[str, Any]:
    finding = row["finding"]
    gap = row["gap"]
    look = row["look"]
    found = look in ("high", "low")
    limited = isinstance(gap, Limit)
    if not known(gap) or (limited and not found):
        meaning = f"{finding}, number withheld to protect a small count"
        text = finding if found else ""
        look += " hidden"
    elif finding == NOT_ENOUGH:
        meaning = finding
        text = ""
    else:
        size = abs(float(gap))
        if not found or limited or size >= 0.01:
            digits = 0
        elif size >= 0.001:
            digits = 1
        else:
            digits = 2
        text = ON_PAGE.points(float(gap), digits)
        text = f"{gap.side} {text}" if limited else text
        meaning = f"{finding}, gap {text} percentage points"
        look += f" s{1 + int(np.searchsorted(SHADES, abs(gap)))}" if found else ""
    if found:
        mark = f"{text} *"
    else:
        mark = text or ("few" if finding == NOT_ENOUGH else "–")
    shown = {
        "text": text,
        "words": meaning,
        "look": look,
        "place": row["key"],
        "mark": mark,
    }
    return shown | {"limited": limited and bool(text)}


def _clearest_cells(audit: Audit) -> list[Block]:
    worst = clearest_cells(audit.categories)
    labels = audit.labels
    if not len(worst):
        return [Paragraphs(["No cell has enough data to judge."], places=At.TEXT)]
    sure = bool(worst["beyond"].any())
    rows = row_dicts(worst)
    for i, row in enumerate(rows):
        label = labels.get(row["group"], row["group"])
        row |= {
            "label": f"* {label}" if row["beyond"] else label,
            "brief": i < BRIEF_CELLS,
        }
    about = {
        "sure": sure,
        "untested": not sure and bool(worst["low"].isna().all()),
        "unsupported": not sure
        and bool(((worst["low"] > 0) | (worst["high"] < 0)).any()),
    }
    return [table("clearest", rows, unit=audit.identity.unit, **about)]


def _losses(audit: Audit) -> list[Block]:
    rows = row_dicts(audit.losses.reset_index())
    for row in rows:
        measure = MEASURE_NAMES[str(row["name"])]
        row |= {"digits": measure.digits, "measure": measure.name}
    blocks: list[Block] = [table("losses", rows)]
    gaps = [row for row in row_dicts(audit.debiased.reset_index()) if known(row["rms"])]
    if gaps:
        blocks.append(
            Paragraphs(
                [words("tables", "typical", gaps=gaps)], places=At.TEXT | At.WRITTEN
            )
        )
    return blocks


def _bin_free(audit: Audit) -> list[Block]:
    """Measures that need no bins, if the audit has them."""
    found = audit.bin_free
    if found is None:
        return []
    if found.table.empty:
        return [Paragraphs([found.sentence])]
    smooth = found.of("smooth_ece")
    rows = [
        row
        | {"finding": row["direction"] if row["adjusted_p"] <= SIGNIFICANCE else ""}
        | {
            f"smooth_{name}": smooth.loc[row["group"], name]
            for name in ("value", "chance_95", "adjusted_p")
        }
        for row in row_dicts(found.of("ecce").reset_index())
    ]
    return [table("bin-free", rows), Paragraphs([found.sentence])]


def groups_apart(audit: Audit, suppress: int) -> Section:
    """For each risk range the two groups whose rates are furthest apart, among those
    shown.
    """
    found = dc_by_bin(audit)
    rho = float(audit.settings["rho"])
    labels = audit.labels
    floor = f"{100 * rho:g} %"
    rows = [
        row
        | {name: labels.get(row[name], row[name]) for name in ("highest", "lowest")}
        | {"ratio": np.exp(row["dc"])}
        | (
            {"ratio": f"both below {floor}"}
            if max(row["highest_rate"], row["lowest_rate"]) < rho
            else {}
        )
        for row in row_dicts(found[found["dc"].notna()])
    ]
    none = Paragraphs(["No risk range has two groups with enough data to compare."])
    blocks: list[Block] = [none]
    if rows:
        about = Paragraphs([words("tables", "apart", floor=floor)])
        blocks = [about, table("dc", rows, suppress=suppress)]
    return Section(
        "apart",
        "The same score, different groups",
        blocks,
        "Groups compared",
        At.WRITTEN,
    )
