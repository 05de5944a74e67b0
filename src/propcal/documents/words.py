"""What documents say: standing texts, sentences that are filled in, and tables as lists
of columns.

words.toml has texts and tables.toml has tables. The files in sentences/ have macros,
which take claims and numbers and return sentences: a blank line begins the next
sentence, and a line break is a space, or nothing beside a tag.
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

# between sentences, and before those that nobody may miss; no text has them
NEXT = "\ufdd0"
VITAL = "\ufdd1"


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
    """A file of sentences, in which only blank lines divide."""
    text = re.sub(r"\n\s*\n\s*", NEXT, _file(f"sentences/{name}.jinja"))
    return re.sub(r"\n\s*", " ", re.sub(r"\n\s*(?=\{[%#])|(?<=[%#]\})\n\s*", "", text))


@cache
def _environment() -> Environment:
    """Numbers are printed as in sentences; claims are chosen by kind and direction."""
    jinja = Environment(
        loader=FunctionLoader(_macros), undefined=StrictUndefined, autoescape=False
    )
    printed = "change ci count decimal interval percent points whole"
    functions = "are capital excludes_one in_parentheses listed listed_some noun p_equals percent_of plural"
    functions += " risk_range rough_percent"
    jinja.filters |= {
        name: getattr(numbers.IN_SENTENCE, name) for name in printed.split()
    }
    jinja.filters |= {name: getattr(numbers, name) for name in functions.split()}
    jinja.filters |= {
        "g": "{:g}".format,
        "comma": "{:,}".format,
        "plain": plain,
        "repr": repr,
    }
    jinja.filters |= {"at_most": at_most, "inside": inside}
    jinja.filters |= {
        "each": lambda items, macro, *more: [macro(item, *more) for item in items],
        "of": lambda claims, kind: [claim for claim in claims if claim.kind == kind],
        "on": lambda claims, side: [
            claim for claim in claims if claim.direction == side
        ],
    }
    jinja.tests |= {
        "known": numbers.known,
        "contains": lambda value, part: part in value,
        "limit": lambda value: isinstance(value, numbers.Limit),
        "exact": lambda value: (
            numbers.known(value) and not isinstance(value, numbers.Limit)
        ),
        "rough": lambda value: isinstance(value, (numbers.About, numbers.Limit)),
    }
    styles = {"in_text": numbers.IN_TEXT, "on_page": numbers.ON_PAGE}
    jinja.globals |= jinja.filters | styles | {"round": round, "vital": VITAL}
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
    return _template(text).render(values) if "{" in text else text


def words(part: str, name: str, /, **values: Any) -> str:
    """A text, with these values filled in.

    >>> words("tables", "apart", floor="10 %")[-31:]
    'Rates below 10 % count as 10 %.'
    """
    return filled(_data("words.toml")[part][name], values)


def sentences(file: str, name: str, /, *given: Any, **values: Any) -> list[str]:
    """The sentences of a macro."""
    macro = getattr(_environment().get_template(file).module, name)
    return [
        text.strip() for text in macro(*given, **values).split(NEXT) if text.strip()
    ]


def sentence(file: str, name: str, /, *given: Any, **values: Any) -> str:
    """The only sentence of a macro, or a part of one; nothing if there is none."""
    macro = getattr(_environment().get_template(file).module, name)
    return str(macro(*given, **values)).strip(NEXT)


def table(
    name: str, rows: Sequence[Mapping[str, Any]], key: str = "", /, **values: Any
) -> Table:
    """A table of tables.toml; `values` are filled into its texts, and say which of its
    columns there are.
    """
    found = _data("tables.toml")[name]
    parts: dict[str, Any] = {
        part: filled(found.get(part, ""), values) for part in ("title", "note")
    }
    parts |= {
        part: found[part] for part in ("most", "item", "sortable") if part in found
    }
    parts |= {
        "columns": list(_columns(found["columns"], values)),
        "places": _places(found.get("places", "")),
    }
    return Table(key or name, rows=rows, **parts)


def _columns(lines: Sequence[str], values: Mapping[str, Any]) -> Iterator[Column]:
    """Columns from "key | heading | kind:digits | places"; see the head of
    tables.toml.
    """
    shared = _data("tables.toml")["shared"]
    for line in lines:
        if line[0] == "*":
            yield from values.get(line[1:]) or _columns(
                shared.get(line[1:], ()), values
            )
            continue
        key, heading, kind, where = [*line.split(" | "), "", ""][:4]
        where, _, condition = where.partition("if ")
        if not condition or values[condition]:
            kind, _, digits = kind.partition(":")
            places = _places(where)
            minor = "minor" in where
            yield Column(
                key,
                filled(heading, values),
                kind or "text",
                int(digits or 2),
                places,
                minor,
            )


def _places(names: str) -> At:
    """The places with these names; no name means all places."""
    found = [At[name] for name in names.split() if name in At.__members__]
    return reduce(or_, found) if found else At.EVERYWHERE
