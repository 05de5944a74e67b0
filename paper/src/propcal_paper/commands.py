"""``propcal paper``: commands that run trials, go on after a stop, and show results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from propcal.building_blocks import (
    Commands,
    Only,
    Panel,
    Roles,
    add_command,
    check_choice,
    check_target,
    draw,
    echo,
    log,
    new_folders,
    outputs,
    plain,
    plural,
    refuse_special,
    terminal,
    voice,
    working,
)
from propcal.building_blocks import names as columns_of
from propcal_paper.errors import refused
from propcal_paper.settings import GRIDS, MODELS, N_SEEDS, SURROGATES, toml_file
from propcal_paper.setups import SETUPS

if TYPE_CHECKING:
    from propcal_paper.figure_parts import PaperFigure
    from propcal_paper.results.evidence import Evidence
    from propcal_paper.results.printed_tables import PaperTable
    from propcal_paper.running.experiment import Experiment
    from propcal_paper.running.trials import Unit


DATA = Panel("Your data")
GROUPS = Panel("Groups")
METHOD = Panel("Method")
OUTPUT = Panel("Output")
FORCE = OUTPUT.flag("Replace the output file if it exists.")
STORE = "File of trials that propcal paper admissions or experiment wrote."
STORES = "Files of trials, one for each outcome of the same patients."
TrialsFile = Annotated[Path, typer.Argument(metavar="STORE", help=STORE)]
TrialsFiles = Annotated[list[Path], typer.Argument(metavar="STORE...", help=STORES)]
COHORT = DATA.option(
    "FILE",
    "The visits that the trials were run on, for Table 1; "
    "generated visits are regenerated.",
)
BESIDE = DATA.option(
    "STORE",
    "Another store, such as of other simulated visits, "
    "whose verdicts are shown beside.",
)
WITHOUT_OURS = METHOD.flag(
    "Leave out propcal's default method, which is not in the paper."
)
ABOUT = DATA.option("TEXT", "A paragraph about the data.", default="")
PICTURE_FORMATS = ("png", "pdf", "svg")
TABLE_FORMATS = ("csv", "md", "tex")


def formats(text: str, known: Sequence[str] = PICTURE_FORMATS) -> list[str]:
    """The formats of a list such as pdf,svg, each once.

    >>> formats("pdf, svg")
    ['pdf', 'svg']
    """
    chosen = []
    for part in text.split(","):
        name = part.strip().lower().lstrip(".")
        if name and name not in chosen:
            chosen.append(name)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        wrong = f": there is no {unknown[0]!r}"
    elif not chosen:
        wrong = " names no format"
    else:
        return chosen
    raise refused("format", wrong=wrong, known=", ".join(known))


@dataclass(frozen=True)
class Pictures:
    """Where pictures and their numbers are written.

    Attributes
    ----------
    output
        Folder for the files.
    format
        Formats of the pictures: png, pdf, svg, or several.
    """

    output: Path = OUTPUT.option("--output -o FOLDER", default=Path("propcal-paper"))
    format: str = OUTPUT.option("NAMES", default="png")
    force: bool = FORCE

    def paths(self, pictures: Iterable[str], tables: Iterable[str]) -> list[Path]:
        """The files that may be written."""
        drawn = _paths(self.output, pictures, formats(self.format))
        return drawn + _paths(self.output, tables, ["csv"])

    def files(self, pictures: Iterable[PaperFigure]) -> dict[Path, Any]:
        """Each picture in every format, and its numbers, by their files."""
        files: dict[Path, Any] = {}
        for picture in pictures:
            for kind in formats(self.format):
                files[self.output / f"{picture.name}.{kind}"] = picture.figure
            for name, frame in picture.data.items():
                files[self.output / f"{name}.csv"] = frame
        return files


@contextmanager
def _making(
    text: str,
    paths: Iterable[Path],
    *reads: Path | None,
    force: bool,
) -> Iterator[dict[Path, Any]]:
    """Check where files may be written before the work; then write them, all or none.

    Yields the texts, figures, and frames to be written as CSV, which the work adds.
    """
    from propcal_paper.figure_parts import save

    for path in paths:
        if path.parent.is_dir():
            check_target(path, force=force, reads=reads)
        elif path.parent.exists():
            raise refused("output", folder=path.parent)
    files: dict[Path, Any] = {}
    with working(text):
        yield files
        with new_folders(*{path.parent for path in files}), outputs(force=force):
            for path, content in files.items():
                save(content, path)


def simulation(
    groups: int = METHOD.option("N", default=61, argument="n_groups"),
    alpha: float = METHOD.option("SHARE", default=0.1),
    data_sets: int = METHOD.option("N", default=1000, argument="n_data_sets"),
    people: int = METHOD.option("N", default=1000, argument="n_people"),
    seed: int = METHOD.option("N", default=0),
    out: Pictures = Pictures(),
) -> None:
    """The simulation study: equal MC loss, unequal PMC loss.

    Draws models that are alpha-multicalibrated, with errors at random,
    the same, increasing or decreasing with the group's outcome rate.
    Writes the figure and its numbers.

    For example:

      propcal paper simulation -o figures

    Parameters
    ----------
    groups
        Number of groups; outcome rates start at 0.2 and rise by 0.01.
    alpha
        Multicalibration of the simulated models.
    data_sets
        Data sets to draw.
    people
        People of each group in a data set.
    seed
        Random seed.
    """
    from propcal_paper.simulation import TABLES, picture_of, simulate

    paths = out.paths(["simulation"], TABLES)
    with _making("Drawing data sets...", paths, force=out.force) as files:
        simulated = simulate(groups, alpha, data_sets, people, seed)
        files.update(out.files([picture_of(simulated)]))
    _say(simulated.sentences(), files)


def theory(
    alpha: float = METHOD.option("SHARE", default=0.2),
    rho: float = METHOD.option("RATE", default=0.1),
    out: Pictures = Pictures(),
) -> None:
    """The pictures of the theory, from propcal.bounds.

    Constraints: how far a score may be from the outcome rate under MC and
    under PMC. Relations: what MC, PMC and DC imply for each other.
    Discretisation: what PMC in bins implies. Writes each as a figure and as
    numbers.

    For example:

      propcal paper theory -o figures

    Parameters
    ----------
    alpha
        Tolerance in the picture of the constraints.
    rho
        Floor on the outcome rate in that picture.
    """
    from propcal_paper.theory import PICTURES, pictures, sentences

    paths = out.paths(PICTURES, PICTURES)
    with _making("Drawing...", paths, force=out.force) as files:
        files.update(out.files(pictures(alpha, rho)))
    _say(sentences(alpha, rho), files)


def cohort(
    mimic: list[Path] = DATA.required("FOLDER"),
    output: Path = OUTPUT.option(
        "--output -o FILE", default=Path("mimic_cohort.parquet")
    ),
    rule: str = METHOD.option("paper|clean", default="paper"),
    force: bool = FORCE,
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

    Parameters
    ----------
    mimic
        Folder with the files of MIMIC-IV-ED (ed/) and MIMIC-IV (core/ or hosp/), at any
        depth, once for each database.
    output
        File to write: .parquet or .csv.
    rule
        The paper's visits, or all of them with what was known on arrival only.
    """
    from propcal.building_blocks import writes_text
    from propcal_paper.results.prevalence import prevalence, prevalence_table
    from propcal_paper.running.mimic_cohort import find_tables, mimic_cohort

    writes_text(output)  # an ending that means nothing is told before the work
    check_target(output, force=force, reads=list(find_tables(mimic).values()))
    with working("Reading...") as update:
        made = mimic_cohort(*mimic, rule=rule, say=update)
        update("Writing...")
        with outputs(force=force):
            made.save(output)
        counts = prevalence(made.visits)
    _say(made.sentences())
    draw(prevalence_table(counts, name="this cohort").to_rich())
    warning = "The file holds personal data: keep it where MIMIC's licence lets you"
    _say(["", f"{warning} keep MIMIC."], [output])


