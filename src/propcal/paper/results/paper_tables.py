"""Tables 4, 5 and 6 with the published numbers, for the terminal, as Markdown and as CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from propcal.numbers import IN_PAPER
from propcal.paper.experiment.settings import BASE, MC, OURS, PMC, RULE, SIZES_RULE
from propcal.paper.experiment.setups import FIXED, OWN, SIZES
from propcal.paper.results import accuracy, over_alpha, percent_change, updates_time, wins
from propcal.paper.results.evidence import METRICS, Evidence
from propcal.paper.results.seed_intervals import tests, too_few

METHODS = (MC, PMC, OURS)
NAMES = {OURS: "propcal (ours)"}
OURS_NOTE = '"ours" is the default method of propcal, which is not in the paper.'
APART = "Includes our method, which has one setting for each grouping. Interpretations as in Table 6."


@dataclass(frozen=True)
class Table:
    """A table: its file name, title, notes, numbers, and the rows that are shown."""

    name: str
    title: str
    notes: tuple[str, ...]
    frame: pd.DataFrame
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_texts: int = 2  # the first columns contain words, the others numbers
    drawing: Any = None  # replaces the rows in a terminal

    def markdown(self) -> str:
        """The title, table and notes as Markdown."""
        from propcal.output.report.render import markdown_text

        align = ["---" if i < self.n_texts else "---:" for i in range(len(self.headings))]
        rows = [[markdown_text(cell) for cell in row] for row in (self.headings, *self.rows)]
        lines = ["| " + " | ".join(row) + " |" for row in (rows[0], align, *rows[1:])]
        body = "\n".join(lines) if self.rows else "Nothing yet."
        notes = [markdown_text(note) for note in self.notes]
        return "\n\n".join([f"### {markdown_text(self.title)}", body, *notes]) + "\n"

    def latex(self) -> str:
        """The table for LaTeX, with the rules of the booktabs package; the notes are comments."""
        columns = "".join("l" if i < self.n_texts else "r" for i in range(len(self.headings)))
        lines = [" & ".join(latex_text(cell) for cell in row) + r" \\" for row in (self.headings, *self.rows)]
        body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        notes = [f"% {line}" for note in self.notes for line in note.splitlines()]
        return "\n".join(
            [
                *notes,
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{latex_text(self.title)}}}",
                rf"\label{{tbl:{self.name.replace('_', '-')}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                *body,
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def to_rich(self) -> Any:
        """The table for a terminal."""
        from rich.table import Table as Drawn

        if self.drawing is not None:
            return self.drawing
        drawn = Drawn(title=self.title, title_justify="left", title_style="bold", box=None)
        drawn.pad_edge, drawn.padding = False, (0, 1, 0, 0)
        drawn.leading = int(any(len(cell) > 40 for row in self.rows for cell in row))  # sentences
        for i, heading in enumerate(self.headings):
            words = i < self.n_texts
            drawn.add_column(heading, justify="left" if words else "right", no_wrap=not words)
        for row in self.rows:
            drawn.add_row(*row)
        return drawn


LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "×": r"$\times$",
}


def latex_text(text: str) -> str:
    r"""Text in which LaTeX sees no commands.

    >>> print(latex_text("50 % of race_x & more"))
    50 \% of race\_x \& more
    """
    return "".join(LATEX.get(letter, letter) for letter in text)


def table_4(evidence: Evidence) -> Table:
    """Percent change from the base model by our fixed rule, with the published medians."""
    return _table_4(evidence.by(FIXED))


def _table_4(evidence: Evidence) -> Table:
    """Percent change from the base model, by the rule of the evidence."""
    found = percent_change.percent_change(evidence.trials)
    rows = []
    for method in METHODS:
        for model in evidence.models:
            part = found[(found["method"] == method) & (found["model"] == model)].set_index("metric")
            if part.empty:
                continue
            cells = [_name(method), model, str(part["n_seeds"].max())]
            for metric in METRICS:
                cells += [IN_PAPER.decimal(part.at[metric, c], 2, "+") for c in ("change", "published")]
            rows.append(tuple(cells))
    names = [f"{name.removesuffix(' loss')} %" for name in METRICS.values()]
    headings = ("method", "model", "seeds", *(h for name in names for h in (name, "paper")))
    title = "Table 4: median percent change from the base model"
    sure = f"{evidence.how_sure()} They are in the CSV." if evidence.n_seeds > 1 else evidence.how_sure()
    notes = (f"{percent_change.READING} {sure}", *([OURS_NOTE] if OURS in evidence.methods else []))
    return Table("table_4", title, notes, found, headings, tuple(rows))


def table_4_by_sizes(evidence: Evidence) -> Table:
    """Table 4 with the larger categories of the paper's definitions of the losses."""
    share = RULE["alpha"] * RULE["gamma"] / RULE["n_bins"]
    note = (
        "The same trials and medians as in Table 4, but losses include only categories of at least alpha * "
        f"lambda * N {evidence.unit}, {100 * SIZES_RULE['min_share']:g} % of the test set, as in the "
        "paper's definitions of the losses. In Table 4 itself the smallest share is alpha * lambda * gamma, "
        f"{100 * share:g} %, as in Algorithm 1. AUROC does not depend on this."
    )
    title = "Table 4 by the paper's definition of the losses: median percent change from the base model"
    return replace(_table_4(evidence.by(SIZES)), name="table_4_by_sizes", title=title, notes=(note,))


