"""What arguments accept: words, so that a type checker notices a misspelt one, and people's data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes as MatplotlibAxes
    from numpy.typing import ArrayLike

Values: TypeAlias = "ArrayLike"  # a value for each person: a list, an array, a Series of any library
Table: TypeAlias = object  # a data frame that narwhals knows, a Series, an array: checked when it is read
Axes: TypeAlias = "MatplotlibAxes"
Label = str | float | None  # a value of an outcome or an attribute
Missing = Literal["level", "exclude", "error"]
Intersections = (
    Literal["all", "marginal"] | int | list[list[str]] | list[tuple[str, ...]] | tuple[Sequence[str], ...]
)
WeightKind = Literal["auto", "frequency", "survey"]
Unseen = Literal["replay", "keep", "error"]
Invalid = Literal["error", "null", "keep"]
Order = Literal["cyclic", "random", "worst"]
Resample = Literal["bootstrap"]
Start = Literal["smooth", "identity"]
