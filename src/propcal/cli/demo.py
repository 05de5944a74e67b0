"""``propcal demo``: a score that is wrong for some groups, and what corrects it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.correction import Correction
    from propcal.core.grid import FloatArray

ATTRIBUTES = ["race", "gender"]
FEATURES = [
    "age",
    "acuity",
    "temperature",
    "heartrate",
    "resprate",
    "o2sat",
    "sbp",
    "dbp",
    "pain",
    "n_previous_visits",
    "n_previous_admissions",
]


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the correction that is written.")
    ] = Path("propcal-demo"),
    people: Annotated[int, typer.Option(min=1000, help="Visits to generate.")] = 173_561,
    alpha: Annotated[float, typer.Option(help="Tolerance of MCBoost and PMCBoost.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the generated visits.")] = 0,
) -> None:
    """Correct a risk score on generated emergency-department visits.

    Generates visits with the group sizes and admission rates of the paper's Table 1, fits a
    logistic regression that does not know race or gender, corrects its scores with MCBoost and
    PMCBoost on one part of the people, and compares all three on the others.

    Example: propcal demo --people 50000 --alpha 0.05
    """
    from propcal import MCBoost, PMCBoost
    from propcal.data.cohorts import make_ed_visits

    console = Console()
    began = perf_counter()
    output.mkdir(parents=True, exist_ok=True)  # before the work: no result without a place for it
    with console.status("Generating visits...") as status:
        visits = make_ed_visits(people, seed=seed)
        learn, rest = visits.iloc[: people // 2], visits.iloc[people // 2 :]
        adjust, held_out = rest.iloc[: len(rest) // 2], rest.iloc[len(rest) // 2 :]
        status.update("Fitting the base model...")
        score = base_model(learn)
        raw = score(held_out)
        scores = {"base model": raw}
        corrections: dict[str, Correction] = {}
        left_out: list[str] = []
        for method in (MCBoost(alpha=alpha), PMCBoost(alpha=alpha)):
            name = type(method).__name__
            status.update(f"Correcting with {name} (the first fit on a machine compiles for some seconds)...")
            method.fit(score(adjust), adjust["admitted"], sensitive_features=adjust[ATTRIBUTES])
            scores[name] = method.predict(raw, sensitive_features=held_out[ATTRIBUTES])
            corrections[name] = method.correction_
            left_out = [size.group.name for size in method.groups_.left_out]
        path = output / "correction.json"
        corrections["PMCBoost"].save(path)

    console.print(
        f"{people:,} generated emergency-department visits: {len(learn):,} to train a logistic "
        f"regression that is not told race or gender, {len(adjust):,} to correct its scores, {len(held_out):,} held out.\n"
    )
    console.print(comparison(held_out, scores, alpha))
    console.print(most_improved(held_out, raw, scores["PMCBoost"]))
    console.print(
        "\nMC: largest gap between outcome rate and mean score of any group in any tenth of the scale; "
        "PMC: the same as a share of the rate; DC: largest log-ratio of two groups' rates in a tenth. Lower is better."
    )
    console.print(
        f"{len(left_out)} groups with less than 5 % of the people were left out, such as {left_out[0]}; "
        "gamma sets that share.\n"
        if left_out
        else ""
    )
    console.print(
        f"PMCBoost made {corrections['PMCBoost'].n_updates} updates. The correction is in {path}",
        soft_wrap=True,
    )
    console.print(
        f'To use it:  propcal.Correction.load("{path}").apply(score, frame)',
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"[dim]{perf_counter() - began:.0f} s[/dim]")


def base_model(learn: pd.DataFrame) -> Callable[[pd.DataFrame], FloatArray]:
    """A logistic regression of vital signs, age and history; returns its score of any visits."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), LogisticRegression())
    model.fit(learn[FEATURES], learn["admitted"])

    def score(visits: pd.DataFrame) -> FloatArray:
        probability: FloatArray = model.predict_proba(visits[FEATURES])[:, 1]
        return probability

    return score


def comparison(held_out: pd.DataFrame, scores: dict[str, FloatArray], alpha: float) -> Table:
    """The losses of each score on held-out people."""
    from sklearn.metrics import brier_score_loss, roc_auc_score

    from propcal.data.frames import rows_to_atoms
    from propcal.metrics import category_table, dc_of, mc_of, pmc_of

    table = Table(title="Held-out people", title_justify="left")
    for heading in ("", "MC loss", "PMC loss", "DC loss", "AUROC", "Brier"):
        table.add_column(heading, justify="right" if heading else "left")
    y = held_out["admitted"]
    for name, score in scores.items():
        found = category_table(rows_to_atoms(score, y, held_out[ATTRIBUTES]), alpha=alpha)
        numbers = [mc_of(found), pmc_of(found, 0.1), dc_of(found, 0.1)]
        numbers += [float(roc_auc_score(y, score)), float(brier_score_loss(y, score))]
        table.add_row(name, *[f"{number:.3f}" for number in numbers])
    return table


def most_improved(held_out: pd.DataFrame, raw: FloatArray, corrected: FloatArray, n: int = 3) -> Table:
    """The categories, by raw score, whose mean score came closest to their outcome rate.

    With the corrected score in the place of the outcome, a category's rate is its mean corrected score.
    """
    from propcal.data.frames import rows_to_atoms
    from propcal.metrics import category_table

    def rates(outcome: Any) -> pd.DataFrame:
        atoms = rows_to_atoms(raw, outcome, held_out[ATTRIBUTES])
        return category_table(atoms, min_people=100).to_frame()

    before, after = rates(held_out["admitted"]), rates(corrected)
    gained = before["gap"].abs() - (before["outcome_rate"] - after["outcome_rate"]).abs()
    table = Table(title=f"The {n} categories that improved most", title_justify="left")
    for heading in ("group", "raw score", "people", "admitted", "score said", "corrected"):
        left = heading in ("group", "raw score")
        table.add_column(
            heading,
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=heading == "raw score",
        )
    for i in gained[before["eligible"]].nlargest(n).index:
        row = before.loc[i]
        percents = [row["outcome_rate"], row["mean_score"], after.loc[i, "outcome_rate"]]
        table.add_row(row["group"], row["bin"], f"{row['people']:,}", *[f"{100 * p:.1f} %" for p in percents])
    return table
