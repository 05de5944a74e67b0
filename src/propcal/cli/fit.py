"""``propcal fit``: learn what corrects a score."""

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
        typer.Option(rich_help_panel="Method", help="Errors as shares of a group's rate, or as they are."),
    ] = Method.PMCBOOST,
    paper: Annotated[
        bool,
        typer.Option("--paper", rich_help_panel="Method", help="Algorithm 1 to the letter: alpha is 0.1."),
    ] = False,
    alpha: o.Alpha = None,
    rho: o.Rho = None,
    n_bins: o.NBins = None,
    binning: o.Binning = None,
    eta: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Method", help="Share of a gap that an update closes. [dim]Default: 1[/dim]"
        ),
    ] = None,
    max_updates: Annotated[
        int | None,
        typer.Option(rich_help_panel="Method", help="Limit on the updates. [dim]Default: 100000[/dim]"),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="smooth|identity",
            rich_help_panel="Method",
            help="Recalibrate smoothly before the updates, or not. [dim]Default: smooth[/dim]",
        ),
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(
            metavar="noise|none|NUMBER",
            rich_help_panel="Method",
            help="Leave alone what noise may explain; every gap counts; or gaps of so many standard errors. "
            "[dim]Default: noise[/dim]",
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
            "--output", "-o", metavar="FILE", rich_help_panel="Output", help="Where to write the model."
        ),
    ],
    suppress: o.Suppress = 11,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            rich_help_panel="Output",
            help="Write the model as it may be handed to another site: without what fewer than 11 people "
            "decided, rounded, and without a fingerprint of the data.",
        ),
    ] = False,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Learn a correction of a score and write it as readable JSON.

    Best from people whom the model behind the score was not trained on.

    For example:

      propcal fit past.csv --score risk --outcome y --groups race -o model.json

      propcal fit past.parquet --score risk --outcome y --groups race
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
        None,
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
    model.settings()  # a wrong option is told before the work
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
    """What sharing left out, and how far it moves the scores of the fitting people."""
    import warnings

    import numpy as np

    from propcal.core.reduction import without_clusters

    shared, people = exact.shared(), without_clusters(atoms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    typer.echo(
        "Made ready to share: the fit is described above as it was before that. Of "
        f"{len(exact.updates):,} updates {len(shared.updates):,} are left, rounded; of "
        f"{len(exact.patterns):,} combinations of groups {len(shared.patterns):,} are listed. Scores of the "
        f"fitting people differ by {np.average(moved, weights=people.people):.4f} on average and "
        f"{moved.max():.4f} at most. Audit the shared file before it is used."
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
    """A guard as the library has it; what it does not know it refuses itself."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        return text


def _tell(model: Any, atoms: Atoms, output: Path, columns: Columns, suppress: int) -> None:
    """What was learned, and what to type next."""
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
        typer.echo(f"Largest update: {plain(most.group)}, scores in {most.bin}: {most.shift:+.4f}")
    small = model.groups_.left_out
    if small:
        typer.echo(f"{plural(len(small), 'group')} not corrected separately:")
        for size in small[:MOST_LISTED]:
            typer.echo(f"  {plain(size.group.name)}: {_people(size.people, suppress)}, {size.left_out}")
        if len(small) > MOST_LISTED:
            typer.echo(f"  ... and {len(small) - MOST_LISTED} more")
    typer.echo(f"The correction is in {output}. On people whom it was not fitted to:")
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
