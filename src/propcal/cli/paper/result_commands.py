"""``propcal paper``: commands that show results, of a store of trials, the theory, or MIMIC's files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.cli.log import voice
from propcal.cli.paper import folder as at
from propcal.cli.paper.folder import FOLDER, Folder, ForceFiles, PictureFormats, formats, option, said, write
from propcal.cli.screen import working
from propcal.errors import refused
from propcal.regular_file import refuse_special

if TYPE_CHECKING:
    from propcal.paper.tables import Table
    from propcal.paper.trial_store import Evidence

MIMIC = (
    "Folder with the files of MIMIC-IV-ED (ed/) and MIMIC-IV (core/ or hosp/), at any depth; may be "
    "repeated, once for each database."
)
RULE = "The paper's visits, or all of them with what was known on arrival only."
VISITS = "The visits that the trials were run on, for Table 1; generated visits are regenerated."
STORE = "File of trials that propcal paper admissions or experiment wrote."
STORES = "Files of trials, one for each outcome of the same patients."
TrialsFile = Annotated[Path, typer.Argument(metavar="STORE", help=STORE)]
TrialsFiles = Annotated[list[Path], typer.Argument(metavar="STORE...", help=STORES)]
NAME = "Name of the outcome; once for each store, in order."
CohortOutput = Annotated[Path, option("File to write: .parquet or .csv.", "FILE", "--output", "-o")]
CohortFile = Annotated[Path | None, option(VISITS, "FILE")]
TableFormats = Annotated[str, option("Formats to write: csv, md, tex, or several.", "NAMES", "--format")]
WITHOUT = "Leave out propcal's default method, which is not in the paper."
WithoutOurs = Annotated[bool, option(WITHOUT, None, "--without-ours")]
About = Annotated[str, option("A paragraph about the data.", "TEXT")]
BESIDE = "Another store, such as of other simulated visits, whose verdicts are shown beside; may be repeated."
Beside = Annotated[list[Path] | None, option(BESIDE, "STORE")]
Page = Annotated[Path, option("The page, in Markdown.", "FILE", "--output", "-o")]


def _folder(what: str, default: str) -> Any:
    words = f"Folder for the {what}. [dim]Default: {default} beside the page[/dim]"
    return option(words, "FOLDER", show_default=False)


def simulation(
    output: Folder = FOLDER,
    groups: Annotated[int, option("Number of groups; outcome rates start at 0.2 and rise by 0.01.")] = 61,
    alpha: Annotated[float, option("Multicalibration of the simulated models.")] = 0.1,
    data_sets: Annotated[int, option("Data sets to draw.")] = 1000,
    people: Annotated[int, option("People of each group in a data set.")] = 1000,
    seed: Annotated[int, option("Random seed.")] = 0,
    format_: PictureFormats = "png",
    force: ForceFiles = False,
) -> None:
    """The simulation study: equal MC loss, unequal PMC loss.

    Draws models that are alpha-multicalibrated, with errors at random,
    the same, increasing or decreasing with the group's outcome rate.
    Writes the figure and its numbers.

    For example:

      propcal paper simulation -o figures
    """
    from propcal.paper.simulation import TABLES, picture_of, simulate

    kinds = formats(format_)
    at.planned((output, at.named(["simulation"], kinds, TABLES)), force=force)
    with working("Drawing data sets..."):
        found = simulate(groups, alpha, data_sets, people, seed)
        files = at.files_of([picture_of(found)], output, kinds)
        write(files, force=force)
    said(found.sentences(), files)


def theory(
    output: Folder = FOLDER,
    alpha: Annotated[float, option("Tolerance in the picture of the constraints.")] = 0.2,
    rho: Annotated[float, option("Floor on the outcome rate in that picture.")] = 0.1,
    format_: PictureFormats = "png",
    force: ForceFiles = False,
) -> None:
    """The pictures of the theory, from propcal.bounds.

    Constraints: how far a score may be from the outcome rate under MC and
    under PMC. Relations: what MC, PMC and DC imply for each other.
    Discretisation: what PMC in bins implies. Writes each as a figure and as
    numbers.

    For example:

      propcal paper theory -o figures
    """
    from propcal.paper.theory import PICTURES, pictures, sentences

    kinds = formats(format_)
    at.planned((output, at.named(PICTURES, kinds, PICTURES)), force=force)
    with working("Drawing..."):
        files = at.files_of(pictures(alpha, rho), output, kinds)
        write(files, force=force)
    said(sentences(alpha, rho), files)


def cohort(
    mimic: Annotated[list[Path], option(MIMIC, "FOLDER")],
    output: CohortOutput = Path("mimic_cohort.parquet"),
    rule: Annotated[str, option(RULE, "paper|clean", "--rule")] = "paper",
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

    from propcal.files.table_files import writes_text
    from propcal.files.transaction import check_target, outputs
    from propcal.paper.mimic_cohort import find_tables, mimic_cohort
    from propcal.paper.tables import prevalence, prevalence_table

    writes_text(output)  # an ending that means nothing is told before the work
    check_target(output, force=force, reads=list(find_tables(mimic).values()))
    with working("Reading...") as say:
        found = mimic_cohort(*mimic, rule=rule, say=say)
        say("Writing...")
        with outputs(force=force):
            found.save(output)
        table = prevalence(found.visits)
    said(found.sentences())
    Console(quiet=voice.quiet).print(prevalence_table(table, name="this cohort").to_rich())
    said(["", "The file holds personal data: keep it where MIMIC's licence lets you keep MIMIC."], [output])


def tables(
    store: TrialsFile,
    output: Annotated[Path | None, option("Write all tables there.", "FOLDER", "--output", "-o")] = None,
    format_: TableFormats = "csv,md",
    cohort: CohortFile = None,
    beside: Beside = None,
    without_ours: WithoutOurs = False,
    force: ForceFiles = False,
) -> None:
    """Tables 1, 4, 5 and 6 beside the published numbers, and the paper's claims.

    Works at any stage of a run: the output lists what is missing.
    With -o it also writes each table by alpha, each method at its best
    alpha, and the tests.

    For example:

      propcal paper tables admissions.sqlite -o tables
    """
    from rich.console import Console

    from propcal.paper.claims import claims_table, judge_all
    from propcal.paper.tables import LONG, NAMES, all_tables

    kinds = formats(format_, at.TABLE_FORMATS)
    evidence = _read(store, without_ours=without_ours)
    if output is not None:
        at.planned((output, at.named(NAMES, kinds)), force=force, reads=[store, cohort], draws=False)
    with working("Computing medians and intervals..."):
        found, lacking = all_tables(evidence, cohort)
        if not evidence.of_cells:
            others = {other.name: judge_all(other) for other in map(_read, beside or ())}
            found.append(claims_table(judge_all(evidence), others))
    files = _files(found, output, kinds) if output is not None else {}
    write(files, force=force)
    _say_about(evidence, *lacking)
    console = Console(quiet=voice.quiet)
    for table in found:
        if table.name not in LONG:
            console.print(table.to_rich(), markup=False)
            for note in table.notes:
                console.print(note, style="dim", markup=False, highlight=False)
            console.print()
    said([], files)


def figures(
    store: TrialsFile,
    output: Folder = FOLDER,
    format_: PictureFormats = "png",
    without_ours: WithoutOurs = False,
    force: ForceFiles = False,
) -> None:
    """The figures of an experiment, with their numbers as CSV.

    The comparison of base models and methods, calibration curves of three
    groups, convergence, and AUROC, losses and updates over alpha. Works at
    any stage of a run: the output lists what is missing.

    For example:

      propcal paper figures admissions.sqlite -o figures

      propcal paper figures admissions.sqlite --format pdf,svg --without-ours
    """
    from propcal.paper.figures import PICTURES, TABLES, pictures

    kinds = formats(format_)
    evidence = _read(store, without_ours=without_ours)
    at.planned((output, at.named(PICTURES, kinds, TABLES)), force=force, reads=[store])
    with working("Drawing..."):
        drawn, lacking = pictures(evidence)
        files = at.files_of(drawn, output, kinds)
        write(files, force=force)
    _say_about(evidence)
    said([f"Not drawn: {sentence}" for sentence in lacking], files)


def reproduction(
    store: TrialsFile,
    output: Page = Path("reproduction.md"),
    images: Annotated[Path | None, _folder("pictures", "images/reproduction")] = None,
    tables: Annotated[Path | None, _folder("tables", "tables/reproduction")] = None,
    cohort: CohortFile = None,
    beside: Beside = None,
    about: About = "",
    force: ForceFiles = False,
) -> None:
    """A page with a verdict on each published claim, tables and figures.

    All numbers come from the store; each verdict (agrees, differs,
    undecided, vacuous, ...) follows from a rule, and from how many resamples
    of the seeds agree. The rules and all tables are in CSV files.

    For example:

      propcal paper reproduction admissions.sqlite -o docs/reproduction.md
    """
    from propcal.paper.claims import by_rules, verdict_counts
    from propcal.paper.figures import PICTURES
    from propcal.paper.reproduction import Reproduction
    from propcal.paper.tables import NAMES

    evidence = _read(store)
    images = images or output.parent / "images" / "reproduction"
    tables = tables or output.parent / "tables" / "reproduction"
    beside_page = (images, at.named(PICTURES, ["png"])), (tables, at.named(NAMES, ["csv"]))
    at.planned((output.parent, [output.name]), *beside_page, force=force, reads=[store, cohort])
    with working("Computing and drawing..."):
        page = Reproduction(evidence, cohort, about, [*map(_read, beside or ())])
        files: dict[Path, Any] = {output: page.markdown(_link(output, images), _link(output, tables))}
        files |= {images / f"{picture.name}.png": picture.figure for picture in page.drawn}
        files |= _files(page.tables, tables, ["csv"])
        write(files, force=force)
    _say_about(evidence, *page.lacking_tables)
    said([verdict_counts(page.judged), by_rules(page.judged)], files)


def benefit(
    stores: TrialsFiles,
    name: Annotated[list[str] | None, option(NAME, "TEXT")] = None,
    about: About = "",
    output: Page = Path("benefit.md"),
    images: Annotated[Path | None, _folder("pictures", "images")] = None,
    force: ForceFiles = False,
) -> None:
    """Whom do the methods help, and whom do they harm?

    From stores of propcal paper experiment, a page with tables and
    pictures: the change of the errors with their intervals at each alpha,
    and O/E ratios of subgroups before and after.

    For example:

      propcal paper benefit month.sqlite ever.sqlite -o benefit.md
    """
    from propcal.paper.benefit import PICTURES, benefit_figures, benefit_page, outcome_names

    for i, store in enumerate(stores):
        refuse_special(store)
        if store.resolve() in [before.resolve() for before in stores[:i]]:
            raise refused("paper store twice", store=store)
    found = [_read(store) for store in stores]
    named = dict(zip(outcome_names(name or [], found), found))
    images = images or output.parent / "images"
    pictures = (images, at.named(PICTURES, ["png"]))
    at.planned((output.parent, [output.name]), pictures, force=force, reads=stores)
    with working("Computing and drawing..."):
        files: dict[Path, Any] = {output: benefit_page(named, about, _link(output, images))}
        files |= {images / f"{name}.png": figure for name, figure in benefit_figures(named).items()}
        write(files, force=force)
    said([], files)


def _read(store: Path, *, without_ours: bool = False) -> Evidence:
    from propcal.paper.trial_store import Evidence

    found = Evidence.from_store(store)
    return found.without_ours() if without_ours else found


def _say_about(evidence: Evidence, *more: str) -> None:
    said([f"{evidence.caption()} {len(evidence.stored):,} trials.", *evidence.missing(), *more, ""])


def _link(page: Path, folder: Path) -> str:
    """A folder as written in links on the page."""
    return Path(os.path.relpath(folder, page.parent)).as_posix()


def _files(found: Sequence[Table], folder: Path, kinds: Sequence[str]) -> dict[Path, Any]:
    return {folder / f"{table.name}.{kind}": table.written(kind) for table in found for kind in kinds}
