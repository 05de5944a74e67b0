"""Set-ups: how the training data are used, how large a step is, and by which rule losses are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from propcal.core.grid import check_choice, check_number
from propcal.errors import Argument, InputError

# The rules by which losses are computed, and what a reader calls them.
FIXED, SIZES, OWN = "fixed", "sizes", "own"
RULES = {
    FIXED: "our fixed rule",
    SIZES: "alpha * lambda * N",
    OWN: "each trial's own rule",
}
# What a "trial" in the caption of Table 6 may mean: one winner for each of these.
READINGS = ("seed", "seed and model", "seed, model, setting")


@dataclass(frozen=True)
class Setup:
    """How the experiment is set up, where the paper and its public code differ.

    Parameters
    ----------
    name : str
    kept_apart : float
        The share of the training rows that the base model does not see. Post-processing is fitted to them;
        with 0 it is fitted to the rows that the model was trained on.
    eta : float
        The share of a gap that an update closes.
    rule : "fixed", "sizes" or "own"
        The rule that gives the first verdict: the same for every trial, the same with the larger categories
        of the paper's definitions, or each trial's own alpha, gamma and rho, for its base model as well.
        All three are stored.
    readings : tuple of str
        What may count as a trial in Table 6; a claim must agree by all of them.
    excess : bool
        Whether "4.0x fewer updates" is the mean relative excess (3 for four times as many) or the ratio.
    """

    name: str
    kept_apart: float = 0.0
    eta: float = 1.0
    rule: str = FIXED
    readings: tuple[str, ...] = READINGS
    excess: bool = False

    def __post_init__(self) -> None:
        check_number("kept_apart", self.kept_apart, at_least=0, at_most=0.9)
        check_number("eta", self.eta, above=0, at_most=2)
        check_choice("rule", self.rule, tuple(RULES))
        for reading in self.readings:
            check_choice("readings", reading, READINGS)

    def about(self) -> dict[str, Any]:
        """The set-up as a store keeps it."""
        return {**asdict(self), "readings": list(self.readings)}

    def in_words(self) -> str:
        """The set-up in a sentence."""
        whose = "Base model and post-processing are fitted to the same training data"
        if self.kept_apart:
            whose = (
                f"The base model is fitted to {100 * (1 - self.kept_apart):g} % of the training data, "
                f"post-processing to the other {100 * self.kept_apart:g} %"
            )
        step = "the full gap" if self.eta == 1 else f"{self.eta:g} of the gap"
        return f"{whose}; an update closes {step}; the first verdict is by {RULES[self.rule]}."


# As the paper describes the experiment, and with the settings of its public code.
PRINTED = Setup("printed")
PUBLIC = Setup("public", kept_apart=0.5, eta=0.25, rule=OWN, readings=("seed",), excess=True)
SETUPS = {setup.name: setup for setup in (PRINTED, PUBLIC)}


def setup_of(given: str | Setup | Mapping[str, Any] | None) -> Setup:
    """A set-up by its name, as it is, or as a store keeps it; `printed` if nothing is said."""
    if given is None:
        return PRINTED
    if isinstance(given, Setup):
        return given
    if isinstance(given, Mapping):
        return Setup(**{**given, "readings": tuple(given["readings"])})
    if given not in SETUPS:
        raise InputError(
            Argument("setup") + f": there is no {given!r}", next_step=f"The set-ups are {', '.join(SETUPS)}"
        )
    return SETUPS[given]
