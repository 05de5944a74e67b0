"""Conclusions: what the tables of an audit come to, in numbers; `verdict` puts them into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.data_notes import is_reversed
from propcal.auditing.finding_names import CHANCE, TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import CATEGORIES, NOT_OF_GROUPS, SLOPE
from propcal.auditing.shape_tests import BENDS, DIFFERENCES, GROUP_SLOPES


@dataclass(frozen=True)
class JudgedGroup:
    """A group, its rates and its O/E ratio; of protected counts some are limits, or NaN."""

    label: str
    finding: str
    share: float
    mean_score: float
    outcome_rate: float
    positives: float
    ratio: float
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True)
class WorstCell:
    """The cell whose gap is the most significant; `beyond` says whether chance is ruled out."""

    label: str
    bin: str
    mean_score: float
    outcome_rate: float
    beyond: bool


@dataclass(frozen=True)
class Unnoticed:
    """The largest relative error of a group that could have gone unnoticed."""

    label: str
    share: float


@dataclass(frozen=True)
class Conclusions:
    """What there is to say about an audit.

    Attributes
    ----------
    people : int
        How many were audited.
    everybody : JudgedGroup
    slope : tuple of float
        Calibration slope of everybody with its interval.
    slope_rejected, gap_rejected : bool
        Whether the slope differs from 1, and whether the largest gap of all cells exceeds chance.
    bends, groups_differ : bool
        Whether the calibration curve of everybody bends, and whether groups differ in level, slope or curve.
    smallest_p : float
        Adjusted for the number of tests; NaN if there is none.
    overall : bool
        Whether an error of everybody is a finding of its own, which the subgroups named do not explain.
    named : tuple of JudgedGroup
        Subgroups that are wrong beyond the overall error and beyond broader subgroups, broadest first.
    others : int
        Further subgroups that are too high or too low, which those named explain.
    exempt : tuple of JudgedGroup
        Subgroups without an error of their own although everybody has one, the largest first.
    tested, left_out : int
        Subgroups that were tested, and that are shown but not tested.
    cells, unjudged_cells : int
        Cells, and how many of them do not have enough data.
    worst : WorstCell or None
    unnoticed : Unnoticed or None
        Among the subgroups (or everybody) whose error could be chance.
    detectable : float
        The relative error of everybody that would have been found with a probability of 80 %.
    reversed_area : tuple of float or None
        AUROC with its interval if the score ranks people the wrong way round.
    """

    people: int
    everybody: JudgedGroup
    slope: tuple[float, float, float]
    slope_rejected: bool
    gap_rejected: bool
    bends: bool
    groups_differ: bool
    smallest_p: float
    overall: bool
    named: tuple[JudgedGroup, ...]
    others: int
    exempt: tuple[JudgedGroup, ...]
    tested: int
    left_out: int
    cells: int
    unjudged_cells: int
    worst: WorstCell | None
    unnoticed: Unnoticed | None
    detectable: float
    reversed_area: tuple[float, float, float] | None

    @classmethod
    def of(
        cls,
        tests: pd.DataFrame,
        groups: pd.DataFrame,
        categories: pd.DataFrame,
        worst: tuple[str, str] | None = None,
    ) -> Conclusions:
        """Draw them from the tables, whose numbers may be limits; `worst` names a cell by group and bin."""
        everybody, subgroups = groups.iloc[0], groups.iloc[1:]
        wrong = subgroups["finding"].isin([TOO_HIGH, TOO_LOW])
        ranked = subgroups[subgroups["rank"] > 0].sort_values("rank", kind="stable")
        rejected = set(tests["test"][tests["rejected"].astype(bool)])
        subgroup_tests = ~tests["test"].isin([*NOT_OF_GROUPS, everybody["group"]])
        return cls(
            people=everybody["people"],
            everybody=_judged(everybody),
            slope=tuple(float(everybody[f"slope{end}"]) for end in ("", "_low", "_high")),  # type: ignore[arg-type]
            slope_rejected=SLOPE in rejected,
            gap_rejected=CATEGORIES in rejected,
            bends=BENDS in rejected,
            groups_differ=bool({DIFFERENCES, GROUP_SLOPES} & rejected),
            smallest_p=tests["adjusted_p"][tests["rejected"] | (not rejected)].min(),
            overall=everybody["rank"] > 0,
            named=tuple(_judged(row) for _, row in ranked.iterrows()),
            others=int(wrong.sum()) - len(ranked),
            exempt=_exempt(everybody, subgroups),
            tested=int(subgroup_tests.sum()),
            left_out=int((~subgroups["kept"].astype(bool)).sum()),
            cells=len(categories),
            unjudged_cells=int((~categories["eligible"].astype(bool)).sum()),
            worst=_worst(categories, dict(zip(groups["group"], groups["label"])), worst),
            detectable=float(everybody["detectable_error"]),
            unnoticed=_unnoticed(groups),
            reversed_area=_reversed_area(everybody),
        )


def _judged(row: Any) -> JudgedGroup:
    return JudgedGroup(
        label=row["label"],
        finding=row["finding"],
        share=float(row["share"]),
        mean_score=row["mean_score"],
        outcome_rate=row["outcome_rate"],
        positives=row["positives"],
        ratio=row["observed_expected"],
        ratio_low=row["observed_expected_low"],
        ratio_high=row["observed_expected_high"],
    )


def _reversed_area(everybody: Any) -> tuple[float, float, float] | None:
    events, rate = float(everybody["positives"]), float(everybody["outcome_rate"])
    value, low, high = (float(everybody[f"auroc{end}"]) for end in ("", "_low", "_high"))
    without = events / rate - events if rate > 0 else 0.0
    return (value, low, high) if is_reversed(min(events, without), value, high) else None


def _exempt(everybody: Any, subgroups: pd.DataFrame) -> tuple[JudgedGroup, ...]:
    """Tested subgroups whose interval holds 1 and excludes the O/E ratio of everybody."""
    if everybody["finding"] not in (TOO_HIGH, TOO_LOW) or not np.isfinite(everybody["observed_expected"]):
        return ()
    low, high = subgroups["observed_expected_low"], subgroups["observed_expected_high"]
    overall = everybody["observed_expected"]
    free = (low <= 1) & (high >= 1) & ((low > overall) | (high < overall))
    chosen = subgroups[free & (subgroups["finding"] == CHANCE)]
    ordered = chosen.sort_values("share", ascending=False, kind="stable")
    return tuple(_judged(row) for _, row in ordered.iterrows())


def worst_categories(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Cells with enough data: surely wrong ones first, then by their gap relative to the detectable one."""
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    sure = eligible["finding"].isin([TOO_HIGH, TOO_LOW])
    gap, detectable = eligible["gap"].astype(float).abs(), eligible["detectable_gap"].astype(float)
    relative = (gap / detectable).where(detectable.notna(), gap)  # by the gap itself if chance is not known
    ranked = eligible.assign(beyond=sure, relative=relative)
    return ranked.sort_values(["beyond", "relative"], ascending=False, kind="stable").head(n)


def _worst(
    categories: pd.DataFrame, labels: dict[str, str], chosen: tuple[str, str] | None = None
) -> WorstCell | None:
    worst = worst_categories(categories, 1)
    if chosen is not None:
        own = (categories["group"] == chosen[0]) & (categories["bin"] == chosen[1])
        worst = categories[own].assign(beyond=True)
    if worst.empty:
        return None
    row: Any = worst.iloc[0]
    label = labels.get(row["group"], row["group"])
    return WorstCell(label, row["bin"], row["mean_score"], row["outcome_rate"], bool(row["beyond"]))


def _unnoticed(groups: pd.DataFrame) -> Unnoticed | None:
    tested = groups[groups["finding"] == CHANCE]
    error = tested["detectable_error"].to_numpy(dtype=np.float64)
    if not np.isfinite(error).any():
        return None
    worst = int(np.nanargmax(error))
    return Unnoticed(tested["label"].iloc[worst], float(error[worst]))
