"""Options that several commands share; each has the name of the library's keyword argument."""

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
_NAMES = "Names in the report"

People = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES",
        help="CSV (also .gz, .zst), Parquet or Excel files with one row per person, or atoms files. Several "
        'files, or a quoted pattern such as "visits/*.parquet", are read as one.',
    ),
]
Resolution = Annotated[
    str | None,
    typer.Option(
        metavar="2^-N",
        rich_help_panel=_DATA,
        help="Round scores to this grid, such as 2^-16, to save memory. [dim]Default: exact[/dim]",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=_DATA,
        help="Memory to use while reading, such as 2GB; the rest is kept on disk temporarily.",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Risk score column, from 0 to 1."),
]
Outcome = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Outcome column: 0 or 1, yes or no."),
]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", rich_help_panel=_DATA, help="Weight column.")]
WeightKind = Annotated[
    str | None,
    typer.Option(
        metavar="auto|frequency|survey",
        rich_help_panel=_DATA,
        help="Whether weights are counts of people or survey weights. "
        "[dim]Default: counts if all are whole numbers[/dim]",
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
Site = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|NAME",
        rich_help_panel=_DATA,
        help="Column with the site (hospital) of each person; or the name of the one site that all files are "
        "from, if there is no such column.",
    ),
]
Travel = Annotated[
    bool,
    typer.Option(
        "--travel",
        rich_help_panel=_METHOD,
        help="With sites: fit a correction on all other sites and test it at each site (leave-one-site-out).",
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
        help="Divide a number column into ranges: age=18,40,65. May be repeated.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=CONDITION",
        rich_help_panel=_GROUPS,
        help='Define a group by a condition: "elderly=age >= 75 and insurance = Medicare". May be repeated.',
    ),
]
Intersections = Annotated[
    str | None,
    typer.Option(
        metavar="all|marginal|DEPTH",
        rich_help_panel=_GROUPS,
        help="Which intersections are groups too: all, marginal (none), or those of up to DEPTH columns. "
        "[dim]Default: all[/dim]",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="level|exclude|error",
        rich_help_panel=_GROUPS,
        help="People with a missing value form their own group, belong to none, or cause an error. "
        "[dim]Default: level[/dim]",
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_GROUPS,
        help="Smallest share of people in a group whose risk ranges, losses and adjustments count. "
        "[dim]Default: 0.05[/dim]",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_METHOD,
        help="Tolerance, as a share of the observed rate. [dim]Default: 0.05[/dim]",
    ),
]
Rho = Annotated[
    float | None,
    typer.Option(
        rich_help_panel=_METHOD,
        help="Floor on observed rates: lower ones count as this rate. Use a smaller one if the outcome is "
        "rare. [dim]Default: 0.1[/dim]",
    ),
]
NBins = Annotated[
    int | None, typer.Option(rich_help_panel=_METHOD, help="Number of risk ranges. [dim]Default: 10[/dim]")
]
Binning = Annotated[
    str | None,
    typer.Option(
        metavar="KIND|EDGES",
        rich_help_panel=_METHOD,
        help="Risk ranges: uniform, geometric, quantile, or their edges 0,0.1,0.5,1. "
        "[dim]Default: uniform[/dim]",
    ),
]
Seed = Annotated[int | None, typer.Option(rich_help_panel=_METHOD, help="Seed for random numbers.")]
Unseen = Annotated[
    str | None,
    typer.Option(
        metavar="replay|keep|error",
        rich_help_panel=_METHOD,
        help="For combinations of groups that did not occur in the fitting data: apply the adjustments of "
        "the groups that a person belongs to, keep the score, or stop.",
    ),
]
Invalid = Annotated[
    str,
    typer.Option(
        metavar="error|null|keep",
        rich_help_panel=_METHOD,
        help="For scores that are missing or not from 0 to 1: stop, leave the corrected score empty, or keep "
        "the score.",
    ),
]
Title = Annotated[str, typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help="Title of the report.")]
ScoreName = Annotated[
    str, typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help='What the score is called: "Sepsis risk".')
]
OutcomeName = Annotated[
    str,
    typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help='What the outcome is: "death in hospital".'),
]
Unit = Annotated[
    str,
    typer.Option(
        metavar="NOUN",
        rich_help_panel=_NAMES,
        help="Plural noun for those who are scored, such as patients. "
        "[dim]Default: people, or visits with --cluster[/dim]",
    ),
]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN.LEVEL=TEXT",
        rich_help_panel=_NAMES,
        help="What a level is called: sex.F=women; may be repeated.",
    ),
]
Source = Annotated[str, typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help="Where the data are from.")]
Period = Annotated[
    str, typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help="The time that the data cover.")
]
Institution = Annotated[
    str, typer.Option(metavar="TEXT", rich_help_panel=_NAMES, help="The hospital or other site.")
]
Population = Annotated[
    str,
    typer.Option(
        metavar="TEXT", rich_help_panel=_NAMES, help='Who was scored: "adults admitted as emergencies".'
    ),
]
Thresholds = Annotated[
    list[float] | None,
    typer.Option(
        "--threshold",
        metavar="RISK",
        rich_help_panel="Method",
        help="Risk from which people would be treated, such as 0.2: prints what that comes to in every "
        "group, and the report starts there. May be repeated.",
    ),
]
MinGroup = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_GROUPS, help="Fewest people in a group that is tested. [dim]Default: 50[/dim]"
    ),
]
MinEvents = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_GROUPS,
        help="Fewest expected events, and non-events, in a group that is tested. [dim]Default: 10[/dim]",
    ),
]
PageSuppress = Annotated[
    int | None,
    typer.Option(
        min=0,
        rich_help_panel=_OUT,
        help="Protect counts of people below this in all that is printed or written; 0 shows everything. "
        "[dim]Default: 11 on pages and metrics, which are meant to be handed on; the terminal and JSON show "
        "everything[/dim]",
    ),
]
Suppress = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=_OUT,
        help="Protect counts of people below this in all that is printed or written; 0 shows everything.",
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
        help="TOML file with options; options on the command line override it.",
    ),
]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the library's defaults."""
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


def labels(texts: Sequence[str] | None) -> dict[str, dict[str, str]]:
    """Read ``sex.F=women``: a column, a level and what it is called; no level is a missing value.

    >>> labels(["sex.F=women", "sex.M=men", "race.=race unknown"])
    {'sex': {'F': 'women', 'M': 'men'}, 'race': {'': 'race unknown'}}
    """
    found: dict[str, dict[str, str]] = {}
    for name, text in _pairs("--label", texts, "sex.F=women"):
        column, point, level = (part.strip() for part in name.partition("."))
        if not (column and point):
            raise InputError(
                f"--label {name}={text}",
                argument="--label",
                next_step="write it like sex.F=women",
                between=": ",
            )
        found.setdefault(column, {})[level] = text
    return found


def naming(unit: str, label: Sequence[str] | None) -> list[str]:
    """--unit and --label again, for the next command.

    >>> naming("visits", ["sex.F=women"])
    ['--unit', 'visits', '--label', 'sex.F=women']
    """
    return [*(["--unit", unit] if unit else []), *(p for text in label or [] for p in ("--label", text))]


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
        raise InputError(f"{option}: a name is listed twice", argument=option)
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