def table_4_by_own(evidence: Evidence) -> Table:
    """Table 4 with each trial, and its base model, judged by its own alpha, gamma and rho."""
    note = (
        "The same trials and medians as in Table 4, but each trial and its base model are judged with the "
        "trial's own alpha, gamma and rho, as in the paper's public code; our method with its default alpha "
        "of 0.05. A method is then judged on other categories at each setting. At a small alpha these are "
        "single people, for whom the error is that of one outcome: the fixed rule is the better measure."
    )
    title = "Table 4 by each trial's own rule: median percent change from the base model"
    return replace(_table_4(evidence.by(OWN)), name="table_4_by_own", title=title, notes=(note,))


def table_4_by_alpha(evidence: Evidence) -> Table:
    """Table 4 for each alpha separately."""
    found = percent_change.percent_change(evidence.trials, by=["alpha"])
    trials = evidence.trials
    keys = [trials[name] for name in ("method", "model", "alpha")]
    unchanged: Any = (trials["n_updates"] == 0).groupby(keys).mean()
    rows = []
    for (method, model, alpha), part in found.groupby(["method", "model", "alpha"], sort=False):
        values = part.set_index("metric")["change"]
        idle = IN_PAPER.decimal(100 * unchanged[method, model, alpha], 0)
        changed = [IN_PAPER.decimal(values[m], 2, "+") for m in METRICS]
        cells = (str(method), str(model), f"{alpha:g}", *changed, idle)
        rows.append((METHODS.index(str(method)), evidence.models.index(str(model)), alpha, cells))
    names = tuple(f"{name.removesuffix(' loss')} %" for name in METRICS.values())
    notes = (
        "Table 4 for each alpha separately; our method has none. Choosing the best alpha here would mean "
        "choosing on the test sets. No update: fits that corrected nothing and kept the base model.",
    )
    title = "Table 4 by alpha: median percent change from the base model"
    shown = tuple(cells for *_, cells in sorted(rows))
    headings = ("method", "model", "alpha", *names, "no update %")
    return Table("table_4_by_alpha", title, notes, found, headings, shown)


def table_5(evidence: Evidence) -> Table:
    """Updates and seconds to reach the same PMC, with the published numbers."""
    found = updates_time.updates_and_time(evidence)
    shown: list[tuple[str, ...]] = []
    for model in evidence.models:
        for _, row in found[found["model"] == model].sort_values("alpha").iterrows():
            for name, key in ((MC, "mc"), (PMC, "pmc")):
                updates = [IN_PAPER.whole(row[f"{p}{key}_updates"]) for p in ("", "published_")]
                seconds = IN_PAPER.decimal(row[f"{key}_seconds"], 3)
                printed = IN_PAPER.whole(row[f"published_{key}_seconds"])
                shown.append((model, f"{row['alpha']:g}", name, *updates, seconds, printed))
            ratios = [f"{p}{w}_ratio" for w in ("updates", "seconds") for p in ("", "published_")]
            shown.append(("", "", "ratio", *(_times(row[name]) for name in ratios)))
    headings = ("model", "alpha", "method", "updates", "paper", "seconds", "paper")
    title = "Table 5: updates and time for the same alpha of PMC"
    notes = (
        f"{updates_time.READING} The convergence figure has medians for each rho instead.",
        "The paper's seconds are for its own code on a cluster.",
    )
    return Table("table_5", title, notes, found, headings, tuple(shown), n_texts=3)


def table_6(evidence: Evidence) -> Table:
    """How often each method is best, by three interpretations, with the published counts."""
    return _wins_table(evidence, wins.PUBLISHED, "table_6", "Table 6: best in percent of the comparisons")


def table_6_with_ours(evidence: Evidence) -> Table:
    """Table 6 with our method included; the paper has no such table."""
    title = "Like Table 6, with our method: best in percent of the comparisons"
    # by the fixed rule: our method has no alpha of Table 3, and so no rule of its own to share with others
    return _wins_table(evidence.by(FIXED), (*wins.PUBLISHED, OURS), "table_6_with_ours", title)


