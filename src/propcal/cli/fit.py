"""``propcal fit``: fit a correction of a score."""

from __future__ import annotations

from enum import StrEnum
from math import isnan
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli import options as o
from propcal.cli.input import Columns
from propcal.cli.screen import percentage, warnings_as_lines, working
from propcal.numbers import plural
from propcal.plain_text import plain

if TYPE_CHECKING:
    from propcal import Atoms, Correction

MOST_LISTED = 10


class Method(StrEnum):
    """The algorithm."""

    PMCBOOST = "pmcboost"
    MCBOOST = "mcboost"


def fit(
    files: o.People,
    *,
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
    intersections: o.Intersections = None,
    missing: o.Missing = None,
    gamma: o.Gamma = None,
    method: Annotated[
        Method,
        typer.Option(
            rich_help_panel="Method", help="Tolerance relative to the observed rate (pmcboost) or absolute."
        ),
    ] = Method.PMCBOOST,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", rich_help_panel="Method", help="Use the paper's Algorithm 1 exactly, with alpha 0.1."
        ),
    ] = False,
    alpha: o.Alpha = None,
    rho: o.Rho = None,
    n_bins: o.NBins = None,
    binning: o.Binning = None,
    eta: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Method",
            help="Share of an error that one adjustment removes. [dim]Default: 1[/dim]",
        ),
    ] = None,
    max_updates: Annotated[
        int | None,
        typer.Option(rich_help_panel="Method", help="Most adjustments to make. [dim]Default: 100000[/dim]"),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="smooth|identity",
            rich_help_panel="Method",
            help="Begin with a recalibration (smooth curve), or with the score. [dim]Default: smooth[/dim]",
        ),
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(
            metavar="noise|none|NUMBER",
            rich_help_panel="Method",
            help="Leave errors that could be chance, adjust every error, or adjust those of at least NUMBER "
            "standard errors. [dim]Default: noise[/dim]",
        ),
    ] = None,
    allow_reversed: Annotated[
        bool,
        typer.Option(
            "--allow-reversed",
            rich_help_panel="Method",
            help="Fit even if higher scores go with fewer events (AUROC below 0.4).",
        ),
    ] = False,
    unseen: o.Unseen = None,
    seed: o.Seed = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            rich_help_panel="Output",
            help="Write the correction to this file.",
        ),
    ],
    suppress: o.Suppress = 11,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            rich_help_panel="Output",
            help="Write a correction that may be shared with another site: rounded, without adjustments that "
            "rest on fewer than 11 people, and without a fingerprint of the data.",
        ),
    ] = False,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Fit a correction of a score and write it as readable JSON.

    Ideally, use people that the model behind the score was not trained on.

    For example:

      propcal fit past.csv --score risk --outcome died --groups race,sex -o model.json

      propcal fit past.parquet --score risk --outcome died --groups race
      --cut age=40,65 --alpha 0.1 --method mcboost -o model.json
    """
    from propcal import MCBoost, PMCBoost
    from propcal.data.files.file_sets import find_files
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target

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
    )
    settings = o.given(
        intersections=o.depth(intersections),
        missing=missing,
        gamma=gamma,
        alpha=alpha,
        rho=rho,
        n_bins=n_bins,
        binning=o.bins(binning),
        eta=eta,
        max_updates=max_updates,
        start=start,
        unseen=unseen,
        allow_reversed=allow_reversed or None,
    )
    if guard is not None:
        settings["guard"] = _guard(guard)
    algorithm = PMCBoost if method is Method.PMCBOOST else MCBoost
    model = (algorithm.paper if paper else algorithm)(**settings, **o.given(random_state=seed))
    model.settings()  # check the options before the work begins
    check_target(output, force=force, reads=[*find_files(files), config])
    grid = o.resolution(resolution)
    with warnings_as_lines():
        with percentage("Reading") as progress:
            atoms = columns.atoms(
                files, weight_kind=weight_kind, resolution=grid, memory=memory, progress=progress
            )
        with working("Fitting (the first fit on a machine compiles for some seconds)..."):
            model.fit_atoms(atoms)
        with outputs(force=force):
            model.correction_.save(output, share=share)
    _tell(model, atoms, output, columns, suppress)
    if share:
        _tell_shared(model.correction_, atoms)


def _tell_shared(exact: Correction, atoms: Atoms) -> None:
    """Report what sharing removed, and how much it changes scores in the fitting data."""
    import warnings

    import numpy as np

    from propcal.core.reduction import without_clusters

    shared, people = exact.shared(), without_clusters(atoms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    typer.echo(
        "The correction was prepared for sharing after this fit. It keeps "
        f"{len(shared.updates):,} of {len(exact.updates):,} adjustments, rounded, and lists "
        f"{len(shared.patterns):,} of {len(exact.patterns):,} combinations of groups. Scores in the fitting "
        f"data change by {np.average(moved, weights=people.people):.4f} on average and by at most "
        f"{moved.max():.4f}. Audit the shared file before using it."
    )


def _people(count: int, fewest: int, *, exact: bool = False) -> str:
    """A number of people; a small one is suppressed, and others are rounded so that it cannot be derived.

    >>> _people(4, 11), _people(127, 11), _people(127, 0), _people(0, 11), _people(1, 0)
    ('fewer than 11 people', 'about 130 people', '127 people', 'nobody', '1 person')
    """
    if not count:
        return "nobody"
    if count < fewest:
        return f"fewer than {fewest} people"
    if exact or fewest < 2:
        return f"{count:,} {'person' if count == 1 else 'people'}"
    step = fewest - 1
    return f"about {max(round(count / step), 1) * step:,} people"


def _guard(text: str) -> str | float | None:
    """A guard as the library takes it; the library refuses unknown words."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        return text


def _tell(model: Any, atoms: Atoms, output: Path, columns: Columns, suppress: int) -> None:
    """Report the fit, and the next commands."""
    from propcal.core.boosting.boost import FEWEST_SHOWN
    from propcal.core.left_out import LeftOutReport

    correction = model.correction_
    name, kept = type(model).__name__, len(model.groups_.kept)
    of = f"{kept} groups" if kept > 1 else "one group"
    typer.echo(f"{name} for {of} of {_people(atoms.n_people, suppress, exact=True)}.")
    left_out = LeftOutReport.of(atoms)
    asked = {left_out.sentence(FEWEST_SHOWN): left_out.sentence(suppress)}
    for sentence in model.certificate_.sentences():
        typer.echo(plain(asked.get(sentence, sentence)))
    shifts = [update for update in correction.update_list() if not isnan(update.shift)]
    if shifts:
        most = max(shifts, key=lambda update: abs(update.shift))
        typer.echo(f"Largest adjustment: {plain(most.group)}, scores in {most.bin}: {most.shift:+.4f}")
    small = model.groups_.left_out
    if small:
        typer.echo(f"{plural(len(small), 'group')} not corrected separately:")
        for size in small[:MOST_LISTED]:
            typer.echo(f"  {plain(size.group.name)}: {_people(size.people, suppress)}, {size.left_out}")
        if len(small) > MOST_LISTED:
            typer.echo(f"  ... and {len(small) - MOST_LISTED} more")
    typer.echo(f"The correction is in {output}. Next, with people it was not fitted to:")
    new, flags = "new.csv", columns.flags()
    typer.echo("  " + plain(join(["propcal", "audit", new, *flags, "--correction", str(output)])))
    apply = [
        "propcal",
        "apply",
        str(output),
        new,
        "--score",
        columns.score or "COLUMN",
        "-o",
        "corrected.csv",
    ]
    typer.echo("  " + plain(join(apply)))
