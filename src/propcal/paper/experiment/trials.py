"""Runs the trials of one base model and shuffle: trains the model once, then tries every post-processing."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from multiprocessing import current_process
from operator import attrgetter
from threading import Thread
from time import process_time, sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from propcal.core.atoms import Atoms
from propcal.core.bins import uniform
from propcal.core.correction.correction import Correction
from propcal.core.correction.limits import TooLargeError
from propcal.core.grid import UNIT, FloatArray, IntArray
from propcal.core.groups.collection import pattern_name
from propcal.core.losses import dc_of, mc_of, pmc_of
from propcal.data.rows_to_atoms import Rows, checked_rows
from propcal.estimators import MCBoost, PMCBoost
from propcal.metrics import CategoryRule
from propcal.paper.experiment.base_models import Trained, train
from propcal.paper.experiment.cohort_columns import CohortColumns
from propcal.paper.experiment.features import Features
from propcal.paper.experiment.settings import (
    BASE,
    MC,
    N_BINS,
    OURS,
    PMC,
    RULE,
    SIZES_RULE,
    TEST_SHARE,
    Setting,
)
from propcal.paper.experiment.setups import Setup

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

# Algorithm 1 has no limit. With full steps MCBoost at alpha*rho = 0.00001 makes up to about 90,000 updates;
# with steps of a quarter it would make several times as many, more than a correction may hold. Such a fit
# stops at MAX_UPDATES, or, if its maps would still be too large, at a quarter fewer, and so on; its trial is
# stored as not converged.
MAX_UPDATES = 100_000
SPLIT = "default_rng(seed).permutation; the first quarter is the test set"  # recorded in the store
LOSSES = ("mc_loss", "pmc_loss", "dc_loss")


def curve_settings(columns: CohortColumns) -> frozenset[Setting]:
    """The settings whose calibration curves are stored, for every grouping."""
    found = []
    for groups in columns.groupings:
        found += [Setting(BASE, groups), Setting(OURS, groups)]
        found += [Setting(method, groups, alpha=0.1, gamma=0.05, rho=0.1) for method in (MC, PMC)]
        found.append(Setting(PMC, groups, alpha=0.01, gamma=0.05, rho=0.1))
    return frozenset(found)


class Plan(NamedTuple):
    """What all units of an experiment have in common: the columns of the cohort, and the set-up."""

    columns: CohortColumns
    setup: Setup


class Unit(NamedTuple):
    """A shuffle of the rows and a base model, with the settings to run."""

    seed: int
    model: str
    settings: tuple[Setting, ...]


class Parts(NamedTuple):
    """The rows of a shuffle: to train the base model, to fit the post-processing, and to test both."""

    train: IntArray
    post: IntArray
    test: IntArray


def split(n: int, seed: int, *, kept_apart: float = 0.0, person: Any = None) -> Parts:
    """Shuffle the rows: 75 % to train and 25 % to test.

    Parameters
    ----------
    n, seed : int
        The number of rows, and the seed of the shuffle.
    kept_apart : float
        The share of the training rows that only the post-processing sees; with 0 it sees all of them.
    person : array of shape (n,), optional
        The person of each row. People are then shuffled, and all rows of a person are in the same part. A
        row without one is a person of its own.
    """
    if person is not None:
        import pandas as pd

        code, people = pd.factorize(np.asarray(person))
        alone = np.flatnonzero(code < 0)
        code[alone] = len(people) + np.arange(len(alone))
        parts = split(len(people) + len(alone), seed, kept_apart=kept_apart)
        rows = (np.flatnonzero(np.isin(code, part)) for part in parts)
        return Parts(*rows)
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(n * TEST_SHARE)
    learn, test = order[n_test:], order[:n_test]
    n_post = round(len(learn) * kept_apart)
    return Parts(learn[n_post:], learn[:n_post], test) if n_post else Parts(learn, learn, test)


def split_rows(rows: pd.DataFrame, seed: int, plan: Plan) -> Parts:
    """The parts of a shuffle of a cohort."""
    person = rows[plan.columns.person] if plan.columns.person else None
    return split(len(rows), seed, kept_apart=plan.setup.kept_apart, person=person)


def run_unit(rows: pd.DataFrame, plan: Plan, unit: Unit) -> tuple[list[Row], list[Row]]:
    """The rows for the table of trials, and for the table of curves."""
    from threadpoolctl import threadpool_limits

    _obey_parent()
    with threadpool_limits(1):  # so that results do not depend on the number of cores
        _compile()
        return _run_unit(rows, plan, unit)


def _run_unit(rows: pd.DataFrame, plan: Plan, unit: Unit) -> tuple[list[Row], list[Row]]:
    columns = plan.columns
    train_rows, *parts = (rows.iloc[part] for part in split_rows(rows, unit.seed, plan))
    features = Features(columns).fit(train_rows)
    model = train(
        unit.model,
        features.transform(train_rows),
        train_rows[columns.outcome].to_numpy(),
        unit.seed,
        len(columns.numbers),
    )
    scores = [model.score(features.transform(part)) for part in parts]
    trials: list[Row] = []
    curves: list[Row] = []
    drawn = curve_settings(columns)
    by_groups = sorted(unit.settings, key=attrgetter("groups"))
    for groups, settings in groupby(by_groups, attrgetter("groups")):
        bench = Bench.of(model, plan, parts, scores, groups, len(train_rows))
        for setting in settings:
            found, corrected = bench.trial(setting)
            trials.append({"seed": unit.seed, "model": unit.model, **found})
            if setting in drawn:
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


class Fitted(NamedTuple):
    """How a fit went, and the fitting and test rows with the scores that it gives them."""

    went: Row
    post: Rows
    test: Rows


@dataclass(frozen=True, eq=False)
class Bench:
    """The fitting and test rows with the groups and scores shared by all trials of a grouping."""

    model: Trained
    setup: Setup
    post: Rows
    test: Rows
    atoms: Atoms
    true_risk: FloatArray | None
    n_train: int
    seconds: float  # time for reducing the fitting rows to atoms
    _base: dict[str, dict[str, float]] = field(default_factory=dict)  # losses of the base model by rule
    _fits: dict[tuple[Any, ...], Fitted] = field(default_factory=dict)  # MCBoost does not depend on rho

    @classmethod
    def of(
        cls,
        model: Trained,
        plan: Plan,
        parts: Sequence[pd.DataFrame],
        scores: Sequence[FloatArray],
        groups: tuple[str, ...],
        n_train: int,
    ) -> Bench:
        """Find the groups, and reduce the fitting rows to atoms."""
        columns, began = plan.columns, process_time()
        post, test = (
            checked_rows(score, part[columns.outcome].to_numpy(), part[list(groups)])
            for part, score in zip(parts, scores)
        )
        atoms = post.atoms()
        risk = parts[1][columns.true_risk].to_numpy() if columns.true_risk else None
        return cls(model, plan.setup, post, test, atoms, risk, n_train, process_time() - began)

    def trial(self, setting: Setting) -> tuple[Row, Rows]:
        """Run one post-processing fit; return its results on the test rows, and their new scores."""
        fit, post_rows, test_rows = self._fitted(setting)
        began = process_time()
        columns = {**setting.columns(), "setting": setting.key(), **fit}
        columns |= {"n_train": self.n_train, "n_post": len(post_rows.score), "n_test": len(test_rows.score)}
        columns |= _accuracy(test_rows) | _losses(test_rows, RULE)
        columns |= {f"sizes_{name}": loss for name, loss in _losses(test_rows, SIZES_RULE).items()}
        own = own_rule(setting)
        columns |= {f"own_{name}": loss for name, loss in _losses(test_rows, own).items()}
        columns |= {f"base_own_{name}": loss for name, loss in self._base_losses(own).items()}
        seen = _losses(post_rows, own)
        columns |= {f"train_{name}": seen[name] for name in ("mc_loss", "pmc_loss")}
        columns["true_risk_rms"] = None
        if self.true_risk is not None:
            columns["true_risk_rms"] = float(np.sqrt(np.mean((test_rows.score - self.true_risk) ** 2)))
        columns["evaluation_seconds"] = process_time() - began
        return {name: _plain(value) for name, value in columns.items()}, test_rows

    def _base_losses(self, rule: dict[str, Any]) -> dict[str, float]:
        """The losses of the base model itself by the rule of a trial."""
        key = repr(sorted(rule.items()))
        if key not in self._base:
            self._base[key] = _losses(self.test, rule)
        return self._base[key]

    def _fitted(self, setting: Setting) -> Fitted:
        """The fit of a setting. Settings of MCBoost that differ in rho alone share one."""
        floor = setting.rho if setting.method == PMC else None
        base_or_ours = setting.method if setting.method in (BASE, OURS) else ""
        key = (base_or_ours, setting.fit_alpha, setting.gamma, floor)
        if key not in self._fits:
            fit, correction = self._fit(setting)
            rows = (_corrected(part, correction) for part in (self.post, self.test))
            self._fits[key] = Fitted(fit, *rows)
        return self._fits[key]

    def _fit(self, setting: Setting) -> tuple[Row, Correction | None]:
        """How the fit went, and the correction; for the base model its training, and None."""
        from sklearn.exceptions import ConvergenceWarning

        if setting.method == BASE:
            went = {"n_updates": 0, "n_sweeps": 0, "converged": self.model.converged}
            return {**went, "fit_seconds": self.model.seconds}, None
        limit = MAX_UPDATES
        while True:
            began = process_time()
            method = post_processor(setting, self.setup.eta, limit)
            with warnings.catch_warnings():  # a fit that stops at its limit is recorded in `converged`
                warnings.simplefilter("ignore", ConvergenceWarning)
                method.fit_atoms(self.atoms)
            seconds = self.seconds + process_time() - began
            went = {
                "n_updates": method.n_updates_,
                "n_sweeps": method.n_sweeps_,
                "converged": method.converged_,
            }
            try:
                _ = method.correction_.maps  # composed here, and kept
            except TooLargeError:
                limit = 3 * min(limit, method.n_updates_) // 4
                continue
            return {**went, "fit_seconds": seconds}, method.correction_


def _corrected(rows: Rows, correction: Correction | None) -> Rows:
    if correction is None:
        return rows
    return replace(rows, score=correction.apply_to_patterns(rows.score, rows.code, rows.patterns))


def post_processor(setting: Setting, eta: float = 1.0, max_updates: int = MAX_UPDATES) -> MCBoost | PMCBoost:
    """The algorithm of a setting: the paper's with steps of `eta`, or ours with its defaults."""
    if setting.method == OURS:
        return PMCBoost()
    algorithm = PMCBoost if setting.method == PMC else MCBoost
    return algorithm.paper(
        alpha=setting.fit_alpha,
        gamma=setting.gamma,
        rho=setting.rho,
        n_bins=N_BINS,
        eta=eta,
        max_updates=max_updates,
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
