"""By how much each attribute alone changes a score: against every score, pattern by
pattern.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

from propcal import PMCBoost, audit
from propcal.core.correction.fit_summary import attribute_effects
from propcal.core.fit import random_effects
from propcal.core.grid import UNIT
from propcal.core.logistic import expit
from propcal.documents.correction import correction_blocks


@pytest.fixture(scope="module", params=["smooth", "paper"])
def correction(request):
    rng = np.random.default_rng(5)
    n = 6000
    frame = pd.DataFrame(
        {"race": rng.choice(list("ABC"), n), "sex": rng.choice(list("FM"), n)}
    )
    score = rng.beta(2, 4, n)
    wrong = 0.1 * (frame.sex == "F") + np.where(frame.race == "A", 0.6 * score, score)
    y = (rng.random(n) < wrong).astype(int)
    model = PMCBoost() if request.param == "smooth" else PMCBoost.paper(alpha=0.2)
    return model.fit(score, y, sensitive_features=frame).correction_


def test_the_effect_is_the_largest_difference_between_people_alike_in_all_else(
    correction,
):
    score = np.linspace(0.05, 0.95, 4001)
    made = {
        (race, sex): correction.apply(
            score, {"race": [race] * len(score), "sex": [sex] * len(score)}
        )
        for race, sex in itertools.product("ABC", "FM")
    }
    by_race = max(
        np.ptp([made[race, sex] for race in "ABC"], axis=0).max() for sex in "FM"
    )
    by_sex = max(
        np.ptp([made[race, sex] for sex in "FM"], axis=0).max() for race in "ABC"
    )
    found = attribute_effects(correction, round(0.05 * UNIT), round(0.95 * UNIT))
    assert found["race"] == pytest.approx(by_race, abs=1e-3)
    assert found["sex"] == pytest.approx(by_sex, abs=1e-3)
    assert found["race"] >= by_race - 1e-9
    assert found["race"] > 0.05


def test_an_attribute_that_never_varies_by_itself_is_left_out():
    rng = np.random.default_rng(1)
    ward = rng.choice(list("AB"), 2000)
    frame = pd.DataFrame({"ward": ward, "nurse": np.where(ward == "A", "Ann", "Bob")})
    score = rng.uniform(0.1, 0.5, 2000)
    y = (rng.random(2000) < np.where(ward == "A", score, 1.8 * score)).astype(int)
    summary = PMCBoost.paper().fit(score, y, sensitive_features=frame).fit_summary_
    assert summary.effects == {}
    assert not any("depend on" in sentence for sentence in summary.sentences())
    smooth = PMCBoost().fit(score, y, sensitive_features=frame)
    assert len(smooth.correction_.reads) == 1  # either says all that both say


def test_a_correction_reads_only_attributes_that_change_a_score():
    rng = np.random.default_rng(3)
    n = 8000
    frame = pd.DataFrame(
        {name: rng.choice(list("ABC"), n) for name in ("race", "ward", "payer")}
    )
    score = rng.beta(2, 5, n)
    y = (rng.random(n) < np.where(frame.ward == "B", 0.6 * score, score)).astype(int)
    model = PMCBoost().fit(score, y, sensitive_features=frame)
    assert model.correction_.reads == ("ward",)
    assert model.fit_summary_.without_effect == ("race", "payer")
    sentence = "race and payer: no effect found, so the correction does not read them."
    assert sentence in str(model.fit_summary_)
    assert sentence in str(correction_blocks(model.correction_)[0])  # of a report
    fewer = model.predict(score, sensitive_features=frame[["ward"]])
    assert np.array_equal(fewer, model.predict(score, sensitive_features=frame))
    assert {a for group in model.correction_.groups for a, _ in group.conditions} == {
        "ward"
    }
    shared = model.correction_.shared()
    assert shared.reads == ("ward",)


def wards(extra):
    """Twelve wards of 1,000 people; all scores are a third too high, less so in ward
    0.
    """
    score = np.tile(np.repeat(np.linspace(0.1, 0.45, 8), 125), 12)
    ward = np.repeat(np.arange(12), 1000)
    events = np.round(125 * score * (0.75 + extra * (ward == 0)))
    y = (np.tile(np.arange(125), 96) < events).astype(int)
    return score, y, pd.DataFrame({"ward": np.char.add("w", ward.astype(str))})


def test_an_attribute_is_read_if_a_group_would_stay_wrong_without_it(monkeypatch):
    score, y, frame = wards(0.22)
    model = PMCBoost().fit(score, y, sensitive_features=frame)
    assert model.correction_.reads == ("ward",)
    corrected = model.predict(score, sensitive_features=frame)
    assert (
        audit(y, corrected, sensitive_features=frame).verdict.conclusion
        == "no miscalibration found"
    )
    monkeypatch.setattr(
        random_effects, "WRONG", 0.0
    )  # as a whole, the wards improve the fit too little
    model = PMCBoost().fit(score, y, sensitive_features=frame)
    assert model.correction_.reads == ()
    verdict = audit(y, model.predict(score), sensitive_features=frame).verdict
    assert verdict.conclusion == "miscalibrated"


@pytest.mark.slow
@pytest.mark.parametrize("women", [0.0, 0.4])
def test_attributes_without_effect_are_seldom_read(women):
    read = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 11])
        n = 10_000
        frame = pd.DataFrame(
            {name: rng.choice(list("ABCD"), n) for name in ("race", "payer")}
        )
        sex, x = rng.choice(["F", "M"], n), rng.normal(-1.2, 1.3, n)
        score = expit(1.2 * x + 0.25 + women * (sex == "F"))
        y = (rng.random(n) < expit(x)).astype(int)
        model = PMCBoost().fit(score, y, sensitive_features=frame.assign(sex=sex))
        assert (not women) or "sex" in model.correction_.reads
        read += bool({"race", "payer"} & {*model.correction_.reads})
    assert read <= 7  # 5 % of 40 are 2; 8 or more have a chance of 0.1 %


def test_updates_keep_their_groups_when_attributes_are_left_out():
    rng = np.random.default_rng(4)
    n = 6000
    frame = pd.DataFrame(
        {"ward": rng.choice(list("XYZ"), n), "race": rng.choice(list("AB"), n)}
    )
    score = rng.uniform(0.2, 0.6, n)
    y = (rng.random(n) < np.where(frame.ward == "Z", 0.4 * score, score)).astype(int)
    model = PMCBoost(start="identity", intersections="marginal").fit(
        score, y, sensitive_features=frame
    )
    assert model.correction_.reads == ("ward",)
    updated = {update.group for update in model.updates_}
    assert "ward=Z" in updated
    assert not any("race" in group for group in updated)
    assert len(model.groups_) == 5
    moved = model.predict(score, sensitive_features=frame[["ward"]]) - score
    assert moved[frame.ward == "Z"].max() < 0


def test_a_score_that_is_right_needs_no_columns():
    rng = np.random.default_rng(6)
    score = rng.beta(2, 5, 4000)
    y = (rng.random(4000) < score).astype(int)
    model = PMCBoost().fit(
        score, y, sensitive_features={"sex": rng.choice(list("FM"), 4000)}
    )
    assert model.correction_.reads == ()
    assert np.array_equal(model.predict(score), score)
