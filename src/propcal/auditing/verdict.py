"""The verdict of an audit in sentences, the simplest true thing first; every front end prints them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from propcal.auditing.conclusions import Conclusions, JudgedGroup, Unnoticed, WorstCell
from propcal.auditing.data_notes import reversed_sentence
from propcal.auditing.finding_names import (
    CHANCE,
    MISCALIBRATED,
    NONE_FOUND,
    NOT_ENOUGH,
    TOO_HIGH,
    TOO_LOW,
    UNTESTED,
)
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, known, listed, p_equals, plural, risk_range, rough_percent
from propcal.plain_text import plain

MOST_NAMED = 3
NUMBER_WORDS = {"2": "twice", "3": "three times", "4": "four times", "5": "five times"}
FEW_NAMED = 2  # groups whose intervals have room in a sentence
NEARLY_ALL = 0.95  # of the people; few are left to speak of
SMALL_BESIDE = 0.2  # an overall error below this share of a subgroup's, in log(O/E), is told after it
SMALLEST_SHOWN = 0.05  # percentage points; less would be printed as 0.0
MOST_UNNOTICED = 0.3  # of the expected events; more goes unnoticed with fewer than about 100 events


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the audit comes to.

    Attributes
    ----------
    conclusion : "miscalibrated", "no miscalibration found", "not enough data" or "not tested"
    sentences : tuple of str
        The same in a few sentences: overall and for whom, the larger error first, and what the data cannot
        show.
    tests : DataFrame
        The tests behind it.
    ranks_backwards : bool
        Whether the score ranks people the wrong way round; the first sentence then says so.
    """

    conclusion: str
    sentences: tuple[str, ...]
    tests: pd.DataFrame
    ranks_backwards: bool = False

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return plain(self.text)


def verdict_of(
    tests: pd.DataFrame,
    groups: pd.DataFrame,
    categories: pd.DataFrame,
    identity: Identity,
    *,
    untested: str,
    too_small: str,
    typical_gap: tuple[float, float],
    worst: tuple[str, str] | None = None,
    cells: bool = True,
) -> Verdict:
    """Put the tests into words.

    `untested` says why there are none, and `too_small` what too small a group is. `typical_gap` is that of a
    cell, without what chance adds, and the upper end of its interval. `worst` names the group and the bin of
    the clearest gap, where `categories` are not what it was found in. `cells` is False if risk ranges are too
    uncertain to be named.
    """
    if untested:
        return Verdict(UNTESTED, (f"{identity.subject} was not tested: {untested}.",), tests)
    found = Conclusions.of(tests, groups, categories, worst)
    if not cells:
        found, typical_gap = replace(found, worst=None, unjudged_cells=0), (np.nan, np.nan)
    area = found.reversed_area
    first = () if area is None else (reversed_sentence(*area, identity.subject, identity.unit),)
    if tests["rejected"].any():
        told = (*first, *_miscalibrated(found, identity, typical_gap))
        return Verdict(MISCALIBRATED, told, tests, ranks_backwards=bool(first))
    judged = groups["kept"].astype(bool) & (groups["finding"] == CHANCE)
    if not judged.iloc[1:].any() and (len(groups) > 1 or not judged.any()):
        return Verdict(NOT_ENOUGH, (*first, *_not_enough(found, identity, too_small)), tests, bool(first))
    if found.detectable > MOST_UNNOTICED:
        return Verdict(NOT_ENOUGH, (*first, *_too_few(found, identity)), tests, bool(first))
    return Verdict(NONE_FOUND, (*first, *_none_found(found, identity)), tests, bool(first))


def _miscalibrated(found: Conclusions, identity: Identity, typical_gap: tuple[float, float]) -> list[str]:
    p = f" (adjusted {p_equals(found.smallest_p)})" if known(found.smallest_p) else ""
    told = [f"{identity.subject} is miscalibrated{p}."]
    small = found.overall and _small_overall(found)
    overall = _overall(found) if found.overall else []
    if not small:
        told += overall
    told += _for_whom(found, beyond=found.overall and not small)
    if found.named and not found.overall:
        told += _average(found, identity)
    if found.bends and not found.named:
        told.append("Its calibration curve bends: the error is not the same at low, middle and high risk.")
    if found.groups_differ and not found.named:
        told.append(
            "Taken together, the subgroups differ by more than chance explains, but no single subgroup is "
            "clearly wrong."
        )
    if not found.named and not overall:
        told += _size(*typical_gap)
    if found.named and found.others:
        told.append(_others(found))
    if small:
        told += overall
    if found.overall and found.exempt and len(found.exempt) <= MOST_NAMED:
        free = listed([_with_ratio(group, interval=False) for group in found.exempt])
        told.append(f"No error was found in {free}.")
    if found.gap_rejected or len(told) == 1:
        told.append(_where(found.worst, identity))
    return [sentence for sentence in told if sentence]


