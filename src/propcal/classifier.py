"""MulticalibratedClassifier: a classifier, with probabilities corrected for groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils import Bunch, assert_all_finite, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d

from propcal.core.arguments import Table, Values
from propcal.core.correction.correction import Correction
from propcal.core.correction.explain import Explanation
from propcal.core.correction.fit_summary import FitSummary
from propcal.core.grid import FloatArray
from propcal.core.groups import Labels
from propcal.errors import InputError, refused, warn_user
from propcal.estimators import MCBoost, PMCBoost
from propcal.reading.frames import column_names, columns_of_x
from propcal.reading.rows import wanted_columns

WEAK_PENALTY = 1e6  # scikit-learn's C: the larger, the weaker
# in scikit-learn's words
ONLY_BINARY = "Only binary classification is supported. The type of the target is {}."


ONE_CLASS = "y has only one class; both classes must occur to fit a correction"


class MulticalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Wrap a classifier so that its probabilities are calibrated within groups.

    The correction is learned from out-of-fold scores, so that each person is scored by
    a model that was not trained on them, and is then applied to one model refitted on
    everybody (like scikit-learn's ``CalibratedClassifierCV(ensemble=False)``). A
    ``FrozenEstimator`` is not refitted; call `fit` with people it was not trained on.

    Parameters
    ----------
    estimator : classifier with `predict_proba` or `decision_function`
        Decision values are turned into probabilities by logistic regression.
    calibrator : PMCBoost or MCBoost, default=PMCBoost()
    sensitive_features : list of column names (or numbers) of X, optional
        The columns that define the groups; the estimator uses them as well.
        Alternatively, pass the data to `fit` and `predict_proba`.
    cv : int, splitter or iterable of splits, default=5
        Each row must be in exactly one test fold. If there are repeat visits, use
        ``GroupKFold`` and pass the patient IDs to `fit` as `groups`.
    n_jobs : int, optional
        The number of folds to fit at the same time.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The second one is the outcome.
    estimator_ : the classifier refitted on everybody
    calibrator_ : the fitted calibrator
    correction_ : Correction

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from propcal import MulticalibratedClassifier, PMCBoost
    >>> from propcal.datasets import make_ed_visits
    >>> visits = make_ed_visits(20_000, seed=0)
    >>> X = visits[["age", "n_previous_visits"]].assign(woman=visits.gender == "F")
    >>> model = MulticalibratedClassifier(
    ...     LogisticRegression(), PMCBoost(alpha=0.1), sensitive_features=["woman"]
    ... ).fit(X, visits.admitted)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        calibrator: PMCBoost | MCBoost | None = None,
        *,
        sensitive_features: str | int | Sequence[str | int] | None = None,
        cv: int | BaseCrossValidator | Iterable[tuple[Values, Values]] = 5,
        n_jobs: int | None = None,
        discover: Sequence[str] | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.sensitive_features = sensitive_features
        self.cv = cv
        self.n_jobs = n_jobs
        self.discover = discover

    def fit(
        self,
        X: Table,
        y: Values,
        *,
        sensitive_features: Table = None,
        sample_weight: Values | None = None,
        **params: object,
    ) -> Self:
        """Fit the classifier to everybody, and the correction to out-of-fold scores.

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_features)
        y : array-like of shape (n,)
            Two distinct labels; the larger one (second when sorted) is the outcome.
        sensitive_features : data frame, series or array with n rows, optional
            The attributes that define the groups, unless the constructor names columns
            of X.
        sample_weight : array-like of shape (n,), optional
            Used by the correction, and by the classifier if it takes weights.
        **params
            `groups` is passed to the splitter and everything else to the classifier's
            `fit`, unless metadata routing is enabled.
        """
        outcome, y = self._outcome(y)
        X, y, sample_weight = indexable(X, y, sample_weight)
        self._names = self._column_names()
        self._method = self._response()
        features = self._features(X, sensitive_features)
        routed = self._route(sample_weight, params)
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_ = self.estimator
            if not np.array_equal(self.estimator_.classes_, self.classes_):
                own = self.classes_.tolist()
                known = np.asarray(self.estimator_.classes_).tolist()
                raise refused("other classes", own=own, known=known)
            raw = getattr(self.estimator_, self._method)(X)
        else:
            folds = self._folds(X, y, outcome, routed.splitter.split)
            raw = self._out_of_fold(X, y, folds, routed.estimator.fit)
            self.estimator_ = clone(self.estimator).fit(X, y, **routed.estimator.fit)
        self._scale = _probability_scale(raw, outcome, sample_weight)
        calibrator = PMCBoost() if self.calibrator is None else clone(self.calibrator)
        if self.discover is not None:
            searched = column_names("discover", self.discover, " of X")
            calibrator.set_params(discover=searched)
        self.calibrator_ = calibrator.fit(
            self._scale(raw),
            outcome,
            sensitive_features=features,
            sample_weight=sample_weight,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _out_of_fold(
        self, X: Any, y: Any, folds: list[tuple[Any, Any]], params: dict[str, Any]
    ) -> Any:
        """For each row, the response of a model that was not trained on it."""
        jobs = []
        for train, test in folds:
            fold = _Fold(X, y, train, test, params)
            job = delayed(_fold_response)(clone(self.estimator), fold, self._method)
            jobs.append(job)
        parts = Parallel(n_jobs=self.n_jobs)(jobs)
        raw = np.empty((len(y), *np.shape(parts[0])[1:]))
        for (_, test), part in zip(folds, parts):
            raw[test] = part
        return raw

    @property
    def correction_(self) -> Correction:
        """The fitted correction."""
        check_is_fitted(self, "calibrator_")
        return self.calibrator_.correction_

    @property
    def fit_summary_(self) -> FitSummary:
        """How far each cell of the fitting data is still off."""
        check_is_fitted(self, "calibrator_")
        return self.calibrator_.fit_summary_

    @property
    def certificate_(self) -> FitSummary:
        """The old name of `fit_summary_`."""
        return self.fit_summary_

    def raw_score(self, X: Table) -> FloatArray:
        """The classifier's own probability of the outcome, before the correction."""
        check_is_fitted(self, "calibrator_")
        return self._scale(getattr(self.estimator_, self._method)(X))

    def predict_proba(
        self, X: Table, *, sensitive_features: Table = None
    ) -> FloatArray:
        """Corrected probabilities of both classes, shape (n, 2)."""
        check_is_fitted(self, "calibrator_")
        raw = self.raw_score(X)  # the classifier checks X
        corrected = self.calibrator_.predict(
            raw, sensitive_features=self._features(X, sensitive_features)
        )
        return np.column_stack([1 - corrected, corrected])

    def predict(
        self, X: Table, *, sensitive_features: Table = None
    ) -> NDArray[np.generic]:
        """The class with the higher corrected probability."""
        probability = self.predict_proba(X, sensitive_features=sensitive_features)
        return np.asarray(self.classes_[np.argmax(probability, axis=1)])

    def explain(
        self,
        X: Table,
        *,
        sensitive_features: Table = None,
        unit: str = "people",
        labels: Labels | None = None,
    ) -> Explanation:
        """Explain how people's scores were changed; see `Correction.explain`."""
        features = self._features(X, sensitive_features)
        return self.correction_.explain(
            self.raw_score(X), features, unit=unit, labels=labels
        )

    def _outcome(self, y: Any) -> tuple[Any, Any]:
        """The labels as 0 and 1, and as a flat array."""
        labels = column_or_1d(y, warn=True)
        if not len(labels):
            raise InputError("y is empty", argument="y")
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        elif labels.dtype.kind == "O":
            missing = sum(label is None or label != label for label in labels)
            if missing:
                raise refused("y missing", missing=missing, rows=len(labels))
        self.classes_ = np.unique(labels)
        if len(self.classes_) > 2:
            check_classification_targets(y)
            raise ValueError(ONLY_BINARY.format(type_of_target(y)))
        if len(self.classes_) == 1:
            raise ValueError(ONE_CLASS)
        return (labels == self.classes_[1]).astype(np.int64), labels

    def _response(self) -> str:
        """The method by which the classifier gives scores."""
        for method in ("predict_proba", "decision_function"):
            if hasattr(self.estimator, method):
                return method
        raise refused("no scores", kind=type(self.estimator).__name__)

    def _column_names(self) -> list[Any] | None:
        """The columns of X that define the groups, from the constructor or from the
        calibrator's `groups`.
        """
        names = self.sensitive_features
        definition = getattr(self.calibrator, "groups", None)
        own: list[Any] | None = None
        if isinstance(names, (str, int, np.integer)):
            own = [names]
        elif names is not None:
            own = list(names)
        elif definition is not None:
            own = wanted_columns(definition)
        if self.discover is None:
            return own
        searched = column_names("discover", self.discover, " of X")
        return list(dict.fromkeys([*(own or []), *searched]))

    def _features(self, X: Any, passed: Any) -> Any:
        """The data that define the groups: those passed, or columns of X."""
        if passed is not None:
            if self.sensitive_features is not None:
                raise refused("features twice")
            return passed
        if self._names is None and getattr(self.calibrator, "groups", None) is not None:
            raise refused("groups without columns")
        if self._names is None:
            return None
        return columns_of_x(X, self._names)

    def _folds(
        self, X: Any, y: Any, outcome: Any, split: dict[str, Any]
    ) -> list[tuple[Any, Any]]:
        """The splits, checked: every row is tested once, by a model that was not
        trained on that person.
        """
        splits = check_cv(self.cv, y, classifier=True).split(X, y, **split)
        folds = []
        for train, test in splits:
            folds.append((_positions(train, len(y)), _positions(test, len(y))))
        if not folds:
            raise InputError("cv gives no splits", argument="cv")

        tested = np.concatenate([test for _, test in folds])
        n_tests = np.bincount(tested, minlength=len(y))
        if not np.all(n_tests == 1):
            never = np.count_nonzero(n_tests == 0)
            often = np.count_nonzero(n_tests > 1)
            raise refused("not in one fold", never=never, often=often)
        for number, (train, test) in enumerate(folds, start=1):
            _check_fold(number, train, test, outcome, split.get("groups"))
        return folds

    def _route(self, sample_weight: Any, params: dict[str, Any]) -> Bunch:
        """Decide where metadata go, with scikit-learn's metadata routing enabled or
        not.
        """
        if get_config()["enable_metadata_routing"]:
            if sample_weight is not None:
                params = {**params, "sample_weight": sample_weight}
            return process_routing(self, "fit", **params)
        of_fit = dict(params)
        groups = of_fit.pop("groups", None)
        split = {} if groups is None else {"groups": groups}
        if sample_weight is not None:
            if "sample_weight" in signature(self.estimator.fit).parameters:
                of_fit["sample_weight"] = sample_weight
            else:
                kind = type(self.estimator).__name__
                warn_user(refused("weights unused", kind=kind).message)
        return Bunch(estimator=Bunch(fit=of_fit), splitter=Bunch(split=split))

    def get_metadata_routing(self) -> MetadataRouter:
        """The metadata routing to this object, to the classifier and to the
        splitter.
        """
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        router.add(splitter=self.cv, method_mapping=to_split)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        base = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = base.sparse
        tags.input_tags.allow_nan = base.allow_nan
        return tags


