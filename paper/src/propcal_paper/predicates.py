"""The tests that decide the claims of claims.toml, where `test` is their name: do the
trials agree?

A test returns True or False, or None if the trials show nothing of what the claim is
about; and the numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from propcal.building_blocks import FloatArray, IntArray, Style, plural
from propcal_paper.results import COSTS, THREE, mean_costs, wins_of_seeds
from propcal_paper.settings import ALPHAS, BASE, EQUIVALENT_ALPHAS, MC, MODELS, PMC
from propcal_paper.trial_arrays import (
    N_GROUPS,
    CurveCounts,
    TrialCube,
    median,
    subgroup,
)
from propcal_paper.trial_store import METRICS, Evidence

LEAST_SEEDS = 20  # fewer shuffles give no verdict
TABLE_5 = ("LR", "RF")
ROUNDING = 1e-6  # the losses are computed in floating point
Answer = tuple[Any, str]
Asked = Mapping[str, Any]

NOT_YET = "cannot be judged yet"
NOT_ASKED = "cannot be asked here"
NOT_SETTLED = "cannot be settled without MIMIC"


class NoVerdictError(Exception):
    """The store does not yet contain something that a test needs, or the cohort has
    nothing of the kind.
    """

    def __init__(self, why: str, verdict: str = NOT_YET) -> None:
        super().__init__(why)
        self.verdict = verdict


def require(values: Any, why: str) -> None:
    """No verdict if a number is missing."""
    if np.isnan(values).any():
        raise NoVerdictError(why)


@dataclass(eq=False)
class Case:
    """The trials by one rule for losses in the form that tests need: all seeds, or a
    resample of them.
    """

    evidence: Evidence
    cube: TrialCube
    places: IntArray  # which seeds
    whole: Case | None = None  # with all seeds, if this is a resample
    _medians: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> Case:
        """All seeds of a store."""
        return cls(
            evidence, TrialCube.of(evidence, MODELS), np.arange(evidence.n_seeds)
        )

    def drawn(self, places: IntArray) -> Case:
        """A resample of the seeds."""
        return Case(self.evidence, self.cube.drawn(places), places, self)

    @cached_property
    def wins_by_seed(self) -> dict[tuple[str, str], FloatArray]:
        """By interpretation and metric: wins of the methods of Table 6 and comparisons,
        for each seed.
        """
        found = {}
        for (reading, metric), each in wins_of_seeds(self.evidence.trials).groupby(
            ["reading", "metric"]
        ):
            rows = each.set_index("seed").reindex(self.evidence.seeds)[
                [*THREE, "comparisons"]
            ]
            found[str(reading), str(metric)] = rows.fillna(0.0).to_numpy(dtype=float)
        return found

    @cached_property
    def curve_counts(self) -> CurveCounts | None:
        """The counts behind the calibration curves of RF."""
        if self.whole is None:
            return CurveCounts.of(self.evidence)
        counts = self.whole.curve_counts
        return None if counts is None else counts.drawn(self.places)

    def change(self, method: str, model: str, metric: str) -> float:
        """The median percent change from the base model (Table 4)."""

        def found() -> float:
            return float(median(self.cube.of_method(f"{metric}_change", method, model)))

        why = (
            f"there is no {METRICS[metric]} of {method} with {model} and its base model"
        )
        return float(self._once((method, model, metric), found, why))

    def _once(self, key: Any, found: Callable[[], Any], why: str) -> Any:
        """Medians, computed when they are first asked for; no verdict if there are
        none.
        """
        if key not in self._medians:
            self._medians[key] = found()
        require(self._medians[key], why)
        return self._medians[key]

    def idle(self, method: str, model: str, metric: str, *, holds: bool) -> bool:
        """Whether the median change is 0 only because it is that of a fit that made no
        update.

        If a condition `holds` with a median of 0, this must be so because half of the
        fits made none; otherwise, as many rose as fell, which is a result.
        """
        if self.change(method, model, metric) != 0:
            return False
        changes = self.cube.of_method(f"{metric}_change", method, model)
        updates = self.cube.of_method("n_updates", method, model)
        share = np.mean(updates[~np.isnan(changes)] == 0)
        acted = median(np.where(updates > 0, changes, np.nan))  # NaN without any update
        return bool(share >= 0.5 or (share > 0 and not holds)) and bool(acted != 0)

    def by_alpha(self, column: str, method: str) -> FloatArray:
        """Medians over seeds, gamma and rho: base models, groupings, alphas. The base
        model has none.
        """
        if method == BASE:
            whose = (f"base_{column}", PMC)
        else:
            whose = (column, method)
        why = f"{column} is not available for every base model, grouping and alpha"
        return np.asarray(
            self._once((column, method), lambda: self.cube.by_alpha(*whose), why)
        )

    def wins(self, reading: str, metric: str) -> dict[str, float]:
        """Table 6: the percent of comparisons that each method wins."""
        total = (self.whole or self).wins_by_seed.get((reading, metric))
        if total is not None:
            summed = total[self.places].sum(axis=0)
        else:
            summed = np.zeros(4)
        if not summed[-1]:
            raise NoVerdictError("no seed with all three methods")
        return dict(zip(THREE, (100 * summed[:-1] / summed[-1]).tolist()))

    def need(self, models: Sequence[str], methods: Sequence[str]) -> int:
        """The number of seeds behind a test: the fewest of the base models and methods
        that it uses.
        """
        counted = self.evidence.stored.groupby(["model", "method"])["seed"].nunique()
        fewest = self.evidence.n_seeds
        for model, method in product(models, methods):
            n = int(counted.get((model, method), 0))
            if n < LEAST_SEEDS:
                there = plural(n, "seed") if n else "no trials"
                raise NoVerdictError(
                    f"{there} of {method} with {model}; {LEAST_SEEDS} seeds are needed"
                )
            fewest = min(fewest, n)
        return fewest


def about(value: float, published: float) -> bool:
    """Whether a number is "about" a published one: from half to twice its size, with
    the same sign.

    >>> about(7, 5), about(11, 5), about(-5, 5)
    (True, False, False)
    """
    return bool(0.5 <= value / published <= 2.0)


def signed(value: float, digits: int = 2) -> str:
    """A change with its sign, and zero without one."""
    return Style().decimal(value, digits, "+")


def all_hold(flags: Sequence[bool], idle: Sequence[bool]) -> bool | None:
    """Whether all hold; None if none is broken but for some most fits made no update.

    >>> all_hold([True, False], [False, False]), all_hold([True, False], [False, True])
    (False, None)
    """
    if any(not flag and not still for flag, still in zip(flags, idle)):
        return False
    return None if any(idle) else True


# How medians are compared with a limit, or with those of another method.
LIMITS: dict[str, Callable[[Any, Any], Any]] = {
    "below": operator.lt,
    "at_most": operator.le,
    "above": operator.gt,
    "at_least": operator.ge,
    "size_below": lambda value, limit: abs(value) < limit,
    "about": about,
    "to_two_decimals": lambda value, other: np.abs(value - other) < 0.005,
}


def changes(case: Case, *, conditions: Sequence[Asked]) -> Answer:
    """Median percent changes (Table 4), each with limits, or below that of another
    method.
    """
    flags = []
    idle = []
    shown = {}
    for asked in conditions:
        limits = {name: asked[name] for name in LIMITS if name in asked}
        other = asked.get("below_method")
        for key in product(
            asked["methods"], asked.get("models", MODELS), asked["metrics"]
        ):
            method, model, metric = key
            shown[method, metric, model] = value = case.change(*key)
            holds = all(LIMITS[name](value, limit) for name, limit in limits.items())
            if other:
                shown[other, metric, model] = case.change(other, model, metric)
                holds &= value < shown[other, metric, model]
            still = case.idle(*key, holds=holds)
            if other and not limits:
                still &= case.idle(other, model, metric, holds=holds)
            flags.append(holds)
            idle.append(still)
    return all_hold(flags, idle), _changes_in_words(shown)


def _changes_in_words(shown: Mapping[tuple[str, str, str], float]) -> str:
    methods, metrics, models = (dict.fromkeys(names) for names in zip(*shown))
    if len(metrics) == len(models) == 1:
        return ", ".join(
            f"{method} {signed(value)} %" for (method, *_), value in shown.items()
        )

    def of(method: str, metric: str) -> str:
        each = ", ".join(
            f"{model} {signed(shown[method, metric, model])} %" for model in models
        )
        return f"{METRICS[metric].removesuffix(' loss')}: {each}"

    parts = ["; ".join(of(method, metric) for metric in metrics) for method in methods]
    return ". ".join(
        f"{m} {part}" if len(methods) > 1 else part for m, part in zip(methods, parts)
    )


def compared_over_alpha(
    case: Case,
    *,
    column: str,
    left: list[Asked],
    comparison: str,
    right: list[Asked],
    **how: str,
) -> Answer:
    """Medians by base model, grouping and alpha: the left ones compare with each right
    one.

    `share`: they must in "all" cases, or in "most". `among` "updated": only where
    MCBoost or PMCBoost made updates, by their medians. `numbers`: what is said.
    """
    ours, theirs = (
        [_taken(case, column, asked) for asked in side] for side in (left, right)
    )
    compare = LIMITS[comparison]
    flags = np.stack([np.all([compare(a, b) for b in theirs], axis=0) for a in ours])
    if how.get("among") == "updated":
        updated = case.by_alpha("n_updates", MC) + case.by_alpha("n_updates", PMC) > 0
        flags = flags[:, updated[..., _places(left[0])]]
    if not flags.size:
        return None, "neither method made updates there"
    values = "; ".join(
        f"{model} {groups} {ours[0][m, g]:.3g}, {theirs[0][m, g]:.3g}"
        for m, model in enumerate(case.cube.models if ours[0].ndim == 2 else ())
        for g, groups in enumerate(case.cube.groupings)
    )
    largest = max(float(np.abs(a - b).max()) for a, b in product(ours, theirs))
    count = f"{int(flags.sum())} of {flags.size}"
    said = how["numbers"].format(count=count, values=values, largest=largest)
    return (flags.all() if how["share"] == "all" else flags.mean() > 0.5), said


def _places(asked: Asked) -> list[int]:
    return [ALPHAS.index(alpha) for alpha in asked.get("alphas", ALPHAS)]


def _taken(case: Case, column: str, asked: Asked) -> FloatArray:
    """Medians of a method at some alphas, their lowest, or how many times the lowest
    the highest is.
    """
    found = case.by_alpha(column, asked["method"])[..., _places(asked)]
    if "take" not in asked:
        return found
    if asked["take"] == "lowest":
        return np.asarray(found.min(axis=-1))
    if not found.min() > 0:
        raise NoVerdictError(f"a median {METRICS[column]} is 0")
    return np.asarray(found.max(axis=-1) / found.min(axis=-1))


def decrease(
    case: Case,
    *,
    column: str,
    model: str,
    less_than: float | None = None,
    mostly: str = "",
) -> Answer:
    """How much lower a median is at the lowest alpha than at the highest; mean over
    groupings.
    """
    found = {
        m: case.cube.by_alpha(column, m)[case.cube.models.index(model)]
        for m in (MC, PMC)
    }
    drop = {
        method: float(np.mean(values[:, -1] - values[:, 0]))
        for method, values in found.items()
    }
    require(
        [*drop.values()],
        f"{METRICS[column]} is not available for every grouping and alpha",
    )
    numbers = ", ".join(
        f"{method} {signed(-value, 4)}" for method, value in drop.items()
    )
    least, most = sorted(drop.values())
    if less_than is not None:
        return least > 0 and most < less_than, numbers
    if most <= 0:
        return (
            None,
            f"{METRICS[column]} does not decrease with either method: {numbers}",
        )
    return drop[mostly] == most > least, numbers


def overfits(case: Case, *, method: str, at: float, more_than_at: float) -> Answer:
    """MC loss on test data beyond that on the fitting data, at two alphas."""
    beyond = case.cube.of_method("own_mc_loss", method) - case.cube.of_method(
        "train_mc_loss", method
    )
    one, other = (
        float(median(beyond[:, :, :, ALPHAS.index(alpha)]))
        for alpha in (at, more_than_at)
    )
    require([one, other], "the loss on the fitting data could not be computed")
    numbers = f"{one:.4f} at alpha {at:g}, {other:.4f} at {more_than_at:g}"
    return (
        one > other,
        f"MC loss on test data minus that on the fitting data: {numbers}",
    )


def larger_gain(
    case: Case, *, column: str, at: Sequence[float], than_at: Sequence[float]
) -> Answer:
    """How much lower PMCBoost's median is than MCBoost's, at some alphas and at
    others.
    """
    gain = np.mean(case.by_alpha(column, MC) - case.by_alpha(column, PMC), axis=(0, 1))
    one, other = (
        np.mean([gain[ALPHAS.index(alpha)] for alpha in alphas])
        for alphas in (at, than_at)
    )
    listed = ", ".join(
        f"{alpha:g}: {signed(value, 3)}" for alpha, value in zip(ALPHAS, gain)
    )
    return one > max(
        other, 0.0
    ), f"mean of MCBoost's minus PMCBoost's {METRICS[column]} by alpha {listed}"


def better_pairs(case: Case, *, metrics: Sequence[str], at_least: int) -> Answer:
    """For how many alphas PMCBoost has the lower loss, by each metric, in most pairs of
    the same trial.
    """
    idle = sum(case.cube.of_method("n_updates", method) for method in (MC, PMC)) == 0
    shares = []
    for metric in metrics:
        mc, pmc = (case.cube.of_method(metric, method) for method in (MC, PMC))
        better = np.where(
            idle | np.isnan(mc) | np.isnan(pmc), np.nan, (pmc < mc) + 0.5 * (pmc == mc)
        )
        rows = np.moveaxis(better, 3, 0).reshape(len(ALPHAS), -1)
        shares.append(
            [
                np.mean(row[~np.isnan(row)]) if not np.isnan(row).all() else np.nan
                for row in rows
            ]
        )
    there = {
        alpha: row for alpha, *row in zip(ALPHAS, *shares) if not np.isnan(row).any()
    }
    if len(there) < at_least:
        return (
            None,
            f"fewer than {at_least} alphas have pairs in which a method made updates",
        )
    percents = {
        alpha: ", ".join(f"{100 * value:.0f}" for value in row)
        for alpha, row in there.items()
    }
    said = "; ".join(f"{alpha:g}: {row}" for alpha, row in percents.items())
    good = sum(min(row) > 0.5 for row in there.values())
    return (
        good >= at_least,
        f"percent of pairs by alpha, {', '.join(METRICS[m] for m in metrics)}: {said}",
    )


def same_pmc(
    case: Case,
    *,
    holds: str,
    costs: Sequence[str],
    numbers: str,
    published: float = 1.0,
) -> Answer:
    """Table 5, LR and RF: what MCBoost needs for the same PMC, as a multiple of what
    PMCBoost needs.

    They must all be above 1 ("more"), on average about the published number ("about"),
    or be about the same multiples of each cost ("alike").
    """
    models = [case.cube.models.index(model) for model in TABLE_5]
    found = {name: values[models] for name, values in mean_costs(case.cube).items()}
    require(np.stack([*found.values()]), "Table 5 is not complete")
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.stack([found[f"mc_{cost}"] / found[f"pmc_{cost}"] for cost in costs])
        means = [
            float(found[f"mc_{cost}"].mean() / found[f"pmc_{cost}"].mean())
            for cost in costs
        ]
    cells = "; ".join(
        f"{model} at {alpha:g} "
        + ", ".join(f"{ratio:.3g}x" for ratio in times[:, m, a])
        for (m, model), (a, alpha) in product(
            enumerate(TABLE_5), enumerate(EQUIVALENT_ALPHAS)
        )
    )
    n = int(found["stopped"].sum())
    if n:
        stopped = f"; {plural(n, 'pair')} of fits left out, as one stopped at its limit"
    else:
        stopped = ""
    said = numbers.format(
        cells=cells, mean=", ".join(f"{mean:.1f}x" for mean in means), stopped=stopped
    )
    if holds == "about":
        active = np.isfinite(means).all()
        if active:
            return (all(about(mean, published) for mean in means), said)
        return (None, "no updates")
    if holds == "alike":
        return all(
            about(*pair) for pair in zip(times[1].ravel(), times[0].ravel())
        ), said
    return (times > 1).all(), said


def cost_of_best(
    case: Case,
    *,
    metrics: list[str],
    costs: list[str],
    more: str,
    less: str,
    published: float | None = None,
) -> Answer:
    """Updates or seconds of each method at the alpha of its best median: one needs more
    than the other.

    In set-ups that say so, a published ratio is the mean relative excess of updates.
    """
    excess = (
        case.evidence.setup.excess and costs == ["updates"] and published is not None
    )
    n = int(
        sum(
            (case.cube.of_method("converged", method) == 0).sum()
            for method in (MC, PMC)
        )
    )
    flags = []
    parts = []
    for metric in metrics:
        best = {method: case.cube.best(metric, method)[1] for method in (MC, PMC)}
        for there in best.values():
            require(
                there[metric],
                f"{metric} is not available for every base model and grouping",
            )
            require(
                there["n_updates"], "every fit at some best alpha stopped at its limit"
            )
        if still := [
            method
            for method, there in best.items()
            if not there["n_updates"].mean() > 0
        ]:
            return None, f"{' and '.join(still)} at its best without any update"
        for cost in costs:
            a, b = (best[method][COSTS[cost]] for method in (more, less))
            ratio = float(a.mean() / b.mean())
            name = "x"
            if excess:
                if not (b > 0).all():
                    return (
                        None,
                        f"{less} is at its best without any update for some base model and grouping",
                    )
                ratio = float(np.mean((a - b) / b))
                name = " mean relative excess"
            flags.append(ratio > 1 and (published is None or about(ratio, published)))
            means = f"({a.mean():,.3g} and {b.mean():,.3g})"
            parts.append(f"{cost} for {METRICS[metric]} {ratio:.2f}{name} {means}")
    if n:
        stopped = f"; {plural(n, 'fit')} left out that stopped at the limit"
    else:
        stopped = ""
    return all(flags), f"{more} / {less}: {', '.join(parts)}{stopped}"


def guarantee(case: Case, *, method: str, column: str) -> Answer:
    """In every trial that converged, the loss on the training set is at most alpha."""
    trials = case.evidence.stored
    rows = trials[trials["method"] == method]
    stopped = int((rows["converged"] == 0).sum())
    rows = rows[rows["converged"] == 1].dropna(subset=[column])
    if rows.empty:
        raise NoVerdictError(
            "there is no converged trial with a loss on the training set"
        )
    kept = rows[column] <= rows["alpha"] + ROUNDING
    worst = float((rows[column] / rows["alpha"]).max())
    numbers = f"{int(kept.sum()):,} of {len(kept):,} converged trials; at most {worst:.3f} alpha"
    if stopped:
        numbers += (
            f"; {plural(stopped, 'trial')} stopped at the limit and cannot be judged"
        )
    return kept.all(), numbers


def wins(
    case: Case, *, method: str, metrics: Sequence[str], never: bool = False
) -> Answer:
    """Table 6: a method wins more often than each other, or never, by every
    interpretation of the set-up.
    """
    agreed = []
    parts = []
    for reading in case.evidence.setup.readings:
        won = {metric: case.wins(reading, metric) for metric in metrics}
        if never:
            said = ", ".join(
                f"{METRICS[metric]} {shares[method]:.1f} %"
                for metric, shares in won.items()
            )
            agreed.append(not any(shares[method] for shares in won.values()))
        else:
            (shares,) = won.values()
            said = ", ".join(f"{m} {share:.0f} %" for m, share in shares.items())
            agreed.append(shares[method] > max(shares[m] for m in THREE if m != method))
        parts.append(f"by {reading}: {said}")
    if len(agreed) > 1:
        held = f"holds by {sum(agreed)} of {len(agreed)} interpretations; "
    else:
        held = ""
    return all(agreed), f"{held}{f'{method} best ' if never else ''}{'; '.join(parts)}"


def curves_improve(case: Case) -> Answer:
    """The calibration error of three groups is smaller with PMCBoost."""
    found = case.curve_counts
    if found is None:
        raise NoVerdictError("no calibration curves of RF")
    if len(found.errors) < N_GROUPS:
        few = "fewer than three intersectional groups have a share of gamma of the test set"
        raise NoVerdictError(few, NOT_ASKED)
    rows = [*zip(found.errors["group"], found.errors[BASE], found.errors[PMC])]
    names = {group: subgroup(group, found.attributes) for group, *_ in rows}
    numbers = "; ".join(
        f"{names[group]}: {100 * b:.1f} % to {100 * a:.1f} %" for group, b, a in rows
    )
    return all(
        after < before for _, before, after in rows
    ), f"off by {numbers} (setting {found.setting})"
