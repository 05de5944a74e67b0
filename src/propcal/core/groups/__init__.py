"""Groups: which people belong together, defined by attributes, cut points or conditions."""
