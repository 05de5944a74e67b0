"""Results in a terminal: readable at 80 columns, without colour, and whatever groups
are called.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import propcal
from propcal.auditing.audit_claims import clearest_cells
from propcal.documents.audit import audit_document
from propcal.documents.blocks import Column, Document, Table
from propcal.documents.report import comparison_document
from propcal.errors import plain
from propcal.render.text import text as in_text


@pytest.fixture
def audit(cohort):
    return propcal.audit(
        cohort.y, cohort.score, sensitive_features=cohort[["race", "gender"]]
    )


def shown(renderable, width=80, **kw):
    console = Console(width=width, highlight=False, **kw)
    with console.capture() as text:
        console.print(renderable)
    return text.get()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_the_terminal_and_numbers_are_whole(audit, width):
    text = shown(in_text(audit_document(audit)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert f"{audit.losses.loc['pmc', 'value']:.3f}" in text
    assert "All people" in text


def test_long_names_of_groups_fold(audit):
    name = "race=American Indian/Alaska Native & insurance=Medicaid & marital status=never married"
    audit.categories["group"] = audit.groups["group"] = audit.groups["label"] = name
    audit.losses["where"] = f"{name}, scores in [0.5, 0.6)"
    text = shown(in_text(audit_document(audit)))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "marital" in text


def test_no_line_of_a_table_ends_within_a_word():
    rows = [
        {
            "group": "Black/African American, F",
            "finding": "O/E 1.03 without the error of White and F",
        },
        {"group": "Hispanic/Latino", "finding": "named"},
    ]
    columns = [Column("group", "group", "text"), Column("finding", "finding", "text")]
    words = {word for row in rows for text in row.values() for word in text.split()}
    for width in range(35, 90):
        lines = shown(
            in_text(Document("", "", [Table("t", "", columns, rows)])), width
        ).splitlines()
        assert max(map(len, lines)) <= width
        assert {word for line in lines for word in line.split()} - {
            "group",
            "finding",
        } == words


def test_names_of_groups_are_no_markup_and_cannot_steer_the_terminal(audit):
    name = "race=[red]A[/red] [link=x]\x1b[2J\r\n:smile:"
    audit.groups["group"] = audit.groups["label"] = audit.categories[
        "group"
    ] = audit.losses["where"] = name
    text = shown(in_text(audit_document(replace(audit, notes=(name,)))), 300)
    assert text.count("race=[red]A[/red] [link=x]?[2J??:smile:") > 5
    assert "\x1b" not in text
    assert plain("größe=ü 中") == "größe=ü 中"


def test_the_worst_categories_are_the_surest(audit):
    frame = pd.DataFrame(
        {
            "group": list("abcde"),
            "gap": [0.5, 0.2, -0.3, 0.1, 0.9],
            "low": [-0.1, 0.1, -0.4, -0.1, 0.5],
            "high": [1.0, 0.3, -0.2, 0.2, 1.0],
            "detectable_gap": [0.6, 0.1, 0.1, np.nan, 0.1],
            "eligible": [True, True, True, True, False],
            "finding": [
                "could be chance",
                "too low",
                "too high",
                "could be chance",
                "not enough data",
            ],
        }
    )
    assert clearest_cells(frame).group.tolist() == ["c", "b", "a", "d"]
    assert clearest_cells(frame, 2).group.tolist() == ["c", "b"]


def test_what_is_not_known_is_a_dash(audit):
    audit.losses.loc[:, ["floor_median", "floor_95", "low", "high"]] = np.nan
    audit.groups[["observed_expected_low", "observed_expected_high"]] = np.nan
    audit.categories[["low", "high", "detectable_gap"]] = np.nan
    audit.categories["finding"] = "not tested"
    text = shown(in_text(audit_document(audit)))
    assert "nan" not in text
    assert "whether chance explains them is not known" in " ".join(text.split())


def test_a_hidden_difference_is_a_dash(cohort):
    scores = {"a": cohort.score, "b": cohort.score / 2}
    found = propcal.compare(
        scores, cohort.y, sensitive_features=cohort[["race", "gender"]], n_draws=100
    )
    found.differences.loc[
        found.differences.group != "everybody", ["difference", "low", "high"]
    ] = np.nan
    assert "nan" not in shown(in_text(comparison_document(found)))


def test_groups_left_out_are_marked_with_their_reason(audit):
    audit.groups.loc[1, ["kept", "reason"]] = [False, "fewer than 50 people"]
    text = shown(in_text(audit_document(audit)))
    left_out = text[text.index("Shown but not tested: ") :]
    assert audit.groups.label[1] in left_out
    assert "fewer than 50 people" in left_out


def test_nothing_to_look_at_is_said(audit):
    audit.categories["eligible"] = False
    text = shown(in_text(audit_document(replace(audit, notes=()))))
    assert "No cell has enough data to judge" in text
    assert "Notes" not in text


def test_many_groups_are_cut_with_a_count(audit):
    audit = replace(audit, groups=pd.concat([audit.groups] * 9, ignore_index=True))
    text = shown(in_text(audit_document(audit)))
    assert f"... and {int(audit.groups.kept.sum()) - 25:,} more groups" in text


def test_the_mark_beside_a_group_follows_the_interval_as_it_is_printed(audit):
    rows = audit.groups.index[
        audit.groups["kept"] & (audit.groups["finding"] == "could be chance")
    ][:2]
    assert len(rows) == 2
    ends = ["observed_expected", "observed_expected_low", "observed_expected_high"]
    audit.groups.loc[rows[0], ends] = [1.2, 0.996, 1.4]  # printed as 1.00 to 1.40
    audit.groups.loc[rows[1], ends] = [
        1.2,
        1.004,
        1.4,
    ]  # to two decimals it would be the same; it is 1.01
    lines = shown(in_text(audit_document(audit)), 200).splitlines()
    (one,) = [line for line in lines if "1.00 to 1.40" in line]
    (other,) = [line for line in lines if "1.01 to 1.40" in line]
    assert not one.rstrip().endswith("+")
    assert other.rstrip().endswith("+")


def test_thresholds_are_explained_as_far_as_they_are_shown(cohort):
    found = propcal.audit(
        cohort.y,
        cohort.score,
        sensitive_features=cohort[["race"]],
        thresholds=[0.3, 0.5],
    )
    title = "Threshold 50 %: per 100 people, or in percent"
    terminal, written = str(found), found.to_markdown(suppress=0)
    assert title in terminal
    assert "Intervals: 95 % CI" not in terminal
    assert "Treatments avoided" not in terminal
    assert written.count(title) == 1
    assert "Intervals: 95 % CI" in written
    assert "Treatments avoided: " in written


def test_the_users_noun_is_used_for_everybody(cohort):
    y = np.random.default_rng(0).random(len(cohort)) < cohort.score / 8
    score = (cohort.score / 8).where(np.arange(len(cohort)) % 40 > 0)
    found = propcal.audit(
        y,
        score,
        sensitive_features=cohort[["race", "gender"]],
        unit="stays",
        drop_missing=True,
        n_draws=100,
        min_group=400,
    )
    text = " ".join(shown(in_text(audit_document(found)), 200).split())
    assert (
        "75 of 3,000 stays (2.5 %) have no score or outcome and were left out" in text
    )
    assert "fewer than 400 stays" in text
    assert "people" not in text.replace("PEOPLE", "")
    assert "The outcome is rare: fewer than 10 % had it." in text
    assert "All stays: " in found.to_html()
    assert " people." not in found.to_html().split("</main>")[0].split("Methods")[0]
