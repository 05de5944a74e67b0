"""Writes tables and a figure of the results of quality.py, with ranks and paired tests.

python benchmarks/quality_report.py

Reads benchmarks/results/quality.jsonl; writes benchmarks/results/quality.md and docs/images/quality.png.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "quality.png"
METHODS = [
    "base",
    "temperature",
    "Platt",
    "isotonic",
    "isotonic per group",
    "HKRR",
    "MCGrad",
    "propcal, paper",
    "propcal",
]
KINDS = ["perfect", "mild", "gross", "one intersection"]
TITLES = dict(zip(KINDS, ["perfect score", "mildly wrong", "grossly wrong", "wrong in one intersection"]))
# column, heading, factor, digits; lower is better, except for AUROC
KNOWN = [
    ("true_mse", "mse x1000", 1000, 2),
    ("true_pmc", "PMC", 1, 2),
    ("true_mc", "MC", 1, 3),
    ("true_rms", "rms", 1, 3),
]
SEEN = [
    ("auroc", "AUROC", 1, 4),
    ("brier", "Brier", 1, 4),
    ("log_loss", "log loss", 1, 4),
    ("mc", "MC seen", 1, 2),
    ("pmc", "PMC seen", 1, 2),
    ("pmc_floor", "its floor", 1, 2),
    ("dc", "DC seen", 1, 2),
    ("debiased", "debiased x1000", 1000, 1),
    ("seconds", "seconds", 1, 3),
]
LOOK = {  # colours of Okabe and Ito, with markers; methods that hardly differ are grey
    "base": ("#000000", "", ":"),
    "temperature": ("0.7", "v", "-"),
    "Platt": ("0.6", "^", "-"),
    "isotonic": ("0.5", "<", "-"),
    "isotonic per group": ("#E69F00", "s", "-"),
    "HKRR": ("#CC79A7", "P", "-"),
    "MCGrad": ("#D55E00", "D", "-"),
    "propcal, paper": ("#56B4E9", "o", "--"),
    "propcal": ("#0072B2", "o", "-"),
}


def load() -> pd.DataFrame:
    lines = (HERE / "results" / "quality.jsonl").read_text().splitlines()
    return pd.DataFrame(map(json.loads, lines))


def wide(results: pd.DataFrame, data: str, kind: str, column: str) -> pd.DataFrame:
    """One measure as a table of repeats by methods."""
    rows = results[(results["data"] == data) & (results["kind"] == kind)]
    table = rows.pivot_table(index="repeat", columns="method", values=column)
    return table[[name for name in METHODS if name in table]]


def best(table: pd.DataFrame, *, larger: bool = False) -> set[str]:
    """The methods with the lowest mean, or within one paired standard error of it."""
    table = -table if larger else table
    lowest = table.mean().idxmin()
    tied = set()
    for name in table:
        gap = (table[name] - table[lowest]).dropna()
        spread = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        if gap.mean() <= spread + 1e-12:
            tied.add(name)
    return tied


def summary(results: pd.DataFrame) -> list[str]:
    """Errors against the true risk, one row for each size and kind of data."""
    shown = [name for name in METHODS if name not in ("temperature", "isotonic")]
    lines = ["## Against the true risk: mse x1000 / PMC / rms", ""]
    lines += ["| people | score | " + " | ".join(shown) + " |", "| --- | --- |" + " --- |" * len(shown)]
    for data in generated(results):
        for kind in KINDS:
            tables = [(wide(results, data, kind, c), f, d) for c, _, f, d in (KNOWN[0], KNOWN[1], KNOWN[3])]
            cells = []
            for name in shown:
                parts = []
                for table, factor, digits in tables:
                    if name in table:
                        text = f"{factor * table[name].mean():.{digits}f}"
                        parts.append(f"**{text}**" if name in best(table) else text)
                cells.append(" / ".join(parts) or "-")
            lines.append(f"| {data} | {kind} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def generated(results: pd.DataFrame) -> list[str]:
    """The sizes of simulated data, ascending."""
    return sorted({d for d in results["data"] if d[0].isdigit()}, key=lambda d: int(d.replace(",", "")))


def real(results: pd.DataFrame) -> list[str]:
    return sorted({d for d in results["data"] if not d[0].isdigit()})


def harm(results: pd.DataFrame) -> list[str]:
    """Our default minus the base score on held-out people, with paired standard errors."""
    lines = ["## Our default less the base score, on held-out outcomes", ""]
    lines += ["| data | score | Brier x10,000 | log loss x10,000 | AUROC x10,000 |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for data in [*generated(results), *real(results)]:
        for kind in KINDS if data[0].isdigit() else ["real"]:
            cells = []
            for column in ("brier", "log_loss", "auroc"):
                table = wide(results, data, kind, column)
                gap = 1e4 * (table["propcal"] - table["base"])
                cells.append(f"{gap.mean():+.2f} +- {gap.std(ddof=1) / np.sqrt(len(gap)):.2f}")
            lines.append(f"| {data} | {kind} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def section(results: pd.DataFrame, data: str, kind: str) -> list[str]:
    columns = SEEN if kind == "real" else KNOWN + SEEN
    tables = {column: wide(results, data, kind, column) for column, *_ in columns}
    repeats = len(tables["brier"])
    lines = [
        f"## {data}, {kind} ({repeats} repeats)" if kind != "real" else f"## {data} ({repeats} splits)",
        "",
    ]
    lines.append("| method | " + " | ".join(heading for _, heading, *_ in columns) + " |")
    lines.append("| --- |" + " --- |" * len(columns))
    judged = {c: best(t, larger=c == "auroc") for c, t in tables.items() if c not in ("seconds", "pmc_floor")}
    for name in tables["brier"]:
        cells = []
        for column, _, factor, digits in columns:
            text = f"{factor * tables[column][name].mean():.{digits}f}"
            cells.append(f"**{text}**" if name in judged.get(column, ()) else text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def comparisons(results: pd.DataFrame) -> list[str]:
    """Mean ranks over all trials, and Wilcoxon's paired test of our default against each method."""
    lines = ["## Ranks and paired tests", ""]
    lines += [
        "Simulated people with a miscalibrated score: mean rank (1 is best) over all trials with every method"
    ]
    lines += ["except HKRR, and the share of them in which our default was better (Wilcoxon's p).", ""]
    wrong = results[results["kind"].isin(KINDS[1:])]
    columns = KNOWN[:2] + KNOWN[3:] + [("brier", "Brier", 1, 4), ("log_loss", "log loss", 1, 4)]
    lines.append(
        "| method | "
        + " | ".join(f"{h.removesuffix(' x1000')}: rank, ours better" for _, h, *_ in columns)
        + " |"
    )
    lines.append("| --- |" + " --- |" * len(columns))
    ranks, wins = {}, {}
    for column, *_ in columns:
        table = wrong.pivot_table(index=["data", "kind", "repeat"], columns="method", values=column)
        ranks[column] = table.drop(columns="HKRR", errors="ignore").rank(axis=1).mean()
        for name in table:
            gap = (table["propcal"] - table[name]).dropna()
            if name != "propcal" and gap.any():
                wins[column, name] = (gap < 0).mean(), wilcoxon(gap).pvalue
    for name in METHODS:
        cells = []
        for column, *_ in columns:
            rank = f"{ranks[column][name]:.1f}" if name in ranks[column] else "-"
            won = wins.get((column, name))
            cells.append(rank if won is None else f"{rank}, {100 * won[0]:.0f} % (p {won[1]:.0e})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def draw(results: pd.DataFrame) -> None:
    sizes = [size for size in ("1,500", "5,000", "50,000", "200,000") if size in set(results["data"])]
    shown = [("true_mse", "mean squared error to true risk"), ("true_pmc", "PMC against true risk")]
    figure, axes = plt.subplots(len(shown), len(KINDS), figsize=(13, 6.2), sharex=True, layout="constrained")
    for row, (column, label) in zip(axes, shown):
        for ax, kind in zip(row, KINDS):
            for name in METHODS:
                color, marker, style = LOOK[name]
                means = [
                    wide(results, size, kind, column).get(name, pd.Series(dtype=float)).mean()
                    for size in sizes
                ]
                x = [int(size.replace(",", "")) for size in sizes]
                wide_line = 2.4 if name.startswith("propcal") else 1.3
                ax.plot(x, means, color=color, marker=marker, ls=style, ms=4.5, lw=wide_line, label=name)
            ax.set_xscale("log")
            ax.set_yscale("symlog", linthresh=1e-5 if column == "true_mse" else 1e-2)
            ax.set_ylim(bottom=0)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xticks(x, [f"{n // 1000}k" if n > 9999 else f"{n:,}" for n in x])
            ax.minorticks_off()
            if column == "true_mse":
                ax.set_title(TITLES[kind])
        row[0].set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("people to learn from")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    results = load()
    lines = ["# Quality, in full", ""]
    lines += ["Means over repeats; bold: lowest, or within one paired standard error of the lowest.", ""]
    lines += summary(results) + harm(results) + comparisons(results)
    for data in generated(results):
        for kind in KINDS:
            lines += section(results, data, kind)
    for data in real(results):
        lines += section(results, data, "real")
    (HERE / "results" / "quality.md").write_text("\n".join(lines))
    draw(results)


if __name__ == "__main__":
    main()
