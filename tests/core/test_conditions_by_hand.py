"""Conditions and ranges at their limits."""

import pytest

from propcal.core.conditions import (
    MOST_DEPTH,
    MOST_TESTS,
    Ranges,
    Where,
    is_numeric,
    level_order,
    parse,
    range_labels,
    recipe_from_json,
)
from propcal.errors import InputError


def test_a_number_has_a_limited_exponent_and_length():
    for text in ("5", "-5", "0.5", "1e300", "1e-400", "0e400", "1E5", "9" * 308):
        assert is_numeric(text), text
    for text in ("1e309", "1e-401", "0e401", "five", "1e", "", "nan", "inf"):
        assert not is_numeric(text), text
    assert is_numeric("0." + "1" * 398)
    assert not is_numeric("0." + "1" * 399)


def nested(depth):
    return "(" * (depth - 1) + "a" + ")" * (depth - 1)


def test_conditions_are_nested_fifty_deep_at_most_whatever_comes_before():
    assert MOST_DEPTH == 50
    for before in ("", "b and ", "b and (c or d) and not e and "):
        parse(before + nested(50))
        with pytest.raises(InputError, match="50"):
            parse(before + nested(51))
    many_flat = " and ".join(["(a or b)"] * 60)
    assert str(parse(many_flat)) == many_flat


def test_a_condition_has_a_thousand_tests_at_most():
    assert MOST_TESTS == 1_000
    parse(" or ".join(["a"] * 1_000))
    with pytest.raises(InputError, match="1,000"):
        parse(" or ".join(["a"] * 1_001))


def test_cut_points_increase():
    assert Ranges("age", (18.0, 65.0)).labels[1] == "18 to under 65"
    for points in ((18.0, 18.0), (65.0, 18.0), (), (18.0, float("inf")), (18,)):
        with pytest.raises(InputError, match="age"):
            Ranges("age", points)
    Ranges("age", tuple(float(i) for i in range(200)))
    with pytest.raises(InputError, match="200"):
        Ranges("age", tuple(float(i) for i in range(201)))


def test_ranges_of_whole_numbers_are_named_by_their_last_one():
    assert range_labels([1.0, 4.0, 5.0], whole=True) == [
        "under 1",
        "1 to 3",
        "4",
        "5 or over",
    ]
    assert range_labels([]) == ["any value"]
    close = [1.0, 1.0 + 2**-50]  # equal in the first 12 digits
    assert range_labels(close) == [
        "under 1.0",
        f"1.0 to under {close[1]!r}",
        f"{close[1]!r} or over",
    ]


def test_text_comes_before_ranges_and_ranges_ascend():
    levels = ["5 or over", "-2 to under 5", "zebra", "under -2", "apple", "1e1 or over"]
    assert sorted(levels, key=level_order) == [
        "apple",
        "zebra",
        "under -2",
        "-2 to under 5",
        "5 or over",
        "1e1 or over",
    ]


def test_a_recipe_is_read_as_it_was_written():
    for recipe in (Ranges("age", (18.0, 65.0)), Where(parse("age >= 75 or sex = F"))):
        assert recipe_from_json(recipe.to_json()) == recipe
    assert recipe_from_json({"column": "age", "cuts": [1]}).points == (1.0,)
    for content in (
        {"column": "age", "cuts": [True]},
        {"column": 5, "cuts": [1]},
        {"column": "age", "cuts": [1], "more": 1},
        {"where": "a", "column": "b"},
        [],
    ):
        with pytest.raises(InputError):
            recipe_from_json(content)


def test_an_error_shows_200_characters_of_a_condition():
    for length, shown in ((200, "a" * 198 + " ="), (201, "a" * 197 + "...")):
        with pytest.raises(InputError) as error:
            parse("a" * (length - 2) + " =")
        assert shown in str(error.value)
        assert "a" * 199 not in str(error.value)
