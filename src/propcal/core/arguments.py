"""What arguments accept: words, people's data, numbers, files.

Words have types, so that a type checker notices a misspelt one. Pipes, devices and
circular links are refused where a file is expected: reading them may never end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from errno import ELOOP
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from propcal.errors import Argument, InputError, Text, refused, shown
from propcal.extras import Later

if TYPE_CHECKING:
    from matplotlib.axes import Axes as MatplotlibAxes
    from numpy.typing import ArrayLike

    from propcal.core.bins import Binning
    from propcal.core.groups import Groups

np: Any = Later("numpy")
# a value for each person: a list, an array, a Series of any library
Values: TypeAlias = "ArrayLike"
# a data frame that narwhals knows, a Series, an array: checked when it is read
Table: TypeAlias = object
Axes: TypeAlias = "MatplotlibAxes"
Label = str | float | None  # a value of an outcome or an attribute
Missing = Literal["level", "exclude", "error"]
Intersections = (
    Literal["all", "marginal"]
    | int
    | list[list[str]]
    | list[tuple[str, ...]]
    | tuple[Sequence[str], ...]
)
WeightKind = Literal["auto", "frequency", "survey"]
Unseen = Literal["replay", "keep", "error"]
Invalid = Literal["error", "null", "keep"]
Order = Literal["cyclic", "random", "worst"]
Resample = Literal["bootstrap"]
Start = Literal["smooth", "identity"]
# smaller counts of people are not released unless the user asks for it
FEWEST_SHOWN = 11


@dataclass(eq=False, repr=False)
class Parameters:
    """What the estimators and a fit have in common; `propcal.PMCBoost` describes each
    of them.
    """

    alpha: float = 0.05
    gamma: float = 0.05
    rho: float = 0.1
    n_bins: int = 10
    binning: Binning = "uniform"
    eta: float = 1.0
    intersections: Intersections = "all"
    max_updates: int = 100_000
    order: Order = "cyclic"
    sample: Resample | None = None
    missing: Missing = "level"
    unseen: Unseen = "replay"
    groups: Groups | None = None
    start: Start = "smooth"
    guard: Literal["noise"] | float | None = "noise"
    monotone: bool = True


def check_number(
    name: str | Text,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> None:
    """Refuse a parameter outside its range; the error states the range."""
    kinds: tuple[type, ...] = (int, np.integer)
    if not whole:
        kinds = (*kinds, float, np.floating)
    is_number = isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))
    # the middle comparison is also false for NaN
    if (
        is_number
        and (above is None or value > above)
        and -math.inf < value < math.inf
        and (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
    ):
        return

    limits = []
    if above is not None:
        limits.append(f"above {above:g}")
    if at_least is not None:
        limits.append(f"at least {at_least:g}")
    if at_most is not None:
        limits.append(f"at most {at_most:g}")
    wanted = "a whole number" if whole else "a number"
    if limits and above is None:
        wanted += " of"
    wanted += f" {' and '.join(limits)}"
    raise InputError(_named(name) + f" must be {wanted}; got {_kind_or_value(value)}")


def _kind_or_value(value: Any) -> str:
    """A single value as text; of anything larger only its type, because it could be
    people's data that were passed by mistake.
    """
    if value is None or np.isscalar(value):
        return shown(value)
    return f"a {type(value).__name__}"


def check_choice(name: str | Text, value: Any, choices: tuple[Any, ...]) -> None:
    """Refuse a parameter that is not one of the choices; the error lists them."""
    for choice in choices:
        if value is choice or (isinstance(value, str) and value == choice):
            return
    listed = ", ".join(repr(choice) for choice in choices)
    raise InputError(
        _named(name) + f" must be one of {listed}; got {_kind_or_value(value)}"
    )


def _named(name: str | Text) -> Text:
    """The name of the refused parameter as a mention; a longer text names a part of the
    parameter.
    """
    return name if isinstance(name, Text) else Text(Argument(name))


def refuse_special(path: str | PathLike[str]) -> None:
    """Refuse anything but a regular file; a path that does not exist is left to whoever
    opens it.
    """
    refuse_circular(path)
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{path} is a folder", next_step="Name a file in it")
    if file.exists() and not file.is_file():
        raise refused("pipe", path=path)


def refuse_circular(path: str | PathLike[str]) -> None:
    """Refuse a symbolic link that leads back to itself."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == ELOOP:
            raise refused("circular link", path=path) from None
