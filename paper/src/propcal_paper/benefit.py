"""Who gains and who loses by post-processing: errors of the same patients before and
after, by subgroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, isnan
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray, labels, plural, short
from propcal_paper import figure_parts as parts
from propcal_paper.errors import refused
from propcal_paper.figure_parts import LOOKS, PAGE, SMALL, TEXT
from propcal_paper.results import in_order, median_interval
from propcal_paper.settings import BASE, MC, MODEL_NAMES, N_BINS, OURS, PMC
from propcal_paper.tables import PaperTable, table_of
from propcal_paper.trial_arrays import subgroup
from propcal_paper.trial_store import KEYS, Evidence

# Algorithm 1 with the paper's middle settings; alpha varies. Our method has its
# defaults.
SETTING = {"gamma": 0.05, "rho": 0.1}
# the alphas of which stores have curves
ALPHA = 0.1
FINE_ALPHA = 0.01
FEWEST = 20  # shuffles for a verdict
HELPS = "helps"
HARMS = "harms"
UNCLEAR = "no clear change"
UNCHANGED = "no change"
TOO_FEW = "too few shuffles"
LARGEST = "largest error"
ALL_CELLS = "largest error, all cells"
AVERAGE = "average error"
PREDICTION = "prediction error"
# The columns of the store with the errors; the average error comes from the counts of
# the curves.
COLUMNS = {
    LARGEST: "sizes_pmc_loss",
    ALL_CELLS: "pmc_loss",
    AVERAGE: "average",
    PREDICTION: "log_loss",
}
NAMES = {BASE: "before", OURS: "propcal's default"}
SHOWN_MODEL = "RF"
MOST_DIGITS = 5  # a change that is smaller than these can show is written as 0


def method_name(method: str, alpha: float) -> str:
    """A method with its alpha, as tables and figures call it."""
    if isnan(alpha):
        return NAMES.get(method, method)
    return f"{method}, alpha {alpha:g}"


def _with_names(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        name=[method_name(*pair) for pair in zip(frame["method"], frame["alpha"])]
    )


def _chosen(evidence: Evidence) -> pd.DataFrame:
    """The trials that are compared, in the order of the store and of the methods."""
    trials = evidence.stored
    same = np.logical_and.reduce(
        [np.isclose(trials[name], value) for name, value in SETTING.items()]
    )
    chosen = trials[
        (same & trials["method"].isin((MC, PMC))) | trials["method"].isin((BASE, OURS))
    ]
    return in_order(
        evidence, chosen, ["groups", "model", "method", "alpha"]
    ).drop_duplicates(KEYS)


def average_errors(evidence: Evidence) -> pd.DataFrame:
    """The average error of the subgroups, for each seed, base model and setting with
    curves.
    """
    found = evidence.group_sums[evidence.group_sums["positives"] > 0]
    weighted = found.assign(error=found["people"] * found["off"] / found["positives"])
    total = weighted.groupby(KEYS)[["error", "people"]].sum()
    return (total["error"] / total["people"]).rename("average").reset_index()


def benefit(evidence: Evidence) -> pd.DataFrame:
    """How each method changes the errors of each base model, in percent of the base
    model's.

    Returns
    -------
    frame
        groups, model, method, alpha (NaN for ours), smallest (the smallest cell of the
        fit, in rows; NaN for ours), measure, n_seeds, before and after (medians),
        change (median percent) with low and high (95 % bootstrap interval over seeds),
        better and worse (share of the seeds), verdict.
    """
    trials = _chosen(evidence).merge(average_errors(evidence), on=KEYS, how="left")
    whose = ["seed", "model", "groups"]
    names = ["groups", "model", "method", "alpha"]
    base = trials[trials["method"] == BASE].drop_duplicates(whose).set_index(whose)
    treated = trials[trials["method"] != BASE].join(
        base[[*COLUMNS.values()]].add_prefix("base_"), on=whose
    )
    rows = []
    values: Any
    for values, part in treated.groupby(names, sort=False, dropna=False):
        n = float(part["n_post"].median())
        alpha = float(values[-1])
        if alpha == alpha:
            smallest = max(1, ceil(n * alpha * SETTING["gamma"] / N_BINS))
        else:
            smallest = np.nan
        for measure, column in COLUMNS.items():
            both = part[[f"base_{column}", column]].dropna().to_numpy(dtype=float)
            rows += (
                [(*values, smallest, measure, *_compared(both))] if len(both) else []
            )
    columns = [
        *names,
        "smallest",
        "measure",
        "n_seeds",
        "before",
        "after",
        "change",
        "low",
        "high",
    ]
    return _with_names(
        pd.DataFrame(rows, columns=[*columns, "better", "worse", "verdict"])
    )


def _compared(both: FloatArray) -> tuple[Any, ...]:
    """The change from the first column to the second, over the rows (seeds)."""
    both = both[both[:, 0] > 0]
    change = 100 * (both[:, 1] / both[:, 0] - 1)
    interval = median_interval(change, confidence=0.95)[:3]
    verdict = verdict_on(*interval, len(both))
    if not len(both):
        return (0, *[np.nan] * 7, verdict)
    shares = np.mean([change < 0, change > 0], axis=1).tolist()
    return (len(both), *np.median(both, axis=0).tolist(), *interval, *shares, verdict)


def verdict_on(change: float, low: float, high: float, n_seeds: int) -> str:
    """Whether a change of an error is for the better or the worse.

    >>> verdict_on(-10, -14, -6, 30), verdict_on(12, 3, 20, 30), verdict_on(2, -5, 9, 30)
    ('helps', 'harms', 'no clear change')
    >>> verdict_on(-10, -14, -6, 5), verdict_on(0, 0, 0, 30)
    ('too few shuffles', 'no change')
    """
    if n_seeds < FEWEST:
        return TOO_FEW
    if change == low == high == 0:
        return UNCHANGED
    if high < 0:
        return HELPS
    if low > 0:
        return HARMS
    return UNCLEAR


def observed_to_expected(evidence: Evidence) -> pd.DataFrame:
    """O/E ratio of each subgroup before and after: median over seeds, with the range of
    most seeds.

    Returns
    -------
    frame
        groups, model, group_name, method, alpha, share (of the test set), rate
        (observed), ratio, low and high (5th and 95th percentile over seeds), n_seeds.
        Only subgroups with a share of at least gamma.
    """
    names = ["groups", "model", "group_name", "method", "alpha"]
    sums = _chosen(evidence)[KEYS].merge(evidence.group_sums, on=KEYS)
    sums = sums.assign(
        share=sums["people"] / sums["n_test"],
        ratio=sums["positives"] / sums["score_sum"],
    )
    each = sums.groupby(names, sort=False, dropna=False)
    total = each[["positives", "people"]].sum()
    ratio = each["ratio"]
    found = {
        "share": each["share"].mean(),
        "rate": total["positives"] / total["people"],
    }
    found |= {
        "ratio": ratio.median(),
        "low": ratio.quantile(0.05),
        "high": ratio.quantile(0.95),
    }
    ratios = pd.DataFrame({**found, "n_seeds": each.size()}).reset_index()
    return _with_names(
        ratios[ratios["share"] >= SETTING["gamma"]].reset_index(drop=True)
    )


def benefit_tables(stores: Mapping[str, Evidence]) -> list[PaperTable]:
    """What the stores of several outcomes say: the outcomes, how often methods help,
    changes, O/E ratios.
    """
    found = pd.concat(
        [benefit(e).assign(outcome=name) for name, e in stores.items()],
        ignore_index=True,
    )
    ratios = pd.concat(
        [observed_to_expected(e).assign(outcome=name) for name, e in stores.items()]
    )
    known: dict[str, Any] = {
        "unit": next(iter(stores.values())).columns.unit,
        "fewest": FEWEST,
    }
    rows = [
        (name, _rate(e), str(e.n_seeds), _auroc(e), e.setup.name)
        for name, e in stores.items()
    ]
    headings = [
        "outcome",
        "observed rate in test sets",
        "shuffles",
        "AUROC of the models",
        "set-up",
    ]
    outcomes = pd.DataFrame(rows, columns=headings)
    return [
        table_of("benefit_outcomes", outcomes, outcomes, **known),
        table_of("benefit", found, _tally(found, known["unit"]), **known),
        table_of("benefit_changes", found, _changes(found), **known),
        table_of("benefit_ratios", ratios, _ratios(ratios, stores), **known),
    ]


def _tally(found: pd.DataFrame, unit: str) -> pd.DataFrame:
    """A row for each method and alpha: in how many comparisons it helps, does nothing
    clear, and harms.
    """
    each = found.groupby("name", sort=False)
    smallest = (
        each["smallest"].min().map("{:,.0f}".format).replace("nan", "chosen by tests")
    )
    counted = (
        found.groupby(["name", "measure"])["verdict"].agg(_counted).unstack("measure")
    )
    first = pd.DataFrame({f"smallest cell in the fitting data, {unit}": smallest})
    counted = counted.reindex(columns=[*COLUMNS]).fillna("–")
    return first.join(counted).rename_axis("method").reset_index()


def _counted(verdicts: pd.Series) -> str:
    n = Counter(verdicts)
    if TOO_FEW in n:
        return TOO_FEW
    return f"{n[HELPS]} / {n[UNCLEAR] + n[UNCHANGED]} / {n[HARMS]}"


def _changes(found: pd.DataFrame) -> pd.DataFrame:
    """One row for each outcome, grouping, base model, method and alpha, with the errors
    side by side.
    """
    names = ["outcome", "groups", "model", "name"]
    cells = found.assign(cell=[*map(_change, found.to_dict("records"))])
    wide = cells.set_index([*names, "measure"])["cell"].unstack("measure")
    wide = wide.reindex(
        pd.MultiIndex.from_frame(found[names].drop_duplicates()), columns=[*COLUMNS]
    )
    return wide.fillna("–").reset_index().rename(columns={"name": "method"})


def _change(row: Mapping[Any, Any]) -> str:
    """An error before and after, its change in percent with the interval, and the
    verdict if it is clear.
    """
    if pd.isna(row["change"]):
        return "–"
    scale, digits, sign = (1, 4, "") if row["measure"] == PREDICTION else (100, 1, " %")
    errors = " → ".join(
        f"{scale * row[name]:.{digits}f}{sign}" for name in ("before", "after")
    )
    if abs(row["change"]) >= 10:
        digits = 0
    elif abs(row["change"]) >= 1:
        digits = 1
    else:
        digits = 2
    change, low, high = (
        _signed(row[name], digits) for name in ("change", "low", "high")
    )
    interval = "" if pd.isna(row["low"]) else f" ({low} to {high})"
    said = f"{errors}; {change} %{interval}; {100 * row['better']:.0f} / {100 * row['worse']:.0f}"
    if row["verdict"] in (HELPS, HARMS):
        return f"{said}; {row['verdict']}"
    return said


def _signed(value: float, digits: int = 0) -> str:
    """A number with its sign, with more digits if it would be rounded to 0; 0 has no
    sign.

    >>> _signed(0.0), _signed(12.6), _signed(-0.24, 1), _signed(0.374), _signed(-0.0002, 2)
    ('0', '+13', '-0.2', '+0.4', '-0.0002')
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
    rows = []
    whose = found.groupby(["outcome", "groups", "model", "group_name"], sort=False)
    for (outcome, groups, model, group), part in whose:
        ratio = part.set_index("name")["ratio"]
        cells = (f"{ratio[name]:.2f}" if name in ratio else "–" for name in methods)
        who = subgroup(str(group), stores[str(outcome)].attributes[str(groups)])
        share, rate = (
            f"{100 * part[name].iloc[0]:.1f} %" for name in ("share", "rate")
        )
        rows.append((outcome, model, who, share, rate, *cells))
    return pd.DataFrame(
        rows,
        columns=["outcome", "model", "subgroup", "share", "observed rate", *methods],
    )


