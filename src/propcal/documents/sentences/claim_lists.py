"""Claims of one kind or one direction, and lists of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from propcal.auditing.claims import Kind
from propcal.numbers import listed

MOST_NAMES = 4


class Kinded(Protocol):
    """Anything that is of a kind, such as a claim."""

    @property
    def kind(self) -> str:
        """What is stated."""


class Directed(Protocol):
    """Anything that has a direction, such as a claim or a region of its scores."""

    @property
    def direction(self) -> str:
        """Too high or too low, higher or lower, nearer or further off."""


T = TypeVar("T")
K = TypeVar("K", bound=Kinded)
D = TypeVar("D", bound=Directed)


def split(items: Iterable[T], test: Callable[[T], Any]) -> tuple[list[T], list[T]]:
    """The items that pass a test, and the others, each in their order.

    >>> split([1, 2, 3], lambda n: n > 1)
    ([2, 3], [1])
    """
    passing = []
    others = []
    for item in items:
        if test(item):
            passing.append(item)
        else:
            others.append(item)
    return passing, others


def of_kind(claims: Iterable[K], kind: Kind) -> list[K]:
    """The claims of this kind."""
    return [claim for claim in claims if claim.kind == kind]


def on_side(claims: Iterable[D], side: str) -> list[D]:
    """The claims with this direction."""
    return [claim for claim in claims if claim.direction == side]


def by_side(
    claims: Iterable[D],
    words: Mapping[str, str],
    names: Callable[[list[D]], str],
    *,
    between: str,
) -> str:
    """Names under the words for their side: "too high for A and B, and too low for
    C".
    """
    claims = list(claims)
    parts = []
    for side, introduction in words.items():
        on_this_side = on_side(claims, side)
        if on_this_side:
            parts.append(f"{introduction} {names(on_this_side)}")
    return between.join(parts)


def listed_few(names: Sequence[str]) -> str:
    """Up to four names, or three and how many others there are.

    >>> listed_few(["A", "B", "C", "D"]), listed_few(["A", "B", "C", "D", "E"])
    ('A, B, C and D', 'A, B, C and 2 others')
    """
    shown = list(names)
    if len(shown) > MOST_NAMES:
        others = len(shown) - (MOST_NAMES - 1)
        shown = [*shown[: MOST_NAMES - 1], f"{others} others"]
    return listed(shown)
