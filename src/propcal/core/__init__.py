"""The paper: arrays in, arrays out. Knows no frames, files or screens."""
