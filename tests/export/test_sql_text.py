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
@pytest.mark.parametrize("form", ["lookup", "values"])
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


def test_a_query_that_contains_its_lookup_table_stands_in_for_the_people(small):
    export = small.to_sql("duckdb", score="risk", form="values", lookup_table="a.lines")
    assert export.setup == ()
    assert export.script == f"{export.header}{export.query};\n"
    assert "no table has to be created" in export.header
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (risk DOUBLE, icu BOOLEAN)")
    connection.execute("INSERT INTO people VALUES (0.3, true), (0.4, false)")
    mean = f"SELECT avg(corrected) FROM ({export.query}) WHERE icu"
    wanted = small.apply([0.3], {"icu": [True]})[0]
    assert connection.execute(mean).fetchone()[0] == wanted
    lines = export.query[: export.query.index("SELECT p.*")]
    assert lines.startswith('WITH "lines" AS (')
    connection.execute(f"CREATE TABLE found AS {lines} SELECT * FROM lines")
    assert connection.table("found").df().equals(export.to_frame())


@pytest.mark.parametrize("dialect", NOT_RUN)
def test_rows_within_a_query_are_those_of_the_table_where_sql_is_not_run(
    dialect, small
):
    export = small.to_sql(dialect, score="risk", form="values")
    parsed = sqlglot.parse_one(export.query, read=dialect)
    [lookup] = parsed.find_all(exp.CTE)
    assert lookup.alias == "propcal_lookup"
    rows = [
        [int(number.sql()) for number in row.expressions]
        for row in lookup.find_all(exp.Tuple)
    ]
    assert rows == export.to_frame().to_numpy().tolist()
    assert ("UNNEST" in export.query) == (dialect == "bigquery")
    assert ("create a view of it" in export.header) == (dialect == "tsql")


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
        ({"form": "case"}, 'form="case" was replaced .*Use form="values"'),
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
