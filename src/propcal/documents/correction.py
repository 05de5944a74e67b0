"""A correction: its card, the map of each pattern as a chart, and what a page says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.correction.fit_summary import attribute_effects
from propcal.core.grid import UNIT, FloatArray, from_grid
from propcal.core.groups.collection import pattern_name
from propcal.documents.audit_charts import unknown
from propcal.documents.blocks import Block, Column, Details, Document, Paragraphs, Table
from propcal.documents.charts import Axis, Mark, Plot
from propcal.documents.fit import attribute_sentences
from propcal.documents.words import words
from propcal.numbers import listed, plural

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST_ROWS, MOST_PATTERNS, MOST_ON_PAGE = 10, 8, 6
SCORES = np.linspace(0, 1, 501)


def correction_document(correction: Correction) -> Document:
    """What a correction is, and its largest updates."""
    about = correction.about
    settings = ", ".join(f"{key}={about[key]:g}" for key in ("alpha", "gamma", "rho", "eta") if key in about)
    facts = [
        f"{settings}. Reads {', '.join(correction.reads) or 'no columns'}; {len(correction.groups)} groups, "
        f"{len(correction.bins)} {correction.bins.kind} bins, {correction.n_updates:,} updates, "
        f"{correction.n_segments:,} segments."
    ]
    if not correction.n_updates:
        facts.append("It changes no score.")
    if correction.start is not None:
        facts.append(f"A recalibration (smooth curve) with {len(correction.start.groups)} terms comes first.")
    first = int(correction.start is not None)
    order = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")[:MOST_ROWS] + first
    updates = correction.update_list()
    rows = [{"update": int(i) + 1, **updates[i]._asdict()} for i in order]
    columns = [
        Column("update", "update", "count"),
        Column("group", "group"),
        Column("bin", "scores in", "label"),
        Column("shift", "shift", "decimal", 3),
    ]
    title = f"The largest {len(rows)} of its updates" if len(rows) < len(updates) else "Its updates"
    table = [Table("updates", title, columns, rows)] if rows else []
    return Document("Correction", f"Correction by {about.get('method', 'hand')}", [Paragraphs(facts), *table])


@dataclass(frozen=True, eq=False)
class PatternCurve:
    """The corrected score at each of `SCORES`, and the patterns that share it."""

    patterns: list[int]
    corrected: FloatArray


def most_changed(correction: Correction, most: int) -> list[PatternCurve]:
    """The curves that differ most from no change, the largest difference first."""
    found: dict[bytes, PatternCurve] = {}
    for pattern in range(len(correction.patterns)):
        curve = correction.maps.apply(SCORES, np.full(len(SCORES), pattern))
        found.setdefault(curve.tobytes(), PatternCurve([], curve)).patterns.append(pattern)
    return sorted(found.values(), key=lambda each: -float(np.abs(each.corrected - SCORES).mean()))[:most]


def correction_chart(correction: Correction, patterns: Any = None) -> Plot:
    """Raw against corrected score for each pattern, with the identity line and the bins shaded."""
    # the bins of the updates are bins of the score after a smooth start, which this axis does not show
    edges = from_grid(correction.bins.edges) if correction.start is None else np.empty(0)
    low, high = edges[: len(edges) // 2 * 2].reshape(-1, 2).T
    marks = [
        Mark("bars", "shade", low, np.ones(len(low)), high),
        Mark("line", "guide", [0, 1], [0, 1], name="no change"),
    ]
    for i, (pattern, label) in enumerate(_chosen(correction, patterns)):
        x, y = _corners(correction, pattern)
        marks.append(Mark("line", f"series-{i}", x, y, name=label))
        marks.append(Mark("line", f"series-{i} thin", x[~np.isnan(y)], y[~np.isnan(y)]))  # jumps
    note = "" if patterns is not None else f"of {len(correction.patterns)} patterns, those that change most"
    raw, corrected = Axis("raw score", 0.0, 1.0), Axis("corrected score", 0.0, 1.0)
    told = "Corrected score by raw score."
    return Plot("correction", "", told, raw, corrected, marks, 480, 480, note=note)


def correction_blocks(correction: Correction) -> list[Block]:
    """What a page says of a correction: raw against corrected score of the patterns that change most."""
    reads = listed(list(correction.reads)) or "no columns"
    most = most_changed(correction, MOST_ON_PAGE)
    if all(np.array_equal(each.corrected, SCORES) for each in most):
        return [Paragraphs([f"The correction reads {reads}, and changes nobody's score."])]
    marks = [Mark("line", "guide", [0, 1], [0, 1])]
    names = []
    for i, each in enumerate(most):
        levels = correction.patterns.key(each.patterns[0])
        name = ", ".join("not recorded" if level is None else level for level in levels) or "everybody"
        names.append(name + (f" and {len(each.patterns) - 1} more" if len(each.patterns) > 1 else ""))
        marks.append(Mark("line", f"series series-{i}", SCORES, each.corrected, name=names[-1]))
    shows = f"the {len(most)} of {plural(len(correction.patterns), 'combination')} of levels"
    used = attribute_sentences(attribute_effects(correction))
    told = [f"The correction reads {reads}.", *used, f"The picture shows {shows} that it changes most."]
    tenths = [(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)]
    heading = "What the correction does"
    x, y = (Axis(label, 0.0, 1.0, tenths) for label in ("raw score", "corrected score"))
    columns = [Column("score", "raw score", "decimal", 1)]
    columns += [Column(str(i), name, "decimal", 3) for i, name in enumerate(names)]
    rows = [
        {"score": SCORES[at]} | {str(i): each.corrected[at] for i, each in enumerate(most)}
        for at in range(0, len(SCORES), 50)
    ]
    table = Table("corrected-scores", "Corrected scores", columns, rows)
    return [
        Paragraphs([" ".join(told)]),
        Plot("correction-picture", heading, words("pictures", "correction"), x, y, marks),
        Details(f"The numbers: {heading}", [table]),
    ]


def _chosen(correction: Correction, patterns: Any) -> list[tuple[int, str]]:
    """Patterns by name, or those that change most; patterns with one and the same map are one line."""
    names = [pattern_name(correction.patterns, p) for p in range(len(correction.patterns))]
    if patterns is not None:
        for name in patterns:
            if name not in names:
                raise unknown("pattern", name, names)
        return [(names.index(name), name) for name in patterns]
    chosen = []
    for first, *others in sorted(each.patterns for each in most_changed(correction, MOST_PATTERNS)):
        chosen.append((first, names[first] + (f" (and {len(others)} more)" if others else "")))
    return chosen


def _corners(correction: Correction, pattern: int) -> tuple[FloatArray, FloatArray]:
    """Corners of one map, with a gap where it jumps."""
    owner, begin, slope, intercept = correction.maps.pieces()
    mine = owner == pattern
    begin, slope, intercept = begin[mine] / UNIT, slope[mine], intercept[mine]
    end = np.append(begin[1:], 1.0)
    x = np.column_stack([begin, end, end])
    y = np.column_stack([slope * begin + intercept, slope * end + intercept, np.full(len(end), np.nan)])
    return x.ravel(), y.ravel()
