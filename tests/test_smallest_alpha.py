"""The smallest alpha for which a score is (alpha, lambda)-MC or -PMC: between it and
below, tried by hand.
"""

import numpy as np
import pytest

from propcal import MCBoost, PMCBoost, audit, mc_loss, pmc_loss, smallest_alpha
from propcal.errors import InputError
from propcal.metrics import CategoryRule
from propcal.reading.rows import checked_rows

LOSS = {"mc": mc_loss, "pmc": pmc_loss}


def meets_definition(y, score, features, alpha, kind, gamma=0.05, rho=0.1):
    """Whether each category with at least alpha * lambda of its group is within alpha,
    row by row.
    """
    table = (
        CategoryRule(gamma=gamma)
        .table(checked_rows(score, y, features).atoms())
        .to_frame(rho=rho)
    )
    table = table.assign(
        of_group=table["people"] / table.groupby("group")["people"].transform("sum")
    )
    counted = table[table["of_group"] >= alpha * 0.1]
    gap = counted["gap" if kind == "mc" else "proportional_gap"].abs()
    return bool((gap <= alpha).all())


@pytest.mark.parametrize("kind", ["mc", "pmc"])
def test_a_loss_at_this_alpha_is_within_it_and_below_it_is_not(cohort, features, kind):
    y, score = cohort.y, cohort.score
    kw = {"sensitive_features": features, "rho": 0.6}  # so that alpha is below 1
    alpha = smallest_alpha(y, score, kind=kind, **kw)
    assert alpha * 1.2 < 1
    for factor, met in ((1.0001, True), (1.2, True), (0.999, False), (0.8, False)):
        tried = alpha * factor
        assert (LOSS[kind](y, score, alpha=tried, **kw) <= tried) == met


@pytest.mark.parametrize("kind", ["mc", "pmc"])
def test_by_the_definition_the_share_of_the_group_decides(cohort, features, kind):
    y, score = cohort.y, cohort.score
    alpha = smallest_alpha(
        y, score, kind=kind, size="definition", sensitive_features=features
    )
    assert meets_definition(y, score, features, alpha * 1.0001, kind)
    assert not meets_definition(y, score, features, alpha * 0.999, kind)


def test_a_small_category_matters_up_to_the_alpha_at_which_it_stops_counting():
    """Ten of 1,000 people are off by 0.5: they count up to an alpha of 0.01 / (0.1 *
    0.05) or of 0.1.
    """
    y = np.r_[np.tile([1, 0, 0, 0], 250)[:990], np.zeros(10)]
    score = np.r_[np.full(990, 0.25), np.full(10, 0.5)]
    assert smallest_alpha(y, score, kind="mc") == pytest.approx(0.5)
    assert smallest_alpha(y, score, kind="mc", size="definition") == pytest.approx(0.1)
    found = audit(y, score).smallest_alpha
    assert found.loc["mc"].tolist() == pytest.approx([0.5, 0.1])
    assert found.loc["pmc"].tolist() == pytest.approx(
        [2.0, 0.1]
    )  # 0.5 of a rate of 0, floored at rho; 10 / 990


@pytest.mark.parametrize(("cls", "kind"), [(PMCBoost, "pmc"), (MCBoost, "mc")])
def test_algorithm_1_brings_it_down_to_its_own_alpha(cohort, features, cls, kind):
    before = smallest_alpha(
        cohort.y, cohort.score, kind=kind, sensitive_features=features
    )
    model = cls.paper(alpha=0.1).fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    corrected = model.predict(cohort.score, sensitive_features=features)
    assert (
        smallest_alpha(cohort.y, corrected, kind=kind, sensitive_features=features)
        <= 0.1
        < before
    )


def test_unknown_words_are_refused():
    for wrong in ({"kind": "dc"}, {"size": "large"}):
        with pytest.raises(InputError, match="must be one of"):
            smallest_alpha([0, 1], [0.2, 0.8], **wrong)
