"""What an audit can find: of the score as a whole, of a group, of a cell."""

from __future__ import annotations

from typing import NamedTuple

# Conclusions on the score as a whole.
MISCALIBRATED, NONE_FOUND = "miscalibrated", "no miscalibration found"
# Both of the score and of a group or a cell.
NOT_ENOUGH, UNTESTED = "not enough data", "not tested"
# Findings on a group or a cell; the last one on groups that are listed without a test.
TOO_LOW, TOO_HIGH, CHANCE, LEFT_OUT = "too low", "too high", "could be chance", "shown but not tested"


class Headline(NamedTuple):
    """A conclusion in a few words, and its tone: "wrong", "noise" or "few"."""

    tone: str
    words: str


HEADLINES = {
    MISCALIBRATED: Headline("wrong", "Miscalibrated"),
    NONE_FOUND: Headline("noise", "No miscalibration found"),
    NOT_ENOUGH: Headline("few", "Not enough data to judge"),
    UNTESTED: Headline("few", "Not tested"),
}
