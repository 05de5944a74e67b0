"""The counts of calibration curves as arrays by seed, to be resampled quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from propcal.building_blocks import FloatArray, IntArray
from propcal_paper.results.evidence import Evidence
from propcal_paper.results.trial_arrays import arranged
from propcal_paper.settings import BASE, N_BINS, OURS, PMC, RULE

CURVE_MODEL = "RF"
CURVE_METHODS = (BASE, PMC, OURS)
COUNTS = ("people", "positives", "score_sum")
N_GROUPS = 3
MIN_PEOPLE = 30  # of a point, for each seed


@dataclass(frozen=True, eq=False)
class CurveCounts:
    """People, outcomes and scores by seed, group, method and bin: what the curves are
    made of.
    """

    groups: list[str]
    methods: list[str]
    sums: FloatArray  # (people, positives, scores) x seeds x groups x methods x bins
    there: Any  # which seeds have the base model and PMCBoost
    attributes: tuple[str, ...]
    setting: str
    gamma: float
    n_test: float

    @classmethod
    def of(cls, evidence: Evidence) -> CurveCounts | None:
        """The counts of one base model; None if the store has none of it."""
        counts = evidence.counts[evidence.counts["model"] == CURVE_MODEL]
        counts = counts[counts["method"].isin(CURVE_METHODS)]
        setting = _drawn_setting(counts, evidence.attributes)
        if setting is None:
            return None

        counts = counts[counts["groups"] == setting["groups"]]
        of_setting = counts["setting"] == setting["setting"]
        counts = counts[of_setting | (counts["method"] != PMC)]
        base_seeds = counts.loc[counts["method"] == BASE, "seed"]
        pmc_seeds = counts.loc[counts["method"] == PMC, "seed"]
        counts = counts[counts["seed"].isin({*base_seeds} & {*pmc_seeds})]

        groups = sorted(counts["group_name"].unique())
        there = {*counts["method"]}
        methods = [method for method in CURVE_METHODS if method in there]
        axes: dict[str, Sequence[Any]] = {"seed": evidence.seeds, "group_name": groups}
        axes |= {"method": methods, "bin_index": range(N_BINS)}
        sums = arranged(counts, axes, COUNTS, 0.0)
        return cls(
            groups,
            methods,
            np.stack(list(sums.values())),
            np.isin(evidence.seeds, counts["seed"]),
            evidence.attributes[setting["groups"]],
            str(setting["setting"]),
            float(setting["gamma"]),
            counts["n_test"].mean(),
        )

    def drawn(self, places: IntArray) -> CurveCounts:
        """The counts of some seeds, each as often as it was drawn."""
        return replace(self, sums=self.sums[:, places], there=self.there[places])

    @property
    def n_seeds(self) -> int:
        """The number of seeds with curves."""
        return int(self.there.sum())

    @cached_property
    def errors(self) -> pd.DataFrame:
        """The groups with the largest error, that first: group, share of people, and
        each method's error.
        """
        people, positives, scores = self.sums.sum(axis=1)
        n_people = people.sum(axis=2)[:, self.methods.index(BASE)]
        events = positives.sum(axis=2)
        off = np.abs(positives - scores).sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):  # groups without outcomes
            error = np.where(events > 0, off / events, np.nan)

        frame = pd.DataFrame({"group": self.groups})
        frame["share"] = n_people / max(self.n_seeds, 1) / self.n_test
        frame[self.methods] = error
        frame = frame[frame["share"] >= self.gamma].dropna(subset=[BASE, PMC])
        frame = frame.sort_values(BASE, ascending=False, kind="stable")
        return frame.head(N_GROUPS)

    def points(self) -> pd.DataFrame:
        """Their curves: group, method, bin_index, people (per seed), mean_score,
        outcome_rate.
        """
        people, positives, scores = self.sums.sum(axis=1)
        shown = {*self.errors["group"]}
        rows = []
        for place, n_people in np.ndenumerate(people):
            group = self.groups[place[0]]
            if group not in shown or not n_people:
                continue
            of_a_seed = n_people / self.n_seeds
            if of_a_seed < MIN_PEOPLE:
                continue
            row: dict[str, Any] = {"group": group, "method": self.methods[place[1]]}
            row |= {"bin_index": place[2], "people": of_a_seed}
            row["mean_score"] = scores[place] / n_people
            row["outcome_rate"] = positives[place] / n_people
            rows.append(row)
        columns = ["group", "method", "bin_index", "people"]
        return pd.DataFrame(rows, columns=[*columns, "mean_score", "outcome_rate"])


def _drawn_setting(
    counts: pd.DataFrame, attributes: Mapping[str, Sequence[str]]
) -> Any:
    """The setting of PMCBoost with the finest grouping that is closest to the rule of
    the losses; None if there is none with a base model.
    """
    of_base = counts.loc[counts["method"] == BASE, "groups"]
    treated = counts[(counts["method"] == PMC) & counts["groups"].isin(of_base)]
    if treated.empty:
        return None

    settings = treated.drop_duplicates("setting")
    distance = pd.Series(0.0, settings.index)
    for name in ("alpha", "gamma", "rho"):
        distance += np.log(settings[name] / RULE[name]).abs()
    n_attributes = {name: len(names) for name, names in attributes.items()}
    fineness = settings["groups"].map(n_attributes)
    ranked = settings.assign(coarseness=-fineness, distance=distance)
    return ranked.sort_values(["coarseness", "distance"]).iloc[0]
