"""The tables of the paper beside the published numbers, and ours.

Titles and notes are in words.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import pandas as pd

from propcal_paper import settings as s
from propcal_paper.results import medians
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.prevalence import table_1
from propcal_paper.results.printed_tables import (
    PRINTED,
    SHORT,
    WORDS,
    PaperTable,
    table_of,
)
from propcal_paper.results.significance import tests, too_few
from propcal_paper.results.wins import THREE, wins
from propcal_paper.settings import FIXED, MC, OURS, PMC

OURS_NOTE = '"ours" is the default method of propcal, which is not in the paper.'
# of Table 5: the columns of the frame with the numbers of a method, and their digits
TABLE_5_NUMBERS = {
    "{}_sweeps": 0,
    "published_{}_sweeps": 0,
    "{}_updates": 0,
    "{}_seconds": 3,
    "published_{}_seconds": 0,
}
# The numbers of a table, for its CSV, and what is shown of them.
Numbers = tuple[pd.DataFrame, pd.DataFrame]


def _wide(
    found: pd.DataFrame, index: Sequence[str], across: str, values: Sequence[str]
) -> pd.DataFrame:
    """A row for each `index`, with columns such as "auroc change" for each level of
    `across`.
    """
    wide = found.pivot(index=[*index], columns=across, values=[*values])
    pairs: Any = wide.columns
    names: Any = [f"{level} {value}" for value, level in pairs]
    wide.columns = pd.Index(names)
    return wide.reset_index()


def _table_4(evidence: Evidence, rule: str) -> Numbers:
    """Percent change from the base model by a rule for losses, with the published
    medians.
    """
    found = medians.percent_change(evidence.by(rule).trials)
    by = ["method", "model"]
    seeds = found.groupby(by)["n_seeds"].max().rename("seeds")
    shown = _wide(found, by, "metric", ["change", "published"]).join(seeds, on=by)
    return found, medians.in_order(evidence, shown, by)


def _table_4_by_fixed_rule(evidence: Evidence) -> Numbers:
    return _table_4(evidence, FIXED)


def _table_4_by_sizes(evidence: Evidence) -> Numbers:
    return _table_4(evidence, s.SIZES)


def _table_4_by_own(evidence: Evidence) -> Numbers:
    return _table_4(evidence, s.OWN)


def _table_4_by_alpha(evidence: Evidence) -> Numbers:
    by = ["method", "model", "alpha"]
    trials = evidence.trials
    found = medians.percent_change(trials, by=["alpha"])
    idle = trials.assign(idle=100.0 * (trials["n_updates"] == 0))
    idle_percent = idle.groupby(by)["idle"].mean()
    wide = _wide(found, by, "metric", ["change"]).astype({"alpha": float})
    shown = wide.join(idle_percent, on=by)
    return found, medians.in_order(evidence, shown, by)


def _table_5(evidence: Evidence) -> Numbers:
    """Updates and seconds to reach the same PMC, with the published numbers, and a row
    for their ratios.
    """
    found = medians.updates_and_time(evidence)
    rows = []
    for _, row in medians.in_order(evidence, found, ["model", "alpha"]).iterrows():
        for method, key in ((MC, "mc"), (PMC, "pmc")):
            numbers = []
            for name, digits in TABLE_5_NUMBERS.items():
                number = row[name.format(key)]
                numbers.append(_whole_or_decimal(number, digits))
            rows.append((row["model"], f"{row['alpha']:g}", method, *numbers, ""))

        ratios = []
        for name in TABLE_5_NUMBERS:
            ratio = row[name.replace("{}_", "") + "_ratio"]
            ratios.append(PRINTED.unknown if pd.isna(ratio) else f"{ratio:.1f}x")
        rows.append(("", "", "ratio", *ratios, PRINTED.whole(row["stopped"])))
    columns = [column for _, column in WORDS["table_5"]["columns"]]
    return found, pd.DataFrame(rows, columns=columns)


def _whole_or_decimal(number: float, digits: int) -> str:
    if digits:
        return PRINTED.decimal(number, digits)
    return PRINTED.whole(number)


def _table_6_of(evidence: Evidence, methods: tuple[str, ...]) -> Numbers:
    """How often each method is best, by three interpretations, with the published
    counts.
    """
    found = wins(evidence.trials, methods)
    by = ["reading", "metric"]
    values = ["percent"]
    if found["published"].notna().any():
        values.append("published")
    comparisons = found.groupby(by)["comparisons"].max()
    shown = _wide(found, by, "method", values).set_index(by).join(comparisons)
    in_order = found.set_index(by).index.unique()
    return found, shown.reindex(in_order).reset_index()


def _table_6(evidence: Evidence) -> Numbers:
    return _table_6_of(evidence, THREE)


def _table_6_with_ours(evidence: Evidence) -> Numbers:
    """By the fixed rule: our method has no alpha of Table 3, and so no rule of its own
    to share with others.
    """
    return _table_6_of(evidence.by(FIXED), medians.METHODS)


def _accuracy(evidence: Evidence) -> Numbers:
    """How far scores are from outcomes, and from the true risk where it is known."""
    found = medians.accuracy(evidence.by(FIXED).trials)
    shown = medians.in_order(evidence, found, ["model", "method"])
    return found, shown.replace({"method": {OURS: "propcal (ours)"}})


def _base_models(evidence: Evidence) -> Numbers:
    found = medians.base_on_both_sets(evidence.by(FIXED).trials)
    return found, medians.in_order(evidence, found, ["model"])


def _best_alpha(evidence: Evidence) -> Numbers:
    found = medians.best_alphas(evidence)
    return found, found


def _tests(evidence: Evidence) -> Numbers:
    found = tests(evidence.trials)
    first = found["method_a"].replace(SHORT)
    second = found["method_b"].replace(SHORT)
    return found, found.assign(pair=first + " – " + second)


def _cells(evidence: Evidence, name: str) -> Numbers:
    """Alpha by the smallest cell that is corrected; or gamma and rho."""
    found = medians.cells(evidence, name)
    by = ["method", "model", *medians.PARAMETERS]
    # a pivot would leave out rows with missing values
    missing = dict.fromkeys(medians.PARAMETERS, -1.0)
    wide = _wide(found.fillna(missing), by, "metric", ["median"])
    shown = medians.in_order(evidence, wide, by)
    has_alpha = shown["alpha"] >= 0
    shown["size"] = shown["min_share"].map(_size).where(has_alpha, PRINTED.unknown)
    for column in ("alpha", "gamma", "rho"):
        shown[column] = shown[column].map(_parameter)
    return found, shown


def _size(min_share: float) -> str:
    return f"{100 * min_share:g} %" if min_share >= 0 else "as printed"


def _parameter(value: float) -> str:
    return f"{value:g}" if value >= 0 else PRINTED.unknown


TABLES: dict[str, Callable[[Evidence], Numbers]] = {
    "table_4": _table_4_by_fixed_rule,
    "table_4_by_sizes": _table_4_by_sizes,
    "table_4_by_own": _table_4_by_own,
    "table_4_by_alpha": _table_4_by_alpha,
    "table_5": _table_5,
    "table_6": _table_6,
    "table_6_with_ours": _table_6_with_ours,
    "accuracy": _accuracy,
    "base_models": _base_models,
    "best_alpha": _best_alpha,
    "tests": _tests,
}
OF_CELLS = tuple(s.DATA["cells"]["fixed"])
NAMES = ("table_1", *TABLES, "claims", *OF_CELLS)
# Tables that only files and pages have: a terminal does not show them.
LONG = ("table_4_by_alpha", "best_alpha", "tests")


def table(evidence: Evidence, name: str) -> PaperTable:
    """One of TABLES, with its words."""
    if name in OF_CELLS:
        frame, shown = _cells(evidence, name)
    else:
        frame, shown = TABLES[name](evidence)

    sure = evidence.how_sure()
    if evidence.n_seeds > 1:
        sure += " They are in the CSV."
    meanings = [f"by {key}: {meaning}" for key, meaning in s.READINGS.items()]
    readings = "; ".join(meanings)
    smallest_share = s.RULE["alpha"] * s.RULE["gamma"] / s.RULE["n_bins"]
    known = {
        "sure": sure,
        "unit": evidence.columns.unit,
        "fixed": s.DATA["cells"]["fixed"],
        "sizes_share": 100 * s.SIZES_RULE["min_share"],
        "share": 100 * smallest_share,
        "readings": f"{readings[0].upper()}{readings[1:]}.",
        "too_few": too_few(frame) if name == "tests" else "",
    }
    with_ours = name == "table_4" and OURS in evidence.methods
    more = OURS_NOTE if with_ours else ""
    return table_of(name, frame, shown, more=more, **known)


def all_tables(
    evidence: Evidence, cohort: str | PathLike[str] | None = None
) -> tuple[list[PaperTable], list[str]]:
    """Every table in the order of the paper, and a sentence for each table that is not
    available.
    """
    if evidence.of_cells:
        return [table(evidence, name) for name in OF_CELLS], []

    tables = []
    lacking = []
    first = table_1(evidence, cohort)
    if isinstance(first, str):
        lacking.append(first)
    else:
        tables.append(first)
    leading = evidence.by(evidence.setup.rule)
    for name in TABLES:
        if name != "table_6_with_ours" or OURS in evidence.methods:
            tables.append(table(leading, name))
    return tables, lacking
