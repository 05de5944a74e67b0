"""MulticalibratedClassifier: in scikit-learn's company."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from propcal import (
    Groups,
    MCBoost,
    MulticalibratedClassifier,
    PMCBoost,
    dc_loss,
    loss_scorer,
    mc_loss,
    pmc_loss,
)
from propcal.datasets import make_ed_visits
from propcal.errors import InputError

NUMBERS = [
    "age",
    "acuity",
    "heartrate",
    "o2sat",
    "n_previous_visits",
    "n_previous_admissions",
]
GROUPS = ["race", "gender"]
# before 1.7 the check of weights may exchange the two classes in one of the data sets
# that it compares
OLD_CHECKS = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 7)


def checks():
    """Both models and both ways of routing; that each model goes both ways is checked
    with the slow tests.
    """
    models = [
        (MulticalibratedClassifier(LogisticRegression()), False),
        (MulticalibratedClassifier(LinearSVC(), MCBoost(), cv=3), True),
    ]
    for model, usual in models:
        for estimator, check in estimator_checks_generator(model):
            if OLD_CHECKS and "sample_weight_equivalence" in str(check):
                continue
            for routing in (False, True):
                marks = () if routing is usual else pytest.mark.slow
                yield pytest.param(estimator, check, routing, marks=marks)


# tiny data sets of the checks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The least populated class in y:UserWarning")
@pytest.mark.parametrize(("estimator", "check", "routing"), list(checks()))
def test_scikit_learn_checks(estimator, check, routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing:
            estimator = clone(estimator)
            estimator.estimator.set_fit_request(sample_weight=True)
            estimator.set_fit_request(sample_weight=True)
        check(estimator)


@pytest.fixture(scope="module")
def visits():
    return make_ed_visits(6000, seed=2)


@pytest.fixture(scope="module")
def base():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encode = make_column_transformer((numbers, NUMBERS))
    return make_pipeline(encode, LogisticRegression())


@pytest.fixture(scope="module")
def fitted(visits, base):
    model = MulticalibratedClassifier(
        base, PMCBoost(alpha=0.1), sensitive_features=GROUPS
    )
    return model.fit(visits, visits.admitted)


def test_the_correction_is_learned_on_out_of_fold_scores(visits, base, fitted):
    raw = cross_val_predict(
        base, visits, visits.admitted, cv=StratifiedKFold(5), method="predict_proba"
    )[:, 1]
    expected = PMCBoost(alpha=0.1).fit(
        raw, visits.admitted, sensitive_features=visits[GROUPS]
    )
    assert fitted.correction_.to_json() == expected.correction_.to_json()
    whole = clone(base).fit(visits, visits.admitted).predict_proba(visits)[:, 1]
    assert np.array_equal(fitted.raw_score(visits), whole)
    corrected = expected.predict(whole, sensitive_features=visits[GROUPS])
    probability = fitted.predict_proba(visits)
    assert np.array_equal(probability[:, 1], corrected)
    assert np.allclose(probability.sum(axis=1), 1)


def test_groups_may_be_named_or_passed(visits, base, fitted):
    passed = MulticalibratedClassifier(base, PMCBoost(alpha=0.1))
    passed.fit(visits[NUMBERS], visits.admitted, sensitive_features=visits[GROUPS])
    probability = passed.predict_proba(
        visits[NUMBERS], sensitive_features=visits[GROUPS]
    )
    assert np.array_equal(probability, fitted.predict_proba(visits))
    assert np.array_equal(
        passed.predict(visits[NUMBERS], sensitive_features=visits[GROUPS]),
        fitted.predict(visits),
    )
    with pytest.raises(InputError, match="sensitive_features is given twice"):
        fitted.predict_proba(visits, sensitive_features=visits[GROUPS])
    with pytest.raises(InputError, match="sensitive_features is given twice"):
        clone(fitted).fit(visits, visits.admitted, sensitive_features=visits[GROUPS])
    with pytest.raises(InputError, match="sensitive_features is needed"):
        passed.predict_proba(visits[NUMBERS])


def test_groups_in_words_come_from_columns_of_x(visits, base):
    words = Groups(columns=["gender"], where={"elderly": "age >= 75"})
    model = MulticalibratedClassifier(base, PMCBoost(groups=words)).fit(
        visits, visits.admitted
    )
    assert {*model.correction_.reads, *model.correction_.not_read} == {"gender", "age"}
    assert "elderly" in {size.group.name for size in model.calibrator_.groups_}
    assert model.predict_proba(visits[:3]).shape == (3, 2)


def test_the_loss_falls_on_held_out_people(visits, base, fitted):
    new = make_ed_visits(20_000, seed=3)
    kw = {"sensitive_features": new[GROUPS], "min_people": 100}
    assert pmc_loss(
        new.admitted, fitted.predict_proba(new)[:, 1], **kw
    ) < 0.6 * pmc_loss(new.admitted, fitted.raw_score(new), **kw)


def test_labels_of_any_kind(visits, base, fitted):
    label = np.where(visits.admitted == 1, "yes", "no")
    model = MulticalibratedClassifier(
        base, PMCBoost(alpha=0.1), sensitive_features=GROUPS
    ).fit(visits, label)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(visits)) == {"no", "yes"}
    assert np.array_equal(model.predict_proba(visits), fitted.predict_proba(visits))
    with pytest.raises(ValueError, match="Only binary"):
        model.fit(visits, visits.acuity.fillna(0))
    with pytest.raises(ValueError, match="only one class"):
        model.fit(visits, np.ones(len(visits)))


def test_a_frozen_model_is_not_refitted(visits, base):
    trained = clone(base).fit(visits[:3000], visits.admitted[:3000])
    rest = visits[3000:]
    model = MulticalibratedClassifier(
        FrozenEstimator(trained), PMCBoost(alpha=0.1), sensitive_features=GROUPS
    )
    model.fit(rest, rest.admitted)
    raw = trained.predict_proba(rest)[:, 1]
    expected = PMCBoost(alpha=0.1).fit(
        raw, rest.admitted, sensitive_features=rest[GROUPS]
    )
    assert model.correction_.to_json() == expected.correction_.to_json()
    assert np.array_equal(model.raw_score(rest), raw)


def test_decision_values_become_probabilities(visits):
    X = visits[NUMBERS].fillna(0)
    for base in (RidgeClassifier(), LinearSVC()):
        scaled = make_pipeline(StandardScaler(), base)
        model = MulticalibratedClassifier(scaled, PMCBoost(alpha=0.1)).fit(
            X, visits.admitted, sensitive_features=visits.gender
        )
        raw = model.raw_score(X)
        assert 0 < raw.min() < raw.max() < 1
        assert raw.mean() == pytest.approx(visits.admitted.mean(), abs=0.02)


def test_a_classifier_without_scores_is_refused(visits):
    class Guess:
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(InputError, match="Guess gives no scores"):
        MulticalibratedClassifier(Guess()).fit(visits[NUMBERS], visits.admitted)


@pytest.mark.parametrize(
    "cv", [3, KFold(4), StratifiedKFold(3, shuffle=True, random_state=0), "iterable"]
)
def test_kinds_of_cross_validation(visits, base, cv):
    if cv == "iterable":
        cv = list(KFold(3).split(visits))
    model = MulticalibratedClassifier(base, sensitive_features="gender", cv=cv).fit(
        visits, visits.admitted
    )
    assert model.predict_proba(visits).shape == (6000, 2)


def test_recurring_people_are_kept_in_one_fold(visits, base):
    person = np.random.default_rng(0).integers(0, 1500, len(visits))
    model = MulticalibratedClassifier(
        base, PMCBoost(alpha=0.1), sensitive_features=GROUPS, cv=GroupKFold(4)
    )
    model.fit(visits, visits.admitted, groups=person)
    folds = list(GroupKFold(4).split(visits, visits.admitted, person))
    raw = cross_val_predict(
        base, visits, visits.admitted, cv=folds, method="predict_proba"
    )[:, 1]
    expected = PMCBoost(alpha=0.1).fit(
        raw, visits.admitted, sensitive_features=visits[GROUPS]
    )
    assert model.correction_.to_json() == expected.correction_.to_json()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(model).fit(visits, visits.admitted, groups=person)
        assert routed.correction_.to_json() == model.correction_.to_json()
    ignoring = clone(model).set_params(cv=Recurring(list(KFold(4).split(visits))))
    with pytest.raises(
        InputError,
        match=r"in fold 1, [\d,]+ of the `groups` are in both training and test rows",
    ):
        ignoring.fit(visits, visits.admitted, groups=person)


class Recurring:
    """A splitter that takes groups and ignores them."""

    def __init__(self, folds):
        self.folds = folds

    def split(self, X, y=None, groups=None):
        return iter(self.folds)

    def get_n_splits(self, X=None, y=None, groups=None):
        return len(self.folds)


def test_folds_that_are_no_partition_are_refused(visits, base):
    model = MulticalibratedClassifier(
        base, sensitive_features="gender", cv=ShuffleSplit(3, random_state=0)
    )
    with pytest.raises(
        InputError,
        match=r"exactly one test fold; [\d,]+ rows are in none and [\d,]+ in several",
    ):
        model.fit(visits, visits.admitted)
    same = [(np.arange(6000), np.arange(6000))]
    with pytest.raises(InputError, match="trains and tests on the same rows"):
        clone(model).set_params(cv=same).fit(visits, visits.admitted)
    ordered = visits.sort_values("admitted", ignore_index=True)
    halves = [
        (np.arange(3000, 6000), np.arange(3000)),
        (np.arange(3000), np.arange(3000, 6000)),
    ]
    model.set_params(cv=halves)
    with pytest.raises(
        InputError, match="fold 2 has only one class among its 3,000 training rows"
    ):
        model.fit(ordered, ordered.admitted)


def test_sample_weights_reach_both(visits):
    X, y = visits[NUMBERS].fillna(0), visits.admitted
    weight = np.random.default_rng(1).integers(1, 4, len(visits))
    base = LogisticRegression(max_iter=5000)
    model = MulticalibratedClassifier(base, PMCBoost(alpha=0.1)).fit(
        X, y, sensitive_features=visits.gender, sample_weight=weight
    )
    assert np.allclose(
        model.estimator_.coef_, clone(base).fit(X, y, sample_weight=weight).coef_
    )
    plain = clone(model).fit(X, y, sensitive_features=visits.gender)
    assert plain.correction_.to_json() != model.correction_.to_json()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.warns(
        UserWarning,
        match="Pipeline does not support weights; only the correction uses them",
    ):
        MulticalibratedClassifier(pipeline).fit(X, y, sample_weight=weight)


def test_with_metadata_routing(visits):
    X, y, weight = visits[NUMBERS].fillna(0), visits.admitted, np.ones(len(visits))
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            MulticalibratedClassifier(
                LogisticRegression(max_iter=5000).set_fit_request(sample_weight=True)
            )
            .set_fit_request(sensitive_features=True, sample_weight=True)
            .set_predict_proba_request(sensitive_features=True)
            .set_predict_request(sensitive_features=True)
        )
        pipeline = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False), model
        )
        pipeline.fit(X, y, sensitive_features=visits.gender, sample_weight=weight)
        found = pipeline.predict_proba(X, sensitive_features=visits.gender)
        direct = clone(model).fit(
            StandardScaler().fit_transform(X),
            y,
            sensitive_features=visits.gender,
            sample_weight=weight,
        )
        assert direct.correction_.to_json() == pipeline[-1].correction_.to_json()
        assert found.shape == (6000, 2)


def test_losses_are_scorers_with_metadata_routing(visits, base):
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(
            pmc_loss, response_method="predict_proba", greater_is_better=False
        )
        scorer.set_score_request(sensitive_features=True)
        model = MulticalibratedClassifier(base, sensitive_features=["gender"], cv=2)
        model.set_fit_request(sensitive_features=False)  # it reads the column itself
        search = GridSearchCV(
            model,
            {"calibrator": [PMCBoost(alpha=0.1), PMCBoost(alpha=0.5)]},
            scoring=scorer,
            cv=2,
            error_score="raise",
        )
        search.fit(visits, visits.admitted, sensitive_features=visits.gender.to_numpy())
        assert -1 < search.best_score_ < 0


def test_in_pipelines_and_searches_without_routing(visits):
    model = make_pipeline(
        make_column_transformer(
            (SimpleImputer(), NUMBERS),
            (OneHotEncoder(sparse_output=False), ["gender"]),
            verbose_feature_names_out=False,
        ).set_output(transform="pandas"),
        MulticalibratedClassifier(
            HistGradientBoostingClassifier(max_iter=20),
            sensitive_features=["gender_F"],
            cv=3,
        ),
    )
    scorer = loss_scorer(
        pmc_loss, sensitive_features=["gender"], alpha=0.1, min_people=50
    )
    scores = cross_val_score(
        model, visits, visits.admitted, scoring=scorer, cv=2, error_score="raise"
    )
    assert np.all((scores < 0) & (scores > -1))
    search = GridSearchCV(
        model,
        {
            "multicalibratedclassifier__calibrator": [
                PMCBoost(alpha=0.05),
                MCBoost(alpha=0.1),
            ]
        },
        scoring=scorer,
        cv=2,
        error_score="raise",
    ).fit(visits, visits.admitted)
    assert search.best_params_


def test_losses_serve_as_metrics_of_fairlearn(visits, fitted):
    from fairlearn.metrics import MetricFrame

    score = fitted.raw_score(visits)
    frame = MetricFrame(
        metrics={"mc": mc_loss, "pmc": pmc_loss, "dc": dc_loss},
        y_true=visits.admitted,
        y_pred=score,
        sensitive_features=visits.gender,
    )
    women = (visits.gender == "F").to_numpy()
    assert frame.by_group.loc["F", "pmc"] == pmc_loss(
        visits.admitted[women], score[women]
    )
    assert frame.overall["mc"] == mc_loss(visits.admitted, score)


def test_arrays_take_column_numbers(visits):
    X = np.column_stack([visits[NUMBERS].fillna(0), visits.gender == "F"])
    model = MulticalibratedClassifier(
        RandomForestClassifier(20, random_state=0), sensitive_features=[6], cv=3
    )
    model.fit(X, visits.admitted)
    assert model.correction_.attributes == ("column 6",)
    assert model.n_features_in_ == 7
    with pytest.raises(InputError, match="X has no column names"):
        clone(model).set_params(sensitive_features=["gender"]).fit(X, visits.admitted)
    with pytest.raises(InputError, match="X has 7 columns"):
        clone(model).set_params(sensitive_features=[9]).fit(X, visits.admitted)


def test_a_missing_column_at_scoring_is_told(visits, fitted):
    with pytest.raises((InputError, ValueError), match="race"):
        fitted.predict_proba(visits.drop(columns="race"))


def test_polars_frames_are_taken(visits, fitted):
    class Columns(LogisticRegression):
        def fit(self, X, y):
            return super().fit(X.select(NUMBERS).fill_null(0).fill_nan(0).to_numpy(), y)

        def predict_proba(self, X):
            return super().predict_proba(
                X.select(NUMBERS).fill_null(0).fill_nan(0).to_numpy()
            )

    frame = pl.from_pandas(visits)
    model = MulticalibratedClassifier(
        Columns(max_iter=5000), sensitive_features=GROUPS, cv=2
    )
    model.fit(frame, visits.admitted)
    assert model.predict_proba(frame).shape == (6000, 2)


def test_clone_attributes_and_errors(visits, fitted):
    assert clone(fitted).get_params()["calibrator__alpha"] == 0.1
    assert fitted.feature_names_in_.tolist() == visits.columns.tolist()
    assert "MulticalibratedClassifier" in fitted._repr_html_()
    with pytest.raises(NotFittedError):
        clone(fitted).predict_proba(visits)
    assert isinstance(fitted.explain(visits[:3]).to_frame(), pd.DataFrame)
    assert np.array_equal(
        fitted.explain(visits).corrected, fitted.predict_proba(visits)[:, 1]
    )


def test_a_frozen_model_of_other_classes_is_refused(visits):
    X = visits[NUMBERS].fillna(0)
    frozen = LogisticRegression(max_iter=5000).fit(
        X, np.where(visits.admitted == 1, "dead", "survived")
    )
    with pytest.raises(
        InputError,
        match=r"\[0, 1\], but the frozen model was trained with \['dead', 'survived'\]",
    ):
        MulticalibratedClassifier(FrozenEstimator(frozen)).fit(X, visits.admitted)


def test_models_of_the_folds_see_the_real_labels(visits):
    X, label = visits[NUMBERS].fillna(0), np.where(visits.admitted == 1, "yes", "no")
    base = LogisticRegression(class_weight={"no": 1, "yes": 5}, max_iter=5000)
    model = MulticalibratedClassifier(base, PMCBoost(alpha=0.1), cv=3).fit(X, label)
    numbers = clone(base).set_params(class_weight={0: 1, 1: 5})
    other = MulticalibratedClassifier(numbers, PMCBoost(alpha=0.1), cv=3).fit(
        X, visits.admitted
    )
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))


@pytest.mark.slow
def test_several_jobs_give_the_same(visits, base, fitted):
    jobs = clone(fitted).set_params(n_jobs=2).fit(visits, visits.admitted)
    assert jobs.correction_.to_json() == fitted.correction_.to_json()


def test_parameters_set_after_the_fit_wait_for_the_next(visits, fitted):
    model = clone(fitted).fit(visits, visits.admitted)
    expected = model.predict_proba(visits)
    model.set_params(sensitive_features=["insurance"], estimator=RidgeClassifier())
    assert np.array_equal(model.predict_proba(visits), expected)


def test_groups_in_words_need_their_columns_named(visits, base):
    for words in (Groups(cuts={"age": [65]}), Groups(intersections="marginal")):
        with pytest.raises(
            InputError, match=r"name the columns of X that define groups"
        ):
            MulticalibratedClassifier(base, PMCBoost(groups=words)).fit(
                visits, visits.admitted
            )


def test_a_search_with_a_loss_scorer_can_be_saved(visits, base):
    import pickle

    scorer = loss_scorer(pmc_loss, sensitive_features="gender", alpha=0.1)
    model = MulticalibratedClassifier(base, sensitive_features=["gender"], cv=2)
    search = GridSearchCV(
        model, {"calibrator": [PMCBoost()]}, scoring=scorer, cv=2
    ).fit(visits, visits.admitted)
    assert pickle.loads(pickle.dumps(search)).best_score_ == search.best_score_
    assert "pmc_loss" in repr(scorer)
    weighted = scorer(
        search, visits, visits.admitted, sample_weight=np.ones(len(visits))
    )
    assert weighted == scorer(search, visits, visits.admitted)


def test_splits_as_masks_and_wrong_splits(visits, base):
    model = MulticalibratedClassifier(
        base,
        PMCBoost(alpha=0.1),
        sensitive_features=GROUPS,
        cv=list(KFold(2).split(visits)),
    )
    expected = model.fit(visits, visits.admitted).correction_.to_json()
    half = np.arange(6000) < 3000
    model.set_params(cv=[(~half, half), (half, ~half)])
    assert model.fit(visits, visits.admitted).correction_.to_json() == expected
    for cv, message in (
        ([], "no splits"),
        ([(np.arange(3000), np.arange(3000, 6001))], "rows that do not exist"),
    ):
        with pytest.raises((InputError, ValueError), match=message):
            clone(model).set_params(cv=cv).fit(visits, visits.admitted)


def test_labels_and_weights_with_gaps_are_told(visits, base):
    label = np.where(visits.admitted == 1, "yes", "no").astype(object)
    label[:3] = None
    model = MulticalibratedClassifier(base, sensitive_features=GROUPS)
    with pytest.raises(InputError, match="y is missing for 3 of 6,000 rows"):
        model.fit(visits, label)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(visits, visits.admitted, sample_weight=np.ones(10))


def test_columns_of_a_frame_may_be_numbered(visits, base, fitted):
    place = [visits.columns.get_loc(name) for name in GROUPS]
    model = MulticalibratedClassifier(
        base, PMCBoost(alpha=0.1), sensitive_features=place
    ).fit(visits, visits.admitted)
    assert model.correction_.to_json() == fitted.correction_.to_json()
    with pytest.raises(InputError, match="X has 19 columns"):
        model.set_params(sensitive_features=np.int64(99)).fit(visits, visits.admitted)
