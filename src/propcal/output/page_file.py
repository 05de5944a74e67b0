"""One HTML file with the look of the report: its style, no script, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment
from markupsafe import Markup

from propcal import __version__
from propcal.output.files.whole_file import write_whole
from propcal.output.report.render import css_text, unbroken

REPORT, FRAME = "propcal.output.report", "page_frame.html"


@cache
def _text(package: str, name: str) -> str:
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


def filled(package: str, name: str, **content: Any) -> Markup:
    """A template of a package, filled in; everything that is put in is escaped."""
    loader = DictLoader({name: _text(package, name), FRAME: _text(REPORT, FRAME)})
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["nb"] = unbroken
    return Markup(environment.get_template(name).render(**content))


def whole_page(
    package: str, name: str, *, title: str, brand: str, own_style: str = "", **content: Any
) -> str:
    """A page in the frame that all share, with a rule that allows no other style and no script.

    The template of the package fills the block `main` of the frame; or it is the frame itself, and `section`
    is what it holds.
    """
    style = _text(REPORT, "report.css") + (_text(package, own_style) if own_style else "")
    style = style.replace("@@title@@", css_text(title)).replace("@@made@@", f"propcal {__version__}")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    about = {"title": title, "brand": brand, "version": __version__, "style_hash": f"sha256-{digest}"}
    return str(filled(package, name, style=Markup(style), **about, **content))


def write_page(text: str, path: str | PathLike[str] | None) -> str:
    """Write the page whole or not at all, if a path is given."""
    if path is not None:

        def write(part: Path) -> None:
            part.write_text(text, encoding="utf-8", newline="\n")

        write_whole(path, write)
    return text
