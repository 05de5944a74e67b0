"""Files that propcal writes: corrections, atoms, and tables with corrected scores."""
