"""What a fit did, what its correction does, and why it moved one person's score."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.auditing.audit_tables import row_dicts
from propcal.core.correction.explain import (
    ALL_SCORES,
    LOG_ODDS,
    Explanation,
)
from propcal.core.correction.fit_summary import (
    OUTSIDE,
    WITHIN_ALPHA,
    WITHIN_NOISE,
    FitSummary,
    attribute_effects,
)
from propcal.core.correction.points_table import PER_UNIT, PointsTable
from propcal.core.fit.log_odds_cells import FEWEST_OF_A_TERM, smooth_terms
from propcal.core.grid import UNIT, FloatArray, from_grid
from propcal.core.groups import EVERYBODY, Group, group_labels, pattern_name
from propcal.core.reduction import without_clusters
from propcal.documents.blocks import Block, Column, Details, Document, Paragraphs, Table
from propcal.documents.charts import Axis, Mark, Plot, round_axis, row_axis
from propcal.documents.chosen_groups import unknown
from propcal.documents.sentences import correction as wording
from propcal.documents.sentences import explanation as wording_of_one
from propcal.documents.sentences import files, fit
from propcal.documents.sentences.explanation import Change, Story
from propcal.documents.words import table, words
from propcal.errors import plain
from propcal.numbers import IN_TEXT, adding_up, capital, listed, plural, risk_range
from propcal.options import Identity

if TYPE_CHECKING:
    from propcal.core.atoms import Atoms
    from propcal.core.correction.correction import Correction

MOST_ROWS = 10
MOST_CELLS = 30
MOST_PATTERNS = 8
MOST_ON_PAGE = 6
LONGEST_NOTE = 200  # letters of a note
MOST_LISTED = 6
MOST_SMALL = 10
# an attribute that changes no score by more than a tenth of a point is not really used
HARDLY = 0.001
SCORES = np.linspace(0, 1, 501)
DOES = "What the correction does"


def fit_sentences(summary: FitSummary, fewest: int) -> list[str]:
    """The summary in sentences; counts of fewer people that were left out are not
    given.
    """
    points = summary.correction.points
    noise = summary.count(WITHIN_NOISE)
    outside = summary.count(OUTSIDE)
    texts = fit.what_was_done(summary, points, noise=noise, outside=outside)
    texts += attribute_sentences(summary.effects, summary.without_effect)
    if summary.gains is not None:
        shares = adding_up([100 * share for share in summary.gains.shares], 100)
        texts += fit.gains(summary.gains, points, shares, summary.unit)
    texts += [plain(f"{capital(note)}.") for note in summary.notes]
    left_out = summary.left_out.sentence(
        fewest, unit=summary.unit, labels=summary.level_labels
    )
    if left_out:
        texts.append(plain(left_out))
    return texts


def worst_cells(summary: FitSummary) -> list[str]:
    """The worst of the cells that are not within tolerance, one line each."""
    rows = _cells_off(summary)
    lines = [fit.cell(row) for row in rows[:MOST_LISTED]]
    more = len(rows) - len(lines)
    if more:
        return [*lines, f"... and {more:,} more; see to_frame()"]
    return lines


def attribute_sentences(
    effects: Mapping[str, float], without: Sequence[str] = ()
) -> list[str]:
    """Which attributes scores depend on, which ones are read but hardly used, and which
    are not read.

    >>> effects = {"race": 0.0, "sex": 0.0342, "ward": 0.0004}
    >>> texts = attribute_sentences(effects, ["age", "payer"])
    >>> texts[0], texts[2]  # doctest: +NORMALIZE_WHITESPACE
    ('Corrected scores depend on sex.',
     'age and payer: no effect found, so the correction does not read them.')
    >>> texts[1].partition(", but ")[0]
    'The correction reads race and ward'
    """
    used = []
    idle = []
    most = 0.0  # that those hardly used change
    for name, effect in effects.items():
        if effect > HARDLY:
            used.append(plain(name))
        else:
            idle.append(plain(name))
            most = max(most, effect)
    points = ceil(1000 * most) / 10
    return wording.attributes(used, idle, points, [plain(name) for name in without])


def fit_document(summary: FitSummary) -> Document:
    """The summary of a fit: sentences, and the cells that are not within tolerance, the
    worst first.
    """
    rows = _cells_off(summary)
    for row in rows:
        row["people"] = round(row["people"])
    blocks: list[Block] = [Paragraphs(summary.sentences())]
    if rows:
        chance = _all_could_be_chance(rows)
        blocks.append(table("cells", rows, unit=summary.unit, chance=chance))
    return Document("Fit summary", "Fit summary", blocks)


def _all_could_be_chance(rows: Sequence[Mapping[str, Any]]) -> bool:
    return all(row["status"] == WITHIN_NOISE for row in rows)


def fit_blocks(summary: FitSummary) -> list[Block]:
    """What a page says of a fit, without counts."""
    blocks: list[Block] = [
        Paragraphs([*summary.sentences(), words("tables", "fit")], "Fit summary")
    ]
    rows = _cells_off(summary)
    if rows:
        about = {"more": len(rows) - MOST_CELLS, "chance": _all_could_be_chance(rows)}
        cells = table("outside", rows[:MOST_CELLS], **about)
        blocks.append(Details(cells.title, [cells]))
    return blocks


def _cells_off(summary: FitSummary) -> list[dict[str, Any]]:
    """Rows of the cells that are not within tolerance, the worst first."""
    frame = summary.to_frame()
    names = [summary.labels.get(name, name) for name in frame["group"]]
    return row_dicts(frame.assign(group=names)[frame["status"] != WITHIN_ALPHA])


def fit_lines(
    model: Any, people: Atoms, names: Identity, suppress: int
) -> Iterator[str]:
    """Whom a fitted estimator saw, what it changes, and which groups were too small."""
    small = [size.group for size in model.groups_.left_out]
    every = [*model.groups_.groups, *small]
    patterns = model.fit_summary_.patterns
    labels = group_labels(every, patterns, names.labels, everyone=names.everyone)
    called = dict(zip(every, labels))

    read = model.correction_.groups if model.n_updates_ else ()
    n_read = sum(group != EVERYBODY for group in read)
    who = names.count(people.n_people)
    if 0 < people.n_people < suppress:
        who = f"fewer than {suppress} {names.unit}"
    yield fit.whom(type(model).__name__, who, len(every), n_read)
    yield from model.fit_summary_.sentences(suppress)
    yield from _largest_adjustment(model, called)
    if small:
        yield from _small_groups(model, called, names, suppress)


def _largest_adjustment(model: Any, called: Mapping[Group, str]) -> Iterator[str]:
    """The update that moves scores most; a curve or points have no shift of their
    own.
    """
    updates = model.correction_.update_list()
    shifts = [update for update in updates if not isnan(update.shift)]
    if shifts:
        most = max(shifts, key=lambda update: abs(update.shift))
        label = next(text for group, text in called.items() if group.name == most.group)
        where = f"{label} at predicted risk {risk_range(most.bin)}"
        yield f"Largest adjustment: {where}: {most.shift:+.4f}"


def _small_groups(
    model: Any, called: Mapping[Group, str], names: Identity, suppress: int
) -> Iterator[str]:
    """Groups that were too small for cells, with their sizes."""
    small = model.groups_.left_out
    limited = smooth_terms(model.groups_)[1]
    smooth = model.fit_summary_.smooth
    fewest = 0 if limited else FEWEST_OF_A_TERM
    about = len(small), model.gamma, names.unit
    yield fit.small_groups(*about, smooth=smooth, fewest=fewest)
    for size in small[:MOST_SMALL]:
        yield f"  {called[size.group]}: {_count(size.people, suppress, names)}"
    if len(small) > MOST_SMALL:
        yield f"  ... and {len(small) - MOST_SMALL:,} more"


def _count(count: int, fewest: int, names: Identity) -> str:
    """A number of people; a small one is suppressed, and others are a range from which
    it cannot be derived.

    >>> people = Identity(unit="people")
    >>> _count(4, 11, people), _count(12, 11, people), _count(127, 11, people)
    ('fewer than 11 people', '11 to 20 people', '121 to 130 people')
    >>> _count(127, 0, people), _count(0, 11, people), _count(1, 0, people)
    ('127 people', 'nobody', '1 person')
    """
    if not count:
        return "nobody"
    if count < fewest:
        return f"fewer than {fewest} {names.unit}"
    if fewest < 2:
        return names.count(count)
    step = fewest - 1
    block = (count - 1) // step
    return f"{block * step + 1:,} to {(block + 1) * step:,} {names.unit}"


def sharing_lines(exact: Correction, people: Atoms) -> list[str]:
    """What sharing a correction removed, and how much it changes scores in the fitting
    data.
    """
    shared = exact.shared()
    people = without_clusters(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    mean = np.average(moved, weights=people.people)
    return files.sharing(exact, shared, mean, moved.max())


def correction_document(correction: Correction) -> Document:
    """Who made a correction from what, what it reads, its largest effects and
    adjustments.
    """
    about = correction.about
    settings = []
    for name in ("alpha", "gamma", "rho", "eta"):
        if name in about:
            settings.append(f"{name}={about[name]:g}")
    blocks: list[Block] = [
        Paragraphs(provenance(correction)),
        Paragraphs(wording.facts(correction, settings)),
    ]
    changed = effects(correction)  # none if only points change scores
    if changed:
        blocks.append(table("effects", changed))
    blocks += _largest_updates(correction)
    if correction.points is not None:
        blocks.append(_points_table(correction.points))
    title = f"Correction by {about.get('method', 'hand')}"
    return Document("Correction", title, blocks)


def _largest_updates(correction: Correction) -> list[Table]:
    """The adjustments of cells that move scores most."""
    n = len(correction.updates)
    first = correction.n_updates - n  # after curve and points
    updates = correction.update_list()[first:]
    largest_first = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")
    rows = []
    for place in largest_first[:MOST_ROWS]:
        row = {"adjustment": int(place) + 1, **updates[place]._asdict()}
        rows.append(row)
    if not rows:
        return []
    return [table("updates", rows, all=len(rows) == n, n=len(rows))]


def _points_table(points: PointsTable) -> Table:
    """The largest points."""
    largest = sorted(points.rows(), key=lambda row: -abs(row[2]))
    rows = []
    for column, label, units in largest:
        rows.append({"column": column, "range": label, "points": units / PER_UNIT})
    return table("points", rows)


def points_chart(points: PointsTable, column: str | None = None) -> Plot:
    """The points of one column as bars, a row for each level or range."""
    names = list(points.columns)
    if column is not None and column not in names:
        raise unknown("column", column, names)
    widest = max(points.features, key=lambda f: max(f.points) - min(f.points)).column
    feature = points.features[names.index(column or widest)]
    labels: list[str] = []
    marks = []
    most = 0.0
    for label, units in zip(feature.labels, feature.pieces):
        if units is None:
            continue
        value = units / PER_UNIT
        most = max(most, abs(value) * 1.1)
        if value:
            look = "red" if value > 0 else "blue"
            marks.append(Mark("row-bars", look, [0.0], [len(labels)], [value]))
        labels.append(plain(label))
    x = Axis(f"log-odds added for {plain(feature.column)}", -most, most)
    description = "Log-odds that each level or range adds to a score."
    return Plot(
        "points",
        plain(feature.column),
        description,
        x,
        row_axis(labels),
        marks,
        height=60 + 24 * len(labels),
    )


def provenance(correction: Correction) -> list[str]:
    """Who made a correction from what, as far as its file says."""
    user = correction.about.get("user", {}).items()
    notes = []
    for name, note in user:
        text = note
        if not isinstance(note, str):
            text = json.dumps(note, ensure_ascii=False)
        notes.append([plain(name, LONGEST_NOTE), plain(text, LONGEST_NOTE)])
    return wording.provenance(correction, notes)


def effects(correction: Correction) -> list[dict[str, Any]]:
    """For the patterns that change most: the raw score that changes most, and what it
    becomes.
    """
    names = _pattern_names(correction)
    rows = []
    for curve in most_changed(correction, MOST_ROWS):
        at = int(np.argmax(np.abs(curve.corrected - SCORES)))
        score = float(SCORES[at])
        corrected = float(curve.corrected[at])
        if score != corrected:
            who = curve.called(names)
            rows.append({"who": who, "score": score, "corrected": corrected})
    return rows


def _pattern_names(correction: Correction) -> list[str]:
    n = len(correction.patterns)
    return [pattern_name(correction.patterns, pattern) for pattern in range(n)]


@dataclass(frozen=True, eq=False)
class PatternCurve:
    """The corrected score at each of `SCORES`, and the patterns that share it."""

    patterns: list[int]
    corrected: FloatArray

    def called(self, names: Sequence[str]) -> str:
        """The name of the first pattern, and how many share its curve."""
        if len(self.patterns) > 1:
            more = f" (and {len(self.patterns) - 1} more)"
        else:
            more = ""
        return f"{names[self.patterns[0]]}{more}"


def _names_of(curves: Sequence[PatternCurve], names: Sequence[str]) -> dict[int, str]:
    """The name of each curve by its first pattern."""
    return {curve.patterns[0]: curve.called(names) for curve in curves}


def most_changed(correction: Correction, most: int) -> list[PatternCurve]:
    """The curves that differ most from no change, the largest difference first."""
    found: dict[bytes, PatternCurve] = {}
    for pattern in range(len(correction.patterns)):
        curve = correction.maps.apply(SCORES, np.full(len(SCORES), pattern))
        found.setdefault(curve.tobytes(), PatternCurve([], curve)).patterns.append(
            pattern
        )
    return sorted(
        found.values(), key=lambda each: -float(np.abs(each.corrected - SCORES).mean())
    )[:most]


def correction_chart(
    correction: Correction, patterns: Sequence[str] | None = None
) -> Plot:
    """Raw against corrected score for patterns, by name or those that change most, with
    the bins shaded.
    """
    names = _pattern_names(correction)
    for name in patterns or ():
        if name not in names:
            raise unknown("pattern", name, names)
    if patterns is None:
        changed = most_changed(correction, MOST_PATTERNS)
        in_order = sorted(changed, key=lambda each: each.patterns)
        called = _names_of(in_order, names)
        note = f"of {len(names)} patterns, those that change most"
    else:
        called = {names.index(name): name for name in patterns}
        note = ""
    plot = _map_plot(correction, called)
    marks = [_shaded_bins(correction), *plot.marks]
    return replace(plot, marks=marks, width=480, height=480, note=note)


def _shaded_bins(correction: Correction) -> Mark:
    """Every second bin of the updates; those of the score after a smooth start are not
    on the axis of the raw score.
    """
    edges = np.empty(0)
    if correction.start is None:
        edges = from_grid(correction.bins.edges)
    low, high = edges[: len(edges) // 2 * 2].reshape(-1, 2).T
    return Mark("bars", "shade", low, np.ones(len(low)), high)


def _map_plot(correction: Correction, called: Mapping[int, str]) -> Plot:
    """Raw against corrected score of patterns, under these names."""
    marks = [Mark("line", "guide", [0, 1], [0, 1], name="no change")]
    for i, (pattern, name) in enumerate(called.items()):
        x, y = _corners(correction, pattern)
        marks.append(Mark("line", f"series series-{i}", x, y, name=name))
        marks.append(
            Mark("line", f"series series-{i} thin", x[~np.isnan(y)], y[~np.isnan(y)])
        )  # jumps
    x_axis = round_axis("raw score")
    y_axis = round_axis("corrected score")
    return Plot(
        "correction", DOES, words("pictures", "correction"), x_axis, y_axis, marks
    )


def correction_blocks(correction: Correction) -> list[Block]:
    """What a page says of a correction: raw against corrected score of the patterns
    that change most.
    """
    reads = listed(list(correction.reads)) or "no columns"
    most = most_changed(correction, MOST_ON_PAGE)
    if all(np.array_equal(each.corrected, SCORES) for each in most):
        nobody = f"The correction reads {reads}, and changes nobody's score."
        return [Paragraphs([nobody])]

    levels = _levels(correction)
    called = _names_of(most, levels)
    used = attribute_sentences(attribute_effects(correction), correction.not_read)
    text = wording.picture(reads, used, len(most), len(levels))
    numbers = _corrected_scores(most, list(called.values()))
    details = Details(f"The numbers: {DOES}", [numbers])
    return [Paragraphs([text]), _map_plot(correction, called), details]


def _levels(correction: Correction) -> list[str]:
    """The levels of each pattern, in words."""
    texts = []
    for pattern in range(len(correction.patterns)):
        names = correction.patterns.key(pattern)
        text = ", ".join(name or "not recorded" for name in names)
        texts.append(text or "everybody")
    return texts


def _corrected_scores(curves: Sequence[PatternCurve], names: Sequence[str]) -> Table:
    """Corrected scores of patterns, a row for each tenth of the raw score."""
    patterns = [
        Column(str(place), name, "decimal", 3) for place, name in enumerate(names)
    ]
    rows = []
    for at in range(0, len(SCORES), 50):
        row = {"score": SCORES[at]}
        for place, curve in enumerate(curves):
            row[str(place)] = curve.corrected[at]
        rows.append(row)
    return table("corrected-scores", rows, patterns=patterns)


def _corners(correction: Correction, pattern: int) -> tuple[FloatArray, FloatArray]:
    """Corners of one map, with a gap where it jumps."""
    owner, begin, slope, intercept = correction.maps.pieces()
    mine = owner == pattern
    begin = begin[mine] / UNIT
    slope = slope[mine]
    intercept = intercept[mine]
    end = np.append(begin[1:], 1.0)
    x = np.column_stack([begin, end, end])
    y = np.column_stack(
        [slope * begin + intercept, slope * end + intercept, np.full(len(end), np.nan)]
    )
    return x.ravel(), y.ravel()


MOST_NAMED = 4
DIGITS = 3  # of explained scores


def explanation_sentence(explanation: Explanation, person: int) -> str:
    """What happened to one person's score, for a reader who does not know the
    algorithm.
    """
    changes = explanation.changes(person)  # which refuses a person who is not there
    corrected = explanation.corrected[person]
    before = IN_TEXT.decimal(explanation.score[person], DIGITS)
    after = IN_TEXT.decimal(corrected, DIGITS)
    unseen = bool(explanation.unseen[person])
    if not changes:
        return wording_of_one.not_changed(before, unseen=unseen)
    story = _story(explanation, person, changes, (before, after))
    return wording_of_one.changed(
        before, after, corrected, story, explanation, unseen=unseen
    )


def _story(
    explanation: Explanation,
    person: int,
    changes: Sequence[tuple[Group | None, int]],
    printed_scores: tuple[str, str],
) -> Story:
    """The changes of one person's score, rounded so that they add up as printed."""
    named = changes[:MOST_NAMED]
    rest = changes[MOST_NAMED:]
    moved = [units for _, units in named]
    moved.append(sum(units for _, units in rest))
    scale = 10**DIGITS
    before, after = printed_scores
    change = round(float(after) * scale) - round(float(before) * scale)
    exact = [units / UNIT * scale for units in moved]
    printed = adding_up(exact, change)

    told = []
    for (group, _), n in zip(named, printed):
        if n:  # what is rounded to nothing is left out
            size = IN_TEXT.decimal(n / scale, DIGITS, "+")
            told.append(Change(size, group))
    smaller = ""
    if printed[-1]:
        size_of_rest = IN_TEXT.decimal(printed[-1] / scale, DIGITS, "+")
        smaller = f"{size_of_rest} from {plural(len(rest), 'smaller adjustment')}"
    if not told:
        return Story(told, by_curve=False, adjustments=0, smaller=smaller)

    bins = [
        reason.bin
        for reason in explanation.reasons_of(person)
        if reason.group == told[0].group
    ]
    by_curve = bins.count(ALL_SCORES)
    return Story(told, bool(by_curve), len(bins) - by_curve, smaller)


