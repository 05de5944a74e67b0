"""discover: for whom is this score wrong, of all groups that the features can describe?

The result holds the groups that a search found, as sentences, a table, a picture and
ordinary `Groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propcal import __version__
from propcal.auditing.claims import Claim
from propcal.auditing.printable_results import Printed
from propcal.core.arguments import Axes, Label, Table, Values, WeightKind, check_choice
from propcal.core.groups import Groups
from propcal.discovery.binned_features import FeatureTable
from propcal.discovery.box_search import SearchRule
from propcal.discovery.finding_rows import (
    Counted,
    FoundGroup,
    counted,
    group_found,
    people_headcount,
)
from propcal.discovery.people import (
    People,
    check_people,
    in_own_order,
    people_to_search,
    read_rows,
    read_table,
)
from propcal.discovery.protected_groups import (
    ProtectedGroups,
    Protection,
    measure_repairs,
)
from propcal.discovery.search import Outcome, search_rounds
from propcal.errors import plain
from propcal.options import Identity
from propcal.reading.frame_arguments import takes_frame
from propcal.reading.frames import column_names

if TYPE_CHECKING:
    from propcal.documents.blocks import Document

COLUMNS = tuple(FoundGroup.__dataclass_fields__)


@dataclass(frozen=True, eq=False, repr=False)
class Discovery(Printed):
    """The groups for whom a score is wrong, found among all groups that the features
    can describe.

    Attributes
    ----------
    found : tuple of FoundGroup
        The strongest first. Each later one was found with the earlier ones corrected
        for.
    overall : dict
        The score as a whole: `found` (whether one smooth curve for everybody improves
        it), `p_value`, `observed`, `predicted`, `people`, `events`.
    left_out : dict
        Columns that were not searched, and why.
    protection : Protection or None
        How much the groups repair the protected groups; only with `protect`.
    settings : dict

    Examples
    --------
    >>> import numpy as np
    >>> from propcal import discover
    >>> rng = np.random.default_rng(0)
    >>> ward, risk = rng.choice(["A", "B", "C"], 4000), rng.uniform(0.1, 0.5, 4000)
    >>> died = rng.random(4000) < risk * np.where(ward == "B", 1.6, 1)
    >>> found = discover(died.astype(int), risk, features={"ward": ward}, n_draws=20)
    >>> found.to_frame()[["condition", "error"]].values.tolist()
    [["ward = 'B'", 'too low']]
    """

    found: tuple[FoundGroup, ...]
    overall: Mapping[str, Any]
    left_out: Mapping[str, str]
    settings: Mapping[str, Any]
    identity: Identity = field(default_factory=lambda: Identity(unit="people"))
    enough: bool = True
    protection: Protection | None = None
    _source: tuple[Counted, ...] = ()  # of everybody, and of each group found

    def __len__(self) -> int:
        return len(self.found)

    def __bool__(self) -> bool:
        return True  # also if no group was found

    @property
    def groups(self) -> Groups:
        """The groups as a definition for `audit`, `PMCBoost`, SQL and everything else
        that takes `Groups`.
        """
        where = {group.name: group.condition for group in self.found}
        return Groups(columns=[], where=where, intersections="marginal")

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the groups are made of."""
        recipes = self.groups.recipes().values()
        names = chain.from_iterable(recipe.columns for recipe in recipes)
        return tuple(dict.fromkeys(names))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What was found: the groups, each with the test that supports it."""
        return tuple(group.claim() for group in self.found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, in sentences."""
        from propcal.documents.discovery import discovery_sentences

        return discovery_sentences(self, [*self.found])

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def to_frame(self) -> pd.DataFrame:
        """A row for each group; the columns are the attributes of `FoundGroup`."""
        rows = []
        for group in self.found:
            rows.append(asdict(group) | {"also": "; ".join(group.also)})
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def to_json(self, suppress: int | None = None) -> str:
        """Everything as JSON.

        `suppress=11` protects counts, as on a page; None and 0 do not. Numbers that are
        suppressed, or only known to lie below or above another one, are null.
        """
        from propcal.documents.data import discovery_content, json_text
        from propcal.protect.protected_discovery import protected_discovery

        return json_text(discovery_content(protected_discovery(self, suppress)))

    def _document(self, suppress: int = 0, title: str | None = None) -> Document:
        from propcal.documents.discovery import discovery_document
        from propcal.protect.disclosure_rule import Rule

        return discovery_document(self, Rule(suppress).fewest, title)

    def plot(self, *, ax: Axes | None = None, width: float = 6.4) -> Axes:
        """Draw the O/E ratio of each group with its interval (extra `plots`). Returns
        the axes.
        """
        from propcal.documents.discovery import discovery_chart
        from propcal.render.matplotlib import draw

        return draw(discovery_chart(self), ax, width)

    def __repr__(self) -> str:
        return "\n".join(plain(sentence) for sentence in self.sentences)


