"""Writes results: files, SQL, JSON, the report, plots, and text for terminals and notebooks."""