def tables(
    store: TrialsFile,
    output: Path | None = OUTPUT.option("--output -o FOLDER"),
    format: str = OUTPUT.option("NAMES", default="csv,md"),
    cohort: Path | None = COHORT,
    beside: list[Path] | None = BESIDE,
    without_ours: bool = WITHOUT_OURS,
    force: bool = FORCE,
) -> None:
    """Tables 1, 4, 5 and 6 beside the published numbers, and the paper's claims.

    Works at any stage of a run: the output lists what is missing.
    With -o it also writes each table by alpha, each method at its best
    alpha, and the tests.

    For example:

      propcal paper tables admissions.sqlite -o tables

    Parameters
    ----------
    output
        Write all tables there.
    format
        Formats to write: csv, md, tex, or several.
    """
    from propcal_paper.results.claims import claims_table, judge_all
    from propcal_paper.results.tables import LONG, NAMES, all_tables

    kinds = formats(format, TABLE_FORMATS)
    what = "Computing medians and intervals..."
    paths = [] if output is None else _paths(output, NAMES, kinds)
    with _making(what, paths, store, cohort, force=force) as files:
        cells = not beside
        evidence, others = _read(store, beside, without_ours=without_ours, cells=cells)
        shown, lacking = all_tables(evidence, cohort)
        if not evidence.of_cells:
            verdicts_of_others = {other.name: judge_all(other) for other in others}
            shown.append(claims_table(judge_all(evidence), verdicts_of_others))
        if output is not None:
            files.update(_table_files(shown, output, kinds))
    _describe(evidence, *lacking)
    for table in shown:
        if table.name in LONG:
            continue
        draw(table.to_rich(), markup=False)
        for note in table.notes:
            draw(note, style="dim", markup=False)
        draw("")
    _say([], files)


