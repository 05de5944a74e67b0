"""A correction for places without propcal: as SQL, or as one file of a language."""
