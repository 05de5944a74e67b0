"""``propcal fit``: fit a correction of a score."""

from __future__ import annotations

from enum import StrEnum
from math import isnan
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli import options as o
from propcal.cli.input import Columns, unused_labels
from propcal.cli.screen import percentage, say, warnings_as_lines, working
from propcal.identity import Identity
from propcal.numbers import plural, risk_range

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
            rich_help_panel="Method",
            help="Limit errors relative to the observed rate (pmcboost), or the difference itself (mcboost).",
        ),
    ] = Method.PMCBOOST,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            rich_help_panel="Method",
            help="Use the paper's Algorithm 1 exactly: alpha 0.1, no smooth curve, no guard against chance.",
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
    order: Annotated[
        str | None,
        typer.Option(
            metavar="cyclic|random|worst",
            rich_help_panel="Method",
            help="Order in which cells are visited; random uses --seed. [dim]Default: cyclic[/dim]",
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="bootstrap",
            rich_help_panel="Method",
            help="Measure errors on a new bootstrap sample in each sweep, drawn with --seed. "
            "[dim]Default: on all data[/dim]",
        ),
    ] = None,
    min_share: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Method",
            help="Smallest share of all people in a cell. [dim]Default: alpha * gamma / n-bins[/dim]",
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
            help="smooth: recalibrate with a smooth curve first. identity: begin with the raw score. "
            "[dim]Default: smooth[/dim]",
        ),
    ] = None,
    guard: Annotated[
        str | None,
        typer.Option(
            metavar="noise|none|NUMBER",
            rich_help_panel="Method",
            help="noise: leave errors that could be chance. none: adjust every error beyond the tolerance. "
            "NUMBER: adjust errors of at least that many standard errors. [dim]Default: noise[/dim]",
        ),
    ] = None,
    monotone: Annotated[
        bool | None,
        typer.Option(
            "--monotone/--no-monotone",
            rich_help_panel="Method",
            help="Never turn a higher score into a lower one, within a combination of attributes. "
            "[dim]Default: --monotone[/dim]",
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
    unit: o.Unit = "",
    label: o.Label = None,
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
        order=order,
        sample=sample,
        min_share=min_share,
        start=start,
        monotone=monotone,
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
    names = Identity(unit=unit or model.fit_summary_.unit, labels=o.labels(label))
    for note in unused_labels(o.labels(label), atoms):
        say(f"propcal: note: {note}", err=True)
    _tell(model, atoms, names, suppress)
    if share:
        _tell_shared(model.correction_, atoms)
    kind = ["--weight-kind", weight_kind] if weight_kind else []
    same = {"--intersections": intersections, "--missing": missing, "--gamma": gamma}  # the same groups
    chosen = [part for option, value in same.items() if value is not None for part in (option, str(value))]
    _tell_next(output, columns, [*kind, *chosen, *o.naming(unit, label)], names.unit)


def _tell_shared(exact: Correction, atoms: Atoms) -> None:
    """Report what sharing removed, and how much it changes scores in the fitting data."""
    import warnings

    import numpy as np

    from propcal.core.reduction import without_clusters

    shared, people = exact.shared(), without_clusters(atoms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a level may have been left out for its size
        moved = np.abs(shared.apply_to_atoms(people) - exact.apply_to_atoms(people))
    steps = f"{len(shared.updates):,} of {plural(len(exact.updates), 'adjustment')}, and "
    typer.echo(
        "The file is prepared for sharing: its numbers are rounded, and it keeps "
        f"{steps if len(exact.updates) else ''}{len(shared.patterns):,} of {len(exact.patterns):,} "
        f"combinations of groups. This changes scores in the fitting data by "
        f"{np.average(moved, weights=people.people):.4f} on average and by at most {moved.max():.4f}. Audit "
        "the shared file itself before using it."
    )


def _people(count: int, fewest: int, names: Identity) -> str:
    """A number of people; a small one is suppressed, and others are a range from which it cannot be derived.

    >>> people = Identity(unit="people")
    >>> _people(4, 11, people), _people(12, 11, people), _people(127, 11, people)
    ('fewer than 11 people', '11 to 20 people', '121 to 130 people')
    >>> _people(127, 0, people), _people(0, 11, people), _people(1, 0, people)
    ('127 people', 'nobody', '1 person')
    """
    if not count:
        return "nobody"
    if count < fewest:
        return f"fewer than {fewest} {names.unit}"
    if fewest < 2:
        return names.count(count)
    step = fewest - 1
    block = (count - 1) // step
    return f"{block * step + 1:,} to {(block + 1) * step:,} {names.unit}"


def _guard(text: str) -> str | float | None:
    """A guard as the library takes it; the library refuses unknown words."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        return text


def _tell(model: Any, atoms: Atoms, names: Identity, suppress: int) -> None:
    """Report the fit."""
    from dataclasses import replace

    from propcal.core.boosting.boost import FEWEST_SHOWN
    from propcal.core.boosting.smooth_terms import FEWEST_OF_A_TERM
    from propcal.core.groups.collection import Group
    from propcal.core.groups.labels import group_labels
    from propcal.core.left_out import LeftOutReport

    kept, small = model.groups_.groups, model.groups_.left_out
    every = [*kept, *(size.group for size in small)]
    patterns, everyone = model.correction_.patterns, names.everyone
    called = dict(zip(every, group_labels(every, patterns, names.labels, everyone=everyone)))
    of = f"{len(kept)} groups" if len(kept) > 1 else "one group"
    n = atoms.n_people
    who = names.count(n) if not 0 < n < suppress else f"fewer than {suppress} {names.unit}"
    typer.echo(f"{type(model).__name__}: {who}, {of}.")
    words = {group.name: text for group, text in called.items()} | {Group(()).name: f"all {names.unit}"}
    left_out, summary = LeftOutReport.of(atoms), replace(model.fit_summary_, unit=names.unit, labels=words)
    asked = left_out.sentence(suppress, unit=names.unit, labels=names.labels)
    default = left_out.sentence(FEWEST_SHOWN, unit=model.fit_summary_.unit)
    for sentence in summary.sentences():
        say(asked if default and sentence == default else sentence)
    shifts = [update for update in model.correction_.update_list() if not isnan(update.shift)]
    if shifts:
        most = max(shifts, key=lambda update: abs(update.shift))
        label = next(text for group, text in called.items() if group.name == most.group)
        say(f"Largest adjustment: {label} at predicted risk {risk_range(most.bin)}: {most.shift:+.4f}")
    if small:
        less = f"less than {100 * model.gamma:g} % of the {names.unit} (gamma)"
        have = "has no cells of its own" if len(small) == 1 else "have no cells of their own"
        also = ""
        if model.fit_summary_.smooth:
            also = f"; the smooth curve corrects those of at least {FEWEST_OF_A_TERM} {names.unit}"
        typer.echo(f"{plural(len(small), 'group')} with {less} {have}{also}:")
        for size in small[:MOST_LISTED]:
            say(f"  {called[size.group]}: {_people(size.people, suppress, names)}")
        if len(small) > MOST_LISTED:
            typer.echo(f"  ... and {len(small) - MOST_LISTED} more")


def _tell_next(output: Path, columns: Columns, said: list[str], unit: str) -> None:
    """The next commands."""
    say(f"The correction is in {output}. Next, with {unit} that it was not fitted to:")
    audit = ["propcal", "audit", "new.csv", *columns.flags(), *said, "--correction", str(output)]
    apply = ["propcal", "apply", str(output), "new.csv", "--score", columns.score or "COLUMN"]
    apply += [part for text in columns.na for part in ("--na", text)]
    apply += ["--invalid", "null"] if columns.drop_missing else []
    say("  " + join(audit))
    say("  " + join([*apply, "-o", "corrected.csv"]))
