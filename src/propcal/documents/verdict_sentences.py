"""The verdict of an audit: its claims in a few sentences, the broadest first; every front end prints them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from propcal.auditing.audit_claims import certificate, events_needed, shown_within
from propcal.auditing.audit_tables import tests_frame
from propcal.auditing.claims import Claim, Verdict, numbers_of
from propcal.auditing.findings import Findings
from propcal.auditing.measures import reversed_area
from propcal.auditing.names import (
    CHANCE,
    HIGHER,
    MISCALIBRATED,
    NONE_FOUND,
    NOT_ENOUGH,
    NOT_SHOWN,
    SHOWN,
    TOO_LOW,
    UNTESTED,
)
from propcal.auditing.profile import FEWEST_EFFECTIVE
from propcal.documents.words import at_most, sentences
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, known

MOST_SENTENCES = 4  # what does not fit is in the tables
COMPARED = ("overall", "beyond")  # kinds of claims that one sentence may tell together
TOO_UNSURE = 0.3  # if the score could be off by more than this share overall, the data cannot judge it


def verdict_of(
    found: Findings,
    identity: Identity,
    claims: tuple[Claim, ...],
    groups: pd.DataFrame,
    tests: pd.DataFrame | None = None,
    conclusion: str = "",
) -> Verdict:
    """Put the claims into words; if groups are protected, the conclusion is that of the exact ones.

    If the audit asks for a share (`within`), the first sentence says whether the score is shown to be right
    to within it. Nothing is certified of a score that was fitted to these people.
    """
    rule, untested, fitted = found.rule, found.untested, bool(found.fitted_on_these)
    within, unit, identity = rule.within, identity.unit, found.subject(identity)
    tests = tests_frame(found.tests) if tests is None else tests
    weights = "" if found.people.frequencies else f", weights worth fewer than {FEWEST_EFFECTIVE}"
    too_small = (
        f"fewer than {rule.min_group} {unit}{weights}, or fewer than {rule.min_events} expected events or "
        "non-events"
    )
    if untested:
        return Verdict(UNTESTED, (f"{identity.subject} was not tested: {untested}.",), tests)
    area = reversed_area(groups.iloc[0])
    first = [] if area is None else sentences("notes", "reversed", area, identity)
    judged, told, shown = _judged(claims, groups, identity, too_small, conclusion, fitted=fitted)
    if within is not None and groups["finding"].iloc[0] != NOT_ENOUGH and not fitted:
        everywhere, shown = shown_within(groups, within)
        everywhere = conclusion.startswith(SHOWN) if conclusion else everywhere
        judged = f"{SHOWN if everywhere else NOT_SHOWN} {at_most(within)}"
        kept = told[:2] if claims else []
        asked = (_everywhere if everywhere else _margins)(shown, groups, identity, within)
        told = [*asked[: MOST_SENTENCES - len(first) - len(kept)], *kept]
    told = [*first, *told]
    if len(told) > MOST_SENTENCES and judged == MISCALIBRATED and claims[-1].kind == "cell":
        cell = told.pop()  # the last; what the others leave untold is in the tables
        told[MOST_SENTENCES - 1] = (
            f"{told[MOST_SENTENCES - 1].removesuffix('.')}; {cell[0].lower()}{cell[1:]}"
        )
    told = told[:MOST_SENTENCES]
    return Verdict(judged, tuple(told), tests, (*claims, *shown), ranks_backwards=bool(first))


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
    everybody = groups.iloc[0]
    if claims:
        overall, beyond = (
            [claim for claim in claims if claim.kind == kind] for kind in ("overall", "beyond")
        )
        than = _than_others(overall, beyond)
        return MISCALIBRATED, sentences("verdict", "miscalibrated", claims, everybody, than, identity), ()
    tested = groups[groups["kept"].astype(bool) & (groups["finding"] == CHANCE)]
    overall_row = Claim("overall", everybody["group"], everybody["label"], "", **numbers_of(everybody))
    judged = everybody["finding"] == CHANCE
    if not judged or (len(groups) > 1 and len(tested) < 2):
        return NOT_ENOUGH, sentences("verdict", "not_enough", judged, overall_row, identity, too_small), ()
    shown, error = () if fitted else certificate(groups), tested["certain_within"].iloc[0]
    if error > TOO_UNSURE and conclusion != NONE_FOUND:
        return NOT_ENOUGH, sentences("verdict", "too_few", error, overall_row, identity), shown[:1]
    told = sentences("verdict", "none_found", len(tested) - 1, everybody["people"], shown, identity)
    return NONE_FOUND, told, shown


def _than_others(overall: Sequence[Claim], beyond: Sequence[Claim]) -> str:
    """Of which half of all people an overall error is smaller: "less so for women than for men".

    >>> women = Claim("beyond", "F", "women", "lower", estimate=1.24, others=1.53, others_label="men")
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


def _everywhere(_: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float) -> list[str]:
    n = int((groups["kept"].astype(bool) & groups["shown_within"].notna()).sum()) - 1
    untested, people = len(groups) - 1 - n, groups["people"].iloc[0]
    return sentences("verdict", "everywhere", n, untested, people, at_most(within), identity)


def _margins(claims: Sequence[Claim], groups: pd.DataFrame, identity: Identity, within: float) -> list[str]:
    everybody, share = groups.iloc[0], at_most(within)
    outside, inside = ([c for c in claims if c.kind == kind] for kind in ("outside", "within"))
    tested = groups[groups["kept"].astype(bool) & groups["certain_within"].notna()]
    unsure = tested.loc[~tested["group"].isin([claim.who for claim in claims]), "label"].tolist()
    shown = len(inside) - 1 if inside and inside[0].who == everybody["group"] else 0
    numbers = [everybody[name] for name in ("mean_score", "design_effect")]
    events = events_needed(within, *(numbers if all(map(known, numbers)) else ()))
    return sentences("verdict", "margins", outside, unsure, shown, len(tested) - 1, events, share, identity)
