"""Which groups a picture shows: those that the user names, or that matter most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.names import WRONG
from propcal.core.groups import EVERYBODY
from propcal.documents.blocks import RATIO
from propcal.documents.sentences import pictures
from propcal.errors import InputError, refused

MOST_ROWS = 24  # groups in a picture with a row for each
MOST_LISTED = 20  # as many names as an error lists
LAST_NAMED = 1e9  # after every rank that the verdict gives


@dataclass(frozen=True, eq=False)
class Chosen:
    """Rows of the audit's groups in the order of the picture, and a line on those that
    are not in it.
    """

    rows: pd.DataFrame
    note: str

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
    listed = list(known[:MOST_LISTED])
    more = ""
    if len(known) > MOST_LISTED:
        more = f" and {len(known) - MOST_LISTED:,} more"
    problem = f"there is no {what} {name!r}; there are {listed}{more}."
    next_step = None
    if near:
        next_step = f"Did you mean {near[0]!r}?"
    return InputError(problem, next_step=next_step, between=" ")


def named_groups(table: pd.DataFrame, groups: Any) -> Chosen:
    """The rows of the groups that the user names or labels, in that order."""
    wanted = [groups] if isinstance(groups, str) else list(groups)
    if not wanted:
        raise refused("no groups to draw")
    every = Chosen(table, "")
    numbers = range(len(table))
    places = dict(zip(every.labels, numbers))
    places |= dict(zip(every.names, numbers))
    for name in wanted:
        if name not in places:
            raise unknown("group", name, every.names)
    return Chosen(table.iloc[[places[name] for name in wanted]], "")


def chosen_groups(
    a: Audit,
    groups: Any = None,
    most: int = MOST_ROWS,
    *,
    first: Iterable[str] = (),
    measured: bool = False,
    by_ratio: bool = True,
) -> Chosen:
    """Everybody, and the groups that a picture has room for, by O/E ratio or by
    concern.

    Groups that the verdict names, or `first`, come before others that are off, and
    these before the largest.
    """
    if groups is not None:
        return named_groups(a.groups, groups)
    everybody = a.groups["group"] == EVERYBODY.name
    others = a.groups[a.groups["kept"].astype(bool) & ~everybody]
    candidates = others
    if measured:
        candidates = others[others[RATIO].notna()]

    kept = _by_concern(candidates, list(first)).head(most)
    if by_ratio:
        kept = kept.sort_values(RATIO, kind="stable", na_position="last")
    some_named = bool((candidates["rank"] > 0).any())
    note = pictures.chosen_groups(
        len(kept), len(others), len(candidates), verdict_names_some=some_named
    )
    shown = [*a.groups.index[everybody], *kept.index]
    return Chosen(a.groups.loc[shown], note)


def _by_concern(groups: pd.DataFrame, first: list[str]) -> pd.DataFrame:
    """Groups that the verdict names in its order, then `first`, then others that are
    off, then the largest.
    """
    concern = np.full(len(groups), np.inf)
    concern[groups["group"].isin(first).to_numpy()] = LAST_NAMED
    named = (groups["rank"] > 0).to_numpy()
    concern[named] = groups["rank"].to_numpy()[named]
    order = groups.assign(concern=concern, off=groups["finding"].isin(WRONG))
    return order.sort_values(
        ["concern", "off", "share"], ascending=[True, False, False], kind="stable"
    )
