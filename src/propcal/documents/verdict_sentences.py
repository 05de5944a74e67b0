"""The verdict of an audit: its claims in a few sentences, the broadest first; every front end prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

import pandas as pd

from propcal.auditing.audit_claims import certificate, events_needed, shown_within
from propcal.auditing.claims import Claim, Region, Verdict, numbers_of
from propcal.auditing.hypothesis_tests import GROUP_SLOPES
from propcal.auditing.measures import reversed_area
from propcal.auditing.names import (
    CHANCE,
    HIGHER,
    LOWER,
    MISCALIBRATED,
    NONE_FOUND,
    NOT_ENOUGH,
    NOT_SHOWN,
    SHOWN,
    TOO_HIGH,
    TOO_LOW,
    UNTESTED,
)
from propcal.documents.audit_notes import reversed_sentence
from propcal.identity import Identity
from propcal.numbers import (
    IN_SENTENCE,
    About,
    Limit,
    in_parentheses,
    known,
    listed,
    p_equals,
    plural,
    risk_range,
)

MOST_SENTENCES = 4  # what does not fit is in the tables
MOST_NAMED = 3  # in one direction; a fourth is named rather than called "1 more"
FEW_NAMED = 2  # groups whose intervals have room in a sentence
# how large an error is, by the limit of its O/E ratio, where a count is suppressed
SIZES = {
    ("below", 0.5): "fewer than half of the predicted events",
    ("below", 1.0): "fewer events than predicted",
    ("above", 2.0): "more than twice the predicted events",
    ("above", 1.0): "more events than predicted",
}
LARGE = 0.5  # an error that a certificate tells by the name of the group
TOO_UNSURE = 0.3  # if the score could be off by more than this share overall, the data cannot judge it
FEW_EVENTS = 20  # fewer are told by their number, not as a rate
SIDES = (TOO_HIGH, TOO_LOW)
DIFFERS = (
    "The error differs between subgroups by more than chance explains, but the data do not show for whom."
)
SLOPES_DIFFER = (
    "How the error depends on the predicted risk differs between subgroups by more than chance explains, but "
    "the data do not show for whom."
)
NEAR = 0.08  # regions of scores narrower than this are told by their middle


def verdict_of(
    claims: tuple[Claim, ...],
    tests: pd.DataFrame,
    groups: pd.DataFrame,
    identity: Identity,
    *,
    untested: str,
    too_small: str,
    within: float | None = None,
    fitted: bool = False,
    conclusion: str = "",
) -> Verdict:
    """Put the claims into words; if groups are protected, the conclusion is that of the exact ones.

    `untested` says why there are no tests, and `too_small` what too small a group is. With `within`, the
    first sentence says whether the score is shown to be right to within that share. Nothing is certified of a
    score that was `fitted` to these people.
    """
    if untested:
        return Verdict(UNTESTED, (f"{identity.subject} was not tested: {untested}.",), tests)
    area = reversed_area(groups.iloc[0])
    first = () if area is None else (reversed_sentence(*area, identity.subject, identity.unit),)
    judged, sentences, shown = _judged(claims, groups, identity, too_small, conclusion, fitted=fitted)
    if within is not None and groups["finding"].iloc[0] != NOT_ENOUGH and not fitted:
        everywhere, shown = shown_within(groups, within)
        everywhere = conclusion.startswith(SHOWN) if conclusion else everywhere
        judged = f"{SHOWN if everywhere else NOT_SHOWN} {_at_most(within)}"
        margins = _everywhere if everywhere else _margins
        kept = sentences[:1] if claims else []
        asked = margins(shown, groups, identity, within)
        sentences = [*asked[: MOST_SENTENCES - len(first) - len(kept)], *kept]
    told = (*first, *sentences)[:MOST_SENTENCES]
    return Verdict(judged, told, tests, (*claims, *shown), ranks_backwards=bool(first))


def _judged(
    claims: tuple[Claim, ...],
    groups: pd.DataFrame,
    identity: Identity,
    too_small: str,
    conclusion: str,
    *,
    fitted: bool,
) -> tuple[str, list[str], tuple[Claim, ...]]:
    """The conclusion, its sentences, and claims of how far off the score can be."""
    if claims:
        return MISCALIBRATED, _miscalibrated(claims, groups, identity), ()
    tested = groups[groups["kept"].astype(bool) & (groups["finding"] == CHANCE)]
    if groups["finding"].iloc[0] != CHANCE or (len(groups) > 1 and len(tested) < 2):
        return NOT_ENOUGH, _not_enough(groups, identity, too_small), ()
    shown = () if fitted else certificate(groups)
    if tested["certain_within"].iloc[0] > TOO_UNSURE and conclusion != NONE_FOUND:
        return NOT_ENOUGH, _too_few(groups, identity), shown[:1]
    return NONE_FOUND, _none_found(tested, shown, identity), shown


def _miscalibrated(claims: Sequence[Claim], groups: pd.DataFrame, identity: Identity) -> list[str]:
    smallest = min((claim.p_value for claim in claims if known(claim.p_value)), default=float("nan"))
    p = f" (adjusted {p_equals(smallest)})" if known(smallest) else ""
    kinds = ("overall", "shape", "group", "beyond", "cell")
    overall, shape, group, beyond, cells = ([c for c in claims if c.kind == kind] for kind in kinds)
    than = _than_others(overall, beyond)
    told = [
        f"{identity.subject} is miscalibrated{p}.",
        *(f"Overall, it predicts {claim.direction}{_numbers(claim, identity)}{than}." for claim in overall),
        *(_shape(claim.where) for claim in shape),
        _for_whom(group, identity),
        *_beyond([] if than else beyond),
        _everyone_else(group, groups.iloc[0], identity),
        *(_cell(claim, identity) for claim in cells),
    ]
    return [sentence for sentence in told if sentence]


def _by_direction(names: Sequence[tuple[str, str]], words: Mapping[str, str]) -> str:
    """Names under the word for their direction: "too high for A and B, and too low for C"."""
    sides = [(word, [name for side, name in names if side == direction]) for direction, word in words.items()]
    return ", and ".join(f"{word} {_some(some)}" for word, some in sides if some)


def _shape(where: tuple[Region, ...]) -> str:
    """At which scores the curve of everybody errs."""
    if not where:
        return "Its error depends on the predicted risk, but the data do not show how."
    sides = [(side, [_region(part) for part in where if part.direction == side]) for side in SIDES]
    parts = [f"{side} at predicted risks {listed(regions)}" for side, regions in sides if regions]
    return f"It predicts {', and '.join(parts)}."


def _region(region: Region) -> str:
    """A range of scores in whole percents that lie inside it.

    >>> _region(Region(0.0, 0.3014, "too high")), _region(Region(0.44, 0.47, "too low"))
    ('below 30 %', 'near 46 %')
    """
    low, high = _inside(region.low, up=True), _inside(region.high, up=False)
    if region.low == region.high:
        return f"of exactly {100 * region.low:.0f} %"
    if region.low <= 0 and region.high >= 1:
        return "of all sizes"
    if region.low <= 0:
        return f"below {high}"
    if region.high >= 1:
        return f"above {low}"
    if region.high - region.low < NEAR:
        return f"near {_inside((region.low + region.high) / 2, up=True)}"
    return f"from {low} to {high}"


def _inside(score: float, *, up: bool) -> str:
    """A limit, rounded to a whole percent (to a tenth below 10 %) on the inner side of its range."""
    scale = 1000 if score < 0.1 else 100
    steps = (ceil if up else floor)(round(score * scale, 6))
    return f"{100 * steps / scale:g} %"


def _for_whom(claims: Sequence[Claim], identity: Identity) -> str:
    """The groups that are wrong in their own right."""
    if len(claims) == 1:
        (claim,) = claims
        return f"It predicts {claim.direction} for {claim.label}{_numbers(claim, identity)}."
    interval = len(claims) <= FEW_NAMED
    names = [(claim.direction, f"{claim.label}{_parenthesis(claim, interval=interval)}") for claim in claims]
    return f"It predicts {_by_direction(names, {side: f'{side} for' for side in SIDES})}." if names else ""


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return listed(names if more < 2 else [*names[:MOST_NAMED], f"{more} others"])


def _beyond(claims: Sequence[Claim]) -> list[str]:
    """Groups whose error differs from the overall one."""
    named, together = [c for c in claims if c.who], [c for c in claims if not c.who]
    names = [(claim.direction, _compared(claim)) for claim in named]
    than = _by_direction(names, {HIGHER: "higher for", LOWER: "lower for"})
    told = [f"Compared with the error of the others, O/E is {than}."] if than else []
    return [*told, *(_differ(claim) for claim in together)]


def _differ(claim: Claim) -> str:
    """That groups differ, where none can be named."""
    return SLOPES_DIFFER if claim.test == GROUP_SLOPES else DIFFERS


def _than_others(overall: Sequence[Claim], beyond: Sequence[Claim]) -> str:
    """Of which half of all people an overall error is smaller: "less so for women than for men".

    >>> women = Claim("beyond", "F", "women", LOWER, estimate=1.24, others=1.53, others_label="men")
    >>> _than_others([Claim("overall", "everybody", "", TOO_LOW)], [women])
    ', less so for women (O/E 1.24) than for men (O/E 1.53)'
    """
    if len(overall) != 1 or len(beyond) != 1 or not beyond[0].others_label:
        return ""
    (claim,), low = beyond, overall[0].direction == TOO_LOW
    ratios = claim.estimate, claim.others
    both = all(known(r) and not isinstance(r, Limit) and (r > 1) == low for r in ratios)
    if not both or (ratios[0] > ratios[1]) != (claim.direction == HIGHER):
        return ""
    own, others = (f"(O/E {IN_SENTENCE.decimal(ratio)})" for ratio in ratios)
    more = "more" if (claim.direction == HIGHER) == low else "less"
    return f", {more} so for {claim.label} {own} than for {claim.others_label} {others}"


def _compared(claim: Claim) -> str:
    """A group with its O/E ratio and the one that the error of the others would give.

    >>> _compared(Claim("beyond", "sex=F", "women", "lower", estimate=1.24, given=1.53))
    'women (1.24 rather than 1.53)'
    """
    if isinstance(claim.events, Limit) or not known(claim.estimate) or not known(claim.given):
        return claim.label
    ratio, given = (IN_SENTENCE.decimal(x) for x in (claim.estimate, claim.given))
    return f"{claim.label} ({ratio} rather than {given})" if ratio != given else claim.label


def _everyone_else(claims: Sequence[Claim], everybody: Any, identity: Identity) -> str:
    """The O/E ratio of the people who are not named: of everybody else, or of everybody together."""
    if not claims:
        return ""
    if len(claims) == 1:
        ratio, low, high = claims[0].others, claims[0].others_low, claims[0].others_high
        whom = claims[0].others_label or f"the other {identity.unit}"
    else:
        ratio, low, high = (everybody[f"observed_expected{end}"] for end in ("", "_low", "_high"))
        whom = f"all {identity.unit} together"
    if not known(ratio) or isinstance(ratio, Limit):
        return ""
    return f"For {whom}, O/E is {IN_SENTENCE.decimal(ratio)}{in_parentheses(IN_SENTENCE.ci(low, high))}."


def _cell(claim: Claim, identity: Identity) -> str:
    """The cell whose gap is the most significant."""
    if not known(claim.estimate) or not known(claim.predicted):
        return ""
    whom = f"all {identity.unit}" if claim.label == identity.everyone else claim.label
    return (
        f"The clearest gap is in {whom} at predicted risk {risk_range(claim.bin)}: observed "
        f"{IN_SENTENCE.percent(claim.estimate)}, predicted {IN_SENTENCE.percent(claim.predicted)}."
    )


def _numbers(claim: Claim, identity: Identity) -> str:
    """Observed and predicted rate, O/E ratio and interval, as far as they may be shown."""
    if isinstance(claim.events, Limit):
        return _few_events(claim, identity)
    if not known(claim.observed) or not known(claim.predicted):
        return ""
    if claim.events < FEW_EVENTS and known(claim.people):
        expected = IN_SENTENCE.whole(claim.predicted * claim.people)
        return f": {_events(claim)}, {expected} predicted{_parenthesis(claim, interval=True)}"
    observed, predicted = (IN_SENTENCE.percent(rate) for rate in (claim.observed, claim.predicted))
    return f": observed {observed}, predicted {predicted}{_parenthesis(claim, interval=True)}"


def _few_events(claim: Claim, identity: Identity) -> str:
    """What can be said where a count is suppressed; nothing that would not support the finding."""
    if not known(claim.people) or isinstance(claim.people, Limit) or not known(claim.predicted):
        return f": {_events(claim)}"
    among = f"among {identity.count(claim.people)}"
    events: Any = claim.events
    expected, few = claim.predicted * claim.people, events.side == "below"
    clear = expected >= claim.events if few else expected <= claim.events
    if not clear or few != (claim.direction == TOO_HIGH):
        ratio: Any = claim.estimate
        return f": {SIZES[ratio.side, float(ratio)]} {among}" if isinstance(ratio, Limit) else ""
    return f": {_events(claim)} {among}, about {IN_SENTENCE.whole(expected)} predicted"


def _parenthesis(claim: Claim, *, interval: bool) -> str:
    if isinstance(claim.events, Limit):
        return f" ({_events(claim)})"
    if not known(claim.estimate):
        return f" ({_events(claim)}, none expected)" if known(claim.events) and claim.predicted == 0 else ""
    ratio = f"O/E {IN_SENTENCE.decimal(claim.estimate)}"
    return in_parentheses(ratio, IN_SENTENCE.ci(claim.low, claim.high) if interval else "")


def _events(claim: Claim) -> str:
    if isinstance(claim.events, (About, Limit)):
        return f"{IN_SENTENCE.count(claim.events)} events"
    return plural(round(claim.events), "event")


def _not_enough(groups: pd.DataFrame, identity: Identity, too_small: str) -> list[str]:
    if groups["finding"].iloc[0] != CHANCE:
        return [
            f"There are not enough data to judge {identity.within_sentence} ({too_small}). The audit "
            "cannot say whether it is calibrated."
        ]
    return [
        f"There are not enough data to judge {f'{identity.score} in ' if identity.score else ''}any subgroup "
        f"({too_small}).",
        f"Overall, no miscalibration was found among {_nothing_among(groups.iloc[0], identity)}.",
    ]


def _nothing_among(row: Any, identity: Identity) -> str:
    """People without a finding, and the rates and O/E ratio of their row in the table of groups."""
    claim = Claim("overall", row["group"], row["label"], "", **numbers_of(row))
    return f"{identity.count(row['people'])}{_numbers(claim, identity)}"


def _too_few(groups: pd.DataFrame, identity: Identity) -> list[str]:
    """Nothing was found, but hardly anything could have been."""
    told = [
        f"There are not enough data to judge {identity.within_sentence}: no miscalibration was found among "
        f"{_nothing_among(groups.iloc[0], identity)}."
    ]
    error = groups["certain_within"].iloc[0]
    if known(error):
        told.append(f"With 95 % confidence, the error is at most {_at_most(error)} of the expected events.")
    return told


def _none_found(tested: pd.DataFrame, shown: Sequence[Claim], identity: Identity) -> list[str]:
    n = len(tested) - 1
    whom = f", overall or in {'any of ' if n > 1 else ''}{_subgroups(n)}" if n else ""
    score = f" in {identity.score}" if identity.score else ""
    told = [f"No miscalibration was found{score}{whom} ({identity.count(tested['people'].iloc[0])})."]
    return [*told, _certificate(shown, identity)] if shown and known(shown[0].within) else told


def _subgroups(n: int) -> str:
    return f"the {n} subgroups tested" if n > 1 else "the subgroup tested"


def _certificate(claims: Sequence[Claim], identity: Identity) -> str:
    """How far off the score can be, overall and in each subgroup."""
    told = f"With 95 % confidence, {identity.within_sentence} is right to within {_at_most(claims[0].within)}"
    told += " of the expected events overall"
    sure = [claim.within for claim in claims[1:] if claim.within <= LARGE]
    unsure = [claim for claim in claims[1:] if not claim.within <= LARGE]
    if sure:
        each = f"in {plural(len(sure), 'subgroup')}" if unsure else "in each of them"
        told += f" and to within {_at_most(max(sure))} {'in the subgroup' if len(claims) == 2 else each}"
    if not unsure:
        return f"{told}."
    if len(unsure) <= FEW_NAMED:
        names = [f"{_with_people(claim, identity)}, {_allowed(claim)}" for claim in unsure]
        return f"{told}; the data allow larger errors for {listed(names)}."
    others = f"the other {len(unsure)}" if sure else f"all {len(unsure)} subgroups"
    return f"{told}; in {others}, the data allow larger errors."


def _with_people(claim: Claim, identity: Identity) -> str:
    """A group and the number of its people, if that may be shown."""
    people = identity.count(claim.people) if known(claim.people) else ""
    return f"{claim.label}{in_parentheses(people)}"


def _allowed(claim: Claim) -> str:
    return f"up to {_at_most(claim.within)}" if known(claim.within) else "of any size"


def _at_most(share: float) -> str:
    """A share in whole percents, rounded up.

    >>> _at_most(0.0712), _at_most(1.3)
    ('8 %', '130 %')
    """
    return f"{max(ceil(round(100 * share, 6)), 1)} %"


def _everywhere(_: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float) -> list[str]:
    """That the score is shown to be right to within a share, overall and in every group tested."""
    n = int((groups["kept"].astype(bool) & groups["shown_within"].notna()).sum()) - 1
    each = f", overall and in {'each of ' if n > 1 else ''}{_subgroups(n)}" if n else ""
    right = f"{identity.within_sentence} is right to within {_at_most(within)}{each}"
    return [f"With 95 % confidence, {right} ({identity.count(groups['people'].iloc[0])})."]


def _margins(claims: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float) -> list[str]:
    """For whom the score is off by more than a share, for whom that is not known, for whom it is right."""
    share, everybody = _at_most(within), groups.iloc[0]
    outside, inside = ([c for c in claims if c.kind == kind] for kind in ("outside", "within"))
    tested = groups[groups["kept"].astype(bool) & groups["certain_within"].notna()]
    unsure = tested.loc[~tested["group"].isin([claim.who for claim in claims]), "label"].tolist()
    told = []
    if outside:
        names = [f"{claim.label} (O/E {IN_SENTENCE.decimal(claim.estimate)})" for claim in outside]
        told.append(f"{identity.subject} is off by more than {share} for {_some(names)}.")
    if unsure:
        who = "It" if outside else identity.subject
        told.append(f"{who} is not shown to be right to within {share} for {_some(unsure)}.")
    if len(inside) > 1 and inside[0].who == everybody["group"]:
        some = f"{len(inside) - 1} of {plural(len(tested) - 1, 'subgroup')}"
        told.append(f"It is shown for all {identity.unit} together and for {some}.")
    if unsure:
        numbers = [everybody[name] for name in ("mean_score", "design_effect")]
        events = events_needed(within, *(numbers if all(map(known, numbers)) else ()))
        told.append(f"If O/E is 1, that takes about {events:,} expected events or more in a group.")
    return told