def explanation_document(explanation: Explanation) -> Document:
    """Why the scores of the first people moved."""
    n = len(explanation)
    unit = explanation.unit
    rows = []
    for person in range(min(n, MOST_ROWS)):
        row = {
            "person": person,
            "score": explanation.score[person],
            "corrected": explanation.corrected[person],
            "why": explanation.sentence(person),
        }
        rows.append(row)
    blocks: list[Block] = [table("people", rows)]
    if n > len(rows):
        blocks.append(Paragraphs([f"... and {n - len(rows):,} more {unit}"]))
    return Document("Explanation", f"Explanation for {n:,} {unit}", blocks)


def explanation_chart(explanation: Explanation, person: int = 0) -> Plot:
    """A waterfall: the raw score, each update that moved it, the corrected score."""
    steps = explanation.steps_of(person)
    raw = float(explanation.score[person])
    corrected = float(explanation.corrected[person])
    shifts = []
    moved = []
    texts = [IN_TEXT.decimal(raw, DIGITS)]
    for group, label, shift in steps:
        shifts.append(shift)
        moved.append(_step_name(group, label))
        texts.append(IN_TEXT.decimal(shift, DIGITS, "+"))
    texts.append(IN_TEXT.decimal(corrected, DIGITS))
    place = np.cumsum([raw, *shifts])
    last = len(steps) + 1
    rows = row_axis(["raw score", *moved, "corrected score"])

    marks = [Mark("row-bars", "pale", [0.0], [0], [raw])]
    for row, shift in enumerate(shifts, start=1):
        before = place[row - 1]
        look = "red" if shift > 0 else "blue"
        marks.append(Mark("row-bars", look, [before], [row], [place[row]]))
        marks.append(Mark("line", "guide", [before, before], [row - 0.7, row + 0.3]))
    marks.append(Mark("row-bars", "dark", [0.0], [last], [corrected]))

    ends = [raw, *np.maximum(place[1:], place[:-1]), corrected]
    marks.append(Mark("texts", "", ends, range(last + 1), names=texts))
    highest = max(place.max(), corrected, 0.05)
    x = Axis("risk score", 0.0, min(1.0, 1.25 * highest))
    description = "The raw score, each change of it, and the corrected score."
    return Plot("explanation", "", description, x, rows, marks, height=42 * (last + 1))


def _step_name(group: str, label: str) -> str:
    """A group, and at which scores it moved one."""
    if label == ALL_SCORES or label.endswith(LOG_ODDS):
        return f"{group}, {label}"
    return f"{group}, scores in {label}"
