"""A correction as SQL."""
