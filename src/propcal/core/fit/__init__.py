"""Fitting: recalibration with a smooth curve, then the paper's Algorithm 1; atoms in,
correction out.
"""
