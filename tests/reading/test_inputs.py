"""Bad input: an error that names the argument, counts the trouble, and shows nobody's
row.
"""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from propcal import Atoms, MCBoost, PMCBoost, audit, pmc_loss
from propcal.errors import InputError

CANARY = "canary-7f3a"


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    score = rng.random(200)
    return {
        "score": score,
        "y": (rng.random(200) < score).astype(int),
        "g": np.array(["a", "b"])[rng.integers(0, 2, 200)],
    }


def fit(data, **changes):
    use = {**data, **changes}
    weight = use.get("w")
    return PMCBoost.paper(alpha=0.05).fit(
        use["score"], use["y"], sensitive_features=use["g"], sample_weight=weight
    )


def put(values, what, places=3):
    values = np.array(
        values, dtype=np.asarray(what).dtype if isinstance(what, str) else float
    )
    values[:places] = what
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: {"score": d["score"] * 100},
            r"score must hold probabilities from 0 to 1; .* percentages, divide them by 100",
        ),
        (
            lambda d: {"score": np.log(d["score"] / (1 - d["score"]))},
            r"are outside that range. If these are log-odds",
        ),
        (
            lambda d: {"score": put(d["score"], 1000.0)},
            r"3 of 200 values are outside that range$",
        ),
        (
            lambda d: {"score": put(d["score"], np.nan)},
            r"score .* 3 of 200 values are missing. Exclude these rows with drop_missing=True",
        ),
        (
            lambda d: {"score": put(d["score"], np.inf)},
            r"score .* 3 of 200 values are infinite",
        ),
        (lambda d: {"score": d["score"].astype(str)}, r"score must be numeric"),
        (
            lambda d: {"score": d["score"].reshape(100, 2)},
            r"score must be one-dimensional; its shape is \(100, 2\)",
        ),
        (lambda d: {"score": 0.5}, r"score must be an array"),
        (
            lambda d: {"y": d["y"] + 1},
            r"y must be 0 or 1 .* values are neither. Say which value means the event",
        ),
        (
            lambda d: {"y": put(d["y"], np.nan)},
            r"y must be 0 or 1; 3 of 200 values are missing",
        ),
        (
            lambda d: {"y": np.where(d["y"] == 1, "ill", "well")},
            r"y must be 0 or 1, or yes or no; it holds 'ill'",
        ),
        (
            lambda d: {"y": np.zeros(200)},
            r"nobody had the outcome; check that the right column",
        ),
        (lambda d: {"y": np.ones(200)}, r"everybody had the outcome"),
        (
            lambda d: {"y": d["y"][:150]},
            r"same number of rows: score has 200, y has 150",
        ),
        (
            lambda d: {"g": d["g"][:150]},
            r"same number of rows: .* attribute 'sensitive_feature_0' has 150",
        ),
        (lambda d: {"w": np.ones(10)}, r"same number of rows: .* sample_weight has 10"),
        (lambda d: {"score": [], "y": [], "g": []}, r"score is empty"),
        (
            lambda d: {"w": put(np.ones(200), -1)},
            r"sample_weight must be 0 or more; 3 of 200 values are negative",
        ),
        (
            lambda d: {"w": put(np.ones(200), np.nan)},
            r"sample_weight .* 3 of 200 values are missing",
        ),
        (
            lambda d: {"w": put(np.ones(200), np.inf)},
            r"sample_weight .* 3 of 200 values are infinite",
        ),
        (lambda d: {"w": np.zeros(200)}, r"all 200 weights are 0"),
        (
            lambda d: {"g": np.arange(200)},
            r"'sensitive_feature_0' holds 200 different numbers; up to 20 .* Give cut points",
        ),
        (
            lambda d: {"g": np.random.default_rng(0).normal(size=200)},
            r"200 different numbers, not all of them whole",
        ),
        (
            lambda d: {"g": pd.DataFrame({"when": pd.date_range("2020", periods=200)})},
            r"'when' holds dates or times",
        ),
        (
            lambda d: {
                "g": pd.DataFrame(
                    {"stay": pd.Categorical(pd.to_timedelta(np.arange(200) % 3, "D"))}
                )
            },
            r"'stay' holds dates or times",
        ),
        (
            lambda d: {"score": pd.to_timedelta(np.arange(200) % 2, "D").to_numpy()},
            r"score must be numeric; all 200 values are dates or times",
        ),
        (lambda d: {"g": np.zeros((200, 2, 2))}, r"one or two dimensions; it has 3"),
        (lambda d: {"g": 5}, r"sensitive_features must be a data frame"),
    ],
)
def test_bad_data_are_told(data, change, message):
    with pytest.raises(InputError, match=message):
        fit(data, **change(data))


