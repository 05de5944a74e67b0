"""The page of `propcal paper benefit`: tables of who gains and who loses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from propcal.building_blocks import escaped, plural
from propcal_paper import figure_parts as parts
from propcal_paper.errors import refused
from propcal_paper.results.benefit import (
    COLUMNS,
    FEWEST,
    HARMS,
    HELPS,
    PREDICTION,
    TOO_FEW,
    UNCHANGED,
    UNCLEAR,
    benefit,
    observed_to_expected,
)
from propcal_paper.results.benefit_figures import PICTURES
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.printed_tables import PaperTable, table_of
from propcal_paper.results.subgroups import subgroup
from propcal_paper.settings import BASE

MOST_DIGITS = 5  # a change that is smaller than these can show is written as 0
UNKNOWN = "–"


def outcome_names(names: Sequence[str], stores: Sequence[Evidence]) -> list[str]:
    """The names of the outcomes on the page: those given, one for each store, or their
    columns.
    """
    if names and len(names) != len(stores):
        n_names = plural(len(names), "name")
        raise refused("names", names=n_names, stores=plural(len(stores), "store"))
    chosen = list(names) or [evidence.columns.outcome for evidence in stores]
    for name, n in Counter(chosen).items():
        if n > 1:
            raise refused("same name", n=n, name=name)
    return chosen


def benefit_page(stores: Mapping[str, Evidence], about: str, images: str) -> str:
    """The tables and pictures as a page in Markdown; `images` is the path from the page
    to the pictures.
    """
    lines = ["# Whom does a correction help, and whom does it harm?\n"]
    if about:
        lines.append(f"{escaped(about)}\n")
    tables = [table.markdown() for table in benefit_tables(stores)]
    outcomes, tally, changes, ratios = tables
    drawn = []
    for name in PICTURES:
        title = parts.words_of(name)["title"]
        drawn.append(f"![{title}]({images}/{name}.png)\n")
    return "\n".join([*lines, outcomes, tally, *drawn, ratios, changes])


def benefit_tables(stores: Mapping[str, Evidence]) -> list[PaperTable]:
    """What the stores of several outcomes say: the outcomes, how often methods help,
    changes, O/E ratios.
    """
    changes = []
    ratios = []
    for name, evidence in stores.items():
        changes.append(benefit(evidence).assign(outcome=name))
        ratios.append(observed_to_expected(evidence).assign(outcome=name))
    change = pd.concat(changes, ignore_index=True)
    ratio = pd.concat(ratios)

    outcomes = _outcomes(stores)
    unit = next(iter(stores.values())).columns.unit
    known: dict[str, Any] = {"unit": unit, "fewest": FEWEST}
    return [
        table_of("benefit_outcomes", outcomes, outcomes, **known),
        table_of("benefit", change, _tally(change, unit), **known),
        table_of("benefit_changes", change, _changes(change), **known),
        table_of("benefit_ratios", ratio, _ratios(ratio, stores), **known),
    ]


def _outcomes(stores: Mapping[str, Evidence]) -> pd.DataFrame:
    """A row for each outcome: its rate, and how its models were trained."""
    rows = []
    for name, evidence in stores.items():
        row = {"outcome": name, "observed rate in test sets": _rate(evidence)}
        row["shuffles"] = str(evidence.n_seeds)
        row["AUROC of the models"] = _auroc(evidence)
        row["set-up"] = evidence.setup.name
        rows.append(row)
    return pd.DataFrame(rows)


def _auroc(evidence: Evidence) -> str:
    """The AUROC of the base models."""
    of_base = evidence.stored[evidence.stored["method"] == BASE]
    medians = of_base.groupby("model")["auroc"].median()
    models = [model for model in evidence.models if model in medians]
    return ", ".join(f"{model} {medians[model]:.2f}" for model in models)


def _rate(evidence: Evidence) -> str:
    """The share of the rows of all test sets together with the outcome; the store has
    no rate of the data.
    """
    of_base = evidence.curves[evidence.curves["method"] == BASE]
    total = of_base[["people", "positives"]].sum()
    if not total["people"]:
        return UNKNOWN
    return f"{100 * total['positives'] / total['people']:.1f} %"


def _tally(found: pd.DataFrame, unit: str) -> pd.DataFrame:
    """A row for each method and alpha: in how many comparisons it helps, does nothing
    clear, and harms.
    """
    smallest = found.groupby("name", sort=False)["smallest"].min()
    cell = smallest.map("{:,.0f}".format).replace("nan", "chosen by tests")
    tally = pd.DataFrame({f"smallest cell in the fitting data, {unit}": cell})
    verdicts = found.groupby(["name", "measure"])["verdict"]
    counts = verdicts.agg(_verdict_counts).unstack("measure")
    counts = counts.reindex(columns=[*COLUMNS]).fillna(UNKNOWN)
    return tally.join(counts).rename_axis("method").reset_index()


def _verdict_counts(verdicts: pd.Series) -> str:
    n = Counter(verdicts)
    if TOO_FEW in n:
        return TOO_FEW
    return f"{n[HELPS]} / {n[UNCLEAR] + n[UNCHANGED]} / {n[HARMS]}"


def _changes(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each outcome, grouping, base model, method and alpha, with the errors
    side by side.
    """
    names = ["outcome", "groups", "model", "name"]
    cells = found.assign(cell=[_change(row) for row in found.to_dict("records")])
    wide = cells.set_index([*names, "measure"])["cell"].unstack("measure")
    in_order = pd.MultiIndex.from_frame(found[names].drop_duplicates())
    wide = wide.reindex(in_order, columns=[*COLUMNS]).fillna(UNKNOWN)
    return wide.reset_index().rename(columns={"name": "method"})


