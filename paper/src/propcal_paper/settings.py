"""The experiment as data: features, settings and published numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from propcal.building_blocks import check_choice


@cache
def toml_file(name: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    return tomllib.loads((files("propcal_paper") / name).read_text(encoding="utf-8"))


DATA = toml_file("settings.toml")
MODEL_NAMES: dict[str, str] = DATA["models"]
MODELS = tuple(MODEL_NAMES)
TABLE_3: dict[str, Any] = DATA["table_3"]
ALPHAS = tuple(TABLE_3["alphas"])
GAMMAS = tuple(TABLE_3["gammas"])
RHOS = tuple(TABLE_3["rhos"])
EQUIVALENT_ALPHAS = tuple(TABLE_3["equivalent_alphas"])
GROUPINGS: tuple[tuple[str, ...], ...] = tuple(map(tuple, TABLE_3["groupings"]))
N_BINS = TABLE_3["n_bins"]
N_SEEDS = TABLE_3["seeds"]
TEST_SHARE = TABLE_3["test_share"]
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
        names = [*self.features]
        for groups in self.groupings:
            names += groups
        if self.person:
            names.append(self.person)
        names.append(self.outcome)
        return tuple(dict.fromkeys(names))

    def about(self) -> dict[str, Any]:
        """The description of the columns in a store."""
        features = (self.numbers, self.categories, self.text)
        return {
            "outcome": self.outcome,
            "groupings": [list(groups) for groups in self.groupings],
            "features": [list(names) for names in features],
            "person": self.person,
            "unit": self.unit,
        }

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> CohortColumns:
        """The columns that a store describes; older stores of the admissions experiment
        may not say them.
        """
        described = ADMISSIONS.about() | dict(about)
        numbers, categories, text = map(tuple, described["features"])
        return cls(
            described["outcome"],
            tuple(map(tuple, described["groupings"])),
            numbers,
            categories,
            text,
            described["person"],
            unit=described["unit"],
        )


_TABLE_2: dict[str, Any] = DATA["table_2"]
ADMISSIONS = CohortColumns(
    outcome=_TABLE_2["outcome"],
    groupings=GROUPINGS,
    numbers=tuple(_TABLE_2["numbers"]),
    categories=tuple(_TABLE_2["categories"]),
    text=tuple(_TABLE_2["text"]),
    true_risk=_TABLE_2["true_risk"],
    unit=_TABLE_2["unit"],
)


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
    # the smallest cell, if it is not that of Algorithm 1
    min_share: float | None = None

    @property
    def fit_alpha(self) -> float | None:
        """The tolerance with which the method is run."""
        if self.method != MC_FOR_PMC or self.alpha is None or self.rho is None:
            return self.alpha
        return self.alpha * self.rho

    @property
    def grouping(self) -> str:
        """The name of the grouping in a store."""
        return " x ".join(self.groups)

    def key(self) -> str:
        """The name of the setting in a store; equal settings have the same name."""
        parts = [self.method, self.grouping]
        for name in ("alpha", "gamma", "rho", "min_share"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={value:g}")
        return "; ".join(parts)

    def columns(self) -> dict[str, Any]:
        """The setting as columns of a store."""
        columns = asdict(self)
        columns["groups"] = self.grouping
        columns["fit_alpha"] = self.fit_alpha
        return columns


GRIDS = ("table-3", "cells")


def grid(
    groupings: Sequence[tuple[str, ...]] = GROUPINGS, name: str = GRIDS[0]
) -> list[Setting]:
    """Every setting for a base model and a seed: those of Table 3, or alpha by the
    smallest cell.
    """
    check_choice("grid", name, GRIDS)
    treatments = _of_cells() if name == "cells" else _of_table_3()
    # ours has no alpha, and its cells are chosen by tests
    treatments.append((OURS,))
    settings = [Setting(BASE, groups) for groups in groupings]
    for groups in groupings:
        settings += [Setting(method, groups, *rule) for method, *rule in treatments]
    return settings


def _of_table_3() -> list[tuple[Any, ...]]:
    """Methods with each alpha, gamma and rho of Table 3."""
    methods = ((MC, ALPHAS), (PMC, ALPHAS), (MC_FOR_PMC, EQUIVALENT_ALPHAS))
    treatments: list[tuple[Any, ...]] = []
    for method, alphas in methods:
        treatments += product([method], alphas, GAMMAS, RHOS)
    return treatments


def _of_cells() -> list[tuple[Any, ...]]:
    """Methods with each alpha and smallest cell; and with other gammas and rhos."""
    cells = DATA["cells"]
    fixed = cells["fixed"]["cells"]
    sizes = (None, *cells["min_shares"])
    rule = ([fixed["gamma"]], [fixed["rho"]])
    treatments: list[tuple[Any, ...]] = []
    treatments += product((MC, PMC), cells["alphas"], *rule, sizes)
    varied = cells["fixed"]["gamma_and_rho"]
    for gamma, rho in cells["varied"]:
        size = varied["min_share"]
        treatments.append((varied["method"], varied["alpha"], gamma, rho, size))
    return treatments


SURROGATES: dict[str, dict[str, Any]] = DATA["surrogates"]
