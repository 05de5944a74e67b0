"""Set-ups: how the experiment is done where the paper and its public code differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from propcal.building_blocks import check_choice, check_number
from propcal_paper.errors import refused
from propcal_paper.settings import DATA, FIXED, READINGS, RULES


@dataclass(frozen=True)
class Setup:
    """How the experiment is set up, where the paper and its public code differ.

    Parameters
    ----------
    name : str
    kept_apart : float
        The share of the training rows that the base model does not see. Post-processing
        is fitted to them; with 0 it is fitted to the rows that the model was trained
        on.
    eta : float
        The share of a gap that an update closes.
    rule : "fixed", "sizes" or "own"
        The rule that gives the first verdict: the same for every trial, the same with
        the larger categories of the paper's definitions, or each trial's own alpha,
        gamma and rho, for its base model as well. All three are stored.
    readings : tuple of str
        What may count as a trial in Table 6; a claim must agree by all of them.
    excess : bool
        Whether "4.0x fewer updates" is the mean relative excess (3 for four times as
        many) or the ratio.
    bins : "moving" or "frozen"
        Whether people change bins with every update, or at the end of a sweep only,
        when scores are clipped; with frozen bins the limit counts visits to categories,
        not updates.
    intersections : "all" or "single and full"
        Whether groups are all intersections, or single attributes and intersections of
        all attributes.
    dc_pairs : "all" or "neighbours"
        Whether DC loss compares all pairs of groups, or each full intersection with the
        next one in order.
    encoding : "levels" or "codes"
        A feature for each level, or one number for all levels of a column.
    min_words : float or int
        A word is a feature if this share, or this number, of the training rows has it.
    solver : str
        Scikit-learn's solver of LR.
    stratified : bool
        Whether all parts of a split have the same share of outcomes (not if splits are
        by person).
    age : str
        The column of a cohort from MIMIC that is the age, if there is one.
    """

    name: str
    kept_apart: float = 0.0
    eta: float = 1.0
    rule: str = FIXED
    readings: tuple[str, ...] = tuple(READINGS)
    excess: bool = False
    bins: str = "moving"
    intersections: str = "all"
    dc_pairs: str = "all"
    encoding: str = "levels"
    min_words: float = 0.001
    solver: str = "liblinear"
    stratified: bool = False
    age: str = "age"

    def __post_init__(self) -> None:
        object.__setattr__(self, "readings", tuple(self.readings))
        check_number("kept_apart", self.kept_apart, at_least=0, at_most=0.9)
        check_number("eta", self.eta, above=0, at_most=2)
        for name, choices in {"rule": RULES, **DATA["choices"]}.items():
            check_choice(name, getattr(self, name), tuple(choices))
        for reading in self.readings:
            check_choice("readings", reading, tuple(READINGS))

    def about(self) -> dict[str, Any]:
        """The set-up as a store keeps it."""
        return {**asdict(self), "readings": list(self.readings)}

    def in_words(self) -> str:
        """The set-up in a sentence."""
        fitted = "Base model and post-processing are fitted to the same training data"
        if self.kept_apart:
            percent_kept = 100 * self.kept_apart
            percent_of_model = 100 * (1 - self.kept_apart)
            fitted = (
                f"The base model is fitted to {percent_of_model:g} % of the training "
                f"data, post-processing to the other {percent_kept:g} %"
            )
        step = "the full gap"
        if self.eta != 1:
            step = f"{self.eta:g} of the gap"
        if self.bins == "frozen":
            step += ", with bins frozen within a sweep"
        judged = f"the first verdict is by {RULES[self.rule]}"
        return f"{fitted}; an update closes {step}; {judged}."


SETUPS: dict[str, dict[str, Any]] = DATA["setups"]


def setup_of(given: str | Setup | Mapping[str, Any] | None) -> Setup:
    """A set-up by its name, as it is, or as a store keeps it; `printed` if nothing is
    said.
    """
    if isinstance(given, Setup):
        return given
    if isinstance(given, Mapping):
        return Setup(**{**given, "name": _present_name(given["name"])})
    name = _present_name(given)
    if name not in SETUPS:
        raise refused("setup", name=name, known=", ".join(SETUPS))
    return Setup(name, **SETUPS[name])


def _present_name(name: str | None) -> str:
    """The name of a set-up; some had another one until 0.3."""
    if name is None:
        return "printed"
    return "held-out" if name == "public" else name
