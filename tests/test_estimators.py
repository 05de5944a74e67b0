"""PMCBoost and MCBoost as scikit-learn estimators."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

from propcal import Atoms, MCBoost, PMCBoost
from propcal.errors import InputError


def conventions():
    """What scikit-learn checks of estimators with one-dimensional input; it says that
    it skips the rest.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        return [
            pair
            for cls in (PMCBoost, MCBoost)
            for pair in estimator_checks_generator(cls())
        ]


@pytest.mark.parametrize(("estimator", "check"), conventions())
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_they_declare_one_dimensional_input():
    tags = get_tags(PMCBoost())
    assert tags.input_tags.one_d_array
    assert not tags.input_tags.two_d_array
    assert tags.target_tags.required


def test_clone_and_parameters():
    model = PMCBoost(alpha=0.2, binning=[0, 0.5, 1], random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert "alpha=0.2" in repr(model)


def test_prediction_needs_a_fit():
    with pytest.raises(NotFittedError):
        PMCBoost().predict([0.5])
    with pytest.raises(NotFittedError):
        PMCBoost().updates_  # noqa: B018


def test_fit_on_atoms_is_fit_on_their_rows(cohort, features):
    atoms = Atoms.from_frame(
        cohort, score="score", outcome="y", groups=["race", "gender"]
    )
    by_atoms, by_rows = (
        PMCBoost().fit_atoms(atoms),
        PMCBoost().fit(cohort.score, cohort.y, sensitive_features=features),
    )
    assert by_atoms.correction_.to_json() == by_rows.correction_.to_json()
    assert by_atoms.correction_.about["fingerprint"] == atoms.people_fingerprint()


def test_the_papers_settings_do_not_follow_the_defaults():
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
    }
    for cls in (PMCBoost, MCBoost):
        found = cls.paper().get_params()
        assert {name: found[name] for name in letter} == letter
        assert isinstance(cls.paper(), cls)
        assert cls.paper(alpha=0.01, rho=0.2).get_params() | {} == {
            **found,
            "alpha": 0.01,
            "rho": 0.2,
        }


def test_what_was_fitted_is_told(cohort, features):
    model = PMCBoost(guard=None).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    assert model.n_updates_ == len(model.updates_) > 1
    assert model.n_sweeps_ > 1
    assert model.converged_
    assert len(model.groups_) + len(model.groups_.left_out) == 4 + 2 + 8
    assert model.updates_[0].group == "smooth start"
    assert model.updates_[1].group in {size.group.name for size in model.groups_}


def test_refitting_forgets_the_first_fit(cohort, features):
    model = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=features)
    model.fit(cohort.score, cohort.y)
    assert model.correction_.attributes == ()
    assert model.predict(np.array([0.3])).shape == (1,)


def test_a_column_vector_of_scores_is_taken(cohort, features):
    flat = PMCBoost().fit(cohort.score, cohort.y, sensitive_features=features)
    column = PMCBoost().fit(cohort[["score"]], cohort.y, sensitive_features=features)
    assert flat.updates_ == column.updates_
    assert np.array_equal(
        flat.predict(cohort.score.to_numpy()[:, None], sensitive_features=features),
        flat.predict(cohort.score, sensitive_features=features),
    )


def test_the_fit_summary_speaks_of_the_unit_and_uses_labels():
    score, y, sex = (
        np.full(2000, 0.3),
        np.r_[np.ones(200), np.zeros(1800)],
        np.tile(["F", "M"], 1000),
    )
    names = {"unit": "patients", "labels": {"sex": {"F": "women", "M": "men"}}}
    frame = pd.DataFrame({"risk": score, "died": y, "sex": sex})
    by_rows = PMCBoost().fit(
        frame, score="risk", outcome="died", groups=["sex"], **names
    )
    atoms = Atoms.from_frame(frame, score="risk", outcome="died", groups=["sex"])
    by_atoms = PMCBoost().fit_atoms(atoms, **names)
    for model in (by_rows, by_atoms):
        assert "fitted to 2,000 patients" in str(model.fit_summary_)
        assert model.fit_summary_.labels["sex=F"] == "women"
    with pytest.raises(InputError, match="unit must be a text"):
        PMCBoost().fit(score, y, unit=5)
