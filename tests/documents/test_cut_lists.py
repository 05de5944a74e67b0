"""Lists that are cut say how many are missing, and intervals have the unit of their
numbers.
"""

import re

import numpy as np
import pandas as pd
import pytest

from propcal import Atoms, PMCBoost
from propcal.cli.atoms import some_names
from propcal.core.atoms import LeftOutReport
from propcal.core.correction.fit_summary import WITHIN_ALPHA
from propcal.documents.blocks import At, Column, Table
from propcal.documents.chosen_groups import unknown
from propcal.documents.correction import PatternCurve, fit_lines
from propcal.errors import InputError
from propcal.numbers import IN_TEXT, ON_PAGE
from propcal.options import Identity
from propcal.reading.frames import require
from propcal.render.cells import cell, more


@pytest.fixture(scope="module")
def fitted():
    """A fit to 4 wards, and to 13 clinics that 1 % of the people have."""
    rng = np.random.default_rng(5)
    n = 6000
    ward = rng.choice(list("ABCD"), n)
    clinic = np.where(np.arange(n) < n // 100, np.arange(n) % 13, 99).astype(str)
    score = rng.uniform(0.05, 0.6, n)
    y = rng.random(n) < score * np.where(ward == "A", 1.4, 0.8)
    people = pd.DataFrame(
        {"ward": ward, "clinic": clinic, "score": score, "y": y.astype(int)}
    )
    atoms = Atoms.from_frame(
        people, score="score", outcome="y", groups=["ward", "clinic"]
    )
    return (
        PMCBoost(alpha=0.001, intersections="marginal").fit_atoms(atoms),
        people,
        atoms,
    )


def number_of_more(text):
    (found,) = re.findall(r"and ([\d,]+) more", text)
    return int(found.replace(",", ""))


def test_an_error_lists_30_columns_and_counts_the_others():
    names = [f"column{i}" for i in range(1033)]
    assert number_of_more(some_names(names)) == 1003
    assert "more" not in some_names(names[:30])
    with pytest.raises(InputError) as error:
        require(names, ["nobody"])
    assert number_of_more(str(error.value)) == 1003


def test_an_error_lists_20_groups_and_counts_the_others():
    names = [f"group {i}" for i in range(27)]
    assert number_of_more(str(unknown("group", "ward Z", names))) == 7
    assert "more" not in str(unknown("group", "ward Z", names[:20]))


def test_levels_of_people_left_out_that_are_not_listed_are_counted():
    levels = [(f"level {i}", 50 + i, 200) for i in range(9)]
    text = LeftOutReport(486, 1800, {"ward": levels}).sentence()
    assert number_of_more(text) == 9 - text.count("level ")


def test_a_terminal_shows_the_first_rows_and_counts_the_others():
    table = Table(
        "t",
        "",
        [Column("label", "group")],
        [{"label": str(i)} for i in range(40)],
        most=25,
    )
    assert number_of_more(table.more_than(table.rows_at(At.TEXT))) == 15
    assert table.more_than(table.rows_at(At.PAGE)) == ""


def test_a_fit_counts_the_groups_and_cells_that_it_does_not_list(fitted):
    model, _, atoms = fitted
    kept, small = model.groups_.kept, model.groups_.left_out
    assert len(small) == 13
    assert number_of_more(repr(model.groups_)) == len(kept) - 4
    lines = [*fit_lines(model, atoms, Identity(), 11)]
    listed = [line for line in lines if re.match("  clinic|  [0-9]", line)]
    assert number_of_more(lines[-1]) == 13 - len(listed) == 3
    summary = model.fit_summary_
    cells = summary.listed()
    assert number_of_more(cells[-1]) == np.sum(summary.status != WITHIN_ALPHA) - (
        len(cells) - 1
    )


def test_a_cell_of_a_fit_is_printed_with_the_numbers_of_its_table(fitted):
    summary = fitted[0].fit_summary_
    worst = summary.to_frame().iloc[0]
    low, high = (100 * float(edge) for edge in re.findall(r"[\d.]+", worst["bin"]))
    text = summary.listed()[0]
    assert f"predicted risk {low:.3g}-{high:.3g} %" in text
    observed, predicted = (
        f"{100 * worst[name]:.1f} %" for name in ("outcome_rate", "mean_score")
    )
    assert f"observed {observed}, predicted {predicted}" in text


def test_explanations_count_the_people_who_are_not_shown(fitted):
    model, people, _ = fitted
    reasons = model.correction_.explain(
        people.score[:1012], people[["ward", "clinic"]][:1012]
    )
    assert number_of_more(repr(reasons)) == 1007
    assert number_of_more(reasons._repr_html_()) == 1002


def test_patterns_with_the_curve_of_the_first_are_counted():
    names = ["F, A", "F, B", "M, A", "M, B"]
    assert PatternCurve([2, 0, 3], np.zeros(501)).called(names) == "M, A (and 2 more)"
    assert PatternCurve([1], np.zeros(501)).called(names) == "F, B"


@pytest.mark.parametrize(
    ("kind", "shown", "below"),
    [
        ("interval", "0.12 to 0.35", ""),
        ("percent interval", "12.3 to 34.6", ""),
        ("points interval", "+12.3 to +34.6", ""),
        ("per 100", "20.0", ""),
        ("per 100 with interval", "20.0", "12.3 to 34.6"),
    ],
)
@pytest.mark.parametrize("style", [IN_TEXT, ON_PAGE])
def test_an_interval_has_the_unit_of_its_number(kind, shown, below, style):
    row = {"rate": 0.2, "rate_low": 0.1234, "rate_high": 0.3456}
    column = Column("rate", "", kind, 2 if kind == "interval" else 1)
    assert (cell(column, row, style), more(column, row, style)) == (shown, below)
