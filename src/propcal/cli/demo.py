"""``propcal demo``: a score that is wrong for some groups, and its correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console

import propcal
from propcal.auditing.names import LOSSES, MEASURE_NAMES
from propcal.cli.commands_from_records import typed_options
from propcal.cli.terminal import say, voice
from propcal.errors import InputError
from propcal.formats.transaction import outputs
from propcal.options import DATA, METHOD, OUTPUT, Roles

if TYPE_CHECKING:
    import pandas as pd

    from propcal.documents.blocks import Document

ATTRIBUTES = ["race", "gender"]
SHOWN = [*ATTRIBUTES, "age", "insurance", "admitted"]
VITAL_SIGNS = ["temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain"]
FEATURES = ["age", "acuity", *VITAL_SIGNS, "n_previous_visits", "n_previous_admissions"]
COMPILES = "the first fit on a machine compiles for some seconds"


@dataclass(frozen=True, eq=False)
class Example:
    """People, and several scores: a column without a correction first, the correction
    by `model` last.

    `columns` name outcome, groups and cluster of the rows in the last of `files`.
    """

    about: str
    title: str
    scores: Mapping[str, Any]
    model: Any
    files: Mapping[str, pd.DataFrame]
    columns: Mapping[str, Any]
    names: Mapping[str, Any] = field(default_factory=dict)


def demo(
    output: Path = OUTPUT.option("--output -o FOLDER", default=Path("propcal-demo")),
    people: int | None = DATA.option("N", default=None, least=5000),
    alpha: float | None = METHOD.option("SHARE"),
    seed: int = METHOD.option("N", default=0, least=0),
) -> None:
    """Audit and correct a risk score of real people, and write a report.

    The demo takes 13,326 person-years of the RAND Health Insurance Experiment and a
    score for frequent doctor visits that was developed on people with free care. It
    corrects the score on one half of the people and compares before and after on the
    other half. With --people, it generates emergency-department visits with the group
    sizes and admission rates of the paper's Table 1 instead, and also shows the paper's
    own settings.

    For example:

      propcal demo

      propcal demo --people 50000 --alpha 0.05 -o my-demo

    Parameters
    ----------
    output
        Folder for the report, the correction and the data.
    people
        Generate this many emergency-department visits, and compare with the paper's
        settings. Default: real people
    alpha
        Tolerance of MCBoost and PMCBoost. Default: 0.05, and 0.1 for generated visits
    seed
        Seed for random numbers of generated visits.
    """
    console = Console(quiet=voice.quiet)
    began = perf_counter()
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {output} is a file", next_step="name a folder")
    output.mkdir(parents=True, exist_ok=True)  # before the work begins
    with console.status("Preparing...") as status:
        if people is None:
            example = real_people(0.05 if alpha is None else alpha, status.update)
        else:
            alpha = 0.1 if alpha is None else alpha
            example = generated_visits(people, alpha, seed, status.update)
        status.update("Auditing...")
        rows = [*example.files.values()][-1]
        compared = propcal.compare(
            rows, scores=example.scores, **example.columns, **example.names
        )
        paths = _write(output, example, compared)
    _show(console, example, compared)
    _say_next(paths, example.columns)
    console.print(f"[dim]{perf_counter() - began:.0f} s[/dim]")


def real_people(alpha: float, say_step: Callable[[str], None]) -> Example:
    """The score of `load_doctor_visits` before and after a correction, in people not
    used to fit it.
    """
    from propcal.datasets import load_doctor_visits

    years = load_doctor_visits()
    half = (years["person"].nunique() + 1) // 2
    past = years[years["person"] < half]
    new = years[years["person"] >= half]
    say_step(f"Correcting ({COMPILES})...")
    columns: dict[str, Any] = {
        "outcome": "frequent",
        "groups": ["plan", "limited"],
        "cluster": "person",
    }
    model = propcal.PMCBoost(alpha=alpha).fit(
        past, score="risk", unit="person-years", **columns
    )
    return Example(
        about=(
            f"{len(years):,} person-years of the RAND Health Insurance Experiment "
            "(open data), and a score for five doctor visits or more in a year that "
            "was developed on people with free care. "
            f"{len(past):,} person-years to correct it, "
            f"{len(new):,} of other people to check it."
        ),
        title="Is this score right for everyone?",
        scores={"risk": "risk", "corrected": model},
        model=model,
        files={"past.csv": past, "new.csv": new},
        columns=columns,
        names={"unit": "person-years"},
    )


def generated_visits(
    people: int, alpha: float, seed: int, say_step: Callable[[str], None]
) -> Example:
    """A logistic regression of generated visits, corrected by the default and by the
    paper's settings.
    """
    from propcal.datasets import make_ed_visits

    say_step("Generating visits...")
    visits = make_ed_visits(people, seed=seed)
    half = people // 2
    three_quarters = half + people // 4
    learn = visits[:half]
    adjust = visits[half:three_quarters]
    held_out = visits[three_quarters:]
    say_step("Fitting the base model...")
    score = base_model(learn)
    methods = {
        "the paper's PMCBoost": propcal.PMCBoost.paper(alpha=alpha),
        "the paper's MCBoost": propcal.MCBoost.paper(alpha=alpha),
        "PMCBoost": propcal.PMCBoost(alpha=alpha),
    }
    for name, method in methods.items():
        say_step(f"Correcting with {name} ({COMPILES})...")
        method.fit(
            score(adjust), adjust["admitted"], sensitive_features=adjust[ATTRIBUTES]
        )
    return Example(
        about=(
            f"{people:,} generated emergency-department visits: {len(learn):,} to "
            "train a logistic regression that is not told race or gender, "
            f"{len(adjust):,} to correct its scores, {len(held_out):,} held out."
        ),
        title="Admission risk of generated emergency-department visits",
        scores={"base model": "risk", **methods},
        model=methods["PMCBoost"],
        files={"held_out.csv": held_out[SHOWN].assign(risk=score(held_out))},
        columns={"outcome": "admitted", "groups": ATTRIBUTES},
    )


def base_model(learn: pd.DataFrame) -> Callable[[pd.DataFrame], Any]:
    """A logistic regression of vital signs, age and history; returns its score of any
    visits.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(
        SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression()
    )
    model.fit(learn[FEATURES], learn["admitted"])
    return lambda visits: model.predict_proba(visits[FEATURES])[:, 1]


