"""Writes a correction as one file of Python, JavaScript or R that scores people without propcal."""
