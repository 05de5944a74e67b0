"""Groups: which patterns each contains, its name for people, and how users define it.

Of the groups that columns, cut points and conditions define, those that are large
enough form the collection C; the others are listed as left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from propcal.core.arguments import (
    Intersections,
    Missing,
    Table,
    Values,
    check_choice,
    check_number,
)
from propcal.core.conditions import Recipe, Where, make_ranges, parse
from propcal.core.grid import BoolArray, SumArray
from propcal.core.patterns import (
    BESIDE,
    CLUSTER,
    KEY,
    Level,
    Patterns,
    combinations_present,
)
from propcal.errors import Argument, InputError, plain, refused

if TYPE_CHECKING:
    import pandas as pd

    from propcal.core.atoms import Atoms

MISSING = "missing value"
MOST_MEMBERSHIPS = 1 << 28  # groups times patterns, one byte each
Labels = Mapping[str, Mapping[str, str]]  # by attribute, then by level

# levels that are a number or a range of them: 3, [80-90), 18 to 44, <65, 90+
_NUMBER = r"[+-]?[0-9][0-9.,]*"
NUMERIC_LEVEL = re.compile(
    rf"[\[(]?(?:[<>]=?|[≤≥])? ?{_NUMBER}(?: ?(?:-|–|,|;|to|\.\.) ?{_NUMBER})?[\])+]?"
)
# levels that say nothing without their attribute
BARE_LEVELS = {
    "yes",
    "no",
    "y",
    "n",
    "other",
    "unknown",
    "none",
    "missing",
    "not recorded",
    "high",
    "low",
    "normal",
}
MOST_COMBINATIONS = 5_000  # of attributes
NAMES_IN_REPR = 4


@dataclass(frozen=True)
class Group:
    """The people who have all of these levels; a group without conditions is everybody.

    >>> Group((("race", "Asian"), ("gender", "F"))).name
    'race=Asian & gender=F'
    >>> Group((("elderly", "true"), ("race", None))).name
    'elderly & race missing'
    """

    conditions: tuple[tuple[str, Level], ...]

    @property
    def name(self) -> str:
        """The name of the group."""
        if not self.conditions:
            return "everybody"
        return " & ".join(_condition_name(*condition) for condition in self.conditions)


EVERYBODY = Group(())
RESERVED = (CLUSTER, EVERYBODY.name, "all categories")


@dataclass(frozen=True)
class GroupSize:
    """A group with its size, and why it is not in the collection (empty if it is)."""

    group: Group
    people: int
    share: float
    left_out: str = ""


@dataclass(frozen=True)
class Collection:
    """The collection C: the groups that are used, in order, and the groups that were
    left out.
    """

    kept: tuple[GroupSize, ...]
    left_out: tuple[GroupSize, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of C, in the order in which a sweep visits them."""
        return tuple(size.group for size in self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[GroupSize]:
        return iter(self.kept)

    def to_frame(self) -> pd.DataFrame:
        """List every group with its people and share, whether it was kept, and the
        reason if not.
        """
        import pandas as pd

        rows = []
        for size in (*self.kept, *self.left_out):
            kept = not size.left_out
            row = (size.group.name, size.people, size.share, kept, size.left_out)
            rows.append(row)
        columns = ["group", "people", "share", "kept", "reason"]
        return pd.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        names = [plain(size.group.name) for size in self.kept[:NAMES_IN_REPR]]
        listed = ", ".join(names)
        n_more = len(self.kept) - NAMES_IN_REPR
        if n_more > 0:
            listed += f", and {n_more} more"
        kept = f"{len(self.kept)} groups ({listed})"
        return f"Collection of {kept}; {len(self.left_out)} left out"


def _condition_name(attribute: str, level: Level) -> str:
    if level is None:
        return f"{attribute} missing"
    if level == "true":
        return attribute
    if level == "false":
        return f"not {attribute}"
    return f"{attribute}={level}"


def membership(groups: Sequence[Group], patterns: Patterns) -> BoolArray:
    """Which groups (rows) contain which patterns (columns)."""
    if len(groups) * len(patterns) > MOST_MEMBERSHIPS:
        raise refused("many memberships", groups=len(groups), patterns=len(patterns))
    inside = np.ones((len(groups), len(patterns)), dtype=np.bool_)
    # dictionaries, because there may be as many groups and levels as a file has lines
    codes = [{level: i for i, level in enumerate(levels)} for levels in patterns.levels]
    index = {attribute: a for a, attribute in enumerate(patterns.attributes)}
    columns = np.ascontiguousarray(patterns.table.T)
    for g, group in enumerate(groups):
        for attribute, level in group.conditions:
            a = index[attribute]
            inside[g] &= columns[a] == codes[a].get(level, -1)
    return inside


def pattern_name(patterns: Patterns, pattern: int) -> str:
    """Write one pattern as "race=Asian & gender=F"."""
    return Group(tuple(zip(patterns.attributes, patterns.key(pattern)))).name


def group_labels(
    groups: Sequence[Group],
    patterns: Patterns,
    labels: Labels | None = None,
    *,
    everyone: str = "All people",
) -> list[str]:
    """What to call each group: its levels, each with its attribute only where the level
    alone is ambiguous.

    Two groups never share a label: where they would, both get the names that they have
    in code.

    Examples
    --------
    >>> import numpy as np
    >>> levels = (("A", "B", None), ("F", "M"), ("false", "true"))
    >>> nobody = np.empty((0, 3), dtype=np.int64)
    >>> patterns = Patterns(("race", "sex", "icu"), levels, nobody)
    >>> women_a = Group((("race", "A"), ("sex", "F")))
    >>> groups = [women_a, Group((("icu", "false"),)), Group((("race", None),))]
    >>> group_labels(groups, patterns, {"sex": {"F": "women"}})
    ['A, women', 'not icu', 'race not recorded']
    >>> levels = (("[80-90)", "90+", "old"),)
    >>> ages = Patterns(("age",), levels, np.empty((0, 1), dtype=np.int64))
    >>> group_labels([Group((("age", level),)) for level in levels[0]], ages)
    ['age [80-90)', 'age 90+', 'old']
    """
    owners: Counter[str] = Counter()
    for levels in patterns.levels:
        owners.update(str(level).casefold() for level in set(levels))
    # a level of that name is not everyone
    owners.update((everyone.casefold(), EVERYBODY.name))

    unique = []
    for group in groups:
        unique.append(plain(_label(group, patterns, labels or {}, owners, everyone)))
    names = [plain(group.name) for group in groups]
    while True:  # a name may be the label of another group
        times = Counter(unique)
        before = unique
        unique = [
            label if times[label] == 1 else name for label, name in zip(before, names)
        ]
        if unique == before:
            return unique


def _label(
    group: Group,
    patterns: Patterns,
    labels: Labels,
    owners: Counter[str],
    everyone: str,
) -> str:
    if not group.conditions:
        return everyone
    parts = []
    for attribute, level in group.conditions:
        level_labels = labels.get(attribute, {})
        label = _level_label(attribute, level, patterns, level_labels, owners)
        parts.append(label)
    return ", ".join(parts)


def _level_label(
    attribute: str,
    level: Level,
    patterns: Patterns,
    labels: Mapping[str, str],
    owners: Counter[str],
) -> str:
    if (level or "") in labels:
        return str(labels[level or ""])
    if level is None:
        return f"{attribute} not recorded"
    if level in ("true", "false"):
        return _condition_name(attribute, level)
    recipe = patterns.derived.get(attribute)
    is_range = recipe is not None and not isinstance(recipe, Where)
    if is_range or NUMERIC_LEVEL.fullmatch(level):
        return f"{attribute} {level}"  # age 65 or over; acuity 2
    if owners[level.casefold()] > 1 or level.casefold() in BARE_LEVELS:
        return f"{attribute}: {level}"
    return level


@dataclass(frozen=True)
class Groups:
    """Defines groups of people by columns, cut points of numeric columns, and named
    conditions.

    Parameters
    ----------
    columns : list of str, optional
        Columns whose values define groups; by default every column that is passed.
    cuts : dict, optional
        Cut points of numeric columns: ``{"age": [18, 40, 65]}`` defines the four groups
        under 18, 18 to under 40, 40 to under 65, and 65 or over.
    where : dict, optional
        Named groups, each defined by a condition on columns: ``{"elderly Medicare":
        "age >= 75 and insurance = Medicare"}``. A column of truth values is a condition
        by itself: ``{"intensive care": "icu"}``. `propcal.core.conditions` describes
        the syntax.
    intersections : "all", "marginal", int or list of lists, default="all"
        How many attributes a group may combine: any number, only one, or up to this
        many; or a list of the combinations themselves, such as ``[["race"], ["race",
        "gender"]]``.
    depth : dict, optional
        Limits for single attributes: with ``{"insurance": 1}``, insurance is never
        combined with others.
    missing : "level", "exclude" or "error", default="level"
        How to treat missing values: as a group of their own, as no group (these people
        still belong to groups of other attributes), or as an error.
    as_levels : list of str, optional
        Columns of whole-number codes, such as hospital numbers, whose values are groups
        however many they are (up to 200); other columns of more than 20 numbers need
        cut points.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"sex": ["F", "M", "F", "F"], "age": [80, 30, 76, 50]})
    >>> old_women = {"old women": "age > 75 and sex = F"}
    >>> groups = Groups(columns=["sex"], cuts={"age": [65]}, where=old_women)
    >>> print(groups.preview(people)[["group", "people"]].head(5))
              group  people
    0         sex=F       3
    1         sex=M       1
    2  age=under 65       2
    3  age=65 or over     2
    4     old women       2
    """

    columns: Sequence[str] | None = None
    cuts: Mapping[str, Sequence[float]] | None = None
    where: Mapping[str, str] | None = None
    intersections: Intersections = "all"
    depth: Mapping[str, int] | None = None
    missing: Missing = "level"
    as_levels: Sequence[str] = ()

    def __post_init__(self) -> None:
        for argument in ("columns", "as_levels"):
            self._check_names(argument)
        for name in self.as_levels:
            if name in (self.cuts or {}):
                raise refused("cut and levels", name=name)
        self._check_intersections()
        for argument in ("cuts", "where", "depth"):
            value = getattr(self, argument)
            if value is not None and not isinstance(value, Mapping):
                raise InputError(
                    f"{argument} must be a dict; got a {type(value).__name__}",
                    argument=argument,
                )
        if self.depth and self._lists:
            raise refused("depth beside intersections")
        for attribute, limit in (self.depth or {}).items():
            named = Argument("depth") + f" of {attribute!r}"
            check_number(named, limit, at_least=1, whole=True)
        check_choice("missing", self.missing, ("level", "exclude", "error"))
        self.recipes()  # checks cuts and conditions

    def _check_names(self, argument: str) -> None:
        """Refuse one text in place of a list of names, and a name that is listed
        twice.
        """
        names = getattr(self, argument)
        if isinstance(names, str):
            raise refused("one text", argument=argument, names=names)
        for name in names or ():
            if list(names).count(name) > 1:
                raise InputError(
                    f"{argument}: {name!r} is listed twice", argument=argument
                )

    def _check_intersections(self) -> None:
        asked: object = self.intersections
        if isinstance(asked, str):
            if asked not in ("all", "marginal"):
                wrong = (
                    f" must be 'all', 'marginal' or a number of columns; got {asked!r}"
                )
                raise InputError(Argument("intersections") + wrong)
        elif isinstance(asked, Sequence):
            for names in asked or [()]:
                if isinstance(names, str) or not (
                    isinstance(names, Sequence) and names
                ):
                    raise InputError(
                        Argument("intersections")
                        + ": a list must contain lists of attributes, such as "
                        '[["race"], ["race", "gender"]]'
                    )
        else:
            check_number("intersections", asked, at_least=1, whole=True)

    @property
    def _lists(self) -> tuple[Sequence[str], ...]:
        """The lists of attributes to combine, if they were given as lists."""
        if isinstance(self.intersections, (str, int, np.integer)):
            return ()
        return tuple(self.intersections)

    @classmethod
    def from_masks(
        cls,
        masks: Table,
        *,
        names: Sequence[str] | None = None,
        missing: Missing = "level",
    ) -> Groups:
        """Groups that may overlap, each given by a column of truth values.

        Parameters
        ----------
        masks : data frame, dict of arrays, or array of shape (n, k)
            One column for each group. Pass the same masks as `sensitive_features`. Only
            their names are kept.
        names : list of str, optional
            Names of the columns of an array; by default sensitive_feature_0 and so on.
        missing : "level", "exclude" or "error", default="level"
            As for `Groups`; who has a missing value in a mask is not in its group.

        Returns
        -------
        Groups
            One group for each mask: people outside of a mask form no group, and masks
            are not crossed.

        Examples
        --------
        >>> import pandas as pd
        >>> masks = pd.DataFrame(
        ...     {"surgery": [True, True, False], "on dialysis": [False, True, False]}
        ... )
        >>> print(Groups.from_masks(masks).preview(masks)[["group", "people"]])
                 group  people
        0      surgery       2
        1  on dialysis       1
        """
        # core itself does not handle frames
        from propcal.reading.frames import mask_names

        in_masks = mask_names(masks)
        if names is None:
            names = in_masks
        elif len(names) != len(in_masks):
            raise InputError(
                f"names: {len(names)} names for {len(in_masks)} masks",
                argument="names",
            )
        where = {}
        for name in names:
            if "`" in name:
                raise refused("backquote", name=name)
            where[name] = f"`{name}` = 1"  # the column is true, or 1
        return cls(columns=[], where=where, intersections="marginal", missing=missing)

    def recipes(self) -> dict[str, Recipe]:
        """How each attribute that is not a column itself is made from columns."""
        recipes: dict[str, Recipe] = {}
        for column, points in (self.cuts or {}).items():
            recipes[column] = make_ranges(column, points)
        for name, text in (self.where or {}).items():
            if not isinstance(name, str) or not name.strip():
                raise refused("condition without name", name=name)
            if name in recipes:
                raise refused("condition is column", name=name, kind="column with cuts")
            recipes[name] = Where(parse(text))
        return recipes

    def attributes(self, passed: Sequence[str]) -> tuple[str, ...]:
        """The attributes in order: columns (those with cuts in their place), other
        cuts, conditions.
        """
        columns = passed if self.columns is None else self.columns
        own = [*columns, *self.as_levels]
        names = dict.fromkeys([*own, *(self.cuts or {}), *(self.where or {})])
        for name in names:
            _refuse_reserved(name)
        for name in self.where or {}:
            if name in own:
                raise refused("condition is column", name=name, kind="column")
        return tuple(names)

    def combinations(self, attributes: Sequence[str]) -> Iterator[tuple[int, ...]]:
        """The combinations of attributes (as indices) that form groups, by depth, then
        in the given order.
        """
        in_lists = [name for names in self._lists for name in names]
        for name in [*(self.depth or {}), *in_lists]:
            if name not in attributes:
                raise InputError(
                    f"there is no attribute {name!r} to combine; "
                    f"there are {list(attributes)}"
                )
        if self._lists:
            yield from self._listed_combinations(attributes)
        else:
            yield from self._combinations_by_depth(attributes)

    def _listed_combinations(
        self, attributes: Sequence[str]
    ) -> Iterator[tuple[int, ...]]:
        chosen = []
        for names in self._lists:
            places = {attributes.index(name) for name in names}
            chosen.append(tuple(sorted(places)))
        if len(set(chosen)) < len(chosen):
            raise InputError(Argument("intersections") + " lists a combination twice")
        yield from chosen

    def _combinations_by_depth(
        self, attributes: Sequence[str]
    ) -> Iterator[tuple[int, ...]]:
        n = len(attributes)
        if self.intersections == "all":
            most = n
        elif self.intersections == "marginal":
            most = min(1, n)
        else:
            most = min(int(self.intersections), n)  # type: ignore[arg-type]  # a depth by now
        if sum(comb(n, size) for size in range(1, most + 1)) > MOST_COMBINATIONS:
            raise refused("many combinations", n=n, most=MOST_COMBINATIONS)
        limits = [(self.depth or {}).get(name, most) for name in attributes]
        for size in range(1, most + 1):
            for columns in combinations(range(n), size):
                if all(limits[column] >= size for column in columns):
                    yield columns

    def collect(
        self, atoms: Atoms, *, gamma: float, or_everybody: bool = False
    ) -> Collection:
        """Build the collection C: the named groups, and those whose share of the weight
        is at least `gamma`.

        If no group is that large, it is a single group of everybody with
        `or_everybody`, or else an error.
        """
        sizes = self.sizes(atoms, gamma=gamma)
        kept = tuple(size for size in sizes if not size.left_out)
        if not kept and or_everybody:
            kept = (GroupSize(EVERYBODY, atoms.n_people, 1.0),)
        if not kept:
            if all(size.left_out == MISSING for size in sizes):
                raise refused("all missing")
            largest = max(sizes, key=lambda size: size.share)
            raise refused(
                "no large group",
                n=len(sizes),
                name=largest.group.name,
                share=largest.share,
                gamma=gamma,
            )
        return Collection(kept, tuple(size for size in sizes if size.left_out))

    def sizes(self, atoms: Atoms, *, gamma: float) -> list[GroupSize]:
        """Every group in the order of C, kept or not."""
        patterns = atoms.patterns
        people = atoms.pattern_sums(atoms.people)
        if atoms.weight is atoms.people:
            weight = people
        else:
            weight = atoms.pattern_sums(atoms.weight)
        if self.missing == "error":
            _refuse_missing(patterns, people)
        if not patterns.attributes:
            return [GroupSize(EVERYBODY, atoms.n_people, 1.0)]
        sizes: list[GroupSize] = []
        for columns in self.combinations(patterns.attributes):
            sizes += self._sizes(patterns, columns, people, weight, gamma)
        for name, levels in zip(patterns.attributes, patterns.levels):
            if _is_condition(patterns, name) and "true" not in levels:
                nobody = Group(((name, "true"),))
                sizes.append(GroupSize(nobody, 0, 0.0, "nobody meets the condition"))
        return sizes

    def refuse_too_many(
        self, patterns: Patterns, n_memberships: int | None = None
    ) -> None:
        """Refuse more groups than can be measured, before any of them is listed.

        `n_memberships` is the number of patterns in which they are measured, if it is
        not that of `patterns`.
        """
        most = MOST_MEMBERSHIPS // (n_memberships or len(patterns))
        if self._most_groups(patterns) <= most:
            return
        if self._count_groups(patterns, most) <= most:
            return
        n = len(patterns.attributes)
        if self.intersections != "marginal":
            pairs = replace(self, intersections=2, depth=None)
            if pairs._most_groups(patterns) <= most:
                raise refused("pairs fit", n=n, most=most)
            marginal = replace(self, intersections="marginal", depth=None)
            if marginal._most_groups(patterns) <= most:
                raise refused("attributes fit", n=n, most=most)
        raise refused("many intersections", n=n, most=most)

    def _most_groups(self, patterns: Patterns) -> int:
        """How many groups there would be if all levels occurred together, but at most
        one for each pattern and combination of attributes.
        """
        n_levels = []
        for name, levels in zip(patterns.attributes, patterns.levels):
            # people who do not meet a named condition do not form a group
            condition_met = _is_condition(patterns, name) and "true" in levels
            n_levels.append(1 if condition_met else len(levels))
        total = 0
        for columns in self.combinations(patterns.attributes):
            total += min(prod(n_levels[c] for c in columns), len(patterns))
        return total

    def _count_groups(self, patterns: Patterns, most: int) -> int:
        """How many groups there are; counting stops above `most`."""
        total = 0
        chosen = self.combinations(patterns.attributes)
        for columns in sorted(chosen, key=len, reverse=True):
            codes = [patterns.table[:, c] for c in columns]
            radix = [len(patterns.levels[c]) for c in columns]
            present, _ = combinations_present(codes, radix, len(patterns))
            for place, c in enumerate(columns):
                levels = patterns.levels[c]
                if _is_condition(patterns, patterns.attributes[c]) and "true" in levels:
                    present = present[present[:, place] == levels.index("true")]
            total += len(present)
            if total > most:
                break
        return total

    def preview(
        self,
        frame: Table,
        outcome: Values | None = None,
        *,
        gamma: float = 0.05,
        sample_weight: Values | None = None,
    ) -> pd.DataFrame:
        """List every group with its people, share and outcome rate, and why it is left
        out if it is.

        Parameters
        ----------
        frame : data frame, or anything that `fit` accepts as sensitive_features
        outcome : column name or array-like, optional
            Needed for outcome rates.
        gamma : float, default=0.05
        sample_weight : array-like, optional
        """
        # core itself does not handle frames
        from propcal.reading.rows import preview

        table: pd.DataFrame = preview(
            self, frame, outcome, gamma=gamma, sample_weight=sample_weight
        )
        return table

    def _sizes(
        self,
        patterns: Patterns,
        columns: tuple[int, ...],
        people: SumArray,
        weight: SumArray,
        gamma: float,
    ) -> Iterator[GroupSize]:
        """Every combination of levels of some attributes, sorted, with its size."""
        codes = [patterns.table[:, column] for column in columns]
        radix = [len(patterns.levels[column]) for column in columns]
        present, inverse = combinations_present(codes, radix, len(patterns))
        n_people = np.bincount(inverse, weights=people).astype(np.int64)
        shares = np.bincount(inverse, weights=weight) / weight.sum()
        for codes_of_group, count, share in zip(present, n_people, shares):
            conditions = tuple(
                (patterns.attributes[column], patterns.levels[column][code])
                for column, code in zip(columns, codes_of_group)
            )
            if any(
                level != "true" and _is_condition(patterns, name)
                for name, level in conditions
            ):
                continue  # people who do not meet a named condition do not form a group
            reason = self._reason_to_leave_out(patterns, conditions, share, gamma)
            yield GroupSize(Group(conditions), int(count), float(share), reason)

    def _reason_to_leave_out(
        self,
        patterns: Patterns,
        conditions: tuple[tuple[str, Level], ...],
        share: float,
        gamma: float,
    ) -> str:
        """Why a group is not in the collection; empty if it is."""
        if self.missing == "exclude" and any(level is None for _, level in conditions):
            return MISSING
        named_by_user = len(conditions) == 1 and _is_condition(
            patterns, conditions[0][0]
        )
        if share < gamma and not named_by_user:
            return f"share below gamma={gamma:g}"
        return ""


def _is_condition(patterns: Patterns, attribute: str) -> bool:
    """Whether an attribute is a condition that the user named."""
    return isinstance(patterns.derived.get(attribute), Where)


def _refuse_missing(patterns: Patterns, people: Any) -> None:
    """Refuse missing values; the message counts them."""
    for column, levels in enumerate(patterns.levels):
        if None in levels:
            missing = patterns.table[:, column] == levels.index(None)
            count = int(people[missing].sum())
            who = "1 person" if count == 1 else f"{count:,} people"
            raise refused("level missing", name=patterns.attributes[column], who=who)


def _refuse_reserved(name: str) -> None:
    """Refuse a name that propcal gives to attributes that define no groups, or to all
    people together.
    """
    for prefix in (KEY, BESIDE):
        if str(name).startswith(prefix):
            which = f"names that begin with {prefix!r}"
            raise refused("reserved name", name=name, which=which)
    if name in RESERVED:
        raise refused("reserved name", name=name, which="that name")


def definition(groups: Any, intersections: Any, missing: Missing) -> Groups:
    """The definition of the groups: from `groups`, or from the other two arguments, but
    not from both.
    """
    short = Groups(intersections=intersections, missing=missing)
    if groups is None:
        return short
    if not isinstance(groups, Groups):
        _refuse_definition(groups)
    if short != Groups():
        raise refused("rule twice")
    return groups


def _refuse_definition(groups: Any) -> NoReturn:
    """Refuse anything else than a definition of groups, such as a list of columns."""
    kind = type(groups).__name__
    names: Any = groups
    if isinstance(groups, str):
        names = [groups]
    elif isinstance(groups, tuple):
        names = [*groups]
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        raise refused("names as groups", kind=kind, names=names)
    raise refused("no groups", kind=kind, names=names)