def test_an_identifier_is_refused_by_its_count():
    ids = [f"{CANARY}-{i}" for i in range(500)]
    score = np.linspace(0, 1, 500)
    with pytest.raises(
        InputError, match="'patient_id' has 500 different values; at most 200"
    ) as error:
        PMCBoost().fit(
            score, score > 0.5, sensitive_features=pd.DataFrame({"patient_id": ids})
        )
    assert CANARY not in str(error.value)
    PMCBoost(gamma=0.001).fit(
        score, np.arange(500) % 2, sensitive_features=[text[-3:-1] for text in ids]
    )  # 110 are few enough


def test_duplicate_column_names_are_refused(data):
    frame = pd.DataFrame(np.c_[data["g"], data["g"]], columns=["g", "g"])
    with pytest.raises(InputError, match=r"several columns named \['g'\]"):
        fit(data, g=frame)
    table = pa.Table.from_arrays([pa.array(data["g"])] * 2, names=["g", "g"])
    with pytest.raises(InputError, match=r"several columns named \['g'\]"):
        fit(data, g=table)
    named = frame.assign(risk=0.5, died=0)
    with pytest.raises(InputError, match=r"several columns named \['g'\]"):
        audit(named, score="risk", outcome="died")


@pytest.mark.parametrize("cls", [PMCBoost, MCBoost])
@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("alpha", [0, -0.1, 1.1, float("nan"), "0.1", None, True]),
        ("gamma", [0, 1.5, float("inf")]),
        ("rho", [0, 1.01]),
        ("eta", [0, 2.5]),
        ("n_bins", [0, -1, 2.5, 10**7]),
        ("max_updates", [-1, 0.5]),
        ("order", ["best", 1]),
        ("sample", ["half", True]),
        ("unseen", ["ignore"]),
        ("missing", ["drop"]),
        ("intersections", ["none", 0, 1.5]),
        ("binning", ["log", [0, 2], 5]),
    ],
)
def test_arguments_out_of_range_are_told(data, cls, argument, values):
    for value in values:
        with pytest.raises(InputError, match=argument):
            cls(**{argument: value}).fit(
                data["score"], data["y"], sensitive_features=data["g"]
            )


def test_losses_check_their_arguments(data):
    for wrong in (
        {"alpha": 0},
        {"gamma": 2},
        {"rho": 0},
        {"min_share": -1},
        {"min_people": 0},
        {"n_bins": 0},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            pmc_loss(data["y"], data["score"], **wrong)


def test_all_groups_below_gamma_is_told(data):
    with pytest.raises(
        InputError, match=r"the largest of 2 groups, .* below gamma=0\.9"
    ):
        PMCBoost(gamma=0.9).fit(data["score"], data["y"], sensitive_features=data["g"])


def test_a_failed_fit_leaves_no_half_fitted_model(data):
    model = PMCBoost()
    with pytest.raises(InputError):
        model.fit(data["score"] * 2, data["y"])
    assert not hasattr(model, "correction_")


def test_prediction_checks_its_rows(data):
    model = fit(data)
    with pytest.raises(InputError, match="same number of rows"):
        model.predict(data["score"][:5], sensitive_features=data["g"])
    with pytest.raises(InputError, match="percentages"):
        model.predict(data["score"] * 100, sensitive_features=data["g"])
    assert len(model.predict([], sensitive_features=[])) == 0


def kinds(frame):
    """The same columns as every kind of table."""
    yield frame
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame, preserve_index=False)
    yield frame.convert_dtypes(dtype_backend="numpy_nullable")
    yield frame.convert_dtypes(dtype_backend="pyarrow")
    yield frame.astype({"race": "category", "gender": "category"})
    yield pl.from_pandas(frame).with_columns(
        pl.col("race", "gender").cast(pl.Categorical)
    )
    yield frame.astype({"score": "object", "race": "object"})


def test_every_kind_of_frame_gives_the_same_fit(cohort):
    expected = None
    for frame in kinds(cohort):
        columns = (
            frame[["race", "gender"]]
            if isinstance(frame, pd.DataFrame)
            else frame.select(["race", "gender"])
        )
        model = PMCBoost().fit(frame["score"], frame["y"], sensitive_features=columns)
        corrected = model.predict(frame["score"], sensitive_features=columns)
        atoms = Atoms.from_frame(
            frame, score="score", outcome="y", groups=["race", "gender"]
        )
        result = model.correction_.to_json(), corrected.tobytes(), atoms.fingerprint()
        expected = expected or result
        assert isinstance(corrected, np.ndarray)
        assert result == expected, type(frame)


