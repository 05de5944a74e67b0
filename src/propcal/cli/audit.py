"""``propcal audit``: for whom is a score miscalibrated, and by how much?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.auditing.finding_names import MISCALIBRATED
from propcal.cli import options as o
from propcal.cli.fail_on import Threshold, thresholds
from propcal.cli.input import Columns, unused_labels
from propcal.cli.screen import percentage, say, warnings_as_lines, working
from propcal.cli.sites import compared, show_sites
from propcal.errors import InputError

if TYPE_CHECKING:
    from propcal import Correction


PAGE_SUPPRESS = 11  # pages are meant to be handed on
KINDS = {"--html": "an HTML page", "--md": "Markdown", "--output": "JSON"}
SHARED = ("alpha", "gamma", "rho", "n_bins", "binning", "intersections", "missing", "weight_kind")


class Format(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


def audit(
    files: o.People,
    score: o.Score = None,
    outcome: o.Outcome = None,
    positive: o.Positive = None,
    groups: o.Groups = None,
    weight: o.Weight = None,
    weight_kind: o.WeightKind = None,
    cluster: o.Cluster = None,
    site: o.Site = None,
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
    min_people: Annotated[
        int | None,
        typer.Option(
            rich_help_panel="Groups",
            help="Fewest people in a cell that is tested. [dim]Default: 30[/dim]",
        ),
    ] = None,
    min_group: o.MinGroup = None,
    min_events: o.MinEvents = None,
    alpha: o.Alpha = None,
    rho: o.Rho = None,
    n_bins: o.NBins = None,
    binning: o.Binning = None,
    draws: Annotated[
        int | None,
        typer.Option(
            rich_help_panel="Method",
            help="Simulated data sets for what chance alone would show. [dim]Default: 1000[/dim]",
        ),
    ] = None,
    bin_free: Annotated[
        bool,
        typer.Option(
            "--bin-free",
            rich_help_panel="Method",
            help="Also compute measures that need no bins: ECCE with its worst range of scores, smooth ECE.",
        ),
    ] = False,
    seed: o.Seed = None,
    threshold: o.Thresholds = None,
    correction: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Method",
            help="Compare the score with its correction by this file, from propcal fit.",
        ),
    ] = None,
    travel: o.Travel = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="THRESHOLD",
            rich_help_panel="Output",
            help='Exit with code 1 if this holds: "pmc > 0.2", "mc.low > 0.05", "pmc_rms > 0.1", or the word '
            "verdict (the score is miscalibrated). May be repeated.",
        ),
    ] = None,
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
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            rich_help_panel="Output",
            help="Write a report page for any reader to this file.",
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--md",
            metavar="FILE",
            rich_help_panel="Output",
            help="Write a short Markdown report to this file.",
        ),
    ] = None,
    title: o.Title = "",
    score_name: o.ScoreName = "",
    outcome_name: o.OutcomeName = "",
    unit: o.Unit = "",
    label: o.Label = None,
    source: o.Source = "",
    period: o.Period = "",
    institution: o.Institution = "",
    population: o.Population = "",
    suppress: o.PageSuppress = None,
    force: o.Force = False,
    config: o.Config = None,
) -> None:
    """Find out for whom a score is miscalibrated, by how much, and whether it could be chance.

    Exit codes: 0 success, 1 a --fail-on condition holds, 2 wrong use.

    For example:

      propcal audit visits.csv --score risk --outcome died --groups race,sex

      propcal audit visits.parquet --score risk --outcome died --html report.html
      --cut age=40,65 --where "elderly=age >= 75 and insurance = Medicare"

      propcal audit new.csv --score risk --outcome status --positive EXPIRED
      --groups race --drop-missing --correction model.json --fail-on verdict
    """
    from propcal.data.files.file_sets import find_files
    from propcal.output.files.transaction import outputs

    limits = thresholds(fail_on)
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
    settings = o.given(
        intersections=o.depth(intersections),
        missing=missing,
        gamma=gamma,
        min_people=min_people,
        min_group=min_group,
        min_events=min_events,
        alpha=alpha,
        rho=rho,
        n_bins=n_bins,
        binning=o.bins(binning),
        n_draws=draws,
        random_state=seed,
        weight_kind=weight_kind,
        thresholds=threshold,
        bin_free=bin_free or None,
    )
    said = {name: settings[name] for name in SHARED if name in settings}
    settings |= {"title": title, "score_name": score_name, "outcome_name": outcome_name, "unit": unit}
    settings |= {"labels": o.labels(label), "source": source, "period": period}
    settings |= {"institution": institution, "population": population}
    _check_targets([output, html, markdown], force, [*find_files(files), correction, config])
    _check_endings(output, html, markdown)
    model = _load(correction)
    grid = o.resolution(resolution)
    with warnings_as_lines():
        with percentage("Reading") as progress:
            atoms = columns.atoms(
                files,
                weight_kind=weight_kind,
                resolution=grid,
                memory=memory,
                correction=model,
                progress=progress,
            )
        with working("Auditing...") as update:
            settings["progress"] = lambda done, total: update(f"Auditing... {done} of {total} groups")
            result = _audit(atoms, model, settings)
            sites = _sites(atoms, travel, settings, update, corrected=model is not None)
    for note in unused_labels(o.labels(label), atoms):
        say(f"propcal: note: {note}", err=True)
    shown = _protected(result, suppress)  # for the terminal and JSON: only if --suppress is given
    text = shown.to_json() if output is not None or format_ is Format.JSON else ""
    with outputs(force=force):
        if output is not None:
            write_text(text, output)
        _write_pages(html, markdown, result, shown, suppress=suppress, correction=model, sites=sites)
    if format_ is Format.JSON:
        typer.echo(text)
    else:
        _show(shown)
        if sites is not None:
            show_sites(sites, suppress or 0)
        if written := [str(path) for path in (html, markdown, output) if path is not None]:
            say(f"Written: {', '.join(written)}")
            typer.echo()
        if model is None and result.verdict.conclusion == MISCALIBRATED:
            if result.verdict.ranks_backwards:
                typer.echo("Before correcting it, find out why it ranks the wrong way round.")
            else:
                who = result.identity.unit
                say(f"To correct it (keep some {who} out of the fit, to audit the correction on):")
                say(f"  {_then(files, columns, said, o.naming(unit, label))}")
    _end(limits, result, shown)


def _check_endings(output: Path | None, html: Path | None, markdown: Path | None) -> None:
    """Whether each file is named for what it will hold."""
    for option, path, endings in (
        ("--html", html, (".html", ".htm")),
        ("--md", markdown, (".md", ".markdown")),
        ("--output", output, (".json",)),
    ):
        if path is not None and path.suffix and path.suffix.lower() not in endings:
            raise InputError(
                f"{option} {path}: {option} writes {KINDS[option]}, so the name must end in {endings[0]}",
                argument=option,
                next_step="Print the page from a browser to get a PDF" if path.suffix == ".pdf" else None,
            )


def _check_targets(paths: list[Path | None], force: bool, reads: list[Path | None]) -> None:
    """Refuse output files that may not be written, or that are one file."""
    from propcal.output.files.whole_file import check_target

    given = [path for path in paths if path is not None]
    for path in given:
        check_target(path, force=force, reads=reads)
    if len({path.resolve() for path in given}) < len(given):
        raise InputError("--output, --html and --md must be different files")


def _protected(result: Any, suppress: int | None) -> Any:
    from propcal.disclosure.protected import protected

    return protected(result, suppress)


def _write_pages(
    html: Path | None,
    markdown: Path | None,
    result: Any,
    shown: Any,
    *,
    suppress: int | None,
    correction: Any,
    sites: Any = None,
) -> None:
    if html is None and markdown is None:
        return
    from propcal.output.report.render import write_html, write_markdown

    if suppress is None:
        suppress = PAGE_SUPPRESS
        shown = _protected(result, suppress)  # once, for both
    if html is not None:
        whole = html if sites is None else None  # the section of the sites is added first
        page = write_html(result, whole, shown=shown, suppress=suppress, correction=correction)
        if sites is not None:
            from propcal.output.page_file import write_page
            from propcal.output.sites.sites_page import with_sites

            write_page(with_sites(page, sites, suppress=suppress), html)
    if markdown is not None:
        write_markdown(result, markdown, shown=shown, suppress=suppress)


def _load(path: Path | None) -> Correction | None:
    if path is None:
        return None
    from propcal import Correction  # which imports numba; an audit alone does not need it

    return Correction.load(path)


def _audit(atoms: Any, model: Correction | None, settings: dict[str, Any]) -> Any:
    """An audit, or a comparison of the score with what a correction makes of it."""
    import propcal

    if model is None:
        return propcal.audit(atoms, **settings)
    return propcal.compare({"score": None, "corrected": model}, atoms, **settings)


def _sites(atoms: Any, travel: bool, settings: dict[str, Any], update: Any, *, corrected: bool) -> Any:
    """Sites compared, if there are several; None without sites."""
    from propcal.core.keys import by_key
    from propcal.core.patterns import SITE
    from propcal.identity import Identity

    parts = by_key(atoms, SITE)
    if len(parts) < 2:
        if travel:
            found = f"there is one ({next(iter(parts))})" if parts else "there are none"
            raise InputError(
                f"--travel needs at least two sites, and {found}", argument="--travel", next_step="See --site"
            )
        return None
    names = {"title": settings["title"], "score": settings["score_name"]}
    named = Identity(**names, unit=settings["unit"] or "people")
    return compared(atoms, travel=travel, identity=named, update=update, corrected=corrected)


def write_text(text: str, path: Path) -> None:
    """Write a text to a file, whole or not at all."""
    from propcal.output.files.whole_file import write_whole

    def write(part: Path) -> None:
        part.write_text(text + "\n", encoding="utf-8")

    write_whole(path, write)


def _show(result: Any) -> None:
    from rich.console import Console

    from propcal.output.terminal import audit_text, comparison_text

    shown = comparison_text if hasattr(result, "audits") else audit_text
    Console(highlight=False).print(shown(result))


def _then(files: list[Path], columns: Columns, settings: dict[str, Any], names: list[str]) -> str:
    """The command that fits a correction, for the same groups and risk ranges."""
    flags = []
    for name, value in settings.items():
        text = ",".join(f"{edge:g}" for edge in value) if isinstance(value, list) else str(value)
        flags += [f"--{name.replace('_', '-')}", text]
    return join(["propcal", "fit", *map(str, files), *columns.flags(), *flags, *names, "-o", "model.json"])


def _end(limits: list[Threshold], result: Any, shown: Any) -> None:
    """Exit with code 1 if a --fail-on condition holds; in a comparison, for the last score."""
    judged, told = (list(r.audits.values())[-1] if hasattr(r, "audits") else r for r in (result, shown))
    failures = [failure for limit in limits if (failure := limit.failure(judged, told))]
    for limit in limits:
        if note := limit.undecided(judged):
            say(f"propcal: note: {note}", err=True)
    for failure in failures:
        say(f"propcal: failed: {failure}", err=True)
    if failures:
        raise typer.Exit(1)
