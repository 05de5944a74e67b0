"""Exports a correction as SQL, so that a database can correct scores itself."""