def _auroc(evidence: Evidence) -> str:
    """The AUROC of the base models."""
    medians = (
        evidence.stored[evidence.stored["method"] == BASE]
        .groupby("model")["auroc"]
        .median()
    )
    return ", ".join(
        f"{model} {medians[model]:.2f}" for model in evidence.models if model in medians
    )


def _rate(evidence: Evidence) -> str:
    """The share of the rows of all test sets together with the outcome; the store has
    no rate of the data.
    """
    n = evidence.curves.loc[
        evidence.curves["method"] == BASE, ["people", "positives"]
    ].sum()
    if n["people"]:
        return f"{100 * n['positives'] / n['people']:.1f} %"
    return "–"


def outcome_names(names: Sequence[str], stores: Sequence[Evidence]) -> list[str]:
    """The names of the outcomes on the page: those given, one for each store, or their
    columns.
    """
    if names and len(names) != len(stores):
        raise refused(
            "names",
            names=plural(len(names), "name"),
            stores=plural(len(stores), "store"),
        )
    found = list(names) or [evidence.columns.outcome for evidence in stores]
    for name in found:
        if (n := found.count(name)) > 1:
            raise refused("same name", n=n, name=name)
    return found


def benefit_page(stores: Mapping[str, Evidence], about: str, images: str) -> str:
    """The tables and pictures as a page in Markdown; `images` is the path from the page
    to the pictures.
    """
    from propcal.building_blocks import escaped

    first = ["# Whom does a correction help, and whom does it harm?\n"]
    first += [f"{escaped(about)}\n"] if about else []
    outcomes, tally, changes, ratios = (
        table.markdown() for table in benefit_tables(stores)
    )
    change, drawn = (
        f"![{parts.words_of(name)['title']}]({images}/{name}.png)\n"
        for name in PICTURES
    )
    return "\n".join([*first, outcomes, tally, change, drawn, ratios, changes])


