"""Gates: conditions on an audit that make a command exit with code 1 (``--fail-on``)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from propcal.auditing.finding_names import MISCALIBRATED, NONE_FOUND, NOT_SHOWN, SHOWN
from propcal.auditing.measure_names import LOSSES
from propcal.cli.screen import say
from propcal.cli.texts import floats, unlike
from propcal.errors import InputError
from propcal.numbers import Limit

COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
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
        if self.name != "verdict" or conclusion.startswith((MISCALIBRATED, NOT_SHOWN)):
            return ""
        if audit.settings["fitted_on_these"]:
            return f"{self} passes, although the correction was fitted to these very {audit.identity.unit}"
        decided = conclusion.startswith((NONE_FOUND, SHOWN))
        return "" if decided else f"{self} passes, although the verdict is: {conclusion}"

    def failure(self, audit: Any, shown: Any = None) -> str:
        """Why the audit fails; empty if it does not. An unknown value fails.

        `shown` is the audit as it may be shown, from protected counts.
        """
        if self.name == "verdict":
            conclusion = audit.verdict.conclusion
            failed = conclusion.startswith((MISCALIBRATED, NOT_SHOWN))
            return f"the verdict is: {conclusion}" if failed else ""
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
    limits = floats(found[3]) if found else []
    if found is None or not limits or math.isnan(limits[0]):
        raise unlike("--fail-on", repr(text), '"pmc > 0.2", or the word verdict')
    if found[1] == "verdict":
        raise InputError(f"--fail-on {text!r}: use the word verdict alone", argument="--fail-on")
    if found[1] not in NAMES:
        raise InputError(
            f"--fail-on {text!r}: {found[1]!r} is unknown; use one of {', '.join(NAMES)}, verdict",
            argument="--fail-on",
        )
    return Threshold(found[1], found[2], limits[0])


def end(limits: list[Threshold], result: Any, shown: Any) -> None:
    """Exit with code 1 if a --fail-on condition holds; in a comparison, for the last score."""
    judged, printed = (list(r.audits.values())[-1] if hasattr(r, "audits") else r for r in (result, shown))
    failures = [failure for limit in limits if (failure := limit.failure(judged, printed))]
    for limit in limits:
        if note := limit.undecided(judged):
            say(f"propcal: note: {note}", err=True)
    for failure in failures:
        say(f"propcal: failed: {failure}", err=True)
    if failures:
        raise typer.Exit(1)
