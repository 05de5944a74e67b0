"""Databases for tests: each takes a pandas frame as a table and gives back the columns of a query."""

import sqlite3

import duckdb
import pandas as pd


class DuckDb:
    name = "duckdb"

    def __init__(self):
        self.connection = duckdb.connect()

    def load(self, table, frame):
        self.connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        self.connection.register("_frame", frame)
        self.connection.execute(f'CREATE TABLE "{table}" AS SELECT * FROM _frame')

    def run(self, statement):
        return self.connection.execute(statement)

    def rows(self, query):
        return self.connection.execute(query).fetchall()


class Sqlite(DuckDb):
    name = "sqlite"

    def __init__(self):
        self.connection = sqlite3.connect(":memory:")

    def load(self, table, frame):
        marks = ", ".join("?" * frame.shape[1])
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in frame.columns)
        self.connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        self.connection.execute(f'CREATE TABLE "{table}" ({names})')
        self.connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', _plain_rows(frame))


class Postgres(DuckDb):
    name = "postgres"
    types = {"f": "double precision", "i": "bigint", "b": "boolean"}

    def __init__(self, connection):
        self.connection = connection

    def load(self, table, frame):
        columns = ", ".join(
            '"' + name.replace('"', '""') + '" ' + self.types.get(frame[name].dtype.kind, "text")
            for name in frame.columns
        )
        self.connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        self.connection.execute(f'CREATE TABLE "{table}" ({columns})')
        with self.connection.cursor().copy(f'COPY "{table}" FROM STDIN') as copy:
            for row in _plain_rows(frame):
                copy.write_row(row)


class Spark(DuckDb):
    name = "spark"

    def __init__(self, session):
        self.connection = session

    def load(self, table, frame):
        self.connection.createDataFrame(frame).createOrReplaceTempView(table)

    def run(self, statement):
        return self.connection.sql(statement)

    def rows(self, query):
        return [tuple(row) for row in self.connection.sql(query).collect()]


def _plain_rows(frame):
    """Rows of Python objects; None where a text or a truth is missing."""
    columns = [
        [None if column.dtype.kind not in "fib" and pd.isna(v) else v for v in column.tolist()]
        for _, column in frame.items()
    ]
    return list(zip(*columns))