def _positions(index: Any, n: int) -> Any:
    """The row numbers of one side of a split, which may be given as a mask."""
    positions = np.asarray(index)
    if positions.dtype.kind == "b":
        positions = np.flatnonzero(positions)
    if positions.size and not 0 <= positions.min() <= positions.max() < n:
        problem = f"cv: a split refers to rows that do not exist; there are {n:,} rows"
        raise InputError(problem, argument="cv")
    return positions


def _check_fold(number: int, train: Any, test: Any, outcome: Any, groups: Any) -> None:
    """Refuse a fold without one of the classes, or that tests whom it was trained
    on.
    """
    trained = outcome[train]
    if trained.min() == trained.max():
        raise refused("one class in a fold", number=number, rows=len(train))
    is_tested = np.zeros(len(outcome), dtype=np.bool_)
    is_tested[test] = True
    if is_tested[train].any():
        problem = f"cv: fold {number} trains and tests on the same rows"
        raise InputError(problem, argument="cv")
    if groups is not None:
        values = np.asarray(groups)
        both = np.intersect1d(values[train], values[test]).size
        if both:
            raise refused("groups in both", number=number, both=both)


def _rows_of(data: Any, rows: Any) -> Any:
    """Select rows of a frame, an array, a sparse matrix or a list."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if hasattr(data, "take") and hasattr(data, "column_names"):
        return data.take(rows)  # pyarrow
    if hasattr(data, "tocsr"):
        return data.tocsr()[rows]
    if isinstance(data, (list, tuple)):
        return [data[i] for i in rows]
    return data[rows]


class _Fold(NamedTuple):
    """All rows, those of one split, and parameters of the model's `fit`."""

    X: Any
    y: Any
    train: Any
    test: Any
    params: dict[str, Any]


