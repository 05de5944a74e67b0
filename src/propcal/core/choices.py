"""The values of options that take a word, so that a type checker notices a misspelt one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

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