def _change(row: Mapping[Any, Any]) -> str:
    """An error before and after, its change in percent with the interval, and the
    verdict if it is clear.
    """
    change = row["change"]
    if pd.isna(change):
        return UNKNOWN
    digits = 1
    if abs(change) >= 10:
        digits = 0
    elif abs(change) < 1:
        digits = 2
    said = f"{_error(row, 'before')} → {_error(row, 'after')}"
    said += f"; {_signed(change, digits)} %"
    if not pd.isna(row["low"]):
        said += f" ({_signed(row['low'], digits)} to {_signed(row['high'], digits)})"
    said += f"; {100 * row['better']:.0f} / {100 * row['worse']:.0f}"
    if row["verdict"] in (HELPS, HARMS):
        said += f"; {row['verdict']}"
    return said


def _error(row: Mapping[Any, Any], when: str) -> str:
    """A log loss as it is, other errors in percent."""
    if row["measure"] == PREDICTION:
        return f"{row[when]:.4f}"
    return f"{100 * row[when]:.1f} %"


def _signed(value: float, digits: int = 0) -> str:
    """A number with its sign, with more digits if it would be rounded to 0; 0 has no
    sign.

    >>> _signed(0.0), _signed(12.6), _signed(-0.24, 1), _signed(0.374)
    ('0', '+13', '-0.2', '+0.4')
    >>> _signed(-0.0002, 2)
    '-0.0002'
    """
    if pd.isna(value) or round(value, MOST_DIGITS) == 0:
        return "0"
    while round(value, digits) == 0:
        digits += 1
    return f"{value:+.{digits}f}"


def _ratios(found: pd.DataFrame, stores: Mapping[str, Evidence]) -> pd.DataFrame:
    """A row for each outcome, base model and subgroup: O/E ratios before and with each
    method.
    """
    methods = list(dict.fromkeys(found["name"]))
    columns = ["outcome", "model", "subgroup", "share", "observed rate"]
    rows = []
    whose = found.groupby(["outcome", "groups", "model", "group_name"], sort=False)
    for (outcome, groups, model, group), part in whose:
        attributes = stores[str(outcome)].attributes[str(groups)]
        first = part.iloc[0]
        percents = [f"{100 * first[name]:.1f} %" for name in ("share", "rate")]
        ratios = dict(zip(part["name"], part["ratio"].map("{:.2f}".format)))
        of_methods = [ratios.get(name, UNKNOWN) for name in methods]
        who = subgroup(str(group), attributes)
        rows.append((outcome, model, who, *percents, *of_methods))
    return pd.DataFrame(rows, columns=[*columns, *methods])
