"""A summary as one HTML file, or as Markdown: templates filled in, nothing computed."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import BaseLoader, Environment, TemplateNotFound
from markupsafe import Markup

from propcal.errors import InputError
from propcal.output.files.whole_file import write_whole
from propcal.output.report.summary import Summary, summarise
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.output.report.discovery_section import DiscoverySection


class _Templates(BaseLoader):
    """Templates from the package, wherever it is installed."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Any]:  # noqa: ARG002
        try:
            return _template(template), None, lambda: True
        except FileNotFoundError:
            raise TemplateNotFound(template) from None


@cache
def _template(name: str) -> str:
    return (files("propcal.output.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    made = Environment(loader=_Templates(), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters["nb"] = unbroken
    return made


def unbroken(text: str) -> str:
    """A sentence in which no line ends within a number: before a % sign, or around < and =.

    >>> unbroken("13.9 %, p < 0.001") == "13.9\u00a0%, p\u00a0<\u00a00.001"
    True
    """
    return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?=[<=>])|(?<=[<=>]) (?=\d)", "\u00a0", text)


def write_html(result: Any, path: str | PathLike[str] | None, **options: Any) -> str:
    """The page; written whole or not at all if a path is given."""
    section = _section(options)
    return _written(html(summarise(result, **options), section), path)


def write_markdown(result: Any, path: str | PathLike[str] | None, **options: Any) -> str:
    """The Markdown text; written likewise."""
    section = _section(options)
    return _written(markdown(summarise(result, **options), section), path)


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


def _written(text: str, path: str | PathLike[str] | None) -> str:
    if path is not None:

        def write(part: Path) -> None:
            part.write_text(text, encoding="utf-8", newline="\n")

        write_whole(path, write)
    return text


def html(summary: Summary, section: DiscoverySection | None = None) -> str:
    """The page."""
    style, script = _template("report.css"), _template("report.js")
    style = style.replace("@@title@@", css_text(summary.title)).replace("@@made@@", summary.made)
    groups = [
        {"name": group.name, "lines": group.lines, "tables": group.tables, "told": group.told}
        for group in summary.four.groups
    ]
    return (
        _environment()
        .get_template("report.html")
        .render(
            s=summary,
            d=section,
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
            groups_data=packed(groups),
            audit_data=packed(summary.content),
        )
    )


def css_text(text: str) -> str:
    r"""A text for a string in a style sheet; whatever is not a plain letter or digit is written as a code.

    >>> css_text('A "b"')
    'A\\20 \\22 b\\22 '
    """
    return "".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def packed(content: Any) -> str:
    """JSON, compressed with gzip, as base64: an eighth of the size, and no letter that HTML would read.

    >>> unpacked(packed({"a": [1, "</script>"]}))
    {'a': [1, '</script>']}
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 4, mtime=0)).decode("ascii")


def unpacked(text: str) -> Any:
    """What `packed` wrote."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def markdown(summary: Summary, section: DiscoverySection | None = None) -> str:
    """The Markdown text."""
    # whatever the template puts in is escaped, so that no name can be forgotten
    environment = _environment().overlay(autoescape=False, finalize=markdown_text)
    made = environment.get_template("report.md").render(s=summary, d=section)
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
