"""What an audit says: the verdict, groups, risk ranges, thresholds, pictures and
methods, as one document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from typing import Any

import numpy as np

from propcal import __version__
from propcal.auditing import names as finding
from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import row_dicts
from propcal.documents.audit_charts import forest
from propcal.documents.audit_pictures import (
    PerformancePictures,
    curve_panels,
    main_curve,
    performance_pictures,
)
from propcal.documents.audit_sentences import (
    cannot_tell,
    lead,
    methods_section,
    mostly_unjudged,
    next_steps,
)
from propcal.documents.blocks import (
    RATIO,
    At,
    Beside,
    Block,
    Column,
    Details,
    Document,
    Figure,
    Figures,
    Fragment,
    Items,
    Paragraphs,
    Section,
    Verdict,
    named_texts,
)
from propcal.documents.charts import LOOKS, Chart, Forest
from propcal.documents.data import audit_content
from propcal.documents.risk_ranges import groups_apart, risk_ranges
from propcal.documents.sentences import verdict
from propcal.documents.words import all_words, table, words
from propcal.numbers import (
    IN_SENTENCE,
    ON_PAGE,
    Limit,
    are,
    capital,
    excludes_one,
    known,
    plural,
)

TITLE = "Is this risk score right for everyone?"
BRIEF_GROUPS = 5
MOST_BARS = 7


@dataclass(frozen=True)
class Around:
    """What other results add to the document of an audit.

    `before` is the audit of the score that was corrected, `verdicts` and `steps` stand
    in the place of the audit's own, and `content` is what machines read. `sites` says
    at which sites the score is wrong. `found`, `changed` and `last` are further
    sections.
    """

    title: str = ""
    score: str = ""
    before: Audit | None = None
    verdicts: Sequence[Block] = ()
    steps: Sequence[str] = ()
    compared: Sequence[str] = ()
    found: Sequence[Section] = ()
    changed: Sequence[Section] = ()
    last: Sequence[Section] = ()
    notes: Sequence[str] = ()
    sites: str = ""
    content: Callable[[], Any] | None = None
    suppress: int = 0
    links: Sequence[tuple[str, str, str]] = ()


def audit_document(audit: Audit, around: Around | None = None) -> Document:
    """The document of an audit, whose counts may be protected."""
    around = around or Around()
    today = date.today().isoformat()
    names = audit.identity
    about = named_texts(
        Score=names.score,
        Outcome=names.outcome,
        Who=names.population,
        Where=names.institution,
        Source=names.source,
        Period=names.period,
        Made=f"{today}, propcal {__version__}",
    )
    open_questions = Items("", cannot_tell(audit))
    drawn = cache(
        lambda: performance_pictures(audit)
    )  # drawn once, when a page is made
    return Document(
        "Calibration audit of a risk score",
        around.title or names.title or TITLE,
        [
            Paragraphs([lead(audit)], places=At.MARKDOWN),
            *(
                around.verdicts
                or [
                    replace(
                        verdict_block(audit, sites=around.sites), links=around.links
                    )
                ]
            ),
            key_figures(audit, around.before),
            Beside(
                [_first_picture(audit, around.before, drawn), _advice(audit, around)],
                places=At.WRITTEN,
            ),
            Section(
                "limits",
                "What the data cannot tell",
                [open_questions],
                places=At.WRITTEN,
            ),
            _groups(audit, around.score),
            *_panels(audit, drawn),
            *around.found,
            risk_ranges(audit),
            *_thresholds(audit),
            *around.changed,
            _pictures(audit, drawn),
            groups_apart(audit, around.suppress),
            methods_section(audit, around.notes or audit.notes, around.suppress),
            *around.last,
        ],
        about=about,
        data=around.content or (lambda: audit_content(audit)),
        data_key="audit",
        made=today,
        script="report.js",
    )


def headline(audit: Audit) -> tuple[str, str]:
    """Tone and words of the headline; a correction judged by the people it was fitted
    to gets no tick.
    """
    judged = audit.verdict.conclusion
    these = f"fitted to these very {audit.identity.unit}"
    miscalibrated = judged == finding.MISCALIBRATED
    shown = judged.startswith(finding.SHOWN)
    if audit.settings["fitted_on_these"]:
        texts = f"Miscalibrated, although {these}", f"Not evidence, because {these}"
        if miscalibrated:
            return ("wrong", texts[0])
        return ("few", texts[1])
    if mostly_unjudged(audit):
        return "few", "No miscalibration found, but not enough data for most cells"
    if shown and audit.verdict.errors:
        return "few", f"{capital(judged)}, but miscalibrated"
    if miscalibrated:
        tone = "wrong"
    elif shown or judged == finding.NONE_FOUND:
        tone = "noise"
    else:
        tone = "few"
    return (
        tone,
        "Not enough data to judge" if judged == finding.NOT_ENOUGH else capital(judged),
    )


def verdict_block(audit: Audit, subject: str = "Verdict", sites: str = "") -> Verdict:
    """The verdict of an audit; there is no tick if the score is wrong at some
    `sites`.
    """
    tone, text = headline(audit)
    if sites and tone == "noise":
        tone = "wrong"
        text = f"{text} in groups, but {sites[0].lower()}{sites[1:]}"
    return Verdict(tone, text, audit.verdict.sentences, subject)


def key_figures(audit: Audit, before: Audit | None = None) -> Figures:
    """How many people, and how good the score is overall."""
    row = audit.groups.iloc[0]
    outcome = audit.identity.outcome
    earlier = None if before is None else before.groups.iloc[0]
    rate = f"{IN_SENTENCE.percent(row['outcome_rate'])} of all"
    exact = audit._source is not None  # protected audits have none
    moved = "" if exact else "counts are changed by up to 2 for privacy"
    counts = [ON_PAGE.count(audit.settings[name]) for name in ("people", "positives")]
    figures = [
        Figure(audit.identity.unit, counts[0], meaning=moved),
        Figure(
            "with the outcome",
            counts[1],
            meaning=f"{outcome}: {rate}" if outcome else rate,
        ),
    ]
    for name, measure in finding.MEASURE_NAMES.items():
        if not measure.reading:
            continue
        value = row[name]
        limits = ON_PAGE.interval(
            row[f"{name}_low"], row[f"{name}_high"], measure.digits
        )
        if limits == ON_PAGE.unknown or isinstance(value, Limit):
            shown = ""
        else:
            shown = limits
        if earlier is None:
            was = ""
        else:
            was = ON_PAGE.decimal(earlier[name], measure.digits)
        figures.append(
            Figure(
                measure.name,
                ON_PAGE.decimal(value, measure.digits),
                shown,
                was,
                measure.reading,
            )
        )
    return Figures(f"Key figures, all {audit.identity.unit}", figures)


def _first_picture(
    audit: Audit, before: Audit | None, drawn: Callable[[], PerformancePictures]
) -> Section:
    """The finding: the calibration curve if the shape is wrong, and O/E ratios if
    groups are.
    """
    kinds = {claim.kind for claim in audit.verdict.errors}
    if "shape" in kinds and not kinds & {"group", "beyond"}:
        curve = Fragment(
            "main_curve.html", lambda: {"picture": main_curve(audit, drawn())}
        )
        return Section(
            "picture", "Observed rate by predicted risk", [curve], places=At.PAGE
        )
    picture = ratio_forest(audit, before)
    shown: Block = (
        picture
        if isinstance(picture, Forest)
        else Paragraphs([str(picture)], places=At.PAGE)
    )
    return Section(
        "picture", "Observed over expected events (O/E)", [shown], places=At.PAGE
    )


def ratio_forest(audit: Audit, before: Audit | None = None) -> Chart:
    """O/E ratios of everybody, then of the groups that the verdicts name and the
    largest others, by O/E.
    """
    found = forest(audit, before=before, most=MOST_BARS - 1, measured=True)
    more = int(audit.groups["kept"].sum()) - MOST_BARS
    if isinstance(found, Forest) and more > 0:
        return replace(
            found,
            description=f"{found.description} {are(more, 'more group')} in the table below.",
        )
    return found


def _advice(audit: Audit, around: Around) -> Section:
    steps = Items("", around.steps or next_steps(audit))
    return Section(
        "details",
        "What to do next",
        [steps, Paragraphs(around.compared)],
        places=At.WRITTEN,
    )


def look_of(row: Mapping[str, Any]) -> str:
    """How a group is drawn: in colour if the verdict names it."""
    wrong = row["finding"] in finding.WRONG
    if wrong and not row["rank"]:
        return "noise"
    return LOOKS.get(row["finding"], "few")


def _finding(row: Mapping[str, Any]) -> str:
    """A finding, in brackets if the score is off and the verdict does not name the
    group.
    """
    wrong = row["finding"] in finding.WRONG
    if wrong and not row["rank"]:
        return f"({row['finding']})"
    return str(row["finding"])


def _mark(row: Mapping[str, Any]) -> str:
    """A finding in a narrow table: "+" if it is near one, and nothing if it could be
    chance.
    """
    if row["finding"] in finding.WRONG:
        return _finding(row)
    if row["compared"]:
        return str(row["compared"])
    if row["finding"] == finding.CHANCE and excludes_one(
        row[f"{RATIO}_low"], row[f"{RATIO}_high"]
    ):
        return "+"
    return "few data" if row["finding"] == finding.NOT_ENOUGH else ""


def _groups(audit: Audit, score: str) -> Section:
    rows = row_dicts(audit.groups)
    for row in rows:
        row |= {"look": look_of(row), "mark": _mark(row), "told": _finding(row)}
        row["explained"] = verdict.explained(row)
    kept, left_out = (
        [row for row in rows if bool(row["kept"]) is way] for way in (True, False)
    )
    first = sorted(
        (row for row in kept[1:] if row["rank"] > 0), key=lambda row: row["rank"]
    )
    first = first or clearest_groups(audit, kept[1:])
    for i, row in enumerate(kept):
        row["brief"] = i == 0 or row in first
    kept[1:] = [*first, *(row for row in kept[1:] if not row["brief"])]
    unit = audit.identity.unit
    explained = any(row["explained"] for row in kept)
    measures = [
        Column(
            measure.key, measure.name, "decimal", measure.digits, At.WRITTEN, minor=True
        )
        for measure in finding.MEASURE_NAMES.values()
        if measure.of_groups
    ]
    groups = table(
        "groups", kept, score=score, unit=unit, measures=measures, explained=explained
    )
    marks = all_words("marks", tested=len(audit.verdict.tests))
    blocks: list[Block] = [
        Paragraphs([words("tables", "groups", explained=explained)], places=At.PAGE),
        replace(groups, legend=marks),
        Paragraphs(
            list({marks[row["told"]]: 0 for row in kept if row["told"] in marks}),
            places=At.WRITTEN,
        ),
    ]
    if left_out:
        heading = f"Shown but not tested: {plural(len(left_out), 'group')}"
        untested = table(
            "left",
            left_out,
            heading=heading,
            unit=unit,
            protected=audit._source is None,
        )
        blocks.append(
            Details(heading, [untested], places=At.TEXT | At.WRITTEN, printed=True)
        )
    return Section("groups", "Group by group", blocks, link="Groups")


def clearest_groups(
    audit: Audit, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The groups with the lowest p-values, among those that may be shown."""
    tests = row_dicts(audit.verdict.tests)
    told = {
        row["test"]: row["p_value"]
        for row in tests
        if not isinstance(row["p_value"], Limit)
    }
    return sorted(rows, key=lambda row: told.get(row["group"], 1.0))[: BRIEF_GROUPS - 1]


