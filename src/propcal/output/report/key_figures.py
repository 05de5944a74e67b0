"""The strip of key figures at the top of the page: how many people, and how good the score is overall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from propcal.auditing.audit import Audit
from propcal.auditing.measure_names import MEASURE_NAMES
from propcal.numbers import IN_SENTENCE, ON_PAGE, Limit

SHOWN = {
    "observed_expected": "1 is right on average",
    "slope": "below 1: too extreme",
    "auroc": "0.5 is chance, 1 is perfect",
    "brier": "lower is better",
}


@dataclass(frozen=True)
class KeyFigure:
    """A card: a name, a number, its interval, what it was before a correction, and how to read it."""

    name: str
    value: str
    interval: str
    before: str
    meaning: str


def key_figures(audit: Audit, before: Audit | None, *, exact: bool) -> list[KeyFigure]:
    """Cards for everybody; `before` is the audit of the score that was corrected."""
    row: Any = audit.groups.iloc[0]
    earlier: Any = None if before is None else before.groups.iloc[0]
    people, events = audit.settings["people"], audit.settings["positives"]
    rate, outcome = IN_SENTENCE.percent(row["outcome_rate"]), audit.identity.outcome
    protected = "" if exact else "counts are rounded to protect small ones"
    of_all = f"{outcome}: {rate} of all" if outcome else f"{rate} of all"
    cards = [
        KeyFigure(audit.identity.unit, ON_PAGE.count(people), "", "", protected),
        KeyFigure("with the outcome", ON_PAGE.count(events), "", "", of_all),
    ]
    for name, meaning in SHOWN.items():
        measure = MEASURE_NAMES[name]
        limits = ON_PAGE.interval(row[f"{name}_low"], row[f"{name}_high"], measure.digits)
        was = "" if earlier is None else ON_PAGE.decimal(earlier[name], measure.digits)
        cards.append(
            KeyFigure(
                measure.name,
                ON_PAGE.decimal(row[name], measure.digits),
                "" if limits == ON_PAGE.unknown or isinstance(row[name], Limit) else limits,
                was,
                meaning,
            )
        )
    return cards
