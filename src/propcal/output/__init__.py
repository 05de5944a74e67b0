"""Doors out: files and pictures."""
