"""What an audit can find: of the score as a whole, of a group, of a cell."""

from __future__ import annotations

from typing import Any, NamedTuple

from propcal.numbers import IN_SENTENCE, in_parentheses, known

# Conclusions on the score as a whole.
MISCALIBRATED, NONE_FOUND = "miscalibrated", "no miscalibration found"
SHOWN, NOT_SHOWN = "shown to be within", "not shown to be within"  # so many percent
# Both of the score and of a group or a cell.
NOT_ENOUGH, UNTESTED = "not enough data", "not tested"
# Findings on a group or a cell; the last one on groups that are listed without a test.
TOO_LOW, TOO_HIGH, CHANCE, LEFT_OUT = "too low", "too high", "could be chance", "shown but not tested"
# The O/E ratio of a group in comparison with the others; also said of a Brier score.
HIGHER, LOWER = "higher", "lower"
AS_COMPARED = {TOO_LOW: HIGHER, TOO_HIGH: LOWER}


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


def headline_of(conclusion: str, fitted_on_these: bool | None, unit: str) -> Headline:
    """The headline of an audit; a correction judged by the people it was fitted to gets no tick.

    >>> headline_of(NONE_FOUND, True, "patients")
    Headline(tone='few', words='Not evidence, because fitted to these very patients')
    >>> headline_of(NONE_FOUND, False, "patients").words
    'No miscalibration found'
    >>> headline_of("shown to be within 20 %", None, "patients")
    Headline(tone='noise', words='Shown to be within 20 %')
    """
    if fitted_on_these and conclusion == MISCALIBRATED:
        return Headline("wrong", f"Miscalibrated, although fitted to these very {unit}")
    if fitted_on_these:
        return Headline(HEADLINES[NOT_ENOUGH].tone, f"Not evidence, because fitted to these very {unit}")
    if conclusion in HEADLINES:
        return HEADLINES[conclusion]
    tone = "noise" if conclusion.startswith(SHOWN) else "few"
    return Headline(tone, f"{conclusion[0].upper()}{conclusion[1:]}")


def explanation(row: Any) -> str:
    """The named errors that account for a group that is off as well, and the O/E ratio that they leave."""
    if not row["explained_by"] or not known(row["left_over"]):
        return str(row["explained_by"])
    interval = IN_SENTENCE.ci(row["left_over_low"], row["left_over_high"])
    left = in_parentheses(f"leaves O/E {IN_SENTENCE.decimal(row['left_over'])}", interval)
    return f"{row['explained_by']}{left}"
