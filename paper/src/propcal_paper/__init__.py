"""Reproduces the paper's theory, simulation and hospital-admission experiment, and
checks its claims.
"""
