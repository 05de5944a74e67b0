"""Measures without bins: equal to those of mcgrad and relplot, and right about
chance.
"""

import numpy as np
import pandas as pd
import pytest

from propcal.auditing.bin_free import (
    bin_free_measures,
    range_tail,
    smooth_ece,
    worst_interval,
)
from propcal.errors import InputError


def people(n, seed, wrong=1.0):
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 4, n)
    frame = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], n), "race": rng.choice(["a", "b", "c"], n)}
    )
    risk = np.where(frame.sex == "F", score**wrong, score)
    return frame.assign(score=score, y=(rng.random(n) < risk).astype(int))


def test_the_worst_interval_by_hand():
    found = worst_interval(
        np.array([0.1, 0.2, 0.5, 0.9]), np.full(4, 10.0), np.array([1.0, 4.0, 7.0, 8.0])
    )
    # residuals 0, 2, 2, -1: the sum over 0.2 to 0.5 is the largest
    assert found == pytest.approx((0.1, 0.2, 0.5, 0.1))
    nothing = worst_interval(np.array([0.5]), np.array([2.0]), np.array([1.0]))
    assert nothing.ecce == 0


def test_ecce_and_mce_are_those_that_mcgrad_gave():
    """Of version 0.1.5, which is too large to be installed for every test."""
    frame = people(3000, 0, wrong=1.3)
    table = bin_free_measures(
        frame.y, frame.score, sensitive_features=frame[["sex", "race"]], n_draws=100
    )
    overall, mce = table.iloc[0], table.iloc[-1]
    assert (overall.value, overall.sigma) == pytest.approx(
        (0.044417964334056356, 5.554893081276733), abs=1e-9
    )
    assert (mce.sigma, mce.value) == pytest.approx(
        (8.22918711767085, 0.06580211977850853), abs=1e-9
    )
    assert mce.p_value < 1e-12


@pytest.mark.filterwarnings("ignore")  # of their own making
@pytest.mark.parametrize("seed", range(4))
def test_ecce_and_mce_are_those_of_mcgrad(seed):
    metrics = pytest.importorskip("mcgrad.metrics")
    frame = people(3000, seed, wrong=1.3)
    table = bin_free_measures(
        frame.y, frame.score, sensitive_features=frame[["sex", "race"]], n_draws=100
    )
    grid = np.floor(frame.score * 2**32 + 0.5) / 2**32  # atoms are on the grid
    y = frame.y.to_numpy()
    overall = table[(table.group == "everybody") & (table.measure == "ecce")].iloc[0]
    assert overall.value == pytest.approx(metrics.ecce(y, grid.to_numpy()), abs=1e-9)
    assert overall.sigma == pytest.approx(
        metrics.ecce_sigma(y, grid.to_numpy()), rel=1e-9
    )
    assert overall.p_value == pytest.approx(
        metrics.ecce_pvalue(y, grid.to_numpy()), abs=1e-9
    )
    theirs = metrics.MulticalibrationError(
        frame.assign(score=grid),
        "y",
        "score",
        categorical_segment_columns=["sex", "race"],
        max_depth=2,
        precision_dtype="float64",
    )
    ours = table[table.measure == "mce"].iloc[0]
    assert ours.sigma == pytest.approx(theirs.mce_sigma, rel=1e-9)
    assert ours.value == pytest.approx(theirs.mce, rel=1e-9)
    assert ours.p_value == pytest.approx(theirs.mce_pvalue, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [200, 3000, 40_000])
def test_the_smooth_ece_is_that_of_relplot(n):
    metrics = pytest.importorskip("relplot.metrics")
    for wrong in (1.0, 1.5):
        frame = people(n, n, wrong)
        y = frame.y.to_numpy().astype(float)
        found = smooth_ece(frame.score.to_numpy(), np.ones(n), y)
        assert found == pytest.approx(
            metrics.smECE(frame.score.to_numpy(), y), abs=1e-9
        )


