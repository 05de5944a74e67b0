"""The tests that decide the claims of claims.toml: do the trials agree?

A test returns True or False, or None if the trials show nothing of what the claim is
about; and the numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from propcal.building_blocks import FloatArray, Style, plural
from propcal_paper.results.claim_case import NOT_ASKED, Case, NoVerdictError, require
from propcal_paper.results.curve_counts import N_GROUPS
from propcal_paper.results.evidence import METRICS
from propcal_paper.results.medians import COSTS, mean_costs
from propcal_paper.results.subgroups import subgroup
from propcal_paper.results.trial_arrays import median
from propcal_paper.results.wins import THREE
from propcal_paper.settings import ALPHAS, BASE, EQUIVALENT_ALPHAS, MC, MODELS, PMC

TABLE_5_MODELS = ("LR", "RF")
ROUNDING = 1e-6  # the losses are computed in floating point
Answer = tuple[Any, str]
Asked = Mapping[str, Any]


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


def _size_below(value: Any, limit: Any) -> Any:
    return abs(value) < limit


def _equal_to_two_decimals(value: Any, other: Any) -> Any:
    return np.abs(value - other) < 0.005


# How medians are compared with a limit, or with those of another method.
LIMITS: dict[str, Callable[[Any, Any], Any]] = {
    "below": operator.lt,
    "at_most": operator.le,
    "above": operator.gt,
    "at_least": operator.ge,
    "size_below": _size_below,
    "about": about,
    "to_two_decimals": _equal_to_two_decimals,
}


def changes(case: Case, *, conditions: Sequence[Asked]) -> Answer:
    """Median percent changes (Table 4), each with limits, or below that of another
    method.
    """
    flags = []
    idle = []
    shown: dict[tuple[str, str, str], float] = {}
    for asked in conditions:
        limits = {name: asked[name] for name in LIMITS if name in asked}
        other = asked.get("below_method")
        models = asked.get("models", MODELS)
        for method, model, metric in product(
            asked["methods"], models, asked["metrics"]
        ):
            change = case.change(method, model, metric)
            shown[method, metric, model] = change
            holds = all(LIMITS[name](change, limit) for name, limit in limits.items())
            if other:
                change_of_other = case.change(other, model, metric)
                shown[other, metric, model] = change_of_other
                holds &= change < change_of_other

            still = case.idle(method, model, metric, holds=holds)
            if other and not limits:
                still &= case.idle(other, model, metric, holds=holds)
            flags.append(holds)
            idle.append(still)
    return all_hold(flags, idle), _changes_in_words(shown)


def _changes_in_words(shown: Mapping[tuple[str, str, str], float]) -> str:
    methods, metrics, models = (dict.fromkeys(names) for names in zip(*shown))
    if len(metrics) == len(models) == 1:
        single = [
            f"{method} {signed(change)} %" for (method, *_), change in shown.items()
        ]
        return ", ".join(single)

    sentences = []
    for method in methods:
        of_method = []
        for metric in metrics:
            name = METRICS[metric].removesuffix(" loss")
            changes_of_models = ", ".join(
                f"{model} {signed(shown[method, metric, model])} %" for model in models
            )
            of_method.append(f"{name}: {changes_of_models}")
        whose = f"{method} " if len(methods) > 1 else ""
        sentences.append(whose + "; ".join(of_method))
    return ". ".join(sentences)


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
    ours = [_taken(case, column, asked) for asked in left]
    theirs = [_taken(case, column, asked) for asked in right]
    flags = _all_compare(LIMITS[comparison], ours, theirs)
    if how.get("among") == "updated":
        n_updates = case.by_alpha("n_updates", MC) + case.by_alpha("n_updates", PMC)
        flags = flags[:, n_updates[..., _places(left[0])] > 0]
    if not flags.size:
        return None, "neither method made updates there"

    count = f"{int(flags.sum())} of {flags.size}"
    largest = max(float(np.abs(a - b).max()) for a, b in product(ours, theirs))
    values = _panel_values(case, ours[0], theirs[0])
    said = how["numbers"].format(count=count, values=values, largest=largest)
    if how["share"] == "all":
        return flags.all(), said
    return flags.mean() > 0.5, said


def _all_compare(
    compare: Callable[[Any, Any], Any],
    ours: list[FloatArray],
    theirs: list[FloatArray],
) -> Any:
    """Where each of ours compares with all of theirs."""
    flags = []
    for value in ours:
        with_each = [compare(value, other) for other in theirs]
        flags.append(np.all(with_each, axis=0))
    return np.stack(flags)


def _panel_values(case: Case, ours: FloatArray, theirs: FloatArray) -> str:
    """Both values of each base model and grouping, if there is one of each."""
    if ours.ndim != 2:
        return ""
    values = []
    for (m, g), our_value in np.ndenumerate(ours):
        panel = f"{case.cube.models[m]} {case.cube.groupings[g]}"
        values.append(f"{panel} {our_value:.3g}, {theirs[m, g]:.3g}")
    return "; ".join(values)


def _places(asked: Asked) -> list[int]:
    return [ALPHAS.index(alpha) for alpha in asked.get("alphas", ALPHAS)]


def _taken(case: Case, column: str, asked: Asked) -> FloatArray:
    """Medians of a method at some alphas, their lowest, or how many times the lowest
    the highest is.
    """
    medians = case.by_alpha(column, asked["method"])[..., _places(asked)]
    if "take" not in asked:
        return medians
    lowest = np.asarray(medians.min(axis=-1))
    if asked["take"] == "lowest":
        return lowest
    if not medians.min() > 0:
        raise NoVerdictError(f"a median {METRICS[column]} is 0")
    return np.asarray(medians.max(axis=-1) / lowest)


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
    place = case.cube.models.index(model)
    drop = {}
    for method in (MC, PMC):
        medians = case.cube.by_alpha(column, method)[place]
        drop[method] = float(np.mean(medians[:, -1] - medians[:, 0]))
    name = METRICS[column]
    require([*drop.values()], f"{name} is not available for every grouping and alpha")

    numbers = ", ".join(f"{method} {signed(-low, 4)}" for method, low in drop.items())
    least, most = sorted(drop.values())
    if less_than is not None:
        return least > 0 and most < less_than, numbers
    if most <= 0:
        return None, f"{name} does not decrease with either method: {numbers}"
    return drop[mostly] == most > least, numbers


def overfits(case: Case, *, method: str, at: float, more_than_at: float) -> Answer:
    """MC loss on test data beyond that on the fitting data, at two alphas."""
    on_test = case.cube.of_method("own_mc_loss", method)
    beyond = on_test - case.cube.of_method("train_mc_loss", method)
    excess = []
    for alpha in (at, more_than_at):
        excess.append(float(median(beyond[:, :, :, ALPHAS.index(alpha)])))
    require(excess, "the loss on the fitting data could not be computed")
    one, other = excess
    numbers = f"{one:.4f} at alpha {at:g}, {other:.4f} at {more_than_at:g}"
    said = f"MC loss on test data minus that on the fitting data: {numbers}"
    return one > other, said


def larger_gain(
    case: Case, *, column: str, at: Sequence[float], than_at: Sequence[float]
) -> Answer:
    """How much lower PMCBoost's median is than MCBoost's, at some alphas and at
    others.
    """
    lower_by = case.by_alpha(column, MC) - case.by_alpha(column, PMC)
    gain = dict(zip(ALPHAS, np.mean(lower_by, axis=(0, 1))))
    one = np.mean([gain[alpha] for alpha in at])
    other = np.mean([gain[alpha] for alpha in than_at])
    each = ", ".join(f"{alpha:g}: {signed(lower, 3)}" for alpha, lower in gain.items())
    said = f"mean of MCBoost's minus PMCBoost's {METRICS[column]} by alpha {each}"
    return one > max(other, 0.0), said


def better_pairs(case: Case, *, metrics: Sequence[str], at_least: int) -> Answer:
    """For how many alphas PMCBoost has the lower loss, by each metric, in most pairs of
    the same trial.
    """
    n_updates = case.cube.of_method("n_updates", MC)
    idle = n_updates + case.cube.of_method("n_updates", PMC) == 0
    shares = [_shares_of_better_pairs(case, metric, idle) for metric in metrics]
    at_alphas = dict(zip(ALPHAS, zip(*shares)))
    known = {alpha: row for alpha, row in at_alphas.items() if not np.isnan(row).any()}
    if len(known) < at_least:
        few = f"fewer than {at_least} alphas"
        return None, f"{few} have pairs in which a method made updates"

    percents = []
    for alpha, row in known.items():
        of_metrics = ", ".join(f"{100 * share:.0f}" for share in row)
        percents.append(f"{alpha:g}: {of_metrics}")
    n_better = sum(min(row) > 0.5 for row in known.values())
    names = ", ".join(METRICS[metric] for metric in metrics)
    said = f"percent of pairs by alpha, {names}: {'; '.join(percents)}"
    return n_better >= at_least, said


def _shares_of_better_pairs(case: Case, metric: str, idle: Any) -> list[float]:
    """For each alpha, the share of pairs in which PMCBoost has the lower loss; ties
    count half, and pairs without any update are left out.
    """
    mc = case.cube.of_method(metric, MC)
    pmc = case.cube.of_method(metric, PMC)
    better = (pmc < mc) + 0.5 * (pmc == mc)
    left_out = idle | np.isnan(mc) | np.isnan(pmc)
    by_alpha = np.moveaxis(np.where(left_out, np.nan, better), 3, 0)
    shares = []
    for row in by_alpha.reshape(len(ALPHAS), -1):
        pairs = row[~np.isnan(row)]
        shares.append(float(np.mean(pairs)) if len(pairs) else np.nan)
    return shares


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
    models = [case.cube.models.index(model) for model in TABLE_5_MODELS]
    costs_of_models = {
        name: values[models] for name, values in mean_costs(case.cube).items()
    }
    require(np.stack([*costs_of_models.values()]), "Table 5 is not complete")
    multiples = []
    means = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for cost in costs:
            of_mc = costs_of_models[f"mc_{cost}"]
            of_pmc = costs_of_models[f"pmc_{cost}"]
            multiples.append(of_mc / of_pmc)
            means.append(float(of_mc.mean() / of_pmc.mean()))

    n_stopped = int(costs_of_models["stopped"].sum())
    stopped = ""
    if n_stopped:
        pairs = plural(n_stopped, "pair")
        stopped = f"; {pairs} of fits left out, as one stopped at its limit"
    said = numbers.format(
        cells=_table_5_cells(multiples),
        mean=", ".join(f"{mean:.1f}x" for mean in means),
        stopped=stopped,
    )
    if holds == "about":
        if not np.isfinite(means).all():
            return None, "no updates"
        return all(about(mean, published) for mean in means), said
    if holds == "alike":
        first, second = (values.ravel() for values in multiples)
        return all(map(about, second, first)), said
    return (np.stack(multiples) > 1).all(), said


def _table_5_cells(multiples: list[FloatArray]) -> str:
    """The multiples of each cost, by base model and alpha."""
    cells = []
    for m, model in enumerate(TABLE_5_MODELS):
        for a, alpha in enumerate(EQUIVALENT_ALPHAS):
            ratios = ", ".join(f"{of_cost[m, a]:.3g}x" for of_cost in multiples)
            cells.append(f"{model} at {alpha:g} {ratios}")
    return "; ".join(cells)


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
    by_excess = (
        case.evidence.setup.excess and costs == ["updates"] and published is not None
    )
    flags = []
    parts = []
    for metric in metrics:
        best = _costs_at_best(case, metric)
        idle = [method for method, there in best.items() if not _any_updates(there)]
        if idle:
            return None, f"{' and '.join(idle)} at its best without any update"
        for cost in costs:
            of_more = best[more][COSTS[cost]]
            of_less = best[less][COSTS[cost]]
            ratio = float(of_more.mean() / of_less.mean())
            unit = "x"
            if by_excess:
                if not (of_less > 0).all():
                    where = "some base model and grouping"
                    return None, f"{less} is at its best without any update for {where}"
                ratio = float(np.mean((of_more - of_less) / of_less))
                unit = " mean relative excess"

            as_published = published is None or about(ratio, published)
            flags.append(ratio > 1 and as_published)
            means = f"({of_more.mean():,.3g} and {of_less.mean():,.3g})"
            parts.append(f"{cost} for {METRICS[metric]} {ratio:.2f}{unit} {means}")
    said = f"{more} / {less}: {', '.join(parts)}{_fits_left_out(case)}"
    return all(flags), said


def _costs_at_best(case: Case, metric: str) -> dict[str, dict[str, FloatArray]]:
    """The medians of both methods at the alpha of their best median."""
    best = {}
    for method in (MC, PMC):
        _, at_best = case.cube.best(metric, method)
        unavailable = f"{metric} is not available for every base model and grouping"
        require(at_best[metric], unavailable)
        stopped = "every fit at some best alpha stopped at its limit"
        require(at_best["n_updates"], stopped)
        best[method] = at_best
    return best


def _any_updates(at_best: Mapping[str, FloatArray]) -> bool:
    return bool(at_best["n_updates"].mean() > 0)


def _fits_left_out(case: Case) -> str:
    """How many fits of both methods stopped at their limit, if any."""
    n_stopped = 0
    for method in (MC, PMC):
        n_stopped += int((case.cube.of_method("converged", method) == 0).sum())
    if not n_stopped:
        return ""
    return f"; {plural(n_stopped, 'fit')} left out that stopped at the limit"


def guarantee(case: Case, *, method: str, column: str) -> Answer:
    """In every trial that converged, the loss on the training set is at most alpha."""
    trials = case.evidence.stored
    trials = trials[trials["method"] == method]
    n_stopped = int((trials["converged"] == 0).sum())
    judged = trials[trials["converged"] == 1].dropna(subset=[column])
    if judged.empty:
        why = "there is no converged trial with a loss on the training set"
        raise NoVerdictError(why)

    kept = judged[column] <= judged["alpha"] + ROUNDING
    worst = float((judged[column] / judged["alpha"]).max())
    n_kept = f"{int(kept.sum()):,} of {len(kept):,} converged trials"
    numbers = f"{n_kept}; at most {worst:.3f} alpha"
    if n_stopped:
        stopped = plural(n_stopped, "trial")
        numbers += f"; {stopped} stopped at the limit and cannot be judged"
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
        if never:
            holds, said = _never_wins(case, reading, method, metrics)
        else:
            (metric,) = metrics
            shares = case.wins(reading, metric)
            holds = all(shares[method] > shares[m] for m in THREE if m != method)
            said = ", ".join(f"{m} {share:.0f} %" for m, share in shares.items())
        agreed.append(holds)
        parts.append(f"by {reading}: {said}")

    numbers = "; ".join(parts)
    if never:
        numbers = f"{method} best {numbers}"
    if len(agreed) > 1:
        held = f"holds by {sum(agreed)} of {len(agreed)} interpretations"
        numbers = f"{held}; {numbers}"
    return all(agreed), numbers


def _never_wins(
    case: Case, reading: str, method: str, metrics: Sequence[str]
) -> tuple[bool, str]:
    shares = {metric: case.wins(reading, metric)[method] for metric in metrics}
    numbers = [f"{METRICS[metric]} {share:.1f} %" for metric, share in shares.items()]
    return not any(shares.values()), ", ".join(numbers)


def curves_improve(case: Case) -> Answer:
    """The calibration error of three groups is smaller with PMCBoost."""
    counts = case.curve_counts
    if counts is None:
        raise NoVerdictError("no calibration curves of RF")
    errors = counts.errors
    if len(errors) < N_GROUPS:
        few = "fewer than three intersectional groups"
        raise NoVerdictError(f"{few} have a share of gamma of the test set", NOT_ASKED)

    numbers = []
    for group, before, after in zip(errors["group"], errors[BASE], errors[PMC]):
        name = subgroup(group, counts.attributes)
        numbers.append(f"{name}: {100 * before:.1f} % to {100 * after:.1f} %")
    said = f"off by {'; '.join(numbers)} (setting {counts.setting})"
    return bool((errors[PMC] < errors[BASE]).all()), said
