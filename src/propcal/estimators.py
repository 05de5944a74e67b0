"""PMCBoost and MCBoost as scikit-learn estimators: scores in, corrected scores out."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from propcal.core.atoms import Atoms
from propcal.core.bins import Binning
from propcal.core.boosting.boost import Settings, boost
from propcal.core.correction.correction import Correction, Update
from propcal.core.correction.fit_summary import FitSummary
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.grid import FloatArray
from propcal.core.groups.collection import Collection
from propcal.core.groups.groups import Groups
from propcal.data.rows_to_atoms import rows_to_atoms
from propcal.errors import Argument, InputError, Message


class Boost(BaseEstimator):
    """What the algorithms share: everything but the criterion (docs/extending.md)."""

    correction_: Correction
    groups_: Collection
    certificate_: FitSummary
    n_updates_: int
    n_sweeps_: int
    converged_: bool

    def __init__(
        self,
        alpha: float = 0.05,
        gamma: float = 0.05,
        rho: float = 0.1,
        n_bins: int = 10,
        binning: Binning = "uniform",
        eta: float = 1.0,
        intersections: Any = "all",
        max_updates: int = 100_000,
        order: str = "cyclic",
        sample: str | None = None,
        missing: str = "level",
        unseen: str = "replay",
        groups: Groups | None = None,
        start: str = "smooth",
        guard: str | float | None = "noise",
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.gamma = gamma
        self.rho = rho
        self.n_bins = n_bins
        self.binning = binning
        self.eta = eta
        self.intersections = intersections
        self.max_updates = max_updates
        self.order = order
        self.sample = sample
        self.missing = missing
        self.unseen = unseen
        self.groups = groups
        self.start = start
        self.guard = guard
        self.random_state = random_state

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """Algorithm 1 to the letter, whatever the defaults of this class become.

        Any argument of the constructor may be given. The others are the paper's: alpha 0.1, gamma
        0.05, rho 0.1, ten uniform bins, full steps, categories in order on all the data, from the raw
        score on and without a guard.
        """
        letter = {
            "alpha": 0.1,
            "gamma": 0.05,
            "rho": 0.1,
            "n_bins": 10,
            "binning": "uniform",
            "eta": 1.0,
            "intersections": "all",
            "order": "cyclic",
            "sample": None,
            "missing": "level",
            "start": "identity",
            "guard": None,
        }
        return cls(**{**letter, **settings})

    def fit(self, score: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None) -> Self:
        """Learn a correction.

        Parameters
        ----------
        score : array-like of shape (n,)
            Risk scores in [0, 1], best of people whom the model was not trained on.
        y : array-like of shape (n,)
            Outcomes, 0 or 1 (or soft labels between).
        sensitive_features : data frame, series or array with n rows, optional
            The attributes that define the groups; None is one group, everybody.
        sample_weight : array-like of shape (n,), optional
            Weight 2 counts a row twice, weight 0 not at all.
        """
        settings = self.settings()  # a wrong argument is told before the data are read
        atoms = rows_to_atoms(score, y, sensitive_features, sample_weight, groups=settings.definition())
        return self._fit(atoms, settings)

    def fit_atoms(self, atoms: Atoms) -> Self:
        """Learn a correction from atoms; the same as `fit` on the rows they were made of."""
        if not isinstance(atoms, Atoms):
            raise InputError(
                f"fit_atoms takes Atoms, as from Atoms.from_frame; got {type(atoms).__name__}",
                argument="atoms",
            )
        return self._fit(atoms, self.settings())

    def _criterion(self) -> Criterion:
        """How large a gap may be."""
        raise NotImplementedError

    def _random(self, settings: Settings) -> np.random.Generator:
        """A source of random numbers, seeded where any are drawn."""
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        if settings.order != "random" and settings.sample is None:
            return np.random.default_rng(0)
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def settings(self) -> Settings:
        """The parameters, checked."""
        arguments = self.get_params(deep=False)
        del arguments["random_state"]
        return Settings(criterion=self._criterion(), **arguments)

    def _fit(self, atoms: Atoms, settings: Settings) -> Self:
        result = boost(atoms, settings, self._random(settings))
        self.correction_ = result.correction
        self.groups_ = result.collection
        self.certificate_ = result.certificate
        self.n_updates_ = result.correction.n_updates
        self.n_sweeps_ = result.n_sweeps
        self.converged_ = result.converged
        if not result.converged:
            warnings.warn(
                Message(
                    f"{type(self).__name__} stopped after {self.n_updates_:,} updates ("
                    + Argument("max_updates")
                    + f"={self.max_updates:,}) before every category was within its cutoff",
                    argument="max_updates",
                    next_step="raise " + Argument("max_updates") + " or alpha, or bring eta closer to 1",
                ),
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    @property
    def updates_(self) -> list[Update]:
        """The updates in order, as (group, bin, shift); a smooth start is the first."""
        check_is_fitted(self, "correction_")
        return self.correction_.update_list()

    def predict(
        self,
        score: Any,
        *,
        sensitive_features: Any = None,
        n_updates: int | None = None,
        invalid: str = "error",
    ) -> FloatArray:
        """Correct scores.

        Parameters
        ----------
        score : array-like of shape (n,)
            Raw scores in [0, 1].
        sensitive_features : data frame, series or array with n rows
            The attributes of each person, by the names they had in `fit`.
        n_updates : int, optional
            Apply only the first so many updates, of which a smooth start is the first; 0 returns
            the scores as they came.
        invalid : "error", "null" or "keep", default="error"
            A score that is missing or no probability is refused, gives NaN, or is kept as it is.

        Returns
        -------
        array of float64, shape (n,)
            A person's corrected score does not depend on who else is in the batch.
        """
        check_is_fitted(self, "correction_")
        corrected = self.correction_.apply(score, sensitive_features, n_updates=n_updates, invalid=invalid)
        return np.asarray(corrected)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        return tags


class PMCBoost(Boost):
    """Post-process risk scores for proportional multicalibration, and do no harm.

    First a smooth recalibration, for everybody and for each group, learned as far as the data speak
    for it. Then Algorithm 1: sweeps over the (group, bin) categories that shift the scores of those
    whose gap between outcome rate and mean score is at least ``alpha * max(rate, rho)`` and more than
    noise, until none is left. A score that is right is returned as it came, 19 times in 20.
    `PMCBoost.paper` is the paper's algorithm to the letter.

    Parameters
    ----------
    alpha : float, default=0.05
        Tolerance: a category's gap may be this share of its outcome rate.
    gamma : float, default=0.05
        Smallest share of people that a group may have. Smaller groups are left out and listed in
        `groups_`; a category counts if its share is at least ``alpha * gamma / n_bins``.
    rho : float, default=0.1
        Floor on the outcome rate: below it the cutoff is ``alpha * rho``.
    n_bins : int, default=10
        Number of score bins; 1 asks for calibration on average (multiaccuracy).
    binning : "uniform", "geometric", "quantile" or list of edges, default="uniform"
        Geometric bins have equal ratios between `rho` and 1, and one bin below; quantile bins
        have equally many of the fitting people each.
    eta : float, default=1.0
        Step size, in (0, 2]: share of the gap that an update closes. At 2 a gap is mirrored, not
        closed.
    intersections : "all", "marginal" or int, default="all"
        Groups are single attributes and all their intersections, single attributes alone, or
        intersections up to a depth.
    max_updates : int, default=100_000
        Limit on the number of updates; reaching it gives a ConvergenceWarning.
    order : "cyclic", "random" or "worst", default="cyclic"
        How a sweep visits categories: in the order of the groups and bins, shuffled anew each
        sweep, or only the one that exceeds its cutoff by the largest factor.
    sample : None or "bootstrap", default=None
        Measure gaps on all the data, or on a bootstrap sample drawn anew each sweep.
    missing : "level", "exclude" or "error", default="level"
        A missing attribute is a level of its own, makes no group, or is refused.
    unseen : "replay", "keep" or "error", default="replay"
        For combinations of attributes not seen in fitting: apply the updates of the groups that
        they do belong to, leave their scores as they are, or raise an error.
    groups : Groups, optional
        Groups in your words: cut points, named conditions, chosen intersections. It says
        `intersections` and `missing` itself.
    start : "smooth" or "identity", default="smooth"
        Where the updates begin: at a smooth recalibration in log-odds (a constant, a slope and a
        curve for everybody, each group and each intersection of at least 50 people, shrunk towards
        no change), or at the score as it is. The smooth start is only made if a test finds the
        score wrong; one of 50 perfect scores fails it by chance.
    guard : "noise", None or float, default="noise"
        A gap must also exceed so many standard errors. "noise" takes the 98th percentile of what
        the worst category of a perfect score shows on these people, None updates whatever reaches
        its cutoff. Under a guard an update closes the gap but for what may be luck.
    random_state : int, RandomState, Generator or None, default=None
        Seed for `order` "random" and `sample` "bootstrap".

    Attributes
    ----------
    correction_ : Correction
        What was learned; save it with ``correction_.save("model.json")``.
    certificate_ : FitSummary
        Which categories of the fitting people are now within alpha, within noise, or neither, in
        words and as a table; and what the fit did otherwise than asked for.
    updates_ : list of Update
        The smooth start, if there is one, is the first.
    n_updates_, n_sweeps_ : int
    converged_ : bool
        Whether every category that counts is within its cutoff, or within noise under a guard (under
        `sample`, on the last draw).
    groups_ : Collection
        The groups that counted, and those left out, with their sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from propcal import PMCBoost
    >>> group, score = np.repeat(["a", "b"], 1000), np.full(2000, 0.3)
    >>> y = np.r_[np.ones(200), np.zeros(800), np.ones(400), np.zeros(600)]  # 20 % and 40 %
    >>> cal = PMCBoost().fit(score, y, sensitive_features=group)
    >>> cal.predict([0.3, 0.3], sensitive_features=["a", "b"]).round(2)
    array([0.2, 0.4])
    >>> cal.certificate_
    Changed by a smooth start, fitted to 2,000 people.
    All 2 categories are within alpha.
    All scores are alike: the smooth start has no slope and no curve.
    >>> PMCBoost().fit(cal.predict(score, sensitive_features=group), y, sensitive_features=group).certificate_
    No change: the score is calibrated as far as these 2,000 people can tell.
    All 2 categories are within alpha.
    """

    def _criterion(self) -> Criterion:
        return proportional(self.rho)


class MCBoost(Boost):
    """Post-process risk scores for multicalibration: as PMCBoost, with the cutoff `alpha`.

    Takes the same arguments; `rho` matters to geometric bins and for reporting only.

    Examples
    --------
    >>> import numpy as np
    >>> from propcal import MCBoost
    >>> y = np.r_[np.ones(200), np.zeros(800)]
    >>> MCBoost().fit(np.full(1000, 0.3), y).predict([0.3]).round(2)
    array([0.2])
    """

    def _criterion(self) -> Criterion:
        return multicalibration()
