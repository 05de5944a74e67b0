"""The paper: arrays in, arrays out. Frames, files and pictures are reached through a few methods only.

These methods, such as `Atoms.from_frame` and `Correction.save`, import what they call when they are called.
"""
