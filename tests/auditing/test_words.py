"""Groups said in the user's words: cut points, conditions, masks, chosen
intersections.
"""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from propcal import Atoms, Correction, Groups, PMCBoost, pmc_loss
from propcal.core.conditions import columns_of, parse
from propcal.errors import FileFormatError, InputError
from propcal.reading.derived_columns import evaluate
from propcal.reading.frames import attribute_columns

PEOPLE = pd.DataFrame(
    {
        "age": [17, 18, 39.5, 80, 76, None],
        "insurance": ["Medicare", "Other", None, "Medicare", "Medicaid", "Medicare"],
        "icu": [True, False, True, False, False, True],
        "blood pressure": [120, 130, 140, 150, 160, 170],
        "zip": ["02139", "2139", "02139", "1", "2", None],
        "dose": np.array([0.1, 0.1, 0.2, 0.3, 0.4, 0.5], dtype=np.float32),
        "number": [2**53, 2**53 + 1, 1, 2, 3, 4],
    }
)


def who(text):
    return np.flatnonzero(
        evaluate(parse(text), attribute_columns(PEOPLE), "test")
    ).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 75 and insurance = Medicare", [3]),
        ("age >= 75 and insurance == 'Medicare'", [3]),
        ("insurance = Medicare or icu", [0, 2, 3, 5]),
        ("not icu", [1, 3, 4]),
        ("icu = true", [0, 2, 5]),
        ("icu == True", [0, 2, 5]),
        ("icu = FALSE", [1, 3, 4]),
        ("icu = 1", [0, 2, 5]),
        ("icu != 1", [1, 3, 4]),
        ("zip = 02139", [0, 2]),
        ("zip in [02139, '2139']", [0, 1, 2]),
        ("dose = 0.1", [0, 1]),
        ("number = 9007199254740993", [1]),
        ("number = 9007199254740992", [0]),
        ("age < 18", [0]),
        ("age <= 18", [0, 1]),
        ("age > 39.5", [3, 4]),
        ("age = 80", [3]),
        ("age != 80", [0, 1, 2, 4]),  # a missing age passes no test
        ("not age = 80", [0, 1, 2, 4, 5]),  # "not" is everybody else
        ("age is missing", [5]),
        ("age is not missing", [0, 1, 2, 3, 4]),
        ("insurance in [Medicare, Medicaid]", [0, 3, 4, 5]),
        ("insurance not in ['Medicare']", [1, 4]),
        ("`blood pressure` >= 1.5e2 and (icu or age > 70)", [3, 4, 5]),
        ("icu and age > 20 or age = 17", [0, 2]),  # "and" binds tighter
        ("INSURANCE_ = x", None),
    ],
)
def test_conditions_mean_what_they_say(text, expected):
    if expected is None:
        with pytest.raises(KeyError):
            who(text)
    else:
        assert who(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "age >=",
        ">= 5",
        "age >= 5 and",
        "(age > 5",
        "age > 5)",
        "age ! 5",
        "in [1]",
        "age in [",
        "age in [1,]",
        "age is 5",
        "and",
        "__import__('os')",
        "age > 5; drop",
        "age > 5 age",
        "1 < age",
        "age + 1 > 5",
        "a.b = 1",
    ],
)
def test_what_is_no_condition_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="Example: age >= 75"):
        parse(text)


literals = st.one_of(
    st.floats(-1e6, 1e6).map(str), st.integers().map(str), st.text(max_size=8)
)
tests = st.tuples(
    st.sampled_from(["age", "blood pressure", "and", "In", "x y"]),
    st.sampled_from(["=", "!="]),
    literals,
)


@given(st.lists(tests, min_size=1, max_size=4), st.sampled_from([" and ", " or "]))
def test_conditions_are_written_as_they_are_read(parts, joined):
    from propcal.core.conditions import ColumnTest, Combined

    tests = tuple(ColumnTest(column, op, (value,)) for column, op, value in parts)
    condition = tests[0] if len(tests) == 1 else Combined(joined.strip(), tests)
    assert parse(str(condition)) == condition
    assert parse(str(parse(f"not ({condition})"))) == parse(f"not ({condition})")
    assert set(columns_of(condition)) == {column for column, _, _ in parts}


