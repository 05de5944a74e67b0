"""``propcal paper cohort``: the hospital-admission cohort from the files of MIMIC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from propcal.cli.paper.folder import ForceFiles, said
from propcal.cli.screen import working
from propcal.numbers import percent_of

if TYPE_CHECKING:
    from propcal.paper.cohort.cohort import MimicCohort

FILE = Path("mimic_cohort.parquet")


def cohort(
    mimic: Annotated[
        list[Path],
        typer.Option(
            metavar="FOLDER",
            help="Folder with the files of MIMIC-IV-ED (ed/) and MIMIC-IV (core/ or hosp/), at any depth; "
            "may be repeated, once for each database.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .parquet or .csv.")
    ] = FILE,
    rule: Annotated[
        str,
        typer.Option(
            "--rule",
            metavar="paper|clean",
            help="The paper's visits, or all of them with what was known on arrival only.",
        ),
    ] = "paper",
    force: ForceFiles = False,
) -> None:
    """Make the hospital-admission cohort from MIMIC-IV-ED.

    Reads edstays, triage, admissions and patients of MIMIC-IV and
    MIMIC-IV-ED, version 1.0 or 2.x, and writes a row for each visit.
    Prints Table 1 beside the published one, and what was dropped and why.

    [bold]--rule paper[/bold] follows the paper's public preprocessing.
    For new work use [bold]--rule clean[/bold]: it keeps every visit, and
    uses only what was known on arrival.

    For example:

      propcal paper cohort --mimic physionet.org -o cohort.parquet
    """
    from rich.console import Console

    from propcal.output.files.table_files import writes_text
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target
    from propcal.paper.cohort.cohort import mimic_cohort
    from propcal.paper.cohort.mimic_files import find_tables
    from propcal.paper.cohort.prevalence import prevalence, prevalence_text

    writes_text(output)  # an ending that means nothing is told before the work
    check_target(output, force=force, reads=list(find_tables(mimic).values()))
    with working("Reading...") as say:
        found = mimic_cohort(*mimic, rule=rule, say=say)
        say("Writing...")
        with outputs(force=force):
            found.save(output)
        table = prevalence(found.visits)
    said(cohort_sentences(found))
    Console().print(prevalence_text(table, name="this cohort"))
    said(["", "The file holds personal data: keep it where MIMIC's licence lets you keep MIMIC."], [output])


def cohort_sentences(found: MimicCohort) -> list[str]:
    """What was kept and what not, in words with numbers."""
    from propcal.data.cohorts import N_VISITS

    admitted = found.table.column("admitted").to_pylist()
    n = len(found.table)
    lines = [f"{found.n_stays:,} stays (MIMIC {found.layout}), rule: {found.rule}"]
    lines += [f"  - {count:,} {why}" for why, count in found.dropped.items()]
    lines.append(f"  = {n:,} visits, {sum(admitted):,} admitted ({percent_of(sum(admitted), n)}).")
    if found.rule == "paper":
        lines.append(f"The paper has {N_VISITS:,} visits, from version 1.0.")
    return [*lines, *_made_missing(found), *found.notes, ""]


def _made_missing(found: MimicCohort) -> list[str]:
    """The columns of which values were set to missing."""
    from propcal.paper.cohort.cohort_sql import RANGES

    lines = []
    for column, row in found.made_missing.iterrows():
        low, high = RANGES[str(column)]
        what = {"no number": row["no_number"], f"outside of {low} to {high}": row["out_of_range"]}
        said = " and ".join(f"{count:,} {why}" for why, count in what.items() if count)
        lines += [f"  {column}: {said}"] if said else []
    return ["Set to missing:", *lines] if lines else []
