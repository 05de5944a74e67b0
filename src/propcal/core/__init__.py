"""The paper's method, on arrays only: atoms, groups, bins, boosting and corrections.

A few methods, such as `Atoms.from_frame` and `Correction.save`, lead to frames, files
and plots; they import what they need when they are called.
"""
