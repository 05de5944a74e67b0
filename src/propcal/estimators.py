"""PMCBoost and MCBoost: scikit-learn estimators that learn and apply a correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, TypedDict, Unpack, overload

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from propcal.auditing.decision import errors_found_in
from propcal.auditing.statistics.measures import reversed_ranking, surely_not_reversed
from propcal.auditing.statistics.sample import Sample
from propcal.core.arguments import Invalid, Label, Parameters, Table, Unseen, Values
from propcal.core.atoms import Atoms
from propcal.core.correction.correction import Correction, How, Update
from propcal.core.correction.fit_summary import FitSummary
from propcal.core.criterion import Criterion, multicalibration, proportional
from propcal.core.fit.boost import (
    BoostResult,
    FittingData,
    Settings,
    boost,
    learn_curve,
)
from propcal.core.fit.evidence import FoundErrors
from propcal.core.grid import FloatArray
from propcal.core.groups import Collection, Groups, Labels
from propcal.core.reduction import without_keys
from propcal.discovery.out_of_fold import confirmed_groups, weakened, with_found
from propcal.discovery.points_of_rows import (
    LearnedPoints,
    learn_points,
    without_features,
)
from propcal.errors import InputError, Message, refused, warn_user
from propcal.numbers import plural
from propcal.options import Identity, Seed
from propcal.reading.frame_arguments import method_takes_frame
from propcal.reading.frames import column_names
from propcal.reading.rows import (
    read_people,
    rows_of_people,
    wanted_columns,
    warn_of_unused_ids,
)

__all__ = ["MCBoost", "PMCBoost"]


class FitOptions(TypedDict, total=False):
    """Further arguments of `fit`."""

    cluster: Values | None
    positive: Label
    drop_missing: bool
    unit: str
    labels: Labels | None


@dataclass(eq=False, repr=False)
class Boost(Parameters, BaseEstimator):
    """Base class of the estimators, which differ only in their criterion
    (docs/extending.md).
    """

    allow_reversed: bool = False
    random_state: Seed | np.random.RandomState = None
    discover: Sequence[str] | None = None
    min_share: float | None = None
    features: Sequence[str] | None = None

    @classmethod
    def paper(cls, **settings: object) -> Self:
        """Algorithm 1 exactly as in the paper, even if the defaults of this class
        change.

        Any argument of the constructor may be given. All others have the paper's
        values: alpha 0.1, gamma 0.05, rho 0.1, ten uniform bins, adjustments by the
        full gap (eta 1), cells visited in order on all the data, no recalibration
        first, and no guard.
        """
        of_paper: dict[str, Any] = {
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
            "monotone": False,
        }
        return cls(**{**of_paper, **settings})

    def _fitting_columns(self) -> list[str]:
        """The columns of a frame that the definitions of groups and the search read."""
        groups = Groups(columns=[]) if self.groups is None else self.groups
        if groups.columns is None:
            groups = replace(groups, columns=[])
        of_groups = wanted_columns(groups) or []
        searched = self._column_list("discover")
        features = self._column_list("features")
        return list(dict.fromkeys([*of_groups, *searched, *features]))

    def _scoring_columns(self) -> tuple[str, ...]:
        """The columns of a frame that the correction reads."""
        check_is_fitted(self, "correction_")
        return self.correction_.reads

    @overload
    def fit(
        self,
        score: Values,
        y: Values,
        *,
        sensitive_features: Table = ...,
        sample_weight: Values | None = ...,
        **settings: Unpack[FitOptions],
    ) -> Self: ...
    @overload
    def fit(
        self,
        frame: Table = ...,
        /,
        *,
        score: Values = ...,
        outcome: Values,
        groups: Table = ...,
        weight: Values | None = ...,
        **settings: Unpack[FitOptions],
    ) -> Self: ...
    @method_takes_frame(_fitting_columns)
    def fit(
        self,
        score: Values,
        y: Values,
        *,
        sensitive_features: Table = None,
        sample_weight: Values | None = None,
        cluster: Values | None = None,
        positive: Label = None,
        drop_missing: bool = False,
        unit: str = "",
        labels: Labels | None = None,
    ) -> Self:
        """Learn a correction.

        With a data frame of any kind, name its columns: ``fit(frame, score="risk",
        outcome="died", groups=["sex"], weight="w", cluster="patient")``.

        Parameters
        ----------
        score : array-like of shape (n,)
            Risk scores in [0, 1]. Ideally, use people the model was not trained on.
        y : array-like of shape (n,)
            Outcomes, 0 or 1 (or soft labels in between).
        sensitive_features : data frame, series or array with n rows, optional
            The attributes that define the groups; by default everybody is one group.
        sample_weight : array-like of shape (n,), optional
            A row of weight 2 counts as two people; a row of weight 0 is ignored.
        cluster : array-like of shape (n,), optional
            Patient IDs, if there are repeat visits: rows of one person then count as
            less than rows of different people, so that chance explains larger errors.
        positive : optional
            The value of `y` that means the event, such as "EXPIRED"; every other value
            then means no event. Not needed for 0 and 1, nor for yes/no, y/n, true/false
            or t/f in any case.
        drop_missing : bool, default=False
            Leave out people without a score or an outcome; `fit_summary_` says how
            many, and from which groups.
        unit : str, optional
            Plural noun for those who are scored, such as "patients", in `fit_summary_`.
            The default is "people", or "visits" with `cluster`.
        labels : dict, optional
            Names of levels for people to read: ``{"sex": {"F": "women", "M": "men"}}``.
        """
        settings = self.settings()
        identity = Identity(unit=unit, labels=labels or {})
        names = self.__dict__.pop("_column_names", {})
        features = self._column_list("features")
        searched = self._column_list("discover")
        if features:
            self._refuse_roles(features, names)

        groups = settings.definition()
        reads_all = features or searched
        people, columns = read_people(
            score,
            y,
            sensitive_features,
            sample_weight,
            cluster=cluster,
            wanted=None if reads_all else wanted_columns(groups),
            positive=positive,
            drop_missing=drop_missing,
        )
        if features:
            groups = without_features(groups, list(columns), features)
        effect_shares: dict[str, float] = {}
        if searched:
            self.discovered_, effect_shares = confirmed_groups(
                people, columns, searched
            )
            groups = with_found(groups, list(columns), searched, self.discovered_)
        if reads_all:
            settings = replace(
                settings, groups=groups, intersections="all", missing="level"
            )

        rows = rows_of_people(people, columns, groups)
        if cluster is None:
            warn_of_unused_ids(sensitive_features, groups)
        learn = None
        if features:
            learn = partial(learn_points, rows, people, columns, features)
        about = {"score": names.get("score"), "outcome": names.get("y")}
        self._fit(rows.atoms(), settings, about, identity, learn, effect_shares)
        if features:
            self._columns_in_fit = tuple(columns)
        return self

    def fit_atoms(
        self,
        atoms: Atoms,
        *,
        score: str | None = None,
        outcome: str | None = None,
        unit: str = "",
        labels: Labels | None = None,
    ) -> Self:
        """Learn a correction from atoms; the result is the same as with `fit` on the
        rows.

        `score` and `outcome` are what the file of the correction calls them; atoms do
        not know it. `unit` and `labels` are as for `fit`.
        """
        if not isinstance(atoms, Atoms):
            raise refused("not atoms", kind=type(atoms).__name__)
        if self.features is not None:
            raise refused("features of atoms")
        if self.discover is not None:
            raise refused("discover in atoms")
        about = {"score": score, "outcome": outcome}
        identity = Identity(unit=unit, labels=labels or {})
        return self._fit(atoms, self.settings(), about, identity)

    def _column_list(self, argument: Literal["discover", "features"]) -> list[str]:
        """The columns to search for groups, or to give points; none if the argument is
        not given.
        """
        given = getattr(self, argument)
        names = column_names(argument, given)
        if not names and given is not None:
            what = "search" if argument == "discover" else "give points"
            problem = f"{argument}: name at least one column to {what}"
            raise InputError(problem, argument=argument)
        return names

    def _refuse_roles(self, features: Sequence[str], names: Mapping[str, str]) -> None:
        """Refuse features beside a fit without a curve, and a feature that is the score
        or the outcome.
        """
        if self.start != "smooth":
            raise refused("features without curve")
        for role, title in (("score", "score"), ("y", "outcome")):
            if names.get(role) in features:
                raise refused("feature is role", column=names[role], title=title)

    def _criterion(self) -> Criterion:
        """The criterion for how large a gap may be."""
        raise NotImplementedError

    def _random(self, settings: Settings) -> np.random.Generator:
        """The random number generator, seeded by `random_state` if the settings need
        random numbers.
        """
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        if settings.order != "random" and settings.sample is None:
            return np.random.default_rng(0)
        return np.random.default_rng(
            check_random_state(self.random_state).randint(2**31 - 1)
        )

    def settings(self) -> Settings:
        """Check the parameters and return them."""
        arguments = self.get_params(deep=False)
        for name in ("random_state", "allow_reversed", "discover", "features"):
            del arguments[name]
        return Settings(criterion=self._criterion(), **arguments)

    def _fit(
        self,
        atoms: Atoms,
        settings: Settings,
        about: Mapping[str, str | None],
        identity: Identity,
        learn: Callable[..., LearnedPoints] | None = None,
        effect_shares: Mapping[str, float] | None = None,
    ) -> Self:
        atoms = without_keys(atoms)
        self._refuse_reversed(atoms)
        data = FittingData.of(atoms, settings)
        evidence = None
        if settings.needs_evidence:
            evidence = errors_found_in(data, settings)

        curve = None
        if (learn is not None or effect_shares) and settings.max_updates > 0:
            curve = learn_curve(data, settings, evidence or FoundErrors(tested=False))
            curve = replace(curve, start=weakened(curve.start, effect_shares or {}))
        points = None
        added = None
        if learn is not None and curve is not None:
            points = learn(curve.start, effect=data.effect)
            added = points.added
            curve = replace(curve, start=points.start)
        result = boost(data, settings, self._random(settings), evidence, curve, added)
        if points is not None:
            result = _with_gains(result, points)

        names = {role: name for role, name in about.items() if name is not None}
        unit = identity.unit or data.unit
        if unit != "people":
            names["unit"] = unit
        correction = result.correction
        self.correction_: Correction = replace(
            correction, about={**correction.about, **names}
        )
        self._columns_in_fit = tuple(atoms.patterns.reads)
        self.groups_: Collection = result.collection
        self.fit_summary_: FitSummary = replace(
            result.fit_summary, unit=unit, level_labels=identity.labels
        )
        self.n_updates_ = correction.n_updates
        self.n_sweeps_ = result.n_sweeps
        self.converged_ = result.converged
        if not result.converged:
            warn_user(self._not_converged(), ConvergenceWarning)
        return self

    def _refuse_reversed(self, atoms: Atoms) -> None:
        """Refuse a score that ranks people the wrong way round: correcting it would
        hide the mistake.
        """
        if self.allow_reversed or surely_not_reversed(atoms):
            return
        # near enough, and much faster than by single scores
        area = reversed_ranking(Sample.of(atoms).cells)
        if area is not None:
            raise refused("reversed", auroc=area.value)

    def _not_converged(self) -> Message:
        """Why some cells still exceed the tolerance, and what to do about it."""
        if self.n_updates_ < self.max_updates:
            why = "steps too small"
        else:
            why = "too many steps"
        stopped = f"{type(self).__name__} did not converge: it stopped after"
        stopped += f" {plural(self.n_updates_, 'adjustment')}"
        return refused(why, stopped=stopped, most=self.max_updates).message

    @property
    def certificate_(self) -> FitSummary:
        """The old name of `fit_summary_`."""
        return self.fit_summary_

    @property
    def updates_(self) -> list[Update]:
        """The adjustments in order, as (group, bin, shift); a smooth recalibration is
        the first.
        """
        check_is_fitted(self, "correction_")
        return self.correction_.update_list()

    @overload
    def predict(
        self, score: Values, *, sensitive_features: Table = ..., **how: Unpack[How]
    ) -> FloatArray: ...
    @overload
    def predict(
        self, frame: Table, /, *, score: str, **how: Unpack[How]
    ) -> FloatArray: ...
    @method_takes_frame(_scoring_columns)
    def predict(
        self,
        score: Values,
        *,
        sensitive_features: Table = None,
        n_updates: int | None = None,
        unseen: Unseen | None = None,
        invalid: Invalid = "error",
    ) -> FloatArray:
        """Correct scores.

        ``predict(frame, score="risk")`` takes the attributes from the columns of a data
        frame.

        Parameters
        ----------
        score : array-like of shape (n,)
            Raw scores in [0, 1].
        sensitive_features : data frame, series or array with n rows
            The attributes of each person, with the same names as in `fit`.
        n_updates : int, optional
            Apply only this many adjustments. A smooth recalibration counts as the
            first; with 0 the scores are returned unchanged.
        unseen : "replay", "keep" or "error", optional
            Overrides the estimator's policy for combinations that did not occur in
            fitting.
        invalid : "error", "null" or "keep", default="error"
            What to do with scores that are missing or outside [0, 1]: raise an error,
            return NaN, or return them unchanged.

        Returns
        -------
        array of float64, shape (n,)
            A person's corrected score does not depend on who else is in the batch.
        """
        check_is_fitted(self, "correction_")
        features = self._columns_read(sensitive_features)
        how: dict[str, Any] = {
            "n_updates": n_updates,
            "unseen": unseen,
            "invalid": invalid,
        }
        return np.asarray(self.correction_.apply(score, features, **how))

    def _columns_read(self, sensitive_features: Any) -> Any:
        """Of the columns of an array, which have no names, those that the correction
        reads.
        """
        given = sensitive_features
        if not (
            self.correction_.not_read and isinstance(given, (list, tuple, np.ndarray))
        ):
            return given
        if isinstance(given, np.ndarray):
            array = given
        else:
            array = np.array(given, dtype=object)
        if array.ndim != 2 or array.shape[1] != len(self._columns_in_fit):
            return given
        return array[
            :, [self._columns_in_fit.index(name) for name in self.correction_.reads]
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        return tags


def _with_gains(result: BoostResult, points: LearnedPoints) -> BoostResult:
    """The result with what points gain, and with the features that it does not read."""
    about = result.correction.about
    idle = [name for name in points.without if name not in result.correction.reads]
    if idle:
        about = {
            **about,
            "not_read": list(dict.fromkeys([*about.get("not_read", ()), *idle])),
        }
    correction = replace(result.correction, about=about)
    summary = replace(result.fit_summary, correction=correction, gains=points.gains)
    return replace(result, correction=correction, fit_summary=summary)


class PMCBoost(Boost):
    """Correct a risk score by proportional multicalibration.

    The tests of an audit decide first: if they find no miscalibration in the fitting
    data, the score is returned unchanged, which happens to a calibrated score in about
    19 of 20 fits. Otherwise the score is recalibrated with a smooth curve for everybody
    and for each group, shrunk more in small groups. Algorithm 1 of the paper follows:
    it goes through the cells (a group within a range of scores; the paper says
    category) and shifts the scores of a cell if the gap between its observed and
    predicted rate is at least ``alpha * max(rate, rho)`` and larger than chance
    explains, until no such cell is left. Within a combination of attributes, a higher
    score never becomes a lower one. `PMCBoost.paper` is the algorithm exactly as in the
    paper.

    Parameters
    ----------
    alpha : float, default=0.05
        Tolerance: the largest gap allowed in a cell, as a share of its observed rate.
    gamma : float, default=0.05
        The smallest share of people that a group may have, unless it was named
        (`Groups(where=...)`, masks, discovery). Smaller groups are left out and listed
        in `groups_`; a cell is left out if its share is below ``alpha * gamma /
        n_bins``.
    rho : float, default=0.1
        Floor on the outcome rate: for lower rates the largest gap allowed is ``alpha *
        rho``.
    n_bins : int, default=10
        Number of score bins; with 1 bin, groups are only calibrated on average
        (multiaccuracy).
    binning : "uniform", "geometric", "quantile" or list of edges, default="uniform"
        Uniform bins have equal widths; geometric bins have equal ratios between `rho`
        and 1, and one bin below `rho`; quantile bins have the same number of people
        each.
    eta : float, default=1.0
        Step size, in (0, 2]: the share of the gap that an adjustment closes. With 2,
        the gap changes its sign instead of closing.
    intersections : "all", "marginal" or int, default="all"
        Use single attributes and all their intersections as groups, only single
        attributes, or intersections of up to this many attributes.
    max_updates : int, default=100_000
        The most adjustments that a fit may make; reaching the limit gives a
        ConvergenceWarning.
    order : "cyclic", "random" or "worst", default="cyclic"
        How a sweep visits cells: in the order of groups and bins, in a new random order
        each sweep, or only the cell that exceeds its cutoff by the largest factor.
    sample : None or "bootstrap", default=None
        Measure gaps on all the data, or on a new bootstrap sample in each sweep.
    missing : "level", "exclude" or "error", default="level"
        How to treat missing attributes: as a group of their own, as no group, or as an
        error.
    unseen : "replay", "keep" or "error", default="replay"
        For combinations of attributes that did not occur in fitting: apply the
        adjustments of the groups that they do belong to, leave their scores unchanged,
        or raise an error.
    groups : Groups, optional
        A definition of the groups by cut points, named conditions and chosen
        intersections. It replaces `intersections` and `missing`.
    start : "smooth" or "identity", default="smooth"
        Whether to recalibrate before the adjustments. "smooth" recalibrates with a
        smooth curve in log-odds (a constant, a slope, a curve and local bumps for
        everybody, and their departures for each group and each intersection of at least
        11 people, shrunk towards no change), but only if the tests of an audit find the
        score miscalibrated. "identity" begins with the score itself.
    guard : "noise", None or float, default="noise"
        How many standard errors a gap must also exceed. "noise" uses the 98th
        percentile of the largest gap that chance would produce if the score were
        perfect, and adjusts nothing if the tests of an audit find no miscalibration.
        None adjusts every cell that reaches its cutoff. With a guard, an adjustment
        closes only the part of the gap that is not likely chance.
    monotone : bool, default=True
        Within a combination of attributes, never turn a higher score into a lower one:
        where adjustments would do so, the corrected score is held at that of lower
        scores. With ``guard=None``, some cells may then remain outside their tolerance;
        `fit_summary_` lists them.
    allow_reversed : bool, default=False
        Fit also a score that ranks people the wrong way round: an AUROC below 0.4 whose
        95 % CI excludes 0.5, with at least 50 events. It is refused otherwise, being
        probably a survival probability.
    random_state : int, RandomState, Generator or None, default=None
        Seed for `order` "random" and `sample` "bootstrap".
    discover : list of str, optional
        Columns of `sensitive_features` in which to look for groups that nobody named
        (see `propcal.discover`). Groups are found in each half of the people and used
        if the other half confirms them; `discovered_` lists them. The columns make no
        groups by themselves.
    min_share : float, optional
        The smallest share of all people that a cell may have, in place of ``alpha *
        gamma / n_bins``: ``alpha / n_bins`` is the size rule in the paper's definitions
        of the losses.
    features : list of str, optional
        Columns of `sensitive_features` to give points to: beside curve and groups, each
        level or range of each feature adds its own log-odds, shrunk towards none.
        Points are given only if they improve the score for people who were left out of
        the fit by 1.5 standard errors (five folds). The columns make no groups, unless
        `groups` names them. `correction_.points` is the table, and `fit_summary_.gains`
        says how much curve, groups and points gain.

    Attributes
    ----------
    correction_ : Correction
        The fitted correction; save it with ``correction_.save("model.json")``.
    discovered_ : dict
        The groups that were found, with the condition of each; only with `discover`.
    fit_summary_ : FitSummary
        How many cells of the fitting data are within tolerance, could be off by chance,
        or exceed the tolerance, in sentences and as a table; and where the fit departed
        from what was asked for.
    updates_ : list of Update
        The adjustments; a smooth recalibration, if there is one, is the first.
    n_updates_, n_sweeps_ : int
    converged_ : bool
        Whether no cell exceeds its cutoff or, with a guard, exceeds it by more than
        chance explains (with `sample`, in the last sample).
    groups_ : Collection
        The groups that were used, and those left out, with their sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from propcal import PMCBoost
    >>> score = np.full(2000, 0.3)
    >>> group = np.repeat(["a", "b"], 1000)
    >>> y = np.repeat([1, 0, 1, 0], [200, 800, 400, 600])  # 20 % and 40 %
    >>> cal = PMCBoost().fit(score, y, sensitive_features=group)
    >>> cal.predict([0.3, 0.3], sensitive_features=["a", "b"]).round(2)
    array([0.2, 0.4])
    >>> cal.fit_summary_
    Recalibrated with a smooth curve, fitted to 2,000 people.
    Tests found that the raw score is miscalibrated for a and b, that calibration
    differs between groups and that the largest gap of a cell is more than chance
    explains.
    In the fitting data, both cells (subgroup and risk range) are within the tolerance.
    Corrected scores depend on sensitive_feature_0.
    All scores are equal, so each group is recalibrated by a constant shift only.
    >>> corrected = cal.predict(score, sensitive_features=group)
    >>> PMCBoost().fit(corrected, y, sensitive_features=group).fit_summary_
    No change: no miscalibration found in the 2,000 people used to fit.
    In the fitting data, both cells (subgroup and risk range) are within the tolerance.
    """

    def _criterion(self) -> Criterion:
        return proportional(self.rho)


class MCBoost(Boost):
    """Post-process risk scores for multicalibration: like PMCBoost, but every gap may
    be up to `alpha`.

    It takes the same arguments; `rho` is only used for geometric bins and in reports.

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
