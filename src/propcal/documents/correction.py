"""What a fit did, and what its correction does to scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.auditing.audit_tables import row_dicts
from propcal.core.correction.fit_summary import (
    OUTSIDE,
    WITHIN_ALPHA,
    WITHIN_NOISE,
    FitSummary,
    attribute_effects,
)
from propcal.core.correction.points_table import PER_UNIT, PointsTable
from propcal.core.grid import UNIT, FloatArray, from_grid
from propcal.core.groups.collection import pattern_name
from propcal.documents.audit_charts import unknown
from propcal.documents.blocks import Block, Column, Details, Document, Paragraphs, Table
from propcal.documents.charts import Axis, Mark, Plot, round_axis, row_axis
from propcal.documents.words import table, words
from propcal.numbers import IN_TEXT, adding_up, capital, listed, noun, plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST_ROWS, MOST_CELLS, MOST_PATTERNS, MOST_ON_PAGE = 10, 30, 8, 6
LONGEST_NOTE = 200  # letters of a note
MOST_LISTED, MOST_NAMED = 6, 4
HARDLY = 0.001  # an attribute that changes no score by more than a tenth of a point is not really used
SCORES = np.linspace(0, 1, 501)
DOES = "What the correction does"
MOST_OF_ALL = 0.5  # of the gain, or of the variance of points


def fit_sentences(summary: FitSummary, fewest: int) -> list[str]:
    """The summary in sentences; counts of fewer people that were left out are not given."""
    told = [_what_was_done(summary), *_what_was_found(summary)]
    told += [_how_cells_are(summary)] if summary.enough else []
    told += attribute_sentences(summary.effects, summary.without_effect)
    told += gain_sentences(summary)
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
    points = None if summary.correction is None else summary.correction.points
    adjustments = summary.n_updates - summary.smooth - (points is not None)
    told = "Recalibrated with a smooth curve" if summary.smooth else "Corrected"
    parts = [] if points is None else [f"points of {plural(len(points.features), 'feature')}"]
    if adjustments:
        parts.append(f"{plural(adjustments, 'adjustment')} of {noun(adjustments, 'cell')}")
    if parts:
        told += (", " if len(parts) > 1 else " and ") * summary.smooth + " by " * (not summary.smooth)
        told += " and ".join(parts)
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


def gain_sentences(summary: FitSummary) -> list[str]:
    """What points gain for people who were left out of the fit, and where the whole gain comes from."""
    gains, correction = summary.gains, summary.correction
    if gains is None or correction is None:
        return []
    size = f"{IN_TEXT.decimal(gains.points, 4)} ({IN_TEXT.decimal(gains.points_z, 1)} standard errors)"
    if correction.points is None:
        return [
            f"No points were added: {plural(gains.n_features, 'feature')} did not reduce the log loss of "
            f"{summary.unit} left out of the fit by more than chance explains; the gain was {size}."
        ]
    shares = [f"{n} %" for n in adding_up([100 * share for share in gains.shares], 100)]
    told = [
        f"Points reduce the log loss of {summary.unit} left out of the fit by {size}. Of the cross-validated "
        f"gain, {shares[0]} comes from the overall curve, {shares[1]} from the groups and {shares[2]} from "
        "the points."
    ]
    name, largest = plain(max(gains.spread, key=gains.spread.__getitem__)), f"{100 * gains.largest:.0f} %"
    if gains.shares[2] > MOST_OF_ALL and gains.largest < MOST_OF_ALL and len(gains.spread) > 2:
        told.append(
            f"The error is spread over many features: retrain the model. Of the {len(gains.spread)} features "
            f"with points, {name} has the largest share of their variance, {largest}."
        )
    elif gains.shares[2] > MOST_OF_ALL and gains.largest >= MOST_OF_ALL:
        told.append(f"Most of the points are those of {name}: it has {largest} of their variance.")
    return told


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
    rows = [row | {"people": round(row["people"])} for row in _cells_off(summary)]
    cells = [table("cells", rows, unit=summary.unit)] if rows else []
    blocks: list[Block] = [Paragraphs(summary.sentences()), *cells]
    return Document("Fit summary", "Fit summary", blocks)


def fit_blocks(summary: FitSummary) -> list[Block]:
    """What a page says of a fit, without counts."""
    blocks: list[Block] = [Paragraphs([*summary.sentences(), words("tables", "fit")], "Fit summary")]
    if rows := _cells_off(summary):
        cells = table("outside", rows[:MOST_CELLS], more=len(rows) - MOST_CELLS)
        blocks.append(Details("Cells that are not within tolerance", [cells]))
    return blocks


def _cells_off(summary: FitSummary) -> list[dict[str, Any]]:
    """Rows of the cells that are not within tolerance, the worst first."""
    frame = summary.to_frame()
    names = [summary.labels.get(name, name) for name in frame["group"]]
    return row_dicts(frame.assign(group=names)[frame["status"] != WITHIN_ALPHA])


def correction_document(correction: Correction) -> Document:
    """Who made a correction from what, what it reads, its largest effects and its largest updates."""
    about = correction.about
    settings = ", ".join(f"{key}={about[key]:g}" for key in ("alpha", "gamma", "rho", "eta") if key in about)
    facts = [
        f"{settings}. Reads {', '.join(correction.reads) or 'no columns'}; {len(correction.groups)} groups, "
        f"{len(correction.bins)} {correction.bins.kind} bins, {plural(correction.n_updates, 'update')}, "
        f"{plural(correction.n_segments, 'segment')}."
    ]
    if correction.not_read:
        facts.append(f"It was given {listed([*correction.not_read])}, found no effect, and does not read it.")
    if not correction.n_updates:
        facts.append("It changes no score.")
    if correction.start is not None:
        facts.append(f"A recalibration (smooth curve) with {len(correction.start.groups)} terms comes first.")
    first = (correction.start is not None) + (correction.points is not None)
    order = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")[:MOST_ROWS] + first
    updates = correction.update_list()
    rows = [{"update": int(i) + 1, **updates[i]._asdict()} for i in order]
    tables = [table("effects", effects(correction))] if correction.n_updates else []
    tables += [table("updates", rows, all=len(rows) == len(updates), n=len(rows))] if rows else []
    tables += [] if correction.points is None else [_points_table(correction.points)]
    blocks: list[Block] = [Paragraphs(provenance(correction)), Paragraphs(facts), *tables]
    return Document("Correction", f"Correction by {about.get('method', 'hand')}", blocks)


def _points_table(points: PointsTable) -> Table:
    """The largest points."""
    largest = sorted(points.rows(), key=lambda row: -abs(row[2]))
    rows = [{"column": column, "range": label, "points": own / PER_UNIT} for column, label, own in largest]
    return table("points", rows)


def points_chart(points: PointsTable, column: str | None = None) -> Plot:
    """The points of one column as bars, a row for each level or range."""
    names = list(points.columns)
    if column is not None and column not in names:
        raise unknown("column", column, names)
    widest = max(points.features, key=lambda f: max(f.points) - min(f.points)).column
    feature = points.features[names.index(column or widest)]
    rows = [(label, own / PER_UNIT) for label, own in zip(feature.labels, feature.pieces) if own is not None]
    values = np.array([value for _, value in rows])
    marks = [
        Mark("row-bars", "red" if value > 0 else "blue", [0.0], [row], [value])
        for row, value in enumerate(values)
        if value
    ]
    most = float(np.abs(values).max()) * 1.1
    x = Axis(f"log-odds added for {plain(feature.column)}", -most, most)
    told = "Log-odds that each level or range adds to a score."
    labels = row_axis([plain(label) for label, _ in rows])
    return Plot("points", plain(feature.column), told, x, labels, marks, height=60 + 24 * len(rows))


def provenance(correction: Correction) -> list[str]:
    """Who made a correction from what, as far as its file says."""
    about, told = correction.about, []
    if "score" in about or "people" in about:
        of = f" {about['score']!r}" if "score" in about else ""
        outcome = f" and the outcome {about['outcome']!r}" if "outcome" in about else ""
        people = f" of {_band(*about['people'])} people" if "people" in about else ""
        told.append(f"Fitted to the score{of}{outcome}{people}.")
    if "propcal" in about:
        when = f", first saved {about['created']}" if "created" in about else ""
        told.append(f"Made with propcal {about['propcal']}{when}.")
    if correction.is_shared:
        told.append("It was prepared for sharing.")
    told.append(f"ID: {correction.model_id}.")
    for name, note in about.get("user", {}).items():
        text = note if isinstance(note, str) else json.dumps(note, ensure_ascii=False)
        told.append(f"Note: {plain(name, LONGEST_NOTE)}: {plain(text, LONGEST_NOTE)}")
    return told


def _band(low: int, high: int | None) -> str:
    if high is None:
        return f"at least {low:,}"
    return f"{low:,} to {high:,}" if low else f"fewer than {high + 1:,}"


def effects(correction: Correction) -> list[dict[str, Any]]:
    """For the patterns that change most: the raw score that changes most, and what it becomes."""
    names = [pattern_name(correction.patterns, p) for p in range(len(correction.patterns))]
    rows = []
    for curve in most_changed(correction, MOST_ROWS):
        at = int(np.argmax(np.abs(curve.corrected - SCORES)))
        score, corrected = float(SCORES[at]), float(curve.corrected[at])
        rows.append({"who": curve.called(names), "score": score, "corrected": corrected})
    return [row for row in rows if row["score"] != row["corrected"]]


@dataclass(frozen=True, eq=False)
class PatternCurve:
    """The corrected score at each of `SCORES`, and the patterns that share it."""

    patterns: list[int]
    corrected: FloatArray

    def called(self, names: Sequence[str]) -> str:
        """The name of the first pattern, and how many share its curve."""
        more = f" (and {len(self.patterns) - 1} more)" if len(self.patterns) > 1 else ""
        return f"{names[self.patterns[0]]}{more}"


def most_changed(correction: Correction, most: int) -> list[PatternCurve]:
    """The curves that differ most from no change, the largest difference first."""
    found: dict[bytes, PatternCurve] = {}
    for pattern in range(len(correction.patterns)):
        curve = correction.maps.apply(SCORES, np.full(len(SCORES), pattern))
        found.setdefault(curve.tobytes(), PatternCurve([], curve)).patterns.append(pattern)
    return sorted(found.values(), key=lambda each: -float(np.abs(each.corrected - SCORES).mean()))[:most]


def correction_chart(correction: Correction, patterns: Sequence[str] | None = None) -> Plot:
    """Raw against corrected score for patterns, by name or those that change most, with the bins shaded."""
    names = [pattern_name(correction.patterns, p) for p in range(len(correction.patterns))]
    for name in patterns or ():
        if name not in names:
            raise unknown("pattern", name, names)
    if patterns is None:
        changed = sorted(most_changed(correction, MOST_PATTERNS), key=lambda each: each.patterns)
        plot = _map_plot(correction, {each.patterns[0]: each.called(names) for each in changed})
        note = f"of {len(names)} patterns, those that change most"
    else:
        plot, note = _map_plot(correction, {names.index(name): name for name in patterns}), ""
    # the bins of the updates are bins of the score after a smooth start, which this axis does not show
    edges = from_grid(correction.bins.edges) if correction.start is None else np.empty(0)
    low, high = edges[: len(edges) // 2 * 2].reshape(-1, 2).T
    shade = Mark("bars", "shade", low, np.ones(len(low)), high)
    return replace(plot, marks=[shade, *plot.marks], width=480, height=480, note=note)


def _map_plot(correction: Correction, called: Mapping[int, str]) -> Plot:
    """Raw against corrected score of patterns, under these names."""
    marks = [Mark("line", "guide", [0, 1], [0, 1], name="no change")]
    for i, (pattern, name) in enumerate(called.items()):
        x, y = _corners(correction, pattern)
        marks.append(Mark("line", f"series series-{i}", x, y, name=name))
        marks.append(Mark("line", f"series series-{i} thin", x[~np.isnan(y)], y[~np.isnan(y)]))  # jumps
    x_axis, y_axis = (round_axis(label) for label in ("raw score", "corrected score"))
    return Plot("correction", DOES, words("pictures", "correction"), x_axis, y_axis, marks)


def correction_blocks(correction: Correction) -> list[Block]:
    """What a page says of a correction: raw against corrected score of the patterns that change most."""
    reads = listed(list(correction.reads)) or "no columns"
    most = most_changed(correction, MOST_ON_PAGE)
    if all(np.array_equal(each.corrected, SCORES) for each in most):
        return [Paragraphs([f"The correction reads {reads}, and changes nobody's score."])]
    keys = [correction.patterns.key(pattern) for pattern in range(len(correction.patterns))]
    levels = [", ".join(name or "not recorded" for name in key) or "everybody" for key in keys]
    called = {each.patterns[0]: each.called(levels) for each in most}
    shows = f"the {len(most)} of {plural(len(levels), 'combination')} of levels"
    used = attribute_sentences(attribute_effects(correction))
    told = [f"The correction reads {reads}.", *used, f"The picture shows {shows} that it changes most."]
    patterns = [Column(str(i), name, "decimal", 3) for i, name in enumerate(called.values())]
    rows = [
        {"score": SCORES[at]} | {str(i): each.corrected[at] for i, each in enumerate(most)}
        for at in range(0, len(SCORES), 50)
    ]
    details = Details(f"The numbers: {DOES}", [table("corrected-scores", rows, patterns=patterns)])
    return [Paragraphs([" ".join(told)]), _map_plot(correction, called), details]


def _corners(correction: Correction, pattern: int) -> tuple[FloatArray, FloatArray]:
    """Corners of one map, with a gap where it jumps."""
    owner, begin, slope, intercept = correction.maps.pieces()
    mine = owner == pattern
    begin, slope, intercept = begin[mine] / UNIT, slope[mine], intercept[mine]
    end = np.append(begin[1:], 1.0)
    x = np.column_stack([begin, end, end])
    y = np.column_stack([slope * begin + intercept, slope * end + intercept, np.full(len(end), np.nan)])
    return x.ravel(), y.ravel()
