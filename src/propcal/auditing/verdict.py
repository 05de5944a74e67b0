"""The verdict of an audit: its conclusion, the tests and claims behind it, and the claims in words."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from propcal.auditing.claims import Claim
from propcal.plain_text import plain


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the audit comes to.

    Attributes
    ----------
    conclusion : str
        "miscalibrated", "no miscalibration found", "not enough data" or "not tested"; with `within=0.2`
        "shown to be within 20 %" or "not shown to be within 20 %".
    sentences : tuple of str
        The claims in words.
    tests : DataFrame
        All tests, of which those that reject support claims.
    claims : tuple of Claim
        What is stated: each with its test, estimate, interval and number of events.
    ranks_backwards : bool
        Whether the score ranks people the wrong way round; the first sentence then says so.
    """

    conclusion: str
    sentences: tuple[str, ...]
    tests: pd.DataFrame
    claims: tuple[Claim, ...] = ()
    ranks_backwards: bool = False

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return plain(self.text)
