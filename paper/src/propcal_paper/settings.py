"""The experiment as data (settings.toml): features, settings, set-ups and published
numbers.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from propcal.building_blocks import check_choice, check_number
from propcal_paper.errors import refused


@cache
def toml_file(name: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    return tomllib.loads((files("propcal_paper") / name).read_text(encoding="utf-8"))


DATA = toml_file("settings.toml")
MODEL_NAMES: dict[str, str] = DATA["models"]
MODELS = tuple(MODEL_NAMES)
ALPHAS, GAMMAS, RHOS, EQUIVALENT_ALPHAS = (
    tuple(DATA["table_3"][name])
    for name in ("alphas", "gammas", "rhos", "equivalent_alphas")
)
GROUPINGS: tuple[tuple[str, ...], ...] = tuple(map(tuple, DATA["table_3"]["groupings"]))
N_BINS, N_SEEDS, TEST_SHARE = (
    DATA["table_3"][name] for name in ("n_bins", "seeds", "test_share")
)
RULE: dict[str, Any] = DATA["rule"]
SIZES_RULE = {**RULE, "min_share": RULE["alpha"] / N_BINS}
RULES: dict[str, str] = DATA["rules"]
FIXED, SIZES, OWN = RULES
READINGS: dict[str, str] = DATA["readings"]
PUBLISHED: dict[str, Any] = DATA["published"]

# The names of the methods in the store, in tables and in figures.
BASE = "base model"
MC = "MCBoost"
PMC = "PMCBoost"
MC_FOR_PMC = "MCBoost at alpha*rho"
OURS = "propcal"


@dataclass(frozen=True)
class CohortColumns:
    """The columns of a cohort.

    Parameters
    ----------
    outcome : str
        The event, 0 or 1.
    groupings : tuple of tuples of str
        Each grouping is a list of attributes; its groups are their levels and all
        intersections.
    numbers, categories, text : tuples of str
        The features: numbers, levels (one column of 0 and 1 for each), and free text
        (its frequent words).
    person : str, optional
        The person of each row. All rows of a person are then in the same part of every
        split; a row without a value is a person of its own.
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
    def features(self) -> tuple[str, ...]:
        """The columns that the base models use."""
        return (*self.numbers, *self.categories, *self.text)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Every column that a cohort must have, each once."""
        attributes = [name for groups in self.groupings for name in groups]
        person = [self.person] if self.person else []
        return tuple(
            dict.fromkeys([*self.features, *attributes, *person, self.outcome])
        )

    def about(self) -> dict[str, Any]:
        """The description of the columns in a store."""
        groupings = [list(groups) for groups in self.groupings]
        features = [list(self.numbers), list(self.categories), list(self.text)]
        about = {"outcome": self.outcome, "groupings": groupings, "features": features}
        return {**about, "person": self.person, "unit": self.unit}

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> CohortColumns:
        """The columns that a store describes; older stores of the admissions experiment
        may not say them.
        """
        said = ADMISSIONS.about() | dict(about)
        numbers, categories, text = map(tuple, said["features"])
        groupings = tuple(map(tuple, said["groupings"]))
        person = said["person"]
        unit = said["unit"]
        return cls(
            said["outcome"], groupings, numbers, categories, text, person, unit=unit
        )


_TABLE_2: dict[str, Any] = {
    name: tuple(v) if isinstance(v, list) else v for name, v in DATA["table_2"].items()
}
ADMISSIONS = CohortColumns(groupings=GROUPINGS, **_TABLE_2)


@dataclass(frozen=True)
class Setting:
    """One way to post-process a base model.

    `alpha` is the target tolerance; `fit_alpha` is the alpha with which the method is
    run, which differs for MCBoost at alpha*rho. They are None for the base model and
    our default method.
    """

    method: str
    groups: tuple[str, ...]
    alpha: float | None = None
    gamma: float | None = None
    rho: float | None = None
    min_share: float | None = (
        None  # the smallest cell, if it is not that of Algorithm 1
    )

    @property
    def fit_alpha(self) -> float | None:
        """The tolerance with which the method is run."""
        if (
            self.method == MC_FOR_PMC
            and self.alpha is not None
            and self.rho is not None
        ):
            return self.alpha * self.rho
        return self.alpha

    def key(self) -> str:
        """The name of the setting in a store; equal settings have the same name."""
        numbers = {
            name: getattr(self, name) for name in ("alpha", "gamma", "rho", "min_share")
        }
        parts = [
            f"{name}={value:g}" for name, value in numbers.items() if value is not None
        ]
        return "; ".join([self.method, " x ".join(self.groups), *parts])

    def columns(self) -> dict[str, Any]:
        """The setting as columns of a store."""
        return {
            **asdict(self),
            "groups": " x ".join(self.groups),
            "fit_alpha": self.fit_alpha,
        }


GRIDS = ("table-3", "cells")


def grid(
    groupings: Sequence[tuple[str, ...]] = GROUPINGS, name: str = GRIDS[0]
) -> list[Setting]:
    """Every setting for a base model and a seed: those of Table 3, or alpha by the
    smallest cell.
    """
    check_choice("grid", name, GRIDS)
    chosen: list[tuple[Any, ...]]
    if name == "cells":
        cells = DATA["cells"]
        rule = ([value] for value in DATA["cells"]["fixed"]["cells"].values())
        chosen = [
            *product((MC, PMC), cells["alphas"], *rule, (None, *cells["min_shares"]))
        ]
        method, alpha, size = cells["fixed"]["gamma_and_rho"].values()
        chosen += [(method, alpha, *pair, size) for pair in cells["varied"]]
    else:
        methods = ((MC, ALPHAS), (PMC, ALPHAS), (MC_FOR_PMC, EQUIVALENT_ALPHAS))
        chosen = [
            (m, *values)
            for m, alphas in methods
            for values in product(alphas, GAMMAS, RHOS)
        ]
    chosen += [(OURS,)]  # it has no alpha, and its cells are chosen by tests
    found = [Setting(BASE, groups) for groups in groupings]
    return found + [
        Setting(m, groups, *values) for groups in groupings for m, *values in chosen
    ]


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
        whose = "Base model and post-processing are fitted to the same training data"
        if self.kept_apart:
            whose = (
                f"The base model is fitted to {100 * (1 - self.kept_apart):g} % of the training data, "
                f"post-processing to the other {100 * self.kept_apart:g} %"
            )
        if self.eta == 1:
            step = "the full gap"
        else:
            step = f"{self.eta:g} of the gap"
        if self.bins == "frozen":
            frozen = ", with bins frozen within a sweep"
        else:
            frozen = ""
        return f"{whose}; an update closes {step}{frozen}; the first verdict is by {RULES[self.rule]}."


SETUPS: dict[str, dict[str, Any]] = DATA["setups"]
SURROGATES: dict[str, dict[str, Any]] = DATA["surrogates"]


def setup_of(given: str | Setup | Mapping[str, Any] | None) -> Setup:
    """A set-up by its name, as it is, or as a store keeps it; `printed` if nothing is
    said.
    """
    if isinstance(given, Setup):
        return given
    former = {None: "printed", "public": "held-out"}  # the name until 0.3
    if isinstance(given, Mapping):
        return Setup(**{**given, "name": former.get(given["name"], given["name"])})
    name = former.get(given, given)
    if name not in SETUPS:
        raise refused("setup", name=name, known=", ".join(SETUPS))
    return Setup(str(name), **SETUPS[str(name)])
