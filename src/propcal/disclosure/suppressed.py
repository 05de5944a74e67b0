"""An audit or a comparison without the numbers that small counts could be worked out from.

What is hidden is empty; what was found ("too high", "insufficient data") stays. Curves over thresholds
and histograms become coarser: they are drawn at the edges of the bins, from cells that are shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.cell_counts import Counts
from propcal.auditing.compare import Comparison
from propcal.auditing.finding_names import UNTESTED
from propcal.auditing.hypothesis_tests import CATEGORIES, SLOPE, CalibrationTest
from propcal.auditing.loss_intervals import loss_places
from propcal.auditing.measure_names import LOSSES
from propcal.auditing.notes import ends_note, missing_note
from propcal.auditing.verdict import Verdict, verdict_of
from propcal.core.grid import BoolArray, check_number
from propcal.disclosure.coarse_curves import bars_of_bins, everybody_curve, threshold_curve
from propcal.disclosure.suppression import Hidden, hidden

GROUP_WORDS = ("group", "label", "kept", "reason", "missing", "finding", "rank")
CATEGORY_WORDS = ("group", "bin", "eligible", "reason", "finding")
COUNTED = (
    "people",
    "share",
    "positives",
    "outcome_rate",
)  # of counts alone, which are hidden by their own rule
TOO_SMALL = "the groups are too small"
FEW_TERMS = 2  # hidden gaps that could be worked out from a mean square


def without_small_counts(result: Audit | Comparison, fewest: int | None) -> Audit | Comparison:
    """An audit or a comparison as it may be handed on."""
    if isinstance(result, Comparison):
        return suppressed_comparison(result, fewest)
    return suppressed(result, fewest)


def suppressed(audit: Audit, fewest: int | None) -> Audit:
    """Hide counts of 1 to `fewest` - 1, and what would give them away; 0 or None hides nothing."""
    if not _wanted(fewest):
        return audit
    assert fewest is not None
    fewest = _fewest_rows([audit], fewest)
    return _without(audit, hidden([_counts(audit)], fewest), 0, fewest)


def suppressed_comparison(comparison: Comparison, fewest: int | None) -> Comparison:
    """Hide small counts in all audits of a comparison: they are of the same people."""
    if not _wanted(fewest):
        return comparison
    assert fewest is not None
    fewest = _fewest_rows(list(comparison.audits.values()), fewest)
    found = hidden([_counts(audit) for audit in comparison.audits.values()], fewest)
    audits = {
        name: _without(audit, found, i, fewest) for i, (name, audit) in enumerate(comparison.audits.items())
    }
    return replace(comparison, audits=audits, differences=_differences(comparison, audits))


def _fewest_rows(audits: list[Audit], fewest: int) -> int:
    """Where people come again, as many rows as so many people have."""
    return int(np.ceil(fewest * max(_counts(audit).rows_per_person for audit in audits)))


def _wanted(fewest: int | None) -> bool:
    if fewest is None:
        return False
    check_number("suppress", fewest, at_least=0, at_most=1_000_000, whole=True)
    return fewest > 1


def _counts(audit: Audit) -> Counts:
    assert audit._counts is not None, "an audit made by propcal.audit has its counts"
    return audit._counts


def _without(audit: Audit, found: Hidden, score: int, fewest: int) -> Audit:
    counts, cells = _counts(audit), found.cells[score]
    partly: BoolArray = np.asarray(cells.any(axis=1))
    groups = _rounded(_emptied(audit.groups, found.totals, GROUP_WORDS), partly)
    gone = cells[counts.category_group, counts.category_bin]
    categories = _emptied(audit.categories, gone, CATEGORY_WORDS)
    worst = _worst_rows(audit)
    settings = {**audit.settings, "fingerprint": None}
    if found.totals[0]:
        settings |= {"people": None, "positives": None}
    return replace(
        audit,
        verdict=_verdict(audit, groups, categories, found, gone),
        losses=_losses(audit.losses, {name for name, rows in worst.items() if gone[list(rows)].any()}),
        debiased=_debiased(audit, gone),
        categories=categories,
        groups=groups,
        curves=_curves(audit, counts, found.totals, cells),
        net_benefit=_net_benefit(audit, counts, found.totals, cells, fewest),
        distribution=_distribution(audit, counts, found.totals, cells),
        notes=_notes(audit, found, fewest),
        settings=settings,
        _counts=None,
    )


def _emptied(table: pd.DataFrame, gone: BoolArray, words: tuple[str, ...]) -> pd.DataFrame:
    """The table without the numbers of some rows."""
    columns: dict[str, Any] = {}
    for name in table.columns:
        column = table[name]
        if name in words:
            columns[str(name)] = column
        elif name == "people":
            values = [None if hide else int(value) for value, hide in zip(column.tolist(), gone)]
            columns[name] = pd.Series(values, dtype=object, index=table.index)
        else:
            columns[str(name)] = column.astype(np.float64).mask(gone)
    return pd.DataFrame(columns, columns=table.columns)


def _rounded(groups: pd.DataFrame, partly: BoolArray) -> pd.DataFrame:
    """Measures of whole groups with hidden parts, to two decimals.

    A mean score, a Brier score or a p-value in full would, with the parts that are shown, tell what the
    hidden ones add up to; where scores take few values, that is how many people have them.
    """
    table = groups.copy()
    for name in table.columns:
        if name not in (*GROUP_WORDS, *COUNTED):
            table[name] = table[name].where(~partly, _coarse(table[name], name))
    return table


def _coarse(column: pd.Series[Any], name: str) -> pd.Series[Any]:
    if name in ("p_value", "adjusted_p"):
        return column.map(lambda p: float(f"{p:.0e}") if p == p else p)  # one digit
    return column.round(1 if name == "statistic" else 2)


def _worst_rows(audit: Audit) -> dict[str, tuple[int, ...]]:
    """For each loss the categories that set it, as rows of `categories`."""
    table = audit.categories
    gap, proportional_gap, rate = (
        table[name].to_numpy(dtype=np.float64) for name in ("gap", "proportional_gap", "outcome_rate")
    )
    eligible = table["eligible"].to_numpy(dtype=np.bool_)
    found = loss_places(
        _counts(audit).category_bin,
        gap=gap,
        proportional_gap=proportional_gap,
        rate=rate,
        eligible=eligible,
        rho=audit.settings["rho"],
    )
    if found and not found["dc"]:  # no two groups meet
        found["dc"] = (int(np.argmax(eligible)),)
    return found


def _losses(losses: pd.DataFrame, gone: set[str]) -> pd.DataFrame:
    """A loss is the gap of one category (or pair); where that is hidden, so is the loss."""
    losses = losses.copy()
    for name in gone:
        losses.loc[name, ["value", "p_value", "low", "high"]] = np.nan
        losses.loc[name, "where"] = "suppressed: it comes from a small cell"
    return losses


def _debiased(audit: Audit, gone: BoolArray) -> pd.DataFrame:
    """A mean over all categories; with few of them hidden it would give these away."""
    few = int(np.sum(gone & audit.categories["eligible"].to_numpy(dtype=np.bool_)))
    if not few:
        return audit.debiased
    return audit.debiased * np.nan if few <= FEW_TERMS else audit.debiased.map(lambda x: float(f"{x:.1e}"))


def _verdict(
    audit: Audit, groups: pd.DataFrame, categories: pd.DataFrame, found: Hidden, gone: BoolArray
) -> Verdict:
    if audit.verdict.conclusion == UNTESTED:
        return audit.verdict
    tests = audit.verdict.tests.copy()
    for name in ("statistic", "p_value", "adjusted_p"):
        tests[name] = _coarse(tests[name], name)
    coarse = tests.copy()
    # tests are those of the groups that count and have enough people, in their order
    small: dict[str, bool] = {}
    for name, gone_total in zip(groups["group"], found.totals):  # two groups may read the same
        small[name] = small.get(name, False) or bool(gone_total)
    for row, name in zip(tests.index, tests["test"]):
        if name not in (CATEGORIES, SLOPE) and small.get(name, True):
            tests.loc[row, ["statistic", "p_value", "adjusted_p"]] = np.nan
    size = (audit.categories["gap"].abs() / audit.categories["detectable_gap"]).fillna(-1.0)
    if len(size) and gone[int(np.argmax(size.to_numpy()))]:
        tests.loc[tests["test"] == CATEGORIES, "statistic"] = np.nan
    listed = [CalibrationTest(**{str(k): v for k, v in row.items()}) for row in coarse.to_dict("records")]
    told = verdict_of(listed, groups, categories, audit.identity, untested="", too_small=TOO_SMALL)
    return Verdict(audit.verdict.conclusion, told.sentences, tests)


def _curves(audit: Audit, counts: Counts, totals: BoolArray, cells: BoolArray) -> pd.DataFrame:
    """The smooth curves of the groups that count, outside of hidden bins."""
    table = audit.curves
    if not len(table):
        return table
    gone: dict[str, BoolArray] = {}
    for row, name in enumerate(audit.groups["group"]):
        own = np.full(cells.shape[1], totals[row] or not counts.kept[row]) | cells[row]
        gone[name] = gone.get(name, False) | own
    place = np.searchsorted(counts.edges[1:-1], table["score"].to_numpy(dtype=np.float64), side="right")
    shown = np.array([not gone[name][b] for name, b in zip(table["group"], place)], dtype=np.bool_)
    return table[shown].reset_index(drop=True)


def _net_benefit(
    audit: Audit, counts: Counts, totals: BoolArray, cells: BoolArray, fewest: int
) -> pd.DataFrame:
    if not len(audit.net_benefit):
        return audit.net_benefit
    frames = []
    for row in np.flatnonzero(counts.kept & ~totals):
        name = audit.groups["group"].iloc[row]
        curve = (
            everybody_curve(audit.net_benefit, counts, cells[0], fewest)
            if row == 0
            else threshold_curve(counts, int(row), cells[row])
        )
        frames.append(curve.assign(group=name)[audit.net_benefit.columns] if len(curve) else curve)
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else audit.net_benefit.iloc[:0]


def _distribution(audit: Audit, counts: Counts, totals: BoolArray, cells: BoolArray) -> pd.DataFrame:
    frames = [
        bars_of_bins(counts, int(row), cells[row]).assign(group=audit.groups["group"].iloc[row])
        for row in np.flatnonzero(counts.kept & ~totals)
    ]
    if not frames or not len(audit.distribution):
        return audit.distribution.iloc[:0]
    return pd.concat(frames, ignore_index=True)[audit.distribution.columns]


def _notes(audit: Audit, found: Hidden, fewest: int) -> tuple[str, ...]:
    """Notes that tell a small count tell that it is small."""
    counts = _counts(audit)
    n = int(audit.groups["people"].iloc[0])
    alone = audit.settings["missing"] == "level"
    told = {}
    for gone, (name, mask) in zip(found.missing, counts.missing.items()):
        if gone:
            count = int(counts.people[mask].sum())
            exact = missing_note(name, count, n, audit.identity, alone=alone)
            told[exact] = missing_note(name, None, n, audit.identity, alone=alone)
    told[counts.left_out.sentence()] = counts.left_out.sentence(fewest)
    if 0 < counts.ends < fewest:
        told[ends_note(counts.ends, audit.identity)] = ends_note(None, audit.identity)
    hiding = (
        f"Counts under {fewest} are suppressed to protect privacy, and so is anything they could be derived "
        "from; other numbers of groups with suppressed parts are rounded. Findings are shown all the same."
    )
    return (*(told.get(note, note) for note in audit.notes), hiding)


def _differences(comparison: Comparison, audits: dict[str, Audit]) -> pd.DataFrame:
    """Differences without those of hidden groups and losses."""
    table = comparison.differences.copy()
    base = audits[comparison.base]
    gone_groups = set(base.groups["group"][base.groups["people"].isna()])
    gone = table["group"].isin(gone_groups).to_numpy(copy=True)
    for name, audit in audits.items():
        for loss in LOSSES:
            if audit.losses["value"].isna()[loss] or base.losses["value"].isna()[loss]:
                gone |= ((table["score"] == name) & (table["measure"] == loss)).to_numpy()
        if audit.debiased["rms"].isna().all() or base.debiased["rms"].isna().all():
            gone |= ((table["score"] == name) & table["measure"].str.endswith("mean_square")).to_numpy()
    table.loc[gone, ["base", "value", "difference", "low", "high"]] = np.nan
    table[["base", "value"]] = table[["base", "value"]].round(2)
    table[["difference", "low", "high"]] = table[["difference", "low", "high"]].round(3)
    return table
