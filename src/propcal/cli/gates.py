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

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
# numbers of an audit that a condition limits: a table, and a column in the row of a
# loss
NUMBERS = {loss: ("losses", loss, "value") for loss in LOSSES}
NUMBERS |= {f"{loss}.low": ("losses", loss, "low") for loss in LOSSES}
NUMBERS |= {f"{loss}_rms": ("debiased", loss, "rms") for loss in CRITERIA}
NAMES = (*NUMBERS, "oe", "unseen")
WORDS = ("verdict", "same-people")  # conditions without a number
OF_CORRECTION = ("same-people", "unseen")
ALL_NAMES = (*NAMES, "within", *WORDS)
_CONDITION = re.compile(
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
        what = self.name
        if self.group:
            levels = [f"{column}={level or ''}" for column, level in self.group]
            what = f"{self.name}[{', '.join(levels)}]"
        if not self.compare:
            return what
        limit = f"{self.limit:g}"
        if self.name == "unseen":
            limit = f"{100 * self.limit:g}%"
        return f"{what} {self.compare} {limit}"

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

        attributes = list(audit.settings["attributes"])

        def place(condition: tuple[str, str | None]) -> int:
            attribute, _ = condition
            if attribute in attributes:
                return attributes.index(attribute)
            return len(attributes)

        return Group(tuple(sorted(self.group, key=place))).name


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
        return {
            "condition": str(self.gate),
            "value": self.value,
            "decided": self.decided,
            "passed": self.passed,
        }


def read_gates(
    options: Gates, correction: Any, within: float | None, rho: float = AuditRule.rho
) -> list[Gate]:
    """Read ``pmc > 0.2``, ``oe[race=White] < 0.8``, ``within 20%`` or ``verdict``.

    >>> options = Gates(["pmc>.2", "oe[sex=F]<.8", "within 20%"])
    >>> [str(gate) for gate in read_gates(options, None, None)]
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
    shares = {gate.limit for gate in gates if gate.name == "within"}
    if within is not None:
        shares.add(within)
    if len(shares) > 1:
        raise InputError(
            "--fail-on and --within name different shares", next_step="Use one of them"
        )
    return gates


def _gate(text: str, rho: float) -> Gate:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise unlike("--fail-on", repr(text), '"pmc > 0.2", or the word verdict')
    name, group, compare, number = parts.groups()
    name = name.lower()  # the terminal prints PMC
    if name not in (*WORDS, "within") and not (compare and number):
        raise unlike("--fail-on", repr(text), '"pmc > 0.2", or the word verdict')
    if name == "within" and (group or compare or not number):
        raise unlike("--fail-on", repr(text), '"within 20%", the word and a share')

    problem = ""
    if name not in ALL_NAMES:
        problem = f"{name!r} is unknown; use one of {', '.join(ALL_NAMES)}"
    elif name in WORDS and (group or compare or number):
        problem = f"use the word {name} alone"
    elif group is not None and name != "oe":
        problem = "only oe[...] can be asked of a group"
    if problem:
        raise InputError(f"--fail-on {text!r}: {problem}")

    limit = math.nan
    if number:
        limit = share(number, f"--fail-on {text!r}:")
        problem = _impossible(name, compare, limit, rho)
        if problem:
            raise InputError(
                f"--fail-on {text!r}: {problem}", next_step="Choose another limit"
            )
    conditions = () if group is None else _group(group, text)
    return Gate(name, compare, limit, conditions)


def _impossible(name: str, compare: str, limit: float, rho: float) -> str:
    """Why a limit makes no sense; empty if it does."""
    if not math.isfinite(limit):
        return "the limit is not a finite number"
    if name == "within":
        return "" if 0 < limit < 1 else "a share is above 0% and below 100%"
    largest = _largest(name, rho)
    possible = {
        ">": limit < largest,
        ">=": limit <= largest,
        "<": limit > 0,
        "<=": limit >= 0,
    }
    return "" if possible[compare] else "this can never hold"


def _largest(name: str, rho: float) -> float:
    """The largest number of this name that there can be; rates below rho count as
    rho.
    """
    if name == "unseen":
        return 1.0
    if name not in NUMBERS:
        return math.inf
    _, loss, _ = NUMBERS[name]
    if loss == "dc":
        return -math.log(rho)
    return CRITERIA[loss](rho).largest_loss()


def _group(text: str, condition: str) -> tuple[tuple[str, str | None], ...]:
    """The values of attributes; none after the equal sign is a missing value."""
    conditions = []
    for part in next(csv.reader([text], skipinitialspace=True)):
        name, equals, level = part.partition("=")
        if not (name.strip() and equals):
            raise unlike("--fail-on", repr(condition), '"oe[race=White, sex=F] < 0.8"')
        conditions.append((name.strip(), level.strip() or None))
    if not conditions:
        raise unlike("--fail-on", repr(condition), '"oe[race=White, sex=F] < 0.8"')
    return tuple(conditions)


@dataclass(frozen=True)
class AuditEvidence:
    """What gates are decided by.

    Attributes
    ----------
    audit
        The result, with all its numbers.
    shown
        The same result as it is printed.
    unseen
        Share of people with levels that the correction does not know; NaN without one.
    sites_off
        What is wrong at some of the sites, if anything is.
    same_people
        Whether the correction was fitted to these people; None if it is not known.
    """

    audit: Any
    shown: Any
    unseen: float
    sites_off: str
    same_people: bool | None


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
    sites_off = ""
    if hasattr(result, "audits"):  # a comparison
        result = list(result.audits.values())[-1]
        shown = list(shown.audits.values())[-1]
    elif sites is not None and sites.claims:
        sites_off = f"sites: {sites.headline}"

    unseen = math.nan
    same_people = None
    if correction is not None:
        unseen = correction.unseen_share(people)
        if "fingerprint" in correction.about:
            same_people = result.settings["fitted_on_these"]
    evidence = AuditEvidence(result, shown, unseen, sites_off, same_people)
    return [_decide(gate, options, evidence) for gate in gates]


# a value, why the gate failed, why it is not decided
Answer = tuple[float | str | bool | None, str, str]


def _decide(gate: Gate, options: Gates, evidence: AuditEvidence) -> Decision:
    audit = evidence.audit
    if gate.name in ("verdict", "within"):
        value, failure, unknown = _by_verdict(gate, audit, evidence.sites_off)
    elif gate.name == "same-people":
        value, failure, unknown = _by_people(audit, evidence.same_people)
    else:
        number = gate.value(audit, evidence.unseen)
        printed = gate.value(evidence.shown, evidence.unseen)
        value, failure, unknown = _by_number(gate, number, printed)
    if not unknown and not failure and gate.name not in OF_CORRECTION:
        unknown = _untested(gate, audit, options)
    passed = not failure and (not unknown or options.allow_undecided)
    return Decision(gate, value, not unknown, passed, failure or unknown)


def _by_people(audit: Any, same_people: bool | None) -> Answer:
    """By whether the correction was fitted to these people."""
    if same_people is None:
        unknown = "the correction does not say which people it was fitted to"
        return None, "", unknown
    return same_people, _fitted(audit) if same_people else "", ""


def _by_verdict(gate: Gate, audit: Any, sites_off: str) -> Answer:
    """By the conclusion of the audit, any error that it shows, and for the verdict what
    is wrong at sites.
    """
    if gate.name == "within" and audit.settings["within"] is None:
        # the audit could not answer the question
        return None, "", _too_few(gate, audit.groups.iloc[0])
    conclusion = audit.verdict.conclusion
    if gate.name == "verdict" and audit.verdict.errors:
        conclusion = finding.MISCALIBRATED
    why = f"the verdict is: {conclusion}"
    if conclusion.startswith((finding.MISCALIBRATED, finding.NOT_SHOWN)):
        return conclusion, why, ""
    if gate.name == "verdict" and sites_off:
        return finding.MISCALIBRATED, sites_off, ""
    if conclusion.startswith((finding.NONE_FOUND, finding.SHOWN)):
        return conclusion, "", ""
    return conclusion, "", why


def _by_number(gate: Gate, number: float, printed: float) -> Answer:
    """By a number, of which only what is `printed` may be revealed."""
    value = None
    if not math.isnan(printed) and not isinstance(printed, Limit):
        value = float(printed)
    what = str(gate).partition(f" {gate.compare} ")[0]
    if math.isnan(number):
        return value, "", f"{what} is not known for these data"
    if not COMPARISONS[gate.compare](number, gate.limit):
        return value, "", ""
    if math.isnan(printed):
        why = "this holds; its value is not shown, because it rests on few people"
        return value, why, ""

    text = f"{printed:.4g}"
    if gate.name == "unseen":
        text = f"{100 * printed:.3g}%"
    if isinstance(printed, Limit):
        text = f"{printed.side} {text}"
    elif printed != number:
        text = f"about {text}"
    return value, f"{what} is {text}", ""


def _too_few(gate: Gate, everybody: Any) -> str:
    """Why the question could not be asked."""
    from propcal.auditing.audit_claims import too_few_events

    rate = everybody["mean_score"]
    expected = everybody["people"] * rate
    why = too_few_events(gate.limit, expected, rate, everybody["design_effect"])
    return why or "there are too few events"


def _untested(gate: Gate, audit: Any, options: Gates) -> str:
    """Why the audit is no evidence that all is well; empty if it is."""
    if audit.settings["fitted_on_these"]:
        return _fitted(audit)
    findings = (finding.TOO_LOW, finding.TOO_HIGH, finding.CHANCE)
    tested = audit.groups["finding"].isin(findings)
    if gate.name == "oe":
        is_group = audit.groups["group"] == gate.group_name(audit)
        if tested[is_group].any():
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
        why = decision.why
        if not decision.decided:
            why += ". Add --allow-undecided to let it pass"
        log("failed", f"{decision.gate}: {why}")
    if failures:
        raise typer.Exit(1)
