"""Methods text that can be cited, the settings behind it, and where it helps with TRIPOD+AI."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.claims import Note
from propcal.documents.blocks import At, Block, Column, Details, Items, Paragraphs, Section, Table
from propcal.numbers import IN_SENTENCE, ON_PAGE, Limit, plural
from propcal.plain_text import plain

LIBRARIES = ("numpy", "scipy", "pandas")


def methods_section(audit: Audit, notes: Sequence[str], suppress: int) -> Section:
    """Methods, notes and settings; a short terminal has the notes that nobody may miss."""
    vital = [note for note in notes if isinstance(note, Note) and note.vital]
    settings = _pairs("settings", "Settings and versions", ("setting", "value"), facts(audit, suppress))
    topics = (
        "This page helps to report the following topics of TRIPOD+AI. The topics are paraphrased; see the "
        "checklist itself for its items."
    )
    tripod = _pairs("tripod", "Topics of TRIPOD+AI", ("topic", "what this page has"), TRIPOD)
    blocks: list[Block] = [
        Paragraphs([f"{lead(audit)} This text may be quoted."], places=At.PAGE),
        Paragraphs(paragraphs(audit), places=At.WRITTEN),
        Items("Notes", notes, places=At.FULL),
        Items("Notes", vital, places=At.BRIEF),
        Details("Settings and versions", [settings], places=At.WRITTEN, printed=True),
        Details("For a TRIPOD+AI checklist", [Paragraphs([topics]), tripod], printed=True),
    ]
    return Section("methods", "Methods", blocks, link="Methods")


def _pairs(key: str, title: str, headings: tuple[str, str], pairs: Sequence[tuple[str, str]]) -> Table:
    columns = [Column("name", headings[0]), Column("value", headings[1])]
    return Table(key, title, columns, [{"name": name, "value": value} for name, value in pairs])


def lead(audit: Audit) -> str:
    """How many people, and how many of them had the outcome."""
    who, exact = audit.identity, audit._source is not None
    outcome = f"the outcome ({who.outcome})" if who.outcome else "the outcome"
    people, positives = audit.settings["people"], audit.settings["positives"]
    about = ["" if exact or isinstance(n, Limit) else "about " for n in (people, positives)]
    return (
        f"An audit of {about[0]}{who.count(people)} whose score and outcome are known; "
        f"{about[1]}{IN_SENTENCE.count(positives)} had {outcome}."
    )


def paragraphs(audit: Audit) -> list[str]:
    """What was done, in sentences for a methods section."""
    s, unit = audit.settings, audit.identity.unit
    seed = s["random_state"] if s["random_state"] is not None else "not recorded"
    told = [_who(audit), _categories(audit)]
    told.append(
        "The gap of a cell is its observed rate minus its mean predicted risk. MC loss is the largest "
        "absolute gap of a cell, PMC loss the largest absolute gap relative to the observed rate (rates "
        f"below {s['rho']:g} count as {s['rho']:g}), and DC loss the largest absolute log-ratio of the "
        "observed rates of two groups within one risk range."
    )
    told.append(
        "Each loss is shown with what chance alone would show: the 95th percentile over "
        f"{s['n_draws']:,} data sets whose outcomes were drawn from the score itself (seed {seed}). "
        "Intervals of gaps are Clopper-Pearson intervals with a Bonferroni adjustment for the number of "
        "cells; all other intervals are 95 % confidence intervals, not adjusted for multiple comparisons."
    )
    if not s["soft_labels"]:
        told.append(
            "The verdict is based on four families of tests: the number of events of everyone against the "
            "sum of the scores, and the calibration slope against 1; the number of events of each group; "
            "differences between groups, slopes and curves beyond that; and the largest gap of all cells, "
            "in standard errors, against its distribution under the score. Together they call "
            "at most 5 % of perfect scores miscalibrated (Holm's adjustment within a family, weighted "
            "between families). "
            "Errors of everyone and of subgroups are fitted together, and the fewest that account for the "
            "others are named."
        )
    told.append(
        "The O/E ratio is the number of events over the sum of the scores. Its interval inverts the mid-p "
        "test of the number of events, a sum of unequal Bernoulli variables (saddlepoint approximation, "
        "robust variance). Intervals of rates are Wilson's; those of the calibration intercept and slope are "
        "Wald's, with the robust (sandwich) variance. The calibration curve is a "
        "restricted cubic spline of the log-odds of the score, the interval of the AUROC is DeLong's, and "
        f"net benefit at a threshold t is (true positives − false positives × t / (1 − t)) / {unit}."
    )
    told.append(_weights(s))
    return told


def _who(audit: Audit) -> str:
    s, who = audit.settings, audit.identity
    events = f" with {IN_SENTENCE.count(s['positives'])} events"
    attributes = ", ".join(map(plain, s["attributes"])) or "none"
    some = who.count(s["people"])
    missing = {
        "level": "A missing value forms a group of its own.",
        "exclude": f"{who.unit.capitalize()} with a missing value are in no group of that attribute.",
        "error": "No value is missing.",
    }.get(s["missing"], "")
    return (
        f"The audit covers {some}{events} and was made with propcal {s['version']}. Groups are defined by: "
        f"{attributes} (intersections: {s['intersections']}). {missing}"
    )


def _categories(audit: Audit) -> str:
    s, unit = audit.settings, audit.identity.unit
    kept, left_out = int(audit.groups["kept"].sum()) - 1, int((~audit.groups["kept"].astype(bool)).sum())
    return (
        f"A group was tested if it has at least {s['min_group']} {unit} and at least {s['min_events']} "
        f"expected events and non-events: {plural(kept, 'group')} met this, {left_out:,} did not. Scores "
        f"were divided into {len(s['edges']) - 1} risk ranges ({s['binning']}), for groups with at least "
        f"{100 * s['gamma']:g} % of the {unit}. A cell, a group within a risk range, was judged if it has at "
        f"least {s['min_people']} {unit} and {100 * s['min_share']:.2g} % of all."
    )


def _weights(s: dict[str, Any]) -> str:
    weights = (
        "Every row counts once, or as often as a whole-number weight says."
        if s["weights"] == "frequency"
        else "Observations have survey weights, and variances come from the squared weights."
    )
    if s["buckets"]:
        weights += (
            " Repeat visits of the same person were taken as dependent: variances come from the spread of "
            f"{s['buckets']} clusters of people (Liang and Zeger)."
        )
    return weights


def facts(audit: Audit, suppress: int) -> list[tuple[str, str]]:
    """Parameters and versions."""
    s = audit.settings
    return [
        ("propcal", s["version"]),
        *((name, _version(name)) for name in LIBRARIES),
        ("Python", platform.python_version()),
        (audit.identity.unit, ON_PAGE.count(s["people"])),
        ("events", ON_PAGE.count(s["positives"])),
        ("attributes", ", ".join(map(plain, s["attributes"])) or "none"),
        ("intersections", str(s["intersections"])),
        ("missing values", str(s["missing"])),
        ("alpha, gamma, rho", f"{s['alpha']:g}, {s['gamma']:g}, {s['rho']:g}"),
        ("risk ranges", f"{len(s['edges']) - 1}, {s['binning']}"),
        ("fewest in a cell that is judged", str(s["min_people"])),
        ("fewest in a group that is tested", f"{s['min_group']}, {s['min_events']} expected events"),
        ("smallest share of a cell", f"{s['min_share']:.3g}"),
        (
            "draws, seed",
            f"{s['n_draws']:,}, {s['random_state'] if s['random_state'] is not None else 'not recorded'}",
        ),
        ("weights", str(s["weights"])),
        ("soft labels", "yes" if s["soft_labels"] else "no"),
        ("clusters of repeat visits", str(s["buckets"] or "none")),
        ("counts protected", f"below {suppress}" if suppress > 1 else "no"),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"


TRIPOD = [
    (
        "How performance was measured",
        "The text under Methods, the four pictures and the table of groups.",
    ),
    (
        "Fairness: which groups were examined, and why",
        "All groups are listed, including those not tested. Why these attributes were chosen is for you to "
        "say.",
    ),
    (
        "Sample size",
        "The number of people and events in every group; how large an error the data allow.",
    ),
    (
        "Missing data",
        "The notes count missing attributes, and the scores and outcomes that were left out as missing. How "
        "the data behind the score were completed is for you to report.",
    ),
    ("Performance with intervals, also in key subgroups", "The table of groups and the table of cells."),
    (
        "Updating of the model, and its result",
        "The sections on before and after and on the correction, where present.",
    ),
    ("Limitations", "“What the data cannot tell” at the top; your own knowledge of the data."),
    (
        "Availability of data, code and analysis",
        "The table of settings and versions; the numbers of this page in machine-readable form at its end.",
    ),
]
