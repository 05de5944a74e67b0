"""``propcal demo``: a score that is wrong for some groups, and its correction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.cli.screen import say
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, risk_range
from propcal.options import DATA, METHOD, OUTPUT

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.grid import FloatArray

ATTRIBUTES = ["race", "gender"]
VITAL_SIGNS = ["temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp", "pain"]
FEATURES = ["age", "acuity", *VITAL_SIGNS, "n_previous_visits", "n_previous_admissions"]
EXPLANATION = """
A cell is a group within a range of predicted risk. MC: largest gap between
observed and predicted rate of any cell. PMC: the same, as a share of the
observed rate. DC: largest log-ratio of two groups' observed rates in the same
risk range. Of these and of the Brier score, lower is better; of AUROC, higher.
"""


def demo(
    output: Path = OUTPUT.option(
        "--output -o FOLDER",
        "Folder for the report, the correction and the data.",
        default=Path("propcal-demo"),
    ),
    people: int | None = DATA.option(
        "N",
        "Generate this many emergency-department visits, and compare with the paper's settings. "
        "Default: real people",
        default=None,
        least=5000,
    ),
    alpha: float | None = METHOD.option(
        "SHARE", "Tolerance of MCBoost and PMCBoost. Default: 0.05, and 0.1 for generated visits"
    ),
    seed: int = METHOD.option("N", "Seed for random numbers of generated visits.", default=0, least=0),
) -> None:
    """Audit and correct a risk score of real people, and write a report.

    The demo takes 13,326 years of people in the RAND Health Insurance Experiment and a score for frequent
    doctor visits that was developed on people with free care. It corrects the score on one half of the people
    and compares before and after on the other half. With --people, it generates emergency-department visits
    with the group sizes and admission rates of the paper's Table 1 instead, and also shows the paper's own
    settings.

    For example:

      propcal demo

      propcal demo --people 50000 --alpha 0.05 -o my-demo
    """
    console = Console()
    began = perf_counter()
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {output} is a file", next_step="name a folder")
    output.mkdir(parents=True, exist_ok=True)  # before the work begins
    if people is None:
        real_people(console, output, 0.05 if alpha is None else alpha)
    else:
        generated_visits(console, output, people, 0.1 if alpha is None else alpha, seed)
    console.print(f"[dim]{perf_counter() - began:.0f} s[/dim]")


def real_people(console: Console, output: Path, alpha: float) -> None:
    """The score of `load_doctor_visits` before and after a correction, in people not used to fit it."""
    from propcal import PMCBoost, audit, compare
    from propcal.datasets import load_doctor_visits
    from propcal.documents.audit import audit_document
    from propcal.documents.comparison import effect_sentences
    from propcal.documents.correction import attribute_sentences
    from propcal.render.text import text

    years = load_doctor_visits()
    half = (years["person"].nunique() + 1) // 2
    past, new = years[years["person"] < half], years[years["person"] >= half]
    console.print(
        f"{len(years):,} years of people in the RAND Health Insurance Experiment (open data), and a score "
        f"for five doctor visits or more in a year that was developed on people with free care. "
        f"{len(past):,} person-years to correct it, {len(new):,} of other people to check it.\n"
    )
    columns: dict[str, Any] = {"score": "risk", "outcome": "frequent", "groups": ["plan", "limited"]}
    columns["cluster"] = "person"
    with console.status("Correcting (the first fit on a machine compiles for some seconds)..."):
        model = PMCBoost(alpha=alpha).fit(past, **columns)
    with console.status("Auditing..."):
        before = audit(new, **columns, unit="person-years")
        found = compare(
            {"score": new["risk"], "corrected": model},
            new["frequent"],
            sensitive_features=new[["plan", "limited"]],
            cluster=new["person"],
            unit="person-years",
        )
        title = "Is this score right for everyone?"
        files = _write(output, found, model, title, {"past.csv": past, "new.csv": new})
    console.rule("The audit: for whom is the score wrong?")
    console.print(text(audit_document(before), full=False))
    console.rule("The correction, checked on other people")
    summary = model.fit_summary_
    reads = attribute_sentences(summary.effects, summary.without_effect)
    for sentence in (*reads, *effect_sentences(found, "corrected")):
        console.print(sentence, markup=False, highlight=False)
    console.print(f"{found.audits['corrected'].verdict}\n", markup=False, highlight=False)
    _say_next(files, "--score risk --outcome frequent --groups plan,limited --cluster person")


def _write(output: Path, found: Any, model: Any, title: str, tables: dict[str, pd.DataFrame]) -> list[Path]:
    """Write the report, the correction and the data; returns the files."""
    from propcal.files.transaction import outputs

    files = [output / name for name in ("report.html", "correction.json", *tables)]
    with outputs() as out:
        found.to_html(files[0], title=title, correction=model)
        model.correction_.save(files[1])
        for path, rows in zip(files[2:], tables.values()):
            rows.to_csv(out.file(path), index=False)
    return files


def _say_next(files: list[Path], options: str) -> None:
    for line in ("Written:", *(f"  {file}" for file in files)):
        say(line)
    say(f"Open {files[0]} in a browser: the audit for a committee. Next, with these files or your own:")
    say(f"  propcal audit {files[-1]} {options} --html report.html")


def generated_visits(console: Console, output: Path, people: int, alpha: float, seed: int) -> None:
    """A logistic regression of generated visits, corrected by the default and by the paper's settings."""
    from propcal import MCBoost, PMCBoost, compare
    from propcal.datasets import make_ed_visits
    from propcal.documents.audit import audit_document
    from propcal.documents.comparison import effect_sentences
    from propcal.render.text import text

    with console.status("Generating visits...") as status:
        visits = make_ed_visits(people, seed=seed)
        half, three_quarters = people // 2, people // 2 + people // 4
        learn, adjust, held_out = visits[:half], visits[half:three_quarters], visits[three_quarters:]
        status.update("Fitting the base model...")
        score = base_model(learn)
        methods = {
            "PMCBoost": PMCBoost(alpha=alpha),
            "the paper's PMCBoost": PMCBoost.paper(alpha=alpha),
            "the paper's MCBoost": MCBoost.paper(alpha=alpha),
        }
        scores = {"base model": score(held_out)}
        for name, method in methods.items():
            status.update(f"Correcting with {name} (the first fit on a machine compiles for some seconds)...")
            method.fit(score(adjust), adjust["admitted"], sensitive_features=adjust[ATTRIBUTES])
            scores[name] = method.predict(scores["base model"], sensitive_features=held_out[ATTRIBUTES])

    console.print(
        f"{people:,} generated emergency-department visits: {len(learn):,} to train a logistic regression "
        f"that is not told race or gender, {len(adjust):,} to correct its scores, "
        f"{len(held_out):,} held out.\n"
    )
    console.print(losses_table(held_out, scores, alpha))
    console.print(EXPLANATION)
    with console.status("Auditing..."):
        found = compare(
            {"base model": scores["base model"], "PMCBoost": methods["PMCBoost"]},
            held_out["admitted"],
            sensitive_features=held_out[ATTRIBUTES],
        )
        to_try = held_out[[*ATTRIBUTES, "age", "insurance", "admitted"]].assign(risk=scores["base model"])
        title = "Admission risk of generated emergency-department visits"
        files = _write(output, found, methods["PMCBoost"], title, {"held_out.csv": to_try})
    labels = found.audits["base model"].labels
    console.print(most_improved(held_out, scores["base model"], scores["PMCBoost"], labels))
    console.print(f"{' '.join(methods['PMCBoost'].certificate_.sentences())}\n", markup=False)
    console.rule("The audit: is the score wrong, for whom, and could it be chance?")
    for name, audit in found.audits.items():
        console.print(f"[bold]{name}[/bold]: {audit.verdict.conclusion}", highlight=False)
    console.print(f"{' '.join(effect_sentences(found, 'PMCBoost'))}\n", markup=False)
    console.rule("The audit of PMCBoost's scores")
    console.print(text(audit_document(audit)))
    columns = f"--score risk --outcome admitted --groups {','.join(ATTRIBUTES)}"
    _say_next(files, f"{columns} --correction {files[1]}")