def test_arrays_lists_series_and_mappings_are_attributes(data):
    expected = fit(data).predict(data["score"], sensitive_features=data["g"])
    others = [
        list(data["g"]),
        pd.Series(data["g"]),
        pl.Series(data["g"]),
        pa.array(data["g"]),
        pa.chunked_array([data["g"][:7], data["g"][7:]]),
        {"g": data["g"]},
        data["g"].reshape(-1, 1),
        data["g"].astype(object),
        [[v] for v in data["g"]],
    ]
    for other in others:
        model = fit(data, g=other)
        assert np.array_equal(
            model.predict(data["score"], sensitive_features=other), expected
        )


def test_outcomes_may_be_booleans_and_scores_float32(data):
    expected = fit(data, score=data["score"].astype(np.float32)).updates_
    assert (
        fit(
            data,
            score=pl.Series(data["score"].astype(np.float32)),
            y=data["y"].astype(bool),
        ).updates_
        == expected
    )


def test_missing_values_of_every_kind_are_one_level(data):
    group = np.array(["a", "b", "c"], dtype=object)[np.arange(200) % 3]
    expected = None
    for missing in (None, np.nan, pd.NA, pd.NaT, float("nan")):
        column = np.where(group == "c", missing, group)
        updates = fit(data, g=column).updates_
        expected = expected or updates
        assert updates == expected
        assert any("missing" in u.group for u in updates)


