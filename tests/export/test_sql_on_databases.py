"""SQL gives what Python gives, to the last bit, on every database that is run here."""

import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from databases import DuckDb, Sqlite
from propcal import Groups, PMCBoost
from propcal.core.correction.points_table import FeaturePoints, PointsTable
from propcal.core.correction.smooth_map import SmoothStart
from propcal.core.grid import UNIT
from propcal.export.dialects import DIALECTS
from propcal.export.map_lines import Lines
from sql_corrections import (
    HOSTILE,
    bits,
    combinations,
    each_with_every,
    fitted,
    hostile,
    score_in,
    texts,
)


@pytest.fixture(params=[DuckDb, Sqlite], ids=["duckdb", "sqlite"])
def embedded(request):
    return request.param()


def edges(correction):
    """Every score at which a map may go on differently, and its neighbours: a unit or a
    bit away.
    """
    lines = Lines.of_maps(correction.replay(correction.patterns))
    raw = np.unique(
        np.clip([lines.score_from - 1, lines.score_from, lines.score_from + 1], 0, UNIT)
    )
    on = np.concatenate([raw / UNIT, (raw - 0.5) / UNIT])
    near = np.concatenate([on, np.nextafter(on, -1), np.nextafter(on, 2)])
    return np.unique(
        np.append(near[(near >= 0) & (near <= 1)], [5e-324, np.nextafter(1, 0), 0.5])
    )


def assert_same(
    db,
    correction,
    attributes,
    *,
    forms=("lookup", "values"),
    unseen=None,
    scores=None,
    **options,
):
    """Corrected by SQL as by Python, bit by bit, at all edges."""
    table = each_with_every(attributes, edges(correction) if scores is None else scores)
    for form in forms[
        : 1 if db.name == "spark" else None
    ]:  # it takes seconds for any query
        export = correction.to_sql(
            db.name, score="risk", form=form, unseen=unseen, **options
        )
        raw, found = score_in(db, export, table)  # SQLite holds -0.0 as 0.0
        wanted = correction.apply(np.array(raw), table, unseen=unseen)
        wrong = [i for i, (a, b) in enumerate(zip(bits(found), bits(wanted))) if a != b]
        assert not wrong, (
            form,
            len(wrong),
            table.slice(wrong[0], 1).to_pylist(),
            found[wrong[0]],
        )


PEOPLE = combinations(
    race=texts("Asian", "Black", "Martian", None),
    icu=pa.array([True, False]),
    age=pa.array(
        [29.5, 30.0, np.nextafter(41.3, 0), 41.3, np.inf, np.nan, None],
        from_pandas=False,
    ),
)


@pytest.fixture(scope="module")
def smooth():
    groups = Groups(columns=["race"], cuts={"age": [41.3]})
    correction = fitted(
        groups, alpha=0.2, guard=None, binning="quantile", order="worst"
    )
    assert correction.start is not None
    assert len(correction.updates) > 5
    return correction


def test_a_smooth_start_and_the_updates_after_it_are_the_same_to_the_last_bit(
    db, smooth, small
):
    correction = (
        small if db.name == "spark" else smooth
    )  # fewer patterns where every query takes seconds
    assert_same(db, correction, PEOPLE, unseen="keep")


def test_levels_of_scores_of_exactly_0_and_1_are_the_same_to_the_last_bit(
    embedded, small
):
    start = small.start
    shifts = start.shifts.copy()
    shifts[:, [0, -1]] = [7 << 20, -(9 << 20)]
    moved = replace(
        small, start=SmoothStart(start.groups, shifts), updates=small.updates[:0]
    )
    assert_same(
        embedded,
        moved,
        PEOPLE,
        scores=np.array([0.0, 5e-324, 0.5, np.nextafter(1, 0), 1.0]),
    )


def test_combinations_that_were_not_seen_are_replayed(db, plain):
    assert plain.unseen == "replay"
    assert_same(db, plain, PEOPLE)


def test_one_query_does_it_without_a_table(db, small):
    icu = combinations(icu=pa.array([True, False, None]))
    assert_same(db, small, icu, forms=("values",))


def test_combinations_that_were_not_seen_are_kept_or_null(embedded, plain):
    db = embedded
    table = each_with_every(PEOPLE, np.linspace(0, 1, 201))
    martian = np.array([row == "Martian" for row in table["race"].to_pylist()])
    known = np.where(
        martian, "Black", np.array(table["race"].to_pylist(), dtype=object)
    )
    score = table["risk"].to_numpy()
    wanted = plain.apply(score, table.set_column(2, "race", texts(*known)))
    for form in ("lookup", "values"):
        kept = plain.to_sql(db.name, score="risk", form=form, unseen="keep")
        assert bits(score_in(db, kept, table)[1]) == bits(
            np.where(martian, score, wanted)
        )
        null = plain.to_sql(db.name, score="risk", form=form, unseen="error")
        assert bits(score_in(db, null, table)[1]) == bits(
            [None if other else value for other, value in zip(martian, wanted)]
        )


