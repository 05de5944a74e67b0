"""What people call groups: levels alone where these are clear, never two groups by one
label.
"""

import numpy as np
import pytest

from propcal import Groups, audit
from propcal.core.groups import Group, group_labels
from propcal.core.patterns import Patterns
from propcal.errors import InputError


def label(conditions, levels, labels=None):
    names = tuple(levels)
    patterns = Patterns(
        names, tuple(levels.values()), np.empty((0, len(names)), dtype=np.int64)
    )
    return group_labels([Group(tuple(conditions.items()))], patterns, labels)[0]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, "All people"),
        ({"race": "White", "sex": "F"}, "White, F"),
        ({"race": None}, "race not recorded"),
        ({"race": None, "sex": "F"}, "race not recorded, F"),
        ({"icu": "true"}, "icu"),
        ({"icu": "false"}, "not icu"),
        ({"acuity": "2"}, "acuity 2"),
        ({"diabetes": "yes"}, "diabetes: yes"),
        ({"ward": "A"}, "ward: A"),  # a site is called A, too
        ({"race": "Other"}, "race: Other"),
    ],
)
def test_levels_speak_for_themselves_where_they_can(conditions, expected):
    levels = {
        "race": ("Other", "White", None),
        "sex": ("F", "M"),
        "icu": ("false", "true"),
        "acuity": ("1", "2"),
        "diabetes": ("no", "yes"),
        "ward": ("A", "B"),
        "site": ("A", "C"),
    }
    assert label(conditions, levels) == expected


def test_the_users_labels_win():
    levels = {"sex": ("F", "M", None)}
    given = {"sex": {"F": "women", "": "sex unknown"}}
    assert label({"sex": "F"}, levels, given) == "women"
    assert label({"sex": "M"}, levels, given) == "M"
    assert label({"sex": None}, levels, given) == "sex unknown"


def test_two_groups_never_share_a_label():
    patterns = Patterns(
        ("a", "b"), (("x", "y"), ("u", "v")), np.empty((0, 2), dtype=np.int64)
    )
    groups = [Group((("a", "x"),)), Group((("b", "u"),)), Group((("b", "v"),))]
    found = group_labels(groups, patterns, {"a": {"x": "same"}, "b": {"u": "same"}})
    assert found == ["a=x", "b=u", "v"]


def test_levels_named_like_all_people_are_told_apart_from_them():
    levels = (("All people", "everybody", "z"),)
    patterns = Patterns(("ward",), levels, np.empty((0, 1), dtype=np.int64))
    groups = [Group(()), *(Group((("ward", level),)) for level in levels[0])]
    assert group_labels(groups, patterns) == [
        "All people",
        "ward: All people",
        "ward: everybody",
        "z",
    ]
    labels = {"ward": {"z": "All people", "everybody": "ward=z"}}
    assert group_labels(groups, patterns, labels) == [
        "everybody",
        "ward: All people",
        "ward=everybody",
        "ward=z",
    ]


def test_an_audit_speaks_the_users_words(cohort):
    a = audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["gender"]],
        groups=Groups(columns=["gender"]),
        labels={"gender": {"F": "women", "M": "men"}},
        unit="patients",
        score_name="Sepsis risk",
        outcome_name="sepsis",
        source="North Hospital",
        period="2025",
        n_draws=100,
    )
    assert a.groups["label"].tolist() == ["All patients", "women", "men"]
    assert a.verdict.text.startswith("Sepsis risk is miscalibrated")
    assert "women (O/E" in a.verdict.text
    page = a.to_html()
    for text in ("sepsis", "North Hospital", "2025", "All patients"):
        assert text in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"labels": {"sex": "women"}}, "labels must be a dict of dicts"),
        ({"unit": 3}, "unit must be a text"),
        ({"score_name": "x" * 500}, "score_name must be a text of at most 200"),
    ],
)
def test_wrong_names_are_refused(cohort, given, said):
    with pytest.raises(InputError, match=said):
        audit(cohort.y, cohort.score, **given)
