"""mc_loss, pmc_loss and dc_loss: losses of scores, and a scorer for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from propcal.core import categories as cells
from propcal.core.arguments import Intersections, Missing, Table, Values, check_choice
from propcal.core.atoms import Atoms
from propcal.core.bins import Binning, Bins, category_min_share, make_bins
from propcal.core.criterion import CRITERIA
from propcal.core.groups import Groups, definition
from propcal.options import LossOptions, LossRule, check_limits, spelled_out
from propcal.reading.frame_arguments import takes_frame
from propcal.reading.frames import columns_of_x
from propcal.reading.rows import rows_to_atoms

__all__ = ["dc_loss", "loss_scorer", "mc_loss", "pmc_loss", "smallest_alpha"]


@dataclass(frozen=True)
class CategoryRule(LossRule):
    """Which groups, bins and cells are included; `mc_loss` describes each setting."""

    def __post_init__(self) -> None:
        check_limits(self)

    def definition(self) -> Groups:
        """The definition of the groups."""
        return definition(self.groups, self.intersections, self.missing)

    def share_of(self, bins: Bins) -> float:
        """The smallest share of people that a cell may have."""
        if self.min_share is None:
            return category_min_share(self.alpha, self.gamma, bins)
        return self.min_share

    def table(self, atoms: Atoms, *, or_everybody: bool = False) -> cells.Categories:
        """Every cell, with groups and bins determined from these people."""
        bins = make_bins(
            self.binning,
            self.n_bins,
            rho=self.rho,
            score=atoms.score,
            weight=atoms.weight,
        )
        collection = self.definition().collect(
            atoms, gamma=self.gamma, or_everybody=or_everybody
        )
        return cells.categories(
            atoms,
            collection,
            bins,
            min_share=self.share_of(bins),
            min_people=self.min_people,
        )


def _categories(
    rule: CategoryRule, y: Values, score: Values, features: Table, weight: Values | None
) -> cells.Categories:
    """Every cell of people in arrays."""
    # to read the rows, it does not matter how groups are combined
    groups = definition(rule.groups, "all", "level")
    atoms = rows_to_atoms(score, y, features, weight, groups=groups, drop_missing=None)
    cells.check_outcome_groups(atoms)
    return rule.table(atoms)


@takes_frame
@spelled_out(LossRule)
def mc_loss(
    y: Values,
    score: Values,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    **settings: Unpack[LossOptions],
) -> float:
    """Largest absolute difference between observed and predicted rate of any cell (a
    group in a range).

    With a data frame of any kind, name its columns:
    ``mc_loss(frame, score="risk", outcome="died", groups=["sex"], weight="w")``.

    Parameters
    ----------
    y : array-like of shape (n,)
        Outcomes, 0 or 1 (or soft labels in between).
    score : array-like of shape (n,)
        Risk scores in [0, 1].
    sensitive_features : data frame, series or array with n rows, optional
        The attributes that define the groups; by default everybody is one group.
    alpha, gamma : float
        Groups with a share of at least `gamma` are included, and within them cells with
        a share of at least alpha * gamma / n_bins of all people, unless `min_share` is
        given.
    rho : float
        Lower outcome rates are replaced by this value (also the lowest edge of
        geometric bins).
    n_bins, binning : int, and "uniform", "geometric", "quantile" or a list of edges
    intersections : "all", "marginal" or a depth
    missing : "level", "exclude" or "error"
    groups : Groups, optional
        A definition of the groups; it replaces `intersections` and `missing`.
    min_share, min_people : float and int, optional
        The smallest share and number of people that a cell may have.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        NaN if no cell is large enough.

    Examples
    --------
    Ten people in one group and bin; four had the outcome, the mean score is 0.45:

    >>> round(mc_loss([1] * 4 + [0] * 6, [0.45] * 10), 4)
    0.05
    """
    rule = CategoryRule(**settings)
    table = _categories(rule, y, score, sensitive_features, sample_weight)
    return cells.mc_of(table)


@takes_frame
@spelled_out(LossRule)
def pmc_loss(
    y: Values,
    score: Values,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    **settings: Unpack[LossOptions],
) -> float:
    """Largest difference of any cell as a share of its observed rate.

    Rates below `rho` are replaced by `rho`. The parameters are those of `mc_loss`.

    Examples
    --------
    >>> round(pmc_loss([1] * 4 + [0] * 6, [0.45] * 10), 4)
    0.125
    """
    rule = CategoryRule(**settings)
    table = _categories(rule, y, score, sensitive_features, sample_weight)
    return cells.pmc_of(table, rule.rho)


@takes_frame
@spelled_out(LossRule)
def dc_loss(
    y: Values,
    score: Values,
    *,
    sensitive_features: Table = None,
    sample_weight: Values | None = None,
    **settings: Unpack[LossOptions],
) -> float:
    """Largest log-ratio of two groups' observed rates in the same range of scores, over
    all pairs of groups.

    Rates below `rho` are replaced by `rho`. The parameters are those of `mc_loss`. With
    a DC loss of e, people with similar scores have the outcome up to exp(e) times as
    often in one group as in another.

    Examples
    --------
    Among people scored 0.25, four of ten women and two of ten men had the outcome:
    twice as often.

    >>> y = [1] * 4 + [0] * 6 + [1] * 2 + [0] * 8
    >>> round(dc_loss(y, [0.25] * 20, sensitive_features=["F"] * 10 + ["M"] * 10), 4)
    0.6931
    """
    rule = CategoryRule(**settings)
    table = _categories(rule, y, score, sensitive_features, sample_weight)
    return cells.dc_of(table, rule.rho)


@takes_frame
def smallest_alpha(
    y: Values,
    score: Values,
    *,
    kind: Literal["pmc", "mc"] = "pmc",
    size: Literal["algorithm", "definition"] = "algorithm",
    sensitive_features: Table = None,
    gamma: float = 0.05,
    rho: float = 0.1,
    n_bins: int = 10,
    binning: Binning = "uniform",
    intersections: Intersections = "all",
    missing: Missing = "level",
    groups: Groups | None = None,
    sample_weight: Values | None = None,
) -> float:
    """The smallest alpha for which a score is (alpha, lambda)-PMC or -MC on these
    people.

    A loss depends on the alpha that decides which cells count; this does not. The score
    meets the definition for every larger alpha, and for none below.

    Parameters
    ----------
    y, score, sensitive_features, sample_weight
        As for `mc_loss`.
    gamma, rho, n_bins, binning, intersections, missing, groups
        As for `mc_loss`.
    kind : "pmc" or "mc"
    size : "algorithm" or "definition"
        Which cells count: those with a share of all people of at least alpha * lambda *
        gamma, as in Algorithm 1, or those with a share of their group of at least alpha
        * lambda, as in the definitions.

    Returns
    -------
    float
        NaN if there is no cell.

    Examples
    --------
    Of 100 people scored 0.25, 20 had the outcome; of 2 people scored 0.95, none. Two of
    102 people stop counting at an alpha of 2 / 102 / (0.1 * 0.05), which is above 1, by
    the rule of Algorithm 1, but at 2 / 102 / 0.1 by that of the definition:

    >>> y, score = [1] * 20 + [0] * 82, [0.25] * 100 + [0.95] * 2
    >>> round(smallest_alpha(y, score, kind="mc"), 4)
    0.95
    >>> round(smallest_alpha(y, score, kind="mc", size="definition"), 4)
    0.1961
    """
    check_choice("kind", kind, ("pmc", "mc"))
    check_choice("size", size, ("algorithm", "definition"))
    rule = CategoryRule(
        gamma=gamma,
        rho=rho,
        n_bins=n_bins,
        binning=binning,
        intersections=intersections,
        missing=missing,
        groups=groups,
    )
    table = _categories(rule, y, score, sensitive_features, sample_weight)
    criterion = CRITERIA[kind](rho)
    smallest_group = gamma if size == "algorithm" else None
    return cells.smallest_alpha_of(table, criterion, smallest_group)


def loss_scorer(
    loss: Callable[..., float],
    *,
    sensitive_features: str | int | Sequence[str | int],
    **settings: Unpack[LossOptions],
) -> Callable[..., float]:
    """A scorer for grid search and cross-validation that reads the groups from columns
    of X.

    Parameters
    ----------
    loss : mc_loss, pmc_loss or dc_loss
    sensitive_features : list of column names (or numbers) of X
    **settings
        Further arguments of the loss.

    Returns
    -------
    callable (estimator, X, y) -> float
        Minus the loss of the estimator's probability of the second class, so that
        larger is better. With metadata routing, ``make_scorer(pmc_loss,
        response_method="predict_proba",
        greater_is_better=False).set_score_request(sensitive_features=True)`` does the
        same for 0/1 outcomes.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.dummy import DummyClassifier
    >>> X = pd.DataFrame({"sex": ["F"] * 10 + ["M"] * 10})
    >>> y = [1] * 4 + [0] * 6 + [1] * 2 + [0] * 8
    >>> model = DummyClassifier(strategy="prior").fit(X, y)  # scores everybody 0.3
    >>> round(loss_scorer(mc_loss, sensitive_features=["sex"])(model, X, y), 2)
    -0.1
    """
    if isinstance(sensitive_features, (str, int, np.integer)):
        columns: tuple[str | int, ...] = (sensitive_features,)
    else:
        columns = tuple(sensitive_features)
    return _LossScorer(loss, columns, settings)


@dataclass(frozen=True)
class _LossScorer:
    """The result of `loss_scorer`; a class, so that a search that uses it can be
    pickled.
    """

    loss: Callable[..., float]
    sensitive_features: tuple[Any, ...]
    settings: LossOptions

    def __call__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any = None
    ) -> float:
        outcome = np.asarray(y) == estimator.classes_[1]
        score = estimator.predict_proba(X)[:, 1]
        features = columns_of_x(X, self.sensitive_features)
        return -self.loss(
            outcome,
            score,
            sensitive_features=features,
            sample_weight=sample_weight,
            **self.settings,
        )