def test_a_score_that_is_no_probability_gives_null_and_never_a_risk(db):
    plain = fitted(Groups(columns=["race"]), PMCBoost.paper, alpha=0.5, n_bins=3)
    bad = [
        None,
        float("nan"),
        -0.1,
        1.1,
        float("inf"),
        -float("inf"),
        1e300,
        -5e-324,
        np.nextafter(1, 2),
    ]
    good = [0.0, -0.0, 1.0, 0.25]
    table = pa.table(
        {
            "id": list(range(len(bad) + len(good))),
            "risk": pa.array(bad + good, pa.float64(), from_pandas=False),
            "race": texts(*["Asian", "Martian"] * 6, "Black"),
        }
    )
    chosen = [
        ("lookup", "keep"),
        ("values", "replay"),
        ("lookup", "replay"),
        ("values", "keep"),
    ]
    for form, unseen in chosen[: 2 if db.name == "spark" else None]:
        raw, found = score_in(
            db, plain.to_sql(db.name, score="risk", form=form, unseen=unseen), table
        )
        rest = table.slice(len(bad))
        wanted = plain.apply(np.array(raw[len(bad) :]), rest, unseen=unseen)
        assert found[: len(bad)] == [None] * len(bad)
        assert bits(found[len(bad) :]) == bits(wanted)


