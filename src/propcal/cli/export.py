"""``propcal export``: SQL that corrects scores in a database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from propcal.cli import options as o
from propcal.cli.flags import told
from propcal.cli.screen import say
from propcal.errors import InputError

_DATABASE = "Your database"


def export(
    model: Annotated[Path, typer.Argument(metavar="CORRECTION", help="Correction from propcal fit.")],
    *,
    dialect: Annotated[
        str,
        typer.Option(
            metavar="duckdb|sqlite|postgres|spark|tsql|snowflake|bigquery",
            rich_help_panel=_DATABASE,
            help="SQL dialect. The last three need propcal\\[sql]; propcal's tests do not run them.",
        ),
    ] = "duckdb",
    score: Annotated[
        str,
        typer.Option(metavar="COLUMN", rich_help_panel=_DATABASE, help="Score column to correct."),
    ],
    table: Annotated[
        str,
        typer.Option(
            metavar="TABLE",
            rich_help_panel=_DATABASE,
            help="Table with one row per person: visits, or clinic.visits.",
        ),
    ] = "people",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=KIND",
            rich_help_panel=_DATABASE,
            help="Type of a column: text, number or boolean. May be repeated. "
            "[dim]Default: found at run time, or inferred from the levels[/dim]",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME",
            rich_help_panel=_DATABASE,
            help="Name in the table of a column that the correction reads: race=RACE. May be repeated.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            metavar="lookup|case",
            rich_help_panel="Output",
            help="Write a lookup table and a query, or one long expression without a table.",
        ),
    ] = "lookup",
    lookup_table: Annotated[
        str, typer.Option(metavar="TABLE", rich_help_panel="Output", help="Name of the lookup table.")
    ] = "propcal_lookup",
    column: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel="Output", help="Name of the new column.")
    ] = "corrected",
    unseen: o.Unseen = None,
    invalid: Annotated[
        str,
        typer.Option(
            metavar="null|keep",
            rich_help_panel="Output",
            help="Corrected score where the score is NULL, NaN or not from 0 to 1: NULL, or the score.",
        ),
    ] = "null",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel="Output",
            help="Write the SQL to this file. [dim]Default: print it[/dim]",
        ),
    ] = None,
    force: o.Force = False,
) -> None:
    """Write SQL that corrects the scores of a database table, bit for bit as propcal apply does.

    A score that is NULL, NaN or not from 0 to 1 gives NULL, unless --invalid keep is given. With
    --unseen error, so does a combination of groups that did not occur in the fitting data.

    For example:

      propcal export model.json --dialect postgres --score risk --table visits -o score.sql

      propcal export model.json --dialect snowflake --score RISK --table VISITS --rename race=RACE

      propcal export model.json --dialect sqlite --score risk --table visits --form case
    """
    from propcal import Correction
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target

    if output is not None:
        check_target(output, force=force, reads=[model])
    made = Correction.load(model).to_sql(
        dialect,
        score=score,
        table=table,
        form=form,
        column=column,
        lookup_table=lookup_table,
        unseen=unseen,
        invalid=invalid,
        types=_pairs("--type", types, "icu=boolean"),
        columns=_pairs("--rename", rename, "race=RACE"),
    )
    if made.caution:
        typer.echo(told(made.caution), err=True)
    if output is None:
        typer.echo(made.script, nl=False)
        return
    with outputs(force=force) as out:
        out.file(output).write_text(made.script, encoding="utf-8", newline="")
    say(f"{made!r}: {output}")


def _pairs(option: str, texts: Sequence[str] | None, example: str) -> dict[str, str]:
    """Read ``race=RACE``; the left name may contain equal signs."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.rpartition("=")
        if not (name and equals and value):
            raise InputError(
                f"{option} {text!r}", argument=option, next_step=f"write it like {example}", between=": "
            )
        found[name] = value
    return found