def _fold_response(model: Any, fold: _Fold, method: str) -> Any:
    """Fit on one side of a split and score the other; parameters with one value per row
    are split too.
    """
    params = {}
    for name, value in fold.params.items():
        one_per_row = np.ndim(value) and len(value) == len(fold.y)
        params[name] = _rows_of(value, fold.train) if one_per_row else value
    model.fit(_rows_of(fold.X, fold.train), fold.y[fold.train], **params)
    return getattr(model, method)(_rows_of(fold.X, fold.test))


def _probability_scale(
    raw: Any, outcome: Any, sample_weight: Any
) -> Callable[[Any], FloatArray]:
    """A function that turns the classifier's response into the probability of the
    outcome.
    """
    if np.ndim(raw) == 2:
        return _second_column
    decision = np.reshape(raw, (-1, 1))
    platt = LogisticRegression(C=WEAK_PENALTY)
    platt.fit(decision, outcome, sample_weight=sample_weight)
    slope = float(platt.coef_[0, 0])
    return partial(_platt, slope=slope, intercept=float(platt.intercept_[0]))


def _second_column(probability: Any) -> FloatArray:
    return np.asarray(probability, dtype=np.float64)[:, 1]


def _platt(decision: Any, *, slope: float, intercept: float) -> FloatArray:
    """Decision values as probabilities (Platt scaling)."""
    log_odds = slope * np.asarray(decision, dtype=np.float64) + intercept
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -700, 700))))