def figures(
    store: TrialsFile, without_ours: bool = WITHOUT_OURS, out: Pictures = Pictures()
) -> None:
    """The figures of an experiment, with their numbers as CSV.

    The comparison of base models and methods, calibration curves of three
    groups, convergence, and AUROC, losses and updates over alpha. Works at
    any stage of a run: the output lists what is missing.

    For example:

      propcal paper figures admissions.sqlite -o figures

      propcal paper figures admissions.sqlite --format pdf,svg --without-ours
    """
    from propcal_paper.results.figures import PICTURES, TABLES, pictures

    paths = out.paths(PICTURES, TABLES)
    with _making("Drawing...", paths, store, force=out.force) as files:
        evidence, _ = _read(store, without_ours=without_ours)
        drawn, lacking = pictures(evidence)
        files.update(out.files(drawn))
    _describe(evidence)
    _say([f"Not drawn: {sentence}" for sentence in lacking], files)


def reproduction(
    store: TrialsFile,
    output: Path = OUTPUT.option("--output -o FILE", default=Path("reproduction.md")),
    images: Path | None = OUTPUT.option("FOLDER"),
    tables: Path | None = OUTPUT.option("FOLDER"),
    cohort: Path | None = COHORT,
    beside: list[Path] | None = BESIDE,
    about: str = ABOUT,
    force: bool = FORCE,
) -> None:
    """A page with a verdict on each published claim, tables and figures.

    All numbers come from the store; each verdict (agrees, differs,
    undecided, vacuous, ...) follows from a rule, and from how many resamples
    of the seeds agree. The rules and all tables are in CSV files.

    For example:

      propcal paper reproduction admissions.sqlite -o docs/reproduction.md

    Parameters
    ----------
    output
        The page, in Markdown.
    images
        Folder for the pictures. Default: images/reproduction beside the page
    tables
        Folder for the tables. Default: tables/reproduction beside the page
    """
    from propcal_paper.results.claims import by_rules, verdict_counts
    from propcal_paper.results.figures import PICTURES
    from propcal_paper.results.reproduction import Reproduction
    from propcal_paper.results.tables import NAMES

    images = images or output.parent / "images" / "reproduction"
    tables = tables or output.parent / "tables" / "reproduction"
    paths = [output]
    paths += _paths(images, PICTURES, ["png"])
    paths += _paths(tables, NAMES, ["csv"])
    if not force and not output.exists():
        for path in paths:
            if path.exists():
                raise refused("other page", path=path)
    what = "Computing and drawing..."
    with _making(what, paths, store, cohort, force=force) as files:
        evidence, others = _read(store, beside, cells=False)
        page = Reproduction(evidence, cohort, about, others)
        files[output] = page.markdown(_link(output, images), _link(output, tables))
        for picture in page.drawn:
            files[images / f"{picture.name}.png"] = picture.figure
        files.update(_table_files(page.tables, tables, ["csv"]))
    _describe(evidence, *page.lacking_tables)
    _say([verdict_counts(page.judged), by_rules(page.judged)], files)


