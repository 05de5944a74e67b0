"""Doors in: what users hold -> checked arrays and atoms."""
