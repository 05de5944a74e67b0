"""Boosting (Algorithm 1 and what surrounds it): atoms in, correction out."""
