"""Runs the experiment: cohorts, base models, trials, and the store that keeps them."""
