"""Notes of an audit in sentences; nobody may miss those that are vital."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from propcal.auditing.claims import FITTING, Note
from propcal.auditing.findings import AuditedPeople, AuditSettings
from propcal.auditing.loss_intervals import SharedBounds
from propcal.auditing.statistics.hypothesis_tests import SIGNIFICANCE
from propcal.auditing.statistics.measures import Estimate
from propcal.core.atoms import Shared
from propcal.core.loss_bounds import LossBounds
from propcal.documents.words import sentence
from propcal.numbers import IN_SENTENCE, IN_TEXT, Limit, percent_of
from propcal.options import Identity

HEAVY = 0.05  # share of the whole weight that one person should not carry

say = partial(sentence, "notes")


def data_notes(
    people: AuditedPeople, area: Estimate | None, who: Identity
) -> list[Note]:
    """What may be wrong with the data, and who was left out; `area` is the AUROC of a
    score that ranks people the wrong way round.
    """
    total = people.people if isinstance(people.positives, Limit) else people.weight
    texts = all_alike_notes(people.positives, total)
    if area is not None:
        texts.append(reversed_ranking(area, who))
    left_out = people.left_out.sentence(unit=who.unit, labels=who.labels)
    if left_out:
        texts.append(left_out)
    if people.unused_id:
        texts.append(say("unused_id", column=people.unused_id))
    return [Note(text, vital=True) for text in texts]


def all_alike_notes(events: Any, people: Any) -> list[str]:
    """What may be wrong if nobody, or everybody, had the outcome, or may have had it
    where the count is suppressed and its limit is a tenth of them, or nine tenths.
    """
    who_had_it = ""
    if isinstance(events, Limit):
        if events.side == "below" and events < people / 10:
            who_had_it = say("perhaps", events=events, people=people, whom="nobody")
        elif events.side == "above" and events > people * 9 / 10:
            who_had_it = say("perhaps", events=events, people=people, whom="everybody")
    elif events <= 0:
        who_had_it = say("nobody")
    elif events >= people:
        who_had_it = say("everybody")
    if not who_had_it:
        return []
    return [say("all_alike", who_had_it=who_had_it)]


def reversed_ranking(area: Estimate, who: Identity) -> str:
    """That a score with this AUROC ranks people the wrong way round."""
    return say("reversed", area=area, who=who)


def fitting_note(
    fitted: bool, name: str = "The correction", *, unit: str = "people"
) -> Note:
    """Whether a correction is judged by the people it was fitted to."""
    if fitted:
        text = say("fitted_to_these", name=name, unit=unit)
    else:
        text = say("fitted_to_others", name=name, unit=unit)
    return Note(text, vital=True, about=FITTING)


def missing_notes(
    people: AuditedPeople, rule: AuditSettings, who: Identity
) -> list[Note]:
    """For how many people an attribute is missing, and what becomes of them."""
    notes = []
    count: Any  # or its limit
    for attribute, count in people.missing.items():
        if rule.definition().missing == "level":
            then = say("group_of_their_own")
        else:
            then = say("in_no_group", attribute=attribute)
        suppressed = isinstance(count, Limit) or isinstance(people.people, Limit)
        share = "" if suppressed else percent_of(count, people.people)
        about = {"people": who.count(count), "share": share}
        text = say("missing", attribute=attribute, what_becomes_of_them=then, **about)
        notes.append(Note(text))
    return notes


def group_notes(
    untested: int,
    reasons: Sequence[str],
    covered: int,
    rule: AuditSettings,
    who: Identity,
) -> list[Note]:
    """Why groups were not tested, and how many the risk ranges cover if not all."""
    notes = []
    if untested:
        notes.append(Note(say("untested", n=untested, reasons=reasons)))
    if covered:
        notes.append(Note(say("covered", n=covered, rule=rule, who=who)))
    return notes


def outcome_notes(
    people: AuditedPeople, outcome_rate: float, rule: AuditSettings, who: Identity
) -> list[Note]:
    """That the outcome is rare, and how many scores are 0 or 1."""
    notes = []
    if outcome_rate < rule.rho:
        notes.append(Note(say("rare_outcome", rho=rule.rho)))
    if people.at_ends:
        notes.append(Note(say("scores_of_0_or_1", n=people.at_ends, who=who)))
    return notes


def weight_notes(people: AuditedPeople, who: Identity, *, tested: bool) -> list[Note]:
    """What weights and repeat visits mean for intervals and tests."""
    notes = []
    if people.rows and people.frequencies and people.people != people.rows:
        text = say("weights_are_counts", people=people, who=who)
        notes.append(Note(text, vital=True))
    if not people.frequencies:
        notes.append(Note(say("survey_weights")))
        if people.heaviest >= HEAVY:
            worth = max(round(people.effective), 1)
            share = people.heaviest
            text = say("heavy_weight", share=share, who=who, worth=worth)
            notes.append(Note(text))
    if people.clusters and tested:
        notes.append(Note(say("repeat_visits")))
    return notes


def rounding_note(people: AuditedPeople, unit: str, *, corrected: bool) -> Note:
    """What rounded scores can have changed."""
    bits = people.resolution_bits
    bounds = people.rounding
    if corrected:
        return Note(say("rounded_and_corrected", bits=bits))
    if bounds is None:
        return Note(say("rounded", bits=bits))
    ends = {
        name: f"{low:.4g} to {high:.4g}"
        for name, (low, high) in _ranges(bounds).items()
    }
    losses = say("losses", **ends)
    about = {"losses": losses, "bounds": bounds, "unit": unit}
    return Note(say("rounded_losses", bits=bits, **about))


def _ranges(bounds: LossBounds) -> dict[str, tuple[float, float]]:
    return {name: getattr(bounds, name) for name in ("mc", "pmc", "dc")}


def shared_notes(shared: Shared, unit: str) -> list[Note]:
    """What was merged before atoms were shared."""
    merged = say("merged", fewest=shared.fewest, unit=unit)
    folded = [
        Note(say("folded_levels", attribute=attribute, n=n))
        for attribute, n in shared.folded.items()
    ]
    return [Note(merged, vital=True), *folded]


def shared_bounds_note(
    bounds: SharedBounds,
    losses: LossBounds,
    least: float,
    unit: str,
    *,
    ranges_unsure: bool,
) -> Note:
    """How far measures of shared atoms can be from those of exact scores."""
    which = f"the O/E ratio of all {unit}"
    others = ", those of groups possibly by more"
    ratios = _ratios(bounds.ratio, least, which, others)
    if ranges_unsure:
        consequence = say("rely_on_groups")
    else:
        ends = {
            name: IN_TEXT.interval(low, high, 3)
            for name, (low, high) in _ranges(losses).items()
        }
        consequence = say("losses_would_be", losses=say("losses", **ends))
    about = {"ratios": ratios, "unsure_people": losses.people, "unit": unit}
    return Note(say("shared_bounds", bounds=bounds, consequence=consequence, **about))


def _ratios(bound: float, least: float, which: str, others: str = "") -> str:
    """How far O/E ratios can be off; `which` are those that a bound above the `least`
    one is for.
    """
    if bound <= least:
        return say("ratios_hardly_differ", least=least)
    if bound >= 1:
        return say("ratios_could_differ_much")
    return say("ratios_differ", which=which, most=bound, others=others)


def shared_sites_note(
    fewest: int, ratio: float, least: float, higher: float, lower: float
) -> str:
    """How far measures of sites whose atoms were shared can be from the exact ones."""
    merged = say("merged", fewest=fewest, unit="people")
    ratios = _ratios(ratio, least, "O/E ratios")
    area = {"higher": higher, "lower": lower}
    return say("shared_sites", merged=merged, ratios=ratios, **area)


def bin_free_sentence(worst: Mapping[str, Any], smooth: Mapping[str, Any]) -> str:
    """The clearest error of measures without bins: `worst` is the row of the largest
    cumulative error, `smooth` that of the smooth error with the lowest p-value.
    """
    low = IN_SENTENCE.percent(worst["low"])
    high = IN_SENTENCE.percent(worst["high"])
    risks = low if low == high else f"{low} to {high}"
    whom = f"{worst['label']}, predicted risk {risks}"
    if worst["adjusted_p"] <= SIGNIFICANCE:
        return say("clearest_range", row=worst, whom=whom)
    if smooth["adjusted_p"] <= SIGNIFICANCE:
        return say("clearest_group", row=smooth)
    return say("largest_could_be_chance", row=worst, whom=whom)
