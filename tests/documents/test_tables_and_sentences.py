"""Texts, tables and sentences as data: nothing in them is misspelt, and nothing is left
over.
"""

import re
import tomllib
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pandas as pd
import pytest

from paths import ROOT
from propcal import audit
from propcal.auditing.audit_claims import cell_claims
from propcal.auditing.claims import Claim
from propcal.auditing.names import MEASURE_NAMES
from propcal.auditing.statistics.hypothesis_tests import DIFFERENCES, CalibrationTest
from propcal.datasets import make_ed_visits
from propcal.documents.audit import audit_document
from propcal.documents.blocks import At, Section, Table
from propcal.documents.group_table import clearest_groups
from propcal.documents.sentences.comparison import (
    Changes,
    change_sentences,
    typical_gap,
)
from propcal.documents.sentences.next_steps import (
    Corrected,
    cannot_tell,
    error_remains,
    unchanged,
)
from propcal.documents.sentences.verdict import certificate, miscalibrated
from propcal.documents.words import sentence, table
from propcal.numbers import Limit
from propcal.options import Identity
from propcal.render.cells import KINDS

FOLDER = ROOT / "src" / "propcal" / "documents"
TABLES = tomllib.loads((FOLDER / "tables.toml").read_text())
SHARED = TABLES.pop("shared")
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
TEMPLATES = sorted((FOLDER / "sentences").glob("*.jinja"))


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_is_used_and_its_columns_are_of_a_kind_that_can_be_printed(name):
    assert f'"{name}"' in CODE
    for line in [*TABLES[name]["columns"], *chain.from_iterable(SHARED.values())]:
        key, *_ = parts = line.split(" | ")
        if key[0] == "*":
            continue
        kind, places = [*parts[2:], "", ""][:2]
        assert kind.split(":")[0] in {*KINDS, ""}, line
        assert {*places.partition("if ")[0].split()} <= {*At.__members__, "minor"}, line


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_module_uses_every_macro_of_its_template_and_no_others(template):
    text = template.read_text()
    code = template.with_suffix(".py").read_text()
    macros = set(re.findall(r"macro (\w+)", text))
    assert macros
    assert set(re.findall(r"""\bsay(?:_if)?\(\s*["'](\w+)["']""", code)) <= macros
    calls = [
        name for name in macros if f"{name}(" in text.replace(f"macro {name}(", "")
    ]
    assert macros - set(re.findall(r"""["'](\w+)["']""", code)) <= set(calls)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_templates_place_words_and_decide_nothing(template):
    """A condition is a plural or an optional part: none is nested or has an else."""
    text = template.read_text()
    assert not re.search(r"\{%-? *(elif|else|for)\b", text)
    for macro in text.split("endmacro"):
        assert len(re.findall(r"\{%-? *if ", macro)) <= 3


def test_a_column_that_needs_a_value_is_left_out_without_it():
    shown = [
        [
            column.heading
            for column in table("found", [], unit="people", fewest=11, **flags).columns
        ]
        for flags in (
            dict.fromkeys(("protected", "small", "corrected", "slopes"), False),
            dict.fromkeys(("protected", "small", "corrected", "slopes"), True),
        )
    ]
    assert "predicted after correction" not in shown[0]
    assert [*dict.fromkeys(shown[1])][5] == "predicted after correction"


def test_a_line_break_in_a_template_is_a_space_and_nothing_beside_a_tag():
    audit = SimpleNamespace(
        identity=Identity(unit="patients"),
        categories=range(10),
        settings={"fitted_on_these": False},
    )
    told = cannot_tell(audit, unjudged=2, left_out=1, missing_excluded=False)
    first = "Whether the score is right in 2 of the 10 cells (subgroup and risk range): they do not have enough "
    assert told[0] == f"{first}data."
    assert told[1].endswith(
        " 1 subgroup with too few patients: it is shown below but not tested."
    )
    assert len(told) == 4
    excluded = cannot_tell(audit, unjudged=2, left_out=1, missing_excluded=True)[1]
    assert " with too few patients or a missing value: it is shown" in excluded
    assert sentence("verdict", "subgroups", n=1) == "the subgroup tested"


def within(label, share, people=200):
    return Claim("within", label, label, "", within=share, people=people)


def test_a_limit_that_is_withheld_is_not_told_as_a_large_error():
    who, known = (
        Identity(score="", unit="visits"),
        [within("all", 0.1), within("A", 0.3)],
    )
    assert (
        told_limits(known, who)
        == "to within 10 % of the expected events overall and to within 30 % in the subgroup."
    )
    some = [*known, within("B", 0.7), within("C", float("inf"))]
    assert told_limits(some, who).endswith(
        "in 1 subgroup; the data allow larger errors for B (200 visits), up to 70 %; the limit for C is "
        "withheld to protect a small count."
    )
    many = [
        *known,
        *(within(name, share) for name in "BCD" for share in (0.7, float("inf"))),
    ]
    assert told_limits(many, who).endswith(
        "in 1 subgroup; in 3 others, the data allow larger errors; the limit for 3 other subgroups is "
        "withheld to protect a small count."
    )


def told_limits(claims, who):
    return certificate(claims, who).partition(" is right ")[2]


