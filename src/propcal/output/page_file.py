"""One HTML file with the look of the report: templates in one frame, one style, nothing from elsewhere."""

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
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from propcal import __version__
from propcal.output.files.whole_file import write_whole

REPORT, FRAME = "propcal.output.report", "page_frame.html"


@cache
def _text(package: str, name: str) -> str:
    return (files(package) / "templates" / name).read_text(encoding="utf-8")


@cache
def environment(package: str) -> Environment:
    """Templates of a package, and those of the report; everything that is put in is escaped."""

    def source(name: str) -> str | None:
        for place in (package, REPORT):
            try:
                return _text(place, name)
            except FileNotFoundError:
                continue
        return None

    made = Environment(loader=FunctionLoader(source), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters["nb"] = unbroken
    return made


def filled(package: str, name: str, **content: Any) -> Markup:
    """A template of a package, filled in."""
    return Markup(environment(package).get_template(name).render(**content))


def whole_page(
    package: str,
    name: str,
    *,
    title: str,
    brand: str,
    made: str = f"propcal {__version__}",
    own_style: str = "",
    script: str = "",
    **content: Any,
) -> str:
    """A page in the frame that all share, with a rule that allows no other style and no other script.

    The template of the package fills the block `main` of the frame; or it is the frame itself, and `section`
    is what it holds. `made` is printed at the foot of each sheet of paper.
    """
    style = _text(REPORT, "report.css") + (_text(package, own_style) if own_style else "")
    style = style.replace("@@title@@", css_text(title)).replace("@@made@@", made)
    own = {"style": Markup(style), "style_hash": _hash(style)}
    if script:
        program = _text(package, script)
        own |= {"script": Markup(program), "script_hash": _hash(program)}
    return str(filled(package, name, title=title, brand=brand, version=__version__, **own, **content))


def write_page(text: str, path: str | PathLike[str] | None) -> str:
    """Write the page whole or not at all, if a path is given."""
    if path is not None:

        def write(part: Path) -> None:
            part.write_text(text, encoding="utf-8", newline="\n")

        write_whole(path, write)
    return text


def unbroken(text: str) -> str:
    """A sentence in which no line ends within a number: before a % sign, or around < and =.

    >>> unbroken("13.9 %, p < 0.001") == "13.9\u00a0%, p\u00a0<\u00a00.001"
    True
    """
    return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?=[<=>])|(?<=[<=>]) (?=\d)", "\u00a0", text)


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
