"""SQL gives what Python gives, to the last bit, on every database that is run here."""

import re
import struct
import sys
import warnings
from decimal import Decimal
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from databases import DuckDb, Postgres, Spark, Sqlite
from propcal import Correction, Groups, PMCBoost
from propcal.core.grid import UNIT
from propcal.errors import InputError
from propcal.output.sql import export as sql
from propcal.output.sql.dialects import DIALECTS
from propcal.output.sql.map_lines import Lines

NOT_RUN = ("tsql", "snowflake", "bigquery")
HOSTILE = [
    "it's",
    'say "hi"',
    "a;b -- c",
    "/* x */",
    "back\\slash",
    "\\",
    "\\'",
    "`tick`",
    "[br]ac]ket]",
    "new\nline",
    "\\\nnext",
    "",
    " ",
    "a ",
    "A",
    "a",
    "${spark.app.name}",
    "%s {x} :y ?",
    "Ünïcode 🙂",
    "nan",
    "NULL",
    "x" * 3000,
]


@pytest.fixture(params=["duckdb", "sqlite", "postgres", "spark"])
def db(request):
    if request.param == "postgres":
        return Postgres(request.getfixturevalue("postgres"))
    if request.param == "spark":
        return Spark(request.getfixturevalue("spark"))
    return {"duckdb": DuckDb, "sqlite": Sqlite}[request.param]()


@pytest.fixture(params=[DuckDb, Sqlite], ids=["duckdb", "sqlite"])
def embedded(request):
    return request.param()


