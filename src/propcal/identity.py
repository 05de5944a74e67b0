"""Identity: what a report calls the score, the outcome and the people, and where the data are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from propcal.errors import refused
from propcal.numbers import IN_SENTENCE
from propcal.option_records import Panel
from propcal.plain_text import plain

NAMES = Panel("Names in the report")
LONGEST = 200  # letters of a name, a title, a source
TEXTS = ("title", "score", "outcome", "unit", "source", "period", "institution", "population")


@dataclass(frozen=True)
class Identity:
    """Names for sentences and headings; all of them are optional.

    A unit that is empty was not chosen yet; the empty text as a level labels a missing value.

    Attributes
    ----------
    title : str
        Title of the report.
    score : str
        What the score is called: "Sepsis risk".
    outcome : str
        What the outcome is: "death in hospital".
    unit : str
        Plural noun for those who are scored, such as patients. Default: people, or visits if a patient ID is
        given
    labels : dict, such as ``{"sex": {"F": "women", "M": "men"}}``
        What a level is called: sex.F=women.
    source : str
        Where the data are from.
    period : str
        The time that the data cover.
    institution : str
        The hospital or other site.
    population : str
        Who was scored: "adults admitted as emergencies".
    """

    title: str = NAMES.option("TEXT", default="")
    score: str = NAMES.option("--score-name TEXT", default="", argument="score_name")
    outcome: str = NAMES.option("--outcome-name TEXT", default="", argument="outcome_name")
    unit: str = NAMES.option("NOUN", default="")
    labels: Mapping[str, Mapping[str, str]] = NAMES.option("--label COLUMN.LEVEL=TEXT")
    source: str = NAMES.option("TEXT", default="")
    period: str = NAMES.option("TEXT", default="")
    institution: str = NAMES.option("TEXT", default="")
    population: str = NAMES.option("TEXT", default="")

    def __post_init__(self) -> None:
        for name in TEXTS:
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) > LONGEST:
                given = f"{name}_name" if name in ("score", "outcome") else name
                raise refused("long text", given=given, most=LONGEST)
            object.__setattr__(self, name, plain(text).strip())
        object.__setattr__(self, "labels", _checked_labels({} if self.labels is None else self.labels))

    @property
    def subject(self) -> str:
        """The score at the beginning of a sentence."""
        return self.score or "The score"

    @property
    def within_sentence(self) -> str:
        """The score within a sentence."""
        return self.score or "the score"

    @property
    def everyone(self) -> str:
        """All who were audited, as a row of a table."""
        return f"All {self.unit}"

    def count(self, n: Any) -> str:
        """A number of them.

        >>> Identity(unit="patients").count(9104), Identity(unit="people").count(1)
        ('9,104 patients', '1 person')
        """
        return f"{IN_SENTENCE.count(n)} {self.noun(n)}"

    def worded(self, reason: str) -> str:
        """A reason that speaks of people, with their own noun.

        >>> Identity(unit="visits").worded("fewer than 50 people")
        'fewer than 50 visits'
        """
        return reason.replace("people", self.unit)

    def noun(self, n: Any = 2) -> str:
        """The noun that goes with a number."""
        return one_of(self.unit) if n == 1 else self.unit


def one_of(unit: str) -> str:
    """The singular of a plural noun, as far as English is regular.

    >>> one_of("people"), one_of("patients"), one_of("deliveries")
    ('person', 'patient', 'delivery')
    """
    if unit.endswith("people"):
        return unit.removesuffix("people") + "person"
    if unit.endswith("ies"):
        return unit.removesuffix("ies") + "y"
    return unit.removesuffix("s")


def _checked_labels(labels: Any) -> dict[str, dict[str, str]]:
    if not isinstance(labels, Mapping) or not all(isinstance(own, Mapping) for own in labels.values()):
        raise refused("labels")
    return {
        str(attribute): {"" if level is None else str(level): plain(text) for level, text in own.items()}
        for attribute, own in labels.items()
    }