def _size(gap: float, most: float) -> list[str]:
    """How large the errors of cells are, where no group can be named for them."""
    cell = "The typical gap of a cell (subgroup and risk range), without what chance adds, is"
    if known(gap) and 100 * gap >= SMALLEST_SHOWN:
        return [f"{cell} {IN_SENTENCE.decimal(100 * gap, 1)} percentage points."]
    if known(most):
        return [f"{cell} at most {IN_SENTENCE.decimal(100 * most, 1)} percentage points (95 % CI)."]
    return []


def _overall(found: Conclusions) -> list[str]:
    """Level and shape of everybody, as far as their tests reject."""
    told = []
    if found.everybody.finding in (TOO_HIGH, TOO_LOW):
        told.append(f"Overall, it predicts {found.everybody.finding}{_numbers(found.everybody)}.")
    if found.slope_rejected:
        told.append(_shape(found.slope, after_level=bool(told)))
    return told


def _small_overall(found: Conclusions) -> bool:
    """Whether the overall error is only the small rest of larger errors of subgroups."""
    errors = [abs(np.log(group.ratio)) for group in found.named if known(group.ratio) and group.ratio > 0]
    everybody = found.everybody
    if everybody.finding not in (TOO_HIGH, TOO_LOW) or not known(everybody.ratio) or everybody.ratio <= 0:
        return False
    return bool(errors) and abs(np.log(everybody.ratio)) < SMALL_BESIDE * max(errors)


def _average(found: Conclusions, identity: Identity) -> list[str]:
    """What errors of subgroups alone come to on average over everybody."""
    everybody, unit = found.everybody, identity.unit
    why = []
    if everybody.finding in (TOO_HIGH, TOO_LOW):
        why.append(f"{everybody.finding}{_parenthesis(everybody, interval=True)}")
    if found.slope_rejected:
        why.append(_extreme(found.slope))
    if not why:
        if known(everybody.ratio_low) and not everybody.ratio_low <= 1 <= everybody.ratio_high:
            return [
                f"Over all {unit}, O/E is {IN_SENTENCE.decimal(everybody.ratio)} (95 % CI "
                f"{IN_SENTENCE.interval(everybody.ratio_low, everybody.ratio_high)}); after adjustment for "
                "the number of tests, this could be chance."
            ]
        return [f"On average over all {unit}, the score is right{_numbers(everybody)}."]
    this = "This error also makes" if len(found.named) == 1 else "These errors also make"
    told = [f"{this} the score {' and '.join(why)} over all {unit} together."]
    if sum(group.share for group in found.named) < NEARLY_ALL:
        told.append(f"No error was found in the other {unit}.")
    return told


def _numbers(group: JudgedGroup) -> str:
    """Observed and predicted rate, O/E ratio and interval, as far as they may be shown."""
    if not known(group.outcome_rate) or not known(group.mean_score):
        return ""
    observed, predicted = (IN_SENTENCE.percent(rate) for rate in (group.outcome_rate, group.mean_score))
    return f": observed {observed}, predicted {predicted}{_parenthesis(group, interval=True)}"


def _parenthesis(group: JudgedGroup, *, interval: bool) -> str:
    if not known(group.ratio):
        if known(group.positives) and group.mean_score == 0:
            return f" ({_events(group)}, none expected)"
        return ""
    ratio = f"O/E {IN_SENTENCE.decimal(group.ratio)}"
    if isinstance(group.positives, Limit):
        return f" ({_events(group)}, {ratio})"
    limits = IN_SENTENCE.interval(group.ratio_low, group.ratio_high)
    return f" ({ratio}, 95 % CI {limits})" if interval and limits != IN_SENTENCE.unknown else f" ({ratio})"


def _events(group: JudgedGroup) -> str:
    if isinstance(group.positives, Limit):
        return f"{IN_SENTENCE.count(group.positives)} events"
    return plural(round(group.positives), "event")


def _with_ratio(group: JudgedGroup, *, interval: bool) -> str:
    return f"{group.label}{_parenthesis(group, interval=interval)}"


def _shape(slope: tuple[float, float, float], *, after_level: bool) -> str:
    """Too extreme or not extreme enough; what that means is said where no error of the level blurs it."""
    if after_level:
        return f"Apart from that, its predictions are {_extreme(slope)}."
    ends = ("too low", "too high") if slope[0] > 1 else ("too high", "too low")
    return f"Its predictions are {_extreme(slope)}: high ones are {ends[0]}, low ones {ends[1]}."


def _extreme(slope: tuple[float, float, float]) -> str:
    value, low, high = slope
    limits = IN_SENTENCE.interval(low, high)
    interval = f", 95 % CI {limits}" if limits != IN_SENTENCE.unknown else ""
    number = f" (calibration slope {IN_SENTENCE.decimal(value)}{interval})" if known(value) else ""
    return f"{'not extreme enough' if value > 1 else 'too extreme'}{number}"


