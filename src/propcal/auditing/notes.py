"""Notes of an audit: what a reader must know to read its numbers rightly."""

from __future__ import annotations

import pandas as pd

from propcal.auditing.data_notes import data_notes
from propcal.auditing.findings import Findings
from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.auditing.shared_notes import shared_notes
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, Limit, listed, percent_of, plural


def notes_of(found: Findings, identity: Identity, groups: pd.DataFrame) -> tuple[str, ...]:
    """Everything that applies to these people; `groups` is the table as it is shown."""
    who, rule = found.people, found.rule
    notes = data_notes(found, identity)
    if found.fitted_on_these is not None:
        notes.append(fitting_note(found.fitted_on_these, unit=identity.unit))
    for attribute, count in who.missing.items():
        alone = rule.words().missing == "level"
        notes.append(missing_note(attribute, count, who.people, identity, alone=alone))
    untested = groups[~groups["kept"].astype(bool)]
    if len(untested):
        notes.append(
            f"{plural(len(untested), 'subgroup')} {'was' if len(untested) == 1 else 'were'} not tested: "
            f"{listed(sorted(set(untested['reason'])), 'or')}."
        )
    if found.table.collection.left_out:
        covered = plural(len(found.table.collection), "group")
        notes.append(
            f"Risk ranges and the MC, PMC and DC losses cover the {covered} "
            f"with at least {100 * rule.gamma:g} % of the {identity.unit} (gamma)."
        )
    if who.people and float(found.profiles[0].sample.observed) < rule.rho * found.profiles[0].sample.total:
        notes.append(rare_note(rule.rho))
    if who.at_ends:
        notes.append(ends_note(who.at_ends, identity))
    if found.shared is not None:
        notes += shared_notes(found, found.shared, identity)
    elif who.resolution_bits < 32:
        notes.append(rounding_note(found, identity.unit))
    if who.rows and who.frequencies and who.people != who.rows:
        notes.append(
            f"Whole-number weights were taken as counts: {IN_SENTENCE.count(who.rows)} rows stand for "
            f'{identity.count(who.people)}. If they are survey weights, pass weight_kind="survey"; '
            "otherwise all intervals are far too narrow."
        )
    if not who.frequencies:
        notes.append("Survey weights were used; variances come from the squared weights.")
    if who.clusters and not found.untested:
        notes.append(
            "Repeat visits were taken into account: intervals and tests allow for rows of the same person "
            "being alike."
        )
    return tuple(notes)


def rounding_note(found: Findings, unit: str = "people") -> str:
    """What rounded scores can have changed."""
    told = f"Scores were rounded to 2**-{found.people.resolution_bits}"
    if found.fitted_on_these is not None:
        return (
            f"{told} before they were corrected. A score within half of that from a step of the correction "
            "may have ended up on the other side of the step."
        )
    b = found.people.rounding
    if b is None:
        return f"{told}."
    losses = ", ".join(
        f"{MEASURE_NAMES[loss].name} {low:.4g} to {high:.4g}"
        for loss, (low, high) in zip(LOSSES, (b.mc, b.pmc, b.dc))
    )
    return (
        f"{told}. With exact scores and the same risk ranges the losses would be: "
        f"{losses}. For {100 * b.people:.2g} % of {unit}, rounding leaves the risk range uncertain."
    )


def rare_note(rho: float) -> str:
    """That the floor on rates hides much of a rare outcome."""
    floor = f"{100 * rho:g} %"
    return (
        f"The outcome is rare: fewer than {floor} had it. The PMC and DC losses count observed rates below "
        f"{floor} as {floor} (rho); a smaller rho, such as {rho / 10:g}, and geometric risk ranges show more."
    )


def fitting_note(fitted: bool, name: str = "The correction", *, unit: str = "people") -> str:
    """Whether a correction is judged by the people it was fitted to."""
    if fitted:
        return f"{name} was fitted to these very {unit}: this audit is not evidence of how it does on others."
    return (
        f"{name} was not fitted to exactly these {unit}. Make sure that none of them were used to fit it: "
        "propcal cannot check this."
    )


def missing_note(attribute: str, count: float, n: float, identity: Identity, *, alone: bool) -> str:
    """For how many people an attribute is missing."""
    kept = "they form a group of their own" if alone else f"they are in no group of {attribute}"
    share = "" if isinstance(count, Limit) or isinstance(n, Limit) else f" ({percent_of(count, n)})"
    return f"{attribute} is missing for {identity.count(count)}{share}; {kept}."


def ends_note(count: float, identity: Identity) -> str:
    """How many people have a score that is certain."""
    some = identity.count(count)
    return (
        f"{some[0].upper()}{some[1:]} {'has' if count == 1 else 'have'} a score of exactly 0 or 1; log-odds "
        "and log loss treat it as very close to 0 or 1."
    )
