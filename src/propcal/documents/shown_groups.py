"""Which groups a picture shows: those asked for, or those that say most, and how many it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.finding_names import TOO_HIGH, TOO_LOW
from propcal.errors import InputError

EVERYBODY = "everybody"
MOST_LISTED = 20  # as many names as an error lists


@dataclass(frozen=True, eq=False)
class Chosen:
    """Rows of the audit's groups in the order of the picture, and a line on those that are not in it."""

    rows: pd.DataFrame
    said: str

    @property
    def names(self) -> list[str]:
        """Their names in the tables."""
        return [str(name) for name in self.rows["group"]]

    @property
    def labels(self) -> list[str]:
        """What people call them."""
        return [str(label) for label in self.rows["label"]]


def unknown(what: str, name: object, known: Sequence[str]) -> InputError:
    """The error of a name that does not exist: what there is, and what comes close."""
    near = get_close_matches(str(name), known, n=1, cutoff=0.5)
    more = f" and {len(known) - MOST_LISTED:,} more" if len(known) > MOST_LISTED else ""
    return InputError(
        f"there is no {what} {name!r}; there are {list(known[:MOST_LISTED])}{more}.",
        next_step=f"Did you mean {near[0]!r}?" if near else None,
        between=" ",
    )


def named_groups(table: pd.DataFrame, groups: Any) -> Chosen:
    """The rows of the groups that the user names or labels, in that order."""
    wanted = [groups] if isinstance(groups, str) else list(groups)
    if not wanted:
        raise InputError(
            "groups is an empty list", argument="groups", next_step="None chooses for you", between="; "
        )
    known = [str(name) for name in table["group"]]
    called = {str(label): i for i, label in enumerate(table["label"])}
    called |= {name: i for i, name in enumerate(known)}
    for name in wanted:
        if name not in called:
            raise unknown("group", name, known)
    return Chosen(table.iloc[[called[name] for name in wanted]], "")


def lines_of(a: Audit, groups: Any, most: int) -> Chosen:
    """Everybody and the few groups that a picture with a line for each has room for.

    Those the score is surely wrong for come first, too high and too low in turn; then the largest.
    """
    if groups is not None:
        return named_groups(a.groups, groups)
    others = _judged(a)
    measured = others[others["observed_expected"].notna()]
    ranked = _in_turn(measured)
    kept = ranked[: most - 1]
    told = a.groups[a.groups["group"] == EVERYBODY].index.tolist()
    return Chosen(a.groups.loc[[*told, *kept]], _said(len(kept), others, measured, kept))


def rows_of(a: Audit, groups: Any, most: int, *, wrong: Iterable[str] = (), everybody: bool = True) -> Chosen:
    """The groups that a picture with a row for each has room for, by observed/expected.

    `wrong` names groups that come first although their totals are right.
    """
    if groups is not None:
        return named_groups(a.groups, groups)
    others = _judged(a)
    off = _distance(others)
    beyond = others["finding"].isin([TOO_HIGH, TOO_LOW]) | others["group"].isin(list(wrong))
    order = others.assign(beyond=beyond, off=np.where(beyond, off, 0.0))
    kept = order.sort_values(["beyond", "off", "people"], ascending=False, kind="stable").head(most)
    kept = kept.sort_values("observed_expected", kind="stable", na_position="last")
    told = a.groups[a.groups["group"] == EVERYBODY].index.tolist() if everybody or others.empty else []
    return Chosen(a.groups.loc[[*told, *kept.index]], _said(len(kept), others, others, kept.index.tolist()))


def _judged(a: Audit) -> pd.DataFrame:
    return a.groups[a.groups["kept"] & (a.groups["group"] != EVERYBODY)]


def _distance(rows: pd.DataFrame) -> Any:
    """How far observed/expected is from 1, as a ratio."""
    ratio = rows["observed_expected"].to_numpy(dtype=np.float64)
    return np.nan_to_num(np.abs(np.log(np.maximum(ratio, 1e-3))))


def _in_turn(rows: pd.DataFrame) -> list[Any]:
    """Index of the rows: the worst too high, the worst too low, the next of each; then by size."""
    ranked = rows.assign(off=_distance(rows)).sort_values("off", ascending=False, kind="stable")
    sides = [ranked.index[ranked["finding"] == finding].tolist() for finding in (TOO_HIGH, TOO_LOW)]
    found = []
    for i in range(max(map(len, sides))):
        found += [side[i] for side in sides if i < len(side)]
    rest = rows[~rows.index.isin(found)].sort_values("people", ascending=False, kind="stable")
    return found + rest.index.tolist()


def _said(n: int, others: pd.DataFrame, measured: pd.DataFrame, kept: list[Any]) -> str:
    """What the legend says of the groups that are not drawn."""
    if n == len(others):
        return ""
    wrong = others.loc[kept, "finding"].isin([TOO_HIGH, TOO_LOW])
    if n == len(measured):
        return f"{n} of {len(others)} groups: the others do not have enough data"
    which = "furthest off" if wrong.all() else "furthest off, then the largest" if wrong.any() else "largest"
    return f"{n} of {len(others)} groups, the {which}"
