"""``--fail-on "pmc > 0.2"``: what makes an audit end with exit code 1."""

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
    """A number of the audit that must not be passed, or its verdict."""

    name: str
    compare: str = ""
    limit: float = math.nan

    def undecided(self, audit: Any) -> str:
        """What a reader should know though nothing failed: there was no verdict to fail on."""
        conclusion = audit.verdict.conclusion
        decided = self.name != "verdict" or conclusion in (MISCALIBRATED, NONE_FOUND)
        return "" if decided else f"{self}: it is {conclusion}, which does not fail"

    def failure(self, audit: Any, shown: Any = None) -> str:
        """Why the audit fails; empty if it does not. A value that is not known fails.

        `shown` is the audit without numbers that tell of few people.
        """
        if self.name == "verdict":
            conclusion = audit.verdict.conclusion
            return f"the verdict is: {conclusion}" if conclusion == MISCALIBRATED else ""
        value = _value(audit, self.name)
        if math.isnan(value):
            return f"{self}: {self.name} is not known for these data"
        if not COMPARE[self.compare](value, self.limit):
            return ""
        hidden = shown is not None and math.isnan(_value(shown, self.name))
        said = (
            "so it is; the value tells of few people and is hidden"
            if hidden
            else f"{self.name} is {value:.4g}"
        )
        return f"{self}: {said}"

    def __str__(self) -> str:
        return self.name if self.name == "verdict" else f"{self.name} {self.compare} {self.limit:g}"


def _value(audit: Any, name: str) -> float:
    loss = name.removesuffix("_rms").removesuffix(".low")
    if name.endswith("_rms"):
        return float(audit.debiased.loc[loss, "rms"])
    return float(audit.losses.loc[loss, "low" if name.endswith(".low") else "value"])


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
        raise InputError(f"--fail-on {text!r}: the word verdict stands alone", argument="--fail-on")
    if found[1] not in NAMES:
        raise InputError(
            f"--fail-on {text!r}: there is no {found[1]!r}; there are {', '.join(NAMES)}, verdict",
            argument="--fail-on",
        )
    return Threshold(found[1], found[2], limit)
