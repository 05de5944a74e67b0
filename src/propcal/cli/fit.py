"""``propcal fit``: fit a correction of a score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import Annotated, Any, Literal

from propcal.cli.atoms import note_unused_labels, read_people
from propcal.cli.options import CONFIG, FORCE, Files, Only, Without, words
from propcal.cli.screen import PAGE_SUPPRESS, PROTECT, check_file, say, warnings_as_lines, working
from propcal.errors import InputError
from propcal.identity import Identity
from propcal.options import METHOD, OUTPUT, Analysis, BinRule, Fitting, GroupRule, Reading, Roles, given


def fit(
    files: Files,
    roles: Annotated[Roles, Without("site")],
    reading: Reading,
    rule: Annotated[GroupRule, Only("intersections", "missing", "gamma")],
    bins: BinRule,
    fitting: Fitting,
    chance: Annotated[Analysis, Only("random_state")],
    names: Annotated[Identity, Only("unit", "labels")],
    method: Literal["pmcboost", "mcboost"] = METHOD.option(
        "pmcboost|mcboost",
        "Limit errors relative to the observed rate (pmcboost), or the difference itself (mcboost).",
        default="pmcboost",
    ),
    paper: bool = METHOD.flag(
        "Use the paper's Algorithm 1 exactly: alpha 0.1, no smooth curve, no guard against chance."
    ),
    output: Path = OUTPUT.required("--output -o FILE", "Write the correction to this file."),
    suppress: int = OUTPUT.option("N", PROTECT, default=PAGE_SUPPRESS, least=0),
    share: bool = OUTPUT.flag(
        "Write a correction that may be shared with another site: rounded, without adjustments that rest "
        "on fewer than 11 people, and without a fingerprint of the data."
    ),
    force: bool = FORCE,
    config: Path | None = CONFIG,
) -> None:
    """Fit a correction of a score and write it as readable JSON.

    Ideally, use people that the model behind the score was not trained on.

    For example:

      propcal fit past.csv --score risk --outcome died --groups race,sex -o model.json

      propcal fit past.parquet --score risk --outcome died --groups race
      --cut age=40,65 --alpha 0.1 --method mcboost -o model.json
    """
    from propcal import MCBoost, PMCBoost
    from propcal.documents.written_files import fit_lines, sharing_lines
    from propcal.files.transaction import outputs

    settings = given(rule, bins, fitting, chance)
    if settings.get("guard") == "none":
        settings["guard"] = None
    algorithm = PMCBoost if method == "pmcboost" else MCBoost
    model = (algorithm.paper if paper else algorithm)(**settings)
    model.settings()  # check the options before the work begins
    check_file(output, files, config, force=force)
    with warnings_as_lines():
        people = read_people(files, roles, reading)
        with working("Fitting (the first fit on a machine compiles for some seconds)..."):
            model.fit_atoms(people)
        _refuse_too_few(model)
        with outputs(force=force):
            model.correction_.save(output, share=share)
    called = replace(names, unit=names.unit or model.fit_summary_.unit)
    note_unused_labels(names.labels, people)
    for line in fit_lines(model, people, called, suppress):
        say(line)
    for line in sharing_lines(model.correction_, people) if share else ():
        say(line)
    if not model.n_updates_:
        say(f"The correction in {output} changes nobody: there is no need to use it.")
        return
    say(f"The correction is in {output}. Next, with {called.unit} that it was not fitted to:")
    audit = ["audit", "new.csv", *words("audit", roles, rule, names), "--correction", str(output)]
    columns = Roles(score=roles.score or "COLUMN", na=roles.na)
    apply = ["apply", str(output), "new.csv", *words("apply", columns)]
    apply += ["--invalid", "null"] if roles.drop_missing else []
    say("  " + join(["propcal", *audit]))
    say("  " + join(["propcal", *apply, "-o", "corrected.csv"]))


def _refuse_too_few(model: Any) -> None:
    """Write no correction that changes nothing for want of data: it would look like the result of tests."""
    from propcal.auditing.profile import MIN_EVENTS, MIN_GROUP

    if not model.fit_summary_.enough and not model.n_updates_:
        raise InputError(
            f"there are not enough data to judge the score: this takes at least {MIN_GROUP} people, and "
            f"{MIN_EVENTS} expected events and non-events. Nothing was written",
            next_step="Fit more people, or add --guard none to adjust errors that could be chance",
        )
