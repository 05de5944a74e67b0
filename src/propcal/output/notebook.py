"""Small HTML for notebooks: scoped by a class of its own, no scripts, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from propcal.auditing.finding_names import HEADLINES, TOO_HIGH, TOO_LOW
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.core.correction.correction import Correction
from propcal.core.correction.explain import Explanation
from propcal.core.correction.fit_summary import WITHIN_ALPHA, FitSummary
from propcal.numbers import IN_NOTEBOOK, plural, risk_range
from propcal.output.report.forest_bars import ForestAxis
from propcal.output.report.key_figures import key_figures

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit
    from propcal.auditing.compare import Comparison
    from propcal.discovery.discovery import Discovery

MOST_ROWS = 10
MOST_GROUPS = 25
STYLE = (
    "<style>.propcal-card{font-family:system-ui,sans-serif;font-size:13px;line-height:1.4;max-width:72em}"
    ".propcal-card table{border-collapse:collapse;margin:.4em 0;font-size:inherit}"
    ".propcal-card th,.propcal-card td{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}"
    ".propcal-card th{font-weight:600;border-bottom:1px solid currentColor}"
    ".propcal-card .propcal-number{text-align:right;font-variant-numeric:tabular-nums}"
    ".propcal-card .propcal-verdict{border-left:.45em solid #767b83;background:rgba(118,123,131,.12);"
    "border-radius:.4em;padding:.5em .9em;margin:.3em 0;font-size:14px}"
    ".propcal-card .propcal-wrong{border-color:#c2500f;background:rgba(194,80,15,.12)}"
    ".propcal-card .propcal-noise{border-color:#2f7d50;background:rgba(47,125,80,.12)}"
    ".propcal-card .propcal-figures{display:flex;flex-wrap:wrap;gap:.4em 1.6em;margin:.5em 0}"
    ".propcal-card .propcal-figures b{display:block;font-size:17px;font-variant-numeric:tabular-nums}"
    ".propcal-card svg{width:9em;height:1.3em;vertical-align:middle}"
    ".propcal-card td:nth-child(n+2):not(:last-child){white-space:nowrap}</style>"
)
INKS = {TOO_HIGH: "#c2500f", TOO_LOW: "#1f6fb5"}  # as on the page, and readable on light and dark


def card(title: str, *body: str) -> str:
    return f'{STYLE}<div class="propcal-card"><strong>{escape(title)}</strong>{"".join(body)}</div>'


class _Drawn(str):
    """Markup that a table takes as it is."""


def card_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        cells = [
            f'<td class="propcal-number">{IN_NOTEBOOK.decimal(value, 3)}</td>'
            if isinstance(value, float)
            else f"<td>{value}</td>"
            if isinstance(value, _Drawn)
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
        return card(title, facts, "<div>It changes no score.</div>")
    first = int(correction.start is not None)
    order = np.argsort(-np.abs(correction.updates[:, 2]), kind="stable")[:MOST_ROWS] + first
    updates = correction.update_list()
    if correction.start is not None:
        facts += f"<div>A smooth start of {len(correction.start.groups)} terms comes first.</div>"
    rows = [(int(i) + 1, updates[i].group, updates[i].bin, float(updates[i].shift)) for i in order]
    if not rows:
        return card(title, facts)
    note = f"<div>The largest {len(rows)} of its updates:</div>" if len(rows) < len(updates) else ""
    return card(title, facts, note, card_table(("update", "group", "scores in", "shift"), rows))


def certificate_html(certificate: FitSummary) -> str:
    """A certificate in words, and the categories that are not within alpha."""
    words = "".join(f"<div>{escape(sentence)}</div>" for sentence in certificate.sentences())
    frame = certificate.to_frame()
    frame = frame[frame["status"] != WITHIN_ALPHA].head(MOST_ROWS)
    if not len(frame):
        return card("Certificate", words)
    columns = ["status", "group", "bin", "people", "outcome_rate", "mean_score", "standard_error"]
    rows = [
        [*row[:3], IN_NOTEBOOK.whole(row[3]), *map(float, row[4:])]
        for row in frame[columns].itertuples(index=False)
    ]
    headings = ("", "group", "scores in", "people", "outcome rate", "mean score", "standard error")
    return card("Certificate", words, card_table(headings, rows))


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
    return card(
        f"Explanation for {len(explanation):,} people",
        card_table(("person", "score", "corrected", "why"), rows),
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
    axis = ForestAxis.holding(kept[["observed_expected_low", "observed_expected_high"]].to_numpy().ravel())
    groups = [
        (
            row["label"],
            _bar(axis, row),
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
    headline = HEADLINES[audit.verdict.conclusion]
    return card(
        audit.identity.title or "Audit",
        f'<div class="propcal-verdict propcal-{headline.tone}"><strong>{escape(headline.words)}</strong><br>'
        f"{escape(audit.verdict.text)}</div>",
        _figures(audit),
        card_table(
            ("group", "", unit, "observed", "predicted", "O/E", "95 % CI", "adjusted p", "finding"), groups
        ),
        more,
        card_table(("clearest cells", "predicted risk", unit, "observed", "predicted", "finding"), worst),
        card_table(("loss", "value", "95 % CI", "a perfect score stays below (95 %)", "where"), losses),
        "" if audit.bin_free is None else f"<div>{escape(audit.bin_free.sentence)}</div>",
        f"<ul>{notes}</ul>",
    )


def _figures(audit: Audit) -> str:
    """The key figures of the page."""
    cards = "".join(
        f"<span>{escape(figure.name)}<b>{escape(figure.value)}</b>"
        f"{escape(f'95 % CI {figure.interval}' if figure.interval else figure.meaning)}</span>"
        for figure in key_figures(audit, None, exact=True)
    )
    return f'<div class="propcal-figures">{cards}</div>'


def _bar(axis: ForestAxis, row: Any) -> _Drawn:
    """An O/E ratio and its interval, as on the page."""
    bar = axis.bar(*(row[f"observed_expected{end}"] for end in ("", "_low", "_high")))
    if bar is None:
        return _Drawn("")
    ink = INKS.get(row["finding"], "#767b83")
    return _Drawn(
        '<svg viewBox="0 0 200 20" aria-hidden="true"><path d="M100,0V20" stroke="#767b83" '
        f'stroke-dasharray="2 2"/><path d="M{bar.low},10H{bar.high}" stroke="{ink}" stroke-width="2"/>'
        + (f'<circle cx="{bar.point}" cy="10" r="4.5" fill="{ink}"/></svg>' if bar.point else "</svg>")
    )


def comparison_html(comparison: Comparison) -> str:
    """The verdict on each score, and the differences for everybody."""
    verdicts = [
        (name, audit.verdict.conclusion, audit.verdict.text) for name, audit in comparison.audits.items()
    ]
    table = comparison.differences
    chosen = table[table["group"].isin(["all categories", "everybody"])]
    rows = [_difference_row(row) for _, row in chosen.iterrows()]
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*comparison.worse(), *comparison.notes))
    return card(
        f"Comparison of {len(comparison.audits)} scores",
        card_table(("score", "verdict", ""), verdicts),
        card_table(("score", "measure", comparison.base, "value", "95 % CI of the change"), rows),
        f"<ul>{notes}</ul>",
    )


def _difference_row(row: Any) -> tuple[str, ...]:
    measure = MEASURE_NAMES[row["measure"]]
    return (
        row["score"],
        measure.name,
        IN_NOTEBOOK.decimal(measure.shown(row["base"]), measure.digits),
        IN_NOTEBOOK.decimal(measure.shown(row["value"]), measure.digits),
        IN_NOTEBOOK.change(row["low"], row["high"], measure.digits),
    )


def discovery_html(found: Discovery) -> str:
    """The groups that a search found: a sentence, and a row for each."""
    told = [*found.sentences]
    groups = {group.sentence(found.identity) for group in found.found}
    words = "".join(f"<div>{escape(sentence)}</div>" for sentence in told if sentence not in groups)
    corrected = any(group.two_scores for group in found.found)
    headings = (
        "group",
        found.identity.unit,
        "observed",
        "predicted",
        *(["predicted after correction"] if corrected else []),
        "O/E ratio or slope",
        "95 % CI after selection",
        "p, adjusted for the search",
    )
    rows = [
        (
            f"{group.name}: {group.words}",
            IN_NOTEBOOK.count(round(group.people)),
            IN_NOTEBOOK.percent(group.observed),
            IN_NOTEBOOK.percent(group.predicted),
            *([IN_NOTEBOOK.percent(group.predicted_after)] if corrected else []),
            IN_NOTEBOOK.decimal(group.value),
            IN_NOTEBOOK.interval(group.low, group.high),
            IN_NOTEBOOK.p_value(group.p_value),
        )
        for group in found.found
    ]
    return card("Groups found", words, card_table(headings, rows) if rows else "")
