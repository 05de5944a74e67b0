"""Reads and checks data: turns frames, arrays and files into columns and atoms.

- pandas, polars, Arrow, numpy, lists: `frames`, then `checked_people` and `rows`
- Spark, Dask, DuckDB, lazy polars: `engine_frames`, `engine_expressions`
- CSV, Parquet, Excel: `file_source`, `people_files`, `csv_parquet_excel`,
  `duckdb_setup`
- all of these by names of columns: `source`, `frame_arguments`
- over time: `dated_people`, `periods`
- to be scored by a correction: `rows_to_score`
- what columns hold: `levels`, `derived_columns`, `outcomes`, `patient_ids`,
  `role_columns`
"""
