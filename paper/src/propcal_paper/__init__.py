"""Reproduces the paper's theory, simulation and experiment, and checks its claims."""
