"""The top of the page: the verdict, for whom, what the data cannot tell, what to do next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from propcal.auditing.audit import Audit
from propcal.auditing.audit_tables import TOO_HIGH, TOO_LOW
from propcal.auditing.hypothesis_tests import BEYOND, CATEGORIES, INSUFFICIENT, UNTESTED, WITHIN
from propcal.auditing.verdict import worst_categories
from propcal.output.numbers import count, known, p_value, per_100, plural

MOST_NAMED = 5


@dataclass(frozen=True)
class Named:
    """A group for whom the score is wrong, in numbers of 100 people (a dash where they are hidden)."""

    group: str
    expected: str
    observed: str
    off: str
    hidden: bool


@dataclass(frozen=True)
class Direction:
    """Everybody for whom the score errs in one direction, the largest error first."""

    finding: str
    symbol: str
    named: list[Named]
    others: list[str]


@dataclass(frozen=True)
class Place:
    """The category whose gap stands out most."""

    group: str
    bin: str
    expected: str
    observed: str


@dataclass(frozen=True)
class Top:
    """What a reader takes away in a minute."""

    tone: str
    headline: str
    verdict: list[str]
    directions: list[Direction]
    worst: Place | None
    cannot_tell: list[str]
    next_steps: list[str]


HEADLINES = {
    BEYOND: ("wrong", "Wrong for some, beyond chance"),
    WITHIN: ("noise", "No error found beyond chance"),
    INSUFFICIENT: ("few", "Too few people to say"),
    UNTESTED: ("few", "Not tested"),
}


def top_of(audit: Audit, name: str = "", before: dict[str, Audit] | None = None, worse: int = 0) -> Top:
    """The words at the top; `before` has the other scores of a comparison, whose last one is `name`.

    `worse` is the number of groups whose observed/expected ratio came to lie further from 1.
    """
    tone, headline = HEADLINES[audit.verdict.conclusion]
    compared = _compared(name, before or {}, worse)
    directions = [
        direction
        for finding, symbol in ((TOO_HIGH, "▲"), (TOO_LOW, "▼"))
        if (direction := _direction(audit.groups, finding, symbol)).named
    ]
    return Top(
        tone=tone,
        headline=f"{name}: {headline[0].lower()}{headline[1:]}" if before else headline,
        verdict=[*compared, *_verdict(audit, directions)],
        directions=directions,
        worst=_worst(audit),
        cannot_tell=_cannot_tell(audit),
        next_steps=_next_steps(audit, name if before else ""),
    )


def _compared(name: str, before: dict[str, Audit], worse: int) -> list[str]:
    """What the scores were found to be that this one is compared with."""
    told = []
    for other, audit in before.items():
        headline = HEADLINES[audit.verdict.conclusion][1]
        told.append(f"The score before ({other}): {headline[0].lower()}{headline[1:]}. With {name}:")
    if worse:
        be = "group is" if worse == 1 else "groups are"
        told.append(f"{worse:,} {be} further off with {name} than before (see Before and after).")
    return told


def _direction(groups: pd.DataFrame, finding: str, symbol: str) -> Direction:
    chosen = groups[groups["finding"] == finding]
    off = (chosen["outcome_rate"] - chosen["mean_score"]).abs().to_numpy(dtype=np.float64)
    order = np.argsort(np.where(np.isnan(off), np.inf, -off), kind="stable")
    rows = [chosen.iloc[i] for i in order]
    named = [
        Named(
            group=row["group"],
            expected=per_100(row["mean_score"]),
            observed=per_100(row["outcome_rate"]),
            off=per_100(abs(row["outcome_rate"] - row["mean_score"])),
            hidden=not known(row["outcome_rate"]),
        )
        for row in rows[:MOST_NAMED]
    ]
    return Direction(finding, symbol, named, [row["group"] for row in rows[MOST_NAMED:]])


def _tested(audit: Audit) -> int:
    return int((audit.verdict.tests["test"] != CATEGORIES).sum())


def _people(audit: Audit) -> str:
    number = count(audit.groups["people"].iloc[0])
    return "These" if not known(audit.groups["people"].iloc[0]) else f"These {number}"


def _verdict(audit: Audit, directions: list[Direction]) -> list[str]:
    """Two sentences."""
    conclusion, tested = audit.verdict.conclusion, _tested(audit)
    if conclusion == UNTESTED:
        reason = audit.verdict.text.removeprefix("Not tested: ")
        return ["The score was measured but not tested: " + reason, "Differences below may be chance."]
    if conclusion == INSUFFICIENT:
        return [
            f"No group is large enough (at least {audit.settings['min_people']} people, and gamma="
            f"{audit.settings['gamma']:g} of all) to tell an error from chance.",
            "The audit says neither that the score is right nor that it is wrong.",
        ]
    if conclusion == WITHIN:
        whom = f"any of the {plural(tested - 1, 'group')} tested" if tested > 1 else "everybody"
        return [f"{_people(audit)} people do not show that the score is wrong for {whom}.", _unnoticed(audit)]
    smallest = audit.verdict.tests["adjusted_p"].min()
    chance = f" (p {'=' if smallest >= 1e-4 else ''}{' ' if smallest >= 1e-4 else ''}{p_value(smallest)})"
    first = (
        f"The score is wrong by more than chance explains{chance if known(smallest) else ''}, "
        "allowing for the number of tests."
    )
    if not directions:
        return [
            first,
            f"For none of the {plural(tested, 'group')} as a whole, but within some ranges of scores.",
        ]
    together = audit.groups["finding"].iloc[0]
    told = []
    for d in directions:
        groups = len(d.named) + len(d.others) - (together == d.finding)
        if groups:
            told.append(f"{d.finding} for {groups:,}")
    second = f"Of {plural(tested - 1, 'group')} tested, it is {' and '.join(told)}." if told else ""
    if together in (TOO_HIGH, TOO_LOW):
        second += f" For everybody together it is {together}."
    elif tested > 1:
        second += " For everybody together it is within chance."
    return [first, second.strip()]


def _unnoticed(audit: Audit) -> str:
    tested = audit.groups[audit.groups["finding"] == WITHIN]
    error = tested["detectable_error"].to_numpy(dtype=np.float64)
    if not np.isfinite(error).any():
        return "That is no proof that it is right."
    worst = int(np.nanargmax(error))
    share = f"some {100 * error[worst]:.0f}" if error[worst] >= 0.01 else "less than 1"
    return (
        f"That is no proof that it is right: for {tested['group'].iloc[worst]} the number of outcomes "
        f"could be off by {share} % without being noticed."
    )


def _worst(audit: Audit) -> Place | None:
    if audit.verdict.conclusion != BEYOND:
        return None
    table = worst_categories(audit.categories, 1)
    if table.empty or not table["beyond"].iloc[0]:
        return None
    row = table.iloc[0]
    return Place(row["group"], row["bin"], per_100(row["mean_score"]), per_100(row["outcome_rate"]))


def _cannot_tell(audit: Audit) -> list[str]:
    told = []
    untold, n = int((~audit.categories["eligible"].astype(bool)).sum()), len(audit.categories)
    if untold:
        told.append(
            f"{untold:,} of {plural(n, 'category')} (a group within a range of scores) have too few "
            "people to "
            "say anything. That is not the same as being right."
        )
    left_out = int((~audit.groups["kept"].astype(bool)).sum())
    if left_out:
        be = "is" if left_out == 1 else "are"
        told.append(
            f"{plural(left_out, 'group')} {be} too small a share of all people, or have no value recorded: "
            "listed below, not judged."
        )
    if audit.settings["fitted_on_these"]:
        told.append(
            "How the corrected score does on other people: it was fitted to these very ones, so this "
            "page is no "
            "evidence for it."
        )
    told.append(
        "Whether the outcome was recorded equally well for every group. The audit takes what was "
        "recorded as true."
    )
    told.append("Whether a decision made with the score is fair. Being right is only one part of that.")
    return told


def _next_steps(audit: Audit, corrected: str) -> list[str]:
    if audit.verdict.conclusion == BEYOND:
        return [
            "Before the score is used for people of the groups named above, decide who must know of the "
            "error, and "
            "whether the score is to be corrected, used otherwise, or not used.",
            "A correction can be fitted (propcal fit) and must then be audited on people it was not "
            "fitted to "
            "(propcal audit --correction).",
            "A correction that reads an attribute such as race or gender may need legal advice before it "
            "is used.",
        ]
    if audit.verdict.conclusion == WITHIN:
        first = "Nothing here asks for a correction."
        if corrected:
            first = (
                f"Nothing here asks for more than {corrected}. Before it is used: were these people apart "
                "from those it was made from, and does it read attributes that need legal advice?"
            )
        return [
            first,
            "Look at how large an error could have gone unnoticed in the groups that matter most to you; if "
            "that is too large, audit more people.",
            "Repeat the audit when the score, the patients or the way the outcome is recorded change.",
        ]
    return ["Collect more people with known outcomes, or name fewer and larger groups, and audit again."]
