"""Gates: conditions on an audit that make the command exit with code 1 (``--fail-on``).

Gates fail closed: one that these data cannot decide fails too, unless --allow-undecided
lets it pass.
"""

from __future__ import annotations

import csv
import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from propcal.auditing import names as finding
from propcal.auditing.names import LOSSES
from propcal.cli.option_values import share, unlike
from propcal.cli.terminal import log
from propcal.core.arguments import check_number
from propcal.core.criterion import CRITERIA
from propcal.errors import InputError
from propcal.numbers import Limit
from propcal.options import OUTPUT, UP_TO_1, AuditRule

if TYPE_CHECKING:
    from propcal import Atoms

COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
# numbers of an audit that a condition limits: a table, and a column in the row of a
# loss
NUMBERS = {loss: ("losses", loss, "value") for loss in LOSSES}
NUMBERS |= {f"{loss}.low": ("losses", loss, "low") for loss in LOSSES}
NUMBERS |= {f"{loss}_rms": ("debiased", loss, "rms") for loss in CRITERIA}
NAMES = (*NUMBERS, "oe", "unseen")
WORDS = ("verdict", "same-people")  # conditions without a number
OF_CORRECTION = ("same-people", "unseen")
_FORM = re.compile(
    r"\s*([a-zA-Z_.-]+)\s*(?:\[(.*)\])?\s*(>=|<=|>|<|)\s*([-+0-9.eE]+\s*%?|)\s*"
)


@dataclass(frozen=True)
class Gates:
    """Conditions under which the command fails, and what may pass undecided.

    Attributes
    ----------
    fail_on
        Exit with code 1 if this holds or cannot be decided: "pmc > 0.2", "mc.low >
        0.05", "pmc_rms > 0.1", "oe[race=White, sex=F] < 0.8", "within 20%" (not shown
        to be right to within 20 %), verdict (the score is miscalibrated), "unseen > 1%"
        (people with levels that the correction does not know) or same-people (the
        correction was fitted to these people).
    allow_undecided
        Let conditions of --fail-on pass, with a note, if these data cannot decide them.
    overall_only
        Decide --fail-on even if no group was tested but everybody.
    """

    fail_on: list[str] | None = OUTPUT.option("CONDITION")
    allow_undecided: bool = OUTPUT.flag()
    overall_only: bool = OUTPUT.flag()


@dataclass(frozen=True)
class Gate:
    """A limit for a number of the audit, by group if that is an O/E ratio; or a
    word.
    """

    name: str
    compare: str = ""
    limit: float = math.nan
    group: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        if self.name == "within":
            return f"within {100 * self.limit:g}%"
        values = ", ".join(f"{column}={level or ''}" for column, level in self.group)
        what = f"{self.name}[{values}]" if values else self.name
        if self.name == "unseen":
            limit = f"{100 * self.limit:g}%"
        else:
            limit = f"{self.limit:g}"
        return f"{what} {self.compare} {limit}" if self.compare else what

    def value(self, audit: Any, unseen: float) -> float:
        """The number that is compared; NaN if it is not known."""
        if self.name == "unseen":
            return unseen
        if self.name == "oe":
            ratios = audit.groups.set_index("group")["observed_expected"]
            return _number(ratios.get(self.group_name(audit), math.nan))
        table, loss, column = NUMBERS[self.name]
        return _number(getattr(audit, table).loc[loss, column])

    def group_name(self, audit: Any) -> str:
        """What the audit calls the group, or everybody."""
        from propcal.core.groups import Group

        place = {name: i for i, name in enumerate(audit.settings["attributes"])}
        return Group(
            tuple(sorted(self.group, key=lambda pair: place.get(pair[0], len(place))))
        ).name


@dataclass(frozen=True)
class Decision:
    """What became of a gate; `why` says why it failed, or why it is not decided."""

    gate: Gate
    value: float | str | bool | None
    decided: bool
    passed: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """As an entry of the JSON."""
        names = ("value", "decided", "passed")
        return {"condition": str(self.gate)} | {
            name: getattr(self, name) for name in names
        }


