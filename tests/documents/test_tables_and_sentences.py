"""Texts, tables and sentences as data: nothing in them is misspelt, and nothing is left over."""

import re
import tomllib
from itertools import chain

import pytest

from paths import ROOT
from propcal.documents.blocks import At
from propcal.documents.words import sentence, sentences, table
from propcal.render.cells import KINDS

FOLDER = ROOT / "src" / "propcal" / "documents"
TABLES = tomllib.loads((FOLDER / "tables.toml").read_text())
SHARED = TABLES.pop("shared")
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
MACROS = [(path.stem, path.read_text()) for path in sorted((FOLDER / "sentences").glob("*.jinja"))]


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


def test_every_macro_is_used():
    every = CODE + "".join(text for _, text in MACROS)
    names = [name for _, text in MACROS for name in re.findall(r"macro (\w+)", text)]
    assert len(names) > 60
    assert [name for name in names if len(re.findall(rf"\b{name}\b", every)) < 2] == []


def test_a_column_that_needs_a_value_is_left_out_without_it():
    shown = [
        [column.heading for column in table("found", [], unit="people", fewest=11, **flags).columns]
        for flags in (
            dict.fromkeys(("protected", "small", "corrected", "slopes"), False),
            dict.fromkeys(("protected", "small", "corrected", "slopes"), True),
        )
    ]
    assert "predicted after correction" not in shown[0]
    assert [*dict.fromkeys(shown[1])][5] == "predicted after correction"


def test_a_blank_line_begins_a_sentence_and_a_line_break_is_a_space():
    told = sentences("notes", "cannot_tell", 2, 10, 1, False, "patients")
    first = (
        "Whether the score is right in 2 of the 10 cells (subgroup and risk range): they do not have enough "
    )
    assert told[0] == f"{first}data."
    assert told[1].endswith("with too few patients or a missing value: it is shown below but not tested.")
    assert len(told) == 4
    assert sentence("verdict", "subgroups", 1) == "the subgroup tested"