def test_a_condition_of_the_wrong_type_is_told():
    with pytest.raises(
        InputError,
        match=r"condition 'old': column 'insurance' must be numeric; all 6 values are text",
    ):
        Groups(columns=[], where={"old": "insurance > 5"}).preview(PEOPLE)
    with pytest.raises(InputError, match="'age' with 'old', which is not a number"):
        Groups(columns=[], where={"old": "age >= old"})
    with pytest.raises(InputError, match='use "is missing" for missing values'):
        Groups(columns=[], where={"old": "age = missing"})
    with pytest.raises(InputError, match="'born' holds dates"):
        Groups(columns=[], where={"b": "born = 2020"}).preview(
            PEOPLE.assign(born=pd.Timestamp("2020-01-01"))
        )
    with pytest.raises(
        InputError,
        match="'age' is used by itself but does not contain only true and false",
    ):
        Groups(columns=[], where={"old": "age"}).preview(PEOPLE)
    with pytest.raises(InputError, match=r"no column 'agee'.*Did you mean 'age'"):
        Groups(columns=[], where={"old": "agee > 5"}).preview(PEOPLE)
    with pytest.raises(InputError, match="must be a text"):
        Groups(where={"old": lambda frame: True})


def names(frame):
    return frame.group.tolist()


def test_cut_points_make_ranges_in_order_with_missing_last():
    table = Groups(columns=[], cuts={"age": [18, 40, 65]}).preview(PEOPLE, gamma=0.2)
    assert names(table) == [
        "age=under 18",
        "age=18 to under 40",
        "age=65 or over",
        "age missing",
    ]
    assert table.people.tolist() == [1, 2, 2, 1]
    assert table.kept.tolist() == [False, True, True, False]
    assert table.reason[0] == "share below gamma=0.2"


def test_people_outside_a_condition_are_no_group():
    groups = Groups(
        columns=["icu"],
        where={"elderly Medicare": "age >= 75 and insurance = Medicare"},
    )
    assert names(groups.preview(PEOPLE)) == [
        "not icu",
        "icu",
        "elderly Medicare",
        "not icu & elderly Medicare",
    ]


def test_preview_has_outcome_rates_of_every_group():
    people = PEOPLE.assign(y=[1, 0, 1, 1, 0, 0])
    table = Groups(columns=["icu"]).preview(people, "y")
    assert table.set_index("group").outcome_rate.to_dict() == {
        "not icu": 1 / 3,
        "icu": 2 / 3,
    }
    assert Groups(columns=["icu"]).preview(PEOPLE).outcome_rate.isna().all()
    assert Groups(columns=["icu"]).preview(PEOPLE, people.y).equals(table)
    weighted = Groups(columns=["icu"]).preview(
        people, "y", sample_weight=[2, 1, 1, 1, 1, 1]
    )
    assert weighted.outcome_rate.tolist() == [1 / 3, 3 / 4]
    with pytest.raises(InputError, match="no column 'outcome'"):
        Groups(columns=["icu"]).preview(people, "outcome")


