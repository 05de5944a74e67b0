"""The trials of a base model, shuffle and grouping: each one fitted and evaluated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from propcal import MCBoost, PMCBoost
from propcal.building_blocks import (
    UNIT,
    CategoryRule,
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
from propcal_paper.running.authors_code import (
    fit_frozen,
    neighbours_dc,
    single_and_full,
)
from propcal_paper.running.base_models import Trained
from propcal_paper.settings import (
    BASE,
    N_BINS,
    OURS,
    PMC,
    RULE,
    SIZES_RULE,
    CohortColumns,
    Setting,
)
from propcal_paper.setups import Setup

Row = dict[str, Any]
Groups = tuple[str, ...]

# Algorithm 1 has no limit. With full steps MCBoost at alpha*rho = 0.00001 makes up to
# about 90,000 updates; with steps of a quarter it would make several times as many,
# more than a correction may hold. Such a fit stops at MAX_UPDATES, or, if its maps
# would still be too large, at a quarter fewer, and so on; its trial is stored as not
# converged.
MAX_UPDATES = 100_000
MAX_VISITS = 100_000  # to categories, the limit of the paper's public code
PROGRESS = ("n_updates", "n_sweeps", "converged")  # how a fit went

# How a fit went, and the fitting and test rows with the scores that it gives them.
Fitted = tuple[Row, Rows, Rows]


class Bench:
    """The fitting and test rows of a grouping with the scores of a base model, shared
    by all its trials.
    """

    def __init__(
        self,
        model: Trained,
        columns: CohortColumns,
        setup: Setup,
        parts: list[pd.DataFrame],
        scores: list[Any],
        groups: Groups,
    ) -> None:
        began = process_time()
        self.model = model
        self.setup = setup
        self.groups = groups
        self.intersections: Any = "all"
        if setup.intersections != "all":
            self.intersections = single_and_full(groups)
        outcomes = [part[columns.outcome].to_numpy() for part in parts]
        attributes = [part[list(groups)] for part in parts]
        self.post, self.test = map(checked_rows, scores, outcomes, attributes)
        self.atoms = self.post.atoms()
        self.seconds = process_time() - began  # of reducing the fitting rows to atoms
        self.true_risk: Any = None
        if columns.true_risk:
            self.true_risk = parts[1][columns.true_risk].to_numpy()
        self._base_losses: dict[str, dict[str, float]] = {}
        self._fits: dict[tuple[Any, ...], Fitted] = {}  # MCBoost does not depend on rho

    def trial(self, setting: Setting) -> tuple[Row, Rows]:
        """Run one post-processing fit; return its results on the test rows, and their
        new scores.
        """
        fit, post_rows, test_rows = self._fitted(setting)
        began = process_time()
        own = own_rule(setting)
        trial: Row = {**setting.columns(), **fit}
        trial |= _accuracy(test_rows)
        trial |= self._losses(test_rows, RULE)
        trial |= self._losses(test_rows, SIZES_RULE, "sizes_")
        trial |= self._losses(test_rows, own, "own_")
        trial |= self._losses_of_base(own)
        trial |= self._losses(post_rows, own, "train_")
        trial["setting"] = setting.key()
        trial["n_post"] = len(post_rows.score)
        trial["n_test"] = len(test_rows.score)
        trial["true_risk_rms"] = self._distance_from_true_risk(test_rows)
        trial["evaluation_seconds"] = process_time() - began
        return trial, test_rows

    def _distance_from_true_risk(self, test_rows: Rows) -> float | None:
        """The root mean squared error against the true risk, if that is known."""
        if self.true_risk is None:
            return None
        squares = (test_rows.score - self.true_risk) ** 2
        return float(np.sqrt(np.mean(squares)))

    def _losses_of_base(self, rule: dict[str, Any]) -> dict[str, float]:
        """The losses of the base model by a rule, computed once."""
        key = repr(rule)
        if key not in self._base_losses:
            self._base_losses[key] = self._losses(self.test, rule, "base_own_")
        return self._base_losses[key]

    def _losses(
        self, rows: Rows, rule: dict[str, Any], prefix: str = ""
    ) -> dict[str, float]:
        table = self._rule(rule).table(rows.atoms())
        rho = rule["rho"]
        if self.setup.dc_pairs == "all":
            dc = dc_of(table, rho)
        else:
            dc = neighbours_dc(table, rho, len(self.groups))
        return {
            f"{prefix}mc_loss": mc_of(table),
            f"{prefix}pmc_loss": pmc_of(table, rho),
            f"{prefix}dc_loss": dc,
        }

    def _rule(self, rule: dict[str, Any]) -> CategoryRule:
        return CategoryRule(**rule, intersections=self.intersections)

    def _fitted(self, setting: Setting) -> Fitted:
        """The fit of a setting. Settings of MCBoost that differ in rho alone share
        one.
        """
        of_paper = setting.method not in (BASE, OURS)
        method = "" if of_paper else setting.method
        floor = setting.rho if setting.method == PMC else None
        key = (method, setting.fit_alpha, setting.gamma, floor, setting.min_share)
        if key not in self._fits:
            if of_paper and self.setup.bins == "frozen":
                fit, correction = self._fit_frozen(setting)
            else:
                fit, correction = self._fit(setting)
            self._fits[key] = fit, correction(self.post), correction(self.test)
        return self._fits[key]

    def _fit_frozen(self, setting: Setting) -> tuple[Row, Callable[[Rows], Rows]]:
        """How the fit of the paper's public code went, and what it does to rows."""
        began = process_time()
        rows = self.post
        own = own_rule(setting)
        rule = self._rule(own)
        groups = rule.table(rows.atoms()).collection.groups
        fit = fit_frozen(
            rows.score,
            rows.outcome,
            rows.code,
            membership(groups, rows.patterns),
            alpha=own["alpha"],
            rho=own["rho"] if setting.method == PMC else None,
            min_share=rule.share_of(uniform(N_BINS)),
            eta=self.setup.eta,
            n_bins=N_BINS,
            max_visits=MAX_VISITS,
        )
        went = {name: getattr(fit, name) for name in PROGRESS}

        def corrected(rows: Rows) -> Rows:
            inside = membership(groups, rows.patterns)
            return replace(rows, score=fit.apply(rows.score, rows.code, inside))

        return {**went, "fit_seconds": process_time() - began}, corrected

    def _fit(self, setting: Setting) -> tuple[Row, Callable[[Rows], Rows]]:
        """How the fit went, or for the base model its training, and what it does to
        rows.
        """
        if setting.method == BASE:
            went = {"n_updates": 0, "n_sweeps": 0, "converged": self.model.converged}
            return {**went, "fit_seconds": self.model.seconds}, lambda rows: rows

        limit = MAX_UPDATES
        while True:
            began = process_time()
            method = self._fit_atoms(setting, limit)
            seconds = self.seconds + process_time() - began
            correction = method.correction_
            try:
                _ = correction.maps  # composed here, and kept
                break
            except TooLargeError:
                limit = 3 * min(limit, method.n_updates_) // 4
        went = {name: getattr(method, f"{name}_") for name in PROGRESS}

        def corrected(rows: Rows) -> Rows:
            known = correction.rows_in_known_levels(
                rows.score, rows.code, rows.patterns
            )
            return replace(rows, score=correction.apply_to_rows(known))

        return {**went, "fit_seconds": seconds}, corrected

    def _fit_atoms(self, setting: Setting, max_updates: int) -> MCBoost | PMCBoost:
        """The fitted method of a setting; one that stops at its limit is recorded in
        `converged`.
        """
        from sklearn.exceptions import ConvergenceWarning

        how = {"eta": self.setup.eta, "intersections": self.intersections}
        method = post_processor(setting, max_updates=max_updates, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            method.fit_atoms(self.atoms)
        return method


def post_processor(setting: Setting, **how: Any) -> MCBoost | PMCBoost:
    """The algorithm of a setting: the paper's, with further arguments of it, or ours
    with its defaults.
    """
    if setting.method == OURS:
        return PMCBoost()
    rule = {"alpha": setting.fit_alpha, "gamma": setting.gamma, "rho": setting.rho}
    if setting.min_share is not None:
        rule["min_share"] = setting.min_share
    algorithm = PMCBoost if setting.method == PMC else MCBoost
    return algorithm.paper(n_bins=N_BINS, **rule, **how)


def own_rule(setting: Setting) -> dict[str, Any]:
    """The fit's own rule, with the sizes and floors of its parameters; RULE for the
    base model.
    """
    if setting.method == BASE:
        return RULE
    parameters = post_processor(setting).get_params()
    names = ("alpha", "gamma", "rho", "n_bins", "min_share")
    return {name: parameters[name] for name in names}


def _accuracy(rows: Rows) -> dict[str, float]:
    """AUROC, Brier score and log loss."""
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    score = rows.score
    outcome = rows.outcome
    auroc = np.nan
    if len(np.unique(outcome)) == 2:
        auroc = roc_auc_score(outcome, score)
    return {
        "auroc": float(auroc),
        "brier": float(brier_score_loss(outcome, score, pos_label=1)),
        "log_loss": float(log_loss(outcome, score, labels=[0, 1])),
    }


def curve_rows(rows: Rows) -> Iterable[Row]:
    """The people, outcomes and scores of each combination of groups, in ten score
    bins.
    """
    atoms = rows.atoms()
    bins = uniform(N_BINS)
    people = bucket_sums(atoms, bins, atoms.people)
    positives = bucket_sums(atoms, bins, atoms.positives)
    scores = bucket_sums(atoms, bins, atoms.weight * atoms.score)
    for pattern, bin_index in zip(*np.nonzero(people)):
        place = (pattern, bin_index)
        yield {
            "group_name": pattern_name(rows.patterns, int(pattern)),
            "bin_index": int(bin_index),
            "people": int(people[place]),
            "positives": int(positives[place]),
            "score_sum": float(scores[place] / UNIT),
        }
