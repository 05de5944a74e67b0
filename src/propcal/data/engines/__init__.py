"""Frames of DuckDB, Spark, Dask and lazy polars: reduced to atoms by their own engine."""