def read_gates(
    options: Gates, correction: Any, within: float | None, rho: float = AuditRule.rho
) -> list[Gate]:
    """Read ``pmc > 0.2``, ``oe[race=White] < 0.8``, ``within 20%`` or ``verdict``.

    >>> [str(gate) for gate in read_gates(Gates(["pmc>.2", "oe[sex=F]<.8", "within 20%"]), None, None)]
    ['pmc > 0.2', 'oe[sex=F] < 0.8', 'within 20%']
    """
    check_number("rho", rho, **UP_TO_1)
    gates = [_gate(text, rho) for text in options.fail_on or []]
    for gate in gates:
        if gate.name in OF_CORRECTION and correction is None:
            raise InputError(
                f"--fail-on {str(gate)!r} needs a correction",
                next_step="Add --correction FILE",
            )
    shares = {gate.limit for gate in gates if gate.name == "within"} | (
        {within} - {None}
    )
    if len(shares) > 1:
        raise InputError(
            "--fail-on and --within name different shares", next_step="Use one of them"
        )
    return gates


def _gate(text: str, rho: float) -> Gate:
    parts = _FORM.fullmatch(text)
    # the screen says PMC
    name, group, compare, number = (
        (parts[1].lower(), *parts.groups()[1:]) if parts else ("", None, "", "")
    )
    if not name or (name not in (*WORDS, "within") and not (compare and number)):
        raise unlike("--fail-on", repr(text), '"pmc > 0.2", or the word verdict')
    if name == "within" and (group or compare or not number):
        raise unlike("--fail-on", repr(text), '"within 20%", the word and a share')
    problem = ""
    step = None
    if name in WORDS and (group or compare or number):
        problem = f"use the word {name} alone"
    elif name not in (*NAMES, "within", *WORDS):
        problem = (
            f"{name!r} is unknown; use one of {', '.join((*NAMES, 'within', *WORDS))}"
        )
    elif group is not None and name != "oe":
        problem = "only oe[...] can be asked of a group"
    limit = math.nan
    if not problem and number:
        limit = share(number, f"--fail-on {text!r}:")
        step = "Choose another limit"
        if not math.isfinite(limit):
            problem = "the limit is not a finite number"
        elif not _possible(name, compare, limit, rho):
            if name == "within":
                problem = "a share is above 0% and below 100%"
            else:
                problem = "this can never hold"
    if problem:
        raise InputError(f"--fail-on {text!r}: {problem}", next_step=step)
    return Gate(name, compare, limit, () if group is None else _group(group, text))


def _possible(name: str, compare: str, limit: float, rho: float) -> bool:
    """Whether a number of this name can ever be so; rates below rho count as rho."""
    if compare.startswith("<"):
        return limit >= 0 if compare == "<=" else limit > 0
    largest = {
        "mc": 1.0,
        "pmc": 1 / rho,
        "dc": -math.log(rho),
        "unseen": 1.0,
        "within": 1.0,
    }
    most = largest.get(re.split(r"[._]", name)[0], math.inf)
    if name == "within":
        return 0 < limit < most
    if compare == ">=":
        return limit <= most
    return limit < most


def _group(text: str, condition: str) -> tuple[tuple[str, str | None], ...]:
    """The values of attributes; none after the equal sign is a missing value."""
    pairs = [
        part.partition("=") for part in next(csv.reader([text], skipinitialspace=True))
    ]
    if not pairs or not all(name.strip() and equals for name, equals, _ in pairs):
        raise unlike("--fail-on", repr(condition), '"oe[race=White, sex=F] < 0.8"')
    return tuple((name.strip(), level.strip() or None) for name, _, level in pairs)


def decide(
    gates: Sequence[Gate],
    options: Gates,
    result: Any,
    shown: Any,
    people: Atoms,
    correction: Any,
    sites: Any,
) -> list[Decision]:
    """Decide every gate, in a comparison for the last score; `shown` has protected
    counts if any has.

    Sites are compared by the score before its correction: an error at some of them is
    one of an audit.
    """
    several = hasattr(result, "audits")
    judged, printed = (
        list(r.audits.values())[-1] if several else r for r in (result, shown)
    )
    if several or sites is None or not sites.claims:
        off = ""
    else:
        off = f"sites: {sites.headline}"
    known = (
        correction is not None and "fingerprint" in correction.about
    )  # which people it was fitted to
    same = judged.settings["fitted_on_these"] if known else None
    if correction is None:
        unseen = math.nan
    else:
        unseen = correction.unseen_share(people)
    return [
        _decide(gate, options, judged, printed, unseen, off, same) for gate in gates
    ]


Answer = tuple[
    float | str | bool | None, str, str
]  # a value, why the gate failed, why it is not decided


