"""What was found across sites as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from propcal.disclosure.protected_sites import protected_sites
from propcal.output.json import rounded, table_records

if TYPE_CHECKING:
    from propcal.sites.site_measures import Sites

SITES_FORMAT, SITES_VERSION = "propcal-sites", 1


def sites_to_json(found: Sites, suppress: int | None = None) -> str:
    """Everything, with small sites suppressed if that is asked."""
    shown = protected_sites(found, suppress)
    content: dict[str, Any] = {
        "format": SITES_FORMAT,
        "version": SITES_VERSION,
        "conclusion": shown.conclusion,
        "sentences": list(shown.sentences),
        "sites": table_records(shown.sites),
        "summary": table_records(shown.summary.rename_axis("measure").reset_index()),
        "travel": None if shown.travel is None else table_records(shown.travel.table),
        "notes": list(shown.notes),
        "identity": asdict(shown.identity),
    }
    return json.dumps(rounded(content), ensure_ascii=False, allow_nan=False, indent=1)
