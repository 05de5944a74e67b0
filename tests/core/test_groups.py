"""The collection C: its order, what is left out, missing values."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from propcal import Groups, PMCBoost, audit
from propcal.core.conditions import parse
from propcal.core.groups import Group
from propcal.errors import InputError
from propcal.reading.derived_columns import evaluate
from propcal.reading.rows import rows_to_atoms


def collect(frame, gamma=0.01, **kw):
    atoms = rows_to_atoms(np.full(len(frame), 0.5), np.arange(len(frame)) % 2, frame)
    return Groups(**kw).collect(atoms, gamma=gamma)


def names(collection):
    return [size.group.name for size in collection]


FRAME = pd.DataFrame(
    {"race": ["w", "b", None, "w"], "sex": ["M", "F", "F", "F"], "ins": ["x"] * 4}
)


def test_order_is_by_depth_then_attributes_as_given_then_sorted_levels_with_missing_last():
    assert names(collect(FRAME)) == [
        "race=b",
        "race=w",
        "race missing",
        "sex=F",
        "sex=M",
        "ins=x",
        "race=b & sex=F",
        "race=w & sex=F",
        "race=w & sex=M",
        "race missing & sex=F",
        "race=b & ins=x",
        "race=w & ins=x",
        "race missing & ins=x",
        "sex=F & ins=x",
        "sex=M & ins=x",
        "race=b & sex=F & ins=x",
        "race=w & sex=F & ins=x",
        "race=w & sex=M & ins=x",
        "race missing & sex=F & ins=x",
    ]


def test_depth_limits_the_intersections():
    assert len(collect(FRAME, intersections="marginal")) == 6
    assert names(collect(FRAME, intersections=2)) == names(collect(FRAME))[:15]
    assert len(collect(FRAME, intersections=7)) == len(collect(FRAME))


def test_groups_left_out_are_listed_with_their_size_and_reason():
    collection = collect(FRAME[["race", "sex"]], gamma=0.5)
    assert names(collection) == ["race=w", "sex=F"]
    left = {size.group.name: (size.people, size.share) for size in collection.left_out}
    assert left["race=b"] == (1, 0.25)
    assert len(left) == 7
    frame = collection.to_frame()
    assert len(frame) == 9
    assert frame[~frame.kept].reason.unique().tolist() == ["share below gamma=0.5"]


def test_a_group_at_exactly_gamma_is_kept():
    frame = pd.DataFrame({"g": ["a"] * 7 + ["b"] * 93})
    assert names(collect(frame, gamma=0.07)) == [
        "g=a",
        "g=b",
    ]  # 0.07 * 100 is above 7 in floating point


def test_missing_values_are_a_level_or_excluded_or_refused():
    assert "race missing" in names(collect(FRAME))
    excluded = collect(FRAME, missing="exclude")
    assert not [name for name in names(excluded) if "missing" in name]
    assert {size.left_out for size in excluded.left_out} == {"missing value"}
    with pytest.raises(
        InputError,
        match=r"'race' is missing for 1 person\. Find out why, or set missing=\"level\"",
    ):
        collect(FRAME, missing="error")


def test_a_missing_value_is_no_text():
    frame = pd.DataFrame({"race": ["missing", "nan", "None", None]})
    assert names(collect(frame)) == [
        "race=None",
        "race=missing",
        "race=nan",
        "race missing",
    ]


def test_equal_values_of_different_kinds_are_one_level():
    frame = pd.DataFrame(
        {"g": np.array([1, 1.0, "1", True, "true", np.nan, None], dtype=object)}
    )
    collection = collect(frame)
    assert names(collection) == [
        "g=1",
        "g",
        "g missing",
    ]  # a level "true" is said by its name alone
    assert [size.people for size in collection] == [3, 2, 2]


def test_no_attributes_is_one_group_everybody():
    score, y = [0.2, 0.4, 0.6], [0, 1, 1]
    model = PMCBoost.paper(alpha=0.05, n_bins=1).fit(score, y)
    assert [size.group.name for size in model.groups_] == ["everybody"]
    assert model.predict([0.4]) == pytest.approx([0.4 + 2 / 3 - 0.4])


def test_all_groups_below_gamma_is_an_error():
    with pytest.raises(
        InputError,
        match=r"the largest of 9 groups, .*, has a share of .*, below gamma=0\.9\. Lower gamma",
    ):
        collect(FRAME[["race", "sex"]], gamma=0.9)


def test_group_names_say_what_they_mean():
    assert Group(()).name == "everybody"
    assert Group((("race", None), ("sex", "F"))).name == "race missing & sex=F"


def test_very_many_attributes_do_not_overflow():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {f"a{i}": rng.integers(0, 20, 500).astype(str) for i in range(16)}
    )  # 20**16 > 2**63
    collection = collect(frame, intersections="marginal")
    assert len(collection) == 320
    assert sum(size.people for size in collection) == 16 * 500


@pytest.mark.parametrize(
    "wrong", [{"intersections": "some"}, {"intersections": 0}, {"missing": "drop"}]
)
def test_wrong_settings_are_told(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Groups(**wrong)


@pytest.mark.parametrize(
    "column",
    [
        ["true", "false", "maybe", "1"],
        [True, False, None, True],
        [1, 0, 2, 1],
        ["1", "01", "x", "1.0"],
    ],
)
def test_a_condition_holds_for_a_person_alone_as_in_a_batch(column):
    condition, values = parse("flag = 1"), pa.array(column)
    together = evaluate(condition, {"flag": values}, "flagged")
    alone = [
        evaluate(condition, {"flag": values[i : i + 1]}, "flagged")[0] for i in range(4)
    ]
    assert together.tolist() == alone


@pytest.fixture
def many():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({f"c{i}": rng.choice(list("abcd"), 500) for i in range(10)})
    return people, rng.uniform(0.1, 0.9, 500), rng.integers(0, 2, 500)


def test_too_many_intersections_are_refused_before_any_is_listed(many, monkeypatch):
    people, score, y = many
    monkeypatch.setattr(Groups, "_sizes", lambda *_: pytest.fail("groups were listed"))
    monkeypatch.setattr("propcal.core.groups.MOST_MEMBERSHIPS", 1 << 20)
    told = r"10 attributes have more than 2,097 intersections .* Use fewer columns, or set intersections=2 for"
    for use in (
        lambda: audit(y, score, sensitive_features=people),
        lambda: PMCBoost().fit(score, y, sensitive_features=people),
        lambda: Groups().preview(people),
    ):
        with pytest.raises(InputError, match=told):
            use()
    monkeypatch.setattr("propcal.core.groups.MOST_MEMBERSHIPS", 1 << 16)
    with pytest.raises(
        InputError, match=r'or set intersections="marginal" for single attributes only$'
    ):
        Groups(intersections=2).preview(people)
    monkeypatch.setattr("propcal.core.groups.MOST_MEMBERSHIPS", 1 << 13)
    with pytest.raises(InputError, match=r"Use fewer columns$"):
        Groups(intersections="marginal").preview(people)


def test_as_many_groups_are_allowed_as_can_be_measured(many, monkeypatch):
    people = many[0]
    groups = Groups(
        columns=["c0", "c1", "c2"], where={"w": "c3 = a", "v": "c4 != a and c3 = b"}
    )
    n = len(groups.preview(people))
    patterns = people[["c0", "c1", "c2"]].assign(
        w=people.c3 == "a", v=(people.c4 != "a") & (people.c3 == "b")
    )
    n_patterns = len(patterns.drop_duplicates())
    monkeypatch.setattr("propcal.core.groups.MOST_MEMBERSHIPS", n * n_patterns)
    assert len(groups.preview(people)) == n
    monkeypatch.setattr("propcal.core.groups.MOST_MEMBERSHIPS", n * n_patterns - 1)
    with pytest.raises(InputError, match=f"more than {n - 1:,} intersections"):
        groups.preview(people)


def test_named_groups_are_used_whatever_gamma_says():
    frame = pd.DataFrame(
        {
            "sex": ["F", "M"] * 500,
            "age": [90] * 12 + [40] * 988,
            "ward": ["A"] * 30 + ["B"] * 970,
        }
    )
    words = Groups(columns=["ward"], where={"very old": "age > 80"})
    table = words.preview(frame, gamma=0.5).set_index("group")
    assert table.reason["very old"] == ""
    assert table.reason["ward=A"] == "share below gamma=0.5"
    assert (
        table.reason["ward=A & very old"] == "share below gamma=0.5"
    )  # nobody named this intersection
    masks = pd.DataFrame({"rare": [True] * 12 + [False] * 988})
    score, y = [0.2] * 1000, [1] * 10 + [0, 0] + [0, 0, 0, 1] * 247
    model = PMCBoost(groups=Groups.from_masks(masks)).fit(
        score, y, sensitive_features=masks
    )
    assert [group.name for group in model.groups_.groups] == ["rare"]
    assert model.predict([0.2], sensitive_features={"rare": [True]})[0] > 0.5
    audited = audit(
        y, score, sensitive_features=masks, groups=Groups.from_masks(masks), n_draws=100
    )
    assert "rare" in set(audited.categories.group)


def test_codes_may_be_levels_with_or_without_cut_points_of_other_columns():
    assert Groups(as_levels=["ward"]).as_levels == ["ward"]
    assert Groups(as_levels=["ward"], cuts={"age": [65]}).cuts == {"age": [65]}
    with pytest.raises(InputError, match="ward"):
        Groups(as_levels=["ward"], cuts={"ward": [65]})


def test_attributes_have_five_thousand_combinations_at_most():
    def n_combinations(n, intersections):
        names = [f"a{i}" for i in range(n)]
        groups = Groups(intersections=intersections)
        return len(list(groups._combinations_by_depth(names)))

    assert n_combinations(99, 2) == 99 + 99 * 98 / 2  # 4,950
    assert n_combinations(12, "all") == 2**12 - 1
    for n, intersections in ((100, 2), (13, "all")):  # 5,050 and 8,191
        with pytest.raises(InputError, match="5,000 combinations"):
            n_combinations(n, intersections)