def benefit(
    stores: TrialsFiles,
    name: list[str] | None = DATA.option("TEXT"),
    about: str = ABOUT,
    output: Path = OUTPUT.option("--output -o FILE", default=Path("benefit.md")),
    images: Path | None = OUTPUT.option("FOLDER"),
    force: bool = FORCE,
) -> None:
    """Whom do the methods help, and whom do they harm?

    From stores of propcal paper experiment, a page with tables and
    pictures: the change of the errors with their intervals at each alpha,
    and O/E ratios of subgroups before and after.

    For example:

      propcal paper benefit month.sqlite ever.sqlite -o benefit.md

    Parameters
    ----------
    name
        Name of the outcome; once for each store, in order.
    output
        The page, in Markdown.
    images
        Folder for the pictures. Default: images beside the page
    """
    from propcal_paper.results.benefit_figures import PICTURES, benefit_figures
    from propcal_paper.results.benefit_page import benefit_page, outcome_names
    from propcal_paper.results.evidence import Evidence

    read = set[Path]()
    for store in stores:
        refuse_special(store)
        if store.resolve() in read:
            raise refused("store twice", store=store)
        read.add(store.resolve())
    images = images or output.parent / "images"
    paths = [output, *_paths(images, PICTURES, ["png"])]
    with _making("Computing and drawing...", paths, *stores, force=force) as files:
        evidence = [Evidence.from_store(store, cells=False) for store in stores]
        outcomes = dict(zip(outcome_names(name or [], evidence), evidence))
        files[output] = benefit_page(outcomes, about, _link(output, images))
        for picture, figure in benefit_figures(outcomes).items():
            files[images / f"{picture}.png"] = figure
    _say([], files)


def _read(
    store: Path,
    beside: Iterable[Path] | None = (),
    *,
    without_ours: bool = False,
    cells: bool = True,
) -> tuple[Evidence, list[Evidence]]:
    """A store, and those beside it, which must not vary the smallest cell; nor may it,
    unless `cells`.
    """
    from propcal_paper.results.evidence import Evidence

    evidence = Evidence.from_store(store, cells=cells)
    others = [Evidence.from_store(other, cells=False) for other in beside or ()]
    if without_ours:
        evidence = evidence.without_ours()
    return evidence, others


def _paths(folder: Path, names: Iterable[str], kinds: Sequence[str]) -> list[Path]:
    """The files of a folder by their names, each in every format."""
    return [folder / f"{name}.{kind}" for name in names for kind in kinds]


def _say(sentences: Sequence[str], files: Iterable[Path] = ()) -> None:
    """What was found, then the files; lines as they are, so that names of files stay
    whole.
    """
    for sentence in sentences:
        echo(sentence)
    if files:
        echo("Written:")
    for path in files:
        echo(f"  {plain(path)}")


def _describe(evidence: Evidence, *more: str) -> None:
    caption = f"{evidence.caption()} {len(evidence.stored):,} trials."
    _say([caption, *evidence.missing(), *more, ""])


