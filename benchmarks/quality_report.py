"""Writes tables and a figure of the results of quality.py, and says how often the bar
was reached.

python benchmarks/quality_report.py

Reads benchmarks/results/quality.jsonl; writes benchmarks/results/quality.md and
docs/images/quality.png."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from quality_kinds import KINDS

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "quality.png"
METHODS = [
    "base",
    "logistic",
    "beta",
    "isotonic",
    "Venn-Abers",
    "isotonic per group",
    "HKRR",
    "MCGrad",
    "propcal, paper",
    "propcal",
]
# column, heading, factor, digits; lower is better
KNOWN = [
    ("excess", "log loss x10,000", 1e4, 1),
    ("true_mse", "mse x1000", 1000, 2),
    ("true_pmc_large", "PMC", 1, 2),
    ("true_rms", "rms", 1, 3),
]
SEEN = [
    ("brier", "Brier", 1, 4),
    ("log_loss", "log loss", 1, 4),
    ("debiased", "debiased x1000", 1000, 1),
]
LOOK = {  # colours of Okabe and Ito, with markers; methods that hardly differ are grey
    "base": ("#000000", "", ":"),
    "logistic": ("#009E73", "^", "-"),
    "beta": ("0.75", "v", "-"),
    "isotonic": ("0.6", "<", "-"),
    "Venn-Abers": ("0.45", ">", "-"),
    "isotonic per group": ("#E69F00", "s", "-"),
    "HKRR": ("#CC79A7", "P", "-"),
    "MCGrad": ("#D55E00", "D", "-"),
    "propcal, paper": ("#56B4E9", "o", "--"),
    "propcal": ("#0072B2", "o", "-"),
}


def load() -> pd.DataFrame:
    """The results of complete trials; `excess` is the expected log loss less that of
    the base score.
    """
    lines = (HERE / "results" / "quality.jsonl").read_text().splitlines()
    results = pd.DataFrame(map(json.loads, lines))
    trial = ["data", "kind", "seed"]
    complete = results.groupby(trial)["method"].transform(
        lambda names: {"propcal", "MCGrad"} <= set(names)
    )
    results = results[complete]
    base = results[results["method"] == "base"].set_index(trial)["true_log_loss"]
    own = results.set_index(trial).index.map(base)
    return results.assign(
        excess=results["true_log_loss"] - np.asarray(own, dtype=float)
    )


def wide(results: pd.DataFrame, data: str, kind: str, column: str) -> pd.DataFrame:
    """One measure as a table of repeats by methods."""
    rows = results[(results["data"] == data) & (results["kind"] == kind)]
    table = rows.pivot_table(index="seed", columns="method", values=column)
    return table[[name for name in METHODS if name in table]]


def best(table: pd.DataFrame) -> set[str]:
    """The methods with the lowest mean, or within one paired standard error of it."""
    lowest = table.mean().idxmin()
    tied = set()
    for name in table:
        gap = (table[name] - table[lowest]).dropna()
        spread = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        if gap.mean() <= spread + 1e-12:
            tied.add(name)
    return tied


def generated(results: pd.DataFrame) -> list[str]:
    """The sizes of generated data, ascending."""
    return sorted(
        {d for d in results["data"] if d[0].isdigit()},
        key=lambda d: int(d.replace(",", "")),
    )


def error_of(gap: pd.Series) -> float:
    """The standard error of a mean of paired differences."""
    return float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0


def bar(results: pd.DataFrame) -> list[str]:
    """How often each part of the bar is reached, and where it is missed."""
    cells = [(data, kind) for data in generated(results) for kind in KINDS]
    lowest, level, overall, harm = {}, {}, {}, {}
    for data, kind in cells:
        loss = wide(results, data, kind, "excess")
        if "propcal" not in loss:
            continue
        pmc = wide(results, data, kind, "true_pmc_large")
        lowest[data, kind] = "propcal" in best(loss)
        gap = pmc["propcal"] - pmc["MCGrad"]
        level[data, kind] = gap.mean() <= error_of(gap) + 1e-12
        if data in ("500", "1,500") and kind == "overall off":
            gap = loss["propcal"] - loss["logistic"]
            overall[data, kind] = gap.mean() <= error_of(gap)
        harm[data, kind] = loss["propcal"].mean() <= error_of(loss["propcal"]) + 1e-12
    lines = ["## The bar", "", "| part | reached | missed |", "| --- | --- | --- |"]
    for title, found in (
        ("log loss lowest or tied (90 %)", lowest),
        ("PMC not higher than MCGrad's (85 %)", level),
        (
            "overall off, 500 and 1,500 people: level with logistic recalibration",
            overall,
        ),
        ("log loss not higher than the raw score's", harm),
    ):
        missed = (
            "; ".join(
                f"{kind} {data}"
                for (data, kind), reached in found.items()
                if not reached
            )
            or "-"
        )
        lines.append(f"| {title} | {sum(found.values())} of {len(found)} | {missed} |")
    return [*lines, ""]


def summary(results: pd.DataFrame) -> list[str]:
    """Log loss less the base score's and PMC against the true risk, a row for each size
    and kind.
    """
    lines = [
        "## Against the true risk: log loss x10,000 less the base score's / PMC",
        "",
    ]
    lines += [
        "| people | score | " + " | ".join(METHODS) + " |",
        "| --- | --- |" + " --- |" * len(METHODS),
    ]
    for data in generated(results):
        for kind in KINDS:
            tables = [
                (wide(results, data, kind, c), f, d)
                for c, _, f, d in (KNOWN[0], KNOWN[2])
            ]
            cells = []
            for name in METHODS:
                parts = []
                for table, factor, digits in tables:
                    if name in table:
                        text = f"{factor * table[name].mean():.{digits}f}".replace(
                            "-0.0", "0.0"
                        )
                        parts.append(f"**{text}**" if name in best(table) else text)
                cells.append(" / ".join(parts) or "-")
            lines.append(f"| {data} | {kind} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def section(results: pd.DataFrame, data: str, kind: str) -> list[str]:
    columns = [
        *(SEEN if kind == "real" else [*KNOWN, *SEEN[:2]]),
        ("seconds", "seconds", 1, 3),
    ]
    tables = {column: wide(results, data, kind, column) for column, *_ in columns}
    seeds = len(tables["brier"])
    lines = [f"## {data}, {kind} ({seeds} seeds)", ""]
    lines.append(
        "| method | " + " | ".join(heading for _, heading, *_ in columns) + " |"
    )
    lines.append("| --- |" + " --- |" * len(columns))
    judged = {c: best(t) for c, t in tables.items() if c != "seconds"}
    for name in tables["brier"]:
        cells = []
        for column, _, factor, digits in columns:
            text = f"{factor * tables[column][name].mean():.{digits}f}"
            cells.append(f"**{text}**" if name in judged.get(column, ()) else text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def draw(results: pd.DataFrame) -> None:
    sizes = generated(results)
    shown = [
        ("excess", "log loss minus the raw score's"),
        ("true_pmc_large", "PMC against true risk"),
    ]
    figure, axes = plt.subplots(
        len(shown), len(KINDS), figsize=(22, 6), sharex=True, layout="constrained"
    )
    for row, (column, label) in zip(axes, shown):
        for ax, kind in zip(row, KINDS):
            for name in (name for name in METHODS if name in set(results["method"])):
                color, marker, style = LOOK[name]
                means = [
                    wide(results, size, kind, column)
                    .get(name, pd.Series(dtype=float))
                    .mean()
                    for size in sizes
                ]
                x = [int(size.replace(",", "")) for size in sizes]
                wide_line = 2.4 if name.startswith("propcal") else 1.3
                ax.plot(
                    x,
                    means,
                    color=color,
                    marker=marker,
                    ls=style,
                    ms=4.5,
                    lw=wide_line,
                    label=name,
                )
            ax.set_xscale("log")
            ax.set_yscale("symlog", linthresh=1e-3 if column == "excess" else 1e-1)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xticks(
                x, [f"{n // 1000}k" if n > 999 else str(n) for n in x], fontsize=7
            )
            for text in ax.get_xticklabels()[1:-1:2]:
                text.set_visible(False)  # they would overlap
            ax.minorticks_off()
            if column == "excess":
                ax.set_title(kind)
        row[0].set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("people to fit")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        fontsize=9,
    )
    figure.savefig(PICTURE, dpi=80)


def main() -> None:
    results = load()
    lines = ["# Quality, in full", ""]
    lines += [
        "Means over seeds; bold: lowest, or within one paired standard error of the lowest.",
        "",
    ]
    lines += bar(results) + summary(results)
    for data in generated(results):
        for kind in KINDS:
            if not wide(results, data, kind, "brier").empty:
                lines += section(results, data, kind)
    for data in sorted({d for d in results["data"] if not d[0].isdigit()}):
        lines += section(results, data, "real")
    (HERE / "results" / "quality.md").write_text("\n".join(lines))
    draw(results)


if __name__ == "__main__":
    main()
