"""``propcal sites``: is a score right at each site, and what can a new site expect?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli import options as o
from propcal.cli.input import Columns
from propcal.cli.screen import percentage, say, warnings_as_lines, working
from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal import Atoms
    from propcal.sites.site_measures import Sites

PAGE_SUPPRESS = 11  # pages are meant to be handed on
ENDINGS = {"--html": (".html", ".htm"), "--output": (".json",)}


def sites(
    files: o.People,
    *,
    site: o.Site = None,
    score: o.Score = None,
    outcome: o.Outcome = None,
    positive: o.Positive = None,
    groups: o.Groups = None,
    weight: o.Weight = None,
    weight_kind: o.WeightKind = None,
    cluster: o.Cluster = None,
    na: o.Na = None,
    drop_missing: o.DropMissing = False,
    resolution: o.Resolution = None,
    memory: o.Memory = None,
    cut: o.Cut = None,
    where: o.Where = None,
    as_levels: o.AsLevels = None,
    travel: o.Travel = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            rich_help_panel="Output",
            help="Write a page for any reader to this file.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", rich_help_panel="Output", help="Write JSON to this file."
        ),
    ] = None,
    title: o.Title = "",
    score_name: o.ScoreName = "",
    outcome_name: o.OutcomeName = "",
    unit: o.Unit = "",
    source: o.Source = "",
    period: o.Period = "",
    suppress: o.PageSuppress = None,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Compare sites: is the score right at each of them, and what can a new site expect?

    Sites come from a column (--site hospital), or from atoms files with one site each. Groups
    matter only to --travel, which corrects the score for them.

    For example:

      propcal sites visits.csv --site hospital --score risk --outcome died --html sites.html

      propcal sites north.atoms south.atoms east.atoms --travel -o sites.json
    """
    from propcal.data.files.file_sets import find_files
    from propcal.identity import Identity
    from propcal.output.files.transaction import outputs
    from propcal.output.page_file import write_page

    columns = Columns(
        score,
        outcome,
        o.names(groups),
        weight,
        cluster,
        o.cuts(cut),
        o.conditions(where),
        na or [],
        positive,
        drop_missing,
        o.names(as_levels, "--as-levels"),
        site,
    )
    _check_targets({"--html": html, "--output": output}, force, [*find_files(files), config])
    grid = o.resolution(resolution)
    named = Identity(title, score_name, outcome_name, unit or "people", source=source, period=period)
    with warnings_as_lines():
        with percentage("Reading") as progress:
            atoms = columns.atoms(
                files, weight_kind=weight_kind, resolution=grid, memory=memory, progress=progress
            )
        with working("Comparing sites...") as update:
            found = compared(atoms, travel=travel, identity=named, update=update, site=site)
    with outputs(force=force):
        if html is not None:
            found.to_html(html, suppress=PAGE_SUPPRESS if suppress is None else suppress)
        if output is not None:
            write_page(found.to_json(suppress or 0) + "\n", output)
    show_sites(found, suppress or 0)
    if written := [str(path) for path in (html, output) if path is not None]:
        say(f"Written: {', '.join(written)}")


def compared(
    atoms: Atoms,
    *,
    travel: bool,
    identity: Any,
    update: Any,
    site: str | None = None,
    corrected: bool = False,
) -> Sites:
    """The sites of these atoms, compared.

    `site` is the column that was named, and `corrected` says that an audit also has a correction.
    """
    from propcal.core.keys import by_key
    from propcal.core.patterns import SITE
    from propcal.sites.site_measures import compare_sites

    parts = by_key(atoms, SITE)
    if not parts:
        raise InputError(
            "these data have no sites",
            argument="--site",
            next_step="Name their column: --site hospital; or make one atoms file per site: "
            "propcal atoms north.csv --site North ...",
        )
    if list(parts) == [site]:
        raise InputError(
            f"there is no column {site!r}, so all rows were taken as one site of that name",
            argument="--site",
            next_step="Name the column of the sites",
        )
    update(f"Comparing {len(parts)} sites...")
    found = compare_sites(atoms, travel=travel, identity=identity)
    note = "The sites are compared by the score before its correction."
    return replace(found, notes=(note, *found.notes)) if corrected else found


def show_sites(found: Sites, suppress: int) -> None:
    """Print what was found."""
    from rich.console import Console

    from propcal.disclosure.protected_sites import protected_sites
    from propcal.output.sites.sites_text import sites_text

    Console(highlight=False).print(sites_text(protected_sites(found, suppress)))


def _check_targets(paths: dict[str, Path | None], force: bool, reads: list[Path | None]) -> None:
    """Refuse output files that may not be written, are one file, or are named for something else."""
    from propcal.output.files.whole_file import check_target

    given = {option: path for option, path in paths.items() if path is not None}
    for option, path in given.items():
        if path.suffix and path.suffix.lower() not in ENDINGS[option]:
            raise InputError(f"{option} {path}: the name must end in {ENDINGS[option][0]}", argument=option)
        check_target(path, force=force, reads=reads)
    if len({path.resolve() for path in given.values()}) < len(given):
        raise InputError("--html and --output must be different files")
