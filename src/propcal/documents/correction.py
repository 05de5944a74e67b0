"""A correction, the summary of its fit, and why it moved scores, as small documents for notebooks."""

from __future__ import annotations

import numpy as np

from propcal.auditing.audit_tables import row_dicts
from propcal.core.correction.correction import Correction
from propcal.core.correction.explain import Explanation
from propcal.core.correction.fit_summary import WITHIN_ALPHA, FitSummary
from propcal.documents.blocks import Block, Column, Document, Paragraphs, Table

MOST_ROWS = 10


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
        facts.append(f"A smooth start of {len(correction.start.groups)} terms comes first.")
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


def fit_document(summary: FitSummary) -> Document:
    """The summary of a fit: sentences, and the cells that are not within tolerance, the worst first."""
    frame = summary.to_frame()
    rows = [
        row | {"group": summary.labels.get(row["group"], row["group"])}
        for row in row_dicts(frame[frame["status"] != WITHIN_ALPHA])
    ]
    columns = [
        Column("group", "group"),
        Column("bin", "scores in", "label"),
        Column("status", "status", "label"),
        Column("people", summary.unit, "whole"),
        Column("outcome_rate", "observed", "percent"),
        Column("mean_score", "predicted", "percent"),
        Column("standard_error", "standard error", "percent"),
    ]
    blocks: list[Block] = [Paragraphs(summary.sentences())]
    if rows:
        blocks.append(
            Table("cells", "Cells not within tolerance", columns, rows, most=MOST_ROWS, item="cell")
        )
    return Document("Fit summary", "Fit summary", blocks)


def explanation_document(explanation: Explanation) -> Document:
    """Why the scores of the first people moved."""
    n, unit = len(explanation), explanation.unit
    rows = [
        {"person": person, "score": explanation.score[person], "corrected": explanation.corrected[person]}
        | {"why": explanation.sentence(person)}
        for person in range(min(n, MOST_ROWS))
    ]
    columns = [
        Column("person", "person", "count"),
        Column("score", "score", "decimal", 3),
        Column("corrected", "corrected", "decimal", 3),
        Column("why", "why"),
    ]
    more = [Paragraphs([f"... and {n - len(rows):,} more {unit}"])] if n > len(rows) else []
    table = Table("people", "From raw to corrected score", columns, rows)
    return Document("Explanation", f"Explanation for {n:,} {unit}", [table, *more])
