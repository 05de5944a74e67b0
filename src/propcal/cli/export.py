"""``propcal export``: SQL that corrects scores where the data is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from propcal.cli import options as o
from propcal.cli.flags import told
from propcal.errors import InputError

_DATABASE = "Your database"


def export(
    model: Annotated[Path, typer.Argument(metavar="CORRECTION", help="A correction that propcal fit wrote.")],
    *,
    dialect: Annotated[
        str,
        typer.Option(
            metavar="duckdb|sqlite|postgres|spark|tsql|snowflake|bigquery",
            rich_help_panel=_DATABASE,
            help="Which SQL. The last three need propcal\\[sql] and are not run by propcal's tests.",
        ),
    ] = "duckdb",
    score: Annotated[
        str,
        typer.Option(metavar="COLUMN", rich_help_panel=_DATABASE, help="Column with the score to correct."),
    ],
    table: Annotated[
        str,
        typer.Option(
            metavar="TABLE", rich_help_panel=_DATABASE, help="Table of the people: visits, or clinic.visits."
        ),
    ] = "people",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=KIND",
            rich_help_panel=_DATABASE,
            help="What a column holds: text, number or boolean; may be repeated. "
            "[dim]Default: the database is asked, or it is guessed from the levels[/dim]",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME",
            rich_help_panel=_DATABASE,
            help="What a column of the correction is called in the table: race=RACE; may be repeated.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            metavar="lookup|case",
            rich_help_panel="Output",
            help="A lookup table and a query, or one long expression that needs no table.",
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
            help="What a score that is NULL, NaN or outside 0 to 1 gives: NULL, or itself.",
        ),
    ] = "null",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel="Output",
            help="Where to write the SQL. [dim]Default: the terminal[/dim]",
        ),
    ] = None,
    force: o.Force = False,
) -> None:
    """Write SQL that corrects the scores of a table, to the last bit as propcal apply does.

    A score that is NULL, NaN or outside 0 to 1 gives NULL unless --invalid keep is given; so does a
    combination of groups that was not seen in fitting, with --unseen error.

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
    typer.echo(f"{made!r}: {output}")


def _pairs(option: str, texts: Sequence[str] | None, example: str) -> dict[str, str]:
    """Read ``race=RACE``; a name may hold further equal signs on its left."""
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.rpartition("=")
        if not (name and equals and value):
            raise InputError(
                f"{option} {text!r}", argument=option, next_step=f"write it like {example}", between=": "
            )
        found[name] = value
    return found
