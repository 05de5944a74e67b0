"""Caches are no part of an object's state."""

import copy
import pickle

import numpy as np
import pytest

from propcal import MCBoost, PMCBoost
from propcal.auditing.statistics.sample import Sample
from propcal.core.reduction import numbered
from propcal.reading.rows import rows_to_atoms


@pytest.fixture(scope="module")
def fitted(cohort):
    return PMCBoost().fit(
        cohort["score"], cohort["y"], sensitive_features=cohort[["race", "gender"]]
    )


def used(model, cohort):
    """Everything that is computed once and kept."""
    columns = cohort[["race", "gender"]]
    expected = model.predict(cohort["score"], sensitive_features=columns)
    model.correction_.apply([0.2], {"race": ["new"], "gender": ["F"]})
    repr(model.correction_)
    model.correction_.to_frame()
    assert {"maps", "_recent", "_pieces"} <= set(vars(model.correction_))
    return expected


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_has_no_caches_and_scores_alike(fitted, cohort, copied):
    expected = used(fitted, cohort)
    again = copied(fitted.correction_)
    own = {
        "patterns",
        "groups",
        "bins",
        "updates",
        "unseen",
        "about",
        "start",
        "sharing",
        "monotone",
        "folded",
        "points",
    }
    assert set(vars(again)) == own
    columns = cohort[["race", "gender"]]
    np.testing.assert_array_equal(again.apply(cohort["score"], columns), expected)
    np.testing.assert_array_equal(
        copied(fitted).predict(cohort["score"], sensitive_features=columns), expected
    )


def test_a_pickle_is_as_large_before_as_after_scoring(cohort):
    columns = cohort[["race", "gender"]]
    for model in (PMCBoost(), MCBoost.paper()):
        model.fit(cohort["score"], cohort["y"], sensitive_features=columns)
        before = pickle.dumps(model)
        used(model, cohort)
        assert pickle.dumps(model) == before


def test_skops_keeps_a_model_that_has_scored(fitted, cohort):
    skops = pytest.importorskip("skops.io")
    expected = used(fitted, cohort)
    data = skops.dumps(fitted)
    unknown = skops.get_untrusted_types(data=data)
    assert all(name.startswith("propcal.") for name in unknown)
    columns = cohort[["race", "gender"]]
    again = skops.loads(data, trusted=unknown)
    np.testing.assert_array_equal(
        again.predict(cohort["score"], sensitive_features=columns), expected
    )


def test_a_sample_is_pickled_without_what_it_computed(cohort):
    sample = Sample.of(
        numbered(rows_to_atoms(cohort["score"], cohort["y"], cohort[["race"]]))
    )
    before = pickle.dumps(sample)
    assert sample.n_people == len(cohort)
    assert len(sample.cells.score) <= len(sample.score)
    assert pickle.dumps(sample) == before
