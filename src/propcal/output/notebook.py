"""Small HTML for notebooks: scoped by a class of its own, no scripts, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from propcal.core.correction import Correction
from propcal.core.explain import Explanation

MOST_ROWS = 10
STYLE = (
    "<style>.propcal-card{font-family:system-ui,sans-serif;font-size:13px;line-height:1.4;max-width:60em}"
    ".propcal-card table{border-collapse:collapse;margin:.4em 0;font-size:inherit}"
    ".propcal-card th,.propcal-card td{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}"
    ".propcal-card th{font-weight:600;border-bottom:1px solid currentColor}"
    ".propcal-card .propcal-number{text-align:right;font-variant-numeric:tabular-nums}</style>"
)


def _card(title: str, *body: str) -> str:
    return f'{STYLE}<div class="propcal-card"><strong>{escape(title)}</strong>{"".join(body)}</div>'


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        cells = [
            f'<td class="propcal-number">{value:.3f}</td>'
            if isinstance(value, float)
            else f"<td>{escape(str(value))}</td>"
            for value in row
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def correction_html(correction: Correction) -> str:
    """What a correction is and its largest updates."""
    about = correction.about
    made = ", ".join(f"{key}={about[key]:g}" for key in ("alpha", "gamma", "rho", "eta") if key in about)
    facts = (
        f"<div>{escape(made)}. Reads {escape(', '.join(correction.reads) or 'no columns')}; "
        f"{len(correction.groups)} groups, {len(correction.bins)} {escape(correction.bins.kind)} bins, "
        f"{correction.n_updates:,} updates, {correction.n_segments:,} segments.</div>"
    )
    title = f"Correction by {about.get('method', 'hand')}"
    if not correction.n_updates:
        return _card(title, facts, "<div>It changes no score.</div>")
    order = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")[:MOST_ROWS]
    updates = correction.update_list()
    rows = [(int(i) + 1, updates[i].group, updates[i].bin, float(updates[i].shift)) for i in order]
    note = f"<div>The largest {len(rows)} of its updates:</div>" if len(rows) < len(updates) else ""
    return _card(title, facts, note, _table(("update", "group", "scores in", "shift"), rows))


def explanation_html(explanation: Explanation) -> str:
    """The first people with their sentences."""
    shown = min(len(explanation), MOST_ROWS)
    rows = [
        (
            person,
            float(explanation.score[person]),
            float(explanation.corrected[person]),
            explanation.sentence(person),
        )
        for person in range(shown)
    ]
    more = f"<div>... and {len(explanation) - shown:,} more people</div>" if len(explanation) > shown else ""
    return _card(
        f"Explanation for {len(explanation):,} people",
        _table(("person", "score", "corrected", "why"), rows),
        more,
    )
