"""What a fit did, in sentences and tables: what it changed and why, and which attributes it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from propcal.auditing.audit_tables import row_dicts
from propcal.core.correction.fit_summary import OUTSIDE, WITHIN_ALPHA, WITHIN_NOISE, FitSummary
from propcal.core.grid import from_grid
from propcal.documents.blocks import Block, Column, Details, Document, Paragraphs, Table, rate_columns
from propcal.documents.words import words
from propcal.numbers import IN_TEXT, capital, listed, noun, plural
from propcal.plain_text import plain

MOST_ROWS, MOST_CELLS = 10, 30
MOST_LISTED = 6
HARDLY = 0.001  # an attribute that changes no score by more than a tenth of a point is not really used
MOST_NAMED = 4


def fit_sentences(summary: FitSummary, fewest: int) -> list[str]:
    """The summary in sentences; counts of fewer people that were left out are not given."""
    told = [_what_was_done(summary), *_what_was_found(summary)]
    told += [_how_cells_are(summary)] if summary.enough else []
    told += attribute_sentences(summary.effects, summary.without_effect)
    told += [plain(f"{capital(note)}.") for note in summary.notes]
    left_out = summary.left_out.sentence(fewest, unit=summary.unit, labels=summary.level_labels)
    return [*told, plain(left_out)] if left_out else told


def _what_was_found(summary: FitSummary) -> list[str]:
    """Why the score was changed: what tests found in the fitting data."""
    if not summary.n_updates or not summary.found:
        return []
    more = len(summary.found) - MOST_LISTED // 2
    names = [plain(summary.labels.get(name, name)) for name in summary.found[: MOST_LISTED // 2]]
    names += [f"and {more:,} more"] if more > 0 else []
    return [f"Tests found the raw score miscalibrated ({'; '.join(names)})."]


def _how_cells_are(summary: FitSummary) -> str:
    """How many cells are within tolerance."""
    n, noise, outside = len(summary.people), summary.count(WITHIN_NOISE), summary.count(OUTSIDE)
    if n == 0:
        return "No cell has enough data to judge."
    chance = " or within chance" if noise else ""
    rest = n - outside
    inside = f"{f'{rest:,}' if rest else 'none'} of" if outside else {1: "the only", 2: "both"}.get(n, "all")
    of = noun(n, "cell") if n < 3 and not outside else plural(n, "cell")
    are = "is" if rest == 1 else "are"
    told = f"In the fitting data, {inside} {of} (subgroup and risk range) {are} within tolerance{chance}"
    more = " by more than chance explains" if summary.z > 0 else ""
    exceeds = f"; {outside:,} {'exceeds' if outside == 1 else 'exceed'} it{more} ({summary.why})"
    return f"{told}{exceeds if outside else ''}."


def _what_was_done(summary: FitSummary) -> str:
    if not summary.n_updates:
        return f"No change: {_why_no_change(summary)}."
    adjustments = summary.n_updates - summary.smooth
    told = "Recalibrated with a smooth curve" if summary.smooth else "Corrected"
    if adjustments:
        also = " and " if summary.smooth else " by "
        told += f"{also}{plural(adjustments, 'adjustment')} of {noun(adjustments, 'cell')}"
    return f"{told}, fitted to {summary.n_people:,} {summary.unit}."


def _why_no_change(summary: FitSummary) -> str:
    """Why the fit changed nothing; this does not always mean that it found nothing wrong."""
    if not summary.enough or not len(summary.people):
        return "there are not enough data to judge the score"
    if summary.calm:
        return f"no miscalibration found in the {summary.n_people:,} {summary.unit} used to fit"
    if summary.count(OUTSIDE):
        return summary.why
    limit = f" or off by less than {summary.z:.3g} standard errors" if summary.count(WITHIN_NOISE) else ""
    return f"every cell is within tolerance{limit}; smaller errors were not looked for"


def worst_cells(summary: FitSummary) -> list[str]:
    """The worst of the cells that are not within tolerance, one line each."""
    off = [int(i) for i in summary.worst_first() if summary.status[i] != WITHIN_ALPHA]
    lines = [_cell(summary, i) for i in off[:MOST_LISTED]]
    more = len(off) - len(lines)
    return [*lines, f"... and {more:,} more; see to_frame()"] if more else lines


def _cell(summary: FitSummary, i: int) -> str:
    """One cell with its numbers."""
    name = summary.collection.kept[summary.group[i]].group.name
    name = plain(summary.labels.get(name, name))
    low, high = from_grid(summary.bins.edges[summary.bin[i] : summary.bin[i] + 2])
    rates = (summary.outcome_rate, summary.mean_score, summary.standard_error)
    observed, predicted, error = (IN_TEXT.percent(values[i]) for values in rates)
    return (
        f"{summary.status[i]}: {name}, predicted risk {100 * low:.3g}-{100 * high:.3g} %: "
        f"{IN_TEXT.whole(summary.people[i])} people, observed {observed}, predicted {predicted} "
        f"(standard error {error})"
    )


def attribute_sentences(effects: Mapping[str, float], without: Sequence[str] = ()) -> list[str]:
    """Which attributes scores depend on, which ones are read but hardly used, and which are not read.

    >>> for sentence in attribute_sentences({"race": 0.0, "sex": 0.0342, "ward": 0.0004}, ["age", "payer"]):
    ...     print(sentence)
    Corrected scores depend on sex.
    The correction reads race and ward, but they change nobody's score by more than 0.1 percentage points.
    age and payer: no effect found, so the correction does not read them.
    """
    used = [plain(name) for name, effect in effects.items() if effect > HARDLY]
    more = len(used) - MOST_NAMED
    if more > 1:
        used = [*used[:MOST_NAMED], f"{more:,} other attributes"]
    told = [f"Corrected scores depend on {listed(used)}."] if used else []
    idle = [name for name, effect in effects.items() if effect <= HARDLY]
    if idle:
        they = f"{plain(idle[0])} changes" if len(idle) == 1 else "they change"
        most = max(effects[name] for name in idle)
        limit = IN_TEXT.decimal(ceil(1000 * most) / 10, 1)  # rounded up
        further = f" by more than {limit} percentage points" if most else ""
        names = listed([plain(name) for name in idle])
        told.append(f"The correction reads {names}, but {they} nobody's score{further}.")
    if without:
        names, them = listed([plain(name) for name in without]), "it" if len(without) == 1 else "them"
        told.append(f"{names}: no effect found, so the correction does not read {them}.")
    return told


def fit_document(summary: FitSummary) -> Document:
    """The summary of a fit: sentences, and the cells that are not within tolerance, the worst first."""
    status = [Column("bin", "scores in", "label"), Column("status", "status", "label")]
    error = Column("standard_error", "standard error", "percent")
    columns = [Column("group", "group"), *status, *rate_columns(summary.unit), error]
    rows = [row | {"people": round(row["people"])} for row in _cells_off(summary)]
    table = Table("cells", "Cells not within tolerance", columns, rows, most=MOST_ROWS, item="cell")
    blocks: list[Block] = [Paragraphs(summary.sentences()), *([table] if rows else [])]
    return Document("Fit summary", "Fit summary", blocks)


def fit_blocks(summary: FitSummary) -> list[Block]:
    """What a page says of a fit, without counts."""
    blocks: list[Block] = [Paragraphs([*summary.sentences(), words("tables", "fit")], "Fit summary")]
    if rows := _cells_off(summary):
        range_and_status = [Column("bin", "predicted risk", "range"), Column("status", "status")]
        more = len(rows) - MOST_CELLS
        title = f"Not within tolerance{f'; {more} more are not shown' if more > 0 else ''}"
        table = Table("outside", title, [Column("group", "group"), *range_and_status], rows[:MOST_CELLS])
        blocks.append(Details("Cells that are not within tolerance", [table]))
    return blocks


def _cells_off(summary: FitSummary) -> list[dict[str, Any]]:
    """Rows of the cells that are not within tolerance, the worst first."""
    frame = summary.to_frame()
    names = [summary.labels.get(name, name) for name in frame["group"]]
    return row_dicts(frame.assign(group=names)[frame["status"] != WITHIN_ALPHA])
