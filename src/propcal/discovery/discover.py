"""discover: for whom is this score wrong, of all groups that the features can describe?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from propcal import __version__
from propcal.core.grid import check_choice, check_number
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.discovery import Discovery
from propcal.discovery.finding_rows import FoundGroup, counted, group_found
from propcal.discovery.input_rows import read_people, read_rows, read_table
from propcal.discovery.outcome_counts import Counted, DiscoverySource, OutcomeCounts
from propcal.discovery.people import People
from propcal.discovery.protection import ProtectedGroups
from propcal.discovery.repairs import measure_repairs
from propcal.discovery.rounds import Outcome, Search, search_rounds
from propcal.discovery.row_order import in_own_order
from propcal.errors import Argument, InputError
from propcal.identity import Identity


def discover(
    y: Any,
    score: Any,
    *,
    features: Any,
    data: Any = None,
    protect: Sequence[str] | None = None,
    level: float = 0.05,
    max_groups: int = 10,
    depth: int = 3,
    min_share: float = 0.02,
    sample_weight: Any = None,
    weight_kind: str = "auto",
    cluster: Any = None,
    positive: Any = None,
    drop_missing: bool = False,
    n_draws: int = 64,
    random_state: int = 0,
    progress: Callable[[float], None] | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    unit: str = "",
    score_name: str = "",
    na: Sequence[str] = (),
    memory_limit: str | int | None = None,
) -> Discovery:
    """Find the groups for whom a score is wrong, without naming them first.

    The search tries single conditions, pairs, and a third for the strongest pairs: levels, ranges of numbers,
    and missing values. The strongest error is compared with the strongest that a search of the same features
    would find if the score were right. It is then corrected for, and the search goes on.

    Parameters
    ----------
    y, score : array-like of shape (n,), or names of columns of `data`
        Outcomes (0 or 1), and risk scores in [0, 1].
    features : data frame, series or array with n rows, or list of names of columns of `data`
        The columns by which groups may be described. Dates, identifiers and columns that give away the
        outcome are left out, and the result says so.
    data : data frame, DuckDB relation, Spark or Dask frame, or path or list of paths of files, optional
        Where the columns are, if they are given by name.
    protect : list of str, optional
        Columns that a correction must not read, such as race. They describe no group; the search looks for
        groups in the other features that repair the errors of the protected groups.
    level : float, default=0.05
        The largest probability of finding any group if the score is right.
    max_groups : int, default=10
    depth : int, default=3
        The most conditions in a description, up to 3.
    min_share : float, default=0.02
        The smallest share of a group, in the variance of the outcome that the score predicts: roughly, the
        share of people.
    sample_weight, weight_kind, cluster, positive, drop_missing
        As for `audit`.
    n_draws : int, default=64
        Simulated data sets for what chance would show.
    random_state : int, default=0
    progress : callable, optional
        Called with the share that is done.
    labels, unit, score_name : optional
        Names for people to read, as for `audit`.
    na, memory_limit : optional
        For files: texts that mean missing, and a limit such as "4GB".

    Returns
    -------
    Discovery

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.integers(20, 90, 8000), "ward": rng.choice(list("ABC"), 8000)})
    >>> risk = rng.uniform(0.1, 0.4, 8000)
    >>> wrong = (people.age >= 70) & (people.ward == "B")
    >>> died = (rng.random(8000) < risk + 0.25 * wrong).astype(int)
    >>> found = discover(died, risk, features=people)
    >>> found.groups.where
    {'age 70 or over, ward B': "age >= 70 and ward = 'B'"}
    """
    how = _checked(level, max_groups, depth, min_share, n_draws, random_state)
    check_choice("weight_kind", weight_kind, ("auto", "frequency", "survey"))
    hidden = _protected_names(protect)
    with read_rows(
        y, score, features, data, sample_weight, cluster, hidden, na=na, memory_limit=memory_limit
    ) as (roles, called, given):
        people, rows = read_people(
            roles, given, called, weight_kind=weight_kind, positive=positive, drop_missing=drop_missing
        )
        protected = ProtectedGroups.of(rows, hidden) if hidden else None
        table = read_table(rows.only([name for name in rows.names if name not in hidden]), people)
    table, people, order = in_own_order(table, people)
    protected = None if protected is None else protected.in_order(order)
    identity = Identity(score=score_name, unit=unit, labels=labels or {})
    if not identity.unit:
        identity = replace(identity, unit="people" if people.cluster is None else "visits")
    tell = progress or (lambda _: None)
    return search_people(table, people, how, identity, tell, protected)


def search_people(
    table: FeatureTable,
    people: People,
    how: Search,
    identity: Identity,
    progress: Callable[[float], None],
    protected: ProtectedGroups | None = None,
) -> Discovery:
    """Search people whose features are codes already."""
    choose = None if protected is None else protected.chooser()
    result = search_rounds(table, people, how, progress, choose)
    made = found_groups(result, table, people, identity)
    found = tuple(group for group, _ in made)
    overall = {
        "found": result.whole_found,
        "p_value": result.whole_p,
        "people": counted(float(people.weight.sum())),
        "events": counted(float(people.weight @ people.outcome)),
        "observed": float(people.weight @ people.outcome / people.weight.sum()),
        "predicted": float(people.weight @ people.raw / people.weight.sum()),
    }
    settings = {
        "version": __version__,
        "people": len(people),
        "features": len(table.features),
        "level": how.level,
        "depth": how.depth,
        "min_share": how.min_share,
        "n_draws": how.n_draws,
        "random_state": how.seed,
    }
    protection = None if protected is None else measure_repairs(protected, result, people)
    everybody = OutcomeCounts.of(people, np.arange(len(people)))
    source = DiscoverySource(everybody, tuple(counted for _, counted in made))
    return Discovery(
        found, overall, table.left_out, settings, identity, result.chance is not None, protection, source
    )


def found_groups(
    result: Outcome, table: FeatureTable, people: People, identity: Identity
) -> list[tuple[FoundGroup, Counted]]:
    """The findings in numbers and words, each with its counts."""
    found: list[tuple[FoundGroup, Counted]] = []
    taken = [feature.name for feature in table.features]
    for one in result.groups:
        found.append(group_found(one, table.features, people, identity, taken))
        taken.append(found[-1][0].name)
    return found


def _checked(
    level: float, max_groups: int, depth: int, min_share: float, n_draws: int, random_state: int
) -> Search:
    check_number("level", level, above=0, at_most=1)
    check_number("max_groups", max_groups, at_least=1, at_most=50, whole=True)
    check_number("depth", depth, at_least=1, at_most=3, whole=True)
    check_number("min_share", min_share, above=0, at_most=0.5)
    check_number("n_draws", n_draws, at_least=20, whole=True)
    check_number("random_state", random_state, at_least=0, whole=True)
    return Search(
        float(level), int(max_groups), int(depth), float(min_share), int(n_draws), int(random_state)
    )


def _protected_names(protect: Sequence[str] | None) -> list[str]:
    if protect is None:
        return []
    if isinstance(protect, str) or not all(isinstance(name, str) for name in protect):
        raise InputError(Argument("protect") + " must be a list of names of columns", argument="protect")
    return list(dict.fromkeys(protect))
