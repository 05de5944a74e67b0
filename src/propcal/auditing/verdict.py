"""The verdict and the notes of an audit in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from propcal.auditing.conclusions import Conclusions, Direction, Place, Unnoticed, WrongGroup
from propcal.auditing.finding_names import BEYOND, INSUFFICIENT, UNTESTED, WITHIN
from propcal.auditing.findings import Findings
from propcal.auditing.hypothesis_tests import CalibrationTest
from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.core.atoms import Atoms
from propcal.core.grid import UNIT
from propcal.core.rounding import loss_bounds
from propcal.numbers import IN_TEXT, are, known, noun, p_equals, percent_of, rough_percent
from propcal.plain_text import plain

MOST_NAMED = 3
EVERY_HUNDRED = " outcomes for every 100 that it expects)"
NOT_TESTED = "Not tested: "


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the audit comes to.

    Attributes
    ----------
    conclusion : "miscalibrated beyond noise", "within noise", "insufficient data" or "not tested"
    text : the same in a few sentences, for whom and by how much
    tests : data frame with the tests behind it
    """

    conclusion: str
    text: str
    tests: pd.DataFrame

    def __str__(self) -> str:
        return plain(self.text)


def verdict_of(
    tests: Sequence[CalibrationTest],
    groups: pd.DataFrame,
    categories: pd.DataFrame,
    *,
    untested: str,
    min_people: int,
) -> Verdict:
    """Put the tests into words; `untested` says why there are none, if there are none."""
    table = pd.DataFrame(tests, columns=list(CalibrationTest.__dataclass_fields__))
    if untested:
        return Verdict(UNTESTED, f"{NOT_TESTED}{untested}.", table)
    found = Conclusions.of(table, groups, categories)
    if any(test.rejected for test in tests):
        return Verdict(BEYOND, _beyond(found), table)
    judged = groups["kept"] & (groups["finding"] == WITHIN)
    if not judged.iloc[1:].any() and (found.groups or not judged.any()):
        return Verdict(INSUFFICIENT, _insufficient(found, min_people), table)
    return Verdict(WITHIN, _within(found), table)


def _beyond(found: Conclusions) -> str:
    parts = [_who(direction) for direction in found.directions]
    if not parts or found.gap_rejected:
        parts.append(_where(found.worst))
    chance = p_equals(found.smallest_p)
    first = f"The score is miscalibrated beyond noise ({chance}, corrected for the number of tests)."
    return " ".join([first, *filter(None, parts)])


def _who(direction: Direction) -> str:
    """For whom the score is too high (or too low), the largest error first."""
    groups, more = direction.by_ratio[:MOST_NAMED], len(direction.by_ratio) - MOST_NAMED
    names = [_named(group) for group in groups]
    names[1:] = [text.replace(EVERY_HUNDRED, ")") for text in names[1:]]
    if more > 0:
        names.append(f"{more} more {noun(more, 'group')}")
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"It is {direction.finding} for {listed}."


def _named(group: WrongGroup) -> str:
    """A group, and by how much the score is off; nothing of what is hidden."""
    if known(group.observed_expected):
        return f"{group.name} ({IN_TEXT.per_100(group.observed_expected, 0)}{EVERY_HUNDRED}"
    if known(group.positives) and group.mean_score == 0:
        return f"{group.name} ({IN_TEXT.whole(group.positives)} with the outcome, none expected)"
    return group.name


def _where(worst: Place | None) -> str:
    """The category whose gap stands out most."""
    if worst is None:
        return ""
    said, had = IN_TEXT.per_100(worst.mean_score), IN_TEXT.per_100(worst.outcome_rate)
    return (
        f"The gap that stands out most: {worst.group} with scores in {worst.bin}, where the score says "
        f"{said} and {had} of 100 people had the outcome."
    )


def _insufficient(found: Conclusions, min_people: int) -> str:
    text = "Insufficient data: "
    if not found.groups or found.together != WITHIN:
        return f"{text}there are fewer than {min_people} people, so that nothing can be said of the score."
    each = "the group is" if found.groups == 1 else f"each of the {found.groups:,} groups is"
    return (
        f"{text}{each} too small to be judged (fewer than {min_people} people, or below gamma). Of everybody "
        "together these people do not show that the score is wrong; for whom it may be cannot be said."
    )


