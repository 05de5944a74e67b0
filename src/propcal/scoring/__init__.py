"""Corrected scores for one person, batches, frames and files.

The correction maps that give them are in `propcal.core.correction.maps`.
"""