@takes_frame
def discover(
    y: Values,
    score: Values,
    *,
    features: Table,
    data: Table = None,
    protect: Sequence[str] | None = None,
    level: float = 0.05,
    max_groups: int = 10,
    depth: int = 3,
    min_share: float = 0.02,
    sample_weight: Values | None = None,
    weight_kind: WeightKind = "auto",
    cluster: Values | None = None,
    positive: Label = None,
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

    The search tries single conditions, pairs, and a third for the strongest pairs:
    levels, ranges of numbers, and missing values. The strongest error is compared with
    the strongest that a search of the same features would find if the score were right.
    It is then corrected for, and the search goes on.

    With a data frame of any kind, name its columns, as for `audit`:
    ``discover(frame, score="risk", outcome="died", features=["age", "ward"])``.

    Parameters
    ----------
    y, score : array-like of shape (n,), or names of columns of `data`
        Outcomes (0 or 1), and risk scores in [0, 1].
    features : data frame, series, array, or list of names
        The columns by which groups may be described: n rows, or names of columns of
        `data`. Dates, identifiers and columns that give away the outcome are left out,
        and the result says so.
    data : data frame, DuckDB relation, Spark or Dask frame, or files, optional
        Where the columns are, if they are given by name. Files are a path or a list of
        paths.
    protect : list of str, optional
        Columns that a correction must not read, such as race. They describe no group;
        the search looks for groups in the other features that repair the errors of the
        protected groups.
    level : float, default=0.05
        The largest probability of finding any group if the score is right.
    max_groups : int, default=10
    depth : int, default=3
        The most conditions in a description, up to 3.
    min_share : float, default=0.02
        The smallest share of a group, in the variance of the outcome that the score
        predicts: roughly, the share of people.
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
    >>> people = pd.DataFrame({"age": rng.integers(20, 90, 8000)})
    >>> people["ward"] = rng.choice(list("ABC"), 8000)
    >>> risk = rng.uniform(0.1, 0.4, 8000)
    >>> wrong = (people.age >= 70) & (people.ward == "B")
    >>> died = (rng.random(8000) < risk + 0.25 * wrong).astype(int)
    >>> found = discover(died, risk, features=people)
    >>> found.groups.where
    {'age 70 or over, ward B': "age >= 70 and ward = 'B'"}
    """
    search_rule = SearchRule(
        level=level,
        n_draws=n_draws,
        random_state=random_state,
        depth=depth,
        min_share=min_share,
        max_groups=max_groups,
    )
    check_choice("weight_kind", weight_kind, ("auto", "frequency", "survey"))
    hidden = column_names("protect", protect)
    columns = {
        "score": score,
        "y": y,
        "sample_weight": sample_weight,
        "cluster": cluster,
    }
    roles, names, rows = read_rows(
        columns, features, data, hidden, na=na, memory_limit=memory_limit
    )
    checked = check_people(
        roles, names, rows, positive=positive, drop_missing=drop_missing
    )
    people = people_to_search(checked, weight_kind=weight_kind)
    rows = rows.kept(checked.used)
    protected = ProtectedGroups.of(rows, hidden) if hidden else None
    searched = [name for name in rows.names if name not in hidden]
    table, people, order = in_own_order(read_table(rows, people, searched), people)
    choose = None
    if protected is not None:
        protected = protected.in_order(order)
        choose = protected.choose
    if progress is None:
        progress = _ignore_progress
    outcome = search_rounds(table, people, search_rule, progress, choose)

    protection = None
    if protected is not None:
        protection = measure_repairs(protected, outcome, people)
    if not unit:
        unit = "people" if people.cluster is None else "visits"
    identity = Identity(score=score_name, unit=unit, labels=labels or {})
    everybody = np.arange(len(people))
    sets = [everybody, *(group.rows for group in outcome.groups)]
    return Discovery(
        found=_found_groups(outcome, table, people, identity),
        overall=_overall(outcome, people),
        left_out=table.left_out,
        settings=_settings(search_rule, table, people),
        identity=identity,
        enough=outcome.chance is not None,
        protection=protection,
        _source=tuple(people_headcount(people, rows) for rows in sets),
    )


def _ignore_progress(share: float) -> None:
    """Report no progress."""


def _found_groups(
    outcome: Outcome, table: FeatureTable, people: People, identity: Identity
) -> tuple[FoundGroup, ...]:
    """The groups that were found, measured, under different names."""
    taken = [feature.name for feature in table.features]
    groups = []
    for found in outcome.groups:
        group = group_found(found, table.features, people, identity, taken)
        groups.append(group)
        taken.append(group.name)
    return tuple(groups)


def _overall(outcome: Outcome, people: People) -> dict[str, Any]:
    """What was found of the score as a whole."""
    weight = float(people.weight.sum())
    events = float(people.weight @ people.outcome)
    expected = float(people.weight @ people.raw)
    return {
        "found": outcome.whole_found,
        "p_value": outcome.whole_p,
        "people": counted(weight),
        "events": counted(events),
        "observed": events / weight,
        "predicted": expected / weight,
    }


def _settings(rule: SearchRule, table: FeatureTable, people: People) -> dict[str, Any]:
    """How the search was done."""
    return {
        "version": __version__,
        "people": len(people),
        "features": len(table.features),
        "level": rule.level,
        "depth": rule.depth,
        "min_share": rule.min_share,
        "n_draws": rule.n_draws,
        "random_state": rule.random_state,
    }
