"""Claims: what a verdict states, each with its test and numbers; and the verdict.

Sentences, headlines, marks in tables and JSON are made from claims; nothing reads
sentences. A claim is made only if its test rejects at its adjusted level, so that at
most 5 % of perfect scores get any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from propcal.core.groups import EVERYBODY
from propcal.errors import plain
from propcal.numbers import known

# overall: everybody taken together. shape: the calibration curve of everybody, and
# where it errs. group: these people, whatever holds for the others. beyond: these
# people differ from what the overall error (level and curve) would give. cell: a group
# within a range of scores. within: right to within a share, with 95 % confidence.
# outside: off by more than a share.
Kind = Literal["overall", "shape", "group", "beyond", "cell", "within", "outside"]
ERRORS = ("overall", "shape", "group", "beyond", "cell")
NAN = float("nan")
FITTING = "fitting"  # what a note may be about


class Note(str):
    """What a reader must know beside the verdict; nobody may miss it if it is
    `vital`.
    """

    vital: bool
    about: str

    def __new__(cls, text: str, *, vital: bool = False, about: str = "") -> Note:
        note = super().__new__(cls, text)
        note.vital = vital
        note.about = about
        return note

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"vital": self.vital, "about": self.about}


@dataclass(frozen=True)
class Region:
    """Scores from `low` to `high` at which predictions are too high or too low."""

    low: float
    high: float
    direction: str


@dataclass(frozen=True)
class Claim:
    """One statement, and what supports it.

    Attributes
    ----------
    kind : "overall", "shape", "group", "beyond", "cell", "within" or "outside"
    who : str
        The name of the group or site ("everybody" for all people); empty for several
        groups taken together.
    label : str
        What readers call them.
    direction : "too high" or "too low"
        Of the predictions. Of "beyond" it is "higher" or "lower": the O/E ratio
        compared with the others'. Empty if there is no single one.
    estimate, low, high : float
        O/E ratio with its 95 % interval; of "cell" the observed rate with its interval.
    test : str
        The test that supports the claim.
    p_value : float
        Adjusted for the number of tests.
    people, events : float
        Behind the estimate; events are people with the outcome.
    observed, predicted : float
        Outcome rate and mean score.
    others, others_low, others_high : float
        Of a single "group" or "beyond": the O/E ratio of everybody else with its
        interval.
    others_are, others_label : str
        The name of the group of everybody else, if it is one, and its label: "men"
        beside "women".
    given : float
        Of "beyond": the O/E ratio that the error of the others (those in no group
        named, and the shifts of other groups named) would give these people.
    where : tuple of Region
        Of "shape": the scores at which predictions are too high or too low.
    bin : str
        Of "cell": the range of scores.
    within : float
        Of "within" and "outside": the share, such as 0.2; infinite if withheld to
        protect a count.
    since : str
        When the error began, if the claim is about time and the data show it.

    Examples
    --------
    >>> from propcal import audit
    >>> claim = audit([1, 0, 0, 0] * 100, [0.5] * 400).verdict.claims[0]
    >>> claim.kind, claim.label, claim.direction, claim.estimate, claim.events
    ('overall', 'All people', 'too high', 0.5, 100.0)
    """

    kind: Kind
    who: str
    label: str
    direction: str
    estimate: float = NAN
    low: float = NAN
    high: float = NAN
    test: str = ""
    p_value: float = NAN
    people: float = NAN
    events: float = NAN
    observed: float = NAN
    predicted: float = NAN
    others: float = NAN
    others_low: float = NAN
    others_high: float = NAN
    others_are: str = ""
    others_label: str = ""
    given: float = NAN
    where: tuple[Region, ...] = ()
    bin: str = ""
    within: float = NAN
    since: str = ""


def labelled_claims(
    claims: Iterable[Claim], labels: Mapping[str, str]
) -> tuple[Claim, ...]:
    """Claims with what people call their groups."""
    return tuple(
        replace(
            claim,
            label=labels.get(claim.who, ""),
            others_label=labels.get(claim.others_are, ""),
        )
        for claim in claims
    )


def with_numbers(claim: Claim, groups: pd.DataFrame, categories: pd.DataFrame) -> Claim:
    """A claim with the numbers of the tables beside it, which may be protected."""
    if claim.kind == "cell":
        of_group = categories["group"] == claim.who
        in_range = categories["bin"] == claim.bin
        cell = categories[of_group & in_range].iloc[-1]
        return replace(claim, **numbers_of(cell, "outcome_rate", "rate"))
    if not claim.who:
        return claim
    numbers = numbers_of(row_of(groups, claim.who))
    if claim.others_are:
        others = row_of(groups, claim.others_are)
        for end in ("", "_low", "_high"):
            numbers[f"others{end}"] = others[f"observed_expected{end}"]
    return replace(claim, **numbers)


def row_of(groups: pd.DataFrame, name: str) -> pd.Series:
    """The row of a group in a table of groups."""
    _, row = next(groups[groups["group"] == name].iterrows())
    return row


def numbers_of(
    row: Any, estimate: str = "observed_expected", ends: str = "observed_expected"
) -> dict[str, Any]:
    """What a row of a table says, as numbers of a claim."""
    return {
        "estimate": row[estimate],
        "low": row[f"{ends}_low"],
        "high": row[f"{ends}_high"],
        "people": row["people"],
        "events": row["positives"],
        "observed": row["outcome_rate"],
        "predicted": row["mean_score"],
    }


def with_others(claim: Claim, groups: pd.DataFrame) -> Claim:
    """A claim whose O/E ratio of everybody else is that of the people in the table who
    are not in the group.
    """
    if claim.others_are or not known(claim.others):
        return claim
    whole = row_of(groups, EVERYBODY.name)
    part = row_of(groups, claim.who)
    events, expected = (
        whole["people"] * whole[rate] - part["people"] * part[rate]
        for rate in ("outcome_rate", "mean_score")
    )
    others = NAN
    factor = NAN
    if expected > 0 and events >= 0:
        others = float(events / expected)
    if claim.others > 0 and others > 0:
        factor = others / claim.others
    others_low = claim.others_low * factor
    others_high = claim.others_high * factor
    return replace(claim, others=others, others_low=others_low, others_high=others_high)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the audit concludes, and what supports it.

    Attributes
    ----------
    conclusion : str
        "miscalibrated", "no miscalibration found", "not enough data" or "not tested";
        with `within=0.2` "shown to be within 20 %" or "not shown to be within 20 %".
    sentences : tuple of str
        The claims in words.
    tests : DataFrame
        All tests, of which those that reject support claims.
    claims : tuple of Claim
        What is stated: each with its test, estimate, interval and number of events.
    ranks_backwards : bool
        Whether the score ranks people the wrong way round; the first sentence then says
        so.

    Examples
    --------
    >>> from propcal import audit
    >>> verdict = audit([1, 0, 0, 0] * 100, [0.5] * 400).verdict
    >>> verdict.conclusion, len(verdict.claims)
    ('miscalibrated', 1)
    """

    conclusion: str
    sentences: tuple[str, ...]
    tests: pd.DataFrame
    claims: tuple[Claim, ...] = ()
    ranks_backwards: bool = False

    @property
    def errors(self) -> tuple[Claim, ...]:
        """The claims that the score is wrong, without those of how right it is shown to
        be.
        """
        return tuple(claim for claim in self.claims if claim.kind in ERRORS)

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return plain(self.text)
