"""Functions of arrays that also take a frame and the names of its columns, as the
command line does.

``audit(frame, score="risk", outcome="died", groups=["sex"], weight="w",
cluster="patient")`` reads the columns and calls the function with arrays. Arrays, too,
may be called `outcome`, `weight` and `groups` in place of `y`, `sample_weight` and
`sensitive_features`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from propcal.core.arguments import Intersections, Missing, WeightKind
from propcal.core.groups import Groups
from propcal.errors import Argument, InputError, refused
from propcal.reading.frames import is_engine_frame, is_frame
from propcal.reading.patient_ids import count_values, warn_of_undeclared
from propcal.reading.rows import FrameColumns, wanted_columns
from propcal.reading.source import NamedColumns, frame_source

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)
SAME = {"outcome": "y", "weight": "sample_weight"}
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
    both: TakesFrame[P, Result] = method_takes_frame(lambda: [])(function)
    return both


def method_takes_frame(
    also: Callable[..., Iterable[str]],
) -> Callable[[Callable[..., Any]], Any]:
    """Let a method take a frame and names of columns; `also` names columns that the
    object itself reads.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kinds = {
            name: one.kind
            for name, one in inspect.signature(function).parameters.items()
        }
        places = [
            name
            for name, kind in kinds.items()
            if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        n_own = places.count("self")
        features = "features" if "features" in kinds else "sensitive_features"

        def run(*args: Any, **arguments: Any) -> Any:
            unknown = next((name for name in arguments if name not in kinds), None)
            if unknown and inspect.Parameter.VAR_KEYWORD not in kinds.values():
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {unknown!r}"
                )
            return function(*args, **arguments)

        @wraps(function)
        def call(*args: Any, **settings: Any) -> Any:
            own = args[:n_own]
            given = args[n_own:]
            if len(args) > len(places):
                by = {
                    "function": function.__name__,
                    "places": " and ".join(places[n_own:]),
                }
                raise refused("by position", **by, features=features)
            named = len(given) == 1 and _names_columns(given[0], settings)
            taken = [] if named else places[: len(args)]
            arguments = _renamed(settings, list(kinds), features, taken)
            if not named:
                return run(*args, **arguments)
            called = {
                role: arguments[role] for role in ("score", *ROLES) if role in arguments
            }
            if own and "y" in kinds:
                own[0]._column_names = called  # a fit records them
            try:
                return run(
                    *own,
                    **_arrays(
                        given[0], arguments, list(kinds), features, [*also(*own)]
                    ),
                )
            except InputError as error:
                if error.argument in called:
                    error.add_note(
                        "; ".join(
                            f"{role} is column {name!r}"
                            for role, name in called.items()
                        )
                    )
                raise

        return call

    return decorate


def _names_columns(first: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a frame comes first and its columns are named."""
    score = settings.get("score", settings.get("scores"))
    outcome = settings.get("outcome")
    several = isinstance(score, (list, tuple, Mapping)) and all(
        isinstance(name, str) for name in score
    )
    if isinstance(outcome, str) and not is_frame(first):
        raise refused("frame first", kind=type(first).__name__)
    return (several or isinstance(score, str) or isinstance(outcome, str)) and is_frame(
        first
    )


def _renamed(
    settings: dict[str, Any], names: Sequence[str], features: str, taken: Sequence[str]
) -> dict[str, Any]:
    """The settings as the function calls them; `names` are its arguments, `taken` those
    given by position.
    """
    defined = isinstance(settings.get("groups"), (Groups, str, list, tuple, type(None)))
    renamed = dict(settings)
    for new, old in (
        SAME if defined and _defines(names) else SAME | {"groups": features}
    ).items():
        if new in settings and old in names:
            if settings.get(old) is not None or old in taken:
                raise InputError(
                    f"{new} and {old} are the same argument",
                    argument=new,
                    next_step="Give one",
                )
            renamed[old] = renamed.pop(new)
    return renamed


def _defines(names: Sequence[str]) -> bool:
    """Whether there is an argument for definitions of groups."""
    return "groups" in names or "settings" in names


def _arrays(
    frame: Any,
    settings: dict[str, Any],
    names: Sequence[str],
    features: str,
    also: list[str],
) -> dict[str, Any]:
    """The arguments with columns in place of their names; the columns in `also` are
    read as well.
    """
    given = settings.pop(features, None)
    groups: Any = settings.pop("groups", None) if given is None else given
    if groups is None:
        groups = []
    elif isinstance(groups, str):
        groups = [groups]
    defined = isinstance(groups, Groups) and _defines(names)
    method = "self" in names
    if not (defined or isinstance(groups, (list, tuple, Mapping))):
        raise refused(
            "no names in a fit" if method else "no names", kind=type(groups).__name__
        )
    if "data" in names:
        return settings | {features: [*groups], "data": frame}
    score = settings.pop("score", settings.pop("scores", None))
    if not ("scores" in names or isinstance(score, str)):
        raise InputError(
            Argument("score")
            + f" must be the name of a column; got {type(score).__name__}"
        )
    listed = score if isinstance(score, (list, tuple)) else ()
    if isinstance(score, Mapping):
        scores = score
    else:
        scores = dict(zip(listed, listed)) or {"score": score}
    columns = [one for one in scores.values() if isinstance(one, str)]
    roles = {role: settings[role] for role in ROLES if settings.get(role) is not None}
    attributes = (wanted_columns(groups) or ()) if defined else groups
    if isinstance(groups, Mapping):
        made_of = dict(groups)
    else:
        made_of = {name: name for name in attributes}
    for one in scores.values():
        also += getattr(getattr(one, "correction_", one), "reads", ())
    more = {name: name for name in also if name not in made_of}
    words = groups if defined else [*made_of.values(), *more]
    outcome, weight, cluster = map(roles.get, ROLES)
    for column in columns if "y" in names else ():  # refuses a column with two roles
        NamedColumns(column, cast(str, outcome), words, weight, cluster)
    if defined:
        settings["groups"] = groups
    elif more and _defines(names):  # corrections read more than the groups
        rule = {
            name: settings.pop(name)
            for name in ("intersections", "missing")
            if name in settings
        }
        settings["groups"] = Groups(columns=[*made_of], **rule)
    made_of |= more
    wanted = list(dict.fromkeys([*columns, *roles.values(), *made_of.values()]))
    source = frame_source(frame)
    table = source.columns(wanted)
    unused_id = ""
    if "cluster" in names and "cluster" not in roles and not is_engine_frame(frame):
        unused = (name for name in source.names if name not in wanted)
        unused_id = warn_of_undeclared(
            unused, lambda name: count_values(source.columns([name])[name])
        )
    settings |= {role: table[name] for role, name in roles.items()}
    passed = FrameColumns({name: table[column] for name, column in made_of.items()})
    passed.unused_id = unused_id
    settings[features] = passed if passed or unused_id else None
    values = {
        name: table[one] if isinstance(one, str) else one
        for name, one in scores.items()
    }
    return settings | (
        {"scores": values} if "scores" in names else {"score": table[score]}
    )
