"""SQL as text: it can be read by dialects that are not run here, and what cannot be is
refused.
"""

import re
import sys

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot
from sqlglot import exp

from propcal import Correction, PMCBoost
from propcal.errors import InputError
from propcal.export import sql
from propcal.export.dialects import DIALECTS
from propcal.extras import how_to_install
from sql_corrections import HOSTILE, hostile

NOT_RUN = ("tsql", "snowflake", "bigquery")


@pytest.mark.parametrize("dialect", NOT_RUN)
def test_hostile_names_and_levels_survive_where_sql_is_not_run(dialect):
    name, correction = hostile()
    export = correction.to_sql(dialect, score="risk'`\"]", unseen="keep", form="lookup")
    assert "not run" in export.header
    parsed = sqlglot.parse_one(export.query, read=dialect)
    found = {
        node.this
        for node in parsed.find_all(exp.Literal, exp.National)
        if node.args.get("is_string", True)
    }
    suffix = DIALECTS[dialect].suffix
    for level in HOSTILE:
        whole = level + suffix
        assert whole in found or (dialect == "tsql" and level == "\\\nnext"), level
    assert {node.this for node in parsed.find_all(exp.Identifier)} >= {
        name,
        "risk'`\"]",
        "other\nname",
    }


@pytest.mark.parametrize("dialect", NOT_RUN)
@pytest.mark.parametrize("form", ["lookup", "case"])
def test_whole_numbers_are_divided_as_each_database_needs_it(dialect, form, small):
    export = small.to_sql(dialect, score="risk", form=form)
    for statement in (*export.setup, export.query):
        sqlglot.parse_one(statement, read=dialect)  # all of it is SQL there
    text = " ".join(export.query.split())
    wanted = {
        "tsql": r"AS BIGINT\) / CAST\((l\.width|\d+) AS BIGINT\)",
        "snowflake": r"(, |% )(l\.width|\d+)\)+ / (l\.width|\d+)",
        "bigquery": r"DIV\(\(.{,200}, (l\.width|\d+)\)",
    }[dialect]
    assert re.search(wanted, text)
    assert "LEAST" not in text
    assert "GREATEST" not in text
    assert nesting(text) <= 10  # as many as SQL Server takes


def nesting(text):
    depth = deepest = 0
    for word in re.findall(r"\bCASE\b|\bEND\b", text):
        depth += 1 if word == "CASE" else -1
        deepest = max(deepest, depth)
    assert depth == 0
    return deepest


def test_ten_levels_of_case_are_enough_for_ten_thousand_patterns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice([*"abcdefgh"], 5000) for name in "xyz"})
    y = rng.random(5000) < 0.3
    model = PMCBoost.paper(intersections=1, alpha=0.3, gamma=0.01)
    correction = model.fit(rng.random(5000), y, sensitive_features=frame).correction_
    export = correction.to_sql("sqlite", score="risk", form="case")
    assert len(export.numbers) == 9**3
    assert nesting(export.expression) <= 10


@pytest.mark.slow
def test_duckdb_numbers_the_patterns_once(plain):
    export = plain.to_sql(score="risk", form="case")
    assert export.expression.count('"race"') > 3 * export.query.count('"race"')
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people (risk DOUBLE, race VARCHAR, icu BOOLEAN, age DOUBLE)"
    )
    connection.execute("INSERT INTO people VALUES (0.3, 'Asian', true, 35)")
    scored = connection.sql(export.query)
    assert scored.columns == ["risk", "race", "icu", "age", "corrected"]
    alone = connection.sql(f"SELECT {export.expression} FROM people").fetchall()[0][0]
    assert scored.fetchall()[0][-1] == alone
    assert (
        alone
        == plain.apply([0.3], {"race": ["Asian"], "icu": [True], "age": [35]}).item()
    )


def test_spark_joins_by_one_number_unless_it_could_overflow(small, monkeypatch):
    assert "* l.pattern + l.bucket = " in small.to_sql("spark", score="risk").query
    assert "* l.pattern" not in small.to_sql("duckdb", score="risk").query
    monkeypatch.setattr(sql.Buckets, "span", 2**61)
    assert "AND l.bucket = " in small.to_sql("spark", score="risk").query