def test_depth_limits_and_chosen_intersections():
    frame = pd.DataFrame(
        {"a": ["x", "y"] * 4, "b": ["u", "u", "v", "v"] * 2, "c": ["s"] * 8}
    )
    assert not [
        n
        for n in names(Groups(depth={"c": 1}).preview(frame))
        if "c=s" in n and "&" in n
    ]
    assert len(Groups(depth={"c": 2}).preview(frame)) == 2 + 2 + 1 + 4 + 2 + 2
    chosen = Groups(intersections=[["b"], ["b", "a"]]).preview(frame)
    assert names(chosen)[:3] == ["b=u", "b=v", "a=x & b=u"]
    assert len(chosen) == 6
    with pytest.raises(InputError, match="no attribute 'd' to combine"):
        Groups(intersections=[["d"]]).preview(frame)
    with pytest.raises(InputError, match="no attribute 'd' to combine"):
        Groups(depth={"d": 1}).preview(frame)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"columns": "race"}, "columns must be a list"),
        ({"cuts": {"age": [40, 18]}}, "cuts of 'age' must be increasing numbers"),
        ({"cuts": {"age": []}}, "cuts of 'age'"),
        ({"cuts": {"age": ["old"]}}, "cuts of 'age' must be a list of numbers"),
        ({"cuts": {"age": 40}}, "cuts of 'age' must be a list of numbers"),
        ({"cuts": {"age": [float("nan")]}}, "cuts of 'age'"),
        ({"cuts": {"age": "46"}}, "cuts of 'age' must be a list of numbers"),
        ({"cuts": [18]}, "cuts must be a dict"),
        ({"where": "age > 5"}, "where must be a dict"),
        ({"where": {"": "age > 5"}}, "every condition needs a name"),
        ({"where": {5: "age > 5"}}, "every condition needs a name"),
        ({"where": {"a": "age < 1e400"}}, "too large, too small or too long"),
        (
            {"where": {"a": "(" * 5000 + "icu" + ")" * 5000}},
            "nested more than 50 levels deep",
        ),
        ({"columns": ["icu", "icu"]}, "columns: 'icu' is listed twice"),
        ({"columns": ["icu"], "intersections": [["icu"], ["icu"]]}, "twice"),
        ({"intersections": [["icu"]], "depth": {"icu": 1}}, "depth cannot be combined"),
        ({"intersections": []}, "intersections"),
        ({"intersections": ["race"]}, "intersections"),
        ({"depth": {"race": 0}}, "depth of 'race'"),
        (
            {"cuts": {"age": [5]}, "where": {"age": "age > 5"}},
            "'age' is the name of a condition and of a column with cuts",
        ),
        (
            {"columns": ["age"], "where": {"age": "age > 5"}},
            "'age' is the name of a condition and of a column",
        ),
    ],
)
def test_what_makes_no_groups_is_told(wrong, message):
    with pytest.raises(InputError, match=message):
        Groups(**wrong).preview(PEOPLE)


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    n = 4000
    age, insurance = (
        rng.integers(18, 95, n),
        rng.choice(["Medicare", "Medicaid", "Other"], n),
    )
    score = rng.beta(2, 4, n)
    worse = (age >= 75) & (insurance == "Medicare")
    y = (rng.random(n) < np.clip(score * np.where(worse, 1.7, 1.0), 0, 1)).astype(int)
    icu = rng.random(n) < 0.3
    return pd.DataFrame(
        {
            "age": age,
            "insurance": insurance,
            "icu": icu,
            "score": score,
            "y": y,
            "sex": rng.choice(["F", "M"], n),
        }
    )


GROUPS = Groups(
    columns=["sex"],
    cuts={"age": [40, 65]},
    depth={"age": 1},
    where={
        "elderly Medicare": "age >= 75 and insurance = Medicare",
        "intensive care": "icu",
    },
)


def test_a_named_group_is_put_right(patients):
    model = PMCBoost.paper(alpha=0.05, groups=GROUPS)
    model.fit(patients.score, patients.y, sensitive_features=patients)
    assert "elderly Medicare" in {u.group for u in model.updates_}
    assert not any("age=" in u.group and "&" in u.group for u in model.updates_)
    corrected = model.predict(patients.score, sensitive_features=patients)
    rows = ((patients.age >= 75) & (patients.insurance == "Medicare")).to_numpy()
    assert (
        abs(corrected[rows].mean() - patients.y[rows].mean())
        < 0.02
        < abs(patients.score[rows].mean() - patients.y[rows].mean())
    )
    assert (
        pmc_loss(patients.y, corrected, sensitive_features=patients, groups=GROUPS)
        <= 0.05 + 1e-8
    )
    assert model.correction_.attributes == (
        "sex",
        "age",
        "elderly Medicare",
        "intensive care",
    )
    assert model.correction_.reads == ("sex", "age", "insurance", "icu")


def test_words_survive_the_file_and_score_any_frame(patients, tmp_path):
    model = PMCBoost(groups=GROUPS).fit(
        patients.score, patients.y, sensitive_features=patients
    )
    model.correction_.save(tmp_path / "m.json")
    loaded = Correction.load(tmp_path / "m.json")
    assert loaded.model_id == model.correction_.model_id
    expected = model.predict(patients.score, sensitive_features=patients)
    assert np.array_equal(loaded.apply(patients.score, patients), expected)
    assert np.array_equal(
        loaded.apply(patients.score, pl.from_pandas(patients)), expected
    )
    with pytest.raises(InputError, match="no column 'insurance'"):
        loaded.apply(patients.score, patients.drop(columns="insurance"))
    with pytest.raises(InputError, match="column 'age' must be numeric"):
        loaded.apply(patients.score, patients.assign(age="old"))


