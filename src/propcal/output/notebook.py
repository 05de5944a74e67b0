"""Small HTML for notebooks: scoped by a class of its own, no scripts, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.core.correction.correction import Correction
from propcal.core.correction.explain import Explanation
from propcal.core.correction.fit_summary import WITHIN_ALPHA, FitSummary
from propcal.numbers import IN_NOTEBOOK, plural, risk_range

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison

MOST_ROWS = 10
MOST_GROUPS = 25
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
            f'<td class="propcal-number">{IN_NOTEBOOK.decimal(value, 3)}</td>'
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
    first = int(correction.start is not None)
    order = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")[:MOST_ROWS] + first
    updates = correction.update_list()
    if correction.start is not None:
        facts += f"<div>A smooth start of {len(correction.start.groups)} terms comes first.</div>"
    rows = [(int(i) + 1, updates[i].group, updates[i].bin, float(updates[i].shift)) for i in order]
    if not rows:
        return _card(title, facts)
    note = f"<div>The largest {len(rows)} of its updates:</div>" if len(rows) < len(updates) else ""
    return _card(title, facts, note, _table(("update", "group", "scores in", "shift"), rows))


def certificate_html(certificate: FitSummary) -> str:
    """A certificate in words, and the categories that are not within alpha."""
    words = "".join(f"<div>{escape(sentence)}</div>" for sentence in certificate.sentences())
    frame = certificate.to_frame()
    frame = frame[frame["status"] != WITHIN_ALPHA].head(MOST_ROWS)
    if not len(frame):
        return _card("Certificate", words)
    columns = ["status", "group", "bin", "people", "outcome_rate", "mean_score", "standard_error"]
    rows = [
        [*row[:3], IN_NOTEBOOK.whole(row[3]), *map(float, row[4:])]
        for row in frame[columns].itertuples(index=False)
    ]
    headings = ("", "group", "scores in", "people", "outcome rate", "mean score", "standard error")
    return _card("Certificate", words, _table(headings, rows))


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


def audit_html(audit: Audit) -> str:
    """The verdict, the groups, the clearest cells and the losses."""
    from propcal.auditing.conclusions import worst_categories

    labels, unit = audit.labels, audit.identity.unit
    losses = [
        (
            MEASURE_NAMES[str(name)].symbol,
            IN_NOTEBOOK.decimal(row["value"], 3),
            IN_NOTEBOOK.interval(row["low"], row["high"], 3),
            IN_NOTEBOOK.decimal(row["floor_95"], 3),
            row["where"],
        )
        for name, row in audit.losses.iterrows()
    ]
    worst = [
        (
            labels.get(row["group"], row["group"]),
            risk_range(row["bin"]),
            IN_NOTEBOOK.count(row["people"]),
            IN_NOTEBOOK.percent(row["outcome_rate"]),
            IN_NOTEBOOK.percent(row["mean_score"]),
            row["finding"],
        )
        for _, row in worst_categories(audit.categories).iterrows()
    ]
    kept = audit.groups[audit.groups["kept"].astype(bool)]
    groups = [
        (
            row["label"],
            IN_NOTEBOOK.count(row["people"]),
            IN_NOTEBOOK.percent(row["outcome_rate"]),
            IN_NOTEBOOK.percent(row["mean_score"]),
            IN_NOTEBOOK.decimal(row["observed_expected"]),
            IN_NOTEBOOK.interval(row["observed_expected_low"], row["observed_expected_high"]),
            IN_NOTEBOOK.p_value(row["p_value"]),
            row["finding"],
        )
        for _, row in kept.head(MOST_GROUPS).iterrows()
    ]
    left = len(kept) - len(groups)
    more = f"<div>... and {plural(left, 'more group')}</div>" if left else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in audit.notes)
    return _card(
        f"Audit: {audit.verdict.conclusion}",
        f"<div>{escape(audit.verdict.text)}</div>",
        _table(("group", unit, "observed", "predicted", "O/E", "95 % CI", "adjusted p", "finding"), groups),
        more,
        _table(("clearest cells", "predicted risk", unit, "observed", "predicted", "finding"), worst),
        _table(("loss", "value", "95 % CI", "by chance up to", "where"), losses),
        f"<ul>{notes}</ul>",
    )


def comparison_html(comparison: Comparison) -> str:
    """The verdict on each score, and the differences for everybody."""
    verdicts = [
        (name, audit.verdict.conclusion, audit.verdict.text) for name, audit in comparison.audits.items()
    ]
    table = comparison.differences
    chosen = table[table["group"].isin(["all categories", "everybody"])]
    rows = [_difference_row(row) for _, row in chosen.iterrows()]
    notes = "".join(f"<li>{escape(note)}</li>" for note in comparison.notes)
    return _card(
        f"Comparison of {len(comparison.audits)} scores",
        _table(("score", "verdict", ""), verdicts),
        _table(("score", "measure", comparison.base, "value", "95 % CI of the change"), rows),
        f"<ul>{notes}</ul>",
    )


def _difference_row(row: Any) -> tuple[str, ...]:
    measure = MEASURE_NAMES[row["measure"]]
    return (
        row["score"],
        measure.name,
        IN_NOTEBOOK.decimal(row["base"], measure.digits),
        IN_NOTEBOOK.decimal(row["value"], measure.digits),
        IN_NOTEBOOK.interval(row["low"], row["high"], measure.digits, "+"),
    )
