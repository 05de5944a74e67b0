"""Who is named: one rule for audits, monitors and searches.

A score that is too high for women is too high for Black women, and a little too high for everybody. So the
clearest error is taken out, then the clearest of what is left, and so on. Then two things hold of the groups
that are named: a part is named only if it differs from the rest of the whole, and a broad group only if an
error remains in it once the other groups named are taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

One = TypeVar("One")


class Errors(Protocol[One]):
    """Errors that may be named, and how to judge what is left once some are taken out."""

    def clearest(self, named: Sequence[One]) -> One | None:
        """The clearest error that is left once those named are taken out; None if there is none."""

    def whole_of(self, part: One, others: Sequence[One]) -> One | None:
        """A broader error that the part does not differ from; None if there is none."""

    def remains(self, one: One, others: Sequence[One]) -> bool:
        """Whether an error is left once the others are taken out."""

    def size(self, one: One) -> float:
        """How many people it concerns."""


def errors_to_name(errors: Errors[One], most: int) -> list[One]:
    """The errors to name, the clearest first."""
    named: list[One] = []
    while len(named) < most and (best := errors.clearest(named)) is not None:
        named.append(best)
    for part in list(named):
        others = [one for one in named if one is not part]
        whole = errors.whole_of(part, others)
        if whole is not None:
            named = [*others, whole]
    for one in sorted(named, key=errors.size, reverse=True):
        others = [other for other in named if other is not one]
        if others and not errors.remains(one, others):
            named = others
    return named
