"""A summary as one HTML file, or as Markdown: templates filled in, nothing computed."""

from __future__ import annotations

import re
from os import PathLike
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from propcal.errors import InputError
from propcal.output.page_file import REPORT, environment, packed, whole_page, write_page
from propcal.output.report.summary import Summary, summarise
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.output.report.discovery_section import DiscoverySection


def write_html(result: Any, path: str | PathLike[str] | None, **options: Any) -> str:
    """The page; written whole or not at all if a path is given."""
    section = _section(options)
    return write_page(html(summarise(result, **options), section), path)


def write_markdown(result: Any, path: str | PathLike[str] | None, **options: Any) -> str:
    """The Markdown text; written likewise."""
    section = _section(options)
    return write_page(markdown(summarise(result, **options), section), path)


def _section(options: dict[str, Any]) -> DiscoverySection | None:
    """The section of the discovery among the options, which is taken out of them."""
    found = options.pop("discovery", None)
    if found is None:
        return None
    from propcal.discovery.discovery import Discovery  # which imports numba; a page without one does not
    from propcal.output.report.discovery_section import discovery_section

    if not isinstance(found, Discovery):
        raise InputError(
            f"discovery must be what propcal.discover returns; got {type(found).__name__}",
            argument="discovery",
        )
    return discovery_section(found, options["suppress"])


def html(summary: Summary, section: DiscoverySection | None = None) -> str:
    """The page."""
    groups = [
        {"name": group.name, "lines": group.lines, "tables": group.tables, "told": group.told}
        for group in summary.four.groups
    ]
    return whole_page(
        REPORT,
        "report.html",
        title=summary.title,
        brand="Calibration audit of a risk score",
        made=summary.made,
        script="report.js",
        about=summary.about,
        s=summary,
        d=section,
        groups_data=packed(groups),
        audit_data=packed(summary.content),
    )


def markdown(summary: Summary, section: DiscoverySection | None = None) -> str:
    """The Markdown text."""
    # whatever the template puts in is escaped, so that no name can be forgotten
    words = environment(REPORT).overlay(autoescape=False, finalize=markdown_text)
    made = words.get_template("report.md").render(s=summary, d=section)
    return re.sub(r"\n{3,}", "\n\n", made).strip() + "\n"


def markdown_text(value: Any) -> str:
    r"""Users' text as Markdown shows it letter by letter, on one line; what is `Markup` already stays.

    >>> print(markdown_text("a|b *c* <script>"))
    a\|b \*c\* &lt;script&gt;
    """
    if isinstance(value, Markup):
        return str(value)
    text = plain(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", text)
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")  # no link where none is meant
