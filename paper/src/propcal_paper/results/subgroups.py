"""Subgroups as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

VAGUE = ("other", "not recorded", "unknown", "missing")


def subgroup(group: str, attributes: Sequence[str]) -> str:
    """A subgroup as people read it: its levels, with the attribute where the level does
    not say it.

    `attributes` are those of its grouping, because levels and names of columns may
    contain any text.

    >>> subgroup("age_band=under 50 & payer=Medicare", ["age_band", "payer"])
    'under 50, Medicare'
    >>> subgroup("race=Other & payer=not recorded", ["race", "payer"])
    'race: Other, payer: not recorded'
    >>> names = ["race", "language", "elderly"]
    >>> subgroup("race=Black & African & language missing & not elderly", names)
    'Black & African, language missing, not elderly'
    """
    conditions = []
    for attribute in attributes:
        name = re.escape(attribute)
        conditions.append(f"({name}=.*?|{name} missing|{name}|not {name})")
    found = re.fullmatch(" & ".join(conditions), group, re.DOTALL)
    if found:
        return ", ".join(map(_condition, attributes, found.groups()))
    return group


def _condition(attribute: str, text: str) -> str:
    level = text.removeprefix(f"{attribute}=")
    if level != text and level.lower() in VAGUE:
        return f"{attribute}: {level}"
    return level