def _link(page: Path, folder: Path) -> str:
    """A folder as written in links on the page."""
    return Path(os.path.relpath(folder, page.parent)).as_posix()


def _table_files(
    shown: Sequence[PaperTable], folder: Path, kinds: Sequence[str]
) -> dict[Path, Any]:
    files = {}
    for table in shown:
        for kind in kinds:
            files[folder / f"{table.name}.{kind}"] = table.written(kind)
    return files


COHORT_FILE = "The cohort: CSV or Parquet, a row for each stay."
HELD_OUT = METHOD.option("|".join(SETUPS), default="held-out")
OF_ANY_COHORT = ("trials", "rows", "models", "grid", "jobs", "scheduler")
SHUFFLES = METHOD.option("--shuffles N", default=N_SEEDS, least=1)


@dataclass(frozen=True)
class Trials:
    """Which trials are run, and where.

    Attributes
    ----------
    trials
        Shuffles of the data.
    rows
        Number of rows to use. Default: all
    models
        Base models.
    setup
        As the paper describes it; with post-processing on half of the training data, in
        steps of 0.25; or as the paper's public code does it.
    grid
        The settings of Table 3, or alpha by the smallest cell that is corrected.
    split
        Whether all visits of a patient are in the same part of a split.
    jobs
        Processes at once. Default: one for each core
    scheduler
        A Dask scheduler to run on, such as tcp://host:8786.
    """

    trials: int = METHOD.option("N", default=N_SEEDS, least=1)
    rows: int | None = DATA.option("N")
    models: str = METHOD.option("NAMES", default=",".join(MODELS))
    setup: str = METHOD.option("|".join(SETUPS), default="printed")
    grid: str = METHOD.option("|".join(GRIDS), default=GRIDS[0])
    split: str = METHOD.option("visit|patient", default="visit")
    jobs: int | None = OUTPUT.option("N", least=1)
    scheduler: str | None = OUTPUT.option("ADDRESS")

    def run(self, store: Path, cohort: Any, **how: Any) -> None:
        """Run what is left of an experiment, here or on a cluster."""
        from joblib import cpu_count

        from propcal_paper.running.experiment import Experiment

        how |= {"trials": self.trials, "rows": self.rows}
        how |= {"setup": self.setup, "grid": self.grid, "split": self.split}
        models = self.models.split(",")
        experiment = Experiment(store, cohort, models=models, **how)
        if self.scheduler is not None and self.jobs is not None:
            raise refused("jobs")
        if self.setup == "public":
            now = "--setup public is now held-out"
            log("note", f"{now}; authors-code is what the paper's public code does")
        jobs = None if self.scheduler else self.jobs or cpu_count()
        # before the store is made: nothing is left behind if nobody answers
        with _cluster(self.scheduler):
            run_trials(experiment, jobs)
        path = plain(quote(str(store)))
        echo(
            "Tables and figures of it: "
            f"propcal paper tables {path}; propcal paper figures {path}"
        )


def admissions(
    trials: Trials,
    cohort: Path | None = DATA.option("FILE"),
    surrogate: str = METHOD.option("|".join(SURROGATES), default="calibrated"),
    output: Path = OUTPUT.option("--output -o FILE", default=Path("admissions.sqlite")),
) -> None:
    """Run the hospital-admission experiment, or continue it.

    For each shuffle of the visits trains LR, RF and DNN, post-processes
    each with MCBoost and PMCBoost with every setting of Table 3, and stores
    what comes out on the test set. An existing store is extended: you can
    stop at any time and resume with the same command.

    For example:

      propcal paper admissions --trials 3 -o admissions.sqlite

      propcal paper admissions --setup authors-code --cohort cohort.parquet

    Parameters
    ----------
    cohort
        Visits from propcal paper cohort. Default: generated visits, no patients
    surrogate
        How easily the admission of simulated visits is predicted; calibrated: as LR and
        RF do in MIMIC.
    output
        Store of the trials.
    """
    trials.run(output, cohort, surrogate=surrogate)


