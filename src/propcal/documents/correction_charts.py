"""Charts of a correction: the map of each pattern, and what moved one person's score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.core.correction.explain import ALL_SCORES, Explanation
from propcal.core.correction.fit_summary import attribute_effects
from propcal.core.grid import UNIT, FloatArray, from_grid
from propcal.core.groups.collection import pattern_name
from propcal.documents.blocks import Block, Column, Details, Paragraphs, Table
from propcal.documents.charts import Axis, Mark, Plot, row_axis
from propcal.documents.fit_sentences import attribute_sentences
from propcal.documents.shown_groups import unknown
from propcal.numbers import IN_TEXT, listed, plural

if TYPE_CHECKING:
    from propcal.core.correction.correction import Correction

MOST_PATTERNS, MOST_ON_PAGE = 8, 6
SCORES = np.linspace(0, 1, 501)


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
    return Plot(
        "correction",
        "",
        "Corrected score by raw score.",
        Axis("raw score", 0.0, 1.0),
        Axis("corrected score", 0.0, 1.0),
        marks,
        480,
        480,
        note=note,
    )


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
    description = (
        "Corrected against raw score. On the dotted diagonal nothing changes; above it scores are raised, "
        "below it lowered."
    )
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
        Plot("correction-picture", heading, description, x, y, marks),
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


def explanation_chart(explanation: Explanation, person: int = 0) -> Plot:
    """A waterfall: the raw score, each update that moved it, the corrected score."""
    steps = explanation.steps_of(person)
    raw, corrected = float(explanation.score[person]), float(explanation.corrected[person])
    shifts = np.array([shift for *_, shift in steps])
    place, last = np.cumsum([raw, *shifts]), len(steps) + 1
    moved = [
        f"{group}, {label if label == ALL_SCORES else f'scores in {label}'}" for group, label, _ in steps
    ]
    rows = row_axis(["raw score", *moved, "corrected score"])
    marks = [Mark("row-bars", "pale", [0.0], [0], [raw])]
    for row, shift in enumerate(shifts, start=1):
        look = "red" if shift > 0 else "blue"
        marks.append(Mark("row-bars", look, [place[row - 1]], [row], [place[row]]))
        marks.append(Mark("line", "guide", [place[row - 1]] * 2, [row - 0.7, row + 0.3]))
    marks.append(Mark("row-bars", "dark", [0.0], [last], [corrected]))
    at = [raw, *np.maximum(place[1:], place[:-1]), corrected]
    texts = [IN_TEXT.decimal(raw, 3), *(IN_TEXT.decimal(shift, 3, "+") for shift in shifts)]
    marks.append(Mark("texts", "", at, range(last + 1), names=[*texts, IN_TEXT.decimal(corrected, 3)]))
    x = Axis("risk score", 0.0, min(1.0, 1.25 * max(place.max(), corrected, 0.05)))
    description = "The raw score, each change of it, and the corrected score."
    return Plot("explanation", "", description, x, rows, marks, height=42 * (last + 1))
