"""What tests of calibration found before a fit: it decides whether the fit may change the score."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FoundErrors:
    """The result of the tests, which are those of an audit (`propcal.auditing.decision`).

    Attributes
    ----------
    tested : bool
        Whether there were enough data for any test.
    found : tuple of str
        The names of the tests that found an error: names of groups, and other tests.
    overall : bool
        Whether level or slope of everybody are among them.
    limit : float
        The largest gap of a cell, in standard errors, that chance is likely to produce.
    """

    tested: bool
    found: tuple[str, ...] = ()
    overall: bool = False
    limit: float = 0.0