def _for_whom(found: Conclusions, *, beyond: bool) -> list[str]:
    """The subgroups that are wrong in their own right, the broadest first."""
    parts = []
    interval = len(found.named) <= FEW_NAMED
    for finding in (TOO_HIGH, TOO_LOW):
        groups = [group for group in found.named if group.finding == finding]
        if groups:
            names = [_with_ratio(group, interval=interval) for group in groups[:MOST_NAMED]]
            more = len(groups) - MOST_NAMED
            parts.append(f"{finding} for {listed([*names, *([f'{more} more'] if more > 0 else [])])}")
    if not parts:
        return []
    opening = "Beyond that, it predicts" if beyond else "It predicts"
    if len(found.named) == 1:
        (group,) = found.named
        parts = [f"{group.finding} for {group.label}{_numbers(group)}"]
    told = [f"{opening} {parts[0]}."]
    told += [f"It predicts {part}." for part in parts[1:]]
    return told


def _others(found: Conclusions) -> str:
    """Subgroups that are off for the reasons given before."""
    some = f"{plural(found.others, 'more subgroup')} {'is' if found.others == 1 else 'are'} also off"
    if found.overall:
        return f"{some}, but no more than these errors explain."
    them = "it overlaps" if found.others == 1 else "they overlap"
    return f"{some}, because {them} with {'this group' if len(found.named) == 1 else 'these groups'}."


def _where(worst: WorstCell | None, identity: Identity) -> str:
    """The cell whose gap is the most significant."""
    if worst is None or not known(worst.outcome_rate) or not known(worst.mean_score):
        return ""
    whom = f"all {identity.unit}" if worst.label == identity.everyone else worst.label
    return (
        f"The statistically clearest gap is in {whom} at predicted risk {risk_range(worst.bin)}: observed "
        f"{IN_SENTENCE.percent(worst.outcome_rate)}, predicted {IN_SENTENCE.percent(worst.mean_score)}."
    )


def _not_enough(found: Conclusions, identity: Identity, too_small: str) -> list[str]:
    if found.everybody.finding != CHANCE:
        return [
            f"There are not enough data to judge {_inside(identity.subject)} ({too_small}). The audit cannot "
            "say whether it is calibrated."
        ]
    return [
        f"There are not enough data to judge any subgroup ({too_small}).",
        f"Over all {identity.count(found.people)}, no miscalibration was found{_numbers(found.everybody)}.",
    ]


def _too_few(found: Conclusions, identity: Identity) -> list[str]:
    """Nothing was found, but hardly anything could have been."""
    everybody, unit = found.everybody, identity.unit
    told = [
        f"There are not enough data to judge {_inside(identity.subject)}: among "
        f"{identity.count(found.people)}, even an error of {rough_percent(found.detectable)} of the expected "
        "events could easily have gone unnoticed."
    ]
    excludes = known(everybody.ratio_low) and not everybody.ratio_low <= 1 <= everybody.ratio_high
    so = "; after adjustment for the number of tests, this could be chance" if excludes else ""
    told.append(f"Over all {unit}, no miscalibration was found{_numbers(everybody)}{so}.")
    if found.unjudged_cells:
        told.append(
            f"{found.unjudged_cells:,} of {plural(found.cells, 'cell')} (subgroup and risk range) could not "
            "be judged at all."
        )
    return told


def _inside(subject: str) -> str:
    """The subject within a sentence."""
    return "the score" if subject == "The score" else subject


def _none_found(found: Conclusions, identity: Identity) -> list[str]:
    people = identity.count(found.people)
    whom = (
        f", overall or in any of the {plural(found.tested, 'subgroup')} tested"
        if found.tested > 1
        else ", overall or in the subgroup tested"
        if found.tested
        else ""
    )
    told = [f"No miscalibration was found{whom} ({people}).", _no_proof(found.unnoticed, identity)]
    if found.unjudged_cells:
        told.append(
            f"{found.unjudged_cells:,} of {plural(found.cells, 'cell')} (subgroup and risk range) did not "
            "have enough data to judge."
        )
    return [sentence for sentence in told if sentence]


def _no_proof(unnoticed: Unnoticed | None, identity: Identity) -> str:
    if unnoticed is None:
        return "This is not proof of calibration."
    whom = f"all {identity.unit}" if unnoticed.label == identity.everyone else unnoticed.label
    if unnoticed.share >= 1:
        times = f"{1 + unnoticed.share:.0f}"
        error = f"even {NUMBER_WORDS.get(times, f'{times} times')} as many events as expected"
    else:
        error = f"an error of up to {rough_percent(unnoticed.share)} of the expected events"
    return f"This is not proof of calibration: in {whom}, {error} could easily have gone unnoticed."
