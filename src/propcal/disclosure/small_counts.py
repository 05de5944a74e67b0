"""What may be said where a count is small: limits such as "O/E below 0.6" in the place of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import losses_frame
from propcal.auditing.cell_counts import OutcomeTally
from propcal.auditing.finding_names import CHANCE, LEFT_OUT, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.auditing.findings import Findings
from propcal.auditing.hypothesis_tests import SLOPE
from propcal.auditing.loss_intervals import losses
from propcal.core.categories import Categories
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import BoolArray, FloatArray
from propcal.disclosure.blocks import Blocks
from propcal.numbers import Limit

BANDS = (0.001, 0.01, 0.05)
NEAR_ZERO, NEAR_ONE = 0.001, 0.01  # an interval that excludes a value stays so far from it
UNCERTAIN = ("rate_low", "rate_high", "proportional_gap", "cutoff", "low", "high")


@dataclass(frozen=True, eq=False)
class SmallCounts:
    """Which counts of some table are small; arrays of shape (2, n), people with and without the outcome.

    `few` says that the count itself is small, not only the number of different people behind it.
    """

    shown: FloatArray
    small: BoolArray
    few: BoolArray
    blocks: Blocks
    undecided: BoolArray

    @classmethod
    def of(cls, tally: OutcomeTally, where: Any, blocks: Blocks, *limits: float) -> SmallCounts:
        """Of chosen places; `undecided` if blocks leave open whether one of the limits is reached."""
        people, different = tally.people[:, *where], tally.different[:, *where]
        few = people < blocks.fewest - 1e-9
        open_ = [blocks.undecided(people, different, limit) for limit in limits]
        undecided = np.any(open_, axis=0) if limits else np.zeros(people.shape[1:], dtype=np.bool_)
        return cls(blocks.pair(people, different), blocks.small(people, different), few, blocks, undecided)

    @property
    def any(self) -> BoolArray:
        """Where at least one of the two counts is small."""
        return np.asarray(self.small.any(axis=0))

    def people(self, i: int) -> Any:
        """People with and without the outcome together."""
        total, small, few = int(self.shown[:, i].sum()), self.small[:, i], self.few[:, i]
        if small.all() and few.all():
            return Limit(2 * self.blocks.width + 1, "below")
        if (small & ~few).any():  # many visits of few people
            rest = float(self.shown[~small, i].sum()) - self.blocks.stand_in
            return Limit(rest, "above") if rest > 0 else None
        return total

    def events(self, i: int) -> Any:
        """People with the outcome."""
        if not self.small[0, i]:
            return self.shown[0, i]
        return Limit(self.blocks.fewest, "below")

    def rate(self, i: int) -> Any:
        """A limit of the share with the outcome; NaN if there is none."""
        small, few = self.small[:, i], self.few[:, i]
        if small.all() or (small & ~few).any():
            return float("nan")
        most = (self.blocks.fewest - 0.5) / float(self.shown[:, i].sum())
        return Limit(most, "below") if small[0] else Limit(1 - most, "above")


def limited_tests(tests: pd.DataFrame) -> pd.DataFrame:
    """Tests with p-values in bands."""
    return tests.assign(**{name: _bands(tests[name]) for name in ("p_value", "adjusted_p")})


def _bands(column: Any) -> Any:
    return pd.Series([p_band(p) for p in column], dtype=object, index=column.index)


def p_band(p: float) -> float:
    """A p-value as a limit.

    >>> p_band(0.004), p_band(0.2)
    (< 0.01, > 0.05)
    """
    if np.isnan(p):
        return float("nan")
    if p >= BANDS[-1]:
        return Limit(BANDS[-1], "above")
    return Limit(next(band for band in BANDS if p < band), "below")


def limited_groups(
    groups: pd.DataFrame, found: Findings, exact: pd.DataFrame, blocks: Blocks, unit: str
) -> pd.DataFrame:
    """The table of groups; findings are those of the exact audit, and no interval contradicts them."""
    counts = SmallCounts.of(found.counts.totals, (slice(None), 0), blocks, found.rule.min_group)
    table = groups.astype({"people": object})
    for name in ("finding", "rank"):
        table[name] = exact[name].to_numpy()
    table["reason"] = [_roughly(reason) for reason in exact["reason"]]
    wrong = table["finding"].isin([TOO_HIGH, TOO_LOW]).to_numpy()
    hidden = counts.undecided & ~wrong
    hidden[0] = False  # everybody is always shown
    table.loc[hidden, "kept"] = False
    table.loc[hidden, "finding"] = LEFT_OUT
    table.loc[hidden, "reason"] = f"fewer than about {found.rule.min_group} {unit}"
    table.loc[hidden, "p_value"] = np.nan
    table["p_value"] = _bands(table["p_value"])
    _agree(table, "observed_expected_low", "observed_expected_high", 1.0, NEAR_ONE)
    if any(test.test == SLOPE and test.rejected for test in found.tests):
        _exclude_one(table, above=float(exact["slope"].iloc[0]) > 1)
    expected = [profile.sample.expected for profile in found.profiles]
    measured = exact["observed_expected"].notna().to_numpy()
    somebody = exact["people"].to_numpy() > 0
    table["positives"] = np.where(somebody, counts.shown[0], 0.0)  # without rounding of sums
    table["outcome_rate"] = np.where(somebody, counts.shown[0] / counts.shown.sum(axis=0), np.nan)
    columns = ["positives", "outcome_rate", "observed_expected"]
    table[columns] = table[columns].astype(object)
    for i in np.flatnonzero(counts.any).tolist():
        if exact["people"].iloc[i] == 0:
            continue
        rate = counts.rate(i)
        values = {"people": counts.people(i), "positives": counts.events(i), "outcome_rate": rate}
        if counts.small[:, i].all():
            values["mean_score"] = np.nan
        if measured[i]:
            values["observed_expected"] = limited_ratio(rate, float(counts.shown[:, i].sum()), expected[i])
        _put(table, i, values)
    # those that are found wrong were tested, which tells that they are so many
    for i in np.flatnonzero(counts.undecided & wrong & counts.any).tolist():
        _put(table, i, {"people": Limit(found.rule.min_group, "at least"), "outcome_rate": np.nan})
    return table


def _put(table: pd.DataFrame, row: int, values: dict[str, Any]) -> None:
    places: Any = table.iat
    names = list(table.columns)
    for name, value in values.items():
        places[row, names.index(name)] = value


def limited_ratio(rate: Any, people: float, expected: float) -> Any:
    """The limit of an O/E ratio, to one decimal (or one digit), on the safe side."""
    if not isinstance(rate, Limit) or expected <= 0:
        return float("nan")
    ratio = float(rate) * people / expected
    step = 0.1 if ratio >= 0.1 else 10.0 ** np.floor(np.log10(max(ratio, 1e-9)))
    whole = np.ceil(ratio / step - 1e-9) if rate.side == "below" else np.floor(ratio / step + 1e-9)
    return Limit(round(float(whole * step), 9), rate.side)


def _roughly(reason: str) -> str:
    """A reason that does not tell on which side of a limit a count lies that is shown near it."""
    return reason.replace("fewer than ", "fewer than about ")


def _agree(table: pd.DataFrame, low: str, high: str, centre: float, apart: float) -> None:
    """Make intervals agree with findings: those that are not chance exclude the centre."""
    ends = {name: table[name].to_numpy(dtype=np.float64, copy=True) for name in (low, high)}
    finding = table["finding"]
    above, below = (finding == TOO_LOW).to_numpy(), (finding == TOO_HIGH).to_numpy()
    ends[low] = np.where(above, np.maximum(ends[low], centre + apart), ends[low])
    ends[high] = np.where(below, np.minimum(ends[high], centre - apart), ends[high])
    if centre == 0:  # intervals of cells are adjusted as their findings are
        chance = (finding == CHANCE).to_numpy()
        ends[low] = np.where(chance, np.minimum(ends[low], centre), ends[low])
        ends[high] = np.where(chance, np.maximum(ends[high], centre), ends[high])
    table[low], table[high] = ends[low], ends[high]


def _exclude_one(table: pd.DataFrame, *, above: bool) -> None:
    """Make the interval of the slope of everybody agree with its test."""
    low, high = (float(table[f"slope{end}"].iloc[0]) for end in ("_low", "_high"))
    if above:
        table.loc[table.index[0], "slope_low"] = max(low, 1 + NEAR_ONE)
    else:
        table.loc[table.index[0], "slope_high"] = min(high, 1 - NEAR_ONE)


def limited_categories(categories: pd.DataFrame, exact: pd.DataFrame, counts: SmallCounts) -> pd.DataFrame:
    """The table of cells; `counts` has those of its rows."""
    table = categories.astype({"people": object})
    for name in ("finding", "eligible"):
        table[name] = exact[name].to_numpy()
    table["reason"] = [_roughly(reason) for reason in exact["reason"]]
    wrong = table["finding"].isin([TOO_HIGH, TOO_LOW]).to_numpy()
    hidden = counts.undecided & ~wrong
    table.loc[hidden, "finding"], table.loc[hidden, "eligible"] = NOT_ENOUGH, False
    table.loc[hidden, "reason"] = "close to the fewest people of a cell that is judged"
    table.loc[hidden, "detectable_gap"] = np.nan
    _agree(table, "low", "high", 0.0, NEAR_ZERO)
    columns = ["positives", "outcome_rate", "gap"]
    table[columns] = table[columns].astype(object)
    for i in np.flatnonzero(counts.any).tolist():
        rate, mean = counts.rate(i), float(table["mean_score"].iloc[i])
        gap = Limit(float(rate) - mean, rate.side) if isinstance(rate, Limit) else float("nan")
        values = {"people": counts.people(i), "positives": counts.events(i), "outcome_rate": rate, "gap": gap}
        unknown = (*UNCERTAIN, "mean_score", "detectable_gap") if counts.small[:, i].all() else UNCERTAIN
        _put(table, i, values | dict.fromkeys(unknown, np.nan))
    for i in np.flatnonzero(counts.undecided & wrong & counts.any).tolist():
        _put(table, i, {"people": np.nan, "outcome_rate": np.nan})
    return table


def limited_losses(
    rows: pd.DataFrame, found: Findings, eligible: BoolArray, counts: SmallCounts, labels: dict[str, str]
) -> pd.DataFrame:
    """Losses of the cells that have numbers; `where` says if cells with small counts could be worse.

    If there are no such cells at all, a loss is "at least" the least that the blocks allow.
    """
    rows = rows.copy()
    table, rho = replace(found.table, eligible=eligible), found.rule.rho
    cells = _CellRates.of(table, counts)
    if (eligible & cells.small).any():
        nearest = replace(cells.nearest(table), eligible=eligible & ~cells.unknown)
        draws = replace(found.noise, rates=found.noise.rates[:0])
        least = losses_frame(losses(nearest, draws, rho, labels=labels))
        least.loc["dc", "value"] = cells.least_apart(table, rho)
        values: list[Any] = rows["value"].tolist()
        where: list[str] = rows["where"].tolist()
        for i, most in enumerate(cells.most(table, rho)[str(name)] for name in rows.index):
            if most <= values[i]:
                continue
            if values[i] == values[i] and not where[i].startswith("no "):
                where[i] = f"{where[i]}; a cell with small counts could be larger"
            else:
                values[i], where[i] = Limit(least["value"].iloc[i], "at least"), "a cell with small counts"
        rows["value"], rows["where"] = pd.Series(values, index=rows.index, dtype=object), where
        rows["high"] = np.nan
    rows["p_value"] = _bands(rows["p_value"])
    return rows


@dataclass(frozen=True, eq=False)
class _CellRates:
    """The lowest and the highest rate that the blocks of a cell allow; arrays of the shape of the table."""

    low: FloatArray
    high: FloatArray
    small: BoolArray
    unknown: BoolArray

    @classmethod
    def of(cls, table: Categories, counts: SmallCounts) -> _CellRates:
        first = np.where(counts.small, 0, counts.shown - counts.blocks.stand_in + 1)
        last = np.where(counts.small, counts.blocks.width, counts.shown + counts.blocks.stand_in)
        filled = table.people > 0

        def placed(values: Any, kind: Any, empty: Any) -> Any:
            found = np.full(table.people.shape, empty, dtype=kind)
            found[filled] = values
            return found

        unknown = (counts.small & ~counts.few).any(axis=0) | counts.small.all(axis=0)
        low, high = first[0] / (first[0] + last[1]), last[0] / (last[0] + first[1])
        return cls(
            low=placed(np.where(unknown, 0.0, low), np.float64, np.nan),
            high=placed(np.where(unknown, 1.0, high), np.float64, np.nan),
            small=placed(counts.any, np.bool_, False),
            unknown=placed(unknown, np.bool_, False),
        )

    def nearest(self, table: Categories) -> Categories:
        """Cells whose rates are as near to the prediction as they may be."""
        rate = np.clip(table.mean_score, self.low, self.high)
        return replace(table, positives=rate * table.weight, gap=rate - table.mean_score)

    def least_apart(self, table: Categories, rho: float) -> float:
        """The least DC loss."""
        low, high = (np.log(np.maximum(end, rho)) for end in (self.low, self.high))
        several = np.flatnonzero(table.eligible.sum(axis=0) > 1)
        found = [
            np.max(low[table.eligible[:, j], j]) - np.min(high[table.eligible[:, j], j]) for j in several
        ]
        return float(max([0.0, *found])) if table.eligible.any() else float("nan")

    def most(self, table: Categories, rho: float) -> dict[str, float]:
        """The largest losses that small cells may have."""
        chosen = table.eligible & self.small
        ends = np.stack([self.low, self.high])

        def largest(criterion: Criterion) -> float:
            size = np.abs(ends - table.mean_score) / criterion.allowance(ends)
            return float(np.max(size[:, chosen], initial=0.0))

        low, high = (np.log(np.maximum(np.where(self.small, end, table.outcome_rate), rho)) for end in ends)
        several = np.flatnonzero(chosen.any(axis=0) & (table.eligible.sum(axis=0) > 1))
        apart = [
            np.max(high[table.eligible[:, j], j]) - np.min(low[table.eligible[:, j], j]) for j in several
        ]
        return {
            "mc": largest(multicalibration()),
            "pmc": largest(proportional(rho)),
            "dc": float(max([0.0, *apart])),
        }
