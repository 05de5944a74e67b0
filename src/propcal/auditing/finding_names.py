"""What an audit can find: of the score as a whole, of a group, of a category."""

from __future__ import annotations

from typing import NamedTuple

# Of the score; the last three also of a group or a category.
BEYOND, WITHIN, INSUFFICIENT, UNTESTED = (
    "miscalibrated beyond noise",
    "within noise",
    "insufficient data",
    "not tested",
)
# Of a group or a category, and of a group that is listed only.
TOO_LOW, TOO_HIGH, LEFT_OUT = "too low", "too high", "left out"


class Headline(NamedTuple):
    """A conclusion in a few words, and its tone: "wrong", "noise" or "few"."""

    tone: str
    words: str


HEADLINES = {
    BEYOND: Headline("wrong", "Wrong for some, beyond chance"),
    WITHIN: Headline("noise", "No error found beyond chance"),
    INSUFFICIENT: Headline("few", "Too few people to say"),
    UNTESTED: Headline("few", "Not tested"),
}
