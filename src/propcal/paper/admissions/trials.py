"""Runs the trials of one base model and shuffle: trains the model once, then tries every post-processing."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from multiprocessing import current_process
from operator import attrgetter
from threading import Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import uniform
from propcal.core.correction.correction import Correction
from propcal.core.grid import UNIT, FloatArray, IntArray
from propcal.core.groups.collection import pattern_name
from propcal.core.losses import dc_of, mc_of, pmc_of
from propcal.data.rows_to_atoms import Rows, checked_rows
from propcal.estimators import MCBoost, PMCBoost
from propcal.metrics import CategoryRule
from propcal.paper.admissions.base_models import Trained, train
from propcal.paper.admissions.features import OUTCOME, TRUE_RISK, Features
from propcal.paper.admissions.settings import (
    BASE,
    GROUPINGS,
    N_BINS,
    OURS,
    PAPER_RULE,
    PMC,
    RULE,
    TEST_SHARE,
    Setting,
)

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

# The methods and the base model whose calibration curves are stored.
CURVES_OF = "RF"
CURVES = (
    Setting(BASE, GROUPINGS[1]),
    Setting(PMC, GROUPINGS[1], alpha=0.01, gamma=0.05, rho=0.1),
    Setting(OURS, GROUPINGS[1]),
)
# Algorithm 1 has no limit. MCBoost at alpha*rho = 0.00001 makes up to about 90,000 updates; ten times as many
# would take minutes to turn into maps.
MAX_UPDATES = 200_000
SPLIT = "default_rng(seed).permutation; the first quarter is the test set"  # recorded in the store


class Unit(NamedTuple):
    """A shuffle of the visits and a base model, with the settings to run."""

    seed: int
    model: str
    settings: tuple[Setting, ...]


def split(n: int, seed: int) -> tuple[IntArray, IntArray]:
    """The training (75 %) and test rows (25 %) of a shuffle."""
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(n * TEST_SHARE)
    return order[n_test:], order[:n_test]


def run_unit(visits: pd.DataFrame, unit: Unit) -> tuple[list[Row], list[Row]]:
    """The rows for the table of trials, and for the table of curves."""
    from threadpoolctl import threadpool_limits

    _obey_parent()
    with threadpool_limits(1):  # so that results do not depend on the number of cores
        _compile()
        return _run_unit(visits, unit)


def _run_unit(visits: pd.DataFrame, unit: Unit) -> tuple[list[Row], list[Row]]:
    parts = [visits.iloc[rows] for rows in split(len(visits), unit.seed)]
    features = Features().fit(parts[0])
    matrices = [features.transform(part) for part in parts]
    model = train(unit.model, matrices[0], parts[0][OUTCOME].to_numpy(), unit.seed)
    scores = [model.score(matrix) for matrix in matrices]
    trials: list[Row] = []
    curves: list[Row] = []
    by_groups = sorted(unit.settings, key=attrgetter("groups"))
    for groups, settings in groupby(by_groups, attrgetter("groups")):
        bench = Bench.of(model, parts, scores, groups)
        for setting in settings:
            columns, corrected = bench.trial(setting)
            trials.append({"seed": unit.seed, "model": unit.model, **columns})
            if unit.model == CURVES_OF and setting in CURVES:
                key = {name: trials[-1][name] for name in ("seed", "model", "setting", "method")}
                curves += [{**key, **row} for row in curve_rows(corrected)]
    return trials, curves


@cache
def _obey_parent() -> None:
    """Let joblib's processes leave Ctrl-C to their parent, and stop soon after a parent that was killed."""
    if not current_process().name.startswith("LokyProcess"):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@cache
def _compile() -> None:
    """Load the compiled kernel, so that loading is not timed with the first fit of a process."""
    rng = np.random.default_rng(0)
    score = rng.random(400)
    y, group = rng.random(400) < score**2, rng.integers(0, 2, 400)
    for method in (PMCBoost(), PMCBoost.paper(), MCBoost.paper()):
        method.fit(score, y, sensitive_features=group).predict(score, sensitive_features=group)


