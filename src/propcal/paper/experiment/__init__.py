"""Runs the paper's experiment on any cohort: columns, set-ups, settings, models, trials and their store."""