def test_no_message_warning_or_file_shows_a_row(data, tmp_path):
    frame = pd.DataFrame(
        {"g": data["g"], "name": CANARY}, index=[f"{CANARY}{i}" for i in range(200)]
    )
    frame["when"] = datetime.date(2020, 1, 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = PMCBoost().fit(
            pd.Series(data["score"], index=frame.index),
            data["y"],
            sensitive_features=frame[["g"]],
        )
        model.predict(data["score"], sensitive_features=frame)
    model.correction_.save(tmp_path / "m.json")
    shown = (
        (tmp_path / "m.json").read_text()
        + repr(model)
        + repr(model.correction_)
        + repr(model.groups_)
    )
    assert CANARY not in shown + "".join(str(w.message) for w in seen)
    assert CANARY.encode() not in __import__("pickle").dumps(model)


def test_pandas_intervals_are_levels_by_what_they_cover(data):
    age = np.random.default_rng(0).integers(1, 99, 200)
    model = fit(data, g=pd.DataFrame({"age": pd.cut(age, [0, 40, 65, 100])}))
    assert {size.group.name for size in model.groups_} == {
        "age=(0, 40]",
        "age=(40, 65]",
        "age=(65, 100]",
    }
    floats = pd.DataFrame({"age": pd.cut(age, [0.0, 40.0, 65.0, 100.0])})
    ints = pd.DataFrame({"age": pd.cut(age, [0, 40, 65, 100])})
    assert np.array_equal(
        model.predict(data["score"], sensitive_features=floats),
        model.predict(data["score"], sensitive_features=ints),
    )
    left = pd.DataFrame({"age": pd.cut(age, [0, 40, 65, 100], right=False)})
    with pytest.warns(
        UserWarning, match="'age': none of the 200 values occurred in the fitting data"
    ):
        model.predict(data["score"], sensitive_features=left)


def test_pandas_periods_are_levels(data):
    quarter = pd.Series(pd.period_range("2020Q1", periods=4, freq="Q")).repeat(50)
    assert "q=2020Q1" in {
        size.group.name for size in fit(data, g=pd.DataFrame({"q": quarter})).groups_
    }


def test_column_names_may_be_numbers(data):
    frame = pd.DataFrame({0: data["g"], 1: data["g"]})
    model = fit(data, g=frame)
    assert model.correction_.attributes == ("0", "1")
    assert model.predict(data["score"][:1], sensitive_features=frame[:1]).shape == (1,)


@pytest.mark.parametrize("values", [[[1, 2]] * 200, [{"a": 1}] * 200, [{1}] * 200])
def test_lists_and_records_are_no_attributes(data, values):
    column = np.empty(200, dtype=object)
    column[:] = values
    with pytest.raises(InputError, match="'g' holds lists or records"):
        fit(data, g={"g": column})
    if not isinstance(values[0], set):
        with pytest.raises(InputError, match="'g' holds lists or records"):
            fit(data, g=pl.DataFrame({"g": values}))


def test_categories_and_rows_that_do_not_occur_do_not_count(data):
    frame = pd.DataFrame(
        {"g": pd.Categorical(data["g"], [*"ab", *map(str, range(300))])}
    )
    assert (
        fit(data, g=frame).updates_
        == fit(data, g=pd.DataFrame({"g": data["g"]})).updates_
    )
    ghosts = np.r_[data["g"].astype(object), [f"ghost {i}" for i in range(300)]]
    weights = np.r_[np.ones(200), np.zeros(300)]
    model = fit(
        data,
        score=np.r_[data["score"], np.zeros(300)],
        y=np.r_[data["y"], np.zeros(300)],
        g=ghosts,
        w=weights,
    )
    assert model.updates_ == fit(data).updates_


def test_float_noise_is_no_percentage(data):
    score = data["score"].copy()
    score[:2] = 1.0000001
    with pytest.raises(
        InputError,
        match=r"2 of 200 values are outside that range. If this is rounding, clip",
    ):
        fit(data, score=score)


def test_messages_do_not_show_arrays_in_the_wrong_place(data):
    with pytest.raises(
        InputError, match="alpha must be a number above 0 and at most 1; got a ndarray"
    ):
        PMCBoost(alpha=data["score"]).fit(data["score"], data["y"])
    with pytest.raises(InputError, match="max_updates"):
        PMCBoost(max_updates=0.1).fit(data["score"], data["y"])
    with pytest.raises(InputError, match="atoms must be Atoms"):
        PMCBoost().fit_atoms(data["score"])
    with pytest.raises(InputError, match="one-dimensional"):
        fit(data, score=[[0.1], [0.2, 0.3]])
    with pytest.raises(InputError, match="several columns with the same name"):
        fit(data, g={1: data["g"], "1": data["g"]})


def test_far_too_many_intersections_are_refused_with_advice(data):
    frame = pd.DataFrame({f"a{i}": data["g"] for i in range(20)})
    with pytest.raises(
        InputError,
        match=r"20 attributes have more than 5,000 combinations.* intersections=2",
    ):
        fit(data, g=frame)
    many = pd.DataFrame({f"a{i}": data["g"] for i in range(1100)})
    model = PMCBoost.paper(intersections="marginal")
    model.fit(data["score"], data["y"], sensitive_features=many)
    assert len(model.groups_) == 2200


def test_a_generator_is_a_random_state(data):
    model = PMCBoost(order="random", random_state=np.random.default_rng(0))
    assert model.fit(data["score"], data["y"], sensitive_features=data["g"]).converged_
    state = np.random.get_state()[1].copy()
    PMCBoost().fit(data["score"], data["y"], sensitive_features=data["g"])
    assert np.array_equal(
        np.random.get_state()[1], state
    )  # nothing is drawn where nothing is random


def test_steps_too_small_to_move_anything_do_not_converge(data):
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(
        ConvergenceWarning,
        match="after 0 adjustments because further ones would round to zero",
    ):
        model = PMCBoost.paper(alpha=0.05, eta=1e-12).fit(
            data["score"], data["y"] * 0 + (data["score"] > 0.9)
        )
    assert not model.converged_


def test_the_fitted_bins_serve_a_loss(cohort, features):
    model = PMCBoost.paper(alpha=0.1, binning="quantile").fit(
        cohort.score, cohort.y, sensitive_features=features
    )
    corrected = model.predict(cohort.score, sensitive_features=features)
    kw = {"sensitive_features": features, "alpha": 0.1}
    assert (
        pmc_loss(cohort.y, corrected, binning=model.correction_.bins, **kw)
        <= 0.1 + 1e-8
    )


def test_without_a_place_for_compiled_code_it_still_runs(monkeypatch):
    import numba

    from propcal.core.compiled import compiled

    njit = numba.njit

    def no_place(*args, cache=False, **kw):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **kw)

    monkeypatch.setattr(numba, "njit", no_place)
    assert compiled(lambda x: x + 1)(1) == 2


@pytest.mark.parametrize("names", [["race", "sex"], ("race",), "race"])
def test_names_in_place_of_columns_are_told(names):
    y, score = np.tile([0, 1], 50), np.tile([0.2, 0.6], 50)
    model = PMCBoost.paper().fit(score, y, sensitive_features=np.repeat(["a", "b"], 50))
    for call in (
        lambda: audit(y, score, sensitive_features=names),
        lambda: PMCBoost().fit(score, y, sensitive_features=names),
        *(
            []
            if names == "race"
            else [lambda: model.predict(score, sensitive_features=names)]
        ),
    ):
        with pytest.raises(
            InputError,
            match=r"If these are names of columns, pass the columns: frame\[",
        ):
            call()
    with pytest.raises(
        InputError,
        match=r"Pass the columns themselves, sensitive_features=frame\['race'\]|\[\[",
    ):
        audit(y, score, groups=names)
