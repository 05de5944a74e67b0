"""The verdict and the notes of an audit in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propcal.auditing.audit_tables import TOO_HIGH, TOO_LOW
from propcal.auditing.findings import Findings
from propcal.auditing.hypothesis_tests import (
    BEYOND,
    CATEGORIES,
    INSUFFICIENT,
    UNTESTED,
    WITHIN,
    CalibrationTest,
)
from propcal.core.atoms import Atoms
from propcal.core.grid import UNIT
from propcal.core.rounding import loss_bounds

MOST_NAMED = 3
EVERY_HUNDRED = " outcomes for every 100 that it expects)"


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
        return self.text


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
        return Verdict(UNTESTED, f"Not tested: {untested}.", table)
    if not any(test.rejected for test in tests):
        chosen = groups["kept"] & (groups["finding"] == WITHIN)
        if not chosen.iloc[1:].any() and (len(groups) > 1 or not chosen.any()):
            return Verdict(INSUFFICIENT, _insufficient(groups, min_people), table)
        return Verdict(WITHIN, _within(groups, categories), table)
    smallest = min(test.adjusted_p for test in tests)
    chance = f"p = {smallest:.2g}" if smallest >= 1e-4 else "p < 0.0001"
    text = f"The score is miscalibrated beyond noise ({chance}, corrected for the number of tests). "
    parts = [_who(groups, finding) for finding in (TOO_HIGH, TOO_LOW)]
    text += " ".join(part for part in parts if part)
    if not any(parts) or any(test.rejected for test in tests if test.test == CATEGORIES):
        text += (" " if any(parts) else "") + _where(categories)
    return Verdict(BEYOND, text.strip(), table)


def _who(groups: pd.DataFrame, finding: str) -> str:
    """For whom the score is too high (or too low), the largest error first."""
    chosen = groups[groups["finding"] == finding]
    if chosen.empty:
        return ""
    ratio = chosen["observed_expected"].to_numpy(dtype=np.float64)
    size = np.abs(np.log(np.clip(np.where(np.isnan(ratio), 1.0, ratio), 1e-3, 1e3)))
    order = np.lexsort((-size, np.isnan(ratio)))  # numbers may be hidden, or nothing was expected
    rows = chosen.to_dict("records")
    named = [_named(rows[i]) for i in order[:MOST_NAMED]]
    named[1:] = [text.replace(EVERY_HUNDRED, ")") for text in named[1:]]
    if len(order) > MOST_NAMED:
        more = len(order) - MOST_NAMED
        named.append(f"{more} more group{'s' if more > 1 else ''}")
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    return f"It is {finding} for {listed}."


def _named(group: dict[str, Any]) -> str:
    """A group, and by how much the score is off; nothing of what is hidden."""
    ratio, outcomes = group["observed_expected"], group["positives"]
    if not pd.isna(ratio):
        return f"{group['group']} ({100 * ratio:.0f}{EVERY_HUNDRED}"
    if not pd.isna(outcomes) and group["mean_score"] == 0:
        return f"{group['group']} ({outcomes:,.0f} with the outcome, none expected)"
    return str(group["group"])


def worst_categories(categories: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Eligible categories: those surely wrong first, then by their gap as a share of the detectable one."""
    eligible = categories[categories["eligible"] & categories["gap"].notna()]
    sure = (eligible["low"] > 0) | (eligible["high"] < 0)
    ranked = eligible.assign(beyond=sure, relative=(eligible["gap"].abs() / eligible["detectable_gap"]))
    ranked = ranked.fillna({"relative": ranked["gap"].abs()})  # no noise known: by the gap itself
    return ranked.sort_values(["beyond", "relative"], ascending=False, kind="stable").head(n)


def _where(categories: pd.DataFrame) -> str:
    """The category whose gap stands out most."""
    worst = worst_categories(categories, 1)
    if worst.empty:
        return ""
    row = worst.iloc[0]
    return (
        f"The gap that stands out most: {row['group']} with scores in {row['bin']}, where the score says "
        f"{100 * row['mean_score']:.1f} and {100 * row['outcome_rate']:.1f} of 100 people had the outcome."
    )


def _insufficient(groups: pd.DataFrame, min_people: int) -> str:
    n = len(groups) - 1
    text = "Insufficient data: "
    if not n or groups["finding"].iloc[0] != WITHIN:
        return f"{text}there are fewer than {min_people} people, so that nothing can be said of the score."
    each = "the group is" if n == 1 else f"each of the {n:,} groups is"
    return (
        f"{text}{each} too small to be judged (fewer than {min_people} people, or below gamma). Of everybody "
        "together these people do not show that the score is wrong; for whom it may be cannot be said."
    )


def _within(groups: pd.DataFrame, categories: pd.DataFrame) -> str:
    tested = groups[groups["finding"] == WITHIN]
    everybody = groups["people"].iloc[0]
    people = "these" if everybody is None else f"{int(everybody):,}"
    text = (
        f"Within noise: {people} people do not show that the score is wrong for "
        f"{'everybody' if len(tested) == 1 else f'any of the {len(tested) - 1:,} groups tested'}. "
    )
    error = tested["detectable_error"].to_numpy(dtype=np.float64)
    if np.isfinite(error).any():
        worst = int(np.nanargmax(error))
        share = f"some {100 * error[worst]:.0f}" if error[worst] >= 0.01 else "less than 1"
        text += (
            f"That is no proof that it is right: for {tested['group'].iloc[worst]} it would have to be off "
            f"by {share} % of the expected number to be noticed."
        )
    untold = int((~categories["eligible"]).sum())
    if untold:
        text += f" {untold:,} of {len(categories):,} categories have too few people to say."
    return text


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
        f"{name} from {low:.4g} to {high:.4g}"
        for name, (low, high) in (("MC loss", b.mc), ("PMC loss", b.pmc), ("DC loss", b.dc))
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
            f"{counted(len(collection.left_out), 'group')} left out (share below gamma="
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


def counted(n: int, thing: str) -> str:
    """A number of things, in words that agree.

    >>> counted(1, "group"), counted(1234, "group")
    ('1 group is', '1,234 groups are')
    """
    return f"{n:,} {thing} is" if n == 1 else f"{n:,} {thing}s are"


def missing_note(attribute: str, count: int | None, n_people: int, *, alone: bool) -> str:
    """For how many people an attribute is missing; None if that is hidden."""
    kept = "they are a group of their own" if alone else "they are in no group of it"
    some = "some people" if count is None else f"{count:,} people ({100 * count / n_people:.1f} %)"
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
