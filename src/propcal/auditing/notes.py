"""Notes of an audit: what a reader must know to read its numbers rightly."""

from __future__ import annotations

from typing import Any

from propcal.auditing.data_notes import data_notes
from propcal.auditing.findings import Findings
from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.core.atoms import Atoms
from propcal.core.grid import UNIT
from propcal.core.rounding import loss_bounds
from propcal.identity import Identity
from propcal.numbers import listed, percent_of, plural


def notes_of(found: Findings, identity: Identity) -> tuple[str, ...]:
    """Everything that applies to these people."""
    atoms, rule, clusters = found.atoms, found.rule, found.everybody.sample.n_clusters
    notes = data_notes(found)
    if found.fitted_on_these is not None:
        notes.append(fitting_note(found.fitted_on_these, unit=identity.unit))
    for attribute, count in missing_counts(atoms).items():
        alone = rule.words().missing == "level"
        notes.append(missing_note(attribute, count, atoms.n_people, identity, alone=alone))
    reasons = [profile.size.left_out for profile in found.profiles if profile.size.left_out]
    left_out = len(reasons)
    if left_out:
        notes.append(
            f"{plural(left_out, 'subgroup')} {'was' if left_out == 1 else 'were'} not tested: "
            f"{listed(sorted(set(reasons)), 'or')}."
        )
    if found.table.collection.left_out:
        covered = plural(len(found.table.collection), "group")
        notes.append(
            f"Risk ranges and the MC, PMC and DC losses cover the {covered} "
            f"with at least {100 * rule.gamma:g} % of the {identity.unit} (gamma)."
        )
    ends = int(atoms.people[(atoms.score == 0) | (atoms.score == UNIT)].sum())
    if ends:
        notes.append(ends_note(ends, identity))
    if atoms.resolution_bits < 32:
        notes.append(rounding_note(found))
    if found.rows and atoms.frequencies and atoms.n_people != found.rows:
        notes.append(
            f"Whole-number weights were taken as counts: {found.rows:,} rows stand for "
            f'{identity.count(atoms.n_people)}. If they are survey weights, pass weight_kind="survey"; '
            "otherwise all intervals are far too narrow."
        )
    if not atoms.frequencies:
        notes.append("Survey weights were used; variances come from the squared weights.")
    if clusters and not found.untested:
        notes.append(
            "Repeat visits were taken into account: intervals and tests allow for rows of the same person "
            "being alike."
        )
    return tuple(notes)


def rounding_note(found: Findings) -> str:
    """What rounded scores can have changed."""
    bits, rule = found.atoms.resolution_bits, found.rule
    if found.fitted_on_these is not None:
        return (
            f"Scores were rounded to 2**-{bits} before they were corrected. A score within half of that from "
            "a step of the correction may have ended up on the other side of the step."
        )
    b = loss_bounds(
        found.atoms, found.table, rho=rule.rho, min_share=found.min_share, min_people=rule.min_people
    )
    told = ", ".join(
        f"{MEASURE_NAMES[loss].name} {low:.4g} to {high:.4g}"
        for loss, (low, high) in zip(LOSSES, (b.mc, b.pmc, b.dc))
    )
    return (
        f"Scores were rounded to 2**-{bits}. With exact scores and the same risk ranges the losses would be: "
        f"{told}. For {100 * b.people:.2g} % of people, rounding leaves the risk range uncertain."
    )


def fitting_note(fitted: bool, name: str = "The correction", *, unit: str = "people") -> str:
    """Whether a correction is judged by the people it was fitted to."""
    if fitted:
        return f"{name} was fitted to these very {unit}: this audit is not evidence of how it does on others."
    return f"{name} was not fitted to exactly these {unit}; whether some of them were used cannot be seen."


def missing_note(attribute: str, count: int | None, n: int, identity: Identity, *, alone: bool) -> str:
    """For how many people an attribute is missing; None if that is suppressed."""
    kept = "they form a group of their own" if alone else f"they are in no group of {attribute}"
    some = f"some {identity.unit}" if count is None else f"{identity.count(count)} ({percent_of(count, n)})"
    return f"{attribute} is missing for {some}; {kept}."


def ends_note(count: int | None, identity: Identity) -> str:
    """How many people have a score that is certain; None if that is suppressed."""
    some = (
        f"Some {identity.unit} have"
        if count is None
        else (f"{identity.count(count)} {'has' if count == 1 else 'have'}")
    )
    return f"{some} a score of exactly 0 or 1; log-odds and log loss treat it as very close to 0 or 1."


def missing_counts(atoms: Atoms) -> dict[str, int]:
    """For each attribute that is missing for some people, for how many."""
    people: Any = atoms.pattern_sums(atoms.people)
    patterns = atoms.patterns
    return {
        name: int(people[patterns.table[:, a] == levels.index(None)].sum())
        for a, (name, levels) in enumerate(zip(patterns.attributes, patterns.levels))
        if None in levels
    }
