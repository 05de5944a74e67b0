"""Notes of an audit: what a reader must know, what the data cannot tell, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

import pandas as pd

from propcal.auditing.bin_free import BinFree
from propcal.auditing.claims import FITTING, Note
from propcal.auditing.findings import Findings
from propcal.auditing.hypothesis_tests import SIGNIFICANCE
from propcal.auditing.loss_intervals import RATIO, ranges_unsure, shared_bounds
from propcal.auditing.measures import reversed_area
from propcal.auditing.names import MEASURE_NAMES, MISCALIBRATED, NONE_FOUND, NOT_SHOWN, SHOWN
from propcal.core.atoms import Atoms
from propcal.core.loss_bounds import LossBounds
from propcal.documents.words import words
from propcal.identity import Identity
from propcal.numbers import (
    IN_SENTENCE,
    IN_TEXT,
    Limit,
    capital,
    listed,
    p_equals,
    percent_of,
    plural,
    rough_percent,
)

if TYPE_CHECKING:
    from propcal.auditing.audit import Audit

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
    if n := int((~groups["kept"].astype(bool)).sum()):
        why = listed(sorted(set(groups.loc[~groups["kept"].astype(bool), "reason"])), "or")
        notes.append(f"{plural(n, 'subgroup')} {'was' if n == 1 else 'were'} not tested: {why}.")
    if found.table.collection.left_out:
        covered = plural(len(found.table.collection), "group")
        notes.append(words("notes", "gamma", groups=covered, gamma=100 * rule.gamma, unit=identity.unit))
    if float(groups["outcome_rate"].iloc[0]) < rule.rho:
        notes.append(words("notes", "rare", floor=f"{100 * rule.rho:g} %", smaller=rule.rho / 10))
    if who.at_ends:
        have = "has" if who.at_ends == 1 else "have"
        notes.append(words("notes", "ends", people=f"{capital(identity.count(who.at_ends))} {have}"))
    if found.shared is not None:
        notes += shared_notes(found, found.shared, identity)
    elif who.resolution_bits < 32:
        notes.append(rounding_note(found, identity.unit))
    if who.rows and who.frequencies and who.people != who.rows:
        rows, people = IN_SENTENCE.count(who.rows), identity.count(who.people)
        notes.append(Note(words("notes", "counts", rows=rows, people=people), vital=True))
    if not who.frequencies:
        notes.append(words("notes", "survey"))
        if who.heaviest >= HEAVY:
            share, worth = rough_percent(who.heaviest), identity.count(max(round(who.effective), 1))
            notes.append(words("notes", "heavy", share=share, people=worth, unit=identity.unit))
    if who.clusters and not found.untested:
        notes.append(words("notes", "repeat"))
    return tuple(notes)


def rounding_note(found: Findings, unit: str = "people") -> str:
    """What rounded scores can have changed."""
    told = f"Scores were rounded to 2**-{found.people.resolution_bits}"
    if found.fitted_on_these is not None:
        return told + words("notes", "rounded_corrected")
    b = found.people.rounding
    if b is None:
        return f"{told}."
    losses = _losses(b, lambda low, high: f"{low:.4g} to {high:.4g}")
    return told + words("notes", "rounded", losses=losses, share=100 * b.people, unit=unit)


def _losses(bounds: LossBounds, text: Callable[[float, float], str]) -> str:
    """What the losses can be."""
    named = {"mc": bounds.mc, "pmc": bounds.pmc, "dc": bounds.dc}
    return ", ".join(f"{MEASURE_NAMES[name].name} {text(*ends)}" for name, ends in named.items())


def fitting_note(fitted: bool, name: str = "The correction", *, unit: str = "people") -> str:
    """Whether a correction is judged by the people it was fitted to."""
    text = words("notes", "fitted" if fitted else "not_fitted", name=name, unit=unit)
    return Note(text, vital=True, about=FITTING)


def missing_note(attribute: str, count: float, n: float, identity: Identity, *, alone: bool) -> str:
    """For how many people an attribute is missing."""
    kept = "they form a group of their own" if alone else f"they are in no group of {attribute}"
    share = "" if isinstance(count, Limit) or isinstance(n, Limit) else f" ({percent_of(count, n)})"
    return f"{attribute} is missing for {identity.count(count)}{share}; {kept}."


def data_notes(found: Findings, identity: Identity, everybody: Any) -> list[str]:
    """What a reader must know of the data before any number; `everybody` is a row of the table of groups."""
    notes = alike_notes(found.people.positives, found.people.weight)
    if found.untested and (area := reversed_area(everybody)):  # else, the verdict says so
        notes.append(reversed_sentence(*area, identity.subject, identity.unit))
    if left_out := found.people.left_out.sentence(unit=identity.unit, labels=identity.labels):
        notes.append(left_out)
    if column := found.people.unused_id:
        notes.append(words("notes", "unused_id", column=column, unit=identity.unit))
    return [Note(note, vital=True) for note in notes]


def alike_notes(events: float, people: float) -> list[str]:
    """What may be wrong if nobody, or everybody, had the outcome."""
    if 0 < events < people:
        return []
    return [words("notes", "alike", who="Nobody" if events <= 0 else "Everybody")]


def reversed_sentence(value: float, low: float, high: float, subject: str, unit: str) -> str:
    """That a score with this AUROC ranks people the wrong way round."""
    auroc = ", ".join(filter(None, [IN_SENTENCE.decimal(value), IN_SENTENCE.ci(low, high)]))
    values = {"subject": subject.upper(), "caps": unit.upper(), "unit": unit, "auroc": auroc}
    return words("notes", "reversed", **values)


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
    limits = {"ratios": _ratios(ratio, "O/E ratios"), "higher": higher, "lower": lower}
    merged = words("notes", "shared", fewest=min(fewest), unit="people")
    return [merged + words("notes", "shared_sites", **limits)]


def shared_notes(found: Findings, atoms: Atoms, identity: Identity) -> list[str]:
    """What was merged, and what that can have changed."""
    shared = atoms.shared
    assert shared is not None
    merged = words("notes", "shared", fewest=shared.fewest, unit=identity.unit)
    notes: list[str] = [Note(merged, vital=True)]
    for name, n in shared.folded.items():
        were = "was" if n == 1 else "were"
        notes.append(f'{name}: {plural(n, "rare level")} {were} folded into "other levels".')
    if found.fitted_on_these is not None:
        return notes
    b, losses = shared_bounds(atoms), found.shared_losses
    assert losses is not None
    told = _losses(losses, lambda low, high: IN_TEXT.interval(low, high, 3))
    if ranges_unsure(losses):
        told = "cells and losses could differ much from the exact ones; rely on the groups"
    else:
        told = f"the losses would be: {told}"
    ratios = _ratios(b.ratio, f"the O/E ratio of all {identity.unit}", ", those of groups possibly by more")
    auroc, brier = IN_TEXT.interval(*b.auroc, 3), IN_TEXT.interval(*b.brier, 3)
    values = {"ratios": ratios, "auroc": auroc, "brier": brier, "share": rough_percent(losses.people)}
    return [*notes, words("notes", "shared_bounds", **values, unit=identity.unit, losses=told)]


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
    clearest = "Without bins, the clearest error is for"
    if worst["adjusted_p"] <= SIGNIFICANCE:
        return f"{clearest} {found}: the score is {worst['direction']} ({against})."
    lowest = smooth.iloc[int(smooth["adjusted_p"].argmin())]
    if lowest["adjusted_p"] <= SIGNIFICANCE:
        return f"{clearest} {lowest['label']} (smooth calibration error {_against_chance(lowest)})."
    return f"Without bins, no error is more than chance explains. The largest is for {found} ({against})."


def _against_chance(row: Any) -> str:
    value, chance = (IN_SENTENCE.decimal(row[name], 4) for name in ("value", "chance_95"))
    return f"{value}, in 95 % of perfect scores up to {chance}; adjusted {p_equals(row['adjusted_p'])}"


def _range(row: Any) -> str:
    low, high = IN_SENTENCE.percent(row["low"]), IN_SENTENCE.percent(row["high"])
    return low if low == high else f"{low} to {high}"


def _unjudged(audit: Audit) -> int:
    return int((~audit.categories["eligible"].astype(bool)).sum())


def mostly_unjudged(audit: Audit) -> bool:
    """Whether nothing was found, but most cells do not have enough data."""
    return audit.verdict.conclusion == NONE_FOUND and 2 * _unjudged(audit) > len(audit.categories)


def cannot_tell(audit: Audit) -> list[str]:
    """What remains open."""
    unit, left_out = audit.identity.unit, int((~audit.groups["kept"].astype(bool)).sum())
    unjudged, told = _unjudged(audit), []
    if unjudged:
        told.append(
            f"Whether the score is right in {unjudged:,} of the {plural(len(audit.categories), 'cell')} "
            "(subgroup and risk range): they do not have enough data."
        )
    if left_out:
        told.append(
            f"Whether the score is right for {plural(left_out, 'subgroup')} with too few {unit} or a "
            f"missing value: {'it is' if left_out == 1 else 'they are'} shown below but not tested."
        )
    if audit.settings["fitted_on_these"]:
        told.append(words("unknown", "fitted", unit=unit))
    return [*told, words("unknown", "recorded"), words("unknown", "fair")]


def next_steps(audit: Audit, corrected: str = "", worse: int = 0, better: int = 0) -> list[str]:
    """What to do; `corrected` names a corrected score, which is `worse` and `better` for so many groups."""
    unit, conclusion = audit.identity.unit, audit.verdict.conclusion
    if audit.verdict.errors:
        return _correct(audit, unit) if not corrected else _keep_or_not(audit, corrected, worse, better)
    if conclusion == NONE_FOUND or conclusion.startswith(SHOWN):
        return _nothing_found(audit, corrected, worse)
    if conclusion.startswith(NOT_SHOWN):
        share = f"{100 * audit.settings['within']:g} %"
        return [f"Audit more {unit}, combine small groups, or ask for a wider margin than {share}."]
    return [f"Collect more {unit} with known outcomes, or define fewer and larger groups, and audit again."]


def _steps(*names: str, **values: str) -> list[str]:
    return [words("next_steps", name, **values) for name in names]


def _names_groups(audit: Audit) -> bool:
    return any(claim.kind == "group" for claim in audit.verdict.claims)


def _correct(audit: Audit, unit: str) -> list[str]:
    avoid = "not to use it for the groups named above" if _names_groups(audit) else "not to use it"
    return _steps("decide", "fit", "legal", avoid=avoid, unit=unit)


def _keep_or_not(audit: Audit, corrected: str, worse: int, better: int) -> list[str]:
    if worse and not better:
        are = "is" if worse == 1 else "are"
        return [
            "Do not use this correction: no group is shown to be closer to its observed rate, and "
            f"{worse:,} {are} further off (see “Before and after”)."
        ]
    if worse:
        return [
            f"“{corrected}” is further off than before for {plural(worse, 'group')}: see “Before and "
            "after”. Do not use it unless what others gain is worth that.",
        ]
    last = ", or do not use the score for the groups named above" if _names_groups(audit) else ""
    return _steps("remains", "enough", corrected=corrected, last=last)


def _nothing_found(audit: Audit, corrected: str, worse: int) -> list[str]:
    unit = audit.identity.unit
    steps = _steps("allowed", "repeat", unit=unit)
    if corrected:
        are = "is" if worse == 1 else "are"
        off = [f"{plural(worse, 'group')} {are} further off than before: see “Before and after”."]
        if audit.settings["fitted_on_these"]:
            return [f"Audit “{corrected}” on {unit} that it was not fitted to (propcal audit --correction)."]
        return [*_steps("before_use", corrected=corrected, unit=unit), *(off if worse else []), *steps]
    if mostly_unjudged(audit):
        few = "most cells do not have enough data. Audit more people with known outcomes."
        return [f"Do not rely on this alone: {few}", *steps]
    return ["There is no reason here to correct the score.", *steps]


def unchanged_steps(audit: Audit, base: str) -> list[str]:
    """What to do with a correction that changes nobody."""
    more = f" To correct it, fit a correction to more {audit.identity.unit}, or to more recent ones."
    wrong = audit.verdict.conclusion == MISCALIBRATED
    return [f"Use {base} as it is: the correction changes nothing.{more if wrong else ''}"]
