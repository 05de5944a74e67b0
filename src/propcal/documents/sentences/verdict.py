"""The verdict of an audit in sentences, the broadest claim first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.auditing.claims import Claim, Region
from propcal.auditing.findings import AuditSettings
from propcal.auditing.names import HIGHER, LOWER, TOO_HIGH, TOO_LOW
from propcal.auditing.profile import FEWEST_EFFECTIVE
from propcal.auditing.statistics.hypothesis_tests import GROUP_SLOPES
from propcal.core.groups import EVERYBODY
from propcal.documents.sentences.claim_lists import (
    by_side,
    listed_few,
    of_kind,
    on_side,
    split,
)
from propcal.documents.words import at_most, sentence, sentence_if
from propcal.numbers import (
    IN_SENTENCE,
    About,
    Limit,
    in_parentheses,
    known,
    listed,
    plural,
)
from propcal.options import Identity

FEW_EVENTS = 20  # fewer are counted out rather than given as a rate
NARROW_RANGE = 0.08  # of scores: a narrower one is told by its middle
LARGE_LIMIT = 0.5  # limits above this share are told with the names of their groups
MOST_LARGE_LIMITS = 2  # that are told one by one
MOST_WITHHELD = 2
PREDICTS = {TOO_HIGH: "too high for", TOO_LOW: "too low for"}
RATIO_IS = {HIGHER: "higher for", LOWER: "lower for"}

say = partial(sentence, "verdict")
say_if = partial(sentence_if, "verdict")


def is_exact(value: Any) -> bool:
    """Whether a number is known, and not only by a limit."""
    return known(value) and not isinstance(value, Limit)


def miscalibrated(
    claims: Sequence[Claim], everybody: Mapping[str, Any], who: Identity
) -> list[str]:
    """That the score is wrong, overall and for whom; `everybody` is the row of all
    people.
    """
    overall = of_kind(claims, "overall")
    groups = of_kind(claims, "group")
    beyond = of_kind(claims, "beyond")
    cells = of_kind(claims, "cell")
    p_values = [claim.p_value for claim in claims if known(claim.p_value)]

    texts = [say("miscalibrated", who=who, p_value=min(p_values, default=None))]
    comparison = _less_or_more_than_others(overall, beyond)
    for claim in overall:
        error = numbers(claim, who)
        texts.append(
            say("overall_error", claim=claim, numbers=error, comparison=comparison)
        )
    texts += _shapes(of_kind(claims, "shape"), beyond)
    texts += _groups(groups, who)
    if not comparison:
        texts += _beyond_the_others(beyond, who, cells_named=bool(cells))
    texts += _ratio_of_others(groups, overall, everybody, who)
    texts += [_clearest_gap(claim, who) for claim in cells if _has_rates(claim)]
    return texts


def _less_or_more_than_others(overall: list[Claim], beyond: list[Claim]) -> str:
    """For which half of all people an overall error is smaller or larger, if both
    halves have it.
    """
    if len(overall) != 1 or len(beyond) != 1 or not beyond[0].others_label:
        return ""

    half = beyond[0]
    if not is_exact(half.estimate) or not is_exact(half.others):
        return ""

    too_low = overall[0].direction == TOO_LOW
    higher = half.direction == HIGHER
    both_have_it = (half.estimate > 1) == too_low and (half.others > 1) == too_low
    if not both_have_it or (half.estimate > half.others) != higher:
        return ""
    more_or_less = "more" if higher == too_low else "less"
    return say("than_others", claim=half, more_or_less=more_or_less)


def _shapes(shapes: list[Claim], beyond: list[Claim]) -> list[str]:
    """At which scores predictions are wrong; that the shape is unknown is left out if
    it differs between groups.
    """
    slopes_differ = any(
        not claim.who and claim.test == GROUP_SLOPES for claim in beyond
    )
    return [shape(claim.where) for claim in shapes if claim.where or not slopes_differ]


def shape(where: Sequence[Region]) -> str:
    """At which scores the curve of everybody errs."""
    if not where:
        return say("shape_unknown")

    parts = []
    for side in PREDICTS:
        regions = on_side(where, side)
        if regions:
            one_risk = len(regions) == 1 and regions[0].low == regions[0].high
            places = [region(scores) for scores in regions]
            parts.append(say("at_risks", regions=places, side=side, one_risk=one_risk))
    return say("wrong_at", places=", and ".join(parts))


def region(scores: Region) -> str:
    """A range of scores in whole percents that lie inside it."""
    if scores.low == scores.high:
        kind = "of_one_risk"
    elif scores.low <= 0 and scores.high >= 1:
        return say("of_all_risks")
    elif scores.low <= 0:
        kind = "below"
    elif scores.high >= 1:
        kind = "above"
    elif scores.high - scores.low < NARROW_RANGE:
        kind = "near"
    else:
        kind = "between"
    return say(kind, scores=scores)


def _groups(groups: list[Claim], who: Identity) -> list[str]:
    """For which groups the score is wrong."""
    if not groups:
        return []
    if len(groups) == 1:
        claim = groups[0]
        return [say("one_group", claim=claim, numbers=numbers(claim, who))]

    with_interval = len(groups) == 2

    def names(claims: list[Claim]) -> str:
        return listed_few(
            [f"{c.label}{parenthesis(c, interval=with_interval)}" for c in claims]
        )

    named = by_side(groups, PREDICTS, names, between=", and ")
    return [say("several_groups", groups=named)]


def _beyond_the_others(
    beyond: list[Claim], who: Identity, *, cells_named: bool
) -> list[str]:
    """Which groups differ from what the errors of the others would give."""
    texts = []
    named = [claim for claim in beyond if claim.who]
    if len(named) == 1:
        texts.append(_against_others(named[0], who))
    elif named:
        groups = by_side(named, RATIO_IS, _all_compared, between=", and ")
        texts.append(say("compared_groups", who=who, groups=groups))

    for claim in beyond:
        if not claim.who:
            slopes = claim.test == GROUP_SLOPES
            texts.append(say("groups_differ", slopes=slopes, can_be_named=cells_named))
    return texts


def _all_compared(claims: list[Claim]) -> str:
    return listed_few([_compared(claim) for claim in claims])


def _compared(claim: Claim) -> str:
    """A group with its O/E ratio and the one that the error of the others would
    give.
    """
    suppressed = isinstance(claim.events, Limit)
    if suppressed or not known(claim.estimate) or not known(claim.given):
        return claim.label

    ratio = IN_SENTENCE.decimal(claim.estimate)
    given = IN_SENTENCE.decimal(claim.given)
    if ratio == given:
        return claim.label
    return claim.label + say("rather_than", ratio=ratio, given=given)


def _against_others(claim: Claim, who: Identity) -> str:
    """A single group beside everybody else; both O/E ratios are given if they are
    known and differ.
    """
    others = claim.others_label or f"all other {who.unit}"
    ratio = IN_SENTENCE.decimal(claim.estimate)
    others_ratio = IN_SENTENCE.decimal(claim.others)
    exact = is_exact(claim.estimate) and is_exact(claim.others)
    if exact and not isinstance(claim.events, Limit) and ratio != others_ratio:
        higher = claim.estimate > claim.others
        if higher == (claim.direction == HIGHER):
            ratios = {"ratio": ratio, "others_ratio": others_ratio}
            return say("against_others", claim=claim, others=others, **ratios)
    group = _compared(claim)
    return say("compared_with_others", claim=claim, others=others, group=group)


def _ratio_of_others(
    groups: list[Claim],
    overall: list[Claim],
    everybody: Mapping[str, Any],
    who: Identity,
) -> list[str]:
    """The O/E ratio of the people who are not named."""
    if len(groups) == 1:
        claim = groups[0]
        whom = claim.others_label or f"the other {who.unit}"
        ratio = claim.others
        low = claim.others_low
        high = claim.others_high
    elif groups and not overall:
        whom = f"all {who.unit} together"
        ratio = everybody["observed_expected"]
        low = everybody["observed_expected_low"]
        high = everybody["observed_expected_high"]
    else:
        return []
    if not is_exact(ratio):
        return []
    return [say("ratio_of_others", whom=whom, ratio=ratio, low=low, high=high)]


def _has_rates(claim: Claim) -> bool:
    return known(claim.estimate) and known(claim.predicted)


def _clearest_gap(claim: Claim, who: Identity) -> str:
    whom = f"all {who.unit}" if claim.label == who.everyone else claim.label
    return say("clearest_gap", claim=claim, whom=whom)


def numbers(claim: Claim, who: Identity) -> str:
    """Observed and predicted rate, O/E ratio and interval, as far as they may be
    shown.
    """
    if isinstance(claim.events, Limit):
        return _suppressed_numbers(claim, claim.events, who)
    if not known(claim.observed) or not known(claim.predicted):
        return ""

    ratio = parenthesis(claim)
    if claim.events < FEW_EVENTS and known(claim.people):
        expected = claim.predicted * claim.people
        return say("few_events", events=events(claim), expected=expected, ratio=ratio)
    return say("rates", claim=claim, ratio=ratio)


def _suppressed_numbers(claim: Claim, limit: Limit, who: Identity) -> str:
    """What can be said where a count is suppressed; nothing that would not support the
    finding.
    """
    if not is_exact(claim.people) or not known(claim.predicted):
        return say("suppressed_events", events=events(claim))

    people = who.count(claim.people)
    expected = claim.predicted * claim.people
    few = limit.side == "below"
    beyond_limit = expected >= limit if few else expected <= limit
    if beyond_limit and few == (claim.direction == TOO_HIGH):
        shown = events(claim)
        return say(
            "events_beside_expected", events=shown, expected=expected, people=people
        )
    if isinstance(claim.estimate, Limit):
        size = f"{claim.estimate.side} {float(claim.estimate)}"
        return say("size_of_error", limit=size, people=people)
    return ""


def parenthesis(claim: Claim, *, interval: bool = True) -> str:
    """The O/E ratio in parentheses, with or without its interval, or the events if
    there is none.
    """
    if isinstance(claim.events, Limit):
        return in_parentheses(events(claim))
    if known(claim.estimate):
        ratio = f"O/E {IN_SENTENCE.decimal(claim.estimate)}"
        ends = IN_SENTENCE.ci(claim.low, claim.high) if interval else ""
        return in_parentheses(ratio, ends)
    if known(claim.events) and claim.predicted == 0:
        return f" {say('none_expected', events=events(claim))}"
    return ""


def events(claim: Claim) -> str:
    """How many had the outcome; the noun is plural if the number is not exact."""
    if isinstance(claim.events, (About, Limit)):
        return f"{IN_SENTENCE.count(claim.events)} events"
    return plural(round(claim.events), "event")


def explained(row: Mapping[str, Any]) -> str:
    """The errors that account for a group that is off as well, and the O/E ratio that
    they leave.
    """
    if row["explained_by"] and known(row["left_over"]):
        return say("explained", row=row)
    return str(row["explained_by"])


def too_small(rule: AuditSettings, unit: str, *, frequencies: bool) -> str:
    """Which groups are too small to be tested."""
    limits = {"unit": unit, "fewest": FEWEST_EFFECTIVE}
    return say("too_small", rule=rule, frequencies=frequencies, **limits)


def not_enough(
    everybody: Claim, who: Identity, too_small: str, *, judged: bool
) -> list[str]:
    """That no subgroup, or not even everybody, can be judged."""
    if not judged:
        return [say("nobody_judged", who=who, too_small=too_small)]
    first = say("no_subgroup_judged", who=who, too_small=too_small)
    return [first, _nothing_overall(everybody, who)]


def too_few(error: float, everybody: Claim, who: Identity) -> list[str]:
    """That nothing was found, but hardly anything could have been."""
    texts = [say("not_judged", who=who), _nothing_overall(everybody, who)]
    if known(error):
        texts.append(say("error_at_most", error=error))
    return texts


def _nothing_overall(everybody: Claim, who: Identity) -> str:
    people = who.count(everybody.people)
    return say("nothing_overall", people=people, numbers=numbers(everybody, who))


def none_found(
    n_subgroups: int, people: Any, limits: Sequence[Claim], who: Identity
) -> list[str]:
    """That nothing was found, and how far off the score can be; `limits` are claims of
    "within", everybody first.
    """
    tested = say_if(n_subgroups, "overall_or_in_any_of", n=n_subgroups)
    texts = [say("none_found", people=who.count(people), who=who, tested=tested)]
    if limits and known(limits[0].within):
        texts.append(certificate(limits, who))
    return texts


def certificate(limits: Sequence[Claim], who: Identity) -> str:
    """How far off the score can be, overall and in each subgroup.

    Large errors are told with the name of the group; a limit is infinite if it is
    withheld.
    """
    everybody, *subgroups = limits
    shown, withheld = split(subgroups, lambda claim: known(claim.within))
    large, small = split(shown, lambda claim: claim.within > LARGE_LIMIT)

    parts = []
    if small:
        if len(subgroups) == 1:
            where = "the subgroup"
        elif large or withheld:
            where = plural(len(small), "subgroup")
        else:
            where = "each of them"
        most = max(claim.within for claim in small)
        parts.append(say("and_in_subgroups", most=most, where=where))
    if len(large) > MOST_LARGE_LIMITS:
        where = _how_many(len(large), small=bool(small), withheld=bool(withheld))
        parts.append(say("larger_errors_in_many", where=where))
    elif large:
        groups = [_error_up_to(claim, who) for claim in large]
        parts.append(say("larger_errors_for", groups=groups))
    if withheld:
        whom = listed([claim.label for claim in withheld])
        if len(withheld) > MOST_WITHHELD:
            whom = plural(len(withheld), "other subgroup")
        parts.append(say("limits_withheld", whom=whom))

    overall = everybody.within
    return say("right_to_within", who=who, overall=overall, parts="".join(parts))


def _how_many(large: int, *, small: bool, withheld: bool) -> str:
    """In how many subgroups the data allow large errors, in words that fit the others
    mentioned.
    """
    if withheld and small:
        return f"{large} others"
    if withheld:
        return f"{large} subgroups"
    if small:
        return f"the other {large}"
    return f"all {large} subgroups"


def _error_up_to(claim: Claim, who: Identity) -> str:
    people = ""
    if known(claim.people):
        people = who.count(claim.people)
    return say("error_up_to", claim=claim, people=people)


def shown_everywhere(
    n_subgroups: int, untested: int, people: Any, share: float, who: Identity
) -> list[str]:
    """That the score is shown to be right to within a share, overall and in every
    group tested.
    """
    tested = say_if(n_subgroups, "overall_and_in_each_of", n=n_subgroups)
    about = {"tested": tested, "people": who.count(people)}
    texts = [say("shown_for_all", who=who, share=at_most(share), **about)]
    if untested:
        texts.append(say("untested", n=untested))
    return texts


def margins(
    claims: Sequence[Claim],
    tested: Sequence[Mapping[str, Any]],
    events: float,
    share: float,
    who: Identity,
) -> list[str]:
    """For whom the score is off by more than a share, for whom that is not known, and
    for whom it is right; `tested` are rows, everybody first.
    """
    outside = of_kind(claims, "outside")
    inside = of_kind(claims, "within")
    decided = [claim.who for claim in claims]
    undecided = [row["label"] for row in tested if row["group"] not in decided]

    texts = []
    subject = who.subject
    margin = at_most(share)
    if outside:
        groups = listed_few([say("with_ratio", claim=claim) for claim in outside])
        texts.append(say("off_by_more", who=who, share=margin, groups=groups))
        subject = "It"
    if undecided:
        groups = listed_few(undecided)
        texts.append(say("not_shown", subject=subject, share=margin, groups=groups))
    if len(inside) > 1 and inside[0].who == EVERYBODY.name:
        n = len(inside) - 1
        texts.append(say("shown_for_some", who=who, n=n, tested=len(tested) - 1))
    if undecided:
        texts.append(say("events_needed", events=events))
    return texts