def test_atoms_carry_the_words(patients, tmp_path):
    def atoms(frame):
        return Atoms.from_frame(frame, score="score", outcome="y", groups=GROUPS)

    both = atoms(patients[:1500]) + atoms(patients[1500:])
    both.save(tmp_path / "a")
    model = PMCBoost(groups=GROUPS).fit_atoms(Atoms.load(tmp_path / "a"))
    by_rows = PMCBoost(groups=GROUPS).fit(
        patients.score, patients.y, sensitive_features=patients
    )
    assert model.correction_.to_json() == by_rows.correction_.to_json()
    other = Atoms.from_frame(
        patients,
        score="score",
        outcome="y",
        groups=Groups(columns=["sex"], cuts={"age": [50, 65]}, where=GROUPS.where),
    )
    with pytest.raises(InputError, match="defined differently"):
        both + other
    with pytest.raises(InputError, match="name the columns"):
        Atoms.from_frame(
            patients, score="score", outcome="y", groups=Groups(cuts={"age": [50]})
        )


@pytest.mark.parametrize(
    "nonsense",
    [
        5,
        {"shoe": {"where": "a > 5"}},
        {"age": {"where": "a >"}},
        {"age": {"cuts": [5]}},
        {"age": {"column": "age", "cuts": ["x"]}},
        {"age": {"column": "age", "cuts": [5, 1]}},
        {"age": {"where": 5}},
    ],
)
def test_words_edited_into_nonsense_are_refused(patients, tmp_path, nonsense):
    PMCBoost(groups=GROUPS).fit(
        patients.score, patients.y, sensitive_features=patients
    ).correction_.save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps({**content, "derived": nonsense}))
    with pytest.raises(FileFormatError, match="derived"):
        Correction.load(tmp_path / "m.json")


def test_groups_given_twice_are_told(patients):
    with pytest.raises(InputError, match="given twice"):
        PMCBoost(groups=GROUPS, intersections=1).fit(
            patients.score, patients.y, sensitive_features=patients
        )
    with pytest.raises(InputError, match="given twice"):
        pmc_loss(
            patients.y,
            patients.score,
            sensitive_features=patients,
            groups=GROUPS,
            missing="exclude",
        )
    with pytest.raises(InputError, match=r"groups must be a propcal\.Groups"):
        pmc_loss(
            patients.y, patients.score, sensitive_features=patients, groups=["race"]
        )
    with pytest.raises(InputError, match=r"groups must be a propcal\.Groups"):
        PMCBoost(groups=["race"]).fit(
            patients.score, patients.y, sensitive_features=patients
        )


def test_a_mask_of_another_length_is_told(patients):
    features = {"sex": patients.sex, "icu": patients.icu[:10]}
    with pytest.raises(InputError, match="attribute 'icu' has 10"):
        PMCBoost(groups=Groups(columns=["sex"], where={"ward": "icu"})).fit(
            patients.score, patients.y, sensitive_features=features
        )


def test_a_condition_that_nobody_meets_is_listed():
    table = Groups(columns=["icu"], where={"very old": "age > 200"}).preview(
        PEOPLE, PEOPLE.icu
    )
    row = table.set_index("group").loc["very old"]
    assert (row.people, row.kept, row.reason) == (
        0,
        False,
        "nobody meets the condition",
    )
    assert np.isnan(row.outcome_rate)


def test_cuts_that_differ_in_the_last_digit_have_different_names():
    table = Groups(columns=[], cuts={"age": [40, 40.0000000000001]}).preview(PEOPLE)
    assert table.group.is_unique


def test_without_columns_named_a_missing_one_is_told():
    with pytest.raises(InputError, match="no column 'weight'"):
        Groups(cuts={"weight": [50]}).preview(PEOPLE[["icu"]])
