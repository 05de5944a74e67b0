"""Functions of arrays that also take a frame and the names of its columns.

``audit(frame, score="risk", outcome="died", groups=["sex"], weight="w",
cluster="patient")`` reads the columns and calls the function with arrays. Arrays, too,
may be called `outcome`, `weight` and `groups` in place of `y`, `sample_weight` and
`sensitive_features`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from propcal.core.arguments import Intersections, Missing, WeightKind
from propcal.core.groups import Groups
from propcal.errors import Argument, InputError, refused
from propcal.reading.frames import is_engine_frame, is_frame
from propcal.reading.rows import FrameColumns, wanted_columns
from propcal.reading.source import NamedColumns, frame_source

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)
OLD_NAMES = {"outcome": "y", "weight": "sample_weight"}
ROLES = ("y", "sample_weight", "cluster")  # of columns other than scores and groups


class TakesFrame(Protocol[P, Result]):
    """A function of arrays that also takes a frame and names of columns."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...
    @overload
    def __call__(
        self,
        frame: Any = ...,
        /,
        *,
        outcome: Any,
        score: Any = ...,
        groups: Any = ...,
        weight: Any = ...,
        cluster: Any = ...,
        missing: Missing = ...,
        intersections: Intersections = ...,
        weight_kind: WeightKind = ...,
        **settings: Any,
    ) -> Result: ...


def takes_frame(function: Callable[P, Result]) -> TakesFrame[P, Result]:
    """Let a function of arrays also take a frame and names of columns."""
    decorated: TakesFrame[P, Result] = method_takes_frame(lambda: [])(function)
    return decorated


