"""Frames of engines (DuckDB, Spark, Dask, lazy polars): reduced and scored where they are."""
