"""Options that several commands share; each is the keyword argument of the same name."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Annotated, Any

import typer

from propcal.cli.config import read_config
from propcal.errors import InputError

_DATA, _GROUPS, _METHOD, _OUT = "Your data", "Groups", "Method", "Output"

People = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES",
        help="CSV (also .gz, .zst) or Parquet with a row for each person, or atoms files; several, or a "
        'pattern in quotes such as "visits/*.parquet".',
    ),
]
Resolution = Annotated[
    str | None,
    typer.Option(
        metavar="2^-N",
        rich_help_panel=_DATA,
        help="Round scores to this grid, such as 2^-16: fewer atoms, less memory. [dim]Default: exact[/dim]",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=_DATA,
        help="Memory for reading, such as 2GB; what does not fit goes to disk for a while.",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Column with the risk score, from 0 to 1."),
]
Outcome = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Column with the outcome, 0 or 1."),
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Column with weights.")
]
WeightKind = Annotated[
    str | None,
    typer.Option(
        metavar="auto|frequency|survey",
        rich_help_panel=_DATA,
        help="What weights are: counts of people, or survey weights. "
        "[dim]Default: counts if all are whole[/dim]",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=_DATA,
        help="Patient ID column, if there are repeat visits.",
    ),
]
Na = Annotated[
    list[str] | None,
    typer.Option(
        "--na",
        metavar="TEXT",
        rich_help_panel=_DATA,
        help="Text in a CSV file that means missing, such as NA; empty cells always do. May be repeated.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        rich_help_panel=_DATA,
        help="Value of the outcome that means the event, such as EXPIRED. Not needed for 0/1, yes/no or "
        "true/false.",
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing",
        rich_help_panel=_DATA,
        help="Leave out people without a score or an outcome, and report how many.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        metavar="COLUMNS",
        rich_help_panel=_GROUPS,
        help="Columns that define the groups: race,gender. May be repeated.",
    ),
]
AsLevels = Annotated[
    list[str] | None,
    typer.Option(
        "--as-levels",
        metavar="COLUMNS",
        rich_help_panel=_GROUPS,
        help="Columns of number codes, such as hospital, whose values are groups even if there are more than "
        "20. May be repeated.",
    ),
]
Cut = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=NUMBERS",
        rich_help_panel=_GROUPS,
        help="Cut a column of numbers into ranges: age=18,40,65; may be repeated.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=CONDITION",
        rich_help_panel=_GROUPS,
        help='A group in words: "elderly=age >= 75 and insurance = Medicare"; may be repeated.',
    ),
]
Intersections = Annotated[
    str | None,
    typer.Option(
        metavar="all|marginal|DEPTH",
        rich_help_panel=_GROUPS,
        help="Cross the groups: all ways, not at all, or up to so many columns. [dim]Default: all[/dim]",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="level|exclude|error",
        rich_help_panel=_GROUPS,
        help="People whose value is missing are a group, no group, or refused. [dim]Default: level[/dim]",
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_GROUPS,
        help="Smallest share of the people that a group may have. [dim]Default: 0.05[/dim]",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_METHOD, help="Tolerance: share of a group's own rate. [dim]Default: 0.05[/dim]"
    ),
]
Rho = Annotated[
    float | None,
    typer.Option(rich_help_panel=_METHOD, help="Floor on the outcome rate. [dim]Default: 0.1[/dim]"),
]
NBins = Annotated[
    int | None, typer.Option(rich_help_panel=_METHOD, help="Number of score bins. [dim]Default: 10[/dim]")
]
Binning = Annotated[
    str | None,
    typer.Option(
        metavar="KIND|EDGES",
        rich_help_panel=_METHOD,
        help="Bins: uniform, geometric, quantile, or edges 0,0.1,0.5,1. [dim]Default: uniform[/dim]",
    ),
]
Seed = Annotated[int | None, typer.Option(rich_help_panel=_METHOD, help="Seed of what is drawn at random.")]
Unseen = Annotated[
    str | None,
    typer.Option(
        metavar="replay|keep|error",
        rich_help_panel=_METHOD,
        help="For combinations of groups that were not seen in fitting: apply the updates of the groups that "
        "people do belong to, keep the score, or stop.",
    ),
]
Invalid = Annotated[
    str,
    typer.Option(
        metavar="error|null|keep",
        rich_help_panel=_METHOD,
        help="For scores that are missing or no probabilities: stop, leave the corrected score empty, or "
        "keep the score as it is.",
    ),
]
Suppress = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=_OUT,
        help="Suppress counts of people below this, and anything they could be derived from, in all that is "
        "printed or written; 0 shows everything.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", rich_help_panel=_OUT, help="Replace the output file if it exists.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=read_config,
        is_eager=True,
        rich_help_panel=_OUT,
        help="TOML file with options; those given here win.",
    ),
]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the defaults of what is called."""
    return {name: value for name, value in options.items() if value is not None}