def test_the_range_of_a_brownian_motion():
    rng = np.random.default_rng(0)
    paths = np.cumsum(rng.standard_normal((4000, 1000)), axis=1) / np.sqrt(1000)
    size = np.ptp(np.concatenate([np.zeros((4000, 1)), paths], axis=1), axis=1)
    for x in (1.0, 1.6, 2.2):
        assert range_tail(np.array(x)) == pytest.approx(
            (size > x).mean(), abs=0.05
        )  # of 1,000 steps
    assert range_tail(np.array(9.0)) < 1e-12
    assert range_tail(np.array(0.01)) == 1.0


def test_atoms_and_tied_scores_give_what_rows_give():
    from propcal import Atoms

    frame = people(2000, 3)
    frame["score"] = frame.score.round(2)
    rows = bin_free_measures(
        frame.y, frame.score, sensitive_features=frame[["sex"]], n_draws=100
    )
    atoms = Atoms.from_frame(frame, score="score", outcome="y", groups=["sex"])
    pd.testing.assert_frame_equal(rows, bin_free_measures(atoms, n_draws=100))


def test_a_perfect_score_is_as_chance_has_it_and_a_wrong_one_is_not():
    low = 0
    for seed in range(30):
        frame = people(1500, 100 + seed)
        table = bin_free_measures(
            frame.y, frame.score, sensitive_features=frame[["sex"]], n_draws=200
        )
        low += (
            table.groupby("measure").adjusted_p.min() <= 0.05
        ).sum()  # of three measures each
    assert low <= 14  # 4.5 are expected
    frame = people(4000, 7, wrong=1.6)
    table = bin_free_measures(
        frame.y, frame.score, sensitive_features=frame[["sex"]], n_draws=200
    )
    women = table[table.group == "sex=F"].set_index("measure")
    assert (women.adjusted_p <= 0.02).all()
    assert women.direction["ecce"] == "too high"
    assert (women.value > women.chance_95).all()
    assert (table[table.group == "sex=M"].p_value > 0.01).all()
    assert table[table.measure == "mce"].group.tolist() == ["sex=F"]


def test_what_chance_shows_covers_what_a_perfect_score_shows():
    """The smooth ECE of simulated data is interpolated; the median of real repeats is
    close to it.
    """
    rng = np.random.default_rng(0)
    score = rng.beta(2, 4, 3000)
    values, first = [], None
    for _ in range(60):
        y = (rng.random(3000) < score).astype(float)
        values.append(smooth_ece(score, np.ones(3000), y))
        if first is None:
            first = bin_free_measures(y.astype(int), score, n_draws=400).set_index(
                "measure"
            )
    assert np.median(values) == pytest.approx(
        first.chance_median["smooth_ece"], rel=0.15
    )


def test_what_cannot_be_measured_is_refused():
    frame = people(30, 0)
    with pytest.raises(InputError, match="not enough data"):
        bin_free_measures(frame.y, frame.score)
    with pytest.raises(InputError, match="soft labels"):
        bin_free_measures(np.full(200, 0.4), np.full(200, 0.5))


def test_an_audit_has_the_measures_if_asked_and_no_other_number_changes():
    from propcal import audit

    frame = people(3000, 0, wrong=1.5)
    rows = {
        "sensitive_features": frame[["sex", "race"]],
        "n_draws": 200,
        "labels": {"sex": {"F": "women"}},
    }
    plain, a = (
        audit(frame.y, frame.score, bin_free=asked, **rows) for asked in (False, True)
    )
    assert plain.bin_free is None
    pd.testing.assert_frame_equal(plain.losses, a.losses)
    pd.testing.assert_frame_equal(plain.verdict.tests, a.verdict.tests)
    table = bin_free_measures(
        frame.y, frame.score, sensitive_features=frame[["sex", "race"]], n_draws=200
    )
    pd.testing.assert_frame_equal(a.bin_free.to_frame().drop(columns="label"), table)
    assert a.to_frame("bin_free").label.tolist()[2] == "women"
    assert "for women, predicted risk" in a.bin_free.sentence
    assert "the score is too high (cumulative error 0." in a.bin_free.sentence
    assert a.bin_free.of("ecce").loc["sex=F"].adjusted_p < 0.01
    assert a.bin_free.sentence in a._repr_html_()
    assert "Without bins" in repr(a)
    assert "Without bins" not in repr(plain)
    with pytest.raises(InputError, match="bin_free=True"):
        plain.to_frame("bin_free")