def people(n=3000, seed=1):
    """People with levels of text, numbers and truths, some missing, and a score that is wrong for some."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "race": rng.choice(["Asian", "Black", None], n, p=[0.3, 0.6, 0.1]),
            "ward": rng.choice([1, 2, 3], n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(10, 95, n) / 2 + 10),
            "icu": rng.random(n) < 0.3,
        }
    )
    score = rng.beta(1, 3, n)
    risk = score * np.where(frame["race"] == "Asian", 1.6, 0.8) * np.where(frame["icu"], 1.3, 0.9)
    return frame, score, (rng.random(n) < np.clip(risk, 0, 1)).astype(int)


def fitted(groups, method=PMCBoost, seed=1, **settings):
    frame, score, y = people(seed=seed)
    return method(groups=groups, **settings).fit(score, y, sensitive_features=frame).correction_


def edges(correction):
    """Every score at which a map may go on differently, and its neighbours: a unit or a bit away."""
    lines = Lines.of_maps(correction.replay(correction.patterns))
    raw = np.unique(np.clip([lines.score_from - 1, lines.score_from, lines.score_from + 1], 0, UNIT))
    on = np.concatenate([raw / UNIT, (raw - 0.5) / UNIT])
    near = np.concatenate([on, np.nextafter(on, -1), np.nextafter(on, 2)])
    return np.unique(np.append(near[(near >= 0) & (near <= 1)], [5e-324, np.nextafter(1, 0), 0.5]))


def score_in(db, export, table):
    """The corrected scores of a table with columns id and risk, and the scores as the database has them."""
    db.load("people", table)
    db.drop("propcal_lookup")
    for statement in export.setup:
        db.run(statement)
    rows = sorted(db.rows(export.query), key=lambda row: row[0])
    assert [row[0] for row in rows] == list(range(table.num_rows))
    return [row[1] for row in rows], [row[-1] for row in rows]


def bits(values):
    return [None if v is None else struct.pack("<d", v).hex() for v in values]


def each_with_every(attributes, scores):
    """A table of the scores, twice, beside the rows of attributes in a random order."""
    place = np.arange(2 * len(scores)) % attributes.num_rows
    table = attributes.take(pa.array(np.random.default_rng(0).permutation(place)))
    table = table.add_column(0, "risk", [pa.array(np.tile(scores, 2))])
    return table.add_column(0, "id", [pa.array(np.arange(len(place)))])


def assert_same(db, correction, attributes, *, forms=("lookup", "case"), unseen=None, scores=None, **options):
    """Corrected by SQL as by Python, bit by bit, at all edges."""
    table = each_with_every(attributes, edges(correction) if scores is None else scores)
    for form in forms[: 1 if db.name == "spark" else None]:  # it takes seconds for any query
        export = correction.to_sql(db.name, score="risk", form=form, unseen=unseen, **options)
        raw, found = score_in(db, export, table)  # SQLite holds -0.0 as 0.0
        wanted = correction.apply(np.array(raw), table, unseen=unseen)
        wrong = [i for i, (a, b) in enumerate(zip(bits(found), bits(wanted))) if a != b]
        assert not wrong, (form, len(wrong), table.slice(wrong[0], 1).to_pylist(), found[wrong[0]])


def combinations(**levels):
    """A table of all combinations of values, each column of the type of its array."""
    place = list(product(*[range(len(values)) for values in levels.values()]))
    return pa.table(
        {name: values.take(pa.array(i)) for (name, values), i in zip(levels.items(), zip(*place))}
    )


def texts(*values):
    return pa.array(values, pa.string())


GROUPS = Groups(columns=["race", "icu"], cuts={"age": [30, 41.3]})
PEOPLE = combinations(
    race=texts("Asian", "Black", "Martian", None),
    icu=pa.array([True, False]),
    age=pa.array([29.5, 30.0, np.nextafter(41.3, 0), 41.3, np.inf, np.nan, None], from_pandas=False),
)


@pytest.fixture(scope="module")
def smooth():
    groups = Groups(columns=["race"], cuts={"age": [41.3]})
    correction = fitted(groups, alpha=0.2, guard=None, binning="quantile", order="worst")
    assert correction.start is not None
    assert len(correction.updates) > 5
    return correction


@pytest.fixture(scope="module")
def plain():
    """By the paper: no smooth start, many updates."""
    correction = fitted(GROUPS, PMCBoost.paper, alpha=0.1, gamma=0.1, n_bins=5)
    assert correction.start is None
    return correction


def test_a_smooth_start_and_the_updates_after_it_are_the_same_to_the_last_bit(db, smooth, small):
    correction = small if db.name == "spark" else smooth  # fewer patterns where every query takes seconds
    assert_same(db, correction, PEOPLE, forms=("lookup",), unseen="keep")


def test_combinations_that_were_not_seen_are_replayed(db, plain):
    assert plain.unseen == "replay"
    assert_same(db, plain, PEOPLE)


def test_one_expression_does_it_without_a_table(db, small):
    icu = combinations(icu=pa.array([True, False, None]))
    assert_same(db, small, icu, forms=("case",))


def test_combinations_that_were_not_seen_are_kept_or_null(embedded, plain):
    db = embedded
    table = each_with_every(PEOPLE, np.linspace(0, 1, 201))
    martian = np.array([row == "Martian" for row in table["race"].to_pylist()])
    known = np.where(martian, "Black", np.array(table["race"].to_pylist(), dtype=object))
    score = table["risk"].to_numpy()
    wanted = plain.apply(score, table.set_column(2, "race", texts(*known)))
    for form in ("lookup", "case"):
        kept = plain.to_sql(db.name, score="risk", form=form, unseen="keep")
        assert bits(score_in(db, kept, table)[1]) == bits(np.where(martian, score, wanted))
        null = plain.to_sql(db.name, score="risk", form=form, unseen="error")
        assert bits(score_in(db, null, table)[1]) == bits(
            [None if other else value for other, value in zip(martian, wanted)]
        )


def test_a_score_that_is_no_probability_gives_null_and_never_a_risk(db):
    plain = fitted(Groups(columns=["race"]), PMCBoost.paper, alpha=0.5, n_bins=3)
    bad = [None, float("nan"), -0.1, 1.1, float("inf"), -float("inf"), 1e300, -5e-324, np.nextafter(1, 2)]
    good = [0.0, -0.0, 1.0, 0.25]
    table = pa.table(
        {
            "id": list(range(len(bad) + len(good))),
            "risk": pa.array(bad + good, pa.float64(), from_pandas=False),
            "race": texts(*["Asian", "Martian"] * 6, "Black"),
        }
    )
    chosen = [("lookup", "keep"), ("case", "replay"), ("lookup", "replay"), ("case", "keep")]
    for form, unseen in chosen[: 2 if db.name == "spark" else None]:
        raw, found = score_in(db, plain.to_sql(db.name, score="risk", form=form, unseen=unseen), table)
        rest = table.slice(len(bad))
        wanted = plain.apply(np.array(raw[len(bad) :]), rest, unseen=unseen)
        assert found[: len(bad)] == [None] * len(bad)
        assert bits(found[len(bad) :]) == bits(wanted)


def test_a_level_is_found_in_a_column_of_any_kind(db):
    """1, 1.0 and the decimal 1.00 are the level "1"; the text "1.0" is not."""
    correction = fitted(Groups(columns=["ward"]), PMCBoost.paper)
    assert correction.patterns.levels == (("1", "2", "3"),)
    kinds = [
        pa.array([1, 2, 3, 4, None], pa.int64()),
        pa.array([1, 2, 3.5, 1e300, -0.0, float("nan"), None], pa.float64(), from_pandas=False),
        pa.array([1, 2, 3.5, None], pa.float32()),
        pa.array([Decimal("1.00"), Decimal("2.50"), None], pa.decimal128(9, 2)),
        texts("1", "1.0", "01", " 1", "2", None, "nan"),
    ]
    for values in kinds:
        assert_same(db, correction, combinations(ward=values), scores=np.linspace(0, 1, 50))


def test_truths_are_levels(db):
    correction = fitted(Groups(columns=["icu"]), PMCBoost.paper)
    assert correction.patterns.levels == (("false", "true"),)
    for values in (pa.array([True, False, None]), texts("true", "false", "TRUE", None)):
        assert_same(db, correction, combinations(icu=values), scores=np.linspace(0, 1, 50))


def test_the_text_true_is_meant_by_1_in_a_condition(db):
    groups = Groups(columns=[], where={"in care": "icu = 1", "not": "icu != 0"}, intersections=1)
    correction = fitted(groups, PMCBoost.paper, alpha=0.5, n_bins=2)
    table = combinations(icu=texts("true", "false", "1", "0", "yes", None))
    assert_same(db, correction, table, scores=np.linspace(0, 1, 50))


CONDITIONS = [
    "age >= 30 and icu",
    "not age >= 30",
    "not (age < 30 or race = Asian)",
    "race != Asian",
    "not race = Asian",
    "race in [Asian, 'Black'] and not icu",
    "race not in [Asian]",
    "race is missing or age is missing",
    "age is not missing and age = 41.3",
    "ward = 01 or ward = 3.0",
    "ward in [1, 2] and icu = 1",
    "icu != true",
]


@pytest.mark.parametrize("first", [0, 6])
def test_conditions_treat_missing_values_as_python_does(db, first):
    named = {f"condition {i}": text for i, text in enumerate(CONDITIONS[first : first + 6])}
    groups = Groups(columns=[], where=named, intersections=1)
    correction = fitted(groups, PMCBoost.paper, gamma=0.01, alpha=0.5, n_bins=2)
    for ward in (pa.array([1, 3, None], pa.int64()), texts("1", "01", "3", "3.0", None)):
        table = combinations(
            race=texts("Asian", "Black", "x", None),
            icu=pa.array([True, False, None]),
            age=pa.array([29.9, 30.0, 41.3, np.inf, np.nan, None], from_pandas=False),
            ward=ward,
        )
        # SQLite has no truths, and the number 1 that "icu = 1" asks for may be just a number
        types = {"icu": "boolean"} if db.name == "sqlite" and "icu" in correction.reads else {}
        assert_same(db, correction, table, scores=np.linspace(0, 1, 300), unseen="keep", types=types)


def hostile():
    """A correction whose columns and levels are what no database expects, and a table of theirs."""
    rng = np.random.default_rng(3)
    name, condition = 'we"ird `na[m]e`; --\\', "it's\n{x}"
    frame = pd.DataFrame({name: rng.choice(HOSTILE, 6000), "other\nname": rng.choice(["a", "b"], 6000)})
    score = rng.random(6000)
    y = (rng.random(6000) < np.where(frame[name].str.len() > 4, score * 0.6, score)).astype(int)
    groups = Groups(where={condition: "`other\nname` in ['a', 'it\\'s; \\\\']"}, intersections=1)
    model = PMCBoost.paper(groups=groups, alpha=0.3, gamma=0.01)
    return name, model.fit(score, y, sensitive_features=frame).correction_


def test_hostile_names_and_levels_are_only_names_and_levels(db):
    name, correction = hostile()
    assert set(correction.patterns.levels[0]) == set(HOSTILE)
    table = combinations(**{name: texts(*HOSTILE, None, "b"), "other\nname": texts("a", "b", "it's; \\")})
    assert_same(db, correction, table, scores=np.linspace(0, 1, 200), unseen="keep")


@pytest.mark.parametrize("dialect", NOT_RUN)
def test_hostile_names_and_levels_survive_where_sql_is_not_run(dialect):
    name, correction = hostile()
    export = correction.to_sql(dialect, score="risk'`\"]", unseen="keep", form="lookup")
    assert "not run" in export.header
    parsed = sqlglot.parse_one(export.query, read=dialect)
    found = {
        node.this for node in parsed.find_all(exp.Literal, exp.National) if node.args.get("is_string", True)
    }
    suffix = DIALECTS[dialect].suffix
    for level in HOSTILE:
        whole = level + suffix
        assert whole in found or (dialect == "tsql" and level == "\\\nnext"), level
    assert {node.this for node in parsed.find_all(exp.Identifier)} >= {name, "risk'`\"]", "other\nname"}


@pytest.fixture(scope="module")
def small():
    """A smooth start and updates, for three patterns."""
    correction = fitted(Groups(columns=["icu"]), alpha=0.02, guard=None)
    assert correction.start is not None
    assert len(correction.updates) > 0
    return correction


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


def test_letters_count_whatever_the_collation_of_a_column(db):
    correction = fitted(Groups(columns=["race"]), PMCBoost.paper)
    table = each_with_every(
        combinations(race=texts("asian", "Asian", "BLACK", "Asian ")), np.linspace(0, 1, 50)
    )
    db.load("people", table)
    kinds = {"duckdb": "VARCHAR COLLATE NOCASE", "sqlite": "TEXT COLLATE NOCASE"}
    kind = kinds.get(db.name, "TEXT COLLATE blind")
    if db.name == "postgres":
        settings = "provider=icu, locale='und-u-ks-level2', deterministic=false"
        db.run(f"CREATE COLLATION IF NOT EXISTS blind ({settings})")
    if db.name == "spark":
        view = "CREATE OR REPLACE TEMPORARY VIEW blind"
        db.run(f"{view} AS SELECT id, risk, race COLLATE UTF8_LCASE AS race FROM people")
    else:
        db.drop("blind")
        db.run(f"CREATE TABLE blind (id BIGINT, risk DOUBLE PRECISION, race {kind})")
        db.run("INSERT INTO blind SELECT id, risk, race FROM people")
    wanted = bits(correction.apply(table["risk"].to_numpy(), table))
    query = correction.to_sql(db.name, score="risk", table="blind", form="case").query
    assert bits([row[-1] for row in sorted(db.rows(query))]) == wanted


def test_columns_may_be_called_otherwise_and_their_kinds_be_said(embedded):
    correction = fitted(Groups(columns=["ward", "icu"], cuts={"age": [30]}), PMCBoost.paper, alpha=0.5)
    table = combinations(
        ward=texts("1", "2", "3", None), icu=pa.array([True, False, None]), age=pa.array([29.0, 30.0, None])
    )
    table = each_with_every(table, np.linspace(0, 1, 50))
    wanted = correction.apply(table["risk"].to_numpy(), table)
    renamed = table.rename_columns(["id", "risk", "Ward no.", "icu", "AGE"])
    export = correction.to_sql(
        embedded.name,
        score="risk",
        unseen="replay",
        types={"ward": "text", "icu": "boolean", "age": "number"},
        columns={"ward": "Ward no.", "age": "AGE"},
    )
    assert 'typeof(p."Ward' not in export.query
    assert bits(score_in(embedded, export, renamed)[1]) == bits(wanted)


def test_a_condition_without_attributes_and_an_empty_correction_are_fine(embedded):
    rng = np.random.default_rng(0)
    score, y = rng.random(500), rng.random(500) < 0.3
    for method in (PMCBoost.paper(), PMCBoost.paper(max_updates=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge
            correction = method.fit(score, y).correction_
        table = pa.table({"id": np.arange(4), "risk": [0.1, 0.1 + 1e-12, 0.9, 1.0]})
        for form in ("lookup", "case"):
            export = correction.to_sql(embedded.name, score="risk", form=form)
            found = score_in(embedded, export, table)[1]
            assert bits(found) == bits(correction.apply(table["risk"].to_numpy()))


def test_the_script_is_the_whole_and_begins_with_what_it_is(small):
    export = small.to_sql(score="risk", table="clinic.visits", lookup_table=["clinic", "look.up"])
    first = export.script.splitlines()[:8]
    assert all(line.startswith("-- ") for line in first[:7])
    assert "DuckDB" in first[0]
    assert small.about["fingerprint"] in first[1]
    assert "pattern 1: icu" in export.header
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA clinic; CREATE TABLE clinic.visits (risk DOUBLE, icu BOOLEAN)")
    connection.execute("INSERT INTO clinic.visits VALUES (0.3, true)")
    assert connection.execute(str(export)).fetchall()[0][2] == small.apply([0.3], {"icu": [True]})[0]
    assert connection.execute('SELECT * FROM clinic."look.up"').df().equals(export.to_frame())
    assert "lookup" in repr(export)


def test_an_expression_too_long_for_some_databases_says_what_to_use_instead(plain, monkeypatch):
    long = plain.to_sql(score="risk", form="case")
    seen = plain.to_sql(score="risk", form="case", unseen="keep")
    assert len(seen.lines) < len(long.lines) <= sql.MOST_CASE_LINES
    assert (long.caution, seen.caution) == ("", "")
    monkeypatch.setattr(sql, "MOST_CASE_LINES", len(seen.lines) - 1)
    again = plain.to_sql(score="risk", form="case")
    assert f"has {len(long.lines):,} lines" in again.caution
    assert f'form="lookup", or unseen="keep", which has {len(seen.lines):,} lines.' in again.caution
    assert again.script == long.header + f"-- {again.caution}\n{long.query};\n"
    assert len(repr(again)) < 80
    assert plain.to_sql(score="risk", form="case", unseen="keep").caution.endswith('Use form="lookup".')
    assert plain.to_sql(score="risk").caution == ""


def test_a_comment_cannot_be_ended_by_a_name():
    _, correction = hostile()
    about = {"method": "x\n; DROP TABLE people; --", "fingerprint": "y\r\nDROP"}
    wicked = Correction(
        correction.patterns, correction.groups, correction.bins, correction.updates, "keep", about
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
    correction = PMCBoost.paper().fit(score, y, sensitive_features={"a": ["x\0"] * 100}).correction_
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
    with pytest.raises(InputError, match=r'pip install "propcal\[sql\]"'):
        plain.to_sql("snowflake", score="risk")
    plain.to_sql("postgres", score="risk")  # needs no sqlglot


def test_too_many_combinations_are_refused_with_a_way_out():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice([*"abcdefghij"], 2000) for name in "wxyz"})
    model = PMCBoost.paper(intersections=1, alpha=0.5, gamma=0.01)
    correction = model.fit(rng.random(2000), rng.random(2000) < 0.5, sensitive_features=frame).correction_
    with pytest.raises(InputError, match=r'10,000 can be. unseen="keep"'):
        correction.to_sql(score="risk")
    assert len(correction.to_sql(score="risk", unseen="keep").numbers) == len(correction.patterns)


def test_numbers_are_written_so_that_the_same_double_is_read(embedded):
    dialect = DIALECTS[embedded.name]
    rng = np.random.default_rng(0)
    values = [0.1, -0.3, 1 / 3, 41.3, 1e15 / 3, 2.0**53, 1e-5, -17.0, *rng.normal(size=200)]
    for value in values:
        assert embedded.rows(f"SELECT CAST({dialect.literal(value)} AS {dialect.double})") == [(value,)]
