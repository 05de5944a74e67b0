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
from propcal.plain_text import plain

LIBRARIES = ("numpy", "scipy", "pandas")


def methods_section(audit: Audit, notes: Sequence[str], suppress: int) -> Section:
    """Methods, notes and settings; a short terminal has the notes that nobody may miss."""
    vital = [note for note in notes if isinstance(note, Note) and note.vital]
    s, versions = audit.settings, {name: _version(name) for name in LIBRARIES}
    values = {"s": s, "attributes": _attributes(s), "seed": _seed(s), "unit": audit.identity.unit}
    values |= {"versions": versions | {"Python": platform.python_version()}, "suppress": suppress}
    settings, tripod = (
        table(key, [{"name": name, "value": value} for name, value in all_words(key, **values).items()])
        for key in ("settings", "tripod")
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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"