def all_(
    trials: Annotated[Trials, Only("models", "split", "jobs", trials=SHUFFLES)],
    mimic_iv: Path = DATA.required("FOLDER"),
    mimic_iv_ed: Path = DATA.required("FOLDER"),
    output: Path = OUTPUT.required("--output -o FOLDER"),
) -> None:
    """From the files of MIMIC to the tables, figures and pages.

    Makes the cohort by both rules, runs the experiment in every set-up, and
    writes a page for each, with all tables and figures beside it, and one
    page with all verdicts side by side. The same command goes on after a
    stop; finished parts are not repeated.

    For example:

      propcal paper all --mimic-iv mimiciv/1.0 --mimic-iv-ed mimic-iv-ed/1.0 -o paper

    Parameters
    ----------
    mimic_iv
        Folder of MIMIC-IV (core/ or hosp/).
    mimic_iv_ed
        Folder of MIMIC-IV-ED (ed/).
    output
        Folder for everything.
    """
    from propcal_paper.running.base_models import check_models
    from propcal_paper.running.experiment import SPLITS
    from propcal_paper.running.mimic_cohort import RULES

    # first of all: the trials take time
    check_choice("split", trials.split, tuple(SPLITS))
    check_models(trials.models.split(","))
    if output.exists() and not output.is_dir():
        raise refused("output", folder=output)
    folders = list(dict.fromkeys([mimic_iv_ed, mimic_iv]))
    stores = dict[Path, Path]()
    voice.interrupted = "what is finished stays, and the same command goes on"
    with new_folders(output):
        for rule in RULES:
            visits = output / f"cohort-{rule}.parquet"
            _make_or_check_cohort(folders, visits, rule)
            for setup in SETUPS:
                store = output / f"{rule}-{setup}.sqlite"
                echo(f"\nCohort by the rule {rule}, set-up {setup}")
                replace(trials, setup=setup).run(store, visits)
                _page(store.with_suffix(""), store, visits)
                stores[store] = visits
        echo("\nAll of them side by side")
        first, *others = stores
        _page(output, first, stores[first], others)


def _make_or_check_cohort(folders: list[Path], visits: Path, rule: str) -> None:
    """Make the cohort by a rule, or refuse a file that has other visits."""
    from pyarrow.parquet import read_table

    from propcal.building_blocks import open_file
    from propcal_paper.running.mimic_cohort import mimic_cohort

    if not visits.exists():
        cohort(folders, visits, rule, force=False)
        return
    open_file(visits)  # a damaged file is named
    of_files = mimic_cohort(*folders, rule=rule).table
    if not of_files.equals(read_table(visits)):
        raise refused("other cohort", path=visits)


def _page(
    folder: Path, store: Path, visits: Path, others: list[Path] | None = None
) -> None:
    """The page of a store with everything beside it, and the verdicts of other
    stores.
    """
    page = folder / "reproduction.md"
    beside = (folder / "images", folder / "tables")
    reproduction(store, page, *beside, visits, others, "", force=True)


