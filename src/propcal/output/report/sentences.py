"""The top of the page: the verdict, for whom, what the data cannot tell, what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from propcal.auditing.audit import Audit
from propcal.auditing.conclusions import Conclusions, Direction, Unnoticed
from propcal.auditing.finding_names import (
    BEYOND,
    HEADLINES,
    INSUFFICIENT,
    TOO_HIGH,
    TOO_LOW,
    UNTESTED,
    WITHIN,
)
from propcal.auditing.verdict import NOT_TESTED
from propcal.numbers import ON_PAGE, are, known, p_equals, plural, rough_percent
from propcal.output.report.page_tables import SYMBOLS

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
class OneSide:
    """Everybody for whom the score errs in one direction, the largest error first."""

    finding: str
    symbol: str
    named: list[Named]
    others: list[str]


@dataclass(frozen=True)
class WorstPlace:
    """The category whose gap stands out most, in numbers of 100 people."""

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
    directions: list[OneSide]
    worst: WorstPlace | None
    cannot_tell: list[str]
    next_steps: list[str]


def top_of(audit: Audit, name: str = "", before: dict[str, Audit] | None = None, worse: int = 0) -> Top:
    """The words at the top; `before` has the other scores of a comparison, whose last one is `name`.

    `worse` is the number of groups whose observed/expected ratio came to lie further from 1.
    """
    tone, headline = HEADLINES[audit.verdict.conclusion]
    found = Conclusions.of(audit.verdict.tests, audit.groups, audit.categories)
    return Top(
        tone=tone,
        headline=f"{name}: {_inside(headline)}" if before else headline,
        verdict=[*_compared(name, before or {}, worse), *_verdict(audit, found)],
        directions=[_one_side(direction) for direction in found.directions],
        worst=_worst(found) if audit.verdict.conclusion == BEYOND else None,
        cannot_tell=_cannot_tell(audit, found),
        next_steps=_next_steps(audit, name if before else ""),
    )


def _compared(name: str, before: dict[str, Audit], worse: int) -> list[str]:
    """What the scores were found to be that this one is compared with."""
    told = []
    for other, audit in before.items():
        headline = HEADLINES[audit.verdict.conclusion].words
        told.append(f"The score before ({other}): {_inside(headline)}. With {name}:")
    if worse:
        told.append(f"{are(worse, 'group')} further off with {name} than before (see Before and after).")
    return told


def _inside(headline: str) -> str:
    """A headline within a sentence."""
    return f"{headline[0].lower()}{headline[1:]}"


def _one_side(direction: Direction) -> OneSide:
    named = [
        Named(
            group=group.name,
            expected=ON_PAGE.per_100(group.mean_score),
            observed=ON_PAGE.per_100(group.outcome_rate),
            off=ON_PAGE.per_100(abs(group.outcome_rate - group.mean_score)),
            hidden=not known(group.outcome_rate),
        )
        for group in direction.by_rate[:MOST_NAMED]
    ]
    others = [group.name for group in direction.by_rate[MOST_NAMED:]]
    return OneSide(direction.finding, SYMBOLS[direction.finding], named, others)


def _verdict(audit: Audit, found: Conclusions) -> list[str]:
    """Two sentences."""
    conclusion = audit.verdict.conclusion
    if conclusion == UNTESTED:
        reason = audit.verdict.text.removeprefix(NOT_TESTED)
        return ["The score was measured but not tested: " + reason, "Differences below may be chance."]
    if conclusion == INSUFFICIENT:
        return [
            f"No group is large enough (at least {audit.settings['min_people']} people, and gamma="
            f"{audit.settings['gamma']:g} of all) to tell an error from chance.",
            "The audit says neither that the score is right nor that it is wrong.",
        ]
    if conclusion == WITHIN:
        whom = f"any of the {plural(found.tested - 1, 'group')} tested" if found.tested > 1 else "everybody"
        who = "These" if found.people is None else f"These {ON_PAGE.count(found.people)}"
        return [f"{who} people do not show that the score is wrong for {whom}.", _no_proof(found.unnoticed)]
    chance = f" ({p_equals(found.smallest_p)})" if known(found.smallest_p) else ""
    first = f"The score is wrong by more than chance explains{chance}, allowing for the number of tests."
    return [first, _for_whom(found)]


def _for_whom(found: Conclusions) -> str:
    if not found.directions:
        tested = plural(found.tested, "group")
        return f"For none of the {tested} as a whole, but within some ranges of scores."
    told = []
    for direction in found.directions:
        groups = len(direction.by_rate) - (found.together == direction.finding)
        if groups:
            told.append(f"{direction.finding} for {groups:,}")
    said = f"Of {plural(found.tested - 1, 'group')} tested, it is {' and '.join(told)}." if told else ""
    if found.together in (TOO_HIGH, TOO_LOW):
        said += f" For everybody together it is {found.together}."
    elif found.tested > 1:
        said += " For everybody together it is within chance."
    return said.strip()


def _no_proof(unnoticed: Unnoticed | None) -> str:
    if unnoticed is None:
        return "That is no proof that it is right."
    return (
        f"That is no proof that it is right: for {unnoticed.group} the number of outcomes could be off by "
        f"{rough_percent(unnoticed.share)} without being noticed."
    )


def _worst(found: Conclusions) -> WorstPlace | None:
    place = found.worst
    if place is None or not place.beyond:
        return None
    rates = ON_PAGE.per_100(place.mean_score), ON_PAGE.per_100(place.outcome_rate)
    return WorstPlace(place.group, place.bin, *rates)


def _cannot_tell(audit: Audit, found: Conclusions) -> list[str]:
    told = []
    if found.untold:
        told.append(
            f"{found.untold:,} of {plural(found.categories, 'category')} (a group within a range of scores) "
            "have too few people to say anything. That is not the same as being right."
        )
    if found.left_out:
        told.append(
            f"{are(found.left_out, 'group')} too small a share of all people, or have no value recorded: "
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