def test_the_json_has_the_measures_if_asked_and_protected_results_those_of_many_people():
    import json

    import jsonschema

    from paths import ROOT
    from propcal import audit

    frame = people(1500, 2, wrong=1.5)
    a = audit(
        frame.y,
        frame.score,
        sensitive_features=frame[["sex"]],
        n_draws=100,
        bin_free=True,
    )
    content = json.loads(a.to_json())
    schema = json.loads(
        (ROOT / "src" / "propcal" / "schemas" / "audit.schema.json").read_text()
    )
    jsonschema.validate(content, schema)
    found = content["bin_free"]
    assert found["sentence"] == a.bin_free.sentence
    assert [row["value"] for row in found["measures"]] == a.bin_free.table[
        "value"
    ].tolist()
    protected = json.loads(a.to_json(suppress=11))["bin_free"]
    assert [row["value"] for row in protected["measures"]] == [
        round(row["value"], 4) for row in found["measures"]
    ]
    few = people(1500, 2, wrong=1.5)
    few["sex"] = np.where(np.arange(1500) < 60, "few", few["sex"])
    few.loc[:59, "y"] = (np.arange(60) < 6).astype(int)
    b = audit(
        few.y, few.score, sensitive_features=few[["sex"]], n_draws=100, bin_free=True
    )
    exact, shown = (
        json.loads(b.to_json(suppress=n))["bin_free"]["measures"] for n in (0, 11)
    )
    assert {row["group"] for row in exact} - {row["group"] for row in shown} == {
        "sex=few"
    }


def test_chance_of_people_with_one_score_is_that_of_their_number_of_events():
    """Then the largest sum over a range of scores is that of all: 1.96 standard errors
    of a share.
    """
    score, y = np.full(400, 0.5), np.arange(400) % 2
    overall = bin_free_measures(y, score).set_index("measure").loc["ecce"]
    assert overall.value == 0
    assert overall.chance_95 == pytest.approx(1.96 * 0.5 / np.sqrt(400), rel=0.1)
    assert overall.chance_median == pytest.approx(0.674 * 0.5 / np.sqrt(400), rel=0.1)


def test_repeat_visits_widen_what_chance_shows():
    rng = np.random.default_rng(4)
    score = np.repeat(rng.beta(2, 4, 600), 5)
    y = np.repeat(
        (rng.random(600) < score[::5]).astype(int), 5
    )  # all visits of a person end alike
    person = np.repeat(np.arange(600), 5)
    apart = bin_free_measures(y, score, n_draws=200).set_index("measure")
    together = bin_free_measures(y, score, cluster=person, n_draws=200).set_index(
        "measure"
    )
    assert together.value["ecce"] == apart.value["ecce"]
    assert together.chance_95["ecce"] == pytest.approx(
        np.sqrt(5) * apart.chance_95["ecce"], rel=0.25
    )
    assert together.p_value["ecce"] > apart.p_value["ecce"]


def test_an_audit_without_tests_says_why_there_are_no_measures():
    from propcal import audit

    a = audit(np.full(200, 0.4), np.full(200, 0.5), bin_free=True, n_draws=100)
    assert a.bin_free.sentence.startswith(
        "No measures without bins: the outcomes are soft labels"
    )
    assert a.bin_free.to_frame().empty
    few = people(30, 0)
    assert "not enough data" in repr(
        audit(few.y, few.score, bin_free=True, n_draws=100).bin_free
    )


def test_many_groups_can_still_be_found():
    """An adjusted p-value of simulated data may not be stuck above the level because
    groups are many.
    """
    frame = people(6000, 5, wrong=1.8)
    rng = np.random.default_rng(1)
    features = frame[["sex"]].assign(
        a=rng.integers(0, 10, 6000), b=rng.integers(0, 6, 6000)
    )
    table = bin_free_measures(
        frame.y, frame.score, sensitive_features=features, n_draws=200
    )
    assert len(table) > 120
    women = table[table.group == "sex=F"]
    assert (women.adjusted_p < 0.02).all()
