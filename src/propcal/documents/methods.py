"""Methods text that can be cited, the settings behind it, and where it helps with TRIPOD+AI."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.claims import Note
from propcal.documents.blocks import At, Block, Details, Items, Paragraphs, Section
from propcal.documents.words import all_words, sentence, sentences, table, words
from propcal.numbers import ON_PAGE
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
    return sentence("methods", "lead", audit.settings, audit.identity)


def paragraphs(audit: Audit) -> list[str]:
    """What was done, in sentences for a methods section."""
    kept, s = audit.groups["kept"].astype(bool), audit.settings
    counts = int(kept.sum()) - 1, int((~kept).sum())
    return sentences("methods", "methods", s, audit.identity, _attributes(s), _seed(s), *counts)


def _attributes(settings: dict[str, Any]) -> str:
    return ", ".join(map(plain, settings["attributes"])) or "none"


def _seed(settings: dict[str, Any]) -> Any:
    return settings["random_state"] if settings["random_state"] is not None else "not recorded"


def facts(audit: Audit, suppress: int) -> list[tuple[str, str]]:
    """Parameters and versions."""
    s = audit.settings
    return [
        ("propcal", s["version"]),
        *((name, _version(name)) for name in LIBRARIES),
        ("Python", platform.python_version()),
        (audit.identity.unit, ON_PAGE.count(s["people"])),
        ("events", ON_PAGE.count(s["positives"])),
        ("attributes", _attributes(s)),
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
