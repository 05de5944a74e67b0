"""The paper's method, on arrays only: groups, bins, the boosting algorithm and the
correction it learns.

A few methods, such as `Atoms.from_frame` and `Correction.save`, lead to frames, files
and plots; they import what they need when they are called.
"""
