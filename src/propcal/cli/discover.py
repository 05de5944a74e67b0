"""``propcal discover``: groups that nobody named, for whom a score is wrong."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from propcal.cli import options as o
from propcal.cli.audit import Format, write_text
from propcal.cli.input import Columns
from propcal.cli.screen import percentage, warnings_as_lines
from propcal.errors import InputError
from propcal.numbers import known
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal.discovery.discovery import Discovery

PANEL = "Search"


def discover(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="CSV (also .gz, .zst), Parquet or Excel files with one row per person. Several files, or a "
            'quoted pattern such as "visits/*.parquet", are read as one.',
        ),
    ],
    score: o.Score = None,
    outcome: o.Outcome = None,
    positive: o.Positive = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            metavar="COLUMN[,COLUMN...]",
            rich_help_panel="Columns",
            help="Columns by which groups may be described (required). May be repeated.",
        ),
    ] = None,
    weight: o.Weight = None,
    weight_kind: o.WeightKind = None,
    cluster: o.Cluster = None,
    na: o.Na = None,
    drop_missing: o.DropMissing = False,
    memory: o.Memory = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[,COLUMN...]",
            rich_help_panel=PANEL,
            help="Columns that a correction must not read, such as race: find groups, described by the other "
            "features, whose correction reduces the errors for the groups of these columns. May be repeated.",
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(rich_help_panel=PANEL, help="Most conditions in a description. [dim]Default: 3[/dim]"),
    ] = None,
    min_share: Annotated[
        float | None,
        typer.Option(rich_help_panel=PANEL, help="Smallest share of a group. [dim]Default: 0.02[/dim]"),
    ] = None,
    max_groups: Annotated[
        int | None,
        typer.Option(rich_help_panel=PANEL, help="Most groups to find. [dim]Default: 10[/dim]"),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=PANEL,
            help="Largest probability of finding any group if the score is right. [dim]Default: 0.05[/dim]",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=PANEL,
            help="Simulated data sets for what chance alone would show. [dim]Default: 64[/dim]",
        ),
    ] = None,
    seed: o.Seed = None,
    format_: Annotated[
        Format,
        typer.Option("--format", rich_help_panel="Output", help="Print text or JSON."),
    ] = Format.TEXT,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", rich_help_panel="Output", help="Also write JSON to this file."
        ),
    ] = None,
    suppress: o.Suppress = 0,
    unit: o.Unit = "",
    label: o.Label = None,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Find groups that nobody named, for whom a score is wrong by more than chance explains.

    The search tries single conditions on the features, pairs of conditions, and a third condition for the
    strongest pairs. Groups that only three conditions together show can be missed.

    For example:

      propcal discover visits.csv --score risk --outcome died --features age,acuity,insurance

      propcal discover visits.parquet --score risk --outcome died
      --features age,acuity,insurance --protect race,sex -o found.json
    """
    import propcal
    from propcal.data.files.file_sets import find_files
    from propcal.disclosure.protected_discovery import protected_discovery
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target

    names = o.names(features, "--features")
    for flag, value in (("--score", score), ("--outcome", outcome), ("--features", names)):
        if not value:
            raise InputError(f"{flag} is needed", argument=flag, next_step="Name a column of the file")
    paths = find_files(files)
    if output is not None:
        check_target(output, force=force, reads=[*paths, config])
    hidden = o.names(protect, "--protect")
    settings = o.given(
        depth=depth,
        min_share=min_share,
        max_groups=max_groups,
        level=level,
        n_draws=draws,
        random_state=seed,
        weight_kind=weight_kind,
        memory_limit=memory,
    )
    with warnings_as_lines(), percentage("Searching") as shown:
        found = propcal.discover(
            outcome,
            score,
            features=names,
            data=paths,
            protect=hidden or None,
            sample_weight=weight,
            cluster=cluster,
            positive=positive,
            drop_missing=drop_missing,
            na=na or [],
            progress=None if shown is None else lambda done: shown(100 * done),
            labels=o.labels(label),
            unit=unit,
            **settings,
        )
    found = protected_discovery(found, suppress)
    text = found.to_json()
    with outputs(force=force):
        if output is not None:
            write_text(text, output)
    if format_ is Format.JSON:
        typer.echo(text)
        return
    for sentence in found.sentences:
        typer.echo(plain(sentence))
    if len(found):
        columns = Columns(
            score,
            outcome,
            weight=weight,
            cluster=cluster,
            where=_conditions(found),
            na=na or [],
            positive=positive,
            drop_missing=drop_missing,
        )
        smallest = min((group.share for group in found.found if known(group.share)), default=0.01)
        kind = ["--weight-kind", weight_kind] if weight_kind else []
        limit = ["--intersections", "marginal", "--gamma", f"{0.9 * smallest:.2g}"]
        said = [*columns.flags(), *kind, *limit, *o.naming(unit, label)]
        read = [f"./{file}" if str(file).startswith("-") else str(file) for file in files]
        words = ["propcal", "fit", *read, *said, "-o", "model.json"]
        who = found.identity.unit
        typer.echo(
            f"\nTo correct for these groups (keep some {who} out of the search and the fit, to audit the "
            f"correction on):\n  {_command(words)}"
        )


def _conditions(found: Discovery) -> dict[str, str]:
    """The groups by names that --where can have: printable, and without a sign that would end them."""
    made: dict[str, str] = {}
    for i, group in enumerate(found.found, start=1):
        name = group.name
        for sign, other in ((">=", "≥"), ("<=", "≤"), ("!=", "≠"), ("=", ":")):
            name = name.replace(sign, other)
        name = plain(name).strip(" <>!")
        made[name if name and name not in made else f"group {i}"] = group.condition
    return made


def _command(words: list[str]) -> str:
    """Words as a command for a shell, on one line."""
    if any("\0" in word for word in words):
        return (
            "In Python: propcal.PMCBoost(groups=propcal.discover(...).groups). "
            "A value has a NUL character, which a command cannot have."
        )
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    r"""A word for a shell; invisible characters are written as bytes.

    >>> print(_quoted("age >= 70"), _quoted("it's \x1b[31m"))
    'age >= 70' $'it\'s \x1b[31m'
    """
    if word.isprintable():
        return quote(word)
    made = ""
    for c in word:
        hidden = "".join(f"\\x{byte:02x}" for byte in c.encode(errors="surrogateescape"))
        made += f"\\{c}" if c in "'\\" else c if c.isprintable() else hidden
    return f"$'{made}'"