def test_the_script_is_the_whole_and_begins_with_what_it_is(small):
    export = small.to_sql(
        score="risk", table="clinic.visits", lookup_table=["clinic", "look.up"]
    )
    first = export.script.splitlines()[:8]
    assert all(line.startswith("-- ") for line in first[:7])
    assert "DuckDB" in first[0]
    assert small.about["fingerprint"] in first[1]
    assert "pattern 1: icu" in export.header
    connection = duckdb.connect()
    connection.execute(
        "CREATE SCHEMA clinic; CREATE TABLE clinic.visits (risk DOUBLE, icu BOOLEAN)"
    )
    connection.execute("INSERT INTO clinic.visits VALUES (0.3, true)")
    assert (
        connection.execute(str(export)).fetchall()[0][2]
        == small.apply([0.3], {"icu": [True]})[0]
    )
    assert (
        connection.execute('SELECT * FROM clinic."look.up"')
        .df()
        .equals(export.to_frame())
    )
    assert "lookup" in repr(export)


def test_an_expression_too_long_for_some_databases_says_what_to_use_instead(
    plain, monkeypatch
):
    long = plain.to_sql(score="risk", form="case")
    seen = plain.to_sql(score="risk", form="case", unseen="keep")
    assert len(seen.lines) < len(long.lines) <= sql.MAX_CASE_LINES
    assert (long.caution, seen.caution) == ("", "")
    monkeypatch.setattr(sql, "MAX_CASE_LINES", len(seen.lines) - 1)
    again = plain.to_sql(score="risk", form="case")
    assert f"has {len(long.lines):,} lines" in again.caution
    assert (
        f'form="lookup", or unseen="keep" with {len(seen.lines):,} lines.'
        in again.caution
    )
    assert again.script == long.header + f"-- {again.caution}\n{long.query};\n"
    assert len(repr(again)) < 80
    assert plain.to_sql(score="risk", form="case", unseen="keep").caution.endswith(
        'Use form="lookup".'
    )
    assert plain.to_sql(score="risk").caution == ""


def test_a_comment_cannot_be_ended_by_a_name():
    _, correction = hostile()
    about = {"method": "x\n; DROP TABLE people; --", "fingerprint": "y\r\nDROP"}
    wicked = Correction(
        correction.patterns,
        correction.groups,
        correction.bins,
        correction.updates,
        "keep",
        about,
    )
    header = wicked.to_sql(score="ri\nsk").header
    assert all(line.startswith("-- ") for line in header.splitlines())
    assert not set(";'`$") & set(header)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_names_that_no_database_takes_are_refused(plain, name):
    with pytest.raises(InputError, match="SQL: a name"):
        plain.to_sql(score=name)


def test_a_level_with_a_nul_is_refused():
    score, y = np.linspace(0, 1, 100), np.arange(100) % 2
    correction = (
        PMCBoost.paper()
        .fit(score, y, sensitive_features={"a": ["x\0"] * 100})
        .correction_
    )
    with pytest.raises(InputError, match="NUL"):
        correction.to_sql(score="risk")


def test_what_cannot_be_is_refused_and_said(plain, monkeypatch):
    for options, words in [
        ({"dialect": "oracle"}, "dialect must be one of"),
        ({"form": "view"}, "form must be one of"),
        ({"unseen": "guess"}, "unseen must be one of"),
        ({"types": {"age": "date"}}, "type of 'age'"),
        ({"types": {"height": "number"}}, "types names 'height'"),
        ({"columns": {"height": "h"}}, "columns names 'height'"),
    ]:
        with pytest.raises(InputError, match=words):
            plain.to_sql(**{"score": "risk", **options})
    with pytest.raises(InputError, match="Spark"):
        plain.to_sql("spark", score="${x}")
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(InputError, match=re.escape(how_to_install("sql"))):
        plain.to_sql("snowflake", score="risk")
    plain.to_sql("postgres", score="risk")  # needs no sqlglot


def test_too_many_combinations_are_refused_with_a_way_out():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice([*"abcdefghij"], 2000) for name in "wxyz"})
    model = PMCBoost.paper(intersections=1, alpha=0.5, gamma=0.01)
    correction = model.fit(
        rng.random(2000), rng.random(2000) < 0.5, sensitive_features=frame
    ).correction_
    with pytest.raises(InputError, match=r'10,000 are possible.*unseen="keep"'):
        correction.to_sql(score="risk")
    assert len(correction.to_sql(score="risk", unseen="keep").numbers) == len(
        correction.patterns
    )