class DuckDbOnParquet(DuckDb):
    """Tables that are views of a Parquet file, whose statistics leave out NaN."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def load(self, table, rows):
        pq.write_table(rows, self.folder / f"{table}.parquet")
        self.connection.from_parquet(f"{self.folder}/{table}.parquet").create_view(
            table
        )

    def drop(self, table):
        kind = "VIEW" if table == "people" else "TABLE"
        self.connection.execute(f'DROP {kind} IF EXISTS "{table}"')


@pytest.mark.parametrize("form", ["lookup", "values"])
def test_nan_in_parquet_is_missing_as_it_is_elsewhere(tmp_path, form):
    groups = Groups(columns=["ward"], cuts={"age": [30]}, where={"old": "age >= 50"})
    correction = fitted(groups, PMCBoost.paper, alpha=0.1)
    table = pa.table(
        {
            "id": list(range(12)),
            "risk": [0.2, float("nan"), 0.4, 0.6] * 3,
            "age": [float("nan")] * 6 + [20.0, 40.0, 60.0] * 2,
            "ward": [1.0, float("nan"), 2.0, float("nan")] * 3,
        }
    )
    export = correction.to_sql("duckdb", score="risk", form=form)
    _, found = score_in(DuckDbOnParquet(tmp_path), export, table)
    good = [i for i in range(12) if i % 4 != 1]
    assert [found[i] for i in range(12) if i % 4 == 1] == [None] * 3
    rows = table.take(good)
    assert bits(found[i] for i in good) == bits(correction.apply(rows["risk"], rows))


def test_a_level_is_found_in_a_column_of_any_kind(db):
    """1, 1.0 and the decimal 1.00 are the level "1"; the text "1.0" is not."""
    correction = fitted(Groups(columns=["ward"]), PMCBoost.paper)
    assert correction.patterns.levels == (("1", "2", "3"),)
    kinds = [
        pa.array([1, 2, 3, 4, None], pa.int64()),
        pa.array(
            [1, 2, 3.5, 1e300, -0.0, float("nan"), None],
            pa.float64(),
            from_pandas=False,
        ),
        pa.array([1, 2, 3.5, None], pa.float32()),
        pa.array([Decimal("1.00"), Decimal("2.50"), None], pa.decimal128(9, 2)),
        texts("1", "1.0", "01", " 1", "2", None, "nan"),
    ]
    for values in kinds:
        assert_same(
            db, correction, combinations(ward=values), scores=np.linspace(0, 1, 50)
        )


def test_truths_are_levels(db):
    correction = fitted(Groups(columns=["icu"]), PMCBoost.paper)
    assert correction.patterns.levels == (("false", "true"),)
    for values in (pa.array([True, False, None]), texts("true", "false", "TRUE", None)):
        assert_same(
            db, correction, combinations(icu=values), scores=np.linspace(0, 1, 50)
        )


def test_the_text_true_is_meant_by_1_in_a_condition(db):
    groups = Groups(
        columns=[], where={"in care": "icu = 1", "not": "icu != 0"}, intersections=1
    )
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
    named = {
        f"condition {i}": text for i, text in enumerate(CONDITIONS[first : first + 6])
    }
    groups = Groups(columns=[], where=named, intersections=1)
    correction = fitted(groups, PMCBoost.paper, gamma=0.01, alpha=0.5, n_bins=2)
    for ward in (
        pa.array([1, 3, None], pa.int64()),
        texts("1", "01", "3", "3.0", None),
    ):
        table = combinations(
            race=texts("Asian", "Black", "x", None),
            icu=pa.array([True, False, None]),
            age=pa.array([29.9, 30.0, 41.3, np.inf, np.nan, None], from_pandas=False),
            ward=ward,
        )
        # SQLite has no truths, and the number 1 that "icu = 1" asks for may be just a
        # number
        types = (
            {"icu": "boolean"}
            if db.name == "sqlite" and "icu" in correction.reads
            else {}
        )
        assert_same(
            db,
            correction,
            table,
            scores=np.linspace(0, 1, 300),
            unseen="keep",
            types=types,
        )


def test_hostile_names_and_levels_are_only_names_and_levels(db):
    name, correction = hostile()
    assert set(correction.patterns.levels[0]) == set(HOSTILE)
    table = combinations(
        **{name: texts(*HOSTILE, None, "b"), "other\nname": texts("a", "b", "it's; \\")}
    )
    assert_same(db, correction, table, scores=np.linspace(0, 1, 200), unseen="keep")


def test_letters_count_whatever_the_collation_of_a_column(db):
    correction = fitted(Groups(columns=["race"]), PMCBoost.paper)
    table = each_with_every(
        combinations(race=texts("asian", "Asian", "BLACK", "Asian ")),
        np.linspace(0, 1, 50),
    )
    db.load("people", table)
    kinds = {"duckdb": "VARCHAR COLLATE NOCASE", "sqlite": "TEXT COLLATE NOCASE"}
    kind = kinds.get(db.name, "TEXT COLLATE blind")
    if db.name == "postgres":
        settings = "provider=icu, locale='und-u-ks-level2', deterministic=false"
        db.run(f"CREATE COLLATION IF NOT EXISTS blind ({settings})")
    if db.name == "spark":
        view = "CREATE OR REPLACE TEMPORARY VIEW blind"
        db.run(
            f"{view} AS SELECT id, risk, race COLLATE UTF8_LCASE AS race FROM people"
        )
    else:
        db.drop("blind")
        db.run(f"CREATE TABLE blind (id BIGINT, risk DOUBLE PRECISION, race {kind})")
        db.run("INSERT INTO blind SELECT id, risk, race FROM people")
    wanted = bits(correction.apply(table["risk"].to_numpy(), table))
    query = correction.to_sql(db.name, score="risk", table="blind", form="values").query
    assert bits([row[-1] for row in sorted(db.rows(query))]) == wanted


def test_columns_may_be_called_otherwise_and_their_kinds_be_said(embedded):
    correction = fitted(
        Groups(columns=["ward", "icu"], cuts={"age": [30]}), PMCBoost.paper, alpha=0.5
    )
    table = combinations(
        ward=texts("1", "2", "3", None),
        icu=pa.array([True, False, None]),
        age=pa.array([29.0, 30.0, None]),
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
        for form in ("lookup", "values"):
            export = correction.to_sql(embedded.name, score="risk", form=form)
            found = score_in(embedded, export, table)[1]
            assert bits(found) == bits(correction.apply(table["risk"].to_numpy()))


def test_numbers_are_written_so_that_the_same_double_is_read(embedded):
    dialect = DIALECTS[embedded.name]
    rng = np.random.default_rng(0)
    values = [
        0.1,
        -0.3,
        1 / 3,
        41.3,
        1e15 / 3,
        2.0**53,
        1e-5,
        -17.0,
        *rng.normal(size=200),
    ]
    for value in values:
        assert embedded.rows(
            f"SELECT CAST({dialect.literal(value)} AS {dialect.double})"
        ) == [(value,)]


WITH_POINTS = PointsTable(
    (
        FeaturePoints("age", (-9000, 11, 420), cuts=(30.0, 41.3), missing=-250),
        FeaturePoints(
            "race", (133, -77), levels=("Asian", "Black"), missing=5, other=-1
        ),
        FeaturePoints("icu", (-40, 310), cuts=(0.5,)),
        FeaturePoints("lab", (7, 0, -7), cuts=(-0.1, 1e-9)),
    )
)


@pytest.mark.parametrize("kind", ["smooth", "plain", "points alone"])
def test_points_between_the_curve_and_the_updates_are_the_same_to_the_last_bit(
    db, smooth, plain, small, kind
):
    base = {"smooth": smooth, "plain": plain, "points alone": small}[kind]
    base = small if db.name == "spark" else base
    if kind == "points alone":
        base = replace(base, start=None, updates=base.updates[:0])
    correction = replace(base, points=WITH_POINTS)
    lab = pa.array(np.resize([-0.1, 0.0, 1e-9, 2.5, np.nan, np.inf], PEOPLE.num_rows))
    people = PEOPLE.append_column("lab", lab)
    scores = np.random.default_rng(0).choice(edges(base), 700)
    types = {"icu": "boolean"} if db.name in ("sqlite", "postgres") else None
    unseen = "keep" if kind == "smooth" else "replay"
    assert_same(db, correction, people, unseen=unseen, scores=scores, types=types)
