"""``propcal atoms`` and ``propcal merge``: reduce people to a small file of counts, and add such files up."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from propcal.cli import options as o
from propcal.cli.input import Columns, merged
from propcal.cli.screen import percentage, say, warnings_as_lines
from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal import Atoms

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", rich_help_panel="Output", help="Write the atoms to this file."
    ),
]


def atoms(
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
    site: o.Site = None,
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            rich_help_panel="Output",
            help="Write atoms that may be shared: scores are merged and rare levels folded, so that every "
            "cell "
            "has at least 11 people with the outcome and 11 without it.",
        ),
    ] = False,
    output: Output,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Reduce files of any size to atoms: counts of people and events by group and score.

    An audit or a fit needs nothing else. propcal merge adds up the atoms of months or sites.

    For example:

      propcal atoms visits.csv --score risk --outcome died --groups race -o visits.atoms

      propcal atoms "visits/*.parquet" --score risk --outcome died --groups race
      --resolution 2^-16 --memory 2GB -o visits.atoms

      propcal atoms north.csv --score risk --outcome died --groups race --site North
      --share -o north.atoms
    """
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
        site,
    )
    grid = o.resolution(resolution)
    check_target(output, force=force, reads=[*find_files(files), config])
    with warnings_as_lines(), percentage("Reading") as progress:
        made = columns.atoms(
            files, weight_kind=weight_kind, resolution=grid, memory=memory, progress=progress
        )
    folded: dict[str, list[str]] = {}
    if share:
        made, folded = _shared(made)
    with outputs(force=force):
        made.save(output)
    _tell(made, output, folded, counted="people" if cluster else "rows")


def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Two or more files from propcal atoms.")
    ],
    *,
    allow_repeated: Annotated[
        bool,
        typer.Option(
            "--allow-repeated",
            rich_help_panel="Your data",
            help="Add files up even if two of them have the same scores, outcomes and weights.",
        ),
    ] = False,
    output: Output,
    force: o.Force = False,
) -> None:
    """Add up atoms files, for example of months or sites.

    The sum of exact atoms equals the atoms of all people together. Shared atoms stay apart by their file.

    For example:

      propcal merge january.atoms february.atoms -o winter.atoms
    """
    from propcal.data.files.file_sets import find_files
    from propcal.output.files.transaction import outputs
    from propcal.output.files.whole_file import check_target

    paths = find_files(files)
    if len(paths) < 2:
        raise InputError("merge needs at least two atoms files; one was named", argument="files")
    check_target(output, force=force, reads=[*paths])
    total = merged(paths, allow_repeated=allow_repeated)
    with outputs(force=force):
        total.save(output)
    _tell(total, output)


def _shared(made: Atoms) -> tuple[Atoms, dict[str, list[str]]]:
    """Atoms that may be shared, and the levels that were folded."""
    from propcal.core.shared_atoms import share_atoms

    return share_atoms(made)


def _about(made: Atoms) -> str:
    """How many atoms and people there are, of which combinations, at how many sites."""
    from propcal.core.keys import by_key, without_keys
    from propcal.core.patterns import SITE
    from propcal.numbers import listed, plural

    bare = without_keys(made).patterns
    of = f" of {listed(list(bare.attributes))}" if bare.attributes else ""
    told = f"{plural(len(made), 'atom')} of {made.n_people:,} people; {plural(len(bare), 'combination')}{of}"
    n = len(by_key(made, SITE))
    return f"{told}, at {plural(n, 'site')}" if n else told


def _tell(
    made: Atoms, output: Path, folded: dict[str, list[str]] | None = None, *, counted: str = "people or rows"
) -> None:
    """What was written, and whether it is personal data."""
    from propcal.core.boosting.boost import FEWEST_SHOWN
    from propcal.core.left_out import LeftOutReport

    bits = made.resolution_bits
    grid = "Scores are exact" if bits == 32 else f"Scores are rounded to 2**-{bits}"
    say(_about(made))
    if told := LeftOutReport.of(made).sentence(FEWEST_SHOWN):
        say(told)
    say(f"Written: {output} ({output.stat().st_size:,} bytes).")
    if made.shared is None:
        say(f"{grid}: treat the file as personal data.")
    else:
        fewest = made.shared.fewest
        for name, levels in (folded or {}).items():
            say(f'{name}: folded into "other levels": {", ".join(levels)}')
        say(
            f"Every cell has at least {fewest} {counted} with the outcome and {fewest} without it. This file "
            "may be shared. Share the same people only once, and make pages that you hand on from this file."
        )
        if counted == "rows":
            say("If people have several rows, name their ID with --cluster, so that people are counted.")
    say(f"  propcal audit {quote(str(output))}")
    say(f"  propcal fit {quote(str(output))} -o model.json")
