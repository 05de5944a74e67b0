"""Conclusions: what the tables of an audit come to, in numbers; each front end puts them into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW, WITHIN
from propcal.auditing.hypothesis_tests import CATEGORIES
from propcal.core.grid import FloatArray


@dataclass(frozen=True)
class WrongGroup:
    """A group for whom the score is wrong; numbers may be hidden, which is NaN."""

    name: str
    mean_score: float
    outcome_rate: float
    observed_expected: float
    positives: float


@dataclass(frozen=True)
class Direction:
    """Everybody for whom the score errs in one direction, the largest error first, hidden ones last.

    An error is larger as a ratio of outcomes to expected ones, or as a difference of their rates.
    """

    finding: str
    by_ratio: tuple[WrongGroup, ...]
    by_rate: tuple[WrongGroup, ...]


@dataclass(frozen=True)
class Place:
    """The category whose gap stands out most; `beyond` says whether noise is ruled out."""

    group: str
    bin: str
    mean_score: float
    outcome_rate: float
    beyond: bool


@dataclass(frozen=True)
class Unnoticed:
    """The largest error of a group that could have gone unnoticed, as a share of the expected number."""

    group: str
    share: float


@dataclass(frozen=True)
class Conclusions:
    """What there is to say of an audit.

    Attributes
    ----------
    people : int or None
        How many were audited; None if that is hidden.
    groups : int
        Groups, those left out too, without everybody.
    tested : int
        Groups that were tested, everybody among them.
    left_out : int
        Groups that are listed but not judged.
    categories, untold : int
        Categories, and how many of them have too few people to say.
    together : str
        What was found of everybody.
    smallest_p : float
        Corrected for the number of tests; NaN if there is none.
    gap_rejected : bool
        Whether the largest gap of all categories is beyond noise.
    directions : tuple of Direction
        Too high, too low; those that concern nobody are left out.
    worst : Place or None
    unnoticed : Unnoticed or None
        Among the groups within noise.
    """

    people: int | None
    groups: int
    tested: int
    left_out: int
    categories: int
    untold: int
    together: str
    smallest_p: float
    gap_rejected: bool
    directions: tuple[Direction, ...]
    worst: Place | None
    unnoticed: Unnoticed | None

    @classmethod
    def of(cls, tests: pd.DataFrame, groups: pd.DataFrame, categories: pd.DataFrame) -> Conclusions:
        """Draw them from the tables; numbers in these may be hidden."""
        of_categories = tests["test"] == CATEGORIES
        people = groups["people"].iloc[0]
        directions = (_direction(groups, finding) for finding in (TOO_HIGH, TOO_LOW))
        return cls(
            people=None if people is None else int(people),
            groups=len(groups) - 1,
            tested=int((~of_categories).sum()),
            left_out=int((~groups["kept"].astype(bool)).sum()),
            categories=len(categories),
            untold=int((~categories["eligible"].astype(bool)).sum()),
            together=str(groups["finding"].iloc[0]),
            smallest_p=float(tests["adjusted_p"].min()),
            gap_rejected=bool(tests["rejected"][of_categories].any()),
            directions=tuple(direction for direction in directions if direction.by_rate),
            worst=_worst(categories),
            unnoticed=_unnoticed(groups),
        )


def _direction(groups: pd.DataFrame, finding: str) -> Direction:
    chosen = groups[groups["finding"] == finding]
    found = [
        WrongGroup(
            name=row["group"],
            mean_score=row["mean_score"],
            outcome_rate=row["outcome_rate"],
            observed_expected=row["observed_expected"],
            positives=row["positives"],
        )
        for row in chosen.to_dict("records")
    ]
    ratio = chosen["observed_expected"].to_numpy(dtype=np.float64)
    off = np.abs(np.log(np.clip(ratio, 1e-3, 1e3)))  # not known also if nothing was expected
    gap = (chosen["outcome_rate"] - chosen["mean_score"]).abs().to_numpy(dtype=np.float64)
    return Direction(finding, _largest_first(found, off), _largest_first(found, gap))


def _largest_first(found: list[WrongGroup], size: FloatArray) -> tuple[WrongGroup, ...]:
    order = np.argsort(np.where(np.isnan(size), np.inf, -size), kind="stable")
    return tuple(found[i] for i in order)


def worst_categories(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Eligible categories: those surely wrong first, then by their gap as a share of the detectable one."""
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    sure = (eligible["low"] > 0) | (eligible["high"] < 0)
    ranked = eligible.assign(beyond=sure, relative=(eligible["gap"].abs() / eligible["detectable_gap"]))
    ranked = ranked.fillna({"relative": ranked["gap"].abs()})  # no noise known: by the gap itself
    return ranked.sort_values(["beyond", "relative"], ascending=False, kind="stable").head(n)


def _worst(categories: pd.DataFrame) -> Place | None:
    worst = worst_categories(categories, 1)
    if worst.empty:
        return None
    row: Any = worst.iloc[0]
    return Place(row["group"], row["bin"], row["mean_score"], row["outcome_rate"], bool(row["beyond"]))


def _unnoticed(groups: pd.DataFrame) -> Unnoticed | None:
    tested = groups[groups["finding"] == WITHIN]
    error = tested["detectable_error"].to_numpy(dtype=np.float64)
    if not np.isfinite(error).any():
        return None
    worst = int(np.nanargmax(error))
    return Unnoticed(tested["group"].iloc[worst], float(error[worst]))
