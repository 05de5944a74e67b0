"""``--fail-on "pmc > 0.2"``: conditions under which an audit exits with code 1."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from propcal.auditing.finding_names import MISCALIBRATED, NONE_FOUND
from propcal.auditing.measure_names import LOSSES
from propcal.errors import InputError
from propcal.numbers import Limit

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
NAMES = (*LOSSES, *(f"{loss}.low" for loss in LOSSES), "mc_rms", "pmc_rms")
_FORM = re.compile(r"\s*([a-zA-Z_.]+)\s*(>=|<=|>|<)\s*([-+0-9.eE]+)\s*")


@dataclass(frozen=True)
class Threshold:
    """A limit for a number of the audit, or its verdict."""

    name: str
    compare: str = ""
    limit: float = math.nan

    def undecided(self, audit: Any) -> str:
        """A note if there was no verdict that could fail."""
        conclusion = audit.verdict.conclusion
        decided = self.name != "verdict" or conclusion in (MISCALIBRATED, NONE_FOUND)
        return "" if decided else f"{self} passes, although the verdict is: {conclusion}"

    def failure(self, audit: Any, shown: Any = None) -> str:
        """Why the audit fails; empty if it does not. An unknown value fails.

        `shown` is the audit as it may be shown, from protected counts.
        """
        if self.name == "verdict":
            conclusion = audit.verdict.conclusion
            return f"the verdict is: {conclusion}" if conclusion == MISCALIBRATED else ""
        value = _value(audit, self.name)
        if math.isnan(value):
            return f"{self}: {self.name} is not known for these data"
        if not COMPARE[self.compare](value, self.limit):
            return ""
        told = value if shown is None or shown is audit else _value(shown, self.name)
        if math.isnan(told):
            return f"{self}: this holds; its value is not shown, because it rests on few people"
        least = f"{told.side} " if isinstance(told, Limit) else "about " if told is not value else ""
        return f"{self}: {self.name} is {least}{told:.4g}"

    def __str__(self) -> str:
        return self.name if self.name == "verdict" else f"{self.name} {self.compare} {self.limit:g}"


def _value(audit: Any, name: str) -> float:
    loss = name.removesuffix("_rms").removesuffix(".low")
    if name.endswith("_rms"):
        return float(audit.debiased.loc[loss, "rms"])
    value = audit.losses.loc[loss, "low" if name.endswith(".low") else "value"]
    return value if isinstance(value, Limit) else float(value)


def thresholds(texts: Sequence[str] | None) -> list[Threshold]:
    """Read ``pmc > 0.2``, ``mc.low >= 0.05`` or ``verdict``.

    >>> [str(t) for t in thresholds(["pmc>.2", "verdict"])]
    ['pmc > 0.2', 'verdict']
    """
    return [_threshold(text) for text in texts or []]


def _threshold(text: str) -> Threshold:
    text = text.lower()  # the screen says PMC
    if text.strip() == "verdict":
        return Threshold("verdict")
    found = _FORM.fullmatch(text)
    try:
        limit = float(found[3]) if found else math.nan
    except ValueError:
        limit = math.nan
    if found is None or math.isnan(limit):
        raise InputError(
            f"--fail-on {text!r}",
            argument="--fail-on",
            next_step='write it like "pmc > 0.2", or the word verdict',
            between=": ",
        )
    if found[1] == "verdict":
        raise InputError(f"--fail-on {text!r}: use the word verdict alone", argument="--fail-on")
    if found[1] not in NAMES:
        raise InputError(
            f"--fail-on {text!r}: {found[1]!r} is unknown; use one of {', '.join(NAMES)}, verdict",
            argument="--fail-on",
        )
    return Threshold(found[1], found[2], limit)
