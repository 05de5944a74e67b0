"""Reads and checks data: turns frames, arrays and files into columns and atoms."""
