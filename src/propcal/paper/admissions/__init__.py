"""Runs the hospital-admission experiment: settings, base models, trials and their store."""
