"""What documents say: standing texts, sentences, and tables as lists of columns.

words.toml has texts and tables.toml has tables. The templates in sentences/ have a
macro for each sentence or part of one, in which a line break is a space, or nothing
beside a tag; the module of that name decides which of them apply.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from importlib.resources import files
from math import ceil, floor
from operator import or_
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from propcal import numbers
from propcal.documents.blocks import At, Column, Table
from propcal.errors import plain

# methods of numbers.IN_SENTENCE and functions of numbers that templates may use
PRINTED = ("change", "ci", "count", "decimal", "interval", "percent", "points", "whole")
FUNCTIONS = (
    "are",
    "capital",
    "in_parentheses",
    "listed",
    "listed_some",
    "p_equals",
    "plural",
    "risk_range",
    "rough_percent",
)


def _file(name: str) -> str:
    return (files("propcal.documents") / name).read_text(encoding="utf-8")


@cache
def _data(file: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(_file(file))


def all_words(part: str, /, **values: Any) -> dict[str, Any]:
    """All texts of a part by name, with these values filled in."""
    return {
        filled(name, values): _filled(text, values)
        for name, text in _data("words.toml")[part].items()
    }


def _filled(text: str | list[str], values: Mapping[str, Any]) -> Any:
    if isinstance(text, str):
        return filled(text, values)
    return [filled(each, values) for each in text]


def _macros(name: str) -> str:
    """A template of sentences on one line."""
    text = _file(f"sentences/{name}.jinja")
    beside_tags = re.sub(r"\n\s*(?=\{[%#])|(?<=[%#]\})\n\s*", "", text)
    return re.sub(r"\n\s*", " ", beside_tags)


@cache
def _environment() -> Environment:
    """Templates in which numbers are printed as in sentences."""
    jinja = Environment(
        loader=FunctionLoader(_macros), undefined=StrictUndefined, autoescape=False
    )
    in_sentence = numbers.IN_SENTENCE
    jinja.filters |= {name: getattr(in_sentence, name) for name in PRINTED}
    jinja.filters |= {name: getattr(numbers, name) for name in FUNCTIONS}
    jinja.filters |= {"g": "{:g}".format, "comma": "{:,}".format, "plain": plain}
    jinja.filters |= {"at_most": at_most, "inside": inside}
    jinja.tests["known"] = numbers.known
    styles = {"in_text": numbers.IN_TEXT, "on_page": numbers.ON_PAGE}
    jinja.globals |= jinja.filters | styles | {"round": round}
    return jinja


def at_most(share: float) -> str:
    """A share in whole percents, rounded up.

    >>> at_most(0.0712), at_most(1.3)
    ('8 %', '130 %')
    """
    return f"{max(ceil(round(100 * share, 6)), 1)} %"


def inside(score: float, way: str = "up") -> str:
    """A limit, rounded to a whole percent (to a tenth below 10 %) on the inner side of
    its range.

    >>> inside(0.0712), inside(0.3014, "down")
    ('7.2 %', '30 %')
    """
    scale = 1000 if score < 0.1 else 100
    steps = (ceil if way == "up" else floor)(round(score * scale, 6))
    return f"{100 * steps / scale:g} %"


@cache
def _template(text: str) -> Template:
    return _environment().from_string(text)


def filled(text: str, values: Mapping[str, Any]) -> str:
    """A text with values in the places of its braces."""
    if "{" not in text:
        return text
    return _template(text).render(values)


def words(part: str, name: str, /, **values: Any) -> str:
    """A text, with these values filled in.

    >>> words("tables", "apart", floor="10 %")[-31:]
    'Rates below 10 % count as 10 %.'
    """
    return filled(_data("words.toml")[part][name], values)


@cache
def _macros_of(file: str) -> Any:
    return _environment().get_template(file).module


def sentence(file: str, name: str, /, **values: Any) -> str:
    """A sentence, or a part of one: a macro with its places filled in.

    >>> sentence("verdict", "untested", n=2)
    '2 subgroups are too small to test.'
    """
    macro = getattr(_macros_of(file), name)
    return str(macro(**values))


def sentence_if(file: str, condition: object, name: str, /, **values: Any) -> str:
    """A part of a sentence, or nothing without the condition.

    >>> sentence_if("sites", False, "and_sites_differ")
    ''
    """
    if not condition:
        return ""
    return sentence(file, name, **values)


def table(
    name: str, rows: Sequence[Mapping[str, Any]], key: str = "", /, **values: Any
) -> Table:
    """A table of tables.toml; `values` are filled into its texts, and say which of its
    columns there are.
    """
    definition = _data("tables.toml")[name]
    options = {
        part: definition[part]
        for part in ("most", "item", "sortable")
        if part in definition
    }
    return Table(
        key or name,
        filled(definition.get("title", ""), values),
        list(_columns(definition["columns"], values)),
        rows,
        filled(definition.get("note", ""), values),
        places=_places(definition.get("places", "")),
        **options,
    )


def _columns(lines: Sequence[str], values: Mapping[str, Any]) -> Iterator[Column]:
    """The columns of a table: one a line, or several given ones or shared ones in the
    place of a name after "*".
    """
    shared = _data("tables.toml")["shared"]
    for line in lines:
        name = line[1:]
        if line[0] != "*":
            yield from _column(line, values)
        elif values.get(name):
            yield from values[name]
        else:
            yield from _columns(shared.get(name, ()), values)


def _column(line: str, values: Mapping[str, Any]) -> Iterator[Column]:
    """A column from "key | heading | kind:digits | places", unless it needs a value
    that there is not; see the head of tables.toml.
    """
    key, heading, kind, where = [*line.split(" | "), "", ""][:4]
    where, _, condition = where.partition("if ")
    if condition and not values[condition]:
        return
    kind, _, digits = kind.partition(":")
    yield Column(
        key,
        filled(heading, values),
        kind or "text",
        int(digits or 2),
        _places(where),
        "minor" in where,
    )


def _places(names: str) -> At:
    """The places with these names; no name means all places."""
    places = [At[name] for name in names.split() if name in At.__members__]
    if not places:
        return At.EVERYWHERE
    return reduce(or_, places)
