"""mc_loss, pmc_loss and dc_loss: the losses of scores in arrays or frames, and a scorer
for scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, Protocol, Unpack, cast

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

    def words(self) -> Groups:
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
        collection = self.words().collect(
            atoms, gamma=self.gamma, or_everybody=or_everybody
        )
        share = self.share_of(bins)
        people = self.min_people
        return cells.categories(
            atoms, collection, bins, min_share=share, min_people=people
        )


def _table(
    rule: CategoryRule, y: Values, score: Values, features: Table, weight: Values | None
) -> cells.Categories:
    words = definition(rule.groups, "all", "level")  # reading the rows only needs this
    atoms = rows_to_atoms(score, y, features, weight, groups=words, drop_missing=None)
    cells.check_outcome_groups(atoms)
    return rule.table(atoms)


class Loss(Protocol):
    """A loss as a function of people."""

    def __call__(
        self,
        y: Values,
        score: Values,
        *,
        sensitive_features: Table = None,
        sample_weight: Values | None = None,
        **settings: Unpack[LossOptions],
    ) -> float: ...


def _of_people(of_table: Callable[[cells.Categories, float], float]) -> Loss:
    """The loss of people, from that of categories at a floor rho on rates."""

    @spelled_out(LossRule)
    @wraps(of_table)
    def loss(y, score, *, sensitive_features=None, sample_weight=None, **settings):  # type: ignore[no-untyped-def]
        rule = CategoryRule(**settings)
        return of_table(
            _table(rule, y, score, sensitive_features, sample_weight), rule.rho
        )

    return loss


@takes_frame
@_of_people
def mc_loss(table: cells.Categories, rho: float) -> float:  # noqa: ARG001
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
    return cells.mc_of(table)


@takes_frame
@_of_people
def pmc_loss(table: cells.Categories, rho: float) -> float:
    """Largest difference of any cell as a share of its observed rate.

    Rates below `rho` are replaced by `rho`. The parameters are those of `mc_loss`.

    Examples
    --------
    >>> round(pmc_loss([1] * 4 + [0] * 6, [0.45] * 10), 4)
    0.125
    """
    return cells.pmc_of(table, rho)


@takes_frame
@_of_people
def dc_loss(table: cells.Categories, rho: float) -> float:
    """Largest log-ratio of two groups' observed rates in the same range of scores, over
    all pairs of groups.

    Rates below `rho` are replaced by `rho`. The parameters are those of `mc_loss`. With
    a DC loss of e, people with similar scores have the outcome up to exp(e) times as
    often in one group as in another.

    Examples
    --------
    Among people scored 0.25, four of ten women and two of ten men had the outcome: twice as often.

    >>> y = [1] * 4 + [0] * 6 + [1] * 2 + [0] * 8
    >>> round(dc_loss(y, [0.25] * 20, sensitive_features=["F"] * 10 + ["M"] * 10), 4)
    0.6931
    """
    return cells.dc_of(table, rho)


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
    y, score, sensitive_features, gamma, rho, n_bins, binning, intersections, missing, groups, sample_weight
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
    Of 100 people scored 0.25, 20 had the outcome; of 2 people scored 0.95, none. Two of 102 people stop
    counting at an alpha of 2 / 102 / (0.1 * 0.05), which is above 1, by the rule of Algorithm 1, but at
    2 / 102 / 0.1 by that of the definition:

    >>> y, score = [1] * 20 + [0] * 82, [0.25] * 100 + [0.95] * 2
    >>> round(smallest_alpha(y, score, kind="mc"), 4)
    0.95
    >>> round(smallest_alpha(y, score, kind="mc", size="definition"), 4)
    0.1961
    """
    given = {
        name: value
        for name, value in locals().items()
        if name in CategoryRule.__dataclass_fields__
    }
    check_choice("kind", kind, ("pmc", "mc"))
    check_choice("size", size, ("algorithm", "definition"))
    table = _table(CategoryRule(**given), y, score, sensitive_features, sample_weight)
    return cells.smallest_alpha_of(
        table, CRITERIA[kind](rho), gamma if size == "algorithm" else None
    )


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
    >>> X, y = pd.DataFrame({"sex": ["F"] * 10 + ["M"] * 10}), [1] * 4 + [0] * 6 + [1] * 2 + [0] * 8
    >>> model = DummyClassifier(strategy="prior").fit(X, y)  # scores everybody 0.3
    >>> round(loss_scorer(mc_loss, sensitive_features=["sex"])(model, X, y), 2)
    -0.1
    """
    columns = sensitive_features
    one = isinstance(columns, (str, int, np.integer))
    return _LossScorer(
        loss, (columns,) if one else tuple(cast(Sequence[str | int], columns)), settings
    )


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
