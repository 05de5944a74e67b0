"""``propcal fit``, ``show``, ``apply`` and ``export``: fit a correction, and use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import propcal
from propcal import options as options
from propcal.cli.atoms import (
    COLUMNS,
    groups_of,
    named_columns,
    note_unused_labels,
    read_people,
    some_names,
)
from propcal.cli.commands_from_records import (
    CONFIG,
    FORCE,
    ROWS,
    Files,
    Only,
    Without,
    typed_options,
)
from propcal.cli.terminal import (
    check_file,
    draw,
    progress,
    say,
    warnings_as_lines,
    working,
)
from propcal.core import criterion
from propcal.core.arguments import FEWEST_SHOWN, check_choice
from propcal.errors import InputError, TooManyUnseenError, refused
from propcal.formats.transaction import new_folders, outputs
from propcal.options import Given, Identity, Reading, Roles

if TYPE_CHECKING:
    from propcal.scoring.scorer import ScoringSummary

# an audit of the correction has the same groups
GROUPING = ("intersections", "missing", "gamma")
METHODS = {
    criterion.METHODS[key].lower(): key
    for key in dict.fromkeys(["pmc", *criterion.METHODS])
}
_AIMS = [f"{criterion.AIMS[key]} ({name})" for name, key in METHODS.items()]
AIMS = f"Limit {', or '.join(_AIMS)}."
Method: Any = str if TYPE_CHECKING else Literal[tuple(METHODS)]


def fit(
    files: Files,
    roles: Annotated[Roles, Without("site")],
    reading: Reading,
    rule: Annotated[Given, options.LossRule, Only(*GROUPING)],
    bins: Annotated[Given, options.LossRule, Without(*GROUPING)],
    fitting: options.Fitting,
    chance: Annotated[Given, options.AuditRule, Only("random_state")],
    names: Annotated[Identity, Only("unit", "labels")],
    method: Method = options.METHOD.option("|".join(METHODS), AIMS, default="pmcboost"),
    paper: bool = options.METHOD.flag(),
    output: Path = options.OUTPUT.required("--output -o FILE"),
    suppress: int = options.OUTPUT.option("N", default=FEWEST_SHOWN, least=0),
    share: bool = options.OUTPUT.flag(),
    force: bool = FORCE,
    config: Path | None = CONFIG,
) -> None:
    """Fit a correction of a score and write it as readable JSON.

    Ideally, use people that the model behind the score was not trained on.

    For example:

      propcal fit past.csv --score risk --outcome died --groups race,sex -o model.json

      propcal fit past.parquet --score risk --outcome died --groups race
      --cut age=40,65 --alpha 0.1 --method mcboost -o model.json

      propcal fit past.parquet --score risk --outcome died --groups race
      --features age,acuity,visits,insurance -o model.json

    Parameters
    ----------
    paper
        Use the paper's Algorithm 1 exactly: alpha 0.1, no smooth curve, no guard
        against chance.
    output
        Write the correction to this file.
    suppress
        Protect counts of people below this in all that is printed or written; 0 shows
        everything.
    share
        Write a correction that may be shared with another site: rounded, without
        adjustments that rest on fewer than 11 people, and without a fingerprint of the
        data.
    """
    from propcal.documents.correction import fit_lines, sharing_lines

    settings = options.given(rule, bins, fitting, chance)
    if settings.get("guard") == "none":
        settings["guard"] = None
    estimator = getattr(propcal, criterion.METHODS[METHODS[method]])
    model = (estimator.paper if paper else estimator)(**settings)
    model.settings()  # check the options before the work begins
    check_file(output, files, config, force=force)
    with warnings_as_lines():
        people = read_people(files, roles, reading)
        with working(
            "Fitting (the first fit on a machine compiles for some seconds)..."
        ):
            about = options.given(names)
            if fitting.features:
                _fit_rows(model, files, roles, rule, reading, about)
            else:
                model.fit_atoms(
                    people, score=roles.score, outcome=roles.outcome, **about
                )
        _refuse_too_few(model)
        with outputs(force=force):
            model.correction_.save(output, share=share)

    called = replace(names, unit=model.fit_summary_.unit)
    note_unused_labels(names.labels, people)
    for line in fit_lines(model, people, called, suppress):
        say(line)
    if share:
        for line in sharing_lines(model.correction_, people):
            say(line)
    if not model.n_updates_:
        say(f"The correction in {output} changes nobody: there is no need to use it.")
        advice = "fit again with more, or more recent,"
        say(f"If an audit finds an error all the same, {advice}")
        say(f"{called.unit}, or decide whether to restrict the use of the score.")
        return
    next_step = f"Next, with {called.unit} that it was not fitted to:"
    say(f"The correction is in {output}. {next_step}")
    reads_features = model.correction_.points is not None
    for command in _next_commands(output, roles, rule, names, reads_features):
        say("  " + join(["propcal", *command]))


def _next_commands(
    output: Path, roles: Roles, rule: Given, names: Identity, reads_features: bool
) -> list[list[str]]:
    """What to type after a fit: an audit of the correction, and its use."""
    columns = Roles(score=roles.score or "COLUMN", na=roles.na)
    apply = ["apply", str(output), "new.csv", *typed_options("apply", columns)]
    if roles.drop_missing:
        apply += ["--invalid", "null"]
    apply += ["-o", "corrected.csv"]
    if reads_features:
        # an audit reduces people to groups, so it needs their corrected scores
        corrected = typed_options(
            "audit", replace(roles, score="corrected"), rule, names
        )
        return [apply, ["audit", "corrected.csv", *corrected]]
    audit = ["audit", "new.csv", *typed_options("audit", roles, rule, names)]
    return [[*audit, "--correction", str(output)], apply]


def _fit_rows(
    model: Any,
    files: list[Path],
    roles: Roles,
    rule: Given,
    reading: Reading,
    more: dict[str, Any],
) -> None:
    """Fit the rows of files: atoms do not have their features."""
    import pyarrow as pa

    from propcal.reading.file_source import FileSource
    from propcal.reading.people_files import LENIENT, NUMBER

    how = {name: rule[name] for name in ("intersections", "missing") if name in rule}
    groups = groups_of(roles, **how)
    model.set_params(groups=groups, intersections="all", missing="level")
    if roles.score is None or roles.outcome is None:
        raise InputError(
            "--features needs rows of people, and atoms files have none",
            argument="features",
        )
    named = named_columns(roles, reading, groups)
    kinds = dict.fromkeys(named.roles, NUMBER)
    kinds[named.outcome] = LENIENT
    source = FileSource(files, na=roles.na or [], memory_limit=reading.memory_limit)
    wanted = list(dict.fromkeys([*named.wanted, *model.features]))
    columns = source.columns(wanted, kinds)
    typed = options.given(roles)
    for name in COLUMNS:
        if name in typed and name != "weight_kind":
            more[name] = typed[name]
    model.fit(pa.table(columns), **more)


def _refuse_too_few(model: Any) -> None:
    """Refuse a correction that changes nothing because there are too few data: it would
    look like the result of tests.
    """
    from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP

    if not model.fit_summary_.enough and not model.n_updates_:
        raise refused("too few to fit", people=MIN_GROUP, events=MIN_EVENTS)


def apply(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Correction from propcal fit.")
    ],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES",
            help=f'{ROWS}, or a quoted pattern such as "visits/*.parquet".',
        ),
    ],
    score: str = options.DATA.required("COLUMN"),
    roles: Annotated[Roles, Only("na")] = Roles(),
    unseen: str | None = options.UNSEEN,
    invalid: str = options.METHOD.option("error|null|keep", default="error"),
    max_unseen: float | None = options.METHOD.option("1%"),
    format: Literal["text", "json"] = options.OUTPUT.option(
        "text|json", default="text"
    ),
    output: str = options.OUTPUT.required("--output -o FILE|FOLDER/"),
    column: str = options.OUTPUT.option("NAME", default="corrected"),
    force: bool = FORCE,
    config: Path | None = CONFIG,
) -> None:
    r"""Copy files and add a column with the corrected score.

    Rows and columns keep their order and content. Files of any length take little
    memory.

    For example:

      propcal apply model.json new.csv --score risk -o corrected.csv

      propcal apply model.json "lake/*.parquet" --score risk -o corrected/

      propcal apply model.json new.csv --score risk -o corrected.csv --max-unseen 1% \
      --format json

    Parameters
    ----------
    score
        Score column to correct.
    invalid
        For scores that are missing or not from 0 to 1: stop, leave the corrected score
        empty, or keep the score.
    max_unseen
        Write nothing and exit with code 1 if more of the rows than this have a value
        that did not occur in fitting, as after a column was coded differently.
    format
        Print text, or JSON with what was counted.
    output
        Write all rows to one .csv, .csv.gz, .csv.zst, .tsv or .parquet file, or each
        file to this folder under its own name.
    column
        Name of the new column.
    """
    from propcal.reading.file_source import find_files
    from propcal.reading.role_columns import INVALID
    from propcal.scoring.files import score_files

    if not column:
        raise InputError("--column is empty", next_step="Name the new column")
    if max_unseen is not None and not 0 <= max_unseen < 1:
        raise InputError("--max-unseen must be from 0% to less than 100%")
    check_choice("--unseen", unseen or "replay", ("replay", "keep", "error"))
    check_choice("--invalid", invalid, INVALID)
    paths = find_files(files)
    folder = _folder(output)
    if folder is None:
        targets = [Path(output)]
        folders = []
    else:
        targets = [folder / path.name for path in paths]
        folders = [folder]
    try:
        with new_folders(*folders), outputs(force=force):
            _check_targets(targets, [*paths, model, config], force=force)
            correction = propcal.Correction.load(model)
            sources = _open_scored(
                paths, model, correction, roles, score, targets, folder
            )
            jobs = [(sources, targets[0])]
            if folder is not None:
                jobs = [([people], t) for people, t in zip(sources, targets)]
            total = sum(people.count() for people in sources)
            with (
                warnings_as_lines(),
                progress("Correcting", total, by_parts=True) as advance,
            ):
                counted = score_files(
                    correction,
                    jobs,
                    score=score,
                    column=column,
                    unseen=unseen,
                    invalid=invalid,
                    max_unseen=max_unseen,
                    advance=advance,
                )
    except TooManyUnseenError as error:
        if format == "json":
            typer.echo(_counted(correction, error.summary, column, []))
        raise
    if format == "json":
        typer.echo(_counted(correction, counted, column, targets))
    else:
        rows = f"{counted.rows:,} rows with their corrected score"
        say(f"{rows} in column {column!r}: {output}")


def _folder(output: str) -> Path | None:
    """The folder to write to; None if the output is one file."""
    folder = Path(output)
    if not output.endswith(("/", "\\")) and not folder.is_dir():
        return None
    if not folder.parent.is_dir():
        raise InputError(
            f"cannot write to {folder}: there is no folder {folder.parent}"
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write to {folder}: it is not a folder")
    return folder


def _open_scored(
    paths: Sequence[Path],
    model: Path,
    correction: propcal.Correction,
    roles: Roles,
    score: str,
    targets: Sequence[Path],
    folder: Path | None,
) -> Any:
    """Open files of people, which must have the columns that a correction reads."""
    from propcal.formats.table_files import writes_text
    from propcal.reading.file_source import check_same_columns, open_people

    sources = open_people(
        paths, missing=roles.na or [], advice="apply needs a row for each person"
    )
    columns = sources[0].names
    for name in correction.reads:
        if name not in columns:
            raise refused(
                "column missing",
                model=model,
                path=paths[0],
                column=name,
                reads=list(correction.reads),
                columns=some_names(columns),
            )
    check_same_columns(
        [people for people in sources if people.count()],
        as_text=writes_text(targets[0]),
        only=None if folder is None else [score, *correction.reads],
    )
    return sources


def _counted(
    correction: propcal.Correction,
    summary: ScoringSummary,
    column: str,
    written: Sequence[Path],
) -> str:
    """What was counted, as JSON; no file if it was refused."""
    from propcal.documents.data import json_text

    content: dict[str, Any] = {
        "format": "propcal-apply",
        "version": 1,
        "model_id": correction.model_id,
        **vars(summary),
        "column": column,
        "written": [*map(str, written)],
    }
    return json_text(content)


def _check_targets(
    targets: Sequence[Path], reads: Sequence[Path | None], *, force: bool
) -> None:
    """Refuse output files that are the same, that have an unknown ending, or that may
    not be written.
    """
    from propcal.formats.table_files import writes_text

    twice = sorted({target.name for target in targets if targets.count(target) > 1})
    if twice:
        raise InputError(
            f"several files are named {twice[0]} and cannot be written to one folder"
        )
    for target in targets:
        writes_text(target)
        check_file(target, *reads, force=force)


def show(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Correction from propcal fit.")
    ],
    format: Literal["text", "json"] = options.OUTPUT.option(
        "text|json", default="text"
    ),
) -> None:
    """Print who made a correction from what, what it reads, and its largest effects.

    A file that was edited after it was saved is refused.

    For example:

      propcal show model.json

    Parameters
    ----------
    format
        Print text or JSON.
    """
    from propcal.documents.correction import correction_document, effects
    from propcal.documents.data import json_text
    from propcal.render.text import text

    correction = propcal.Correction.load(model)
    if format == "text":
        draw(text(correction_document(correction)))
        return
    content = {
        "format": "propcal-show",
        "version": 1,
        "model_id": correction.model_id,
        "about": dict(correction.about),
        "reads": list(correction.reads),
        "unseen": correction.unseen,
        "monotone": bool(correction.monotone),
        "effects": effects(correction),
    }
    typer.echo(json_text(content))


def export(
    model: Annotated[
        Path, typer.Argument(metavar="CORRECTION", help="Correction from propcal fit.")
    ],
    sql: options.Export,
    language: Literal["sql", "python", "r", "javascript"] = options.OUTPUT.option(
        "sql|python|r|javascript", default="sql"
    ),
    output: Path | None = options.OUTPUT.option("--output -o FILE"),
    force: bool = FORCE,
) -> None:
    r"""Write SQL, Python, R or JavaScript that corrects scores bit for bit as propcal
    apply does.

    In SQL, a score that is NULL, NaN or not from 0 to 1 gives NULL, unless --invalid
    keep is given. With --unseen error, so does a combination of groups that did not
    occur in the fitting data.

    For example:

      propcal export model.json --dialect postgres --score risk --table visits -o
      score.sql

      propcal export model.json --dialect snowflake --score RISK --table VISITS \
      --rename race=RACE

      propcal export model.json --language python -o propcal_score.py

    Parameters
    ----------
    language
        Write SQL for a table, or one file that scores people without propcal and tests
        itself.
    output
        Write to this file. Default: print it
    """
    if output is not None:
        check_file(output, model, force=force)
    if language == "sql" and sql.score is None:
        raise InputError(
            "SQL needs the score column", argument="score", next_step="--score COLUMN"
        )
    only_sql = typed_options("export", replace(sql, unseen=None))
    if language != "sql" and only_sql:
        raise refused("sql only", flag=only_sql[0], language=language)
    correction = propcal.Correction.load(model)
    if language == "sql":
        exported = correction.to_sql(**vars(sql))
        text = exported.script
        summary = repr(exported)
    else:
        text = correction.to_code(language, unseen=cast(Any, sql.unseen))
        n_lines = text.count("\n")
        summary = f"Scorer with {n_lines:,} lines, {len(text) / 1000:,.0f} kB"
    if output is None:
        typer.echo(text, nl=False)
        return
    with outputs(force=force) as out:
        out.file(output).write_text(text, encoding="utf-8", newline="")
    say(f"{summary}: {output}")