def method_takes_frame(
    columns_read_by: Callable[..., Iterable[str]],
) -> Callable[[Callable[..., Any]], Any]:
    """Let a method take a frame and names of columns; `columns_read_by` gives the
    columns that the object itself reads.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        arrays = _ArrayFunction.of(function)

        @wraps(function)
        def call(*args: Any, **settings: Any) -> Any:
            own, given = arrays.split(args)
            if len(given) == 1 and _names_columns(given[0], settings):
                named = arrays.renamed(settings, by_position=[])
                return arrays.call_with_columns(
                    own, given[0], named, columns_read_by(*own)
                )
            by_position = arrays.positional[: len(given)]
            return arrays.call(args, arrays.renamed(settings, by_position))

        return call

    return decorate


@dataclass(frozen=True)
class _ArrayFunction:
    """A function or method of arrays, and the arguments that it takes.

    `names` are all of them, `positional` those that may be given by position without
    self, `features` is the one for the attributes.
    """

    function: Callable[..., Any]
    names: list[str]
    positional: list[str]
    takes_others: bool
    features: str

    @classmethod
    def of(cls, function: Callable[..., Any]) -> _ArrayFunction:
        parameters = inspect.signature(function).parameters.values()
        names = []
        positional = []
        takes_others = False
        for one in parameters:
            names.append(one.name)
            if one.kind is one.VAR_KEYWORD:
                takes_others = True
            elif one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self":
                positional.append(one.name)
        features = "features" if "features" in names else "sensitive_features"
        return cls(function, names, positional, takes_others, features)

    @property
    def is_method(self) -> bool:
        return "self" in self.names

    @property
    def takes_groups(self) -> bool:
        """Whether there is an argument for definitions of groups."""
        return "groups" in self.names or "settings" in self.names

    def split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Self, if it is a method, and the other arguments given by position; refuses
        too many.
        """
        n_own = int(self.is_method)
        if len(args) > n_own + len(self.positional):
            raise refused(
                "by position",
                function=self.function.__name__,
                places=" and ".join(self.positional),
                features=self.features,
            )
        return args[:n_own], args[n_own:]

    def call(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> Any:
        for name in arguments:
            if name not in self.names and not self.takes_others:
                called = f"{self.function.__name__}()"
                raise TypeError(f"{called} got an unexpected keyword argument {name!r}")
        return self.function(*args, **arguments)

    def call_with_columns(
        self,
        own: tuple[Any, ...],
        frame: Any,
        settings: dict[str, Any],
        read_by_object: Iterable[str],
    ) -> Any:
        """Call the function with columns of a frame; its errors say which columns these
        are.
        """
        names_by_role = {
            role: settings[role] for role in ("score", *ROLES) if role in settings
        }
        if own and "y" in self.names:
            own[0]._column_names = names_by_role  # a fit records them
        try:
            return self.call(own, _arrays(self, frame, settings, [*read_by_object]))
        except InputError as error:
            if error.argument in names_by_role:
                roles = names_by_role.items()
                notes = [f"{role} is column {name!r}" for role, name in roles]
                error.add_note("; ".join(notes))
            raise

    def renamed(
        self, settings: Mapping[str, Any], by_position: Sequence[str]
    ) -> dict[str, Any]:
        """The settings as the function calls them, beside arguments given by
        position.
        """
        old_names = dict(OLD_NAMES)
        groups = settings.get("groups")
        defines = isinstance(groups, (Groups, str, list, tuple, type(None)))
        if not (defines and self.takes_groups):
            old_names["groups"] = self.features

        renamed = dict(settings)
        for new, old in old_names.items():
            if new not in settings or old not in self.names:
                continue
            if settings.get(old) is not None or old in by_position:
                problem = f"{new} and {old} are the same argument"
                raise InputError(problem, argument=new, next_step="Give one")
            renamed[old] = renamed.pop(new)
        return renamed


def _names_columns(first: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a frame comes first and its columns are named."""
    score = settings.get("score", settings.get("scores"))
    outcome = settings.get("outcome")
    if isinstance(outcome, str) and not is_frame(first):
        raise refused("frame first", kind=type(first).__name__)
    names_several = isinstance(score, (list, tuple, Mapping)) and all(
        isinstance(name, str) for name in score
    )
    names_any = names_several or isinstance(score, str) or isinstance(outcome, str)
    return names_any and is_frame(first)


def _arrays(
    arrays: _ArrayFunction,
    frame: Any,
    settings: dict[str, Any],
    read_by_object: list[str],
) -> dict[str, Any]:
    """The arguments with columns in place of their names; columns that the object reads
    are read as well.
    """
    groups = _groups_named(arrays, settings)
    if "data" in arrays.names:
        return settings | {arrays.features: [*groups], "data": frame}

    scores = _scores_named(arrays, settings)
    score_columns = [score for score in scores.values() if isinstance(score, str)]
    roles = {role: settings[role] for role in ROLES if settings.get(role) is not None}
    column_of = _attributes_named(groups)
    further = list(read_by_object)
    for score in scores.values():
        further += getattr(getattr(score, "correction_", score), "reads", ())
    further = [name for name in dict.fromkeys(further) if name not in column_of]
    if "y" in arrays.names:
        _refuse_two_roles(groups, [*column_of.values(), *further], score_columns, roles)

    if isinstance(groups, Groups):
        settings["groups"] = groups
    elif further and arrays.takes_groups:  # corrections read more than the groups
        rule = {}
        for name in ("intersections", "missing"):
            if name in settings:
                rule[name] = settings.pop(name)
        settings["groups"] = Groups(columns=[*column_of], **rule)
    column_of |= dict(zip(further, further))

    wanted = list(dict.fromkeys([*score_columns, *roles.values(), *column_of.values()]))
    source = frame_source(frame)
    columns = source.columns(wanted)
    for role, column in roles.items():
        settings[role] = columns[column]
    passed = FrameColumns({name: columns[column] for name, column in column_of.items()})
    in_memory = not is_engine_frame(frame)
    if in_memory and "cluster" in arrays.names and "cluster" not in roles:
        passed.unused_id = source.warn_of_unused_id(wanted)
    settings[arrays.features] = passed if passed or passed.unused_id else None

    if "scores" not in arrays.names:
        return settings | {"score": columns[scores["score"]]}
    for name, score in scores.items():
        if isinstance(score, str):
            scores[name] = columns[score]
    return settings | {"scores": scores}


def _groups_named(arrays: _ArrayFunction, settings: dict[str, Any]) -> Any:
    """The groups, taken out of the settings: a definition, or names of columns."""
    features = settings.pop(arrays.features, None)
    groups = features
    if features is None:
        groups = settings.pop("groups", None)
    if groups is None:
        return []
    if isinstance(groups, str):
        return [groups]
    if isinstance(groups, Groups) and arrays.takes_groups:
        return groups
    if not isinstance(groups, (list, tuple, Mapping)):
        key = "no names in a fit" if arrays.is_method else "no names"
        raise refused(key, kind=type(groups).__name__)
    return groups


def _scores_named(arrays: _ArrayFunction, settings: dict[str, Any]) -> dict[str, Any]:
    """The scores by name, taken out of the settings: names of columns, or in a
    comparison corrections, too.
    """
    scores = settings.pop("scores", None)
    score = settings.pop("score", scores)
    if "scores" not in arrays.names and not isinstance(score, str):
        problem = f" must be the name of a column; got {type(score).__name__}"
        raise InputError(Argument("score") + problem)
    if isinstance(score, Mapping):
        return dict(score)
    if isinstance(score, (list, tuple)) and score:
        return dict(zip(score, score))
    return {"score": score}


def _attributes_named(groups: Any) -> dict[str, str]:
    """The column of each attribute by its name."""
    if isinstance(groups, Mapping):
        return dict(groups)
    names = groups
    if isinstance(groups, Groups):
        names = wanted_columns(groups) or ()
    return dict(zip(names, names))


def _refuse_two_roles(
    groups: Any,
    attributes: Sequence[str],
    score_columns: Sequence[str],
    roles: Mapping[str, str],
) -> None:
    """Refuse a column that is named for several roles that exclude each other."""
    for column in score_columns:
        NamedColumns(
            column,
            cast(str, roles.get("y")),
            groups if isinstance(groups, Groups) else list(attributes),
            roles.get("sample_weight"),
            roles.get("cluster"),
        )