def threshold_label(threshold: float) -> str:
    """A threshold as people say it.

    >>> threshold_label(0.075), threshold_label(0.2)
    ('7.5 %', '20 %')
    """
    return f"{100 * threshold:.4g} %"


def _thresholds(audit: Audit) -> list[Section]:
    """What acting on the score comes to: at the user's thresholds, or on a page from
    the overall rate on.
    """
    if not len(audit.net_benefit):
        return []
    given = audit.settings["thresholds"]
    rate = audit.groups["outcome_rate"].iloc[0]
    if known(rate):
        usual = float(np.clip(round(100 * float(rate)), 1, 99)) / 100
    else:
        usual = 0.5
    thresholds = [float(t) for t in given] or [usual]
    shown = [(t, threshold_label(t)) for t in thresholds]
    places = At.EVERYWHERE if given else At.WRITTEN
    rows = [
        row | {"key": row["group"]}
        for row in row_dicts(audit.at_threshold(*thresholds))
    ]
    tables: list[Block] = []
    for i, (threshold, label) in enumerate(shown):
        own = [row for row in rows if abs(row["threshold"] - threshold) < 1e-9]
        found = table(
            "threshold", own, f"threshold-{i}", label=label, unit=audit.identity.unit
        )
        tables.append(replace(found, places=places, sortable=i == 0))
    slider = Fragment(
        "threshold_slider.html", lambda: {"chosen": bool(given), "thresholds": shown}
    )
    if tables[1:]:
        others = [Details("At the other thresholds", tables[1:], places=places)]
    else:
        others = []
    note, avoided = (words("tables", name) for name in ("thresholds", "avoided"))
    notes = [
        Paragraphs([note], places=places & ~At.WRITTEN),
        Paragraphs([f"{note} {avoided}"], places=places & At.WRITTEN),
    ]
    blocks = [slider, tables[0], *others, *notes]
    return [
        Section(
            "thresholds", "At your threshold", blocks, link="Thresholds", places=places
        )
    ]


def _pictures(audit: Audit, drawn: Callable[[], PerformancePictures]) -> Section:
    pictures = Fragment(
        "performance_pictures.html",
        lambda: {"drawn": drawn(), "unit": audit.identity.unit},
    )
    return Section(
        "pictures", "Overall performance", [pictures], link="Overall", places=At.PAGE
    )


def _panels(audit: Audit, drawn: Callable[[], PerformancePictures]) -> list[Section]:
    """The calibration curve of each group."""
    if audit.curves["group"].nunique() < 2:
        return []
    about = {"unit": audit.identity.unit, "exact": audit._source is not None}
    panels = Fragment(
        "curve_panels.html",
        lambda: {
            "panels": curve_panels(audit, drawn().groups, look_of),
            "drawn": drawn(),
            **about,
        },
    )
    return [
        Section(
            "panels",
            "Calibration, group by group",
            [panels],
            link="Curves",
            places=At.PAGE,
        )
    ]