def names(texts: Sequence[str] | None, option: str = "--groups") -> list[str]:
    """The columns of ``race,gender``, of all repetitions together; a name with a comma is quoted.

    >>> names(["race, gender", '"height, cm"'])
    ['race', 'gender', 'height, cm']
    """
    try:
        rows = list(csv.reader(texts or [], skipinitialspace=True))
    except csv.Error:  # a line break, or a name longer than csv accepts
        raise InputError(f"{option}: write it like race,gender", argument=option) from None
    found = [name.strip() for row in rows for name in row if name.strip()]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{option}: {twice!r} is listed twice", argument=option)
    return found


def cuts(texts: Sequence[str] | None) -> dict[str, list[float]]:
    """Read ``age=18,40,65``.

    >>> cuts(["age=18,40,65"])
    {'age': [18.0, 40.0, 65.0]}
    """
    found = {}
    for column, points in _pairs("--cut", texts, "age=18,40,65"):
        found[column] = _floats(points)
        if not found[column]:
            raise InputError(
                f"--cut {column}={points}",
                argument="--cut",
                next_step="write it like age=18,40,65",
                between=": ",
            )
    return found


def conditions(texts: Sequence[str] | None) -> dict[str, str]:
    """Read ``elderly=age >= 75``: a name, then a condition.

    >>> conditions(["elderly=age >= 75"])
    {'elderly': 'age >= 75'}
    """
    return dict(_pairs("--where", texts, '"elderly=age >= 75"'))


def _pairs(option: str, texts: Sequence[str] | None, example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value) or value.startswith("=") or name[-1] in "<>!":
            raise InputError(
                f"{option} {text!r}", argument=option, next_step=f"write it like {example}", between=": "
            )
        pairs.append((name, value))
    if len({name for name, _ in pairs}) < len(pairs):
        raise InputError(f"{option}: a name is given twice", argument=option)
    return pairs


def _floats(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def depth(text: str | None) -> str | int | None:
    """Read --intersections: a word or a number."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else text


def resolution(text: str | None) -> float | None:
    """Read --resolution: a power of two, as 2**-16, 2^-16, 1/65536 or a number.

    >>> resolution("2**-10") == resolution("2^-10") == resolution("1/1024") == resolution("0.0009765625")
    True
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(2\s*(?:\*\*|\^)\s*-\s*(\d{1,3})|1\s*/\s*(\d{1,30})|[\d.eE+-]+)\s*", text)
    value = 0.0
    if found and found[2]:
        value = 2.0 ** -min(int(found[2]), 1000)
    elif found and found[3]:
        value = 1 / int(found[3]) if int(found[3]) else 0.0
    elif found:
        value = (_floats(text) or [0.0])[0]
    if not 0 < value < 1 or log2(value) != int(log2(value)) or value < 2.0**-32:
        near = f"2**-{min(max(round(-log2(value)), 1), 32)}" if 0 < value < 1 else "2**-16"
        raise InputError(
            f"--resolution {text}: it must be a power of two down to 2**-32, such as {near}",
            argument="--resolution",
        )
    return value


def bins(text: str | None) -> str | list[float] | None:
    """Read --binning: a word, or edges.

    >>> bins("quantile"), bins("0,0.1,1")
    ('quantile', [0.0, 0.1, 1.0])
    """
    return text if text is None or "," not in text else _floats(text) or text
