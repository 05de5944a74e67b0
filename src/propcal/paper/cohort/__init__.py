"""Builds the hospital-admission cohort from the files of MIMIC-IV and MIMIC-IV-ED."""
