"""Methods text that can be cited, the settings behind it, and where it helps with TRIPOD+AI."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.claims import Note
from propcal.documents.blocks import At, Block, Details, Items, Paragraphs, Section
from propcal.documents.words import all_words, table, words
from propcal.numbers import IN_SENTENCE, ON_PAGE, plural
from propcal.plain_text import plain

LIBRARIES = ("numpy", "scipy", "pandas")


def methods_section(audit: Audit, notes: Sequence[str], suppress: int) -> Section:
    """Methods, notes and settings; a short terminal has the notes that nobody may miss."""
    vital = [note for note in notes if isinstance(note, Note) and note.vital]
    pairs = {"settings": facts(audit, suppress), "tripod": all_words("tripod").items()}
    settings, tripod = (
        table(key, [{"name": name, "value": value} for name, value in rows]) for key, rows in pairs.items()
    )
    blocks: list[Block] = [
        Paragraphs([f"{lead(audit)} This text may be quoted."], places=At.PAGE),
        Paragraphs(paragraphs(audit), places=At.WRITTEN),
        Items("Notes", notes, places=At.FULL),
        Items("Notes", vital, places=At.BRIEF),
        Details("Settings and versions", [settings], places=At.WRITTEN, printed=True),
        Details("For a TRIPOD+AI checklist", [Paragraphs([words("tables", "tripod")]), tripod], printed=True),
    ]
    return Section("methods", "Methods", blocks, link="Methods")


def lead(audit: Audit) -> str:
    """How many people, and how many of them had the outcome."""
    who = audit.identity
    outcome = f"the outcome ({who.outcome})" if who.outcome else "the outcome"
    people, positives = audit.settings["people"], audit.settings["positives"]
    return (
        f"An audit of {who.count(people)} whose score and outcome are known; "
        f"{IN_SENTENCE.count(positives)} had {outcome}."
    )


def paragraphs(audit: Audit) -> list[str]:
    """What was done, in sentences for a methods section."""
    s, unit = audit.settings, audit.identity.unit
    values = s | {"unit": unit, "random_state": _seed(s)}
    names = ["gap", "chance", *([] if s["soft_labels"] else ["tests"]), "intervals"]
    told = [words("audit_methods", name, **values) for name in names]
    weights = words("audit_methods", "frequency" if s["weights"] == "frequency" else "survey")
    weights += words("audit_methods", "clusters", **s) if s["buckets"] else ""
    return [_who(audit), _categories(audit), *told, weights]


def _seed(settings: dict[str, Any]) -> Any:
    return settings["random_state"] if settings["random_state"] is not None else "not recorded"


def _who(audit: Audit) -> str:
    s, who = audit.settings, audit.identity
    events = f"{IN_SENTENCE.count(s['positives'])} events"
    attributes = ", ".join(map(plain, s["attributes"])) or "none"
    some = who.count(s["people"])
    missing = {
        "level": "A missing value forms a group of its own.",
        "exclude": f"{who.unit.capitalize()} with a missing value are in no group of that attribute.",
        "error": "No value is missing.",
    }.get(s["missing"], "")
    return (
        f"The audit covers {some} with {events} and was made with propcal {s['version']}. Groups are defined "
        f"by: {attributes} (intersections: {s['intersections']}). {missing}"
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
        ("draws, seed", f"{s['n_draws']:,}, {_seed(s)}"),
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
