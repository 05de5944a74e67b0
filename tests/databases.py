"""Databases for tests: each takes an arrow table, and gives back the rows of a
query.
"""

import sqlite3
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

POSTGRES_TYPES = {
    "double": "double precision",
    "float": "real",
    "int64": "bigint",
    "bool": "boolean",
}


class DuckDb:
    name = "duckdb"

    def __init__(self):
        self.connection = duckdb.connect()

    def load(self, table, rows):
        self.drop(table)
        self.connection.register("_rows", rows)
        self.connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM _rows')

    def drop(self, table):
        self.connection.execute(f'DROP TABLE IF EXISTS "{table}"')

    def run(self, statement):
        return self.connection.execute(statement)

    def rows(self, query):
        return self.connection.execute(query).fetchall()


class Sqlite(DuckDb):
    name = "sqlite"

    def __init__(self):
        self.connection = sqlite3.connect(":memory:")

    def load(self, table, rows):
        names = ", ".join(
            '"' + name.replace('"', '""') + '"' for name in rows.column_names
        )
        self.drop(table)
        self.connection.execute(f'CREATE TABLE "{table}" ({names})')
        columns = [
            [
                float(value) if isinstance(value, Decimal) else value
                for value in column.to_pylist()
            ]
            for column in rows.columns
        ]
        marks = ", ".join("?" * len(columns))
        self.connection.executemany(
            f'INSERT INTO "{table}" VALUES ({marks})', zip(*columns)
        )


class Postgres(DuckDb):
    name = "postgres"

    def __init__(self, connection):
        self.connection = connection

    def load(self, table, rows):
        kinds = [POSTGRES_TYPES.get(str(kind), "text") for kind in rows.schema.types]
        kinds = [
            "numeric" if pa.types.is_decimal(t) else k
            for t, k in zip(rows.schema.types, kinds)
        ]
        quoted = ['"' + name.replace('"', '""') + '"' for name in rows.column_names]
        self.drop(table)
        self.connection.execute(
            f'CREATE TABLE "{table}" ({", ".join(map(" ".join, zip(quoted, kinds)))})'
        )
        with self.connection.cursor().copy(f'COPY "{table}" FROM STDIN') as copy:
            for row in zip(*[column.to_pylist() for column in rows.columns]):
                copy.write_row(row)


class Spark(DuckDb):
    name = "spark"

    def __init__(self, session):
        self.connection = session

    def load(self, table, rows):
        self.connection.createDataFrame(rows).createOrReplaceTempView(table)

    def drop(self, table):
        self.connection.sql(f"DROP VIEW IF EXISTS `{table}`")

    def run(self, statement):
        return self.connection.sql(statement)

    def rows(self, query):
        return [tuple(row) for row in self.connection.sql(query).collect()]


@pytest.fixture(params=["duckdb", "sqlite", "postgres", "spark"])
def db(request):
    """Each database in turn."""
    if request.param == "postgres":
        return Postgres(request.getfixturevalue("postgres"))
    if request.param == "spark":
        return Spark(request.getfixturevalue("spark"))
    return {"duckdb": DuckDb, "sqlite": Sqlite}[request.param]()
