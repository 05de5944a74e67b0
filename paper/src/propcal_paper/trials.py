"""Runs the trials of one base model and shuffle: trains the model once, then tries
every post-processing.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from multiprocessing import current_process
from threading import Thread
from time import process_time, sleep
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from propcal import MCBoost, PMCBoost
from propcal.building_blocks import (
    UNIT,
    CategoryRule,
    IntArray,
    Rows,
    TooLargeError,
    bucket_sums,
    checked_rows,
    dc_of,
    mc_of,
    membership,
    pattern_name,
    pmc_of,
    uniform,
)
from propcal_paper import settings as s
from propcal_paper.authors_code import fit_frozen, neighbours_dc, single_and_full
from propcal_paper.base_models import Features, Trained, train
from propcal_paper.settings import (
    BASE,
    MC,
    N_BINS,
    OURS,
    PMC,
    RULE,
    CohortColumns,
    Setting,
    Setup,
)

Row = dict[str, Any]
Groups = tuple[str, ...]

# Algorithm 1 has no limit. With full steps MCBoost at alpha*rho = 0.00001 makes up to
# about 90,000 updates; with steps of a quarter it would make several times as many,
# more than a correction may hold. Such a fit stops at MAX_UPDATES, or, if its maps
# would still be too large, at a quarter fewer, and so on; its trial is stored as not
# converged.
MAX_UPDATES = 100_000
MAX_VISITS = 100_000  # to categories, the limit of the paper's public code
# recorded in the store
SPLIT = "default_rng(seed).permutation; the first quarter is the test set"


def curve_settings(columns: CohortColumns) -> frozenset[Setting]:
    """The settings whose calibration curves are stored, for every grouping."""
    treated = ((MC, 0.1), (PMC, 0.1), (PMC, 0.01))
    found = [
        Setting(method, groups)
        for groups in columns.groupings
        for method in (BASE, OURS)
    ]
    found += [
        Setting(m, groups, alpha, 0.05, 0.1)
        for groups in columns.groupings
        for m, alpha in treated
    ]
    return frozenset(found)


class Plan(NamedTuple):
    """What all units have in common: the columns of the cohort, the set-up, and the
    name of the grid.
    """

    columns: CohortColumns
    setup: Setup
    grid: str = s.GRIDS[0]


class Unit(NamedTuple):
    """A shuffle of the rows and a base model, with the settings to run."""

    seed: int
    model: str
    settings: tuple[Setting, ...]


class ShuffledParts(NamedTuple):
    """The rows of a shuffle: to train the base model, to fit the post-processing, and
    to test both.
    """

    train: IntArray
    post: IntArray
    test: IntArray


def split(
    n: int,
    seed: int,
    *,
    kept_apart: float = 0.0,
    person: Any = None,
    outcome: Any = None,
) -> ShuffledParts:
    """Shuffle the rows: 75 % to train and 25 % to test.

    Parameters
    ----------
    n, seed : int
        The number of rows, and the seed of the shuffle.
    kept_apart : float
        The share of the training rows that only the post-processing sees; with 0 it
        sees all of them.
    person : array of shape (n,), optional
        The person of each row. People are then shuffled, and all rows of a person are
        in the same part. A row without one is a person of its own.
    outcome : array of shape (n,), optional
        With it, all parts have the same share of outcomes.
    """
    if person is not None:
        code, people = pd.factorize(np.asarray(person))
        alone = np.flatnonzero(code < 0)
        code[alone] = len(people) + np.arange(len(alone))
        parts = split(len(people) + len(alone), seed, kept_apart=kept_apart)
        return ShuffledParts(*(np.flatnonzero(np.isin(code, part)) for part in parts))
    if outcome is not None:
        from sklearn.model_selection import train_test_split

        def halves(rows: IntArray, share: float) -> Any:
            return train_test_split(
                rows, test_size=share, stratify=outcome[rows], random_state=seed
            )

        learn, test = halves(np.arange(n), s.TEST_SHARE)
        train, post = halves(learn, kept_apart) if kept_apart else (learn, learn)
        return ShuffledParts(train, post, test)
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(n * s.TEST_SHARE)
    learn = order[n_test:]
    test = order[:n_test]
    n_post = round(len(learn) * kept_apart)
    if n_post:
        return ShuffledParts(learn[n_post:], learn[:n_post], test)
    return ShuffledParts(learn, learn, test)


def split_rows(rows: pd.DataFrame, seed: int, plan: Plan) -> ShuffledParts:
    """The parts of a shuffle of a cohort."""
    columns = plan.columns
    setup = plan.setup
    person = rows[columns.person] if columns.person else None
    if setup.stratified and person is None:
        outcome = rows[columns.outcome].to_numpy()
    else:
        outcome = None
    return split(
        len(rows), seed, kept_apart=setup.kept_apart, person=person, outcome=outcome
    )


def run_unit(rows: pd.DataFrame, plan: Plan, unit: Unit) -> tuple[list[Row], list[Row]]:
    """The rows for the table of trials, and for the table of curves."""
    from threadpoolctl import threadpool_limits

    _obey_parent()
    with threadpool_limits(1):  # so that results do not depend on the number of cores
        _compile()
        return _run_unit(rows, plan, unit)


def _run_unit(
    rows: pd.DataFrame, plan: Plan, unit: Unit
) -> tuple[list[Row], list[Row]]:
    columns = plan.columns
    train_rows, *parts = (rows.iloc[part] for part in split_rows(rows, unit.seed, plan))
    features = Features(columns, plan.setup).fit(train_rows)
    matrix = features.transform(train_rows)
    outcome = train_rows[columns.outcome].to_numpy()
    model = train(
        unit.model, matrix, outcome, unit.seed, features.n_numbers, plan.setup.solver
    )
    scores = [model.score(features.transform(part)) for part in parts]
    trials = list[Row]()
    curves = list[Row]()
    if plan.grid == s.GRIDS[0]:
        drawn = curve_settings(columns)
    else:
        drawn = frozenset(unit.settings)
    for groups in sorted({setting.groups for setting in unit.settings}):
        bench = Bench(model, plan, parts, scores, groups)
        for setting in (one for one in unit.settings if one.groups == groups):
            found, corrected = bench.trial(setting)
            found |= {
                "seed": unit.seed,
                "model": unit.model,
                "n_train": len(train_rows),
            }
            trials.append(found)
            if setting in drawn:
                key = {
                    name: found[name] for name in ("seed", "model", "setting", "method")
                }
                curves += [{**key, **row} for row in curve_rows(corrected)]
    return trials, curves


@cache
def _obey_parent() -> None:
    """Let joblib's processes leave Ctrl-C to their parent, and stop soon after a parent
    that was killed.
    """
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
    """Load the compiled kernel, so that loading is not timed with the first fit of a
    process.
    """
    rng = np.random.default_rng(0)
    score = rng.random(400)
    y = rng.random(400) < score**2
    group = rng.integers(0, 2, 400)
    for method in (PMCBoost(), PMCBoost.paper(), MCBoost.paper()):
        method.fit(score, y, sensitive_features=group).predict(
            score, sensitive_features=group
        )


# How a fit went, and the fitting and test rows with the scores that it gives them.
Fitted = tuple[Row, Rows, Rows]


class Bench:
    """The fitting and test rows of a grouping with the scores of a base model, shared
    by all its trials.
    """

    def __init__(
        self,
        model: Trained,
        plan: Plan,
        parts: list[pd.DataFrame],
        scores: list[Any],
        groups: Groups,
    ) -> None:
        columns = plan.columns
        began = process_time()
        self.model = model
        self.setup = plan.setup
        self.groups = groups
        self.intersections: Any = (
            "all" if plan.setup.intersections == "all" else single_and_full(groups)
        )
        outcomes = [part[columns.outcome].to_numpy() for part in parts]
        attributes = [part[list(groups)] for part in parts]
        self.post, self.test = map(checked_rows, scores, outcomes, attributes)
        self.atoms = self.post.atoms()
        self.seconds = process_time() - began  # of reducing the fitting rows to atoms
        self.true_risk: Any = None
        if columns.true_risk:
            self.true_risk = parts[1][columns.true_risk].to_numpy()
        self.base_losses = cache(
            lambda **rule: self._losses(self.test, rule, "base_own_")
        )
        self._fits: dict[tuple[Any, ...], Fitted] = {}  # MCBoost does not depend on rho

    def trial(self, setting: Setting) -> tuple[Row, Rows]:
        """Run one post-processing fit; return its results on the test rows, and their
        new scores.
        """
        fit, post_rows, test_rows = self._fitted(setting)
        began = process_time()
        own = own_rule(setting)
        risk = self.true_risk
        columns = {
            **setting.columns(),
            **fit,
            **_accuracy(test_rows),
            **self._losses(test_rows, RULE),
            **self._losses(test_rows, s.SIZES_RULE, "sizes_"),
            **self._losses(test_rows, own, "own_"),
            **self.base_losses(**own),
            **self._losses(post_rows, own, "train_"),
            "setting": setting.key(),
            "n_post": len(post_rows.score),
            "n_test": len(test_rows.score),
            "true_risk_rms": None
            if risk is None
            else float(np.sqrt(np.mean((test_rows.score - risk) ** 2))),
        }
        columns["evaluation_seconds"] = process_time() - began
        return columns, test_rows

    def _losses(
        self, rows: Rows, rule: dict[str, Any], prefix: str = ""
    ) -> dict[str, float]:
        table = self._rule(rule).table(rows.atoms())
        rho = rule["rho"]
        all_pairs = self.setup.dc_pairs == "all"
        if all_pairs:
            dc = dc_of(table, rho)
        else:
            dc = neighbours_dc(table, rho, len(self.groups))
        losses = {
            "mc_loss": mc_of(table),
            "pmc_loss": pmc_of(table, rho),
            "dc_loss": dc,
        }
        return {f"{prefix}{name}": loss for name, loss in losses.items()}

    def _rule(self, rule: dict[str, Any]) -> CategoryRule:
        return CategoryRule(**rule, intersections=self.intersections)

    def _fitted(self, setting: Setting) -> Fitted:
        """The fit of a setting. Settings of MCBoost that differ in rho alone share
        one.
        """
        floor = setting.rho if setting.method == PMC else None
        base_or_ours = setting.method if setting.method in (BASE, OURS) else ""
        key = (base_or_ours, setting.fit_alpha, setting.gamma, floor, setting.min_share)
        if key not in self._fits:
            frozen = self.setup.bins == "frozen" and setting.method not in (BASE, OURS)
            fit, correction = (
                self._fit_frozen(setting) if frozen else self._fit(setting)
            )
            self._fits[key] = fit, correction(self.post), correction(self.test)
        return self._fits[key]

    def _fit_frozen(self, setting: Setting) -> tuple[Row, Callable[[Rows], Rows]]:
        """How the fit of the paper's public code went, and what it does to rows."""
        began = process_time()
        rows = self.post
        own = own_rule(setting)
        rule = self._rule(own)
        groups = rule.table(rows.atoms()).collection.groups
        min_share = rule.share_of(uniform(N_BINS))
        how = {
            "eta": self.setup.eta,
            "n_bins": N_BINS,
            "max_visits": MAX_VISITS,
            "min_share": min_share,
        }
        cutoff = {
            "alpha": own["alpha"],
            "rho": own["rho"] if setting.method == PMC else None,
        }
        inside = membership(groups, rows.patterns)
        fit = fit_frozen(rows.score, rows.outcome, rows.code, inside, **cutoff, **how)
        went = {
            name: getattr(fit, name) for name in ("n_updates", "n_sweeps", "converged")
        }

        def corrected(rows: Rows) -> Rows:
            inside = membership(groups, rows.patterns)
            return replace(rows, score=fit.apply(rows.score, rows.code, inside))

        return {**went, "fit_seconds": process_time() - began}, corrected

    def _fit(self, setting: Setting) -> tuple[Row, Callable[[Rows], Rows]]:
        """How the fit went, or for the base model its training, and what it does to
        rows.
        """
        from sklearn.exceptions import ConvergenceWarning

        if setting.method == BASE:
            went = {"n_updates": 0, "n_sweeps": 0, "converged": self.model.converged}
            return {**went, "fit_seconds": self.model.seconds}, lambda rows: rows
        limit = MAX_UPDATES
        how = {"eta": self.setup.eta, "intersections": self.intersections}
        while True:
            began = process_time()
            method = post_processor(setting, max_updates=limit, **how)
            with (
                warnings.catch_warnings()
            ):  # a fit that stops at its limit is recorded in `converged`
                warnings.simplefilter("ignore", ConvergenceWarning)
                method.fit_atoms(self.atoms)
            seconds = self.seconds + process_time() - began
            went = {
                name: getattr(method, f"{name}_")
                for name in ("n_updates", "n_sweeps", "converged")
            }
            correction = method.correction_
            try:
                _ = correction.maps  # composed here, and kept
                break
            except TooLargeError:
                limit = 3 * min(limit, method.n_updates_) // 4

        def corrected(rows: Rows) -> Rows:
            own = correction.rows_in_known_levels(rows.score, rows.code, rows.patterns)
            return replace(rows, score=correction.apply_to_rows(own))

        return {**went, "fit_seconds": seconds}, corrected