@dataclass(frozen=True, eq=False)
class Bench:
    """The training and test visits with the groups and scores shared by all trials of a grouping."""

    model: Trained
    train: Rows
    test: Rows
    atoms: Atoms
    true_risk: FloatArray | None
    seconds: float  # time for reducing the training visits to atoms

    @classmethod
    def of(
        cls,
        model: Trained,
        parts: Sequence[pd.DataFrame],
        scores: Sequence[FloatArray],
        groups: tuple[str, ...],
    ) -> Bench:
        """Find the groups, and reduce the training visits to atoms."""
        began = perf_counter()
        rows = [
            checked_rows(score, part[OUTCOME].to_numpy(), part[list(groups)])
            for part, score in zip(parts, scores)
        ]
        atoms = rows[0].atoms()
        risk = parts[1][TRUE_RISK].to_numpy() if TRUE_RISK in parts[1] else None
        return cls(model, rows[0], rows[1], atoms, risk, perf_counter() - began)

    def trial(self, setting: Setting) -> tuple[Row, Rows]:
        """Run one post-processing fit; return its results on the test visits, and their new scores."""
        fit, correction = self._fit(setting)
        began = perf_counter()
        train_rows, test_rows = _corrected(self.train, correction), _corrected(self.test, correction)
        columns = {**setting.columns(), "setting": setting.key(), **fit}
        columns |= {"n_train": len(train_rows.score), "n_test": len(test_rows.score)}
        columns |= _accuracy(test_rows) | _losses(test_rows, RULE)
        columns |= {f"paper_{name}": loss for name, loss in _losses(test_rows, PAPER_RULE).items()}
        own = own_rule(setting)
        columns |= {f"own_{name}": loss for name, loss in _losses(test_rows, own).items()}
        seen = _losses(train_rows, own)
        columns |= {f"train_{name}": seen[name] for name in ("mc_loss", "pmc_loss")}
        columns["true_risk_rms"] = None
        if self.true_risk is not None:
            columns["true_risk_rms"] = float(np.sqrt(np.mean((test_rows.score - self.true_risk) ** 2)))
        columns["evaluation_seconds"] = perf_counter() - began
        return {name: _plain(value) for name, value in columns.items()}, test_rows

    def _fit(self, setting: Setting) -> tuple[Row, Correction | None]:
        """How the fit went, and the correction; for the base model its training, and None."""
        from sklearn.exceptions import ConvergenceWarning

        if setting.method == BASE:
            went = {"n_updates": 0, "n_sweeps": 0, "converged": self.model.converged}
            return {**went, "fit_seconds": self.model.seconds}, None
        began = perf_counter()
        method = post_processor(setting)
        with warnings.catch_warnings():  # a fit that stops at its limit is recorded in `converged`
            warnings.simplefilter("ignore", ConvergenceWarning)
            method.fit_atoms(self.atoms)
        seconds = self.seconds + perf_counter() - began
        went = {
            "n_updates": method.n_updates_,
            "n_sweeps": method.n_sweeps_,
            "converged": method.converged_,
        }
        return {**went, "fit_seconds": seconds}, method.correction_


def _corrected(rows: Rows, correction: Correction | None) -> Rows:
    if correction is None:
        return rows
    return replace(rows, score=correction.apply_to_patterns(rows.score, rows.code, rows.patterns))


def post_processor(setting: Setting) -> MCBoost | PMCBoost:
    """The algorithm of a setting: exactly the paper's, or ours with its defaults."""
    if setting.method == OURS:
        return PMCBoost()
    algorithm = PMCBoost if setting.method == PMC else MCBoost
    return algorithm.paper(
        alpha=setting.fit_alpha,
        gamma=setting.gamma,
        rho=setting.rho,
        n_bins=N_BINS,
        max_updates=MAX_UPDATES,
    )


def own_rule(setting: Setting) -> dict[str, Any]:
    """The fit's own rule, with the sizes and floors of its parameters; RULE for the base model."""
    if setting.method == BASE:
        return RULE
    chosen = post_processor(setting).get_params()
    return {name: chosen[name] for name in ("alpha", "gamma", "rho", "n_bins")}


def _losses(rows: Rows, rule: dict[str, Any]) -> dict[str, float]:
    table = CategoryRule(**rule).table(rows)
    return {
        "mc_loss": mc_of(table),
        "pmc_loss": pmc_of(table, rule["rho"]),
        "dc_loss": dc_of(table, rule["rho"]),
    }


def _accuracy(rows: Rows) -> dict[str, float]:
    """AUROC (ties count half), Brier score and log loss."""
    score, positive = rows.score, rows.outcome == 1
    tiny = np.finfo(np.float64).eps
    given = np.where(positive, score, 1 - score)
    return {
        "auroc": _auroc(score, positive),
        "brier": float(np.mean((score - positive) ** 2)),
        "log_loss": float(-np.mean(np.log(np.maximum(given, tiny)))),
    }


def _auroc(score: FloatArray, positive: Any) -> float:
    values, place = np.unique(score, return_inverse=True)
    ones = np.bincount(place[positive], minlength=len(values))
    zeros = np.bincount(place[~positive], minlength=len(values))
    below = np.cumsum(zeros) - zeros / 2
    pairs = int(ones.sum()) * int(zeros.sum())
    return float(ones @ below / pairs) if pairs else float("nan")


def _plain(value: Any) -> Any:
    """A value for SQLite, in which undefined losses are NULL."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    return None if isinstance(value, float) and np.isnan(value) else value


def curve_rows(rows: Rows) -> Iterable[Row]:
    """The people, outcomes and scores of each combination of groups, in ten score bins."""
    bins = uniform(N_BINS)
    buckets = rows.buckets(bins)
    for pattern, j in zip(*np.nonzero(buckets.people)):
        yield {
            "group_name": pattern_name(rows.patterns, int(pattern)),
            "bin_index": int(j),
            "people": int(buckets.people[pattern, j]),
            "positives": int(buckets.outcome[pattern, j]) // UNIT,
            "score_sum": float(buckets.score[pattern, j] / UNIT),
        }