Panels = Mapping[str, Mapping[str, pd.DataFrame]]
PICTURES = ("benefit", "observed_to_expected")
DRAWN = ((BASE, np.nan), (MC, ALPHA), (PMC, ALPHA), (PMC, FINE_ALPHA), (OURS, np.nan))
BEFORE, MC_NAME, PMC_NAME, FINE, OURS_NAME = (method_name(*pair) for pair in DRAWN)
_LOOKS = {method_name(*pair): LOOKS[pair[0]] for pair in DRAWN}
_LOOKS[FINE] = {**LOOKS[PMC], "markerfacecolor": "white"}


def benefit_figures(stores: Mapping[str, Evidence]) -> dict[str, Any]:
    """The two pictures by file name."""
    first = next(iter(stores.values()))
    if SHOWN_MODEL in first.models:
        model = SHOWN_MODEL
    else:
        model = first.models[0]
    shuffles = plural(min(evidence.n_seeds for evidence in stores.values()), "shuffle")
    known = {
        "shuffles": shuffles,
        "model": MODEL_NAMES[model].capitalize(),
        "unit": first.columns.unit,
    }
    drawn = dict(zip(PICTURES, (_draw_changes(stores), _draw_ratios(stores, model))))
    for name, figure in drawn.items():
        parts.note_below(
            figure,
            parts.words_of(name)["note"].format(**known, share=100 * SETTING["gamma"]),
        )
    return drawn