def post_processor(setting: Setting, **how: Any) -> MCBoost | PMCBoost:
    """The algorithm of a setting: the paper's, with further arguments of it, or ours
    with its defaults.
    """
    if setting.method == OURS:
        return PMCBoost()
    rule = {
        "alpha": setting.fit_alpha,
        "gamma": setting.gamma,
        "rho": setting.rho,
        "n_bins": N_BINS,
    }
    rule |= {} if setting.min_share is None else {"min_share": setting.min_share}
    algorithm = PMCBoost if setting.method == PMC else MCBoost
    return algorithm.paper(**rule, **how)


def own_rule(setting: Setting) -> dict[str, Any]:
    """The fit's own rule, with the sizes and floors of its parameters; RULE for the
    base model.
    """
    if setting.method == BASE:
        return RULE
    chosen = post_processor(setting).get_params()
    return {
        name: chosen[name] for name in ("alpha", "gamma", "rho", "n_bins", "min_share")
    }


def _accuracy(rows: Rows) -> dict[str, float]:
    """AUROC, Brier score and log loss."""
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    score = rows.score
    outcome = rows.outcome
    both = len(np.unique(outcome)) == 2
    found = {"auroc": roc_auc_score(outcome, score) if both else np.nan}
    found |= {"brier": brier_score_loss(outcome, score, pos_label=1)}
    found |= {"log_loss": log_loss(outcome, score, labels=[0, 1])}
    return {name: float(value) for name, value in found.items()}


def curve_rows(rows: Rows) -> Iterable[Row]:
    """The people, outcomes and scores of each combination of groups, in ten score
    bins.
    """
    atoms = rows.atoms()
    bins = uniform(N_BINS)
    columns = (atoms.people, atoms.positives, atoms.weight * atoms.score)
    people, positives, scores = (bucket_sums(atoms, bins, column) for column in columns)
    for pattern, j in zip(*np.nonzero(people)):
        counts = {
            "people": int(people[pattern, j]),
            "positives": int(positives[pattern, j]),
        }
        where = {
            "group_name": pattern_name(rows.patterns, int(pattern)),
            "bin_index": int(j),
        }
        yield {**where, **counts, "score_sum": float(scores[pattern, j] / UNIT)}
