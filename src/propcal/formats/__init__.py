"""Files that propcal writes: corrections, atoms, monitors and tables.

They are written whole or not at all.
"""
