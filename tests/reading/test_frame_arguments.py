"""A frame and the names of its columns mean the same as arrays, in every function that
takes people.
"""

import shutil
import subprocess
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from consumer.correct_calls import by_array, by_name
from paths import ROOT
from propcal import (
    Groups,
    MCBoost,
    PMCBoost,
    audit,
    compare,
    dc_loss,
    discover,
    mc_loss,
    pmc_loss,
)
from propcal.datasets import make_ed_visits
from propcal.errors import InputError

GROUPS = ["race", "gender"]
NAMES = {"score": "risk", "outcome": "admitted"}


@pytest.fixture(scope="module")
def visits():
    visits = make_ed_visits(6_000, seed=1)
    risk, place = 0.8 * visits.true_risk, np.arange(len(visits))
    return visits.assign(risk=risk, w=1 + place % 2, family=place // 2)


def arrays(visits):
    return visits.admitted, visits.risk


@pytest.mark.parametrize(
    "kind",
    [
        lambda v: v,
        pl.from_pandas,
        lambda v: pl.from_pandas(v).lazy(),
        pa.table,
        duckdb.from_df,
    ],
)
def test_a_frame_of_any_kind_gives_the_audit_of_the_arrays(visits, kind):
    by_name = audit(kind(visits), **NAMES, groups=GROUPS, weight="w", n_draws=100)
    by_array = audit(
        *arrays(visits),
        sensitive_features=visits[GROUPS],
        sample_weight=visits.w,
        n_draws=100,
    )
    assert by_name.to_json() == by_array.to_json()


def test_the_patient_id_and_other_settings_of_an_audit_are_used(visits):
    settings = {"intersections": "marginal", "n_draws": 100}
    by_name = audit(visits, **NAMES, groups="race", cluster="family", **settings)
    by_array = audit(
        *arrays(visits),
        sensitive_features=visits[["race"]],
        cluster=visits.family,
        **settings,
    )
    assert by_name.to_json() == by_array.to_json()


@pytest.mark.parametrize("loss", [mc_loss, pmc_loss, dc_loss])
def test_losses_take_names_and_the_new_names_of_arrays(visits, loss):
    expected = loss(
        *arrays(visits), sensitive_features=visits[GROUPS], sample_weight=visits.w
    )
    assert loss(visits, **NAMES, groups=GROUPS, weight="w") == expected
    new_names = {
        "outcome": visits.admitted,
        "groups": visits[GROUPS],
        "weight": visits.w,
    }
    assert loss(score=visits.risk, **new_names) == expected


@pytest.mark.parametrize("model", [PMCBoost, MCBoost])
def test_a_fit_reads_columns_and_a_prediction_those_of_the_correction(visits, model):
    by_array = model().fit(
        visits.risk, visits.admitted, sensitive_features=visits[GROUPS]
    )
    by_name = model().fit(visits, **NAMES, groups=GROUPS)
    about = by_name.correction_.about
    assert (about["score"], about["outcome"]) == (
        "risk",
        "admitted",
    )  # what it was fitted to
    nameless = {
        key: value for key, value in about.items() if key not in ("score", "outcome")
    }
    assert (
        replace(by_name.correction_, about=nameless).to_json()
        == by_array.correction_.to_json()
    )
    again = by_name.fit(visits.risk, visits.admitted, sensitive_features=visits[GROUPS])
    assert again.correction_.to_json() == by_array.correction_.to_json()
    by_name = model().fit(visits, **NAMES, groups=GROUPS)
    expected = by_array.predict(visits.risk, sensitive_features=visits[GROUPS])
    assert np.array_equal(by_name.predict(visits, score="risk"), expected)
    renamed = pl.from_pandas(visits).rename({"race": "ethnicity"})
    assert np.array_equal(
        by_name.predict(renamed, score="risk", groups={"race": "ethnicity"}), expected
    )


def test_a_fit_reads_the_columns_of_its_definitions_and_of_its_search(visits):
    words = Groups(columns=["gender"], cuts={"age": [40, 65]})
    model = PMCBoost(groups=words).fit(visits, **NAMES)
    assert {*model.correction_.reads, *model.correction_.not_read} == {"gender", "age"}
    searching = PMCBoost(discover=["age"]).fit(visits, **NAMES, groups=["gender"])
    assert "gender" in (*searching.correction_.reads, *searching.correction_.not_read)
    with pytest.raises(InputError, match="constructor"):
        PMCBoost().fit(visits, **NAMES, groups=words)


def test_a_comparison_takes_several_columns_and_corrections(visits):
    frame = visits.assign(other=visits.true_risk)
    scores = {"risk": visits.risk, "other": visits.true_risk}
    expected = compare(
        scores, visits.admitted, sensitive_features=visits[GROUPS], n_draws=100
    ).to_json()
    for named in (
        {"scores": {"risk": "risk", "other": "other"}},
        {"score": ["risk", "other"]},
    ):
        found = compare(frame, **named, outcome="admitted", groups=GROUPS, n_draws=100)
        assert found.to_json() == expected
    model = PMCBoost().fit(visits, **NAMES, groups=GROUPS)
    found = compare(
        visits,
        scores={"old": "risk", "new": model},
        outcome="admitted",
        groups=["gender"],
        n_draws=100,
    )
    assert set(found.audits["new"].groups["group"]) == {
        "everybody",
        "gender=F",
        "gender=M",
    }


def test_a_frame_of_one_column_beside_an_array_is_an_array(visits):
    expected = mc_loss(*arrays(visits))
    assert mc_loss(visits[["admitted"]], score=visits.risk.tolist()) == expected
    assert mc_loss(visits[["admitted"]], visits[["risk"]]) == expected


def test_a_search_takes_features_or_groups(visits):
    expected = repr(
        discover(*arrays(visits), features=visits[["race", "age"]], n_draws=20)
    )
    for name in ("features", "groups"):
        assert (
            repr(discover(visits, **NAMES, **{name: ["race", "age"]}, n_draws=20))
            == expected
        )


def test_an_unused_patient_id_is_mentioned(visits):
    frame = visits.rename(columns={"family": "patient_id"})
    with pytest.warns(UserWarning, match='pass cluster="patient_id"') as caught:
        audit(frame, **NAMES, n_draws=100)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda v: audit(v.admitted, v.risk, v[GROUPS]), "sensitive_features="),
        (lambda v: discover(v.admitted, v.risk, v[GROUPS]), "features="),
        (lambda v: audit(v, score="rsk", outcome="admitted"), "Did you mean 'risk'"),
        (lambda v: audit(v, **NAMES, groups=["rase"]), "Did you mean 'race'"),
        (lambda v: audit(v, score="risk"), "outcome must be the name of a column"),
        (lambda v: audit(v, outcome="admitted"), "score must be the name of a column"),
        (
            lambda v: audit(v, score="risk", outcome=v.admitted),
            "outcome must be the name of a column",
        ),
        (
            lambda v: audit(v, score="risk", outcome="risk"),
            "as the score and as the outcome",
        ),
        (
            lambda v: audit(v, **NAMES, groups=["admitted"]),
            "is the outcome and cannot define groups",
        ),
        (
            lambda v: audit(v, **NAMES, groups=v[GROUPS]),
            "groups must be names of columns; got DataFrame",
        ),
        (
            lambda v: audit(v.admitted, score="risk", outcome="admitted"),
            "a data frame must come first",
        ),
        (
            lambda v: audit(*arrays(v), outcome=v.admitted),
            "outcome and y are the same argument",
        ),
        (
            lambda v: audit(*arrays(v), weight=v.w, sample_weight=v.w),
            "the same argument",
        ),
        (
            lambda v: audit(v, score=v.risk, outcome="admitted"),
            "score must be the name of a column",
        ),
        (
            lambda v: PMCBoost(groups=Groups(columns=["admitted"])).fit(v, **NAMES),
            "cannot define groups",
        ),
        (
            lambda v: discover(v, **NAMES, groups=Groups(columns=["race"])),
            "groups must be names of columns",
        ),
        (lambda v: compare(v, **NAMES), "two or more"),
    ],
)
def test_mistakes_are_explained(visits, call, text):
    with pytest.raises(InputError) as error:
        call(visits)
    assert text in str(error.value)


def test_an_error_about_values_says_which_column_it_is(visits):
    with pytest.raises(InputError, match="probabilities") as error:
        audit(visits, score="age", outcome="admitted")
    assert error.value.__notes__ == ["score is column 'age'; y is column 'admitted'"]


def test_the_calls_of_a_consumer_run(visits):
    frame = visits.rename(
        columns={"gender": "sex", "admitted": "died", "acuity": "ward"}
    )
    loss, both, found, wrong = by_name(frame)
    assert loss > 0
    assert list(both.audits) == ["old", "new"]
    assert found.settings["features"] == 2
    assert by_array(frame)[3].groups["group"].tolist() == wrong.groups["group"].tolist()


@pytest.mark.parametrize("checker", [["mypy", "--strict"], ["pyright"]])
def test_a_type_checker_accepts_the_calls_of_a_consumer_and_no_misspelt_option(checker):
    name, *options = checker
    place = shutil.which(name, path=str(ROOT / ".venv" / "bin")) or shutil.which(name)
    if place is None:
        pytest.skip(f"{name} is not installed")
    consumer = ROOT / "tests" / "consumer"
    done = subprocess.run(
        [place, *options, str(consumer)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
