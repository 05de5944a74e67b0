"""The relations between MC, PMC and DC, as numbers and figures."""