def _within(found: Conclusions) -> str:
    people = "these" if found.people is None else IN_TEXT.count(found.people)
    whom = "everybody" if found.tested == 1 else f"any of the {found.tested - 1:,} groups tested"
    first = f"Within noise: {people} people do not show that the score is wrong for {whom}."
    parts = [first, _no_proof(found.unnoticed)]
    if found.untold:
        parts.append(f"{found.untold:,} of {found.categories:,} categories have too few people to say.")
    return " ".join(parts)


def _no_proof(unnoticed: Unnoticed | None) -> str:
    if unnoticed is None:
        return ""
    return (
        f"That is no proof that it is right: for {unnoticed.group} it would have to be off by "
        f"{rough_percent(unnoticed.share)} of the expected number to be noticed."
    )


def rounding_note(found: Findings) -> str:
    """What rounded scores can have changed."""
    bits, rule = found.atoms.resolution_bits, found.rule
    if found.fitted_on_these is not None:
        return (
            f"Scores were rounded to 2**-{bits} and then corrected: who stands within half of that of a step "
            "of the correction may be on its other side."
        )
    b = loss_bounds(
        found.atoms, found.table, rho=rule.rho, min_share=found.min_share, min_people=rule.min_people
    )
    told = ", ".join(
        f"{MEASURE_NAMES[loss].name} from {low:.4g} to {high:.4g}"
        for loss, (low, high) in zip(LOSSES, (b.mc, b.pmc, b.dc))
    )
    return (
        f"Scores are rounded to 2**-{bits}. In the same bins the exact ones have {told}: of "
        f"{100 * b.people:.2g} % of the people the bin is not certain."
    )


def notes_of(found: Findings) -> tuple[str, ...]:
    """What a reader must know to read the numbers rightly."""
    atoms, collection, buckets = found.atoms, found.table.collection, found.everybody.sample.n_clusters
    notes = []
    if found.fitted_on_these is not None:
        notes.append(fitting_note(found.fitted_on_these))
    notes.append(
        "The p-value of a loss is that of a weak test: a maximum over many categories hides most errors. "
        "The verdict comes from stronger ones."
    )
    for attribute, count in missing_counts(atoms).items():
        alone = found.rule.words().missing == "level"
        notes.append(missing_note(attribute, count, atoms.n_people, alone=alone))
    if collection.left_out:
        notes.append(
            f"{are(len(collection.left_out), 'group')} left out (share below gamma="
            f"{found.rule.gamma:g}, or a missing value): listed, not judged."
        )
    ends = int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum())
    if ends:
        notes.append(ends_note(ends))
    if atoms.resolution_bits < 32:
        notes.append(rounding_note(found))
    if found.rows and atoms.frequencies and atoms.n_people != found.rows:
        notes.append(
            f"Whole weights are taken as counts: {found.rows:,} rows stand for {atoms.n_people:,} people. "
            'If they are survey weights, say so (weight_kind="survey"): this audit is far too sure.'
        )
    if not atoms.frequencies:
        notes.append("Weights are survey weights: variances come from the squared weights.")
    if buckets and not found.untested:
        notes.append(
            "Rows of one person are taken as dependent: intervals and tests come from the spread of "
            f"{buckets} buckets of people."
        )
    return tuple(notes)


def fitting_note(fitted: bool, name: str = "The correction") -> str:
    """Whether a correction is judged by the people it was fitted to."""
    if fitted:
        return f"{name} was fitted to these very people: this is no evidence of how it does on others."
    return f"{name} was not fitted to exactly these people; whether some were among them cannot be seen."


def missing_note(attribute: str, count: int | None, n_people: int, *, alone: bool) -> str:
    """For how many people an attribute is missing; None if that is hidden."""
    kept = "they are a group of their own" if alone else "they are in no group of it"
    some = "some people" if count is None else f"{count:,} people ({percent_of(count, n_people)})"
    return f"{attribute} is missing for {some}; {kept}."


def ends_note(count: int | None) -> str:
    """How many people have a score that is certain; None if that is hidden."""
    some = "Some" if count is None else f"{count:,}"
    return (
        f"{some} people have a score of exactly 0 or 1, which log-odds and log loss take as very close to it."
    )


def missing_counts(atoms: Atoms) -> dict[str, int]:
    """For each attribute that is missing for some people, for how many."""
    people: Any = atoms.pattern_sums(atoms.people)
    patterns = atoms.patterns
    return {
        name: int(people[patterns.table[:, a] == levels.index(None)].sum())
        for a, (name, levels) in enumerate(zip(patterns.attributes, patterns.levels))
        if None in levels
    }
