"""Corrected scores for one person, for batches, for frames and for files."""