def experiment(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=COHORT_FILE)],
    roles: Annotated[Roles, Only("cluster", "positive", "na")],
    trials: Annotated[Trials, Only(*OF_ANY_COHORT, setup=HELD_OUT)],
    outcome: str = DATA.required("COLUMN"),
    groups: list[str] = GROUPS.required("NAMES"),
    features: list[str] | None = DATA.option("COLUMNS"),
    text: list[str] | None = DATA.option("COLUMNS"),
    unit: str = OUTPUT.option("NOUN", default="stays"),
    output: Path = OUTPUT.option("--output -o FILE", default=Path("experiment.sqlite")),
) -> None:
    """Run the paper's experiment on a cohort of your own.

    Trains LR, RF and DNN on each shuffle, post-processes each with MCBoost
    and PMCBoost with every setting of Table 3 and with propcal's default
    method, and stores what comes out on the test set. Features that are
    text become levels, others numbers. Then propcal paper tables, figures,
    reproduction and benefit read the store.

    For example:

      propcal paper experiment stays.parquet --outcome readmitted
      --groups race,gender --groups age_band,payer --cluster patient -o stays.sqlite

    Parameters
    ----------
    outcome
        Column of the event.
    groups
        Columns that define the groups, such as race,gender; repeat it for a second
        grouping.
    features
        Columns that the base models use. Default: all but the outcome and the cluster
    text
        Features that are free text, used by their frequent words.
    unit
        What a row is, in the plural.
    output
        Store of the trials.
    """
    from propcal_paper.running.cohort_files import cohort_file

    cohort = cohort_file(
        file,
        outcome=outcome,
        groups=[columns_of([names]) for names in groups],
        features=features or (),
        text=text or (),
        cluster=roles.cluster,
        positive=roles.positive,
        na=roles.na or (),
        rows=trials.rows,
        unit=unit,
    )
    replace(trials, rows=None).run(output, cohort)


@contextmanager
def _cluster(scheduler: str | None) -> Iterator[Any]:
    """Workers of a Dask cluster, or processes of this machine."""
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise refused("needs Dask") from None
    from joblib import parallel_config

    try:
        client: Any = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise refused("scheduler", scheduler=scheduler, error=error) from None
    with client, parallel_config(backend="dask"):
        yield


def _what_is_run(experiment: Experiment, n_left: int) -> list[str]:
    """How many trials an experiment has, on which people, and how many are left."""
    n_trials = experiment.n_trials
    setup = experiment.plan.setup
    known = {
        "n_trials": n_trials,
        "shuffles": plural(experiment.trials, "shuffle"),
        "base_models": plural(len(experiment.models), "base model"),
        "models": ", ".join(experiment.models),
        "settings": plural(len(experiment.settings), "setting"),
        "n_people": len(experiment.visits.frame),
        "unit": experiment.plan.columns.unit,
        "cohort": experiment.store.about["cohort"],
        "setup": setup.name,
        "setup_in_words": setup.in_words(),
        "n_stored": n_trials - n_left,
        "n_left": n_left,
        "path": experiment.path,
    }
    words = toml_file("words.toml")["experiment"]
    progress = words["to_run"] if n_left else words["all_stored"]
    return [text.format(**known) for text in (*words["about"], progress)]


def run_trials(experiment: Experiment, jobs: int | None) -> None:
    """Run what is left, and show how far it is: a status line on a terminal, lines in a
    log.
    """
    units = experiment.units()
    n_left = sum(len(unit.settings) for unit in units)
    echo("\n".join(_what_is_run(experiment, n_left)))
    if not units:
        return
    for note in experiment.notes():
        log("note", note)

    total = experiment.n_trials
    n_done = total - n_left
    n_units_done = 0
    goes_on = f"trials are in {experiment.path}, and the same command goes on"
    voice.interrupted = f"{n_done:,} {goes_on}"
    began = perf_counter()
    with working("Running trials...") as status:

        def told(unit: Unit) -> None:
            nonlocal n_done, n_units_done
            n_units_done += 1
            n_done += len(unit.settings)
            voice.interrupted = f"{n_done:,} {goes_on}"
            seconds_of_unit = (perf_counter() - began) / n_units_done
            minutes_left = seconds_of_unit * (len(units) - n_units_done) / 60
            done = f"{n_done:,} of {total:,} trials are done"
            whose = f"{unit.model}, shuffle {unit.seed + 1}"
            line = f"{whose}: {done}, about {minutes_left:.0f} min left"
            if terminal():
                status(line)
            else:
                log("info", line)

        experiment.run(jobs=jobs, told=told)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Reproduce the paper's tables and figures.",
)
for _command in (
    simulation,
    theory,
    cohort,
    admissions,
    experiment,
    tables,
    figures,
    reproduction,
    benefit,
    all_,
):
    add_command(app, _command)
