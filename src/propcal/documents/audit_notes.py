"""Notes of an audit: what a reader must know to read its numbers rightly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

import pandas as pd

from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import FITTING, Note
from propcal.auditing.findings import Findings
from propcal.auditing.hypothesis_tests import SIGNIFICANCE
from propcal.auditing.measure_names import LOSSES, MEASURE_NAMES
from propcal.auditing.measures import reversed_area
from propcal.auditing.shared_bounds import RATIO, ranges_unsure, shared_bounds
from propcal.core.atoms import Atoms
from propcal.identity import Identity
from propcal.numbers import IN_SENTENCE, IN_TEXT, Limit, listed, p_equals, percent_of, plural, rough_percent

# of benchmarks/sites.py
MEASURED = (
    "In simulated sites of 6,000 to 14,000 people, AUROCs from shared atoms were up to 0.02 too low and "
    "slopes up to 0.03 off; with fewer people, rare events or many scores near 1 it is more."
)
HEAVY = 0.05  # share of the weight that one person carries, from which on a note says so


def notes_of(found: Findings, identity: Identity, groups: pd.DataFrame) -> tuple[str, ...]:
    """Everything that applies to these people; `groups` is the table of the audit."""
    who, rule = found.people, found.rule
    notes = data_notes(found, identity, groups.iloc[0])
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
    if float(groups["outcome_rate"].iloc[0]) < rule.rho:
        notes.append(rare_note(rule.rho))
    if who.at_ends:
        notes.append(ends_note(who.at_ends, identity))
    if found.shared is not None:
        notes += shared_notes(found, found.shared, identity)
    elif who.resolution_bits < 32:
        notes.append(rounding_note(found, identity.unit))
    if who.rows and who.frequencies and who.people != who.rows:
        words = (
            f"Whole-number weights were taken as counts: {IN_SENTENCE.count(who.rows)} rows stand for "
            f'{identity.count(who.people)}. If they are survey weights, pass weight_kind="survey"; '
            "otherwise all intervals are far too narrow."
        )
        notes.append(Note(words, vital=True))
    if not who.frequencies:
        notes.append("Survey weights were used; variances come from the squared weights.")
        if who.heaviest >= HEAVY:
            notes.append(heavy_note(who.heaviest, who.effective, identity))
    if who.clusters and not found.untested:
        notes.append(
            "Repeat visits were taken into account: intervals and tests allow for rows of the same person "
            "being alike."
        )
    return tuple(notes)


def heavy_note(share: float, effective: float, identity: Identity) -> str:
    """That results rest on few people."""
    return (
        f"The largest weight is {rough_percent(share)} of all weight, so results rest on few "
        f"{identity.unit}: the weights are worth {identity.count(max(round(effective), 1))} of equal weight. "
        "Check this weight."
    )


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
        words = (
            f"{name} was fitted to these very {unit}: this audit is not evidence of how it does on others."
        )
    else:
        words = (
            f"{name} was not fitted to exactly these {unit}. Make sure that none of them were used to fit "
            "it: propcal cannot check this."
        )
    return Note(words, vital=True, about=FITTING)


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


def data_notes(found: Findings, identity: Identity, everybody: Any) -> list[str]:
    """What a reader must know of the data before any number; `everybody` is a row of the table of groups."""
    notes = alike_notes(found.people.positives, found.people.weight)
    if found.untested and (area := reversed_area(everybody)):  # else, the verdict says so
        notes.append(reversed_sentence(*area, identity.subject, identity.unit))
    if left_out := found.people.left_out.sentence(unit=identity.unit, labels=identity.labels):
        notes.append(left_out)
    return [Note(note, vital=True) for note in notes]


def alike_notes(events: float, people: float) -> list[str]:
    """What may be wrong if nobody, or everybody, had the outcome."""
    if 0 < events < people:
        return []
    return [
        f"{'Nobody' if events <= 0 else 'Everybody'} had the outcome. Check that the right column, and the "
        "right value of it, is the event, and that the outcomes belong to these people: if a join of two "
        "tables failed, the data look like this."
    ]


def reversed_sentence(value: float, low: float, high: float, subject: str, unit: str) -> str:
    """That a score with this AUROC ranks people the wrong way round."""
    limits = IN_SENTENCE.interval(low, high)
    interval = f", 95 % CI {limits}" if limits != IN_SENTENCE.unknown else ""
    return (
        f"{subject.upper()} RANKS {unit.upper()} THE WRONG WAY ROUND (AUROC {IN_SENTENCE.decimal(value)}"
        f"{interval}): {unit} with higher scores had the outcome less often. Check that the right value of "
        "the outcome means the event (positive=, --positive). If it does, the score is probably a survival "
        "probability; use 1 - score."
    )


def _ratios(ratio: float, of: str, others: str = "") -> str:
    """How far O/E ratios can be off, in words; `of` names those that a limit above 0.2 % is for."""
    if ratio <= RATIO:
        return f"O/E ratios would differ by at most {100 * RATIO:.1f} %"
    if ratio >= 1:
        return "O/E ratios could differ much (some cells have few different scores)"
    return (
        f"{of} would differ by at most {ceil(100 * ratio)} %{others} (some cells have few different scores)"
    )


def shared_site_notes(parts: Mapping[str, Atoms], aurocs: Iterable[Any]) -> list[str]:
    """What a reader of measures of sites must know about atoms that were shared."""
    fewest = [one.shared.fewest for one in parts.values() if one.shared is not None]
    if not fewest:
        return []
    higher = lower = ratio = 0.0
    for one, value in zip(parts.values(), aurocs):
        if one.shared is not None:
            bounds = shared_bounds(one)
            ratio = max(ratio, bounds.ratio)
            if value == value:
                low, high = bounds.auroc
                higher, lower = max(higher, high - value), max(lower, value - low)
    return [
        f"These are shared atoms: scores were merged, so that every cell has at least {min(fewest)} people "
        f"with the outcome and {min(fewest)} without it. With exact scores, {_ratios(ratio, 'O/E ratios')}, "
        f"and the AUROC of a site would be at most {higher:.2f} higher and {lower:.2f} lower; these limits "
        f"hold for any data. There is no such limit for intercept and slope. {MEASURED}"
    ]


def shared_notes(found: Findings, atoms: Atoms, identity: Identity) -> list[str]:
    """What was merged, and what that can have changed."""
    shared = atoms.shared
    assert shared is not None
    merged = (
        f"These are shared atoms: scores were merged, so that every cell has at least {shared.fewest} "
        f"{identity.unit} with the outcome and {shared.fewest} without it."
    )
    notes: list[str] = [Note(merged, vital=True)]
    for name, n in shared.folded.items():
        notes.append(
            f'{name}: {plural(n, "rare level")} {"was" if n == 1 else "were"} folded into "other levels".'
        )
    if found.fitted_on_these is not None:
        return notes
    b, losses = shared_bounds(atoms), found.shared_losses
    assert losses is not None
    told = ", ".join(
        f"{MEASURE_NAMES[loss].name} {IN_TEXT.interval(low, high, 3)}"
        for loss, (low, high) in zip(LOSSES, (losses.mc, losses.pmc, losses.dc))
    )
    if ranges_unsure(losses):
        told = "cells and losses could differ much from the exact ones; rely on the groups"
    else:
        told = f"the losses would be: {told}"
    ratios = _ratios(b.ratio, f"the O/E ratio of all {identity.unit}", ", those of groups possibly by more")
    notes.append(
        f"With exact scores, {ratios}, AUROC would be from "
        f"{IN_TEXT.interval(*b.auroc, 3)} and the Brier score from {IN_TEXT.interval(*b.brier, 3)}. For "
        f"{rough_percent(losses.people)} of {identity.unit} the risk range is uncertain; {told}."
    )
    return notes


def bin_free_summary(table: pd.DataFrame | None, labels: dict[str, str], untested: str) -> BinFree:
    """Put the measures into words; `untested` says why there are none, where the audit has no tests."""
    if table is None:
        why = untested or "there are not enough data to judge anybody"
        return BinFree(f"No measures without bins: {why}.", pd.DataFrame(columns=["group", "measure"]))
    named = table.assign(label=[labels.get(name, name) for name in table["group"]])
    return BinFree(_sentence(named), named)


def _sentence(table: pd.DataFrame) -> str:
    ecce, smooth = (table[table["measure"] == name] for name in ("ecce", "smooth_ece"))
    worst = ecce.iloc[int(ecce["sigma"].argmax())]
    found = f"{worst['label']}, predicted risk {_range(worst)}"
    against = f"cumulative error {_against_chance(worst)}"
    if worst["adjusted_p"] <= SIGNIFICANCE:
        return (
            f"Without bins, the clearest error is for {found}: the score is {worst['direction']} ({against})."
        )
    lowest = smooth.iloc[int(smooth["adjusted_p"].argmin())]
    if lowest["adjusted_p"] <= SIGNIFICANCE:
        return (
            f"Without bins, the clearest error is for {lowest['label']} "
            f"(smooth calibration error {_against_chance(lowest)})."
        )
    return f"Without bins, no error is more than chance explains. The largest is for {found} ({against})."


def _against_chance(row: Any) -> str:
    value, chance = (IN_SENTENCE.decimal(row[name], 4) for name in ("value", "chance_95"))
    return f"{value}, in 95 % of perfect scores up to {chance}; adjusted {p_equals(row['adjusted_p'])}"


def _range(row: Any) -> str:
    low, high = IN_SENTENCE.percent(row["low"]), IN_SENTENCE.percent(row["high"])
    return low if low == high else f"{low} to {high}"
