"""Table 3: the settings that the experiment varies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from propcal.paper.experiment.cohort_columns import GROUPINGS

ALPHAS = (0.001, 0.01, 0.1, 0.2)
GAMMAS = (0.05, 0.1)
RHOS = (0.01, 0.1)
N_BINS = 10
MODELS = ("LR", "RF", "DNN")
MODEL_NAMES = {"LR": "logistic regression", "RF": "random forest", "DNN": "neural network"}
EQUIVALENT_ALPHAS = (0.001, 0.01)  # Table 5: MCBoost at alpha * rho reaches PMC of alpha
N_SEEDS = 100
TEST_SHARE = 0.25

# The rule by which every trial is evaluated on its test set, regardless of the settings of the fit.
RULE = {"alpha": 0.1, "gamma": 0.05, "rho": 0.1, "n_bins": N_BINS}

# The paper's definitions of the losses only include larger categories: |S_I| >= alpha * lambda * N, without
# gamma.
SIZES_RULE = {**RULE, "min_share": RULE["alpha"] / N_BINS}

# The names of the methods in the store, in tables and in figures.
BASE, MC, PMC, MC_FOR_PMC, OURS = "base model", "MCBoost", "PMCBoost", "MCBoost at alpha*rho", "propcal"


@dataclass(frozen=True)
class Setting:
    """One way to post-process a base model.

    `alpha` is the target tolerance; `fit_alpha` is the alpha with which the method is run, which differs for
    MCBoost at alpha*rho. They are None for the base model and our default method.
    """

    method: str
    groups: tuple[str, ...]
    alpha: float | None = None
    gamma: float | None = None
    rho: float | None = None

    @property
    def fit_alpha(self) -> float | None:
        """The tolerance with which the method is run."""
        if self.method == MC_FOR_PMC:
            assert self.alpha is not None
            assert self.rho is not None
            return self.alpha * self.rho
        return self.alpha

    def key(self) -> str:
        """The name of the setting in a store; equal settings have the same name."""
        numbers = [f"{name}={value:g}" for name, value in self._numbers().items() if value is not None]
        return "; ".join([self.method, " x ".join(self.groups), *numbers])

    def _numbers(self) -> dict[str, float | None]:
        return {"alpha": self.alpha, "gamma": self.gamma, "rho": self.rho}

    def columns(self) -> dict[str, Any]:
        """The setting as columns of a store."""
        return {**asdict(self), "groups": " x ".join(self.groups), "fit_alpha": self.fit_alpha}


def grid(groupings: Sequence[tuple[str, ...]] = GROUPINGS) -> list[Setting]:
    """Every setting for a base model and a seed."""
    found = [Setting(BASE, groups) for groups in groupings]
    for groups in groupings:
        for method in (MC, PMC):
            found += [Setting(method, groups, *values) for values in product(ALPHAS, GAMMAS, RHOS)]
        equivalent = product(EQUIVALENT_ALPHAS, GAMMAS, RHOS)
        found += [Setting(MC_FOR_PMC, groups, *values) for values in equivalent]
        found.append(Setting(OURS, groups))
    return found
