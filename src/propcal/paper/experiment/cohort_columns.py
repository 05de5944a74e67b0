"""The columns of a cohort that the experiment uses: outcome, groups, features and, if they recur, people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Table 2: the features of a visit to the emergency department.
VITALS = ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp")
NUMBERS = (*VITALS, "acuity", "pain", "n_previous_visits", "n_previous_admissions", "age")
CATEGORIES = ("race", "gender", "marital_status", "insurance", "language")
TEXT, OUTCOME, TRUE_RISK = "chief_complaint", "admitted", "true_risk"
# Table 3: the attributes that define the groups.
GROUPINGS = (("race", "gender"), ("race", "gender", "insurance"))


@dataclass(frozen=True)
class CohortColumns:
    """The columns of a cohort.

    Parameters
    ----------
    outcome : str
        The event, 0 or 1.
    groupings : tuple of tuples of str
        Each grouping is a list of attributes; its groups are their levels and all intersections.
    numbers, categories, text : tuples of str
        The features: numbers, levels (one column of 0 and 1 for each), and free text (its frequent words).
    person : str, optional
        The person of each row. All rows of a person are then in the same part of every split; a row without
        a value is a person of its own.
    true_risk : str, optional
        The true risk of simulated people, if the cohort has it.
    unit : str
        What a row is, in the plural.
    """

    outcome: str
    groupings: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    person: str | None = None
    true_risk: str | None = None
    unit: str = "rows"

    @property
    def wanted(self) -> tuple[str, ...]:
        """Every column that a cohort must have, each once."""
        attributes = [name for groups in self.groupings for name in groups]
        person = [self.person] if self.person else []
        features = [*self.numbers, *self.categories, *self.text]
        return tuple(dict.fromkeys([*features, *attributes, *person, self.outcome]))

    def about(self) -> dict[str, Any]:
        """The description of the columns in a store."""
        return {
            "outcome": self.outcome,
            "groupings": [list(groups) for groups in self.groupings],
            "features": [list(self.numbers), list(self.categories), list(self.text)],
            "person": self.person,
            "unit": self.unit,
        }


# Simulated visits have the true risk, files of real ones do not.
ADMISSIONS = CohortColumns(
    OUTCOME, GROUPINGS, NUMBERS, CATEGORIES, (TEXT,), true_risk=TRUE_RISK, unit="visits"
)