def _write(output: Path, example: Example, compared: propcal.Comparison) -> list[Path]:
    """Write the report, the correction and the data; returns the files."""
    report = output / "report.html"
    model = output / "model.json"
    paths = [report, model]
    with outputs() as out:
        compared.to_html(report, title=example.title, correction=example.model)
        example.model.correction_.save(model)
        for name, rows in example.files.items():
            rows.to_csv(out.file(output / name), index=False)
            paths.append(output / name)
    return paths


def _show(console: Console, example: Example, compared: propcal.Comparison) -> None:
    """The audit of the score, and what its correction changed."""
    from propcal.documents.audit import audit_document
    from propcal.documents.correction import attribute_sentences
    from propcal.documents.report import effect_sentences, last_headline
    from propcal.render.text import text

    def tell(sentence: str) -> None:
        """Print a sentence as it is."""
        console.print(sentence, markup=False, highlight=False)

    last = [*compared.audits][-1]
    summary = example.model.fit_summary_
    tell(f"{example.about}\n")
    console.rule("The audit: for whom is the score wrong?")
    console.print(text(audit_document(compared.audits[compared.base]), full=False))
    console.rule("The correction, checked on other people")
    if len(compared.audits) > 2:
        console.print(text(_losses(compared)))
    reads = attribute_sentences(summary.effects, summary.without_effect)
    for sentence in (*reads, *effect_sentences(compared, last)):
        tell(sentence)
    tell(f"{last_headline(compared)[1]}.\n{compared.audits[last].verdict}\n")


def _losses(compared: propcal.Comparison) -> Document:
    """Losses, AUROC and Brier score of each score."""
    from propcal.documents.blocks import Column, Document
    from propcal.documents.words import table

    names = (*LOSSES, "auroc", "brier")
    measures = [Column(name, MEASURE_NAMES[name].name, "decimal", 3) for name in names]
    rows = []
    for name, audit in compared.audits.items():
        of_everybody = audit.groups.iloc[0][["auroc", "brier"]]
        rows.append({"name": name, **audit.losses["value"], **of_everybody})
    return Document("", "", [table("held-out", rows, measures=measures)])


def _say_next(paths: list[Path], columns: Mapping[str, Any]) -> None:
    report, model, *files = paths
    for line in ("Written:", *(f"  {path}" for path in paths)):
        say(line)
    opened = f"Open {report} in a browser: the audit for a committee."
    say(f"{opened} Next, with these files or your own:")
    options = typed_options("audit", Roles(score="risk", **columns))
    command = ["propcal", "audit", str(files[-1]), *options]
    say(f"  {join([*command, '--correction', str(model), '--html', 'report.html'])}")