def _decide(
    gate: Gate,
    options: Gates,
    audit: Any,
    shown: Any,
    unseen: float,
    off: str,
    same: bool | None,
) -> Decision:
    if gate.name in ("verdict", "within"):
        value, failure, unknown = _by_verdict(gate, audit, off)
    elif gate.name == "same-people":
        if same is not None:
            unknown = ""
        else:
            unknown = "the correction does not say which people it was fitted to"
        value = same
        failure = _fitted(audit) if same else ""
    else:
        value, failure, unknown = _by_number(
            gate, gate.value(audit, unseen), gate.value(shown, unseen)
        )
    if not unknown and not failure and gate.name not in OF_CORRECTION:
        unknown = _untested(gate, audit, options)
    passed = not failure and (not unknown or options.allow_undecided)
    return Decision(gate, value, not unknown, passed, failure or unknown)


def _by_verdict(gate: Gate, audit: Any, off: str) -> Answer:
    """By the conclusion of the audit, any error that it shows, and for the verdict what
    is `off` at sites.
    """
    if (
        gate.name == "within" and audit.settings["within"] is None
    ):  # the audit could not ask
        return None, "", _too_few(gate, audit.groups.iloc[0])
    whole = gate.name == "verdict"
    if whole and audit.verdict.errors:
        conclusion = finding.MISCALIBRATED
    else:
        conclusion = audit.verdict.conclusion
    why = f"the verdict is: {conclusion}"
    if conclusion.startswith((finding.MISCALIBRATED, finding.NOT_SHOWN)):
        return conclusion, why, ""
    if whole and off:
        return finding.MISCALIBRATED, off, ""
    return (
        conclusion,
        "",
        "" if conclusion.startswith((finding.NONE_FOUND, finding.SHOWN)) else why,
    )


def _by_number(gate: Gate, number: float, printed: float) -> Answer:
    """By a number, of which only what is `printed` may be told."""
    if math.isnan(printed) or isinstance(printed, Limit):
        value = None
    else:
        value = float(printed)
    what = str(gate).partition(f" {gate.compare} ")[0]
    if math.isnan(number):
        return value, "", f"{what} is not known for these data"
    if not COMPARE[gate.compare](number, gate.limit):
        return value, "", ""
    if math.isnan(printed):
        return (
            value,
            "this holds; its value is not shown, because it rests on few people",
            "",
        )
    if isinstance(printed, Limit):
        least = f"{printed.side} "
    elif printed != number:
        least = "about "
    else:
        least = ""
    if gate.name == "unseen":
        text = f"{100 * printed:.3g}%"
    else:
        text = f"{printed:.4g}"
    return value, f"{what} is {least}{text}", ""


def _too_few(gate: Gate, everybody: Any) -> str:
    """Why the question could not be asked."""
    from propcal.auditing.audit_claims import too_few_events

    rate = everybody["mean_score"]
    why = too_few_events(
        gate.limit, everybody["people"] * rate, rate, everybody["design_effect"]
    )
    return why or "there are too few events"


def _untested(gate: Gate, audit: Any, options: Gates) -> str:
    """Why the audit is no evidence that all is well; empty if it is."""
    if audit.settings["fitted_on_these"]:
        return _fitted(audit)
    tested = audit.groups["finding"].isin(
        (finding.TOO_LOW, finding.TOO_HIGH, finding.CHANCE)
    )
    if gate.name == "oe":
        asked = tested[audit.groups["group"] == gate.group_name(audit)].any()
        if asked:
            return ""
        return f"there are too few {audit.identity.unit} or events to test it"
    if tested.iloc[1:].any() or options.overall_only:
        return ""
    return "no group was tested; name groups with --groups, or add --overall-only"


def _fitted(audit: Any) -> str:
    return f"the correction was fitted to these very {audit.identity.unit}"


def _number(value: Any) -> float:
    return value if isinstance(value, Limit) else float(value)


def end(decisions: Sequence[Decision]) -> None:
    """Exit with code 1 if a gate failed."""
    for decision in decisions:
        if decision.passed and not decision.decided:
            log("note", f"{decision.gate} passes, although {decision.why}")
    failures = [decision for decision in decisions if not decision.passed]
    for decision in failures:
        if decision.decided:
            step = ""
        else:
            step = ". Add --allow-undecided to let it pass"
        log("failed", f"{decision.gate}: {decision.why}{step}")
    if failures:
        raise typer.Exit(1)