def base_model(learn: pd.DataFrame) -> Callable[[pd.DataFrame], FloatArray]:
    """A logistic regression of vital signs, age and history; returns its score of any visits."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression())
    model.fit(learn[FEATURES], learn["admitted"])

    return lambda visits: model.predict_proba(visits[FEATURES])[:, 1]


def losses_table(held_out: pd.DataFrame, scores: dict[str, FloatArray], alpha: float) -> Table:
    """The losses of each score on held-out people."""
    from sklearn.metrics import brier_score_loss, roc_auc_score

    from propcal.core.categories import dc_of, mc_of, pmc_of
    from propcal.data.rows_to_atoms import rows_to_atoms
    from propcal.metrics import CategoryRule

    table = Table(title="Held-out people", title_justify="left")
    table.add_column("")
    for heading in (*(MEASURE_NAMES[loss].name for loss in LOSSES), "AUROC", "Brier"):
        table.add_column(heading, justify="right")
    y = held_out["admitted"]
    for name, score in scores.items():
        found = CategoryRule(alpha=alpha).table(rows_to_atoms(score, y, held_out[ATTRIBUTES]))
        numbers = [mc_of(found), pmc_of(found, 0.1), dc_of(found, 0.1)]
        numbers += [float(roc_auc_score(y, score)), float(brier_score_loss(y, score))]
        table.add_row(name, *[IN_TEXT.decimal(number, 3) for number in numbers])
    return table


def most_improved(
    held_out: pd.DataFrame, raw: FloatArray, corrected: FloatArray, labels: dict[str, str], n: int = 3
) -> Table:
    """The cells, by raw score, whose predicted rate came closest to their observed one.

    With the corrected score in the place of the outcome, a cell's rate is its mean corrected score.
    """
    from propcal.data.rows_to_atoms import rows_to_atoms
    from propcal.metrics import CategoryRule

    def rates(outcome: Any) -> pd.DataFrame:
        atoms = rows_to_atoms(raw, outcome, held_out[ATTRIBUTES])
        return CategoryRule(min_people=100).table(atoms).to_frame()

    before, after = rates(held_out["admitted"]), rates(corrected)
    gained = before["gap"].abs() - (before["outcome_rate"] - after["outcome_rate"]).abs()
    table = Table(title=f"The {n} cells that improved most", title_justify="left")
    for heading in ("group", "predicted risk", "people", "observed", "predicted", "corrected"):
        side: Any = "left" if heading in ("group", "predicted risk") else "right"
        table.add_column(heading, justify=side, overflow="fold", no_wrap=heading == "predicted risk")
    for i in gained[before["eligible"]].nlargest(n).index:
        row = before.loc[i]
        percents = [row["outcome_rate"], row["mean_score"], after.loc[i, "outcome_rate"]]
        people = IN_TEXT.count(row["people"])
        group, risk = labels.get(row["group"], row["group"]), risk_range(row["bin"])
        table.add_row(group, risk, people, *[IN_TEXT.percent(p) for p in percents])
    return table
