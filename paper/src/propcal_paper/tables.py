"""The tables of the paper beside the published numbers, and ours; titles and notes are
in words.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import pandas as pd

from propcal import datasets
from propcal.building_blocks import FEWEST_SHOWN, Style
from propcal_paper import results
from propcal_paper import settings as s
from propcal_paper.cohort_files import visits_of
from propcal_paper.errors import refused
from propcal_paper.settings import BASE, FIXED, MC, OURS, PMC
from propcal_paper.trial_store import METRICS, Evidence

WORDS = s.toml_file("words.toml")
PRINTED = Style(unknown="–")
SHORT = {BASE: "base", OURS: "ours"}
OURS_NOTE = '"ours" is the default method of propcal, which is not in the paper.'
OVERALL = "Overall"
GENDERS = {"F": "women", "M": "men", OVERALL: "overall"}
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"–": "--", "<": "$<$", ">": "$>$", "×": r"$\times$"}
)
# How the cells of a column are written (the third entry of a column in words.toml).
_KINDS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "metric": lambda key: METRICS[key],
    "method": lambda method: SHORT.get(method, method),
    "number": lambda value: f"{value:g}",
    "count": lambda value: f"{value:,.0f}",
    "whole": PRINTED.whole,
    **{digits: partial(PRINTED.decimal, digits=int(digits)) for digits in "034"},
    "+2": lambda value: PRINTED.decimal(value, 2, "+"),
    "p": lambda p: f"{p:.2g}",
}


@dataclass(frozen=True)
class PaperTable:
    """A table: its file name, title, notes, numbers, and the rows that are shown."""

    name: str
    title: str
    notes: tuple[str, ...]
    frame: pd.DataFrame
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    n_texts: int = 2  # the first columns contain words, the others numbers

    def written(self, kind: str) -> Any:
        """The content of a file: csv, md or tex."""
        if kind == "csv":
            return self.frame
        if kind == "md":
            return self.markdown()
        return self.latex()

    def _aligned(self, words: str, numbers: str) -> list[str]:
        return [
            words if i < self.n_texts else numbers for i in range(len(self.headings))
        ]

    def markdown(self) -> str:
        """The title, table and notes as Markdown."""
        from propcal.building_blocks import escaped

        heading, *rows = (
            [escaped(cell) for cell in row] for row in (self.headings, *self.rows)
        )
        lines = [
            "| " + " | ".join(row) + " |"
            for row in (heading, self._aligned("---", "---:"), *rows)
        ]
        body = "\n".join(lines) if self.rows else "Nothing yet."
        notes = [escaped(note) for note in self.notes]
        return "\n\n".join([f"### {escaped(self.title)}", body, *notes]) + "\n"

    def latex(self) -> str:
        """The table for LaTeX, with the rules of the booktabs package; the notes are
        comments.
        """
        headings, *rows = (
            [cell.translate(_LATEX) for cell in row]
            for row in (self.headings, *self.rows)
        )
        shown: Any = pd.DataFrame(rows, columns=pd.Index(headings), dtype=object)
        names = {
            "caption": self.title.translate(_LATEX),
            "label": f"tbl:{self.name.replace('_', '-')}",
        }
        sides = "".join(self._aligned("l", "r"))
        text: str = shown.to_latex(
            index=False, escape=False, column_format=sides, **names
        )
        notes = [f"% {line}\n" for note in self.notes for line in note.splitlines()]
        return "".join(notes) + text.replace(
            r"\begin{table}", "\\begin{table}\n\\centering"
        )

    def to_rich(self) -> Any:
        """The table for a terminal."""
        from rich.table import Table as Drawn

        sentences = any(len(cell) > 40 for row in self.rows for cell in row)
        drawn = Drawn(
            title=self.title, title_justify="left", title_style="bold", box=None
        )
        drawn.leading = int(sentences)
        drawn.pad_edge = False
        drawn.padding = (0, 1, 0, 0)
        sides: Any = self._aligned("left", "right")
        for heading, side in zip(self.headings, sides):
            drawn.add_column(heading, justify=side, no_wrap=side == "right")
        for row in self.rows:
            drawn.add_row(*row)
        return drawn


def table_of(
    name: str,
    frame: pd.DataFrame,
    shown: pd.DataFrame,
    file: str = "",
    more: str = "",
    **known: Any,
) -> PaperTable:
    """A table with its words, into which `known` is filled: the `frame` of its CSV, and
    what is `shown`.
    """
    words = WORDS[name]
    if "like" in words:
        words = {**WORDS[words["like"]], **words}
    asked = words.get("columns", [(column, column) for column in shown])
    columns = [(*column, "text")[:3] for column in asked if column[1] in shown]
    cells = [
        [_KINDS[kind](value) for value in shown[column]] for _, column, kind in columns
    ]
    notes = tuple(
        filter(None, [*(note.format(**known) for note in words["notes"]), more])
    )
    headings = tuple(heading for heading, *_ in columns)
    title = words["title"].format(**known)
    n_texts = words.get("n_texts", 2)
    return PaperTable(
        file or name, title, notes, frame, headings, [*zip(*cells)], n_texts
    )


def _wide(
    found: pd.DataFrame, index: Sequence[str], across: str, values: Sequence[str]
) -> pd.DataFrame:
    """A row for each `index`, with columns such as "auroc change" for each level of
    `across`.
    """
    wide = found.pivot(index=[*index], columns=across, values=[*values])
    names: Any = [f"{pair[1]} {pair[0]}" for pair in wide.columns]
    wide.columns = pd.Index(names)
    return wide.reset_index()


# The numbers of a table, for its CSV, and what is shown of them.
Numbers = tuple[pd.DataFrame, pd.DataFrame]


def _table_4(evidence: Evidence, rule: str) -> Numbers:
    """Percent change from the base model by a rule for losses, with the published
    medians.
    """
    found = results.percent_change(evidence.by(rule).trials)
    by = ["method", "model"]
    seeds = found.groupby(by)["n_seeds"].max().rename("seeds")
    shown = _wide(found, by, "metric", ["change", "published"]).join(seeds, on=by)
    return found, results.in_order(evidence, shown, by)


def _table_4_by_alpha(evidence: Evidence) -> Numbers:
    by = ["method", "model", "alpha"]
    trials = evidence.trials
    found = results.percent_change(trials, by=["alpha"])
    idle = (
        trials.assign(idle=100.0 * (trials["n_updates"] == 0))
        .groupby(by)["idle"]
        .mean()
    )
    shown = (
        _wide(found, by, "metric", ["change"])
        .astype({"alpha": float})
        .join(idle, on=by)
    )
    return found, results.in_order(evidence, shown, by)


def _table_5(evidence: Evidence) -> Numbers:
    """Updates and seconds to reach the same PMC, with the published numbers, and a row
    for their ratios.
    """
    found = results.updates_and_time(evidence)
    rows = []
    shown = [
        "{}_sweeps",
        "published_{}_sweeps",
        "{}_updates",
        "{}_seconds",
        "published_{}_seconds",
    ]
    for _, row in results.in_order(evidence, found, ["model", "alpha"]).iterrows():
        for method, key in ((MC, "mc"), (PMC, "pmc")):
            cells = [row[name.format(key)] for name in shown]
            said = [
                PRINTED.decimal(v, 3) if i == 3 else PRINTED.whole(v)
                for i, v in enumerate(cells)
            ]
            rows.append((row["model"], f"{row['alpha']:g}", method, *said, ""))
        ratios = [row[name.replace("{}_", "") + "_ratio"] for name in shown]
        said = [
            PRINTED.unknown if pd.isna(ratio) else f"{ratio:.1f}x" for ratio in ratios
        ]
        rows.append(("", "", "ratio", *said, PRINTED.whole(row["stopped"])))
    return found, pd.DataFrame(
        rows, columns=[column for _, column in WORDS["table_5"]["columns"]]
    )


def _table_6(evidence: Evidence, methods: tuple[str, ...]) -> Numbers:
    """How often each method is best, by three interpretations, with the published
    counts.
    """
    found = results.wins(evidence.trials, methods)
    by = ["reading", "metric"]
    if found["published"].notna().any():
        values = ["percent", "published"]
    else:
        values = ["percent"]
    shown = (
        _wide(found, by, "method", values)
        .set_index(by)
        .join(found.groupby(by)["comparisons"].max())
    )
    return found, shown.reindex(found.set_index(by).index.unique()).reset_index()


def _accuracy(evidence: Evidence) -> Numbers:
    """How far scores are from outcomes, and from the true risk where it is known."""
    found = results.accuracy(evidence.by(FIXED).trials)
    shown = results.in_order(evidence, found, ["model", "method"])
    return found, shown.replace({"method": {OURS: "propcal (ours)"}})


def _base_models(evidence: Evidence) -> Numbers:
    found = results.base_on_both_sets(evidence.by(FIXED).trials)
    return found, results.in_order(evidence, found, ["model"])


def _tests(evidence: Evidence) -> Numbers:
    found = results.tests(evidence.trials)
    first, second = (found[name].replace(SHORT) for name in ("method_a", "method_b"))
    return found, found.assign(pair=first + " – " + second)


def _cells(evidence: Evidence, name: str) -> Numbers:
    """Alpha by the smallest cell that is corrected; or gamma and rho."""
    found = results.cells(evidence, name)
    by = ["method", "model", *results.PARAMETERS]
    shown = _wide(
        found.fillna(dict.fromkeys(results.PARAMETERS, -1.0)), by, "metric", ["median"]
    )
    shown = results.in_order(evidence, shown, by)
    shown["size"] = [
        f"{100 * share:g} %" if share >= 0 else "as printed"
        for share in shown["min_share"]
    ]
    shown.loc[shown["alpha"] < 0, "size"] = PRINTED.unknown
    for column in ("alpha", "gamma", "rho"):
        shown[column] = [
            PRINTED.unknown if value < 0 else f"{value:g}" for value in shown[column]
        ]
    return found, shown


TABLES: dict[str, Callable[[Evidence], Numbers]] = {
    "table_4": lambda evidence: _table_4(evidence, FIXED),
    "table_4_by_sizes": lambda evidence: _table_4(evidence, s.SIZES),
    "table_4_by_own": lambda evidence: _table_4(evidence, s.OWN),
    "table_4_by_alpha": _table_4_by_alpha,
    "table_5": _table_5,
    "table_6": lambda evidence: _table_6(evidence, results.THREE),
    # by the fixed rule: our method has no alpha of Table 3, and so no rule of its own
    # to share with others
    "table_6_with_ours": lambda evidence: _table_6(evidence.by(FIXED), results.METHODS),
    "accuracy": _accuracy,
    "base_models": _base_models,
    "best_alpha": lambda evidence: (results.best_alphas(evidence),) * 2,
    "tests": _tests,
}
OF_CELLS = tuple(s.DATA["cells"]["fixed"])
NAMES = ("table_1", *TABLES, "claims", *OF_CELLS)
# Tables that only files and pages have: a terminal does not show them.
LONG = ("table_4_by_alpha", "best_alpha", "tests")


def table(evidence: Evidence, name: str) -> PaperTable:
    """One of TABLES, with its words."""
    frame, shown = (
        _cells(evidence, name) if name in OF_CELLS else TABLES[name](evidence)
    )
    readings = "; ".join(f"by {key}: {meaning}" for key, meaning in s.READINGS.items())
    known = {
        "sure": evidence.how_sure()
        + (" They are in the CSV." if evidence.n_seeds > 1 else ""),
        "unit": evidence.columns.unit,
        "fixed": s.DATA["cells"]["fixed"],
        "sizes_share": 100 * s.SIZES_RULE["min_share"],
        "share": 100 * s.RULE["alpha"] * s.RULE["gamma"] / s.RULE["n_bins"],
        "readings": f"{readings[0].upper()}{readings[1:]}.",
        "too_few": results.too_few(frame) if name == "tests" else "",
    }
    if name == "table_4" and OURS in evidence.methods:
        more = OURS_NOTE
    else:
        more = ""
    return table_of(name, frame, shown, more=more, **known)


def all_tables(
    evidence: Evidence, cohort: str | PathLike[str] | None = None
) -> tuple[list[PaperTable], list[str]]:
    """Every table in the order of the paper, and a sentence for each table that is not
    available.
    """
    if evidence.of_cells:
        return [table(evidence, name) for name in OF_CELLS], []
    first = table_1(evidence, cohort)
    leading = evidence.by(evidence.setup.rule)
    names = [
        name
        for name in TABLES
        if name != "table_6_with_ours" or OURS in evidence.methods
    ]
    others = [table(leading, name) for name in names]
    if isinstance(first, str):
        return (others, [first])
    return ([first, *others], [])


def table_1(
    evidence: Evidence, cohort: str | PathLike[str] | None = None
) -> PaperTable | str:
    """Admissions by group and gender with the published ones, or a sentence on why they
    are not available.

    Parameters
    ----------
    evidence : Evidence
        Its store records whether the visits were simulated, and their fingerprint.
    cohort : path, optional
        The file of visits; without it, visits are simulated again. A file with other
        visits is refused.
    """
    missing = "Table 1 is not shown"
    if not evidence.of_admissions:
        return _rates(evidence) or f"{missing}: the store has no counts of groups yet."
    if cohort is None and not evidence.generated:
        return f"{missing}: the visits come from a file. Name it with --cohort FILE."
    rows = evidence.about.get("rows")
    surrogate = str(
        evidence.about.get("surrogate", "weak")
    )  # stores before 0.3 do not name it
    visits = visits_of(
        cohort, rows if isinstance(rows, int) else None, surrogate=surrogate
    )
    if visits.about["fingerprint"] == evidence.about.get("fingerprint"):
        return prevalence_table(prevalence(visits.frame))
    if cohort is not None:
        raise refused("other visits", cohort=cohort)
    return f"{missing}: {WORDS['table_1']['changed']}"


def _rates(evidence: Evidence) -> PaperTable | None:
    """Observed rates by group for any other cohort, from the counts of the base model's
    test sets.
    """
    counts = evidence.counts[evidence.counts["method"] == BASE]
    if counts.empty:
        return None
    counts = counts[counts["model"] == counts["model"].iloc[0]]
    found = (
        counts.groupby(["groups", "group_name"])[["people", "positives"]]
        .sum()
        .reset_index()
    )
    n_seeds = counts.groupby("groups")["seed"].nunique()
    found["people_per_test_set"] = found["people"] / found["groups"].map(n_seeds)
    found["share"] = found["people_per_test_set"] / counts["n_test"].mean()
    found["rate"] = found["positives"] / found["people"]
    rows = results.in_order(evidence, found, ["groups"])
    few = rows["people_per_test_set"] < FEWEST_SHOWN
    unknown = PRINTED.unknown
    shown = pd.DataFrame({"grouping": rows["groups"], "group": rows["group_name"]})
    people = (
        rows["people_per_test_set"]
        .map("{:,.0f}".format)
        .mask(few, f"fewer than {FEWEST_SHOWN}")
    )
    shown[f"{evidence.columns.unit} in a test set"] = people
    for heading, name in (("share", "share"), ("observed rate", "rate")):
        shown[heading] = (100 * rows[name]).map("{:.1f} %".format).mask(few, unknown)
    return table_of(
        "table_1_rates", found, shown, "table_1", outcome=evidence.columns.outcome
    )


def prevalence(visits: pd.DataFrame) -> pd.DataFrame:
    """Visits and admissions by group and gender, with those of the paper for
    comparison.

    Parameters
    ----------
    visits : pandas.DataFrame
        A cohort with the columns race, gender and admitted, such as `make_ed_visits` or
        `mimic_cohort`.

    Returns
    -------
    pandas.DataFrame
        Indexed by race and gender, each including "Overall". `visits`, `admitted` and
        `rate` are of the cohort; `published_visits`, `published_admitted` and
        `published_rate` are from Table 1. Groups that Table 1 does not have come last
        before the total, without published numbers. Visits with unknown gender or race
        only count in the totals.

    Examples
    --------
    >>> from propcal.datasets import make_ed_visits
    >>> table = prevalence(make_ed_visits(seed=1))
    >>> table.loc[("White", "F"), ["visits", "published_visits", "published_admitted"]].astype(int).tolist()
    [50174, 50174, 18147]
    """
    missing = [name for name in ("race", "gender", "admitted") if name not in visits]
    if missing:
        raise refused("table 1", missing=missing)
    by = ["race", "gender"]
    cells = (
        visits.groupby(by, dropna=False)["admitted"]
        .agg(visits="size", admitted="sum")
        .reset_index()
    )
    counts = [
        (race, gender, *n)
        for race, both in datasets.TABLE_1.items()
        for gender, n in zip("FM", both)
    ]
    printed = pd.DataFrame(counts, columns=[*by, "visits", "admitted"])
    races = [
        *datasets.TABLE_1,
        *sorted({*visits["race"].dropna()} - {*datasets.TABLE_1}),
        OVERALL,
    ]
    order = pd.MultiIndex.from_product([races, GENDERS], names=by)
    found = _with_totals(cells).reindex(order, fill_value=0)
    found = found.join(_with_totals(printed).add_prefix("published_"))
    for kind in ("", "published_"):
        n = found[f"{kind}visits"]
        found[f"{kind}rate"] = (found[f"{kind}admitted"] / n.where(n > 0)).astype(float)
    return found


def _with_totals(cells: pd.DataFrame) -> pd.DataFrame:
    """Visits and admissions by race and gender, with those of all races and of all
    genders.
    """
    over = [
        {},
        {"race": OVERALL},
        {"gender": OVERALL},
        {"race": OVERALL, "gender": OVERALL},
    ]
    return (
        pd.concat([cells.assign(**whole) for whole in over])
        .groupby(["race", "gender"])
        .sum()
    )


def prevalence_table(found: pd.DataFrame, name: str = "here") -> PaperTable:
    """Table 1: for each group a row of the cohort, called `name`, and one of the
    paper.
    """
    rows = []
    for race in dict.fromkeys(found.index.get_level_values("race")):
        for label, kind in ((name, ""), ("paper", "published_")):
            cells = []
            for gender in GENDERS:
                row: Any = found.loc[(race, gender)]
                n, admitted, rate = (
                    float(row[f"{kind}{c}"]) for c in ("visits", "admitted", "rate")
                )
                share = f" ({100 * rate:.0f}%)" if n else ""
                cells.append(
                    PRINTED.unknown if n != n else f"{admitted:.0f}/{n:.0f}{share}"
                )
            rows.append(("" if kind else str(race), label, *cells))
    shown = pd.DataFrame(rows, columns=["group", "", *GENDERS.values()])
    return table_of("table_1", found.reset_index(), shown)