def test_a_cell_is_told_where_groups_differ_and_none_can_be_named():
    tests = [CalibrationTest(DIFFERENCES, 4.0, 0.01, 0.02, True)]
    unnamed = Claim("beyond", "", "", "", test=DIFFERENCES, p_value=0.02)
    cell = {
        "group": "old",
        "bin": "[0, 0.1)",
        "eligible": True,
        "gap": 0.03,
        "detectable_gap": 0.02,
    }
    cells = [
        pd.DataFrame([cell | {"finding": finding}])
        for finding in ("too low", "could be chance")
    ]
    (claim,) = cell_claims(tests, [unnamed], cells[0])
    assert (claim.kind, claim.who, claim.bin, claim.direction) == (
        "cell",
        "old",
        "[0, 0.1)",
        "too low",
    )
    assert not cell_claims(tests, [unnamed], cells[1])
    assert not cell_claims(tests, [Claim("group", "old", "old", "too low")], cells[0])
    who, numbers = (
        Identity(score="", unit="visits"),
        {"estimate": 0.11, "predicted": 0.08, "label": "old"},
    )
    told = [
        " ".join(miscalibrated(claims, {}, who))
        for claims in ([unnamed], [unnamed, replace(claim, **numbers)])
    ]
    assert told[0].endswith(
        "more than chance explains, but no single subgroup can be named."
    )
    assert told[1].endswith(
        "The clearest gap is in old at predicted risk 0-10 %: observed 11.0 %, predicted 8.0 %."
    )


def test_a_correction_that_changes_nobody_is_no_reason_to_use_a_wrong_score():
    wrong = SimpleNamespace(
        verdict=SimpleNamespace(errors=["one"]), identity=Identity(unit="visits")
    )
    told = unchanged(wrong, "risk")
    assert told == [
        "“risk” is still miscalibrated: decide whether to fit again with more, or more recent, visits, to "
        "restrict its use, or to use it as it is."
    ]
    right = SimpleNamespace(
        verdict=SimpleNamespace(errors=[]), identity=Identity(unit="visits")
    )
    assert unchanged(right, "risk") == ["Use “risk” as it is."]


def told_changes(same, n):
    """What is said of so many groups, everybody the first of them, with so many that
    hardly change.
    """
    change = ["hardly changed"] * same + ["could be chance"] * (n - same)
    names = ["everybody", *(f"g={i}" for i in range(1, n))]
    rows = [
        {"group": g, "change": c, "brier_change": "could be chance"}
        for g, c in zip(names, change)
    ]
    found = Changes(
        "new",
        "old",
        claims=[],
        groups=rows,
        crossed=[],
        newly_off=(),
        labels=dict(zip(names, names)),
        unchanged=False,
        fitted_to_these=False,
        who=Identity(unit="visits"),
    )
    return " ".join(change_sentences(found))


def test_changes_that_are_too_small_to_matter_are_told_apart_from_chance():
    assert told_changes(4, 4) == (
        "Mean predictions of “new” differ from those of “old” by no more than 3 %, overall and in each "
        "subgroup compared."
    )
    nowhere = "“new” is not shown to be closer to the observed rate than “old”, nor further from it, overall"
    assert (
        told_changes(0, 4)
        == f"{nowhere} or in any subgroup. All differences could be chance."
    )
    assert told_changes(3, 4) == (
        f"{nowhere} or in any subgroup. In 3 of 4 groups compared, predictions change by no more than 3 %; "
        "other differences could be chance."
    )
    assert told_changes(0, 1) == f"{nowhere}. All differences could be chance."


def test_a_correction_that_is_better_for_nobody_is_not_to_be_used():
    def steps(better):
        corrected = Corrected("new", worse=0, better=better)
        return " ".join(error_remains(corrected, groups_named=False))

    assert steps(0).startswith(
        "“new” is not shown to be better for any group: do not use it."
    )
    assert steps(1).startswith(
        "Some error remains in “new”. “Before and after” shows how much is gone."
    )


def test_a_typical_gap_that_chance_explains_is_not_printed_as_zero():
    nothing = typical_gap(0.0002, 0.0, sure=False)
    assert nothing.startswith("No typical gap of a cell")
    some = typical_gap(0.005, 0.0, sure=True)
    assert "0.5 percentage points before, 0.0 after" in some


def test_of_groups_that_the_verdict_does_not_name_those_with_most_evidence_come_first():
    p = {"a": 0.9, "b": 0.02, "c": 0.5, "d": Limit(0.05, "below"), "e": 0.01, "f": 0.04}
    tests = pd.DataFrame(
        {"test": list(p), "p_value": pd.Series(p.values(), dtype=object)}
    )
    audit = SimpleNamespace(verdict=SimpleNamespace(tests=tests))
    assert [
        row["group"] for row in clearest_groups(audit, [{"group": name} for name in p])
    ] == list("ebfc")


def test_a_measure_has_a_column_in_the_terminal_if_its_name_says_so(monkeypatch):
    visits = make_ed_visits(2000, seed=1)
    genders = visits[["gender"]]
    result = audit(visits.admitted, visits.true_risk, sensitive_features=genders)
    auroc = MEASURE_NAMES["auroc"]
    assert auroc.of_groups
    for in_terminal in (False, True):
        named = replace(auroc, in_terminal=in_terminal)
        monkeypatch.setitem(MEASURE_NAMES, "auroc", named)
        (section,) = (
            block
            for block in audit_document(result).blocks
            if isinstance(block, Section) and block.key == "groups"
        )
        (groups,) = (block for block in section.blocks if isinstance(block, Table))
        (column,) = (one for one in groups.columns if one.key == "auroc")
        assert bool(column.places & At.TEXT) == in_terminal
        assert column.places & At.PAGE
