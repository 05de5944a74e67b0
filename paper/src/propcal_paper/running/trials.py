"""Runs the trials of a base model and shuffle: trains it, tries every treatment."""

from __future__ import annotations

import os
import signal
from functools import cache
from multiprocessing import current_process
from threading import Thread
from time import sleep
from typing import NamedTuple

import numpy as np
import pandas as pd

from propcal import MCBoost, PMCBoost
from propcal_paper.running.base_models import Features, train
from propcal_paper.running.bench import Bench, Row, curve_rows
from propcal_paper.running.splits import split_rows
from propcal_paper.settings import BASE, GRIDS, MC, OURS, PMC, CohortColumns, Setting
from propcal_paper.setups import Setup


def curve_settings(columns: CohortColumns) -> frozenset[Setting]:
    """The settings whose calibration curves are stored, for every grouping."""
    treated = ((MC, 0.1), (PMC, 0.1), (PMC, 0.01))
    settings = []
    for groups in columns.groupings:
        settings += [Setting(BASE, groups), Setting(OURS, groups)]
        for method, alpha in treated:
            settings.append(Setting(method, groups, alpha, 0.05, 0.1))
    return frozenset(settings)


class Plan(NamedTuple):
    """What all units have in common: the columns of the cohort, the set-up, and the
    name of the grid.
    """

    columns: CohortColumns
    setup: Setup
    grid: str = GRIDS[0]


class Unit(NamedTuple):
    """A shuffle of the rows and a base model, with the settings to run."""

    seed: int
    model: str
    settings: tuple[Setting, ...]


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
    places = split_rows(rows, unit.seed, columns, plan.setup)
    train_rows, *parts = (rows.iloc[place] for place in places)
    features = Features(columns, plan.setup).fit(train_rows)
    outcome = train_rows[columns.outcome].to_numpy()
    matrix = features.transform(train_rows)
    n_numbers = features.n_numbers
    solver = plan.setup.solver
    model = train(unit.model, matrix, outcome, unit.seed, n_numbers, solver)
    scores = [model.score(features.transform(part)) for part in parts]

    drawn = curve_settings(columns)
    if plan.grid != GRIDS[0]:
        drawn = frozenset(unit.settings)
    whose = {"seed": unit.seed, "model": unit.model}
    trials = list[Row]()
    curves = list[Row]()
    for groups in sorted({setting.groups for setting in unit.settings}):
        bench = Bench(model, columns, plan.setup, parts, scores, groups)
        of_grouping = [one for one in unit.settings if one.groups == groups]
        for setting in of_grouping:
            trial, corrected = bench.trial(setting)
            trials.append({**trial, **whose, "n_train": len(train_rows)})
            if setting in drawn:
                key = {**whose, "setting": setting.key(), "method": setting.method}
                curves += [{**key, **counts} for counts in curve_rows(corrected)]
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
