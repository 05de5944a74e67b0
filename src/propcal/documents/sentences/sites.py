"""A score at several sites, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from propcal.auditing.claims import Claim
from propcal.auditing.names import HIGHER, LOWER, NOT_ENOUGH, TOO_HIGH, TOO_LOW
from propcal.documents.sentences.claim_lists import by_side, of_kind, on_side
from propcal.documents.words import sentence, sentence_if
from propcal.numbers import (
    IN_SENTENCE,
    excludes_one,
    in_parentheses,
    known,
    listed,
)
from propcal.sites.compare_sites import Sites

MOST_SITES = 3  # that are named
WIDEST = 30  # ratio of the ends of a prediction interval that says something
PREDICTS_AT = {TOO_HIGH: "too high at", TOO_LOW: "too low at"}
RATIO_AT = {LOWER: "lower at", HIGHER: "higher at"}

Row = Mapping[str, Any]

say = partial(sentence, "sites")
say_if = partial(sentence_if, "sites")


def headline(sites: Sites, ratio: Row | None) -> str:
    """The verdict in a few words; `ratio` is the row of O/E ratios in the summary."""
    claims = sites.claims
    who = sites.identity
    n = len(sites.sites)
    overall = of_kind(claims, "overall")
    groups = of_kind(claims, "group")
    shapes = of_kind(claims, "shape")
    if sites.conclusion == NOT_ENOUGH:
        return say("cannot_judge")
    if not claims:
        return say("no_difference")

    if overall and not _only_some_off(claims, sites.sites, ratio):
        side = overall[0].direction
        where = _where(side, sites.sites, ratio)
        text = say("predicts", who=who, side=side, where=where)
        differ = bool(of_kind(claims, "beyond"))
        return text + say_if(differ, "and_sites_differ")
    if groups:
        text = say("predicts_at", who=who, sites=_each_side(groups, n))
        return text + say_if(overall, "and_sites_differ")
    if shapes:
        return say("predictions_are", extreme=_extreme(shapes[0]))
    return say("differ_by_more")


def _only_some_off(
    claims: Sequence[Claim], table: pd.DataFrame, ratio: Row | None
) -> bool:
    """Whether sites differ and only some are shown to be off: they are told before the
    overall error, which is not theirs alone.
    """
    overall = of_kind(claims, "overall")
    if not overall or not of_kind(claims, "group") or not of_kind(claims, "beyond"):
        return False
    side = overall[0].direction
    return not _at_each_site(side, table) and not _at_a_new_site(side, ratio)


def _at_each_site(side: str, table: pd.DataFrame) -> bool:
    """Whether each site has its own finding on this side."""
    return bool((table["finding"] == side).all())


def _at_a_new_site(side: str, ratio: Row | None) -> bool:
    """Whether 95 % of new sites are expected to be off on this side."""
    if not ratio:
        return False
    if side == TOO_HIGH:
        return bool(ratio["prediction_high"] < 1)
    return bool(ratio["prediction_low"] > 1)


def _where(side: str, table: pd.DataFrame, ratio: Row | None) -> str:
    """At which sites an overall error is shown."""
    if _at_each_site(side, table):
        return say("at_both") if len(table) == 2 else say("at_all", n=len(table))
    if _at_a_new_site(side, ratio):
        return say("at_nearly_all")
    return say("over_all")


def _each_side(claims: Sequence[Claim], n: int) -> str:
    return by_side(
        claims, PREDICTS_AT, lambda some: _some_sites(some, n), between=" and "
    )


def _each_side_with_ratios(claims: Sequence[Claim], n: int) -> str:
    return by_side(
        claims, PREDICTS_AT, lambda some: _with_ratios(some, n), between=" and "
    )


def _some_sites(claims: Sequence[Claim], n: int) -> str:
    """A few sites by their names, or how many of `n`."""
    if len(claims) <= MOST_SITES:
        return listed([claim.label for claim in claims])
    if len(claims) == n:
        return say("all_sites", n=n)
    return say("some_sites", some=len(claims), n=n)


def _with_ratios(claims: Sequence[Claim], n: int) -> str:
    """A few sites by their names, with their O/E ratios; of many the number and the
    range.
    """
    if len(claims) > MOST_SITES:
        return say("some_sites", some=len(claims), n=n) + _range_of_ratios(claims)
    named = [
        claim.label + _estimate(claim.estimate, claim.low, claim.high)
        for claim in claims
    ]
    return listed(named, commas=True)


def _range_of_ratios(claims: Sequence[Claim]) -> str:
    """The lowest and the highest O/E ratio, if there are two that are known."""
    shown = [claim for claim in claims if known(claim.estimate)]
    shown = sorted(shown, key=lambda claim: claim.estimate)
    if len(shown) < 2:
        return ""
    return f" {say('range_of_ratios', least=shown[0], most=shown[-1])}"


def _estimate(value: Any, low: Any, high: Any, name: str = "O/E") -> str:
    """A number and its interval in parentheses, as far as they are shown."""
    if known(value):
        number = f"{name} {IN_SENTENCE.decimal(value)}"
        return in_parentheses(number, IN_SENTENCE.ci(low, high))
    return ""


def _extreme(claim: Claim) -> str:
    return say("too_extreme" if claim.estimate < 1 else "not_extreme_enough")


def next_steps(sites: Sites) -> list[str]:
    """What to do after looking."""
    if sites.conclusion == NOT_ENOUGH:
        return [say("compare_with_more", who=sites.identity)]
    if not sites.claims:
        return [say("look_at_intervals"), say("compare_again")]
    steps = [say("find_out_why"), say("audit_sites")]
    if sites.travel is None:
        steps.append(say("try_a_correction"))
    return steps


def site_sentences(sites: Sites, pooled: Any, ratio: Row | None) -> list[str]:
    """What was found, the O/E ratio of all sites together first, and what to expect at
    a new site.
    """
    only_some = _only_some_off(sites.claims, sites.sites, ratio)
    texts = []
    if only_some:
        groups = of_kind(sites.claims, "group")
        wrong = _each_side_with_ratios(groups, len(sites.sites))
        texts.append(f"{say('predicts_at', who=sites.identity, sites=wrong)}.")
    texts.append(_all_together(sites, pooled, only_some=only_some))
    if sites.conclusion == NOT_ENOUGH:
        texts.append(say("cannot_judge_them"))
    else:
        texts += _differences(sites, ratio, only_some=only_some)
        texts += _at_new_sites(ratio)
    if sites.travel:
        texts.append(sites.travel.sentence)
    return texts


def _all_together(sites: Sites, pooled: Any, *, only_some: bool) -> str:
    """The O/E ratio of all sites together, the sites that are wrong unless a sentence
    before told of them, and the slope.
    """
    who = sites.identity
    n = len(sites.sites)
    ratio = pooled["observed_expected"]
    low = pooled["observed_expected_low"]
    high = pooled["observed_expected_high"]
    overall = of_kind(sites.claims, "overall")
    groups = of_kind(sites.claims, "group")
    if only_some:  # which were told before
        overall = []
        groups = []

    if overall:
        side = overall[0].direction
        others = [claim for claim in groups if claim.direction != side]
        alike = _also_alone(on_side(groups, side), n)
        estimate = _estimate(ratio, low, high)
        about = {"side": side, "ratio": estimate, "sites": alike}
        finding = say("all_predict", who=who, **about)
    else:
        others = groups
        interval = in_parentheses(IN_SENTENCE.ci(low, high))
        unsure = excludes_one(low, high) and not only_some
        chance = say_if(unsure, "could_be_chance")
        shown = IN_SENTENCE.decimal(ratio)
        about = {"ratio": shown, "interval": interval, "chance": chance}
        finding = say("ratio_is", who=who, **about)

    but = ""
    if others:
        wrong = _each_side_with_ratios(others, n)
        if overall:
            but = say("but_others", sites=wrong)
        else:
            but = say("but_score_predicts", who=who, sites=wrong)
    slope = ""
    for claim in of_kind(sites.claims, "shape")[:1]:
        if overall or others:
            kind = "also_slope"
        else:
            kind = "and_slope" if excludes_one(low, high) else "but_slope"
        slope = _slope(claim, kind)

    which = "both" if n == 2 else f"all {n:,}"
    people = who.count(pooled["people"])
    parts = {"finding": finding, "but": but, "slope": slope}
    return say("over_sites", which=which, people=people, **parts)


def _also_alone(claims: Sequence[Claim], n: int) -> str:
    """Which sites are off by themselves, on the side of the overall error."""
    if len(claims) == n:
        return say("and_each", ratios=_range_of_ratios(claims))
    if claims:
        return say("and_some", sites=_some_sites(claims, n))
    return ""


def _slope(claim: Claim, kind: str) -> str:
    slope = _estimate(claim.estimate, claim.low, claim.high, "calibration slope")
    return say(kind, extreme=_extreme(claim), slope=slope)


def _differences(sites: Sites, ratio: Row | None, *, only_some: bool) -> list[str]:
    """Whether sites differ, and which of them from the others; the O/E ratios of sites
    that are off were told before.
    """
    claims = sites.claims
    n = len(sites.sites)
    i2 = say_if(ratio, "heterogeneity", ratio=ratio)
    beyond = of_kind(claims, "beyond")
    if beyond:
        single = [claim for claim in beyond if claim.who]
        named = [claim.who for claim in of_kind(claims, "group")]
        told_before = only_some and all(claim.who in named for claim in single)
        which = _which_differ(single, n, told_before=told_before)
        return [say("ratios_differ", i2=i2, which=which)]

    level = [claim for claim in claims if claim.kind in ("overall", "group")]
    one_side = len({claim.direction for claim in level}) < 2
    if one_side and not (level and level[0].kind == "group"):
        return [say("none_differ", i2=i2)]
    return []


def _which_differ(single: Sequence[Claim], n: int, *, told_before: bool) -> str:
    if not single:
        return ""
    names = _some_sites if told_before else _with_ratios
    sites = by_side(single, RATIO_AT, lambda some: names(some, n), between=" and ")
    first = single[0]
    others = _estimate(first.others, first.others_low, first.others_high)
    return say("differ_at", sites=sites, others=others)


def _at_new_sites(ratio: Row | None) -> list[str]:
    """What to expect at a new site."""
    if not ratio:
        return []
    if ratio["prediction_high"] > WIDEST * ratio["prediction_low"]:
        return [say("not_known")]
    return [say("expected", ratio=ratio)]
