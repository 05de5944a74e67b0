"""Files that propcal writes: corrections, atoms, monitors and tables, all or
nothing.
"""