def _wins_table(evidence: Evidence, methods: tuple[str, ...], name: str, title: str) -> Table:
    found = wins.wins(evidence.trials, methods)
    printed = bool(found["published"].notna().any())
    rows = []
    for (reading, metric), part in found.groupby(["reading", "metric"], sort=False):
        own = part.set_index("method")
        cells = [str(reading), METRICS[str(metric)], f"{own['comparisons'].max():,}"]
        for method in methods:
            cells.append(IN_PAPER.decimal(own.at[method, "percent"], 0))
            cells += [IN_PAPER.decimal(own.at[method, "published"], 0)] if printed else []
        rows.append(tuple(cells))
    names = [_name(method) for method in methods]
    columns = [heading for name in names for heading in ((name, "paper") if printed else (name,))]
    readings = "; ".join(f"by {key}: {words}" for key, words in wins.IN_WORDS.items())
    notes = (wins.READING, f"{readings[0].upper()}{readings[1:]}.") if printed else (APART,)
    headings = ("winner by", "metric", "n", *columns)
    return Table(name, title, notes, found, headings, tuple(rows))


def best_alpha_table(evidence: Evidence) -> Table:
    """Updates and seconds that each method needs for its best median, used by the claims about updates."""
    found = over_alpha.best_alphas(evidence)
    rows = []
    for _, row in found.iterrows():
        names = (METRICS[row["metric"]], row["model"], row["groups"], row["method"], f"{row['alpha']:g}")
        cost = (IN_PAPER.whole(row["n_updates"]), IN_PAPER.decimal(row["fit_seconds"], 3))
        rows.append((*names, IN_PAPER.decimal(row["median"], 4), *cost))
    headings = ("metric", "model", "grouping", "method", "alpha", "median", "updates", "seconds")
    notes = ("The alpha with the best median over seeds, gamma and rho on the test sets, as in the paper.",)
    title = "Each method at its best alpha"
    return Table("best_alpha", title, notes, found, headings, tuple(rows), n_texts=4)


def accuracies(evidence: Evidence) -> Table:
    """How far scores are from outcomes, and from the true risk where it is known."""
    found = accuracy.accuracy(evidence.by(FIXED).trials).set_index(["model", "method"])
    rows = []
    for model in evidence.models:
        for method in (BASE, *METHODS):
            if (model, method) in found.index:
                values = [IN_PAPER.decimal(found.at[(model, method), name], 4) for name in accuracy.COLUMNS]
                seeds = str(found.at[(model, method), "n_seeds"])
                rows.append((model, NAMES.get(method, method), seeds, *values))
    headings = ("model", "method", "seeds", *accuracy.COLUMNS.values())
    title = "Accuracy of the scores (not in the paper)"
    return Table("accuracy", title, (accuracy.READING,), found.reset_index(), headings, tuple(rows))


def base_models(evidence: Evidence) -> Table:
    """The losses of the base models on training and test sets."""
    found = accuracy.base_on_both_sets(evidence.by(FIXED).trials)
    rows = [
        (model, row["groups"], *(IN_PAPER.decimal(row[name], 4) for name in found.columns[2:]))
        for model in evidence.models
        for _, row in found[found["model"] == model].iterrows()
    ]
    headings = (
        "model",
        "grouping",
        *(f"{loss} loss, {data}" for loss in ("MC", "PMC") for data in ("fitting data", "test set")),
    )
    title = "The base models on the fitting data of the post-processing and on test sets (not in the paper)"
    return Table("base_models", title, (accuracy.TRAINING_READING,), found, headings, tuple(rows))


def significance(evidence: Evidence) -> Table:
    """Both significance tests for every pair of methods."""
    found = tests(evidence.trials)
    rows = []
    for _, row in found.iterrows():
        pair = f"{_name(row['method_a'])} – {_name(row['method_b'])}"
        names = (METRICS[row["metric"]], row["model"], pair, str(row["n_seeds"]))
        paired, least = (f"{row[c]:.2g}" for c in ("signed_rank_corrected", "smallest_possible_corrected"))
        rows.append((*names, f"{row['rank_sum_corrected']:.2g}", row["mark"], paired, least))
    headings = ("metric", "model", "pair", "seeds", "rank-sum p", "mark", "signed-rank p", "least possible")
    notes = (
        "The value of a seed is the median over a method's settings. Both p-values are multiplied by the "
        "number of pairs for a metric (Bonferroni); pairs with our method are counted separately. Least "
        "possible: the smallest p-value that the rank-sum test can give with this number of seeds.",
        too_few(found),
    )
    kept = tuple(filter(None, notes))
    title = "Do methods differ? Two-sided tests"
    return Table("tests", title, kept, found, headings, tuple(rows), n_texts=3)


def _times(ratio: float) -> str:
    """A ratio as text."""
    return IN_PAPER.unknown if pd.isna(ratio) else f"{ratio:.1f}x"


def _name(method: str) -> str:
    return {BASE: "base", OURS: "ours"}.get(method, method)


TABLES: dict[str, Callable[[Evidence], Table]] = {
    "table_4": table_4,
    "table_4_by_sizes": table_4_by_sizes,
    "table_4_by_own": table_4_by_own,
    "table_4_by_alpha": table_4_by_alpha,
    "table_5": table_5,
    "table_6": table_6,
    "table_6_with_ours": table_6_with_ours,
    "accuracy": accuracies,
    "base_models": base_models,
    "best_alpha": best_alpha_table,
    "tests": significance,
}
