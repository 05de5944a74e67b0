"""Fitting: a smooth recalibration, then Algorithm 1; atoms in, correction out."""