def _draw_changes(stores: Mapping[str, Evidence]) -> Any:
    """A row of panels for each outcome, a column for each measure; points are changes
    of the error.
    """
    found = {name: benefit(evidence) for name, evidence in stores.items()}
    places = list(
        dict.fromkeys(
            pair for f in found.values() for pair in zip(f["groups"], f["model"])
        )
    )
    panels = {}
    for outcome, frame in found.items():
        row = map(places.index, zip(frame["groups"], frame["model"]))
        placed = frame.assign(value=frame["change"], place=[*row])
        panels[outcome] = {
            m: placed[placed["measure"] == m] for m in (LARGEST, AVERAGE, PREDICTION)
        }
    groupings = (groups.replace(" x ", " × ").replace("_", " ") for groups, _ in places)
    words = [
        f"{short(MODEL_NAMES[m])}\n{short(groups)}"
        for groups, (_, m) in zip(groupings, places)
    ]
    # MCBoost changes little at this alpha; its numbers are in the tables
    return _points(
        panels, (PMC_NAME, FINE, OURS_NAME), words, 0, "change, %\n← better   worse →"
    )


def _draw_ratios(stores: Mapping[str, Evidence], model: str) -> Any:
    """A panel for each outcome: the O/E ratio of each subgroup of the last grouping,
    before and after.
    """
    found = {}
    first = next(iter(stores.values()))
    for outcome, evidence in stores.items():
        frame = observed_to_expected(evidence)
        last = evidence.grouping_names[-1]
        frame = frame[(frame["model"] == model) & (frame["groups"] == last)]
        found[short(outcome)] = frame.assign(value=frame["ratio"])
    groups = sorted(
        {group for frame in found.values() for group in frame["group_name"]}
    )
    panels = {
        name: f.assign(place=f["group_name"].map(groups.index))
        for name, f in found.items()
    }
    words = labels(
        [subgroup(group, [*first.attributes.values()][-1]) for group in groups], 48, 2
    )
    shown = (BEFORE, MC_NAME, PMC_NAME, OURS_NAME)
    return _points(
        {"": panels}, shown, words, 1, "O/E ratio\n← predicts too high   too low →"
    )


def _points(
    panels: Panels, wanted: Sequence[str], words: list[str], middle: float, xlabel: str
) -> Any:
    """Rows of panels by their labels, with a point and an interval for each `place`
    (row) and method.
    """
    frames = [frame for row in panels.values() for frame in row.values()]
    there = {name for frame in frames for name in frame["name"]}
    shown = {name: {"ms": 4, **_LOOKS[name]} for name in wanted if name in there}
    height = 1.3 + len(panels) * (0.5 + 0.135 * len(words) * (len(shown) + parts.GAP))
    # changes of different errors are not comparable, ratios are
    if middle == 0:
        sharex = "col"
    else:
        sharex = "all"
    shape = (len(panels), len(frames) // len(panels))
    figure, grid = parts.panels(PAGE, height, *shape, sharex=sharex, sharey=True)
    for axes, (label, row) in zip(grid, panels.items()):
        for ax, (title, frame) in zip(axes, row.items()):
            middles = parts.point_rows(ax, frame, shown, len(words))
            ax.axvline(middle, color="0.3", lw=0.9)
            ax.tick_params(labelbottom=True)
            parts.labelled(ax, title, xlabel if label == [*panels][-1] else "")
        axes[0].set_ylabel(short(label), fontsize=TEXT, fontweight="bold")
        axes[0].set_yticks(middles, words, fontsize=SMALL)
    parts.legend_above(
        figure, [parts.entry(name, **{"lw": 0, **look}) for name, look in shown.items()]
    )
    return figure
